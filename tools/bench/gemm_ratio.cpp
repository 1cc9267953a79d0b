/* gemm_ratio.cpp - times contractions of Stax beside OpenBLAS and oneDNN, in one process,
   alternating. c++ -O2 -fopenmp -I. tools/bench/gemm_ratio.cpp -o gemm_ratio -ldnnl -lgomp -lm -ldl
   -lpthread
       ./gemm_ratio [threads] [part of a case's name]
   oneDNN 2.x runs twice: with plain operands, and with B (the weights) packed before, against a
   Stax param that is bound. OpenBLAS is loaded if it is there; it may need
   OPENBLAS_CORETYPE=SkylakeX where it does not know the processor. Prints GFLOP/s (of the fastest
   run) and the median of the paired ratios theirs/ours (above 1: Stax is faster) over 31 pairs,
   with ranks 10 and 22 as interval, and the A/A ratio (theirs/theirs) of the same procedure. */
#define STAX_IMPLEMENTATION
#include "stax.h"

#include <dnnl.hpp>
#include <dlfcn.h>
#include <omp.h>

#include <string>
#include <unordered_map>
#include <vector>

using namespace dnnl;
typedef memory::format_tag T;
typedef memory::data_type D;
typedef void (*sgemm_fn)(int, int, int, int, int, int, float, const float *, int, const float *,
                         int, float, float *, int);

enum { PAIRS = 31 };

struct rival {
    std::string name;
    primitive prim;
    std::unordered_map<int, memory> args;
    sgemm_fn sgemm = nullptr;
    int m = 0, n = 0, k = 0;
    const float *a = nullptr, *b = nullptr;
    float *c = nullptr;
    bool epilogue = false;
};

static engine *eng;
static stream *strm;
static float *A, *B, *C, *bias;

static void run(rival &r) {
    if (r.sgemm) {
        r.sgemm(101, 111, 111, r.m, r.n, r.k, 1, r.a, r.k, r.b, r.n, 0, r.c, r.n);
    } else {
        r.prim.execute(*strm, r.args);
        strm->wait();
    }
}

static rival dnn_matmul(long m, long n, long k, bool epilogue, bool packed) {
    rival r;
    memory::desc a({m, k}, D::f32, T::ab), b({k, n}, D::f32, packed ? T::any : T::ab),
        c({m, n}, D::f32, T::ab), d({1, n}, D::f32, T::ab);
    primitive_attr attr;
    if (epilogue) {
        post_ops p;
        p.append_eltwise(1.f, algorithm::eltwise_gelu_erf, 0, 0);
        attr.set_post_ops(p);
    }
    matmul::desc desc = epilogue ? matmul::desc(a, b, d, c) : matmul::desc(a, b, c);
    matmul::primitive_desc pd(desc, attr, *eng);
    memory plain({{k, n}, D::f32, T::ab}, *eng, B), w = plain;
    if (packed && pd.weights_desc() != plain.get_desc()) {
        w = memory(pd.weights_desc(), *eng);
        reorder(plain, w).execute(*strm, plain, w);
        strm->wait();
    }
    r.name = packed ? "oneDNN, B packed" : "oneDNN";
    r.prim = matmul(pd);
    r.args = {{DNNL_ARG_SRC, memory(a, *eng, A)},
              {DNNL_ARG_WEIGHTS, w},
              {DNNL_ARG_DST, memory(c, *eng, C)}};
    if (epilogue) r.args.insert({DNNL_ARG_BIAS, memory(d, *eng, bias)});
    return r;
}

static rival dnn_conv() {
    rival r;
    memory::desc s({1, 64, 56, 56}, D::f32, T::nchw), w({64, 64, 3, 3}, D::f32, T::any),
        d({1, 64, 56, 56}, D::f32, T::nchw);
    convolution_forward::desc desc(prop_kind::forward_inference, algorithm::convolution_direct, s,
                                   w, d, {1, 1}, {1, 1}, {1, 1});
    convolution_forward::primitive_desc pd(desc, *eng);
    memory plain({{64, 64, 3, 3}, D::f32, T::oihw}, *eng, B), packed(pd.weights_desc(), *eng);
    reorder(plain, packed).execute(*strm, plain, packed);
    strm->wait();
    r.name = std::string("oneDNN ") + pd.impl_info_str();
    r.prim = convolution_forward(pd);
    r.args = {{DNNL_ARG_SRC, memory(s, *eng, A)},
              {DNNL_ARG_WEIGHTS, packed},
              {DNNL_ARG_DST, memory(d, *eng, C)}};
    return r;
}

