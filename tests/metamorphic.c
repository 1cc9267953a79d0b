/* The same graphs under every compiler, optimisation level, ISA level and number of threads, and on
   a host thread with another floating-point mode, and as exported C under other compilers and
   flags: the same bits, compared by a hash of all outputs and states with the interpreter's.

       metamorphic [--count=N] [--seed=S] [name ...]     names filter the variants, as in other
   tests

   Each variant runs in a process of its own. The last line is "N passed, N failed". */
#if !defined(_WIN32)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#endif
#if defined(__x86_64__) || defined(_M_X64)
#include <xmmintrin.h>
#endif
#include "stax.h"

#include "feed.h"
#include "graphs.h"
#include "harness.h"
#include "loops.h"

enum { MOST_GRAPHS = 64 };

typedef enum host_mode { MODE_PLAIN, MODE_FTZ, MODE_TO_ZERO, MODE_UP, MODE_ALL } host_mode;
typedef enum team_kind { TEAM_NONE, TEAM_OWN, TEAM_SHUFFLED, TEAM_THREADS } team_kind;

typedef struct variant {
    char name[64];
    const char *compiler;
    int opt_level;
    stax_isa isa;
    int n_threads;
    team_kind team;
    host_mode mode;
    int interpret, wide;
    stax_realize realize;
    int no_horizontal, least_shared; /* of fusion                                          */
    const char *export_command; /* a compiler and its flags: the exported C */
} variant;

typedef struct result {
    uint64_t hash;
    int status;
    int mode_kept;
    char why[400];
} result;
typedef struct board {
    int done, n_made, n_loops; /* n_loops: calls of a parallel_for of our own */
    result results[MOST_GRAPHS];
} board;

static recipe recipes[2][MOST_GRAPHS]; /* small ones, wide ones */
static int n_recipes[2];
static result reference[2][MOST_GRAPHS];
static board *shared;
static variant now;
static int is_here;

/* ---- the host's mode ----------------------------------------------------------------------------
 */

#if defined(__x86_64__) || defined(_M_X64)
static unsigned mode_get(void) { return _mm_getcsr() & ~0x3fu; } /* without the sticky flags */
static void mode_set(unsigned m) { _mm_setcsr(m); }
static unsigned mode_of(host_mode m) {
    return 0x1f80u | (m == MODE_FTZ || m == MODE_ALL ? 0x8040u : 0) |
           (m == MODE_TO_ZERO || m == MODE_ALL ? 0x6000u
            : m == MODE_UP                     ? 0x4000u
                                               : 0);
}
#elif defined(__aarch64__)
static unsigned mode_get(void) {
    uint64_t m;
    __asm__ volatile("mrs %0, fpcr" : "=r"(m));
    return (unsigned)m;
}
static void mode_set(unsigned m) { __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)m)); }
static unsigned mode_of(host_mode m) {
    return (m == MODE_FTZ || m == MODE_ALL ? 1u << 24 : 0) |
           (m == MODE_TO_ZERO || m == MODE_ALL ? 3u << 22
            : m == MODE_UP                     ? 1u << 22
                                               : 0);
}
#else
static unsigned mode_get(void) { return 0; }
static void mode_set(unsigned m) { (void)m; }
static unsigned mode_of(host_mode m) { return (void)m, 0; }
#endif

/* ---- one variant --------------------------------------------------------------------------------
 */

static uint64_t hash_bytes(uint64_t h, const void *data, size_t n) {
    const unsigned char *p = (const unsigned char *)data;
    for (size_t k = 0; k < n; k++) h = (h ^ p[k]) * UINT64_C(0x100000001b3);
    return h ^ h >> 29;
}

static uint64_t sample_hash(const sample *s) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (int k = 0; k < s->n_outputs; k++) h = hash_bytes(h, s->out[k].data, s->out[k].bytes);
    for (int k = 0; k < s->n_inputs; k++) h = hash_bytes(h, s->in[k].data, s->in[k].bytes);
    return h;
}

