/* State: assignment through views, writes in place, and memory that overlaps.

   The meaning of assignment is checked against a model that shares no code with the library: every
   value is a copy of its numbers, and a view of a state also has the place of each of its elements
   in the state. Numbers are small integers, so that no rounding and no order of a sum shows. */
#include <limits.h>
#include <stdarg.h>

#include "feed.h"
#include "harness.h"
#include "programs.h"

static void open_context(int threads) {
    stax_options o = stax_options_default();
    o.strict = 1;
    o.n_threads = threads;
    ctx = stax_open(&o);
}

/* ---- the model ----------------------------------------------------------------------------------
 */

enum { MOST = 2048, MOST_RANK = 4, MOST_VALUES = 48, MOST_STATES = 3, TEXT = 16384 };

typedef struct value {
    char name[8];
    int rank, dims[MOST_RANK], n;
    int state; /* -1: it is no view */
    float data[MOST];
    int place[MOST]; /* of a view's element in its state */
} value;

typedef struct model {
    uint64_t seed;
    int n_values, n_states, n_outputs, n_lines;
    value values[MOST_VALUES]; /* the states come first: their contents now; then the input */
    value first[MOST_STATES + 1];
    int outputs[4];
    char text[TEXT];
    size_t used;
} model;

static int below(model *m, int n) { return n > 0 ? (int)(feed_random(&m->seed) % (uint64_t)n) : 0; }

static void say(model *m, const char *format, ...) {
    va_list args;
    va_start(args, format);
    m->used += (size_t)vsnprintf(m->text + m->used, TEXT - m->used, format, args);
    va_end(args);
}

static void count(value *v) {
    v->n = 1;
    for (int d = 0; d < v->rank; d++) v->n *= v->dims[d];
}

static void say_shape(model *m, const value *v) {
    for (int d = 0; d < v->rank; d++) say(m, d ? ",%d" : "%d", v->dims[d]);
}

static value *fresh(model *m, const value *like) {
    value *v = &m->values[m->n_values];
    *v = *like;
    snprintf(v->name, sizeof v->name, "v%d", m->n_values++);
    return v;
}

/* Element i of r is element from[i] of x. */
static void take(value *r, const value *x, const int *from) {
    for (int i = 0; i < r->n; i++) {
        r->data[i] = x->data[from[i]];
        r->place[i] = x->place[from[i]];
    }
}

static void say_list(model *m, const char *name, const int *list, int n) {
    say(m, "%s=[", name);
    for (int d = 0; d < n; d++)
        say(m, list[d] == INT_MIN ? "%snone" : "%s%d", d ? "," : "", list[d]);
    say(m, "]");
}

static void view_slice(model *m, const value *x) {
    static const int some_steps[] = {1, 1, 1, 2, -1, -2, 3};
    int from[MOST], first[MOST_RANK], stop[MOST_RANK], step[MOST_RANK];
    value r = *x;
    for (int d = 0; d < x->rank; d++) {
        int n = x->dims[d], a = below(m, n), b = below(m, n + 1), by = some_steps[below(m, 7)];
        if (a < n && (by > 0 ? a >= b : a <= b) && below(m, 5)) b = by > 0 ? n : -1;
        r.dims[d] = 0;
        for (int i = a; i < n && (by > 0 ? i < b : i > b); i += by) r.dims[d]++;
        first[d] = a;
        stop[d] = b < 0 ? INT_MIN : b;
        step[d] = by;
    }
    say(m, "  v%d = slice %s {", m->n_values, x->name);
    say_list(m, "starts", first, x->rank);
    say_list(m, ", stops", stop, x->rank);
    say_list(m, ", steps", step, x->rank);
    say(m, "}\n");
    count(&r);
    for (int i = 0; i < r.n; i++) {
        int rest = i, at = 0, stride = 1;
        for (int d = x->rank - 1; d >= 0; d--) {
            at += (first[d] + rest % r.dims[d] * step[d]) * stride;
            rest /= r.dims[d];
            stride *= x->dims[d];
        }
        from[i] = at;
    }
    take(&r, x, from);
    fresh(m, &r);
}

static void view_permute(model *m, const value *x) {
    int from[MOST], axes[MOST_RANK], strides[MOST_RANK], stride = 1;
    value r = *x;
    for (int d = 0; d < x->rank; d++) axes[d] = d;
    for (int d = x->rank - 1; d > 0; d--) {
        int j = below(m, d + 1), t = axes[d];
        axes[d] = axes[j], axes[j] = t;
    }
    if (x->rank >= 2 && below(m, 2)) {
        for (int d = 0; d < x->rank; d++) axes[d] = d;
        axes[x->rank - 1] = x->rank - 2;
        axes[x->rank - 2] = x->rank - 1;
        say(m, "  v%d = transpose %s\n", m->n_values, x->name);
    } else {
        say(m, "  v%d = permute %s {axes=[", m->n_values, x->name);
        for (int d = 0; d < x->rank; d++) say(m, d ? ",%d" : "%d", axes[d]);
        say(m, "]}\n");
    }
    for (int d = x->rank - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= x->dims[d];
    }
    for (int d = 0; d < x->rank; d++) r.dims[d] = x->dims[axes[d]];
    for (int i = 0; i < r.n; i++) {
        int rest = i;
        from[i] = 0;
        for (int d = x->rank - 1; d >= 0; d--) {
            from[i] += rest % r.dims[d] * strides[axes[d]];
            rest /= r.dims[d];
        }
    }
    take(&r, x, from);
    fresh(m, &r);
}

static void view_flip(model *m, const value *x) {
    int from[MOST], axis = below(m, x->rank), inner = 1;
    value r = *x;
    for (int d = axis + 1; d < x->rank; d++) inner *= x->dims[d];
    say(m, "  v%d = flip %s {axes=[%d]}\n", m->n_values, x->name, axis);
    for (int i = 0; i < r.n; i++) {
        int k = i / inner % x->dims[axis];
        from[i] = i + (x->dims[axis] - 1 - 2 * k) * inner;
    }
    take(&r, x, from);
    fresh(m, &r);
}

