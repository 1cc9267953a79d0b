/* Scans, sorts and scatter: values written down by hand, the order of a scan against a naive
   re-implementation, and what must hold whatever the numbers are. Every graph runs interpreted and
   compiled, and the bits must be the same. */
#include <stdlib.h>

#include "feed.h"
#include "harness.h"
#include "strict.h"

static stax_context *ctx, *threaded;

/* ---- graphs whose outputs come in pairs: what is computed, and what it must be --------------- */

static void pairs_once(const stax_graph *g, stax_program *p, const char *text, int64_t size,
                       uint64_t seed) {
    static feed a, b;
    CHECK(feed_make(&a, g, size, seed) && feed_make(&b, g, size, seed));
    CHECK_INT(stax_interpret(g, a.all, a.outputs), STAX_OK);
    CHECK_INT(stax_run(p, b.slots, b.outputs), STAX_OK);
    if (!CHECK(feed_equal(&a, &b)))
        printf("interpreted and compiled differ, size %d:\n%s\n", (int)size, text);
    for (int k = 0; k + 1 < a.n_outputs; k += 2) {
        size_t bytes = stax_dtype_bytes(a.outputs[k].dtype);
        for (int d = 0; d < a.outputs[k].rank; d++) bytes *= (size_t)a.outputs[k].shape[d];
        CHECK_INT(a.outputs[k].dtype, a.outputs[k + 1].dtype);
        if (!CHECK_BYTES(a.outputs[k].data, a.outputs[k + 1].data, bytes))
            printf("outputs %d and %d, size %d:\n%s\n", k, k + 1, (int)size, text);
    }
    feed_free(&a);
    feed_free(&b);
}

/* One program for all sizes of its symbols. */
static void pairs_in(stax_context *c, const char *text, const int64_t *size, size_t n,
                     uint64_t seed) {
    stax_graph *g = stax_parse(c, "scans", text);
    stax_program *p = g ? stax_compile(g, NULL) : NULL;
    if (!CHECK(p != NULL)) printf("%s\n%s\n", stax_error(c), text);
    for (size_t k = 0; p && k < n; k++) pairs_once(g, p, text, size[k], seed);
    stax_program_free(p);
    stax_graph_free(g);
}

static void pairs(const char *text) {
    static const int64_t any = 5;
    pairs_in(ctx, text, &any, 1, 1);
}

/* ---- by hand --------------------------------------------------------------------------------- */

