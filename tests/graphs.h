/* Random graphs for the differential and metamorphic tests.

   A graph is first a recipe (plain data: a list of steps, each with its type), then built through
   the public API. A recipe depends on its seed alone, so a failure is repeated by its seed, and it
   can be made smaller as data: drop outputs, put inputs in the place of steps.

       recipe r;  recipe_make(&r, seed);
       stax_graph *g = recipe_build(&r, ctx);            stax_ok(g) says whether the library took it
       sample s;  sample_make(&s, &r, g, run);           tensors for one call, between guard bytes
       sample_free(&s);

   The including file defines _GNU_SOURCE and includes sys/mman.h first (not on Windows).
   The types here are computed on their own, not asked of the library: that is a test of inference.
 */
#ifndef STAX_TESTS_GRAPHS_H
#define STAX_TESTS_GRAPHS_H

/* A program need not use every function. */
#if defined(__GNUC__)
#define MAYBE_UNUSED __attribute__((unused))
#else
#define MAYBE_UNUSED
#endif

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ------------------------------------------------------------------------------------
 */

typedef struct dice {
    uint64_t state;
} dice;

/* Recipes to be differentiated: small, and floats are f64 and plain numbers. */
static int smooth_recipes;

static uint64_t dice_next(dice *d) { /* splitmix64 */
    uint64_t z = d->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
static int dice_below(dice *d, int n) { return n > 0 ? (int)(dice_next(d) % (uint64_t)n) : 0; }
static int dice_chance(dice *d, int percent) { return dice_below(d, 100) < percent; }
static int64_t dice_between(dice *d, int64_t lo, int64_t hi) {
    return lo + (int64_t)(dice_next(d) % (uint64_t)(hi - lo + 1));
}
static double dice_unit(dice *d) { return (double)(dice_next(d) >> 11) / 9007199254740992.0; }

/* ---- recipes ------------------------------------------------------------------------------------
 */

enum {
    MAX_STEPS = 96,
    MAX_OPERANDS = 4,
    MAX_EXTENTS = 96,
    MAX_OUTPUTS = 12,
    MAX_SYMBOLS = 2,
    OPAQUE = -1
};

/* A size: the number n in the first run, and how it is written: 0 a number, > 0 an entry of
   `extents`, OPAQUE a size that this generator has no expression for (the library has). */
typedef struct size_of {
    int64_t n;
    int how;
} size_of;

typedef enum extent_kind {
    EXTENT_SYMBOL,
    EXTENT_ADD,
    EXTENT_SUB,
    EXTENT_MUL,
    EXTENT_DIV
} extent_kind;
typedef struct extent {
    extent_kind kind;
    size_of a, b; /* SYMBOL: a.n is its number */
} extent;

typedef struct symbol {
    int64_t lo, hi, first, second; /* the range, and the sizes of the two runs */
} symbol;

typedef struct kind_of {
    stax_dtype dtype;
    char weak; /* literals: 'b', 'i', 'f'; else 0 */
    int rank;
    size_of dims[STAX_MAX_RANK];
} kind_of;

typedef enum step_kind {
    STEP_INPUT,
    STEP_PARAM,
    STEP_STATE,
    STEP_CONST,
    STEP_DATA, /* sources */
    STEP_UNARY,
    STEP_BINARY,
    STEP_WHERE,
    STEP_CLIP,
    STEP_FMA,
    STEP_LERP,
    STEP_CAST,
    STEP_BITCAST,
    STEP_RESHAPE,
    STEP_PERMUTE,
    STEP_TRANSPOSE,
    STEP_EXPAND,
    STEP_SQUEEZE,
    STEP_UNSQUEEZE,
    STEP_SLICE,
    STEP_FLIP,
    STEP_ROLL,
    STEP_PAD,
    STEP_CONCAT,
    STEP_STACK,
    STEP_SPLIT,
    STEP_PART,
    STEP_TILE,
    STEP_UNFOLD,
    STEP_IOTA,
    STEP_GATHER,
    STEP_TAKE,
    STEP_SCATTER,
    STEP_SCAN,
    STEP_SORT,
    STEP_TOPK,
    STEP_KTHVALUE,
    STEP_MEDIAN,
    STEP_SEARCH,
    STEP_REDUCE,
    STEP_VAR,
    STEP_ARG,
    STEP_DOT,
    STEP_MATMUL,
    STEP_LINEAR,
    STEP_RANDOM_BITS,
    STEP_UNIFORM,
    STEP_NORMAL,
    STEP_SOFTMAX,
    STEP_LAYER_NORM,
    STEP_RMS_NORM,
    STEP_COMPOSITE,
    STEP_ASSIGN,
    STEP_ASSIGN_SLICE,
    STEP_COND,
    STEP_LOOP,
    STEP_WHILE,
    STEP_KINDS
} step_kind;

typedef struct step {
    step_kind kind;
    int op;                       /* the row of the family's table */
    int n, operand[MAX_OPERANDS]; /* -1: left out */
    kind_of type;
    stax_axes axes[4];
    int n_list;
    size_of list[3][STAX_MAX_RANK]; /* shape; starts, stops, steps; low, high; ... */
    int64_t axis, number[2];
    double value[2];
    stax_dtype dtype;
    int flag;
    const char *text;
    /* sources */
    uint64_t seed;
    int fill;      /* how it is filled, see fill_kind */
    size_of limit; /* indices: -limit .. limit - 1 */
    int layout;    /* 0 row, 1 strided, 2 exact strides */
    int order[STAX_MAX_RANK],
        stretch[STAX_MAX_RANK]; /* strides: axes from the innermost, factors */
} step;

typedef struct recipe {
    uint64_t seed;
    dice dice;
    int n_steps, n_outputs, n_extents, n_symbols;
    step steps[MAX_STEPS];
    int outputs[MAX_OUTPUTS];
    extent extents[MAX_EXTENTS];
    symbol symbols[MAX_SYMBOLS];
    size_of palette[5];
    int64_t elements; /* spent so far */
    int has_regions, is_unfused;
    int is_cpu_only; /* it has a sort, a scatter or a monoid */
    int is_wide; /* long axes, so that kernels are split among threads */
} recipe;

enum {
    FILL_PLAIN,
    FILL_SPECIAL,
    FILL_WIDE,
    FILL_SMALL,
    FILL_INDEX,
    FILL_WILD_INDEX,
    FILL_SHIFT,
    FILL_TABLE
};
enum {
    MAX_ELEMENTS = 24000,
    MAX_SPENT = 160000,
    WIDE_ELEMENTS = 300000,
    WIDE_SPENT = 4000000,
    SMOOTH_ELEMENTS = 600
};

/* ---- dtypes -------------------------------------------------------------------------------------
 */

static int is_float(stax_dtype t) {
    return t == STAX_F64 || t == STAX_F32 || t == STAX_F16 || t == STAX_BF16;
}
static int is_signed(stax_dtype t) { return t >= STAX_I64 && t <= STAX_I8; }
static int is_unsigned(stax_dtype t) { return t >= STAX_U64 && t <= STAX_U8; }
static int is_integer(stax_dtype t) { return is_signed(t) || is_unsigned(t); }
static int is_f8(stax_dtype t) { return t == STAX_F8E4M3 || t == STAX_F8E5M2; }
static int bits_of(stax_dtype t) { return (int)stax_dtype_bytes(t) * 8; }

enum { FLOATS = 1, INTS = 2, BOOLS = 4, F8S = 8, NUMBERS = FLOATS | INTS, ANY = NUMBERS | BOOLS };
static int class_of(stax_dtype t) {
    return is_float(t) ? FLOATS : is_integer(t) ? INTS : t == STAX_BOOL ? BOOLS : F8S;
}

static stax_dtype any_dtype(dice *d, int classes) {
    static const stax_dtype list[] = {
        STAX_F32, STAX_F32, STAX_F32, STAX_F32,  STAX_F32,  STAX_F32,    STAX_F64,
        STAX_F64, STAX_F64, STAX_F16, STAX_F16,  STAX_BF16, STAX_BF16,   STAX_I64,
        STAX_I64, STAX_I32, STAX_I32, STAX_I16,  STAX_I8,   STAX_U64,    STAX_U32,
        STAX_U16, STAX_U8,  STAX_U8,  STAX_BOOL, STAX_BOOL, STAX_F8E4M3, STAX_F8E5M2};
    for (;;) {
        stax_dtype t = list[dice_below(d, (int)(sizeof list / sizeof list[0]))];
        if (smooth_recipes && (is_f8(t) || is_float(t))) t = STAX_F64;
        if (class_of(t) & classes) return t;
    }
}

static stax_dtype wider(stax_dtype a, stax_dtype b) { return bits_of(a) >= bits_of(b) ? a : b; }

/* The array API's table; STAX_DTYPE_NONE: an error. */
static stax_dtype promote_strong(stax_dtype a, stax_dtype b) {
    if (a == b) return a;
    if (is_f8(a) || is_f8(b)) return STAX_DTYPE_NONE;
    if (is_float(a) && is_float(b)) return bits_of(a) == bits_of(b) ? STAX_F32 : wider(a, b);
    if (is_float(a) || a == STAX_DTYPE_NONE) return a;
    if (is_float(b)) return b;
    if (a == STAX_BOOL) return b;
    if (b == STAX_BOOL) return a;
    if (is_signed(a) == is_signed(b)) return wider(a, b);
    stax_dtype s = is_signed(a) ? a : b, u = is_signed(a) ? b : a;
    if (bits_of(s) > bits_of(u)) return s;
    return u == STAX_U8    ? STAX_I16
           : u == STAX_U16 ? STAX_I32
           : u == STAX_U32 ? STAX_I64
                           : STAX_DTYPE_NONE;
}

static stax_dtype promote(const kind_of *a, const kind_of *b, int floats) {
    stax_dtype t;
    if (a->weak && b->weak) return STAX_DTYPE_NONE; /* not made here */
    if (a->weak || b->weak) {
        char w = a->weak ? a->weak : b->weak;
        t = a->weak ? b->dtype : a->dtype;
        if (is_f8(t)) return STAX_DTYPE_NONE;
        if (w == 'f' && !is_float(t)) t = STAX_F32;
        if (w == 'i' && t == STAX_BOOL) t = STAX_I64;
    } else {
        t = promote_strong(a->dtype, b->dtype);
    }
    if (floats && t != STAX_DTYPE_NONE && !is_float(t)) t = is_f8(t) ? STAX_DTYPE_NONE : STAX_F32;
    return t;
}

/* ---- sizes --------------------------------------------------------------------------------------
 */

static size_of number(int64_t n) {
    size_of s;
    s.n = n;
    s.how = 0;
    return s;
}
static int same_size(size_of a, size_of b) {
    return a.how == b.how && a.n == b.n && a.how != OPAQUE;
}
static int is_one(size_of a) { return a.how == 0 && a.n == 1; }

static size_of combine(recipe *r, extent_kind kind, size_of a, size_of b) {
    size_of s;
    s.n = kind == EXTENT_ADD   ? a.n + b.n
          : kind == EXTENT_SUB ? a.n - b.n
          : kind == EXTENT_MUL ? a.n * b.n
          : b.n                ? a.n / b.n
                               : 0;
    s.how = 0;
    if (a.how == 0 && b.how == 0) return s;
    if (b.how == 0 && b.n == (kind >= EXTENT_MUL ? 1 : 0)) return a;
    if (a.how == 0 && ((kind == EXTENT_ADD && a.n == 0) || (kind == EXTENT_MUL && a.n == 1)))
        return b;
    s.how = OPAQUE;
    if (a.how == OPAQUE || b.how == OPAQUE) return s;
    for (int k = 1; k < r->n_extents; k++) {
        extent *e = &r->extents[k];
        if (e->kind == kind && same_size(e->a, a) && same_size(e->b, b)) return s.how = k, s;
    }
    if (r->n_extents == MAX_EXTENTS) return s;
    s.how = r->n_extents++;
    r->extents[s.how].kind = kind;
    r->extents[s.how].a = a;
    r->extents[s.how].b = b;
    return s;
}

/* The number that a size is in this run. */
static int64_t size_in_run(const recipe *r, size_of s, int run) {
    if (s.how <= 0 || run == 0) return s.n;
    const extent *e = &r->extents[s.how];
    if (e->kind == EXTENT_SYMBOL) return r->symbols[e->a.n].second;
    int64_t a = size_in_run(r, e->a, run), b = size_in_run(r, e->b, run);
    return e->kind == EXTENT_ADD   ? a + b
           : e->kind == EXTENT_SUB ? a - b
           : e->kind == EXTENT_MUL ? a * b
           : b                     ? a / b
                                   : 0;
}

static int64_t elements_of(const kind_of *t) { /* at most 2^62 */
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++)
        if (t->dims[d].n == 0) return 0;
    for (int d = 0; d < t->rank; d++)
        n = n > ((int64_t)1 << 62) / t->dims[d].n ? (int64_t)1 << 62 : n * t->dims[d].n;
    return n;
}
static int is_opaque(const kind_of *t) {
    for (int d = 0; d < t->rank; d++)
        if (t->dims[d].how == OPAQUE) return 1;
    return 0;
}
static int is_symbolic(const kind_of *t) {
    for (int d = 0; d < t->rank; d++)
        if (t->dims[d].how != 0) return 1;
    return 0;
}

static kind_of kind_scalar(stax_dtype dtype) {
    kind_of t;
    memset(&t, 0, sizeof t);
    t.dtype = dtype;
    return t;
}

/* NumPy's broadcasting; false: they do not fit. */
static int broadcast(const kind_of *a, const kind_of *b, kind_of *out) {
    kind_of t = a->rank >= b->rank ? *a : *b;
    for (int d = 1; d <= t.rank; d++) {
        size_of x = d <= a->rank ? a->dims[a->rank - d] : number(1),
                y = d <= b->rank ? b->dims[b->rank - d] : number(1);
        if (!is_one(x) && !is_one(y) && !same_size(x, y)) return 0;
        t.dims[t.rank - d] = is_one(x) ? y : x;
    }
    t.weak = 0;
    *out = t;
    return 1;
}

/* ---- steps --------------------------------------------------------------------------------------
 */

static int64_t most_elements(const recipe *r) {
    return smooth_recipes ? SMOOTH_ELEMENTS : r->is_wide ? WIDE_ELEMENTS : MAX_ELEMENTS;
}

static int add_step(recipe *r, const step *s) {
    if (r->n_steps == MAX_STEPS) return -1;
    int64_t n = elements_of(&s->type);
    if (n > most_elements(r) || r->elements + n > (r->is_wide ? WIDE_SPENT : MAX_SPENT)) return -1;
    r->elements += n;
    r->steps[r->n_steps] = *s;
    return r->n_steps++;
}

static step step_new(step_kind kind, int a, int b, int c) {
    step s;
    memset(&s, 0, sizeof s);
    s.kind = kind;
    s.operand[0] = a;
    s.operand[1] = b;
    s.operand[2] = c;
    s.operand[3] = -1;
    s.n = c >= 0 ? 3 : b >= 0 ? 2 : a >= 0 ? 1 : 0;
    s.axis = STAX_NONE;
    return s;
}

static const kind_of *type_at(const recipe *r, int k) { return &r->steps[k].type; }

/* A value that later steps may use: not a literal, and it has a result. */
static int is_tensor(const recipe *r, int k) {
    step_kind s = r->steps[k].kind;
    return !r->steps[k].type.weak && s != STEP_ASSIGN && s != STEP_ASSIGN_SLICE && s != STEP_SPLIT;
}

static void row_major(step *s) {
    s->layout = 0;
    for (int k = 0; k < STAX_MAX_RANK; k++) {
        s->order[k] = s->type.rank - 1 - k;
        s->stretch[k] = 1;
    }
}

static int add_input(recipe *r, kind_of type, int fill) {
    dice *d = &r->dice;
    step s = step_new(STEP_INPUT, -1, -1, -1);
    if (is_opaque(&type)) return -1;
    s.type = type;
    s.type.weak = 0;
    s.fill = fill;
    s.seed = dice_next(d);
    if (dice_chance(d, 10))
        s.kind = STEP_PARAM;
    else if (dice_chance(d, 8) && !is_f8(type.dtype))
        s.kind = STEP_STATE;
    else if (dice_chance(d, 6) && !is_symbolic(&type) && elements_of(&type) <= 200)
        s.kind = STEP_DATA;
    row_major(&s);
    if (s.kind == STEP_INPUT && type.rank > 0 && dice_chance(d, 30)) {
        s.layout = !is_symbolic(&type) && dice_chance(d, 30) ? 2 : 1;
        for (int k = type.rank - 1; k > 0 && dice_chance(d, 60); k--) {
            int j = dice_below(d, k + 1), t = s.order[k];
            s.order[k] = s.order[j];
            s.order[j] = t;
        }
        for (int k = 0; k < type.rank; k++) {
            static const int factors[] = {1, 1, 1, -1, -1, 2, -2, 3, 0};
            s.stretch[k] = factors[dice_below(d, 9)];
            if (s.stretch[k] == 0 && dice_chance(d, 70)) s.stretch[k] = 1;
        }
    }
    return add_step(r, &s);
}

static size_of any_size(recipe *r) { return r->palette[dice_below(&r->dice, 4)]; }

