/* Stacks of examples: stax_vmap of every op, for every choice of stacked inputs, gives each example the
   bits of a call of its own, by the interpreter and by a compiled program; gradients of each example;
   Jacobians and Hessians against directional derivatives, in both directions. */
#include <math.h>
#include <stdbool.h>

#include "feed.h"
#include "cases.h"
#include "harness.h"
#include "heap.h"
#include "programs.h"

typedef struct vmap_case {
    const char *inputs, *body; /* "%": f32, "|": a new line */
    double low, high;          /* of gradients.c            */
    int flags;
} vmap_case;

enum { KINKED = 1 };
static const vmap_case cases[] = {
#include "gradient_cases.inc"
    {"a: i32[3,4]", "y = argmax a", 0, 0, 0},
    {"a: %[3,4]", "y = argmin a {axis=1, keepdims=true}", 0, 0, 0},
    {"a: i32[3,4]", "y = cumsum a {axis=1}", 0, 0, 0},
    {"a: i32[3,4]", "y = sum a {axes=[0]}", 0, 0, 0},
    {"a: i32[3,4]", "y = max a", 0, 0, 0},
    {"a: bool[3,4]", "p = all a {axes=[1]}| q = any a {axes=[1]}| y = logical_xor p, q", 0, 0, 0},
    {"a: %[3,7]", "y = argsort a {axis=0, descending=true}", 0, 0, 0},
    {"a: %[3,7]", "v, y = topk a {k=3, largest=false}", 0, 0, 0},
    {"a: %[7], b: %[2,3]", "s = sort a| y = searchsorted s, b", 0, 0, 0},
    {"a: i64[2,3]", "y = one_hot a {size=4}", 0, 0, 0},
    {"a: %[3,4]", "y = bitcast a {dtype=i32}", 0, 0, 0},
    {"a: u8[3,4], b: i32[4]", "c = bitwise_and a, b| y = shift_left c, 1", 0, 0, 0},
    {"a: f16[3,40], b: f16[40,2]", "y = matmul a, b", 0, 0, 0},
    {"a: bf16[3,100]", "y = softmax a", 0, 0, 0},
    {"a: %[100], b: %[100]", "y = dot a, b {lhs_contract=[0], rhs_contract=[0]}", 0, 0, 0},
    {"a: %[5,100], b: %[100]", "y = matmul a, b", 0, 0, 0},
    {"a: %[3,4,300]", "y = sum a {axes=[0,2], order=\"[0] [2]\"}", 0, 0, 0},
    {"a: %[2,3,4], b: i64[2,2]", "y = gather a, b {axis=1, mode=\"clip\"}", 0, 0, 0},
    {"a: %[2,3,4], b: i64[2]", "c = sub b, 2| y = gather a, c {axis=2}", 0, 0, 0},
    {"a: %[2,4,3], b: i64[2], c: %[2,2,3]", "y = scatter a, b, c {axis=1, mode=\"add\"}", 0, 0, 0},
    {"a: u64[]", "y = uniform a {shape=[5,3]}", 0, 0, 0},
    {"a: u32[2]", "y = random_bits a {shape=[6]}", 0, 0, 0},
    {"a: %[3,4], b: u64[]", "y = dropout a, b {p=0.5}", 0, 0, 0},
    {"a: %[3], b: bool[]", "y = cond b { then() { s = sin a; return s } else() { return a } }", 0, 0, 0},
    {"a: %[3], b: i64[]", "y = loop b, a { body(i: i64[], s: %[3]) { m = mul s, a; return m } }", 0, 0, 0},
    {"a: %[3], b: %[]", "c = abs b| y, k = while a, c { test(s: %[3], t: %[]) { p = lt t, 9.0; return p }"
                        " body(s: %[3], t: %[]) { m = mul s, 0.5; u = add t, 1.0; return m, u } }", 0, 0, 0},
    {"a: %[4], b: i64[]", "y = custom_call a, b {text=\"for (int i = 0; i < 4; i++) out[i] = a[i] + b[0];\", shape=[4]}", 0, 0, 0},
    {"a: %[2,50], b: %[]", "y = reduce a {axes=[1], init=[0.0], step(s: %[], x: %[]) { p = mul x, b; q = add s, p; return q }"
                           " combine(s: %[], t: %[]) { q = add s, t; return q } }", 0, 0, 0},
};
enum { N_CASES = sizeof cases / sizeof cases[0], B = 3, MOST_INPUTS = 6 };

