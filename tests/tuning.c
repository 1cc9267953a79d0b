/* Tuning: schedules that are measured to be faster, and are kept; none where nothing is. No bit of
   a result, no input and no state changes. */
#define _GNU_SOURCE
#define STAX_IMPLEMENTATION
#include "stax.h"

#include "feed.h"
#include "folder.h"
#include "harness.h"
#include "programs.h"

static char folder[400];

static void reopen(void) {
    static int serial;
    static char cache[500];
    stax_options o = stax_options_default();
    stax_close(ctx);
    snprintf(cache, sizeof cache, "%s/cache%d", folder, serial++);
    o.cache_dir = cache;
    ctx = stax_open(&o);
}

static const char *const product =
    "graph mm(a: f32[192,256], b: f32[256,192]) { c = matmul a, b; d = relu c; return d }";
static stax_schedule *bad_start(const stax_graph *g, const char *call, const char *instead) {
    stax_program *p = compiled(g);
    stax_schedule *s = p ? stax_program_schedule(p) : NULL;
    char *text = stax_schedule_print(s), *at = text ? strstr(text, call) : NULL, edited[2000];
    stax_schedule_free(s);
    stax_program_free(p);
    if (!at) {
        stax_free(ctx, text);
        return NULL;
    }
    const char *rest = strchr(at, '\n');
    snprintf(edited, sizeof edited, "%.*s%s%s", (int)(at - text), text, instead, rest ? rest : "");
    stax_free(ctx, text);
    s = stax_schedule_parse(ctx, "bad", edited);
    if (!CHECK(s != NULL)) printf("%s\n%s\n", stax_error(ctx), edited);
    return s;
}

static void gives_the_bits(const stax_graph *g, const stax_compile_options *o) {
    static feed want, got;
    stax_program *p = stax_compile(g, o);
    if (!CHECK(p && stax_program_status(p) == STAX_OK)) printf("%s\n", stax_error(ctx));
    CHECK(feed_make(&want, g, 9, 3) && feed_make(&got, g, 9, 3));
    CHECK_INT(stax_interpret(g, want.all, want.outputs), STAX_OK);
    if (p) {
        CHECK_INT(feed_bind(p, &got), STAX_OK);
        CHECK_INT(stax_run(p, got.slots, got.outputs), STAX_OK);
        CHECK(feed_equal(&want, &got) && feed_guards_hold(&got));
    }
    feed_free(&want);
    feed_free(&got);
    stax_program_free(p);
}

/* From a bad start the descent finds a way down, the second time without measuring. */
static void descends(void) {
    static feed f, before;
    stax_compile_options compile;
    stax_tune_options o;
    stax_tuning found, again;
    reopen();
    memset(&compile, 0, sizeof compile);
    memset(&o, 0, sizeof o);
    stax_graph *g = parsed(product);
    stax_schedule *start = bad_start(g, "tensorize s1", "tensorize s1 {by=[2,16]}");
    if (!start) {
        SKIP("this instruction set has no micro-kernels: there is nothing to start from");
        stax_graph_free(g);
        return;
    }
    compile.schedule = start;
    o.compile = &compile;
    o.numbers = true;
    o.seconds = 60;
    CHECK(feed_make(&f, g, 9, 3) && feed_make(&before, g, 9, 3));
    CHECK_INT(stax_tune(g, f.all, &o, &found), STAX_OK);
    CHECK(feed_equal(&f, &before)); /* outputs and states are not touched either */
    CHECK(found.candidates > 0 && found.refused < found.candidates);
    CHECK(!found.from_record);
    char *best = stax_schedule_print(found.schedule);
    printf("%d candidates, %d refused, %.0f ns to %.0f ns:\n%s", found.candidates, found.refused,
           found.before_ns, found.after_ns, best ? best : "the start\n");
    CHECK(found.schedule != NULL);
    CHECK(found.after_ns < 0.99 * found.before_ns);
    CHECK_INT(stax_tune(g, f.all, &o, &again), STAX_OK);
    CHECK(again.from_record);
    CHECK_INT(again.candidates, 0);
    char *recalled = stax_schedule_print(again.schedule);
    CHECK_TEXT(recalled, best);
    compile.schedule = found.schedule;
    compile.opt_level = found.opt_level;
    gives_the_bits(g, &compile);
    stax_free(ctx, best);
    stax_free(ctx, recalled);
    stax_schedule_free(found.schedule);
    stax_schedule_free(again.schedule);
    stax_schedule_free(start);
    feed_free(&f);
    feed_free(&before);
    stax_graph_free(g);
}


