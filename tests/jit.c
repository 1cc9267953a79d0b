/* Functions: tracing, keys and guards, data gates, dynamic sizes, limits, modes, fallback. Written
   as a user's program is; the counts are those of the specification and its exercises. */
#if !defined(_WIN32)
#define _GNU_SOURCE
#include <pthread.h>
#endif
#include <math.h>

#include "harness.h"
#include "heap.h"
#include "random.h"

static stax_context *ctx;

static stax_tensor f32(const void *data, stax_shape shape) {
    return stax_tensor_of(STAX_F32, shape, (void *)(uintptr_t)data);
}

static stax_jit_figures figures(stax_jit *jit) {
    stax_jit_figures f;
    stax_jit_figures_of(jit, &f);
    return f;
}

static stax_jit_options interpreted(int limit) {
    static stax_compile_options compile;
    stax_jit_options o;
    memset(&o, 0, sizeof o);
    compile.interpret = true;
    o.compile = &compile;
    o.limit = limit;
    return o;
}

static stax_jit_options dynamic(void) {
    stax_jit_options o = interpreted(64);
    o.other_dims = STAX_DIM_DYNAMIC;
    return o;
}

static void check_ok(stax_status s, const char *what) {
    if (!CHECK_INT(s, STAX_OK)) printf("%s: %s\n", what, stax_error(ctx));
}

static void explains(stax_jit *jit, const char *says) {
    char *why = stax_jit_explain(jit);
    CHECK_HAS(why, says);
    stax_free(ctx, why);
}

/* x[n] with x[i] = i + 1, through f; the last result. */
static float ramp(stax_jit *jit, int64_t n, int64_t n_out, const float *want) {
    static float x[1024], y[1024];
    for (int64_t i = 0; i < n; i++) x[i] = (float)(i + 1);
    stax_tensor in = f32(x, stax_shape1(n)), out = f32(y, n_out < 0 ? stax_shape0() : stax_shape1(n_out));
    check_ok(stax_call(jit, &in, 1, &out, 1), "ramp");
    if (want) CHECK_FLOAT(y[0], *want);
    return y[0];
}

/* ---- first and second level, misses and their reasons ---- */

/* Example 1.1 */
static void example(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    CHECK_INT(n, 2);
    out[0] = stax_sum(stax_mul(stax_relu(stax_add(in[0], in[1])), stax_trace_const(t, 2.0)), stax_axes1(-1), false);
}

static void levels(void) {
    static float x[3][8 * 16], w[8 * 16], y[8];
    stax_jit *jit = stax_jit_new(ctx, example, NULL, NULL);
    stax_tensor in[2], out = f32(y, stax_shape1(8));
    if (!CHECK(jit != NULL)) return;
    for (int i = 0; i < 8 * 16; i++) w[i] = 1, x[0][i] = 1, x[1][i] = 2, x[2][i] = -3;
    in[1] = f32(w, stax_shape2(8, 16));
    in[0] = f32(x[0], stax_shape2(8, 16));
    for (int k = 0; k < 6; k++) {
        check_ok(stax_call(jit, in, 2, &out, 1), "call");
        CHECK_FLOAT(y[7], 64);
        y[7] = 0;
    }
    stax_jit_figures f = figures(jit);
    CHECK_INT(f.calls, 6);
    CHECK_INT(f.misses, 1);
    CHECK_INT(f.compiles, 1);
    CHECK_INT(f.key_hits, 1); /* the second call on these tensors makes the record */
    CHECK_INT(f.direct_hits, 4);
    for (int k = 0; k < 6; k++) { /* new tensors of the same kind */
        in[0] = f32(x[k % 3], stax_shape2(8, 16));
        check_ok(stax_call(jit, in, 2, &out, 1), "call");
        CHECK_FLOAT(y[0], k % 3 == 0 ? 64 : k % 3 == 1 ? 96 : 0);
    }
    f = figures(jit);
    CHECK_INT(f.calls, 12);
    CHECK_INT(f.traces, 1);
    CHECK_INT(f.direct_hits + f.key_hits, 11);
    in[0] = f32(x[0], stax_shape2(4, 16));
    in[1] = f32(w, stax_shape2(4, 16));
    out = f32(y, stax_shape1(4));
    check_ok(stax_call(jit, in, 2, &out, 1), "call");
    explains(jit, "in[0].shape[0] was 8, is 4");
    explains(jit, "in[0].shape[1] == 16");
    explains(jit, "the first call");
    in[0].dtype = (stax_dtype)99;
    CHECK_INT(stax_call(jit, in, 2, &out, 1), STAX_E_ARGUMENT);
    CHECK_HAS(stax_error(ctx), "in[0]: found no valid tensor");
    f = figures(jit);
    CHECK_INT(f.calls, 14);
    CHECK_INT(f.compiles, 2);
    stax_jit_free(jit);
}

static void double_it(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)n;
    out[0] = stax_mul(in[0], stax_trace_const(t, 2.0));
}

static void layouts(void) {
    static float x[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, y[16];
    stax_jit_options o = interpreted(0);
    for (int dyn = 0; dyn < 2; dyn++) {
        o.other_dims = dyn ? STAX_DIM_DYNAMIC : STAX_DIM_STATIC;
        stax_jit *jit = stax_jit_new(ctx, double_it, NULL, &o);
        stax_tensor a = f32(x, stax_shape2(4, 4)), t = a, e = a, s = f32(x, stax_shape2(4, 2)), out = f32(y, stax_shape2(4, 4));
        t.strides[0] = 1;
        t.strides[1] = 4;
        for (int k = 0; k < 4; k++) {
            check_ok(stax_call(jit, k % 2 ? &t : &a, 1, &out, 1), "x, x.t()");
            CHECK_FLOAT(y[1], k % 2 ? 10 : 4);
        }
        CHECK_INT(figures(jit).compiles, 2);
        e.strides[1] = 0;
        check_ok(stax_call(jit, &e, 1, &out, 1), "expanded");
        CHECK_FLOAT(y[3], 2);
        s.strides[0] = 4;
        s.strides[1] = 2;
        out = f32(y, stax_shape2(4, 2));
        check_ok(stax_call(jit, &s, 1, &out, 1), "every second");
        CHECK_FLOAT(y[7], 30);
        CHECK_INT(figures(jit).keys, 4);
        explains(jit, "in[0].layout was row-major, is strided");
        stax_jit_free(jit);
    }
}

static void scale(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)n;
    stax_scalar k = stax_trace_scalar(t, 0);
    out[0] = stax_mul(in[0], n > 1 ? in[1] : k.dtype ? stax_trace_const(t, k.dtype == STAX_F64 ? k.f : (double)k.i)
                                                     : stax_trace_const(t, 1.0));
}

/* A C number is part of the key, a 0-d tensor is not; an argument may be left out. */
static void scalars(void) {
    static float x[4] = {1, 2, 3, 4}, y[4], k;
    stax_jit_options o = interpreted(0);
    stax_jit *jit = stax_jit_new(ctx, scale, NULL, &o);
    stax_tensor in[2], out = f32(y, stax_shape1(4));
    stax_scalar s;
    in[0] = f32(x, stax_shape1(4));
    in[1] = f32(&k, stax_shape0());
    for (int i = 0; i < 6; i++) {
        s = stax_scalar_int(2 + i % 2);
        check_ok(stax_call_with(jit, in, 1, &s, 1, &out, 1), "by value");
        CHECK_FLOAT(y[3], 4 * (2 + i % 2));
    }
    CHECK_INT(figures(jit).compiles, 2);
    explains(jit, "scalar[0] was 2, is 3");
    s = stax_scalar_float(2.0); /* another kind of number: another key, the same graph */
    check_ok(stax_call_with(jit, in, 1, &s, 1, &out, 1), "a float");
    CHECK_INT(figures(jit).keys, 3);
    CHECK_INT(figures(jit).compiles, 2);
    for (int i = 0; i < 5; i++) {
        k = (float)i;
        check_ok(stax_call(jit, in, 2, &out, 1), "as a tensor");
        CHECK_FLOAT(y[3], 4 * i);
    }
    CHECK_INT(figures(jit).compiles, 3);
    stax_jit_free(jit);
}

static void maybe(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)n;
    out[0] = in[0].graph ? stax_add(in[1], in[0]) : stax_mul(in[1], stax_trace_const(t, 10.0));
}

static void left_out(void) {
    static float x[2] = {1, 2}, y[2];
    stax_jit *jit = stax_jit_new(ctx, maybe, NULL, NULL);
    stax_tensor in[2], out = f32(y, stax_shape1(2));
    in[1] = f32(x, stax_shape1(2));
    for (int k = 0; k < 6; k++) {
        memset(&in[0], 0, sizeof in[0]);
        if (k % 2) in[0] = in[1];
        check_ok(stax_call(jit, in, 2, &out, 1), "left out");
        CHECK_FLOAT(y[1], k % 2 ? 4 : 20);
    }
    CHECK_INT(figures(jit).compiles, 2);
    explains(jit, "in[0].dtype was left out, is f32");
    stax_jit_free(jit);
}

static void pair(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)t;
    (void)n;
    out[0] = stax_add(in[0], in[1]);
}

/* Which tensors share memory is part of the key; the graph is the same, so is the program. */
static void aliases(void) {
    static float x[4] = {1, 2, 3, 4}, w[4] = {10, 20, 30, 40}, y[4];
    stax_jit_options o = interpreted(0);
    stax_jit *jit = stax_jit_new(ctx, pair, NULL, &o);
    stax_tensor in[2], out = f32(y, stax_shape1(4));
    in[0] = in[1] = f32(x, stax_shape1(4));
    check_ok(stax_call(jit, in, 2, &out, 1), "x, x");
    CHECK_FLOAT(y[3], 8);
    in[1] = f32(w, stax_shape1(4));
    check_ok(stax_call(jit, in, 2, &out, 1), "x, w");
    CHECK_FLOAT(y[3], 44);
    explains(jit, "in[1].memory was that of in[0], is its own");
    CHECK_INT(figures(jit).keys, 2);
    CHECK_INT(figures(jit).compiles, 1);
    stax_jit_free(jit);
}

/* Memory that is not aligned as its dtype has a key of its own, and the same results. */
static void alignment(void) {
    static float memory[8], y[4];
    static const float x[4] = {1, 2, 3, 4};
    stax_jit_options o = interpreted(0);
    for (int compiled = 0; compiled < 2; compiled++) {
        if (compiled) o.compile = NULL;
        stax_jit *jit = stax_jit_new(ctx, double_it, NULL, &o);
        for (int off = 0; off < 5; off++) {
            stax_tensor in = f32((char *)memory + off, stax_shape1(4)),
                        out = f32(y, stax_shape1(4));
            memcpy(in.data, x, sizeof x);
            check_ok(stax_call(jit, &in, 1, &out, 1), "wherever it lies");
            CHECK_FLOAT(y[3], 8);
            CHECK_INT(figures(jit).keys, off ? 2 : 1);
        }
        explains(jit, "in[0].alignment was of its dtype, is not of its dtype");
        CHECK_INT(figures(jit).programs, 1); /* the graph is the same */
        stax_jit_free(jit);
    }
}

