/* State: assignment through views, writes in place, and memory that overlaps.

   The meaning of assignment is checked against a model that shares no code with the library: every
   value is a copy of its numbers, and a view of a state also has the place of each of its elements
   in the state. Numbers are small integers, so that no rounding and no order of a sum shows. */
#include <limits.h>
#include <stdarg.h>

#include "feed.h"
#include "harness.h"

static stax_context *ctx;

static void open_context(int threads) {
    stax_options o = stax_options_default();
    o.strict = 1;
    o.n_threads = threads;
    ctx = stax_open(&o);
}

static stax_graph *parsed(const char *text) {
    stax_graph *g = stax_parse(ctx, "state", text);
    if (!CHECK(g && stax_ok(g))) printf("%s\n%s\n", stax_error(ctx), text);
    return g;
}

static stax_program *compiled(const stax_graph *g) {
    stax_program *p = g ? stax_compile(g, NULL) : NULL;
    if (!CHECK(p && stax_program_status(p) == STAX_OK)) printf("%s\n", stax_error(ctx));
    return p;
}

/* ---- the model ---------------------------------------------------------------------------------- */

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

static int below(model *m, int n) {
    return n > 0 ? (int)(feed_random(&m->seed) % (uint64_t)n) : 0;
}

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
        case 0: view_permute(m, &x); break;
        case 1: view_flip(m, &x); break;
        case 2: view_reshape(m, &x); break;
        default: view_slice(m, &x); break;
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
            r.data[i] = way == 3   ? x.data[i] + y->data[i]
                        : way == 4 ? x.data[i] - y->data[i]
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

/* ---- programs against the model ------------------------------------------------------------------ */

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

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    open_context(1);
    RUN(test_model);
    RUN(test_model_threads);
    stax_close(ctx);
    return HARNESS_END();
}
