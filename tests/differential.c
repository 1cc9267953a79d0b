/* The promise under test: a compiled program gives the reference interpreter's bits, always.

   Random graphs (graphs.h) are compiled in batches, one C file for 64 of them, and run on the same
   inputs as stax_interpret. Outputs and states are compared by memcmp. Guard bytes or pages around
   every tensor and around a workspace of exactly stax_workspace_bytes, filled with garbage, must
   stay as they are, and so must the inputs. Symbolic graphs run for two sets of sizes.

       differential [--count=N] [--seed=S] [--batch=N] [--tables=0] [--one] [--small] [--report]
   Before the random graphs come tables: every elementwise op and cast of every dtype on specials.
   --wide makes long axes (for --threads=N and big blocks), --compiler=NAME, --isa=N (of
   stax_isa), --opt=1..3 and --realize=N (of stax_realize) compile otherwise.
   --one checks the graph of that seed alone and prints it; --small makes it smaller first, and
   --report adds the C of the program.

   A batch runs in a process of its own, so that a crash costs one graph. What fails is made smaller
   and written to build/found/SEED.stax. The last line is "N passed, N failed", counted in graphs.
 */
#if !defined(_WIN32)
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#endif
#include "stax.h"

#include "graphs.h"

typedef enum outcome {
    FINE,
    FINE_ERROR,
    REFUSED,
    WRONG_TYPE,
    NOT_COMPILED,
    STATUS_DIFFERS,
    DIFFERS,
    OUT_OF_BOUNDS,
    INPUT_CHANGED,
    BAD_SCHEDULE,
    CRASHED
} outcome;
static const char *const outcome_names[] = {"fine",
                                            "fine (same error)",
                                            "refused by the builder",
                                            "type inference differs",
                                            "does not compile",
                                            "status differs",
                                            "bits differ",
                                            "wrote out of bounds",
                                            "changed an input",
                                            "the schedule",
                                            "crashed"};

typedef struct verdict {
    outcome what;
    char why[1000];
} verdict;

/* Shared with the child process of a batch. */
enum { MAX_BATCH = 64 };
typedef struct report {
    uint64_t at; /* the seed in work; 0: the C compiler or none */
    int done, compiling;
    int64_t graphs, steps, with_regions, symbolic, same_errors, second_runs, strided, states,
        elements;
    int64_t ops[STEP_KINDS];
    int64_t extra[32]; /* counters of whoever sets schedule_of */
    verdict verdicts[MAX_BATCH];
} report;

static struct {
    int64_t count;
    uint64_t seed;
    int batch, one, show_c, max_shrunk, wide, threads;
    const char *compiler;
    stax_isa isa;
    int opt_level;
    stax_realize realize;
} settings = {2000, 1, MAX_BATCH, 0, 0, 12, 0, 1, NULL, STAX_ISA_DETECT, 1, STAX_REALIZE_COST};
static report *shared;
static struct {
    int64_t passed, failed;
} tally; /* of all calls of main */

/* schedules.c is this file with schedules too: a text for the graph, which it may name, for
   free; NULL: automatic. What is wrong goes to the verdict. */
static char *(*schedule_of)(stax_context *ctx, const recipe *r, stax_graph *g, verdict *v);
static void (*report_schedules)(void);

/* ---- one graph ----------------------------------------------------------------------------------
 */

static void say(verdict *v, outcome what, const char *why) {
    v->what = what;
    snprintf(v->why, sizeof v->why, "%s", why ? why : "");
}

