/* seed_ratio.c - times Stax beside hand-written kernels, in one process, alternating.
       cc -O2 -I. tools/bench/seed_ratio.c -o seed_ratio -lm -ldl -lpthread
       ./seed_ratio libseed.so
   libseed.so: the hand-written kernels of a seed.c built as a shared library (void f(float **b, long R, long C)).
   Prints the median of the paired ratios ours/theirs over 31 pairs, with ranks 10 and 22 as interval,
   and the A/A ratio (theirs/theirs) of the same procedure. */
#define STAX_IMPLEMENTATION
#include "stax.h"

typedef void (*hand_kernel)(float **b, long rows, long columns);

enum { PAIRS = 31 };

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double now_ms(void) { return (double)staxi_clock_ns() / 1e6; }

typedef struct work {
    const char *name, *text, *hand;
    long rows, columns;
    int n_in, n_out;
    int out_rank[2];
} work;

static const work works[] = {
    {"(relu(x+w)*2).sum(-1)", "graph g(x: f32[8192,2048], w: f32[8192,2048]) { a = add x, w; b = relu a; c = mul b, 2.0; y = sum c {axes=[-1]}; return y }",
     "f_relusum", 8192, 2048, 2, 1, {1, 0}},
    {"exp", "graph g(x: f32[8192,2048]) { y = exp x; return y }", "o_exp", 8192, 2048, 1, 1, {2, 0}},
    {"exp -> sum, amax", "graph g(x: f32[8192,2048]) { e = exp x; s = sum e {axes=[-1]}; m = max e {axes=[-1]}; return s, m }", "p_expsummax", 8192,
     2048, 1, 2, {1, 1}},
    {"x / x.sum(-1)", "graph g(x: f32[8192,2048]) { s = sum x {axes=[-1], keepdims=true}; y = div x, s; return y }", "q_norm", 8192, 2048, 1, 1, {2, 0}},
{"softmax", "graph g(x: f32[16384,1000]) { y = softmax x; return y }", "q_softmax", 16384, 1000, 1, 1, {2, 0}},
    {"row sum", "graph g(x: f32[8192,2048]) { y = sum x {axes=[-1]}; return y }", "n_sum", 8192, 2048, 1, 1, {1, 0}},
    {"x + 1", "graph g(x: f32[8192,2048]) { y = add x, 1.0; return y }", "o_add1", 8192, 2048, 1, 1, {2, 0}},
};

static void ratio(const char *label, double *r) {
    qsort(r, PAIRS, sizeof *r, compare);
    printf("  %-10s %.3f  (%.3f .. %.3f)\n", label, r[PAIRS / 2], r[9], r[21]);
}

int main(int argc, char **argv) {
    void *lib = argc > 1 ? staxi_dl_open(argv[1], NULL) : NULL;
    if (!lib) {
        fprintf(stderr, "usage: seed_ratio libseed.so [threads]\n");
        return 2;
    }
    stax_options o = stax_options_default();
    o.strict = true;
    o.n_threads = argc > 2 ? atoi(argv[2]) : 1;
    stax_context *ctx = stax_open(&o);
    size_t n = (size_t)8192 * 2048 + 65536;
    float *b[9];
    for (int k = 0; k < 9; k++) {
        b[k] = (float *)staxi_pages_get((n + 8192) * sizeof(float));
        b[k] += k * 336;
        for (size_t i = 0; i < n; i++) b[k][i] = (float)((i * 2654435761u >> 8) % 4001) / 1000.0f - 2.0f;
    }
    for (size_t k = 0; k < sizeof works / sizeof works[0]; k++) {
        const work *w = &works[k];
        stax_graph *g = stax_parse(ctx, "bench", w->text);
        stax_program *p = g ? stax_compile(g, NULL) : NULL;
        hand_kernel hand = NULL;
        void *symbol = staxi_dl_symbol(lib, w->hand);
        memcpy(&hand, &symbol, sizeof hand);
        if (!p || !hand) {
            fprintf(stderr, "%s: %s\n", w->name, stax_error(ctx));
            return 1;
        }
        stax_tensor in[2], out[2];
        for (int i = 0; i < w->n_in; i++) in[i] = stax_tensor_of(STAX_F32, stax_shape2(w->rows, w->columns), b[i]);
        for (int i = 0; i < w->n_out; i++)
            out[i] = w->out_rank[i] == 1 ? stax_tensor_of(STAX_F32, stax_shape1(w->rows), b[5 + i])
                                         : stax_tensor_of(STAX_F32, stax_shape2(w->rows, w->columns), b[2]);
        double r[PAIRS], aa[PAIRS], ours = 0, theirs = 0;
        for (int i = -3; i < PAIRS; i++) {
            double t0 = now_ms();
            stax_run(p, in, out);
            double t1 = now_ms();
            hand(b, w->rows, w->columns);
            double t2 = now_ms();
            hand(b, w->rows, w->columns);
            double t3 = now_ms();
            if (i < 0) continue;
            r[i] = (t1 - t0) / (t2 - t1);
            aa[i] = (t3 - t2) / (t2 - t1);
            if (i == 0 || t1 - t0 < ours) ours = t1 - t0;
            if (i == 0 || t2 - t1 < theirs) theirs = t2 - t1;
        }
        stax_figures f;
        stax_program_figures(p, in, &f);
        printf("%s  %ldx%ld  ours %.2f ms, %s %.2f ms (minima); %d kernel(s), bytes/bound %.2f\n", w->name, w->rows, w->columns, ours, w->hand,
               theirs, f.kernels, f.bytes / f.bound_bytes);
        ratio("ours/hand", r);
        ratio("A/A", aa);
        stax_program_free(p);
        stax_graph_free(g);
    }
    stax_close(ctx);
    return 0;
}
