/* Tensors for any graph: sizes for its symbols, reproducible contents for its inputs, room for its
   outputs with guard bytes around all of them. Integers are 0, 1 or 2, so that they are good indices for
   axes of three and more. */
#ifndef STAX_TESTS_FEED_H
#define STAX_TESTS_FEED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stax.h"

enum { FEED_MAX = 320, FEED_SYMBOLS = 16, FEED_GUARD = 64 };

typedef struct feed {
    int n_all, n_slots, n_outputs, n_symbols;
    int64_t symbols[FEED_SYMBOLS];
    stax_tensor all[FEED_MAX];     /* every input, for stax_interpret   */
    stax_tensor slots[FEED_MAX];   /* without the params, for stax_run  */
    stax_tensor outputs[FEED_MAX];
    stax_input_kind kinds[FEED_MAX];
    const char *names[FEED_MAX];
    unsigned char *memory[2 * FEED_MAX];
    size_t bytes[2 * FEED_MAX]; /* without guards */
    int n_memory;
} feed;

/* The type of an exported program's argument. */
static inline const char *feed_c_type(stax_dtype t) {
    switch (t) {
    case STAX_F64: return "double";
    case STAX_F32: return "float";
    case STAX_I64: return "int64_t";
    case STAX_I32: return "int32_t";
    case STAX_I16: return "int16_t";
    case STAX_I8: return "int8_t";
    case STAX_U64: return "uint64_t";
    case STAX_U32: return "uint32_t";
    case STAX_U16: case STAX_F16: case STAX_BF16: return "uint16_t";
    default: return "uint8_t";
    }
}

static inline uint64_t feed_random(uint64_t *s) {
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return *s >> 33;
}

static inline void feed_fill(void *data, stax_dtype dtype, size_t n, uint64_t seed) {
    static const uint16_t halves[8] = {0x3800, 0xb800, 0x3c00, 0x0000, 0x4000, 0xbc00, 0x3555, 0x2e66};
    uint64_t s = seed * 977 + 5;
    for (size_t k = 0; k < n; k++) {
        uint64_t r = feed_random(&s);
        double x = (double)(int64_t)(r % 4001) / 1000.0 - 2.0;
        uint64_t u = r % 3;
        switch (dtype) {
        case STAX_F64: ((double *)data)[k] = x; break;
        case STAX_F32: ((float *)data)[k] = (float)x; break;
        case STAX_F16: case STAX_BF16: ((uint16_t *)data)[k] = halves[r % 8]; break;
        case STAX_I64: case STAX_U64: ((uint64_t *)data)[k] = u; break;
        case STAX_I32: case STAX_U32: ((uint32_t *)data)[k] = (uint32_t)u; break;
        case STAX_I16: case STAX_U16: ((uint16_t *)data)[k] = (uint16_t)u; break;
        case STAX_BOOL: ((unsigned char *)data)[k] = (unsigned char)(u & 1); break;
        default: ((unsigned char *)data)[k] = (unsigned char)u; break;
        }
    }
}

/* Memory for elements of which the farthest lie at least `low` before and `high` behind element 0. */
static inline void *feed_memory(feed *f, size_t size, int64_t low, int64_t high) {
    size_t n = (size_t)(high - low), bytes = n * size;
    unsigned char *m = (unsigned char *)malloc(bytes + 2 * FEED_GUARD);
    if (!m) return NULL;
    memset(m, 0xa5, bytes + 2 * FEED_GUARD);
    f->memory[f->n_memory] = m;
    f->bytes[f->n_memory++] = bytes;
    return m + FEED_GUARD + (size_t)(-low) * size;
}

static inline int feed_guards_hold(const feed *f) {
    for (int k = 0; k < f->n_memory; k++)
        for (size_t b = 0; b < FEED_GUARD; b++)
            if (f->memory[k][b] != 0xa5 || f->memory[k][FEED_GUARD + f->bytes[k] + b] != 0xa5) return 0;
    return 1;
}

