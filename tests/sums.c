/* Sums: the canonical order against a naive re-implementation, interpreted and compiled, for many
   lengths and layouts; the bounds of the error, and the errors themselves. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../stax.h"

#include "harness.h"
#include "random.h"

/* The order, as it is written down: up to 4096 terms go into 64 accumulators (f64: 32) in
   turn, which are added as a tree; of more terms, blocks of 4096 are summed by the same rule. (-0
   is the neutral element: x + -0 is x for every x.) */
#define NAIVE(name, type, LANES)                                                          \
    static type name(const type *x, int64_t n, int64_t stride) {                          \
        type acc[LANES];                                                                  \
        if (n == 0) return 0;                                                             \
        if (n > 4096) {                                                                   \
            int64_t blocks = (n + 4095) / 4096;                                           \
            type *sums = (type *)malloc((size_t)blocks * sizeof *sums), r;                \
            for (int64_t b = 0; b < blocks; b++) {                                        \
                int64_t rest = n - b * 4096;                                              \
                sums[b] = name(x + b * 4096 * stride, rest < 4096 ? rest : 4096, stride); \
            }                                                                             \
            r = name(sums, blocks, 1);                                                    \
            free(sums);                                                                   \
            return r;                                                                     \
        }                                                                                 \
        for (int i = 0; i < LANES; i++) acc[i] = (type)-0.0;                              \
        for (int64_t k = 0; k < n; k++) acc[k % LANES] += x[k * stride];                  \
        for (int w = LANES / 2; w; w /= 2) {                                              \
            for (int i = 0; i < w; i++) acc[i] += acc[i + w];                             \
        }                                                                                 \
        return acc[0];                                                                    \
    }
NAIVE(naive_f32, float, 64)
NAIVE(naive_f64, double, 32)

/* clang-format off */
static const int64_t lengths[] = {
    0, 1, 2, 3, 5, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000, 4032, 4095, 4096, 4097, 4159, 4160,
    8191, 8192, 8193, 12345, 100000, 4096 * 64 - 1, 4096 * 64, 4096 * 64 + 1, (1 << 20) - 1,
    1 << 20, (1 << 20) + 1};
/* clang-format on */
enum { N_LENGTHS = sizeof lengths / sizeof lengths[0], MOST = (1 << 20) + 1, ROWS = 3 };

static stax_context *ctx;
static float *in32; /* MOST * ROWS numbers of mixed size and sign */
static double *in64;

static uint64_t seed = RANDOM_SEED;

static void fill(void) {
    in32 = (float *)malloc(MOST * ROWS * sizeof *in32);
    in64 = (double *)malloc(MOST * ROWS * sizeof *in64);
    if (!in32 || !in64) exit(1);
    for (int64_t i = 0; i < (int64_t)MOST * ROWS; i++) {
        uint64_t u = draw(&seed);
        in64[i] = ldexp((double)(int64_t)u, (int)(u % 20) - 70);
        in32[i] = (float)in64[i];
    }
}

/* A sum over one axis of a matrix of n by ROWS or ROWS by n; n a symbol, so one program serves all.
 */
typedef struct a_case {
    const char *name, *text;
    stax_dtype dtype;
    bool rows_first;
} a_case;
static const a_case cases[] = {
    {"rows_f32", "sizes n: 0..2000000\ngraph g(x: f32[3,n]) { y = sum x {axes=[1]}; return y }",
     STAX_F32, true},
    {"columns_f32", "sizes n: 0..2000000\ngraph g(x: f32[n,3]) { y = sum x {axes=[0]}; return y }",
     STAX_F32, false},
    {"rows_f64", "sizes n: 0..2000000\ngraph g(x: f64[3,n]) { y = sum x {axes=[1]}; return y }",
     STAX_F64, true},
    {"columns_f64", "sizes n: 0..2000000\ngraph g(x: f64[n,3]) { y = sum x {axes=[0]}; return y }",
     STAX_F64, false},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };
static const a_case *now;

