/* Short forms of functions: kernels that use them give the bits of the interpreter, whether blocks
   of vectors lie within the range of a form, outside, or in part, by every compiler there is for
   every ISA level of this CPU. Here around the limits and for samples of the floats;
   tests/long/short_forms.c takes all 2^32. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stax.h"

#include "harness.h"
#include "random.h"

#ifndef EVERY
#define EVERY 4096 /* chunks of floats: one in so many */
#endif

enum { N = 1 << 16, CHUNKS = 1 << 16, INPUTS = 5, OUTPUTS = 8 };
/* of different shapes, so that each is a kernel of its own */
static const int rows[] = {1, 1, 64, 32, 16}, sizes[OUTPUTS] = {N, N - 3, 64, 64, 64, 32, N, 16};
static const char text[] =
    "graph short(x: f32[65536], y: f32[65533], r: f32[64,1024], q: f32[32,2048], p: f32[16,4096]) "
    "{\n"
    "  a = exp x\n"
    "  b = exp2 y\n  c = add b, 1.0\n"
    "  e = exp r\n  s = sum e {axes=[1]}\n  m = max e {axes=[1]}\n  n = min e {axes=[1]}\n"
    "  f = exp2 q\n  k = max f {axes=[1]}\n"
    "  u = mul p, 0.5\n  v = exp u\n  w = sum v {axes=[1], keepdims=true}\n  z = div v, w\n"
    "  return a, c, s, m, n, k, z, w\n}\n";
static const struct {
    stax_isa isa;
    const char *name;
} levels[] = {{STAX_ISA_SCALAR, "scalar"}, {STAX_ISA_SSE2, "sse2"},     {STAX_ISA_SSE42, "sse42"},
              {STAX_ISA_AVX2, "avx2"},     {STAX_ISA_AVX512, "avx512"}, {STAX_ISA_NEON, "neon"}};

/* ---- the kernels of a compiler and a level ---- */

enum { MOST = 16 };
typedef struct kernels {
    char name[32];
    stax_context *ctx;
    stax_program *program;
    int64_t bad; /* calls whose bits differ */
} kernels;
static kernels all[MOST];
static int n_all;
static float *x, *want[OUTPUTS], *got[OUTPUTS];

static void open_kernels(const char *compiler, int level) {
    kernels *k = &all[n_all];
    stax_options o = stax_options_default();
    stax_graph *g;
    o.compiler = compiler;
    o.isa = levels[level].isa;
    o.strict = true;
    sprintf(k->name, "%s_%s", compiler, levels[level].name);
    if (!harness_wants(k->name)) return;
    k->ctx = stax_open(&o);
    g = stax_parse(k->ctx, "short", text);
    k->program = g ? stax_compile(g, NULL) : NULL;
    if (k->program || !strstr(stax_error(k->ctx), "does not run here")) {
        n_all++;
        if (!k->program) printf("%s: %s\n", k->name, stax_error(k->ctx));
    } else {
        printf("skip %s: this CPU does not have it\n", k->name);
        stax_close(k->ctx);
    }
    stax_graph_free(g);
}

static void tensors(stax_tensor *in, stax_tensor *out, float *const *to) {
    for (int k = 0; k < INPUTS; k++)
        in[k] = stax_tensor_of(
            STAX_F32, rows[k] > 1 ? stax_shape2(rows[k], N / rows[k]) : stax_shape1(k ? N - 3 : N),
            x);
    for (int k = 0; k < OUTPUTS; k++)
        out[k] = stax_tensor_of(
            STAX_F32, k < 6 ? stax_shape1(sizes[k]) : stax_shape2(rows[4], sizes[k] / rows[4]),
            to[k]);
}

/* Runs x by all kernels. */
static void compare(stax_graph *g, const char *what) {
    stax_tensor in[INPUTS], out[OUTPUTS];
    tensors(in, out, want);
    if (!CHECK_INT(stax_interpret(g, in, out), STAX_OK)) return;
    for (int p = 0; p < n_all; p++) {
        tensors(in, out, got);
        bool same = all[p].program && stax_run(all[p].program, in, out) == STAX_OK;
        for (int k = 0; k < OUTPUTS && same; k++)
            same = memcmp(want[k], got[k], (size_t)sizes[k] * 4) == 0;
        if (!same && all[p].bad++ == 0) printf("%s: %s\n", all[p].name, what);
    }
}

