/* Kernels compiled in several units at the same time: the bound of the schedule, the same bits, the
   cache, failures, cancelling. */
#define _GNU_SOURCE
#define STAX_IMPLEMENTATION
#include "stax.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "feed.h"
#include "folder.h"
#include "harness.h"
#include "programs.h"

static char folder[400], cache[500], fake[500];

static double seconds(void) { return (double)staxi_clock_ns() * 1e-9; }

/* ---- the schedule (P 11.2, exercise 31) ---- */

/* Runs sleeps of so many tenths of a second, and gives the time they take together. */
static double sleeps(const int *tenths, int n, int processes) {
    char text[16][40];
    const char *commands[16];
    staxi_text out[16], *outputs[16];
    bool started[16];
    int exit_code[16];
    for (int k = 0; k < n; k++) {
        snprintf(text[k], sizeof text[k], "sleep %d.%d; exit %d", tenths[k] / 10, tenths[k] % 10,
                 k);
        commands[k] = text[k];
        staxi_text_init(&out[k], &ctx->allocator);
        outputs[k] = &out[k];
        exit_code[k] = -1;
    }
    const double start = seconds();
    CHECK(staxi_commands_run(commands, outputs, n, processes, NULL, started, exit_code));
    const double took = seconds() - start;
    for (int k = 0; k < n; k++) {
        CHECK(started[k]);
        CHECK_INT(exit_code[k], k);
        staxi_text_free(&out[k]);
    }
    return took;
}

/* Of any list: max(sum/P, max) <= T <= sum/P + (1 - 1/P) max; slack for starting shells. */
static void is_bounded(const int *tenths, int n, int processes, double expected) {
    double sum = 0, most = 0;
    for (int k = 0; k < n; k++) {
        sum += tenths[k] / 10.0;
        if (tenths[k] / 10.0 > most) most = tenths[k] / 10.0;
    }
    const double share = sum / processes, low = share > most ? share : most,
                 high = share + (1.0 - 1.0 / processes) * most, slack = 0.08 * (n + 2),
                 took = sleeps(tenths, n, processes);
    CHECK(took >= low - 0.01);
    CHECK(took <= high + slack);
    if (expected > 0) CHECK(took >= expected - 0.01 && took <= expected + slack);
    printf("%d sleeps, %d processes: %.2f s in [%.2f, %.2f]\n", n, processes, took, low, high);
}

static void schedule_bound(void) {
    static const int mixed[] = {7, 5, 4, 4, 3, 2, 1}, tight[] = {3, 3, 3, 3, 3, 3, 9},
                     longest_first[] = {9, 3, 3, 3, 3, 3, 3}, one[] = {5};
    for (int p = 1; p <= 4; p++) is_bounded(mixed, 7, p, 0);
    is_bounded(tight, 7, 3, 1.5);         /* the long one last: the bound is reached */
    is_bounded(longest_first, 7, 3, 0.9); /* first: the best there is                */
    is_bounded(one, 1, 3, 0.5);
    is_bounded(mixed, 7, 9, 0.7);
}

/* ---- programs ---- */

/* Else strict: a compiler's failure is an error. */
static stax_program *compiled_by(const stax_graph *g, int processes, bool tiered) {
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.processes = processes;
    o.tiered = tiered;
    o.strict = !tiered;
    stax_program *p = stax_compile(g, &o);
    if (!CHECK(p != NULL)) printf("%s\n", stax_error(ctx));
    return p;
}

static stax_program *in_parts(const stax_graph *g, int processes) {
    return compiled_by(g, processes, false);
}

static void gives_the_bits(const stax_graph *g, stax_program *p) {
    static feed want, got;
    CHECK(feed_make(&want, g, 9, 3) && feed_make(&got, g, 9, 3));
    CHECK_INT(stax_interpret(g, want.all, want.outputs), STAX_OK);
    CHECK_INT(feed_bind(p, &got), STAX_OK);
    CHECK_INT(stax_run(p, got.slots, got.outputs), STAX_OK);
    CHECK(feed_equal(&want, &got) && feed_guards_hold(&got));
    feed_free(&want);
    feed_free(&got);
}

