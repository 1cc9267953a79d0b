/* Reductions over monoids given as regions, and the composites made of them: welford and
   compensated sums. The order against a naive re-implementation; compiled programs against the
   interpreter, bit for bit; what must hold of a monoid, with bounds that follow from the model of
   rounding; and how near the results are. */
#include <math.h>
#include <stdlib.h>

#define STAX_IMPLEMENTATION
#include "feed.h"
#include "harness.h"
#include "random.h"
#include "strict.h"

static stax_context *ctx, *threaded[2]; /* 1, 2 and 4 threads */

static stax_graph *parsed(stax_context *c, const char *text, const char *name) {
    stax_graph *g = stax_parse_named(c, "monoids", text, name);
    if (!CHECK(g && stax_ok(g))) printf("%s\n%s\n", stax_error(c), text);
    return g;
}

static stax_program *compiled(stax_context *c, const stax_graph *g) {
    stax_program *p = g ? stax_compile(g, NULL) : NULL;
    if (!CHECK(p && stax_program_status(p) == STAX_OK)) printf("%s\n", stax_error(c));
    return p;
}

/* ---- the order: composition of affine maps, which does not commute --------------------------- */

#define NAIVE(name, T, LANES)                                                                  \
    typedef struct name##_map {                                                                \
        T a, b;                                                                                \
    } name##_map;                                                                              \
    static name##_map name##_join(name##_map x, name##_map y) {                                \
        name##_map z;                                                                          \
        z.a = x.a * y.a;                                                                       \
        z.b = x.b * y.a;                                                                       \
        z.b = z.b + y.b;                                                                       \
        return z;                                                                              \
    }                                                                                          \
    /* lanes that have nothing take no part */                                                 \
    static name##_map name##_halve(name##_map *lane, int64_t n) {                              \
        int used = n < LANES ? (int)n : LANES;                                                 \
        for (int w = LANES / 2; w; w /= 2)                                                     \
            for (int i = 0; i < w && i + w < used; i++)                                        \
                lane[i] = name##_join(lane[i], lane[i + w]);                                   \
        return lane[0];                                                                        \
    }                                                                                          \
    static name##_map name##_blocks(const name##_map *x, int64_t n) {                          \
        name##_map lane[LANES], r;                                                             \
        if (n > 4096) {                                                                        \
            int64_t blocks = (n + 4095) / 4096;                                                \
            name##_map *y = (name##_map *)malloc((size_t)blocks * sizeof *y);                  \
            if (!y) exit(1);                                                                   \
            for (int64_t k = 0; k < blocks; k++)                                               \
                y[k] = name##_blocks(x + k * 4096, n - k * 4096 < 4096 ? n - k * 4096 : 4096); \
            r = name##_blocks(y, blocks);                                                      \
            free(y);                                                                           \
            return r;                                                                          \
        }                                                                                      \
        for (int64_t k = 0; k < n; k++)                                                        \
            lane[k % LANES] = k < LANES ? x[k] : name##_join(lane[k % LANES], x[k]);           \
        return name##_halve(lane, n);                                                          \
    }                                                                                          \
    static name##_map name(const T *x, int64_t n, int64_t stride) {                            \
        name##_map identity = {1, 0}, lane[LANES], r;                                          \
        int64_t blocks = (n + 4095) / 4096;                                                    \
        name##_map *y = (name##_map *)malloc((size_t)(blocks + 1) * sizeof *y);                \
        if (!y) exit(1);                                                                       \
        for (int64_t k = 0; k < blocks; k++) {                                                 \
            int64_t m = n - k * 4096 < 4096 ? n - k * 4096 : 4096;                             \
            for (int i = 0; i < LANES; i++) lane[i] = identity;                                \
            for (int64_t i = 0; i < m; i++) {                                                  \
                T v = x[(k * 4096 + i) * stride], h = v * (T)0.01;                             \
                name##_map *l = &lane[i % LANES];                                              \
                h = 1 - h;                                                                     \
                l->a = l->a * h;                                                               \
                l->b = l->b * h;                                                               \
                l->b = l->b + v;                                                               \
            }                                                                                  \
            y[k] = name##_halve(lane, m);                                                      \
        }                                                                                      \
        r = n ? name##_blocks(y, blocks) : identity;                                           \
        free(y);                                                                               \
        return r;                                                                              \
    }
NAIVE(naive32, float, 64)
NAIVE(naive64, double, 32)

#define AFFINE(T)                                           \
    "init=[1.0, 0.0],\n"                                    \
    "    step(a: " T "[], b: " T "[], v: " T                \
    "[]) { h = mul v, 0.01; k = sub 1.0, h; c = mul a, k\n" \
    "      d = mul b, k; e = add d, v; return c, e }\n"     \
    "    combine(a: " T "[], b: " T "[], c: " T "[], d: " T \
    "[]) { e = mul a, c; f = mul b, c\n"                    \
    "      g = add f, d; return e, g }}\n"