/* A clock that knows nothing: every reading is as long as chance wants. */
static uint64_t chance = 99;
static double noise(void) {
    static double now;
    return now += (double)(feed_random(&chance) % 1000);
}

/* By construction: without a decision over all rounds, twice, the start stays. */
static void noise_leaves_the_start(void) {
    for (int k = 3; k < FEED_GRAPHS; k += 9) {
        static feed f;
        stax_tune_options o;
        stax_tuning out;
        reopen();
        memset(&o, 0, sizeof o);
        o.clock_ns = noise;
        o.seconds = 1;
        stax_graph *g = parsed(feed_graphs[k]);
        CHECK(feed_make(&f, g, 9, 3));
        CHECK_INT(stax_tune(g, f.all, &o, &out), STAX_OK);
        CHECK(out.schedule == NULL);
        CHECK_INT(out.opt_level, 0);
        stax_schedule_free(out.schedule);
        feed_free(&f);
        stax_graph_free(g);
    }
}

/* Whatever is found for graphs of all kinds (states, params, regions, open sizes) has the bits. */
static void all_kinds(void) {
    int candidates = 0, refused = 0;
    reopen();
    for (int k = 0; k < FEED_GRAPHS; k += 5) {
        static feed f, before;
        stax_compile_options compile;
        stax_tune_options o;
        stax_tuning out;
        memset(&o, 0, sizeof o);
        memset(&compile, 0, sizeof compile);
        o.seconds = 1;
        stax_graph *g = parsed(feed_graphs[k]);
        CHECK(feed_make(&f, g, 9, 3) && feed_make(&before, g, 9, 3));
        if (!CHECK_INT(stax_tune(g, f.all, &o, &out), STAX_OK)) printf("%s\n", stax_error(ctx));
        CHECK(feed_equal(&f, &before));
        candidates += out.candidates;
        refused += out.refused;
        compile.schedule = out.schedule;
        compile.opt_level = out.opt_level;
        gives_the_bits(g, &compile);
        stax_schedule_free(out.schedule);
        feed_free(&f);
        feed_free(&before);
        stax_graph_free(g);
    }
    printf("%d candidates, %d refused\n", candidates, refused);
    CHECK(candidates > refused);
}

static int told;
static bool cancels(void *user, const stax_progress *now) {
    (void)user;
    (void)now;
    return ++told < 8;
}

static void edges(void) {
    stax_compile_options compile;
    stax_tune_options o;
    stax_tuning out;
    static feed f;
    reopen();
    memset(&compile, 0, sizeof compile);
    memset(&o, 0, sizeof o);
    stax_graph *g = parsed(product);
    CHECK(feed_make(&f, g, 9, 3));
    o.compile = &compile;
    compile.interpret = true; /* nothing to tune */
    CHECK_INT(stax_tune(g, f.all, &o, &out), STAX_OK);
    CHECK(out.schedule == NULL && out.candidates == 0);
    compile.interpret = false;
    compile.progress = cancels;
    CHECK_INT(stax_tune(g, f.all, &o, &out), STAX_E_CANCELLED);
    CHECK(out.schedule == NULL);
    CHECK_INT(stax_tune(NULL, f.all, &o, &out), STAX_E_ARGUMENT);
    feed_free(&f);
    stax_graph_free(g);
}

