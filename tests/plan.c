/* The memory plan: orders of kernels against all orders there are, trees against Sethi and Ullman's
   numbers, exercises 18 and 20, and for any graph: what is alive at the same time lies apart. */
#if !defined(_WIN32)
#define _GNU_SOURCE
#include <sys/mman.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAX_STATIC
#define STAX_IMPLEMENTATION
#include "../stax.h"

#include "feed.h"
#include "graphs.h"
#include "harness.h"

static stax_context *ctx;

/* ---- kernels and buffers without a graph -----------------------------------------------------
   Kernel k makes buffer k of so many bytes and reads those of the kernels it waits for. */

enum { MOST = 16, BEST = STAXI_PLAN_GIVEN - 1 };
typedef struct sketch {
    int n; /* kernels 1 .. n */
    uint8_t reads[MOST + 1][MOST + 1];
    double bytes[MOST + 1];
    staxi_stages p;
    staxi_schedule s;
    staxi_planner q;
    staxi_kernel kernels[MOST + 2];
    staxi_buffer buffers[MOST + 2];
    uint8_t modes[2];
    staxi_pairs pairs[3];
} sketch;

static int sketch_begin(sketch *k) {
    k->p.a = staxi_allocator_of(ctx);
    staxi_arena_init(&k->p.arena, k->p.a);
    k->p.buffers = k->buffers;
    k->p.n_buffers = (uint32_t)k->n + 1;
    k->s.p = &k->p;
    k->s.kernels = k->kernels;
    k->s.n_kernels = (size_t)k->n + 1;
    k->modes[0] = STAXI_MODE_MAP;
    k->s.mode = k->modes;
    staxi_planner *q = &k->q;
    q->s = &k->s;
    q->p = &k->p;
    q->n = (uint32_t)k->n + 1;
    int ok = 1;
    for (uint32_t a = 1; a < q->n; a++) {
        ok &= staxi_pairs_add(q, &k->pairs[2], a, a);
        for (uint32_t b = 1; b < q->n; b++)
            if (k->reads[a][b])
                ok &= staxi_pairs_add(q, &k->pairs[0], a, b) &&
                      staxi_pairs_add(q, &k->pairs[1], b, a) &&
                      staxi_pairs_add(q, &k->pairs[2], a, b);
    }
    ok &= staxi_plan_room(q) && staxi_pairs_group(q, &k->pairs[0], &q->first_before, &q->before) &&
          staxi_pairs_group(q, &k->pairs[1], &q->first_after, &q->after) &&
          staxi_pairs_group(q, &k->pairs[2], &q->first_touch, &q->touch);
    for (uint32_t t = 0; ok && t < q->first_touch[q->n]; t++) q->touches[q->touch[t]]++;
    for (int b = 1; ok && b <= k->n; b++) q->bytes[b] = k->bytes[b];
    return CHECK(ok);
}

static void sketch_end(sketch *k) {
    for (int i = 0; i < 3; i++)
        staxi_free(k->p.a, k->pairs[i].at, k->pairs[i].cap * sizeof *k->pairs[i].at);
    staxi_arena_free(&k->p.arena);
}

/* The least peak of all orders, by trying them all. */
static double all_orders(const sketch *k, uint32_t done, double alive, double peak, double best) {
    if (peak >= best) return best;
    if (done == (1u << k->n) - 1) return peak;
    for (int a = 1; a <= k->n; a++) {
        int ready = !(done >> (a - 1) & 1);
        for (int b = 1; ready && b <= k->n; b++)
            if (k->reads[a][b] && !(done >> (b - 1) & 1)) ready = 0;
        if (!ready) continue;
        uint32_t now = done | 1u << (a - 1);
        double most = alive + k->bytes[a], left = most;
        for (int b = 1; b <= k->n; b++) { /* whose last reader this is */
            int reads = b == a || k->reads[a][b], later = 0;
            for (int c = 1; c <= k->n; c++) later |= k->reads[c][b] && !(now >> (c - 1) & 1);
            if (reads && !later) left -= k->bytes[b];
        }
        best = all_orders(k, now, left, most > peak ? most : peak, best);
    }
    return best;
}

/* Every rule gives an order that keeps what waits for what; gives the peak of rule r. */
static double peak_by(sketch *k, int r) {
    CHECK(staxi_plan_rules[r].make(&k->q));
    uint32_t done = 0;
    for (int i = 0; i < k->n; i++) {
        uint32_t a = k->q.order[i];
        CHECK(!(done >> (a - 1) & 1));
        for (int b = 1; b <= k->n; b++)
            if (k->reads[a][b]) CHECK(done >> (b - 1) & 1);
        done |= 1u << (a - 1);
    }
    return staxi_plan_peak(&k->q);
}

