/* Wrong calls: each gives the right status and a message that names what is wrong, and touches
   nothing of the caller's. */
#if !defined(_WIN32)
#define _GNU_SOURCE
#include <sys/stat.h>
#include <unistd.h>
#endif
#include "feed.h"
#include "harness.h"
#include "programs.h"

static const char *folder(const char *name) {
    static char path[300];
    const char *build = getenv("BUILD");
    snprintf(path, sizeof path, "%s/errors-%s", build ? build : "build", name);
    return path;
}

/* The program under attack, compiled and interpreted. */
static stax_program *program(const char *text, int interpret) {
    stax_graph *g = parsed(text);
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.interpret = interpret != 0;
    stax_program *p = g ? stax_compile(g, &o) : NULL;
    if (!p) printf("%s\n", stax_error(ctx));
    CHECK(p != NULL);
    if (p) CHECK_INT(stax_program_status(p), interpret ? STAX_E_NOT_BUILT : STAX_OK);
    stax_graph_free(g);
    return p;
}

#define FAILS(call, status, part)                                                              \
    do {                                                                                       \
        stax_status got_ = (call);                                                             \
        CHECK_INT(got_, status);                                                               \
        if (got_ != STAX_OK) CHECK_HAS(stax_error(ctx), part);                                 \
        if (got_ != STAX_OK) CHECK_INT(stax_error_status(ctx), got_);                          \
    } while (0)

/* Tests of calls run twice: mode 0 compiled, 1 interpreted. */
static int mode;

/* ---- tensors ---- */

static const char two[] = "graph two(x: f32[2,3], y: f32[3]) { z = add x, y\n s = sum z\n return z, s }";
static float ax[16], ay[16], az[16], as[4];

static void usual(stax_tensor *in, stax_tensor *out) {
    for (int k = 0; k < 16; k++) ax[k] = ay[k] = (float)k;
    in[0] = stax_tensor_of(STAX_F32, stax_shape2(2, 3), ax);
    in[1] = stax_tensor_of(STAX_F32, stax_shape1(3), ay);
    out[0] = stax_tensor_of(STAX_F32, stax_shape2(2, 3), az);
    out[1] = stax_tensor_of(STAX_F32, stax_shape0(), as);
}

static void wrong_tensors(void) {
    stax_program *p = program(two, mode);
    stax_tensor in[2], out[2];
    if (!p) return;
    usual(in, out);
    CHECK_INT(stax_run(p, in, out), STAX_OK);

    usual(in, out), in[0].dtype = STAX_F64;
    FAILS(stax_run(p, in, out), STAX_E_DTYPE, "x");
    CHECK_HAS(stax_error(ctx), "f32");
    CHECK_HAS(stax_error(ctx), "f64");
    usual(in, out), in[1].dtype = STAX_DTYPE_NONE;
    FAILS(stax_run(p, in, out), STAX_E_ARGUMENT, "y");
    usual(in, out), in[1].dtype = (stax_dtype)99;
    FAILS(stax_run(p, in, out), STAX_E_ARGUMENT, "y");
    usual(in, out), out[0].dtype = STAX_I32;
    FAILS(stax_run(p, in, out), STAX_E_DTYPE, "z");
    usual(in, out), in[0].shape[1] = 4;
    FAILS(stax_run(p, in, out), STAX_E_SHAPE, "x");
    CHECK_HAS(stax_error(ctx), "3");
    CHECK_HAS(stax_error(ctx), "4");
    usual(in, out), in[0].shape[0] = -2;
    FAILS(stax_run(p, in, out), STAX_E_SHAPE, "x");
    usual(in, out), out[1] = stax_tensor_of(STAX_F32, stax_shape1(1), as);
    FAILS(stax_run(p, in, out), STAX_E_SHAPE, "s");
    usual(in, out), in[1].rank = 2;
    FAILS(stax_run(p, in, out), STAX_E_SHAPE, "y");
    usual(in, out), in[1].rank = -1;
    FAILS(stax_run(p, in, out), STAX_E_ARGUMENT, "y");
    usual(in, out), in[1].rank = 9;
    FAILS(stax_run(p, in, out), STAX_E_ARGUMENT, "y");
    usual(in, out), in[0].strides[0] = 4;
    FAILS(stax_run(p, in, out), STAX_E_ARGUMENT, "x");
    CHECK_HAS(stax_error(ctx), "row");
    usual(in, out), in[0].strides[1] = 2;
    FAILS(stax_run(p, in, out), STAX_E_ARGUMENT, "x");
    usual(in, out), out[0].strides[0] = 6;
    FAILS(stax_run(p, in, out), STAX_E_ARGUMENT, "z");
    usual(in, out), in[0].data = NULL;
    FAILS(stax_run(p, in, out), STAX_E_ARGUMENT, "x");
    usual(in, out), out[1].data = NULL;
    FAILS(stax_run(p, in, out), STAX_E_ARGUMENT, "s");
    usual(in, out), in[0].device = 1;
    FAILS(stax_run(p, in, out), STAX_E_DEVICE, "x");
    usual(in, out);
    FAILS(stax_run(p, NULL, out), STAX_E_ARGUMENT, "input");
    FAILS(stax_run(p, in, NULL), STAX_E_ARGUMENT, "output");
    /* the strides of an axis of size 1 do not matter */
    CHECK_INT(stax_run(p, in, out), STAX_OK);
    stax_program_free(p);
}

static void wrong_interpret(void) {
    stax_graph *g = parsed(two);
    stax_tensor in[2], out[2];
    if (!g) return;
    usual(in, out), in[0].dtype = STAX_F64;
    FAILS(stax_interpret(g, in, out), STAX_E_DTYPE, "x");
    usual(in, out), in[0].shape[1] = 4;
    FAILS(stax_interpret(g, in, out), STAX_E_SHAPE, "x");
    usual(in, out), in[0].data = NULL;
    FAILS(stax_interpret(g, in, out), STAX_E_ARGUMENT, "x");
    usual(in, out), in[0].strides[0] = 4;
    FAILS(stax_interpret(g, in, out), STAX_E_ARGUMENT, "x");
    usual(in, out), out[0].rank = 1;
    FAILS(stax_interpret(g, in, out), STAX_E_SHAPE, "z");
    usual(in, out);
    CHECK_INT(stax_interpret(g, in, out), STAX_OK);
    stax_graph_free(g);
}

