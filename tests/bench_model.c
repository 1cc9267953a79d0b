/* What the models say about programs, without measuring anything: bytes and rho of table 13.1
   (P 1.1, P 13.3), formulas in the size symbols, write-allocate, the roofline, graphs with regions.
 */
#include "harness.h"
#include "stax.h"

#include <math.h>
#include <stdlib.h>

static stax_context *ctx;

static stax_program *program(const char *text) {
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.strict = true;
    stax_graph *g = stax_parse(ctx, "model", text);
    stax_program *p = g ? stax_compile(g, &o) : NULL;
    if (!CHECK(p != NULL)) printf("%s\n%s\n", text, stax_error(ctx));
    stax_graph_free(g);
    return p;
}

static stax_figures figures(const char *text) {
    stax_figures f;
    memset(&f, 0, sizeof f);
    stax_program *p = program(text);
    if (p) CHECK_INT(stax_program_figures(p, NULL, &f), STAX_OK);
    stax_program_free(p);
    return f;
}

/* Rows of table 13.1, and what each moves: multiples of N elements, and of the `rows` numbers that
   rows are reduced to. */
typedef struct row {
    const char *text;
    double rho;
    double n, rows;             /* of the input                          */
    double eager_n, eager_rows; /* op by op                              */
    double compiled_n, compiled_rows;
} row;

#define X "x: f32[8192,2048]"
static const row table[] = {
    {"graph g(" X ", w: f32[8192,2048]) { a = add x, w; b = relu a; c = mul b, 2.0; y = sum c "
     "{axes=[-1]}; return y }",
     4.0, 8192.0 * 2048.0, 8192.0, 8, 1, 2, 1},
    {"graph g(" X ") { s = sum x {axes=[-1], keepdims=true}; y = div x, s; return y }", 1.5,
     8192.0 * 2048.0, 8192.0, 3, 2, 2, 0},
    {"graph g(x: f32[16384,1000]) { m = max x {axes=[-1], keepdims=true}; a = sub x, m; e = exp a; "
     "s = sum e {axes=[-1], keepdims=true}; y = div e, s; return y }",
     4.0, 16384.0 * 1000.0, 16384.0, 8, 4, 2, 0},
    {"graph g(x: f32[16384,1000]) { y = softmax x; return y }", 1.0, 16384.0 * 1000.0, 16384.0, 2,
     0, 2, 0},
    {"graph g(" X
     ") { e = exp x; s = sum e {axes=[-1]}; f = exp x; m = max f {axes=[-1]}; return s, "
     "m }",
     6.0, 8192.0 * 2048.0, 8192.0, 6, 2, 1, 2},
    {"graph g(" X ") { a = layer_norm x; b = gelu a; y = mul b, 0.5; return y }", 3.0,
     8192.0 * 2048.0, 8192.0, 6, 0, 2, 0},
    {"graph g(" X ") { y = exp x; return y }", 1.0, 8192.0 * 2048.0, 8192.0, 2, 0, 2, 0},
    {"graph g(" X ") { y = sum x {axes=[-1]}; return y }", 1.0, 8192.0 * 2048.0, 8192.0, 1, 1, 1,
     1}};

static void rho_of_table_13_1(void) {
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        const row *r = &table[k];
        const stax_figures f = figures(r->text);
        CHECK_FLOAT(f.bytes, 4.0 * (r->compiled_n * r->n + r->compiled_rows * r->rows));
        CHECK_FLOAT(f.eager_bytes, 4.0 * (r->eager_n * r->n + r->eager_rows * r->rows));
        CHECK_FLOAT(f.bytes, f.bound_bytes); /* all of them reach the bound of P 1.1 */
        CHECK(fabs(f.eager_bytes / f.bytes - r->rho) < 0.01);
    }
}

