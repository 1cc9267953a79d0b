/* Rewriting: every rule against the interpreter on special and random values, bit for bit;
   identities that are refused, with the values that refute them; the measure, counters, trace,
   rules of one's own; value numbering; views; errors and names that must survive; deep chains;
   time. */
#if !defined(_WIN32)
#define _GNU_SOURCE
#include <sys/mman.h>
#endif
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STAX_STATIC
#define STAX_IMPLEMENTATION
#include "../stax.h"

#include "feed.h"
#include "graphs.h"
#include "harness.h"
#include "programs.h"

/* Random values for each rule and dtype; tests/long/rewrite.sh takes 100000. */
#ifndef RULE_SAMPLES
#define RULE_SAMPLES 2000
#endif

/* ---- helpers ------------------------------------------------------------------------------------
 */

static stax_graph *rewritten(const stax_graph *g) {
    stax_graph *r = g ? stax_rewrite(g, NULL) : NULL;
    if (!CHECK(r != NULL)) printf("%s\n", stax_error(ctx));
    return r;
}

/* How often rule "set.rule" fired; with "" all but those that only order operands. */
static int64_t fired(const stax_graph *g, const char *name) {
    stax_rule_figures f;
    int64_t n = 0;
    char full[100];
    for (int k = 0; stax_graph_rule(g, k, &f); k++) {
        snprintf(full, sizeof full, "%s.%s", f.set, f.rule);
        if (strcmp(full, name) == 0 || (!*name && strcmp(f.set, "canonical") != 0)) n += f.fired;
    }
    return n;
}

static int count_ops(const stax_graph *g, const char *op) {
    int n = 0;
    for (size_t k = 1; k < g->n_nodes; k++)
        n += !op || strcmp(staxi_op_name((stax_op)g->nodes[k].op), op) == 0;
    return n;
}

/* Both graphs on the same contents; the same status, and after success the same memory. */
static int same_results(const stax_graph *a, const stax_graph *b, uint64_t seed) {
    static feed fa, fb;
    int ok = 0;
    if (CHECK(feed_make(&fa, a, 5, seed) && feed_make(&fb, b, 5, seed))) {
        stax_status sa = stax_interpret(a, fa.all, fa.outputs);
        stax_status sb = stax_interpret(b, fb.all, fb.outputs);
        ok = CHECK_INT(sb, sa) && (sa != STAX_OK || CHECK(feed_equal(&fa, &fb)));
    }
    feed_free(&fa);
    feed_free(&fb);
    return ok;
}

/* The text after rewriting, checked to give the same results; free with stax_free. */
static char *after(const char *text) {
    stax_graph *g = parsed(text), *r = rewritten(g);
    char *t = r && same_results(g, r, 3) ? stax_print(r) : NULL;
    stax_graph_free(r);
    stax_graph_free(g);
    return t;
}

#define CHECK_AFTER(text, part)                        \
    do {                                               \
        char *after_text = after(text);                \
        CHECK_HAS(after_text ? after_text : "", part); \
        stax_free(ctx, after_text);                    \
    } while (0)

static int lacks(const char *text, const char *part) {
    char *t = after(text);
    int ok = t && !strstr(t, part);
    if (!ok) printf("has \"%s\":\n%s\n", part, t ? t : "(null)");
    stax_free(ctx, t);
    return ok;
}

/* ---- every rule, row by row ---------------------------------------------------------------------
 */

static const stax_dtype rule_dtypes[] = {STAX_F64, STAX_F32, STAX_F16, STAX_BF16, STAX_I64,
                                         STAX_I32, STAX_I16, STAX_I8,  STAX_U64,  STAX_U32,
                                         STAX_U16, STAX_U8,  STAX_BOOL};
enum { N_RULE_DTYPES = sizeof rule_dtypes / sizeof rule_dtypes[0], N_RANDOM = RULE_SAMPLES };

static const double special_floats[] = {
    0.0,      -0.0,    1.0,   -1.0,   0.5,       -0.5,       1.5,       2.5,       -2.5,
    3.0,      7.0,     -7.0,  1e-3,   123456.75, 16777217.0, 65504.0,   3.3895e38, FLT_MAX,
    -FLT_MAX, FLT_MIN, 1e-40, -1e-40, 1.4e-45,   INFINITY,   -INFINITY, NAN};
enum { N_SPECIAL = 32 };

/* Special value k of a dtype as bits; the last ones are NaNs with payloads, and extremes. */
static uint64_t special(stax_dtype dtype, int k) {
    static const uint64_t nans64[] = {0x7ff8000000000001u, 0xfff8000000000000u,
                                      0x7ff0000000000001u, 0x0000000000000001u,
                                      0x7fefffffffffffffu, 0x0010000000000000u};
    static const uint64_t nans32[] = {0x7fc00001u, 0xffc00000u, 0x7f800001u,
                                      0x00000001u, 0x7f7fffffu, 0x00800000u};
    static const uint64_t nans16[] = {0x7e01u, 0xfe00u, 0x7c01u, 0x0001u, 0x7bffu, 0x0400u};
    static const uint64_t nansb16[] = {0x7fc1u, 0xffc0u, 0x7f81u, 0x0001u, 0x7f7fu, 0x0080u};
    int n = (int)(sizeof special_floats / sizeof special_floats[0]),
        bits = (int)staxi_dtype_bytes(dtype) * 8;
    uint64_t out = 0;
    if (staxi_is_float(dtype)) {
        if (k >= n) {
            k = (k - n) % 6;
            return dtype == STAX_F64   ? nans64[k]
                   : dtype == STAX_F32 ? nans32[k]
                   : dtype == STAX_F16 ? nans16[k]
                                       : nansb16[k];
        }
        staxi_attr a = staxi_attr_float(special_floats[k]);
        staxi_literal l = staxi_literal_of(&a);
        staxi_literal_store(&l, dtype, &out);
        return staxi_load_bits(&out, (size_t)bits / 8);
    }
    if (dtype == STAX_BOOL) return (uint64_t)k & 1;
    if (k < 16) return (uint64_t)(int64_t)(k - 5);
    return k % 3 == 0   ? (uint64_t)1 << (bits - 1)
           : k % 3 == 1 ? ((uint64_t)1 << (bits - 1)) - 1
                        : (uint64_t)1 << (k % bits);
}

/* All tuples of special values first (name j of n), then random bits, a fifth of them near zero. */
static void fill(void *data, stax_dtype dtype, size_t n, int j, int names) {
    size_t bytes = staxi_dtype_bytes(dtype), tuples = 1, stride = 1;
    dice d;
    d.state = (uint64_t)j * 7919 + (uint64_t)dtype;
    for (int k = 0; k < names; k++) tuples *= N_SPECIAL;
    for (int k = 0; k < j; k++) stride *= N_SPECIAL;
    for (size_t k = 0; k < n; k++) {
        uint64_t u = dice_next(&d);
        if (k < tuples)
            u = special(dtype, (int)(k / stride % N_SPECIAL));
        else if (dtype == STAX_BOOL)
            u &= 1;
        else if (dice_chance(&d, 20) && !staxi_is_float(dtype))
            u = (uint64_t)dice_between(&d, -9, 9);
        staxi_store_bits((char *)data + k * bytes, bytes, u);
    }
}

typedef struct writer {
    char text[4000];
    size_t n;
    int temporaries, names;
    char seen[8][40];
    const char *constant; /* what #names are */
    stax_dtype outer, inner;
} writer;

static void put(writer *w, const char *s) {
    w->n += (size_t)snprintf(w->text + w->n, sizeof w->text - w->n, "%s", s);
}

/* Statements for a pattern; `out` is the operand that stands for it. Casts go to `outer` when they
   are the outermost op, else to `inner`. */
static const char *write_pattern(writer *w, const char *s, char *out, int outermost) {
    char op[40], args[3][48];
    int n = 0;
    while (*s == ' ') s++;
    int inside = *s == '(';
    if (!inside && !outermost) {
        size_t length = strcspn(s, " )");
        snprintf(out, 48, "%.*s", (int)length, s);
        s += length;
        if (*out == '#') {
            snprintf(out, 48, "%s", w->constant);
        } else if (staxi_is_name(out, strlen(out))) {
            int k = 0;
            while (k < w->names && strcmp(w->seen[k], out) != 0) k++;
            if (k == w->names) snprintf(w->seen[w->names++], sizeof w->seen[0], "%s", out);
        }
        return s;
    }
    s += inside;
    snprintf(op, sizeof op, "%.*s", (int)strcspn(s, " "), s);
    s += strcspn(s, " ");
    while (*s && *s != ')') {
        s = write_pattern(w, s, args[n++], 0);
        while (*s == ' ') s++;
    }
    snprintf(out, 48, "t%d", w->temporaries++);
    char line[300];
    int at = snprintf(line, sizeof line, "  %s = %s ", out, op);
    for (int k = 0; k < n; k++)
        at += snprintf(line + at, sizeof line - (size_t)at, "%s%s", k ? ", " : "", args[k]);
    if (strcmp(op, "cast") == 0)
        snprintf(line + at, sizeof line - (size_t)at, " {dtype=%s}",
                 staxi_dtype_name(outermost ? w->outer : w->inner));
    put(w, line);
    put(w, "\n");
    return s + inside;
}

