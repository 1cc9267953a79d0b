/* Custom ops: C text of the user's, alone and fused, against the same C compiled into this test. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../stax.h"

#include "harness.h"

enum { N = 37, ROWS = 5 };

static stax_context *ctx;

static float element(int i) { return (float)((i * 7919) % 211 - 100) * 0.03125f; }

/* Compiled and interpreted, the same bits; `want` are they. */
static void gives(stax_graph *g, const stax_tensor *in, stax_tensor out, const void *want,
                  size_t bytes) {
    stax_compile_options strict;
    stax_program *p;
    memset(&strict, 0, sizeof strict);
    strict.strict = true;
    p = stax_compile(g, &strict);
    if (!CHECK(p != NULL)) {
        printf("%s\n", stax_error(ctx));
        return;
    }
    memset(out.data, 0x55, bytes);
    CHECK_INT(stax_run(p, in, &out), STAX_OK);
    CHECK(memcmp(out.data, want, bytes) == 0);
    memset(out.data, 0x55, bytes);
    CHECK_INT(stax_interpret(g, in, &out), STAX_OK);
    CHECK(memcmp(out.data, want, bytes) == 0);
    stax_program_free(p);
}

static void expression(void) {
    float x[ROWS * N], y[ROWS * N], want[ROWS * N];
    int32_t k[N];
    stax_tensor in[2];
    stax_graph *g = stax_graph_new(ctx);
    stax_value v[3];
    for (int i = 0; i < ROWS * N; i++) x[i] = element(i);
    for (int i = 0; i < N; i++) k[i] = i - 11;
    for (int i = 0; i < ROWS * N; i++)
        want[i] = x[i] * (float)k[i % N] + (x[i] > 0 ? 0.5f : x[i] / 3.0f) - 1.5f;
    v[0] = stax_input(g, "x", STAX_F32, stax_shape2(ROWS, N));
    v[1] = stax_input(g, "k", STAX_I32, stax_shape1(N));
    v[2] = stax_const(g, 1.5);
    stax_output(g, "y", stax_custom(v, 3, "a * (float)b + (a > 0 ? 0.5f : a / 3.0f) - c", NULL));
    in[0] = stax_tensor_of(STAX_F32, stax_shape2(ROWS, N), x);
    in[1] = stax_tensor_of(STAX_I32, stax_shape1(N), k);
    gives(g, in, stax_tensor_of(STAX_F32, stax_shape2(ROWS, N), y), want, sizeof want);
    stax_graph_free(g);
}

/* Statements, another dtype of the result, and a bool that is 0 or 1 whatever the text gives. */
static void statements(void) {
    float x[N];
    uint32_t y[N], want[N];
    uint8_t odd[N], want_odd[N];
    stax_tensor in[1];
    stax_graph *g = stax_graph_new(ctx), *b = stax_graph_new(ctx);
    stax_value v;
    for (int i = 0; i < N; i++) {
        uint32_t n = 0;
        float t;
        x[i] = 1.0f + (float)(i * i);
        for (t = x[i]; t > 1.5f; t *= 0.5f) n++;
        want[i] = n;
        want_odd[i] = (int)x[i] % 3 != 0;
    }
    in[0] = stax_tensor_of(STAX_F32, stax_shape1(N), x);
    v = stax_input(g, "x", STAX_F32, stax_shape1(N));
    stax_output(g, "y",
                stax_custom_as(&v, 1,
                               "unsigned n = 0;\nfor (; a > 1.5f; a *= 0.5f) n++;\n"
                               "return n;",
                               NULL, STAX_U32));
    gives(g, in, stax_tensor_of(STAX_U32, stax_shape1(N), y), want, sizeof want);
    v = stax_input(b, "x", STAX_F32, stax_shape1(N));
    stax_output(b, "y", stax_custom_as(&v, 1, "(int)a % 3 /* 0, 1, 2 */", NULL, STAX_BOOL));
    gives(b, in, stax_tensor_of(STAX_BOOL, stax_shape1(N), odd), want_odd, sizeof want_odd);
    stax_graph_free(g);
    stax_graph_free(b);
}

