/* What a host may do to itself: flush subnormals, round elsewhere, ignore SIGCHLD, speak German. The
   bits stay, and so does the host's mode. And what we do to a host: nothing, its own functions are still
   contracted. This file holds the implementation, so that a user's code can stand behind the include. */
#if !defined(_WIN32)
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#endif
#include <fenv.h>
#include <locale.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define STAX_IMPLEMENTATION
#include "feed.h"
#include "harness.h"

/* A user's functions: gcc -std=gnu17 -mfma -O2 makes one instruction of each. */
float users_fmaf(float a, float b, float c);
double users_fma(double a, double b, double c);
float users_fmaf(float a, float b, float c) { return a * b + c; }
double users_fma(double a, double b, double c) { return a * b + c; }

static stax_context *ctx;

/* ---- floating-point modes ---- */

static const char *const graphs[] = {
    "graph maths(x: f32[3,41]) { a = exp x; b = log1p a; c = tanh x; d = mul x, 1e-39; e = mul d, 1e-3; f = sqrt a; g = sin x; h = erf x; i = pow a, x\n return a, b, c, d, e, f, g, h, i }",
    "graph double(x: f64[41]) { a = exp x; b = mul x, 1e-310; c = div x, 3.0; d = cos x; e = log a; return a, b, c, d, e }",
    "graph sums(x: f32[7,333]) { a = sum x; b = softmax x; c = mean x {axes=0}; d = var x; e = layer_norm x; return a, b, c, d, e }",
    "graph casts(x: f32[50]) { a = cast x {dtype=f16}; b = mul a, 0.0001; c = cast x {dtype=i32}; d = round x; e = cast x {dtype=bf16}; f = mul x, 1000.5; h = cast f {dtype=i16}\n return a, b, c, d, e, h }",
    "graph products(x: f32[9,33], y: f32[33,17]) { a = matmul x, y; b = dot x, x {lhs_contract=[1], rhs_contract=[1]}; return a, b }",
    ("graph small(x: f32[16]) { a = const f32[16] {1e-45,2e-45,1e-40,-1e-40,1.5e-38,1e-38,-1e-45,3e-39,1,2,3,4,5,6,7,8}; b = add a, 0.0; c = mul a, 0.5; d = add a, a; e = gt a, 0.0; f = maximum a, 0.0; "
     "g = sub a, a; h = cast a {dtype=f64}\n return b, c, d, e, f, g, h }"),
    "graph draws(k: u64[]) { a = normal k {shape=[33]}; b = uniform k {shape=[33], low=-3, high=5}; return a, b }",
};
enum { GRAPHS = sizeof graphs / sizeof graphs[0] };

#if defined(__SSE2__)
static unsigned get_mode(void) { return _mm_getcsr() & 0xffc0u; } /* without the sticky flags */
static void set_mode(unsigned m) { _mm_setcsr(m | 0x1f80u); }
static const unsigned modes[] = {0x9fc0u, 0x8000u | 0x1f80u, 0x0040u | 0x1f80u, 0x3f80u, 0x5f80u, 0x7f80u, 0xffc0u};
enum { MODES = sizeof modes / sizeof modes[0] };
#else
static unsigned get_mode(void) { return (unsigned)fegetround(); }
static void set_mode(unsigned m) { fesetround((int)m); }
static const unsigned modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
enum { MODES = sizeof modes / sizeof modes[0] };
#endif

static void slowly(void *user, int64_t n, void (*body)(void *arg, int64_t i), void *arg) {
    (void)user;
    for (int64_t i = 0; i < n; i++) body(arg, i);
}

