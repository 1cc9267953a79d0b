/* Every allocation of every entry fails once: the call must say so, leak nothing, and work the next
   time. The allocator counts blocks and bytes, checks the sizes it is given back, and fails either at
   call N alone or at call N and all later ones. */
#if !defined(_WIN32)
#define _GNU_SOURCE
#include <sys/stat.h>
#include <unistd.h>
#endif
#include "feed.h"
#include "harness.h"
#include "heap.h"

static heap h;

/* ---- what is tried: each scenario returns the status of its one interesting call ---------------- */

typedef struct scene {
    stax_context *ctx;
    const char *text;
    stax_graph *graph;
    stax_program *program;
    feed *given;
    int wants_output;
} scene;

static stax_status failed(const scene *s) { return stax_error_status(s->ctx); }

static stax_status try_parse(scene *s) {
    stax_graph *g = stax_parse(s->ctx, "memory", s->text);
    if (!g) return failed(s);
    stax_graph_free(g);
    return STAX_OK;
}

static stax_status try_text(scene *s, char *t) {
    if (!t) return failed(s);
    size_t n = strlen(t);
    stax_free(s->ctx, t);
    return n ? STAX_OK : STAX_E_INTERNAL;
}

static stax_status try_print(scene *s) { return try_text(s, stax_print(s->graph)); }
static stax_status try_dot(scene *s) { return try_text(s, stax_print_dot(s->graph)); }
static stax_status try_ops(scene *s) { return try_text(s, stax_ops_text(s->ctx)); }
static stax_status try_explain(scene *s) { return try_text(s, stax_program_report(s->program, STAX_REPORT_EXPLAIN)); }
static stax_status try_loops(scene *s) { return try_text(s, stax_program_report(s->program, STAX_REPORT_LOOPS)); }

static stax_status try_figures(scene *s) {
    stax_figures f;
    return stax_program_figures(s->program, s->given->slots, &f);
}

static stax_status try_rewritten(scene *s) {
    stax_graph *g = stax_rewritten(s->graph);
    if (!g) return failed(s);
    stax_status status = stax_graph_status(g);
    stax_graph_free(g);
    return status;
}

/* The graph as built, by the built-in rules and one of the caller's. */
static stax_status try_rewrite(scene *s) {
    static const stax_rule rule = {"own", "maximum a (minimum b #c)", "minimum (maximum a b) #c", NULL, NULL};
    static const stax_rule_set set = {"mine", &rule, 1, "maximum=4 minimum=4*2"};
    stax_rewrite_options o;
    memset(&o, 0, sizeof o);
    o.sets = &set;
    o.n_sets = 1;
    stax_graph *g = stax_rewrite(s->graph, &o);
    if (!g) return failed(s);
    stax_graph_free(g);
    return STAX_OK;
}

static stax_status try_compile(scene *s) {
    stax_program *p = stax_compile(s->graph, NULL);
    if (!p) return failed(s);
    stax_status status = stax_program_status(p);
    if (status == STAX_OK && h.failed) {
        /* an allocation failed and yet there is a program: it must be the right one */
        static feed a, b;
        h.fail_at = 0;
        if (CHECK(feed_make(&a, s->graph, 5, 1) && feed_make(&b, s->graph, 5, 1))) {
            stax_status want = stax_interpret(s->graph, a.all, a.outputs);
            CHECK_INT(feed_bind(p, &b), STAX_OK);
            CHECK_INT(stax_run(p, b.slots, b.outputs), want);
            if (want == STAX_OK && !CHECK(feed_equal(&a, &b))) printf("compiled wrongly after a failed allocation\n");
        }
        feed_free(&a);
        feed_free(&b);
    }
    stax_program_free(p);
    return status;
}

/* By its own printed schedule, with one call more. */
static stax_status try_schedule(scene *s) {
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    stax_schedule *schedule = stax_program_schedule(s->program);
    if (!schedule) return failed(s);
    stax_status status = stax_schedule_add(schedule, "compute_root s1");
    o.schedule = schedule;
    stax_program *p = status == STAX_OK ? stax_compile(s->graph, &o) : NULL;
    if (status == STAX_OK) status = p ? stax_program_status(p) : failed(s);
    stax_program_free(p);
    stax_schedule_free(schedule);
    return status;
}

static stax_status try_bad_schedule(scene *s) {
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    stax_schedule *schedule =
        stax_schedule_parse(s->ctx, "memory", "schedule { vectorize s1, i99 }");
    if (!schedule) return failed(s);
    o.schedule = schedule;
    stax_program *p = stax_compile(s->graph, &o);
    stax_status status =
        p ? stax_program_status(p) : failed(s); /* out of memory it may be interpreted */
    stax_program_free(p);
    stax_schedule_free(schedule);
    return status;
}