static inline void feed_free(feed *f) {
    for (int k = 0; k < f->n_memory; k++) free(f->memory[k]);
    f->n_memory = 0;
}

/* Writes the n elements that lie in memory for input k. */
typedef void feed_filler(const void *user, int k, stax_dtype dtype, void *data, size_t n);

/* symbols: the sizes. 0: a size has no value. Free it in any case. */
static inline int feed_make_with(feed *f, const stax_graph *g, const int64_t *symbols, feed_filler *fill,
                          const void *user) {
    memset(f, 0, sizeof *f);
    f->n_all = stax_graph_n_inputs(g);
    f->n_outputs = stax_graph_n_outputs(g);
    f->n_symbols = stax_graph_n_symbols(g);
    if (f->n_all > FEED_MAX || f->n_outputs > FEED_MAX || f->n_symbols > FEED_SYMBOLS) return 0;
    for (int k = 0; k < f->n_symbols; k++) f->symbols[k] = symbols[k];
    for (int k = 0; k < f->n_all; k++) {
        stax_input_info info;
        stax_shape shape;
        stax_graph_input(g, k, &info);
        shape = info.shape;
        int64_t low = 0, high = 0, n = 1;
        for (int d = 0; d < shape.rank; d++) {
            if (!stax_size_value(g, info.shape.dims[d], f->symbols, &shape.dims[d]) || shape.dims[d] < 0) return 0;
            n *= shape.dims[d];
        }
        stax_tensor t = stax_tensor_of(info.dtype, shape, NULL);
        if (info.layout == STAX_STRIDED && info.is_exact) {
            for (int d = 0; d < shape.rank; d++)
                if (!stax_size_value(g, info.strides.dims[d], f->symbols, &t.strides[d])) return 0;
        } else if (info.layout == STAX_STRIDED) { /* Fortran's order with a gap, the last axis backwards */
            int64_t stride = 2;
            for (int d = 0; d < shape.rank; d++) {
                t.strides[d] = d == shape.rank - 1 ? -stride : stride;
                stride *= shape.dims[d] ? shape.dims[d] : 1;
            }
        }
        for (int d = 0; d < shape.rank; d++) {
            int64_t reach = t.strides[d] * (shape.dims[d] - 1);
            if (reach < 0) low += reach;
            else high += reach;
        }
        if (n == 0) low = high = -1;
        t.data = feed_memory(f, stax_dtype_bytes(info.dtype), n ? low : 0, n ? high + 1 : 0);
        if (!t.data) return 0;
        fill(user, k, info.dtype, f->memory[k] + FEED_GUARD, n ? (size_t)(high + 1 - low) : 0);
        f->all[k] = t;
        f->kinds[k] = info.kind;
        f->names[k] = info.name;
        if (info.kind != STAX_KIND_PARAM) f->slots[f->n_slots++] = t;
    }
    for (int k = 0; k < f->n_outputs; k++) {
        stax_output_info info;
        stax_shape shape;
        stax_graph_output(g, k, &info);
        shape = info.shape;
        int64_t n = 1;
        for (int d = 0; d < shape.rank; d++) {
            if (!stax_size_value(g, info.shape.dims[d], f->symbols, &shape.dims[d]) || shape.dims[d] < 0) return 0;
            n *= shape.dims[d];
        }
        f->outputs[k] = stax_tensor_of(info.dtype, shape, NULL);
        f->outputs[k].data = feed_memory(f, stax_dtype_bytes(info.dtype), 0, n);
        if (!f->outputs[k].data) return 0;
    }
    return 1;
}

static inline void feed_fill_seeded(const void *user, int k, stax_dtype dtype, void *data, size_t n) {
    feed_fill(data, dtype, n, *(const uint64_t *)user + (uint64_t)k + 1);
}