static void floating_modes(void) {
    unsigned usual = get_mode();
    for (int k = 0; k < GRAPHS; k++) {
        stax_graph *g = stax_parse(ctx, "host", graphs[k]);
        if (!g) printf("%s\n", stax_error(ctx));
        stax_program *p = g ? stax_compile(g, NULL) : NULL;
        feed want, got, read;
        if (!CHECK(p && stax_program_status(p) == STAX_OK)) continue;
        if (!CHECK(feed_make(&want, g, 5, 3))) continue;
        CHECK_INT(stax_interpret(g, want.all, want.outputs), STAX_OK);
        for (int m = 0; m < MODES; m++) {
            CHECK(feed_make(&got, g, 5, 3));
            CHECK(feed_make(&read, g, 5, 3));
            set_mode(modes[m]);
            unsigned before = get_mode();
            stax_status s = stax_run(p, got.slots, got.outputs);
            unsigned after_run = get_mode();
            stax_status t = stax_interpret(g, read.all, read.outputs);
            unsigned after_interpret = get_mode();
            set_mode(usual);
            CHECK_INT(s, STAX_OK);
            CHECK_INT(t, STAX_OK);
            CHECK_INT(after_run, before);
            CHECK_INT(after_interpret, before);
            if (!CHECK(feed_equal(&want, &got))) printf("compiled, mode 0x%x: %s\n", modes[m], graphs[k]);
            if (!CHECK(feed_equal(&want, &read))) printf("interpreted, mode 0x%x: %s\n", modes[m], graphs[k]);
            feed_free(&got);
            feed_free(&read);
        }
        feed_free(&want);
        stax_program_free(p);
        stax_graph_free(g);
    }
}

/* Everything in that mode: opening, parsing (literals!), folding, compiling, printing. */
static void modes_while_building(void) {
    unsigned usual = get_mode();
    static const char text[] = "graph g(x: f32[5]) {\n  a = mul x, 0.1\n  b = const f64[5] {0.1, 1e-310, 3.3333333333333333, 1e300, 0x1.8p-1074}\n  c = const f32[4] {0.1, 1e-40, 16777217.0, 1e-45}\n"
                               "  d = add b, 0.7\n  e = exp c\n  f = const bf16[3] {1e-40, -1e-39, 0.1}\n  h = const f16[3] {6e-8, -6e-5, 0.1}\n"
                               "  return a, d, e, f, h\n}\n";
    stax_graph *g = stax_parse(ctx, "host", text);
    char *printed = g ? stax_print(g) : NULL;
    feed want, got;
    if (!CHECK(printed != NULL)) return;
    CHECK(feed_make(&want, g, 5, 3));
    CHECK_INT(stax_interpret(g, want.all, want.outputs), STAX_OK);
    for (int m = 0; m < MODES; m++) {
        CHECK(feed_make(&got, g, 5, 3));
        set_mode(modes[m]);
        unsigned before = get_mode();
        stax_context *c = stax_open(NULL);
        stax_graph *h = c ? stax_parse(c, "host", text) : NULL;
        char *again = h ? stax_print(h) : NULL;
        stax_program *p = h ? stax_compile(h, NULL) : NULL;
        stax_status s = p ? stax_run(p, got.slots, got.outputs) : STAX_E_INTERNAL;
        unsigned after = get_mode();
        set_mode(usual);
        CHECK_INT(after, before);
        CHECK(c != NULL);
        CHECK_TEXT(again, printed);
        CHECK_INT(s, STAX_OK);
        if (!CHECK(feed_equal(&want, &got))) printf("built in mode 0x%x\n", modes[m]);
        if (c) stax_free(c, again);
        stax_program_free(p);
        stax_graph_free(h);
        if (c) stax_close(c);
        feed_free(&got);
    }
    stax_free(ctx, printed);
    stax_graph_free(g);
    feed_free(&want);
}