/* The graph of a pattern on inputs of a dtype (c: bool) with n elements; NULL: no such graph. */
static stax_graph *pattern_graph(const stax_rule *row, stax_dtype dtype, stax_dtype outer,
                                 stax_dtype inner, const char *constant, size_t n, int *names) {
    static writer body, w;
    char result[48];
    memset(&body, 0, sizeof body);
    memset(&w, 0, sizeof w);
    body.constant = constant;
    body.outer = outer;
    body.inner = inner;
    write_pattern(&body, row->pattern, result, 1);
    put(&w, "graph g(");
    for (int k = 0; k < body.names; k++) {
        char line[100];
        bool condition = strstr(row->pattern, "where") && strcmp(body.seen[k], "c") == 0;
        snprintf(line, sizeof line, "%s%s: %s[%zu]", k ? ", " : "", body.seen[k],
                 staxi_dtype_name(condition ? STAX_BOOL : dtype), n);
        put(&w, line);
    }
    put(&w, ") {\n");
    put(&w, body.text);
    put(&w, "  return ");
    put(&w, result);
    put(&w, "\n}\n");
    *names = body.names;
    return stax_parse(ctx, "pattern.stax", w.text);
}

/* The rule alone on one pattern: does it fire, and are the bits the same? */
static int try_rule(const stax_rule *row, stax_dtype dtype, stax_dtype outer, stax_dtype inner,
                    const char *constant, int whole_basis) {
    static const size_t sizes[4] = {1, N_SPECIAL + N_RANDOM, N_SPECIAL * N_SPECIAL + N_RANDOM,
                                    N_SPECIAL * N_SPECIAL * N_SPECIAL + N_RANDOM};
    stax_rule_set set;
    stax_rewrite_options o;
    int names = 0, did = 0;
    stax_graph *small = pattern_graph(row, dtype, outer, inner, constant, 3, &names), *g = NULL,
               *r = NULL, *basis = NULL;
    if (!small || names > 3) {
        stax_graph_free(small);
        return 0;
    }
    memset(&set, 0, sizeof set);
    memset(&o, 0, sizeof o);
    set.name = "one";
    set.rules = row;
    set.n_rules = 1;
    o.sets = &set;
    o.n_sets = 1;
    o.no_builtin = true;
    /* on the graph as built, and in basis ops */
    if (whole_basis) basis = staxi_decompose(small, NULL);
    r = stax_rewrite(whole_basis ? basis : small, &o);
    if (!CHECK(r != NULL))
        printf("%s on %s: %s\n", row->name, staxi_dtype_name(dtype), stax_error(ctx));
    char counter[80];
    snprintf(counter, sizeof counter, "one.%s", row->name);
    if (r && fired(r, counter) > 0) did = 1;
    stax_graph_free(r);
    stax_graph_free(small);
    stax_graph_free(basis);
    r = basis = NULL;
    if (!did) return 0;
    size_t n = sizes[names];
    g = pattern_graph(row, dtype, outer, inner, constant, n, &names);
    if (CHECK(g != NULL)) {
        if (whole_basis) basis = staxi_decompose(g, NULL);
        r = stax_rewrite(whole_basis ? basis : g, &o);
    }
    if (r) {
        static char *room;
        size_t part = n * 8;
        if (!room) room = (char *)malloc(5 * (sizes[3] * 8));
        stax_tensor in[3], out;
        stax_output_info info;
        stax_graph_output(g, 0, &info);
        for (int k = 0; k < names; k++) {
            stax_input_info i;
            stax_graph_input(g, k, &i);
            in[k] = stax_tensor_of(i.dtype, stax_shape1((int64_t)n), room + (size_t)k * part);
            fill(in[k].data, i.dtype, n, k, names);
        }
        size_t bytes = staxi_dtype_bytes(info.dtype);
        char *want = room + 3 * part, *got = room + 4 * part;
        out = stax_tensor_of(info.dtype, info.shape, want);
        CHECK_INT(stax_interpret(g, in, &out), STAX_OK);
        out.data = got;
        CHECK_INT(stax_interpret(r, in, &out), STAX_OK);
        for (size_t k = 0; k < n; k++) {
            if (memcmp(want + k * bytes, got + k * bytes, bytes) == 0) continue;
            CHECK(!"the same bits");
            printf("%s on %s (%s, %s): element %zu: x = %llx: expected %llx, found %llx\n",
                   row->name, staxi_dtype_name(dtype), staxi_dtype_name(outer),
                   staxi_dtype_name(inner), k,
                   (unsigned long long)staxi_load_bits(
                       (char *)in[0].data + k * staxi_dtype_bytes(in[0].dtype),
                       staxi_dtype_bytes(in[0].dtype)),
                   (unsigned long long)staxi_load_bits(want + k * bytes, bytes),
                   (unsigned long long)staxi_load_bits(got + k * bytes, bytes));
            break;
        }
    }
    stax_graph_free(r);
    stax_graph_free(basis);
    stax_graph_free(g);
    return did;
}

static int is_elementwise_row(const stax_rule *row) {
    return strcmp(row->pattern, "*") != 0 && strncmp(row->pattern, "reshape", 7) &&
           strncmp(row->pattern, "permute", 7) && strncmp(row->pattern, "expand", 6) &&
           strncmp(row->pattern, "slice", 5) && strncmp(row->pattern, "unfold", 6) &&
           strncmp(row->pattern, "pad", 3) && strncmp(row->pattern, "sum ", 4) &&
           strncmp(row->pattern, "prod ", 5) && strncmp(row->pattern, "max ", 4) &&
           strncmp(row->pattern, "min ", 4);
}

static void test_every_rule(void) {
    static const char *const constants[] = {
        "2",    "3",          "-5",    "8",        "64",      "0.5",     "-0.25",   "6.0",
        "true", "16777216.0", "1e-30", "0x1p-126", "0x1p126", "0x1p-14", "0x1p127", "-4.0"};
    int rows = 0, firings = 0;
    for (size_t s = 0; s < sizeof staxi_rule_sets / sizeof staxi_rule_sets[0]; s++) {
        for (int k = 0; k < staxi_rule_sets[s].n_rules; k++) {
            const stax_rule *row = &staxi_rule_sets[s].rules[k];
            int did = 0;
            bool casts = strstr(row->pattern, "cast") != NULL,
                 outer_casts = strncmp(row->pattern, "cast", 4) == 0;
            bool constant = strchr(row->pattern, '#') != NULL;
            if (!is_elementwise_row(row) || row->when == staxi_when_no_signed_zeros) continue;
            if (row->when == staxi_when_out_of_order) continue; /* see test_order */
            for (int a = 0; a < N_RULE_DTYPES; a++)
                for (int b = 0; b < (casts ? N_RULE_DTYPES : 1); b++)
                    for (int c = 0;
                         c < (constant ? (int)(sizeof constants / sizeof constants[0]) : 1); c++)
                        for (int d = 0;
                             d < (strcmp(row->name, "cast_cast") == 0 ? N_RULE_DTYPES : 1); d++) {
                            stax_dtype outer = strcmp(row->name, "cast_cast") == 0 ? rule_dtypes[d]
                                               : outer_casts                       ? rule_dtypes[a]
                                                                                   : rule_dtypes[b];
                            if (casts && !outer_casts && rule_dtypes[a] == rule_dtypes[b]) continue;
                            for (int basis = 0; basis < 2; basis++)
                                did += try_rule(row, rule_dtypes[a], outer, rule_dtypes[b],
                                                constants[c], basis);
                        }
            if (!CHECK(did > 0)) printf("%s.%s never fired\n", staxi_rule_sets[s].name, row->name);
            rows++;
            firings += did;
        }
    }
    printf(
        "%d rules, %d of their patterns and dtypes fire, each on special values and %d random "
        "ones\n",
        rows, firings, N_RANDOM);
}

/* Operands are ordered, for the sake of value numbering: a + b and b + a are one value. */
static void test_order(void) {
    static const char *const ops[] = {"add", "mul",         "maximum",    "minimum",    "eq",
                                      "ne",  "logical_and", "logical_or", "logical_xor"};
    char text[300];
    for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++) {
        snprintf(
            text, sizeof text,
            "graph g(a: f32[6], b: f32[6]) {\n  x = %s a, b\n  y = %s b, a\n  return x, y\n}\n",
            ops[k], ops[k]);
        stax_graph *g = parsed(text), *r = rewritten(g);
        if (r) CHECK_INT(count_ops(r, ops[k]), 1);
        if (r) same_results(g, r, 9);
        stax_graph_free(r);
        stax_graph_free(g);
    }
    CHECK_AFTER(
        "graph g(a: i32[4], b: i32[4]) {\n  x = bitwise_or a, b; y = bitwise_or b, a; z = "
        "bitwise_xor x, y\n  return z\n}\n",
        "const i32[] {0}");
    CHECK_AFTER(
        "graph g(a: i32[4], b: i32[4]) {\n  x = bitwise_xor a, b; y = bitwise_xor b, a; z = sub x, "
        "y; u = bitwise_and a, b; v = bitwise_and b, a; w = sub u, v; q = add z, w\n  return "
        "q\n}\n",
        "const i32[] {0}");
    CHECK_AFTER("graph g(a: f32[4]) {\n  x = lt 1.5, a\n  return x\n}\n", "x: bool[4] = gt a, 1.5");
    CHECK_AFTER("graph g(a: f32[4]) {\n  x = ge 1.5, a\n  return x\n}\n", "x: bool[4] = le a, 1.5");
    CHECK_AFTER(
        "graph g(a: f32[4]) {\n  x = le 1.5, a; y = gt 2.5, a; z = logical_and x, y\n  return "
        "z\n}\n",
        "ge a, 1.5");
    CHECK_AFTER(
        "graph g(a: f32[4], b: f32[4]) {\n  x = fma a, b, 2.0; y = fma b, a, 2.0\n  z = sub x, y; "
        "return z, x, y\n}\n",
        "y = cast x");
}

