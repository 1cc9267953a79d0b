/* The graph: dtypes, the op table, inference, the builder, the verifier, the text form.
   tests/corpus holds texts that must read back as they were printed (good), and texts that must be
   refused, with the status, the place and pieces of the message in their first line (bad). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAX_STATIC
#define STAX_IMPLEMENTATION
#include "../stax.h"

#include "harness.h"
#include "heap.h"

#define CORPUS "tests/corpus/"

static heap counts;
static stax_context *c; /* allocates through `counts` */
static int64_t live_of_context;

/* Opens the context anew; from then on the `fail_at`-th allocation fails (0: none). */
static void context_open(long fail_at) {
    stax_options o = heap_options(&counts);
    stax_close(c);
    memset(&counts, 0, sizeof counts);
    c = stax_open(&o);
    if (!c) exit(1);
    live_of_context = counts.bytes;
    counts.calls = 0;
    counts.fail_at = fail_at;
}

/* Are graphs and texts freed? The context itself keeps its newest messages. */
static bool nothing_is_live(void) {
    int64_t messages = 0;
    for (int k = 0; k < STAXI_MESSAGES; k++) {
        if (c->messages[k]) messages += (int64_t)c->message_bytes[k];
    }
    return counts.bytes == live_of_context + messages && counts.wrong == 0;
}

/* ---- promotion: the table against the rules of TEXT.md, written out again ---- */

static int width_of(stax_dtype d) { return (int)staxi_dtype_bytes(d) * 8; }
static bool is_signed(stax_dtype d) { return d >= STAX_I64 && d <= STAX_I8; }
static bool is_unsigned(stax_dtype d) { return d >= STAX_U64 && d <= STAX_U8; }
static bool is_float(stax_dtype d) { return d >= STAX_F64 && d <= STAX_BF16; }

static stax_dtype rule(stax_dtype a, stax_dtype b) {
    static const stax_dtype wider[9] = {STAX_DTYPE_NONE, STAX_I16,        STAX_I32,
                                        STAX_DTYPE_NONE, STAX_I64,        STAX_DTYPE_NONE,
                                        STAX_DTYPE_NONE, STAX_DTYPE_NONE, STAX_DTYPE_NONE};
    stax_dtype s, u;
    if (a == b) return a;
    if (a == STAX_BOOL) return b;
    if (b == STAX_BOOL) return a;
    if (is_float(a) && is_float(b)) {
        if (width_of(a) == 16 && width_of(b) == 16) return STAX_F32;
        return width_of(a) > width_of(b) ? a : b;
    }
    if (is_float(a)) return a;
    if (is_float(b)) return b;
    if (is_signed(a) == is_signed(b)) return width_of(a) > width_of(b) ? a : b;
    s = is_signed(a) ? a : b;
    u = is_signed(a) ? b : a;
    return width_of(s) > width_of(u) ? s : wider[width_of(u) / 8];
}

static void test_dtypes(void) {
    for (int a = 1; a <= STAX_BOOL; a++) {
        for (int b = 1; b <= STAX_BOOL; b++) {
            CHECK(staxi_promote((stax_dtype)a, (stax_dtype)b) ==
                  rule((stax_dtype)a, (stax_dtype)b));
        }
    }
    CHECK(staxi_promote(STAX_F8E4M3, STAX_F32) == STAX_DTYPE_NONE);
    CHECK(staxi_promote(STAX_F8E4M3, STAX_F8E4M3) == STAX_F8E4M3);
    CHECK(staxi_promote(STAX_DTYPE_NONE, STAX_F32) == STAX_DTYPE_NONE);
    for (int d = 1; d < STAX_DTYPE_COUNT; d++) {
        const char *name = staxi_dtype_name((stax_dtype)d);
        CHECK(staxi_dtype_find(name, strlen(name)) == (stax_dtype)d);
    }
    CHECK(is_unsigned(STAX_U8) && staxi_dtype_class(STAX_U8) == STAXI_UNSIGNED);
    CHECK(staxi_dtype_find("f3", 2) == STAX_DTYPE_NONE && staxi_dtype_bytes(STAX_BF16) == 2);
}

static void test_table(void) {
    staxi_schema s;
    for (int op = 1; op < STAX_OP_COUNT; op++) {
        const char *name = staxi_op_name((stax_op)op);
        CHECK(staxi_op_find(name, strlen(name)) == (stax_op)op);
        CHECK(staxi_schema_count((stax_op)op) <= STAXI_MAX_ATTRS);
        for (int k = 0; staxi_schema_at((stax_op)op, k, &s); k++) {
            CHECK(staxi_schema_find((stax_op)op, s.name, s.n_name) == k);
            CHECK(!(s.required && s.n_fallback));
        }
        CHECK(!staxi_schema_at((stax_op)op, staxi_schema_count((stax_op)op), &s));
    }
    CHECK(staxi_op_find("nope", 4) == STAX_OP_NONE);
    CHECK(staxi_schema_at(STAX_OP_GELU, 0, &s) && s.kind == STAXI_IS_TEXT && s.n_fallback == 9);
    CHECK(staxi_schema_at(STAX_OP_SUM, 0, &s) && s.kind == STAXI_IS_AXES && !s.required &&
          s.n_fallback == 0);
    CHECK(staxi_schema_at(STAX_OP_RESHAPE, 0, &s) && s.kind == STAXI_IS_SIZES && s.required);
}

/* ---- round trips ---- */

static bool same_graph(const stax_graph *a, const stax_graph *b) {
    bool same = a->n_nodes == b->n_nodes && a->n_values == b->n_values &&
                a->n_inputs == b->n_inputs && a->n_outputs == b->n_outputs;
    for (size_t k = 1; same && k < a->n_nodes; k++) {
        const staxi_node *m = &a->nodes[k], *n = &b->nodes[k];
        same = m->op == n->op && m->n_sources == n->n_sources && m->n_results == n->n_results &&
               m->n_regions == n->n_regions;
        same = same && (m->n_sources == 0 ||
                        memcmp(m->sources, n->sources, m->n_sources * sizeof *m->sources) == 0);
        for (uint32_t r = 0; same && r < m->n_regions; r++)
            same = same_graph(m->regions[r], n->regions[r]);
        if (same && m->op == STAX_OP_CONST && !a->values[m->first_value].type.weak) {
            const staxi_type *t = &a->values[m->first_value].type;
            size_t bytes = staxi_dtype_bytes((stax_dtype)t->dtype);
            for (int d = 0; d < t->rank; d++) bytes *= (size_t)staxi_size_handle(a, t->dims[d]);
            same = bytes == 0 || memcmp(m->data, n->data, bytes) == 0;
        }
    }
    for (size_t k = 0; same && k < a->n_outputs; k++)
        same = a->outputs[k].value == b->outputs[k].value;
    return same;
}