/* Workers of the caller's have modes of their own. */
static void worker_modes(void) {
    unsigned usual = get_mode();
    stax_options o = stax_options_default();
    o.n_threads = 4;
    o.parallel_for = slowly;
    stax_context *c = stax_open(&o);
    stax_graph *g = stax_parse(c, "host", "graph g(x: f32[200000]) { a = exp x; b = mul a, 1e-40; return b }");
    stax_program *p = stax_compile(g, NULL);
    feed want, got;
    if (CHECK(p != NULL) && CHECK(feed_make(&want, g, 5, 3)) && CHECK(feed_make(&got, g, 5, 3))) {
        CHECK_INT(stax_interpret(g, want.all, want.outputs), STAX_OK);
        set_mode(modes[MODES - 1]);
        unsigned before = get_mode();
        CHECK_INT(stax_run(p, got.slots, got.outputs), STAX_OK);
        CHECK_INT(get_mode(), before);
        set_mode(usual);
        CHECK(feed_equal(&want, &got));
        feed_free(&want);
        feed_free(&got);
    }
    stax_program_free(p);
    stax_graph_free(g);
    stax_close(c);
}

/* Nobody sees floating-point exceptions of ours: a host that traps them goes on. */
static void exception_traps(void) {
#if defined(__SSE2__) && !defined(_WIN32)
    stax_graph *g = stax_parse(ctx, "host", graphs[0]);
    stax_program *p = stax_compile(g, NULL);
    feed f;
    if (CHECK(p != NULL) && CHECK(feed_make(&f, g, 5, 3))) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            _mm_setcsr(0x0000u); /* every exception traps */
            int s = stax_run(p, f.slots, f.outputs) == STAX_OK;
            s = s && stax_interpret(g, f.all, f.outputs) == STAX_OK;
            s = s && (_mm_getcsr() & 0x1f80u) == 0;
            _exit(s ? 0 : 1);
        }
        int status = 0;
        waitpid(child, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        feed_free(&f);
    }
    stax_program_free(p);
    stax_graph_free(g);
#else
    SKIP("needs SSE2 and POSIX");
#endif
}

/* ---- contraction ---- */

static void users_contraction(void) {
    volatile float a = 1.0f + 1.0f / 4096.0f, c = -(a * a);
    volatile double x = 1.0 + 1.0 / 134217728.0, z = -(x * x);
    float f = users_fmaf(a, a, c);
    double d = users_fma(x, x, z);
#if defined(__FMA__) && defined(__GNUC__) && !defined(__clang__) && !defined(__STRICT_ANSI__) && defined(__OPTIMIZE__)
    CHECK(f != 0.0f); /* the product was not rounded: gcc may contract as it did without us */
    CHECK(d != 0.0);
#else
    printf("left out: needs gcc -std=gnu17 -mfma -O2 (tests/long/sanitize.sh builds that)\n");
    (void)f;
    (void)d;
#endif
    /* ours is not contracted, whatever the flags */
    CHECK(staxi_host_is_exact());
    stax_graph *g = stax_parse(ctx, "host", "graph g(x: f32[33], y: f32[33]) { a = mul x, x; b = add a, y; return b }");
    stax_program *p = stax_compile(g, NULL);
    if (!CHECK(p != NULL)) return;
    float in[33], add[33], out[33];
    stax_tensor t[2], o;
    for (int k = 0; k < 33; k++) in[k] = a, add[k] = c;
    t[0] = stax_tensor_of(STAX_F32, stax_shape1(33), in);
    t[1] = stax_tensor_of(STAX_F32, stax_shape1(33), add);
    o = stax_tensor_of(STAX_F32, stax_shape1(33), out);
    CHECK_INT(stax_run(p, t, &o), STAX_OK);
    for (int k = 0; k < 33; k++) CHECK_FLOAT(out[k], 0.0f);
    CHECK_INT(stax_interpret(g, t, &o), STAX_OK);
    for (int k = 0; k < 33; k++) CHECK_FLOAT(out[k], 0.0f);
    stax_program_free(p);
    stax_graph_free(g);
}

/* ---- processes and words ---- */