static void null_programs(void) {
    stax_tensor t;
    stax_figures f;
    memset(&t, 0, sizeof t);
    CHECK_INT(stax_run(NULL, &t, &t), STAX_E_ARGUMENT);
    CHECK_INT(stax_run_with(NULL, &t, &t, NULL, 0), STAX_E_ARGUMENT);
    CHECK_INT(stax_workspace_bytes(NULL, &t), 0);
    CHECK_INT(stax_bind(NULL, "x", &t), STAX_E_ARGUMENT);
    CHECK_INT(stax_export(NULL, folder("null"), "p", NULL), STAX_E_ARGUMENT);
    CHECK_INT(stax_program_status(NULL), STAX_E_ARGUMENT);
    CHECK_INT(stax_program_figures(NULL, NULL, &f), STAX_E_ARGUMENT);
    CHECK(stax_program_report(NULL, STAX_REPORT_C) == NULL);
    CHECK_INT(stax_interpret(NULL, &t, &t), STAX_E_ARGUMENT);
    CHECK(stax_compile(NULL, NULL) == NULL);
    CHECK(stax_print(NULL) == NULL);
    CHECK(!stax_ok(NULL));
    stax_program_free(NULL);
    stax_graph_free(NULL);
    stax_free(ctx, NULL);
    stax_close(NULL);
}

static void symbols(void) {
    stax_program *p = program("sizes n: 2..6, m\ngraph g(x: f32[n,m], y: f32[2*n+1]) { s = sum x {axes=1}\n t = sum y\n return s, t }", mode);
    stax_tensor in[2], out[2];
    static float x[64], y[64], s[64], t[1];
    if (!p) return;
    in[0] = stax_tensor_of(STAX_F32, stax_shape2(3, 4), x);
    in[1] = stax_tensor_of(STAX_F32, stax_shape1(7), y);
    out[0] = stax_tensor_of(STAX_F32, stax_shape1(3), s);
    out[1] = stax_tensor_of(STAX_F32, stax_shape0(), t);
    CHECK_INT(stax_run(p, in, out), STAX_OK);
    in[0].shape[0] = 7, in[1].shape[0] = 15, out[0].shape[0] = 7;
    FAILS(stax_run(p, in, out), STAX_E_SHAPE, "n");
    CHECK_HAS(stax_error(ctx), "6");
    in[0].shape[0] = 1, in[1].shape[0] = 3, out[0].shape[0] = 1;
    FAILS(stax_run(p, in, out), STAX_E_SHAPE, "n");
    in[0].shape[0] = 3, in[1].shape[0] = 8, out[0].shape[0] = 3;
    FAILS(stax_run(p, in, out), STAX_E_SHAPE, "y");
    in[1].shape[0] = 7, out[0].shape[0] = 4;
    FAILS(stax_run(p, in, out), STAX_E_SHAPE, "s");
    stax_program_free(p);
}

static void overflowing_sizes(void) {
    stax_program *p = program("graph g(x: f32[n,m]) { y = cumsum x {axis=0}\n t = transpose y\n z = exp t\n return z }", mode);
    stax_tensor in, out;
    static float x[4], z[4];
    if (!p) return;
    in = stax_tensor_of(STAX_F32, stax_shape2((int64_t)1 << 40, (int64_t)1 << 40), NULL);
    in.data = x;
    in.strides[0] = (int64_t)1 << 40, in.strides[1] = 1;
    out = in;
    out.data = z;
    stax_status s = stax_run(p, &in, &out);
    CHECK(s == STAX_E_OVERFLOW || s == STAX_E_SHAPE || s == STAX_E_ARGUMENT);
    in = stax_tensor_of(STAX_F32, stax_shape2(INT64_MAX, 2), x);
    in.strides[0] = 2, in.strides[1] = 1;
    out = in;
    out.shape[0] = 2, out.shape[1] = INT64_MAX, out.strides[0] = INT64_MAX;
    out.data = z;
    s = stax_run(p, &in, &out);
    CHECK(s == STAX_E_OVERFLOW || s == STAX_E_SHAPE || s == STAX_E_ARGUMENT);
    CHECK(stax_error(ctx)[0] != 0);
    CHECK_INT(stax_workspace_bytes(p, &in), 0);
    stax_program_free(p);
}

/* ---- layouts ---- */

static void layouts(void) {
    stax_program *p = program("graph g(x: f32[2,3] strided, y: f32[2,3] strides [1,2]) { z = add x, y\n return z }", mode);
    static float x[32], y[32], z[32];
    stax_tensor in[2], out[1];
    if (!p) return;
    in[0] = stax_tensor_of(STAX_F32, stax_shape2(2, 3), x);
    in[1] = stax_tensor_of(STAX_F32, stax_shape2(2, 3), y);
    out[0] = stax_tensor_of(STAX_F32, stax_shape2(2, 3), z);
    FAILS(stax_run(p, in, out), STAX_E_ARGUMENT, "y");
    CHECK_HAS(stax_error(ctx), "stride");
    in[1].strides[0] = 1, in[1].strides[1] = 2;
    CHECK_INT(stax_run(p, in, out), STAX_OK);
    in[0].strides[0] = 0, in[0].strides[1] = 0; /* one element for all */
    CHECK_INT(stax_run(p, in, out), STAX_OK);
    in[0].data = x + 31, in[0].strides[0] = -7, in[0].strides[1] = -2;
    CHECK_INT(stax_run(p, in, out), STAX_OK);
    stax_program_free(p);
}

/* ---- workspace ---- */

