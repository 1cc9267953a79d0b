/* transpose_ratio.c - times programs that read along two loops beside kernels written by hand, in
   one process, alternating. cc -O2 -march=native -I. tools/bench/transpose_ratio.c -o
   transpose_ratio -lm -ldl -lpthread
       ./transpose_ratio [threads] [schedule file for transpose+1 [and for x + x.T]]
   The hand-written kernels are for 4096x4096 f32 on processors with AVX-512; each comes in the two
   forms that were the best of those that were tried (see below); that with the lower median is the
   rival. Prints the median of the paired ratios ours/theirs over 31 pairs, with ranks 10 and 22 as
   interval, the ratio of the minima, the A/A ratio (theirs/theirs), and the ratio to a copy with
   stores past the caches.

   What was tried on a server core with 2 MiB of L2, for transpose+1: squares of 16x16 turned in
   registers and stored at once, in tiles of 64 to 4096; a tile staged in an area whose rows are one
   cache line longer than they need to be, or not; stores through the caches or past them; software
   prefetch. Times are near those of a copy only where memory is read in long runs (a strip of 16 to
   32 of its rows, from end to end) and stored past the caches: 1.3 copies, and 4 where tiles of 64
   to 128 are read. x + x.T reads in both directions: a tile of x.T is staged in L2, 256 x 128, rows
   padded (unpadded, rows of a power of two share a few places of the cache: 1.2 times slower), then
   a pass over rows. */
#define STAX_IMPLEMENTATION
#include "stax.h"

#if !defined(__AVX512F__)
int main(void) {
    puts(
        "transpose_ratio: the hand-written kernels need AVX-512 (-march=native on such a "
        "processor)");
    return 0;
}
#else
#include <immintrin.h>
#include <pthread.h>

enum { PAIRS = 31, N = 4096 };

typedef float lanes __attribute__((vector_size(64), may_alias));
typedef float lanes_any __attribute__((vector_size(64), aligned(4), may_alias));
typedef int numbers __attribute__((vector_size(64)));

#define UNROLL _Pragma("GCC unroll 16") /* else gcc keeps the rows in memory */

/* Four times: neighbours are taken from row i and row i + 8. */
static inline __attribute__((always_inline)) void turn(lanes *r) {
    const numbers low = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23},
                  high = {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    lanes s[16];
    UNROLL for (int k = 0; k < 4; k++) {
        UNROLL for (int i = 0; i < 8; i++) {
            s[2 * i] = __builtin_shuffle(r[i], r[i + 8], low);
            s[2 * i + 1] = __builtin_shuffle(r[i], r[i + 8], high);
        }
        UNROLL for (int i = 0; i < 16; i++) r[i] = s[i];
    }
}

/* t[u][v] = x[v][u] for a tile at (u0, v0) of the result */
static inline __attribute__((always_inline)) void stage(const float *x, float *t, long u0, long v0,
                                                        int rows, int columns, int pitch) {
    for (int v = 0; v < columns; v += 16)
        for (int u = 0; u < rows; u += 16) {
            lanes r[16];
            UNROLL for (int k = 0; k < 16; k++) r[k] =
                *(const lanes_any *)(x + (v0 + v + k) * N + u0 + u);
            turn(r);
            UNROLL for (int k = 0; k < 16; k++) * (lanes_any *)(t + (u + k) * pitch + v) = r[k];
        }
}

/* A part of the result: of the whole, the slots-th part that is number slot. */
typedef void (*kernel_fn)(const float *x, float *z, int slot, int slots);

static void copy(const float *x, float *z, int slot, int slots) {
    const long from = (long)N * N / slots * slot, to = from + (long)N * N / slots;
    for (long i = from; i < to; i += 16) _mm512_stream_ps(z + i, _mm512_loadu_ps(x + i));
    _mm_sfence();
}

#define TILES(name, rows, columns, other)                                                        \
    static void name(const float *x, float *z, int slot, int slots) {                            \
        static _Thread_local float t[rows * (columns + 16)] __attribute__((aligned(64)));        \
        for (long v0 = (long)N / slots * slot; v0 < (long)N / slots * (slot + 1); v0 += columns) \
            for (long u0 = 0; u0 < N; u0 += rows) {                                              \
                stage(x, t, u0, v0, rows, columns, columns + 16);                                \
                for (int u = 0; u < rows; u++)                                                   \
                    for (int v = 0; v < columns; v += 16) {                                      \
                        const lanes a = *(const lanes_any *)(t + u * (columns + 16) + v),        \
                                    y = a + other;                                               \
                        _mm512_stream_ps(z + (u0 + u) * N + v0 + v, (__m512)y);                  \
                    }                                                                            \
            }                                                                                    \
        _mm_sfence();                                                                            \
    }
TILES(plus_one_strips, 16, 32, 1.0f)
TILES(plus_one_tiles, 1024, 32, 1.0f)
TILES(plus_self_tiles, 256, 128, *(const lanes_any *)(x + (u0 + u) * N + v0 + v))
TILES(plus_self_large, 512, 128, *(const lanes_any *)(x + (u0 + u) * N + v0 + v))

typedef struct job {
    kernel_fn kernel;
    const float *x;
    float *z;
    int slot, slots;
} job;

static void *work(void *p) {
    const job *j = (const job *)p;
    j->kernel(j->x, j->z, j->slot, j->slots);
    return NULL;
}

