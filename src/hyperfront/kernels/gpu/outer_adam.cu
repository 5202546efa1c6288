// Adam's update of linear layers whose gradients are sums of a few outer products, which are never written down:
//
//     dW = sum_r g_r x_r^T,    db = sum_r g_r
//
// Compiled for R outer products and LAYERS layers of N0 x D0, N1 x D1, ...

struct Rates {
    float lr, share1, share2, root, epsilon, decay;  // the shares are 1 - beta

    __device__ void update(float& p, float& m, float& v, float slope) const {
        slope += decay * p;
        m += share1 * (slope - m);
        v += share2 * (slope * slope - v);
        p -= lr * m / (sqrtf(v) / root + epsilon);
    }
};

template <int WIDE>
struct __align__(4 * WIDE) Pack {
    float at[WIDE];
};

// Moments are not needed before the next step: reading and writing them past the cache leaves that to the weights.
__device__ __forceinline__ Pack<4> once(const Pack<4>* from) {
    const float4 v = __ldcs((const float4*)from);
    return {v.x, v.y, v.z, v.w};
}
__device__ __forceinline__ void keep(Pack<4>* to, Pack<4> v) {
    __stcs((float4*)to, make_float4(v.at[0], v.at[1], v.at[2], v.at[3]));
}
template <int WIDE>
__device__ __forceinline__ Pack<WIDE> once(const Pack<WIDE>* from) { return *from; }
template <int WIDE>
__device__ __forceinline__ void keep(Pack<WIDE>* to, Pack<WIDE> v) { *to = v; }

template <int N, int D>
__device__ void layer(
    float* __restrict__ w, float* __restrict__ wm, float* __restrict__ wv, float* __restrict__ b,
    float* __restrict__ bm, float* __restrict__ bv, const float* __restrict__ g, const float* __restrict__ x,
    const Rates& rates) {
    constexpr int WIDE = D % 4 == 0 ? 4 : D % 2 == 0 ? 2 : 1, PACKS = D / WIDE;
    typedef Pack<WIDE> Some;
    const int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
#pragma unroll 2
    for (int at = thread; at < N * PACKS; at += threads) {
        const int row = at / PACKS, column = at % PACKS;
        Some p = ((Some*)w)[at], m = once((Some*)wm + at), v = once((Some*)wv + at), slope = {};
#pragma unroll
        for (int r = 0; r < R; r++) {
            const float height = g[(long long)r * N + row];
            const Some in = ((const Some*)x)[r * PACKS + column];
#pragma unroll
            for (int i = 0; i < WIDE; i++) slope.at[i] += height * in.at[i];
        }
#pragma unroll
        for (int i = 0; i < WIDE; i++) rates.update(p.at[i], m.at[i], v.at[i], slope.at[i]);
        ((Some*)w)[at] = p;
        keep((Some*)wm + at, m);
        keep((Some*)wv + at, v);
    }
    for (int row = thread; row < N; row += threads) {
        float slope = 0.0f;
        for (int r = 0; r < R; r++) slope += g[(long long)r * N + row];
        rates.update(b[row], bm[row], bv[row], slope);
    }
}

#define TENSORS(i) \
    float *w##i, float *wm##i, float *wv##i, float *b##i, float *bm##i, float *bv##i, const float *g##i, const float *x##i
#define UPDATE(i) layer<N##i, D##i>(w##i, wm##i, wv##i, b##i, bm##i, bv##i, g##i, x##i, rates);

extern "C" __global__ void adam(
    const float* __restrict__ step, const float* __restrict__ lr, double log1, double log2, double share1, double share2,
    double epsilon, double decay, TENSORS(0)
#if LAYERS > 1
    , TENSORS(1)
#endif
#if LAYERS > 2
    , TENSORS(2)
#endif
#if LAYERS > 3
    , TENSORS(3)
#endif
) {
    // 1 - beta^count, where the difference would lose the digits that count: betas come as logarithms
    const float c1 = -expm1f(step[0] * (float)log1), c2 = -expm1f(step[0] * (float)log2);
    const Rates rates = {lr[0] / c1, (float)share1, (float)share2, sqrtf(c2), (float)epsilon, (float)decay};
    UPDATE(0)
#if LAYERS > 1
    UPDATE(1)
#endif
#if LAYERS > 2
    UPDATE(2)
#endif
#if LAYERS > 3
    UPDATE(3)
#endif
}
