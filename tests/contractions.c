/* Contractions in tiles: sizes around the edges of tiles, panels, lanes and blocks, every way an
   operand can lie, what joins the store of a tile - under every compiler, ISA level and number of
   threads the bits of the interpreter.

       contractions [filter ...]      names are COMPILER_ISA_THREADS, such as gcc_avx2_1 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAX_IMPLEMENTATION
#include "../stax.h"

#include "feed.h"
#include "harness.h"
#include "heap.h"

/* clang-format off */
static const char *const graphs[] = {
    /* one program for all sizes, with both orders of each operand in memory */
    "sizes m, n, k\n"
    "graph any(a: f32[m,k], b: f32[k,n], c: f32[k,m], d: f32[n,k]) {\n"
    "  e = matmul a, b; f = dot c, d {lhs_contract=[0], rhs_contract=[1]}; return e, f\n}",
    "sizes m, n, k\n"
    "graph any64(a: f64[m,k], b: f64[k,n]) { e = matmul a, b; f = relu e; return f\n}",
    /* fixed sizes on both sides of every edge */
    "graph e1(a: f32[13,17], b: f32[17,16]) { c = matmul a, b; return c }",
    "graph e2(a: f32[14,16], b: f32[16,32]) { c = matmul a, b; return c }",
    "graph e3(a: f32[15,15], b: f32[15,33]) { c = matmul a, b; return c }",
    "graph e4(a: f32[29,64], b: f32[64,48]) { c = matmul a, b; return c }",
    "graph e5(a: f32[2,100], b: f32[100,65]) { c = matmul a, b; return c }",
    "graph e6(a: f32[1,300], b: f32[300,2100]) { c = matmul a, b; return c }",
    "graph e7(a: f32[257,31], b: f32[31,255]) { c = matmul a, b; return c }",
    "graph e8(a: f32[100,128], b: f32[128,256]) { c = matmul a, b; return c }",
    "graph e9(a: f64[27,33], b: f64[33,17]) { c = matmul a, b; return c }",
    /* blocks of 4096 */
    "graph k1(a: f32[3,4096], b: f32[4096,5]) { c = matmul a, b; return c }",
    "graph k2(a: f32[17,4097], b: f32[4097,33]) { c = matmul a, b; return c }",
    "graph k3(a: f32[16,8193], b: f32[8193,16]) { c = matmul a, b; return c }",
    "graph k4(a: f32[1,8200], b: f32[8200,40]) { c = matmul a, b; return c }",
    "graph k5(a: f64[5,12288], b: f64[12288,7]) { c = matmul a, b; return c }",
    /* axes: batches, broadcast batches, several free and contracted axes, permuted results */
    "graph b1(a: f32[3,19,23], b: f32[3,23,35]) { c = matmul a, b; return c }",
    "graph b2(a: f32[2,3,5,40], b: f32[3,40,33]) { c = matmul a, b; return c }",
    "graph b3(a: f32[4,1,9,20], b: f32[5,20,18]) { c = matmul a, b; d = relu c; return d, c }",
    "graph b4(a: f32[6,5,7], b: f32[7,5,9,4]) { c = einsum a, b {equation=\"mik,kinj->jnm\"}; return c }",
    "graph b5(a: f32[6,20,7], b: f32[6,7,30]) { c = einsum a, b {equation=\"bmk,bkn->nbm\"}; d = neg c; return d }",
    "graph b6(a: f32[12,20], b: f32[20,31]) { c = matmul a, b; d = transpose c; e = mul d, 2.0; return e }",
    "graph b7(a: f32[9,11], b: f32[8,9,6]) { c = dot a, b {lhs_contract=[0], rhs_contract=[1]}; return c }",
    "graph b8(a: f32[40,24] strided, b: f32[24,50] strides [1,24]) { c = matmul a, b; return c }",
    "graph b9(x: f32[33,64], w: f32[70,64], s: f32[70]) { y = linear x, w, s; z = gelu y; return z }",
    /* operands that are computed while they are packed */
    "graph o1(a: bf16[21,37], b: bf16[37,45]) { c = matmul a, b; return c }",
    "graph o2(a: f16[21,37], b: f32[37,45]) { c = cast a {dtype=f32}; d = neg b; e = matmul c, d; return e }",
    "graph o3(q: i8[40,48], s: f32[48], x: f32[30,40]) {\n"
    "  w = cast q {dtype=f32}; v = mul w, s; y = matmul x, v; return y\n}",
    "graph o4(a: f32[32,32], b: f32[32,32]) { c = tril a; d = matmul c, b; e = matmul d, a; return e }",
    "graph o5(a: f32[10,20], b: f32[30,20]) {\n"
    "  p = pad a {low=[1,2], high=[2,1]}; c = concat b, b {axis=0}; d = slice c {starts=[5,none], stops=[28,none]}\n"
    "  e = pad d {low=[0,1], high=[0,2], mode=\"reflect\"}; f = dot p, e {lhs_contract=[1], rhs_contract=[1]}; return f\n}",
    "graph o6(a: f32[9,16], i: i32[24], b: f32[16,20]) { c = gather a, i; d = matmul c, b; return d }",
    /* what is computed where a tile is stored */
    "graph s1(a: f32[30,20], b: f32[20,50], c: f32[50], r: f32[30,50], s: f32[30,1]) {\n"
    "  d = matmul a, b; e = add d, c; f = silu e; g = add f, r; h = mul g, s; i = cast h {dtype=bf16}; return i, e\n}",
    "graph s2(a: f32[20,20], b: f32[20,33]) { c = matmul a, b; d = cast c {dtype=i32}; e = gt c, 0.0; return d, e, c }",
    "graph s3(a: f32[40,24], b: f32[24,64]) { c = matmul a, b; d = softmax c; e = sum c {axes=0}; return d, e }",
    "graph s4(inout p: f32[20,20], b: f32[20,20]) { c = matmul p, b; d = add c, p; assign p, d; e = matmul p, b; return e }",
    "graph s6(inout p: f32[20,30] strided, a: f32[20,20], b: f32[20,30]) { c = matmul a, b; assign p, c; d = add p, c; return d }",
    "graph s5(a: f32[20,40], b: f32[40,24], w: f32[24,18]) { c = matmul a, b; d = relu c; e = matmul d, w; f = add e, 1.0; return f }",
    "graph u1(a: f32[20,40], b: f32[40,24]) {contraction=\"unfused\"} { c = matmul a, b; return c }",
    "graph i1(a: i8[20,40], b: i8[40,24]) { c = matmul a, b {dtype=i32}; return c }",
    "graph i2(a: u8[29,33], w: i8[37,33], s: f32[37]) {\n"
    "  c = linear a, w {dtype=i32}; d = cast c {dtype=f32}; e = mul d, s; return e, c\n}",
    "graph i3(a: i64[5,4100], b: i64[4100,9]) { c = matmul a, b; return c }",
    "graph i4(a: u32[2,16,16], b: u32[2,16,64]) { c = matmul a, b; d = bitwise_not c; return d }",
    "graph i5(a: i16[20,40], b: i16[40,24]) { c = matmul a, b; return c }",
    /* products of 16-bit numbers in pairs: sums that wrap, odd depths, zero points, chunks */
    "graph h1(a: i16[20,40], b: i16[40,24]) { c = matmul a, b {dtype=i32}; return c }",
    "graph h2(a: u8[29,33], w: i8[33,70]) {\n"
    "  d = cast a {dtype=i32}; e = sub d, 128; f = cast w {dtype=i32}; c = matmul e, f; return c\n}",
    "graph h3(a: i8[3,31,17], b: i8[3,45,17]) { c = einsum a, b {equation=\"bmk,bnk->bmn\", dtype=i32}; return c }",
    "graph h4(a: i8[33,9001], b: bool[9001,20]) { c = matmul a, b {dtype=u32}; return c }",
    "graph h5(a: u16[20,40], b: i8[40,24]) { c = matmul a, b {dtype=i32}; return c }",
    "sizes m, n, k\n"
    "graph any8(a: i8[m,k], param b: u8[n,k]) { c = linear a, b {dtype=i32}; return c }",
    "graph i6(x: i8[1,3,9,9], w: i8[5,3,3,3]) { y = conv x, w {padding=\"same\", dtype=i32}; return y }",
    /* convolutions */
    "graph c1(x: f32[2,3,9,11], param w: f32[8,3,3,3], b: f32[8]) { y = conv x, w, b {padding=\"same\"}; z = relu y; return z }",
    "graph c2(x: f32[1,4,10,10], w: f32[6,2,3,2]) { y = conv x, w {stride=[2,1], padding=[[1,0],[0,2]], dilation=[1,2], groups=2}; return y }",
    "graph c3(x: f32[1,16,14,14], w: f32[20,16,1,1]) { y = conv x, w; return y }",
    "graph c4(x: f32[3,5,40], w: f32[7,5,5]) { y = conv x, w {stride=[3], padding=[[2,1]]}; return y }",
    "graph c5(x: f32[2,4,7,7], w: f32[4,6,3,3]) { y = conv_transpose x, w {stride=[2,2], padding=[[1,1],[1,1]]}; return y }",
    "graph c6(x: f32[2,3,13,14], w: f32[5,3,3,3], r: f32[2,5,13,14]) {\n"
    "  y = conv x, w {padding=\"same\"}; z = add y, r; v = cast z {dtype=bf16}; return v\n}",
    "graph c7(x: f64[1,2,6,7], w: f64[3,2,3,3]) { y = conv x, w {padding=\"same\"}; z = cast y {dtype=i32}; return z, y }",
    "graph c8(x: f32[1,4,9,70], w: f32[30,4,2,2]) { y = conv x, w; z = relu y; return z }",
    /* what params and constants make is packed when they are bound */
    "graph p1(x: f32[20,40], param w: f32[40,50], param b: f32[50]) { c = matmul x, w; d = add c, b; e = relu d; return e }",
    "sizes n\n"
    "graph p2(x: f32[n,40], param w: f32[50,40]) { c = linear x, w; d = transpose x; e = matmul w, d; return c, e }",
    "graph p3(x: f32[20,40], param q: i8[40,50], param s: f32[50]) {\n"
    "  w = cast q {dtype=f32}; v = mul w, s; c = matmul x, v; d = matmul x, w; return c, d\n}",
    "graph p4(x: f64[3,20,17], param w: f64[3,17,19], param v: f64[19,20]) { c = matmul x, w; d = matmul v, x; return c, d }",
    "graph p5(x: f32[1,16,9,13], param w: f32[20,16,3,3], param v: f32[4,8,3,3]) {\n"
    "  y = conv x, w {padding=\"same\"}; z = conv x, v {groups=2, stride=[2,1]}; return y, z\n}",
    "graph p6(x: u8[29,33], param w: i8[37,33], param v: f32[33,4500], param u: f32[4500,9]) {\n"
    "  c = linear x, w {dtype=i32}; d = matmul v, u; return c, d\n}",
    "graph p7(x: f32[4,6,30], param w: f32[30,33], param t: f32[60,30], i: i32[30]) {\n"
    "  k = const f32[6,3] {1,2,3,4,5,6,-1,-2,-3,-4,-5,-6,0,nan,inf,0.5,1,2}; c = matmul x, w; g = gather t, i; d = matmul x, g\n"
    "  p = permute x {axes=[0,2,1]}; e = matmul p, k; return c, d, e\n}",
    "graph a1(q: f32[2,2,20,16], k: f32[2,2,24,16], v: f32[2,2,24,16]) { y = attention q, k, v; return y }",
};
/* clang-format on */
enum { N_GRAPHS = sizeof graphs / sizeof graphs[0], MOST_RUNS = 24 };

