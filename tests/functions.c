/* The scalar functions at width 1, sampled, against libm in a wider format: the bound of each is
   asserted. Special values; conversions on every small pattern and beside every tie. The long test
   (tests/long) does the same for every f32. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define STAX_STATIC
#define STAX_IMPLEMENTATION
#include "../stax.h"

#include "functions.h"
#include "harness.h"

enum { N_SAMPLES32 = 100000, N_SAMPLES64 = 60000, N_SAMPLES_2 = 300000 };

/* ---- one operand ---- */

static double worst;
static void one32(float x) {
    float y = now32->f(x);
    double r = now32->reference((double)x), share = share32(now32, x, y, r);
    if (!CHECK(share >= 0 && share <= 1)) {
        printf("%s_f32(%a) is %a, the reference %a, %.4f of the bound\n", now32->name, (double)x,
               (double)y, r, share);
    }
    if (share > worst) worst = share;
}

static void function_f32(void) {
    uint32_t lo = staxi_bits32(now32->lo), hi = staxi_bits32(now32->hi);
    worst = 0;
    for (int k = 0; k < N_SPECIAL32; k++) one32(staxi_float32(special32[k]));
    for (uint32_t k = 0; k < N_SAMPLES32; k++) one32(staxi_float32(k * 42949u));
    for (int sign = 0; sign < 2; sign++) {
        float end = sign && strcmp(now32->name, "log1p") == 0 ? 1 : now32->hi;
        uint32_t step;
        if (!(now32->signs >> sign & 1)) continue;
        hi = staxi_bits32(end);
        step = (hi - lo) / N_SAMPLES32;
        for (uint32_t k = 0; k < N_SAMPLES32; k++) {
            one32(staxi_float32((lo + k * step + k % 7) | (uint32_t)sign << 31));
        }
    }
    printf("%-14s f32 worst %.3f ulp, bound %.3f\n", now32->name, worst * now32->bound,
           now32->bound);
}

static void function_f64(void) {
    uint64_t s = RANDOM_SEED;
    worst = 0;
    for (int64_t k = 0; k < N_SAMPLES64; k++) {
        double x = sample64(now64, &s, k), y = now64->f(x), e;
        long double r = now64->reference(x);
        e = error64(y, r);
        if (!CHECK(e >= 0 && e <= now64->bound)) {
            printf("%s_f64(%a) is %a, the reference %.21Lg, error %.4f ulp\n", now64->name, x, y, r,
                   e);
        }
        if (e > worst) worst = e;
    }
    printf("%-14s f64 worst %.3f ulp, bound %.3f\n", now64->name, worst, now64->bound);
}

/* ---- two operands ---- */

static void function_of_2(void) {
    uint64_t s = RANDOM_SEED;
    const char *type = now_is_f64 ? "f64" : "f32";
    double bound = now_is_f64 ? now_2->bound64 : now_2->bound32;
    worst = 0;
    for (int64_t k = 0; k < (now_is_f64 ? N_SAMPLES_2 / 3 : N_SAMPLES_2); k++) {
        trial t = try_2(now_2, now_is_f64, &s, k);
        if (!CHECK(t.e >= 0 && t.e <= bound)) {
            printf("%s_%s(%a, %a) is %a, the reference %.21Lg, error %.4f ulp\n", now_2->name, type,
                   t.x, t.z, t.y, t.r, t.e);
        }
        if (t.e > worst) worst = t.e;
    }
    printf("%-14s %s worst %.4f ulp, bound %.3f\n", now_2->name, type, worst, bound);
}

/* ---- exact ones: the same bits ---- */

static void sqrt_soft(void) {
    uint64_t s = 1;
    for (uint32_t k = 0; k < 400000; k++) {
        float x = staxi_float32(k * 10737u);
        CHECK(same32(staxi_sqrt_soft_f32(x), sqrtf(x)) && same32(staxi_sqrt32(x), sqrtf(x)));
    }
    for (int k = 0; k < 300000; k++) {
        uint64_t u = draw(&s);
        double x = k % 3 == 0   ? (double)(u >> 11) * 0x1p-52
                   : k % 3 == 1 ? staxi_float64(u >> 12 | (u & 0xff) << 44)
                                : staxi_float64(u);
        CHECK(same64(staxi_sqrt_soft_f64(x), sqrt(x)) && same64(staxi_sqrt64(x), sqrt(x)));
    }
}

