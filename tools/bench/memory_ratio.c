/* memory_ratio.c - the memory-bound rows: compiled programs beside kernels written by hand, in one
   process, in turn.

       make bench-memory [THREADS=N] [ROWS=WORD]
       build/bench/memory_ratio hand.so THREADS [libseed.so [WORD]]

   hand.so: hand.c, which gives the same bits: checked here, then timed. libseed.so: kernels without
   Stax's order and functions, see the Makefile; the variant for each row is fixed in the table below.
   WORD: only rows whose name has it. For each row the medians of 31 paired ratios of times, with ranks
   10 and 22 as interval (97 %), ours/hand, ours/free and, as a check of the procedure, hand/hand (A/A).
   All sides run in the same threads. Exit status 1: a row did not run or its bits differ. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "stax.h"

typedef void (*hand_kernel)(float **b, long rows, long columns);

enum { PAIRS = 31, WARM = 3, SIDES = 4, OURS = 0, HAND = 1, AGAIN = 2, FREE = 3 };

typedef struct work {
    const char *name, *text, *hand, *free; /* free: a "h:" before it is in hand.so; NULL: none       */
    int rows, columns;
    int in[4], out[2]; /* buffers, as hand.c numbers them, in order of declaration; 0 ends out   */
    double bar, free_bar; /* 0: none                                                             */
} work;

#define X "x: f32[8192,2048]"
static const work works[] = {
    {"(relu(x+w)*2).sum(-1)", "graph g(" X ", w: f32[8192,2048]) { a = add x, w; b = relu a; c = mul b, 2.0; y = sum c {axes=[-1]}; return y }",
     "h_relusum", "p_relusum", 8192, 2048, {0, 1, -1}, {5}, 1.05, 1.05},
    {"x/x.sum(-1)", "graph g(" X ") { s = sum x {axes=[-1], keepdims=true}; y = div x, s; return y }", "h_norm", "q_norm", 8192, 2048, {0, -1},
     {2}, 1.08, 1.10},
    {"softmax 1000", "graph g(x: f32[16384,1000]) { m = max x {axes=[-1], keepdims=true}; a = sub x, m; e = exp a; s = sum e {axes=[-1], keepdims=true}; y = div e, s; return y }",
     "h_softmax", "q_softmax", 16384, 1000, {0, -1}, {2}, 1.08, 1.33},
    {"softmax 2048", "graph g(" X ") { m = max x {axes=[-1], keepdims=true}; a = sub x, m; e = exp a; s = sum e {axes=[-1], keepdims=true}; y = div e, s; return y }",
     "h_softmax", "p_softmax", 8192, 2048, {0, -1}, {2}, 1.08, 1.33},
    {"exp -> sum, amax", "graph g(" X ") { e = exp x; s = sum e {axes=[-1]}; m = max e {axes=[-1]}; return s, m }", "h_expsummax", "p_expsummax",
     8192, 2048, {0, -1}, {5, 6}, 1.08, 1.4},
    {"layernorm -> gelu -> *0.5", "graph g(" X ", g: f32[2048], b: f32[2048]) { a = layer_norm x, g, b; c = gelu a; y = mul c, 0.5; return y }",
     "h_lngelu", "p_lngelu", 8192, 2048, {0, 7, 8, -1}, {2}, 1.08, 1.2},
    {"exp", "graph g(" X ") { y = exp x; return y }", "h_exp", "n_exp", 8192, 2048, {0, -1}, {2}, 1.05, 1.08},
    {"x + 1", "graph g(" X ") { y = add x, 1.0; return y }", "h_add1", "n_add1", 8192, 2048, {0, -1}, {2}, 1.05, 1.08},
    {"relu", "graph g(" X ") { y = relu x; return y }", "h_relu", "n_relu", 8192, 2048, {0, -1}, {2}, 1.05, 1.08},
    {"row sum", "graph g(" X ") { y = sum x {axes=[-1]}; return y }", "h_sum", "n_sum", 8192, 2048, {0, -1}, {5}, 1.05, 1.08},
    {"row amax", "graph g(" X ") { y = max x {axes=[-1]}; return y }", "h_amax", "n_amax", 8192, 2048, {0, -1}, {5}, 1.05, 1.08},
    {"column sum", "graph g(" X ") { y = sum x {axes=[0]}; return y }", "h_colsum", "h:free_colsum", 8192, 2048, {0, -1}, {5}, 1.05, 1.08},
    {"full sum", "graph g(" X ") { y = sum x; return y }", "h_fullsum", "n_sum", 8192, 2048, {0, -1}, {5}, 1.05, 1.08},
    {"cumsum", "graph g(" X ") { y = cumsum x {axis=-1}; return y }", "h_cumsum", NULL, 8192, 2048, {0, -1}, {2}, 1.10, 0},
    {"argmax", "graph g(" X ") { y = argmax x {axis=-1}; return y }", "h_argmax", NULL, 8192, 2048, {0, -1}, {2}, 1.10, 0},
    {"var", "graph g(" X ") { y = var x {axes=[-1]}; return y }", "h_var", NULL, 8192, 2048, {0, -1}, {5}, 1.10, 0},
    {"gather of 10^6 rows", "graph g(x: f32[65536,16], i: i32[1000000]) { y = gather x, i {axis=0}; return y }", "h_gather", NULL, 1000000, 16,
     {0, 3, -1}, {2}, 1.10, 0},
    {"concat", "graph g(x: f32[4096,2048], w: f32[4096,2048]) { y = concat x, w {axis=1}; return y }", "h_concat", NULL, 4096, 2048, {0, 1, -1},
     {2}, 1.10, 0},
    {"pad", "graph g(x: f32[4094,2046]) { y = pad x {low=[1,1], high=[1,1]}; return y }", "h_pad", NULL, 4094, 2046, {0, -1}, {2}, 1.10, 0},
    {"3x3 max pool", "graph g(x: f32[16,64,112,112]) { y = max_pool x {size=[3,3], stride=[2,2], padding=[[1,1],[1,1]]}; return y }", "h_pool", NULL,
     1024, 112, {0, -1}, {2}, 1.10, 0},
};
enum { N_WORKS = sizeof works / sizeof works[0] };

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void put_ratio(double *r, double bar) {
    qsort(r, PAIRS, sizeof *r, compare);
    printf(" %6.3f (%.3f .. %.3f)%s", r[PAIRS / 2], r[9], r[21], bar == 0 ? " " : r[PAIRS / 2] <= bar ? "+" : "!");
}