static void orders(void) {
    int better[STAXI_PLAN_RULES] = {0}, best = 0, total = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        dice d;
        static sketch k;
        memset(&k, 0, sizeof k);
        d.state = seed * 0x9e3779b97f4a7c15u;
        k.n = 1 + (int)dice_below(&d, 8);
        for (int a = 1; a <= k.n; a++) {
            k.bytes[a] = (double)dice_below(&d, 6) * 64;
            for (int b = 1; b < a; b++) k.reads[a][b] = dice_chance(&d, 35);
        }
        if (!sketch_begin(&k)) return;
        double least = all_orders(&k, 0, 0, -1, 1e18), peaks[STAXI_PLAN_RULES], tried = 1e18;
        for (int r = 0; r <= BEST; r++) {
            peaks[r] = peak_by(&k, r);
            CHECK(peaks[r] >= least);
            if (r < BEST && peaks[r] < tried) tried = peaks[r];
        }
        CHECK(peaks[BEST] == least);
        for (int r = 1; r < BEST; r++) better[r] += peaks[r] < peaks[0];
        best += least < tried;
        total++;
        sketch_end(&k);
    }
    printf(
        "of %d graphs, below the built order: least first %d, breadth first %d, depth first %d; "
        "only the best of all is least: %d\n",
        total, better[1], better[2], better[3], best);
    CHECK(better[1] > 0 && better[3] > 0);
}

/* Exercise 48: on a tree of equal results the least peak is a number of Sethi and Ullman's kind: a
   node's children in falling order of their numbers, each waiting for what the ones before left. */
static int tree_number(const sketch *k, int v) {
    int numbers[MOST], n = 0, need = 0;
    for (int b = 1; b < v; b++)
        if (k->reads[v][b]) numbers[n++] = tree_number(k, b);
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++)
            if (numbers[j] > numbers[i]) {
                int swap = numbers[i];
                numbers[i] = numbers[j];
                numbers[j] = swap;
            }
    for (int i = 0; i < n; i++)
        if (numbers[i] + i > need) need = numbers[i] + i;
    return need > n + 1 ? need : n + 1;
}

static void trees(void) {
    for (uint64_t seed = 1; seed <= 60; seed++) {
        dice d;
        static sketch k;
        memset(&k, 0, sizeof k);
        d.state = seed * 0x9e3779b97f4a7c15u;
        k.n = 2 + (int)dice_below(&d, STAXI_PLAN_EXACT - 1);
        for (int b = 1; b <= k.n; b++) {
            k.bytes[b] = 64;
            if (b < k.n) k.reads[b + 1 + (int)dice_below(&d, k.n - b)][b] = 1;
        }
        if (!sketch_begin(&k)) return;
        CHECK_INT((int64_t)peak_by(&k, BEST) / 64, tree_number(&k, k.n));
        sketch_end(&k);
    }
}

/* a -> c, b -> d, results of 4 and 1; c and d stay: kernel 5 keeps them. */
static void exercise_20(void) {
    static sketch k;
    static const double sizes[] = {0, 4, 4, 1, 1, 0};
    memset(&k, 0, sizeof k);
    k.n = 5;
    memcpy(k.bytes, sizes, sizeof sizes);
    k.reads[3][1] = k.reads[4][2] = k.reads[5][3] = k.reads[5][4] = 1;
    if (!sketch_begin(&k)) return;
    CHECK(peak_by(&k, BEST) == 6);
    CHECK(peak_by(&k, 0) == 9); /* a, b, c, d */
    CHECK(peak_by(&k, 3) == 6); /* depth first */
    sketch_end(&k);
}

/* ---- whole graphs ---------------------------------------------------------------------------- */

typedef struct placement {
    double at, bytes;
    uint32_t first, last;
} placement;

/* Packed operands lie behind everything else, all in one place. */
static int is_pack(const stax_program *p, uint32_t buffer) {
    for (uint32_t k = 1; k < p->stages.n_stages; k++)
        if (p->stages.stages[k].tiled &&
            (p->stages.stages[k].packs[0] == buffer || p->stages.stages[k].packs[1] == buffer))
            return 1;
    return 0;
}

