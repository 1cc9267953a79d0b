/* Saved programs: the same bits in another context and another process, without a compiler or a
   cache; and files that are foreign, cut short, altered, or of another machine or version. */
#define _GNU_SOURCE
#define STAX_IMPLEMENTATION
#include "stax.h"

#if !defined(_WIN32)
#include <sys/stat.h>
#include <unistd.h>
#endif

#include "feed.h"
#include "folder.h"
#include "harness.h"
#include "heap.h"
#include "programs.h"

static char folder[400], file[500], other[500];
static const char *self;

/* A context that finds no compiler, and no kernel of anybody. */
static stax_context *open_bare(int n_threads, stax_isa isa) {
    static int serial;
    char cache[500];
    snprintf(cache, sizeof cache, "%s/cache-%d-%d", folder, (int)getpid(), serial++);
    stax_options o = stax_options_default();
    o.compiler = "/nonexistent/cc";
    o.cache_dir = cache;
    o.n_threads = n_threads;
    o.isa = isa;
    return stax_open(&o);
}

/* One whose memory h counts, which starts anew. */
static stax_context *open_counted(heap *h) {
    stax_options o = stax_options_default();
    memset(h, 0, sizeof *h);
    o.compiler = "/nonexistent/cc";
    o.allocator.alloc = heap_alloc;
    o.allocator.free = heap_free;
    o.allocator.user = h;
    o.cache_dir = folder;
    return stax_open(&o);
}

static stax_program *loads(stax_context *c, const char *path) {
    stax_program *p = stax_program_load(c, path);
    if (!CHECK(p && stax_program_status(p) == STAX_OK)) printf("%s\n", stax_error(c));
    return p;
}

static void refuses(stax_context *c, const char *path, stax_status status, const char *says) {
    stax_program *p = stax_program_load(c, path);
    CHECK(p == NULL);
    CHECK_INT(stax_error_status(c), status);
    CHECK_HAS(stax_error(c), path);
    CHECK_HAS(stax_error(c), says);
    stax_program_free(p);
}

static unsigned char *contents(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    static unsigned char bytes[4 << 20];
    *n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
    if (f) fclose(f);
    unsigned char *copy = (unsigned char *)malloc(*n + 1);
    if (copy) memcpy(copy, bytes, *n);
    return copy;
}

static void put(const char *path, const void *p, size_t n) {
    FILE *f = fopen(path, "wb");
    if (!CHECK(f != NULL)) return;
    fwrite(p, 1, n, f);
    fclose(f);
}

/* Saves the program of a text as `file`. */
static stax_program *saved(const char *text, stax_graph **g) {
    *g = parsed(text);
    stax_program *p = compiled(*g);
    if (p && !CHECK_INT(stax_program_save(p, file), STAX_OK)) printf("%s\n", stax_error(ctx));
    return p;
}

/* ---- the same bits ---- */

/* The loaded program q against the interpreter of g: everything that is written, and what is told.
 */
static void equals(const stax_graph *g, stax_program *q, bool bind, int64_t size) {
    static feed want, got;
    const int a = feed_make(&want, g, size, 7), b = feed_make(&got, stax_program_graph(q), size, 7);
    if (CHECK(a && b)) {
        CHECK_INT(stax_interpret(g, want.all, want.outputs), STAX_OK);
        if (bind) CHECK_INT(feed_bind(q, &got), STAX_OK);
        if (!CHECK_INT(stax_run(q, got.slots, got.outputs), STAX_OK))
            printf("%s\n", stax_error(q->ctx));
        CHECK(feed_equal(&want, &got));
        CHECK(feed_guards_hold(&got));
    }
    feed_free(&want);
    feed_free(&got);
}

/* With and without params that are bound before; again as saved by the context that loaded it. */
static void each_class_of_ops(void) {
    for (int k = 0; k < FEED_GRAPHS; k++) {
        stax_graph *g;
        stax_program *p = saved(feed_graphs[k], &g);
        const bool bind = k % 2 == 0;
        static feed weights;
        if (p && !bind && CHECK(feed_make(&weights, g, 16, 7))) {
            CHECK_INT(feed_bind(p, &weights), STAX_OK);
            CHECK_INT(stax_program_save(p, file), STAX_OK);
        }
        feed_free(&weights);
        stax_program_free(p);
        stax_context *c = open_bare(k % 3 ? 1 : 3, STAX_ISA_DETECT);
        stax_program *q = p ? loads(c, file) : NULL;
        if (q) {
            equals(g, q, bind, 16);
            equals(g, q, bind, 37);
            size_t n = 0, m = 0;
            if (!bind) CHECK_INT(stax_program_save(q, other), STAX_OK);
            unsigned char *one = contents(file, &n), *two = contents(other, &m);
            if (!bind && CHECK_INT(m, n)) CHECK_BYTES(two, one, n);
            free(one);
            free(two);
        } else {
            printf("in %s\n", feed_graphs[k]);
        }
        stax_program_free(q);
        stax_close(c);
        stax_graph_free(g);
    }
}

