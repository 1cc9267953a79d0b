/* staxc: runs, prints, explains, measures and exports graphs in the text form of Stax.

       cc -O1 -I. tools/staxc.c -o staxc -lm -ldl -lpthread
       ./staxc --help

   It uses the public interface of stax.h and stax_cuda.h only, as any program could.
   Exit status: 0 done, 1 the input is wrong, 2 usage, 3 the toolchain or device failed, 4 --check
   found a difference.

   CONTENTS   the command line, memory and messages, files, .npy files, numbers as text, tensors of
   a graph, compiled code, running, the verbs: run, print, grad, explain, export, probe, bench, ops,
   chain, version, cache. */

#if defined(__STRICT_ANSI__) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 199309L /* clock_gettime under -std=c99 */
#endif

#define STAX_IMPLEMENTATION
#include "stax_cuda.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DONE = 0, WRONG_INPUT = 1, WRONG_USAGE = 2, TOOLCHAIN_FAILED = 3, DIFFERENT = 4 };

/* ==== the command line ===========================================================================
   Two tables: the verbs, and the options with the verbs that take them. Parsing and --help
   follow. */

enum {
    RUN = 1,
    PRINT = 2,
    GRAD = 4,
    EXPLAIN = 8,
    BENCH = 16,
    EXPORT = 32,
    OPS = 64,
    VERSION = 128,
    CACHE = 256,
    PROBE = 512,
    CHAIN = 1024,
    SAVE = 2048,
    BISECT = 4096,
    TUNE = 8192,
    FILES = RUN | PRINT | GRAD | EXPLAIN | BENCH | EXPORT | SAVE | BISECT | TUNE, /* read a graph */
    COMPILE =
        RUN | PRINT | EXPLAIN | BENCH | EXPORT | SAVE | BISECT | TUNE | PROBE, /* may compile */
    DEVICE = RUN | EXPLAIN | BENCH | EXPORT /* verbs that know of devices */
};

/* value: NULL for a flag; lower-case words with | between them are all that is allowed. */
/* clang-format off */
#define OPTIONS(X)                                                                                                      \
    X(IN,      "in",      "NAME=FILE.npy",        RUN|BENCH|EXPORT|SAVE|BISECT|TUNE, "tensor of an input, param or state (repeat); NAME:bf16= and NAME:f8e4m3= give raw data a dtype") \
    X(OUT,     "out",     "NAME=FILE.npy",        RUN,          "where an output or final state goes (repeat); else it is printed")     \
    X(GRAPH,   "graph",   "NAME",                 FILES,        "which graph of the file; else the first")                              \
    X(BACKEND, "backend", "interpret|compile",    RUN,          "who computes: the reference interpreter, or compiled code (default)")  \
    X(CHECK,   "check",   NULL,                   RUN,          "run both backends and compare all bits")                               \
    X(STRICT,  "strict",  NULL,                   RUN|EXPLAIN,  "a failure of the C compiler is an error, not a reason to interpret")   \
    X(DEVICE,  "device",  "cpu|cuda",             DEVICE,       "where it runs (default cpu); cuda: run, bench and explain, on the first NVIDIA GPU; cuda.N: on number N, from 0") \
    X(REDUCE_OVERHEAD, "reduce-overhead", NULL,   RUN|BENCH,    "with --device=cuda: a call is replayed as one graph of CUDA's") \
    X(TENSOR_CORES, "tensor-cores", NULL,         RUN|BENCH|PRINT, "with --device=cuda and --emit=cuda: f16 and bf16 contractions on tensor cores (sm_80 and newer), not the interpreter's bits") \
    X(TUNE,         "tune",         NULL,         RUN|BENCH,    "with --device=cuda: measures how kernels are cut, and keeps the fastest") \
    X(TF32,         "tf32",         NULL,         RUN|BENCH|PRINT, "the same for f32 contractions, whose operands are rounded to TF32") \
    X(ATOMICS,      "atomics",      NULL,         RUN|BENCH|PRINT|EXPLAIN, "with --device=cuda and --emit=cuda: scatter in the modes add, max and min by atomic updates in kernels, not by the host: floats are added in any order") \
    X(SEED,    "seed",    "S",                    RUN|BENCH|EXPORT|SAVE|BISECT|TUNE, "inputs without --in are filled from their name and this number (default 0)") \
    X(SCALE,   "scale",   "K",                    RUN|BENCH,    "params without --in lie in [-2, 2) / 2^K (default 0): deep networks with weights near 1 overflow, f8 apart") \
    X(SIZE,    "size",    "n=64,m=3",             RUN|EXPLAIN|BENCH|EXPORT|SAVE|BISECT|TUNE|GRAD, "size symbols; else from the files, else 16 clipped to the range (explain: 1024)") \
    X(AFTER,   "after",   "parse|rewrite|grad|lower|schedule", PRINT, "the stage that is shown (default parse)")                        \
    X(TRACE,   "trace",   NULL,                   PRINT,        "with --after=rewrite: each firing of a rule and what it replaced, and counters, as comments") \
    X(OWN,     "own",     "OP,OP",                PRINT,        "with --after=rewrite: ops that stay as written, for a backend that has them itself") \
    X(SVG,     "svg",     "FILE.svg",             PRINT,        "with --emit=plan: what lies where in the workspace, from which kernel to which, as a picture") \
    X(EMIT,    "emit",    "text|dot|loops|plan|c|cuda", PRINT,  "the form; loops, plan, c and cuda are of the finished program")        \
    X(OF,      "of",      "VALUE",                GRAD|PRINT|EXPLAIN, "the scalar whose gradient is wanted (explain: as a forward and a backward program)") \
    X(WRT,     "wrt",     "NAME,NAME",            GRAD|PRINT|EXPLAIN, "the inputs it is taken by")                                      \
    X(FORWARD, "forward", "N",                    EXPLAIN|BISECT, "the first N outputs are a forward program's, the others a backward one's: what is saved between them") \
    X(FAULT,   "fault",   "STAGE",                BISECT,       "for tests: this stage fails, or STAGE=wrong: what it gives is wrong; as stax_options.fault") \
    X(BOUNDS,  "bounds",  NULL,                   BISECT,       "differences within the error model are none (for kernels that do not promise bits)") \
    X(SECONDS, "seconds", "S",                    TUNE,         "of compiling and measuring, about (default 10)")                       \
    X(AGAIN,   "again",   NULL,                   TUNE,         "measures, whatever was found before")                                  \
    X(BUDGET,  "budget",  "BYTES",                EXPLAIN,      "with --of or --forward: what may be saved at most")                    \
    X(SAVE_ALL, "save-all", NULL,                 EXPLAIN,      "with --of or --forward: nothing is computed again")                    \
    X(STEPS,   "steps",   "N",                    CHAIN,        "length of the chain (required)")                                       \
    X(SLOTS,   "slots",   "S",                    CHAIN,        "states that there is room for; without it: how many are needed")       \
    X(KIND,    "kind",    "binomial|uniform",     CHAIN,        "the fewest evaluations (default), or segments of one length")          \
    X(ORDER,   "order",   "1|2",                  GRAD | PRINT, "2: of the sum of all first derivatives (default 1)")                               \
    X(MODE,    "mode",    "reverse|forward",      GRAD | PRINT, "how (default reverse)")                                                \
    X(COST,    "cost",    NULL,                   GRAD,         "the operations of the value and of value and gradients, and their ratio, not the graph") \
    X(RUNS,    "runs",    "15",                   BENCH,        "readings of a round; the interval holds the true median with 95 %")    \
    X(ROUNDS,  "rounds",  "2",                    BENCH,        "rounds, kept apart: machines change from one minute to the next (default 2)") \
    X(VS,      "vs",      "interpret|op-by-op|FILE2", BENCH,    "measure a second contender in turn, and the ratio of the two")         \
    X(JSON,    "json",    NULL,                   EXPLAIN|BENCH|PROBE, "one JSON object")                                                      \
    X(NAME,    "name",    "PREFIX",               EXPORT,       "files and functions begin with it (required)")                         \
    X(DIR,     "dir",     "DIR",                  EXPORT,       "folder of PREFIX.c and PREFIX.h (default .)")                          \
    X(WEIGHTS, "weights", "inline|file",          EXPORT,       "params in PREFIX.c (default) or in PREFIX.bin")                        \
    X(TO,      "to",      "FILE.staxp",           SAVE,         "the file that is written (required); -o is short for it")              \
    X(STATIC,  "static",  NULL,                   EXPORT,       "all functions static, for inclusion in one file")                      \
    X(SCHEDULE, "schedule", "FILE",               COMPILE,      "how it is computed, as print --after=schedule shows it (default: automatic)") \
    X(REALIZE, "realize", "cost|measured|thresholds|keep|redo", COMPILE, "what becomes of values that are read several times: by cost on a nominal machine (default) or on this one, by thresholds, all kept, all computed again") \
    X(PROCESSES, "processes", "N",                COMPILE,      "C compilers that run at the same time, each on a share of the kernels (default 1)") \
    X(THREADS, "threads", "N",                    COMPILE,      "threads of a call (default 1)")                                        \
    X(ISA,     "isa",     "scalar|sse2|sse42|avx2|avx512|neon", COMPILE, "instruction set (default: the best of this machine)")         \
    X(CLEAR,   "clear",   NULL,                   CACHE,        "remove every compiled kernel")                                         \
    X(PROMOTION, "promotion", NULL,               OPS,          "the dtype of every pair of operands, instead")                         \
    X(PRIMITIVES, "primitives", NULL,             OPS,          "the primitives of schedules, instead")                                 \
    X(HELP,    "help",    NULL,                   FILES|OPS|VERSION|CACHE|PROBE|CHAIN, "this text")
/* clang-format on */

#define OPTION_ENUM(id, name, value, verbs, help) OPT_##id,
enum { OPTIONS(OPTION_ENUM) OPT_COUNT };
#undef OPTION_ENUM

typedef struct option_row {
    const char *name, *value;
    int verbs;
    const char *help;
} option_row;
#define OPTION_ROW(id, name, value, verbs, help) {name, value, verbs, help},
static const option_row option_rows[OPT_COUNT] = {OPTIONS(OPTION_ROW)};
#undef OPTION_ROW

/* --in or --out: NAME[:DTYPE]=FILE */
typedef struct pair {
    const char *name, *dtype, *file;
    int used;
} pair;

typedef struct block {
    struct block *next;
} block;

/* One run of the tool. */
typedef struct tool {
    const struct verb_row *verb;
    const char
        *given[OPT_COUNT]; /* the last value of each option ("" for a flag), NULL: not given */
    pair *ins, *outs;
    int n_ins, n_outs;
    const char *file;
    block *blocks; /* all memory of the tool, freed at its end */
    stax_context *ctx;
    stax_cuda *cuda; /* the device of --device=cuda */
    stax_program *loaded;        /* of a saved program; its ports are the graph of the job */
    stax_schedule *schedule;     /* of --schedule, */
    const stax_graph *scheduled; /* for this graph */
    int threads, processes, runs, rounds, scale;
    uint64_t seed;
    stax_isa isa;
} tool;

typedef struct verb_row {
    const char *name;
    int bit;
    int (*run)(tool *t);
    const char *does, *example;
} verb_row;

/* ==== memory and messages ===================================================================== */

