/* What happens when a stage fails or breaks: each stage by an injected fault. The search for it,
   the comparator and its bounds. */
#define STAX_IMPLEMENTATION
#include "stax.h"

#include "feed.h"
#include "harness.h"
#include "programs.h"

static int lines; /* of the log */

static void count_line(void *user, const char *line) {
    (void)user;
    (void)line;
    lines++;
}

/* A context in which this fails or breaks. */
static void reopen(const char *fault, bool strict, int n_threads) {
    stax_options o = stax_options_default();
    stax_close(ctx);
    o.fault = fault;
    o.strict = strict;
    o.n_threads = n_threads;
    o.log.func = count_line;
    ctx = stax_open(&o);
    lines = 0;
}

static const char *const net =
    "sizes n: 1..64\n"
    "graph net(x: f32[n,6], param w: f32[4,6], inout s: f32[4]) {\n"
    "  a = mul x, 1.0; b = linear a, w; c = sub b, 0.0; d = add c, s; e = exp d; m = max e "
    "{axes=1, keepdims=true}\n"
    "  f = div e, m; t = sum f {axes=0}; assign s, t; g = maximum f, 0.5; h = mul t, 3.0; return "
    "g, h\n}";

/* The program gives the bits of the interpreter, states too. */
static void check_as_interpreted(const stax_graph *g, stax_program *p, int64_t size) {
    static feed want, got;
    CHECK(feed_make(&want, g, size, 3) && feed_make(&got, g, size, 3));
    CHECK_INT(stax_interpret(g, want.all, want.outputs), STAX_OK);
    CHECK_INT(feed_bind(p, &got), STAX_OK);
    CHECK_INT(stax_run(p, got.slots, got.outputs), STAX_OK);
    CHECK(feed_equal(&want, &got));
    feed_free(&want);
    feed_free(&got);
}

/* ---- failure ---- */

static const char *const backend_stages[] = {"rewrite", "lower",   "schedule", "loops",
                                             "emit",    "compile", "load"};
enum { N_BACKEND_STAGES = sizeof backend_stages / sizeof backend_stages[0] };

static void falls_back_or_is_strict(void) {
    for (int k = 0; k < N_BACKEND_STAGES; k++) {
        for (int regions = 0; regions < 2; regions++) {
            const char *text = regions ? feed_graphs[12] : net;
            reopen(backend_stages[k], false, 1);
            stax_graph *g = parsed(text);
            stax_program *p = stax_compile(g, NULL);
            if (CHECK(p != NULL)) {
                CHECK_INT(stax_program_status(p), STAX_E_INTERNAL);
                CHECK_INT(stax_context_fallbacks(ctx), 1);
                CHECK_INT(lines, 1);
                CHECK_HAS(stax_error(ctx), backend_stages[k]);
                check_as_interpreted(g, p, 5);
            }
            stax_program_free(p);
            stax_compile_options o;
            memset(&o, 0, sizeof o);
            o.strict = true;
            p = stax_compile(g, &o);
            CHECK(p == NULL);
            CHECK_INT(stax_error_status(ctx), STAX_E_INTERNAL);
            CHECK_HAS(stax_error(ctx), backend_stages[k]);
            CHECK_INT(stax_context_fallbacks(ctx), 1);
            stax_program_free(p);
            stax_graph_free(g);
            reopen(backend_stages[k], true, 1);
            g = parsed(text);
            p = stax_compile(g, NULL);
            CHECK(p == NULL);
            CHECK_INT(stax_context_fallbacks(ctx), 0);
            stax_program_free(p);
            stax_graph_free(g);
        }
    }
}

/* No graph, nothing to interpret: always an error. */
static void capture_fails(void) {
    static const char *const stages[] = {"capture", "decompose"};
    for (int k = 0; k < 2; k++) {
        reopen(stages[k], false, 1);
        stax_graph *g = parsed(net);
        stax_program *p = stax_compile(g, NULL);
        CHECK(p == NULL);
        CHECK_HAS(stax_error(ctx), stages[k]);
        CHECK_INT(stax_context_fallbacks(ctx), 0);
        CHECK_INT(lines, 1);
        stax_program_free(p);
        stax_graph_free(g);
    }
    reopen(NULL, false, 1);
    stax_graph *g = stax_graph_new(ctx); /* what is wrong by itself */
    stax_value x = stax_input(g, "x", STAX_F32, stax_shape1(3));
    stax_output(g, "y", stax_matmul(x, stax_input(g, "w", STAX_F32, stax_shape1(4))));
    CHECK(stax_compile(g, NULL) == NULL);
    CHECK_INT(stax_context_fallbacks(ctx), 0);
    stax_graph_free(g);
}

