/* cond, while and loop in compiled programs: pieces of C, called by steps of the host. Every
   program here is compiled under strict and must give the interpreter's bits, states and statuses.
 */
#include <time.h>

#include "feed.h"
#include "harness.h"
#include "heap.h"
#include "programs.h"

static heap h;

static void open_context(int threads) {
    stax_options o = heap_options(&h);
    o.strict = 1;
    o.n_threads = threads;
    ctx = stax_open(&o);
}

/* Gives the i64 scalar of that name a value; names: "n=5". */
static void set_number(feed *f, const char *setting) {
    size_t n = strcspn(setting, "=");
    int64_t value = setting[n] ? strtoll(setting + n + 1, NULL, 10) : 0;
    for (int k = 0; k < f->n_all; k++)
        if (strlen(f->names[k]) == n && memcmp(f->names[k], setting, n) == 0) {
            if (f->all[k].dtype == STAX_BOOL)
                *(uint8_t *)f->all[k].data = (uint8_t)value;
            else
                memcpy(f->all[k].data, &value, sizeof value);
        }
}

static int make_feed(feed *f, const stax_graph *g, int64_t size, const char *setting) {
    if (!CHECK(feed_make(f, g, size, 3))) return 0;
    for (; setting && *setting; setting += strcspn(setting, " "), setting += *setting == ' ')
        set_number(f, setting);
    return 1;
}

/* One call: the same status, message and bits. Returns the status. */
static stax_status agree_once(const stax_graph *g, stax_program *p, int64_t size,
                              const char *setting) {
    static feed a, b;
    char message[500] = "";
    stax_status want, got;
    if (!make_feed(&a, g, size, setting) || !make_feed(&b, g, size, setting)) return STAX_E_MEMORY;
    want = stax_interpret(g, a.all, a.outputs);
    if (want != STAX_OK) snprintf(message, sizeof message, "%s", stax_error(ctx));
    CHECK_INT(feed_bind(p, &b), STAX_OK);
    CHECK_INT(stax_workspace_bytes(p, b.slots), 0);
    got = stax_run_with(p, b.slots, b.outputs, NULL, 0);
    if (!CHECK_INT(got, want)) printf("   %s: %s\n", setting ? setting : "", stax_error(ctx));
    if (want == STAX_OK && !CHECK(feed_equal(&a, &b))) printf("   %s\n", setting ? setting : "");
    if (want == STAX_E_INDEX) CHECK_TEXT(stax_error(ctx), message);
    feed_free(&a);
    feed_free(&b);
    return got;
}

/* A program with tensors for it; NULL: that failed, and nothing is left. */
static stax_program *ready(const char *text, const char *setting, stax_graph **g, feed *f) {
    stax_program *p;
    *g = parsed(text);
    p = *g ? compiled(*g) : NULL;
    if (p && make_feed(f, *g, 1, setting)) return p;
    stax_program_free(p);
    stax_graph_free(*g);
    return NULL;
}
static void unready(stax_program *p, stax_graph *g, feed *f) {
    feed_free(f);
    stax_program_free(p);
    stax_graph_free(g);
}

/* settings: a list that ends with NULL; the graph runs for each, twice in all. */
static void agree(const char *text, int64_t size, const char *const *settings) {
    stax_graph *g = parsed(text);
    stax_program *p = g ? compiled(g) : NULL;
    for (int again = 0; p && again < 2; again++)
        for (const char *const *s = settings; *s; s++)
            CHECK_INT(agree_once(g, p, size, *s), STAX_OK);
    stax_program_free(p);
    stax_graph_free(g);
}

static const char *const plain[] = {"", NULL};

/* ---- what programs do ---------------------------------------------------------------------------
 */

static const char power[] =
    "graph power(x: f32[9,9], e: f32[9,9], n: i64[]) {\n"
    "  r, b, k = while e, x, n {\n"
    "    test(r: f32[9,9], b: f32[9,9], k: i64[]) { c = gt k, 0; return c }\n"
    "    body(r: f32[9,9], b: f32[9,9], k: i64[]) {\n"
    "      low = bitwise_and k, 1; odd = eq low, 1\n"
    "      rb = matmul r, b; s = where odd, rb, r; bb = matmul b, b; h = shift_right k, 1\n"
    "      return s, bb, h }\n"
    "  }\n"
    "  return r\n"
    "}";

