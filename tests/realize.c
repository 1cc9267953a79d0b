/* Realize decisions (6.6): what is kept and what is computed again, by predicted cost and by the
   thresholds; scores of fusion; that every refusal has a reason. Graphs are planned, not compiled;
   that no rule changes a bit is tested in metamorphic.c and differential.c (--realize=N). With
   --table alone it prints README.md's table of examples/nets (tools/realize_table.sh). */
#include <stdio.h>
#include <string.h>

#define STAX_STATIC
#define STAX_IMPLEMENTATION
#include "../stax.h"

#include "harness.h"
#include "programs.h"
#include "random.h"

static stax_program *planned(const stax_graph *g, const stax_compile_options *how,
                             const stax_schedule *given) {
    staxi_text why;
    staxi_text_init(&why, staxi_allocator_of(ctx));
    stax_program *p = g ? staxi_program_new(g, STAX_BACKEND_STAX) : NULL;
    if (p) p->how = how;
    if (p) p->given = given;
    if (!CHECK(p && staxi_program_plan(p, &why) == STAX_OK))
        printf("%s\n", why.data ? why.data : "");
    staxi_text_free(&why);
    return p;
}

static stax_program *planned_text(const char *text, const stax_compile_options *how) {
    stax_graph *g = parsed(text);
    stax_program *p = planned(g, how, NULL);
    stax_graph_free(g);
    return p;
}

/* What was decided about the first value of that op. */
static staxi_choice choice_of(const stax_program *p, const char *op) {
    staxi_choice none;
    memset(&none, 0, sizeof none);
    for (uint32_t v = 1; p && v < p->basis->n_values; v++) {
        const staxi_choice *c = &p->decisions.of[v];
        const char *name = staxi_op_name((stax_op)staxi_producer(&p->stages, v)->op);
        if (c->verdict && strcmp(name, op) == 0) return *c;
    }
    return none;
}

static stax_compile_options by_rule(stax_realize rule) {
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.realize = rule;
    return o;
}

/* ---- by cost --------------------------------------------------------------------------------- */

/* A function of x that two running sums read backwards, each in a kernel of its own. */
static staxi_choice of_two_readers(const char *op, long n) {
    char text[300];
    snprintf(text, sizeof text,
             "graph g(x: f32[%ld]) {\nv = %s x\nf = flip v {axes=[0]}\na = cumsum f {axis=0}\n"
             "b = cummax f {axis=0}\nreturn a, b\n}\n",
             n, op);
    stax_program *p = planned_text(text, NULL);
    staxi_choice c = choice_of(p, op);
    stax_program_free(p);
    return c;
}

/* exp takes 11 cycles: a kernel of its own is too much for 8 elements, memory is too slow for 2^24
   of them, and between them a cache holds the result; erfc is dear enough for memory. */
static void size_decides(void) {
    staxi_choice c;
    c = of_two_readers("exp", 8);
    CHECK_INT(c.verdict, STAXI_REALIZED_REDO);
    c = of_two_readers("exp", 2000);
    CHECK_INT(c.verdict, STAXI_REALIZED_KEEP);
    CHECK_INT(c.level, 0);
    c = of_two_readers("exp", 1 << 24);
    CHECK_INT(c.verdict, STAXI_REALIZED_REDO);
    CHECK_INT(c.level, 3);
    c = of_two_readers("erfc", 2000);
    CHECK_INT(c.verdict, STAXI_REALIZED_KEEP);
    c = of_two_readers("erfc", 1 << 24);
    CHECK_INT(c.verdict, STAXI_REALIZED_KEEP);
    c = of_two_readers("relu", 2000);
    CHECK_INT(c.verdict, STAXI_REALIZED_REDO);
    CHECK_TEXT(c.why, "even from the nearest cache it costs more to read back");
}

/* The costs of the model, by hand: n = 2000 of f32 in the nearest cache (64 GB/s), 24 G cycles/s.
 */
