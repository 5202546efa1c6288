// y = relu(x W^T + b) and its gradients on tensor cores, for layers too small to fill a GPU.
//
// Compiled for N outputs and D inputs; RELU is 0 or 1. Shapes: x [rays or 1, m, D], w [rays, N, D], b [rays, N], and for
// the gradients several cotangents g [J, rays, m, N]. A block has 8 warps; sums are taken in a fixed order.

#define LANE (threadIdx.x % 32)
#define WARP (threadIdx.x / 32)
#define WARPS 8

// A factor, or 0 where there is none. It is read all the same, from somewhere else, since a branch would wait for each.
__device__ __forceinline__ float masked(bool real, float v) {
    const float kept = factor(v);
    return real ? kept : 0.0f;
}

// ---- forward: a block for 16 rows and 8 outputs, its warps share the inputs -----------------------------------------

#ifdef FORWARD
extern "C" __global__ void forward(
    const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b, float* __restrict__ y,
    int m, int x_ray) {
    __shared__ float sums[WARPS][128];
    const int ray = blockIdx.y, g = LANE / 4, t = LANE % 4, tiles = (N + 7) / 8;
    const int row = blockIdx.x / tiles * 16, n = blockIdx.x % tiles * 8;
    x += (long long)ray * x_ray;
    w += (long long)ray * (N * D);
    float z[4] = {};
#pragma unroll 4
    for (int start = WARP * 8; start < D; start += WARPS * 8) {
        float a[4], v[2];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int r = row + g + i % 2 * 8, d = start + t + i / 2 * 4;
            a[i] = masked(r < m && d < D, x[min(r, m - 1) * D + min(d, D - 1)]);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int d = start + t + i * 4;
            v[i] = masked(n + g < N && d < D, w[min(n + g, N - 1) * D + min(d, D - 1)]);
        }
        product(z, a, v);
    }
#pragma unroll
    for (int e = 0; e < 4; e++) sums[WARP][(g + e / 2 * 8) * 8 + 2 * t + e % 2] = z[e];
    __syncthreads();
    const int r = row + threadIdx.x / 8, output = n + threadIdx.x % 8;
    if (threadIdx.x >= 128 || r >= m || output >= N) return;
    float found = b[ray * N + output];
#pragma unroll
    for (int other = 0; other < WARPS; other++) found += sums[other][threadIdx.x];
    y[((long long)ray * m + r) * N + output] = RELU && found < 0.0f ? 0.0f : found;  // not max, which would hide a NaN
}

#endif

#ifdef BACKWARD
// The gradient before the ReLU.
__device__ __forceinline__ float slope(const float* g, const float* y, int m, int row, int n) {
    const int at = min(row, m - 1) * N + min(n, N - 1);
    return masked(row < m && n < N && (!RELU || y[at] > 0.0f), g[at]);
}

// ---- backward: the first blocks make dx, the others dw and, as the gradient of one more input that is 1, db ---------

#define TILES 2   // of 8 inputs in a warp, for dx
#define WIDTH 32  // inputs of a block, for dw

extern "C" __global__ void backward(
    const float* __restrict__ g, const float* __restrict__ y, const float* __restrict__ x, const float* __restrict__ w,
    float* __restrict__ dx, float* __restrict__ dw, float* __restrict__ db, int m, int x_ray, int rays, int inputs) {
    const int ray = blockIdx.y % rays, lane_g = LANE / 4, t = LANE % 4;  // blockIdx.y / rays is the cotangent
    g += (long long)blockIdx.y * m * N;
    y += (long long)ray * m * N;
    if (blockIdx.x < inputs) {  // dx[row, d] = sum_n g[row, n] w[n, d]
        const int pieces = (D + WARPS * TILES * 8 - 1) / (WARPS * TILES * 8);
        const int row = blockIdx.x / pieces * 16, d0 = (blockIdx.x % pieces * WARPS + WARP) * (TILES * 8);
        w += (long long)ray * (N * D);
        float z[TILES][4] = {};
#pragma unroll 4
        for (int start = 0; start < N; start += 8) {
            float a[4];
#pragma unroll
            for (int i = 0; i < 4; i++) a[i] = slope(g, y, m, row + lane_g + i % 2 * 8, start + t + i / 2 * 4);
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                const int d = d0 + tile * 8 + lane_g;
                float v[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int n = start + t + i * 4;
                    v[i] = masked(n < N && d < D, w[min(n, N - 1) * D + min(d, D - 1)]);
                }
                product(z[tile], a, v);
            }
        }
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int r = row + lane_g + e / 2 * 8, d = d0 + tile * 8 + 2 * t + e % 2;
                if (r < m && d < D) dx[((long long)blockIdx.y * m + r) * D + d] = z[tile][e];
            }
        return;
    }
    // dw[n, d] = sum over rows of g[row, n] x[row, d]; the warps share the rows
    __shared__ float sums[WARPS][16 * WIDTH];
    const int pieces = D / WIDTH + 1, n0 = (blockIdx.x - inputs) / pieces * 16, d0 = (blockIdx.x - inputs) % pieces * WIDTH;
    x += (long long)ray * x_ray;
    float z[WIDTH / 8][4] = {};
#pragma unroll 4
    for (int start = WARP * 8; start < m; start += WARPS * 8) {
        float a[4];
#pragma unroll
        for (int i = 0; i < 4; i++) a[i] = slope(g, y, m, start + t + i / 2 * 4, n0 + lane_g + i % 2 * 8);
#pragma unroll
        for (int tile = 0; tile < WIDTH / 8; tile++) {
            const int d = d0 + tile * 8 + lane_g;
            float v[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int r = start + t + i * 4;
                const float in = masked(r < m, x[min(r, m - 1) * D + min(d, D - 1)]);
                v[i] = d < D || r >= m ? in : 1.0f;
            }
            product(z[tile], a, v);
        }
    }
#pragma unroll
    for (int tile = 0; tile < WIDTH / 8; tile++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            sums[WARP][(lane_g + e / 2 * 8) * WIDTH + tile * 8 + 2 * t + e % 2] = z[tile][e];
    __syncthreads();
    for (int at = threadIdx.x; at < 16 * WIDTH; at += blockDim.x) {
        const int n = n0 + at / WIDTH, d = d0 + at % WIDTH;
        float found = 0.0f;
#pragma unroll
        for (int other = 0; other < WARPS; other++) found += sums[other][at];
        if (n < N && d < D) dw[((long long)blockIdx.y * N + n) * D + d] = found;
        if (n < N && d == D) db[(long long)blockIdx.y * N + n] = found;
    }
}
#endif