/* Exercise 34 (3): a store into a line that is not in the cache fetches it first. */
static void writes_allocate(void) {
    const double n = 4.0 * 1000.0;
    stax_figures f = figures("graph g(x: f32[1000]) { y = exp x; return y }");
    CHECK_FLOAT(f.bytes, 2.0 * n);
    CHECK_FLOAT(f.allocates, n);
    /* a state that is read where it is written has its lines already */
    f = figures("graph g(inout p: f32[1000]) { q = mul p, 0.5; assign p, q }");
    CHECK_FLOAT(f.allocates, 0.0);
    /* example 1.1: 3 N of its 8 N are written op by op; if a written byte costs 1.5, rho is 9.5 / 2
     */
    f = figures(table[0].text);
    CHECK_FLOAT(f.eager_allocates, 4.0 * (3.0 * table[0].n + table[0].rows));
    CHECK(fabs((f.eager_bytes + 0.5 * f.eager_allocates) / (f.bytes + 0.5 * f.allocates) - 4.75) <
          0.01);
}

static void eager_counts_ops_of_the_user(void) {
    stax_figures f = figures("graph g(x: f32[100]) { a = mul x, x; return a }");
    CHECK_FLOAT(f.eager_bytes, 800.0); /* x is read once */
    f = figures(
        "graph g(x: f32[10,10]) { a = transpose x; b = reshape a {shape=[100]}; c = neg b; "
        "return c }");
    CHECK_FLOAT(f.eager_bytes, 800.0); /* views are free */
    f = figures("graph g(x: f32[1,10]) { a = expand x {shape=[100,10]}; b = neg a; return b }");
    CHECK_FLOAT(f.eager_bytes, 4040.0); /* what is repeated is read once */
    f = figures("graph g(t: f32[1000,10], i: i64[5]) { y = gather t, i; return y }");
    CHECK_FLOAT(f.eager_bytes, 200.0 + 40.0 + 200.0); /* the rows that are picked */
    f = figures("graph g(x: f32[100]) { a = add x, 1.0; b = add x, 1.0; c = mul a, b; return c }");
    CHECK_FLOAT(f.eager_bytes, 2 * 800.0 + 1200.0); /* nobody merges equal ops */
    CHECK(stax_op_is_work("relu") && stax_op_is_work("concat") && stax_op_is_work("softmax"));
    CHECK(!stax_op_is_work("reshape") && !stax_op_is_work("const") && !stax_op_is_work("barrier"));
    CHECK(!stax_op_is_work("no such op"));
}

static void formulas_give_the_figures(void) {
    static const int64_t sizes[] = {1, 7, 1024, 65536};
    stax_program *p = program(
        "sizes n: 1..65536\n"
        "graph g(x: f32[n,2048], w: f32[n,2048]) { a = add x, w; b = relu a; c = mul b, 2.0; y = "
        "sum c {axes=[-1]}; return y }");
    if (!p) return;
    for (int k = 0; k < 4; k++) {
        const int64_t n = sizes[k];
        char bytes[64], flops[64];
        char *json = stax_program_report_at(p, STAX_REPORT_EXPLAIN_JSON, &n);
        snprintf(bytes, sizeof bytes, "\"bytes\": %lld,", (long long)(n * 16388));
        snprintf(flops, sizeof flops, "\"flops\": %lld,", (long long)(n * 2048 * 4));
        CHECK_HAS(json, "\"bytes_formula\": \"n*16388\"");
        CHECK_HAS(json, "\"allocates_formula\": \"n*4\"");
        CHECK_HAS(json, "\"flops_formula\": \"n*8192\"");
        CHECK_HAS(json, "\"intensity_formula\": \"(n*8192) / (n*16388)\"");
        CHECK_HAS(json, bytes);
        CHECK_HAS(json, flops);
        stax_free(ctx, json);
    }
    /* figures for tensors: the sizes are theirs */
    stax_tensor in[2];
    in[0] = in[1] = stax_tensor_of(STAX_F32, stax_shape2(10, 2048), &in);
    stax_figures f;
    CHECK_INT(stax_program_figures(p, in, &f), STAX_OK);
    CHECK_FLOAT(f.bytes, 163880.0);
    CHECK_FLOAT(f.eager_bytes, 4.0 * (8 * 10 * 2048 + 10));
    stax_kernel_info k;
    CHECK(stax_program_kernel(p, 0, in, &k));
    CHECK_FLOAT(k.work.reads, 2 * 10 * 2048 * 4.0);
    CHECK_FLOAT(k.work.writes, 40.0);
    CHECK_FLOAT(k.work.working_set, 163880.0);
    CHECK_HAS(k.ops, "sum");
    CHECK(!stax_program_kernel(p, 1, in, &k));
    CHECK(!stax_program_kernel(p, -1, in, &k));
    stax_program_free(p);
}

