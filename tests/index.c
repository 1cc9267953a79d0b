/* Index expressions: the rules of simplification, ranges, proofs, text; random expressions against
   direct evaluation; the printed C against a C compiler. */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAX_STATIC
#define STAX_IMPLEMENTATION
#include "../stax.h"

#include "harness.h"
#include "heap.h"

static heap requests;
static stax_allocator counted; /* by `requests` */

static uint64_t seed = 1;

static int64_t pick(int64_t lo, int64_t hi) { /* uniform in [lo, hi] */
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return lo + (int64_t)((seed >> 33) % (uint64_t)(hi - lo + 1));
}

static void name_leaf(void *user, staxi_ix_kind kind, uint32_t id, staxi_text *t) {
    (void)user;
    staxi_putf(t, "%s%d", kind == STAXI_IX_VAR ? "i" : kind == STAXI_IX_SYM ? "n" : "v", (int)id);
}

static bool text_is(staxi_ix_pool *p, staxi_ix ix, int style, const char *want) {
    staxi_text t;
    bool same;
    staxi_text_init(&t, p->a);
    staxi_ix_print(p, ix, &t, name_leaf, NULL, style);
    same = t.data != NULL && strcmp(t.data, want) == 0;
    if (!same) printf("  got \"%s\", want \"%s\"\n", t.data ? t.data : "", want);
    staxi_text_free(&t);
    return same;
}

static bool range_is(staxi_ix_pool *p, staxi_ix ix, int64_t lo, int64_t hi) {
    staxi_ix_interval r = staxi_ix_range(p, ix);
    if (r.lo != lo || r.hi != hi) printf("  got [%lld, %lld]\n", (long long)r.lo, (long long)r.hi);
    return r.lo == lo && r.hi == hi;
}

static staxi_ix var_below(staxi_ix_pool *p, uint32_t id, int64_t extent) {
    staxi_ix v = staxi_ix_var(p, id);
    staxi_ix_set_range(p, v, staxi_ix_between(0, extent - 1));
    return v;
}

#define K(v) staxi_ix_const(p, v)
#define ADD(a, b) staxi_ix_add(p, a, b)
#define SUB(a, b) staxi_ix_sub(p, a, b)
#define MUL(a, b) staxi_ix_mul(p, a, b)
#define DIV(a, b) staxi_ix_floordiv(p, a, b)
#define MOD(a, b) staxi_ix_mod(p, a, b)
#define MIN(a, b) staxi_ix_min(p, a, b)
#define MAX(a, b) staxi_ix_max(p, a, b)
#define LT(a, b) staxi_ix_lt(p, a, b)
#define LE(a, b) staxi_ix_le(p, a, b)
#define EQ(a, b) staxi_ix_eq(p, a, b)
#define AND(a, b) staxi_ix_and(p, a, b)
#define OR(a, b) staxi_ix_or(p, a, b)
#define NOT(a) staxi_ix_not(p, a)

/* ---- The exercises ---- */

static void test_exercises(void) {
    const stax_allocator *a = &counted;
    staxi_ix_pool pool, *p = &pool;
    staxi_ix i, j, k, n, e, f, two[2], from[2], to[2];
    staxi_ix_pool_init(p, a);
    /* 11 (1): x.t() of (4, 6):(6, 1) is (6, 4):(1, 6), which no stride covers; x is flat. */
    i = var_below(p, 0, 6);
    j = var_below(p, 1, 4);
    CHECK(!staxi_ix_mergeable(p, i, j, K(4), ADD(i, MUL(j, K(6)))));
    CHECK(staxi_ix_mergeable(p, j, i, K(6), ADD(MUL(j, K(6)), i)));
    /* x.t().reshape(24)[t] = x[t mod 4][t div 4], kept as index arithmetic */
    k = var_below(p, 2, 24);
    CHECK(text_is(p, ADD(MUL(MOD(k, K(4)), K(6)), DIV(k, K(4))), 0, "i2 // 4 + (i2 % 4)*6"));
    /* 11 (2): slice then transpose = transpose then slice, for any strides */
    from[0] = i;
    from[1] = j;
    e = ADD(MUL(i, staxi_ix_sym(p, 0)), MUL(j, staxi_ix_sym(p, 1)));
    to[0] = ADD(MUL(i, K(2)), K(1)); /* slice of the first axis, start 1, step 2 */
    to[1] = j;
    two[0] = j; /* transpose: swap */
    two[1] = i;
    f = staxi_ix_substitute(p, staxi_ix_substitute(p, e, from, to, 2), from, two, 2);
    to[0] = i;
    to[1] = ADD(MUL(j, K(2)), K(1));
    CHECK(f == staxi_ix_substitute(p, staxi_ix_substitute(p, e, from, two, 2), from, to, 2) &&
          f != 0);
    /* 12: extents (4, 8, 16) */
    i = var_below(p, 10, 4);
    j = var_below(p, 11, 8);
    k = var_below(p, 12, 16);
    e = ADD(ADD(MUL(i, K(128)), MUL(j, K(16))), k);
    CHECK(staxi_ix_mergeable(p, i, j, K(8), e) && staxi_ix_mergeable(p, j, k, K(16), e));
    f = ADD(ADD(i, MUL(j, K(4))), MUL(k, K(32)));
    CHECK(!staxi_ix_mergeable(p, i, j, K(8), f) && !staxi_ix_mergeable(p, j, k, K(16), f));
    {
        /* No order of the loops lets both accesses merge anything. */
        staxi_ix v[3];
        int64_t extent[3] = {4, 8, 16};
        v[0] = i, v[1] = j, v[2] = k;
        for (int x = 0; x < 3; x++) {
            for (int y = 0; y < 3; y++) {
                if (x == y) continue;
                CHECK(!(staxi_ix_mergeable(p, v[x], v[y], K(extent[y]), e) &&
                        staxi_ix_mergeable(p, v[x], v[y], K(extent[y]), f)));
            }
        }
        CHECK(staxi_ix_mergeable(p, k, j, K(8), f) && staxi_ix_mergeable(p, j, i, K(4), f));
    }
    CHECK(staxi_ix_mergeable(p, i, j, K(8), k)); /* neither occurs */
    /* 13 (1): the first needs no bounds check against 128, the second does */
    i = var_below(p, 20, 512);
    e = MOD(ADD(MUL(i, K(3)), K(5)), K(128));
    f = SUB(DIV(i, K(4)), K(1));
    CHECK(range_is(p, e, 0, 127) && range_is(p, f, -1, 126));
    CHECK(AND(LE(K(0), e), LT(e, K(128))) == K(1));
    CHECK(text_is(p, AND(LE(K(0), f), LT(f, K(128))), 0, "i20 >= 4"));
    /* 13 (2): (i mod 2)*((i + 1) mod 2)*200 is always 0: the interval is sound, but wider. */
    e = MUL(MUL(MOD(i, K(2)), MOD(ADD(i, K(1)), K(2))), K(200));
    CHECK(range_is(p, e, 0, 200));
    /* 29: rows of 128, n <= 2^24: the largest index is 2^31 - 1 */
    n = staxi_ix_sym(p, 30);
    staxi_ix_set_range(p, n, staxi_ix_between(1, 1 << 24));
    i = staxi_ix_var(p, 31);
    staxi_ix_set_limit(p, i, n);
    j = var_below(p, 32, 128);
    e = ADD(MUL(i, K(128)), j);
    CHECK(range_is(p, e, 0, INT32_MAX) && staxi_ix_fits_i32(p, e));
    n = staxi_ix_sym(p, 33);
    staxi_ix_set_range(p, n, staxi_ix_between(1, (1 << 24) + 1));
    i = staxi_ix_var(p, 34);
    staxi_ix_set_limit(p, i, n);
    CHECK(!staxi_ix_fits_i32(p, ADD(MUL(i, K(128)), j)));
    i = staxi_ix_var(p, 35); /* no declared bound */
    staxi_ix_set_limit(p, i, staxi_ix_sym(p, 36));
    CHECK(!staxi_ix_fits_i32(p, ADD(MUL(i, K(128)), j)));
    staxi_ix_pool_free(p);
}