/* ---- identities that are refused
 * ------------------------------------------------------------------ */

/* On x (and a, b) the two sides differ, and rewriting leaves the left side what it was. */
static void refused(const char *what, const char *left, const char *right, float a, float b,
                    float c) {
    char text[400];
    float values[3], out[2];
    stax_tensor in[3], o[2];
    values[0] = a;
    values[1] = b;
    values[2] = c;
    snprintf(text, sizeof text,
             "graph g(x: f32[1], y: f32[1], z: f32[1]) {\n  %s\n  %s\n  return left, right\n}\n",
             left, right);
    for (int k = 0; k < 3; k++) in[k] = stax_tensor_of(STAX_F32, stax_shape1(1), &values[k]);
    for (int k = 0; k < 2; k++) o[k] = stax_tensor_of(STAX_F32, stax_shape1(1), &out[k]);
    stax_graph *g = parsed(text), *r = rewritten(g);
    if (r && CHECK_INT(stax_interpret(g, in, o), STAX_OK)) {
        uint32_t want = staxi_bits32(out[0]);
        if (!CHECK(want != staxi_bits32(out[1])))
            printf("%s: both sides are %g\n", what, (double)out[1]);
        CHECK_INT(stax_interpret(r, in, o), STAX_OK);
        if (!CHECK(want == staxi_bits32(out[0])))
            printf("%s was rewritten: %g\n", what, (double)out[0]);
    }
    stax_graph_free(r);
    stax_graph_free(g);
}

static void test_refused(void) {
    /* exercise 5: (2), (4), (5), (7); (1), (3), (6) are exact and in the table */
    refused("x + 0 => x", "left = add x, 0.0", "right = cast x {dtype=f32}", -0.0f, 0, 0);
    refused("x * 0 => 0, NaN", "left = mul x, 0.0", "right = const f32[1] {0.0}", NAN, 0, 0);
    refused("x * 0 => 0, infinity", "left = mul x, 0.0", "right = const f32[1] {0.0}", INFINITY, 0,
            0);
    refused("x * 0 => 0, negative", "left = mul x, 0.0", "right = const f32[1] {0.0}", -1, 0, 0);
    refused("x - x => 0", "left = sub x, x", "right = const f32[1] {0.0}", INFINITY, 0, 0);
    refused("x / 3 => x * (1/3)", "left = div x, 3.0", "t = div 1.0, 3.0; right = mul x, t", 5, 0,
            0);
    refused("x - (-0) => x", "left = sub x, -0.0", "right = cast x {dtype=f32}", -0.0f, 0, 0);
    refused("0 - x => -x", "left = sub 0.0, x", "right = neg x", 0, 0, 0);
    refused("(x + y) + z => x + (y + z)", "t = add x, y; left = add t, z",
            "u = add y, z; right = add x, u", 1e8f, -1e8f, 1.5f);
    refused("(x + 1e8) - 1e8 => x + 0", "t = add x, 1e8; left = add t, -1e8", "right = add x, 0.0",
            3, 0, 0);
    refused("(x * 3) * (1/3) => x", "t = mul x, 3.0; left = mul t, 0.333333343",
            "right = cast x {dtype=f32}", 3e38f, 0, 0);
    refused("x*y + x*z => x*(y + z)", "t = mul x, y; u = mul x, z; left = add t, u",
            "v = add y, z; right = mul x, v", 3e38f, 2, -2);
    refused("-(x - y) => y - x", "t = sub x, y; left = neg t", "right = sub y, x", 1, 1, 0);
    refused("x / x => 1", "left = div x, x", "right = const f32[1] {1.0}", 0, 0, 0);
    refused("x*y + 0 => x*y", "left = fma x, y, 0.0", "right = mul x, y", -1, 0, 0);
    refused("fma => mul, add", "left = fma x, y, z", "t = mul x, y; right = add t, z", 1.00024414f,
            1.00024414f, -1.0f);
    refused("sqrt(x*x) => |x|", "t = square x; left = sqrt t", "right = abs x", 1e30f, 0, 0);
    refused("log(exp x) => x", "t = exp x; left = log t", "right = cast x {dtype=f32}", 100, 0, 0);
    refused("x / 2^-127 by its inverse", "left = div x, 0x1p-127",
            "t = const f32[1] {inf}; right = mul x, t", 0.5f, 0, 0);
    refused("f32 => f16 => f32", "t = cast x {dtype=f16}; left = cast t {dtype=f32}",
            "right = cast x {dtype=f32}", 0.1f, 0, 0);
    refused("not(x < y) => x >= y", "t = lt x, y; n = logical_not t; left = cast n {dtype=f32}",
            "u = ge x, y; right = cast u {dtype=f32}", NAN, 1, 0);
    refused("x == x => true", "t = eq x, x; left = cast t {dtype=f32}",
            "right = const f32[1] {1.0}", NAN, 0, 0);
    refused("maximum(x, 0) => x > 0 ? x : 0", "left = maximum x, 0.0",
            "t = gt x, 0.0; right = where t, x, 0.0", NAN, 0, 0);
    /* integers that pass through floats saturate where they would wrap */
    CHECK_AFTER(
        "graph g(x: i32[3]) {\n  t = cast x {dtype=f64}; y = cast t {dtype=i8}\n  return y\n}\n",
        "cast t");
    CHECK_AFTER(
        "graph g(x: f32[3]) {\n  t = cast x {dtype=i32}; y = cast t {dtype=i8}\n  return y\n}\n",
        "cast t");
    CHECK_AFTER("graph g(x: f32[3]) {\n  y = pow x, 2.0\n  return y\n}\n", "pow x, 2.0");
    CHECK_AFTER("graph g(x: i32[3]) {\n  y = floor_divide x, -2147483648\n  return y\n}\n",
                "floor_divide");
    CHECK_AFTER("graph g(x: i32[3]) {\n  y = remainder x, 0\n  return y\n}\n", "remainder");
}

static void test_signed_zeros(void) {
    CHECK_AFTER(
        "graph g(x: f32[3]) {signed_zeros=false} {\n  t = exp x; y = add t, 0.0; z = sub y, -0.0\n "
        " return z\n}\n",
        "{\n  z: f32[3] = exp x\n");
    CHECK_AFTER("graph g(x: f32[3]) {\n  t = exp x; y = add t, 0.0\n  return y\n}\n",
                "y: f32[3] = add t, 0.0");
    CHECK_AFTER("graph g(x: f32[3]) {signed_zeros=false} {\n  y = mul x, 0.0\n  return y\n}\n",
                "mul x, 0.0");
}

/* The shape and the dtype must be the same. */
static void test_types(void) {
    CHECK_AFTER("graph g(x: f32[1]) {\n  c = const f32[3] {1, 1, 1}; y = mul x, c\n  return y\n}\n",
                "mul x, c");
    CHECK_AFTER("graph g(x: i32[3]) {\n  y = div x, 1\n  return y\n}\n", "div x, 1");
    CHECK_AFTER("graph g(x: f32[3]) {\n  c = const f64[] {1.0}; y = mul x, c\n  return y\n}\n",
                "mul x, c");
    CHECK_AFTER("graph g(x: f32[1], c: bool[3]) {\n  y = where c, x, x\n  return y\n}\n",
                "where c, x, x");
    CHECK_AFTER("graph g(x: f32[3], i: i32[3]) {\n  t = neg i; y = add x, t\n  return y\n}\n",
                "neg i");
}

/* ---- the measure
 * ----------------------------------------------------------------------------------- */

static stax_graph *with_rules(const char *text, const stax_rule *rules, int n,
                              const char *weights) {
    stax_rule_set set;
    stax_rewrite_options o;
    memset(&set, 0, sizeof set);
    memset(&o, 0, sizeof o);
    set.name = "mine";
    set.rules = rules;
    set.n_rules = n;
    set.weights = weights;
    o.sets = &set;
    o.n_sets = 1;
    stax_graph *g = parsed(text), *r = g ? stax_rewrite(g, &o) : NULL;
    if (r) same_results(g, r, 4);
    stax_graph_free(g);
    return r;
}

static void wrong_rule(const char *pattern, const char *replacement, const char *weights,
                       const char *message) {
    stax_rule rule;
    memset(&rule, 0, sizeof rule);
    rule.name = "rule";
    rule.pattern = pattern;
    rule.replacement = replacement;
    stax_graph *r =
        with_rules("graph g(x: f32[3], y: f32[3]) {\n  z = add x, y\n  w = relu z\n  return w\n}\n",
                   &rule, 1, weights);
    CHECK(r == NULL);
    CHECK_HAS(stax_error(ctx), message);
    stax_graph_free(r);
}