/* The first four conditions, and how many more. */
static void many_conditions(void) {
    static float x[64], y[64];
    stax_jit_options o = interpreted(0);
    stax_jit *jit = stax_jit_new(ctx, double_it, NULL, &o);
    stax_shape shape = {{2, 2, 2, 2, 2, 2}, 6}, other = {{1, 1, 1, 1, 1, 1}, 6};
    stax_tensor in = f32(x, shape), out = f32(y, shape);
    check_ok(stax_call(jit, &in, 1, &out, 1), "2, 2, 2, 2, 2, 2");
    in = f32(x, other);
    out = f32(y, other);
    check_ok(stax_call(jit, &in, 1, &out, 1), "1, 1, 1, 1, 1, 1");
    char *why = stax_jit_explain(jit);
    CHECK_HAS(why, "in[0].shape[3] was 2, is 1, and 2 more");
    CHECK(why && !strstr(why, "in[0].shape[4] was"));
    stax_free(ctx, why);
    stax_jit_free(jit);
}

static void net(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)t;
    out[0] = in[0];
    for (int k = 1; k < n; k += 2) out[0] = stax_add(stax_matmul(out[0], in[k]), in[k + 1]);
}

/* Structs of tensors, flattened, with a tree of their names. */
static void names(void) {
    static float x[4], w[4], b[2], y[4];
    stax_jit_options o = interpreted(0);
    o.name = "net";
    o.arguments = "x layers[2]{w b}";
    stax_jit *jit = stax_jit_new(ctx, net, NULL, &o);
    stax_tensor in[5], out = f32(y, stax_shape2(2, 2));
    in[0] = f32(x, stax_shape2(2, 2));
    for (int k = 0; k < 2; k++) in[1 + 2 * k] = f32(w, stax_shape2(2, 2)), in[2 + 2 * k] = f32(b, stax_shape1(2));
    check_ok(stax_call(jit, in, 5, &out, 1), "net");
    in[4] = f32(b, stax_shape1(1));
    check_ok(stax_call(jit, in, 5, &out, 1), "net");
    explains(jit, "net: recompiling: layers[1].b.shape[0] was 2, is 1");
    CHECK_INT(stax_call(jit, in, 3, &out, 1), STAX_E_ARGUMENT);
    CHECK_HAS(stax_error(ctx), "net: expected 5 tensors (x layers[2]{w b}), found 3");
    in[3] = f32(w, stax_shape1(3)); /* an error of the graph names the argument */
    CHECK_INT(stax_call(jit, in, 5, &out, 1), STAX_E_SHAPE);
    CHECK_HAS(stax_error(ctx), "matmul");
    stax_jit_free(jit);
    o.arguments = "x layers[0]{w}";
    CHECK(stax_jit_new(ctx, net, NULL, &o) == NULL);
    CHECK_HAS(stax_error(ctx), "arguments: expected names as");
}

/* ---- data gates ---- */

static void branch(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    stax_value one = stax_trace_const(t, 1.0);
    (void)n;
    if (stax_truth(stax_all(stax_gt(in[0], stax_trace_const(t, 0.0)), stax_axes_all(), false)))
        out[0] = stax_add(in[0], one);
    else
        out[0] = stax_sub(in[0], one);
}

static void gates(void) {
    static float a[2] = {1, 2}, b[1] = {-3}, c[2] = {7, 8}, y[2];
    stax_jit *jit = stax_jit_new(ctx, branch, NULL, NULL);
    stax_tensor ta = f32(a, stax_shape1(2)), tb = f32(b, stax_shape1(1)), tc = f32(c, stax_shape1(2)), out2 = f32(y, stax_shape1(2)),
                out1 = f32(y, stax_shape1(1));
    check_ok(stax_call(jit, &ta, 1, &out2, 1), "[1,2]");
    CHECK_FLOAT(y[0], 2);
    check_ok(stax_call(jit, &tb, 1, &out1, 1), "[-3]");
    CHECK_FLOAT(y[0], -4);
    check_ok(stax_call(jit, &tc, 1, &out2, 1), "[7,8]");
    CHECK_FLOAT(y[1], 9);
    CHECK_INT(figures(jit).compiles, 2);
    CHECK_INT(figures(jit).keys, 2);
    for (int k = 0; k < 4; k++) { /* in place, in the same tensor: the gate sees it */
        a[0] = k % 2 ? -1.0f : 5.0f;
        check_ok(stax_call(jit, &ta, 1, &out2, 1), "in place");
        CHECK_FLOAT(y[0], k % 2 ? -2 : 6);
    }
    stax_jit_figures f = figures(jit);
    CHECK_INT(f.compiles, 3);
    CHECK_INT(f.direct_hits, 0); /* functions with gates always replay them */
    explains(jit, "stax_truth (" __FILE__ ":");
    explains(jit, "was true, is false");
    stax_jit_free(jit);
}

/* The second gate exists on one side of the first only, and depends on what was done there. */
static void nested(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    stax_value zero = stax_trace_const(t, 0.0), s = stax_sum(in[0], stax_axes_all(), false);
    (void)n;
    if (stax_truth(stax_gt(s, zero))) {
        stax_value y = stax_mul(in[0], in[0]);
        if (stax_truth(stax_gt(stax_sum(y, stax_axes_all(), false), stax_trace_const(t, 100.0))))
            out[0] = stax_sqrt(y);
        else
            out[0] = y;
    } else {
        double factor = stax_item_float(stax_max(in[0], stax_axes_all(), false));
        out[0] = stax_mul(in[0], stax_trace_const(t, factor));
    }
}

static float nested_want(const float *x) {
    float s = x[0] + x[1], q = x[0] * x[0] + x[1] * x[1];
    if (s > 0) return q > 100 ? fabsf(x[0]) : x[0] * x[0];
    return x[0] * (x[0] > x[1] ? x[0] : x[1]);
}

static void gate_tree(void) {
    static float x[2], y[2];
    stax_jit *jit = stax_jit_new(ctx, nested, NULL, NULL);
    stax_tensor in = f32(x, stax_shape1(2)), out = f32(y, stax_shape1(2));
    uint64_t seed = 7;
    for (int k = 0; k < 300; k++) {
        static const float values[4] = {-2, 3, -20, 30};
        x[0] = values[draw(&seed) % 4];
        x[1] = values[draw(&seed) % 4];
        check_ok(stax_call(jit, &in, 1, &out, 1), "nested");
        CHECK_FLOAT(y[0], nested_want(x));
    }
    stax_jit_figures f = figures(jit);
    CHECK_INT(f.keys, 2 + 3);     /* q > 100 or not; largest -2, 3, -20 where the sum is not above 0 */
    CHECK_INT(f.gates, 1 + 1 + 1); /* each decision once, whatever hangs below */
    CHECK_INT(f.misses, f.keys);
    CHECK_INT(f.calls, 300);
    stax_jit_free(jit);
}

static void kinds(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    stax_value s = stax_sum(in[0], stax_axes_all(), true);
    int64_t k = stax_item_int(s), i = stax_item_index(in[1], 3);
    (void)n;
    out[0] = stax_add(in[0], stax_trace_const(t, (double)(k * 10 + i)));
}

static void gate_kinds(void) {
    static float x[2], y[2];
    static int32_t i;
    stax_jit_options o = interpreted(0);
    stax_jit *jit = stax_jit_new(ctx, kinds, NULL, &o);
    stax_tensor in[2], out = f32(y, stax_shape1(2));
    in[0] = f32(x, stax_shape1(2));
    in[1] = stax_tensor_of(STAX_I32, stax_shape0(), &i);
    for (int k = 0; k < 12; k++) {
        x[0] = 0.25f + (float)(k % 2);
        x[1] = 0.5f; /* the sum is 0.75 or 1.75: 0 or 1 */
        i = k % 3 - 1;
        check_ok(stax_call(jit, in, 2, &out, 1), "kinds");
        CHECK_FLOAT(y[0], x[0] + (float)(k % 2 * 10 + (i + 3) % 3));
    }
    CHECK_INT(figures(jit).keys, 6);
    i = 3;
    CHECK_INT(stax_call(jit, in, 2, &out, 1), STAX_E_INDEX);
    CHECK_HAS(stax_error(ctx), "stax_item_index: expected -3 .. 2, found 3");
    stax_jit_free(jit);
}

/* Exercise 4: the slice taken after dead code was removed. The condition is no output, so it is
   gone, the slice is empty, and nothing is left to replay: the wrong branch runs, and the guards of
   the key, which only see dtype and shape, do not notice. */
static void wrong_order(void) {
    static float x[2] = {1, 2}, y[2];
    stax_graph *g = stax_graph_new(ctx);
    stax_value v = stax_input(g, "x", STAX_F32, stax_shape1(2));
    stax_value c = stax_gt(stax_sum(v, stax_axes_all(), false), stax_const(g, 0.0));
    (void)c;
    stax_output(g, "y", stax_add(v, stax_const(g, 1.0))); /* the branch of the sample */
    char *before = stax_print(g);
    stax_graph *swept = stax_rewritten(g);
    char *after = stax_print(swept);
    CHECK_HAS(before, "sum");
    CHECK(after && !strstr(after, "sum")); /* what would be replayed */
    stax_program *p = stax_compile(swept, NULL);
    stax_tensor in = f32(x, stax_shape1(2)), out = f32(y, stax_shape1(2));
    x[0] = -5;
    check_ok(stax_run(p, &in, &out), "the wrong order");
    CHECK_FLOAT(y[0], -4); /* wrong: the function says x - 1 */
    stax_jit *jit = stax_jit_new(ctx, branch, NULL, NULL);
    x[0] = 1;
    check_ok(stax_call(jit, &in, 1, &out, 1), "first");
    x[0] = -5;
    check_ok(stax_call(jit, &in, 1, &out, 1), "second");
    CHECK_FLOAT(y[0], -6); /* the slice was taken before */
    stax_jit_free(jit);
    stax_program_free(p);
    stax_free(ctx, before);
    stax_free(ctx, after);
    stax_graph_free(swept);
    stax_graph_free(g);
}