static void programs_compiled_together(void) {
    const stax_graph *g[3];
    stax_program *p[3];
    for (int k = 0; k < 3; k++) g[k] = parsed(feed_graphs[k == 1 ? 12 : k]);
    CHECK_INT(stax_compile_many(g, 3, NULL, p), STAX_OK);
    for (int k = 0; k < 3 && p[k]; k++) {
        stax_context *c = open_bare(1, STAX_ISA_DETECT);
        CHECK_INT(stax_program_save(p[k], file), STAX_OK);
        stax_program *q = loads(c, file);
        if (q) equals(g[k], q, true, 16);
        stax_program_free(q);
        stax_close(c);
    }
    for (int k = 0; k < 3; k++) {
        stax_program_free(p[k]);
        stax_graph_free((stax_graph *)(uintptr_t)g[k]);
    }
}

/* Another thread may call what one has loaded; both share the object. */
static void twice_in_one_context(void) {
    stax_graph *g;
    stax_program *p = saved(feed_graphs[8], &g);
    stax_context *c = open_bare(1, STAX_ISA_DETECT);
    stax_program *q = loads(c, file), *r = loads(c, file);
    stax_figures f, f2;
    if (q && r) {
        CHECK(q->object == r->object);
        equals(g, q, true, 5);
        stax_program_free(q);
        equals(g, r, true, 5);
        CHECK_INT(stax_program_figures(p, NULL, &f), STAX_OK);
        CHECK_INT(stax_program_figures(r, NULL, &f2), STAX_OK);
        CHECK_TEXT(f2.origin, "memory");
        CHECK_INT(f2.kernels, f.kernels);
        CHECK_INT(f2.workspace_bytes, f.workspace_bytes);
        char *text = stax_program_report(r, STAX_REPORT_C);
        CHECK_HAS(text, "stax_call");
        stax_free(c, text);
        CHECK(stax_program_report(r, STAX_REPORT_LOOPS) == NULL);
        CHECK_HAS(stax_error(c), "loaded from a file");
        CHECK(stax_program_schedule(r) == NULL);
        CHECK_INT(stax_export(r, folder, "x", NULL), STAX_E_NOT_BUILT);
        CHECK_HAS(stax_error(c), "export it where it is compiled, or stax_program_save");
    }
    stax_program_free(r);
    stax_close(c);
    stax_program_free(p);
    stax_graph_free(g);
}

static uint64_t hash_of(const feed *f) {
    uint64_t h = 7;
    for (int k = 0; k < f->n_memory; k++) h = staxi_hash_bytes(h, f->memory[k], f->bytes[k]);
    return h;
}

/* What the other process does: loads, runs on the same numbers, prints a hash. */
static int child(const char *path) {
    static feed f;
    stax_context *c = open_bare(1, STAX_ISA_DETECT);
    stax_program *p = stax_program_load(c, path);
    if (!p || !feed_make(&f, stax_program_graph(p), 16, 7) || feed_bind(p, &f) != STAX_OK ||
        stax_run(p, f.slots, f.outputs) != STAX_OK) {
        printf("%s\n", stax_error(c));
        return 1;
    }
    printf("%016" PRIx64 "\n", hash_of(&f));
    feed_free(&f);
    stax_program_free(p);
    stax_close(c);
    return 0;
}

static void another_process(void) {
    static const int which[] = {8, 10, 12, 13, 14, 23};
    for (size_t k = 0; k < sizeof which / sizeof which[0]; k++) {
        static feed f;
        char command[1200], said[200] = "", want[40];
        stax_graph *g;
        stax_program *p = saved(feed_graphs[which[k]], &g);
        if (p && CHECK(feed_make(&f, g, 16, 7)))
            CHECK_INT(stax_interpret(g, f.all, f.outputs), STAX_OK);
        snprintf(want, sizeof want, "%016" PRIx64 "\n", hash_of(&f));
        snprintf(command, sizeof command, "\"%s\" --load \"%s\" \"%s\"", self, file, folder);
        FILE *out = popen(command, "r");
        if (CHECK(out != NULL) && !fgets(said, sizeof said, out)) said[0] = 0;
        if (out) pclose(out);
        CHECK_TEXT(said, want);
        feed_free(&f);
        stax_program_free(p);
        stax_graph_free(g);
    }
}