static kind_of any_shape(recipe *r, stax_dtype dtype, int least, int most) {
    static const int ranks[] = {0, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6};
    dice *d = &r->dice;
    kind_of t = kind_scalar(dtype);
    do t.rank = ranks[dice_below(d, 16)];
    while (t.rank < least || t.rank > most);
    for (int k = 0; k < t.rank; k++) t.dims[k] = dice_chance(d, 8) ? number(1) : any_size(r);
    for (int k = 0; elements_of(&t) > most_elements(r) / 2; k = (k + 1) % t.rank) {
        if (t.dims[k].n > 1 && (t.dims[k].n < 4000 || dice_chance(d, 20)))
            t.dims[k] = number(dice_chance(d, 50) ? 1 : 2);
    }
    return t;
}

static int any_fill(dice *d) {
    static const int fills[] = {FILL_PLAIN, FILL_PLAIN, FILL_PLAIN,
                                FILL_SMALL, FILL_WIDE,  FILL_SPECIAL};
    return smooth_recipes ? FILL_PLAIN : fills[dice_below(d, 6)];
}

/* An operand of these classes and ranks: mostly one that is there, recent ones first. */
static int pick(recipe *r, int classes, int least, int most) {
    dice *d = &r->dice;
    int found[MAX_STEPS], n = 0;
    for (int k = 0; k < r->n_steps; k++) {
        const kind_of *t = type_at(r, k);
        if (is_tensor(r, k) && (class_of(t->dtype) & classes) && t->rank >= least &&
            t->rank <= most)
            found[n++] = k;
    }
    if (n > 0 && !dice_chance(d, 12)) {
        int a = dice_below(d, n), b = dice_below(d, n);
        return found[a > b ? a : b];
    }
    return add_input(r, any_shape(r, any_dtype(d, classes), least, most), any_fill(d));
}

static int add_literal(recipe *r, stax_dtype beside) {
    dice *d = &r->dice;
    step s = step_new(STEP_CONST, -1, -1, -1);
    static const double floats[] = {0.5, 2.0, 1.5, -0.75, 3.25, 0.1, -1.0, 1e-3, 100.0, 0.0, -0.0};
    if (is_float(beside) && dice_chance(d, 75)) {
        s.type.weak = 'f';
        s.value[0] = floats[dice_below(d, 11)];
    } else if (beside == STAX_BOOL && dice_chance(d, 60)) {
        s.type.weak = 'b';
        s.number[0] = dice_below(d, 2);
    } else if (is_integer(beside) && dice_chance(d, 10)) {
        s.type.weak = 'f';
        s.value[0] = floats[dice_below(d, 9)];
    } else {
        s.type.weak = 'i';
        s.number[0] = dice_between(d, is_unsigned(beside) || beside == STAX_BOOL ? 0 : -3, 9);
    }
    return add_step(r, &s);
}

/* A shape that broadcasts with t. */
static kind_of partner_shape(recipe *r, const kind_of *t, stax_dtype dtype) {
    dice *d = &r->dice;
    kind_of p = *t;
    p.dtype = dtype;
    p.weak = 0;
    int drop = dice_chance(d, 40) && t->rank > 0 ? dice_below(d, t->rank + 1) : 0;
    p.rank = t->rank - drop;
    for (int k = 0; k < p.rank; k++) {
        p.dims[k] = t->dims[k + drop];
        if (p.dims[k].how == OPAQUE || dice_chance(d, 15)) p.dims[k] = number(1);
    }
    return p;
}

/* An operand that fits beside a: one that is there, a new input, or a literal. */
static int pick_beside(recipe *r, int a, int classes, int literals) {
    dice *d = &r->dice;
    const kind_of t = *type_at(r, a);
    int found[MAX_STEPS], n = 0;
    kind_of out;
    if (literals && dice_chance(d, 15)) return add_literal(r, t.dtype);
    for (int k = 0; k < r->n_steps; k++) {
        const kind_of *u = type_at(r, k);
        if (!is_tensor(r, k) || !(class_of(u->dtype) & classes)) continue;
        if (promote_strong(t.dtype, u->dtype) == STAX_DTYPE_NONE) continue;
        if (broadcast(&t, u, &out) && elements_of(&out) <= most_elements(r)) found[n++] = k;
    }
    if (n > 0 && dice_chance(d, 65)) return found[dice_below(d, n)];
    stax_dtype dtype =
        (class_of(t.dtype) & classes) && dice_chance(d, 75) ? t.dtype : any_dtype(d, classes);
    for (int k = 0; promote_strong(t.dtype, dtype) == STAX_DTYPE_NONE; k++)
        dtype = k < 20 ? any_dtype(d, classes) : t.dtype;
    return add_input(r, partner_shape(r, &t, dtype), any_fill(d));
}

/* ---- elementwise families -----------------------------------------------------------------------
 */

typedef enum rule {
    RULE_SAME,
    RULE_NUMBER,
    RULE_FLOAT,
    RULE_PREDICATE,
    RULE_BITS,
    RULE_ANY8,
    RULE_PROMOTE,
    RULE_COMPARE,
    RULE_SHIFT
} rule;
typedef struct unary_row {
    const char *name;
    stax_value (*make)(stax_value);
    rule rule;
} unary_row;
typedef struct binary_row {
    const char *name;
    stax_value (*make)(stax_value, stax_value);
    rule rule;
} binary_row;

static stax_value make_leaky_relu(stax_value x) { return stax_leaky_relu(x, 0.2); }
static stax_value make_elu(stax_value x) { return stax_elu(x, 1.3); }
static stax_value make_gelu(stax_value x) { return stax_gelu(x, "none"); }
static stax_value make_gelu_tanh(stax_value x) { return stax_gelu(x, "tanh"); }
static stax_value make_hardtanh(stax_value x) { return stax_hardtanh(x, -0.5, 2); }
static stax_value make_softshrink(stax_value x) { return stax_softshrink(x, 0.75); }
static stax_value make_hardshrink(stax_value x) { return stax_hardshrink(x, 0.75); }
static stax_value make_celu(stax_value x) { return stax_celu(x, 0.7); }
static stax_value make_threshold(stax_value x) { return stax_threshold(x, 0.1, 20); }
static stax_value make_nan_to_num(stax_value x) { return stax_nan_to_num(x, 3, 5, -HUGE_VAL); }
static stax_value make_isclose(stax_value a, stax_value b) {
    return stax_isclose(a, b, 0.1, 0.25, true);
}
static stax_value make_mse(stax_value a, stax_value b) { return stax_mse_loss(a, b, "none"); }
static stax_value make_huber(stax_value a, stax_value b) {
    return stax_huber_loss(a, b, 1.5, "none");
}
static stax_value make_bce(stax_value a, stax_value b) {
    return stax_binary_cross_entropy_with_logits(a, b, "none");
}
static stax_value make_kl_div(stax_value a, stax_value b) { return stax_kl_div(a, b, "none"); }

/* clang-format off */
static const unary_row unary_rows[] = {
    {"neg", stax_neg, RULE_NUMBER}, {"abs", stax_abs, RULE_SAME}, {"sign", stax_sign, RULE_NUMBER}, {"floor", stax_floor, RULE_SAME},
    {"ceil", stax_ceil, RULE_SAME}, {"round", stax_round, RULE_SAME}, {"trunc", stax_trunc, RULE_SAME}, {"sqrt", stax_sqrt, RULE_FLOAT},
    {"rsqrt", stax_rsqrt, RULE_FLOAT}, {"cbrt", stax_cbrt, RULE_FLOAT}, {"reciprocal", stax_reciprocal, RULE_FLOAT}, {"square", stax_square, RULE_NUMBER},
    {"exp", stax_exp, RULE_FLOAT}, {"exp2", stax_exp2, RULE_FLOAT}, {"expm1", stax_expm1, RULE_FLOAT}, {"log", stax_log, RULE_FLOAT},
    {"log2", stax_log2, RULE_FLOAT}, {"log10", stax_log10, RULE_FLOAT}, {"log1p", stax_log1p, RULE_FLOAT}, {"sin", stax_sin, RULE_FLOAT},
    {"cos", stax_cos, RULE_FLOAT}, {"tan", stax_tan, RULE_FLOAT}, {"asin", stax_asin, RULE_FLOAT}, {"acos", stax_acos, RULE_FLOAT},
    {"atan", stax_atan, RULE_FLOAT}, {"sinh", stax_sinh, RULE_FLOAT}, {"cosh", stax_cosh, RULE_FLOAT}, {"tanh", stax_tanh, RULE_FLOAT},
    {"asinh", stax_asinh, RULE_FLOAT}, {"acosh", stax_acosh, RULE_FLOAT}, {"atanh", stax_atanh, RULE_FLOAT}, {"erf", stax_erf, RULE_FLOAT},
    {"erfc", stax_erfc, RULE_FLOAT}, {"sigmoid", stax_sigmoid, RULE_FLOAT}, {"logical_not", stax_logical_not, RULE_PREDICATE},
    {"bitwise_not", stax_bitwise_not, RULE_BITS}, {"isnan", stax_isnan, RULE_PREDICATE}, {"isinf", stax_isinf, RULE_PREDICATE},
    {"isfinite", stax_isfinite, RULE_PREDICATE},
    {"relu", stax_relu, RULE_NUMBER}, {"leaky_relu", make_leaky_relu, RULE_FLOAT}, {"elu", make_elu, RULE_FLOAT}, {"selu", stax_selu, RULE_FLOAT},
    {"gelu", make_gelu, RULE_FLOAT}, {"gelu_tanh", make_gelu_tanh, RULE_FLOAT}, {"silu", stax_silu, RULE_FLOAT}, {"mish", stax_mish, RULE_FLOAT},
    {"softplus", stax_softplus, RULE_FLOAT}, {"hardsigmoid", stax_hardsigmoid, RULE_FLOAT}, {"hardswish", stax_hardswish, RULE_FLOAT},
    {"relu6", stax_relu6, RULE_FLOAT}, {"hardtanh", make_hardtanh, RULE_FLOAT}, {"softsign", stax_softsign, RULE_FLOAT},
    {"tanhshrink", stax_tanhshrink, RULE_FLOAT}, {"softshrink", make_softshrink, RULE_FLOAT}, {"hardshrink", make_hardshrink, RULE_FLOAT},
    {"celu", make_celu, RULE_FLOAT}, {"logsigmoid", stax_logsigmoid, RULE_FLOAT}, {"threshold", make_threshold, RULE_FLOAT},
    {"logit", stax_logit, RULE_FLOAT}, {"signbit", stax_signbit, RULE_PREDICATE}, {"nan_to_num", make_nan_to_num, RULE_SAME},
    {"stop_gradient", stax_stop_gradient, RULE_ANY8}, {"checkpoint", stax_checkpoint, RULE_ANY8}, {"barrier", stax_barrier, RULE_ANY8},
};
static const binary_row binary_rows[] = {
    {"add", stax_add, RULE_PROMOTE}, {"sub", stax_sub, RULE_NUMBER}, {"mul", stax_mul, RULE_PROMOTE}, {"div", stax_div, RULE_FLOAT},
    {"floor_divide", stax_floor_divide, RULE_NUMBER}, {"remainder", stax_remainder, RULE_NUMBER}, {"fmod", stax_fmod, RULE_NUMBER},
    {"pow", stax_pow, RULE_NUMBER}, {"maximum", stax_maximum, RULE_PROMOTE}, {"minimum", stax_minimum, RULE_PROMOTE},
    {"atan2", stax_atan2, RULE_FLOAT}, {"hypot", stax_hypot, RULE_FLOAT}, {"copysign", stax_copysign, RULE_FLOAT},
    {"logaddexp", stax_logaddexp, RULE_FLOAT}, {"eq", stax_eq, RULE_COMPARE}, {"ne", stax_ne, RULE_COMPARE}, {"lt", stax_lt, RULE_COMPARE},
    {"le", stax_le, RULE_COMPARE}, {"gt", stax_gt, RULE_COMPARE}, {"ge", stax_ge, RULE_COMPARE},
    {"logical_and", stax_logical_and, RULE_PREDICATE}, {"logical_or", stax_logical_or, RULE_PREDICATE},
    {"logical_xor", stax_logical_xor, RULE_PREDICATE}, {"bitwise_and", stax_bitwise_and, RULE_BITS}, {"bitwise_or", stax_bitwise_or, RULE_BITS},
    {"bitwise_xor", stax_bitwise_xor, RULE_BITS}, {"shift_left", stax_shift_left, RULE_SHIFT}, {"shift_right", stax_shift_right, RULE_SHIFT},
    {"add", stax_add, RULE_PROMOTE}, {"mul", stax_mul, RULE_PROMOTE}, {"sub", stax_sub, RULE_NUMBER},
    {"nextafter", stax_nextafter, RULE_FLOAT}, {"isclose", make_isclose, RULE_COMPARE}, {"mse_loss", make_mse, RULE_FLOAT},
    {"huber_loss", make_huber, RULE_FLOAT}, {"binary_cross_entropy_with_logits", make_bce, RULE_FLOAT}, {"kl_div", make_kl_div, RULE_FLOAT},
};
/* clang-format on */
enum {
    N_UNARY = sizeof unary_rows / sizeof unary_rows[0],
    N_BINARY = sizeof binary_rows / sizeof binary_rows[0]
};

static int rule_classes(rule u) {
    switch (u) {
        case RULE_NUMBER:
            return NUMBERS;
        case RULE_BITS:
            return INTS | BOOLS;
        case RULE_SHIFT:
            return INTS;
        case RULE_ANY8:
            return ANY | F8S;
        default:
            return ANY;
    }
}

static int make_unary(recipe *r) {
    step s = step_new(STEP_UNARY, -1, -1, -1);
    s.op = dice_below(&r->dice, N_UNARY);
    rule u = unary_rows[s.op].rule;
    int classes = rule_classes(u);
    if (u == RULE_FLOAT && !dice_chance(&r->dice, 10)) classes = FLOATS;
    s.operand[0] = pick(r, classes, 0, 8);
    if (s.operand[0] < 0) return -1;
    s.n = 1;
    s.type = *type_at(r, s.operand[0]);
    if (u == RULE_FLOAT && !is_float(s.type.dtype)) s.type.dtype = STAX_F32;
    if (u == RULE_PREDICATE) s.type.dtype = STAX_BOOL;
    return add_step(r, &s);
}

static int make_binary(recipe *r) {
    dice *d = &r->dice;
    step s = step_new(STEP_BINARY, -1, -1, -1);
    s.op = dice_below(d, N_BINARY);
    rule u = binary_rows[s.op].rule;
    int classes = rule_classes(u),
        a = pick(r, u == RULE_FLOAT && !dice_chance(d, 10) ? FLOATS : classes, 0, 8), b;
    if (a < 0) return -1;
    b = pick_beside(r, a, u == RULE_NUMBER ? ANY : classes, 1);
    if (b < 0) return -1;
    if (dice_chance(d, 30)) {
        int t = a;
        a = b;
        b = t;
    }
    const kind_of *x = type_at(r, a), *y = type_at(r, b);
    stax_dtype t = promote(x, y, u == RULE_FLOAT);
    if (!broadcast(x, y, &s.type)) return -1;
    if (u == RULE_PREDICATE || u == RULE_COMPARE) {
        if (u == RULE_COMPARE && t == STAX_DTYPE_NONE) return -1;
        t = STAX_BOOL;
    }
    if (t == STAX_DTYPE_NONE || !(class_of(t) & classes)) return -1;
    s.operand[0] = a;
    s.operand[1] = b;
    s.n = 2;
    s.type.dtype = t;
    return add_step(r, &s);
}

static int make_several(recipe *r) {
    dice *d = &r->dice;
    static const step_kind kinds[] = {STEP_WHERE, STEP_CLIP, STEP_FMA,    STEP_LERP,
                                      STEP_CAST,  STEP_CAST, STEP_BITCAST};
    step_kind kind = kinds[dice_below(d, 7)];
    int a, b, c;
    step s;
    kind_of t;
    if (kind == STEP_CAST) {
        s = step_new(kind, a = pick(r, ANY | F8S, 0, 8), -1, -1);
        if (a < 0) return -1;
        s.type = *type_at(r, a);
        s.type.dtype = s.dtype = any_dtype(d, ANY | F8S);
        return add_step(r, &s);
    }
    if (kind == STEP_BITCAST) {
        s = step_new(kind, a = pick(r, NUMBERS | F8S, 0, 8), -1, -1);
        if (a < 0) return -1;
        s.type = *type_at(r, a);
        do s.dtype = any_dtype(d, NUMBERS | F8S);
        while (bits_of(s.dtype) != bits_of(s.type.dtype));
        s.type.dtype = s.dtype;
        return add_step(r, &s);
    }
    if (kind == STEP_CLIP) {
        s = step_new(kind, a = pick(r, NUMBERS, 0, 8), -1, -1);
        if (a < 0) return -1;
        s.type = *type_at(r, a);
        s.value[0] = (double)dice_between(d, is_unsigned(s.type.dtype) ? 0 : -4, 3);
        s.value[1] = s.value[0] + (double)dice_between(d, 0, 5);
        if (is_float(s.type.dtype) && dice_chance(d, 50)) s.value[0] += 0.25, s.value[1] += 0.5;
        return add_step(r, &s);
    }
    a = pick(r, kind == STEP_FMA ? NUMBERS : kind == STEP_LERP ? FLOATS : ANY, 0, 8);
    if (a < 0) return -1;
    b = pick_beside(r, a, kind == STEP_WHERE ? ANY : kind == STEP_FMA ? NUMBERS : FLOATS, 1);
    if (b < 0 || !broadcast(type_at(r, a), type_at(r, b), &t)) return -1;
    t.dtype = promote(type_at(r, a), type_at(r, b), kind == STEP_LERP);
    if (t.dtype == STAX_DTYPE_NONE) return -1;
    if (kind == STEP_WHERE) {
        kind_of u = partner_shape(r, &t, STAX_BOOL);
        int found = -1;
        for (int k = 0; k < r->n_steps; k++) {
            kind_of v;
            if (is_tensor(r, k) && type_at(r, k)->dtype == STAX_BOOL &&
                broadcast(type_at(r, k), &t, &v) && dice_chance(d, 60))
                found = k;
        }
        c = found >= 0 ? found : add_input(r, u, FILL_PLAIN);
        if (c < 0 || !broadcast(type_at(r, c), &t, &u)) return -1;
        u.dtype = t.dtype;
        s = step_new(kind, c, a, b);
        s.type = u;
        return add_step(r, &s);
    }
    kind_of u = partner_shape(r, &t, t.dtype), v;
    c = dice_chance(d, 60) ? a : add_input(r, u, any_fill(d));
    if (c < 0 || !broadcast(type_at(r, c), &t, &v)) return -1;
    v.dtype = promote(&t, type_at(r, c), kind == STEP_LERP);
    if (v.dtype == STAX_DTYPE_NONE) return -1;
    s = step_new(kind, a, b, c);
    s.type = v;
    return add_step(r, &s);
}

