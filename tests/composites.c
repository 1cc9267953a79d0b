/* Composite ops: values worked out by hand or by plain loops, edge shapes, errors.
   A case is text: statements that define y, and y as a constant. Bits are compared, and what
   compiled programs give of the files in tests/corpus/good that have these ops. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "feed.h"
#include "harness.h"
#include "heap.h"
#include "programs.h"

/* What the graph gives when it is interpreted: its single output in fresh memory, or NULL. */
static unsigned char *output_of(const char *text, stax_tensor *out) {
    stax_graph *g = stax_parse(ctx, "case", text);
    stax_output_info info;
    unsigned char *data = NULL;
    size_t bytes;
    if (!g || !stax_graph_output(g, 0, &info)) {
        stax_graph_free(g);
        return NULL;
    }
    bytes = stax_dtype_bytes(info.dtype);
    for (int d = 0; d < info.shape.rank; d++) bytes *= (size_t)info.shape.dims[d];
    data = (unsigned char *)calloc(bytes + 1, 1);
    *out = stax_tensor_of(info.dtype, info.shape, data);
    if (data && stax_interpret(g, NULL, out) != STAX_OK) {
        free(data);
        data = NULL;
    }
    stax_graph_free(g);
    return data;
}

static char *with_return(const char *body) {
    size_t n = strlen(body) + 64;
    char *text = (char *)malloc(n);
    snprintf(text, n, "graph g() {\n%s\nreturn y\n}\n", body);
    return text;
}

static int64_t elements(const stax_tensor *t) {
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= t->shape[d];
    return n;
}

/* For messages: floats as numbers, all else as its bytes. */
static void say_element(const char *what, const stax_tensor *t, int64_t k) {
    size_t size = stax_dtype_bytes(t->dtype);
    const unsigned char *p = (const unsigned char *)t->data + (size_t)k * size;
    float f;
    double d;
    printf("%s", what);
    if (t->dtype == STAX_F32) {
        memcpy(&f, p, sizeof f);
        printf("%.9g", (double)f);
    } else if (t->dtype == STAX_F64) {
        memcpy(&d, p, sizeof d);
        printf("%.17g", d);
    } else {
        for (size_t b = 0; b < size; b++) printf("%s%02x", b ? " " : "", p[b]);
    }
}

static void gives_at(const char *body, const char *want, int line) {
    char *text = with_return(body), *constant = (char *)malloc(strlen(want) + 64);
    stax_tensor a, b;
    unsigned char *got = output_of(text, &a), *wanted;
    snprintf(constant, strlen(want) + 64, "graph w() {\ny = const %s\nreturn y\n}\n", want);
    if (!got && harness_bad(__FILE__, line)) printf("%s\n%s\n", stax_error(ctx), body);
    wanted = got ? output_of(constant, &b) : NULL;
    if (got && !wanted && harness_bad(__FILE__, line)) printf("%s\n%s\n", stax_error(ctx), want);
    if (got && wanted) {
        int same = a.dtype == b.dtype && a.rank == b.rank;
        for (int d = 0; same && d < a.rank; d++) same = a.shape[d] == b.shape[d];
        if (!same && harness_bad(__FILE__, line)) {
            printf("the type is %s[", stax_dtype_name(a.dtype));
            for (int d = 0; d < a.rank; d++) printf("%d,", (int)a.shape[d]);
            printf("], expected that of %s\n%s\n", want, body);
        }
        size_t size = stax_dtype_bytes(a.dtype);
        for (int64_t k = 0; same && k < elements(&a); k++) {
            if (memcmp(got + (size_t)k * size, wanted + (size_t)k * size, size) == 0) continue;
            if (harness_bad(__FILE__, line)) {
                printf("element %d", (int)k);
                say_element(" is ", &a, k);
                say_element(", expected ", &b, k);
                printf("\n%s\n", body);
            }
            break;
        }
    }
    free(got);
    free(wanted);
    free(text);
    free(constant);
}

/* The message must hold every piece of `words`, which are separated by '|'. */
static void refuses_at(const char *body, stax_status status, const char *words, int line) {
    char *text = with_return(body), piece[200];
    stax_tensor a;
    unsigned char *got = output_of(text, &a);
    int good = !got && stax_error_status(ctx) == status;
    while (good && *words) {
        size_t n = strcspn(words, "|");
        snprintf(piece, sizeof piece, "%.*s", (int)n, words);
        good = strstr(stax_error(ctx), piece) != NULL;
        if (good) words += n + (words[n] == '|');
    }
    if (!good && harness_bad(__FILE__, line))
        printf("expected status %d with \"%s\", found %d: %s\n%s\n", (int)status, words,
               got ? 0 : (int)stax_error_status(ctx), got ? "a result" : stax_error(ctx), body);
    free(got);
    free(text);
}

#define GIVES(body, want) gives_at(body, want, __LINE__)
#define REFUSES(body, status, words) refuses_at(body, STAX_##status, words, __LINE__)

#define X23 "x = const f32[2,3] {1, 2, 3, 4, 5, 6}\n"
#define X33 "x = const f32[3,3] {1, 2, 3, 4, 5, 6, 7, 8, 9}\n"

/* ---- index and masks ---- */

static void selects(void) {
    GIVES(X23 "y = select x {axis=0, index=1}", "f32[3] {4, 5, 6}");
    GIVES(X23 "y = select x {axis=-1, index=-1}", "f32[2] {3, 6}");
    GIVES(X23 "y = select x {axis=1, index=-3}", "f32[2] {1, 4}");
    GIVES("x = const i8[1] {7}\ny = select x {axis=0, index=0}", "i8[] {7}");
    GIVES("x = const f32[2,0] {}\ny = select x {axis=0, index=1}", "f32[0] {}");
    GIVES("x = const f32[2] {nan(0x7fc00001), 1}\ny = select x {axis=0, index=0}",
          "f32[] {nan(0x7fc00001)}");
    REFUSES(X23 "y = select x {axis=1, index=3}", E_INDEX, "select(x: f32[2,3])|index 3|axis 1|size 3");
    REFUSES(X23 "y = select x {axis=0, index=-3}", E_INDEX, "index -3|size 2");
    REFUSES(X23 "y = select x {axis=2, index=0}", E_ARGUMENT, "axis 2 is out of range for rank 2");
    REFUSES("x = const f32[0] {}\ny = select x {axis=0, index=0}", E_INDEX, "size 0");
}

static void one_hots(void) {
    GIVES("i = const i32[3] {1, -1, 0}\ny = one_hot i {size=3}",
          "f32[3,3] {0, 1, 0, 0, 0, 1, 1, 0, 0}");
    GIVES("i = const u8[] {2}\ny = one_hot i {size=4, dtype=bool}",
          "bool[4] {false, false, true, false}");
    GIVES("i = const i64[0] {}\ny = one_hot i {size=0}", "f32[0,0] {}");
    GIVES("i = const i64[2] {0, 1}\ny = one_hot i {size=2, dtype=i8}", "i8[2,2] {1, 0, 0, 1}");
    REFUSES("i = const i32[3] {1, 3, -9}\ny = one_hot i {size=3}", E_INDEX,
            "one_hot: index 3|size 3");
    REFUSES("i = const u64[1] {18446744073709551615}\ny = one_hot i {size=3}", E_INDEX, "one_hot");
    REFUSES("i = const f32[1] {1}\ny = one_hot i {size=3}", E_DTYPE, "integer indices");
    REFUSES("i = const i32[1] {1}\ny = one_hot i {size=-3}", E_SHAPE, "expected a size >= 0");
}

static void triangles(void) {
    GIVES(X33 "y = tril x", "f32[3,3] {1, 0, 0, 4, 5, 0, 7, 8, 9}");
    GIVES(X33 "y = tril x {k=1}", "f32[3,3] {1, 2, 0, 4, 5, 6, 7, 8, 9}");
    GIVES(X33 "y = triu x {k=-1}", "f32[3,3] {1, 2, 3, 4, 5, 6, 0, 8, 9}");
    GIVES(X33 "y = triu x {k=5}", "f32[3,3] {0, 0, 0, 0, 0, 0, 0, 0, 0}");
    GIVES("x = const f16[2,2] {nan(0x7e01), nan(0xfe02), 1, -0.0}\ny = tril x",
          "f16[2,2] {nan(0x7e01), 0, 1, -0.0}"); /* bits are kept */
    GIVES("x = const bool[2,2] {true, true, true, true}\ny = triu x {k=1}",
          "bool[2,2] {false, true, false, false}");
    GIVES("x = const i64[2,1,2] {1, 2, 3, 4}\ny = tril x", "i64[2,1,2] {1, 0, 3, 0}");
    REFUSES("x = const f32[2] {1, 2}\ny = tril x", E_SHAPE, "at least 2 axes, found 1");
}

/* ---- norms and losses ---- */

static void norms(void) {
    GIVES("x = const f32[2,2] {3, -4, 0, 5}\ny = norm x {axes=[1]}", "f32[2] {5, 5}");
    GIVES("x = const f32[2] {3, -4}\ny = norm x {ord=1}", "f32[] {7}");
    GIVES("x = const f32[3] {3, -4, 0}\ny = norm x {ord=0, keepdims=true}", "f32[1] {2}");
    GIVES("x = const f32[3] {3, -4, 1}\ny = norm x {ord=inf}", "f32[] {4}");
    GIVES("x = const f32[3] {3, -4, -1}\ny = norm x {ord=-inf}", "f32[] {1}");
    GIVES("x = const i32[2] {3, -4}\ny = norm x", "f32[] {5}");
    GIVES("x = const f16[2] {300, 400}\ny = norm x", "f16[] {500}"); /* squares do not fit f16 */
    GIVES("x = const f32[0] {}\ny = norm x {ord=inf}", "f32[] {0}");
    GIVES("x = const f32[0] {}\ny = norm x", "f32[] {0}");
    GIVES("x = const f32[2] {1, nan}\ny = norm x {ord=inf}", "f32[] {nan}");
    REFUSES("x = const f32[0] {}\ny = norm x {ord=-inf}", E_SHAPE, "axis 0 is empty");
    REFUSES(X23 "y = norm x {ord=nan}", E_ARGUMENT, "attribute ord");
    REFUSES(X23 "y = norm x {axes=[2]}", E_ARGUMENT, "axis 2 is out of range");
}

