/* On a GPU: programs of stax_cuda.h against the reference interpreter, bit for bit; then times.

       cuda_device [--count=N] [--seed=S] [--jobs=N] [--tables=0] [--wide=0] [--times=0] [--one]
                   [--tensor=N]

   Every elementwise op and cast of every dtype on specials, reductions of sizes around the edges of
   the sum rule, N random graphs (900) and N / 4 with long axes, spread over processes, because most
   of the time is NVRTC's. Then (--times) the table of times: medians of 30 by events, after three
   runs; figures of calls beside their bars, and of copies (--times=2: these alone). Skipped with
   the reason where there is no device. --one checks the graph of that seed alone and prints its
   source; --tensor: how many shapes are checked on tensor cores (all). */
#if !defined(_WIN32)
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#endif
#define STAX_IMPLEMENTATION
#include "stax_cuda.h"

#include "cuda_graphs.h"
#include "graphs.h"

enum { MAX_JOBS = 32 };
typedef struct tally {
    int64_t equal, same_error, different, not_compiled, left_out;
    int64_t seed; /* of the graph that runs, in case the process crashes */
} tally;

static struct {
    int64_t count, seed, tables, wide, times, one, tensor;
    int jobs;
} settings = {900, 1, 1, 1, 1, 0, 10, 8};

/* ---- bits -------------------------------------------------------------------------------------
 */

static void say_difference(uint64_t seed, int run, const char *name, const stax_tensor *got,
                           const stax_tensor *want) {
    size_t size = stax_dtype_bytes(got->dtype);
    int64_t n = 1, differ = 0, first = 0;
    for (int d = 0; d < got->rank; d++) n *= got->shape[d];
    for (int64_t k = n - 1; k >= 0; k--)
        if (memcmp((char *)got->data + (size_t)k * size, (char *)want->data + (size_t)k * size,
                   size) != 0) {
            differ++;
            first = k;
        }
    uint64_t x = 0, y = 0;
    memcpy(&x, (char *)got->data + (size_t)first * size, size);
    memcpy(&y, (char *)want->data + (size_t)first * size, size);
    printf(
        "FAIL seed %llu run %d: %s %s rank %d: %lld of %lld elements differ, the first at %lld: "
        "0x%llx, expected 0x%llx\n",
        (unsigned long long)seed, run, name, stax_dtype_name(got->dtype), got->rank,
        (long long)differ, (long long)n, (long long)first, (unsigned long long)x,
        (unsigned long long)y);
}

/* 1: outputs and states have the same bytes */
static int bits_agree(const sample *want, const sample *got, const stax_graph *g, uint64_t seed,
                      int run) {
    for (int k = 0; k < want->n_outputs; k++) {
        stax_output_info info;
        stax_graph_output(g, k, &info);
        if (memcmp(want->out[k].data, got->out[k].data, want->out[k].bytes) == 0) continue;
        say_difference(seed, run, info.name, &got->outputs[k], &want->outputs[k]);
        return 0;
    }
    for (int k = 0; k < want->n_inputs; k++)
        if (memcmp(want->in[k].data, got->in[k].data, want->in[k].bytes) != 0) {
            printf("FAIL seed %llu run %d: input or state %s differs\n", (unsigned long long)seed,
                   run, want->names[k]);
            return 0;
        }
    return 1;
}

static void check_run(stax_context *ctx, const recipe *r, const stax_graph *g, stax_cuda_program *p,
                      int run, tally *t) {
    static sample a, b;
    if (!sample_make(&a, r, g, run, 0) || !sample_make(&b, r, g, run, 0)) {
        sample_free(&a);
        sample_free(&b);
        return;
    }
    stax_status want = stax_interpret(g, a.inputs, a.outputs), got = STAX_OK;
    for (int k = 0; k < b.n_inputs && got == STAX_OK; k++)
        if (b.kinds[k] == STAX_KIND_PARAM) got = stax_cuda_bind(p, b.names[k], &b.inputs[k]);
    if (got == STAX_OK) got = stax_cuda_run(p, b.slots, b.outputs);
    if (got != want) {
        printf("FAIL seed %llu run %d: %s (%s), expected %s\n", (unsigned long long)r->seed, run,
               stax_status_text(got), stax_error(ctx), stax_status_text(want));
        t->different++;
    } else if (want != STAX_OK) {
        t->same_error++;
    } else if (bits_agree(&a, &b, g, r->seed, run)) {
        t->equal++;
    } else {
        t->different++;
    }
    sample_free(&a);
    sample_free(&b);
}

static void check_recipe(stax_context *ctx, stax_cuda *cuda, const recipe *r, tally *t) {
    stax_graph *g = recipe_build(r, ctx, NULL);
    if (!g || !stax_ok(g)) {
        t->left_out++;
        stax_graph_free(g);
        return;
    }
    stax_cuda_program *p = stax_cuda_compile(cuda, g, NULL);
    if (p) {
        if (settings.one) printf("%s\n", stax_cuda_source(p));
        check_run(ctx, r, g, p, 0, t);
        if (r->n_symbols) check_run(ctx, r, g, p, 1, t);
    } else { /* what the CPU's compiler refuses too is not this backend's failure */
        char why[600];
        snprintf(why, sizeof why, "%s", stax_error(ctx));
        stax_program *q = stax_compile(g, NULL);
        printf("%s seed %llu: does not compile: %s\n", q ? "FAIL" : "left out",
               (unsigned long long)r->seed, why);
        if (q)
            t->not_compiled++;
        else
            t->left_out++;
        stax_program_free(q);
    }
    stax_cuda_program_free(p);
    stax_graph_free(g);
}

/* ---- sizes around the edges of the sum rule, and tensors on the device --------------------------
 */

static stax_value make_shaped(int op, stax_value x) {
    switch (op) {
        case 0:
            return stax_sum(x, stax_axes1(1), false);
        case 1:
            return stax_sum(x, stax_axes1(0), false);
        case 2:
            return stax_sum(x, stax_axes_all(), false);
        case 3:
            return stax_max(x, stax_axes1(1), false);
        case 4:
            return stax_prod(x, stax_axes1(0), false);
        case 5:
            return stax_argmax(x, 1, false);
        case 6:
            return stax_softmax(x, 1);
        case 7:
            return stax_softmax(x, 0);
        case 8:
            return stax_layer_norm(x, stax_none(), stax_none(), stax_axes1(1), 1e-5);
        case 9:
            return stax_matmul(x, stax_transpose(x));
        case 10:
            return stax_min(x, stax_axes_all(), false);
        default:
            return stax_var(x, stax_axes1(0), 1.0, false);
    }
}
enum { SHAPED_OPS = 12 };

static const struct {
    int64_t rows, columns;
} shapes[] = {{1, 1},    {3, 17},     {5, 63},      {7, 64},    {2, 65},     {33, 100},
              {1, 4096}, {2, 4097},   {3, 8192},    {2, 9001},  {17, 20000}, {4097, 3},
              {9000, 5}, {20000, 33}, {4096, 1},    {1, 70000}, {2, 300000}, {300000, 2},
              {129, 33}, {64, 4160},  {1, 17000000}};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };
static const stax_dtype shaped_dtypes[] = {STAX_F32, STAX_F64, STAX_I32, STAX_BF16};

static void random_fill(void *data, stax_dtype t, int64_t n, uint64_t seed) {
    dice d = {seed};
    for (int64_t k = 0; k < n; k++) {
        double x = dice_unit(&d) * 2 - 1;
        float f = (float)x;
        uint32_t u;
        memcpy(&u, &f, 4);
        if (t == STAX_F32) ((float *)data)[k] = f;
        if (t == STAX_F64) ((double *)data)[k] = x;
        if (t == STAX_I32) ((int32_t *)data)[k] = (int32_t)(x * 100);
        if (t == STAX_BF16) ((uint16_t *)data)[k] = (uint16_t)(u >> 16);
        if (t == STAX_F16) ((uint16_t *)data)[k] = (uint16_t)staxi_f16_of_f32(f);
    }
}

static void check_shape(stax_context *ctx, stax_cuda *cuda, int at, int op, stax_dtype t,
                        tally *all) {
    int64_t rows = shapes[at].rows, columns = shapes[at].columns, n = rows * columns, m = 1;
    if (op == 9 && (rows > 200 || columns > 20000)) return;
    if (n > 1000000 && (t != STAX_F32 || (op != 2 && op != 6 && op != 5 && op != 10))) return;
    stax_graph *g = stax_graph_new(ctx);
    stax_value x = stax_input(g, "x", t, stax_shape2(rows, columns));
    stax_output(g, "y", make_shaped(op, x));
    stax_output_info info;
    if (!stax_ok(g) || !stax_graph_output(g, 0, &info)) {
        stax_graph_free(g);
        return;
    }
    for (int d = 0; d < info.shape.rank; d++) m *= info.shape.dims[d];
    size_t bytes = (size_t)m * stax_dtype_bytes(info.dtype);
    void *in = malloc((size_t)n * stax_dtype_bytes(t)), *a = malloc(bytes + 8),
         *b = malloc(bytes + 8);
    random_fill(in, t, n, (uint64_t)(at * 100 + op));
    memset(a, 1, bytes);
    memset(b, 2, bytes);
    stax_tensor tx = stax_tensor_of(t, stax_shape2(rows, columns), in), dx, dy,
                ta = stax_tensor_of(info.dtype, info.shape, a),
                tb = stax_tensor_of(info.dtype, info.shape, b);
    stax_cuda_program *p = stax_cuda_compile(cuda, g, NULL);
    stax_status s = stax_interpret(g, &tx, &ta);
    if (p && s == STAX_OK) s = stax_cuda_tensor_new(cuda, t, stax_shape2(rows, columns), &dx);
    if (p && s == STAX_OK) s = stax_cuda_tensor_new(cuda, info.dtype, info.shape, &dy);
    if (p && s == STAX_OK) s = stax_cuda_copy(cuda, &dx, &tx);
    if (p && s == STAX_OK) s = stax_cuda_copy(cuda, &dy, &tb); /* poison */
    for (int run = 0; run < 2 && p && s == STAX_OK; run++) s = stax_cuda_run(p, &dx, &dy);
    if (p && s == STAX_OK) s = stax_cuda_copy(cuda, &tb, &dy);
    if (!p || s != STAX_OK) {
        printf("FAIL shape %lld x %lld op %d %s: %s\n", (long long)rows, (long long)columns, op,
               stax_dtype_name(t), stax_error(ctx));
        all->not_compiled++;
    } else if (memcmp(a, b, bytes) != 0) {
        printf("shape %lld x %lld op %d %s:\n", (long long)rows, (long long)columns, op,
               stax_dtype_name(t));
        say_difference(0, 0, "y", &tb, &ta);
        all->different++;
    } else {
        all->equal++;
    }
    if (p) stax_cuda_tensor_free(cuda, &dx), stax_cuda_tensor_free(cuda, &dy);
    stax_cuda_program_free(p);
    stax_graph_free(g);
    free(in);
    free(a);
    free(b);
}