static void costs_are_those_of_the_model(void) {
    staxi_choice c = of_two_readers("exp", 2000);
    double n = 2000, byte = 1.0 / 64, cycle = 1.0 / 24, own = n * (11 * cycle + 4 * byte),
           keep = own + n * 8 * byte + 2 * n * 4 * byte + STAXI_KERNEL_NS, redo = 2 * own;
    CHECK(c.keep > keep * 0.9999 && c.keep < keep * 1.0001);
    CHECK(c.redo > redo * 0.9999 && c.redo < redo * 1.0001);
    CHECK_INT(c.readers, 2);
    CHECK_TEXT(c.why, "keeping it costs less");
}

/* The more readers, the better it is to keep a value. */
static void readers_decide(void) {
    char text[1000];
    static const char *const scans[] = {"cumsum", "cummax", "cummin", "cumprod", "logcumsumexp"};
    for (int readers = 2; readers <= 10; readers += 8) {
        int at = snprintf(text, sizeof text,
                          "graph g(x: f32[16777216]) {\nv = exp x\nf = flip v {axes=[0]}\n");
        for (int k = 0; k < readers; k++)
            at += snprintf(text + at, sizeof text - (size_t)at, "a%d = %s f {axis=0%s}\n", k,
                           scans[k % 5], k < 5 ? "" : ", exclusive=true");
        for (int k = 0; k < readers; k++)
            at += snprintf(text + at, sizeof text - (size_t)at, k ? ", a%d" : "return a%d", k);
        snprintf(text + at, sizeof text - (size_t)at, "\n}\n");
        stax_program *p = planned_text(text, NULL);
        staxi_choice c = choice_of(p, "exp");
        CHECK_INT(c.verdict, readers == 2 ? STAXI_REALIZED_REDO : STAXI_REALIZED_KEEP);
        CHECK_INT(c.readers, readers);
        stax_program_free(p);
    }
}

/* Readers that share the loop: nothing is stored. A row that other loop nests of the kernel read:
   exp is kept (softmax), x - mean is not (variance). */
static void rows(void) {
    stax_program *p = planned_text(
        "graph g(x: f32[64,256]) {\ne = exp x\na = sum e {axes=[1]}\nb = max e {axes=[1]}\n"
        "return a, b\n}\n",
        NULL);
    CHECK_INT(choice_of(p, "exp").verdict, STAXI_REALIZED_LOOP);
    CHECK(p && p->trees.n_kernels == 1);
    stax_program_free(p);
    p = planned_text("graph g(x: f32[64,256]) {\ny = softmax x\nreturn y\n}\n", NULL);
    CHECK_INT(choice_of(p, "exp").verdict, STAXI_REALIZED_KEEP);
    CHECK(p && p->trees.n_kernels == 1);
    stax_program_free(p);
    p = planned_text("graph g(x: f32[64,256]) {\ny = layer_norm x\nreturn y\n}\n", NULL);
    CHECK_INT(choice_of(p, "sub").verdict, STAXI_REALIZED_REDO);
    CHECK(p && p->trees.n_kernels == 1);
    stax_program_free(p);
}

/* Indices are computed one at a time: a mask that many rows use would keep them from vectors. */
static void vectors_decide(void) {
    stax_program *p = planned_text(
        "graph g(x: f32[256,64,64]) {\ni = iota {shape=[64,64], axis=0}\n"
        "j = iota {shape=[64,64], axis=1}\nm = ge i, j\ny = where m, x, 0.0\nreturn y\n}\n",
        NULL);
    CHECK_INT(choice_of(p, "ge").verdict, STAXI_REALIZED_KEEP);
    CHECK(p && p->trees.kernels[p->trees.n_kernels - 1].lanes);
    stax_program_free(p);
}

/* A faster memory, or slower arithmetic, decides otherwise. */
static void the_machine_decides(void) {
    stax_machine m;
    stax_compile_options o;
    stax_graph *g = parsed(
        "graph g(x: f32[16777216]) {\nv = exp x\nf = flip v {axes=[0]}\na = cumsum f {axis=0}\n"
        "b = cummax f {axis=0}\nreturn a, b\n}\n");
    memset(&o, 0, sizeof o);
    stax_machine_nominal(&m);
    CHECK_INT(m.n_levels, 4);
    CHECK_TEXT(m.cpu, "nominal");
    for (int faster = 0; faster < 2; faster++) {
        o.machine = &m;
        if (faster) m.levels[3].read *= 8;
        stax_program *p = planned(g, &o, NULL);
        CHECK_INT(choice_of(p, "exp").verdict, faster ? STAXI_REALIZED_KEEP : STAXI_REALIZED_REDO);
        stax_program_free(p);
    }
    stax_graph_free(g);
}

