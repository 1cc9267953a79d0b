/* Without a GPU: what stax_cuda.h prints compiles to cubins for sm_75, sm_80 and sm_90. Every
   elementwise op and cast on every dtype, each kind of kernel (map, rows, columns, team, serial,
   check), and random graphs. Skipped with the reason where NVRTC is not there.

       cuda_compile [--count=N] [--seed=S] [--print]     random graphs; --print shows their CUDA */
#if !defined(_WIN32)
#define _GNU_SOURCE
#include <sys/mman.h>
#endif
#include "stax_cuda.h"

#include "cuda_graphs.h"
#include "graphs.h"
#include "harness.h"

static const char *const architectures[] = {"sm_90", "sm_80", "sm_75"};
enum { N_ARCHITECTURES = 3 };

static stax_context *context;
static int64_t n_random = 12, first_seed = 1, show;

/* Compiles for the first n architectures. A program of steps is several texts, of which the host's
   have no kernel. */
static void check_source(char *source, const char *what, int n) {
    static const char mark[] = "/* ---- piece ";
    char *next = strstr(source + 1, mark);
    if (next) {
        check_source(next, what, n);
        *next = 0;
    }
    for (int k = 0; k < n && strstr(source, "stax_kernel_0("); k++) {
        size_t bytes = 0;
        void *cubin = stax_cuda_cubin(context, source, architectures[k], &bytes);
        if (!cubin) printf("%s: %s\n", what, stax_error(context));
        CHECK(cubin != NULL && bytes > 500 && memcmp(cubin, "\177ELF", 4) == 0);
        stax_free(context, cubin);
    }
}

/* Prints and compiles for the first n architectures; `what` is for messages. */
static void check_graph(const stax_graph *g, const char *what, int n) {
    char *source = stax_cuda_print(g);
    if (!source) {
        printf("%s: %s\n", what, stax_error(context));
        CHECK(source != NULL);
        return;
    }
    if (show) printf("%s\n", source);
    check_source(source, what, n);
    stax_free(context, source);
}

/* All elementwise ops that take the dtype, and the casts from it, as one graph. */
static void check_dtype(stax_dtype t, int n) {
    stax_graph *g = stax_graph_new(context);
    stax_value x = stax_input(g, "x", t, stax_shape1(1000)),
               y = stax_input(g, "y", t, stax_shape1(1000));
    char name[32];
    for (int k = 0; k < N_UNARY; k++) {
        if (!(class_of(t) & rule_classes(unary_rows[k].rule))) continue;
        snprintf(name, sizeof name, "unary_%d", k);
        stax_output(g, name, unary_rows[k].make(x));
    }
    for (int k = 0; k < N_BINARY - 3; k++) { /* the last rows are there for their frequency */
        if (!(class_of(t) & rule_classes(binary_rows[k].rule))) continue;
        snprintf(name, sizeof name, "binary_%d", k);
        stax_output(g, name, binary_rows[k].make(x, y));
    }
    for (int to = 1; to < STAX_DTYPE_COUNT; to++) {
        snprintf(name, sizeof name, "cast_%d", to);
        stax_output(g, name, stax_cast(x, (stax_dtype)to));
    }
    CHECK(stax_ok(g));
    check_graph(g, stax_dtype_name(t), n);
    stax_graph_free(g);
}

static void elementwise_ops(void) {
    for (int t = 1; t < STAX_DTYPE_COUNT; t++)
        check_dtype((stax_dtype)t, t == STAX_F32 ? N_ARCHITECTURES : 1);
}

static stax_value row_argmax(stax_value x, stax_value i) {
    return (void)i, stax_argmax(x, 1, false);
}
static stax_value product(stax_value x, stax_value i) {
    return (void)i, stax_matmul(x, stax_transpose(x));
}
static stax_value running(stax_value x, stax_value i) {
    return (void)i, stax_sin(stax_cumsum(x, 1, false, false));
}
static stax_value turned(stax_value x, stax_value i) {
    return (void)i, stax_sin(stax_transpose(x));
}
static stax_value gathered(stax_value x, stax_value i) { return stax_gather(x, i, 0); }