static void say_difference(verdict *v, const char *name, const stax_tensor *got,
                           const stax_tensor *want, int run) {
    size_t size = stax_dtype_bytes(got->dtype);
    int64_t n = 1, differ = 0, first = -1;
    for (int d = 0; d < got->rank; d++) n *= got->shape[d];
    const unsigned char *a = (const unsigned char *)got->data,
                        *b = (const unsigned char *)want->data;
    for (int64_t k = 0; k < n; k++) {
        if (memcmp(a + (size_t)k * size, b + (size_t)k * size, size) == 0) continue;
        if (differ++ == 0) first = k;
    }
    uint64_t x = 0, y = 0;
    memcpy(&x, a + (size_t)first * size, size);
    memcpy(&y, b + (size_t)first * size, size);
    v->what = DIFFERS;
    int at = snprintf(v->why, sizeof v->why, "output %s %s[", name, stax_dtype_name(got->dtype));
    for (int d = 0; d < got->rank; d++)
        at += snprintf(v->why + at, sizeof v->why - (size_t)at, d ? ",%lld" : "%lld",
                       (long long)got->shape[d]);
    snprintf(v->why + at, sizeof v->why - (size_t)at,
             "] run %d: %lld of %lld elements differ, the first at %lld: compiled 0x%llx, "
             "interpreted 0x%llx",
             run, (long long)differ, (long long)n, (long long)first, (unsigned long long)x,
             (unsigned long long)y);
}

static int bits_agree(const sample *a, const sample *b, const stax_graph *g, int run, verdict *v) {
    for (int k = 0; k < a->n_outputs; k++) {
        stax_output_info info;
        stax_graph_output(g, k, &info);
        if (memcmp(a->out[k].data, b->out[k].data, a->out[k].bytes) != 0) {
            say_difference(v, info.name, &b->outputs[k], &a->outputs[k], run);
            return 0;
        }
    }
    for (int k = 0; k < a->n_inputs; k++) {
        if (memcmp(a->in[k].data, b->in[k].data, a->in[k].bytes) == 0) continue;
        if (a->kinds[k] == STAX_KIND_STATE)
            say_difference(v, a->names[k], &b->inputs[k], &a->inputs[k], run);
        else
            say(v, INPUT_CHANGED, a->names[k]);
        return 0;
    }
    return 1;
}

static void check_run(stax_context *ctx, const recipe *r, const stax_graph *g, stax_program *p,
                      int run, verdict *v) {
    static sample a, b;
    int pages = (int)((r->seed + (uint64_t)run) %
                      3); /* guard bytes, or a page that cannot be touched behind or before */
    block work;
    memset(&work, 0, sizeof work);
    if (!sample_make(&a, r, g, run, 0) || !sample_make(&b, r, g, run, pages)) {
        if (run == 0) say(v, WRONG_TYPE, "the sizes of an output have no value");
        sample_free(&a);
        sample_free(&b);
        return;
    }
    stax_status want = stax_interpret(g, a.inputs, a.outputs), got = STAX_OK;
    char message[300];
    snprintf(message, sizeof message, "%s", want == STAX_OK ? "ok" : stax_error(ctx));
    for (int k = 0; k < b.n_inputs && got == STAX_OK; k++)
        if (b.kinds[k] == STAX_KIND_PARAM)
            got = run ? stax_rebind(p, b.names[k], &b.inputs[k])
                      : stax_bind(p, b.names[k], &b.inputs[k]);
    if (got == STAX_OK) {
        size_t bytes = stax_workspace_bytes(p, b.slots);
        if (block_make(&work, bytes, 64, 0xff, pages))
            got = stax_run_with(p, b.slots, b.outputs, bytes ? work.data : NULL, bytes);
    }
    if ((got == STAX_E_SHAPE && want == STAX_E_INDEX) ||
        (got == STAX_E_INDEX && want == STAX_E_SHAPE)) {
        say(v, FINE_ERROR,
            message); /* two errors in one graph: kernels have an order of their own */
    } else if (got != want) {
        v->what = STATUS_DIFFERS;
        snprintf(v->why, sizeof v->why, "run %d: compiled: %s (%s); interpreted: %s (%s)", run,
                 stax_status_text(got), got == STAX_OK ? "ok" : stax_error(ctx),
                 stax_status_text(want), message);
    } else if (want == STAX_OK && bits_agree(&a, &b, g, run, v)) {
        v->what = FINE;
    } else if (want != STAX_OK) {
        say(v, FINE_ERROR, message);
        if (want == STAX_E_INTERNAL || want == STAX_E_NOT_BUILT || want == STAX_E_ARGUMENT ||
            want == STAX_E_SHAPE || want == STAX_E_DTYPE)
            v->what = STATUS_DIFFERS;
        /* the largest of an axis that is empty in this run: an error by definition, on both sides
         */
        if (want == STAX_E_SHAPE && (run || strstr(message, "the axis is empty")))
            v->what = FINE_ERROR; /* a size that does not fit the second time */
    }
    if (v->what <= FINE_ERROR) {
        if (work.raw && !block_is_whole(&work)) say(v, OUT_OF_BOUNDS, "of the workspace");
        for (int k = 0; k < b.n_outputs; k++)
            if (!block_is_whole(&b.out[k])) say(v, OUT_OF_BOUNDS, "of an output");
        for (int k = 0; k < b.n_inputs; k++)
            if (!block_is_whole(&b.in[k])) say(v, OUT_OF_BOUNDS, "of an input");
        for (int k = 0; k < a.n_outputs; k++)
            if (!block_is_whole(&a.out[k]))
                say(v, OUT_OF_BOUNDS, "of an output, by the interpreter");
    }
    block_free(&work);
    sample_free(&a);
    sample_free(&b);
}

