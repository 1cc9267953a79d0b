/* Threads: one program run by many, one context used by many, and the bits of a run whatever the
   number of threads and the order in which the caller's parallel_for works. */
#if !defined(_WIN32)
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#endif
#include "feed.h"
#include "harness.h"
#include "loops.h"

#if defined(_WIN32)
int main(void) {
    printf("skip: POSIX threads\n0 passed, 0 failed\n");
    return 0;
}
#else

enum { THREADS = 8, ROUNDS = 40 };

typedef struct job {
    stax_context *ctx;
    stax_program *program;
    const stax_graph *graph;
    const char *text;
    feed given;
    int number, wrong;
    char why[200];
} job;

static void note(job *j, const char *what) {
    if (j->wrong++ == 0) snprintf(j->why, sizeof j->why, "thread %d: %s", j->number, what);
}

static job jobs[THREADS];

static void together(void *(*work)(void *)) {
    pthread_t threads[THREADS];
    for (int k = 0; k < THREADS; k++) CHECK_INT(pthread_create(&threads[k], NULL, work, &jobs[k]), 0);
    for (int k = 0; k < THREADS; k++) pthread_join(threads[k], NULL);
    for (int k = 0; k < THREADS; k++) {
        if (jobs[k].wrong) printf("%s\n", jobs[k].why);
        CHECK_INT(jobs[k].wrong, 0);
    }
}

/* ---- one program, many threads ---- */

static void *run_work(void *arg) {
    job *j = (job *)arg;
    for (int k = 0; k < ROUNDS; k++) {
        static const int64_t sizes[3] = {5, 9, 33};
        feed want, got;
        int64_t n = sizes[(k + j->number) % 3];
        memset(&want, 0, sizeof want);
        memset(&got, 0, sizeof got);
        if (!feed_make(&want, j->graph, n, (uint64_t)j->number * 7 + 1) || !feed_make(&got, j->graph, n, (uint64_t)j->number * 7 + 1))
            note(j, "no sizes");
        else if (stax_interpret(j->graph, want.all, want.outputs) != STAX_OK)
            note(j, "interpret");
        else {
            stax_status s;
            if (k % 2 == 0)
                s = stax_run(j->program, got.slots, got.outputs);
            else {
                size_t bytes = stax_workspace_bytes(j->program, got.slots);
                unsigned char *room = (unsigned char *)malloc(bytes + 64);
                s = stax_run_with(j->program, got.slots, got.outputs, room + (64 - (uintptr_t)room % 64) % 64, bytes);
                free(room);
            }
            if (s != STAX_OK)
                note(j, "run");
            else if (!feed_equal(&want, &got))
                note(j, "bits differ");
        }
        feed_free(&want);
        feed_free(&got);
    }
    return NULL;
}

static const char *run_text;
static int run_threads;

static void run_one(void) {
    stax_options o = stax_options_default();
    o.n_threads = run_threads;
    stax_context *ctx = stax_open(&o);
    stax_graph *g = stax_parse(ctx, "threads.stax", run_text);
    stax_program *p = g ? stax_compile(g, NULL) : NULL;
    if (!CHECK(p != NULL)) return;
    for (int k = 0; k < THREADS; k++) {
        memset(&jobs[k], 0, sizeof jobs[k]);
        jobs[k].ctx = ctx, jobs[k].program = p, jobs[k].graph = g, jobs[k].number = k;
    }
    together(run_work);
    stax_program_free(p);
    stax_graph_free(g);
    stax_close(ctx);
}

static void run_together(void) {
    for (int k = 0; k < FEED_GRAPHS; k++) {
        char name[60], graph[40] = "";
        const char *at = strstr(feed_graphs[k], "graph ");
        if (strstr(feed_graphs[k], "param ")) continue; /* bound once for all: another test */
        sscanf(at, "graph %39[a-z_]", graph);
        snprintf(name, sizeof name, "run_%s", graph);
        run_text = feed_graphs[k];
        run_threads = k % 4 == 0 ? 2 : 1;
        RUN_NAMED(name, run_one);
    }
}

/* An index error of one thread is not another's. */
static void *error_work(void *arg) {
    job *j = (job *)arg;
    float x[4] = {1, 2, 3, 4}, y[3];
    int32_t i[3] = {0, 1, 2};
    stax_tensor in[2], out[1];
    in[0] = stax_tensor_of(STAX_F32, stax_shape1(4), x);
    in[1] = stax_tensor_of(STAX_I32, stax_shape1(3), i);
    out[0] = stax_tensor_of(STAX_F32, stax_shape1(3), y);
    if (j->number % 2) i[1] = 100 + j->number;
    for (int k = 0; k < 2000; k++) {
        stax_status s = stax_run(j->program, in, out);
        if (s != (j->number % 2 ? STAX_E_INDEX : STAX_OK)) note(j, "status");
        if (s == STAX_OK && (y[0] != 1 || y[2] != 3)) note(j, "result");
        /* the text of stax_error may be gone already: others fail too */
        if (stax_error_status(j->ctx) != STAX_OK && stax_error_status(j->ctx) != STAX_E_INDEX) note(j, "error status");
    }
    return NULL;
}