/* Sizes near `wanted`, clipped to the ranges of the graph's symbols. */
static inline void feed_symbols(const stax_graph *g, int64_t wanted, int64_t *symbols) {
    for (int k = 0; k < stax_graph_n_symbols(g) && k < FEED_SYMBOLS; k++) {
        stax_symbol_info info;
        stax_graph_symbol(g, k, &info);
        int64_t n = wanted + k;
        symbols[k] = n < info.lo ? info.lo : n > info.hi ? info.hi : n;
    }
}

static inline int feed_make(feed *f, const stax_graph *g, int64_t wanted, uint64_t seed) {
    int64_t symbols[FEED_SYMBOLS];
    feed_symbols(g, wanted, symbols);
    return feed_make_with(f, g, symbols, feed_fill_seeded, &seed);
}

/* Same contents of all memory: inputs, states, outputs and guards. */
static inline int feed_equal(const feed *a, const feed *b) {
    if (a->n_memory != b->n_memory) return 0;
    for (int k = 0; k < a->n_memory; k++)
        if (a->bytes[k] != b->bytes[k] || memcmp(a->memory[k], b->memory[k], a->bytes[k] + 2 * FEED_GUARD) != 0) return 0;
    return 1;
}

static inline stax_status feed_bind(stax_program *p, const feed *f) {
    stax_status s = STAX_OK;
    for (int k = 0; k < f->n_all && s == STAX_OK; k++)
        if (f->kinds[k] == STAX_KIND_PARAM) s = stax_bind(p, f->names[k], &f->all[k]);
    return s;
}