/* ---- Simplification, one fact a line ---- */

static void test_rules(void) {
    const stax_allocator *a = &counted;
    staxi_ix_pool pool, *p = &pool;
    staxi_ix n, m, i, j, k, x, y, q, b;
    staxi_ix_pool_init(p, a);
    n = staxi_ix_sym(p, 0);
    m = staxi_ix_sym(p, 1);
    i = staxi_ix_var(p, 0);
    j = staxi_ix_var(p, 1);
    CHECK(staxi_ix_set_limit(p, i, n) && staxi_ix_set_limit(p, j, m));
    x = staxi_ix_value(p, 0);
    y = staxi_ix_value(p, 1);
    k = var_below(p, 2, 32);
    /* polynomials */
    CHECK(MUL(ADD(x, y), ADD(x, y)) == ADD(ADD(MUL(x, x), MUL(MUL(K(2), x), y)), MUL(y, y)));
    CHECK(SUB(x, x) == K(0) && MUL(x, K(0)) == K(0) && ADD(x, K(0)) == x && MUL(K(1), x) == x);
    CHECK(MUL(ADD(i, j), K(4)) == ADD(MUL(j, K(4)), MUL(K(4), i)));
    /* division by numbers */
    CHECK(DIV(ADD(MUL(x, K(8)), k), K(8)) == ADD(x, DIV(k, K(8))));
    CHECK(DIV(ADD(MUL(x, K(32)), k), K(32)) == x && MOD(ADD(MUL(x, K(32)), k), K(32)) == k);
    CHECK(DIV(ADD(MUL(x, K(32)), k), K(64)) == DIV(x, K(2)));
    CHECK(MOD(ADD(MUL(x, K(32)), k), K(64)) == ADD(MUL(MOD(x, K(2)), K(32)), k));
    CHECK(DIV(DIV(x, K(4)), K(3)) == DIV(x, K(12)));
    CHECK(DIV(ADD(DIV(x, K(4)), K(5)), K(3)) == DIV(ADD(x, K(20)), K(12)));
    CHECK(MOD(MOD(x, K(12)), K(4)) == MOD(x, K(4)) && MOD(MUL(x, K(12)), K(4)) == K(0));
    CHECK(MOD(ADD(MOD(x, K(12)), y), K(4)) == MOD(ADD(x, y), K(4)));
    CHECK(DIV(MOD(x, K(12)), K(4)) == MOD(DIV(x, K(4)), K(3)));
    CHECK(DIV(x, K(0)) == K(0) && MOD(x, K(0)) == K(0) && DIV(x, K(1)) == x &&
          MOD(x, K(1)) == K(0));
    CHECK(DIV(x, K(-4)) == DIV(SUB(K(0), x), K(4)) && DIV(K(-7), K(2)) == K(-4));
    CHECK(MOD(K(-7), K(2)) == K(1) && MOD(K(7), K(-2)) == K(-1) && DIV(K(7), K(-2)) == K(-4));
    CHECK(DIV(MUL(x, K(6)), K(4)) == DIV(MUL(x, K(3)), K(2)));
    CHECK(MOD(ADD(MUL(x, K(6)), K(1)), K(4)) == ADD(MUL(MOD(x, K(2)), K(2)), K(1)));
    /* x = n*(x div n) + x mod n, in both directions, in any order, with factors */
    q = DIV(x, K(7));
    CHECK(ADD(MUL(q, K(7)), MOD(x, K(7))) == x && SUB(x, MUL(q, K(7))) == MOD(x, K(7)));
    CHECK(ADD(ADD(MOD(x, K(7)), MUL(q, K(3))), MUL(q, K(4))) == x);
    CHECK(ADD(MUL(MUL(q, K(7)), y), MUL(MOD(x, K(7)), y)) == MUL(x, y));
    CHECK(ADD(ADD(MOD(x, K(7)), MUL(q, K(7))), MUL(q, K(7))) ==
          ADD(MOD(x, K(7)), ADD(MUL(q, K(7)), MUL(q, K(7)))));
    b = ADD(MUL(x, K(3)), K(5));
    CHECK(ADD(MUL(DIV(b, K(128)), K(128)), MOD(b, K(128))) == b);
    /* symbols under limits */
    CHECK(MOD(i, n) == i && DIV(i, n) == K(0));
    CHECK(DIV(ADD(i, MUL(n, j)), n) == j && MOD(ADD(i, MUL(n, j)), n) == i);
    CHECK(DIV(SUB(SUB(n, K(1)), i), n) == K(0)); /* flipped */
    CHECK(DIV(ADD(MUL(n, j), SUB(SUB(n, K(1)), i)), n) == j);
    CHECK(LT(ADD(i, MUL(n, j)), MUL(n, m)) == K(1));
    CHECK(LE(K(0), SUB(SUB(n, i), K(1))) == K(1) && LT(i, n) == K(1) && LE(n, i) == K(0));
    CHECK(MIN(i, SUB(n, K(1))) == i && MAX(i, n) == n && MIN(n, n) == n);
    {
        staxi_ix w = ADD(n, K(2)), u = staxi_ix_var(p, 8); /* a padded axis: u < n + 2 */
        staxi_ix_set_limit(p, u, w);
        CHECK(DIV(ADD(MUL(j, w), u), w) == j && MOD(ADD(MUL(j, w), u), w) == u);
    }
    CHECK(DIV(ADD(MUL(MUL(n, j), K(1)), i), MUL(n, m)) == K(0));
    {
        staxi_ix r = staxi_ix_sym(p, 9), d; /* r >= 1 */
        staxi_ix_set_range(p, r, staxi_ix_between(1, INT64_MAX / 4));
        d = DIV(x, r);
        CHECK(ADD(MUL(d, r), MOD(x, r)) == x && SUB(x, MUL(d, r)) == MOD(x, r));
        CHECK(DIV(MUL(x, r), r) == x && MOD(MUL(x, r), r) == K(0));
        CHECK(DIV(ADD(MUL(x, r), y), r) == ADD(x, DIV(y, r)));
        CHECK(DIV(DIV(x, r), K(4)) == DIV(x, MUL(r, K(4))));
        CHECK(DIV(MUL(x, n), n) != x); /* n may be 0 */
    }
    /* tails: ceil(n / 4) tiles of min(4, n - 4*t) */
    {
        staxi_ix t = staxi_ix_var(p, 5), u = staxi_ix_var(p, 6), v = staxi_ix_var(p, 7);
        staxi_ix_set_limit(p, t, DIV(ADD(n, K(3)), K(4)));
        staxi_ix_set_limit(p, u, MIN(K(4), SUB(n, MUL(t, K(4)))));
        CHECK(LT(ADD(MUL(t, K(4)), u), n) == K(1));
        CHECK(LE(SUB(n, MUL(t, K(4))), K(0)) == K(0));
        staxi_ix_set_limit(p, v, DIV(n, K(4)));
        CHECK(LE(ADD(MUL(v, K(4)), K(4)), n) == K(1));
        CHECK(LT(ADD(MUL(t, K(4)), var_below(p, 4, 4)), n) != K(1));
    }
    /* predicates */
    CHECK(LT(x, y) == NOT(LE(y, x)) && NOT(NOT(LT(x, y))) == LT(x, y) &&
          LT(x, y) == LE(ADD(x, K(1)), y));
    CHECK(LT(DIV(x, K(4)), K(3)) == LT(x, K(12)) && LE(K(3), DIV(x, K(4))) == LE(K(12), x));
    CHECK(LT(MUL(x, K(4)), K(10)) == LE(x, K(2)) && EQ(MUL(x, K(4)), K(10)) == K(0));
    CHECK(EQ(x, y) == EQ(y, x) && EQ(x, x) == K(1) && LT(x, x) == K(0));
    CHECK(AND(LT(x, K(5)), LT(x, K(7))) == LT(x, K(5)) &&
          OR(LT(x, K(5)), LT(x, K(7))) == LT(x, K(7)));
    CHECK(AND(LT(x, y), LE(y, x)) == K(0) && OR(LT(x, y), LE(y, x)) == K(1));
    CHECK(AND(LT(x, K(5)), LT(K(7), x)) == K(0) && AND(EQ(x, y), NOT(EQ(x, y))) == K(0));
    CHECK(OR(NOT(EQ(x, K(1))), NOT(EQ(x, K(2)))) == K(1) && AND(EQ(x, K(1)), EQ(x, K(2))) == K(0));
    CHECK(AND(EQ(x, K(3)), LE(K(1), x)) == EQ(x, K(3)) && AND(LE(K(5), x), EQ(x, K(3))) == K(0));
    CHECK(OR(NOT(EQ(x, K(3))), LE(x, K(1))) == NOT(EQ(x, K(3))) &&
          OR(LE(x, K(3)), NOT(EQ(x, K(3)))) == K(1));
    CHECK(AND(K(3), LT(x, y)) == LT(x, y) && OR(K(0), LT(x, y)) == LT(x, y) &&
          AND(x, K(0)) == K(0));
    CHECK(NOT(AND(LT(x, y), EQ(x, K(3)))) == OR(NOT(EQ(x, K(3))), LE(y, x)));
    CHECK(EQ(LT(x, y), K(0)) == LE(y, x) && SUB(K(1), LT(x, y)) != 0 &&
          NOT(SUB(K(1), LT(x, y))) == LT(x, y));
    CHECK(MUL(LT(x, y), LT(x, y)) == LT(x, y));
    CHECK(MIN(MIN(x, y), n) == MIN(x, MIN(n, y)) && MIN(x, ADD(x, K(1))) == x &&
          MAX(x, MAX(y, x)) == MAX(x, y));
    /* a loop of one iteration */
    CHECK(ADD(MUL(var_below(p, 50, 1), K(7)), x) == x && DIV(var_below(p, 50, 1), n) == K(0));
    /* ranges once used may narrow, never widen */
    CHECK(!staxi_ix_set_range(p, k, staxi_ix_between(0, 100)) &&
          staxi_ix_set_range(p, k, staxi_ix_between(1, 30)));
    CHECK(!staxi_ix_set_range(p, ADD(x, y), staxi_ix_between(0, 1)));
    staxi_ix_pool_free(p);
}