/* ---- movement -----------------------------------------------------------------------------------
 */

static stax_axes no_axes(void) {
    stax_axes a;
    memset(&a, 0, sizeof a);
    return a;
}
static void put_axis(stax_axes *a, int axis) {
    a->given = 1;
    a->axis[a->n++] = (int8_t)axis;
}
/* Some axes in increasing order, some written negative; the mask says which. */
static stax_axes some_axes(dice *d, int rank, int percent, unsigned *mask) {
    stax_axes a = no_axes();
    a.given = 1;
    *mask = 0;
    for (int k = 0; k < rank; k++) {
        if (!dice_chance(d, percent)) continue;
        put_axis(&a, dice_chance(d, 25) ? k - rank : k);
        *mask |= 1u << k;
    }
    return a;
}

static int make_reshape(recipe *r) {
    dice *d = &r->dice;
    int a = pick(r, ANY | F8S, 0, 6);
    if (a < 0) return -1;
    step s = step_new(STEP_RESHAPE, a, -1, -1);
    const kind_of t = *type_at(r, a);
    s.type = t;
    if (is_opaque(&t)) return -1;
    if (is_symbolic(&t) || dice_chance(d, 40)) { /* join two neighbours, or put a 1 in */
        if (t.rank >= 2 && dice_chance(d, 70)) {
            int k = dice_below(d, t.rank - 1);
            s.type.dims[k] = combine(r, EXTENT_MUL, t.dims[k], t.dims[k + 1]);
            for (int j = k + 1; j + 1 < t.rank; j++) s.type.dims[j] = t.dims[j + 1];
            s.type.rank--;
        } else if (t.rank < STAX_MAX_RANK) {
            int k = dice_below(d, t.rank + 1);
            for (int j = t.rank; j > k; j--) s.type.dims[j] = t.dims[j - 1];
            s.type.dims[k] = number(1);
            s.type.rank++;
        }
        if (is_opaque(&s.type)) return -1;
    } else { /* all numbers: any factors */
        int64_t left = elements_of(&t);
        s.type.rank = 0;
        if (left == 0) {
            s.type.rank = dice_below(d, 3) + 1;
            for (int k = 0; k < s.type.rank; k++) s.type.dims[k] = number(dice_below(d, 4));
            s.type.dims[dice_below(d, s.type.rank)] = number(0);
        }
        while (left > 1 && s.type.rank < 5) {
            int64_t f = 2;
            while (left % f) f++;
            while (dice_chance(d, 50) && f < left && left % (f * 2) == 0) f *= 2;
            if (s.type.rank == 4 || dice_chance(d, 25)) f = left;
            s.type.dims[s.type.rank++] = number(f);
            left /= f;
        }
    }
    s.n_list = s.type.rank;
    for (int k = 0; k < s.n_list; k++) s.list[0][k] = s.type.dims[k];
    if (s.n_list > 0 && elements_of(&t) > 0 && dice_chance(d, 20) && !is_symbolic(&s.type))
        s.list[0][dice_below(d, s.n_list)] = number(-1);
    return add_step(r, &s);
}

static int make_permute(recipe *r) {
    dice *d = &r->dice;
    int a = pick(r, ANY | F8S, 1, 6), at[STAX_MAX_RANK];
    if (a < 0) return -1;
    step s = step_new(STEP_PERMUTE, a, -1, -1);
    const kind_of t = *type_at(r, a);
    s.type = t;
    if (t.rank >= 2 && dice_chance(d, 35)) {
        s.kind = STEP_TRANSPOSE;
        s.type.dims[t.rank - 1] = t.dims[t.rank - 2];
        s.type.dims[t.rank - 2] = t.dims[t.rank - 1];
        return add_step(r, &s);
    }
    for (int k = 0; k < t.rank; k++) at[k] = k;
    for (int k = t.rank - 1; k > 0; k--) {
        int j = dice_below(d, k + 1), x = at[k];
        at[k] = at[j];
        at[j] = x;
    }
    for (int k = 0; k < t.rank; k++) {
        put_axis(&s.axes[0], dice_chance(d, 20) ? at[k] - t.rank : at[k]);
        s.type.dims[k] = t.dims[at[k]];
    }
    return add_step(r, &s);
}

static int make_expand(recipe *r) {
    dice *d = &r->dice;
    int a = pick(r, ANY | F8S, 0, 5);
    if (a < 0) return -1;
    step s = step_new(STEP_EXPAND, a, -1, -1);
    s.type = *type_at(r, a);
    if (is_opaque(&s.type)) return -1;
    int more = dice_below(d, 2);
    for (int k = s.type.rank - 1; k >= 0; k--) s.type.dims[k + more] = s.type.dims[k];
    s.type.rank += more;
    for (int k = 0; k < s.type.rank; k++)
        if (k < more || (is_one(s.type.dims[k]) && dice_chance(d, 70)))
            s.type.dims[k] = any_size(r);
    s.n_list = s.type.rank;
    for (int k = 0; k < s.n_list; k++) s.list[0][k] = s.type.dims[k];
    return add_step(r, &s);
}

static int make_squeeze(recipe *r) {
    dice *d = &r->dice;
    int a = pick(r, ANY | F8S, 0, 6);
    if (a < 0) return -1;
    const kind_of t = *type_at(r, a);
    step s = step_new(STEP_SQUEEZE, a, -1, -1);
    s.type = t;
    int has = 0;
    for (int k = 0; k < t.rank; k++) has |= is_one(t.dims[k]);
    if (has) {
        int all = dice_chance(d, 30);
        if (!all) s.axes[0].given = 1;
        s.type.rank = 0;
        for (int k = 0; k < t.rank; k++) {
            if (is_one(t.dims[k]) && (all || dice_chance(d, 60))) {
                if (!all) put_axis(&s.axes[0], dice_chance(d, 30) ? k - t.rank : k);
            } else {
                s.type.dims[s.type.rank++] = t.dims[k];
            }
        }
        return add_step(r, &s);
    }
    s.kind = STEP_UNSQUEEZE;
    int n = 1 + dice_below(d, 2), from = 0;
    s.type.rank = t.rank + n;
    unsigned mask = 0;
    while (n > 0) {
        int k = dice_below(d, s.type.rank);
        if (mask >> k & 1) continue;
        mask |= 1u << k;
        n--;
    }
    for (int k = 0; k < s.type.rank; k++) {
        if (mask >> k & 1) put_axis(&s.axes[0], dice_chance(d, 30) ? k - s.type.rank : k);
        s.type.dims[k] = mask >> k & 1 ? number(1) : t.dims[from++];
    }
    return add_step(r, &s);
}

/* Python's slice of n: how many entries. */
static int64_t slice_count(int64_t n, int64_t start, int64_t stop, int64_t step) {
    int64_t lo = step > 0 ? 0 : -1, hi = step > 0 ? n : n - 1, a = step > 0 ? lo : hi,
            b = step > 0 ? hi : lo;
    if (start != STAX_NONE) {
        a = start < 0 ? start + n : start;
        a = a < lo ? lo : a > hi ? hi : a;
    }
    if (stop != STAX_NONE) {
        b = stop < 0 ? stop + n : stop;
        b = b < lo ? lo : b > hi ? hi : b;
    }
    int64_t count = step > 0 ? (b - a + step - 1) / step : (a - b - step - 1) / -step;
    return (step > 0 ? b > a : a > b) ? count : 0;
}

/* Lists for a slice of t; out gets the shape. */
static void any_slice(recipe *r, step *s, const kind_of *t, kind_of *out) {
    dice *d = &r->dice;
    *out = *t;
    s->n_list = t->rank;
    for (int k = 0; k < t->rank; k++) {
        static const int64_t steps[] = {1, 1, 1, 1, 2, 3, -1, -1, -2, -3};
        int64_t n = t->dims[k].n, step = steps[dice_below(d, 10)], start = STAX_NONE,
                stop = STAX_NONE;
        if (dice_chance(d, 50))
            start = dice_chance(d, 15) ? dice_between(d, -n - 2, n + 2)
                                       : dice_between(d, 0, n > 3 ? n / 3 : n);
        if (dice_chance(d, 50))
            stop = dice_chance(d, 30) ? dice_between(d, -n - 2, n + 2)
                                      : n - dice_between(d, 0, n > 3 ? n / 3 : n);
        if (step < 0 && dice_chance(d, 70)) {
            int64_t x = start;
            start = stop;
            stop = x;
        }
        if (dice_chance(d, 30)) start = stop = STAX_NONE, step = 1;
        s->list[0][k] = number(start);
        s->list[1][k] = number(stop);
        s->list[2][k] = number(step);
        int64_t count = slice_count(n, start, stop, step);
        if (start == STAX_NONE && stop == STAX_NONE && (step == 1 || step == -1)) continue;
        out->dims[k] = number(count);
        if (t->dims[k].how != 0) out->dims[k].how = OPAQUE;
    }
}

static int make_slice(recipe *r) {
    int a = pick(r, ANY | F8S, 1, 6);
    if (a < 0) return -1;
    step s = step_new(STEP_SLICE, a, -1, -1);
    const kind_of t = *type_at(r, a);
    any_slice(r, &s, &t, &s.type);
    return add_step(r, &s);
}

static int make_flip(recipe *r) {
    dice *d = &r->dice;
    int a = pick(r, ANY | F8S, 0, 6);
    unsigned mask;
    if (a < 0) return -1;
    step s = step_new(STEP_FLIP, a, -1, -1);
    s.type = *type_at(r, a);
    if (dice_chance(d, 70)) s.axes[0] = some_axes(d, s.type.rank, 60, &mask);
    if (dice_chance(d, 50)) {
        s.kind = STEP_ROLL;
        s.axes[0] = dice_chance(d, 75) ? some_axes(d, s.type.rank, 60, &mask) : no_axes();
        s.n_list = s.axes[0].given ? s.axes[0].n : 1;
        for (int k = 0; k < s.n_list; k++) s.list[0][k] = number(dice_between(d, -9, 9));
    }
    return add_step(r, &s);
}

static int make_pad(recipe *r) {
    dice *d = &r->dice;
    static const char *const modes[] = {"constant", "constant", "reflect", "edge", "wrap"};
    int a = pick(r, ANY | F8S, 1, 5);
    if (a < 0) return -1;
    step s = step_new(STEP_PAD, a, -1, -1);
    s.type = *type_at(r, a);
    s.text = modes[dice_below(d, 5)];
    if (is_f8(s.type.dtype)) s.text = "wrap";
    s.n_list = s.type.rank;
    for (int k = 0; k < s.n_list; k++) {
        int64_t n = s.type.dims[k].n, low = 0, high = 0;
        if (dice_chance(d, 70)) {
            low = dice_between(d, -2, 4);
            high = dice_between(d, -2, 4);
            if (n + low + high < 0) low = high = 0;
            if (n + low < 0 || n + high < 0) low = high = 0;
            if (n + (low < 0 ? low : 0) + (high < 0 ? high : 0) <= 0 &&
                strcmp(s.text, "constant") != 0)
                low = high = 0; /* nothing is left to repeat */
            if (s.type.dims[k].how != 0 && (low < 0 || high < 0) && n < 6) low = high = 1;
        }
        s.list[0][k] = number(low);
        s.list[1][k] = number(high);
        s.type.dims[k] = combine(r, EXTENT_ADD, s.type.dims[k], number(low + high));
    }
    if (is_float(s.type.dtype))
        s.value[0] = dice_chance(d, 50) ? 0.0 : dice_chance(d, 50) ? -1.5 : 7.0;
    else if (is_integer(s.type.dtype))
        s.value[0] = dice_below(d, 4);
    return add_step(r, &s);
}

/* An operand with the shape of t, but for the axis (-1: none). */
static int pick_alike(recipe *r, const kind_of *t, int axis) {
    dice *d = &r->dice;
    int found[MAX_STEPS], n = 0;
    for (int k = 0; k < r->n_steps; k++) {
        const kind_of *u = type_at(r, k);
        if (!is_tensor(r, k) || u->rank != t->rank ||
            promote_strong(u->dtype, t->dtype) == STAX_DTYPE_NONE)
            continue;
        int same = 1;
        for (int j = 0; j < t->rank; j++) same &= j == axis || same_size(u->dims[j], t->dims[j]);
        if (same) found[n++] = k;
    }
    if (n > 0 && dice_chance(d, 60)) return found[dice_below(d, n)];
    kind_of u = *t;
    if (axis >= 0) u.dims[axis] = any_size(r);
    return add_input(r, u, any_fill(d));
}

static int make_concat(recipe *r) {
    dice *d = &r->dice;
    int stack = dice_chance(d, 35), a = pick(r, ANY | F8S, stack ? 0 : 1, 5);
    if (a < 0) return -1;
    step s = step_new(stack ? STEP_STACK : STEP_CONCAT, a, -1, -1);
    const kind_of t = *type_at(r, a);
    int axis = dice_below(d, t.rank + stack), n = 1 + dice_below(d, MAX_OPERANDS);
    s.type = t;
    s.axis = dice_chance(d, 25) ? axis - t.rank - stack : axis;
    size_of along = stack ? number(n) : t.dims[axis];
    for (s.n = 1; s.n < n; s.n++) {
        int b = pick_alike(r, &t, stack ? -1 : axis);
        if (b < 0) return -1;
        s.operand[s.n] = b;
        s.type.dtype = promote_strong(s.type.dtype, type_at(r, b)->dtype);
        if (s.type.dtype == STAX_DTYPE_NONE) return -1;
        if (!stack) along = combine(r, EXTENT_ADD, along, type_at(r, b)->dims[axis]);
    }
    if (stack) {
        for (int k = t.rank; k > axis; k--) s.type.dims[k] = t.dims[k - 1];
        s.type.rank++;
    }
    s.type.dims[axis] = along;
    return add_step(r, &s);
}

static int make_split(recipe *r) {
    dice *d = &r->dice;
    int a = pick(r, ANY | F8S, 1, 6);
    if (a < 0 || r->n_steps + 5 > MAX_STEPS) return -1;
    step s = step_new(STEP_SPLIT, a, -1, -1);
    const kind_of t = *type_at(r, a);
    int axis = dice_below(d, t.rank), n = 1 + dice_below(d, 3);
    if (t.dims[axis].how != 0) return -1;
    int64_t left = t.dims[axis].n;
    s.type = kind_scalar(t.dtype);
    s.axis = dice_chance(d, 25) ? axis - t.rank : axis;
    s.n_list = n;
    for (int k = 0; k < n; k++) {
        s.list[0][k] = number(k == n - 1 ? left : dice_between(d, 0, left));
        left -= s.list[0][k].n;
    }
    int at = add_step(r, &s);
    for (int k = 0; k < n && at >= 0; k++) {
        step p = step_new(STEP_PART, at, -1, -1);
        p.op = k;
        p.type = t;
        p.type.dims[axis] = s.list[0][k];
        if (add_step(r, &p) < 0) return -1;
    }
    return at;
}

static int make_tile(recipe *r) {
    dice *d = &r->dice;
    int a = pick(r, ANY | F8S, 0, 4);
    if (a < 0) return -1;
    step s = step_new(STEP_TILE, a, -1, -1);
    const kind_of t = *type_at(r, a);
    int n = dice_chance(d, 20)                 ? t.rank + 1
            : t.rank > 1 && dice_chance(d, 20) ? t.rank - 1
                                               : t.rank;
    s.n_list = n;
    s.type.dtype = t.dtype;
    s.type.rank = n > t.rank ? n : t.rank;
    for (int k = 0; k < n; k++)
        s.list[0][k] = number(dice_chance(d, 5) ? 0 : dice_between(d, 1, 3));
    for (int k = 0; k < s.type.rank; k++) {
        int i = k - (s.type.rank - t.rank), j = k - (s.type.rank - n);
        s.type.dims[k] =
            combine(r, EXTENT_MUL, i < 0 ? number(1) : t.dims[i], j < 0 ? number(1) : s.list[0][j]);
    }
    return add_step(r, &s);
}