static void figures_beyond_64_bits_are_zero(void) {
    stax_program *p = program("sizes n\ngraph g(x: f32[n,n]) { y = matmul x, x; return y }");
    const int64_t n = 3000000, small = 8; /* n^3 is too much, n^2 is not */
    char *json = p ? stax_program_report_at(p, STAX_REPORT_EXPLAIN_JSON, &n) : NULL;
    CHECK_HAS(json, "\"flops\": 0,");
    CHECK_HAS(json, "\"bytes\": 72000000000000,");
    stax_free(ctx, json);
    json = p ? stax_program_report_at(p, STAX_REPORT_EXPLAIN_JSON, &small) : NULL;
    CHECK_HAS(json, "\"flops\": 1024,");
    stax_free(ctx, json);
    float x[64] = {0}, y[64];
    stax_tensor in = stax_tensor_of(STAX_F32, stax_shape2(8, 8), x), out = in;
    out.data = y;
    if (p) CHECK_INT(stax_run(p, &in, &out), STAX_OK); /* the program is none the worse */
    stax_program_free(p);
}

static void contractions_have_their_bound(void) {
    stax_program *p =
        program("graph g(a: f32[6,4096,512], b: f32[6,512,1024]) { c = matmul a, b; return c }");
    char *json = p ? stax_program_report(p, STAX_REPORT_EXPLAIN_JSON) : NULL;
    CHECK_HAS(json, "{\"m\": 4096, \"n\": 1024, \"k\": 512, \"batch\": 6, \"levels\": [{\"level\"");
    stax_free(ctx, json);
    stax_program_free(p);
}

/* ---- the roofline ---- */

static void roofline(void) {
    stax_machine m;
    stax_work w;
    memset(&m, 0, sizeof m);
    m.threads = 2;
    m.n_levels = 3;
    m.levels[0].bytes = 1000; /* of each core */
    m.levels[0].read = 100;
    m.levels[1].bytes = 5000;
    m.levels[1].is_shared = true;
    m.levels[1].read = 50;
    m.levels[2].read = 10;
    m.flops = 400;
    memset(&w, 0, sizeof w);
    w.reads = 600;
    w.writes = 200;
    w.allocates = 200;
    w.flops = 4000;
    w.working_set = 800;
    stax_prediction r = stax_predict(&m, &w);
    CHECK_FLOAT(r.seconds, 10.0);
    CHECK_INT(r.level, 0);
    CHECK(!r.is_peak);
    w.flops = 8000;
    r = stax_predict(&m, &w);
    CHECK_FLOAT(r.seconds, 20.0);
    CHECK(r.is_peak);
    w.working_set = 2000; /* still in the first caches of two cores */
    CHECK_INT(stax_predict(&m, &w).level, 0);
    w.working_set = 2001;
    r = stax_predict(&m, &w);
    CHECK_INT(r.level, 1);
    CHECK_FLOAT(r.seconds, 20.0);
    w.working_set = 5001; /* two cores share this one */
    r = stax_predict(&m, &w);
    CHECK_INT(r.level, 2);
    CHECK_FLOAT(r.seconds, 100.0);
    CHECK(!r.is_peak);
    m.unfused = 100; /* 6000 of 8000 are no products of a contraction: 5 + 60 s */
    m.divisions = 10;
    w.working_set = 800;
    w.unfused = 6000;
    r = stax_predict(&m, &w);
    CHECK_FLOAT(r.seconds, 65.0);
    CHECK_FLOAT(r.flops_per_second, 8000.0 / 65.0);
    w.divisions = 700;
    r = stax_predict(&m, &w);
    CHECK_FLOAT(r.seconds, 70.0);
    CHECK(r.is_peak);
}