/* Stax's own functions by name; one kernel, in which the custom op is a producer and a consumer. */
static void fused(void) {
    static float x[ROWS * N], y[ROWS], want[ROWS];
    stax_tensor in[1], out;
    stax_graph *g = stax_graph_new(ctx), *plain = stax_graph_new(ctx);
    stax_figures figures;
    stax_program *p;
    stax_value v;
    for (int i = 0; i < ROWS * N; i++) x[i] = element(i);
    in[0] = stax_tensor_of(STAX_F32, stax_shape2(ROWS, N), x);
    out = stax_tensor_of(STAX_F32, stax_shape1(ROWS), want);
    v = stax_neg(stax_input(plain, "x", STAX_F32, stax_shape2(ROWS, N)));
    v = stax_add(stax_mul(stax_exp(v), v), stax_tanh(v));
    stax_output(plain, "y", stax_sum(stax_relu(v), stax_axes1(-1), false));
    CHECK_INT(stax_interpret(plain, in, &out), STAX_OK);
    v = stax_neg(stax_input(g, "x", STAX_F32, stax_shape2(ROWS, N)));
    v = stax_custom(&v, 1, "exp_f32(a) * a + tanh_f32(a)", "g");
    stax_output(g, "y", stax_sum(stax_relu(v), stax_axes1(-1), false));
    gives(g, in, stax_tensor_of(STAX_F32, stax_shape1(ROWS), y), want, sizeof want);
    p = stax_compile(g, NULL);
    if (CHECK(p && stax_program_figures(p, in, &figures) == STAX_OK)) {
        CHECK_INT(figures.kernels, 1);
        CHECK_INT((int64_t)figures.bytes, (int64_t)figures.bound_bytes);
    }
    stax_program_free(p);
    stax_graph_free(g);
    stax_graph_free(plain);
}

static void half_precision(void) {
    uint16_t x[2] = {0x3c00 /* 1 */, 0xc200 /* -3 */}, y[2], want[2] = {0x3e00, 0xb600};
    stax_tensor in[1];
    stax_graph *g = stax_graph_new(ctx);
    stax_value v = stax_input(g, "x", STAX_F16, stax_shape1(2));
    in[0] = stax_tensor_of(STAX_F16, stax_shape1(2), x);
    stax_output(g, "y", stax_custom(&v, 1, "a > 0 ? a * 1.5f : a * 0.125f", NULL));
    gives(g, in, stax_tensor_of(STAX_F16, stax_shape1(2), y), want, sizeof want);
    stax_graph_free(g);
}

/* A running mean of each row: no op does it, and its operand is computed and strided. */
static void whole_tensors(void) {
    float x[N * ROWS], y[ROWS * N], want[ROWS * N];
    stax_tensor in[1];
    stax_graph *g = stax_graph_new(ctx);
    stax_value v = stax_input(g, "x", STAX_F32, stax_shape2(N, ROWS));
    for (int i = 0; i < N * ROWS; i++) x[i] = element(i);
    for (int r = 0; r < ROWS; r++) {
        float sum = 0;
        for (int i = 0; i < N; i++) {
            sum += 2.0f * x[i * ROWS + r];
            want[r * N + i] = -(sum / (float)(i + 1));
        }
    }
    v = stax_mul(stax_transpose(v), stax_const(g, 2.0));
    v = stax_custom_call(&v, 1,
                         "for (int64_t r = 0; r < a_shape[0]; r++) {\n"
                         "    float sum = 0;\n"
                         "    for (int64_t i = 0; i < a_shape[1]; i++) {\n"
                         "        sum += a[r * a_shape[1] + i];\n"
                         "        out[r * a_shape[1] + i] = sum / (float)(i + 1);\n"
                         "    }\n"
                         "}",
                         stax_shape2(ROWS, N), NULL);
    stax_output(g, "y", stax_neg(v));
    in[0] = stax_tensor_of(STAX_F32, stax_shape2(N, ROWS), x);
    gives(g, in, stax_tensor_of(STAX_F32, stax_shape2(ROWS, N), y), want, sizeof want);
    stax_graph_free(g);
}