static void kinds_of_kernels(void) {
    static const struct {
        const char *name, *must_have;
        make_fn make;
    } rows[] = {{"row sum", "sx_tree<", row_sum},
                {"column sum", "[16][32]", column_sum},
                {"full sum", "sx_rule<", full_sum},
                {"argmax", "best", row_argmax},
                {"softmax", "x0[64];", softmax},
                {"matmul", "c[i][j] = sxs_muladd_f32(xf[i], yf[j], c[i][j])", product},
                {"cumsum", "_put(&scan, 2, totals[", running},
                {"transpose", "= l1[tx][ty + r * 4];", turned},
                {"gather", "sx->second", gathered}};
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        stax_graph *g = stax_graph_new(context);
        stax_value x = stax_input(g, "x", STAX_F32, stax_shape2(300, 9000)),
                   i = stax_input(g, "i", STAX_I64, stax_shape1(7));
        stax_output(g, "y", rows[k].make(x, i));
        char *source = stax_cuda_print(g);
        CHECK_HAS(source, rows[k].must_have);
        stax_free(context, source);
        check_graph(g, rows[k].name, N_ARCHITECTURES);
        stax_graph_free(g);
    }
}

/* On tensor cores, where that is allowed: f16 and bf16 operands, along k and across it, and
   computed ones; others as always. */
static void tensor_cores(void) {
    static const struct {
        const char *text, *must_have, *must_not_have;
        int mma; /* for sm_80: mma.sync, and TF32 */
    } rows[] = {
        {"graph g(a: bf16[300,72], b: bf16[72,304], c: bf16[304]) { m = matmul a, b\n s = add m, "
         "c\n y = gelu s\n return y }",
         "m64n64k16.f32.bf16.bf16", "stax_kernel_1", 0},
        {"graph g(a: bf16[16,4096], b: bf16[4096,4096]) { y = matmul a, b\n return y }",
         "more[j] = sums[part * all + j];", "xs[2]", 0},
        {"graph g(a: bf16[2,3,300,72], b: bf16[3,72,304]) { y = matmul a, b\n return y }",
         "sx_copy(part + j * 8192, &ymap, &filled[stage], column0 + j * 64, k0, i2, 0);", "xs[2]",
         0},
        {"graph g(a: f16[72,520], b: f16[6144,72]) { x = transpose a\n w = transpose b\n y = "
         "matmul x, w\n return y }",
         "m64n256k16.f32.f16.f16", "xs[2]", 0},
        {"graph g(a: bf16[300,70], b: bf16[70,9000]) { x = relu a\n y = matmul x, b\n return y }",
         "__align__(16) uint16_t w[8];", "xs[2]", 0},
        {"graph g(a: f32[300,72], b: f32[72,304]) { y = matmul a, b\n return y }", "xs[2]", "m64n",
         0},
        {"graph g(a: bf16[300,72], b: bf16[72,304], c: bf16[304]) { m = matmul a, b\n s = add m, "
         "c\n y = gelu s\n return y }",
         "sx_mma_bf16(d", "wgmma", 1},
        {"graph g(a: f16[2,3,300,72], b: f16[3,72,301]) { y = matmul a, b\n return y }",
         "sx_mma_f16(d", "wgmma", 1},
        {"graph g(a: f32[4096,72], b: f32[3000,72]) { w = transpose b\n y = matmul a, w\n return y "
         "}",
         "sx_mma_tf32(d", "wgmma", 1}};
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.tensor_cores = true;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        stax_graph *g = stax_parse(context, "tensor", rows[k].text);
        o.tf32 = rows[k].mma != 0;
        if (rows[k].mma) setenv("STAX_CUDA_MMA", "1", 1);
        char *source = stax_cuda_print_with(g, &o);
        unsetenv("STAX_CUDA_MMA");
        size_t bytes = 0;
        CHECK_HAS(source, rows[k].must_have);
        CHECK(source && strstr(source, rows[k].must_not_have) == NULL);
        const char *architecture = rows[k].mma ? "sm_80" : "sm_90a";
        void *cubin = source ? stax_cuda_cubin(context, source, architecture, &bytes) : NULL;
        if (!cubin) printf("tensor cores: %s\n", stax_error(context));
        CHECK(cubin != NULL && bytes > 500);
        stax_free(context, cubin);
        stax_free(context, source);
        stax_graph_free(g);
    }
}