static void errors_together(void) {
    stax_context *ctx = stax_open(NULL);
    stax_graph *g = stax_parse(ctx, "threads.stax", "graph g(x: f32[4], i: i32[3]) { y = gather x, i\n return y }");
    stax_program *p = stax_compile(g, NULL);
    if (!CHECK(p != NULL)) return;
    for (int k = 0; k < THREADS; k++) {
        memset(&jobs[k], 0, sizeof jobs[k]);
        jobs[k].ctx = ctx, jobs[k].program = p, jobs[k].number = k;
    }
    together(error_work);
    stax_program_free(p);
    stax_graph_free(g);
    stax_close(ctx);
}

/* ---- one context, many threads that parse, compile, run, report and fail ---- */

static void *compile_work(void *arg) {
    job *j = (job *)arg;
    for (int k = 0; k < 6; k++) {
        char text[400];
        /* some the same for all threads, some for this one alone */
        int number = k % 2 ? k : 10 * j->number + k;
        snprintf(text, sizeof text, "graph g(x: f32[%d,4]) { a = mul x, %d.5\n b = softmax a\n c = sum b {axes=0}\n return b, c }", 3 + k % 3, number);
        stax_graph *g = stax_parse(j->ctx, "threads.stax", text);
        stax_program *p = g ? stax_compile(g, NULL) : NULL;
        feed want, got;
        memset(&want, 0, sizeof want);
        memset(&got, 0, sizeof got);
        if (!p || stax_program_status(p) != STAX_OK)
            note(j, p ? "interpreted" : "not compiled");
        else {
            feed_make(&want, g, 5, 3);
            feed_make(&got, g, 5, 3);
            if (stax_interpret(g, want.all, want.outputs) != STAX_OK) note(j, "interpret");
            stax_graph_free(g);
            g = NULL;
            if (stax_run(p, got.slots, got.outputs) != STAX_OK) note(j, "run");
            if (!feed_equal(&want, &got)) note(j, "bits differ");
            char *t = stax_program_report(p, STAX_REPORT_EXPLAIN);
            if (!t) note(j, "explain");
            stax_free(j->ctx, t);
        }
        feed_free(&want);
        feed_free(&got);
        stax_program_free(p);
        stax_graph_free(g);
        if (stax_parse(j->ctx, "threads.stax", "graph g( {") != NULL) note(j, "parsed nonsense");
        if (stax_error_status(j->ctx) != STAX_E_SYNTAX) note(j, "no error");
        stax_cache_figures f;
        if (stax_cache_info(j->ctx, &f) != STAX_OK) note(j, "cache info");
    }
    return NULL;
}

static void compile_together(void) {
    const char *build = getenv("BUILD");
    char folder[300];
    stax_options o = stax_options_default();
    snprintf(folder, sizeof folder, "%s/threads-cache", build ? build : "build");
    o.cache_dir = folder; /* it is cleared, and other tests run beside this one */
    for (int fresh = 0; fresh < 2; fresh++) {
        stax_context *ctx = stax_open(&o);
        if (!CHECK(ctx != NULL)) return;
        if (fresh) CHECK_INT(stax_cache_clear(ctx), STAX_OK);
        for (int k = 0; k < THREADS; k++) {
            memset(&jobs[k], 0, sizeof jobs[k]);
            jobs[k].ctx = ctx, jobs[k].number = k;
        }
        together(compile_work);
        stax_close(ctx);
    }
}

static void *open_work(void *arg) {
    job *j = (job *)arg;
    stax_context *ctx = stax_open(NULL);
    if (!ctx) {
        note(j, "open");
        return NULL;
    }
    j->ctx = ctx;
    compile_work(j);
    stax_close(ctx);
    return NULL;
}

static void contexts_together(void) {
    for (int k = 0; k < THREADS; k++) {
        memset(&jobs[k], 0, sizeof jobs[k]);
        jobs[k].number = k;
    }
    together(open_work);
}

/* ---- the same bits whatever the threads ---- */

static void forwards(void *user, int64_t n, void (*body)(void *arg, int64_t i), void *arg) {
    ++*(int *)user;
    for (int64_t i = 0; i < n; i++) body(arg, i);
}

