/* Derivatives of random graphs (graphs.h): the same recipes as differential.c's, with f64 for
   floats.

   Of outputs y by all inputs x of floats: <c, J t> by forward mode against <J^T c, t> by reverse
   mode for random c and t, to a rounding bound of the terms; the compiled program against the
   interpreter, bit for bit. What is differentiated is one graph: kinks and ties are the same in
   both.

       gradients_random [--count=N] [--seed=S] [--one]       --one prints the graph of that seed

   The last line is "N passed, N failed", counted in graphs. */
#if !defined(_WIN32)
#define _GNU_SOURCE
#include <sys/mman.h>
#endif
#include "stax.h"

#include "graphs.h"
#include "harness.h"

enum {
    MOST_OUTS = 2,
    MOST_WRT = 12,
    SHOWN_GRADS = MAX_OUTPUTS - MOST_OUTS - 3,
    MOST_ROUNDINGS = 1000
};
static stax_context *ctx;
static int quick, show;
static struct {
    int64_t compared, narrow, lines, not_finite, errors, not_built, nothing, compiled, zero_axes,
        one_axes, views;
    int64_t steps[STEP_KINDS];
    double worst;
} seen;

/* Ops that are known to have no derivative; others must have one. */
static int may_refuse(const char *why) {
    static const char *const words[] = {"bitcast has no", "nextafter has no", "is not built"};
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++)
        if (strstr(why, words[k])) return 1;
    return 0;
}

static stax_value plus(stax_value sum, stax_value more) {
    return sum.graph ? stax_add(sum, more) : more;
}
static stax_value sum_all(stax_value x) { return stax_sum(x, stax_axes_all(), false); }

static stax_value like(stax_graph *g, const char *letter, int k, stax_value model) {
    char name[20];
    snprintf(name, sizeof name, "%s%d", letter, k);
    return stax_input(g, name, stax_value_dtype(model), stax_value_shape(model));
}

/* Outputs behind those of the recipe: <grads, t>, <c, J t>, the sum of the terms of both,
   gradients. 0: nothing to differentiate; -1: refused. */
static int add_derivatives(const recipe *r, stax_graph *g) {
    stax_value outs[MOST_OUTS], cs[MOST_OUTS], wrt[MOST_WRT], ts[MOST_WRT], grads[MOST_WRT];
    stax_value reverse = stax_none(), forward = stax_none(), terms = stax_none();
    stax_input_info in;
    char name[20];
    int n = 0;
    for (int k = 0; stax_graph_input(g, k, &in) && n < MOST_WRT; k++)
        if (in.dtype == STAX_F64 && in.kind != STAX_KIND_STATE)
            wrt[n++] = stax_graph_value(g, in.name);
    if (n == 0 || r->n_outputs == 0) return 0;
    for (int k = 0; k < r->n_outputs; k++) {
        snprintf(name, sizeof name, "y%d", r->outputs[k]);
        outs[k] = stax_graph_value(g, name);
    }
    for (int k = 0; k < r->n_outputs; k++) cs[k] = like(g, "cotangent", k, outs[k]);
    for (int k = 0; k < n; k++) ts[k] = like(g, "tangent", k, wrt[k]);
    if (stax_vjp(outs, cs, r->n_outputs, wrt, n, false, grads) != STAX_OK) return -1;
    for (int k = 0; k < n; k++) {
        stax_value p = stax_mul(grads[k], ts[k]);
        reverse = plus(reverse, sum_all(p));
        terms = plus(terms, sum_all(stax_abs(p)));
    }
    for (int k = 0; k < r->n_outputs; k++) {
        stax_value p;
        if (stax_jvp(outs[k], wrt, ts, n, &p) != STAX_OK) return -1;
        p = stax_mul(p, cs[k]);
        forward = plus(forward, sum_all(p));
        terms = plus(terms, sum_all(stax_abs(p)));
    }
    stax_output(g, "reverse", reverse);
    stax_output(g, "forward", forward);
    stax_output(g, "terms", terms);
    for (int k = 0; k < n && k < SHOWN_GRADS; k++) {
        snprintf(name, sizeof name, "grad%d", k);
        (stax_output)(g, name, grads[k]);
    }
    return stax_ok(g) ? 1 : -1;
}