/* ---- the thresholds -------------------------------------------------------------------------- */

static staxi_choice by_thresholds(const char *size, const char *lines, const char *op,
                                  stax_realize rule) {
    char text[1000];
    stax_compile_options o = by_rule(rule);
    snprintf(text, sizeof text,
             "%sgraph g(x: f32[n], y: f32[n], z: f32[n], u: f32[n], w: f32[n]) {\n%s"
             "f = flip v {axes=[0]}\na = cumsum f {axis=0}\nb = cummax f {axis=0}\n"
             "return a, b\n}\n",
             size, lines);
    stax_program *p = planned_text(text, &o);
    staxi_choice c = choice_of(p, op);
    stax_program_free(p);
    return c;
}

static void thresholds(void) {
    const char *any = "sizes n: 1..\n", *bound = "sizes n: 1..4096\n";
    staxi_choice c = by_thresholds(any, "v = exp x\n", "exp", STAX_REALIZE_COST);
    CHECK_INT(c.verdict, STAXI_REALIZED_KEEP);
    CHECK_TEXT(c.why, "threshold: it holds a function as dear as exp");
    c = by_thresholds(any, "t = add x, y\nv = sqrt t\n", "sqrt", STAX_REALIZE_COST);
    CHECK_INT(c.verdict, STAXI_REALIZED_REDO);
    CHECK_TEXT(c.why, "its size has no bound; it is below all thresholds");
    c = by_thresholds(any, "s = add x, y\nt = add z, u\nq = mul s, t\nv = div q, w\n", "div",
                      STAX_REALIZE_COST);
    CHECK_INT(c.verdict, STAXI_REALIZED_KEEP);
    CHECK_TEXT(c.why, "threshold: more than 4 tensors are read for it");
    /* with a bound it is cost that decides: the time stands beside */
    c = by_thresholds(bound, "v = exp x\n", "exp", STAX_REALIZE_COST);
    CHECK(c.keep > 0 && c.redo > 0);
    c = by_thresholds(bound, "v = exp x\n", "exp", STAX_REALIZE_THRESHOLDS);
    CHECK(!(c.keep > 0));
    CHECK_TEXT(c.why, "threshold: it holds a function as dear as exp");
    c = by_thresholds(bound, "t = add x, y\nv = sqrt t\n", "sqrt", STAX_REALIZE_THRESHOLDS);
    CHECK_TEXT(c.why, "it is below all thresholds");
    c = by_thresholds(bound, "t = add x, y\nv = sqrt t\n", "sqrt", STAX_REALIZE_KEEP);
    CHECK_INT(c.verdict, STAXI_REALIZED_KEEP);
    c = by_thresholds(bound, "v = exp x\n", "exp", STAX_REALIZE_REDO);
    CHECK_INT(c.verdict, STAXI_REALIZED_REDO);
}

/* ---- schedules ------------------------------------------------------------------------------- */

static uint32_t stage_of_op(const stax_program *p, const char *op) {
    for (uint32_t k = 1; p && k < p->stages.n_stages; k++)
        if (strcmp(p->stages.stages[k].op_name, op) == 0) return k;
    return 0;
}