static const char *const big[] = {
    "graph map(x: f32[1001,301]) { a = exp x\n b = mul a, x\n return b }",
    "graph rows(x: f32[701,401]) { a = softmax x\n b = sum x {axes=1}\n return a, b }",
    "graph columns(x: f32[1501,211]) { a = sum x {axes=0}\n b = max x {axes=0}\n c = softmax x {axis=0}\n return a, b, c }",
    "graph whole(x: f32[300007]) { a = sum x\n b = mean x\n c = argmax x\n d = var x\n return a, b, c, d }",
    "graph product(x: f32[301,257], y: f32[257,203]) { a = matmul x, y\n b = relu a\n return b }",
    "graph deep(x: f64[130,5000]) { a = sum x {axes=1}\n b = prod x {axes=0}\n return a, b }",
    "graph vector(x: f32[5000,130], y: f32[130]) { a = matmul x, y\n b = layer_norm x\n return a, b }",
    "graph index(x: f32[100,7], i: i32[200003]) { a = gather x, i\n return a }",
    "graph state(inout s: f32[300001], x: f32[300001]) { a = add s, x\n assign s, a\n b = flip a\n return b }",
    "graph random(k: u64[]) { a = normal k {shape=[200001]}\n return a }",
    "graph moved(x: f32[401,501]) { a = transpose x\n b = add a, 1.0\n c = pad x {low=[3,1], high=[1,3], mode=\"wrap\"}\n d = concat x, x\n return b, c, d }",
    "graph bits(x: f16[200003], y: u8[200003]) { a = mul x, x\n b = add y, 3\n c = isnan x\n return a, b, c }",
    "graph long_chain(x: f32[40000,3], w: f32[3,40000]) { a = matmul w, x\n b = matmul x, a\n return a, b }",
};

static int calls;

static void same_bits(void) {
    for (size_t k = 0; k < sizeof big / sizeof big[0]; k++) {
        feed first;
        memset(&first, 0, sizeof first);
        calls = 0;
        for (int how = 0; how < 8; how++) {
            stax_options o = stax_options_default();
            o.n_threads = how == 0 ? 1 : how == 1 ? 2 : how == 2 ? 4 : how == 3 ? 4 : how == 4 ? 4 : how == 5 ? 3 : how == 6 ? 16 : 64;
            o.parallel_user = &calls;
            if (how == 3) o.parallel_for = forwards;
            if (how == 4 || how == 5) o.parallel_for = shuffled_for;
            if (how == 6) o.parallel_for = threaded_for;
            stax_context *ctx = stax_open(&o);
            stax_graph *g = stax_parse(ctx, "threads.stax", big[k]);
            if (!g) printf("%s\n", stax_error(ctx));
            stax_program *p = g ? stax_compile(g, NULL) : NULL;
            feed f;
            memset(&f, 0, sizeof f);
            if (CHECK(p && stax_program_status(p) == STAX_OK) && CHECK(feed_make(&f, g, 5, 11))) {
                CHECK_INT(stax_run(p, f.slots, f.outputs), STAX_OK);
                if (how == 0)
                    first = f;
                else {
                    if (!CHECK(feed_equal(&first, &f))) printf("threads %d, way %d: %s\n", o.n_threads, how, big[k]);
                    feed_free(&f);
                }
            }
            stax_program_free(p);
            stax_graph_free(g);
            stax_close(ctx);
        }
        if (calls == 0) printf("left out: no call of parallel_for for: %s\n", big[k]);
        feed_free(&first);
    }
}

/* Many more slots than anybody has, and none. */
static void odd_counts(void) {
    static const int counts[] = {-5, 0, 1, 63, 64, 65, 1000, 1 << 20};
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        stax_options o = stax_options_default();
        o.n_threads = counts[k];
        stax_context *ctx = stax_open(&o);
        stax_graph *g = stax_parse(ctx, "threads.stax", big[1]);
        stax_program *p = stax_compile(g, NULL);
        feed f;
        if (CHECK(p != NULL) && CHECK(feed_make(&f, g, 5, 11))) {
            stax_status s = stax_run(p, f.slots, f.outputs);
            if (s != STAX_OK) printf("%d threads: %s\n", counts[k], stax_error(ctx));
            CHECK_INT(s, STAX_OK);
            feed_free(&f);
        }
        stax_program_free(p);
        stax_graph_free(g);
        stax_close(ctx);
    }
}

/* ---- the context's threads ---- */

/* A line of each thread of this process; -1: the system does not tell. */
static int tasks(char lines[][32], int room) {
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    if (!d) return -1;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        char path[80], line[200];
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%.20s/status", e->d_name);
        FILE *f = fopen(path, "r");
        if (n < room) lines[n][0] = 0;
        while (f && n < room && fgets(line, sizeof line, f)) sscanf(line, "SigBlk: %31s", lines[n]);
        if (f) fclose(f);
        n++;
    }
    closedir(d);
    return n;
}