/* EAGER and AOT_EAGER interpret, and say so by the status; all three give the same bits. */
static void backends(void) {
    reopen(NULL, false, 1);
    for (int k = 0; k < FEED_GRAPHS; k++) {
        stax_graph *g = parsed(feed_graphs[k]);
        for (int backend = STAX_BACKEND_AOT_EAGER; backend <= STAX_BACKEND_EAGER; backend++) {
            stax_compile_options o;
            memset(&o, 0, sizeof o);
            o.backend = (stax_backend)backend;
            stax_program *p = stax_compile(g, &o);
            if (CHECK(p != NULL)) {
                CHECK_INT(stax_program_status(p), STAX_E_NOT_BUILT);
                check_as_interpreted(g, p, 8);
            }
            stax_program_free(p);
        }
        stax_graph_free(g);
    }
    CHECK_INT(stax_context_fallbacks(ctx), 0);
}

/* ---- the search ---- */

/* The fault is found where it was put, and the states are as they were. */
static void finds(const char *text, const char *fault, int n_forward, const char *layer,
                  const char *pass, int most_runs) {
    static feed f, before;
    stax_bisection out;
    stax_bisect_options o;
    memset(&o, 0, sizeof o);
    o.n_forward = n_forward;
    reopen(fault, false, 2);
    stax_graph *g = parsed(text);
    CHECK(feed_make(&f, g, 5, 3) && feed_make(&before, g, 5, 3));
    CHECK_INT(stax_bisect(g, f.all, &o, &out), STAX_OK);
    int same = CHECK_TEXT(out.layer, layer);
    if (layer) same = CHECK_TEXT(out.pass, pass) && same;
    if (!same) printf("fault %s: %s\n", fault ? fault : "none", out.what);
    CHECK(layer ? strlen(out.what) > 10 : out.what[0] == 0);
    CHECK(out.runs > 0 && out.runs <= most_runs);
    CHECK(feed_equal(&f, &before));
    feed_free(&f);
    feed_free(&before);
    stax_graph_free(g);
}

static bool has_vectors(void) {
    int isa = STAXI_ISA_SCALAR;
    (void)staxi_toolchain_target(&ctx->toolchain, &isa, NULL);
    return isa > STAXI_ISA_SCALAR;
}

static void nothing_is_wrong(void) {
    for (int k = 0; k < FEED_GRAPHS; k++) finds(feed_graphs[k], NULL, 0, NULL, NULL, 3);
    finds(net, NULL, 1, NULL, NULL, 4);
}

static void each_layer(void) {
    finds(net, "capture=wrong", 0, "eager", "capture", 1);
    finds(net, "decompose=wrong", 0, "aot_eager", "decompose", 4);
    finds(net, "partition=wrong", 1, "aot_eager", "partition", 4);
    finds(net, "lower=wrong", 0, "stax", "lower", 8);
}

static void each_decision_of_the_compiler(void) {
    finds(net, "realize=wrong", 0, "stax", "realize", 8);
    finds(net, "fuse=wrong", 0, "stax", "fuse", 8);
    if (has_vectors()) finds(net, "vectors=wrong", 0, "stax", "vectors", 8);
    finds(net, "optimise=wrong", 0, "stax", "optimise", 8);
    finds(net, "threads=wrong", 0, "stax", "threads", 8);
    finds(
        "graph r(x: f32[4], c: bool[]) { y = mul x, 2.0\n"
        "  z = cond c { then() { r = add y, 1.0; return r } else() { r = add y, 2.0; return r } }; "
        "return z }",
        "fuse=wrong", 0, "stax", "fuse", 8);
}