/* A product's multiplication and addition are fused; a map's, a sum's and a quotient's are not. */
static void work_is_told_apart(void) {
    static const struct {
        const char *text;
        double flops, unfused, divisions;
    } of[] = {
        {"graph g(a: f32[64,32], b: f32[32,48]) { y = matmul a, b; return y }", 2.0 * 64 * 32 * 48,
         0, 0},
        {"graph g(a: f32[64,32], b: f32[32,48]) { m = matmul a, b; y = tanh m; return y }",
         2.0 * 64 * 32 * 48 + 38 * 64 * 48, 38 * 64 * 48, 64 * 48},
        {"graph g(a: f32[64,32]) { m = mul a, a; s = sum m {axes=[1], keepdims=true}; y = div a, "
         "s; return y }",
         3 * 64 * 32, 3 * 64 * 32, 64 * 32},
    };
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        stax_program *p = program(of[k].text);
        stax_kernel_info info;
        stax_work w;
        memset(&w, 0, sizeof w);
        if (!p) continue;
        for (int n = 0; stax_program_kernel(p, n, NULL, &info); n++) {
            w.flops += info.work.flops;
            w.unfused += info.work.unfused;
            w.divisions += info.work.divisions;
        }
        CHECK_FLOAT(w.flops, of[k].flops);
        CHECK_FLOAT(w.unfused, of[k].unfused);
        CHECK_FLOAT(w.divisions, of[k].divisions);
        stax_program_free(p);
    }
}

static void machines_are_known_or_guessed(void) {
    for (int threads = 1; threads <= 4; threads *= 2) {
        stax_machine m;
        stax_machine_of(ctx, threads, &m);
        CHECK_INT(m.threads, threads);
        CHECK(m.n_levels >= 2 && m.n_levels <= STAX_MACHINE_LEVELS);
        CHECK_TEXT(m.levels[m.n_levels - 1].name, "memory");
        CHECK(m.flops > 0.0 && *m.cpu);
        for (int k = 0; k < m.n_levels; k++) {
            CHECK(m.levels[k].read > 0.0 && m.levels[k].write > 0.0 && m.levels[k].copy > 0.0);
            if (k) CHECK(k + 1 == m.n_levels || m.levels[k].bytes > m.levels[k - 1].bytes);
        }
    }
}

/* What is measured is kept, and measuring again keeps the better figures. */
static void probing_is_kept(void) {
    stax_machine measured, known, again;
    if (!CHECK_INT(stax_machine_probe(ctx, 1, &measured), STAX_OK)) {
        printf("%s\n", stax_error(ctx));
        return;
    }
    CHECK(measured.is_measured && measured.flops > 1e6 && measured.unfused > 1e6);
    CHECK(measured.divisions > 1e5 && measured.divisions < measured.unfused);
    for (int k = 0; k < measured.n_levels; k++) {
        CHECK(measured.levels[k].read > 1e6 && measured.levels[k].read < 1e14);
        CHECK(measured.levels[k].write > 1e6 && measured.levels[k].copy > 1e6);
    }
    stax_machine_of(ctx, 1, &known);
    CHECK(known.is_measured);
    CHECK_BYTES(&known, &measured, sizeof known);
    CHECK_INT(stax_machine_probe(ctx, 1, &again), STAX_OK);
    CHECK(again.flops >= measured.flops && again.levels[0].read >= measured.levels[0].read);
    CHECK_INT(stax_machine_probe(ctx, 1000, &again), STAX_E_ARGUMENT);
    CHECK_INT(stax_machine_probe(NULL, 1, &again), STAX_E_ARGUMENT);
    stax_machine_of(NULL, 1, &known); /* no context: guesses */
    CHECK(!known.is_measured && known.flops > 0.0);
}

