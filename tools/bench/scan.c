/* What the order of a running sum costs on a CPU: one element after the other, segments of 32, and
   blocks of 1024. Least time of many runs, in nanoseconds an element (f32).

       cc -O2 tools/bench/scan.c -o scan && ./scan

   lines     a contiguous line: a chain of additions waits for each result, so several segments (or
             blocks) run side by side, and what lies before them is added in a second pass
   columns   64 lines side by side, one element of each at a time: vectors across the lines */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COLUMNS = 64, SIDE = 8 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void line_sequential(const float *x, float *y, long n) {
    float sum = -0.0f;
    for (long k = 0; k < n; k++) y[k] = sum = sum + x[k];
}

/* LENGTH elements make a segment; SIDE of them are scanned side by side, in a block that stays in
   the first cache; totals of segments are scanned by the same rule, here by recursion through
   `levels`. */
typedef struct levels {
    float here[12], before[12];
    long n[12];
} levels;

static float push(levels *s, int level, float x, long length) {
    const long n = s->n[level]++;
    if (n % length == 0 && n > 0) s->before[level] = push(s, level + 1, s->here[level], length);
    s->here[level] = n % length == 0 ? x : s->here[level] + x;
    return n < length ? s->here[level] : s->before[level] + s->here[level];
}

#define LINE(name, LENGTH)                                                                       \
    static void name(const float *x, float *y, long n) {                                         \
        levels s;                                                                                \
        memset(&s, 0, sizeof s);                                                                 \
        for (long at = 0; at < n; at += SIDE * LENGTH) {                                         \
            const long m = n - at < SIDE * LENGTH ? n - at : SIDE * LENGTH;                      \
            const float *a = x + at;                                                             \
            float *b = y + at;                                                                   \
            if (m == SIDE * LENGTH) {                                                            \
                float s0 = -0.0f, s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0; \
                for (long k = 0; k < LENGTH; k++) {                                              \
                    b[k] = s0 = s0 + a[k];                                                       \
                    b[LENGTH + k] = s1 = s1 + a[LENGTH + k];                                     \
                    b[2 * LENGTH + k] = s2 = s2 + a[2 * LENGTH + k];                             \
                    b[3 * LENGTH + k] = s3 = s3 + a[3 * LENGTH + k];                             \
                    b[4 * LENGTH + k] = s4 = s4 + a[4 * LENGTH + k];                             \
                    b[5 * LENGTH + k] = s5 = s5 + a[5 * LENGTH + k];                             \
                    b[6 * LENGTH + k] = s6 = s6 + a[6 * LENGTH + k];                             \
                    b[7 * LENGTH + k] = s7 = s7 + a[7 * LENGTH + k];                             \
                }                                                                                \
            } else {                                                                             \
                for (long k = 0; k < m; k++) b[k] = k % LENGTH ? b[k - 1] + a[k] : a[k];         \
            }                                                                                    \
            for (long k = 0; k < m; k += LENGTH) {                                               \
                const long end = m - k < LENGTH ? m : k + LENGTH;                                \
                const float total = b[end - 1], before = s.before[0];                            \
                if (s.n[1] > 0)                                                                  \
                    for (long j = k; j < end; j++) b[j] = before + b[j];                         \
                if (end - k == LENGTH) s.before[0] = push(&s, 1, total, LENGTH);                 \
            }                                                                                    \
        }                                                                                        \
    }
LINE(line_32, 32)
LINE(line_1024, 1024)

static void columns_sequential(const float *x, float *y, long n) {
    float sum[COLUMNS];
    for (int u = 0; u < COLUMNS; u++) sum[u] = -0.0f;
    for (long k = 0; k < n; k++)
        for (int u = 0; u < COLUMNS; u++) y[k * COLUMNS + u] = sum[u] = sum[u] + x[k * COLUMNS + u];
}

typedef struct column_levels {
    float here[12][COLUMNS], before[12][COLUMNS];
    long n[12];
} column_levels;

static void push_columns(column_levels *s, int level, float *x, long length) {
    const long n = s->n[level]++;
    float *here = s->here[level], *before = s->before[level];
    if (n % length == 0) {
        if (n > 0) {
            for (int u = 0; u < COLUMNS; u++) before[u] = here[u];
            push_columns(s, level + 1, before, length);
        }
        for (int u = 0; u < COLUMNS; u++) here[u] = x[u];
    } else {
        for (int u = 0; u < COLUMNS; u++) here[u] = here[u] + x[u];
    }
    if (n < length)
        for (int u = 0; u < COLUMNS; u++) x[u] = here[u];
    else
        for (int u = 0; u < COLUMNS; u++) x[u] = before[u] + here[u];
}

#define COLUMN(name, LENGTH)                                            \
    static void name(const float *x, float *y, long n) {                \
        column_levels s;                                                \
        memset(s.n, 0, sizeof s.n);                                     \
        for (long k = 0; k < n; k++) {                                  \
            memcpy(y + k * COLUMNS, x + k * COLUMNS, sizeof s.here[0]); \
            push_columns(&s, 0, y + k * COLUMNS, LENGTH);               \
        }                                                               \
    }
COLUMN(columns_32, 32)
COLUMN(columns_1024, 1024)

typedef void (*scan_fn)(const float *x, float *y, long n);

static double least(scan_fn scan, const float *x, float *y, long n, long elements) {
    double best = 1e30;
    long runs = 40000000 / elements;
    if (runs < 9) runs = 9;
    if (runs > 4000) runs = 4000;
    for (long r = 0; r < runs; r++) {
        double t = now();
        scan(x, y, n);
        t = now() - t;
        if (t < best) best = t;
    }
    return best / (double)elements;
}

int main(void) {
    static const long sizes[] = {1024, 8192, 65536, 1 << 20, 1 << 24};
    static const struct {
        const char *name;
        scan_fn sequential, by32, by1024;
        long columns;
    } rows[] = {{"lines", line_sequential, line_32, line_1024, 1},
                {"columns", columns_sequential, columns_32, columns_1024, COLUMNS}};
    float *x = (float *)malloc(sizeof(float) << 24), *y = (float *)malloc(sizeof(float) << 24);
    if (!x || !y) return 1;
    for (long k = 0; k < 1 << 24; k++) x[k] = (float)(k % 1001) / 500.0f - 1.0f;
    memset(y, 0, sizeof(float) << 24);
    printf("            elements  sequential   32     1024   ns an element\n");
    for (int r = 0; r < 2; r++)
        for (int k = 0; k < 5; k++) {
            long n = sizes[k] / rows[r].columns;
            printf("%-10s %10ld  %8.3f  %6.3f  %6.3f\n", rows[r].name, sizes[k],
                   least(rows[r].sequential, x, y, n, sizes[k]),
                   least(rows[r].by32, x, y, n, sizes[k]),
                   least(rows[r].by1024, x, y, n, sizes[k]));
        }
    free(x);
    free(y);
    return 0;
}
