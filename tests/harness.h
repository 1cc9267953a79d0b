/* A small test harness: named tests, checks that print where and what, one closing line.

       #include "harness.h"
       static void adds(void) { CHECK_INT(2 + 2, 4); }
       int main(int argc, char **argv) {
           HARNESS_BEGIN(argc, argv);
           RUN(adds);
           return HARNESS_END();
       }

   The program's arguments are filters: only tests whose name contains one of them run. A check that
   fails prints file:line and the values and the test goes on; a test fails once, however many of
   its checks fail. The last line is "N passed, N failed", which tests/run.sh adds up. SKIP prints a
   reason and counts as neither. A file needs no harness: anything that ends with that line is a
   test. */
#ifndef STAX_TESTS_HARNESS_H
#define STAX_TESTS_HARNESS_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct harness_state {
    int passed, failed, skipped;
    int bad_checks; /* of the running test */
    int is_skipped; /* the running test    */
    int n_filters;
    char **filters;
    const char *name;
} harness_state;

static harness_state harness;

#define HARNESS_UNUSED(f) (void)(f)

/* Is there a program of this name? */
static inline int harness_has_program(const char *name) {
    char command[100];
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", name);
    return system(command) == 0;
}

static int harness_wants(const char *name) {
    for (int i = 0; i < harness.n_filters; i++) {
        if (strstr(name, harness.filters[i])) return 1;
    }
    return harness.n_filters == 0;
}

static int harness_bad(const char *file, int line) {
    /* One broken loop must not fill the log. */
    if (++harness.bad_checks > 20) return 0;
    printf("%s:%d: FAIL %s: ", file, line, harness.name ? harness.name : "(outside a test)");
    if (harness.bad_checks == 20) printf("(more are not printed) ");
    return 1;
}

static void harness_run(const char *name, void (*test)(void)) {
    if (!harness_wants(name)) return;
    harness.name = name;
    harness.bad_checks = 0;
    harness.is_skipped = 0;
    test();
    if (harness.bad_checks)
        harness.failed++;
    else if (harness.is_skipped)
        harness.skipped++;
    else
        harness.passed++;
    harness.name = NULL;
    fflush(stdout);
}

static int harness_check(int ok, const char *what, const char *file, int line) {
    if (!ok && harness_bad(file, line)) printf("%s\n", what);
    return ok;
}

static int harness_check_int(int64_t got, int64_t want, const char *what, const char *file,
                             int line) {
    if (got != want && harness_bad(file, line)) {
        printf("%s is %" PRId64 ", expected %" PRId64 "\n", what, got, want);
    }
    return got == want;
}

static int harness_check_float(double got, double want, const char *what, const char *file,
                               int line) {
    int ok = memcmp(&got, &want, sizeof got) == 0; /* the bits: 0 is not -0 */
    if (!ok && harness_bad(file, line)) printf("%s is %.17g, expected %.17g\n", what, got, want);
    return ok;
}

static int harness_check_text(const char *got, const char *want, const char *what, const char *file,
                              int line) {
    int ok = got && want ? strcmp(got, want) == 0 : got == want;
    if (!ok && harness_bad(file, line)) {
        printf("%s is\n%s\n    expected\n%s\n", what, got ? got : "(null)", want ? want : "(null)");
    }
    return ok;
}

static int harness_check_has(const char *text, const char *part, const char *what, const char *file,
                             int line) {
    int ok = text && strstr(text, part) != NULL;
    if (!ok && harness_bad(file, line))
        printf("%s lacks \"%s\": %s\n", what, part, text ? text : "(null)");
    return ok;
}

static int harness_check_bytes(const void *got, const void *want, size_t n, const char *what,
                               const char *file, int line) {
    const unsigned char *a = (const unsigned char *)got, *b = (const unsigned char *)want;
    size_t differ = 0, first = 0;
    for (size_t i = 0; i < n; i++) {
        if (a[i] != b[i] && differ++ == 0) first = i;
    }
    if (differ && harness_bad(file, line)) {
        printf("%s: %zu of %zu bytes differ, the first at %zu: 0x%02x, expected 0x%02x\n", what,
               differ, n, first, (unsigned)a[first], (unsigned)b[first]);
    }
    return differ == 0;
}

static void harness_skip(const char *reason) {
    harness.is_skipped = 1;
    printf("skip %s: %s\n", harness.name ? harness.name : "", reason);
}

/* The text of a file of up to 1 MB, to be freed; "" if it cannot be read; NULL without memory. */
static inline char *harness_file(const char *path) {
    FILE *f = fopen(path, "rb");
    char *text = (char *)malloc(1 << 20);
    size_t n = f && text ? fread(text, 1, (1 << 20) - 1, f) : 0;
    if (f) fclose(f);
    if (text) text[n] = '\0';
    return text;
}

static void harness_begin(int argc, char **argv) {
    memset(&harness, 0, sizeof harness);
    harness.n_filters = argc - 1;
    harness.filters = argv + 1;
    /* A program need not use every kind of check. */
    HARNESS_UNUSED(harness_run);
    HARNESS_UNUSED(harness_check);
    HARNESS_UNUSED(harness_check_int);
    HARNESS_UNUSED(harness_check_float);
    HARNESS_UNUSED(harness_check_text);
    HARNESS_UNUSED(harness_check_has);
    HARNESS_UNUSED(harness_check_bytes);
    HARNESS_UNUSED(harness_skip);
}

static int harness_end(void) {
    if (harness.skipped) printf("%d skipped\n", harness.skipped);
    printf("%d passed, %d failed\n", harness.passed, harness.failed);
    return harness.failed ? 1 : 0;
}

/* Each check is an expression: 1 if it held, so `if (!CHECK(p)) return;` leaves a test early. */
#define CHECK(condition) harness_check((condition) ? 1 : 0, #condition, __FILE__, __LINE__)
#define CHECK_INT(got, want) \
    harness_check_int((int64_t)(got), (int64_t)(want), #got, __FILE__, __LINE__)
#define CHECK_FLOAT(got, want) \
    harness_check_float((double)(got), (double)(want), #got, __FILE__, __LINE__)
#define CHECK_TEXT(got, want) harness_check_text((got), (want), #got, __FILE__, __LINE__)
#define CHECK_HAS(text, part) harness_check_has((text), (part), #text, __FILE__, __LINE__)
#define CHECK_BYTES(got, want, n) harness_check_bytes((got), (want), (n), #got, __FILE__, __LINE__)
#define SKIP(reason) harness_skip(reason)
#define RUN(test) harness_run(#test, test)
#define RUN_NAMED(name, test) harness_run(name, test)
#define HARNESS_BEGIN(argc, argv) harness_begin(argc, argv)
#define HARNESS_END() harness_end()

#endif