static void check_graph(stax_context *ctx, const recipe *r, const stax_graph *g, stax_program *p,
                        verdict *v) {
    shared->at = r->seed;
    check_run(ctx, r, g, p, 0, v);
    if (v->what == FINE && r->n_symbols > 0) {
        check_run(ctx, r, g, p, 1, v);
        shared->second_runs++;
    }
    shared->at = 0;
}

static void count_steps(const recipe *r) {
    shared->graphs++;
    shared->symbolic += r->n_symbols > 0;
    shared->elements += r->elements;
    for (int k = 0; k < r->n_steps; k++) {
        shared->ops[r->steps[k].kind]++;
        shared->steps++;
        shared->strided += r->steps[k].layout != 0;
        shared->states += r->steps[k].kind == STEP_STATE;
    }
}

/* One schedule with the blocks of these graphs; NULL: there is none. */
static stax_schedule *schedules_join(stax_context *ctx, char **schedules, const int *index, int n) {
    size_t bytes = 1, at = 0;
    for (int k = 0; k < n; k++)
        if (schedules[index[k]]) bytes += strlen(schedules[index[k]]);
    char *text = bytes > 1 ? (char *)malloc(bytes) : NULL;
    if (!text) return NULL;
    for (int k = 0; k < n; k++) {
        const char *part = schedules[index[k]] ? schedules[index[k]] : "";
        memcpy(text + at, part, strlen(part));
        at += strlen(part);
    }
    text[at] = 0;
    stax_schedule *s = stax_schedule_parse(ctx, "schedules", text);
    free(text);
    return s;
}

/* Compiles graphs[lo .. hi) together; on a failure in halves, to find the one. */
static void check_range(stax_context *ctx, recipe *recipes, stax_graph **graphs, char **schedules,
                        int *index, int n, verdict *verdicts) {
    stax_program *programs[MAX_BATCH];
    const stax_graph *list[MAX_BATCH];
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.opt_level = settings.opt_level;
    o.strict = 1;
    o.realize = settings.realize;
    if (n == 0) return;
    stax_schedule *schedule = schedules_join(ctx, schedules, index, n);
    o.schedule = schedule;
    for (int k = 0; k < n; k++) list[k] = graphs[index[k]];
    if (n == 1) shared->at = recipes[index[0]].seed;
    shared->compiling = 1;
    stax_status s = stax_compile_many(list, n, &o, programs);
    stax_schedule_free(schedule);
    shared->compiling = 0;
    shared->at = 0;
    if (s == STAX_OK) {
        for (int k = 0; k < n; k++) {
            verdict *v = &verdicts[index[k]];
            check_graph(ctx, &recipes[index[k]], graphs[index[k]], programs[k], v);
            stax_program_free(programs[k]);
        }
    } else if (n == 1) {
        say(&verdicts[index[0]], NOT_COMPILED, stax_error(ctx));
    } else {
        check_range(ctx, recipes, graphs, schedules, index, n / 2, verdicts);
        check_range(ctx, recipes, graphs, schedules, index + n / 2, n - n / 2, verdicts);
    }
}