static void each_failing_stage(void) {
    for (int k = 1; k < N_BACKEND_STAGES; k++)
        finds(net, backend_stages[k], 0, "stax", backend_stages[k], 3);
    finds(net, "capture", 0, "eager", "capture", 1);
}

/* Each rule that fires in one of the graphs, broken: its first wrong firing names it. */
static void each_rule_that_fires(void) {
    int found = 0, tried = 0;
    char seen[4000] = "";
    for (int k = 0; k < FEED_GRAPHS; k++) {
        reopen(NULL, false, 1);
        stax_graph *g = parsed(feed_graphs[k]), *basis = stax_rewritten(g);
        for (int r = 1; basis && r < stax_graph_n_rules(basis); r++) {
            stax_rule_figures rule;
            stax_bisection out;
            static feed f;
            char fault[80], name[80];
            stax_graph_rule(basis, r, &rule);
            snprintf(name, sizeof name, "%s.%s", rule.set, rule.rule);
            if (rule.fired == 0 || strstr(seen, name) || strlen(seen) > 3800) continue;
            snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s ", name);
            snprintf(fault, sizeof fault, "%s=wrong", rule.rule);
            stax_options o = stax_options_default();
            o.fault = fault;
            stax_context *c = stax_open(&o);
            stax_graph *broken = stax_parse(c, "t.stax", feed_graphs[k]);
            if (CHECK(broken && feed_make(&f, broken, 6, 3))) {
                CHECK_INT(stax_bisect(broken, f.all, NULL, &out), STAX_OK);
                tried++;
                if (out.layer) { /* there was an op to break, and it matters */
                    found++;
                    CHECK_TEXT(out.layer, "aot_eager");
                    CHECK_TEXT(out.pass, name);
                    CHECK(out.firing >= 1 && out.firing <= out.firings);
                }
            }
            feed_free(&f);
            stax_graph_free(broken);
            stax_close(c);
        }
        stax_graph_free(basis);
        stax_graph_free(g);
    }
    printf("rules that fire: %d, found when broken: %d\n", tried, found);
    CHECK(found >= 5);
}

/* ---- of a function ---- */

static int ran; /* runs of the function */

/* The gate has an op that can be broken if `user`, its branches always. */
static void gated(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    stax_value zero = stax_trace_const(t, 0.0), v = in[0];
    (void)n;
    ran++;
    if (stax_trace_user(t))
        v = stax_sub(stax_mul(in[0], stax_trace_const(t, 1.0)), stax_trace_const(t, 1.0));
    if (stax_truth(stax_gt(stax_max(v, stax_axes_all(), false), zero)))
        out[0] = stax_mul(in[0], in[1]);
    else
        out[0] = stax_sub(stax_exp(in[0]), in[1]);
    out[1] = stax_sum(out[0], stax_axes1(-1), false);
    stax_assign(in[1], stax_add(in[1], in[0]));
}

/* Whose result a static number decides too: wrong from the second run on, or the third. */
static int steady_runs;
static void fickle(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)n;
    out[0] = stax_mul(in[0], stax_trace_const(t, ran++ < steady_runs ? 2.0 : 3.0));
}

/* x decides: all <= 0 or not. The tensors are as they were. */
static stax_status function_search(stax_jit *jit, bool above, stax_bisection *out) {
    static float x[4], s[4];
    static const float low[4] = {-1, -2, -0.5f, -3}, high[4] = {0.5f, -2, 0.25f, -3},
                       state[4] = {5, 6, 7, 8};
    stax_tensor in[2];
    memcpy(x, above ? high : low, sizeof x);
    memcpy(s, state, sizeof s);
    in[0] = stax_tensor_of(STAX_F32, stax_shape1(4), x);
    in[1] = stax_tensor_of(STAX_F32, stax_shape1(4), s);
    stax_status status = stax_jit_bisect(jit, in, 2, NULL, 0, 2, NULL, out);
    CHECK_BYTES(x, above ? high : low, sizeof x);
    CHECK_BYTES(s, state, sizeof s);
    return status;
}