/* clang-format off */
static const int64_t lengths[] = {0, 1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 4095, 4096, 4097, 4160, 8192, 10000, 300001};
/* clang-format on */
enum { N_LENGTHS = sizeof lengths / sizeof lengths[0], MOST = 300001, ROWS = 3 };
static float *in32;
static double *in64;

static void fill(void) {
    uint64_t seed = RANDOM_SEED;
    in32 = (float *)malloc(MOST * ROWS * sizeof *in32);
    in64 = (double *)malloc(MOST * ROWS * sizeof *in64);
    if (!in32 || !in64) exit(1);
    for (int64_t k = 0; k < (int64_t)MOST * ROWS; k++) {
        in64[k] = (double)(int64_t)draw(&seed) * 0x1p-62;
        in32[k] = (float)in64[k];
    }
}

static void order_of(stax_dtype dtype, bool rows, const char *text) {
    stax_graph *g = parsed(ctx, text, NULL);
    stax_program *p = compiled(ctx, g);
    size_t width = stax_dtype_bytes(dtype);
    for (int k = 0; p && k < N_LENGTHS; k++) {
        int64_t n = lengths[k];
        double want[2][ROWS], got[2][2][ROWS];
        stax_tensor in = stax_tensor_of(dtype, rows ? stax_shape2(ROWS, n) : stax_shape2(n, ROWS),
                                        dtype == STAX_F32 ? (void *)in32 : (void *)in64);
        for (int r = 0; r < ROWS; r++) {
            int64_t at = rows ? r * n : r, stride = rows ? 1 : ROWS;
            naive32_map f = naive32(in32 + at, dtype == STAX_F32 ? n : 0, stride);
            naive64_map d = naive64(in64 + at, dtype == STAX_F64 ? n : 0, stride);
            for (int s = 0; s < 2; s++) {
                float single = s ? f.b : f.a;
                double wide = s ? d.b : d.a;
                memcpy((char *)want[s] + (size_t)r * width,
                       dtype == STAX_F32 ? (const void *)&single : (const void *)&wide, width);
            }
        }
        for (int way = 0; way < 2; way++) {
            stax_tensor out[2];
            for (int s = 0; s < 2; s++)
                out[s] = stax_tensor_of(dtype, stax_shape1(ROWS), got[way][s]);
            CHECK_INT(way ? stax_run(p, &in, out) : stax_interpret(g, &in, out), STAX_OK);
            for (int s = 0; s < 2; s++)
                if (!CHECK_BYTES(got[way][s], want[s], ROWS * width))
                    printf("%s, n = %d, state %d\n", way ? "compiled" : "interpreted", (int)n, s);
        }
    }
    stax_program_free(p);
    stax_graph_free(g);
}

/* The ranges of n lead to one, two and three levels of blocks. */
static void order(void) {
    order_of(STAX_F32, true,
             "sizes n\ngraph g(x: f32[3,n]) { y, z = reduce x {axes=[1], " AFFINE(
                 "f32") " return y, z }");
    order_of(STAX_F64, true,
             "sizes n\ngraph g(x: f64[3,n]) { y, z = reduce x {axes=[1], " AFFINE(
                 "f64") " return y, z }");
    order_of(STAX_F32, false,
             "sizes n\ngraph g(x: f32[n,3]) { y, z = reduce x {axes=[0], " AFFINE(
                 "f32") " return y, z }");
    order_of(STAX_F64, false,
             "sizes n: 0..300001\ngraph g(x: f64[n,3]) { y, z = reduce x {axes=[0], " AFFINE(
                 "f64") " return y, z }");
}

/* ---- the same bits: interpreted and compiled --------------------------------------------------
 */

static void agree_in(stax_context *c, const char *text, const char *name, const int64_t *sizes) {
    stax_graph *g = parsed(c, text, name);
    stax_program *p = compiled(c, g);
    for (; p && *sizes >= 0; sizes++) {
        static feed a, b;
        CHECK(feed_make(&a, g, *sizes, 7) && feed_make(&b, g, *sizes, 7));
        for (int k = 0; k < a.n_all; k++) /* loops that end */
            if (a.all[k].dtype == STAX_I64 && a.all[k].rank == 0)
                *(int64_t *)a.all[k].data = *(int64_t *)b.all[k].data = 3;
        CHECK_INT(stax_interpret(g, a.all, a.outputs), STAX_OK);
        CHECK_INT(stax_run(p, b.slots, b.outputs), STAX_OK);
        if (!CHECK(feed_equal(&a, &b))) printf("size %d:\n%s\n", (int)*sizes, text);
        feed_free(&a);
        feed_free(&b);
    }
    stax_program_free(p);
    stax_graph_free(g);
}

static const int64_t all_sizes[] = {0, 1, 2, 63, 64, 65, 4095, 4096, 4097, 10000, -1};
static const int64_t few_sizes[] = {0, 1, 5, 64, 129, -1};