static int make_unfold(recipe *r) {
    dice *d = &r->dice;
    int a = pick(r, ANY | F8S, 1, 5);
    if (a < 0) return -1;
    step s = step_new(STEP_UNFOLD, a, -1, -1);
    s.type = *type_at(r, a);
    int axis = dice_below(d, s.type.rank);
    size_of n = s.type.dims[axis];
    if (n.how != 0 || n.n == 0) return -1;
    s.axis = dice_chance(d, 30) ? axis - s.type.rank : axis;
    s.number[0] = dice_between(d, 1, n.n < 5 ? n.n : 5);
    s.number[1] = dice_between(d, 1, 3);
    s.type.dims[axis] = number((n.n - s.number[0]) / s.number[1] + 1);
    s.type.dims[s.type.rank++] = number(s.number[0]);
    return add_step(r, &s);
}

/* ---- index, reductions, contractions, networks, random ------------------------------------------
 */

static int make_iota(recipe *r) {
    dice *d = &r->dice;
    step s = step_new(STEP_IOTA, -1, -1, -1);
    s.dtype = dice_chance(d, 40) ? STAX_I64 : any_dtype(d, NUMBERS);
    s.type = any_shape(r, s.dtype, 1, 4);
    s.axis = dice_below(d, s.type.rank);
    s.n_list = s.type.rank;
    for (int k = 0; k < s.n_list; k++) s.list[0][k] = s.type.dims[k];
    return add_step(r, &s);
}

/* Indices into an axis of size n: a new input, or numbers made from an integer value by remainder.
 */
static int make_indices(recipe *r, kind_of t, size_of n, const char *mode) {
    dice *d = &r->dice;
    t.dtype = n.n > 100 || n.how ? (dice_chance(d, 50) ? STAX_I64 : STAX_I32) : any_dtype(d, INTS);
    int wild = strcmp(mode, "error") != 0;
    if (is_opaque(&t)) return -1;
    int at = add_input(r, t, wild && dice_chance(d, 50) ? FILL_WILD_INDEX : FILL_INDEX);
    if (at < 0) return -1;
    if (n.how == OPAQUE) n = number(n.n > 0 ? 1 : 0);
    r->steps[at].limit = n;
    if (!wild && dice_chance(d, 4))
        r->steps[at].fill = FILL_WILD_INDEX; /* most likely an error, the same on both sides */
    if (r->steps[at].kind == STEP_STATE && !wild)
        r->steps[at].kind = STEP_INPUT; /* assigned, it may be anything */
    return at;
}

static int make_gather(recipe *r) {
    dice *d = &r->dice;
    static const char *const modes[] = {"error", "clip", "wrap"};
    int a = pick(r, ANY, 1, 4);
    if (a < 0) return -1;
    const kind_of t = *type_at(r, a);
    int axis = dice_below(d, t.rank), n = 0;
    const char *mode = modes[dice_below(d, 3)];
    if (t.dims[axis].n == 0) return -1;
    step s = step_new(STEP_GATHER, a, -1, -1);
    s.axis = dice_chance(d, 25) ? axis - t.rank : axis;
    s.text = mode;
    s.n = 2;
    s.type = t;
    if (dice_chance(d, 50)) {
        s.kind = STEP_TAKE;
        s.type.dims[axis] = any_size(r);
        kind_of i = s.type;
        for (int k = 0; k < t.rank; k++)
            if (i.dims[k].how == OPAQUE && k != axis) return -1;
        s.operand[1] = make_indices(r, i, t.dims[axis], mode);
        return s.operand[1] < 0 ? -1 : add_step(r, &s);
    }
    kind_of i = any_shape(r, STAX_I64, 0, 2);
    s.type.rank = 0;
    for (int k = 0; k < axis; k++) s.type.dims[n++] = t.dims[k];
    for (int k = 0; k < i.rank; k++) s.type.dims[n++] = i.dims[k];
    for (int k = axis + 1; k < t.rank; k++) s.type.dims[n++] = t.dims[k];
    s.type.rank = n;
    if (elements_of(&s.type) > most_elements(r)) return -1;
    s.operand[1] = make_indices(r, i, t.dims[axis], mode);
    return s.operand[1] < 0 ? -1 : add_step(r, &s);
}

static void reduce_shape(const kind_of *t, unsigned mask, int keepdims, kind_of *out) {
    out->rank = 0;
    for (int k = 0; k < t->rank; k++) {
        if (mask >> k & 1) {
            if (keepdims) out->dims[out->rank++] = number(1);
        } else {
            out->dims[out->rank++] = t->dims[k];
        }
    }
}

static int make_scatter(recipe *r) {
    dice *d = &r->dice;
    static const char *const modes[] = {"set", "add", "add", "min", "max", "mul"};
    int a = pick(r, ANY, 1, 4), n = 0;
    if (a < 0) return -1;
    const kind_of t = *type_at(r, a);
    int axis = dice_below(d, t.rank);
    if (t.dims[axis].n == 0 || is_opaque(&t)) return -1;
    step s = step_new(STEP_SCATTER, a, -1, -1);
    kind_of i = any_shape(r, STAX_I64, 0, 2), u = t;
    u.rank = 0;
    for (int k = 0; k < axis; k++) u.dims[n++] = t.dims[k];
    for (int k = 0; k < i.rank; k++) u.dims[n++] = i.dims[k];
    for (int k = axis + 1; k < t.rank; k++) u.dims[n++] = t.dims[k];
    u.rank = n;
    if (elements_of(&u) > most_elements(r)) return -1;
    for (int k = 0; k < u.rank; k++)
        if (dice_chance(d, 10)) u.dims[k] = number(1); /* it broadcasts */
    s.axis = dice_chance(d, 25) ? axis - t.rank : axis;
    s.text = modes[dice_below(d, 6)];
    s.n = 3;
    s.type = t;
    s.operand[1] = make_indices(r, i, t.dims[axis], "error");
    s.operand[2] = add_input(r, u, any_fill(d));
    return s.operand[1] < 0 || s.operand[2] < 0 ? -1 : add_step(r, &s);
}

typedef struct scan_row {
    const char *name;
    stax_value (*make)(stax_value, int64_t, bool, bool);
    stax_value (*make_as)(stax_value, int64_t, bool, bool, stax_dtype);
    int kind; /* 's' sum, 'e' extreme, 'm' a float */
} scan_row;
static const scan_row scan_rows[] = {
    {"cumsum", stax_cumsum, stax_cumsum_as, 's'},
    {"cumsum", stax_cumsum, stax_cumsum_as, 's'},
    {"cumprod", stax_cumprod, stax_cumprod_as, 's'},
    {"cummax", stax_cummax, stax_cummax_as, 'e'},
    {"cummin", stax_cummin, stax_cummin_as, 'e'},
    {"logcumsumexp", stax_logcumsumexp, stax_logcumsumexp_as, 'm'}};

static int make_scan(recipe *r) {
    dice *d = &r->dice;
    int a = pick(r, dice_chance(d, 70) ? FLOATS : ANY, 1, 5);
    if (a < 0) return -1;
    step s = step_new(STEP_SCAN, a, -1, -1);
    s.type = *type_at(r, a);
    s.op = dice_below(d, 6);
    s.axis = dice_between(d, -s.type.rank, s.type.rank - 1);
    s.flag = dice_below(d, 4); /* exclusive, reverse */
    int kind = scan_rows[s.op].kind;
    if (kind == 's' && !is_float(s.type.dtype))
        s.type.dtype = is_unsigned(s.type.dtype) ? STAX_U64 : STAX_I64;
    if (kind == 'm' && !is_float(s.type.dtype)) s.type.dtype = STAX_F32;
    if (dice_chance(d, 20)) s.type.dtype = s.dtype = any_dtype(d, kind == 'm' ? FLOATS : ANY);
    return add_step(r, &s);
}

/* The second result of step `at`, of that type. */
static int add_second(recipe *r, int at, const kind_of *type) {
    step p = step_new(STEP_PART, at, -1, -1);
    p.op = 1;
    p.type = *type;
    p.type.dtype = STAX_I64;
    return at < 0 ? -1 : add_step(r, &p);
}

static int make_order(recipe *r) {
    dice *d = &r->dice;
    int what = dice_below(d, 12), a = pick(r, ANY, 1, 4);
    if (a < 0 || r->n_steps + 3 > MAX_STEPS) return -1;
    const kind_of t = *type_at(r, a);
    int axis = dice_below(d, t.rank);
    step s = step_new(what < 6 ? STEP_SORT : what < 9 ? STEP_TOPK : STEP_MEDIAN, a, -1, -1);
    s.type = t;
    s.op = dice_below(d, 2);
    s.flag = dice_below(d, 2);
    s.axis = dice_chance(d, 25) ? axis - t.rank : axis;
    if (s.kind == STEP_SORT) {
        if (s.op) s.type.dtype = STAX_I64; /* argsort */
        return add_step(r, &s);
    }
    if (s.kind == STEP_TOPK) {
        if (t.dims[axis].how != 0 || t.dims[axis].n == 0) return -1;
        int64_t n = t.dims[axis].n;
        s.number[0] = dice_chance(d, 50) ? dice_between(d, 1, n > 5 ? 5 : n) : dice_between(d, 1, n);
        if (what == 8) {
            s.kind = STEP_KTHVALUE;
            reduce_shape(&t, 1u << axis, s.flag, &s.type);
        } else {
            s.type.dims[axis] = number(s.number[0]);
        }
        int at = add_step(r, &s);
        return add_second(r, at, &s.type);
    }
    if (what < 11) {
        unsigned mask;
        s.axes[0] = some_axes(d, t.rank, 55, &mask);
        for (int k = 0; k < t.rank; k++)
            if ((mask >> k & 1) && (t.dims[k].n == 0 || t.dims[k].how != 0)) return -1;
        if (!is_float(t.dtype)) s.type.dtype = STAX_F32;
        reduce_shape(&t, mask, s.flag, &s.type);
        return add_step(r, &s);
    }
    kind_of line = kind_scalar(t.dtype); /* sorted or not: both sides look at the same entries */
    line.rank = 1;
    line.dims[0] = any_size(r);
    s.kind = STEP_SEARCH;
    s.type.dtype = STAX_I64;
    s.n = 2;
    s.operand[1] = a;
    s.operand[0] = add_input(r, line, any_fill(d));
    return s.operand[0] < 0 ? -1 : add_step(r, &s);
}

typedef struct reduce_row {
    const char *name;
    stax_value (*make)(stax_value, stax_axes, bool);
    stax_value (*make_as)(stax_value, stax_axes, bool, stax_dtype);
    int kind; /* 's' sum, 'e' extreme, 'm' mean, 'b' truth */
} reduce_row;
static const reduce_row reduce_rows[] = {
    {"sum", stax_sum, stax_sum_as, 's'},    {"sum", stax_sum, stax_sum_as, 's'},
    {"sum", stax_sum, stax_sum_as, 's'},    {"prod", stax_prod, stax_prod_as, 's'},
    {"max", stax_max, stax_max_as, 'e'},    {"min", stax_min, stax_min_as, 'e'},
    {"mean", stax_mean, stax_mean_as, 'm'}, {"all", stax_all, stax_all_as, 'b'},
    {"any", stax_any, stax_any_as, 'b'},    {"logsumexp", stax_logsumexp, stax_logsumexp_as, 'm'}};

/* The extreme of nothing is an error. */
static int reduces_nothing(const kind_of *t, unsigned mask) {
    for (int k = 0; k < t->rank; k++)
        if ((mask >> k & 1) && t->dims[k].n == 0) return 1;
    return 0;
}

/* The same numbers reduced over the same axes, but accumulated in the other one of f32 and f64. */
static int add_reduce_twin(recipe *r, const step *s, unsigned mask) {
    dice *d = &r->dice;
    step twin = *s;
    kind_of t = *type_at(r, s->operand[0]);
    stax_dtype other = s->type.dtype == STAX_F64 ? STAX_F32 : STAX_F64;
    if (dice_chance(d, 50)) {
        twin.kind = STEP_REDUCE;
        twin.op = dice_below(d, 10);
    }
    if (twin.kind == STEP_REDUCE) {
        int kind = reduce_rows[twin.op].kind;
        if (kind == 'b' || (kind == 'e' && reduces_nothing(&t, mask))) twin.op = 0;
    }
    twin.dtype = other;
    if (twin.kind == STEP_VAR || dice_chance(d, 50)) {
        step cast = step_new(STEP_CAST, s->operand[0], -1, -1);
        t.dtype = cast.dtype = other;
        cast.type = t;
        twin.operand[0] = add_step(r, &cast);
        twin.dtype = STAX_DTYPE_NONE;
    }
    twin.type.dtype = other;
    return twin.operand[0] < 0 ? -1 : add_step(r, &twin);
}

static int make_reduce(recipe *r) {
    dice *d = &r->dice;
    int what = dice_below(d, 10), a = pick(r, what < 8 && dice_chance(d, 70) ? FLOATS : ANY, 0, 6);
    unsigned mask;
    if (a < 0) return -1;
    const kind_of t = *type_at(r, a);
    step s = step_new(what < 6 ? STEP_REDUCE : what < 8 ? STEP_VAR : STEP_ARG, a, -1, -1);
    s.flag = dice_chance(d, 35);
    if (dice_chance(d, 25)) {
        s.axes[0] = no_axes();
        mask = (1u << t.rank) - 1;
    } else if (dice_chance(d, 60) && t.rank > 0) {
        int k = dice_below(d, t.rank);
        mask = 1u << k;
        put_axis(&s.axes[0], dice_chance(d, 30) ? k - t.rank : k);
    } else {
        s.axes[0] = some_axes(d, t.rank, 55, &mask);
    }
    s.type.dtype = t.dtype;
    if (s.kind == STEP_ARG) {
        s.op = dice_below(d, 2);
        s.type.dtype = STAX_I64;
        int k = t.rank ? dice_below(d, t.rank) : 0;
        if (t.rank == 0 || dice_chance(d, 20)) {
            mask = (1u << t.rank) - 1;
        } else {
            s.axis = dice_chance(d, 30) ? k - t.rank : k;
            mask = 1u << k;
        }
    } else if (s.kind == STEP_VAR) {
        s.op = dice_chance(d, 60) ? dice_below(d, 2) : 2 + dice_below(d, 3);
        s.value[0] = dice_chance(d, 60) ? 0 : 1;
        if (!is_float(t.dtype)) s.type.dtype = STAX_F32;
    } else {
        s.op = dice_below(d, 10);
        int kind = reduce_rows[s.op].kind, as = dice_chance(d, 20);
        if (kind == 's' && !is_float(t.dtype))
            s.type.dtype = is_unsigned(t.dtype) ? STAX_U64 : STAX_I64;
        if (kind == 'm' && !is_float(t.dtype)) s.type.dtype = STAX_F32;
        if (kind == 'b') s.type.dtype = STAX_BOOL;
        if (as) {
            s.dtype = any_dtype(d, kind == 'm' ? FLOATS : kind == 'b' ? ANY : NUMBERS);
            s.type.dtype = s.dtype;
        }
    }
    reduce_shape(&t, mask, s.flag, &s.type);
    int kind = s.kind == STEP_REDUCE ? reduce_rows[s.op].kind : s.kind == STEP_ARG ? 'e' : 'm';
    if (kind == 'e' && reduces_nothing(&t, mask)) return -1;
    int at = add_step(r, &s);
    if (at >= 0 && kind != 'e' && is_float(s.type.dtype) && is_float(t.dtype) && dice_chance(d, 50))
        add_reduce_twin(r, &s, mask);
    return at;
}

static int64_t products_of(const kind_of *out, int64_t inner) {
    return elements_of(out) * (inner > 0 ? inner : 1);
}