static void check_recipes(recipe *recipes, int n, verdict *verdicts, int counted) {
    stax_options options = stax_options_default();
    options.compiler = settings.compiler;
    options.isa = settings.isa;
    options.n_threads = settings.threads;
    stax_context *ctx = stax_open(&options);
    stax_graph *graphs[MAX_BATCH];
    char *schedules[MAX_BATCH];
    int index[MAX_BATCH], ready = 0;
    if (!ctx) return;
    for (int k = 0; k < n; k++) {
        int refused;
        verdict *v = &verdicts[k];
        shared->at = recipes[k].seed;
        v->what = FINE;
        schedules[k] = NULL;
        graphs[k] = recipe_build(&recipes[k], ctx, &refused);
        if (!graphs[k] || !stax_ok(graphs[k])) {
            say(v, REFUSED, graphs[k] ? stax_graph_error(graphs[k]) : "no memory");
            continue;
        }
        if (!recipe_types_agree(&recipes[k], graphs[k])) {
            say(v, WRONG_TYPE, "dtype or shape of an output");
            continue;
        }
        if (counted) count_steps(&recipes[k]);
        shared->with_regions += recipes[k].has_regions;
        if (schedule_of) schedules[k] = schedule_of(ctx, &recipes[k], graphs[k], v);
        if (v->what == FINE) index[ready++] = k;
    }
    shared->at = 0;
    check_range(ctx, recipes, graphs, schedules, index, ready, verdicts);
    for (int k = 0; k < n; k++) {
        stax_graph_free(graphs[k]);
        free(schedules[k]);
    }
    stax_close(ctx);
}

/* ---- processes ----------------------------------------------------------------------------------
 */

static void recipes_in_child(recipe *recipes, int n, verdict *verdicts, int counted) {
#if defined(_WIN32)
    check_recipes(recipes, n, verdicts, counted);
#else
    fflush(stdout);
    shared->done = 0;
    memset(shared->verdicts, 0, sizeof shared->verdicts);
    pid_t child = fork();
    if (child == 0) {
        alarm(n == 1 ? 60 : 400);
        check_recipes(recipes, n, shared->verdicts, counted);
        shared->done = 1;
        fflush(stdout);
        _exit(0);
    }
    int status = 0;
    if (child > 0) waitpid(child, &status, 0);
    if (shared->done) {
        memcpy(verdicts, shared->verdicts, (size_t)n * sizeof *verdicts);
        return;
    }
    char why[100];
    snprintf(why, sizeof why, "%s %d%s", WIFSIGNALED(status) ? "signal" : "exit status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
             shared->compiling ? ", in stax_compile_many" : "");
    if (n == 1) {
        say(verdicts, CRASHED, why);
        return;
    }
    /* which one: the halves again */
    recipes_in_child(recipes, n / 2, verdicts, 0);
    recipes_in_child(recipes + n / 2, n - n / 2, verdicts + n / 2, 0);
#endif
}

/* ---- making failures smaller --------------------------------------------------------------------
 */

static int still_fails(const recipe *r, outcome what, verdict *v) {
    static recipe one;
    one = *r;
    memset(v, 0, sizeof *v);
    recipes_in_child(&one, 1, v, 0);
    return v->what == what;
}

static int try_this(recipe *best, const recipe *candidate, outcome what, int *left) {
    static recipe r;
    verdict v;
    if (*left <= 0) return 0;
    --*left;
    r = *candidate;
    recipe_sweep(&r);
    if (r.n_steps == 0 || !still_fails(&r, what, &v)) return 0;
    *best = r;
    return 1;
}