static void agree(const char *text, const char *name, const int64_t *sizes) {
    agree_in(ctx, text, name, sizes);
    for (int t = 0; t < 2; t++) agree_in(threaded[t], text, name, sizes);
}

static char *read_file(const char *path) {
    FILE *f = fopen(path, "rb");
    char *text = (char *)calloc(1, 1 << 16);
    if (!CHECK(f && text && fread(text, 1, (1 << 16) - 1, f) > 0)) exit(1);
    fclose(f);
    return text;
}

static void corpus(void) {
    static const char *const names[] = {"rows", "columns", "shared", "stored"};
    char *text = read_file("tests/corpus/good/monoids.stax");
    for (int k = 0; k < 4; k++) agree(text, names[k], all_sizes);
    agree(text, "axes", few_sizes);
    free(text);
    text = read_file("tests/corpus/good/welford.stax");
    for (int k = 0; k < 2; k++) agree(text, names[k], all_sizes);
    free(text);
}

/* wide enough for threads and for several tiles of columns, with a rest */
static void wide(void) {
    static const int64_t sizes[] = {300, 1029, -1};
    agree(
        "sizes n: 0..2000\n"
        "graph g(x: f32[n,1029], y: f64[n,517], z: f32[n,3,70]) {\n"
        "  m, v = welford x {axes=[0]}; m2, v2 = welford x {axes=[1]}\n"
        "  s = sum y {axes=[0], compensated=true}; s2 = sum y {axes=[1], compensated=true}\n"
        "  a, b = reduce z {axes=[1], init=[0, -inf], step(a: i32[], b, v) { g = gt v, 0.0\n"
        "      i = cast g {dtype=i32}; c = add a, i; d = maximum b, v; return c, d }\n"
        "    combine(a: i32[], b, c: i32[], d) { e = add a, c; f = maximum b, d; return e, f }}\n"
        "  m3, v3 = welford z {axes=[0,2], correction=1}\n"
        "  return m, v, m2, v2, s, s2, a, b, m3, v3 }",
        NULL, sizes);
}

/* Every dtype as a state, results nobody wants, NaN with a payload that comes through a step, what
   observes a state, eight states, several results of one name, an axis of extent 1. */
static void corners(void) {
    agree(
        "sizes n: 0..10000\n"
        "graph g(x: f32[3,n], u: u32[n], b: bool[3,n], h: f16[n,2], q: bf16[n]) {\n"
        "  last = bitcast u {dtype=f32}\n"
        "  a = reduce last {init=[0.0], step(s, v) { return v } combine(s, t) { return t }}\n"
        "  c = reduce last {init=[0.0], step(s, v) { m = neg v; t = copysign s, m; u = add t, v\n"
        "      return u } combine(s, t) { u = copysign t, s; return u }}\n"
        "  d, e = reduce b {axes=[1], init=[true, 0], step(s: bool[], n: u16[], v) {\n"
        "      t = logical_xor s, v; i = cast v {dtype=u16}; m = add n, i; return t, m }\n"
        "    combine(s: bool[], n: u16[], t: bool[], m: u16[]) { u = logical_xor s, t; u2 = "
        "logical_not u\n"
        "      k = add n, m; return u2, k }}\n"
        "  f, f2 = reduce h {axes=[0], init=[0.0, 65504.0], step(s, t: f16[], v) { w = add s, v\n"
        "      z = minimum t, v; return w, z }\n"
        "    combine(s, t: f16[], s2, t2: f16[]) { w = add s, s2; z = minimum t, t2; return w, z "
        "}}\n"
        "  k = reduce q {init=[0.0], step(s: bf16[], v) { t = add s, v; return t }\n"
        "    combine(s: bf16[], t: bf16[]) { u = add s, t; return u }}\n"
        "  p0, p1, p2, p3, p4, p5, p6, p7 = reduce x {axes=[1], init=[0, 0, 0, 0, 0, 0, 0, nan],\n"
        "    step(a: i8[], b: i16[], c: i32[], d: i64[], e: u8[], f: u64[], g: f64[], h, v) {\n"
        "      i = cast v {dtype=i8}; a2 = sub a, i; j = cast v {dtype=i16}; b2 = add b, j\n"
        "      c2 = add c, 3; d2 = sub d, 2; e2 = add e, 1; f2 = sub f, 1; w = cast v {dtype=f64}\n"
        "      g2 = add g, w; return a2, b2, c2, d2, e2, f2, g2, v }\n"
        "    combine(a: i8[], b: i16[], c: i32[], d: i64[], e: u8[], f: u64[], g: f64[], h, i: "
        "i8[], j: i16[],\n"
        "            k: i32[], l: i64[], m: u8[], n: u64[], o: f64[], p) {\n"
        "      q = add a, i; r = add b, j; s = add c, k; t = add d, l; u = add e, m; w = add f, n\n"
        "      x = add g, o; return q, r, s, t, u, w, x, p }}\n"
        "  y = unsqueeze x {axes=[1]}\n"
        "  z = reduce y {axes=[1], init=[1.0], step(s, v) { t = mul s, v; return t }\n"
        "    combine(s, t) { u = mul s, t; return u }}\n"
        "  zz = reduce y {axes=[1,2], keepdims=true, init=[1.0], step(s, v) { t = mul s, v; return "
        "t }\n"
        "    combine(s, t) { u = mul s, t; return u }}\n"
        "  return a, c, d, e, f2, k, p0, p1, p2, p4, p5, p6, p7, z, zz, e }",
        NULL, all_sizes);
}

