// max_pool2d(relu(conv2d(x, w, b)), 2) and its gradients, for images that fit into shared memory, on tensor cores.
//
// Compiled for one shape: C channels of H x W, N filters of K x K, P x Q pooled pixels; B images and THREADS in a block.
// A pooled pixel is the largest of
// four convolutions, its phases (0,0) (0,1) (1,0) (1,1); which one won is kept in a byte, 4 if the ReLU is closed.

#define PQ (P * Q)
#define TAPS (C * K * K)
#define SPREAD(n) (((n) + 7) / 8 * 8 + ((n) + 7) / 8 % 2 * -8 + 8)  // the next odd multiple of 8: rows in other banks
#define UP(n, multiple) (((n) + (multiple) - 1) / (multiple))

// Rows of an image lie ROW apart in shared memory, so that neighbours in two rows are in different banks.
#define ROW (W % 32 >= 10 && W % 32 <= 22 ? W : (W + 15) / 32 * 32 + 16)
#define IMAGE (C * H * ROW)

#define LANE (threadIdx.x % 32)
#define WARP (threadIdx.x / 32)

__device__ __forceinline__ int tap_place(int tap) { return tap / (K * K) * (H * ROW) + tap % (K * K) / K * ROW + tap % K; }
__device__ __forceinline__ int phase_place(int phase) { return (phase >> 1) * ROW + (phase & 1); }
__device__ __forceinline__ int corner(int pixel) { return pixel / Q * 2 * ROW + pixel % Q * 2; }

#if defined(FORWARD) || defined(WEIGHT)
__device__ __forceinline__ void load_images(float* xs, const float* x, int count) {
    fetch<B * C * H * W, THREADS>(x, count * (C * H * W), [&](int at, float v) {
        xs[ROW == W ? at : at / W * ROW + at % W] = factor(v);
    });
}
#endif

// ---- forward: a warp for 16 pooled pixels, their phases in one thread -----------------------------------------------
//
//     z_p[pixel, n] = sum over taps of x[corner + tap + p] w[n, tap],    y = relu(max_p z_p + b)

#ifdef FORWARD
#define STEPS UP(TAPS, 8)
#define TILES UP(N, 8)
#define WIDE SPREAD(N)
extern "C" __global__ void forward(
    const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b,
    float* __restrict__ y, unsigned char* __restrict__ phase, int images, int x_ray) {
    __shared__ float xs[B * IMAGE], ws[STEPS * 8 * WIDE];
    __shared__ int places[STEPS * 8];
    const int ray = blockIdx.y, first = blockIdx.x * B, count = min(B, images - first), g = LANE / 4, t = LANE % 4;
    load_images(xs, x + (long long)ray * x_ray + (long long)first * (C * H * W), count);
    fetch<N * TAPS, THREADS>(w + (long long)ray * (N * TAPS), N * TAPS, [&](int at, float v) {
        ws[at % TAPS * WIDE + at / TAPS] = factor(v);
    });
    for (int at = TAPS * WIDE + threadIdx.x; at < STEPS * 8 * WIDE; at += THREADS) ws[at] = 0.0f;
    for (int tap = threadIdx.x; tap < STEPS * 8; tap += THREADS) places[tap] = tap < TAPS ? tap_place(tap) : 0;
    __syncthreads();

    for (int group = WARP * 16; group < count * PQ; group += THREADS / 2) {
        const int pixel[2] = {group + g, group + g + 8};
        int from[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int real = min(pixel[i], count * PQ - 1);
            from[i] = real / PQ * IMAGE + corner(real % PQ);
        }
        float z[4][TILES][4] = {};
#pragma unroll 1
        for (int step = 0; step < STEPS; step++) {
            const int k = step * 8 + t, near = places[k], far = places[k + 4];
            float v[TILES][2];
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                v[tile][0] = ws[k * WIDE + tile * 8 + g];
                v[tile][1] = ws[(k + 4) * WIDE + tile * 8 + g];
            }
#pragma unroll
            for (int p = 0; p < 4; p++) {
                const float* at = xs + phase_place(p);
                const float a[4] = {at[from[0] + near], at[from[1] + near], at[from[0] + far], at[from[1] + far]};
#pragma unroll
                for (int tile = 0; tile < TILES; tile++) product(z[p][tile], a, v[tile]);
            }
        }
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int n = tile * 8 + 2 * t + i % 2, here = pixel[i / 2];
                if (n >= N || here >= count * PQ) continue;
                float best = z[0][tile][i];
                int won = 0;
#pragma unroll
                for (int p = 1; p < 4; p++)
                    if (z[p][tile][i] > best) best = z[p][tile][i], won = p;
                best += b[ray * N + n];
                const long long to = (((long long)ray * images + first + here / PQ) * N + n) * PQ + here % PQ;
                y[to] = best < 0.0f ? 0.0f : best;  // not max, which would hide a NaN
                phase[to] = best > 0.0f ? won : 4;
            }
    }
}
#endif