typedef struct team {
    stax_context *ctx;
    stax_graph *g;
    stax_program *p;
    feed first;
} team;

/* Of `n` threads; its first run, by a context without threads, is what others are compared with. */
static bool team_make(team *t, int n) {
    memset(t, 0, sizeof *t);
    for (int k = 0; k < 2; k++) {
        stax_options o = stax_options_default();
        o.n_threads = k == 0 ? 1 : n;
        t->ctx = stax_open(&o);
        t->g = stax_parse(t->ctx, "threads.stax", big[0]);
        t->p = stax_compile(t->g, NULL);
        if (!CHECK(t->p && stax_program_status(t->p) == STAX_OK)) return false;
        if (k > 0) return true;
        if (!CHECK(feed_make(&t->first, t->g, 5, 11))) return false;
        CHECK_INT(stax_run(t->p, t->first.slots, t->first.outputs), STAX_OK);
        stax_program_free(t->p);
        stax_graph_free(t->g);
        stax_close(t->ctx);
    }
    return false;
}

static bool team_run(const team *t) {
    feed f;
    memset(&f, 0, sizeof f);
    const bool ok = feed_make(&f, t->g, 5, 11) && stax_run(t->p, f.slots, f.outputs) == STAX_OK &&
                    feed_equal(&t->first, &f);
    feed_free(&f);
    return ok;
}

static void team_free(team *t) {
    stax_program_free(t->p);
    stax_graph_free(t->g);
    stax_close(t->ctx);
    feed_free(&t->first);
}

/* They come with the first kernel, take no signals of the host, and are gone after stax_close. */
static void team_lives(void) {
    char lines[64][32];
    const int before = tasks(lines, 0);
    team t;
    if (before < 0) {
        printf("skip team_lives: no /proc/self/task\n");
        return;
    }
    if (team_make(&t, 4)) {
        CHECK_INT(tasks(lines, 0), before);
        for (int k = 0; k < 3; k++) CHECK(team_run(&t));
        CHECK_INT(tasks(lines, 64), before + 3);
        int blocked = 0;
        for (int tries = 0; tries < 1000 && blocked != 3;
             tries++) { /* until each has begun to run */
            const int n = tasks(lines, 64);
            blocked = 0;
            for (int k = 0; k < n && k < 64; k++)
                blocked += (strtoull(lines[k], NULL, 16) >> (SIGINT - 1) & 1) &&
                           !(strtoull(lines[k], NULL, 16) >> (SIGSEGV - 1) & 1);
            if (blocked != 3) usleep(1000);
        }
        CHECK_INT(blocked, 3);
    }
    team_free(&t);
    for (int k = 0; k < 100 && tasks(lines, 0) != before; k++)
        usleep(1000); /* /proc follows after the join */
    CHECK_INT(tasks(lines, 0), before);
}

/* From asleep, from awake, and just when they fall asleep: after 0 to 200 us of rest. */
static void team_wakes(void) {
    team t;
    if (team_make(&t, 3))
        for (int k = 0; k < 200; k++) {
            usleep((useconds_t)k);
            CHECK(team_run(&t));
        }
    team_free(&t);
}

static void *team_work(void *arg) {
    job *j = (job *)arg;
    for (int k = 0; k < ROUNDS / 4; k++)
        if (!team_run((const team *)(const void *)j->text)) note(j, "bits differ");
    return NULL;
}

/* Eight host threads ask the same team at once. */
static void team_is_shared(void) {
    team t;
    if (team_make(&t, 3)) {
        for (int k = 0; k < THREADS; k++) {
            memset(&jobs[k], 0, sizeof jobs[k]);
            jobs[k].number = k;
            jobs[k].text = (const char *)&t;
        }
        together(team_work);
    }
    team_free(&t);
}

/* A child has no thread but its own: it computes alone, and closes what it inherited. */
static void team_is_forked(void) {
    team t;
    if (team_make(&t, 3) && CHECK(team_run(&t))) {
        usleep(20000); /* asleep, so that none is inside a lock */
        const pid_t child = fork();
        if (child == 0) {
            alarm(30);
            const bool ok = team_run(&t);
            stax_program_free(t.p);
            stax_graph_free(t.g);
            stax_close(t.ctx);
            _exit(ok ? 0 : 1);
        }
        int status = -1;
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK_INT(status, 0);
        CHECK(team_run(&t));
    }
    team_free(&t);
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    run_together();
    RUN(errors_together);
    RUN(compile_together);
    RUN(contexts_together);
    RUN(same_bits);
    RUN(odd_counts);
    RUN(team_lives);
    RUN(team_wakes);
    RUN(team_is_shared);
    RUN(team_is_forked);
    return HARNESS_END();
}
#endif