/* What has no kernel is a step of the host, by its name; cond and loops are the host's. */
static void steps_of_the_host(void) {
    static const struct {
        const char *name, *text;
    } rows[] = {
        {"argsort, by the host", "graph g(x: f32[9]) { y = argsort x\n return y }"},
        {"topk, by the host", "graph g(x: f32[9]) { y, i = topk x {k=2}\n return y }"},
        {"scatter, by the host", "graph g(x: f32[9]) { y = scatter x, 3, 1.5\n return y }"},
        {"stax_kernel_0(",
         "graph g(x: f32[9]) { y = map x { body(a) { b = neg a; return b } }\n return y }"}};
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        stax_graph *g = stax_parse(context, "steps", rows[k].text);
        char *source = stax_cuda_print(g);
        CHECK_HAS(source, rows[k].name);
        CHECK_HAS(source, "/* ---- piece 0");
        stax_free(context, source);
        stax_graph_free(g);
    }
}

static char *source_of(const char *text, const stax_compile_options *o) {
    stax_graph *g = stax_parse(context, "model", text);
    char *source = stax_cuda_print_with(g, o);
    stax_graph_free(g);
    CHECK(source != NULL);
    return source;
}

/* Reductions over monoids are kernels: a thread block a row, or a thread a column of many. */
static void monoids(void) {
    static const struct {
        const char *text, *words;
        bool shared;
    } rows[] = {{"graph g(x: f32[300,5000]) { m, v = welford x {axes=[1]}\n return m, v }",
                 "a block a row over a monoid", true},
                {"graph g(x: f64[300,40]) { m, v = welford x {axes=[1]}\n return m, v }",
                 "a block a row over a monoid", true},
                {"graph g(x: f32[300,9000]) { m, v = welford x {axes=[0]}\n return m, v }",
                 "a thread an iteration", false},
                {"graph g(x: f32[300000]) { y = sum x {compensated=true}\n return y }",
                 "a block a row over a monoid", true},
                {"graph g(x: f32[40,9,70]) { y = sum x {axes=[0,2], compensated=true}\n return y }",
                 "a thread an iteration", false}};
    static const char *const targets[] = {"sm_75", "sm_80", "sm_90"};
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        stax_graph *g = stax_parse(context, "monoids", rows[k].text);
        char *source = stax_cuda_print(g), *words = stax_cuda_explain(g, NULL);
        CHECK_HAS(words, rows[k].words);
        CHECK(source && (strstr(source, " lane_[") != NULL) == rows[k].shared);
        CHECK(source && strstr(source, "by the host") == NULL);
        for (int at = 0; at < 3; at++) {
            size_t bytes = 0;
            void *cubin = source ? stax_cuda_cubin(context, source, targets[at], &bytes) : NULL;
            if (!cubin) printf("monoids: %s\n", stax_error(context));
            CHECK(cubin != NULL && bytes > 500);
            stax_free(context, cubin);
        }
        stax_free(context, source);
        stax_free(context, words);
        stax_graph_free(g);
    }
}

/* Scatters by atomic updates, for each dtype that has some; explain says it. Other modes and dtypes
   are the host's, as all are without the option. */
