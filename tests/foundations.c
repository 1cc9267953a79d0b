/* Foundations and platform: allocation, arenas, texts, numbers as text, maps, hashes, the
   floating-point mode, CPU features, threads, files, processes, loading. What the header defines
   privately is tested here directly. */
#if !defined(_WIN32)
#define _GNU_SOURCE
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#endif
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An allocator of the embedder, by macro: what is live at the end was leaked. */
static size_t live_bytes;
static void *counted_malloc(size_t n) {
    live_bytes += n;
    return malloc(n);
}
static void counted_free(void *p, size_t n) {
    live_bytes -= n;
    free(p);
}
#define STAX_MALLOC(size, align, user) counted_malloc(size)
#define STAX_FREE(ptr, size, user) counted_free(ptr, size)

#define STAX_STATIC
#define STAX_IMPLEMENTATION
#include "../stax.h"

#include "harness.h"
#include "heap.h"
#include "random.h"

enum { N_RANDOM = 60000 };

static uint64_t seed = RANDOM_SEED;

/* Fails at allocation n + 1 of those to come, and at all later ones. */
static void fails_after(heap *h, int64_t n) {
    h->calls = 0;
    h->fail_at = n + 1;
    h->from_then_on = 1;
}
static bool nothing_is_left(const heap *h) {
    return h->blocks == 0 && h->bytes == 0 && h->wrong == 0;
}
static void *crooked_alloc(size_t bytes, size_t align, void *user) {
    (void)align;
    return (char *)heap_alloc(bytes + 8, 64, user) + 8;
}
static void crooked_free(void *p, size_t bytes, void *user) {
    heap_free((char *)p - 8, bytes + 8, user);
}

static void test_alloc(void) {
    heap h;
    stax_allocator a = heap_allocator(&h), crooked;
    size_t cap = 0, i;
    uint32_t *items = NULL;
    void *p;
    crooked.alloc = crooked_alloc;
    crooked.free = crooked_free;
    crooked.user = &h;
    memset(&h, 0, sizeof h);
    for (i = 0; i < 300; i++) {
        p = staxi_alloc(NULL, i);
        CHECK(p && (uintptr_t)p % 64 == 0);
        if (p) memset(p, 1, i);
        staxi_free(NULL, p, i);
        p = staxi_alloc(&a, i);
        CHECK(p && (uintptr_t)p % 64 == 0);
        staxi_free(&a, p, i);
    }
    CHECK(!staxi_alloc(NULL, SIZE_MAX));
    CHECK(!staxi_alloc(NULL, SIZE_MAX - 64));
    CHECK(!staxi_alloc(&crooked, 10));
    staxi_free(NULL, NULL, 3);
    CHECK(nothing_is_left(&h));
    for (i = 0; i < 1000; i++) {
        size_t j;
        CHECK(staxi_grow(&a, (void **)&items, &cap, i + 1, sizeof *items));
        CHECK(items[i] == 0);
        for (j = i; j < cap; j++) CHECK(items[j] == 0);
        items[i] = (uint32_t)i + 1;
    }
    for (i = 0; i < 1000; i++) CHECK(items[i] == i + 1);
    CHECK(!staxi_grow(&a, (void **)&items, &cap, SIZE_MAX / 4 + 1, sizeof *items));
    fails_after(&h, 0);
    CHECK(!staxi_grow(&a, (void **)&items, &cap, cap + 1, sizeof *items));
    CHECK(items[999] == 1000);
    staxi_free(&a, items, cap * sizeof *items);
    CHECK(nothing_is_left(&h));
}

static void test_arena(void) {
    staxi_arena arena;
    char *pointers[2000];
    size_t i, j;
    staxi_arena_init(&arena, NULL);
    for (i = 0; i < 2000; i++) {
        size_t align = (size_t)1 << i % 13, bytes = i * 7 % 333 + (i == 77 ? 3000000 : 0);
        char *p = pointers[i] = (char *)staxi_arena_push(&arena, bytes, align);
        CHECK(p && (uintptr_t)p % align == 0);
        for (j = 0; j < bytes; j++) {
            if (p[j] != 0) break;
        }
        CHECK(j == bytes);
        memset(p, (int)(i % 251), bytes);
    }
    for (i = 0; i < 2000; i++) {
        size_t bytes = i * 7 % 333;
        for (j = 0; j < bytes; j++) CHECK(pointers[i][j] == (char)(i % 251));
    }
    CHECK(strcmp(staxi_arena_text(&arena, "hello world", 5), "hello") == 0);
    CHECK(strcmp(staxi_arena_text(&arena, "", 0), "") == 0);
    CHECK(!staxi_arena_push(&arena, SIZE_MAX, 8) && !staxi_arena_text(&arena, "", SIZE_MAX));
    staxi_arena_free(&arena);
    staxi_arena_free(&arena);
}

static bool text_is(staxi_text *t, const char *want) {
    bool same = t->data && strcmp(t->data, want) == 0 && t->n == strlen(want);
    if (!same) printf("found %s\nwant  %s\n", t->data ? t->data : "(null)", want);
    t->n = 0;
    return same;
}