/* A graph for each class of ops, and for each way a tensor can go in and out. */
static const char *const feed_graphs[] = {
    "graph unary(x: f32[3,5], k: i32[4], b: bool[3]) {\n"
    "  a = exp x; b1 = tanh a; c = sqrt a; d = neg k; e = logical_not b; f = gelu x; h = floor x; i = isnan x\n"
    "  j = sin x; k1 = erf x; l = log a\n"
    "  return b1, c, d, e, f, h, i, j, k1, l\n}",
    "graph binary(x: f64[3,1], y: f64[1,4], i: i16[4], j: i16[4], u: u8[4]) {\n"
    "  a = add x, y; b = pow x, y; c = floor_divide i, j; d = remainder i, 3; e = shift_left u, 1; f = lt x, y\n"
    "  g = where f, a, 0.5; h = atan2 x, y; i1 = bitwise_xor i, j; k = clip a {min=-1, max=1}; l = fma x, y, 2.0\n"
    "  return a, b, c, d, e, g, h, i1, k, l\n}",
    "graph casts(x: f16[7], y: bf16[7], z: f8e4m3[4]) {\n"
    "  a = cast x {dtype=f32}; b = add x, y; c = cast a {dtype=i8}; d = bitcast x {dtype=u16}; e = cast z {dtype=f32}\n"
    "  f = mul x, x; return a, b, c, d, e, f\n}",
    "graph movement(x: f32[2,3,4]) {\n"
    "  a = reshape x {shape=[-1,4]}; b = permute x {axes=[2,0,1]}; c = slice x {starts=[0,2,3], stops=[none,none,none], steps=[1,-2,-1]}\n"
    "  d = flip x {axes=[0,2]}; e = roll x {shifts=[1,-2], axes=[0,1]}; f = pad x {low=[0,-1,1], high=[1,0,1], value=2.5}\n"
    "  g = pad x {low=1, high=1, mode=\"reflect\"}; h = concat x, x {axis=-1}; i = stack x, x {axis=1}; j, k = split x {sizes=[1,3], axis=2}\n"
    "  l = tile x {repeats=[1,2,1]}; m = unfold x {axis=2, size=2, step=1}; n = squeeze j; o = expand j {shape=[2,3,5]}\n"
    "  return a, b, c, d, e, f, g, h, i, k, l, m, n, o\n}",
    "graph index(x: f32[5,6], i: i32[2,3], j: u8[5,2]) {\n"
    "  a = gather x, i; b = gather x, i {axis=1, mode=\"wrap\"}; c = take_along_axis x, j {axis=1}; d = iota {shape=[3,2], axis=0}\n"
    "  e = gather a, 1 {axis=-1}; return a, b, c, d, e\n}",
    "graph reduce(x: f32[4,37], k: i8[9]) {\n"
    "  a = sum x {axes=1}; b = prod x {axes=0, keepdims=true}; c = max x; d = mean x {axes=[-1]}; e = var x {axes=1, correction=1}\n"
    "  f = argmax x {axis=1}; g = logsumexp x {axes=0}; h = sum k; i = all k; j = std x\n"
    "  return a, b, c, d, e, f, g, h, i, j\n}",
    "graph monoids(x: f32[4,37], y: f64[70,3], t: f32[]) {\n"
    "  a, b = welford x {axes=1}; c = sum y {axes=0, compensated=true}\n"
    "  d, e = reduce x {axes=0, init=[0.0, 0], step(s, n: i32[], v) { u = maximum v, t; w = add s, u; m = add n, 1; return w, m }\n"
    "    combine(s, n: i32[], p, m: i32[]) { u = add s, p; v = maximum u, t; o = add n, m; return v, o }}\n"
    "  return a, b, c, d, e\n}",
    "graph contract(a: f32[3,8], b: f32[8,5], v: f32[8], w: f32[4,8], s: f32[4], i: i8[2,3], j: i8[3,2]) {\n"
    "  c = matmul a, b; d = matmul a, v; e = linear a, w, s; f = dot a, w {lhs_contract=[1], rhs_contract=[1]}\n"
    "  g = matmul i, j {dtype=i32}; h = matmul v, v\n"
    "  return c, d, e, f, g, h\n}",
    "graph network(x: f32[3,16], g: f32[16], b: f32[16]) {\n"
    "  a = softmax x; c = log_softmax x {axis=0}; d = layer_norm x, g, b; e = rms_norm x, g\n"
    "  return a, c, d, e\n}",
    "graph random(k: u64[], q: u32[2]) {\n"
    "  a = random_bits k {shape=[5]}; b = uniform q {shape=[2,3], low=-1, high=2}; c = normal k {shape=[7]}\n"
    "  return a, b, c\n}",
    "graph state(inout p: f32[4,4], inout n: i64[], x: f32[4]) {\n"
    "  old = mul p, 2.0; assign p, x; v = slice p {starts=[1,0], stops=[3,4]}; w = mul v, 3.0; assign v, w\n"
    "  assign_slice p, 1.5 {starts=[0,none], stops=[2,none], steps=[none,3]}; m = add n, 1; assign n, m; s = sum p\n"
    "  return old, s\n}",
    "graph views(inout p: f32[4,6], inout q: f32[4,6], y: f32[4], x: f32[4,6]) {\n"
    "  t = transpose p; r = slice t {starts=[1,none], stops=[5,none], steps=[2,none]}; f = flip r; assign f, y\n"
    "  v = reshape p {shape=[2,12]}; w = slice v {starts=[1,2], stops=[2,8]}; u = add w, 1.0; assign w, u\n"
    "  a = slice p {starts=[0,0], stops=[3,6]}; b = slice p {starts=[1,0], stops=[4,6]}; assign b, a\n"
    "  c = add p, q; d = sub p, q; assign p, c; assign q, d; e = slice_scatter x, y {starts=[0,2], stops=[1,6]}\n"
    "  s = sum p; return s, a, e\n}",
    "graph regions(x: f32[4], n: i64[], c: bool[]) {\n"
    "  y = loop 3, x { body(i, a) { j = cast i {dtype=f32}; b = add a, j; return b } }\n"
    "  v, k = while y, n { test(p: f32[4], q: i64[]) { r = gt q, 0; return r }\n"
    "    body(p: f32[4], q: i64[]) { w = add p, x; h = sub q, 1; return w, h } }\n"
    "  z = cond c { then() { r = neg v; return r } else() { return x } }\n"
    "  return y, z, k\n}",
    "graph weights(x: f32[2,6], param w: f32[3,6], param b: f32[3]) {\n"
    "  y = linear x, w, b; z = relu y; s = softmax z; t = gather w, 1; return s, t\n}",
    "sizes n: 1..64, m: 1..64\n"
    "graph symbols(x: f32[n,m], y: f32[m]) {\n"
    "  a = add x, y; b = softmax a; c = transpose b; d = matmul b, c; e = sum d; f = reshape x {shape=[-1]}; h = concat x, x\n"
    "  return d, e, f, h\n}",
    "graph layouts(x: f32[4,5] strided, y: f32[4,5] strides [1,4], z: f32[4] strides [-1]) {\n"
    "  a = add x, y; b = sum a {axes=1}; c = mul b, z; return a, c\n}",
    "sizes n: 0..64\n"
    "graph sym_layouts(x: f32[n,5] strided, inout s: f32[5] strided, i: i64[2]) {\n"
    "  a = mul x, 2.0; b = add s, 1.0; assign s, b; c = gather s, i; d = sum x {axes=0}; return a, c, d\n}",
    "graph constants(x: f32[2,2]) {\n"
    "  c = const f32[2,2] {1, -0.0, nan, 0x1p-3}; d = add x, c; e = const i64[3] {1,2,3}; f = sum e; h = barrier d; i = mul h, 2.0\n"
    "  k = const f64[] {inf}; return d, f, i, k\n}",
    "graph empties(x: f32[0,3], y: f32[2,0]) {\n"
    "  a = sum x {axes=0}; b = matmul y, x; c = exp x; d = concat x, x; return a, b, c, d\n}",
    "graph passing(x: f32[3]) { return x, x }",
    "sizes n: 5..3000\n"
    "graph scans(x: f32[n,6], y: f64[2,n], h: f16[3,40], k: i16[n], b: bool[n]) {\n"
    "  a = cumsum x {axis=0}; c = mul a, 2.0; d = cumprod y {axis=1, exclusive=true, reverse=true}; e = cumsum h {axis=1}\n"
    "  f = cummax k {dtype=i8}; g = cumsum b {reverse=true}; l = logcumsumexp x {axis=1}; m = cummin x {axis=0, exclusive=true}\n"
    "  return c, d, e, f, g, l, m\n}",
    "sizes n: 5..3000\n"
    "graph orders(x: f32[n,6], y: f64[2,n], h: bf16[3,40], k: i16[n]) {\n"
    "  a = sort x {axis=0}; b = argsort y {descending=true}; c = sort h; v, i = topk y {k=3}; w = mul v, 2.0; d = argsort k\n"
    "  e, f = kthvalue x {k=2, axis=0}; g = median x; l = sort k; m = searchsorted l, k; return a, b, c, w, i, d, e, f, g, m\n}",
    "graph updates(x: f32[4,5], i: i32[7], u: f32[7,5], h: f16[3,4], k: u8[2,2], b: bool[3], c: bool[7]) {\n"
    "  a = scatter x, i, u; d = scatter x, i, u {mode=\"add\"}; e = scatter h, k, 2 {axis=1, mode=\"mul\"}\n"
    "  f = scatter b, i, c {mode=\"max\"}; g = scatter x, i, 0.5 {axis=1, mode=\"min\"}; return a, d, e, f, g\n}",
    "graph packed(x: f32[16,20], param w: f32[20,24], param q: i8[30,20], param s: f32[20]) {\n"
    "  a = matmul x, w; v = cast q {dtype=f32}; u = mul v, s; b = linear x, u; c = relu b; return a, c\n}",
};
enum { FEED_GRAPHS = sizeof feed_graphs / sizeof feed_graphs[0] };

#endif