static void same_bits(void) {
    int parts = 0, isa = STAXI_ISA_SCALAR;
    (void)staxi_toolchain_target(&ctx->toolchain, &isa, NULL);
    const int step = isa > STAXI_ISA_SCALAR ? 4 : 1; /* a compiler with vectors takes its time */
    for (int k = step - 1; k < FEED_GRAPHS; k += step)
        for (int processes = 2; processes <= 5; processes += 3) {
            stax_graph *g = parsed(feed_graphs[k]);
            stax_program *p = in_parts(g, processes);
            if (p) gives_the_bits(g, p);
            if (p)
                parts += p->steps && p->steps->n_pieces ? p->steps->pieces[0]->n_parts : p->n_parts;
            stax_program_free(p);
            stax_graph_free(g);
        }
    CHECK(parts > 60 / step);
}

/* Kernels that are alike have one text, whatever part it is in; no part is without one. */
static void alike(void) {
    stax_graph *g = parsed(
                   "graph g(x: f32[9,32], param a: f32[32,32], param b: f32[32,32], "
                   "param c: f32[32,32]) {\n  s = linear x, a\n  t = softmax s\n"
                   "  u = linear t, b\n  v = softmax u\n  w = linear v, c\n"
                   "  y = softmax w\n  return y, t }\n"),
               *one = parsed(
                   "graph g(x: f32[9]) {\n  y = sort x\n  z = sort y\n"
                   "  return y, z }\n");
    for (int processes = 2; processes <= 8; processes++) {
        stax_program *p = in_parts(g, processes);
        if (!p) continue;
        size_t texts = 0;
        for (uint32_t k = 0; k < p->trees.n_kernels; k++)
            texts += p->trees.kernels[k].text_bytes > 0;
        CHECK(texts >= 2 && texts < p->trees.n_kernels);
        CHECK_INT(p->n_parts + 1, (size_t)processes < texts ? processes : (int)texts);
        gives_the_bits(g, p);
        stax_program_free(p);
    }
    stax_program *p = in_parts(one, 4);
    if (p) {
        CHECK(p->trees.n_kernels >= 2);
        CHECK_INT(p->n_parts, 0);
        gives_the_bits(one, p);
    }
    stax_program_free(p);
    stax_graph_free(one);
    stax_graph_free(g);
}

/* One unit of each context at a time, shared by programs that outlive each other. */
static void cached_and_shared(void) {
    stax_graph *g = parsed(feed_graphs[23]);
    stax_program *p = in_parts(g, 3), *q = in_parts(g, 3);
    stax_figures f;
    if (p && q) {
        CHECK(p->n_parts > 0 && p->object == q->object && p->parts[0] == q->parts[0]);
        CHECK_INT(stax_program_figures(q, NULL, &f), STAX_OK);
        CHECK_TEXT(f.origin, "memory");
        stax_program_free(p);
        gives_the_bits(g, q);
    }
    stax_program_free(q);
    p = in_parts(g, 3);
    if (p && CHECK_INT(stax_program_figures(p, NULL, &f), STAX_OK)) CHECK_TEXT(f.origin, "disk");
    if (p) gives_the_bits(g, p);
    /* a saved program is one unit again */
    char file[500];
    snprintf(file, sizeof file, "%s/x.staxp", folder);
    CHECK_INT(stax_program_save(p, file), STAX_OK);
    q = stax_program_load(ctx, file);
    if (CHECK(q != NULL)) gives_the_bits(g, q);
    stax_program_free(q);
    stax_program_free(p);
    stax_graph_free(g);
}

static void many_graphs(void) {
    const stax_graph *g[4];
    stax_program *p[4];
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.processes = 3;
    o.by_kernel = true;
    for (int k = 0; k < 4; k++) g[k] = parsed(feed_graphs[k + 10]);
    CHECK_INT(stax_compile_many(g, 4, &o, p), STAX_OK);
    stax_program_free(p[0]);
    for (int k = 1; k < 4 && p[k]; k++) gives_the_bits(g[k], p[k]);
    for (int k = 1; k < 4; k++) stax_program_free(p[k]);
    for (int k = 0; k < 4; k++) stax_graph_free((stax_graph *)(uintptr_t)g[k]);
}