/* ---- tensor cores: exact on small integers, else within the bound ---- */

static const struct {
    int64_t m, n, k;
    const char *a, *b; /* layouts: "row", or "turned": along the other axis */
} tensor_shapes[] = {{128, 256, 64, "row", "row"},        {200, 152, 136, "row", "row"},
                     {200, 152, 136, "turned", "row"},    {200, 152, 136, "row", "turned"},
                     {136, 200, 72, "turned", "turned"},  {70, 66, 33, "row", "row"},
                     {1000, 4096, 520, "row", "row"},     {16, 4096, 1024, "row", "turned"},
                     {1280, 4096, 4096, "turned", "row"}, {16, 200, 4000, "row", "row"}};
enum { N_TENSOR_SHAPES = sizeof tensor_shapes / sizeof tensor_shapes[0] };

static double number_at(stax_dtype t, const void *x, int64_t at) {
    if (t == STAX_F32) return (double)((const float *)x)[at];
    const uint16_t h = ((const uint16_t *)x)[at];
    return (double)(t == STAX_BF16 ? staxi_float32((uint32_t)h << 16) : staxi_f32_of_f16(h));
}

static void number_put(stax_dtype t, void *x, int64_t at, float f) {
    if (t == STAX_F32)
        ((float *)x)[at] = f;
    else
        ((uint16_t *)x)[at] =
            (uint16_t)(t == STAX_BF16 ? staxi_bf16_of_f32(f) : staxi_f16_of_f32(f));
}

/* The error of one result in units of its bound. Products are exact, but that TF32 rounds both
   operands, 2^-11 of each; each of k + k / 16 + 2 additions may lose 2^-23 of what it adds (it may
   be cut off), and the result is rounded once. *exact: the result without any error. */
static double tensor_excess(stax_dtype t, const void *a, const void *b, int64_t a_at, int64_t b_at,
                            int64_t a_step, int64_t b_step, int64_t k, double got, double *exact) {
    double sum = 0, size = 0;
    for (int64_t i = 0; i < k; i++) {
        double x = number_at(t, a, a_at + i * a_step) * number_at(t, b, b_at + i * b_step);
        sum += x;
        size += fabs(x);
    }
    double inner = (double)(k + k / 16 + 2) * 0x1p-23 * size, rounding = t == STAX_BF16  ? 0x1p-8
                                                                         : t == STAX_F16 ? 0x1p-11
                                                                                         : 0x1p-24;
    if (t == STAX_F32) inner += 0x1.001p-10 * size;
    *exact = sum;
    return fabs(got - sum) / (inner + (fabs(sum) + inner) * rounding + 0x1p-25);
}

/* Numbers of the dtype: integers in [-2, 2], or in [-1, 1). */
static void tensor_fill(void *x, stax_dtype t, int64_t n, bool integers, uint64_t seed) {
    dice d = {seed};
    for (int64_t k = 0; k < n; k++)
        number_put(t, x, k,
                   integers ? (float)(int)dice_below(&d, 5) - 2 : (float)(dice_unit(&d) * 2 - 1));
}

/* t on the device, an element behind where memory is aligned; *room has to be freed. */
static stax_status odd_place(stax_cuda *cuda, stax_tensor *t, stax_tensor *room) {
    const int64_t n = t->shape[0] * t->shape[1];
    stax_tensor odd = *t;
    stax_status s = stax_cuda_tensor_new(cuda, t->dtype, stax_shape1(n + 1), room);
    odd.device = room->device;
    odd.data = (char *)room->data + stax_dtype_bytes(t->dtype);
    if (s == STAX_OK) s = stax_cuda_copy(cuda, &odd, t);
    if (s == STAX_OK) *t = odd;
    return s;
}

/* `mma`: mma.sync also where there is wgmma. f32 runs as TF32. Every second shape lies odd. */
static void check_tensor(stax_context *ctx, stax_cuda *cuda, int at, stax_dtype t, bool mma,
                         bool integers, tally *all) {
    int64_t m = tensor_shapes[at].m, n = tensor_shapes[at].n, k = tensor_shapes[at].k;
    bool ta = tensor_shapes[at].a[0] == 't', tb = tensor_shapes[at].b[0] == 't';
    size_t size = stax_dtype_bytes(t);
    stax_graph *g = stax_graph_new(ctx);
    stax_shape sa = ta ? stax_shape2(k, m) : stax_shape2(m, k),
               sb = tb ? stax_shape2(n, k) : stax_shape2(k, n);
    stax_value a = stax_input(g, "a", t, sa), b = stax_input(g, "b", t, sb);
    stax_output(g, "y", stax_matmul(ta ? stax_transpose(a) : a, tb ? stax_transpose(b) : b));
    void *x = malloc((size_t)(m * k) * size), *y = malloc((size_t)(k * n) * size),
         *z = malloc((size_t)(m * n) * size);
    tensor_fill(x, t, m * k, integers, (uint64_t)at + 1);
    tensor_fill(y, t, k * n, integers, (uint64_t)at + 100);
    memset(z, 0xff, (size_t)(m * n) * size);
    stax_tensor in[2], out = stax_tensor_of(t, stax_shape2(m, n), z);
    in[0] = stax_tensor_of(t, sa, x);
    in[1] = stax_tensor_of(t, sb, y);
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.tensor_cores = o.tf32 = true;
    if (mma) setenv("STAX_CUDA_MMA", "1", 1);
    stax_cuda_program *p = stax_cuda_compile(cuda, g, &o);
    unsetenv("STAX_CUDA_MMA");
    stax_status s = p ? STAX_OK : stax_error_status(ctx);
    stax_tensor room[2];
    memset(room, 0, sizeof room);
    for (int side = 0; side < 2 && at % 2 && s == STAX_OK; side++)
        s = odd_place(cuda, &in[side], &room[side]);
    if (s == STAX_OK) s = stax_cuda_run(p, in, &out);
    for (int side = 0; side < 2; side++) stax_cuda_tensor_free(cuda, &room[side]);
    const char *path = t == STAX_F32 || mma ? "sx_mma_" : "wgmma";
    double worst = 0, exact = 0;
    int64_t different = s == STAX_OK && !strstr(stax_cuda_source(p), path);
    dice d = {(uint64_t)at};
    for (int64_t c = 0; c < 20000 && s == STAX_OK; c++) {
        int64_t i = dice_below(&d, (int)m), j = dice_below(&d, (int)n);
        double excess = tensor_excess(t, x, y, ta ? i : i * k, tb ? j * k : j, ta ? m : 1,
                                      tb ? 1 : n, k, number_at(t, z, i * n + j), &exact);
        uint32_t want = 0;
        number_put(t, &want, 0, (float)exact);
        different += integers ? memcmp(&want, (char *)z + (size_t)(i * n + j) * size, size) != 0
                              : !(excess <= 1);
        if (!(excess <= worst)) worst = excess;
        if (k * c > 20000000) break;
    }
    if (s == STAX_OK && different == 0) {
        all->equal++;
    } else {
        printf(
            "FAIL tensor cores %s%s %lld x %lld x %lld %s %s%s: %lld results, at worst %g of the "
            "bound; %s\n",
            stax_dtype_name(t), mma ? " by mma.sync" : "", (long long)m, (long long)n, (long long)k,
            tensor_shapes[at].a, tensor_shapes[at].b, integers ? ", integers" : "",
            (long long)different, worst, s == STAX_OK ? "" : stax_error(ctx));
        all->different++;
    }
    stax_cuda_program_free(p);
    stax_graph_free(g);
    free(x);
    free(y);
    free(z);
}

/* A bad index: the CPU's message, and the program can be called again. */
static void check_bad_index(stax_context *ctx, stax_cuda *cuda, tally *all) {
    enum { N = 100000 };
    static int64_t index[N];
    static float x[50], y[N], z[N];
    stax_graph *g = stax_graph_new(ctx);
    stax_value v = stax_input(g, "x", STAX_F32, stax_shape1(50)),
               i = stax_input(g, "i", STAX_I64, stax_shape1(N));
    stax_output(g, "y", stax_exp(stax_gather(v, i, 0)));
    stax_cuda_program *p = stax_cuda_compile(cuda, g, NULL);
    stax_program *q = stax_compile(g, NULL);
    for (int run = 0; run < 4 && p && q; run++) {
        stax_tensor in[2], out[2];
        char want[300];
        for (int k = 0; k < N; k++) index[k] = k % 50 - (k % 100 >= 50 ? 50 : 0);
        if (run == 1) index[77777] = 50, index[99999] = 1000000000000;
        if (run == 2) index[0] = -51;
        in[0] = stax_tensor_of(STAX_F32, stax_shape1(50), x);
        in[1] = stax_tensor_of(STAX_I64, stax_shape1(N), index);
        out[0] = stax_tensor_of(STAX_F32, stax_shape1(N), y);
        out[1] = stax_tensor_of(STAX_F32, stax_shape1(N), z);
        stax_status a = stax_run(q, in, &out[0]);
        snprintf(want, sizeof want, "%s", stax_error(ctx));
        stax_status b = stax_cuda_run(p, in, &out[1]);
        if (a != b || (a != STAX_OK && strcmp(want, stax_error(ctx)) != 0) ||
            (a == STAX_OK && memcmp(y, z, sizeof y) != 0)) {
            printf("FAIL bad index, run %d: %s; expected %s\n", run, stax_error(ctx), want);
            all->different++;
        } else if (a == STAX_OK) {
            all->equal++;
        } else {
            all->same_error++;
        }
    }
    if (!p || !q) {
        printf("FAIL bad index: %s\n", stax_error(ctx));
        all->not_compiled++;
    }
    stax_cuda_program_free(p);
    stax_program_free(q);
    stax_graph_free(g);
}