/* A failed check of a run says the same, with the place in the user's text. */
static void messages_of_runs(void) {
    static const char *const texts[] = {
        "graph g(x: f32[5], i: i64[2]) { y = gather x, i; return y }",
        "sizes n: 0..9\ngraph g(x: f32[n]) { y = max x; return y }",
        "sizes n: 0..9\ngraph g(x: f32[n]) { y = pad x {low=0, high=2, mode=\"edge\"}; return y }",
        ("graph g(x: f32[5], i: i64[2]) { y = loop 2, i { body(k, j) { a = gather x, j; b = cast a "
         "{dtype=i64}; return b } }; return y }")};
    static const int64_t bad[2] = {1, 77};
    float x[5] = {1, 99, 1, 1, 1}, y[8];
    int64_t z[8];
    for (int k = 0; k < 4; k++) {
        char said[400];
        stax_graph *g;
        stax_program *p = saved(texts[k], &g);
        stax_context *c = open_bare(1, STAX_ISA_DETECT);
        stax_program *q = loads(c, file);
        const bool gathers = k == 0 || k == 3;
        stax_tensor in[2], out;
        in[0] = stax_tensor_of(STAX_F32, stax_shape1(gathers ? 5 : 0), x);
        in[1] = stax_tensor_of(STAX_I64, stax_shape1(2), (void *)(uintptr_t)bad);
        out = stax_tensor_of(STAX_F32, k == 1 ? stax_shape0() : stax_shape1(2), y);
        if (k == 3) out = stax_tensor_of(STAX_I64, stax_shape1(2), z);
        if (p && q) {
            const stax_status s = stax_run(p, in, &out);
            CHECK(s != STAX_OK);
            snprintf(said, sizeof said, "%s", stax_error(ctx));
            CHECK_HAS(said, "t.stax:");
            CHECK_INT(stax_run(q, in, &out), s);
            CHECK_TEXT(stax_error(c), said);
            in[0].dtype = STAX_F64; /* and a wrong call */
            CHECK_INT(stax_run(p, in, &out), STAX_E_DTYPE);
            snprintf(said, sizeof said, "%s", stax_error(ctx));
            CHECK_INT(stax_run(q, in, &out), STAX_E_DTYPE);
            CHECK_TEXT(stax_error(c), said);
        }
        stax_program_free(p);
        stax_program_free(q);
        stax_close(c);
        stax_graph_free(g);
    }
}

/* ---- what is refused ---- */

static void what_cannot_be_saved(void) {
    stax_graph *g = parsed(feed_graphs[0]);
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.interpret = true;
    stax_program *p = g ? stax_compile(g, &o) : NULL;
    CHECK_INT(stax_program_save(p, file), STAX_E_NOT_BUILT);
    CHECK_HAS(stax_error(ctx), "interpreted");
    stax_program_free(p);
    p = compiled(g);
    if (p) p->for_device = true;
    CHECK_INT(stax_program_save(p, file), STAX_E_NOT_BUILT);
    CHECK_HAS(stax_error(ctx), "device");
    if (p) p->for_device = false;
    snprintf(other, sizeof other, "%s/none/x.staxp", folder);
    CHECK_INT(stax_program_save(p, other), STAX_E_IO);
    CHECK_HAS(stax_error(ctx), other);
    CHECK_INT(stax_program_save(NULL, file), STAX_E_ARGUMENT);
    CHECK_INT(stax_program_save(p, NULL), STAX_E_ARGUMENT);
    snprintf(other, sizeof other, "%s/other.staxp", folder);
    stax_program_free(p);
    stax_graph_free(g);
}

/* Puts a new seal on what was changed, as only somebody who means it would. */
static void put_sealed(const char *path, const unsigned char *p, size_t n) {
    staxi_text t;
    staxi_text_init(&t, &ctx->allocator);
    staxi_putn(&t, (const char *)p, n - STAXI_SEAL_BYTES);
    staxi_seal(&t, "stax program");
    put(path, t.data, t.n);
    staxi_text_free(&t);
}

