/* The simple scalar ops, decomposition and the interpreter, each against what it says it does,
   written out naively. Bits are compared. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAX_STATIC
#define STAX_IMPLEMENTATION
#include "../stax.h"

#include "harness.h"
#include "heap.h"

static stax_context *ctx;

static uint32_t bits_of(float f) { return staxi_bits32(f); }
static float nan_of(uint32_t u) { return staxi_float32(u); }

/* ---- scalar functions ---- */

static float floats[] = {0.0f,  -0.0f,  0.3f,       -0.3f,      0.5f,        -0.5f,      0.7f,
                         -0.7f, 1.0f,   -1.0f,      1.5f,       -1.5f,       2.5f,       -2.5f,
                         3.5f,  1e-40f, -1e-40f,    8388607.5f, -8388607.5f, 8388608.0f, 8388609.0f,
                         1e10f, -1e10f, 4194304.5f, 3.4e38f,    INFINITY,    -INFINITY,  NAN};
enum { N_FLOATS = sizeof floats / sizeof floats[0] };

/* Of the scalar functions any NaN will do: storing makes it the quiet one. */
static int same(float a, float b) { return bits_of(a) == bits_of(b) || (a != a && b != b); }
static int same64(double a, double b) {
    return staxi_bits64(a) == staxi_bits64(b) || (a != a && b != b);
}

static float ieee_max(float a, float b) {
    if (a != a || b != b) return NAN;
    if (a == 0 && b == 0) return signbit(a) ? b : a;
    return a > b ? a : b;
}

static void test_floats(void) {
    for (int i = 0; i < N_FLOATS; i++) {
        float x = floats[i];
        double d = (double)x;
        CHECK(same(staxi_floor_f32(x), floorf(x)) && same64(staxi_floor_f64(d), floor(d)));
        CHECK(same(staxi_ceil_f32(x), ceilf(x)) && same64(staxi_ceil_f64(d), ceil(d)));
        CHECK(same(staxi_trunc_f32(x), truncf(x)) && same64(staxi_trunc_f64(d), trunc(d)));
        CHECK(same(staxi_round_f32(x), nearbyintf(x)) && same64(staxi_round_f64(d), nearbyint(d)));
        CHECK(same(staxi_abs_f32(x), fabsf(x)) && same(staxi_sqrt_f32(x), sqrtf(x)));
        CHECK(staxi_isnan_f32(x) == (x != x) && staxi_isinf_f32(x) == !!isinf(x) &&
              staxi_isfinite_f32(x) == !!isfinite(x));
        CHECK(same(staxi_relu_f32(x), x != x ? NAN : x > 0 ? x : 0.0f));
        CHECK(same(staxi_sign_f32(x), x != x ? NAN : x > 0 ? 1.0f : x < 0 ? -1.0f : x));
        for (int j = 0; j < N_FLOATS; j++) {
            float y = floats[j];
            CHECK(same(staxi_maximum_f32(x, y), ieee_max(x, y)));
            CHECK(same(staxi_minimum_f32(x, y), -ieee_max(-x, -y)));
            CHECK(same64(staxi_maximum_f64(d, (double)y), (double)ieee_max(x, y)));
            CHECK(same(staxi_copysign_f32(x, y), copysignf(x, y)));
            for (int k = 0; k < N_FLOATS; k++)
                CHECK(same(staxi_muladd_f32(x, y, floats[k]), fmaf(x, y, floats[k])));
        }
    }
    float in[1] = {nan_of(0xffc01234u)}, out[1];
    const void *p[1];
    p[0] = in;
    const staxi_scalar_fn *neg = staxi_scalar_find(STAX_OP_NEG, STAX_F32);
    neg->loop(neg, out, p, 1);
    CHECK(bits_of(out[0]) == 0x7fc00000u);
}

