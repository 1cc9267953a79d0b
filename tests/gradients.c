/* Derivatives of every op, in f64: reverse mode against forward mode (1e-12 of the terms), both
   against central differences (1e-6), second derivatives forward over reverse against reverse over
   reverse; compiled against interpreted bit for bit. Values lie away from kinks; what happens at
   kinks, ties and zeros is asked for by value. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "feed.h"
#include "cases.h"
#include "harness.h"
#include "programs.h"

/* ---- every op -------------------------------------------------------------------------------- */

/* The inputs are called a, b, c, ...; floats are spread over [low, high], all different; integers
   count 0, 1, 2, 0, ... The result is y. flags: */
enum {
    KINKED = 1 /* its second derivative is not asked for: it is 0 or is a sum of jumps */
};
typedef struct derivative_case {
    const char *inputs, *body;
    double low, high;
    int flags;
} derivative_case;

static const derivative_case cases[] = {
#include "gradient_cases.inc"
};
enum { N_CASES = sizeof cases / sizeof cases[0], MOST_INPUTS = 6, MOST_BYTES = 1 << 16 };

typedef struct trial {
    stax_graph *g;
    int n_in, n_float;        /* inputs of the case; those of floats come first in `wrt` */
    stax_value wrt[MOST_INPUTS];
    int at[MOST_INPUTS];      /* the input that wrt[k] is */
    stax_dtype dtype;
} trial;

static uint64_t state = 1;
static double uniform(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 9007199254740992.0;
}

/* The text of a case with its floats in a dtype. */
static stax_graph *case_graph(const derivative_case *c, const char *dtype) {
    char text[2000], *at = text;
    at += sprintf(at, "graph g(");
    for (const char *s = c->inputs; *s; s++) {
        if (*s == '%')
            at += sprintf(at, "%s", dtype);
        else
            *at++ = *s;
    }
    at += sprintf(at, ") {\n");
    for (const char *s = c->body; *s; s++) {
        if (*s == '%')
            at += sprintf(at, "%s", dtype);
        else
            *at++ = *s == '|' ? '\n' : *s;
    }
    sprintf(at, "\nreturn y\n}\n");
    return parsed(text);
}

static bool trial_open(trial *t, const derivative_case *c, const char *dtype) {
    stax_input_info info;
    memset(t, 0, sizeof *t);
    t->g = case_graph(c, dtype);
    if (!t->g || !stax_ok(t->g)) return false;
    for (; stax_graph_input(t->g, t->n_in, &info); t->n_in++) {
        bool is_float = info.dtype == STAX_F64 || info.dtype == STAX_F32 || info.dtype == STAX_BF16;
        if (!is_float) continue;
        t->dtype = info.dtype;
        t->at[t->n_float] = t->n_in;
        t->wrt[t->n_float++] = stax_graph_value(t->g, info.name);
    }
    return true;
}

static stax_value add_or(stax_value sum, stax_value more) {
    return sum.graph ? stax_add(sum, more) : more;
}
static stax_value sum_all(stax_value x) { return stax_sum(x, stax_axes_all(), false); }

/* New inputs, shaped like some: tangents of inputs and the cotangent of y. */
static stax_value like_input(trial *t, const char *name, stax_value model) {
    return stax_input(t->g, name, stax_value_dtype(model), stax_value_shape(model));
}

