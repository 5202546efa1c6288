// The MLP hypernetwork at a few rays, forth and back, and its Adam. All its matrices but the last are small; the last has
// a row for every generated weight.
//
//     e = r  or  (cos(pi r / 2), sin(pi r / 2)),   h1 = relu(W1 e + b1),   h2 = relu(W2 h1 + b2),   z = W3 h2 + b3
//     theta = W z + b
//
// Compiled for R rays of M entries and H features.

#define LANE (threadIdx.x % 32)
#define WARP (threadIdx.x / 32)
#define PER_LANE ((H + 31) / 32)

// ---- features: a block for a ray, 32 warps that hold both square matrices from the start ----------------------------

#ifdef FEATURES
#define D (ENCODE ? 2 * M : M)
struct Square {
    float row[PER_LANE][PER_LANE];  // rows WARP, WARP + 32, ..., and of each the columns LANE, LANE + 32, ...

    __device__ void load(const float* w) {
#pragma unroll
        for (int i = 0; i < PER_LANE; i++)
#pragma unroll
            for (int k = 0; k < PER_LANE; k++) {
                const int y = WARP + 32 * i, x = LANE + 32 * k;
                row[i][k] = y < H && x < H ? w[y * H + x] : 0.0f;
            }
    }

    template <class Store>
    __device__ void times(const float* h, const float* b, Store store) const {
#pragma unroll
        for (int i = 0; i < PER_LANE; i++) {
            float sum = 0.0f;
#pragma unroll
            for (int k = 0; k < PER_LANE; k++)
                if (LANE + 32 * k < H) sum += row[i][k] * h[LANE + 32 * k];
#pragma unroll
            for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffff, sum, far);
            const int y = WARP + 32 * i;
            if (LANE == 0 && y < H) store(y, sum + b[y]);
        }
    }
};

extern "C" __global__ void __launch_bounds__(1024) features(
    const float* __restrict__ rays, const float* __restrict__ w1, const float* __restrict__ b1,
    const float* __restrict__ w2, const float* __restrict__ b2, const float* __restrict__ w3,
    const float* __restrict__ b3, float* __restrict__ e, float* __restrict__ h1, float* __restrict__ h2,
    float* __restrict__ z) {
    __shared__ float in[D], first[H], second[H];
    const int ray = blockIdx.x, i = threadIdx.x;
    Square two, three;
    two.load(w2);
    three.load(w3);
    if (i < D) {
        const float angle = 1.5707963267948966f * rays[ray * M + i % M];
        in[i] = e[ray * D + i] = !ENCODE ? rays[ray * M + i] : i < M ? cosf(angle) : sinf(angle);
    }
    __syncthreads();
    if (i < H) {
        float sum = b1[i];
        for (int k = 0; k < D; k++) sum += w1[i * D + k] * in[k];
        first[i] = h1[ray * H + i] = sum < 0.0f ? 0.0f : sum;
    }
    __syncthreads();
    two.times(first, b2, [&](int y, float sum) { second[y] = h2[ray * H + y] = sum < 0.0f ? 0.0f : sum; });
    __syncthreads();
    three.times(second, b3, [&](int y, float sum) { z[ray * H + y] = sum; });
}
#endif

// ---- theta: a warp for a row of W, lanes along the features ---------------------------------------------------------

#ifdef THETA
#define AHEAD 4  // rows that a warp reads at a time
extern "C" __global__ void theta(
    const float* __restrict__ z, const float* __restrict__ w, const float* __restrict__ b, float* __restrict__ out,
    int n) {
    const int warps = gridDim.x * (blockDim.x / 32);
    float features[R][PER_LANE];
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int k = 0; k < PER_LANE; k++) features[r][k] = LANE + 32 * k < H ? z[r * H + LANE + 32 * k] : 0.0f;
    for (int first = (blockIdx.x * (blockDim.x / 32) + WARP) * AHEAD; first < n; first += warps * AHEAD) {
        float row[AHEAD][PER_LANE];
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
#pragma unroll
            for (int k = 0; k < PER_LANE; k++)
                row[a][k] = first + a < n && LANE + 32 * k < H ? w[(long long)(first + a) * H + LANE + 32 * k] : 0.0f;
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
#pragma unroll
            for (int r = 0; r < R; r++) {
                float sum = 0.0f;
#pragma unroll
                for (int k = 0; k < PER_LANE; k++) sum += row[a][k] * features[r][k];
#pragma unroll
                for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffff, sum, far);
                if (LANE == r % 32 && first + a < n) out[(long long)r * n + first + a] = sum + b[first + a];
            }
    }
}
#endif