static void test_queries(void) {
    const stax_allocator *a = &counted;
    staxi_ix_pool pool, other, *p = &pool;
    staxi_ix i, j, n, x, e, c, r, from[2], to[2];
    int64_t v;
    staxi_ix_pool_init(p, a);
    staxi_ix_pool_init(&other, a);
    i = staxi_ix_var(p, 0);
    j = staxi_ix_var(p, 1);
    n = staxi_ix_sym(p, 0);
    x = staxi_ix_value(p, 0);
    staxi_ix_set_limit(p, i, n);
    e = ADD(ADD(MUL(MUL(i, n), K(3)), MOD(ADD(j, n), K(4))), MUL(i, j));
    CHECK(staxi_ix_affine(p, e, i, &c, &r) && c == ADD(MUL(n, K(3)), j) &&
          r == MOD(ADD(j, n), K(4)));
    CHECK(!staxi_ix_affine(p, e, j, &c, &r) && !staxi_ix_affine(p, MUL(i, i), i, &c, &r));
    CHECK(staxi_ix_affine(p, n, i, &c, &r) && c == K(0) && r == n);
    CHECK(staxi_ix_affine(p, K(7), i, &c, &r) && c == K(0) && r == K(7));
    CHECK(staxi_ix_depends_on(p, e, i) && staxi_ix_depends_on(p, e, n) &&
          !staxi_ix_depends_on(p, e, x));
    CHECK(staxi_ix_has_vars(p, e) && !staxi_ix_has_vars(p, MUL(n, x)) &&
          staxi_ix_has_values(p, MUL(n, x)));
    CHECK(!staxi_ix_has_values(p, e) && staxi_ix_is_const(p, K(-3), &v) && v == -3 &&
          !staxi_ix_is_const(p, n, &v));
    CHECK(staxi_ix_op(p, e) == STAXI_IX_SUM && staxi_ix_arity(p, e) == 3);
    /* simultaneous */
    from[0] = i, from[1] = j;
    to[0] = j, to[1] = i;
    CHECK(staxi_ix_substitute(p, SUB(MUL(i, K(2)), j), from, to, 2) == SUB(MUL(j, K(2)), i));
    to[0] = ADD(MUL(j, K(4)), K(1)), to[1] = K(3);
    CHECK(staxi_ix_substitute(p, DIV(i, K(4)), from, to, 2) == j);
    CHECK(staxi_ix_substitute(p, 0, from, to, 2) == 0 &&
          staxi_ix_substitute(p, K(3), from, to, 2) == K(3));
    /* copies carry ranges and limits, and simplify as well there */
    c = staxi_ix_copy(&other, p, ADD(MUL(i, K(4)), MOD(i, ADD(n, j))));
    CHECK(c != 0);
    r = staxi_ix_var(&other, 0);
    CHECK(staxi_ix_lt(&other, r, staxi_ix_sym(&other, 0)) == staxi_ix_const(&other, 1));
    CHECK(staxi_ix_copy(&other, p, ADD(MUL(i, K(4)), MOD(i, ADD(n, j)))) == c &&
          staxi_ix_copy(&other, p, 0) == 0);
    CHECK(staxi_ix_copy(p, &other, c) == ADD(MUL(i, K(4)), MOD(i, ADD(n, j))));
    {
        staxi_ix u = staxi_ix_var(p, 60), w = staxi_ix_var(p, 61); /* limits in a circle end too */
        staxi_ix_set_limit(p, u, ADD(w, K(1)));
        staxi_ix_set_limit(p, w, ADD(u, K(1)));
        CHECK(staxi_ix_copy(&other, p, ADD(u, MUL(w, K(3)))) != 0 &&
              MOD(ADD(u, w), ADD(w, x)) != 0);
    }
    CHECK(p->overflow == false && p->no_memory == false);
    staxi_ix_pool_free(&other);
    staxi_ix_pool_free(p);
}