static void round_trip(const char *name, const char *text) {
    size_t n = 0, m = 0;
    stax_graph **graphs = staxi_parse_all(c, name, text, &n);
    if (!graphs) printf("%s\n", stax_error(c));
    CHECK(graphs != NULL);
    for (size_t k = 0; graphs && k < n; k++) {
        char *first = stax_print(graphs[k]), *second;
        stax_graph **again = staxi_parse_all(c, "printed", first, &m);
        CHECK(staxi_graph_verify(graphs[k], "parse"));
        if (!again) printf("%s: %s\n%s", name, stax_error(c), first);
        CHECK(again != NULL);
        if (again) {
            second = stax_print(again[0]);
            CHECK(strcmp(first, second) == 0);
            CHECK(same_graph(graphs[k], again[0]));
            stax_free(c, second);
            staxi_parse_list_free(c, again, m);
        }
        stax_free(c, first);
    }
    if (graphs) staxi_parse_list_free(c, graphs, n);
}

/* "# STAX_E_SHAPE 3:7 one piece of the message|another": the first line of a bad program */
static void expect_refusal(const char *name, const char *text) {
    char status[40], place[40], want[500], piece[200];
    const char *end = text + strcspn(text, "\n"), *at;
    stax_graph *g;
    stax_status s = STAX_OK;
    if (sscanf(text, "# %39s %39s ", status, place) != 2) return;
    at = strstr(text, place) + strlen(place);
    g = stax_parse(c, name, text);
#define IS(code, words) \
    if (strcmp(status, "STAX_" #code) == 0) s = STAX_##code;
    STAX_STATUSES(IS)
    snprintf(want, sizeof want, "%s:%s", name, place);
    if (g || stax_error_status(c) != s || strncmp(stax_error(c), want, strlen(want)) != 0)
        printf("%s: expected %s %s, found %s: %s\n", name, status, place,
               g ? "no error" : stax_status_text(stax_error_status(c)), g ? "" : stax_error(c));
    CHECK(g == NULL);
    CHECK(stax_error_status(c) == s);
    CHECK(strncmp(stax_error(c), want, strlen(want)) == 0);
    CHECK(strstr(stax_error(c), ": error: ") != NULL);
    while (at < end && *at == ' ') at++;
    while (at < end) {
        size_t n = 0;
        while (at + n < end && at[n] != '|') n++;
        if (n < sizeof piece) {
            memcpy(piece, at, n);
            piece[n] = '\0';
            if (!strstr(stax_error(c), piece))
                printf("%s: no \"%s\" in: %s\n", name, piece, stax_error(c));
            CHECK(strstr(stax_error(c), piece) != NULL);
        }
        at += n + 1;
    }
    stax_graph_free(g);
}

static void test_corpus(void) {
    char line[400], path[500];
    FILE *f = fopen(CORPUS "list.txt", "r");
    int good = 0, bad = 0;
    CHECK(f != NULL);
    while (f && fgets(line, sizeof line, f)) {
        char *text;
        line[strcspn(line, "\n")] = '\0';
        snprintf(path, sizeof path, CORPUS "%s", line);
        text = harness_file(path);
        if (strstr(line, "bad/")) {
            expect_refusal(line, text);
            bad++;
        } else {
            round_trip(line, text);
            good++;
        }
        free(text);
        CHECK(nothing_is_live());
    }
    if (f) fclose(f);
    printf("corpus: %d good, %d bad\n", good, bad);
    CHECK(good > 20 && bad > 100);
}

/* ---- the builder ---- */

/* Runs `build` on a new graph with some inputs; the graph must then hold this error. */
typedef struct fixture {
    stax_graph *g;
    stax_value x, y, i, b, u, l, s, k;
} fixture;

static void fixture_init(fixture *f) {
    f->g = stax_graph_new(c);
    f->x = stax_input(f->g, "x", STAX_F32, stax_shape2(2, 3));
    f->y = stax_input(f->g, "y", STAX_F32, stax_shape2(4, 5));
    f->i = stax_input(f->g, "i", STAX_I32, stax_shape1(3));
    f->b = stax_input(f->g, "b", STAX_BOOL, stax_shape1(3));
    f->u = stax_input(f->g, "u", STAX_U64, stax_shape1(3));
    f->l = stax_input(f->g, "l", STAX_I64, stax_shape1(3));
    f->s = stax_state(f->g, "s", STAX_F32, stax_shape2(2, 3));
    f->k = stax_input(f->g, "k", STAX_I64, stax_shape0());
}

/* Does the message start with this file and a line of the call? A call may span some lines, and
   compilers differ in which one __LINE__ is. */
static bool is_placed(const char *message, int line) {
    const char *at = strstr(message, "graph.c:");
    int found = at ? atoi(at + 8) : 0;
    return found >= line - 8 && found <= line + 8 && strstr(at, ": error: ") != NULL;
}

#define REFUSES(code, piece, ...)                                                            \
    do {                                                                                     \
        fixture f;                                                                           \
        stax_value r = stax_none();                                                          \
        fixture_init(&f);                                                                    \
        __VA_ARGS__;                                                                         \
        (void)r;                                                                             \
        if (stax_graph_status(f.g) != STAX_##code || !strstr(stax_graph_error(f.g), piece))  \
            printf("%d: found %s: %s\n", __LINE__, stax_status_text(stax_graph_status(f.g)), \
                   stax_graph_error(f.g));                                                   \
        CHECK(stax_graph_status(f.g) == STAX_##code);                                        \
        CHECK_HAS(stax_graph_error(f.g), piece);                                             \
        CHECK(is_placed(stax_graph_error(f.g), __LINE__));                                   \
        CHECK_TEXT(stax_error(c), stax_graph_error(f.g));                                    \
        CHECK(r.id == 0);                                                                    \
        CHECK(!stax_ok(f.g));                                                                \
        stax_graph_free(f.g);                                                                \
    } while (0)

static void test_builder_errors(void) {
    stax_value xs[3];
    int64_t sizes[2] = {2, 2};
    REFUSES(E_SHAPE,
            "add(x: f32[2,3], y: f32[4,5]): the shapes do not broadcast: axis 0 of the result: "
            "sizes 2 and 4",
            r = stax_add(f.x, f.y));
    REFUSES(E_DTYPE, "add(u: u64[3], l: i64[3]): u64 and i64 have no common dtype",
            r = stax_add(f.u, f.l));
    REFUSES(E_DTYPE, "neg(b: bool[3]): expected numbers, found bool", r = stax_neg(f.b));
    REFUSES(E_DTYPE, "the literal 1.5 is not a value of i32",
            r = stax_pad(f.i, stax_shape1(1), stax_shape1(1), 1.5, NULL));
    REFUSES(E_DTYPE,
            "add(i: i32[3], 3000000000): the literal 3000000000 does not fit in i32: expected "
            "-2147483648 to 2147483647",
            r = stax_add(f.i, stax_const_int(f.g, 3000000000)));
    REFUSES(E_SHAPE, "inner sizes differ: expected 3, found 4", r = stax_matmul(f.x, f.y));
    REFUSES(E_SHAPE, "hint: the last size of the left operand", r = stax_matmul(f.x, f.y));
    REFUSES(E_ARGUMENT, "axis 2 is out of range for rank 2: expected -2 to 1",
            r = stax_sum(f.x, stax_axes1(2), false));
    REFUSES(E_ARGUMENT, "axis 1 is given twice", r = stax_sum(f.x, stax_axes2(1, -1), false));
    REFUSES(E_ARGUMENT, "axis 127 is out of range", r = stax_sum(f.x, stax_axes1(1000), false));
    REFUSES(E_SHAPE, "the number of elements: expected 6, found 8",
            r = stax_reshape(f.x, stax_shape2(2, 4)));
    REFUSES(E_SHAPE, "at most one -1, found -1", r = stax_reshape(f.x, stax_shape2(-1, -1)));
    REFUSES(E_ARGUMENT, "expected all 2 axes, found 1", r = stax_permute(f.x, stax_axes1(0)));
    REFUSES(E_ARGUMENT, "attribute axes is needed", stax_axes a; memset(&a, 0, sizeof a);
            r = stax_permute(f.x, a));
    REFUSES(E_SHAPE, "axis 0: expected size 1, found 2", r = stax_squeeze(f.x, stax_axes1(0)));
    REFUSES(E_SHAPE, "must broadcast to f32[2,4], found f32[2,3]",
            r = stax_expand(f.x, stax_shape2(2, 4)));
    REFUSES(E_ARGUMENT, "attribute starts: expected 2 entries, found 1",
            r = stax_slice(f.x, stax_shape1(0), stax_shape0(), stax_shape0()));
    REFUSES(E_ARGUMENT, "axis 1: expected a number other than 0, found 0",
            r = stax_slice(f.x, stax_shape0(), stax_shape0(), stax_shape2(1, 0)));
    REFUSES(E_SHAPE, "the sum of sizes: expected 3, found 4", r = stax_split(f.x, sizes, 2, 1, xs);
            CHECK(xs[0].id == 0 && xs[1].id == 0));
    REFUSES(E_ARGUMENT, "expected 1 to 255 entries, found 0", r = stax_split(f.x, sizes, 0, 1, xs));
    REFUSES(E_SHAPE, "the sizes outside the axis differ: expected 3, found 5", xs[0] = f.x;
            xs[1] = f.y; r = stax_concat(xs, 2, 0));
    REFUSES(E_SHAPE, "the shapes differ: expected 2, found 4", xs[0] = f.x; xs[1] = f.y;
            r = stax_stack(xs, 2, 0));
    REFUSES(E_ARGUMENT, "concat: operand 1 is none and cannot be left out", xs[0] = f.x;
            xs[1] = stax_none(); xs[2] = f.x; r = stax_concat(xs, 3, 0));
    REFUSES(E_SHAPE, "a window of 4 with step 1 does not fit axis 1 of size 3",
            r = stax_unfold(f.x, 1, 4, 1));
    REFUSES(E_SHAPE, "axis 0 of size 2 cannot be cropped by -2 and -1",
            r = stax_pad(f.x, stax_shape2(-2, 0), stax_shape2(-1, 0), 0, NULL));
    REFUSES(E_ARGUMENT, "attribute mode: expected one of constant|reflect|edge|wrap, found mirror",
            r = stax_pad(f.x, stax_shape0(), stax_shape0(), 0, "mirror"));
    REFUSES(E_ARGUMENT, "attribute approximate: expected one of none|tanh, found x",
            r = stax_gelu(f.x, "x"));
    REFUSES(E_ARGUMENT, "attribute axis: expected an axis, found nothing",
            r = stax_iota(f.g, stax_shape2(2, 3), STAX_NONE));
    REFUSES(E_DTYPE, "expected a number dtype, found bool",
            r = stax_iota_as(f.g, stax_shape1(2), 0, STAX_BOOL));
    REFUSES(E_SHAPE, "attribute shape: expected sizes >= 0, found -4",
            r = stax_iota(f.g, stax_shape1(-4), 0));
    REFUSES(E_DTYPE, "expected integer indices, found f32", r = stax_gather(f.x, f.y, 0));
    REFUSES(E_SHAPE, "the indices: expected 2 axes, found 1",
            r = stax_take_along_axis(f.x, f.i, 0));
    REFUSES(E_DTYPE, "expected a bool condition, found f32", r = stax_where(f.x, f.x, f.x));
    REFUSES(E_ARGUMENT, "attribute dtype: expected a dtype, found a dtype",
            r = stax_cast(f.x, (stax_dtype)99));
    REFUSES(E_DTYPE, "cannot reinterpret f32 as i64: expected equal widths, found 32 and 64 bits",
            r = stax_bitcast(f.x, STAX_I64));
    REFUSES(E_DTYPE, "expected a float dtype, found i32",
            r = stax_mean_as(f.x, stax_axes_all(), false, STAX_I32));
    REFUSES(E_DTYPE, "expected a dtype to compute in, found f8e4m3",
            r = stax_sum_as(f.x, stax_axes_all(), false, STAX_F8E4M3));
    REFUSES(E_DTYPE, "expected a key u64[] or u32[2], found f32[2,3]",
            r = stax_normal(f.x, stax_shape1(3)));
    REFUSES(E_ARGUMENT, "contracted axes: expected as many on both sides, found 1 and 0",
            r = stax_dot(f.x, f.x, stax_axes1(0), stax_axes0(), stax_axes0(), stax_axes0()));
    REFUSES(E_SHAPE, "the scale does not fit the normalised axes: expected size 2, found 3",
            r = stax_layer_norm(f.x, f.i, stax_none(), stax_axes1(0), 1e-5));
    REFUSES(E_NAME, "input x is declared twice", r = stax_input(f.g, "x", STAX_F32, stax_shape0()));
    REFUSES(E_NAME, "expected a name of letters, digits and _, found \"a b\"",
            r = stax_input(f.g, "a b", STAX_F32, stax_shape0()));
    REFUSES(E_NAME, "found \"\"", r = stax_input(f.g, NULL, STAX_F32, stax_shape0()));
    REFUSES(E_NAME, "found \"f32\"", r = stax_input(f.g, "f32", STAX_F32, stax_shape0()));
    REFUSES(E_SHAPE, "z: axis 1: expected a size >= 0, found -7",
            r = stax_input(f.g, "z", STAX_F32, stax_shape2(1, -7)));
    REFUSES(E_SHAPE, "z: expected at most 8 axes, found 9", stax_shape s = stax_shape0();
            s.rank = 9; r = stax_input(f.g, "z", STAX_F32, s));
    REFUSES(E_DTYPE, "z: expected a dtype, found 77",
            r = stax_input(f.g, "z", (stax_dtype)77, stax_shape0()));
    REFUSES(E_OVERFLOW, "more bytes than 63 bits count",
            r = stax_input(f.g, "z", STAX_F32, stax_shape2(4294967296, 4294967296)));
    REFUSES(E_ARGUMENT, "const: expected 3 elements, found no data",
            r = stax_const_data(f.g, STAX_F32, stax_shape1(3), NULL));
    REFUSES(E_MEMORY, "memory",
            r = stax_const_data(f.g, STAX_F32, stax_shape1((int64_t)1 << 60), "x"));
    REFUSES(E_SHAPE, "x: strides: expected 2 entries, found 1",
            stax_input_strides(f.x, stax_shape1(3)));
    REFUSES(E_ARGUMENT, "stax_input_layout: expected an input of the graph",
            stax_value v = stax_relu(f.x);
            stax_input_layout(v, STAX_STRIDED));
    REFUSES(E_NAME, "output: expected a name of letters, digits and _, found \"z z\"",
            stax_output(f.g, "z z", f.x));
    REFUSES(E_NAME, "output y: another value has this name", stax_output(f.g, "y", f.x));
    REFUSES(E_ARGUMENT, "output z: expected a value of this graph", stax_value v = f.x; v.id = 0;
            stax_output(f.g, "z", v));
    REFUSES(E_ARGUMENT, "expected an inout parameter", stax_assign(f.x, f.x));
    REFUSES(E_DTYPE, "assignment does not convert: expected f32, found i32", stax_assign(f.s, f.i));
    REFUSES(E_SHAPE, "the value must broadcast to f32[2,3], found f32[4,5]", stax_assign(f.s, f.y));
    REFUSES(E_SHAPE, "the value must broadcast to f32[1,3], found f32[2,3]",
            stax_assign_slice(f.s, f.x, stax_shape2(0, 0), stax_shape2(1, 3), stax_shape0()));
    REFUSES(E_ARGUMENT, "expand gives no view: its elements are not each an element of their own",
            stax_value t = stax_transpose(stax_expand(f.s, stax_shape3(2, 2, 3)));
            stax_assign(t, f.x));
    REFUSES(E_ARGUMENT, "or a view of one as the first operand, found the result of neg",
            stax_assign(stax_flip(stax_neg(f.s), stax_axes1(0)), f.x));
    REFUSES(E_SHAPE, "the value must broadcast to f32[3,2], found f32[2,3]",
            stax_assign(stax_transpose(f.s), f.x));
    REFUSES(E_SHAPE, "the value must broadcast to f32[1,3], found f32[2,3]",
            r = stax_slice_scatter(f.x, f.x, stax_shape2(1, 0), stax_shape0(), stax_shape0()));
    REFUSES(E_DTYPE, "assignment does not convert: expected f32, found i32",
            r = stax_slice_scatter(f.x, f.i, stax_shape0(), stax_shape0(), stax_shape0()));
    REFUSES(E_ARGUMENT, "sum: attribute order: expected runs like",
            r = stax_sum(f.x, stax_axes_all(), false);
            stax_set_order(r, "[0]"); r = stax_none());
    REFUSES(E_ARGUMENT, "relu has no order", r = stax_relu(f.x); stax_set_order(r, "[0]");
            r = stax_none());
    REFUSES(E_DTYPE, "the condition: expected bool[], found bool[3]",
            stax_graph *t = stax_region(f.g, "then"), *e = stax_region(f.g, "else");
            stax_output(t, "r", f.x); stax_output(e, "r", f.x); r = stax_cond(f.b, t, e, xs, 1));
    REFUSES(E_SHAPE, "else: result 0: expected f32[2,3], found f32[4,5]",
            stax_graph *t = stax_region(f.g, "then"), *e = stax_region(f.g, "else");
            stax_output(t, "r", f.x); stax_output(e, "r", f.y);
            r = stax_cond(stax_all(f.b, stax_axes_all(), false), t, e, xs, 1));
    REFUSES(E_ARGUMENT, "loop(k: i64[], x: f32[2,3]): body: expected 2 parameters, found 0",
            stax_graph *t = stax_region(f.g, "body");
            stax_output(t, "r", f.x); r = stax_loop(f.k, &f.x, 1, t, xs));
    REFUSES(E_ARGUMENT, "w: a region has plain parameters, no param or inout",
            r = stax_param(stax_region(f.g, "body"), "w", STAX_F32, stax_shape0()));
    REFUSES(E_ARGUMENT, "belongs to a region that does not surround this call",
            stax_graph *t = stax_region(f.g, "a"), *e = stax_region(f.g, "b");
            r = stax_add(stax_input(t, "p", STAX_F32, stax_shape0()),
                         stax_input(e, "q", STAX_F32, stax_shape0())));
    REFUSES(E_ARGUMENT, "s was assigned after region body used it",
            stax_graph *t = stax_region(f.g, "body");
            stax_input(t, "i", STAX_I64, stax_shape0());
            stax_value a = stax_input(t, "a", STAX_F32, stax_shape2(2, 3));
            stax_output(t, "r", stax_add(a, f.s)); stax_assign(f.s, f.x);
            r = stax_loop(f.k, &f.x, 1, t, xs));
    REFUSES(E_ARGUMENT, "add: operand 1 belongs to another graph",
            stax_graph *h = stax_graph_new(c);
            stax_value v = stax_input(h, "v", STAX_F32, stax_shape0()); r = stax_add(f.x, v);
            stax_graph_free(h));
    REFUSES(E_SHAPE, "cannot prove equal: sizes n and m", int64_t n = stax_symbol(f.g, "n", 1, 9),
            m = stax_symbol(f.g, "m", 1, 9);
            r = stax_add(stax_input(f.g, "p", STAX_F32, stax_shape1(n)),
                         stax_input(f.g, "q", STAX_F32, stax_shape1(m))));
    REFUSES(E_SHAPE, "cannot prove equal: expected n*m, found n*2",
            int64_t n = stax_symbol(f.g, "n", 1, 9), m = stax_symbol(f.g, "m", 1, 9);
            r = stax_reshape(stax_input(f.g, "p", STAX_F32, stax_shape2(n, m)), stax_shape2(n, 2)));
}

static void test_symbols(void) {
    stax_graph *g = stax_graph_new(c);
    int64_t n = stax_symbol(g, "n", 1, 64);
    stax_value x = stax_input(g, "x", STAX_F32, stax_shape2(n, 8)), y;
    CHECK(stax_symbol(g, "n", 1, 64) == n && staxi_size_is_handle(n));
    CHECK(stax_size_add(g, 2, 3) == 5 && stax_size_mod(g, -7, 4) == 1 &&
          stax_size_floordiv(g, -7, 2) == -4);
    CHECK(stax_size_mul(g, n, 8) == stax_size_mul(g, 8, n) && stax_size_sub(g, n, n) == 0);
    y = stax_reshape(x, stax_shape1(stax_size_mul(g, n, 8)));
    y = stax_reshape(y, stax_shape2(-1, 4));
    stax_output(g, "y", y);
    CHECK(stax_ok(g));
    CHECK(g->values[y.id].type.dims[0] == staxi_size_ix(g, stax_size_mul(g, n, 2)));
    CHECK(stax_symbol(g, "n", 1, 65) == 0 && stax_graph_status(g) == STAX_E_NAME);
    CHECK(strstr(stax_graph_error(g), "expected 1..64, found 1..65") != NULL);
    stax_graph_free(g);
    g = stax_graph_new(c);
    CHECK(stax_symbol(g, "n", 5, 2) == 0 && stax_graph_status(g) == STAX_E_ARGUMENT);
    stax_graph_free(g);
    g = stax_graph_new(c);
    CHECK(stax_size_mul(g, INT64_MAX / 4, 100) == 0 && stax_graph_status(g) == STAX_E_OVERFLOW);
    stax_graph_free(g);
    g = stax_graph_new(c);
    CHECK(stax_size_mod(g, 3, 0) == 0 && stax_graph_status(g) == STAX_E_ARGUMENT);
    stax_graph_free(g);
}

static void test_locations(void) {
    stax_graph *g = stax_graph_new(c);
    stax_value x = stax_input(g, "x", STAX_F32, stax_shape1(3)), y, z;
    int first = __LINE__ + 1;
    y = stax_add(stax_relu(x), /* nested calls keep their own lines */
                 stax_exp(x));
    { /* of a call over two lines compilers take the first or the last */
        uint32_t line = g->nodes[g->values[y.id].node].place & 0xfffff;
        CHECK(line == (uint32_t)first || line == (uint32_t)first + 1);
    }
    z = stax_iota(g, stax_shape1(3), 0);
    CHECK((g->nodes[g->values[z.id].node].place & 0xfffff) == (uint32_t)first + 6);
    CHECK(g->n_files == 1 && strcmp(g->files[0].name, __FILE__) == 0);
    y = (stax_relu)(x); /* a plain call has no place of its own */
    CHECK(g->nodes[g->values[y.id].node].place == 0);
    y = stax_at(x, "other.c", 7);
    CHECK(y.place == (2u << 20 | 7));
    y = stax_at(x, "other.c", 2000000);
    CHECK(y.place == (2u << 20 | 0xfffff));
    y = (stax_reshape)(stax_at(x, "net.c", 41), stax_shape1(4));
    CHECK(strncmp(stax_graph_error(g), "net.c:41: error: reshape(x: f32[3]): ", 37) == 0);
    CHECK(y.id == 0 && y.graph == g);
    y = stax_add(stax_relu(y), x);
    CHECK(y.id == 0 && strncmp(stax_graph_error(g), "net.c:41:", 9) == 0); /* the first one stays */
    stax_graph_free(g);
    CHECK(stax_relu(stax_none()).id == 0 && !stax_ok(NULL) && *stax_graph_error(NULL));
}

static void build_functions(stax_value x, stax_value i) {
    stax_graph *g = x.graph;
    stax_value out[2], xs[2];
    xs[0] = xs[1] = i;
    (void)stax_relu6(x);
    (void)stax_hardtanh(x, -1, 1);
    (void)stax_softsign(x);
    (void)stax_tanhshrink(x);
    (void)stax_softshrink(x, 0.5);
    (void)stax_hardshrink(x, 0.5);
    (void)stax_celu(x, 1);
    (void)stax_logsigmoid(x);
    (void)stax_threshold(x, 0, 1);
    (void)stax_logit(x);
    (void)stax_prelu(x, i);
    (void)stax_glu(x, 0);
    (void)stax_signbit(x);
    (void)stax_nan_to_num(x, 0, INFINITY, -INFINITY);
    (void)stax_frexp(x, out);
    (void)stax_ldexp(out[0], out[1]);
    (void)stax_nextafter(x, x);
    (void)stax_isclose(x, i, 1e-5, 1e-8, true);
    (void)stax_diagonal(x, 1, 0, 1);
    (void)stax_diag(i, -1);
    (void)stax_repeat(x, 2, STAX_NONE);
    (void)stax_meshgrid(xs, 2, "ij", out);
    (void)stax_arange(g, 0, 3, 1);
    (void)stax_arange_as(g, 0, 3, 0.5, STAX_F64);
    (void)stax_linspace(g, 0, 1, 3, true);
    (void)stax_linspace_as(g, 0, 1, 3, false, STAX_I32);
    (void)stax_index_select(x, i, 1);
    (void)stax_embedding(i, x);
    (void)stax_masked_fill(x, stax_isnan(x), stax_const(g, 0));
    (void)stax_trace(x, 0, 0, 1);
    (void)stax_trace_as(x, 0, 0, 1, STAX_F64);
    (void)stax_outer(x, i);
    (void)stax_kron(x, i);
    (void)stax_cross(x, i, -1);
    (void)stax_mse_loss(x, i, NULL);
    (void)stax_l1_loss(x, i, "sum");
    (void)stax_huber_loss(x, i, 1, "none");
    (void)stax_smooth_l1_loss(x, i, 1, NULL);
    (void)stax_binary_cross_entropy(x, x, NULL);
    (void)stax_binary_cross_entropy_with_logits(x, x, NULL);
    (void)stax_kl_div(x, x, NULL);
    (void)stax_nll_loss(x, stax_slice(i, stax_shape1(1), stax_shape0(), stax_shape0()), -1, NULL);
}

/* The composites. x: f32[2,3], i: i32[3], k: u64[] */
static void build_composites(stax_value x, stax_value i, stax_value k) {
    stax_value none = stax_none();
    (void)stax_select(x, 1, -1);
    (void)stax_one_hot(i, 3);
    (void)stax_one_hot_as(i, 3, STAX_I8);
    (void)stax_tril(x, 0);
    (void)stax_triu(x, -1);
    (void)stax_norm(x, 2, stax_axes_all(), false);
    (void)stax_group_norm(x, none, i, 3, 1e-5);
    (void)stax_batch_norm(x, i, i, none, i, 1e-5);
    (void)stax_cross_entropy(x, stax_slice(i, stax_shape1(1), stax_shape0(), stax_shape0()), -1);
    (void)stax_dropout(x, k, 0.5);
    stax_value image = stax_unsqueeze(x, stax_axes1(0));
    stax_shape omitted = stax_shape0();
    (void)stax_conv(image, image, none, omitted, "[[1, 0]]", omitted, 1);
    (void)stax_conv_as(image, image, none, stax_shape1(2), "same", stax_shape1(2), 1, STAX_F64);
    (void)stax_conv_transpose(image, stax_reshape(x, stax_shape3(2, 1, 3)), none, stax_shape1(2),
                              NULL, omitted, 1, stax_shape1(1));
    (void)stax_max_pool(x, stax_shape1(2), omitted, NULL, false);
    (void)stax_avg_pool(x, stax_shape2(2, 2), stax_shape2(1, 1), "[[1,1],[0,1]]", true, true);
    (void)stax_lp_pool(x, stax_shape1(2), omitted, "valid", false, 3);
    (void)stax_adaptive_max_pool(x, stax_shape1(2));
    (void)stax_adaptive_avg_pool(x, stax_shape2(STAX_NONE, 1));
    (void)stax_resize(x, stax_shape2(4, 2), NULL, NULL, NULL);
    (void)stax_einsum(&x, 1, "ij->ji");
    (void)stax_einsum_as(&x, 1, "ij", STAX_F64);
    (void)stax_attention(x, x, x, none, true, 0);
    build_functions(x, i);
    (void)stax_resize(x, stax_shape2(4, 2), "cubic", "asymmetric", NULL);
    (void)stax_resize(x, stax_shape2(4, 2), "nearest", "half_pixel", "round_half_down");
}

/* One graph with every op of this version, built by the C functions. */
static stax_graph *build_everything(void) {
    static const double numbers_of_init[1] = {-0.0};
    static const float numbers[4] = {1, 2, 3, 4};
    stax_graph *g = stax_graph_new(c), *r, *r2;
    stax_value x, i, b, s, k, v, v2, xs[3], out[4];
    int64_t sizes[2] = {1, 2};
    if (!g) return NULL;
    x = stax_input(g, "x", STAX_F32, stax_shape2(2, 3));
    i = stax_input(g, "i", STAX_I32, stax_shape1(3));
    b = stax_input(g, "b", STAX_BOOL, stax_shape1(3));
    s = stax_state(g, "s", STAX_F32, stax_shape2(2, 3));
    k = stax_param(g, "k", STAX_U64, stax_shape0());
    stax_input_layout(x, STAX_STRIDED);
    stax_input_strides(i, stax_shape1(2));
#define U(op) v = stax_##op(x)
    U(neg);
    U(abs);
    U(quiet);
    U(sign);
    U(floor);
    U(ceil);
    U(round);
    U(trunc);
    U(sqrt);
    U(rsqrt);
    U(cbrt);
    U(reciprocal);
    U(square);
    U(exp);
    U(exp2);
    U(expm1);
    U(log);
    U(log2);
    U(log10);
    U(log1p);
    U(sin);
    U(cos);
    U(tan);
    U(asin);
    U(acos);
    U(atan);
    U(sinh);
    U(cosh);
    U(tanh);
    U(asinh);
    U(acosh);
    U(atanh);
    U(erf);
    U(erfc);
    U(sigmoid);
    U(logical_not);
    U(isnan);
    U(isinf);
    U(isfinite);
    U(relu);
    U(selu);
    U(silu);
    U(mish);
    U(softplus);
    U(hardsigmoid);
    U(hardswish);
    U(transpose);
    U(stop_gradient);
    U(checkpoint);
    U(barrier);
    v = stax_bitwise_not(i);
    v = stax_leaky_relu(x, 0.01);
    v = stax_elu(x, 1.0);
    v = stax_gelu(x, NULL);
    v = stax_gelu(x, "tanh");
#define B(op) v = stax_##op(x, i)
    B(add);
    B(sub);
    B(mul);
    B(div);
    B(floor_divide);
    B(remainder);
    B(fmod);
    B(pow);
    B(maximum);
    B(minimum);
    B(atan2);
    B(hypot);
    B(copysign);
    B(logaddexp);
    B(eq);
    B(ne);
    B(lt);
    B(le);
    B(gt);
    B(ge);
    B(logical_and);
    B(logical_or);
    B(logical_xor);
    v = stax_bitwise_and(i, b);
    v = stax_bitwise_or(i, b);
    v = stax_bitwise_xor(b, b);
    v = stax_shift_left(i, i);
    v = stax_shift_right(i, i);
    v = stax_where(b, x, stax_const(g, 0.5));
    v = stax_clip(i, -INFINITY, 6);
    v = stax_clip(x, 0, 6);
    v = stax_fma(x, x, x);
    v = stax_lerp(x, x, x);
    v = stax_custom(&x, 1, "a * 2", "2 * g");
    v = stax_custom_call(&x, 1, "out[0] = a[0];", stax_shape1(1), NULL);
    v = stax_cast(x, STAX_F8E5M2);
    v = stax_bitcast(x, STAX_U32);
    v = stax_reshape(x, stax_shape1(-1));
    v = stax_permute(x, stax_axes2(1, 0));
    v = stax_expand(x, stax_shape3(4, 2, 3));
    v = stax_unsqueeze(x, stax_axes1(-1));
    v = stax_squeeze(v, stax_axes1(2));
    v = stax_flip(x, stax_axes_all());
    v = stax_slice(x, stax_shape2(STAX_NONE, 0), stax_shape2(1, STAX_NONE), stax_shape2(1, -1));
    v = stax_roll(x, stax_shape1(2), stax_axes1(1));
    v = stax_pad(x, stax_shape2(1, 0), stax_shape2(0, -1), 7, "constant");
    v = stax_tile(x, stax_shape2(2, 1));
    xs[0] = xs[1] = x;
    xs[2] = stax_relu(x);
    v = stax_concat(xs, 3, -1);
    v = stax_stack(xs, 3, STAX_NONE);
    v = stax_split(x, sizes, 2, 1, out);
    v = stax_add(out[0], out[1]);
    v = stax_unfold(x, 1, 2, 1);
    v = stax_iota(g, stax_shape1(3), 0);
    v = stax_iota_as(g, stax_shape2(2, 2), 1, STAX_F16);
    v = stax_gather(x, i, 0);
    v = stax_gather_mode(x, i, 1, "wrap");
    v = stax_take_along_axis(x, stax_unsqueeze(i, stax_axes1(0)), STAX_NONE);
    v = stax_take_along_axis_mode(x, stax_unsqueeze(i, stax_axes1(0)), 1, "clip");
#define R(op)                               \
    v = stax_##op(x, stax_axes1(-1), true); \
    v = stax_##op##_as(x, stax_axes_all(), false, STAX_F64)
    R(sum);
    R(prod);
    R(max);
    R(min);
    R(mean);
    R(all);
    R(any);
    R(logsumexp);
    v = stax_var(x, stax_axes1(0), 1, false);
    v = stax_std(x, stax_axes_all(), 0, true);
    v = stax_welford(x, stax_axes1(1), 1, true, out);
    v = stax_sum_compensated(x, stax_axes_all(), false);
    v = stax_mean_compensated(x, stax_axes1(0), true);
    v = stax_argmax(x, STAX_NONE, false);
    v = stax_argmin(x, 1, true);
    v = stax_sum(x, stax_axes_all(), false);
    stax_set_order(v, "[0] [1]");
    v = stax_scatter(x, i, stax_const(g, 1.0), 1, "add");
    v = stax_scatter(x, stax_const_int(g, 0), stax_cast(i, STAX_F32), STAX_NONE, NULL);
#define C(op)                             \
    v = stax_##op(x, -1, true, false);    \
    v = stax_##op##_as(i, STAX_NONE, false, true, STAX_F64)
    C(cumsum);
    C(cumprod);
    C(cummax);
    C(cummin);
    C(logcumsumexp);
    v = stax_sort(x, STAX_NONE, true);
    v = stax_argsort(x, 0, false);
    v = stax_topk(x, 2, -1, true, out);
    v = stax_kthvalue(out[0], 1, 0, true, out);
    v = stax_median(x, stax_axes_all(), false);
    v = stax_searchsorted(i, x, NULL);
    v = stax_bucketize(x, i, true);
    v2 = stax_transpose(x);
    v = stax_matmul(x, v2);
    v = stax_matmul_as(i, i, STAX_I64);
    v = stax_dot(x, x, stax_axes1(1), stax_axes1(1), stax_axes0(), stax_axes0());
    v = stax_dot_as(x, x, stax_axes1(0), stax_axes1(0), stax_axes1(1), stax_axes1(1), STAX_F64);
    v = stax_linear(x, x, stax_none());
    v = stax_linear_as(x, x, stax_const(g, 1.0), STAX_F64);
    v = stax_softmax(x, -1);
    v = stax_log_softmax(x, 0);
    v = stax_layer_norm(x, stax_none(), i, stax_axes1(-1), 1e-5);
    v = stax_rms_norm(x, i, stax_axes1(1), 1e-6);
    v = stax_random_bits(k, stax_shape1(4));
    v = stax_uniform(k, stax_shape1(4), 0, 1);
    v = stax_normal_as(stax_const_int(g, 5), stax_shape0(), STAX_F64);
    build_composites(x, i, k);
    v2 = stax_const_data(g, STAX_F32, stax_shape2(2, 2), numbers);
    stax_output(g, "last", v2);
    stax_output(g, "before", s);
    stax_assign(s, x);
    stax_assign_slice(s, stax_const(g, 2.0), stax_shape2(0, 1), stax_shape0(), stax_shape0());
    stax_assign(stax_slice(s, stax_shape2(1, 0), stax_shape0(), stax_shape0()),
                stax_const_int(g, 3));
    stax_assign(stax_flip(stax_transpose(s), stax_axes1(0)), stax_transpose(x));
    stax_assign_slice(stax_reshape(s, stax_shape1(6)), stax_const(g, 1.5), stax_shape1(4),
                      stax_shape0(), stax_shape1(-2));
    v = stax_slice_scatter(s, x, stax_shape0(), stax_shape0(), stax_shape2(-1, 1));
    stax_output(g, "scattered", v);
    r = stax_region(g, "then");
    r2 = stax_region(g, "else");
    stax_output(r, "a", s);
    stax_output(r2, "a", stax_mul(stax_add(x, stax_const(r2, 1.0)), stax_const(g, 2.0)));
    v = stax_cond(stax_const_bool(g, true), r, r2, out, 1);
    stax_output(g, "chosen", v);
    r = stax_region(g, "body");
    v2 = stax_input(r, "j", STAX_I64, stax_shape0());
    v = stax_input(r, "a", STAX_F32, stax_shape2(2, 3));
    stax_output(r, "a2", stax_add(stax_mul(v, v2), x));
    xs[0] = v = stax_loop(stax_const_int(g, 3), &x, 1, r, out);
    stax_output(g, "looped", v);
    r = stax_region(g, "test");
    r2 = stax_region(g, "body");
    v = stax_input(r, "a", STAX_F32, stax_shape2(2, 3));
    stax_output(r, "t", stax_all(stax_lt(v, xs[0]), stax_axes_all(), false));
    v = stax_input(r2, "a", STAX_F32, stax_shape2(2, 3));
    stax_output(r2, "n", stax_add(v, stax_const(r2, 1)));
    v = stax_while(&x, 1, r, r2, out);
    r = stax_region(g, "body");
    v = stax_input(r, "a", STAX_F32, stax_shape1(3));
    stax_output(r, "m", stax_mul(v, v));
    v = stax_map(&x, 1, r, out, 1);
    r = stax_region(g, "body");
    v = stax_input(r, "carried", STAX_F32, stax_shape0());
    v2 = stax_input(r, "a", STAX_F32, stax_shape1(3));
    stax_output(r, "next", stax_add(v, stax_sum(v2, stax_axes_all(), false)));
    stax_output(r, "entry", v2);
    xs[0] = stax_const(g, 0.5);
    v = stax_scan(xs, 1, &x, 1, r, out, 2);
    r = stax_region(g, "step");
    v = stax_input(r, "total", STAX_F32, stax_shape0());
    v2 = stax_input(r, "element", STAX_F32, stax_shape0());
    stax_output(r, "next", stax_add(v, stax_mul(v2, xs[0])));
    r2 = stax_region(g, "combine");
    v = stax_input(r2, "left", STAX_F32, stax_shape0());
    v2 = stax_input(r2, "right", STAX_F32, stax_shape0());
    stax_output(r2, "both", stax_add(v, v2));
    v = stax_reduce(&x, 1, stax_axes1(-1), numbers_of_init, 1, true, r, r2, out);
    stax_output(g, "x_again", x);
    stax_output(g, "s", s);
    stax_output(g, "literal", stax_const(g, 0.1));
    stax_graph_name(g, "everything");
    stax_graph_option(g, "contraction", "unfused");
    return g;
}

static void test_everything(void) {
    stax_graph *g = build_everything();
    char *text;
    bool seen[STAX_OP_COUNT];
    memset(seen, 0, sizeof seen);
    if (!stax_ok(g)) printf("%s\n", stax_graph_error(g));
    CHECK(stax_ok(g));
    CHECK(staxi_graph_verify(g, "build"));
    for (size_t k = 1; k < g->n_nodes; k++) seen[g->nodes[k].op] = true;
    for (int op = 1; op < STAX_OP_COUNT; op++) {
        if (!seen[op] && staxi_op_info((stax_op)op)->cls != STAXI_CLASS_LATER)
            printf("not built: %s\n", staxi_op_name((stax_op)op));
        CHECK(seen[op] || staxi_op_info((stax_op)op)->cls == STAXI_CLASS_LATER);
    }
    text = stax_print(g);
    {
        stax_graph *h = stax_parse(c, "everything", text);
        char *again = stax_print(h);
        if (!h) printf("%s\n%s", stax_error(c), text);
        CHECK(h && strcmp(text, again) == 0);
        if (h && strcmp(text, again) != 0) printf("%s\n----\n%s", text, again);
        stax_free(c, again);
        stax_graph_free(h);
    }
    CHECK(strstr(text,
                 "graph everything(x: f32[2,3] strided, i: i32[3] strides [2], b: bool[3], inout "
                 "s: f32[2,3], param k: u64[]) {contraction=\"unfused\"} {\n"));
    CHECK(strstr(text, "return last, before, scattered, chosen, looped, x_again, s, literal\n"));
    stax_free(c, text);
    stax_graph_free(g);
    CHECK(nothing_is_live());
}

static void test_semantics(void) {
    stax_graph *g = stax_graph_new(c);
    stax_value p = stax_state(g, "p", STAX_F32, stax_shape1(4)), before, after;
    const staxi_node *n;
    before = stax_neg(p);
    stax_assign(p, stax_const(g, 1.0));
    after = stax_neg(p);
    n = g->nodes;
    CHECK(n[g->values[before.id].node].sources[0] == p.id);
    CHECK(n[g->values[after.id].node].sources[0] == g->inputs[0].current &&
          g->inputs[0].current != p.id);
    stax_output(g, "p", p);
    stax_assign(p, stax_const(g, 2.0)); /* an output with the state's name is the final contents */
    CHECK(g->outputs[0].value == g->inputs[0].current);
    CHECK(stax_ok(g));
    g->nodes[2].sources = &g->values[after.id].node; /* break it: the verifier must name the node */
    CHECK(!staxi_graph_verify(g, "a pass") && stax_graph_status(g) == STAX_E_INTERNAL);
    CHECK(strstr(stax_graph_error(g),
                 "after a pass: node 2 (neg) of graph g: an operand is not made before it"));
    stax_graph_free(g);
}

static void test_named(void) {
    const char *text = "graph a() {}\ngraph b(x: f32[2]) { y = relu x; return y }\n";
    stax_graph *g = stax_parse_named(c, "two", text, "b");
    CHECK(g && strcmp(g->name, "b") == 0 && g->n_inputs == 1);
    stax_graph_free(g);
    g = stax_parse(c, "two", text);
    CHECK(g && strcmp(g->name, "a") == 0);
    stax_graph_free(g);
    CHECK(!stax_parse_named(c, "two", text, "c") && stax_error_status(c) == STAX_E_NAME &&
          strstr(stax_error(c), "graph c is not here"));
    CHECK(!stax_parse(c, NULL, NULL) && stax_error_status(c) == STAX_E_SYNTAX);
    CHECK(nothing_is_live());
}

/* ---- allocation failures: every n-th ---- */

static void test_no_memory(void) {
    char *text = harness_file(CORPUS "good/regions.stax");
    long n, refused = 0;
    for (n = 1;; n++) {
        stax_graph *g;
        char *out;
        context_open(n);
        g = stax_parse(c, "m", text);
        out = g ? stax_print(g) : NULL;
        if (!g || !out) {
            CHECK(stax_error_status(c) == STAX_E_MEMORY);
            refused++;
        }
        stax_free(c, out);
        stax_graph_free(g);
        CHECK(nothing_is_live());
        if (!counts.failed) break;
    }
    printf("parse and print: %ld allocations, %ld failures reported\n", n - 1, refused);
    CHECK(refused > 10);
    for (n = 1;; n++) {
        stax_graph *g;
        context_open(n);
        g = build_everything();
        if (g && !stax_ok(g) && stax_graph_status(g) != STAX_E_MEMORY)
            printf("%ld: %s\n", n, stax_graph_error(g));
        if (g && !stax_ok(g)) CHECK(stax_graph_status(g) == STAX_E_MEMORY);
        stax_graph_free(g);
        CHECK(nothing_is_live());
        if (!counts.failed) break;
    }
    context_open(0);
    free(text);
}

/* ---- damaged texts: no crash, no leak ---- */

static void damage(const char *text) {
    size_t n = strlen(text);
    char *copy = (char *)malloc(n + 2);
    uint64_t seed = 1;
    for (int k = 0; copy && k < 4000; k++) {
        size_t at, to;
        stax_graph *g;
        memcpy(copy, text, n + 1);
        seed = staxi_hash_u64(seed, (uint64_t)k);
        at = (size_t)(seed % n);
        to = (size_t)((seed >> 20) % n);
        if (k % 4 == 0) copy[at] = '\0';
        if (k % 4 == 1) copy[at] = text[to];
        if (k % 4 == 2) memmove(copy + at, copy + at + 1, n - at);
        if (k % 4 == 3) copy[at] = (char)(seed >> 40);
        g = stax_parse(c, "damaged", copy);
        if (g) {
            char *out = stax_print(g);
            CHECK(staxi_graph_verify(g, "parse"));
            stax_free(c, out);
        }
        stax_graph_free(g);
        CHECK(nothing_is_live());
    }
    free(copy);
}

/* A formula that needs itself would never end: the table has none, and such a table is noticed. */
static void test_formulas_end(void) {
    static const staxi_formula circle[] = {{STAX_OP_RELU6, "(maximum x 0)"},
                                           {STAX_OP_MISH, "(mul x (selu x))"},
                                           {STAX_OP_SELU, "(add (celu x) (relu6 x))"},
                                           {STAX_OP_CELU, "(sub (mish x) 1)"}};
    size_t n = sizeof staxi_formulas / sizeof staxi_formulas[0];
    CHECK_INT(staxi_formula_circle(staxi_formulas, n), STAX_OP_NONE);
    CHECK_INT(staxi_formula_circle(circle, 2), STAX_OP_NONE);
    CHECK_INT(staxi_formula_circle(circle, 3), STAX_OP_NONE);
    CHECK(staxi_formula_circle(circle, 4) != STAX_OP_NONE);
    for (size_t k = 0; k < n; k++) {
        CHECK(staxi_op_info(staxi_formulas[k].op)->cls != STAXI_CLASS_LATER);
        for (size_t j = 0; j < k; j++) CHECK(staxi_formulas[j].op != staxi_formulas[k].op);
    }
}

static void test_damage(void) {
    static const char *const files[] = {CORPUS "good/regions.stax", CORPUS "good/symbols.stax"};
    for (int k = 0; k < 2; k++) {
        char *text = harness_file(files[k]);
        damage(text);
        free(text);
    }
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    context_open(0);
    RUN_NAMED("dtypes", test_dtypes);
    RUN_NAMED("table", test_table);
    RUN_NAMED("symbols", test_symbols);
    RUN_NAMED("locations", test_locations);
    RUN_NAMED("builder_errors", test_builder_errors);
    RUN_NAMED("everything", test_everything);
    RUN_NAMED("semantics", test_semantics);
    RUN_NAMED("named", test_named);
    RUN_NAMED("corpus", test_corpus);
    RUN_NAMED("no_memory", test_no_memory);
    RUN_NAMED("formulas_end", test_formulas_end);
    RUN_NAMED("damage", test_damage);
    stax_close(c);
    return HARNESS_END();
}
