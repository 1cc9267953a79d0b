/* The scalar functions at width 1, thoroughly: f32 functions and conversions for every f32,
   functions of two operands and of f64 for 10^8 samples, each within its bound.

   Samples are screened by libm in a wider format. Where MPFR is installed (header and shared
   library) it decides whatever the screen leaves open: each sample that could be the worst so far,
   results that overflow or underflow, results beside a power of two. Every 1024th other sample is
   asked of it too, and the two must agree within what the screen promises.

   All cores are used: about two and a half hours of one. LONG_SHARE=1000 in the environment does a thousandth
   of the work. */
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
    int64_t n, n_bad, n_mpfr;  /* samples, wrong ones, those that MPFR decided */
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
    total.n_mpfr += t.n_mpfr;
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
    printf("%-18s %11" PRId64 " values, worst %.10f at %s, %" PRId64 " by MPFR, %.0f s\n",
           harness.name, total.n, total.worst, total.where, total.n_mpfr,
           (double)(staxi_clock_ns() - start) * 1e-9);
    if (!CHECK_INT(total.n_bad, 0)) printf("%s\n", total.bad);
}

/* ---- f32: every one ---- */

enum { SLICE_BITS = 22, N_SLICES = 1 << (32 - SLICE_BITS) };
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
    int (*sgn)(mpfr_srcptr);
    double (*get_d)(mpfr_srcptr, mpfr_rnd_t);
    int (*set_emin)(mpfr_exp_t);
    mpfr_exp_t (*get_emin_min)(void);
    int (*mul_2si)(mpfr_ptr, mpfr_srcptr, long, mpfr_rnd_t);
    int (*add_d)(mpfr_ptr, mpfr_srcptr, double, mpfr_rnd_t);
    int (*mul_d)(mpfr_ptr, mpfr_srcptr, double, mpfr_rnd_t);
    int (*div_d)(mpfr_ptr, mpfr_srcptr, double, mpfr_rnd_t);
    int (*d_div)(mpfr_ptr, double, mpfr_srcptr, mpfr_rnd_t);
    int (*const_pi)(mpfr_ptr, mpfr_rnd_t);
    mpfr_two add, sub, mul, div, fmod;
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
    WANTED(init2) WANTED(clear) WANTED(set_d) WANTED(sgn) WANTED(get_d) WANTED(set_emin)
    WANTED(get_emin_min) WANTED(mul_2si) WANTED(add_d) WANTED(mul_d) WANTED(div_d) WANTED(d_div)
    WANTED(const_pi) WANTED(add) WANTED(sub) WANTED(mul) WANTED(div) WANTED(fmod) WANTED(sqrt)
    WANTED(exp) WANTED(log1p) WANTED(erfc) WANTED(rec_sqrt) WANTED(neg)
    /* clang-format on */
#undef WANTED
                    return good;
}

/* A function of one or two operands, for the wider formats. */
typedef struct judged {
    const char *name, *mpfr; /* NULL: composed */
    bool is_binary, is_exact, is_f64;
    bool is_numpys; /* defined by its roundings, so that a nearest number says nothing */
    double bound;
} judged;