/* Exercise 3: guards written down beside the key, which forget k. */
static void guards_apart(void) {
    static float x[2] = {1, 2}, y[2];
    stax_tensor in = f32(x, stax_shape1(2)), out = f32(y, stax_shape1(2)), kept = in;
    stax_jit_options o = interpreted(0);
    stax_jit *jit = stax_jit_new(ctx, scale, NULL, &o);
    stax_scalar two = stax_scalar_int(2), three = stax_scalar_int(3);
    stax_program *p = stax_jit_program(jit, &in, 1, &two, 1, 1);
    bool all_hold = kept.dtype == in.dtype && kept.rank == in.rank && kept.shape[0] == in.shape[0] && kept.strides[0] == in.strides[0];
    CHECK(p && all_hold);
    check_ok(stax_run(p, &in, &out), "guards apart"); /* so the call x * 3 runs this */
    CHECK_FLOAT(y[1], 4);                             /* wrong: 6 */
    check_ok(stax_call_with(jit, &in, 1, &three, 1, &out, 1), "guards of the key");
    CHECK_FLOAT(y[1], 6);
    stax_jit_free(jit);
}

static int run_number;
static void fickle(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)n;
    out[0] = in[0];
    if (run_number++ == 0) {
        if (stax_truth(stax_gt(in[0], stax_trace_const(t, 0.0)))) out[0] = stax_neg(in[0]);
    } else if (stax_truth(stax_lt(in[0], stax_trace_const(t, 5.0)))) {
        out[0] = stax_neg(in[0]);
    }
}

static void silent(stax_trace *t, const stax_value *in, int n, stax_value *out) { (void)t, (void)in, (void)n, (void)out; }
static void own_input(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)n;
    out[0] = stax_add(in[0], stax_input(stax_trace_graph(t), "w", STAX_F32, stax_shape0()));
}
static void wide_gate(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)t, (void)n;
    out[0] = stax_truth(in[0]) ? in[0] : stax_neg(in[0]);
}
static void waits(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)t, (void)n;
    while (stax_truth(in[0])) out[0] = in[0];
    while (!stax_truth(in[0])) out[0] = in[0];
}

/* Failures of a trace are errors of the call, and say where. */
static void trace_errors(void) {
    static float x[2] = {1, 2}, y[2];
    stax_tensor in = f32(x, stax_shape0()), two = f32(x, stax_shape1(2)), out = f32(y, stax_shape0()), out2 = f32(y, stax_shape1(2));
    static const struct {
        stax_trace_fn fn;
        int wide;
        stax_status status;
        const char *message;
    } cases[] = {{silent, 0, STAX_E_ARGUMENT, "jit: the function did not set out[0]"},
                 {own_input, 0, STAX_E_ARGUMENT, "the function declared w itself"},
                 {wide_gate, 1, STAX_E_SHAPE, "stax_truth: expected one element, found f32[2]"},
                 {waits, 1, STAX_E_SHAPE, "stax_truth: expected one element, found f32[2]"},
                 {waits, 0, STAX_E_ARGUMENT, "more than 4096 decisions in one trace"}};
    stax_jit_options o = interpreted(0);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        stax_jit *jit = stax_jit_new(ctx, cases[k].fn, NULL, &o);
        CHECK_INT(stax_call(jit, cases[k].wide ? &two : &in, 1, cases[k].wide ? &out2 : &out, 1), cases[k].status);
        CHECK_HAS(stax_error(ctx), cases[k].message);
        CHECK_INT(figures(jit).keys, 0);
        stax_jit_free(jit);
    }
    stax_jit *jit = stax_jit_new(ctx, fickle, NULL, &o);
    check_ok(stax_call(jit, &in, 1, &out, 1), "fickle");
    x[0] = -1;
    CHECK_INT(stax_call(jit, &in, 1, &out, 1), STAX_E_ARGUMENT);
    CHECK_HAS(stax_error(ctx), "the function decided something else");
    x[0] = 1;
    stax_jit_free(jit);
    stax_graph *g = stax_graph_new(ctx);
    CHECK(!stax_truth(stax_input(g, "x", STAX_F32, stax_shape0())));
    CHECK_HAS(stax_graph_error(g), "expected a value of a function that stax_call is tracing");
    stax_graph_free(g);
    CHECK(stax_jit_new(ctx, NULL, NULL, NULL) == NULL);
    CHECK_HAS(stax_error(ctx), "expected a function, found NULL");
}

/* ---- not observable; without samples; assumptions ---- */

static int host_calls;
static void counter(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    stax_value p = in[0], next = stax_add(p, in[1]);
    (void)t, (void)n;
    host_calls++;
    stax_assign(p, next);
    out[0] = stax_truth(stax_gt(next, stax_trace_const(t, 2.5))) ? stax_neg(next) : next;
}

/* The state advances once a call, also in calls that trace and compile. */
static void unobservable(void) {
    static float p, x, y;
    static const int states[1] = {0};
    stax_jit_options o;
    memset(&o, 0, sizeof o);
    o.states = states;
    o.n_states = 1;
    stax_jit *jit = stax_jit_new(ctx, counter, NULL, &o);
    stax_tensor in[2], out = f32(&y, stax_shape0());
    in[0] = f32(&p, stax_shape0());
    in[1] = f32(&x, stax_shape0());
    p = 0;
    x = 1;
    host_calls = 0;
    check_ok(stax_jit_prepare(jit, in, 2, NULL, 0, 1), "prepare");
    CHECK_FLOAT(p, 0);
    for (int k = 1; k <= 5; k++) {
        check_ok(stax_call(jit, in, 2, &out, 1), "counter");
        CHECK_FLOAT(p, k);
        CHECK_FLOAT(x, 1);
        CHECK_FLOAT(y, k > 2 ? -k : k);
    }
    CHECK_INT(host_calls, 2); /* one run of the function for each outcome */
    stax_jit_free(jit);
}

/* Counts its calls, against all rules for such functions, in memory whose address it gets. */
static stax_value counting(stax_value x, stax_value address) {
    stax_value both[2];
    both[0] = x;
    both[1] = address;
    return stax_custom_call(both, 2,
                            "++*(int64_t *)b[0];\n"
                            "for (int64_t i = 0; i < a_shape[0]; i++) out[i] = a[i] + 1.0f;",
                            stax_shape1(2), NULL);
}
static void host_in_gate(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    stax_value y = counting(in[0], in[1]);
    (void)n;
    out[0] = stax_truth(stax_gt(stax_max(y, stax_axes_all(), false), stax_trace_const(t, 0)))
                 ? stax_neg(in[0])
                 : in[0];
}
static void host_in_result(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)t, (void)n;
    out[0] = stax_neg(counting(in[0], in[1]));
}
static void host_in_both(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    stax_value y = counting(in[0], in[1]);
    (void)n;
    out[0] = stax_truth(stax_gt(stax_max(y, stax_axes_all(), false), stax_trace_const(t, 0)))
                 ? stax_neg(y)
                 : y;
}

/* A host function runs once a call for each program that needs it, and once more in a trace for
   each gate that does; compiling, tuning and preparing run it no other time. */
static void host_functions_are_counted(void) {
    static const struct {
        stax_trace_fn fn;
        int trace, first,
            later; /* calls: of stax_jit_prepare, of the call that traces, of others */
    } rows[] = {{host_in_result, 0, 1, 1}, {host_in_gate, 1, 1, 1}, {host_in_both, 1, 2, 2}};
    static const char *const modes[] = {NULL, "max_autotune"};
    static int64_t count, address;
    static float x[2], y[2];
    address = (int64_t)(intptr_t)&count;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        for (int mode = 0; mode < 2; mode++)
            for (int prepared = 0; prepared < 2; prepared++) {
                stax_jit_options o;
                stax_tensor in[2], out = f32(y, stax_shape1(2));
                memset(&o, 0, sizeof o);
                o.mode = modes[mode];
                in[0] = f32(x, stax_shape1(2));
                in[1] = stax_tensor_of(STAX_I64, stax_shape1(1), &address);
                stax_jit *jit = stax_jit_new(ctx, rows[k].fn, NULL, &o);
                x[0] = x[1] = 1;
                count = 0;
                if (prepared) {
                    check_ok(stax_jit_prepare(jit, in, 2, NULL, 0, 1), "prepare");
                    CHECK_INT(count, rows[k].trace);
                }
                for (int call = 0; call < 5; call++) {
                    const bool traces = call == 3 || (call == 0 && !prepared); /* other outcome */
                    x[0] = x[1] = call == 3 ? -5.0f : 1.0f;
                    count = 0;
                    check_ok(stax_call(jit, in, 2, &out, 1), "counting");
                    /* a call that finds its gate's outcome missing has asked the gate already */
                    const int asked = call == 3 && rows[k].trace ? 1 : 0;
                    CHECK_INT(count, traces ? rows[k].first + asked : rows[k].later);
                }
                stax_jit_free(jit);
            }
}

static void positive(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)n;
    stax_assume(stax_ge(stax_min(in[0], stax_axes_all(), false), stax_trace_const(t, 1.0)));
    out[0] = stax_log(in[0]);
}

static void without_samples(void) {
    static float x[2] = {1, 2}, y[2];
    stax_jit *jit = stax_jit_new(ctx, branch, NULL, NULL);
    stax_tensor none = f32(NULL, stax_shape1(2)), in = f32(x, stax_shape1(2)), out = f32(y, stax_shape1(2));
    CHECK_INT(stax_jit_prepare(jit, &none, 1, NULL, 0, 1), STAX_E_ARGUMENT);
    CHECK_HAS(stax_error(ctx), "stax_truth: there are no samples in this trace");
    stax_jit_free(jit);
    jit = stax_jit_new(ctx, double_it, NULL, NULL);
    check_ok(stax_jit_prepare(jit, &none, 1, NULL, 0, 1), "no gates");
    check_ok(stax_call(jit, &in, 1, &out, 1), "prepared");
    CHECK_INT(figures(jit).misses, 1);
    stax_jit_free(jit);
    jit = stax_jit_new(ctx, positive, NULL, NULL);
    check_ok(stax_jit_prepare(jit, &none, 1, NULL, 0, 1), "assume");
    check_ok(stax_call(jit, &in, 1, &out, 1), "it holds");
    CHECK_FLOAT(y[0], 0);
    x[1] = 0;
    y[0] = 77;
    CHECK_INT(stax_call(jit, &in, 1, &out, 1), STAX_E_ARGUMENT);
    CHECK_HAS(stax_error(ctx), __FILE__ ":");
    CHECK_HAS(stax_error(ctx), "stax_assume: the condition does not hold");
    CHECK_FLOAT(y[0], 77); /* nothing was written */
    x[1] = 2;
    check_ok(stax_call(jit, &in, 1, &out, 1), "it holds again");
    CHECK_INT(figures(jit).misses, 1);
    stax_jit_free(jit);
}

static void pick(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    stax_value r[2];
    (void)n;
    out[0] = stax_compact(in[0], stax_gt(in[0], stax_trace_const(t, 0.0)), r);
    out[1] = r[1];
}