/* reshape: two neighbours become one, one becomes two, or all become one; squeeze, unsqueeze. */
static void view_reshape(model *m, const value *x) {
    value r = *x;
    int axis = below(m, x->rank), n = x->dims[axis], way = below(m, 4);
    if (way == 0) {
        r.rank = 1;
        r.dims[0] = x->n;
        say(m, "  v%d = reshape %s {shape=[%d]}\n", m->n_values, x->name, x->n ? -1 : 0);
    } else if (n == 1 && x->rank > 1) {
        r.rank = 0;
        for (int d = 0; d < x->rank; d++)
            if (d != axis) r.dims[r.rank++] = x->dims[d];
        say(m, "  v%d = squeeze %s {axes=[%d]}\n", m->n_values, x->name, axis);
    } else if (x->rank < MOST_RANK && way == 1) {
        for (int d = x->rank; d > axis; d--) r.dims[d] = x->dims[d - 1];
        r.dims[axis] = 1;
        r.rank++;
        say(m, "  v%d = unsqueeze %s {axes=[%d]}\n", m->n_values, x->name, axis);
    } else if (x->rank < MOST_RANK && n % 2 == 0 && n > 0 && way == 2) {
        for (int d = x->rank; d > axis; d--) r.dims[d] = x->dims[d - 1];
        r.dims[axis] = 2;
        r.dims[axis + 1] = n / 2;
        r.rank++;
        say(m, "  v%d = reshape %s {shape=[", m->n_values, x->name);
        say_shape(m, &r);
        say(m, "]}\n");
    } else if (axis + 1 < x->rank) {
        r.dims[axis] = n * x->dims[axis + 1];
        for (int d = axis + 1; d + 1 < x->rank; d++) r.dims[d] = x->dims[d + 1];
        r.rank--;
        say(m, "  v%d = reshape %s {shape=[", m->n_values, x->name);
        say_shape(m, &r);
        say(m, "]}\n");
    } else {
        view_flip(m, x);
        return;
    }
    fresh(m, &r);
}

static void make_view(model *m) {
    int k = below(m, m->n_values);
    if (m->values[k].state < 0 || below(m, 2)) k = below(m, m->n_states);
    const value x = m->values[k];
    switch (below(m, 5)) {
        case 0:
            view_permute(m, &x);
            break;
        case 1:
            view_flip(m, &x);
            break;
        case 2:
            view_reshape(m, &x);
            break;
        default:
            view_slice(m, &x);
            break;
    }
}

static int same_shape(const value *a, const value *b) {
    if (a->rank != b->rank) return 0;
    for (int d = 0; d < a->rank; d++)
        if (a->dims[d] != b->dims[d]) return 0;
    return 1;
}

static void make_compute(model *m) {
    const value x = m->values[below(m, m->n_values)];
    value r = x;
    int way = below(m, 6), other = -1;
    r.state = -1;
    for (int tries = 0; tries < 6 && other < 0; tries++) {
        int k = below(m, m->n_values);
        if (same_shape(&m->values[k], &x)) other = k;
    }
    if (way >= 3 && other >= 0) {
        static const char *const names[] = {"add", "sub", "maximum"};
        const value *y = &m->values[other];
        say(m, "  v%d = %s %s, %s\n", m->n_values, names[way - 3], x.name, y->name);
        for (int i = 0; i < r.n; i++)
            r.data[i] = way == 3                 ? x.data[i] + y->data[i]
                        : way == 4               ? x.data[i] - y->data[i]
                        : x.data[i] > y->data[i] ? x.data[i]
                                                 : y->data[i];
    } else if (way == 2 && x.rank > 1) {
        int axis = below(m, x.rank), inner = 1, size = x.dims[axis];
        say(m, "  v%d = sum %s {axes=[%d]}\n", m->n_values, x.name, axis);
        for (int d = axis + 1; d < x.rank; d++) inner *= x.dims[d];
        for (int d = axis; d + 1 < x.rank; d++) r.dims[d] = x.dims[d + 1];
        r.rank--;
        count(&r);
        for (int i = 0; i < r.n; i++) {
            r.data[i] = 0;
            for (int k = 0; k < size; k++)
                r.data[i] += x.data[(i / inner * size + k) * inner + i % inner];
        }
    } else {
        int by = 1 + below(m, 9);
        say(m, "  v%d = add %s, %d.0\n", m->n_values, x.name, by);
        for (int i = 0; i < r.n; i++) r.data[i] = x.data[i] + (float)by;
    }
    fresh(m, &r);
}

/* Does v broadcast to the shape of room? Then to[i] is the element of v at element i. */
static int fits(const value *v, const value *room, int *to) {
    if (v->rank > room->rank) return 0;
    for (int d = 1; d <= v->rank; d++)
        if (v->dims[v->rank - d] != 1 && v->dims[v->rank - d] != room->dims[room->rank - d])
            return 0;
    for (int i = 0; i < room->n; i++) {
        int rest = i, stride = 1;
        to[i] = 0;
        for (int d = 1; d <= room->rank; d++) {
            int at = rest % room->dims[room->rank - d];
            rest /= room->dims[room->rank - d];
            if (d > v->rank) continue;
            if (v->dims[v->rank - d] != 1) to[i] += at * stride;
            stride *= v->dims[v->rank - d];
        }
    }
    return 1;
}

