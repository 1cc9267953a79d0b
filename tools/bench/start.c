/* start.c - how long a program waits: for the first result of a fresh process, with and without a cache, and for
   one call of a compiled program.
       make bench-start
   Example 1.1 in processes of their own, started by this one, with each compiler that is installed: medians of 15,
   ranks 4 and 12; "traced": as a C function by stax_call, with a cache. Then one call on 8 elements, and one of 20
   ops on 64 elements, in ns, with the allocations that 10^6 calls make. Then what finding the program of a call
   costs, on 3 tensors: a loop of 10^6 calls of stax_call less one of stax_record_run, which enters the compiled
   code at once, by turns; and what follows from it: the size from which a chain of k ops is faster as one program
   than as k calls of loops in C (N* of P 13.6), and the calls of Example 1.1 on 8192 x 2048 that pay for compiling
   it in an empty cache (m* of P 13.4), beside its four ops as programs of their own (`start dispatch`: only these). */
#define _POSIX_C_SOURCE 200809L
#define STAX_IMPLEMENTATION
#include "stax.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { READINGS = 15, CALLS = 1000000 };

static long allocations;

static void *counted_alloc(size_t bytes, size_t align, void *user) {
    void *p = NULL;
    (void)user;
    allocations++;
    return posix_memalign(&p, align < sizeof p ? sizeof p : align, bytes) == 0 ? p : NULL;
}

static void counted_free(void *ptr, size_t bytes, void *user) {
    (void)bytes, (void)user;
    free(ptr);
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static stax_context *open_counted(void) {
    stax_options o = stax_options_default();
    o.strict = true;
    o.allocator.alloc = counted_alloc;
    o.allocator.free = counted_free;
    return stax_open(&o);
}

static int fail(stax_context *ctx) {
    fprintf(stderr, "start: %s\n", ctx ? stax_error(ctx) : "no memory");
    stax_close(ctx);
    return 1;
}

/* What a program does from its start to its first result. */
static int first_result(void) {
    static float x[8 * 128], w[8 * 128], y[8];
    stax_context *ctx = open_counted();
    stax_graph *g = ctx ? stax_parse(ctx, "start",
                                     "graph g(x: f32[n,128], w: f32[n,128]) {\n"
                                     "  s = add x, w\n  r = relu s\n  m = mul r, 2\n"
                                     "  y = sum m {axes=[-1]}\n  return y\n}\n")
                        : NULL;
    stax_program *p = g ? stax_compile(g, NULL) : NULL;
    stax_tensor in[2], out[1];
    in[0] = stax_tensor_of(STAX_F32, stax_shape2(8, 128), x);
    in[1] = stax_tensor_of(STAX_F32, stax_shape2(8, 128), w);
    out[0] = stax_tensor_of(STAX_F32, stax_shape1(8), y);
    for (int i = 0; i < 8 * 128; i++) x[i] = w[i] = 0.5f;
    if (!p || stax_run(p, in, out) != STAX_OK || y[7] != 256) return fail(ctx);
    stax_program_free(p);
    stax_graph_free(g);
    stax_close(ctx);
    return 0;
}

static void example(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)n;
    out[0] = stax_sum(stax_mul(stax_relu(stax_add(in[0], in[1])), stax_trace_const(t, 2)), stax_axes1(-1), false);
}

/* The same, traced. */
static int first_traced(void) {
    static float x[8 * 128], w[8 * 128], y[8];
    stax_context *ctx = open_counted();
    stax_jit *jit = ctx ? stax_jit_new(ctx, example, NULL, NULL) : NULL;
    stax_tensor in[2], out = stax_tensor_of(STAX_F32, stax_shape1(8), y);
    in[0] = stax_tensor_of(STAX_F32, stax_shape2(8, 128), x);
    in[1] = stax_tensor_of(STAX_F32, stax_shape2(8, 128), w);
    for (int i = 0; i < 8 * 128; i++) x[i] = w[i] = 0.5f;
    if (!jit || stax_call(jit, in, 2, &out, 1) != STAX_OK || y[7] != 256) return fail(ctx);
    stax_jit_free(jit);
    stax_close(ctx);
    return 0;
}