static void atomic_scatters(void) {
    static const char *const modes[] = {"add", "max", "min"}, *const dtypes[] = {"f32", "f64",
                                                                                 "i32", "u32",
                                                                                 "i64", "u64"},
                             *const targets[] = {"sm_75", "sm_80", "sm_90"};
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.atomics = true;
    char text[2400] = "graph g(i: i64[99]", call[30];
    size_t n = strlen(text);
    for (int t = 0; t < 6; t++)
        n += (size_t)snprintf(text + n, sizeof text - n, ", x%d: %s[9,4], u%d: %s[99,4]", t,
                              dtypes[t], t, dtypes[t]);
    n += (size_t)snprintf(text + n, sizeof text - n, ") {\n");
    for (int k = 0; k < 18; k++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "  y%d = scatter x%d, i, u%d {axis=0,mode=\"%s\"}\n", k, k / 3, k / 3,
                              modes[k % 3]);
    for (int k = 0; k < 18; k++)
        n += (size_t)snprintf(text + n, sizeof text - n, k ? ", y%d" : "  return y%d", k);
    snprintf(text + n, sizeof text - n, "\n}\n");
    char *source = source_of(text, &o);
    for (int k = 0; k < 3; k++) {
        snprintf(call, sizeof call, "  sx_atomic_%s(&b", modes[k]);
        CHECK_HAS(source, call);
        size_t bytes = 0;
        void *cubin = source ? stax_cuda_cubin(context, source, targets[k], &bytes) : NULL;
        if (!cubin) printf("atomics: %s\n", stax_error(context));
        CHECK(cubin != NULL && bytes > 500);
        stax_free(context, cubin);
    }
    CHECK(source && strstr(source, "by the host") == NULL);
    stax_free(context, source);
    stax_graph *g = stax_parse(context, "atomics", text);
    char *words = stax_cuda_explain(g, &o), *host = stax_cuda_explain(g, NULL);
    CHECK_HAS(words, "a thread an update, atomic: floats are added in any order");
    CHECK(words && strstr(words, "host: ") == NULL);
    CHECK_HAS(host, "host: scatter");
    stax_free(context, words);
    stax_free(context, host);
    stax_graph_free(g);
    static const char *const others[] = {
        "graph g(x: i8[9], i: i64[3], u: i8[3]) { y = scatter x, i, u {mode=\"add\"}\n return y "
        "}",
        "graph g(x: f32[9], i: i64[3], u: f32[3]) { y = scatter x, i, u {mode=\"mul\"}\n return y "
        "}",
        "graph g(x: f32[9], i: i64[3], u: f32[3]) { y = scatter x, i, u\n return y }"};
    for (int k = 0; k < 3; k++) {
        source = source_of(others[k], &o);
        CHECK_HAS(source, "scatter, by the host");
        stax_free(context, source);
    }
}

/* Exercise 23 (2): up to eight blocks of 4096 registers hold a row, read once; beyond, or where the
   length is not constant, it is read for each reduction and, without a row area, for the result. */
static void reads_of_long_rows(void) {
    static const char softmax[] = "graph g(x: f32[64,%s]) { y = softmax x {axis=1}\n return y }",
                      norm[] =
                          "graph g(x: f32[64,%s]) { m = mean x {axes=[1],keepdims=true}\n v = "
                          "var x {axes=[1],keepdims=true}\n c = sub x, m\n y = div c, v\n "
                          "return y }",
                      share[] =
                          "graph g(x: f32[64,%s]) { s = sum x {axes=[1],keepdims=true}\n y = "
                          "div x, s\n return y }";
    static const struct {
        const char *text, *length, *reads;
    } rows[] = {{softmax, "1024", "b1 1"},        {softmax, "32768", "b1 1"},
                {softmax, "32769", "b1 2, b3 1"}, {softmax, "n", "b1 2, b3 1"},
                {share, "1024", "b1 1"},          {share, "32768", "b1 1"},
                {share, "32769", "b1 2"},         {share, "n", "b1 2"},
                {norm, "32768", "b1 1"},          {norm, "32769", "b1 3"}};
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        char text[300], reads[60];
        int n = snprintf(text, sizeof text, "%s",
                         rows[k].length[0] == 'n' ? "sizes n: 1..65536\n" : "");
        snprintf(text + n, sizeof text - (size_t)n, rows[k].text, rows[k].length);
        snprintf(reads, sizeof reads, "/* reads of a row from memory: %s */", rows[k].reads);
        stax_graph *g = stax_parse(context, "rows", text);
        char *source = stax_cuda_print(g);
        CHECK_HAS(source, reads);
        stax_free(context, source);
        stax_graph_free(g);
    }
}

/* The number behind the first `before` in the source; -1: it is not there. */
static long number_behind(const char *source, const char *before) {
    const char *at = source ? strstr(source, before) : NULL;
    return at ? strtol(at + strlen(before), NULL, 10) : -1;
}

/* Exercise 22, Little's law: to be read at 4.8 TB/s with a latency of 0.6 us, 132 multiprocessors
   need 21.8 KB in flight each. Maps have 16 bytes a thread, with 2048 threads at once; a row in
   registers has all its loads, by as many blocks at once as the compiler must leave registers for.
 */
