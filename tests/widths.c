/* One text for every width: all scalar functions in one graph, compiled by every compiler there is
   for every ISA level this CPU has, from width 1 up, give the bits of the interpreter.

       widths [filter ...]      names are COMPILER_DTYPE_ISA, such as gcc_f32_avx2 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../stax.h"

#include "harness.h"
#include "random.h"

enum { N = 6000, MOST_OUTPUTS = 96 };

static const char *const unary[] = {
    "neg",   "abs",   "sign",  "floor",    "ceil",     "round",       "trunc",     "sqrt",
    "rsqrt", "cbrt", "exp",   "exp2",  "expm1",    "log",      "log2",        "log10",     "log1p",
    "sin",   "cos",   "tan",   "asin",     "acos",     "atan",        "sinh",      "cosh",
    "tanh",  "asinh", "acosh", "atanh",    "erf",      "erfc",        "sigmoid",   "relu",
    "selu",  "silu",  "mish",  "gelu",     "softplus", "hardsigmoid", "hardswish", "reciprocal",
    "elu",   "isnan", "isinf", "isfinite", "square",   "logical_not"};
static const char *const binary[] = {"add",     "sub",     "mul",      "div",       "pow",
                                     "atan2",   "hypot",   "fmod",     "remainder", "floor_divide",
                                     "maximum", "minimum", "copysign", "logaddexp", "lt",
                                     "le",      "eq"};
static const char *const casts[] = {"f16", "bf16", "f8e4m3", "f8e5m2", "i8",  "u8",  "i16",
                                    "u16", "i32",  "u32",    "i64",    "u64", "bool"};
static const struct {
    stax_isa isa;
    const char *name;
} levels[] = {{STAX_ISA_SCALAR, "scalar"}, {STAX_ISA_SSE2, "sse2"},     {STAX_ISA_SSE42, "sse42"},
              {STAX_ISA_AVX2, "avx2"},     {STAX_ISA_AVX512, "avx512"}, {STAX_ISA_NEON, "neon"}};

typedef struct operands {
    stax_dtype dtype;
    const char *name;
    char *text; /* of the graph */
    size_t element;
    void *in[3];
    int n_outputs;
    char *want, *got; /* N * 8 bytes an output */
} operands;
static operands sets[2];

static uint64_t seed = RANDOM_SEED;

/* Special values, any bits, the interesting ranges, numbers beside 1 and large angles. */
static double draw_number(int k, bool is_f32) {
    static const double special[] = {
        0.0,      -0.0,   1,     -1,     0.5,   -0.5,   2,  1.5,  2.5,   -2.5,
        1e-310,   -1e-40, 1e-45, 3.4e38, 1e300, -1e300, 89, -104, 709.8, 4503599627370495.5,
        8388607.5};
    const int n = (int)(sizeof special / sizeof special[0]);
    uint64_t u = draw(&seed);
    double between = (double)(u >> 11) * 0x1p-53;
    if (k < n) return special[k];
    switch (k % 8) {
        case 0:
        case 1: {
            double d;
            float f;
            uint32_t w = (uint32_t)u;
            if (is_f32) {
                memcpy(&f, &w, sizeof f);
                return (double)f;
            }
            memcpy(&d, &u, sizeof d);
            return d;
        }
        case 2:
            return between * 2 - 1;
        case 3:
            return between * 32 - 16;
        case 4:
            return (between - 0.5) * 1600;
        case 5:
            return 1 + (double)((int)(u & 63) - 32) * (is_f32 ? 0x1p-23 : 0x1p-52);
        case 6:
            return (between - 0.5) * 4e6;
        default:
            return u % 16 == 0   ? (double)INFINITY
                   : u % 16 == 1 ? -(double)INFINITY
                   : u % 16 == 2 ? (double)NAN
                                 : between * 8;
    }
}

static void put(char *text, const char *format, const char *a, int k) {
    sprintf(text + strlen(text), format, k, a);
}