// ---- back: dz = g W, of which every block adds up some rows; then a block for each ray goes through the features ----

#ifdef BACK
#define WARPS 8
extern "C" __global__ void back(
    const float* __restrict__ g, const float* __restrict__ w, float* __restrict__ partial, int n, int rows) {
    __shared__ float sums[WARPS * R * H];
    const int end = min(n, (int)(blockIdx.x + 1) * rows);
    float z[R][PER_LANE] = {};
#pragma unroll 4
    for (int i = blockIdx.x * rows + WARP; i < end; i += WARPS) {
#pragma unroll
        for (int k = 0; k < PER_LANE; k++) {
            const float v = LANE + 32 * k < H ? w[(long long)i * H + LANE + 32 * k] : 0.0f;
#pragma unroll
            for (int r = 0; r < R; r++) z[r][k] += g[(long long)r * n + i] * v;
        }
    }
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int k = 0; k < PER_LANE; k++)
            if (LANE + 32 * k < H) sums[(WARP * R + r) * H + LANE + 32 * k] = z[r][k];
    __syncthreads();
    for (int at = threadIdx.x; at < R * H; at += blockDim.x) {
        float sum = 0.0f;
#pragma unroll
        for (int other = 0; other < WARPS; other++) sum += sums[other * R * H + at];
        partial[(long long)blockIdx.x * (R * H) + at] = sum;
    }
}

#endif

#ifdef BACK_FEATURES
#define PARTS (1024 / H)         // of the 1024 threads for each of H columns
#define EACH ((H + PARTS - 1) / PARTS)

// h [H] -> W^T h, with the rows PART, PART + PARTS, ... of W in the thread of a column
__device__ float transposed(const float (&column)[EACH], const float* h, float* sums) {
    const int part = threadIdx.x / H;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < EACH; i++)
        if (part + PARTS * i < H) sum += column[i] * h[part + PARTS * i];
    __syncthreads();
    if (part < PARTS) sums[threadIdx.x] = sum;
    __syncthreads();
    float all = 0.0f;
    if (threadIdx.x < H)
        for (int other = 0; other < PARTS; other++) all += sums[other * H + threadIdx.x];
    return all;
}

extern "C" __global__ void __launch_bounds__(1024) back_features(
    const float* __restrict__ partial, const float* __restrict__ w2, const float* __restrict__ w3,
    const float* __restrict__ h1, const float* __restrict__ h2, float* __restrict__ g3, float* __restrict__ g2,
    float* __restrict__ g1, int blocks) {
    __shared__ float sums[1024], slope[H];
    const int part = threadIdx.x / H, k = threadIdx.x % H;
    float two[EACH], three[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int row = part + PARTS * i;
        two[i] = part < PARTS && row < H ? w2[row * H + k] : 0.0f;
        three[i] = part < PARTS && row < H ? w3[row * H + k] : 0.0f;
    }
    const int r = blockIdx.x;
    float sum = 0.0f;
    if (part < PARTS)
#pragma unroll 8
        for (int block = part; block < blocks; block += PARTS) sum += partial[((long long)block * R + r) * H + k];
    if (part < PARTS) sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x < H) {
        float all = 0.0f;
        for (int other = 0; other < PARTS; other++) all += sums[other * H + threadIdx.x];
        slope[k] = g3[r * H + k] = all;
    }
    __syncthreads();
    const float below = transposed(three, slope, sums);
    if (threadIdx.x < H) slope[k] = g2[r * H + k] = h2[r * H + k] > 0.0f ? below : 0.0f;
    __syncthreads();
    const float lowest = transposed(two, slope, sums);
    if (threadIdx.x < H) g1[r * H + k] = h1[r * H + k] > 0.0f ? lowest : 0.0f;
}
#endif