static const int64_t sizes[MOST_RUNS][3] = {
    {1, 1, 1},     {1, 5, 7},      {2, 3, 0},     {0, 4, 3},    {7, 8, 9},     {13, 16, 17},
    {14, 32, 16},  {15, 33, 15},   {28, 31, 5},   {29, 64, 64}, {33, 65, 33},  {63, 17, 100},
    {64, 100, 31}, {65, 15, 130},  {100, 1, 20},  {3, 257, 12}, {257, 3, 12},  {5, 6, 4095},
    {4, 20, 4096}, {15, 17, 4097}, {2, 33, 8192}, {6, 2, 8193}, {1, 40, 8194}, {40, 40, 40}};

typedef struct reference {
    stax_graph *graph;
    int n_runs;
    feed want[MOST_RUNS];
} reference;
static stax_context *plain; /* the interpreter's */
static reference references[N_GRAPHS];

static struct {
    char name[64];
    const char *compiler;
    stax_isa isa;
    int threads;
    uint64_t l2_bytes;
} now;

/* Numbers of mixed size, and here and there what is not a number, infinite, subnormal or -0. */
static void fill(const void *user, int k, stax_dtype dtype, void *data, size_t n) {
    static const uint32_t special[] = {0x7fc00123u, 0xff800000u, 0x7f800000u,
                                       0x80000000u, 1u,          0xffa00001u};
    uint64_t seed = *(const uint64_t *)user + (uint64_t)k + 1;
    feed_fill(data, dtype, n, seed);
    for (size_t i = 0; dtype == STAX_I16 && i < n && i < 100; i++) /* the only pairs that wrap */
        ((int16_t *)data)[i] = INT16_MIN;
    for (size_t i = (size_t)(seed * 7) % 613; dtype == STAX_F32 && i < n; i += 1201)
        memcpy((float *)data + i, &special[i % 6], 4);
}