static stax_status try_compile_many(scene *s) {
    const stax_graph *graphs[3];
    stax_program *programs[3] = {NULL, NULL, NULL};
    for (int k = 0; k < 3; k++) graphs[k] = s->graph;
    stax_status status = stax_compile_many(graphs, 3, NULL, programs);
    for (int k = 0; k < 3; k++) {
        CHECK((programs[k] != NULL) == (status == STAX_OK));
        if (programs[k] && status == STAX_OK) status = stax_program_status(programs[k]);
        stax_program_free(programs[k]);
    }
    return status;
}

static stax_status try_run(scene *s) { return stax_run(s->program, s->given->slots, s->given->outputs); }
static stax_status try_interpret(scene *s) { return stax_interpret(s->graph, s->given->all, s->given->outputs); }
static stax_status try_bind(scene *s) { return feed_bind(s->program, s->given); }

static stax_status try_bytes(scene *s) {
    size_t want = stax_workspace_bytes(s->program, s->given->slots);
    (void)want; /* 0 when memory is short */
    return STAX_OK;
}

static char folder[200];

static stax_status try_export(scene *s) { return stax_export(s->program, folder, "memory_test", NULL); }

static stax_status try_build(scene *s) {
    stax_graph *g = stax_graph_new(s->ctx);
    if (!g) return STAX_E_MEMORY;
    int64_t n = stax_symbol(g, "n", 1, 100);
    stax_value x = stax_input(g, "x", STAX_F32, stax_shape2(n, 8)), parts[2];
    float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    stax_value w = stax_const_data(g, STAX_F32, stax_shape1(8), data);
    stax_value y = stax_add(x, stax_mul(w, stax_const(g, 2.0)));
    int64_t sizes[2] = {3, 5};
    stax_split(y, sizes, 2, 1, parts);
    y = stax_concat(parts, 2, 1);
    y = stax_softmax(y, -1);
    y = stax_reshape(y, stax_shape1(stax_size_mul(g, n, 8)));
    stax_output(g, "y", y);
    stax_output(g, "s", stax_sum(y, stax_axes_all(), false));
    stax_graph_name(g, "built");
    stax_status status = stax_graph_status(g);
    CHECK(stax_ok(g) == (status == STAX_OK));
    CHECK((stax_graph_error(g)[0] == 0) == (status == STAX_OK));
    stax_graph_free(g);
    return status;
}

static stax_status try_open(scene *s) {
    stax_options o = heap_options(&h);
    stax_context *ctx = stax_open(&o);
    (void)s;
    if (!ctx) return STAX_E_MEMORY;
    stax_close(ctx);
    return STAX_OK;
}

static stax_status try_cache_info(scene *s) {
    stax_cache_figures f;
    return stax_cache_info(s->ctx, &f);
}

typedef stax_status (*attempt)(scene *s);

static int scene_open(scene *s, const char *text, int program) {
    stax_options o = heap_options(&h);
    static feed given;
    memset(s, 0, sizeof *s);
    s->text = text;
    s->ctx = stax_open(&o);
    if (!CHECK(s->ctx != NULL)) return 0;
    s->graph = stax_parse(s->ctx, "memory", text);
    if (!CHECK(s->graph != NULL)) {
        printf("%s\n", stax_error(s->ctx));
        return 0;
    }
    s->given = &given;
    if (!CHECK(feed_make(&given, s->graph, 5, 1))) return 0;
    if (program) {
        s->program = stax_compile(s->graph, NULL);
        if (!CHECK(s->program != NULL)) return 0;
        CHECK_INT(feed_bind(s->program, &given), STAX_OK);
    }
    return 1;
}

static void scene_close(scene *s) {
    stax_program_free(s->program);
    stax_graph_free(s->graph);
    feed_free(s->given);
    stax_close(s->ctx);
}

/* One context for all N: with a fresh one compiling would read its object from the disk each time.
   What a context keeps (16 messages, loaded objects) may grow; at the end nothing may be left. */
