/* What the order of a running sum costs on a GPU: segments of 32 elements (Stax's order) against
   blocks of 1024, each with the totals of its segments scanned by the same rule, and a plain copy
   as the floor. Bits are compared with the same rule on the CPU. nvcc -O3 --fmad=false -arch=native
   tools/bench/scan_order.cu -o scan_order && ./scan_order A thread takes one segment, from shared
   memory; a block takes a tile of segments. A line longer than a tile takes three launches: totals,
   their scan, and the result. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include <algorithm>

#define TRY(call)                                                      \
    do {                                                               \
        cudaError_t e = (call);                                        \
        if (e != cudaSuccess) {                                        \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e)); \
            exit(1);                                                   \
        }                                                              \
    } while (0)

/* Banks: segments of 32 would all begin in the same one. */
__host__ __device__ static int slot(int i) { return i + i / 32; }

/* a[0..n) in shared memory becomes its running sum by the rule; all threads of the block call it.
 */
template <int S>
__device__ static void scan_rule(float *a, int n, float *totals) {
    int segments = (n + S - 1) / S;
    for (int s = threadIdx.x; s < segments; s += blockDim.x) {
        float sum = a[slot(s * S)];
        int end = min(S, n - s * S);
        for (int i = 1; i < end; i++) a[slot(s * S + i)] = sum = sum + a[slot(s * S + i)];
        totals[slot(s)] = sum;
    }
    __syncthreads();
    if (segments == 1) return;
    if (segments > S)
        scan_rule<S>(totals, segments, totals + slot(segments) + 1);
    else if (threadIdx.x == 0)
        for (int s = 1; s < segments; s++) totals[slot(s)] = totals[slot(s - 1)] + totals[slot(s)];
    __syncthreads();
    for (int i = threadIdx.x + S; i < n; i += blockDim.x)
        a[slot(i)] = totals[slot(i / S - 1)] + a[slot(i)];
    __syncthreads();
}

/* Each segment of a[0..n) by itself. */
template <int S>
__device__ static void scan_segments(float *a, int n) {
    for (int s = threadIdx.x; s * S < n; s += blockDim.x) {
        float sum = a[slot(s * S)];
        int end = min(S, n - s * S);
        for (int i = 1; i < end; i++) a[slot(s * S + i)] = sum = sum + a[slot(s * S + i)];
    }
    __syncthreads();
}

/* Tile b of a line of n by itself: the whole scan of a line of one tile, or the total of each unit:
   of the tile, S x S elements, or of its segments. */
template <int S>
__global__ void tiles(const float *x, float *y, long long n, int tile, int unit, float *total) {
    extern __shared__ float a[];
    long long line = blockIdx.y, first = (long long)blockIdx.x * tile,
              units = (n + unit - 1) / unit;
    int m = (int)min((long long)tile, n - first);
    for (int i = threadIdx.x; i < m; i += blockDim.x) a[slot(i)] = x[line * n + first + i];
    __syncthreads();
    if (unit == S)
        scan_segments<S>(a, m);
    else
        scan_rule<S>(a, m, a + slot(tile) + 1);
    for (int u = threadIdx.x; total && u * unit < m; u += blockDim.x)
        total[line * units + first / unit + u] = a[slot(min((u + 1) * unit, m) - 1)];
    for (int i = threadIdx.x; !total && i < m; i += blockDim.x)
        y[line * n + first + i] = a[slot(i)];
}

/* The result in a tile, from the totals of all units and their scan. Before a segment lies the scan
   of the totals of segments up to there: where it is the first of a tile, that is the end of the
   tile before, computed as it is there. */
template <int S>
__global__ void finish(const float *x, float *y, long long n, int tile, int unit,
                       const float *total, const float *prefix) {
    extern __shared__ float a[];
    long long line = blockIdx.y, first = (long long)blockIdx.x * tile,
              units = (n + unit - 1) / unit;
    int m = (int)min((long long)tile, n - first);
    float *t = a + slot(tile) + 1;
    total += line * units;
    prefix += line * units;
    for (int i = threadIdx.x; i < m; i += blockDim.x) a[slot(i)] = x[line * n + first + i];
    __syncthreads();
    scan_segments<S>(a, m);
    if (unit > S && threadIdx.x == 0) {
        long long u = first / unit;
        float sum = a[slot(min(S, m) - 1)];
        if (u > 0) t[0] = u > 1 ? prefix[u - 2] + total[u - 1] : total[0];
        for (int s = 1; s * S < m; s++) {
            t[slot(s)] = u > 0 ? prefix[u - 1] + sum : sum;
            sum = sum + a[slot(min((s + 1) * S, m) - 1)];
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < m; i += blockDim.x) {
        long long seg = (first + i) / S;
        float v = a[slot(i)];
        y[line * n + first + i] = seg == 0   ? v
                                  : unit > S ? t[slot(i / S)] + v
                                             : prefix[seg - 1] + v;
    }
}

__global__ void copy(const float *x, float *y, long long n) {
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n;
         i += (long long)gridDim.x * blockDim.x)
        y[i] = x[i];
}