/* Outputs, behind y: <grads, t>, sum |grads * t|, <c, jvp>, sum |h - h2|, sum |h| + |h2|. */
static bool add_derivatives(trial *t, int flags) {
    stax_value y = stax_graph_value(t->g, "y"), c = like_input(t, "c_", y), grads[MOST_INPUTS],
               tangents[MOST_INPUTS], forward, reverse = stax_none(), terms = stax_none();
    char name[20];
    for (int k = 0; k < t->n_float; k++) {
        sprintf(name, "t%d_", k);
        tangents[k] = like_input(t, name, t->wrt[k]);
    }
    if (!CHECK(stax_vjp(&y, &c, 1, t->wrt, t->n_float, false, grads) == STAX_OK)) return false;
    if (!CHECK(stax_jvp(y, t->wrt, tangents, t->n_float, &forward) == STAX_OK)) return false;
    for (int k = 0; k < t->n_float; k++) {
        stax_value p = stax_mul(grads[k], tangents[k]);
        reverse = add_or(reverse, sum_all(p));
        terms = add_or(terms, sum_all(stax_abs(p)));
        sprintf(name, "grad%d", k);
        (stax_output)(t->g, name, grads[k]);
    }
    stax_output(t->g, "reverse", reverse);
    stax_output(t->g, "terms", terms);
    stax_output(t->g, "forward", sum_all(stax_mul(forward, c)));
    if (flags & KINKED) return CHECK(stax_ok(t->g));
    stax_value h2[MOST_INPUTS], gap = stax_none(), scale = stax_none();
    if (!CHECK(stax_grad(reverse, t->wrt, t->n_float, h2) == STAX_OK)) return false;
    for (int k = 0; k < t->n_float; k++) {
        stax_value h;
        if (!CHECK(stax_jvp(grads[k], t->wrt, tangents, t->n_float, &h) == STAX_OK)) return false;
        gap = add_or(gap, sum_all(stax_abs(stax_sub(h, h2[k]))));
        scale = add_or(scale, sum_all(stax_add(stax_abs(h), stax_abs(h2[k]))));
    }
    stax_output(t->g, "gap", gap);
    stax_output(t->g, "scale", scale);
    return CHECK(stax_ok(t->g));
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct buffers {
    stax_tensor in[3 * MOST_INPUTS], out[16];
    int n_in, n_out;
    unsigned char *memory;
    size_t used;
} buffers;

static size_t n_elements(const stax_tensor *t) {
    size_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= (size_t)t->shape[d];
    return n;
}

static size_t n_bytes(const stax_tensor *t) {
    return n_elements(t) * (t->dtype == STAX_F64 || t->dtype == STAX_I64 ? 8
                            : t->dtype == STAX_BOOL                      ? 1
                            : t->dtype == STAX_BF16                      ? 2
                                                                         : 4);
}

static stax_tensor tensor(buffers *b, stax_dtype dtype, stax_shape shape) {
    stax_tensor t = stax_tensor_of(dtype, shape, b->memory + b->used);
    b->used += (n_bytes(&t) + 63) / 64 * 64 + 64;
    return t;
}

static void put(stax_tensor *t, size_t k, double x) {
    float single = (float)x;
    uint32_t bits;
    memcpy(&bits, &single, 4);
    if (t->dtype == STAX_F64) ((double *)t->data)[k] = x;
    if (t->dtype == STAX_F32) ((float *)t->data)[k] = single;
    if (t->dtype == STAX_BF16) ((uint16_t *)t->data)[k] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    if (t->dtype == STAX_I64) ((int64_t *)t->data)[k] = (int64_t)k % 3;
    if (t->dtype == STAX_I32) ((int32_t *)t->data)[k] = (int32_t)k % 3;
    if (t->dtype == STAX_BOOL) ((uint8_t *)t->data)[k] = k * 5 % 3 == 1;
}

static double get(const stax_tensor *t, size_t k) {
    float single;
    uint32_t bits = t->dtype == STAX_BF16 ? (uint32_t)((uint16_t *)t->data)[k] << 16 : 0;
    if (t->dtype == STAX_F64) return ((double *)t->data)[k];
    if (t->dtype == STAX_F32) return (double)((float *)t->data)[k];
    memcpy(&single, &bits, 4);
    return (double)single;
}

static size_t common_divisor(size_t a, size_t b) { return b ? common_divisor(b, a % b) : a; }

/* Values all over [low, high], in an order that looks random, never in the same place twice. */
static void fill(stax_tensor *t, double low, double high, int salt) {
    size_t n = n_elements(t), step = 7;
    while (n && common_divisor(n, step) > 1) step += 2;
    for (size_t k = 0; k < n; k++) {
        double place = (double)(k * step % n) + 0.3 + 0.07 * salt;
        put(t, k, low + (high - low) * place / (double)n);
    }
}

static bool buffers_open(buffers *b, const trial *t, const derivative_case *c) {
    stax_input_info info;
    stax_output_info out;
    memset(b, 0, sizeof *b);
    b->memory = (unsigned char *)calloc(1, MOST_BYTES);
    if (!b->memory) return false;
    state = 12345;
    for (; stax_graph_input(t->g, b->n_in, &info); b->n_in++) {
        stax_tensor *x = &b->in[b->n_in];
        *x = tensor(b, info.dtype, info.shape);
        if (b->n_in < t->n_in)
            fill(x, c->low, c->high, b->n_in);
        else
            for (size_t k = 0; k < n_elements(x); k++) put(x, k, uniform() * 2 - 1);
    }
    for (; stax_graph_output(t->g, b->n_out, &out); b->n_out++)
        b->out[b->n_out] = tensor(b, out.dtype, out.shape);
    return b->used <= MOST_BYTES;
}

static double scalar_out(const trial *t, const buffers *b, const char *name) {
    stax_output_info out;
    for (int k = 0; stax_graph_output(t->g, k, &out); k++)
        if (strcmp(out.name, name) == 0) return get(&b->out[k], 0);
    return NAN;
}

/* <c, (y(x + h t) - y(x - h t)) / (2h)> */
static double central_difference(const trial *t, buffers *b) {
    const double h = 1e-5;
    size_t n = n_elements(&b->out[0]);
    double sum = 0, *above = (double *)malloc((n + 1) * sizeof *above);
    for (int side = 1; side >= -1 && above; side -= 2) {
        for (int k = 0; k < t->n_float; k++)
            for (size_t i = 0; i < n_elements(&b->in[t->at[k]]); i++) {
                stax_tensor *x = &b->in[t->at[k]];
                double move = get(&b->in[t->n_in + 1 + k], i) * h;
                put(x, i, get(x, i) + (side > 0 ? move : -2 * move));
            }
        if (!CHECK(stax_interpret(t->g, b->in, b->out) == STAX_OK)) printf("%s\n", stax_error(ctx));
        for (size_t i = 0; i < n; i++) {
            if (side > 0) above[i] = get(&b->out[0], i);
            if (side < 0) sum += get(&b->in[t->n_in], i) * (above[i] - get(&b->out[0], i)) / (2 * h);
        }
    }
    free(above);
    return sum;
}

static int number; /* of the case that runs */
static int quick;  /* a quick compiler is there */

static void check_compiled(const trial *t, buffers *b) {
    if (!quick && number % 4) return;
    stax_program *p = compiled(t->g);
    unsigned char *want = (unsigned char *)malloc(MOST_BYTES);
    if (p && want) {
        memcpy(want, b->memory, MOST_BYTES);
        for (int k = 0; k < b->n_out; k++)
            memset(b->out[k].data, 0xa5, n_bytes(&b->out[k]));
        CHECK(stax_run(p, b->in, b->out) == STAX_OK);
        CHECK(memcmp(want, b->memory, MOST_BYTES) == 0);
    }
    free(want);
    stax_program_free(p);
}

static void check_case(void) {
    const derivative_case *c = &cases[number];
    trial t;
    buffers b;
    int before = harness.bad_checks;
    memset(&b, 0, sizeof b);
    if (trial_open(&t, c, "f64") && add_derivatives(&t, c->flags) && CHECK(buffers_open(&b, &t, c))) {
        if (!CHECK(stax_interpret(t.g, b.in, b.out) == STAX_OK)) printf("%s\n", stax_error(ctx));
        double reverse = scalar_out(&t, &b, "reverse"), terms = scalar_out(&t, &b, "terms"),
               forward = scalar_out(&t, &b, "forward");
        if (!CHECK(fabs(reverse - forward) <= 1e-12 * terms))
            printf("  reverse %.17g, forward %.17g, terms %.3g\n", reverse, forward, terms);
        if (!(c->flags & KINKED) &&
            !CHECK(scalar_out(&t, &b, "gap") <= 1e-11 * scalar_out(&t, &b, "scale")))
            printf("  second: gap %.3g of %.3g\n", scalar_out(&t, &b, "gap"), scalar_out(&t, &b, "scale"));
        check_compiled(&t, &b);
        double difference = central_difference(&t, &b);
        if (!CHECK(fabs(difference - reverse) <= 1e-6 * (terms + 1)))
            printf("  reverse %.17g, difference %.17g\n", reverse, difference);
    } else {
        printf("  %s\n", stax_error(ctx));
    }
    if (harness.bad_checks > before) printf("  of %s {%s}\n", c->inputs, c->body);
    free(b.memory);
    stax_graph_free(t.g);
}

/* ---- f32 and bf16: near the f64 gradients ---------------------------------------------------- */

static void check_narrow(const derivative_case *c, const char *dtype, double tolerance) {
    double got[2] = {0, 0}, terms = 0;
    for (int k = 0; k < 2; k++) {
        trial t;
        buffers b;
        memset(&b, 0, sizeof b);
        if (CHECK(trial_open(&t, c, k ? dtype : "f64") && add_derivatives(&t, KINKED) &&
                  buffers_open(&b, &t, c))) {
            CHECK(stax_interpret(t.g, b.in, b.out) == STAX_OK);
            got[k] = scalar_out(&t, &b, "reverse");
            if (k == 0) terms = scalar_out(&t, &b, "terms");
            if (k) check_compiled(&t, &b);
        }
        free(b.memory);
        stax_graph_free(t.g);
    }
    if (!CHECK(fabs(got[0] - got[1]) <= tolerance * (terms + 0.1)))
        printf("  %s: f64 %g, %s %g (terms %g)\n", c->body, got[0], dtype, got[1], terms);
}

static void narrow(void) {
    for (int k = 0; k < N_CASES; k += 5) {
        check_narrow(&cases[k], "f32", 2e-4);
        if (!strstr(cases[k].body, "dtype=")) check_narrow(&cases[k], "bf16", 0.15);
    }
}

/* ---- at kinks, ties, zeros ------------------------------------------------------------------- */

typedef struct point {
    const char *body; /* of x: f64[N], gives a vector or scalar y whose sum is differentiated */
    int n;
    double x[6], want[6];
} point;

static const point points[] = {
    {"y = clip x {min=-1.0, max=1.0}", 5, {-2, -1, 0, 1, 2}, {0, 1, 1, 1, 0}},
    {"y = relu x", 3, {-1, 0, 1}, {0, 0, 1}},
    {"y = abs x", 3, {-2, 0, 2}, {-1, 0, 1}},
    {"y = relu6 x", 4, {0, 3, 6, 7}, {0, 1, 0, 0}},
    {"y = hardtanh x", 3, {-1, 0, 1}, {0, 1, 0}},
    {"y = pow x, 2.0", 4, {0, 1, -2, 3}, {0, 2, -4, 6}},
    {"y = pow x, 1.0", 4, {0, 1, -2, 3}, {1, 1, 1, 1}},
    {"y = pow x, 3.0", 4, {0, 1, -2, 3}, {0, 3, 12, 27}},
    {"y = pow x, 0.0", 4, {0, 1, -2, 3}, {0, 0, 0, 0}},
    {"y = sqrt x", 2, {0, 4}, {INFINITY, 0.25}},
    {"y = norm x", 3, {0, 0, 0}, {0, 0, 0}},
    {"y = std x", 3, {2, 2, 2}, {0, 0, 0}},
    {"y = hypot x, 0.0", 2, {0, 3}, {0, 1}},
    {"y = maximum x, 1.0", 3, {0, 1, 2}, {0, 0.5, 1}},
    {"y = max x", 4, {3, 1, 3, 2}, {0.5, 0, 0.5, 0}},
    {"y = max_pool x {size=[2], stride=[1]}", 4, {3, 3, 1, 1}, {0.5, 1.5, 0.5, 0.5}},
    {"y = min x", 4, {3, 1, 1, 1}, {0, 1.0 / 3, 1.0 / 3, 1.0 / 3}},
    {"y = prod x", 3, {0, 2, 3}, {6, 0, 0}},
    {"y = prod x", 3, {0, 0, 3}, {0, 0, 0}},
    {"y = prod x", 3, {4, 2, 3}, {6, 12, 8}},
    {"y = cumprod x", 3, {2, 0, 3}, {1, 8, 0}},
    {"y = cumprod x", 4, {0, 2, 0, 5}, {3, 0, 0, 0}},
    {"y = cummax x", 4, {1, 3, 3, 2}, {1, 1, 2, 0}},
    {"p = gt x, 0.0| s = sqrt x| y = where p, s, 0.0", 3, {0, -1, 4}, {0, 0, 0.25}},
    {"p = gt x, 0.0| l = log x| q = mul l, l| y = where p, q, x", 3, {0, -1, 1}, {1, 1, 0}},
    {"p = lt x, 1.0| e = exp x| y = where p, e, x", 2, {1000, 0}, {1, 1}},
    {"y = elu x", 2, {1000, -1}, {1, 0.36787944117144233}},
    {"q = mul x, x| s = sum q| p = gt s, 0.5| w = where p, s, 1.0| y = sqrt w", 2, {3, 4}, {0.6, 0.8}},
    {"s = stop_gradient x| y = mul s, x", 2, {3, 4}, {3, 4}},
    {"s = sum x| p = gt s, 0.0| y = cond p { then() { l = log x; return l } else() { return x } }", 2, {-1, 0}, {1, 1}},
    {"s = sum x| p = lt s, 0.0| y = cond p { then() { q = sqrt x; return q } else() { n = neg x; return n } }", 2, {0, 4}, {-1, -1}},
    {"h, y = scan 0.0, x {carry=1, body(s: f64[], e: f64[]) { m = mul s, e; r = sqrt m; return r, e } }", 2, {3, 4}, {1, 1}},
    {"y = map x { body(e: f64[]) { p = gt e, 0.0; r = cond p { then() { l = log e; return l } else() { return e } }; return r } }", 3, {0, -1, 4}, {1, 1, 0.25}},
    {"l = loop 3, x { body(i: i64[], s: f64[2]) { p = gt s, 0.0; q = sqrt s; r = where p, q, s; return r } }| y = add l, 0.0", 2, {-2, 0}, {1, 1}},
    {"f = floor x| y = mul f, x", 2, {2.5, -1.5}, {2, -2}},
    {"y = sign x", 2, {2.5, -1.5}, {0, 0}},
    {"y = nan_to_num x", 3, {NAN, INFINITY, 2}, {0, 0, 1}},
    {"i = cast x {dtype=i32}| f = cast i {dtype=f64}| y = mul f, x", 2, {2, 3}, {2, 3}},
};
enum { N_POINTS = sizeof points / sizeof points[0] };

static void kinks(void) {
    for (int k = 0; k < N_POINTS; k++) {
        const point *p = &points[k];
        char text[500], *at = text;
        double y[64], grad[6];
        at += sprintf(at, "graph g(x: f64[%d]) {\n", p->n);
        for (const char *s = p->body; *s; s++) *at++ = *s == '|' ? '\n' : *s;
        sprintf(at, "\nloss = sum y\nreturn loss\n}\n");
        stax_graph *g = parsed(text);
        stax_value x = stax_graph_value(g, "x"), d;
        if (CHECK(g && stax_grad(stax_graph_value(g, "loss"), &x, 1, &d) == STAX_OK)) {
            stax_output(g, "d_x", d);
            stax_tensor in = stax_tensor_of(STAX_F64, stax_shape1(p->n), (void *)(uintptr_t)p->x),
                        out[2];
            out[0] = stax_tensor_of(STAX_F64, stax_shape0(), y);
            out[1] = stax_tensor_of(STAX_F64, stax_shape1(p->n), grad);
            CHECK(stax_interpret(g, &in, out) == STAX_OK);
            for (int i = 0; i < p->n; i++)
                if (!CHECK(grad[i] == p->want[i] || fabs(grad[i] - p->want[i]) < 1e-15))
                    printf("  %s: d_x[%d] is %g, expected %g\n", p->body, i, grad[i], p->want[i]);
        } else {
            printf("%s\n", stax_error(ctx));
        }
        stax_graph_free(g);
    }
}

/* ---- networks, states, wrong calls ----------------------------------------------------------- */

/* The gradients of the sum of a net's first float output by all its tensors of floats: compiled as
   interpreted. */
static void net(const char *name) {
    char path[100];
    stax_value wrt[FEED_MAX], grads[FEED_MAX], loss = stax_none();
    stax_input_info info;
    stax_output_info out;
    feed a, b;
    int n = 0;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    snprintf(path, sizeof path, "examples/nets/%s.stax", name);
    stax_graph *g = file_graph(ctx, path);
    if (!CHECK(g)) return;
    for (int k = 0; stax_graph_input(g, k, &info); k++)
        if (info.dtype == STAX_F32) wrt[n++] = stax_graph_value(g, info.name);
    for (int k = 0; stax_graph_output(g, k, &out) && !loss.graph; k++)
        if (out.dtype == STAX_F32) loss = stax_graph_value(g, out.name);
    loss = sum_all(stax_mul(loss, loss));
    if (CHECK(stax_grad(loss, wrt, n, grads) == STAX_OK)) {
        for (int k = 0; k < n; k++) {
            sprintf(path, "gradient_%d", k);
            (stax_output)(g, path, grads[k]);
        }
        stax_program *p = compiled(g);
        CHECK(feed_make(&a, g, 4, 7) && feed_make(&b, g, 4, 7));
        CHECK(stax_interpret(g, a.all, a.outputs) == STAX_OK);
        CHECK(p && feed_bind(p, &b) == STAX_OK && stax_run(p, b.slots, b.outputs) == STAX_OK);
        if (!CHECK(feed_equal(&a, &b))) printf("  %s: other bits\n", name);
        CHECK(feed_guards_hold(&b));
        stax_program_free(p);
    } else {
        printf("%s: %s\n", name, stax_error(ctx));
    }
    feed_free(&a);
    feed_free(&b);
    stax_graph_free(g);
}
static void nets(void) {
    static const char *const names[] = {"mlp", "cnn", "lenet", "transformer", "unet"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) net(names[k]);
}

/* A step of gradient descent in one program: the state is read, differentiated by, and written; a
   value in between and one that nothing depends on. */
static void step(void) {
    stax_graph *g = stax_graph_new(ctx);
    stax_value w = stax_state(g, "w", STAX_F64, stax_shape1(2)),
               x = stax_input(g, "x", STAX_F64, stax_shape1(2)), h, loss, in[3], grads[3], absent[3],
               one = stax_const(g, 1.0);
    double weights[2] = {3, -2}, data[2] = {1, 2}, got[3] = {0, 0, 0};
    stax_assign(w, stax_mul(w, stax_const(g, 2.0))); /* 6, -4 */
    h = stax_mul(w, x);                              /* 6, -8 */
    loss = sum_all(stax_mul(h, h));                  /* 100   */
    in[0] = w;
    in[1] = h;
    in[2] = stax_input(g, "unused", STAX_F64, stax_shape0());
    CHECK(stax_grad(loss, in, 3, grads) == STAX_OK);
    CHECK(stax_vjp(&loss, &one, 1, in, 3, true, absent) == STAX_OK && absent[0].graph &&
          !absent[2].graph);
    stax_assign(w, stax_sub(w, stax_mul(grads[0], stax_const(g, 0.5)))); /* w - 0.5 * 2 h x */
    stax_output(g, "d_h", grads[1]);
    stax_output(g, "d_unused", grads[2]);
    stax_tensor slots[3], out[2];
    slots[0] = stax_tensor_of(STAX_F64, stax_shape1(2), weights);
    slots[1] = stax_tensor_of(STAX_F64, stax_shape1(2), data);
    slots[2] = stax_tensor_of(STAX_F64, stax_shape0(), data);
    out[0] = stax_tensor_of(STAX_F64, stax_shape1(2), got);
    out[1] = stax_tensor_of(STAX_F64, stax_shape0(), got + 2);
    got[2] = 5;
    if (!CHECK(stax_ok(g) && stax_interpret(g, slots, out) == STAX_OK)) printf("%s\n", stax_error(ctx));
    CHECK(got[0] == 12 && got[1] == -16 && got[2] == 0);
    CHECK(weights[0] == 6 - 6 && weights[1] == -4 + 16);
    stax_graph_free(g);
}

/* Forward mode goes through any number of trips: the tangents of four trips, whoever counts them,
   by a compiled program and by the interpreter; those of the loop that the graph knows are checked
   above. */
static void trips(void) {
    static const char *const ways[] = {
        "y = loop 4, x { body(i: i64[], s: f64[3]) { m = mul s, b; r = sin m; return r } }",
        "y = loop n, x { body(i: i64[], s: f64[3]) { m = mul s, b; r = sin m; return r } }",
        "y, k = while x, 0 { test(s: f64[3], i: i64[]) { c = lt i, n; return c }"
        " body(s: f64[3], i: i64[]) { m = mul s, b; r = sin m; j = add i, 1; return r, j } }"};
    double x[3] = {0.3, 0.7, 1.1}, b = 1.3, got[3][6];
    int64_t n = 4;
    for (int k = 0; k < 3; k++) {
        char text[500];
        sprintf(text, "graph g(x: f64[3], b: f64[], n: i64[]) {\n%s\nt = mul y, 1.0\nreturn t\n}", ways[k]);
        stax_graph *g = parsed(text);
        if (!g) continue;
        stax_value by[2], tangents[2], d;
        by[0] = stax_graph_value(g, "x");
        by[1] = stax_graph_value(g, "b");
        tangents[0] = tangents[1] = stax_const(g, 0.5);
        CHECK(stax_jvp(stax_graph_value(g, "y"), by, tangents, 2, &d) == STAX_OK);
        stax_output(g, "d", d);
        stax_tensor in[3], out[2];
        in[0] = stax_tensor_of(STAX_F64, stax_shape1(3), x);
        in[1] = stax_tensor_of(STAX_F64, stax_shape0(), &b);
        in[2] = stax_tensor_of(STAX_I64, stax_shape0(), &n);
        for (int j = 0; j < 2; j++) out[j] = stax_tensor_of(STAX_F64, stax_shape1(3), got[k] + 3 * j);
        stax_program *p = compiled(g);
        CHECK(p && stax_run(p, in, out) == STAX_OK);
        double compiled_bits[6];
        memcpy(compiled_bits, got[k], sizeof compiled_bits);
        CHECK(stax_interpret(g, in, out) == STAX_OK);
        CHECK(memcmp(compiled_bits, got[k], sizeof compiled_bits) == 0);
        CHECK(memcmp(got[0], got[k], sizeof got[0]) == 0 && got[k][3] != 0);
        stax_program_free(p);
        stax_graph_free(g);
    }
}

/* A C function whose gradients are C functions: y[i] = x[i]^2 * s. */
static void own_functions(void) {
    static const char text[] =
        "graph g(x: f64[3], s: f64[], c: f64[3]) {\n"
        "y = custom_call x, s {text=\"for (int i = 0; i < a_shape[0]; i++) out[i] = a[i] * a[i] * b[0];\", shape=[3], "
        "derivative=\"for (int i = 0; i < 3; i++) out[i] = 2 * a[i] * b[0] * g[i]; @"
        " double sum = 0; for (int i = 0; i < 3; i++) sum += a[i] * a[i] * g[i]; out[0] = sum;\"}\nreturn y\n}";
    double x[3] = {1, 2, 3}, s = 5, c[3] = {1, 10, 100}, y[3], dx[3], ds;
    stax_graph *g = parsed(text);
    stax_value by[2], grads[2], of, cotangent;
    if (!g) return;
    of = stax_graph_value(g, "y");
    cotangent = stax_graph_value(g, "c");
    by[0] = stax_graph_value(g, "x");
    by[1] = stax_graph_value(g, "s");
    CHECK(stax_vjp(&of, &cotangent, 1, by, 2, false, grads) == STAX_OK);
    stax_output(g, "dx", grads[0]);
    stax_output(g, "ds", grads[1]);
    stax_tensor in[3], out[3];
    in[0] = stax_tensor_of(STAX_F64, stax_shape1(3), x);
    in[1] = stax_tensor_of(STAX_F64, stax_shape0(), &s);
    in[2] = stax_tensor_of(STAX_F64, stax_shape1(3), c);
    out[0] = stax_tensor_of(STAX_F64, stax_shape1(3), y);
    out[1] = stax_tensor_of(STAX_F64, stax_shape1(3), dx);
    out[2] = stax_tensor_of(STAX_F64, stax_shape0(), &ds);
    for (int pass = 0; pass < 2; pass++) {
        stax_program *p = pass ? compiled(g) : NULL;
        memset(dx, 0, sizeof dx);
        ds = 0;
        CHECK((pass ? stax_run(p, in, out) : stax_interpret(g, in, out)) == STAX_OK);
        CHECK(dx[0] == 10 && dx[1] == 200 && dx[2] == 3000 && ds == 1 + 40 + 900);
        stax_program_free(p);
    }
    CHECK(stax_jvp(of, by, grads, 1, &of) == STAX_E_ARGUMENT &&
          strstr(stax_error(ctx), "stax_jvp: custom_call has no forward mode"));
    stax_graph_free(g);
}

static void wrong(void) {
    static const struct {
        const char *text, *of, *by, *says;
    } calls[] = {
        {"graph g(x: f32[3]) { y = exp x; return y }", "y", "x", "stax_grad: the loss: expected a scalar, found f32[3]"},
        {"graph g(x: i32[3]) { y = sum x; return y }", "y", "x", "expected floats, found i64[]"},
        {"graph g(x: i32[3], z: f32[]) { y = exp z; return y }", "y", "x", "stax_grad: input 0: expected floats, found i32[3]"},
        {"graph g(x: f32[]) { b = bitcast x {dtype=i32}; c = bitcast b {dtype=f32}; d = mul c, x; y = sum d; return y }", "y", "x", NULL},
        {"graph g(x: f32[]) { y = custom x {text=\"a*a\"}; return y }", "y", "x", "custom with 1 operands has no derivative"},
        {"graph g(x: f32[], z: f32[]) { y = custom x, z {text=\"a*b\", derivative=\"g*b\"}; return y }", "y", "z",
         "the derivative of custom has no expression for operand 1"},
        {"graph g(x: f32[3]) { b = nextafter x, 2.0; y = sum b; return y }", "y", "x", "nextafter has no derivative"},
        {"graph g(x: f16[3]) { b = bitcast x {dtype=bf16}; y = sum b; return y }", "y", "x", "bitcast has no derivative"},
        {"graph g(x: f32[1,1,1,1,1,1,1,1], n: i64[]) { y = loop n, x { body(i: i64[], s: f32[1,1,1,1,1,1,1,1]) { t = mul s, s; return t } }; z = sum y; return z }", "z", "x",
         "stax_grad: loop carries f32[1,1,1,1,1,1,1,1]: expected at most 7 axes, so that states can be stacked"},
        {"graph g(x: f32[2]) { y = custom_call x {text=\"out[0] = a[0] * a[1];\", shape=[]}; return y }", "y", "x",
         "stax_grad: custom_call with 1 operands has no derivative: give one"},
        {"graph g(x: f32[2], z: f32[]) { y = custom_call x, z {text=\"out[0] = a[0] * a[1];\", shape=[], derivative=\"out[0] = a[1]; out[1] = a[0];\"}; return y }", "y", "z",
         "the derivative of custom_call has no function for operand 1: expected one for each, with '@' between"},
        {"graph g(x: f32[], p: bool[]) { y = cond p { then() { b = bitcast x {dtype=i32}; c = bitcast b {dtype=f32}; return c } else() { return x } }; return y }", "y", "x", NULL},
        {"graph g(x: f16[3]) { y = map x { body(r: f16[]) { b = bitcast r {dtype=bf16}; return b } }; z = sum y; return z }", "z", "x", "bitcast has no derivative"},
    };
    for (size_t k = 0; k < sizeof calls / sizeof calls[0]; k++) {
        stax_graph *g = parsed(calls[k].text);
        if (!g) continue;
        stax_value x = stax_graph_value(g, calls[k].by), d;
        stax_status s = stax_grad(stax_graph_value(g, calls[k].of), &x, 1, &d);
        if (calls[k].says) CHECK(s != STAX_OK && !d.graph && strstr(stax_error(ctx), calls[k].says));
        if (calls[k].says && !strstr(stax_error(ctx), calls[k].says)) printf("  found: %s\n", stax_error(ctx));
        if (!calls[k].says) CHECK(s == STAX_OK);
        stax_graph_free(g);
    }
    stax_value none = stax_none(), d;
    CHECK(stax_grad(none, &none, 1, &d) == STAX_E_ARGUMENT);
    CHECK(stax_vjp(&none, &none, 1, &none, 1, false, &d) == STAX_E_ARGUMENT);
    CHECK(stax_jvp(none, NULL, NULL, 1, &d) == STAX_E_ARGUMENT);
    stax_graph *g = parsed("graph g(x: f32[3]) { y = exp x; return y }");
    stax_value x = stax_graph_value(g, "x"), y = stax_graph_value(g, "y"), c = stax_sum(x, stax_axes_all(), false);
    CHECK(stax_vjp(&y, &c, 1, &x, 1, false, &d) == STAX_E_SHAPE &&
          strstr(stax_error(ctx), "stax_vjp: cotangent 0: expected f32[3], found f32[]"));
    stax_graph_free(g);
    g = parsed("graph g(x: f32[3]) { y = exp x; return y }");
    y = stax_graph_value(g, "y");
    CHECK(stax_jvp(y, &none, &y, 1, &d) == STAX_E_ARGUMENT &&
          strstr(stax_error(ctx), "stax_jvp: input 0: expected a value of the graph"));
    stax_graph_free(g);
}

/* ---- the cheap gradient (theorem 5.1) -------------------------------------------------------- */

/* Operations of y, output 0, and of y with its gradients; cotangents are an input. */
static bool operations(stax_graph *g, const stax_value *wrt, int n, stax_operations ops[2]) {
    enum { MOST_FACTORS = 256 };
    stax_value y = stax_graph_value(g, "y"), t, grads[MOST_FACTORS];
    char name[20];
    t = stax_input(g, "t_", stax_value_dtype(y), stax_value_shape(y));
    if (!CHECK(stax_vjp(&y, &t, 1, wrt, n, false, grads) == STAX_OK)) return false;
    for (int k = 0; k < n; k++) {
        sprintf(name, "d%d", k);
        (stax_output)(g, name, grads[k]);
    }
    return CHECK(stax_count_operations(g, 0, 1, NULL, &ops[0]) == STAX_OK) &&
           CHECK(stax_count_operations(g, 0, 1 + n, NULL, &ops[1]) == STAX_OK);
}

/* Every function of scalars with all its partial derivatives costs at most 5 times what it costs
   alone, of sums and products 3 times. maximum, minimum and copysign are one selection, and what is
   given at ties and at 0 takes more of them: 9 times. */
static void cheap(void) {
    double worst = 0;
    int n_functions = 0;
    for (int k = 0; k < N_CASES && !strstr(cases[k].body, "reshape"); k++) {
        static const char *const sums[] = {"= add ", "= sub ", "= mul ",
                                           "= neg ", "= fma ", "= square "};
        char text[600], *at = text;
        stax_value wrt[MOST_INPUTS];
        stax_operations ops[2];
        bool selects = strstr(cases[k].body, "imum ") || strstr(cases[k].body, "copysign");
        double most = selects ? 9 : 5;
        int n = 0;
        for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++)
            if (strstr(cases[k].body, sums[i])) most = 3;
        at += sprintf(at, "graph g(");
        for (const char *c = cases[k].inputs; *c; c++) { /* all of one shape */
            if (*c == '[') c += strcspn(c, "]");
            at += *c == '%'   ? sprintf(at, "f64")
                  : *c == ']' ? sprintf(at, "[8]")
                              : sprintf(at, "%c", *c);
        }
        at += sprintf(at, ") {\n");
        for (const char *c = cases[k].body; *c; c++) *at++ = *c == '|' ? '\n' : *c;
        sprintf(at, "\nreturn y\n}\n");
        if (strstr(text, "prelu") || strstr(text, "= glu") || strstr(text, "frexp"))
            continue; /* not of scalars */
        stax_graph *g = parsed(text);
        stax_input_info in;
        for (int i = 0; g && stax_graph_input(g, i, &in); i++)
            if (in.dtype == STAX_F64) wrt[n++] = stax_graph_value(g, in.name);
        if (g && stax_ok(g) && operations(g, wrt, n, ops)) {
            double ratio = ops[1].cost / (ops[0].cost > 0 ? ops[0].cost : 8);
            if (!CHECK(ratio <= most))
                printf("  %s: %.2f times, at most %g\n", cases[k].body, ratio, most);
            if (ratio > worst && most <= 5) worst = ratio;
            n_functions++;
        }
        stax_graph_free(g);
    }
    CHECK(n_functions > 70);
    printf("%d functions, at most %.2f times\n", n_functions, worst);
}