/* Uploads, calls and downloads in a row that only the last wait ends; host memory of both kinds. */
static void check_async(stax_context *ctx, stax_cuda *cuda, tally *all) {
    enum { N = 100003, ROUNDS = 4 };
    static float own[N];
    stax_shape shape = stax_shape1(N);
    stax_tensor host[ROUNDS], x, y, mine = stax_tensor_of(STAX_F32, shape, own);
    stax_graph *g = stax_graph_new(ctx);
    stax_output(g, "y", stax_add(stax_input(g, "x", STAX_F32, shape), stax_const(g, 1.0)));
    stax_cuda_program *p = stax_cuda_compile(cuda, g, NULL);
    stax_status s = p ? STAX_OK : stax_error_status(ctx);
    int wrong = 0;
    memset(host, 0, sizeof host);
    x = y = host[0];
    for (int k = 0; k < ROUNDS && s == STAX_OK; k++)
        s = stax_cuda_host_new(cuda, STAX_F32, shape, &host[k]);
    if (s == STAX_OK) s = stax_cuda_tensor_new(cuda, STAX_F32, shape, &x);
    if (s == STAX_OK) s = stax_cuda_tensor_new(cuda, STAX_F32, shape, &y);
    for (int k = 0; k < ROUNDS && s == STAX_OK; k++) {
        for (int i = 0; i < N; i++) ((float *)host[k].data)[i] = (float)(i % 1000 + k);
        s = stax_cuda_copy_async(cuda, &x, &host[k]);
        if (s == STAX_OK) s = stax_cuda_run(p, &x, &y);
        if (s == STAX_OK) s = stax_cuda_copy_async(cuda, &host[k], &y);
    }
    if (s == STAX_OK) s = stax_cuda_copy_async(cuda, &mine, &y);
    if (s == STAX_OK) s = stax_cuda_wait(cuda);
    for (int k = 0; k < ROUNDS && s == STAX_OK; k++)
        for (int i = 0; i < N; i++)
            wrong += ((float *)host[k].data)[i] != (float)(i % 1000 + k + 1);
    for (int i = 0; i < N && s == STAX_OK; i++) wrong += own[i] != (float)(i % 1000 + ROUNDS);
    if (s == STAX_OK && !wrong) {
        all->equal++;
    } else {
        printf("FAIL asynchronous copies: %d elements differ; %s\n", wrong, stax_error(ctx));
        all->different++;
    }
    for (int k = 0; k < ROUNDS; k++) stax_cuda_host_free(cuda, &host[k]);
    stax_cuda_tensor_free(cuda, &x);
    stax_cuda_tensor_free(cuda, &y);
    stax_cuda_program_free(p);
    stax_graph_free(g);
}

/* Twenty times sin, a running sum, and half of it. */
static stax_value rounds(stax_value x) {
    for (int k = 0; k < 20; k++)
        x = stax_mul(stax_cumsum(stax_sin(x), 0, false, false), stax_const(x.graph, 0.5));
    return x;
}

/* Calls that are replayed: other addresses, other sizes, and nothing to do in between. */
static void check_replay(stax_context *ctx, stax_cuda *cuda, tally *all) {
    enum { MOST = 9000 };
    static const int64_t sizes[] = {1000, 1000, 1000, 5000, 0, 9000, 1, 9000};
    static float data[2][MOST], got[MOST], want[MOST];
    stax_tensor x[2], y[2];
    stax_graph *g = stax_graph_new(ctx);
    int64_t n = stax_symbol(g, "n", 0, MOST);
    stax_value v = stax_input(g, "x", STAX_F32, stax_shape1(n));
    stax_output(g, "y", rounds(v));
    stax_output(g, "s", stax_sum(v, stax_axes_all(), false));
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.reduce_overhead = true;
    stax_cuda_program *p = stax_cuda_compile(cuda, g, &o);
    stax_status s = p ? STAX_OK : stax_error_status(ctx);
    dice d = {3};
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < MOST; i++) data[k][i] = (float)(dice_unit(&d) * 2 - 1);
        stax_tensor host = stax_tensor_of(STAX_F32, stax_shape1(MOST), data[k]);
        if (s == STAX_OK) s = stax_cuda_tensor_new(cuda, STAX_F32, stax_shape1(MOST), &x[k]);
        if (s == STAX_OK) s = stax_cuda_tensor_new(cuda, STAX_F32, stax_shape1(MOST), &y[k]);
        if (s == STAX_OK) s = stax_cuda_copy(cuda, &x[k], &host);
    }
    for (int run = 0; run < 8 && s == STAX_OK; run++) {
        int which = run == 2 || run >= 5;
        float sum = 1, same = 2;
        stax_shape shape = stax_shape1(sizes[run]);
        stax_tensor in = x[which], out[2], host = stax_tensor_of(STAX_F32, shape, data[which]),
                    ref[2], back = stax_tensor_of(STAX_F32, shape, got);
        in.shape[0] = sizes[run];
        out[0] = y[which];
        out[0].shape[0] = sizes[run];
        out[1] = stax_tensor_of(STAX_F32, stax_shape0(), &sum);
        ref[0] = stax_tensor_of(STAX_F32, shape, want);
        ref[1] = stax_tensor_of(STAX_F32, stax_shape0(), &same);
        s = stax_interpret(g, &host, ref);
        if (s == STAX_OK) s = stax_cuda_run(p, &in, out);
        if (s == STAX_OK) s = stax_cuda_copy(cuda, &back, &out[0]);
        if (s != STAX_OK ||
            (memcmp(got, want, (size_t)sizes[run] * 4) == 0 && memcmp(&sum, &same, 4) == 0)) {
            all->equal += s == STAX_OK;
            continue;
        }
        printf("FAIL replay: run %d differs\n", run);
        all->different++;
    }
    if (s != STAX_OK) {
        printf("FAIL replay: %s\n", stax_error(ctx));
        all->different++;
    }
    for (int k = 0; k < 2 && p; k++)
        stax_cuda_tensor_free(cuda, &x[k]), stax_cuda_tensor_free(cuda, &y[k]);
    stax_cuda_program_free(p);
    stax_graph_free(g);
}

/* Exercise 27: results of replayed calls that the caller keeps stay as they are, since each call
   writes where it is told, and no memory of the graph's own. */
static void check_kept(stax_context *ctx, stax_cuda *cuda, tally *all) {
    enum { N = 3000, KEPT = 4 };
    static float data[KEPT][N], got[N], want[N];
    stax_tensor x, kept[KEPT];
    stax_graph *g = stax_graph_new(ctx);
    stax_output(g, "y", rounds(stax_input(g, "x", STAX_F32, stax_shape1(N))));
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    memset(&x, 0, sizeof x);
    memset(kept, 0, sizeof kept);
    o.reduce_overhead = true;
    stax_cuda_program *p = stax_cuda_compile(cuda, g, &o);
    stax_status s =
        p ? stax_cuda_tensor_new(cuda, STAX_F32, stax_shape1(N), &x) : stax_error_status(ctx);
    for (int k = 0; k < KEPT && s == STAX_OK; k++) {
        for (int i = 0; i < N; i++) data[k][i] = (float)(i % 97 + k) * 0.25f;
        const stax_tensor host = stax_tensor_of(STAX_F32, stax_shape1(N), data[k]);
        s = stax_cuda_tensor_new(cuda, STAX_F32, stax_shape1(N), &kept[k]);
        if (s == STAX_OK) s = stax_cuda_copy(cuda, &x, &host);
        if (s == STAX_OK) s = stax_cuda_run(p, &x, &kept[k]);
    }
    for (int k = 0; k < KEPT && s == STAX_OK; k++) {
        const stax_tensor host = stax_tensor_of(STAX_F32, stax_shape1(N), data[k]),
                          ref = stax_tensor_of(STAX_F32, stax_shape1(N), want),
                          back = stax_tensor_of(STAX_F32, stax_shape1(N), got);
        s = stax_interpret(g, &host, &ref);
        if (s == STAX_OK) s = stax_cuda_copy(cuda, &back, &kept[k]);
        if (s != STAX_OK) break;
        const bool equal = memcmp(got, want, sizeof got) == 0;
        all->equal += equal;
        all->different += !equal;
        if (!equal) printf("FAIL kept: result %d of a replayed call has changed\n", k);
    }
    if (s != STAX_OK) {
        printf("FAIL kept: %s\n", stax_error(ctx));
        all->different++;
    }
    for (int k = 0; k < KEPT; k++) stax_cuda_tensor_free(cuda, &kept[k]);
    stax_cuda_tensor_free(cuda, &x);
    stax_cuda_program_free(p);
    stax_graph_free(g);
}

/* All devices in one process, and two streams of the first: each has a program and tensors of its
   own, the calls alternate, a program reads what another one has made, and none takes a tensor of
   another device. */
static void check_devices(stax_context *ctx, tally *all) {
    enum { MOST = 9, N = 50000, ROUNDS = 3 };
    static float data[N], want[N], got[N];
    stax_cuda *cuda[MOST] = {NULL};
    stax_cuda_program *p[MOST] = {NULL};
    stax_tensor x[MOST], y[MOST], host = stax_tensor_of(STAX_F32, stax_shape1(N), data),
                                  ref = stax_tensor_of(STAX_F32, stax_shape1(N), want);
    int devices = stax_cuda_device_count(ctx), n = (devices < MOST ? devices : MOST - 1) + 1;
    stax_graph *g = stax_graph_new(ctx);
    stax_value v = stax_input(g, "x", STAX_F32, stax_shape1(N));
    stax_output(g, "y", stax_sin(stax_add(v, stax_const(g, 1.0))));
    for (int i = 0; i < N; i++) data[i] = (float)(i % 1000) * 0.01f;
    stax_status s = STAX_OK;
    memset(x, 0, sizeof x);
    memset(y, 0, sizeof y);
    for (int k = 0; k < n && s == STAX_OK; k++) { /* the last one is the first device again */
        cuda[k] = stax_cuda_open(ctx, k + 1 < n ? k : 0);
        p[k] = cuda[k] ? stax_cuda_compile(cuda[k], g, NULL) : NULL;
        s = p[k] ? stax_cuda_tensor_new(cuda[k], STAX_F32, stax_shape1(N), &x[k])
                 : stax_error_status(ctx);
        if (s == STAX_OK) s = stax_cuda_tensor_new(cuda[k], STAX_F32, stax_shape1(N), &y[k]);
        if (s == STAX_OK) s = stax_cuda_copy(cuda[k], &x[k], &host);
    }
    for (int r = 0; r < ROUNDS && s == STAX_OK; r++) {
        s = stax_interpret(g, &host, &ref);
        for (int k = 0; k < n && s == STAX_OK; k++)
            s = r % 2 ? stax_cuda_run(p[k], &y[k], &x[k]) : stax_cuda_run(p[k], &x[k], &y[k]);
        memcpy(data, want, sizeof data);
    }
    int wrong = 0;
    for (int k = 0; k < n && s == STAX_OK; k++) {
        stax_tensor back = stax_tensor_of(STAX_F32, stax_shape1(N), got);
        s = stax_cuda_copy(cuda[k], &back, ROUNDS % 2 ? &y[k] : &x[k]);
        wrong += memcmp(got, want, sizeof got) != 0;
        if (k > 0 && k + 1 < n) wrong += stax_cuda_run(p[k], &x[0], &y[k]) != STAX_E_DEVICE;
    }
    if (s == STAX_OK && !wrong) {
        printf("devices: %d in one process, and a second stream\n", devices);
        all->equal++;
    } else {
        printf("FAIL devices: %d of %d differ; %s\n", wrong, n, stax_error(ctx));
        all->different++;
    }
    for (int k = 0; k < n; k++) {
        stax_cuda_tensor_free(cuda[k], &x[k]);
        stax_cuda_tensor_free(cuda[k], &y[k]);
        stax_cuda_program_free(p[k]);
        stax_cuda_close(cuda[k]);
    }
    stax_graph_free(g);
}