/* The inputs that were added, behind those of the recipe: numbers in -1 .. 1. */
static int add_tensors(sample *s, const recipe *r, const stax_graph *g) {
    int64_t symbols[MAX_SYMBOLS] = {r->symbols[0].first, r->symbols[1].first};
    stax_input_info in;
    stax_symbol_info y;
    dice d = {r->seed + 5};
    for (int k = 0; stax_graph_symbol(g, k, &y) && k < MAX_SYMBOLS; k++)
        symbols[k] = r->symbols[strcmp(y.name, "m") == 0].first;
    for (; stax_graph_input(g, s->n_inputs, &in); s->n_inputs++) {
        stax_shape shape = in.shape;
        int64_t n = 1;
        if (s->n_inputs == MAX_TENSORS) return 0;
        for (int k = 0; k < shape.rank; k++) {
            if (!stax_size_value(g, in.shape.dims[k], symbols, &shape.dims[k])) return 0;
            n *= shape.dims[k];
        }
        block *b = &s->in[s->n_inputs];
        if (!block_make(b, (size_t)n * 8, 8, 0xa5, 0)) return 0;
        for (int64_t k = 0; k < n; k++) ((double *)(void *)b->data)[k] = dice_unit(&d) * 2 - 1;
        s->kinds[s->n_inputs] = in.kind;
        s->names[s->n_inputs] = in.name;
        s->inputs[s->n_inputs] = stax_tensor_of(STAX_F64, shape, b->data);
        s->slots[s->n_slots++] = s->inputs[s->n_inputs];
    }
    return 1;
}

/* The sum of |t| and |c|. */
static double seeds_size(const sample *s, const recipe *r) {
    double sum = 0;
    int first = 0;
    for (int k = 0; k < r->n_steps; k++) first += r->steps[k].kind <= STEP_STATE;
    for (int k = first; k < s->n_inputs; k++)
        for (size_t i = 0; i < s->in[k].bytes / 8; i++)
            sum += fabs(((const double *)(const void *)s->in[k].data)[i]);
    return sum;
}

/* An independent answer, for the kinds of graphs that are smooth around x: the central difference
   of <c, y> along t. Two widths must agree before it is taken for one; stop_gradient and assigned
   state are another function of x than what is differentiated. 1: compared and right, -1: wrong. */
static int along_a_line(const recipe *r, const sample *s, double reverse, double size) {
    static sample p;
    double d[2] = {0, 0};
    int ok = 1, n_own = 0;
    for (int k = 0; k < r->n_steps; k++) {
        const step *o = &r->steps[k];
        n_own += o->kind <= STEP_STATE;
        if (o->kind == STEP_ASSIGN || o->kind == STEP_ASSIGN_SLICE || o->layout != 0 ||
            (o->kind == STEP_UNARY && strcmp(unary_rows[o->op].name, "stop_gradient") == 0))
            return 0;
    }
    stax_graph *g = recipe_build(r, ctx, NULL);
    if (!g || !sample_make(&p, r, g, 0, 0)) ok = 0;
    for (int side = 0; side < 4 && ok; side++) {
        const double h = (side < 2 ? 1e-5 : 5e-6) * (side % 2 ? -1 : 1);
        int seed = n_own + r->n_outputs; /* tangents lie behind the cotangents */
        for (int k = 0, wrt = 0; k < n_own; k++) {
            if (p.inputs[k].dtype != STAX_F64 || p.kinds[k] == STAX_KIND_STATE) continue;
            if (wrt++ == MOST_WRT) break;
            double *to = (double *)(void *)p.in[k].data;
            const double *from = (const double *)(const void *)s->in[k].data,
                         *t = (const double *)(const void *)s->in[seed++].data;
            for (size_t i = 0; i < p.in[k].bytes / 8; i++) to[i] = from[i] + h * t[i];
        }
        ok = stax_interpret(g, p.inputs, p.outputs) == STAX_OK;
        for (int k = 0; k < r->n_outputs && ok; k++) {
            const double *y = (const double *)(const void *)p.out[k].data,
                         *c = (const double *)(const void *)s->in[n_own + k].data;
            for (size_t i = 0; i < p.out[k].bytes / 8; i++) d[side / 2] += c[i] * y[i] / (2 * h);
        }
    }
    sample_free(&p);
    stax_graph_free(g);
    if (!ok || !(fabs(d[0] - d[1]) <= 1e-7 * size)) return 0;
    return fabs(d[1] - reverse) <= 1e-5 * size ? 1 : -1;
}