static void workspace(void) {
    stax_program *p = program("graph g(x: f32[32,32], y: f32[32,32]) { a = matmul x, y\n b = softmax a {axis=0}\n c = matmul b, x\n return c }", 0);
    static float x[1024], y[1024], z[1024];
    static unsigned char room[1 << 17];
    stax_tensor in[2], out[1];
    if (!p) return;
    in[0] = stax_tensor_of(STAX_F32, stax_shape2(32, 32), x);
    in[1] = stax_tensor_of(STAX_F32, stax_shape2(32, 32), y);
    out[0] = stax_tensor_of(STAX_F32, stax_shape2(32, 32), z);
    size_t need = stax_workspace_bytes(p, in);
    CHECK(need > 0 && need < sizeof room - 128);
    unsigned char *at = room + (64 - (uintptr_t)room % 64) % 64;
    CHECK_INT(stax_run_with(p, in, out, at, need), STAX_OK);
    FAILS(stax_run_with(p, in, out, at, need - 1), STAX_E_MEMORY, "workspace");
    FAILS(stax_run_with(p, in, out, at, 0), STAX_E_MEMORY, "workspace");
    FAILS(stax_run_with(p, in, out, NULL, 0), STAX_E_MEMORY, "workspace");
    FAILS(stax_run_with(p, in, out, NULL, need), STAX_E_MEMORY, "workspace");
    stax_status s = stax_run_with(p, in, out, at + 4, need);
    CHECK(s == STAX_E_MEMORY || s == STAX_E_ARGUMENT);
    CHECK_HAS(stax_error(ctx), "align");
    memset(room, 0x5a, sizeof room);
    CHECK_INT(stax_run_with(p, in, out, at, need), STAX_OK);
    for (size_t k = 0; k < 64; k++) CHECK_INT(at[need + k], 0x5a);
    stax_program_free(p);
}

/* ---- memory that overlaps ---- */

static void overlaps(void) {
    stax_program *p = program("graph g(x: f32[8], y: f32[8]) { a = add x, y\n b = mul x, 2.0\n return a, b }", mode);
    static float m[64], y[8];
    stax_tensor in[2], out[2];
    if (!p) return;
    for (int k = 0; k < 64; k++) m[k] = (float)k;
    in[0] = stax_tensor_of(STAX_F32, stax_shape1(8), m);
    in[1] = stax_tensor_of(STAX_F32, stax_shape1(8), y);
    out[0] = stax_tensor_of(STAX_F32, stax_shape1(8), m + 16);
    out[1] = stax_tensor_of(STAX_F32, stax_shape1(8), m + 24);
    CHECK_INT(stax_run(p, in, out), STAX_OK);
    out[1].data = m + 20; /* two outputs */
    FAILS(stax_run(p, in, out), STAX_E_ALIAS, "a");
    out[1].data = m + 16;
    FAILS(stax_run(p, in, out), STAX_E_ALIAS, "b");
    out[1].data = m + 24, in[0].data = m + 12; /* an output and an input, shifted */
    FAILS(stax_run(p, in, out), STAX_E_ALIAS, "x");
    in[0].data = m + 17;
    FAILS(stax_run(p, in, out), STAX_E_ALIAS, "x");
    in[0].data = in[1].data = m; /* inputs may be the same */
    CHECK_INT(stax_run(p, in, out), STAX_OK);
    in[1].data = m + 3;
    CHECK_INT(stax_run(p, in, out), STAX_OK);
    stax_program_free(p);
}

static void in_place(void) {
    static float m[64], want[64];
    stax_tensor in, out;
    stax_program *p = program("graph g(x: f32[64]) { a = mul x, 2.0\n b = exp a\n return b }", mode);
    if (!p) return;
    for (int k = 0; k < 64; k++) m[k] = (float)k / 32.0f;
    in = stax_tensor_of(STAX_F32, stax_shape1(64), m);
    out = stax_tensor_of(STAX_F32, stax_shape1(64), want);
    CHECK_INT(stax_run(p, &in, &out), STAX_OK);
    out.data = m;
    CHECK_INT(stax_run(p, &in, &out), STAX_OK); /* exact and elementwise: legal */
    CHECK_BYTES(m, want, sizeof want);
    stax_program_free(p);

    p = program("graph g(x: f32[64]) { b = flip x\n return b }", mode);
    if (!p) return;
    for (int k = 0; k < 64; k++) m[k] = (float)k;
    in = stax_tensor_of(STAX_F32, stax_shape1(64), m);
    out.data = m;
    stax_status s = stax_run(p, &in, &out); /* refused, or right */
    if (s == STAX_OK)
        for (int k = 0; k < 64; k++) CHECK_FLOAT(m[k], 63 - k);
    else {
        CHECK_INT(s, STAX_E_ALIAS);
        CHECK_HAS(stax_error(ctx), "x");
        CHECK_HAS(stax_error(ctx), "b");
    }
    stax_program_free(p);

    /* the same address with other sizes: [8] in, [4] out */
    p = program("graph g(x: f32[8]) { a = slice x {starts=[4], stops=[8]}\n b = neg a\n return b }", mode);
    if (!p) return;
    for (int k = 0; k < 64; k++) m[k] = (float)k;
    in = stax_tensor_of(STAX_F32, stax_shape1(8), m);
    out = stax_tensor_of(STAX_F32, stax_shape1(4), m);
    s = stax_run(p, &in, &out);
    if (s == STAX_OK)
        for (int k = 0; k < 4; k++) CHECK_FLOAT(m[k], -4 - k);
    else
        CHECK_INT(s, STAX_E_ALIAS);
    stax_program_free(p);
}

static void state_aliases(void) {
    stax_program *p = program("graph g(inout s: f32[8], x: f32[8]) { a = mul s, 2.0\n b = add s, x\n assign s, b\n return a }", mode);
    static float m[64];
    stax_tensor in[2], out[1];
    if (!p) return;
    in[0] = stax_tensor_of(STAX_F32, stax_shape1(8), m);
    in[1] = stax_tensor_of(STAX_F32, stax_shape1(8), m + 8);
    out[0] = stax_tensor_of(STAX_F32, stax_shape1(8), m + 16);
    CHECK_INT(stax_run(p, in, out), STAX_OK);
    out[0].data = m; /* an output is the state */
    FAILS(stax_run(p, in, out), STAX_E_ALIAS, "s");
    out[0].data = m + 4;
    FAILS(stax_run(p, in, out), STAX_E_ALIAS, "s");
    out[0].data = m + 16, in[1].data = m + 4; /* an input overlaps the state */
    FAILS(stax_run(p, in, out), STAX_E_ALIAS, "s");
    stax_program_free(p);
    p = program("graph g(inout s: f32[8], inout t: f32[8]) { a = add s, t\n assign s, a\n b = mul t, 3.0\n assign t, b\n return a }", mode);
    if (!p) return;
    in[0].data = in[1].data = m;
    FAILS(stax_run(p, in, out), STAX_E_ALIAS, "s");
    in[1].data = m + 4;
    FAILS(stax_run(p, in, out), STAX_E_ALIAS, "t");
    stax_program_free(p);
}