static void test_power(void) {
    static const char *const settings[] = {"n=0", "n=1", "n=2", "n=5", "n=13", "n=1000", NULL};
    agree(power, 1, settings);
}

static const char nested[] =
    "graph nested(x: f32[33], w: f32[33], n: i64[], m: i64[], p: bool[]) {\n"
    "  y = mul w, 0.25\n"
    "  z, k = while x, n {\n"
    "    test(a: f32[33], i: i64[]) { c = gt i, 0; return c }\n"
    "    body(a: f32[33], i: i64[]) {\n"
    "      b = add a, y\n"
    "      d = cond p {\n"
    "        then() {\n"
    "          t = loop m, b { body(j, q) { f = cast j {dtype=f32}; g = mul q, 0.5; o = add g, f\n"
    "              o2 = add o, w; return o2 } }\n"
    "          u = add t, x; return u }\n"
    "        else() { u = sub b, y; return u }\n"
    "      }\n"
    "      j = sub i, 1\n"
    "      return d, j }\n"
    "  }\n"
    "  s = sum z {axes=[0]}\n"
    "  return z, s, k\n"
    "}";

static void test_nested(void) {
    static const char *const settings[] = {"n=3 m=4 p=1", "n=3 m=4 p=0",  "n=0 m=4 p=1",
                                           "n=5 m=0 p=1", "n=1 m=-3 p=1", NULL};
    agree(nested, 1, settings);
}

static void test_captures(void) {
    agree(
        "graph captures(x: f32[4,3] strided, param w: f32[3], inout s: f64[3] strided, c: bool[]) "
        "{\n"
        "  t = const f32[3] {1, 2, 4}\n"
        "  e = exp x\n"
        "  y = loop 3, x { body(i, a) {\n"
        "      b = mul a, w; d = add b, t; g = mul e, 0.125; f = add d, g\n"
        "      v = cond c { then() { r = sub f, w; return r } else() { q = cast s {dtype=f32}\n"
        "          r = add e, q; return r } }\n"
        "      return v } }\n"
        "  z = add y, e\n"
        "  o = mul z, t\n"
        "  return y, z, o\n"
        "}",
        1, plain);
}

/* Results that no piece makes: parameters, captures, the counter, the same value twice. */
static void test_passed_through(void) {
    static const char *const settings[] = {"n=0 c=0", "n=1 c=1", "n=4 c=0", "n=7 c=1", NULL};
    agree(
        "graph swap(x: f32[5], y: f32[5], n: i64[]) {\n"
        "  a, b = loop n, x, y { body(i, p, q) { return q, p } }\n  return a, b, x\n}",
        1, settings);
    agree(
        "graph mixed(x: f32[5], y: f32[5], n: i64[], c: bool[]) {\n"
        "  z = const f32[5] {1, 2, 3, 4, 5}\n"
        "  a, b, d, k, e = loop n, x, y, x, 7, y { body(i, p, q, r, l, m) {\n"
        "      t = add p, q; return t, t, y, i, z } }\n"
        "  f, g, v = cond c { then() { return z, a, x } else() { u = neg a; return u, u, d } }\n"
        "  return a, b, d, k, e, f, g, v\n}",
        1, settings);
    agree(
        "graph rotate(x: f32[5], y: f32[5], n: i64[], c: bool[]) {\n"
        "  a, b = loop n, x, y { body(i, p, q) {\n"
        "      s, t = loop 2, p, q { body(j, v, w) { return w, v } }\n"
        "      u = cond c { then() { return t } else() { m = add s, t; return m } }\n"
        "      return u, s } }\n"
        "  o = cond c { then() { return b } else() { return a } }\n"
        "  return o, b\n}",
        1, settings);
    agree(
        "graph only(x: f32[5], c: bool[]) {\n"
        "  a = cond c { then() { return x } else() { r = neg x; return r } }\n  return a\n}",
        1, settings);
}

/* For sizes from 0 up to `most`. */
static void agree_for_sizes(const char *text, int64_t most, const char *const *settings) {
    stax_graph *g = parsed(text);
    stax_program *p = g ? compiled(g) : NULL;
    for (int64_t n = 0; p && n < most; n = n * 2 + 1)
        for (const char *const *s = settings; *s; s++) CHECK_INT(agree_once(g, p, n, *s), STAX_OK);
    stax_program_free(p);
    stax_graph_free(g);
}