static void group_and_batch_norm(void) {
    /* means 0 and 2, variances 1: eps 0 leaves x - mean */
    GIVES("x = const f32[1,4] {-1, 1, 1, 3}\ny = group_norm x {groups=2, eps=0}",
          "f32[1,4] {-1, 1, -1, 1}");
    GIVES("x = const f32[1,4] {-1, 1, 1, 3}\ng = const f32[4] {1, 2, 3, 4}\nb = const f32[4] {0, 0, 10, "
          "0}\ny = group_norm x, g, b {groups=2, eps=0}",
          "f32[1,4] {-1, 2, 7, 4}");
    GIVES("x = const f32[2,1,2] {-1, 1, 5, 5}\ny = group_norm x {groups=1, eps=1}",
          "f32[2,1,2] {-0x1.6a09e6p-1, 0x1.6a09e6p-1, 0, 0}");
    GIVES("x = const f32[0,4] {}\ny = group_norm x {groups=2}", "f32[0,4] {}");
    REFUSES(X23 "y = group_norm x {groups=2}", E_SHAPE, "group_norm|3 channels|2 groups");
    REFUSES("x = const f32[3] {1, 2, 3}\ny = group_norm x {groups=1}", E_SHAPE, "x[N, C, ...]");
    REFUSES(X23 "g = const f32[2] {1, 2}\ny = group_norm x, g {groups=1}", E_SHAPE,
            "the scale|expected size 3, found 2");
    GIVES("x = const f32[1,2,2] {1, 2, 3, 4}\nm = const f32[2] {1, 3}\nv = const f32[2] {4, 16}\n"
          "g = const f32[2] {2, 1}\nb = const f32[2] {0, 1}\ny = batch_norm x, m, v, g, b {eps=0}",
          "f32[1,2,2] {0, 1, 1, 1.25}");
    GIVES("x = const f16[1,1] {3}\ny = batch_norm x, 1.0, 4.0 {eps=0}", "f16[1,1] {1}");
    REFUSES(X23 "m = const f32[2] {1, 2}\ny = batch_norm x, m, m", E_SHAPE, "the mean");
    REFUSES(X23 "y = batch_norm x, 1.0", E_ARGUMENT, "expected 3 to 5 operands, found 2");
}

static void cross_entropies(void) {
    GIVES("x = const f32[2,2] {0, 0, 7, 7}\nl = const i64[2] {1, -2}\ny = cross_entropy x, l",
          "f32[2] {0x1.62e430p-1, 0x1.62e430p-1}"); /* log 2 */
    GIVES("x = const f32[2,1,2] {0, 1, 0, 1}\nl = const u8[1,2] {0, 1}\ny = cross_entropy x, l {axis=0}",
          "f32[1,2] {0x1.62e430p-1, 0x1.62e430p-1}");
    GIVES("x = const f32[2] {1000, -inf}\ny = cross_entropy x, 0", "f32[] {0}");
    GIVES("x = const f32[2] {1000, -inf}\ny = cross_entropy x, 1", "f32[] {inf}");
    GIVES("x = const f32[1,2] {5, 5}\np = const f32[1,2] {0.25, 0.75}\ny = cross_entropy x, p",
          "f32[1] {0x1.62e430p-1}");
    GIVES("x = const f32[2] {5, -inf}\np = const f32[2] {1, 0}\ny = cross_entropy x, p", "f32[] {0}");
    GIVES("x = const f32[0,2] {}\nl = const i64[0] {}\ny = cross_entropy x, l", "f32[0] {}");
    REFUSES(X23 "l = const i64[2] {0, 3}\ny = cross_entropy x, l", E_INDEX,
            "cross_entropy: index 3|size 3");
    REFUSES(X23 "l = const i64[3] {0, 1, 1}\ny = cross_entropy x, l", E_SHAPE, "expected 2, found 3");
    REFUSES(X23 "l = const i64[2,1] {0, 1}\ny = cross_entropy x, l", E_SHAPE,
            "the labels: expected 1 axes, found 2|integer labels");
    REFUSES(X23 "l = const bool[2] {true, true}\ny = cross_entropy x, l", E_DTYPE, "integer indices");
}

static void dropouts(void) {
    GIVES(X23 "y = dropout x, 5 {p=0}", "f32[2,3] {1, 2, 3, 4, 5, 6}");
    GIVES(X23 "y = dropout x, 5 {p=1}", "f32[2,3] {0, 0, 0, 0, 0, 0}");
    /* as uniform says */
    GIVES("x = const f32[4] {1, 2, 3, 4}\nu = uniform 7 {shape=[4]}\nk = ge u, 0.5\nz = mul x, 2.0\n"
          "d = dropout x, 7 {p=0.5}\nw = where k, z, 0.0\ny = eq w, d",
          "bool[4] {true, true, true, true}");
    GIVES("x = const f32[1] {inf}\ny = dropout x, 5 {p=1}", "f32[1] {0}");
    REFUSES(X23 "y = dropout x, 5 {p=1.5}", E_ARGUMENT, "attribute p");
    REFUSES(X23 "y = dropout x, x {p=0.5}", E_DTYPE, "expected a key u64[] or u32[2]");
}

/* ---- windows: small integers, so that sums are exact in any order ---- */

static uint64_t seed = 1;
static int64_t dice(int64_t lo, int64_t hi) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return lo + (int64_t)((seed >> 33) % (uint64_t)(hi - lo + 1));
}

/* A window problem of up to three spatial axes; axes in front that are not there have size 1. */
typedef struct problem {
    int n, groups;
    int64_t batch, in_channels, out_channels;
    int64_t in[3], kernel[3], out[3], stride[3], dilation[3], low[3], high[3], more[3];
    float *x, *w, *y;
} problem;

static int64_t volume(const int64_t *s) { return s[0] * s[1] * s[2]; }

static void step3(int64_t *i, const int64_t *limit) {
    for (int d = 2; d >= 0; d--) {
        if (++i[d] < limit[d]) return;
        i[d] = 0;
    }
}

static int64_t flat3(const int64_t *i, const int64_t *s) {
    return (i[0] * s[1] + i[1]) * s[2] + i[2];
}

static float *integers(int64_t n) {
    float *p = (float *)malloc((size_t)(n + 1) * sizeof *p);
    for (int64_t k = 0; k < n; k++) p[k] = (float)dice(-4, 4);
    return p;
}

/* y[n, o, j] = sum of x[n, c, j * stride + k * dilation - low] * w[o, c, k], or the transposed map
 */
static void conv_loops(const problem *p, bool transposed) {
    int64_t ci = p->in_channels / p->groups, co = p->out_channels / p->groups;
    int64_t vi = volume(p->in), vo = volume(p->out), vk = volume(p->kernel);
    memset(p->y, 0, (size_t)(p->batch * p->out_channels * vo) * sizeof(float));
    for (int64_t n = 0; n < p->batch; n++)
        for (int64_t o = 0; o < p->out_channels; o++)
            for (int64_t c = 0; c < ci; c++) {
                int64_t g = o / co, channel = g * ci + c;
                int64_t few[3] = {0, 0, 0};
                const int64_t *range = transposed ? p->in : p->out;
                for (int64_t a = 0; a < volume(range); a++, step3(few, range)) {
                    int64_t k[3] = {0, 0, 0};
                    for (int64_t b = 0; b < vk; b++, step3(k, p->kernel)) {
                        int64_t many[3];
                        const int64_t *bound = transposed ? p->out : p->in;
                        bool inside = true;
                        for (int d = 0; d < 3; d++) {
                            many[d] = few[d] * p->stride[d] + k[d] * p->dilation[d] - p->low[d];
                            inside = inside && many[d] >= 0 && many[d] < bound[d];
                        }
                        if (!inside) continue;
                        const int64_t *i = transposed ? few : many, *j = transposed ? many : few;
                        int64_t w =
                            transposed ? (channel * co + o % co) * vk + b : (o * ci + c) * vk + b;
                        p->y[(n * p->out_channels + o) * vo + flat3(j, p->out)] +=
                            p->x[(n * p->in_channels + channel) * vi + flat3(i, p->in)] * p->w[w];
                    }
                }
            }
}

static void list3(char *to, size_t room, const int64_t *v, int n) {
    size_t at = (size_t)snprintf(to, room, "[");
    for (int d = 3 - n; d < 3; d++)
        at += (size_t)snprintf(to + at, room - at, "%s%d", d > 3 - n ? "," : "", (int)v[d]);
    snprintf(to + at, room - at, "]");
}

static stax_shape spatial_shape(int64_t a, int64_t b, const int64_t *s, int n) {
    stax_shape r = stax_shape2(a, b);
    for (int d = 3 - n; d < 3; d++) r.dims[r.rank++] = s[d];
    return r;
}

static void attributes(char *to, size_t room, const problem *p) {
    char stride[64], dilation[64];
    size_t at;
    list3(stride, sizeof stride, p->stride, p->n);
    list3(dilation, sizeof dilation, p->dilation, p->n);
    at = (size_t)snprintf(to, room, "stride=%s, dilation=%s, groups=%d, padding=[", stride,
                          dilation, p->groups);
    for (int d = 3 - p->n; d < 3; d++)
        at += (size_t)snprintf(to + at, room - at, "%s[%d,%d]", d > 3 - p->n ? "," : "",
                               (int)p->low[d], (int)p->high[d]);
    snprintf(to + at, room - at, "]");
}