/* Do buffers that are alive together lie apart, and within the workspace, for sizes of `guess`? */
static int plan_is_sound(const stax_program *p, int64_t guess, double *most) {
    int64_t sizes[64];
    staxi_sizer z;
    z.p = p;
    z.sizes = sizes;
    if (p->stages.n_sizes > 64) return 1;
    for (size_t k = 0; k < p->stages.n_sizes; k++) {
        int64_t lo = 1, hi = INT64_MAX;
        if (k < p->basis->n_symbols) {
            lo = p->basis->symbols[k].lo;
            hi = p->basis->symbols[k].hi;
        }
        sizes[k] = guess < lo ? lo : guess > hi ? hi : guess;
    }
    double all = staxi_sizer_value(&z, p->schedule.shared_bytes[1]), *alive;
    int good = 1;
    alive = (double *)calloc(p->trees.n_kernels + 2, sizeof *alive);
    for (uint32_t a = 1; a < p->stages.n_buffers; a++) {
        const staxi_buffer *x = &p->stages.buffers[a];
        double at, bytes;
        if (x->scope != STAXI_SCOPE_ROOT || !x->first_use) continue;
        at = staxi_sizer_value(&z, x->offset);
        bytes = staxi_sizer_value(&z, x->bytes);
        good &= at >= 0 && at + bytes <= all;
        for (uint32_t o = x->first_use + (x->host != 0);
             alive && !is_pack(p, a) && o <= x->last_use; o++)
            alive[o] += bytes;
        for (uint32_t b = a + 1; b < p->stages.n_buffers; b++) {
            const staxi_buffer *y = &p->stages.buffers[b];
            if (y->scope != STAXI_SCOPE_ROOT || !y->first_use) continue;
            double from = staxi_sizer_value(&z, y->offset),
                   to = from + staxi_sizer_value(&z, y->bytes);
            if (at + bytes <= from || to <= at || x->last_use < y->first_use ||
                y->last_use < x->first_use)
                continue;
            /* one took over from the other in the only kernel that both know */
            int handed = at == from && bytes == to - from &&
                         ((y->host && x->last_use == y->first_use) ||
                          (x->host && y->last_use == x->first_use));
            good &= handed;
        }
    }
    for (uint32_t o = 1; alive && most && o <= p->trees.n_kernels; o++)
        if (alive[o] > *most) *most = alive[o];
    free(alive);
    return good;
}

/* How far above the lower bound: workspace / alive, 0 where there is none. */
static double check_plan(const stax_graph *g, const char *where, int *taken_over) {
    staxi_text why;
    double most = 0, ratio = 0;
    staxi_text_init(&why, staxi_allocator_of(ctx));
    stax_program *p = staxi_program_new(g, STAX_BACKEND_STAX);
    if (p && !staxi_has_regions(p->basis) && staxi_program_plan(p, &why) == STAX_OK) {
        int good = plan_is_sound(p, 1, NULL) && plan_is_sound(p, 0, NULL) &&
                   plan_is_sound(p, 7, NULL) && plan_is_sound(p, 100, &most) &&
                   plan_is_sound(p, 1003, NULL);
        if (!CHECK(good)) printf("%s\n", where);
        for (uint32_t b = 1; b < p->stages.n_buffers; b++)
            *taken_over += p->stages.buffers[b].host != 0;
        if (most > 0 && p->basis->n_symbols == 0) {
            int64_t bytes = 0;
            CHECK(staxi_ix_is_const(&p->stages.ix, p->schedule.workspace, &bytes));
            ratio = (double)bytes / most;
            CHECK(ratio >= 1);
        }
    }
    stax_program_free(p);
    staxi_text_free(&why);
    return ratio;
}

static void any_graph(void) {
    int n = 0, above = 0, taken_over = 0;
    double worst = 1, ratio;
    for (int k = 0; k < FEED_GRAPHS; k++) {
        stax_graph *g = stax_parse(ctx, "feed", feed_graphs[k]);
        if (CHECK(g != NULL)) check_plan(g, feed_graphs[k], &taken_over);
        stax_graph_free(g);
    }
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        static recipe r;
        char where[40];
        recipe_make_sized(&r, seed, seed % 3 == 0);
        stax_graph *g = recipe_build(&r, ctx, NULL);
        snprintf(where, sizeof where, "seed %d", (int)seed);
        if (g && stax_ok(g)) {
            ratio = check_plan(g, where, &taken_over);
            n += ratio > 0;
            above += ratio > 1;
            if (ratio > worst) worst = ratio;
        }
        stax_graph_free(g);
    }
    printf(
        "%d plans of known sizes, %d above what is alive at a time, at worst by %.3f; %d results "
        "in "
        "the place of an operand\n",
        n, above, worst, taken_over);
    CHECK(n > 200 && taken_over > 10);
}