static void test_integers(void) {
    CHECK(staxi_add_i8(127, 1) == -128 && staxi_mul_i16(-32768, -1) == -32768 &&
          staxi_neg_i32(INT32_MIN) == INT32_MIN);
    CHECK(staxi_mul_u16(65535, 65535) == 1 && staxi_sub_u8(0, 1) == 255 &&
          staxi_abs_i64(INT64_MIN) == INT64_MIN);
    CHECK(staxi_floor_divide_i32(-7, 2) == -4 && staxi_floor_divide_i32(7, -2) == -4 &&
          staxi_floor_divide_i32(-7, -2) == 3);
    CHECK(staxi_remainder_i32(-7, 2) == 1 && staxi_remainder_i32(7, -2) == -1 &&
          staxi_fmod_i32(-7, 2) == -1);
    CHECK(staxi_floor_divide_i32(5, 0) == 0 && staxi_remainder_u64(5, 0) == 0 &&
          staxi_fmod_i8(5, 0) == 0);
    CHECK(staxi_floor_divide_i64(INT64_MIN, -1) == INT64_MIN &&
          staxi_remainder_i32(INT32_MIN, -1) == 0);
    CHECK(staxi_remainder_i8(-128, 127) == 126 && staxi_remainder_i8(127, -128) == -1);
    CHECK(staxi_shift_left_i32(1, 31) == INT32_MIN && staxi_shift_left_i32(1, 32) == 0 &&
          staxi_shift_left_i32(1, -1) == 0);
    CHECK(staxi_shift_right_i8(-128, 7) == -1 && staxi_shift_right_i8(-128, 100) == -1 &&
          staxi_shift_right_i8(127, 8) == 0);
    CHECK(staxi_shift_right_i64(-5, 1) == -3 && staxi_shift_right_u8(255, 4) == 15 &&
          staxi_shift_right_u64(UINT64_MAX, 64) == 0);
    CHECK(staxi_pow_i32(3, 4) == 81 && staxi_pow_i32(2, -1) == 0 && staxi_pow_i32(-1, -3) == -1 &&
          staxi_pow_i32(-1, -4) == 1);
    CHECK(staxi_pow_u8(3, 200) == 161 && staxi_pow_i64(0, 0) == 1 && staxi_pow_i8(0, -1) == 0 &&
          staxi_pow_i16(1, -9) == 1);
    CHECK(staxi_sign_i8(-5) == -1 && staxi_sign_u32(9) == 1 && staxi_bitwise_not_u8(1) == 254 &&
          staxi_muladd_u8(16, 16, 7) == 7);
    CHECK(staxi_maximum_u64(1, UINT64_MAX) == UINT64_MAX &&
          staxi_minimum_i64(INT64_MIN, 0) == INT64_MIN);
}

static void test_casts(void) {
    CHECK(staxi_i8_of_f32(300.0f) == 127 && staxi_i8_of_f32(-300.0f) == -128 &&
          staxi_i8_of_f32(NAN) == 0 && staxi_i8_of_f32(-1.9f) == -1);
    CHECK(staxi_u8_of_f32(255.9f) == 255 && staxi_u8_of_f32(-0.9f) == 0 &&
          staxi_u8_of_f64(1e300) == 255 && staxi_u16_of_f64(-INFINITY) == 0);
    CHECK(staxi_i32_of_f32(3e9f) == INT32_MAX && staxi_i32_of_f32(-3e9f) == INT32_MIN &&
          staxi_u32_of_f32(-1.0f) == 0);
    CHECK(staxi_i64_of_f64(9.3e18) == INT64_MAX && staxi_u64_of_f32(1.9e19f) == UINT64_MAX &&
          staxi_i64_of_f64(NAN) == 0);
    CHECK(staxi_f32_of_i64(INT64_MAX) == 9223372036854775808.0f &&
          staxi_f32_of_u64(16777217) == 16777216.0f);
    CHECK(staxi_b8_of_f32(NAN) == 1 && staxi_b8_of_f32(-0.0f) == 0 && staxi_f32_of_b8(1) == 1.0f &&
          staxi_i8_of_b8(1) == 1);
    CHECK(staxi_i8_of_i32(300) == 44 && staxi_u64_of_i8(-1) == UINT64_MAX &&
          staxi_i64_of_u32(UINT32_MAX) == 4294967295);
    int found = 0;
    for (int from = 1; from < STAX_DTYPE_COUNT; from++) {
        for (int to = 1; to < STAX_DTYPE_COUNT; to++)
            found += staxi_cast_find((stax_dtype)from, (stax_dtype)to) != NULL;
    }
    CHECK(found ==
          11 * 10 + 8); /* all pairs of f32, f64, integers, bool; the storage types with f32 */
}

static void philox(uint64_t key, uint64_t block, uint32_t x[4]) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    x[0] = (uint32_t)block;
    x[1] = (uint32_t)(block >> 32);
    x[2] = x[3] = 0;
    for (int r = 0; r < 10; r++) {
        uint64_t p = (uint64_t)0xD2511F53u * x[0], q = (uint64_t)0xCD9E8D57u * x[2];
        uint32_t y[4] = {(uint32_t)(q >> 32) ^ x[1] ^ k0, (uint32_t)q,
                         (uint32_t)(p >> 32) ^ x[3] ^ k1, (uint32_t)p};
        memcpy(x, y, sizeof y);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

static void test_random(void) {
    static const uint32_t zero[4] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu,
                                     0x9b00dbd8u}; /* Random123's known answer */
    uint32_t x[4];
    for (uint64_t i = 0; i < 4; i++) CHECK(staxi_philox_word(0, i) == zero[i]);
    for (uint64_t i = 0; i < 40; i++) {
        uint64_t at = i * 0x123456789abcdull, key = i * 0xfedcba9876543ull;
        philox(key, at / 4, x);
        CHECK(staxi_philox_word(key, at) == x[at % 4]);
        CHECK(staxi_uniform_f32(key, at) == (float)(x[at % 4] >> 8) / 16777216.0f);
    }
}