static void test_text(void) {
    staxi_text t;
    staxi_text_init(&t, NULL);
    staxi_put(&t, "");
    CHECK(text_is(&t, ""));
    staxi_putf(&t, "%s|%c|%d|%D|%U|%X|%F|%%|%", "word", 'x', -7, (int64_t)INT64_MIN,
               (uint64_t)UINT64_MAX, (uint64_t)0xdeadbeef, 0.1);
    CHECK(text_is(&t, "word|x|-7|-9223372036854775808|18446744073709551615|deadbeef|0.1|%|%"));
    staxi_putf(&t, "%d %d", INT_MIN, INT_MAX);
    CHECK(text_is(&t, "-2147483648 2147483647"));
    staxi_put_quoted(&t,
                     "a\"b\\c\n\t\r\x01?\?=\xc3\xa9"
                     "1");
    CHECK(text_is(&t, "\"a\\\"b\\\\c\\n\\t\\015\\001\\?\\?=\\303\\2511\""));
    staxi_put(&t, NULL);
    CHECK(t.n == 0);
    staxi_text_free(&t);
    CHECK(!t.data);
}

static void put_many(staxi_text *t) {
    int i;
    for (i = 0; i < 200; i++) staxi_putf(t, "line %d of %F\n", i, i / 7.0);
}

/* Every allocation fails in turn: nothing leaks, nothing lies. */
static void test_failures(void) {
    heap h;
    stax_allocator a = heap_allocator(&h);
    long n;
    memset(&h, 0, sizeof h);
    for (n = 0;; n++) {
        staxi_text t;
        bool failed;
        fails_after(&h, n);
        staxi_text_init(&t, &a);
        put_many(&t);
        failed = t.failed;
        CHECK(failed || t.n > 3000);
        CHECK(!t.data || t.data[t.n] == '\0');
        fails_after(&h, 1000);
        staxi_put(&t, "x");
        CHECK(t.failed == failed); /* sticky */
        staxi_text_free(&t);
        CHECK(nothing_is_left(&h));
        if (!failed) break;
    }
    CHECK(n >= 5);
    for (n = 0;; n++) {
        staxi_map m;
        uint32_t i, n_added = 0, n_found = 0;
        size_t cursor;
        fails_after(&h, n);
        staxi_map_init(&m, &a);
        for (i = 0; i < 1000; i++) n_added += staxi_map_add(&m, staxi_hash_u64(1, i), i) ? 1u : 0u;
        for (i = 0; i < 1000; i++)
            n_found += staxi_map_first(&m, staxi_hash_u64(1, i), &cursor) ? 1u : 0u;
        CHECK(n_added == n_found);
        staxi_map_free(&m);
        CHECK(nothing_is_left(&h));
        if (n_added == 1000) break;
    }
    CHECK(n >= 5);
    for (n = 0;; n++) {
        staxi_arena arena;
        int i, n_given = 0;
        fails_after(&h, n);
        staxi_arena_init(&arena, &a);
        for (i = 0; i < 1000; i++) n_given += staxi_arena_push(&arena, 100, 8) ? 1 : 0;
        staxi_arena_free(&arena);
        CHECK(nothing_is_left(&h));
        if (n_given == 1000) break;
    }
    CHECK(n >= 3);
}

static void test_integers(void) {
    static const int64_t edge[] = {INT64_MIN,
                                   INT64_MIN + 1,
                                   -4294967297,
                                   -4294967296,
                                   -3037000500,
                                   -7,
                                   -2,
                                   -1,
                                   0,
                                   1,
                                   2,
                                   3,
                                   7,
                                   3037000499,
                                   3037000500,
                                   4294967296,
                                   INT64_MAX / 2,
                                   INT64_MAX - 1,
                                   INT64_MAX};
    const int n = (int)(sizeof edge / sizeof edge[0]);
    int i, j;
    int64_t r = 0;
    for (i = 0; i < n; i++) {
        for (j = 0; j < n; j++) {
            int64_t a = edge[i], b = edge[j];
#if defined(__SIZEOF_INT128__) && !defined(__TINYC__)
            __extension__ typedef __int128 wide;
            wide s = (wide)a + b, d = (wide)a - b, p = (wide)a * b;
            CHECK(staxi_checked_add(a, b, &r) ? r == s : s != (int64_t)s);
            CHECK(staxi_checked_sub(a, b, &r) ? r == d : d != (int64_t)d);
            CHECK(staxi_checked_mul(a, b, &r) ? r == p : p != (int64_t)p);
#else
            (void)staxi_checked_add(a, b, &r);
            (void)staxi_checked_sub(a, b, &r);
            (void)staxi_checked_mul(a, b, &r);
#endif
            if (b != 0 && !(a == INT64_MIN && b == -1)) {
                int64_t q = staxi_floordiv_i64(a, b), m = staxi_mod_i64(a, b);
                CHECK((int64_t)((uint64_t)q * (uint64_t)b + (uint64_t)m) == a);
                CHECK(b > 0 ? m >= 0 && m < b : m <= 0 && m > b);
            }
        }
    }
    CHECK(staxi_floordiv_i64(-7, 2) == -4 && staxi_mod_i64(-7, 2) == 1 &&
          staxi_mod_i64(7, -2) == -1);
    CHECK(staxi_floordiv_i64(5, 0) == 0 && staxi_mod_i64(5, 0) == 0);
    CHECK(staxi_floordiv_i64(INT64_MIN, -1) == INT64_MIN && staxi_mod_i64(INT64_MIN, -1) == 0);
}