/* ---- a compiler that sleeps, or fails ---- */

/* Which texts the fake takes its time for: the parts of programs. */
static const char *slow_for = "define SX_PART";
/* Kernels take so long; what it does, it writes to a log. */
static void make_fake(const char *before_kernels) {
    FILE *f = fopen(fake, "w");
    if (!CHECK(f != NULL)) return;
    fprintf(
        f,
        "#!/bin/sh\ncase \"$*\" in *-E*) exec %s \"$@\" ;; esac\n"
        "for a; do case \"$a\" in *.c) last=$a ;; esac; done\nif grep -q '%s' \"$last\"; then\n"
        "echo start $(wc -c <\"$last\") >>'%s/log'\n%s\necho end >>'%s/log'\nfi\nexec %s \"$@\"\n",
        getenv("FAKE_CC"), slow_for, folder, before_kernels, folder, getenv("FAKE_CC"));
    fclose(f);
    chmod(fake, 0755);
}

static void reopen(const char *before_kernels) {
    static int serial;
    stax_options o = stax_options_default();
    stax_close(ctx);
    snprintf(cache, sizeof cache, "%s/log", folder);
    (void)remove(cache);
    snprintf(cache, sizeof cache, "%s/cache%d", folder, serial++);
    o.cache_dir = cache;
    if (before_kernels) {
        make_fake(before_kernels);
        o.compiler = fake;
    }
    ctx = stax_open(&o);
}

static int left_behind; /* temporary files and locks */

static void count_left(const char *name, void *arg) {
    (void)arg;
    left_behind += staxi_is_temporary(name) || strstr(name, "src-") == name;
}

static int left_in_cache(void) {
    left_behind = 0;
    CHECK(staxi_dir_list(cache, count_left, NULL));
    return left_behind;
}

static void leaves_nothing(void) {
    CHECK_INT(left_in_cache(), 0);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD); /* no child, not even a dead one */
}

/* How many compilers have started before the first one ended. */
static int starts_in_log(void) {
    char log[600];
    snprintf(log, sizeof log, "%s/log", folder);
    char *text = harness_file(log);
    int starts = 0;
    for (const char *at = text; at && strncmp(at, "start", 5) == 0; at = strchr(at, '\n') + 1)
        starts++;
    free(text);
    return starts;
}

static void starts_all_then_waits(void) {
    reopen("sleep 0.6");
    stax_graph *g = parsed(feed_graphs[7]);
    stax_program *p = in_parts(g, 3);
    const int starts = starts_in_log();
    CHECK_INT(starts, 3);
    if (p) CHECK(p->trees.n_kernels >= 3);
    if (p) gives_the_bits(g, p);
    leaves_nothing();
    stax_program_free(p);
    stax_graph_free(g);
}

static bool die_when_all_run(void *user, const stax_progress *now) {
    (void)now;
    if (starts_in_log() == 3) (void)raise(SIGKILL);
    return seconds() - *(const double *)user < 20; /* then they are stopped */
}

/* Compiles in a process that is killed while three compilers run. */
static void compile_and_die(const stax_graph *g) {
    stax_compile_options o;
    double start = seconds();
    int status = 0;
    memset(&o, 0, sizeof o);
    o.processes = 3;
    o.progress = die_when_all_run;
    o.progress_user = &start;
    const pid_t host = fork();
    if (host == 0) {
        (void)stax_compile(g, &o);
        _exit(0);
    }
    CHECK(waitpid(host, &status, 0) == host && WIFSIGNALED(status));
}