static void naive(int64_t n, void *out) {
    int64_t step = now->rows_first ? n : 1, stride = now->rows_first ? 1 : ROWS;
    for (int r = 0; r < ROWS; r++) {
        if (now->dtype == STAX_F32) ((float *)out)[r] = naive_f32(in32 + r * step, n, stride);
        if (now->dtype == STAX_F64) ((double *)out)[r] = naive_f64(in64 + r * step, n, stride);
    }
}

static void in_order(void) {
    stax_graph *g = stax_parse(ctx, now->name, now->text);
    stax_program *p = g ? stax_compile(g, NULL) : NULL;
    const size_t bytes = ROWS * (now->dtype == STAX_F32 ? sizeof(float) : sizeof(double));
    if (!CHECK(g && p)) {
        printf("%s\n", stax_error(ctx));
    } else {
        if (stax_program_status(p) != STAX_OK) printf("interpreted: %s\n", stax_error(ctx));
        for (int k = 0; k < N_LENGTHS; k++) {
            int64_t n = lengths[k];
            double want[ROWS], got[2][ROWS];
            stax_shape shape = now->rows_first ? stax_shape2(ROWS, n) : stax_shape2(n, ROWS);
            stax_tensor in, out;
            void *data = now->dtype == STAX_F32 ? (void *)in32 : (void *)in64;
            in = stax_tensor_of(now->dtype, shape, data);
            naive(n, want);
            out = stax_tensor_of(now->dtype, stax_shape1(ROWS), got[0]);
            CHECK_INT(stax_interpret(g, &in, &out), STAX_OK);
            out.data = got[1];
            CHECK_INT(stax_run(p, &in, &out), STAX_OK);
            if (!CHECK_BYTES(got[0], want, bytes) || !CHECK_BYTES(got[1], want, bytes))
                printf("n = %d\n", (int)n);
        }
    }
    stax_program_free(p);
    stax_graph_free(g);
}

/* Lengths known when compiling: other code, the same bits. */
static void known_lengths(void) {
    static const int64_t known[] = {1, 63, 64, 65, 1000, 4095, 4096, 4097, 1 << 20};
    enum { N = sizeof known / sizeof known[0] };
    stax_graph *g = stax_graph_new(ctx);
    stax_program *p;
    stax_tensor in[N], out[N];
    float got[N];
    char name[16];
    for (int k = 0; k < N; k++) {
        stax_value v;
        sprintf(name, "x%d", k);
        v = stax_input(g, name, STAX_F32, stax_shape1(known[k]));
        sprintf(name, "y%d", k);
        stax_output(g, name, stax_sum(v, stax_axes_all(), false));
        in[k] = stax_tensor_of(STAX_F32, stax_shape1(known[k]), in32 + k);
        out[k] = stax_tensor_of(STAX_F32, stax_shape0(), &got[k]);
    }
    p = stax_compile(g, NULL);
    if (CHECK(p != NULL) && CHECK_INT(stax_run(p, in, out), STAX_OK)) {
        for (int k = 0; k < N; k++) {
            float want = naive_f32(in32 + k, known[k], 1);
            if (!CHECK_BYTES(&got[k], &want, sizeof want)) printf("n = %d\n", (int)known[k]);
        }
    }
    stax_program_free(p);
    stax_graph_free(g);
}

/* ---- errors ---- */

static void bounds(void) {
    const int64_t n = 1 << 20;
    CHECK_FLOAT(stax_sum_error_bound(n, STAX_SUM_SEQUENTIAL), 1048575);
    CHECK_FLOAT(stax_sum_error_bound(n, STAX_SUM_16), 65550);
    CHECK_FLOAT(stax_sum_error_bound(n, STAX_SUM_1024), 2046);
    CHECK_FLOAT(stax_sum_error_bound(n, STAX_SUM_TREE), 20);
    /* 63 additions into each of 64 accumulators and a tree of 6, then 256 block sums: 3 and 6 */
    CHECK_FLOAT(stax_sum_error_bound(n, STAX_SUM_STAX), 69 + 9);
    CHECK_FLOAT(stax_sum_error_bound(4096, STAX_SUM_STAX), 69);
    CHECK_FLOAT(stax_sum_error_bound(64, STAX_SUM_STAX), 6);
    for (int mode = STAX_SUM_SEQUENTIAL; mode <= STAX_SUM_STAX; mode++) {
        CHECK_FLOAT(stax_sum_error_bound(0, (stax_sum_mode)mode), 0);
        CHECK_FLOAT(stax_sum_error_bound(1, (stax_sum_mode)mode), 0);
    }
}