static double wild(uint64_t *s) {
    const uint64_t fraction = 0x800fffffffffffffu;
    uint64_t u = draw(s), v = draw(s);
    switch (v >> 61) {
        case 0:
            return staxi_float64(u);
        case 1:
            return staxi_float64(u & fraction); /* subnormal */
        case 2:
            return draw_between(s, -2, 2);
        case 3:
            return staxi_float64(u & 0xfff0000ff0000000u); /* few bits: ties */
        case 4:
            return staxi_float64((u & fraction) | (1023 + v % 64 - 32) << 52);
        case 5:
            return staxi_float64((u & fraction) | (2046 - v % 8) << 52);
        case 6:
            return staxi_float64((u & fraction) | (v % 60) << 52);
        default:
            return staxi_float64((u & fraction) | (510 + v % 20) << 52);
    }
}

static void fma_soft(void) {
    static const double special[] = {
        0.0,       -0.0,    1,        -1,       INFINITY, -INFINITY,  NAN, 0x1p-1074,  -0x1p-1074,
        0x1p-1022, DBL_MAX, -DBL_MAX, 0x1p-537, 0x1p512,  0x1.8p-538, 3,   -0x1p-1073, 0x1p-52};
    enum { N = sizeof special / sizeof special[0] };
    uint64_t s = RANDOM_SEED;
    for (int k = 0; k < N * N * N + 300000; k++) {
        double a, b, c, want;
        int e;
        if (k < N * N * N) {
            a = special[k % N];
            b = special[k / N % N];
            c = special[k / N / N];
        } else {
            unsigned how = (unsigned)(draw(&s) >> 61);
            a = wild(&s);
            b = wild(&s);
            c = wild(&s);
            if (how < 3) {
                c = draw_beside(&s, -a * b);
            } else if (how < 5) {
                c = a * b * draw_between(&s, -1, 1) * ldexp(1, (int)(draw(&s) % 220) - 110);
            } else if (how == 5) {
                frexp(a, &e);
                b = ldexp(b, -e - (int)(draw(&s) % 1100));
            }
        }
        want = fma(a, b, c);
        if (!CHECK(same64(staxi_fma_f64(a, b, c), want) &&
                   same64(staxi_fma_exact_f64(a, b, c), want)))
            printf("fma_f64(%a, %a, %a), expected %a\n", a, b, c, want);
    }
    for (int k = 0; k < 400000; k++) {
        float x = operand32(&s, k % 4), y = operand32(&s, k / 4 % 4), z = operand32(&s, k / 16 % 4);
        if (k & 64) z = -(x * y) * (1 + (float)((int)(draw(&s) % 5) - 2) * 0x1p-23f);
        if (!CHECK(same32(staxi_fma_f32(x, y, z), fmaf(x, y, z))))
            printf("fma_f32(%a, %a, %a)\n", (double)x, (double)y, (double)z);
    }
}

/* ---- conversions ---- */

static void narrows(float x) {
    if (!CHECK(narrows_right(now_small, x) && narrows_right(now_small, -x))) {
        printf("%s_of_f32(%a) is %x, expected %x\n", now_small->name, (double)x,
               (unsigned)now_small->narrow(x), (unsigned)small_nearest(now_small, x));
    }
}

/* Every pattern there and back; every pattern's value, every tie, and the floats beside them;
 * others. */
static void small_floats(void) {
    const small_format *f = now_small;
    uint32_t sign = 1u << (f->exponent_bits + f->fraction_bits);
    for (uint32_t h = 0; h < 2 * sign; h++) {
        uint32_t magnitude = h & (sign - 1);
        bool is_nan = f->finite ? magnitude == f->end : magnitude > f->end;
        float x = f->widen(h);
        double v = small_value(f, magnitude);
        if (!f->finite && magnitude == f->end) v = (double)INFINITY;
        if (is_nan) {
            CHECK(x != x && f->narrow(x) == f->nan);
        } else {
            CHECK(fabs((double)x) == v && (signbit(x) != 0) == (h >= sign) && f->narrow(x) == h);
        }
    }
    for (uint32_t h = 0; h < f->end; h++) {
        double lo = small_value(f, h), middle = (lo + small_value(f, h + 1)) / 2;
        narrows((float)lo);
        narrows((float)middle);
        narrows(nextafterf((float)middle, 0));
        narrows(nextafterf((float)middle, INFINITY));
    }
    for (uint32_t k = 0; k < 300000; k++) narrows(staxi_float32(k * 14316u));
    narrows(NAN);
    narrows(INFINITY);
    narrows(FLT_MAX);
}

