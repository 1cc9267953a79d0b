/* The statistics and models of measurement (>>measure): known vectors, the exact coverage of the
   interval beside a simulation, and the rounding errors of section 13.3 beside real sums. */
#include "harness.h"
#include "random.h"
#include "stax.h"

#include <math.h>
#include <stdlib.h>

static int near(double got, double want, double relative) {
    return fabs(got - want) <= relative * fabs(want);
}

static double unit(uint64_t *r) { return ldexp((double)(draw(r) >> 11), -53); } /* [0, 1) */

/* ---- order statistics ---- */

static void coverage_is_binomial(void) {
    /* n = 15, ranks 4 and 12: sum of C(15, i), i = 4 .. 11, is 31616 of 32768 */
    CHECK_FLOAT(stax_interval_coverage(15, 4, 12), 31616.0 / 32768.0);
    CHECK_FLOAT(stax_interval_coverage(1, 1, 1), 0.0);
    CHECK_FLOAT(stax_interval_coverage(2, 1, 2), 0.5);
    CHECK_FLOAT(stax_interval_coverage(15, 0, 12), 0.0);
    CHECK_FLOAT(stax_interval_coverage(15, 4, 16), 0.0);
    CHECK_FLOAT(stax_interval_coverage(1001, 1, 1001), 0.0);
    /* exercise 41 (2): least and largest of 8 readings cover 99 %, of 7 they do not */
    CHECK(stax_interval_coverage(8, 1, 8) >= 0.99);
    CHECK(stax_interval_coverage(7, 1, 7) < 0.99);
    /* all of it: 1 - 2^(1 - n) */
    CHECK_FLOAT(stax_interval_coverage(20, 1, 20), 1.0 - ldexp(1.0, -19));
    CHECK(near(stax_interval_coverage(1000, 1, 1000), 1.0, 1e-12));
}

static void ranks_are_the_tightest(void) {
    CHECK_INT(stax_interval_rank(15, 0.95), 4);
    CHECK_INT(stax_interval_rank(31, 0.95), 10);
    CHECK_INT(stax_interval_rank(1, 0.95), 1);
    CHECK_INT(stax_interval_rank(2, 0.95), 1);
    CHECK_INT(stax_interval_rank(5, 0.95), 1);
    for (int n = 6; n <= 300; n++) {
        int j = stax_interval_rank(n, 0.95);
        CHECK(stax_interval_coverage(n, j, n + 1 - j) >= 0.95);
        CHECK(stax_interval_coverage(n, j + 1, n - j) < 0.95);
    }
}

static void samples_are_order_statistics(void) {
    double x[15], one[1] = {7.0}, four[4] = {4.0, 1.0, 3.0, 2.0};
    for (int k = 0; k < 15; k++) x[k] = (double)((k * 7) % 15 + 1); /* 1 .. 15 in some order */
    stax_sample s = stax_sample_of(x, 15);
    CHECK_INT(s.n, 15);
    CHECK_FLOAT(s.median, 8.0);
    CHECK_FLOAT(s.low, 4.0);
    CHECK_FLOAT(s.high, 12.0);
    CHECK_FLOAT(s.least, 1.0);
    CHECK_FLOAT(s.coverage, 31616.0 / 32768.0);
    for (int k = 0; k < 15; k++) CHECK_FLOAT(x[k], (double)(k + 1));
    s = stax_sample_of(one, 1);
    CHECK_FLOAT(s.median, 7.0);
    CHECK_FLOAT(s.low, 7.0);
    CHECK_FLOAT(s.high, 7.0);
    CHECK_FLOAT(s.coverage, 0.0);
    s = stax_sample_of(four, 4);
    CHECK_FLOAT(s.median, 2.5);
    CHECK_FLOAT(s.low, 1.0);
    CHECK_FLOAT(s.high, 4.0);
    CHECK_INT(stax_sample_of(one, 0).n, 0);
}

/* Readings of D 13.1, t0 plus noise that is never negative: the median of the noise is known. */
static void interval_covers_what_it_says(void) {
    enum { TRIALS = 20000, N = 15 };
    uint64_t r = RANDOM_SEED + 1;
    int within = 0, at_least = 0;
    const double delta = 0.1, median = 5.0 + log(2.0);
    for (int t = 0; t < TRIALS; t++) {
        double x[N];
        for (int k = 0; k < N; k++) x[k] = 5.0 - log(1.0 - unit(&r));
        stax_sample s = stax_sample_of(x, N);
        within += s.low <= median && median < s.high;
        at_least += s.least - 5.0 >= delta;
    }
    /* four standard deviations of the share of successes */
    const double p = 31616.0 / 32768.0, q = exp(-delta * N); /* P 13.2; P 13.1: P[e >= delta]^n */
    CHECK(fabs((double)within / TRIALS - p) < 4.0 * sqrt(p * (1.0 - p) / TRIALS));
    CHECK(fabs((double)at_least / TRIALS - q) < 4.0 * sqrt(q * (1.0 - q) / TRIALS));
}