static void make_assign(model *m) {
    static int at[MOST], found[MOST_VALUES];
    int k = below(m, m->n_values), n = 0;
    if (m->values[k].state < 0 || below(m, 5) == 0) k = below(m, m->n_states);
    const value *room = &m->values[k];
    value *state = &m->values[room->state];
    for (int j = 0; j < m->n_values; j++)
        if (fits(&m->values[j], room, at) && (m->values[j].n == room->n || below(m, 3) == 0))
            found[n++] = j;
    if (n == 0 || below(m, 6) == 0) {
        int to = below(m, 9);
        say(m, "  assign %s, %d.0\n", room->name, to);
        for (int i = 0; i < room->n; i++) state->data[room->place[i]] = (float)to;
    } else {
        static value v;
        v = m->values[found[below(m, n)]]; /* a copy: it may be the state */
        say(m, "  assign %s, %s\n", room->name, v.name);
        fits(&v, room, at);
        for (int i = 0; i < room->n; i++) state->data[room->place[i]] = v.data[at[i]];
    }
}

static void model_make(model *m, uint64_t seed) {
    memset(m, 0, sizeof *m);
    m->seed = seed * 7919 + 3;
    m->n_states = 1 + below(m, MOST_STATES);
    say(m, "graph g%d(", (int)seed);
    int long_axis = below(m, 3) == 0;
    for (int k = 0; k <= m->n_states; k++) {
        value *v = &m->values[m->n_values++];
        if (k > 0 && below(m, 2)) *v = m->values[0];
        if (v->rank == 0) {
            v->rank = 1 + below(m, 3);
            for (int d = 0; d < v->rank; d++)
                v->dims[d] = 1 + below(m, long_axis && d == v->rank - 1 ? 37 : 6);
        }
        count(v);
        v->state = k < m->n_states ? k : -1;
        snprintf(v->name, sizeof v->name, "%c%d", k < m->n_states ? 'p' : 'x', k);
        for (int i = 0; i < v->n; i++) {
            v->data[i] = (float)(below(m, 200) - 100);
            v->place[i] = i;
        }
        m->first[k] = *v;
        say(m, "%s%s: f32[", k < m->n_states ? "inout " : "", v->name);
        say_shape(m, v);
        say(m, k < m->n_states ? "], " : "]) {\n");
    }
    int lines = 4 + below(m, 16);
    while (lines-- > 0) {
        int way = below(m, 10);
        if (way < 4)
            make_view(m);
        else if (way < 7)
            make_compute(m);
        else
            make_assign(m);
    }
    say(m, "  return ");
    for (int k = 0; k < 3; k++) {
        int v = below(m, m->n_values), seen = 0;
        for (int j = 0; j < m->n_outputs; j++) seen |= m->outputs[j] == v;
        if (seen || v == m->n_states) continue;
        say(m, m->n_outputs ? ", %s" : "%s", m->values[v].name);
        m->outputs[m->n_outputs++] = v;
    }
    if (m->n_outputs == 0) {
        say(m, "p0");
        m->outputs[m->n_outputs++] = 0;
    }
    say(m, "\n}\n");
}

/* ---- programs against the model
 * ------------------------------------------------------------------ */

static float memory[MOST_STATES + 1][MOST], results[4][MOST];

static int agrees(const model *m, const stax_graph *g, stax_program *p) {
    stax_tensor in[MOST_STATES + 1], out[4];
    int ok = 1;
    for (int k = 0; k <= m->n_states; k++) {
        stax_shape s = stax_shape0();
        for (int d = 0; d < m->first[k].rank; d++) s.dims[s.rank++] = m->first[k].dims[d];
        memcpy(memory[k], m->first[k].data, sizeof memory[k]);
        in[k] = stax_tensor_of(STAX_F32, s, memory[k]);
    }
    for (int k = 0; k < m->n_outputs; k++) {
        const value *v = &m->values[m->outputs[k]];
        stax_shape s = stax_shape0();
        for (int d = 0; d < v->rank; d++) s.dims[s.rank++] = v->dims[d];
        memset(results[k], 0x55, sizeof results[k]);
        out[k] = stax_tensor_of(STAX_F32, s, results[k]);
    }
    stax_status s = p ? stax_run(p, in, out) : stax_interpret(g, in, out);
    if (s != STAX_OK) printf("%s\n", stax_error(ctx));
    ok &= s == STAX_OK;
    for (int k = 0; k <= m->n_states; k++)
        for (int i = 0; i < m->values[k].n; i++) ok &= memory[k][i] == m->values[k].data[i];
    for (int k = 0; k < m->n_outputs; k++)
        for (int i = 0; i < m->values[m->outputs[k]].n; i++)
            ok &= results[k][i] == m->values[m->outputs[k]].data[i];
    return ok;
}

enum { PACK = 40 };

static int random_programs(int from, int to) {
    static model models[PACK];
    int bad = 0;
    for (int at = from; at < to; at += PACK) {
        stax_graph *graphs[PACK];
        stax_program *programs[PACK];
        int n = to - at < PACK ? to - at : PACK;
        for (int k = 0; k < n; k++) {
            model_make(&models[k], (uint64_t)(at + k));
            graphs[k] = parsed(models[k].text);
            if (!graphs[k]) return bad + 1;
        }
        stax_status s = stax_compile_many((const stax_graph *const *)graphs, n, NULL, programs);
        if (!CHECK_INT(s, STAX_OK)) printf("%s\n", stax_error(ctx));
        for (int k = 0; k < n; k++) {
            int mean = agrees(&models[k], graphs[k], NULL);
            int fast = s == STAX_OK && agrees(&models[k], graphs[k], programs[k]);
            if (!CHECK(mean) || !CHECK(fast))
                printf("seed %d: %s\n%s", at + k, mean ? "compiled" : "interpreted",
                       models[k].text);
            bad += !mean || !fast;
            stax_graph_free(graphs[k]);
            if (s == STAX_OK) stax_program_free(programs[k]);
        }
    }
    return bad;
}

static void test_model(void) {
    const char *n = getenv("STATE_PROGRAMS");
    CHECK_INT(random_programs(1, n ? atoi(n) : 401), 0);
}

static void test_model_threads(void) {
    stax_context *one = ctx;
    open_context(3);
    CHECK_INT(random_programs(5001, 5041), 0);
    stax_close(ctx);
    ctx = one;
}