/* ---- scatters by atomic updates ---- */

enum { ATOMIC_PLACES = 50, ATOMIC_UPDATES = 20000 };

/* Any order of n additions in one place: (n - 1) u sum |x|, and in f32 2^-126 for what flushes. The
   worst error in units of it. */
static double atomic_excess(stax_dtype t, const void *x, const int64_t *i, const void *u,
                            const void *got) {
    const int f64 = t == STAX_F64;
    double worst = 0;
    for (int at = 0; at < ATOMIC_PLACES; at++) {
        long double sum = 0, size = 0;
        int n = 0;
        for (int k = -1; k < ATOMIC_UPDATES; k++) {
            if (k >= 0 && i[k] != at) continue;
            const void *from = k < 0 ? x : u;
            const int j = k < 0 ? at : k;
            const double a = f64 ? ((const double *)from)[j] : (double)((const float *)from)[j];
            sum += a;
            size += fabs(a);
            n++;
        }
        const double have = f64 ? ((const double *)got)[at] : (double)((const float *)got)[at];
        const long double bound =
            (long double)(n - 1) * (f64 ? 0x1p-53L : 0x1p-24L) * size + (f64 ? 0 : n * 0x1p-126L);
        const double excess = (double)fabsl((long double)have - sum) / (double)(bound + 1e-300L);
        if (!(excess <= worst)) worst = excess;
    }
    return worst;
}

static void atomic_fill(stax_dtype t, void *to, int n, uint64_t seed) {
    dice d = {seed};
    for (int k = 0; k < n; k++) {
        const double x = dice_unit(&d) * 2 - 1;
        const uint64_t bits = dice_next(&d);
        float f = k % 997 == 5 ? -0.0f : (float)x;
        if (t == STAX_F32)
            ((float *)to)[k] = f;
        else if (t == STAX_F64)
            ((double *)to)[k] = x;
        else
            memcpy((char *)to + (size_t)k * stax_dtype_bytes(t), &bits, stax_dtype_bytes(t));
    }
}

/* Where max and min meet a NaN, they have its bits too. */
static void check_atomic(stax_context *ctx, stax_cuda *cuda, stax_dtype t, const char *mode,
                         tally *all) {
    static uint64_t x[ATOMIC_PLACES], u[ATOMIC_UPDATES], got[ATOMIC_PLACES], want[ATOMIC_PLACES];
    static int64_t i[ATOMIC_UPDATES];
    const bool adds = mode[1] == 'd', is_float = t == STAX_F32 || t == STAX_F64;
    const stax_shape places = stax_shape1(ATOMIC_PLACES), updates = stax_shape1(ATOMIC_UPDATES);
    stax_graph *g = stax_graph_new(ctx);
    stax_compile_options o;
    stax_tensor in[3], y = stax_tensor_of(t, places, got), ref = stax_tensor_of(t, places, want);
    dice d = {11};
    memset(&o, 0, sizeof o);
    o.atomics = true;
    for (int k = 0; k < ATOMIC_UPDATES; k++) i[k] = dice_below(&d, ATOMIC_PLACES) * (k % 3 > 0);
    atomic_fill(t, x, ATOMIC_PLACES, 1);
    atomic_fill(t, u, ATOMIC_UPDATES, 2);
    if (is_float && !adds) memset((char *)u + 77 * stax_dtype_bytes(t), 0xff, stax_dtype_bytes(t));
    in[0] = stax_tensor_of(t, places, x);
    in[1] = stax_tensor_of(STAX_I64, updates, i);
    in[2] = stax_tensor_of(t, updates, u);
    stax_value v[3];
    for (int k = 0; k < 3; k++) {
        const char *const name[] = {"x", "i", "u"};
        v[k] = stax_input(g, name[k], k == 1 ? STAX_I64 : t, k ? updates : places);
    }
    stax_output(g, "y", stax_scatter(v[0], v[1], v[2], 0, mode));
    stax_cuda_program *p = stax_cuda_compile(cuda, g, &o);
    stax_status s = p ? stax_cuda_run(p, in, &y) : stax_error_status(ctx);
    if (s == STAX_OK) s = stax_interpret(g, in, &ref);
    const double excess = s == STAX_OK && is_float && adds ? atomic_excess(t, x, i, u, got) : 0;
    const bool differ =
        (!is_float || !adds) && memcmp(got, want, ATOMIC_PLACES * stax_dtype_bytes(t)) != 0;
    if (s == STAX_OK && excess <= 1 && !differ && strstr(stax_cuda_source(p), "sx_atomic_")) {
        all->equal++;
    } else {
        printf("FAIL atomic scatter %s %s: at worst %g of the bound%s; %s\n", mode,
               stax_dtype_name(t), excess, differ ? ", other bits" : "",
               s == STAX_OK ? "" : stax_error(ctx));
        all->different++;
    }
    stax_cuda_program_free(p);
    stax_graph_free(g);
}

static void check_atomics(stax_context *ctx, stax_cuda *cuda, tally *all) {
    static const stax_dtype dtypes[] = {STAX_F32, STAX_F64, STAX_I32, STAX_U32, STAX_I64, STAX_U64};
    for (int k = 0; k < 6; k++) {
        check_atomic(ctx, cuda, dtypes[k], "add", all);
        check_atomic(ctx, cuda, dtypes[k], "max", all);
        check_atomic(ctx, cuda, dtypes[k], "min", all);
    }
}

/* ---- several streams ---- */

enum { CHAIN = 3000, STREAMS = 6, THREADS = 6, TURNS = 12 };

/* y = x * w + 1 and s = s + x, for a state s and a param w. */
typedef struct chain {
    stax_context *ctx;
    stax_cuda *cuda;
    stax_graph *g;
    stax_cuda_program *p;
    float w[CHAIN];
} chain;

static int chain_make(chain *c, stax_context *ctx, stax_cuda *cuda, bool replays) {
    const stax_shape shape = stax_shape1(CHAIN);
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.reduce_overhead = replays;
    c->ctx = ctx;
    c->cuda = cuda;
    c->g = stax_graph_new(ctx);
    stax_value x = stax_input(c->g, "x", STAX_F32, shape),
               w = stax_param(c->g, "w", STAX_F32, shape),
               s = stax_state(c->g, "s", STAX_F32, shape);
    stax_assign(s, stax_add(s, stax_cumsum(x, 0, false, false)));
    stax_output(c->g, "y", stax_add(stax_mul(x, w), stax_const(c->g, 1.0)));
    c->p = stax_cuda_compile(cuda, c->g, &o);
    for (int k = 0; k < CHAIN; k++) c->w[k] = (float)(k % 7) * 0.125f;
    const stax_tensor host = stax_tensor_of(STAX_F32, shape, c->w);
    return c->p && stax_cuda_bind(c->p, "w", &host) == STAX_OK;
}

/* One call of a chain by a thread of its own: in[0] x, in[1] s. */
typedef struct turn {
    chain *c;
    stax_tensor in[2], out;
    void *stream; /* NULL: the thread's */
    stax_status s;
} turn;

static void take_turn(void *arg) {
    turn *t = (turn *)arg;
    t->s = t->stream ? stax_cuda_run_on(t->c->p, t->in, &t->out, t->stream)
                     : stax_cuda_run(t->c->p, t->in, &t->out);
}

static int stream_of_driver(stax_cuda *cuda, void **stream) {
    staxi_cuda_enter(cuda);
    const int error =
        *stream ? cuda->driver.stream_free(*stream) : cuda->driver.stream_new(stream, 1);
    staxi_cuda_leave(cuda);
    return error == 0;
}

/* Calls in turn by threads or in streams, each of which reads what the one before has made; nothing
   waits in between. Another param is bound half way. Differences. */
static int chain_turns(chain *c, bool by_thread, stax_status *status) {
    static float data[2][CHAIN], want[3][CHAIN];
    const stax_shape shape = stax_shape1(CHAIN);
    stax_tensor dev[3], host[3], ref[3];
    void *streams[STREAMS] = {NULL};
    stax_status s = STAX_OK;
    int wrong = 0;
    memset(dev, 0, sizeof dev);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < CHAIN; i++) want[k][i] = k ? 0 : (float)(i % 5) * 0.5f;
        ref[k] = stax_tensor_of(STAX_F32, shape, want[k]);
        host[k] = stax_tensor_of(STAX_F32, shape, data[k % 2]);
        if (s == STAX_OK) s = stax_cuda_tensor_new(c->cuda, STAX_F32, shape, &dev[k]);
        if (s == STAX_OK) s = stax_cuda_copy_async(c->cuda, &dev[k], &ref[k]);
    }
    for (int r = 0; r < TURNS && s == STAX_OK; r++) {
        staxi_thread thread;
        turn t;
        const stax_tensor w = stax_tensor_of(STAX_F32, shape, c->w);
        stax_tensor slots[3];
        if (r == TURNS / 2) {
            for (int k = 0; k < CHAIN; k++) c->w[k] += 0.0625f;
            s = stax_cuda_bind(c->p, "w", &w);
        }
        t.c = c;
        t.in[0] = dev[r % 2];
        t.in[1] = dev[2];
        t.out = dev[1 - r % 2];
        if (!by_thread && r % 2 == 0 && !streams[r % STREAMS])
            wrong += !stream_of_driver(c->cuda, &streams[r % STREAMS]);
        t.stream = streams[r % STREAMS];
        t.s = STAX_E_MEMORY;
        if (by_thread && r % 3 && staxi_thread_start(&thread, take_turn, &t))
            staxi_thread_join(&thread);
        else
            take_turn(&t);
        if (t.stream && r % 4 == 0) { /* gone before its work has ended */
            wrong += !stream_of_driver(c->cuda, &streams[r % STREAMS]);
            streams[r % STREAMS] = NULL;
        }
        slots[0] = ref[r % 2];
        slots[1] = w;
        slots[2] = ref[2];
        if (s == STAX_OK) s = t.s;
        if (s == STAX_OK) s = stax_interpret(c->g, slots, &ref[1 - r % 2]);
    }
    for (int k = 0; k < 2 && s == STAX_OK; k++) { /* the newest output, the state */
        const int at = k ? 2 : TURNS % 2;
        s = stax_cuda_copy(c->cuda, &host[k], &dev[at]);
        wrong += memcmp(data[k], want[at], sizeof data[k]) != 0;
    }
    if (s == STAX_OK) s = stax_cuda_wait(c->cuda);
    for (int k = 0; k < STREAMS; k++)
        if (streams[k]) wrong += !stream_of_driver(c->cuda, &streams[k]);
    for (int k = 0; k < 3; k++) stax_cuda_tensor_free(c->cuda, &dev[k]);
    *status = s;
    return wrong;
}