static stax_sample round_of(double middle, double spread) {
    double x[15];
    for (int k = 0; k < 15; k++) x[k] = middle + spread * (double)(k - 7) / 7.0;
    return stax_sample_of(x, 15);
}

static void decisions_need_agreeing_rounds(void) {
    stax_sample d[2];
    d[0] = round_of(1.0, 0.5); /* the second takes longer */
    d[1] = round_of(1.2, 0.5);
    CHECK_INT(stax_faster(d, 1), 1);
    CHECK_INT(stax_faster(d, 2), 1);
    d[1] = round_of(1.0, 3.0); /* this round does not tell */
    CHECK_INT(stax_faster(d, 2), 0);
    d[1] = round_of(-1.0, 0.5); /* the rounds contradict each other */
    CHECK_INT(stax_faster(d, 2), 0);
    d[1] = round_of(3.0, 0.5); /* they agree, but differ by more than the effect */
    CHECK_INT(stax_faster(d, 2), 0);
    d[0] = round_of(-2.0, 1.0);
    d[1] = round_of(-2.5, 1.0);
    CHECK_INT(stax_faster(d, 2), 2);
    double few[3] = {1.0, 1.1, 1.2}; /* too few readings for 95 % */
    d[0] = stax_sample_of(few, 3);
    CHECK_INT(stax_faster(d, 1), 0);
    CHECK_INT(stax_faster(d, 0), 0);
}

/* Two of the same kind are told apart about as rarely as the interval says. */
static void equals_are_rarely_decided(void) {
    enum { TRIALS = 4000, N = 15 };
    uint64_t r = RANDOM_SEED + 2;
    int decided = 0;
    for (int t = 0; t < TRIALS; t++) {
        double d[N];
        for (int k = 0; k < N; k++) d[k] = log(1.0 - unit(&r)) - log(1.0 - unit(&r));
        stax_sample s = stax_sample_of(d, N);
        decided += stax_faster(&s, 1) != 0;
    }
    const double p = 1.0 - 31616.0 / 32768.0;
    CHECK(fabs((double)decided / TRIALS - p) < 4.0 * sqrt(p * (1.0 - p) / TRIALS));
}

/* ---- section 13.3 ---- */

