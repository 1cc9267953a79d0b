/* training.c - one training step (Example 5.1) beside what it cannot do without.
       make bench-training
   h = x W, y = gelu(h), loss = sum(y), both gradients; x: f32[4096,1024], W: f32[1024,1024]. In
   turn with it: its three products alone, each a program of its own, and a kernel that moves what
   lies between them, h read and the cotangent of h written. Medians of 9 turns and their ratio; the
   bar is 1.15. Then the step's kernels by themselves, and its workspace. THREADS=N: threads of a
   call. */
#define _POSIX_C_SOURCE 200809L
#include "stax.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 4096, WIDE = 1024, TURNS = 9, PARTS = 5 };
#define X "x: f32[4096,1024]"
#define W "w: f32[1024,1024]"
#define G "g: f32[4096,1024]"

typedef struct part {
    const char *name, *text, *wrt[2];
    stax_program *program;
    stax_tensor in[3], out[3];
    double ms[TURNS], median;
} part;

/* clang-format off */
static part parts[PARTS] = {
    {.name = "step",   .text = "graph step(" X ", " W ") { h = matmul x, w; y = gelu h; loss = sum y; return loss }", .wrt = {"x", "w"}},
    {.name = "x W",    .text = "graph a(" X ", " W ") { h = matmul x, w; return h }"},
    {.name = "G W^T",  .text = "graph b(" G ", " W ") { d = dot g, w {lhs_contract=[1], rhs_contract=[1]}; return d }"},
    {.name = "x^T G",  .text = "graph c(" X ", " G ") { d = dot x, g {lhs_contract=[0], rhs_contract=[0]}; return d }"},
    {.name = "h to G", .text = "graph d(" X ") { g = neg x; return g }"},
};
/* clang-format on */

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static stax_tensor tensor(stax_shape shape, unsigned seed) {
    size_t n = 1;
    for (int k = 0; k < shape.rank; k++) n *= (size_t)shape.dims[k];
    float *data = (float *)malloc(n * sizeof *data);
    for (size_t k = 0; data && k < n; k++) {
        seed = seed * 1664525u + 1013904223u;
        data[k] = (float)(seed >> 8) / 16777216.0f - 0.5f;
    }
    return stax_tensor_of(STAX_F32, shape, data);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The compiled program of a part and its tensors; 0: the message is on the context. */
static int prepare(stax_context *ctx, part *p) {
    stax_graph *g = stax_parse(ctx, p->name, p->text);
    stax_input_info in;
    stax_output_info out;
    if (!g || !stax_ok(g)) return 0;
    if (p->wrt[0]) {
        stax_value wrt[2], grads[2];
        for (int k = 0; k < 2; k++) wrt[k] = stax_graph_value(g, p->wrt[k]);
        if (stax_grad(stax_graph_value(g, "loss"), wrt, 2, grads) != STAX_OK) return 0;
        stax_output(g, "dx", grads[0]);
        stax_output(g, "dw", grads[1]);
    }
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.strict = true;
    p->program = stax_compile(g, &o);
    for (int k = 0; stax_graph_input(g, k, &in); k++) {
        p->in[k] = tensor(in.shape, (unsigned)k + 1);
        if (!p->in[k].data) return 0;
    }
    for (int k = 0; stax_graph_output(g, k, &out); k++) {
        p->out[k] = tensor(out.shape, 9);
        if (!p->out[k].data) return 0;
    }
    stax_graph_free(g);
    return p->program && stax_program_status(p->program) == STAX_OK;
}

int main(void) {
    stax_options o = stax_options_default();
    const char *threads = getenv("THREADS");
    o.n_threads = threads && *threads ? atoi(threads) : 1;
    stax_context *ctx = stax_open(&o);
    int ok = ctx != NULL;
    for (int k = 0; k < PARTS && ok; k++) ok = prepare(ctx, &parts[k]);
    for (int turn = -1; turn < TURNS && ok; turn++)
        for (int k = 0; k < PARTS && ok; k++) {
            part *p = &parts[k];
            double start = seconds();
            ok = stax_run(p->program, p->in, p->out) == STAX_OK;
            if (turn >= 0) p->ms[turn] = 1e3 * (seconds() - start);
        }
    if (!ok) {
        fprintf(stderr, "training: %s\n", ctx ? stax_error(ctx) : "no memory");
        stax_close(ctx);
        return 1;
    }
    double bound = 0, flops = 2.0 * ROWS * WIDE * WIDE, ratios[TURNS];
    for (int turn = 0; turn < TURNS; turn++) {
        double sum = 0;
        for (int k = 1; k < PARTS; k++) sum += parts[k].ms[turn];
        ratios[turn] = parts[0].ms[turn] / sum;
    }
    qsort(ratios, TURNS, sizeof *ratios, by_value);
    for (int k = 0; k < PARTS; k++) {
        part *p = &parts[k];
        qsort(p->ms, TURNS, sizeof *p->ms, by_value);
        p->median = p->ms[TURNS / 2];
        bound += k ? p->median : 0;
        printf("%-8s %8.2f ms (%.2f .. %.2f)", p->name, p->median, p->ms[1], p->ms[TURNS - 2]);
        if (k < PARTS - 1) printf("  %6.1f GFLOP/s", (k ? 1 : 3) * flops / p->median / 1e6);
        if (k == PARTS - 1) printf("  %6.1f GB/s", 8.0 * ROWS * WIDE / p->median / 1e6);
        printf("\n");
    }
    printf(
        "ratio    %8.3f of the medians, %.3f median of the turns (%.3f .. %.3f); bar 1.15; %d "
        "thread%s\n",
        parts[0].median / bound, ratios[TURNS / 2], ratios[1], ratios[TURNS - 2], o.n_threads,
        o.n_threads == 1 ? "" : "s");
    printf("workspace %.1f MB; h and its cotangent are %.1f MB each\n",
           (double)stax_workspace_bytes(parts[0].program, parts[0].in) / 1e6,
           4.0 * ROWS * WIDE / 1e6);
    char *text = stax_program_report(parts[0].program, STAX_REPORT_EXPLAIN);
    for (char *at = text; at && *at; at = strchr(at, '\n') + 1) /* what each kernel is */
        if (strncmp(at, "kernel", 6) == 0 || strncmp(at, "kept", 4) == 0 ||
            strncmp(at, "recomputed", 10) == 0)
            printf("%.*s\n", (int)strcspn(at, "\n"), at);
    stax_free(ctx, text);
    for (int k = 0; k < PARTS; k++) {
        stax_program_free(parts[k].program);
        for (int i = 0; i < 3; i++) {
            free(parts[k].in[i].data);
            free(parts[k].out[i].data);
        }
    }
    stax_close(ctx);
    return 0;
}