static bool leaf_seven(void *user, staxi_ix_kind kind, uint32_t id, int64_t *value) {
    (void)user;
    (void)kind;
    *value = 7 + (int64_t)id;
    return id != 99;
}

static void test_overflow(void) {
    const stax_allocator *a = &counted;
    staxi_ix_pool pool, *p = &pool;
    staxi_ix x, y, big, e;
    int64_t v;
    staxi_ix_pool_init(p, a);
    x = staxi_ix_value(p, 0);
    y = staxi_ix_value(p, 1);
    big = K(INT64_MAX);
    CHECK(ADD(big, K(1)) == 0 && p->overflow && !p->no_memory);
    p->overflow = false;
    CHECK(MUL(MUL(x, big), K(2)) == 0 && p->overflow);
    CHECK(ADD(0, x) == 0 && DIV(x, 0) == 0 && MIN(0, 0) == 0 && LT(0, x) == 0 && NOT(0) == 0 &&
          AND(x, 0) == 0);
    p->overflow = false;
    CHECK(K(INT64_MIN) != 0 && ADD(K(INT64_MIN), K(0)) == K(INT64_MIN) &&
          LE(K(INT64_MIN), K(INT64_MAX)) == K(1));
    CHECK(LT(K(INT64_MIN), x) != 0 || p->overflow);
    CHECK(LE(K(0), K(INT64_MIN)) == K(0) && DIV(K(INT64_MIN), K(2)) == K(INT64_MIN / 2));
    p->overflow = false;
    /* a proof or a rule that overflows is no failure */
    e = DIV(DIV(x, K(INT64_MAX / 2)), K(INT64_MAX / 2));
    CHECK(e != 0 && !p->overflow &&
          text_is(p, e, 0, "(v0 // 4611686018427387903) // 4611686018427387903"));
    CHECK(MOD(ADD(MUL(x, K(INT64_MAX)), y), K(INT64_MAX - 1)) != 0 && !p->overflow);
    CHECK(staxi_ix_eval(p, ADD(MUL(x, K(4)), K(2)), leaf_seven, NULL, &v) && v == 30);
    CHECK(!staxi_ix_eval(p, MUL(x, big), leaf_seven, NULL, &v));
    CHECK(!staxi_ix_eval(p, staxi_ix_value(p, 99), leaf_seven, NULL, &v));
    /* depth and size are bounded: (..((x min 1*y0) div 3 + y1) min ..) */
    e = x;
    for (uint32_t k = 0; k < 300 && e != 0; k++)
        e = MIN(DIV(ADD(e, staxi_ix_value(p, 2 + k)), K(3)), y);
    CHECK(e == 0 && p->overflow);
    p->overflow = false;
    e = x;
    for (int64_t k = 0; k < 60 && e != 0; k++)
        e = ADD(MUL(DIV(e, K(3)), K(5)), MOD(MUL(e, e), K(11 + k)));
    CHECK(e == 0 && p->overflow);
    p->overflow = false;
    e = K(1);
    for (uint32_t k = 0; k < 40 && e != 0; k++) e = MUL(e, ADD(K(1), staxi_ix_value(p, k)));
    CHECK(e == 0 && p->overflow);
    staxi_ix_pool_free(p);
}