static stax_graph *case_graph(const vmap_case *c) {
    char text[2000], *at = text;
    at += sprintf(at, "graph g(");
    for (int part = 0; part < 2; part++) {
        for (const char *s = part ? c->body : c->inputs; *s; s++) {
            if (*s == '%')
                at += sprintf(at, "f32");
            else
                *at++ = *s == '|' ? '\n' : *s;
        }
        at += sprintf(at, part ? "\nreturn y\n}\n" : ") {\n");
    }
    return parsed(text);
}

/* A new input: a stack of what another is. */
static stax_value stack_of(stax_graph *g, const char *name, stax_value x) {
    stax_shape shape = stax_value_shape(x);
    memmove(shape.dims + 1, shape.dims, (size_t)shape.rank * sizeof *shape.dims);
    shape.dims[0] = B;
    shape.rank++;
    return stax_input(g, name, stax_value_dtype(x), shape);
}

static size_t n_bytes(const stax_tensor *t) {
    size_t n = stax_dtype_bytes(t->dtype);
    for (int d = 0; d < t->rank; d++) n *= (size_t)t->shape[d];
    return n;
}

/* The inputs of `stacked` among the first n, each with its stack behind them: every output of each
   example by `one` is its part of the last outputs of `all`, of whose inputs the stacks are the last. */
static bool same_as_single(const stax_graph *one, const feed *all, int n, const int *stacked, int n_stacked) {
    feed f;
    bool ok = true;
    for (int e = 0; e < B && ok; e++) {
        if (!CHECK(feed_make(&f, one, 4, 1))) return false;
        for (int k = 0; k < n; k++) memcpy(f.all[k].data, all->all[k].data, n_bytes(&f.all[k]));
        for (int k = 0; k < n_stacked; k++) {
            size_t bytes = n_bytes(&f.all[stacked[k]]);
            memcpy(f.all[stacked[k]].data, (char *)all->all[all->n_all - n_stacked + k].data + (size_t)e * bytes, bytes);
        }
        if (!CHECK(stax_interpret(one, f.all, f.outputs) == STAX_OK)) printf("%s\n", stax_error(ctx));
        for (int k = 0; k < f.n_outputs; k++) {
            const stax_tensor *y = &all->outputs[all->n_outputs - f.n_outputs + k];
            size_t bytes = n_bytes(&f.outputs[k]);
            ok = CHECK(n_bytes(y) == B * bytes) &&
                 CHECK(memcmp(f.outputs[k].data, (char *)y->data + (size_t)e * bytes, bytes) == 0) && ok;
        }
        feed_free(&f);
    }
    return ok;
}

/* The interpreter's values in a; a compiled program gives the same. */
static void check_compiled(const stax_graph *g, const feed *a) {
    feed b;
    stax_program *p = compiled(g);
    if (p && CHECK(feed_make(&b, g, 4, 1))) {
        if (!CHECK(stax_run(p, b.slots, b.outputs) == STAX_OK)) printf("%s\n", stax_error(ctx));
        CHECK(feed_equal(a, &b) && feed_guards_hold(&b));
        feed_free(&b);
    }
    stax_program_free(p);
}

static int number, quick, without_room;