static int make_matmul(recipe *r) {
    dice *d = &r->dice;
    int a = pick(r, dice_chance(d, 75) ? FLOATS : NUMBERS, 1, 4), b;
    if (a < 0) return -1;
    const kind_of t = *type_at(r, a);
    size_of inner = t.dims[t.rank - 1];
    if (inner.how == OPAQUE) return -1;
    stax_dtype dtype =
        dice_chance(d, 80) ? t.dtype : any_dtype(d, is_float(t.dtype) ? FLOATS : NUMBERS);
    stax_dtype result = promote_strong(t.dtype, dtype);
    if (result == STAX_DTYPE_NONE) return -1;
    step s = step_new(STEP_MATMUL, a, -1, -1);
    kind_of u = kind_scalar(dtype);
    s.n = 2;
    s.type = t;
    if (dice_chance(d, 30)) { /* linear */
        s.kind = STEP_LINEAR;
        u.rank = 2;
        u.dims[0] = any_size(r);
        u.dims[1] = inner;
        s.type.dims[t.rank - 1] = u.dims[0];
        if (products_of(&s.type, inner.n) > (r->is_wide ? 1000000 : 100000)) return -1;
        b = add_input(r, u, any_fill(d));
        if (dice_chance(d, 50)) {
            kind_of bias = kind_scalar(dtype);
            bias.rank = 1;
            bias.dims[0] = u.dims[0];
            s.operand[2] = add_input(r, bias, any_fill(d));
            if (s.operand[2] < 0) return -1;
            s.n = 3;
        }
    } else {
        if (dice_chance(d, 25)) {
            u.rank = 1;
            u.dims[0] = inner;
            s.type.rank--;
        } else {
            int batch = t.rank > 2 && dice_chance(d, 60) ? t.rank - 2 : 0;
            if (t.rank == 2 && dice_chance(d, 20)) batch = 1;
            for (int k = 0; k < batch; k++) {
                u.dims[k] = t.rank > 2 && !dice_chance(d, 30) ? t.dims[k]
                            : t.rank > 2                      ? number(1)
                                                              : any_size(r);
                if (u.dims[k].how == OPAQUE) return -1;
            }
            u.rank = batch + 2;
            u.dims[batch] = inner;
            u.dims[batch + 1] = dice_chance(d, 15) ? number(1) : any_size(r);
            kind_of x = t, y = u, z;
            x.rank = t.rank > 2 ? t.rank - 2 : 0;
            y.rank = batch;
            if (!broadcast(&x, &y, &z)) return -1;
            if (t.rank > 1) z.dims[z.rank++] = t.dims[t.rank - 2];
            z.dims[z.rank++] = u.dims[batch + 1];
            s.type = z;
        }
        if (products_of(&s.type, inner.n) > (r->is_wide ? 1000000 : 100000)) return -1;
        b = add_input(r, u, any_fill(d));
    }
    if (b < 0) return -1;
    s.operand[1] = b;
    if (dice_chance(d, 25))
        s.dtype = result = is_float(result)     ? (dice_chance(d, 50) ? STAX_F32 : STAX_F64)
                           : dice_chance(d, 50) ? STAX_I32
                                                : STAX_I64;
    s.type.dtype = result;
    return add_step(r, &s);
}

static int make_dot(recipe *r) {
    dice *d = &r->dice;
    int a = pick(r, dice_chance(d, 75) ? FLOATS : NUMBERS, 0, 4);
    if (a < 0) return -1;
    const kind_of t = *type_at(r, a);
    if (is_opaque(&t)) return -1;
    step s = step_new(STEP_DOT, a, -1, -1);
    kind_of u = kind_scalar(t.dtype);
    int role[STAX_MAX_RANK], place[STAX_MAX_RANK];
    int64_t inner = 1;
    int free_of_b = dice_below(d, 3) == 0 ? 0 : 1;
    /* axes of b: the batch and contracted axes of a, and free ones, in any order */
    size_of dims[2 * STAX_MAX_RANK];
    int what[2 * STAX_MAX_RANK], n = 0;
    for (int k = 0; k < t.rank; k++) {
        int x = dice_below(d, 10);
        role[k] = x < 4 ? 'c' : x < 6 ? 'b' : 'f';
        if (role[k] == 'c') inner *= t.dims[k].n;
        if (role[k] == 'f') continue;
        dims[n] = t.dims[k];
        what[n++] = k;
    }
    for (int k = 0; k < free_of_b; k++) {
        dims[n] = dice_chance(d, 25) ? number(1) : any_size(r);
        what[n++] = -1;
    }
    for (int k = n - 1; k > 0 && dice_chance(d, 70); k--) {
        int j = dice_below(d, k + 1), w = what[k];
        size_of x = dims[k];
        what[k] = what[j];
        dims[k] = dims[j];
        what[j] = w;
        dims[j] = x;
    }
    if (n > STAX_MAX_RANK) return -1;
    u.rank = n;
    for (int k = 0; k < n; k++) {
        u.dims[k] = dims[k];
        if (what[k] >= 0) place[what[k]] = k;
    }
    for (int k = 0; k < 4; k++) s.axes[k].given = 1;
    int order[STAX_MAX_RANK];
    for (int k = 0; k < t.rank; k++) order[k] = k;
    if (dice_chance(d, 30) && t.rank > 1) {
        order[0] = 1;
        order[1] = 0;
    }
    s.type = kind_scalar(t.dtype);
    for (int pass = 0; pass < 3; pass++) {
        for (int j = 0; j < t.rank; j++) {
            int k = pass == 2 ? j : order[j];
            if (pass == 0 && role[k] == 'c')
                put_axis(&s.axes[0], k), put_axis(&s.axes[1], place[k]);
            if (pass == 1 && role[k] == 'b') {
                put_axis(&s.axes[2], k), put_axis(&s.axes[3], place[k]);
                s.type.dims[s.type.rank++] = t.dims[k];
            }
            if (pass == 2 && role[k] == 'f') s.type.dims[s.type.rank++] = t.dims[k];
        }
    }
    for (int k = 0; k < n; k++)
        if (what[k] < 0) s.type.dims[s.type.rank++] = dims[k];
    if (products_of(&s.type, inner) > (r->is_wide ? 1000000 : 100000)) return -1;
    int b = -1;
    for (int k = 0; k < r->n_steps; k++) { /* the same shape may be there: a value times itself */
        const kind_of *v = type_at(r, k);
        int same = is_tensor(r, k) && v->rank == u.rank && v->dtype == u.dtype;
        for (int j = 0; j < u.rank && same; j++) same = same_size(v->dims[j], u.dims[j]);
        if (same && dice_chance(d, 50)) b = k;
    }
    if (b < 0) b = add_input(r, u, any_fill(d));
    if (b < 0) return -1;
    s.operand[1] = b;
    s.n = 2;
    if (dice_chance(d, 20))
        s.type.dtype = s.dtype =
            is_float(t.dtype) ? (dice_chance(d, 50) ? STAX_F32 : STAX_F64) : STAX_I32;
    return add_step(r, &s);
}

static int make_random(recipe *r) {
    dice *d = &r->dice;
    kind_of key = kind_scalar(STAX_U64);
    if (dice_chance(d, 50)) {
        key.dtype = STAX_U32;
        key.rank = 1;
        key.dims[0] = number(2);
    }
    int a = add_input(r, key, FILL_PLAIN);
    if (a < 0) return -1;
    static const step_kind kinds[] = {STEP_RANDOM_BITS, STEP_UNIFORM, STEP_NORMAL};
    step s = step_new(kinds[dice_below(d, 3)], a, -1, -1);
    s.dtype = any_dtype(d, s.kind == STEP_RANDOM_BITS ? INTS : FLOATS);
    s.type = any_shape(r, s.dtype, 0, 4);
    s.n_list = s.type.rank;
    for (int k = 0; k < s.n_list; k++) s.list[0][k] = s.type.dims[k];
    s.value[0] = dice_chance(d, 50) ? 0 : -2.5;
    s.value[1] = dice_chance(d, 50) ? 1 : 3.75;
    return add_step(r, &s);
}

static int make_network(recipe *r) {
    dice *d = &r->dice;
    int a = pick(r, dice_chance(d, 92) ? FLOATS : ANY, 1, 5);
    if (a < 0) return -1;
    const kind_of t = *type_at(r, a);
    int what = dice_below(d, 4);
    step s = step_new(what < 2    ? STEP_SOFTMAX
                      : what == 2 ? STEP_LAYER_NORM
                                  : STEP_RMS_NORM,
                      a, -1, -1);
    s.op = what;
    s.type = t;
    if (!is_float(t.dtype)) s.type.dtype = STAX_F32;
    if (s.kind == STEP_SOFTMAX) {
        int k = dice_below(d, t.rank);
        s.axis = dice_chance(d, 50) ? k - t.rank : k;
        return add_step(r, &s);
    }
    int last = t.rank > 1 && dice_chance(d, 30) ? 2 : 1;
    kind_of g = kind_scalar(t.dtype);
    s.value[0] = dice_chance(d, 70) ? 1e-5 : 0.5;
    for (int k = t.rank - last; k < t.rank; k++) {
        put_axis(&s.axes[0], dice_chance(d, 50) ? k - t.rank : k);
        g.dims[g.rank++] = t.dims[k];
    }
    int most = s.kind == STEP_LAYER_NORM ? 3 : 2;
    for (int k = 1; k < most; k++) {
        s.operand[k] = -1;
        if (is_opaque(&g) || dice_chance(d, 40)) continue;
        s.operand[k] = add_input(r, g, any_fill(d));
        if (s.operand[k] < 0) return -1;
    }
    s.n = most;
    return add_step(r, &s);
}

/* ---- composites: operands of known, small sizes, made for the purpose ---- */

enum composite {
    C_SELECT,
    C_TRIANGLE,
    C_ONE_HOT,
    C_NORM,
    C_GROUP_NORM,
    C_BATCH_NORM,
    C_CROSS_ENTROPY,
    C_DROPOUT,
    C_CONV,
    C_CONV_TRANSPOSE,
    C_POOL,
    C_ADAPTIVE,
    C_RESIZE,
    C_EINSUM,
    C_ATTENTION,
    C_DIAGONAL,
    C_REPEAT,
    C_KRON,
    C_CROSS,
    N_COMPOSITES
};

static const char *const paddings[2][5] = {
    {"valid", "same", "[[1,0]]", "[[0,2]]", "[[2,1]]"},
    {"valid", "same", "[[1,0],[0,1]]", "[[0,2],[1,1]]", "[[2,2],[2,1]]"}};
static const int padding_widths[5][2][2] = {
    {{0, 0}, {0, 0}}, {{0, 0}, {0, 0}}, {{1, 0}, {0, 1}}, {{0, 2}, {1, 1}}, {{2, 1}, {2, 1}}};

/* Equations, each letter of size 2 + its place in the alphabet modulo 4. */
static const char *const equations[] = {"ij,jk->ik", "bij,bjk->bik", "ii->i",    "iij->ji",
                                        "ij->",      "ij,ij->ij",    "i,j->ji",  "ij,jk,kl->il",
                                        "ij,kj->",   "abc,cd->abd",  "aab,b->a", "ab,ab->b"};

static kind_of composite_type(recipe *r, stax_dtype dtype, int rank, int most) {
    kind_of t = kind_scalar(dtype);
    t.rank = rank;
    for (int k = 0; k < rank; k++) t.dims[k] = number(dice_between(&r->dice, 1, most));
    return t;
}

static stax_dtype float_of(stax_dtype t) { return is_float(t) ? t : STAX_F32; }

/* conv, conv_transpose, pools over n axes from `first` on; the kernel's sizes are in list 1. */
static int composite_windows(recipe *r, step *s, const kind_of *x, int first, int n, int pool) {
    dice *d = &r->dice;
    int transposed = s->op == C_CONV_TRANSPOSE, p = dice_below(d, 5);
    if (transposed && p == 1) p = 0;
    s->text = paddings[n - 1][p];
    s->flag = pool && dice_chance(d, 40); /* ceil_mode */
    for (int k = 0; k < n; k++) {
        int64_t in = x->dims[first + k].n, kernel = s->list[1][k].n, out;
        int64_t stride = dice_between(d, 1, 3), dilation = pool ? 1 : dice_between(d, 1, 2);
        int64_t low = n == 1 ? (p == 2 ? 1 : p == 4 ? 2 : 0) : padding_widths[p][k][0];
        int64_t high = n == 1 ? (p == 3 ? 2 : p == 4 ? 1 : 0) : padding_widths[p][k][1];
        if (n == 2 && p == 4) low = 2, high = k ? 1 : 2;
        int64_t span = dilation * (kernel - 1) + 1, room;
        if (p == 1) {
            int64_t total = ((in + stride - 1) / stride - 1) * stride + span - in;
            low = total > 0 ? total / 2 : 0;
            high = total > 0 ? total - low : 0;
        }
        room = in + low + high - span;
        if (transposed) room = (in - 1) * stride + span - low - high;
        if (room < 0) return 0;
        out = transposed ? room : (s->flag ? (room + stride - 1) / stride : room / stride) + 1;
        if (s->flag && (out - 1) * stride >= in + low) out--;
        s->list[0][k] = number(stride);
        s->list[2][k] = number(dilation);
        s->type.dims[first + k] = number(out);
    }
    s->n_list = n;
    return 1;
}

static int make_convolution(recipe *r, step *s) {
    dice *d = &r->dice;
    int n = (int)dice_between(d, 1, 2), groups = (int)dice_between(d, 1, 3);
    stax_dtype dtype = any_dtype(d, dice_chance(d, 80) ? FLOATS : ANY);
    int64_t ci = dice_between(d, 1, 3), co = dice_between(d, 1, 3);
    kind_of x = composite_type(r, dtype, n + 2, 9), w = composite_type(r, dtype, n + 2, 3);
    x.dims[0] = number(dice_between(d, 1, 2));
    x.dims[1] = number(ci * groups);
    w.dims[0] = number((s->op == C_CONV ? co : ci) * groups);
    w.dims[1] = number(s->op == C_CONV ? ci : co);
    for (int k = 0; k < n; k++) s->list[1][k] = w.dims[k + 2];
    s->type = x;
    s->type.dims[1] = number(co * groups);
    s->number[0] = groups;
    if (!composite_windows(r, s, &x, 2, n, 0)) return -1;
    s->operand[0] = add_input(r, x, any_fill(d));
    s->operand[1] = add_input(r, w, any_fill(d));
    s->operand[2] = -1;
    s->n = 2;
    if (dice_chance(d, 40)) {
        kind_of b = composite_type(r, dtype, 1, 1);
        b.dims[0] = s->type.dims[1];
        s->operand[2] = add_input(r, b, FILL_PLAIN);
        s->n = 3;
    }
    for (int k = 0; k < s->n; k++)
        if (s->operand[k] < 0) return -1;
    return add_step(r, s);
}

static int make_pool(recipe *r, step *s, int a) {
    dice *d = &r->dice;
    const kind_of t = *type_at(r, a);
    int n = t.rank > 1 ? (int)dice_between(d, 1, 2) : 1;
    s->number[1] = dice_below(d, 4); /* max, avg, avg with padding, lp */
    s->type = t;
    if (s->number[1]) s->type.dtype = float_of(t.dtype);
    for (int k = 0; k < n; k++) s->list[1][k] = number(dice_between(d, 1, 3));
    return composite_windows(r, s, &t, t.rank - n, n, 1) ? add_step(r, s) : -1;
}

static int make_einsum(recipe *r, step *s) {
    dice *d = &r->dice;
    int which = dice_below(d, (int)(sizeof equations / sizeof equations[0])), n = 0;
    stax_dtype dtype = any_dtype(d, dice_chance(d, 80) ? FLOATS : ANY);
    kind_of t = kind_scalar(dtype);
    s->text = equations[which];
    for (const char *e = s->text;; e++) {
        if (*e >= 'a') {
            t.dims[t.rank++] = number(2 + (*e - 'a') % 4);
        } else if (*e == ',' || *e == '-') {
            s->operand[n++] = add_input(r, t, any_fill(d));
            if (s->operand[n - 1] < 0) return -1;
            t.rank = 0;
        } else if (*e == '\0') {
            break;
        }
    }
    s->n = n;
    s->type = t;
    return add_step(r, s);
}

static int make_attention(recipe *r, step *s) {
    dice *d = &r->dice;
    int batch = dice_below(d, 3);
    kind_of q = composite_type(r, any_dtype(d, FLOATS), batch + 2, 3), k, v, m;
    q.dims[batch] = number(dice_between(d, 1, 5));
    q.dims[batch + 1] = number(dice_between(d, 1, 6));
    k = v = q;
    k.dims[batch] = v.dims[batch] = number(dice_chance(d, 15) ? 130 : dice_between(d, 0, 9));
    v.dims[batch + 1] = number(dice_between(d, 1, 5));
    if (batch && dice_chance(d, 30)) k.dims[0] = number(1);
    m = q;
    m.dims[batch + 1] = k.dims[batch];
    m.dtype = dice_chance(d, 60) ? STAX_BOOL : q.dtype;
    s->type = q;
    s->type.dims[batch + 1] = v.dims[batch + 1];
    s->flag = dice_chance(d, 40);
    s->value[0] = dice_chance(d, 50) ? 0 : 0.25;
    s->operand[0] = add_input(r, q, FILL_PLAIN);
    s->operand[1] = add_input(r, k, any_fill(d));
    s->operand[2] = add_input(r, v, any_fill(d));
    s->n = 3;
    if (dice_chance(d, 40)) s->operand[s->n++] = add_input(r, m, FILL_PLAIN);
    for (int j = 0; j < s->n; j++)
        if (s->operand[j] < 0) return -1;
    return add_step(r, s);
}

/* Integers for an axis of n entries beside the shape t. */
static int composite_indices(recipe *r, kind_of t, int64_t n) {
    return make_indices(r, t, number(n), "error");
}