static void scans_by_hand(void) {
    pairs(
        "graph g() { x = const f32[4] {1, 2, 4, 8}\n"
        "  a = cumsum x; wa = const f32[4] {1, 3, 7, 15}\n"
        "  b = cumsum x {exclusive=true}; wb = const f32[4] {0.0, 1, 3, 7}\n"
        "  c = cumsum x {reverse=true}; wc = const f32[4] {15, 14, 12, 8}\n"
        "  d = cumsum x {exclusive=true, reverse=true}; wd = const f32[4] {14, 12, 8, 0.0}\n"
        "  e = cumprod x; we = const f32[4] {1, 2, 8, 64}\n"
        "  f = cumprod x {exclusive=true}; wf = const f32[4] {1, 1, 2, 8}\n"
        "  return a, wa, b, wb, c, wc, d, wd, e, we, f, wf }");
    /* NaN stays, -0 and the greater zero, what an exclusive extreme begins with */
    pairs(
        "graph g() { x = const f32[5] {-0.0, 0.0, -1, nan, 5}\n"
        "  a = cummax x; wa = const f32[5] {-0.0, 0.0, 0.0, nan, nan}\n"
        "  b = cummin x; wb = const f32[5] {-0.0, -0.0, -1, nan, nan}\n"
        "  c = cummax x {exclusive=true}; wc = const f32[5] {-inf, -0.0, 0.0, 0.0, nan}\n"
        "  d = cummin x {exclusive=true, reverse=true}; wd = const f32[5] {nan, nan, nan, 5, inf}\n"
        "  y = const f32[3] {-0.0, -0.0, 0.0}\n"
        "  e = cumsum y; we = const f32[3] {-0.0, -0.0, 0.0}\n"
        "  z = const f64[3] {inf, -inf, 1}\n"
        "  f = cumsum z; wf = const f64[3] {inf, nan, nan}\n"
        "  return a, wa, b, wb, c, wc, d, wd, e, we, f, wf }");
    /* dtypes: integers widen, wrap where they must, bool counts or says "so far" */
    pairs(
        "graph g() { x = const i8[3] {100, 100, 100}; b = const bool[4] {true, false, true, true}; "
        "u = const u8[2] {200, 100}\n"
        "  a: i64[3] = cumsum x; wa = const i64[3] {100, 200, 300}\n"
        "  c: i8[3] = cumsum x {dtype=i8}; wc = const i8[3] {100, -56, 44}\n"
        "  d: u64[2] = cumprod u; wd = const u64[2] {200, 20000}\n"
        "  e: i64[4] = cumsum b; we = const i64[4] {1, 1, 2, 3}\n"
        "  f: bool[4] = cummin b; wf = const bool[4] {true, false, false, false}\n"
        "  h: bool[4] = cummax b {exclusive=true}; wh = const bool[4] {false, true, true, true}\n"
        "  i: f32[4] = cumsum b {dtype=f32}; wi = const f32[4] {1, 1, 2, 3}\n"
        "  j: i8[3] = cummax x {exclusive=true}; wj = const i8[3] {-128, 100, 100}\n"
        "  k: u8[2] = cummin u {exclusive=true}; wk = const u8[2] {255, 200}\n"
        "  return a, wa, c, wc, d, wd, e, we, f, wf, h, wh, i, wi, j, wj, k, wk }");
    /* f16 adds up in f32 and rounds once: 2048 + 1 + 1 is 2050, by f16 steps it would stay 2048 */
    pairs(
        "graph g() { x = const f16[4] {2048, 1, 1, -2050}\n"
        "  a: f16[4] = cumsum x; wa = const f16[4] {2048, 2048, 2050, 0}\n"
        "  m = const f32[2,3] {1, 2, 3, 4, 5, 6}\n"
        "  b = cumsum m {axis=0}; wb = const f32[2,3] {1, 2, 3, 5, 7, 9}\n"
        "  c = cumsum m {axis=-1}; wc = const f32[2,3] {1, 3, 6, 4, 9, 15}\n"
        "  d = logcumsumexp x {dtype=f32}; wd = const f32[4] {2048, 2048, 2048, 2048}\n"
        "  y = const f32[3] {-inf, -inf, 0.0}\n"
        "  e = logcumsumexp y; we = const f32[3] {-inf, -inf, 0.0}\n"
        "  f = logcumsumexp y {exclusive=true}; wf = const f32[3] {-inf, -inf, -inf}\n"
        "  return a, wa, b, wb, c, wc, d, wd, e, we, f, wf }");
}

