/* Forward and backward programs: the minimum cut against all sets of saved values, the examples of
   section 5 by value, both programs against the interpreter of the whole graph bit for bit, the
   budget, marks, random ops, states, sizes; and schedules of chains against dynamic programming. */
#define STAX_IMPLEMENTATION
#include "stax.h"

#include "feed.h"
#include "harness.h"
#include "heap.h"
#include "programs.h"
#include "random.h"

/* ---- the cut against all sets ---------------------------------------------------------------- */

enum { MOST_ITEMS = 12, NETWORKS = 600 };

typedef struct network {
    staxi_cut_item items[MOST_ITEMS];
    uint32_t sources[MOST_ITEMS][3];
    size_t n;
} network;

static uint64_t seed = RANDOM_SEED;
static int64_t below(int64_t n) { return (int64_t)(draw(&seed) % (uint64_t)n); }

static void random_network(network *w) {
    memset(w, 0, sizeof *w);
    w->n = 1 + (size_t)below(MOST_ITEMS);
    for (size_t k = 0; k < w->n; k++) {
        staxi_cut_item *x = &w->items[k];
        x->sources = w->sources[k];
        x->n_sources = k ? (uint32_t)below(4) : 0;
        for (uint32_t i = 0; i < x->n_sources; i++) w->sources[k][i] = (uint32_t)below((int64_t)k);
        x->bytes = below(4) ? below(6) : 0;
        x->store = below(3) ? 0 : below(5);
        x->redo = x->n_sources == 0 || below(3) == 0 ? -1 : below(20);
        if (x->redo >= 0 && below(6) == 0) x->bytes = -1; /* inside a checkpoint */
        x->read = below(3) == 0;
    }
}

/* The cost of saving a set, by the definition: all that is read is there or can be computed again
   from what is; false: it is not feasible. */
static bool cost_of(const network *w, uint32_t set, staxi_amount *cost) {
    bool wanted[MOST_ITEMS];
    *cost = staxi_amount_of(0, 0);
    for (size_t k = 0; k < w->n; k++) wanted[k] = w->items[k].read;
    for (size_t k = w->n; k-- > 0;) {
        const staxi_cut_item *x = &w->items[k];
        if (set >> k & 1) {
            if (x->bytes < 0) return false;
            cost->bytes += x->bytes;
            cost->work += x->store;
        } else if (wanted[k]) {
            if (x->redo < 0) return false;
            cost->work += x->redo;
            for (uint32_t i = 0; i < x->n_sources; i++) wanted[x->sources[i]] = true;
        }
    }
    return true;
}

static void cut_is_least(void) {
    int feasible = 0, redone = 0, saved = 0;
    for (int round = 0; round < NETWORKS; round++) {
        network w;
        staxi_amount best = staxi_amount_of(INT64_MAX, 0), cost, got;
        uint32_t chosen = 0;
        random_network(&w);
        for (uint32_t set = 0; set < 1u << w.n; set++) {
            if (!cost_of(&w, set, &cost)) continue;
            feasible++;
            if (staxi_amount_less(cost, best)) best = cost;
            for (size_t k = 0; k < w.n; k++) /* exercise 10 (1): in U and B, so in every set */
                if (w.items[k].read && w.items[k].redo < 0) CHECK(set >> k & 1);
        }
        if (!CHECK(staxi_cut(NULL, w.items, w.n))) return;
        for (size_t k = 0; k < w.n; k++) {
            chosen |= (uint32_t)(w.items[k].fate == STAXI_FATE_SAVED) << k;
            redone += w.items[k].fate == STAXI_FATE_REDONE;
            saved += w.items[k].fate == STAXI_FATE_SAVED;
            if (w.items[k].read) CHECK(w.items[k].fate != STAXI_FATE_UNUSED);
            if (w.items[k].read && w.items[k].redo < 0) /* exercise 10 (2) */
                CHECK_INT(w.items[k].fate, STAXI_FATE_SAVED);
        }
        CHECK(cost_of(&w, chosen, &got));
        CHECK_INT(got.bytes, best.bytes);
        CHECK_INT(got.work, best.work);
    }
    CHECK(feasible > 10 * NETWORKS && redone > NETWORKS / 2 && saved > NETWORKS / 2);
}

/* A chain deeper than any stack would hold, each value as large as the one before. */
static void deep(void) {
    enum { N = 200000 };
    staxi_cut_item *items = (staxi_cut_item *)calloc(N, sizeof *items);
    uint32_t *before = (uint32_t *)calloc(N, sizeof *before);
    if (!CHECK(items && before)) return;
    for (uint32_t k = 0; k < N; k++) {
        before[k] = k - 1;
        items[k].sources = &before[k];
        items[k].n_sources = k > 0;
        items[k].bytes = k == N / 2 ? 7 : 8;
        items[k].redo = k ? 1 : -1;
    }
    items[N - 1].read = true;
    CHECK(staxi_cut(NULL, items, N));
    CHECK(items[N / 2].fate == STAXI_FATE_SAVED && items[N - 1].fate == STAXI_FATE_REDONE &&
          items[0].fate == STAXI_FATE_UNUSED);
    free(items);
    free(before);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* The graph of a text with the gradients of its first output, which go with a cotangent c_ unless
   it is a scalar, by the inputs named in `wrt`. */
static stax_graph *joint(const char *text, const char *wrt, int *n_forward) {
    stax_graph *g = parsed(text);
    stax_value in[16], grads[16], c;
    stax_output_info out;
    char name[40];
    int n = 0;
    if (!g || !stax_ok(g)) return g;
    *n_forward = stax_graph_n_outputs(g);
    stax_graph_output(g, 0, &out);
    stax_value y = stax_graph_value(g, out.name);
    for (const char *s = wrt; *s; s += strcspn(s, ","), s += *s == ',', n++) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(s, ","), s);
        in[n] = stax_graph_value(g, name);
    }
    c = out.shape.rank ? stax_input(g, "c_", out.dtype, out.shape) : stax_const(g, 1.0);
    CHECK_INT(stax_vjp(&y, &c, 1, in, n, false, grads), STAX_OK);
    for (int k = 0; k < n; k++) {
        snprintf(name, sizeof name, "d%d", k);
        (stax_output)(g, name, grads[k]);
    }
    if (!CHECK(stax_ok(g))) printf("%s\n", stax_graph_error(g));
    return g;
}