static void ignored_sigchld(void) {
#if !defined(_WIN32)
    for (int k = 0; k < 2; k++) {
        struct sigaction act, old;
        memset(&act, 0, sizeof act);
        act.sa_handler = SIG_IGN;
        if (k) act.sa_handler = SIG_DFL, act.sa_flags = SA_NOCLDWAIT;
        sigaction(SIGCHLD, &act, &old);
        stax_context *c = stax_open(NULL);
        char text[200];
        /* a program that no cache has */
        snprintf(text, sizeof text, "graph g(x: f32[3]) { y = add x, %d.%ld\n return y }", k + 1, (long)getpid());
        stax_graph *g = stax_parse(c, "host", text);
        stax_program *p = stax_compile(g, NULL);
        if (CHECK(p != NULL)) {
            if (stax_program_status(p)) printf("%s\n", stax_error(c));
            CHECK_INT(stax_program_status(p), STAX_OK);
            stax_figures f;
            stax_program_figures(p, NULL, &f);
            CHECK_TEXT(f.origin, "compiled");
        }
        stax_program_free(p);
        stax_graph_free(g);
        stax_close(c);
        struct sigaction now;
        sigaction(SIGCHLD, &old, &now);
        CHECK(now.sa_handler == act.sa_handler);
    }
#else
    SKIP("no SIGCHLD");
#endif
}

#if !defined(_WIN32)
/* y of a graph, given x = [1, 2, 3]; and the status of its program. */
static stax_status call_three(stax_context *c, const char *text, float *y) {
    float x[3] = {1, 2, 3};
    stax_tensor in = stax_tensor_of(STAX_F32, stax_shape1(3), x), out = stax_tensor_of(STAX_F32, stax_shape1(3), y);
    stax_graph *g = c ? stax_parse(c, "host", text) : NULL;
    stax_program *p = g ? stax_compile(g, NULL) : NULL;
    stax_status status = p ? stax_program_status(p) : STAX_E_INTERNAL;
    if (!p || stax_run(p, &in, &out) != STAX_OK) status = STAX_E_INTERNAL;
    stax_program_free(p);
    stax_graph_free(g);
    return status;
}