/* The product of n numbers, by one op and multiplied one after the other: all n partial derivatives
   in O(n) operations. */
static void product(void) {
    static stax_value x[256];
    double last[2] = {0, 0};
    for (int n = 16; n <= 256; n *= 4)
        for (int way = 0; way < 2; way++) {
            stax_graph *g = stax_graph_new(ctx);
            stax_value y = stax_none();
            stax_operations ops[2];
            char name[20];
            if (way == 0) {
                x[0] = stax_input(g, "x", STAX_F64, stax_shape1(n));
                y = stax_prod(x[0], stax_axes_all(), false);
            }
            for (int k = 0; k < n && way == 1; k++) {
                sprintf(name, "x%d", k);
                x[k] = stax_input(g, name, STAX_F64, stax_shape0());
                y = k ? stax_mul(y, x[k]) : x[k];
            }
            stax_output(g, "y", y);
            if (operations(g, x, way ? n : 1, ops)) {
                CHECK(ops[0].count >= n - 1 && ops[0].count <= n);
                if (!CHECK(ops[1].count <= 5.0 * n))
                    printf("  %d: %g operations\n", n, ops[1].count);
                if (last[way] > 0) CHECK(ops[1].count <= 4.3 * last[way]);
                last[way] = ops[1].count;
            }
            stax_graph_free(g);
        }
}