/* ---- graphs ---- */

static stax_context *open_with(heap *h) {
    stax_options o = heap_options(h);
    memset(h, 0, sizeof *h);
    h->from_then_on = 1;
    return stax_open(&o);
}

static stax_tensor vec(stax_dtype d, int64_t n, void *p) {
    return stax_tensor_of(d, stax_shape1(n), p);
}

/* The sum rule, as it is written down. */
static float naive_sum(const float *x, int64_t n) {
    if (n == 0) return 0.0f;
    if (n > 4096) {
        int64_t blocks = (n + 4095) / 4096;
        float *sums = (float *)malloc((size_t)blocks * sizeof *sums), r;
        for (int64_t b = 0; b < blocks; b++)
            sums[b] = naive_sum(x + b * 4096, n - b * 4096 < 4096 ? n - b * 4096 : 4096);
        r = naive_sum(sums, blocks);
        free(sums);
        return r;
    }
    float acc[64];
    for (int i = 0; i < 64; i++) acc[i] = -0.0f;
    for (int64_t k = 0; k < n; k++) acc[k % 64] += x[k];
    for (int w = 32; w; w /= 2) {
        for (int i = 0; i < w; i++) acc[i] += acc[i + w];
    }
    return acc[0];
}

static float noise(uint64_t i) { return staxi_uniform_f32(77, i) - 0.3f; }

/* [A, B, C] over axes 0 and 2: the runs [2] and [0] nest, unless an order says otherwise. */
static void test_runs(void) {
    enum { A = 70, B = 3, C = 130 };
    static float x[A * B * C], y[B], z[B], part[A], all[A * C], w[B];
    for (int i = 0; i < A * B * C; i++) x[i] = noise((uint64_t)i);
    stax_graph *g = stax_graph_new(ctx);
    stax_value v = stax_input(g, "x", STAX_F32, stax_shape3(A, B, C)), s, t;
    s = stax_sum(v, stax_axes2(0, 2), false);
    t = stax_sum(v, stax_axes2(0, 2), false);
    stax_set_order(t, "[0,2]");
    stax_output(g, "y", s);
    stax_output(g, "z", t);
    t = stax_sum(v, stax_axes2(0, 2), false);
    stax_set_order(t, "[2,0]");
    stax_output(g, "w", t);
    stax_tensor in = stax_tensor_of(STAX_F32, stax_shape3(A, B, C), x), out[3];
    out[0] = vec(STAX_F32, B, y);
    out[1] = vec(STAX_F32, B, z);
    out[2] = vec(STAX_F32, B, w);
    CHECK(stax_interpret(g, &in, out) == STAX_OK);
    for (int b = 0; b < B; b++) {
        for (int a = 0; a < A; a++) {
            part[a] = naive_sum(x + (a * B + b) * C, C);
            memcpy(all + a * C, x + (a * B + b) * C, C * sizeof(float));
        }
        CHECK(bits_of(y[b]) == bits_of(naive_sum(part, A)));
        CHECK(bits_of(z[b]) == bits_of(naive_sum(all, A * C)));
        for (int c = 0; c < C; c++) {
            for (int a = 0; a < A; a++) all[c * A + a] = x[(a * B + b) * C + c];
        }
        CHECK(bits_of(w[b]) == bits_of(naive_sum(all, A * C)));
    }
    stax_graph_free(g);
}

static float naive_chain(const float *a, int64_t sa, const float *b, int64_t sb, int64_t n) {
    float sum = 0.0f;
    for (int64_t at = 0; at < n; at += 4096) {
        float r = -0.0f;
        for (int64_t k = at; k < n && k < at + 4096; k++) r = fmaf(a[k * sa], b[k * sb], r);
        sum = at ? sum + r : r;
    }
    return sum;
}