static int make_composite(recipe *r) {
    dice *d = &r->dice;
    step s = step_new(STEP_COMPOSITE, -1, -1, -1);
    s.op = dice_below(d, N_COMPOSITES);
    if (s.op == C_CONV || s.op == C_CONV_TRANSPOSE) return make_convolution(r, &s);
    if (s.op == C_EINSUM) return make_einsum(r, &s);
    if (s.op == C_ATTENTION) return make_attention(r, &s);
    int least =
        s.op == C_TRIANGLE || s.op == C_DIAGONAL || s.op == C_GROUP_NORM || s.op == C_BATCH_NORM
            ? 2
            : 1;
    kind_of x = composite_type(r, any_dtype(d, dice_chance(d, 70) ? FLOATS : ANY),
                               (int)dice_between(d, least, 4), 7);
    if (s.op == C_CROSS) {
        if (x.dtype == STAX_BOOL) return -1;
        x.dims[x.rank - 1] = number(3);
    }
    if (s.op == C_KRON && x.rank > 3) x.rank = 3;
    s.type = x;
    int axis = dice_below(d, x.rank);
    if (s.op == C_ONE_HOT) {
        s.number[0] = dice_between(d, 1, 6);
        s.operand[0] = composite_indices(r, x, s.number[0]);
        s.dtype = s.type.dtype = any_dtype(d, ANY);
        s.type.dims[s.type.rank++] = number(s.number[0]);
        s.n = 1;
        return s.operand[0] < 0 ? -1 : add_step(r, &s);
    }
    s.operand[0] = add_input(r, x, any_fill(d));
    s.n = 1;
    if (s.operand[0] < 0) return -1;
    s.axis = dice_chance(d, 50) ? axis - x.rank : axis;
    kind_of line = composite_type(r, x.dtype, 1, 1);
    switch (s.op) {
        case C_SELECT:
            s.number[0] = dice_between(d, -x.dims[axis].n, x.dims[axis].n - 1);
            for (int k = axis; k + 1 < x.rank; k++) s.type.dims[k] = x.dims[k + 1];
            s.type.rank--;
            return add_step(r, &s);
        case C_TRIANGLE:
            s.number[0] = dice_between(d, -3, 3);
            s.flag = dice_chance(d, 50);
            return add_step(r, &s);
        case C_NORM: {
            const double ords[] = {2, 1, 0, 3, HUGE_VAL, -HUGE_VAL};
            s.value[0] = ords[dice_below(d, 6)];
            put_axis(&s.axes[0], axis);
            s.type.dtype = float_of(x.dtype);
            reduce_shape(&x, 1u << axis, 0, &s.type);
            return add_step(r, &s);
        }
        case C_GROUP_NORM:
        case C_BATCH_NORM:
            s.type.dtype = float_of(x.dtype);
            line.dims[0] = x.dims[1];
            s.number[0] = x.dims[1].n % 2 ? x.dims[1].n : 2;
            for (int k = 1; k < 3; k++) s.operand[k] = add_input(r, line, FILL_PLAIN);
            s.n = 3;
            return s.operand[1] < 0 || s.operand[2] < 0 ? -1 : add_step(r, &s);
        case C_CROSS_ENTROPY:
            reduce_shape(&x, 1u << axis, 0, &s.type);
            s.operand[1] = composite_indices(r, s.type, x.dims[axis].n);
            s.type.dtype = float_of(x.dtype);
            s.flag = dice_chance(d, 30); /* nll_loss */
            s.n = 2;
            return s.operand[1] < 0 ? -1 : add_step(r, &s);
        case C_DROPOUT:
            s.operand[1] = add_input(r, kind_scalar(STAX_U64), FILL_PLAIN);
            s.type.dtype = float_of(x.dtype);
            s.n = 2;
            return s.operand[1] < 0 ? -1 : add_step(r, &s);
        case C_POOL:
            return make_pool(r, &s, s.operand[0]);
        case C_ADAPTIVE:
            s.flag = dice_chance(d, 50); /* max */
            if (!s.flag) s.type.dtype = float_of(x.dtype);
            s.n_list = x.rank > 1 ? 2 : 1;
            for (int k = x.rank - s.n_list, j = 0; k < x.rank; k++, j++)
                s.list[0][j] = s.type.dims[k] = number(dice_between(d, 0, 6));
            return add_step(r, &s);
        case C_RESIZE:
            s.number[0] = dice_below(d, 3);
            s.number[1] = dice_below(d, 3);
            if (s.number[0]) s.type.dtype = float_of(x.dtype);
            s.n_list = x.rank;
            for (int k = 0; k < x.rank; k++)
                s.list[0][k] = s.type.dims[k] =
                    dice_chance(d, 50) ? x.dims[k] : number(dice_between(d, 0, 9));
            return elements_of(&s.type) > most_elements(r) ? -1 : add_step(r, &s);
        case C_DIAGONAL: {
            int64_t k = dice_between(d, -2, 2), rows = x.dims[0].n, columns = x.dims[1].n, length;
            if (k < 0)
                rows += k;
            else
                columns -= k;
            length = rows < columns ? rows : columns;
            for (int j = 0; j + 2 < x.rank; j++) s.type.dims[j] = x.dims[j + 2];
            s.type.rank--;
            s.type.dims[s.type.rank - 1] = number(length > 0 ? length : 0);
            s.number[0] = k;
            return add_step(r, &s);
        }
        case C_REPEAT:
            s.number[0] = dice_between(d, 0, 3);
            s.type.dims[axis] = number(x.dims[axis].n * s.number[0]);
            return add_step(r, &s);
        default: /* kron, cross: of x with itself or with its like */
            s.operand[1] = dice_chance(d, 40) ? s.operand[0] : add_input(r, x, any_fill(d));
            s.n = 2;
            for (int k = 0; k < x.rank && s.op == C_KRON; k++)
                s.type.dims[k] = number(x.dims[k].n * x.dims[k].n);
            return s.operand[1] < 0 ? -1 : add_step(r, &s);
    }
}

static stax_value build_composite(const step *s, const stax_value *in, stax_shape list0,
                                  stax_shape list1, stax_shape list2) {
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const how[] = {"half_pixel", "align_corners", "asymmetric"};
    stax_value none = stax_none(), third = s->n > 2 ? in[2] : none;
    switch (s->op) {
        case C_SELECT:
            return stax_select(in[0], s->axis, s->number[0]);
        case C_TRIANGLE:
            return s->flag ? stax_tril(in[0], s->number[0]) : stax_triu(in[0], s->number[0]);
        case C_ONE_HOT:
            return stax_one_hot_as(in[0], s->number[0], s->dtype);
        case C_NORM:
            return stax_norm(in[0], s->value[0], s->axes[0], false);
        case C_GROUP_NORM:
            return stax_group_norm(in[0], in[1], third, s->number[0], 1e-3);
        case C_BATCH_NORM:
            return stax_batch_norm(in[0], in[1], stax_abs(third), third, in[1], 1e-3);
        case C_CROSS_ENTROPY:
            return s->flag ? stax_nll_loss(in[0], in[1], s->axis, "none")
                           : stax_cross_entropy(in[0], in[1], s->axis);
        case C_DROPOUT:
            return stax_dropout(in[0], in[1], 0.4);
        case C_CONV:
            return stax_conv(in[0], in[1], third, list0, s->text, list2, s->number[0]);
        case C_CONV_TRANSPOSE:
            return stax_conv_transpose(in[0], in[1], third, list0, s->text, list2, s->number[0],
                                       stax_shape0());
        case C_POOL:
            if (s->number[1] == 0) return stax_max_pool(in[0], list1, list0, s->text, s->flag != 0);
            if (s->number[1] == 3)
                return stax_lp_pool(in[0], list1, list0, s->text, s->flag != 0, 3);
            return stax_avg_pool(in[0], list1, list0, s->text, s->flag != 0, s->number[1] == 2);
        case C_ADAPTIVE:
            return s->flag ? stax_adaptive_max_pool(in[0], list0)
                           : stax_adaptive_avg_pool(in[0], list0);
        case C_RESIZE:
            return stax_resize(in[0], list0, modes[s->number[0]], how[s->number[1]], NULL);
        case C_EINSUM:
            return stax_einsum(in, s->n, s->text);
        case C_ATTENTION:
            return stax_attention(in[0], in[1], in[2], s->n > 3 ? in[3] : none, s->flag != 0,
                                  s->value[0]);
        case C_DIAGONAL:
            return stax_diagonal(in[0], s->number[0], 0, 1);
        case C_REPEAT:
            return stax_repeat(in[0], s->number[0], s->axis);
        case C_KRON:
            return stax_kron(in[0], in[1]);
        default:
            return stax_cross(in[0], in[1], -1);
    }
}

/* The state that a step shows parts of, -1: none. */
static int view_state(const recipe *r, int k) {
    while (k >= 0 && r->steps[k].kind != STEP_STATE) {
        switch (r->steps[k].kind) {
            case STEP_RESHAPE:
            case STEP_PERMUTE:
            case STEP_TRANSPOSE:
            case STEP_SQUEEZE:
            case STEP_UNSQUEEZE:
            case STEP_SLICE:
            case STEP_FLIP:
                k = r->steps[k].operand[0];
                break;
            default:
                return -1;
        }
    }
    return k;
}

/* A view of step k: sliced, with its last axes exchanged, reversed, or with all axes made one. */
static int make_view(recipe *r, int k) {
    dice *d = &r->dice;
    const kind_of t = *type_at(r, k);
    step s = step_new(STEP_SLICE, k, -1, -1);
    int way = dice_below(d, 5);
    s.type = t;
    if (way == 0 && t.rank >= 2) {
        s.kind = STEP_TRANSPOSE;
        s.type.dims[t.rank - 2] = t.dims[t.rank - 1];
        s.type.dims[t.rank - 1] = t.dims[t.rank - 2];
    } else if (way == 1) {
        unsigned mask;
        s.kind = STEP_FLIP;
        if (t.rank > 0) s.axes[0] = some_axes(d, t.rank, 60, &mask);
    } else if (way == 2 && !is_symbolic(&t)) {
        s.kind = STEP_RESHAPE;
        s.type.rank = 1;
        s.type.dims[0] = number(elements_of(&t));
        s.n_list = 1;
        s.list[0][0] = s.type.dims[0];
    } else {
        any_slice(r, &s, &t, &s.type);
    }
    return add_step(r, &s);
}

/* A state gets new contents: the whole, a slice, or what a view of it shows. */
static int make_assign(recipe *r) {
    dice *d = &r->dice;
    int found = -1;
    for (int k = 0; k < r->n_steps; k++)
        if (r->steps[k].kind == STEP_STATE && (found < 0 || dice_chance(d, 50))) found = k;
    if (found < 0) {
        kind_of t = any_shape(r, any_dtype(d, ANY), 0, 4);
        found = add_input(r, t, any_fill(d));
        if (found < 0) return -1;
        r->steps[found].kind = STEP_STATE;
        row_major(&r->steps[found]);
    }
    for (int k = 0; k < r->n_steps; k++) /* views that are there, and new ones */
        if (is_tensor(r, k) && view_state(r, k) == found && dice_chance(d, 30)) found = k;
    for (int k = dice_below(d, 4); k > 0; k--) {
        int view = make_view(r, found);
        if (view >= 0) found = view;
    }
    step s = step_new(dice_chance(d, 65) ? STEP_ASSIGN : STEP_ASSIGN_SLICE, found, -1, -1);
    const kind_of t = *type_at(r, found);
    kind_of room = t;
    if (s.kind == STEP_ASSIGN_SLICE) any_slice(r, &s, &t, &room);
    int list[MAX_STEPS], n = 0;
    for (int k = 0; k < r->n_steps; k++) {
        const kind_of *u = type_at(r, k);
        kind_of out;
        if (!is_tensor(r, k) || u->dtype != t.dtype || u->rank > room.rank ||
            !broadcast(u, &room, &out))
            continue;
        int fits = out.rank == room.rank;
        for (int j = 0; j < room.rank; j++)
            fits &= out.dims[j].n == room.dims[j].n && out.dims[j].how == room.dims[j].how;
        if (fits) list[n++] = k;
    }
    int v = n > 0 && dice_chance(d, 75)
                ? list[n - 1 - dice_below(d, n) / 2]
                : add_input(r, partner_shape(r, &room, t.dtype), any_fill(d));
    if (v < 0) return -1;
    s.operand[1] = v;
    s.n = 2;
    s.type = kind_scalar(t.dtype);
    return add_step(r, &s);
}

/* Regions: then -x or else x + x; i = 0 .. n - 1: x = x * 0.5 + x0; while. */
static int make_region(recipe *r) {
    dice *d = &r->dice;
    static const step_kind kinds[] = {STEP_COND, STEP_LOOP, STEP_WHILE};
    int a = pick(r, FLOATS, 0, 4), c;
    if (a < 0) return -1;
    step s = step_new(kinds[dice_below(d, 3)], a, -1, -1);
    s.type = *type_at(r, a);
    c = add_input(r, kind_scalar(s.kind == STEP_COND ? STAX_BOOL : STAX_I64), FILL_SHIFT);
    if (c < 0) return -1;
    if (r->steps[c].kind == STEP_STATE) r->steps[c].kind = STEP_INPUT;
    s.operand[1] = c;
    s.n = 2;
    r->has_regions = 1;
    return add_step(r, &s);
}

/* ---- a whole recipe -----------------------------------------------------------------------------
 */

static void recipe_palette(recipe *r) {
    static const int small[] = {1, 2, 2, 3, 3, 4, 5, 5, 7, 8, 11, 13, 16, 17, 19, 23};
    static const int medium[] = {31,  32,  33,  37,  63,  64,  65,  67,  97,
                                 100, 127, 128, 129, 131, 200, 257, 509, 1021};
    static const int big[] = {4095, 4096, 4097, 4099, 5000, 8191, 8192, 8193, 9001, 12289};
    dice *d = &r->dice;
    int profile = dice_below(d, 20);
    for (int k = 0; k < 5; k++) r->palette[k] = number(small[dice_below(d, smooth_recipes ? 10 : 16)]);
    if (smooth_recipes) {
        if (profile < 2) r->palette[dice_below(d, 4)] = number(0);
        profile = 20;
    }
    if (r->is_wide) {
        static const int wide[] = {65536, 65537, 70001, 131072, 100003, 8193};
        r->palette[0] = number(wide[dice_below(d, 6)]);
        for (int k = 1; k < 5; k++) r->palette[k] = number(small[dice_below(d, 5)]);
        r->palette[1] = number(dice_chance(d, 50) ? 300 + dice_below(d, 200) : 2);
        return;
    }
    if (profile < 3) {
        r->palette[0] = number(big[dice_below(d, 10)]);
        for (int k = 1; k < 5; k++) r->palette[k] = number(small[dice_below(d, 5)]);
    } else if (profile < 10) {
        r->palette[0] = number(medium[dice_below(d, 18)]);
        if (profile < 6) r->palette[1] = number(medium[dice_below(d, 18)]);
    } else if (profile < 11) {
        r->palette[dice_below(d, 4)] = number(0);
    }
    if (dice_chance(d, 25)) {
        r->n_symbols = 1 + dice_below(d, 2);
        for (int k = 0; k < r->n_symbols; k++) {
            symbol *y = &r->symbols[k];
            int at = dice_below(d, 4);
            if (r->palette[at].how != 0) continue;
            y->first = r->palette[at].n;
            y->lo = dice_chance(d, 30) ? 0 : 1;
            if (y->first < y->lo) y->lo = 0;
            y->second = dice_chance(d, 60)   ? 1 + dice_below(d, 20)
                        : dice_chance(d, 50) ? (y->first > 4000 ? 4098 : 71)
                                             : y->lo;
            y->hi = dice_chance(d, 40)
                        ? INT64_MAX
                        : (y->first > y->second ? y->first : y->second) + dice_below(d, 3);
            if (y->hi == y->lo) y->hi++; /* a known size would be folded, and met by numbers */
            extent *e = &r->extents[r->n_extents];
            e->kind = EXTENT_SYMBOL;
            e->a = number(k);
            e->b = number(0);
            r->palette[at].how = r->n_extents++;
        }
    }
}

/* An input with the symbol as its size: each size must follow from some input. */
static void recipe_anchors(recipe *r) {
    for (int k = 0; k < 4; k++) {
        if (r->palette[k].how <= 0) continue;
        step s = step_new(STEP_INPUT, -1, -1, -1);
        s.type = kind_scalar(STAX_U8);
        s.type.rank = 1;
        s.type.dims[0] = r->palette[k];
        s.stretch[0] = 1;
        s.flag = 1;
        add_step(r, &s);
    }
}