/* ---- the plan -----------------------------------------------------------------------------------
 */

/* Runs a program on tensors of its own beside the interpreter: same bits in outputs and states. */
static void agrees_with_interpreter(const stax_graph *g, stax_program *p) {
    static feed a, b;
    if (!CHECK(feed_make(&a, g, 9, 7)) || !CHECK(feed_make(&b, g, 9, 7))) return;
    CHECK_INT(stax_interpret(g, a.all, a.outputs), STAX_OK);
    CHECK_INT(stax_run(p, b.slots, b.outputs), STAX_OK);
    for (int k = 0; k < a.n_memory; k++)
        CHECK_BYTES(b.memory[k], a.memory[k], a.bytes[k] + 2 * FEED_GUARD);
    feed_free(&a);
    feed_free(&b);
}

/* The program of a text, whose plan must have these lines ("|" between them). */
static void planned(const char *text, const char *lines) {
    stax_graph *g = parsed(text);
    stax_program *p = compiled(g);
    if (p) {
        char *plan = stax_program_report(p, STAX_REPORT_PLAN), line[200];
        while (*lines) {
            size_t n = strcspn(lines, "|");
            snprintf(line, sizeof line, "%.*s\n", (int)n, lines);
            CHECK_HAS(plan, line);
            lines += n + (lines[n] == '|');
        }
        stax_free(ctx, plan);
        agrees_with_interpreter(g, p);
    }
    stax_program_free(p);
    stax_graph_free(g);
}

/* y[0] += 1: one row is read, one is written, nothing is copied. */
static void test_one_row(void) {
    static const char *const texts[] = {
        "graph g(inout y: f32[1000,1000]) {\n  r = slice y {starts=[0,0], stops=[1,1000]}\n"
        "  a = add r, 1.0\n  assign r, a\n}",
        "graph g(inout y: f32[1000,1000]) {\n  t = transpose y\n"
        "  r = slice t {starts=[0,0], stops=[1000,1]}\n  s = squeeze r {axes=[1]}\n"
        "  a = add s, 1.0\n  assign s, a\n}",
        "graph g(inout y: f32[1000,1000]) {\n  f = reshape y {shape=[-1]}\n"
        "  r = slice f {starts=[999], stops=[none], steps=[-1]}\n"
        "  a = add r, 1.0\n  assign r, a\n}"};
    for (int k = 0; k < 3; k++) {
        stax_graph *g = parsed(texts[k]);
        stax_program *p = compiled(g);
        stax_figures f;
        if (p && CHECK_INT(stax_program_figures(p, NULL, &f), STAX_OK)) {
            CHECK_INT(f.kernels, 1);
            CHECK_INT(f.bytes, 8000);
            CHECK_INT(f.workspace_bytes, 0);
        }
        stax_program_free(p);
        stax_graph_free(g);
        planned(texts[k], "state y: kernel 0 writes 4000 bytes in place|copies: 0 bytes");
    }
}

static void test_plans(void) {
    planned("graph g(inout x: f32[1000], y: f32[1000]) {\n  a = add x, y\n  assign x, a\n}",
            "state x: kernel 0 writes 4000 bytes in place|copies: 0 bytes");
    planned(
        "sizes n: 1..\ngraph g(inout x: f32[n,4], y: f32[n,4]) {\n  a = add x, y\n  assign x, a\n"
        "  b = mul x, 2.0\n  assign x, b\n  s = sum x\n  return s\n}",
        "copies: 0 bytes");
    planned(
        "graph g(inout p: f32[100], inout q: f32[100]) {\n  v = slice p {starts=[none], "
        "stops=[none]}\n"
        "  assign p, q\n  assign q, v\n}",
        "state p: kernel 0 writes 400 bytes in place|state q: kernel 0 writes 400 bytes in place|"
        "copies: 0 bytes");
    planned(
        "graph g(inout p: f32[100], inout q: f32[100]) {\n  v = flip p\n  assign p, q\n  assign q, "
        "v\n}",
        "copies: 400 bytes");
    planned(
        "graph g(inout p: f32[100], inout q: f32[100]) {\n  a = add p, q\n  b = sub p, q\n  assign "
        "p, a\n"
        "  assign q, b\n  c = mul p, q\n  return c\n}",
        "state p: kernel 0 writes 400 bytes in place|state q: kernel 0 writes 400 bytes in place|"
        "copies: 0 bytes");
    planned("graph g(inout p: f32[101]) {\n  f = flip p\n  assign p, f\n}",
            "state p: kernel 1 writes 404 bytes from a copy: it reads what it, or a state it waits "
            "for, "
            "overwrites|copies: 404 bytes");
    planned(
        "graph g(inout p: f32[100]) {\n  a = slice p {starts=[0], stops=[99]}\n"
        "  b = slice p {starts=[1], stops=[100]}\n  assign b, a\n}",
        "copies: 396 bytes");
    planned(
        "graph g(inout p: f32[100]) {\n  a = slice p {starts=[0], stops=[50]}\n"
        "  b = slice p {starts=[50], stops=[100]}\n  assign b, a\n  return a\n}",
        "copies: 200 bytes");
    /* an earlier reader runs first; a later one reads the state's memory: still nothing is copied
     */
    planned(
        "graph g(inout p: f32[8,16], x: f32[16]) {\n  s = sum p {axes=[1]}\n  e = exp s\n"
        "  r = slice p {starts=[2,0], stops=[3,16]}\n  assign r, x\n"
        "  t = slice p {starts=[3,0], stops=[4,16]}\n  u = mul t, 2.0\n  assign t, u\n"
        "  z = max p {axes=[0]}\n  return e, z\n}",
        "copies: 0 bytes");
    planned(
        "graph g(inout h: f32[32], w: f32[32,32], x: f32[32]) {\n  a = matmul w, h\n  b = add a, "
        "x\n"
        "  c = tanh b\n  assign h, c\n  return c\n}",
        "state h: kernel 1 writes 128 bytes in place|copies: 0 bytes");
    planned("graph g(inout p: f32[16,16], x: f32[16,16]) {\n  a = matmul p, x\n  assign p, a\n}",
            "copies: 1024 bytes");
    planned(
        "graph g(inout n: i64[], inout m: f32[4], inout v: f32[4], inout p: f32[4], d: f32[4]) {\n"
        "  n1 = add n, 1\n  assign n, n1\n  a = lerp m, d, 0.1\n  assign m, a\n  dd = square d\n"
        "  b = lerp v, dd, 0.01\n  assign v, b\n  r = sqrt v\n  s = add r, 1e-8\n  u = div m, s\n"
        "  w = mul u, 0.001\n  q = sub p, w\n  assign p, q\n}",
        "state m: kernel 1 writes 16 bytes in place|state v: kernel 1 writes 16 bytes in place|"
        "state p: kernel 1 writes 16 bytes in place|copies: 0 bytes");
}