static void shrink(recipe *best, outcome what, int tries) {
    static recipe c;
    for (int k = 0; k < best->n_outputs && best->n_outputs > 1; k++) { /* one output alone */
        c = *best;
        c.outputs[0] = best->outputs[k];
        c.n_outputs = 1;
        if (try_this(best, &c, what, &tries)) break;
    }
    for (int again = 1; again && tries > 0;) {
        again = 0;
        for (int k = best->n_outputs - 1; k >= 0 && best->n_outputs > 1; k--) {
            c = *best;
            for (int j = k; j + 1 < c.n_outputs; j++) c.outputs[j] = c.outputs[j + 1];
            c.n_outputs--;
            again |= try_this(best, &c, what, &tries);
        }
        for (int k = best->n_steps - 1; k >= 0; k--) { /* steps become inputs, assignments vanish */
            if (k >= best->n_steps) continue;
            c = *best;
            if (c.steps[k].kind == STEP_ASSIGN || c.steps[k].kind == STEP_ASSIGN_SLICE) {
                c.steps[k] = step_new(STEP_CONST, -1, -1, -1);
                c.steps[k].type.weak = 'i';
            } else if (!recipe_cut(&c, k)) {
                continue;
            }
            again |= try_this(best, &c, what, &tries);
        }
        for (int k = best->n_steps - 1; k >= 0; k--) { /* plain inputs */
            if (k >= best->n_steps || best->steps[k].kind > STEP_STATE) continue;
            c = *best;
            step *s = &c.steps[k];
            if (s->layout == 0 && s->kind == STEP_INPUT && s->fill != FILL_SPECIAL) continue;
            s->kind = STEP_INPUT;
            row_major(s);
            if (s->fill == FILL_SPECIAL) s->fill = FILL_PLAIN;
            again |= try_this(best, &c, what, &tries);
        }
    }
}

static void write_found(recipe *r, const verdict *v) {
    char path[200], *text = NULL;
    stax_options options = stax_options_default();
    options.compiler = settings.compiler;
    options.isa = settings.isa;
    stax_context *ctx = stax_open(&options);
    stax_graph *g = ctx ? recipe_build(r, ctx, NULL) : NULL;
    if (g) text = stax_print(g);
    snprintf(path, sizeof path, "%s/found/%llu.stax", getenv("BUILD") ? getenv("BUILD") : "build",
             (unsigned long long)r->seed);
    FILE *f = fopen(path, "w");
    for (int pass = 0; pass < 2; pass++) {
        FILE *to = pass ? f : stdout;
        if (!to) continue;
        fprintf(to, "# seed %llu: %s: %s\n%s\n", (unsigned long long)r->seed,
                outcome_names[v->what], v->why, text ? text : "");
        for (int k = 0; k < r->n_steps; k++) {
            const step *s = &r->steps[k];
            if (s->kind > STEP_STATE || (!s->layout && s->fill == FILL_PLAIN)) continue;
            fprintf(to, "# x%d: fill %d%s, strides", k, s->fill, s->layout ? ", strided" : "");
            int64_t shape[STAX_MAX_RANK], strides[STAX_MAX_RANK];
            strides_in_run(r, s, 0, shape, strides);
            for (int d = 0; d < s->type.rank; d++) fprintf(to, " %lld", (long long)strides[d]);
            fprintf(to, "\n");
        }
        for (int k = 0; k < r->n_symbols; k++)
            fprintf(to, "# %s = %lld, then %lld\n", k ? "m" : "n", (long long)r->symbols[k].first,
                    (long long)r->symbols[k].second);
    }
    if (f) fclose(f);
    stax_program *p = settings.show_c && g && stax_ok(g) ? stax_compile(g, NULL) : NULL;
    if (p) {
        char *c = stax_program_report(p, STAX_REPORT_C);
        if (c && *c) printf("%s\n", c);
        stax_free(ctx, c);
        stax_program_free(p);
    }
    if (ctx) {
        stax_free(ctx, text);
        stax_graph_free(g);
        stax_close(ctx);
    }
    fflush(stdout);
}