static void test_measure(void) {
    /* exercise 6: a rule set that does not end, and what it breaks */
    wrong_rule("add a b", "add b a", NULL,
               "the rule does not lower the weight of what it replaces");
    CHECK_HAS(stax_error(ctx), "t.stax:2:7: mine.rule: %4 = add y, x => %5 = add x, y: f32[3]");
    wrong_rule("relu x", "neg (neg (relu x))", NULL, "could fire for ever");
    wrong_rule("relu x", "maximum x x", NULL, "could fire for ever"); /* x twice weighs more */
    stax_rule rules[2];
    memset(rules, 0, sizeof rules);
    rules[0].name = "there";
    rules[0].pattern = "relu x";
    rules[0].replacement = "abs x";
    rules[1].name = "back";
    rules[1].pattern = "abs x";
    rules[1].replacement = "relu x";
    stax_graph *g = parsed("graph g(x: f32[3]) {\n  y = relu x\n  return y\n}\n");
    stax_rule_set set;
    stax_rewrite_options o;
    memset(&set, 0, sizeof set);
    memset(&o, 0, sizeof o);
    set.name = "ring";
    set.rules = rules;
    set.n_rules = 2;
    o.sets = &set;
    o.n_sets = 1;
    CHECK(stax_rewrite(g, &o) == NULL);
    CHECK_HAS(stax_error(ctx), "ring.back: ");
    CHECK_INT(stax_error_status(ctx), STAX_E_ARGUMENT);
    stax_graph_free(g);
    /* an operand twice is fine under a weight that says so */
    rules[0].name = "expand";
    rules[0].pattern = "silu x";
    rules[0].replacement = "mul x (sigmoid x)";
    set.n_rules = 1;
    g = parsed("graph g(x: f32[3]) {\n  y = softplus x\n  return y\n}\n");
    stax_graph *r = stax_rewrite(g, &o);
    CHECK(r != NULL);
    stax_graph_free(r);
    stax_graph_free(g);
}

static void test_wrong_rules(void) {
    wrong_rule("frob a", "a", NULL, "mine.rule: the pattern must begin with an op, found frob");
    wrong_rule("add a (frob b)", "a", NULL, "unknown op: frob");
    wrong_rule("add a", "a", NULL, "wrong number of operands: add");
    wrong_rule("add a b", "c", NULL, "the pattern has no operand of this name: c");
    wrong_rule("add a b", "add a b) c", NULL, "expected the end, found ) c");
    wrong_rule("add a (neg b", "a", NULL, "expected ) after neg");
    wrong_rule("add a 1x", "a", NULL, "expected an op, a name or a number, found 1x");
    wrong_rule("add a b", NULL, NULL, "expected a replacement or a build function");
    wrong_rule("add a b", "", NULL, "found the end");
    wrong_rule(NULL, "a", NULL, "found nothing");
    wrong_rule("add a b", "a", "add", "expected op=weight or op=weight*factor, found add");
    wrong_rule("add a b", "a", "add=3*0", "found add=3*0");
    static char deep[200000];
    strcpy(deep, "relu ");
    for (int k = 5; k + 6 < (int)sizeof deep; k += 5) memcpy(deep + k, "(abs ", 6);
    wrong_rule(deep, "a", NULL, "the rule is too long");
    wrong_rule("relu x", "bitwise_not x", NULL, "bitwise_not");
}

/* ---- counters, trace, rules of one's own
 * ------------------------------------------------------------ */

static char lines[4000];
static void keep_line(void *user, const char *line) {
    (void)user;
    strncat(lines, line, sizeof lines - strlen(lines) - 2);
    strcat(lines, "\n");
}

static void test_counters_and_trace(void) {
    stax_rewrite_options o;
    stax_rule_figures f;
    memset(&o, 0, sizeof o);
    o.trace.func = keep_line;
    lines[0] = 0;
    stax_graph *g = parsed(
        "graph g(x: f32[4]) {\n  a = neg x\n  b = neg a\n  c = neg x\n  d = mul b, c\n  e = mul 1, "
        "d\n  return e\n}\n");
    stax_graph *r = stax_rewrite(g, &o);
    if (CHECK(r != NULL)) {
        CHECK_INT(fired(r, "algebra.neg_neg"), 1);
        CHECK_INT(fired(r, "algebra.mul_one"), 1);
        CHECK_INT(fired(r, "common.merge"), 1); /* neg x */
        CHECK_INT(fired(r, "canonical.mul_order"), 1);
        CHECK_INT(fired(r, "canonical.quiet_of_quiet"), 1);
        CHECK_INT(fired(r, "algebra.abs_abs"), 0);
        CHECK(stax_graph_n_rules(r) > 100);
        CHECK(!stax_graph_rule(r, stax_graph_n_rules(r), &f) && f.set == NULL);
        CHECK(!stax_graph_rule(r, -1, &f));
        CHECK_HAS(lines, "rewrite: t.stax:3:7: algebra.neg_neg: b = neg a => %");
        CHECK_HAS(lines, " = quiet x: f32[4]\n");
        CHECK_HAS(lines, "t.stax:6:7: algebra.mul_one: ");
    }
    CHECK_INT(stax_graph_n_rules(g), 0);
    stax_graph_free(r);
#if !defined(_WIN32)
    /* the same by the environment, to the log */
    stax_options options = stax_options_default();
    options.log.func = keep_line;
    stax_context *logged = stax_open(&options);
    stax_graph *h = stax_parse(logged, "u.stax",
                               "graph g(x: f32[4]) {\n  a = abs x\n  b = abs a\n  return b\n}\n");
    lines[0] = 0;
    stax_graph_free(stax_rewrite(h, NULL));
    CHECK_TEXT(lines, "");
    setenv("STAX_DEBUG", "rewrite", 1);
    stax_graph_free(stax_rewrite(h, NULL));
    unsetenv("STAX_DEBUG");
    CHECK_TEXT(lines, "rewrite: u.stax:3:7: algebra.abs_abs: b = abs a => %4 = abs x: f32[4]\n");
    stax_graph_free(h);
    stax_close(logged);
#endif
    stax_graph_free(g);
}

/* x * x * x * x as (x * x) * (x * x) of integers: a condition, a build function, queries. */
static bool is_third_power(const stax_match *m) {
    return strcmp(stax_value_op(stax_matched(m, NULL)), "mul") == 0 &&
           stax_value_dtype(stax_matched(m, "x")) == STAX_I32 && stax_matched(m, "nothing").id == 0;
}
static stax_value square_of_square(const stax_match *m) {
    stax_value x = stax_matched(m, "x");
    return stax_square(stax_square(x));
}
static stax_value build_nothing(const stax_match *m) {
    (void)m;
    return stax_none();
}
static bool is_even(const stax_match *m) {
    double c;
    stax_value v = stax_matched(m, "#c");
    return stax_value_number(v, &c) && fmod(c, 2) == 0 &&
           stax_value_shape(stax_matched(m, "x")).rank == 1;
}

static void test_own_rules(void) {
    stax_rule rules[4];
    memset(rules, 0, sizeof rules);
    rules[0].name = "nothing";
    rules[0].pattern = "mul a b";
    rules[0].build = build_nothing;
    rules[1].name = "fourth_power";
    rules[1].pattern = "mul (mul (mul x x) x) x";
    rules[1].when = is_third_power;
    rules[1].build = square_of_square;
    rules[2].name =
        "double_relu"; /* relu(2 c x) = 2 c relu(x) for integers small enough: here for a test */
    rules[2].pattern = "maximum (maximum x #c) #c";
    rules[2].replacement = "maximum x #c";
    rules[2].when = is_even;
    stax_graph *r = with_rules(
        "graph g(x: i32[5]) {\n  a = mul x, x\n  b = mul a, x\n  c = mul b, x\n  d = maximum c, 4; "
        "e = maximum d, 4; f = maximum e, 3; h = maximum f, 3\n  return h\n}\n",
        rules, 3, "mul=6*2 square=1");
    if (CHECK(r != NULL)) {
        CHECK_INT(fired(r, "mine.fourth_power"), 1);
        CHECK_INT(fired(r, "mine.double_relu"), 1);
        CHECK_INT(fired(r, "mine.nothing"), 0);
        CHECK_INT(count_ops(r, "square"), 2);
        CHECK_INT(count_ops(r, "mul"), 0);
    }
    stax_graph_free(r);
    CHECK(stax_rewrite(NULL, NULL) == NULL);
    CHECK_TEXT(stax_value_op(stax_none()), "none");
    CHECK_INT(stax_value_dtype(stax_none()), STAX_DTYPE_NONE);
    stax_graph *g = stax_graph_new(ctx), *region;
    stax_value c = stax_const(g, 2.5);
    double x = 0;
    CHECK(stax_value_number(c, &x) && x == 2.5);
    CHECK(stax_value_number(stax_expand(stax_cast(c, STAX_BF16), stax_shape2(2, 3)), &x) ==
          false); /* cast is no number */
    CHECK(!stax_value_number(stax_input(g, "x", STAX_F32, stax_shape1(3)), &x));
    region = stax_region(g, "then");
    CHECK(stax_rewrite(region, NULL) == NULL);
    CHECK_HAS(stax_error(ctx), "found a region");
    stax_graph_free(g);
    g = stax_graph_new(ctx);
    stax_add(stax_input(g, "x", STAX_F32, stax_shape1(3)),
             stax_input(g, "y", STAX_F32, stax_shape1(2)));
    CHECK(stax_rewrite(g, NULL) == NULL && stax_rewritten(g) == NULL);
    CHECK_HAS(stax_error(ctx), "add");
    stax_graph_free(g);
}

/* ---- value numbering
 * --------------------------------------------------------------------------------- */

static int merges(const char *text) {
    stax_graph *g = parsed(text), *r = rewritten(g);
    int n = r && same_results(g, r, 5) ? (int)fired(r, "common.merge") : -1;
    stax_graph_free(r);
    stax_graph_free(g);
    return n;
}