static void test_text(void) {
    const stax_allocator *a = &counted;
    staxi_ix_pool pool, *p = &pool;
    staxi_ix i, j, n, x, y;
    staxi_ix_pool_init(p, a);
    n = staxi_ix_sym(p, 0);
    i = staxi_ix_var(p, 0);
    j = staxi_ix_var(p, 1);
    x = staxi_ix_value(p, 0);
    y = staxi_ix_value(p, 1);
    staxi_ix_set_limit(p, i, n);
    CHECK(text_is(p, ADD(MUL(n, K(4)), i), 0, "n0*4 + i0"));
    CHECK(text_is(p, SUB(SUB(n, i), K(1)), 0, "n0 - i0 - 1") && text_is(p, K(-5), 0, "-5"));
    CHECK(text_is(p, SUB(K(0), DIV(x, K(4))), 0, "-(v0 // 4)"));
    CHECK(text_is(p, MUL(K(-3), DIV(x, K(4))), 0, "-(v0 // 4)*3"));
    CHECK(
        text_is(p, SUB(MUL(MUL(n, i), j), DIV(ADD(i, K(3)), K(4))), 0, "n0*i0*i1 - (i0 + 3) // 4"));
    CHECK(text_is(p, MUL(MOD(ADD(i, j), K(4)), n), 0, "n0*((i0 + i1) % 4)"));
    CHECK(text_is(p, DIV(ADD(i, j), n), 0, "(i0 + i1) // n0"));
    CHECK(text_is(p, MIN(MIN(i, j), x), 0, "min(i0, i1, v0)") &&
          text_is(p, MAX(n, j), 0, "max(n0, i1)"));
    CHECK(text_is(p, LT(x, y), 0, "v0 < v1") && text_is(p, LE(x, y), 0, "v0 <= v1"));
    CHECK(text_is(p, LT(x, K(5)), 0, "v0 <= 4") && text_is(p, LE(K(3), x), 0, "v0 >= 3"));
    CHECK(text_is(p, EQ(x, ADD(y, K(2))), 0, "v0 == v1 + 2"));
    CHECK(text_is(p, NOT(EQ(x, K(2))), 0, "v0 != 2") && text_is(p, 0, 0, "?"));
    CHECK(
        text_is(p, AND(LT(x, y), OR(LT(y, j), EQ(x, j))), 0, "v0 < v1 and (v1 < i1 or i1 == v0)"));
    CHECK(text_is(p, DIV(ADD(i, j), K(4)), 1, "(i0 + i1) / 4") &&
          text_is(p, MOD(i, K(4)), 1, "i0 % 4"));
    CHECK(text_is(p, DIV(x, K(4)), 1, "sx_floordiv(v0, 4)") &&
          text_is(p, MOD(x, y), 1, "sx_floormod(v0, v1)"));
    CHECK(text_is(p, DIV(SUB(SUB(n, i), K(1)), K(4)), 1,
                  "(n0 - i0 + 3) / 4 - 1")); /* by i0's limit */
    CHECK(text_is(p, DIV(i, ADD(x, j)), 1, "sx_floordiv(i0, i1 + v0)"));
    CHECK(text_is(p, MIN(MIN(i, j), x), 1, "sx_imin(i0, sx_imin(i1, v0))"));
    CHECK(text_is(p, ADD(MUL(LT(x, y), K(4)), j), 1, "i1 + (v0 < v1 ? 1LL : 0LL)*4"));
    CHECK(text_is(p, K(INT64_MIN), 1, "(-9223372036854775807 - 1)"));
    CHECK(text_is(p, NOT(EQ(x, y)), 1, "v0 != v1") &&
          text_is(p, EQ(DIV(x, K(4)), y), 0, "v1 == v0 // 4"));
    staxi_ix_pool_free(p);
}

/* ---- Random expressions against direct evaluation ---- */

enum { LEAVES = 9, TREE = 24 };

typedef struct {
    int op; /* 0 leaf, 1 number, then + - * // % min max < <= == and or not */
    int a, b;
    int64_t value;
} tree_node;

typedef struct {
    tree_node at[TREE];
    int n;
} tree;

/* Leaves 0 1 2: n >= 0, m >= 1, h in [-3, 9]; 3 4 5: i < n, j < m, k < 6 or n*m; 6 7: any small
   value; 8: t < ceil(n/4) */
static int64_t leaf_value[LEAVES];

static bool leaf_lookup(void *user, staxi_ix_kind kind, uint32_t id, int64_t *value) {
    (void)user;
    (void)kind;
    *value = leaf_value[id];
    return true;
}

static bool flat_limit; /* k < n*m instead of k < 6 */

/* `empty`: n may be 0, as nothing under its limit is evaluated. */
static void draw_leaves(bool empty) {
    static const int64_t sizes[8] = {0, 1, 2, 3, 4, 7, 8, 12};
    do {
        leaf_value[0] = sizes[pick(0, 7)];
        leaf_value[1] = sizes[pick(1, 7)];
        leaf_value[2] = pick(-3, 9);
    } while (leaf_value[0] == 0 && !empty);
    leaf_value[3] = leaf_value[0] == 0 ? 0 : pick(0, leaf_value[0] - 1);
    leaf_value[4] = pick(0, leaf_value[1] - 1);
    leaf_value[5] =
        flat_limit && leaf_value[0] > 0 ? pick(0, leaf_value[0] * leaf_value[1] - 1) : pick(0, 5);
    leaf_value[6] = pick(-40, 40);
    leaf_value[7] = pick(-40, 40);
    leaf_value[8] = leaf_value[0] == 0 ? 0 : pick(0, (leaf_value[0] + 3) / 4 - 1);
}