/* What it leaves, with its compilers' folders, goes when it is old. */
static void killed_host(void) {
    char body[1100], command[1100];
    snprintf(body, sizeof body,
             "[ -e '%s/again' ] || { : >\"$TMPDIR/x.s\"; until [ -e '%s/again' ]; do sleep 0.1; "
             "done; exit 1; }",
             folder, folder);
    reopen(body);
    stax_graph *g = parsed(feed_graphs[7]);
    compile_and_die(g);
    snprintf(
        command, sizeof command,
        "sleep 0.2; ls -d '%s'/tmp-*.d/x.s >/dev/null; s=$?; : >'%s/again'; sleep 0.5; exit $s",
        cache, folder);
    CHECK_INT(system(command), 0);
    stax_program *p = in_parts(g, 3);
    CHECK(left_in_cache() >= 6); /* young: it might be at work */
    stax_program_free(p);
    CHECK_INT(stax_cache_clear(ctx), STAX_OK);
    snprintf(command, sizeof command, "touch -d '2 hours ago' '%s'/tmp-*", cache);
    CHECK_INT(system(command), 0);
    p = in_parts(g, 3);
    if (p) gives_the_bits(g, p);
    leaves_nothing();
    stax_program_free(p);
    stax_graph_free(g);
}

static int told, cancel_at;
static char stages[400];

static bool tell(void *user, const stax_progress *now) {
    (void)user;
    if (!strstr(stages, now->stage))
        snprintf(stages + strlen(stages), sizeof stages - strlen(stages), "%s ", now->stage);
    CHECK(now->done >= 0 && now->done <= now->total);
    return ++told != cancel_at;
}

static void progress_and_cancelling(void) {
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.processes = 3;
    o.progress = tell;
    for (cancel_at = 1; cancel_at < 12; cancel_at++) {
        reopen("sleep 0.3");
        stax_graph *g = parsed(feed_graphs[7]);
        told = 0;
        stages[0] = 0;
        stax_program *p = stax_compile(g, &o);
        CHECK(p == NULL);
        CHECK_INT(stax_error_status(ctx), STAX_E_CANCELLED);
        CHECK_INT(stax_context_fallbacks(ctx), 0);
        CHECK_INT(told, cancel_at);
        if (cancel_at > 3) leaves_nothing();
        stax_program_free(p);
        if (cancel_at == 8) { /* and goes on from there */
            cancel_at = 0;
            p = stax_compile(g, &o);
            CHECK(p && stax_program_status(p) == STAX_OK);
            CHECK_TEXT(stages, "plan emit compile ");
            if (p) gives_the_bits(g, p);
            stax_program_free(p);
            cancel_at = 8;
        }
        stax_graph_free(g);
    }
    cancel_at = 0;
}

static double compiling_since; /* all compilers that are to run do so */
/* 50 ms after that */
static bool cancel_later(void *user, const stax_progress *now) {
    (void)now;
    if (compiling_since == 0 && starts_in_log() == *(const int *)user) compiling_since = seconds();
    return compiling_since == 0 || seconds() - compiling_since < 0.05;
}

/* A process of this test's folder that is still there; those of others do not count. */
static int still_running(void) {
    char command[700];
    snprintf(command, sizeof command, "ps -A -o args | grep -F '%s/hang' | grep -vc grep >'%s/n'",
             folder, folder);
    (void)!system(command);
    snprintf(command, sizeof command, "%s/n", folder);
    char *text = harness_file(command);
    const int n = text ? atoi(text) : -1;
    free(text);
    return n;
}

/* Compilers that would run for half a minute are stopped, with what they started, whether they do
   what they are asked or not; one unit or several, and the self-test before them. */
