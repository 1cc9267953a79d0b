/* The scalar functions at width 1, thoroughly: f32 functions and conversions for every f32,
   functions of two operands and of f64 for 10^8 samples, each within its bound. The references are
   libm's in a wider format; where MPFR is installed (header and shared library), every 128th f64
   sample and each near a bound is asked of it too, and the two must agree.

   All cores are used: about three and a half hours of one. LONG_SHARE=1000 in the environment does
   a thousandth of the work. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#if defined(__has_include)
#if __has_include(<mpfr.h>)
#define HAS_MPFR
#include <mpfr.h>
#endif
#endif

#define STAX_STATIC
#define STAX_IMPLEMENTATION
#include "../../stax.h"

#include "../functions.h"
#include "../harness.h"

/* ---- work in slices, on all cores ---- */

typedef struct tally {
    double worst;              /* error in ulp, or share of the bound */
    char where[200], bad[200]; /* the worst one, the first one that is wrong */
    int64_t n, n_bad;
} tally;
typedef void (*slice_fn)(tally *t, int64_t slice);

enum { MOST_THREADS = 64 };
static slice_fn now;
static volatile int64_t n_taken;
static int64_t n_slices;
static staxi_mutex mutex;
static tally total;
static int64_t share = 1; /* LONG_SHARE */

static void work(void *arg) {
    tally t;
    (void)arg;
    memset(&t, 0, sizeof t);
    for (;;) {
        int64_t k = staxi_atomic_add(&n_taken, 1) - 1;
        if (k >= n_slices) break;
        now(&t, k);
    }
    staxi_mutex_lock(&mutex);
    if (t.worst > total.worst) {
        total.worst = t.worst;
        memcpy(total.where, t.where, sizeof t.where);
    }
    if (t.n_bad && !total.n_bad) memcpy(total.bad, t.bad, sizeof t.bad);
    total.n += t.n;
    total.n_bad += t.n_bad;
    staxi_mutex_unlock(&mutex);
}

static void work_on(slice_fn f, int64_t n) {
    staxi_thread threads[MOST_THREADS];
    int n_threads = staxi_cpu_count() < MOST_THREADS ? staxi_cpu_count() : MOST_THREADS,
        started = 0;
    int64_t start = staxi_clock_ns();
    memset(&total, 0, sizeof total);
    now = f;
    n_slices = n;
    staxi_atomic_store(&n_taken, 0);
    staxi_mutex_init(&mutex);
    for (; started < n_threads; started++) {
        if (!staxi_thread_start(&threads[started], work, NULL)) break;
    }
    work(NULL);
    for (int k = 0; k < started; k++) staxi_thread_join(&threads[k]);
    staxi_mutex_free(&mutex);
    printf("%-18s %11" PRId64 " values, worst %.4f at %s, %.0f s\n", harness.name, total.n,
           total.worst, total.where, (double)(staxi_clock_ns() - start) * 1e-9);
    if (!CHECK_INT(total.n_bad, 0)) printf("%s\n", total.bad);
}

/* ---- f32: every one ---- */

enum { SLICE_BITS = 22, N_SLICES = 1 << (32 - SLICE_BITS) };
static const function32 *now32;
static const small_format *now_small;

/* Float k of a slice. With a share, the slices still cover all exponents. */
static uint32_t float_bits(int64_t slice, int64_t k) {
    return (uint32_t)(slice << SLICE_BITS) + (uint32_t)(k * share);
}
static int64_t floats_in_slice(void) { return ((int64_t)1 << SLICE_BITS) / share; }

static void slice_f32(tally *t, int64_t slice) {
    for (int64_t k = 0; k < floats_in_slice(); k++) {
        float x = staxi_float32(float_bits(slice, k)), y = now32->f(x);
        double r = now32->reference((double)x), e = share32(now32, x, y, r);
        t->n++;
        if (e > t->worst) {
            t->worst = e;
            snprintf(t->where, sizeof t->where, "%a", (double)x);
        }
        if (!(e >= 0 && e <= 1) && t->n_bad++ == 0) {
            snprintf(t->bad, sizeof t->bad, "%s_f32(%a) is %a, the reference %a", now32->name,
                     (double)x, (double)y, r);
        }
    }
}
static void every_f32(void) {
    work_on(slice_f32, N_SLICES);
    printf("%-18s worst %.4f ulp, bound %.3f\n", harness.name, total.worst * now32->bound,
           now32->bound);
}