/* Example 4.4 and exercise 8: y[0].add_(1), then y.t()[0].add_(1), in pure form. */
static void test_functionalized(void) {
    static const char *const texts[] = {
        "graph g(inout y: f32[3,4]) {\n  r = slice y {starts=[0,0], stops=[1,4]}\n  a = add r, "
        "1.0\n  assign r, a\n}",
        "graph g(inout y: f32[3,4]) {\n  t = transpose y\n  r = slice t {starts=[0,0], "
        "stops=[1,3]}\n"
        "  a = add r, 1.0\n  assign r, a\n}"};
    static const char *const ops[] = {"slice expand add slice_scatter ",
                                      "permute slice reshape expand add slice_scatter permute "};
    for (int k = 0; k < 2; k++) {
        stax_graph *g = parsed(texts[k]), *pure = stax_rewritten(g);
        char *text = CHECK(pure != NULL) ? stax_print(pure) : NULL, found[200] = "";
        for (const char *at = text; at && (at = strstr(at, "] = ")) != NULL; at += 4)
            snprintf(found + strlen(found), sizeof found - strlen(found), "%.*s ",
                     (int)strcspn(at + 4, " "), at + 4);
        CHECK_TEXT(found, ops[k]);
        stax_free(ctx, text);
        stax_graph_free(pure);
        stax_graph_free(g);
    }
}

/* The two conditions of P 4.4: what was put in is seen, and what was there may be put back. */
static void test_scatter_laws(void) {
    static const char *const lists[] = {"starts=[1,0], stops=[3,5], steps=[1,2]",
                                        "starts=[none,none], stops=[none,none], steps=[-1,-2]",
                                        "starts=[2,4], stops=[none,1], steps=[-1,-1]",
                                        "starts=[0,7], stops=[9,9], steps=[1,1]",
                                        "starts=[-1,0], stops=[none,none], steps=[5,3]",
                                        "starts=[0,0], stops=[4,6], steps=[1,1]"};
    for (int k = 0; k < 6; k++) {
        char text[600];
        snprintf(text, sizeof text,
                 "graph g(x: f32[4,6], z: f32[4,6]) {\n  v = slice z {%s}\n  a = slice_scatter x, "
                 "v {%s}\n"
                 "  b = slice a {%s}\n  o = slice x {%s}\n  c = slice_scatter x, o {%s}\n  return "
                 "b, v, c\n}",
                 lists[k], lists[k], lists[k], lists[k], lists[k]);
        stax_graph *g = parsed(text);
        stax_program *p = compiled(g);
        static feed f;
        if (p && CHECK(feed_make(&f, g, 4, 5))) {
            for (int pass = 0; pass < 2; pass++) {
                CHECK_INT(
                    pass ? stax_run(p, f.slots, f.outputs) : stax_interpret(g, f.all, f.outputs),
                    STAX_OK);
                int64_t n = f.outputs[0].shape[0] * f.outputs[0].shape[1];
                CHECK_BYTES(f.outputs[0].data, f.outputs[1].data, (size_t)n * 4);
                CHECK_BYTES(f.outputs[2].data, f.all[0].data, 24 * 4);
            }
            feed_free(&f);
        }
        stax_program_free(p);
        stax_graph_free(g);
    }
}

/* States carry on from call to call, also where contents are written in several steps. */
static void test_calls(void) {
    stax_graph *g = parsed(
        "graph g(inout p: f32[3,4], inout k: i64[]) {\n"
        "  t = transpose p\n  c = slice t {starts=[1,0], stops=[2,3]}\n"
        "  d = add c, 1.0\n  assign c, d\n  k1 = add k, 1\n  assign k, k1\n"
        "  s = sum p\n  return s, k\n}");
    stax_program *p = compiled(g);
    static float m[12], s;
    static int64_t k, now;
    stax_tensor in[2], out[2];
    in[0] = stax_tensor_of(STAX_F32, stax_shape2(3, 4), m);
    in[1] = stax_tensor_of(STAX_I64, stax_shape0(), &k);
    out[0] = stax_tensor_of(STAX_F32, stax_shape0(), &s);
    out[1] = stax_tensor_of(STAX_I64, stax_shape0(), &now);
    for (int i = 0; p && i < 5; i++) {
        CHECK_INT(stax_run(p, in, out), STAX_OK);
        CHECK_INT(now, i + 1);
        CHECK_INT(k, i + 1);
        CHECK_FLOAT(s, 3 * (i + 1));
        CHECK_FLOAT(m[5], i + 1);
        CHECK_FLOAT(m[4], 0);
    }
    stax_program_free(p);
    stax_graph_free(g);
}

