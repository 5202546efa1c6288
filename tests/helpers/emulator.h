// A GPU in miniature, so that CUDA C can be tested without one: the threads of a block are contexts that take turns at
// barriers, and blocks run one after another.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <setjmp.h>
#include <ucontext.h>
#include <vector>

#define EMULATED 1
#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(n)
using std::max;
using std::min;

struct Three { int x, y, z; };
struct float2 { float x, y; };
struct uchar2 { unsigned char x, y; };
struct float4 { float x, y, z, w; };
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static float4 __ldcs(const float4* from) { return *from; }
static void __stcs(float4* to, float4 v) { *to = v; }
static Three threadIdx, blockIdx, blockDim, gridDim;

// ---- threads and barriers -------------------------------------------------------------------------------------------

struct Barrier {
    int threads = 0, waiting = 0, turn = 0;
    void check() { if (threads && waiting == threads) waiting = 0, turn++; }
};
struct Thread {  // begun by a context, which asks the kernel; then switched by jumps, which do not
    jmp_buf place;
    bool begun = false, done = false;
};
static const int STACK = 1 << 16;
static std::vector<std::unique_ptr<char[]>> stacks_;
static std::vector<Thread> threads_;
static std::vector<Barrier> warps_;
static Barrier block_;
static jmp_buf scheduler_;
static std::function<void()> program_;
static long progress_;

static void rest() {
    if (!_setjmp(threads_[threadIdx.x].place)) _longjmp(scheduler_, 1);
}

static void wait_at(Barrier& barrier) {
    const int turn = barrier.turn;
    barrier.waiting++;
    barrier.check();
    while (barrier.turn == turn) rest();
    progress_++;
}
static void __syncthreads() { wait_at(block_); }
static void __syncwarp() { wait_at(warps_[threadIdx.x / 32]); }

static void body() {
    program_();
    Barrier& warp = warps_[threadIdx.x / 32];
    threads_[threadIdx.x].done = true;
    progress_++;
    warp.threads--, warp.check(), block_.threads--, block_.check();
    rest();
}

static void go_on(int i) {
    if (_setjmp(scheduler_)) return;
    Thread& thread = threads_[i];
    if (thread.begun) _longjmp(thread.place, 1);
    thread.begun = true;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks_[i].get(), context.uc_stack.ss_size = STACK;
    makecontext(&context, body, 0);
    setcontext(&context);
}

static void launch(int gx, int gy, int size, std::function<void()> program) {
    program_ = program, gridDim = {gx, gy, 1}, blockDim = {size, 1, 1};
    for (int block = 0; block < gx * gy; block++) {
        threads_.clear(), threads_.resize(size), warps_.assign((size + 31) / 32, {}), block_ = {size};
        for (int i = 0; i < size; i++) warps_[i / 32].threads++;
        while ((int)stacks_.size() < size) stacks_.emplace_back(new char[STACK]);
        for (bool left = true; left;) {
            const long before = progress_;
            left = false;
            for (int i = 0; i < size; i++)
                if (!threads_[i].done) {
                    left = true, threadIdx = {i, 0, 0}, blockIdx = {block % gx, block / gx, 0};
                    go_on(i);
                }
            if (left && progress_ == before) abort();  // everyone waits for someone
        }
    }
}

// ---- what a warp does together --------------------------------------------------------------------------------------

static float lanes_[1024][6];

static float __shfl_xor_sync(unsigned, float value, int far) {
    const int me = threadIdx.x;
    lanes_[me][0] = value;
    __syncwarp();
    const float other = lanes_[me / 32 * 32 + (me % 32 ^ far)][0];
    __syncwarp();
    return other;
}

static float rounded(float v) {  // to 10 bits, as tensor cores do
    unsigned bits;
    memcpy(&bits, &v, 4);
    if ((bits >> 23 & 255) != 255) bits = (bits + 0x1000u) & ~0x1fffu;
    memcpy(&v, &bits, 4);
    return v;
}

static void multiply(float (&d)[4], const float (&a)[4], const float (&b)[2]) {
    const int me = threadIdx.x, first = me / 32 * 32, g = me % 32 / 4, t = me % 4;
    for (int i = 0; i < 4; i++) lanes_[me][i] = rounded(a[i]);
    for (int i = 0; i < 2; i++) lanes_[me][4 + i] = rounded(b[i]);
    __syncwarp();
    for (int e = 0; e < 4; e++)
        for (int k = 0; k < 8; k++)
            d[e] += lanes_[first + g * 4 + k % 4][e / 2 + k / 4 * 2] * lanes_[first + (2 * t + e % 2) * 4 + k % 4][4 + k / 4];
    __syncwarp();
}