/* Calls of one program by many threads at once, on host tensors and tensors of their own. */
typedef struct beside {
    chain *c;
    int seed, wrong;
    bool on_host;
    stax_status s;
    float x[CHAIN], state[CHAIN], y[CHAIN], want[2][CHAIN];
} beside;

static void run_beside(void *arg) {
    beside *b = (beside *)arg;
    const stax_shape shape = stax_shape1(CHAIN);
    stax_tensor in[2], y, slots[3], ref, dev[3], host[3];
    stax_status s = STAX_OK;
    memset(dev, 0, sizeof dev);
    for (int i = 0; i < CHAIN; i++) {
        b->x[i] = (float)((i + b->seed) % 11) * 0.25f;
        b->state[i] = b->want[0][i] = (float)b->seed;
    }
    slots[0] = host[0] = in[0] = stax_tensor_of(STAX_F32, shape, b->x);
    slots[1] = stax_tensor_of(STAX_F32, shape, b->c->w);
    slots[2] = stax_tensor_of(STAX_F32, shape, b->want[0]);
    host[1] = in[1] = stax_tensor_of(STAX_F32, shape, b->state);
    host[2] = y = stax_tensor_of(STAX_F32, shape, b->y);
    ref = stax_tensor_of(STAX_F32, shape, b->want[1]);
    for (int k = 0; k < 3 && !b->on_host && s == STAX_OK; k++) {
        s = stax_cuda_tensor_new(b->c->cuda, STAX_F32, shape, &dev[k]);
        if (s == STAX_OK) s = stax_cuda_copy_async(b->c->cuda, &dev[k], &host[k]);
        if (k < 2)
            in[k] = dev[k];
        else
            y = dev[k];
    }
    for (int r = 0; r < TURNS && s == STAX_OK; r++) {
        s = stax_cuda_run(b->c->p, in, &y);
        if (s == STAX_OK) s = stax_interpret(b->c->g, slots, &ref);
    }
    for (int k = 1; k < 3 && !b->on_host && s == STAX_OK; k++)
        s = stax_cuda_copy(b->c->cuda, &host[k], &dev[k]);
    b->wrong = memcmp(b->y, b->want[1], sizeof b->y) != 0 ||
               memcmp(b->state, b->want[0], sizeof b->state) != 0;
    for (int k = 0; k < 3; k++) stax_cuda_tensor_free(b->c->cuda, &dev[k]);
    b->s = s;
}

static int chain_beside(chain *c, stax_status *status) {
    static beside all[THREADS];
    staxi_thread threads[THREADS];
    int started = 0, wrong = 0;
    for (int k = 0; k < THREADS; k++) {
        all[k].c = c;
        all[k].seed = k;
        all[k].on_host = k % 2;
        if (k < THREADS - 1 && staxi_thread_start(&threads[started], run_beside, &all[k]))
            started++;
        else
            run_beside(&all[k]);
    }
    for (int k = 0; k < started; k++) staxi_thread_join(&threads[k]);
    for (int k = 0; k < THREADS; k++) {
        wrong += all[k].wrong;
        if (all[k].s != STAX_OK) *status = all[k].s;
    }
    return wrong;
}

static bool cuda_is_fake(const stax_cuda *cuda) {
    return strncmp(stax_cuda_name(cuda), "Fake device", 11) == 0;
}

static void check_streams(stax_context *ctx, tally *all) {
    static const char *const names[] = {"streams of callers", "threads in turn", "threads at once"};
    static chain c;
    for (int k = 0; k < 6; k++) {
        stax_cuda *cuda = stax_cuda_open(ctx, 0);
        stax_status s = STAX_OK;
        int wrong = 0;
        if (!cuda || !chain_make(&c, ctx, cuda, k >= 3))
            s = stax_error_status(ctx);
        else
            wrong = k % 3 < 2 ? chain_turns(&c, k % 3 == 1, &s) : chain_beside(&c, &s);
        if (s == STAX_OK && !wrong) {
            all->equal++;
        } else {
            printf("FAIL %s%s: %d differ; %s\n", names[k % 3], k >= 3 ? ", replayed" : "", wrong,
                   s == STAX_OK ? "" : stax_error(ctx));
            all->different++;
        }
        stax_cuda_program_free(c.p);
        stax_graph_free(c.g);
        stax_cuda_close(cuda);
    }
}

/* ---- copies through page-locked chunks ---- */

static void count_lines(void *user, const char *message) {
    if (strstr(message, "page-locked")) ++*(int *)user;
}

/* There and back, by one thread and by several; where the fake driver has no page-locked memory, by
   the driver, and the log says so once. */
static void check_staging(int threads, bool none, tally *all) {
    static const int64_t sizes[] = {1, 8192, 8193, 262144, 262145, 700001, 3000001};
    int lines = 0, wrong = 0;
    stax_options o = stax_options_default();
    o.n_threads = threads;
    o.log.func = count_lines;
    o.log.user = &lines;
    if (none) setenv("FAKE_PINNED", "0", 1);
    stax_context *ctx = stax_open(&o);
    stax_cuda *cuda = ctx ? stax_cuda_open(ctx, 0) : NULL;
    stax_status s = cuda ? STAX_OK : STAX_E_DEVICE;
    for (int k = 0; k < 7 && s == STAX_OK; k++) {
        const stax_shape shape = stax_shape1(sizes[k]);
        const size_t bytes = (size_t)sizes[k] * 4;
        float *a = (float *)malloc(bytes), *b = (float *)malloc(bytes);
        stax_tensor x, y, from = stax_tensor_of(STAX_F32, shape, a),
                          to = stax_tensor_of(STAX_F32, shape, b);
        for (int64_t i = 0; a && i < sizes[k]; i++) a[i] = (float)(i % 65537 + k);
        memset(&x, 0, sizeof x);
        memset(&y, 0, sizeof y);
        s = a && b ? stax_cuda_tensor_new(cuda, STAX_F32, shape, &x) : STAX_E_MEMORY;
        if (s == STAX_OK) s = stax_cuda_tensor_new(cuda, STAX_F32, shape, &y);
        if (s == STAX_OK) s = stax_cuda_copy_async(cuda, &x, &from);
        if (s == STAX_OK) s = stax_cuda_copy(cuda, &y, &x);
        if (s == STAX_OK) s = stax_cuda_copy(cuda, &to, &y);
        wrong += s == STAX_OK && memcmp(a, b, bytes) != 0;
        stax_cuda_tensor_free(cuda, &x);
        stax_cuda_tensor_free(cuda, &y);
        free(a);
        free(b);
    }
    wrong += lines != none;
    if (s == STAX_OK && !wrong) {
        all->equal++;
    } else {
        printf("FAIL staging, %d threads%s: %d differ, %d lines; %s\n", threads,
               none ? ", no page-locked memory" : "", wrong, lines, ctx ? stax_error(ctx) : "");
        all->different++;
    }
    stax_cuda_close(cuda);
    stax_close(ctx);
    unsetenv("FAKE_PINNED");
}

/* Every jobs-th graph, from number `job` on. */
static void check_share(int job, tally *t) {
    static recipe r;
    stax_context *ctx = stax_open(NULL);
    stax_cuda *cuda = ctx ? stax_cuda_open(ctx, 0) : NULL;
    if (!cuda) {
        printf("FAIL: %s\n", ctx ? stax_error(ctx) : "no context");
        t->not_compiled++;
        stax_close(ctx);
        return;
    }
    for (int k = job; settings.tables && k < N_SPECIALS; k += settings.jobs)
        if (recipe_special(&r, k)) check_recipe(ctx, cuda, &r, t);
    for (int k = job; settings.tables && k < N_SHAPES * SHAPED_OPS * 4; k += settings.jobs)
        check_shape(ctx, cuda, k / SHAPED_OPS % N_SHAPES, k % SHAPED_OPS,
                    shaped_dtypes[k / SHAPED_OPS / N_SHAPES], t);
    for (int k = job; k < settings.tensor * 10; k += settings.jobs) {
        static const stax_dtype dtypes[] = {STAX_BF16, STAX_F16, STAX_BF16, STAX_F16, STAX_F32};
        check_tensor(ctx, cuda, k / 10, dtypes[k % 5], k % 5 == 2 || k % 5 == 3, k % 10 < 5, t);
    }
    if (job == 0) check_bad_index(ctx, cuda, t);
    if (job == 0) check_async(ctx, cuda, t);
    if (job == 0) check_replay(ctx, cuda, t);
    if (job == 0) check_kept(ctx, cuda, t);
    if (job == 0) check_devices(ctx, t);
    if (job == 0) check_atomics(ctx, cuda, t);
    if (job == 0) check_streams(ctx, t);
    if (job == 0) check_staging(1, false, t);
    if (job == 0) check_staging(4, false, t);
    if (job == 0 && cuda_is_fake(cuda)) check_staging(4, true, t);
    for (int64_t k = job; k < settings.count; k += settings.jobs) {
        recipe_make(&r, (uint64_t)(t->seed = settings.seed + k));
        check_recipe(ctx, cuda, &r, t);
        if (settings.wide && k % 4 == 0) {
            recipe_make_sized(&r, (uint64_t)(settings.seed + k), 1);
            check_recipe(ctx, cuda, &r, t);
        }
        fflush(stdout);
    }
    stax_cuda_close(cuda);
    stax_close(ctx);
}