static void sorts_by_hand(void) {
    /* NaN is the largest; equals, also the two zeros, keep their order in both directions */
    pairs(
        "graph g() { x = const f32[7] {3, nan, -0.0, 0.0, -inf, 3, inf}\n"
        "  a = sort x; wa = const f32[7] {-inf, -0.0, 0.0, 3, 3, inf, nan}\n"
        "  b = argsort x; wb = const i64[7] {4, 2, 3, 0, 5, 6, 1}\n"
        "  c = sort x {descending=true}; wc = const f32[7] {nan, inf, 3, 3, -0.0, 0.0, -inf}\n"
        "  d = argsort x {descending=true}; wd = const i64[7] {1, 6, 0, 5, 2, 3, 4}\n"
        "  v, i = topk x {k=3}; wv = const f32[3] {nan, inf, 3}; wi = const i64[3] {1, 6, 0}\n"
        "  w, j = topk x {k=2, largest=false}; ww = const f32[2] {-inf, -0.0}; wj = const i64[2] "
        "{4, 2}\n"
        "  e, f = kthvalue x {k=4}; we = const f32[] {3}; wf = const i64[] {0}\n"
        "  n = const i8[4] {-1, 127, -128, 0}; u = const u16[3] {65535, 0, 1}; t = const bool[3] "
        "{true, false, true}\n"
        "  k = sort n; wk = const i8[4] {-128, -1, 0, 127}\n"
        "  l = sort u {descending=true}; wl = const u16[3] {65535, 1, 0}\n"
        "  m = argsort t; wm = const i64[3] {1, 0, 2}\n"
        "  return a, wa, b, wb, c, wc, d, wd, v, wv, i, wi, w, ww, j, wj, e, we, f, wf, k, wk, l, "
        "wl, m, wm }");
    /* bits of NaNs are kept, and their order */
    pairs(
        "graph g() { u = const u32[4] {0xffc00001, 0x7f800000, 0x7fc12345, 0x80000000}; x = "
        "bitcast u {dtype=f32}\n"
        "  s = sort x; a = bitcast s {dtype=u32}; wa = const u32[4] {0x80000000, 0x7f800000, "
        "0xffc00001, 0x7fc12345}\n"
        "  v, i = topk x {k=2}; b = bitcast v {dtype=u32}; wb = const u32[2] {0xffc00001, "
        "0x7fc12345}; wi = const i64[2] {0, 2}\n"
        "  return a, wa, b, wb, i, wi }");
    pairs(
        "graph g() { x = const f32[2,3] {5, 1, 3, 2, 9, 4}\n"
        "  a = sort x {axis=0}; wa = const f32[2,3] {2, 1, 3, 5, 9, 4}\n"
        "  b = median x; wb = const f32[] {3.5}\n"
        "  c = median x {axes=[1], keepdims=true}; wc = const f32[2,1] {3, 4}\n"
        "  i = const i32[4] {1, 2, 3, 10}; d: f32[] = median i; wd = const f32[] {2.5}\n"
        "  y = const f64[3] {inf, 1, inf}; e = median y; we = const f64[] {inf}\n"
        "  z = const f32[3] {1, nan, 2}; f = median z; wf = const f32[] {nan}\n"
        "  l = const f32[4] {1, 2, 2, nan}; v = const f32[2,3] {0.5, 1, 2, 2.5, nan, inf}\n"
        "  p = searchsorted l, v; wp = const i64[2,3] {0, 0, 1, 3, 3, 3}\n"
        "  q = searchsorted l, v {side=\"right\"}; wq = const i64[2,3] {0, 1, 3, 3, 4, 3}\n"
        "  k = const i64[3] {10, 20, 30}; r = bucketize 20, k; wr = const i64[] {1}\n"
        "  s = bucketize 20, k {right=true}; ws = const i64[] {2}\n"
        "  return a, wa, b, wb, c, wc, d, wd, e, we, f, wf, p, wp, q, wq, r, wr, s, ws }");
}

static void scatters_by_hand(void) {
    pairs(
        "graph g() { x = const f32[4] {10, 20, 30, 40}; i = const i32[5] {0, -1, 0, 2, 0}; u = "
        "const f32[5] {1, 2, 3, nan, 5}\n"
        "  a = scatter x, i, u; wa = const f32[4] {5, 20, nan, 2}\n"
        "  b = scatter x, i, u {mode=\"add\"}; wb = const f32[4] {19, 20, nan, 42}\n"
        "  c = scatter x, i, u {mode=\"mul\"}; wc = const f32[4] {150, 20, nan, 80}\n"
        "  d = scatter x, i, u {mode=\"min\"}; wd = const f32[4] {1, 20, nan, 2}\n"
        "  e = scatter x, i, u {mode=\"max\"}; we = const f32[4] {10, 20, nan, 40}\n"
        "  f = scatter x, 1, 7; wf = const f32[4] {10, 7, 30, 40}\n"
        "  return a, wa, b, wb, c, wc, d, wd, e, we, f, wf }");
    /* axes, indices of any rank, updates that broadcast, other dtypes; f16 adds up in f32 */
    pairs(
        "graph g() { x = const i16[2,3] {1, 2, 3, 4, 5, 6}; i = const i64[2,1] {2, 0}; u = const "
        "i16[2,1,1] {10, 32767}\n"
        "  a = scatter x, i, u {axis=1, mode=\"add\"}; wa = const i16[2,3] {11, 2, 13, -32765, 5, "
        "-32763}\n"
        "  b = scatter x, 0, 9 {axis=-2}; wb = const i16[2,3] {9, 9, 9, 4, 5, 6}\n"
        "  t = const bool[3] {true, false, false}; j = const u8[2] {0, 2}; v = const bool[2] "
        "{false, true}\n"
        "  c = scatter t, j, v {mode=\"add\"}; wc = const bool[3] {true, false, true}\n"
        "  d = scatter t, j, v {mode=\"mul\"}; wd = const bool[3] {false, false, false}\n"
        "  h = const f16[1] {2048}; k = const i8[2] {0, 0}; w = const f16[2] {1, 1}\n"
        "  e = scatter h, k, w {mode=\"add\"}; we = const f16[1] {2050}\n"
        "  m = const i32[0] {}; n = const i16[0,3] {}; f = scatter x, m, n; \n"
        "  return a, wa, b, wb, c, wc, d, wd, e, we, f, x }");
    /* setting copies bits, computing gives the quiet NaN, also where nothing is updated */
    pairs(
        "graph g() { u = const u32[2] {0xffc00001, 0x7fc12345}; x = bitcast u {dtype=f32}; i = "
        "const i32[1] {0}\n"
        "  s = scatter x, i, 1; a = bitcast s {dtype=u32}; wa = const u32[2] {0x3f800000, "
        "0x7fc12345}\n"
        "  t = scatter x, i, 1 {mode=\"add\"}; b = bitcast t {dtype=u32}; wb = const u32[2] "
        "{0x7fc00000, 0x7fc00000}\n"
        "  return a, wa, b, wb }");
}