static void slice_small(tally *t, int64_t slice) {
    for (int64_t k = 0; k < floats_in_slice(); k++) {
        float x = staxi_float32(float_bits(slice, k));
        t->n++;
        if (!narrows_right(now_small, x) && t->n_bad++ == 0)
            snprintf(t->bad, sizeof t->bad, "%s_of_f32(%a)", now_small->name, (double)x);
    }
}
static void every_small(void) { work_on(slice_small, N_SLICES); }

static void slice_integers(tally *t, int64_t slice) {
    for (int64_t k = 0; k < floats_in_slice(); k++) {
        uint32_t u = float_bits(slice, k);
        t->n++;
        if (!integers_right(u) && t->n_bad++ == 0)
            snprintf(t->bad, sizeof t->bad, "0x%08x", (unsigned)u);
    }
}
static void every_integer(void) { work_on(slice_integers, N_SLICES); }

static void slice_sqrt(tally *t, int64_t slice) {
    for (int64_t k = 0; k < floats_in_slice(); k++) {
        float x = staxi_float32(float_bits(slice, k)), r = sqrtf(x);
        t->n++;
        if ((!same32(staxi_sqrt_soft_f32(x), r) || !same32(staxi_sqrt32(x), r)) && t->n_bad++ == 0)
            snprintf(t->bad, sizeof t->bad, "sqrt_f32(%a)", (double)x);
    }
}
static void every_sqrt(void) { work_on(slice_sqrt, N_SLICES); }

/* ---- MPFR, loaded at run time: the tests link nothing but libm ---- */

#ifdef HAS_MPFR
typedef int (*mpfr_one)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);
typedef int (*mpfr_two)(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t);
static struct {
    void *library;
    void (*init2)(mpfr_ptr, mpfr_prec_t);
    void (*clear)(mpfr_ptr);
    int (*set_d)(mpfr_ptr, double, mpfr_rnd_t);
    double (*get_d)(mpfr_srcptr, mpfr_rnd_t);
    int (*set_emin)(mpfr_exp_t);
    mpfr_exp_t (*get_emin_min)(void);
    int (*mul_2si)(mpfr_ptr, mpfr_srcptr, long, mpfr_rnd_t);
    int (*add_d)(mpfr_ptr, mpfr_srcptr, double, mpfr_rnd_t);
    int (*sub_d)(mpfr_ptr, mpfr_srcptr, double, mpfr_rnd_t);
    int (*mul_d)(mpfr_ptr, mpfr_srcptr, double, mpfr_rnd_t);
    int (*div_d)(mpfr_ptr, mpfr_srcptr, double, mpfr_rnd_t);
    int (*d_div)(mpfr_ptr, double, mpfr_srcptr, mpfr_rnd_t);
    int (*const_pi)(mpfr_ptr, mpfr_rnd_t);
    mpfr_two add, mul, div;
    mpfr_one sqrt, exp, log1p, erfc, rec_sqrt, neg;
} mp;

