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
    static const char *const bodies[] = {
        "y = gelu h",
        "s = mul h, 0.70710678118654752\n e = erf s\n p = add e, 1.0\n q = mul h, p\n y = mul q, 0.5"};
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

/* Exercise 9: with relu, whose derivative reads its result, that alone is saved; as an output it
   is there anyway, and the forward program writes nothing more. */
static void exercise_9(void) {
    int n = 0;
    stax_graph *g = joint("graph g(x: f32[64,32], w: f32[32,32]) {\n h = matmul x, w\n y = relu h\n"
                          " return y\n}",
                          "x,w", &n);
    stax_training *t = training(g, n, NULL);
    stax_training_figures f = figures(t);
    char *text = report(t);
    CHECK_INT(f.saved, 0);
    CHECK_FLOAT(f.saved_bytes, 0);
    CHECK_INT(f.kept, 3);
    CHECK_HAS(text, "y: f32[64,32] = relu, an output");
    CHECK(!strstr(text, "h: "));
    stax_free(ctx, text);
    stax_training_free(t);
    same_bits_all(g, n, 16);
    stax_graph_free(g);
    g = joint("graph g(x: f32[64,32], w: f32[32,32], v: f32[32]) {\n h = matmul x, w\n y = relu h\n"
              " z = mul y, v\n s = sum z\n return s\n}",
              "x,w,v", &n);
    t = training(g, n, NULL);
    f = figures(t);
    text = report(t);
    CHECK_INT(f.saved, 1);
    CHECK_FLOAT(f.saved_bytes, 64 * 32 * 4);
    CHECK_HAS(text, "8192 bytes  y: f32[64,32] = relu");
    stax_free(ctx, text);
    stax_training_free(t);
    same_bits_all(g, n, 16);
    stax_graph_free(g);
}

/* Exercise 10: the result of a reduction that backward reads is saved, however cheap it is. */
static void reductions_are_saved(void) {
    int n = 0;
    stax_graph *g = joint("graph g(x: f32[16,8]) {\n m = max x {axes=[1], keepdims=true}\n"
                          " d = sub x, m\n e = exp d\n s = sum e {axes=[1], keepdims=true}\n"
                          " y = div e, s\n z = mul y, y\n return z\n}",
                          "x", &n);
    stax_training *t = training(g, n, NULL);
    char *text = report(t);
    CHECK_INT(figures(t).saved, 2);
    CHECK_FLOAT(figures(t).saved_bytes, 2 * 16 * 4);
    CHECK_HAS(text, "64 bytes  f32[16] = max");
    CHECK_HAS(text, "64 bytes  f32[16] = sum");
    stax_free(ctx, text);
    stax_training_free(t);
    same_bits_all(g, n, 16);
    stax_graph_free(g);
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
        for (const char *s = cases[k].body; *s; s++) *at++ = *s == '|' ? '\n' : *s;
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
    static const char *const steps[] = {
        "exp v%d", "relu v%d", "mul v%d, v%d", "add v%d, v%d", "tanh v%d", "transpose v%d",
        "matmul v%d, v%d", "sub v%d, v%d", "checkpoint v%d", "sigmoid v%d", "softmax v%d",
        "cumsum v%d {axis=0}", "mul v%d, key", "dropout v%d, k {p=0.3}", "flip v%d"};
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
    stax_close(ctx);
    return HARNESS_END();
}