/* All floats whose upper bits are those of the chunk. */
static void chunk(stax_graph *g, int64_t number) {
    char what[40];
    for (uint32_t k = 0; k < N; k++) {
        const uint32_t bits = (uint32_t)number * N + k;
        memcpy(&x[k], &bits, sizeof bits);
    }
    sprintf(what, "floats from 0x%08x", (unsigned)((uint32_t)number * N));
    compare(g, what);
}

/* Most lie within the ranges; one in `rare` does not. */
static void mixture(stax_graph *g, int rare) {
    static const float outside[] = {88.5f,   -88.0f,  -103.0f, 89.1f,  -104.5f,   126.0f,
                                    -127.5f, -150.2f, 1e30f,   -1e30f, 87.00001f, -125.5f};
    static uint64_t seed = RANDOM_SEED;
    const uint64_t n = sizeof outside / sizeof outside[0];
    char what[40];
    for (int k = 0; k < N; k++) {
        uint64_t u = draw(&seed), kind = u % (n + 3);
        x[k] = (float)((double)(u >> 11) * 0x1p-53 * 160 - 80);
        if (rare == 0 || draw(&seed) % (uint64_t)rare) continue;
        x[k] = kind < n ? outside[kind] : kind == n ? INFINITY : kind == n + 1 ? -INFINITY : NAN;
    }
    sprintf(what, "one in %d outside", rare);
    compare(g, what);
}

static int at; /* of the kernels whose result is told */
static void test_kernels(void) { CHECK_INT(all[at].bad, 0); }

int main(int argc, char **argv) {
    static const char *const compilers[] = {"gcc", "clang", "tcc"};
    /* where ranges, results and numbers end: +-87, 88.7, 104, 125, 128, 150, 0, infinity and NaN */
    static const uint32_t ends[] = {0x42ae0000, 0x42b17218, 0x42d00000, 0x42fa0000,
                                    0x43000000, 0x43160000, 0,          0x7f800000};
    static const int rare[] = {0, 100000, 20000, 3000, 300, 20, 2};
    stax_context *ctx;
    stax_graph *g;
    HARNESS_BEGIN(argc, argv);
    x = (float *)malloc(N * 4);
    for (int k = 0; k < OUTPUTS; k++) {
        want[k] = (float *)calloc((size_t)sizes[k], 4);
        got[k] = (float *)calloc((size_t)sizes[k], 4);
        if (!x || !want[k] || !got[k]) return 1;
    }
    for (int c = 0; c < 3; c++) {
        if (!harness_has_program(compilers[c])) {
            printf("skip %s: not installed\n", compilers[c]);
            continue;
        }
        for (int k = 0; k < (int)(sizeof levels / sizeof levels[0]); k++) {
            if (k > 0 && strcmp(compilers[c], "tcc") == 0) break; /* width 1 only */
#if defined(__x86_64__) || defined(_M_X64)
            if (levels[k].isa == STAX_ISA_NEON) break;
#else
            if (k > 0 && levels[k].isa != STAX_ISA_NEON) continue;
#endif
            open_kernels(compilers[c], k);
        }
    }
    ctx = stax_open(NULL);
    g = ctx ? stax_parse(ctx, "short", text) : NULL;
    if (!g || !stax_ok(g)) return 1;
    for (size_t k = 0; k < 2 * sizeof ends / sizeof ends[0]; k++) {
        const int64_t number = (ends[k / 2] | (k % 2 ? 0x80000000u : 0)) / N;
        chunk(g, number);
        if (ends[k / 2] & 0x7fffffffu) chunk(g, number - 1);
    }
    for (size_t k = 0; k < sizeof rare / sizeof rare[0]; k++) mixture(g, rare[k]);
    for (int64_t k = EVERY / 2; k < CHUNKS; k += EVERY) chunk(g, k);
    for (at = 0; at < n_all; at++) {
        RUN_NAMED(all[at].name, test_kernels);
        stax_program_free(all[at].program);
        stax_close(all[at].ctx);
    }
    stax_graph_free(g);
    stax_close(ctx);
    return HARNESS_END();
}