/* ---- the order of a scan, as it is written down ---------------------------------------------- */

#define NAIVE(name, type, OP)                                                                     \
    static void name(const type *x, int64_t n, int64_t stride, type *out) {                       \
        int64_t segments = (n + 31) / 32;                                                         \
        type *totals, *before;                                                                    \
        for (int64_t k = 0; k < n; k++)                                                           \
            out[k * stride] = k % 32 ? out[(k - 1) * stride] OP x[k * stride] : x[k * stride];    \
        if (segments < 2) return;                                                                 \
        totals = (type *)malloc((size_t)segments * 2 * sizeof *totals);                           \
        before = totals + segments;                                                               \
        for (int64_t s = 0; s < segments; s++)                                                    \
            totals[s] = out[(s * 32 + 31 < n ? s * 32 + 31 : n - 1) * stride];                    \
        name(totals, segments, 1, before);                                                        \
        for (int64_t k = 32; k < n; k++) out[k * stride] = before[k / 32 - 1] OP out[k * stride]; \
        free(totals);                                                                             \
    }
NAIVE(naive_sum32, float, +)
NAIVE(naive_sum64, double, +)
NAIVE(naive_prod32, float, *)
NAIVE(naive_prod64, double, *)

static const int64_t lengths[] = {0,
                                  1,
                                  2,
                                  31,
                                  32,
                                  33,
                                  63,
                                  64,
                                  65,
                                  255,
                                  256,
                                  257,
                                  1000,
                                  1023,
                                  1024,
                                  1025,
                                  1056,
                                  2048,
                                  4097,
                                  32 * 32 * 32 - 1,
                                  32 * 32 * 32,
                                  32 * 32 * 32 + 1,
                                  100003};
enum { N_LENGTHS = sizeof lengths / sizeof lengths[0] };

static void fill32(float *x, int64_t n) {
    uint64_t s = 12345;
    for (int64_t k = 0; k < n; k++)
        x[k] = ((float)(int64_t)(feed_random(&s) % 2001) - 1000.0f) / 997.0f;
}