static void run_one(stax_context *ctx, const recipe *r, const stax_graph *g, stax_program *p,
                    result *out) {
    static sample s;
    stax_status status = STAX_OK;
    out->mode_kept = 1;
    if (!sample_make(&s, r, g, 0, 0)) {
        out->status = -1;
    } else {
        for (int k = 0; p && k < s.n_inputs && status == STAX_OK; k++)
            if (s.kinds[k] == STAX_KIND_PARAM) status = stax_bind(p, s.names[k], &s.inputs[k]);
        unsigned old = mode_get(), mode = mode_of(now.mode);
        if (now.mode != MODE_PLAIN) mode_set(mode);
        if (status == STAX_OK)
            status = p ? stax_run(p, s.slots, s.outputs) : stax_interpret(g, s.inputs, s.outputs);
        if (now.mode != MODE_PLAIN) {
            out->mode_kept = mode_get() == mode;
            mode_set(old);
        }
        out->status = (int)status;
        out->hash = status == STAX_OK ? sample_hash(&s) : 0;
        if (status != STAX_OK) snprintf(out->why, sizeof out->why, "%s", stax_error(ctx));
    }
    sample_free(&s);
}

/* ---- exported C ---------------------------------------------------------------------------------
 */

#if !defined(_WIN32)
/* int glue_K(memory, workspace, sizes, need): calls eK_call, or says how much workspace it needs.
 */
static void write_glue(FILE *f, int k, const recipe *r, const stax_graph *g) {
    static sample s;
    int at = 0, symbols = stax_graph_n_symbols(g);
    if (!sample_make(&s, r, g, 0, 0)) return;
    fprintf(f,
            "#include \"e%d.h\"\nGLUE int glue_%d(void *const *b, void *w, const int64_t *z, "
            "size_t *need) {\n",
            k, k);
    fprintf(f,
            "    (void)b; (void)z;\n#ifdef e%d_WORKSPACE_BYTES\n    *need = "
            "e%d_WORKSPACE_BYTES;\n#else\n    *need = e%d_workspace_bytes(",
            k, k, k);
    for (int j = 0; j < symbols; j++) fprintf(f, "%sz[%d]", j ? ", " : "", j);
    fprintf(f, ");\n#endif\n    if (!w) return 0;\n    return e%d_call(", k);
    for (int j = 0; j < s.n_slots; j++) fprintf(f, "(%s *)b[%d], ", feed_c_type(s.slots[j].dtype), at++);
    for (int j = 0; j < s.n_outputs; j++)
        fprintf(f, "(%s *)b[%d], ", feed_c_type(s.outputs[j].dtype), at++);
    fprintf(f, "w");
    at = 0;
    for (int j = 0; j < symbols; j++) fprintf(f, ", z[%d]", at++);
    for (int j = 0; j < s.n_inputs; j++) {
        stax_input_info info;
        stax_graph_input(g, j, &info);
        for (int d = 0; info.layout == STAX_STRIDED && !info.is_exact && d < s.inputs[j].rank; d++)
            fprintf(f, ", z[%d]", at++);
    }
    fprintf(f, ");\n}\n");
    sample_free(&s);
}

typedef int (*glue_fn)(void *const *b, void *w, const int64_t *z, size_t *need);