// ---- gradient of weights and biases: M is cotangent and filter, N the taps ------------------------------------------
//
//     dw[n, tap] = sum over pixels and phases of g[n, pixel] [phase won] x[corner + tap + phase]
//
// Two pixels with four phases each make one product. GROUPS of warps share the pixels, PARTS the taps.

#ifdef WEIGHT
#define ROWS (J * N)
#define HIGH UP(ROWS, 16)
#define COLUMNS (TAPS + 1)  // the last is the bias
#define TILES UP(UP(TAPS, 8), PARTS)  // of 8 taps, in each warp
#define PAIRS UP(PQ, 2)
#define LOADED (B * (IMAGE + ROWS * PAIRS * 2))
#define SUMS (UP(GROUPS, 2) * ROWS * COLUMNS)

// Where pixel `at` of some images lies if each has an even number of them.
__device__ __forceinline__ int in_pairs(int at) { return PQ % 2 ? at / PQ * (PQ + 1) + at % PQ : at; }

// f(row, column, sum) for every sum of a thread.
template <class F>
__device__ __forceinline__ void each_sum(float (&z)[HIGH][TILES][4], float (&bias)[HIGH][2], int part, F f) {
#pragma unroll
    for (int h = 0; h < HIGH; h++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int m = h * 16 + half * 8 + LANE / 4;
            if (m >= ROWS) continue;
#pragma unroll
            for (int i = 0; i < TILES * 2; i++) {
                const int tap = (part * TILES + i / 2) * 8 + 2 * (LANE % 4) + i % 2;
                if (tap < TAPS) f(m, tap, z[h][i / 2][half * 2 + i % 2]);
            }
            if (part == 0 && LANE % 4 == 0) f(m, TAPS, bias[h][half]);
        }
}