static void reads_in_flight(void) {
    const double need = 4.8e12 * 0.6e-6 / 132.0;
    static const int lengths[] = {1024, 2048, 4096, 8192, 16384, 32768};
    CHECK(need / (32.0 * 32.0 * 16.0) > 1.0 && need / (64.0 * 32.0 * 16.0) < 1.0);
    char *source = source_of("graph g(x: f32[8192,8192]) { y = sin x\n return y }", NULL);
    CHECK_INT(number_behind(source, "__launch_bounds__("), 256); /* divides 2048 */
    CHECK_HAS(source, "sx_take(");
    stax_free(context, source);
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        char text[120];
        snprintf(text, sizeof text,
                 "graph g(x: f32[4096,%d]) { y = softmax x {axis=1}\n return y }", lengths[k]);
        source = source_of(text, NULL);
        const char *bounds = source ? strstr(source, "__launch_bounds__(") : NULL;
        const long threads = number_behind(bounds, "__launch_bounds__("),
                   blocks = number_behind(bounds, ", "), each = number_behind(bounds, "float x0[");
        CHECK(threads > 0 && blocks > 0 && threads * blocks <= 2048);
        CHECK(each * threads >= lengths[k]);
        CHECK((double)(threads * blocks * each * 4) >= need);
        stax_free(context, source);
    }
}

/* Rows and columns of operands that the first `at_once` tiles of high x wide read, in bands of so
   many rows: as kernels have it, see tiles_in_bands. */
static int operands_at_once(int at_once, int high, int wide, int rows) {
    char row[64] = {0}, column[64] = {0};
    int n = 0;
    for (int tile = 0; tile < at_once; tile++) {
        const int band = tile / (wide * rows) * rows,
                  lines = rows < high - band ? rows : high - band, spot = tile - band * wide,
                  i = band + spot % lines, j = spot / lines;
        n += !row[i] + !column[j];
        row[i] = column[j] = 1;
    }
    return n;
}

/* Exercise 35 (1), and that kernels have this order, with bands that are no worse than rows. */
static void tiles_in_bands(void) {
    char *source = source_of(
        "graph g(a: f32[2048,512], b: f32[512,2048]) { y = matmul a, b\n return y }", NULL);
    CHECK_INT(operands_at_once(24, 16, 16, 1), 18);
    CHECK_INT(operands_at_once(24, 16, 16, 4), 10);
    CHECK_INT(operands_at_once(24, 16, 16, 8), 11);
    const int rows = (int)number_behind(source, "const int64_t band = tile / (wide * ");
    char formula[200];
    snprintf(formula, sizeof formula,
             "band = tile / (wide * %d) * %d, lines = sx_imin(%d, high - band), spot = tile - band "
             "* wide;",
             rows, rows, rows);
    CHECK_HAS(source, formula);
    CHECK_HAS(source, "row0 = (band + spot % lines) * ");
    CHECK_HAS(source, "column0 = spot / lines * ");
    if (CHECK(rows > 0)) {
        CHECK_INT(operands_at_once(24, 16, 16, rows), 11);
        CHECK(operands_at_once(132, 32, 32, rows) < operands_at_once(132, 32, 32, 1));
    }
    stax_free(context, source);
}

/* The least order n of square matrices whose product takes as long as moving each of them once: 2
   n^3 operations, n^2 elements of `operand` bytes twice and of `result` bytes. */
static int least_order(double operations, double bandwidth, int operand, int result) {
    int n = 1;
    while (2.0 * n / operations < (2.0 * operand + result) / bandwidth) n++;
    return n;
}

/* Exercise 40 (1): an H100, 989 TFLOP/s in bf16, twice that in FP8, and 3.35 TB/s. With all in FP8
   half the bytes meet twice the rate: the order stays. Results of 16 bits ask for more. */
static void orders_of_fp8(void) {
    CHECK_INT(least_order(989e12, 3.35e12, 2, 2), 886);
    CHECK_INT(least_order(2 * 989e12, 3.35e12, 1, 1), 886);
    CHECK_INT(least_order(2 * 989e12, 3.35e12, 1, 2), 1181);
}