/* `ways` partial sums in turn, added one after another. */
static float sum_in_ways(const float *x, int n, int ways) {
    static float acc[1024];
    for (int i = 0; i < ways; i++) acc[i] = 0;
    for (int i = 0; i < n; i++) acc[i % ways] += x[i];
    for (int i = 1; i < ways; i++) acc[0] += acc[i];
    return acc[0];
}
static float sum_as_tree(const float *x, int n) {
    return n == 1 ? x[0] : sum_as_tree(x, n - n / 2) + sum_as_tree(x + n - n / 2, n / 2);
}

/* |error| <= c u sum |x|, u = 2^-24. The numbers are multiples of 2^-24 below 1, so the f64 sums of
   a million of them are exact, and the inequality is a theorem, not a tolerance. */
static void errors_of(const char *what, const float *x, int n) {
    static const char *const names[] = {"sequential", "16 ways", "1024 ways", "tree", "stax"};
    stax_graph *g = stax_graph_new(ctx);
    stax_tensor in = stax_tensor_of(STAX_F32, stax_shape1(n), (void *)(uintptr_t)x), out;
    float sums[5];
    double exact = 0, size = 0;
    stax_output(g, "y",
                stax_sum(stax_input(g, "x", STAX_F32, stax_shape1(n)), stax_axes_all(), false));
    out = stax_tensor_of(STAX_F32, stax_shape0(), &sums[STAX_SUM_STAX]);
    CHECK_INT(stax_interpret(g, &in, &out), STAX_OK);
    stax_graph_free(g);
    sums[STAX_SUM_SEQUENTIAL] = sum_in_ways(x, n, 1);
    sums[STAX_SUM_16] = sum_in_ways(x, n, 16);
    sums[STAX_SUM_1024] = sum_in_ways(x, n, 1024);
    sums[STAX_SUM_TREE] = sum_as_tree(x, n);
    for (int i = 0; i < n; i++) {
        exact += (double)x[i];
        size += fabs((double)x[i]);
    }
    for (int mode = 0; mode <= STAX_SUM_STAX; mode++) {
        double error = fabs((double)sums[mode] - exact) / (0x1p-24 * size);
        double bound = stax_sum_error_bound(n, (stax_sum_mode)mode);
        printf("%-8s %-10s error %10.4f u, bound %g u\n", what, names[mode], error, bound);
        CHECK(error <= bound);
    }
    CHECK_FLOAT(sums[STAX_SUM_STAX], naive_f32(x, n, 1));
}

static void errors(void) {
    enum { N = 1000000 };
    float *x = (float *)malloc(N * sizeof *x);
    if (!CHECK(x != NULL)) return;
    for (int i = 0; i < N; i++) x[i] = (float)(int)(draw(&seed) >> 40) * 0x1p-24f;
    errors_of("[0, 1)", x, N);
    for (int i = 0; i < N; i++) x[i] = (float)((int)(draw(&seed) >> 39) - (1 << 24)) * 0x1p-24f;
    errors_of("[-1, 1)", x, N);
    free(x);
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    ctx = stax_open(NULL);
    if (!ctx) return 1;
    fill();
    RUN(bounds);
    RUN(errors);
    for (int k = 0; k < N_CASES; k++) {
        now = &cases[k];
        RUN_NAMED(now->name, in_order);
    }
    RUN(known_lengths);
    free(in32);
    free(in64);
    stax_close(ctx);
    return HARNESS_END();
}