static int make(feed *f, const stax_graph *g, int graph, int run) {
    uint64_t seed = (uint64_t)(graph * 100 + run);
    return feed_make_with(f, g, sizes[run], fill, &seed);
}

static int prepare(void) {
    for (int k = 0; k < N_GRAPHS; k++) {
        reference *r = &references[k];
        r->graph = stax_parse(plain, "graph", graphs[k]);
        if (!r->graph) {
            printf("%s\n", stax_error(plain));
            return 0;
        }
        r->n_runs = stax_graph_n_symbols(r->graph) ? MOST_RUNS : 1;
        for (int i = 0; i < r->n_runs; i++)
            if (!make(&r->want[i], r->graph, k, i) ||
                stax_interpret(r->graph, r->want[i].all, r->want[i].outputs) != STAX_OK) {
                printf("%s: %s\n", graphs[k], stax_error(plain));
                return 0;
            }
    }
    return 1;
}

static void same_bits(void) {
    stax_options o = stax_options_default();
    o.strict = true;
    o.compiler = now.compiler;
    o.isa = now.isa;
    o.n_threads = now.threads;
    o.l2_bytes = now.l2_bytes;
    stax_context *ctx = stax_open(&o);
    const stax_graph *parsed[N_GRAPHS];
    stax_program *programs[N_GRAPHS] = {0};
    stax_compile_options c;
    memset(&c, 0, sizeof c);
    c.opt_level = 1;
    for (int k = 0; k < N_GRAPHS; k++) parsed[k] = stax_parse(ctx, "graph", graphs[k]);
    if (!CHECK_INT(stax_compile_many(parsed, N_GRAPHS, &c, programs), STAX_OK))
        printf("%s\n", stax_error(ctx));
    for (int k = 0; k < N_GRAPHS && programs[0]; k++)
        for (int i = 0; i < references[k].n_runs; i++) {
            feed f;
            int ok = make(&f, parsed[k], k, i) && feed_bind(programs[k], &f) == STAX_OK &&
                     stax_run(programs[k], f.slots, f.outputs) == STAX_OK;
            if (!CHECK(ok && feed_equal(&f, &references[k].want[i])))
                printf("%s\n    m, n, k = %d, %d, %d: %s\n", graphs[k], (int)sizes[i][0],
                       (int)sizes[i][1], (int)sizes[i][2], ok ? "other bits" : stax_error(ctx));
            feed_free(&f);
        }
    for (int k = 0; k < N_GRAPHS; k++) {
        stax_program_free(programs[k]);
        stax_graph_free((stax_graph *)(uintptr_t)parsed[k]);
    }
    stax_close(ctx);
}