/* Seconds from before the start of a process to its end, or a negative number where it failed. */
static double process(const char *self, const char *what) {
    double t = seconds();
    pid_t child = fork();
    if (child == 0) {
        execl(self, self, what, (char *)NULL);
        _exit(127);
    }
    int status = 1;
    while (child > 0 && waitpid(child, &status, 0) < 0) {}
    return child > 0 && status == 0 ? seconds() - t : -1;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* One row: the cache folder is emptied before each reading, or once before all. */
static int starts(const char *self, const char *compiler, bool cached, const char *what) {
    char command[1200];
    const char *folder = getenv("STAX_CACHE_DIR");
    double t[READINGS];
    setenv("STAX_CC", compiler, 1);
    snprintf(command, sizeof command, "rm -rf '%s' && mkdir -m 700 '%s'", folder, folder);
    for (int i = cached ? -1 : 0; i < READINGS; i++) {
        if (i < 0 || !cached)
            if (system(command) != 0) return 1;
        double s = process(self, what);
        if (s < 0) return 1;
        if (i >= 0) t[i] = s;
    }
    qsort(t, READINGS, sizeof *t, by_value);
    printf("%-6s %-7s %8.1f ms (%.1f .. %.1f)\n", compiler, strcmp(what, "traced") == 0 ? what : cached ? "cached" : "empty", t[7] * 1e3, t[3] * 1e3,
           t[11] * 1e3);
    return 0;
}

static int calls(const char *name, const char *text, int64_t n) {
    static float x[64], y[64];
    stax_context *ctx = open_counted();
    stax_graph *g = ctx ? stax_parse(ctx, "start", text) : NULL;
    stax_program *p = g ? stax_compile(g, NULL) : NULL;
    stax_tensor in = stax_tensor_of(STAX_F32, stax_shape1(n), x), out = stax_tensor_of(STAX_F32, stax_shape1(n), y);
    if (!p || stax_run(p, &in, &out) != STAX_OK) return fail(ctx);
    double t[READINGS];
    long before = allocations;
    for (int k = 0; k < READINGS; k++) {
        double start = seconds();
        for (int c = 0; c < CALLS; c++) stax_run(p, &in, &out);
        t[k] = (seconds() - start) / CALLS;
    }
    qsort(t, READINGS, sizeof *t, by_value);
    printf("%-22s %6.1f ns a call (%.1f .. %.1f), %ld allocations in %d calls\n", name, t[7] * 1e9, t[3] * 1e9,
           t[11] * 1e9, allocations - before, READINGS * CALLS);
    stax_program_free(p);
    stax_graph_free(g);
    stax_close(ctx);
    return 0;
}

static void fused(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    (void)t, (void)n;
    out[0] = stax_add(stax_mul(in[0], in[1]), in[2]);
}

static void double_eight(const float *from, float *to, int n) {
    for (int i = 0; i < n; i++) to[i] = from[i] * 2 + 1;
}

/* P 13.6 and P 13.4; ns of a call on the same tensors, and on new ones. */
static int payoff(double same, double fresh) {
    enum { ROWS = 8192, COLUMNS = 2048, ALL = ROWS * COLUMNS };
    static const char *const ops[4] = {"add x, w", "relu x", "mul x, 2", "sum x {axes=[-1]}"};
    static float small[8];
    void (*volatile op)(const float *, float *, int) = double_eight;
    float *x = malloc(sizeof *x * ALL), *w = malloc(sizeof *x * ALL), *y = malloc(sizeof *x * ALL);
    stax_context *ctx = open_counted();
    stax_jit *jit = ctx ? stax_jit_new(ctx, example, NULL, NULL) : NULL;
    stax_tensor in[2], out = stax_tensor_of(STAX_F32, stax_shape1(ROWS), y), whole;
    if (!x || !w || !y || !jit || stax_cache_clear(ctx) != STAX_OK) return fail(ctx);
    for (int i = 0; i < ALL; i++) x[i] = w[i] = 0.5f;
    in[0] = stax_tensor_of(STAX_F32, stax_shape2(ROWS, COLUMNS), x);
    in[1] = stax_tensor_of(STAX_F32, stax_shape2(ROWS, COLUMNS), w);
    whole = stax_tensor_of(STAX_F32, stax_shape2(ROWS, COLUMNS), y);
    double t = seconds(), once[READINGS], eager[READINGS], mul[READINGS];
    if (stax_call(jit, in, 2, &out, 1) != STAX_OK) return fail(ctx);
    double compile = seconds() - t;
    stax_program *p[4];
    for (int k = 0; k < 4; k++) {
        char text[200];
        snprintf(text, sizeof text, "graph g(x: f32[%d,%d]%s) { y = %s; return y }", ROWS, COLUMNS,
                 k ? "" : ", w: f32[8192,2048]", ops[k]);
        stax_graph *g = stax_parse(ctx, "start", text);
        p[k] = g ? stax_compile(g, NULL) : NULL;
        if (!p[k]) return fail(ctx);
        stax_graph_free(g);
    }
    for (int r = 0; r < READINGS; r++) {
        t = seconds();
        stax_call(jit, in, 2, &out, 1);
        once[r] = seconds() - t;
        eager[r] = 0;
        for (int k = 0; k < 4; k++) {
            t = seconds();
            if (stax_run(p[k], in, k < 3 ? &whole : &out) != STAX_OK) return fail(ctx);
            eager[r] += seconds() - t;
            if (k == 2) mul[r] = seconds() - t;
        }
    }
    qsort(once, READINGS, sizeof *once, by_value);
    qsort(eager, READINGS, sizeof *eager, by_value);
    qsort(mul, READINGS, sizeof *mul, by_value);
    t = seconds();
    for (int c = 0; c < CALLS; c++) op(small, small, 8);
    double loop = (seconds() - t) / CALLS, rate = 8.0 * ALL / mul[READINGS / 2];
    for (int k = 2; k <= 5; k += 3) {
        double n[2];
        for (int i = 0; i < 2; i++) {
            n[i] = ((i ? fresh : same) * 1e-9 - k * loop) * rate / (8.0 * (k - 1));
            if (n[i] < 0) n[i] = 0;
        }
        printf("N* of %d ops            %6.0f elements on the same tensors, %.0f on new ones (a loop in C %.1f ns, %.1f GB/s)\n",
               k, n[0], n[1], loop * 1e9, rate * 1e-9);
    }
    printf("m* of Example 1.1      %6.1f calls: %.0f ms to the first result, then %.2f ms instead of %.2f\n",
           compile / (eager[7] - once[7]), compile * 1e3, once[7] * 1e3, eager[7] * 1e3);
    for (int k = 0; k < 4; k++) stax_program_free(p[k]);
    stax_jit_free(jit);
    stax_close(ctx);
    free(x);
    free(w);
    free(y);
    return 0;
}

/* The second level: another tensor in each call. */
static int dispatch(void) {
    enum { STEPS = 4096 };
    static const char *const names[3] = {"call, same tensors", "call, new tensors", "stax_run"};
    static float x[STEPS + 8], w[8], b[8], y[8];
    stax_context *ctx = open_counted();
    stax_jit *jit = ctx ? stax_jit_new(ctx, fused, NULL, NULL) : NULL;
    stax_tensor in[3], out = stax_tensor_of(STAX_F32, stax_shape1(8), y);
    in[0] = stax_tensor_of(STAX_F32, stax_shape1(8), x);
    in[1] = stax_tensor_of(STAX_F32, stax_shape1(8), w);
    in[2] = stax_tensor_of(STAX_F32, stax_shape1(8), b);
    stax_program *p = jit ? stax_jit_program(jit, in, 3, NULL, 0, 1) : NULL;
    stax_record *r = p ? stax_record_new(jit, in, 3, NULL, 0, &out, 1) : NULL;
    if (!r) return fail(ctx);
    double above[3], entry = 0;
    for (int what = 0; what < 3; what++) {
        double t[READINGS];
        long before = 0;
        for (int k = -1; k < READINGS; k++) {
            double start = seconds(), middle;
            if (k == 0) before = allocations;
            for (int c = 0; c < CALLS; c++)
                if (stax_record_run(r) != STAX_OK) return fail(ctx);
            middle = seconds();
            for (int c = 0; c < CALLS; c++) {
                in[0].data = x + (what == 1 ? c * 8 % STEPS : 0);
                if ((what == 2 ? stax_run(p, in, &out) : stax_call(jit, in, 3, &out, 1)) != STAX_OK) return fail(ctx);
            }
            if (k >= 0) t[k] = (seconds() - middle - (middle - start)) / CALLS;
            entry = (middle - start) / CALLS;
        }
        qsort(t, READINGS, sizeof *t, by_value);
        above[what] = t[READINGS / 2];
        printf("%-22s %6.1f ns above the entry (%.1f .. %.1f, least %.1f), %ld allocations in %d calls\n", names[what], t[7] * 1e9,
               t[3] * 1e9, t[11] * 1e9, t[0] * 1e9, allocations - before, READINGS * CALLS);
    }
    stax_record_free(r);
    stax_jit_free(jit);
    stax_close(ctx);
    return payoff((entry + above[0]) * 1e9, (entry + above[1]) * 1e9);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "dispatch") == 0) return dispatch();
    if (argc > 1) return strcmp(argv[1], "traced") == 0 ? first_traced() : first_result();
    static const char *const compilers[] = {"gcc", "clang", "tcc"};
    static char twenty[1200] = "graph g(x: f32[64]) {\n  v0 = mul x, 0.5\n";
    if (!getenv("STAX_CACHE_DIR")) {
        fprintf(stderr, "start: STAX_CACHE_DIR must name a folder that may be emptied; use `make bench-start`\n");
        return 2;
    }
    int wrong = 0;
    for (int i = 0; i < 3; i++) {
        char command[64];
        snprintf(command, sizeof command, "command -v %s > /dev/null", compilers[i]);
        if (system(command) != 0) {
            printf("%-6s is not installed: skipped\n", compilers[i]);
            continue;
        }
        wrong += starts(argv[0], compilers[i], false, "first") + starts(argv[0], compilers[i], true, "first") +
                 starts(argv[0], compilers[i], true, "traced");
    }
    unsetenv("STAX_CC");
    for (int i = 1; i < 20; i++) {
        size_t n = strlen(twenty);
        snprintf(twenty + n, sizeof twenty - n, "  v%d = %s v%d, x\n", i, i % 3 ? "add" : "mul", i - 1);
    }
    strcat(twenty, "  return v19\n}\n");
    wrong += calls("8 elements, one op", "graph g(x: f32[8]) { y = add x, 1; return y }", 8);
    wrong += calls("64 elements, 20 ops", twenty, 64) + dispatch();
    return wrong != 0;
}