/* Exercise 39: a size that only the data know, as a bound and a count. */
static void bounded(void) {
    static float x[6] = {-1, 5, 0, 7, -2, 9}, y[6];
    static int64_t count;
    stax_jit_options o = dynamic();
    for (int compiled = 0; compiled < 2; compiled++) {
        if (compiled) o.compile = NULL;
        stax_jit *jit = stax_jit_new(ctx, pick, NULL, &o);
        for (int64_t n = 6; n >= 0; n--) {
            float want[6] = {0, 0, 0, 0, 0, 0};
            int64_t k = 0;
            for (int64_t i = 0; i < n; i++)
                if (x[i] > 0) want[k++] = x[i];
            stax_tensor in = f32(x, stax_shape1(n)), out[2];
            out[0] = f32(y, stax_shape1(n));
            out[1] = stax_tensor_of(STAX_I64, stax_shape0(), &count);
            check_ok(stax_call(jit, &in, 1, out, 2), "pick");
            CHECK_INT(count, k);
            CHECK_BYTES(y, want, (size_t)n * sizeof *y);
        }
        CHECK_INT(figures(jit).compiles, 3); /* 0, 1 and the rest */
        stax_jit_free(jit);
    }
    /* The refusal beside it. */
    CHECK(stax_parse(ctx, "t", "graph g(x: f32[6]) { y = nonzero x; return y }") == NULL);
    CHECK_HAS(stax_error(ctx), "keep the shape and use a mask");
}

/* ---- dynamic sizes ---- */

static void total(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)n;
    out[0] = stax_sum(stax_add(stax_mul(in[0], stax_trace_const(t, 2.0)), stax_trace_const(t, 1.0)), stax_axes_all(), false);
}

static void zero_and_one(void) {
    static const int64_t sizes[] = {3, 1, 0, 7, 1, 0, 11};
    stax_jit_options o = dynamic();
    o.compile = NULL;
    stax_jit *jit = stax_jit_new(ctx, total, NULL, &o);
    for (int k = 0; k < 7; k++) {
        float want = (float)(sizes[k] * (sizes[k] + 1) + sizes[k]);
        ramp(jit, sizes[k], -1, &want);
    }
    CHECK_INT(figures(jit).compiles, 3);
    stax_jit_free(jit);
}

static void example_dynamic(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)n;
    out[0] = stax_add(stax_mul(in[0], stax_trace_const(t, 2.0)), stax_trace_const(t, 1.0));
    out[1] = stax_sum(in[0], stax_axes1(-1), false);
    out[2] = stax_mean(in[0], stax_axes1(0), false);
}

static void one_for_all(void) {
    static const int64_t sizes[3][2] = {{3, 7}, {5, 11}, {2, 4}};
    static float x[64], y[64], s[16], m[16];
    stax_jit_options o = dynamic();
    o.compile = NULL;
    stax_jit *jit = stax_jit_new(ctx, example_dynamic, NULL, &o);
    for (int k = 0; k < 3; k++) {
        stax_shape shape = stax_shape2(sizes[k][0], sizes[k][1]);
        stax_tensor in = f32(x, shape), out[3];
        for (int i = 0; i < 64; i++) x[i] = (float)(i + k);
        out[0] = f32(y, shape);
        out[1] = f32(s, stax_shape1(sizes[k][0]));
        out[2] = f32(m, stax_shape1(sizes[k][1]));
        check_ok(stax_call(jit, &in, 1, out, 3), "dynamic");
        float sum = 0;
        for (int64_t i = 0; i < sizes[k][1]; i++) sum += x[i];
        CHECK_FLOAT(s[0], sum);
        CHECK_FLOAT(y[1], 2 * x[1] + 1);
    }
    CHECK_INT(figures(jit).compiles, 1);
    stax_jit_free(jit);
}

/* Equal sizes are not taken to be equal: only the broadcast is another program. */
static void not_equal(void) {
    static const int64_t sizes[5][2] = {{3, 3}, {5, 5}, {7, 1}, {11, 11}, {13, 1}};
    static float x[16], w[16], y[16];
    stax_jit_options o = dynamic();
    stax_jit *jit = stax_jit_new(ctx, pair, NULL, &o);
    for (int k = 0; k < 5; k++) {
        stax_tensor in[2], out = f32(y, stax_shape1(sizes[k][0]));
        in[0] = f32(x, stax_shape1(sizes[k][0]));
        in[1] = f32(w, stax_shape1(sizes[k][1]));
        check_ok(stax_call(jit, in, 2, &out, 1), "x + y");
    }
    CHECK_INT(figures(jit).programs, 2);
    stax_tensor in[2], out = f32(y, stax_shape1(3)); /* and no size is wrong in silence */
    in[0] = f32(x, stax_shape1(3));
    in[1] = f32(w, stax_shape1(5));
    CHECK_INT(stax_call(jit, in, 2, &out, 1), STAX_E_SHAPE);
    stax_jit_free(jit);
}

/* ---- functions that other compilers got wrong ---- */

static void columns_of_sum(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)t, (void)n;
    out[0] = stax_sum(stax_add(in[0], in[1]), stax_axes1(0), false);
}

static void rows_of_squares(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)t, (void)n;
    out[0] = stax_sum(stax_mul(in[0], in[0]), stax_axes1(1), false);
}

/* A function on tensors of `all` in this order; want[k] has n_out numbers. */
typedef struct use {
    int in[2];
    float want[3];
} use;

static void uses(stax_trace_fn fn, int n_in, const stax_tensor *all, const use *u, int n_uses,
                 int64_t n_out) {
    static const stax_dim_kind kinds[] = {STAX_DIM_STATIC, STAX_DIM_DYNAMIC, STAX_DIM_BUCKET,
                                          STAX_DIM_PADDED};
    for (int k = 0; k < 8; k++) {
        stax_jit_options o = interpreted(0);
        if (k >= 4) o.compile = NULL;
        o.other_dims = kinds[k % 4];
        stax_jit *jit = stax_jit_new(ctx, fn, NULL, &o);
        for (int i = 0; i < n_uses; i++) {
            float y[3] = {-1, -1, -1};
            stax_tensor in[2], out;
            for (int a = 0; a < n_in; a++) in[a] = all[u[i].in[a]];
            const int64_t rows = in[0].shape[0];
            out = f32(y, stax_shape1(n_out < 0 ? rows : n_out));
            check_ok(stax_call(jit, in, n_in, &out, 1), "use");
            CHECK_BYTES(y, u[i].want, (size_t)out.shape[0] * sizeof *y);
        }
        stax_jit_free(jit);
    }
}

/* s038: size 1 means broadcast, also where the side that broadcasts swaps, and 0 is a size. */
static void size_one_first(void) {
    static const float a[3] = {1, 2, 3}, b[6] = {1, 2, 3, 4, 5, 6}, c[1] = {0};
    static const use u[] = {{{0, 0}, {2, 4, 6}},
                            {{1, 1}, {10, 14, 18}},
                            {{1, 0}, {7, 11, 15}},
                            {{0, 1}, {7, 11, 15}},
                            {{2, 0}, {0, 0, 0}}};
    stax_tensor all[3];
    all[0] = f32(a, stax_shape2(1, 3));
    all[1] = f32(b, stax_shape2(2, 3));
    all[2] = f32(c, stax_shape2(0, 3));
    uses(columns_of_sum, 2, all, u, 5, 3);
}

/* s075: shapes that agree in some axes only. */
static void guard_on_several_sizes(void) {
    static const float a[6] = {1, 2, 3, 4, 5, 6}, c[2] = {7, 8};
    static const use u[] = {
        {{0, 0}, {14, 77, 0}}, {{1, 0}, {49, 64, 0}}, {{2, 0}, {5, 25, 61}}, {{0, 0}, {14, 77, 0}}};
    stax_tensor all[3];
    all[0] = f32(a, stax_shape2(2, 3));
    all[1] = f32(c, stax_shape2(2, 1));
    all[2] = f32(a, stax_shape2(3, 2));
    uses(rows_of_squares, 1, all, u, 4, -1);
}

static void size_branch(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)t, (void)n;
    out[0] = stax_size(in[0], 0) > 4 ? stax_neg(in[0]) : in[0];
}
static void relation_branch(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)n;
    out[0] = stax_size_is(stax_trace_graph(t), stax_dim_of(in[0], 0), STAX_GT, 4) ? stax_neg(in[0]) : in[0];
}
static void octets(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    stax_graph *g = stax_trace_graph(t);
    (void)n;
    out[0] = stax_size_is(g, stax_size_mod(g, stax_dim_of(in[0], 0), 8), STAX_EQ, 0) ? stax_neg(in[0]) : in[0];
}

static void size_branches(void) {
    static const int64_t sizes[] = {3, 7, 2, 9, 4, 11};
    stax_jit_options o = dynamic();
    for (int k = 0; k < 2; k++) {
        stax_jit *jit = stax_jit_new(ctx, k ? relation_branch : size_branch, NULL, &o);
        for (int i = 0; i < 6; i++) {
            float want = sizes[i] > 4 ? -1.0f : 1.0f;
            ramp(jit, sizes[i], sizes[i], &want);
        }
        stax_jit_figures f = figures(jit);
        CHECK_INT(f.compiles, 2);
        CHECK_INT(f.keys, k ? 2 : 6); /* numbers are keyed one by one, outcomes are two */
        CHECK_INT(f.misses, k ? 2 : 6);
        explains(jit, k ? "in0_0 > 4 was false, is true" : "stax_size in0_0 (" __FILE__ ":");
        stax_jit_free(jit);
    }
}

/* More numbers than keys are kept: the signature starts anew, the programs are found again or made. */
static void many_sizes(void) {
    stax_jit_options o = interpreted(0);
    o.other_dims = STAX_DIM_DYNAMIC;
    stax_jit *jit = stax_jit_new(ctx, size_branch, NULL, &o);
    for (int round = 0; round < 2; round++)
        for (int64_t n = 2; n < 400; n++) {
            float want = n > 4 ? -1.0f : 1.0f;
            ramp(jit, n, n, &want);
            CHECK(figures(jit).keys <= 256 && figures(jit).programs <= 2);
        }
    stax_jit_free(jit);
}