/* Seeds from 1000000000 on are the tables of specials. */
static int recipe_of(recipe *r, uint64_t seed) {
    if (seed >= UINT64_C(1000000000)) return recipe_special(r, (int)(seed - UINT64_C(1000000000)));
    recipe_make_sized(r, seed, settings.wide);
    return 1;
}

static void explain(uint64_t seed, const verdict *v, int tries) {
    static recipe r;
    verdict now = *v;
    recipe_of(&r, seed);
    if (v->what != REFUSED && v->what != WRONG_TYPE) {
        shrink(&r, v->what, tries);
        verdict last;
        if (still_fails(&r, v->what, &last)) now = last;
    }
    printf("FAIL ");
    write_found(&r, &now);
}

/* ---- main ---------------------------------------------------------------------------------------
 */

static int64_t option(int argc, char **argv, const char *name, int64_t otherwise) {
    size_t n = strlen(name);
    for (int k = 1; k < argc; k++) {
        if (strncmp(argv[k], name, n) != 0) continue;
        if (argv[k][n] == '=') return strtoll(argv[k] + n + 1, NULL, 10);
        if (argv[k][n] == 0) return 1;
    }
    return otherwise;
}

/* Are all arguments options of this program (--edits: of random_schedules.inc)? */
static int options_known(int argc, char **argv) {
    static const char *const known[] = {"--count",  "--seed",    "--batch",   "--tables",
                                        "--one",    "--report",  "--isa",     "--opt",
                                        "--wide",   "--threads", "--realize", "--compiler",
                                        "--shrink", "--here",    "--small",   "--edits"};
    for (int k = 1; k < argc; k++) {
        size_t n = strcspn(argv[k], "="), i = 0;
        while (i < sizeof known / sizeof *known &&
               (strlen(known[i]) != n || strncmp(argv[k], known[i], n) != 0))
            i++;
        if (i < sizeof known / sizeof *known) continue;
        fprintf(stderr, "%s: no option of this name; there are", argv[k]);
        for (i = 0; i < sizeof known / sizeof *known; i++) fprintf(stderr, " %s", known[i]);
        fprintf(stderr, ", some with =NUMBER: see the first comment of tests/differential.c\n");
        return 0;
    }
    return 1;
}

static const char *const step_names[STEP_KINDS] = {
    "input",    "param",         "state",        "literal",
    "data",     "unary",         "binary",       "where",
    "clip",     "fma",           "lerp",         "cast",
    "bitcast",  "reshape",       "permute",      "transpose",
    "expand",   "squeeze",       "unsqueeze",    "slice",
    "flip",     "roll",          "pad",          "concat",
    "stack",    "split",         "part",         "tile",
    "unfold",   "iota",          "gather",       "take_along_axis",
    "scatter",  "scan",          "sort/argsort", "topk",
    "kthvalue", "median",        "searchsorted", "reduce",
    "var/std",  "argmax/argmin", "dot",          "matmul",
    "linear",   "random_bits",   "uniform",      "normal",
    "softmax",  "layer_norm",    "rms_norm",     "composite",
    "assign",   "assign_slice",  "cond",         "loop",
    "while"};