static void test_common(void) {
    CHECK_INT(merges("graph g(x: f32[4]) {\n  a = exp x; b = exp x; c = add a, b\n  return c\n}\n"),
              1);
    CHECK_INT(
        merges(
            "graph g(x: f32[4]) {\n  a = softmax x; b = softmax x; c = add a, b\n  return c\n}\n"),
        1);
    CHECK_INT(merges("graph g(x: f32[4]) {\n  a = softmax x; b = log_softmax x; c = add a, b\n  "
                     "return c\n}\n"),
              0);
    /* attributes and orders count */
    CHECK_INT(merges("graph g(x: f32[4,4]) {\n  a = sum x {axes=[0]}; b = sum x {axes=[1]}; c = "
                     "sub a, b\n  return c\n}\n"),
              0);
    CHECK_INT(merges("graph g(x: f32[4,4]) {\n  a = sum x {axes=[0,1], order=\"[0] [1]\"}; b = sum "
                     "x {axes=[0,1]}; c = sub a, b\n  return c\n}\n"),
              0);
    CHECK_INT(merges("graph g(x: f32[4,4]) {\n  a = sum x {axes=[0,1], order=\"[0] [1]\"}; b = sum "
                     "x {axes=[0,1], order=\"[0] [1]\"}; c = mul a, b\n  return c\n}\n"),
              1);
    CHECK_INT(merges("graph g(x: f32[4]) {\n  a = cast x {dtype=i32}; b = cast x {dtype=i16}; c = "
                     "mul a, b\n  return c\n}\n"),
              0);
    /* random ops: the same key gives the same numbers, other keys others */
    CHECK_INT(merges("graph g(k: u64[], l: u64[]) {\n  a = uniform k {shape=[4]}; b = uniform l "
                     "{shape=[4]}; c = sub a, b\n  return c\n}\n"),
              0);
    CHECK_INT(merges("graph g(k: u64[]) {\n  a = uniform k {shape=[4]}; b = uniform k {shape=[4]}; "
                     "c = div a, b\n  return c\n}\n"),
              1);
    CHECK_INT(merges("graph g(k: u64[]) {\n  a = uniform k {shape=[4]}; b = normal k {shape=[4]}; "
                     "c = div a, b\n  return c\n}\n"),
              0);
    CHECK_INT(merges("graph g() {\n  a = uniform 1 {shape=[4]}; b = uniform 2 {shape=[4]}; c = sub "
                     "a, b\n  return c\n}\n"),
              0);
    /* constants by their bits */
    CHECK_INT(merges("graph g(x: f32[2]) {\n  a = const f32[2] {0.0, 1.0}; b = const f32[2] {-0.0, "
                     "1.0}; c = copysign x, a; d = copysign x, b\n  return c, d\n}\n"),
              0);
    CHECK_INT(merges("graph g(x: f32[2]) {\n  a = const f32[2] {nan(0x7fc00001), 1.0}; b = const "
                     "f32[2] {nan, 1.0}\n  return a, b\n}\n"),
              0);
    CHECK_INT(merges("graph g(x: f32[2]) {\n  a = const f32[2] {nan(0x7fc00001), 1.0}; b = const "
                     "f32[2] {nan(0x7fc00001), 1.0}\n  return a, b\n}\n"),
              1);
    CHECK_INT(merges("graph g(x: f32[2]) {\n  a = const i32[2] {1, 2}; b = const u32[2] {1, 2}; c "
                     "= add a, b\n  return c\n}\n"),
              0);
    CHECK_INT(merges("graph g(x: f32[2]) {\n  c = copysign x, 0.0; d = copysign x, -0.0\n  return "
                     "c, d\n}\n"),
              0);
    /* barriers stay where they were put */
    CHECK_INT(
        merges(
            "graph g(x: f32[2]) {\n  a = barrier x; b = barrier x; c = add a, b\n  return c\n}\n"),
        0);
}

/* Exercise 8: value numbering before functionalization. Read as text, `add p, 1` is written twice
   and means two things; here a value is one state of contents, so there is nothing to confuse. */
static void test_exercise_8(void) {
    static const char text[] =
        "graph g(inout p: f32[3], v: f32[3]) {\n  a = add p, 1.0\n  assign p, v\n  b = add p, "
        "1.0\n  return a, b\n}\n";
    static const char naive[] =
        "graph g(inout p: f32[3], v: f32[3]) {\n  a = add p, 1.0\n  assign p, v\n  b = cast a "
        "{dtype=f32}\n  return a, b\n}\n";
    float p[3] = {1, 2, 3}, q[3] = {1, 2, 3}, v[3] = {10, 20, 30}, right[2][3], wrong[2][3];
    stax_tensor in[2], out[2];
    stax_graph *g = parsed(text), *h = parsed(naive), *r = rewritten(g),
               *basis = staxi_decompose(g, NULL), *b = rewritten(basis);
    /* the naive pass: equal right-hand sides are one value, whatever was assigned between them */
    char first[40], second[40];
    sscanf(strstr(text, "a = ") + 4, "%39[^\n]", first);
    sscanf(strstr(text, "b = ") + 4, "%39[^\n]", second);
    CHECK_TEXT(first, second);
    in[1] = stax_tensor_of(STAX_F32, stax_shape1(3), v);
    for (int k = 0; k < 2; k++) {
        in[0] = stax_tensor_of(STAX_F32, stax_shape1(3), k ? q : p);
        for (int i = 0; i < 2; i++)
            out[i] = stax_tensor_of(STAX_F32, stax_shape1(3), k ? wrong[i] : right[i]);
        CHECK_INT(stax_interpret(k ? h : g, in, out), STAX_OK);
    }
    CHECK(right[1][0] == 11.0f && wrong[1][0] == 2.0f); /* so the naive pass is wrong */
    if (r && b) {
        CHECK_INT(count_ops(r, "add"), 2);
        same_results(g, r, 6);
        CHECK_INT(count_ops(b, "add"),
                  2); /* and after functionalization they have different operands */
        CHECK_INT(fired(b, "common.merge"), 2); /* the two constants and their expansions */
    }
    stax_graph_free(r);
    stax_graph_free(b);
    stax_graph_free(basis);
    stax_graph_free(h);
    stax_graph_free(g);
}

/* ---- folding
 * ------------------------------------------------------------------------------------------- */

static void test_folding(void) {
    CHECK_AFTER("graph g(x: f32[3]) {\n  a = add 1.5, 2; b = exp a; c = mul x, b\n  return c\n}\n",
                "const f32[] {");
    CHECK_AFTER(
        "graph g() {\n  a = const f32[2,2] {1, 2, 3, 4}; b = matmul a, a; c = transpose b\n  "
        "return c\n}\n",
        "const f32[2,2] {7.0, 15.0, 10.0, 22.0}");
    CHECK_AFTER(
        "graph g() {\n  a = const f16[3] {1, 2, 3}; b = softmax a; c = sum b\n  return c\n}\n",
        "const f16[] {");
    CHECK_AFTER(
        "graph g() {\n  a = const i8[3] {100, 50, -128}; b = add a, a; c = argmax b\n  return "
        "c\n}\n",
        "const i64[] {1}");
    CHECK_AFTER(
        "graph g() {\n  a = const f32[2] {nan(0x7fc00001), 1.0}; b = reshape a {shape=[2,1]}; c = "
        "flip a; d = neg a\n  return b, c, d\n}\n",
        "{1.0, nan(0x7fc00001)}");
    /* bounded: a large result only where the operands are as large */
    CHECK_AFTER(
        "graph g() {\n  a = const f32[2] {1, 2}; b = expand a {shape=[1000,2]}; c = exp b; d = sum "
        "c\n  return d\n}\n",
        "expand");
    CHECK_AFTER(
        "graph g() {\n  a = const f32[9] {1,2,3,4,5,6,7,8,9}; b = tile a {repeats=[9]}; c = sum "
        "b\n  return c\n}\n",
        "tile");
    /* random numbers and states are not folded, nor is an index out of range, which is the run's to
     * report */
    CHECK_AFTER("graph g() {\n  a = uniform 7 {shape=[3]}\n  return a\n}\n", "uniform");
    CHECK_AFTER(
        "graph g() {\n  a = const f32[3] {1, 2, 3}; i = const i64[2] {0, 2}; b = gather a, i\n  "
        "return b\n}\n",
        "const f32[2] {1.0, 3.0}");
    CHECK_AFTER(
        "graph g() {\n  a = const f32[3] {1, 2, 3}; i = const i64[2] {0, 3}; b = gather a, i\n  "
        "return b\n}\n",
        "gather a, i");
    CHECK_AFTER(
        "sizes n: 1..9\ngraph g(x: f32[n]) {\n  a = expand 2.0 {shape=[n]}; b = exp a; c = mul x, "
        "b\n  return c\n}\n",
        "expand");
}