static void attack(const char *name, const char *text, attempt f, int program) {
    scene s;
    char what[120];
    for (int mode = 0; mode < 2; mode++) {
        memset(&h, 0, sizeof h);
        if (!scene_open(&s, text, program)) return;
        /* twice: the first call may fill what is kept for the next ones */
        stax_status clean = f(&s);
        clean = f(&s);
        int64_t before = h.calls;
        clean = f(&s);
        int64_t calls = h.calls - before, silent = 0;
        snprintf(what, sizeof what, "%s of %s", name, stax_graph_get_name(s.graph));
        for (int64_t n = 1; n <= calls + 1; n++) {
            h.calls = 0;
            h.fail_at = n;
            h.from_then_on = mode;
            h.failed = 0;
            stax_status status = f(&s);
            h.fail_at = 0;
            if (!h.failed) {
                if (status != clean) printf("%s: call %d of %d: status %d without a failure\n", what, (int)n, (int)calls, (int)status);
                CHECK_INT(status, clean);
                break; /* so many allocations are not made */
            }
            if (status == clean)
                silent++;
            else if (status != STAX_E_MEMORY) {
                printf("%s: call %d of %d fails: status %d, %s\n", what, (int)n, (int)calls, (int)status, stax_error(s.ctx));
                CHECK_INT(status, STAX_E_MEMORY);
            }
            /* on every tenth and around the ends: the next call works */
            if (n % 10 == 0 || n < 4 || n + 4 > calls) {
                stax_status again = f(&s);
                if (again != clean) printf("%s: after failure %d of %d: status %d, %s\n", what, (int)n, (int)calls, (int)again, stax_error(s.ctx));
                CHECK_INT(again, clean);
            }
        }
        if (silent) printf("%s: %d of %d failures did not matter\n", what, (int)silent, (int)calls);
        if (program && clean == STAX_OK) { /* results are right afterwards */
            static feed other;
            if (CHECK(feed_make(&other, s.graph, 5, 1))) {
                static feed fresh;
                CHECK(feed_make(&fresh, s.graph, 5, 1));
                CHECK_INT(stax_interpret(s.graph, other.all, other.outputs), STAX_OK);
                CHECK_INT(stax_run(s.program, fresh.slots, fresh.outputs), STAX_OK);
                CHECK(feed_equal(&other, &fresh));
                feed_free(&other);
                feed_free(&fresh);
            }
        }
        scene_close(&s);
        if (h.blocks || h.bytes) printf("%s: %d blocks, %d bytes leaked\n", what, (int)h.blocks, (int)h.bytes);
        CHECK_INT(h.blocks, 0);
        CHECK_INT(h.bytes, 0);
        CHECK_INT(h.wrong, 0);
    }
}

/* ---- the tests --------------------------------------------------------------------------------- */

static const char *current_name;
static attempt current_attempt;
static int current_program;
static const char *current_text;

static void one(void) { attack(current_name, current_text, current_attempt, current_program); }

static void all_graphs(const char *name, attempt f, int program) {
    for (int k = 0; k < FEED_GRAPHS; k++) {
        char full[80], graph[40] = "";
        const char *at = strstr(feed_graphs[k], "graph ");
        sscanf(at, "graph %39[a-z_]", graph);
        snprintf(full, sizeof full, "%s_%s", name, graph);
        current_name = name;
        current_attempt = f;
        current_program = program;
        current_text = feed_graphs[k];
        RUN_NAMED(full, one);
    }
}

static void one_graph(const char *name, attempt f, int program, int k) {
    current_name = name;
    current_attempt = f;
    current_program = program;
    current_text = feed_graphs[k];
    RUN_NAMED(name, one);
}

static void opening(void) {
    scene s;
    memset(&s, 0, sizeof s);
    for (int mode = 0; mode < 2; mode++)
        for (int64_t n = 1; n < 1000; n++) {
            memset(&h, 0, sizeof h);
            h.fail_at = n;
            h.from_then_on = mode;
            stax_status status = try_open(&s);
            CHECK(status == STAX_OK || status == STAX_E_MEMORY);
            CHECK_INT(h.blocks, 0);
            CHECK_INT(h.wrong, 0);
            if (!h.failed) break;
        }
}

/* A bad text has many ways to its message. */
static stax_status try_bad(scene *s) {
    stax_graph *g = stax_parse(s->ctx, "memory", "graph g(x: f32[3]) { y = add x, z\n return y }");
    stax_status status = failed(s);
    CHECK(g == NULL);
    stax_graph_free(g);
    return status;
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
#if !defined(_WIN32)
    snprintf(folder, sizeof folder, "%s/memory-export", getenv("BUILD") ? getenv("BUILD") : "build");
    mkdir(folder, 0700);
#endif
    RUN(opening);
    all_graphs("parse", try_parse, 0);
    all_graphs("print", try_print, 0);
    all_graphs("rewritten", try_rewritten, 0);
    all_graphs("rewrite", try_rewrite, 0);
    all_graphs("interpret", try_interpret, 0);
    all_graphs("compile", try_compile, 0);
    all_graphs("run", try_run, 1);
    all_graphs("workspace_bytes", try_bytes, 1);
    all_graphs("export", try_export, 1);
    all_graphs("explain", try_explain, 1);
    all_graphs("figures", try_figures, 1);
    one_graph("loops", try_loops, 1, 5);
    one_graph("bind", try_bind, 1, 11);
    one_graph("build", try_build, 0, 0);
    one_graph("bad_text", try_bad, 0, 0);
    one_graph("dot", try_dot, 0, 3);
    one_graph("ops_text", try_ops, 0, 0);
    one_graph("compile_many", try_compile_many, 0, 1);
    for (int k = 0; k < FEED_GRAPHS; k += 5) one_graph("schedule", try_schedule, 1, k);
    one_graph("bad_schedule", try_bad_schedule, 0, 0);
    one_graph("cache_info", try_cache_info, 0, 0);
    return HARNESS_END();
}