extern "C" __global__ void weight(
    const float* __restrict__ x, const float* __restrict__ g, const unsigned char* __restrict__ phase,
    float* __restrict__ partial, int images, int x_ray, int rays) {
    __shared__ __align__(16) float memory[LOADED > SUMS ? LOADED : SUMS];
    __shared__ __align__(4) unsigned char won[B * N * PAIRS * 2];
    float *slopes = memory, *xs = memory + B * ROWS * PAIRS * 2;
    const int ray = blockIdx.y % rays, set = blockIdx.y / rays, lane_g = LANE / 4, t = LANE % 4;
    const int part = WARP % PARTS, group = WARP / PARTS;
    const long long stride = (long long)rays * images * (N * PQ);
    x += (long long)ray * x_ray;
    g += set * J * stride + (long long)ray * images * (N * PQ);
    phase += (long long)ray * images * (N * PQ);

    const int first = blockIdx.x * B, count = min(B, images - first);
    load_images(xs, x + (long long)first * (C * H * W), count);
    for (int j = 0; j < J; j++)
        fetch<B * N * PQ, THREADS>(g + j * stride + (long long)first * (N * PQ), count * (N * PQ), [&](int at, float v) {
            const int image = B > 1 ? at / (N * PQ) : 0;
            slopes[(image * J + j) * (N * PAIRS * 2) + in_pairs(at - image * (N * PQ))] = factor(v);
        });
    fetch<B * N * PQ, THREADS>(phase + (long long)first * (N * PQ), count * (N * PQ), [&](int at, unsigned char which) {
        won[in_pairs(at)] = which;
    });
    if (PQ % 2)  // half a pair
        for (int m = threadIdx.x; m < B * ROWS; m += THREADS) {
            slopes[m * (PAIRS * 2) + PQ] = 0.0f;
            won[m % (B * N) * (PAIRS * 2) + PQ] = 4;
        }
    int place[TILES], row[HIGH][2];
#pragma unroll
    for (int i = 0; i < TILES; i++) {
        const int tap = (part * TILES + i) * 8 + lane_g;
        place[i] = (tap < TAPS ? tap_place(tap) : 0) + phase_place(t);
    }
#pragma unroll
    for (int h = 0; h < HIGH; h++)
#pragma unroll
        for (int i = 0; i < 2; i++) row[h][i] = min(h * 16 + i * 8 + lane_g, ROWS - 1);
    __syncthreads();

    float z[HIGH][TILES][4] = {}, bias[HIGH][2] = {};
#pragma unroll 1
    for (int at = group; at < count * PAIRS; at += GROUPS) {
        const int image = B > 1 ? at / PAIRS : 0, pair = at - image * PAIRS;
        float a[HIGH][4];
#pragma unroll
        for (int h = 0; h < HIGH; h++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float2 slope = ((const float2*)slopes)[(image * ROWS + row[h][i]) * PAIRS + pair];
                const uchar2 which = ((const uchar2*)won)[(image * N + row[h][i] % N) * PAIRS + pair];
                a[h][i] = which.x == t ? slope.x : 0.0f;
                a[h][i + 2] = which.y == t ? slope.y : 0.0f;
                bias[h][i] += a[h][i] + a[h][i + 2];
            }
        const float* in = xs + image * IMAGE;
        const float *one = in + corner(pair * 2), *two = in + corner(min(pair * 2 + 1, PQ - 1));
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            const float v[2] = {one[place[i]], two[place[i]]};
#pragma unroll
            for (int h = 0; h < HIGH; h++) product(z[h][i], a[h], v);
        }
    }
#pragma unroll
    for (int h = 0; h < HIGH; h++)
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int far = 1; far < 4; far *= 2) bias[h][i] += __shfl_xor_sync(0xffffffff, bias[h][i], far);

    // Half of the groups hand their sums to the other half until one has them all: always in the same order.
#pragma unroll 1
    for (int left = GROUPS / 2; left > 0; left /= 2) {
        __syncthreads();
        float* sums = memory + (group - left) * (ROWS * COLUMNS);
        if (group >= left && group < 2 * left)
            each_sum(z, bias, part, [&](int m, int tap, float& sum) { sums[m * COLUMNS + tap] = sum; });
        __syncthreads();
        sums = memory + group * (ROWS * COLUMNS);
        if (group < left)
            each_sum(z, bias, part, [&](int m, int tap, float& sum) { sum += sums[m * COLUMNS + tap]; });
    }
    if (group > 0) return;
    float* out = partial + (((long long)set * J * rays + ray) * gridDim.x + blockIdx.x) * (N * COLUMNS);
    const long long next = (long long)rays * gridDim.x * (N * COLUMNS);  // cotangent
    each_sum(z, bias, part, [&](int m, int tap, float& sum) { out[m / N * next + m % N * COLUMNS + tap] = sum; });
}

#endif

// What the blocks found, added up: 32 numbers of one cotangent and ray in a block, and 8 threads for each.

#ifdef WEIGHT_SUM
extern "C" __global__ void weight_sum(
    const float* __restrict__ partial, float* __restrict__ dw, float* __restrict__ db, int blocks) {
    __shared__ float sums[8][32];
    const int size = N * (TAPS + 1), at = blockIdx.x * 32 + LANE;
    const float* from = partial + (long long)blockIdx.y * blocks * size;
    float z = 0.0f;
    if (at < size)
        for (int block = WARP; block < blocks; block += 8) z += from[(long long)block * size + at];
    sums[WARP][LANE] = z;
    __syncthreads();
    if (WARP > 0 || at >= size) return;
    for (int other = 1; other < 8; other++) z += sums[other][LANE];
    const int n = at / (TAPS + 1), tap = at % (TAPS + 1);
    if (tap < TAPS) dw[((long long)blockIdx.y * N + n) * TAPS + tap] = z;
    else db[(long long)blockIdx.y * N + n] = z;
}
#endif