/* ---- through stax_jit ---- */

static const float weights[4] = {2, -1, 0.5f, 3};

static void step(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    stax_value y = stax_mul(in[0], in[1]);
    (void)n;
    if (stax_truth(stax_gt(stax_max(y, stax_axes_all(), false), stax_trace_const(t, 1.0))))
        y = stax_exp(y);
    out[0] = stax_sum(y, stax_axes1(-1), true);
    stax_assign(in[1], stax_add(in[1], out[0]));
}

/* A mode that tunes gives the bits of the default one, and a call that tunes touches nothing else. */
static void modes_give_the_same(void) {
    static const char *const modes[] = {"default", "max_autotune_no_graphs", "max_autotune"};
    static const int states[1] = {1};
    float want_y = 0, want_s[4], x[4] = {1, 2, 3, 4};
    reopen();
    for (int again = 0; again < 2; again++)
        for (int k = 0; k < 3; k++) {
            float s[4], y = 0;
            stax_tensor in[2], out = stax_tensor_of(STAX_F32, stax_shape1(1), &y);
            stax_jit_options o;
            memset(&o, 0, sizeof o);
            o.mode = modes[k];
            o.states = states;
            o.n_states = 1;
            in[0] = stax_tensor_of(STAX_F32, stax_shape1(4), x);
            in[1] = stax_tensor_of(STAX_F32, stax_shape1(4), s);
            stax_jit *jit = stax_jit_new(ctx, step, NULL, &o);
            memcpy(s, weights, sizeof s);
            for (int call = 0; call < 3; call++)
                if (!CHECK_INT(stax_call(jit, in, 2, &out, 1), STAX_OK))
                    printf("%s\n", stax_error(ctx));
            if (k == 0) want_y = y, memcpy(want_s, s, sizeof s);
            CHECK_BYTES(&y, &want_y, sizeof y);
            CHECK_BYTES(s, want_s, sizeof s);
            CHECK(x[0] == 1 && x[3] == 4);
            char *why = stax_jit_explain(jit);
            if (k == 0) CHECK(why && !strstr(why, "tuned"));
            if (k > 0) CHECK_HAS(why, again || k == 2 ? "tuned: " : "candidates");
            if (again || k == 2) CHECK(k == 0 || (why && strstr(why, " before")));
            stax_free(ctx, why);
            stax_jit_free(jit);
        }
}

static void plain(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)n;
    out[0] = stax_add(in[0], stax_trace_const(t, 1.0));
}

/* graphs: the call after the first one enters directly. */
static void graphs_pin(void) {
    float x[4] = {1, 2, 3, 4}, y[4];
    stax_tensor in = stax_tensor_of(STAX_F32, stax_shape1(4), x),
                out = stax_tensor_of(STAX_F32, stax_shape1(4), y);
    reopen();
    for (int pins = 0; pins < 2; pins++) {
        stax_jit_figures f;
        stax_jit_options o;
        memset(&o, 0, sizeof o);
        if (pins) o.mode = "reduce_overhead";
        stax_jit *jit = stax_jit_new(ctx, plain, NULL, &o);
        for (int k = 0; k < 10; k++) {
            x[0] = (float)k;
            CHECK_INT(stax_call(jit, &in, 1, &out, 1), STAX_OK);
            CHECK_FLOAT(y[0], k + 1);
        }
        stax_jit_figures_of(jit, &f);
        CHECK_INT(f.misses, 1);
        CHECK_INT(f.direct_hits, pins ? 9 : 8);
        stax_jit_free(jit);
    }
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    if (!folder_make(folder, sizeof folder, "tuning")) return 1;
    RUN(descends);
    RUN(noise_leaves_the_start);
    RUN(all_kinds);
    RUN(edges);
    RUN(modes_give_the_same);
    RUN(graphs_pin);
    stax_close(ctx);
    folder_remove(folder);
    return HARNESS_END();
}