static void say(const char *format, va_list args) {
    fputs("staxc: error: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

static int fail(int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    return code;
}

/* The same for functions that answer whether they could. */
static bool refuse(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    return false;
}

enum { WHY = 256 }; /* bytes of a reason, for a caller who knows which file it is about */

static bool because(char *why, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(why, WHY, format, args);
    va_end(args);
    return false;
}

/* Zeroed memory, aligned for any vector, that lives until the end of the tool. */
static void *take(tool *t, size_t bytes) {
    const size_t extra = sizeof(block) + STAX_ALIGN;
    block *b = bytes <= SIZE_MAX - extra ? (block *)calloc(1, bytes + extra) : NULL;
    if (!b) exit(fail(WRONG_INPUT, "out of memory: %.0f more bytes are needed", (double)bytes));
    b->next = t->blocks;
    t->blocks = b;
    return (void *)(((uintptr_t)b + extra) & ~(uintptr_t)(STAX_ALIGN - 1));
}

static void *take_array(tool *t, int n, size_t item_bytes) {
    return take(t, ((size_t)n + 1) * item_bytes);
}

static char *take_text(tool *t, const char *s, size_t n) {
    char *copy = (char *)take(t, n + 1);
    if (n) memcpy(copy, s, n);
    return copy;
}

static int exit_code(stax_status s) {
    switch (s) {
        case STAX_OK:
            return DONE;
        case STAX_E_COMPILER:
        case STAX_E_CACHE:
        case STAX_E_DEVICE:
        case STAX_E_INTERNAL:
            return TOOLCHAIN_FAILED;
        default:
            return WRONG_INPUT;
    }
}

/* Says what the library said. Its messages about a file begin with their place already. */
static int say_error(const tool *t, stax_status s) {
    const char *message = stax_error(t->ctx), *error;
    if (!*message) message = stax_status_text(s);
    error = strstr(message, "error: ");
    if (error && error < message + strcspn(message, "\n"))
        fprintf(stderr, "%s\n", message);
    else
        fail(0, "%s", message);
    return exit_code(s);
}

/* A whole number of an option, lo..hi; the default when it is not given. */
static bool read_number(const tool *t, int option, long long lo, long long hi, long long *out) {
    const char *s = t->given[option];
    char *end = NULL;
    if (!s) return true;
    errno = 0;
    *out = strtoll(s, &end, 0);
    if (*s && *end == 0 && !errno && *out >= lo && *out <= hi) return true;
    fail(0, "--%s: expected a number %lld..%lld, found %s", option_rows[option].name, lo, hi, s);
    return false;
}

/* ==== files =================================================================================== */

typedef struct bytes {
    char *data; /* a NUL follows */
    size_t n;
} bytes;

/* All bytes of a file or of standard input ("-"); false: errno says why. */
static bool read_file(tool *t, const char *path, bool dash_is_stdin, bytes *out) {
    bool is_stdin = dash_is_stdin && strcmp(path, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(path, "rb");
    size_t cap = 1 << 16, n = 0, got = 1;
    char *data = f ? (char *)malloc(cap) : NULL;
    while (data && got > 0) {
        got = fread(data + n, 1, cap - n, f);
        n += got;
        if (n < cap) continue;
        char *more = cap <= SIZE_MAX / 2 ? (char *)realloc(data, 2 * cap) : NULL;
        if (!more) free(data);
        data = more;
        cap *= 2;
    }
    int error = !f || (data && ferror(f)) ? errno : data ? 0 : ENOMEM;
    if (f && !is_stdin) fclose(f);
    if (error == 0) {
        out->data = take_text(t, data, n);
        out->n = n;
    }
    free(data);
    errno = error;
    return error == 0;
}

/* ==== .npy files =================================================================================
   magic "\x93NUMPY", version, length of the header, the header (a Python dict as text), the
   data. */

typedef struct npy {
    char order, kind; /* '<' '>' '|' '=' and 'f' 'i' 'u' 'b' 'V' ... */
    int64_t width;    /* bytes of an element */
    char descr[32];
    bool fortran;
    int rank;
    int64_t shape[STAX_MAX_RANK];
    const char *data; /* in the file's order of bytes and elements */
    size_t bytes;
} npy;

typedef struct cursor {
    const char *at, *end;
} cursor;

static void skip_spaces(cursor *c) {
    while (c->at < c->end && strchr(" \t\r\n", *c->at) && *c->at) c->at++;
}

static bool accept(cursor *c, const char *word) {
    size_t n = strlen(word);
    skip_spaces(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0) return false;
    c->at += n;
    return true;
}

/* A Python string without escapes, cut to n - 1 characters; what cannot be shown becomes '?'. */
static bool accept_string(cursor *c, char *out, size_t n) {
    skip_spaces(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return false;
    char quote = *c->at++;
    size_t k = 0;
    for (; c->at < c->end && *c->at != quote; c->at++)
        if (k + 1 < n) out[k++] = (*c->at >= ' ' && *c->at <= '~') ? *c->at : '?';
    out[k] = 0;
    if (c->at == c->end) return false;
    c->at++;
    return true;
}

static bool accept_shape(cursor *c, npy *h, char *why) {
    if (!accept(c, "(")) return because(why, "its header has no shape: expected a tuple");
    for (h->rank = 0; !accept(c, ")");) {
        int64_t n = 0;
        const char *start = (skip_spaces(c), c->at);
        for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
            if (n > (INT64_MAX - 9) / 10) return because(why, "a size in its header is too large");
            n = n * 10 + (*c->at - '0');
        }
        if (c->at == start) return because(why, "its header has a shape that is no tuple of sizes");
        if (h->rank == STAX_MAX_RANK)
            return because(why, "expected at most %d axes, found more", STAX_MAX_RANK);
        h->shape[h->rank++] = n;
        accept(c, "L"); /* Python 2 wrote 3L */
        if (!accept(c, ",") && (skip_spaces(c), c->at == c->end || *c->at != ')'))
            return because(why, "its header has a shape that is no tuple of sizes");
    }
    return true;
}

static bool read_descr(npy *h, char *why) {
    const char *s = h->descr;
    h->order = strchr("<>|=", *s) && *s ? *s++ : '=';
    h->kind = *s ? *s++ : '?';
    for (h->width = 0; *s >= '0' && *s <= '9' && h->width < 1000; s++)
        h->width = h->width * 10 + (*s - '0');
    if (*s == 0 && h->width > 0) return true;
    return because(why, "expected a plain dtype in its header, found '%s'", h->descr);
}

static bool read_header(cursor c, npy *h, char *why) {
    char key[20];
    int found = 0;
    if (!accept(&c, "{")) return because(why, "its header is no dict");
    while (!accept(&c, "}")) {
        if (!accept_string(&c, key, sizeof key) || !accept(&c, ":"))
            return because(why,
                           "its header is damaged: expected 'descr', 'fortran_order' and 'shape'");
        if (strcmp(key, "descr") == 0) {
            if (accept(&c, "[")) return because(why, "it holds records: expected a plain dtype");
            if (!accept_string(&c, h->descr, sizeof h->descr))
                return because(why, "its header has no dtype");
            found |= 1;
        } else if (strcmp(key, "fortran_order") == 0) {
            h->fortran = accept(&c, "True");
            if (!h->fortran && !accept(&c, "False"))
                return because(why,
                               "its header has a fortran_order that is neither True nor False");
            found |= 2;
        } else if (strcmp(key, "shape") == 0) {
            if (!accept_shape(&c, h, why)) return false;
            found |= 4;
        } else {
            return because(why, "its header has an unknown entry '%s'", key);
        }
        accept(&c, ",");
    }
    skip_spaces(&c);
    if (c.at != c.end || found != 7)
        return because(why, "its header is damaged: expected 'descr', 'fortran_order' and 'shape'");
    return read_descr(h, why);
}

static uint32_t little_endian(const char *p, int n) {
    uint32_t r = 0;
    for (int k = n; k-- > 0;) r = r << 8 | (unsigned char)p[k];
    return r;
}

/* Bytes of a tensor; false: more than an address can say. */
static bool count_bytes(const int64_t *shape, int rank, size_t width, size_t *out) {
    uint64_t n = width;
    bool is_empty = false;
    for (int d = 0; d < rank; d++) {
        is_empty = is_empty || shape[d] == 0;
        if ((uint64_t)shape[d] > (uint64_t)(PTRDIFF_MAX / 2) / n) return false;
        if (shape[d] > 0) n *= (uint64_t)shape[d]; /* so that no stride overflows either */
    }
    *out = is_empty ? 0 : (size_t)n;
    return true;
}

/* What the file says; its data stays where it was read. */
static bool npy_read(tool *t, const char *path, npy *h, char *why) {
    bytes file;
    cursor c;
    size_t start;
    memset(h, 0, sizeof *h);
    if (!read_file(t, path, false, &file)) return because(why, "%s", strerror(errno));
    if (file.n < 10 || memcmp(file.data, "\x93NUMPY", 6) != 0)
        return because(why, "it is no .npy file");
    int version = file.data[6], width = version == 1 ? 2 : 4;
    if (version < 1 || version > 3)
        return because(why, "expected version 1.0, 2.0 or 3.0 of .npy, found %d.%d", version,
                       file.data[7]);
    start = 8 + (size_t)width;
    if (file.n < start || file.n - start < little_endian(file.data + 8, width))
        return because(why, "it is cut short within its header");
    c.at = file.data + start;
    c.end = c.at + little_endian(file.data + 8, width);
    if (!read_header(c, h, why)) return false;
    h->data = c.end;
    size_t found = file.n - (size_t)(c.end - file.data);
    if (!count_bytes(h->shape, h->rank, (size_t)h->width, &h->bytes))
        return because(why, "its shape needs more bytes than there are addresses");
    if (found == h->bytes) return true;
    return because(why, "it is %s: expected %.0f bytes of data, found %.0f",
                   found < h->bytes ? "cut short" : "too long", (double)h->bytes, (double)found);
}

typedef struct npy_name {
    char kind, width;
    stax_dtype dtype;
} npy_name;
static const npy_name npy_names[] = {{'f', 8, STAX_F64},  {'f', 4, STAX_F32}, {'f', 2, STAX_F16},
                                     {'V', 2, STAX_BF16}, {'i', 8, STAX_I64}, {'i', 4, STAX_I32},
                                     {'i', 2, STAX_I16},  {'i', 1, STAX_I8},  {'u', 8, STAX_U64},
                                     {'u', 4, STAX_U32},  {'u', 2, STAX_U16}, {'u', 1, STAX_U8},
                                     {'b', 1, STAX_BOOL}};
enum { N_NPY_NAMES = sizeof npy_names / sizeof npy_names[0] };

/* f8 has no name in NumPy: it is V1, and needs the input's dtype or the option's. */
static bool is_f8(stax_dtype d) { return d == STAX_F8E4M3 || d == STAX_F8E5M2; }

/* The dtype of a file for --in NAME:as=FILE (as may be NULL) when the graph wants `wanted`. */
static bool npy_dtype(const npy *h, const char *as, stax_dtype wanted, stax_dtype *out, char *why) {
    bool is_raw = h->kind == 'V' || h->kind == 'u';
    *out = STAX_DTYPE_NONE;
    for (int k = 0; k < N_NPY_NAMES; k++)
        if (npy_names[k].kind == h->kind && npy_names[k].width == h->width)
            *out = npy_names[k].dtype;
    if (h->kind == 'V' && h->width == 1 && is_f8(wanted)) *out = wanted;
    if (as) {
        stax_dtype said = stax_dtype_named(as);
        if (said == STAX_DTYPE_NONE)
            return because(why, "%.40s is no dtype: expected bf16, f8e4m3, f8e5m2, ...", as);
        if (said != *out && !(is_raw && (size_t)h->width == stax_dtype_bytes(said)))
            return because(why, "expected raw data of %d bytes (V%d or u%d) for %s, found '%s'",
                           (int)stax_dtype_bytes(said), (int)stax_dtype_bytes(said),
                           (int)stax_dtype_bytes(said), as, h->descr);
        *out = said;
    }
    if (*out != STAX_DTYPE_NONE) return true;
    return because(why, "expected f8 f4 f2 i8 i4 i2 i1 u8 u4 u2 u1 b1 or V2 (bf16), found '%s'%s",
                   h->descr,
                   h->kind == 'V' && h->width == 1 ? ": say NAME:f8e4m3= or NAME:f8e5m2=" : "");
}

static bool host_is_big_endian(void) {
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return first == 0;
}

/* A copy of the data: elements in the file's order, bytes in the machine's. */
static bool npy_tensor(tool *t, const npy *h, stax_dtype dtype, stax_tensor *out, char *why) {
    size_t width = (size_t)h->width;
    char *to = take_text(t, h->data, h->bytes);
    bool swap = width > 1 && h->kind != 'V' && h->order == (host_is_big_endian() ? '<' : '>');
    for (size_t i = 0; swap && i < h->bytes; i += width)
        for (size_t k = 0; k < width; k++) to[i + k] = h->data[i + width - 1 - k];
    for (size_t i = 0; dtype == STAX_BOOL && i < h->bytes; i++)
        if ((unsigned char)to[i] > 1)
            return because(why, "element %.0f is byte %d: expected a bool, 0 or 1", (double)i,
                           (unsigned char)to[i]);
    memset(out, 0, sizeof *out);
    out->data = to;
    out->dtype = dtype;
    out->rank = h->rank;
    int64_t stride = 1;
    for (int k = 0; k < h->rank; k++) {
        int axis = h->fortran ? k : h->rank - 1 - k;
        out->shape[axis] = h->shape[axis];
        out->strides[axis] = stride;
        stride *= h->shape[axis] > 0 ? h->shape[axis] : 1;
    }
    return true;
}

static int64_t count_elements(const stax_tensor *x) {
    int64_t n = 1;
    for (int d = 0; d < x->rank; d++) n *= x->shape[d];
    return n;
}

static int npy_write(const char *path, const stax_tensor *row_major) {
    char header[512];
    char start[10] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, 0, 0};
    char kind = 'V', order = '|';
    size_t width = stax_dtype_bytes(row_major->dtype), n = (size_t)count_elements(row_major);
    for (int k = 0; k < N_NPY_NAMES; k++)
        if (npy_names[k].dtype == row_major->dtype) kind = npy_names[k].kind;
    if (kind != 'V' && width > 1) order = host_is_big_endian() ? '>' : '<';
    int used =
        snprintf(header, sizeof header, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (",
                 order, kind, (int)width);
    for (int d = 0; d < row_major->rank; d++)
        used += snprintf(header + used, sizeof header - (size_t)used, d ? ", %lld" : "%lld",
                         (long long)row_major->shape[d]);
    used += snprintf(header + used, sizeof header - (size_t)used,
                     row_major->rank == 1 ? ",), }" : "), }");
    while ((used + 11) % 64) header[used++] = ' '; /* the data begins on a multiple of 64 */
    header[used++] = '\n';
    start[8] = (char)(used & 255);
    start[9] = (char)(used >> 8);
    FILE *f = fopen(path, "wb");
    bool good = f && fwrite(start, 1, 10, f) == 10 &&
                fwrite(header, 1, (size_t)used, f) == (size_t)used &&
                fwrite(row_major->data, width, n, f) == n;
    if (f && fclose(f) != 0) good = false;
    return good ? DONE : fail(WRONG_INPUT, "%s: cannot write: %s", path, strerror(errno));
}

/* ==== numbers as text ============================================================================
   Floats are printed with the fewest digits that read back to the same number of their dtype. */

typedef struct float_format {
    int exponent_bits, mantissa_bits;
} float_format;

static float_format format_of(stax_dtype d) {
    float_format f = {8, 7};
    if (d == STAX_F16) f.exponent_bits = 5, f.mantissa_bits = 10;
    if (d == STAX_F8E4M3) f.exponent_bits = 4, f.mantissa_bits = 3;
    if (d == STAX_F8E5M2) f.exponent_bits = 5, f.mantissa_bits = 2;
    return f;
}

static bool is_float(stax_dtype d) { return (d >= STAX_F64 && d <= STAX_BF16) || is_f8(d); }

static bool is_signed(stax_dtype d) { return d >= STAX_I64 && d <= STAX_I8; }

static uint64_t load_bits(const void *p, size_t width) {
    uint64_t b8;
    uint32_t b4;
    uint16_t b2;
    if (width == 8) return memcpy(&b8, p, 8), b8;
    if (width == 4) return memcpy(&b4, p, 4), b4;
    if (width == 2) return memcpy(&b2, p, 2), b2;
    return *(const unsigned char *)p;
}

static void store_bits(void *p, size_t width, uint64_t bits) {
    uint32_t b4 = (uint32_t)bits;
    uint16_t b2 = (uint16_t)bits;
    unsigned char b1 = (unsigned char)bits;
    if (width == 8) memcpy(p, &bits, 8);
    if (width == 4) memcpy(p, &b4, 4);
    if (width == 2) memcpy(p, &b2, 2);
    if (width == 1) memcpy(p, &b1, 1);
}

static double load_float(stax_dtype d, const void *p) {
    double x;
    float s;
    if (d == STAX_F64) return memcpy(&x, p, 8), x;
    if (d == STAX_F32) return memcpy(&s, p, 4), (double)s;
    float_format f = format_of(d);
    uint64_t bits = load_bits(p, stax_dtype_bytes(d));
    int top = (1 << f.exponent_bits) - 1, m = f.mantissa_bits;
    int exponent = (int)(bits >> m) & top, mantissa = (int)bits & ((1 << m) - 1);
    bool negative = bits >> (m + f.exponent_bits) & 1;
    bool is_e4m3 = d == STAX_F8E4M3; /* it has no infinity, and NaN is all ones only */
    if (exponent == top && (!is_e4m3 || mantissa == 7))
        x = mantissa ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        x = ldexp(mantissa, 1 - top / 2 - m);
    else
        x = ldexp(mantissa + (1 << m), exponent - top / 2 - m);
    return negative ? -x : x;
}

/* Is x the number of dtype d that is nearest to `read`? f8 is short enough to be exact. */
static bool reads_back(stax_dtype d, double x, double read) {
    int exponent;
    if (d == STAX_F64 || is_f8(d)) return read == x;
    if (d == STAX_F32) return (float)read == (float)x;
    float_format f = format_of(d);
    int least = 2 - (1 << (f.exponent_bits - 1));
    bool is_power = frexp(fabs(x), &exponent) == 0.5;
    if (exponent - 1 < least) exponent = least + 1;
    return fabs(read - x) < ldexp(is_power ? 0.25 : 0.5, exponent - 1 - f.mantissa_bits);
}

static void number_text(char *out, size_t n, stax_dtype d, const void *p) {
    uint64_t bits = load_bits(p, stax_dtype_bytes(d));
    if (d == STAX_BOOL) {
        snprintf(out, n, "%s", bits ? "true" : "false");
    } else if (is_signed(d)) {
        int unused = 64 - 8 * (int)stax_dtype_bytes(d);
        uint64_t sign = (uint64_t)1 << (63 - unused);
        snprintf(out, n, "%lld", (long long)(int64_t)((bits ^ sign) - sign));
    } else if (!is_float(d)) {
        snprintf(out, n, "%llu", (unsigned long long)bits);
    } else {
        double x = load_float(d, p);
        if (x != x) {
            snprintf(out, n, "nan");
            return;
        }
        if (x == floor(x) && fabs(x) < 1e16) {
            snprintf(out, n, "%.1f", x);
            return;
        }
        for (int digits = 1; digits <= 17; digits++) {
            snprintf(out, n, "%.*g", digits, x);
            if (x - x != 0.0 || reads_back(d, x, strtod(out, NULL))) break;
        }
        if (!strpbrk(out, ".en")) snprintf(out + strlen(out), n - strlen(out), ".0");
    }
}

static void type_text(char *out, size_t n, stax_dtype d, const int64_t *shape, int rank) {
    int used = snprintf(out, n, "%s[", stax_dtype_name(d));
    for (int k = 0; k < rank; k++)
        used += snprintf(out + used, n - (size_t)used, k ? ",%lld" : "%lld", (long long)shape[k]);
    snprintf(out + used, n - (size_t)used, "]");
}
enum { TYPE_TEXT = 32 + STAX_MAX_RANK * 21 };

/* Nested lists as NumPy prints them; long axes of large tensors show three entries at each end. */
static void print_axis(const stax_tensor *x, int axis, const char *at, bool is_large) {
    char text[64];
    if (axis == x->rank) {
        number_text(text, sizeof text, x->dtype, at);
        fputs(text, stdout);
        return;
    }
    int64_t n = x->shape[axis], step = x->strides[axis] * (int64_t)stax_dtype_bytes(x->dtype);
    putchar('[');
    for (int64_t i = 0; i < n; i++) {
        if (i && axis + 1 == x->rank) fputs(", ", stdout);
        if (i && axis + 1 < x->rank) printf(",\n%*s", axis + 1, "");
        if (is_large && n > 7 && i == 3) {
            fputs("...", stdout);
            i = n - 4;
        } else {
            print_axis(x, axis + 1, at + i * step, is_large);
        }
    }
    putchar(']');
}

static void print_tensor(const char *name, const stax_tensor *x) {
    char type[TYPE_TEXT];
    int64_t lists = 1; /* an empty tensor may have many empty lists */
    for (int k = 0; k < x->rank && x->shape[k] && lists <= 1000; k++)
        lists = x->shape[k] > 1000 ? x->shape[k] : lists * x->shape[k];
    type_text(type, sizeof type, x->dtype, x->shape, x->rank);
    printf("%s: %s =%c", name, type, x->rank > 1 ? '\n' : ' ');
    print_axis(x, 0, (const char *)x->data, lists > 1000);
    putchar('\n');
}

/* ==== tensors of a graph =========================================================================
   Files, sizes and seeds become a tensor for each input of a graph. */

typedef struct job {
    stax_graph *g;
    int n_in, n_out, n_symbols;
    stax_input_info *in_info;
    stax_output_info *out_info;
    stax_tensor *in;     /* data NULL: not there yet */
    const pair **source; /* the option that gave it, or NULL */
    int64_t *symbols;
} job;

/* How far a tensor reaches from its first element, in elements. */
static void reach(const stax_tensor *x, int64_t *lowest, int64_t *highest) {
    *lowest = *highest = 0;
    for (int d = 0; d < x->rank; d++) {
        int64_t span = (x->shape[d] > 0 ? x->shape[d] - 1 : 0) * x->strides[d];
        *(span < 0 ? lowest : highest) += span;
    }
}

/* Visits the elements of `shape` in row-major order: index and offset step on; false at the end. */
static bool step_on(const stax_tensor *x, int64_t *index, int64_t *offset) {
    for (int d = x->rank; d-- > 0;) {
        *offset += x->strides[d];
        if (++index[d] < x->shape[d]) return true;
        *offset -= x->strides[d] * x->shape[d];
        index[d] = 0;
    }
    return false;
}

/* A copy with other strides, in memory of its own. */
static stax_tensor laid_out(tool *t, const stax_tensor *x, const int64_t *strides) {
    stax_tensor r = *x;
    size_t width = stax_dtype_bytes(x->dtype);
    int64_t lowest, highest, index[STAX_MAX_RANK] = {0}, from = 0;
    memcpy(r.strides, strides, sizeof r.strides);
    reach(&r, &lowest, &highest);
    r.data = (char *)take(t, (size_t)(highest - lowest + 1) * width) - lowest * (int64_t)width;
    if (count_elements(x) == 0) return r;
    do {
        int64_t to = 0;
        for (int d = 0; d < r.rank; d++) to += index[d] * r.strides[d];
        memcpy((char *)r.data + to * (int64_t)width, (const char *)x->data + from * (int64_t)width,
               width);
    } while (step_on(x, index, &from));
    return r;
}

static stax_tensor row_major(tool *t, const stax_tensor *x) {
    stax_shape shape = stax_shape0();
    shape.rank = x->rank;
    memcpy(shape.dims, x->shape, sizeof shape.dims);
    stax_tensor row = stax_tensor_of(x->dtype, shape, x->data);
    for (int d = 0; d < x->rank; d++)
        if (x->strides[d] != row.strides[d] && x->shape[d] != 1) return laid_out(t, x, row.strides);
    return row;
}

/* Dims as numbers; false has said what is wrong. */
static bool dims_of(const job *j, const char *what, const char *name, stax_shape shape,
                    int64_t *dims) {
    for (int d = 0; d < shape.rank; d++) {
        if (!stax_size_value(j->g, shape.dims[d], j->symbols, &dims[d]))
            return refuse(
                "%s %s: the size of axis %d cannot be computed: give the symbols with "
                "--size",
                what, name, d);
        if (dims[d] < 0)
            return refuse("%s %s: axis %d has size %lld: choose other sizes with --size", what,
                          name, d, (long long)dims[d]);
    }
    return true;
}

static bool new_tensor(tool *t, const job *j, const char *what, const char *name, stax_dtype dtype,
                       stax_shape shape, stax_tensor *out) {
    size_t n;
    stax_shape numbers = shape;
    if (!dims_of(j, what, name, shape, numbers.dims)) return false;
    if (!count_bytes(numbers.dims, shape.rank, stax_dtype_bytes(dtype), &n))
        return refuse("%s %s is too large", what, name);
    *out = stax_tensor_of(dtype, numbers, take(t, n));
    return true;
}

/* ---- filling: element i of an input depends on its name, the seed and i alone ---- */

static uint64_t mixed(uint64_t x) { /* splitmix64 */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The bits of k / 2^scale, which must be a normal number of the dtype. */
static uint64_t small_float(stax_dtype d, int k, int scale) {
    float_format f = format_of(d);
    int exponent, m = f.mantissa_bits;
    if (k == 0) return 0;
    double fraction = frexp(k < 0 ? -k : k, &exponent);
    uint64_t biased = (uint64_t)(exponent - scale - 2 + (1 << (f.exponent_bits - 1)));
    return (uint64_t)(k < 0) << (m + f.exponent_bits) | biased << m |
           (uint64_t)((fraction * 2.0 - 1.0) * (double)(1 << m));
}

/* Floats: multiples of a power of two in [-2, 2) / 2^scale, exact in their dtype. Integers: 0 .. 7,
   so that they can be indices of small axes too. */
static void fill(const char *name, uint64_t seed, int scale, stax_tensor *x) {
    static const signed char float_bits[STAX_DTYPE_COUNT] = {0, 24, 24, 9, 8, 0, 0, 0,
                                                             0, 0,  0,  0, 0, 0, 4, 3};
    uint64_t key = 0xcbf29ce484222325u ^ seed;
    size_t width = stax_dtype_bytes(x->dtype);
    char *to = (char *)x->data;
    int64_t n = count_elements(x);
    for (; *name; name++) key = (key ^ (unsigned char)*name) * 0x100000001b3u;
    key = mixed(key);
    for (int64_t i = 0; i < n; i++, to += width) {
        uint64_t r = mixed(key + (uint64_t)i);
        int bits = float_bits[x->dtype], k = bits ? (int)(r >> (64 - bits)) - (1 << (bits - 1)) : 0;
        double real = bits ? ldexp(k, 2 - bits - scale) : 0.0;
        float single = (float)real;
        if (x->dtype == STAX_F64)
            memcpy(to, &real, 8);
        else if (x->dtype == STAX_F32)
            memcpy(to, &single, 4);
        else
            store_bits(to, width,
                       bits ? small_float(x->dtype, k, bits - 2 + (bits > 4 ? scale : 0))
                            : r >> (x->dtype == STAX_BOOL ? 63 : 61));
    }
}

/* ---- from the options to tensors ---- */

static pair *find_pair(pair *list, int n, const char *name) {
    for (int k = 0; k < n; k++)
        if (strcmp(list[k].name, name) == 0) return &list[k];
    return NULL;
}

/* The option of that name, or NULL. What is never used names nothing: a mistake. */
static pair *mark_used(pair *list, int n, const char *name) {
    pair *p = find_pair(list, n, name);
    if (p) p->used = 1;
    return p;
}

static bool read_input(tool *t, job *j, int k, pair *p) {
    npy file;
    stax_dtype dtype;
    char why[WHY];
    if (npy_read(t, p->file, &file, why) &&
        npy_dtype(&file, p->dtype, j->in_info[k].dtype, &dtype, why) &&
        npy_tensor(t, &file, dtype, &j->in[k], why)) {
        j->source[k] = p;
        return true;
    }
    return refuse("--in %s=%s: %s", p->name, p->file, why);
}

/* --size n=64,m=3 */
static int read_sizes(const tool *t, job *j) {
    const char *s = t->given[OPT_SIZE];
    while (s && *s) {
        const char *equals = strchr(s, '=');
        char *end = NULL;
        errno = 0;
        long long n = equals ? strtoll(equals + 1, &end, 10) : 0;
        if (!equals || end == equals + 1 || (*end && *end != ',') || n < 0 || errno)
            return fail(WRONG_USAGE, "--size: expected SYMBOL=NUMBER,..., found %s", s);
        int k = 0;
        for (stax_symbol_info info; k < j->n_symbols; k++)
            if (stax_graph_symbol(j->g, k, &info) && strlen(info.name) == (size_t)(equals - s) &&
                strncmp(info.name, s, strlen(info.name)) == 0)
                break;
        if (k == j->n_symbols)
            return fail(WRONG_INPUT, "--size: the graph has no size symbol %.*s", (int)(equals - s),
                        s);
        j->symbols[k] = (int64_t)n;
        s = *end ? end + 1 : end;
    }
    return DONE;
}

static void solve_sizes(job *j) {
    for (bool again = true; again;) {
        again = false;
        for (int k = 0; k < j->n_in; k++) {
            const stax_shape *shape = &j->in_info[k].shape;
            for (int d = 0; j->source[k] && shape->rank == j->in[k].rank && d < shape->rank; d++)
                if (stax_size_solve(j->g, shape->dims[d], j->in[k].shape[d], j->symbols))
                    again = true;
        }
    }
}

/* Are the sizes that are known within the ranges of their symbols? */
static int check_sizes(const job *j) {
    for (int k = 0; k < j->n_symbols; k++) {
        stax_symbol_info s;
        stax_graph_symbol(j->g, k, &s);
        if (j->symbols[k] < 0 || (j->symbols[k] >= s.lo && j->symbols[k] <= s.hi)) continue;
        if (s.hi == INT64_MAX)
            return fail(WRONG_INPUT, "size %s: expected at least %lld, found %lld", s.name,
                        (long long)s.lo, (long long)j->symbols[k]);
        return fail(WRONG_INPUT, "size %s: expected %lld..%lld, found %lld", s.name,
                    (long long)s.lo, (long long)s.hi, (long long)j->symbols[k]);
    }
    return DONE;
}

static int settle_sizes(const tool *t, job *j) {
    int code = read_sizes(t, j);
    if (code != DONE) return code;
    solve_sizes(j);
    for (int k = 0; k < j->n_symbols; k++) {
        stax_symbol_info s;
        stax_graph_symbol(j->g, k, &s);
        if (j->symbols[k] < 0) {
            j->symbols[k] = s.lo > 16 ? s.lo : s.hi < 16 ? s.hi : 16;
            solve_sizes(j);
        }
    }
    return check_sizes(j);
}

/* A tensor from a file: the graph's dtype and shape, in the layout that the graph declares. */
static bool fit_input(tool *t, job *j, int k) {
    const stax_input_info *info = &j->in_info[k];
    stax_tensor *x = &j->in[k];
    int64_t dims[STAX_MAX_RANK];
    char wanted[TYPE_TEXT], found[TYPE_TEXT];
    if (!dims_of(j, "input", info->name, info->shape, dims)) return false;
    if (x->dtype != info->dtype || x->rank != info->shape.rank ||
        memcmp(dims, x->shape, (size_t)x->rank * sizeof *dims) != 0) {
        bool raw = x->dtype != info->dtype &&
                   stax_dtype_bytes(x->dtype) == stax_dtype_bytes(info->dtype) &&
                   (info->dtype == STAX_BF16 || is_f8(info->dtype));
        type_text(wanted, sizeof wanted, info->dtype, dims, info->shape.rank);
        type_text(found, sizeof found, x->dtype, x->shape, x->rank);
        fail(0, "--in %s=%s: expected %s, found %s%s%s%s%s", info->name, j->source[k]->file, wanted,
             found, raw ? "; if it holds raw bits say --in " : "", raw ? info->name : "",
             raw ? ":" : "", raw ? stax_dtype_name(info->dtype) : "");
        return false;
    }
    if (info->layout == STAX_ROW) *x = row_major(t, x);
    return true;
}

/* Exact strides, as the graph declares them. */
static bool stride_input(tool *t, job *j, int k) {
    const stax_input_info *info = &j->in_info[k];
    int64_t strides[STAX_MAX_RANK] = {0};
    double span = 0.0;
    if (!info->is_exact) return true;
    for (int d = 0; d < info->strides.rank; d++) {
        if (!stax_size_value(j->g, info->strides.dims[d], j->symbols, &strides[d]))
            return refuse("input %s: stride %d cannot be computed", info->name, d);
        span += fabs((double)strides[d]) * (double)j->in[k].shape[d];
    }
    if (span > 1e12) return refuse("input %s: its strides reach too far for memory", info->name);
    j->in[k] = laid_out(t, &j->in[k], strides);
    return true;
}

static void list_names(const job *j, bool outputs) {
    fputs("staxc: note: it has", stderr);
    for (int k = 0; outputs && k < j->n_out; k++) fprintf(stderr, " %s", j->out_info[k].name);
    for (int k = 0; k < j->n_in; k++)
        if (!outputs || j->in_info[k].kind == STAX_KIND_STATE)
            fprintf(stderr, " %s", j->in_info[k].name);
    fputc('\n', stderr);
}

static job *new_job(tool *t, stax_graph *g) {
    job *j = (job *)take(t, sizeof *j);
    j->g = g;
    j->n_in = stax_graph_n_inputs(g);
    j->n_out = stax_graph_n_outputs(g);
    j->n_symbols = stax_graph_n_symbols(g);
    j->in_info = (stax_input_info *)take_array(t, j->n_in, sizeof *j->in_info);
    j->out_info = (stax_output_info *)take_array(t, j->n_out, sizeof *j->out_info);
    j->in = (stax_tensor *)take_array(t, j->n_in, sizeof *j->in);
    j->source = (const pair **)take_array(t, j->n_in, sizeof *j->source);
    j->symbols = (int64_t *)take_array(t, j->n_symbols, sizeof *j->symbols);
    for (int k = 0; k < j->n_in; k++) stax_graph_input(g, k, &j->in_info[k]);
    for (int k = 0; k < j->n_out; k++) stax_graph_output(g, k, &j->out_info[k]);
    for (int k = 0; k < j->n_symbols; k++) j->symbols[k] = -1;
    return j;
}

/* Every input gets its tensor. params_only: of an export; and nothing is made up without --seed. */
static int give_inputs(tool *t, job *j, bool params_only) {
    for (int k = 0; k < j->n_in; k++) {
        pair *p = mark_used(t->ins, t->n_ins, j->in_info[k].name);
        if (p && !read_input(t, j, k, p)) return WRONG_INPUT;
    }
    int code = settle_sizes(t, j);
    if (code != DONE) return code;
    for (int k = 0; k < j->n_in; k++) {
        const stax_input_info *info = &j->in_info[k];
        if (params_only && !j->source[k] && (info->kind != STAX_KIND_PARAM || !t->given[OPT_SEED]))
            continue;
        if (j->source[k]) {
            if (!fit_input(t, j, k)) return WRONG_INPUT;
        } else {
            if (!new_tensor(t, j, "input", info->name, info->dtype, info->shape, &j->in[k]))
                return WRONG_INPUT;
            fill(info->name, t->seed, info->kind == STAX_KIND_PARAM ? t->scale : 0, &j->in[k]);
        }
        if (!stride_input(t, j, k)) return WRONG_INPUT;
    }
    return DONE;
}

/* After all graphs took theirs: an option that names nothing is a mistake. */
static int check_ins(const tool *t, const job *j) {
    for (int k = 0; k < t->n_ins; k++) {
        if (t->ins[k].used) continue;
        fail(0, "--in %s=%s: the graph has no input of that name", t->ins[k].name, t->ins[k].file);
        list_names(j, false);
        return WRONG_INPUT;
    }
    return DONE;
}

/* ==== running ================================================================================= */

/* One execution: states of its own, and outputs. */
typedef struct execution {
    stax_tensor *in;    /* of every input, params too */
    stax_tensor *slots; /* what stax_run takes: without params; with room for to_device */
    stax_tensor *out;   /* with room for to_device */
    int n_slots;
} execution;

static bool new_execution(tool *t, const job *j, execution *e) {
    e->n_slots = 0;
    e->in = (stax_tensor *)take_array(t, j->n_in, sizeof *e->in);
    e->slots = (stax_tensor *)take_array(t, 2 * j->n_in, sizeof *e->slots);
    e->out = (stax_tensor *)take_array(t, 2 * j->n_out, sizeof *e->out);
    for (int k = 0; k < j->n_in; k++) {
        e->in[k] = j->in[k];
        if (j->in_info[k].kind == STAX_KIND_STATE)
            e->in[k] = laid_out(t, &j->in[k], j->in[k].strides);
        if (j->in_info[k].kind != STAX_KIND_PARAM) e->slots[e->n_slots++] = e->in[k];
    }
    for (int k = 0; k < j->n_out; k++) {
        const stax_output_info *o = &j->out_info[k];
        if (!new_tensor(t, j, "output", o->name, o->dtype, o->shape, &e->out[k])) return false;
    }
    return true;
}

static int open_context(tool *t) {
    stax_options o = stax_options_default();
    o.n_threads = t->threads;
    o.isa = t->isa;
    o.fault = t->given[OPT_FAULT];
    t->ctx = stax_open(&o);
    return t->ctx ? DONE
                  : fail(TOOLCHAIN_FAILED,
                         "cannot start: no memory, or staxc was built with -ffast-math");
}

/* The text of a file; NULL has said what is wrong. */
static const char *load_text(tool *t, const char *path, const char *shown) {
    bytes text;
    const char *line_start;
    if (!read_file(t, path, true, &text))
        return fail(0, "%s: cannot read: %s", shown, strerror(errno)), (const char *)NULL;
    size_t n = strlen(text.data);
    if (n != text.n) {
        int line = 1;
        for (line_start = text.data; strchr(line_start, '\n'); line++)
            line_start = strchr(line_start, '\n') + 1;
        fprintf(stderr, "%s:%d:%d: error: expected text, found a zero byte\n", shown, line,
                (int)(text.data + n - line_start) + 1);
        return NULL;
    }
    return text.data;
}

/* The graph of a file; NULL has said what is wrong. */
static stax_graph *load_graph(tool *t, const char *path) {
    const char *shown = strcmp(path, "-") == 0 ? "<stdin>" : path,
               *text = load_text(t, path, shown);
    if (!text) return NULL;
    stax_graph *g = stax_parse_named(t->ctx, shown, text, t->given[OPT_GRAPH]);
    if (g && stax_ok(g)) return g;
    if (g && !*stax_error(t->ctx))
        fprintf(stderr, "%s\n", stax_graph_error(g));
    else
        say_error(t, STAX_E_SYNTAX);
    stax_graph_free(g);
    return NULL;
}

/* Opens the context and reads the graph of the command line. */
static int start(tool *t, stax_graph **g) {
    int code = open_context(t);
    if (code != DONE) return code;
    *g = load_graph(t, t->file);
    if (!*g) return WRONG_INPUT;
    if (!t->given[OPT_SCHEDULE]) return DONE;
    const char *text = load_text(t, t->given[OPT_SCHEDULE], t->given[OPT_SCHEDULE]);
    if (!text) return WRONG_INPUT;
    t->schedule = stax_schedule_parse(t->ctx, t->given[OPT_SCHEDULE], text);
    t->scheduled = *g;
    return t->schedule ? DONE : say_error(t, stax_error_status(t->ctx));
}

/* ==== compiled code ==============================================================================
   A graph compiled for the CPU or for the device of --device=cuda: one of the two is there. */

typedef struct compiled {
    stax_program *cpu;
    stax_cuda_program *gpu;
} compiled;

static bool wants_cuda(const tool *t) {
    return t->given[OPT_DEVICE] && strncmp(t->given[OPT_DEVICE], "cuda", 4) == 0;
}

/* "cuda.1" and "cuda:1" are the second device. */
static bool is_numbered_cuda(const char *device) {
    const char *digits = device + 5;
    return strncmp(device, "cuda", 4) == 0 && (device[4] == '.' || device[4] == ':') && *digits &&
           strlen(digits) < 5 && strspn(digits, "0123456789") == strlen(digits);
}

/* The device of the command line; DONE where that is the CPU. */
static int open_device(tool *t) {
    if (!wants_cuda(t) || t->cuda) return DONE;
    const char *device = t->given[OPT_DEVICE];
    t->cuda = stax_cuda_open(t->ctx, is_numbered_cuda(device) ? atoi(device + 5) : 0);
    if (t->cuda) return DONE;
    return fail(TOOLCHAIN_FAILED, "--device=%s: %s", device, stax_error(t->ctx));
}

/* For the verbs whose subject is the CPU's program. */
static int no_cuda(const tool *t, const char *instead) {
    if (!wants_cuda(t)) return DONE;
    return fail(WRONG_USAGE, "%s --device=%s: expected --device=cpu: %s", t->verb->name,
                t->given[OPT_DEVICE], instead);
}

/* What --schedule and --realize say. */
static void choose(const tool *t, const stax_graph *g, stax_compile_options *o,
                   stax_machine *machine) {
    const char *rule = t->given[OPT_REALIZE];
    o->processes = t->processes;
    if (g == t->scheduled) o->schedule = t->schedule;
    o->tensor_cores = t->given[OPT_TENSOR_CORES] != NULL;
    o->tf32 = t->given[OPT_TF32] != NULL;
    o->atomics = t->given[OPT_ATOMICS] != NULL;
    o->tune = t->given[OPT_TUNE] != NULL;
    o->reduce_overhead = t->given[OPT_REDUCE_OVERHEAD] != NULL;
    if (!rule) return;
    o->realize = strcmp(rule, "thresholds") == 0 ? STAX_REALIZE_THRESHOLDS
                 : strcmp(rule, "keep") == 0     ? STAX_REALIZE_KEEP
                 : strcmp(rule, "redo") == 0     ? STAX_REALIZE_REDO
                                                 : STAX_REALIZE_COST;
    if (strcmp(rule, "measured") != 0) return;
    stax_machine_of(t->ctx, stax_context_threads(t->ctx), machine);
    o->machine = machine;
}

/* A program of the CPU; NULL has said what is wrong, and *code is the exit status. */
static stax_program *compile_with(const tool *t, const stax_graph *g, const stax_compile_options *o,
                                  int *code) {
    stax_compile_options own = *o;
    stax_machine machine;
    choose(t, g, &own, &machine);
    stax_program *p = stax_compile(g, &own);
    if (!p)
        *code = say_error(t, stax_error_status(t->ctx));
    else if (!o->interpret && stax_program_status(p) != STAX_OK)
        fprintf(
            stderr, "staxc: note: interpreted, not compiled: %s\n",
            *stax_error(t->ctx) ? stax_error(t->ctx) : stax_status_text(stax_program_status(p)));
    return p;
}

static stax_program *compile(const tool *t, const stax_graph *g, bool interpret, bool strict,
                             int *code) {
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.interpret = interpret;
    o.strict = strict;
    return compile_with(t, g, &o, code);
}

/* The same where the command line says. */
static int compile_there(const tool *t, const stax_graph *g, bool interpret, bool strict,
                         compiled *c) {
    int code = DONE;
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    stax_machine machine;
    choose(t, g, &o, &machine);
    c->cpu = t->loaded;
    c->gpu = NULL;
    if (c->cpu) return DONE;
    c->gpu = t->cuda && !interpret ? stax_cuda_compile(t->cuda, g, &o) : NULL;
    if (!t->cuda || interpret)
        c->cpu = compile(t, g, interpret, strict, &code);
    else if (!c->gpu)
        code = say_error(t, stax_error_status(t->ctx));
    return code;
}

static void compiled_free(const tool *t, compiled *c) {
    if (c->cpu != t->loaded) stax_program_free(c->cpu);
    stax_cuda_program_free(c->gpu);
}

/* All that have a tensor; of a saved program those that it lacks, or that --in names. */
static stax_status bind_params(const tool *t, const job *j, const compiled *c) {
    stax_status s = STAX_OK;
    for (int k = 0; k < j->n_in && s == STAX_OK; k++) {
        const char *name = j->in_info[k].name;
        if (j->in_info[k].kind != STAX_KIND_PARAM || (!j->in[k].data && !j->source[k])) continue;
        if (t->loaded && !j->source[k] && stax_program_is_bound(t->loaded, name)) continue;
        s = c->gpu ? stax_cuda_bind(c->gpu, name, &j->in[k]) : stax_bind(c->cpu, name, &j->in[k]);
    }
    return s;
}

static stax_status call(const compiled *c, const stax_tensor *in, const stax_tensor *out) {
    return c->gpu ? stax_cuda_run(c->gpu, in, out) : stax_run(c->cpu, in, out);
}

static int run_compiled(const tool *t, const job *j, const execution *e, bool strict) {
    compiled c;
    int code = compile_there(t, j->g, false, strict, &c);
    if (code != DONE) return code;
    stax_status s = bind_params(t, j, &c);
    if (s == STAX_OK) s = call(&c, e->slots, e->out);
    if (s != STAX_OK) code = say_error(t, s);
    compiled_free(t, &c);
    return code;
}

/* ---- --check ---- */

/* Compares two tensors of one shape; names the first difference. */
static int compare(const char *name, const stax_tensor *a, const stax_tensor *b,
                   bool zeros_may_differ, int64_t *n_zeros) {
    const size_t width = stax_dtype_bytes(a->dtype);
    int64_t index[STAX_MAX_RANK] = {0}, at = 0, left;
    char one[64], other[64];
    stax_difference d;
    const bool same = stax_compare(a, b, NULL, zeros_may_differ, &d);
    *n_zeros += d.zeros;
    if (same) return DONE;
    for (left = d.first; left > 0; left--) (void)step_on(a, index, &at);
    const char *p = (const char *)a->data + at * (int64_t)width,
               *q = (const char *)b->data + at * (int64_t)width;
    number_text(one, sizeof one, a->dtype, p);
    number_text(other, sizeof other, a->dtype, q);
    fprintf(stderr, "staxc: error: --check: %s[", name);
    for (int k = 0; k < a->rank; k++) fprintf(stderr, k ? ",%lld" : "%lld", (long long)index[k]);
    fprintf(stderr, "] differs: interpreted %s (0x%llx), compiled %s (0x%llx)\n", one,
            (unsigned long long)load_bits(p, width), other,
            (unsigned long long)load_bits(q, width));
    return DIFFERENT;
}

static int compare_all(const job *j, const execution *a, const execution *b) {
    bool zeros = strcmp(stax_graph_get_option(j->g, "signed_zeros"), "false") == 0;
    int64_t n_zeros = 0;
    int code = DONE;
    for (int k = 0; k < j->n_out && code == DONE; k++)
        code = compare(j->out_info[k].name, &a->out[k], &b->out[k], zeros, &n_zeros);
    for (int k = 0; k < j->n_in && code == DONE; k++)
        if (j->in_info[k].kind == STAX_KIND_STATE)
            code = compare(j->in_info[k].name, &a->in[k], &b->in[k], zeros, &n_zeros);
    if (n_zeros)
        fprintf(
            stderr,
            "staxc: note: --check: %lld zeros differ in sign, which signed_zeros=false allows\n",
            (long long)n_zeros);
    return code;
}

/* ---- run ---- */

static int check_outs(tool *t, const job *j) {
    for (int k = 0; k < j->n_out; k++) mark_used(t->outs, t->n_outs, j->out_info[k].name);
    for (int k = 0; k < j->n_in; k++)
        if (j->in_info[k].kind == STAX_KIND_STATE)
            mark_used(t->outs, t->n_outs, j->in_info[k].name);
    for (int k = 0; k < t->n_outs; k++) {
        if (t->outs[k].used) continue;
        fail(0, "--out %s=%s: the graph has no output of that name", t->outs[k].name,
             t->outs[k].file);
        list_names(j, true);
        return WRONG_INPUT;
    }
    return DONE;
}

static int give_out(tool *t, const char *name, const stax_tensor *x) {
    const pair *p = find_pair(t->outs, t->n_outs, name);
    stax_tensor row = row_major(t, x);
    if (p) return npy_write(p->file, &row);
    print_tensor(name, &row);
    return DONE;
}

static int run_job(tool *t, job *j) {
    bool check = t->given[OPT_CHECK] != NULL,
         interpret = t->given[OPT_BACKEND] && strcmp(t->given[OPT_BACKEND], "interpret") == 0;
    execution first, second, *shown = &first;
    int code = give_inputs(t, j, false);
    if (code == DONE) code = check_ins(t, j);
    if (code == DONE) code = check_outs(t, j);
    if (code != DONE) return code;
    if (!new_execution(t, j, &first) || (check && !new_execution(t, j, &second)))
        return WRONG_INPUT;
    if (check || interpret) {
        stax_status s = stax_interpret(j->g, first.in, first.out);
        if (s != STAX_OK) return say_error(t, s);
        if (check) shown = &second;
    }
    /* --check is strict: the interpreter compared with itself would say nothing */
    if (check || !interpret) code = run_compiled(t, j, shown, check || t->given[OPT_STRICT]);
    if (code == DONE && check) code = compare_all(j, &first, &second);
    for (int k = 0; k < j->n_out && code == DONE; k++)
        code = give_out(t, j->out_info[k].name, &shown->out[k]);
    for (int k = 0; k < j->n_in && code == DONE; k++)
        if (j->in_info[k].kind == STAX_KIND_STATE)
            code = give_out(t, j->in_info[k].name, &shown->in[k]);
    return code;
}

/* How far each output may lie off. */
static stax_tensor *error_bounds(tool *t, const job *j) {
    stax_tensor *bounds = (stax_tensor *)take_array(t, j->n_out, sizeof *bounds);
    for (int k = 0; k < j->n_out; k++)
        if (!new_tensor(t, j, "bound of", j->out_info[k].name, STAX_F64, j->out_info[k].shape,
                        &bounds[k]))
            return NULL;
    return stax_error_bounds(j->g, j->in, bounds) == STAX_OK ? bounds : NULL;
}

static int bisect_job(tool *t, job *j) {
    stax_bisect_options o;
    stax_bisection b;
    stax_compile_options c;
    stax_machine machine;
    long long n_forward = 0;
    if (!read_number(t, OPT_FORWARD, 1, j->n_out - 1, &n_forward)) return WRONG_USAGE;
    memset(&o, 0, sizeof o);
    memset(&c, 0, sizeof c);
    choose(t, j->g, &c, &machine);
    o.compile = &c;
    o.n_forward = (int)n_forward;
    if (t->given[OPT_BOUNDS] && !(o.bounds = error_bounds(t, j)))
        return say_error(t, stax_error_status(t->ctx));
    const stax_status s = stax_bisect(j->g, j->in, &o, &b);
    if (s != STAX_OK) return say_error(t, s);
    if (!b.layer) {
        printf("every layer gives the same %s (%d runs compared)\n", o.bounds ? "numbers" : "bits",
               b.runs);
        return DONE;
    }
    printf("layer: %s\npass:  %s", b.layer, b.pass);
    if (b.firing) printf(", firing %lld of %lld", (long long)b.firing, (long long)b.firings);
    printf("\n%s%s\n(%d runs compared)\n", b.failure != STAX_OK ? "fails: " : "", b.what, b.runs);
    return DIFFERENT;
}

/* A graph of the file, with inputs for it. */
static int with_graph(tool *t, int (*job_of)(tool *t, job *j)) {
    stax_graph *g = NULL;
    int code = start(t, &g);
    job *j = code == DONE ? new_job(t, g) : NULL;
    if (j) code = give_inputs(t, j, false);
    if (j && code == DONE) code = check_ins(t, j);
    if (j && code == DONE) code = job_of(t, j);
    stax_graph_free(g);
    return code;
}

static int verb_bisect(tool *t) { return with_graph(t, bisect_job); }

static bool is_saved(const char *path) {
    char magic[6] = "";
    FILE *f = fopen(path, "rb");
    const bool is = f && fread(magic, 1, 6, f) == 6 && memcmp(magic, "\211STAXP", 6) == 0;
    if (f) fclose(f);
    return is;
}

/* A saved program takes the place of a graph. */
static int run_saved(tool *t) {
    static const int needs_graph[] = {OPT_CHECK,    OPT_BACKEND, OPT_GRAPH,
                                      OPT_SCHEDULE, OPT_REALIZE, OPT_DEVICE};
    for (size_t k = 0; k < sizeof needs_graph / sizeof needs_graph[0]; k++)
        if (t->given[needs_graph[k]])
            return fail(WRONG_USAGE,
                        "--%s: a saved program has no graph: run the text it was "
                        "saved from",
                        option_rows[needs_graph[k]].name);
    int code = open_context(t);
    if (code != DONE) return code;
    t->loaded = stax_program_load(t->ctx, t->file);
    if (!t->loaded) return say_error(t, stax_error_status(t->ctx));
    return run_job(t, new_job(t, (stax_graph *)(uintptr_t)stax_program_graph(t->loaded)));
}

static int verb_run(tool *t) {
    stax_graph *g = NULL;
    if (is_saved(t->file)) return run_saved(t);
    if (wants_cuda(t) && t->given[OPT_BACKEND] && strcmp(t->given[OPT_BACKEND], "interpret") == 0)
        return fail(WRONG_USAGE, "--backend=interpret: expected --device=cpu, found --device=%s",
                    t->given[OPT_DEVICE]);
    int code = start(t, &g);
    if (code == DONE) code = open_device(t);
    if (code == DONE) code = run_job(t, new_job(t, g));
    stax_graph_free(g);
    return code;
}

/* ==== print, explain, grad, export ============================================================ */

static int put_text(const tool *t, char *text) {
    stax_status s = text ? STAX_OK : stax_error_status(t->ctx);
    if (!text) return say_error(t, s == STAX_OK ? STAX_E_MEMORY : s);
    size_t n = strlen(text);
    fputs(text, stdout);
    if (n && text[n - 1] != '\n') putchar('\n');
    stax_free(t->ctx, text);
    return DONE;
}

static int put_cuda(const tool *t, const stax_graph *g, bool explains) {
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.tensor_cores = t->given[OPT_TENSOR_CORES] != NULL;
    o.tf32 = t->given[OPT_TF32] != NULL;
    o.atomics = t->given[OPT_ATOMICS] != NULL;
    return put_text(t, explains ? stax_cuda_explain(g, &o) : stax_cuda_print_with(g, &o));
}

/* What the library says about the compiled program. Without a C compiler there is still a plan. */
static int put_report(tool *t, stax_graph *g, stax_report what, bool strict) {
    job *j = new_job(t, g);
    int code = read_sizes(t, j);
    if (code == DONE) code = check_sizes(j);
    if (code != DONE) return code;
    stax_program *p = compile(t, g, false, strict, &code);
    if (!p) return code;
    char *text = stax_program_report_at(p, what, j->symbols);
    if (text && !*text)
        code =
            fail(WRONG_INPUT, "there is nothing to show: %s", stax_status_text(STAX_E_NOT_BUILT));
    if (text && !*text)
        stax_free(t->ctx, text);
    else
        code = put_text(t, text);
    stax_program_free(p);
    return code;
}

/* The table, and the picture in a file. */
static int put_plan(tool *t, stax_graph *g) {
    const char *path = t->given[OPT_SVG];
    int code = put_report(t, g, STAX_REPORT_PLAN, false);
    if (!path || code != DONE) return code;
    stax_program *p = compile(t, g, false, false, &code);
    char *text = p ? stax_program_report(p, STAX_REPORT_PLAN_SVG) : NULL;
    if (p && !text) code = fail(WRONG_INPUT, "out of memory");
    FILE *f = text ? fopen(path, "wb") : NULL;
    bool good = f && fputs(text, f) >= 0;
    if (f && fclose(f) != 0) good = false;
    if (text && !good) code = fail(WRONG_INPUT, "%s: cannot write: %s", path, strerror(errno));
    if (text) stax_free(t->ctx, text);
    stax_program_free(p);
    return code;
}

static void trace_line(void *user, const char *line) {
    (void)user;
    printf("# %s\n", line);
}

/* "# fired: algebra.neg_neg 2, ..." */
static void print_counters(const stax_graph *g) {
    stax_rule_figures f;
    int shown = 0;
    for (int k = 0; stax_graph_rule(g, k, &f); k++) {
        if (!f.fired) continue;
        printf("%s%s.%s %lld", shown++ ? ", " : "# fired: ", f.set, f.rule, (long long)f.fired);
    }
    if (shown) putchar('\n');
}

static int print_graph(const tool *t, const stax_graph *g, bool rewritten, bool dot) {
    stax_rewrite_options o;
    memset(&o, 0, sizeof o);
    o.basis = true;
    o.own = t->given[OPT_OWN];
    if (t->given[OPT_TRACE]) o.trace.func = trace_line;
    stax_graph *basis = rewritten ? stax_rewrite(g, &o) : NULL;
    if (rewritten && !basis) return say_error(t, stax_error_status(t->ctx));
    if (t->given[OPT_TRACE]) print_counters(basis);
    int code = put_text(t, dot ? stax_print_dot(basis ? basis : g) : stax_print(basis ? basis : g));
    stax_graph_free(basis);
    return code;
}

enum { MOST_WRT = 64 };

/* The values that --wrt names. */
static int find_wrt(tool *t, stax_graph *g, const char **names, stax_value *wrt, int *n) {
    for (const char *s = t->given[OPT_WRT]; *s; *n += 1) {
        size_t length = strcspn(s, ",");
        char *name = take_text(t, s, length);
        bool is_input = false;
        stax_input_info info;
        for (int k = 0; stax_graph_input(g, k, &info); k++)
            is_input = is_input || strcmp(info.name, name) == 0;
        if (!is_input) return fail(WRONG_INPUT, "--wrt: the graph has no input %s", name);
        if (*n == MOST_WRT) return fail(WRONG_INPUT, "--wrt: expected at most %d inputs", MOST_WRT);
        names[*n] = name;
        wrt[*n] = stax_graph_value(g, name);
        s += length + (s[length] == ',');
    }
    return *n ? DONE : fail(WRONG_USAGE, "--wrt: expected names of inputs");
}

/* Forward mode along one element at a time: for small inputs only, each is a derivation. */
enum { MOST_DIRECTIONS = 1024 };

static int forward_gradient(tool *t, stax_graph *g, const char *name, stax_value loss,
                            stax_value wrt, stax_value *grad) {
    stax_shape shape = stax_value_shape(wrt);
    stax_dtype dtype = stax_value_dtype(wrt);
    int64_t n = 1;
    stax_status s = STAX_OK;
    for (int d = 0; d < shape.rank; d++) {
        if (shape.dims[d] < 0)
            return fail(WRONG_INPUT, "--mode=forward: %s: expected sizes that are numbers", name);
        n *= shape.dims[d];
    }
    if (n > MOST_DIRECTIONS)
        return fail(WRONG_INPUT,
                    "--mode=forward takes one direction for each of the %lld elements of %s: "
                    "expected at most %d; use --mode=reverse",
                    (long long)n, name, MOST_DIRECTIONS);
    double *line = (double *)take(t, (size_t)(n + 1) * sizeof *line);
    stax_value *parts = (stax_value *)take(t, (size_t)(n + 1) * sizeof *parts);
    for (int64_t i = 0; i < n && s == STAX_OK; i++) {
        for (int64_t k = 0; k < n; k++) line[k] = k == i;
        stax_value e = stax_cast(stax_const_data(g, STAX_F64, shape, line), dtype);
        s = stax_jvp(loss, &wrt, &e, 1, &parts[i]);
    }
    if (s != STAX_OK) return say_error(t, s);
    *grad = n ? stax_reshape(stax_stack(parts, (int)n, 0), shape)
              : stax_cast(stax_const_data(g, STAX_F64, shape, line), dtype);
    return stax_ok(g) ? DONE : say_error(t, stax_graph_status(g));
}

/* The gradients, or those of the sum of all their elements, as outputs d_<input>. */
static int add_gradient(tool *t, stax_graph *g) {
    const char *names[MOST_WRT], *mode = t->given[OPT_MODE];
    stax_value wrt[MOST_WRT], grads[MOST_WRT], loss;
    int n = 0, order = t->given[OPT_ORDER] ? atoi(t->given[OPT_ORDER]) : 1;
    if (!t->given[OPT_OF] || !t->given[OPT_WRT])
        return fail(WRONG_USAGE, "grad: expected --of=VALUE and --wrt=NAME,NAME");
    loss = stax_graph_value(g, t->given[OPT_OF]);
    if (loss.id == 0) return fail(WRONG_INPUT, "--of: the graph has no value %s", t->given[OPT_OF]);
    int code = find_wrt(t, g, names, wrt, &n);
    for (int pass = 0; pass < order && code == DONE; pass++) {
        for (int k = 0; mode && strcmp(mode, "forward") == 0 && k < n && code == DONE; k++)
            code = forward_gradient(t, g, names[k], loss, wrt[k], &grads[k]);
        stax_status s =
            mode && strcmp(mode, "forward") == 0 ? STAX_OK : stax_grad(loss, wrt, n, grads);
        if (code == DONE && s != STAX_OK) code = say_error(t, s);
        for (int k = 0; k < n && code == DONE && pass + 1 < order; k++) {
            stax_value all = stax_sum(grads[k], stax_axes_all(), false);
            loss = k ? stax_add(loss, all) : all;
        }
    }
    for (int k = 0; k < n && code == DONE; k++) {
        char *name = (char *)take(t, strlen(names[k]) + 3);
        memcpy(name, "d_", 2);
        memcpy(name + 2, names[k], strlen(names[k]));
        (stax_output)(g, name, grads[k]);
    }
    if (code == DONE && !stax_ok(g)) code = say_error(t, stax_graph_status(g));
    return code;
}

/* Operations of the value (an output from number `first` on) and of all outputs behind it too. */
static int put_operations(tool *t, stax_graph *g, int first) {
    static const char *const rows[] = {"value", "value and gradients"};
    stax_operations ops[2];
    job *j = new_job(t, g);
    int code = settle_sizes(t, j);
    for (int k = 0; k < 2 && code == DONE; k++) {
        stax_status s =
            stax_count_operations(g, first, k ? j->n_out - first : 1, j->symbols, &ops[k]);
        if (s != STAX_OK) code = say_error(t, s);
    }
    if (code != DONE) return code;
    printf("%-20s %14s %14s\n", "", "operations", "cost");
    for (int k = 0; k < 2; k++) printf("%-20s %14.0f %14.0f\n", rows[k], ops[k].count, ops[k].cost);
    if (ops[0].cost > 0)
        printf("%-20s %14.2f %14.2f\n", "ratio", ops[1].count / ops[0].count,
               ops[1].cost / ops[0].cost);
    return DONE;
}

static int verb_grad(tool *t) {
    stax_graph *g = NULL;
    int code = start(t, &g), first = 0;
    if (code == DONE && t->given[OPT_COST]) {
        stax_value of = stax_graph_value(g, t->given[OPT_OF] ? t->given[OPT_OF] : "");
        first = stax_graph_n_outputs(g);
        if (of.id) stax_output(g, "value", of);
    }
    if (code == DONE) code = add_gradient(t, g);
    if (code == DONE)
        code = t->given[OPT_COST] ? put_operations(t, g, first) : put_text(t, stax_print(g));
    stax_graph_free(g);
    return code;
}

static int verb_print(tool *t) {
    const char *after = t->given[OPT_AFTER] ? t->given[OPT_AFTER] : "parse",
               *emit = t->given[OPT_EMIT] ? t->given[OPT_EMIT] : "text";
    bool dot = strcmp(emit, "dot") == 0, is_grad = strcmp(after, "grad") == 0,
         is_graph = is_grad || strcmp(after, "parse") == 0 || strcmp(after, "rewrite") == 0;
    stax_graph *g = NULL;
    int code;
    if (!is_grad &&
        (t->given[OPT_OF] || t->given[OPT_WRT] || t->given[OPT_ORDER] || t->given[OPT_MODE]))
        return fail(WRONG_USAGE,
                    "--of, --wrt, --order, --mode: expected --after=grad, found "
                    "--after=%s",
                    after);
    if (dot && !is_graph)
        return fail(
            WRONG_USAGE,
            "--emit=dot draws graphs: expected --after=parse, grad or rewrite, found --after=%s",
            after);
    if (t->given[OPT_TRACE] && strcmp(after, "rewrite") != 0)
        return fail(WRONG_USAGE,
                    "--trace shows rewriting: expected --after=rewrite, found --after=%s", after);
    if (t->given[OPT_OWN] && strcmp(after, "rewrite") != 0)
        return fail(WRONG_USAGE, "--own: expected --after=rewrite, found --after=%s", after);
    if (t->given[OPT_SVG] && strcmp(emit, "plan") != 0)
        return fail(WRONG_USAGE, "--svg: expected --emit=plan, found --emit=%s", emit);
    if (t->given[OPT_TRACE] && strcmp(emit, "text") != 0 && !dot)
        return fail(WRONG_USAGE,
                    "--trace shows rewriting: expected --emit=text or dot, found --emit=%s", emit);
    code = start(t, &g);
    if (code == DONE && is_grad) code = add_gradient(t, g);
    if (code != DONE) {
        stax_graph_free(g);
        return code;
    }
    if (strcmp(emit, "loops") == 0)
        code = put_report(t, g, STAX_REPORT_LOOPS, false);
    else if (strcmp(emit, "plan") == 0)
        code = put_plan(t, g);
    else if (strcmp(emit, "c") == 0)
        code = put_report(t, g, STAX_REPORT_C, false);
    else if (strcmp(emit, "cuda") == 0)
        code = put_cuda(t, g, false);
    else if (!is_graph)
        code = put_report(
            t, g, strcmp(after, "lower") == 0 ? STAX_REPORT_STAGES : STAX_REPORT_SCHEDULE, false);
    else
        code = print_graph(t, g, strcmp(after, "rewrite") == 0, dot);
    stax_graph_free(g);
    return code;
}

/* What is saved between a forward and a backward program, then both programs. */
static int explain_training(tool *t, stax_graph *g, int n_forward) {
    const bool json = t->given[OPT_JSON] != NULL;
    job *j = new_job(t, g);
    stax_machine machine;
    stax_training_options o;
    stax_compile_options how;
    long long budget = 0;
    int code = read_sizes(t, j);
    if (code == DONE) code = check_sizes(j);
    if (code == DONE && !read_number(t, OPT_BUDGET, 1, INT64_MAX, &budget)) code = WRONG_USAGE;
    if (code != DONE) return code;
    memset(&o, 0, sizeof o);
    memset(&how, 0, sizeof how);
    choose(t, g, &how, &machine);
    how.strict = t->given[OPT_STRICT] != NULL;
    o.compile = &how;
    o.symbols = j->symbols;
    o.budget_bytes = (uint64_t)budget;
    o.save_all = t->given[OPT_SAVE_ALL] != NULL;
    stax_training *training = stax_compile_training(g, n_forward, &o);
    const stax_program *p[2] = {stax_training_forward(training), stax_training_backward(training)};
    if (!p[0] || !p[1]) code = say_error(t, stax_error_status(t->ctx));
    if (code == DONE && json) fputs("{\"training\": ", stdout);
    if (code == DONE) code = put_text(t, stax_training_report(training, json));
    for (int k = 0; k < 2 && code == DONE; k++) {
        const char *name = k ? "backward" : "forward";
        printf(json ? ", \"%s\": " : "\n%s program:\n", name);
        code = put_text(
            t, stax_program_report_at(p[k], json ? STAX_REPORT_EXPLAIN_JSON : STAX_REPORT_EXPLAIN,
                                      j->symbols));
    }
    if (code == DONE && json) puts("}");
    stax_training_free(training);
    return code;
}

static int verb_explain(tool *t) {
    stax_graph *g = NULL;
    const bool derives = t->given[OPT_OF] || t->given[OPT_WRT];
    long long n_forward = 0;
    int code = DONE;
    if (derives || t->given[OPT_FORWARD] || t->given[OPT_JSON])
        code = no_cuda(t, "kernels of a GPU are explained as text, and those of one graph");
    if (code == DONE && !derives && !t->given[OPT_FORWARD] &&
        (t->given[OPT_BUDGET] || t->given[OPT_SAVE_ALL]))
        code = fail(WRONG_USAGE, "--budget, --save-all: expected --of and --wrt, or --forward");
    if (code == DONE && derives && t->given[OPT_FORWARD])
        code = fail(WRONG_USAGE,
                    "--forward: expected no --of and --wrt, which derive the outputs "
                    "of the backward program");
    if (code == DONE && !read_number(t, OPT_FORWARD, 0, INT32_MAX, &n_forward)) code = WRONG_USAGE;
    if (code == DONE) code = start(t, &g);
    if (code == DONE && derives) {
        n_forward = stax_graph_n_outputs(g);
        code = add_gradient(t, g);
    }
    if (code == DONE && (derives || t->given[OPT_FORWARD]))
        code = explain_training(t, g, (int)n_forward);
    else if (code == DONE && wants_cuda(t))
        code = put_cuda(t, g, true);
    else if (code == DONE)
        code = put_report(t, g, t->given[OPT_JSON] ? STAX_REPORT_EXPLAIN_JSON : STAX_REPORT_EXPLAIN,
                          t->given[OPT_STRICT] != NULL);
    stax_graph_free(g);
    return code;
}

static bool is_c_name(const char *s) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return *s && !(*s >= '0' && *s <= '9') && strspn(s, letters) == strlen(s);
}

static int export_graph(tool *t, stax_graph *g) {
    job *j = new_job(t, g);
    stax_export_options o;
    int code = give_inputs(t, j, true);
    if (code == DONE) code = check_ins(t, j);
    if (code != DONE) return code;
    compiled c = {compile(t, g, false, false, &code), NULL};
    if (!c.cpu) return code;
    memset(&o, 0, sizeof o);
    o.weights_in_file = t->given[OPT_WEIGHTS] && strcmp(t->given[OPT_WEIGHTS], "file") == 0;
    o.is_static = t->given[OPT_STATIC] != NULL;
    stax_status s = bind_params(t, j, &c);
    if (s == STAX_OK)
        s = stax_export(c.cpu, t->given[OPT_DIR] ? t->given[OPT_DIR] : ".", t->given[OPT_NAME], &o);
    if (s != STAX_OK) code = say_error(t, s);
    compiled_free(t, &c);
    return code;
}

static int verb_export(tool *t) {
    stax_graph *g = NULL;
    int code = no_cuda(t, "it writes C; print --emit=cuda shows the GPU's kernels");
    if (code != DONE) return code;
    if (!t->given[OPT_NAME]) return fail(WRONG_USAGE, "export: expected --name=PREFIX");
    if (!is_c_name(t->given[OPT_NAME]))
        return fail(WRONG_USAGE, "--name: expected a name of C, found %s", t->given[OPT_NAME]);
    code = start(t, &g);
    if (code == DONE) code = export_graph(t, g);
    stax_graph_free(g);
    return code;
}

/* The schedule goes to standard output as --schedule takes it, what was measured as comments. */
static int tune_job(tool *t, job *j) {
    stax_tune_options o;
    stax_tuning found;
    stax_compile_options c;
    stax_machine machine;
    long long for_s = 10;
    int code = DONE;
    if (!read_number(t, OPT_SECONDS, 1, 100000, &for_s)) return WRONG_USAGE;
    stax_program_free(compile(t, j->g, false, true, &code)); /* says what is wrong with the start */
    if (code != DONE) return code;
    memset(&o, 0, sizeof o);
    memset(&c, 0, sizeof c);
    choose(t, j->g, &c, &machine);
    o.compile = &c;
    o.seconds = (double)for_s;
    o.again = t->given[OPT_AGAIN] != NULL;
    const stax_status s = stax_tune(j->g, j->in, &o, &found);
    if (s != STAX_OK) return say_error(t, s);
    char *text = found.schedule ? stax_schedule_print(found.schedule) : NULL;
    const bool is_better = text || found.opt_level;
    if (found.from_record)
        printf("# found before, --again measures again\n");
    else
        printf("# %d candidates, %d of them refused\n", found.candidates, found.refused);
    if (is_better && found.after_ns > 0)
        printf("# %.3g times as fast: a call takes %.4g us, took %.4g us\n",
               found.before_ns / found.after_ns, found.after_ns * 1e-3, found.before_ns * 1e-3);
    if (found.opt_level) printf("# with the C compiler at level %d\n", found.opt_level);
    fputs(text ? text : is_better ? "" : "# nothing faster than the start was found\n", stdout);
    stax_free(t->ctx, text);
    stax_schedule_free(found.schedule);
    return DONE;
}

static int verb_tune(tool *t) { return with_graph(t, tune_job); }

static int verb_save(tool *t) {
    stax_graph *g = NULL;
    if (!t->given[OPT_TO])
        return fail(WRONG_USAGE, "save: expected --to=FILE.staxp or -o FILE.staxp");
    int code = start(t, &g);
    job *j = code == DONE ? new_job(t, g) : NULL;
    if (j) code = give_inputs(t, j, true);
    if (code == DONE) code = check_ins(t, j);
    if (code == DONE) {
        compiled c = {compile(t, g, false, true, &code), NULL};
        stax_status s = c.cpu ? bind_params(t, j, &c) : STAX_OK;
        if (c.cpu && s == STAX_OK) s = stax_program_save(c.cpu, t->given[OPT_TO]);
        if (s != STAX_OK) code = say_error(t, s);
        compiled_free(t, &c);
    }
    stax_graph_free(g);
    return code;
}

/* ==== probe ===================================================================================
   Measuring the machine takes a second or two for a number of threads; nothing does it unasked but
   the first bench, which says so. */

static const char *isa_name(stax_isa isa) {
    static const char *const names[] = {"detect", "scalar", "sse2", "sse42",
                                        "avx2",   "avx512", "neon"};
    return (size_t)isa < sizeof names / sizeof names[0] ? names[isa] : "?";
}

static void json_string(const char *s) {
    putchar('"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            printf("\\%c", *s);
        else if ((unsigned char)*s < 32)
            printf("\\u%04x", (unsigned char)*s);
        else
            putchar(*s);
    }
    putchar('"');
}

static stax_status measure_machine(const tool *t, int threads, stax_machine *m) {
    fprintf(stderr,
            "staxc: note: measuring what this machine can do with %d thread%s: a second or two, "
            "once; staxc cache --clear forgets it\n",
            threads, threads == 1 ? "" : "s");
    return stax_machine_probe(t->ctx, threads, m);
}

static void print_machine(const stax_machine *m) {
    printf("%s, %s, %d thread%s%s\n", m->cpu, isa_name(m->isa), m->threads,
           m->threads == 1 ? "" : "s", m->is_measured ? "" : " (assumed, not measured)");
    printf("  %-8s %12s %10s %10s %10s\n", "level", "KiB", "read GB/s", "write", "copy");
    for (int k = 0; k < m->n_levels; k++) {
        const stax_machine_level *l = &m->levels[k];
        printf("  %-8s %12.0f %10.1f %10.1f %10.1f%s\n", l->name, l->bytes / 1024.0, l->read * 1e-9,
               l->write * 1e-9, l->copy * 1e-9, l->is_shared ? "  shared" : "");
    }
    printf("  peak %.1f GFLOP/s (f32), %.1f of operations that are not fused, %.1f of divisions\n",
           m->flops * 1e-9, m->unfused * 1e-9, m->divisions * 1e-9);
}

static void json_machine(const stax_machine *m) {
    printf("{\"cpu\": ");
    json_string(m->cpu);
    printf(
        ", \"isa\": \"%s\", \"threads\": %d, \"measured\": %s, \"flops\": %.6g, \"unfused\": %.6g, "
        "\"divisions\": %.6g, \"levels\": [",
        isa_name(m->isa), m->threads, m->is_measured ? "true" : "false", m->flops, m->unfused,
        m->divisions);
    for (int k = 0; k < m->n_levels; k++) {
        const stax_machine_level *l = &m->levels[k];
        printf(
            "%s{\"name\": \"%s\", \"bytes\": %.0f, \"shared\": %s, \"read\": %.6g, \"write\": "
            "%.6g, "
            "\"copy\": %.6g}",
            k ? ", " : "", l->name, l->bytes, l->is_shared ? "true" : "false", l->read, l->write,
            l->copy);
    }
    printf("]}");
}

/* Without --threads: 1, 2, 4, ... and as many as there are cores. */
static int verb_probe(tool *t) {
    int cores = t->threads, n = t->given[OPT_THREADS] ? t->threads : 1, shown = 0, code;
    if (!t->given[OPT_THREADS]) t->threads = -1; /* one a core */
    code = open_context(t);
    if (code != DONE) return code;
    if (!t->given[OPT_THREADS]) cores = stax_context_threads(t->ctx);
    if (t->given[OPT_JSON]) printf("[");
    for (;; n = 2 * n < cores ? 2 * n : cores) {
        stax_machine m;
        stax_status s = measure_machine(t, n, &m);
        if (s != STAX_OK) return say_error(t, s);
        if (t->given[OPT_JSON]) {
            printf("%s", shown++ ? ", " : "");
            json_machine(&m);
        } else {
            print_machine(&m);
        }
        if (n >= cores) break;
    }
    if (t->given[OPT_JSON]) printf("]\n");
    return DONE;
}

/* ==== bench ======================================================================================
   Readings of two contenders alternate, so that what drifts in the machine meets both. The reported
   value is the median; the interval holds the true median with 95 % whatever the distribution (15
   readings: ranks 4 and 12). Rounds are kept apart: their difference says how far the machine
   itself moves. The kernels are then timed one by one, in a program of the same kernels, and stand
   beside what the roofline predicts from their bytes and operations. */

enum { MOST_ROUNDS = 100 };

/* One kernel: its readings, and what was predicted. */
typedef struct kernel_time {
    stax_kernel_info info;
    int64_t calls;  /* in a call of the program                                             */
    stax_sample ns; /* of one run of the kernel                                            */
    stax_prediction predicted;
} kernel_time;

typedef struct contender {
    const char *name;
    stax_graph *g;
    job *j;
    execution e;
    compiled p;
    bool interpret;
    int64_t calls; /* of one reading: short calls are repeated */
    double *ns;    /* a call, by round and reading */
    stax_sample time[MOST_ROUNDS];
    stax_figures plan;
    double overhead_ns; /* of a call that computes nothing to speak of */
    kernel_time *kernels;
    int n_kernels;
} contender;

static double clock_ns(void) {
#if defined(_WIN32)
    LARGE_INTEGER ticks, rate;
    QueryPerformanceFrequency(&rate);
    QueryPerformanceCounter(&ticks);
    return (double)ticks.QuadPart * 1e9 / (double)rate.QuadPart;
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
#endif
}

/* A reading ends when the device has done all that was queued. */
static stax_status time_calls(const tool *t, const compiled *p, const execution *e, int64_t calls,
                              double *ns) {
    stax_status s = STAX_OK;
    double begin = clock_ns();
    for (int64_t k = 0; k < calls && s == STAX_OK; k++) s = call(p, e->slots, e->out);
    if (p->gpu && s == STAX_OK) s = stax_cuda_wait(t->cuda);
    *ns = (clock_ns() - begin) / (double)calls;
    return s;
}

/* n tensors move to the device, their strides as they are: whole stretches of memory are copied.
   Their memory there is x[n] .. x[2 n - 1]. */
static stax_status to_device(const tool *t, stax_tensor *x, int n) {
    stax_status s = STAX_OK;
    for (int k = 0; k < n && s == STAX_OK && t->cuda; k++) {
        int64_t lowest, highest, width = (int64_t)stax_dtype_bytes(x[k].dtype);
        reach(&x[k], &lowest, &highest);
        stax_shape stretch = stax_shape1(highest - lowest + 1);
        stax_tensor from = stax_tensor_of(x[k].dtype, stretch, (char *)x[k].data + lowest * width);
        s = stax_cuda_tensor_new(t->cuda, x[k].dtype, stretch, &x[n + k]);
        if (s == STAX_OK) s = stax_cuda_copy(t->cuda, &x[n + k], &from);
        x[k].data = (char *)x[n + k].data - lowest * width;
        x[k].device = x[n + k].device;
    }
    return s;
}

static void from_device(const tool *t, stax_tensor *x, int n) {
    for (int k = n; k < 2 * n; k++) stax_cuda_tensor_free(t->cuda, &x[k]);
}

/* The time of a call that negates one number but has as many inputs. */
static double call_overhead(tool *t, int n_inputs, bool interpret) {
    enum { READINGS = 5, CALLS = 2000 };
    stax_graph *g = stax_graph_new(t->ctx);
    execution e;
    compiled p;
    float out = 0.0f, *in = (float *)take_array(t, n_inputs, sizeof *in);
    double ns[READINGS] = {0};
    char name[32];
    stax_value first = stax_none();
    e.in = NULL;
    e.slots = (stax_tensor *)take_array(t, 2 * n_inputs, sizeof *e.slots);
    for (int k = 0; k < n_inputs; k++) {
        snprintf(name, sizeof name, "x%d", k);
        stax_value x = (stax_input)(g, name, STAX_F32, stax_shape0());
        if (k == 0) first = x;
        e.slots[k] = stax_tensor_of(STAX_F32, stax_shape0(), &in[k]);
    }
    (stax_output)(g, "y",
                  n_inputs ? (stax_neg)(first) : (stax_cast)((stax_const)(g, 1.0), STAX_F32));
    stax_tensor y[2];
    y[0] = y[1] = stax_tensor_of(STAX_F32, stax_shape0(), &out);
    e.out = y;
    bool ok = compile_there(t, g, interpret, true, &p) == DONE;
    if (p.gpu) ok = to_device(t, e.slots, n_inputs) == STAX_OK && to_device(t, e.out, 1) == STAX_OK;
    for (int k = 0; ok && k < READINGS; k++)
        if (time_calls(t, &p, &e, CALLS, &ns[k]) != STAX_OK) ns[k] = 0.0;
    compiled_free(t, &p);
    from_device(t, e.slots, n_inputs);
    from_device(t, e.out, 1);
    stax_graph_free(g);
    return stax_sample_of(ns, READINGS).least;
}

static int prepare(tool *t, contender *c) {
    int code = give_inputs(t, c->j, false);
    if (code != DONE) return code;
    if (!new_execution(t, c->j, &c->e)) return WRONG_INPUT;
    /* strict: never measure what was not asked for */
    code = compile_there(t, c->g, c->interpret, true, &c->p);
    if (code != DONE) return code;
    c->ns = (double *)take_array(t, t->runs * t->rounds, sizeof *c->ns);
    stax_status s = bind_params(t, c->j, &c->p);
    double ns = 0.0;
    if (s == STAX_OK && c->p.gpu) s = to_device(t, c->e.slots, c->e.n_slots);
    if (s == STAX_OK && c->p.gpu) s = to_device(t, c->e.out, c->j->n_out);
    for (int k = 0; k < 3 && s == STAX_OK; k++) /* warm-ups */
        s = time_calls(t, &c->p, &c->e, 1, &ns);
    if (s == STAX_OK)
        s = c->p.gpu ? stax_cuda_program_figures(c->p.gpu, c->e.slots, &c->plan)
                     : stax_program_figures(c->p.cpu, c->e.slots, &c->plan);
    if (s != STAX_OK) return say_error(t, s);
    c->calls = ns < 2e5 ? (int64_t)(2e5 / (ns > 20.0 ? ns : 20.0)) + 1 : 1;
    c->overhead_ns = call_overhead(t, c->e.n_slots, c->interpret);
    return DONE;
}

/* Readings of round r: sorting them is the caller's end of them. */
static double *readings_of(const tool *t, const contender *c, int r) {
    return c->ns + (ptrdiff_t)r * t->runs;
}

/* A sample of a copy of n readings. */
static stax_sample sample_copy(tool *t, const double *readings, int n) {
    double *copy = (double *)take_array(t, n, sizeof *copy);
    memcpy(copy, readings, (size_t)n * sizeof *copy);
    return stax_sample_of(copy, n);
}

static int measure(tool *t, contender *c, int n) {
    for (int round = 0; round < t->rounds; round++) {
        for (int r = 0; r < t->runs; r++) {
            for (int k = 0; k < n; k++) {
                contender *now = &c[r % 2 ? n - 1 - k : k];
                stax_status s =
                    time_calls(t, &now->p, &now->e, now->calls, &readings_of(t, now, round)[r]);
                if (s != STAX_OK) return say_error(t, s);
            }
        }
        for (int k = 0; k < n; k++)
            c[k].time[round] = sample_copy(t, readings_of(t, &c[k], round), t->runs);
    }
    return DONE;
}

/* ---- kernels ---- */

/* Figures of the machine; the first time they are measured. */
static void machine_figures(const tool *t, int threads, stax_machine *m) {
    stax_machine_of(t->ctx, threads, m);
    if (!m->is_measured && measure_machine(t, threads, m) != STAX_OK) {
        fprintf(stderr, "staxc: note: that failed, so the figures are assumed: %s\n",
                stax_error(t->ctx));
        stax_machine_of(t->ctx, threads, m);
    }
}

/* Bytes and operations of a call, by how often each kernel ran. */
static void count_work(contender *c) {
    c->plan.bytes = c->plan.allocates = c->plan.flops = 0.0;
    for (int k = 0; k < c->n_kernels; k++) {
        const stax_work *w = &c->kernels[k].info.work;
        const double calls = (double)c->kernels[k].calls;
        c->plan.bytes += calls * (w->reads + w->writes);
        c->plan.allocates += calls * w->allocates;
        c->plan.flops += calls * w->flops;
    }
}

/* Times the kernels of a program of the CPU, t->runs times each. */
static int profile(tool *t, contender *c) {
    stax_compile_options o;
    stax_machine one, team;
    int code = DONE, n = 0;
    stax_kernel_info info;
    if (c->p.gpu || c->interpret) return DONE;
    memset(&o, 0, sizeof o);
    o.strict = o.by_kernel = true;
    compiled p = {compile_with(t, c->g, &o, &code), NULL};
    if (!p.cpu) return code;
    while (stax_program_kernel(p.cpu, n, c->e.slots, &info)) n++;
    c->n_kernels = n;
    c->kernels = (kernel_time *)take_array(t, n, sizeof *c->kernels);
    double *ns = (double *)take_array(t, n * t->runs, sizeof *ns),
           *sum = (double *)take_array(t, n, sizeof *sum);
    int64_t *calls = (int64_t *)take_array(t, n, sizeof *calls);
    stax_status s = bind_params(t, c->j, &p);
    for (int r = -2; r < t->runs && s == STAX_OK; r++) { /* two warm-ups */
        for (int k = 0; k < n; k++) sum[k] = 0.0, calls[k] = 0;
        s = stax_program_profile(p.cpu, c->e.slots, c->e.out, clock_ns, sum, calls);
        for (int k = 0; k < n && r >= 0; k++)
            ns[k * t->runs + r] = calls[k] ? sum[k] / (double)calls[k] : 0.0;
    }
    if (s == STAX_OK) {
        machine_figures(t, 1, &one);
        if (t->threads > 1) machine_figures(t, t->threads, &team);
        for (int k = 0; k < n; k++) {
            kernel_time *to = &c->kernels[k];
            stax_program_kernel(p.cpu, k, c->e.slots, &to->info);
            to->calls = calls[k];
            to->ns = stax_sample_of(ns + k * t->runs, t->runs);
            to->predicted = stax_predict(to->info.threads > 1 ? &team : &one, &to->info.work);
        }
        count_work(c);
    } else {
        code = say_error(t, s);
    }
    compiled_free(t, &p);
    return code;
}

/* ---- op by op: a barrier behind every op that computes, written into the graph's own text ---- */

typedef struct text {
    char *data;
    size_t n, cap;
} text;

static void put(tool *t, text *x, const char *s, size_t n) {
    if (x->n + n + 1 > x->cap) {
        char *more = (char *)take(t, 2 * (x->n + n + 1));
        if (x->n) memcpy(more, x->data, x->n);
        x->data = more;
        x->cap = 2 * (x->n + n + 1);
    }
    if (n) memcpy(x->data + x->n, s, n);
    x->n += n;
}

static void put_word(tool *t, text *x, const char *s) { put(t, x, s, strlen(s)); }

/* Views cost nothing op by op either; constants and markers are no work. */
static bool is_work(const char *op) {
    char name[64];
    size_t n = strspn(op, "abcdefghijklmnopqrstuvwxyz_0123456789");
    if (n >= sizeof name) return true;
    memcpy(name, op, n);
    name[n] = 0;
    return stax_op_is_work(name);
}

/* "a: f32[n], b" becomes "a_raw: f32[n], b_raw", and *after gets "a = barrier a_raw" lines. */
static void rename_results(tool *t, const char *s, const char *end, const char *suffix, text *out,
                           text *after) {
    while (s < end) {
        size_t name = strcspn(s, ":, "), whole = name;
        while (s + whole < end && strncmp(s + whole, ", ", 2) != 0) whole++;
        put(t, out, s, name);
        put_word(t, out, suffix);
        put(t, out, s + name, whole - name);
        put_word(t, after, "  ");
        put(t, after, s, name);
        put_word(t, after, " = barrier ");
        put(t, after, s, name);
        put_word(t, after, suffix);
        put_word(t, after, "\n");
        s += whole;
        if (s < end) put_word(t, out, ", "), s += 2;
    }
}

static char *with_barriers(tool *t, const char *printed) {
    text out = {NULL, 0, 0}, after = {NULL, 0, 0};
    char suffix[32] = "_raw";
    while (strstr(printed, suffix) && strlen(suffix) < sizeof suffix - 1)
        memcpy(suffix + strlen(suffix), "_", 2);
    for (const char *line = printed; *line;) {
        size_t n = strcspn(line, "\n");
        bool is_statement = strncmp(line, "  ", 2) == 0 && line[2] != ' ' && line[2] != '}';
        const char *equals = strstr(line, " = ");
        if (is_statement && equals && equals < line + n && is_work(equals + 3)) {
            put_word(t, &out, "  ");
            rename_results(t, line + 2, equals, suffix, &out, &after);
            put(t, &out, equals, (size_t)(line + n - equals));
        } else {
            put(t, &out, line, n);
        }
        put_word(t, &out, "\n");
        if (n == 0 || line[n - 1] != '{') { /* else regions follow, up to a line "  }" */
            if (is_statement || strncmp(line, "  }", 3) == 0) {
                put(t, &out, after.data ? after.data : "", after.n);
                after.n = 0;
            }
        }
        line += n + (line[n] == '\n');
    }
    put(t, &out, "", 1);
    return out.data;
}

static stax_graph *op_by_op(tool *t, const stax_graph *g) {
    char *printed = stax_print(g);
    if (!printed) return say_error(t, STAX_E_MEMORY), (stax_graph *)NULL;
    stax_graph *r = stax_parse(t->ctx, "op-by-op", with_barriers(t, printed));
    if (!r) say_error(t, STAX_E_INTERNAL);
    stax_free(t->ctx, printed);
    return r;
}

static int second_contender(tool *t, contender *c) {
    const char *vs = t->given[OPT_VS];
    c[1].name = vs;
    c[1].interpret = strcmp(vs, "interpret") == 0;
    if (c[1].interpret)
        c[1].g = c[0].g;
    else if (strcmp(vs, "op-by-op") == 0)
        c[1].g = op_by_op(t, c[0].g);
    else
        c[1].g = load_graph(t, vs);
    if (!c[1].g) return WRONG_INPUT;
    c[1].j = new_job(t, c[1].g);
    return prepare(t, &c[1]);
}

/* ---- results ---- */

/* What the kernels are compiled for: of a device that is the end of its name. */
static const char *isa_of(const tool *t, const contender *c) {
    const char *name = c->p.gpu ? stax_cuda_name(t->cuda) : NULL, *comma = NULL;
    if (name) comma = strrchr(name, ' ');
    return comma ? comma + 1 : isa_name(c->plan.isa);
}

static double least_ns(const tool *t, const contender *c) {
    double least = c->time[0].least;
    for (int r = 1; r < t->rounds; r++)
        if (c->time[r].least < least) least = c->time[r].least;
    return least;
}

/* How near to the roof: the share of the predicted in the measured time. */
static double share_of_roof(const kernel_time *k) {
    return k->ns.median > 0.0 ? k->predicted.seconds * 1e9 / k->ns.median : 0.0;
}

static double intensity(const stax_work *w) {
    return w->reads + w->writes > 0.0 ? w->flops / (w->reads + w->writes) : 0.0;
}

static const char *nearness(const kernel_time *k) {
    return share_of_roof(k) < 0.7 ? "neither" : k->predicted.is_peak ? "peak" : "bandwidth";
}

static void json_kernels(const contender *c) {
    printf(", \"kernel_times\": [");
    for (int k = 0; k < c->n_kernels; k++) {
        const kernel_time *x = &c->kernels[k];
        const stax_work *w = &x->info.work;
        printf("%s{\"name\": \"kernel %d\", \"ops\": ", k ? ", " : "", k);
        json_string(x->info.ops);
        printf(
            ", \"calls\": %lld, \"threads\": %d, \"bytes\": %.17g, \"allocates\": %.17g, "
            "\"flops\": "
            "%.17g, \"median_ms\": %.9g, \"low_ms\": %.9g, \"high_ms\": %.9g, \"min_ms\": %.9g",
            (long long)x->calls, x->info.threads, w->reads + w->writes, w->allocates, w->flops,
            x->ns.median * 1e-6, x->ns.low * 1e-6, x->ns.high * 1e-6, x->ns.least * 1e-6);
        printf(
            ", \"predicted_ms\": %.9g, \"bound\": \"%s\", \"level\": %d, \"intensity\": %.9g, "
            "\"share\": %.4g, "
            "\"near\": "
            "\"%s\"}",
            x->predicted.seconds * 1e3, x->predicted.is_peak ? "peak" : "bandwidth",
            x->predicted.level + 1, intensity(w), share_of_roof(x), nearness(x));
    }
    printf("]");
}

static void json_sample(const char *before, const stax_sample *s, double scale, const char *unit) {
    printf("%s{\"median%s\": %.9g, \"low%s\": %.9g, \"high%s\": %.9g, \"min%s\": %.9g}", before,
           unit, s->median * scale, unit, s->low * scale, unit, s->high * scale, unit,
           s->least * scale);
}

static void json_contender(const tool *t, const contender *c) {
    const stax_sample *first = &c->time[0];
    printf("\"name\": ");
    json_string(c->name);
    printf(
        ", \"median_ms\": %.9g, \"low_ms\": %.9g, \"high_ms\": %.9g, \"min_ms\": %.9g, \"runs\": "
        "%d",
        first->median * 1e-6, first->low * 1e-6, first->high * 1e-6, least_ns(t, c) * 1e-6,
        t->runs);
    printf(
        ", \"threads\": %d, \"isa\": \"%s\", \"kernels\": %d, \"bytes\": %.17g, \"flops\": %.17g, "
        "\"workspace_bytes\": %.17g",
        c->plan.threads, isa_of(t, c), c->plan.kernels, c->plan.bytes, c->plan.flops,
        (double)c->plan.workspace_bytes);
    printf(", \"compile_ms\": %.9g, \"call_overhead_ns\": %.9g", (double)c->plan.compile_ns * 1e-6,
           c->overhead_ns);
    printf(
        ", \"allocates\": %.17g, \"eager_bytes\": %.17g, \"eager_allocates\": %.17g, \"coverage\": "
        "%.6g, \"rounds\": [",
        c->plan.allocates, c->plan.eager_bytes, c->plan.eager_allocates, first->coverage);
    for (int r = 0; r < t->rounds; r++) json_sample(r ? ", " : "", &c->time[r], 1e-6, "_ms");
    printf("]");
    if (c->n_kernels) json_kernels(c);
    if (!c->p.gpu) return;
    printf(", \"device\": ");
    json_string(stax_cuda_name(t->cuda));
}

static void text_kernels(const contender *c) {
    for (int k = 0; k < c->n_kernels; k++) {
        const kernel_time *x = &c->kernels[k];
        const stax_work *w = &x->info.work;
        const double ns = x->ns.median > 0.0 ? x->ns.median : 1.0;
        printf("  kernel %d (%s)", k, x->info.ops);
        if (x->calls == 0) {
            printf(": did not run\n");
            continue;
        }
        if (x->calls != 1) printf(", %lld times", (long long)x->calls);
        printf(
            ": %.4g ms, predicted %.4g; %.3g FLOP/byte; %.3g GB/s, %.3g with write-allocate, of "
            "%.3g; %.3g GFLOP/s "
            "of "
            "%.3g: ",
            x->ns.median * 1e-6, x->predicted.seconds * 1e3, intensity(w),
            (w->reads + w->writes) / ns, (w->reads + w->writes + w->allocates) / ns,
            x->predicted.bytes_per_second * 1e-9, w->flops / ns,
            x->predicted.flops_per_second * 1e-9);
        if (strcmp(nearness(x), "neither") == 0)
            printf("%.0f %% of its roof (%s)\n", 100.0 * share_of_roof(x),
                   x->predicted.is_peak ? "peak" : "bandwidth");
        else
            printf("near %s (%.0f %%)\n", nearness(x), 100.0 * share_of_roof(x));
    }
}

/* In per cent: at least 95, or what fewer than 6 readings cover. */
static double shown_coverage(const stax_sample *s) {
    return s->coverage >= 0.95 ? 95.0 : 100.0 * s->coverage;
}

static void text_contender(const tool *t, const contender *c) {
    const double ns = c->time[0].median > 0.0 ? c->time[0].median : 1.0;
    for (int r = 0; r < t->rounds; r++) {
        const stax_sample *s = &c->time[r];
        if (r)
            printf("  round %d: %.6g ms", r + 1, s->median * 1e-6);
        else
            printf("%s: %.6g ms a call", c->name, s->median * 1e-6);
        printf(", %.0f %% interval %.6g .. %.6g, least %.6g (%d readings of %lld calls)\n",
               shown_coverage(s), s->low * 1e-6, s->high * 1e-6, s->least * 1e-6, t->runs,
               (long long)c->calls);
    }
    if (c->p.gpu) printf("  on %s\n", stax_cuda_name(t->cuda));
    if (c->p.gpu && *stax_cuda_tuning(c->p.gpu)) printf("  %s\n", stax_cuda_tuning(c->p.gpu));
    printf(
        "  %d kernel%s, %d thread%s, %s; %.6g bytes (%.3g GB/s), %.6g with write-allocate, %.6g "
        "flops "
        "(%.3g GFLOP/s), workspace %.0f bytes\n",
        c->plan.kernels, c->plan.kernels == 1 ? "" : "s", c->plan.threads,
        c->plan.threads == 1 ? "" : "s", isa_of(t, c), c->plan.bytes, c->plan.bytes / ns,
        c->plan.bytes + c->plan.allocates, c->plan.flops, c->plan.flops / ns,
        (double)c->plan.workspace_bytes);
    printf("  compiling took %.6g ms (%s), a call that does nothing takes %.4g ns\n",
           (double)c->plan.compile_ns * 1e-6, c->plan.origin ? c->plan.origin : "?",
           c->overhead_ns);
    text_kernels(c);
}

/* Two contenders: ratios and differences of readings taken one after the other. */
typedef struct versus {
    stax_sample ratio[MOST_ROUNDS], difference[MOST_ROUNDS];
    int faster;       /* 1, 2; 0: these readings do not tell */
    double rho, beta; /* P 13.3: the medians' ratio is rho * beta; 0: bytes are not known */
} versus;

static versus compare_times(tool *t, const contender *c) {
    versus v;
    double *ratios = (double *)take_array(t, t->runs, sizeof *ratios),
           *differences = (double *)take_array(t, t->runs, sizeof *differences);
    memset(&v, 0, sizeof v);
    for (int round = 0; round < t->rounds; round++) {
        const double *a = readings_of(t, &c[0], round), *b = readings_of(t, &c[1], round);
        for (int r = 0; r < t->runs; r++) {
            ratios[r] = a[r] > 0.0 ? b[r] / a[r] : 0.0;
            differences[r] = b[r] - a[r];
        }
        v.ratio[round] = stax_sample_of(ratios, t->runs);
        v.difference[round] = stax_sample_of(differences, t->runs);
    }
    v.faster = stax_faster(v.difference, t->rounds);
    const bool op_by_op = strcmp(c[1].name, "op-by-op") == 0;
    const double other =
        op_by_op && c[0].plan.eager_bytes > 0.0 ? c[0].plan.eager_bytes : c[1].plan.bytes;
    if (other > 0.0 && c[0].plan.bytes > 0.0) {
        v.rho = other / c[0].plan.bytes;
        v.beta = c[1].time[0].median / (c[0].time[0].median * v.rho);
    }
    return v;
}

/* Calls after which compiling has paid for itself (P 13.4); 0: never. */
static double break_even(const contender *c) {
    const double gain = c[1].time[0].median - c[0].time[0].median;
    return gain > 0.0 ? (double)c[0].plan.compile_ns / gain : 0.0;
}

static void json_versus(const tool *t, const contender *c, const versus *v) {
    printf(", \"vs\": {");
    json_contender(t, &c[1]);
    printf("}, \"ratio\": %.9g, \"ratio_low\": %.9g, \"ratio_high\": %.9g, \"ratio_rounds\": [",
           v->ratio[0].median, v->ratio[0].low, v->ratio[0].high);
    for (int r = 0; r < t->rounds; r++) json_sample(r ? ", " : "", &v->ratio[r], 1.0, "");
    printf("], \"faster\": ");
    if (v->faster)
        json_string(c[v->faster - 1].name);
    else
        printf("null");
    if (v->rho > 0.0) printf(", \"rho\": %.9g, \"beta_ratio\": %.9g", v->rho, v->beta);
    printf(", \"break_even_calls\": %.9g", break_even(c));
}

static void text_versus(const tool *t, const contender *c, const versus *v) {
    for (int r = 0; r < t->rounds; r++)
        printf("%s %s takes %.4g times as long, %.0f %% interval %.4g .. %.4g\n",
               r ? "  next round:" : "ratio:", c[1].name, v->ratio[r].median,
               shown_coverage(&v->ratio[r]), v->ratio[r].low, v->ratio[r].high);
    if (v->rho > 0.0)
        printf(
            "  medians: %.4g = rho %.3g (bytes %.6g / %.6g) * %.3g (bandwidths %.3g / %.3g GB/s)\n",
            v->rho * v->beta, v->rho, v->rho * c[0].plan.bytes, c[0].plan.bytes, v->beta,
            c[0].plan.bytes / c[0].time[0].median, v->rho * c[0].plan.bytes / c[1].time[0].median);
    if (v->faster)
        printf("  decided: %s is faster\n", c[v->faster - 1].name);
    else
        printf("  not decided: %s\n",
               v->difference[0].coverage < 0.95
                   ? "fewer than 6 readings say nothing with 95 %"
                   : "a round's interval of the differences holds 0, or the rounds differ by more "
                     "than the contenders");
    if (break_even(c) > 0.0)
        printf("  compiling (%s) pays for itself after %.0f call%s\n", c[0].plan.origin,
               ceil(break_even(c)), break_even(c) > 1.0 ? "s" : "");
}

static void report(tool *t, const contender *c, int n) {
    versus v;
    memset(&v, 0, sizeof v);
    if (n == 2) v = compare_times(t, c);
    if (t->given[OPT_JSON]) {
        putchar('{');
        json_contender(t, &c[0]);
        if (n == 2) json_versus(t, c, &v);
        printf("}\n");
        return;
    }
    for (int k = 0; k < n; k++) text_contender(t, &c[k]);
    if (n == 2) text_versus(t, c, &v);
}

static int verb_bench(tool *t) {
    contender c[2];
    int n = t->given[OPT_VS] ? 2 : 1, code;
    memset(c, 0, sizeof c);
    code = start(t, &c[0].g);
    if (code == DONE) code = open_device(t);
    if (code == DONE) {
        const char *name = stax_graph_get_name(c[0].g);
        c[0].name = *name ? name : t->file;
        c[0].j = new_job(t, c[0].g);
        code = prepare(t, &c[0]);
    }
    if (code == DONE && n == 2) code = second_contender(t, c);
    if (code == DONE) code = check_ins(t, c[0].j);
    if (code == DONE) code = measure(t, c, n);
    if (code == DONE) code = profile(t, &c[0]);
    if (code == DONE) report(t, c, n);
    for (int k = 0; k < 2; k++) {
        compiled_free(t, &c[k].p);
        if (c[k].e.slots) from_device(t, c[k].e.slots, c[k].e.n_slots);
        if (c[k].e.out) from_device(t, c[k].e.out, c[k].j->n_out);
    }
    if (c[1].g != c[0].g) stax_graph_free(c[1].g);
    stax_graph_free(c[0].g);
    return code;
}

/* ==== ops, version, cache ===================================================================== */

static int verb_ops(tool *t) {
    int code = open_context(t);
    if (code != DONE) return code;
    return put_text(t, t->given[OPT_PROMOTION]    ? stax_promotion_text(t->ctx)
                       : t->given[OPT_PRIMITIVES] ? stax_primitives_text(t->ctx)
                                                  : stax_ops_text(t->ctx));
}

static stax_status print_action(void *user, const stax_chain_action *a) {
    (void)user;
    const long long step = (long long)a->step, to = (long long)a->to, slot = (long long)a->slot;
    switch (a->what) {
        case STAX_CHAIN_STORE:
            printf("store x%lld in slot %lld\n", step, slot);
            break;
        case STAX_CHAIN_RESTORE:
            printf("restore x%lld from slot %lld\n", step, slot);
            break;
        case STAX_CHAIN_ADVANCE:
            printf("advance from x%lld to x%lld\n", step, to);
            break;
        case STAX_CHAIN_REVERSE:
            printf("reverse step %lld\n", step);
            break;
    }
    return STAX_OK;
}

/* The schedule; or, without --slots, what so many repeats need. */
static int verb_chain(tool *t) {
    const bool uniform = t->given[OPT_KIND] && strcmp(t->given[OPT_KIND], "uniform") == 0;
    long long steps = 0, slots = 0;
    int code = open_context(t);
    if (code != DONE) return code;
    if (!t->given[OPT_STEPS]) return fail(WRONG_USAGE, "chain: expected --steps=N");
    if (!read_number(t, OPT_STEPS, 1, 1000000000, &steps) ||
        !read_number(t, OPT_SLOTS, 1, 1000000000, &slots))
        return WRONG_USAGE;
    if (!slots && uniform) return fail(WRONG_USAGE, "--kind=uniform: expected --slots=S");
    if (slots) {
        stax_status s =
            stax_chain_reverse(t->ctx, uniform ? STAX_CHAIN_UNIFORM : STAX_CHAIN_BINOMIAL, steps,
                               slots, print_action, NULL);
        if (s != STAX_OK) return say_error(t, s);
        if (!uniform)
            printf("evaluations: %lld\n", (long long)stax_chain_evaluations(steps, slots));
        return DONE;
    }
    printf("repeats  slots  evaluations\n");
    for (int64_t repeats = 1, need, last = 0; repeats <= 16 && steps > 1; repeats++, last = need) {
        need = stax_chain_slots(steps, repeats);
        if (need == last) continue;
        printf("%7lld  %5lld  %11lld\n", (long long)repeats, (long long)need,
               (long long)stax_chain_evaluations(steps, need));
    }
    return DONE;
}

static int verb_version(tool *t) {
    (void)t;
    printf("stax %d.%d.%d\n", STAX_VERSION_MAJOR, STAX_VERSION_MINOR, STAX_VERSION_PATCH);
    return DONE;
}

static int verb_cache(tool *t) {
    stax_cache_figures f;
    int code = open_context(t);
    if (code != DONE) return code;
    stax_status s = t->given[OPT_CLEAR] ? stax_cache_clear(t->ctx) : STAX_OK;
    if (s == STAX_OK) s = stax_cache_info(t->ctx, &f);
    if (s != STAX_OK) return say_error(t, s);
    printf("path     %s\nentries  %lld\nbytes    %lld\nlimit    %lld\n", f.path,
           (long long)f.entries, (long long)f.bytes, (long long)f.limit);
    return DONE;
}

/* ==== the command line, read ================================================================== */

/* clang-format off */
static const verb_row verbs[] = {
    {"run",     RUN,     verb_run,     "computes the outputs of a graph", "staxc run net.stax --in x=x.npy --out y=y.npy --check"},
    {"print",   PRINT,   verb_print,   "shows a graph as a stage of the compiler sees it", "staxc print net.stax --after=schedule --emit=loops"},
    {"grad",    GRAD,    verb_grad,    "prints the graph that also gives gradients", "staxc grad net.stax --of=loss --wrt=w,b"},
    {"explain", EXPLAIN, verb_explain, "says what was fused and why, what was not and why, and what it costs", "staxc explain net.stax --json"},
    {"bench",   BENCH,   verb_bench,   "measures a call", "staxc bench net.stax --size n=1024 --vs=op-by-op"},
    {"export",  EXPORT,  verb_export,  "writes PREFIX.c and PREFIX.h that need nothing of stax", "staxc export net.stax --name=net --dir=out --in w=w.npy"},
    {"save",    SAVE,    verb_save,    "compiles a graph into a file that run takes without compiling", "staxc save net.stax --in w=w.npy -o net.staxp"},
    {"bisect",  BISECT,  verb_bisect,  "names the first layer and pass that do not give the interpreter's bits", "staxc bisect net.stax --in x=x.npy"},
    {"tune",    TUNE,    verb_tune,    "measures schedules and prints one that is faster than the automatic one", "staxc tune net.stax --size n=1024 --seconds=30 >net.schedule"},
    {"ops",     OPS,     verb_ops,     "lists every op with its attributes, dtypes and meaning", "staxc ops"},
    {"chain",   CHAIN,   verb_chain,   "prints the order in which a chain of steps is reversed with few stored states", "staxc chain --steps=6 --slots=3"},
    {"version", VERSION, verb_version, "prints the version", "staxc version"},
    {"probe",   PROBE,   verb_probe,   "measures what this machine can do and keeps the figures", "staxc probe --threads=2"},
    {"cache",   CACHE,   verb_cache,   "says where compiled kernels are kept, or removes them", "staxc cache --clear"}};
/* clang-format on */
enum { N_VERBS = sizeof verbs / sizeof verbs[0] };

static void general_help(FILE *to) {
    fputs(
        "usage: staxc VERB [FILE] [options]          FILE: a graph in the text form, - for "
        "standard input;\n                                            run takes saved programs "
        "too\n",
        to);
    for (int k = 0; k < N_VERBS; k++) fprintf(to, "  %-8s %s\n", verbs[k].name, verbs[k].does);
    fputs("staxc VERB --help shows its options and an example.\n", to);
}

static void verb_help(FILE *to, const verb_row *v) {
    char left[80];
    fprintf(to, "usage: staxc %s%s [options]      %s\n", v->name, v->bit & FILES ? " FILE" : "",
            v->does);
    for (int k = 0; k < OPT_COUNT; k++) {
        const option_row *o = &option_rows[k];
        if (!(o->verbs & v->bit)) continue;
        snprintf(left, sizeof left, "--%s%s%s", o->name, o->value ? "=" : "",
                 o->value ? o->value : "");
        if (strlen(left) > 28)
            fprintf(to, "  %s\n  %-28s %s\n", left, "", o->help);
        else
            fprintf(to, "  %-28s %s\n", left, o->help);
    }
    fprintf(to, "example:  %s\n", v->example);
}

static int usage(const tool *t, const char *format, const char *what) {
    fputs("staxc: error: ", stderr);
    fprintf(stderr, format, what);
    fputc('\n', stderr);
    if (t->verb)
        verb_help(stderr, t->verb);
    else
        general_help(stderr);
    return WRONG_USAGE;
}

/* Is the value one of the words of "a|b|c"? Values with a capital letter stand for anything. */
static bool is_choice(const char *choices, const char *value) {
    size_t n = strlen(value);
    if (!strchr(choices, '|') || strpbrk(choices, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")) return true;
    for (const char *c = choices;; c++) {
        size_t word = strcspn(c, "|");
        if (word == n && strncmp(c, value, n) == 0) return true;
        c += word;
        if (!*c) return false;
    }
}

/* NAME[:DTYPE]=FILE; false: malformed, or the name was given before. */
static bool add_pair(tool *t, pair *list, int *n, const char *value) {
    const char *equals = strchr(value, '=');
    if (!equals || equals == value || !equals[1]) return false;
    char *name = take_text(t, value, (size_t)(equals - value)), *colon = strchr(name, ':');
    if (colon) *colon = 0;
    if (!*name || find_pair(list, *n, name)) return false;
    list[*n].name = name;
    list[*n].dtype = colon ? colon + 1 : NULL;
    list[*n].file = equals + 1;
    ++*n;
    return true;
}

static int read_option(tool *t, int argc, char **argv, int *at) {
    const char *word = argv[*at] + 2, *value = NULL;
    size_t n = strcspn(word, "=");
    int k = 0;
    while (k < OPT_COUNT &&
           (strlen(option_rows[k].name) != n || strncmp(option_rows[k].name, word, n) != 0 ||
            !(option_rows[k].verbs & t->verb->bit)))
        k++;
    if (k == OPT_COUNT) return usage(t, "unknown option %s", argv[*at]);
    const option_row *o = &option_rows[k];
    if (word[n] == '=') value = word + n + 1;
    if (!o->value && value) return usage(t, "%s: this option takes no value", argv[*at]);
    if (o->value && !value) {
        if (*at + 1 >= argc) return usage(t, "%s: expected a value", argv[*at]);
        value = argv[++*at];
    }
    t->given[k] = value ? value : "";
    if (k == OPT_ISA && value && strcmp(value, "sse4.2") == 0) t->given[k] = "sse42";
    const bool is_number = k == OPT_DEVICE && is_numbered_cuda(value);
    if (o->value && !is_number && !is_choice(o->value, t->given[k])) {
        fail(0, "--%s: expected %s, found %s", o->name, o->value, value);
        verb_help(stderr, t->verb);
        return WRONG_USAGE;
    }
    if (k == OPT_IN && !add_pair(t, t->ins, &t->n_ins, value))
        return usage(t, "--in: expected NAME=FILE.npy, each name once, found %s", value);
    if (k == OPT_OUT && !add_pair(t, t->outs, &t->n_outs, value))
        return usage(t, "--out: expected NAME=FILE.npy, each name once, found %s", value);
    return DONE;
}

static int read_numbers(tool *t) {
    long long processes = 1, threads = 1, runs = 15, rounds = 2, seed = 0, scale = 0;
    if (!read_number(t, OPT_THREADS, 1, 1024, &threads) ||
        !read_number(t, OPT_PROCESSES, 1, 64, &processes) ||
        !read_number(t, OPT_RUNS, 1, 1000, &runs) || !read_number(t, OPT_ROUNDS, 1, 100, &rounds) ||
        !read_number(t, OPT_SEED, INT64_MIN, INT64_MAX, &seed) ||
        !read_number(t, OPT_SCALE, 0, 8, &scale))
        return WRONG_USAGE;
    t->threads = (int)threads;
    t->processes = (int)processes;
    t->runs = (int)runs;
    t->rounds = (int)rounds;
    t->seed = (uint64_t)seed;
    t->scale = (int)scale;
    for (int k = STAX_ISA_SCALAR; t->given[OPT_ISA] && k <= STAX_ISA_NEON; k++)
        if (strcmp(isa_name((stax_isa)k), t->given[OPT_ISA]) == 0) t->isa = (stax_isa)k;
    return DONE;
}

static int read_command_line(tool *t, int argc, char **argv) {
    t->ins = (pair *)take_array(t, argc, sizeof *t->ins);
    t->outs = (pair *)take_array(t, argc, sizeof *t->outs);
    for (int k = 2; k < argc; k++) {
        if (strcmp(argv[k], "-h") == 0) argv[k] = (char *)take_text(t, "--help", 6);
        if (strcmp(argv[k], "-o") == 0) argv[k] = (char *)take_text(t, "--to", 4);
        if (strncmp(argv[k], "--", 2) == 0 && argv[k][2]) {
            int code = read_option(t, argc, argv, &k);
            if (code != DONE) return code;
        } else if (argv[k][0] == '-' && argv[k][1]) {
            return usage(t, "unknown option %s", argv[k]);
        } else if (t->file || !(t->verb->bit & FILES)) {
            return usage(t, "unexpected argument %s", argv[k]);
        } else {
            t->file = argv[k];
        }
    }
    if (t->given[OPT_HELP]) return DONE;
    if (!t->file && t->verb->bit & FILES) return usage(t, "%s: expected a FILE", t->verb->name);
    return read_numbers(t);
}

static int run_tool(tool *t, int argc, char **argv) {
    if (argc < 2) return general_help(stderr), WRONG_USAGE;
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return general_help(stdout), DONE;
    if (strcmp(argv[1], "--version") == 0) return verb_version(t);
    for (int k = 0; k < N_VERBS; k++)
        if (strcmp(argv[1], verbs[k].name) == 0) t->verb = &verbs[k];
    if (!t->verb) return usage(t, "unknown verb %s", argv[1]);
    int code = read_command_line(t, argc, argv);
    if (code == DONE && t->given[OPT_HELP]) return verb_help(stdout, t->verb), DONE;
    return code == DONE ? t->verb->run(t) : code;
}

int main(int argc, char **argv) {
    tool t;
    memset(&t, 0, sizeof t);
    int code = run_tool(&t, argc, argv);
    stax_cuda_close(t.cuda);
    stax_program_free(t.loaded);
    stax_schedule_free(t.schedule);
    stax_close(t.ctx);
    while (t.blocks) {
        block *next = t.blocks->next;
        free(t.blocks);
        t.blocks = next;
    }
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == DONE)
        code = fail(WRONG_INPUT, "cannot write to standard output: %s", strerror(errno));
    return code;
}