static void recipe_make_sized(recipe *r, uint64_t seed, int is_wide) {
    typedef int (*maker)(recipe *);
    /* clang-format off */
    static const struct { maker make; int weight; } makers[] = {
        {make_unary, 24}, {make_binary, 24}, {make_several, 14}, {make_reshape, 6}, {make_permute, 6}, {make_expand, 4},
        {make_squeeze, 4}, {make_slice, 8}, {make_flip, 5}, {make_pad, 6}, {make_concat, 7}, {make_split, 4}, {make_tile, 3},
        {make_unfold, 4}, {make_iota, 3}, {make_gather, 7}, {make_reduce, 20}, {make_matmul, 7}, {make_dot, 7}, {make_random, 4},
        {make_network, 8}, {make_composite, 12}, {make_assign, 4}, {make_scan, 8},
        {make_order, 8},   {make_scatter, 5}};
    /* clang-format on */
    enum { N_MAKERS = sizeof makers / sizeof makers[0] };
    int total = 0, ops, focus;
    memset(r, 0, sizeof *r);
    r->seed = seed;
    r->is_wide = is_wide;
    r->dice.state = seed * UINT64_C(0x2545f4914f6cdd1d) + 99;
    r->n_extents = 1;
    dice *d = &r->dice;
    dice_next(d);
    recipe_palette(r);
    recipe_anchors(r);
    r->is_unfused = dice_chance(d, 12);
    for (int k = 0; k < N_MAKERS; k++) total += makers[k].weight;
    ops = 1 + dice_below(d, dice_chance(d, 30) ? 14 : 6);
    focus =
        dice_chance(d, 35) ? dice_below(d, N_MAKERS) : -1; /* some graphs have much of one family */
    int region_at = dice_chance(d, 3) ? dice_below(d, ops) : -1;
    for (int k = 0, tries = 0; k < ops && tries < 60; tries++) {
        int x = dice_below(d, total), m = 0, made;
        while (x >= makers[m].weight) x -= makers[m++].weight;
        if (focus >= 0 && dice_chance(d, 40)) m = focus;
        made = k == region_at ? make_region(r) : makers[m].make(r);
        if (made >= 0) k++;
    }
    for (int k = 0; k < r->n_steps; k++)
        if (r->steps[k].kind == STEP_SCATTER ||
            (r->steps[k].kind >= STEP_SORT && r->steps[k].kind <= STEP_MEDIAN) ||
            (r->steps[k].kind == STEP_VAR && r->steps[k].op >= 2))
            r->is_cpu_only = 1;
    if (r->n_steps == 0) add_input(r, any_shape(r, STAX_F32, 1, 2), FILL_PLAIN);
    /* Outputs: what nothing uses, and some others. */
    int used[MAX_STEPS];
    memset(used, 0, sizeof used);
    for (int k = 0; k < r->n_steps; k++)
        for (int j = 0; j < r->steps[k].n; j++)
            if (r->steps[k].operand[j] >= 0) used[r->steps[k].operand[j]] = 1;
    for (int k = r->n_steps - 1; k >= 0 && r->n_outputs < MAX_OUTPUTS; k--) {
        if (!is_tensor(r, k)) continue;
        int source = r->steps[k].kind <= STEP_DATA;
        if ((!used[k] && (!source || dice_chance(d, 25))) || dice_chance(d, source ? 3 : 12))
            r->outputs[r->n_outputs++] = k;
    }
    if (r->n_outputs == 0)
        for (int k = r->n_steps - 1; k >= 0 && r->n_outputs == 0; k--)
            if (is_tensor(r, k)) r->outputs[r->n_outputs++] = k;
}

MAYBE_UNUSED static void recipe_make(recipe *r, uint64_t seed) { recipe_make_sized(r, seed, 0); }

/* Each elementwise op and cast on each dtype, on a table of specials (binary ops: on all pairs of
   them). False: there is no such number. */
enum {
    N_TABLE = 144,
    N_DTYPES = STAX_DTYPE_COUNT - 1,
    N_SPECIALS = (N_UNARY + N_BINARY + 2 * N_DTYPES) * N_DTYPES
};
MAYBE_UNUSED static int recipe_special(recipe *r, int number_of) {
    int op = number_of / N_DTYPES;
    stax_dtype dtype = (stax_dtype)(1 + number_of % N_DTYPES);
    memset(r, 0, sizeof *r);
    r->seed = UINT64_C(1000000000) + (uint64_t)number_of;
    r->n_extents = 1;
    step x = step_new(STEP_INPUT, -1, -1, -1), s;
    x.type = kind_scalar(dtype);
    x.fill = FILL_TABLE;
    x.type.rank = 1;
    x.type.dims[0] = number(N_TABLE);
    row_major(&x);
    int classes = op < N_UNARY              ? rule_classes(unary_rows[op].rule)
                  : op < N_UNARY + N_BINARY ? rule_classes(binary_rows[op - N_UNARY].rule)
                                            : ANY | F8S;
    if (!(class_of(dtype) & classes)) return 0;
    if (op < N_UNARY) {
        s = step_new(STEP_UNARY, add_step(r, &x), -1, -1);
        s.op = op;
    } else if (op < N_UNARY + N_BINARY) {
        step y = x;
        y.type.rank = 2;
        y.type.dims[1] = number(1);
        row_major(&y);
        int a = add_step(r, &x), b = add_step(r, &y);
        s = step_new(STEP_BINARY, a, b, -1);
        s.op = op - N_UNARY;
        s.type.rank = 2;
        s.type.dims[1] = number(N_TABLE);
    } else {
        op -= N_UNARY + N_BINARY;
        s = step_new(op < N_DTYPES ? STEP_CAST : STEP_BITCAST, add_step(r, &x), -1, -1);
        s.dtype = (stax_dtype)(1 + op % N_DTYPES);
        if (s.kind == STEP_BITCAST &&
            (bits_of(s.dtype) != bits_of(dtype) || (s.dtype == STAX_BOOL) != (dtype == STAX_BOOL)))
            return 0;
    }
    if (s.type.rank == 0) s.type.rank = 1;
    s.type.dims[0] = number(N_TABLE);
    s.type.dtype = s.kind == STEP_CAST || s.kind == STEP_BITCAST ? s.dtype : dtype;
    rule u = s.kind == STEP_UNARY    ? unary_rows[s.op].rule
             : s.kind == STEP_BINARY ? binary_rows[s.op].rule
                                     : RULE_SAME;
    if (u == RULE_FLOAT && !is_float(dtype)) s.type.dtype = STAX_F32;
    if (u == RULE_PREDICATE || u == RULE_COMPARE) s.type.dtype = STAX_BOOL;
    r->outputs[r->n_outputs++] = add_step(r, &s);
    return r->outputs[0] >= 0;
}

/* Drops the steps that no output and no assignment needs. */
MAYBE_UNUSED static void recipe_sweep(recipe *r) {
    int keep[MAX_STEPS], to[MAX_STEPS], n = 0;
    memset(keep, 0, sizeof keep);
    for (int k = 0; k < r->n_outputs; k++) keep[r->outputs[k]] = 1;
    for (int k = 0; k < r->n_steps; k++)
        if (r->steps[k].kind == STEP_ASSIGN || r->steps[k].kind == STEP_ASSIGN_SLICE ||
            (r->steps[k].kind == STEP_INPUT && r->steps[k].flag))
            keep[k] = 1;
    for (int k = r->n_steps - 1; k >= 0; k--)
        for (int j = 0; keep[k] && j < r->steps[k].n; j++)
            if (r->steps[k].operand[j] >= 0) keep[r->steps[k].operand[j]] = 1;
    for (int k = 0; k < r->n_steps; k++) {
        if (!keep[k]) continue;
        to[k] = n;
        step s = r->steps[k];
        for (int j = 0; j < s.n; j++)
            if (s.operand[j] >= 0) s.operand[j] = to[s.operand[j]];
        r->steps[n++] = s;
    }
    for (int k = 0; k < r->n_outputs; k++) r->outputs[k] = to[r->outputs[k]];
    r->n_steps = n;
}

/* Puts an input of the same type in the place of a step; false: it cannot be one. */
MAYBE_UNUSED static int recipe_cut(recipe *r, int k) {
    step *s = &r->steps[k];
    if (s->kind <= STEP_DATA || !is_tensor(r, k) || is_opaque(&s->type)) return 0;
    kind_of type = s->type;
    memset(s, 0, sizeof *s);
    s->kind = STEP_INPUT;
    s->type = type;
    s->seed = r->seed + (uint64_t)k;
    s->fill = FILL_PLAIN;
    row_major(s);
    return 1;
}

/* ---- building -----------------------------------------------------------------------------------
 */

static int64_t size_handle(const recipe *r, stax_graph *g, size_of s) {
    if (s.how <= 0) return s.n;
    const extent *e = &r->extents[s.how];
    if (e->kind == EXTENT_SYMBOL) {
        const symbol *y = &r->symbols[e->a.n];
        return stax_symbol(g, e->a.n ? "m" : "n", y->lo, y->hi);
    }
    int64_t a = size_handle(r, g, e->a), b = size_handle(r, g, e->b);
    return e->kind == EXTENT_ADD   ? stax_size_add(g, a, b)
           : e->kind == EXTENT_SUB ? stax_size_sub(g, a, b)
           : e->kind == EXTENT_MUL ? stax_size_mul(g, a, b)
                                   : stax_size_floordiv(g, a, b);
}

static stax_shape shape_of_list(const recipe *r, stax_graph *g, const size_of *list, int n) {
    stax_shape s;
    memset(&s, 0, sizeof s);
    s.rank = n;
    for (int k = 0; k < n; k++) s.dims[k] = size_handle(r, g, list[k]);
    return s;
}

static void strides_in_run(const recipe *r, const step *s, int run, int64_t *shape,
                           int64_t *strides) {
    int64_t stride = 1;
    for (int k = 0; k < s->type.rank; k++) shape[k] = size_in_run(r, s->type.dims[k], run);
    for (int k = 0; k < s->type.rank; k++) {
        int d = s->order[k], f = s->stretch[d];
        strides[d] = stride * f;
        if (f != 0) stride *= (shape[d] > 0 ? shape[d] : 1) * (f < 0 ? -f : f);
    }
}

static void fill_bytes(const recipe *r, const step *s, int run, uint64_t seed, void *to, int64_t n);

static stax_value build_region(stax_graph *g, const step *s, stax_value x, stax_value c) {
    stax_value results[2];
    if (s->kind == STEP_COND) {
        stax_graph *a = stax_region(g, "then"), *b = stax_region(g, "else");
        stax_output(a, "r", stax_neg(x));
        stax_output(b, "r", stax_add(x, x));
        return stax_cond(c, a, b, results, 1);
    }
    stax_graph *body = stax_region(g, "body");
    stax_shape shape = stax_shape0();
    if (s->kind == STEP_LOOP) {
        stax_input(body, "i", STAX_I64, stax_shape0());
        /* the carried value must have x's shape: only numbers here, else a scalar is carried */
        stax_value init = stax_sum(x, stax_axes_all(), false);
        stax_value v = stax_input(body, "v", s->type.dtype, shape);
        stax_output(body, "w", stax_add(stax_mul(v, stax_const(body, 0.5)), stax_const(body, 1.0)));
        stax_loop(c, &init, 1, body, results);
        return stax_add(x, results[0]);
    }
    stax_graph *test = stax_region(g, "test");
    stax_value init[2];
    init[0] = stax_sum(x, stax_axes_all(), false);
    init[1] = c;
    stax_input(test, "v", s->type.dtype, shape);
    stax_output(test, "t",
                stax_gt(stax_input(test, "k", STAX_I64, shape), stax_const_int(test, 0)));
    stax_value v = stax_input(body, "v", s->type.dtype, shape),
               k = stax_input(body, "k", STAX_I64, shape);
    stax_output(body, "w", stax_add(stax_mul(v, stax_const(body, 0.5)), stax_const(body, 1.0)));
    stax_output(body, "l", stax_sub(k, stax_const_int(body, 1)));
    stax_while(init, 2, test, body, results);
    return stax_add(x, results[0]);
}

static stax_value build_step(const recipe *r, stax_graph *g, int at, stax_value *values,
                             stax_value (*parts)[4]) {
    const step *s = &r->steps[at];
    stax_value x = s->operand[0] >= 0 && s->n > 0 ? values[s->operand[0]] : stax_none();
    stax_value y = s->operand[1] >= 0 && s->n > 1 ? values[s->operand[1]] : stax_none();
    stax_value z = s->operand[2] >= 0 && s->n > 2 ? values[s->operand[2]] : stax_none(), v,
               list[MAX_OPERANDS];
    stax_shape shape = shape_of_list(r, g, s->list[0], s->n_list),
               shape1 = shape_of_list(r, g, s->list[1], s->n_list);
    stax_shape shape2 = shape_of_list(r, g, s->list[2], s->n_list),
               type = shape_of_list(r, g, s->type.dims, s->type.rank);
    int64_t sizes[STAX_MAX_RANK], strides[STAX_MAX_RANK];
    char name[16];
    snprintf(name, sizeof name, "x%d", at);
    for (int k = 0; k < s->n && k < MAX_OPERANDS; k++)
        list[k] = s->operand[k] >= 0 ? values[s->operand[k]] : stax_none();
    switch (s->kind) {
        case STEP_INPUT:
            v = stax_input(g, name, s->type.dtype, type);
            if (s->layout == 1) stax_input_layout(v, STAX_STRIDED);
            if (s->layout == 2) {
                strides_in_run(r, s, 0, sizes, strides);
                for (int k = 0; k < type.rank; k++) type.dims[k] = strides[k];
                stax_input_strides(v, type);
            }
            return v;
        case STEP_PARAM:
            return stax_param(g, name, s->type.dtype, type);
        case STEP_STATE:
            return stax_state(g, name, s->type.dtype, type);
        case STEP_CONST:
            if (s->type.weak == 'f') return stax_const(g, s->value[0]);
            return s->type.weak == 'i' ? stax_const_int(g, s->number[0])
                                       : stax_const_bool(g, s->number[0] != 0);
        case STEP_DATA: {
            int64_t n = elements_of(&s->type);
            void *data = malloc((size_t)n * stax_dtype_bytes(s->type.dtype) + 1);
            fill_bytes(r, s, 0, s->seed, data, n);
            v = stax_const_data(g, s->type.dtype, type, data);
            free(data);
            return v;
        }
        case STEP_UNARY:
            return unary_rows[s->op].make(x);
        case STEP_BINARY:
            return binary_rows[s->op].make(x, y);
        case STEP_WHERE:
            return stax_where(x, y, z);
        case STEP_CLIP:
            return stax_clip(x, s->value[0], s->value[1]);
        case STEP_FMA:
            return stax_fma(x, y, z);
        case STEP_LERP:
            return stax_lerp(x, y, z);
        case STEP_CAST:
            return stax_cast(x, s->dtype);
        case STEP_BITCAST:
            return stax_bitcast(x, s->dtype);
        case STEP_RESHAPE:
            return stax_reshape(x, shape);
        case STEP_PERMUTE:
            return stax_permute(x, s->axes[0]);
        case STEP_TRANSPOSE:
            return stax_transpose(x);
        case STEP_EXPAND:
            return stax_expand(x, shape);
        case STEP_SQUEEZE:
            return stax_squeeze(x, s->axes[0]);
        case STEP_UNSQUEEZE:
            return stax_unsqueeze(x, s->axes[0]);
        case STEP_SLICE:
            return stax_slice(x, shape, shape1, shape2);
        case STEP_FLIP:
            return stax_flip(x, s->axes[0]);
        case STEP_ROLL:
            return stax_roll(x, shape, s->axes[0]);
        case STEP_PAD:
            return stax_pad(x, shape, shape1, s->value[0], s->text);
        case STEP_CONCAT:
            return stax_concat(list, s->n, s->axis);
        case STEP_STACK:
            return stax_stack(list, s->n, s->axis);
        case STEP_SPLIT:
            return stax_split(x, shape.dims, s->n_list, s->axis, parts[at]);
        case STEP_PART:
            return parts[s->operand[0]][s->op];
        case STEP_TILE:
            return stax_tile(x, shape);
        case STEP_UNFOLD:
            return stax_unfold(x, s->axis, s->number[0], s->number[1]);
        case STEP_IOTA:
            return stax_iota_as(g, shape, s->axis, s->dtype);
        case STEP_GATHER:
            return strcmp(s->text, "error") ? stax_gather_mode(x, y, s->axis, s->text)
                                            : stax_gather(x, y, s->axis);
        case STEP_TAKE:
            return stax_take_along_axis_mode(x, y, s->axis, s->text);
        case STEP_SCATTER:
            return stax_scatter(x, y, z, s->axis, s->text);
        case STEP_SCAN:
            if (s->dtype)
                return scan_rows[s->op].make_as(x, s->axis, s->flag & 1, s->flag >> 1 & 1, s->dtype);
            return scan_rows[s->op].make(x, s->axis, s->flag & 1, s->flag >> 1 & 1);
        case STEP_SORT:
            return s->op ? stax_argsort(x, s->axis, s->flag != 0)
                         : stax_sort(x, s->axis, s->flag != 0);
        case STEP_TOPK:
            return stax_topk(x, s->number[0], s->axis, s->flag != 0, parts[at]);
        case STEP_KTHVALUE:
            return stax_kthvalue(x, s->number[0], s->axis, s->flag != 0, parts[at]);
        case STEP_MEDIAN:
            return stax_median(x, s->axes[0], s->flag != 0);
        case STEP_SEARCH:
            return s->op ? stax_bucketize(y, x, s->flag != 0)
                         : stax_searchsorted(x, y, s->flag ? "right" : NULL);
        case STEP_REDUCE:
            if (s->dtype) return reduce_rows[s->op].make_as(x, s->axes[0], s->flag != 0, s->dtype);
            return reduce_rows[s->op].make(x, s->axes[0], s->flag != 0);
        case STEP_VAR:
            if (s->op == 4) return stax_mean_compensated(x, s->axes[0], s->flag != 0);
            if (s->op >= 2) {
                (void)stax_welford(x, s->axes[0], s->value[0], s->flag != 0, parts[at]);
                return parts[at][s->op - 2];
            }
            return s->op ? stax_std(x, s->axes[0], s->value[0], s->flag != 0)
                         : stax_var(x, s->axes[0], s->value[0], s->flag != 0);
        case STEP_ARG:
            return s->op ? stax_argmin(x, s->axis, s->flag != 0)
                         : stax_argmax(x, s->axis, s->flag != 0);
        case STEP_DOT:
            if (s->dtype)
                return stax_dot_as(x, y, s->axes[0], s->axes[1], s->axes[2], s->axes[3], s->dtype);
            return stax_dot(x, y, s->axes[0], s->axes[1], s->axes[2], s->axes[3]);
        case STEP_MATMUL:
            return s->dtype ? stax_matmul_as(x, y, s->dtype) : stax_matmul(x, y);
        case STEP_LINEAR:
            return s->dtype ? stax_linear_as(x, y, z, s->dtype) : stax_linear(x, y, z);
        case STEP_RANDOM_BITS:
            return stax_random_bits_as(x, shape, s->dtype);
        case STEP_UNIFORM:
            return stax_uniform_as(x, shape, s->value[0], s->value[1], s->dtype);
        case STEP_NORMAL:
            return stax_normal_as(x, shape, s->dtype);
        case STEP_SOFTMAX:
            return s->op ? stax_log_softmax(x, s->axis) : stax_softmax(x, s->axis);
        case STEP_LAYER_NORM:
            return stax_layer_norm(x, y, z, s->axes[0], s->value[0]);
        case STEP_RMS_NORM:
            return stax_rms_norm(x, y, s->axes[0], s->value[0]);
        case STEP_COMPOSITE:
            return build_composite(s, list, shape, shape1, shape2);
        case STEP_ASSIGN:
            stax_assign(x, y);
            return x;
        case STEP_ASSIGN_SLICE:
            stax_assign_slice(x, y, shape, shape1, shape2);
            return x;
        case STEP_COND:
        case STEP_LOOP:
        case STEP_WHILE:
            return build_region(g, s, x, y);
        default:
            return stax_none();
    }
}