static void cancelling_stops_the_compiler(void) {
    static const struct {
        const char *slow_for;
        int processes;
        bool stubborn;
    } rows[] = {{"define SX_PART", 3, false},
                {"define SX_PART", 3, true},
                {"stax_call", 1, false},
                {"stax_call", 1, true},
                {"stax_selftest", 1, false}};
    char hang[500], before[1200];
    snprintf(hang, sizeof hang, "%s/hang", folder);
    FILE *f = fopen(hang, "w"); /* a program of the compiler's, with a file of its own */
    if (!CHECK(f != NULL)) return;
    fprintf(f, "#!/bin/sh\n[ -z \"$1\" ] || trap '' TERM\nsleep 30 &\nwait\nsleep 30\n");
    fclose(f);
    chmod(hang, 0755);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        slow_for = rows[k].slow_for;
        snprintf(before, sizeof before,
                 "case $TMPDIR in tmp-*) echo x >$TMPDIR/left ;; *) exit 9 ;; esac\n%s '%s' %s",
                 rows[k].stubborn ? "trap '' TERM;" : "", hang, rows[k].stubborn ? "stubborn" : "");
        reopen(before);
        stax_graph *g = parsed(feed_graphs[7]);
        stax_compile_options o;
        memset(&o, 0, sizeof o);
        o.processes = rows[k].processes;
        o.progress = cancel_later;
        o.progress_user = &o.processes;
        compiling_since = 0;
        stax_program *p = stax_compile(g, &o);
        const double took = seconds() - compiling_since;
        CHECK(p == NULL);
        CHECK(took >= (rows[k].stubborn ? 0.55 : 0.05) && took < 2.0);
        CHECK_INT(stax_error_status(ctx), STAX_E_CANCELLED);
        CHECK_HAS(stax_error(ctx), "cancelled while the C compiler was running");
        CHECK_INT(still_running(), 0);
        leaves_nothing();
        printf("%s, %d processes%s: %.2f s\n", rows[k].slow_for, rows[k].processes,
               rows[k].stubborn ? ", stubborn" : "", took);
        stax_program_free(p);
        /* nothing holds a lock: the same context goes on with another compiler's answer */
        make_fake("");
        o.progress = NULL;
        p = stax_compile(g, &o);
        CHECK(p && stax_program_status(p) == STAX_OK);
        if (p) gives_the_bits(g, p);
        stax_program_free(p);
        stax_graph_free(g);
    }
    slow_for = "define SX_PART";
}

/* Freed while it is compiled in the background by one unit: that too is stopped. */
static void freeing_stops_the_compiler(void) {
    slow_for = "stax_call";
    reopen("sleep 30");
    stax_graph *g = parsed(feed_graphs[7]);
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.tiered = true;
    stax_program *p = stax_compile(g, &o);
    CHECK_INT(system("sleep 0.3"), 0);
    const double start = seconds();
    stax_program_free(p);
    CHECK(p != NULL && seconds() - start < 2.0);
    leaves_nothing();
    stax_graph_free(g);
    slow_for = "define SX_PART";
}

static void one_unit_fails(void) {
    reopen("if grep -q 'define SX_PART 1' \"$last\"; then echo no luck today; exit 3; fi");
    stax_graph *g = parsed(feed_graphs[7]);
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.processes = 3;
    stax_program *p = stax_compile(g, &o);
    if (CHECK(p != NULL)) {
        CHECK_INT(stax_program_status(p), STAX_E_COMPILER);
        CHECK_HAS(stax_error(ctx), "no luck today");
        CHECK_INT(stax_context_fallbacks(ctx), 1);
        gives_the_bits(g, p);
    }
    CHECK_INT(left_in_cache(), 1); /* the source that did not compile */
    stax_program_free(p);
    stax_graph_free(g);
}

/* ---- tiered ---- */

static stax_program *tiered(const stax_graph *g, int processes) {
    return compiled_by(g, processes, true);
}

/* The same bits before the switch and after it; what is bound before it holds behind it. */
static void interprets_until_compiled(void) {
    static const int which[] = {7, 12, 13, 23};
    for (int k = 0; k < 4; k++) {
        static feed want, got;
        int before = 0, after = 0;
        reopen("sleep 0.5");
        stax_graph *g = parsed(feed_graphs[which[k]]);
        const double start = seconds();
        stax_program *p = tiered(g, 2);
        CHECK(seconds() - start < 0.5);
        if (!p) continue;
        CHECK_INT(stax_program_status(p), STAX_E_NOT_BUILT);
        CHECK(feed_make(&want, g, 9, 3));
        CHECK_INT(stax_interpret(g, want.all, want.outputs), STAX_OK);
        for (int call = 0; call < 100000 && after < 3; call++) {
            const bool compiled = stax_program_status(p) == STAX_OK;
            CHECK(feed_make(&got, g, 9, 3));
            if (call == 0) CHECK_INT(feed_bind(p, &got), STAX_OK);
            CHECK_INT(stax_run(p, got.slots, got.outputs), STAX_OK);
            CHECK(feed_equal(&want, &got));
            feed_free(&got);
            before += !compiled;
            after += compiled;
        }
        CHECK(before > 0);
        CHECK_INT(after, 3);
        CHECK_INT(stax_program_wait(p), STAX_OK);
        stax_figures f;
        CHECK_INT(stax_program_figures(p, NULL, &f), STAX_OK);
        CHECK_TEXT(f.origin, "compiled");
        char *text = stax_program_report(p, STAX_REPORT_C);
        CHECK_HAS(text, "stax_call");
        stax_free(ctx, text);
        gives_the_bits(g, p); /* bound again */
        feed_free(&want);
        stax_program_free(p);
        stax_graph_free(g);
        leaves_nothing();
    }
}