/* Exercise 40 (2): a stage of 128 x 128 x 128 bytes is 32 KB, and at most 7 of them lie in 227 KB
   (228, of which the system keeps one). Ours have 128 bytes of k too, of f16 or bf16. */
static void stages_fit(void) {
    enum { ROOM = 227 * 1024 };
    static const struct {
        const char *text, *instruction;
        long columns;
    } rows[] = {{"graph g(a: bf16[4096,4096], b: bf16[4096,4096]) { y = matmul a, b\n return y }",
                 "m64n256k16", 256},
                {"graph g(a: bf16[1024,4096], b: bf16[4096,2048]) { y = matmul a, b\n return y }",
                 "m64n128k16", 128},
                {"graph g(a: bf16[128,4096], b: bf16[4096,512]) { y = matmul a, b\n return y }",
                 "m64n64k16", 64}};
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.tensor_cores = true;
    CHECK_INT(ROOM / ((128 + 128) * 128), 7);
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        char *source = source_of(rows[k].text, &o);
        const long stages = number_behind(source, "uint64_t filled[");
        CHECK_HAS(source, rows[k].instruction);
        CHECK(stages >= 3 && stages <= ROOM / ((128 + rows[k].columns) * 128));
        stax_free(context, source);
    }
}

static void random_graphs(void) {
    static recipe r;
    for (int64_t k = 0; k < n_random; k++) {
        char what[40];
        recipe_make(&r, (uint64_t)(first_seed + k));
        snprintf(what, sizeof what, "seed %lld", (long long)(first_seed + k));
        stax_graph *g = recipe_build(&r, context, NULL);
        if (CHECK(g && stax_ok(g))) check_graph(g, what, 1);
        stax_graph_free(g);
    }
}

static void no_device_is_a_message(void) {
    if (stax_cuda_available(context) == STAX_OK) {
        SKIP("there is a device");
        return;
    }
    CHECK_INT(stax_error_status(context), STAX_E_DEVICE);
    CHECK_HAS(stax_error(context), "CUDA");
    CHECK(stax_cuda_open(context, 0) == NULL);
    CHECK_INT(stax_cuda_device_count(context), 0);
    stax_cuda_close(NULL);
    stax_cuda_program_free(NULL);
}

static void bad_source_is_a_message(void) {
    size_t bytes;
    CHECK(stax_cuda_cubin(context, "this is not CUDA", "sm_90", &bytes) == NULL);
    CHECK_INT(stax_error_status(context), STAX_E_COMPILER);
    CHECK_HAS(stax_error(context), "NVRTC");
}

static int64_t option(int argc, char **argv, const char *name, int64_t otherwise) {
    size_t n = strlen(name);
    for (int k = 1; k < argc; k++)
        if (strncmp(argv[k], name, n) == 0)
            return argv[k][n] == '=' ? strtoll(argv[k] + n + 1, NULL, 10) : 1;
    return otherwise;
}

int main(int argc, char **argv) {
    size_t bytes;
    int plain = 1;
    while (plain < argc && strncmp(argv[plain], "--", 2) != 0) plain++;
    n_random = option(argc, argv, "--count", n_random);
    first_seed = option(argc, argv, "--seed", first_seed);
    show = option(argc, argv, "--print", 0);
    HARNESS_BEGIN(plain, argv);
    context = stax_open(NULL);
    if (!context) return 1;
    RUN(no_device_is_a_message);
    RUN(steps_of_the_host);
    RUN(reads_of_long_rows);
    RUN(reads_in_flight);
    RUN(tiles_in_bands);
    RUN(orders_of_fp8);
    RUN(stages_fit);
    void *cubin = stax_cuda_cubin(context, "__global__ void f() {}", "sm_80", &bytes);
    if (cubin) {
        stax_free(context, cubin);
        RUN(bad_source_is_a_message);
        RUN(kinds_of_kernels);
        RUN(tensor_cores);
        RUN(monoids);
        RUN(atomic_scatters);
        RUN(elementwise_ops);
        RUN(random_graphs);
    } else {
        printf("skip cuda_compile: %s\n", stax_error(context));
    }
    stax_close(context);
    return HARNESS_END();
}