static void test_symbolic(void) {
    static const char text[] =
        "sizes n: 0.., m: 1..\n"
        "graph symbolic(x: f32[n,m] strided, w: f32[m], c: bool[], k: i64[]) {\n"
        "  y = loop k, x { body(i, a) { b = matmul a, w; s = unsqueeze b {axes=[1]}; d = mul a, s\n"
        "      e = mul d, 0.01; return e } }\n"
        "  z = cond c { then() { r = concat y, y {axis=0}; return r } else() { r = tile x "
        "{repeats=[2,1]}; return r } }\n"
        "  q = cond c { then() { r = slice w {starts=[1], stops=[none]}; return r } else() { r = "
        "slice w "
        "{starts=[1], stops=[none]}; t = neg r; return t } }\n"
        "  return y, z, q\n}";
    static const char *const settings[] = {"c=0 k=3", "c=1 k=2", "c=1 k=0", NULL};
    agree_for_sizes(text, 140, settings);
}

/* map and scan: several operands, captures, other regions inside, results that are parameters,
   sizes down to 0. */
static const char each[] =
    "sizes n: 0..\n"
    "graph each(x: f32[n,7] strided, k: i32[n], w: f32[7,7], c: bool[], m: i64[]) {\n"
    "  y, s, p = map x, k { body(a, i) {\n"
    "      b = matmul w, a; j = cast i {dtype=f32}; d = add b, j; t = sum d; return d, t, a } }\n"
    "  zero = const f32[7] {0, 0, 0, 0, 0, 0, 0}\n"
    "  h, n1, o, q = scan zero, 1, x, y {carry=2, body(g: f32[7], r: i64[], a, b) {\n"
    "      g2 = cond c { then() { v = mul g, 0.5; u = add v, a; return u } else() { u = sub b, g; return u } }\n"
    "      r2 = loop m, r { body(i2, z) { z2 = add z, i2; return z2 } }\n"
    "      return g2, r2, g, r2 } }\n"
    "  e, f = scan h, x {carry=1, body(g, a) { l = map a { body(z) { z2 = maximum z, 0.25; return z2 } }\n"
    "      g2 = add g, l; st = cumsum g2; return g2, st } }\n"
    "  return y, s, p, h, n1, o, q, e, f\n}";

static void test_each(void) {
    static const char *const settings[] = {"c=0 m=3", "c=1 m=0", NULL};
    agree_for_sizes(each, 40, settings);
    agree(
        "graph states(inout s: f32[4,3], x: f32[4,3], i: i32[4]) {\n"
        "  y = map s, i { body(a, k) { b = gather a, k; return b } }\n"
        "  l, z = scan 0.5, x {carry=1, body(c: f32[], a) { t = sum a; d = add c, t; return d, c } }\n"
        "  u = map x { body(a) { r = neg a; return r } }; assign s, u; return y, l, z, s\n}",
        1, plain);
}

static void refuses_each(const char *statement, const char *part) {
    char text[400];
    snprintf(text, sizeof text, "graph g(x: f32[4,3], y: f32[5], z: f32[]) { %s\n return q }", statement);
    stax_graph *g = stax_parse(ctx, "regions", text);
    if (!CHECK(g == NULL)) printf("%s\n", statement);
    CHECK_HAS(stax_error(ctx), part);
    stax_graph_free(g);
}

static void test_wrong_each(void) {
    refuses_each("q = map x, y { body(a, b) { return a } }", "the sizes of axis 0 differ: expected 4, found 5");
    refuses_each("q = map z { body(a) { return a } }", "operand 0: expected at least 1 axis, found 0");
    refuses_each("q = map x { body(a: f32[4]) { return a } }", "body: parameter 0: expected f32[3], found f32[4]");
    refuses_each("q = map x { body(a, b) { return a } }", "body: expected 1 parameters, found 2");
    refuses_each("q = map x", "expected the regions body, found 0 regions");
    refuses_each("q = scan x { body(a) { return a } }", "carry");
    refuses_each("q = scan x {carry=1, body(a) { return a } }", "attribute carry: expected at most 1 results, and less than 1 operands, found 1");
    refuses_each("q = scan z, x {carry=1, body(a, b) { return b } }", "body: result 0: expected f32[], found f32[3]");
    refuses_each("q = scan 1.5, x {carry=1, body(a: i32[], b) { return a } }", "the literal 1.5 is not a value of i32");
}