/* ---- by hand ----------------------------------------------------------------------------------
 */

static void by_hand_of(const char *text) {
    stax_graph *g = parsed(ctx, text, NULL);
    stax_program *p = compiled(ctx, g);
    for (int way = 0; p && way < 2; way++) {
        static feed f;
        CHECK(feed_make(&f, g, 5, 1));
        CHECK_INT(way ? stax_run(p, f.slots, f.outputs) : stax_interpret(g, f.all, f.outputs),
                  STAX_OK);
        for (int k = 0; k + 1 < f.n_outputs; k += 2) {
            size_t bytes = stax_dtype_bytes(f.outputs[k].dtype);
            for (int d = 0; d < f.outputs[k].rank; d++) bytes *= (size_t)f.outputs[k].shape[d];
            CHECK_INT(f.outputs[k].dtype, f.outputs[k + 1].dtype);
            if (!CHECK_BYTES(f.outputs[k].data, f.outputs[k + 1].data, bytes))
                printf("outputs %d and %d:\n%s\n", k, k + 1, text);
        }
        feed_free(&f);
    }
    stax_program_free(p);
    stax_graph_free(g);
}

static void by_hand(void) {
    by_hand_of(
        "graph g() { x = const f32[2,4] {1, 2, 3, 6,  -1, -1, -1, -1}\n"
        "  m, v = welford x {axes=[1]}; wm = const f32[2] {3, -1}; wv = const f32[2] {3.5, 0.0}\n"
        "  m1, v1 = welford x {axes=[1], correction=1, keepdims=true}\n"
        "  wm1 = const f32[2,1] {3, -1}; y = const f32[2,1] {14, 0.0}; wv1 = div y, 3.0\n"
        "  s = sum x {compensated=true}; ws = const f32[] {8}\n"
        "  a = mean x {axes=[0], compensated=true, keepdims=true}; wa = const f32[1,4] {0.0, 0.5, "
        "1, 2.5}\n"
        "  return m, wm, v, wv, m1, wm1, v1, wv1, s, ws, a, wa }");
    /* nothing: a sum of nothing is +0, its mean NaN; init is the identity */
    by_hand_of(
        "graph g() { x = const f64[0,2] {}\n"
        "  m, v = welford x {axes=[0]}; w = const f64[2] {nan, nan}\n"
        "  s = sum x {axes=[0], compensated=true}; z = const f64[2] {0.0, 0.0}\n"
        "  a = mean x {axes=[0], compensated=true}\n"
        "  r, k = reduce x {axes=[0], init=[-inf, 7], step(r, k: i64[], v) { return v, k }\n"
        "    combine(r, k: i64[], q, l: i64[]) { return r, l }}\n"
        "  wr = const f64[2] {-inf, -inf}; wk = const i64[2] {7, 7}\n"
        "  return m, w, v, w, s, z, a, w, r, wr, k, wk }");
    /* signs of zero, infinities and overflow as in sum; integers are exact and stay integers */
    by_hand_of(
        "graph g() { x = const f32[5,2] {-0.0, -0.0,  -0.0, 0.0,  inf, 1,  inf, -inf,  3e38, "
        "3e38}\n"
        "  s = sum x {axes=[1], compensated=true}; w = const f32[5] {-0.0, 0.0, inf, nan, inf}\n"
        "  i = const i8[3] {100, 100, 100}; t: i64[] = sum i {compensated=true}; wt = const i64[] "
        "{300}\n"
        "  h = const f16[3] {2048, 1, 1}; u: f16[] = sum h {compensated=true}; wu = const f16[] "
        "{2050}\n"
        "  return s, w, t, wt, u, wu }");
}

/* ---- what must hold of the monoids ------------------------------------------------------------
 */

/* The combination of a monoid of the decomposition on n tuples of each side at once; `in` and
   `out`: states one after the other, n values each. */