static uint64_t bits64(double x) {
    uint64_t u;
    memcpy(&u, &x, 8);
    return u;
}
static uint32_t bits32(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

static double reads(const char *s, size_t want_used) {
    double x = 12345;
    size_t used = 999;
    bool done = staxi_read_f64(s, strlen(s), &x, &used);
    if (want_used == 0) {
        CHECK(!done);
    } else {
        CHECK(done && used == want_used);
        if (used != want_used) printf("%s: used %d\n", s, (int)used);
    }
    return x;
}

/* significant digits in a printed float */
static int count_digits(const char *s) {
    int n = 0, zeros = 0;
    for (; *s && *s != 'e'; s++) {
        if (*s < '0' || *s > '9') continue;
        if (n == 0 && *s == '0') continue;
        n++;
        zeros = *s == '0' ? zeros + 1 : 0;
    }
    return n - zeros;
}

static void test_float_cases(void) {
    static const struct {
        double x;
        const char *text;
    } cases[] = {{1, "1.0"},
                 {-0.0, "-0.0"},
                 {0, "0.0"},
                 {0.1, "0.1"},
                 {5e-324, "5e-324"},
                 {1e23, "1e23"},
                 {1.7976931348623157e308, "1.7976931348623157e308"},
                 {2.2250738585072014e-308, "2.2250738585072014e-308"},
                 {9007199254740993.0, "9007199254740992.0"},
                 {123456.789, "123456.789"},
                 {1e16, "10000000000000000.0"},
                 {1e17, "1e17"},
                 {0.00001, "0.00001"},
                 {0.000001, "1e-6"},
                 {-1.5, "-1.5"},
                 {100, "100.0"},
                 {2.98023223876953125e-8, "2.9802322387695312e-8"},
                 {9.5367431640625e-7, "9.5367431640625e-7"},
                 {4.450147717014403e-308, "4.450147717014403e-308"},
                 {1e22, "1e22"}};
    size_t i;
    staxi_text t;
    staxi_text_init(&t, NULL);
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        staxi_put_f64(&t, cases[i].x);
        CHECK(text_is(&t, cases[i].text));
    }
    staxi_put_f64(&t, strtod("nan", NULL));
    CHECK(text_is(&t, "nan"));
    staxi_put_f64(&t, -strtod("nan", NULL));
    CHECK(text_is(&t, "nan"));
    staxi_put_f64(&t, -strtod("inf", NULL));
    CHECK(text_is(&t, "-inf"));
    staxi_put_f32(&t, 0.1f);
    CHECK(text_is(&t, "0.1"));
    staxi_put_f32(&t, 16777216.0f);
    CHECK(text_is(&t, "16777216.0"));
    staxi_put_f32(&t, 1.401298464e-45f);
    CHECK(text_is(&t, "1e-45"));
    staxi_text_free(&t);
    CHECK(reads("1", 1) == 1 && reads("-12.5e1x", 7) == -125 && reads("1e", 1) == 1 &&
          reads("1e+", 1) == 1);
    CHECK(reads(".5", 2) == 0.5 && reads("5.", 2) == 5 && reads("+3", 2) == 3 &&
          reads("1..2", 2) == 1);
    CHECK(reads("0x1p-3", 6) == 0.125 && reads("0x", 1) == 0 && reads("0xg", 1) == 0 &&
          reads("-0x.8P1", 7) == -1);
    CHECK(reads("0x10", 4) == 16 && reads("0x1p", 3) == 1 && reads("0X1.8", 5) == 1.5);
    reads("", 0), reads(".", 0), reads("-", 0), reads("e5", 0), reads("x", 0), reads("na", 0),
        reads("+.e1", 0);
    CHECK(bits64(reads("nan", 3)) == 0x7ff8000000000000u &&
          bits64(reads("-nan", 4)) == 0x7ff8000000000000u);
    CHECK(bits64(reads("-inf", 4)) == 0xfff0000000000000u &&
          bits64(reads("-0", 2)) == 0x8000000000000000u);
    CHECK(bits64(reads("1e309", 5)) == 0x7ff0000000000000u && reads("1e-400", 6) == 0);
    CHECK(bits64(reads("1.7976931348623158e308", 22)) == 0x7fefffffffffffffu);
    CHECK(bits64(reads("1.7976931348623159e308", 22)) == 0x7ff0000000000000u);
    CHECK(reads("1e99999999999999999999", 22) > 1e308 && reads("1e-99999999999999999999", 23) == 0);
    CHECK(bits64(reads("2.4703282292062327e-324", 23)) == 0 &&
          bits64(reads("2.4703282292062328e-324", 23)) == 1);
    CHECK(bits64(reads("0x1p-1075", 9)) == 0 &&
          bits64(reads("0x1.00000000000000000001p-1075", 30)) == 1);
    CHECK(bits64(reads("0x1.fffffffffffff8p1023", 23)) == 0x7ff0000000000000u);
    CHECK(bits64(reads("0x1.fffffffffffff7ffffffffffffp1023", 35)) == 0x7fefffffffffffffu);
}