static double normal(uint64_t *r) {
    double u = 1.0 - unit(r), v = unit(r);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

static void deviations_of_the_text(void) {
    const double u = ldexp(1.0, -24);
    /* example 1.1: 2 relu(z), z of variance 2: mean 2 / sqrt(pi), second moment 4 */
    const double mean = 2.0 / sqrt(3.14159265358979), deviation = sqrt(4.0 - mean * mean);
    CHECK(near(u * stax_sum_error_deviation(2048, STAX_SUM_16, mean, deviation), 1.7e-4, 0.03));
    /* example 7.1: mean 0, deviation 1 */
    CHECK(near(u * stax_sum_error_deviation(2048, STAX_SUM_16, 0.0, 1.0), 1.25e-5, 0.1));
    CHECK_FLOAT(stax_sum_error_deviation(1, STAX_SUM_TREE, 1.0, 1.0), 0.0);
    CHECK_FLOAT(stax_sum_error_deviation(0, STAX_SUM_STAX, 1.0, 1.0), 0.0);
    /* two terms: one addition, whose result has the second moment 4 mu^2 + 2 sigma^2 */
    for (int mode = 0; mode <= STAX_SUM_STAX; mode++)
        CHECK(near(stax_sum_error_deviation(2, (stax_sum_mode)mode, 3.0, 2.0),
                   sqrt((4.0 * 9.0 + 2.0 * 4.0) / 3.0), 1e-12));
}

static void deviations_follow_the_corollary(void) {
    const double w = 16.0, mean = 1.5, deviation = 0.5;
    for (double n = 1 << 14; n <= 1 << 20; n *= 4.0) {
        const double variance = n * n * n * mean * mean / (3.0 * w * w) +
                                n * n * deviation * deviation / (2.0 * w) +
                                2.0 * n * n * mean * mean + n * deviation * deviation * 4.0;
        const double got = stax_sum_error_deviation((int64_t)n, STAX_SUM_16, mean, deviation);
        CHECK(near(got, sqrt(variance / 3.0), 0.03)); /* the corollary keeps leading terms */
    }
    /* growth: n^(3/2) with a mean, n without; a tree grows by n and sqrt(n log n) */
    const double steep = stax_sum_error_deviation(1 << 20, STAX_SUM_SEQUENTIAL, 1.0, 0.0) /
                         stax_sum_error_deviation(1 << 16, STAX_SUM_SEQUENTIAL, 1.0, 0.0),
                 flat = stax_sum_error_deviation(1 << 20, STAX_SUM_SEQUENTIAL, 0.0, 1.0) /
                        stax_sum_error_deviation(1 << 16, STAX_SUM_SEQUENTIAL, 0.0, 1.0),
                 tree = stax_sum_error_deviation(1 << 20, STAX_SUM_TREE, 0.0, 1.0) /
                        stax_sum_error_deviation(1 << 16, STAX_SUM_TREE, 0.0, 1.0);
    CHECK(near(steep, 64.0, 0.01));
    CHECK(near(flat, 16.0, 0.01));
    CHECK(near(tree, sqrt(16.0 * 20.0 / 16.0), 0.01));
}

/* Real sums, in the four orders: the measured deviation is near the predicted one, and every error
   is within the bound of 6.5. The model takes rounding errors as uniform in [-u, u] of the result;
   they are relative to its power of two, so the truth is smaller by up to a factor of two. */
static float lanes_sum(const float *a, int n, int lanes) {
    float part[1024];
    for (int k = 0; k < lanes; k++) part[k] = a[k];
    for (int k = lanes; k < n; k++) part[k % lanes] += a[k];
    for (int w = lanes / 2; w > 0; w /= 2)
        for (int k = 0; k < w; k++) part[k] += part[k + w];
    return part[0];
}

static void real_sums_err_as_predicted(void) {
    enum { N = 2048, ROWS = 1500 };
    static const stax_sum_mode modes[] = {STAX_SUM_SEQUENTIAL, STAX_SUM_16, STAX_SUM_1024};
    static const int lanes[] = {1, 16, 1024};
    static float a[N];
    const double u = ldexp(1.0, -24);
    for (int positive = 0; positive < 2; positive++) {
        uint64_t r = RANDOM_SEED + 3;
        const double mean = positive ? 2.0 / sqrt(3.14159265358979) : 0.0,
                     deviation = positive ? sqrt(4.0 - mean * mean) : 1.0;
        double squares[3] = {0, 0, 0};
        int beyond = 0;
        for (int row = 0; row < ROWS; row++) {
            double exact = 0.0, size = 0.0;
            for (int k = 0; k < N; k++) {
                double z = normal(&r);
                a[k] = (float)(!positive ? z : z > 0.0 ? 2.0 * sqrt(2.0) * z : 0.0);
                exact += (double)a[k];
                size += fabs((double)a[k]);
            }
            for (int m = 0; m < 3; m++) {
                double error = (double)lanes_sum(a, N, lanes[m]) - exact;
                squares[m] += error * error;
                beyond += fabs(error) > u * stax_sum_error_bound(N, modes[m]) * size;
            }
        }
        CHECK_INT(beyond, 0);
        for (int m = 0; m < 3; m++) {
            double ratio = sqrt(squares[m] / ROWS) /
                           (u * stax_sum_error_deviation(N, modes[m], mean, deviation));
            CHECK(ratio > 0.4 && ratio < 1.05);
        }
    }
}

/* ---- traffic ---- */

static void traffic_of_exercise_25(void) {
    const double n = 4096.0, s = 48.0 * 1024.0;
    CHECK_INT(stax_io_tile(s, 32), 128); /* 256^2 alone is more */
    CHECK_FLOAT(stax_io_tiled(n, n, n, 128.0, 128.0), n * n * n / 64.0 + n * n);
    CHECK(near(stax_io_lower_bound(n, n, n, s), n * n * n / (2.0 * sqrt(3.0 * s)) - s, 1e-12));
    double ratio = stax_io_tiled(n, n, n, 128.0, 128.0) / stax_io_lower_bound(n, n, n, s);
    CHECK(ratio > 12.0 && ratio < 12.5); /* exercise 47 (1) */
    /* everything fits: operands and results once */
    CHECK_FLOAT(stax_io_lower_bound(64, 32, 16, 1e9), 64 * 16 + 16 * 32 + 64 * 32);
    CHECK_FLOAT(stax_io_tiled(64, 32, 16, 1e6, 1e6), 64 * 16 + 16 * 32 + 64 * 32);
    CHECK_INT(stax_io_tile(1, 32), 1);
    for (double t = 1.0; t <= 128.0; t *= 2.0) /* no tiling goes below the bound */
        for (double fast = t * t + 64.0 * t; fast <= 1e6; fast *= 4.0)
            CHECK(stax_io_tiled(n, n, n, t, t) >= stax_io_lower_bound(n, n, n, fast));
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    RUN(coverage_is_binomial);
    RUN(ranks_are_the_tightest);
    RUN(samples_are_order_statistics);
    RUN(interval_covers_what_it_says);
    RUN(decisions_need_agreeing_rounds);
    RUN(equals_are_rarely_decided);
    RUN(deviations_of_the_text);
    RUN(deviations_follow_the_corollary);
    RUN(real_sums_err_as_predicted);
    RUN(traffic_of_exercise_25);
    return HARNESS_END();
}