/* rows: [ROWS, n] along axis 1; columns: [n, ROWS] along axis 0 */
static void order_case(stax_context *c, int64_t n, int columns, int prod, int wide) {
    enum { ROWS = 67 };
    int64_t rows = columns ? ROWS : 3, all = n * rows, stride = columns ? rows : 1;
    size_t width = wide ? 8 : 4;
    char text[300];
    float *x = (float *)malloc((size_t)(all + 1) * 8 * 3);
    double *d = (double *)(void *)x;
    char *got = (char *)x + (size_t)all * 8, *want = got + (size_t)all * 8;
    fill32(x, all);
    for (int64_t k = all; k-- > 0;) {
        float v = prod ? 1.0f + x[k] / 64.0f : x[k] * (k % 7 ? 1.0f : 1000.0f);
        if (wide)
            d[k] = (double)v;
        else
            x[k] = v;
    }
    snprintf(text, sizeof text, "graph g(x: %s[%d,%d]) { y = %s x {axis=%d}\n return y }",
             wide ? "f64" : "f32", (int)(columns ? n : rows), (int)(columns ? rows : n),
             prod ? "cumprod" : "cumsum", columns ? 0 : 1);
    stax_graph *g = stax_parse(c, "order", text);
    stax_program *p = g ? stax_compile(g, NULL) : NULL;
    if (!CHECK(p != NULL)) printf("%s\n", stax_error(c));
    stax_tensor in = stax_tensor_of(wide ? STAX_F64 : STAX_F32,
                                    columns ? stax_shape2(n, rows) : stax_shape2(rows, n), x),
                out = in;
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = columns ? r : r * n;
        if (wide && prod)
            naive_prod64(d + at, n, stride, (double *)(void *)want + at);
        else if (wide)
            naive_sum64(d + at, n, stride, (double *)(void *)want + at);
        else if (prod)
            naive_prod32(x + at, n, stride, (float *)(void *)want + at);
        else
            naive_sum32(x + at, n, stride, (float *)(void *)want + at);
    }
    for (int compiled = 0; p && compiled < 2; compiled++) {
        out.data = got;
        memset(got, 0, (size_t)all * width);
        CHECK_INT(compiled ? stax_run(p, &in, &out) : stax_interpret(g, &in, &out), STAX_OK);
        if (!CHECK_BYTES(got, want, (size_t)all * width))
            printf("%s, %s\n", text, compiled ? "compiled" : "interpreted");
    }
    free(x);
    stax_program_free(p);
    stax_graph_free(g);
}

static void order_of_scans(void) {
    for (int k = 0; k < N_LENGTHS; k++)
        for (int what = 0; what < 8; what++) {
            if (lengths[k] > 5000 && what % 2 && what != 1) continue;
            order_case(k % 3 ? ctx : threaded, lengths[k], what & 1, what >> 1 & 1, what >> 2);
        }
}

/* ---- what holds for any numbers -------------------------------------------------------------- */

/* The first: f16 .. i8 and bool as input; sizes with 0, 1, primes, beyond a block and beyond the
 * radix sort. */
static const char *const dtypes[] = {"f32", "f64", "f16", "bf16", "i64", "i32", "i16",
                                     "i8",  "u64", "u32", "u16",  "u8",  "bool"};
static const int64_t sizes[] = {0, 1, 2, 7, 33, 127, 1025, 2503};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

/* "$" stands for the dtype. */
static void for_all(const char *text) {
    for (size_t t = 0; t < sizeof dtypes / sizeof dtypes[0]; t++) {
        char full[4000];
        size_t n = 0;
        for (const char *c = text; *c && n + 8 < sizeof full; c++) {
            if (*c != '$')
                full[n++] = *c;
            else
                n += (size_t)snprintf(full + n, 6, "%s", dtypes[t]);
        }
        full[n] = 0;
        pairs_in(t % 2 ? ctx : threaded, full, sizes, N_SIZES, 3 + t);
    }
}

static void scans_and_flips(void) {
    for_all(
        "graph g(x: $[n,3], y: $[2,n]) {\n"
        "  f = flip x {axes=[0]}; a = cumsum f {axis=0}; b = flip a {axes=[0]}; c = cumsum x "
        "{axis=0, reverse=true}\n"
        "  h = flip y {axes=[1]}; d = cumprod h {axis=1, exclusive=true}; e = flip d {axes=[1]}; i "
        "= cumprod y {axis=1, exclusive=true, reverse=true}\n"
        "  j = flip y {axes=[1]}; k = cummax j {axis=1}; l = flip k {axes=[1]}; m = cummax y "
        "{axis=1, reverse=true}\n"
        "  o = permute y {axes=[1,0]}; p = cumsum o {axis=0}; q = permute p {axes=[1,0]}; r = "
        "cumsum y {axis=1}\n"
        "  return b, c, e, i, l, m, q, r }");
}

