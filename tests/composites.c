/* Composite ops: values worked out by hand or by plain loops, edge shapes, errors.
   A case is text: statements that define y, and y as a constant. Bits are compared; what compiled
   programs give is compared with the interpreter in differential.c (tests/corpus/good has these ops). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAX_STATIC
#define STAX_IMPLEMENTATION
#include "../stax.h"

#include "harness.h"

static stax_context *ctx;

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

static double element(const stax_tensor *t, int64_t k) {
    const void *in = (const char *)t->data + (size_t)k * stax_dtype_bytes(t->dtype);
    float single = 0;
    if (t->dtype == STAX_F64) return *(const double *)in;
    if (t->dtype == STAX_F32) return (double)*(const float *)in;
    staxi_cast_find(t->dtype, STAX_F32)->loop(&single, &in, 1);
    return (double)single;
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
            if (harness_bad(__FILE__, line))
                printf("element %d is %.9g, expected %.9g\n%s\n", (int)k, element(&a, k),
                       element(&b, k), body);
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
    stax_close(ctx);
    return HARNESS_END();
}