static float naive_lanes(const float *a, const float *b, int64_t n) {
    float sums[16];
    int blocks = 0;
    if (n == 0) return 0.0f;
    for (int64_t at = 0; at < n; at += 4096) {
        float acc[64];
        for (int i = 0; i < 64; i++) acc[i] = -0.0f;
        for (int64_t k = at; k < n && k < at + 4096; k++)
            acc[k % 64] = fmaf(a[k], b[k], acc[k % 64]);
        for (int w = 32; w; w /= 2) {
            for (int i = 0; i < w; i++) acc[i] += acc[i + w];
        }
        sums[blocks++] = acc[0];
    }
    return blocks == 1 ? sums[0] : naive_sum(sums, blocks);
}

static void test_dot(void) {
    enum { M = 3, K = 5000, N = 2 };
    static float a[M * K], b[K * N], bt[K], y[M * N], v[M], l[1];
    for (int i = 0; i < M * K; i++) a[i] = noise((uint64_t)i);
    for (int i = 0; i < K * N; i++) b[i] = noise((uint64_t)i + 1000000);
    for (int i = 0; i < K; i++) bt[i] = noise((uint64_t)i + 2000000);
    stax_graph *g = stax_graph_new(ctx);
    stax_value x = stax_input(g, "a", STAX_F32, stax_shape2(M, K)),
               w = stax_input(g, "b", STAX_F32, stax_shape2(K, N));
    stax_value t = stax_input(g, "t", STAX_F32, stax_shape1(K));
    stax_output(g, "y", stax_matmul(x, w));
    stax_output(g, "v", stax_matmul(x, t));
    stax_output(g, "l", stax_linear(t, stax_reshape(t, stax_shape2(1, K)), stax_none()));
    stax_tensor in[3], out[3];
    in[0] = stax_tensor_of(STAX_F32, stax_shape2(M, K), a);
    in[1] = stax_tensor_of(STAX_F32, stax_shape2(K, N), b);
    in[2] = vec(STAX_F32, K, bt);
    out[0] = stax_tensor_of(STAX_F32, stax_shape2(M, N), y);
    out[1] = vec(STAX_F32, M, v);
    out[2] = vec(STAX_F32, 1, l);
    CHECK(stax_interpret(g, in, out) == STAX_OK);
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++)
            CHECK(bits_of(y[i * N + j]) == bits_of(naive_chain(a + i * K, 1, b + j, N, K)));
        CHECK(bits_of(v[i]) == bits_of(naive_lanes(a + i * K, bt, K)));
    }
    CHECK(bits_of(l[0]) == bits_of(naive_lanes(bt, bt, K)));
    stax_graph_free(g);
}

/* A graph that meets most kinds of nodes, for tensors of every kind and for failing allocations. */
static stax_graph *busy_graph(stax_context *in) {
    stax_graph *g = stax_graph_new(in);
    if (!g) return NULL;
    int64_t n = stax_symbol(g, "n", 1, 1000);
    stax_value x = stax_input(g, "x", STAX_F32, stax_shape2(n, 6)),
               s = stax_state(g, "s", STAX_F32, stax_shape1(6));
    stax_input_layout(x, STAX_STRIDED);
    stax_value m = stax_mean(x, stax_axes1(0), false), sm = stax_softmax(x, -1);
    stax_value h = stax_cast(stax_mul(stax_cast(x, STAX_F16), stax_const(g, 1.5)), STAX_F32);
    stax_value i = stax_cast(stax_argmax(x, 1, false), STAX_I32);
    stax_assign(s, m);
    stax_assign_slice(s, stax_const(g, 2.0), stax_shape1(0), stax_shape1(STAX_NONE),
                      stax_shape1(2));
    stax_graph *body = stax_region(g, "body");
    stax_value k = stax_input(body, "k", STAX_I64, stax_shape0()),
               acc = stax_input(body, "acc", STAX_F32, stax_shape1(6));
    stax_output(body, "r", stax_add(stax_add(acc, m), stax_cast(k, STAX_F32)));
    stax_value loop[1];
    stax_loop(stax_const_int(g, 3), &m, 1, body, loop);
    stax_output(g, "sm", sm);
    stax_output(g, "h",
                stax_roll(stax_pad(h, stax_shape2(0, 1), stax_shape2(0, -1), 7.0, "constant"),
                          stax_shape1(2), stax_axes1(0)));
    stax_output(g, "i", i);
    stax_output(g, "loop", loop[0]);
    return g;
}