/* compute_inline and compute_root win, whatever was decided. */
static void a_schedule_wins(void) {
    stax_graph *g = parsed(
        "graph g(x: f32[4000]) {\nv = exp x\nf = flip v {axes=[0]}\na = cumsum f {axis=0}\n"
        "b = cummax f {axis=0}\nreturn a, b\n}\n");
    stax_program *p = planned(g, NULL, NULL);
    uint32_t k = stage_of_op(p, "exp");
    CHECK(k && p->stages.stages[k].buffer);
    char call[40];
    stax_schedule *s = stax_schedule_new(ctx, NULL);
    snprintf(call, sizeof call, "compute_inline s%d", (int)k);
    CHECK_INT(stax_schedule_add(s, call), STAX_OK);
    stax_program_free(p);
    p = planned(g, NULL, s);
    CHECK(p->stages.stages[k].inlined);
    CHECK_INT(p->trees.n_kernels, 2);
    stax_program_free(p);
    stax_schedule_free(s);
    /* softmax's exp in a kernel of its own, though its readers' would take it */
    stax_graph *rows = parsed("graph g(x: f32[64,256]) {\ny = softmax x\nreturn y\n}\n");
    p = planned(rows, NULL, NULL);
    k = stage_of_op(p, "exp");
    CHECK(p && k && p->trees.n_kernels == 1);
    stax_program_free(p);
    s = stax_schedule_new(ctx, NULL);
    snprintf(call, sizeof call, "compute_root s%d", (int)k);
    CHECK_INT(stax_schedule_add(s, call), STAX_OK);
    p = planned(rows, NULL, s);
    CHECK(p && p->trees.n_kernels > 1 &&
          p->schedule.kernels[p->stages.stages[k].kernel].first_stage == k);
    stax_program_free(p);
    stax_schedule_free(s);
    stax_graph_free(rows);
    stax_graph_free(g);
}

/* ---- the five networks ----------------------------------------------------------------------- */

static const char *const nets[] = {"mlp", "cnn", "lenet", "transformer", "unet"};
enum { N_NETS = sizeof nets / sizeof nets[0] };

static stax_graph *net_graph(int k) {
    char path[100];
    snprintf(path, sizeof path, "examples/nets/%s.stax", nets[k]);
    stax_graph *g = file_graph(ctx, path);
    CHECK(g != NULL);
    return g;
}

static char *schedule_of(const stax_program *p) {
    staxi_text t;
    staxi_text_init(&t, staxi_allocator_of(ctx));
    staxi_report_schedule(p, &t);
    return staxi_text_give(ctx, &t);
}

typedef struct net_figures {
    stax_figures f;
    double seconds;
    int kept, redone;
} net_figures;

/* On the nominal machine; symbols count as 1024 within their range. */
static net_figures net_of(const stax_graph *g, stax_realize rule) {
    net_figures out;
    stax_machine m;
    stax_compile_options o = by_rule(rule);
    staxi_sizer z;
    memset(&out, 0, sizeof out);
    stax_machine_nominal(&m);
    stax_program *p = planned(g, &o, NULL);
    if (!p) return out;
    CHECK_INT(staxi_plan_figures(p, NULL, &out.f), STAX_OK);
    z.p = p;
    z.sizes = NULL;
    for (uint32_t k = 0; k < p->trees.n_kernels; k++) {
        stax_work w;
        CHECK(staxi_kernel_work(&z, k, &w));
        out.seconds += stax_predict(&m, &w).seconds;
    }
    for (uint32_t v = 1; v < p->basis->n_values; v++) {
        const int verdict = p->decisions.of[v].verdict;
        out.kept += verdict == STAXI_REALIZED_KEEP;
        out.redone += verdict == STAXI_REALIZED_REDO;
    }
    stax_program_free(p);
    return out;
}

static const struct {
    stax_realize rule;
    const char *name;
} rules[] = {{STAX_REALIZE_COST, "cost"},
             {STAX_REALIZE_THRESHOLDS, "thresholds"},
             {STAX_REALIZE_KEEP, "all kept"},
             {STAX_REALIZE_REDO, "all recomputed"}};