static void make(operands *s, stax_dtype dtype, const char *name) {
    const bool is_f32 = dtype == STAX_F32;
    char *t = (char *)malloc(20000), names[1500] = "";
    int n = 0;
    if (!t) exit(1);
    s->dtype = dtype;
    s->name = name;
    s->element = is_f32 ? 4 : 8;
    sprintf(t, "graph widths(x: %s[%d], y: %s[%d], z: %s[%d]) {\n", name, N, name, N, name, N);
    for (size_t k = 0; k < sizeof unary / sizeof unary[0]; k++)
        put(t, "  o%d = %s x\n", unary[k], n++);
    for (size_t k = 0; k < sizeof binary / sizeof binary[0]; k++)
        put(t, "  o%d = %s x, y\n", binary[k], n++);
    for (size_t k = 0; k < sizeof casts / sizeof casts[0]; k++)
        put(t, "  o%d = cast x {dtype=%s}\n", casts[k], n++);
    put(t, "  o%d = %s x {approximate=\"tanh\"}\n", "gelu", n++);
    put(t, "  o%d = %s x, y, z\n", "fma", n++);
    for (int k = 0; k < n; k++) sprintf(names + strlen(names), "%so%d", k ? ", " : "", k);
    sprintf(t + strlen(t), "  return %s\n}\n", names);
    s->text = t;
    s->n_outputs = n;
    for (int i = 0; i < 3; i++) {
        s->in[i] = malloc(N * s->element);
        if (!s->in[i]) exit(1);
        for (int k = 0; k < N; k++) {
            double d = draw_number(i == 0 ? k : k * 7 % 1000, is_f32);
            if (is_f32) ((float *)s->in[i])[k] = (float)d;
            if (!is_f32) ((double *)s->in[i])[k] = d;
        }
    }
    s->want = (char *)calloc((size_t)n * N, 8);
    s->got = (char *)calloc((size_t)n * N, 8);
    if (!s->want || !s->got) exit(1);
}

static stax_graph *graph_of(stax_context *ctx, const operands *s, stax_tensor *in, stax_tensor *out,
                            char *to) {
    static const stax_dtype types[] = {STAX_F16, STAX_BF16, STAX_F8E4M3, STAX_F8E5M2, STAX_I8,
                                       STAX_U8,  STAX_I16,  STAX_U16,    STAX_I32,    STAX_U32,
                                       STAX_I64, STAX_U64,  STAX_BOOL};
    const int n_unary = sizeof unary / sizeof unary[0], n_binary = sizeof binary / sizeof binary[0];
    const int n_casts = sizeof casts / sizeof casts[0];
    for (int i = 0; i < 3; i++) in[i] = stax_tensor_of(s->dtype, stax_shape1(N), s->in[i]);
    for (int k = 0; k < s->n_outputs; k++) {
        stax_dtype dtype = s->dtype;
        int cast = k - n_unary - n_binary;
        const char *op = k < n_unary ? unary[k] : cast < 0 ? binary[k - n_unary] : "";
        if (cast >= 0 && cast < n_casts) dtype = types[cast];
        if (strncmp(op, "is", 2) == 0 || strcmp(op, "logical_not") == 0) dtype = STAX_BOOL;
        if (strcmp(op, "lt") == 0 || strcmp(op, "le") == 0 || strcmp(op, "eq") == 0)
            dtype = STAX_BOOL;
        out[k] = stax_tensor_of(dtype, stax_shape1(N), to + (size_t)k * N * 8);
    }
    return stax_parse(ctx, "widths", s->text);
}

static const char *output_name(int k) {
    const int n_unary = sizeof unary / sizeof unary[0], n_binary = sizeof binary / sizeof binary[0];
    const int n_casts = sizeof casts / sizeof casts[0];
    if (k < n_unary) return unary[k];
    if (k < n_unary + n_binary) return binary[k - n_unary];
    if (k < n_unary + n_binary + n_casts) return casts[k - n_unary - n_binary];
    return k == n_unary + n_binary + n_casts ? "gelu tanh" : "fma";
}