static stax_training *training(const stax_graph *g, int n_forward,
                               const stax_training_options *options) {
    stax_training *t = stax_compile_training(g, n_forward, options);
    if (!CHECK(t != NULL)) printf("%s\n", stax_error(ctx));
    return t;
}

/* Inputs that only backward takes are called c_...; they come last. */
static int own_inputs(const stax_graph *g) {
    stax_input_info in;
    int n = 0;
    for (int k = 0; stax_graph_input(g, k, &in); k++) n += strncmp(in.name, "c_", 2) == 0;
    return n;
}

/* One forward and one backward call into the memory of f. */
static stax_status run_both(stax_training *t, stax_saved *s, const feed *f, int n_forward,
                            int n_own) {
    stax_status status = stax_run_forward(t, f->slots, f->outputs, s);
    if (status != STAX_OK) return status;
    return stax_run_backward(t, s, f->slots + f->n_slots - n_own, f->outputs + n_forward);
}

/* The two programs against the interpreter of the whole, two calls, each twice backwards. */
static void same_bits(const stax_graph *g, int n_forward, const stax_training_options *options,
                      int wanted) {
    stax_training *t = training(g, n_forward, options);
    stax_saved *s = stax_saved_new(t);
    const int n_own = own_inputs(g);
    for (uint64_t round = 0; t && s && round < 2; round++) {
        feed a, b;
        if (!CHECK(feed_make(&a, g, wanted + (int)round, round) &&
                   feed_make(&b, g, wanted + (int)round, round)))
            break;
        for (int k = 0; k < b.n_all; k++)
            if (b.kinds[k] == STAX_KIND_PARAM)
                CHECK_INT(stax_training_bind(t, b.names[k], &b.all[k]), STAX_OK);
        CHECK_INT(stax_interpret(g, a.all, a.outputs), STAX_OK);
        if (!CHECK_INT(run_both(t, s, &b, n_forward, n_own), STAX_OK))
            printf("%s\n", stax_error(ctx));
        CHECK(feed_equal(&a, &b));
        memset(b.outputs[n_forward].data, 0, (size_t)staxi_tensor_elements(&b.outputs[n_forward]));
        CHECK_INT(stax_run_backward(t, s, b.slots + b.n_slots - n_own, b.outputs + n_forward),
                  STAX_OK);
        CHECK(feed_equal(&a, &b));
        feed_free(&a);
        feed_free(&b);
    }
    stax_saved_free(s);
    stax_training_free(t);
}

/* With the C compiler, without, and with everything saved. */
static void same_bits_all(const stax_graph *g, int n_forward, int wanted) {
    stax_compile_options interpret;
    stax_training_options o;
    memset(&o, 0, sizeof o);
    memset(&interpret, 0, sizeof interpret);
    interpret.interpret = true;
    same_bits(g, n_forward, NULL, wanted);
    o.save_all = true;
    same_bits(g, n_forward, &o, wanted);
    o.compile = &interpret;
    same_bits(g, n_forward, &o, wanted);
    o.save_all = false;
    same_bits(g, n_forward, &o, wanted);
}

static stax_training_figures figures(const stax_training *t) {
    stax_training_figures f;
    CHECK_INT(stax_training_figures_of(t, &f), t ? STAX_OK : STAX_E_ARGUMENT);
    return f;
}

static char *report(const stax_training *t) {
    char *text = stax_training_report(t, false);
    CHECK(text != NULL);
    return text;
}

/* ---- section 5 ------------------------------------------------------------------------------- */

/* Example 5.1: gelu(x W). Only h is saved, erf is computed again. */
static void example_5_1(void) {
    static const char *const bodies[] = {"y = gelu h",
                                         "s = mul h, 0.70710678118654752\n e = erf s\n p = add e, "
                                         "1.0\n q = mul h, p\n y = mul q, 0.5"};
    for (int k = 0; k < 2; k++) {
        char text[500];
        int n = 0;
        snprintf(text, sizeof text,
                 "graph g(x: f32[4096,1024], w: f32[1024,1024]) {\n h = matmul x, w\n %s\n"
                 " return y\n}",
                 bodies[k]);
        stax_graph *g = joint(text, "x,w", &n);
        stax_compile_options interpret;
        stax_training_options o;
        memset(&o, 0, sizeof o);
        memset(&interpret, 0, sizeof interpret);
        interpret.interpret = true;
        o.compile = &interpret;
        stax_training *t = training(g, n, &o);
        stax_training_figures f = figures(t);
        CHECK_INT(f.saved, 1);
        CHECK_FLOAT(f.saved_bytes, 4096.0 * 1024 * 4);
        CHECK_INT(f.kept, 2); /* x and w, which the caller has */
        CHECK(!f.has_backward);
        char *text_of = report(t);
        CHECK_HAS(text_of, "16777216 bytes  h: f32[4096,1024] = dot");
        CHECK_HAS(text_of, "x: f32[4096,1024], an input");
        if (k == 1) { /* here erf is a value of the forward program */
            CHECK_HAS(text_of, "e: f32[4096,1024] = erf");
            CHECK(f.recomputed > 0 && f.recompute_ops >= 16.0 * 4096 * 1024);
            CHECK(f.save_all > 1 && f.save_all_bytes > f.saved_bytes);
        }
        stax_free(ctx, text_of);
        stax_training_free(t);
        stax_graph_free(g);
    }
}

/* What is saved for the gradients of a graph by `wrt`: as many values, as many bytes. Its bits are
   those of one program. The report, to be freed. */
static char *saves(const char *text, const char *wrt, int saved, double bytes,
                   stax_training_figures *f) {
    stax_training_figures here;
    int n = 0;
    stax_graph *g = joint(text, wrt, &n);
    stax_training *t = training(g, n, NULL);
    here = figures(t);
    char *said = report(t);
    CHECK_INT(here.saved, saved);
    CHECK_FLOAT(here.saved_bytes, bytes);
    stax_training_free(t);
    same_bits_all(g, n, 16);
    stax_graph_free(g);
    if (f) *f = here;
    return said;
}

/* Exercise 9: with relu, whose derivative reads its result, that alone is saved; as an output it
   is there anyway, and the forward program writes nothing more. */
