/* What functions.c and long/functions_long.c share: the scalar functions with their references and
   bounds, errors in ulp, samples, a test for each. Include after stax.h with STAX_IMPLEMENTATION.

   The functions promise a bound of the error and the bits they return (the same everywhere), not
   the nearest number; so this is where tolerances are right: the bound of each function is
   asserted. That the bits are the same everywhere is for widths.c. */
#ifndef STAX_TESTS_FUNCTIONS_H
#define STAX_TESTS_FUNCTIONS_H

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "harness.h"
#include "random.h"

/* ---- random numbers ---- */

static double draw_between(uint64_t *s, double lo, double hi) {
    return lo + (hi - lo) * ((double)(draw(s) >> 11) * 0x1p-53);
}
static double draw_beside(uint64_t *s, double x) {
    return staxi_float64(staxi_bits64(x) + (draw(s) & 63) - 32);
}
static double draw_any(uint64_t *s) { return staxi_float64(draw(s)); }

/* ---- equality, errors ---- */

/* The same bits; any NaN is NaN, as a function may return any: storing makes it the quiet one,
   which composites.c checks. */
static bool same32(float a, float b) {
    return staxi_bits32(a) == staxi_bits32(b) || (a != a && b != b);
}
static bool same64(double a, double b) {
    return staxi_bits64(a) == staxi_bits64(b) || (a != a && b != b);
}

/* Whether y is the right kind of number: NaN, infinity, an exact zero with its sign. 0: it is, and
   right; -1: it is not; 1: r is an ordinary number. */
static int kind_error(double y, long double r) {
    bool same_sign = !signbit(y) == !signbit(r);
    if (r != r || y != y) return r != r && y != y ? 0 : -1;
    if (isinf(r)) return isinf(y) && same_sign ? 0 : -1;
    if (r == 0) return y == 0 && same_sign ? 0 : -1;
    return 1;
}
/* The error of y in ulp of the reference r, an f64 that is right to about 2^-28 of that; or -1.
   Infinity counts as the number after the largest. */
static double error32(float y, double r) {
    const double top = 0x1p128;
    double d = y > FLT_MAX ? top : y < -FLT_MAX ? -top : (double)y;
    int e = kind_error((double)y, (long double)r);
    if (e <= 0) return e;
    r = r > top ? top : r < -top ? -top : r;
    frexp(r, &e);
    e = e < -125 ? -149 : e > 128 ? 104 : e - 24;
    return fabs(d - r) * ldexp(1, -e);
}
static double error64(double y, long double r) {
    const long double top = ldexpl(1, 1024);
    long double d = y > DBL_MAX ? top : y < -DBL_MAX ? -top : (long double)y;
    int e = kind_error(y, r);
    if (e <= 0) return e;
    r = r > top ? top : r < -top ? -top : r;
    frexpl(r, &e);
    e = e < -1021 ? -1074 : e > 1024 ? 971 : e - 53;
    return (double)ldexpl(fabsl(d - r), -e);
}

/* ---- references ---- */