/* The error of y in ulp of f(x), or f(x, z); as error32 and error64. */
enum { N_TEMPORARIES = 5 };
static double error_by_mpfr(const judged *j, double x, double z, double y) {
    const char *composed = j->name;
    mpfr_one f = NULL;
    mpfr_two g = NULL;
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
    if (j->mpfr && j->is_binary) (void)mpfr_symbol(j->mpfr, &g);
    if (j->mpfr && !j->is_binary) (void)mpfr_symbol(j->mpfr, &f);
    if (f) {
        f(w, v, d);
    } else if (g) {
        g(w, v, a, d);
    } else if (strcmp(composed, "remainder") == 0) {
        mp.fmod(w, v, a, d);
        if (mp.sgn(w) * (z < 0 ? -1 : 1) < 0) mp.add(w, w, a, d);
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
    if (j->is_f64) {
        e = r == 0 || e < -1021 ? -1074 : e > 1024 ? 971 : e - 53;
    } else {
        e = r == 0 || e < -125 ? -149 : e > 128 ? 104 : e - 24;
    }
    /* infinity counts as the number after the largest, or as any beyond it */
    mp.set_d(a, isinf(y) ? copysign(1, y) : y, d);
    if (isinf(y)) mp.mul_2si(a, a, j->is_f64 ? 1024 : 128, d);
    mp.sub(w, w, a, d);
    mp.mul_2si(w, w, -e, d);
    result = isinf(y) && mp.sgn(w) * copysign(1, y) > 0 ? 0 : fabs(mp.get_d(w, d));
    for (int k = 0; k < N_TEMPORARIES; k++) mp.clear(all[k]);
    return result;
}
#else
static bool mpfr_open(void) { return false; }
#endif

/* ---- f64 and two operands: samples ---- */

enum { SAMPLES_A_SLICE = 100000 };
static const int64_t n_samples = 100000000;
static judged now_judged;
static bool has_mpfr;

/* The error of t->y, which is t->e by libm, decided by MPFR where that is open; -1 where the two
   disagree. NaN is libm's alone, and so are the specials: they are exact, or wrong. */
static double decided(tally *t, const trial *s) {
#ifdef HAS_MPFR
    const judged *j = &now_judged;
    /* What the screen promises: x87's long double is right to about 0.005 ulp of f64, f64 to 2^-28
       of f32. An exact result is wrong by half an ulp at the least, or it is rounded once. */
    double promised = j->is_exact ? 0.5 : j->is_f64 ? 0.02 : 0x1p-26, again;
    double low = j->is_f64 ? 0x1p-1022 : 0x1p-126, high = j->is_f64 ? DBL_MAX : FLT_MAX;
    int e;
    bool is_number = s->r - s->r == 0 && s->r != 0 && s->y == s->y,
         is_edge = s->e > 0.25 && !(fabs(s->y) >= low && fabs(s->y) <= high),
         is_power = s->e > 0 && fabsl(frexpl(s->r, &e)) == 0.5L, /* which ulp? */
        is_open = is_edge || is_power || s->e < 0 || (!j->is_exact && s->e > t->worst - promised);
    if (has_mpfr && is_number && !j->is_numpys && (is_open || t->n % 1024 == 0)) {
        t->n_mpfr++;
        again = error_by_mpfr(j, s->x, s->z, s->y);
        if (j->is_exact) return again <= promised ? s->e : -1;
        return fabs(again - s->e) <= promised || (is_power && again > s->e) ? again : -1;
    }
#endif
    (void)t;
    return s->e;
}

static void count(tally *t, const trial *s) {
    const judged *j = &now_judged;
    double e = decided(t, s);
    t->n++;
    if (e > t->worst) {
        t->worst = e;
        snprintf(t->where, sizeof t->where, "%a, %a", s->x, s->z);
    }
    if (!(e >= 0 && e <= j->bound) && t->n_bad++ == 0)
        snprintf(t->bad, sizeof t->bad, "%s(%a, %a) is %a, error %.4f, bound %.3f", j->name, s->x,
                 s->z, s->y, e, j->bound);
}

static uint64_t seed_of(int64_t slice) { return staxi_hash_u64(RANDOM_SEED, (uint64_t)slice) | 1; }

static void slice_f64(tally *t, int64_t slice) {
    uint64_t s = seed_of(slice);
    trial one;
    memset(&one, 0, sizeof one);
    for (int64_t k = 0; k < SAMPLES_A_SLICE; k++) {
        one.x = sample64(now64, &s, k);
        one.y = now64->f(one.x);
        one.r = now64->reference(one.x);
        one.e = error64(one.y, one.r);
        count(t, &one);
    }
}
static void slice_of_2(tally *t, int64_t slice) {
    uint64_t s = seed_of(slice);
    for (int64_t k = 0; k < SAMPLES_A_SLICE; k++) {
        trial one = try_2(now_2, now_is_f64, &s, slice ? k + N_FIXED64_2 : k);
        count(t, &one);
    }
}
static void judge(slice_fn slice, const char *name, const char *mpfr, double bound) {
    int64_t n = n_samples / share / SAMPLES_A_SLICE;
    now_judged.name = name;
    now_judged.mpfr = mpfr;
    now_judged.bound = bound;
    work_on(slice, n > 0 ? n : 1);
}
static void many_f64(void) {
    now_judged.is_binary = now_judged.is_exact = now_judged.is_numpys = false;
    now_judged.is_f64 = true;
    judge(slice_f64, now64->name, now64->mpfr, now64->bound);
}
static void many_of_2(void) {
    now_judged.is_binary = true;
    now_judged.is_exact = !now_2->wide;
    now_judged.is_f64 = now_is_f64;
    now_judged.is_numpys = strcmp(now_2->name, "floor_divide") == 0;
    judge(slice_of_2, now_2->name, now_2->mpfr, now_is_f64 ? now_2->bound64 : now_2->bound32);
}

int main(int argc, char **argv) {
    const char *text = getenv("LONG_SHARE");
    HARNESS_BEGIN(argc, argv);
    if (text && atoi(text) > 0) share = atoi(text);
    has_mpfr = mpfr_open();
    if (!has_mpfr) printf("skip MPFR: not installed; libm in a wider format decides alone\n");
    run_tables(every_f32, many_f64, many_of_2, every_small);
    RUN_NAMED("integers_of_f32", every_integer);
    RUN_NAMED("sqrt_f32", every_sqrt);
    return HARNESS_END();
}
