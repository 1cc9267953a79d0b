/* Random numbers: a plain Philox4x32-10 against the published vectors, and the ops against it: bits
   of every width, uniform, normal; keys and shapes; interpreted and compiled, the same bits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../stax.h"

#include "harness.h"

/* Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011), written down from its figure.
 */
static void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t x[4]) {
    uint32_t k0 = key[0], k1 = key[1];
    memcpy(x, counter, 4 * sizeof *x);
    for (int round = 0; round < 10; round++) {
        uint64_t p = (uint64_t)0xD2511F53u * x[0], q = (uint64_t)0xCD9E8D57u * x[2];
        uint32_t y[4];
        y[0] = (uint32_t)(q >> 32) ^ x[1] ^ k0;
        y[1] = (uint32_t)q;
        y[2] = (uint32_t)(p >> 32) ^ x[3] ^ k1;
        y[3] = (uint32_t)p;
        memcpy(x, y, sizeof y);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* Word i of the stream of a key, as stax counts: four words a block, counter (i / 4, 0, 0). */
static uint32_t word(uint64_t key, uint64_t i) {
    uint32_t counter[4] = {0, 0, 0, 0}, keys[2], x[4];
    counter[0] = (uint32_t)(i / 4);
    counter[1] = (uint32_t)(i / 4 >> 32);
    keys[0] = (uint32_t)key;
    keys[1] = (uint32_t)(key >> 32);
    philox(counter, keys, x);
    return x[i % 4];
}
static uint64_t pair(uint64_t key, uint64_t i) {
    return (uint64_t)word(key, 2 * i + 1) << 32 | word(key, 2 * i);
}

/* Known answers of Random123 (kat_vectors, philox4x32 10). */
static void published(void) {
    static const uint32_t in[3][6] = {
        {0, 0, 0, 0, 0, 0},
        {0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu},
        {0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u, 0xa4093822u, 0x299f31d0u}};
    static const uint32_t out[3][4] = {{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u},
                                       {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu},
                                       {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}};
    uint32_t x[4];
    for (int k = 0; k < 3; k++) {
        philox(in[k], in[k] + 4, x);
        CHECK_BYTES(x, out[k], sizeof x);
    }
    for (uint64_t i = 0; i < 4; i++) CHECK_INT(word(0, i), out[0][i]);
}

/* ---- the ops ---- */

enum { N = 1003 };
static stax_context *ctx;
static char got[2][8 * N];

/* Runs the text's one result, interpreted and compiled: the same bytes, left in got[0]. */
static bool runs(const char *text, stax_dtype dtype) {
    stax_graph *g = stax_parse(ctx, "philox", text);
    stax_program *p;
    stax_tensor out;
    bool good;
    if (!CHECK(g && stax_ok(g))) {
        printf("%s\n", stax_error(ctx));
        return false;
    }
    p = stax_compile(g, NULL);
    memset(got, 0xa5, sizeof got);
    out = stax_tensor_of(dtype, stax_shape1(N), got[0]);
    good = CHECK_INT(stax_interpret(g, NULL, &out), STAX_OK);
    out.data = got[1];
    good = CHECK(p != NULL) && good;
    good = CHECK_INT(stax_run(p, NULL, &out), STAX_OK) && good;
    if (p && stax_program_status(p) != STAX_OK) printf("interpreted: %s\n", stax_error(ctx));
    good = CHECK_BYTES(got[1], got[0], sizeof got[0]) && good;
    stax_program_free(p);
    stax_graph_free(g);
    return good;
}

static const uint64_t key = 0x123456789abcdef0u;
#define TEXT(op, attributes)                                        \
    "graph g() { k = const u32[2] {2596069104, 305419896}; y = " op \
    " k {shape=[1003], " attributes "}; return y }"

static void bits(void) {
    if (runs(TEXT("random_bits", "dtype=u32"), STAX_U32)) {
        for (int i = 0; i < N; i++)
            CHECK_INT(((uint32_t *)(void *)got[0])[i], word(key, (uint64_t)i));
    }
    if (runs(TEXT("random_bits", "dtype=u64"), STAX_U64)) {
        for (int i = 0; i < N; i++)
            CHECK(((uint64_t *)(void *)got[0])[i] == pair(key, (uint64_t)i));
    }
    if (runs(TEXT("random_bits", "dtype=u16"), STAX_U16)) {
        for (int i = 0; i < N; i++)
            CHECK_INT(((uint16_t *)(void *)got[0])[i], (uint16_t)word(key, (uint64_t)i));
    }
    if (runs(TEXT("random_bits", "dtype=u8"), STAX_U8)) {
        for (int i = 0; i < N; i++)
            CHECK_INT(((uint8_t *)got[0])[i], (uint8_t)word(key, (uint64_t)i));
    }
}

static void uniform(void) {
    if (runs(TEXT("uniform", "dtype=f32"), STAX_F32)) {
        for (int i = 0; i < N; i++)
            CHECK_FLOAT(((float *)(void *)got[0])[i],
                        (float)(word(key, (uint64_t)i) >> 8) / 16777216.0f);
    }
    if (runs(TEXT("uniform", "dtype=f64"), STAX_F64)) {
        for (int i = 0; i < N; i++)
            CHECK_FLOAT(((double *)(void *)got[0])[i],
                        (double)(pair(key, (uint64_t)i) >> 11) / 9007199254740992.0);
    }
    if (runs(TEXT("uniform", "low=-1.0, high=3.0"), STAX_F32)) {
        for (int i = 0; i < N; i++) {
            float y = ((float *)(void *)got[0])[i];
            CHECK(y >= -1 && y < 3);
        }
    }
}

/* What normal makes of a = 1 - u and b = 2 pi v; by our own log and cos, so bits again. */
static void box_muller(stax_dtype dtype, void *a, void *b, void *y) {
    char text[300];
    const char *name = dtype == STAX_F32 ? "f32" : "f64";
    stax_graph *g;
    stax_tensor in[2], out;
    sprintf(
        text,
        "graph g(a: %s[1003], b: %s[1003]) { l = log a; m = mul l, -2.0; r = sqrt m; c = cos b; "
        "y = mul r, c; return y }",
        name, name);
    g = stax_parse(ctx, "box_muller", text);
    in[0] = stax_tensor_of(dtype, stax_shape1(N), a);
    in[1] = stax_tensor_of(dtype, stax_shape1(N), b);
    out = stax_tensor_of(dtype, stax_shape1(N), y);
    CHECK(g && stax_interpret(g, in, &out) == STAX_OK);
    stax_graph_free(g);
}

static void normal(void) {
    static float a32[N], b32[N], want32[N];
    static double a64[N], b64[N], want64[N];
    for (uint64_t i = 0; i < N; i++) {
        a32[i] = 1.0f - (float)(word(key, 2 * i) >> 8) / 16777216.0f;
        b32[i] = 6.28318531f * ((float)(word(key, 2 * i + 1) >> 8) / 16777216.0f);
        a64[i] = 1.0 - (double)(pair(key, 2 * i) >> 11) / 9007199254740992.0;
        b64[i] = 6.2831853071795865 * ((double)(pair(key, 2 * i + 1) >> 11) / 9007199254740992.0);
    }
    box_muller(STAX_F32, a32, b32, want32);
    box_muller(STAX_F64, a64, b64, want64);
    if (runs(TEXT("normal", "dtype=f32"), STAX_F32)) CHECK_BYTES(got[0], want32, sizeof want32);
    if (runs(TEXT("normal", "dtype=f64"), STAX_F64)) CHECK_BYTES(got[0], want64, sizeof want64);
}

/* The bits are tested above; these bounds are statistics. The mean of n normal numbers has the
   standard deviation 1 / sqrt n, that of their squares, whose variance is 3 - 1, sqrt(2 / n). A
   right generator is within five of each but for one key in a million, and this key is always the
   same. */
static void is_normal(void) {
    enum { MANY = 100000 };
    stax_graph *g =
        stax_parse(ctx, "many", "graph g() { y = normal 7 {shape=[100000]}; return y }");
    float *x = (float *)malloc(MANY * sizeof *x);
    stax_tensor out = stax_tensor_of(STAX_F32, stax_shape1(MANY), x);
    double sum = 0, squares = 0;
    if (CHECK(g && x && stax_interpret(g, NULL, &out) == STAX_OK)) {
        for (int i = 0; i < MANY; i++) {
            sum += (double)x[i];
            squares += (double)x[i] * (double)x[i];
        }
        CHECK(fabs(sum / MANY) < 5 / sqrt((double)MANY));
        CHECK(fabs(squares / MANY - 1) < 5 * sqrt(2.0 / MANY));
    }
    free(x);
    stax_graph_free(g);
}

/* A u32[2] key is the u64 of its words; neighbouring keys and shapes cut one stream. */
static void keys_and_shapes(void) {
    static char first[sizeof got[0]];
    if (!runs(TEXT("random_bits", "dtype=u32"), STAX_U32)) return;
    memcpy(first, got[0], sizeof first);
    if (runs(
            "graph g() { y = random_bits 1311768467463790320 {shape=[1003], dtype=u32}; return y }",
            STAX_U32))
        CHECK_BYTES(got[0], first, sizeof first);
    if (runs("graph g() { k = const u32[2] {2596069104, 305419896}; m = random_bits k "
             "{shape=[17,59], "
             "dtype=u32}; y = reshape m {shape=[1003]}; return y }",
             STAX_U32))
        CHECK_BYTES(got[0], first, sizeof first);
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    ctx = stax_open(NULL);
    if (!ctx) return 1;
    RUN(published);
    RUN(bits);
    RUN(uniform);
    RUN(normal);
    RUN(is_normal);
    RUN(keys_and_shapes);
    stax_close(ctx);
    return HARNESS_END();
}