/* What fails must go on failing. */
static void test_errors_kept(void) {
    static const char *const kept[] = {
        "graph g(x: f32[3]) {\n  i = const i64[2] {0, 9}; b = gather x, i; c = where true, 1.0, "
        "b\n  return c\n}\n",
        "graph g(x: f32[3], c: bool[2]) {\n  i = const i64[2] {0, 9}; b = gather x, i; d = cast b "
        "{dtype=i32}; e = sub d, d\n  return e\n}\n",
        "graph g(x: i32[3]) {\n  i = const i64[2] {0, 9}; b = gather x, i; e = mul b, 0\n  return "
        "e\n}\n",
        "graph g(x: i32[3]) {\n  i = const i64[2] {0, 9}; b = gather x, i; d = concat x, b; e = "
        "slice d {starts=[0], stops=[2]}\n  return e\n}\n",
        "graph g(x: i32[3]) {\n  i = const i64[2] {0, 9}; b = gather x, i; d = eq b, b\n  return "
        "d\n}\n"};
    for (size_t k = 0; k < sizeof kept / sizeof kept[0]; k++) {
        static feed f;
        stax_graph *g = parsed(kept[k]), *r = rewritten(g);
        if (r && feed_make(&f, r, 5, 1)) {
            CHECK_INT(stax_interpret(g, f.all, f.outputs), STAX_E_INDEX);
            CHECK_INT(stax_interpret(r, f.all, f.outputs), STAX_E_INDEX);
        }
        feed_free(&f);
        stax_graph_free(r);
        stax_graph_free(g);
    }
    CHECK(
        lacks("graph g(x: i32[3]) {\n  i = const i64[2] {0, 9}; b = gather x, i {mode=\"clip\"}; e "
              "= mul b, 0\n  return e\n}\n",
              "gather"));
    CHECK(lacks("graph g(x: i32[3]) {\n  i = const i64[2] {0, 9}; b = gather x, i; return x\n}\n",
                "gather")); /* dead */
    /* an axis that may turn out empty: nothing to repeat, nothing to choose from */
    CHECK(
        !lacks("graph g(x: i32[n]) {\n  a = pad x {low=[2], high=[1], mode=\"reflect\"}; b = "
               "sub a, a\n  return b\n}\n",
               "pad"));
    CHECK(
        lacks("graph g(x: i32[4]) {\n  a = pad x {low=[2], high=[1], mode=\"reflect\"}; b = "
              "sub a, a\n  return b\n}\n",
              "pad"));
    CHECK(!lacks("graph g(x: i32[n]) {\n  a = max x {axes=[0]}; b = sub a, a\n  return b\n}\n",
                 "max"));
    /* a size that may turn out negative */
    CHECK(!lacks("graph g(x: i64[n]) {\n  i = iota {shape=[n-5]}; s = sum i; z = mul s, 0; b = add "
                 "x, z\n  return b\n}\n",
                 "iota"));
    CHECK(lacks("graph g(x: i64[n]) {\n  i = iota {shape=[n+5]}; s = sum i; z = mul s, 0; b = add "
                "x, z\n  return b\n}\n",
                "iota"));
}

/* ---- views
 * -----------------------------------------------------------------------------------------------
 */

static int movements(const stax_graph *g) {
    int n = 0;
    for (size_t k = 1; k < g->n_nodes; k++)
        n += staxi_op_info((stax_op)g->nodes[k].op)->cls == STAXI_CLASS_MOVEMENT;
    return n;
}

/* The chain on x: f32[4,6], with this many movements left. */
static void view(const char *chain, int left) {
    char text[600];
    snprintf(text, sizeof text, "graph g(x: f32[4,6]) {\n  %s\n  return y\n}\n", chain);
    stax_graph *g = parsed(text), *b = g ? stax_rewritten(g) : NULL;
    if (CHECK(b != NULL)) {
        same_results(g, b, 2);
        if (!CHECK_INT(movements(b), left)) {
            char *t = stax_print(b);
            printf("%s\n%s", chain, t);
            stax_free(ctx, t);
        }
    }
    stax_graph_free(b);
    stax_graph_free(g);
}

static void test_views(void) {
    /* exercise 11 (1): x.t() has strides (1, 6); as 24 elements that is no single stride */
    view("t = transpose x; y = reshape t {shape=[24]}", 2);
    view(
        "t = transpose x; u = reshape t {shape=[24]}; v = reshape u {shape=[6,4]}; y = transpose v",
        0);
    view("t = transpose x; y = transpose t", 0);
    view(
        "t = reshape x {shape=[2,2,6]}; u = permute t {axes=[1,0,2]}; v = permute u "
        "{axes=[1,0,2]}; y = reshape v {shape=[24]}",
        1);
    view(
        "t = slice x {starts=[1,0], stops=[4,6], steps=[1,2]}; y = slice t {starts=[0,1], "
        "stops=[3,3], steps=[2,1]}",
        1);
    view("t = flip x; y = flip t", 0);
    view("t = flip x {axes=[0]}; y = flip t {axes=[1]}", 1);
    view("t = unsqueeze x {axes=[0]}; y = squeeze t", 0);
    view(
        "t = unsqueeze x {axes=[1]}; u = expand t {shape=[4,3,6]}; y = slice u {starts=[0,1,0], "
        "stops=[4,2,6]}",
        1);
    view("t = expand x {shape=[2,4,6]}; y = expand t {shape=[5,2,4,6]}", 1);
    view("t = expand x {shape=[1,4,6]}; y = reshape t {shape=[4,6]}", 0);
    view(
        "t = slice x {starts=[2,0], stops=[3,6]}; u = squeeze t {axes=[0]}; v = unsqueeze u "
        "{axes=[1]}; y = expand v {shape=[6,4]}",
        3);
    view(
        "t = slice x {starts=[0,1], stops=[4,3]}; u = transpose t; v = transpose u; y = slice v "
        "{starts=[1,0], stops=[2,2]}",
        1);
    view("t = pad x {low=[1,0], high=[0,2]}; y = pad t {low=[0,3], high=[1,1]}", 1);
    view("t = pad x {low=[1,0], high=[0,2], value=1.0}; y = pad t {low=[0,3], high=[1,1]}", 2);
    view("y = pad x {low=0, high=0}", 0);
    view("t = pad x {low=[1,2], high=[3,4]}; y = slice t {starts=[1,2], stops=[5,8]}", 0);
    view("t = pad x {low=[1,2], high=[3,4]}; y = slice t {starts=[2,3], stops=[4,5]}", 1);
    view("t = pad x {low=[1,2], high=[3,4]}; y = slice t {starts=[0,3], stops=[4,5]}", 2);
    view("t = concat x, x {axis=0}; y = slice t {starts=[4,0], stops=[8,6]}", 0);
    view("t = concat x, x {axis=0}; y = slice t {starts=[3,0], stops=[6,6]}", 2);
    view(
        "t = neg x; u = concat t, x, t {axis=1}; y = slice u {starts=[0,11], stops=[4,5], "
        "steps=[2,-1]}",
        1);
    view(
        "t = iota {shape=[4], axis=0}; u = reshape t {shape=[2,2]}; v = reshape u {shape=[4]}; w = "
        "cast v {dtype=f32}; z = sum x {axes=[1]}; y = add w, z",
        0);
    view(
        "t = expand 2.0 {shape=[4,6]}; u = transpose t; v = slice u {starts=[1,1], stops=[4,3]}; s "
        "= sum x; y = add v, s",
        2);
    view("t = sum x {axes=[0], keepdims=true}; y = sum t {axes=[0]}", 0);
}

/* Rewritten, it gives the same and has that many nodes of two ops. */
static void keeps(const char *text, const char *op, int n, const char *other, int n_other) {
    stax_graph *g = parsed(text), *r = g ? stax_rewritten(g) : NULL;
    if (CHECK(r != NULL)) {
        same_results(g, r, 7);
        CHECK_INT(count_ops(r, op), n);
        CHECK_INT(count_ops(r, other), n_other);
    }
    stax_graph_free(r);
    stax_graph_free(g);
}

/* (2) of exercise 11: slicing and transposing commute; both orders become one value. */
static void test_exercise_11(void) {
    keeps(
        "graph g(x: f32[4,6]) {\n  a = slice x {starts=[1,2], stops=[4,5]}; b = transpose a\n  c = "
        "transpose x; d = slice c {starts=[2,1], stops=[5,4]}\n  return b, d\n}\n",
        "slice", 1, "permute", 1);
}