/* exclusive[k] is inclusive[k - 1]; the last of a cummax is the max */
static void scans_exclusive(void) {
    for_all(
        "sizes n: 1..100000\n"
        "graph g(x: $[n,2], y: $[3,n]) {\n"
        "  a = cumsum x {axis=0}; b = slice a {starts=[none,none], stops=[-1,none], steps=[1,1]}\n"
        "  c = cumsum x {axis=0, exclusive=true}; d = slice c {starts=[1,none], stops=[none,none], "
        "steps=[1,1]}\n"
        "  e = cummin y {axis=1}; f = slice e {starts=[none,none], stops=[none,-1], steps=[1,1]}\n"
        "  h = cummin y {axis=1, exclusive=true}; i = slice h {starts=[none,1], stops=[none,none], "
        "steps=[1,1]}\n"
        "  j = cummax y {axis=1}; k = slice j {starts=[none,-1], stops=[none,none], steps=[1,1]}; "
        "l = max y {axes=[1], keepdims=true}\n"
        "  return b, d, f, i, k, l }");
}

/* sort is x at argsort; argsort is a permutation, whose inverse is its own argsort; topk is the
   first of the sorted; equals keep their order: argsort of (key, position) made unique gives the
   same */
static void sorts_of_anything(void) {
    for_all(
        "sizes n: 0..100000\n"
        "graph g(x: $[n,2], y: $[3,n]) {\n"
        "  a = sort x {axis=0}; i = argsort x {axis=0}; b = take_along_axis x, i {axis=0}\n"
        "  c = sort y {descending=true}; j = argsort y {descending=true}; d = take_along_axis y, "
        "j\n"
        "  e = argsort j; f = take_along_axis j, e; t = iota {shape=[3,n], axis=1}\n"
        "  s = sort j; h = take_along_axis e, j\n"
        "  return a, b, c, d, f, t, s, t, h, t }");
    for_all(
        "sizes n: 6..100000\n"
        "graph g(x: $[n,2], y: $[3,n]) {\n"
        "  v, i = topk x {k=5, axis=0}; s = sort x {axis=0, descending=true}; a = argsort x "
        "{axis=0, descending=true}\n"
        "  b = slice s {starts=[0,0], stops=[5,none], steps=[1,1]}; c = slice a {starts=[0,0], "
        "stops=[5,none], steps=[1,1]}\n"
        "  w, j = topk y {k=6, largest=false}; r = sort y; d = argsort y\n"
        "  e = slice r {starts=[0,0], stops=[none,6], steps=[1,1]}; f = slice d {starts=[0,0], "
        "stops=[none,6], steps=[1,1]}\n"
        "  only, o2 = topk y {k=n}; all = sort y {descending=true}; h, k = kthvalue y {k=3, "
        "keepdims=true}\n"
        "  l = slice r {starts=[0,2], stops=[none,3], steps=[1,1]}; m = slice d {starts=[0,2], "
        "stops=[none,3], steps=[1,1]}\n"
        "  return v, b, i, c, w, e, j, f, only, all, h, l, k, m }");
}

/* Integers 0 .. 2 are many equals: their order in argsort is that of their indices. */
static void sorts_are_stable(void) {
    static const int64_t many[] = {300, 5003};
    pairs_in(ctx,
             "sizes n: 1..100000\n"
             "graph g(x: i32[n]) {\n"
             "  i = argsort x; j = argsort x {descending=true}; p = iota {shape=[n], axis=0}; w = "
             "cast x {dtype=i64}\n"
             "  u = mul w, 1000000; a = add u, p; b = argsort a; u2 = mul w, -1000000; c = add u2, "
             "p; d = argsort c\n"
             "  return i, b, j, d }",
             many, 2, 9);
}

/* Scatter undoes gather; adding ones counts; setting a permutation sorts; repeated indices in order
 */