/* Exercise 28. */
static void octets_of_all_sizes(void) {
    static const struct {
        stax_dim_kind kind;
        int programs, plain;
    } rows[] = {{STAX_DIM_STATIC, 64, 64},   /* one a size                                       */
                {STAX_DIM_BUCKET, 7 + 4, 7}, /* and one more where a bucket holds both outcomes  */
                {STAX_DIM_PADDED, 7, 7},     /* decisions see the power of two                   */
                {STAX_DIM_DYNAMIC, 2 + 1, 2}}; /* one an outcome, and size 1                     */
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        stax_jit_options o = interpreted(100);
        o.other_dims = rows[k].kind;
        stax_jit *jit = stax_jit_new(ctx, octets, NULL, &o), *plain = stax_jit_new(ctx, double_it, NULL, &o);
        for (int64_t n = 1; n <= 64; n++) {
            int64_t seen = 1;
            while (seen < n) seen *= 2;
            if (rows[k].kind != STAX_DIM_PADDED) seen = n;
            float want = seen % 8 == 0 ? -1.0f : 1.0f, two = 2.0f;
            ramp(jit, n, n, &want);
            ramp(plain, n, n, &two);
        }
        CHECK_INT(figures(jit).programs, rows[k].programs);
        CHECK_INT(figures(plain).programs, rows[k].plain);
        stax_jit_free(jit);
        stax_jit_free(plain);
    }
    static float x[64], y[64];
    stax_tensor in = f32(x, stax_shape1(64)), out = f32(y, stax_shape1(64));
    stax_dim d;
    memset(&d, 0, sizeof d);
    d.kind = STAX_DIM_RANGE;
    d.name = "n";
    d.lo = 1;
    d.hi = 1024;
    stax_jit_options o = interpreted(0);
    o.dims = &d;
    o.n_dims = 1;
    stax_jit *jit = stax_jit_new(ctx, octets, NULL, &o);
    CHECK_INT(stax_call(jit, &in, 1, &out, 1), STAX_E_SHAPE);
    CHECK_HAS(stax_error(ctx), "does not follow from n in 1..1024");
    CHECK_HAS(stax_error(ctx), "declare n as DERIVED, 8 * m + 0, of a RANGE m");
    stax_jit_free(jit);
    jit = stax_jit_new(ctx, relation_branch, NULL, &o);
    CHECK_INT(stax_call(jit, &in, 1, &out, 1), STAX_E_SHAPE);
    CHECK_HAS(stax_error(ctx), "declare n in 5..1024");
    stax_jit_free(jit);
    jit = stax_jit_new(ctx, size_branch, NULL, &o);
    CHECK_INT(stax_call(jit, &in, 1, &out, 1), STAX_E_SHAPE);
    CHECK_HAS(stax_error(ctx), "stax_size: n is to be one number, but n is declared in 1..1024");
    stax_jit_free(jit);
    d.lo = 5; /* implied by the range: dropped */
    jit = stax_jit_new(ctx, relation_branch, NULL, &o);
    check_ok(stax_call(jit, &in, 1, &out, 1), "implied");
    char *why = stax_jit_explain(jit);
    CHECK(why && !strstr(why, "> 4"));
    stax_free(ctx, why);
    stax_jit_free(jit);
}

static void ends(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)t, (void)n;
    out[0] = stax_concat(in, 2, 0);
}

static void row_sums(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)t, (void)n;
    out[0] = stax_sum(in[0], stax_axes1(1), false);
}

static void declared(void) {
    static float x[64], w[64], y[64];
    stax_dim d[2];
    stax_jit_options o = interpreted(0);
    memset(d, 0, sizeof d);
    d[0].kind = STAX_DIM_RANGE;
    d[0].name = "n";
    d[0].lo = 1;
    d[0].hi = 20;
    d[1].arg = 1;
    d[1].kind = STAX_DIM_DERIVED;
    d[1].of = "n";
    d[1].times = 2;
    d[1].plus = 1;
    o.dims = d;
    o.n_dims = 2;
    stax_jit *jit = stax_jit_new(ctx, ends, NULL, &o);
    for (int64_t n = 1; n <= 20; n++) { /* 1 too: a range is a promise */
        stax_tensor in[2], out = f32(y, stax_shape1(3 * n + 1));
        for (int64_t i = 0; i < 64; i++) x[i] = (float)i, w[i] = (float)-i;
        in[0] = f32(x, stax_shape1(n));
        in[1] = f32(w, stax_shape1(2 * n + 1));
        check_ok(stax_call(jit, in, 2, &out, 1), "derived");
        CHECK_FLOAT(y[3 * n], -2 * (double)n);
    }
    CHECK_INT(figures(jit).compiles, 1);
    stax_tensor in[2], out = f32(y, stax_shape1(9));
    in[0] = f32(x, stax_shape1(4));
    in[1] = f32(w, stax_shape1(5));
    CHECK_INT(stax_call(jit, in, 2, &out, 1), STAX_E_SHAPE);
    in[0] = f32(x, stax_shape1(21));
    in[1] = f32(w, stax_shape1(43));
    CHECK_INT(stax_call(jit, in, 2, &out, 1), STAX_E_SHAPE);
    CHECK_HAS(stax_error(ctx), "the size n is 21: expected 1..20");
    stax_jit_free(jit);
    /* A derived axis of a derived one: 3 (2 n + 1) - 1. */
    stax_dim three[3];
    three[0] = d[0];
    three[1] = d[1];
    three[1].name = "m";
    three[2] = d[1];
    three[2].arg = 0;
    three[2].axis = 1;
    three[2].of = "m";
    three[2].times = 3;
    three[2].plus = -1;
    o.dims = three;
    o.n_dims = 3;
    three[0].arg = 1;
    three[0].axis = 1;
    jit = stax_jit_new(ctx, row_sums, NULL, &o);
    for (int64_t n = 1; n <= 3; n++) {
        out = f32(y, stax_shape1(2));
        in[0] = f32(x, stax_shape2(2, 3 * (2 * n + 1) - 1));
        in[1] = f32(w, stax_shape2(2 * n + 1, n));
        check_ok(stax_call(jit, in, 2, &out, 1), "derived twice");
        CHECK_FLOAT(y[0], (3 * (2 * n + 1) - 1) * (3 * (2 * n + 1) - 2) / 2);
    }
    CHECK_INT(figures(jit).compiles, 1);
    in[0].shape[1]++;
    CHECK_INT(stax_call(jit, in, 2, &out, 1), STAX_E_SHAPE);
    stax_jit_free(jit);
    o.dims = d;
    o.n_dims = 2;
    static const struct {
        stax_dim second;
        const char *message;
    } wrong[] = {
        {{0, 0, STAX_DIM_STATIC, NULL, 0, 0, NULL, 0, 0}, "dims[1]: this axis is declared twice"},
        {{1, 0, STAX_DIM_DERIVED, NULL, 0, 0, "m", 1, 0}, "dims[1]: a DERIVED axis needs `of`"},
        {{1, 0, STAX_DIM_DERIVED, NULL, 0, 0, "n", 0, 0}, "dims[1]: a DERIVED axis needs `of`"},
        {{1, 0, STAX_DIM_DERIVED, NULL, 0, 0, "n", 2, -3}, "dims[1]: its least size is negative"},
        {{1, 0, STAX_DIM_DERIVED, "k", 0, 0, "k", 1, 0}, "dims[1]: a DERIVED axis needs `of`"},
        {{1, 0, STAX_DIM_RANGE, "k", 5, 4, NULL, 0, 0}, "dims[1]: a RANGE needs 0 <= lo <= hi"},
        {{1, 9, STAX_DIM_DYNAMIC, NULL, 0, 0, NULL, 0, 0}, "dims[1]: arg and axis"}};
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        d[1] = wrong[k].second;
        CHECK(stax_jit_new(ctx, ends, NULL, &o) == NULL);
        CHECK_HAS(stax_error(ctx), wrong[k].message);
    }
}

/* -x above 100; below that the second decision follows from the first. */
static void bounded_size(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    stax_graph *g = stax_trace_graph(t);
    int64_t size = stax_dim_of(in[0], 0);
    (void)n;
    if (!stax_size_is(g, 100, STAX_GE, size))
        out[0] = stax_neg(in[0]);
    else if (stax_size_is(g, size, STAX_LT, 200) && !stax_size_is(g, size, STAX_EQ, 101))
        out[0] = stax_mul(in[0], stax_trace_const(t, 2.0));
    else
        out[0] = stax_mul(in[0], stax_trace_const(t, 3.0));
}

/* What is decided about a size narrows it: later decisions follow, the program is for these sizes
   only, and the guard sends the others elsewhere. */
static void narrowed(void) {
    static const int64_t sizes[] = {50, 150, 5, 100, 101, 200, 7};
    stax_jit_options o = dynamic();
    for (int compiled = 0; compiled < 2; compiled++) {
        if (compiled) o.compile = NULL;
        stax_jit *jit = stax_jit_new(ctx, bounded_size, NULL, &o);
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            float want = sizes[k] <= 100 ? 2.0f : -1.0f;
            ramp(jit, sizes[k], sizes[k], &want);
            CHECK_INT(figures(jit).programs, k == 0 ? 1 : 2);
        }
        CHECK_INT(figures(jit).keys, 2);
        CHECK_INT(figures(jit).misses, 2);
        char *why = stax_jit_explain(jit);
        CHECK_HAS(why, "100 >= in0_0 was true, is false");
        CHECK(why && !strstr(why, "200") && !strstr(why, "101"));
        stax_free(ctx, why);
        for (int64_t n = 50; n <= 150; n += 100) {
            static float x[150];
            stax_symbol_info range;
            stax_tensor in = f32(x, stax_shape1(n));
            stax_program *p = stax_jit_program(jit, &in, 1, NULL, 0, 1);
            if (!CHECK(p && stax_graph_symbol(stax_program_graph(p), 0, &range))) continue;
            CHECK_INT(range.lo, n == 50 ? 2 : 101);
            CHECK_INT(range.hi, n == 50 ? 100 : INT64_MAX);
        }
        stax_jit_free(jit);
    }
}

/* A RANGE without a name: its bounds are a promise, and what does not follow is part of the key. */
static void unnamed_range(void) {
    static float x[80], w[80], y[80];
    stax_dim d[2];
    stax_jit_options o = interpreted(0);
    memset(d, 0, sizeof d);
    for (int k = 0; k < 2; k++) {
        d[k].arg = k;
        d[k].kind = STAX_DIM_RANGE;
        d[k].lo = 1;
        d[k].hi = 64;
    }
    o.dims = d;
    o.n_dims = 1;
    stax_jit *jit = stax_jit_new(ctx, relation_branch, NULL, &o);
    for (int64_t n = 1; n <= 64; n++) {
        float want = n > 4 ? -1.0f : 1.0f;
        ramp(jit, n, n, &want);
    }
    CHECK_INT(figures(jit).keys, 2);
    CHECK_INT(figures(jit).programs, 2);
    stax_tensor in[2], out = f32(y, stax_shape1(65));
    in[0] = f32(x, stax_shape1(65));
    CHECK_INT(stax_call(jit, in, 1, &out, 1), STAX_E_SHAPE);
    CHECK_HAS(stax_error(ctx), "the size in0_0 is 65: expected 1..64");
    stax_jit_free(jit);
    o.n_dims = 2; /* two of them need not be equal, until the function needs it */
    jit = stax_jit_new(ctx, pair, NULL, &o);
    for (int64_t n = 1; n <= 64; n += 7) {
        in[0] = f32(x, stax_shape1(n));
        in[1] = f32(w, stax_shape1(n));
        out = f32(y, stax_shape1(n));
        check_ok(stax_call(jit, in, 2, &out, 1), "unnamed ranges");
    }
    CHECK_INT(figures(jit).programs, 1);
    in[1] = f32(w, stax_shape1(9));
    CHECK_INT(stax_call(jit, in, 2, &out, 1), STAX_E_SHAPE);
    stax_jit_free(jit);
}