static void finds_in_function(const char *fault, bool in_gate, const char *layer,
                              const char *pass) {
    static const int states[1] = {1};
    static char yes;
    stax_bisection out;
    stax_jit_options o;
    memset(&o, 0, sizeof o);
    o.n_states = 1;
    o.states = states;
    reopen(fault, false, 2);
    for (int above = 0; above < 2; above++) {
        stax_jit *jit = stax_jit_new(ctx, gated, in_gate ? &yes : NULL, &o);
        ran = 0;
        CHECK_INT(function_search(jit, above != 0, &out), STAX_OK);
        if (!(CHECK_TEXT(out.layer, layer) && (!layer || CHECK_TEXT(out.pass, pass))))
            printf("fault %s, %d: %s\n", fault ? fault : "none", above, out.what);
        CHECK_INT(out.gate, layer && in_gate ? 1 : 0);
        if (out.gate) CHECK_HAS(out.what, "stax_truth: gate: 1 of 1 elements differ");
        if (out.gate) CHECK_HAS(out.what, "tests/bisect.c:");
        CHECK_INT(ran, layer ? 1 : 2);
        CHECK(out.runs >= 1 && out.runs <= 12);
        stax_jit_free(jit);
    }
}

static void function_is_right(void) {
    finds_in_function(NULL, false, NULL, NULL);
    finds_in_function(NULL, true, NULL, NULL);
}

/* The same faults as above, where the gate goes wrong and where only its branch does. */
static void function_each_layer(void) {
    for (int gate = 0; gate < 2; gate++) {
        finds_in_function("capture=wrong", gate, "eager", "capture");
        finds_in_function("decompose=wrong", gate, "aot_eager", "decompose");
        finds_in_function("lower=wrong", gate, "stax", "lower");
        finds_in_function("optimise=wrong", gate, "stax", "optimise");
    }
}

/* A rule that fires in the gate only, and breaks nothing but its outcome. */
static void function_rule(void) {
    finds_in_function("mul_one=wrong", true, "aot_eager", "algebra.mul_one");
}

static void gated_loss(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    const bool large =
        stax_truth(stax_gt(stax_max(in[0], stax_axes_all(), false), stax_trace_const(t, 0)));
    (void)n;
    out[0] = stax_sum(large ? stax_exp(in[0]) : stax_mul(in[0], in[0]), stax_axes_all(), false);
    stax_grad(out[0], in, 1, &out[1]);
}

/* The jit's n_forward is taken: forward and backward apart. */
static void function_partition(void) {
    static float x[4] = {1, -2, 3, 4};
    stax_tensor in = stax_tensor_of(STAX_F32, stax_shape1(4), x);
    stax_bisection out;
    stax_jit_options o;
    memset(&o, 0, sizeof o);
    o.n_forward = 1;
    for (int wrong = 0; wrong < 2; wrong++) {
        reopen(wrong ? "partition=wrong" : NULL, false, 1);
        stax_jit *jit = stax_jit_new(ctx, gated_loss, NULL, &o);
        CHECK_INT(stax_jit_bisect(jit, &in, 1, NULL, 0, 2, NULL, &out), STAX_OK);
        CHECK_TEXT(out.layer, wrong ? "aot_eager" : NULL);
        CHECK_TEXT(out.pass, wrong ? "partition" : "");
        stax_jit_free(jit);
    }
}

/* What the function itself does differently from run to run is capture. */
static void function_depends_on_more(void) {
    static float x[4] = {1, 2, 3, 4}, y[4];
    stax_tensor in = stax_tensor_of(STAX_F32, stax_shape1(4), x),
                out = stax_tensor_of(STAX_F32, stax_shape1(4), y), none = in;
    stax_bisection found;
    reopen(NULL, false, 1);
    for (steady_runs = 1; steady_runs < 3; steady_runs++) {
        stax_jit *jit = stax_jit_new(ctx, fickle, NULL, NULL);
        ran = 0;
        if (steady_runs == 2) { /* right when it was called first, another one since */
            steady_runs = 1;
            CHECK_INT(stax_call(jit, &in, 1, &out, 1), STAX_OK);
            steady_runs = 2;
            ran = 2;
        }
        CHECK_INT(stax_jit_bisect(jit, &in, 1, NULL, 0, 1, NULL, &found), STAX_OK);
        CHECK_TEXT(found.layer, "eager");
        CHECK_TEXT(found.pass, "capture");
        CHECK_HAS(found.what,
                  steady_runs == 1 ? "when it ran again" : "that is kept for this call");
        stax_jit_free(jit);
    }
    stax_jit *jit = stax_jit_new(ctx, fickle, NULL, NULL);
    none.data = NULL;
    CHECK_INT(stax_jit_bisect(jit, &none, 1, NULL, 0, 1, NULL, &found), STAX_E_ARGUMENT);
    CHECK_HAS(stax_error(ctx), "expected tensors with data");
    none.rank = 99;
    CHECK_INT(stax_jit_bisect(jit, &none, 1, NULL, 0, 1, NULL, &found), STAX_E_ARGUMENT);
    CHECK_HAS(stax_error(ctx), "in[0]: found no valid tensor");
    stax_jit_free(jit);
}