/* One choice of stacked inputs. */
static bool check_choice(const vmap_case *c, int choice) {
    stax_graph *g = case_graph(c), *one = case_graph(c);
    int n = g ? stax_graph_n_inputs(g) : 0, n_stacked = 0, stacked[MOST_INPUTS];
    stax_value in[MOST_INPUTS], stacks[MOST_INPUTS], y, all;
    bool ok = false;
    feed f;
    for (int k = 0; k < n; k++) {
        stax_input_info info;
        char name[16];
        stax_graph_input(one, k, &info);
        if (!(choice >> k & 1)) continue;
        sprintf(name, "s%d_", k);
        in[n_stacked] = stax_graph_value(g, info.name);
        stacks[n_stacked] = stack_of(g, name, in[n_stacked]);
        stacked[n_stacked++] = k;
    }
    y = stax_graph_value(g, "y");
    stax_status stacked_up = stax_vmap(&y, 1, in, stacks, n_stacked, &all);
    if (stacked_up != STAX_OK && strstr(stax_error(ctx), "expected at most 7 axes, so that there is room for one more")) {
        ok = true; /* windows of 8 axes */
        without_room++;
    } else if (CHECK(stacked_up == STAX_OK)) {
        stax_output(g, "all", all);
        if (CHECK(feed_make(&f, g, 4, 1) && stax_interpret(g, f.all, f.outputs) == STAX_OK)) {
            ok = same_as_single(one, &f, n, stacked, n_stacked);
            if (choice + 1 == 1 << n && (quick || number % 4 == 0)) check_compiled(g, &f);
        }
        feed_free(&f);
    }
    if (!ok) printf("  %s\n", stax_error(ctx));
    stax_graph_free(g);
    stax_graph_free(one);
    return ok;
}

static void check_case(void) {
    const vmap_case *c = &cases[number];
    stax_graph *g = case_graph(c);
    int n = g ? stax_graph_n_inputs(g) : 0, before = harness.bad_checks;
    stax_graph_free(g);
    for (int choice = 1; choice < 1 << n && CHECK(n <= MOST_INPUTS); choice++) {
        if (n > 3 && choice % 5 && choice + 1 != 1 << n) continue;
        if (!check_choice(c, choice)) printf("  stacked: %d\n", choice);
    }
    if (harness.bad_checks > before) printf("  of %s {%s}\n", c->inputs, c->body);
}

/* ---- gradients of each example --------------------------------------------------------------- */

static const char loss_text[] =
    "graph g(w: f32[4,3], b: f32[4], x: f32[3], t: i64[]) {\n"
    "h = matmul w, x\ny = add h, b\nr = tanh y\nl = cross_entropy r, t\nreturn l\n}\n";

static void gradients_of_examples(void) {
    static const int stacked[] = {2, 3};
    stax_graph *g = parsed(loss_text), *one = parsed(loss_text);
    stax_value outs[3], all[3], in[2], stacks[2], wrt[2];
    feed f;
    if (!g || !one) return;
    for (int k = 0; k < 2; k++) {
        stax_graph *to = k ? g : one;
        outs[0] = stax_graph_value(to, "l");
        wrt[0] = stax_graph_value(to, "w");
        wrt[1] = stax_graph_value(to, "b");
        CHECK(stax_grad(outs[0], wrt, 2, outs + 1) == STAX_OK);
        if (k) break;
        stax_output(one, "dw", outs[1]);
        stax_output(one, "db", outs[2]);
    }
    in[0] = stax_graph_value(g, "x");
    in[1] = stax_graph_value(g, "t");
    stacks[0] = stack_of(g, "xs", in[0]);
    stacks[1] = stack_of(g, "ts", in[1]);
    CHECK(stax_vmap(outs, 3, in, stacks, 2, all) == STAX_OK);
    stax_output(g, "ls", all[0]);
    stax_output(g, "dw", all[1]);
    stax_output(g, "db", all[2]);
    if (CHECK(feed_make(&f, g, 4, 1) && stax_interpret(g, f.all, f.outputs) == STAX_OK)) {
        same_as_single(one, &f, 4, stacked, 2);
        check_compiled(g, &f);
    }
    feed_free(&f);
    stax_graph_free(g);
    stax_graph_free(one);
}