static void pairs_of_elements(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)t, (void)n;
    out[0] = stax_sum(stax_reshape(in[0], stax_shape2(-1, 2)), stax_axes1(1), false);
}

static void odd_total(void) {
    static float x[21], y[21];
    stax_jit_options o = dynamic();
    stax_jit *jit = stax_jit_new(ctx, pairs_of_elements, NULL, &o);
    stax_tensor in = f32(x, stax_shape2(3, 6)), out = f32(y, stax_shape1(9));
    check_ok(stax_call(jit, &in, 1, &out, 1), "even");
    in = f32(x, stax_shape2(3, 7));
    out = f32(y, stax_shape1(10));
    CHECK_INT(stax_call(jit, &in, 1, &out, 1), STAX_E_SHAPE);
    CHECK_HAS(stax_error(ctx), "21 elements cannot be divided by the other sizes, 2");
    CHECK_INT(figures(jit).demoted, 2); /* by the call that was right */
    stax_jit_free(jit);
}

/* An axis that has changed twice becomes dynamic. */
static void promotion(void) {
    stax_jit_options o = interpreted(0);
    o.promote_after = 2;
    stax_jit *jit = stax_jit_new(ctx, double_it, NULL, &o);
    float want = 2;
    for (int64_t n = 3; n < 60; n++) ramp(jit, n, n, &want);
    stax_jit_figures f = figures(jit);
    CHECK_INT(f.compiles, 3); /* 3, 4, and all from 5 on */
    CHECK_INT(f.promoted, 1);
    CHECK_INT(f.programs, 1);
    stax_jit_free(jit);
}

/* P 13.5: uniform lengths in 1..512; exercise 43: Zipf's law. */
static double expected_versions(const double *p, int n, int calls) {
    double e = 0;
    for (int s = 0; s < n; s++) e += 1 - pow(1 - p[s], calls);
    return e;
}

static int versions(stax_dim_kind kind, const double *p, uint64_t seed, int *distinct) {
    bool seen[513] = {false};
    stax_jit_options o = interpreted(1000);
    o.other_dims = kind;
    stax_jit *jit = stax_jit_new(ctx, double_it, NULL, &o);
    float want = 2;
    *distinct = 0;
    for (int k = 0; k < 1000; k++) {
        double u = (double)(draw(&seed) >> 11) * 0x1p-53;
        int s = 0;
        while (s < 511 && u >= p[s]) u -= p[s++];
        *distinct += !seen[s + 1];
        seen[s + 1] = true;
        ramp(jit, s + 1, s + 1, &want);
    }
    int n = figures(jit).programs;
    stax_jit_free(jit);
    return n;
}

static void expected(void) {
    static double uniform[512], zipf[512];
    double h = 0;
    int distinct;
    for (int s = 0; s < 512; s++) h += 1.0 / (s + 1);
    for (int s = 0; s < 512; s++) uniform[s] = 1.0 / 512, zipf[s] = 1.0 / (s + 1) / h;
    double e = expected_versions(uniform, 512, 1000), z = expected_versions(zipf, 512, 1000);
    CHECK(fabs(e - 439.5) < 0.05);
    CHECK(fabs(z - 265) < 0.5);
    int n = versions(STAX_DIM_STATIC, uniform, 11, &distinct);
    CHECK_INT(n, distinct);
    CHECK(fabs(n - e) < 30); /* the deviation is about 8 */
    n = versions(STAX_DIM_STATIC, zipf, 12, &distinct);
    CHECK_INT(n, distinct);
    CHECK(fabs(n - z) < 40);
    CHECK_INT(versions(STAX_DIM_BUCKET, uniform, 11, &distinct), 10);
    CHECK(versions(STAX_DIM_DYNAMIC, uniform, 11, &distinct) <= 2); /* and size 1, if it came */
    stax_dim d;
    memset(&d, 0, sizeof d);
    d.kind = STAX_DIM_RANGE;
    d.name = "n";
    d.lo = 1;
    d.hi = 512;
    stax_jit_options o = interpreted(0);
    o.dims = &d;
    o.n_dims = 1;
    stax_jit *jit = stax_jit_new(ctx, double_it, NULL, &o);
    float want = 2;
    uint64_t seed = 11;
    for (int k = 0; k < 1000; k++) {
        int64_t s = 1 + (int64_t)(draw(&seed) % 512);
        ramp(jit, s, s, &want);
    }
    CHECK_INT(figures(jit).programs, 1);
    stax_jit_free(jit);
}

/* Exercise 29: 2^33 elements through a stride of 0; positions do not fit 32 bits. */
static void last_of_many(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    stax_graph *g = stax_trace_graph(t);
    int64_t rows = stax_dim_of(in[0], 0);
    (void)n;
    stax_value place = stax_reshape(stax_iota(g, stax_shape1(stax_size_mul(g, rows, 128)), 0), stax_shape2(-1, 128));
    stax_value y = stax_add(stax_cast(in[0], STAX_I64), place);
    out[0] = stax_slice(y, stax_shape2(-1, -2), stax_shape2(STAX_NONE, STAX_NONE), stax_shape2(1, 1));
}

static void wide_index(void) {
    static float x = 3;
    static int64_t y[2];
    const int64_t rows = (int64_t)1 << 26;
    for (int dyn = 0; dyn < 2; dyn++) {
        stax_jit_options o;
        memset(&o, 0, sizeof o);
        if (dyn) o.other_dims = STAX_DIM_DYNAMIC;
        stax_jit *jit = stax_jit_new(ctx, last_of_many, NULL, &o);
        stax_tensor in = f32(&x, stax_shape2(rows, 128)), out = stax_tensor_of(STAX_I64, stax_shape2(1, 2), y);
        in.strides[0] = in.strides[1] = 0;
        check_ok(stax_call(jit, &in, 1, &out, 1), "2^33 elements");
        CHECK_INT(y[1], rows * 128 - 1 + 3);
        CHECK_INT(stax_program_status(stax_jit_program(jit, &in, 1, NULL, 0, 1)), STAX_OK);
        stax_jit_free(jit);
    }
}

/* ---- hints: what is known of a size chooses tiles and loops, not results ---- */

static void product(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)n;
    if (stax_trace_scalar(t, 0).i) stax_graph_option(stax_trace_graph(t), "contraction", "unfused");
    out[0] = stax_matmul(in[0], in[1]);
}

static char *schedule_of(stax_jit *jit, const stax_tensor *in) {
    stax_program *p = stax_jit_program(jit, in, 2, NULL, 0, 1);
    stax_schedule *s = p ? stax_program_schedule(p) : NULL;
    char *text = s ? stax_schedule_print(s) : NULL;
    stax_schedule_free(s);
    CHECK(text != NULL);
    return text;
}

/* One program, compiled for a size of 3, serves sizes far from what its schedule counts on: the end
   of the range where that is near, else 1024. */
static void hints(void) {
    enum { MOST = 1500, INNER = 48, COLUMNS = 80, KINDS_OF_HINT = 3 };
    static const int64_t sizes[] = {3, 2, 4, 5, 64, 63, 1023, MOST},
                         hi[KINDS_OF_HINT] = {4, 1 << 20, 0};
    static float x[MOST * INNER], w[INNER * COLUMNS], y[MOST * COLUMNS], want[MOST * COLUMNS];
    char *schedules[KINDS_OF_HINT];
    stax_jit_options plain = dynamic();
    stax_jit *reference = stax_jit_new(ctx, product, NULL, &plain);
    uint64_t seed = RANDOM_SEED;
    for (int i = 0; i < MOST * INNER; i++) x[i] = (float)(draw(&seed) >> 40) - 8388608.0f;
    for (int i = 0; i < INNER * COLUMNS; i++) w[i] = (float)(draw(&seed) >> 40) - 8388608.0f;
    for (int k = 0; k < KINDS_OF_HINT; k++) {
        stax_dim rows;
        stax_jit_options o;
        int64_t served = 0;
        memset(&rows, 0, sizeof rows);
        memset(&o, 0, sizeof o);
        rows.kind = hi[k] ? STAX_DIM_RANGE : STAX_DIM_DYNAMIC;
        rows.lo = 2;
        rows.hi = hi[k];
        o.dims = &rows;
        o.n_dims = 1;
        stax_jit *jit = stax_jit_new(ctx, product, NULL, &o);
        stax_tensor in[2];
        in[0] = f32(x, stax_shape2(sizes[0], INNER));
        in[1] = f32(w, stax_shape2(INNER, COLUMNS));
        schedules[k] = schedule_of(jit, in);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const stax_shape shape = stax_shape2(sizes[i], COLUMNS);
            stax_tensor out = f32(y, shape), same = f32(want, shape);
            if (hi[k] && sizes[i] > hi[k]) continue;
            in[0] = f32(x, stax_shape2(sizes[i], INNER));
            check_ok(stax_call(jit, in, 2, &out, 1), "compiled");
            check_ok(stax_call(reference, in, 2, &same, 1), "interpreted");
            CHECK_BYTES(y, want, (size_t)(sizes[i] * COLUMNS) * sizeof *y);
            served++;
        }
        CHECK_INT(served, k ? 8 : 3);
        CHECK_INT(figures(jit).compiles, 1);
        CHECK_INT(figures(jit).fallbacks, 0);
        stax_jit_free(jit);
    }
    CHECK_TEXT(schedules[2], schedules[1]);                /* what the sample was does not count */
    if (schedules[0] && strstr(schedules[0], "tensorize")) /* the C compiler has vectors */
        CHECK_HAS(schedules[0], "{by=[4,"); /* no tile of more rows than there may be */
    for (int k = 0; k < KINDS_OF_HINT; k++) stax_free(ctx, schedules[k]);
    stax_jit_free(reference);
}

/* ---- options and the numeric mode are part of the key ---- */

/* -(1 + 2^-11) 1 + (1 + 2^-12)^2 is 2^-24 where products are not rounded, else 0. */
static void numeric_mode(void) {
    static float x[65], w[65], y;
    stax_jit *jit = stax_jit_new(ctx, product, NULL, NULL);
    stax_tensor in[2], out = f32(&y, stax_shape2(1, 1));
    x[0] = -(1 + 0x1p-11f);
    w[0] = 1;
    x[64] = w[64] = 1 + 0x1p-12f; /* in the same lane */
    in[0] = f32(x, stax_shape2(1, 65));
    in[1] = f32(w, stax_shape2(65, 1));
    for (int k = 0; k < 6; k++) {
        stax_scalar unfused = stax_scalar_bool(k % 2);
        check_ok(stax_call_with(jit, in, 2, &unfused, 1, &out, 1), "fma, unfused");
        CHECK_FLOAT(y, k % 2 ? 0 : 0x1p-24f);
    }
    CHECK_INT(figures(jit).programs, 2);
    stax_jit_free(jit);
}

