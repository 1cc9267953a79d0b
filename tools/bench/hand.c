/* hand.c - the rows of memory_ratio.c written by hand: what the compiler should reach.

   They use Stax's own functions (prelude.h: what `staxc print --emit=c` writes in front of kernels)
   and give the bits that TEXT.md asks for: sums in 64 lanes, halved, in blocks of 4096; scans in
   segments of 32. So the ratio to them shows what the emission loses, and their ratio to seed.c what
   that order costs. void h_NAME(float **b, long rows, long columns): b[0], b[1] are inputs, b[2] the
   output; b[5], b[6] a number for each row; b[7], b[8] one for each column. `make bench-memory`
   compiles it with the flags of kernels and -fopenmp, for one pool of threads on all sides. */
#include "prelude.h"

int omp_get_num_threads(void);
int omp_get_thread_num(void);

#define ARGS float **b, long R, long C
#define SHARED_ROWS _Pragma("omp parallel for schedule(static)")
#define EACH(n, u) SX_UNROLL for (int u = 0; u < (n); u++)
enum { LANES = 64, U = LANES / SX_W, W = SX_W, BLOCK = 4096, SEGMENT = 32 };
typedef sx_f32 V;

/* As any host may hand to stax_options: Stax's kernels run in the same threads as these. */
void h_parallel_for(void *user, int64_t n, void (*body)(void *arg, int64_t i), void *arg) {
    (void)user;
    SHARED_ROWS for (int64_t i = 0; i < n; i++) body(arg, i);
}

/* ---- pieces ---- */

static inline V halve_sum(V *a) {
    SX_UNROLL for (int w = U / 2; w > 0; w /= 2) EACH(w, u) a[u] = a[u] + a[u + w];
    return a[0];
}
static inline V halve_max(V *a) {
    SX_UNROLL for (int w = U / 2; w > 0; w /= 2) EACH(w, u) a[u] = sx_(maximum_f32)(a[u], a[u + w]);
    return a[0];
}

/* Lanes of F over [0, n), n <= 4096, where e is X[k]. */
#define LANE_SUM(a, n, k, X, F)                                                              \
    V a[U];                                                                                  \
    EACH(U, u) a[u] = sx_k32(-0.0f);                                                         \
    {                                                                                        \
        long k0 = 0;                                                                         \
        for (; k0 + LANES <= (n); k0 += LANES) EACH(U, u) {                                  \
                const long k = k0 + u * W;                                                   \
                const V e = sx_loadaf((X) + k);                                              \
                a[u] = a[u] + (F);                                                           \
            }                                                                                \
        for (int u = 0; u < U && k0 + u * W < (n); u++) {                                    \
            const long k = k0 + u * W, left = (n)-k < W ? (n)-k : W;                         \
            const V e = sx_loadpf((X) + k, left);                                            \
            a[u] = sx_keep32(left, a[u] + (F), a[u]);                                        \
        }                                                                                    \
    }

static inline float row_sum(const float *p, long n) {
    LANE_SUM(a, n, k, p, e)
    return sx_fold_sum32(halve_sum(a));
}

static inline float row_max(const float *p, long n) {
    V a[U];
    long k = 0;
    EACH(U, u) a[u] = sx_k32(-__builtin_inff());
    for (; k + LANES <= n; k += LANES) EACH(U, u) a[u] = sx_(maximum_f32)(a[u], sx_loadaf(p + k + u * W));
    for (int u = 0; u < U && k + u * W < n; u++) {
        const long left = n - k - u * W < W ? n - k - u * W : W;
        a[u] = sx_keep32(left, sx_(maximum_f32)(a[u], sx_loadpf(p + k + u * W, left)), a[u]);
    }
    return sx_fold_max32(halve_max(a));
}

/* exp of U vectors: by the short form where it serves all of them, else with NaN's bits. */
static inline int exp_block(V *x) {
    sx_m32 ok = SX_OK32;
    V y[U];
    EACH(U, u) ok = sx_inside32(ok, x[u], 87.0f), y[u] = sx_(short_exp_f32)(x[u]);
    if (__builtin_expect(!sx_all32(ok), 0)) EACH(U, u) y[u] = sx_(canon_f32)(sx_(exp_f32)(x[u]));
    EACH(U, u) x[u] = y[u];
    return sx_all32(ok);
}