/* The check of n tensors sorts them: any order of places is right, and two that meet are found. */
static void many_states(void) {
    enum { MOST = 140, ROOM = 9 };
    static const int counts[] = {1, 2, 5, 24, 100, MOST};
    static float m[MOST * ROOM + ROOM], sum;
    static char text[MOST * 90];
    static stax_tensor in[MOST];
    stax_tensor out = stax_tensor_of(STAX_F32, stax_shape0(), &sum);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        int n = counts[c];
        char *at = text + sprintf(text, "graph g(");
        for (int k = 0; k < n; k++) at += sprintf(at, "%sinout s%d: f32[8]", k ? ", " : "", k);
        at += sprintf(at, ") {\n");
        for (int k = 0; k < n; k++)
            at += sprintf(at, " a%d = add s%d, %d.0\n assign s%d, a%d\n", k, k, k, k, k);
        sprintf(at, " y = sum s0\n return y }\n");
        stax_program *p = program(text, mode);
        if (!p) return;
        for (int k = 0; k < n; k++) { /* every place once, out of order */
            int place = (k * 37 + 11) % n;
            if (n == 100) place = n - 1 - k;
            in[k] = stax_tensor_of(STAX_F32, stax_shape1(8), m + place * ROOM);
        }
        memset(m, 0, sizeof m);
        CHECK_INT(stax_run(p, in, &out), STAX_OK);
        CHECK_INT(stax_run_with(p, in, &out, NULL, 0), STAX_OK);
        for (int k = 0; k < n; k++) CHECK_FLOAT(((float *)in[k].data)[7], 2 * k);
        for (int k = 0; k + 1 < n; k += 1 + n / 7) {
            float *old = (float *)in[k].data; /* its neighbours: just touched, then met */
            in[k].data = old + 1;
            CHECK_INT(stax_run(p, in, &out), STAX_OK);
            in[k].data = old != m ? old - 2 : old + 2;
            FAILS(stax_run(p, in, &out), STAX_E_ALIAS, "share memory: bytes ");
            FAILS(stax_run_with(p, in, &out, NULL, 0), STAX_E_ALIAS, "share memory: bytes ");
            in[k].data = old;
        }
        out.data = in[n / 2].data;
        FAILS(stax_run(p, in, &out), STAX_E_ALIAS, "output y share memory: bytes 0..3 ");
        out.data = &sum;
        stax_program_free(p);
    }
}

/* ---- params ---- */

static void params(void) {
    stax_program *p = program("graph g(x: f32[2,3], param w: f32[4,3], param b: f32[4]) { y = linear x, w, b\n return y }", mode);
    static float x[6], w[12], b[4], y[8];
    stax_tensor in, out, t;
    if (!p) return;
    in = stax_tensor_of(STAX_F32, stax_shape2(2, 3), x);
    out = stax_tensor_of(STAX_F32, stax_shape2(2, 4), y);
    FAILS(stax_run(p, &in, &out), STAX_E_UNBOUND, "w");
    t = stax_tensor_of(STAX_F32, stax_shape2(4, 3), w);
    FAILS(stax_bind(p, "q", &t), STAX_E_NAME, "q");
    FAILS(stax_bind(p, "x", &t), STAX_E_NAME, "x");
    FAILS(stax_bind(p, "", &t), STAX_E_NAME, "param");
    FAILS(stax_rebind(p, "q", &t), STAX_E_NAME, "q");
    CHECK_INT(stax_bind(p, "w", &t), STAX_OK);
    FAILS(stax_run(p, &in, &out), STAX_E_UNBOUND, "b");
    t = stax_tensor_of(STAX_F32, stax_shape1(5), b);
    FAILS(stax_bind(p, "b", &t), STAX_E_SHAPE, "b");
    t = stax_tensor_of(STAX_F32, stax_shape2(4, 1), b);
    FAILS(stax_bind(p, "b", &t), STAX_E_SHAPE, "b");
    t = stax_tensor_of(STAX_F64, stax_shape1(4), b);
    FAILS(stax_bind(p, "b", &t), STAX_E_DTYPE, "b");
    t = stax_tensor_of(STAX_F32, stax_shape1(4), NULL);
    FAILS(stax_bind(p, "b", &t), STAX_E_ARGUMENT, "b");
    FAILS(stax_bind(p, "b", NULL), STAX_E_ARGUMENT, "b");
    FAILS(stax_bind(p, NULL, &t), STAX_E_ARGUMENT, "");
    t = stax_tensor_of(STAX_F32, stax_shape1(4), b);
    CHECK_INT(stax_bind(p, "b", &t), STAX_OK);
    CHECK_INT(stax_run(p, &in, &out), STAX_OK);
    t.rank = 7;
    FAILS(stax_rebind(p, "b", &t), STAX_E_SHAPE, "b");
    CHECK_INT(stax_run(p, &in, &out), STAX_OK); /* the old one is still there */
    stax_program_free(p);
}