static void put_shape(char *to, size_t room, stax_shape s) {
    size_t at = (size_t)snprintf(to, room, "f32[");
    for (int d = 0; d < s.rank; d++)
        at += (size_t)snprintf(to + at, room - at, "%s%d", d ? "," : "", (int)s.dims[d]);
    snprintf(to + at, room - at, "]");
}

/* Interprets `text` on x and w (may be NULL) and compares with p->y. */
static void check_windows(const char *text, const problem *p, stax_shape xs, stax_shape ws,
                          stax_shape ys, int line) {
    stax_graph *g = stax_parse(ctx, "windows", text);
    stax_tensor in[2], out;
    int64_t n = 1;
    for (int d = 0; d < ys.rank; d++) n *= ys.dims[d];
    float *got = (float *)calloc((size_t)n + 1, sizeof *got);
    in[0] = stax_tensor_of(STAX_F32, xs, p->x);
    in[1] = stax_tensor_of(STAX_F32, ws, p->w);
    out = stax_tensor_of(STAX_F32, ys, got);
    if ((!g || stax_interpret(g, in, &out) != STAX_OK) && harness_bad(__FILE__, line))
        printf("%s\n%s\n", stax_error(ctx), text);
    for (int64_t k = 0; g && k < n; k++) {
        if (got[k] == p->y[k] || (got[k] != got[k] && p->y[k] != p->y[k])) continue;
        if (harness_bad(__FILE__, line))
            printf("element %d is %.9g, expected %.9g\n%s\n", (int)k, (double)got[k],
                   (double)p->y[k], text);
        break;
    }
    stax_graph_free(g);
    free(got);
}

static problem problem_make(int64_t most) {
    problem p;
    memset(&p, 0, sizeof p);
    p.n = (int)dice(1, 3);
    p.groups = (int)dice(1, 3);
    p.batch = dice(1, 2);
    for (int d = 0; d < 3; d++) {
        bool there = d >= 3 - p.n;
        p.in[d] = there ? dice(1, most) : 1;
        p.kernel[d] = there ? dice(1, 3) : 1;
        p.stride[d] = there ? dice(1, 3) : 1;
        p.dilation[d] = there ? dice(1, 3) : 1;
        p.low[d] = there ? dice(0, 3) : 0;
        p.high[d] = there ? dice(0, 3) : 0;
    }
    return p;
}

static void problem_free(problem *p) {
    free(p->x);
    free(p->w);
    free(p->y);
}

static void convolutions(void) {
    for (int run = 0; run < 150; run++) {
        bool transposed = run % 2;
        problem p = problem_make(6);
        char text[900], types[3][96], attrs[300], more[64];
        bool fits = true;
        int64_t ci = dice(1, 2), co = dice(1, 2);
        p.in_channels = ci * p.groups;
        p.out_channels = co * p.groups;
        for (int d = 0; d < 3; d++) {
            int64_t span = p.dilation[d] * (p.kernel[d] - 1) + 1, most = p.stride[d];
            if (p.dilation[d] > most) most = p.dilation[d];
            p.more[d] = transposed && d >= 3 - p.n ? dice(0, most - 1) : 0;
            int64_t room =
                transposed ? (p.in[d] - 1) * p.stride[d] + span + p.more[d] - p.low[d] - p.high[d]
                           : p.in[d] + p.low[d] + p.high[d] - span;
            fits = fits && room >= 0;
            p.out[d] = transposed ? room : room / p.stride[d] + 1;
        }
        if (!fits) continue;
        stax_shape xs = spatial_shape(p.batch, p.in_channels, p.in, p.n);
        stax_shape ys = spatial_shape(p.batch, p.out_channels, p.out, p.n);
        stax_shape ws = transposed ? spatial_shape(p.in_channels, co, p.kernel, p.n)
                                   : spatial_shape(p.out_channels, ci, p.kernel, p.n);
        p.x = integers(p.batch * p.in_channels * volume(p.in));
        p.w = integers(p.in_channels * co * volume(p.kernel));
        p.y = integers(p.batch * p.out_channels * volume(p.out));
        conv_loops(&p, transposed);
        attributes(attrs, sizeof attrs, &p);
        list3(more, sizeof more, p.more, p.n);
        put_shape(types[0], sizeof types[0], xs);
        put_shape(types[1], sizeof types[1], ws);
        put_shape(types[2], sizeof types[2], ys);
        snprintf(text, sizeof text, "graph g(x: %s, w: %s) { y: %s = %s x, w {%s%s%s}; return y }",
                 types[0], types[1], types[2], transposed ? "conv_transpose" : "conv", attrs,
                 transposed ? ", output_padding=" : "", transposed ? more : "");
        check_windows(text, &p, xs, ws, ys, __LINE__);
        problem_free(&p);
    }
}

/* What window j of a pool holds: the sum, the largest, how many places count. */
static void pools(void) {
    static const char *const ops[] = {"max_pool", "avg_pool", "lp_pool"};
    for (int run = 0; run < 180; run++) {
        problem p = problem_make(7);
        int op = run % 3;
        bool ceil_mode = dice(0, 1), with_pad = op == 1 && dice(0, 1), fits = true;
        char text[900], types[2][96], attrs[300], size[64], *groups;
        p.in_channels = p.out_channels = 2;
        p.groups = 1;
        for (int d = 0; d < 3; d++) {
            p.dilation[d] = 1;
            int64_t room = p.in[d] + p.low[d] + p.high[d] - p.kernel[d];
            if (p.low[d] >= p.kernel[d] || p.high[d] >= p.kernel[d]) fits = false;
            if (room < 0) fits = false;
            p.out[d] = (ceil_mode ? room + p.stride[d] - 1 : room) / p.stride[d] + 1;
            if (ceil_mode && (p.out[d] - 1) * p.stride[d] >= p.in[d] + p.low[d]) p.out[d]--;
        }
        if (!fits) continue;
        stax_shape xs = spatial_shape(p.batch, 2, p.in, p.n),
                   ys = spatial_shape(p.batch, 2, p.out, p.n);
        p.x = integers(p.batch * 2 * volume(p.in));
        p.w = integers(1);
        p.y = integers(p.batch * 2 * volume(p.out));
        for (int64_t image = 0; image < p.batch * 2; image++) {
            int64_t j[3] = {0, 0, 0};
            for (int64_t a = 0; a < volume(p.out); a++, step3(j, p.out)) {
                int64_t k[3] = {0, 0, 0}, count = 0;
                float sum = 0, top = -INFINITY;
                for (int64_t b = 0; b < volume(p.kernel); b++, step3(k, p.kernel)) {
                    int64_t at[3];
                    bool data = true, padded = true;
                    for (int d = 0; d < 3; d++) {
                        at[d] = j[d] * p.stride[d] + k[d] - p.low[d];
                        data = data && at[d] >= 0 && at[d] < p.in[d];
                        padded = padded && at[d] < p.in[d] + p.high[d];
                    }
                    count += with_pad ? padded : data;
                    if (!data) continue;
                    float x = p.x[image * volume(p.in) + flat3(at, p.in)];
                    sum += op == 2 ? fabsf(x) : x;
                    if (x > top) top = x;
                }
                p.y[image * volume(p.out) + a] = op == 0 ? top : op == 2 ? sum : sum / (float)count;
            }
        }
        attributes(attrs, sizeof attrs, &p);
        groups = strstr(attrs, "dilation="); /* pools have neither dilation nor groups */
        memmove(groups, strstr(attrs, "padding="), strlen(strstr(attrs, "padding=")) + 1);
        list3(size, sizeof size, p.kernel, p.n);
        put_shape(types[0], sizeof types[0], xs);
        put_shape(types[1], sizeof types[1], ys);
        snprintf(text, sizeof text,
                 "graph g(x: %s) { y: %s = %s x {size=%s, %s, ceil_mode=%s%s}; return y }",
                 types[0], types[1], ops[op], size, attrs, ceil_mode ? "true" : "false",
                 op == 2    ? ", ord=1"
                 : with_pad ? ", count_include_pad=true"
                            : "");
        check_windows(text, &p, xs, xs, ys, __LINE__);
        problem_free(&p);
    }
}