static void test_busy(void) {
    heap counts;
    stax_context *own = open_with(&counts);
    float x[2][6][5], s[6] = {0, 0, 0, 0, 0, 0}, sm[5][6], h[5][6], loop[6];
    int32_t i[5];
    stax_tensor in[2], out[4];
    stax_graph *g = busy_graph(own);
    CHECK(stax_ok(g));
    if (!stax_ok(g)) printf("%s\n", stax_graph_error(g));
    for (int r = 0; r < 5; r++) {
        for (int k = 0; k < 6; k++) x[0][k][r] = noise((uint64_t)(r * 6 + k));
    }
    in[0] = stax_tensor_of(STAX_F32, stax_shape2(5, 6), x);
    in[0].strides[0] = 1;
    in[0].strides[1] = 5;
    in[1] = vec(STAX_F32, 6, s);
    out[0] = stax_tensor_of(STAX_F32, stax_shape2(5, 6), sm);
    out[1] = stax_tensor_of(STAX_F32, stax_shape2(5, 6), h);
    out[2] = vec(STAX_I32, 5, i);
    out[3] = vec(STAX_F32, 6, loop);
    CHECK(stax_interpret(g, in, out) == STAX_OK);
    for (int k = 0; k < 6; k++) {
        float m = naive_sum(x[0][k], 5) / 5.0f;
        CHECK(s[k] == (k % 2 ? m : 2.0f));
        CHECK(loop[k] == ((m + m) + 0.0f + m + 1.0f) + m + 2.0f);
        for (int r = 0; r < 5; r++) { /* rows moved down by 2, columns by 1 */
            float want =
                k == 0 ? 7.0f : staxi_f16_round(staxi_f16_round(x[0][k - 1][(r + 3) % 5]) * 1.5f);
            CHECK(h[r][k] == want);
        }
    }
    out[3].strides[0] = -1; /* the same backwards */
    out[3].data = loop + 5;
    CHECK(stax_interpret(g, in, out) == STAX_OK);
    in[0].shape[1] = 7;
    CHECK(stax_interpret(g, in, out) == STAX_E_SHAPE &&
          strstr(stax_error(own), "expected f32[5,6], found f32[5,7]"));
    in[0].shape[1] = 6;
    in[0].dtype = STAX_F64;
    CHECK(stax_interpret(g, in, out) == STAX_E_DTYPE);
    in[0].dtype = STAX_F32;
    out[1].data = sm;
    CHECK(stax_interpret(g, in, out) == STAX_E_ALIAS && strstr(stax_error(own), "share memory"));
    out[1].data = &h[0][0];
    out[0].strides[1] = 0;
    CHECK(stax_interpret(g, in, out) == STAX_E_ALIAS);
    out[0].strides[1] = 1;
    in[1].data = NULL;
    CHECK(stax_interpret(g, in, out) == STAX_E_ARGUMENT);
    in[1].data = s;
    out[3].data = loop;
    out[3].strides[0] = 1;
    stax_graph_free(g);
    stax_close(own);
    CHECK(counts.blocks == 0 && counts.wrong == 0);
    /* every allocation fails once */
    long last = 0;
    for (long n = 1; n < 5000 && !last; n++) {
        own = open_with(&counts);
        counts.fail_at = counts.calls + n;
        g = busy_graph(own);
        stax_status status = g ? stax_interpret(g, in, out) : STAX_E_MEMORY;
        if (status != STAX_OK) CHECK(status == STAX_E_MEMORY);
        if (status != STAX_OK && status != STAX_E_MEMORY)
            printf("%ld: %d %s\n", n, (int)status, stax_error(own));
        if (!counts.failed) last = n;
        if (last) CHECK(status == STAX_OK);
        counts.fail_at = 0;
        stax_graph_free(g);
        stax_close(own);
        CHECK(counts.blocks == 0 && counts.wrong == 0);
    }
    CHECK(last > 20);
}

static void test_errors(void) {
    float x[4] = {1, 2, 3, 4}, y[4];
    int64_t i[4] = {0, -1, 4, -5};
    stax_graph *g = stax_graph_new(ctx);
    stax_value a = stax_input(g, "x", STAX_F32, stax_shape1(4)),
               b = stax_input(g, "i", STAX_I64, stax_shape1(4));
    stax_output(g, "y", stax_gather(a, b, 0));
    stax_tensor in[2], out = vec(STAX_F32, 4, y);
    in[0] = vec(STAX_F32, 4, x);
    in[1] = vec(STAX_I64, 4, i);
    CHECK(stax_interpret(g, in, &out) == STAX_E_INDEX);
    CHECK(strstr(stax_error(ctx), "gather: index 4 is out of range for an axis of size 4") &&
          strstr(stax_error(ctx), "interpreter.c:"));
    i[2] = 3;
    i[3] = -4;
    CHECK(stax_interpret(g, in, &out) == STAX_OK && y[0] == 1 && y[1] == 4 && y[2] == 4 &&
          y[3] == 1);
    out.data = x; /* in place */
    CHECK(stax_interpret(g, in, &out) == STAX_OK && x[1] == 4 && x[0] == 1);
    out.data = x + 1;
    out.shape[0] = 4;
    CHECK(stax_interpret(g, in, &out) == STAX_E_ALIAS);
    in[0].strides[0] = 2;
    CHECK(stax_interpret(g, in, &out) == STAX_E_ARGUMENT);
    CHECK(stax_interpret(NULL, in, &out) == STAX_E_ARGUMENT &&
          stax_interpret(g, NULL, NULL) == STAX_E_ARGUMENT);
    stax_graph_free(g);
}