/* A symbolic size may come from a param: the parts must agree. */
static void symbolic_params(void) {
    stax_program *p = program("graph g(x: f32[n], param w: f32[m,n]) { y = matmul w, x\n return y }", mode);
    static float x[8], w[64], y[8];
    stax_tensor in, out, t;
    if (!p) return;
    in = stax_tensor_of(STAX_F32, stax_shape1(5), x);
    out = stax_tensor_of(STAX_F32, stax_shape1(4), y);
    FAILS(stax_run(p, &in, &out), STAX_E_UNBOUND, "w");
    t = stax_tensor_of(STAX_F32, stax_shape2(4, 6), w);
    CHECK_INT(stax_bind(p, "w", &t), STAX_OK);
    stax_status s = stax_run(p, &in, &out);
    CHECK_INT(s, STAX_E_SHAPE);
    t = stax_tensor_of(STAX_F32, stax_shape2(4, 5), w);
    CHECK_INT(stax_rebind(p, "w", &t), STAX_OK);
    CHECK_INT(stax_run(p, &in, &out), STAX_OK);
    out.shape[0] = 3;
    FAILS(stax_run(p, &in, &out), STAX_E_SHAPE, "y");
    stax_program_free(p);
}

/* ---- indices out of range ---- */

static char index_message[600];

static void index_case(const char *text, stax_tensor *in, int n_out, stax_tensor out, const char *op, const char *index, const char *size) {
    static unsigned char memory[1 << 20];
    size_t bytes = stax_dtype_bytes(out.dtype);
    stax_graph *g = parsed(text);
    stax_program *p = g ? program(text, mode) : NULL;
    if (!p) return;
    (void)n_out;
    for (int d = 0; d < out.rank; d++) bytes *= (size_t)out.shape[d];
    CHECK(bytes + 256 < sizeof memory);
    memset(memory, 0xa5, bytes + 256);
    out.data = memory + 128;
    FAILS(stax_run(p, in, &out), STAX_E_INDEX, op);
    CHECK_HAS(stax_error(ctx), index);
    CHECK_HAS(stax_error(ctx), size);
    snprintf(index_message, sizeof index_message, "%s", stax_error(ctx));
    for (size_t k = 0; k < 128; k++) {
        if (!CHECK_INT(memory[k], 0xa5)) break;
        if (!CHECK_INT(memory[128 + bytes + k], 0xa5)) break;
    }
    FAILS(stax_interpret(g, in, &out), STAX_E_INDEX, op);
    CHECK_HAS(stax_error(ctx), index);
    CHECK_HAS(stax_error(ctx), size);
    stax_program_free(p);
    stax_graph_free(g);
}

static void indices(void) {
    static float x[20];
    static int32_t i[6] = {0, 1, -4, 3, 4, 77};
    stax_tensor in[2];
    in[0] = stax_tensor_of(STAX_F32, stax_shape2(4, 5), x);
    in[1] = stax_tensor_of(STAX_I32, stax_shape1(6), i);
    index_case("graph g(x: f32[4,5], i: i32[6]) { y = gather x, i\n return y }", in, 1, stax_tensor_of(STAX_F32, stax_shape2(6, 5), NULL), "gather", "4", "4");
    i[4] = -5; /* the first wrong one is named */
    index_case("graph g(x: f32[4,5], i: i32[6]) { y = gather x, i\n return y }", in, 1, stax_tensor_of(STAX_F32, stax_shape2(6, 5), NULL), "gather", "-5", "4");
    i[4] = 0, i[5] = INT32_MIN;
    index_case("graph g(x: f32[4,5], i: i32[6]) { y = gather x, i {axis=1}\n return y }", in, 1, stax_tensor_of(STAX_F32, stax_shape2(4, 6), NULL), "gather", "-2147483648", "5");
    static int64_t j[8] = {0, 1, 2, 3, 4, 5, INT64_MAX, 0};
    in[1] = stax_tensor_of(STAX_I64, stax_shape2(4, 2), j);
    index_case("graph g(x: f32[4,5], i: i64[4,2]) { y = take_along_axis x, i\n return y }", in, 1, stax_tensor_of(STAX_F32, stax_shape2(4, 2), NULL), "take_along_axis", "5", "5");
    j[5] = 0;
    index_case("graph g(x: f32[4,5], i: i64[4,2]) { y = take_along_axis x, i {axis=1}\n return y }", in, 1, stax_tensor_of(STAX_F32, stax_shape2(4, 2), NULL), "take_along_axis",
               "9223372036854775807", "5");
    static uint64_t u[2] = {UINT64_MAX, 0};
    in[1] = stax_tensor_of(STAX_U64, stax_shape1(2), u);
    index_case("graph g(x: f32[4,5], i: u64[2]) { y = gather x, i\n return y }", in, 1, stax_tensor_of(STAX_F32, stax_shape2(2, 5), NULL), "gather", "", "4");
    /* an index that is computed, in the middle of a chain */
    static int32_t k[6] = {0, 1, 2, 3, 0, 0};
    in[1] = stax_tensor_of(STAX_I32, stax_shape1(6), k);
    index_case("graph g(x: f32[4,5], i: i32[6]) { j = mul i, 2\n a = exp x\n y = gather a, j\n z = add y, 1.0\n return z }", in, 1,
               stax_tensor_of(STAX_F32, stax_shape2(6, 5), NULL), "gather", "4", "4");
}

/* clip and wrap never fail; an axis of size 0 has no index at all. */
static void index_modes(void) {
    stax_program *p = program("graph g(x: f32[3], i: i32[5]) { y = gather x, i {mode=\"clip\"}\n z = gather x, i {mode=\"wrap\"}\n return y, z }", mode);
    static float x[3] = {10, 20, 30}, y[5], z[5];
    static int32_t i[5] = {-7, 3, INT32_MIN, INT32_MAX, -1};
    stax_tensor in[2], out[2];
    if (!p) return;
    in[0] = stax_tensor_of(STAX_F32, stax_shape1(3), x);
    in[1] = stax_tensor_of(STAX_I32, stax_shape1(5), i);
    out[0] = stax_tensor_of(STAX_F32, stax_shape1(5), y);
    out[1] = stax_tensor_of(STAX_F32, stax_shape1(5), z);
    CHECK_INT(stax_run(p, in, out), STAX_OK);
    for (int k = 0; k < 5; k++) {
        int64_t v = i[k], w = ((v % 3) + 3) % 3, c = v < 0 ? 0 : v > 2 ? 2 : v;
        CHECK_FLOAT(y[k], x[c]);
        CHECK_FLOAT(z[k], x[w]);
    }
    stax_program_free(p);
    p = program("graph g(x: f32[0], i: i32[5]) { y = gather x, i\n return y }", mode);
    if (!p) return;
    in[0] = stax_tensor_of(STAX_F32, stax_shape1(0), x);
    FAILS(stax_run(p, in, out), STAX_E_INDEX, "gather");
    stax_program_free(p);
}