static void foreign_files(void) {
    stax_graph *g;
    stax_program *p = saved(feed_graphs[8], &g);
    stax_context *c = open_bare(1, STAX_ISA_DETECT);
    size_t n;
    unsigned char *bytes = contents(file, &n);
    if (p && bytes && CHECK(n > 2000)) {
        refuses(c, "/nonexistent/x.staxp", STAX_E_IO, "/nonexistent/x.staxp");
        put(other, "", 0);
        refuses(c, other, STAX_E_IO, "not a program that stax_program_save wrote");
        put(other, "graph g(x: f32[3]) { return x }", 31);
        refuses(c, other, STAX_E_IO, "not a program that stax_program_save wrote");
        bytes[8] = 9;
        put_sealed(other, bytes, n);
        refuses(c, other, STAX_E_IO, "expected format 1, found 9");
        bytes[8] = 1;
        CHECK_INT(bytes[20], STAX_VERSION % 128); /* the version, 7 bits a byte */
        bytes[20] ^= 1;
        put_sealed(other, bytes, n);
        refuses(c, other, STAX_E_IO, "save it again with this version");
        bytes[20] ^= 1;
        put(other, bytes, n - 1);
        refuses(c, other, STAX_E_IO, "cut short");
        put(other, bytes, n);
        stax_program_free(loads(c, other));
    }
    free(bytes);
    stax_program_free(p);
    stax_close(c);
    stax_graph_free(g);
}

/* Its machine and level stand behind the version: the object is for another machine, so the text is
   compiled; where it cannot be, the message names both. */
static void other_machines(void) {
    stax_graph *g;
    stax_program *p = saved(feed_graphs[8], &g);
    stax_context *bare = open_bare(1, STAX_ISA_DETECT), *low = open_bare(1, STAX_ISA_SCALAR);
    size_t n, at = 20;
    unsigned char *bytes = contents(file, &n);
    if (p && bytes && CHECK(n > 2000)) {
        while (bytes[at++] > 127) {
        } /* the version; then the machine's name and its length */
        const size_t length = bytes[at] - 1u, order = at + 1 + length;
        CHECK(memcmp(bytes + at + 1, STAXI_HOST_MACHINE, length) == 0);
        bytes[at + 1] = 'y';
        put_sealed(other, bytes, n);
        refuses(bare, other, STAX_E_COMPILER, "/nonexistent/cc");
        CHECK_HAS(stax_error(bare), "its object is for y");
        stax_program *q = loads(ctx, other);
        stax_figures f;
        if (q && CHECK_INT(stax_program_figures(q, NULL, &f), STAX_OK))
            CHECK(strcmp(f.origin, "memory") == 0); /* ctx has compiled that very text before */
        if (q) equals(g, q, true, 5);
        stax_program_free(q);
        memcpy(bytes + at + 1, STAXI_HOST_MACHINE, length);
        bytes[order] ^= 1;
        put_sealed(other, bytes, n);
        refuses(bare, other, STAX_E_IO, "byte order");
        bytes[order] ^= 1;
        if (bytes[order + 1] > STAXI_ISA_SCALAR)
            refuses(low, file, STAX_E_COMPILER, "this is " STAXI_HOST_MACHINE " at level 0");
    }
    free(bytes);
    stax_program_free(p);
    stax_close(bare);
    stax_close(low);
    stax_graph_free(g);
}

/* Text printed for the best level of this machine, compiled for each lower one: the same bits. */
static void lower_levels(void) {
    static const int which[] = {7, 8, 13, 14, 23};
    for (size_t k = 0; k < sizeof which / sizeof which[0]; k++) {
        stax_graph *g;
        stax_program *p = saved(feed_graphs[which[k]], &g);
        for (int isa = STAX_ISA_SCALAR; p && isa <= STAX_ISA_NEON; isa++) {
            if (!staxi_isa_runs_here(isa - 1)) continue;
            stax_options o = stax_options_default();
            o.isa = (stax_isa)isa;
            stax_context *c = stax_open(&o);
            stax_program *q = loads(c, file);
            if (q) equals(g, q, true, 16);
            stax_program_free(q);
            stax_close(c);
        }
        stax_program_free(p);
        stax_graph_free(g);
    }
}

/* ---- damage ---- */

static void every_cut_and_flip(void) {
    stax_graph *g;
    stax_program *p = saved(feed_graphs[14], &g);
    stax_context *c = open_bare(1, STAX_ISA_DETECT);
    size_t n;
    int refused = 0, tried = 0;
    unsigned char *bytes = contents(file, &n);
    const size_t step = n / 150 + 1;
    for (size_t k = 0; p && bytes && k < n; k += k < 64 || k + 100 > n ? 1 : step) {
        stax_program *q;
        put(other, bytes, k);
        q = stax_program_load(c, other);
        refused += q == NULL;
        stax_program_free(q);
        bytes[k] ^= (unsigned char)(1 << k % 8);
        put(other, bytes, n);
        q = stax_program_load(c, other);
        refused += q == NULL;
        stax_program_free(q);
        bytes[k] ^= (unsigned char)(1 << k % 8);
        tried += 2;
    }
    CHECK(tried > 400);
    CHECK_INT(refused, tried);
    printf("cut or altered: %d files, %d refused\n", tried, refused);
    free(bytes);
    stax_program_free(p);
    stax_close(c);
    stax_graph_free(g);
}