/* ---- Jacobians, Hessians --------------------------------------------------------------------- */

/* f: R^[2,3] -> R^k, k = 4 or 12, and a part that it does not depend on. */
static stax_graph *jacobian_graph(int more, int k) {
    char text[400];
    sprintf(text,
            "graph g(x: f64[2,3], w: f64[3,%d], u: f64[2], t: f64[2,3]) {\n"
            "h = matmul x, w\ne = tanh h\n%s\nreturn y, t\n}\n",
            more, k == 1 ? "s = mul e, e\ny = sum s" : k == 2 ? "y = sum e {axes=[1]}" : "y = exp e");
    return parsed(text);
}

static double at(const stax_tensor *t, size_t k) { return ((double *)t->data)[k]; }

/* J t of the whole Jacobian against stax_jvp, to rounding; J by the one direction against the other. */
static void jacobians(void) {
    static const struct {
        int more, k;
        stax_direction cheaper;
    } sizes[] = {{2, 1, STAX_REVERSE}, {4, 2, STAX_REVERSE}, {2, 0, STAX_REVERSE}, {6, 0, STAX_FORWARD}};
    for (size_t c = 0; c < sizeof sizes / sizeof sizes[0]; c++) {
        stax_graph *g = jacobian_graph(sizes[c].more, sizes[c].k);
        stax_value y, wrt[2], j[3][2], d;
        feed f;
        if (!g) continue;
        y = stax_graph_value(g, "y");
        wrt[0] = stax_graph_value(g, "x");
        wrt[1] = stax_graph_value(g, "u");
        for (int way = 0; way < 3; way++) {
            stax_direction direction = (stax_direction)way;
            CHECK(stax_jacobian(y, wrt, 2, &direction, j[way]) == STAX_OK);
            CHECK(direction == (way ? (stax_direction)way : sizes[c].cheaper));
        }
        stax_value t = stax_graph_value(g, "t");
        CHECK(stax_jvp(y, wrt, &t, 1, &d) == STAX_OK);
        stax_output(g, "d", d);
        for (int way = 0; way < 3; way++) {
            char name[16];
            sprintf(name, "j%d", way);
            (stax_output)(g, name, j[way][0]);
            sprintf(name, "u%d", way);
            (stax_output)(g, name, j[way][1]);
        }
        if (CHECK(stax_ok(g) && feed_make(&f, g, 4, 1) && stax_interpret(g, f.all, f.outputs) == STAX_OK)) {
            const stax_tensor *out = f.outputs;
            size_t n = n_bytes(&out[0]) / 8;
            CHECK_INT(out[3].rank, out[0].rank + 2);
            CHECK_INT(n_bytes(&out[3]) / 8, n * 6);
            CHECK_INT(n_bytes(&out[4]) / 8, n * 2);
            for (size_t r = 0; r < n; r++) {
                double sum = 0, terms = 0;
                for (size_t k = 0; k < 6; k++) {
                    double p = at(&out[3], r * 6 + k) * at(&out[1], k);
                    sum += p;
                    terms += fabs(p);
                    CHECK(fabs(at(&out[5], r * 6 + k) - at(&out[7], r * 6 + k)) <= 1e-14);
                }
                CHECK(fabs(sum - at(&out[2], r)) <= 1e-14 * terms);
            }
            CHECK(memcmp(out[3].data, out[sizes[c].cheaper == STAX_FORWARD ? 5 : 7].data, n_bytes(&out[3])) == 0);
            for (size_t k = 0; k < n * 2; k++) CHECK(at(&out[4], k) == 0);
            check_compiled(g, &f);
        } else {
            printf("%s\n", stax_error(ctx));
        }
        feed_free(&f);
        stax_graph_free(g);
    }
}