static bool mpfr_symbol(const char *name, void *pointer) {
    void *symbol = mp.library ? staxi_dl_symbol(mp.library, name) : NULL;
    memcpy(pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}
static bool mpfr_open(void) {
    static const char *const names[] = {"libmpfr.so.6", "libmpfr.so.4", "libmpfr.so",
                                        "libmpfr.dylib"};
    bool good = true;
    staxi_text why;
    staxi_text_init(&why, NULL);
    for (int k = 0; k < 4 && !mp.library; k++) mp.library = staxi_dl_open(names[k], &why);
    staxi_text_free(&why);
#define WANTED(f) good = mpfr_symbol("mpfr_" #f, &mp.f) && good;
    /* clang-format off */
    WANTED(init2) WANTED(clear) WANTED(set_d) WANTED(get_d) WANTED(set_emin) WANTED(get_emin_min)
    WANTED(mul_2si) WANTED(add_d) WANTED(sub_d) WANTED(mul_d) WANTED(div_d) WANTED(d_div)
    WANTED(const_pi) WANTED(add) WANTED(mul) WANTED(div) WANTED(sqrt) WANTED(exp) WANTED(log1p)
    WANTED(erfc) WANTED(rec_sqrt) WANTED(neg)
    /* clang-format on */
#undef WANTED
                    return good;
}

/* The error of y in ulp of f(x), or f(x, z); as error64. */
enum { N_TEMPORARIES = 5 };
static double error_by_mpfr(const char *composed, mpfr_one f, mpfr_two g, double x, double z,
                            double y) {
    const mpfr_rnd_t d = MPFR_RNDN;
    mpfr_t v, w, a, b, c;
    mpfr_ptr all[N_TEMPORARIES];
    double r, result;
    int e;
    all[0] = v;
    all[1] = w;
    all[2] = a;
    all[3] = b;
    all[4] = c;
    for (int k = 0; k < N_TEMPORARIES; k++) mp.init2(all[k], 200);
    mp.set_emin(mp.get_emin_min()); /* of this thread */
    mp.set_d(v, x, d);
    mp.set_d(a, z, d);
    if (f) {
        f(w, v, d);
    } else if (g) {
        g(w, v, a, d);
    } else if (strcmp(composed, "rsqrt") == 0) {
        mp.rec_sqrt(w, v, d);
    } else if (strcmp(composed, "softplus") == 0) {
        mp.exp(a, v, d);
        mp.log1p(w, a, d);
        if (x > 1000) mp.set_d(w, x, d);        /* to 200 bits, and exp overflows for large x */
    } else if (strcmp(composed, "gelu") == 0) { /* x erfc(-x / sqrt 2) / 2 */
        mp.set_d(a, 2, d);
        mp.sqrt(a, a, d);
        mp.div(a, v, a, d);
        mp.neg(a, a, d);
        mp.erfc(a, a, d);
        mp.mul(w, a, v, d);
        mp.mul_2si(w, w, -1, d);
    } else { /* a sigmoid, of x or of gelu_tanh's polynomial, times x or not */
        bool is_tanh = strcmp(composed, "gelu_tanh") == 0;
        mp.mul_d(a, v, 1, d);
        if (is_tanh) {
            mp.mul(b, v, v, d);
            mp.mul(b, b, v, d);
            mp.mul_d(b, b, 44715, d);
            mp.div_d(b, b, 1000000, d);
            mp.add(b, b, v, d);
            mp.const_pi(c, d);
            mp.d_div(c, 8, c, d);
            mp.sqrt(c, c, d);
            mp.mul(a, b, c, d);
        }
        mp.neg(a, a, d);
        mp.exp(a, a, d);
        mp.add_d(a, a, 1, d);
        mp.d_div(w, 1, a, d);
        if (is_tanh || strcmp(composed, "silu") == 0) mp.mul(w, w, v, d);
    }
    r = mp.get_d(w, MPFR_RNDZ); /* not up to a power of two: its ulp is another */
    frexp(r, &e);
    e = r == 0 || e < -1021 ? -1074 : e - 53;
    mp.sub_d(w, w, y, d);
    mp.mul_2si(w, w, -e, d);
    result = fabs(mp.get_d(w, d));
    for (int k = 0; k < N_TEMPORARIES; k++) mp.clear(all[k]);
    return result;
}
#else
static bool mpfr_open(void) { return false; }
#endif

/* ---- f64 and two operands: samples ---- */

enum { SAMPLES_A_SLICE = 100000 };
static const int64_t n_samples = 100000000;
static const function64 *now64;
static const function32_2 *now32_2;
static const function64_2 *now64_2;
static bool has_mpfr;

/* Error e of y by libm, checked by MPFR now and then; -1 where the two disagree. `name` and
   `symbol` say which function. Infinities and NaN are libm's alone: MPFR has no largest number. */
static double checked(tally *t, const char *name, const char *symbol, bool is_binary, double x,
                      double z, double y, double e, double bound) {
#ifdef HAS_MPFR
    if (has_mpfr && y - y == 0 && y != 0 && (t->n % 128 == 0 || e > bound - 0.05)) {
        mpfr_one f = NULL;
        mpfr_two g = NULL;
        double again;
        if (symbol && is_binary) (void)mpfr_symbol(symbol, &g);
        if (symbol && !is_binary) (void)mpfr_symbol(symbol, &f);
        again = error_by_mpfr(name, f, g, x, z, y);
        if (fabs(again - e) > 0.02) return -1; /* libm's long double is right to about 0.005 ulp */
        e = again;
    }
#endif
    (void)name, (void)symbol, (void)is_binary, (void)x, (void)z, (void)y, (void)bound, (void)t;
    return e;
}

static void count(tally *t, const char *name, double x, double z, double y, double e,
                  double bound) {
    t->n++;
    if (e > t->worst) {
        t->worst = e;
        snprintf(t->where, sizeof t->where, "%a, %a", x, z);
    }
    if (!(e >= 0 && e <= bound) && t->n_bad++ == 0)
        snprintf(t->bad, sizeof t->bad, "%s(%a, %a) is %a, error %.4f, bound %.3f", name, x, z, y,
                 e, bound);
}

static uint64_t seed_of(int64_t slice) {
    return staxi_hash_u64(88172645463325252u, (uint64_t)slice) | 1;
}

static void slice_f64(tally *t, int64_t slice) {
    uint64_t s = seed_of(slice);
    for (int64_t k = 0; k < SAMPLES_A_SLICE; k++) {
        double x = sample64(now64, &s, k), y = now64->f(x), e = error64(y, now64->reference(x));
        e = checked(t, now64->name, now64->mpfr, false, x, 0, y, e, now64->bound);
        count(t, now64->name, x, 0, y, e, now64->bound);
    }
}
static void slice_f64_2(tally *t, int64_t slice) {
    uint64_t s = seed_of(slice);
    for (int64_t k = 0; k < SAMPLES_A_SLICE; k++) {
        double x, z, y, e;
        operands64(&s, slice ? k + N_SPECIAL64 * N_SPECIAL64 : k, &x, &z);
        y = now64_2->f(x, z);
        if (now64_2->exact) {
            e = same64(y, now64_2->exact(x, z)) ? 0 : -1;
        } else {
            e = error64(y, now64_2->reference(x, z));
            e = checked(t, now64_2->name, now64_2->mpfr, true, x, z, y, e, now64_2->bound);
        }
        count(t, now64_2->name, x, z, y, e, now64_2->bound);
    }
}
static void slice_f32_2(tally *t, int64_t slice) {
    uint64_t s = seed_of(slice);
    for (int k = 0; k < SAMPLES_A_SLICE; k++) {
        float x = operand32(&s, k % 4), z = operand32(&s, k / 4 % 4), y = now32_2->f(x, z);
        double r = now32_2->reference((double)x, (double)z), e;
        e = now32_2->bound > 0 ? error32(y, r) : same32(y, (float)r) ? 0 : -1;
        count(t, now32_2->name, (double)x, (double)z, (double)y, e, now32_2->bound);
    }
}
static int64_t n_sample_slices(void) {
    int64_t n = n_samples / share / SAMPLES_A_SLICE;
    return n > 0 ? n : 1;
}
static void many_f64(void) { work_on(slice_f64, n_sample_slices()); }
static void many_f64_2(void) { work_on(slice_f64_2, n_sample_slices()); }
static void many_f32_2(void) { work_on(slice_f32_2, n_sample_slices()); }

int main(int argc, char **argv) {
    const char *text = getenv("LONG_SHARE");
    char name[64];
    HARNESS_BEGIN(argc, argv);
    if (text && atoi(text) > 0) share = atoi(text);
    has_mpfr = mpfr_open();
    if (!has_mpfr) printf("skip MPFR: not installed; f64 is compared with long double only\n");
    for (int k = 0; k < N_FUNCTIONS32; k++) {
        now32 = &functions32[k];
        snprintf(name, sizeof name, "%s_f32", now32->name);
        RUN_NAMED(name, every_f32);
    }
    for (int k = 0; k < N_SMALL_FORMATS; k++) {
        now_small = &small_formats[k];
        snprintf(name, sizeof name, "%s_of_f32", now_small->name);
        RUN_NAMED(name, every_small);
    }
    RUN_NAMED("integers_of_f32", every_integer);
    RUN_NAMED("sqrt_f32", every_sqrt);
    for (int k = 0; k < N_FUNCTIONS32_2; k++) {
        now32_2 = &functions32_2[k];
        snprintf(name, sizeof name, "%s_f32", now32_2->name);
        RUN_NAMED(name, many_f32_2);
    }
    for (int k = 0; k < N_FUNCTIONS64 && HAS_LONG_DOUBLE; k++) {
        now64 = &functions64[k];
        snprintf(name, sizeof name, "%s_f64", now64->name);
        RUN_NAMED(name, many_f64);
    }
    for (int k = 0; k < N_FUNCTIONS64_2; k++) {
        now64_2 = &functions64_2[k];
        snprintf(name, sizeof name, "%s_f64", now64_2->name);
        if (HAS_LONG_DOUBLE || now64_2->exact) RUN_NAMED(name, many_f64_2);
    }
    return HARNESS_END();
}