static void scatters_of_anything(void) {
    for_all(
        "sizes n: 0..100000\n"
        "graph g(x: $[n,2], y: $[n,2], k: i32[n]) {\n"
        "  i = iota {shape=[n], axis=0}; r = flip i; a = scatter x, r, y; b = flip y {axes=[0]}\n"
        "  z = const i64[3] {0, 0, 0}; c = scatter z, k, 1 {mode=\"add\"}\n"
        "  e0 = eq k, 0; e1 = eq k, 1; e2 = eq k, 2; s0 = sum e0; s1 = sum e1; s2 = sum e2; w = "
        "stack s0, s1, s2\n"
        "  zz = const i64[3] {-1, -1, -1}; d = scatter zz, k, i; m = scatter zz, k, i "
        "{mode=\"max\"}\n"
        "  t = transpose x; ty = transpose y; e = scatter t, r, ty {axis=1}; f = transpose e\n"
        "  return a, b, c, w, d, m, f, a }");
}

/* ---- fusion and layout ----------------------------------------------------------------------- */

/* Producers and readers in the loops of a scan or sort; strided inputs; scans of scans; states. */
static void neighbours(void) {
    static const char text[] =
        "sizes n: 0..100000\n"
        "graph g(x: f32[n,70] strided, y: f64[3,n] strided, h: f16[2,n], inout s: f32[n]) {\n"
        "  a = exp x; b = cumsum a {axis=0}; c = mul b, x; d = add c, 1.0\n"
        "  e = cumsum x {axis=1, reverse=true}; f = cumsum e {axis=1, exclusive=true}; g1 = sub f, "
        "e\n"
        "  i = cumprod y {axis=1, reverse=true}; j = neg i; k = cast i {dtype=f32}\n"
        "  l = cumsum h {axis=1}; m = add l, h; r = sort m {descending=true}; t = mul r, 2.0\n"
        "  v, w = topk x {k=4, axis=1}; q = mul v, 0.5; p = add w, 1; z = sum v\n"
        "  o = cumsum s; u = argsort o; assign s, o\n"
        "  return d, d, g1, g1, j, j, k, k, m, m, t, t, q, q, p, p, z, z, u, u }";
    pairs_in(ctx, text, sizes, N_SIZES, 7);
    pairs_in(threaded, text, sizes, N_SIZES, 7);
}

/* What reads a scan or topk element for element runs in its loop, f16's rounding too; nothing is
 * stored on the way. */
static void fused(void) {
    static const struct {
        const char *text;
        int kernels;
        size_t workspace;
    } rows[] = {
        {"graph g(x: f32[300,5]) { e = exp x; a = cumsum e {axis=0}; y = mul a, x; z = add y, "
         "1.0\n return z }",
         1, 0},
        {"graph g(x: f16[3,500]) { a = cumsum x {axis=1, reverse=true}\n return a }", 1, 0},
        {"graph g(x: f32[3,500]) { v, i = topk x {k=5}; y = mul v, 2.0\n return y, i }", 1, 8000},
        {"graph g(x: f32[3,500]) { v, i = topk x {k=5}\n return v }", 1, 8000},
        {"graph g(x: f32[300], i: i32[90], u: f32[90]) { e = exp x; f = exp u; a = scatter e, i, f "
         "{mode=\"add\"}\n return a }",
         3, 0}};
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        stax_graph *g = stax_parse(ctx, "fused", rows[k].text);
        stax_program *p = g ? stax_compile(g, NULL) : NULL;
        stax_figures figures;
        memset(&figures, 0, sizeof figures);
        if (!CHECK(p != NULL)) printf("%s\n", stax_error(ctx));
        if (p) CHECK_INT(stax_program_figures(p, NULL, &figures), STAX_OK);
        if (!CHECK_INT(figures.kernels, rows[k].kernels)) printf("%s\n", rows[k].text);
        CHECK_INT((int64_t)figures.workspace_bytes / 64, (int64_t)(rows[k].workspace + 63) / 64);
        stax_program_free(p);
        stax_graph_free(g);
    }
}

/* ---- wrong calls ----------------------------------------------------------------------------- */