static int same_bits(const recipe *r, const stax_graph *g, const sample *want) {
    static sample got;
    int same = 0;
    stax_status status = STAX_OK;
    stax_program *p = stax_compile(g, NULL);
    if (p && stax_program_status(p) == STAX_OK && sample_make(&got, r, g, 0, 0) &&
        add_tensors(&got, r, g)) {
        for (int k = 0; k < got.n_inputs && status == STAX_OK; k++)
            if (got.kinds[k] == STAX_KIND_PARAM)
                status = stax_bind(p, got.names[k], &got.inputs[k]);
        if (status == STAX_OK) status = stax_run(p, got.slots, got.outputs);
        same = status == STAX_OK;
        for (int k = 0; k < got.n_outputs; k++)
            same = same && memcmp(got.out[k].data, want->out[k].data, want->out[k].bytes) == 0;
    }
    if (!same)
        printf("compiled: %s\n",
               status == STAX_OK && p
                   ? stax_program_status(p) == STAX_OK ? "other bits" : stax_error(ctx)
                   : stax_error(ctx));
    sample_free(&got);
    stax_program_free(p);
    seen.compiled++;
    return same;
}

/* One rounding of the narrowest float of the graph. */
static double rounding(const recipe *r) {
    double u = ldexp(1, -53);
    for (int k = 0; k < r->n_steps; k++) {
        stax_dtype t = r->steps[k].type.dtype;
        double own = t == STAX_F32 ? ldexp(1, -24) : t == STAX_F16 ? ldexp(1, -11) : ldexp(1, -8);
        if (is_float(t) && t != STAX_F64 && own > u) u = own;
    }
    return u;
}

static void count(const recipe *r) {
    int zero = 0, one = 0, strided = 0;
    for (int k = 0; k < r->n_steps; k++) {
        const kind_of *t = &r->steps[k].type;
        seen.steps[r->steps[k].kind]++;
        strided |= r->steps[k].layout != 0;
        for (int d = 0; d < t->rank; d++) {
            zero |= t->dims[d].n == 0;
            one |= t->dims[d].n == 1;
        }
    }
    seen.zero_axes += zero;
    seen.one_axes += one;
    seen.views += strided;
}