static inline float larger(float a, float b) { return sx_lane32(sx_(maximum_f32)(sx_k32(a), sx_k32(b))); }
static inline float canon(float x) { return x == x ? x : sxs_float32(0x7fc00000u); }

/* ---- rows ---- */

void h_relusum(ARGS) {
    SHARED_ROWS for (long r = 0; r < R; r++) {
        const float *x = b[0] + r * C, *w = b[1] + r * C;
        LANE_SUM(a, C, k, x, sx_(relu_f32)(e + sx_loadaf(w + k)) * sx_k32(2.0f))
        b[5][r] = canon(sx_fold_sum32(halve_sum(a)));
    }
}

/* The next row is summed while this one is divided and streamed out. Columns are whole lanes. */
void h_norm(ARGS) {
#pragma omp parallel
    {
        const long n = omp_get_num_threads(), t = omp_get_thread_num(), lo = R * t / n, hi = R * (t + 1) / n;
        float s = lo < hi ? row_sum(b[0] + lo * C, C) : 0;
        for (long r = lo; r < hi; r++) {
            const float *x = b[0] + r * C, *next = r + 1 < hi ? x + C : x;
            float *y = b[2] + r * C;
            const V d = sx_k32(s);
            V a[U];
            EACH(U, u) a[u] = sx_k32(-0.0f);
            for (long k = 0; k < C; k += LANES) EACH(U, u) {
                    a[u] = a[u] + sx_loadf(next + k + u * W);
                    sx_storesf(y + k + u * W, sx_(canon_f32)(sx_loadf(x + k + u * W) / d));
                }
            s = sx_fold_sum32(halve_sum(a));
        }
        sx_drain();
    }
}

/* exp(x - m) into e, their sum. */
static inline float softmax_exp(const float *x, float m, float *e, long C) {
    const V vm = sx_k32(m);
    V a[U];
    long k = 0;
    EACH(U, u) a[u] = sx_k32(-0.0f);
    for (; k + LANES <= C; k += LANES) {
        V v[U];
        EACH(U, u) v[u] = sx_loadf(x + k + u * W) - vm;
        exp_block(v);
        EACH(U, u) sx_storef(e + k + u * W, v[u]), a[u] = a[u] + v[u];
    }
    for (int u = 0; u < U && k + u * W < C; u++) {
        const long left = C - k - u * W < W ? C - k - u * W : W;
        const V v = sx_(exp_f32)(sx_loadpf(x + k + u * W, left) - vm);
        sx_storepf(e + k + u * W, v, left);
        a[u] = sx_keep32(left, a[u] + v, a[u]);
    }
    return sx_fold_sum32(halve_sum(a));
}

/* The row stays in the first cache; the next one is fetched meanwhile. */
void h_softmax(ARGS) {
    SHARED_ROWS for (long r = 0; r < R; r++) {
        const float *x = b[0] + r * C;
        float *y = b[2] + r * C, e[4096];
        const float m = row_max(x, C);
        const V s = sx_k32(softmax_exp(x, m, e, C));
        long k = 0;
        for (; k + W <= C; k += W) {
            __builtin_prefetch(x + C + k);
            sx_storef(y + k, sx_(canon_f32)(sx_loadf(e + k) / s));
        }
        if (k < C) sx_storepf(y + k, sx_(canon_f32)(sx_loadpf(e + k, C - k) / s), C - k);
    }
}

void h_expsummax(ARGS) {
    SHARED_ROWS for (long r = 0; r < R; r++) {
        const float *x = b[0] + r * C;
        V a[U], m[U];
        EACH(U, u) a[u] = sx_k32(-0.0f), m[u] = sx_k32(-__builtin_inff());
        for (long k = 0; k < C; k += LANES) {
            V v[U];
            EACH(U, u) v[u] = sx_loadaf(x + k + u * W);
            if (exp_block(v))
                EACH(U, u) m[u] = sx_short_max32(m[u], v[u]);
            else
                EACH(U, u) m[u] = sx_(maximum_f32)(m[u], v[u]);
            EACH(U, u) a[u] = a[u] + v[u];
        }
        b[5][r] = canon(sx_fold_sum32(halve_sum(a)));
        b[6][r] = canon(sx_fold_max32(halve_max(m)));
    }
}