/* Random chains: the same bits, and nothing left that a second rewriting would find. */
static void test_random_views(void) {
    int before = 0, left = 0;
    for (int seed = 0; seed < 400; seed++) {
        dice d;
        d.state = (uint64_t)seed + 77;
        stax_graph *g = stax_graph_new(ctx);
        stax_value v = stax_input(g, "x", STAX_F32, stax_shape3(4, 1 + dice_below(&d, 3), 6));
        for (int k = 0; k < 7; k++) {
            stax_shape s = stax_value_shape(v);
            int64_t all = 1;
            for (int i = 0; i < s.rank; i++) all *= s.dims[i];
            if (all == 0) break;
            switch (dice_below(&d, 6)) {
                case 0: { /* reshape: split an axis, or join all */
                    stax_shape t = s;
                    int a = s.rank ? dice_below(&d, s.rank) : 0;
                    if (s.rank > 0 && s.rank < 5 && s.dims[a] % 2 == 0) {
                        memmove(&t.dims[a + 1], &t.dims[a],
                                sizeof t.dims[0] * (size_t)(s.rank - a));
                        t.dims[a] = 2;
                        t.dims[a + 1] = s.dims[a] / 2;
                        t.rank++;
                    } else {
                        t = stax_shape1(all);
                    }
                    v = stax_reshape(v, t);
                    break;
                }
                case 1: { /* join two axes */
                    stax_shape t = s;
                    if (s.rank < 2) break;
                    int a = dice_below(&d, s.rank - 1);
                    t.dims[a] *= t.dims[a + 1];
                    memmove(&t.dims[a + 1], &t.dims[a + 2],
                            sizeof t.dims[0] * (size_t)(s.rank - a - 2));
                    t.rank--;
                    v = stax_reshape(v, t);
                    break;
                }
                case 2: {
                    stax_axes p = stax_axes0();
                    for (int i = 0; i < s.rank; i++) p.axis[i] = (int8_t)i;
                    for (int i = s.rank - 1; i > 0; i--) {
                        int j = dice_below(&d, i + 1);
                        int8_t t = p.axis[i];
                        p.axis[i] = p.axis[j];
                        p.axis[j] = t;
                    }
                    p.n = (int8_t)s.rank;
                    p.given = 1;
                    v = stax_permute(v, p);
                    break;
                }
                case 3: {
                    stax_shape lo = s, hi = s, by = s;
                    for (int i = 0; i < s.rank; i++) {
                        bool back = dice_chance(&d, 20);
                        lo.dims[i] = back ? s.dims[i] - 1 - dice_below(&d, 2)
                                          : dice_below(&d, (int)s.dims[i]);
                        if (lo.dims[i] < 0) lo.dims[i] = 0;
                        if (back || dice_chance(&d, 50)) lo.dims[i] = back ? lo.dims[i] : 0;
                        hi.dims[i] = STAX_NONE;
                        by.dims[i] = back ? -1 : dice_chance(&d, 30) ? 2 : 1;
                    }
                    if (s.rank) v = stax_slice(v, lo, hi, by);
                    break;
                }
                case 4:
                    if (s.rank < 5 && all < 500) {
                        stax_shape t = s;
                        memmove(&t.dims[1], &t.dims[0], sizeof t.dims[0] * (size_t)s.rank);
                        t.dims[0] = 1 + dice_below(&d, 3);
                        t.rank++;
                        v = stax_expand(v, t);
                    }
                    break;
                default:
                    if (s.rank < 5) v = stax_unsqueeze(v, stax_axes1(dice_below(&d, s.rank + 1)));
                    break;
            }
        }
        stax_output(g, "y", v);
        stax_graph *basis = stax_ok(g) ? staxi_decompose(g, NULL) : NULL,
                   *r = basis ? rewritten(basis) : NULL, *again = r ? rewritten(r) : NULL;
        if (CHECK(again != NULL)) {
            int ok = same_results(g, r, (uint64_t)seed) && CHECK_INT(fired(again, ""), 0);
            ok = CHECK(movements(r) <= movements(basis)) && ok;
            before += movements(basis);
            left += movements(r);
            if (!ok) {
                char *t = stax_print(basis), *u = stax_print(r);
                printf("seed %d\n%s%s", seed, t, u);
                stax_free(ctx, t);
                stax_free(ctx, u);
            }
        }
        stax_graph_free(again);
        stax_graph_free(r);
        stax_graph_free(basis);
        stax_graph_free(g);
    }
    printf("%d movements of random chains become %d\n", before, left);
    CHECK(left * 3 < before * 2);
}

/* The order of a float sum is chosen on the graph as built and stays, though the operand moves. */
static void test_sum_order(void) {
    keeps(
        "graph g(x: f32[37,64]) {\n  t = transpose x; u = transpose t; v = reshape u "
        "{shape=[64,37]}; w = transpose v\n  y = sum t {axes=[0,1]}; z = sum w; q = sum x\n  "
        "return y, z, q\n}\n",
        "sum", 3, "permute", 2);
}

/* ---- states and regions
 * -------------------------------------------------------------------------------------- */

static void test_states(void) {
    /* old contents, used after the assignment: the text must say which */
    static const char *const texts[] = {
        "graph g(inout p: f32[3], v: f32[3]) {\n  a = neg p\n  assign p, v\n  b = neg a\n  c = add "
        "b, p\n  return b, c\n}\n",
        "graph g(inout p: f32[3], v: f32[3]) {\n  a = mul p, 1.0\n  assign p, v\n  b = mul p, "
        "1.0\n  assign p, a\n  c = mul p, 1.0\n  return a, b, c\n}\n",
        "graph g(inout p: i32[3], inout q: i32[3]) {\n  a = mul p, 1\n  b = mul q, 1\n  assign p, "
        "b\n  assign q, a\n  return p, q\n}\n",
        "graph g(inout p: i32[3]) {\n  a = mul p, 1\n  assign p, a\n  return a\n}\n",
        "graph g(inout p: f32[4], v: f32[2]) {\n  s = slice p {starts=[1], stops=[3]}\n  assign s, "
        "v\n  t = slice p {starts=[1], stops=[3]}\n  u = add s, t\n  return u\n}\n",
        "graph g(inout p: f32[3], c: bool[]) {\n  z = cond c { then() { r = neg p; s = neg r; "
        "return s } else() { return p } }\n  assign p, 2.0\n  w = add z, p\n  return w\n}\n"};
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        stax_graph *g = parsed(texts[k]), *r = rewritten(g), *basis = g ? stax_rewritten(g) : NULL;
        char *text = r ? stax_print(r) : NULL;
        stax_graph *back = text ? stax_parse(ctx, "back.stax", text) : NULL;
        if (CHECK(back != NULL) && CHECK(basis != NULL)) {
            int ok = same_results(g, r, 8) && same_results(g, back, 8);
            if (!ok) printf("%s", text);
        }
        stax_free(ctx, text);
        stax_graph_free(back);
        stax_graph_free(basis);
        stax_graph_free(r);
        stax_graph_free(g);
    }
}

static void test_regions(void) {
    stax_graph *g = parsed(
        "graph g(x: f32[3], n: i64[]) {\n  d = mul x, 1.0\n  y, k = while x, n {\n    test(a: "
        "f32[3], i: i64[]) { c = lt 0, i; return c }\n"
        "    body(a: f32[3], i: i64[]) { b = neg a; e = neg b; f = add e, d; f2 = add e, d; s = "
        "add f, f2; j = sub i, 1; return s, j }\n  }\n  return y, k\n}\n");
    stax_graph *r = rewritten(g), *b = g ? stax_rewritten(g) : NULL;
    if (r && CHECK(b != NULL)) {
        same_results(g, r, 1);
        CHECK_INT(fired(r, "algebra.neg_neg"), 1);
        CHECK_INT(fired(r, "canonical.lt_order"), 1);
        CHECK_INT(fired(r, "common.merge"), 1);
        CHECK_INT(fired(b, "algebra.neg_neg"), 1);
    }
    stax_graph_free(b);
    stax_graph_free(r);
    stax_graph_free(g);
}

/* ---- any graph
 * ------------------------------------------------------------------------------------------------
 */

/* Do two graphs give the same on the recipe's data: status, outputs, states? */
static int same_on_sample(const recipe *r, const stax_graph *g, const stax_graph *other) {
    static sample a, b;
    int ok = CHECK(sample_make(&a, r, g, 0, 0) && sample_make(&b, r, g, 0, 0));
    if (ok) {
        stax_status want = stax_interpret(g, a.inputs, a.outputs);
        ok = CHECK_INT(stax_interpret(other, b.inputs, b.outputs), want);
        for (int k = 0; ok && want == STAX_OK && k < a.n_outputs; k++)
            ok = CHECK(memcmp(a.out[k].data, b.out[k].data, a.out[k].bytes) == 0);
        for (int k = 0; ok && want == STAX_OK && k < a.n_inputs; k++)
            ok = CHECK(memcmp(a.in[k].data, b.in[k].data, a.in[k].bytes) == 0);
    }
    sample_free(&a);
    sample_free(&b);
    return ok;
}

/* Same results, a text that reads back, and a second rewriting finds nothing: it is a fixed point.
 */
static int rewrite_holds(const stax_graph *g, const recipe *recipe_or_null) {
    stax_graph *r = rewritten(g), *again = r ? rewritten(r) : NULL, *back = NULL;
    int ok = again != NULL;
    if (ok) {
        char *text = stax_print(r);
        back = stax_parse(ctx, "back.stax", text ? text : "");
        ok = CHECK(back != NULL);
        if (!ok) printf("%s\n%s", stax_error(ctx), text);
        stax_free(ctx, text);
    }
    /* a state's view under its two names, the old contents and the state, is met twice and merged
     */
    if (ok && (!CHECK_INT(fired(again, "") - fired(again, "common.merge"), 0) ||
               !CHECK_INT((int64_t)again->n_nodes, (int64_t)r->n_nodes))) {
        stax_rule_figures f;
        for (int k = 0; stax_graph_rule(again, k, &f); k++)
            if (f.fired) printf("  %s.%s: %d\n", f.set, f.rule, (int)f.fired);
        ok = 0;
    }
    if (ok && recipe_or_null) {
        ok = same_on_sample(recipe_or_null, g, back);
    } else if (ok) {
        ok = same_results(g, r, 21) && same_results(g, back, 22);
    }
    stax_graph_free(back);
    stax_graph_free(again);
    stax_graph_free(r);
    return ok;
}

static void test_any_graph(void) {
    for (int k = 0; k < FEED_GRAPHS; k++) {
        stax_graph *g = parsed(feed_graphs[k]);
        if (g && !rewrite_holds(g, NULL)) printf("%s\n", feed_graphs[k]);
        stax_graph_free(g);
    }
    int tried = 0;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        static recipe r;
        int is_refused = 0;
        recipe_make_sized(&r, seed, 0);
        stax_graph *g = recipe_build(&r, ctx, &is_refused);
        if (g && stax_ok(g)) {
            tried++;
            if (!rewrite_holds(g, &r)) {
                char *t = stax_print(g);
                printf("seed %d\n%s", (int)seed, t ? t : "");
                stax_free(ctx, t);
            }
        }
        stax_graph_free(g);
    }
    CHECK(tried > 300);
}