static double ref32_rsqrt(double x) { return 1 / sqrt(x); }
static double ref32_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double ref32_silu(double x) { return x < -1e4 ? -0.0 : x / (1 + exp(-x)); }
static double ref32_softplus(double x) {
    return x != x ? x : (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}
static double ref32_gelu(double x) {
    return x < -40 ? 0.0 : x * 0.5 * erfc(x * -0.70710678118654752440);
}
static double ref32_gelu_tanh(double x) {
    return x < -40 ? 0.0 : x / (1 + exp(-1.5957691216057307 * (x + 0.044715 * x * x * x)));
}

/* x87's long double has 64 bits, so these are right to about 2^-9 of an f64's ulp; where long
   double has fewer bits, the f64 functions are tested by MPFR in the long test only. */
#define HAS_LONG_DOUBLE (LDBL_MANT_DIG >= 64)
static long double ref64_rsqrt(long double x) { return 1 / sqrtl(x); }
static long double ref64_sigmoid(long double x) { return 1 / (1 + expl(-x)); }
static long double ref64_silu(long double x) { return x < -11000 ? -0.0L : x / (1 + expl(-x)); }
static long double ref64_softplus(long double x) {
    return x != x ? x : (x > 0 ? x : 0) + log1pl(expl(-fabsl(x)));
}
/* In the tails of both gelus the argument's own rounding counts a thousandfold, so it has two
 * parts. */
static long double ref64_gelu(long double x) {
    const long double half = 0xb504f333f9de6484p-64L, rest = 0xb2fb1366ea957d3ep-129L; /* 2^-1/2 */
    long double t, low;
    if (x < -100) return -0.0L;
    if (x > 100 || x != x) return x;
    t = -x * half;
    low = fmal(-x, half, -t) - x * rest;
    return x / 2 * (erfcl(t) - low * 1.12837916709551257390L * expl(-t * t));
}
static long double ref64_gelu_tanh(long double x) { /* x sigmoid(x (c + d x^2)) */
    const long double c = 0xcc42299ea1b28468p-63L, c_rest = 0xfcb3c500bab8e2ffp-128L;
    const long double d = 0x922279526c5a57a4p-67L, d_rest = 0xdef1758b8e3e1a66p-131L;
    long double q, p, s, v, low, e;
    if (x < -100) return -0.0L;
    if (x > 100 || x != x) return x;
    q = x * x;
    low = fmal(x, x, -q);
    p = q * d;
    low = fmal(q, d, -p) + low * d + q * d_rest;
    s = c + p;
    low += (p > c ? (p - s) + c : (c - s) + p) + c_rest;
    v = x * s;
    low = fmal(x, s, -v) + x * low;
    e = expl(-fabsl(v)) * (1 - (v < 0 ? -low : low));
    return v < 0 ? x * e / (1 + e) : x / (1 + e);
}

/* ---- the functions of one operand ---- */

/* lo, hi: where |x| makes the function interesting; signs: 1 x > 0, 2 x < 0. Bounds in ulp: the
   largest error over all floats, rounded up a little. below: x < 0 has an absolute bound instead,
   as gelu and gelu_tanh cancel there, and 2^-23.8 |x|. */
typedef struct function32 {
    const char *name;
    float (*f)(float);
    double (*reference)(double);
    double bound;
    float lo, hi;
    int signs;
    double below;
} function32;

static const function32 functions32[] = {
    {"exp", staxi_exp_f32, exp, 1.0, 0x1p-26f, 160, 3, 0},
    {"exp2", staxi_exp2_f32, exp2, 1.0, 0x1p-26f, 160, 3, 0},
    {"expm1", staxi_expm1_f32, expm1, 0.95, 0x1p-26f, 160, 3, 0},
    {"log", staxi_log_f32, log, 0.94, 0x1p-10f, 0x1p10f, 1, 0},
    {"log2", staxi_log2_f32, log2, 0.87, 0x1p-10f, 0x1p10f, 1, 0},
    {"log10", staxi_log10_f32, log10, 0.84, 0x1p-10f, 0x1p10f, 1, 0},
    {"log1p", staxi_log1p_f32, log1p, 0.97, 0x1p-26f, 0x1p26f, 3, 0},
    {"softplus", staxi_softplus_f32, ref32_softplus, 1.19, 0x1p-26f, 160, 3, 0},
    {"sin", staxi_sin_f32, sin, 1.51, 0x1p-13f, 0x1p15f, 3, 0},
    {"cos", staxi_cos_f32, cos, 1.50, 0x1p-13f, 0x1p15f, 3, 0},
    {"tan", staxi_tan_f32, tan, 1.34, 0x1p-13f, 0x1p15f, 3, 0},
    {"asin", staxi_asin_f32, asin, 1.20, 0x1p-13f, 1, 3, 0},
    {"acos", staxi_acos_f32, acos, 1.15, 0x1p-26f, 1, 3, 0},
    {"atan", staxi_atan_f32, atan, 1.33, 0x1p-13f, 0x1p25f, 3, 0},
    {"cbrt", staxi_cbrt_f32, cbrt, 0.52, 1, 16, 3, 0},
    {"rsqrt", staxi_rsqrt_f32, ref32_rsqrt, 1.51, 1, 16, 1, 0},
    {"sinh", staxi_sinh_f32, sinh, 1.28, 0x1p-13f, 90, 3, 0},
    {"cosh", staxi_cosh_f32, cosh, 1.28, 0x1p-13f, 90, 3, 0},
    {"tanh", staxi_tanh_f32, tanh, 1.35, 0x1p-13f, 16, 3, 0},
    {"asinh", staxi_asinh_f32, asinh, 1.15, 0x1p-13f, 0x1p14f, 3, 0},
    {"acosh", staxi_acosh_f32, acosh, 1.09, 1, 0x1p14f, 1, 0},
    {"atanh", staxi_atanh_f32, atanh, 1.06, 0x1p-13f, 1, 3, 0},
    {"sigmoid", staxi_sigmoid_f32, ref32_sigmoid, 1.52, 0x1p-26f, 160, 3, 0},
    {"silu", staxi_silu_f32, ref32_silu, 1.68, 0x1p-26f, 160, 3, 0},
    {"erf", staxi_erf_f32, erf, 1.29, 0x1p-13f, 16, 3, 0},
    {"erfc", staxi_erfc_f32, erfc, 1.58, 0x1p-26f, 11, 3, 0},
    {"gelu", staxi_gelu_f32, ref32_gelu, 1.57, 0x1p-26f, 8, 3, 1.02e-7},
    {"gelu_tanh", staxi_gelu_tanh_f32, ref32_gelu_tanh, 1.53, 0x1p-26f, 8, 3, 9.6e-8},
};
enum { N_FUNCTIONS32 = sizeof functions32 / sizeof functions32[0] };

/* The error as a share of the bound, so 1 is the most there may be; -1: the wrong kind of
   result. */
static double share32(const function32 *f, float x, float y, double r) {
    if (f->below > 0 && x < 0) {
        double d = fabs((double)y - r), relative = x < -1e-30f ? d / -(double)x : 0;
        if (y != y) return -1;
        return fmax(d / f->below, relative / 0x1p-23 * 1.7411); /* 2^0.8 */
    }
    {
        double e = error32(y, r);
        return e < 0 ? -1 : e / f->bound;
    }
}

static const uint32_t special32[] = {
    0,           0x80000000u, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00001u, 0x7f800001u,
    0x3f800000u, 0xbf800000u, 1,           0x80000001u, 0x7f7fffffu, 0xff7fffffu, 0x00800000u,
    0x80800000u, 0x007fffffu, 0x807fffffu, 0x3f000000u, 0xbf000000u, 0x3ffffffeu, 0x4b000000u,
    0x4b800000u, 0xcb000000u, 0x46c90e00u, 0x46c90f00u, 0x42b20000u, 0xc2cf0000u, 0xc2d00000u};
enum { N_SPECIAL32 = sizeof special32 / sizeof special32[0] };

/* Bounds: the largest errors that a search by hill climbing found, and some hundredths. */
typedef struct function64 {
    const char *name;
    double (*f)(double);
    long double (*reference)(long double);
    const char *mpfr; /* the function of that library; NULL: composed         */
    double bound, lo, hi, seams[8];
} function64;

/* clang-format off */
static const function64 functions64[] = {
    {"exp", staxi_exp_f64, expl, "mpfr_exp", 0.97, -746, 710,
     {0.34657359027997264, 709.782712893384, -708.3964185322641, -745.13321910194110842, 1.0397}},
    {"exp2", staxi_exp2_f64, exp2l, "mpfr_exp2", 0.97, -1076, 1025, {0.5, 1024, -1022, -1075, 1.5}},
    {"expm1", staxi_expm1_f64, expm1l, "mpfr_expm1", 1.35, -3, 3,
     {0.34657359027997264, 709.782712893384, -36.7, 1.0397207708399179, -40, 1e-8}},
    {"log", staxi_log_f64, logl, "mpfr_log", 0.9, 0, 4,
     {0.70710678118654752, 1.4142135623730951, 1, 2.2250738585072014e-308, 2.8284271247461903}},
    {"log2", staxi_log2_f64, log2l, "mpfr_log2", 0.9, 0, 4,
     {0.70710678118654752, 1.4142135623730951, 1, 2.2250738585072014e-308, 2.8284271247461903}},
    {"log10", staxi_log10_f64, log10l, "mpfr_log10", 0.77, 0, 4,
     {0.70710678118654752, 1.4142135623730951, 1, 2.2250738585072014e-308, 1000}},
    {"log1p", staxi_log1p_f64, log1pl, "mpfr_log1p", 0.9, -1, 3,
     {0.41421356237309505, -0.29289321881345248, 1e-8, 1e-15, 1.8284271247461903, 0x1p53}},
    {"sin", staxi_sin_f64, sinl, "mpfr_sin", 0.86, -10, 10,
     {0.78539816339744828, 1.5707963267948966, 3.1415926535897931, 1647099, 1e6, 1e22,
      6381956970095103.0}},
    {"cos", staxi_cos_f64, cosl, "mpfr_cos", 0.91, -10, 10,
     {0.78539816339744828, 1.5707963267948966, 3.1415926535897931, 1647099, 1e6, 1e22,
      6381956970095103.0}},
    {"tan", staxi_tan_f64, tanl, "mpfr_tan", 1.12, -10, 10,
     {0.78539816339744828, 1.5707963267948966, 3.1415926535897931, 1647099, 1e6, 1e22,
      6381956970095103.0}},
    {"asin", staxi_asin_f64, asinl, "mpfr_asin", 1.2, -1, 1, {0.5, 1, 0.51, 0.7, 1e-8}},
    {"acos", staxi_acos_f64, acosl, "mpfr_acos", 1.15, -1, 1, {0.5, 1, 0.51, 0.7, 1e-8}},
    {"atan", staxi_atan_f64, atanl, "mpfr_atan", 1.45, -4, 4, {0.5, 2.4, 1, 0.51, 0.7, 1e-8}},
    {"sinh", staxi_sinh_f64, sinhl, "mpfr_sinh", 1.05, -3, 3,
     {0.34657359027997264, 710.47586007394386, 1.0397207708399179, 1e-8, 20, 1.7328}},
    {"cosh", staxi_cosh_f64, coshl, "mpfr_cosh", 1.33, -3, 3,
     {0.34657359027997264, 710.47586007394386, 1.0397207708399179, 1e-8, 20, 1.7328}},
    {"tanh", staxi_tanh_f64, tanhl, "mpfr_tanh", 1.45, -4, 4,
     {0.17328679513998632, 0.52, 20, 0.55, 19.06}},
    {"asinh", staxi_asinh_f64, asinhl, "mpfr_asinh", 1.0, -3, 3,
     {0.35355339059327379, 1, 1e-8, 0x1p60, 1.05, 0.02}},
    {"acosh", staxi_acosh_f64, acoshl, "mpfr_acosh", 1.0, 1, 4,
     {1, 1.0606601717798212, 1.25, 0x1p60, 1.6}},
    {"atanh", staxi_atanh_f64, atanhl, "mpfr_atanh", 0.88, -1, 1,
     {0.17157287525380990, 0.5, 1e-8, 1, 0.33, 0.02}},
    {"erf", staxi_erf_f64, erfl, "mpfr_erf", 1.85, -6, 6,
     {1.375, 5.95, 5.9215, 0.86602540378443865, 1e-8, 1.25}},
    {"erfc", staxi_erfc_f64, erfcl, "mpfr_erfc", 2.15, -6, 27,
     {26.543, 27.226, 4, 5.8, 0.1, 1, 0.477}},
    {"sigmoid", staxi_sigmoid_f64, ref64_sigmoid, NULL, 0.83, -5, 5,
     {0.34657359027997264, 1.0397207708399179, 36.7, 745, 708.4, 1e-8, 3}},
    {"silu", staxi_silu_f64, ref64_silu, NULL, 1.55, -5, 5,
     {0.34657359027997264, 1.0397207708399179, 36.7, 745, 708.4, 1e-8, 3}},
    {"softplus", staxi_softplus_f64, ref64_softplus, NULL, 1.68, -5, 5,
     {0.34657359027997264, 1.0397207708399179, 36.7, 745, 708.4, 0.88137358701954305, 3}},
    {"gelu", staxi_gelu_f64, ref64_gelu, NULL, 2.4, -10, 10, {1, 38.4, 5.5, 8, 0.1, 37.5}},
    {"gelu_tanh", staxi_gelu_tanh_f64, ref64_gelu_tanh, NULL, 1.55, -10, 10,
     {1, 21.5, 22, 8, 0.1, 21}},
    {"rsqrt", staxi_rsqrt_f64, ref64_rsqrt, NULL, 1.5, 0, 4, {1, 2, 4, 2.2250738585072014e-308}},
    {"cbrt", staxi_cbrt_f64, cbrtl, "mpfr_cbrt", 0.51, -8, 8,
     {1, 2, 4, 8, 2.2250738585072014e-308, 27}},
};
/* clang-format on */
enum { N_FUNCTIONS64 = sizeof functions64 / sizeof functions64[0] };

/* clang-format off */
static const double special64[] = {
    0.0, -0.0, 1, -1, 0.5, -0.5, INFINITY, -INFINITY, NAN, 0x1p-1074, -0x1p-1074, 0x1p-1022,
    -0x1p-1022, DBL_MAX, -DBL_MAX, 1e-300, -1e-300, 2, -2, 1.5, -1.5, 2.5, -2.5, 0x1p52, -0x1p52,
    0x1p53, 4503599627370495.5, -4503599627370495.5, 0.49999999999999994,
};
/* clang-format on */
enum { N_SPECIAL64 = sizeof special64 / sizeof special64[0] };

/* Sample k: the specials, then a third over all exponents, a third in the interesting range, a
   third beside seams of the definition and hard cases. */
static double sample64(const function64 *f, uint64_t *s, int64_t k) {
    double v, seam;
    unsigned how, n = 0;
    if (k < N_SPECIAL64) return special64[k];
    while (n < 8 && f->seams[n] != 0) n++;
    if (k % 3 == 0) return draw_any(s);
    if (k % 3 == 1) return draw_between(s, f->lo, f->hi);
    seam = f->seams[draw(s) % n];
    how = (unsigned)(draw(s) >> 40) % 4;
    v = seam;
    if (how == 0) v = draw_beside(s, seam);
    if (how == 1) v = seam * (1 + draw_between(s, -1e-4, 1e-4));
    if (how == 2) v = seam * (1 + draw_between(s, -0.05, 0.05));
    if (how == 3) { /* near multiples of pi / 2 */
        v = (double)(draw(s) >> 50) * 1.5707963267948966;
        v = draw_beside(s, v != 0 ? v : seam);
    }
    return draw(s) >> 63 ? -v : v;
}

/* ---- the functions of two operands ---- */

/* numpy's, from which floor_divide and remainder have their signs and special cases. */
static double ref_remainder(double a, double b) {
    double m = fmod(a, b);
    if (m != m) return m;
    if (m != 0) return (b < 0) != (m < 0) ? m + b : m;
    return copysign(0.0, b);
}
static double ref_floor_divide(double a, double b) {
    double m, q, w;
    if (b == 0) return a / b;
    m = fmod(a, b);
    if (m != m) return m;
    q = (a - m) / b;
    if (m != 0 && (b < 0) != (m < 0)) q -= 1;
    if (q == 0) return copysign(0.0, a / b);
    w = floor(q);
    return q - w > 0.5 ? w + 1 : w;
}

/* clang-format off */
typedef struct function_2 {
    const char *name;
    float (*f32)(float, float);
    double (*f64)(double, double);
    double (*reference)(double, double);           /* of f32, and of f64 where there is no wide one */
    long double (*wide)(long double, long double); /* NULL: both are exact, the same bits           */
    const char *mpfr;                              /* as in function64                              */
    double bound32, bound64;
} function_2;

static const function_2 functions_2[] = {
    {"pow", staxi_pow_f32, staxi_pow_f64, pow, powl, "mpfr_pow", 0.501, 0.99},
    {"atan2", staxi_atan2_f32, staxi_atan2_f64, atan2, atan2l, "mpfr_atan2", 0.501, 0.95},
    {"hypot", staxi_hypot_f32, staxi_hypot_f64, hypot, hypotl, "mpfr_hypot", 0.501, 0.76},
    {"fmod", staxi_fmod_f32, staxi_fmod_f64, fmod, NULL, "mpfr_fmod", 0, 0},
    {"remainder", staxi_remainder_f32, staxi_remainder_f64, ref_remainder, NULL, NULL, 0, 0},
    {"floor_divide", staxi_floor_divide_f32, staxi_floor_divide_f64, ref_floor_divide, NULL, NULL,
     0, 0},
};
/* clang-format on */
enum { N_FUNCTIONS_2 = sizeof functions_2 / sizeof functions_2[0] };

/* Any bits, few bits, within 8, beside 1; from 4 on: positive, exponents beside that of 1. */
static float operand32(uint64_t *s, int64_t how) {
    uint64_t q = draw(s);
    if (q % 16 == 0) return staxi_float32(special32[(q >> 8) % N_SPECIAL32]);
    if (how == 0) return staxi_float32((uint32_t)(q >> 20));
    if (how == 1) return (float)((int)((q >> 24) % 4000) - 2000) * (1.0f / 16);
    if (how == 2) return (float)(int32_t)(q >> 24) * 0x1p-28f;
    if (how == 3) return staxi_float32(0x3f800000u + (uint32_t)((q >> 30) % 8000) - 4000u);
    return staxi_float32(0x3b800000u + (uint32_t)(q >> 30) % 0x08000000u);
}

/* Where pow was 1.6 ulp, and atan2 is at its worst, as hill climbing found. */
static const double hard64_2[][2] = {{0x1.694cf21cfb28dp+0, 0x1.fef48d4bb8637p+10},
                                     {0x1.6903c5fd13023p+0, 0x1.f89e26c761041p+10},
                                     {0x1.638f1bb0f448bp+0, -0x1.0d625118a591fp+11},
                                     {0x1.59afb9389a593p+0, -0x1.21319f389b66p+11},
                                     {-0x1.d25e63bd91635p-908, 0x1.da176c02e062dp-907},
                                     {0x1.65ae468ebe129p-1, 0x1.67918feb138aep+0},
{0x1.662901ea99483p-1, -0x1.e90f192996508p+10}};
enum {
    N_HARD64_2 = sizeof hard64_2 / sizeof hard64_2[0],
    N_FIXED64_2 = N_SPECIAL64 * N_SPECIAL64 + N_HARD64_2
};

/* Sample k: pairs of specials, the hard ones, then random ones. */
static void operands64(uint64_t *s, int64_t k, double *x, double *y) {
    const int64_t n = N_SPECIAL64;
    const uint64_t fraction = 0x800fffffffffffffu;
    *x = draw_any(s);
    *y = draw_any(s);
    if (k < n * n) {
        *x = special64[k % n];
        *y = special64[k / n];
        return;
    }
    if (k < N_FIXED64_2) {
        *x = hard64_2[k - n * n][0];
        *y = hard64_2[k - n * n][1];
        return;
    }
    switch (draw(s) >> 61) {
        case 0:
            break;
        case 1:
            *x = draw_between(s, -10, 10);
            *y = draw_between(s, -10, 10);
            break;
        case 2:
            *x = draw_between(s, 0, 3);
            *y = draw_between(s, -600, 600);
            break;
        case 3:
            *y = *x * draw_between(s, -4, 4);
            break;
        case 4:
            *x = draw_beside(s, 1);
            *y = draw_between(s, -1, 1) * ldexp(1, (int)(draw(s) >> 58));
            break;
        case 5:
            *x = fabs(*x);
            *y = draw_between(s, -750, 750) / log(*x);
            break;
        case 6:
            *x = (double)(int)(draw(s) % 41) - 20;
            *y = (double)(int)(draw(s) % 41) - 20;
            break;
        default:
            *x = staxi_float64(staxi_bits64(*x) & fraction);
            *y =
                draw(s) >> 63 ? draw_between(s, -2, 2) : staxi_float64(staxi_bits64(*y) & fraction);
    }
}

/* y = f(x, z) of sample k, the reference r, and the error e of y in ulp, -1: wrong. */
typedef struct trial {
    double x, z, y, e;
    long double r;
} trial;
static trial try_2(const function_2 *f, bool is_f64, uint64_t *s, int64_t k) {
    trial t;
    if (is_f64) {
        operands64(s, k, &t.x, &t.z);
        t.y = f->f64(t.x, t.z);
        t.r = f->wide ? f->wide(t.x, t.z) : (long double)f->reference(t.x, t.z);
        t.e = f->wide ? error64(t.y, t.r) : same64(t.y, (double)t.r) ? 0 : -1;
    } else {
        float x = operand32(s, k % 6), z = operand32(s, k / 6 % 6), y = f->f32(x, z);
        double r = f->reference((double)x, (double)z);
        t.x = (double)x;
        t.z = (double)z;
        t.y = (double)y;
        t.r = (long double)r;
        t.e = f->wide ? error32(y, r) : same32(y, (float)r) ? 0 : -1;
    }
    return t;
}

/* ---- small floats ---- */

typedef struct small_format {
    const char *name;
    uint32_t (*narrow)(float);
    float (*widen)(uint32_t);
    float (*round)(float); /* there and back; NULL: there is none */
    int exponent_bits, fraction_bits;
    bool finite;       /* no infinities: f8e4m3 */
    uint32_t nan, end; /* the quiet NaN; the pattern after the largest number */
} small_format;

static const small_format small_formats[] = {
    {"f16", staxi_f16_of_f32, staxi_f32_of_f16, staxi_f16_round, 5, 10, false, 0x7e00, 0x7c00},
    {"bf16", staxi_bf16_of_f32, staxi_f32_of_bf16, staxi_bf16_round, 8, 7, false, 0x7fc0, 0x7f80},
    {"f8e5m2", staxi_f8e5m2_of_f32, staxi_f32_of_f8e5m2, NULL, 5, 2, false, 0x7e, 0x7c},
    {"f8e4m3", staxi_f8e4m3_of_f32, staxi_f32_of_f8e4m3, NULL, 4, 3, true, 0x7f, 0x7f},
};
enum { N_SMALL_FORMATS = sizeof small_formats / sizeof small_formats[0] };

/* The value of a pattern, from its fields. `end` counts as the number it would be. */
static double small_value(const small_format *f, uint32_t h) {
    int bias = (1 << (f->exponent_bits - 1)) - 1, e, m;
    e = (int)(h >> f->fraction_bits) & ((1 << f->exponent_bits) - 1);
    m = (int)h & ((1 << f->fraction_bits) - 1);
    return ldexp(e ? m + (1 << f->fraction_bits) : m, (e ? e : 1) - bias - f->fraction_bits);
}

/* The nearest pattern, ties to even, by bisection over all of them. */
static uint32_t small_nearest(const small_format *f, float x) {
    uint32_t lo = 0, hi = f->end, sign = 1u << (f->exponent_bits + f->fraction_bits);
    double a = fabs((double)x), middle;
    if (x != x) return f->nan;
    sign = signbit(x) ? sign : 0;
    if (a >= small_value(f, hi)) {
        lo = hi;
    } else {
        while (hi - lo > 1) {
            uint32_t h = (lo + hi) / 2;
            if (small_value(f, h) <= a) {
                lo = h;
            } else {
                hi = h;
            }
        }
        middle = (small_value(f, lo) + small_value(f, hi)) / 2;
        if (a > middle || (a == middle && (lo & 1))) lo = hi;
    }
    if (lo == f->end && f->finite) return f->nan;
    return lo | sign;
}

static bool narrows_right(const small_format *f, float x) {
    uint32_t want = small_nearest(f, x);
    if (f->narrow(x) != want) return false;
    return !f->round || same32(f->round(x), f->widen(want));
}

/* A whole number, or NaN, as an integer: beyond an end it is that end. */
#define SATURATED(type, t, low, least, high, most) \
    ((t) != (t) ? 0 : (t) >= (high) ? (most) : (t) <= (low) ? (least) : (type)(t))

/* f32 to integers and back, against plain f64 arithmetic, which is exact here. */
static bool integers_right(uint32_t bits) {
    float x = staxi_float32(bits);
    double t = trunc((double)x);
    int32_t i = SATURATED(int32_t, t, -0x1p31, INT32_MIN, 0x1p31, INT32_MAX);
    uint32_t u = SATURATED(uint32_t, t, 0, 0, 0x1p32, UINT32_MAX);
    int32_t as_signed = (int32_t)bits;
    return staxi_i32_of_f32(x) == i && staxi_u32_of_f32(x) == u &&
           same32(staxi_f32_of_i32(as_signed), (float)(double)as_signed) &&
           same32(staxi_f32_of_u32(bits), (float)(double)bits);
}

/* ---- a test for each row of the tables ---- */

static const function32 *now32;
static const function64 *now64;
static const function_2 *now_2;
static bool now_is_f64; /* which of now_2's */
static const small_format *now_small;

static void run_typed(const char *name, const char *type, void (*test)(void)) {
    char text[64];
    snprintf(text, sizeof text, "%s_%s", name, type);
    RUN_NAMED(text, test);
}
static void run_tables(void (*f32)(void), void (*f64)(void), void (*two)(void),
                       void (*small)(void)) {
    for (now32 = functions32; now32 < functions32 + N_FUNCTIONS32; now32++)
        run_typed(now32->name, "f32", f32);
    for (now64 = functions64; HAS_LONG_DOUBLE && now64 < functions64 + N_FUNCTIONS64; now64++)
        run_typed(now64->name, "f64", f64);
    for (int k = 0; k < 2 * N_FUNCTIONS_2; k++) {
        now_2 = &functions_2[k / 2];
        now_is_f64 = k % 2 != 0;
        if (HAS_LONG_DOUBLE || !now_is_f64 || !now_2->wide)
            run_typed(now_2->name, now_is_f64 ? "f64" : "f32", two);
    }
    for (now_small = small_formats; now_small < small_formats + N_SMALL_FORMATS; now_small++)
        run_typed(now_small->name, "of_f32", small);
}

#endif