/* What is recomputed: operations beyond those of the program that keeps all it can. */
static void print_table(void) {
    printf(
        "| network | decided by | kept | recomputed | kernels | MB moved | MFLOPs | of them "
        "recomputed | predicted ms |\n");
    printf("| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (int k = 0; k < N_NETS; k++) {
        stax_graph *g = net_graph(k);
        const double least = net_of(g, STAX_REALIZE_KEEP).f.flops;
        for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
            net_figures n = net_of(g, rules[r].rule);
            const double again = n.f.flops - least;
            printf("| `%s` | %s | %d | %d | %d | %.3f | %.3f | %.3f | %.4f |\n", nets[k],
                   rules[r].name, n.kept, n.redone, n.f.kernels, n.f.bytes * 1e-6, n.f.flops * 1e-6,
                   (again > 0 ? again : 0) * 1e-6, n.seconds * 1e3);
        }
        stax_graph_free(g);
    }
}

/* By the roofline, which is not what decides (it does not know that short lines are dear to compute
   again), cost is nowhere worse than the thresholds by more than two hundredths. */
static void on_networks(void) {
    for (int k = 0; k < N_NETS; k++) {
        stax_graph *g = net_graph(k);
        net_figures cost = net_of(g, STAX_REALIZE_COST), old = net_of(g, STAX_REALIZE_THRESHOLDS);
        CHECK(cost.kept + cost.redone > 0 || old.kept + old.redone == 0);
        if (!CHECK(cost.seconds <= old.seconds * 1.02))
            printf("%s: by cost %.5f ms, by thresholds %.5f ms\n", nets[k], cost.seconds * 1e3,
                   old.seconds * 1e3);
        for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) { /* schedules read back */
            stax_compile_options o = by_rule(rules[r].rule);
            stax_program *p = planned(g, &o, NULL);
            char *first = p ? schedule_of(p) : NULL, *second;
            stax_program_free(p);
            stax_schedule *s = first ? stax_schedule_parse(ctx, "own", first) : NULL;
            p = planned(g, &o, s);
            second = p ? schedule_of(p) : NULL;
            CHECK_TEXT(second, first);
            stax_program_free(p);
            stax_schedule_free(s);
            stax_free(ctx, first);
            stax_free(ctx, second);
        }
        stax_graph_free(g);
    }
}

/* ---- fusion ---------------------------------------------------------------------------------- */

static double never(void *user, const stax_fusion *f) {
    (void)f;
    ++*(int *)user;
    return 0;
}

/* x and y are read by all: bytes join the older kernel, this score the newest. */
static double newest(void *user, const stax_fusion *f) {
    (void)user;
    return 1.0 / (1 + f->distance);
}

static double vertical_by_bytes(void *user, const stax_fusion *f) {
    int *seen = (int *)user;
    seen[f->is_vertical]++;
    CHECK(f->shared_bytes > 0 && f->members > 0 && f->distance >= 0 && f->stage && f->kernel);
    return f->shared_bytes;
}

static const char *noted(const stax_program *p, const char *op, bool done) {
    for (size_t k = 0; p && k < p->schedule.n_fusions; k++) {
        const staxi_fusion *f = &p->schedule.fusions[k];
        if (f->done == done && strcmp(p->stages.stages[f->stage].op_name, op) == 0) return f->why;
    }
    return "";
}

static void scores(void) {
    stax_graph *g =
        parsed("graph g(x: f32[64,64]) {\na = exp x\nb = log x\nc = add a, b\nreturn a, b, c\n}\n");
    stax_compile_options o;
    int calls = 0, seen[2] = {0, 0};
    memset(&o, 0, sizeof o);
    stax_program *p = planned(g, &o, NULL);
    CHECK(p && p->trees.n_kernels == 1);
    stax_program_free(p);
    o.score = vertical_by_bytes;
    o.score_user = seen;
    p = planned(g, &o, NULL);
    CHECK(p && p->trees.n_kernels == 1);
    CHECK(seen[0] == 1 && seen[1] == 1);
    stax_program_free(p);
    o.score = never;
    o.score_user = &calls;
    p = planned(g, &o, NULL);
    CHECK(p && p->trees.n_kernels == 3);
    CHECK(calls > 0);
    CHECK_TEXT(noted(p, "log", false), "the score of the caller is not above 0");
    stax_program_free(p);
    memset(&o, 0, sizeof o);
    o.no_horizontal = true;
    p = planned(g, &o, NULL);
    CHECK(p && p->trees.n_kernels == 2);
    CHECK_TEXT(noted(p, "log", false), "horizontal fusion is switched off");
    CHECK_TEXT(noted(p, "add", true), "they share data and a domain");
    stax_program_free(p);
    stax_graph_free(g);
    /* a and b cannot be in one kernel; c could join either */
    g = parsed(
        "graph g(x: f32[8,64], y: f32[8,64]) {\na = cumsum x {axis=1}\n"
        "b = cumsum y {axis=1}\nc = mul a, b\nreturn a, b, c\n}\n");
    memset(&o, 0, sizeof o);
    for (int late = 0; late < 2; late++) {
        if (late) o.score = newest;
        p = planned(g, &o, NULL);
        const uint32_t c = stage_of_op(p, "mul"), of = late ? 2u : 1u;
        CHECK(p && c && p->stages.stages[c].kernel == p->stages.stages[of].kernel);
        stax_program_free(p);
    }
    stax_graph_free(g);
}