static void check_in_child(int (*is_good)(void)) {
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(is_good() ? 0 : 1);
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int closed_child(void) {
    char text[200];
    float y[3] = {0, 0, 0};
    close(0), close(1), close(2);
    snprintf(text, sizeof text, "graph g(x: f32[3]) { y = add x, 7.%ld\n return y }", (long)getpid());
    return call_three(stax_open(NULL), text, y) == STAX_OK && y[0] > 8;
}

static int poor_child(void) {
    float y[3] = {0, 0, 0};
    unsetenv("STAX_CACHE_DIR"), unsetenv("XDG_CACHE_HOME"), unsetenv("HOME"), unsetenv("PATH");
    setenv("TMPDIR", "/nonexistent", 1);
    stax_context *c = stax_open(NULL);
    stax_status s = call_three(c, "graph g(x: f32[3]) { y = add x, 0.125\n return y }", y);
    return y[0] == 1.125f && (s == STAX_OK || stax_error(c)[0] != 0); /* interpreted, and it says why */
}

static stax_program *parents;
static int forked_child(void) {
    float x[3] = {1, 2, 3}, y[3] = {0, 0, 0};
    stax_tensor in = stax_tensor_of(STAX_F32, stax_shape1(3), x), out = stax_tensor_of(STAX_F32, stax_shape1(3), y);
    if (stax_run(parents, &in, &out) != STAX_OK || y[2] != 9) return 0;
    return call_three(ctx, "graph g(x: f32[3]) { y = mul x, 5.0\n return y }", y) != STAX_E_INTERNAL && y[2] == 15;
}
#endif

/* stdin, stdout and stderr closed: files of ours must not land there. */
static void closed_descriptors(void) {
#if !defined(_WIN32)
    check_in_child(closed_child);
#else
    SKIP("needs fork");
#endif
}

static void commas(void) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR.utf8", "German_Germany", "stax_comma"};
    static const char text[] = "graph g(x: f32[3]) {\n  a = mul x, 2.5\n  b = const f64[3] {0.1, -1.5e-7, 0x1.8p-3}\n  c = add a, b {}\n  d = layer_norm x {axes=[-1], eps=0.00125}\n  return c, d\n}\n";
    static const char plain[] = "graph g(x: f32[3]) {\n  a = mul x, 2.5\n  b = const f64[3] {0.1, -1.5e-7, 0x1.8p-3}\n  c = add a, b\n  d = layer_norm x {axes=[-1], eps=0.00125}\n  return c, d\n}\n";
    const char *found = NULL;
    (void)text;
    stax_graph *g = stax_parse(ctx, "host", plain);
    char *want = g ? stax_print(g) : NULL;
    stax_program *p = g ? stax_compile(g, NULL) : NULL;
    char *want_c = p ? stax_program_report(p, STAX_REPORT_C) : NULL;
    if (!CHECK(want && want_c)) return;
    for (size_t k = 0; k < sizeof names / sizeof names[0] && !found; k++)
        if (setlocale(LC_ALL, names[k]) && localeconv()->decimal_point[0] == ',') found = names[k];
    if (!found) {
        SKIP("no locale with a decimal comma (localedef -i de_DE -f UTF-8 de_DE.UTF-8)");
    } else {
        char number[20];
        snprintf(number, sizeof number, "%.1f", 0.5);
        CHECK_TEXT(number, "0,5");
        stax_graph *h = stax_parse(ctx, "host", plain);
        char *got = h ? stax_print(h) : NULL;
        CHECK_TEXT(got, want);
        stax_context *c = stax_open(NULL);
        stax_graph *i = stax_parse(c, "host", plain);
        stax_program *q = i ? stax_compile(i, NULL) : NULL;
        char *got_c = q ? stax_program_report(q, STAX_REPORT_C) : NULL;
        CHECK_TEXT(got_c, want_c);
        if (q) CHECK_INT(stax_program_status(q), STAX_OK);
        char *json = q ? stax_program_report(q, STAX_REPORT_EXPLAIN_JSON) : NULL;
        CHECK(json && strstr(json, ",5,") == NULL);
        stax_free(c, json);
        stax_free(c, got_c);
        stax_program_free(q);
        stax_graph_free(i);
        stax_close(c);
        stax_free(ctx, got);
        stax_graph_free(h);
        setlocale(LC_ALL, "C");
    }
    stax_free(ctx, want);
    stax_free(ctx, want_c);
    stax_program_free(p);
    stax_graph_free(g);
}

/* The working folder is gone, HOME and TMPDIR are nonsense. */
static void poor_environment(void) {
#if !defined(_WIN32)
    check_in_child(poor_child);
#else
    SKIP("needs fork");
#endif
}

/* A child of a process that has a context goes on with it. */
static void after_fork(void) {
#if !defined(_WIN32)
    stax_graph *g = stax_parse(ctx, "host", "graph g(x: f32[3]) { y = mul x, 3.0\n return y }");
    parents = stax_compile(g, NULL);
    if (!CHECK(parents != NULL)) return;
    check_in_child(forked_child);
    stax_program_free(parents);
    stax_graph_free(g);
#else
    SKIP("needs fork");
#endif
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    ctx = stax_open(NULL);
    if (!ctx) {
        printf("FAIL stax_open\n0 passed, 1 failed\n");
        return 1;
    }
    RUN(floating_modes);
    RUN(modes_while_building);
    RUN(worker_modes);
    RUN(exception_traps);
    RUN(users_contraction);
    RUN(ignored_sigchld);
    RUN(closed_descriptors);
    RUN(commas);
    RUN(poor_environment);
    RUN(after_fork);
    stax_close(ctx);
    return HARNESS_END();
}
