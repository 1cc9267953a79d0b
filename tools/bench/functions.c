/* functions.c - nanoseconds an element of the elementwise functions, in compiled programs.
       cc -O2 -I. tools/bench/functions.c -o functions -lm -ldl -lpthread && ./functions
   Arrays of 4096 that stay in the first-level cache; the median of 15 readings of 2000 calls. */
#define STAX_IMPLEMENTATION
#include "stax.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 4096, READINGS = 15, CALLS = 300 };

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ns an element of `op`, or a negative number where it does not compile */
static double measure(stax_context *ctx, const char *op, int operands, const char *dtype) {
    static double x[N], y[N], z[N];
    char text[256];
    stax_dtype d = strcmp(dtype, "f32") == 0 ? STAX_F32 : STAX_F64;
    snprintf(text, sizeof text, "graph g(x: %s[%d], y: %s[%d]) { z = %s x%s; return z }", dtype, N, dtype, N, op,
             operands == 2 ? ", y" : "");
    stax_graph *g = stax_parse(ctx, "bench", text);
    stax_program *p = g ? stax_compile(g, NULL) : NULL;
    if (!p) {
        fprintf(stderr, "%s\n", stax_error(ctx));
        stax_graph_free(g);
        return -1.0;
    }
    for (int i = 0; i < N; i++) {
        double v = 0.05 + 0.9 * (double)i / N, w = 0.5 + (double)(i % 7);
        if (d == STAX_F32) {
            ((float *)x)[i] = (float)v;
            ((float *)y)[i] = (float)w;
        } else {
            x[i] = v;
            y[i] = w;
        }
    }
    stax_tensor in[2], out[1];
    in[0] = stax_tensor_of(d, stax_shape1(N), x);
    in[1] = stax_tensor_of(d, stax_shape1(N), y);
    out[0] = stax_tensor_of(d, stax_shape1(N), z);
    double r[READINGS];
    for (int k = -1; k < READINGS; k++) {
        int64_t t = staxi_clock_ns();
        for (int c = 0; c < CALLS; c++) stax_run(p, in, out);
        if (k >= 0) r[k] = (double)(staxi_clock_ns() - t) / CALLS / N;
    }
    qsort(r, READINGS, sizeof *r, compare);
    stax_program_free(p);
    stax_graph_free(g);
    return r[READINGS / 2];
}

int main(void) {
    static const char *const unary[] = {"exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin",
                                        "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
                                        "sigmoid", "silu", "softplus", "gelu", "sqrt", "rsqrt", "cbrt"};
    static const char *const binary[] = {"pow", "atan2", "hypot", "fmod", "remainder", "floor_divide"};
    stax_options o = stax_options_default();
    o.strict = true;
    stax_context *ctx = stax_open(&o);
    printf("| function | f32 ns | f64 ns |\n| --- | --- | --- |\n");
    for (size_t k = 0; k < sizeof unary / sizeof unary[0]; k++)
        printf("| %s | %.2f | %.2f |\n", unary[k], measure(ctx, unary[k], 1, "f32"), measure(ctx, unary[k], 1, "f64"));
    for (size_t k = 0; k < sizeof binary / sizeof binary[0]; k++)
        printf("| %s | %.1f | %.1f |\n", binary[k], measure(ctx, binary[k], 2, "f32"), measure(ctx, binary[k], 2, "f64"));
    stax_close(ctx);
    return 0;
}