/* Whatever reads what another kernel computes, or the same as it, has a reason in the report: of
   random graphs, those stages that could have joined and did not. */
static void every_refusal_has_a_reason(void) {
    for (int k = 0; k < N_NETS; k++) {
        stax_graph *g = net_graph(k);
        stax_program *p = planned(g, NULL, NULL);
        int pairs = 0;
        for (uint32_t u = 0; p && u < p->schedule.n_uses; u++) {
            const staxi_ref *r = &p->schedule.uses[u];
            const uint32_t reader = p->stages.stages[r->stage].kernel,
                           kernel = p->stages.stages[r->ref].kernel;
            bool said = false;
            if (reader == kernel || p->stages.stages[r->stage].lead) continue;
            pairs++;
            for (size_t f = 0; f < p->schedule.n_fusions; f++)
                said = said || (p->schedule.fusions[f].stage == r->stage &&
                                p->schedule.fusions[f].kernel == kernel &&
                                !p->schedule.fusions[f].done && *p->schedule.fusions[f].why);
            if (!CHECK(said))
                printf("%s: s%d and kernel %d\n", nets[k], (int)r->stage, (int)kernel);
        }
        CHECK(pairs > 0);
        stax_program_free(p);
        stax_graph_free(g);
    }
}

/* ---- the optimum, where all domains agree (exercise 45) ----------------------------------------
 */

enum { MOST_STAGES = 8 };

/* Bytes that the kernels read and write, in tensors, for that kernel of each stage; 0: they need
   each other in a circle. Every stage is an output. */
static int traffic_of(const stax_program *p, const int *kernel, int n) {
    int reads[MOST_STAGES + 1][MOST_STAGES + 1] = {{0}}, traffic = n;
    for (int K = 0; K < n; K++)
        for (uint32_t b = 1; b < p->stages.n_buffers; b++) {
            int any = 0;
            for (uint32_t l = 0; l < p->schedule.n_loads; l++)
                any |= p->schedule.loads[l].ref == b && kernel[p->schedule.loads[l].stage] == K;
            traffic += any;
        }
    for (int w = 1; w <= n; w++)
        for (int K = 0; K < n; K++) {
            int any = 0;
            for (uint32_t u = 0; u < p->schedule.n_uses; u++)
                any |= (int)p->schedule.uses[u].ref == w && kernel[w] != K &&
                       kernel[p->schedule.uses[u].stage] == K;
            traffic += any;
            if (any) reads[kernel[w]][K] = 1;
        }
    for (int k = 0; k < n; k++)
        for (int a = 0; a < n; a++)
            for (int b = 0; b < n; b++) reads[a][b] |= reads[a][k] && reads[k][b];
    for (int k = 0; k < n; k++)
        if (reads[k][k]) return 0;
    return traffic;
}

/* The least traffic of all partitions: stage k is in one of the kernels before it, or opens one. */
static int least_traffic(const stax_program *p, int *kernel, int k, int n_kernels, int n) {
    if (k > n) return traffic_of(p, kernel, n);
    int best = 0;
    for (int K = 0; K <= n_kernels; K++) {
        kernel[k] = K;
        const int t = least_traffic(p, kernel, k + 1, n_kernels + (K == n_kernels), n);
        if (t && (!best || t < best)) best = t;
    }
    return best;
}