/* A state that the caller keeps transposed, or as every second column of something. */
static void test_strided(void) {
    static const char text[] =
        "graph g(inout p: f32[3,4] strided, x: f32[4]) {\n"
        "  r = slice p {starts=[1,none], stops=[3,none]}\n  a = add r, x\n"
        "  assign r, a\n  f = flip p {axes=[1]}\n  s = sum f {axes=[0]}\n"
        "  b = slice p {starts=[0,0], stops=[3,1]}\n  assign b, 5.0\n"
        "  m = neg p\n  assign p, m\n  return s\n}";
    stax_graph *g = parsed(text);
    stax_program *p = compiled(g);
    float row[12], room[64], x[4] = {1, 2, 3, 4}, s[4], t[4];
    static const int64_t strides[3][2] = {{4, 1}, {1, 3}, {-16, 2}};
    static const int first[3] = {0, 0, 40};
    for (int k = 0; p && k < 3; k++) {
        stax_tensor in[2], out;
        for (int pass = 0; pass < 2; pass++) {
            float *to = pass ? room + first[k] : row;
            for (int i = 0; i < 64; i++) room[i] = pass ? -1.0f : room[i];
            in[0] = stax_tensor_of(STAX_F32, stax_shape2(3, 4), to);
            if (pass) in[0].strides[0] = strides[k][0], in[0].strides[1] = strides[k][1];
            for (int i = 0; i < 12; i++)
                to[i / 4 * in[0].strides[0] + i % 4 * in[0].strides[1]] = (float)(i * i % 11);
            in[1] = stax_tensor_of(STAX_F32, stax_shape1(4), x);
            out = stax_tensor_of(STAX_F32, stax_shape1(4), pass ? s : t);
            CHECK_INT(pass ? stax_run(p, in, &out) : stax_interpret(g, in, &out), STAX_OK);
        }
        CHECK_BYTES(s, t, sizeof s);
        for (int i = 0; i < 12; i++)
            CHECK_FLOAT(room[first[k] + i / 4 * strides[k][0] + i % 4 * strides[k][1]], row[i]);
        int touched = 0;
        for (int i = 0; i < 64; i++) touched += room[i] != -1.0f;
        CHECK(touched <= 12);
    }
    stax_program_free(p);
    stax_graph_free(g);
}

/* ---- memory that overlaps
   ------------------------------------------------------------------------ Every tensor of a call
   lies in one arena. A layout moves some of them onto each other; the call must then give what it
   gives apart, or refuse and say which two, and then change nothing. */

enum { ARENA = 4096, CELLS = 48 };

typedef struct overlap {
    const char *text;
    int rank, dims[2];  /* of all tensors: inputs x and y (or the state s and x), outputs a and b */
    const char *always; /* layouts that must be done in place by the compiled program */
} overlap;

static const overlap overlaps[] = {
    {"graph g(x: f32[6,8], y: f32[6,8]) {\n  a = add x, y\n  b = mul x, 2.0\n  return a, b\n}",
     2,
     {6, 8},
     ""},
    {"graph g(x: f32[48], y: f32[48]) {\n  t = mul x, y\n  a = exp t\n  b = flip y\n  return a, "
     "b\n}",
     1,
     {48, 0},
     "a=x "},
    {"graph g(x: f32[6,8], y: f32[6,8]) {\n  a = softmax x\n  b = sub y, 1.0\n  return a, b\n}",
     2,
     {6, 8},
     "b=y "},
    {"graph g(x: f32[6,8], y: f32[6,8]) {\n  s = sum x\n  t = sum y\n  q = add s, t\n  r = expand "
     "q {shape=[6,8]}\n"
     "  a = barrier r\n  b = add a, 1.0\n  return a, b\n}",
     2,
     {6, 8},
     "a=x b=x a=y b=y "},
    {"graph g(x: f32[6,8], y: f32[6,8]) {\n  u = slice x {starts=[1,0], stops=[6,8]}\n  l = slice "
     "x {starts=[0,0], stops=[1,8]}\n"
     "  a = concat u, l {axis=0}\n  b = minimum x, y\n  return a, b\n}",
     2,
     {6, 8},
     ""},
    {"graph g(x: f32[6,8], y: f32[6,8]) {\n  s = sum x {axes=[1], keepdims=true}\n  a = mul y, s\n "
     " b = add s, 1.0\n  c = expand b {shape=[6,8]}\n"
     "  return a, c\n}",
     2,
     {6, 8},
     "a=y "},
    {"graph g(x: f32[8,8], y: f32[8,8]) {\n  a = matmul x, y\n  b = transpose y\n  return a, b\n}",
     2,
     {8, 8},
     ""},
    {"graph g(x: f32[48], y: f32[48]) {\n  c = max x\n  a = sub x, c\n  d = exp a\n  e = sum d\n  "
     "b = div d, e\n  return a, b\n}",
     1,
     {48, 0},
     ""},
    {"graph g(inout x: f32[6,8], y: f32[6,8]) {\n  a = add x, y\n  assign x, a\n  b = mul y, 2.0\n "
     " return a, b\n}",
     2,
     {6, 8},
     ""},
    {"graph g(inout x: f32[6,8], y: f32[6,8]) {\n  r = slice x {starts=[1,0], stops=[3,8]}\n  q = "
     "slice y {starts=[0,0], stops=[2,8]}\n"
     "  assign r, q\n  a = add x, y\n  b = neg x\n  return a, b\n}",
     2,
     {6, 8},
     ""},
    {"graph g(inout x: f32[6,8], inout y: f32[6,8]) {\n  r = slice x {starts=[1,0], stops=[3,8]}\n "
     " q = slice y {starts=[0,0], stops=[2,8]}\n"
     "  assign r, q\n  assign q, 3.0\n  a = add x, y\n  b = neg x\n  return a, b\n}",
     2,
     {6, 8},
     ""},
    {"graph g(inout x: f32[48], y: f32[48]) {\n  m = sum y\n  n = expand m {shape=[48]}\n  assign "
     "x, n\n  a = exp x\n  b = abs a\n  return a, b\n}",
     1,
     {48, 0},
     "x=y "},
    {"graph g(x: f32[6,8] strided, y: f32[6,8]) {\n  a = add x, y\n  b = sub y, x\n  return a, "
     "b\n}",
     2,
     {6, 8},
     ""},
    {"graph g(x: f32[6,8], n: f32[6,8]) {\n  a, c = loop 2, x, n { body(i, u, v) { w = add u, v\n  "
     "z = flip u\n  return w, z } }\n"
     "  b = neg c\n  return a, b\n}",
     2,
     {6, 8},
     "a=x a=n b=x "}};