static void make_leaves(staxi_ix_pool *p, staxi_ix leaf[LEAVES]) {
    for (uint32_t k = 0; k < LEAVES; k++) {
        leaf[k] = k < 3              ? staxi_ix_sym(p, k)
                  : k == 6 || k == 7 ? staxi_ix_value(p, k)
                                     : staxi_ix_var(p, k);
    }
    staxi_ix_set_range(p, leaf[0], staxi_ix_between(0, pick(0, 1) ? 12 : INT64_MAX / 4));
    staxi_ix_set_range(p, leaf[1], staxi_ix_between(1, 12));
    staxi_ix_set_range(p, leaf[2], staxi_ix_between(-3, 9));
    flat_limit = pick(0, 1);
    if (flat_limit) staxi_ix_set_limit(p, leaf[5], MUL(leaf[0], leaf[1]));
    if (!flat_limit) staxi_ix_set_range(p, leaf[5], staxi_ix_between(0, 5));
    if (pick(0, 1)) {
        staxi_ix_set_range(p, leaf[6], staxi_ix_between(-40, 40));
        staxi_ix_set_range(p, leaf[7], staxi_ix_between(-40, 40));
    }
    staxi_ix_set_limit(p, leaf[3], leaf[0]);
    staxi_ix_set_limit(p, leaf[4], leaf[1]);
    staxi_ix_set_limit(p, leaf[8], DIV(ADD(leaf[0], K(3)), K(4)));
}

/* Does it use no leaf whose limit is empty where n is 0? */
static bool may_be_empty(const tree *t) {
    for (int k = 0; k < t->n; k++) {
        int64_t l = t->at[k].op == 0 ? t->at[k].value : 0;
        if (l == 3 || l == 8 || (l == 5 && flat_limit)) return false;
    }
    return true;
}

static void draw_tree(tree *t) {
    static const int64_t numbers[16] = {0, 1, 1, 2, 2, 3, 4, 4, 5, 6, 8, 12, -1, -2, -4, 7};
    t->n = (int)pick(3, TREE);
    for (int k = 0; k < t->n; k++) {
        tree_node *node = &t->at[k];
        int kinds = (int)pick(0, 9);
        memset(node, 0, sizeof *node);
        if (k < 2 || kinds < 2) {
            node->op = pick(0, 2) == 0;
            node->value = node->op ? numbers[pick(0, 15)] : pick(0, LEAVES - 1);
        } else {
            static const int common[12] = {2, 2, 2, 3, 4, 4, 5, 5, 5, 6, 6, 6};
            node->op = kinds < 8 ? common[pick(0, 11)] : (int)pick(7, 14);
            node->a = k - 1 - (int)pick(0, k > 3 ? 3 : k - 1);
            node->b = k - 1 - (int)pick(0, k > 6 ? 6 : k - 1);
        }
    }
}

/* Directly, in the meaning that the interface gives; false on overflow. */
static bool value_of(const tree *t, int64_t *out) {
    int64_t v[TREE];
    for (int k = 0; k < t->n; k++) {
        const tree_node *node = &t->at[k];
        int64_t x = v[node->a], y = v[node->b], r = 0;
        if (node->op == 0) r = leaf_value[node->value];
        if (node->op == 1) r = node->value;
        if (node->op == 2 && !staxi_checked_add(x, y, &r)) return false;
        if (node->op == 3 && !staxi_checked_sub(x, y, &r)) return false;
        if (node->op == 4 && !staxi_checked_mul(x, y, &r)) return false;
        if (node->op == 5 && y != 0) r = x / y - (x % y != 0 && (x < 0) != (y < 0));
        if (node->op == 6 && y != 0) r = x - y * (x / y - (x % y != 0 && (x < 0) != (y < 0)));
        if (node->op == 7) r = x < y ? x : y;
        if (node->op == 8) r = x > y ? x : y;
        if (node->op == 9) r = x < y;
        if (node->op == 10) r = x <= y;
        if (node->op == 11) r = x == y;
        if (node->op == 12) r = x != 0 && y != 0;
        if (node->op == 13) r = x != 0 || y != 0;
        if (node->op == 14) r = x == 0;
        if (r > INT32_MAX || r < INT32_MIN) return false;
        v[k] = r;
    }
    *out = v[t->n - 1];
    return true;
}

static staxi_ix apply(staxi_ix_pool *p, int op, staxi_ix x, staxi_ix y) {
    switch (op) {
        case 2:
            return ADD(x, y);
        case 3:
            return SUB(x, y);
        case 4:
            return MUL(x, y);
        case 5:
            return DIV(x, y);
        case 6:
            return MOD(x, y);
        case 7:
            return MIN(x, y);
        case 8:
            return MAX(x, y);
        case 9:
            return LT(x, y);
        case 10:
            return LE(x, y);
        case 11:
            return EQ(x, y);
        case 12:
            return AND(x, y);
        case 13:
            return OR(x, y);
        default:
            return NOT(x);
    }
}

static staxi_ix build(staxi_ix_pool *p, const tree *t, const staxi_ix *leaf) {
    staxi_ix ix[TREE];
    for (int k = 0; k < t->n; k++) {
        const tree_node *node = &t->at[k];
        if (node->op == 0) {
            ix[k] = leaf[node->value];
        } else {
            ix[k] = node->op == 1 ? K(node->value) : apply(p, node->op, ix[node->a], ix[node->b]);
        }
    }
    return ix[t->n - 1];
}