/* Changed and sealed again: nothing holds what such a program does, but reading it is safe. The
   kernels themselves are left alone: a library that was tampered with is the system's to load. */
static void resealed_damage(void) {
    static const int which[] = {9, 10, 12, 13, 14, 16, 23};
    uint64_t s = 11;
    int refused = 0, tried = 0;
    for (size_t i = 0; i < sizeof which / sizeof which[0]; i++) {
        heap h;
        stax_graph *g;
        size_t n, end = 0;
        stax_program *p = saved(feed_graphs[which[i]], &g);
        unsigned char *bytes = contents(file, &n);
        const stax_program *first = p && p->steps ? p->steps->pieces[0] : p;
        for (size_t k = 20; p && k + first->source.n < n && !end; k++)
            if (memcmp(bytes + k, first->source.data, first->source.n) == 0) end = k;
        CHECK(end > 40);
        stax_context *c = open_counted(&h);
        for (int k = 0; p && c && k < 150; k++) {
            unsigned char old[4];
            size_t at[4];
            const int changes = 1 + k % 4;
            for (int j = 0; j < changes; j++) {
                at[j] = 20 + (size_t)(feed_random(&s) % (end - 20));
                old[j] = bytes[at[j]];
                bytes[at[j]] = k % 3 ? (unsigned char)feed_random(&s) : (unsigned char)(old[j] + 1);
            }
            put_sealed(other, bytes, n);
            stax_program *q = stax_program_load(c, other);
            refused += q == NULL;
            tried++;
            stax_program_free(q);
            for (int j = changes; j-- > 0;) bytes[at[j]] = old[j];
        }
        stax_close(c);
        CHECK_INT(h.blocks, 0);
        CHECK_INT(h.wrong, 0);
        free(bytes);
        stax_program_free(p);
        stax_graph_free(g);
    }
    CHECK(refused * 2 > tried);
    printf("altered and sealed again: %d files, %d refused\n", tried, refused);
}

static void no_memory(void) {
    static const int which[] = {12, 23};
    for (size_t i = 0; i < sizeof which / sizeof which[0]; i++) {
        stax_graph *g;
        stax_program *p = saved(feed_graphs[which[i]], &g);
        bool done = false;
        for (int64_t fail_at = 1; p && !done && fail_at < 2000; fail_at++) {
            heap h;
            stax_context *c = open_counted(&h);
            if (!CHECK(c != NULL)) break;
            h.fail_at = h.calls + fail_at;
            stax_program *q = stax_program_load(c, file);
            if (!q) CHECK_INT(stax_error_status(c), STAX_E_MEMORY);
            done = !h.failed;
            if (done) CHECK(q != NULL);
            h.fail_at = 0;
            if (q) equals(g, q, true, 8);
            stax_program_free(q);
            stax_close(c);
            CHECK_INT(h.blocks, 0);
            CHECK_INT(h.wrong, 0);
        }
        CHECK(done);
        stax_program_free(p);
        stax_graph_free(g);
    }
}

int main(int argc, char **argv) {
    stax_options o = stax_options_default();
    self = argv[0];
    if (argc == 4 && strcmp(argv[1], "--load") == 0) {
        snprintf(folder, sizeof folder, "%s", argv[3]);
        return child(argv[2]);
    }
    HARNESS_BEGIN(argc, argv);
    if (!folder_make(folder, sizeof folder, "artifact")) return 1;
    snprintf(file, sizeof file, "%s/it's.staxp", folder);
    snprintf(other, sizeof other, "%s/other.staxp", folder);
    ctx = stax_open(&o);
    RUN(each_class_of_ops);
    RUN(programs_compiled_together);
    RUN(twice_in_one_context);
    RUN(another_process);
    RUN(messages_of_runs);
    RUN(what_cannot_be_saved);
    RUN(foreign_files);
    RUN(other_machines);
    RUN(lower_levels);
    RUN(every_cut_and_flip);
    RUN(resealed_damage);
    RUN(no_memory);
    stax_close(ctx);
    folder_remove(folder);
    return HARNESS_END();
}