static void run_exported(const recipe *r, const stax_graph *g, glue_fn call, result *out) {
    static sample s;
    void *memory[2 * MAX_TENSORS];
    int64_t sizes[MAX_TENSORS * STAX_MAX_RANK];
    int at = 0, n = 0;
    size_t need = 0;
    block work;
    out->mode_kept = 1;
    if (!sample_make(&s, r, g, 0, 0)) return;
    for (int j = 0; j < s.n_slots; j++) memory[n++] = s.slots[j].data;
    for (int j = 0; j < s.n_outputs; j++) memory[n++] = s.outputs[j].data;
    for (int j = 0; j < stax_graph_n_symbols(g); j++) {
        stax_symbol_info y;
        stax_graph_symbol(g, j, &y);
        sizes[at++] = r->symbols[strcmp(y.name, "m") == 0].first;
    }
    for (int j = 0; j < s.n_inputs; j++) {
        stax_input_info info;
        stax_graph_input(g, j, &info);
        for (int d = 0; info.layout == STAX_STRIDED && !info.is_exact && d < s.inputs[j].rank; d++)
            sizes[at++] = s.inputs[j].strides[d];
    }
    call(memory, NULL, sizes, &need);
    if (block_make(&work, need, 64, 0xff, 0)) {
        int status = call(memory, work.data, sizes, &need);
        out->status = status == 0 ? 0 : -3;
        out->hash = status == 0 ? sample_hash(&s) : 0;
        if (!block_is_whole(&work))
            snprintf(out->why, sizeof out->why, "wrote out of bounds of the workspace"),
                out->status = -4;
        block_free(&work);
    }
    sample_free(&s);
}

static int export_and_run(stax_context *ctx, stax_graph **graphs, stax_program **programs, int n) {
    static sample s;
    char dir[300], path[400], command[2000];
    snprintf(dir, sizeof dir, "%s/exported_%d", getenv("BUILD") ? getenv("BUILD") : "build",
             (int)getpid());
    mkdir(dir, 0700);
    snprintf(path, sizeof path, "%s/glue.c", dir);
    FILE *f = fopen(path, "w");
    if (!f) return 0;
    fprintf(f, "#ifdef __cplusplus\n#define GLUE extern \"C\"\n#else\n#define GLUE\n#endif\n");
    for (int k = 0; k < n; k++) {
        const recipe *r = &recipes[now.wide][k];
        char prefix[16];
        snprintf(prefix, sizeof prefix, "e%d", k);
        if (!sample_make(&s, r, graphs[k], 0, 0)) return 0;
        for (int j = 0; j < s.n_inputs; j++)
            if (s.kinds[j] == STAX_KIND_PARAM) stax_bind(programs[k], s.names[j], &s.inputs[j]);
        sample_free(&s);
        if (stax_export(programs[k], dir, prefix, NULL) != STAX_OK) {
            printf("seed %llu: stax_export: %s\n", (unsigned long long)r->seed, stax_error(ctx));
            fclose(f);
            return 0;
        }
        write_glue(f, k, r, graphs[k]);
    }
    fclose(f);
    snprintf(command, sizeof command,
             "cd %s && %s -shared -fPIC -o lib.so e*.c glue.c >log.txt 2>&1", dir,
             now.export_command);
    if (system(command) != 0) {
        snprintf(command, sizeof command, "grep -m5 error %s/log.txt", dir);
        printf("%s: the exported C does not compile (%s)\n", now.name, dir);
        fflush(stdout);
        return system(command) != 0 ? 0 : 0;
    }
    snprintf(path, sizeof path, "%s/lib.so", dir);
    void *library =
        dlopen(path[0] == '/' ? path : (snprintf(command, sizeof command, "./%s", path), command),
               RTLD_NOW | RTLD_LOCAL);
    for (int k = 0; k < n && library; k++) {
        char name[32];
        glue_fn call;
        snprintf(name, sizeof name, "glue_%d", k);
        *(void **)(void *)&call = dlsym(library, name);
        if (call) run_exported(&recipes[now.wide][k], graphs[k], call, &shared->results[k]);
        shared->n_made = k + 1;
    }
    if (!library)
        printf("%s: %s\n", now.name, dlerror());
    else
        dlclose(library);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return library && system(command) == 0;
}
#endif

/* Fusion the wrong way round. */
static double least_shared(void *user, const stax_fusion *f) {
    (void)user;
    return 1 / f->shared_bytes;
}