/* Places of x, y, a, b in the arena, in elements, and the name of what meets. */
typedef struct layout {
    const char *name;
    int at[4];
} layout;

static const layout layouts[] = {
    {"apart ", {0, 100, 200, 300}}, {"a=x ", {0, 100, 0, 300}},     {"b=x ", {0, 100, 200, 0}},
    {"a=y ", {0, 100, 100, 300}},   {"b=y ", {0, 100, 200, 100}},   {"x=y ", {0, 0, 200, 300}},
    {"x=y=a ", {0, 0, 0, 300}},     {"a=x b=y ", {0, 100, 0, 100}}, {"a=y b=x ", {0, 100, 100, 0}},
    {"a=b ", {0, 100, 200, 200}},   {"a~b ", {0, 100, 200, 247}},   {"a~x+1 ", {0, 100, 1, 300}},
    {"a~x+47 ", {0, 100, 47, 300}}, {"a~x-1 ", {50, 100, 49, 300}}, {"x~a-47 ", {0, 200, 300, 47}},
    {"x~y ", {0, 1, 200, 300}},     {"x~y a=x ", {0, 3, 0, 300}},   {"b~y-8 ", {0, 100, 200, 92}},
    {"touch ", {0, 64, 128, 192}},  {"a=b=x ", {0, 100, 0, 0}}};

static float arena[ARENA];

static void lay(const overlap *o, const layout *l, stax_tensor *t) {
    for (int k = 0; k < 4; k++) {
        stax_shape s = stax_shape0();
        for (int d = 0; d < o->rank; d++) s.dims[s.rank++] = o->dims[d];
        t[k] = stax_tensor_of(STAX_F32, s, arena + 64 + l->at[k]);
    }
    for (int i = 0; i < ARENA; i++) arena[i] = (float)((i * 37 + 11) % 64) / 8.0f - 4.0f;
}

static int64_t cells(const overlap *o) { return o->dims[0] * (o->rank > 1 ? o->dims[1] : 1); }

/* What a call gives when nothing overlaps: the same inputs, all memory apart. */
static void apart(const overlap *o, const stax_graph *g, const stax_tensor *t, float (*want)[64]) {
    stax_tensor u[4];
    size_t bytes = (size_t)cells(o) * sizeof(float);
    for (int k = 0; k < 4; k++) {
        u[k] = t[k];
        u[k].data = want[k];
        if (k < 2) memcpy(want[k], t[k].data, bytes);
    }
    CHECK_INT(stax_interpret(g, u, u + 2), STAX_OK);
}

typedef stax_status (*call_fn)(stax_program *p, const stax_graph *g, const stax_tensor *t);
static stax_status call_run(stax_program *p, const stax_graph *g, const stax_tensor *t) {
    return (void)g, stax_run(p, t, t + 2);
}
static stax_status call_interpret(stax_program *p, const stax_graph *g, const stax_tensor *t) {
    return (void)p, stax_interpret(g, t, t + 2);
}
static stax_status call_with(stax_program *p, const stax_graph *g, const stax_tensor *t) {
    size_t bytes = stax_workspace_bytes(p, t);
    char *room = (char *)malloc(bytes + STAX_ALIGN), *at = room;
    (void)g;
    at += STAX_ALIGN - (uintptr_t)room % STAX_ALIGN;
    stax_status s = stax_run_with(p, t, t + 2, at, bytes);
    free(room);
    return s;
}

static int right, refused;

static void one_overlap(const overlap *o, const layout *l, const stax_graph *g, stax_program *p,
                        call_fn call, bool must) {
    static float before[ARENA], want[4][64];
    stax_tensor t[4];
    int is_state[2];
    lay(o, l, t);
    memcpy(before, arena, sizeof arena);
    apart(o, g, t, want);
    for (int k = 0; k < 2; k++) is_state[k] = memcmp(want[k], t[k].data, (size_t)cells(o) * 4) != 0;
    stax_status s = call(p, g, t);
    if (s == STAX_OK) {
        for (int k = 0; k < 4; k++)
            if (k >= 2 || is_state[k])
                if (!CHECK_BYTES(t[k].data, want[k], (size_t)cells(o) * 4))
                    printf("%s: tensor %d of\n%s\n", l->name, k, o->text);
        right++;
        if (strcmp(l->name, "a=b ") == 0 || strchr(l->name, '~'))
            if (!CHECK(strcmp(l->name, "x~y ") == 0))
                printf("%s is allowed\n%s\n", l->name, o->text);
    } else {
        CHECK_INT(s, STAX_E_ALIAS);
        CHECK_HAS(stax_error(ctx), "share memory: bytes ");
        CHECK_BYTES(arena, before, sizeof arena);
        if (!CHECK(!must)) printf("%s: %s\n%s\n", l->name, stax_error(ctx), o->text);
        refused++;
    }
}

static void test_overlaps(void) {
    static const call_fn calls[] = {call_run, call_interpret, call_with};
    right = refused = 0;
    for (size_t k = 0; k < sizeof overlaps / sizeof *overlaps; k++) {
        const overlap *o = &overlaps[k];
        stax_graph *g = parsed(o->text);
        stax_program *p = compiled(g);
        for (size_t j = 0; p && j < sizeof layouts / sizeof *layouts; j++)
            for (int c = 0; c < 3; c++) {
                const char *name = layouts[j].name;
                bool must =
                    j == 0 || strcmp(name, "touch ") == 0 || (c != 1 && strstr(o->always, name));
                one_overlap(o, &layouts[j], g, p, calls[c], must);
            }
        stax_program_free(p);
        stax_graph_free(g);
    }
    printf("overlaps: %d right, %d refused\n", right, refused);
    CHECK(right > 100 && refused > 100);
}