static void check_reads_like_strtod(const char *s) {
    double x = 0;
    float y = 0;
    size_t used = 0;
    CHECK(staxi_read_f64(s, strlen(s), &x, &used) && used == strlen(s));
    CHECK(bits64(x) == bits64(strtod(s, NULL)));
    CHECK(staxi_read_f32(s, strlen(s), &y, NULL));
    CHECK(bits32(y) == bits32(strtof(s, NULL)));
}

static void test_random_floats(void) {
    staxi_text t;
    char s[2000];
    double x, back;
    float y, back32;
    long i;
    int n;
    staxi_text_init(&t, NULL);
    for (i = 0; i < N_RANDOM; i++) {
        uint64_t u = draw(&seed);
        if (i % 8 == 1) u &= 0xfff00000000000ffu; /* near powers of two */
        if (i % 8 == 2) u &= 0x800fffffffffffffu; /* subnormal */
        if (i % 8 == 3) u &= 0x8000000000ffffffu;
        if (i % 8 == 4)
            x = (double)(int64_t)(u >> (u & 63)) / 1000; /* few digits */
        else
            memcpy(&x, &u, 8);
        if (x != x) continue;
        t.n = 0;
        staxi_put_f64(&t, x);
        CHECK(staxi_read_f64(t.data, t.n, &back, NULL) && bits64(back) == bits64(x));
        CHECK(bits64(strtod(t.data, NULL)) == bits64(x));
        CHECK(strpbrk(t.data, ".ein") != NULL);
        if (i % 8 < 4 && x != 0 && x - x == 0) {
            n = count_digits(t.data);
            sprintf(s, "%.*e", n - 1, x); /* the nearest with as many digits ... */
            CHECK((u & 0xfffffffffffffu) == 0 || (strtod(s, NULL) == x && count_digits(s) == n));
            if (n > 1) {
                sprintf(s, "%.*e", n - 2, x); /* ... and fewer do not read back */
                CHECK(strtod(s, NULL) != x);
            }
        }
        sprintf(s, "%.17g", x);
        CHECK(staxi_read_f64(s, strlen(s), &back, NULL) && bits64(back) == bits64(x));
    }
    for (i = 0; i < N_RANDOM; i++) {
        uint32_t u = (uint32_t)(draw(&seed) >> 32);
        if (i % 8 == 1) u &= 0xff8000ffu;
        if (i % 8 == 2) u &= 0x807fffffu;
        memcpy(&y, &u, 4);
        if (y != y) continue;
        t.n = 0;
        staxi_put_f32(&t, y);
        CHECK(staxi_read_f32(t.data, t.n, &back32, NULL) && bits32(back32) == bits32(y));
        CHECK(bits32(strtof(t.data, NULL)) == bits32(y));
        CHECK(staxi_read_f64(t.data, t.n, &back, NULL) && bits32((float)back) == bits32(y));
        n = count_digits(t.data);
        if (n > 1) {
            sprintf(s, "%.*e", n - 2, (double)y);
            CHECK(bits32(strtof(s, NULL)) != bits32(y));
        }
    }
    staxi_text_free(&t);
}

static void test_long_decimals(void) {
    char s[3000];
    long i;
    int j, n;
    for (i = 0; i < N_RANDOM / 20; i++) { /* random digits, point and exponent anywhere */
        int length = (int)(draw(&seed) % (i % 10 == 0 ? 1500 : 40)) + 1;
        int point = (int)(draw(&seed) % (unsigned)(length + 1));
        n = 0;
        for (j = 0; j < length; j++) {
            if (j == point) s[n++] = '.';
            s[n++] = (char)('0' + (int)(draw(&seed) % (i % 3 == 0 ? 2 : 10)));
        }
        sprintf(s + n, "e%d", (int)(draw(&seed) % 700) - 350);
        check_reads_like_strtod(s);
    }
#if defined(__x86_64__) && defined(__GNUC__)
    for (i = 0; i < N_RANDOM / 50; i++) { /* exactly between two doubles, and a breath beside it */
        uint64_t u = draw(&seed) & 0x7fffffffffffffffu;
        double a, b;
        long double middle;
        if (i % 3 == 0) u &= 0xfffffffffffffu;
        if (i % 3 == 1) u &= 0x7ff0000000000003u;
        if (u >= 0x7fefffffffffffffu) continue;
        memcpy(&a, &u, 8);
        u++;
        memcpy(&b, &u, 8);
        middle = ((long double)a + (long double)b) / 2;
        n = sprintf(s, "%.780Le", middle);
        check_reads_like_strtod(s);
        {
            char *e = strchr(s, 'e'), tail[16];
            strcpy(tail, e);
            for (j = 0; j < 1000; j++) e[j] = '0';
            e[1000] = '1';
            strcpy(e + 1001, tail);
            check_reads_like_strtod(s);
        }
    }
#endif
    for (i = 0; i < N_RANDOM / 20; i++) {
        int length = (int)(draw(&seed) % 30) + 1,
            point = (int)(draw(&seed) % (unsigned)(length + 1));
        n = sprintf(s, "%s0x", i % 2 ? "-" : "");
        for (j = 0; j < length; j++) {
            if (j == point) s[n++] = '.';
            s[n++] = "0123456789abcdefABCDEF"[i % 3 ? draw(&seed) % 22 : 15 * (draw(&seed) % 2)];
        }
        sprintf(s + n, "p%d", (int)(draw(&seed) % 2400) - 1200);
        check_reads_like_strtod(s);
        if (i % 2) {
            uint64_t u = draw(&seed);
            double x;
            memcpy(&x, &u, 8);
            if (x == x) {
                sprintf(s, "%a", x);
                check_reads_like_strtod(s);
            }
        }
    }
    memset(s, '0', sizeof s); /* 1 behind 2000 zeros, brought back by the exponent */
    s[1] = '.';
    strcpy(s + 2000, "1e1998");
    check_reads_like_strtod(s);
    memset(s, '0', sizeof s);
    s[0] = '3';
    strcpy(s + 2000, "e-2000");
    check_reads_like_strtod(s);
}