/* The Hessian is symmetric, and its product with a direction is the tangent of the gradient. */
static void hessians(void) {
    stax_graph *g = jacobian_graph(2, 1);
    stax_value y, wrt[2], h[4], grads[2], t, d;
    feed f;
    if (!g) return;
    y = stax_graph_value(g, "y");
    wrt[0] = stax_graph_value(g, "x");
    wrt[1] = stax_graph_value(g, "w");
    t = stax_graph_value(g, "t");
    CHECK(stax_hessian(y, wrt, 2, h) == STAX_OK && stax_grad(y, wrt, 2, grads) == STAX_OK);
    CHECK(stax_jvp(grads[1], wrt, &t, 1, &d) == STAX_OK);
    stax_output(g, "d", d);
    for (int k = 0; k < 4; k++) {
        char name[16];
        sprintf(name, "h%d", k);
        (stax_output)(g, name, h[k]);
    }
    if (CHECK(stax_ok(g) && feed_make(&f, g, 4, 1) && stax_interpret(g, f.all, f.outputs) == STAX_OK)) {
        const stax_tensor *hs = f.outputs + 3;
        for (size_t i = 0; i < 6; i++) {
            double sum = 0, terms = 0;
            for (size_t k = 0; k < 6; k++) {
                double p = at(&hs[2], i * 6 + k) * at(&f.outputs[1], k);
                sum += p;
                terms += fabs(p);
                for (int b = 0; b < 4; b += 3)
                    CHECK(fabs(at(&hs[b], i * 6 + k) - at(&hs[b], k * 6 + i)) <= 1e-13);
                CHECK(fabs(at(&hs[1], i * 6 + k) - at(&hs[2], k * 6 + i)) <= 1e-13);
            }
            CHECK(fabs(sum - at(&f.outputs[2], i)) <= 1e-13 * terms);
        }
        check_compiled(g, &f);
    } else {
        printf("%s\n", stax_error(ctx));
    }
    feed_free(&f);
    stax_graph_free(g);
}

/* Sizes that the call brings, of the stack and of what is stacked. */
static void symbols(void) {
    stax_graph *g = parsed("sizes n: 1..9, m: 1..9\n"
                           "graph g(x: f32[m,3], i: i64[], xs: f32[n,m,3], is: i64[n]) {\n"
                           "s = gather x, i {axis=1}\ne = softmax s\ny = mul e, s\nreturn y\n}\n");
    stax_value y, in[2], stacks[2], all, j;
    feed f;
    if (!g) return;
    y = stax_graph_value(g, "y");
    in[0] = stax_graph_value(g, "x");
    in[1] = stax_graph_value(g, "i");
    stacks[0] = stax_graph_value(g, "xs");
    stacks[1] = stax_graph_value(g, "is");
    CHECK(stax_vmap(&y, 1, in, stacks, 2, &all) == STAX_OK);
    CHECK(stax_jacobian(y, in, 1, NULL, &j) == STAX_OK);
    stax_output(g, "all", all);
    stax_output(g, "j", j);
    if (CHECK(stax_ok(g) && feed_make(&f, g, 4, 1) && stax_interpret(g, f.all, f.outputs) == STAX_OK)) {
        CHECK(f.outputs[1].rank == 2 && f.outputs[1].shape[0] == 4 && f.outputs[1].shape[1] == 5);
        CHECK(f.outputs[2].rank == 3 && f.outputs[2].shape[0] == 5 && f.outputs[2].shape[1] == 5);
        check_compiled(g, &f);
    } else {
        printf("%s\n", stax_error(ctx));
    }
    feed_free(&f);
    stax_graph_free(g);
}