/* The step at which the library refused goes to *refused (-1: none), if asked for. */
static stax_graph *recipe_build(const recipe *r, stax_context *ctx, int *refused) {
    stax_graph *g = stax_graph_new(ctx);
    stax_value values[MAX_STEPS], parts[MAX_STEPS][4];
    char name[32];
    if (refused) *refused = -1;
    if (!g) return NULL;
    memset(values, 0, sizeof values);
    memset(parts, 0, sizeof parts);
    snprintf(name, sizeof name, "g%llu", (unsigned long long)r->seed);
    stax_graph_name(g, name);
    if (r->is_unfused) stax_graph_option(g, "contraction", "unfused");
    for (int k = 0; k < r->n_steps; k++) {
        values[k] = build_step(r, g, k, values, parts);
        if (refused && *refused < 0 && !stax_ok(g)) *refused = k;
    }
    for (int k = 0; k < r->n_outputs; k++) {
        snprintf(name, sizeof name, "y%d", r->outputs[k]);
        stax_output(g, name, values[r->outputs[k]]);
    }
    return g;
}

/* ---- tensors ------------------------------------------------------------------------------------
 */

static uint64_t special_number(stax_dtype t, int k) {
    static const uint64_t f64s[] = {UINT64_C(0),
                                    UINT64_C(0x8000000000000000),
                                    UINT64_C(0x7ff0000000000000),
                                    UINT64_C(0xfff0000000000000),
                                    UINT64_C(0x7ff8000000000000),
                                    UINT64_C(0xfff8000000000123),
                                    UINT64_C(0x7ff0000000000001),
                                    UINT64_C(0x7ffdeadbeef00000),
                                    UINT64_C(1),
                                    UINT64_C(0x800fffffffffffff),
                                    UINT64_C(0x0010000000000000),
                                    UINT64_C(0x7fefffffffffffff),
                                    UINT64_C(0x3ff0000000000000),
                                    UINT64_C(0xbff0000000000000),
                                    UINT64_C(0x43e0000000000000),
                                    UINT64_C(0x4340000000000001)};
    static const uint32_t f32s[] = {
        0, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f800001, 0x7fabcdef,
        1, 0x807fffff, 0x00800000, 0x7f7fffff, 0x3f800000, 0xbf800000, 0x5f000000, 0x4b000001};
    static const uint16_t f16s[] = {0, 0x8000, 0x7c00, 0xfc00, 0x7e00, 0xfe12, 0x7c01, 0x7d55,
                                    1, 0x83ff, 0x0400, 0x7bff, 0x3c00, 0xbc00, 0x6400, 0x5001};
    static const uint16_t bf16s[] = {0, 0x8000, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x7f81, 0x7fab,
                                     1, 0x807f, 0x0080, 0x7f7f, 0x3f80, 0xbf80, 0x5f00, 0x4b01};
    int bits = bits_of(t);
    if (t == STAX_F64) return f64s[k];
    if (t == STAX_F32) return f32s[k];
    if (t == STAX_F16) return f16s[k];
    if (t == STAX_BF16) return bf16s[k];
    uint64_t top = UINT64_C(1) << (bits - 1);
    static const int64_t near[] = {0, 1, -1, 2, -2, 63, 64, 31};
    return k < 3 ? top : k < 6 ? top - 1 : k < 8 ? top + 1 : (uint64_t)near[k - 8];
}

static uint64_t special_bits(dice *d, stax_dtype t) { return special_number(t, dice_below(d, 16)); }

static uint64_t float_bits(double x, stax_dtype t) {
    uint64_t b;
    if (t == STAX_F64) return memcpy(&b, &x, 8), b;
    float f = (float)x;
    uint32_t u;
    memcpy(&u, &f, 4);
    if (t == STAX_F32) return u;
    if (t == STAX_BF16) return u >> 16;
    /* f16, toward zero: good enough for test data */
    uint32_t sign = u >> 16 & 0x8000, e = u >> 23 & 255, m = u >> 13 & 0x3ff;
    return e < 113 ? sign : e > 142 ? (sign | 0x7bff) : (sign | (e - 112) << 10 | m);
}

static uint64_t value_bits(dice *d, const step *s, int64_t limit) {
    stax_dtype t = s->type.dtype;
    uint64_t word = dice_next(d);
    if (t == STAX_BOOL) return word & 1;
    if (is_f8(t)) return word & 255;
    if (s->fill == FILL_INDEX) {
        int64_t lo = is_unsigned(t) ? 0 : -limit;
        return (uint64_t)(limit > 0 ? dice_between(d, lo, limit - 1) : 0);
    }
    if (s->fill == FILL_WILD_INDEX)
        return (uint64_t)(dice_chance(d, 85)
                              ? dice_between(d, is_unsigned(t) ? 0 : -2 * limit - 3, 2 * limit + 3)
                              : (int64_t)special_bits(d, t));
    if (s->fill == FILL_SHIFT) return (uint64_t)dice_below(d, 9);
    if (dice_chance(d, s->fill == FILL_SPECIAL ? 40 : s->fill == FILL_WIDE ? 2 : 0))
        return special_bits(d, t);
    if (is_float(t)) {
        double x = (dice_unit(d) - 0.5) * 8;
        if (s->fill == FILL_SMALL) x = (double)dice_between(d, -6, 6);
        if (s->fill == FILL_WIDE) {
            int e = (int)dice_between(d, -24, 24);
            for (; e > 0; e--) x *= 2;
            for (; e < 0; e++) x *= 0.5;
        }
        return float_bits(x, t);
    }
    if (s->fill == FILL_WIDE) return word;
    return (uint64_t)dice_between(d, is_unsigned(t) ? 0 : -10, 10);
}

/* Numbers where functions change their ways, then every special. */
static uint64_t table_bits(stax_dtype t, int64_t k) {
    static const double turns[] = {0.5,
                                   1,
                                   0.25,
                                   2,
                                   3,
                                   0.1,
                                   1e-3,
                                   1e-5,
                                   1e-8,
                                   1e-20,
                                   1e-30,
                                   1e-300,
                                   5,
                                   8,
                                   9.5,
                                   10,
                                   16.6,
                                   17.3,
                                   20,
                                   27,
                                   28,
                                   37.5,
                                   40,
                                   87,
                                   88,
                                   88.72,
                                   89,
                                   103,
                                   104,
                                   128,
                                   149,
                                   150,
                                   708,
                                   709.7,
                                   710,
                                   745,
                                   746,
                                   1023,
                                   1024,
                                   1074,
                                   1e4,
                                   65504,
                                   1e5,
                                   1e6,
                                   8388608,
                                   1e8,
                                   2147483648.0,
                                   4294967296.0,
                                   1e15,
                                   4503599627370496.0,
                                   9.3e18,
                                   1.9e19,
                                   1e22,
                                   1e30,
                                   1e38,
                                   1e300,
                                   0.7853981633974483,
                                   1.5707963267948966,
                                   3.141592653589793,
                                   0.99999994,
                                   1.0000001,
                                   1.5,
                                   2.5,
                                   0.70710678};
    enum { N = sizeof turns / sizeof turns[0] };
    k %= 2 * N + 16;
    if (k >= 2 * N) return special_number(t, (int)(k - 2 * N));
    double x = k & 1 ? -turns[k / 2] : turns[k / 2];
    if (is_float(t)) return float_bits(x, t);
    double most = (double)(UINT64_C(1) << (bits_of(t) - 1));
    if (is_unsigned(t))
        return x < 0 ? (uint64_t)0 - (uint64_t)(k / 2) : x >= most ? (uint64_t)k : (uint64_t)x;
    return x >= most || x < -most ? (uint64_t)k : (uint64_t)(int64_t)x;
}

static void fill_bytes(const recipe *r, const step *s, int run, uint64_t seed, void *to,
                       int64_t n) {
    size_t size = stax_dtype_bytes(s->type.dtype);
    int64_t limit =
        s->fill == FILL_INDEX || s->fill == FILL_WILD_INDEX ? size_in_run(r, s->limit, run) : 0;
    dice d;
    d.state = seed + (uint64_t)run * 77;
    for (int64_t k = 0; k < n; k++) {
        uint64_t bits = s->fill == FILL_TABLE && s->type.dtype != STAX_BOOL && !is_f8(s->type.dtype)
                            ? table_bits(s->type.dtype, k)
                            : value_bits(&d, s, limit);
        uint8_t b1 = (uint8_t)bits;
        uint16_t b2 = (uint16_t)bits;
        uint32_t b4 = (uint32_t)bits;
        const void *from = size == 1   ? (const void *)&b1
                           : size == 2 ? (const void *)&b2
                           : size == 4 ? (const void *)&b4
                                       : (const void *)&bits;
        memcpy((char *)to + (size_t)k * size, from, size);
    }
}

/* Memory between guard bytes, or, with `pages`, its end at a page that cannot be touched (its
   start, with `pages` 2): a read out of bounds, too, is then a crash. */
enum { GUARD_BYTES = 128, PAGE_BYTES = 4096 };
typedef struct block {
    unsigned char *raw, *data; /* data: aligned for its elements and no more            */
    size_t bytes, raw_bytes, mapped;
    unsigned char mark;
} block;

static int block_make(block *b, size_t bytes, size_t align, unsigned char mark, int pages) {
    memset(b, 0, sizeof *b);
    b->bytes = bytes;
    b->mark = mark;
#if !defined(_WIN32)
    if (pages) {
        b->raw_bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
        b->mapped = b->raw_bytes + 2 * PAGE_BYTES;
        unsigned char *m =
            (unsigned char *)mmap(NULL, b->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (m == (unsigned char *)MAP_FAILED) return 0;
        b->raw = m + PAGE_BYTES;
        if (b->raw_bytes && mprotect(b->raw, b->raw_bytes, PROT_READ | PROT_WRITE) != 0) return 0;
        b->data = b->raw + (pages == 2 ? 0 : (b->raw_bytes - bytes) / align * align);
        memset(b->raw, mark, b->raw_bytes);
        return 1;
    }
#endif
    b->raw_bytes = bytes + 2 * GUARD_BYTES + 64;
    b->raw = (unsigned char *)malloc(b->raw_bytes);
    if (!b->raw) return 0;
    memset(b->raw, mark, b->raw_bytes);
    uintptr_t at = ((uintptr_t)b->raw + GUARD_BYTES + 63) & ~(uintptr_t)63;
    b->data = (unsigned char *)at;
    /* element alignment only, unless more is asked for: a vector store must not need it */
    if (align < 64) b->data -= 64 - align;
    return 1;
}
static void block_free(block *b) {
#if !defined(_WIN32)
    if (b->mapped)
        munmap(b->raw - PAGE_BYTES, b->mapped);
    else
#endif
        free(b->raw);
    memset(b, 0, sizeof *b);
}
MAYBE_UNUSED static int block_is_whole(const block *b) {
    for (const unsigned char *p = b->raw; p < b->data; p++)
        if (*p != b->mark) return 0;
    for (const unsigned char *p = b->data + b->bytes; p < b->raw + b->raw_bytes; p++)
        if (*p != b->mark) return 0;
    return 1;
}

enum { MAX_TENSORS = MAX_STEPS };
typedef struct sample {
    int n_inputs, n_slots, n_outputs; /* n_inputs counts params, n_slots does not */
    stax_tensor inputs[MAX_TENSORS];  /* for stax_interpret */
    stax_tensor slots[MAX_TENSORS];   /* for stax_run */
    stax_tensor outputs[MAX_OUTPUTS];
    stax_input_kind kinds[MAX_TENSORS];
    const char *names[MAX_TENSORS]; /* of the graph */
    block in[MAX_TENSORS], out[MAX_OUTPUTS];
} sample;

/* Tensors for a call of this graph; false: a size has no value in this run. */
MAYBE_UNUSED static int sample_make(sample *s, const recipe *r, const stax_graph *g, int run, int pages) {
    int64_t symbols[MAX_SYMBOLS] = {-1, -1};
    memset(s, 0, sizeof *s);
    for (int k = 0; k < stax_graph_n_symbols(g) && k < MAX_SYMBOLS; k++) {
        stax_symbol_info y;
        stax_graph_symbol(g, k, &y);
        const symbol *from = &r->symbols[strcmp(y.name, "m") == 0];
        symbols[k] = run ? from->second : from->first;
    }
    for (int k = 0; k < r->n_steps; k++) {
        const step *p = &r->steps[k];
        if (p->kind > STEP_STATE) continue;
        stax_tensor t;
        stax_input_info info;
        int64_t low = 0, high = 0, n = 1;
        size_t size = stax_dtype_bytes(p->type.dtype);
        memset(&t, 0, sizeof t);
        t.dtype = p->type.dtype;
        t.rank = p->type.rank;
        strides_in_run(r, p, run, t.shape, t.strides);
        for (int d = 0; d < t.rank; d++) {
            int64_t reach = (t.shape[d] - 1) * t.strides[d];
            if (t.shape[d] == 0)
                n = 0;
            else if (reach < 0)
                low += reach;
            else
                high += reach;
        }
        n = n == 0 ? 0 : high - low + 1;
        block *b = &s->in[s->n_inputs];
        if (!block_make(b, (size_t)n * size, size, 0xa5, pages)) return 0;
        fill_bytes(r, p, run, p->seed, b->data, n);
        t.data = b->data + (size_t)(n ? -low : 0) * size;
        stax_graph_input(g, s->n_inputs, &info);
        s->names[s->n_inputs] = info.name;
        s->kinds[s->n_inputs] = info.kind;
        if (info.kind != STAX_KIND_PARAM) s->slots[s->n_slots++] = t;
        s->inputs[s->n_inputs++] = t;
    }
    s->n_outputs = stax_graph_n_outputs(g);
    for (int k = 0; k < s->n_outputs; k++) {
        stax_output_info info;
        stax_shape shape;
        stax_graph_output(g, k, &info);
        memset(&shape, 0, sizeof shape);
        shape.rank = info.shape.rank;
        int64_t n = 1;
        for (int d = 0; d < shape.rank; d++) {
            if (!stax_size_value(g, info.shape.dims[d], symbols, &shape.dims[d]) ||
                shape.dims[d] < 0)
                return 0;
            n *= shape.dims[d];
        }
        if (n > 4 * most_elements(r)) return 0; /* the second run may grow products of sizes */
        size_t size = stax_dtype_bytes(info.dtype);
        if (!block_make(&s->out[k], (size_t)n * size, size, 0x5a, pages)) return 0;
        memset(s->out[k].data, 0xcd, s->out[k].bytes);
        s->outputs[k] = stax_tensor_of(info.dtype, shape, s->out[k].data);
    }
    return 1;
}

MAYBE_UNUSED static void sample_free(sample *s) {
    for (int k = 0; k < MAX_TENSORS; k++) block_free(&s->in[k]);
    for (int k = 0; k < MAX_OUTPUTS; k++) block_free(&s->out[k]);
    memset(s, 0, sizeof *s);
}

/* What this file says of a result against what the library infers; false: they differ. */
MAYBE_UNUSED static int recipe_types_agree(const recipe *r, const stax_graph *g) {
    for (int k = 0; k < r->n_outputs; k++) {
        stax_output_info info;
        const kind_of *t = type_at(r, r->outputs[k]);
        if (!stax_graph_output(g, k, &info)) return 0;
        if (info.dtype != t->dtype || info.shape.rank != t->rank) return 0;
        for (int d = 0; d < t->rank; d++)
            if (t->dims[d].how == 0 && info.shape.dims[d] != t->dims[d].n) return 0;
    }
    return 1;
}

#endif