static stax_program *shared;
static const stax_graph *shared_graph;
static volatile int64_t wrong, calls;

static void call_often(void *arg) {
    feed *f = (feed *)malloc(2 * sizeof *f);
    (void)arg;
    if (!f) return;
    const int made = feed_make(&f[0], shared_graph, 9, 3) && feed_make(&f[1], shared_graph, 9, 3);
    if (!made || stax_interpret(shared_graph, f[0].all, f[0].outputs) != STAX_OK) wrong = 1;
    for (int after = 0; made && after < 20;) {
        after += stax_program_status(shared) == STAX_OK;
        if (stax_run(shared, f[1].slots, f[1].outputs) != STAX_OK || !feed_equal(&f[0], &f[1]))
            (void)staxi_atomic_add(&wrong, 1);
        (void)staxi_atomic_add(&calls, 1);
    }
    feed_free(&f[0]);
    feed_free(&f[1]);
    free(f);
}

static void threads_over_the_switch(void) {
    staxi_thread t[4];
    reopen("sleep 0.4");
    stax_graph *g = parsed(feed_graphs[8]);
    shared_graph = g;
    shared = tiered(g, 2);
    wrong = calls = 0;
    for (int k = 0; k < 4; k++) CHECK(staxi_thread_start(&t[k], call_often, NULL));
    for (int k = 0; k < 4; k++) staxi_thread_join(&t[k]);
    CHECK_INT(wrong, 0);
    CHECK(calls > 80);
    stax_program_free(shared);
    stax_graph_free(g);
}

static void freed_while_compiling(void) {
    reopen("sleep 0.5");
    stax_graph *g = parsed(feed_graphs[7]);
    stax_program *p = tiered(g, 2);
    CHECK_INT(system("sleep 0.3"), 0); /* the compilers run by now */
    stax_program_free(p);
    leaves_nothing();
    stax_graph_free(g);
}

static void compiling_fails_behind(void) {
    reopen("echo no luck today; exit 3");
    stax_graph *g = parsed(feed_graphs[7]);
    stax_program *p = tiered(g, 2);
    if (p) {
        CHECK_INT(stax_program_wait(p), STAX_E_COMPILER);
        CHECK_HAS(stax_error(ctx), "no luck today");
        CHECK_INT(stax_context_fallbacks(ctx), 1);
        gives_the_bits(g, p);
    }
    stax_program_free(p);
    stax_graph_free(g);
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    if (!getenv("FAKE_CC")) setenv("FAKE_CC", harness_has_program("tcc") ? "tcc" : "cc", 1);
    if (!folder_make(folder, sizeof folder, "parallel")) return 1;
    snprintf(fake, sizeof fake, "%s/cc", folder);
    ctx = stax_open(NULL);
    RUN(schedule_bound);
    RUN(same_bits);
    RUN(alike);
    RUN(cached_and_shared);
    RUN(many_graphs);
    RUN(starts_all_then_waits);
    RUN(killed_host);
    RUN(progress_and_cancelling);
    RUN(cancelling_stops_the_compiler);
    RUN(freeing_stops_the_compiler);
    RUN(one_unit_fails);
    RUN(interprets_until_compiled);
    RUN(threads_over_the_switch);
    RUN(freed_while_compiling);
    RUN(compiling_fails_behind);
    stax_close(ctx);
    folder_remove(folder);
    return HARNESS_END();
}