/* The rule on the CPU. */
static void rule(const float *x, float *y, long long n, int s) {
    long long segments = (n + s - 1) / s;
    std::vector<float> totals(segments);
    for (long long k = 0; k < segments; k++) {
        long long end = std::min((k + 1) * s, n);
        float sum = y[k * s] = x[k * s];
        for (long long i = k * s + 1; i < end; i++) y[i] = sum = sum + x[i];
        totals[k] = sum;
    }
    if (segments == 1) return;
    std::vector<float> scanned(segments);
    rule(totals.data(), scanned.data(), segments, s);
    for (long long i = s; i < n; i++) y[i] = scanned[i / s - 1] + y[i];
}

template <int S>
static void scan(const float *x, float *y, long long lines, long long n, int tile, int unit,
                 int threads, float *totals, float *prefix) {
    size_t room = (size_t)(slot(tile) + slot(tile / S + 2) * 2 + 64) * sizeof(float);
    long long n_tiles = (n + tile - 1) / tile, units = (n + unit - 1) / unit;
    size_t few = (size_t)(slot((int)units) + slot((int)units / S + 2) * 2 + 64) * sizeof(float);
    dim3 grid((unsigned)n_tiles, (unsigned)lines);
    TRY(cudaFuncSetAttribute(tiles<S>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)(n_tiles > 1 ? std::max(few, room) : room)));
    if (n_tiles == 1) {
        tiles<S><<<grid, threads, room>>>(x, y, n, tile, tile + 1, NULL);
        return;
    }
    TRY(cudaFuncSetAttribute(finish<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)room));
    tiles<S><<<grid, threads, room>>>(x, NULL, n, tile, unit, totals);
    tiles<S><<<dim3(1, (unsigned)lines), 512, few>>>(totals, prefix, units, (int)units,
                                                     (int)units + 1, NULL);
    finish<S><<<grid, threads, room>>>(x, y, n, tile, unit, totals, prefix);
}

template <class F>
static double median_ms(F run) {
    cudaEvent_t a, b;
    std::vector<float> t;
    TRY(cudaEventCreate(&a));
    TRY(cudaEventCreate(&b));
    for (int k = 0; k < 18; k++) {
        float ms;
        TRY(cudaEventRecord(a));
        run();
        TRY(cudaEventRecord(b));
        TRY(cudaEventSynchronize(b));
        TRY(cudaEventElapsedTime(&ms, a, b));
        if (k >= 3) t.push_back(ms);
    }
    TRY(cudaGetLastError());
    std::sort(t.begin(), t.end());
    return t[t.size() / 2];
}

int main() {
    const struct {
        long long lines, n;
    } shapes[] = {{16384, 8192}, {4096, 1000}, {32768, 1024}, {1, 1 << 20}, {1, 1 << 25}};
    for (auto &s : shapes) {
        long long all = s.lines * s.n;
        std::vector<float> x(all), y(all), want(s.n);
        for (long long i = 0; i < all; i++)
            x[i] = (float)((i * 2654435761u >> 7) % 2001) / 1000 - 1;
        float *dx, *dy, *totals, *prefix;
        TRY(cudaMalloc(&dx, all * 4));
        TRY(cudaMalloc(&dy, all * 4));
        TRY(cudaMalloc(&totals, 4 << 20));
        TRY(cudaMalloc(&prefix, 4 << 20));
        TRY(cudaMemcpy(dx, x.data(), all * 4, cudaMemcpyHostToDevice));
        double floor_ms = median_ms([&] { copy<<<132 * 16, 512>>>(dx, dy, all); });
        printf("f32[%lld,%lld]: copy %.4f ms", s.lines, s.n, floor_ms);
        for (int form = 0; form < 2; form++) {
            /* the best tile and block of a few */
            double best = 1e9;
            int best_tile = 0, best_threads = 0;
            auto go = [&](int tile, int threads) {
                auto run = [&] {
                    if (form == 0)
                        scan<32>(dx, dy, s.lines, s.n, tile, 1024, threads, totals, prefix);
                    else
                        scan<1024>(dx, dy, s.lines, s.n, tile, 1024, threads, totals, prefix);
                };
                double ms = median_ms(run);
                if (ms < best) best = ms, best_tile = tile, best_threads = threads;
                TRY(cudaMemcpy(y.data(), dy, all * 4, cudaMemcpyDeviceToHost));
                for (long long line = 0; line < s.lines; line += std::max(1LL, s.lines / 5)) {
                    rule(&x[line * s.n], want.data(), s.n, form ? 1024 : 32);
                    if (memcmp(want.data(), &y[line * s.n], s.n * 4) != 0) {
                        printf(" (segments of %d, tile %d: other bits)\n", form ? 1024 : 32, tile);
                        exit(1);
                    }
                }
            };
            for (int threads : {64, 128, 256, 512}) {
                if (s.n <= 8192)
                    go((int)s.n, threads);
                else if (form == 0)
                    go(1024, threads);
                else
                    go(1024, threads), go(8192, threads), go(32768, threads);
            }
            printf("; segments of %d: %.4f ms, %.2f x copy (tile %d, %d threads)", form ? 1024 : 32,
                   best, best / floor_ms, best_tile, best_threads);
        }
        printf("\n");
        TRY(cudaFree(dx));
        TRY(cudaFree(dy));
        TRY(cudaFree(totals));
        TRY(cudaFree(prefix));
    }
    return 0;
}