static void integers_32(void) {
    for (int k = 0; k < N_SPECIAL32; k++) CHECK(integers_right(special32[k]));
    for (uint32_t k = 0; k < 1000000; k++) {
        if (!CHECK(integers_right(k * 4294u + k % 3)))
            printf("%08x\n", (unsigned)(k * 4294u + k % 3));
    }
    for (uint32_t e = 0x4a; e < 0x51; e++) { /* 2^21 and so on: where whole numbers end */
        for (uint32_t k = 0; k < 2000; k++) {
            CHECK(integers_right((e << 24) + k) && integers_right((e << 24) - k));
            CHECK(integers_right((e << 24 | 1u << 31) + k) &&
                  integers_right((e << 24 | 1u << 31) - k));
        }
    }
}

static int bits_in(uint64_t u) {
    int n = 0;
    while (n < 64 && u >> n) n++;
    return n;
}

/* u, rounded to 24 bits by integer arithmetic. */
static float f32_nearest_to(uint64_t u) {
    int shift = bits_in(u) - 24;
    uint64_t m, rest, half;
    if (shift <= 0) return (float)(int32_t)u;
    m = u >> shift;
    rest = u & (((uint64_t)1 << shift) - 1);
    half = (uint64_t)1 << (shift - 1);
    m += rest > half || (rest == half && (m & 1));
    return ldexpf((float)(int32_t)m, shift);
}

static void integers_64(void) {
    uint64_t s = 99;
    for (int k = 0; k < 300000; k++) {
        uint64_t u = draw(&s) >> (k % 40);
        float x = operand32(&s, 0);
        double d = k & 1 ? (double)(int64_t)draw(&s) * 0.5 : draw_any(&s), t = trunc((double)x), w;
        int bits = bits_in(u);
        if (bits > 54 && k % 2) { /* on a tie or a bit beside it */
            u = (u >> (bits - 24) << (bits - 24)) | (uint64_t)1 << (bits - 25) | (k >> 1 & 1);
        }
        CHECK(same32(staxi_f32_of_u64(u), f32_nearest_to(u)));
        CHECK(same32(staxi_f32_of_i64((int64_t)(u >> 1)), f32_nearest_to(u >> 1)));
        CHECK(staxi_f32_of_i64(-(int64_t)(u >> 1)) == -f32_nearest_to(u >> 1));
        CHECK(staxi_i64_of_f32(x) == SATURATED(int64_t, t, -0x1p63, INT64_MIN, 0x1p63, INT64_MAX));
        CHECK(staxi_u64_of_f32(x) == SATURATED(uint64_t, t, 0, 0, 0x1p64, UINT64_MAX));
        w = trunc(d);
        CHECK(staxi_i64_of_f64(d) == SATURATED(int64_t, w, -0x1p63, INT64_MIN, 0x1p63, INT64_MAX));
        CHECK(staxi_u64_of_f64(d) == SATURATED(uint64_t, w, 0, 0, 0x1p64, UINT64_MAX));
        CHECK(staxi_i32_of_f64(d) == SATURATED(int32_t, w, -0x1p31, INT32_MIN, 0x1p31, INT32_MAX));
        CHECK(staxi_u32_of_f64(d) == SATURATED(uint32_t, w, 0, 0, 0x1p32, UINT32_MAX));
    }
}

/* f64 to bf16 is rounded once: against the two neighbours, whose distances are exact in f64. */
static void f64_to_bf16(void) {
    uint64_t s = 5;
    for (int k = 0; k < 300000; k++) {
        double q = staxi_float64(draw(&s)), low, high;
        uint32_t bits, want;
        if (k & 1) { /* a tie, or a breath beside it */
            float tie = staxi_float32(((uint32_t)draw(&s) & 0xffff0000u) | 0x8000u);
            q = (double)tie * (1 + ((int)(draw(&s) % 3) - 1) * 0x1p-52);
        }
        if (!(fabs(q) < 3e38)) continue; /* so that both neighbours are finite */
        bits = staxi_bits32((float)q) & 0xffff0000u;
        if (fabs((double)staxi_float32(bits)) > fabs(q)) bits -= 0x10000u;
        low = fabs(q) - fabs((double)staxi_float32(bits));
        high = fabs((double)staxi_float32(bits + 0x10000u)) - fabs(q);
        want = (low < high || (low == high && !(bits >> 16 & 1)) ? bits : bits + 0x10000u) >> 16;
        CHECK_INT(staxi_bf16_of_f32(staxi_f32_odd_of_f64(q)), want);
    }
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    run_tables(function_f32, function_f64, function_of_2, small_floats);
    RUN(sqrt_soft);
    RUN(fma_soft);
    RUN(integers_32);
    RUN(integers_64);
    RUN(f64_to_bf16);
    return HARNESS_END();
}