/* ---- operands that are packed when params are bound ---- */

static int runs_as(stax_program *p, const stax_graph *g, int seed) {
    feed want, got;
    int same = feed_make(&want, g, 16, (uint64_t)seed) && feed_make(&got, g, 16, (uint64_t)seed) &&
               stax_interpret(g, want.all, want.outputs) == STAX_OK &&
               stax_run(p, got.slots, got.outputs) == STAX_OK && feed_equal(&want, &got);
    feed_free(&want);
    feed_free(&got);
    return same;
}

/* The kernels read the packed form and nothing else, calls leave it alone, binding makes it anew; a
   binding that fails leaves everything as it was. */
static void bound_once(void) {
    static const struct {
        const char *text;
        bool is_packed;
    } cases[] = {
        {"graph c(x: f32[20,40], param w: f32[40,50]) { c = matmul x, w; return c }", true},
        {"graph r(x: f32[40,20], param w: f32[50,40]) { c = matmul w, x; return c }", true},
        {"graph q(x: f32[20,40], param w: i8[40,50], param s: f32[50]) {\n"
         "  v = cast w {dtype=f32}; u = mul v, s; c = matmul x, u; return c }",
         true},
        {"sizes n\ngraph n(x: f32[n,40], param w: f32[40,50]) { c = matmul x, w; return c }", true},
        {"graph v(x: f32[1,8,12,12], param w: f32[16,8,3,3]) { c = conv x, w; return c }", true},
        /* these are packed in every call: sizes that are not fixed, an index that may be wrong, a
           state, an input */
        {"sizes n\ngraph z(x: f32[20,40], param w: f32[40,n]) { c = matmul x, w; return c }", false},
        {"graph g(x: f32[20,40], param w: f32[40,50], param i: i32[40]) {\n"
         "  v = gather w, i; c = matmul x, v; return c }",
         false},
        {"graph s(x: f32[20,40], inout w: f32[40,50]) { c = matmul x, w; return c }", false},
        {"graph i(x: f32[20,40], w: f32[40,50]) { c = matmul x, w; return c }", false},
    };
    heap h;
    memset(&h, 0, sizeof h);
    stax_options o = heap_options(&h);
    o.strict = true;
    o.compiler = "gcc";
    stax_context *ctx = stax_open(&o);
    int isa = STAXI_ISA_SCALAR;
    bool tiles = staxi_toolchain_target(&ctx->toolchain, &isa, NULL) == STAX_OK &&
                 staxi_isa_has_tiles(isa);
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        stax_graph *g = stax_parse(ctx, "bound", cases[k].text);
        stax_program *p = g ? stax_compile(g, NULL) : NULL;
        feed f;
        memset(&f, 0, sizeof f);
        if (CHECK(p != NULL) && CHECK(feed_make(&f, g, 16, 3)) &&
            CHECK_INT((p->pack != NULL), (cases[k].is_packed && tiles)) &&
            CHECK_INT(feed_bind(p, &f), STAX_OK) && CHECK(runs_as(p, g, 3)) && p->pack) {
            char *text = stax_program_report(p, STAX_REPORT_EXPLAIN);
            if (CHECK(text != NULL)) CHECK(strstr(text, "packed once, when bound") != NULL);
            stax_free(ctx, text);
            memset(p->pack_args[p->stages.n_args], 0, (size_t)p->trees.packed_bytes);
            CHECK(!runs_as(p, g, 3)); /* nobody packs again, nobody looks at the params */
            h.fail_at = h.calls + 1;
            CHECK_INT(stax_rebind(p, "w", &f.all[1]), STAX_E_MEMORY);
            CHECK(!runs_as(p, g, 3));
            CHECK_INT(stax_rebind(p, "w", &f.all[1]), STAX_OK);
            CHECK(runs_as(p, g, 3));
            feed other;
            if (CHECK(feed_make(&other, g, 16, 4)) && CHECK_INT(feed_bind(p, &other), STAX_OK)) {
                CHECK(runs_as(p, g, 4));
                CHECK(!runs_as(p, g, 3));
            }
            feed_free(&other);
        }
        feed_free(&f);
        stax_program_free(p);
        stax_graph_free(g);
    }
    stax_close(ctx);
    CHECK_INT(h.blocks, 0);
}