#ifndef DIFFERENTIAL_MAIN
#define DIFFERENTIAL_MAIN main
#endif
int DIFFERENTIAL_MAIN(int argc, char **argv) {
    static recipe recipes[MAX_BATCH];
    static verdict verdicts[MAX_BATCH];
    int64_t passed = 0, failed = 0;
    int tries = 60;
    if (!options_known(argc, argv)) return 2;
    if (!getenv("CI")) settings.count -= settings.count / 4; /* `make test` keeps ten minutes */
    settings.count = option(argc, argv, "--count", settings.count);
    settings.seed = (uint64_t)option(argc, argv, "--seed", (int64_t)settings.seed);
    settings.batch = (int)option(argc, argv, "--batch", settings.batch);
    settings.one = (int)option(argc, argv, "--one", 0);
    settings.show_c = (int)option(argc, argv, "--report", 0);
    settings.isa = (stax_isa)option(argc, argv, "--isa", 0);
    settings.opt_level = (int)option(argc, argv, "--opt", 1);
    settings.wide = (int)option(argc, argv, "--wide", 0);
    settings.threads = (int)option(argc, argv, "--threads", 1);
    settings.realize = (stax_realize)option(argc, argv, "--realize", 0);
    for (int k = 1; k < argc; k++)
        if (strncmp(argv[k], "--compiler=", 11) == 0) settings.compiler = argv[k] + 11;
    settings.max_shrunk = (int)option(argc, argv, "--shrink", settings.max_shrunk);
    if (settings.batch < 1 || settings.batch > MAX_BATCH) settings.batch = MAX_BATCH;
    if (settings.one) settings.count = 1;
#if defined(_WIN32)
    static report here;
    shared = &here;
#else
    char path[200];
    const char *build = getenv("BUILD") ? getenv("BUILD") : "build";
    mkdir(build, 0755);
    snprintf(path, sizeof path, "%s/found", build);
    mkdir(path, 0755);
    shared = (report *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 1;
#endif
    printf("seeds %llu .. %llu\n", (unsigned long long)settings.seed,
           (unsigned long long)(settings.seed + (uint64_t)settings.count - 1));
    if (settings.one) {
        if (!recipe_of(&recipes[0], settings.seed)) return 1;
        verdict v;
        memset(&v, 0, sizeof v);
        if (option(argc, argv, "--here", 0))
            check_recipes(recipes, 1, &v, 0);
        else
            recipes_in_child(recipes, 1, &v, 0);
        if (option(argc, argv, "--small", 0) && v.what > FINE_ERROR)
            explain(settings.seed, &v, 200);
        else
            write_found(&recipes[0], &v);
        return v.what > FINE_ERROR;
    }
    uint64_t next = settings.seed, special = UINT64_C(1000000000), last = special + N_SPECIALS;
    if (!option(argc, argv, "--tables", 1)) special = last;
    for (int64_t left = settings.count; left > 0 || special < last;) {
        int n = 0;
        for (; n < settings.batch && special < last; special++)
            n += recipe_of(&recipes[n], special);
        for (; n < settings.batch && left > 0; left--) recipe_of(&recipes[n++], next++);
        if (n == 0) break;
        memset(verdicts, 0, sizeof verdicts);
        recipes_in_child(recipes, n, verdicts, 1);
        for (int k = 0; k < n; k++) {
            if (verdicts[k].what <= FINE_ERROR) {
                passed++;
                shared->same_errors += verdicts[k].what == FINE_ERROR;
                continue;
            }
            failed++;
            if (failed <= settings.max_shrunk)
                explain(recipes[k].seed, &verdicts[k], tries);
            else
                printf("FAIL seed %llu: %s: %.160s\n", (unsigned long long)recipes[k].seed,
                       outcome_names[verdicts[k].what], verdicts[k].why);
        }
        fflush(stdout);
    }
    printf(
        "%lld graphs, %lld steps, %lld elements, %lld symbolic (%lld run for other sizes too), "
        "%lld strided inputs, %lld states, %lld ended in the same error\n",
        (long long)shared->graphs, (long long)shared->steps, (long long)shared->elements,
        (long long)shared->symbolic, (long long)shared->second_runs, (long long)shared->strided,
        (long long)shared->states, (long long)shared->same_errors);
    printf("%lld graphs with regions\n", (long long)shared->with_regions);
    if (report_schedules) report_schedules();
    for (int k = 0; k < STEP_KINDS; k++)
        printf("%s%s %lld", k ? ", " : "steps: ", step_names[k], (long long)shared->ops[k]);
    tally.passed += passed;
    tally.failed += failed;
    printf("\n%lld passed, %lld failed\n", (long long)passed, (long long)failed);
    return failed != 0;
}