/* ---- the comparator ---- */

static void compares(void) {
    float a[6] = {1, 2, 3, 4, 5, -0.0f}, b[6] = {1, 2, 3, 4, 5, 0.0f}, nan[2] = {0, 0};
    double near[6] = {0, 0, 1e-3, 1e-3, 0, 0};
    const uint32_t two_nans[2] = {0x7fc00000u, 0x7fc00001u};
    stax_difference d;
    stax_tensor x = stax_tensor_of(STAX_F32, stax_shape2(2, 3), a),
                y = stax_tensor_of(STAX_F32, stax_shape2(2, 3), b),
                e = stax_tensor_of(STAX_F64, stax_shape2(2, 3), near);
    CHECK(!stax_compare(&x, &y, NULL, false, &d));
    CHECK_INT(d.different, 1);
    CHECK_INT(d.first, 5);
    CHECK(stax_compare(&x, &y, NULL, true, &d));
    CHECK_INT(d.zeros, 1);
    b[5] = -0.0f;
    CHECK(stax_compare(&x, &y, NULL, false, &d));
    CHECK_INT(d.different, 0);
    b[2] = 3.0005f;
    b[3] = 4.002f;
    CHECK(!stax_compare(&x, &y, &e, false, &d));
    CHECK_INT(d.different, 2);
    CHECK_INT(d.beyond, 1);
    CHECK_INT(d.first, 3);
    CHECK_FLOAT(d.expected, 4.0);
    CHECK(d.worst > 1.9 && d.worst < 2.1);
    x.strides[0] = 1; /* the transposed memory of a 3 by 2 */
    x.strides[1] = 2;
    CHECK(!stax_compare(&x, &y, NULL, false, &d));
    CHECK_INT(d.first, 1);
    CHECK_FLOAT(d.expected, 3.0);
    y.dtype = STAX_I32;
    CHECK(!stax_compare(&x, &y, NULL, false, &d));
    CHECK_INT(d.different, 0);
    memcpy(nan, two_nans, sizeof nan);
    x = stax_tensor_of(STAX_F32, stax_shape1(1), &nan[0]);
    y = stax_tensor_of(STAX_F32, stax_shape1(1), &nan[1]);
    CHECK(!stax_compare(&x, &y, NULL, false, &d)); /* bits are bits */
    e = stax_tensor_of(STAX_F64, stax_shape1(1), near);
    CHECK(stax_compare(&x, &y, &e, false, &d));
    int8_t i[2] = {-128, 127};
    x = stax_tensor_of(STAX_I8, stax_shape1(1), &i[0]);
    y = stax_tensor_of(STAX_I8, stax_shape1(1), &i[1]);
    CHECK(!stax_compare(&x, &y, NULL, false, &d));
    CHECK_FLOAT(d.expected, -128);
    CHECK_FLOAT(d.found, 127);
}

/* Sums in another order stay within the bounds, at whatever condition (6.5, 13.3); one element that
   is lost does not. */