/* A chain as it is written down, over sizes at which several blocks of rows are packed. */
static float chain(const float *a, const float *b, int64_t depth, int64_t apart) {
    float sum = 0;
    for (int64_t block = 0; block < depth; block += 4096) {
        float c = -0.0f;
        for (int64_t k = block; k < depth && k < block + 4096; k++)
            c = staxi_fma_f32(a[k], b[k * apart], c);
        sum = block ? sum + c : c;
    }
    return sum;
}

static void large(void) {
    static const int64_t large_sizes[][3] = {{200, 70, 3000}, {700, 100, 900}, {45, 64, 9000}};
    stax_options o = stax_options_default();
    o.strict = true;
    o.n_threads = 3;
    stax_context *ctx = stax_open(&o);
    for (int z = 0; z < 3; z++) {
        int64_t m = large_sizes[z][0], n = large_sizes[z][1], k = large_sizes[z][2], bad = 0;
        char text[160];
        snprintf(text, sizeof text,
                 "graph g(a: f32[%d,%d], b: f32[%d,%d]) { c = matmul a, b; return c }", (int)m,
                 (int)k, (int)k, (int)n);
        stax_graph *g = stax_parse(ctx, "large", text);
        stax_program *p = g ? stax_compile(g, NULL) : NULL;
        feed f;
        if (CHECK(p != NULL) && CHECK(feed_make(&f, g, 1, 7))) {
            const float *a = (const float *)f.slots[0].data, *b = (const float *)f.slots[1].data,
                        *c = (const float *)f.outputs[0].data;
            CHECK_INT(stax_run(p, f.slots, f.outputs), STAX_OK);
            for (int64_t i = 0; i < m * n; i++) {
                float want = chain(a + i / n * k, b + i % n, k, n);
                bad += memcmp(&want, &c[i], sizeof want) != 0;
            }
            CHECK_INT(bad, 0);
            CHECK(feed_guards_hold(&f));
            feed_free(&f);
        }
        stax_program_free(p);
        stax_graph_free(g);
    }
    stax_close(ctx);
}