static double shared_bytes(void *user, const stax_fusion *f) {
    (void)user;
    return f->shared_bytes;
}

/* n ops of up to four inputs and of each other, all of one shape, all of them outputs. */
static void one_domain(char *text, size_t room, int n, uint64_t *s) {
    static const char *const unary[] = {"exp", "tanh", "sin", "erf", "log", "cos", "sqrt", "cbrt"},
                             *const binary[] = {"add",     "sub",     "mul",   "div",
                                                "maximum", "minimum", "hypot", "atan2"};
    const int inputs = 4;
    int at = snprintf(text, room,
                      "graph g(v0: f32[8,32], v1: f32[8,32], v2: f32[8,32], v3: f32[8,32]) {\n");
    for (int k = 0; k < n; k++) {
        const int x = (int)(draw(s) % (uint64_t)(inputs + k)),
                  y = (x + 1 + (int)(draw(s) % (uint64_t)(inputs + k - 1))) % (inputs + k);
        if (draw(s) % 2)
            at += snprintf(text + at, room - (size_t)at, "v%d = %s v%d\n", inputs + k, unary[k], x);
        else
            at += snprintf(text + at, room - (size_t)at, "v%d = %s v%d, v%d\n", inputs + k,
                           binary[k], x, y);
    }
    at += snprintf(text + at, room - (size_t)at, "return ");
    for (int k = 0; k < n; k++)
        at += snprintf(text + at, room - (size_t)at, "%sv%d", k ? ", " : "", inputs + k);
    snprintf(text + at, room - (size_t)at, "\n}\n");
}

/* Placing each stage once leaves f(x) and g(y) apart, whose sum brings them together: so does the
   score of a caller, who is asked about each stage once. */
static void fusion_is_the_optimum_of_one_domain(void) {
    uint64_t s = RANDOM_SEED;
    int missed = 0, more = 0;
    for (int g = 0; g < 400; g++) {
        char text[800];
        int kernel[MOST_STAGES + 1], own[MOST_STAGES + 1];
        const int n = 2 + (int)(draw(&s) % (MOST_STAGES - 1));
        stax_compile_options once;
        memset(&once, 0, sizeof once);
        once.score = shared_bytes;
        one_domain(text, sizeof text, n, &s);
        stax_program *p = planned_text(text, NULL), *q = planned_text(text, &once);
        if (CHECK(p && q) && CHECK_INT(p->stages.n_stages, n + 1) &&
            CHECK_INT(q->stages.n_stages, n + 1)) {
            const int least = least_traffic(p, kernel, 1, 0, n);
            for (int k = 1; k <= n; k++) own[k] = (int)p->stages.stages[k].kernel - 1;
            if (!CHECK_INT(traffic_of(p, own, n), least)) printf("%s", text);
            more += p->trees.n_kernels > 1;
            for (int k = 1; k <= n; k++) own[k] = (int)q->stages.stages[k].kernel - 1;
            missed += traffic_of(q, own, n) > least;
        }
        stax_program_free(p);
        stax_program_free(q);
    }
    printf("400 graphs: %d have several kernels at best; placing once misses %d optima\n", more,
           missed);
    CHECK(more > 20 && missed > 20);
}

int main(int argc, char **argv) {
    const int table = argc == 2 && strcmp(argv[1], "--table") == 0;
    HARNESS_BEGIN(argc, argv);
    ctx = stax_open(NULL);
    if (!ctx) return 1;
    if (table) {
        print_table();
    } else {
        RUN(size_decides);
        RUN(costs_are_those_of_the_model);
        RUN(readers_decide);
        RUN(rows);
        RUN(vectors_decide);
        RUN(the_machine_decides);
        RUN(thresholds);
        RUN(a_schedule_wins);
        RUN(on_networks);
        RUN(scores);
        RUN(every_refusal_has_a_reason);
        RUN(fusion_is_the_optimum_of_one_domain);
    }
    stax_close(ctx);
    return table ? harness.bad_checks != 0 : HARNESS_END();
}