static void adaptive_pools(void) {
    for (int64_t n = 1; n < 12; n++) {
        for (int64_t m = 0; m < 14; m++) {
            problem p;
            char text[300];
            memset(&p, 0, sizeof p);
            p.x = integers(n);
            p.y = integers(2 * m);
            for (int64_t i = 0; i < m; i++) {
                int64_t begin = i * n / m, end = ((i + 1) * n + m - 1) / m;
                float sum = 0, top = -INFINITY;
                for (int64_t k = begin; k < end; k++) {
                    sum += p.x[k];
                    top = p.x[k] > top ? p.x[k] : top;
                }
                p.y[i] = sum / (float)(end - begin);
                p.y[m + i] = top;
            }
            snprintf(text, sizeof text,
                     "graph g(x: f32[1,%d]) { a = adaptive_avg_pool x {size=[%d]}\nb = "
                     "adaptive_max_pool x "
                     "{size=[%d]}\ny = concat a, b; return y }",
                     (int)n, (int)m, (int)m);
            check_windows(text, &p, stax_shape2(1, n), stax_shape1(0), stax_shape2(2, m), __LINE__);
            problem_free(&p);
        }
    }
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
static int64_t clamp_to(int64_t i, int64_t n) { return i < 0 ? 0 : i < n ? i : n - 1; }

/* The cubic kernel of Keys with a = -3/4 at distance t, near: t <= 1. */
static float keys(float t, bool near_) {
    if (near_) return ((1.25f * t - 2.25f) * t + 0.0f) * t + 1;
    return ((-0.75f * t + 3.75f) * t - 6) * t + 3;
}

static void resizes(void) {
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const hows[] = {"half_pixel", "align_corners", "asymmetric"};
    static const char *const roundings[] = {"auto", "floor", "round_half_down", "ceil"};
    for (int64_t n = 1; n < 8; n++) {
        for (int64_t m = 0; m < 12; m++) {
            for (int variant = 0; variant < 18; variant++) {
                int mode = variant < 12 ? 0 : 1 + (variant - 12) / 3, how = variant % 3,
                    rounding = variant / 3 % 4;
                problem p;
                char text[300];
                memset(&p, 0, sizeof p);
                p.x = integers(n);
                p.y = integers(m);
                for (int64_t i = 0; i < m; i++) {
                    int64_t den = how == 0 ? 2 * m : how == 1 ? (m > 1 ? m - 1 : 1) : m;
                    int64_t num = how == 0 ? (2 * i + 1) * n - m : how == 1 ? i * (n - 1) : i * n;
                    int64_t at = floor_div(num, den);
                    if (mode == 0) {
                        if (rounding == 0 && how != 2) at = floor_div(2 * num + den, 2 * den);
                        if (rounding == 2) at = -floor_div(-(2 * num - den), 2 * den);
                        if (rounding == 3) at = -floor_div(-num, den);
                        p.y[i] = p.x[clamp_to(at, n)];
                    } else if (mode == 1) {
                        if (num < 0) num = 0;
                        if (num > (n - 1) * den) num = (n - 1) * den;
                        at = num / den;
                        float t = (float)((double)(num % den) / (double)den);
                        float a = p.x[at], b = p.x[clamp_to(at + 1, n)];
                        p.y[i] = a + (t == 0 ? 0 : t * (b - a));
                    } else {
                        float t = (float)((double)(num - at * den) / (double)den), sum = 0;
                        for (int k = -1; k < 3; k++) {
                            float w = keys(k < 1 ? t - (float)k : (float)k - t, k == 0 || k == 1);
                            w = w * p.x[clamp_to(at + k, n)];
                            sum = k < 0 ? w : sum + w;
                        }
                        p.y[i] = sum;
                    }
                    if (n == m) p.y[i] = p.x[i];
                }
                snprintf(text, sizeof text,
                         "graph g(x: f32[%d]) { y = resize x {shape=[%d], mode=\"%s\", "
                         "coordinates=\"%s\", "
                         "rounding=\"%s\"}; return y }",
                         (int)n, (int)m, modes[mode], hows[how], roundings[mode ? 0 : rounding]);
                check_windows(text, &p, stax_shape1(n), stax_shape1(0), stax_shape1(m), __LINE__);
                problem_free(&p);
            }
        }
    }
}

static void window_edges(void) {
    /* f16: the sum is rounded once; 2049 is no f16 */
    GIVES("x = const f16[1,1,3] {2048, 1, 1}\nw = const f16[1,1,3] {1, 1, 1}\ny = conv x, w",
          "f16[1,1,1] {2050}");
    GIVES("x = const i8[1,1,2] {100, 100}\nw = const i8[1,1,2] {1, 1}\ny = conv x, w",
          "i8[1,1,1] {-56}");
    GIVES("x = const i8[1,1,2] {100, 100}\nw = const i8[1,1,2] {1, 1}\ny = conv x, w {dtype=i32}",
          "i32[1,1,1] {200}");
    GIVES(
        "x = const u8[1,1,2] {200, 100}\nw = const u8[1,1,2] {1, 1}\nb = const u8[1] {2}\n"
        "y = conv_transpose x, w, b",
        "u8[1,1,3] {202, 46, 102}");
    GIVES("x = const bool[1,1,2] {true, false}\nw = const bool[1,1,1] {true}\ny = conv x, w",
          "bool[1,1,2] {true, false}");
    GIVES(
        "x = const f32[1,1,3] {1, 2, 3}\nw = const f32[1,1,2] {1, 10}\ny = conv x, w, 5.0 "
        "{padding=\"same\"}",
        "f32[1,1,3] {26, 37, 8}"); /* the odd place at the end */
    GIVES("x = const f32[0,1,3] {}\nw = const f32[2,1,2] {1, 2, 3, 4}\ny = conv x, w",
          "f32[0,2,2] {}");
    GIVES("x = const f32[1,0,3] {}\nw = const f32[2,0,2] {}\ny = conv x, w",
          "f32[1,2,2] {0, 0, 0, 0}");
    GIVES(
        "x = const f32[1,1,0] {}\nw = const f32[1,1,3] {1, 2, 3}\ny = conv x, w {padding=[[2,2]]}",
        "f32[1,1,2] {0, 0}");
    GIVES(
        "x = const f32[1,1,0] {}\nw = const f32[1,1,3] {1, 2, 3}\n"
        "y = conv_transpose x, w {stride=3, output_padding=2}",
        "f32[1,1,2] {0, 0}");
    /* padding takes part in a convolution, and there is none in its transpose */
    GIVES(
        "x = const f32[1,1,2] {1, 1}\nw = const f32[1,1,2] {inf, 1}\ny = conv x, w "
        "{padding=[[1,0]]}",
        "f32[1,1,2] {nan, inf}");
    GIVES("x = const f32[1,1,2] {1, 1}\nw = const f32[1,1,2] {inf, 1}\ny = conv_transpose x, w",
          "f32[1,1,3] {inf, inf, 1}");
    GIVES(
        "x = const f32[1,1,1] {3}\nw = const f32[1,1,1] {2}\ny = conv_transpose x, w {stride=3, "
        "output_padding=2}",
        "f32[1,1,3] {6, 0, 0}");
    GIVES("x = const i32[4] {5, -7, 3, 9}\ny = max_pool x {size=3, stride=1, padding=[[2,0]]}",
          "i32[4] {5, 5, 5, 9}");
    GIVES("x = const i8[2] {-128, -128}\ny = max_pool x {size=2, stride=1, padding=[[1,1]]}",
          "i8[3] {-128, -128, -128}");
    GIVES("x = const bool[4] {false, true, false, false}\ny = max_pool x {size=2}",
          "bool[2] {true, false}");
    GIVES("x = const f32[3] {1, nan, 2}\ny = max_pool x {size=2, stride=1}", "f32[2] {nan, nan}");
    GIVES("x = const f16[2] {60000, 60000}\ny = avg_pool x {size=2}", "f16[1] {60000}");
    GIVES("x = const i32[2] {1, 2}\ny = avg_pool x {size=2}", "f32[1] {1.5}");
    GIVES("x = const f32[2,4] {3, 4, 0, 0, 5, 12, 6, 8}\ny = lp_pool x {size=[2]}",
          "f32[2,2] {5, 0, 13, 10}");
    GIVES("x = const f16[2] {nan(0x7e01), 1}\ny = resize x {shape=[4]}",
          "f16[4] {nan(0x7e01), nan(0x7e01), 1, 1}"); /* bits are kept */
    GIVES(
        "x = const f32[2] {1, inf}\ny = resize x {shape=[3], mode=\"linear\", "
        "coordinates=\"align_corners\"}",
        "f32[3] {1, inf, inf}");
    GIVES("x = const i8[2] {0, 1}\ny = resize x {shape=[4], mode=\"linear\"}",
          "f32[4] {0, 0.25, 0.75, 1}");
    GIVES("x = const bool[2] {false, true}\ny = resize x {shape=[3]}",
          "bool[3] {false, true, true}");
    GIVES("x = const f32[0,2] {}\ny = resize x {shape=[0,3]}", "f32[0,3] {}");
}

static void window_errors(void) {
#define IMAGE "x = const f32[1,2,3] {1, 2, 3, 4, 5, 6}\n"
    REFUSES(IMAGE "w = const f32[1,3,1] {1, 2, 3}\ny = conv x, w", E_SHAPE,
            "conv(x: f32[1,2,3]|channels");
    REFUSES(IMAGE "w = const f32[1,2,4] {1,2,3,4,5,6,7,8}\ny = conv x, w", E_SHAPE,
            "spatial axis 0|spans 4|size 3");
    REFUSES(IMAGE "w = const f32[3,1,1] {1,2,3}\ny = conv x, w {groups=2}", E_SHAPE,
            "3 channels|2 groups");
    REFUSES(IMAGE "y = conv x, 2.0", E_SHAPE, "w[O, C/groups, K...]");
    REFUSES(IMAGE "w = const f32[1,2,1] {1,2}\ny = conv x, w {stride=0}", E_ARGUMENT,
            "stride|found 0");
    REFUSES(IMAGE "w = const f32[1,2,1] {1,2}\ny = conv x, w {stride=[1,1]}", E_ARGUMENT,
            "expected 1 entries, found 2");
    REFUSES(IMAGE "w = const f32[1,2,1] {1,2}\ny = conv x, w {padding=[[1,1],[2,2]]}", E_ARGUMENT,
            "expected 1 pairs [low, high], found 2");
    REFUSES(IMAGE "w = const f32[1,2,1] {1,2}\ny = conv x, w {padding=[[1,-1]]}", E_ARGUMENT,
            "sizes >= 0");
    REFUSES(IMAGE "w = const f32[1,2,1] {1,2}\ny = conv x, w {padding=\"full\"}", E_ARGUMENT,
            "pairs|valid");
    REFUSES(IMAGE "w = const f32[1,2,1] {1,2}\ny = conv x, w {padding=[1,1]}", E_ARGUMENT, "pairs");
    REFUSES(IMAGE "w = const f32[1,2,1] {1,2}\ny = conv x, w {padding=\"[[1,2]\"}", E_ARGUMENT,
            "pairs");
    REFUSES(IMAGE "w = const f32[1,2,1] {1,2}\nb = const f32[2] {1,2}\ny = conv x, w, b", E_SHAPE,
            "the bias");
    REFUSES(IMAGE "w = const f32[2,1,1] {1,2}\ny = conv_transpose x, w {output_padding=1}",
            E_ARGUMENT, "output_padding|found 1");
    REFUSES(IMAGE "w = const f32[2,1,1] {1,2}\ny = conv_transpose x, w {padding=\"same\"}",
            E_ARGUMENT, "pairs");
    REFUSES(IMAGE "w = const f32[2,1,1] {1,2}\ny = conv_transpose x, w {padding=[[2,2]]}", E_SHAPE,
            "crops more");
    REFUSES(IMAGE "y = max_pool x {size=4}", E_SHAPE, "max_pool(x: f32[1,2,3])|spans 4|size 3");
    REFUSES(IMAGE "y = max_pool x {size=[1,1,1,1]}", E_ARGUMENT, "attribute size");
    REFUSES(IMAGE "y = avg_pool x {size=0}", E_SHAPE, "size >= 1");
    REFUSES(IMAGE "y = lp_pool x {size=1, ord=0}", E_ARGUMENT, "attribute ord");
    REFUSES("x = const f32[1,2,0] {}\ny = adaptive_avg_pool x {size=2}", E_SHAPE, "axis 2");
    REFUSES(IMAGE "y = resize x {shape=[1,2]}", E_ARGUMENT, "expected all 3 sizes, found 2");
    REFUSES("x = const f32[0] {}\ny = resize x {shape=[2]}", E_SHAPE, "axis 0");
    REFUSES(IMAGE "y = resize x {shape=[1,2,3], mode=\"area\"}", E_ARGUMENT,
            "nearest|linear|cubic");
}

/* ---- einsum ---- */

/* Operands of an equation without an ellipsis, with small integers, by the definition: the sum,
   over all values of the indices, of the product of the elements they point at. */
static void einsum_by_loops(const char *equation, int line) {
    enum { MOST = 4 };
    int n = 0, rank[MOST + 1] = {0, 0, 0, 0, 0}, axis[MOST + 1][8];
    int64_t size[26], value[26], out_elements = 1, total = 1;
    float *data[MOST], *want, *got;
    stax_value in[MOST];
    stax_tensor tensors[MOST], out;
    stax_graph *g = stax_graph_new(ctx);
    for (int k = 0; k < 26; k++) size[k] = dice(1, 4);
    for (const char *s = equation; *s; s++) {
        if (*s == ',') n++;
        if (*s == '>') n = MOST;
        if (*s >= 'a' && *s <= 'z') axis[n][rank[n]++] = *s - 'a';
    }
    n = 1;
    for (const char *s = equation; *s; s++) n += *s == ',';
    for (int k = 0; k < n; k++) {
        stax_shape shape = stax_shape0();
        char name[8];
        int64_t elements = 1;
        for (int d = 0; d < rank[k]; d++) {
            shape.dims[shape.rank++] = size[axis[k][d]];
            elements *= size[axis[k][d]];
        }
        data[k] = integers(elements);
        tensors[k] = stax_tensor_of(STAX_F32, shape, data[k]);
        snprintf(name, sizeof name, "x%d", k);
        in[k] = stax_input(g, name, STAX_F32, shape);
    }
    for (int d = 0; d < rank[MOST]; d++) out_elements *= size[axis[MOST][d]];
    want = (float *)calloc((size_t)out_elements, sizeof *want);
    got = (float *)calloc((size_t)out_elements, sizeof *got);
    bool used[26];
    memset(used, 0, sizeof used);
    for (int k = 0; k < n; k++)
        for (int d = 0; d < rank[k]; d++) used[axis[k][d]] = true;
    for (int k = 0; k < 26; k++) total *= used[k] ? size[k] : 1;
    for (int64_t at = 0; at < total; at++) {
        int64_t rest = at, to = 0;
        float product = 1;
        for (int k = 0; k < 26; k++) {
            value[k] = used[k] ? rest % size[k] : 0;
            rest /= used[k] ? size[k] : 1;
        }
        for (int k = 0; k < n; k++) {
            int64_t from = 0;
            for (int d = 0; d < rank[k]; d++) from = from * size[axis[k][d]] + value[axis[k][d]];
            product *= data[k][from];
        }
        for (int d = 0; d < rank[MOST]; d++) to = to * size[axis[MOST][d]] + value[axis[MOST][d]];
        want[to] += product;
    }
    stax_output(g, "y", stax_einsum(in, n, equation));
    stax_output_info info;
    if ((!stax_graph_output(g, 0, &info) || info.shape.rank != rank[MOST]) &&
        harness_bad(__FILE__, line))
        printf("%s: %s\n", equation, stax_graph_error(g));
    out = stax_tensor_of(STAX_F32, info.shape, got);
    if (stax_ok(g)) {
        CHECK_INT(stax_interpret(g, tensors, &out), STAX_OK);
        for (int64_t k = 0; k < out_elements; k++) {
            if (got[k] == want[k]) continue;
            if (harness_bad(__FILE__, line))
                printf("%s: element %d is %g, expected %g\n", equation, (int)k, (double)got[k],
                       (double)want[k]);
            break;
        }
    }
    for (int k = 0; k < n; k++) free(data[k]);
    free(want);
    free(got);
    stax_graph_free(g);
}

static void einsums(void) {
    static const char *const equations[] = {
        "ij,jk->ik",   "bij,bjk->bik",   "ij->ji",        "ij->",          "ii->i",
        "ii->",        "iji->j",         "iij->ij",       "i,j->ij",       "ij,ij->ij",
        "ij,ij->",     "ij,k->ij",       "ij,k->k",       "ijk,ljm->kilm", "ab,bc,cd->ad",
        "ab,ab,ab->b", "abc,cd,be->ade", "aab,bc->ac",    "abc,abc->c",    "a,a->a",
        "a,a->",       "abcd,dcba->ac",  "a,b,c,d->dcba", "ab,ca,bc->abc", "i->i",
        "iii->i",      "iiij,jk->ik",    ",->",           "a,->a",         "xyz,yxw->wz"};
    for (int round = 0; round < 3; round++)
        for (size_t k = 0; k < sizeof equations / sizeof equations[0]; k++)
            einsum_by_loops(equations[k], __LINE__);
}

static void einsum_rules(void) {
#define M22 "x = const f32[2,2] {1, 2, 3, 4}\n"
    GIVES(M22 "y = einsum x, x {equation=\"ij,jk\"}", "f32[2,2] {7, 10, 15, 22}");
    GIVES(M22 "y = einsum x {equation=\"ba\"}",
          "f32[2,2] {1, 3, 2, 4}"); /* in order of the letters */
    GIVES(M22 "y = einsum x {equation=\"aB\"}", "f32[2,2] {1, 3, 2, 4}"); /* capitals first */
    GIVES(M22 "y = einsum x {equation=\" i i -> i \"}", "f32[2] {1, 4}");
    GIVES(M22 "y = einsum x {equation=\"ii\"}", "f32[] {5}");
    GIVES(
        "x = const f32[2,1,2] {1, 2, 3, 4}\nz = const f32[3,2] {1, 1, 1, 2, 2, 1}\n"
        "y = einsum x, z {equation=\"...i,...i->...\"}",
        "f32[2,3] {3, 5, 4, 7, 11, 10}");
    GIVES(M22 "v = const f32[2] {1, 10}\ny = einsum v, x {equation=\"i,i...\"}", "f32[2] {31, 42}");
    GIVES(M22 "y = einsum x {equation=\"...a->a...\"}", "f32[2,2] {1, 3, 2, 4}");
    GIVES(
        "x = const f32[1,2] {1, 2}\nz = const f32[3] {1, 2, 3}\ny = einsum x, z "
        "{equation=\"ab,a->b\"}",
        "f32[2] {6, 12}"); /* an axis of size 1 is stretched */
    GIVES(
        "x = const f32[1,2] {1, 2}\nz = const f32[3,1] {1, 2, 3}\ny = einsum x, z "
        "{equation=\"ab,ab->ab\"}",
        "f32[3,2] {1, 2, 2, 4, 3, 6}");
    GIVES("x = const i8[2] {100, 100}\ny = einsum x {equation=\"i->\"}", "i8[] {-56}");
    GIVES("x = const i8[2] {100, 100}\ny = einsum x, x {equation=\"i,i->\", dtype=i32}",
          "i32[] {20000}");
    GIVES(
        "x = const bool[2,2] {true, false, false, false}\ny = einsum x, x {equation=\"ij,jk->ik\"}",
        "bool[2,2] {true, false, false, false}");
    GIVES("x = const f16[3] {2048, 1, 1}\ny = einsum x {equation=\"i->\"}", "f16[] {2050}");
    GIVES("x = const f32[0,2] {}\ny = einsum x {equation=\"ij->j\"}", "f32[2] {0, 0}");
    GIVES("x = const f32[2] {1, 2}\ny = einsum x, 3.0 {equation=\"i,->i\"}", "f32[2] {3, 6}");
    REFUSES(M22 "y = einsum x {equation=\"ijk\"}", E_ARGUMENT,
            "einsum(x: f32[2,2])|\"ijk\"|as many indices");
    REFUSES(M22 "y = einsum x, x {equation=\"ij\"}", E_ARGUMENT, "fewer terms");
    REFUSES(M22 "y = einsum x {equation=\"ij,jk\"}", E_ARGUMENT, "more terms");
    REFUSES(M22 "y = einsum x {equation=\"ij->ik\"}", E_ARGUMENT, "no operand has");
    REFUSES(M22 "y = einsum x {equation=\"ij->ii\"}", E_ARGUMENT, "twice");
    REFUSES(M22 "y = einsum x {equation=\"i1\"}", E_ARGUMENT, "expected letters");
    REFUSES(M22 "y = einsum x {equation=\"ij-ij\"}", E_ARGUMENT, "expected ->");
    REFUSES(M22 "y = einsum x {equation=\"...j->j\"}", E_ARGUMENT, "lacks the ...");
    REFUSES(M22 "y = einsum x {equation=\"ij->...ij\"}", E_ARGUMENT, "no operand has");
    REFUSES(M22 "v = const f32[3] {1, 2, 3}\ny = einsum x, v {equation=\"ij,j->i\"}", E_SHAPE,
            "sizes of one index: expected 2, found 3");
    REFUSES("x = const f32[2,3] {1,2,3,4,5,6}\ny = einsum x {equation=\"ii\"}", E_SHAPE,
            "expected 2, found 3");
    REFUSES(
        "x = const f32[1,1,1,1,1] {1}\ny = einsum x, x {equation=\"abcde,fghij->\"}\n"
        "z = einsum x, x, x {equation=\"abcde,fghij,abcde\"}",
        E_ARGUMENT, "too many axes");
}

/* ---- attention, against the same steps written out ---- */

static void same_steps(const char *op, const char *steps, int64_t keys, int line) {
    static const char *const made =
        "graph g() {\na = uniform 1 {shape=[2,3,4], low=-3, high=3}\nb = uniform 2 "
        "{shape=[2,%d,4], low=-3, high=3}\n"
        "c = uniform 3 {shape=[2,%d,5], low=-1, high=1}\nr = uniform 4 {shape=[3,%d]}\nm = ge r, "
        "0.3\n%s\nreturn y\n}\n";
    unsigned char *got[2];
    stax_tensor out[2];
    for (int k = 0; k < 2; k++) {
        char *text = (char *)malloc(8000);
        snprintf(text, 8000, made, (int)keys, (int)keys, (int)keys, k ? steps : op);
        got[k] = output_of(text, &out[k]);
        if (!got[k] && harness_bad(__FILE__, line)) printf("%s\n%s\n", stax_error(ctx), text);
        free(text);
    }
    if (got[0] && got[1] && CHECK_INT(elements(&out[0]), elements(&out[1]))) {
        size_t bytes = (size_t)elements(&out[0]) * 4;
        if (memcmp(got[0], got[1], bytes) != 0 && harness_bad(__FILE__, line)) {
            for (int64_t k = 0; k < elements(&out[0]); k++) {
                if (memcmp(got[0] + k * 4, got[1] + k * 4, 4) == 0) continue;
                say_element("", &out[0], k);
                say_element(" by the op, by its steps ", &out[1], k);
                printf(": %s\n", op);
                break;
            }
        }
    }
    free(got[0]);
    free(got[1]);
}

static void attentions(void) {
#define SCORES "t = transpose b\ns0 = matmul a, t\ns1 = mul s0, 0.5\n"
#define WEIGHTS                                                                                 \
    "p0 = max s {axes=[-1], keepdims=true}\np1 = sub s, p0\np = exp p1\nl = sum p {axes=[-1], " \
    "keepdims=true}\n"                                                                          \
    "v = matmul p, c\ny = div v, l"
    same_steps("y = attention a, b, c", SCORES "s = add s1, 0.0\n" WEIGHTS, 7, __LINE__);
    same_steps("y = attention a, b, c {scale=0.5}", SCORES "s = add s1, 0.0\n" WEIGHTS, 128,
               __LINE__);
    same_steps("y = attention a, b, c, r", SCORES "s = add s1, r\n" WEIGHTS, 9, __LINE__);
    same_steps("y = attention a, b, c, m", SCORES "s = where m, s1, -inf\n" WEIGHTS, 40, __LINE__);
    same_steps("y = attention a, b, c {causal=true}",
               SCORES
               "i = iota {shape=[3,6], axis=0}\nj = iota {shape=[3,6], axis=1}\nn = le j, i\n"
               "s = where n, s1, -inf\n" WEIGHTS,
               6, __LINE__);
    /* two blocks */
    same_steps("y = attention a, b, c",
               SCORES
               "s, z = split s1 {sizes=[128,3], axis=2}\nc1, c2 = split c {sizes=[128,3], axis=1}\n"
               "m1 = max s {axes=[-1], keepdims=true}\nd1 = sub s, m1\np1 = exp d1\nl1 = sum p1 "
               "{axes=[-1], keepdims=true}\n"
               "v1 = matmul p1, c1\nm2 = max z {axes=[-1], keepdims=true}\nm3 = maximum m1, m2\nd2 "
               "= sub z, m3\np2 = exp d2\n"
               "f = sub m1, m3\nh = exp f\nl2 = sum p2 {axes=[-1], keepdims=true}\nl3 = mul l1, "
               "h\nl = add l3, l2\n"
               "v2 = matmul p2, c2\nv3 = mul v1, h\nv = add v3, v2\ny = div v, l",
               131, __LINE__);
    GIVES(
        "q = const f32[1,1] {1}\nv = const f32[2,1] {3, 5}\nz = const f32[2,1] {0, 0}\ny = "
        "attention q, z, v",
        "f32[1,1] {4}");
    GIVES(
        "q = const f32[2,1] {1, 1}\nz = const f32[2,1] {0, 0}\nv = const f32[2,1] {3, 5}\n"
        "y = attention q, z, v {causal=true}",
        "f32[2,1] {3, 4}");
    /* a row without keys is 0 / 0; no keys at all give 0 */
    GIVES(
        "q = const f32[1,1] {1}\nz = const f32[2,1] {0, 0}\nm = const bool[1,2] {false, false}\n"
        "y = attention q, z, z, m",
        "f32[1,1] {nan}");
    GIVES("q = const f32[2,1] {1, 1}\nz = const f32[0,1] {}\ny = attention q, z, z",
          "f32[2,1] {0, 0}");
    GIVES(
        "q = const f16[1,1] {1}\nz = const f16[2,1] {0, 0}\nv = const f16[2,1] {60000, 60000}\n"
        "y = attention q, z, v",
        "f16[1,1] {60000}"); /* computed in f32 */
    GIVES(
        "q = const f32[1,1] {1}\nz = const f32[2,1] {0, 0}\nv = const f32[2,1] {-0.0, -0.0}\n"
        "y = attention q, z, v",
        "f32[1,1] {0}"); /* the weighted values are added to 0 */
    REFUSES(X23 "y = attention x, x, 1.0", E_SHAPE, "attention(|2, 2 and 0 axes");
    REFUSES(X23 "k = const f32[2,2] {1,2,3,4}\ny = attention x, k, k", E_SHAPE,
            "last sizes of q and k");
    REFUSES(X23 "v = const f32[1,3] {1,2,3}\ny = attention x, x, v", E_SHAPE,
            "number of keys and values");
    REFUSES(X23 "m = const bool[3,2] {true,true,true,true,true,true}\ny = attention x, x, x, m",
            E_SHAPE, "the mask");
}

/* ---- NumPy's and PyTorch's other functions ---- */

static void activations(void) {
#define V "x = const f32[7] {-8, -0.5, -0.0, 0, 0.5, 8, nan}\n"
    GIVES(V "y = relu6 x", "f32[7] {0, 0, 0, 0, 0.5, 6, nan}");
    GIVES(V "y = hardtanh x {min_val=-2, max_val=0.25}",
          "f32[7] {-2, -0.5, -0.0, 0, 0.25, 0.25, nan}");
    GIVES("x = const f32[3] {-3, 0, 1}\ny = softsign x", "f32[3] {-0.75, 0, 0.5}");
    GIVES("x = const f32[3] {-0.0, 0, inf}\ny = tanhshrink x", "f32[3] {0, 0, inf}");
    GIVES(V "y = softshrink x", "f32[7] {-7.5, 0, 0, 0, 0, 7.5, nan}");
    GIVES(V "y = softshrink x {lambd=0.25}", "f32[7] {-7.75, -0.25, 0, 0, 0.25, 7.75, nan}");
    GIVES(V "y = hardshrink x", "f32[7] {-8, 0, 0, 0, 0, 8, nan}");
    GIVES("x = const f32[4] {-inf, 0, 3, nan}\ny = celu x {alpha=2}", "f32[4] {-2, 0, 3, nan}");
    GIVES("x = const f32[3] {0, inf, -100}\ny = logsigmoid x",
          "f32[3] {-0x1.62e430p-1, -0.0, -100}");
    GIVES(V "y = threshold x {threshold=0.25, value=20}", "f32[7] {20, 20, 20, 20, 0.5, 8, nan}");
    GIVES("x = const f32[3] {0, 0.5, 1}\ny = logit x", "f32[3] {-inf, 0, inf}");
    GIVES("x = const f32[2,2] {-1, -1, 3, -4}\nw = const f32[2] {2, 3}\ny = prelu x, w",
          "f32[2,2] {-2, -3, 3, -12}");
    GIVES("x = const f32[1,2,2] {-1, -1, 3, -4}\nw = const f32[2] {2, 3}\ny = prelu x, w",
          "f32[1,2,2] {-2, -2, 3, -12}");
    GIVES("x = const f32[2] {-1, 2}\ny = prelu x, 0.25", "f32[2] {-0.25, 2}");
    GIVES("x = const f32[2,4] {1, 2, 0, 0, 4, 6, inf, -inf}\ny = glu x", "f32[2,2] {0.5, 1, 4, 0}");
    GIVES("x = const f16[2] {3, 0}\ny = glu x {axis=0}", "f16[1] {1.5}");
    GIVES("x = const i8[2] {-3, 9}\ny = relu6 x", "f32[2] {0, 6}");
    REFUSES("x = const f32[3] {1, 2, 3}\ny = glu x", E_SHAPE, "glu(x: f32[3])|even size, found 3");
    REFUSES(X23 "w = const f32[2] {1, 2}\ny = prelu x, w", E_SHAPE, "w must broadcast to");
    REFUSES(X23 "y = threshold x {value=1}", E_ARGUMENT, "attribute threshold is needed");
}

static void number_parts(void) {
    GIVES("x = const f32[5] {-0.0, 0, -1, nan, nan(0xffc00001)}\ny = signbit x",
          "bool[5] {true, false, true, false, true}");
    GIVES("x = const i16[2] {-1, 1}\ny = signbit x", "bool[2] {true, false}");
    GIVES("x = const u8[1] {255}\ny = signbit x", "bool[1] {false}");
    GIVES("x = const bool[1] {true}\ny = signbit x", "bool[1] {false}");
    GIVES("x = const f16[4] {nan, inf, -inf, 2}\ny = nan_to_num x", "f16[4] {0, 65504, -65504, 2}");
    GIVES("x = const f32[3] {nan, inf, -inf}\ny = nan_to_num x {nan=1, posinf=2, neginf=-3}",
          "f32[3] {1, 2, -3}");
    GIVES("x = const f32[2] {inf, -inf}\ny = nan_to_num x",
          "f32[2] {0x1.fffffep127, -0x1.fffffep127}");
    GIVES("x = const bf16[1] {inf}\ny = nan_to_num x", "bf16[1] {0x1.fep127}");
    GIVES("x = const i32[1] {5}\ny = nan_to_num x", "i32[1] {5}");
    GIVES("x = const f32[7] {8, -0.75, 0, -0.0, inf, 0x1p-149, nan}\ny, e = frexp x",
          "f32[7] {0.5, -0.75, 0, -0.0, inf, 0.5, nan}");
    GIVES("x = const f32[7] {8, -0.75, 0, -0.0, inf, 0x1p-149, nan}\nm, y = frexp x",
          "i32[7] {4, 0, 0, 0, 0, -148, 0}");
    GIVES("x = const f64[3] {0x1p-1074, -0x1.8p1023, 3}\nm, y = frexp x",
          "i32[3] {-1073, 1024, 2}");
    GIVES("x = const f64[3] {0x1p-1074, -0x1.8p1023, 3}\ny, e = frexp x",
          "f64[3] {0.5, -0.75, 0.75}");
    GIVES(
        "x = const f32[5] {3, 0x1p-149, 1, 0x1.8p-148, 1}\ni = const i64[5] {2, 149, 128, -1, "
        "-9223372036854775808}\n"
        "y = ldexp x, i",
        "f32[5] {12, 1, inf, 0x1p-148, 0}");
    GIVES(
        "x = const f64[6] {0x1p-1074, 1, 0x1.8p0, 0x1p-1000, 1, 0x1p1023}\ni = const i32[6] {2097, "
        "-1074, -1074, 2000, 1024, -2097}\n"
        "y = ldexp x, i",
        "f64[6] {0x1p1023, 0x1p-1074, 0x1p-1073, 0x1p1000, inf, 0x1p-1074}");
    GIVES("x = const f16[2] {1, 0x1.8p0}\ny = ldexp x, -24", "f16[2] {0x1p-24, 0x1p-23}");
    GIVES(
        "a = const f32[7] {1, 1, 0, -0.0, 0, -1, nan}\nb = const f32[7] {2, 0, 1, -1, 0, -1, 1}\ny "
        "= nextafter a, b",
        "f32[7] {0x1.000002p0, 0x1.fffffep-1, 0x1p-149, -0x1p-149, 0, -1, nan}");
    GIVES(
        "a = const f16[4] {65504, 0x1p-24, -0x1p-24, 1}\nb = const f16[4] {inf, 0, 0, inf}\ny = "
        "nextafter a, b",
        "f16[4] {inf, 0, -0.0, 0x1.004p0}");
    GIVES(
        "a = const f32[6] {1, 1, inf, inf, nan, 0}\nb = const f32[6] {1.000001, 1.1, inf, 1, nan, "
        "1e-9}\ny = isclose a, b",
        "bool[6] {true, false, true, false, false, true}");
    GIVES(
        "a = const f32[2] {nan, 1}\nb = const f32[2] {nan, nan}\ny = isclose a, b {equal_nan=true}",
        "bool[2] {true, false}");
    GIVES("a = const f32[1] {1}\nb = const f32[1] {inf}\ny = isclose a, b", "bool[1] {false}");
    GIVES("a = const i64[1] {16777217}\ny = isclose a, 16777216 {rtol=0, atol=0.5}",
          "bool[1] {false}");
    REFUSES(X23 "y = ldexp x, 1.0", E_DTYPE, "integer exponents");
}

static void more_movement(void) {
    GIVES(X33 "y = diagonal x", "f32[3] {1, 5, 9}");
    GIVES(X33 "y = diagonal x {offset=1}", "f32[2] {2, 6}");
    GIVES(X33 "y = diagonal x {offset=-2}", "f32[1] {7}");
    GIVES(X33 "y = diagonal x {offset=9}", "f32[0] {}");
    GIVES(X23 "y = diagonal x {axis1=1, axis2=0, offset=1}", "f32[1] {4}");
    GIVES(
        "x = const i32[2,2,3] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\ny = diagonal x {axis1=0, "
        "axis2=2}",
        "i32[2,2] {1, 8, 4, 11}");
    GIVES("x = const i32[2,2,3] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}\ny = diagonal x",
          "i32[3,2] {1, 10, 2, 11, 3, 12}");
    GIVES("x = const f16[2] {nan(0x7e01), 2}\ny = diag x", "f16[2,2] {nan(0x7e01), 0, 0, 2}");
    GIVES("x = const i8[2] {1, 2}\ny = diag x {k=1}", "i8[3,3] {0, 1, 0, 0, 0, 2, 0, 0, 0}");
    GIVES("x = const i8[1] {5}\ny = diag x {k=-1}", "i8[2,2] {0, 0, 5, 0}");
    GIVES(X23 "y = diag x {k=1}", "f32[2] {2, 6}");
    GIVES(X33 "y = trace x", "f32[] {15}");
    GIVES("x = const i8[2,2] {100, 0, 0, 100}\ny = trace x", "i64[] {200}");
    GIVES("x = const i8[2,2] {100, 0, 0, 100}\ny = trace x {dtype=i8}", "i8[] {-56}");
    GIVES("x = const f16[2,2] {2049, 0, 0, 1}\ny = trace x",
          "f16[] {2048}"); /* 2049 is 2048 in f16; the sum 2049 too */
    GIVES(X23 "y = repeat x {repeats=2, axis=1}", "f32[2,6] {1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6}");
    GIVES(X23 "y = repeat x {repeats=2, axis=0}", "f32[4,3] {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}");
    GIVES("x = const i8[1,2] {1, 2}\ny = repeat x {repeats=3}", "i8[6] {1, 1, 1, 2, 2, 2}");
    GIVES(X23 "y = repeat x {repeats=0, axis=0}", "f32[0,3] {}");
    GIVES("a = const i8[2] {1, 2}\nb = const f32[3] {3, 4, 5}\ny, z = meshgrid a, b",
          "i8[3,2] {1, 2, 1, 2, 1, 2}");
    GIVES(
        "a = const i8[2] {1, 2}\nb = const f32[3] {3, 4, 5}\nz, y = meshgrid a, b "
        "{indexing=\"ij\"}",
        "f32[2,3] {3, 4, 5, 3, 4, 5}");
    GIVES("y = arange {stop=4}", "i64[4] {0, 1, 2, 3}");
    GIVES("y = arange {start=5, stop=0, step=-2}", "i64[3] {5, 3, 1}");
    GIVES("y = arange {start=0, stop=1, step=0.25}", "f32[4] {0, 0.25, 0.5, 0.75}");
    GIVES("y = arange {start=3, stop=1}", "i64[0] {}");
    GIVES("y = arange {stop=3, dtype=f16}", "f16[3] {0, 1, 2}");
    GIVES("y = linspace {start=0, stop=1, num=3}", "f32[3] {0, 0.5, 1}");
    GIVES("y = linspace {start=0, stop=1, num=4, endpoint=false, dtype=f64}",
          "f64[4] {0, 0.25, 0.5, 0.75}");
    GIVES("y = linspace {start=2, stop=9, num=1}", "f32[1] {2}");
    GIVES("y = linspace {start=0, stop=-1, num=3, dtype=i32}", "i32[3] {0, -1, -1}");
    GIVES("y = linspace {start=0, stop=1, num=0}", "f32[0] {}");
    GIVES(X23 "i = const u8[2] {1, 1}\ny = index_select x, i {axis=1}", "f32[2,2] {2, 2, 5, 5}");
    GIVES(X23 "i = const i64[1,2] {1, -2}\ny = embedding i, x", "f32[1,2,3] {4, 5, 6, 1, 2, 3}");
    GIVES(
        "x = const i8[3] {1, 2, 3}\nm = const bool[3] {true, false, true}\ny = masked_fill x, m, "
        "-7",
        "i8[3] {-7, 2, -7}");
    REFUSES(X33 "y = diagonal x {axis1=1, axis2=-1}", E_ARGUMENT, "axis 1 is given twice");
    REFUSES("x = const f32[2] {1, 2}\ny = diagonal x", E_SHAPE, "at least 2 axes");
    REFUSES("x = const f32[1,1,1] {1}\ny = diag x", E_SHAPE, "a vector or a matrix, found 3");
    REFUSES(X23 "y = repeat x {repeats=-1}", E_ARGUMENT, "repeats");
    REFUSES(X23 "a, y = meshgrid x, x", E_SHAPE, "expected a vector, found 2");
    REFUSES("y = arange {stop=3, step=0}", E_ARGUMENT, "a step other than 0");
    REFUSES("y = arange {stop=inf}", E_ARGUMENT, "finite");
    REFUSES("y = linspace {start=0, stop=1, num=-1}", E_ARGUMENT, "num");
    REFUSES(X23 "i = const i64[1] {2}\ny = index_select x, i", E_INDEX,
            "index_select: index 2|size 2");
    REFUSES(X23 "i = const i64[1] {-3}\ny = embedding i, x", E_INDEX, "embedding: index -3|size 2");
    REFUSES(X23 "i = const i64[1,1] {0}\ny = index_select x, i", E_SHAPE,
            "a vector of indices, found 2");
    REFUSES("x = const i8[1] {1}\ny = masked_fill x, true, 300", E_DTYPE, "300");
    REFUSES(X23 "m = const bool[2] {true, false}\ny = masked_fill x, m, 0", E_SHAPE, "the mask");
    REFUSES(X23 "y = nonzero x", E_SHAPE, "nonzero|depends on the data|mask|topk");
    REFUSES(X23 "y = unique x", E_SHAPE, "unique|depends on the data");
    REFUSES(X23 "y = masked_select x, x", E_SHAPE, "masked_select|depends on the data");
}

static void products_and_losses(void) {
    GIVES("a = const f32[2] {1, 2}\nb = const f32[1,2] {3, 4}\ny = outer a, b",
          "f32[2,2] {3, 4, 6, 8}");
    GIVES("a = const i8[2] {1, 2}\nb = const i16[0] {}\ny = outer a, b", "i16[2,0] {}");
    GIVES("a = const f32[2,2] {1, 2, 3, 4}\nb = const f32[2] {1, 10}\ny = kron a, b",
          "f32[2,4] {1, 10, 2, 20, 3, 30, 4, 40}");
    GIVES("a = const i32[2] {1, 2}\nb = const i32[2,1] {1, 10}\ny = kron a, b",
          "i32[2,2] {1, 2, 10, 20}");
    GIVES("a = const f32[3] {1, 2, 3}\nb = const f32[3] {4, 5, 6}\ny = cross a, b",
          "f32[3] {-3, 6, -3}");
    GIVES(
        "a = const f32[3,1] {1, 0, 0}\nb = const f32[3,2] {0, 0, 1, 0, 0, 1}\ny = cross a, b "
        "{axis=0}",
        "f32[3,2] {0, 0, 0, -1, 1, 0}");
    REFUSES("a = const f32[2] {1, 2}\ny = cross a, a", E_SHAPE, "expected size 3, found 2");
    REFUSES("a = const f32[1,1,1,1,1] {1}\ny = kron a, a", E_SHAPE, "at most 4 axes, found 5");
#define AB "a = const f32[3] {1, 2, 5}\nb = const f32[3] {1, 0, 2}\n"
    GIVES(AB "y = mse_loss a, b {reduction=\"none\"}", "f32[3] {0, 4, 9}");
    GIVES(AB "y = mse_loss a, b {reduction=\"sum\"}", "f32[] {13}");
    GIVES(AB "y = l1_loss a, b {reduction=\"none\"}", "f32[3] {0, 2, 3}");
    GIVES("a = const f16[2,2] {200, 200, 0, 0}\ny = mse_loss a, 0.0",
          "f16[] {20000}"); /* squares do not fit */
    GIVES(AB "y = huber_loss a, b {delta=2, reduction=\"none\"}", "f32[3] {0, 2, 4}");
    GIVES(AB "y = smooth_l1_loss a, b {beta=4, reduction=\"none\"}", "f32[3] {0, 0.5, 1.125}");
    GIVES(AB "y = smooth_l1_loss a, b {beta=0, reduction=\"none\"}", "f32[3] {0, 2, 3}");
    GIVES(
        "p = const f32[3] {0.5, 0, 1}\nt = const f32[3] {1, 1, 1}\ny = binary_cross_entropy p, t "
        "{reduction=\"none\"}",
        "f32[3] {0x1.62e430p-1, 100, -0.0}");
    GIVES(
        "x = const f32[3] {0, 1000, -1000}\nt = const f32[3] {0.25, 1, 1}\n"
        "y = binary_cross_entropy_with_logits x, t {reduction=\"none\"}",
        "f32[3] {0x1.62e430p-1, 0, 1000}");
    GIVES("x = const f32[2] {-1, 5}\nt = const f32[2] {1, 0}\ny = kl_div x, t {reduction=\"none\"}",
          "f32[2] {1, 0}");
    GIVES(X23 "l = const i64[2] {0, -1}\ny = nll_loss x, l {reduction=\"none\"}",
          "f32[2] {-1, -6}");
    GIVES(X23 "l = const i64[2] {0, -1}\ny = nll_loss x, l", "f32[] {-3.5}");
    REFUSES(X23 "l = const i64[2] {0, 3}\ny = nll_loss x, l", E_INDEX, "nll_loss: index 3|size 3");
    REFUSES(AB "y = mse_loss a, b {reduction=\"max\"}", E_ARGUMENT, "mean|sum|none");
    REFUSES(X23 "a = const f32[2] {1, 2}\ny = mse_loss x, a", E_SHAPE, "broadcast");
}

/* ---- whole files: the corpus, and networks ---- */

static const char *const files[] = {"tests/corpus/good/masks_norms.stax",
                                    "tests/corpus/good/windows.stax",
                                    "tests/corpus/good/einsum_attention.stax",
                                    "tests/corpus/good/functions.stax",
                                    "examples/nets/mlp.stax",
                                    "examples/nets/cnn.stax",
                                    "examples/nets/lenet.stax",
                                    "examples/nets/transformer.stax",
                                    "examples/nets/unet.stax"};
enum { N_FILES = sizeof files / sizeof files[0] };

/* Compiled programs give the interpreter's bits, for small and large sizes. */
static void compiled_files(void) {
    for (size_t k = 0; k < N_FILES; k++) {
        stax_graph *g = file_graph(ctx, files[k]);
        stax_program *p = g ? stax_compile(g, NULL) : NULL;
        if (!CHECK(p != NULL)) printf("   %s\n", stax_error(ctx));
        int64_t most = strncmp(files[k], "tests/", 6) == 0 ? 400 : 20; /* networks grow fast */
        for (int64_t size = 3; p && size < most; size = size * 4 + 1) {
            feed a, b;
            if (!CHECK(feed_make(&a, g, size, 3) && feed_make(&b, g, size, 3))) continue;
            if (!CHECK_INT(stax_interpret(g, a.all, a.outputs), STAX_OK))
                printf("   %s\n", stax_error(ctx));
            CHECK_INT(feed_bind(p, &b), STAX_OK);
            CHECK_INT(stax_run(p, b.slots, b.outputs), STAX_OK);
            if (!CHECK(feed_equal(&a, &b))) printf("   %s, size %d\n", files[k], (int)size);
            CHECK(feed_guards_hold(&b));
            feed_free(&a);
            feed_free(&b);
        }
        if (p) CHECK_INT(stax_program_status(p), STAX_OK);
        stax_program_free(p);
        stax_graph_free(g);
    }
    (void)feed_graphs;
}

/* The windows of a convolution are never written out, only the image they look at, if it is
 * computed or padded: once, with its border. */
static void windows_stay_views(void) {
    stax_graph *g = stax_parse(ctx, "plan",
                               "graph g(x: f16[1,16,32,32], w: f16[32,16,3,3]) {\n"
                               "y = conv x, w {padding=\"same\", stride=2}\nreturn y\n}");
    stax_program *p = stax_compile(g, NULL);
    char *plan = p ? stax_program_report(p, STAX_REPORT_PLAN) : NULL;
    CHECK(plan && strstr(plan, "f32[1,16,33,33] workspace"));
    CHECK(plan && !strstr(plan, "f32[1,16,16,16,3,3]"));
    stax_free(ctx, plan);
    stax_program_free(p);
    stax_graph_free(g);
}

/* Decomposition without memory is a status. */
static void without_memory(void) {
    for (size_t k = 0; k < N_FILES; k++) {
        heap h;
        memset(&h, 0, sizeof h);
        h.from_then_on = 1;
        stax_options o = heap_options(&h);
        stax_context *c = stax_open(&o);
        stax_graph *g = file_graph(c, files[k]);
        int64_t before = h.calls, all, failures = 0;
        stax_graph *basis = stax_rewritten(g);
        CHECK(basis && stax_graph_status(basis) == STAX_OK);
        stax_graph_free(basis);
        all = h.calls - before;
        for (int64_t at = 1; at <= all; at++) {
            int64_t blocks = h.blocks;
            h.fail_at = h.calls + at;
            basis = stax_rewritten(g);
            h.fail_at = 0;
            if (!basis || stax_graph_status(basis) == STAX_E_MEMORY)
                failures++;
            else if (!CHECK(stax_graph_status(basis) == STAX_OK))
                printf("   %s\n", stax_graph_error(basis));
            stax_graph_free(basis);
            CHECK_INT(h.blocks, blocks);
        }
        CHECK(failures > 0 && failures >= all / 2);
        stax_graph_free(g);
        stax_close(c);
        CHECK_INT(h.blocks, 0);
        CHECK_INT(h.wrong, 0);
    }
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    ctx = stax_open(NULL);
    RUN(selects);
    RUN(one_hots);
    RUN(triangles);
    RUN(norms);
    RUN(group_and_batch_norm);
    RUN(cross_entropies);
    RUN(dropouts);
    RUN(convolutions);
    RUN(pools);
    RUN(adaptive_pools);
    RUN(resizes);
    RUN(window_edges);
    RUN(window_errors);
    RUN(einsums);
    RUN(einsum_rules);
    RUN(attentions);
    RUN(activations);
    RUN(number_parts);
    RUN(more_movement);
    RUN(products_and_losses);
    RUN(compiled_files);
    RUN(windows_stay_views);
    RUN(without_memory);
    stax_close(ctx);
    return HARNESS_END();
}