/* A shape rule: sizes computed from symbols. */
static void shape_rule(void) {
    float x[7] = {1, 2, 3, 4, 5, 6, 7}, y[3], want[3] = {3, 7, 11};
    stax_tensor in[1];
    stax_graph *g = stax_graph_new(ctx);
    int64_t n = stax_symbol(g, "n", 0, 100);
    stax_value v = stax_input(g, "x", STAX_F32, stax_shape1(n));
    stax_output(g, "y",
                stax_custom_call(&v, 1,
                                 "for (int64_t i = 0; i < out_shape[0]; i++)\n"
                                 "    out[i] = a[2 * i] + a[2 * i + 1];",
                                 stax_shape1(stax_size_floordiv(g, n, 2)), NULL));
    in[0] = stax_tensor_of(STAX_F32, stax_shape1(7), x);
    gives(g, in, stax_tensor_of(STAX_F32, stax_shape1(3), y), want, sizeof want);
    stax_graph_free(g);
}

static void round_trip(void) {
    const char *text =
        "graph g(x: f32[3]) {\n  y: f32[3] = custom x {text=\"a // \\\"n\\\\n\\n + 1\", "
        "derivative=\"g\"}\n  return y\n}\n";
    stax_graph *g = stax_parse(ctx, "t.stax", text);
    char *again;
    if (!CHECK(g != NULL)) return;
    again = stax_print(g);
    CHECK(again && strcmp(again, text) == 0);
    stax_free(ctx, again);
    stax_graph_free(g);
}

static void fails(const stax_value *v, int n, const char *text, stax_dtype dtype,
                  stax_status status, const char *says) {
    stax_graph *g = v[0].graph;
    if (dtype)
        (void)stax_custom_as(v, n, text, NULL, dtype);
    else
        (void)stax_custom(v, n, text, NULL);
    CHECK_INT(stax_graph_status(g), status);
    if (!CHECK(strstr(stax_graph_error(g), says) != NULL))
        printf("found: %s\nexpected in it: %s\n", stax_graph_error(g), says);
    stax_graph_free(g);
}

static void wrong_use(void) {
    static const char *const names[] = {"x", "b", "c", "d", "e", "f", "g", "h", "i"};
    stax_value v[9];
    for (int k = 0; k < 6; k++) {
        stax_graph *g = stax_graph_new(ctx);
        for (int i = 0; i < 9; i++) v[i] = stax_input(g, names[i], STAX_F32, stax_shape1(3));
        if (k == 0) fails(v, 9, "a", STAX_DTYPE_NONE, STAX_E_ARGUMENT, "custom");
        if (k == 1) fails(v, 1, NULL, STAX_DTYPE_NONE, STAX_E_ARGUMENT, "attribute text is needed");
        if (k == 2)
            fails(v, 1, "sinf(a)", STAX_DTYPE_NONE, STAX_E_NAME, "no function sinf in Stax");
        if (k == 3) fails(v, 1, "a", STAX_F8E4M3, STAX_E_DTYPE, "a dtype to compute in");
        if (k == 4) {
            v[0] = stax_const(g, 1.0);
            fails(v, 1, "a", STAX_DTYPE_NONE, STAX_E_DTYPE, "at least one operand");
        }
        if (k == 5) {
            v[1] = stax_input(g, "wide", STAX_F32, stax_shape1(4));
            fails(v, 2, "a + b", STAX_DTYPE_NONE, STAX_E_SHAPE, "do not broadcast");
        }
    }
}

/* What the compiler says of a text names the text, its line and its column. */
static void compiler_messages(void) {
    stax_graph *g = stax_graph_new(ctx);
    stax_value v = stax_input(g, "x", STAX_F32, stax_shape1(3));
    stax_compile_options strict;
    memset(&strict, 0, sizeof strict);
    strict.strict = true;
    stax_output(g, "y", stax_custom(&v, 1, "a +\n  unknown", NULL));
    CHECK(stax_ok(g));
    CHECK(stax_compile(g, &strict) == NULL);
    if (!CHECK(strstr(stax_error(ctx), "text of custom:2") != NULL)) puts(stax_error(ctx));
    CHECK(strstr(stax_error(ctx), "unknown") != NULL);
    stax_graph_free(g);
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    ctx = stax_open(NULL);
    if (!ctx) return 1;
    RUN(expression);
    RUN(statements);
    RUN(fused);
    RUN(half_precision);
    RUN(whole_tensors);
    RUN(shape_rule);
    RUN(round_trip);
    RUN(wrong_use);
    RUN(compiler_messages);
    stax_close(ctx);
    return HARNESS_END();
}