// ---- gradient of the input: PIECES blocks for an image, a warp for 32 of its pixels ---------------------------------
//
//     dx[c, y, x] = sum over n, i, j of  G[n, y - i, x - j]  w[n, c, i, j],    G = g where a phase won, else 0
//
// SOME filters at a time, so that G, with a margin of zeros, and their weights fit into shared memory.

#ifdef INPUT
#define TALL (H + K - 1)
#define LONG (W + K - 1)
#define STEPS UP(SOME * K * K, 8)
#define TILES UP(C, 8)
#define WIDE SPREAD(C)
extern "C" __global__ void input(
    const float* __restrict__ w, const float* __restrict__ g, const unsigned char* __restrict__ phase,
    float* __restrict__ dx, int images, int rays) {
    __shared__ __align__(16) float slopes[UP(SOME * TALL * LONG, 4) * 4];
    __shared__ float ws[STEPS * 8 * WIDE];
    __shared__ int places[STEPS * 8];
    const int image = blockIdx.x / PIECES, ray = blockIdx.y % rays, lane_g = LANE / 4, t = LANE % 4;
    const int start = (blockIdx.x % PIECES * (THREADS / 32) + WARP) * 32;
    g += ((long long)blockIdx.y * images + image) * (N * PQ);
    phase += ((long long)ray * images + image) * (N * PQ);
    for (int k = threadIdx.x; k < STEPS * 8; k += THREADS)
        places[k] = k < SOME * K * K ? k / (K * K) * (TALL * LONG) - k % (K * K) / K * LONG - k % K : 0;
    for (int at = SOME * K * K * WIDE + threadIdx.x; at < STEPS * 8 * WIDE; at += THREADS) ws[at] = 0.0f;
    int from[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int pixel = min(start + i * 8 + lane_g, H * W - 1);
        from[i] = (pixel / W + K - 1) * LONG + pixel % W + K - 1;
    }
    float z[2][TILES][4] = {};
    for (int n0 = 0; n0 < N; n0 += SOME) {
        const int count = min(SOME, N - n0);  // where that is fewer, the slopes of the others are zero
        __syncthreads();
        for (int at = threadIdx.x; at < UP(SOME * TALL * LONG, 4); at += THREADS) ((float4*)slopes)[at] = {};
        __syncthreads();
        fetch<SOME * TAPS, THREADS>(w + ((long long)ray * N + n0) * TAPS, count * TAPS, [&](int at, float v) {
            ws[(at / TAPS * (K * K) + at % (K * K)) * WIDE + at % TAPS / (K * K)] = factor(v);
        });
        fetch<SOME * PQ, THREADS>(g + n0 * PQ, count * PQ, [&](int at, float v) {
            const int pixel = at % PQ, won = phase[n0 * PQ + at];
            const int y = pixel / Q * 2 + (won >> 1 & 1) + K - 1, x = pixel % Q * 2 + (won & 1) + K - 1;
            if (won < 4) slopes[at / PQ * (TALL * LONG) + y * LONG + x] = factor(v);
        });
        __syncthreads();
#pragma unroll 2
        for (int step = 0; step < STEPS; step++) {
            const int k = step * 8 + t, near = places[k], far = places[k + 4];
            float v[TILES][2];
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                v[tile][0] = ws[k * WIDE + tile * 8 + lane_g];
                v[tile][1] = ws[(k + 4) * WIDE + tile * 8 + lane_g];
            }
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int a0 = from[half * 2], a1 = from[half * 2 + 1];
                const float a[4] = {slopes[a0 + near], slopes[a1 + near], slopes[a0 + far], slopes[a1 + far]};
#pragma unroll
                for (int tile = 0; tile < TILES; tile++) product(z[half][tile], a, v[tile]);
            }
        }
    }
    dx += ((long long)blockIdx.y * images + image) * (C * H * W);
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int pixel = start + half * 16 + e / 2 * 8 + lane_g, c = tile * 8 + 2 * t + e % 2;
                if (pixel < H * W && c < C) dx[c * (H * W) + pixel] = z[half][tile][e];
            }
}
#endif