/* What is the same for all comes so many times; a stack of an input is the result of that input. */
static void unmoved(void) {
    stax_graph *g = parsed("graph g(x: f32[2], z: f32[2], xs: f32[3,2]) {\ny = exp z\nreturn y\n}\n");
    stax_value outs[2], x, xs, all[2];
    feed f;
    if (!g) return;
    x = outs[1] = stax_graph_value(g, "x");
    outs[0] = stax_graph_value(g, "y");
    xs = stax_graph_value(g, "xs");
    CHECK(stax_vmap(outs, 2, &x, &xs, 1, all) == STAX_OK);
    stax_output(g, "a", all[0]);
    stax_output(g, "b", all[1]);
    if (CHECK(feed_make(&f, g, 4, 1) && stax_interpret(g, f.all, f.outputs) == STAX_OK)) {
        for (int e = 0; e < 3; e++)
            CHECK(memcmp((char *)f.outputs[1].data + 8 * e, f.outputs[0].data, 8) == 0);
        CHECK(memcmp(f.outputs[2].data, f.all[2].data, 24) == 0);
    }
    feed_free(&f);
    stax_graph_free(g);
}

/* Every allocation fails once: that is a status, and nothing is lost. */
static void without_memory(void) {
    static const char text[] =
        "graph g(x: f32[3,2], h: f32[2], w: f32[2,2], p: bool[], n: i64[], hs: f32[3,2]) {\n"
        "s, ys = scan h, x {carry=1, body(s: f32[2], e: f32[2]) { a = matmul w, s; b = add a, e;"
        " t = cond p { then() { r = tanh b; return r } else() { return b } }; return t, t }}\n"
        "z = while s { test(s: f32[2]) { m = sum s; c = lt m, 9.0; return c } body(s: f32[2]) { v = mul s, 2.0; return v } }\n"
        "q = map ys { body(r: f32[2]) { u = sum r; return u } }\n"
        "k = reduce q {init=[1.0], step(a: f32[], b: f32[]) { c = mul a, b; return c } combine(a: f32[], b: f32[]) { c = mul a, b; return c }}\n"
        "m = sum z\nl = add m, k\nreturn l\n}\n";
    int64_t all = 1, failures = 0;
    for (int64_t at = 0; at <= all; at++) {
        heap h;
        memset(&h, 0, sizeof h);
        stax_options o = heap_options(&h);
        stax_context *c = stax_open(&o);
        stax_graph *g = stax_parse(c, "t.stax", text);
        stax_value wrt[2], l, grads[2], stacks[2], x, hs, r;
        int64_t before = h.calls;
        if (!CHECK(g)) return;
        l = stax_graph_value(g, "l");
        x = wrt[0] = stax_graph_value(g, "h");
        wrt[1] = stax_graph_value(g, "w");
        hs = stax_graph_value(g, "hs");
        h.fail_at = at ? h.calls + at : 0;
        stax_status s = stax_grad(l, wrt, 2, grads);
        if (s == STAX_OK) s = stax_vmap(grads, 2, &x, &hs, 1, stacks);
        if (s == STAX_OK) s = stax_hessian(l, wrt, 1, &r);
        failures += h.failed;
        if (!at) all = h.calls - before;
        CHECK(s == (h.failed ? STAX_E_MEMORY : STAX_OK));
        stax_graph_free(g);
        stax_close(c);
        CHECK_INT(h.blocks, 0);
        CHECK_INT(h.wrong, 0);
    }
    CHECK(failures > 0);
}

static void says(stax_graph *g, stax_status got, stax_status want, const char *message) {
    if (!CHECK(got == want && strstr(stax_error(ctx), message)))
        printf("  found %d: %s\n  not: %s\n", (int)got, stax_error(ctx), message);
    stax_graph_free(g);
}