static void kept_or_not(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    stax_value e = stax_exp(stax_mul(in[0], stax_trace_const(t, 0.625)));
    (void)n;
    out[0] = stax_sum(e, stax_axes1(1), false);
    out[1] = stax_sum(e, stax_axes1(0), false);
}

/* Functions that live at the same time share a kernel where their options ask for the same code,
   and none where they don't, whatever the folder holds; the bits are the same. */
static void options_apart(void) {
    static const struct {
        stax_realize realize;
        bool by_kernel;
        const char *settings;
        bool is_shared;
    } rows[] = {{STAX_REALIZE_KEEP, false, NULL, false},
                {STAX_REALIZE_REDO, false, NULL, false},
                {STAX_REALIZE_REDO, true, NULL, false},
                {STAX_REALIZE_KEEP, false, NULL, true},
                {STAX_REALIZE_REDO, false, "fusion=false", true}}; /* it keeps, as the first */
    enum { ROWS = sizeof rows / sizeof *rows };
    static float x[13 * 17], y[13 + 17], first[13 + 17];
    stax_jit *jits[ROWS];
    stax_tensor in = f32(x, stax_shape2(13, 17)), out[2];
    out[0] = f32(y, stax_shape1(13));
    out[1] = f32(y + 13, stax_shape1(17));
    for (int i = 0; i < 13 * 17; i++) x[i] = (float)(i % 31);
    for (int k = 0; k < ROWS; k++) {
        stax_compile_options compile;
        stax_jit_options o;
        stax_cache_figures before, after;
        memset(&compile, 0, sizeof compile);
        memset(&o, 0, sizeof o);
        compile.realize = rows[k].realize;
        compile.by_kernel = rows[k].by_kernel;
        o.compile = &compile;
        o.settings = rows[k].settings;
        CHECK_INT(stax_cache_info(ctx, &before), STAX_OK);
        jits[k] = stax_jit_new(ctx, kept_or_not, NULL, &o);
        check_ok(stax_call(jits[k], &in, 1, out, 2), "options");
        CHECK_INT(stax_cache_info(ctx, &after), STAX_OK);
        CHECK_INT(after.hits_memory - before.hits_memory, rows[k].is_shared);
        CHECK_INT(after.hits_disk + after.misses - before.hits_disk - before.misses,
                  !rows[k].is_shared);
        CHECK_INT(figures(jits[k]).fallbacks, 0);
        if (k == 0) memcpy(first, y, sizeof y);
        CHECK_BYTES(y, first, sizeof y);
    }
    for (int k = 0; k < ROWS; k++) stax_jit_free(jits[k]);
}

/* ---- training ---- */

static void loss(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    stax_value l = stax_mean(stax_mul(in[0], in[0]), stax_axes_all(), false);
    (void)t, (void)n;
    stax_grad(l, in, 1, &out[1]);
    out[0] = l;
}

static void training(void) {
    static const int64_t sizes[3][2] = {{3, 7}, {5, 11}, {2, 4}};
    static float x[64], g[64], l;
    stax_jit_options o;
    memset(&o, 0, sizeof o);
    o.other_dims = STAX_DIM_DYNAMIC;
    o.n_forward = 1;
    stax_jit *jit = stax_jit_new(ctx, loss, NULL, &o);
    stax_cache_figures before, after;
    stax_cache_info(ctx, &before);
    for (int k = 0; k < 3; k++) {
        stax_shape shape = stax_shape2(sizes[k][0], sizes[k][1]);
        int64_t n = sizes[k][0] * sizes[k][1];
        stax_tensor in = f32(x, shape), grad = f32(g, shape), out = f32(&l, stax_shape0());
        for (int i = 0; i < 64; i++) x[i] = (float)(i % 5);
        stax_training *both = stax_jit_training(jit, &in, 1, NULL, 0, 2);
        stax_saved *saved = both ? stax_saved_new(both) : NULL;
        if (!CHECK(saved != NULL)) printf("%s\n", stax_error(ctx));
        if (!saved) break;
        check_ok(stax_run_forward(both, &in, &out, saved), "forward");
        check_ok(stax_run_backward(both, saved, NULL, &grad), "backward");
        CHECK_FLOAT(g[3], 3 * (2 / (float)n));
        stax_saved_free(saved);
    }
    stax_cache_info(ctx, &after);
    CHECK_INT(figures(jit).compiles, 1);
    CHECK_INT(after.hits_memory + after.hits_disk + after.misses - before.hits_memory - before.hits_disk - before.misses, 2);
    stax_tensor in = f32(x, stax_shape2(3, 7)), out[2];
    out[0] = f32(&l, stax_shape0());
    out[1] = f32(g, stax_shape2(3, 7));
    CHECK_INT(stax_call(jit, &in, 1, out, 2), STAX_E_ARGUMENT);
    CHECK_HAS(stax_error(ctx), "use stax_jit_training");
    stax_jit_free(jit);
}

/* ---- limits and life ---- */

static char last_line[2000];
static int lines_with;
static const char *wanted_line;
static void keep_line(void *user, const char *message) {
    (void)user;
    snprintf(last_line, sizeof last_line, "%s", message);
    if (wanted_line && strstr(message, wanted_line)) lines_with++;
}

static float with_scalar(stax_jit *jit, stax_context *c, int64_t k, stax_status want) {
    static float x[2] = {1, 2}, y[2];
    stax_tensor in = f32(x, stax_shape1(2)), out = f32(y, stax_shape1(2));
    stax_scalar s = stax_scalar_int(k);
    stax_status got = stax_call_with(jit, &in, 1, &s, 1, &out, 1);
    if (!CHECK_INT(got, want)) printf("%s\n", stax_error(c));
    return y[1];
}

static void limits(void) {
    stax_options co = stax_options_default();
    co.log.func = keep_line;
    stax_context *own = stax_open(&co);
    stax_jit_options o = interpreted(0);
    stax_jit *jit = stax_jit_new(own, scale, NULL, &o);
    wanted_line = "interpreted";
    lines_with = 0;
    for (int k = 0; k < 20; k++) CHECK_FLOAT(with_scalar(jit, own, k, STAX_OK), 2 * k);
    stax_jit_figures f = figures(jit);
    CHECK_INT(f.programs, 8);
    CHECK_INT(f.interpreted, 12);
    CHECK_INT(lines_with, 1); /* said once */
    stax_jit_reset(jit);
    CHECK_INT(figures(jit).programs, 0);
    CHECK_FLOAT(with_scalar(jit, own, 19, STAX_OK), 38);
    CHECK_INT(figures(jit).programs, 1);
    CHECK_HAS(last_line, "jit: recompiling: the first call");
    stax_jit_free(jit);

    o.at_limit = STAX_LIMIT_FULL;
    o.limit = 1;
    jit = stax_jit_new(own, scale, NULL, &o);
    with_scalar(jit, own, 2, STAX_OK);
    with_scalar(jit, own, 3, STAX_E_ARGUMENT);
    CHECK_HAS(stax_error(own), "specialization limit: 1 programs live, the limit is 1");
    CHECK_FLOAT(with_scalar(jit, own, 2, STAX_OK), 4);
    stax_jit_free(jit);

    o.at_limit = STAX_LIMIT_EVICTS;
    o.limit = 3;
    jit = stax_jit_new(own, scale, NULL, &o);
    for (int k = 1; k <= 3; k++) with_scalar(jit, own, k, STAX_OK);
    with_scalar(jit, own, 1, STAX_OK);
    with_scalar(jit, own, 4, STAX_OK); /* 2 was not used for longest */
    CHECK_INT(figures(jit).evicted, 1);
    int64_t misses = figures(jit).misses;
    with_scalar(jit, own, 1, STAX_OK);
    with_scalar(jit, own, 3, STAX_OK);
    CHECK_INT(figures(jit).misses, misses);
    with_scalar(jit, own, 2, STAX_OK);
    CHECK_INT(figures(jit).misses, misses + 1);
    stax_jit_free(jit);
    stax_close(own);
}

/* What the data gates key is evicted way by way. tests/long/jit_keys.c: 10^5 keys. */
#ifndef MANY_KEYS
#define MANY_KEYS 4000
#endif
static void baked(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    int64_t k = stax_item_int(stax_sum(in[0], stax_axes_all(), false));
    (void)n;
    out[0] = stax_mul(in[0], stax_trace_const(t, (double)k));
    if (k % 2 == 0 && stax_truth(stax_gt(stax_max(in[0], stax_axes_all(), false), stax_trace_const(t, 3.0)))) out[0] = stax_neg(out[0]);
}

static void bounded_memory(void) {
    static float x[2], y[2];
    heap h;
    memset(&h, 0, sizeof h);
    stax_options co = heap_options(&h);
    stax_context *own = stax_open(&co);
    for (int mode = 0; mode < 3; mode++) {
        stax_jit_options o = interpreted(4);
        o.at_limit = mode == 1 ? STAX_LIMIT_INTERPRETS : STAX_LIMIT_EVICTS;
        stax_jit *jit = stax_jit_new(own, mode == 2 ? baked : scale, NULL, &o);
        int64_t early = 0, most = 0;
        const int n = mode == 0 ? MANY_KEYS : MANY_KEYS / 4;
        for (int k = 1; k <= n; k++) {
            if (mode < 2) {
                CHECK_FLOAT(with_scalar(jit, own, k, STAX_OK), 2 * (float)k);
            } else {
                x[0] = (float)(k % 1000);
                stax_tensor in = f32(x, stax_shape1(2)), out = f32(y, stax_shape1(2));
                check_ok(stax_call(jit, &in, 1, &out, 1), "baked");
                CHECK_FLOAT(y[0], x[0] * x[0] * (k % 2 == 0 && x[0] > 3 ? -1.0f : 1.0f));
            }
            if (h.bytes > most) most = h.bytes;
            if (k == 600) early = most;
        }
        CHECK(most <= early + early / 8);
        CHECK(figures(jit).programs <= 4);
        stax_jit_free(jit);
    }
    stax_close(own);
    CHECK_INT(h.blocks, 0);
    CHECK_INT(h.wrong, 0);
}