static void run_variant(void) {
    stax_options o = stax_options_default();
    stax_compile_options c;
    stax_graph *graphs[MOST_GRAPHS];
    stax_program *programs[MOST_GRAPHS];
    int n = n_recipes[now.wide];
    memset(&c, 0, sizeof c);
    memset(programs, 0, sizeof programs);
    o.compiler = now.compiler;
    o.isa = now.isa;
    o.n_threads = now.n_threads;
    o.parallel_user = &shared->n_loops;
    if (now.team == TEAM_SHUFFLED) o.parallel_for = shuffled_for;
#if !defined(_WIN32)
    if (now.team == TEAM_THREADS) o.parallel_for = threaded_for;
#endif
    c.opt_level = now.opt_level;
    c.strict = 1;
    c.realize = now.realize;
    c.no_horizontal = now.no_horizontal != 0;
    if (now.least_shared) c.score = least_shared;
    stax_context *ctx = stax_open(&o);
    if (!ctx) return;
    for (int k = 0; k < n; k++) graphs[k] = recipe_build(&recipes[now.wide][k], ctx, NULL);
    stax_status s = STAX_OK;
    if (!now.interpret) s = stax_compile_many((const stax_graph *const *)graphs, n, &c, programs);
    if (s != STAX_OK && n > 1) { /* which one */
        for (int k = 0; k < n; k++) {
            programs[k] = stax_compile(graphs[k], &c);
            if (programs[k]) continue;
            snprintf(shared->results[k].why, sizeof shared->results[k].why, "%s", stax_error(ctx));
            shared->results[k].status = -2;
        }
    }
#if !defined(_WIN32)
    if (now.export_command && !export_and_run(ctx, graphs, programs, s == STAX_OK ? n : 0)) return;
#endif
    for (int k = 0; k < n && !now.export_command; k++) {
        if (!now.interpret && !programs[k]) continue;
        run_one(ctx, &recipes[now.wide][k], graphs[k], programs[k], &shared->results[k]);
        shared->n_made = k + 1;
    }
    for (int k = 0; k < n; k++) {
        stax_program_free(programs[k]);
        stax_graph_free(graphs[k]);
    }
    stax_close(ctx);
    shared->done = 1;
}