static void wrong(void) {
    static const char text[] = "graph g(x: f32[3], i: i32[3], xs: f32[4,3], bad: f32[4,2], is: i32[5,3], o: f32[2,2,2,2,2,2,2,2], os: f32[3]) {\n"
                               "y = exp x\nz = add y, i\nc = custom_call x {text=\"out[0] = a[0];\", shape=[]}\n"
                               "p = outer y, y\nq = reshape p {shape=[3,3,1,1,1]}\nr = add o, 1.0\nreturn z\n}\n";
    stax_value y, in[2], stacks[2], r;
    for (int k = 0; k < 9; k++) {
        stax_graph *g = parsed(text), *other = k == 1 ? parsed(text) : NULL;
        if (!g) continue;
        y = stax_graph_value(g, "z");
        in[0] = stax_graph_value(g, "x");
        in[1] = stax_graph_value(g, "i");
        stacks[0] = stax_graph_value(g, "xs");
        stacks[1] = stax_graph_value(g, "is");
        if (k == 0) says(g, stax_vmap(&y, 1, in, stacks, 2, &r), STAX_E_SHAPE, "stax_vmap: stack 1: expected i32[4,3], its input with a new axis 0, found i32[5,3]");
        if (k == 1) in[0] = stax_graph_value(other, "x");
        if (k == 1) says(g, stax_vmap(&y, 1, in, stacks, 1, &r), STAX_E_ARGUMENT, "stax_vmap: input 0: expected a value of the graph of the first output");
        if (k == 2) stacks[0] = stax_graph_value(g, "bad");
        if (k == 2) says(g, stax_vmap(&y, 1, in, stacks, 1, &r), STAX_E_SHAPE, "stack 0: expected f32[4,3], its input with a new axis 0, found f32[4,2]");
        if (k == 3) stacks[0] = in[0];
        if (k == 3) says(g, stax_vmap(&y, 1, in, stacks, 1, &r), STAX_E_SHAPE, "found f32[3]");
        if (k == 4) in[1] = in[0], stacks[1] = stacks[0];
        if (k == 4) says(g, stax_vmap(&y, 1, in, stacks, 2, &r), STAX_E_ARGUMENT, "stax_vmap: input 1 is input 0 once more");
        if (k == 5) in[0] = stax_const(g, 1.0);
        if (k == 5) says(g, stax_vmap(&y, 1, in, stacks, 1, &r), STAX_E_DTYPE, "input 0: a literal is a constant");
        if (k == 6) y = stax_graph_value(g, "q");
        if (k == 6) in[0] = stax_reshape(in[0], stax_shape4(3, 1, 1, 1));
        if (k == 6) y = stax_add(y, stax_sum(in[0], stax_axes_all(), false));
        if (k == 6) says(g, stax_jacobian(y, in, 1, NULL, &r), STAX_E_SHAPE, "stax_jacobian: d f32[3,3,1,1,1] / d f32[3,1,1,1]: expected at most 8 axes together");
        if (k == 7) y = stax_graph_value(g, "c");
        if (k == 7) says(g, stax_jacobian(y, in, 1, NULL, &r), STAX_E_ARGUMENT, "stax_jacobian: custom_call with 1 operands has no derivative");
        if (k == 8) says(g, stax_hessian(y, in, 1, &r), STAX_E_SHAPE, "the loss: expected a scalar, found f32[3]");
        stax_graph_free(other);
    }
    y = stax_none();
    CHECK(stax_vmap(&y, 1, &y, &y, 1, &r) == STAX_E_ARGUMENT);
    CHECK(stax_jacobian(y, &y, 1, NULL, &r) == STAX_E_ARGUMENT && stax_hessian(y, NULL, 1, &r) == STAX_E_ARGUMENT);
}

int main(int argc, char **argv) {
    char name[60];
    HARNESS_BEGIN(argc, argv);
    ctx = cases_open(&quick);
    for (number = 0; number < N_CASES; number++) {
        cases_name(name, cases[number].body, number);
        RUN_NAMED(name, check_case);
    }
    RUN(gradients_of_examples);
    RUN(jacobians);
    RUN(hessians);
    RUN(symbols);
    RUN(unmoved);
    RUN(without_memory);
    RUN(wrong);
    stax_close(ctx);
    if (without_room) printf("left out: %d stacks of windows of 8 axes, which are refused\n", without_room);
    CHECK(without_room <= 14);
    return HARNESS_END();
}