static void exercise_9(void) {
    stax_training_figures f;
    char *text = saves(
        "graph g(x: f32[64,32], w: f32[32,32]) {\n h = matmul x, w\n y = relu h\n"
        " return y\n}",
        "x,w", 0, 0, &f);
    CHECK_INT(f.kept, 3);
    CHECK_HAS(text, "y: f32[64,32] = relu, an output");
    CHECK(!strstr(text, "h: "));
    stax_free(ctx, text);
    text = saves(
        "graph g(x: f32[64,32], w: f32[32,32], v: f32[32]) {\n h = matmul x, w\n y = relu h\n"
        " z = mul y, v\n s = sum z\n return s\n}",
        "x,w,v", 1, 64 * 32 * 4, NULL);
    CHECK_HAS(text, "8192 bytes  y: f32[64,32] = relu");
    stax_free(ctx, text);
}

/* Exercise 10: the result of a reduction that backward reads is saved, however cheap it is. */
static void reductions_are_saved(void) {
    char *text = saves(
        "graph g(x: f32[16,8]) {\n m = max x {axes=[1], keepdims=true}\n"
        " d = sub x, m\n e = exp d\n s = sum e {axes=[1], keepdims=true}\n"
        " y = div e, s\n z = mul y, y\n return z\n}",
        "x", 2, 2 * 16 * 4, NULL);
    CHECK_HAS(text, "64 bytes  f32[16] = max");
    CHECK_HAS(text, "64 bytes  f32[16] = sum");
    stax_free(ctx, text);
}

/* ---- the same bits --------------------------------------------------------------------------- */