static void combine(const staxi_monoid *m, stax_dtype dtype, int64_t n, const void *left,
                    const void *right, void *out) {
    stax_graph *g = stax_graph_new(ctx);
    staxi_expander e;
    uint32_t in[6], results[3] = {0, 0, 0};
    stax_tensor tensors[6], outs[3];
    size_t bytes = (size_t)n * stax_dtype_bytes(dtype);
    memset(&e, 0, sizeof e);
    e.to = g;
    for (int k = 0; k < 2 * m->n_states; k++) {
        char name[2] = {(char)('a' + k), 0};
        const char *from = (const char *)(k < m->n_states ? left : right);
        in[k] = stax_input(g, name, dtype, stax_shape1(n)).id;
        tensors[k] = stax_tensor_of(dtype, stax_shape1(n),
                                    (void *)(uintptr_t)(from + (size_t)(k % m->n_states) * bytes));
    }
    m->combine(&e, in, results);
    for (int k = 0; k < m->n_states; k++) {
        char name[3] = {'r', (char)('0' + k), 0};
        staxi_output_push(g, name, results[k], 0);
        outs[k] = stax_tensor_of(dtype, stax_shape1(n), (char *)out + (size_t)k * bytes);
    }
    CHECK_INT(stax_interpret(g, tensors, outs), STAX_OK);
    stax_graph_free(g);
}

enum { TUPLES = 2000 };
static double at(const void *p, stax_dtype dtype, int state, int k) {
    return dtype == STAX_F32 ? (double)((const float *)p)[state * TUPLES + k]
                             : ((const double *)p)[state * TUPLES + k];
}
static void put(void *p, stax_dtype dtype, int state, int k, double x) {
    if (dtype == STAX_F32) ((float *)p)[state * TUPLES + k] = (float)x;
    if (dtype == STAX_F64) ((double *)p)[state * TUPLES + k] = x;
}

/* a (b c) and (a b) c, a b and b a, and the identity on both sides, in r[0 .. 5] */
static void laws(const staxi_monoid *m, stax_dtype dtype, const void *const *in, char **r) {
    char *t = r[6];
    combine(m, dtype, TUPLES, in[1], in[2], t);
    combine(m, dtype, TUPLES, in[0], t, r[0]);
    combine(m, dtype, TUPLES, in[0], in[1], t);
    combine(m, dtype, TUPLES, t, in[2], r[1]);
    combine(m, dtype, TUPLES, in[0], in[1], r[2]);
    combine(m, dtype, TUPLES, in[1], in[0], r[3]);
    for (int s = 0; s < m->n_states; s++)
        for (int k = 0; k < TUPLES; k++) put(t, dtype, s, k, m->init[s]);
    combine(m, dtype, TUPLES, t, in[0], r[4]);
    combine(m, dtype, TUPLES, in[0], t, r[5]);
    size_t bytes = (size_t)m->n_states * TUPLES * stax_dtype_bytes(dtype);
    CHECK_BYTES(r[4], in[0], bytes);
    CHECK_BYTES(r[5], in[0], bytes);
}

typedef struct room {
    char *in[3], *r[7];
} room;
static room room_new(void) {
    room x;
    for (int k = 0; k < 10; k++) {
        char *p = (char *)malloc(3 * TUPLES * 8);
        if (!p) exit(1);
        if (k < 3) x.in[k] = p;
        if (k >= 3) x.r[k - 3] = p;
    }
    return x;
}
static void room_free(room *x) {
    for (int k = 0; k < 3; k++) free(x->in[k]);
    for (int k = 0; k < 7; k++) free(x->r[k]);
}

/* Draws tuple k of an operand. */
typedef void (*draw_tuple)(char *in, stax_dtype dtype, int k, uint64_t *seed);

/* Three operands of random tuples, and both sides of each law of them. */
static room room_of(const staxi_monoid *m, stax_dtype dtype, draw_tuple tuple) {
    uint64_t seed = RANDOM_SEED;
    room x = room_new();
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < TUPLES; k++) tuple(x.in[i], dtype, k, &seed);
    laws(m, dtype, (const void *const *)x.in, x.r);
    return x;
}

/* Half the distance from 1 to the next number: the relative error of one rounding. */
static double roundoff(stax_dtype dtype) { return dtype == STAX_F32 ? 0x1p-24 : 0x1p-53; }

/* (count, mean, m2), exercise 14. Model: every operation has a relative error of at most u. With M
   the largest |mean| of the three and n counts that are exact: d = mean2 - mean1 is off by at most
   u |d|, w by 2u, so mean1 + d w is off by at most u M + 4u |d| <= 9u M (|d| <= 2M). The second
   combination starts from a mean that is off by that and weighs it by at most 1: 18u M, and two
   orders differ by at most 36u M. m2: d (d (n1 w)) with n1 w <= n = the total count: 7 roundings of
   it, and d is off by 9u M + u |d| at most: its square by 2 |d| 10u M + ...; so the term is off by
   n (7u d^2 + 22u M D) with D the largest |d|; two terms, the sums of m2 by 4u of the result; twice
   for the two orders. */