static void spread(kernel_fn kernel, const float *x, float *z, int threads) {
    job jobs[64];
    pthread_t ids[64];
    for (int k = 0; k < threads; k++) {
        const job j = {kernel, x, z, k, threads};
        jobs[k] = j;
        if (k) pthread_create(&ids[k], NULL, work, &jobs[k]);
    }
    work(&jobs[0]);
    for (int k = 1; k < threads; k++) pthread_join(ids[k], NULL);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double now_ms(void) { return (double)staxi_clock_ns() / 1e6; }

static void ratio(const char *label, double *r) {
    qsort(r, PAIRS, sizeof *r, compare);
    printf("  %-12s %.3f  (%.3f .. %.3f)\n", label, r[PAIRS / 2], r[9], r[21]);
}

static char *text_of(const char *path) {
    static char text[2][65536];
    static int which;
    char *t = text[which++ % 2];
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    t[fread(t, 1, sizeof text[0] - 1, f)] = 0;
    fclose(f);
    return t;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name, *text;
        kernel_fn hand[2];
    } works[] = {{"transpose + 1",
                  "graph g(x: f32[4096,4096]) { t = transpose x; y = add t, 1.0; return y }",
                  {plus_one_strips, plus_one_tiles}},
                 {"x + x.T",
                  "graph g(x: f32[4096,4096]) { t = transpose x; y = add x, t; return y }",
                  {plus_self_tiles, plus_self_large}}};
    stax_options o = stax_options_default();
    o.strict = true;
    o.n_threads = argc > 1 ? atoi(argv[1]) : 1;
    const int threads = o.n_threads < 1 ? 1 : o.n_threads > 64 ? 64 : o.n_threads;
    o.n_threads = threads;
    stax_context *ctx = stax_open(&o);
    float *x = (float *)staxi_pages_get((size_t)N * N * sizeof(float)),
          *z = (float *)staxi_pages_get((size_t)N * N * sizeof(float) + 4096) + 336,
          *want = (float *)staxi_pages_get((size_t)N * N * sizeof(float));
    for (long i = 0; i < (long)N * N; i++)
        x[i] = (float)((size_t)i * 2654435761u >> 8 & 4095) / 1000.0f;
    for (int k = 0; k < 2; k++) {
        stax_compile_options options;
        memset(&options, 0, sizeof options);
        stax_graph *g = stax_parse(ctx, "bench", works[k].text);
        stax_schedule *s = NULL;
        char *text = argc > 2 + k ? text_of(argv[2 + k]) : NULL;
        if (text) s = stax_schedule_parse(ctx, argv[2 + k], text);
        options.schedule = s;
        stax_program *p = g && (!text || s) ? stax_compile(g, s ? &options : NULL) : NULL;
        if (!p) {
            fprintf(stderr, "%s: %s\n", works[k].name, stax_error(ctx));
            return 1;
        }
        stax_tensor in = stax_tensor_of(STAX_F32, stax_shape2(N, N), x),
                    out = stax_tensor_of(STAX_F32, stax_shape2(N, N), z);
        double r[3][PAIRS], by_hand[2][PAIRS], aa[PAIRS], least[4] = {1e9, 1e9, 1e9, 1e9};
        for (int i = -3; i < PAIRS; i++) {
            double t[6];
            t[0] = now_ms();
            stax_run(p, &in, &out);
            t[1] = now_ms();
            if (i == -3) memcpy(want, z, (size_t)N * N * sizeof(float));
            spread(works[k].hand[0], x, z, threads);
            t[2] = now_ms();
            if (i == -3 && memcmp(want, z, (size_t)N * N * sizeof(float)) != 0)
                puts("  bits differ");
            spread(works[k].hand[1], x, z, threads);
            t[3] = now_ms();
            spread(works[k].hand[1], x, z, threads);
            t[4] = now_ms();
            spread(copy, x, z, threads);
            t[5] = now_ms();
            for (int j = 0; j < 4 && i >= 0; j++) {
                const double d = j == 3 ? t[5] - t[4] : t[j + 1] - t[j];
                if (d < least[j]) least[j] = d;
            }
            if (i < 0) continue;
            for (int j = 0; j < 2; j++) {
                by_hand[j][i] = t[j + 2] - t[j + 1];
                r[j][i] = (t[1] - t[0]) / by_hand[j][i];
            }
            r[2][i] = (t[1] - t[0]) / (t[5] - t[4]);
            aa[i] = (t[4] - t[3]) / (t[3] - t[2]);
        }
        for (int j = 0; j < 2; j++) qsort(by_hand[j], PAIRS, sizeof(double), compare);
        const int rival = by_hand[1][PAIRS / 2] < by_hand[0][PAIRS / 2];
        const double hand = least[1 + rival];
        printf(
            "%s  %dx%d, %d thread(s): ours %.2f ms, by hand %.2f and %.2f ms, copy %.2f ms "
            "(minima)\n",
            works[k].name, N, N, threads, least[0], least[1], least[2], least[3]);
        ratio("ours/hand", r[rival]);
        printf("  %-12s %.3f\n", "of minima", least[0] / hand);
        ratio("ours/copy", r[2]);
        printf("  %-12s %.3f, by hand %.3f\n", "of minima", least[0] / least[3], hand / least[3]);
        ratio("A/A", aa);
        stax_program_free(p);
        stax_schedule_free(s);
        stax_graph_free(g);
    }
    stax_close(ctx);
    return 0;
}
#endif