/* A long gather with two wrong indices: the first in row-major order, whatever the threads. */
static void backwards(void *user, int64_t n, void (*body)(void *arg, int64_t i), void *arg) {
    (void)user;
    while (n-- > 0) body(arg, n);
}

static void index_threads(void) {
    enum { N = 400000 };
    static const char text[] = "graph g(x: f32[100], i: i32[400000]) { y = gather x, i\n z = add y, 1.0\n return z }";
    static float x[100], y[N];
    static int32_t i[N];
    char first[600] = "";
    stax_tensor in[2], out[1];
    in[0] = stax_tensor_of(STAX_F32, stax_shape1(100), x);
    in[1] = stax_tensor_of(STAX_I32, stax_shape1(N), i);
    out[0] = stax_tensor_of(STAX_F32, stax_shape1(N), y);
    for (int k = 0; k < N; k++) i[k] = k % 100;
    i[N - 3] = 100, i[N / 2 + 17] = -101, i[N / 2 + 18] = 500;
    for (int k = 0; k < 5; k++) {
        stax_options o = stax_options_default();
        o.n_threads = k < 4 ? 1 << k : 7;
        if (k == 4) o.parallel_for = backwards;
        stax_context *c = stax_open(&o);
        stax_graph *g = stax_parse(c, "errors.stax", text);
        stax_program *p = stax_compile(g, NULL);
        for (int again = 0; again < 4; again++) {
            CHECK_INT(stax_run(p, in, out), STAX_E_INDEX);
            CHECK_HAS(stax_error(c), "-101");
            if (!first[0]) snprintf(first, sizeof first, "%s", stax_error(c));
            CHECK_TEXT(stax_error(c), first);
        }
        CHECK_INT(stax_interpret(g, in, out), STAX_E_INDEX);
        CHECK_HAS(stax_error(c), "-101");
        stax_program_free(p);
        stax_graph_free(g);
        stax_close(c);
    }
}

static void empty_axes(void) {
    stax_program *p = program("graph g(x: f32[n]) { y = max x\n return y }", mode);
    static float x[2], y[2];
    stax_tensor in, out;
    if (!p) return;
    in = stax_tensor_of(STAX_F32, stax_shape1(0), x);
    out = stax_tensor_of(STAX_F32, stax_shape0(), y);
    FAILS(stax_run(p, &in, &out), STAX_E_SHAPE, "max");
    stax_program_free(p);
}

/* ---- export ---- */

static void exports(void) {
    stax_program *p = program(two, 0);
    stax_program *interpreted = program(two, 1);
    char where[400];
    if (!p || !interpreted) return;
    CHECK_INT(stax_export(p, folder("good"), "good", NULL), STAX_OK);
    FAILS(stax_export(p, folder("good"), "1bad", NULL), STAX_E_ARGUMENT, "prefix");
    FAILS(stax_export(p, folder("good"), "a-b", NULL), STAX_E_ARGUMENT, "prefix");
    FAILS(stax_export(p, folder("good"), "", NULL), STAX_E_ARGUMENT, "prefix");
    FAILS(stax_export(p, folder("good"), "a b", NULL), STAX_E_ARGUMENT, "prefix");
    FAILS(stax_export(p, folder("good"), "../x", NULL), STAX_E_ARGUMENT, "prefix");
    FAILS(stax_export(p, folder("good"), "h\xc3\xa9", NULL), STAX_E_ARGUMENT, "prefix");
    FAILS(stax_export(p, folder("good"), "int", NULL), STAX_OK, ""); /* int_call: a fine name */
    FAILS(stax_export(p, folder("good"), NULL, NULL), STAX_E_ARGUMENT, "prefix");
    CHECK(stax_export(p, NULL, "good", NULL) != STAX_OK);
    FAILS(stax_export(interpreted, folder("good"), "good", NULL), STAX_E_NOT_BUILT, "export");
    snprintf(where, sizeof where, "%s/good.c/below", folder("good")); /* a file, not a folder */
    FAILS(stax_export(p, where, "good", NULL), STAX_E_IO, "good.c");
    FAILS(stax_export(p, "/proc/stax", "good", NULL), STAX_E_IO, "/proc/stax");
    FAILS(stax_export(p, "", "good", NULL), STAX_E_IO, "");
    snprintf(where, sizeof where, "%s/taken.c", folder("good"));
#if !defined(_WIN32)
    mkdir(where, 0700); /* the file's name is a folder */
    FAILS(stax_export(p, folder("good"), "taken", NULL), STAX_E_IO, "taken");
    rmdir(where);
#endif
    stax_program_free(p);
    stax_program_free(interpreted);
    p = program("graph g(x: f32[3], param w: f32[3]) { y = mul x, w\n return y }", 0);
    if (!p) return;
    FAILS(stax_export(p, folder("good"), "weights", NULL), STAX_E_UNBOUND, "w");
    stax_program_free(p);
}

/* ---- toolchain ---- */