static void run_named(const char *compiler, const char *level, stax_isa isa, int threads,
                      uint64_t l2_bytes) {
    snprintf(now.name, sizeof now.name, "%s_%s_%d", compiler, level, threads);
    now.compiler = compiler;
    now.isa = isa;
    now.threads = threads;
    now.l2_bytes = l2_bytes;
    harness_run(now.name, same_bits);
}

static int runs_here(const char *compiler, stax_isa isa) {
    stax_options o = stax_options_default();
    int ok = 0;
    o.strict = true;
    o.compiler = compiler;
    o.isa = isa;
    stax_context *ctx = stax_open(&o);
    stax_graph *g = stax_parse(ctx, "probe", "graph g(x: f32[1]) { y = neg x; return y }");
    stax_program *p = g ? stax_compile(g, NULL) : NULL;
    ok = p != NULL;
    if (!ok) printf("skip %s at level %d: %s\n", compiler, (int)isa, stax_error(ctx));
    stax_program_free(p);
    stax_graph_free(g);
    stax_close(ctx);
    return ok;
}

int main(int argc, char **argv) {
    static const struct {
        const char *compiler, *level;
        stax_isa isa;
        int threads;
        uint64_t l2_bytes; /* small: many chunks and blocks */
    } settings[] = {{"gcc", "best", STAX_ISA_DETECT, 1, 0},   {"gcc", "best", STAX_ISA_DETECT, 2, 0},
                    {"gcc", "best", STAX_ISA_DETECT, 4, 0},   {"gcc", "avx2", STAX_ISA_AVX2, 1, 0},
                    {"gcc", "sse2", STAX_ISA_SSE2, 1, 0},     {"gcc", "scalar", STAX_ISA_SCALAR, 1, 0},
                    {"clang", "best", STAX_ISA_DETECT, 1, 0}, {"clang", "avx2", STAX_ISA_AVX2, 2, 0},
                    {"gcc", "small", STAX_ISA_DETECT, 2, 1},  {"clang", "small", STAX_ISA_AVX2, 1, 1},
                    {"tcc", "best", STAX_ISA_DETECT, 1, 0}};
    HARNESS_BEGIN(argc, argv);
    plain = stax_open(NULL);
    if (!prepare()) return 1;
    for (size_t k = 0; k < sizeof settings / sizeof settings[0]; k++)
        if (runs_here(settings[k].compiler, settings[k].isa))
            run_named(settings[k].compiler, settings[k].level, settings[k].isa,
                      settings[k].threads, settings[k].l2_bytes);
    RUN(bound_once);
    RUN(large);
    for (int k = 0; k < N_GRAPHS; k++) {
        for (int i = 0; i < references[k].n_runs; i++) feed_free(&references[k].want[i]);
        stax_graph_free(references[k].graph);
    }
    stax_close(plain);
    return HARNESS_END();
}