/* ---- ops that a backend has itself (P 4.3)
 * ---------------------------------------------------------------------------------------------- */

/* The ops of a graph that a backend may keep, as a list. */
static void op_list(const stax_graph *g, char *list, size_t room) {
    *list = 0;
    for (size_t k = 1; k < g->n_nodes; k++) {
        const staxi_node *n = &g->nodes[k];
        const char *name = staxi_op_name((stax_op)n->op);
        if (n->n_regions || n->op == STAX_OP_INPUT || n->op == STAX_OP_CONST ||
            staxi_is_assign(n->op) || strlen(list) + strlen(name) + 3 > room)
            continue;
        strcat(strcat(list, *list ? ", " : ""), name);
    }
}

static int has_states(const stax_graph *g) {
    for (size_t k = 0; k < g->n_inputs; k++)
        if (g->inputs[k].kind == STAXI_STATE) return 1;
    return 0;
}

static stax_graph *decomposed(const stax_graph *g, const char *own) {
    stax_rewrite_options o;
    memset(&o, 0, sizeof o);
    o.basis = true;
    o.own = own;
    return stax_rewrite(g, &o);
}

static void test_own_ops(void) {
    static char list[4000];
    stax_graph *g = parsed(
        "graph g(x: f16[n,4], w: f16[4]) {\n  s = softmax x {axis=1}\n"
        "  l = layer_norm s, w {axes=[1], eps=1e-05}\n  y = clip l {min=0.0, max=2.0}\n"
        "  return y\n}\n");
    for (int k = 0; g && k < 4; k++) {
        static const char *const owns[] = {NULL, "softmax", "softmax,layer_norm",
                                           " layer_norm clip "};
        stax_graph *r = decomposed(g, owns[k]);
        if (!CHECK(r != NULL)) continue;
        CHECK_INT(count_ops(r, "softmax"), k == 1 || k == 2);
        CHECK_INT(count_ops(r, "layer_norm"), k >= 2);
        CHECK_INT(count_ops(r, "clip"), k == 3);
        CHECK((count_ops(r, "rsqrt") + count_ops(r, "sqrt") == 0) == (k >= 2));
        same_results(g, r, 11);
        stax_graph_free(r);
    }
    CHECK(g && !decomposed(g, "softmax, sofmax"));
    CHECK(strstr(stax_error(ctx), "there is no op \"sofmax\"") != NULL);
    CHECK(g && !decomposed(g, "while"));
    CHECK(strstr(stax_error(ctx), "cannot keep \"while\"") != NULL);
    stax_graph_free(g);
    /* whatever is kept, the graph means the same, and all of it can be decomposed later; states are
       left out, whose contents are outputs of a decomposed graph */
    int tried = 0;
    for (int k = 0; k < FEED_GRAPHS; k++) {
        g = parsed(feed_graphs[k]);
        op_list(g, list, sizeof list);
        stax_graph *r = g && !has_states(g) ? decomposed(g, list) : NULL;
        if (r && ++tried && !same_results(g, r, (uint64_t)k))
            printf("own: %s\n%s\n", list, feed_graphs[k]);
        CHECK(r || (g && has_states(g)));
        stax_graph_free(r);
        stax_graph_free(g);
    }
    for (uint64_t seed = 1000; seed < 1300; seed++) {
        static recipe r;
        int is_refused = 0;
        recipe_make_sized(&r, seed, 0);
        g = recipe_build(&r, ctx, &is_refused);
        if (g && stax_ok(g) && !has_states(g) && ++tried) {
            op_list(g, list, sizeof list);
            stax_graph *d = decomposed(g, list);
            if (!CHECK(d != NULL) || !same_on_sample(&r, g, d))
                printf("seed %d: %s\n", (int)seed, stax_error(ctx));
            stax_graph_free(d);
        }
        stax_graph_free(g);
    }
    CHECK(tried > 200);
}

/* ---- deep and large
 * ---------------------------------------------------------------------------------------------- */

static double seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

static stax_graph *chain(int n, int kind) {
    stax_graph *g = stax_graph_new(ctx);
    stax_value x = stax_input(g, "x", STAX_F32, stax_shape1(2)),
               y = stax_input(g, "y", STAX_F32, stax_shape1(2)), v = x, w = y;
    for (int k = 0; k < n; k++) {
        if (kind == 0) {
            v = stax_add(v, y);
        } else {
            switch (k % 6) {
                case 0:
                    v = stax_add(w, v);
                    break;
                case 1:
                    w = stax_mul(v, stax_const(g, 1));
                    break;
                case 2:
                    v = stax_neg(stax_neg(v));
                    k++;
                    break;
                case 4:
                    w = stax_maximum(w, v);
                    break;
                default:
                    v = stax_div(v, stax_const(g, 2));
                    break;
            }
        }
    }
    stax_output(g, "v", kind ? stax_add(v, w) : v);
    return g;
}

static void test_deep(void) {
    enum { N = 1000000 };
    stax_graph *g = chain(N, 0), *r = rewritten(g);
    if (r) {
        float x[2] = {1, 2}, y[2] = {1, 0}, v[2] = {0, 0};
        stax_tensor in[2], out;
        CHECK_INT((int64_t)r->n_nodes, N + 3);
        in[0] = stax_tensor_of(STAX_F32, stax_shape1(2), x);
        in[1] = stax_tensor_of(STAX_F32, stax_shape1(2), y);
        out = stax_tensor_of(STAX_F32, stax_shape1(2), v);
        CHECK_INT(stax_interpret(r, in, &out), STAX_OK);
        CHECK(v[0] == (float)N + 1.0f && v[1] == 2.0f);
        char *t = stax_print(r);
        CHECK(t && strlen(t) > 10 * N);
        stax_free(ctx, t);
    }
    stax_graph_free(r);
    stax_graph_free(g);
    /* a chain of which nothing remains, and a rule that walks down it */
    g = stax_graph_new(ctx);
    stax_value v = stax_input(g, "x", STAX_I32, stax_shape1(2));
    for (int k = 0; k < N; k++) v = stax_bitwise_not(v);
    stax_output(g, "v", v);
    r = rewritten(g);
    if (r) CHECK_INT((int64_t)r->n_nodes, 2);
    stax_graph_free(r);
    stax_graph_free(g);
    /* one node through the whole chain: neg(mul(..)) => mul(neg(..)), a rule with its own weights
     */
    stax_rule rule;
    stax_rule_set set;
    stax_rewrite_options o;
    memset(&rule, 0, sizeof rule);
    memset(&set, 0, sizeof set);
    memset(&o, 0, sizeof o);
    rule.name = "down";
    rule.pattern = "neg (mul a b)";
    rule.replacement = "mul (neg a) b";
    set.name = "mine";
    set.rules = &rule;
    set.n_rules = 1;
    set.weights = "neg=2*3"; /* the deeper a neg stands, the less it multiplies */
    o.sets = &set;
    o.n_sets = 1;
    g = stax_graph_new(ctx);
    v = stax_input(g, "x", STAX_F32, stax_shape1(2));
    stax_value y = stax_input(g, "y", STAX_F32, stax_shape1(2));
    for (int k = 0; k < N / 4; k++) v = stax_mul(v, y);
    stax_output(g, "v", stax_neg(v));
    r = stax_rewrite(g, &o);
    if (CHECK(r != NULL)) CHECK_INT(fired(r, "mine.down"), N / 4);
    if (!r) printf("%s\n", stax_error(ctx));
    stax_graph_free(r);
    stax_graph_free(g);
}

#if defined(__SANITIZE_ADDRESS__)
#define SLOW 20
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define SLOW 20
#endif
#endif
#ifndef SLOW
#define SLOW 1
#endif

static void test_time(void) {
    for (int kind = 0; kind < 2; kind++) {
        double least[2] = {1e9, 1e9};
        for (int large = 0; large < 2; large++) {
            int n = large ? 100000 : 10000;
            stax_graph *g = chain(n, kind);
            for (int k = 0; k < 5; k++) {
                double t = seconds();
                stax_graph *r = stax_rewrite(g, NULL);
                t = seconds() - t;
                if (t < least[large]) least[large] = t;
                CHECK(r != NULL);
                stax_graph_free(r);
            }
            printf("%s of %d nodes: rewritten in %.1f ms, %.0f ns a node\n",
                   kind ? "a mixed graph" : "a chain of add", n, least[large] * 1e3,
                   least[large] * 1e9 / n);
            stax_graph_free(g);
        }
        CHECK(least[0] <= 0.050 * SLOW); /* the bars: 50 ms and 1 s */
        CHECK(least[1] <= 1.0 * SLOW);
        CHECK(least[1] <= least[0] * 10 * 4); /* nearly linear */
    }
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    ctx = stax_open(NULL);
    RUN(test_every_rule);
    RUN(test_order);
    RUN(test_refused);
    RUN(test_signed_zeros);
    RUN(test_types);
    RUN(test_measure);
    RUN(test_wrong_rules);
    RUN(test_counters_and_trace);
    RUN(test_own_rules);
    RUN(test_common);
    RUN(test_exercise_8);
    RUN(test_folding);
    RUN(test_errors_kept);
    RUN(test_views);
    RUN(test_exercise_11);
    RUN(test_random_views);
    RUN(test_sum_order);
    RUN(test_states);
    RUN(test_regions);
    RUN(test_any_graph);
    RUN(test_own_ops);
    RUN(test_deep);
    RUN(test_time);
    stax_close(ctx);
    return HARNESS_END();
}
