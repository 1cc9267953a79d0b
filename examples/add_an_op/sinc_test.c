/* The test of the op that examples/add_an_op adds. Built by tests/add_an_op.sh with the changed
 * header. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAX_IMPLEMENTATION
#include "stax.h"

#include "harness.h"

static stax_context *ctx;

/* y = sinc x of a strided tensor, compiled and interpreted: the same bits, returned in y. */
static void sinc_of(const stax_tensor *x, void *y, size_t bytes) {
    stax_graph *g = stax_graph_new(ctx);
    stax_shape shape = stax_shape1(x->shape[0]);
    stax_value v = stax_input(g, "x", x->dtype, shape);
    stax_tensor out = stax_tensor_of(x->dtype, shape, y);
    stax_program *p;
    void *other = malloc(bytes + 1);
    stax_input_layout(v, STAX_STRIDED);
    stax_output(g, "y", stax_sinc(v));
    p = stax_compile(g, NULL);
    if (CHECK(p && other)) {
        CHECK_INT(stax_program_status(p), STAX_OK);
        CHECK_INT(stax_run(p, x, &out), STAX_OK);
        out.data = other;
        CHECK_INT(stax_interpret(g, x, &out), STAX_OK);
        CHECK(memcmp(y, other, bytes) == 0);
    }
    free(other);
    stax_program_free(p);
    stax_graph_free(g);
}

static void specials(void) {
    float x[] = {0.0f, -0.0f, 1.0f, -2.0f, 0.5f, 1e-40f, INFINITY, NAN}, y[8];
    uint32_t quiet = 0x7fc00000u;
    stax_tensor t = stax_tensor_of(STAX_F32, stax_shape1(8), x);
    sinc_of(&t, y, sizeof y);
    CHECK(y[0] == 1 && y[1] == 1 && y[2] == 0 && y[3] == 0 && y[5] == 1);
    CHECK(fabsf(y[4] - 0.636619772f) < 1e-7f);
    CHECK(memcmp(&y[6], &quiet, 4) == 0 && memcmp(&y[7], &quiet, 4) == 0);
}

static void strided_and_empty(void) {
    float x[21], y[7], plain[7], again[7];
    stax_tensor t = stax_tensor_of(STAX_F32, stax_shape1(7), x + 18), row;
    for (int i = 0; i < 21; i++) x[i] = (float)i * 0.37f;
    t.strides[0] = -3;
    sinc_of(&t, y, sizeof y);
    for (int i = 0; i < 7; i++) plain[i] = x[18 - 3 * i];
    row = stax_tensor_of(STAX_F32, stax_shape1(7), plain);
    sinc_of(&row, again, sizeof again);
    CHECK(memcmp(y, again, sizeof y) == 0);
    t.shape[0] = 0;
    sinc_of(&t, y, 0);
}

static void half_precision(void) {
    uint16_t x[] = {0x3800 /* 0.5 */, 0x3c00 /* 1 */, 0}, y[3];
    stax_tensor t = stax_tensor_of(STAX_F16, stax_shape1(3), x);
    sinc_of(&t, y, sizeof y);
    CHECK_INT(y[0], 0x3918);
    CHECK_INT(y[1], 0);
    CHECK_INT(y[2], 0x3c00);
}

static void errors_in_ulp(void) {
    enum { N = 200000 };
    static float x[N], y[N];
    static double x64[N], y64[N];
    double worst = 0, worst64 = 0;
    const long double pi = 3.14159265358979323846264338327950288L;
    stax_tensor t = stax_tensor_of(STAX_F32, stax_shape1(N), x),
                t64 = stax_tensor_of(STAX_F64, stax_shape1(N), x64);
    for (int i = 0; i < N; i++) x64[i] = x[i] = (float)((i % 2 ? 1 : -1) * exp2(i * 2e-4 - 20));
    sinc_of(&t, y, sizeof y);
    sinc_of(&t64, y64, sizeof y64);
    for (int i = 0; i < N; i++) {
        long double f = fmodl(x[i], 2.0L), want = sinl(pi * f) / (pi * (long double)x[i]);
        int e = 0, e64 = 0;
        if (f == 0 || fabsl(f) == 1) continue;
        (void)frexp((double)want, &e);
        e64 = e;
        worst = fmax(worst, fabs((double)(y[i] - want)) / ldexp(1, e - 24));
        worst64 = fmax(worst64, (double)(fabsl(y64[i] - want) / ldexpl(1, e64 - 53)));
    }
    printf("sinc: worst error %.2f ulp in f32, %.2f in f64\n", worst, worst64);
    CHECK(worst < 4 && worst64 < 4);
}

/* d sinc(x) / dx = (cos(pi x) - sinc(x)) / x, 0 at 0. */
static void gradient(void) {
    double x[] = {0.0, 0.25, -1.5, 3.0}, y[4];
    const double pi = 3.141592653589793;
    stax_graph *g = stax_graph_new(ctx);
    stax_value v = stax_input(g, "x", STAX_F64, stax_shape1(4)), slope;
    stax_tensor in = stax_tensor_of(STAX_F64, stax_shape1(4), x);
    stax_tensor out = stax_tensor_of(STAX_F64, stax_shape1(4), y);
    stax_value all = stax_sum(stax_sinc(v), stax_axes1(0), false);
    CHECK_INT(stax_grad(all, &v, 1, &slope), STAX_OK);
    stax_output(g, "slope", slope);
    CHECK_INT(stax_interpret(g, &in, &out), STAX_OK);
    CHECK(y[0] == 0);
    for (int k = 1; k < 4; k++) {
        double want = (cos(pi * x[k]) - sin(pi * x[k]) / (pi * x[k])) / x[k];
        CHECK(fabs(y[k] - want) < 1e-14); /* rounding of values below 4 */
    }
    stax_graph_free(g);
}

/* sum(2 sinc(x + w)) is one kernel that reads x and w once; op by op it is three with two more
   arrays. */
static void fused(void) {
    stax_graph *g = stax_graph_new(ctx);
    stax_value x = stax_input(g, "x", STAX_F32, stax_shape2(256, 1024));
    stax_value w = stax_input(g, "w", STAX_F32, stax_shape1(1024)); /* broadcast */
    stax_figures f;
    stax_program *p;
    stax_output(
        g, "y",
        stax_sum(stax_mul(stax_sinc(stax_add(x, w)), stax_const(g, 2.0)), stax_axes1(-1), false));
    p = stax_compile(g, NULL);
    if (CHECK(p && stax_program_figures(p, NULL, &f) == STAX_OK)) {
        double apart = f.eager_bytes;
        printf("fused: %d kernel, %.0f bytes; op by op %.0f: %.1f times as many\n", f.kernels,
               f.bytes, apart, apart / f.bytes);
        CHECK_INT(f.kernels, 1);
        CHECK(f.bytes == f.bound_bytes);
    }
    stax_program_free(p);
    stax_graph_free(g);
}

static void text_form(void) {
    stax_graph *g = stax_parse(ctx, "t", "graph g(x: i32[3]) {\n  y = sinc x\n  return y\n}\n");
    char *text = g ? stax_print(g) : NULL;
    CHECK(text && strstr(text, "y: f32[3] = sinc x"));
    stax_free(ctx, text);
    stax_graph_free(g);
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    ctx = stax_open(NULL);
    if (!ctx) return 1;
    RUN(specials);
    RUN(strided_and_empty);
    RUN(half_precision);
    RUN(errors_in_ulp);
    RUN(gradient);
    RUN(fused);
    RUN(text_form);
    stax_close(ctx);
    return HARNESS_END();
}