static hand_kernel kernel_of(void *library, const char *name) {
    hand_kernel k = NULL;
    void *symbol = library ? dlsym(library, name) : NULL;
    memcpy(&k, &symbol, sizeof k);
    return k;
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

enum { BUFFERS = 9, STAGGER = 336 }; /* floats: so that no two buffers agree modulo 4096 */
static const size_t large = ((size_t)64 << 20) + ((size_t)2 << 20);

/* Huge pages where the system gives them, touched. NULL: no memory. */
static float *buffer_new(int k) {
    const size_t page = (size_t)2 << 20;
    unsigned char *p = (unsigned char *)mmap(NULL, large + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == (unsigned char *)MAP_FAILED) return NULL;
    p += (page - (size_t)p % page) % page;
    madvise(p, large, MADV_HUGEPAGE);
    float *f = (float *)p + k * STAGGER;
    for (size_t i = 0; i < large / 4 - (size_t)(BUFFERS * STAGGER); i++)
        f[i] = (float)((i * 2654435761u >> 8) % 4001u) / 1000.0f - 2.0f;
    return f;
}

typedef struct side {
    stax_program *program;
    const stax_tensor *in, *out;
    hand_kernel kernel[SIDES];
} side;

static double run_ms(const side *s, int which, float **b, const work *w, stax_status *status) {
    double t = now_ms();
    if (which == OURS)
        *status = stax_run(s->program, s->in, s->out);
    else
        s->kernel[which](b, w->rows, w->columns);
    return now_ms() - t;
}

/* Times of all sides in turn, each round from another start, and their ratios. */
static bool measure(const side *s, const work *w, float **b) {
    double r[SIDES][PAIRS], least[SIDES] = {0};
    stax_status status = STAX_OK;
    for (int i = -WARM; i < PAIRS; i++) {
        double t[SIDES] = {0};
        for (int k = 0; k < SIDES; k++) {
            int which = (k + i + WARM) % SIDES;
            if (which == OURS || s->kernel[which]) t[which] = run_ms(s, which, b, w, &status);
            if (status != STAX_OK) return false;
        }
        for (int k = 0; k < SIDES && i >= 0; k++) {
            if (i == 0 || t[k] < least[k]) least[k] = t[k];
            r[k][i] = k == AGAIN ? t[AGAIN] / t[HAND] : t[OURS] / (t[k] > 0 ? t[k] : 1);
        }
    }
    printf("%-26s %6.2f %6.2f ", w->name, least[OURS], least[HAND] < least[AGAIN] ? least[HAND] : least[AGAIN]);
    put_ratio(r[HAND], w->bar);
    if (s->kernel[FREE])
        put_ratio(r[FREE], w->free_bar);
    else
        printf(" %25s", "");
    put_ratio(r[AGAIN], 0);
    return true;
}

/* Do both sides give the same bytes? Outputs are cleared before each. */
static bool same_bits(const side *s, const work *w, float **b, const size_t *bytes) {
    bool same = true;
    unsigned char *kept[2] = {NULL, NULL};
    stax_status status = STAX_OK;
    for (int which = OURS; which <= HAND; which++) {
        for (int k = 0; k < 2 && w->out[k]; k++) memset(b[w->out[k]], 0xa5, bytes[k]);
        run_ms(s, which, b, w, &status);
        if (status != STAX_OK) same = false;
        for (int k = 0; k < 2 && w->out[k]; k++) {
            if (which == OURS) {
                kept[k] = (unsigned char *)malloc(bytes[k]);
                if (kept[k]) memcpy(kept[k], b[w->out[k]], bytes[k]);
            } else {
                same = same && kept[k] && memcmp(kept[k], b[w->out[k]], bytes[k]) == 0;
                free(kept[k]);
            }
        }
    }
    return same;
}

static size_t tensor_take(const stax_graph *g, stax_dtype dtype, const stax_shape *shape, float *data, stax_tensor *t) {
    size_t n = 1;
    (void)g; /* all sizes are numbers */
    for (int d = 0; d < shape->rank; d++) n *= (size_t)shape->dims[d];
    *t = stax_tensor_of(dtype, *shape, data);
    return n * stax_dtype_bytes(dtype);
}

/* false: this row failed, and why is printed */
static bool run_row(stax_context *ctx, const work *w, void *hand, void *free_library, float **b) {
    stax_graph *g = stax_parse(ctx, w->name, w->text);
    side s;
    stax_tensor in[4], out[2];
    size_t bytes[2] = {0, 0};
    bool done = false, peer_is_ours = w->free && strncmp(w->free, "h:", 2) == 0;
    memset(&s, 0, sizeof s);
    s.program = g ? stax_compile(g, NULL) : NULL;
    s.in = in;
    s.out = out;
    s.kernel[HAND] = s.kernel[AGAIN] = kernel_of(hand, w->hand);
    if (w->free) s.kernel[FREE] = peer_is_ours ? kernel_of(hand, w->free + 2) : kernel_of(free_library, w->free);
    if (s.program && s.kernel[HAND]) { /* without that library there is no third column */
        for (int k = 0; w->in[k] >= 0; k++) {
            stax_input_info f;
            stax_graph_input(g, k, &f);
            tensor_take(g, f.dtype, &f.shape, b[w->in[k]], &in[k]);
        }
        for (int k = 0; k < 2 && w->out[k]; k++) {
            stax_output_info f;
            stax_graph_output(g, k, &f);
            bytes[k] = tensor_take(g, f.dtype, &f.shape, b[w->out[k]], &out[k]);
        }
        bool same = same_bits(&s, w, b, bytes);
        done = measure(&s, w, b) && same;
        printf("%s\n", same ? "" : "  DIFFERENT BITS");
        fflush(stdout);
    }
    if (!done) fprintf(stderr, "%s: %s\n", w->name, s.kernel[HAND] ? stax_error(ctx) : "no hand kernel of that name");
    stax_program_free(s.program);
    stax_graph_free(g);
    return done;
}

int main(int argc, char **argv) {
    int threads = argc > 2 ? atoi(argv[2]) : 0;
    if (threads > 0) setenv("OMP_NUM_THREADS", argv[2], 1);
    setenv("OMP_PROC_BIND", "true", 0);
    void *hand = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    const char *why = argc > 1 && !hand ? dlerror() : "";
    if (*why) fprintf(stderr, "memory_ratio: %s\n", why);
    void *free_library = argc > 3 && *argv[3] ? dlopen(argv[3], RTLD_NOW) : NULL;
    void *pool = hand ? dlsym(hand, "h_parallel_for") : NULL;
    if (!pool || threads < 1) {
        fprintf(stderr, "usage: memory_ratio hand.so THREADS [libseed.so [WORD]]\n");
        return 2;
    }
    float *b[BUFFERS];
    for (int k = 0; k < BUFFERS; k++)
        if (!(b[k] = buffer_new(k))) {
            fprintf(stderr, "memory_ratio: no memory for %d buffers of %d MiB\n", BUFFERS, (int)(large >> 20));
            return 1;
        }
    for (int i = 0; i < 1000000; i++) ((int *)b[3])[i] = (int)((unsigned)i * 2654435761u >> 16);
    stax_options o = stax_options_default();
    o.strict = true;
    o.n_threads = threads;
    memcpy(&o.parallel_for, &pool, sizeof pool);
    stax_context *ctx = stax_open(&o);
    int failed = 0;
    printf("%d thread%s, f32; least times in ms, medians of %d paired ratios with ranks 10 and 22; + within its bar, ! over it\n", threads,
           threads == 1 ? "" : "s", PAIRS);
    printf("%-26s %6s %6s  %-25s %-25s %s\n", "", "ours", "hand", "ours / hand", "ours / free", "A/A");
    for (int k = 0; k < N_WORKS; k++)
        if (argc <= 4 || strstr(works[k].name, argv[4])) failed += !run_row(ctx, &works[k], hand, free_library, b);
    stax_close(ctx);
    return failed ? 1 : 0;
}