typedef struct derivative_case {
    const char *inputs, *body;
    double low, high;
    int flags;
} derivative_case;
enum { KINKED = 1 };
static const derivative_case cases[] = {
#include "gradient_cases.inc"
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

/* Every op that has a derivative, on any numbers at all: interpreted, as here it is about the
   graphs; every eighth compiled too. */
static void every_op(void) {
    stax_compile_options interpret;
    stax_training_options o;
    int n_saved = 0, n_redone = 0;
    memset(&o, 0, sizeof o);
    memset(&interpret, 0, sizeof interpret);
    interpret.interpret = true;
    for (int k = 0; k < N_CASES; k++) {
        char text[2000], wrt[100], *at = text, *w = wrt;
        int n = 0;
        at += sprintf(at, "graph g(");
        for (const char *s = cases[k].inputs; *s; s++) {
            if (s[1] == ':' && s[3] == '%') w += sprintf(w, "%s%c", w == wrt ? "" : ",", *s);
            at += sprintf(at, *s == '%' ? "f32" : "%c", *s);
        }
        at += sprintf(at, ") {\n");
        for (const char *s = cases[k].body; *s; s++)
            at += sprintf(at, *s == '%' ? "f32" : "%c", *s == '|' ? '\n' : *s);
        sprintf(at, "\nreturn y\n}\n");
        stax_graph *g = joint(text, wrt, &n);
        if (!g || !stax_ok(g)) {
            stax_graph_free(g);
            continue;
        }
        o.compile = &interpret;
        stax_training *t = training(g, n, &o);
        n_saved += figures(t).saved;
        n_redone += figures(t).recomputed;
        CHECK(figures(t).saved_bytes <= figures(t).save_all_bytes);
        stax_training_free(t);
        same_bits(g, n, &o, 16);
        if (k % 8 == 0) same_bits(g, n, NULL, 16);
        if (harness.bad_checks) printf("%s\n", text);
        if (!CHECK(harness.bad_checks == 0)) k = N_CASES;
        stax_graph_free(g);
    }
    CHECK(n_saved > 20 && n_redone > 100);
}

/* Random programs of elementwise ops, views, reductions, contractions and marks. */
static void random_graphs(void) {
    static const char *const steps[] = {"exp v%d",         "relu v%d",
                                        "mul v%d, v%d",    "add v%d, v%d",
                                        "tanh v%d",        "transpose v%d",
                                        "matmul v%d, v%d", "sub v%d, v%d",
                                        "checkpoint v%d",  "sigmoid v%d",
                                        "softmax v%d",     "cumsum v%d {axis=0}",
                                        "mul v%d, key",    "dropout v%d, k {p=0.3}",
                                        "flip v%d"};
    enum { ROUNDS = 60, LONGEST = 14, N_STEPS = sizeof steps / sizeof steps[0] };
    stax_compile_options interpret;
    memset(&interpret, 0, sizeof interpret);
    interpret.interpret = true;
    for (int round = 0; round < ROUNDS; round++) {
        char text[2000], *at = text;
        int n = 0, length = 2 + (int)below(LONGEST - 1);
        stax_training_options o;
        memset(&o, 0, sizeof o);
        o.compile = round % 6 ? &interpret : NULL;
        at += sprintf(at, "graph g(v0: f32[6,6], v1: f32[6,6], key: f32[6,1], k: u64[]) {\n");
        for (int k = 2; k < length + 2; k++) {
            const char *step = steps[below(N_STEPS)];
            at += sprintf(at, " v%d = ", k);
            at += sprintf(at, step, (int)(below(2) ? k - 1 : below(k)), (int)below(k));
            *at++ = '\n';
        }
        sprintf(at, " y = sum v%d {axes=[1]}\n return y%s%d\n}\n", length + 1,
                below(2) ? ", v" : ", v1 # ", (int)below(length));
        stax_graph *g = joint(text, "v0,v1", &n);
        same_bits(g, n, &o, 16);
        if (harness.bad_checks) printf("%s\n", text);
        if (harness.bad_checks) round = ROUNDS;
        stax_graph_free(g);
    }
}

/* Sizes that are known when it runs: the cut is weighed by numbers given, backward learns a size
   from an input that it does not read, and saved memory grows. */
static void sizes(void) {
    int n = 0;
    stax_graph *g = joint(
        "sizes n: 1..5000, m\ngraph g(x: f32[n,m] strided, u: f32[m,2] strided) {\n"
        " a = exp x\n b = sum a {axes=[1]}\n c = sum u {axes=[0]}\n d = sum c\n"
        " y = mul b, d\n return y\n}",
        "x", &n);
    const int64_t numbers[2] = {5, 7};
    stax_training_options o;
    memset(&o, 0, sizeof o);
    stax_training *t = training(g, n, NULL);
    CHECK_INT(figures(t).saved, 1);
    CHECK_FLOAT(figures(t).saved_bytes, 4); /* d */
    stax_training_free(t);
    o.symbols = numbers;
    t = training(g, n, &o);
    stax_training_free(t);
    same_bits_all(g, n, 5);
    same_bits(g, n, &o, 33);
    stax_graph_free(g);
    /* the sizes decide what is smaller: the factors, or their product */
    g = joint(
        "sizes n, m\ngraph g(x: f32[n,4], u: f32[m,4], p: f32[n,m]) {\n"
        " a = max x {axes=[1], keepdims=true}\n b = max u {axes=[1]}\n c = mul a, b\n"
        " e = exp c\n y = mul e, p\n return y\n}",
        "p", &n);
    const int64_t small[2] = {1, 2};
    t = training(g, n, NULL);
    CHECK_INT(figures(t).saved, 2);
    CHECK_FLOAT(figures(t).saved_bytes, 2 * 1024 * 4);
    stax_training_free(t);
    o.symbols = small;
    t = training(g, n, &o);
    CHECK_INT(figures(t).saved, 1);
    CHECK_FLOAT(figures(t).saved_bytes, 8);
    stax_training_free(t);
    same_bits_all(g, n, 3);
    same_bits(g, n, &o, 9);
    stax_graph_free(g);
}

/* Params are bound once, before or after the backward program is there; a state that the forward
   call writes is saved as it was. */
static void params_and_states(void) {
    int n = 0;
    stax_graph *g = joint(
        "graph g(x: f32[8,4], param w: f32[4,6], inout s: f32[6], inout c: i64[], "
        "param b: f32[6]) {\n"
        " h = matmul x, w\n a = add h, b\n e = exp a\n m = mean e {axes=[0]}\n"
        " t = mul s, 0.9\n q = add t, m\n z = mul e, s\n y = mul z, z\n"
        " assign s, q\n i = add c, 1\n assign c, i\n return y, i\n}",
        "x,w,b", &n);
    stax_training *t = training(g, n, NULL);
    char *text = report(t);
    CHECK_HAS(text, "24 bytes  s: f32[6], an input");
    CHECK(!strstr(text, "c: i64"));
    stax_free(ctx, text);
    stax_training_free(t);
    same_bits_all(g, n, 16);
    stax_graph_free(g);
    /* unbound, bound late, bound again */
    g = joint("graph g(x: f32[4], param w: f32[4]) {\n e = exp w\n y = mul x, e\n return y\n}",
              "x,w", &n);
    feed a, b;
    t = training(g, n, NULL);
    stax_saved *s = stax_saved_new(t);
    if (CHECK(feed_make(&a, g, 4, 0) && feed_make(&b, g, 4, 1))) {
        CHECK_INT(run_both(t, s, &a, n, 1), STAX_E_UNBOUND);
        CHECK_HAS(stax_error(ctx), "param w is not bound");
        CHECK_INT(stax_training_bind(t, "nobody", &a.all[1]), STAX_E_NAME);
        CHECK_HAS(stax_error(ctx), "no param named nobody");
        CHECK_INT(stax_training_bind(t, "w", &a.all[1]), STAX_OK);
        CHECK_INT(run_both(t, s, &a, n, 1), STAX_OK);
        CHECK_INT(stax_training_bind(t, "w", &b.all[1]), STAX_OK);
        CHECK_INT(run_both(t, s, &a, n, 1), STAX_OK);
        memcpy(a.all[1].data, b.all[1].data, 16);
        feed c;
        CHECK(feed_make(&c, g, 4, 0));
        memcpy(c.all[1].data, b.all[1].data, 16);
        CHECK_INT(stax_interpret(g, c.all, c.outputs), STAX_OK);
        CHECK(feed_equal(&a, &c));
        feed_free(&c);
        feed_free(&b);
        feed_free(&a);
    }
    stax_saved_free(s);
    stax_training_free(t);
    stax_graph_free(g);
}

/* Dropout keeps its key: the mask is computed again, and is the same. */
static void random_ops(void) {
    char *text = saves(
        "graph g(x: f32[50,20], w: f32[20,30], k: u64[]) {\n h = matmul x, w\n"
        " r = relu h\n d = dropout r, k {p=0.4}\n e = mul d, d\n return e\n}",
        "x,w", 1, 50 * 30 * 4, NULL); /* r, or what lies before it: no mask, no bits */
    CHECK_HAS(text, "= uniform");
    CHECK(strstr(text, "= uniform") > strstr(text, "computed again"));
    stax_free(ctx, text);
    /* a key that the call itself changes is saved, not what it makes */
    text = saves(
        "graph g(x: f32[50,20], inout k: u64[]) {\n e = exp x\n d = dropout e, k {p=0.5}\n"
        " i = add k, 1\n assign k, i\n y = mul d, d\n return y\n}",
        "x", 1, 8, NULL);
    stax_free(ctx, text);
}

/* Regions: their results are saved; behind a mark they run again, with what they capture. */
static void regions(void) {
    static const char *const marks[] = {"mul u, 1.0", "checkpoint u"};
    for (int k = 0; k < 2; k++) {
        char text[1000];
        int n = 0;
        snprintf(text, sizeof text,
                 "graph g(x: f32[6], w: f32[6], n: i64[], p: bool[]) {\n e = exp x\n"
                 " f = stop_gradient e\n"
                 " s, i = loop n, f, n { body(j: i64[], a: f32[6], b: i64[]) {\n"
                 "  c = mul a, f\n d = add b, 1\n return c, d } }\n"
                 " q = cond p { then() { r = neg f; return r } else() { return s } }\n"
                 " z = stop_gradient s\n t = stop_gradient q\n h = mul x, z\n g = mul h, t\n"
                 " u = mul g, w\n v = %s\n y = mul v, v\n return y\n}",
                 marks[k]);
        stax_graph *g = joint(text, "x,w", &n);
        stax_training *t = training(g, n, NULL);
        char *all = report(t);
        if (k == 0) CHECK_HAS(all, "s: f32[6] = loop");
        if (k == 0) CHECK(strstr(all, "= loop") < strstr(all, "computed again"));
        if (k == 1) CHECK(strstr(all, "= loop") > strstr(all, "computed again"));
        CHECK_INT(figures(t).saved, k ? 1 : 2); /* u; the results of loop and cond */
        stax_free(ctx, all);
        stax_training_free(t);
        same_bits_all(g, n, 6);
        stax_graph_free(g);
    }
}

/* Three segments of two layers. With marks between them only marked values are saved, and layers
   within run again, contractions too; what lies behind the last mark is cut as ever. */
static void checkpoints(void) {
    for (int marks = 0; marks < 2; marks++) {
        char text[2000], *at = text;
        int n = 0, dots = 0;
        at += sprintf(at, "graph g(c0: f32[16,16], w: f32[16,16]) {\n");
        for (int k = 1; k <= 3; k++) {
            at += sprintf(at, " p%d = matmul c%d, w\n a%d = tanh p%d\n q%d = matmul a%d, w\n", k,
                          k - 1, k, k, k, k);
            at += sprintf(at, " b%d = tanh q%d\n c%d = %s b%d\n", k, k, k,
                          marks && k < 3 ? "checkpoint" : "transpose", k);
        }
        sprintf(at, " y = sum c3\n return y\n}\n");
        stax_graph *g = joint(text, "c0,w", &n);
        stax_training *t = training(g, n, NULL);
        char *all = report(t);
        CHECK_INT(figures(t).saved, marks ? 4 : 6); /* b1 b2 a3 b3; a1 b1 a2 b2 a3 b3 */
        CHECK_FLOAT(figures(t).saved_bytes, (marks ? 4 : 6) * 16 * 16 * 4);
        for (const char *s = all; (s = strstr(s, "= dot")) != NULL; s++) dots++;
        CHECK_INT(dots, marks ? 2 : 0); /* a1 and a2 are computed again */
        CHECK_HAS(all, marks ? "operations  p1: f32[16,16] = dot" : "computed again: 0 values");
        if (marks) CHECK(figures(t).recompute_ops >= 2 * (2 * 16 * 16 * 16 + 16 * 16));
        stax_free(ctx, all);
        stax_training_free(t);
        same_bits_all(g, n, 16);
        stax_graph_free(g);
    }
    /* a mark on a view of what is marked; on an input; in a graph compiled as one program */
    int n = 0;
    stax_graph *g = joint(
        "graph g(x: f32[8,8], w: f32[8,8]) {\n i = checkpoint x\n"
        " a = matmul i, w\n b = transpose a\n c = checkpoint b\n d = mul a, b\n"
        " e = mul d, c\n return e\n}",
        "x,w", &n);
    stax_training *t = training(g, n, NULL);
    CHECK_INT(figures(t).saved, 1);
    stax_training_free(t);
    same_bits_all(g, n, 16);
    stax_program *p = compiled(g);
    stax_program_free(p);
    stax_graph_free(g);
}

/* ---- what it refuses ------------------------------------------------------------------------- */

/* The least that is possible is named, and enough. */
static void budgets(void) {
    int n = 0;
    stax_training_options o;
    memset(&o, 0, sizeof o);
    stax_graph *g = joint(
        "sizes n\ngraph g(x: f32[n,32], w: f32[32,32]) {\n h = matmul x, w\n"
        " y = gelu h\n return y\n}",
        "x,w", &n);
    const int64_t numbers[1] = {64};
    o.symbols = numbers;
    o.budget_bytes = 64 * 32 * 4 - 1;
    CHECK(stax_compile_training(g, n, &o) == NULL);
    CHECK_INT(stax_error_status(ctx), STAX_E_MEMORY);
    CHECK_TEXT(
        stax_error(ctx),
        "stax_compile_training: the budget is 8191 bytes, and the least that can be saved is "
        "8192 bytes: mark values with stax_checkpoint, so that what lies between them is "
        "computed again, or raise the budget");
    o.budget_bytes++;
    stax_training *t = training(g, n, &o);
    CHECK_FLOAT(figures(t).saved_bytes, 8192);
    stax_saved *s = stax_saved_new(t);
    feed a;
    CHECK(feed_make(&a, g, 64, 0));
    CHECK_INT(run_both(t, s, &a, n, 1), STAX_OK);
    CHECK(stax_saved_bytes(s) >= 8192 && stax_saved_bytes(s) <= 8192 + 64);
    feed_free(&a);
    CHECK(feed_make(&a, g, 65, 0)); /* a call with other sizes */
    CHECK_INT(run_both(t, s, &a, n, 1), STAX_E_MEMORY);
    CHECK_HAS(stax_error(ctx), "the budget is 8192 bytes, and the least that can be saved is 8320");
    CHECK_INT(stax_run_backward(t, s, &a.slots[2], a.outputs + n), STAX_E_ARGUMENT);
    feed_free(&a);
    stax_saved_free(s);
    stax_training_free(t);
    o.budget_bytes = 1; /* saving everything is held to it too */
    o.save_all = true;
    CHECK(stax_compile_training(g, n, &o) == NULL);
    stax_graph_free(g);
    g = joint(
        "graph g(x: f32[64,32], w: f32[32,32]) {\n h = matmul x, w\n r = relu h\n"
        " q = matmul r, w\n y = relu q\n z = checkpoint y\n u = sum z\n return u, y\n}",
        "x,w", &n);
    memset(&o, 0, sizeof o);
    o.budget_bytes = 1; /* with a mark nothing need be saved: y is an output */
    t = training(g, n, &o);
    CHECK_INT(figures(t).saved, 0);
    stax_training_free(t);
    same_bits(g, n, &o, 16);
    stax_graph_free(g);
}

static void wrong(void) {
    int n = 0;
    stax_graph *g =
                   joint("graph g(x: f32[4], u: f32[4]) {\n e = exp x\n y = mul e, u\n return y\n}",
                         "x", &n),
               *other = joint("graph h(x: f32[4]) {\n y = exp x\n return y\n}", "x", &n),
               *bad = stax_graph_new(ctx);
    const int counts[] = {-1, 2, 3};
    for (int k = 0; k < 3; k++) {
        CHECK(!stax_compile_training(g, counts[k], NULL));
        CHECK_INT(stax_error_status(ctx), STAX_E_ARGUMENT);
        CHECK_HAS(stax_error(ctx), "n_forward: the graph has 2 outputs: expected 0 to 1 of them");
    }
    CHECK(!stax_compile_training(NULL, 0, NULL));
    stax_output(bad, "y",
                stax_add(stax_input(bad, "x", STAX_F32, stax_shape1(3)),
                         stax_input(bad, "z", STAX_F32, stax_shape1(4))));
    CHECK(!stax_compile_training(bad, 0, NULL));
    CHECK_HAS(stax_error(ctx), "add");
    CHECK(!stax_compile_training(stax_region(other, "body"), 0, NULL));
    CHECK_HAS(stax_error(ctx), "expected a whole graph, found a region");
    stax_training *t = training(g, n, NULL), *t2 = training(other, n, NULL);
    stax_saved *s = stax_saved_new(t), *s2 = stax_saved_new(t2);
    feed a;
    CHECK(feed_make(&a, g, 4, 0));
    CHECK_INT(stax_run_backward(t, s, &a.slots[2], a.outputs + 1), STAX_E_ARGUMENT);
    CHECK_HAS(stax_error(ctx), "stax_run_backward: saved: it holds nothing");
    CHECK_INT(stax_run_forward(t, a.slots, a.outputs, s2), STAX_E_ARGUMENT);
    CHECK_HAS(stax_error(ctx), "stax_run_forward: saved: it was made for another training");
    CHECK_INT(stax_run_forward(t, a.slots, a.outputs, NULL), STAX_E_ARGUMENT);
    CHECK_HAS(stax_error(ctx), "stax_run_forward: saved: expected what stax_saved_new gave");
    CHECK_INT(stax_run_forward(NULL, a.slots, a.outputs, s), STAX_E_ARGUMENT);
    CHECK(!figures(t).has_backward); /* compiled when it is used */
    CHECK_INT(stax_run_forward(t, a.slots, a.outputs, s), STAX_OK);
    CHECK(!figures(t).has_backward);
    CHECK_INT(stax_run_backward(t, s, NULL, a.outputs + 1), STAX_E_ARGUMENT);
    CHECK_HAS(stax_error(ctx), "stax_run_backward: there are no inputs");
    CHECK_INT(stax_run_backward(t, s, &a.slots[2], NULL), STAX_E_ARGUMENT);
    CHECK_HAS(stax_error(ctx), "stax_run_backward: there are no outputs");
    CHECK_INT(stax_run_backward(t, s, &a.slots[2], a.outputs + 1), STAX_OK);
    CHECK(figures(t).has_backward);
    stax_tensor odd = a.slots[2];
    odd.rank = 0;
    CHECK_INT(stax_run_backward(t, s, &odd, a.outputs + 1), STAX_E_SHAPE);
    CHECK_HAS(stax_error(ctx), "c_");
    /* what backward reads must not be overwritten: x is read again, exp x is computed from it */
    stax_tensor out[2];
    out[0] = a.slots[0];
    out[1] = a.outputs[1];
    CHECK_INT(stax_run_forward(t, a.slots, out, s), STAX_E_ALIAS);
    CHECK_HAS(stax_error(ctx), "input x and output y share memory");
    CHECK_HAS(stax_error(ctx), "the backward program reads the input later");
    feed_free(&a);
    CHECK(!stax_saved_new(NULL) && !stax_training_backward(NULL) && !stax_training_forward(NULL));
    CHECK(!stax_training_report(NULL, true) && !stax_saved_bytes(NULL));
    stax_saved_free(s);
    stax_saved_free(s2);
    stax_saved_free(NULL);
    stax_training_free(t);
    stax_training_free(t2);
    stax_training_free(NULL);
    stax_graph_free(g);
    stax_graph_free(other);
    stax_graph_free(bad);
}

/* Every allocation fails once: a status and a message, no leak. */
static void no_memory(void) {
    heap h;
    stax_options o = stax_options_default();
    memset(&h, 0, sizeof h);
    o.allocator.alloc = heap_alloc;
    o.allocator.free = heap_free;
    o.allocator.user = &h;
    stax_compile_options interpret;
    stax_training_options how;
    memset(&interpret, 0, sizeof interpret);
    memset(&how, 0, sizeof how);
    interpret.interpret = true;
    how.compile = &interpret;
    stax_context *usual = ctx;
    int failures = 0, n = 0;
    bool done = false;
    for (int64_t fail = 1; !done; fail++) {
        ctx = stax_open(&o);
        stax_graph *g = joint(
            "graph g(x: f32[4,4], w: f32[4,4], k: u64[]) {\n h = matmul x, w\n"
            " e = dropout h, k {p=0.5}\n c = checkpoint e\n y = mul c, c\n"
            " return y\n}",
            "x,w", &n);
        feed a;
        CHECK(feed_make(&a, g, 4, 0));
        h.calls = h.failed = 0;
        h.fail_at = fail;
        stax_training *t = stax_compile_training(g, n, &how);
        stax_saved *s = stax_saved_new(t);
        stax_status status = s ? run_both(t, s, &a, n, 1) : STAX_E_MEMORY;
        char *text = stax_training_report(t, true);
        h.fail_at = 0;
        if (!h.failed) {
            done = true;
            CHECK_INT(status, STAX_OK);
        } else if (status != STAX_OK || !text) {
            failures++;
            if (status != STAX_OK) CHECK_INT(stax_error_status(ctx), STAX_E_MEMORY);
        }
        stax_free(ctx, text);
        stax_saved_free(s);
        stax_training_free(t);
        feed_free(&a);
        stax_graph_free(g);
        stax_close(ctx);
        if (!CHECK_INT(h.blocks, 0) || !CHECK_INT(h.wrong, 0) || fail > 20000) done = true;
    }
    CHECK(failures > 50);
    ctx = usual;
}

/* ---- chains ---------------------------------------------------------------------------------- */

enum { CHAIN_STEPS = 200, CHAIN_SLOTS = 10 };
typedef struct chain {
    int64_t steps, slots;
    int64_t stored[2 * CHAIN_STEPS]; /* by slot; -1: nothing */
    int64_t at;                      /* the current state; -1: none */
    int64_t evaluations[2 * CHAIN_STEPS], total, most;
    int64_t left; /* steps still to be reversed */
    int stop_after, is_right;
} chain;

/* Does what an action says, and checks that it can be done. */
static stax_status act(void *user, const stax_chain_action *a) {
    chain *c = (chain *)user;
    bool right = false;
    switch (a->what) {
        case STAX_CHAIN_STORE:
            right = a->step == c->at && a->slot >= 0 && a->slot < c->slots && a->to == -1;
            if (right) c->stored[a->slot] = c->at;
            break;
        case STAX_CHAIN_RESTORE:
            right = a->slot >= 0 && a->slot < c->slots && c->stored[a->slot] == a->step;
            c->at = a->step;
            break;
        case STAX_CHAIN_ADVANCE:
            right = a->step == c->at && a->to > a->step && a->to < c->steps && a->slot == -1;
            for (int64_t k = a->step; right && k < a->to; k++) {
                c->total++;
                if (++c->evaluations[k] > c->most) c->most = c->evaluations[k];
            }
            c->at = a->to;
            break;
        case STAX_CHAIN_REVERSE:
            right = a->step == c->at && a->step == c->left - 1 && a->slot == -1;
            c->left--;
            c->at = -1;
            break;
    }
    c->is_right = c->is_right && right;
    return c->stop_after-- == 0 ? STAX_E_CANCELLED : STAX_OK;
}

static chain reversed(stax_chain_kind kind, int64_t steps, int64_t slots) {
    chain c;
    memset(&c, 0, sizeof c);
    for (int k = 0; k < 2 * CHAIN_STEPS; k++) c.stored[k] = -1;
    c.steps = c.left = steps;
    c.slots = slots;
    c.stop_after = -1;
    c.is_right = 1;
    CHECK_INT(stax_chain_reverse(ctx, kind, steps, slots, act, &c), STAX_OK);
    CHECK(c.is_right && c.left == 0);
    return c;
}

/* The least numbers of evaluations, of all steps and of the most often evaluated one, by dynamic
   programming over where the second state is stored. */
static int64_t least[CHAIN_STEPS + 1][CHAIN_SLOTS + 1], repeats[CHAIN_STEPS + 1][CHAIN_SLOTS + 1];

static void dynamic_programming(void) {
    for (int s = 1; s <= CHAIN_SLOTS; s++) {
        least[1][s] = repeats[1][s] = 0;
        for (int n = 2; n <= CHAIN_STEPS; n++) {
            least[n][s] = (int64_t)n * (n - 1) / 2; /* each from the first state */
            repeats[n][s] = n - 1;
            for (int m = 1; s > 1 && m < n; m++) {
                int64_t all = m + least[n - m][s - 1] + least[m][s], before = 1 + repeats[m][s],
                        most = repeats[n - m][s - 1] > before ? repeats[n - m][s - 1] : before;
                if (all < least[n][s]) least[n][s] = all;
                if (most < repeats[n][s]) repeats[n][s] = most;
            }
        }
    }
}

static void binomial_is_least(void) {
    dynamic_programming();
    for (int s = 1; s <= CHAIN_SLOTS; s++)
        for (int n = 1; n <= CHAIN_STEPS; n++) {
            chain c = reversed(STAX_CHAIN_BINOMIAL, n, s);
            CHECK_INT(c.total, least[n][s]);
            CHECK_INT(stax_chain_evaluations(n, s), least[n][s]);
            CHECK_INT(c.most, repeats[n][s]); /* T 5.4: at most t, where beta(s, t) reaches n */
            CHECK(stax_chain_longest(s, c.most) >= n &&
                  (c.most == 0 || stax_chain_longest(s, c.most - 1) < n));
        }
}

/* Exercise 51 and its kin. */
static void binomial_numbers(void) {
    CHECK_INT(stax_chain_longest(3, 3), 20);
    CHECK_INT(stax_chain_longest(3, 2), 10);
    CHECK_INT(stax_chain_slots(1000, 2), 44);
    CHECK_INT(stax_chain_slots(1000, 3), 17);
    CHECK_INT(stax_chain_slots(1000, 4), 10);
    CHECK_INT(stax_chain_slots(6, 2), 2); /* beta(2, 2) = 6: two would do */
    CHECK_INT(stax_chain_longest(0, 3), 0);
    CHECK_INT(stax_chain_longest(3, -1), 0);
    CHECK_INT(stax_chain_longest(33, 33), INT64_C(7219428434016265740));
    CHECK_INT(stax_chain_longest(34, 34), INT64_MAX);
    CHECK_INT(stax_chain_longest(INT64_MAX, 1), INT64_MAX);
    CHECK_INT(stax_chain_longest(INT64_MAX - 1, 1), INT64_MAX);
    CHECK_INT(stax_chain_longest(1, 41), 42);
    CHECK_INT(stax_chain_slots(1, 0), 1);
    CHECK_INT(stax_chain_slots(2, 0), 0);
    CHECK_INT(stax_chain_slots(0, 1), 0);
    CHECK_INT(stax_chain_evaluations(6, 3), 7);
    CHECK_INT(stax_chain_evaluations(0, 3), -1);
    CHECK_INT(stax_chain_evaluations(6, 0), -1);
    CHECK_INT(stax_chain_evaluations(INT64_MAX, 1), INT64_MAX);
    CHECK_INT(reversed(STAX_CHAIN_BINOMIAL, 6, 3).most, 2);
    for (int64_t s = 1; s < 12; s++) /* Pascal's rule: T 5.4 */
        for (int64_t t = 1; t < 12; t++)
            CHECK_INT(stax_chain_longest(s, t),
                      stax_chain_longest(s, t - 1) + (s > 1 ? stax_chain_longest(s - 1, t) : 1));
}

/* T 5.3: at most two evaluations of a step with about 2 sqrt(steps) states. */
static void uniform(void) {
    for (int n = 1; n <= CHAIN_STEPS; n++) {
        int64_t slots = 0, root = 1;
        while (root * root < n) root++;
        for (slots = 1; slots <= n; slots++) /* the fewest by trial of all lengths */
            for (int64_t k = 1; k <= n; k++)
                if ((n + k - 1) / k + k - 1 <= slots) goto found;
    found:
        CHECK(slots <= 2 * root);
        chain c = reversed(STAX_CHAIN_UNIFORM, n, slots);
        CHECK(c.most <= 2);
        if (slots > 1) {
            c.slots = 0;
            CHECK_INT(stax_chain_reverse(ctx, STAX_CHAIN_UNIFORM, n, slots - 1, act, &c),
                      STAX_E_ARGUMENT);
            char want[100];
            snprintf(want, sizeof want, "uniform reversal of %d steps needs at least %d, found %d",
                     n, (int)slots, (int)slots - 1);
            CHECK_HAS(stax_error(ctx), want);
        }
    }
    CHECK_INT(reversed(STAX_CHAIN_UNIFORM, 100, 19).most, 2);
    chain c; /* exercise 51 (3): 63 states where binomial reversal with t = 2 takes 44 */
    memset(&c, 0, sizeof c);
    CHECK_INT(stax_chain_reverse(ctx, STAX_CHAIN_UNIFORM, 1000, 62, act, &c), STAX_E_ARGUMENT);
    CHECK_HAS(stax_error(ctx), "1000 steps needs at least 63, found 62");
}

static void chain_errors(void) {
    chain c;
    memset(&c, 0, sizeof c);
    CHECK_INT(stax_chain_reverse(ctx, STAX_CHAIN_BINOMIAL, 0, 3, act, &c), STAX_E_ARGUMENT);
    CHECK_HAS(stax_error(ctx), "expected at least 1 step, found 0");
    CHECK_INT(stax_chain_reverse(ctx, STAX_CHAIN_BINOMIAL, 3, 0, act, &c), STAX_E_ARGUMENT);
    CHECK_HAS(stax_error(ctx), "slots: binomial reversal of 3 steps needs at least 1, found 0");
    CHECK_INT(stax_chain_reverse(NULL, STAX_CHAIN_BINOMIAL, 3, 1, act, &c), STAX_E_ARGUMENT);
    CHECK_INT(stax_chain_reverse(ctx, STAX_CHAIN_BINOMIAL, 3, 1, NULL, &c), STAX_E_ARGUMENT);
    for (int kind = 0; kind < 2; kind++)
        for (int k = 0; k < 12; k++) { /* the caller may end it at any action */
            memset(&c, 0, sizeof c);
            c.steps = c.left = 6;
            c.slots = 4;
            c.stop_after = k;
            CHECK_INT(stax_chain_reverse(ctx, (stax_chain_kind)kind, 6, 4, act, &c),
                      STAX_E_CANCELLED);
            CHECK_INT(c.stop_after, -1);
        }
}

/* A chain of compiled steps, reversed with few states: the gradient of one program, bit for bit. */
typedef struct recurrence {
    stax_training *step;
    stax_saved *saved;
    float state[16], next[16], stored[4][16], cotangent[16], gradient[16];
    stax_shape shape;
} recurrence;

static stax_status recur(void *user, const stax_chain_action *a) {
    recurrence *r = (recurrence *)user;
    stax_tensor in = stax_tensor_of(STAX_F32, r->shape, r->state),
                out = stax_tensor_of(STAX_F32, r->shape, r->next),
                c = stax_tensor_of(STAX_F32, r->shape, r->cotangent),
                d = stax_tensor_of(STAX_F32, r->shape, r->gradient);
    stax_status s = STAX_OK;
    if (a->what == STAX_CHAIN_STORE) memcpy(r->stored[a->slot], r->state, sizeof r->state);
    if (a->what == STAX_CHAIN_RESTORE) memcpy(r->state, r->stored[a->slot], sizeof r->state);
    for (int64_t k = a->step; a->what == STAX_CHAIN_ADVANCE && k < a->to && s == STAX_OK; k++) {
        s = stax_run_forward(r->step, &in, &out, r->saved);
        memcpy(r->state, r->next, sizeof r->state);
    }
    if (a->what == STAX_CHAIN_REVERSE) {
        s = stax_run_forward(r->step, &in, &out, r->saved);
        if (s == STAX_OK) s = stax_run_backward(r->step, r->saved, &c, &d);
        memcpy(r->cotangent, r->gradient, sizeof r->gradient);
    }
    return s;
}

static void chain_of_programs(void) {
    enum { STEPS = 20 };
    char text[2000], *at = text;
    int n = 0;
    recurrence r;
    feed a;
    at += sprintf(at, "graph g(x: f32[16]) {\n a0 = mul x, 1.5\n");
    for (int k = 0; k < STEPS; k++)
        at += sprintf(at, " %s%d = sin a%d\n a%d = mul b%d, 1.5\n", "b", k, k, k + 1, k);
    sprintf(at, " return b%d\n}\n", STEPS - 1);
    stax_graph *whole = joint(text, "x", &n),
               *one = joint("graph s(x: f32[16]) {\n a = mul x, 1.5\n b = sin a\n return b\n}", "x",
                            &n);
    memset(&r, 0, sizeof r);
    r.shape = stax_shape1(16);
    r.step = training(one, n, NULL);
    r.saved = stax_saved_new(r.step);
    CHECK(feed_make(&a, whole, 16, 3));
    memcpy(r.state, a.all[0].data, sizeof r.state);
    memcpy(r.cotangent, a.all[1].data, sizeof r.cotangent);
    CHECK_INT(stax_interpret(whole, a.all, a.outputs), STAX_OK);
    CHECK_INT(stax_chain_reverse(ctx, STAX_CHAIN_BINOMIAL, STEPS, 3, recur, &r), STAX_OK);
    CHECK_BYTES(r.cotangent, a.outputs[1].data, sizeof r.cotangent);
    feed_free(&a);
    stax_saved_free(r.saved);
    stax_training_free(r.step);
    stax_graph_free(whole);
    stax_graph_free(one);
}

int main(int argc, char **argv) {
    stax_options o = stax_options_default();
    HARNESS_BEGIN(argc, argv);
    if (harness_has_program("tcc")) o.compiler = "tcc"; /* the same bits, sooner */
    ctx = stax_open(&o);
    RUN(cut_is_least);
    RUN(deep);
    RUN(example_5_1);
    RUN(exercise_9);
    RUN(reductions_are_saved);
    RUN(every_op);
    RUN(random_graphs);
    RUN(sizes);
    RUN(params_and_states);
    RUN(random_ops);
    RUN(regions);
    RUN(checkpoints);
    RUN(budgets);
    RUN(wrong);
    RUN(no_memory);
    RUN(binomial_is_least);
    RUN(binomial_numbers);
    RUN(uniform);
    RUN(chain_errors);
    RUN(chain_of_programs);
    stax_close(ctx);
    return HARNESS_END();
}