/* NaN: copies keep bits, everything else makes the quiet NaN. */
static void test_nan(void) {
    float x[2] = {0, 1}, copy[2], neg[2], wh[2], sum[1];
    uint32_t bits[2];
    x[0] = nan_of(0xffc00123u);
    stax_graph *g = stax_graph_new(ctx);
    stax_value a = stax_input(g, "x", STAX_F32, stax_shape1(2));
    stax_output(g, "copy", stax_flip(a, stax_axes_all()));
    stax_output(g, "neg", stax_neg(a));
    stax_output(g, "wh", stax_where(stax_const_bool(g, true), a, a));
    stax_output(g, "bits", stax_bitcast(a, STAX_U32));
    stax_output(g, "sum", stax_sum(a, stax_axes_all(), true));
    stax_tensor in = vec(STAX_F32, 2, x), out[5];
    out[0] = vec(STAX_F32, 2, copy);
    out[1] = vec(STAX_F32, 2, neg);
    out[2] = vec(STAX_F32, 2, wh);
    out[3] = vec(STAX_U32, 2, bits);
    out[4] = vec(STAX_F32, 1, sum);
    CHECK(stax_interpret(g, &in, out) == STAX_OK);
    CHECK(bits_of(copy[1]) == 0xffc00123u && bits[0] == 0xffc00123u);
    CHECK(bits_of(neg[0]) == 0x7fc00000u && bits_of(wh[0]) == 0x7fc00000u &&
          bits_of(sum[0]) == 0x7fc00000u);
    stax_graph_free(g);
}

/* ---- texts: a symbol and the number in its place give the same bits ---- */

/* Outputs of a graph text over x: f32[N,6], y: f32[N], i: i64[N] and the state s: f32[N]; all bytes
 * into buf. */
static long run_text(const char *text, const char *size, int64_t n, char *buf) {
    static float x[64 * 6], y[64], s[64];
    static int64_t idx[64];
    char *full = (char *)malloc(strlen(text) * 3 + 200);
    char *at = full;
    long used = 0;
    for (; *text; text++) {
        if (*text == 'N')
            at += sprintf(at, "%s", size);
        else
            *at++ = *text;
    }
    *at = 0;
    stax_graph *g = stax_parse(ctx, "text", full);
    free(full);
    if (!g || !stax_ok(g)) {
        printf("%s\n", stax_error(ctx));
        stax_graph_free(g);
        return -1;
    }
    for (int k = 0; k < 64 * 6; k++) x[k] = noise((uint64_t)k);
    for (int k = 0; k < 64; k++) {
        y[k] = k % 7 ? noise((uint64_t)k + 500) : nan_of(0xffc00077u);
        s[k] = k % 5 ? noise((uint64_t)k + 900) : nan_of(0x7fc00099u);
        idx[k] = (k * 3) % n;
    }
    stax_tensor in[4], out[16];
    in[0] = stax_tensor_of(STAX_F32, stax_shape2(n, 6), x);
    in[1] = vec(STAX_F32, n, y);
    in[2] = vec(STAX_I64, n, idx);
    in[3] = vec(STAX_F32, n, s);
    int64_t symbols[4];
    symbols[0] = n;
    for (size_t k = 0; k < g->n_outputs; k++) {
        const staxi_type *t = &g->values[g->outputs[k].value].type;
        stax_shape shape = stax_shape0();
        int64_t elements = 1;
        for (int d = 0; d < t->rank; d++) {
            CHECK(staxi_size_eval(&g->sizes, t->dims[d], symbols, &shape.dims[shape.rank]));
            elements *= shape.dims[shape.rank++];
        }
        out[k] = stax_tensor_of((stax_dtype)t->dtype, shape, buf + used);
        used += (long)((elements * (long)staxi_dtype_bytes((stax_dtype)t->dtype) + 63) / 64 * 64);
    }
    stax_status status = stax_interpret(g, in, out);
    if (status != STAX_OK) printf("%s\n", stax_error(ctx));
    CHECK(status == STAX_OK);
    memcpy(buf + used, s, sizeof s);
    stax_graph_free(g);
    return used + (long)sizeof s;
}