void h_lngelu(ARGS) {
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (long r = 0; r < R; r++) {
            const float *p = b[0] + r * C;
            float *y = b[2] + r * C;
            const V n = sx_k32(1.0f / (float)C), mean = sx_k32(row_sum(p, C)) * n;
            LANE_SUM(a, C, k, p, (e - mean) * (e - mean))
            const V var = sx_k32(sx_fold_sum32(halve_sum(a))) * n;
            const V scale = sx_k32(1.0f) / sx_(sqrt_f32)(var + sx_k32(0.00001f));
            for (long k = 0; k < C; k += LANES) EACH(U, u) {
                    const long i = k + u * W;
                    __builtin_prefetch(p + C + i);
                    const V g = sx_loadf(b[7] + i) * (scale * (sx_loadf(p + i) - mean)) + sx_loadf(b[8] + i);
                    sx_storesf(y + i, sx_(canon_f32)(sx_(gelu_f32)(g) * sx_k32(0.5f)));
                }
        }
        sx_drain();
    }
}

#define EVERY(name, F)                                                 \
    void name(ARGS) {                                                  \
        const float *p = b[0];                                         \
        float *y = b[2];                                               \
        const long n = R * C;                                          \
        _Pragma("omp parallel") {                                      \
            _Pragma("omp for schedule(static)") for (long k = 0; k < n; k += LANES) EACH(U, u) { \
                    const V x = sx_loadf(p + k + u * W);               \
                    sx_storesf(y + k + u * W, sx_(canon_f32)(F));      \
                }                                                      \
            sx_drain();                                                \
        }                                                              \
    }

/* It computes for so long that the processor does not fetch far enough ahead by itself. */
void h_exp(ARGS) {
    const float *p = b[0];
    float *y = b[2];
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (long k = 0; k < R * C; k += LANES) {
            V v[U];
            EACH(U, u) v[u] = sx_loadaf(p + k + u * W);
            exp_block(v);
            EACH(U, u) sx_storesf(y + k + u * W, v[u]);
        }
        sx_drain();
    }
}
EVERY(h_add1, x + sx_k32(1.0f))
EVERY(h_relu, sx_(relu_f32)(x))

void h_sum(ARGS) {
    SHARED_ROWS for (long r = 0; r < R; r++) b[5][r] = canon(row_sum(b[0] + r * C, C));
}
void h_amax(ARGS) {
    SHARED_ROWS for (long r = 0; r < R; r++) b[5][r] = canon(row_max(b[0] + r * C, C));
}

/* Whole columns one tile after the other; rows of a block go to 64 lanes a column, eight of a lane at a
   time. Columns are whole tiles, rows a multiple of 512, at most 64 blocks of 4096. */
#ifndef COLUMN_TILE
#define COLUMN_TILE 256
#endif
void h_colsum(ARGS) {
    SHARED_ROWS for (long tile = 0; tile < C; tile += COLUMN_TILE) {
        enum { T = COLUMN_TILE / W, TOGETHER = 8 };
        V lane[LANES * T], blocks[64][T];
        long n_blocks = 0;
        for (long from = 0; from < R; from += BLOCK) {
            const long to = R - from < BLOCK ? R : from + BLOCK;
            for (long r = from; r < to; r += TOGETHER * LANES)
                for (long l = 0; l < LANES; l++)
                    for (int u = 0; u < T; u++) {
                        const float *x = b[0] + (r + l) * C + tile + u * W;
                        V a = r == from ? sx_k32(-0.0f) : lane[l * T + u];
                        EACH(TOGETHER, k) {
                            __builtin_prefetch(x + k * LANES * C + C);
                            a = a + sx_loadf(x + k * LANES * C);
                        }
                        lane[l * T + u] = a;
                    }
            for (int w = LANES / 2; w > 0; w /= 2)
                for (int l = 0; l < w; l++) EACH(T, u) lane[l * T + u] = lane[l * T + u] + lane[(l + w) * T + u];
            EACH(T, u) blocks[n_blocks][u] = lane[u];
            n_blocks++;
        }
        /* each block is a lane of its own, halved with what is there */
        for (long w = LANES / 2; w > 0; w /= 2)
            for (long l = 0; l < w && l + w < n_blocks; l++) EACH(T, u) blocks[l][u] = blocks[l][u] + blocks[l + w][u];
        EACH(T, u) sx_storef(b[5] + tile + u * W, sx_(canon_f32)(blocks[0][u]));
    }
}