static void test_random(void) {
    static const char *const settings[] = {"n=0", "n=6", NULL};
    agree(
        "graph random(n: i64[], x: f32[19]) {\n"
        "  y = loop n, x { body(i, a) { k = cast i {dtype=u64}; u = uniform k {shape=[19]}\n"
        "      v = normal 7 {shape=[19]}; b = add a, u; d = mul b, v; return d } }\n"
        "  return y\n}",
        1, settings);
}

static void test_states(void) {
    static const char *const settings[] = {"n=0", "n=5", NULL};
    agree(
        "graph states(inout s: f32[6] strided, inout t: f32[6], inout c: i64[], n: i64[], x: "
        "f32[6]) {\n"
        "  y, k = loop n, s, c { body(i, a, j) { b = mul a, x; d = add b, t; l = add j, i; return "
        "d, l } }\n"
        "  o = add y, s\n"
        "  assign s, t\n"
        "  assign t, y\n"
        "  assign c, k\n"
        "  return o\n}",
        1, settings);
    agree(
        "graph trade(inout s: f32[6], inout t: f32[6], c: bool[]) {\n"
        "  a = cast s {dtype=f32}\n"
        "  z = cond c { then() { r = add s, t; return r } else() { return s } }\n"
        "  assign s, t\n  assign t, a\n  return z\n}",
        1, plain);
}

/* An output may be exactly an input's memory. */
static void test_in_place(void) {
    static feed a, b;
    stax_graph *g = parsed(nested);
    stax_program *p = compiled(g);
    if (!p || !make_feed(&a, g, 1, "n=2 m=3 p=1") || !make_feed(&b, g, 1, "n=2 m=3 p=1")) return;
    CHECK_INT(stax_interpret(g, a.all, a.outputs), STAX_OK);
    b.outputs[0].data = b.slots[0].data;
    CHECK_INT(stax_run(p, b.slots, b.outputs), STAX_OK);
    CHECK_BYTES(b.outputs[0].data, a.outputs[0].data, 33 * sizeof(float));
    CHECK_BYTES(b.outputs[1].data, a.outputs[1].data, sizeof(float));
    b.outputs[0].data = (char *)b.slots[0].data + 4;
    CHECK_INT(stax_run(p, b.slots, b.outputs), STAX_E_ALIAS);
    feed_free(&a);
    feed_free(&b);
    stax_program_free(p);
    stax_graph_free(g);
}

/* ---- what goes wrong ----------------------------------------------------------------------------
 */

typedef struct call_of {
    int64_t size;
    const char *setting;
    stax_status status;
    const char *message; /* part of it, if it fails */
} call_of;
static void check_calls(const char *text, const call_of *calls, int n) {
    stax_graph *g = parsed(text);
    stax_program *p = g ? compiled(g) : NULL;
    for (int k = 0; p && k < n; k++) {
        CHECK_INT(agree_once(g, p, calls[k].size, calls[k].setting), calls[k].status);
        if (calls[k].message) CHECK_HAS(stax_error(ctx), calls[k].message);
    }
    stax_program_free(p);
    stax_graph_free(g);
}

static void test_index_error(void) {
    static const call_of calls[] = {
        {1, "n=5", STAX_OK, NULL},
        {1, "n=6", STAX_E_INDEX, "gather: index 5 is out of range for an axis of size 5"},
        {1, "n=5", STAX_OK, NULL}};
    check_calls(
        "graph bad(x: f32[5], n: i64[]) {\n"
        "  y = loop n, x { body(i, a) {\n    b = gather a, i {axis=0}\n    d = add a, b; return d "
        "} }\n"
        "  return y\n}",
        calls, 3);
}