static const char *const texts[] = {
    "a = mean x {axes=[0]}; b = var x {axes=[0], correction=1}; c = std y {axes=[0]}; d = mean x; "
    "e = sum x {axes=[0,1], dtype=f64}; return a, b, c, d, e",
    "a = softmax x {axis=0}; b = log_softmax y {axis=0}; c = logsumexp x {axes=[0]}; d = "
    "layer_norm x {axes=[0]}; e = rms_norm x {axes=[0,1]}; return a, b, c, d, e",
    "a = roll y {shifts=[2], axes=[0]}; b = roll y {shifts=[-3], axes=[0]}; c = roll x "
    "{shifts=[4]}; d = flip x {axes=[0]}; e = tile x {repeats=[2,3]}; f = tile y {repeats=[3,1]}; "
    "return a, b, c, d, e, f",
    "a = slice x {starts=[1,0], stops=[none,none], steps=[2,-1]}; b = slice y {starts=[-1], "
    "stops=[none], steps=[-2]}; c = slice y {starts=[none], stops=[-1], steps=[1]}; d = slice y "
    "{starts=[-2], stops=[none], steps=[1]}; return a, b, c, d",
    "a = pad y {low=[2], high=[1], value=3.5}; b = pad y {low=[3], high=[3], mode=\"reflect\"}; c "
    "= pad x {low=[1,1], high=[0,2], mode=\"edge\"}; d = pad y {low=[4], high=[9], mode=\"wrap\"}; "
    "return a, b, c, d",
    "a = concat x, x {axis=0}; b = stack y, y, y {axis=1}; c, d = split b {sizes=[1,2], axis=1}; e "
    "= unfold y {axis=0, size=2, step=1}; f = reshape x {shape=[6,-1]}; g = transpose x; return a, "
    "b, c, d, e, f, g",
    "t = transpose x; a = matmul t, x; b = matmul t, y; c = linear t, t; d = dot x, x "
    "{lhs_contract=[0,1], rhs_contract=[0,1]}; e = matmul y, x; return a, b, c, d, e",
    "a = gather x, i {axis=0}; b = gather y, i {axis=0, mode=\"wrap\"}; j = reshape i "
    "{shape=[N,1]}; c = take_along_axis x, j {axis=0}; d = argmax x {axis=0}; e = argmin y; f = "
    "iota {shape=[N,2], axis=0, dtype=f32}; return a, b, c, d, e, f",
    "a = uniform 7 {shape=[N,3], low=-1.0, high=2.0}; b = normal 9 {shape=[N], dtype=f64}; c = "
    "random_bits 3 {shape=[3,N], dtype=u8}; d = uniform 7 {shape=[N], dtype=f16}; return a, b, c, "
    "d",
    "assign s, y; a = neg s; return a",
    "assign_slice s, 2.0 {starts=[1], stops=[4], steps=[1]}; a = neg s; return a",
    "v = slice y {starts=[0], stops=[2], steps=[1]}; assign_slice s, v {starts=[1], stops=[5], "
    "steps=[2]}; a = bitcast s {dtype=u32}; return a",
    "v = slice y {starts=[0], stops=[2], steps=[1]}; assign_slice s, v {starts=[4], stops=[0], "
    "steps=[-2]}; a = bitcast s {dtype=u32}; return a",
    "f = flip y {axes=[0]}; assign_slice s, f {starts=[none], stops=[none], steps=[-1]}; a = "
    "bitcast s {dtype=u32}; b = bitcast y {dtype=u32}; return a, b",
    "c = cast y {dtype=f8e4m3}; d = flip c {axes=[0]}; a = cast d {dtype=f32}; return a",
};

static void test_texts(void) {
    static char a[1 << 16], b[1 << 16];
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        char full[2000];
        for (int64_t n = 5; n <= 9; n += 2) {
            char number[8];
            sprintf(number, "%d", (int)n);
            memset(a, 0, sizeof a);
            memset(b, 0, sizeof b);
            sprintf(full, "graph g(x: f32[N,6], y: f32[N], i: i64[N], inout s: f32[N]) { %s }",
                    texts[t]);
            long la = run_text(full, number, n, a);
            sprintf(full,
                    "sizes N: 5..64\ngraph g(x: f32[N,6], y: f32[N], i: i64[N], inout s: f32[N]) { "
                    "%s }",
                    texts[t]);
            long lb = run_text(full, "n", n, b);
            CHECK(la > 0 && la == lb);
            CHECK(memcmp(a, b, (size_t)(la > 0 ? la : 0)) == 0);
            if (memcmp(a, b, (size_t)(la > 0 ? la : 0)) != 0)
                printf("   text %d, n = %d\n", (int)t, (int)n);
        }
    }
}