static int check_all(void) {
    tally *t = (tally *)mmap(NULL, MAX_JOBS * sizeof *t, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0),
          sum;
    pid_t child[MAX_JOBS];
    int crashed = 0;
    memset(&sum, 0, sizeof sum);
    if (t == MAP_FAILED) return 1;
    fflush(stdout);
    for (int k = 0; k < settings.jobs; k++)
        if ((child[k] = fork()) == 0) {
            check_share(k, &t[k]);
            fflush(stdout);
            _exit(0);
        }
    for (int k = 0, status; k < settings.jobs; k++) {
        waitpid(child[k], &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
        printf("FAIL seed %lld: the process that ran it crashed (0: before the first graph)\n",
               (long long)t[k].seed);
        crashed++;
    }
    for (int k = 0; k < settings.jobs; k++) {
        sum.equal += t[k].equal;
        sum.same_error += t[k].same_error;
        sum.different += t[k].different;
        sum.not_compiled += t[k].not_compiled;
        sum.left_out += t[k].left_out;
    }
    printf(
        "calls with equal bits %lld, the same error %lld, different %lld; graphs that did not "
        "compile %lld, left out (the CPU refuses them too) %lld; processes that "
        "crashed %d\n",
        (long long)sum.equal, (long long)sum.same_error, (long long)sum.different,
        (long long)sum.not_compiled, (long long)sum.left_out, crashed);
    printf("%lld passed, %lld failed\n", (long long)(sum.equal + sum.same_error),
           (long long)(sum.different + sum.not_compiled + crashed));
    return sum.different + sum.not_compiled + crashed != 0;
}

/* ---- times ------------------------------------------------------------------------------------
 */

typedef struct events {
    int (*make)(void **e, unsigned flags);
    int (*record)(void *e, void *stream);
    int (*wait)(void *e);
    int (*elapsed)(float *ms, void *from, void *to);
    void *from, *to;
} events;

static int events_make(events *e, stax_cuda *cuda) {
    const struct {
        const char *name;
        void *field;
    } rows[] = {{"cuEventCreate", &e->make},
                {"cuEventRecord", &e->record},
                {"cuEventSynchronize", &e->wait},
                {"cuEventElapsedTime", &e->elapsed}};
    for (int k = 0; k < 4; k++) {
        void *symbol = staxi_dl_symbol(cuda->driver.library, rows[k].name);
        if (!symbol) return 0;
        memcpy(rows[k].field, &symbol, sizeof symbol);
    }
    staxi_cuda_enter(cuda);
    int ok = e->make(&e->from, 0) == 0 && e->make(&e->to, 0) == 0;
    staxi_cuda_leave(cuda);
    return ok;
}

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

static stax_value relu_sum(stax_value x, stax_value w) {
    return stax_sum(stax_mul(stax_relu(stax_add(x, w)), stax_const(x.graph, 2.0)), stax_axes1(1),
                    false);
}
static stax_value plus_one(stax_value x, stax_value w) {
    return (void)w, stax_add(x, stax_const(x.graph, 1.0));
}
static stax_value turned(stax_value x, stax_value w) {
    return (void)w, stax_add(stax_transpose(x), stax_const(x.graph, 1.0));
}
static stax_value running(stax_value x, stax_value w) {
    return (void)w, stax_cumsum(x, 1, false, false);
}
static stax_value exponential(stax_value x, stax_value w) { return (void)w, stax_exp(x); }
static stax_value layer_norm(stax_value x, stax_value w) {
    return stax_layer_norm(x, w, stax_none(), stax_axes1(1), 1e-5);
}

static stax_value rectified(stax_value x, stax_value w) { return (void)w, stax_relu(x); }
static stax_value row_max(stax_value x, stax_value w) {
    return (void)w, stax_max(x, stax_axes1(1), false);
}
static stax_value row_var(stax_value x, stax_value w) {
    return (void)w, stax_var(x, stax_axes1(1), 0, false);
}
static stax_value row_argmax(stax_value x, stax_value w) {
    return (void)w, stax_argmax(x, 1, false);
}
static stax_value shares(stax_value x, stax_value w) {
    return (void)w, stax_div(x, stax_sum(x, stax_axes1(1), true));
}
static stax_value norm_gelu(stax_value x, stax_value w) {
    return stax_mul(stax_gelu(layer_norm(x, w), "none"), stax_const(x.graph, 0.5));
}

typedef struct timing {
    const char *name;
    make_fn make;
    double gigabytes; /* that must be read and written */
} timing;

enum { ROWS = 16384, COLUMNS = 8192 };
#define ONCE ((double)ROWS * COLUMNS * 4 / 1e9)
static const timing timings[] = {{"row sum", row_sum, ONCE},
                                 {"column sum", column_sum, ONCE},
                                 {"full sum", full_sum, ONCE},
                                 {"(relu(x+w)*2).sum(1)", relu_sum, ONCE},
                                 {"exp(x).sum(1), x.amax(1)", NULL, ONCE},
                                 {"softmax(1)", softmax, 2 * ONCE},
                                 {"layer_norm", layer_norm, 2 * ONCE},
                                 {"x + 1", plus_one, 2 * ONCE},
                                 {"exp(x)", exponential, 2 * ONCE},
                                 {"transpose + 1", turned, 2 * ONCE},
                                 {"cumsum(1)", running, 2 * ONCE},
                                 {"relu(x)", rectified, 2 * ONCE},
                                 {"row amax", row_max, ONCE},
                                 {"var(1)", row_var, ONCE},
                                 {"argmax(1)", row_argmax, ONCE},
                                 {"x / x.sum(1)", shares, 2 * ONCE},
                                 {"gelu(layer_norm) * 0.5", norm_gelu, 2 * ONCE}};

/* The median of 30 calls by events, after three; the inputs are taken from n_sets in turn. -1: has
 * said why. */
static double median_ms(stax_context *ctx, stax_cuda *cuda, events *e, stax_cuda_program *p,
                        const stax_tensor *in, int n_in, int n_sets, const stax_tensor *out) {
    float ms[33];
    void *stream = stax_cuda_stream(cuda);
    for (int k = 0; k < 33; k++) {
        staxi_cuda_enter(cuda);
        e->record(e->from, stream);
        staxi_cuda_leave(cuda);
        stax_status s = stax_cuda_run(p, in + (size_t)(k % n_sets) * (size_t)n_in, out);
        staxi_cuda_enter(cuda);
        e->record(e->to, stream);
        e->wait(e->to);
        e->elapsed(&ms[k], e->from, e->to);
        staxi_cuda_leave(cuda);
        if (s == STAX_OK) continue;
        printf("FAIL times: %s\n", stax_error(ctx));
        return -1;
    }
    qsort(ms + 3, 30, sizeof ms[0], by_size);
    return (double)ms[18];
}

static void time_one(stax_context *ctx, stax_cuda *cuda, events *e, const timing *row,
                     const stax_tensor *in) {
    stax_graph *g = stax_graph_new(ctx);
    stax_value x = stax_input(g, "x", STAX_F32, stax_shape2(ROWS, COLUMNS)),
               w = stax_input(g, "w", STAX_F32, stax_shape1(COLUMNS));
    stax_tensor out[2];
    int n_out = row->make ? 1 : 2;
    if (row->make) {
        stax_output(g, "y", row->make(x, w));
    } else {
        stax_output(g, "y", stax_sum(stax_exp(x), stax_axes1(1), false));
        stax_output(g, "z", stax_max(x, stax_axes1(1), false));
    }
    stax_cuda_program *p = stax_cuda_compile(cuda, g, NULL);
    if (!p) printf("FAIL %s: %s\n", row->name, stax_error(ctx));
    memset(out, 0, sizeof out);
    for (int k = 0; k < n_out; k++) {
        stax_output_info info;
        stax_graph_output(g, k, &info);
        if (stax_cuda_tensor_new(cuda, info.dtype, info.shape, &out[k]) != STAX_OK)
            printf("FAIL %s: %s\n", row->name, stax_error(ctx));
    }
    double ms = p ? median_ms(ctx, cuda, e, p, in, 2, 1, out) : -1;
    if (ms > 0)
        printf("stax   %-26s %8.4f ms %7.0f GB/s, kernels %d\n", row->name, ms,
               row->gigabytes / ms * 1e3, stax_cuda_kernels(p));
    for (int k = 0; k < n_out; k++) stax_cuda_tensor_free(cuda, &out[k]);
    stax_cuda_program_free(p);
    stax_graph_free(g);
}

/* ---- contractions: a[m, k] b[k, n], some with a bias and gelu ---- */

typedef struct product_timing {
    const char *name;
    stax_dtype dtype;
    int64_t m, n, k;
    int finish, sets; /* bias and gelu; pairs of operands in turn, so that no cache holds them */
    int tensor;       /* tensor cores: 1 the best, 2 mma.sync                                  */
} product_timing;

static const product_timing products[] = {
    {"f32 matmul 4096", STAX_F32, 4096, 4096, 4096, 0, 1, 0},
    {"f32 matmul 4096 bias gelu", STAX_F32, 4096, 4096, 4096, 1, 1, 0},
    {"tf32 matmul 4096", STAX_F32, 4096, 4096, 4096, 0, 1, 2},
    {"bf16 matmul 4096", STAX_BF16, 4096, 4096, 4096, 0, 1, 1},
    {"bf16 matmul 4096 mma.sync", STAX_BF16, 4096, 4096, 4096, 0, 1, 2},
    {"bf16 matmul 4096 bias gelu", STAX_BF16, 4096, 4096, 4096, 1, 1, 1},
    {"f16 matmul 8192 bias gelu", STAX_F16, 8192, 8192, 8192, 1, 1, 1},
    {"bf16 16 x 4096 x 4096", STAX_BF16, 16, 4096, 4096, 0, 8, 1}};

/* Shapes that no table foresees, by table and tuned. */
static const product_timing odd_products[] = {
    {"f32 1000 x 3000 x 777", STAX_F32, 1000, 3000, 777, 0, 1, 0},
    {"f32 64 x 8192 x 8192", STAX_F32, 64, 8192, 8192, 0, 1, 0},
    {"f32 300 x 300 x 3000", STAX_F32, 300, 300, 3000, 0, 1, 0},
    {"bf16 1000 x 3000 x 776", STAX_BF16, 1000, 3000, 776, 0, 1, 1},
    {"bf16 1000 x 3000 x 776 mma", STAX_BF16, 1000, 3000, 776, 0, 1, 2}};

static stax_graph *product_graph(stax_context *ctx, const product_timing *row) {
    stax_graph *g = stax_graph_new(ctx);
    stax_value a = stax_input(g, "a", row->dtype, stax_shape2(row->m, row->k)),
               b = stax_input(g, "b", row->dtype, stax_shape2(row->k, row->n)),
               c = stax_input(g, "c", row->dtype, stax_shape1(row->n)), y = stax_matmul(a, b);
    stax_output(g, "y", row->finish ? stax_gelu(stax_add(y, c), NULL) : y);
    return g;
}

static void time_product(stax_context *ctx, stax_cuda *cuda, events *e, const product_timing *row,
                         bool tune) {
    enum { MOST_SETS = 8 };
    stax_tensor in[MOST_SETS * 3], y;
    stax_shape shapes_of[3];
    shapes_of[0] = stax_shape2(row->m, row->k);
    shapes_of[1] = stax_shape2(row->k, row->n);
    shapes_of[2] = stax_shape1(row->n);
    stax_graph *g = product_graph(ctx, row);
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.tensor_cores = o.tf32 = row->tensor > 0;
    o.tune = tune;
    if (row->tensor == 2) setenv("STAX_CUDA_MMA", "1", 1);
    stax_cuda_program *p = stax_cuda_compile(cuda, g, &o);
    unsetenv("STAX_CUDA_MMA");
    stax_status s = p ? stax_cuda_tensor_new(cuda, row->dtype, stax_shape2(row->m, row->n), &y)
                      : stax_error_status(ctx);
    memset(in, 0, sizeof in);
    for (int k = 0; k < row->sets * 3 && s == STAX_OK; k++) {
        const stax_shape shape = shapes_of[k % 3];
        int64_t n = shape.dims[0] * (shape.rank > 1 ? shape.dims[1] : 1);
        void *data = malloc((size_t)n * stax_dtype_bytes(row->dtype));
        stax_tensor host = stax_tensor_of(row->dtype, shape, data);
        if (data) random_fill(data, row->dtype, n, (uint64_t)k + 1);
        s = data ? stax_cuda_tensor_new(cuda, row->dtype, shape, &in[k]) : STAX_E_MEMORY;
        if (s == STAX_OK) s = stax_cuda_copy(cuda, &in[k], &host);
        free(data);
    }
    if (s != STAX_OK) printf("FAIL %s: %s\n", row->name, stax_error(ctx));
    double ms = s == STAX_OK ? median_ms(ctx, cuda, e, p, in, 3, row->sets, &y) : -1,
           work = 2.0 * (double)row->m * (double)row->n * (double)row->k;
    if (ms > 0)
        printf("stax   %-26s %8.4f ms %7.1f TFLOP/s, kernels %d, %s%s%s\n", row->name, ms,
               work / ms * 1e-9, stax_cuda_kernels(p),
               o.tensor_cores ? "tensor cores" : "the interpreter's bits", tune ? "; " : "",
               stax_cuda_tuning(p));
    for (int k = 0; k < row->sets * 3; k++) stax_cuda_tensor_free(cuda, &in[k]);
    if (p) stax_cuda_tensor_free(cuda, &y);
    stax_cuda_program_free(p);
    stax_graph_free(g);
}

/* The rounds on 1024 elements, kernel by kernel and replayed. */
static void time_rounds(stax_context *ctx, stax_cuda *cuda, events *e) {
    stax_graph *g = stax_graph_new(ctx);
    stax_shape shape = stax_shape1(1024);
    stax_tensor x, y;
    stax_output(g, "y", rounds(stax_input(g, "x", STAX_F32, shape)));
    for (int replayed = 0; replayed < 2; replayed++) {
        stax_compile_options o;
        memset(&o, 0, sizeof o);
        o.reduce_overhead = replayed == 1;
        stax_cuda_program *p = stax_cuda_compile(cuda, g, &o);
        memset(&x, 0, sizeof x);
        memset(&y, 0, sizeof y);
        if (p && stax_cuda_tensor_new(cuda, STAX_F32, shape, &x) == STAX_OK &&
            stax_cuda_tensor_new(cuda, STAX_F32, shape, &y) == STAX_OK) {
            double ms = median_ms(ctx, cuda, e, p, &x, 1, 1, &y);
            printf("stax   20 x sin, cumsum, *0.5%s %8.4f ms, kernels %d\n",
                   replayed ? ", replayed" : "", ms, stax_cuda_kernels(p));
        } else {
            printf("FAIL rounds: %s\n", stax_error(ctx));
        }
        stax_cuda_tensor_free(cuda, &x);
        stax_cuda_tensor_free(cuda, &y);
        stax_cuda_program_free(p);
    }
    stax_graph_free(g);
}

/* Example 5.1, a training step: the sum of gelu(x W) and both gradients. */
static void time_step(stax_context *ctx, stax_cuda *cuda, events *e) {
    stax_graph *g = stax_graph_new(ctx);
    stax_value by[2], slopes[2];
    stax_tensor in[2], out[3];
    const stax_shape scalar = {{0}, 0};
    for (int k = 0; k < 2; k++)
        by[k] = stax_input(g, k ? "w" : "x", STAX_F32, stax_shape2(k ? 1024 : 4096, 1024));
    stax_value loss =
        stax_sum(stax_gelu(stax_matmul(by[0], by[1]), "none"), stax_axes_all(), false);
    stax_status s = stax_grad(loss, by, 2, slopes);
    stax_output(g, "loss", loss);
    for (int k = 0; k < 2; k++) stax_output(g, k ? "dw" : "dx", slopes[k]);
    stax_cuda_program *p = s == STAX_OK ? stax_cuda_compile(cuda, g, NULL) : NULL;
    memset(in, 0, sizeof in);
    memset(out, 0, sizeof out);
    s = p ? stax_cuda_tensor_new(cuda, STAX_F32, scalar, &out[0]) : s;
    for (int k = 0; k < 4 && p && s == STAX_OK; k++) {
        const stax_shape shape = stax_shape2(k % 2 ? 1024 : 4096, 1024);
        s = stax_cuda_tensor_new(cuda, STAX_F32, shape, k < 2 ? &in[k] : &out[k - 1]);
        float *data = k < 2 ? (float *)malloc((size_t)shape.dims[0] * 1024 * sizeof *data) : NULL;
        if (!data) continue;
        random_fill(data, STAX_F32, shape.dims[0] * 1024, (uint64_t)k + 1);
        const stax_tensor host = stax_tensor_of(STAX_F32, shape, data);
        if (s == STAX_OK) s = stax_cuda_copy(cuda, &in[k], &host);
        free(data);
    }
    if (!p || s != STAX_OK) printf("FAIL step of Example 5.1: %s\n", stax_error(ctx));
    double ms = p && s == STAX_OK ? median_ms(ctx, cuda, e, p, in, 2, 1, out) : -1;
    if (ms > 0)
        printf("stax   %-26s %8.4f ms %7.1f TFLOP/s, kernels %d, the interpreter's bits\n",
               "gelu(xW).sum, both grads", ms, 3 * 2.0 * 4096 * 1024 * 1024 / ms * 1e-9,
               stax_cuda_kernels(p));
    for (int k = 0; k < 5; k++) stax_cuda_tensor_free(cuda, k < 2 ? &in[k] : &out[k - 2]);
    stax_cuda_program_free(p);
    stax_graph_free(g);
}

static void time_all(stax_context *ctx, stax_cuda *cuda) {
    events e;
    stax_tensor in[2];
    size_t n = (size_t)ROWS * COLUMNS;
    float *data = (float *)malloc(n * sizeof *data);
    dice d = {7};
    if (!data || !events_make(&e, cuda)) return;
    for (size_t k = 0; k < n; k++) data[k] = (float)(dice_unit(&d) * 2 - 1);
    stax_tensor host[2];
    host[0] = stax_tensor_of(STAX_F32, stax_shape2(ROWS, COLUMNS), data);
    host[1] = stax_tensor_of(STAX_F32, stax_shape1(COLUMNS), data);
    int ok = 1;
    for (int k = 0; k < 2; k++) {
        stax_shape s = k ? stax_shape1(COLUMNS) : stax_shape2(ROWS, COLUMNS);
        ok = ok && stax_cuda_tensor_new(cuda, STAX_F32, s, &in[k]) == STAX_OK &&
             stax_cuda_copy(cuda, &in[k], &host[k]) == STAX_OK;
    }
    printf("times: f32[%d, %d] on %s\n", (int)ROWS, (int)COLUMNS, stax_cuda_name(cuda));
    for (size_t k = 0; ok && k < sizeof timings / sizeof timings[0]; k++)
        time_one(ctx, cuda, &e, &timings[k], in);
    for (size_t k = 0; ok && k < sizeof products / sizeof products[0]; k++)
        time_product(ctx, cuda, &e, &products[k], false);
    for (size_t k = 0; ok && k < 2 * sizeof odd_products / sizeof odd_products[0]; k++)
        time_product(ctx, cuda, &e, &odd_products[k / 2], k % 2 == 1);
    if (ok) time_step(ctx, cuda, &e);
    if (ok) time_rounds(ctx, cuda, &e);
    for (int k = 0; k < 2; k++) stax_cuda_tensor_free(cuda, &in[k]);
    free(data);
}

/* Compiles and calls x -> exp(x) + 1 on 8 elements; *ms until the result is there. NULL: has said
 * why. */
static stax_cuda_program *first_call(stax_context *ctx, stax_cuda *cuda, const stax_graph *g,
                                     bool replays, const stax_tensor *x, const stax_tensor *y,
                                     double *ms) {
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.reduce_overhead = replays;
    int64_t start = staxi_clock_ns();
    stax_cuda_program *p = stax_cuda_compile(cuda, g, &o);
    stax_status s = p ? stax_cuda_run(p, x, y) : stax_error_status(ctx);
    if (s == STAX_OK) s = stax_cuda_wait(cuda);
    *ms = (double)(staxi_clock_ns() - start) * 1e-6;
    if (s == STAX_OK) return p;
    printf("FAIL calls: %s\n", stax_error(ctx));
    stax_cuda_program_free(p);
    return NULL;
}

/* A call on 8 elements: microseconds between its begin and its result, and of one among many that
   are queued; medians. */
static void time_short_calls(stax_cuda *cuda, stax_cuda_program *p, const stax_tensor *x,
                             const stax_tensor *y, double *alone, double *queued) {
    enum { READINGS = 101, CALLS = 1000, ALONE = 100 };
    float us[2][READINGS];
    for (int r = 0; r < READINGS; r++) {
        for (int many = 0; many < 2; many++) {
            const int calls = many ? CALLS : ALONE;
            const int64_t start = staxi_clock_ns();
            for (int k = 0; k < calls; k++) {
                (void)stax_cuda_run(p, x, y);
                if (y->device && (!many || k + 1 == calls)) (void)stax_cuda_wait(cuda);
            }
            us[many][r] = (float)((double)(staxi_clock_ns() - start) * 1e-3 / calls);
        }
    }
    for (int many = 0; many < 2; many++) qsort(us[many], READINGS, sizeof us[0][0], by_size);
    *alone = (double)us[0][READINGS / 2];
    *queued = (double)us[1][READINGS / 2];
}

/* What calls on 8 elements take, launched and replayed, with device and host tensors. */
static void time_calls_of(stax_context *ctx, stax_cuda *cuda, const stax_graph *g,
                          const stax_tensor *x, const stax_tensor *y) {
    static float data[2][8];
    const stax_tensor host[2] = {stax_tensor_of(STAX_F32, stax_shape1(8), data[0]),
                                 stax_tensor_of(STAX_F32, stax_shape1(8), data[1])};
    double first[2] = {0, 0}, alone = 0, queued = 0;
    for (int replays = 0; replays < 2; replays++) {
        stax_cuda_program *p[2];
        for (int k = 0; k < 2; k++) p[k] = first_call(ctx, cuda, g, replays, x, y, &first[k]);
        if (p[0] && p[1]) {
            if (!replays)
                printf(
                    "calls: the first after the device is open, compiled %.1f ms (bar 300)\n"
                    "calls: the first, cached %.2f ms (bar 5)\n",
                    first[0], first[1]);
            const char *how = replays ? "replayed" : "launched";
            time_short_calls(cuda, p[1], x, y, &alone, &queued);
            printf(
                "calls: on 8 elements, %s, %.2f us with its result, %.2f us each of many "
                "(bar 6)\n",
                how, alone, queued);
            time_short_calls(cuda, p[1], &host[0], &host[1], &alone, &queued);
            printf("calls: on 8 elements in host memory, %s, %.2f us with its result\n", how,
                   alone);
        }
        for (int k = 0; k < 2; k++) stax_cuda_program_free(p[k]);
    }
}

/* In a context with an empty cache of its own. */
static void time_calls(void) {
    char folder[] = "/tmp/cuda_device_XXXXXX";
    stax_options o = stax_options_default();
    o.cache_dir = mkdtemp(folder);
    stax_context *ctx = o.cache_dir ? stax_open(&o) : NULL;
    stax_cuda *cuda = ctx ? stax_cuda_open(ctx, 0) : NULL;
    stax_graph *g = cuda ? stax_graph_new(ctx) : NULL;
    stax_tensor x, y;
    stax_shape shape = stax_shape1(8);
    if (g && stax_cuda_tensor_new(cuda, STAX_F32, shape, &x) == STAX_OK &&
        stax_cuda_tensor_new(cuda, STAX_F32, shape, &y) == STAX_OK) {
        stax_value v = stax_exp(stax_input(g, "x", STAX_F32, shape));
        stax_output(g, "y", stax_add(v, stax_const(g, 1.0)));
        time_calls_of(ctx, cuda, g, &x, &y);
        stax_cuda_tensor_free(cuda, &x);
        stax_cuda_tensor_free(cuda, &y);
        (void)stax_cache_clear(ctx);
    } else {
        printf("FAIL calls: %s\n", ctx ? stax_error(ctx) : "no context");
    }
    stax_graph_free(g);
    stax_cuda_close(cuda);
    stax_close(ctx);
    if (o.cache_dir) (void)rmdir(folder);
}

/* Copies of host memory that is not page-locked: of one thread, and of as many as may stage. */
static void time_copies(int threads) {
    static const int64_t kilobytes[] = {64, 1024, 16384, 262144};
    stax_options o = stax_options_default();
    o.n_threads = threads;
    stax_context *ctx = stax_open(&o);
    stax_cuda *cuda = ctx ? stax_cuda_open(ctx, 0) : NULL;
    for (int k = 0; k < 4 && cuda; k++) {
        const stax_shape shape = stax_shape1(kilobytes[k] * 256);
        float ms[2][15];
        float *data = (float *)malloc((size_t)kilobytes[k] * 1024);
        stax_tensor x, host = stax_tensor_of(STAX_F32, shape, data);
        if (!data || stax_cuda_tensor_new(cuda, STAX_F32, shape, &x) != STAX_OK) break;
        memset(data, 1, (size_t)kilobytes[k] * 1024);
        for (int r = 0; r < 30; r++) {
            const int64_t start = staxi_clock_ns();
            (void)(r % 2 ? stax_cuda_copy(cuda, &host, &x) : stax_cuda_copy(cuda, &x, &host));
            ms[r % 2][r / 2] = (float)((double)(staxi_clock_ns() - start) * 1e-6);
        }
        for (int way = 0; way < 2; way++) qsort(ms[way], 15, sizeof ms[0][0], by_size);
        printf("copies: %6lld KiB, %2d threads: there %.3f ms, back %.3f ms\n",
               (long long)kilobytes[k], threads, (double)ms[0][7], (double)ms[1][7]);
        stax_cuda_tensor_free(cuda, &x);
        free(data);
    }
    stax_cuda_close(cuda);
    stax_close(ctx);
}

/* A million updates in 65536 places: atomic, and as a step of the host. */
static void time_scatter(stax_context *ctx, stax_cuda *cuda) {
    enum { PLACES = 65536, UPDATES = 1000000 };
    stax_graph *g = stax_graph_new(ctx);
    const stax_shape shapes_of[3] = {stax_shape1(PLACES), stax_shape1(UPDATES),
                                     stax_shape1(UPDATES)};
    stax_value v[3];
    stax_tensor in[3], y;
    stax_status s = stax_cuda_tensor_new(cuda, STAX_F32, shapes_of[0], &y);
    memset(in, 0, sizeof in);
    for (int k = 0; k < 3 && s == STAX_OK; k++) {
        const stax_dtype t = k == 1 ? STAX_I32 : STAX_F32;
        int32_t *data = (int32_t *)calloc((size_t)shapes_of[k].dims[0], 4);
        const stax_tensor host = stax_tensor_of(t, shapes_of[k], data);
        v[k] = stax_input(g, k == 0 ? "x" : k == 1 ? "i" : "u", t, shapes_of[k]);
        for (int i = 0; data && k == 1 && i < UPDATES; i++)
            data[i] = (int32_t)((int64_t)i * 7919 % PLACES);
        s = data ? stax_cuda_tensor_new(cuda, t, shapes_of[k], &in[k]) : STAX_E_MEMORY;
        if (s == STAX_OK) s = stax_cuda_copy(cuda, &in[k], &host);
        free(data);
    }
    if (s == STAX_OK) stax_output(g, "y", stax_scatter(v[0], v[1], v[2], 0, "add"));
    for (int atomic = 0; atomic < 2 && s == STAX_OK; atomic++) {
        stax_compile_options o;
        float ms[11];
        memset(&o, 0, sizeof o);
        o.atomics = atomic;
        stax_cuda_program *p = stax_cuda_compile(cuda, g, &o);
        s = p ? STAX_OK : stax_error_status(ctx);
        for (int r = 0; r < 11 && s == STAX_OK; r++) {
            const int64_t start = staxi_clock_ns();
            s = stax_cuda_run(p, in, &y);
            (void)stax_cuda_wait(cuda);
            ms[r] = (float)((double)(staxi_clock_ns() - start) * 1e-6);
        }
        qsort(ms, 11, sizeof ms[0], by_size);
        if (s == STAX_OK)
            printf("scatter: 1000000 f32 in 65536 places, %s, %.3f ms with its result\n",
                   atomic ? "atomic" : "by the host", (double)ms[5]);
        stax_cuda_program_free(p);
    }
    if (s != STAX_OK) printf("FAIL scatter: %s\n", stax_error(ctx));
    for (int k = 0; k < 3; k++) stax_cuda_tensor_free(cuda, &in[k]);
    stax_cuda_tensor_free(cuda, &y);
    stax_graph_free(g);
}

/* ---- main -------------------------------------------------------------------------------------
 */

static int64_t option(int argc, char **argv, const char *name, int64_t otherwise) {
    size_t n = strlen(name);
    for (int k = 1; k < argc; k++)
        if (strncmp(argv[k], name, n) == 0 && (argv[k][n] == '=' || !argv[k][n]))
            return argv[k][n] == '=' ? strtoll(argv[k] + n + 1, NULL, 10) : 1;
    return otherwise;
}

/* Whether there is a device is asked in a process of its own: CUDA does not survive a fork. */
static int device_is_there(void) {
    int status = 0;
    fflush(stdout);
    if (fork() == 0) {
        stax_context *ctx = stax_open(NULL);
        stax_status s = ctx ? stax_cuda_available(ctx) : STAX_E_MEMORY;
        if (s != STAX_OK) printf("skip cuda_device: %s\n", ctx ? stax_error(ctx) : "no memory");
        fflush(stdout);
        _exit(s != STAX_OK);
    }
    return wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv) {
    settings.count = option(argc, argv, "--count", settings.count);
    settings.seed = option(argc, argv, "--seed", settings.seed);
    settings.tables = option(argc, argv, "--tables", settings.tables);
    settings.wide = option(argc, argv, "--wide", settings.wide);
    settings.times = option(argc, argv, "--times", settings.times);
    settings.one = option(argc, argv, "--one", 0);
    settings.tensor = option(argc, argv, "--tensor", N_TENSOR_SHAPES);
    if (settings.tensor > N_TENSOR_SHAPES) settings.tensor = N_TENSOR_SHAPES;
    settings.jobs = (int)option(argc, argv, "--jobs", settings.jobs);
    if (settings.jobs < 1 || settings.jobs > MAX_JOBS) settings.jobs = MAX_JOBS;
    if (settings.one)
        settings.jobs = 1, settings.count = 1,
        settings.tables = settings.times = settings.tensor = 0;
    if (!device_is_there()) {
        printf("0 passed, 0 failed\n");
        return 0;
    }
    int failed = check_all();
    if (settings.times) {
        stax_context *ctx = stax_open(NULL);
        stax_cuda *cuda = ctx ? stax_cuda_open(ctx, 0) : NULL;
        time_calls();
        for (int threads = 1; threads <= 8; threads += 7) time_copies(threads);
        if (cuda) time_scatter(ctx, cuda);
        if (cuda && settings.times != 2) time_all(ctx, cuda);
        stax_cuda_close(cuda);
        stax_close(ctx);
    }
    return failed;
}