static void without_compiler(void) {
    stax_options o = stax_options_default();
    o.compiler = "/nowhere/no-such-cc";
    o.cache_dir = folder("no-compiler-cache");
    stax_compile_options strict;
    memset(&strict, 0, sizeof strict);
    strict.strict = true;
    stax_context *c = stax_open(&o);
    if (!CHECK(c != NULL)) return;
    stax_graph *g = stax_parse(c, "errors.stax", two);
    stax_tensor in[2], out[2];
    usual(in, out);
    CHECK(stax_compile(g, &strict) == NULL);
    CHECK_INT(stax_error_status(c), STAX_E_COMPILER);
    CHECK_HAS(stax_error(c), "no-such-cc");
    stax_program *p = stax_compile(g, NULL);
    if (CHECK(p != NULL)) {
        CHECK_INT(stax_program_status(p), STAX_E_COMPILER);
        CHECK_HAS(stax_error(c), "no-such-cc");
        CHECK_INT(stax_run(p, in, out), STAX_OK);
        CHECK_FLOAT(az[5], 5 + 2);
        stax_figures f;
        CHECK_INT(stax_program_figures(p, NULL, &f), STAX_OK);
        CHECK_TEXT(f.origin, "interpreted");
        CHECK_INT(stax_workspace_bytes(p, in), 0);
        CHECK_INT(stax_run_with(p, in, out, NULL, 0), STAX_OK);
    }
    stax_program_free(p);
    stax_graph_free(g);
    stax_close(c);
    o.strict = true;
    c = stax_open(&o);
    if (!CHECK(c != NULL)) return;
    g = stax_parse(c, "errors.stax", two);
    CHECK(stax_compile(g, NULL) == NULL);
    CHECK_INT(stax_error_status(c), STAX_E_COMPILER);
    stax_compile_options interpret;
    memset(&interpret, 0, sizeof interpret);
    interpret.interpret = true;
    p = stax_compile(g, &interpret); /* asked for: no failure */
    CHECK(p != NULL);
    stax_program_free(p);
    stax_graph_free(g);
    stax_close(c);
}

#if !defined(_WIN32)
/* `two` in a context of its own, with something to run it on. */
typedef struct opened {
    stax_context *c;
    stax_graph *g;
    stax_program *p;
    stax_tensor in[2], out[2];
} opened;

static int open_two(opened *t, const stax_options *o) {
    memset(t, 0, sizeof *t);
    usual(t->in, t->out);
    t->c = stax_open(o);
    if (!CHECK(t->c != NULL)) return 0;
    t->g = stax_parse(t->c, "errors.stax", two);
    t->p = stax_compile(t->g, NULL);
    return CHECK(t->p != NULL);
}
static void close_two(opened *t) {
    stax_program_free(t->p);
    stax_graph_free(t->g);
    stax_close(t->c);
}
#endif

static void broken_compilers(void) {
#if !defined(_WIN32)
    static const char *const compilers[] = {"/bin/false", "/bin/true", "/bin/cat", "/", "cc; touch build/errors-pwned", "cc -no-such-flag"};
    for (size_t k = 0; k < sizeof compilers / sizeof compilers[0]; k++) {
        stax_options o = stax_options_default();
        o.compiler = compilers[k];
        o.cache_dir = folder("broken-cache");
        opened t;
        if (open_two(&t, &o)) {
            if (stax_program_status(t.p) != STAX_E_COMPILER) printf("compiler %s: ", compilers[k]);
            CHECK_INT(stax_program_status(t.p), STAX_E_COMPILER);
            CHECK(strlen(stax_error(t.c)) > 10);
            CHECK_INT(stax_run(t.p, t.in, t.out), STAX_OK);
        }
        close_two(&t);
    }
    CHECK(access("build/errors-pwned", F_OK) != 0);
    stax_options o = stax_options_default();
    o.compiler_flags = "-no-such-flag-at-all";
    o.cache_dir = folder("broken-cache");
    o.strict = true;
    stax_context *c = stax_open(&o);
    stax_graph *g = stax_parse(c, "errors.stax", two);
    CHECK(stax_compile(g, NULL) == NULL);
    CHECK_INT(stax_error_status(c), STAX_E_COMPILER);
    CHECK_HAS(stax_error(c), "no-such-flag-at-all");
    stax_graph_free(g);
    stax_close(c);
#endif
}

static void cache_folders(void) {
#if !defined(_WIN32)
    char file[400], quoted[400];
    snprintf(file, sizeof file, "%s", folder("a-file"));
    FILE *f = fopen(file, "w");
    if (f) fclose(f);
    snprintf(quoted, sizeof quoted, "%s", folder("it's \"a\" $HOME `x`; folder\n with all"));
    const char *bad[4];
    bad[0] = "/proc/stax-cache", bad[1] = file, bad[2] = "/dev/null/x", bad[3] = "";
    stax_options o = stax_options_default();
    opened t;
    for (int k = 0; k < 3; k++) {
        o.cache_dir = bad[k];
        if (open_two(&t, &o)) {
            /* a program that compiled in some other folder is fine too */
            stax_status s = stax_program_status(t.p);
            CHECK(s == STAX_E_CACHE || s == STAX_OK);
            if (s != STAX_OK) CHECK_HAS(stax_error(t.c), bad[k]);
            CHECK_INT(stax_run(t.p, t.in, t.out), STAX_OK);
            stax_compile_options strict;
            memset(&strict, 0, sizeof strict);
            strict.strict = true;
            stax_program *p = stax_compile(t.g, &strict);
            if (!p) CHECK_INT(stax_error_status(t.c), STAX_E_CACHE);
            stax_program_free(p);
        }
        close_two(&t);
    }
    o.cache_dir = quoted;
    if (open_two(&t, &o) && !CHECK_INT(stax_program_status(t.p), STAX_OK)) printf("%s\n", stax_error(t.c));
    stax_cache_clear(t.c);
    close_two(&t);
    unlink(file);
#endif
}

/* Objects that were altered are compiled again, not loaded. */
static void altered_cache(void) {
#if !defined(_WIN32)
    char command[900];
    for (int round = 0; round < 4; round++) {
        stax_options o = stax_options_default();
        o.cache_dir = folder("altered-cache");
        opened t;
        if (open_two(&t, &o)) {
            CHECK_INT(stax_program_status(t.p), STAX_OK);
            CHECK_INT(stax_run(t.p, t.in, t.out), STAX_OK);
        }
        close_two(&t);
        static const char *const harm[] = {"truncate -s -1 \"$f\"", "printf 'x' | dd of=\"$f\" bs=1 seek=4000 conv=notrunc", "truncate -s 0 \"$f\"", "true"};
        snprintf(command, sizeof command, "for f in %s/*.so %s/*/*.so; do [ -f \"$f\" ] && %s; done >%s.log 2>&1", o.cache_dir, o.cache_dir, harm[round], o.cache_dir);
        CHECK(system(command) >= 0);
    }
#endif
}

/* ---- graphs ---- */