/* Every allocation of a miss may fail; afterwards it works as if nothing had been. */
static void no_memory(void) {
    static float x[2] = {1, 2}, y[2];
    int failures = 0;
    for (int64_t at = 1; at < 3000; at++) {
        heap h;
        memset(&h, 0, sizeof h);
        stax_options co = heap_options(&h);
        stax_context *own = stax_open(&co);
        stax_jit_options o = interpreted(0);
        o.arguments = "x";
        o.other_dims = STAX_DIM_DYNAMIC;
        h.fail_at = h.calls + at;
        stax_jit *jit = stax_jit_new(own, nested, NULL, &o);
        stax_tensor in = f32(x, stax_shape1(2)), out = f32(y, stax_shape1(2));
        stax_status s = jit ? stax_call(jit, &in, 1, &out, 1) : STAX_E_MEMORY;
        failures += h.failed;
        if (h.failed && s != STAX_OK) CHECK_INT(s, STAX_E_MEMORY);
        bool end = !h.failed;
        h.fail_at = 0;
        if (jit) {
            check_ok(stax_call(jit, &in, 1, &out, 1), "after a failure");
            CHECK_FLOAT(y[1], 4);
        }
        stax_jit_free(jit);
        stax_close(own);
        CHECK_INT(h.blocks, 0);
        CHECK_INT(h.wrong, 0);
        if (end) break;
    }
    CHECK(failures > 50);
}

/* ---- modes, fallback, records ---- */

static void modes(void) {
    static const struct {
        const char *mode, *settings, *shown;
    } good[] = {{NULL, NULL, "mode default (graphs=false, max_autotune=false, coordinate_descent=false, fusion=true)"},
                {"reduce_overhead", NULL, "graphs=true, max_autotune=false"},
                {"max_autotune", "graphs=false", "(graphs=false, max_autotune=true, coordinate_descent=true, fusion=true)"},
                {"max_autotune_no_graphs", NULL, "(graphs=false, max_autotune=true, coordinate_descent=true, fusion=true)"},
                {"default", "fusion = false,max_autotune=true", "max_autotune=true, coordinate_descent=false, fusion=false"}};
    static const struct {
        const char *mode, *settings, *message;
    } bad[] = {{"fastest", NULL, "mode: expected default, reduce_overhead, max_autotune_no_graphs, max_autotune; found fastest"},
               {NULL, "graph=true", "settings: expected graphs, max_autotune, coordinate_descent or fusion, found graph"},
               {NULL, "graphs=1", "settings: expected true or false for graphs"},
               {NULL, "graphs", "settings: expected true or false for graphs"}};
    stax_jit_options o;
    memset(&o, 0, sizeof o);
    for (size_t k = 0; k < sizeof good / sizeof *good; k++) {
        o.mode = good[k].mode;
        o.settings = good[k].settings;
        stax_jit *jit = stax_jit_new(ctx, total, NULL, &o);
        char *why = jit ? stax_jit_explain(jit) : NULL;
        float want = 12 + 3;
        CHECK_HAS(why, good[k].shown);
        if (jit) ramp(jit, 3, -1, &want);
        stax_free(ctx, why);
        stax_jit_free(jit);
    }
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        o.mode = bad[k].mode;
        o.settings = bad[k].settings;
        CHECK(stax_jit_new(ctx, total, NULL, &o) == NULL);
        CHECK_HAS(stax_error(ctx), bad[k].message);
    }
}

static void fallback(void) {
    stax_options co = stax_options_default();
    co.compiler = "/nonexistent/cc";
    co.log.func = keep_line;
    stax_context *own = stax_open(&co);
    stax_compile_options compile;
    stax_jit_options o;
    memset(&o, 0, sizeof o);
    memset(&compile, 0, sizeof compile);
    wanted_line = "/nonexistent/cc";
    lines_with = 0;
    stax_jit *jit = stax_jit_new(own, scale, NULL, &o);
    for (int k = 0; k < 3; k++) CHECK_FLOAT(with_scalar(jit, own, 5, STAX_OK), 10);
    CHECK_INT(figures(jit).fallbacks, 1);
    CHECK_INT(lines_with, 1);
    static float x[2];
    stax_tensor in = f32(x, stax_shape1(2));
    stax_scalar five = stax_scalar_int(5);
    stax_program *p = stax_jit_program(jit, &in, 1, &five, 1, 1);
    CHECK_INT(stax_program_status(p), STAX_E_COMPILER);
    char *why = stax_jit_explain(jit);
    CHECK_HAS(why, "interpreted, the C compiler failed");
    stax_free(own, why);
    stax_jit_free(jit);
    compile.strict = true;
    o.compile = &compile;
    jit = stax_jit_new(own, scale, NULL, &o);
    with_scalar(jit, own, 5, STAX_E_COMPILER);
    CHECK_INT(figures(jit).keys, 0);
    stax_jit_free(jit);
    stax_close(own);
}

static void records(void) {
    static float x[4] = {1, 2, 3, 4}, w[4] = {1, 1, 1, 1}, y[4];
    stax_jit *jit = stax_jit_new(ctx, pair, NULL, NULL);
    stax_tensor in[2], out = f32(y, stax_shape1(4));
    in[0] = f32(x, stax_shape1(4));
    in[1] = f32(w, stax_shape1(4));
    stax_record *r = stax_record_new(jit, in, 2, NULL, 0, &out, 1);
    if (CHECK(r != NULL)) {
        for (int k = 0; k < 3; k++) {
            x[0] = (float)k;
            check_ok(stax_record_run(r), "record");
            CHECK_FLOAT(y[0], k + 1);
        }
        CHECK_INT(figures(jit).calls, 1);
    } else {
        printf("%s\n", stax_error(ctx));
    }
    stax_record_free(r);
    out = f32(w, stax_shape1(3)); /* wrong is wrong, also here */
    CHECK(stax_record_new(jit, in, 2, NULL, 0, &out, 1) == NULL);
    CHECK_HAS(stax_error(ctx), "out0: expected f32[4], found f32[3]");
    out = f32(x + 1, stax_shape1(4));
    CHECK(stax_record_new(jit, in, 2, NULL, 0, &out, 1) == NULL);
    stax_jit_free(jit);
    jit = stax_jit_new(ctx, branch, NULL, NULL);
    out = f32(y, stax_shape1(4));
    CHECK(stax_record_new(jit, in, 1, NULL, 0, &out, 1) == NULL);
    CHECK_HAS(stax_error(ctx), "a record has no place for data gates");
    stax_jit_free(jit);
}

/* ---- threads ---- */

#if !defined(_WIN32)
enum { THREADS = 16, KINDS = 8, ROUNDS = 400 };

typedef struct job {
    stax_jit *jit;
    int number, wrong;
} job;

/* Every kind has a size of its own, so a signature of its own; gates flip within it. */
static void *call_work(void *arg) {
    job *j = (job *)arg;
    float x[16], y[16];
    uint64_t seed = (uint64_t)j->number * 977 + 5;
    for (int k = 0; k < ROUNDS; k++) {
        int64_t n = 2 + (int64_t)(draw(&seed) % KINDS);
        float sign = draw(&seed) % 2 ? 1.0f : -1.0f;
        for (int64_t i = 0; i < n; i++) x[i] = sign * (float)(i + 1 + k), y[i] = 0;
        stax_tensor in = f32(x, stax_shape1(n)), out = f32(y, stax_shape1(n));
        if (stax_call(j->jit, &in, 1, &out, 1) != STAX_OK) j->wrong++;
        for (int64_t i = 0; i < n; i++) j->wrong += y[i] != x[i] + sign;
    }
    return NULL;
}

static void *plain_work(void *arg) {
    job *j = (job *)arg;
    float x[16], y[16];
    for (int k = 0; k < ROUNDS; k++) {
        int64_t n = 2 + j->number % KINDS;
        for (int64_t i = 0; i < n; i++) x[i] = (float)(i + k), y[i] = 0;
        stax_tensor in = f32(x, stax_shape1(n)), out = f32(y, stax_shape1(n));
        if (stax_call(j->jit, &in, 1, &out, 1) != STAX_OK) j->wrong++;
        for (int64_t i = 0; i < n; i++) j->wrong += y[i] != 2 * x[i];
        if (j->number == 0 && k % 100 == 99) stax_jit_reset(j->jit);
    }
    return NULL;
}

static void together(stax_jit *jit, void *(*work)(void *)) {
    static job jobs[THREADS];
    pthread_t threads[THREADS];
    for (int k = 0; k < THREADS; k++) {
        jobs[k].jit = jit;
        jobs[k].number = k;
        jobs[k].wrong = 0;
        CHECK_INT(pthread_create(&threads[k], NULL, work, &jobs[k]), 0);
    }
    for (int k = 0; k < THREADS; k++) {
        pthread_join(threads[k], NULL);
        CHECK_INT(jobs[k].wrong, 0);
    }
}

static void threads(void) {
    stax_jit_options o;
    memset(&o, 0, sizeof o);
    o.limit = 2 * KINDS;
    stax_jit *jit = stax_jit_new(ctx, branch, NULL, &o);
    together(jit, call_work);
    stax_jit_figures f = figures(jit);
    CHECK_INT(f.calls, THREADS * ROUNDS);
    CHECK_INT(f.compiles, 2 * KINDS); /* each once */
    CHECK_INT(f.gates, KINDS);
    CHECK_INT(f.misses, 2 * KINDS);
    stax_jit_free(jit);
    jit = stax_jit_new(ctx, double_it, NULL, NULL); /* with a reset now and then */
    together(jit, plain_work);
    CHECK_INT(figures(jit).calls, THREADS * ROUNDS);
    stax_jit_free(jit);
    o = interpreted(3); /* and with evictions */
    o.at_limit = STAX_LIMIT_EVICTS;
    jit = stax_jit_new(ctx, branch, NULL, &o);
    together(jit, call_work);
    CHECK_INT(figures(jit).programs, 3);
    stax_jit_free(jit);
}
#endif

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    stax_options co = stax_options_default();
    co.compiler_flags = getenv("STAX_TEST_FLAGS"); /* of tests/long/sanitize.sh */
    ctx = stax_open(&co);
    RUN(levels);
    RUN(layouts);
    RUN(scalars);
    RUN(left_out);
    RUN(aliases);
    RUN(alignment);
    RUN(many_conditions);
    RUN(names);
    RUN(gates);
    RUN(gate_tree);
    RUN(gate_kinds);
    RUN(wrong_order);
    RUN(guards_apart);
    RUN(trace_errors);
    RUN(unobservable);
    RUN(host_functions_are_counted);
    RUN(without_samples);
    RUN(bounded);
    RUN(zero_and_one);
    RUN(one_for_all);
    RUN(not_equal);
    RUN(size_one_first);
    RUN(guard_on_several_sizes);
    RUN(size_branches);
    RUN(many_sizes);
    RUN(octets_of_all_sizes);
    RUN(declared);
    RUN(narrowed);
    RUN(unnamed_range);
    RUN(odd_total);
    RUN(promotion);
    RUN(expected);
    RUN(wide_index);
    RUN(hints);
    RUN(numeric_mode);
    RUN(options_apart);
    RUN(training);
    RUN(limits);
    RUN(bounded_memory);
    RUN(no_memory);
    RUN(modes);
    RUN(fallback);
    RUN(records);
#if !defined(_WIN32)
    RUN(threads);
#endif
    stax_close(ctx);
    return HARNESS_END();
}