/* ---- regions ---- */

static void regions_have_figures(void) {
    const char *text =
        "graph g(x: f32[64,64], n: i64[]) { y = loop n, x { body(i: i64[], a: f32[64,64]) { b = "
        "exp "
        "a; return b } }; return y }";
    stax_program *p = program(text);
    if (!p) return;
    stax_figures f;
    CHECK_INT(stax_program_figures(p, NULL, &f), STAX_OK);
    CHECK(f.kernels >= 1 && f.bytes >= 2 * 64 * 64 * 4.0 && f.flops > 0.0);
    CHECK_FLOAT(f.eager_bytes, 0.0);
    char *json = stax_program_report(p, STAX_REPORT_EXPLAIN_JSON);
    static const char *const parts[] = {"{\"kernels\": [{\"name\": \"kernel 0\"", "\"fusions\": [",
                                        "\"rho\": null", "\"steps\": [", "\"workspace_bytes\": "};
    for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) CHECK_HAS(json, parts[k]);
    stax_free(ctx, json);
    stax_program_free(p);
}

/* ---- kernels one by one ---- */

static double ticks;
static double tick(void) { return ticks += 1.0; } /* every reading is one later */

static stax_program *timed(const char *text) {
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.strict = o.by_kernel = true;
    stax_graph *g = stax_parse(ctx, "timed", text);
    stax_program *p = g ? stax_compile(g, &o) : NULL;
    if (!CHECK(p != NULL)) printf("%s\n", stax_error(ctx));
    stax_graph_free(g);
    return p;
}

/* The same bits as in one call, whole or kernel by kernel, with and without size symbols. */
static void kernels_one_by_one_give_the_same_bits(void) {
    static const char *const texts[] = {
        "graph g(x: f32[50,40]) { s = sum x {axes=[0]}; b = barrier s; e = exp b; c = barrier e; y "
        "= "
        "mul x, c; return y, s }",
        "sizes n: 1..100\ngraph g(x: f32[n,40]) { s = sum x {axes=[0]}; b = barrier s; e = exp b; "
        "c = "
        "barrier e; y = mul x, c; return y, s }"};
    for (int k = 0; k < 2; k++) {
        static float x[2000], y[3][2000], s[3][40];
        double ns[8] = {0};
        int64_t calls[8] = {0};
        stax_program *plain = program(texts[k]), *p = timed(texts[k]);
        if (!plain || !p) return;
        for (int i = 0; i < 2000; i++) x[i] = (float)(i % 37) / 100.0f - 0.15f;
        stax_tensor in = stax_tensor_of(STAX_F32, stax_shape2(50, 40), x), out[3][2];
        for (int r = 0; r < 3; r++) {
            out[r][0] = stax_tensor_of(STAX_F32, stax_shape2(50, 40), y[r]);
            out[r][1] = stax_tensor_of(STAX_F32, stax_shape1(40), s[r]);
        }
        CHECK_INT(stax_run(plain, &in, out[0]), STAX_OK);
        CHECK_INT(stax_run(p, &in, out[1]), STAX_OK);
        CHECK_INT(stax_program_profile(p, &in, out[2], tick, ns, calls), STAX_OK);
        for (int r = 1; r < 3; r++) {
            CHECK_BYTES(y[r], y[0], sizeof y[0]);
            CHECK_BYTES(s[r], s[0], sizeof s[0]);
        }
        stax_figures f;
        CHECK_INT(stax_program_figures(p, &in, &f), STAX_OK);
        CHECK(f.kernels > 1);
        for (int i = 0; i < 8; i++) {
            CHECK_INT(calls[i], i < f.kernels);
            CHECK_FLOAT(ns[i], i < f.kernels ? 1.0 : 0.0);
        }
        CHECK_INT(stax_program_profile(plain, &in, out[0], tick, ns, calls), STAX_E_ARGUMENT);
        CHECK_INT(stax_program_profile(p, &in, out[0], NULL, ns, calls), STAX_OK);
        stax_program_free(plain);
        stax_program_free(p);
    }
}