static void bad_graphs(void) {
    stax_graph *g = stax_graph_new(ctx);
    stax_value x = stax_input(g, "x", STAX_F32, stax_shape2(2, 3));
    stax_value y = stax_matmul(x, x);
    stax_value z = stax_relu(y);
    CHECK_INT(z.id, 0);
    stax_output(g, "z", z);
    CHECK(!stax_ok(g));
    CHECK_INT(stax_graph_status(g), STAX_E_SHAPE);
    CHECK_HAS(stax_graph_error(g), "matmul");
    CHECK_HAS(stax_graph_error(g), "errors.c:");
    CHECK(stax_compile(g, NULL) == NULL);
    CHECK_INT(stax_error_status(ctx), STAX_E_SHAPE);
    stax_tensor t[2];
    memset(t, 0, sizeof t);
    CHECK_INT(stax_interpret(g, t, t), STAX_E_SHAPE);
    CHECK(stax_graph_n_outputs(g) <= 1);
    char *text = stax_print(g);
    stax_free(ctx, text);
    stax_graph *other = stax_graph_new(ctx);
    stax_value v = stax_input(other, "v", STAX_F32, stax_shape2(2, 3));
    stax_graph *third = stax_graph_new(ctx);
    stax_value w = stax_input(third, "w", STAX_F32, stax_shape2(2, 3));
    stax_value mixed = stax_add(v, w); /* of two graphs */
    CHECK_INT(mixed.id, 0);
    CHECK_INT(stax_graph_status(other), STAX_E_ARGUMENT);
    CHECK_HAS(stax_graph_error(other), "graph");
    stax_graph_free(other);
    other = stax_graph_new(ctx);
    v = stax_input(other, "v", STAX_F32, stax_shape2(2, 3));
    mixed = stax_add(v, x); /* of a graph that failed */
    CHECK_INT(mixed.id, 0);
    stax_output(other, "y", mixed);
    CHECK(!stax_ok(other));
    CHECK(stax_compile(other, NULL) == NULL);
    stax_graph_free(other);
    other = stax_graph_new(ctx);
    v = stax_input(other, "v", STAX_F32, stax_shape2(2, 3));
    stax_output(other, "y", stax_add(v, stax_none())); /* a needed operand is missing */
    CHECK(!stax_ok(other));
    stax_graph_free(other);
    other = stax_graph_new(ctx);
    stax_value parts[2];
    parts[0] = parts[1] = stax_none();
    stax_output(other, "y", stax_concat(parts, 2, 0));
    CHECK(!stax_ok(other));
    CHECK(stax_compile(other, NULL) == NULL);
    stax_graph_free(other);
    stax_output(third, "w", stax_exp(w));
    stax_output(third, "w", stax_exp(w)); /* twice the same name */
    CHECK_INT(stax_graph_status(third), STAX_E_NAME);
    stax_graph_free(third);
    stax_graph_free(g);

    const stax_graph *graphs[3];
    stax_program *programs[3];
    g = stax_graph_new(ctx);
    stax_input(g, "x", STAX_F32, stax_shape1(-3));
    CHECK(!stax_ok(g));
    stax_graph *good = parsed(two);
    for (int at = 0; at < 3; at++) {
        for (int k = 0; k < 3; k++) graphs[k] = k == at ? g : good, programs[k] = (stax_program *)(void *)&programs;
        CHECK(stax_compile_many(graphs, 3, NULL, programs) != STAX_OK);
        for (int k = 0; k < 3; k++) CHECK(programs[k] == NULL);
        graphs[at] = NULL;
        for (int k = 0; k < 3; k++) programs[k] = (stax_program *)(void *)&programs;
        CHECK_INT(stax_compile_many(graphs, 3, NULL, programs), STAX_E_ARGUMENT);
        for (int k = 0; k < 3; k++) CHECK(programs[k] == NULL);
    }
    CHECK_INT(stax_compile_many(graphs, 0, NULL, programs), STAX_E_ARGUMENT);
    CHECK_INT(stax_compile_many(graphs, -1, NULL, programs), STAX_E_ARGUMENT);
    stax_graph_free(good);
    stax_graph_free(g);
}

static void later_names(void) {
    stax_value none = stax_none();
    CHECK_INT(stax_grad(none, NULL, 0, NULL), STAX_E_ARGUMENT);
    CHECK(stax_jit_new(ctx, NULL, NULL, NULL) == NULL);
    CHECK_INT(stax_call(NULL, NULL, 0, NULL, 0), STAX_E_NOT_BUILT);
}

/* stax_error stays valid until 16 more failures. */
static void old_messages(void) {
    CHECK(stax_parse(ctx, "first.stax", "nonsense one") == NULL);
    const char *first = stax_error(ctx);
    char copy[300];
    snprintf(copy, sizeof copy, "%s", first);
    CHECK_HAS(copy, "first.stax:1:");
    for (int k = 0; k < 15; k++) CHECK(stax_parse(ctx, "later.stax", "nonsense") == NULL);
    CHECK_TEXT(first, copy);
}

static void both(const char *name, void (*test)(void)) {
    char full[80];
    for (mode = 0; mode < 2; mode++) {
        snprintf(full, sizeof full, "%s_%s", name, mode ? "interpreted" : "compiled");
        RUN_NAMED(full, test);
    }
    mode = 0;
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    ctx = stax_open(NULL);
    if (!ctx) return 1;
    both("wrong_tensors", wrong_tensors);
    RUN(wrong_interpret);
    both("symbols", symbols);
    both("overflowing_sizes", overflowing_sizes);
    both("layouts", layouts);
    RUN(workspace);
    both("overlaps", overlaps);
    both("in_place", in_place);
    both("state_aliases", state_aliases);
    both("many_states", many_states);
    both("params", params);
    both("symbolic_params", symbolic_params);
    both("indices", indices);
    both("index_modes", index_modes);
    RUN(index_threads);
    both("empty_axes", empty_axes);
    RUN(exports);
    RUN(without_compiler);
    RUN(broken_compilers);
    RUN(cache_folders);
    RUN(altered_cache);
    RUN(bad_graphs);
    RUN(later_names);
    RUN(old_messages);
    RUN(null_programs); /* last: it may crash */
    stax_close(ctx);
    return HARNESS_END();
}