/* 0: wrong. What cannot be compared is counted. */
static int check(uint64_t seed) {
    static recipe r;
    static sample s;
    int fine = 1, kept = 0, made;
    recipe_make(&r, seed);
    for (int k = 0; k < r.n_outputs && kept < MOST_OUTS; k++)
        if (type_at(&r, r.outputs[k])->dtype == STAX_F64) r.outputs[kept++] = r.outputs[k];
    r.n_outputs = kept;
    stax_graph *g = recipe_build(&r, ctx, NULL);
    if (!g || !stax_ok(g)) {
        printf("seed %llu: %s\n", (unsigned long long)seed, stax_error(ctx));
        stax_graph_free(g);
        return 0;
    }
    made = add_derivatives(&r, g);
    if (made <= 0) {
        if (made == 0) seen.nothing++;
        if (made < 0) seen.not_built++;
        if (made < 0 && !may_refuse(stax_graph_error(g)))
            fine = 0, printf("seed %llu: %s\n", (unsigned long long)seed, stax_graph_error(g));
        stax_graph_free(g);
        return fine;
    }
    if (show) {
        char *text = stax_print(g);
        printf("%s\n", text ? text : "");
        stax_free(ctx, text);
    }
    if (!sample_make(&s, &r, g, 0, 0) || !add_tensors(&s, &r, g)) {
        seen.errors++;
    } else if (stax_interpret(g, s.inputs, s.outputs) != STAX_OK) {
        seen.errors++;
    } else {
        double v[3];
        for (int k = 0; k < 3; k++) memcpy(&v[k], s.out[kept + k].data, 8);
        if (!isfinite(v[0]) || !isfinite(v[1]) || !isfinite(v[2])) {
            seen.not_finite++;
        } else {
            double u = rounding(&r), gap = fabs(v[0] - v[1]);
            double size = v[2] + seeds_size(&s, &r); /* what cancels within is of the seeds' size */
            if (u < 1e-15 && gap / size > seen.worst) seen.worst = gap / size;
            (*(u < 1e-15 ? &seen.compared : &seen.narrow))++;
            count(&r);
            fine = gap <= MOST_ROUNDINGS * u * size;
            int line = u < 1e-15 ? along_a_line(&r, &s, v[0], size) : 0;
            seen.lines += line > 0;
            if (line < 0)
                printf("seed %llu: not the difference quotient\n", (unsigned long long)seed);
            fine = fine && line >= 0;
            if (!fine)
                printf("seed %llu: reverse %.17g, forward %.17g, terms %.3g\n",
                       (unsigned long long)seed, v[0], v[1], v[2]);
        }
        if (show || (quick && seed % 8 == 0) || seed % 64 == 0)
            if (!same_bits(&r, g, &s)) fine = 0, printf("seed %llu\n", (unsigned long long)seed);
    }
    sample_free(&s);
    stax_graph_free(g);
    return fine;
}

int main(int argc, char **argv) {
    int64_t wanted = 2000, failed = 0;
    int kinds = 0;
    uint64_t seed = 1, first;
    stax_options o = stax_options_default();
    HARNESS_BEGIN(argc, argv);
    for (int k = 1; k < argc; k++) {
        if (strncmp(argv[k], "--count=", 8) == 0) wanted = strtoll(argv[k] + 8, NULL, 10);
        if (strncmp(argv[k], "--seed=", 7) == 0) seed = strtoull(argv[k] + 7, NULL, 10);
        if (strcmp(argv[k], "--one") == 0) wanted = show = 1;
    }
    smooth_recipes = 1;
    quick = harness_has_program("tcc");
    if (quick) o.compiler = "tcc";
    ctx = stax_open(&o);
    for (first = seed; seen.compared < wanted && seed < first + 4 * (uint64_t)wanted; seed++) {
        failed += !check(seed);
        if (show) break;
    }
    printf(
        "seeds %llu .. %llu: %lld compared, worst difference %.2g of the terms; %lld with "
        "narrower floats, %lld not finite, "
        "%lld ended in an error, %lld without floats, %lld have no derivative, %lld compiled\n",
        (unsigned long long)first, (unsigned long long)(seed - 1), (long long)seen.compared,
        seen.worst, (long long)seen.narrow, (long long)seen.not_finite, (long long)seen.errors,
        (long long)seen.nothing, (long long)seen.not_built, (long long)seen.compiled);
    printf("with axes of size 0: %lld, of size 1: %lld, with strided inputs: %lld\n",
           (long long)seen.zero_axes, (long long)seen.one_axes, (long long)seen.views);
    for (int k = 0; k < STEP_KINDS; k++) kinds += seen.steps[k] > 0;
    printf("%d of %d kinds of steps; %lld against difference quotients\n", kinds, STEP_KINDS,
           (long long)seen.lines);
    stax_close(ctx);
    harness.failed = (int)failed + (seen.compared < wanted && !show);
    harness.passed = (int)(seen.compared + seen.narrow - failed);
    return HARNESS_END();
}
