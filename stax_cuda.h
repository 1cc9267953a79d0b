/* stax_cuda.h - v0.1.0 - Stax programs on NVIDIA GPUs. Licence: MIT, at the end of stax.h.

   PROMISES      The loop trees of stax.h printed as CUDA C++, compiled by NVRTC for the device.
                 Driver and NVRTC are found at run time: nothing is linked, no CUDA header is
                 needed, and a machine without a GPU runs the same program on its CPU. Elementwise
                 functions, sums and f32 contractions without tensor cores have the CPU's bits.

   NEEDS         A driver (libcuda) for CUDA 11.2 or newer and NVRTC of CUDA 11 to 13. STAX_NVRTC,
                 if set, is the path of NVRTC. Each function that needs what is not there says so
                 with STAX_E_DEVICE and a message that names what was looked for.

   QUICK START   In one C file of your program, instead of the same two lines for stax.h:
                     #define STAX_IMPLEMENTATION
                     #include "stax_cuda.h"
                 and then
                     stax_cuda *cuda = stax_cuda_open(ctx, 0);
                     stax_cuda_program *p = stax_cuda_compile(cuda, graph, NULL);
                     stax_cuda_run(p, inputs, outputs);
                     stax_cuda_program_free(p);
                     stax_cuda_close(cuda);

   CALLS         A program launches a few kernels, microseconds each. With the compile option
                 reduce_overhead a call is one graph of CUDA's, which the next one replays; other
                 addresses or sizes change its parameters. (Programs that check indices do not.)
                 cond and loops are decided by the host, and what no kernel can run (sorts, scatter,
                 custom_call) is a step of it, on copies: such a call waits for each; what
                 lies between is launched kernel by kernel, or replayed. The option atomics makes
                 kernels of most scatters: it pays wherever the tensors lie on the device already,
                 most where few updates meet in one place (they come one after the other there). The
   option tune measures how kernels are cut, once for a source and a device, and keeps the fastest
   that has the same bits. The modes of table 11.1 are those two: reduce_overhead, tune for
                 max_autotune_no_graphs, both for max_autotune. (stax_jit's are the CPU's.)

   MEMORY        stax_tensor.device says where data lies: 0 host memory, n CUDA device n - 1. A call
                 may mix both: host tensors are copied in and out, and the call waits for them. With
                 device tensors only, stax_cuda_run returns when the kernels are queued; a program
                 that checks indices waits for its answer. stax_cuda_copy_async queues uploads and
                 downloads between calls; stax_cuda_wait ends them all.

                 Copies of other host memory than that of stax_cuda_host_new go through two
                 page-locked chunks, one filled while the other is on its way (from 32 KiB to 2 MiB
                 to the device and 16 MiB from it; larger ones too where the context has threads,
                 up to 8 of them). Where no memory can be locked, the log says so once and the
   driver copies. Small host tensors of calls of few blocks are not copied: kernels reach them.
   stax_cuda_close frees all that.

   THREADS       All functions may be called by several threads at once, but those that free or
                 close, and stax_cuda_bind beside a call that needs the old tensor. The calls and
                 copies of a thread go to a stream of its own, of four (of stax_cuda_open_with: all
                 to the caller's); threads beyond share the one that was used longest ago. A call
                 waits, on the device, for what other streams have queued before it where one writes
                 memory that the other touches: tensors on the device, states, params; and each
                 stream has a workspace of its own in each program, so calls of one program run
                 beside each other. Tensors may be handed from thread to thread without waiting.
                 While a call of a program with steps of the host runs, others wait. What the caller
                 queues by CUDA itself is not known here: stax_cuda_run_on puts a call behind it. */
#ifndef STAX_CUDA_H
#define STAX_CUDA_H

#include "stax.h"

#define STAX_CUDA_NEEDS_STAX 100 /* the version of stax.h that this file goes with: 0.1.x */
#if STAX_VERSION / 100 != STAX_CUDA_NEEDS_STAX / 100
#error "stax_cuda.h 0.1 needs stax.h 0.1: take both files from the same release"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stax_cuda stax_cuda;                 /* a device opened for a context    */
typedef struct stax_cuda_program stax_cuda_program; /* a graph compiled for that device */

/* STAX_OK: a driver, NVRTC and at least one device can be used. Else stax_error(ctx) says what is
   missing. */
STAXDEF stax_status stax_cuda_available(stax_context *ctx);
/* How many devices there are; 0 also when CUDA cannot be used. */
STAXDEF int stax_cuda_device_count(stax_context *ctx);
/* Opens device 0, 1, ... with its primary context (the one that CUDA's runtime shares) and a stream
   of its own. NULL on failure, see stax_error. */
STAXDEF stax_cuda *stax_cuda_open(stax_context *ctx, int device);
/* The same in the caller's CUcontext and CUstream; NULL: ours. They must outlive the result. */
STAXDEF stax_cuda *stax_cuda_open_with(stax_context *ctx, int device, void *context, void *stream);
/* After the programs that run on it and the tensors on it are freed. NULL is fine. */
STAXDEF void stax_cuda_close(stax_cuda *cuda);
/* "NVIDIA H200, sm_90", valid until it is closed. */
STAXDEF const char *stax_cuda_name(const stax_cuda *cuda);
/* The CUstream of the calling thread's calls and copies. */
STAXDEF void *stax_cuda_stream(const stax_cuda *cuda);
/* Waits until all work is done; a failure of a kernel shows here at the latest. */
STAXDEF stax_status stax_cuda_wait(stax_cuda *cuda);

/* A row-major tensor of uninitialised memory on the device. */
STAXDEF stax_status stax_cuda_tensor_new(stax_cuda *cuda, stax_dtype dtype, stax_shape shape,
                                         stax_tensor *out);
/* Takes a tensor of stax_cuda_tensor_new; its data becomes NULL. */
STAXDEF void stax_cuda_tensor_free(stax_cuda *cuda, stax_tensor *t);
/* Copies row-major tensors of equal dtype and shape to, from or on the device. Waits when host
   memory takes part. STAX_E_ARGUMENT: not row-major, other dtypes, or none on the device;
   STAX_E_SHAPE: other shapes. */
STAXDEF stax_status stax_cuda_copy(stax_cuda *cuda, const stax_tensor *to, const stax_tensor *from);
/* The same, queued behind what the stream has and before what comes: a call of stax_cuda_run sees
   an upload that was queued before it, a download sees the call before it. Host memory must stay as
   it is until stax_cuda_wait. Copies overlap with the caller only where the host memory is of
   stax_cuda_host_new; the driver may wait for others. */
STAXDEF stax_status stax_cuda_copy_async(stax_cuda *cuda, const stax_tensor *to,
                                         const stax_tensor *from);
/* A row-major tensor of uninitialised host memory that the device reads and writes by itself
   (page-locked: there is not much of it). Any function takes it as host memory. */
STAXDEF stax_status stax_cuda_host_new(stax_cuda *cuda, stax_dtype dtype, stax_shape shape,
                                       stax_tensor *out);
/* Waits for the stream, then frees a tensor of stax_cuda_host_new; its data becomes NULL. */
STAXDEF void stax_cuda_host_free(stax_cuda *cuda, stax_tensor *t);

/* NULL on failure, see stax_error. The graph may be freed. */
STAXDEF stax_cuda_program *stax_cuda_compile(stax_cuda *cuda, const stax_graph *g,
                                             const stax_compile_options *options);
STAXDEF void stax_cuda_program_free(stax_cuda_program *p);
/* Slots as in stax_run. States are written where their tensor lies. */
STAXDEF stax_status stax_cuda_run(stax_cuda_program *p, const stax_tensor *inputs,
                                  const stax_tensor *outputs);
/* The same in a CUstream of the caller's (CUDA's default one is (void *)1): behind what is queued
   there. It must live until the call, and may be gone afterwards. NULL: as stax_cuda_run. Four such
   streams at a time; another one waits for the work of the one that was used longest ago. */
STAXDEF stax_status stax_cuda_run_on(stax_cuda_program *p, const stax_tensor *inputs,
                                     const stax_tensor *outputs, void *stream);
/* Gives a param its tensor (host memory); copied. */
STAXDEF stax_status stax_cuda_bind(stax_cuda_program *p, const char *name, const stax_tensor *t);
/* The CUDA C++ of the program, valid until it is freed. */
STAXDEF const char *stax_cuda_source(const stax_cuda_program *p);
/* What the option tune has done, valid until the program is freed: "tuned: 9 measured, 0 refused,
   ..."; "" without it. */
STAXDEF const char *stax_cuda_tuning(const stax_cuda_program *p);
/* How many kernels one call launches at most. */
STAXDEF int stax_cuda_kernels(const stax_cuda_program *p);
/* As stax_program_figures. `workspace_bytes` are those on the device after the calls so far, `isa`
   is STAX_ISA_DETECT, compile_ns is NVRTC's time. */
STAXDEF stax_status stax_cuda_program_figures(const stax_cuda_program *p, const stax_tensor *inputs,
                                              stax_figures *out);

/* Without a device: the CUDA C++ of a graph (free with stax_free; with the option tensor_cores it
   is for sm_90a, or for sm_80 and newer where STAX_CUDA_MMA is set), and any such text compiled for
   an architecture ("sm_80") to a cubin, whose size is *bytes (free with stax_free). NULL on
   failure, see stax_error. STAX_E_DEVICE: there is no NVRTC; STAX_E_COMPILER: it refused. */
STAXDEF char *stax_cuda_print(const stax_graph *g);
STAXDEF char *stax_cuda_print_with(const stax_graph *g, const stax_compile_options *options);
STAXDEF void *stax_cuda_cubin(stax_context *ctx, const char *source, const char *architecture,
                              size_t *bytes);
/* Without a device too: the kernels of a graph in order, who computes what in each, and how often
   one of whole rows reads them from memory: once where registers or shared memory hold a row; a
   longer row, once for each of its reductions that needs it (free with stax_free). */
STAXDEF char *stax_cuda_explain(const stax_graph *g, const stax_compile_options *options);

#ifdef __cplusplus
}
#endif

#endif /* STAX_CUDA_H */

#ifdef STAX_IMPLEMENTATION
#ifndef STAX_CUDA_IMPLEMENTATION_DONE
#define STAX_CUDA_IMPLEMENTATION_DONE

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#endif

static stax_status staxi_cuda_fail(stax_context *ctx, stax_status s, staxi_text *why) {
    s = staxi_context_fail(ctx, s, why);
    staxi_text_free(why);
    return s;
}

#if defined(STAXI_TOOLCHAIN)
/* ========================================================================================= >>api
   THE TWO LIBRARIES  driver and NVRTC, by name, with prototypes of our own.
   Handles are pointers, device addresses 64-bit numbers, results ints of which 0 is success. */

#if defined(_WIN32)
#define STAXI_CUDA_CALL __stdcall
#else
#define STAXI_CUDA_CALL
#endif

typedef uint64_t staxi_cuda_address;

/* name of the field, name in the library, parameters */
/* clang-format off */
#define STAXI_CUDA_DRIVER(X)                                                                       \
    X(init, "cuInit", (unsigned flags))                                                            \
    X(device_count, "cuDeviceGetCount", (int *n))                                                  \
    X(device_get, "cuDeviceGet", (int *device, int at))                                            \
    X(device_name, "cuDeviceGetName", (char *name, int bytes, int device))                         \
    X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))           \
    X(primary_retain, "cuDevicePrimaryCtxRetain", (void **context, int device))                    \
    X(primary_release, "cuDevicePrimaryCtxRelease_v2", (int device))                               \
    X(context_push, "cuCtxPushCurrent_v2", (void *context))                                        \
    X(context_pop, "cuCtxPopCurrent_v2", (void **context))                                         \
    X(stream_new, "cuStreamCreate", (void **stream, unsigned flags))                               \
    X(stream_free, "cuStreamDestroy_v2", (void *stream))                                           \
    X(stream_wait, "cuStreamSynchronize", (void *stream))                                          \
    X(stream_after, "cuStreamWaitEvent", (void *stream, void *event, unsigned flags))              \
    X(event_new, "cuEventCreate", (void **event, unsigned flags))                                  \
    X(event_free, "cuEventDestroy_v2", (void *event))                                              \
    X(event_record, "cuEventRecord", (void *event, void *stream))                                  \
    X(event_wait, "cuEventSynchronize", (void *event))                                             \
    X(pointer, "cuPointerGetAttributes", (unsigned n, int *which, void **values, staxi_cuda_address p)) \
    X(memory_new, "cuMemAlloc_v2", (staxi_cuda_address *p, size_t bytes))                          \
    X(memory_free, "cuMemFree_v2", (staxi_cuda_address p))                                         \
    X(host_new, "cuMemHostAlloc", (void **p, size_t bytes, unsigned flags))                        \
    X(host_free, "cuMemFreeHost", (void *p))                                                       \
    X(to_device, "cuMemcpyHtoDAsync_v2",                                                           \
      (staxi_cuda_address to, const void *from, size_t bytes, void *stream))                       \
    X(to_host, "cuMemcpyDtoHAsync_v2",                                                             \
      (void *to, staxi_cuda_address from, size_t bytes, void *stream))                             \
    X(on_device, "cuMemcpyDtoDAsync_v2",                                                           \
      (staxi_cuda_address to, staxi_cuda_address from, size_t bytes, void *stream))                \
    X(module_load, "cuModuleLoadData", (void **module, const void *image))                         \
    X(module_free, "cuModuleUnload", (void *module))                                               \
    X(function, "cuModuleGetFunction", (void **function, void *module, const char *name))          \
    X(function_attribute, "cuFuncSetAttribute", (void *function, int attribute, int value))        \
    X(launch, "cuLaunchKernel",                                                                    \
      (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,            \
       unsigned bz, unsigned shared, void *stream, void **arguments, void **extra))                \
    X(error_name, "cuGetErrorName", (int error, const char **name))                                \
    X(error_text, "cuGetErrorString", (int error, const char **text))
/* from CUDA 11.4 on; wanted by programs that are replayed */
#define STAXI_CUDA_GRAPHS(X)                                                                       \
    X(create, "cuGraphCreate", (void **graph, unsigned flags))                                     \
    X(destroy, "cuGraphDestroy", (void *graph))                                                    \
    X(add, "cuGraphAddKernelNode",                                                                 \
      (void **node, void *graph, void *const *after, size_t n_after,                               \
       const staxi_cuda_node *parameters))                                                         \
    X(instantiate, "cuGraphInstantiateWithFlags",                                                  \
      (void **ready, void *graph, unsigned long long flags))                                       \
    X(release, "cuGraphExecDestroy", (void *ready))                                                \
    X(update, "cuGraphExecKernelNodeSetParams",                                                    \
      (void *ready, void *node, const staxi_cuda_node *parameters))                                \
    X(launch, "cuGraphLaunch", (void *ready, void *stream))
#define STAXI_CUDA_NVRTC(X)                                                                        \
    X(version, "nvrtcVersion", (int *major, int *minor))                                           \
    X(create, "nvrtcCreateProgram",                                                                \
      (void **program, const char *source, const char *name, int n_headers,                        \
       const char *const *headers, const char *const *names))                                      \
    X(destroy, "nvrtcDestroyProgram", (void **program))                                            \
    X(compile, "nvrtcCompileProgram", (void *program, int n_options, const char *const *options))  \
    X(log_bytes, "nvrtcGetProgramLogSize", (void *program, size_t *bytes))                         \
    X(log, "nvrtcGetProgramLog", (void *program, char *log))                                       \
    X(cubin_bytes, "nvrtcGetCUBINSize", (void *program, size_t *bytes))                            \
    X(cubin, "nvrtcGetCUBIN", (void *program, char *cubin))
#define STAXI_CUDA_FIELD(field, name, parameters) int(STAXI_CUDA_CALL *field) parameters;
/* clang-format on */

typedef struct staxi_cuda_driver {
    void *library;
    STAXI_CUDA_DRIVER(STAXI_CUDA_FIELD)
    /* of CUDA 12, or NULL: how the copy engine reads a tensor */
    int(STAXI_CUDA_CALL *tensor_map)(void *map, int type, unsigned rank, void *at,
                                     const uint64_t *sizes, const uint64_t *strides,
                                     const unsigned *box, const unsigned *steps, int interleave,
                                     int swizzle, int promotion, int fill);
} staxi_cuda_driver;
typedef struct staxi_cuda_node { /* CUDA_KERNEL_NODE_PARAMS */
    void *function;
    unsigned gx, gy, gz, bx, by, bz, shared;
    void **arguments, **extra;
} staxi_cuda_node;
typedef struct staxi_cuda_graphs {
    bool there;
    STAXI_CUDA_GRAPHS(STAXI_CUDA_FIELD)
} staxi_cuda_graphs;
typedef struct staxi_cuda_nvrtc {
    void *library;
    int major, minor;
    STAXI_CUDA_NVRTC(STAXI_CUDA_FIELD)
} staxi_cuda_nvrtc;

static const char *const staxi_cuda_driver_names[] = {
#if defined(_WIN32)
    "nvcuda.dll",
#else
    "libcuda.so.1", "libcuda.so",
#endif
    NULL};
static const char *const staxi_cuda_nvrtc_names[] = {
#if defined(_WIN32)
    "nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_112_0.dll",
#else
    "libnvrtc.so.13",
    "libnvrtc.so.12",
    "libnvrtc.so.11.2",
    "libnvrtc.so",
    "/usr/local/cuda/lib64/libnvrtc.so",
    "/usr/local/cuda/lib/libnvrtc.so",
#endif
    NULL};

/* Opens the first of the names; `own`, if set, comes before them. */
static void *staxi_cuda_library(const char *own, const char *const *names, staxi_text *why) {
    staxi_text each;
    void *library = NULL;
    staxi_text_init(&each, why->a);
    if (own && *own) library = staxi_dl_open(own, &each);
    for (int k = 0; !library && names[k]; k++) library = staxi_dl_open(names[k], &each);
    staxi_text_free(&each);
    if (library) return library;
    staxi_put(why, "looked for ");
    if (own && *own) staxi_putf(why, "%s, ", own);
    for (int k = 0; names[k]; k++) staxi_putf(why, k ? ", %s" : "%s", names[k]);
    return NULL;
}

static bool staxi_cuda_symbol(void *library, const char *name, void *field, staxi_text *why) {
    void *symbol = staxi_dl_symbol(library, name);
    if (!symbol)
        staxi_putf(why, "it has no function %s: it is older than CUDA %s", name,
                   strncmp(name, "cuGraph", 7) == 0 ? "11.4" : "11.2");
    memcpy(field, &symbol, sizeof symbol); /* where libraries exist, these have one size */
    return symbol != NULL;
}

static stax_status staxi_cuda_nvrtc_open(staxi_cuda_nvrtc *n, staxi_text *why) {
    memset(n, 0, sizeof *n);
#if defined(STAX_NO_ENV)
    const char *own = NULL;
#else
    const char *own = staxi_getenv("STAX_NVRTC");
#endif
    staxi_put(why, "CUDA's compiler NVRTC cannot be used: ");
    n->library = staxi_cuda_library(own, staxi_cuda_nvrtc_names, why);
    if (!n->library) return STAX_E_DEVICE;
#define STAXI_CUDA_LOAD(field, name, parameters) \
    ok = ok && staxi_cuda_symbol(n->library, name, (void *)&n->field, why);
    bool ok = true;
    STAXI_CUDA_NVRTC(STAXI_CUDA_LOAD)
    ok = ok && n->version(&n->major, &n->minor) == 0;
    if (ok) return STAX_OK;
    staxi_dl_close(n->library);
    n->library = NULL;
    return STAX_E_DEVICE;
}

static stax_status staxi_cuda_driver_open(staxi_cuda_driver *n, staxi_text *why) {
    memset(n, 0, sizeof *n);
    staxi_put(why, "CUDA's driver cannot be used: ");
    n->library = staxi_cuda_library(NULL, staxi_cuda_driver_names, why);
    if (!n->library) return STAX_E_DEVICE;
    bool ok = true;
    STAXI_CUDA_DRIVER(STAXI_CUDA_LOAD)
    void *symbol = staxi_dl_symbol(n->library, "cuTensorMapEncodeTiled");
    memcpy((void *)&n->tensor_map, &symbol, sizeof symbol);
    int count = 0, error = ok ? n->init(0) : 0;
    if (ok && (error != 0 || (error = n->device_count(&count)) != 0 || count < 1)) {
        const char *text = NULL;
        if (error) (void)n->error_name(error, &text);
        staxi_putf(why, "cuInit: %s", text ? text : "there is no device");
        ok = false;
    }
    if (ok) return STAX_OK;
    staxi_dl_close(n->library);
    n->library = NULL;
    return STAX_E_DEVICE;
}

static stax_status staxi_cuda_graphs_open(staxi_cuda_graphs *n, const staxi_cuda_driver *driver,
                                          staxi_text *why) {
    if (n->there) return STAX_OK;
#define STAXI_CUDA_LOAD_GRAPHS(field, name, parameters) \
    ok = ok && staxi_cuda_symbol(driver->library, name, (void *)&n->field, why);
    bool ok = true;
    staxi_put(why, "CUDA's driver cannot replay a program: ");
    STAXI_CUDA_GRAPHS(STAXI_CUDA_LOAD_GRAPHS)
    n->there = ok;
    if (ok) why->n = 0;
    return ok ? STAX_OK : STAX_E_DEVICE;
}

/* ======================================================================================== >>cuda
   EMISSION  loop trees as CUDA C++: the text of each value is the C emitter's at width 1; only who
   computes which element is decided here.
   In:  trees.   Out: one text, and a list of launches in order.
     SERIAL  a thread runs one iteration of the outer loops, all of what is inside: any tree at all
     MAP     the same for loops that only store, four neighbours a thread with 16-byte accesses
     TURN    the same where what is read lies along another loop: a tile a thread block
     ROWS    a warp sums a block of 4096 of a row, or all of them where there are enough rows: lane
             l of the rule is element l of 64, two each
     COLUMNS a block sums 4096 rows of 32 columns: 16 threads a column, four lanes of the rule each
     ARG     a thread block finds one argmax or argmin
     TUPLES  a thread block reduces a row over a monoid: a thread a lane of the rule
     SCAN    a thread block has a line of running values
     CONTRACT a thread block computes a tile of a contraction, chains in registers, its operands
             evaluated into shared memory
     SCATTER a thread has one update of a scatter, an atomic one: only where the option says so
     TEAM    a thread block runs one iteration of the outer loops, all segments in turn (softmax).
             Where all segments run over the same constant range, each thread has the same elements
             in each of them: what is read twice, and row areas, stay in its registers (held)
   What ROWS and COLUMNS leave in parts, a second kernel (FINISH) sums by the same rule. */

/* Tensor cores that a program may use. */
enum { STAXI_CUDA_WGMMA = 1, STAXI_CUDA_MMA = 2, STAXI_CUDA_TF32 = 4 };
enum { STAXI_CUDA_ATOMICS = 8 }; /* beside them: scatters in any order */

typedef enum staxi_cuda_kind {
    STAXI_CUDA_SERIAL,
    STAXI_CUDA_CHECK,
    STAXI_CUDA_MAP,
    STAXI_CUDA_ROWS,
    STAXI_CUDA_FINISH_ROWS,
    STAXI_CUDA_COLUMNS,
    STAXI_CUDA_FINISH_COLUMNS,
    STAXI_CUDA_TEAM,
    STAXI_CUDA_ARG,
    STAXI_CUDA_TUPLES,
    STAXI_CUDA_CONTRACT,
    STAXI_CUDA_SCAN,
    STAXI_CUDA_TURN,
    STAXI_CUDA_SCATTER
} staxi_cuda_kind;

/* An operand for the copy engine: elements first + sum of step * place; box: how many of the second
   axis at once, and always 64 of the first. */
typedef struct staxi_cuda_view {
    uint32_t buffer; /* 0: it is none */
    int n, box;      /* n: batches    */
    staxi_ix first, size[4], step[4];
} staxi_cuda_view;

typedef struct staxi_cuda_launch {
    uint8_t kind;
    bool stays;      /* one block a multiprocessor at most; its parameters include two maps */
    bool has_row;    /* uses row areas: one a thread or block                              */
    staxi_ix count;  /* threads, warps or blocks of work, by kind                          */
    staxi_ix length; /* ROWS, TEAM and their like: elements of the longest reduction       */
    staxi_ix parts;  /* bytes of partial results                                           */
    int64_t shared;  /* bytes of dynamic shared memory                                     */
    int threads;     /* of a block; 0: by kind and length                                  */
    bool tells;      /* it can say that its only block has ended                           */
    uint32_t tree;   /* the kernel of the schedule that it is a part of                    */
    size_t reads, n_reads; /* where the unit's `reads` says how often a row is read        */
    staxi_cuda_view maps[2];
    void *function;
} staxi_cuda_launch;

enum {
    STAXI_CUDA_SEGMENTS = 16,
    STAXI_CUDA_HELD = 12,        /* arrays in registers                                     */
    STAXI_CUDA_HELD_WORDS = 64,  /* registers a thread for them, at any time                */
    STAXI_CUDA_HELD_CODE = 6000, /* operations of the longest segment when it is unrolled   */
    STAXI_CUDA_CHUNK = 16        /* elements whose other loads are issued together          */
};

/* Elements step * k + rest of a buffer for all k of a segment, in registers from segment `first`
   to `last`. */
typedef struct staxi_cuda_held {
    uint32_t buffer;
    staxi_ix step, rest;
    int first, last;
    bool is_kept;
} staxi_cuda_held;

/* A load or a store (a node of the tree) of such elements. */
typedef struct staxi_cuda_hold {
    staxi_expr load;
    uint32_t store;
    int held;
} staxi_cuda_hold;

typedef struct staxi_cuda_segment {
    staxi_loop_axis axis;
    uint32_t list;
    bool is_acc;
} staxi_cuda_segment;

/* What emission has chosen among n alternatives each time, by table unless a number is given. */
enum { STAXI_CUDA_CHOICES = 24 };
typedef struct staxi_cuda_choices {
    uint8_t n, of[STAXI_CUDA_CHOICES], taken[STAXI_CUDA_CHOICES];
} staxi_cuda_choices;

typedef struct staxi_cuda_unit {
    staxi_emit e;
    staxi_text *t;
    staxi_trees *trees;
    staxi_stages *p;
    const stax_allocator *a;
    staxi_cuda_launch *launches;
    size_t n_launches, cap_launches;
    staxi_loop_axis loops[64]; /* of the kernel being printed: the loops that are spread out */
    int n_loops;
    bool has_checks;
    unsigned tensor;                   /* STAXI_CUDA_WGMMA and the like: what may be used       */
    staxi_cuda_choices choices, given; /* that were met, and those to take        */
    bool shared_row;  /* of the kernel being printed: row areas lie in shared memory */
    int at_once;      /* of the kernel begun next: blocks that run at once, at least; 0: unsaid */
    const char *more; /* of the kernel begun next: parameters behind the first */
    /* of the kernel being printed, if it holds: elements a thread has (0: it does not) */
    int held_each, held_group, held_threads, held_blocks; /* blocks that run at once, at least */
    int held_full;   /* of held_each, how many every thread has               */
    bool held_waits; /* other threads read what is stored                      */
    staxi_cuda_segment segments[STAXI_CUDA_SEGMENTS];
    int n_segments, segment;
    staxi_cuda_held held[STAXI_CUDA_HELD];
    int n_held;
    staxi_cuda_hold *holds;
    size_t n_holds, cap_holds;
    uint32_t tree;    /* the kernel of the schedule that is printed */
    staxi_text reads; /* of rows, by buffer: "x 1, b3 2"            */
} staxi_cuda_unit;

enum {
    STAXI_CUDA_FOUR = 4,
    STAXI_CUDA_TILE = 32,
    STAXI_CUDA_SHARED = 24 * 1024,       /* for partial results */
    STAXI_CUDA_SHARED_FIXED = 48 * 1024, /* that a kernel may declare                */
    STAXI_CUDA_SHARED_ALL = 60 * 1024    /* every device since sm_75 has as much */
};

/* clang-format off */
static const char *const staxi_cuda_lines_base[] = {
    "typedef signed char int8_t;",
    "typedef unsigned char uint8_t;",
    "typedef short int16_t;",
    "typedef unsigned short uint16_t;",
    "typedef int int32_t;",
    "typedef unsigned int uint32_t;",
    "typedef long long int64_t;",
    "typedef unsigned long long uint64_t;",
    "#define SX_INLINE static __device__ __forceinline__",
    "#define SX_FUNCTION static __device__",
    "#define sx_f32 float",
    "#define sx_u32 unsigned int",
    "#define sx_i32 int",
    "#define sx_f64 double",
    "#define sx_u64 unsigned long long",
    "#define sx_i64 long long",
    "#define sx_m32 int",
    "#define sx_m64 int",
    "#define sx_(name) sxs_##name",
    "#define sxs_bits32(f) __float_as_uint(f)",
    "#define sxs_float32(u) __uint_as_float(u)",
    "#define sxs_bits64(f) ((unsigned long long)__double_as_longlong(f))",
    "#define sxs_float64(u) __longlong_as_double((long long)(u))",
    "#define sx_bits32(f) sxs_bits32(f)",
    "#define sx_float32(u) sxs_float32(u)",
    "#define sx_bits64(f) sxs_bits64(f)",
    "#define sx_float64(u) sxs_float64(u)",
    "#define sx_i32_of_u32(u) ((int)(u))",
    "#define sx_u32_of_i32(i) ((unsigned int)(i))",
    "#define sx_i64_of_u64(u) ((long long)(u))",
    "#define sx_u64_of_i64(i) ((unsigned long long)(i))",
    "#define sx_k32(c) (c)",
    "#define sx_ku32(c) ((sx_u32)(c))",
    "#define sx_ki32(c) ((sx_i32)(c))",
    "#define sx_k64(c) (c)",
    "#define sx_ku64(c) ((sx_u64)(c))",
    "#define sx_ki64(c) ((sx_i64)(c))",
    "#define sx_lt32(a, b) ((a) < (b))",
    "#define sx_le32(a, b) ((a) <= (b))",
    "#define sx_eq32(a, b) ((a) == (b))",
    "#define sx_ne32(a, b) ((a) != (b))",
    "#define sx_ltu32(a, b) ((a) < (b))",
    "#define sx_equ32(a, b) ((a) == (b))",
    "#define sx_lti32(a, b) ((a) < (b))",
    "#define sx_lt64(a, b) ((a) < (b))",
    "#define sx_le64(a, b) ((a) <= (b))",
    "#define sx_eq64(a, b) ((a) == (b))",
    "#define sx_ne64(a, b) ((a) != (b))",
    "#define sx_ltu64(a, b) ((a) < (b))",
    "#define sx_equ64(a, b) ((a) == (b))",
    "#define sx_lti64(a, b) ((a) < (b))",
    "#define sx_not32(m) (!(m))",
    "#define sx_not64(m) (!(m))",
    "#define sx_any32(m) (m)",
    "#define sx_any64(m) (m)",
    "#define sx_sel32(m, a, b) ((m) ? (a) : (b))",
    "#define sx_selu32(m, a, b) ((m) ? (a) : (b))",
    "#define sx_sel64(m, a, b) ((m) ? (a) : (b))",
    "#define sx_selu64(m, a, b) ((m) ? (a) : (b))",
    "#define sx_fix32(m, r, fn, x) ((m) ? sxs_##fn(x) : (r))",
    "#define sx_fix32_2(m, r, fn, x, y) ((m) ? sxs_##fn((x), (y)) : (r))",
    "#define sx_fix64(m, r, fn, x) ((m) ? sxs_##fn(x) : (r))",
    "#define sx_fix64_2(m, r, fn, x, y) ((m) ? sxs_##fn((x), (y)) : (r))",
    "#define sx_atmost32(x, c) sxs_atmost32((x), (c))",
    "#define sx_atleast32(x, c) sxs_atleast32((x), (c))",
    "#define sx_atmost64(x, c) sxs_atmost64((x), (c))",
    "#define sx_atleast64(x, c) sxs_atleast64((x), (c))",
    "#define sx_max32(a, b) sx_sel32(sx_eq32(a, b), sx_float32(sx_bits32(a) & sx_bits32(b)), sx_sel32(sx_lt32(a, b) | sx_ne32(b, b), b, a))",
    "#define sx_min32(a, b) sx_sel32(sx_eq32(a, b), sx_float32(sx_bits32(a) | sx_bits32(b)), sx_sel32(sx_lt32(b, a) | sx_ne32(b, b), b, a))",
    "#define sx_max64(a, b) sx_sel64(sx_eq64(a, b), sx_float64(sx_bits64(a) & sx_bits64(b)), sx_sel64(sx_lt64(a, b) | sx_ne64(b, b), b, a))",
    "#define sx_min64(a, b) sx_sel64(sx_eq64(a, b), sx_float64(sx_bits64(a) | sx_bits64(b)), sx_sel64(sx_lt64(b, a) | sx_ne64(b, b), b, a))",
    "#define sx_scale32(y, t, n) sxs_scale32((y), (t))",
    "#define sx_scale64(y, t, n) sxs_scale64((y), (t))",
    "#define sx_sqrt32(x) __fsqrt_rn(x)",
    "#define sx_sqrt64(x) __dsqrt_rn(x)",
    "#define sx_fma32(a, b, c) __fmaf_rn((a), (b), (c))",
    "#define sx_fma64(a, b, c) __fma_rn((a), (b), (c))",
    "#define sx_canon32(x) sx_(canon_f32)(x)",
    "#define sx_canon64(x) sx_(canon_f64)(x)",
    "SX_INLINE float sxs_fma_f32(float a, float b, float c) { return __fmaf_rn(a, b, c); }",
    "SX_INLINE double sxs_fma_f64(double a, double b, double c) { return __fma_rn(a, b, c); }",
    "#if __CUDA_ARCH__ >= 800 /* NaN wins, and +0 over -0: IEEE 754-2019, as the texts have it */",
    "#define SX_OWN_MAXIMUM 1",
    "SX_INLINE float sxs_maximum_f32(float a, float b) {",
    "    float r;",
    "    asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(a), \"f\"(b));",
    "    return r;",
    "}",
    "SX_INLINE float sxs_minimum_f32(float a, float b) {",
    "    float r;",
    "    asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(a), \"f\"(b));",
    "    return r;",
    "}",
    "#endif",
    "SX_INLINE float sxs_atmost32(float x, float c) { return x > c ? c : x; }",
    "SX_INLINE float sxs_atleast32(float x, float c) { return x < c ? c : x; }",
    "SX_INLINE double sxs_atmost64(double x, double c) { return x > c ? c : x; }",
    "SX_INLINE double sxs_atleast64(double x, double c) { return x < c ? c : x; }",
    "SX_INLINE float sxs_scale32(float y, float t) {",
    "    const unsigned int u = sxs_bits32(t), h = u >> 1;",
    "    return y * sxs_float32(h << 23) * sxs_float32((u - h) << 23);",
    "}",
    "SX_INLINE double sxs_scale64(double y, double t) {",
    "    const unsigned long long u = sxs_bits64(t), h = u >> 1;",
    "    return y * sxs_float64(h << 52) * sxs_float64((u - h) << 52);",
    "}",
    "/* Divisions of 64 bits are slow here: most are of small numbers. */",
    "SX_INLINE bool sx_small(int64_t a, int64_t b) { return ((uint64_t)(a | b) >> 32) == 0; }",
    "SX_INLINE int64_t sx_floordiv(int64_t a, int64_t b) {",
    "    int64_t q;",
    "    if (b == 0) return 0;",
    "    if (sx_small(a, b)) return (int64_t)((uint32_t)a / (uint32_t)b);",
    "    q = a / b;",
    "    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;",
    "}",
    "SX_INLINE int64_t sx_floormod(int64_t a, int64_t b) {",
    "    if (b == 0) return 0;",
    "    if (sx_small(a, b)) return (int64_t)((uint32_t)a % (uint32_t)b);",
    "    return a - b * sx_floordiv(a, b);",
    "}",
    "SX_INLINE int64_t sx_imin(int64_t a, int64_t b) { return a < b ? a : b; }",
    "SX_INLINE int64_t sx_imax(int64_t a, int64_t b) { return a > b ? a : b; }",
    "/* The remainder by n leaves `rest`, its quotient stays there: one loop's counter out of a flat one. */",
    "SX_INLINE int64_t sx_digit(int64_t *rest, int64_t n) {",
    "    const int64_t a = *rest;",
    "    if (sx_small(a, n)) {",
    "        const uint32_t q = (uint32_t)a / (uint32_t)n;",
    "        *rest = (int64_t)q;",
    "        return (int64_t)((uint32_t)a - q * (uint32_t)n);",
    "    }",
    "    *rest = a / n;",
    "    return a - *rest * n;",
    "}",
    "/* check: 0, or the check that failed; position: of the failing element, the lowest. */",
    "typedef struct sx_record { int64_t check, position, found, limit; } sx_record;",
    NULL};
static const char *const staxi_cuda_lines_fail[] = {
    "/* The failure of the lowest position counts: the first pass finds it, the second one (a single thread,",
    "   at that position) writes down what it was. */",
    "SX_INLINE void sx_fail(const sx_args *sx, int64_t check, int64_t position, int64_t found, int64_t limit) {",
    "    if (!sx->second) {",
    "        atomicMin((unsigned long long *)&sx->record->position, (unsigned long long)position);",
    "        return;",
    "    }",
    "    sx->record->check = check;",
    "    sx->record->found = found;",
    "    sx->record->limit = limit;",
    "}",
    "/* The only block of a call's last kernel: the host sees that it has ended sooner than by the driver. */",
    "SX_INLINE void sx_tell(const sx_args *sx) {",
    "    if (!sx->told) return;",
    "    __syncthreads();",
    "    if (threadIdx.x != 0) return;",
    "    __threadfence_system();",
    "    *sx->told = 1;",
    "}",
    NULL};
static const char *const staxi_cuda_lines_atomic[] = {
    "SX_INLINE void sx_atomic_add(float *p, float x) { atomicAdd(p, x); }",
    "SX_INLINE void sx_atomic_add(double *p, double x) { atomicAdd(p, x); }",
    "SX_INLINE void sx_atomic_add(unsigned *p, unsigned x) { atomicAdd(p, x); }",
    "SX_INLINE void sx_atomic_add(uint64_t *p, uint64_t x) { atomicAdd(p, x); }",
    "SX_INLINE void sx_atomic_add(int *p, int x) { atomicAdd((unsigned *)p, (unsigned)x); }",
    "SX_INLINE void sx_atomic_add(int64_t *p, int64_t x) { atomicAdd((uint64_t *)p, (uint64_t)x); }",
    "template <class T> SX_INLINE void sx_atomic_max(T *p, T x) { atomicMax(p, x); }",
    "template <class T> SX_INLINE void sx_atomic_min(T *p, T x) { atomicMin(p, x); }",
    "/* Of floats: the larger or smaller one, -0 below 0; a NaN of either is the quiet one. */",
    "#define SX_ATOMIC_EXTREME(name, T, W, to, from, sign, nan, above) \\",
    "    SX_INLINE void name(T *p, T x) { \\",
    "        W old = *(volatile W *)p, seen; \\",
    "        for (;; old = seen) { \\",
    "            const T a = from(old); \\",
    "            const bool other = x above a || (x == a && (0 above -1 ? old : (W)to(x)) & sign); \\",
    "            const W now = a != a || x != x ? nan : other ? (W)to(x) : old; \\",
    "            if (now == old) return; \\",
    "            seen = atomicCAS((W *)p, old, now); \\",
    "            if (seen == old) return; \\",
    "        } \\",
    "    }",
    "SX_ATOMIC_EXTREME(sx_atomic_max, float, unsigned, __float_as_uint, __uint_as_float, 0x80000000u, 0x7fc00000u, >)",
    "SX_ATOMIC_EXTREME(sx_atomic_min, float, unsigned, __float_as_uint, __uint_as_float, 0x80000000u, 0x7fc00000u, <)",
    "SX_ATOMIC_EXTREME(sx_atomic_max, double, uint64_t, __double_as_longlong, __longlong_as_double, 0x8000000000000000ull, 0x7ff8000000000000ull, >)",
    "SX_ATOMIC_EXTREME(sx_atomic_min, double, uint64_t, __double_as_longlong, __longlong_as_double, 0x8000000000000000ull, 0x7ff8000000000000ull, <)",
    NULL};
static const char *const staxi_cuda_lines_warp[] = {
    "/* four neighbours at once where the address allows */",
    "template <class T> SX_INLINE void sx_take(T *to, const T *p) {",
    "    const bool even = ((uint64_t)p & (sizeof(T) < 4 ? 4 * sizeof(T) - 1 : 15)) == 0;",
    "    if (!even) {",
    "#pragma unroll",
    "        for (int j = 0; j < 4; j++) to[j] = p[j];",
    "    } else if (sizeof(T) == 1) {",
    "        *(uint32_t *)(void *)to = *(const uint32_t *)(const void *)p;",
    "    } else if (sizeof(T) == 2) {",
    "        *(uint2 *)(void *)to = *(const uint2 *)(const void *)p;",
    "    } else {",
    "#pragma unroll",
    "        for (int j = 0; j < (int)sizeof(T) / 4; j++) ((uint4 *)(void *)to)[j] = ((const uint4 *)(const void *)p)[j];",
    "    }",
    "}",
    "template <class T> SX_INLINE void sx_give(T *p, const T *from) {",
    "    const bool even = ((uint64_t)p & (sizeof(T) < 4 ? 4 * sizeof(T) - 1 : 15)) == 0;",
    "    if (!even) {",
    "#pragma unroll",
    "        for (int j = 0; j < 4; j++) p[j] = from[j];",
    "    } else if (sizeof(T) == 1) {",
    "        *(uint32_t *)(void *)p = *(const uint32_t *)(const void *)from;",
    "    } else if (sizeof(T) == 2) {",
    "        *(uint2 *)(void *)p = *(const uint2 *)(const void *)from;",
    "    } else {",
    "#pragma unroll",
    "        for (int j = 0; j < (int)sizeof(T) / 4; j++) ((uint4 *)(void *)p)[j] = ((const uint4 *)(const void *)from)[j];",
    "    }",
    "}",
    "/* four neighbours, both sides aligned to 16 bytes */",
    "template <class T> SX_INLINE void sx_four(T *to, const T *from) {",
    "#pragma unroll",
    "    for (int j = 0; j < (int)sizeof(T) / 4; j++) ((uint4 *)(void *)to)[j] = ((const uint4 *)(const void *)from)[j];",
    "}",
    "template <class T> SX_INLINE T sx_swap(T x, int w) { return (T)__shfl_xor_sync(0xffffffffu, x, w); }",
    "/* The halving tree over a warp's lanes. Both sides of each pair add, so every lane has the result. */",
    "template <class F> SX_INLINE typename F::T sx_tree(typename F::T *a) {",
    "    typename F::T s = a[0];",
    "    if (F::LANES == 2) s = F::of(a[0], a[F::LANES - 1]);",
    "#pragma unroll",
    "    for (int w = 16; w > 0; w /= 2) s = F::of(s, sx_swap(s, w));",
    "    return s;",
    "}",
    "/* The rule over at most 4096 values in memory, by one warp: lane l has elements l, l + 64, ... */",
    "template <class F> SX_INLINE typename F::T sx_block(const typename F::T *p, int64_t n) {",
    "    typename F::T a[2] = {F::id(), F::id()};",
    "    for (int64_t k = threadIdx.x & 31; k < n; k += 32 * F::LANES) {",
    "        a[0] = F::of(a[0], p[k]);",
    "        if (F::LANES == 2 && k + 32 < n) a[F::LANES - 1] = F::of(a[F::LANES - 1], p[k + 32]);",
    "    }",
    "    return sx_tree<F>(a);",
    "}",
    "/* The same over any number of values, by all warps of the block; `room` holds 4096 values. */",
    "template <class F> SX_INLINE typename F::T sx_rule(const typename F::T *p, int64_t n, typename F::T *room) {",
    "    const int64_t blocks = (n + 4095) / 4096;",
    "    if (blocks <= 1) return sx_block<F>(p, n);",
    "    __syncthreads();",
    "    for (int64_t b = threadIdx.x / 32; b < blocks; b += blockDim.x / 32) {",
    "        const int64_t left = n - b * 4096;",
    "        const typename F::T s = sx_block<F>(p + b * 4096, left < 4096 ? left : 4096);",
    "        if ((threadIdx.x & 31) == 0) room[b] = s;",
    "    }",
    "    __syncthreads();",
    "    return sx_block<F>(room, blocks);",
    "}",
    "/* The same over N lanes of one thread. */",
    "template <class F, int N> SX_INLINE typename F::T sx_own(typename F::T *a) {",
    "#pragma unroll",
    "    for (int w = N / 2; w > 0; w /= 2)",
    "#pragma unroll",
    "        for (int l = 0; l < w; l++) a[l] = F::of(a[l], a[l + w]);",
    "    return a[0];",
    "}",
    "/* The rule over at most 4096 values, `step` apart, by one thread. */",
    "template <class F> SX_INLINE typename F::T sx_alone(const typename F::T *p, int64_t step, int64_t n) {",
    "    enum { L = 32 * F::LANES };",
    "    typename F::T a[L];",
    "#pragma unroll",
    "    for (int l = 0; l < L; l++) a[l] = F::id();",
    "    for (int64_t k = 0; k < n; k += L) {",
    "#pragma unroll",
    "        for (int l = 0; l < L; l++)",
    "            if (k + l < n) a[l] = F::of(a[l], p[(k + l) * step]);",
    "    }",
    "    return sx_own<F, L>(a);",
    "}",
    "/* The same for a block whose 64 lanes lie in shared memory: the caller's two warps both have the result. */",
    "template <class F> SX_INLINE typename F::T sx_pair(const typename F::T *g) {",
    "    const typename F::T *const p = g + threadIdx.x / 64 * 64 + threadIdx.x % 32;",
    "    typename F::T s = F::of(p[0], p[32]);",
    "#pragma unroll",
    "    for (int w = 16; w > 0; w /= 2) s = F::of(s, sx_swap(s, w));",
    "    return s;",
    "}",
    "/* Running values of the first 32 of y, or of n, in place: gives the last one. */",
    "template <class F> SX_INLINE typename F::T sx_segment(typename F::T *y, int n) {",
    "    if (n < 32) {",
    "        for (int k = 1; k < n; k++) y[k] = F::of(y[k - 1], y[k]);",
    "        return y[n - 1];",
    "    }",
    "    typename F::T a[32];",
    "#pragma unroll",
    "    for (int k = 0; k < 32; k++) a[k] = y[k];",
    "#pragma unroll",
    "    for (int k = 1; k < 32; k++) y[k] = a[k] = F::of(a[k - 1], a[k]);",
    "    return a[31];",
    "}",
    "/* x, but the compiler does not know: conditions are asked again rather than kept in registers. */",
    "SX_INLINE int sx_again(int x) {",
    "    asm volatile(\"\" : \"+r\"(x));",
    "    return x;",
    "}",
    "/* Of a sum or product: the device's own NaN is 0x7fffffff, above all other numbers. */",
    "SX_INLINE float sx_canon_made(float x) {",
    "#ifdef SX_OWN_NAN",
    "    return x != x ? sxs_float32(0x7fc00000u) : x;",
    "#else",
    "    const int u = __float_as_int(x);",
    "    return __int_as_float(u < 0x7fc00000 ? u : 0x7fc00000);",
    "#endif",
    "}",
    "/* What may not hold is noted in `rare`; else these have the bits of the others. A quotient: the steps",
    "   of the compiler's own, of which the first three depend on y alone. */",
    "SX_INLINE float sx_quick_canon(float x, bool &rare) {",
    "    rare = rare | (x != x);",
    "    return x;",
    "}",
    "SX_INLINE float sx_quick_div(float x, float y, bool &rare) {",
    "#ifdef SX_OWN_RECIPROCAL",
    "    const float r0 = SX_OWN_RECIPROCAL(y);",
    "#else",
    "    float r0;",
    "    asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(r0) : \"f\"(y));",
    "#endif",
    "    const float r = __fmaf_rn(r0, __fmaf_rn(-y, r0, 1.0f), r0), q = x * r;",
    "    rare = rare | !(fabsf(y) >= 8.67e-19f) | !(fabsf(y) <= 1.15e18f);",
    "    rare = rare | !(fabsf(x) >= 8.67e-19f) | !(fabsf(x) <= 1.15e18f);",
    "    return __fmaf_rn(r, __fmaf_rn(-y, q, x), q);",
    "}",
    "/* The best element and where it is (at < 0: none yet). */",
    "template <class T, int MOST> struct sx_best {",
    "    T x;",
    "    int64_t at;",
    "    SX_INLINE bool beats(T a, T b) { return (MOST ? !(a <= b) : !(a >= b)) && b == b; }",
    "    __device__ __forceinline__ void meet(T y, int64_t where) {",
    "        if (where >= 0 && (at < 0 || beats(y, x) || (!beats(x, y) && where < at))) {",
    "            x = y;",
    "            at = where;",
    "        }",
    "    }",
    "    __device__ __forceinline__ void join_warp() {",
    "#pragma unroll",
    "        for (int w = 16; w > 0; w /= 2) meet(sx_swap(x, w), sx_swap(at, w));",
    "    }",
    "    __device__ __forceinline__ void join(T *bests, int64_t *places) {",
    "        join_warp();",
    "        if (blockDim.x <= 32) return;",
    "        __syncthreads();",
    "        if (threadIdx.x % 32 == 0) {",
    "            bests[threadIdx.x / 32] = x;",
    "            places[threadIdx.x / 32] = at;",
    "        }",
    "        __syncthreads();",
    "        for (int w = 0; w < (int)blockDim.x / 32; w++) meet(bests[w], places[w]);",
    "    }",
    "};",
    NULL};
/* clang-format on */

/* ---- what the trees look like here ---- */

/* Loops are cut by us, and columns are rows that neighbouring threads run: the axis becomes a loop
   around the reduction. `parallel` tells such reductions apart. */
static bool staxi_cuda_reshape_list(staxi_trees *t, uint32_t *link) {
    while (*link) {
        uint32_t at = *link;
        t->nodes[at].parallel = false;
        if ((t->nodes[at].kind == STAXI_TREE_ACC || t->nodes[at].kind == STAXI_TREE_SCAN) &&
            t->nodes[at].mode == STAXI_MODE_COLUMN && t->nodes[at].axis.var) {
            uint32_t loop = staxi_tree_add(t, STAXI_TREE_LOOP);
            if (!loop) return false;
            t->nodes[loop].axis = t->nodes[at].axis;
            memset(&t->nodes[at].axis, 0, sizeof t->nodes[at].axis);
            t->nodes[at].mode = STAXI_MODE_ROW;
            t->nodes[at].parallel = true;
            t->nodes[loop].child = at;
            t->nodes[loop].next = t->nodes[at].next;
            t->nodes[at].next = 0;
            at = loop;
        } else if (t->nodes[at].kind == STAXI_TREE_LOOP) {
            uint32_t child = t->nodes[at].child;
            if (!staxi_cuda_reshape_list(t, &child)) return false;
            t->nodes[at].child = child;
        }
        uint32_t next = t->nodes[at].next;
        *link = at;
        if (!staxi_cuda_reshape_list(t, &next)) return false;
        t->nodes[at].next = next;
        return true;
    }
    return true;
}

static bool staxi_cuda_reshape(staxi_trees *t) {
    for (uint32_t k = 0; k < t->n_kernels; k++) {
        uint32_t root = t->kernels[k].root;
        if (!staxi_cuda_reshape_list(t, &root)) return false;
        t->kernels[k].root = root;
        t->kernels[k].lanes = STAXI_LANES_NONE;
    }
    return true;
}

static bool staxi_cuda_list_has(const staxi_trees *t, uint32_t list, int kind) {
    for (; list; list = t->nodes[list].next)
        if (t->nodes[list].kind == kind) return true;
    return false;
}

/* One of n alternatives: `table`, unless another one was given. */
static int staxi_cuda_choose(staxi_cuda_unit *u, int n, int table) {
    const int k = u->choices.n;
    if (k == STAXI_CUDA_CHOICES) return table;
    const int taken = k < u->given.n && u->given.taken[k] < n ? u->given.taken[k] : table;
    u->choices.n++;
    u->choices.of[k] = (uint8_t)n;
    u->choices.taken[k] = (uint8_t)taken;
    return taken;
}

/* ---- the frame of a kernel ---- */

static staxi_cuda_launch *staxi_cuda_launch_add(staxi_cuda_unit *u, staxi_cuda_kind kind) {
    if (!staxi_grow(u->a, (void **)&u->launches, &u->cap_launches, u->n_launches + 1,
                    sizeof *u->launches)) {
        staxi_emit_no_memory(&u->e);
        return NULL;
    }
    staxi_cuda_launch *l = &u->launches[u->n_launches++];
    memset(l, 0, sizeof *l);
    l->kind = (uint8_t)kind;
    l->length = l->parts = staxi_ix_const(&u->p->ix, 0);
    l->count = staxi_ix_const(&u->p->ix, 1);
    l->tree = u->tree;
    return l;
}

static staxi_ix staxi_cuda_loops_product(staxi_cuda_unit *u) {
    staxi_ix n = staxi_ix_const(&u->p->ix, 1);
    for (int d = 0; d < u->n_loops; d++) n = staxi_ix_mul(&u->p->ix, n, u->loops[d].extent);
    return n;
}

static staxi_ix staxi_cuda_pieces(staxi_cuda_unit *u, staxi_ix n, int64_t size) {
    staxi_ix up = staxi_ix_add(&u->p->ix, n, staxi_ix_const(&u->p->ix, size - 1));
    return staxi_ix_floordiv(&u->p->ix, up, staxi_ix_const(&u->p->ix, size));
}

/* The pointers that the nodes of `list` use, as staxi_emit_pointers, but row areas come from the
   variable `row`, and constants may be written as they are. */
static bool staxi_cuda_pointers(staxi_cuda_unit *u, const uint8_t *used) {
    staxi_emit *e = &u->e;
    bool has_row = false;
    for (uint32_t k = 0; k < u->p->n_sizes; k++)
        staxi_putf(u->t, "    const int64_t n%U = sx->sizes[%U];\n", (uint64_t)k, (uint64_t)k);
    for (uint32_t b = 1; b < u->p->n_buffers; b++)
        if (used[b] && u->p->buffers[b].scope == STAXI_SCOPE_ROW) has_row = true;
    if (has_row && u->shared_row) {
        staxi_put(u->t,
                  "    extern __shared__ __align__(16) unsigned char sx_room[];\n    unsigned char "
                  "*const row = sx_room;\n");
    } else if (has_row) {
        staxi_put(u->t, "    unsigned char *const row = sx->row + (int64_t)sx_slot * (");
        staxi_emit_ix(e, u->trees->s->row_bytes);
        staxi_put(u->t, ");\n");
    }
    for (uint32_t b = 1; b < u->p->n_buffers; b++) {
        if (!used[b]) continue;
        const staxi_buffer *buf = &u->p->buffers[b];
        const char *type = staxi_c_type(buf->dtype), *c = used[b] & 2 ? "" : "const ";
        staxi_putf(u->t, "    %s%s *const b%U = (%s%s *)", c, type, (uint64_t)b, c, type);
        if (buf->scope == STAXI_SCOPE_CONST) {
            staxi_putf(u->t, "(const void *)sx_const_0_%U;\n", (uint64_t)b);
        } else if (buf->scope == STAXI_SCOPE_ARG) {
            staxi_putf(u->t, "sx->buffers[%U];", (uint64_t)buf->slot);
            if (buf->name) staxi_putf(u->t, " /* %s */", buf->name);
            staxi_put(u->t, "\n");
        } else {
            staxi_putf(u->t, "(%s + ", buf->scope == STAXI_SCOPE_ROOT ? "sx->workspace" : "row");
            staxi_emit_ix(e, buf->offset);
            staxi_put(u->t, ");\n");
        }
    }
    return has_row;
}

static bool staxi_cuda_is_row_area(const staxi_cuda_unit *u, uint32_t buffer) {
    return u->p->buffers[buffer].scope == STAXI_SCOPE_ROW;
}

/* Begins kernel number n_launches; `list` is what it runs. */
static staxi_cuda_launch *staxi_cuda_begin(staxi_cuda_unit *u, staxi_cuda_kind kind, uint32_t list,
                                           const char *slot, int threads) {
    size_t number = u->n_launches;
    staxi_cuda_launch *l = staxi_cuda_launch_add(u, kind);
    staxi_marks marks;
    memset(&marks, 0, sizeof marks);
    marks.now = 1;
    if (!l) return NULL;
    uint8_t *used = (uint8_t *)staxi_arena_push(&u->p->arena, u->p->n_buffers, 1);
    if (!used) {
        staxi_emit_no_memory(&u->e);
        return NULL;
    }
    staxi_collect_buffers(&u->e, list, used, &marks);
    staxi_free(u->a, marks.at, marks.cap * sizeof *marks.at);
    for (int k = 0; k < u->n_held && u->held_each; k++)
        if (u->held[k].is_kept && staxi_cuda_is_row_area(u, u->held[k].buffer))
            used[u->held[k].buffer] = 0;
    u->e.buffer_use = used;
    if (u->e.deps_known) memset(u->e.deps_known, 0, u->e.cap_known);
    staxi_putf(u->t,
               u->at_once ? "\nextern \"C\" __global__ void __launch_bounds__(%d, %d) "
                          : "\nextern \"C\" __global__ void __launch_bounds__(%d) ",
               threads, u->at_once);
    u->at_once = 0;
    staxi_putf(u->t,
               "stax_kernel_%U(const sx_args args%s) {\n    const sx_args *const sx = &args;\n",
               (uint64_t)number, u->more ? u->more : "");
    u->more = NULL;
    staxi_putf(u->t, "    const int64_t sx_slot = %s;\n", slot);
    if (kind == STAXI_CUDA_ROWS || kind == STAXI_CUDA_COLUMNS || kind == STAXI_CUDA_TEAM)
        staxi_put(u->t, "    bool rare = false;\n");
    if (u->has_checks) staxi_put(u->t, "    if (sx->record->check) return;\n");
    l->has_row = staxi_cuda_pointers(u, used);
    u->e.indent = 1;
    return l;
}

static void staxi_cuda_end(staxi_cuda_unit *u) {
    staxi_cuda_launch *l = u->n_launches ? &u->launches[u->n_launches - 1] : NULL;
    /* in kernels that check, threads return before their end */
    if (l) l->tells = !u->has_checks && l->kind != STAXI_CUDA_CONTRACT;
    staxi_put(u->t, l && l->tells ? "    sx_tell(sx);\n}\n" : "}\n");
    u->e.indent = 0;
}

static void staxi_cuda_close(staxi_cuda_unit *u, int braces) {
    while (braces-- > 0) {
        u->e.indent--;
        staxi_line(&u->e);
        staxi_put(u->t, "}\n");
    }
}

/* for each flat number: the loops' counters, the last one fastest. `unit` runs one number. */
static void staxi_cuda_flat(staxi_cuda_unit *u, staxi_ix total, const char *first,
                            const char *step) {
    staxi_put(u->t, "    const int64_t total = ");
    staxi_emit_ix(&u->e, total);
    staxi_putf(u->t,
               ";\n    for (int64_t flat = %s; flat < total; flat += %s) {\n        int64_t rest = "
               "flat;\n",
               first, step);
    u->e.indent = 2;
}

/* The counters of these loops out of the number `rest`: each is written behind `begin` and its own
   number, and before `end`. */
static void staxi_cuda_counters(staxi_cuda_unit *u, const staxi_loop_axis *loops, int n,
                                const char *begin, const char *end) {
    for (int d = n - 1; d >= 0; d--) {
        staxi_line(&u->e);
        staxi_putf(u->t, "%s%U%s = ", begin, staxi_var_id(&u->e, loops[d].var), end);
        if (d == 0) {
            staxi_put(u->t, "rest;\n");
        } else {
            staxi_put(u->t, "sx_digit(&rest, ");
            staxi_emit_ix(&u->e, loops[d].extent);
            staxi_put(u->t, ");\n");
        }
    }
}

static void staxi_cuda_digits(staxi_cuda_unit *u) {
    staxi_cuda_counters(u, u->loops, u->n_loops, "const int64_t i", "");
}

static const char *const staxi_cuda_thread = "(int64_t)blockIdx.x * blockDim.x + threadIdx.x";
static const char *const staxi_cuda_threads = "(int64_t)gridDim.x * blockDim.x";

static void staxi_cuda_scoped_list(staxi_cuda_unit *u, uint32_t list) {
    size_t scope = staxi_emit_scope_open(&u->e);
    staxi_emit_list(&u->e, list);
    staxi_emit_scope_close(&u->e, scope);
}

/* A tree as it is, outer loops over threads. */
static void staxi_cuda_serial(staxi_cuda_unit *u, staxi_cuda_kind kind, uint32_t list) {
    bool check = kind == STAXI_CUDA_CHECK;
    staxi_cuda_launch *l =
        staxi_cuda_begin(u, kind, list, u->n_loops ? staxi_cuda_thread : "0", 128);
    if (!l) return;
    l->count = staxi_cuda_loops_product(u);
    if (check) staxi_put(u->t, "    if (sx->second && sx->record->position == -1) return;\n");
    staxi_cuda_flat(u, l->count,
                    check ? "sx->second ? sx->record->position : (int64_t)blockIdx.x "
                            "* blockDim.x + threadIdx.x"
                          : staxi_cuda_thread,
                    staxi_cuda_threads);
    staxi_cuda_digits(u);
    staxi_cuda_scoped_list(u, list);
    if (check) staxi_put(u->t, "        if (sx->second) return;\n");
    staxi_put(u->t, "    }\n");
    staxi_cuda_end(u);
}

/* for (int <counter> = 0; <counter> < n; <counter>++), unrolled; a brace is open behind it */
static void staxi_cuda_unrolled(staxi_cuda_unit *u, const char *counter, int n) {
    staxi_put(u->t, "#pragma unroll\n");
    staxi_line(&u->e);
    staxi_putf(u->t, "for (int %s = 0; %s < %d; %s++) {\n", counter, counter, n, counter);
    u->e.indent++;
}

/* ---- maps, four neighbours a thread ---- */

/* Is `at` as near as memory gets along var, whatever the values of other expressions? */
static bool staxi_cuda_is_near(staxi_cuda_unit *u, staxi_ix at, staxi_ix var) {
    staxi_ix step, rest;
    int64_t c;
    for (size_t k = 0; k < u->p->n_value_leaves; k++)
        if (staxi_ix_depends_on(&u->p->ix, at, u->p->value_leaves[k])) return false;
    return staxi_ix_affine(&u->p->ix, at, var, &step, &rest) &&
           staxi_ix_is_const(&u->p->ix, step, &c) && c == 1;
}

typedef struct staxi_cuda_near {
    staxi_expr *loads;
    size_t n, cap;
    staxi_marks marks;
} staxi_cuda_near;

/* Does `at` follow var, and no values of other expressions? */
static bool staxi_cuda_follows(staxi_cuda_unit *u, staxi_ix at, staxi_ix var) {
    for (size_t k = 0; k < u->p->n_value_leaves; k++)
        if (staxi_ix_depends_on(&u->p->ix, at, u->p->value_leaves[k])) return false;
    return staxi_ix_depends_on(&u->p->ix, at, var);
}

/* Loads that happen for every element (those under a select may not be valid for all): the nearest
   only, or all that follow var. */
static void staxi_cuda_collect_near(staxi_cuda_unit *u, staxi_cuda_near *near_, staxi_expr x,
                                    staxi_ix var, bool nearest) {
    if (!x || !staxi_mark_first(u->p, &near_->marks, x)) return;
    const staxi_expr_node n = u->p->exprs[x];
    if (n.kind == STAXI_EX_SELECT) return;
    staxi_ix at = n.kind == STAXI_EX_LOAD ? staxi_flat_index(u->p, n.ref, n.ix) : 0;
    if (at && (nearest ? staxi_cuda_is_near(u, at, var) : staxi_cuda_follows(u, at, var))) {
        if (!staxi_grow(u->a, (void **)&near_->loads, &near_->cap, near_->n + 1, sizeof x))
            staxi_emit_no_memory(&u->e);
        else
            near_->loads[near_->n++] = x;
    }
    for (int k = 0; k < n.n_args; k++) staxi_cuda_collect_near(u, near_, n.args[k], var, nearest);
}

/* Of all that a list evaluates; the marks begin anew. */
static void staxi_cuda_near_of(staxi_cuda_unit *u, staxi_cuda_near *near_, uint32_t list,
                               staxi_ix var, bool nearest) {
    near_->n = 0;
    near_->marks.now++;
    for (; list; list = u->trees->nodes[list].next)
        for (int x = 0; x < 2; x++)
            staxi_cuda_collect_near(u, near_, u->trees->nodes[list].expr[x], var, nearest);
}

static void staxi_cuda_near_free(staxi_cuda_unit *u, staxi_cuda_near *near_) {
    staxi_free(u->a, near_->loads, near_->cap * sizeof(staxi_expr));
    staxi_free(u->a, near_->marks.at, near_->marks.cap * sizeof *near_->marks.at);
}

/* The array in registers that a load, or a store, is of; -1: none. */
static int staxi_cuda_held_by(const staxi_cuda_unit *u, staxi_expr load, uint32_t store) {
    for (size_t k = 0; k < u->n_holds && u->held_each; k++)
        if (u->holds[k].load == load && u->holds[k].store == store &&
            u->held[u->holds[k].held].is_kept)
            return u->holds[k].held;
    return -1;
}

static const char *const staxi_cuda_held_at = "c + j"; /* the number of a thread's element */

/* v<expression> = l<expression>[at], in the scope that is open; x<number>[...] if it is held. */
static void staxi_cuda_loaded(staxi_cuda_unit *u, const staxi_cuda_near *near_, const char *at) {
    staxi_emit *e = &u->e;
    for (size_t k = 0; k < near_->n && staxi_emit_room(e); k++) {
        staxi_expr x = near_->loads[k];
        int held = staxi_cuda_held_by(u, x, 0);
        staxi_line(e);
        staxi_putf(u->t, held < 0 ? "const %s v%U = l%U[%s];\n" : "const %s v%U = x%U[%s];\n",
                   staxi_value_type(e, u->p->exprs[x].dtype), (uint64_t)x,
                   held < 0 ? (uint64_t)x : (uint64_t)held, held < 0 ? at : staxi_cuda_held_at);
        e->emitted[x] = 1;
        if (!staxi_grow(u->a, (void **)&e->order, &e->cap_order, e->n_order + 1, sizeof x))
            staxi_emit_no_memory(e);
        else
            e->order[e->n_order++] = x;
    }
}

static void staxi_cuda_four_take(staxi_cuda_unit *u, const staxi_cuda_near *near_, uint64_t id) {
    for (size_t k = 0; k < near_->n; k++) {
        const staxi_expr_node n = u->p->exprs[near_->loads[k]];
        staxi_line(&u->e);
        staxi_putf(u->t, "__align__(16) %s l%U[4];\n", staxi_c_type(n.dtype),
                   (uint64_t)near_->loads[k]);
        staxi_line(&u->e);
        staxi_putf(u->t, "{ const int64_t i%U = base; sx_take(l%U, b%U + ", id,
                   (uint64_t)near_->loads[k], (uint64_t)n.ref);
        staxi_emit_ix(&u->e, staxi_flat_index(u->p, n.ref, n.ix));
        staxi_put(u->t, "); }\n");
    }
}

/* The values of one of the four; near stores go to s<buffer>[j]. */
static void staxi_cuda_four_body(staxi_cuda_unit *u, const staxi_cuda_near *near_, uint32_t list,
                                 staxi_ix var) {
    staxi_emit *e = &u->e;
    size_t scope = staxi_emit_scope_open(e);
    staxi_cuda_loaded(u, near_, "j");
    for (uint32_t k = list; k; k = u->trees->nodes[k].next) {
        const staxi_tree_node n = u->trees->nodes[k];
        if (!staxi_cuda_is_near(u, n.at, var)) {
            staxi_emit_store(e, &n);
            continue;
        }
        staxi_emit_value(e, n.expr[0]);
        staxi_line(e);
        staxi_putf(u->t, "s%U[j] = (%s)", (uint64_t)k, staxi_c_type(u->p->buffers[n.ref].dtype));
        staxi_emit_operand(e, n.expr[0]);
        staxi_put(u->t, ";\n");
    }
    staxi_emit_scope_close(e, scope);
}

static void staxi_cuda_four_give(staxi_cuda_unit *u, uint32_t list, staxi_ix var, uint64_t id,
                                 bool declare) {
    for (uint32_t k = list; k; k = u->trees->nodes[k].next) {
        const staxi_tree_node n = u->trees->nodes[k];
        if (!staxi_cuda_is_near(u, n.at, var)) continue;
        staxi_line(&u->e);
        if (declare) {
            staxi_putf(u->t, "__align__(16) %s s%U[4];\n", staxi_c_type(u->p->buffers[n.ref].dtype),
                       (uint64_t)k);
            continue;
        }
        staxi_putf(u->t, "{ const int64_t i%U = base; sx_give(b%U + ", id, (uint64_t)n.ref);
        staxi_emit_ix(&u->e, n.at);
        staxi_putf(u->t, ", s%U); }\n", (uint64_t)k);
    }
}

/* Elements base .. base + 3 of the innermost loop, as far as they are there. */
static void staxi_cuda_four(staxi_cuda_unit *u, uint32_t list, staxi_loop_axis inner) {
    staxi_emit *e = &u->e;
    uint64_t id = staxi_var_id(e, inner.var);
    staxi_cuda_near near_;
    memset(&near_, 0, sizeof near_);
    staxi_cuda_near_of(u, &near_, list, inner.var, true);
    staxi_line(e);
    staxi_put(u->t, "if (base + 4 <= ");
    staxi_emit_ix(e, inner.extent);
    staxi_put(u->t, ") {\n");
    e->indent++;
    staxi_cuda_four_give(u, list, inner.var, id, true);
    staxi_cuda_four_take(u, &near_, id);
    staxi_put(u->t, "#pragma unroll\n");
    staxi_line(e);
    staxi_put(u->t, "for (int j = 0; j < 4; j++) {\n");
    e->indent++;
    staxi_line(e);
    staxi_putf(u->t, "const int64_t i%U = base + j;\n", id);
    staxi_cuda_four_body(u, &near_, list, inner.var);
    staxi_cuda_close(u, 1);
    staxi_cuda_four_give(u, list, inner.var, id, false);
    e->indent--;
    staxi_line(e);
    staxi_putf(u->t, "} else for (int64_t i%U = base; i%U < ", id, id);
    staxi_emit_ix(e, inner.extent);
    staxi_putf(u->t, "; i%U++) {\n", id);
    e->indent++;
    staxi_cuda_scoped_list(u, list);
    staxi_cuda_close(u, 1);
    staxi_cuda_near_free(u, &near_);
}

static void staxi_cuda_map(staxi_cuda_unit *u, uint32_t list) {
    staxi_emit *e = &u->e;
    staxi_loop_axis inner = u->loops[u->n_loops - 1];
    staxi_cuda_launch *l = staxi_cuda_begin(u, STAXI_CUDA_MAP, list, "0", 256);
    if (!l) return;
    staxi_ix pieces = staxi_cuda_pieces(u, inner.extent, STAXI_CUDA_FOUR);
    u->loops[u->n_loops - 1].extent = pieces;
    l->count = staxi_cuda_loops_product(u);
    staxi_cuda_flat(u, l->count, staxi_cuda_thread, staxi_cuda_threads);
    u->n_loops--;
    staxi_put(u->t, "        const int64_t base = ");
    if (u->n_loops) {
        staxi_put(u->t, "sx_digit(&rest, ");
        staxi_emit_ix(e, pieces);
        staxi_put(u->t, ") * 4;\n");
    } else {
        staxi_put(u->t, "rest * 4;\n");
    }
    staxi_cuda_digits(u);
    staxi_cuda_four(u, list, inner);
    staxi_put(u->t, "    }\n");
    staxi_cuda_end(u);
}

/* ---- reductions in parts ---- */

static void staxi_cuda_barrier(staxi_cuda_unit *u) {
    staxi_line(&u->e);
    staxi_put(u->t, "__syncthreads();\n");
}

static int staxi_cuda_group(const staxi_tree_node *a) {
    return a->dtype == STAX_F64 ? STAXI_LANES_F64 : STAXI_LANES_F32;
}

/* Can the lanes of this reduction be spread out? One run, and nothing that carries an index or a
   chain. */
static bool staxi_cuda_spreads(const staxi_trees *t, const staxi_tree_node *acc) {
    if (acc->n_runs != 1) return false;
    for (uint32_t k = acc->child; k; k = t->nodes[k].next) {
        const staxi_tree_node *a = &t->nodes[k];
        if (a->kind == STAXI_TREE_STORE) continue;
        if (a->kind != STAXI_TREE_ACCUM || a->combine == STAXI_COMBINE_ARGMAX ||
            a->combine == STAXI_COMBINE_ARGMIN || a->order == STAXI_ORDER_CHAIN)
            return false;
    }
    return true;
}

/* The first accumulator from node k of a list on; 0: there is none. */
static uint32_t staxi_cuda_accum(const staxi_trees *t, uint32_t k) {
    while (k && t->nodes[k].kind != STAXI_TREE_ACCUM) k = t->nodes[k].next;
    return k;
}

static uint32_t staxi_cuda_accum_next(const staxi_trees *t, uint32_t k) {
    return staxi_cuda_accum(t, t->nodes[k].next);
}

static int staxi_cuda_accums(const staxi_trees *t, const staxi_tree_node *acc) {
    int n = 0;
    for (uint32_t k = staxi_cuda_accum(t, acc->child); k; k = staxi_cuda_accum_next(t, k)) n++;
    return n;
}

/* struct sx_fold_REF: how two partial results of this reduction become one. */
static void staxi_cuda_folds(staxi_cuda_unit *u, const staxi_tree_node *acc, uint64_t kernel) {
    const staxi_trees *t = u->trees;
    for (uint32_t k = staxi_cuda_accum(t, acc->child); k; k = staxi_cuda_accum_next(t, k)) {
        const staxi_tree_node a = t->nodes[k];
        staxi_putf(u->t,
                   "\nstruct sx_fold_%U_%U {\n    typedef %s T;\n    enum { LANES = %d };\n    "
                   "SX_INLINE T id() { return ",
                   kernel, (uint64_t)a.ref, staxi_acc_type(&u->e, a.dtype),
                   staxi_cuda_group(&a) / 32);
        staxi_emit_const(&u->e, a.dtype, staxi_identity_bits(a.combine, a.dtype));
        staxi_put(u->t, "; }\n    SX_INLINE T of(T x, T y) { return (T)(");
        staxi_emit_fold(&u->e, &a, "x", "y");
        staxi_put(u->t, "); }\n};\n");
    }
}

/* The accumulators of a thread's lanes: `count` of a 64-lane rule, half of it of a 32-lane one. */
static void staxi_cuda_lanes(staxi_cuda_unit *u, const staxi_tree_node *acc, int count) {
    const staxi_trees *t = u->trees;
    for (uint32_t k = staxi_cuda_accum(t, acc->child); k; k = staxi_cuda_accum_next(t, k)) {
        const staxi_tree_node *a = &t->nodes[k];
        staxi_line(&u->e);
        staxi_putf(u->t, "%s a%U[%d] = {", staxi_acc_type(&u->e, a->dtype), (uint64_t)a->ref,
                   count);
        for (int j = 0; j < count; j++) {
            if (j) staxi_put(u->t, ", ");
            staxi_emit_const(&u->e, a->dtype, staxi_identity_bits(a->combine, a->dtype));
        }
        staxi_put(u->t, "};\n");
    }
}

static void staxi_cuda_store(staxi_cuda_unit *u, uint32_t at) {
    const staxi_tree_node n = u->trees->nodes[at];
    int held = staxi_cuda_held_by(u, 0, at);
    if (held < 0) {
        staxi_emit_store(&u->e, &n);
        return;
    }
    staxi_emit_value(&u->e, n.expr[0]);
    staxi_line(&u->e);
    staxi_putf(u->t, "x%d[%s] = (%s)", held, staxi_cuda_held_at,
               staxi_c_type(u->p->buffers[n.ref].dtype));
    staxi_emit_operand(&u->e, n.expr[0]);
    staxi_put(u->t, ";\n");
}

/* Element `index` of the loop over var: stores, and values into the accumulators at `lane` (C
   expressions); loads of `near_` are in arrays already, at `at`. */
static void staxi_cuda_element(staxi_cuda_unit *u, uint32_t list, staxi_ix var,
                               const staxi_cuda_near *near_, const char *at, const char *index,
                               const char *lane) {
    staxi_emit *e = &u->e;
    staxi_line(e);
    staxi_putf(u->t, "const int64_t i%U = %s;\n", staxi_var_id(e, var), index);
    size_t scope = staxi_emit_scope_open(e);
    if (near_) staxi_cuda_loaded(u, near_, at);
    for (uint32_t k = list; k; k = u->trees->nodes[k].next) {
        const staxi_tree_node a = u->trees->nodes[k];
        if (a.kind == STAXI_TREE_STORE) {
            staxi_cuda_store(u, k);
            continue;
        }
        char into[48];
        staxi_format(into, sizeof into, "a%U[", (uint64_t)a.ref);
        size_t n = strlen(into), m = strlen(lane);
        memcpy(into + n, lane, m);
        memcpy(into + n + m, "]", 2);
        staxi_emit_combine(e, &a, into);
    }
    staxi_emit_scope_close(e, scope);
}

/* ---- quick chunks ----
   exp and quotients are bound by how many instructions are issued, and a part of those is for
   values that hardly occur. A chunk of elements is computed without that part, which notes such
   values, and if there are any, once more with it. */

enum { STAXI_CUDA_QUICK_CODE = 40 }; /* operations of an element: they are printed twice */

/* Does x have what is quicker so, and are all its loads those that a chunk has already? */
typedef struct staxi_cuda_quick {
    const staxi_cuda_near *near_;
    uint64_t var; /* bit of the loop */
    bool pays, again;
    staxi_marks marks;
} staxi_cuda_quick;

static void staxi_cuda_quick_expr(staxi_cuda_unit *u, staxi_cuda_quick *q, staxi_expr x) {
    if (!x || !q->again || !staxi_mark_first(u->p, &q->marks, x)) return;
    const staxi_expr_node n = u->p->exprs[x];
    if (n.kind == STAXI_EX_LOAD) {
        size_t k = 0;
        while (k < q->near_->n && q->near_->loads[k] != x) k++;
        q->again = k < q->near_->n;
    }
    if (n.kind == STAXI_EX_OP && n.dtype == STAX_F32)
        q->pays = q->pays || n.op == STAX_OP_EXP ||
                  (n.op == STAX_OP_DIV && staxi_expr_deps(&u->e, n.args[0]) & q->var &&
                   !(staxi_expr_deps(&u->e, n.args[1]) & q->var));
    for (int k = 0; k < n.n_args; k++) staxi_cuda_quick_expr(u, q, n.args[k]);
}

static int64_t staxi_cuda_code(staxi_cuda_unit *u, staxi_expr x, staxi_marks *marks);
static int64_t staxi_cuda_list_code(staxi_cuda_unit *u, uint32_t list);

static bool staxi_cuda_is_quick(staxi_cuda_unit *u, uint32_t list, staxi_ix var,
                                const staxi_cuda_near *near_) {
    int64_t code = 0;
    staxi_cuda_quick q;
    memset(&q, 0, sizeof q);
    q.near_ = near_;
    q.var = staxi_var_bit(&u->e, var);
    q.again = u->p->n_value_leaves == 0;
    q.marks.now = 1;
    for (; list && q.again; list = u->trees->nodes[list].next) {
        const staxi_tree_node n = u->trees->nodes[list];
        for (int x = 0; x < 2; x++) staxi_cuda_quick_expr(u, &q, n.expr[x]);
        const int held = n.kind == STAXI_TREE_STORE ? staxi_cuda_held_by(u, 0, list) : -1;
        for (size_t k = 0; k < near_->n && held >= 0; k++)
            q.again = q.again && staxi_cuda_held_by(u, near_->loads[k], 0) != held;
        q.marks.now++;
        for (int x = 0; x < 2; x++) code += staxi_cuda_code(u, n.expr[x], &q.marks);
        q.marks.now++;
    }
    staxi_free(u->a, q.marks.at, q.marks.cap * sizeof *q.marks.at);
    return q.pays && q.again && code <= STAXI_CUDA_QUICK_CODE;
}

/* The accumulators of a list are saved, or what was saved is taken again. */
static void staxi_cuda_quick_saved(staxi_cuda_unit *u, uint32_t list, int lanes, bool back) {
    const staxi_trees *t = u->trees;
    for (uint32_t k = staxi_cuda_accum(t, list); k; k = staxi_cuda_accum_next(t, k)) {
        const uint64_t ref = t->nodes[k].ref;
        if (!back) {
            staxi_line(&u->e);
            staxi_putf(u->t, "%s w%U[%d];\n", staxi_acc_type(&u->e, t->nodes[k].dtype), ref, lanes);
        }
        staxi_line(&u->e);
        staxi_putf(u->t,
                   back ? "for (int u = 0; u < %d; u++) a%U[u] = w%U[u];\n"
                        : "for (int u = 0; u < %d; u++) w%U[u] = a%U[u];\n",
                   lanes, ref, ref);
    }
}

/* n elements whose loads are there: `index` and `lane` are theirs, by j, `when` their condition. */
static void staxi_cuda_chunk_body(staxi_cuda_unit *u, uint32_t list, staxi_ix var,
                                  const staxi_cuda_near *near_, int n, const char *when,
                                  const char *index, const char *lane) {
    staxi_putf(u->t, "#pragma unroll\n");
    staxi_line(&u->e);
    staxi_putf(u->t, "for (int j = 0; j < %d; j++)%s {\n", n, when);
    u->e.indent++;
    staxi_cuda_element(u, list, var, near_, "j", index, lane);
    staxi_cuda_close(u, 1);
}

static void staxi_cuda_chunk(staxi_cuda_unit *u, uint32_t list, staxi_ix var,
                             const staxi_cuda_near *near_, int n, const char *when,
                             const char *index, const char *lane, int lanes) {
    staxi_emit *e = &u->e;
    if (!staxi_cuda_is_quick(u, list, var, near_)) {
        staxi_cuda_chunk_body(u, list, var, near_, n, when, index, lane);
        return;
    }
    staxi_line(e);
    staxi_put(u->t, "do {\n");
    e->indent++;
    staxi_line(e);
    staxi_put(u->t, "if (!rare) {\n");
    e->indent++;
    staxi_cuda_quick_saved(u, list, lanes, false);
    staxi_put(u->t,
              "#define sxs_exp_f32(x) sx_quick_exp((x), rare)\n"
              "#define sxs_canon_f32(x) sx_quick_canon((x), rare)\n"
              "#define sx_quick_div(x, y) sx_quick_div((x), (y), rare)\n");
    e->quick = true;
    staxi_cuda_chunk_body(u, list, var, near_, n, when, index, lane);
    e->quick = false;
    staxi_put(u->t, "#undef sxs_exp_f32\n#undef sxs_canon_f32\n#undef sx_quick_div\n");
    staxi_line(e);
    staxi_put(u->t, "rare = __any_sync(__activemask(), rare);\n");
    staxi_line(e);
    staxi_put(u->t, "if (!rare) break;\n");
    staxi_cuda_quick_saved(u, list, lanes, true);
    staxi_cuda_close(u, 1);
    staxi_cuda_chunk_body(u, list, var, near_, n, when, index, lane);
    e->indent--;
    staxi_line(e);
    staxi_put(u->t, "} while (0);\n");
}

/* The loads of many elements, all before the first is used: memory answers them together. */
static void staxi_cuda_batch_loads(staxi_cuda_unit *u, staxi_ix var, const staxi_cuda_near *near_,
                                   int batch, const char *index, const char *condition) {
    staxi_emit *e = &u->e;
    size_t n_held = 0;
    for (size_t k = 0; k < near_->n; k++) n_held += staxi_cuda_held_by(u, near_->loads[k], 0) >= 0;
    if (near_->n == n_held) return;
    for (size_t k = 0; k < near_->n; k++) {
        if (staxi_cuda_held_by(u, near_->loads[k], 0) >= 0) continue;
        staxi_line(e);
        staxi_putf(u->t, "%s l%U[%d];\n", staxi_c_type(u->p->exprs[near_->loads[k]].dtype),
                   (uint64_t)near_->loads[k], batch);
    }
    staxi_putf(u->t, "#pragma unroll\n");
    staxi_line(e);
    staxi_putf(u->t, "for (int j = 0; j < %d; j++)%s {\n", batch, condition);
    e->indent++;
    staxi_line(e);
    staxi_putf(u->t, "const int64_t i%U = %s;\n", staxi_var_id(e, var), index);
    for (size_t k = 0; k < near_->n; k++) {
        if (staxi_cuda_held_by(u, near_->loads[k], 0) >= 0) continue;
        const staxi_expr_node n = u->p->exprs[near_->loads[k]];
        staxi_line(e);
        staxi_putf(u->t, "l%U[j] = b%U[", (uint64_t)near_->loads[k], (uint64_t)n.ref);
        staxi_emit_ix(e, staxi_flat_index(u->p, n.ref, n.ix));
        staxi_put(u->t, "];\n");
    }
    staxi_cuda_close(u, 1);
}

/* One pass of a thread's `lanes` lanes, `apart` elements from each other, over [k, end): k and end
   are there. A lane's elements are `stride` apart; at most `most` elements are loaded together. */
static void staxi_cuda_pass(staxi_cuda_unit *u, const staxi_tree_node *acc, int lanes, int apart,
                            int stride, int most) {
    staxi_emit *e = &u->e;
    staxi_cuda_near near_;
    staxi_text index;
    memset(&near_, 0, sizeof near_);
    staxi_cuda_near_of(u, &near_, acc->child, acc->runs[0].var, false);
    int steps = most / lanes;
    while (steps > 1 && steps * lanes * (int)near_.n > 2 * most) steps /= 2;
    staxi_text_init(&index, u->a);
    staxi_putf(&index, "k + j / %d * %d + j %% %d * %d", lanes, stride, lanes, apart);
    staxi_line(e);
    staxi_putf(u->t, "for (; k + %d < end; k += %d) {\n",
               (steps - 1) * stride + apart * (lanes - 1), steps * stride);
    e->indent++;
    staxi_cuda_batch_loads(u, acc->runs[0].var, &near_, steps * lanes, index.data ? index.data : "",
                           "");
    char lane[24];
    memcpy(lane, "j % ", 4);
    staxi_format(lane + 4, sizeof lane - 4, "%U", (uint64_t)lanes);
    staxi_cuda_chunk(u, acc->child, acc->runs[0].var, &near_, steps * lanes, "",
                     index.data ? index.data : "", lane, lanes);
    staxi_cuda_close(u, 1);
    staxi_line(e);
    staxi_putf(u->t, "for (; k < end; k += %d) {\n#pragma unroll\n", stride);
    e->indent++;
    staxi_line(e);
    staxi_putf(u->t, "for (int u = 0; u < %d; u++) if (k + u * %d < end) {\n", lanes, apart);
    e->indent++;
    index.n = 0;
    staxi_putf(&index, "k + u * %d", apart);
    staxi_cuda_element(u, acc->child, acc->runs[0].var, NULL, "", index.data ? index.data : "",
                       "u");
    staxi_cuda_close(u, 2);
    if (index.failed) staxi_emit_no_memory(e);
    staxi_text_free(&index);
    staxi_cuda_near_free(u, &near_);
}

/* The lanes of a rule with 32 lanes stay one a thread; a list with both kinds is not spread. */
static int staxi_cuda_list_group(const staxi_trees *t, const staxi_tree_node *acc) {
    int group = 0;
    for (uint32_t k = staxi_cuda_accum(t, acc->child); k; k = staxi_cuda_accum_next(t, k)) {
        int g = staxi_cuda_group(&t->nodes[k]);
        if (group && g != group) return 0;
        group = g;
    }
    return group;
}

/* A line for each accumulator: @ is its number, $ its type. F: its fold; a: a thread's lanes, s:
   their sum; p: parts in memory, g and h: in shared memory; q: the result so far, the value of an
   empty reduction to begin with; r: what others read. */
static void staxi_cuda_result(staxi_cuda_unit *u, const staxi_tree_node *acc, const char *format) {
    const staxi_trees *t = u->trees;
    for (uint32_t k = staxi_cuda_accum(t, acc->child); k; k = staxi_cuda_accum_next(t, k)) {
        const staxi_tree_node *a = &t->nodes[k];
        staxi_line(&u->e);
        for (const char *c = format; *c; c++) {
            if (*c == '@')
                staxi_putf(u->t, "%U", (uint64_t)a->ref);
            else if (*c == '$')
                staxi_put(u->t, staxi_acc_type(&u->e, a->dtype));
            else
                staxi_putc(u->t, *c);
        }
        staxi_put(u->t, "\n");
    }
}

/* The same with a number in the format, as %U. */
static void staxi_cuda_result_of(staxi_cuda_unit *u, const staxi_tree_node *acc, const char *format,
                                 int64_t n) {
    char line[80];
    staxi_format(line, sizeof line, format, (uint64_t)n);
    staxi_cuda_result(u, acc, line);
}

static void staxi_cuda_empty(staxi_cuda_unit *u, const staxi_tree_node *acc) {
    const staxi_trees *t = u->trees;
    for (uint32_t k = staxi_cuda_accum(t, acc->child); k; k = staxi_cuda_accum_next(t, k)) {
        const staxi_tree_node *a = &t->nodes[k];
        staxi_line(&u->e);
        staxi_putf(u->t, "%s q%U = ", staxi_value_type(&u->e, a->dtype), (uint64_t)a->ref);
        staxi_emit_const(&u->e, a->dtype, staxi_empty_bits(a));
        staxi_put(u->t, ";\n");
    }
}

/* Where the parts of each accumulator lie: 8 bytes each, `count` of them; and the folds' names. */
static void staxi_cuda_part_list(staxi_cuda_unit *u, const staxi_tree_node *acc, staxi_ix count) {
    const staxi_trees *t = u->trees;
    int j = 0;
    for (uint32_t k = staxi_cuda_accum(t, acc->child); k; k = staxi_cuda_accum_next(t, k)) {
        const char *type = staxi_acc_type(&u->e, t->nodes[k].dtype);
        staxi_line(&u->e);
        staxi_putf(u->t, "%s *const p%U = (%s *)(sx->parts + %d * 8 * (", type,
                   (uint64_t)t->nodes[k].ref, type, j++);
        staxi_emit_ix(&u->e, count);
        staxi_put(u->t, "));\n");
    }
}

/* A reduction in blocks of 4096: one kernel sums them, and if there may be several (not `whole`) a
   second one sums what the first left. */
typedef struct staxi_cuda_cut {
    const staxi_tree_node *acc;
    uint64_t number;                 /* of its folds */
    bool whole;                      /* one block, or of rows: a warp has all of them */
    staxi_ix results, blocks, parts; /* numbers of results, blocks of each, all blocks */
} staxi_cuda_cut;

static staxi_cuda_cut staxi_cuda_cut_of(staxi_cuda_unit *u, const staxi_tree_node *acc) {
    staxi_cuda_cut cut;
    cut.acc = acc;
    cut.number = u->n_launches;
    cut.whole = staxi_high(&u->e, acc->runs[0].extent) <= STAXI_BLOCK;
    cut.results = staxi_cuda_loops_product(u);
    cut.blocks = staxi_cuda_pieces(u, acc->runs[0].extent, STAXI_BLOCK);
    cut.parts = staxi_ix_mul(&u->p->ix, cut.results, cut.blocks);
    staxi_cuda_folds(u, acc, cut.number);
    return cut;
}

/* Begins the first kernel, which runs `list`, or the second one (list 0). */
static staxi_cuda_launch *staxi_cuda_begin_cut(staxi_cuda_unit *u, const staxi_cuda_cut *cut,
                                               staxi_cuda_kind kind, uint32_t list, int threads) {
    staxi_cuda_launch *l = staxi_cuda_begin(u, kind, list ? list : cut->acc->after, "0", threads);
    if (!l) return NULL;
    staxi_ix room = staxi_ix_const(&u->p->ix, 8 * staxi_cuda_accums(u->trees, cut->acc));
    l->count = cut->results;
    l->length = list ? cut->acc->runs[0].extent : cut->blocks;
    if (list) l->parts = staxi_ix_mul(&u->p->ix, cut->parts, room);
    staxi_cuda_result_of(u, cut->acc, "typedef sx_fold_%U_@ F@;", (int64_t)cut->number);
    if (!list || !cut->whole) staxi_cuda_part_list(u, cut->acc, cut->parts);
    return l;
}

/* Ends either: a part is stored, or the result goes to what follows. */
static void staxi_cuda_end_cut(staxi_cuda_unit *u, const staxi_cuda_cut *cut, const char *part,
                               const char *result, size_t scope) {
    if (part && !cut->whole) {
        staxi_cuda_result(u, cut->acc, part);
    } else {
        staxi_cuda_empty(u, cut->acc);
        staxi_cuda_result(u, cut->acc, result);
        staxi_cuda_result(u, cut->acc, "const $ r@ = q@;");
        staxi_cuda_scoped_list(u, cut->acc->after);
    }
    staxi_emit_scope_close(&u->e, scope);
    staxi_put(u->t, "    }\n");
    staxi_cuda_end(u);
}

/* const int64_t <name> = <ix>; */
static void staxi_cuda_size(staxi_cuda_unit *u, const char *name, staxi_ix ix) {
    staxi_line(&u->e);
    staxi_putf(u->t, "const int64_t %s = ", name);
    staxi_emit_ix(&u->e, ix);
    staxi_put(u->t, ";\n");
}

/* [block * 4096, the next or the end of the run) */
static void staxi_cuda_block_bounds(staxi_cuda_unit *u, const staxi_tree_node *acc) {
    staxi_cuda_size(u, "length", acc->runs[0].extent);
    staxi_line(&u->e);
    staxi_put(u->t, "const int64_t end = sx_imin(length, block * 4096 + 4096);\n");
}

/* A thread block a row: the parts of its blocks, by the same rule. */
static void staxi_cuda_finish_rows(staxi_cuda_unit *u, const staxi_cuda_cut *cut) {
    int64_t most = staxi_high(&u->e, cut->blocks); /* parts of parts */
    most = most > 4096 * 4096 ? 4096 : (most + 4095) / 4096;
    if (!staxi_cuda_begin_cut(u, cut, STAXI_CUDA_FINISH_ROWS, 0, 256)) return;
    staxi_cuda_result_of(u, cut->acc, "__shared__ $ h@[%U];", most > 0 ? most : 1);
    staxi_cuda_flat(u, cut->results, "blockIdx.x", "gridDim.x");
    staxi_cuda_size(u, "blocks", cut->blocks);
    staxi_cuda_digits(u);
    size_t scope = staxi_emit_scope_open(&u->e);
    staxi_cuda_result(u, cut->acc, "const $ s@ = sx_rule<F@>(p@ + flat * blocks, blocks, h@);");
    staxi_put(u->t, "        if (threadIdx.x) continue;\n");
    staxi_cuda_end_cut(u, cut, NULL, "if (blocks > 0) q@ = s@;", scope);
}

enum {
    STAXI_CUDA_ROW_WARPS = 8,      /* of a thread block                                        */
    STAXI_CUDA_ROW_BLOCKS = 32,    /* of a row that one warp has: a lane keeps the sum of each */
    STAXI_CUDA_ENOUGH_ROWS = 2048, /* so many give all multiprocessors work                   */
    STAXI_CUDA_SHORT = 6, /* cycles of an element that are few                                */
    STAXI_CUDA_DEAR = 24  /* and that are many                                                */
};

/* What a warp of ROWS sums. */
typedef enum staxi_cuda_share {
    STAXI_CUDA_BLOCK,   /* a block, of which another kernel sums the results         */
    STAXI_CUDA_ROW,     /* a row of one block                                        */
    STAXI_CUDA_LONG,    /* a row of several                                          */
    STAXI_CUDA_TOGETHER /* a block of a row that all warps of the thread block share */
} staxi_cuda_share;

static staxi_cuda_share staxi_cuda_rows_share(staxi_cuda_unit *u, const staxi_cuda_cut *cut) {
    const int64_t blocks = staxi_high(&u->e, cut->blocks);
    if (cut->whole) return STAXI_CUDA_ROW;
    if (blocks <= STAXI_CUDA_ROW_BLOCKS &&
        staxi_cuda_choose(u, 2,
                          staxi_extent_guess(u->p, cut->results) >= (double)STAXI_CUDA_ENOUGH_ROWS))
        return STAXI_CUDA_LONG;
    return blocks <= STAXI_CUDA_ROW_WARPS ? STAXI_CUDA_TOGETHER : STAXI_CUDA_BLOCK;
}

typedef int64_t (*staxi_cuda_measure)(staxi_cuda_unit *u, staxi_expr x, staxi_marks *marks);

/* Of all expressions of a list; each shared value counts once. */
static int64_t staxi_cuda_list_sum(staxi_cuda_unit *u, uint32_t list, staxi_cuda_measure of) {
    int64_t sum = 0;
    staxi_marks marks;
    memset(&marks, 0, sizeof marks);
    marks.now = 1;
    for (; list; list = u->trees->nodes[list].next)
        for (int x = 0; x < 2; x++) sum += of(u, u->trees->nodes[list].expr[x], &marks);
    staxi_free(u->a, marks.at, marks.cap * sizeof *marks.at);
    return sum;
}

static int64_t staxi_cuda_cycles(staxi_cuda_unit *u, staxi_expr x, staxi_marks *marks) {
    if (!x || !staxi_mark_first(u->p, marks, x)) return 0;
    const staxi_expr_node n = u->p->exprs[x];
    int64_t cycles = n.kind == STAXI_EX_OP ? staxi_op_cycles((stax_op)n.op) : 0;
    for (int k = 0; k < n.n_args; k++) cycles += staxi_cuda_cycles(u, n.args[k], marks);
    return cycles;
}

static int64_t staxi_cuda_loads(staxi_cuda_unit *u, staxi_expr x, staxi_marks *marks) {
    if (!x || !staxi_mark_first(u->p, marks, x)) return 0;
    const staxi_expr_node n = u->p->exprs[x];
    int64_t loads = n.kind == STAXI_EX_LOAD;
    for (int k = 0; k < n.n_args; k++) loads += staxi_cuda_loads(u, n.args[k], marks);
    return loads;
}

/* Where so little is done with an element that it is the loads under way that count: how many it
   needs; else 0. */
static int staxi_cuda_short_loads(staxi_cuda_unit *u, const staxi_tree_node *acc) {
    for (uint32_t k = acc->child; k; k = u->trees->nodes[k].next)
        if (staxi_dtype_bytes((stax_dtype)u->trees->nodes[k].dtype) > 4) return 0;
    return staxi_cuda_list_sum(u, acc->child, staxi_cuda_cycles) <= STAXI_CUDA_SHORT
               ? (int)staxi_cuda_list_sum(u, acc->child, staxi_cuda_loads)
               : 0;
}

/* The sum of a warp's share, or of its row: s. */
static void staxi_cuda_rows_sum(staxi_cuda_unit *u, const staxi_tree_node *acc,
                                staxi_cuda_share share) {
    const int group = staxi_cuda_list_group(u->trees, acc), lanes = group / 32;
    if (share == STAXI_CUDA_LONG) {
        staxi_cuda_result(u, acc, "$ t@[2] = {F@::id(), F@::id()};");
        staxi_put(u->t, "        for (int64_t block = 0; block * 4096 < length; block++) {\n");
        u->e.indent++;
    }
    staxi_line(&u->e);
    staxi_put(u->t, "const int64_t end = sx_imin(length, block * 4096 + 4096);\n");
    staxi_cuda_lanes(u, acc, lanes);
    staxi_line(&u->e);
    staxi_put(u->t, "int64_t k = block * 4096 + lane;\n");
    staxi_cuda_pass(u, acc, lanes, 32, group,
                    share == STAXI_CUDA_TOGETHER && staxi_cuda_short_loads(u, acc)
                        ? 4 * STAXI_CUDA_CHUNK
                        : STAXI_CUDA_CHUNK);
    if (share == STAXI_CUDA_LONG) {
        staxi_cuda_result(u, acc, "const $ o@ = sx_tree<F@>(a@);");
        staxi_cuda_result(u, acc, "if (lane == block) t@[0] = o@;");
        staxi_cuda_close(u, 1);
        staxi_cuda_result(u, acc, "const $ s@ = sx_tree<F@>(t@);");
    } else if (share == STAXI_CUDA_TOGETHER) {
        staxi_cuda_result(u, acc, "const $ o@ = sx_tree<F@>(a@);");
        staxi_cuda_barrier(u); /* nobody reads those of the row before any more */
        staxi_cuda_result(u, acc, "if (lane == 0) h@[block] = o@;");
        staxi_cuda_barrier(u);
        staxi_cuda_result(u, acc, "const $ s@ = sx_block<F@>(h@, (length + 4095) / 4096);");
    } else {
        staxi_cuda_result(u, acc, "const $ s@ = sx_tree<F@>(a@);");
    }
}

static void staxi_cuda_rows(staxi_cuda_unit *u, uint32_t list) {
    const staxi_tree_node *acc = &u->trees->nodes[list];
    staxi_cuda_cut cut = staxi_cuda_cut_of(u, acc);
    const staxi_cuda_share share = staxi_cuda_rows_share(u, &cut);
    const staxi_ix warps = staxi_ix_const(&u->p->ix, STAXI_CUDA_ROW_WARPS);
    cut.whole = share != STAXI_CUDA_BLOCK;
    const int loads = staxi_cuda_short_loads(u, acc);
    if (loads) u->at_once = share == STAXI_CUDA_TOGETHER ? 1 : loads > 1 ? 3 : 4;
    staxi_cuda_launch *l =
        staxi_cuda_begin_cut(u, &cut, STAXI_CUDA_ROWS, list, STAXI_CUDA_ROW_WARPS * 32);
    if (!l) return;
    if (share == STAXI_CUDA_BLOCK) l->count = cut.parts;
    if (share == STAXI_CUDA_TOGETHER) {
        l->count = staxi_ix_mul(&u->p->ix, cut.results, warps);
        staxi_cuda_result_of(u, acc, "__shared__ $ h@[%U];", STAXI_CUDA_ROW_WARPS);
    }
    staxi_put(u->t, "    const int lane = (int)(threadIdx.x & 31);\n");
    staxi_cuda_flat(u, l->count, "((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32",
                    "(int64_t)gridDim.x * blockDim.x / 32");
    if (share == STAXI_CUDA_ROW) {
        staxi_put(u->t, "        const int64_t block = 0;\n");
    } else if (share != STAXI_CUDA_LONG) {
        staxi_put(u->t, "        const int64_t block = sx_digit(&rest, ");
        staxi_emit_ix(&u->e, share == STAXI_CUDA_BLOCK ? cut.blocks : warps);
        staxi_put(u->t, ");\n");
    }
    staxi_cuda_digits(u);
    staxi_cuda_size(u, "length", acc->runs[0].extent);
    size_t scope = staxi_emit_scope_open(&u->e);
    staxi_cuda_rows_sum(u, acc, share);
    staxi_put(u->t, share == STAXI_CUDA_TOGETHER ? "        if (threadIdx.x) continue;\n"
                                                 : "        if (lane) continue;\n");
    staxi_cuda_end_cut(u, &cut, "p@[flat] = s@;", "if (length > 0) q@ = s@;", scope);
    if (!cut.whole && !u->e.failed) staxi_cuda_finish_rows(u, &cut);
}

/* A thread a column: the parts of its blocks. */
static void staxi_cuda_finish_columns(staxi_cuda_unit *u, const staxi_cuda_cut *cut) {
    if (!staxi_cuda_begin_cut(u, cut, STAXI_CUDA_FINISH_COLUMNS, 0, 128)) return;
    staxi_cuda_flat(u, cut->results, staxi_cuda_thread, staxi_cuda_threads);
    staxi_cuda_size(u, "blocks", cut->blocks);
    staxi_cuda_size(u, "width", u->loops[u->n_loops - 1].extent);
    staxi_put(u->t,
              "        const int64_t first = flat / width * blocks * width + flat % width;\n");
    staxi_cuda_digits(u);
    staxi_cuda_end_cut(u, cut, NULL,
                       "if (blocks > 0) q@ = sx_alone<F@>(p@ + first, width, blocks);",
                       staxi_emit_scope_open(&u->e));
}

/* The tree over the lanes of a column: those of a thread, then over the 16 threads of the column.
 */
static void staxi_cuda_column_tree(staxi_cuda_unit *u, const staxi_tree_node *acc, int lanes) {
    staxi_cuda_result_of(u, acc, "h@[row][column] = sx_own<F@, %U>(a@);", lanes);
    staxi_put(u->t, "        __syncthreads();\n        for (int w = 8; w > 0; w /= 2) {\n");
    staxi_cuda_result(u, acc,
                      "    if (row < w) h@[row][column] = F@::of(h@[row][column], h@[row + "
                      "w][column]);");
    staxi_put(u->t, "            __syncthreads();\n        }\n");
}

/* Which tile of columns, block of rows and outer iteration a thread block has. */
static void staxi_cuda_column_digits(staxi_cuda_unit *u, const staxi_cuda_cut *cut,
                                     staxi_ix tiles) {
    staxi_emit *e = &u->e;
    staxi_loop_axis column = u->loops[u->n_loops - 1];
    staxi_putf(u->t, "        const int64_t i%U = sx_digit(&rest, ", staxi_var_id(e, column.var));
    staxi_emit_ix(e, tiles);
    staxi_put(u->t, ") * 32 + column;\n");
    staxi_cuda_size(u, "width", column.extent);
    if (cut->whole) {
        staxi_put(u->t, "        const int64_t block = 0;\n");
    } else {
        staxi_cuda_size(u, "blocks", cut->blocks);
        staxi_putf(
            u->t,
            "        const int64_t block = sx_digit(&rest, blocks), first = (rest * blocks + "
            "block) * width + i%U;\n",
            staxi_var_id(e, column.var));
    }
    u->n_loops--;
    staxi_cuda_digits(u);
    u->n_loops++;
}

/* 512 threads a block of 32 columns by 4096 rows. */
static void staxi_cuda_columns(staxi_cuda_unit *u, uint32_t list) {
    staxi_emit *e = &u->e;
    const staxi_tree_node *acc = &u->trees->nodes[list];
    int group = staxi_cuda_list_group(u->trees, acc), lanes = group / 16;
    staxi_loop_axis column = u->loops[u->n_loops - 1];
    const staxi_cuda_cut cut = staxi_cuda_cut_of(u, acc);
    staxi_ix tiles = staxi_cuda_pieces(u, column.extent, STAXI_CUDA_TILE), count = tiles;
    for (int d = 0; d + 1 < u->n_loops; d++)
        count = staxi_ix_mul(&u->p->ix, count, u->loops[d].extent);
    staxi_cuda_launch *l = staxi_cuda_begin_cut(u, &cut, STAXI_CUDA_COLUMNS, list, 512);
    if (!l) return;
    l->count = cut.whole ? count : staxi_ix_mul(&u->p->ix, count, cut.blocks);
    staxi_put(u->t,
              "    const int column = (int)(threadIdx.x % 32), row = (int)(threadIdx.x / 32);\n");
    staxi_cuda_result(u, acc, "__shared__ $ h@[16][32];");
    staxi_cuda_flat(u, l->count, "blockIdx.x", "gridDim.x");
    staxi_cuda_column_digits(u, &cut, tiles);
    staxi_cuda_block_bounds(u, acc);
    size_t scope = staxi_emit_scope_open(e);
    staxi_cuda_lanes(u, acc, lanes);
    staxi_putf(u->t, "        if (i%U < width) {\n            int64_t k = block * 4096 + row;\n",
               staxi_var_id(e, column.var));
    e->indent = 3;
    staxi_cuda_pass(u, acc, lanes, 16, group, STAXI_CUDA_CHUNK);
    staxi_put(u->t, "        }\n        __syncthreads();\n");
    e->indent = 2;
    staxi_cuda_column_tree(u, acc, lanes);
    staxi_putf(u->t, "        if (row || i%U >= width) continue;\n", staxi_var_id(e, column.var));
    staxi_cuda_end_cut(u, &cut, "p@[first] = h@[0][column];", "if (length > 0) q@ = h@[0][column];",
                       scope);
    if (!cut.whole && !e->failed) staxi_cuda_finish_columns(u, &cut);
}

/* ---- argmax and argmin ---- */

static bool staxi_cuda_is_arg(const staxi_tree_node *a) {
    return a->kind == STAXI_TREE_ACCUM &&
           (a->combine == STAXI_COMBINE_ARGMAX || a->combine == STAXI_COMBINE_ARGMIN) && !a->next;
}

enum {
    STAXI_CUDA_ARG_THREADS = 256,
    STAXI_CUDA_ARG_BATCH = 16, /* elements of a thread whose loads are issued together */
    STAXI_CUDA_ARG_LONG = 2048 /* a row that one warp has alone only where there are many */
};

/* The elements of a run that a thread has, one behind the other: x, its best, at place `at` (-1: it
   has none). Its first element is the best of nothing, so that only what beats it counts. */
static void staxi_cuda_arg_elements(staxi_cuda_unit *u, const staxi_tree_node *acc,
                                    const char *threads) {
    staxi_emit *e = &u->e;
    const staxi_tree_node a = u->trees->nodes[acc->child];
    const int dtype = u->p->exprs[a.expr[0]].dtype, batch = STAXI_CUDA_ARG_BATCH;
    const staxi_ix var = acc->runs[0].var;
    staxi_cuda_near near_;
    memset(&near_, 0, sizeof near_);
    staxi_cuda_near_of(u, &near_, acc->child, var, false);
    staxi_cuda_size(u, "length", acc->runs[0].extent);
    staxi_line(e);
    staxi_putf(u->t, "%s k = (int)threadIdx.x, at = k < length ? k : -1;\n",
               staxi_high(e, acc->runs[0].extent) <= INT32_MAX - batch * 1024 ? "int" : "int64_t");
    staxi_line(e);
    staxi_putf(u->t, "%s x = ", staxi_value_type(e, dtype));
    staxi_emit_const(
        e, dtype,
        staxi_identity_bits(
            a.combine == STAXI_COMBINE_ARGMAX ? STAXI_COMBINE_MAX : STAXI_COMBINE_MIN, dtype));
    staxi_put(u->t, ";\n");
    for (int many = 1; many >= 0; many--) {
        staxi_text text;
        staxi_line(e);
        staxi_putf(u->t, "for (; k + %d * %s < length; k += %d * %s) {\n", many ? batch - 1 : 0,
                   threads, many ? batch : 1, threads);
        e->indent++;
        staxi_text_init(&text, u->a);
        staxi_putf(&text, many ? "k + j * %s" : "k", threads);
        if (text.failed) staxi_emit_no_memory(e);
        const char *index = text.data ? text.data : "";
        if (many) {
            staxi_cuda_batch_loads(u, var, &near_, batch, index, "");
            staxi_cuda_unrolled(u, "j", batch);
        }
        staxi_line(e);
        staxi_putf(u->t, "const int64_t i%U = %s;\n", staxi_var_id(e, var), index);
        size_t scope = staxi_emit_scope_open(e);
        if (many) staxi_cuda_loaded(u, &near_, "j");
        staxi_emit_value(e, a.expr[0]);
        staxi_line(e);
        staxi_put(u->t, "if (B::beats(");
        staxi_emit_operand(e, a.expr[0]);
        staxi_put(u->t, ", x)) {\n");
        staxi_line(e);
        staxi_put(u->t, "    x = ");
        staxi_emit_operand(e, a.expr[0]);
        staxi_putf(u->t, ";\n");
        staxi_line(e);
        staxi_putf(u->t, "    at = %s;\n", index);
        staxi_line(e);
        staxi_put(u->t, "}\n");
        staxi_emit_scope_close(e, scope);
        staxi_cuda_close(u, many ? 2 : 1);
        staxi_text_free(&text);
    }
    staxi_cuda_near_free(u, &near_);
}

/* Each thread keeps the best of its elements; of equal ones the first counts, NaN beats all. A warp
   has a row, or 256 threads a long one of few. */
static void staxi_cuda_arg(staxi_cuda_unit *u, uint32_t list) {
    staxi_emit *e = &u->e;
    const staxi_tree_node *acc = &u->trees->nodes[list];
    const staxi_tree_node a = u->trees->nodes[acc->child];
    const char *type = staxi_value_type(e, u->p->exprs[a.expr[0]].dtype);
    const staxi_ix rows = staxi_cuda_loops_product(u);
    bool alone = staxi_high(e, acc->runs[0].extent) <= STAXI_CUDA_ARG_LONG ||
                 staxi_extent_guess(u->p, rows) >= (double)STAXI_CUDA_ENOUGH_ROWS;
    alone = staxi_cuda_choose(u, 2, alone) != 0;
    const int threads = alone ? 32 : STAXI_CUDA_ARG_THREADS;
    staxi_cuda_launch *l = staxi_cuda_begin(u, STAXI_CUDA_ARG, list, "blockIdx.x", threads);
    if (!l) return;
    l->count = rows;
    l->threads = threads;
    staxi_putf(
        u->t,
        "    typedef sx_best<%s, %d> B;\n    __shared__ %s bests[8];\n    __shared__ int64_t "
        "places[8];\n",
        type, a.combine == STAXI_COMBINE_ARGMAX ? 1 : 0, type);
    staxi_cuda_flat(u, l->count, "blockIdx.x", "gridDim.x");
    staxi_cuda_digits(u);
    size_t scope = staxi_emit_scope_open(e);
    staxi_cuda_arg_elements(u, acc, alone ? "32" : "256");
    staxi_putf(u->t,
               "        B b = {x, at};\n        b.join(bests, places);\n        if (threadIdx.x) "
               "continue;\n        const %s r%U = b.at < 0 ? 0 : b.at;\n",
               staxi_acc_type(e, a.dtype), (uint64_t)a.ref);
    staxi_cuda_scoped_list(u, acc->after);
    staxi_emit_scope_close(e, scope);
    staxi_put(u->t, "    }\n");
    staxi_cuda_end(u);
}

static bool staxi_cuda_only_stores(const staxi_trees *t, uint32_t list) {
    for (; list; list = t->nodes[list].next)
        if (t->nodes[list].kind != STAXI_TREE_STORE) return false;
    return true;
}

/* ---- monoids ----
   A thread block has a row, a lane of the rule each thread: tuples are joined in shared memory, and
   those of blocks of 4096 go into a stream. Where results lie side by side and are many, a thread
   has one instead, as on the CPU. */

static bool staxi_cuda_is_tuple(const staxi_trees *t, uint32_t list) {
    const staxi_tree_node *n = &t->nodes[list];
    return n->kind == STAXI_TREE_ACC && staxi_is_monoid(&t->nodes[n->child]);
}

static bool staxi_cuda_has_tuples(const staxi_trees *t, uint32_t list) {
    for (; list; list = t->nodes[list].next)
        if (staxi_cuda_is_tuple(t, list) || (t->nodes[list].kind == STAXI_TREE_LOOP &&
                                             staxi_cuda_has_tuples(t, t->nodes[list].child)))
            return true;
    return false;
}

enum {
    STAXI_CUDA_TUPLES_FEW = 32,    /* elements of a row that a thread has alone  */
    STAXI_CUDA_TUPLES_ROWS = 2048, /* enough for all multiprocessors             */
    STAXI_CUDA_TUPLES_MANY = 8192  /* results that are enough for a thread each  */
};

/* Do neighbouring iterations of `var` read what does not lie side by side? */
static bool staxi_cuda_reads_apart(staxi_cuda_unit *u, staxi_expr x, staxi_ix var) {
    if (!x || !staxi_mark_first(u->p, &u->e.hoisted, x)) return false;
    const staxi_expr_node n = u->p->exprs[x];
    if (n.kind == STAXI_EX_LOAD && (uint64_t)staxi_expr_stride(u->p, x, var) > 1) return true;
    for (int k = 0; k < n.n_args; k++)
        if (staxi_cuda_reads_apart(u, n.args[k], var)) return true;
    return false;
}

/* Should a thread block have a row? */
static bool staxi_cuda_shares_tuple(staxi_cuda_unit *u, uint32_t list) {
    const staxi_tree_node *acc = &u->trees->nodes[list];
    const staxi_tree_node *a = &u->trees->nodes[acc->child];
    if (!staxi_cuda_only_stores(u->trees, acc->next) || acc->n_runs != 1 ||
        staxi_high(&u->e, acc->runs[0].extent) <= STAXI_CUDA_TUPLES_FEW)
        return false;
    if (u->n_loops == 0 || staxi_extent_guess(u->p, staxi_cuda_loops_product(u)) <
                               (double)STAXI_CUDA_TUPLES_MANY)
        return true;
    u->e.hoisted.now++;
    for (int k = 0; k < staxi_state_count(&u->e, a); k++)
        if (staxi_cuda_reads_apart(u, staxi_state_expr(&u->e, a, 0, k),
                                   u->loops[u->n_loops - 1].var))
            return true;
    return false;
}

/* What a kernel of tuples does: rows as a whole, or the blocks of 4096 of long ones, which the
   third kind joins. */
typedef enum staxi_cuda_tuples {
    STAXI_TUPLES_WHOLE,
    STAXI_TUPLES_PARTS,
    STAXI_TUPLES_FINISH
} staxi_cuda_tuples;

/* Do all of its states come from elements? Then a tuple is its states alone. */
static bool staxi_cuda_tuple_is_plain(staxi_cuda_unit *u, const staxi_tree_node *a) {
    staxi_text *kept = u->e.t, captures;
    staxi_text_init(&captures, u->a);
    u->e.t = &captures;
    staxi_tuple_captures(&u->e, a, staxi_capture_declare, NULL);
    u->e.t = kept;
    const bool is_plain = captures.n == 0 && !captures.failed;
    staxi_text_free(&captures);
    return is_plain;
}

/* Elements block .. end - 1, or parts: lane_[0] is their tuple then. */
static void staxi_cuda_tuple_block(staxi_cuda_unit *u, const staxi_tree_node *acc, int lanes,
                                   bool joins) {
    staxi_emit *e = &u->e;
    const staxi_tree_node a = u->trees->nodes[acc->child];
    const uint64_t id = staxi_var_id(e, acc->runs[0].var);
    staxi_putf(u->t,
               "            const int64_t end = sx_imin(length, block + 4096);\n"
               "            const int own = (int)threadIdx.x, used = (int)sx_imin(end - block, "
               "%d);\n            ",
               lanes);
    staxi_put_tuple(e, &a, "sxs_");
    staxi_put(u->t, " tuple;");
    if (joins) {
        staxi_put(u->t,
                  "\n            if (own < used) tuple = parts[block + own];\n"
                  "            for (int64_t i = block + own + ");
        staxi_putf(u->t, "%d; i < end; i += %d) ", lanes, lanes);
        staxi_put_tuple(e, &a, "sxs_");
        staxi_put(u->t, "_join(&tuple, &parts[i]);\n           ");
    } else {
        staxi_put_identity(e, &a, "tuple.");
        staxi_putf(u->t, "\n            for (int64_t i%U = block + own; i%U < end; i%U += %d) {\n",
                   id, id, id, lanes);
        e->indent = 4;
        const size_t scope = staxi_emit_scope_open(e);
        staxi_emit_step(e, &a, "tuple", false);
        staxi_emit_scope_close(e, scope);
        staxi_put(u->t, "            }\n           ");
        staxi_tuple_captures(e, &a, staxi_capture_write, "tuple.");
    }
    staxi_putf(u->t,
               " if (own < used) lane_[own] = tuple;\n            __syncthreads();\n"
               "            for (int w = %d; w > 0; w /= 2) {\n"
               "                if (own < w && own + w < used) ",
               lanes / 2);
    staxi_put_tuple(e, &a, "sxs_");
    staxi_put(u->t, "_join(&lane_[own], &lane_[own + w]);\n                __syncthreads();\n"
                    "            }\n");
    e->indent = 2;
}

/* A row, or the parts of one, by thread 0's stream where there are several blocks; the result goes
   to what follows. */
static void staxi_cuda_tuple_row(staxi_cuda_unit *u, const staxi_tree_node *acc, int lanes,
                                 bool joins, bool blocks) {
    staxi_emit *e = &u->e;
    const staxi_tree_node a = u->trees->nodes[acc->child];
    staxi_emit_row_begin(e, acc);
    if (!joins) staxi_tuple_captures(e, &a, staxi_capture_emit, NULL);
    if (blocks) {
        staxi_put(u->t, "        if (threadIdx.x == 0) ");
        staxi_put_tuple(e, &a, "sx_");
        staxi_put(u->t, "_begin(&stream);\n");
    }
    staxi_put(u->t, "        for (int64_t block = 0; block < length; block += 4096) {\n");
    staxi_cuda_tuple_block(u, acc, lanes, joins);
    staxi_put(u->t, "            if (threadIdx.x == 0) ");
    if (blocks) {
        staxi_put_tuple(e, &a, "sx_");
        staxi_put(u->t, "_add(&stream, lane_[0]);\n");
    } else {
        staxi_putf(u->t, "q%U = lane_[0];\n", (uint64_t)a.ref);
    }
    staxi_put(u->t, "            __syncthreads();\n        }\n"
                    "        if (threadIdx.x) continue;\n");
    if (blocks) {
        staxi_putf(u->t, "        if (length > 0) q%U = ", (uint64_t)a.ref);
        staxi_put_tuple(e, &a, "sx_");
        staxi_put(u->t, "_end(&stream);\n");
    }
    staxi_emit_row_end(e, acc);
    staxi_emit_list(e, acc->next);
}

static void staxi_cuda_tuple_kernel(staxi_cuda_unit *u, uint32_t list, staxi_cuda_tuples how) {
    staxi_emit *e = &u->e;
    const staxi_tree_node *acc = &u->trees->nodes[list];
    const staxi_tree_node a = u->trees->nodes[acc->child];
    const staxi_ix rows = staxi_cuda_loops_product(u),
                   pieces = staxi_cuda_pieces(u, acc->runs[0].extent, STAXI_BLOCK),
                   all = staxi_ix_mul(&u->p->ix, rows, pieces),
                   bytes = staxi_ix_const(&u->p->ix, 8 * staxi_state_count(e, &a)),
                   length = how == STAXI_TUPLES_FINISH ? pieces : acc->runs[0].extent;
    const int lanes = staxi_acc_lanes(e, &a);
    const bool blocks = how != STAXI_TUPLES_PARTS && staxi_high(e, length) > STAXI_BLOCK;
    staxi_cuda_launch *l = staxi_cuda_begin(u, STAXI_CUDA_TUPLES, list, "blockIdx.x", lanes);
    if (!l) return;
    l->count = how == STAXI_TUPLES_PARTS ? all : rows;
    l->threads = lanes;
    if (how == STAXI_TUPLES_PARTS) l->parts = staxi_ix_mul(&u->p->ix, all, bytes);
    for (int stream = 0; stream < (blocks ? 2 : 1); stream++) {
        staxi_put(u->t, "    __shared__ ");
        staxi_put_tuple(e, &a, stream ? "sx_" : "sxs_");
        staxi_putf(u->t, stream ? " stream;\n" : " lane_[%d];\n", lanes);
    }
    staxi_cuda_flat(u, l->count, "blockIdx.x", "gridDim.x");
    if (how != STAXI_TUPLES_WHOLE) {
        staxi_cuda_size(u, "pieces", pieces);
        staxi_line(e);
        staxi_put_tuple(e, &a, "sxs_");
        staxi_put(u->t, " *const parts = (");
        staxi_put_tuple(e, &a, "sxs_");
        staxi_put(u->t, how == STAXI_TUPLES_FINISH
                            ? " *)sx->parts + flat * pieces;\n"
                            : " *)sx->parts;\n"
                              "        const int64_t block = sx_digit(&rest, "
                              "pieces) * 4096;\n");
    }
    staxi_cuda_digits(u);
    staxi_cuda_size(u, "length", length);
    const size_t scope = staxi_emit_scope_open(e);
    if (how == STAXI_TUPLES_PARTS) {
        staxi_put(u->t, "        {\n");
        staxi_cuda_tuple_block(u, acc, lanes, false);
        staxi_put(u->t,
                  "            if (threadIdx.x == 0) parts[flat] = lane_[0];\n"
                  "            __syncthreads();\n        }\n");
    } else {
        staxi_cuda_tuple_row(u, acc, lanes, how == STAXI_TUPLES_FINISH, blocks);
    }
    staxi_emit_scope_close(e, scope);
    staxi_put(u->t, "    }\n");
    staxi_cuda_end(u);
}

/* Long rows that are too few for all multiprocessors are cut. */
static void staxi_cuda_tuple(staxi_cuda_unit *u, uint32_t list) {
    const staxi_tree_node *acc = &u->trees->nodes[list];
    const bool cut =
        staxi_high(&u->e, acc->runs[0].extent) > STAXI_BLOCK &&
        staxi_extent_guess(u->p, staxi_cuda_loops_product(u)) < (double)STAXI_CUDA_TUPLES_ROWS &&
        staxi_cuda_tuple_is_plain(u, &u->trees->nodes[acc->child]);
    if (!cut) {
        staxi_cuda_tuple_kernel(u, list, STAXI_TUPLES_WHOLE);
        return;
    }
    staxi_cuda_tuple_kernel(u, list, STAXI_TUPLES_PARTS);
    staxi_cuda_tuple_kernel(u, list, STAXI_TUPLES_FINISH);
}

/* ---- a thread block an iteration ---- */

/* Can a thread block run this list together? Bytes of shared memory for partial results, or -1. */
static int64_t staxi_cuda_team_shared(staxi_cuda_unit *u, uint32_t list) {
    int64_t shared = 0;
    for (; list; list = u->trees->nodes[list].next) {
        const staxi_tree_node *n = &u->trees->nodes[list];
        if (n->kind == STAXI_TREE_CHECK) return -1;
        if (n->kind != STAXI_TREE_ACC) continue;
        if (n->n_runs == 0) continue;
        if (n->n_runs == 1 && staxi_cuda_is_arg(&u->trees->nodes[n->child])) {
            shared += 16 * 16;
            continue;
        }
        if (!staxi_cuda_spreads(u->trees, n) || !staxi_cuda_list_group(u->trees, n)) return -1;
        int64_t most = staxi_high(&u->e, n->runs[0].extent);
        if (most > STAXI_CUDA_SHARED / 8 * (int64_t)STAXI_BLOCK) return -1;
        shared +=
            ((most + STAXI_BLOCK - 1) / STAXI_BLOCK * 8 + 512 * 8) * staxi_cuda_accums(u->trees, n);
    }
    return shared <= STAXI_CUDA_SHARED ? shared : -1;
}

/* A thread has one lane of a block of 4096; as many blocks at once as there are threads for. */
static void staxi_cuda_team_acc(staxi_cuda_unit *u, const staxi_tree_node *acc) {
    staxi_emit *e = &u->e;
    int group = staxi_cuda_list_group(u->trees, acc);
    staxi_cuda_empty(u, acc);
    staxi_line(e);
    staxi_put(u->t, "if (");
    staxi_emit_ix(e, acc->runs[0].extent);
    staxi_put(u->t, " > 0) {\n");
    e->indent++;
    staxi_line(e);
    staxi_put(u->t, "for (int64_t first = 0; first * 4096 < ");
    staxi_emit_ix(e, acc->runs[0].extent);
    staxi_putf(u->t, "; first += blockDim.x / %d) {\n", group);
    e->indent++;
    staxi_line(e);
    staxi_putf(u->t, "const int64_t block = first + threadIdx.x / %d;\n", group);
    staxi_cuda_block_bounds(u, acc);
    size_t scope = staxi_emit_scope_open(e);
    staxi_cuda_lanes(u, acc, 1);
    staxi_line(e);
    staxi_putf(u->t, "int64_t k = block * 4096 + threadIdx.x %% %d;\n", group);
    staxi_cuda_pass(u, acc, 1, 0, group, STAXI_CUDA_CHUNK);
    staxi_cuda_barrier(u);
    if (group == STAXI_LANES_F32) {
        staxi_cuda_result(u, acc, "g@[threadIdx.x] = a@[0];");
        staxi_cuda_barrier(u);
        staxi_cuda_result(u, acc, "const $ s@ = sx_pair<F@>(g@);");
    } else {
        staxi_cuda_result(u, acc, "const $ s@ = sx_tree<F@>(a@);");
    }
    staxi_line(e);
    staxi_putf(u->t, "if (threadIdx.x %% %d == 0 && block * 4096 < length) {\n", group);
    staxi_cuda_result(u, acc, "    h@[block] = s@;");
    staxi_line(e);
    staxi_put(u->t, "}\n");
    staxi_emit_scope_close(e, scope);
    staxi_cuda_close(u, 1);
    staxi_cuda_barrier(u);
    staxi_cuda_size(u, "blocks", staxi_cuda_pieces(u, acc->runs[0].extent, STAXI_BLOCK));
    staxi_cuda_result(u, acc, "q@ = sx_block<F@>(h@, blocks);");
    staxi_cuda_close(u, 1);
}

/* All threads keep the best of their elements, and then have the best of all. */
static void staxi_cuda_team_arg(staxi_cuda_unit *u, const staxi_tree_node *acc) {
    staxi_emit *e = &u->e;
    const staxi_tree_node a = u->trees->nodes[acc->child];
    const uint64_t ref = a.ref;
    staxi_line(e);
    staxi_putf(u->t, "%s q%U = 0;\n", staxi_acc_type(e, a.dtype), ref);
    staxi_line(e);
    staxi_put(u->t, "{\n");
    e->indent++;
    staxi_line(e);
    staxi_putf(u->t, "typedef sx_best<%s, %d> B;\n",
               staxi_value_type(e, u->p->exprs[a.expr[0]].dtype),
               a.combine == STAXI_COMBINE_ARGMAX ? 1 : 0);
    staxi_cuda_arg_elements(u, acc, "(int)blockDim.x");
    staxi_line(e);
    staxi_put(u->t, "B b = {x, at};\n");
    staxi_line(e);
    staxi_putf(u->t, "b.join(bests%U, places%U);\n", ref, ref);
    staxi_line(e);
    staxi_putf(u->t, "q%U = b.at < 0 ? 0 : b.at;\n", ref);
    staxi_cuda_close(u, 1);
}

/* The loops of a map: all threads run the outer ones, and share the innermost. */
static void staxi_cuda_team_loop(staxi_cuda_unit *u, uint32_t at) {
    staxi_emit *e = &u->e;
    const staxi_tree_node n = u->trees->nodes[at];
    bool inner = u->trees->nodes[n.child].kind != STAXI_TREE_LOOP;
    if (inner && staxi_cuda_only_stores(u->trees, n.child)) {
        staxi_line(e);
        staxi_put(u->t, "for (int64_t base = threadIdx.x * 4; base < ");
        staxi_emit_ix(e, n.axis.extent);
        staxi_put(u->t, "; base += blockDim.x * 4) {\n");
        e->indent++;
        staxi_cuda_four(u, n.child, n.axis);
        staxi_cuda_close(u, 1);
        return;
    }
    staxi_line(e);
    staxi_putf(u->t,
               inner ? "for (int64_t i%U = threadIdx.x; i%U < " : "for (int64_t i%U = 0; i%U < ",
               staxi_var_id(e, n.axis.var), staxi_var_id(e, n.axis.var));
    staxi_emit_ix(e, n.axis.extent);
    staxi_putf(u->t, inner ? "; i%U += blockDim.x) {\n" : "; i%U++) {\n",
               staxi_var_id(e, n.axis.var));
    e->indent++;
    if (inner)
        staxi_cuda_scoped_list(u, n.child);
    else
        staxi_cuda_team_loop(u, n.child);
    staxi_cuda_close(u, 1);
}

/* ---- held: elements that stay in the registers of their thread ---- */

/* The segments in the order that staxi_cuda_team_list runs them; false: some loop is not one. */
static bool staxi_cuda_find_segments(staxi_cuda_unit *u, uint32_t list) {
    for (; list; list = u->trees->nodes[list].next) {
        const staxi_tree_node *n = &u->trees->nodes[list];
        bool is_acc = n->kind == STAXI_TREE_ACC && n->n_runs > 0;
        if (!is_acc && n->kind != STAXI_TREE_LOOP) continue;
        if (u->n_segments == STAXI_CUDA_SEGMENTS) return false;
        if (!is_acc && !staxi_cuda_only_stores(u->trees, n->child)) return false;
        if (is_acc && staxi_cuda_is_arg(&u->trees->nodes[n->child])) return false;
        staxi_cuda_segment *s = &u->segments[u->n_segments++];
        s->axis = is_acc ? n->runs[0] : n->axis;
        s->list = n->child;
        s->is_acc = is_acc;
        if (is_acc && !staxi_cuda_find_segments(u, n->after)) return false;
    }
    return true;
}

/* The threads and what each of them has: one constant range, and reductions with as many lanes.
   A thread has one lane of one block of 4096, so that there are at most eight blocks. */
static bool staxi_cuda_held_shape(staxi_cuda_unit *u) {
    int64_t length = 0, n = 0;
    bool dear = false;
    u->held_group = 0;
    for (int k = 0; k < u->n_segments; k++) {
        dear = dear ||
               staxi_cuda_list_sum(u, u->segments[k].list, staxi_cuda_cycles) > STAXI_CUDA_DEAR;
        const staxi_cuda_segment *s = &u->segments[k];
        if (!staxi_ix_is_const(&u->p->ix, s->axis.extent, &n) || (k && n != length)) return false;
        length = n;
        for (uint32_t a = s->list; a; a = u->trees->nodes[a].next) {
            if (u->trees->nodes[a].kind != STAXI_TREE_ACCUM) continue;
            int group = staxi_cuda_group(&u->trees->nodes[a]);
            if (u->held_group && group != u->held_group) return false;
            u->held_group = group;
        }
    }
    if (!u->held_group || length < 1 || length > 8 * STAXI_BLOCK) return false;
    int64_t blocks = (length + STAXI_BLOCK - 1) / STAXI_BLOCK,
            block = length < STAXI_BLOCK ? length : STAXI_BLOCK;
    u->held_each = (int)((block + u->held_group - 1) / u->held_group);
    u->held_threads = (int)blocks * u->held_group;
    u->held_full = (int)((length - (blocks - 1) * STAXI_BLOCK) / u->held_group);
    /* threads of a multiprocessor, so that each has 96 registers; conditions, f64 and long
       functions need 128 */
    int most = u->held_full < u->held_each || u->held_group != STAXI_LANES_F32 || dear ? 512 : 640;
    u->held_blocks = u->held_threads < most ? most / u->held_threads : 1;
    return true;
}

/* Notes a load, or a store, of segment number s. */
static void staxi_cuda_hold_add(staxi_cuda_unit *u, int s, uint32_t buffer, staxi_ix at,
                                staxi_expr load, uint32_t store) {
    staxi_ix step, rest;
    int64_t c = 0;
    int k = 0;
    if (!staxi_ix_affine(&u->p->ix, at, u->segments[s].axis.var, &step, &rest) ||
        (staxi_ix_is_const(&u->p->ix, step, &c) && c == 0))
        return;
    while (k < u->n_held &&
           (u->held[k].buffer != buffer || u->held[k].step != step || u->held[k].rest != rest))
        k++;
    if (k == STAXI_CUDA_HELD) return;
    if (k == u->n_held) {
        memset(&u->held[u->n_held++], 0, sizeof u->held[0]);
        u->held[k].buffer = buffer;
        u->held[k].step = step;
        u->held[k].rest = rest;
        u->held[k].first = s;
    }
    u->held[k].last = s;
    if (!staxi_grow(u->a, (void **)&u->holds, &u->cap_holds, u->n_holds + 1, sizeof *u->holds)) {
        staxi_emit_no_memory(&u->e);
        return;
    }
    staxi_cuda_hold *h = &u->holds[u->n_holds++];
    h->load = load;
    h->store = store;
    h->held = k;
}

/* Operations, where a function counts as eight. */
static int64_t staxi_cuda_code(staxi_cuda_unit *u, staxi_expr x, staxi_marks *marks) {
    if (!x || !staxi_mark_first(u->p, marks, x)) return 0;
    const staxi_expr_node n = u->p->exprs[x];
    const staxi_scalar_fn *f = n.kind == STAXI_EX_OP ? staxi_fn_of(&u->e, &n) : NULL;
    int64_t code = n.kind == STAXI_EX_OP && !(f && f->infix) ? 8 : 1;
    for (int k = 0; k < n.n_args; k++) code += staxi_cuda_code(u, n.args[k], marks);
    return code;
}

static int64_t staxi_cuda_list_code(staxi_cuda_unit *u, uint32_t list) {
    return staxi_cuda_list_sum(u, list, staxi_cuda_code);
}

/* What the segments load and store; false: unrolled, they would be too long. */
static bool staxi_cuda_find_holds(staxi_cuda_unit *u) {
    staxi_cuda_near near_;
    bool fits = true;
    memset(&near_, 0, sizeof near_);
    for (int s = 0; s < u->n_segments && fits; s++) {
        int64_t code = 0;
        staxi_cuda_near_of(u, &near_, u->segments[s].list, u->segments[s].axis.var, false);
        near_.marks.now++;
        for (uint32_t k = u->segments[s].list; k; k = u->trees->nodes[k].next)
            for (int x = 0; x < 2; x++)
                code += staxi_cuda_code(u, u->trees->nodes[k].expr[x], &near_.marks);
        fits = code * u->held_each <= STAXI_CUDA_HELD_CODE;
        for (size_t k = 0; k < near_.n; k++) {
            const staxi_expr_node n = u->p->exprs[near_.loads[k]];
            staxi_cuda_hold_add(u, s, n.ref, staxi_flat_index(u->p, n.ref, n.ix), near_.loads[k],
                                0);
        }
        for (uint32_t k = u->segments[s].list; k; k = u->trees->nodes[k].next) {
            const staxi_tree_node n = u->trees->nodes[k];
            if (n.kind == STAXI_TREE_STORE && staxi_cuda_is_row_area(u, n.ref))
                staxi_cuda_hold_add(u, s, n.ref, n.at, 0, k);
        }
    }
    staxi_cuda_near_free(u, &near_);
    return fits;
}

/* Is every load of the buffer in x one of the noted? */
static bool staxi_cuda_loads_held(staxi_cuda_unit *u, staxi_expr x, uint32_t buffer,
                                  staxi_marks *marks) {
    if (!x || !staxi_mark_first(u->p, marks, x)) return true;
    const staxi_expr_node n = u->p->exprs[x];
    bool held = n.kind != STAXI_EX_LOAD || n.ref != buffer || staxi_cuda_held_by(u, x, 0) >= 0;
    for (int k = 0; k < n.n_args && held; k++)
        held = staxi_cuda_loads_held(u, n.args[k], buffer, marks);
    for (size_t k = 0; k < u->p->n_value_leaves; k++)
        for (int d = 0; d < n.n_ix && held; d++)
            if (staxi_ix_depends_on(&u->p->ix, n.ix[d], u->p->value_leaves[k]))
                held = staxi_cuda_loads_held(u, u->p->value_exprs[k], buffer, marks);
    return held;
}

static bool staxi_cuda_all_held(staxi_cuda_unit *u, uint32_t list, uint32_t buffer,
                                staxi_marks *marks) {
    for (; list; list = u->trees->nodes[list].next) {
        const staxi_tree_node n = u->trees->nodes[list];
        if (n.kind == STAXI_TREE_STORE && n.ref == buffer && staxi_cuda_held_by(u, 0, list) < 0)
            return false;
        for (int x = 0; x < 2; x++)
            if (!staxi_cuda_loads_held(u, n.expr[x], buffer, marks)) return false;
        if (!staxi_cuda_all_held(u, n.child, buffer, marks) ||
            !staxi_cuda_all_held(u, n.after, buffer, marks))
            return false;
    }
    return true;
}

/* The most registers that what is kept takes between two segments. */
static int staxi_cuda_held_words(const staxi_cuda_unit *u) {
    int most = 0;
    for (int s = 0; s + 1 < u->n_segments; s++) {
        int words = 0;
        for (int k = 0; k < u->n_held; k++) {
            const staxi_cuda_held *h = &u->held[k];
            int bytes = (int)staxi_dtype_bytes((stax_dtype)u->p->buffers[h->buffer].dtype);
            if (h->is_kept && h->first <= s && s < h->last)
                words += u->held_each * (bytes > 4 ? bytes / 4 : 1);
        }
        if (words > most) most = words;
    }
    return most;
}

/* Row areas that no thread reads of another, and what is read by two segments and never written, as
   far as there are registers. `used`: bit 0 read, bit 1 written, by buffer. */
static void staxi_cuda_keep(staxi_cuda_unit *u, uint32_t list, const uint8_t *used,
                            staxi_marks *marks) {
    for (int rows = 1; rows >= 0; rows--)
        for (int k = 0; k < u->n_held; k++) {
            staxi_cuda_held *h = &u->held[k];
            if (staxi_cuda_is_row_area(u, h->buffer) != (rows == 1)) continue;
            if (!rows && (h->first == h->last || used[h->buffer] & 2)) continue;
            h->is_kept = true;
            marks->now++;
            if ((rows && !staxi_cuda_all_held(u, list, h->buffer, marks)) ||
                staxi_cuda_held_words(u) > STAXI_CUDA_HELD_WORDS)
                h->is_kept = false;
        }
}

/* Decides whether the kernel of this list holds, and what. */
static void staxi_cuda_plan_holds(staxi_cuda_unit *u, uint32_t list) {
    staxi_marks marks;
    uint8_t *used = (uint8_t *)staxi_arena_push(&u->p->arena, u->p->n_buffers, 1);
    bool any = false;
    memset(&marks, 0, sizeof marks);
    u->n_segments = u->n_held = u->held_each = u->segment = 0;
    u->n_holds = 0;
    if (!used) {
        staxi_emit_no_memory(&u->e);
        return;
    }
    marks.now = 1;
    staxi_collect_buffers(&u->e, list, used, &marks);
    if (!staxi_cuda_find_segments(u, list))
        u->n_segments = 0;
    else if (staxi_cuda_held_shape(u) && staxi_cuda_find_holds(u))
        staxi_cuda_keep(u, list, used, &marks);
    u->held_waits = false;
    for (int k = 0; k < u->n_held; k++) {
        any = any || u->held[k].is_kept;
        if (u->held[k].is_kept && staxi_cuda_is_row_area(u, u->held[k].buffer))
            used[u->held[k].buffer] = 0;
    }
    for (uint32_t b = 1; b < u->p->n_buffers; b++) u->held_waits |= used[b] == 3;
    if (!any) u->held_each = 0;
    staxi_free(u->a, marks.at, marks.cap * sizeof *marks.at);
}

/* Notes in `read`, by buffer, that x loads along the row from memory in segment s (bit s). */
static void staxi_cuda_note_reads(staxi_cuda_unit *u, staxi_expr x, int s, uint16_t *read,
                                  staxi_marks *marks) {
    if (!x || !staxi_mark_first(u->p, marks, x)) return;
    const staxi_expr_node n = u->p->exprs[x];
    if (n.kind == STAXI_EX_LOAD &&
        staxi_cuda_follows(u, staxi_flat_index(u->p, n.ref, n.ix), u->segments[s].axis.var)) {
        const int held = staxi_cuda_held_by(u, x, 0);
        if (held < 0 || (u->held[held].first == s && !staxi_cuda_is_row_area(u, n.ref)))
            read[n.ref] = (uint16_t)(read[n.ref] | 1u << s);
    }
    for (int k = 0; k < n.n_args; k++) staxi_cuda_note_reads(u, n.args[k], s, read, marks);
}

/* Says how often a row is read: once where registers hold it; else, above eight blocks of 4096 or
   where the length is not constant, once for each segment that needs it. */
static void staxi_cuda_put_reads(staxi_cuda_unit *u) {
    staxi_marks marks;
    staxi_cuda_launch *l = &u->launches[u->n_launches - 1];
    const char *between = "    /* reads of a row from memory: ";
    uint16_t *read =
        (uint16_t *)staxi_arena_push(&u->p->arena, u->p->n_buffers * sizeof *read, sizeof *read);
    memset(&marks, 0, sizeof marks);
    if (!read) {
        staxi_emit_no_memory(&u->e);
        return;
    }
    l->reads = u->reads.n;
    for (int s = 0; s < u->n_segments; s++) {
        marks.now++;
        for (uint32_t k = u->segments[s].list; k; k = u->trees->nodes[k].next)
            for (int x = 0; x < 2; x++)
                staxi_cuda_note_reads(u, u->trees->nodes[k].expr[x], s, read, &marks);
    }
    for (uint32_t b = 1; b < u->p->n_buffers; b++) {
        int times = 0;
        for (unsigned rest = read[b]; rest; rest &= rest - 1) times++;
        if (!times) continue;
        staxi_putf(u->t, "%sb%U %d", between, (uint64_t)b, times);
        if (l->reads < u->reads.n) staxi_put(&u->reads, ", ");
        if (u->p->buffers[b].scope == STAXI_SCOPE_ARG)
            staxi_putf(&u->reads, "%s %d", u->p->buffers[b].name, times);
        else
            staxi_putf(&u->reads, "b%U %d", (uint64_t)b, times);
        between = ", ";
    }
    l->n_reads = u->reads.n - l->reads;
    if (*between == ',') staxi_put(u->t, " */\n");
    staxi_free(u->a, marks.at, marks.cap * sizeof *marks.at);
}

/* The arrays of a kernel that holds, and where a thread's elements begin. */
static void staxi_cuda_held_arrays(staxi_cuda_unit *u) {
    staxi_putf(u->t,
               "        const int block = (int)threadIdx.x / %d, k = block * 4096 + "
               "(int)threadIdx.x %% %d;\n",
               u->held_group, u->held_group);
    if (u->held_full < u->held_each) {
        staxi_put(u->t, "        const int mine = ((int)sx_imin(");
        staxi_emit_ix(&u->e, u->segments[0].axis.extent);
        staxi_putf(u->t, ", block * 4096 + 4096) - k + %d) / %d;\n", u->held_group - 1,
                   u->held_group);
    }
    for (int k = 0; k < u->n_held; k++)
        if (u->held[k].is_kept)
            staxi_putf(u->t, "        %s x%d[%d];\n",
                       staxi_c_type(u->p->buffers[u->held[k].buffer].dtype), k, u->held_each);
}

/* All elements that a thread has of the next segment: first the loads that are held from here on,
   then in chunks the other loads and the values. */
static void staxi_cuda_held_pass(staxi_cuda_unit *u) {
    staxi_emit *e = &u->e;
    int number = u->segment++, each = u->held_each,
        chunk = each < STAXI_CUDA_CHUNK ? each : STAXI_CUDA_CHUNK;
    const staxi_cuda_segment s = u->segments[number];
    char index[48];
    const char *when;
    staxi_text condition;
    staxi_cuda_near near_;
    memset(&near_, 0, sizeof near_);
    staxi_text_init(&condition, u->a);
    staxi_cuda_near_of(u, &near_, s.list, s.axis.var, false);
    staxi_emit_hoists(e, s.list, staxi_var_bit(e, s.axis.var));
    staxi_format(index, sizeof index, "k + (c + j) * %U", (uint64_t)u->held_group);
    if (u->held_full < each) {
        staxi_line(e);
        staxi_putf(u->t, "const int mine%d = sx_again(mine);\n", number);
        staxi_putf(&condition, " if (c + j < %d || c + j < mine%d)", u->held_full, number);
    } else if (each % chunk) {
        staxi_putf(&condition, " if (c + j < %d)", each);
    }
    when = condition.data ? condition.data : "";
    if (condition.failed) staxi_emit_no_memory(e);
    for (int h = 0; h < u->n_held; h++) {
        if (!u->held[h].is_kept || u->held[h].first != number ||
            staxi_cuda_is_row_area(u, u->held[h].buffer))
            continue;
        staxi_putf(u->t, "#pragma unroll\n");
        staxi_line(e);
        staxi_putf(u->t, "for (int c = 0, j = 0; c < %d; c++)%s x%d[c] = b%U[(", each, when, h,
                   (uint64_t)u->held[h].buffer);
        staxi_emit_ix(e, u->held[h].step);
        staxi_putf(u->t, ") * (int64_t)(%s) + ", index);
        staxi_emit_ix(e, u->held[h].rest);
        staxi_put(u->t, "];\n");
    }
    staxi_putf(u->t, "#pragma unroll\n");
    staxi_line(e);
    staxi_putf(u->t, "for (int c = 0; c < %d; c += %d) {\n", each, chunk);
    e->indent++;
    staxi_cuda_batch_loads(u, s.axis.var, &near_, chunk, index, when);
    staxi_cuda_chunk(u, s.list, s.axis.var, &near_, chunk, when, index, "0", 1);
    staxi_cuda_close(u, 1);
    staxi_cuda_near_free(u, &near_);
    staxi_text_free(&condition);
}

/* A barrier a reduction, two if there are several blocks. */
static void staxi_cuda_held_acc(staxi_cuda_unit *u, const staxi_tree_node *acc) {
    staxi_emit *e = &u->e;
    int blocks = u->held_threads / u->held_group;
    staxi_cuda_empty(u, acc);
    staxi_cuda_lanes(u, acc, 1);
    staxi_cuda_held_pass(u);
    if (u->held_group == STAXI_LANES_F32) {
        staxi_cuda_result(u, acc, "g@[threadIdx.x] = a@[0];");
        staxi_cuda_barrier(u);
        staxi_cuda_result(u, acc,
                          blocks > 1 ? "a@[0] = sx_pair<F@>(g@);" : "q@ = sx_pair<F@>(g@);");
    } else {
        staxi_cuda_result(u, acc,
                          blocks > 1 ? "a@[0] = sx_tree<F@>(a@);" : "q@ = sx_tree<F@>(a@);");
    }
    if (blocks > 1) {
        staxi_line(e);
        staxi_putf(u->t, "if (threadIdx.x %% %d == 0) {\n", u->held_group);
        staxi_cuda_result(u, acc, "    h@[block] = a@[0];");
        staxi_line(e);
        staxi_put(u->t, "}\n");
        staxi_cuda_barrier(u);
        staxi_cuda_result_of(u, acc, "q@ = sx_block<F@>(h@, %U);", blocks);
    }
}

static void staxi_cuda_team_list(staxi_cuda_unit *u, uint32_t list) {
    staxi_emit *e = &u->e;
    for (; list && !e->failed; list = u->trees->nodes[list].next) {
        const staxi_tree_node n = u->trees->nodes[list];
        bool one = n.kind == STAXI_TREE_STORE; /* the same value for all: one thread stores it */
        if (n.kind == STAXI_TREE_LOOP) {
            if (u->held_each)
                staxi_cuda_held_pass(u);
            else
                staxi_cuda_team_loop(u, list);
            if (!u->held_each || u->held_waits) staxi_cuda_barrier(u);
        } else if (n.kind == STAXI_TREE_ACC && n.n_runs) {
            if (staxi_cuda_is_arg(&u->trees->nodes[n.child]))
                staxi_cuda_team_arg(u, &n);
            else if (u->held_each)
                staxi_cuda_held_acc(u, &n);
            else
                staxi_cuda_team_acc(u, &n);
            if (!u->held_each || u->held_waits) staxi_cuda_barrier(u); /* what children stored */
            staxi_cuda_result(u, &n, "const $ r@ = q@;");
            staxi_cuda_team_list(u, n.after);
        } else if (n.kind == STAXI_TREE_ACC) {
            staxi_emit_row_acc(e, &n);
        } else if (one) {
            staxi_emit_value(e, n.expr[0]);
            staxi_line(e);
            staxi_put(u->t, "if (threadIdx.x == 0)\n");
            e->indent++;
            staxi_emit_store(e, &n);
            e->indent--;
        } else {
            uint32_t next = n.next;
            u->trees->nodes[list].next = 0;
            staxi_emit_list(e, list);
            u->trees->nodes[list].next = next;
        }
    }
}

/* Shared memory of the reductions: g a value a thread, h a value a block of 4096. */
static void staxi_cuda_team_arrays(staxi_cuda_unit *u, uint32_t list, uint64_t number) {
    for (uint32_t k = list; k; k = u->trees->nodes[k].next) {
        const staxi_tree_node *n = &u->trees->nodes[k];
        if (n->kind != STAXI_TREE_ACC || !n->n_runs) continue;
        const staxi_tree_node a = u->trees->nodes[n->child];
        if (staxi_cuda_is_arg(&a)) {
            staxi_line(&u->e);
            staxi_putf(u->t, "__shared__ %s bests%U[16];\n",
                       staxi_value_type(&u->e, u->p->exprs[a.expr[0]].dtype), (uint64_t)a.ref);
            staxi_cuda_result(u, n, "__shared__ int64_t places@[16];");
            continue;
        }
        int64_t most = (staxi_high(&u->e, n->runs[0].extent) + STAXI_BLOCK - 1) / STAXI_BLOCK;
        staxi_cuda_result_of(u, n, "typedef sx_fold_%U_@ F@;", (int64_t)number);
        staxi_cuda_result_of(u, n, "__shared__ F@::T g@[512], h@[%U];", most > 0 ? most : 1);
    }
}

static void staxi_cuda_team(staxi_cuda_unit *u, uint32_t list) {
    staxi_emit *e = &u->e;
    uint64_t number = u->n_launches;
    staxi_ix length = staxi_ix_const(&u->p->ix, 0);
    int64_t row = -1;
    for (uint32_t k = list; k; k = u->trees->nodes[k].next) {
        const staxi_tree_node *n = &u->trees->nodes[k];
        if (n->kind == STAXI_TREE_ACC && n->n_runs) {
            if (!staxi_cuda_is_arg(&u->trees->nodes[n->child])) staxi_cuda_folds(u, n, number);
            if (staxi_high(e, n->runs[0].extent) > staxi_high(e, length))
                length = n->runs[0].extent;
        }
    }
    u->shared_row = staxi_ix_is_const(&u->p->ix, u->trees->s->row_bytes, &row) &&
                    row + staxi_cuda_team_shared(u, list) <= STAXI_CUDA_SHARED_ALL;
    staxi_cuda_plan_holds(u, list);
    if (u->held_each) { /* as many blocks at once as by table, one more, or one fewer */
        const int more = staxi_cuda_choose(u, 3, 0);
        u->held_blocks += more == 1 ? 1 : more == 2 && u->held_blocks > 1 ? -1 : 0;
    }
    u->at_once = u->held_each ? u->held_blocks : 0;
    staxi_cuda_launch *l = staxi_cuda_begin(u, STAXI_CUDA_TEAM, list, "blockIdx.x",
                                            u->held_each ? u->held_threads : 512);
    if (l && l->has_row && u->shared_row) {
        l->shared = row;
        l->has_row = false;
    }
    u->shared_row = false;
    if (!l) return;
    if (u->held_each) l->threads = u->held_threads;
    l->count = staxi_cuda_loops_product(u);
    l->length = length;
    staxi_cuda_put_reads(u);
    staxi_cuda_team_arrays(u, list, number);
    staxi_cuda_flat(u, l->count, "blockIdx.x", "gridDim.x");
    staxi_cuda_digits(u);
    size_t scope = staxi_emit_scope_open(e);
    if (u->held_each) staxi_cuda_held_arrays(u);
    staxi_cuda_team_list(u, list);
    int n_accs = 0; /* with two reductions, the other's barriers keep iterations apart */
    for (int k = 0; k < u->n_segments; k++) n_accs += u->segments[k].is_acc;
    if (u->held_each && n_accs < 2) staxi_cuda_barrier(u);
    u->held_each = 0;
    staxi_emit_scope_close(e, scope);
    staxi_put(u->t, "    }\n");
    staxi_cuda_end(u);
}

/* ---- contractions ----
   A thread block computes a tile of rows and columns. Its part of both operands, a few steps of k
   at a time, is evaluated into shared memory, the next part while one is multiplied; each thread
   has a tile of chains in its registers. In k a part may reach behind the end: 0 and -0 stand
   there, whose product, -0, changes no sum. Rows and columns behind the last are the last again,
   and not stored. */

typedef struct staxi_cuda_tile {
    int rows, columns, depth;  /* of a thread block, and steps of k of a part */
    int own_rows, own_columns; /* of a thread: four neighbours or two times four */
    int at_once;               /* blocks of a multiprocessor                  */
    int percent;               /* of the speed of the largest, if all have work */
} staxi_cuda_tile;

enum {
    STAXI_CUDA_TILES = 5,
    STAXI_CUDA_BAND = 8,
    STAXI_CUDA_ENOUGH = 100,
    STAXI_CUDA_PROCESSORS = 128, /* as many multiprocessors are thought of */
    STAXI_CUDA_CHAINS = 64       /* of a thread, where each needs two registers */
};

/* Of 4 and of 8 bytes. The speeds are estimates for sm_90 that choose as measurements there did. */
static const staxi_cuda_tile staxi_cuda_tiles[2][STAXI_CUDA_TILES] = {
    {{256, 128, 16, 16, 8, 1, 100},
     {128, 128, 8, 8, 8, 2, 95},
     {128, 64, 16, 8, 8, 2, 88},
     {64, 64, 16, 4, 4, 4, 70},
     {32, 32, 16, 4, 4, 8, 35}},
    {{64, 64, 16, 4, 4, 2, 100},
     {64, 64, 16, 4, 4, 2, 100},
     {64, 64, 16, 4, 4, 2, 100},
     {64, 64, 16, 4, 4, 2, 100},
     {32, 32, 16, 4, 4, 4, 60}}};

/* An operand. A thread takes `width` elements at a time, along k or across it, `slots` times a
 * part. */
typedef struct staxi_cuda_side {
    staxi_expr x;
    staxi_loop_axis axes[STAX_MAX_RANK];
    int n_axes, size; /* rows or columns of a tile */
    staxi_ix count;
    bool along, plain; /* plain: copied as it lies */
    int width, slots;
    staxi_ix places[2];    /* of a map: counters of its batches */
    staxi_cuda_near near_; /* what is loaded in fours */
} staxi_cuda_side;

typedef struct staxi_cuda_dot {
    const staxi_tree_node *acc;
    staxi_tree_node fma;
    staxi_loop_axis depth, batches[STAX_MAX_RANK];
    int n_batches, threads;
    staxi_cuda_side sides[2]; /* of the rows, of the columns */
    staxi_cuda_tile tile;
    unsigned tensor; /* the tensor cores it runs on; 0: none */
    int element;     /* there: dtype of the operands         */
    int stages,
        splits; /* there: parts in shared memory; blocks that share the steps of k of a tile */
    bool cut, blocks; /* k may end within a part; and run over several blocks of 4096 */
} staxi_cuda_dot;

static bool staxi_cuda_is_multiple(staxi_cuda_unit *u, staxi_ix n, int64_t of) {
    int64_t rest = -1;
    staxi_ix mod = staxi_ix_mod(&u->p->ix, n, staxi_ix_const(&u->p->ix, of));
    return staxi_ix_is_const(&u->p->ix, mod, &rest) && rest == 0;
}

/* The loops of a kernel as batches, rows and columns, of which the last loop is one; false: this is
   no contraction of two operands that vary along loops of their own. */
static bool staxi_cuda_dot_sides(staxi_cuda_unit *u, staxi_cuda_dot *d) {
    staxi_emit *e = &u->e;
    const uint64_t last = staxi_var_bit(e, u->loops[u->n_loops - 1].var);
    const int of = staxi_expr_deps(e, d->fma.expr[0]) & last ? 0 : 1;
    uint64_t deps[2];
    for (int s = 0; s < 2; s++) {
        d->sides[s].x = d->fma.expr[s ? of : 1 - of];
        d->sides[s].count = staxi_ix_const(&u->p->ix, 1);
        deps[s] = staxi_expr_deps(e, d->sides[s].x);
    }
    if (deps[0] & last || u->n_loops > STAX_MAX_RANK) return false;
    for (int k = 0; k < u->n_loops; k++) {
        const uint64_t bit = staxi_var_bit(e, u->loops[k].var);
        staxi_cuda_side *s = &d->sides[deps[1] & bit ? 1 : 0];
        if (deps[0] & bit && deps[1] & bit) {
            d->batches[d->n_batches++] = u->loops[k];
            continue;
        }
        s->axes[s->n_axes++] = u->loops[k];
        s->count = staxi_ix_mul(&u->p->ix, s->count, u->loops[k].extent);
    }
    return d->sides[0].n_axes > 0 && d->sides[1].n_axes > 0;
}

/* Are there registers for it? */
static bool staxi_cuda_tile_fits(const staxi_cuda_dot *d, const staxi_cuda_tile *t) {
    return !d->blocks || t->own_rows * t->own_columns <= STAXI_CUDA_CHAINS;
}

/* What a multiprocessor has to do, of those that have most, where all are given tiles in turn. */
static double staxi_cuda_tile_cost(staxi_cuda_unit *u, const staxi_cuda_dot *d, int rows,
                                   int columns, int percent) {
    double n = staxi_extent_guess(u->p, staxi_cuda_pieces(u, d->sides[0].count, rows)) *
               staxi_extent_guess(u->p, staxi_cuda_pieces(u, d->sides[1].count, columns));
    for (int k = 0; k < d->n_batches; k++) n *= staxi_extent_guess(u->p, d->batches[k].extent);
    const double turns =
        n < 1e15 ? (double)(((int64_t)n + STAXI_CUDA_PROCESSORS - 1) / STAXI_CUDA_PROCESSORS)
                 : n / (double)STAXI_CUDA_PROCESSORS;
    return turns * rows * columns / percent;
}

static void staxi_cuda_dot_tile(staxi_cuda_unit *u, staxi_cuda_dot *d) {
    const staxi_cuda_tile *tiles =
        staxi_cuda_tiles[staxi_dtype_bytes((stax_dtype)d->fma.dtype) > 4];
    double least = 0;
    int table = -1;
    for (int k = 0; k < STAXI_CUDA_TILES; k++) {
        const staxi_cuda_tile t = tiles[k];
        const double cost = staxi_cuda_tile_cost(u, d, t.rows, t.columns, t.percent);
        if (!staxi_cuda_tile_fits(d, &t) || (table >= 0 && cost >= least)) continue;
        table = k;
        least = cost;
    }
    const int k = staxi_cuda_choose(u, STAXI_CUDA_TILES, table);
    d->tile = tiles[staxi_cuda_tile_fits(d, &tiles[k]) ? k : table];
    d->threads = d->tile.rows / d->tile.own_rows * (d->tile.columns / d->tile.own_columns);
    d->sides[0].size = d->tile.rows;
    d->sides[1].size = d->tile.columns;
    if (d->blocks) d->tile.at_once = (d->tile.at_once + 1) / 2; /* twice the registers */
}

/* How the parts of an operand are loaded: in fours where they lie side by side and their number is
   a multiple of four. */
static void staxi_cuda_dot_loads(staxi_cuda_unit *u, const staxi_cuda_dot *d, staxi_cuda_side *s) {
    const staxi_loop_axis inner = s->axes[s->n_axes - 1];
    s->width = 1;
    for (int along = 0; along < 2 && s->width == 1; along++) {
        const staxi_loop_axis axis = along ? d->depth : inner;
        s->near_.n = 0;
        s->near_.marks.now++;
        staxi_cuda_collect_near(u, &s->near_, s->x, axis.var, true);
        if (s->near_.n) s->along = along == 1;
        if (s->near_.n && staxi_cuda_is_multiple(u, axis.extent, 4)) s->width = 4;
    }
    s->slots = s->size * d->tile.depth / (s->width * d->threads);
}

static bool staxi_cuda_tensor_of(staxi_cuda_unit *u, staxi_cuda_dot *d);

/* Is this list a contraction that is computed in tiles? */
static bool staxi_cuda_dot_of(staxi_cuda_unit *u, uint32_t list, staxi_cuda_dot *d) {
    const staxi_tree_node *acc = &u->trees->nodes[list];
    memset(d, 0, sizeof *d);
    if (acc->kind != STAXI_TREE_ACC || acc->next || acc->n_runs != 1 || !u->n_loops ||
        !acc->child || !staxi_emit_room(&u->e))
        return false;
    d->acc = acc;
    d->fma = u->trees->nodes[acc->child];
    d->depth = acc->runs[0];
    if (d->fma.kind != STAXI_TREE_ACCUM || d->fma.next || d->fma.combine != STAXI_COMBINE_FMA ||
        !u->p->stages[d->fma.ref].tiled)
        return false;
    uint8_t *used = (uint8_t *)staxi_arena_push(&u->p->arena, u->p->n_buffers, 1);
    if (!used) return staxi_emit_no_memory(&u->e);
    staxi_marks marks;
    memset(&marks, 0, sizeof marks);
    marks.now = 1;
    staxi_collect_buffers(&u->e, list, used, &marks);
    staxi_free(u->a, marks.at, marks.cap * sizeof *marks.at);
    u->e.buffer_use = used;
    if (u->e.deps_known) memset(u->e.deps_known, 0, u->e.cap_known);
    d->blocks =
        staxi_dtype_is_float(d->fma.dtype) && staxi_high(&u->e, d->depth.extent) > STAXI_BLOCK;
    if (!staxi_cuda_dot_sides(u, d)) return false;
    if (staxi_cuda_tensor_of(u, d) && d->tensor == STAXI_CUDA_WGMMA) return true;
    if (!d->tensor) staxi_cuda_dot_tile(u, d);
    d->cut = staxi_may_be_empty(&u->e, d->depth.extent) ||
             !staxi_cuda_is_multiple(u, d->depth.extent, d->tile.depth);
    return true;
}

/* Of slot s: the counters of its rows or columns, which stay while k runs. */
static void staxi_cuda_dot_spots(staxi_cuda_unit *u, const staxi_cuda_dot *d, int side) {
    const staxi_cuda_side *s = &d->sides[side];
    const int across = s->along ? 1 : s->width;
    const char *const begin = side ? "y" : "x";
    for (int k = 0; k < s->n_axes; k++) {
        staxi_line(&u->e);
        staxi_putf(u->t, "int64_t %s%U[%d];\n", begin, staxi_var_id(&u->e, s->axes[k].var),
                   s->slots);
    }
    staxi_cuda_unrolled(u, "s", s->slots);
    staxi_line(&u->e);
    staxi_putf(u->t, "const int v = (int)threadIdx.x + s * %d;\n", d->threads);
    staxi_line(&u->e);
    staxi_putf(u->t, "int64_t rest = %s0 + ", side ? "column" : "row");
    if (s->along)
        staxi_putf(u->t, "v / %d;\n", d->tile.depth / s->width);
    else
        staxi_putf(u->t, "v %% %d * %d;\n", s->size / across, across);
    staxi_line(&u->e);
    staxi_putf(u->t, "rest = sx_imin(rest, %s - %d);\n", side ? "columns" : "rows", across);
    staxi_cuda_counters(u, s->axes, s->n_axes, begin, "[s]");
    staxi_cuda_close(u, 1);
}

/* The part of an operand that begins at k0, into the registers of its threads: xl or yl. */
static void staxi_cuda_dot_load(staxi_cuda_unit *u, const staxi_cuda_dot *d, int side) {
    staxi_emit *e = &u->e;
    const staxi_cuda_side *s = &d->sides[side];
    const char c = side ? 'y' : 'x';
    const uint64_t k = staxi_var_id(e, d->depth.var),
                   inner = staxi_var_id(e, s->axes[s->n_axes - 1].var);
    const bool four = s->width == 4, along = four && s->along;
    staxi_cuda_unrolled(u, "s", s->slots);
    staxi_line(e);
    staxi_putf(u->t, "const int v = (int)threadIdx.x + s * %d;\n", d->threads);
    for (int a = 0; a < s->n_axes; a++) {
        const uint64_t id = staxi_var_id(e, s->axes[a].var);
        staxi_line(e);
        if (four && !along && id == inner)
            staxi_putf(u->t, "const int64_t base = %c%U[s];\n", c, id);
        else
            staxi_putf(u->t, "const int64_t i%U = %c%U[s];\n", id, c, id);
    }
    staxi_line(e);
    if (along)
        staxi_putf(u->t, "const int64_t base = k0 + v %% %d * 4;\n", d->tile.depth / 4);
    else
        staxi_putf(
            u->t,
            s->along ? "const int64_t i%U = k0 + v %% %d;\n" : "const int64_t i%U = k0 + v / %d;\n",
            k, s->along ? d->tile.depth : s->size / s->width);
    if (d->cut) {
        staxi_line(e);
        staxi_putf(u->t, along ? "if (base >= depth) {\n" : "if (i%U >= depth) {\n", k);
        staxi_line(e);
        staxi_putf(u->t, "    for (int j = 0; j < %d; j++) %cl[s * %d + j] = ", s->width, c,
                   s->width);
        if (d->tensor)
            staxi_put(u->t, "0");
        else
            staxi_emit_const(e, d->fma.dtype,
                             side ? staxi_identity_bits(d->fma.combine, d->fma.dtype) : 0);
        staxi_put(u->t, ";\n");
        staxi_line(e);
        staxi_put(u->t, "    continue;\n");
        staxi_line(e);
        staxi_put(u->t, "}\n");
    }
    if (four) {
        staxi_cuda_four_take(u, &s->near_, along ? k : inner);
        staxi_cuda_unrolled(u, "j", 4);
        staxi_line(e);
        staxi_putf(u->t, "const int64_t i%U = base + j;\n", along ? k : inner);
    }
    size_t scope = staxi_emit_scope_open(e);
    if (four) staxi_cuda_loaded(u, &s->near_, "j");
    staxi_emit_value(e, s->x);
    staxi_line(e);
    staxi_putf(u->t, four ? "%cl[s * 4 + j] = " : "%cl[s] = ", c);
    staxi_put(u->t, d->tensor == STAXI_CUDA_TF32 ? "sx_tf32(" : d->tensor ? "(uint16_t)(" : "(");
    staxi_emit_operand(e, s->x);
    staxi_put(u->t, ");\n");
    staxi_emit_scope_close(e, scope);
    staxi_cuda_close(u, four ? 2 : 1);
}

/* From there into shared memory: xs or ys, k by k. */
static void staxi_cuda_dot_share(staxi_cuda_unit *u, const staxi_cuda_dot *d, int side) {
    const staxi_cuda_side *s = &d->sides[side];
    const char c = side ? 'y' : 'x';
    const int line = (s->along ? d->tile.depth : s->size) / s->width;
    staxi_cuda_unrolled(u, "s", s->slots);
    staxi_line(&u->e);
    staxi_putf(u->t, "const int v = (int)threadIdx.x + s * %d;\n", d->threads);
    if (s->along) {
        staxi_line(&u->e);
        staxi_putf(
            u->t,
            "for (int j = 0; j < %d; j++) %cs[now][v %% %d * %d + j][v / %d] = %cl[s * %d + j];\n",
            s->width, c, line, s->width, line, c, s->width);
    } else if (s->width == 4) {
        staxi_line(&u->e);
        staxi_putf(u->t, "sx_four(&%cs[now][v / %d][v %% %d * 4], %cl + s * 4);\n", c, line, line,
                   c);
    } else {
        staxi_line(&u->e);
        staxi_putf(u->t, "%cs[now][v / %d][v %% %d] = %cl[s];\n", c, line, line, c);
    }
    staxi_cuda_close(u, 1);
}

/* The part in shared memory, multiplied: one step of k after the other. */
static void staxi_cuda_dot_multiply(staxi_cuda_unit *u, const staxi_cuda_dot *d) {
    staxi_emit *e = &u->e;
    const staxi_cuda_tile t = d->tile;
    const char *type = staxi_acc_type(e, d->fma.dtype);
    staxi_cuda_unrolled(u, "k", t.depth);
    staxi_line(e);
    staxi_putf(u->t, "__align__(16) %s xf[%d], yf[%d];\n", type, t.own_rows, t.own_columns);
    for (int side = 0; side < 2; side++) {
        const int fours = (side ? t.own_columns : t.own_rows) / 4;
        const char c = side ? 'y' : 'x';
        staxi_line(e);
        staxi_putf(u->t,
                   "for (int g = 0; g < %d; g++) sx_four(%cf + g * 4, &%cs[1 - now][k][g * %d + "
                   "t%c * 4]);\n",
                   fours, c, c, d->sides[side].size / fours, c);
    }
    staxi_cuda_unrolled(u, "i", t.own_rows);
    staxi_cuda_unrolled(u, "j", t.own_columns);
    staxi_line(e);
    staxi_put(u->t, "c[i][j] = ");
    staxi_emit_fn(e, staxi_combine_fn(e, d->fma.combine, d->fma.dtype));
    staxi_put(u->t, "xf[i], yf[j], c[i][j]);\n");
    staxi_cuda_close(u, 3);
    if (!d->blocks) return;
    staxi_line(e);
    staxi_putf(u->t, "if (k0 %% %d == 0 || k0 >= depth) {\n", STAXI_BLOCK);
    e->indent++;
    staxi_cuda_unrolled(u, "i", t.own_rows);
    staxi_cuda_unrolled(u, "j", t.own_columns);
    staxi_line(e);
    staxi_putf(u->t, "q[i][j] = k0 <= %d ? c[i][j] : ", STAXI_BLOCK);
    staxi_emit_fold(e, &d->fma, "q[i][j]", "c[i][j]");
    staxi_put(u->t, ";\n");
    staxi_line(e);
    staxi_put(u->t, "c[i][j] = ");
    staxi_emit_const(e, d->fma.dtype, staxi_identity_bits(d->fma.combine, d->fma.dtype));
    staxi_put(u->t, ";\n");
    staxi_cuda_close(u, 3);
}

/* What is done with the results of four neighbours from `column` on, in the row whose counters are
   set; `value` is that of number j. */
static void staxi_cuda_dot_results(staxi_cuda_unit *u, const staxi_cuda_dot *d, const char *value) {
    staxi_emit *e = &u->e;
    const staxi_cuda_side *s = &d->sides[1];
    const staxi_loop_axis inner = s->axes[s->n_axes - 1];
    const uint32_t list = d->acc->after;
    const uint64_t id = staxi_var_id(e, inner.var);
    const bool four =
        staxi_cuda_is_multiple(u, inner.extent, 4) && staxi_cuda_only_stores(u->trees, list);
    staxi_cuda_near near_;
    memset(&near_, 0, sizeof near_);
    if (four) {
        staxi_cuda_near_of(u, &near_, list, inner.var, true);
        staxi_line(e);
        staxi_put(u->t, "if (column >= columns) continue;\n");
        staxi_line(e);
        staxi_put(u->t, "int64_t rest = column;\n");
        staxi_cuda_counters(u, s->axes, s->n_axes, "const int64_t j", "");
        for (int a = 0; a + 1 < s->n_axes; a++) {
            staxi_line(e);
            staxi_putf(u->t, "const int64_t i%U = j%U;\n", staxi_var_id(e, s->axes[a].var),
                       staxi_var_id(e, s->axes[a].var));
        }
        staxi_line(e);
        staxi_putf(u->t, "const int64_t base = j%U;\n", id);
        staxi_cuda_four_give(u, list, inner.var, id, true);
        staxi_cuda_four_take(u, &near_, id);
    }
    staxi_cuda_unrolled(u, "j", 4);
    staxi_line(e);
    if (four) {
        staxi_putf(u->t, "const int64_t i%U = base + j;\n", id);
    } else {
        staxi_put(u->t, "int64_t rest = column + j;\n");
        staxi_line(e);
        staxi_put(u->t, "if (rest >= columns) continue;\n");
        staxi_cuda_counters(u, s->axes, s->n_axes, "const int64_t i", "");
    }
    staxi_line(e);
    staxi_putf(u->t, "const %s r%U = %s;\n", staxi_acc_type(e, d->fma.dtype), (uint64_t)d->fma.ref,
               value);
    if (four)
        staxi_cuda_four_body(u, &near_, list, inner.var);
    else
        staxi_cuda_scoped_list(u, list);
    staxi_cuda_close(u, 1);
    if (four) staxi_cuda_four_give(u, list, inner.var, id, false);
    staxi_cuda_near_free(u, &near_);
}

/* All results of a tile, four rows after the other, or one where the code is long: the next ones
   move to the front, so that the code of these does for all. */
static void staxi_cuda_dot_finish(staxi_cuda_unit *u, const staxi_cuda_dot *d) {
    staxi_emit *e = &u->e;
    const staxi_cuda_tile t = d->tile;
    const int each = staxi_cuda_list_code(u, d->acc->after) <= STAXI_CUDA_QUICK_CODE ? 4 : 1;
    staxi_put(u->t, "#pragma unroll 1\n");
    staxi_line(e);
    staxi_putf(u->t, "for (int r = 0; r < %d; r += %d) {\n", t.own_rows, each);
    e->indent++;
    staxi_cuda_unrolled(u, "o", each);
    staxi_line(e);
    staxi_putf(u->t, "int64_t rest = row0 + (r + o) / 4 * %d + tx * 4 + (r + o) %% 4;\n",
               t.rows / (t.own_rows / 4));
    staxi_line(e);
    staxi_put(u->t, "if (rest >= rows) break;\n");
    staxi_cuda_counters(u, d->sides[0].axes, d->sides[0].n_axes, "const int64_t i", "");
    staxi_cuda_unrolled(u, "g", t.own_columns / 4);
    staxi_line(e);
    staxi_putf(u->t, "const int64_t column = column0 + g * %d + ty * 4;\n",
               t.columns / (t.own_columns / 4));
    staxi_cuda_dot_results(u, d, "c[o][g * 4 + j]");
    staxi_cuda_close(u, 2);
    staxi_cuda_unrolled(u, "i", t.own_rows - each);
    staxi_line(e);
    staxi_putf(u->t, "for (int j = 0; j < %d; j++) c[i][j] = c[i + %d][j];\n", t.own_columns, each);
    staxi_cuda_close(u, 2);
}

/* Which tile the block has: bands of rows, so that what neighbours read stays in the cache. */
static void staxi_cuda_dot_place(staxi_cuda_unit *u, const staxi_cuda_dot *d) {
    const staxi_cuda_tile t = d->tile;
    staxi_cuda_size(u, "rows", d->sides[0].count);
    staxi_cuda_size(u, "columns", d->sides[1].count);
    staxi_cuda_size(u, "depth", d->depth.extent);
    staxi_putf(u->t,
               "        const int64_t high = (rows + %d) / %d, wide = (columns + %d) / %d, tile = "
               "sx_digit(&rest, high * wide);\n",
               t.rows - 1, t.rows, t.columns - 1, t.columns);
    staxi_putf(u->t,
               "        const int64_t band = tile / (wide * %d) * %d, lines = sx_imin(%d, high - "
               "band), spot = tile - band * wide;\n",
               STAXI_CUDA_BAND, STAXI_CUDA_BAND, STAXI_CUDA_BAND);
    staxi_putf(u->t,
               "        const int64_t row0 = (band + spot %% lines) * %d, column0 = spot / lines * "
               "%d;\n",
               t.rows, t.columns);
    if (d->splits > 1)
        staxi_putf(
            u->t,
            "        const int64_t split = sx_digit(&rest, %d), batch = rest, each = (depth + "
            "%d) / %d * %d, from = split * each, to = sx_imin(from + each, depth);\n",
            d->splits, d->splits * t.depth - 1, d->splits * t.depth, t.depth);
    else if (d->tensor == STAXI_CUDA_WGMMA)
        staxi_put(u->t, "        const int64_t from = 0, to = depth;\n");
    staxi_cuda_counters(u, d->batches, d->n_batches, "const int64_t i", "");
}

/* xl, yl: what the thread loads next; c: its chains; q: the sum of those of full blocks. */
static void staxi_cuda_dot_arrays(staxi_cuda_unit *u, const staxi_cuda_dot *d) {
    staxi_emit *e = &u->e;
    const staxi_cuda_tile t = d->tile;
    const char *type = staxi_acc_type(e, d->fma.dtype);
    staxi_line(e);
    staxi_putf(u->t, "__align__(16) %s xl[%d], yl[%d];\n", type,
               d->sides[0].slots * d->sides[0].width, d->sides[1].slots * d->sides[1].width);
    staxi_line(e);
    staxi_putf(u->t, d->blocks ? "%s c[%d][%d], q[%d][%d];\n" : "%s c[%d][%d];\n", type, t.own_rows,
               t.own_columns, t.own_rows, t.own_columns);
    staxi_cuda_unrolled(u, "i", t.own_rows);
    staxi_line(e);
    staxi_putf(u->t, "for (int j = 0; j < %d; j++) c[i][j] = ", t.own_columns);
    staxi_emit_const(e, d->fma.dtype, staxi_identity_bits(d->fma.combine, d->fma.dtype));
    staxi_put(u->t, ";\n");
    if (d->blocks) {
        staxi_line(e);
        staxi_putf(u->t, "for (int j = 0; j < %d; j++) q[i][j] = ", t.own_columns);
        staxi_emit_const(e, d->fma.dtype, staxi_empty_bits(&d->fma));
        staxi_put(u->t, ";\n");
    }
    staxi_cuda_close(u, 1);
}

/* Loads part after part, and multiplies each while the next one is under way. */
static void staxi_cuda_dot_loop(staxi_cuda_unit *u, const staxi_cuda_dot *d) {
    staxi_emit *e = &u->e;
    staxi_putf(u->t,
               "        for (int64_t k0 = 0;; k0 += %d) {\n            const int now = (int)(k0 / "
               "%d) & 1;\n"
               "            if (k0 < depth) {\n",
               d->tile.depth, d->tile.depth);
    e->indent = 4;
    for (int side = 0; side < 2; side++) staxi_cuda_dot_load(u, d, side);
    staxi_put(u->t, "            }\n            if (k0 > 0) {\n");
    staxi_cuda_dot_multiply(u, d);
    staxi_put(u->t, "            }\n            if (k0 >= depth) break;\n");
    e->indent = 3;
    for (int side = 0; side < 2; side++) staxi_cuda_dot_share(u, d, side);
    staxi_put(u->t, "            __syncthreads();\n        }\n");
    e->indent = 2;
}

static staxi_cuda_launch *staxi_cuda_dot_begin(staxi_cuda_unit *u, uint32_t list,
                                               const staxi_cuda_dot *d) {
    u->at_once = d->tile.at_once;
    staxi_cuda_launch *l = staxi_cuda_begin(u, STAXI_CUDA_CONTRACT, list, "blockIdx.x", d->threads);
    if (!l) return NULL;
    l->threads = d->threads;
    l->count = staxi_ix_mul(&u->p->ix, staxi_cuda_pieces(u, d->sides[0].count, d->tile.rows),
                            staxi_cuda_pieces(u, d->sides[1].count, d->tile.columns));
    for (int k = 0; k < d->n_batches; k++)
        l->count = staxi_ix_mul(&u->p->ix, l->count, d->batches[k].extent);
    if (d->splits > 1)
        l->count = staxi_ix_mul(&u->p->ix, l->count, staxi_ix_const(&u->p->ix, d->splits));
    return l;
}

static void staxi_cuda_contract(staxi_cuda_unit *u, uint32_t list, staxi_cuda_dot *d) {
    staxi_emit *e = &u->e;
    const staxi_cuda_tile t = d->tile;
    staxi_cuda_launch *l = staxi_cuda_dot_begin(u, list, d);
    if (!l) return;
    const char *type = staxi_acc_type(e, d->fma.dtype);
    const int64_t lines[2] = {t.rows + 4, t.columns + 4},
                  bytes = 2 * t.depth * (lines[0] + lines[1]) *
                          (int64_t)staxi_dtype_bytes((stax_dtype)d->fma.dtype);
    if (bytes > STAXI_CUDA_SHARED_FIXED) {
        l->shared = bytes;
        staxi_put(u->t, "    extern __shared__ __align__(16) unsigned char sx_room[];\n");
        for (int side = 0; side < 2; side++)
            staxi_putf(u->t,
                       "    %s(*const %cs)[%d][%D] = (%s(*)[%d][%D])(void *)(sx_room + %D);\n",
                       type, side ? 'y' : 'x', t.depth, lines[side], type, t.depth, lines[side],
                       side ? bytes / (lines[0] + lines[1]) * lines[0] : 0);
    } else {
        staxi_putf(u->t, "    __shared__ __align__(16) %s xs[2][%d][%D], ys[2][%d][%D];\n", type,
                   t.depth, lines[0], t.depth, lines[1]);
    }
    staxi_putf(u->t,
               "    const int warp = (int)threadIdx.x / 32, tx = warp / %d * 4 + (int)threadIdx.x "
               "%% 32 / 8, "
               "ty = warp %% %d * 8 + (int)threadIdx.x %% 8;\n",
               t.columns / t.own_columns / 8, t.columns / t.own_columns / 8);
    for (int side = 0; side < 2; side++) staxi_cuda_dot_loads(u, d, &d->sides[side]);
    staxi_cuda_flat(u, l->count, "blockIdx.x", "gridDim.x");
    staxi_cuda_dot_place(u, d);
    for (int side = 0; side < 2; side++) staxi_cuda_dot_spots(u, d, side);
    staxi_cuda_dot_arrays(u, d);
    staxi_cuda_dot_loop(u, d);
    if (d->blocks || staxi_may_be_empty(e, d->depth.extent)) {
        staxi_cuda_unrolled(u, "i", t.own_rows);
        staxi_line(e);
        staxi_putf(u->t, "for (int j = 0; j < %d; j++) %sc[i][j] = ", t.own_columns,
                   d->blocks ? "" : "if (depth <= 0) ");
        if (d->blocks)
            staxi_put(u->t, "q[i][j]");
        else
            staxi_emit_const(e, d->fma.dtype, staxi_empty_bits(&d->fma));
        staxi_put(u->t, ";\n");
        staxi_cuda_close(u, 1);
    }
    staxi_cuda_dot_finish(u, d);
    staxi_put(u->t, "        __syncthreads();\n    }\n");
    staxi_cuda_end(u);
    for (int side = 0; side < 2; side++) staxi_cuda_near_free(u, &d->sides[side].near_);
}

/* ---- contractions on tensor cores ----
   Where both operands are f16 or bf16 that only the contraction makes f32, and the caller allows
   it: wgmma of sm_90a. Parts of 64 steps of k lie in shared memory in rows of 128 bytes whose
   pieces of 16 are swizzled, along k or across it as the operand lies in memory. Four warps fill
   parts, by the copy engine where an operand lies as it should (the launch's maps say), else
   piece by piece; two times four multiply them, 64 rows each. Gates tell when a part is filled and
   when it is free. The blocks stay, and go from tile to tile; few tiles are split along k, and a
   second kernel adds the sums in order: one rounding more for each split. The results of a warp go
   through shared memory to threads that have neighbours. */

enum {
    STAXI_CUDA_WGMMA_DEPTH = 64,
    STAXI_CUDA_WGMMA_ROWS = 128,
    STAXI_CUDA_WGMMA_STAGES = 8,        /* at most */
    STAXI_CUDA_WGMMA_ROOM = 192 * 1024, /* for them */
    STAXI_CUDA_WGMMA_SPLITS = 8,
    STAXI_CUDA_WGMMA_LEAST = 8,  /* parts of a split */
    STAXI_CUDA_WGMMA_FILL = 128, /* threads */
    STAXI_CUDA_WGMMA_THREADS = 384,
    STAXI_CUDA_WGMMA_WARPS = 8,        /* that multiply */
    STAXI_CUDA_WGMMA_PIECE = 8,        /* elements of 16 bytes */
    STAXI_CUDA_WGMMA_BLOCK = 64 * 128, /* bytes of 64 steps of k of 64 rows or columns */
    STAXI_CUDA_WGMMA_LINE = 64 + 4     /* floats of a line of results, 16 lines a warp */
};

/* clang-format off */
static const char *const staxi_cuda_lines_wgmma[] = {
    "#ifndef SX_OWN_TENSOR",
    "typedef struct __align__(64) sx_map { unsigned char bytes[128]; } sx_map;",
    "SX_INLINE uint32_t sx_shared(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }",
    "/* A gate opens when n threads have arrived and all bytes that it expects. */",
    "SX_INLINE void sx_gate(uint64_t *g, int n) {",
    "    asm volatile(\"mbarrier.init.shared::cta.b64 [%0], %1;\" ::\"r\"(sx_shared(g)), \"r\"(n) : \"memory\");",
    "}",
    "SX_INLINE void sx_gates() { asm volatile(\"fence.mbarrier_init.release.cluster;\" ::: \"memory\"); }",
    "SX_INLINE void sx_arrive(uint64_t *g) {",
    "    asm volatile(\"mbarrier.arrive.shared::cta.b64 _, [%0];\" ::\"r\"(sx_shared(g)) : \"memory\");",
    "}",
    "SX_INLINE void sx_expect(uint64_t *g, int bytes) {",
    "    asm volatile(\"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;\" ::\"r\"(sx_shared(g)), \"r\"(bytes) : \"memory\");",
    "}",
    "/* Waits until the gate has opened an odd (0) or an even (1) number of times. */",
    "SX_INLINE void sx_pass(uint64_t *g, int even) {",
    "    uint32_t open;",
    "    do {",
    "        asm volatile(\"{\\n.reg .pred p;\\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\\nselp.b32 %0, 1, 0, p;\\n}\" : \"=r\"(open) : \"r\"(sx_shared(g)), \"r\"(even) : \"memory\");",
    "    } while (!open);",
    "}",
    "/* The box of the map at these places into shared memory, zeros behind its ends. */",
    "SX_INLINE void sx_copy(unsigned char *to, const sx_map *map, uint64_t *g, int64_t x, int64_t y, int64_t z, int64_t w) {",
    "    asm volatile(\"cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];\" ::\"r\"(sx_shared(to)), \"l\"(map), \"r\"(sx_shared(g)), \"r\"((int)x), \"r\"((int)y), \"r\"((int)z), \"r\"((int)w) : \"memory\");",
    "}",
    "/* Eight neighbours into shared memory, or zeros. */",
    "template <class T> SX_INLINE void sx_piece(unsigned char *to, const T *p, bool there) {",
    "    __align__(16) T x[8] = {0, 0, 0, 0, 0, 0, 0, 0};",
    "    if (there && ((uint64_t)p & 15) == 0) {",
    "        sx_four((uint32_t *)(void *)x, (const uint32_t *)(const void *)p);",
    "    } else if (there) {",
    "#pragma unroll",
    "        for (int j = 0; j < 8; j++) x[j] = p[j];",
    "    }",
    "    sx_four((uint32_t *)(void *)to, (const uint32_t *)(const void *)x);",
    "}",
    "/* What this thread wrote is seen by the tensor cores. */",
    "SX_INLINE void sx_seen() { asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\"); }",
    "/* Registers of the threads of a warpgroup from here on. */",
    "template <int N> SX_INLINE void sx_fewer() { asm volatile(\"setmaxnreg.dec.sync.aligned.u32 %0;\" ::\"n\"(N)); }",
    "template <int N> SX_INLINE void sx_more() { asm volatile(\"setmaxnreg.inc.sync.aligned.u32 %0;\" ::\"n\"(N)); }",
    "SX_INLINE void sx_begin() { asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\"); }",
    "/* Ends a group of products; N groups may still be at work. */",
    "template <int N> SX_INLINE void sx_end() {",
    "    asm volatile(\"wgmma.commit_group.sync.aligned;\\nwgmma.wait_group.sync.aligned %0;\" ::\"n\"(N) : \"memory\");",
    "}",
    "/* Swizzled rows of 128 bytes; `lead`: bytes from 64 rows or columns to the next, where they lie across k. */",
    "SX_INLINE uint64_t sx_descriptor(const void *p, int lead) {",
    "    return (uint64_t)(sx_shared(p) >> 4 & 0x3fff) | (uint64_t)(lead >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;",
    "}",
    "#endif",
    NULL};
/* clang-format on */

/* Where no tile gives all multiprocessors work, several blocks share the steps of k of one. */
static void staxi_cuda_wgmma_tile(staxi_cuda_unit *u, staxi_cuda_dot *d) {
    staxi_ix rows = staxi_cuda_pieces(u, d->sides[0].count, STAXI_CUDA_WGMMA_ROWS);
    double n = staxi_extent_guess(u->p, rows), cost[3];
    int table = 0;
    for (int k = 0; k < d->n_batches; k++) n *= staxi_extent_guess(u->p, d->batches[k].extent);
    for (int k = 0; k < 3; k++) {
        cost[k] = staxi_cuda_tile_cost(u, d, STAXI_CUDA_WGMMA_ROWS, 256 >> k, 100 - 15 * k);
        if (cost[k] < cost[table]) table = k;
    }
    memset(&d->tile, 0, sizeof d->tile);
    d->tile.rows = STAXI_CUDA_WGMMA_ROWS;
    d->tile.columns = 256 >> staxi_cuda_choose(u, 3, table);
    n *= staxi_extent_guess(u->p, staxi_cuda_pieces(u, d->sides[1].count, d->tile.columns));
    d->tile.depth = STAXI_CUDA_WGMMA_DEPTH;
    d->tile.at_once = 1;
    d->stages = STAXI_CUDA_WGMMA_ROOM / ((d->tile.rows + d->tile.columns) * 128);
    if (d->stages > STAXI_CUDA_WGMMA_STAGES) d->stages = STAXI_CUDA_WGMMA_STAGES;
    d->splits = 1;
    while (n * d->splits < (double)STAXI_CUDA_ENOUGH && d->splits < STAXI_CUDA_WGMMA_SPLITS &&
           staxi_extent_guess(u->p, d->depth.extent) >=
               2 * d->splits * STAXI_CUDA_WGMMA_LEAST * STAXI_CUDA_WGMMA_DEPTH)
        d->splits *= 2;
    d->threads = STAXI_CUDA_WGMMA_THREADS;
    d->sides[0].size = d->tile.rows;
    d->sides[1].size = d->tile.columns;
}

/* Is the operand memory where `width` elements lie side by side, along k or across it? */
static void staxi_cuda_plain_side(staxi_cuda_unit *u, const staxi_cuda_dot *d, staxi_cuda_side *s,
                                  int width) {
    const staxi_expr_node *n = &u->p->exprs[s->x];
    const staxi_loop_axis inner = s->axes[s->n_axes - 1];
    const staxi_ix at = n->kind == STAXI_EX_LOAD ? staxi_flat_index(u->p, n->ref, n->ix) : 0;
    s->width = width;
    s->along = s->plain = at && staxi_cuda_is_near(u, at, d->depth.var) &&
                          staxi_cuda_is_multiple(u, d->depth.extent, s->width);
    if (s->plain) return;
    s->plain = at && staxi_cuda_is_near(u, at, inner.var) &&
               staxi_cuda_is_multiple(u, inner.extent, s->width);
}

/* Pieces are copied as they lie; else they are computed, along k. */
static void staxi_cuda_wgmma_loads(staxi_cuda_unit *u, const staxi_cuda_dot *d,
                                   staxi_cuda_side *s) {
    staxi_cuda_plain_side(u, d, s, STAXI_CUDA_WGMMA_PIECE);
    s->along = s->along || !s->plain;
}

/* ix = step * var + what is left in ix, and step is the same for the whole call. */
static bool staxi_cuda_map_step(staxi_cuda_unit *u, staxi_ix *ix, staxi_ix var, staxi_ix *step) {
    const staxi_ix from = *ix;
    return staxi_ix_affine(&u->p->ix, from, var, step, ix) &&
           !staxi_ix_has_vars(&u->p->ix, *step) && !staxi_ix_has_values(&u->p->ix, *step);
}

/* How the copy engine reads an operand: along memory, then rows or k, then at most two batches; map
   stays empty where it cannot. */
static void staxi_cuda_wgmma_map(staxi_cuda_unit *u, staxi_cuda_dot *d, int side,
                                 staxi_cuda_view *map) {
    staxi_cuda_side *s = &d->sides[side];
    const staxi_expr_node n = u->p->exprs[s->x];
    const staxi_ix one = staxi_ix_const(&u->p->ix, 1);
    staxi_cuda_view m;
    staxi_ix step;
    int64_t c;
    memset(map, 0, sizeof *map);
    memset(&m, 0, sizeof m);
    if (!s->plain || s->n_axes != 1 || u->p->buffers[n.ref].scope == STAXI_SCOPE_CONST ||
        u->p->buffers[n.ref].scope == STAXI_SCOPE_ROW)
        return;
    const staxi_loop_axis axes[2] = {s->along ? d->depth : s->axes[0],
                                     s->along ? s->axes[0] : d->depth};
    m.first = staxi_flat_index(u->p, n.ref, n.ix);
    for (int k = 0; k < 2; k++) {
        if (!staxi_cuda_map_step(u, &m.first, axes[k].var, &m.step[k])) return;
        m.size[k] = axes[k].extent;
    }
    for (int k = 0; k < d->n_batches; k++) {
        if (!staxi_cuda_map_step(u, &m.first, d->batches[k].var, &step)) return;
        if (staxi_ix_is_const(&u->p->ix, step, &c) && c == 0) continue;
        if (m.n == 2) return;
        s->places[m.n] = d->batches[k].var;
        m.size[2 + m.n] = d->batches[k].extent;
        m.step[2 + m.n++] = step;
    }
    for (int k = 2 + m.n; k < 4; k++) m.size[k] = one, m.step[k] = 0;
    if (staxi_ix_has_vars(&u->p->ix, m.first) || staxi_ix_has_values(&u->p->ix, m.first)) return;
    m.box = s->along ? s->size : STAXI_CUDA_WGMMA_DEPTH;
    m.buffer = n.ref;
    *map = m;
}

/* sx_mma_<kernel>: adds to d the product of 64 rows and all columns of 16 steps of k. */
static void staxi_cuda_wgmma_function(staxi_cuda_unit *u, const staxi_cuda_dot *d) {
    const int n = d->tile.columns / 2;
    const uint64_t number = u->n_launches;
    const bool f16 = u->p->exprs[d->sides[0].x].dtype == STAX_F16;
    const int across[2] = {!d->sides[0].along, !d->sides[1].along};
    staxi_putf(
        u->t,
        "\nSX_INLINE void sx_mma_%U(float *d, const unsigned char *x, const unsigned char *y) "
        "{\n#ifdef SX_OWN_TENSOR\n    sx_own_mma(d, %d, %d, x, %d, y, %d, %d);\n#else\n",
        number, d->tile.columns, f16 ? 1 : 0, across[0], across[1], STAXI_CUDA_WGMMA_BLOCK);
    staxi_putf(u->t,
               "    asm volatile(\"{\\n.reg .pred p;\\nsetp.ne.b32 p, 1, 0;\\n\"\n        "
               "\"wgmma.mma_async.sync.aligned.m64n%dk16.f32.%s.%s {",
               d->tile.columns, f16 ? "f16" : "bf16", f16 ? "f16" : "bf16");
    for (int k = 0; k < n; k++) staxi_putf(u->t, k ? ", %%%d" : "%%%d", k);
    staxi_putf(u->t, "}, %%%d, %%%d, p, 1, 1, %d, %d;\\n}\"\n        : ", n, n + 1, across[0],
               across[1]);
    for (int k = 0; k < n; k++) staxi_putf(u->t, k ? ", \"+f\"(d[%d])" : "\"+f\"(d[%d])", k);
    staxi_putf(u->t,
               "\n        : \"l\"(sx_descriptor(x, %d)), \"l\"(sx_descriptor(y, %d)) : "
               "\"memory\");\n#endif\n}\n",
               STAXI_CUDA_WGMMA_BLOCK, STAXI_CUDA_WGMMA_BLOCK);
}

/* One piece of a thread: where it goes, and what is there. */
static void staxi_cuda_wgmma_piece(staxi_cuda_unit *u, const staxi_cuda_dot *d, int side) {
    staxi_emit *e = &u->e;
    const staxi_cuda_side *s = &d->sides[side];
    const staxi_expr_node n = u->p->exprs[s->x];
    const uint64_t k = staxi_var_id(e, d->depth.var);
    const int line = s->size / s->width;
    staxi_line(e);
    if (s->along)
        staxi_put(u->t,
                  "unsigned char *const to = part + v / 8 * 128 + (v % 8 ^ v / 8 % 8) * 16;\n");
    else
        staxi_putf(
            u->t,
            "unsigned char *const to = part + v %% %d / 8 * %d + v / %d * 128 + (v %% 8 ^ v / "
            "%d %% 8) * 16;\n",
            line, STAXI_CUDA_WGMMA_BLOCK, line, line);
    staxi_line(e);
    if (s->along)
        staxi_put(u->t, "const int64_t base = k0 + v % 8 * 8;\n");
    else
        staxi_putf(u->t, "const int64_t i%U = k0 + v / %d;\n", k, line);
    if (s->plain) {
        staxi_line(e);
        if (s->along) staxi_putf(u->t, "const int64_t i%U = base;\n", k);
        staxi_line(e);
        staxi_putf(u->t, "sx_piece(to, b%U + ", (uint64_t)n.ref);
        staxi_emit_ix(e, staxi_flat_index(u->p, n.ref, n.ix));
        staxi_putf(u->t, ", inside && i%U < depth);\n", k);
        return;
    }
    staxi_line(e);
    staxi_put(u->t, "__align__(16) uint16_t w[8];\n");
    staxi_cuda_unrolled(u, "j", s->width);
    staxi_line(e);
    staxi_putf(u->t, "const int64_t i%U = base + j;\n", k);
    staxi_line(e);
    staxi_putf(u->t, "w[j] = 0;\n");
    staxi_line(e);
    staxi_putf(u->t, "if (i%U >= depth) continue;\n", k);
    size_t scope = staxi_emit_scope_open(e);
    staxi_emit_value(e, s->x);
    staxi_line(e);
    staxi_put(u->t, "w[j] = (uint16_t)");
    staxi_emit_operand(e, s->x);
    staxi_put(u->t, ";\n");
    staxi_emit_scope_close(e, scope);
    staxi_cuda_close(u, 1);
    staxi_line(e);
    staxi_put(u->t, "sx_four((uint32_t *)(void *)to, (const uint32_t *)(const void *)w);\n");
}

/* The part of an operand that begins at k0, piece by piece. */
static void staxi_cuda_wgmma_pieces(staxi_cuda_unit *u, const staxi_cuda_dot *d, int side) {
    staxi_emit *e = &u->e;
    const staxi_cuda_side *s = &d->sides[side];
    const int across = s->along ? 1 : s->width, line = s->size / s->width;
    staxi_put(u->t, "#pragma unroll 4\n");
    staxi_line(e);
    staxi_putf(u->t, "for (int v = (int)threadIdx.x; v < %d; v += %d) {\n",
               s->size * STAXI_CUDA_WGMMA_DEPTH / s->width, STAXI_CUDA_WGMMA_FILL);
    e->indent++;
    staxi_line(e);
    staxi_putf(u->t, "int64_t rest = %s0 + ", side ? "column" : "row");
    if (s->along)
        staxi_put(u->t, "v / 8;\n");
    else
        staxi_putf(u->t, "v %% %d * %d;\n", line, across);
    staxi_line(e);
    staxi_putf(u->t, "const bool inside = rest < %s;\n", side ? "columns" : "rows");
    staxi_line(e);
    staxi_putf(u->t, "rest = sx_imin(rest, %s - %d);\n", side ? "columns" : "rows", across);
    staxi_cuda_counters(u, s->axes, s->n_axes, "const int64_t i", "");
    staxi_cuda_wgmma_piece(u, d, side);
    staxi_cuda_close(u, 1);
}

/* The same by the copy engine: one box, or one of each 64 rows or columns. */
static void staxi_cuda_wgmma_copy(staxi_cuda_unit *u, const staxi_cuda_dot *d,
                                  const staxi_cuda_view *map, int side) {
    const staxi_cuda_side *s = &d->sides[side];
    const int boxes = s->along ? 1 : s->size / 64;
    const char *first = side ? "column0" : "row0";
    staxi_cuda_unrolled(u, "j", boxes);
    staxi_line(&u->e);
    staxi_putf(u->t, "sx_copy(part + j * %d, &%cmap, &filled[stage], ", STAXI_CUDA_WGMMA_BLOCK,
               side ? 'y' : 'x');
    staxi_putf(u->t, s->along ? "k0, %s" : "%s + j * 64, k0", first);
    for (int k = 0; k < 2; k++) {
        if (k < map->n)
            staxi_putf(u->t, ", i%U", staxi_var_id(&u->e, s->places[k]));
        else
            staxi_put(u->t, ", 0");
    }
    staxi_put(u->t, ");\n");
    staxi_cuda_close(u, 1);
}

/* The four warps that fill parts, of all tiles of the block. */
static void staxi_cuda_wgmma_fill(staxi_cuda_unit *u, const staxi_cuda_dot *d,
                                  const staxi_cuda_launch *l) {
    staxi_emit *e = &u->e;
    const int bytes[2] = {d->tile.rows * 128, d->tile.columns * 128};
    staxi_cuda_flat(u, l->count, "blockIdx.x", "gridDim.x");
    staxi_cuda_dot_place(u, d);
    staxi_putf(u->t,
               "#pragma unroll 1\n        for (int64_t k0 = from; k0 < to; k0 += %d, turn++) {\n   "
               "         const int stage = (int)turn %% %d;\n            unsigned char *part = "
               "sx_room + stage * %d;\n            sx_pass(&freed[stage], turn / %d %% 2 ^ 1);\n",
               STAXI_CUDA_WGMMA_DEPTH, d->stages, bytes[0] + bytes[1], d->stages);
    e->indent = 3;
    for (int side = 0; side < 2; side++) {
        const bool maps = l->maps[side].buffer != 0;
        if (maps) {
            staxi_line(e);
            staxi_putf(u->t, "if (maps & %d) {\n", 1 << side);
            e->indent++;
            staxi_line(e);
            staxi_put(u->t, "if (threadIdx.x == 0) {\n");
            e->indent++;
            staxi_line(e);
            staxi_putf(u->t, "sx_expect(&filled[stage], %d);\n", bytes[side]);
            staxi_cuda_wgmma_copy(u, d, &l->maps[side], side);
            staxi_cuda_close(u, 2);
            staxi_line(e);
            staxi_put(u->t, "else {\n");
            e->indent++;
        }
        staxi_cuda_wgmma_pieces(u, d, side);
        staxi_line(e);
        staxi_put(u->t, "sx_seen();\n");
        if (maps) staxi_cuda_close(u, 1);
        if (!side) staxi_putf(u->t, "            part += %d;\n", bytes[0]);
    }
    staxi_put(u->t,
              "            __syncwarp();\n            if (threadIdx.x % 32 == 0) "
              "sx_arrive(&filled[stage]);\n        }\n    }\n");
    e->indent = 1;
}

/* The products of a tile: one part's while the one before is finished, which is then free. */
static void staxi_cuda_wgmma_loop(staxi_cuda_unit *u, const staxi_cuda_dot *d) {
    const int rows = d->tile.rows, bytes = (rows + d->tile.columns) * 128;
    const uint64_t number = u->n_launches - 1;
    const char *free_one = "if (threadIdx.x % 32 == 0) sx_arrive(&freed[(turn - 1) % ";
    staxi_putf(u->t,
               "        float d[%d];\n#pragma unroll\n        for (int j = 0; j < %d; j++) d[j] = "
               "0;\n#pragma unroll 1\n        for (int64_t k0 = from; k0 < to; k0 += %d, turn++) "
               "{\n            const int stage = (int)turn %% %d;\n            const unsigned char "
               "*const x = sx_room + stage * %d, *const y = x + %d;\n            "
               "sx_pass(&filled[stage], turn / %d %% 2);\n            sx_begin();\n",
               d->tile.columns / 2, d->tile.columns / 2, STAXI_CUDA_WGMMA_DEPTH, d->stages, bytes,
               rows * 128, d->stages);
    staxi_putf(
        u->t,
        "#pragma unroll\n            for (int k = 0; k < 4; k++) sx_mma_%U(d, x + group * %d + "
        "k * %d, y + k * %d);\n            sx_end<1>();\n            if (k0 > from) {\n            "
        "   "
        " %s%d]);\n            }\n        }\n",
        number, STAXI_CUDA_WGMMA_BLOCK, d->sides[0].along ? 32 : 2048,
        d->sides[1].along ? 32 : 2048, free_one, d->stages);
    staxi_putf(u->t,
               "        sx_begin();\n        sx_end<0>();\n        if (from < to) {\n            "
               "%s%d]);\n        }\n",
               free_one, d->stages);
}

/* How many products of rows and columns there are. */
static void staxi_cuda_batches(staxi_cuda_unit *u, const staxi_cuda_dot *d) {
    staxi_ix n = staxi_ix_const(&u->p->ix, 1);
    for (int k = 0; k < d->n_batches; k++) n = staxi_ix_mul(&u->p->ix, n, d->batches[k].extent);
    staxi_put(u->t, "(");
    staxi_emit_ix(&u->e, n);
    staxi_put(u->t, ")");
}

/* Four results of a row of a tile, c, with the indices of their row. */
static void staxi_cuda_dot_fours(staxi_cuda_unit *u, const staxi_cuda_dot *d) {
    staxi_cuda_counters(u, d->sides[0].axes, d->sides[0].n_axes, "const int64_t i", "");
    staxi_line(&u->e);
    staxi_put(u->t, "{\n");
    u->e.indent++;
    staxi_cuda_dot_results(u, d, "c[j]");
    staxi_cuda_close(u, 2);
}

/* Registers of a warp: 16 rows of it, pairs of columns; then four neighbours a thread, 64 columns
   after the other: the next ones move to the front. */
static void staxi_cuda_wgmma_finish(staxi_cuda_unit *u, const staxi_cuda_dot *d) {
    staxi_emit *e = &u->e;
    const int line = STAXI_CUDA_WGMMA_LINE, left = d->tile.columns / 2 - 32;
    staxi_putf(
        u->t,
        "#pragma unroll 1\n        for (int part = 0; part < %d; part++) {\n#pragma unroll\n"
        "            for (int j = 0; j < 16; j++) {\n                float *const at = mine + "
        "(lane "
        "/ 4 + j %% 2 * 8) * %d + lane %% 4 * 2 + j / 2 * 8;\n                at[0] = d[j * 2];\n"
        "                at[1] = d[j * 2 + 1];\n            }\n            __syncwarp();\n#pragma "
        "unroll 2\n",
        d->tile.columns / 64, line);
    staxi_putf(
        u->t,
        "            for (int v = lane; v < 256; v += 32) {\n                int64_t rest = row0 + "
        "warp * 16 + v / 16;\n                const int64_t column = column0 + part * 64 + v %% 16 "
        "* 4;\n                if (rest >= rows) break;\n                __align__(16) float "
        "c[4];\n                sx_four(c, mine + v / 16 * %d + v %% 16 * 4);\n",
        line);
    e->indent = 4;
    if (d->splits > 1) {
        staxi_line(e);
        staxi_put(u->t, "float *const to_sum = (float *)(void *)sx->parts + ((split * ");
        staxi_cuda_batches(u, d);
        staxi_put(u->t, " + batch) * rows + rest) * columns + column;\n");
        staxi_line(e);
        staxi_put(u->t, "if (column + 4 <= columns)\n                    sx_give(to_sum, c);\n");
        staxi_line(e);
        staxi_put(u->t,
                  "else\n                    for (int j = 0; j < 4 && column + j < columns; j++) "
                  "to_sum[j] = c[j];\n");
        staxi_cuda_close(u, 1);
    } else {
        staxi_cuda_dot_fours(u, d);
    }
    staxi_put(u->t, "            __syncwarp();\n");
    if (left > 0)
        staxi_putf(u->t,
                   "#pragma unroll\n            for (int j = 0; j < %d; j++) d[j] = d[j + 32];\n",
                   left);
    staxi_put(u->t, "        }\n");
}

/* What the blocks of a tile have left, added in order; then what follows. */
static void staxi_cuda_wgmma_sum(staxi_cuda_unit *u, uint32_t list, const staxi_cuda_dot *d) {
    staxi_emit *e = &u->e;
    staxi_ix_pool *ix = &u->p->ix;
    staxi_cuda_launch *l = staxi_cuda_begin(u, STAXI_CUDA_MAP, list, staxi_cuda_thread, 256);
    if (!l) return;
    l->count = staxi_ix_mul(ix, d->sides[0].count, staxi_cuda_pieces(u, d->sides[1].count, 4));
    for (int k = 0; k < d->n_batches; k++)
        l->count = staxi_ix_mul(ix, l->count, d->batches[k].extent);
    staxi_cuda_flat(u, l->count, staxi_cuda_thread, staxi_cuda_threads);
    staxi_cuda_size(u, "rows", d->sides[0].count);
    staxi_cuda_size(u, "columns", d->sides[1].count);
    staxi_put(u->t,
              "        const int64_t column = sx_digit(&rest, (columns + 3) / 4) * 4, row = "
              "sx_digit(&rest, rows), batch = rest, all = ");
    staxi_cuda_batches(u, d);
    staxi_putf(
        u->t,
        " * rows * columns;\n        const float *const sums = (const float *)(const void "
        "*)sx->parts + (batch * rows + row) * columns + column;\n        __align__(16) float "
        "c[4], more[4];\n        for (int part = 0; part < %d; part++) {\n            if "
        "(column + 4 <= columns)\n                sx_take(more, sums + part * all);\n"
        "            else\n                for (int j = 0; j < 4 && column + j < columns; j++) "
        "more[j] = sums[part * all + j];\n            for (int j = 0; j < 4; j++) c[j] = part ? "
        "c[j] + more[j] : more[j];\n        }\n",
        d->splits);
    staxi_cuda_counters(u, d->batches, d->n_batches, "const int64_t i", "");
    staxi_line(e);
    staxi_put(u->t, "rest = row;\n");
    staxi_cuda_counters(u, d->sides[0].axes, d->sides[0].n_axes, "const int64_t i", "");
    staxi_line(e);
    staxi_put(u->t, "{\n");
    e->indent++;
    staxi_cuda_dot_results(u, d, "c[j]");
    staxi_cuda_close(u, 1);
    staxi_put(u->t, "    }\n");
    staxi_cuda_end(u);
}

static void staxi_cuda_wgmma(staxi_cuda_unit *u, uint32_t list, staxi_cuda_dot *d) {
    const int stages = d->stages * (d->tile.rows + d->tile.columns) * 128,
              results = 16 * STAXI_CUDA_WGMMA_LINE * 4;
    staxi_cuda_view maps[2];
    for (int side = 0; side < 2; side++) {
        staxi_cuda_wgmma_loads(u, d, &d->sides[side]);
        staxi_cuda_wgmma_map(u, d, side, &maps[side]);
    }
    staxi_cuda_wgmma_function(u, d);
    u->more =
        ", const __grid_constant__ sx_map xmap, const __grid_constant__ sx_map ymap, const "
        "int maps";
    staxi_cuda_launch *l = staxi_cuda_dot_begin(u, list, d);
    if (!l) return;
    l->shared = stages + STAXI_CUDA_WGMMA_WARPS * results;
    l->stays = true;
    memcpy(l->maps, maps, sizeof maps);
    if (d->splits > 1) {
        staxi_ix_pool *ix = &u->p->ix;
        l->parts = staxi_ix_mul(ix, d->sides[0].count, d->sides[1].count);
        l->parts = staxi_ix_mul(ix, l->parts, staxi_ix_const(ix, 4 * d->splits));
        for (int k = 0; k < d->n_batches; k++)
            l->parts = staxi_ix_mul(ix, l->parts, d->batches[k].extent);
    }
    staxi_putf(u->t,
               "    extern __shared__ __align__(1024) unsigned char sx_room[];\n    __shared__ "
               "__align__(8) uint64_t filled[%d], freed[%d];\n    if (threadIdx.x == 0) {\n        "
               "for (int j = 0; j < %d; j++) {\n            sx_gate(&filled[j], %d);\n            "
               "sx_gate(&freed[j], %d);\n        }\n        sx_gates();\n    }\n    "
               "__syncthreads();\n    uint32_t turn = 0;\n    if (threadIdx.x < %d) {\n    "
               "sx_fewer<88>();\n",
               d->stages, d->stages, d->stages, STAXI_CUDA_WGMMA_FILL / 32, STAXI_CUDA_WGMMA_WARPS,
               STAXI_CUDA_WGMMA_FILL);
    staxi_cuda_wgmma_fill(u, d, l);
    staxi_putf(
        u->t,
        "    } else {\n    sx_more<208>();\n    const int lane = (int)threadIdx.x %% 32, warp "
        "= (int)threadIdx.x / 32 - %d, group = warp / 4;\n    float *const mine = (float "
        "*)(void *)(sx_room + %d) + warp * %d;\n",
        STAXI_CUDA_WGMMA_FILL / 32, stages, results / 4);
    staxi_cuda_flat(u, l->count, "blockIdx.x", "gridDim.x");
    staxi_cuda_dot_place(u, d);
    staxi_cuda_wgmma_loop(u, d);
    staxi_cuda_wgmma_finish(u, d);
    staxi_put(u->t, "    }\n    }\n");
    staxi_cuda_end(u);
    if (d->splits > 1) staxi_cuda_wgmma_sum(u, list, d);
}

/* ---- contractions on tensor cores, a warp at a time ----
   mma.sync of sm_80 and newer, for f16 and bf16 where there is no wgmma, and for f32 rounded to
   TF32. Three parts lie in shared memory: while one is multiplied, the next two are copied, in
   chunks of 16 bytes that no thread waits for, along k or across it as the operand lies in memory;
   what is computed, or lies otherwise, goes through registers. Chunks change places so that those
   which a warp reads together lie in different banks. Four warps, two by two, have a part of the
   tile each, in pieces of 16 rows by 8 columns. */

enum {
    STAXI_CUDA_MMA_THREADS = 128,
    STAXI_CUDA_MMA_WIDE = 2, /* warps side by side, and as many one above the other */
    STAXI_CUDA_MMA_ROWS = 16,
    STAXI_CUDA_MMA_COLUMNS = 8,
    STAXI_CUDA_MMA_TILE = 128, /* or half of it                      */
    STAXI_CUDA_MMA_LINE = 16,  /* words of a row or column in a part */
    STAXI_CUDA_MMA_CHUNK = 4,  /* words                              */
    STAXI_CUDA_MMA_STAGES = 3
};

/* clang-format off */
static const char *const staxi_cuda_lines_mma[] = {
    "/* N neighbours into shared memory, at a place that is aligned to all of them. */",
    "template <int N, class T> SX_INLINE void sx_words(T *to, const T *from) {",
    "    if (N == 1) {",
    "        *to = *from;",
    "    } else if (sizeof(T) == 2) {",
    "        const uint2 w = {from[0] | (uint32_t)from[N > 1] << 16, from[N > 2 ? 2 : 0] | (uint32_t)from[N > 3 ? 3 : 0] << 16};",
    "        *(uint2 *)(void *)to = w;",
    "    } else {",
    "        const uint4 w = {from[0], from[N > 1], from[N > 2 ? 2 : 0], from[N > 3 ? 3 : 0]};",
    "        *(uint4 *)(void *)to = w;",
    "    }",
    "}",
    "/* A chunk that may lie anywhere. */",
    "template <class T> SX_INLINE void sx_odd_chunk(unsigned char *to, const T *p, bool there) {",
    "#pragma unroll",
    "    for (int j = 0; j < 16 / (int)sizeof(T); j++) ((T *)(void *)to)[j] = there ? p[j] : (T)0;",
    "}",
    "/* Where chunk c of a row of a part lies, whose rows lie along k: two of them in 128 bytes. */",
    "SX_INLINE int sx_along(int row, int c) { return row * 64 + (c ^ row / 2 % 4) * 16; }",
    "/* Where chunk c of step k of a part of N steps lies, whose rows lie across it; of TF32 two steps lie further apart. */",
    "template <int N> SX_INLINE int sx_across(int k, int c) {",
    "    return c / 8 * N * 128 + k * 128 + (c % 8 ^ (N == 32 ? k % 8 : k % 4 * 2)) * 16;",
    "}",
    "#ifndef SX_OWN_TENSOR",
    "/* Begins the copy of 16 bytes, or zeros; sx_group ends a group of copies, sx_arrived waits until N groups are under way. */",
    "SX_INLINE void sx_chunk(unsigned char *to, const void *p, bool there) {",
    "    asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\" ::\"r\"((uint32_t)__cvta_generic_to_shared(to)), \"l\"(p), \"r\"(there ? 16 : 0) : \"memory\");",
    "}",
    "SX_INLINE void sx_group() { asm volatile(\"cp.async.commit_group;\" ::: \"memory\"); }",
    "template <int N> SX_INLINE void sx_arrived() { asm volatile(\"cp.async.wait_group %0;\" ::\"n\"(N) : \"memory\"); }",
    "/* Four matrices of 8 rows of 16 bytes: the address of row l % 8 of number l / 8 is lane l's; it gets word l % 4 of row l / 4 of each. */",
    "SX_INLINE void sx_matrices(uint32_t *to, const unsigned char *p) {",
    "    asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\" : \"=r\"(to[0]), \"=r\"(to[1]), \"=r\"(to[2]), \"=r\"(to[3]) : \"r\"((uint32_t)__cvta_generic_to_shared(p)) : \"memory\");",
    "}",
    "/* The same of their transposes, of elements of 16 bits. */",
    "SX_INLINE void sx_transposes(uint32_t *to, const unsigned char *p) {",
    "    asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\" : \"=r\"(to[0]), \"=r\"(to[1]), \"=r\"(to[2]), \"=r\"(to[3]) : \"r\"((uint32_t)__cvta_generic_to_shared(p)) : \"memory\");",
    "}",
    "/* d += a b: 16 rows, 8 columns, and 16 steps of k, or 8 of TF32. */",
    "SX_INLINE void sx_mma_f16(float *d, const uint32_t *a, const uint32_t *b) {",
    "    asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\" : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3]) : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1]));",
    "}",
    "SX_INLINE void sx_mma_bf16(float *d, const uint32_t *a, const uint32_t *b) {",
    "    asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\" : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3]) : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1]));",
    "}",
    "SX_INLINE void sx_mma_tf32(float *d, const uint32_t *a, const uint32_t *b) {",
    "    asm volatile(\"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\" : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3]) : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1]));",
    "}",
    "SX_INLINE uint32_t sx_tf32(float x) {",
    "    uint32_t u;",
    "    asm(\"cvt.rna.tf32.f32 %0, %1;\" : \"=r\"(u) : \"f\"(x));",
    "    return u;",
    "}",
    "#endif",
    NULL};
/* clang-format on */

static int staxi_cuda_mma_words(const staxi_cuda_dot *d) { /* elements of a word */
    return d->tensor == STAXI_CUDA_TF32 ? 1 : 2;
}

static void staxi_cuda_mma_tile(staxi_cuda_unit *u, staxi_cuda_dot *d);

/* What tensor cores this contraction may run on. Both operands are of one 16-bit dtype that is cast
   here (then the sides have what is cast), or are f32. */
static bool staxi_cuda_tensor_of(staxi_cuda_unit *u, staxi_cuda_dot *d) {
    staxi_expr x[2];
    int dtype = STAX_F32;
    if (d->fma.dtype != STAX_F32) return false;
    for (int s = 0; s < 2; s++) {
        const staxi_expr_node *n = &u->p->exprs[d->sides[s].x];
        const bool cast = n->kind == STAXI_EX_OP && n->op == STAX_OP_CAST;
        const int from = cast ? (int)u->p->exprs[n->args[0]].dtype : (int)STAX_F32;
        x[s] = n->args[0];
        if ((from != STAX_F16 && from != STAX_BF16) || (s && from != dtype))
            dtype = STAX_F32;
        else if (!s)
            dtype = from;
    }
    if (dtype == STAX_F32)
        d->tensor = u->tensor & STAXI_CUDA_TF32;
    else
        d->tensor = u->tensor & (STAXI_CUDA_WGMMA | STAXI_CUDA_MMA);
    if (!d->tensor) return false;
    for (int s = 0; s < 2 && dtype != STAX_F32; s++) d->sides[s].x = x[s];
    d->element = dtype;
    d->blocks = false;
    if (d->tensor == STAXI_CUDA_WGMMA)
        staxi_cuda_wgmma_tile(u, d);
    else
        staxi_cuda_mma_tile(u, d);
    return true;
}

static void staxi_cuda_mma_tile(staxi_cuda_unit *u, staxi_cuda_dot *d) {
    const int size = STAXI_CUDA_MMA_TILE;
    const bool halves = staxi_cuda_tile_cost(u, d, size / 2, size / 2, 60) <
                        staxi_cuda_tile_cost(u, d, size, size, 100);
    memset(&d->tile, 0, sizeof d->tile);
    d->tile.rows = d->tile.columns = size >> staxi_cuda_choose(u, 2, halves);
    d->tile.depth = STAXI_CUDA_MMA_LINE * staxi_cuda_mma_words(d);
    d->tile.at_once = d->tile.rows < STAXI_CUDA_MMA_TILE ? 4 : 2;
    d->threads = STAXI_CUDA_MMA_THREADS;
    d->stages = STAXI_CUDA_MMA_STAGES;
    d->splits = 1;
    for (int s = 0; s < 2; s++) d->sides[s].size = d->tile.rows;
}

/* Elements of a chunk. */
static int staxi_cuda_mma_chunk(const staxi_cuda_dot *d) {
    return STAXI_CUDA_MMA_CHUNK * staxi_cuda_mma_words(d);
}

/* As it lies, in chunks that are all aligned if the first is, or else as other contractions load
 * it. */
static void staxi_cuda_mma_loads(staxi_cuda_unit *u, const staxi_cuda_dot *d, staxi_cuda_side *s) {
    const staxi_expr_node *n = &u->p->exprs[s->x];
    staxi_ix step, rest;
    staxi_cuda_plain_side(u, d, s, staxi_cuda_mma_chunk(d));
    s->plain =
        s->plain &&
        staxi_ix_affine(&u->p->ix, staxi_flat_index(u->p, n->ref, n->ix),
                        s->along ? d->depth.var : s->axes[s->n_axes - 1].var, &step, &rest) &&
        staxi_cuda_is_multiple(u, rest, s->width);
    if (s->plain)
        s->slots = s->size * d->tile.depth / (s->width * d->threads);
    else
        staxi_cuda_dot_loads(u, d, s);
}

/* Where in a part chunk `chunk` of a row or column lies. */
static void staxi_cuda_mma_spot(staxi_cuda_unit *u, const staxi_cuda_dot *d, int side,
                                const char *at, const char *k, const char *chunk) {
    const char c = side ? 'y' : 'x';
    if (d->sides[side].along)
        staxi_putf(u->t, "%cs + sx_along(%s, %s)", c, at, chunk);
    else
        staxi_putf(u->t, "%cs + sx_across<%d>(%s, %s)", c, d->tile.depth, k, chunk);
}

/* For each slot of a thread: element `at` of line `line` of a part. */
static void staxi_cuda_mma_slots(staxi_cuda_unit *u, const staxi_cuda_dot *d,
                                 const staxi_cuda_side *s) {
    const int line = (s->along ? d->tile.depth : s->size) / s->width;
    staxi_cuda_unrolled(u, "s", s->slots);
    staxi_line(&u->e);
    staxi_putf(u->t, "const int v = (int)threadIdx.x + s * %d, line = v / %d, at = v %% %d * %d;\n",
               d->threads, line, line, s->width);
}

/* Copies the part of an operand that begins at k0, as it lies: by sx_chunk or sx_odd_chunk. */
static void staxi_cuda_mma_copy(staxi_cuda_unit *u, const staxi_cuda_dot *d, int side,
                                const char *chunk) {
    staxi_emit *e = &u->e;
    const staxi_cuda_side *s = &d->sides[side];
    const staxi_expr_node n = u->p->exprs[s->x];
    const uint64_t k = staxi_var_id(e, d->depth.var);
    char at[32];
    staxi_format(at, sizeof at, "at / %U", (uint64_t)s->width);
    staxi_cuda_mma_slots(u, d, s);
    for (int a = 0; a < s->n_axes; a++) {
        const uint64_t id = staxi_var_id(e, s->axes[a].var);
        staxi_line(e);
        staxi_putf(u->t, "const int64_t i%U = %c%U[s];\n", id, side ? 'y' : 'x', id);
    }
    staxi_line(e);
    if (s->along)
        staxi_putf(u->t, "const int64_t i%U = k0 + at;\n", k);
    else
        staxi_putf(u->t, "const int64_t i%U = k0 + line;\n", k);
    staxi_line(e);
    staxi_putf(u->t, "%s(", chunk);
    staxi_cuda_mma_spot(u, d, side, "line", "line", at);
    staxi_putf(u->t, ", b%U + ", (uint64_t)n.ref);
    staxi_emit_ix(e, staxi_flat_index(u->p, n.ref, n.ix));
    if (d->cut)
        staxi_putf(u->t, ", i%U < depth);\n", k);
    else
        staxi_put(u->t, ", true);\n");
    staxi_cuda_close(u, 1);
}

static void staxi_cuda_mma_copies(staxi_cuda_unit *u, const staxi_cuda_dot *d, int side) {
    staxi_line(&u->e);
    staxi_putf(u->t, "if (((uint64_t)b%U & 15) == 0) {\n",
               (uint64_t)u->p->exprs[d->sides[side].x].ref);
    u->e.indent++;
    staxi_cuda_mma_copy(u, d, side, "sx_chunk");
    staxi_cuda_close(u, 1);
    staxi_line(&u->e);
    staxi_put(u->t, "else {\n");
    u->e.indent++;
    staxi_cuda_mma_copy(u, d, side, "sx_odd_chunk");
    staxi_cuda_close(u, 1);
}

/* A part from registers into shared memory. */
static void staxi_cuda_mma_share(staxi_cuda_unit *u, const staxi_cuda_dot *d, int side) {
    const staxi_cuda_side *s = &d->sides[side];
    const char c = side ? 'y' : 'x';
    const int chunk = staxi_cuda_mma_chunk(d);
    char at[32];
    staxi_format(at, sizeof at, "at / %U", (uint64_t)chunk);
    staxi_cuda_mma_slots(u, d, s);
    staxi_line(&u->e);
    staxi_putf(u->t, "sx_words<%d>((%s *)(void *)(", s->width,
               d->tensor == STAXI_CUDA_TF32 ? "uint32_t" : "uint16_t");
    staxi_cuda_mma_spot(u, d, side, "line", "line", at);
    staxi_putf(u->t, ") + at %% %d, %cl + s * %d);\n", chunk, c, s->width);
    staxi_cuda_close(u, 1);
}

/* How many pieces of 16 rows, or of 8 columns, a warp has. */
static int staxi_cuda_mma_pieces(const staxi_cuda_dot *d, int side) {
    return side ? d->tile.columns / STAXI_CUDA_MMA_WIDE / STAXI_CUDA_MMA_COLUMNS
                : d->tile.rows / STAXI_CUDA_MMA_WIDE / STAXI_CUDA_MMA_ROWS;
}

/* The fragments of a warp of one step. In words: lane l has row or column l / 4 and word l % 4 of
   four; the second four, and the second 8 rows, are its other registers. Of columns two pieces are
   read together. TF32 that lies across k is read word by word. */
static void staxi_cuda_mma_fragments(staxi_cuda_unit *u, const staxi_cuda_dot *d, int side) {
    const staxi_cuda_side *s = &d->sides[side];
    const int pieces = staxi_cuda_mma_pieces(d, side), regs = side ? 2 : 4;
    const bool words = !s->along && d->tensor == STAXI_CUDA_TF32;
    const char c = side ? 'y' : 'x';
    /* of a lane's row of a matrix: across k and along it, of rows and of columns */
    static const char *const lines[2][2] = {
        {"k * 16 + lane / 16 * 8 + lane % 8", "k * 16 + lane % 16"},
        {"down + i * 16 + lane % 16", "right + i * 16 + lane / 16 * 8 + lane % 8"}};
    static const char *const chunks[2][2] = {
        {"down / 8 + i * 2 + lane / 8 % 2", "right / 8 + i * 2 + lane / 16"},
        {"k * 2 + lane / 16", "k * 2 + lane / 8 % 2"}};
    staxi_line(&u->e);
    staxi_putf(u->t, "uint32_t %cf[%d];\n", c, pieces * regs);
    if (words) {
        staxi_cuda_unrolled(u, "r", pieces * regs);
        staxi_line(&u->e);
        staxi_putf(u->t, side ? "const int at = right + r / 2 * 8 + lane / 4;\n"
                              : "const int at = down + r / 4 * 16 + r %% 2 * 8 + lane / 4;\n");
        staxi_line(&u->e);
        staxi_putf(u->t, "%cf[r] = *(const uint32_t *)(const void *)(", c);
        staxi_cuda_mma_spot(
            u, d, side, "",
            side ? "k * 8 + r % 2 * 4 + lane % 4" : "k * 8 + r / 2 % 2 * 4 + lane % 4", "at / 4");
        staxi_put(u->t, " + at % 4 * 4);\n");
    } else {
        staxi_cuda_unrolled(u, "i", pieces * regs / 4);
        staxi_line(&u->e);
        staxi_putf(u->t, "sx_%s(%cf + i * 4, ", s->along ? "matrices" : "transposes", c);
        staxi_cuda_mma_spot(u, d, side, lines[s->along][side], lines[s->along][side],
                            chunks[s->along][side]);
        staxi_put(u->t, ");\n");
    }
    staxi_cuda_close(u, 1);
    if (d->tensor != STAXI_CUDA_TF32 || !s->plain) return;
    staxi_cuda_unrolled(u, "r", pieces * regs);
    staxi_line(&u->e);
    staxi_putf(u->t, "%cf[r] = sx_tf32(sxs_float32(%cf[r]));\n", c, c);
    staxi_cuda_close(u, 1);
}

/* The part in shared memory, multiplied. */
static void staxi_cuda_mma_multiply(staxi_cuda_unit *u, const staxi_cuda_dot *d) {
    static const char *const names[] = {"f16", "bf16", "tf32"};
    const int rows = staxi_cuda_mma_pieces(d, 0), columns = staxi_cuda_mma_pieces(d, 1);
    staxi_cuda_unrolled(u, "k", STAXI_CUDA_MMA_LINE / 8);
    for (int side = 0; side < 2; side++) staxi_cuda_mma_fragments(u, d, side);
    staxi_cuda_unrolled(u, "i", rows);
    staxi_cuda_unrolled(u, "j", columns);
    staxi_line(&u->e);
    staxi_putf(u->t, "sx_mma_%s(d + (i * %d + j) * 4, xf + i * 4, yf + j * 2);\n",
               names[d->element == STAX_F16    ? 0
                     : d->element == STAX_BF16 ? 1
                                               : 2],
               columns);
    staxi_cuda_close(u, 3);
}

/* The parts of a stage: xs and ys. */
static void staxi_cuda_mma_stage(staxi_cuda_unit *u, const staxi_cuda_dot *d, const char *stage) {
    const int line = STAXI_CUDA_MMA_LINE * 4;
    staxi_line(&u->e);
    staxi_putf(u->t, "unsigned char *const xs = sx_room + %s * %d, *const ys = xs + %d;\n", stage,
               (d->tile.rows + d->tile.columns) * line, d->tile.rows * line);
}

/* Begins to load the part at k0 while the one that was begun two parts before is multiplied. */
static void staxi_cuda_mma_loop(staxi_cuda_unit *u, const staxi_cuda_dot *d) {
    staxi_emit *e = &u->e;
    const int stages = d->stages, ahead = (stages - 1) * d->tile.depth;
    staxi_putf(
        u->t,
        "        int stage = 0;\n#pragma unroll 1\n        for (int64_t k0 = 0; k0 < depth + "
        "%d; k0 += %d) {\n            const int now = stage == %d ? 0 : stage + 1;\n"
        "            if (k0 >= %d) {\n                sx_arrived<%d>();\n                "
        "__syncthreads();\n            }\n            if (k0 < depth) {\n",
        ahead, d->tile.depth, stages - 1, ahead, stages - 2);
    e->indent = 4;
    staxi_cuda_mma_stage(u, d, "stage");
    for (int side = 0; side < 2; side++) {
        if (d->sides[side].plain)
            staxi_cuda_mma_copies(u, d, side);
        else
            staxi_cuda_dot_load(u, d, side);
    }
    staxi_putf(u->t, "            }\n            sx_group();\n            if (k0 >= %d) {\n",
               ahead);
    staxi_cuda_mma_stage(u, d, "now");
    staxi_cuda_mma_multiply(u, d);
    staxi_put(u->t, "            }\n");
    if (!d->sides[0].plain || !d->sides[1].plain) {
        staxi_put(u->t, "            if (k0 < depth) {\n");
        staxi_cuda_mma_stage(u, d, "stage");
        for (int side = 0; side < 2; side++)
            if (!d->sides[side].plain) staxi_cuda_mma_share(u, d, side);
        staxi_put(u->t, "            }\n");
    }
    staxi_put(u->t, "            stage = now;\n        }\n");
    e->indent = 2;
}

/* 16 rows after the other through shared memory to threads that have four neighbours; the next ones
   move to the front, so that the code of 16 does for all. */
static void staxi_cuda_mma_finish(staxi_cuda_unit *u, const staxi_cuda_dot *d) {
    staxi_emit *e = &u->e;
    const int rows = staxi_cuda_mma_pieces(d, 0), columns = staxi_cuda_mma_pieces(d, 1),
              line = columns * STAXI_CUDA_MMA_COLUMNS + 4, fours = columns * 2;
    staxi_putf(
        u->t,
        "        __syncthreads();\n        float *const mine = (float *)(void *)sx_room + warp * "
        "%d;\n#pragma unroll 1\n        for (int part = 0; part < %d; part++) {\n#pragma "
        "unroll\n            for (int j = 0; j < %d; j++)\n                mine[(lane / 4 + "
        "j %% 4 / 2 * 8) * %d + j / 4 * 8 + lane %% 4 * 2 + j %% 2] = d[j];\n            "
        "__syncwarp();\n",
        16 * line, rows, columns * 4, line);
    staxi_putf(
        u->t,
        "            for (int v = lane; v < %d; v += 32) {\n                int64_t rest = "
        "row0 + down + part * 16 + v / %d;\n                const int64_t column = column0 + "
        "right + v %% %d * 4;\n                if (rest >= rows) break;\n                "
        "__align__(16) float c[4];\n                sx_four(c, mine + v / %d * %d + v %% %d "
        "* 4);\n",
        16 * fours, fours, fours, fours, line, fours);
    e->indent = 4;
    staxi_cuda_dot_fours(u, d);
    staxi_putf(u->t,
               "            __syncwarp();\n#pragma unroll\n            for (int j = 0; j < %d; "
               "j++) d[j] = d[j + %d];\n        }\n        __syncthreads();\n",
               (rows - 1) * columns * 4, columns * 4);
}

static void staxi_cuda_mma(staxi_cuda_unit *u, uint32_t list, staxi_cuda_dot *d) {
    const char *type = d->tensor == STAXI_CUDA_TF32 ? "uint32_t" : "uint16_t";
    const int rows = staxi_cuda_mma_pieces(d, 0), columns = staxi_cuda_mma_pieces(d, 1);
    staxi_cuda_launch *l = staxi_cuda_dot_begin(u, list, d);
    if (!l) return;
    l->shared = d->stages * (d->tile.rows + d->tile.columns) * STAXI_CUDA_MMA_LINE * 4;
    staxi_putf(
        u->t,
        "    extern __shared__ __align__(1024) unsigned char sx_room[];\n    const int warp = "
        "(int)threadIdx.x / 32, lane = (int)threadIdx.x %% 32, down = warp / %d * %d, right "
        "= warp %% %d * %d;\n",
        STAXI_CUDA_MMA_WIDE, rows * STAXI_CUDA_MMA_ROWS, STAXI_CUDA_MMA_WIDE,
        columns * STAXI_CUDA_MMA_COLUMNS);
    for (int side = 0; side < 2; side++) staxi_cuda_mma_loads(u, d, &d->sides[side]);
    staxi_cuda_flat(u, l->count, "blockIdx.x", "gridDim.x");
    staxi_cuda_dot_place(u, d);
    for (int side = 0; side < 2; side++) staxi_cuda_dot_spots(u, d, side);
    for (int side = 0; side < 2; side++)
        if (!d->sides[side].plain)
            staxi_putf(u->t, "        %s %cl[%d];\n", type, side ? 'y' : 'x',
                       d->sides[side].slots * d->sides[side].width);
    staxi_putf(u->t, "        float d[%d] = {0};\n", rows * columns * 4);
    staxi_cuda_mma_loop(u, d);
    staxi_cuda_mma_finish(u, d);
    staxi_put(u->t, "    }\n");
    staxi_cuda_end(u);
    for (int side = 0; side < 2; side++) staxi_cuda_near_free(u, &d->sides[side].near_);
}

/* ---- running values ----
   A thread block has a line, 2048 or 4096 elements at a time in shared memory, the next ones on
   their way to registers: a thread scans a segment of 32, another one 32 totals of those, one
   thread the totals of these and all above. */

enum {
    STAXI_CUDA_LINE = 4096,    /* at most; half of it where rows are longer: more blocks at once */
    STAXI_CUDA_LINE_EACH = 16, /* elements of a thread                        */
    STAXI_CUDA_LINE_AT_ONCE = 1024 /* threads of a multiprocessor, at least       */
};

/* struct sx_fold_<kernel>_<stage>: how two of its values become one. */
static void staxi_cuda_scan_fold(staxi_cuda_unit *u, const staxi_tree_node *n, uint64_t kernel) {
    const bool logadd = n->combine == STAXI_COMBINE_LOGADD;
    staxi_want_scan(&u->e, n->combine, n->dtype, false);
    staxi_putf(
        u->t,
        "\nstruct sx_fold_%U_%U {\n    typedef %s T;\n    SX_INLINE T of(T x, T y) { return (T)(",
        kernel, (uint64_t)n->ref, staxi_c_type(n->dtype));
    if (logadd)
        staxi_put(u->t, n->dtype == STAX_F64 ? "sx_logadd64(x, y)" : "sx_logadd32(x, y)");
    else
        staxi_emit_fold(&u->e, n, "x", "y");
    staxi_put(u->t, "); }\n};\n");
}

/* Running values of the totals: in front of segment s, before[s]. */
static void staxi_cuda_scan_totals(staxi_cuda_unit *u, const char *name) {
    static const char *const lines[] = {
        "const int segments = (width + 31) / 32, groups = (segments + 31) / 32;",
        "if ((int)threadIdx.x < segments) {",
        "    totals[threadIdx.x] = sx_segment<F>(line + threadIdx.x * 33, width - "
        "(int)threadIdx.x * 32);",
        "}",
        "__syncthreads();",
        "if ((int)threadIdx.x < groups) {",
        "    sx_segment<F>(totals + threadIdx.x * 32, segments - (int)threadIdx.x * 32);",
        "}",
        "__syncthreads();",
        "if (threadIdx.x == 0) {",
        "    for (int k = 0; k < groups; k++) {",
        "        ahead[k] = scan.before[1];",
        NULL, /* the total of a group */
        "    }",
        "}",
        "__syncthreads();",
        "if ((int)threadIdx.x < segments) {",
        "    const F::T own = totals[threadIdx.x];",
        "    before[threadIdx.x + 1] = block + threadIdx.x * 32 < 1024 ? own : "
        "F::of(ahead[threadIdx.x / 32], own);",
        "}",
        "__syncthreads();"};
    for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++) {
        staxi_line(&u->e);
        if (lines[k])
            staxi_putf(u->t, "%s\n", lines[k]);
        else
            staxi_putf(
                u->t,
                "        scan.before[1] = %s_put(&scan, 2, totals[k * 32 + 31 < segments ? k * 32 "
                "+ 31 : segments - 1]);\n",
                name);
    }
}

/* fetch(block): the elements of a block, all under way at once, into registers. */
static void staxi_cuda_scan_fetch(staxi_cuda_unit *u, const staxi_tree_node *n, int threads) {
    staxi_emit *e = &u->e;
    staxi_putf(
        u->t,
        "        F::T next[%d];\n        auto fetch = [&](int64_t block) {\n#pragma unroll\n"
        "            for (int j = 0; j < %d; j++) {\n                const int64_t i%U = block + "
        "threadIdx.x + j * %d;\n                if (i%U >= length) continue;\n",
        STAXI_CUDA_LINE_EACH, STAXI_CUDA_LINE_EACH, staxi_var_id(e, n->runs[0].var), threads,
        staxi_var_id(e, n->runs[0].var));
    e->indent = 4;
    size_t scope = staxi_emit_scope_open(e);
    staxi_emit_value(e, n->expr[0]);
    staxi_line(e);
    staxi_put(u->t, "next[j] = ");
    staxi_emit_operand(e, n->expr[0]);
    staxi_put(u->t, ";\n");
    staxi_emit_scope_close(e, scope);
    staxi_put(u->t, "            }\n        };\n        fetch(0);\n");
    e->indent = 2;
}

/* For each element of a block: its running value to its readers. */
static void staxi_cuda_scan_pass(staxi_cuda_unit *u, const staxi_tree_node *n, bool exclusive,
                                 int threads) {
    staxi_emit *e = &u->e;
    staxi_put(u->t, "#pragma unroll 4\n");
    staxi_line(e);
    staxi_putf(u->t, "for (int at = (int)threadIdx.x; at < width; at += %d) {\n", threads);
    e->indent++;
    staxi_line(e);
    staxi_putf(u->t, "const int64_t i%U = block + at;\n", staxi_var_id(e, n->runs[0].var));
    size_t scope = staxi_emit_scope_open(e);
    staxi_line(e);
    staxi_putf(u->t, "const int own = at%s;\n", exclusive ? " - 1" : "");
    staxi_line(e);
    staxi_putf(u->t, "const %s r%U = ", staxi_value_type(e, n->dtype), (uint64_t)n->ref);
    if (exclusive) staxi_put(u->t, "own < 0 ? last : ");
    staxi_put(u->t,
              "block + own < 32 ? line[own + own / 32] : F::of(before[own / 32], line[own + own / "
              "32]);\n");
    staxi_emit_list(e, n->child);
    staxi_emit_scope_close(e, scope);
    staxi_cuda_close(u, 1);
}

static void staxi_cuda_scan(staxi_cuda_unit *u, uint32_t list) {
    staxi_emit *e = &u->e;
    const staxi_tree_node n = u->trees->nodes[list];
    const staxi_stage *st = &u->p->stages[n.ref];
    const stax_op op = (stax_op)u->p->graph->nodes[u->p->graph->values[st->value].node].op;
    const uint64_t number = u->n_launches;
    const int line =
                  STAXI_CUDA_LINE >>
                  staxi_cuda_choose(
                      u, 2, staxi_extent_guess(u->p, n.runs[0].extent) > (double)STAXI_CUDA_LINE),
              segments = line / 32, threads = line / STAXI_CUDA_LINE_EACH;
    staxi_text name;
    staxi_cuda_scan_fold(u, &n, number);
    u->at_once = STAXI_CUDA_LINE_AT_ONCE / threads;
    staxi_cuda_launch *l = staxi_cuda_begin(u, STAXI_CUDA_SCAN, list, "blockIdx.x", threads);
    if (!l) return;
    staxi_text_init(&name, u->a);
    staxi_put(&name, "sx_");
    staxi_put_scan_name(&name, n.combine, n.dtype, false);
    if (name.failed) staxi_emit_no_memory(e);
    const char *prefix = name.data ? name.data : "";
    l->count = staxi_cuda_loops_product(u);
    l->threads = threads;
    staxi_putf(u->t, "    typedef sx_fold_%U_%U F;\n", number, (uint64_t)n.ref);
    staxi_putf(
        u->t,
        "    __shared__ F::T line[%d], totals[%d], before[%d], ahead[%d];\n    __shared__ %s "
        "scan; /* of the first thread */\n",
        line + segments, segments, segments + 1, segments / 32, prefix);
    staxi_cuda_flat(u, l->count, "blockIdx.x", "gridDim.x");
    staxi_cuda_digits(u);
    staxi_cuda_size(u, "length", n.runs[0].extent);
    staxi_putf(u->t, "        F::T last = ");
    staxi_emit_const(e, n.dtype, staxi_scan_of_nothing(op, (stax_dtype)n.dtype));
    staxi_putf(u->t, ";\n        if (threadIdx.x == 0) %s_begin(&scan, last);\n", prefix);
    staxi_cuda_scan_fetch(u, &n, threads);
    staxi_putf(
        u->t,
        "        for (int64_t block = 0; block < length; block += %d) {\n            const int "
        "width = (int)sx_imin(length - block, %d);\n#pragma unroll\n            for (int j = 0; "
        "j < %d; j++) {\n                const int at = (int)threadIdx.x + j * %d;\n               "
        " "
        "if (at < width) line[at + at / 32] = next[j];\n            }\n",
        line, line, STAXI_CUDA_LINE_EACH, threads);
    e->indent = 3;
    staxi_cuda_barrier(u);
    staxi_line(e);
    staxi_putf(u->t, "fetch(block + %d);\n", line);
    staxi_cuda_scan_totals(u, prefix);
    staxi_cuda_scan_pass(u, &n, st->exclusive, threads);
    if (st->exclusive) {
        staxi_line(e);
        staxi_putf(u->t, "last = F::of(before[%d], line[%d]);\n", segments - 1,
                   line + segments - 2);
    }
    staxi_cuda_barrier(u);
    staxi_line(e);
    staxi_putf(u->t, "if (threadIdx.x == 0) before[0] = before[%d];\n", segments);
    e->indent = 2;
    staxi_put(u->t, "        }\n    }\n");
    staxi_cuda_end(u);
    staxi_text_free(&name);
}

/* ---- maps that read along another loop than they write ----
   A thread block has a tile of the two loops. What lies along the other one is read along it, and
   comes to the threads that write through shared memory. */

enum {
    STAXI_CUDA_TURN_TILE = 64,
    STAXI_CUDA_TURN_LEAST = 16, /* shortest loop that is worth tiles */
    STAXI_CUDA_TURN_THREADS = 256,
    STAXI_CUDA_TURN_SHARED = 40 * 1024
};

/* The loops, and the loads that lie along loop `other`. */
typedef struct staxi_cuda_turned {
    int other;
    staxi_cuda_near near_;
} staxi_cuda_turned;

static bool staxi_cuda_turned_of(staxi_cuda_unit *u, uint32_t list, staxi_cuda_turned *t) {
    const staxi_loop_axis inner = u->loops[u->n_loops - 1];
    size_t n = 0, bytes = 0;
    t->other = -1;
    staxi_cuda_near_of(u, &t->near_, list, inner.var, false);
    for (size_t k = 0; k < t->near_.n; k++) {
        const staxi_expr_node load = u->p->exprs[t->near_.loads[k]];
        const staxi_ix at = staxi_flat_index(u->p, load.ref, load.ix);
        int along = u->n_loops - 1;
        while (along >= 0 && !staxi_cuda_is_near(u, at, u->loops[along].var)) along--;
        if (along < 0 || along == u->n_loops - 1 || (t->other >= 0 && along != t->other)) continue;
        bytes += (size_t)STAXI_CUDA_TURN_TILE * (STAXI_CUDA_TURN_TILE + 1) *
                 staxi_dtype_bytes((stax_dtype)load.dtype);
        t->other = along;
        t->near_.loads[n++] = t->near_.loads[k];
    }
    t->near_.n = n;
    return n > 0 && bytes <= STAXI_CUDA_TURN_SHARED &&
           staxi_extent_guess(u->p, inner.extent) >= (double)STAXI_CUDA_TURN_LEAST &&
           staxi_extent_guess(u->p, u->loops[t->other].extent) >= (double)STAXI_CUDA_TURN_LEAST;
}

/* Opens "if (both are there) {" for element tx of loop `fast` and ty + r * 4 of loop `slow`. */
static void staxi_cuda_turn_spot(staxi_cuda_unit *u, int fast, int slow) {
    const staxi_loop_axis *const axes[2] = {&u->loops[fast], &u->loops[slow]};
    for (int k = 0; k < 2; k++) {
        const uint64_t id = staxi_var_id(&u->e, axes[k]->var);
        staxi_line(&u->e);
        staxi_putf(
            u->t,
            k ? "const int64_t i%U = at%U + ty + r * 4;\n" : "const int64_t i%U = at%U + tx;\n", id,
            id);
    }
    staxi_line(&u->e);
    for (int k = 0; k < 2; k++) {
        staxi_putf(u->t, k ? " && i%U < " : "if (i%U < ", staxi_var_id(&u->e, axes[k]->var));
        staxi_emit_ix(&u->e, axes[k]->extent);
    }
    staxi_put(u->t, ") {\n");
    u->e.indent++;
}

/* The loads of a tile, all before the first is stored. */
static void staxi_cuda_turn_loads(staxi_cuda_unit *u, const staxi_cuda_turned *t) {
    staxi_emit *e = &u->e;
    const int inner = u->n_loops - 1,
              each = STAXI_CUDA_TURN_TILE * STAXI_CUDA_TURN_TILE / STAXI_CUDA_TURN_THREADS;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t k = 0; k < t->near_.n && pass == 0; k++) {
            staxi_line(e);
            staxi_putf(u->t, "%s g%U[%d];\n", staxi_c_type(u->p->exprs[t->near_.loads[k]].dtype),
                       (uint64_t)t->near_.loads[k], each);
        }
        staxi_cuda_unrolled(u, "r", each);
        if (pass == 0) staxi_cuda_turn_spot(u, t->other, inner);
        for (size_t k = 0; k < t->near_.n; k++) {
            const staxi_expr_node n = u->p->exprs[t->near_.loads[k]];
            const uint64_t x = t->near_.loads[k];
            staxi_line(e);
            if (pass) {
                staxi_putf(u->t, "l%U[ty + r * 4][tx] = g%U[r];\n", x, x);
                continue;
            }
            staxi_putf(u->t, "g%U[r] = b%U[", x, (uint64_t)n.ref);
            staxi_emit_ix(e, staxi_flat_index(u->p, n.ref, n.ix));
            staxi_put(u->t, "];\n");
        }
        staxi_cuda_close(u, pass == 0 ? 2 : 1);
    }
}

static void staxi_cuda_turn(staxi_cuda_unit *u, uint32_t list, const staxi_cuda_turned *t) {
    staxi_emit *e = &u->e;
    const int inner = u->n_loops - 1;
    staxi_ix tiles[2];
    staxi_cuda_launch *l = staxi_cuda_begin(u, STAXI_CUDA_TURN, list, "0", STAXI_CUDA_TURN_THREADS);
    if (!l) return;
    l->threads = STAXI_CUDA_TURN_THREADS;
    for (int k = 0; k < 2; k++) {
        tiles[k] =
            staxi_cuda_pieces(u, u->loops[k ? t->other : inner].extent, STAXI_CUDA_TURN_TILE);
        l->count = staxi_ix_mul(&u->p->ix, l->count, tiles[k]);
    }
    for (int d = 0; d < inner; d++)
        if (d != t->other) l->count = staxi_ix_mul(&u->p->ix, l->count, u->loops[d].extent);
    for (size_t k = 0; k < t->near_.n; k++)
        staxi_putf(u->t, "    __shared__ %s l%U[%d][%d];\n",
                   staxi_c_type(u->p->exprs[t->near_.loads[k]].dtype), (uint64_t)t->near_.loads[k],
                   STAXI_CUDA_TURN_TILE, STAXI_CUDA_TURN_TILE + 1);
    staxi_putf(u->t, "    const int tx = (int)threadIdx.x %% %d, ty = (int)threadIdx.x / %d;\n",
               STAXI_CUDA_TURN_TILE, STAXI_CUDA_TURN_TILE);
    staxi_cuda_flat(u, l->count, "blockIdx.x", "gridDim.x");
    for (int d = inner; d >= 0; d--) {
        const bool tiled = d == inner || d == t->other;
        staxi_line(e);
        staxi_putf(u->t,
                   tiled ? "const int64_t at%U = sx_digit(&rest, "
                         : "const int64_t i%U = sx_digit(&rest, ",
                   staxi_var_id(e, u->loops[d].var));
        staxi_emit_ix(e, tiled ? tiles[d == inner ? 0 : 1] : u->loops[d].extent);
        staxi_putf(u->t, tiled ? ") * %d;\n" : ");\n", STAXI_CUDA_TURN_TILE);
    }
    staxi_cuda_turn_loads(u, t);
    staxi_cuda_barrier(u);
    staxi_cuda_unrolled(u, "r",
                        STAXI_CUDA_TURN_TILE * STAXI_CUDA_TURN_TILE / STAXI_CUDA_TURN_THREADS);
    staxi_cuda_turn_spot(u, inner, t->other);
    size_t scope = staxi_emit_scope_open(e);
    staxi_cuda_loaded(u, &t->near_, "tx][ty + r * 4");
    staxi_emit_list(e, list);
    staxi_emit_scope_close(e, scope);
    staxi_cuda_close(u, 2);
    staxi_cuda_barrier(u);
    staxi_put(u->t, "    }\n");
    staxi_cuda_end(u);
}

/* ---- choosing ---- */

/* The loops around `list`, as many as stand alone in their body. */
static uint32_t staxi_cuda_open_loops(staxi_cuda_unit *u, uint32_t list) {
    u->n_loops = 0;
    while (list && !u->trees->nodes[list].next && u->trees->nodes[list].kind == STAXI_TREE_LOOP &&
           u->n_loops < 63) {
        u->loops[u->n_loops++] = u->trees->nodes[list].axis;
        list = u->trees->nodes[list].child;
    }
    return list;
}

enum {
    STAXI_CUDA_FEW = 16, /* a reduction of at most so many elements: a thread has it alone */
    STAXI_CUDA_TEAMED_LEAST = 1024
};

/* Are these rows of a block so few that two warps should have each, a lane of the rule a thread? */
static bool staxi_cuda_is_teamed(staxi_cuda_unit *u, uint32_t list) {
    const staxi_tree_node *acc = &u->trees->nodes[list];
    const double rows = staxi_extent_guess(u->p, staxi_cuda_loops_product(u));
    return staxi_high(&u->e, acc->runs[0].extent) <= STAXI_BLOCK &&
           staxi_cuda_list_group(u->trees, acc) == STAXI_LANES_F32 &&
           staxi_cuda_team_shared(u, list) >= 0 &&
           staxi_cuda_choose(u, 2,
                             rows < (double)STAXI_CUDA_ENOUGH_ROWS &&
                                 staxi_extent_guess(u->p, acc->runs[0].extent) >=
                                     (double)STAXI_CUDA_TEAMED_LEAST);
}

/* The update of x = op(x, update), in *value; false: it has another form. */
static bool staxi_cuda_update_of(const staxi_cuda_unit *u, const staxi_tree_node *store,
                                 staxi_expr *load, staxi_expr *value) {
    const staxi_expr_node *exprs = u->p->exprs, *n = &exprs[store->expr[0]];
    if (n->kind == STAXI_EX_CANON) n = &exprs[n->args[0]];
    if (n->kind != STAXI_EX_OP || n->n_args != 2) return false;
    for (int k = 0; k < 2; k++) {
        const staxi_expr_node *x = &exprs[n->args[k]];
        if (x->kind != STAXI_EX_LOAD || x->ref != store->ref) continue;
        *load = n->args[k];
        *value = n->args[1 - k];
        return true;
    }
    return false;
}

/* Updates over threads, whatever their order is. */
static void staxi_cuda_scatter(staxi_cuda_unit *u, uint32_t list) {
    staxi_emit *e = &u->e;
    const uint32_t body = staxi_cuda_open_loops(u, list);
    staxi_expr load = 0, value = 0;
    const staxi_tree_node *n = &u->trees->nodes[body];
    if (!body || n->next || n->kind != STAXI_TREE_STORE ||
        !staxi_cuda_update_of(u, n, &load, &value)) {
        e->failed = true;
        return;
    }
    const staxi_expr_node *op = &u->p->exprs[n->expr[0]];
    if (op->kind == STAXI_EX_CANON) op = &u->p->exprs[op->args[0]];
    const char *how = op->op == STAX_OP_ADD ? "add" : op->op == STAX_OP_MAXIMUM ? "max" : "min";
    staxi_cuda_launch *l =
        staxi_cuda_begin(u, STAXI_CUDA_SCATTER, list, u->n_loops ? staxi_cuda_thread : "0", 128);
    if (!l) return;
    l->count = staxi_cuda_loops_product(u);
    staxi_cuda_flat(u, l->count, staxi_cuda_thread, staxi_cuda_threads);
    staxi_cuda_digits(u);
    const size_t scope = staxi_emit_scope_open(e);
    const staxi_expr_node at = u->p->exprs[load];
    staxi_emit_leaves(e, &at);
    staxi_emit_value(e, value);
    staxi_line(e);
    staxi_putf(u->t, "sx_atomic_%s(&b%U[", how, (uint64_t)n->ref);
    staxi_emit_ix(e, n->at);
    staxi_put(u->t, "], ");
    staxi_emit_operand(e, value);
    staxi_put(u->t, ");\n");
    staxi_emit_scope_close(e, scope);
    staxi_put(u->t, "    }\n");
    staxi_cuda_end(u);
}

static void staxi_cuda_one(staxi_cuda_unit *u, uint32_t list) {
    const staxi_tree_node *n;
    staxi_cuda_dot dot;
    uint32_t body = staxi_cuda_open_loops(u, list);
    if (!body) return;
    n = &u->trees->nodes[body];
    const bool tuples = staxi_cuda_has_tuples(u->trees, body);
    bool alone = n->kind == STAXI_TREE_ACC && !n->next && !tuples &&
                 staxi_cuda_spreads(u->trees, n) &&
                 staxi_cuda_list_group(u->trees, n) &&
                 staxi_high(&u->e, n->runs[0].extent) > STAXI_CUDA_FEW;
    if (staxi_cuda_list_has(u->trees, body, STAXI_TREE_CHECK)) {
        staxi_cuda_serial(u, STAXI_CUDA_CHECK, body);
    } else if (u->n_loops && staxi_cuda_only_stores(u->trees, body)) {
        staxi_cuda_turned t;
        memset(&t, 0, sizeof t);
        if (staxi_cuda_turned_of(u, body, &t))
            staxi_cuda_turn(u, body, &t);
        else
            staxi_cuda_map(u, body);
        staxi_cuda_near_free(u, &t.near_);
    } else if (tuples) {
        if (staxi_cuda_is_tuple(u->trees, body) && staxi_cuda_shares_tuple(u, body))
            staxi_cuda_tuple(u, body);
        else
            staxi_cuda_serial(u, STAXI_CUDA_SERIAL, body);
    } else if (n->kind == STAXI_TREE_ACC && !n->next && n->n_runs == 1 &&
               staxi_cuda_is_arg(&u->trees->nodes[n->child])) {
        staxi_cuda_arg(u, body);
    } else if (n->kind == STAXI_TREE_SCAN && !n->next && !n->parallel) {
        staxi_cuda_scan(u, body);
    } else if (staxi_cuda_dot_of(u, body, &dot)) {
        if (dot.tensor == STAXI_CUDA_WGMMA)
            staxi_cuda_wgmma(u, body, &dot);
        else if (dot.tensor)
            staxi_cuda_mma(u, body, &dot);
        else
            staxi_cuda_contract(u, body, &dot);
    } else if (alone && !n->parallel && staxi_cuda_is_teamed(u, body)) {
        staxi_cuda_team(u, body);
    } else if (alone && !n->parallel) {
        staxi_cuda_rows(u, body);
    } else if (alone && u->n_loops) {
        staxi_cuda_columns(u, body);
    } else if (n->next && staxi_cuda_list_has(u->trees, body, STAXI_TREE_ACC) &&
               staxi_cuda_team_shared(u, body) >= 0) {
        staxi_cuda_team(u, body);
    } else {
        staxi_cuda_serial(u, STAXI_CUDA_SERIAL, body);
    }
}

/* Segments of a kernel without outer loops do not read each other's registers unless there is a
   LET: then each is a kernel of its own, with its own loops spread out. */
static void staxi_cuda_kernel(staxi_cuda_unit *u, uint32_t k) {
    u->tree = k;
    const staxi_kernel_tree *kt = &u->trees->kernels[k];
    const staxi_kernel *K = &u->trees->s->kernels[kt->kernel];
    staxi_emit *e = &u->e;
    staxi_emit_turn_to(e, kt);
    if (u->p->stages[K->first_stage].kind == STAXI_STAGE_SCATTER) {
        staxi_cuda_scatter(u, kt->root);
        return;
    }
    if (u->p->stages[K->first_stage].lead) staxi_emit_tuples(e, kt->root);
    if (K->n_outer == 0 && !staxi_cuda_list_has(u->trees, kt->root, STAXI_TREE_LET)) {
        for (uint32_t at = kt->root, next; at && !e->failed; at = next) {
            next = u->trees->nodes[at].next;
            u->trees->nodes[at].next = 0;
            staxi_cuda_one(u, at);
            u->trees->nodes[at].next = next;
        }
        return;
    }
    staxi_cuda_one(u, kt->root);
}

/* ---- the text ---- */

/* Where |x| <= 87, exp need not clamp x, and its scale is one normal number: the same text without
   that has the same bits there. */
static void staxi_cuda_put_quick(staxi_text *t, const char *text) {
    static const char *const lines[] = {
        "#define sx_(name) sxs_quick_##name",
        "#define sx_atmost32(x, c) (x)",
        "#define sx_atleast32(x, c) (x)",
        "#define sx_scale32(y, t, n) ((y) * sxs_float32((sxs_bits32(t) << 23) - 0x3f800000u))",
        "#define sx_(name) sxs_##name",
        "#define sx_atmost32(x, c) sxs_atmost32((x), (c))",
        "#define sx_atleast32(x, c) sxs_atleast32((x), (c))",
        "#define sx_scale32(y, t, n) sxs_scale32((y), (t))"};
    for (int k = 0; k < 8; k++) {
        if (k % 4 == 0)
            staxi_put(t,
                      "#undef sx_\n#undef sx_atmost32\n#undef sx_atleast32\n#undef sx_scale32\n");
        staxi_putf(t, "%s\n", lines[k]);
        if (k != 3) continue;
        staxi_put(t, "SX_INLINE ");
        staxi_put_function(t, text);
    }
    staxi_put(t,
              "SX_INLINE float sx_quick_exp(float x, bool &rare) {\n"
              "    rare = rare | !(fabsf(x) <= 87.0f);\n    return sxs_quick_exp_f32(x);\n}\n");
}

static void staxi_cuda_put_functions(staxi_emit *e, staxi_text *t) {
    for (size_t k = 0; k < e->n_needs[0]; k++) {
        const char *name = NULL, *fn = staxi_text_of(e->needs[0][k], strlen(e->needs[0][k]), &name);
        if (fn) staxi_need_callees(e, 0, fn);
    }
    for (int pass = 0; pass < 2; pass++)
        for (size_t k = 0; k < e->n_needs[0]; k++) {
            const char *name = e->needs[0][k], *found = NULL,
                       *text = staxi_text_of(name, strlen(name), &found);
            if (!text || strcmp(name, "fma_f32") == 0 || strcmp(name, "fma_f64") == 0)
                continue; /* those two are instructions here */
            const char *body = strchr(text, '{');
            bool own = strcmp(name, "maximum_f32") == 0 || strcmp(name, "minimum_f32") == 0;
            if (own) staxi_put(t, "#ifndef SX_OWN_MAXIMUM\n"); /* an instruction since sm_80 */
            staxi_put(t, "SX_FUNCTION ");
            if (pass == 0) {
                staxi_putn(t, text, (size_t)(body - text) - 1);
                staxi_put(t, ";\n");
            } else {
                staxi_put_function(t, text);
                if (strcmp(name, "exp_f32") == 0) staxi_cuda_put_quick(t, text);
            }
            if (own) staxi_put(t, "#endif\n");
        }
}

/* The arguments of every kernel. `second`: see sx_fail; told: see sx_tell. */
static void staxi_cuda_put_args(const staxi_stages *p, size_t n_buffers, staxi_text *t) {
    staxi_putf(t,
               "typedef struct sx_args {\n    unsigned char *workspace, *row, *parts;\n    "
               "sx_record *record;\n    int64_t second;\n    volatile int64_t *told;\n    "
               "void *buffers[%U];\n    int64_t sizes[%U];\n} sx_args;\n",
               (uint64_t)(n_buffers ? n_buffers : 1), (uint64_t)(p->n_sizes ? p->n_sizes : 1));
}

static size_t staxi_cuda_args_count(const staxi_stages *p) {
    size_t n = 0;
    for (uint32_t b = 1; b < p->n_buffers; b++)
        if (p->buffers[b].scope == STAXI_SCOPE_ARG && p->buffers[b].slot >= n)
            n = (size_t)p->buffers[b].slot + 1;
    return n;
}

static void staxi_cuda_unit_free(staxi_cuda_unit *u) {
    staxi_emit_free(&u->e, u->a);
    staxi_free(u->a, u->launches, u->cap_launches * sizeof *u->launches);
    staxi_free(u->a, u->holds, u->cap_holds * sizeof *u->holds);
    staxi_text_free(&u->reads);
}

/* Prints the planned program. The launches stay in *u. */
static stax_status staxi_cuda_emit(staxi_cuda_unit *u, staxi_trees *trees, unsigned tensor,
                                   const staxi_cuda_choices *given, staxi_text *out) {
    staxi_text body;
    memset(u, 0, sizeof *u);
    u->tensor = tensor;
    if (given) u->given = *given;
    u->trees = trees;
    u->p = trees->s->p;
    u->a = u->p->a;
    staxi_text_init(&body, u->a);
    staxi_text_init(&u->reads, u->a);
    staxi_emit_turn(&u->e, trees, 0);
    u->e.t = u->t = &body;
    u->e.one_nan = true;
    if (!staxi_cuda_reshape(trees)) u->e.failed = true;
    for (uint32_t k = 1; k < trees->n_nodes; k++)
        if (trees->nodes[k].kind == STAXI_TREE_CHECK) u->has_checks = true;
    for (uint32_t k = 0; k < trees->n_kernels && !u->e.failed; k++) staxi_cuda_kernel(u, k);
    staxi_put_lines(out, staxi_cuda_lines_base);
    staxi_cuda_put_args(u->p, staxi_cuda_args_count(u->p), out);
    staxi_put_lines(out, staxi_cuda_lines_fail);
    staxi_cuda_put_functions(&u->e, out);
    if (body.data && (strstr(body.data, "sx_sum") || strstr(body.data, "sx_prod") ||
                      strstr(body.data, "SX_STREAM("))) {
        staxi_put_lines(out, staxi_lines_join);
        staxi_put_lines(out, staxi_lines_sum);
        staxi_put_lines(out, staxi_lines_sums);
    }
    staxi_put_lines(out, staxi_cuda_lines_warp);
    if (body.data && strstr(body.data, "sx_atomic_")) staxi_put_lines(out, staxi_cuda_lines_atomic);
    if (u->tensor & STAXI_CUDA_WGMMA) staxi_put_lines(out, staxi_cuda_lines_wgmma);
    if (u->tensor & ~(unsigned)STAXI_CUDA_WGMMA) staxi_put_lines(out, staxi_cuda_lines_mma);
    staxi_put_line_functions(&u->e, false, out);
    staxi_put_constants(&u->e, out);
    staxi_put_customs(&u->e, out);
    staxi_putn(out, body.data ? body.data : "", body.n);
    bool no_memory = staxi_marks_failed(u->p) || u->e.no_memory || body.failed || out->failed ||
                     u->p->ix.no_memory;
    staxi_text_free(&body);
    return no_memory ? STAX_E_MEMORY : u->e.failed ? STAX_E_INTERNAL : STAX_OK;
}

/* =================================================================================== >>cudarun
   RUNNING  NVRTC to a cubin (cached beside the CPU's objects), device memory, launches. */

enum {
    STAXI_CUDA_OWN = 4,    /* streams of ours at most                      */
    STAXI_CUDA_LANES = 8,  /* with those of callers                        */
    STAXI_CUDA_SPANS = 64, /* of the work in one that has not ended       */
    STAXI_CUDA_TOLD = 16   /* numbers, two cache lines                    */
};

/* Memory that work in a stream touches. */
typedef struct staxi_cuda_range {
    uintptr_t from, to;
    uint64_t work;
    bool written;
} staxi_cuda_range;

/* A stream, and what is queued in it: pieces of work, numbered from 1. */
typedef struct staxi_cuda_lane {
    void *stream, *event;
    bool is_ours, is_called; /* is_called: a call holds it                                        */
    int users;               /* that hold it, wait for it or wait for its work                    */
    uintptr_t thread;        /* of ours: whose calls it serves                                    */
    uint64_t used;           /* by staxi_cuda.uses: the least is given to another thread          */
    uint64_t work, done;     /* the newest, and the newest that is known to have ended            */
    uint64_t marked;         /* the event stands behind this                                      */
    uint64_t unknown;        /* what work up to this touches was not kept                         */
    uint64_t behind[STAXI_CUDA_LANES]; /* work of the others that what comes here waits for       */
    staxi_cuda_range spans[STAXI_CUDA_SPANS];
    int n_spans;
    bool tells;        /* the newest work tells when it has ended, and nothing else is queued */
    staxi_mutex mutex; /* held by a call, also while it waits                               */
} staxi_cuda_lane;

enum {
    STAXI_CUDA_CHUNK_BYTES = 1024 * 1024,
    STAXI_CUDA_STAGERS = 8, /* threads that fill or empty chunks, two each                */
    STAXI_CUDA_UNSTAGED = 32 * 1024,       /* less goes through the driver       */
    STAXI_CUDA_ALONE_IN = 2 * 1024 * 1024, /* more of one thread's too: as measured, README */
    STAXI_CUDA_ALONE_OUT = 16 * 1024 * 1024
};

/* Page-locked memory between the device and host memory that is not. */
typedef struct staxi_cuda_staging {
    staxi_mutex mutex;
    void *memory[STAXI_CUDA_STAGERS];
    void *events[STAXI_CUDA_STAGERS][2];
    bool failed; /* there was none: copies go through the driver */
} staxi_cuda_staging;

struct stax_cuda {
    stax_context *ctx;
    staxi_cuda_driver driver;
    staxi_cuda_nvrtc nvrtc;
    staxi_cuda_graphs graphs;
    staxi_mutex mutex; /* of all that follows; not held while a call waits, taken behind a lane's */
    void *context;
    bool own_context, own_stream;
    int n_own, n_lanes; /* streams of ours at most; lanes that are used */
    uint64_t uses;
    staxi_cuda_lane lanes[STAXI_CUDA_LANES]; /* ours first */
    staxi_cuda_staging staging;
    volatile int64_t
        *told;    /* by lane, STAXI_CUDA_TOLD apart: a last kernel writes 1 there when it */
    bool no_told; /* has ended; host memory. NULL: not yet; no_told: there is none        */
    int device, handle, processors, cache_bytes;
    char name[160], architecture[16];
};

typedef struct staxi_cuda_memory {
    staxi_cuda_address at;
    size_t bytes;
} staxi_cuda_memory;

typedef struct staxi_cuda_size_check {
    staxi_ix n, domain; /* domain 0: a size, which must not be negative; else a reduction's */
    uint32_t stage;
    uint32_t node; /* pads: the node without anything to repeat */
} staxi_cuda_size_check;

/* A launch as it is in the graph; blocks 0: it had nothing to do. */
typedef struct staxi_cuda_step {
    int64_t blocks;
    int threads;
    void *node;
} staxi_cuda_step;

/* The kernels of a call as a graph of CUDA's: what the last call was. */
typedef struct staxi_cuda_replay {
    void *graph, *ready;
    staxi_cuda_step *steps; /* n_launches that are in it   */
    unsigned char *block;   /* the kernels' arguments      */
} staxi_cuda_replay;

/* The head of the kernels' arguments; pointers and sizes follow. */
typedef struct staxi_cuda_head {
    staxi_cuda_address workspace, row, parts, record;
    int64_t second;
    staxi_cuda_address told; /* of the lane; 0 but for a last kernel that tells */
} staxi_cuda_head;

/* What the sizes of a call decide, for the next call of the same ones too. */
typedef struct staxi_cuda_plan {
    bool is_known;
    bool is_small; /* so few blocks that small host tensors need no copy                       */
    int64_t *sizes;
    int64_t teller; /* the last launch, where its only block can say that it has ended; else -1 */
    staxi_cuda_head head;
    staxi_cuda_step *steps; /* n_launches                                                      */
} staxi_cuda_plan;

/* What calls of a program in one stream have for themselves. */
typedef struct staxi_cuda_seat {
    size_t bytes;                                /* of this and what lies behind it */
    staxi_cuda_memory workspace, record, *slots; /* slots: copies of host tensors       */
    char *mapped;                                /* small ones: host memory, or NULL    */
    bool no_mapped;                              /* there was none                      */
    staxi_cuda_plan plan;
    staxi_cuda_replay replay;
} staxi_cuda_seat;

struct stax_cuda_program {
    stax_cuda *cuda;
    stax_program *host; /* basis graph, trees, bound params; its code is not compiled */
    staxi_text source, reads; /* reads: those of the launches */
    staxi_cuda_launch *launches;
    size_t n_launches, launch_bytes, n_args;
    bool has_checks;
    void *module;
    staxi_cuda_seat *seats[STAXI_CUDA_LANES]; /* by stream; NULL before its first call      */
    staxi_cuda_memory *params;                /* by input                                   */
    bool *param_is_fresh;                     /* it is there already                        */
    bool replays;
    stax_cuda_program **pieces; /* of steps; NULL where the host runs one                   */
    size_t n_pieces, n_constants;
    bool is_piece;                 /* `host` is another program's                            */
    staxi_cuda_memory *constants;  /* by cell of the steps                                   */
    struct staxi_cuda_block *pool; /* memory for cells, kept from call to call              */
    staxi_cuda_choices choices;
    staxi_text tuning; /* what the tuner has done                                           */
    staxi_cuda_size_check *size_checks;
    size_t n_size_checks, cap_size_checks;
};

/* What the driver says of an error, into *t. */
static stax_status staxi_cuda_why(stax_cuda *c, int error, const char *what, staxi_text *t) {
    const char *name = NULL, *text = NULL;
    if (error == 0) return STAX_OK;
    (void)c->driver.error_name(error, &name);
    (void)c->driver.error_text(error, &text);
    staxi_putf(t, "CUDA device %d: %s: %s (%s)", c->device, what, text ? text : "unknown error",
               name ? name : "?");
    return error == 2 ? STAX_E_MEMORY : STAX_E_DEVICE;
}

static stax_status staxi_cuda_note(stax_cuda *c, int error, const char *what) {
    staxi_text t;
    if (error == 0) return STAX_OK;
    staxi_text_init(&t, &c->ctx->allocator);
    const stax_status s = staxi_cuda_why(c, error, what, &t);
    return staxi_cuda_fail(c->ctx, s, &t);
}

/* ---- streams ----
   Each thread's calls go to a stream of their own, of a few, or to the caller's. Work of different
   streams is ordered by events where it touches the same memory and some of it writes. What one
   stream alone has queued is not looked at. */

static uintptr_t staxi_cuda_caller(void) {
#if !defined(STAXI_THREADS)
    return 1;
#elif defined(STAXI_WINDOWS)
    return (uintptr_t)GetCurrentThreadId();
#else
    return (uintptr_t)pthread_self();
#endif
}

/* 50 microseconds of looking whether the newest work has told that it has ended. */
static bool staxi_cuda_has_told(volatile int64_t *told) {
    int64_t until = 0;
    for (int k = 0; staxi_atomic_load(told) == 0; k++) {
        if (k % 64) continue;
        const int64_t now = staxi_clock_ns();
        if (!until) until = now + 50000;
        if (now > until) return false;
    }
    return true;
}

/* Waits for what is queued in a lane, without the lock, which the caller has. */
static int staxi_cuda_lane_wait(stax_cuda *c, staxi_cuda_lane *l) {
    const uint64_t work = l->work;
    const bool tells = l->tells;
    const bool by_stream =
        l->is_ours || l->is_called; /* else it may be gone, and has been marked */
    int error = 0;
    if (l->done == work) return 0;
    l->users++;
    staxi_mutex_unlock(&c->mutex);
    if (!tells || !staxi_cuda_has_told(c->told + (l - c->lanes) * STAXI_CUDA_TOLD))
        error = by_stream ? c->driver.stream_wait(l->stream) : c->driver.event_wait(l->event);
    staxi_mutex_lock(&c->mutex);
    l->users--;
    if (error == 0 && l->done < work) l->done = work;
    if (l->done != l->work) return error;
    l->n_spans = 0;
    l->unknown = 0;
    return error;
}

static int staxi_cuda_wait_all(stax_cuda *c) {
    int error = 0;
    for (int k = 0; k < STAXI_CUDA_LANES; k++) {
        const int e = staxi_cuda_lane_wait(c, &c->lanes[k]);
        if (e) error = e;
    }
    return error;
}

static int staxi_cuda_mark(stax_cuda *c, staxi_cuda_lane *l) {
    const int error = l->marked < l->work ? c->driver.event_record(l->event, l->stream) : 0;
    if (error == 0) l->marked = l->work;
    return error;
}

/* The work that begins: only what is touched after this counts as its. */
static void staxi_cuda_lane_begin(staxi_cuda_lane *l) {
    l->work++;
    l->tells = false;
}

static bool staxi_cuda_lane_touches(const staxi_cuda_lane *l, uint64_t behind,
                                    const staxi_cuda_range *span) {
    if (l->unknown > behind) return true;
    for (int k = 0; k < l->n_spans; k++) {
        const staxi_cuda_range *s = &l->spans[k];
        if (s->work > behind && s->from < span->to && span->from < s->to &&
            (s->written || span->written))
            return true;
    }
    return false;
}

/* The work that begins in a lane reads or writes this memory: it waits for what others do there. */
static int staxi_cuda_touch(stax_cuda *c, staxi_cuda_lane *l, const void *from, size_t bytes,
                            bool written) {
    const int at = (int)(l - c->lanes);
    staxi_cuda_range span;
    int error = 0;
    if (c->n_lanes < 2) {
        l->unknown = l->work;
        return 0;
    }
    span.from = (uintptr_t)from;
    span.to = span.from + bytes;
    span.written = written;
    span.work = l->work;
    for (int k = 0; k < STAXI_CUDA_LANES && error == 0; k++) {
        staxi_cuda_lane *m = &c->lanes[k];
        if (k == at || m->done == m->work || !staxi_cuda_lane_touches(m, l->behind[k], &span))
            continue;
        error = staxi_cuda_mark(c, m);
        if (error == 0) error = c->driver.stream_after(l->stream, m->event, 0);
        l->behind[k] = m->marked;
    }
    if (l->n_spans < STAXI_CUDA_SPANS)
        l->spans[l->n_spans++] = span;
    else
        l->unknown = l->work;
    return error;
}

/* A lane for the thread's calls, or for a stream of the caller's; NULL: all are taken. */
static staxi_cuda_lane *staxi_cuda_lane_find(stax_cuda *c, void *stream) {
    const uintptr_t thread = staxi_cuda_caller();
    const int from = stream ? STAXI_CUDA_OWN : 0, to = stream ? STAXI_CUDA_LANES : c->n_own;
    staxi_cuda_lane *best = NULL;
    for (int k = 0; k < STAXI_CUDA_LANES && stream; k++)
        if (c->lanes[k].stream == stream) return &c->lanes[k];
    for (int k = from; k < to; k++) {
        staxi_cuda_lane *l = &c->lanes[k];
        if (!stream && l->thread == thread) return l;
        if (stream && l->users) continue;
        if (!best || (best->stream && !l->stream) || (best->stream && l->used < best->used))
            best = l;
    }
    return best;
}

/* Makes a lane in which nothing is queued ready for a stream of the caller's (NULL: of ours). */
static int staxi_cuda_lane_open(stax_cuda *c, staxi_cuda_lane *l, void *stream) {
    const bool is_new = l->stream == NULL;
    int error = l->event ? 0 : c->driver.event_new(&l->event, 2); /* without times */
    if (error == 0 && !stream) error = c->driver.stream_new(&l->stream, 1);
    if (error == 0 && stream) l->stream = stream;
    l->is_ours = !stream;
    c->n_lanes += is_new && l->stream;
    return error;
}

/* Takes the lock and the context. */
static void staxi_cuda_enter(stax_cuda *c) {
    staxi_mutex_lock(&c->mutex);
    (void)c->driver.context_push(c->context);
}

static void staxi_cuda_leave(stax_cuda *c) {
    void *old;
    (void)c->driver.context_pop(&old);
    staxi_mutex_unlock(&c->mutex);
}

/* Enters with a lane, for a call or a copy; NULL: *error says why, and nothing is held. */
static staxi_cuda_lane *staxi_cuda_enter_lane(stax_cuda *c, void *stream, int *error) {
    staxi_cuda_enter(c);
    staxi_cuda_lane *l = staxi_cuda_lane_find(c, stream);
    *error = l ? 0 : 2;
    while (*error == 0 && stream && l->stream != stream && l->work != l->done) {
        *error = staxi_cuda_lane_wait(c, l); /* meanwhile others may take it */
        l = staxi_cuda_lane_find(c, stream);
        if (!l) *error = 2;
    }
    if (*error == 0 && (!l->stream || (stream && l->stream != stream)))
        *error = staxi_cuda_lane_open(c, l, stream);
    if (*error) {
        staxi_cuda_leave(c);
        return NULL;
    }
    if (!stream) l->thread = staxi_cuda_caller();
    l->used = ++c->uses;
    l->users++;
    if (c->n_lanes > 1 || l->users > 1) { /* the lane first: others are let in while a call waits */
        staxi_mutex_unlock(&c->mutex);
        staxi_mutex_lock(&l->mutex);
        staxi_mutex_lock(&c->mutex);
    } else {
        staxi_mutex_lock(&l->mutex);
    }
    l->is_called = true;
    return l;
}

/* An event behind the work of a stream that is not ours: it may go. */
static int staxi_cuda_leave_lane(stax_cuda *c, staxi_cuda_lane *l) {
    const int error = l->is_ours ? 0 : staxi_cuda_mark(c, l);
    l->is_called = false;
    l->users--;
    staxi_mutex_unlock(&l->mutex);
    staxi_cuda_leave(c);
    return error;
}

/* ---- text to cubin ---- */

static stax_status staxi_cuda_nvrtc_compile(const staxi_cuda_nvrtc *n, const char *source,
                                            const char *architecture, staxi_text *out,
                                            staxi_text *why) {
    char target[48] = "--gpu-architecture=";
    const char *options[7];
    void *program = NULL;
    size_t bytes = 0;
    if (strlen(architecture) > 16) return STAX_E_ARGUMENT;
    memcpy(target + 19, architecture, strlen(architecture) + 1);
    options[0] = target;
    options[1] = "--fmad=false";
    options[2] = "--ftz=false";
    options[3] = "--prec-div=true";
    options[4] = "--prec-sqrt=true";
    options[5] = "--device-as-default-execution-space";
    options[6] = "--disable-warnings";
    int error = n->create(&program, source, "stax.cu", 0, NULL, NULL);
    if (error == 0) error = n->compile(program, 7, options);
    if (error == 0) error = n->cubin_bytes(program, &bytes);
    if (error == 0) {
        char *room = (char *)staxi_alloc(out->a, bytes);
        if (room && (error = n->cubin(program, room)) == 0) staxi_putn(out, room, bytes);
        if (!room) out->failed = true;
        staxi_free(out->a, room, bytes);
    } else {
        char *log = NULL;
        staxi_putf(why, "NVRTC %d.%d refused the kernels for %s (error %d)", n->major, n->minor,
                   architecture, error);
        if (program && n->log_bytes(program, &bytes) == 0 && bytes > 1)
            log = (char *)staxi_alloc(out->a, bytes);
        if (log && n->log(program, log) == 0) {
            staxi_put(why, ": ");
            staxi_putn(why, log, bytes - 1 < 1200 ? bytes - 1 : 1200);
        }
        staxi_free(out->a, log, bytes);
    }
    if (program) (void)n->destroy(&program);
    return out->failed ? STAX_E_MEMORY : error ? STAX_E_COMPILER : STAX_OK;
}

/* The name in the cache: everything that the cubin depends on. */
static void staxi_cuda_key(const staxi_cuda_nvrtc *n, const char *source, const char *architecture,
                           const stax_allocator *a, char hex[65]) {
    staxi_sha256 s;
    uint8_t digest[32];
    staxi_text t;
    staxi_text_init(&t, a);
    staxi_putf(&t, "cubin 1\n%s\nnvrtc %d.%d\n", architecture, n->major, n->minor);
    staxi_sha256_init(&s);
    if (t.data) staxi_sha256_update(&s, t.data, t.n);
    staxi_sha256_update(&s, source, strlen(source));
    staxi_sha256_final(&s, digest);
    staxi_hex(digest, sizeof digest, hex);
    staxi_text_free(&t);
}

/* Compiled now, or found in the cache folder. A folder that cannot be used costs only time. */
static stax_status staxi_cuda_build(stax_context *ctx, const staxi_cuda_nvrtc *n,
                                    const char *source, const char *architecture, staxi_text *out,
                                    staxi_build_result *result, staxi_text *why) {
    int64_t start = staxi_clock_ns();
    staxi_toolchain *tc = staxi_toolchain_of(ctx);
    char hex[65], name[STAXI_CACHE_NAME];
    staxi_text note;
    staxi_text_init(&note, &ctx->allocator);
    staxi_cuda_key(n, source, architecture, &ctx->allocator, hex);
    staxi_cache_name(hex, STAXI_OBJECT_SUFFIX, name); /* so that the cache counts and removes it */
    staxi_mutex_lock(&tc->setup);
    bool folder = staxi_folder_ready(tc, &note) == STAX_OK;
    staxi_mutex_unlock(&tc->setup);
    stax_status s = STAX_OK;
    if (folder && staxi_cache_read(tc, name, out)) {
        staxi_text path;
        result->origin = STAXI_BUILD_DISK;
        staxi_cache_path(tc, name, &path);
        if (!path.failed) (void)staxi_file_touch(path.data); /* the order of removal is by use */
        staxi_text_free(&path);
    } else {
        out->n = 0;
        result->origin = STAXI_BUILD_COMPILED;
        s = staxi_cuda_nvrtc_compile(n, source, architecture, out, why);
        if (s == STAX_OK && folder) {
            size_t bytes = out->n;
            staxi_seal(out, name);
            if (!out->failed && staxi_cache_publish(tc, name, out, NULL, &note) == STAX_OK &&
                (staxi_atomic_load(&tc->n_files) < 2000 ||
                 staxi_atomic_add(&tc->n_publishes, 1) % 16 == 0))
                staxi_cache_trim(tc, name);
            out->n = bytes;
        }
    }
    staxi_text_free(&note);
    result->spent_ns = staxi_clock_ns() - start;
    return out->failed ? STAX_E_MEMORY : s;
}

/* ---- copies of host memory ----
   What the driver cannot reach by itself it copies through memory of its own, waiting for each
   part. Here two page-locked chunks take turns: one is on its way while the other is filled or
   emptied; by several threads, each with two of its own, where the context has them. */

static staxi_cuda_address staxi_cuda_address_of(const void *p) {
    return (staxi_cuda_address)(uintptr_t)p;
}

static void staxi_cuda_stager_free(stax_cuda *c, int k) {
    staxi_cuda_staging *s = &c->staging;
    if (s->memory[k]) (void)c->driver.host_free(s->memory[k]);
    for (int chunk = 0; chunk < 2; chunk++) {
        if (s->events[k][chunk]) (void)c->driver.event_free(s->events[k][chunk]);
        s->events[k][chunk] = NULL;
    }
    s->memory[k] = NULL;
}

static void staxi_cuda_log(stax_cuda *c, const char *what) {
    void *user = NULL;
    const stax_log_fn log = staxi_context_log(c->ctx, &user);
    staxi_text t;
    if (!log) return;
    staxi_text_init(&t, &c->ctx->allocator);
    staxi_putf(&t, "CUDA device %d: %s", c->device, what);
    if (t.data && !t.failed) log(user, t.data);
    staxi_text_free(&t);
}

/* Memory of the stagers 0 .. n - 1; how many have some. */
static int staxi_cuda_stagers(stax_cuda *c, int n) {
    staxi_cuda_staging *s = &c->staging;
    int k = 0;
    for (; k < n; k++) {
        int error = s->memory[k] ? 0 : s->failed;
        if (!s->memory[k] && !error) {
            error = c->driver.host_new(&s->memory[k], 2 * (size_t)STAXI_CUDA_CHUNK_BYTES, 0);
            for (int e = 0; e < 2 && !error; e++) error = c->driver.event_new(&s->events[k][e], 2);
        }
        if (!error) continue;
        staxi_cuda_stager_free(c, k);
        if (!s->failed)
            staxi_cuda_log(c,
                           "no page-locked memory for copies of host memory: the driver makes "
                           "them with its own, which takes longer");
        s->failed = true;
        break;
    }
    return k;
}

/* A copy in equal parts, one a stager. */
typedef struct staxi_cuda_staged {
    stax_cuda *c;
    void *stream;
    char *host;
    staxi_cuda_address at;
    size_t bytes, part;
    bool send;
    volatile int64_t error;
} staxi_cuda_staged;

/* Fills chunk after chunk and sends it; an event says when one may be filled again. */
static int staxi_cuda_stage_in(const staxi_cuda_staged *s, int64_t k, size_t at, size_t to) {
    const staxi_cuda_driver *d = &s->c->driver;
    int error = 0;
    for (int chunk = 0; at < to && error == 0; chunk ^= 1) {
        const size_t most = STAXI_CUDA_CHUNK_BYTES, n = to - at < most ? to - at : most;
        char *memory = (char *)s->c->staging.memory[k] + (size_t)chunk * STAXI_CUDA_CHUNK_BYTES;
        void *event = s->c->staging.events[k][chunk];
        error = d->event_wait(event);
        if (error) break;
        memcpy(memory, s->host + at, n);
        error = d->to_device(s->at + at, memory, n, s->stream);
        if (error == 0) error = d->event_record(event, s->stream);
        at += n;
    }
    return error;
}

/* Fetches a chunk while the one before is emptied. */
static int staxi_cuda_stage_out(const staxi_cuda_staged *s, int64_t k, size_t at, size_t to) {
    const staxi_cuda_driver *d = &s->c->driver;
    size_t before = 0, before_at = 0;
    int error = 0;
    for (int chunk = 0; (at < to || before) && error == 0; chunk ^= 1) {
        const size_t most = STAXI_CUDA_CHUNK_BYTES, n = to - at < most ? to - at : most;
        char *memory = (char *)s->c->staging.memory[k];
        void *const *events = s->c->staging.events[k];
        if (n)
            error = d->to_host(memory + (size_t)chunk * STAXI_CUDA_CHUNK_BYTES, s->at + at, n,
                               s->stream);
        if (n && error == 0) error = d->event_record(events[chunk], s->stream);
        if (before && error == 0) error = d->event_wait(events[chunk ^ 1]);
        if (before && error == 0)
            memcpy(s->host + before_at, memory + (size_t)(chunk ^ 1) * STAXI_CUDA_CHUNK_BYTES,
                   before);
        before = n;
        before_at = at;
        at += n;
    }
    return error;
}

static void staxi_cuda_stage_part(void *arg, int64_t k) {
    staxi_cuda_staged *s = (staxi_cuda_staged *)arg;
    const size_t from = (size_t)k * s->part,
                 to = s->bytes - from < s->part ? s->bytes : from + s->part;
    void *old;
    (void)s->c->driver.context_push(s->c->context);
    const int error =
        s->send ? staxi_cuda_stage_in(s, k, from, to) : staxi_cuda_stage_out(s, k, from, to);
    (void)s->c->driver.context_pop(&old);
    if (error) staxi_atomic_store(&s->error, error);
}

/* How many threads a copy is worth; 0: the driver makes it. */
static int staxi_cuda_stager_count(stax_cuda *c, const void *host, size_t bytes, bool send) {
    int type = 2, kind = 0; /* the type of its memory; of what the driver does not know: 0 */
    void *value = &kind;
    if (bytes <= STAXI_CUDA_UNSTAGED ||
        (c->driver.pointer(1, &type, &value, staxi_cuda_address_of(host)) == 0 && kind == 1))
        return 0; /* page-locked */
    size_t n = bytes / (2 * (size_t)STAXI_CUDA_CHUNK_BYTES);
    const size_t most = (size_t)stax_context_threads(c->ctx);
    if (n > most) n = most;
    if (n > STAXI_CUDA_STAGERS) n = STAXI_CUDA_STAGERS;
    if (n > 1) return (int)n;
    return bytes <= (size_t)(send ? STAXI_CUDA_ALONE_IN : STAXI_CUDA_ALONE_OUT);
}

/* A copy by n threads, without the lock, which the caller has; < 0: there is no memory for it. */
static int staxi_cuda_stage(stax_cuda *c, staxi_cuda_lane *l, char *host, staxi_cuda_address at,
                            size_t bytes, bool send, int n) {
    const stax_options *o = &c->ctx->options;
    staxi_cuda_staged s;
    staxi_mutex_unlock(&c->mutex);
    staxi_mutex_lock(&c->staging.mutex);
    n = staxi_cuda_stagers(c, n);
    s.c = c;
    s.stream = l->stream;
    s.host = host;
    s.at = at;
    s.bytes = bytes;
    s.part = n ? (bytes + (size_t)n - 1) / (size_t)n : bytes;
    s.send = send;
    s.error = n ? 0 : -1;
    if (n == 1)
        staxi_cuda_stage_part(&s, 0);
    else if (n && o->parallel_for)
        o->parallel_for(o->parallel_user, n, staxi_cuda_stage_part, &s);
    else if (n)
        staxi_team_run(&c->ctx->team, n, staxi_cuda_stage_part, &s);
    staxi_mutex_unlock(&c->staging.mutex);
    staxi_mutex_lock(&c->mutex);
    return (int)s.error;
}

/* Host memory to the device, queued in a lane; it has been read when this returns, but for
   page-locked memory. */
static int staxi_cuda_send(stax_cuda *c, staxi_cuda_lane *l, staxi_cuda_address to,
                           const void *from, size_t bytes) {
    const int n = staxi_cuda_stager_count(c, from, bytes, true);
    const int error = n ? staxi_cuda_stage(c, l, (char *)(uintptr_t)from, to, bytes, true, n) : -1;
    return error < 0 ? c->driver.to_device(to, from, bytes, l->stream) : error;
}

/* Back. The host memory is written when the lane is waited for. */
static int staxi_cuda_receive(stax_cuda *c, staxi_cuda_lane *l, void *to, staxi_cuda_address from,
                              size_t bytes) {
    const int n = staxi_cuda_stager_count(c, to, bytes, false);
    const int error = n ? staxi_cuda_stage(c, l, (char *)to, from, bytes, false, n) : -1;
    return error < 0 ? c->driver.to_host(to, from, bytes, l->stream) : error;
}

/* ---- devices ---- */

static stax_status staxi_cuda_libraries(stax_context *ctx, staxi_cuda_driver *d,
                                        staxi_cuda_nvrtc *n) {
    staxi_text why;
    staxi_text_init(&why, &ctx->allocator);
    stax_status s = staxi_cuda_driver_open(d, &why);
    if (s == STAX_OK) {
        why.n = 0;
        s = staxi_cuda_nvrtc_open(n, &why);
        if (s != STAX_OK) staxi_dl_close(d->library);
    }
    if (s != STAX_OK) return staxi_cuda_fail(ctx, s, &why);
    staxi_text_free(&why);
    return STAX_OK;
}

STAXDEF stax_status stax_cuda_available(stax_context *ctx) {
    staxi_cuda_driver d;
    staxi_cuda_nvrtc n;
    if (!ctx) return STAX_E_ARGUMENT;
    stax_status s = staxi_cuda_libraries(ctx, &d, &n);
    if (s != STAX_OK) return s;
    staxi_dl_close(n.library);
    staxi_dl_close(d.library);
    return STAX_OK;
}

STAXDEF int stax_cuda_device_count(stax_context *ctx) {
    staxi_cuda_driver d;
    staxi_text why;
    int count = 0;
    if (!ctx) return 0;
    staxi_text_init(&why, &ctx->allocator);
    if (staxi_cuda_driver_open(&d, &why) == STAX_OK) {
        if (d.device_count(&count) != 0) count = 0;
        staxi_dl_close(d.library);
    }
    staxi_text_free(&why);
    return count;
}

/* Fills in what the device says of itself. */
static int staxi_cuda_describe(stax_cuda *c) {
    int major = 0, minor = 0;
    char name[100] = "";
    staxi_text t;
    int error = c->driver.device_get(&c->handle, c->device);
    if (error == 0) error = c->driver.device_name(name, (int)sizeof name, c->handle);
    if (error == 0) error = c->driver.device_attribute(&major, 75, c->handle);
    if (error == 0) error = c->driver.device_attribute(&minor, 76, c->handle);
    if (error == 0) error = c->driver.device_attribute(&c->processors, 16, c->handle);
    if (error == 0) error = c->driver.device_attribute(&c->cache_bytes, 38, c->handle);
    if (error != 0) return error;
    staxi_text_init(&t, &c->ctx->allocator);
    staxi_putf(&t, "sm_%d", major * 10 + minor);
    if (t.data && t.n < sizeof c->architecture) memcpy(c->architecture, t.data, t.n + 1);
    t.n = 0;
    staxi_putf(&t, "%s, sm_%d", name, major * 10 + minor);
    if (t.data && t.n < sizeof c->name) memcpy(c->name, t.data, t.n + 1);
    staxi_text_free(&t);
    return 0;
}

STAXDEF stax_cuda *stax_cuda_open_with(stax_context *ctx, int device, void *context, void *stream) {
    if (!ctx) return NULL;
    stax_cuda *c = (stax_cuda *)staxi_alloc(&ctx->allocator, sizeof *c);
    if (!c) {
        staxi_context_note(ctx, STAX_E_MEMORY, stax_status_text(STAX_E_MEMORY));
        return NULL;
    }
    memset(c, 0, sizeof *c);
    c->ctx = ctx;
    c->device = device;
    c->context = context;
    c->n_own = stream ? 1 : (int)STAXI_CUDA_OWN;
    c->lanes[0].stream = stream;
    if (staxi_cuda_libraries(ctx, &c->driver, &c->nvrtc) != STAX_OK) {
        staxi_free(&ctx->allocator, c, sizeof *c);
        return NULL;
    }
    staxi_mutex_init(&c->mutex);
    staxi_mutex_init(&c->staging.mutex);
    for (int k = 0; k < STAXI_CUDA_LANES; k++) staxi_mutex_init(&c->lanes[k].mutex);
    int count = 0, error = c->driver.device_count(&count);
    if (error == 0 && (device < 0 || device >= count)) {
        staxi_text why;
        staxi_text_init(&why, &ctx->allocator);
        staxi_putf(&why, "there is no CUDA device %d: expected 0 to %d", device, count - 1);
        (void)staxi_cuda_fail(ctx, STAX_E_DEVICE, &why);
        c->context = NULL;
        stax_cuda_close(c);
        return NULL;
    }
    if (error == 0) error = staxi_cuda_describe(c);
    if (error == 0 && !context) {
        error = c->driver.primary_retain(&c->context, c->handle);
        c->own_context = error == 0;
    }
    if (error == 0) {
        staxi_cuda_lane *l = &c->lanes[0];
        staxi_cuda_enter(c);
        error = c->driver.event_new(&l->event, 2); /* without times */
        if (error == 0 && !stream) error = c->driver.stream_new(&l->stream, 1);
        c->own_stream = !stream;
        c->n_lanes = 1;
        l->is_ours = true;
        l->thread = staxi_cuda_caller();
        staxi_cuda_leave(c);
    }
    if (error == 0) return c;
    (void)staxi_cuda_note(c, error, "it cannot be opened");
    stax_cuda_close(c);
    return NULL;
}

STAXDEF stax_cuda *stax_cuda_open(stax_context *ctx, int device) {
    return stax_cuda_open_with(ctx, device, NULL, NULL);
}

STAXDEF void stax_cuda_close(stax_cuda *c) {
    if (!c) return;
    const stax_allocator *a = &c->ctx->allocator;
    if (c->context) {
        staxi_cuda_enter(c);
        (void)staxi_cuda_wait_all(c);
        for (int k = 0; k < STAXI_CUDA_LANES; k++) {
            staxi_cuda_lane *l = &c->lanes[k];
            if (l->event) (void)c->driver.event_free(l->event);
            if (l->stream && k < STAXI_CUDA_OWN && (k || c->own_stream))
                (void)c->driver.stream_free(l->stream);
        }
        for (int k = 0; k < STAXI_CUDA_STAGERS; k++) staxi_cuda_stager_free(c, k);
        if (c->told) (void)c->driver.host_free((void *)(uintptr_t)c->told);
        staxi_cuda_leave(c);
        if (c->own_context) (void)c->driver.primary_release(c->handle);
    }
    for (int k = 0; k < STAXI_CUDA_LANES; k++) staxi_mutex_free(&c->lanes[k].mutex);
    staxi_mutex_free(&c->staging.mutex);
    staxi_mutex_free(&c->mutex);
    staxi_dl_close(c->nvrtc.library);
    staxi_dl_close(c->driver.library);
    staxi_free(a, c, sizeof *c);
}

STAXDEF const char *stax_cuda_name(const stax_cuda *c) { return c ? c->name : ""; }

STAXDEF void *stax_cuda_stream(const stax_cuda *cuda) {
    stax_cuda *c = (stax_cuda *)(uintptr_t)cuda; /* it may get a stream here */
    int error;
    staxi_cuda_lane *l = c ? staxi_cuda_enter_lane(c, NULL, &error) : NULL;
    if (!l) return NULL;
    void *stream = l->stream;
    (void)staxi_cuda_leave_lane(c, l);
    return stream;
}

STAXDEF stax_status stax_cuda_wait(stax_cuda *c) {
    if (!c) return STAX_E_ARGUMENT;
    staxi_cuda_enter(c);
    int error = staxi_cuda_wait_all(c);
    staxi_cuda_leave(c);
    return staxi_cuda_note(c, error, "work in its stream failed");
}

/* ---- device tensors ---- */

/* A tensor without memory yet, and its bytes: at least one, so that its address is its own. */
static stax_status staxi_cuda_tensor(const stax_cuda *c, stax_dtype dtype, stax_shape shape,
                                     stax_tensor *out, size_t *bytes) {
    if (!c || !out || !stax_dtype_bytes(dtype)) return STAX_E_ARGUMENT;
    *out = stax_tensor_of(dtype, shape, NULL);
    if (!staxi_tensor_fits(out)) return STAX_E_OVERFLOW;
    *bytes = (size_t)staxi_tensor_elements(out) * stax_dtype_bytes(dtype);
    *bytes += *bytes == 0;
    return STAX_OK;
}

STAXDEF stax_status stax_cuda_tensor_new(stax_cuda *c, stax_dtype dtype, stax_shape shape,
                                         stax_tensor *out) {
    staxi_cuda_address at = 0;
    size_t bytes;
    stax_status s = staxi_cuda_tensor(c, dtype, shape, out, &bytes);
    if (s != STAX_OK) return s;
    staxi_cuda_enter(c);
    int error = c->driver.memory_new(&at, bytes);
    staxi_cuda_leave(c);
    out->data = error ? NULL : (void *)(uintptr_t)at;
    out->device = c->device + 1;
    return staxi_cuda_note(c, error, "memory for a tensor");
}

STAXDEF void stax_cuda_tensor_free(stax_cuda *c, stax_tensor *t) {
    if (!c || !t || !t->data || !t->device) return;
    staxi_cuda_enter(c);
    (void)c->driver.memory_free(staxi_cuda_address_of(t->data));
    staxi_cuda_leave(c);
    t->data = NULL;
}

STAXDEF stax_status stax_cuda_host_new(stax_cuda *c, stax_dtype dtype, stax_shape shape,
                                       stax_tensor *out) {
    void *at = NULL;
    size_t bytes;
    stax_status s = staxi_cuda_tensor(c, dtype, shape, out, &bytes);
    if (s != STAX_OK) return s;
    staxi_cuda_enter(c);
    int error = c->driver.host_new(&at, bytes, 0);
    staxi_cuda_leave(c);
    out->data = error ? NULL : at;
    return staxi_cuda_note(c, error, "page-locked host memory for a tensor");
}

STAXDEF void stax_cuda_host_free(stax_cuda *c, stax_tensor *t) {
    if (!c || !t || !t->data || t->device) return;
    staxi_cuda_enter(c);
    (void)staxi_cuda_wait_all(c);
    (void)c->driver.host_free(t->data);
    staxi_cuda_leave(c);
    t->data = NULL;
}

/* Queues a copy in a lane; under the lock. */
static int staxi_cuda_move(stax_cuda *c, staxi_cuda_lane *l, const stax_tensor *to,
                           const stax_tensor *from, size_t bytes) {
    if (bytes == 0) return 0;
    int error = 0;
    for (int when = 0; when < 2 && error == 0; when++) { /* behind it too: the lock was open */
        staxi_cuda_lane_begin(l);
        if (to->device) error = staxi_cuda_touch(c, l, to->data, bytes, true);
        if (error == 0 && from->device) error = staxi_cuda_touch(c, l, from->data, bytes, false);
        if (error || when) continue;
        const staxi_cuda_address a = staxi_cuda_address_of(to->data),
                                 b = staxi_cuda_address_of(from->data);
        error = !from->device ? staxi_cuda_send(c, l, a, from->data, bytes)
                : !to->device ? staxi_cuda_receive(c, l, to->data, b, bytes)
                              : c->driver.on_device(a, b, bytes, l->stream);
    }
    return error;
}

static stax_status staxi_cuda_copy(stax_cuda *c, const stax_tensor *to, const stax_tensor *from,
                                   bool waits) {
    int error = 0;
    if (!c || !to || !from || to->dtype != from->dtype || to->rank != from->rank ||
        !staxi_tensor_is_row(to) || !staxi_tensor_is_row(from) || (!to->device && !from->device))
        return STAX_E_ARGUMENT;
    for (int d = 0; d < to->rank; d++)
        if (to->shape[d] != from->shape[d]) return STAX_E_SHAPE;
    staxi_cuda_lane *l = staxi_cuda_enter_lane(c, NULL, &error);
    if (!l) return staxi_cuda_note(c, error, "a stream for a copy");
    error = staxi_cuda_move(c, l, to, from,
                            (size_t)staxi_tensor_elements(to) * stax_dtype_bytes(to->dtype));
    if (error == 0 && waits) error = staxi_cuda_lane_wait(c, l);
    (void)staxi_cuda_leave_lane(c, l);
    return staxi_cuda_note(c, error, "a copy");
}

STAXDEF stax_status stax_cuda_copy(stax_cuda *c, const stax_tensor *to, const stax_tensor *from) {
    return staxi_cuda_copy(c, to, from, to && from && (!to->device || !from->device));
}

STAXDEF stax_status stax_cuda_copy_async(stax_cuda *c, const stax_tensor *to,
                                         const stax_tensor *from) {
    return staxi_cuda_copy(c, to, from, false);
}

/* At least `bytes`, contents lost when it grows. */
static int staxi_cuda_room(stax_cuda *c, staxi_cuda_memory *m, size_t bytes) {
    if (m->bytes >= bytes && m->at) return 0;
    if (m->at) (void)c->driver.memory_free(m->at);
    m->at = 0;
    m->bytes = 0;
    int error = c->driver.memory_new(&m->at, bytes ? bytes : 1);
    if (error == 0) m->bytes = bytes;
    return error;
}

/* ---- programs ---- */

static size_t staxi_cuda_size_count(const stax_cuda_program *p) {
    const stax_graph *g = p->host->basis; /* of steps: strides of inputs too */
    return p->host->stages.n_sizes + g->n_symbols + 1 +
           (p->host->steps ? g->n_inputs * STAX_MAX_RANK : 0);
}

static size_t staxi_cuda_block_bytes(const stax_cuda_program *p) {
    return sizeof(staxi_cuda_head) + (p->n_args + 1) * sizeof(void *) +
           (staxi_cuda_size_count(p) + 1) * sizeof(int64_t);
}

static void staxi_cuda_replay_drop(stax_cuda *c, staxi_cuda_replay *r) {
    if (r->ready) (void)c->graphs.release(r->ready);
    if (r->graph) (void)c->graphs.destroy(r->graph);
    r->ready = r->graph = NULL;
}

/* Small tensors in mapped memory: bytes of one, how many, and blocks of all launches. */
enum { STAXI_CUDA_SMALL = 4096, STAXI_CUDA_MAPPED = 16, STAXI_CUDA_SMALL_BLOCKS = 4 };

static void staxi_cuda_seat_free(stax_cuda_program *p, staxi_cuda_seat *seat) {
    const stax_allocator *a = &p->host->ctx->allocator;
    stax_cuda *c = p->cuda;
    if (!seat) return;
    for (size_t k = 0; k < p->n_args; k++)
        if (seat->slots[k].at) (void)c->driver.memory_free(seat->slots[k].at);
    if (seat->workspace.at) (void)c->driver.memory_free(seat->workspace.at);
    if (seat->record.at) (void)c->driver.memory_free(seat->record.at);
    if (seat->mapped) (void)c->driver.host_free(seat->mapped);
    staxi_cuda_replay_drop(c, &seat->replay);
    staxi_free(a, seat, seat->bytes);
}

/* The one of a lane, made by the first call there; NULL without memory. */
static staxi_cuda_seat *staxi_cuda_seat_of(stax_cuda_program *p, const staxi_cuda_lane *l) {
    const size_t steps = p->n_launches * sizeof(staxi_cuda_step),
                 slots = p->n_args * sizeof(staxi_cuda_memory),
                 sizes = (p->host->stages.n_sizes + 1) * sizeof(int64_t),
                 block = staxi_cuda_block_bytes(p);
    const size_t bytes = sizeof(staxi_cuda_seat) + slots + 2 * steps + sizes + block;
    staxi_cuda_seat **at = &p->seats[l - p->cuda->lanes];
    if (*at) return *at;
    staxi_cuda_seat *seat = (staxi_cuda_seat *)staxi_alloc(&p->host->ctx->allocator, bytes);
    if (!seat) return NULL;
    memset(seat, 0, bytes);
    seat->bytes = bytes;
    seat->slots = (staxi_cuda_memory *)(void *)(seat + 1);
    seat->plan.steps = (staxi_cuda_step *)(void *)(seat->slots + p->n_args);
    seat->replay.steps = seat->plan.steps + p->n_launches;
    seat->plan.sizes = (int64_t *)(void *)(seat->replay.steps + p->n_launches);
    seat->replay.block = (unsigned char *)seat->plan.sizes + sizes;
    if (!p->has_checks || staxi_cuda_room(p->cuda, &seat->record, sizeof(staxi_record)) == 0)
        return *at = seat;
    staxi_cuda_seat_free(p, seat);
    return NULL;
}

/* Device memory of a program of steps: in a list, also while it is used. */
typedef struct staxi_cuda_block {
    struct staxi_cuda_block *next;
    staxi_cuda_memory memory;
    const staxi_cuda_lane *lane; /* whose calls use it */
    bool used;
} staxi_cuda_block;

/* What only programs of steps have, but for their pieces; under the lock. */
static void staxi_cuda_steps_drop(stax_cuda_program *p) {
    const stax_allocator *a = &p->host->ctx->allocator;
    while (p->pool) {
        staxi_cuda_block *b = p->pool;
        p->pool = b->next;
        if (b->memory.at) (void)p->cuda->driver.memory_free(b->memory.at);
        staxi_free(a, b, sizeof *b);
    }
    for (size_t k = 0; k < p->n_constants; k++)
        if (p->constants[k].at) (void)p->cuda->driver.memory_free(p->constants[k].at);
    staxi_free(a, p->constants, p->n_constants * sizeof *p->constants);
}

STAXDEF void stax_cuda_program_free(stax_cuda_program *p) {
    if (!p) return;
    const stax_allocator *a = &p->host->ctx->allocator;
    stax_cuda *c = p->cuda;
    for (size_t k = 0; k < p->n_pieces; k++) stax_cuda_program_free(p->pieces[k]);
    staxi_free(a, (void *)p->pieces, p->n_pieces * sizeof *p->pieces);
    if (c) {
        staxi_cuda_enter(c);
        (void)staxi_cuda_wait_all(c);
        for (int k = 0; k < STAXI_CUDA_LANES; k++) staxi_cuda_seat_free(p, p->seats[k]);
        for (size_t k = 0; p->params && k < p->host->basis->n_inputs; k++)
            if (p->params[k].at) (void)c->driver.memory_free(p->params[k].at);
        staxi_cuda_steps_drop(p);
        if (p->module) (void)c->driver.module_free(p->module);
        staxi_cuda_leave(c);
    }
    if (p->params) staxi_free(a, p->params, p->n_args * sizeof *p->params);
    if (p->param_is_fresh) staxi_free(a, p->param_is_fresh, p->n_args * sizeof *p->param_is_fresh);
    staxi_free(a, p->size_checks, p->cap_size_checks * sizeof *p->size_checks);
    staxi_free(a, p->launches, p->launch_bytes);
    staxi_text_free(&p->source);
    staxi_text_free(&p->reads);
    staxi_text_free(&p->tuning);
    stax_program *host = p->is_piece ? NULL : p->host;
    staxi_free(a, p, sizeof *p);
    stax_program_free(host);
}

static bool staxi_cuda_size_check_add(stax_cuda_program *p, uint32_t stage, staxi_ix n,
                                      staxi_ix domain) {
    if (!staxi_grow(&p->host->ctx->allocator, (void **)&p->size_checks, &p->cap_size_checks,
                    p->n_size_checks + 1, sizeof *p->size_checks))
        return false;
    staxi_cuda_size_check *s = &p->size_checks[p->n_size_checks++];
    s->n = n;
    s->domain = domain;
    s->node = 0;
    s->stage = stage;
    return true;
}

/* What the C entry checks before its kernels, as data: sizes that may be negative, and reductions
   without a value for nothing that may get nothing. */
static bool staxi_cuda_find_size_checks(stax_cuda_program *p) {
    staxi_stages *s = &p->host->stages;
    const stax_graph *g = s->graph;
    for (uint32_t v = 1; v < g->n_values && g->root->n_symbols; v++)
        for (int d = 0; d < g->values[v].type.rank; d++) {
            staxi_ix n = staxi_ix_copy(&s->ix, &g->root->sizes, g->values[v].type.dims[d]);
            if (staxi_ix_range(&s->ix, n).lo < 0 &&
                !staxi_cuda_size_check_add(p, (uint32_t)s->n_stages, n, 0))
                return false;
        }
    for (uint32_t k = 1; k < s->n_stages; k++) {
        const staxi_stage *st = &s->stages[k];
        staxi_ix n = staxi_ix_const(&s->ix, 1), m = n;
        if (!staxi_needs_element(st)) continue;
        for (int d = 0; d < st->n_domain; d++) m = staxi_ix_mul(&s->ix, m, st->axes[d].extent);
        for (int d = 0; d < st->n_reduce; d++)
            n = staxi_ix_mul(&s->ix, n, st->axes[st->n_domain + d].extent);
        if (staxi_ix_range(&s->ix, n).lo < 1 && !staxi_cuda_size_check_add(p, k, n, m))
            return false;
    }
    for (uint32_t k = 1; k < g->n_nodes && g->root->n_symbols; k++) {
        const staxi_node *node = &g->nodes[k];
        if (node->op != STAX_OP_PAD || !staxi_basis_pad_repeats(g, node)) continue;
        const staxi_type *x = &g->values[node->sources[0]].type;
        const staxi_type *y = &g->values[node->first_value].type;
        staxi_ix all = staxi_ix_const(&s->ix, 1);
        for (int d = 0; d < y->rank; d++)
            all = staxi_ix_mul(&s->ix, all, staxi_ix_copy(&s->ix, &g->root->sizes, y->dims[d]));
        for (int d = 0; d < x->rank; d++) {
            staxi_ix n = staxi_ix_copy(&s->ix, &g->root->sizes, x->dims[d]);
            if (x->dims[d] == y->dims[d] || staxi_ix_range(&s->ix, n).lo >= 1) continue;
            if (!staxi_cuda_size_check_add(p, (uint32_t)s->n_stages + 1, n, all)) return false;
            p->size_checks[p->n_size_checks - 1].node = k;
        }
    }
    return true;
}

/* Stages that no kernel of this chapter can run: named, and refused. Programs of steps have none.
 */
static stax_status staxi_cuda_refuse(const stax_program *host, staxi_text *why) {
    for (uint32_t k = 1; k < host->stages.n_stages; k++) {
        const staxi_stage *st = &host->stages.stages[k];
        if (st->kind != STAXI_STAGE_SORT && st->kind != STAXI_STAGE_CALL &&
            (st->kind != STAXI_STAGE_SCATTER || host->atomics))
            continue;
        staxi_put_place(why, host->basis, st->place);
        staxi_putf(why, "%s runs on the CPU only in this version", st->op_name);
        return STAX_E_NOT_BUILT;
    }
    return STAX_OK;
}

/* What the options allow on an architecture, scatters too. STAX_CUDA_MMA in the environment:
   mma.sync also where there is wgmma. */
static unsigned staxi_cuda_tensor_cores(const stax_compile_options *o, const char *architecture) {
    unsigned tensor = o && o->atomics ? STAXI_CUDA_ATOMICS : 0;
    int number = 0;
    bool wgmma = strcmp(architecture, "sm_90") == 0;
#if !defined(STAX_NO_ENV)
    wgmma = wgmma && !staxi_getenv("STAX_CUDA_MMA");
#endif
    for (const char *c = architecture + 3; *c >= '0' && *c <= '9'; c++)
        number = number * 10 + (*c - '0');
    if (!o || number < 80) return tensor;
    if (o->tensor_cores) tensor |= wgmma ? STAXI_CUDA_WGMMA : STAXI_CUDA_MMA;
    if (o->tf32) tensor |= STAXI_CUDA_TF32;
    return tensor;
}

/* The kernels of a program that is planned. */
static stax_status staxi_cuda_program_emit(stax_cuda_program *p, unsigned tensor,
                                           const staxi_cuda_choices *given, staxi_text *why) {
    stax_program *host = p->host;
    staxi_cuda_unit u;
    stax_status s = staxi_cuda_refuse(host, why);
    if (s != STAX_OK) return s;
    s = staxi_cuda_emit(&u, &host->trees, tensor, given, &p->source);
    p->launches = u.launches;
    p->n_launches = u.n_launches;
    p->launch_bytes = u.cap_launches * sizeof *u.launches;
    p->has_checks = u.has_checks;
    p->choices = u.choices;
    staxi_putn(&p->reads, u.reads.data ? u.reads.data : "", u.reads.n);
    u.launches = NULL;
    u.cap_launches = 0;
    staxi_cuda_unit_free(&u);
    if (s != STAX_OK) staxi_put(why, "the kernels cannot be printed as CUDA");
    if (s == STAX_OK && !staxi_cuda_find_size_checks(p)) s = STAX_E_MEMORY;
    return s;
}

static stax_cuda_program *staxi_cuda_program_of(stax_program *host) {
    const stax_allocator *a = &host->ctx->allocator;
    stax_cuda_program *p = (stax_cuda_program *)staxi_alloc(a, sizeof *p);
    if (!p) return NULL;
    memset(p, 0, sizeof *p);
    p->host = host;
    p->n_args = host->basis->n_inputs * 2 + host->n_outputs + 1;
    staxi_text_init(&p->source, a);
    staxi_text_init(&p->reads, a);
    staxi_text_init(&p->tuning, a);
    return p;
}

/* The pieces of a program of steps, and the text of them all. */
static stax_status staxi_cuda_pieces_new(stax_cuda_program *p, unsigned tensor, staxi_text *why) {
    const staxi_steps *steps = p->host->steps;
    p->pieces = (stax_cuda_program **)staxi_alloc(steps->a, steps->n_pieces * sizeof *p->pieces);
    if (steps->n_pieces && !p->pieces) return STAX_E_MEMORY;
    p->n_pieces = steps->n_pieces;
    stax_status s = STAX_OK;
    for (size_t k = 0; k < p->n_pieces; k++) {
        stax_program *host = steps->pieces[k];
        p->pieces[k] = s == STAX_OK && !host->hosted ? staxi_cuda_program_of(host) : NULL;
        if (s != STAX_OK) continue;
        staxi_putf(&p->source, "/* ---- piece %U", (uint64_t)k);
        if (host->hosted) {
            const staxi_node *n = &host->basis->nodes[host->basis->n_nodes - 1];
            staxi_putf(&p->source, ": %s, by the host */\n", staxi_written_op_name(n));
            continue;
        }
        staxi_put(&p->source, " */\n");
        if (!p->pieces[k]) s = STAX_E_MEMORY;
        if (s != STAX_OK) continue;
        p->pieces[k]->is_piece = true;
        s = staxi_cuda_program_emit(p->pieces[k], tensor, NULL, why);
        const staxi_text *text = &p->pieces[k]->source;
        if (text->data) staxi_putn(&p->source, text->data, text->n);
    }
    return s == STAX_OK && p->source.failed ? STAX_E_MEMORY : s;
}

/* Lowered, scheduled and printed; no library is needed for it. */
static stax_cuda_program *staxi_cuda_program_new(const stax_graph *g, unsigned tensor,
                                                 const staxi_cuda_choices *given) {
    stax_program *host = g ? staxi_program_new(g, STAX_BACKEND_STAX) : NULL;
    if (!host) return NULL;
    stax_cuda_program *p = staxi_cuda_program_of(host);
    staxi_text why;
    staxi_text_init(&why, &host->ctx->allocator);
    stax_status s = STAX_E_MEMORY;
    if (p) {
        staxi_put(&why, "CUDA: ");
        host->for_device = true;
        host->atomics = (tensor & STAXI_CUDA_ATOMICS) != 0;
        tensor &= ~(unsigned)STAXI_CUDA_ATOMICS;
        const bool steps = staxi_is_stepped(host);
        s = steps ? staxi_steps_build(host, &why) : staxi_program_plan(host, &why);
        if (s == STAX_OK)
            s = steps ? staxi_cuda_pieces_new(p, tensor, &why)
                      : staxi_cuda_program_emit(p, tensor, given, &why);
    }
    if (s == STAX_OK) {
        staxi_text_free(&why);
        return p;
    }
    (void)staxi_cuda_fail(host->ctx, s, &why);
    if (p)
        stax_cuda_program_free(p);
    else
        stax_program_free(host);
    return NULL;
}

/* Programs that check indices run kernel by kernel: their last one reads what the first ones found.
 */
static stax_status staxi_cuda_will_replay(stax_cuda_program *p, staxi_text *why) {
    stax_status s = staxi_cuda_graphs_open(&p->cuda->graphs, &p->cuda->driver, why);
    p->replays = s == STAX_OK && !p->has_checks && p->n_launches > 0;
    return s;
}

/* kernel names are stax_kernel_0, 1, ... */
static stax_status staxi_cuda_load(stax_cuda_program *p, const staxi_text *cubin, staxi_text *why) {
    stax_cuda *c = p->cuda;
    staxi_cuda_enter(c);
    int error = c->driver.module_load(&p->module, cubin->data);
    for (size_t k = 0; k < p->n_launches && error == 0; k++) {
        char name[40];
        staxi_format(name, sizeof name, "stax_kernel_%U", (uint64_t)k);
        error = c->driver.function(&p->launches[k].function, p->module, name);
        if (error == 0 && p->launches[k].shared) /* above 48 KiB it must be asked for */
            error = c->driver.function_attribute(p->launches[k].function, 8,
                                                 (int)p->launches[k].shared);
    }
    staxi_cuda_leave(c);
    return staxi_cuda_why(c, error, "loading the kernels", why);
}

/* The constants that are cells of the steps, on the device. */
static stax_status staxi_cuda_steps_ready(stax_cuda_program *p, staxi_text *why) {
    const staxi_steps *steps = p->host->steps;
    stax_cuda *c = p->cuda;
    int error = 0;
    p->constants =
        (staxi_cuda_memory *)staxi_alloc(steps->a, steps->n_cells * sizeof *p->constants);
    if (!p->constants) return STAX_E_MEMORY;
    p->n_constants = steps->n_cells;
    memset(p->constants, 0, p->n_constants * sizeof *p->constants);
    staxi_cuda_lane *l = staxi_cuda_enter_lane(c, NULL, &error);
    if (!l) return staxi_cuda_why(c, error, "a stream for the constants of a program", why);
    staxi_cuda_lane_begin(l);
    for (size_t k = 1; k < p->n_constants && error == 0; k++) {
        const staxi_cell *cell = &steps->cells[k];
        size_t bytes = staxi_dtype_bytes((stax_dtype)cell->type->dtype);
        int64_t n = 1;
        if (!cell->data) continue;
        for (int d = 0; d < cell->type->rank; d++) { /* their sizes are literals */
            int64_t size = 0;
            if (!staxi_size_eval(&p->host->basis->sizes, cell->type->dims[d], NULL, &size))
                size = 0;
            n *= size;
        }
        bytes *= (size_t)n;
        error = staxi_cuda_room(c, &p->constants[k], bytes);
        if (error == 0 && bytes)
            error = c->driver.to_device(p->constants[k].at, cell->data, bytes, l->stream);
    }
    if (error == 0) error = staxi_cuda_lane_wait(c, l);
    (void)staxi_cuda_leave_lane(c, l);
    return staxi_cuda_why(c, error, "the constants of a program", why);
}

/* Everything that a program needs on the device but its kernels. */
static stax_status staxi_cuda_params_new(stax_cuda_program *p, staxi_text *why) {
    const stax_allocator *a = &p->host->ctx->allocator;
    p->params = (staxi_cuda_memory *)staxi_alloc(a, p->n_args * sizeof *p->params);
    p->param_is_fresh = (bool *)staxi_alloc(a, p->n_args * sizeof *p->param_is_fresh);
    if (p->params) memset(p->params, 0, p->n_args * sizeof *p->params);
    if (p->param_is_fresh) memset(p->param_is_fresh, 0, p->n_args * sizeof *p->param_is_fresh);
    if (!p->params || !p->param_is_fresh) return STAX_E_MEMORY;
    if (p->host->steps || (p->n_args + p->host->stages.n_sizes) * 8 <= 4000) return STAX_OK;
    staxi_put(why, "CUDA: the kernels of this graph have more arguments than fit");
    return STAX_E_NOT_BUILT;
}

/* Compiles and loads the kernels of a program, or of its pieces. */
static stax_status staxi_cuda_ready(stax_cuda_program *p, const stax_compile_options *options,
                                    unsigned tensor, staxi_text *why) {
    stax_cuda *c = p->cuda;
    stax_status s = staxi_cuda_params_new(p, why);
    for (size_t k = 0; k < p->n_pieces && s == STAX_OK; k++) {
        if (!p->pieces[k]) continue;
        p->pieces[k]->cuda = c;
        s = staxi_cuda_ready(p->pieces[k], options, tensor, why);
        p->host->built.origin = p->pieces[k]->host->built.origin;
        p->host->built.spent_ns += p->pieces[k]->host->built.spent_ns;
    }
    if (s == STAX_OK && p->host->steps) return staxi_cuda_steps_ready(p, why);
    staxi_text cubin;
    staxi_text_init(&cubin, &c->ctx->allocator);
    if (s == STAX_OK && options && options->reduce_overhead) s = staxi_cuda_will_replay(p, why);
    if (s == STAX_OK)
        s = staxi_cuda_build(c->ctx, &c->nvrtc, p->source.data,
                             tensor & STAXI_CUDA_WGMMA ? "sm_90a" : c->architecture, &cubin,
                             &p->host->built, why);
    if (s == STAX_OK) s = staxi_cuda_load(p, &cubin, why);
    staxi_text_free(&cubin);
    return s;
}

/* Printed with these choices (NULL: those of the table), compiled and loaded. */
static stax_cuda_program *staxi_cuda_program_with(stax_cuda *c, const stax_graph *g,
                                                  const stax_compile_options *options,
                                                  unsigned tensor,
                                                  const staxi_cuda_choices *given) {
    stax_cuda_program *p = staxi_cuda_program_new(g, tensor, given);
    if (!p) return NULL;
    staxi_text why;
    staxi_text_init(&why, &c->ctx->allocator);
    p->cuda = c;
    stax_status s = staxi_cuda_ready(p, options, tensor, &why);
    if (s != STAX_OK) (void)staxi_context_fail(c->ctx, s, &why);
    staxi_text_free(&why);
    if (s == STAX_OK) return p;
    stax_cuda_program_free(p);
    return NULL;
}

/* ---- the tuner ----
   What emission has chosen by table is measured against its alternatives on random data: choice
   after choice, in passes until none helps (coordinate descent, A 9.2), then some drawn at random
   (P 9.3). Whatever does not have the bits of the table's program is refused. The winner is
   recorded in the cache folder by source, sizes and device. */

enum {
    STAXI_CUDA_TUNE_PASSES = 3,
    STAXI_CUDA_TUNE_DRAWS = 6,
    STAXI_CUDA_TUNE_READINGS = 5,
    STAXI_CUDA_TUNE_NS = 2000000, /* of a reading */
    STAXI_CUDA_TUNE_SIZE = 1024   /* of a size symbol, if its range allows */
};

typedef struct staxi_cuda_probe {
    stax_cuda_program *best, *first; /* so far, and by table: not freed before the end */
    double least, table;             /* ns a call, at the end */
    stax_tensor *tensors;            /* inputs but for params, then outputs; on the device */
    stax_tensor *params;             /* by input; in host memory                           */
    size_t n_in, n, room;
    int64_t *sizes;
    char *data, *want, *got; /* of all inputs; results of the table's program, and of another */
    size_t in_bytes, bytes;  /* of all inputs; of results: outputs and what states became     */
    int measured, refused;
} staxi_cuda_probe;

/* Numbers that are valid for every op: in [-1, 1), small integers. */
static void staxi_cuda_probe_fill(char *to, stax_dtype t, int64_t n, uint64_t *seed) {
    const size_t size = stax_dtype_bytes(t);
    memset(to, 0, (size_t)n * size);
    for (int64_t k = 0; k < n; k++, to += size) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        const uint32_t r = (uint32_t)(*seed >> 33);
        const float f = (float)(r >> 7) * 1.1920929e-7f - 1.0f;
        const double wide = (double)f;
        const uint16_t half =
            (uint16_t)(t == STAX_BF16 ? staxi_bf16_of_f32(f) : staxi_f16_of_f32(f));
        if (t == STAX_F32) memcpy(to, &f, size);
        if (t == STAX_F64) memcpy(to, &wide, size);
        if (t == STAX_F16 || t == STAX_BF16) memcpy(to, &half, size);
        if (!staxi_dtype_is_float((int)t))
            *(uint8_t *)to = (uint8_t)(r >> 8 & (t == STAX_BOOL ? 1 : 3));
    }
}

static stax_shape staxi_cuda_probe_shape(const stax_graph *g, uint32_t value, const int64_t *sizes,
                                         bool *ok) {
    const staxi_type *t = &g->values[value].type;
    stax_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.rank = t->rank;
    for (int d = 0; d < t->rank; d++)
        *ok = *ok && staxi_size_eval(&g->root->sizes, t->dims[d], sizes, &shape.dims[d]);
    return shape;
}

static size_t staxi_cuda_tensor_bytes(const stax_tensor *t) {
    return (size_t)staxi_tensor_elements(t) * stax_dtype_bytes(t->dtype);
}

/* A tensor of the shape that the value has at the sizes of the probe: on the device, or in host
   memory and filled. */
static bool staxi_cuda_probe_tensor(staxi_cuda_probe *b, const stax_graph *g, uint32_t value,
                                    bool here, uint64_t *seed, stax_tensor *t) {
    stax_cuda *c = b->first->cuda;
    const stax_dtype dtype = (stax_dtype)g->values[value].type.dtype;
    bool ok = true;
    const stax_shape shape = staxi_cuda_probe_shape(g, value, b->sizes, &ok);
    if (!here || !ok) return ok && stax_cuda_tensor_new(c, dtype, shape, t) == STAX_OK;
    *t = stax_tensor_of(dtype, shape, NULL);
    t->data = staxi_alloc(&c->ctx->allocator, staxi_cuda_tensor_bytes(t) + 1);
    if (t->data) staxi_cuda_probe_fill((char *)t->data, dtype, staxi_tensor_elements(t), seed);
    return t->data != NULL;
}

/* Tensors for all slots and params. */
static bool staxi_cuda_probe_new(staxi_cuda_probe *b, stax_cuda_program *p) {
    const stax_graph *g = p->host->basis;
    const stax_allocator *a = &p->cuda->ctx->allocator;
    bool ok = true;
    uint64_t seed = 1;
    memset(b, 0, sizeof *b);
    b->best = b->first = p;
    for (size_t k = 0; k < g->n_inputs; k++) b->n_in += g->inputs[k].kind != STAXI_PARAM;
    b->n = b->n_in + p->host->n_outputs;
    b->room = (b->n + g->n_inputs + 1) * sizeof *b->tensors + (g->n_symbols + 1) * sizeof *b->sizes;
    b->tensors = (stax_tensor *)staxi_alloc(a, b->room);
    if (!b->tensors) return false;
    memset(b->tensors, 0, b->room);
    b->params = b->tensors + b->n;
    b->sizes = (int64_t *)(void *)(b->params + g->n_inputs + 1);
    for (size_t k = 0; k < g->n_symbols; k++) {
        const staxi_symbol *y = &g->root->symbols[k];
        b->sizes[k] = y->hi < STAXI_CUDA_TUNE_SIZE   ? y->hi
                      : y->lo > STAXI_CUDA_TUNE_SIZE ? y->lo
                                                     : (int64_t)STAXI_CUDA_TUNE_SIZE;
    }
    for (size_t k = 0, slot = 0; k < g->n_inputs + p->host->n_outputs && ok; k++) {
        const bool in = k < g->n_inputs, param = in && g->inputs[k].kind == STAXI_PARAM;
        const uint32_t v = in ? g->inputs[k].value : g->outputs[k - g->n_inputs].value;
        stax_tensor *t = param ? &b->params[k] : &b->tensors[slot++];
        ok = staxi_cuda_probe_tensor(b, g, v, param, &seed, t);
        if (!ok || param) continue;
        if (in) b->in_bytes += staxi_cuda_tensor_bytes(t);
        if (!in || g->inputs[k].kind == STAXI_STATE) b->bytes += staxi_cuda_tensor_bytes(t);
    }
    b->data = ok ? (char *)staxi_alloc(a, b->in_bytes + 2 * b->bytes + 1) : NULL;
    if (!b->data) return false;
    b->want = b->data + b->in_bytes;
    b->got = b->want + b->bytes;
    char *at = b->data;
    for (size_t k = 0; k < b->n_in; at += staxi_cuda_tensor_bytes(&b->tensors[k++]))
        staxi_cuda_probe_fill(at, b->tensors[k].dtype, staxi_tensor_elements(&b->tensors[k]),
                              &seed);
    return true;
}

/* Gives a program the params of the probe, or takes them away again. */
static bool staxi_cuda_probe_bind(const staxi_cuda_probe *b, stax_cuda_program *p, bool binds) {
    const stax_graph *g = p->host->basis;
    bool ok = true;
    for (size_t k = 0; k < g->n_inputs && ok; k++) {
        if (g->inputs[k].kind != STAXI_PARAM) continue;
        if (binds) ok = stax_cuda_bind(p, g->inputs[k].name, &b->params[k]) == STAX_OK;
        if (binds) continue;
        p->param_is_fresh[k] = false;
        staxi_workspace_drop(&p->host->ctx->allocator, p->host->bound[k].memory);
        memset(&p->host->bound[k], 0, sizeof p->host->bound[k]);
    }
    return ok;
}

static void staxi_cuda_probe_free(staxi_cuda_probe *b, stax_cuda *c) {
    const stax_allocator *a = &c->ctx->allocator;
    const size_t n_inputs = b->first->host->basis->n_inputs;
    for (size_t k = 0; b->tensors && k < b->n; k++) stax_cuda_tensor_free(c, &b->tensors[k]);
    for (size_t k = 0; b->tensors && k < n_inputs; k++)
        staxi_free(a, b->params[k].data, staxi_cuda_tensor_bytes(&b->params[k]) + 1);
    staxi_free(a, b->data, b->in_bytes + 2 * b->bytes + 1);
    staxi_free(a, b->tensors, b->room);
}

/* Is slot k a state? */
static bool staxi_cuda_probe_is_state(const staxi_cuda_probe *b, size_t k) {
    const stax_graph *g = b->first->host->basis;
    for (size_t i = 0; i < g->n_inputs; i++)
        if (g->inputs[i].kind != STAXI_PARAM && k-- == 0) return g->inputs[i].kind == STAXI_STATE;
    return false;
}

/* Data into the tensors from..to - 1, or out of them. `results`: of states only. */
static bool staxi_cuda_probe_copy(const staxi_cuda_probe *b, size_t from, size_t to, bool results,
                                  bool out, char *data) {
    stax_cuda *c = b->first->cuda;
    bool ok = true;
    for (size_t k = from; k < to && ok; k++) {
        stax_tensor host = b->tensors[k];
        if (results && k < b->n_in && !staxi_cuda_probe_is_state(b, k)) continue;
        host.device = 0;
        host.data = data;
        ok = (out ? stax_cuda_copy(c, &host, &b->tensors[k])
                  : stax_cuda_copy(c, &b->tensors[k], &host)) == STAX_OK;
        data += staxi_cuda_tensor_bytes(&host);
    }
    return ok;
}

/* One call on the data as they were, over outputs of which nothing may remain; its results. */
static bool staxi_cuda_probe_run(const staxi_cuda_probe *b, stax_cuda_program *p, char *results) {
    memset(results, 0x55, b->bytes);
    return staxi_cuda_probe_copy(b, b->n_in, b->n, false, false, results) &&
           staxi_cuda_probe_copy(b, 0, b->n_in, false, false, b->data) &&
           stax_cuda_run(p, b->tensors, b->tensors + b->n_in) == STAX_OK &&
           staxi_cuda_probe_copy(b, 0, b->n, true, true, results) &&
           stax_cuda_wait(p->cuda) == STAX_OK;
}

/* Nanoseconds a call of both programs: medians of readings in turn, so that both meet the same
   clock and neighbours. */
static void staxi_cuda_probe_time(const staxi_cuda_probe *b, stax_cuda_program *const p[2],
                                  double ns[2]) {
    double readings[2][STAXI_CUDA_TUNE_READINGS];
    int calls[2] = {1, 1};
    for (int k = -1; k < STAXI_CUDA_TUNE_READINGS; k++) {
        for (int w = 0; w < 2; w++) {
            const int64_t start = staxi_clock_ns();
            for (int i = 0; i < calls[w]; i++)
                (void)stax_cuda_run(p[w], b->tensors, b->tensors + b->n_in);
            (void)stax_cuda_wait(p[w]->cuda);
            const double one = (double)(staxi_clock_ns() - start) / calls[w];
            if (k < 0)
                calls[w] = one * 200 < (double)STAXI_CUDA_TUNE_NS
                               ? 200
                               : (int)((double)STAXI_CUDA_TUNE_NS / one) + 1;
            int at = k;
            for (; at > 0 && readings[w][at - 1] > one; at--) readings[w][at] = readings[w][at - 1];
            if (k >= 0) readings[w][at] = one;
        }
    }
    for (int w = 0; w < 2; w++) ns[w] = readings[w][STAXI_CUDA_TUNE_READINGS / 2];
}

/* Measures other choices; true: they are the best so far. */
static bool staxi_cuda_tune_try(staxi_cuda_probe *b, const stax_graph *g,
                                const stax_compile_options *o, unsigned tensor,
                                const staxi_cuda_choices *given) {
    stax_cuda *c = b->best->cuda;
    stax_cuda_program *p = staxi_cuda_program_with(c, g, o, tensor, given), *both[2];
    double ns[2];
    if (!p) return false;
    b->measured++;
    if (!staxi_cuda_probe_bind(b, p, true) || !staxi_cuda_probe_run(b, p, b->got) ||
        memcmp(b->want, b->got, b->bytes) != 0) {
        b->refused++;
        stax_cuda_program_free(p);
        return false;
    }
    both[0] = p;
    both[1] = b->best;
    staxi_cuda_probe_time(b, both, ns);
    const bool better = ns[0] < ns[1] * 0.98;
    if (better) {
        b->best = p;
        p = both[1] == b->first ? NULL : both[1];
    }
    stax_cuda_program_free(p);
    return better;
}

/* The winner once more against the table's program, which stays if it is as fast. */
static void staxi_cuda_tune_check(staxi_cuda_probe *b) {
    stax_cuda_program *both[2];
    double ns[2];
    both[0] = b->best;
    both[1] = b->first;
    staxi_cuda_probe_time(b, both, ns);
    b->least = ns[0];
    b->table = ns[1];
    if (b->best == b->first || ns[0] < ns[1]) return;
    stax_cuda_program_free(b->best);
    b->best = b->first;
    b->least = ns[1];
}

static void staxi_cuda_tune_search(staxi_cuda_probe *b, const stax_graph *g,
                                   const stax_compile_options *o, unsigned tensor) {
    bool better = true;
    uint64_t seed = 7;
    for (int pass = 0; pass < STAXI_CUDA_TUNE_PASSES && better; pass++) {
        better = false;
        for (int k = 0; k < b->best->choices.n; k++)
            for (int n = 0; n < b->best->choices.of[k]; n++) {
                staxi_cuda_choices c = b->best->choices;
                if (n == c.taken[k]) continue;
                c.taken[k] = (uint8_t)n;
                better = staxi_cuda_tune_try(b, g, o, tensor, &c) || better;
            }
    }
    for (int draw = 0; draw < STAXI_CUDA_TUNE_DRAWS && b->best->choices.n > 2; draw++) {
        staxi_cuda_choices c = b->best->choices;
        for (int k = 0; k < c.n; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            c.taken[k] = (uint8_t)((seed >> 33) % c.of[k]);
        }
        (void)staxi_cuda_tune_try(b, g, o, tensor, &c);
    }
}

static void staxi_cuda_tune_say(const staxi_cuda_probe *b) {
    const staxi_cuda_choices *by[2];
    staxi_text *t = &b->best->tuning;
    by[0] = &b->best->choices;
    by[1] = &b->first->choices;
    staxi_putf(t, "tuned: %d measured, %d refused, %D ns a call, %D by table; choices", b->measured,
               b->refused, (int64_t)b->least, (int64_t)b->table);
    for (int w = 0; w < 2; w++)
        for (int k = 0; k < by[w]->n; k++)
            staxi_putf(t, w && !k ? ", by table %d" : " %d", (int)by[w]->taken[k]);
}

/* The name of the record: everything that the choice depends on. */
static void staxi_cuda_tune_name(const staxi_cuda_probe *b, const stax_cuda_program *p,
                                 char name[STAXI_CACHE_NAME]) {
    staxi_sha256 sha;
    uint8_t digest[32];
    char hex[65];
    staxi_text t;
    staxi_text_init(&t, &p->cuda->ctx->allocator);
    staxi_putf(&t, "tuning 1\n%s\n", p->cuda->name);
    for (size_t k = 0; k < p->host->basis->n_symbols; k++) staxi_putf(&t, "%D ", b->sizes[k]);
    staxi_sha256_init(&sha);
    if (t.data) staxi_sha256_update(&sha, t.data, t.n);
    staxi_sha256_update(&sha, p->source.data, p->source.n);
    staxi_sha256_final(&sha, digest);
    staxi_hex(digest, sizeof digest, hex);
    staxi_text_free(&t);
    staxi_cache_name(hex, STAXI_OBJECT_SUFFIX, name);
}

/* The fastest program of the graph instead of the one by table, p. */
static stax_cuda_program *staxi_cuda_tune(stax_cuda_program *p, const stax_graph *g,
                                          const stax_compile_options *o, unsigned tensor) {
    stax_cuda *c = p->cuda;
    staxi_toolchain *tc = staxi_toolchain_of(c->ctx);
    char name[STAXI_CACHE_NAME];
    staxi_cuda_probe b;
    staxi_cuda_choices found;
    staxi_text record, note;
    if (p->host->steps || p->choices.n == 0) {
        staxi_put(&p->tuning,
                  p->host->steps
                      ? "not tuned: the host has steps, which decide how often each piece runs; "
                        "compile what lies between them as graphs of their own"
                      : "not tuned: there is nothing to choose");
        return p;
    }
    staxi_text_init(&record, &c->ctx->allocator);
    staxi_text_init(&note, &c->ctx->allocator);
    bool ok = staxi_cuda_probe_new(&b, p);
    if (ok) staxi_cuda_tune_name(&b, p, name);
    staxi_mutex_lock(&tc->setup);
    const bool folder = ok && staxi_folder_ready(tc, &note) == STAX_OK;
    staxi_mutex_unlock(&tc->setup);
    const bool known = folder && staxi_cache_read(tc, name, &record) && record.n == sizeof found;
    if (known) {
        memcpy(&found, record.data, sizeof found);
        stax_cuda_program *q = staxi_cuda_program_with(c, g, o, tensor, &found);
        if (q) b.best = q;
        staxi_put(&b.best->tuning, "tuned before");
    } else if (ok && staxi_cuda_probe_bind(&b, p, true) && staxi_cuda_probe_run(&b, p, b.want)) {
        staxi_cuda_tune_search(&b, g, o, tensor);
        staxi_cuda_tune_check(&b);
        record.n = 0;
        staxi_putn(&record, (const char *)&b.best->choices, sizeof found);
        staxi_seal(&record, name);
        if (folder && !record.failed) (void)staxi_cache_publish(tc, name, &record, NULL, &note);
        staxi_cuda_tune_say(&b);
    } else {
        staxi_put(&b.best->tuning, "not tuned: a call on random data failed");
    }
    staxi_cuda_probe_free(&b, c);
    if (b.best != p) stax_cuda_program_free(p);
    p = b.best;
    (void)staxi_cuda_probe_bind(&b, p, false);
    staxi_text_free(&record);
    staxi_text_free(&note);
    return p;
}

STAXDEF const char *stax_cuda_tuning(const stax_cuda_program *p) {
    return p && p->tuning.data ? p->tuning.data : "";
}

STAXDEF stax_cuda_program *stax_cuda_compile(stax_cuda *c, const stax_graph *g,
                                             const stax_compile_options *options) {
    if (!c || !g) return NULL;
    if (options && options->schedule) {
        staxi_context_note(c->ctx, STAX_E_NOT_BUILT,
                           "a schedule for a GPU: this part is not built into this version");
        return NULL;
    }
    const unsigned tensor = staxi_cuda_tensor_cores(options, c->architecture);
    stax_cuda_program *p = staxi_cuda_program_with(c, g, options, tensor, NULL);
    return p && options && options->tune ? staxi_cuda_tune(p, g, options, tensor) : p;
}

STAXDEF const char *stax_cuda_source(const stax_cuda_program *p) {
    return p && p->source.data ? p->source.data : "";
}

STAXDEF int stax_cuda_kernels(const stax_cuda_program *p) {
    int n = p ? (int)p->n_launches : 0;
    for (size_t k = 0; p && k < p->n_pieces; k++) n += stax_cuda_kernels(p->pieces[k]);
    return n;
}

STAXDEF stax_status stax_cuda_program_figures(const stax_cuda_program *p, const stax_tensor *inputs,
                                              stax_figures *out) {
    if (!p || !out) return STAX_E_ARGUMENT;
    memset(out, 0, sizeof *out);
    stax_status s = staxi_plan_figures(p->host, inputs, out);
    out->kernels = stax_cuda_kernels(p);
    for (int k = 0; k < STAXI_CUDA_LANES; k++)
        if (p->seats[k]) out->workspace_bytes += p->seats[k]->workspace.bytes;
    out->origin = staxi_origin_name(p->host->built.origin);
    out->compile_ns = p->host->built.spent_ns;
    out->threads = 1;
    return s;
}

STAXDEF stax_status stax_cuda_bind(stax_cuda_program *p, const char *name, const stax_tensor *t) {
    if (!p || !name || !t) return STAX_E_ARGUMENT;
    staxi_mutex_lock(&p->cuda->mutex); /* calls read what is bound under it */
    stax_status s = stax_bind(p->host, name, t);
    memset(p->param_is_fresh, 0, p->n_args * sizeof *p->param_is_fresh);
    staxi_mutex_unlock(&p->cuda->mutex);
    return s;
}

STAXDEF char *stax_cuda_print_with(const stax_graph *g, const stax_compile_options *options) {
    stax_cuda_program *p =
        staxi_cuda_program_new(g, staxi_cuda_tensor_cores(options, "sm_90"), NULL);
    if (!p) return NULL;
    char *text = staxi_text_give(p->host->ctx, &p->source);
    stax_cuda_program_free(p);
    return text;
}

STAXDEF char *stax_cuda_print(const stax_graph *g) { return stax_cuda_print_with(g, NULL); }

/* ---- explain ---- */

/* Who computes what, in the words of >>cuda. */
static const char *const staxi_cuda_kind_words[] = {
    "a thread an iteration",                                    /* SERIAL         */
    "a thread an index to check",                               /* CHECK          */
    "a thread four neighbours",                                 /* MAP            */
    "a warp a row or 4096 of its elements",                     /* ROWS           */
    "the parts of rows",                                        /* FINISH_ROWS    */
    "a block 32 columns of 4096 rows",                          /* COLUMNS        */
    "the parts of columns",                                     /* FINISH_COLUMNS */
    "a block a row, all of its reductions",                     /* TEAM           */
    "a warp or a block an argmax",                              /* ARG            */
    "a block a row over a monoid, a lane of the rule a thread", /* TUPLES         */
    "a block a tile of a contraction",                          /* CONTRACT       */
    "a block a line of running values",                         /* SCAN           */
    "a block a tile that is turned",                            /* TURN           */
    "a thread an update, atomic: floats are added in any order" /* SCATTER */
};

static void staxi_cuda_explain(const stax_cuda_program *p, size_t *n, staxi_text *t) {
    for (size_t k = 0; k < p->n_launches; k++) {
        const staxi_cuda_launch *l = &p->launches[k];
        staxi_putf(t, "kernel %U: ", (uint64_t)(*n)++);
        staxi_put_kernel_ops(p->host, t, p->host->trees.kernels[l->tree].kernel);
        staxi_putf(t, "\n  %s", staxi_cuda_kind_words[l->kind]);
        if (l->threads) staxi_putf(t, ", %d threads a block", l->threads);
        if (l->n_reads) {
            staxi_put(t, "; reads of a row from memory: ");
            staxi_putn(t, p->reads.data + l->reads, l->n_reads);
        }
        staxi_put(t, "\n");
    }
    for (size_t k = 0; k < p->n_pieces; k++) {
        const stax_graph *g = p->host->steps->pieces[k]->basis;
        if (p->pieces[k])
            staxi_cuda_explain(p->pieces[k], n, t);
        else
            staxi_putf(t, "host: %s\n  by the interpreter, on copies\n",
                       staxi_written_op_name(&g->nodes[g->n_nodes - 1]));
    }
}

STAXDEF char *stax_cuda_explain(const stax_graph *g, const stax_compile_options *options) {
    stax_cuda_program *p =
        staxi_cuda_program_new(g, staxi_cuda_tensor_cores(options, "sm_90"), NULL);
    if (!p) return NULL;
    staxi_text t;
    size_t n = 0;
    staxi_text_init(&t, &p->host->ctx->allocator);
    staxi_cuda_explain(p, &n, &t);
    staxi_putf(&t, "%U kernel%s\n", (uint64_t)n, n == 1 ? "" : "s");
    char *text = staxi_text_give(p->host->ctx, &t);
    stax_cuda_program_free(p);
    return text;
}

STAXDEF void *stax_cuda_cubin(stax_context *ctx, const char *source, const char *architecture,
                              size_t *bytes) {
    staxi_cuda_nvrtc n;
    staxi_build_result result;
    staxi_text out, why;
    void *cubin = NULL;
    if (!ctx || !source || !architecture) return NULL;
    staxi_text_init(&out, &ctx->allocator);
    staxi_text_init(&why, &ctx->allocator);
    stax_status s = staxi_cuda_nvrtc_open(&n, &why);
    if (s == STAX_OK) {
        why.n = 0;
        s = staxi_cuda_build(ctx, &n, source, architecture, &out, &result, &why);
        staxi_dl_close(n.library);
    }
    if (bytes) *bytes = out.n;
    if (s == STAX_OK)
        cubin = staxi_text_give(ctx, &out);
    else
        staxi_text_free(&out);
    if (s != STAX_OK) (void)staxi_context_fail(ctx, s, &why);
    staxi_text_free(&why);
    return cubin;
}

/* ---- calls ---- */

/* One call: what every step needs. */
typedef struct staxi_cuda_call {
    stax_cuda_program *p;
    staxi_cuda_lane *lane;
    staxi_cuda_seat *seat;
    stax_tensor *inputs, *outputs; /* the caller's, said to be in host memory, for the checks */
    void **buffers;
    int64_t *sizes;
    unsigned char *block; /* the kernels' arguments */
    size_t block_bytes;
    int64_t row_bytes, row_slots;
    bool waits;    /* host memory takes part                   */
    bool was_idle; /* nothing was queued in the lane before it */
    staxi_text *why;
} staxi_cuda_call;

static bool staxi_cuda_value(staxi_cuda_call *k, staxi_ix ix, int64_t *out) {
    return staxi_ix_eval(&k->p->host->stages.ix, ix, staxi_eval_symbol, (void *)k->sizes, out);
}

/* Iterations that each read `bytes` several times: only as many at once as half of L2 holds, so
   that memory is read once. */
static int64_t staxi_cuda_resident(const staxi_cuda_call *k, int64_t n, int64_t bytes) {
    int64_t least = 2 * (int64_t)k->p->cuda->processors,
            most = bytes > 0 ? k->p->cuda->cache_bytes / 2 / bytes : n;
    most = most / k->p->cuda->processors * k->p->cuda->processors; /* an even share each */
    if (most < least) most = least;
    return n < most ? n : most;
}

/* Blocks and threads of a launch; false: it has nothing to do. */
static bool staxi_cuda_shape(staxi_cuda_call *k, const staxi_cuda_launch *l, int64_t *blocks,
                             int *threads) {
    int64_t n = 0, length = 0;
    if (!staxi_cuda_value(k, l->count, &n) || !staxi_cuda_value(k, l->length, &length))
        return false;
    if (n <= 0) return false;
    int64_t warps = (length + STAXI_BLOCK - 1) / STAXI_BLOCK;
    warps = warps < 1 ? 1 : warps;
    switch (l->kind) {
        case STAXI_CUDA_MAP:
            *threads = 256;
            *blocks = (n + 255) / 256;
            break;
        case STAXI_CUDA_ROWS:
            *threads = 256;
            *blocks = (n + 7) / 8;
            break;
        case STAXI_CUDA_FINISH_ROWS: /* the length is the number of parts */
            *threads = (int)(warps < 8 ? warps : 8) * 32;
            *blocks = n;
            break;
        case STAXI_CUDA_COLUMNS:
            *threads = 512;
            *blocks = n;
            break;
        case STAXI_CUDA_TEAM:
            *threads = l->threads ? l->threads : (int)(warps < 8 ? warps : 8) * 64;
            /* row areas in shared memory and registers bound what runs at once by themselves */
            *blocks = l->shared || l->threads ? n : staxi_cuda_resident(k, n, length * 4);
            break;
        case STAXI_CUDA_CONTRACT:
        case STAXI_CUDA_SCAN:
        case STAXI_CUDA_TURN:
        case STAXI_CUDA_ARG:
        case STAXI_CUDA_TUPLES:
            *threads = l->threads;
            *blocks = l->stays && n > k->p->cuda->processors ? k->p->cuda->processors : n;
            break;
        default:
            *threads = 128;
            *blocks = (n + 127) / 128;
            break;
    }
    if (*blocks > 0x7fffffff) *blocks = 0x7fffffff; /* the rest in strides */
    return true;
}

/* Row areas: as many threads or blocks as get one each. */
static void staxi_cuda_limit(const staxi_cuda_call *k, const staxi_cuda_launch *l, int64_t *blocks,
                             int threads) {
    if (!l->has_row || k->row_bytes == 0) return;
    int64_t most = k->row_slots / (l->kind == STAXI_CUDA_TEAM ? 1 : threads);
    if (*blocks > most) *blocks = most > 0 ? most : 1;
}

enum { STAXI_CUDA_ROW_MEMORY = 512 * 1024 * 1024, STAXI_CUDA_ROW_LEAST = 128 };

/* Workspace: what kernels share, row areas, parts. */
static stax_status staxi_cuda_memory_for(staxi_cuda_call *k, staxi_cuda_head *head) {
    stax_cuda_program *p = k->p;
    int64_t root = 0, parts = 0, rows = 0;
    bool ok = staxi_cuda_value(k, p->host->schedule.workspace, &root) &&
              staxi_cuda_value(k, p->host->schedule.row_bytes, &k->row_bytes);
    for (size_t n = 0; ok && n < p->n_launches; n++) {
        int64_t bytes = 0, blocks;
        int threads;
        ok = staxi_cuda_value(k, p->launches[n].parts, &bytes);
        if (bytes > parts) parts = bytes;
        if (!ok || !p->launches[n].has_row || !k->row_bytes) continue;
        if (!staxi_cuda_shape(k, &p->launches[n], &blocks, &threads)) continue;
        int64_t want = p->launches[n].kind == STAXI_CUDA_TEAM ? blocks : blocks * threads;
        if (p->launches[n].kind == STAXI_CUDA_TEAM) { /* as many as run at once: they stay in L2 */
            int64_t most =
                (int64_t)p->cuda->processors * (2048 / threads < 32 ? 2048 / threads : 32);
            if (want > most) want = most;
        }
        if (want > STAXI_CUDA_ROW_MEMORY / k->row_bytes)
            want = STAXI_CUDA_ROW_MEMORY / k->row_bytes;
        if (want < STAXI_CUDA_ROW_LEAST) want = STAXI_CUDA_ROW_LEAST;
        if (want > k->row_slots) k->row_slots = want;
    }
    ok = ok && staxi_checked_mul(k->row_bytes, k->row_slots, &rows);
    root = (root + 255) / 256 * 256;
    rows = (rows + 255) / 256 * 256;
    if (!ok) return STAX_E_OVERFLOW;
    staxi_cuda_memory *workspace = &k->seat->workspace;
    int error = staxi_cuda_room(p->cuda, workspace, (size_t)(root + rows + parts) + 256);
    head->workspace = workspace->at;
    head->row = head->workspace + (uint64_t)root;
    head->parts = head->row + (uint64_t)rows;
    return staxi_cuda_note(p->cuda, error, "memory for a workspace");
}

/* The bytes from the first element in memory to the last; *low: how far the first lies before. */
static size_t staxi_cuda_span(const stax_tensor *t, int64_t *low) {
    int64_t high = 0;
    size_t size = stax_dtype_bytes(t->dtype);
    *low = 0;
    if (staxi_tensor_elements(t) == 0) return 0;
    for (int d = 0; d < t->rank; d++) {
        int64_t reach = t->strides[d] * (t->shape[d] - 1);
        if (reach < 0)
            *low += reach;
        else
            high += reach;
    }
    return (size_t)(high - *low + 1) * size;
}

/* The memory of a small host tensor that kernels reach by themselves; 0: it has none. */
static staxi_cuda_address staxi_cuda_mapped(staxi_cuda_call *k, size_t slot, size_t bytes) {
    staxi_cuda_seat *seat = k->seat;
    const size_t n = k->p->n_args;
    void *memory = NULL;
    if (!seat->plan.is_small || bytes > STAXI_CUDA_SMALL || n > STAXI_CUDA_MAPPED ||
        seat->no_mapped)
        return 0;
    if (!seat->mapped) {
        seat->no_mapped = k->p->cuda->driver.host_new(&memory, n * STAXI_CUDA_SMALL, 0) != 0;
        seat->mapped = seat->no_mapped ? NULL : (char *)memory;
        if (seat->no_mapped)
            staxi_cuda_log(k->p->cuda, "no page-locked memory for small tensors: they are copied");
    }
    return seat->mapped ? staxi_cuda_address_of(seat->mapped + slot * STAXI_CUDA_SMALL) : 0;
}

/* A param on the device, copied if it was bound since. */
static int staxi_cuda_place_param(staxi_cuda_call *k, size_t slot, const char *first,
                                  size_t bytes) {
    stax_cuda_program *p = k->p;
    stax_cuda *c = p->cuda;
    if (p->param_is_fresh[slot]) return 0;
    int error = staxi_cuda_room(c, &p->params[slot], bytes);
    const staxi_cuda_address at = p->params[slot].at;
    if (error == 0) error = staxi_cuda_touch(c, k->lane, (void *)(uintptr_t)at, bytes, true);
    if (error == 0 && bytes) error = c->driver.to_device(at, first, bytes, k->lane->stream);
    p->param_is_fresh[slot] = error == 0;
    return error;
}

/* Gives a tensor of the call an address on the device; its contents too if it is read. */
static stax_status staxi_cuda_place(staxi_cuda_call *k, const stax_tensor *t, size_t slot,
                                    bool is_read, bool is_param, void **address) {
    stax_cuda *c = k->p->cuda;
    int64_t low;
    size_t bytes = staxi_cuda_span(t, &low), before;
    int error = 0;
    if (t->device) {
        *address = t->data;
        return STAX_OK;
    }
    before = (size_t)(-low) * stax_dtype_bytes(t->dtype);
    const char *first = (const char *)t->data - before;
    staxi_cuda_address at = 0;
    if (is_param) {
        error = staxi_cuda_place_param(k, slot, first, bytes);
        at = k->p->params[slot].at;
    } else {
        k->waits = true;
        at = staxi_cuda_mapped(k, slot, bytes);
        if (at && is_read && bytes) memcpy((void *)(uintptr_t)at, first, bytes);
        if (!at) {
            error = staxi_cuda_room(c, &k->seat->slots[slot], bytes);
            at = k->seat->slots[slot].at;
            if (error == 0 && is_read && bytes)
                error = staxi_cuda_send(c, k->lane, at, first, bytes);
        }
    }
    *address = (void *)(uintptr_t)(at + before);
    return staxi_cuda_note(c, error, "copying a tensor to it");
}

/* What the kernels are about to touch that other calls can too: the caller's tensors on the device,
   and params. From here to the launches the lock is held. */
static stax_status staxi_cuda_touch_all(staxi_cuda_call *k, const stax_tensor *inputs,
                                        const stax_tensor *outputs) {
    const stax_program *h = k->p->host;
    const stax_graph *g = h->basis;
    int error = 0;
    int64_t low;
    staxi_cuda_lane_begin(k->lane);
    if (k->p->cuda->n_lanes < 2) {
        k->lane->unknown = k->lane->work;
        return STAX_OK;
    }
    for (size_t i = 0, slot = 0; i < g->n_inputs + h->n_outputs && error == 0; i++) {
        const bool is_input = i < g->n_inputs;
        const bool is_param = is_input && g->inputs[i].kind == STAXI_PARAM;
        const stax_tensor *t = is_param   ? &h->bound[i].tensor
                               : is_input ? &inputs[slot++]
                                          : &outputs[i - g->n_inputs];
        const size_t bytes = staxi_cuda_span(t, &low);
        if (!t->device && !is_param) continue;
        const char *from = is_param
                               ? (const char *)(uintptr_t)k->p->params[i].at
                               : (const char *)t->data + low * (int64_t)stax_dtype_bytes(t->dtype);
        error = staxi_cuda_touch(k->p->cuda, k->lane, from, bytes,
                                 !is_input || g->inputs[i].kind == STAXI_STATE);
    }
    return staxi_cuda_note(k->p->cuda, error, "waiting for other streams");
}

/* Addresses in the order of staxi_call_arguments; states that are written come last. */
static stax_status staxi_cuda_place_all(staxi_cuda_call *k, const stax_tensor *inputs,
                                        const stax_tensor *outputs) {
    const stax_program *h = k->p->host;
    const stax_graph *g = h->basis;
    stax_status s = STAX_OK;
    size_t n = 0, slot = 0;
    for (size_t i = 0; i < g->n_inputs && s == STAX_OK; i++, n++) {
        bool param = g->inputs[i].kind == STAXI_PARAM;
        s = staxi_cuda_place(k, param ? &h->bound[i].tensor : &inputs[slot++], n, true, param,
                             &k->buffers[n]);
    }
    for (size_t i = 0; i < h->n_outputs && s == STAX_OK; i++, n++)
        s = staxi_cuda_place(k, &outputs[i], n, false, false, &k->buffers[n]);
    for (size_t i = 0; i < g->n_inputs && s == STAX_OK; i++)
        if (g->inputs[i].kind == STAXI_STATE && g->inputs[i].current != g->inputs[i].value)
            k->buffers[n++] = k->buffers[i];
    return s == STAX_OK ? staxi_cuda_touch_all(k, inputs, outputs) : s;
}

/* Back into host memory: whatever is mapped when the kernels have ended, the rest before. */
static int staxi_cuda_fetch_one(staxi_cuda_call *k, const stax_tensor *t, size_t slot,
                                bool mapped) {
    int64_t low;
    const size_t bytes = t->device ? 0 : staxi_cuda_span(t, &low);
    if (!bytes) return 0;
    char *to = (char *)t->data + low * (int64_t)stax_dtype_bytes(t->dtype);
    const staxi_cuda_address at = staxi_cuda_mapped(k, slot, bytes);
    if (at && mapped) memcpy(to, (const void *)(uintptr_t)at, bytes);
    if (at || mapped) return 0;
    staxi_cuda_lane_begin(k->lane);
    return staxi_cuda_receive(k->p->cuda, k->lane, to, k->seat->slots[slot].at, bytes);
}

/* Outputs and states back into host memory. */
static stax_status staxi_cuda_fetch(staxi_cuda_call *k, const stax_tensor *inputs,
                                    const stax_tensor *outputs) {
    stax_cuda_program *p = k->p;
    const stax_graph *g = p->host->basis;
    int error = 0;
    for (int mapped = 0; mapped < 2 && error == 0; mapped++) {
        if (mapped) error = staxi_cuda_lane_wait(p->cuda, k->lane);
        for (size_t i = 0, slot = 0; i < g->n_inputs && error == 0; i++) {
            if (g->inputs[i].kind == STAXI_PARAM) continue;
            const stax_tensor *t = &inputs[slot++];
            if (g->inputs[i].kind == STAXI_STATE) error = staxi_cuda_fetch_one(k, t, i, mapped);
        }
        for (size_t i = 0; i < p->host->n_outputs && error == 0; i++)
            error = staxi_cuda_fetch_one(k, &outputs[i], g->n_inputs + i, mapped);
    }
    return staxi_cuda_note(p->cuda, error, "copying results from it");
}

/* Sizes that turn out impossible, before any kernel. */
static bool staxi_cuda_sizes_hold(staxi_cuda_call *k, staxi_record *r) {
    for (size_t i = 0; i < k->p->n_size_checks; i++) {
        const staxi_cuda_size_check *s = &k->p->size_checks[i];
        int64_t n = 0, m = 1;
        if (!staxi_cuda_value(k, s->n, &n) || (s->domain && !staxi_cuda_value(k, s->domain, &m)))
            continue;
        if (s->domain ? n >= 1 || m <= 0 : n >= 0) continue;
        r->check = (int64_t)s->stage;
        r->found = s->node ? (int64_t)s->node : n;
        r->position = r->limit = 0;
        return false;
    }
    return true;
}

static stax_status staxi_cuda_launch_failed(staxi_cuda_call *k, size_t n, int error, int64_t blocks,
                                            int threads) {
    stax_cuda *c = k->p->cuda;
    const char *name = NULL, *text = NULL;
    staxi_text t;
    staxi_text_init(&t, &c->ctx->allocator);
    (void)c->driver.error_name(error, &name);
    (void)c->driver.error_text(error, &text);
    staxi_putf(&t, "CUDA device %d: stax_kernel_%U of %D blocks of %d threads: %s (%s)", c->device,
               (uint64_t)n, blocks, threads, text ? text : "unknown error", name ? name : "?");
    return staxi_cuda_fail(c->ctx, STAX_E_DEVICE, &t);
}

/* The parameters of a kernel: the block, and what only those that stay have. */
typedef struct staxi_cuda_arguments {
    void *at[4];
    int maps;                             /* bit s: side s goes by the copy engine */
    unsigned char room[2 * 128 + 64 - 1]; /* two maps, aligned to 64 bytes         */
} staxi_cuda_arguments;

static volatile int64_t *staxi_cuda_told(const staxi_cuda_call *k) {
    return k->p->cuda->told + (k->lane - k->p->cuda->lanes) * STAXI_CUDA_TOLD;
}

/* A map of the copy engine for an operand of the call; false: it cannot read it, because of its
   address or strides. */
static bool staxi_cuda_map_of(staxi_cuda_call *k, const staxi_cuda_view *v, void *map) {
    static const unsigned ones[4] = {1, 1, 1, 1};
    const stax_cuda *c = k->p->cuda;
    const unsigned box[4] = {64, (unsigned)v->box, 1, 1};
    uint64_t sizes[4], strides[4];
    int64_t first = 0, offset = 0;
    memset(map, 0, 128);
    if (!v->buffer || !c->driver.tensor_map || !staxi_cuda_value(k, v->first, &first)) return false;
    const staxi_buffer *b = &k->p->host->stages.buffers[v->buffer];
    if (b->scope != STAXI_SCOPE_ARG && !staxi_cuda_value(k, b->offset, &offset)) return false;
    const staxi_cuda_address at =
        (b->scope == STAXI_SCOPE_ARG ? staxi_cuda_address_of(k->buffers[b->slot])
                                     : k->seat->workspace.at + (uint64_t)offset) +
        (uint64_t)(first * 2);
    for (int d = 0; d < 4; d++) {
        int64_t size = 0, step = 8;
        if (!staxi_cuda_value(k, v->size[d], &size) || size < 1 || size > INT32_MAX) return false;
        if (d && d < 2 + v->n && !staxi_cuda_value(k, v->step[d], &step)) return false;
        if (size == 1) step = 8;
        if (step < 1 || step >= (int64_t)1 << 38 || step % 8) return false;
        sizes[d] = (uint64_t)size;
        strides[d] = (uint64_t)step * 2;
    }
    void *data = (void *)(uintptr_t)at;
    /* 16-bit elements, swizzled rows of 128 bytes, 128 bytes at a time into L2, zeros outside */
    return at % 16 == 0 &&
           c->driver.tensor_map(map, 1, 4, data, sizes, strides + 1, box, ones, 0, 3, 2, 0) == 0;
}

static void **staxi_cuda_arguments_of(staxi_cuda_call *k, const staxi_cuda_launch *l,
                                      staxi_cuda_arguments *a) {
    unsigned char *map = a->room + (64 - (uintptr_t)a->room % 64) % 64;
    const bool tells = l - k->p->launches == k->seat->plan.teller;
    ((staxi_cuda_head *)(void *)k->block)->told =
        tells ? staxi_cuda_address_of((const void *)(uintptr_t)staxi_cuda_told(k)) : 0;
    a->at[0] = k->block;
    a->maps = 0;
    if (!l->stays) return a->at;
    for (int side = 0; side < 2; side++) {
        a->at[1 + side] = map + side * 128;
        if (staxi_cuda_map_of(k, &l->maps[side], a->at[1 + side])) a->maps |= 1 << side;
    }
    a->at[3] = &a->maps;
    return a->at;
}

/* The parameters of a node for the call that begins. */
static staxi_cuda_node staxi_cuda_node_of(staxi_cuda_call *k, size_t n, staxi_cuda_arguments *a) {
    const staxi_cuda_step *step = &k->seat->plan.steps[n];
    staxi_cuda_node node;
    memset(&node, 0, sizeof node);
    node.function = k->p->launches[n].function;
    node.gx = (unsigned)step->blocks;
    node.bx = (unsigned)step->threads;
    node.gy = node.gz = node.by = node.bz = 1;
    node.shared = (unsigned)k->p->launches[n].shared;
    node.arguments = staxi_cuda_arguments_of(k, &k->p->launches[n], a);
    return node;
}

/* One node behind the other, for what this call launches. */
static int staxi_cuda_replay_build(staxi_cuda_call *k) {
    staxi_cuda_replay *r = &k->seat->replay;
    staxi_cuda_arguments arguments;
    const staxi_cuda_graphs *graphs = &k->p->cuda->graphs;
    void *last = NULL;
    staxi_cuda_replay_drop(k->p->cuda, r);
    int error = graphs->create(&r->graph, 0);
    for (size_t n = 0; n < k->p->n_launches && error == 0; n++) {
        if (!k->seat->plan.steps[n].blocks) continue;
        const staxi_cuda_node node = staxi_cuda_node_of(k, n, &arguments);
        error = graphs->add(&r->steps[n].node, r->graph, &last, last ? 1 : 0, &node);
        last = r->steps[n].node;
    }
    if (error == 0 && last) error = graphs->instantiate(&r->ready, r->graph, 0);
    return error;
}

/* The call as a graph: the last one again, with other parameters where addresses or sizes changed,
   or a new one where other kernels have work. */
static stax_status staxi_cuda_replay_all(staxi_cuda_call *k) {
    stax_cuda_program *p = k->p;
    staxi_cuda_replay *r = &k->seat->replay;
    const staxi_cuda_graphs *graphs = &p->cuda->graphs;
    ((staxi_cuda_head *)(void *)k->block)->told = 0; /* of one kernel only */
    bool build = r->ready == NULL, update = memcmp(r->block, k->block, k->block_bytes) != 0;
    staxi_cuda_arguments arguments;
    int error = 0;
    for (size_t n = 0; n < p->n_launches; n++) {
        const staxi_cuda_step *old = &r->steps[n], *now = &k->seat->plan.steps[n];
        build = build || !now->blocks != !old->blocks;
        update = update || now->blocks != old->blocks || now->threads != old->threads;
    }
    if (build) error = staxi_cuda_replay_build(k);
    for (size_t n = 0; n < p->n_launches && error == 0 && update && !build; n++) {
        const staxi_cuda_node node = staxi_cuda_node_of(k, n, &arguments);
        if (node.gx) error = graphs->update(r->ready, r->steps[n].node, &node);
    }
    if (error) {
        staxi_cuda_replay_drop(p->cuda, r);
        return staxi_cuda_note(p->cuda, error, "the graph of a call");
    }
    for (size_t n = 0; n < p->n_launches && (build || update); n++) {
        r->steps[n].blocks = k->seat->plan.steps[n].blocks;
        r->steps[n].threads = k->seat->plan.steps[n].threads;
    }
    ((staxi_cuda_head *)(void *)k->block)->told = 0;
    if (build || update) memcpy(r->block, k->block, k->block_bytes);
    if (r->ready) error = graphs->launch(r->ready, k->lane->stream);
    return staxi_cuda_note(p->cuda, error, "replaying a call");
}

static stax_status staxi_cuda_launch_all(staxi_cuda_call *k, staxi_cuda_head *head) {
    stax_cuda_program *p = k->p;
    stax_cuda *c = p->cuda;
    memcpy(k->block, head, sizeof *head);
    if (p->replays) return staxi_cuda_replay_all(k);
    staxi_cuda_arguments arguments;
    for (size_t n = 0; n < p->n_launches; n++) {
        const staxi_cuda_launch *l = &p->launches[n];
        int64_t blocks = k->seat->plan.steps[n].blocks;
        int threads = k->seat->plan.steps[n].threads;
        if (!blocks) continue;
        for (head->second = 0; head->second < 1 + (l->kind == STAXI_CUDA_CHECK); head->second++) {
            if (head->second) blocks = threads = 1;
            memcpy(k->block, head, sizeof *head);
            int error = c->driver.launch(l->function, (unsigned)blocks, 1, 1, (unsigned)threads, 1,
                                         1, (unsigned)l->shared, k->lane->stream,
                                         staxi_cuda_arguments_of(k, l, &arguments), NULL);
            if (error) return staxi_cuda_launch_failed(k, n, error, blocks, threads);
        }
    }
    return STAX_OK;
}

/* Host memory in which last kernels tell that they have ended. */
static bool staxi_cuda_can_tell(stax_cuda *c) {
    const size_t bytes = STAXI_CUDA_LANES * STAXI_CUDA_TOLD * sizeof(int64_t);
    void *told = NULL;
    if (c->told || c->no_told) return c->told != NULL;
    c->no_told = c->driver.host_new(&told, bytes, 0) != 0;
    c->told = c->no_told ? NULL : (volatile int64_t *)memset(told, 0, bytes);
    if (c->no_told)
        staxi_cuda_log(c, "no page-locked memory for calls to say when they have ended");
    return c->told != NULL;
}

/* Blocks, workspace and what follows from them, unless the last call had the same sizes. Sizes that
   cannot be are in *record. */
static stax_status staxi_cuda_plan_call(staxi_cuda_call *k, staxi_record *record) {
    stax_cuda_program *p = k->p;
    staxi_cuda_plan *plan = &k->seat->plan;
    const size_t bytes = p->host->stages.n_sizes * sizeof(int64_t);
    int64_t all = 0;
    if (plan->is_known && memcmp(plan->sizes, k->sizes, bytes) == 0) return STAX_OK;
    plan->is_known = false;
    plan->teller = -1;
    if (!staxi_cuda_sizes_hold(k, record)) return staxi_run_checked(p->host, record);
    memset(&plan->head, 0, sizeof plan->head);
    stax_status s = staxi_cuda_memory_for(k, &plan->head);
    if (s != STAX_OK) return s;
    for (size_t n = 0; n < p->n_launches; n++) {
        staxi_cuda_step *step = &plan->steps[n];
        if (!staxi_cuda_shape(k, &p->launches[n], &step->blocks, &step->threads)) step->blocks = 0;
        if (!step->blocks) continue;
        staxi_cuda_limit(k, &p->launches[n], &step->blocks, step->threads);
        plan->teller = p->launches[n].tells && step->blocks == 1 ? (int64_t)n : -1;
        all += step->blocks;
    }
    if (plan->teller >= 0 && !staxi_cuda_can_tell(p->cuda)) plan->teller = -1;
    plan->is_small = p->n_launches <= STAXI_CUDA_SMALL_BLOCKS && all <= STAXI_CUDA_SMALL_BLOCKS;
    plan->head.record = k->seat->record.at;
    memcpy(plan->sizes, k->sizes, bytes);
    plan->is_known = true;
    return STAX_OK;
}

/* Waits inside of a call; of a piece: with the lock, nobody comes between its parts. */
static int staxi_cuda_call_wait(const staxi_cuda_call *k) {
    return k->p->is_piece ? k->p->cuda->driver.stream_wait(k->lane->stream)
                          : staxi_cuda_lane_wait(k->p->cuda, k->lane);
}

/* The kernels, when all buffers have their addresses. */
static stax_status staxi_cuda_run_placed(staxi_cuda_call *k) {
    stax_cuda_program *p = k->p;
    stax_cuda *c = p->cuda;
    staxi_cuda_head head = k->seat->plan.head;
    staxi_record record;
    int error = 0;
    memset(&record, 0, sizeof record);
    size_t n = staxi_cuda_args_count(&p->host->stages), sizes = p->host->stages.n_sizes;
    memcpy(k->block + sizeof head, k->buffers, n * sizeof(void *));
    memcpy(k->block + sizeof head + (n ? n : 1) * sizeof(void *), k->sizes,
           sizes * sizeof(int64_t));
    if (p->has_checks) {
        record.position = -1;
        error = c->driver.to_device(head.record, &record, sizeof record, k->lane->stream);
    }
    stax_status s = staxi_cuda_note(c, error, "preparing a call");
    const bool tells = k->was_idle && k->seat->plan.teller >= 0; /* nothing else writes there */
    if (tells) staxi_atomic_store(staxi_cuda_told(k), 0);
    if (s == STAX_OK) s = staxi_cuda_launch_all(k, &head);
    k->lane->tells = s == STAX_OK && tells;
    if (s != STAX_OK || !p->has_checks) return s;
    error = c->driver.to_host(&record, head.record, sizeof record, k->lane->stream);
    if (error == 0) error = staxi_cuda_call_wait(k);
    s = staxi_cuda_note(c, error, "the kernels of a program");
    return s == STAX_OK && record.check ? staxi_run_checked(p->host, &record) : s;
}

static stax_status staxi_cuda_run_checked(staxi_cuda_call *k, const stax_tensor *inputs,
                                          const stax_tensor *outputs) {
    staxi_record record;
    memset(&record, 0, sizeof record);
    stax_status s = staxi_cuda_plan_call(k, &record);
    if (s == STAX_OK) s = staxi_cuda_place_all(k, inputs, outputs);
    if (s == STAX_OK) s = staxi_cuda_run_placed(k);
    if (s == STAX_OK && k->waits) s = staxi_cuda_fetch(k, inputs, outputs);
    return s;
}

/* ---- calls of steps ----
   Cells lie on the device. The host asks what decides, and runs the pieces that no kernel can run,
   on copies, with the interpreter. */

static void *staxi_cuda_take(void *user, size_t bytes) {
    stax_cuda_program *p = ((staxi_cuda_call *)user)->p;
    const stax_allocator *a = &p->host->ctx->allocator;
    const staxi_cuda_lane *lane = ((staxi_cuda_call *)user)->lane;
    staxi_cuda_block *b = p->pool;
    while (b &&
           (b->used || b->lane != lane || b->memory.bytes < bytes || b->memory.bytes / 2 > bytes))
        b = b->next;
    if (!b) {
        b = (staxi_cuda_block *)staxi_alloc(a, sizeof *b);
        if (!b) return NULL;
        memset(b, 0, sizeof *b);
        if (staxi_cuda_room(p->cuda, &b->memory, bytes) != 0) {
            staxi_free(a, b, sizeof *b);
            return NULL;
        }
        b->next = p->pool;
        p->pool = b;
    }
    b->used = true;
    b->lane = lane;
    return (void *)(uintptr_t)b->memory.at;
}

static void staxi_cuda_give(void *user, void *memory) {
    staxi_cuda_block *b = ((staxi_cuda_call *)user)->p->pool;
    for (; b; b = b->next)
        if (b->memory.at == staxi_cuda_address_of(memory)) b->used = false;
}

static stax_status staxi_cuda_away_move(void *user, staxi_away_move how, void *to, const void *from,
                                        size_t bytes) {
    const staxi_cuda_call *k = (const staxi_cuda_call *)user;
    stax_cuda *c = k->p->cuda;
    void *stream = k->lane->stream;
    int error = 0;
    k->lane->tells = false;
    if (how == STAXI_AWAY_BETWEEN)
        error = to == from ? 0
                           : c->driver.on_device(staxi_cuda_address_of(to),
                                                 staxi_cuda_address_of(from), bytes, stream);
    else if (how == STAXI_AWAY_HERE)
        error = c->driver.to_host(to, staxi_cuda_address_of(from), bytes, stream);
    else
        error = c->driver.to_device(staxi_cuda_address_of(to), from, bytes, stream);
    if (error == 0 && how != STAXI_AWAY_BETWEEN) error = c->driver.stream_wait(stream);
    return staxi_cuda_why(c, error, "a step of the host", k->why);
}

/* A row-major tensor in the host's memory of each value that goes into or out of a piece; *bytes of
   them all. */
static stax_status staxi_cuda_host_tensors(const staxi_runner *r, const stax_graph *g,
                                           stax_tensor *t, int64_t *bytes) {
    *bytes = 0;
    for (size_t k = 0; k < g->n_inputs + g->n_outputs; k++) {
        const uint32_t v = k < g->n_inputs ? g->inputs[k].value : g->outputs[k - g->n_inputs].value;
        const staxi_type *type = &g->values[v].type;
        stax_shape shape;
        memset(&shape, 0, sizeof shape);
        shape.rank = type->rank;
        for (int d = 0; d < type->rank; d++)
            if (!staxi_size_eval(&r->p->basis->sizes, type->dims[d], r->sizes, &shape.dims[d]))
                return STAX_E_OVERFLOW;
        t[k] = stax_tensor_of((stax_dtype)type->dtype, shape, NULL);
        if (!staxi_tensor_fits(&t[k])) return STAX_E_OVERFLOW;
        *bytes += staxi_round_up(staxi_tensor_elements(&t[k]) *
                                 (int64_t)staxi_dtype_bytes((stax_dtype)type->dtype));
    }
    return STAX_OK;
}

/* A piece that no kernel can run. */
static stax_status staxi_cuda_host_piece(staxi_runner *r, const stax_graph *g) {
    const stax_allocator *a = &r->p->ctx->allocator;
    const size_t n = g->n_inputs + g->n_outputs, tensor_bytes = (n + 1) * sizeof(stax_tensor);
    stax_tensor *t = (stax_tensor *)staxi_alloc(a, tensor_bytes);
    int64_t bytes = 0;
    stax_status s = t ? staxi_cuda_host_tensors(r, g, t, &bytes) : STAX_E_MEMORY;
    char *room = s == STAX_OK ? (char *)staxi_alloc(a, (size_t)bytes + 1) : NULL, *at = room;
    if (s == STAX_OK && !room) s = STAX_E_MEMORY;
    for (size_t k = 0; k < n && s == STAX_OK; k++) {
        const size_t size =
            (size_t)staxi_tensor_elements(&t[k]) * staxi_dtype_bytes((stax_dtype)t[k].dtype);
        t[k].data = at;
        at += staxi_round_up((int64_t)size);
        if (k < g->n_inputs) s = staxi_run_move(r, STAXI_AWAY_HERE, t[k].data, r->buffers[k], size);
    }
    if (s == STAX_OK)
        s = staxi_interpret_basis_why(r->p->ctx, g, t, t + g->n_inputs, r->sizes, r->why);
    for (size_t k = g->n_inputs; k < n && s == STAX_OK; k++)
        s = staxi_run_move(
            r, STAXI_AWAY_THERE, r->buffers[k], t[k].data,
            (size_t)staxi_tensor_elements(&t[k]) * staxi_dtype_bytes((stax_dtype)t[k].dtype));
    staxi_free(a, room, (size_t)bytes + 1);
    staxi_free(a, t, tensor_bytes);
    return s;
}

static stax_status staxi_cuda_away_piece(staxi_runner *r, uint32_t piece) {
    const stax_allocator *a = &r->p->ctx->allocator;
    const staxi_cuda_call *whole = (const staxi_cuda_call *)r->user;
    staxi_cuda_call k;
    staxi_record record;
    memset(&k, 0, sizeof k);
    memset(&record, 0, sizeof record);
    k.p = whole->p->pieces[piece];
    if (!k.p) return staxi_cuda_host_piece(r, r->s->pieces[piece]->basis);
    k.lane = whole->lane;
    k.seat = staxi_cuda_seat_of(k.p, k.lane);
    if (!k.seat) return STAX_E_MEMORY;
    k.buffers = r->buffers;
    k.sizes = r->piece_sizes;
    k.block_bytes = staxi_cuda_block_bytes(k.p);
    k.block = (unsigned char *)staxi_alloc(a, k.block_bytes);
    if (!k.block) return STAX_E_MEMORY;
    memset(k.block, 0, k.block_bytes);
    stax_status s = staxi_cuda_plan_call(&k, &record);
    if (s == STAX_OK) s = staxi_cuda_run_placed(&k);
    r->told = s != STAX_OK;
    staxi_free(a, k.block, k.block_bytes);
    return s;
}

/* A tensor from or to row-major memory of the device, where the tensor is not row-major. */
static stax_status staxi_cuda_strided(staxi_cuda_call *k, const stax_tensor *t,
                                      staxi_cuda_address at, bool send) {
    stax_cuda *c = k->p->cuda;
    const stax_allocator *a = &c->ctx->allocator;
    const size_t size = stax_dtype_bytes(t->dtype), bytes = (size_t)staxi_tensor_elements(t) * size;
    int64_t low, strides[STAX_MAX_RANK];
    const size_t span = staxi_cuda_span(t, &low), far_ = t->device ? span : 0;
    char *row = (char *)staxi_alloc(a, bytes + far_ + 1), *there = row + bytes;
    const int64_t before = low * (int64_t)size;
    const staxi_cuda_address first = staxi_cuda_address_of(t->data) + (uint64_t)before;
    void *stream = k->lane->stream;
    int error = 0;
    if (!row) return STAX_E_MEMORY;
    char *base = t->device ? there - before : (char *)t->data;
    staxi_row_strides(t->shape, t->rank, strides);
    if (t->device) error = c->driver.to_host(there, first, span, stream);
    if (error == 0 && !send) error = c->driver.to_host(row, at, bytes, stream);
    if (error == 0) error = c->driver.stream_wait(stream);
    if (error == 0 && send)
        staxi_copy_strided(row, strides, base, t->strides, t->shape, t->rank, size);
    if (error == 0 && !send)
        staxi_copy_strided(base, t->strides, row, strides, t->shape, t->rank, size);
    if (error == 0 && send) error = c->driver.to_device(at, row, bytes, stream);
    if (error == 0 && !send && t->device) error = c->driver.to_device(first, there, span, stream);
    if (error == 0) error = c->driver.stream_wait(stream);
    staxi_free(a, row, bytes + far_ + 1);
    return staxi_cuda_why(c, error, "copying a tensor", k->why);
}

/* A tensor from or to row-major memory of the device. */
static stax_status staxi_cuda_exchange(staxi_cuda_call *k, const stax_tensor *t,
                                       staxi_cuda_address at, bool send) {
    const size_t bytes = (size_t)staxi_tensor_elements(t) * stax_dtype_bytes(t->dtype);
    stax_tensor row = *t;
    if (bytes == 0) return STAX_OK;
    if (!staxi_tensor_is_row(t)) return staxi_cuda_strided(k, t, at, send);
    row.data = (void *)(uintptr_t)at;
    row.device = k->p->cuda->device + 1;
    const int error = staxi_cuda_move(k->p->cuda, k->lane, send ? &row : t, send ? t : &row, bytes);
    return staxi_cuda_why(k->p->cuda, error, "copying a tensor", k->why);
}

/* The cells of inputs, outputs and constants. */
static stax_status staxi_cuda_steps_begin(staxi_cuda_call *k, staxi_runner *r,
                                          const stax_tensor *inputs, const stax_tensor *outputs) {
    stax_cuda_program *p = k->p;
    stax_program *h = p->host;
    const size_t n_in = h->basis->n_inputs;
    stax_status s = STAX_OK;
    for (size_t cell = 1; cell < r->s->n_cells && s == STAX_OK; cell++) {
        const bool is_input = cell <= n_in, is_output = !is_input && cell <= n_in + h->n_outputs;
        const bool is_param = is_input && h->basis->inputs[cell - 1].kind == STAXI_PARAM;
        r->mem[cell] = (void *)(uintptr_t)p->constants[cell].at;
        if (!is_input && !is_output) continue;
        const stax_tensor *t =
            is_input ? staxi_input_tensor(h, inputs, cell - 1) : &outputs[cell - 1 - n_in];
        r->bytes[cell] = staxi_tensor_elements(t) * (int64_t)stax_dtype_bytes(t->dtype);
        r->mem[cell] = t->data;
        k->waits = k->waits || (!t->device && !is_param);
        if (t->device && (is_output || !staxi_input_is_copied(h, cell - 1, t, inputs, outputs)))
            continue;
        staxi_cuda_memory *m = is_param ? &p->params[cell - 1] : &k->seat->slots[cell - 1];
        const bool fresh = is_param && p->param_is_fresh[cell - 1];
        const int error = fresh ? 0 : staxi_cuda_room(p->cuda, m, (size_t)r->bytes[cell]);
        s = staxi_cuda_why(p->cuda, error, "memory for a tensor", k->why);
        if (s == STAX_OK && is_input && !fresh) s = staxi_cuda_exchange(k, t, m->at, true);
        if (is_param) p->param_is_fresh[cell - 1] = s == STAX_OK;
        r->mem[cell] = (void *)(uintptr_t)m->at;
    }
    return s == STAX_OK ? staxi_cuda_touch_all(k, inputs, outputs) : s;
}

/* Outputs that were not made in their place, then the states. */
static stax_status staxi_cuda_steps_end(staxi_cuda_call *k, const staxi_runner *r,
                                        const stax_tensor *inputs, const stax_tensor *outputs) {
    stax_status s = STAX_OK;
    for (size_t o = 0; o < r->p->basis->n_outputs && s == STAX_OK; o++) {
        const stax_tensor *t = staxi_output_tensor(r->p, inputs, outputs, o);
        const void *from = r->mem[r->s->results[o]];
        if (!t->device || from != t->data)
            s = staxi_cuda_exchange(k, t, staxi_cuda_address_of(from), false);
    }
    if (s != STAX_OK || !k->waits) return s;
    return staxi_cuda_why(k->p->cuda, staxi_cuda_lane_wait(k->p->cuda, k->lane),
                          "copying results from it", k->why);
}

static stax_status staxi_cuda_run_steps(staxi_cuda_call *k, const stax_tensor *inputs,
                                        const stax_tensor *outputs) {
    static const staxi_away away = {staxi_cuda_take, staxi_cuda_give, staxi_cuda_away_move,
                                    staxi_cuda_away_piece};
    stax_program *h = k->p->host;
    staxi_runner r;
    int64_t *room = staxi_runner_init(&r, h, k->sizes, k->why);
    if (!room) return staxi_context_fail(h->ctx, STAX_E_MEMORY, k->why);
    r.away = &away;
    r.user = k;
    stax_status s = staxi_cuda_steps_begin(k, &r, inputs, outputs);
    if (s == STAX_OK) s = staxi_run_list(&r, 0);
    if (s == STAX_OK) s = staxi_cuda_steps_end(k, &r, inputs, outputs);
    staxi_blocks_give(&r, 0, r.s->n_lists);
    staxi_workspace_give(h, room);
    if (s != STAX_OK && !r.told) s = staxi_context_fail(h->ctx, s, k->why);
    return s;
}

/* Copies of the caller's tensors that the CPU's checks take: as if in host memory. */
static stax_status staxi_cuda_on_host(const staxi_cuda_call *k, stax_tensor *to,
                                      const stax_tensor *from, size_t n) {
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i];
        to[i].device = 0;
        if (from[i].device && from[i].device != k->p->cuda->device + 1) return STAX_E_DEVICE;
    }
    return STAX_OK;
}

enum { STAXI_CUDA_CALL_BYTES = 1536 }; /* of what a small call needs: on the stack */

/* The call, in a lane that is held. */
static stax_status staxi_cuda_run_in(staxi_cuda_call *k, const stax_tensor *inputs,
                                     const stax_tensor *outputs) {
    stax_program *h = k->p->host;
    k->was_idle = k->lane->done == k->lane->work;
    stax_status s = staxi_call_arguments(h, k->inputs, k->outputs, k->buffers, k->sizes, k->why);
    if (s == STAX_OK && !h->steps) s = staxi_check_in_place(h, k->inputs, k->outputs, k->why);
    k->seat = s == STAX_OK ? staxi_cuda_seat_of(k->p, k->lane) : NULL;
    if (s == STAX_OK && !k->seat) s = STAX_E_MEMORY;
    if (s != STAX_OK) return staxi_context_fail(h->ctx, s, k->why);
    return h->steps ? staxi_cuda_run_steps(k, inputs, outputs)
                    : staxi_cuda_run_checked(k, inputs, outputs);
}

STAXDEF stax_status stax_cuda_run_on(stax_cuda_program *p, const stax_tensor *inputs,
                                     const stax_tensor *outputs, void *stream) {
    if (!p) return STAX_E_ARGUMENT;
    stax_program *h = p->host;
    const stax_allocator *a = &h->ctx->allocator;
    size_t n_in = 0, n_sizes = staxi_cuda_size_count(p);
    for (size_t k = 0; k < h->basis->n_inputs; k++) n_in += h->basis->inputs[k].kind != STAXI_PARAM;
    if ((n_in && !inputs) || (h->n_outputs && !outputs)) return STAX_E_ARGUMENT;
    staxi_cuda_call k;
    memset(&k, 0, sizeof k);
    k.p = p;
    k.block_bytes = staxi_cuda_block_bytes(p);
    size_t tensors = (n_in + h->n_outputs + 1) * sizeof(stax_tensor),
           bytes = tensors + (p->n_args + 1) * sizeof(void *) + n_sizes * sizeof(int64_t) +
                   k.block_bytes;
    union {
        int64_t aligned;
        unsigned char bytes[STAXI_CUDA_CALL_BYTES];
    } small;
    unsigned char *room =
        bytes <= sizeof small ? small.bytes : (unsigned char *)staxi_alloc(a, bytes);
    staxi_text why;
    staxi_text_init(&why, a);
    if (!room) return staxi_cuda_fail(h->ctx, STAX_E_MEMORY, &why);
    memset(room, 0, bytes);
    k.inputs = (stax_tensor *)(void *)room;
    k.outputs = k.inputs + n_in;
    k.buffers = (void **)(void *)(room + tensors);
    k.sizes = (int64_t *)(void *)(k.buffers + p->n_args + 1);
    k.block = (unsigned char *)(void *)(k.sizes + n_sizes);
    stax_status s = staxi_cuda_on_host(&k, k.inputs, inputs, n_in);
    if (s == STAX_OK) s = staxi_cuda_on_host(&k, k.outputs, outputs, h->n_outputs);
    if (s != STAX_OK) staxi_put(&why, "a tensor lies on another device than the program");
    int error = 0;
    k.why = &why;
    k.lane = s == STAX_OK ? staxi_cuda_enter_lane(p->cuda, stream, &error) : NULL;
    if (s == STAX_OK && !k.lane)
        s = staxi_cuda_why(p->cuda, error, "a stream for a call: too many are in use", &why);
    if (k.lane) {
        s = staxi_cuda_run_in(&k, inputs, outputs);
        (void)staxi_cuda_leave_lane(p->cuda, k.lane);
    } else {
        (void)staxi_context_fail(h->ctx, s, &why);
    }
    staxi_text_free(&why);
    if (room != small.bytes) staxi_free(a, room, bytes);
    return s;
}

STAXDEF stax_status stax_cuda_run(stax_cuda_program *p, const stax_tensor *inputs,
                                  const stax_tensor *outputs) {
    return stax_cuda_run_on(p, inputs, outputs, NULL);
}

#else /* !STAXI_TOOLCHAIN: no libraries can be opened */

static void staxi_cuda_absent(stax_context *ctx) {
    staxi_context_note(ctx, STAX_E_NOT_BUILT, "CUDA needs STAX_NO_JIT and STAX_NO_STDIO unset");
}

STAXDEF stax_status stax_cuda_available(stax_context *ctx) {
    if (ctx) staxi_cuda_absent(ctx);
    return STAX_E_NOT_BUILT;
}
STAXDEF int stax_cuda_device_count(stax_context *ctx) { return (void)ctx, 0; }
STAXDEF stax_cuda *stax_cuda_open(stax_context *ctx, int device) {
    (void)device;
    (void)stax_cuda_available(ctx);
    return NULL;
}
STAXDEF stax_cuda *stax_cuda_open_with(stax_context *ctx, int device, void *context, void *stream) {
    (void)context;
    (void)stream;
    return stax_cuda_open(ctx, device);
}
STAXDEF void stax_cuda_close(stax_cuda *c) { (void)c; }
STAXDEF const char *stax_cuda_name(const stax_cuda *c) { return (void)c, ""; }
STAXDEF void *stax_cuda_stream(const stax_cuda *c) {
    (void)c;
    return NULL;
}
STAXDEF stax_status stax_cuda_wait(stax_cuda *c) { return (void)c, STAX_E_NOT_BUILT; }
STAXDEF stax_status stax_cuda_tensor_new(stax_cuda *c, stax_dtype dtype, stax_shape shape,
                                         stax_tensor *out) {
    (void)c;
    *out = stax_tensor_of(dtype, shape, NULL);
    return STAX_E_NOT_BUILT;
}
STAXDEF void stax_cuda_tensor_free(stax_cuda *c, stax_tensor *t) {
    (void)c;
    (void)t;
}
STAXDEF stax_status stax_cuda_copy(stax_cuda *c, const stax_tensor *to, const stax_tensor *from) {
    (void)c;
    (void)to;
    (void)from;
    return STAX_E_NOT_BUILT;
}
STAXDEF stax_status stax_cuda_copy_async(stax_cuda *c, const stax_tensor *to,
                                         const stax_tensor *from) {
    return stax_cuda_copy(c, to, from);
}
STAXDEF stax_status stax_cuda_host_new(stax_cuda *c, stax_dtype dtype, stax_shape shape,
                                       stax_tensor *out) {
    return stax_cuda_tensor_new(c, dtype, shape, out);
}
STAXDEF void stax_cuda_host_free(stax_cuda *c, stax_tensor *t) { stax_cuda_tensor_free(c, t); }
STAXDEF stax_cuda_program *stax_cuda_compile(stax_cuda *c, const stax_graph *g,
                                             const stax_compile_options *options) {
    (void)c;
    (void)options;
    if (g) staxi_cuda_absent(g->root->ctx);
    return NULL;
}
STAXDEF void stax_cuda_program_free(stax_cuda_program *p) { (void)p; }
STAXDEF stax_status stax_cuda_run(stax_cuda_program *p, const stax_tensor *inputs,
                                  const stax_tensor *outputs) {
    (void)p;
    (void)inputs;
    (void)outputs;
    return STAX_E_NOT_BUILT;
}
STAXDEF stax_status stax_cuda_run_on(stax_cuda_program *p, const stax_tensor *inputs,
                                     const stax_tensor *outputs, void *stream) {
    (void)stream;
    return stax_cuda_run(p, inputs, outputs);
}
STAXDEF stax_status stax_cuda_bind(stax_cuda_program *p, const char *name, const stax_tensor *t) {
    (void)p;
    (void)name;
    (void)t;
    return STAX_E_NOT_BUILT;
}
STAXDEF const char *stax_cuda_source(const stax_cuda_program *p) { return (void)p, ""; }
STAXDEF const char *stax_cuda_tuning(const stax_cuda_program *p) { return (void)p, ""; }
STAXDEF int stax_cuda_kernels(const stax_cuda_program *p) { return (void)p, 0; }
STAXDEF stax_status stax_cuda_program_figures(const stax_cuda_program *p, const stax_tensor *inputs,
                                              stax_figures *out) {
    (void)p;
    (void)inputs;
    if (out) memset(out, 0, sizeof *out);
    return STAX_E_NOT_BUILT;
}
STAXDEF char *stax_cuda_print(const stax_graph *g) { return stax_cuda_print_with(g, NULL); }
STAXDEF char *stax_cuda_print_with(const stax_graph *g, const stax_compile_options *options) {
    (void)options;
    if (g) staxi_cuda_absent(g->root->ctx);
    return NULL;
}
STAXDEF char *stax_cuda_explain(const stax_graph *g, const stax_compile_options *options) {
    return stax_cuda_print_with(g, options);
}
STAXDEF void *stax_cuda_cubin(stax_context *ctx, const char *source, const char *architecture,
                              size_t *bytes) {
    (void)source;
    (void)architecture;
    if (bytes) *bytes = 0;
    if (ctx) staxi_cuda_absent(ctx);
    return NULL;
}

#endif /* STAXI_TOOLCHAIN */

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif /* STAX_CUDA_IMPLEMENTATION_DONE */
#endif /* STAX_IMPLEMENTATION */