/* Sizes below zero and axes without elements count only where they are met. */
static void test_bad_sizes(void) {
    static const call_of calls[] = {{4, "c=1 d=1", STAX_OK, NULL},
                                    {2, "c=1 d=0", STAX_E_SHAPE, "the axis is empty"},
                                    {2, "c=0 d=1", STAX_OK, NULL},
                                    {1, "c=0 d=0", STAX_OK, NULL},
                                    {1, "c=0 d=1", STAX_E_SHAPE, "negative"}};
    check_calls(
        "sizes n: 1..\n"
        "graph sizes_(x: f32[n], c: bool[], d: bool[]) {\n"
        "  y = cond c {\n"
        "    then() { a = slice x {starts=[2], stops=[none]}; b = max a; return b }\n"
        "    else() { b = sum x; return b } }\n"
        "  z = cond d { then() { k = uniform 3 {shape=[n - 2]}; s = sum k; return s } else() { "
        "return y } }\n"
        "  return y, z\n}",
        calls, 5);
}

static void test_unbound(void) {
    static feed f;
    stax_graph *g;
    stax_program *p = ready(
        "graph u(param w: f32[3], c: bool[]) {\n"
        "  y = cond c { then() { return w } else() { r = neg w; return r } }\n"
        "  return y\n}",
        "c=0", &g, &f);
    if (!p) return;
    CHECK_INT(stax_run(p, f.slots, f.outputs), STAX_E_UNBOUND);
    CHECK_INT(stax_export(p, "build", "regions_u", NULL), STAX_E_UNBOUND);
    CHECK_INT(agree_once(g, p, 1, "c=0"), STAX_OK);
    unready(p, g, &f);
}

/* Every allocation of compiling and running fails once, alone or with all after it. */
static void memory_of(const char *text, int64_t least) {
    static feed a, b;
    int64_t live, at = 1, tries = 0;
    stax_graph *g = parsed(text);
    stax_program *p = compiled(g); /* the C compiler's part is in the cache from here on */
    stax_program_free(p);
    if (!p || !make_feed(&a, g, 1, "n=2 m=3 p=1") || !make_feed(&b, g, 1, "n=2 m=3 p=1")) return;
    CHECK_INT(stax_interpret(g, a.all, a.outputs), STAX_OK);
    live = h.blocks;
    for (int done = 0; !done; at++, tries++) {
        stax_status s;
        h.calls = h.failed = 0;
        h.fail_at = at;
        h.from_then_on = (int)(at & 1);
        p = stax_compile(g, NULL);
        s = p ? stax_run(p, b.slots, b.outputs) : stax_error_status(ctx);
        done = !h.failed;
        h.fail_at = 0;
        if (!done) CHECK(s == STAX_E_MEMORY || s == STAX_OK);
        if (p) { /* whatever failed, the next call works */
            if (s == STAX_OK) CHECK(feed_equal(&a, &b));
            CHECK_INT(stax_run(p, b.slots, b.outputs), STAX_OK);
            CHECK(feed_equal(&a, &b));
        }
        stax_program_free(p);
    }
    CHECK(tries > least);
    feed_free(&a);
    feed_free(&b);
    stax_graph_free(g);
    g = parsed("graph warm(x: f32[3]) { return x }"); /* error messages are kept: a fixed number */
    stax_graph_free(g);
    CHECK(h.blocks <= live + 20);
}

static void test_memory(void) {
    memory_of(nested, 100);
    memory_of("graph small(x: f32[2,3], n: i64[], m: i64[], p: bool[]) {\n"
              "  a, b, c = scan 0, x {carry=1, body(k: i64[], y) { k2 = add k, n; s = sum y; return k2, s, y } }\n"
              "  return a, b, c\n}", 50);
}

/* ---- the rest -----------------------------------------------------------------------------------
 */

static void test_many(void) {
    const char *const texts[] = {"graph one(x: f32[7]) { y = exp x; return y }", nested, power,
                                 nested};
    stax_graph *graphs[4];
    stax_program *programs[4];
    for (int k = 0; k < 4; k++) graphs[k] = parsed(texts[k]);
    CHECK_INT(stax_compile_many((const stax_graph *const *)graphs, 4, NULL, programs), STAX_OK);
    for (int k = 0; k < 4 && programs[k]; k++) {
        if (k) CHECK_INT(agree_once(graphs[k], programs[k], 1, "n=3 m=2 p=1"), STAX_OK);
        stax_program_free(programs[k]);
    }
    for (int k = 0; k < 4; k++) stax_graph_free(graphs[k]);
}

static void check_report(const stax_program *p, stax_report what, const char *part) {
    char *text = stax_program_report(p, what);
    CHECK_HAS(text, part);
    stax_free(ctx, text);
}

