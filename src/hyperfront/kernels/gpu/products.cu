// Products of small matrices on tensor cores, d += a b with a [16, 8] and b [8, 8] spread over a warp:
// with g = lane / 4 and t = lane % 4, a thread holds
//     a = (g, t) (g + 8, t) (g, t + 4) (g + 8, t + 4)      b = (t, g) (t + 4, g)
//     d = (g, 2 t) (g, 2 t + 1) (g + 8, 2 t) (g + 8, 2 t + 1)
//
// Tensor cores round the factors to TF32. EXACT splits each into a rounded part and what that leaves, and takes three
// products, which is as accurate as float32.

#ifndef EMULATED
__device__ __forceinline__ float rounded(float v) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
    return __uint_as_float(bits);
}

__device__ __forceinline__ void multiply(float (&d)[4], const float (&a)[4], const float (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}
#endif

// A factor as it is kept for products: rounded once, or whole if it is to be split.
__device__ __forceinline__ float factor(float v) { return EXACT ? v : rounded(v); }

__device__ __forceinline__ void product(float (&d)[4], const float (&a)[4], const float (&b)[2]) {
#if EXACT
    float high_a[4], low_a[4], high_b[2], low_b[2];
#pragma unroll
    for (int i = 0; i < 4; i++) high_a[i] = rounded(a[i]), low_a[i] = rounded(a[i] - high_a[i]);
#pragma unroll
    for (int i = 0; i < 2; i++) high_b[i] = rounded(b[i]), low_b[i] = rounded(b[i] - high_b[i]);
    multiply(d, low_a, high_b);
    multiply(d, high_a, low_b);
    multiply(d, high_a, high_b);
#else
    multiply(d, a, b);
#endif
}

// `count` numbers, at most MOST, from global memory to wherever `store(index, value)` puts them; several are on their way
// at a time.
template <int MOST, int BLOCK, class Value, class Store>
__device__ __forceinline__ void fetch(const Value* from, int count, Store store) {
    constexpr int EACH = (MOST + BLOCK - 1) / BLOCK, AHEAD = EACH < 10 ? EACH : 10;
    for (int start = 0; start < EACH; start += AHEAD) {
        Value value[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) value[i] = from[min((start + i) * BLOCK + (int)threadIdx.x, count - 1)];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int at = (start + i) * BLOCK + threadIdx.x;
            if (at < count) store(at, value[i]);
        }
    }
}