/* Exercise 18: of equal buffers no more places are used than are alive at a time. */
/* What is computed element for element lies in memory as it is read, where all agree and nothing is
   lost; contractions in tiles too. */
static void layouts(void) {
    static const struct {
        const char *text, *laid; /* NULL: row-major, all of it */
    } cases[] = {
        {"graph g(x: f32[96,64]) {\nt = transpose x\nv = erfc t\nb = transpose v\n"
         "c = cumsum b {axis=1}\nd = cumprod b {axis=1}\nreturn c, d\n}\n",
         "axes lie in the order 1, 0"},
        {"graph g(x: f32[5,1,70,33], y: f32[33]) {\np = permute x {axes=[3,0,1,2]}\n"
         "q = reshape y {shape=[33,1,1,1]}\ns = mul p, q\nv = erfc s\n"
         "b = permute v {axes=[1,2,3,0]}\nc = cumsum b {axis=3}\nd = sort b {axis=3}\n"
         "return c, d\n}\n",
         "axes lie in the order 2, 1, 3, 0"},
        {"graph g(x: f32[80,64], w: f32[80,48]) {\n"
         "a = dot x, w {lhs_contract=[0], rhs_contract=[0]}\nb = transpose a\n"
         "c = cumsum b {axis=1}\nreturn c\n}\n",
         "axes lie in the order 1, 0"},
        /* its readers disagree */
        {"graph g(x: f32[96,64]) {\nt = transpose x\nv = erfc t\nb = transpose v\n"
         "c = cumsum b {axis=1}\nd = cumprod v {axis=1}\nreturn c, d\n}\n",
         NULL},
        /* x lies along the other axis */
        {"graph g(x: f32[64,96]) {\nv = erfc x\nb = transpose v\n"
         "c = cumsum b {axis=1}\nd = cumprod b {axis=1}\nreturn c, d\n}\n",
         NULL},
        /* a reduction takes columns as well as rows */
        {"graph g(x: f32[96,64]) {\nt = transpose x\nv = erfc t\nb = transpose v\n"
         "c = cumsum b {axis=1}\nd = sum b {axes=[1]}\nreturn c, d\n}\n",
         NULL},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        staxi_text why;
        staxi_text_init(&why, staxi_allocator_of(ctx));
        stax_graph *g = stax_parse(ctx, "layouts", cases[k].text);
        stax_program *p = g ? staxi_program_new(g, STAX_BACKEND_STAX) : NULL;
        if (CHECK(p && staxi_program_plan(p, &why) == STAX_OK)) {
            staxi_report_plan(p, &why);
            const char *said = strstr(why.data, "axes lie in the order");
            if (!CHECK((said != NULL) == (cases[k].laid != NULL)) ||
                (said && !CHECK(strncmp(said, cases[k].laid, strlen(cases[k].laid)) == 0)))
                printf("%s%s", cases[k].text, why.data);
        }
        staxi_text_free(&why);
        stax_program_free(p);
        stax_graph_free(g);
    }
}

static void exercise_18(void) {
    for (int depth = 2; depth <= 9; depth++) {
        char text[2000] = "graph g(x: f32[16,16], y: f32[16,16]) {\n  v0 = matmul x, y\n";
        size_t at = strlen(text);
        int taken = 0;
        for (int k = 1; k <= depth; k++)
            at += (size_t)snprintf(text + at, sizeof text - at, "  v%d = matmul v%d, %s\n", k,
                                   k / 2, k % 3 ? "y" : "x");
        at += (size_t)snprintf(text + at, sizeof text - at, "  s%d = add v%d, v0\n", depth, depth);
        for (int k = depth - 1; k >= 0; k--)
            at += (size_t)snprintf(text + at, sizeof text - at, "  s%d = matmul s%d, v%d\n", k,
                                   k + 1, k);
        snprintf(text + at, sizeof text - at, "  return s0\n}\n");
        stax_graph *g = stax_parse(ctx, "equal.stax", text);
        if (!CHECK(g != NULL)) printf("%s\n", stax_error(ctx));
        if (g) CHECK(check_plan(g, text, &taken) == 1.0);
        stax_graph_free(g);
    }
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    ctx = stax_open(NULL);
    RUN(orders);
    RUN(trees);
    RUN(exercise_20);
    RUN(exercise_18);
    RUN(any_graph);
    RUN(layouts);
    stax_close(ctx);
    return HARNESS_END();
}