/* The same without an order: one sum a column. */
void free_colsum(ARGS) {
#pragma omp parallel
    {
        const long n = omp_get_num_threads(), t = omp_get_thread_num(), lo = C * t / n, hi = C * (t + 1) / n;
        for (long k = lo; k < hi; k++) b[5][k] = 0;
        for (long r = 0; r < R; r++)
            for (long k = lo; k + LANES <= hi; k += LANES) EACH(U, u)
                sx_storef(b[5] + k + u * W, sx_loadf(b[5] + k + u * W) + sx_loadaf(b[0] + r * C + k + u * W));
    }
}

void h_fullsum(ARGS) {
    static float sums[BLOCK];
    const long n = R * C;
    SHARED_ROWS for (long k = 0; k < n / BLOCK; k++) sums[k] = row_sum(b[0] + k * BLOCK, BLOCK);
    b[5][0] = canon(row_sum(sums, n / BLOCK));
}

void h_var(ARGS) {
    SHARED_ROWS for (long r = 0; r < R; r++) {
        const float *p = b[0] + r * C;
        const V n = sx_k32(1.0f / (float)C), mean = sx_k32(row_sum(p, C)) * n;
        LANE_SUM(a, C, k, p, (e - mean) * (e - mean))
        b[5][r] = canon(sx_fold_sum32(halve_sum(a)) * (1.0f / (float)C));
    }
}

/* The largest of the row; then where it is first, which the row in the first cache tells. */
void h_argmax(ARGS) {
    int64_t *y = (int64_t *)b[2];
    SHARED_ROWS for (long r = 0; r < R; r++) {
        const float *p = b[0] + r * C;
        const V m = sx_k32(row_max(p, C));
        long k = 0;
        for (;; k += W) {
            const V x = sx_loadf(p + k);
            if (sx_any32(sx_eq32(x, m) | (sx_ne32(x, x) & sx_ne32(m, m)))) break;
        }
        const float v = sx_lane32(m);
        while (p[k] != v && v == v) k++;
        while (v != v && p[k] == p[k]) k++;
        y[r] = k;
    }
}