static int order(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The processor time of this thread where it does all the work: others may use the machine too. */
static bool alone;
static double now_us(void) {
    struct timespec t;
    if (!alone) return (double)staxi_clock_ns() / 1e3;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void compare(const char *name, double flops, stax_program *p, const stax_tensor *in,
                    const stax_tensor *out, rival &r) {
    double ratio[PAIRS], same[PAIRS], ours = 1e30, theirs = 1e30;
    int repeats = 1;
    for (int i = -2; i < PAIRS; i++) {
        double t0 = now_us();
        for (int k = 0; k < repeats; k++) stax_run(p, in, out);
        double t1 = now_us();
        for (int k = 0; k < repeats; k++) run(r);
        double t2 = now_us();
        for (int k = 0; k < repeats; k++) run(r);
        double t3 = now_us();
        if (i < 0) {
            repeats = i == -2 && t1 - t0 < 500 ? (int)(500 / (t1 - t0 + 1)) + 1 : repeats;
            continue;
        }
        ratio[i] = (t2 - t1) / (t1 - t0);
        same[i] = (t3 - t2) / (t2 - t1);
        if ((t1 - t0) / repeats < ours) ours = (t1 - t0) / repeats;
        if ((t2 - t1) / repeats < theirs) theirs = (t2 - t1) / repeats;
    }
    qsort(ratio, PAIRS, sizeof *ratio, order);
    qsort(same, PAIRS, sizeof *same, order);
    printf(
        "%-28s %-24s ours %7.1f  theirs %7.1f GF/s  minima %.3f  ratio %.3f (%.3f .. %.3f)  A/A "
        "%.3f "
        "(%.3f .. %.3f)\n",
        name, r.name.c_str(), flops / ours / 1e3, flops / theirs / 1e3, theirs / ours,
        ratio[PAIRS / 2], ratio[9], ratio[21], same[PAIRS / 2], same[9], same[21]);
    fflush(stdout);
}

/* The pool of threads that the rivals use too: theirs would spin beside ours. */
static void pool(void *, int64_t n, void (*body)(void *arg, int64_t i), void *arg) {
#pragma omp parallel for schedule(static, 1)
    for (int64_t i = 0; i < n; i++) body(arg, i);
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    const char *only = argc > 2 ? argv[2] : "";
    omp_set_num_threads(threads);
    alone = threads == 1;
    engine e(engine::kind::cpu, 0);
    stream s(e);
    eng = &e;
    strm = &s;
    void *lib = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    sgemm_fn sgemm = lib ? (sgemm_fn)dlsym(lib, "cblas_sgemm") : nullptr;
    stax_options o = stax_options_default();
    o.strict = true;
    o.n_threads = threads;
    o.parallel_for = pool;
    stax_context *ctx = stax_open(&o);
    float **all[] = {&A, &B, &C, &bias};
    for (float **x : all) {
        *x = (float *)staxi_pages_get((size_t)4 << 24);
        for (long i = 0; i < 1 << 24; i++)
            (*x)[i] = (float)((uint32_t)(i * 2654435761u) >> 8) / 16777216.0f - 0.5f;
    }
    static const long sizes[][4] = {
        {256, 256, 256, 0}, {512, 512, 512, 0},    {1024, 1024, 1024, 0}, {2048, 2048, 2048, 0},
        {512, 512, 512, 1}, {1024, 1024, 1024, 1}, {2048, 2048, 2048, 1}, {4096, 4096, 64, 1},
        {1, 4096, 4096, 0}, {4096, 64, 4096, 0},   {4096, 4096, 64, 0}};
    for (const long *z : sizes) {
        long m = z[0], n = z[1], k = z[2];
        char name[96], text[400];
        snprintf(name, sizeof name, "%ldx%ldx%ld%s", m, n, k, z[3] ? " + bias + gelu" : "");
        if (!strstr(name, only)) continue;
        for (int bound = 0; bound < 2; bound++) {
            snprintf(
                text, sizeof text,
                z[3]
                    ? "graph g(a: f32[%ld,%ld], %sb: f32[%ld,%ld], c: f32[%ld]) { d = matmul a, b; "
                      "e = add d, c; f = gelu e; return f }"
                    : "graph g(a: f32[%ld,%ld], %sb: f32[%ld,%ld]) { d = matmul a, b; return d }",
                m, k, bound ? "param " : "", k, n, n);
            stax_graph *g = stax_parse(ctx, "bench", text);
            stax_program *p = g ? stax_compile(g, NULL) : NULL;
            stax_tensor a = stax_tensor_of(STAX_F32, stax_shape2(m, k), A),
                        b = stax_tensor_of(STAX_F32, stax_shape2(k, n), B),
                        c = stax_tensor_of(STAX_F32, stax_shape1(n), bias), in[3];
            stax_tensor out = stax_tensor_of(STAX_F32, stax_shape2(m, n), C);
            int at = 0;
            in[at++] = a;
            if (!bound) in[at++] = b;
            in[at++] = c;
            if (!p || (bound && stax_bind(p, "b", &b) != STAX_OK)) {
                fprintf(stderr, "%s: %s\n", name, stax_error(ctx));
                return 1;
            }
            rival r = dnn_matmul(m, n, k, z[3] != 0, bound != 0);
            compare(name, 2.0 * (double)m * (double)n * (double)k, p, in, &out, r);
            if (sgemm && !bound && !z[3]) {
                rival ob;
                ob.name = "OpenBLAS";
                ob.sgemm = sgemm;
                ob.m = (int)m, ob.n = (int)n, ob.k = (int)k;
                ob.a = A, ob.b = B, ob.c = C;
                compare(name, 2.0 * (double)m * (double)n * (double)k, p, in, &out, ob);
            }
            stax_program_free(p);
            stax_graph_free(g);
        }
    }
    if (strstr("conv", only)) {
        stax_graph *g =
            stax_parse(ctx, "bench",
                       "graph g(x: f32[1,64,56,56], param w: f32[64,64,3,3]) { d = conv x, w "
                       "{padding=[[1,1],[1,1]]}; return d }");
        stax_program *p = g ? stax_compile(g, NULL) : NULL;
        stax_tensor x = stax_tensor_of(STAX_F32, stax_shape4(1, 64, 56, 56), A),
                    w = stax_tensor_of(STAX_F32, stax_shape4(64, 64, 3, 3), B),
                    d = stax_tensor_of(STAX_F32, stax_shape4(1, 64, 56, 56), C);
        if (!p || stax_bind(p, "w", &w) != STAX_OK) {
            fprintf(stderr, "conv: %s\n", stax_error(ctx));
            return 1;
        }
        rival r = dnn_conv();
        compare("conv 1x64x56x56 3x3 64", 2.0 * 64 * 64 * 9 * 56 * 56, p, &x, &d, r);
        stax_program_free(p);
        stax_graph_free(g);
    }
    stax_close(ctx);
    return 0;
}