/* A failing check stops the kernels behind it. */
static void checks_stop_kernels_too(void) {
    stax_program *p = timed(
        "graph g(x: f32[10], i: i64[3]) { y = gather x, i; b = barrier y; z = exp b; return z }");
    float x[10] = {0}, z[3];
    int64_t i[3] = {0, 10, 2}, calls[8] = {0};
    double ns[8];
    stax_tensor in[2], out = stax_tensor_of(STAX_F32, stax_shape1(3), z);
    in[0] = stax_tensor_of(STAX_F32, stax_shape1(10), x);
    in[1] = stax_tensor_of(STAX_I64, stax_shape1(3), i);
    if (!p) return;
    CHECK_INT(stax_program_profile(p, in, &out, tick, ns, calls), STAX_E_INDEX);
    CHECK_HAS(stax_error(ctx), "index 10 is out of range for an axis of size 10");
    i[1] = 9;
    CHECK_INT(stax_program_profile(p, in, &out, tick, ns, calls), STAX_OK);
    stax_program_free(p);
}

static void regions_count_their_trips(void) {
    stax_program *p = timed(
        "sizes m\ngraph g(x: f32[m], n: i64[]) { y = loop n, x { body(i: i64[], a: f32[m]) { b = "
        "mul a, 2.0; return b } }; z = neg y; return z }");
    float x[4] = {1, 2, 3, 4}, z[4];
    int64_t n = 5, calls[8] = {0};
    double ns[8] = {0};
    stax_tensor in[2], out = stax_tensor_of(STAX_F32, stax_shape1(4), z);
    in[0] = stax_tensor_of(STAX_F32, stax_shape1(4), x);
    in[1] = stax_tensor_of(STAX_I64, stax_shape0(), &n);
    if (!p) return;
    CHECK_INT(stax_run(p, in, &out), STAX_OK);
    CHECK_FLOAT(z[3], -128.0);
    CHECK_INT(stax_program_profile(p, in, &out, tick, ns, calls), STAX_OK);
    CHECK_FLOAT(z[3], -128.0);
    int trips = 0, once = 0, others = 0, kernels = 0;
    stax_kernel_info info;
    while (stax_program_kernel(p, kernels, in, &info)) {
        CHECK_FLOAT(info.work.reads, 16.0);
        kernels++;
    }
    for (int k = 0; k < 8; k++) {
        trips += calls[k] == 5;
        once += calls[k] == 1;
        others += calls[k] != 5 && calls[k] != 1 && calls[k] != 0;
    }
    CHECK_INT(kernels, 2);
    CHECK_INT(trips, 1);
    CHECK_INT(once, 1);
    CHECK_INT(others, 0);
    stax_program_free(p);
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    ctx = stax_open(NULL);
    if (!ctx) return 1;
    RUN(rho_of_table_13_1);
    RUN(writes_allocate);
    RUN(eager_counts_ops_of_the_user);
    RUN(formulas_give_the_figures);
    RUN(figures_beyond_64_bits_are_zero);
    RUN(contractions_have_their_bound);
    RUN(roofline);
    RUN(work_is_told_apart);
    RUN(machines_are_known_or_guessed);
    RUN(probing_is_kept);
    RUN(regions_have_figures);
    RUN(kernels_one_by_one_give_the_same_bits);
    RUN(checks_stop_kernels_too);
    RUN(regions_count_their_trips);
    stax_close(ctx);
    return HARNESS_END();
}