/* ---- the list of ops ------------------------------------------------------------------------- */

/* Every op that is said to have a gradient is in a case above; state is in `step`. */
static void listed(void) {
    char *text = stax_ops_text(ctx);
    int n[3] = {0, 0, 0};
    for (char *at = text; at && *at; at = strchr(at, '\n') + 1) {
        static const char *const words[] = {"yes", "0", "no"};
        char name[40], call[50], gradient[8];
        bool found = false;
        const char *close = strchr(at, '}'), *end = strchr(at, '\n');
        if (!CHECK(close && end && end - at > 104)) break;
        sscanf(at, "%39s", name);
        const char *column = at + 104; /* or behind a long list of attributes */
        if (close + 2 > column) column = close + 2;
        while (sscanf(column, "%7s", gradient) == 1 && strcmp(gradient, "yes") && strcmp(gradient, "no") &&
               strcmp(gradient, "0") && column < end)
            column += strspn(column, " ") + strcspn(column + strspn(column, " "), " ");
        for (int k = 0; k < 3; k++) n[k] += strcmp(gradient, words[k]) == 0;
        snprintf(call, sizeof call, "= %s ", name);
        for (int k = 0; k < N_CASES; k++) found = found || strstr(cases[k].body, call);
        found = found || strncmp(name, "assign", 6) == 0 || strcmp(name, "quiet") == 0 ||
                strcmp(name, "custom_call") == 0; /* own_functions has it */
        if (strcmp(gradient, "yes") == 0 && !CHECK(found)) printf("  no case of %s\n", name);
    }
    CHECK(n[0] > 140 && n[1] > 30 && n[2] > 3);
    printf("ops with a gradient: %d, constant: %d, without: %d\n", n[0], n[1], n[2]);
    stax_free(ctx, text);
}

int main(int argc, char **argv) {
    char name[60];
    HARNESS_BEGIN(argc, argv);
    ctx = cases_open(&quick);
    for (number = 0; number < N_CASES; number++) {
        cases_name(name, cases[number].body, number);
        RUN_NAMED(name, check_case);
    }
    RUN(narrow);
    RUN(kinks);
    RUN(step);
    RUN(trips);
    RUN(own_functions);
    RUN(wrong);
    RUN(listed);
    RUN(cheap);
    RUN(product);
    stax_close(ctx);
    ctx = stax_open(NULL);
    RUN(nets);
    stax_close(ctx);
    return HARNESS_END();
}