static void draw_welford(char *in, stax_dtype dtype, int k, uint64_t *seed) {
    double n = (double)(draw(seed) % 5000), spread = ldexp(1, (int)(draw(seed) % 20) - 10);
    put(in, dtype, 0, k, n);
    put(in, dtype, 1, k, n == 0 ? 0 : (double)(int64_t)draw(seed) * 0x1p-60 * spread);
    put(in, dtype, 2, k, n < 2 ? 0 : n * spread * spread);
}
static void laws_of_welford(stax_dtype dtype) {
    const double u = roundoff(dtype);
    room x = room_of(&staxi_welford, dtype, draw_welford);
    for (int k = 0; k < TUPLES; k++) {
        double M = 0, lo = INFINITY, hi = -INFINITY, n = 0;
        for (int i = 0; i < 3; i++) {
            double mean = at(x.in[i], dtype, 1, k);
            if (at(x.in[i], dtype, 0, k) == 0) continue;
            M = fmax(M, fabs(mean));
            lo = fmin(lo, mean);
            hi = fmax(hi, mean);
            n += at(x.in[i], dtype, 0, k);
        }
        double D = n ? hi - lo : 0;
        for (int law = 0; law < 4; law += 2) {
            const char *a = x.r[law], *b = x.r[law + 1];
            double q = fmax(at(a, dtype, 2, k), at(b, dtype, 2, k));
            CHECK(at(a, dtype, 0, k) == at(b, dtype, 0, k));
            CHECK(fabs(at(a, dtype, 1, k) - at(b, dtype, 1, k)) <= 36 * u * M);
            if (!CHECK(fabs(at(a, dtype, 2, k) - at(b, dtype, 2, k)) <=
                       2 * u * (4 * q + 2 * n * (7 * D * D + 22 * M * D))))
                printf("%.17g and %.17g\n", at(a, dtype, 2, k), at(b, dtype, 2, k));
        }
    }
    room_free(&x);
}
static void welford_is_a_monoid(void) {
    laws_of_welford(STAX_F32);
    laws_of_welford(STAX_F64);
}

/* (sum, lost): sum + lost is the exact sum but for the roundings of the second part. TwoSum is
   exact and what it loses is at most u |sum|, so `lost` is never more than L = u (|s1| + |s2| +
   |s3| + both partial sums) + the given ones; it has two additions a combination, each off by at
   most u L. Two combinations, two orders: 8u L. The difference is taken as (s - s') + (lost -
   lost'), exactly. */
static void draw_compensated(char *in, stax_dtype dtype, int k, uint64_t *seed) {
    double s = ldexp((double)(int64_t)draw(seed), (int)(draw(seed) % 40) - 80);
    put(in, dtype, 0, k, s);
    put(in, dtype, 1, k, s * roundoff(dtype) * (double)(draw(seed) % 4) + 0.0); /* -0: no element */
}
static void laws_of_compensated(stax_dtype dtype) {
    const double u = roundoff(dtype);
    room x = room_of(&staxi_compensated, dtype, draw_compensated);
    for (int k = 0; k < TUPLES; k++) {
        double S = 0, lost = 0;
        for (int i = 0; i < 3; i++) {
            S += fabs(at(x.in[i], dtype, 0, k));
            lost += fabs(at(x.in[i], dtype, 1, k));
        }
        for (int law = 0; law < 4; law += 2) {
            const char *a = x.r[law], *b = x.r[law + 1];
            double d = at(a, dtype, 0, k) - at(b, dtype, 0, k);
            d += at(a, dtype, 1, k) - at(b, dtype, 1, k);
            CHECK(fabs(d) <= 8 * u * (lost + 3 * u * S));
        }
    }
    room_free(&x);
}
static void compensated_is_a_monoid(void) {
    laws_of_compensated(STAX_F32);
    laws_of_compensated(STAX_F64);
}

/* ---- how near ---------------------------------------------------------------------------------
 */

/* The outputs of a graph of one input for n elements, interpreted and compiled alike. */
static void outputs_of(const char *text, stax_dtype dtype, const void *x, int64_t n, double *out,
                       int n_out) {
    stax_graph *g = parsed(ctx, text, NULL);
    stax_program *p = compiled(ctx, g);
    stax_tensor in = stax_tensor_of(dtype, stax_shape1(n), (void *)(uintptr_t)x), outs[8];
    double data[2][8];
    memset(data, 0, sizeof data);
    for (int way = 0; p && way < 2; way++) {
        for (int k = 0; k < n_out; k++)
            outs[k] = stax_tensor_of(dtype, stax_shape0(), &data[way][k]);
        CHECK_INT(way ? stax_run(p, &in, outs) : stax_interpret(g, &in, outs), STAX_OK);
    }
    CHECK_BYTES(data[1], data[0], sizeof data[0]);
    for (int k = 0; k < n_out; k++) {
        float single;
        memcpy(&single, &data[0][k], sizeof single);
        out[k] = dtype == STAX_F32 ? (double)single : data[0][k];
    }
    stax_program_free(p);
    stax_graph_free(g);
}