static void test_random(void) {
    const stax_allocator *a = &counted;
    const int count = 40000;
    staxi_ix_pool pool, other, *p = &pool;
    staxi_ix leaf[LEAVES];
    tree t;
    long checked = 0, constants = 0, failed = 0;
    for (int k = 0; k < count; k++) {
        staxi_ix ix;
        staxi_ix_interval r;
        if (k % 50 == 0) {
            if (k > 0) staxi_ix_pool_free(p);
            if (k > 0) staxi_ix_pool_free(&other);
            staxi_ix_pool_init(p, a);
            staxi_ix_pool_init(&other, a);
            make_leaves(p, leaf);
        }
        draw_tree(&t);
        p->overflow = false;
        ix = build(p, &t, leaf);
        CHECK((ix == 0) == p->overflow || ix != 0);
        failed += ix == 0;
        if (ix == 0) continue;
        r = staxi_ix_range(p, ix);
        constants += staxi_ix_op(p, ix) == STAXI_IX_CONST;
        for (int s = 0; s < 8; s++) {
            int64_t want, got = 0;
            draw_leaves(may_be_empty(&t));
            if (!value_of(&t, &want)) continue;
            if (!staxi_ix_eval(p, ix, leaf_lookup, NULL, &got)) continue;
            checked++;
            if (got != want || want < r.lo || want > r.hi) {
                staxi_text text;
                staxi_text_init(&text, a);
                staxi_ix_print(p, ix, &text, name_leaf, NULL, 0);
                printf("tree %d: want %lld got %lld in [%lld, %lld]: %s\n", k, (long long)want,
                       (long long)got, (long long)r.lo, (long long)r.hi, text.data);
                staxi_text_free(&text);
                if (!CHECK(got == want && want >= r.lo && want <= r.hi)) return;
            }
            /* the copy, and substitution of every leaf by its value, agree */
            if (s < 2) {
                staxi_ix numbers[LEAVES], c;
                for (int l = 0; l < LEAVES; l++) numbers[l] = K(leaf_value[l]);
                c = staxi_ix_substitute(p, ix, leaf, numbers, LEAVES);
                CHECK(c == K(want) || c == 0);
                c = staxi_ix_copy(&other, p, ix);
                CHECK(c == 0 || (staxi_ix_eval(&other, c, leaf_lookup, NULL, &got) && got == want));
            }
        }
    }
    staxi_ix_pool_free(p);
    staxi_ix_pool_free(&other);
    printf("random: %d expressions, %ld values, %ld constant, %ld overflowed\n", count, checked,
           constants, failed);
    CHECK(checked > count && failed < count / 10);
}

/* Sums of products of atoms, written in random orders and groupings, are one handle. */
static void test_normal_form(void) {
    const stax_allocator *a = &counted;
    const int count = 3000;
    staxi_ix_pool pool, *p = &pool;
    staxi_ix_pool_init(p, a);
    for (int round = 0; round < count; round++) {
        staxi_ix atom[6], sum[2] = {0, 0};
        int64_t c[8];
        int x[8], y[8], order[8], n = (int)pick(2, 8);
        for (uint32_t k = 0; k < 6; k++) atom[k] = staxi_ix_value(p, k);
        atom[4] = MIN(atom[0], DIV(atom[1], K(3)));
        atom[5] = MOD(ADD(atom[2], atom[3]), K(5));
        for (int k = 0; k < n; k++) {
            c[k] = pick(-9, 9);
            x[k] = (int)pick(0, 5);
            y[k] = (int)pick(0, 5);
            order[k] = k;
        }
        for (int side = 0; side < 2; side++) {
            staxi_ix part[8];
            int left = n;
            for (int k = n - 1; k > 0; k--) {
                int o = (int)pick(0, k), swap = order[k];
                order[k] = order[o];
                order[o] = swap;
            }
            for (int k = 0; k < n; k++) {
                int o = order[k];
                part[k] = pick(0, 1) ? MUL(MUL(K(c[o]), atom[x[o]]), atom[y[o]])
                                     : MUL(atom[y[o]], MUL(atom[x[o]], K(c[o])));
                if (pick(0, 3) == 0) part[k] = SUB(ADD(part[k], atom[5]), atom[5]);
            }
            while (left > 1) { /* add two of them, anywhere */
                int o = (int)pick(0, left - 2);
                part[o] = pick(0, 1) ? ADD(part[o], part[left - 1])
                                     : SUB(part[left - 1], MUL(K(-1), part[o]));
                left--;
            }
            sum[side] = part[0];
        }
        CHECK(sum[0] == sum[1] && sum[0] != 0);
        CHECK(MUL(sum[0], ADD(atom[0], atom[4])) ==
              ADD(MUL(atom[4], sum[1]), MUL(sum[1], atom[0])));
    }
    CHECK(!p->overflow);
    staxi_ix_pool_free(p);
}

/* Texts do not depend on the order in which a pool saw things. */
static void test_same_text(void) {
    const stax_allocator *a = &counted;
    const int count = 2000;
    for (int round = 0; round < count; round++) {
        staxi_ix_pool pool[2];
        staxi_text text[2];
        staxi_ix leaf[LEAVES], part[2];
        tree t[2];
        uint64_t leaves_seed = seed;
        draw_tree(&t[0]);
        draw_tree(&t[1]);
        for (int side = 0; side < 2; side++) {
            staxi_ix_pool *p = &pool[side];
            uint64_t seed_after = seed;
            staxi_ix_pool_init(p, a);
            if (side == 1) { /* other handles for the leaves, and some rubbish between */
                for (uint32_t k = 7; k > 2; k--) ADD(staxi_ix_var(p, k), staxi_ix_value(p, k));
            }
            seed = leaves_seed;
            make_leaves(p, leaf);
            seed = seed_after;
            part[side] = build(p, &t[side], leaf);
            part[1 - side] = build(p, &t[1 - side], leaf);
            part[0] = ADD(MUL(part[0], K(3)), part[1]);
            staxi_text_init(&text[side], a);
            staxi_ix_print(p, part[0], &text[side], name_leaf, NULL, round % 2);
        }
        CHECK(text[0].data && text[1].data && strcmp(text[0].data, text[1].data) == 0);
        for (int side = 0; side < 2; side++) {
            staxi_text_free(&text[side]);
            staxi_ix_pool_free(&pool[side]);
        }
    }
}

/* ---- Memory ---- */

static staxi_ix everything(staxi_ix_pool *p, staxi_ix_pool *other) {
    staxi_ix leaf[LEAVES], ix = K(0), c, r;
    staxi_text text;
    make_leaves(p, leaf);
    for (int k = 0; k < 12; k++) {
        tree t;
        draw_tree(&t);
        ix = MAX(build(p, &t, leaf), ADD(leaf[6], K(k)));
    }
    ix = ADD(MUL(leaf[3], leaf[4]), MIN(DIV(leaf[7], K(3)), MOD(leaf[6], leaf[1])));
    staxi_ix_affine(p, ix, leaf[3], &c, &r);
    staxi_ix_depends_on(p, ix, leaf[7]);
    staxi_ix_fits_i32(p, ix);
    staxi_text_init(&text, p->a);
    staxi_ix_print(p, ix, &text, name_leaf, NULL, 1);
    staxi_text_free(&text);
    ix = staxi_ix_substitute(p, ix, &leaf[7], &leaf[5], 1);
    return staxi_ix_copy(other, p, ix);
}