static int run_in_child(void) {
    memset(shared, 0, sizeof *shared);
#if defined(_WIN32)
    run_variant();
#else
    fflush(stdout);
    if (is_here) {
        run_variant();
        return shared->done;
    }
    pid_t child = fork();
    if (child == 0) {
        alarm(300);
        run_variant();
        fflush(stdout);
        _exit(0);
    }
    int status = 0;
    if (child > 0) waitpid(child, &status, 0);
    if (!shared->done)
        printf("%s: ended by %s %d after graph %d\n", now.name,
               WIFSIGNALED(status) ? "signal" : "exit status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), shared->n_made);
#endif
    return shared->done;
}

static void check_variant(void) {
    if (!CHECK(run_in_child())) return;
    for (int k = 0; k < n_recipes[now.wide]; k++) {
        const result *want = &reference[now.wide][k], *got = &shared->results[k];
        unsigned long long seed = (unsigned long long)recipes[now.wide][k].seed;
        if (got->status != want->status &&
            !(now.export_command && got->status == -3 && want->status != 0)) {
            printf("%s: seed %llu%s: status %d, expected %d: %s\n", now.name, seed,
                   now.wide ? " wide" : "", got->status, want->status, got->why);
            CHECK(got->status == want->status);
        } else if (got->hash != want->hash) {
            printf("%s: seed %llu%s: other bits\n", now.name, seed, now.wide ? " wide" : "");
            CHECK(got->hash == want->hash);
        }
        CHECK(got->mode_kept);
    }
    if (now.team >= TEAM_SHUFFLED) CHECK(shared->n_loops > 0);
}

static void run_named(const char *compiler, int opt_level, const char *isa_name, stax_isa isa,
                      int threads, team_kind team, host_mode mode, const char *what, int wide) {
    memset(&now, 0, sizeof now);
    snprintf(now.name, sizeof now.name, "%s_O%d_%s_%s", compiler ? compiler : "cc", opt_level,
             isa_name, what);
    now.compiler = compiler;
    now.opt_level = opt_level;
    now.isa = isa;
    now.n_threads = threads;
    now.team = team;
    now.mode = mode;
    now.wide = wide;
    RUN_NAMED(now.name, check_variant);
}

/* ---- main ---------------------------------------------------------------------------------------
 */

/* Graphs that the builder takes and that compile on their own terms: no regions. */
static int fill_recipes(int wide, int n, uint64_t seed) {
    stax_context *ctx = stax_open(NULL);
    int made = 0;
    if (!ctx) return 0;
    for (uint64_t s = seed; made < n && s < seed + 1000; s++) {
        recipe *r = &recipes[wide][made];
        recipe_make_sized(r, s, wide);
        if (r->has_regions) continue;
        stax_graph *g = recipe_build(r, ctx, NULL);
        if (g && stax_ok(g)) made++;
        stax_graph_free(g);
    }
    stax_close(ctx);
    n_recipes[wide] = made;
    memset(&now, 0, sizeof now);
    snprintf(now.name, sizeof now.name, "interpreter");
    now.interpret = 1;
    now.wide = wide;
    if (!run_in_child()) return 0;
    memcpy(reference[wide], shared->results, sizeof reference[wide]);
    return made;
}

static int has_isa(stax_isa isa) {
#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__) && !defined(__TINYC__)
    __builtin_cpu_init();
    if (isa == STAX_ISA_SSE2) return __builtin_cpu_supports("sse2") != 0;
    if (isa == STAX_ISA_SSE42) return __builtin_cpu_supports("sse4.2") != 0;
    if (isa == STAX_ISA_AVX2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (isa == STAX_ISA_AVX512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#elif defined(__aarch64__)
    if (isa == STAX_ISA_NEON) return 1;
#endif
    return isa == STAX_ISA_SCALAR;
}

int main(int argc, char **argv) {
    static const char *const compilers[] = {"gcc", "clang", "tcc"};
    static const struct {
        const char *name;
        stax_isa isa;
    } levels[] = {{"scalar", STAX_ISA_SCALAR}, {"sse2", STAX_ISA_SSE2},
                  {"sse42", STAX_ISA_SSE42},   {"avx2", STAX_ISA_AVX2},
                  {"avx512", STAX_ISA_AVX512}, {"neon", STAX_ISA_NEON}};
    int count = getenv("CI") ? 16 : 12, n = 1; /* `make test` keeps ten minutes */
    uint64_t seed = 100000;
    for (int k = 1; k < argc; k++) { /* the rest are filters */
        if (strncmp(argv[k], "--count=", 8) == 0)
            count = atoi(argv[k] + 8);
        else if (strncmp(argv[k], "--seed=", 7) == 0)
            seed = strtoull(argv[k] + 7, NULL, 10);
        else
            argv[n++] = argv[k];
    }
    if (count > MOST_GRAPHS) count = MOST_GRAPHS;
    is_here = getenv("STAX_TEST_HERE") != NULL; /* for a debugger: no processes */

    harness_begin(n, argv);
#if defined(_WIN32)
    static board here;
    shared = &here;
#else
    shared = (board *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                           -1, 0);
    if (shared == MAP_FAILED) return 1;
#endif
    int small = fill_recipes(0, count, seed), wide = fill_recipes(1, count / 2 + 1, seed);
    printf("%d graphs from seed %llu, %d of them wide\n", small + wide, (unsigned long long)seed,
           wide);
    CHECK(small > 0 && wide > 0);
    for (int c = 0; c < 3; c++) {
        if (!harness_has_program(compilers[c])) {
            printf("skip %s: not here\n", compilers[c]);
            continue;
        }
        for (int o = 1; o <= 3; o++)
            if (c < 2 || o == 1)
                run_named(compilers[c], o, "best", STAX_ISA_DETECT, 1, TEAM_NONE, MODE_PLAIN,
                          "small", 0);
        for (int k = 0; k < 6 && c < 2; k++)
            if (has_isa(levels[k].isa))
                run_named(compilers[c], c == 0 ? 1 : 2, levels[k].name, levels[k].isa, 1, TEAM_NONE,
                          MODE_PLAIN, "small", 0);
    }
    for (int k = 0; k < 5; k++) {
        static const char *const names[] = {"thresholds", "all_kept", "all_recomputed",
                                            "no_horizontal_fusion", "least_shared_first"};
        memset(&now, 0, sizeof now);
        now.opt_level = 1;
        if (k < 3) now.realize = (stax_realize)(STAX_REALIZE_THRESHOLDS + k);
        now.no_horizontal = k == 3;
        now.least_shared = k == 4;
        snprintf(now.name, sizeof now.name, "%s", names[k]);
        RUN_NAMED(now.name, check_variant);
    }
    for (int mode = MODE_FTZ; mode <= MODE_ALL; mode++) {
        static const char *const names[] = {"", "flush", "to_zero", "up", "flush_to_zero"};
        run_named(NULL, 1, "best", STAX_ISA_DETECT, 1, TEAM_NONE, (host_mode)mode, names[mode], 0);
        memset(&now, 0, sizeof now);
        snprintf(now.name, sizeof now.name, "interpreter_%s", names[mode]);
        now.interpret = 1;
        now.mode = (host_mode)mode;
        RUN_NAMED(now.name, check_variant);
    }
#if !defined(_WIN32)
    static const char *const exports[][3] = {
        {"gcc", "gnu17_O0", "gcc -std=gnu17 -O0"},
        {"gcc", "c99_O2", "gcc -std=c99 -O2"},
        {"gcc", "gnu17_O3_native", "gcc -std=gnu17 -O3 -march=native"},
        {"g++", "O2", "g++ -x c++ -O2"},
        {"clang", "O0", "clang -O0"},
        {"clang", "O3_native", "clang -O3 -march=native"},
        {"clang++", "c++11_O2", "clang++ -x c++ -std=c++11 -O2"},
        {"tcc", "", "tcc"}};
    for (size_t k = 0; k < sizeof exports / sizeof exports[0]; k++) {
        if (!harness_has_program(exports[k][0])) continue;
        memset(&now, 0, sizeof now);
        now.opt_level = 1;
        now.export_command = exports[k][2];
        snprintf(now.name, sizeof now.name, "export_%s_%s", exports[k][0], exports[k][1]);
        RUN_NAMED(now.name, check_variant);
    }
#endif
    run_named(NULL, 1, "best", STAX_ISA_DETECT, 1, TEAM_NONE, MODE_PLAIN, "wide", 1);
    run_named(NULL, 1, "best", STAX_ISA_DETECT, 2, TEAM_OWN, MODE_PLAIN, "wide_2_threads", 1);
    run_named(NULL, 1, "best", STAX_ISA_DETECT, 4, TEAM_OWN, MODE_PLAIN, "wide_4_threads", 1);
    run_named(NULL, 1, "best", STAX_ISA_DETECT, 4, TEAM_OWN, MODE_ALL, "wide_4_threads_flush", 1);
    run_named(NULL, 1, "best", STAX_ISA_DETECT, 5, TEAM_SHUFFLED, MODE_PLAIN, "wide_5_shuffled", 1);
    run_named(NULL, 1, "best", STAX_ISA_DETECT, 4, TEAM_THREADS, MODE_PLAIN, "wide_4_of_mine", 1);
    return HARNESS_END();
}