static void bounds_follow_the_condition(void) {
    enum { N = 3000 };
    static float x[N];
    double bound[2][1], kappa[2];
    reopen(NULL, false, 1);
    stax_graph *g = parsed("graph g(x: f32[3000]) { s = sum x; return s }");
    for (int hard = 0; hard < 2; hard++) {
        uint64_t r = 5;
        double exact = 0.0, size = 0.0;
        float forward = 0, backward = 0, y;
        for (int k = 0; k < N; k++) {
            x[k] = (float)(double)(feed_random(&r) % 1000) / 1000.0f + 0.25f;
            if (hard && k % 2) x[k] = -x[k - 1] + 1e-6f * (float)k;
        }
        for (int k = 0; k < N; k++) exact += (double)x[k], size += x[k] < 0 ? -x[k] : x[k];
        for (int k = 0; k < N; k++) forward += x[k], backward += x[N - 1 - k];
        kappa[hard] = size / (exact < 0 ? -exact : exact);
        stax_tensor in = stax_tensor_of(STAX_F32, stax_shape1(N), x),
                    out = stax_tensor_of(STAX_F32, stax_shape0(), &y),
                    b = stax_tensor_of(STAX_F64, stax_shape0(), bound[hard]), other;
        stax_difference d;
        CHECK_INT(stax_interpret(g, &in, &out), STAX_OK);
        CHECK_INT(stax_error_bounds(g, &in, &b), STAX_OK);
        other = stax_tensor_of(STAX_F32, stax_shape0(), &forward);
        CHECK(stax_compare(&out, &other, &b, false, &d));
        other.data = &backward;
        CHECK(stax_compare(&out, &other, &b, false, &d));
        float lost = y - x[7];
        other.data = &lost;
        CHECK(!stax_compare(&out, &other, &b, false, &d));
        printf("condition %.3g: sum %.6g, bound %.2g, forward off by %.2g, backward by %.2g\n",
               kappa[hard], (double)y, bound[hard][0], (double)(forward - y),
               (double)(backward - y));
    }
    CHECK(kappa[1] > 100 * kappa[0]);
    stax_graph_free(g);
    /* cancellation on the way: the bound knows numbers that no input and no output shows */
    g = parsed("graph g(x: f32[4]) { a = add x, 1e6; b = sub a, 1e6; return b }");
    float in4[4] = {0.1f, 0.2f, 0.3f, 0.4f};
    double b4[4];
    stax_tensor in = stax_tensor_of(STAX_F32, stax_shape1(4), in4),
                b = stax_tensor_of(STAX_F64, stax_shape1(4), b4);
    CHECK_INT(stax_error_bounds(g, &in, &b), STAX_OK);
    for (int k = 0; k < 4; k++) CHECK(b4[k] > 0.05 && b4[k] < 10.0);
    stax_graph_free(g);
}

/* A fault that is smaller than the bounds is none, if they are given. */
static void search_within_bounds(void) {
    reopen("lower=wrong", false, 1); /* the subtraction becomes an addition */
    stax_graph *g = parsed("graph g(x: f32[4]) { a = mul x, 1e-7; b = sub x, a; return b }");
    float in4[4] = {0.1f, 0.2f, 0.3f, 0.4f};
    double b4[4];
    stax_tensor in = stax_tensor_of(STAX_F32, stax_shape1(4), in4),
                b = stax_tensor_of(STAX_F64, stax_shape1(4), b4);
    stax_bisect_options o;
    stax_bisection out;
    memset(&o, 0, sizeof o);
    CHECK_INT(stax_error_bounds(g, &in, &b), STAX_OK);
    CHECK_INT(stax_bisect(g, &in, &o, &out), STAX_OK);
    CHECK_TEXT(out.layer, "stax");
    o.bounds = &b;
    CHECK_INT(stax_bisect(g, &in, &o, &out), STAX_OK);
    if (!CHECK(out.layer == NULL)) printf("%s\n", out.what);
    stax_graph_free(g);
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    reopen(NULL, false, 1);
    RUN(falls_back_or_is_strict);
    RUN(capture_fails);
    RUN(backends);
    RUN(nothing_is_wrong);
    RUN(each_layer);
    RUN(each_decision_of_the_compiler);
    RUN(each_failing_stage);
    RUN(each_rule_that_fires);
    RUN(function_is_right);
    RUN(function_each_layer);
    RUN(function_rule);
    RUN(function_partition);
    RUN(function_depends_on_more);
    RUN(compares);
    RUN(bounds_follow_the_condition);
    RUN(search_within_bounds);
    stax_close(ctx);
    return HARNESS_END();
}