static void test_reports(void) {
    stax_graph *g = parsed(nested);
    stax_program *p = compiled(g);
    stax_figures f;
    if (p) {
        check_report(p, STAX_REPORT_EXPLAIN, "while, 2 carried values");
        check_report(p, STAX_REPORT_LOOPS, "call piece 0");
        check_report(p, STAX_REPORT_PLAN, "cond");
        check_report(p, STAX_REPORT_EXPLAIN_JSON, "\"step\": \"loop\", \"carried\": 1");
        check_report(p, STAX_REPORT_C, "int stax_call_1(");
        stax_program_free(p);
        stax_graph_free(g);
        g = parsed(each);
        p = compiled(g);
        if (p) check_report(p, STAX_REPORT_EXPLAIN, "each, 2 carried values");
        stax_program_free(p);
        stax_graph_free(g);
        g = parsed(nested);
        p = compiled(g);
        CHECK_INT(stax_program_figures(p, NULL, &f), STAX_OK);
        CHECK(f.kernels > 3 && strcmp(f.origin, "interpreted") != 0);
    }
    stax_program_free(p);
    stax_graph_free(g);
}

/* Regions in regions, as deep as the builder allows. */
static void test_depth(void) {
    static char text[20000];
    enum { DEEP = 60 };
    size_t at = (size_t)sprintf(text, "graph deep(x: f32[4], c: bool[]) {\n");
    for (int k = 0; k < DEEP; k++)
        at += (size_t)sprintf(text + at,
                              k % 2 ? "y%d = loop 1, x { body(i%d, a%d) {\n"
                                    : "y%d = cond c { else() { return x } then() {\n",
                              k, k, k);
    at += (size_t)sprintf(text + at, "y%d = exp x\n", DEEP);
    for (int k = DEEP; k-- > 0;)
        at += (size_t)sprintf(text + at, "z%d = mul y%d, 0.5\nreturn z%d } }\n", k, k + 1, k);
    sprintf(text + at, "return y0\n}");
    static const char *const settings[] = {"c=1", "c=0", NULL};
    agree(text, 1, settings);
}

static double seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

static void test_many_trips(void) {
    static feed f;
    stax_graph *g;
    stax_program *p = ready(
        "graph trips(x: f32[16], n: i64[]) {\n"
        "  y = loop n, x { body(i, a) { b = mul a, 0.5; c = add b, 1.0; return c } }\n"
        "  return y\n}",
        "n=1000", &g, &f);
    double start;
    int64_t calls;
    if (!p) return;
    CHECK_INT(agree_once(g, p, 1, "n=1000"), STAX_OK);
    calls = h.calls;
    start = seconds();
    for (int k = 0; k < 100; k++) CHECK_INT(stax_run(p, f.slots, f.outputs), STAX_OK);
    printf("a trip: %.0f ns\n", (seconds() - start) * 1e9 / 100000.0);
    CHECK_INT(h.calls, calls); /* memory of the last call is used again */
    unready(p, g, &f);
}

static void test_threads(void) {
    stax_close(ctx);
    open_context(3);
    agree(
        "graph wide(x: f32[70000], n: i64[]) {\n"
        "  y = loop n, x { body(i, a) { b = exp a; c = sum b; d = div b, c; return d } }\n"
        "  return y\n}",
        1, plain);
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    (void)feed_graphs;
    open_context(1);
    if (!ctx) return 1;
    RUN(test_power);
    RUN(test_nested);
    RUN(test_captures);
    RUN(test_passed_through);
    RUN(test_symbolic);
    RUN(test_each);
    RUN(test_wrong_each);
    RUN(test_random);
    RUN(test_states);
    RUN(test_in_place);
    RUN(test_index_error);
    RUN(test_bad_sizes);
    RUN(test_unbound);
    RUN(test_memory);
    RUN(test_many);
    RUN(test_reports);
    RUN(test_depth);
    RUN(test_many_trips);
    RUN(test_threads);
    stax_close(ctx);
    if (h.blocks || h.wrong)
        printf("FAIL %d blocks were not freed, %d freed wrongly\n", (int)h.blocks, (int)h.wrong);
    return HARNESS_END() || h.blocks != 0 || h.wrong != 0;
}