/* Rows and columns of a 16 x 16 block change places. */
static inline void turn(V *x) {
    V y[16];
    EACH(16, i)
    y[i] = i % 2 ? sx_among32(x[i - 1], x[i], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
                 : sx_among32(x[i], x[i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
    EACH(4, i) EACH(2, j) {
        const V lo = y[4 * i + j], hi = y[4 * i + 2 + j];
        x[4 * i + 2 * j] = sx_among32(lo, hi, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
        x[4 * i + 2 * j + 1] = sx_among32(lo, hi, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    }
    EACH(2, i) EACH(4, j) {
        const V lo = x[8 * i + j], hi = x[8 * i + 4 + j];
        y[8 * i + j] = sx_among32(lo, hi, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
        y[8 * i + 4 + j] = sx_among32(lo, hi, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    }
    EACH(8, j) {
        x[j] = sx_among32(y[j], y[8 + j], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
        x[8 + j] = sx_among32(y[j], y[8 + j], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    }
    EACH(8, j) {
        const V lo = x[j], hi = x[8 + j];
        y[j] = lo, y[8 + j] = hi;
    }
    /* y[j] holds column j % 4 + 8 * (j / 4 % 2) ..., put in order */
    EACH(4, j) { x[j] = y[j], x[8 + j] = y[8 + j], x[4 + j] = y[4 + j], x[12 + j] = y[12 + j]; }
}

/* Sixteen segments of 32 side by side, turned; columns are a multiple of 512, rows up to 32 * 32. */
void h_cumsum(ARGS) {
    SHARED_ROWS for (long r = 0; r < R; r++) {
        float before = 0, here = 0, run = 0; /* of the segments; of 32 of them; of those before */
        long segment = 0;
        for (long at = 0; at < C; at += 16 * SEGMENT) {
            const float *p = b[0] + r * C + at;
            float *y = b[2] + r * C + at;
            V half[2][16], a = sx_k32(0.0f);
            float total[16], add[16];
            EACH(2, h) {
                V *x = half[h];
                EACH(16, s) {
                    __builtin_prefetch(p + s * SEGMENT + h * 16 + 1024);
                    x[s] = sx_loadf(p + s * SEGMENT + h * 16);
                }
                turn(x);
                if (h) x[0] = a + x[0];
                EACH(15, k) x[k + 1] = x[k] + x[k + 1];
                a = x[15];
                turn(x);
            }
            sx_storef(total, a);
            for (int s = 0; s < 16; s++, segment++) {
                add[s] = before;
                if (segment % 32 == 0 && segment > 0) run = segment > 32 ? run + here : here;
                here = segment % 32 == 0 ? total[s] : here + total[s];
                before = segment < 32 ? here : run + here;
            }
            EACH(16, s) EACH(2, h) {
                V v = half[h][s];
                if (at + s > 0) v = sx_k32(add[s]) + v;
                sx_storef(y + s * SEGMENT + h * 16, sx_(canon_f32)(v));
            }
        }
    }
}

/* b[3]: indices (i32) into a table of 65536 rows; C floats a row. */
void h_gather(ARGS) {
    const int *index = (const int *)b[3];
    int bad = 0;
    _Pragma("omp parallel for schedule(static) reduction(|:bad)") for (long r = 0; r < R; r++) bad |=
        index[r] < -65536 || index[r] >= 65536;
    if (bad) return;
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (long r = 0; r < R; r++) {
            const long i = index[r] < 0 ? index[r] + 65536 : index[r];
            for (long k = 0; k < C; k += W) sx_storesf(b[2] + r * C + k, sx_loadf(b[0] + i * C + k));
        }
        sx_drain();
    }
}

/* Two matrices of R x C side by side. */
void h_concat(ARGS) {
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (long r = 0; r < R; r++)
            for (int i = 0; i < 2; i++)
                for (long k = 0; k < C; k += W)
                    sx_storesf(b[2] + (2 * r + i) * C + k, sx_loadf(b[i] + r * C + k));
        sx_drain();
    }
}

/* One zero around R x C; C + 2 are whole vectors. */
void h_pad(ARGS) {
    const long D = C + 2;
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (long r = 0; r < R + 2; r++) {
            const float *x = b[0] + (r - 1) * C - 1;
            float *y = b[2] + r * D;
            if (r == 0 || r == R + 1) {
                for (long k = 0; k < D; k += W) sx_storesf(y + k, sx_k32(0.0f));
                continue;
            }
            sx_storesf(y, sx_loadrf(x, 1, W));
            for (long k = W; k < D - W; k += W) sx_storesf(y + k, sx_loadf(x + k));
            sx_storesf(y + D - W, sx_loadrf(x + D - W, 0, W - 1));
        }
        sx_drain();
    }
}

/* R pictures of C x C; 3 x 3, steps of 2, a border of 1. C is even, C / 2 > 16. */
static inline V even_max(const float *x) {
    const V lo = sx_loadf(x), hi = sx_loadf(x + 16);
    const V e = sx_among32(lo, hi, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const V o = sx_among32(lo, hi, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    const V lo2 = sx_loadf(x - 1), hi2 = sx_loadf(x + 15);
    const V before = sx_among32(lo2, hi2, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return sx_(maximum_f32)(sx_(maximum_f32)(before, e), o);
}
void h_pool(ARGS) {
    const long D = C / 2;
    SHARED_ROWS for (long n = 0; n < R * D; n++) {
        const long r = n / D, i = n % D;
        const float *x = b[0] + (r * C + 2 * i) * C; /* the middle row */
        float *y = b[2] + n * D;
        const float *above = i > 0 ? x - C : x;
        /* the first column has no neighbour before it */
        {
            float m = larger(larger(x[0], x[1]), larger(x[C], x[C + 1]));
            y[0] = canon(larger(m, larger(above[0], above[1])));
        }
        for (long k = 1;; k = k + W + W > D ? D - W : k + W) {
            V m = sx_(maximum_f32)(even_max(x + 2 * k), even_max(x + C + 2 * k));
            if (i > 0) m = sx_(maximum_f32)(m, even_max(above + 2 * k));
            sx_storef(y + k, sx_(canon_f32)(m));
            if (k + W >= D) break;
        }
    }
}