static void test_hash_and_map(void) {
    staxi_map m;
    size_t cursor = 0;
    uint32_t i, *value;
    uint64_t seen = 0;
    CHECK(staxi_hash_bytes(1, "abc", 3) != staxi_hash_bytes(2, "abc", 3));
    CHECK(staxi_hash_bytes(1, "abc", 3) != staxi_hash_bytes(1, "abc\0", 4));
    CHECK(staxi_hash_bytes(1, "", 0) != staxi_hash_bytes(1, "\0", 1));
    CHECK(staxi_hash_bytes(1, "abcdefghi", 9) == staxi_hash_bytes(1, "abcdefghij", 9));
    CHECK(staxi_hash_u64(0, 0) != 0 && staxi_hash_u64(0, 1) != staxi_hash_u64(1, 0));
    staxi_map_init(&m, NULL);
    CHECK(!staxi_map_first(&m, 5, &cursor));
    for (i = 0; i < 64; i++) CHECK(staxi_map_add(&m, 7, i)); /* one hash */
    for (i = 0; i < 64; i++)
        CHECK(staxi_map_add(&m, 7 + 256 * (uint64_t)(i + 1), 1000 + i));      /* one slot */
    CHECK(staxi_map_add(&m, 0, 4242) && staxi_map_add(&m, UINT64_MAX, 4343)); /* walks wrap round */
    CHECK(staxi_map_add(&m, UINT64_MAX, 4344));
    for (value = staxi_map_first(&m, 7, &cursor); value; value = staxi_map_next(&m, 7, &cursor)) {
        CHECK(*value < 64 && !(seen >> *value & 1));
        seen |= (uint64_t)1 << *value;
    }
    CHECK(seen == UINT64_MAX);
    for (i = 0; i < 64; i++) {
        uint64_t hash = 7 + 256 * (uint64_t)(i + 1);
        value = staxi_map_first(&m, hash, &cursor);
        CHECK(value && *value == 1000 + i && !staxi_map_next(&m, hash, &cursor));
    }
    value = staxi_map_first(&m, 0, &cursor);
    CHECK(value && *value == 4242);
    CHECK(staxi_map_first(&m, UINT64_MAX, &cursor) && staxi_map_next(&m, UINT64_MAX, &cursor) &&
          !staxi_map_next(&m, UINT64_MAX, &cursor));
    CHECK(!staxi_map_first(&m, 8, &cursor));
    staxi_map_free(&m);
}

static bool sha_is(const char *s, size_t n, size_t part, const char *want) {
    staxi_sha256 sha;
    uint8_t digest[32];
    char hex[65];
    size_t at;
    staxi_sha256_init(&sha);
    for (at = 0; at < n; at += part)
        staxi_sha256_update(&sha, s + at, n - at < part ? n - at : part);
    staxi_sha256_final(&sha, digest);
    staxi_hex(digest, 32, hex);
    return strcmp(hex, want) == 0;
}