static void test_keys(void) {
    float a[5], b[5];
    stax_tensor out[2];
    stax_graph *g = stax_parse(ctx, "keys",
                               "graph g() { k = const u32[2] {7, 1}; a = uniform k {shape=[5]}; b "
                               "= uniform 4294967303 {shape=[5]}; return a, b }");
    CHECK(g && stax_ok(g));
    out[0] = vec(STAX_F32, 5, a);
    out[1] = vec(STAX_F32, 5, b);
    CHECK(stax_interpret(g, NULL, out) == STAX_OK);
    CHECK(memcmp(a, b, sizeof a) == 0 && a[0] == staxi_uniform_f32(4294967303u, 0));
    out[1].shape[0] = INT64_MAX / 8;
    CHECK(stax_interpret(g, NULL, out) != STAX_OK);
    out[1].shape[0] = 5;
    out[1].strides[0] = INT64_MIN;
    CHECK(stax_interpret(g, NULL, out) == STAX_E_OVERFLOW);
    out[1].strides[0] = 1;
    out[1].device = 1;
    CHECK(stax_interpret(g, NULL, out) == STAX_E_DEVICE);
    stax_graph_free(g);
}

static void test_regions(void) {
    const char *text =
        "graph g(x: f32[4], n: i64[], w: f32[4]) {\n"
        "  y, k = while x, n {\n"
        "    test(a: f32[4], i: i64[]) { c = gt i, 0; return c }\n"
        "    body(a: f32[4], i: i64[]) { b = add a, w; j = sub i, 1; return b, j }\n"
        "  }\n"
        "  p = gt k, -1\n"
        "  z = cond p { then() { r = neg y; return r }  else() { return y } }\n"
        "  u, v = loop n, z, 0 {\n"
        "    body(i: i64[], a: f32[4], t: i64[]) {\n"
        "      q = remainder i, 2\n"
        "      o = eq q, 0\n"
        "      b = cond o { then() { r = add a, y; return r }  else() { r = mul a, 2.0; return r } "
        "}\n"
        "      m = add t, i\n"
        "      return b, m\n"
        "    }\n"
        "  }\n"
        "  return y, z, u, v\n"
        "}\n";
    float x[4] = {1, 2, 3, 4}, w[4] = {0.5f, 1, 2, -1}, y[4], z[4], u[4];
    int64_t n = 3, v = 0;
    stax_graph *g = stax_parse(ctx, "regions", text);
    CHECK(g && stax_ok(g));
    if (!g || !stax_ok(g)) {
        printf("%s\n", stax_error(ctx));
        return;
    }
    stax_tensor in[3], out[4];
    in[0] = vec(STAX_F32, 4, x);
    in[1] = stax_tensor_of(STAX_I64, stax_shape0(), &n);
    in[2] = vec(STAX_F32, 4, w);
    out[0] = vec(STAX_F32, 4, y);
    out[1] = vec(STAX_F32, 4, z);
    out[2] = vec(STAX_F32, 4, u);
    out[3] = stax_tensor_of(STAX_I64, stax_shape0(), &v);
    for (n = 0; n < 6; n++) {
        CHECK(stax_interpret(g, in, out) == STAX_OK);
        for (int k = 0; k < 4; k++) {
            float a = x[k] + (float)n * w[k], b = -a;
            CHECK(y[k] == a && z[k] == b);
            for (int i = 0; i < n; i++) b = i % 2 ? b * 2.0f : b + a;
            CHECK(u[k] == b);
        }
        CHECK(v == n * (n - 1) / 2);
    }
    stax_graph_free(g);
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    ctx = stax_open(NULL);
    if (!ctx) return 1;
    RUN_NAMED("floats", test_floats);
    RUN_NAMED("integers", test_integers);
    RUN_NAMED("casts", test_casts);
    RUN_NAMED("random", test_random);
    RUN_NAMED("runs", test_runs);
    RUN_NAMED("dot", test_dot);
    RUN_NAMED("busy", test_busy);
    RUN_NAMED("errors", test_errors);
    RUN_NAMED("nan", test_nan);
    RUN_NAMED("texts", test_texts);
    RUN_NAMED("keys", test_keys);
    RUN_NAMED("regions", test_regions);
    stax_close(ctx);
    return HARNESS_END();
}