static const char both_sums[] =
    "sizes n: 0..2000000\ngraph g(x: f32[n]) { a = sum x {compensated=true}; b = sum x; return a, "
    "b }";
static const char both_sums64[] =
    "sizes n: 0..2000000\ngraph g(x: f64[n]) { a = sum x {compensated=true}; b = sum x; return a, "
    "b }";

/* Exercise 42 (3): the error of first order does not depend on n. The bound is one rounding of the
   result, u |S|, and n u^2 sum |x| for the roundings in the second part; f64 is the reference. */
static void compensated_error_does_not_grow(void) {
    const double u = 0x1p-24;
    enum { N = 1000000 };
    float *x = (float *)malloc(N * sizeof *x);
    uint64_t seed = RANDOM_SEED;
    if (!x) exit(1);
    for (int64_t n = 1000; n <= N; n *= 10)
        for (int kind = 0; kind < 2; kind++) { /* around 1; of any sign and size */
            double sum = 0, magnitude = 0, r[2];
            for (int64_t k = 0; k < n; k++) {
                double v = (double)(draw(&seed) >> 40) * 0x1p-24 + 0.5;
                x[k] = kind ? (float)ldexp(v * (draw(&seed) & 1 ? 1 : -1), (int)(draw(&seed) % 16))
                            : (float)v;
                sum += (double)x[k];
                magnitude += fabs((double)x[k]);
            }
            outputs_of(both_sums, STAX_F32, x, n, r, 2);
            CHECK(fabs(r[0] - sum) <= u * fabs(sum) + (double)n * u * u * magnitude);
            CHECK(fabs(r[0] - sum) <= fabs(r[1] - sum) + u * fabs(sum));
        }
    free(x);
}

/* 1 + 1e100 + 1 - 1e100 = 2, in one lane, in several, and in several blocks. */
static void cancellation(void) {
    enum { N = 4096 * 4 };
    double *x = (double *)calloc(N, sizeof *x), r[2];
    static const int64_t strides[] = {1, 32, 4096};
    if (!x) exit(1);
    for (int k = 0; k < 3; k++) {
        int64_t s = strides[k];
        memset(x, 0, N * sizeof *x);
        x[0] = x[2 * s] = 1;
        x[s] = 1e100;
        x[3 * s] = -1e100;
        outputs_of(both_sums64, STAX_F64, x, 3 * s + 1, r, 2);
        CHECK_FLOAT(r[0], 2);
        if (s == 32) CHECK_FLOAT(r[1], 0); /* what is lost without */
    }
    free(x);
}

/* Exercise 14 (2): the difference of the mean square and the squared mean fails where the mean is
   large beside the deviation. Welford's error is at most about n u kappa, kappa = sqrt(1 + mean^2 /
   var) the condition number of the variance (Chan and Lewis, CACM 22 (1979)). */
static void variances(stax_dtype dtype, double offset, int64_t n, double u) {
    static const char *const texts[] = {
        "sizes n: 0..2000000\ngraph g(x: f32[n]) { m, v = welford x; w = var x; q = square x; a = "
        "mean q\n"
        "  b = mean x; c = square b; t = sub a, c; return m, v, w, t }",
        "sizes n: 0..2000000\ngraph g(x: f64[n]) { m, v = welford x; w = var x; q = square x; a = "
        "mean q\n"
        "  b = mean x; c = square b; t = sub a, c; return m, v, w, t }"};
    double *x = (double *)malloc((size_t)n * sizeof *x), r[4];
    const double mean = offset + (double)(n - 1) / 2, var = ((double)n * (double)n - 1) / 12;
    if (!x) exit(1);
    for (int64_t k = 0; k < n; k++) {
        if (dtype == STAX_F32) ((float *)x)[k] = (float)(offset + (double)k);
        if (dtype == STAX_F64) x[k] = offset + (double)k;
    }
    outputs_of(texts[dtype == STAX_F64], dtype, x, n, r, 4);
    double kappa = sqrt(1 + mean * mean / var), bound = (double)n * u * kappa;
    CHECK(fabs(r[0] - mean) <= (double)n * u * mean);
    if (!CHECK(fabs(r[1] - var) <= bound * var)) printf("%.17g, expected %.17g\n", r[1], var);
    CHECK(fabs(r[2] - var) <= bound * var);
    CHECK(fabs(r[3] - var) > 30 * fabs(r[1] - var)); /* the textbook formula */
    free(x);
}
static void large_means(void) {
    variances(STAX_F64, 1e8, 1000, 0x1p-53);
    variances(STAX_F64, 1e8, 100000, 0x1p-53);
    variances(STAX_F32, 1e5, 1000, 0x1p-24);
    variances(STAX_F32, 1e6, 5000, 0x1p-24);
}

/* ---- the builder, and what reports say --------------------------------------------------------
 */