static void test_memory(void) {
    heap h;
    stax_allocator a = heap_allocator(&h);
    uint64_t seed_before = seed;
    int64_t total = 0;
    memset(&h, 0, sizeof h);
    for (int64_t n = 0; n <= total; n++) { /* first without a failure, to count */
        staxi_ix_pool p, other;
        staxi_ix ix;
        seed = 77;
        h.calls = 0;
        h.fail_at = n;
        staxi_ix_pool_init(&p, &a);
        staxi_ix_pool_init(&other, &a);
        ix = everything(&p, &other);
        if (n == 0) total = h.calls;
        CHECK(n == 0 ? ix != 0 && total > 20 : ix != 0 || p.no_memory || other.no_memory);
        staxi_ix_pool_free(&p);
        staxi_ix_pool_free(&other);
        CHECK(h.blocks == 0 && h.wrong == 0);
    }
    printf("memory: %d requests failed one by one\n", (int)total);
    seed = seed_before;
}

/* ---- C text for the compiler ---- */

/* A C program that computes `count` random expressions as printed, and compares. */
static void write_c(const stax_allocator *a, const char *path, int count) {
    staxi_ix_pool pool, *p = &pool;
    staxi_ix leaf[LEAVES];
    staxi_text text;
    FILE *f = fopen(path, "w");
    if (!CHECK(f != NULL)) return;
    staxi_ix_pool_init(p, a);
    make_leaves(p, leaf);
    staxi_text_init(&text, a);
    staxi_put(&text,
              "#include <stdint.h>\n#include <stdio.h>\n"
              "static int64_t sx_floordiv(int64_t a, int64_t b) {\n"
              "    return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));\n}\n"
              "static int64_t sx_floormod(int64_t a, int64_t b) { return b == 0 ? 0 : a - b * "
              "sx_floordiv(a, b); }\n"
              "static int64_t sx_imin(int64_t a, int64_t b) { return a < b ? a : b; }\n"
              "static int64_t sx_imax(int64_t a, int64_t b) { return a > b ? a : b; }\n"
              "static int bad, all;\n"
              "static void check(int64_t got, int64_t want) { all++; if (got != want) bad++; }\n"
              "int main(void) {\n    int64_t n0, n1, n2, i3, i4, i5, v6, v7, i8;\n"
              "    (void)sx_floordiv; (void)sx_floormod; (void)sx_imin; (void)sx_imax;\n");
    for (int k = 0; k < count; k++) {
        tree t;
        int64_t want, got;
        staxi_ix ix;
        draw_tree(&t);
        draw_leaves(may_be_empty(&t));
        ix = build(p, &t, leaf);
        if (ix == 0 || !value_of(&t, &want) || !staxi_ix_eval(p, ix, leaf_lookup, NULL, &got))
            continue;
        if (staxi_ix_op(p, ix) == STAXI_IX_CONST) continue;
        staxi_put(&text, "    n0 = ");
        for (int l = 0; l < LEAVES; l++) {
            static const char *const next[LEAVES] = {
                "; n1 = ", "; n2 = ", "; i3 = ", "; i4 = ", "; i5 = ",
                "; v6 = ", "; v7 = ", "; i8 = ", ";\n"};
            staxi_putf(&text, "%D%s", leaf_value[l], next[l]);
        }
        staxi_put(&text,
                  "    (void)n0; (void)n1; (void)n2; (void)i3; (void)i4; (void)i5; (void)v6; "
                  "(void)v7; (void)i8;\n    check(");
        staxi_ix_print(p, ix, &text, name_leaf, NULL, 1);
        staxi_putf(&text, ", %D);\n", want);
    }
    staxi_put(&text,
              "    printf(\"%d expressions, %d wrong\\n\", all, bad);\n    return bad != 0;\n}\n");
    CHECK(!text.failed);
    if (!text.failed) fputs(text.data, f);
    fclose(f);
    staxi_text_free(&text);
    staxi_ix_pool_free(p);
}

/* The C semantics of the printed text, asked of the compiler that builds the tests. */
static void test_printed_c(void) {
    const char *folder = getenv("BUILD"), *cc = getenv("CC");
    staxi_text path, command, output;
    int status = -1;
    staxi_text_init(&path, NULL);
    staxi_text_init(&command, NULL);
    staxi_text_init(&output, NULL);
    staxi_putf(&path, "%s/index_printed.c", folder ? folder : ".");
    write_c(&counted, path.data, 1000);
    staxi_putf(&command, "%s -w -o %s.exe %s && ./%s.exe", cc ? cc : "cc", path.data, path.data,
               path.data);
    if (!staxi_command(command.data, &output, &status) || status == 127) {
        SKIP("there is no C compiler");
    } else if (!CHECK_INT(status, 0)) {
        printf("%s\n%s\n", command.data, output.data ? output.data : "");
    } else {
        CHECK_HAS(output.data, " expressions, 0 wrong");
    }
    staxi_text_free(&path);
    staxi_text_free(&command);
    staxi_text_free(&output);
}

/* The last one. */
static void test_nothing_is_live(void) { CHECK(requests.blocks == 0 && requests.wrong == 0); }

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    counted = heap_allocator(&requests);
    RUN_NAMED("exercises", test_exercises);
    RUN_NAMED("rules", test_rules);
    RUN_NAMED("queries", test_queries);
    RUN_NAMED("overflow", test_overflow);
    RUN_NAMED("text", test_text);
    RUN_NAMED("random", test_random);
    RUN_NAMED("normal_form", test_normal_form);
    RUN_NAMED("same_text", test_same_text);
    RUN_NAMED("memory", test_memory);
    RUN_NAMED("printed_c", test_printed_c);
    RUN_NAMED("nothing_is_live", test_nothing_is_live);
    return HARNESS_END();
}