static void refuses(const char *statement, const char *part) {
    char text[400];
    snprintf(text, sizeof text,
             "sizes n: 0..9\ngraph g(x: f32[2,3], i: i32[4], u: f32[4], s: f32[], m: f32[n], q: "
             "f8e4m3[3]) { %s }",
             statement);
    stax_graph *g = stax_parse(ctx, "wrong", text);
    if (!CHECK(g == NULL)) printf("%s\n", statement);
    CHECK_HAS(stax_error(ctx), part);
    stax_graph_free(g);
}

static void wrong_calls(void) {
    refuses("y = cumsum x\n return y", "attribute axis: expected an axis, found nothing");
    refuses("y = cumsum x {axis=2}\n return y", "axis 2 is out of range for rank 2");
    refuses("y = cummax s {axis=0}\n return y", "out of range for rank 0");
    refuses("y = logcumsumexp x {axis=0, dtype=i32}\n return y",
            "expected a float dtype, found i32");
    refuses("y = sort q\n return y", "f8e4m3 is for cast and movement only");
    refuses("y = sort s\n return y", "out of range for rank 0");
    refuses("v, w = topk x {k=4}\n return v",
            "attribute k: expected 0 to the size 3 of axis 1, found 4");
    refuses("v, w = topk x {k=-1}\n return v", "found -1");
    refuses("v, w = topk m {k=1}\n return v", "give the symbol a range");
    refuses("v = topk x {k=1}\n return v", "expected 2 names, found 1");
    refuses("v, w = kthvalue x {k=0}\n return v", "expected at least 1, found 0");
    refuses("y = median x {axes=[0,5]}\n return y", "axis 5 is out of range");
    refuses("y = searchsorted x, u\n return y", "what is sorted: expected 1 axis, found 2");
    refuses("y = scatter x, u, u\n return y", "expected integer indices, found f32");
    refuses("y = scatter x, i, i\n return y",
            "scatter does not convert: expected updates of f32, found i32");
    refuses("y = scatter x, i, u\n return y", "the updates must broadcast to");
    refuses("y = scatter i, 0, 1.5\n return y", "the literal 1.5 is not a value of i32");
    refuses("y = scatter x, i, 1.0 {mode=\"sub\"}\n return y", "mode");
    refuses("y = scatter x, i, 1.0 {axis=2}\n return y", "axis 2 is out of range for rank 2");
}

/* An index that is out of range: no byte outside the output is touched, the first one is named. */
static void wrong_indices(void) {
    static const char text[] =
        "graph g(x: f32[4,5], i: i32[6]) { y = scatter x, i, 1.0 {mode=\"add\"}\n return y }";
    static float x[20], y[20 + 64];
    static int32_t i[6] = {0, 3, -4, 2, 4, -9};
    stax_tensor in[2], out;
    for (int mode = 0; mode < 3; mode++) {
        stax_graph *g = stax_parse(ctx, "wrong", text);
        stax_program *p = stax_compile(g, NULL);
        in[0] = stax_tensor_of(STAX_F32, stax_shape2(4, 5), x);
        in[1] = stax_tensor_of(STAX_I32, stax_shape1(6), i);
        out = stax_tensor_of(STAX_F32, stax_shape2(4, 5), y + 32);
        for (int k = 0; k < 84; k++) y[k] = 77.0f;
        CHECK_INT(mode ? stax_run(p, in, &out) : stax_interpret(g, in, &out), STAX_E_INDEX);
        CHECK_HAS(stax_error(ctx), "scatter: index 4 is out of range for an axis of size 4");
        for (int k = 0; k < 84; k++) /* the check came before the first store */
            if ((k < 32 || k >= 52 || mode) && !CHECK_FLOAT(y[k], 77.0f)) break;
        stax_program_free(p);
        stax_graph_free(g);
    }
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    ctx = strict_context(1);
    threaded = strict_context(3);
    RUN(scans_by_hand);
    RUN(sorts_by_hand);
    RUN(scatters_by_hand);
    RUN(order_of_scans);
    RUN(scans_and_flips);
    RUN(scans_exclusive);
    RUN(sorts_of_anything);
    RUN(sorts_are_stable);
    RUN(scatters_of_anything);
    RUN(neighbours);
    RUN(fused);
    RUN(wrong_calls);
    RUN(wrong_indices);
    stax_close(ctx);
    stax_close(threaded);
    return HARNESS_END();
}