static bool interpret(operands *s) {
    stax_context *ctx = stax_open(NULL);
    stax_tensor in[3], out[MOST_OUTPUTS];
    stax_graph *g = graph_of(ctx, s, in, out, s->want);
    bool good = CHECK(g && stax_ok(g)) && CHECK_INT(stax_interpret(g, in, out), STAX_OK);
    if (!good) printf("%s\n", stax_error(ctx));
    stax_graph_free(g);
    stax_close(ctx);
    return good;
}

/* ---- a compiler and a level ---- */

static const char *compiler;
static int level;
static operands *now;

static void same_bits(void) {
    stax_options o = stax_options_default();
    stax_compile_options how;
    stax_context *ctx;
    stax_graph *g;
    stax_program *p;
    stax_tensor in[3], out[MOST_OUTPUTS];
    stax_figures figures;
    memset(&how, 0, sizeof how);
    how.opt_level = 1; /* other levels, and whole networks, are for metamorphic.c */
    o.compiler = compiler;
    o.isa = levels[level].isa;
    o.strict = true;
    ctx = stax_open(&o);
    if (!CHECK(ctx != NULL)) return;
    g = graph_of(ctx, now, in, out, now->got);
    memset(now->got, 0, (size_t)now->n_outputs * N * 8);
    p = g ? stax_compile(g, &how) : NULL;
    if (!p && strstr(stax_error(ctx), "does not run here")) {
        SKIP("this CPU does not have it");
    } else if (!CHECK(p != NULL)) {
        printf("%s\n", stax_error(ctx));
    } else {
        CHECK_INT(stax_program_figures(p, in, &figures), STAX_OK);
        CHECK(figures.isa == levels[level].isa || strcmp(compiler, "tcc") == 0);
        CHECK_INT(stax_run(p, in, out), STAX_OK);
        for (int k = 0; k < now->n_outputs; k++) {
            size_t at = (size_t)k * N * 8;
            if (!CHECK_BYTES(now->got + at, now->want + at, N * 8)) printf("%s\n", output_name(k));
        }
    }
    stax_program_free(p);
    stax_graph_free(g);
    stax_close(ctx);
}

static bool is_installed(const char *name) {
    char command[200];
    const char *folder = getenv("BUILD");
    sprintf(command, "%s --version >%s/widths.txt 2>&1", name, folder ? folder : ".");
    if (strcmp(name, "tcc") == 0)
        sprintf(command, "tcc -v >%s/widths.txt 2>&1", folder ? folder : ".");
    return system(command) == 0;
}

int main(int argc, char **argv) {
    static const char *const compilers[] = {"gcc", "clang", "tcc"};
    const int n_levels = sizeof levels / sizeof levels[0];
    HARNESS_BEGIN(argc, argv);
    make(&sets[0], STAX_F32, "f32");
    make(&sets[1], STAX_F64, "f64");
    for (int s = 0; s < 2; s++) {
        if (!interpret(&sets[s])) return 1;
    }
    for (int c = 0; c < 3; c++) {
        if (!is_installed(compilers[c])) {
            printf("skip %s: not installed\n", compilers[c]);
            continue;
        }
        for (int k = 0; k < 2 * n_levels; k++) {
            char name[40];
            compiler = compilers[c];
            now = &sets[k % 2];
            level = k / 2;
            if (level > 0 && strcmp(compiler, "tcc") == 0) break; /* width 1 only */
#if defined(__x86_64__) || defined(_M_X64)
            if (levels[level].isa == STAX_ISA_NEON) break;
#else
            if (level > 0 && levels[level].isa != STAX_ISA_NEON) continue;
#endif
            sprintf(name, "%s_%s_%s", compiler, now->name, levels[level].name);
            RUN_NAMED(name, same_bits);
        }
    }
    return HARNESS_END();
}