static stax_graph *region_of(stax_graph *g, const char *name, int n, stax_value *params) {
    stax_graph *r = stax_region(g, name);
    for (int k = 0; k < n; k++) {
        char param[2] = {(char)('a' + k), 0};
        params[k] = stax_input(r, param, STAX_F32, stax_shape0());
    }
    return r;
}

static void built(void) {
    const double init[2] = {0.0, -INFINITY}, half[1] = {0.5};
    float x[2][3] = {{1, 5, 2}, {-1, -4, -2}}, out[2][2];
    stax_graph *g = stax_graph_new(ctx), *step, *both;
    stax_value in = stax_input(g, "x", STAX_F32, stax_shape2(2, 3)), p[4], r[2];
    stax_tensor t = stax_tensor_of(STAX_F32, stax_shape2(2, 3), x), outs[2];
    step = region_of(g, "step", 3, p);
    stax_output(step, "s", stax_add(p[0], p[2]));
    stax_output(step, "m", stax_maximum(p[1], p[2]));
    both = region_of(g, "combine", 4, p);
    stax_output(both, "s", stax_add(p[0], p[2]));
    stax_output(both, "m", stax_maximum(p[1], p[3]));
    stax_reduce(&in, 1, stax_axes1(-1), init, 2, false, step, both, r);
    for (int k = 0; k < 2; k++) {
        stax_output(g, k ? "m" : "s", r[k]);
        outs[k] = stax_tensor_of(STAX_F32, stax_shape1(2), out[k]);
    }
    if (!CHECK(stax_ok(g))) printf("%s\n", stax_graph_error(g));
    stax_program *program = compiled(ctx, g);
    CHECK_INT(stax_run(program, &t, outs), STAX_OK);
    CHECK_FLOAT(out[0][0], 8);
    CHECK_FLOAT(out[0][1], -7);
    CHECK_FLOAT(out[1][0], 5);
    CHECK_FLOAT(out[1][1], -1);
    stax_program_free(program);
    stax_graph_free(g);
    for (int wrong = 0; wrong < 5; wrong++) { /* refused, with the reason */
        static const char *const why[] = {
            "expected 1 to 8 numbers, found 0", "does not belong", "does not belong",
            "the literal 0.5 is not a value of i32", "expected 1 to 8 numbers, found 9"};
        g = stax_graph_new(ctx);
        in = stax_input(g, "x", STAX_I32, stax_shape1(3));
        step = stax_region(g, "step");
        p[0] = stax_input(step, "s", STAX_I32, stax_shape0());
        stax_output(step, "t", stax_add(p[0], stax_input(step, "v", STAX_I32, stax_shape0())));
        both = stax_region(g, "combine");
        p[0] = stax_input(both, "s", STAX_I32, stax_shape0());
        stax_output(both, "t", stax_add(p[0], stax_input(both, "u", STAX_I32, stax_shape0())));
        r[0] = stax_reduce(&in, 1, stax_axes_all(), wrong ? half : NULL, wrong == 4 ? 300 : 1,
                           false, wrong == 2 ? NULL : step, wrong == 1 ? NULL : both, NULL);
        CHECK(r[0].id == 0 && stax_graph_status(g) != STAX_OK);
        CHECK_HAS(stax_graph_error(g), why[wrong]);
        stax_graph_free(g);
    }
}

/* Producers and readers are in the kernel, another reduction is not, and the report says why. */
static void kernels(void) {
    stax_graph *g =
        parsed(ctx,
               "graph g(x: f32[64,128]) { e = exp x; f = mul e, 2.0; m, v = welford f {axes=[1]}\n"
               "  r = sqrt v; u = unsqueeze m {axes=[1]}; d = sub x, u; s = sum x {axes=[1]}\n"
               "  return r, d, s }",
               NULL);
    stax_program *p = compiled(ctx, g);
    stax_figures figures;
    char *text = stax_program_report(p, STAX_REPORT_EXPLAIN);
    CHECK_INT(stax_program_figures(p, NULL, &figures), STAX_OK);
    CHECK_INT(figures.kernels, 2);
    CHECK_HAS(text, "the states of a monoid have their loop for themselves");
    stax_free(ctx, text);
    text = stax_program_report(p, STAX_REPORT_LOOPS);
    CHECK_HAS(text, " join ");
    stax_free(ctx, text);
    stax_program_free(p);
    stax_graph_free(g);
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    ctx = strict_context(1);
    threaded[0] = strict_context(2);
    threaded[1] = strict_context(4);
    fill();
    RUN(order);
    RUN(corpus);
    RUN(wide);
    RUN(corners);
    RUN(by_hand);
    RUN(welford_is_a_monoid);
    RUN(compensated_is_a_monoid);
    RUN(compensated_error_does_not_grow);
    RUN(cancellation);
    RUN(large_means);
    RUN(built);
    RUN(kernels);
    free(in32);
    free(in64);
    stax_close(ctx);
    for (int t = 0; t < 2; t++) stax_close(threaded[t]);
    return HARNESS_END();
}