/* Strided tensors: what lies between the elements is not theirs. */
static void test_strided_overlaps(void) {
    stax_graph *g = parsed(
        "graph g(x: f32[6] strided, inout s: f32[6] strided) {\n"
        "  a = add s, x\n  assign s, a\n  b = flip x\n  return b\n}");
    stax_program *p = compiled(g);
    stax_tensor in[2], out;
    float room[6];
    for (int k = 0; k < 6; k++) {
        /* x at even places; the state at odd ones, shifted, reversed, or between */
        static const int at[6] = {1, 0, 2, 11, 10, 24};
        static const int64_t stride[6] = {2, 2, 2, -2, -2, 1};
        static const int legal[6] = {1, 0, 0, 1, 0, 1};
        for (int i = 0; i < ARENA; i++) arena[i] = (float)(i % 13);
        in[0] = stax_tensor_of(STAX_F32, stax_shape1(6), arena);
        in[1] = stax_tensor_of(STAX_F32, stax_shape1(6), arena + at[k]);
        in[0].strides[0] = 2;
        in[1].strides[0] = stride[k];
        out = stax_tensor_of(STAX_F32, stax_shape1(6), room);
        stax_status s = p ? stax_run(p, in, &out) : STAX_E_INTERNAL;
        CHECK_INT(s, legal[k] ? STAX_OK : STAX_E_ALIAS);
        for (int i = 0; s == STAX_OK && i < 6; i++) {
            CHECK_FLOAT(room[i], (10 - 2 * i) % 13);
            CHECK_FLOAT(arena[at[k] + i * stride[k]], (at[k] + i * stride[k]) % 13 + 2 * i % 13);
        }
        if (s == STAX_E_ALIAS) {
            CHECK_HAS(stax_error(ctx), " share memory: bytes ");
            CHECK_INT(stax_interpret(g, in, &out), k == 1 ? STAX_OK : STAX_E_ALIAS);
        }
    }
    in[1].strides[0] = 0;
    CHECK_INT(stax_run(p, in, &out), STAX_E_ALIAS);
    CHECK_HAS(stax_error(ctx), "state s: its elements share memory");
    stax_program_free(p);
    stax_graph_free(g);
}

/* The caller's workspace is apart from everything, and so says the message. */
static void test_workspace_overlaps(void) {
    stax_graph *g = parsed(
        "graph g(x: f32[32], inout s: f32[32], param w: f32[32,32]) {\n"
        "  a = matmul w, x\n  b = matmul w, a\n  f = flip s\n  assign s, f\n  return b\n}");
    stax_program *p = compiled(g);
    static unsigned char raw[4096 + STAX_ALIGN];
    unsigned char *room = raw + STAX_ALIGN - (uintptr_t)raw % STAX_ALIGN;
    float w[1024];
    stax_tensor in[2], out, t;
    static const char *const names[] = {"input x", "state s", "output b"};
    for (int i = 0; i < 1024; i++) w[i] = 1.0f;
    t = stax_tensor_of(STAX_F32, stax_shape2(32, 32), w);
    if (!p || !CHECK_INT(stax_bind(p, "w", &t), STAX_OK)) return;
    for (int k = -1; k < 9; k++) {
        size_t need;
        in[0] = stax_tensor_of(STAX_F32, stax_shape1(32), room + 1024);
        in[1] = stax_tensor_of(STAX_F32, stax_shape1(32), room + 2048);
        out = stax_tensor_of(STAX_F32, stax_shape1(32), room + 3072);
        need = stax_workspace_bytes(p, in);
        CHECK(need > 0 && need <= 1024);
        stax_tensor *moved = k < 0 ? NULL : k % 3 == 0 ? &in[0] : k % 3 == 1 ? &in[1] : &out;
        size_t places[3] = {0, need - 4, need / 2 / 4 * 4};
        if (moved) moved->data = room + places[k / 3];
        stax_status s = stax_run_with(p, in, &out, room, need);
        CHECK_INT(s, moved ? STAX_E_ALIAS : STAX_OK);
        if (!moved) continue;
        CHECK_HAS(stax_error(ctx), "the workspace and ");
        CHECK_HAS(stax_error(ctx), names[k % 3]);
        moved->data = room + need; /* just behind it */
        CHECK_INT(stax_run_with(p, in, &out, room, need), STAX_OK);
    }
    stax_program_free(p);
    stax_graph_free(g);
}

static void test_select(void) {
    stax_context *quiet = stax_open(NULL);
    stax_graph *g = stax_parse(quiet, "state",
                               "graph g(inout y: f32[3,4]) {\n  r = select y {axis=0, index=0}\n"
                               "  a = add r, 1.0\n  assign r, a\n}");
    if (g)
        planned(
            "graph g(inout y: f32[3,4]) {\n  r = select y {axis=0, index=0}\n  a = add r, 1.0\n"
            "  assign r, a\n}",
            "state y: kernel 0 writes 16 bytes in place|copies: 0 bytes");
    else
        SKIP("select is not built yet");
    stax_graph_free(g);
    stax_close(quiet);
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    open_context(1);
    RUN(test_model);
    RUN(test_model_threads);
    RUN(test_functionalized);
    RUN(test_scatter_laws);
    RUN(test_one_row);
    RUN(test_plans);
    RUN(test_calls);
    RUN(test_strided);
    RUN(test_overlaps);
    RUN(test_strided_overlaps);
    RUN(test_workspace_overlaps);
    RUN(test_select);
    stax_close(ctx);
    return HARNESS_END();
}