static void test_sha(void) {
    static char a[1000000];
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    size_t part;
    memset(a, 'a', sizeof a);
    for (part = 1; part < 200; part += 13) {
        CHECK(sha_is("", 0, part,
                     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
        CHECK(sha_is("abc", 3, part,
                     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
        CHECK(sha_is(two, 56, part,
                     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"));
    }
    CHECK(sha_is(a, sizeof a, 977,
                 "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"));
    CHECK(sha_is(a, sizeof a, sizeof a,
                 "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"));
}

static volatile double volatile_tiny = 2.2250738585072014e-308, volatile_one = 1,
                       volatile_ulp = 2e-16;

static void test_fpenv(void) {
    staxi_fpenv old;
    uint64_t host = staxi_fp_word();
#if defined(__x86_64__)
    const uint64_t strange = 0x1f80u | 0x8040u | 0x4000u; /* FTZ, DAZ, round up */
    double x;
    staxi_text t;
    staxi_fp_set_word(strange);
    CHECK(volatile_tiny / 4 == 0);
    CHECK(volatile_one + 1e-30 > 1);
    staxi_text_init(&t, NULL);
    staxi_put_f64(&t, 5e-324);
    staxi_put_f64(&t, 0.3);
    CHECK(text_is(&t, "5e-3240.3"));
    staxi_text_free(&t);
    CHECK(staxi_read_f64("0.1", 3, &x, NULL) && bits64(x) == 0x3fb999999999999au);
    CHECK(staxi_read_f64("1e23", 4, &x, NULL) && bits64(x) == 0x44b52d02c7e14af6u);
    CHECK(staxi_read_f64("5e-324", 6, &x, NULL) && bits64(x) == 1);
    staxi_fp_set_word(strange);
    staxi_fpenv_enter(&old);
    x = volatile_tiny / 4;
    CHECK(bits64(x) == (uint64_t)1 << 50);
    x = volatile_one + 1e-30;
    CHECK(bits64(x) == bits64(1.0));
    x = volatile_one / (volatile_tiny - volatile_tiny); /* raises a flag the host must not see */
    CHECK(x > 1e308);
    staxi_fpenv_leave(&old);
    CHECK(staxi_fp_word() == strange);
    CHECK(volatile_one + 1e-30 > 1);
    staxi_fp_set_word(host);
#endif
    staxi_fpenv_enter(&old);
    staxi_fpenv_leave(&old);
    CHECK(staxi_fp_word() == host);
    CHECK(volatile_one + volatile_ulp > 1);
}

static void test_isa(void) {
    int level = staxi_cpu_isa();
    CHECK(level >= STAXI_ISA_SCALAR && level <= STAXI_ISA_NEON);
#if defined(__linux__) && defined(__x86_64__)
    {
        static char line[8192];
        FILE *f = fopen("/proc/cpuinfo", "r");
        int want = -1;
        while (f && fgets(line, sizeof line, f)) {
            if (strncmp(line, "flags", 5) != 0) continue;
            line[strlen(line) - 1] = ' ';
#define HAS(word) (strstr(line, " " word " ") != NULL)
            want = STAXI_ISA_SSE2;
            if (HAS("ssse3") && HAS("sse4_1") && HAS("sse4_2") && HAS("popcnt"))
                want = STAXI_ISA_SSE42;
            if (HAS("avx2") && HAS("fma") && HAS("f16c")) want = STAXI_ISA_AVX2;
            if (HAS("avx512f") && HAS("avx512bw") && HAS("avx512dq") && HAS("avx512vl"))
                want = STAXI_ISA_AVX512;
            break;
        }
        if (f) fclose(f);
        CHECK(want < 0 || want == level);
        printf("isa level %d, %d cpus\n", level, staxi_cpu_count());
    }
#endif
}

static volatile int64_t shared_count;
static int64_t guarded_count;
static staxi_mutex shared_mutex;
static void count_up(void *arg) {
    int i;
    for (i = 0; i < 100000; i++) {
        (void)staxi_atomic_add(&shared_count, *(int *)arg);
        if (i % 10 == 0) {
            staxi_mutex_lock(&shared_mutex);
            guarded_count++;
            staxi_mutex_unlock(&shared_mutex);
        }
    }
}

static void test_threads(void) {
    staxi_thread threads[4];
    int arg = 3, i, n = 0;
    int64_t started = staxi_clock_ns();
    void *pages;
    staxi_mutex_init(&shared_mutex);
    for (i = 0; i < 4; i++) {
        if (staxi_thread_start(&threads[n], count_up, &arg)) {
            n++;
        } else {
            count_up(&arg);
        }
    }
    for (i = 0; i < n; i++) staxi_thread_join(&threads[i]);
    staxi_mutex_free(&shared_mutex);
    CHECK(n == 4);
    CHECK(staxi_atomic_load(&shared_count) == 1200000 && guarded_count == 40000);
    staxi_atomic_store(&shared_count, -5);
    CHECK(staxi_atomic_load(&shared_count) == -5 && staxi_atomic_add(&shared_count, 7) == 2);
    CHECK(staxi_atomic_cas(&shared_count, 2, INT64_MIN) && !staxi_atomic_cas(&shared_count, 2, 1));
    CHECK(staxi_atomic_load(&shared_count) == INT64_MIN);
    CHECK(staxi_clock_ns() >= started && started > 0);
    CHECK(staxi_cpu_count() >= 1);
    pages = staxi_pages_get(10000000);
    CHECK(pages && (uintptr_t)pages % 4096 == 0);
    if (pages) {
        CHECK(((char *)pages)[9999999] == 0);
        ((char *)pages)[9999999] = 1;
    }
    staxi_pages_release(pages, 10000000);
    CHECK(!staxi_pages_get(SIZE_MAX / 2));
    pages = staxi_pages_get(0);
    CHECK(pages);
    staxi_pages_release(pages, 0);
    staxi_pages_release(NULL, 0);
    CHECK(staxi_getenv("PATH") && !staxi_getenv("STAX_SURELY_NOT_SET"));
}

static void test_files(void) {
    char dir[64], path[96], other[96];
    staxi_text t, why;
    staxi_file_stat info;
    static char big[300000];
    size_t i;
    for (i = 0; i < sizeof big; i++) big[i] = (char)(i * 7 % 256);
    staxi_text_init(&t, NULL);
    staxi_text_init(&why, NULL);
    sprintf(dir, "/tmp/stax_foundations_%lu", (unsigned long)staxi_process_id());
    sprintf(path, "%s/a b'c", dir);
    sprintf(other, "%s/other", dir);
    CHECK(staxi_dir_make(dir) && staxi_dir_make(dir));
    CHECK(staxi_file_info(dir, &info) && info.is_dir);
    CHECK(staxi_file_write(path, big, sizeof big, &why) && why.n == 0);
    CHECK(!staxi_file_write(path, "x", 1, &why) && strstr(why.data, "exists already") &&
          strstr(why.data, path));
    CHECK(!staxi_dir_make(path));
    CHECK(staxi_file_read(path, &t) && t.n == sizeof big && memcmp(t.data, big, sizeof big) == 0);
    CHECK(staxi_file_info(path, &info) && !info.is_dir && info.size == sizeof big &&
          info.mtime_s > 1600000000);
#ifdef STAXI_POSIX
    CHECK((info.mode & 0777) == 0600 && info.uid == (uint32_t)getuid() && info.inode != 0);
    CHECK(info.mtime_ns >= 0 && info.mtime_ns < 1000000000);
    why.n = 0;
    CHECK(!staxi_file_write("/dev/full/x", "x", 1, &why) && why.n > 0);
#endif
    CHECK(!staxi_file_read(dir, &t) && !staxi_file_read("/nonexistent", &t) &&
          !staxi_file_info("/nonexistent", &info));
    CHECK(staxi_file_write(other, "1", 1, NULL) && staxi_file_rename(path, other));
    CHECK(staxi_file_info(other, &info) && info.size == sizeof big &&
          !staxi_file_info(path, &info));
    CHECK(staxi_file_remove(other) && !staxi_file_remove(other));
    remove(dir);
    CHECK(!staxi_file_info(dir, &info));
    staxi_text_free(&t);
    staxi_text_free(&why);
}

#ifdef STAXI_JIT
static void count_name(const char *name, void *arg) { *(int *)arg += name[0] == 'n' ? 1 : 100; }

static int run(const char *command, staxi_text *out) {
    int code = -1;
    out->n = 0;
    CHECK(staxi_command(command, out, &code));
    return code;
}

static void test_commands(void) {
    static const char *const words[] = {
        "plain", "",    " ",    "a b",     "it's",  "''",       "$HOME", "`id`",
        "$(id)", "a;b", "a\nb", "\\",      "\\\\'", "\"",       "*",     "~",
        "-n",    "!",   "#",    "a&b|c>d", "\t",    "\xc3\xa9", "%s%d",  "'; exit 9; '"};
    staxi_text t, quoted, big;
    size_t i;
    int code = 0;
    staxi_text_init(&t, NULL);
    staxi_text_init(&quoted, NULL);
    staxi_text_init(&big, NULL);
    CHECK(run("echo hello", &t) == 0 && text_is(&t, "hello\n"));
    CHECK(run("exit 3", &t) == 3 && t.n == 0);
    CHECK(run("echo no newline | tr -d '\\n'; exit 200", &t) == 200 && text_is(&t, "no newline"));
    CHECK(run("echo error >&2; false # comment", &t) == 1 && text_is(&t, "error\n"));
    CHECK(run("printf '5\\n\\n7\\n'; exit 255", &t) == 255 && text_is(&t, "5\n\n7\n"));
    CHECK(run("cat", &t) == 0 && t.n == 0); /* empty input */
    CHECK(run("surely-no-such-command", &t) == 127 && t.n > 0);
    CHECK(run("(", &t) == 127 && t.n > 0); /* a syntax error */
    CHECK(run("kill -9 $$", &t) == 127);
    CHECK(run("sh -c 'kill -9 $$'", &t) == 137);
    CHECK(run("head -c 1000000 /dev/zero | tr '\\0' x; exit 4", &t) == 4 && t.n == 1000000);
    t.n = 0;
    staxi_put(&t, "before");
    CHECK(staxi_command("echo after", &t, &code) && code == 0 && text_is(&t, "beforeafter\n"));
    for (i = 0; i < sizeof words / sizeof words[0]; i++) {
        quoted.n = 0;
        staxi_put(&quoted, "printf '%s' ");
        staxi_put_shell_quoted(&quoted, words[i]);
        CHECK(run(quoted.data, &t) == 0 && text_is(&t, words[i]));
    }
    for (i = 0; i < 30; i++) { /* memory runs out at every allocation */
        heap h;
        stax_allocator a = heap_allocator(&h);
        bool done;
        memset(&h, 0, sizeof h);
        fails_after(&h, (int64_t)i);
        staxi_text_init(&big, &a);
        done = staxi_command("head -c 20000 /dev/zero; exit 5", &big, &code);
        CHECK(done ? code == 5 && big.n == 20000 : big.failed || i < 8);
        staxi_text_free(&big);
        CHECK(nothing_is_left(&h));
        if (done) break;
    }
    CHECK(i > 3 && i < 30);
    staxi_text_free(&t);
    staxi_text_free(&quoted);
}

#if defined(STAXI_POSIX)
/* A host that has closed its own streams. */
static void commands_without_streams(void) {
    staxi_text t;
    int status = -1;
    staxi_text_init(&t, NULL);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        for (int k = 0; k < 3; k++) (void)close(k);
        _exit(run("echo out; echo err >&2; exit 6", &t) != 6 || !text_is(&t, "out\nerr\n"));
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    staxi_text_free(&t);
}
#endif

static void increment_file(const char *path, int times) {
    char lock_path[200], digits[32];
    int i;
    sprintf(lock_path, "%s.lock", path);
    for (i = 0; i < times; i++) {
        staxi_text t;
        int lock = staxi_lock_take(lock_path);
        CHECK(lock >= 0);
        staxi_text_init(&t, NULL);
        (void)staxi_file_read(path, &t);
        sprintf(digits, "%d", atoi(t.data ? t.data : "0") + 1);
        (void)staxi_file_remove(path);
        CHECK(staxi_file_write(path, digits, strlen(digits), NULL));
        staxi_text_free(&t);
        if (i % 3 == 0) (void)staxi_file_remove(lock_path); /* what a careless cleaner does */
        staxi_lock_drop(lock);
    }
}

static void test_cache_folder(void) {
    char dir[64], path[128], other[300];
    staxi_text t, command;
    staxi_file_stat info, touched;
    int n = 0;
    void *lib;
    staxi_text_init(&t, NULL);
    staxi_text_init(&command, NULL);
    sprintf(dir, "/tmp/stax_foundations_jit_%lu", (unsigned long)staxi_process_id());
    CHECK(staxi_dir_make(dir));
    sprintf(path, "%s/n1", dir);
    sprintf(other, "%s/n2", dir);
    CHECK(staxi_file_write(path, "1", 1, NULL) && staxi_file_write(other, "1", 1, NULL));
    CHECK(staxi_dir_list(dir, count_name, &n) && n == 2 &&
          !staxi_dir_list("/nonexistent", count_name, &n));
    CHECK(!staxi_file_is_executable(path) && staxi_file_is_executable("/bin/sh") &&
          !staxi_file_is_executable("/tmp"));
    CHECK(run("touch -d 2001-01-01 /tmp/stax_foundations_jit_*/n1", &t) == 0 &&
          staxi_file_info(path, &info));
    CHECK(staxi_file_touch(path) && staxi_file_info(path, &touched) &&
          touched.mtime_s > info.mtime_s + 600000000);
    t.n = 0;
    sprintf(other, "%s/../%s/./n1", dir, dir + 5);
    CHECK(staxi_path_resolve(other, &t) && text_is(&t, path) &&
          !staxi_path_resolve("/nonexistent", &t));
    CHECK(!staxi_dir_remove(dir));
    sprintf(other, "%s/n2", dir);
    CHECK(staxi_file_remove(path) && staxi_file_remove(other));
    CHECK(staxi_lock_take("/nonexistent/lock") == -1);
#ifdef STAXI_POSIX
    {
        pid_t child = fork();
        int status = 1;
        if (child == 0) {
            increment_file(path, 500);
            _exit(harness.bad_checks ? 1 : 0);
        }
        increment_file(path, 500);
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        CHECK(staxi_file_read(path, &t) && text_is(&t, "1000"));
    }
#endif
    (void)increment_file;
    (void)staxi_dl_symbol;
    t.n = 0;
    lib = staxi_dl_open("/nonexistent.so", &t);
    CHECK(!lib && t.n > 0);
    staxi_dl_close(lib);
#if defined(STAXI_POSIX)
    staxi_putf(&command,
               "cd %s && echo 'int answer(void) { return 42; }' > a.c && ${CC:-cc} -shared -fPIC "
               "-o a.so a.c",
               dir);
    CHECK(run(command.data, &t) == 0);
    sprintf(path, "%s/a.so", dir);
    lib = staxi_dl_open(path, &t);
    CHECK(lib);
    if (lib) {
        int (*answer)(void);
        void *symbol = staxi_dl_symbol(lib, "answer");
        memcpy(&answer, &symbol, sizeof answer);
        CHECK(answer() == 42 && !staxi_dl_symbol(lib, "question"));
        staxi_dl_close(lib);
    }
#endif
    sprintf(other, "rm -r %s", dir);
    CHECK(system(other) == 0);
    staxi_text_free(&t);
    staxi_text_free(&command);
}

#ifdef STAXI_POSIX
/* A host that ignores SIGCHLD loses exit statuses; commands must not. */
static void test_commands_without_sigchld(void) {
    signal(SIGCHLD, SIG_IGN);
    test_commands();
    signal(SIGCHLD, SIG_DFL);
}
#endif
#endif

/* The last one. */
static void test_nothing_is_live(void) { CHECK_INT(live_bytes, 0); }

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    RUN_NAMED("alloc", test_alloc);
    RUN_NAMED("arena", test_arena);
    RUN_NAMED("text", test_text);
    RUN_NAMED("failures", test_failures);
    RUN_NAMED("integers", test_integers);
    RUN_NAMED("float_cases", test_float_cases);
    RUN_NAMED("hash_and_map", test_hash_and_map);
    RUN_NAMED("sha", test_sha);
    RUN_NAMED("fpenv", test_fpenv);
    RUN_NAMED("isa", test_isa);
    RUN_NAMED("threads", test_threads);
    RUN_NAMED("files", test_files);
#ifdef STAXI_JIT
    RUN_NAMED("cache_folder", test_cache_folder);
    RUN_NAMED("commands", test_commands);
#ifdef STAXI_POSIX
    RUN_NAMED("commands_without_sigchld", test_commands_without_sigchld);
    RUN(commands_without_streams);
#endif
#endif
    RUN_NAMED("random_floats", test_random_floats);
    RUN_NAMED("long_decimals", test_long_decimals);
    RUN_NAMED("nothing_is_live", test_nothing_is_live);
    return HARNESS_END();
}
