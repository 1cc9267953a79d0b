/* Fuzzes what reads saved programs: stax_program_load on changed files, most of them sealed again,
   so that everything behind the seal is met too.

       fuzz_artifact [SECONDS] [SEED]     10 seconds and seed 1; with $FUZZ_SECONDS a new seed each
                                          time
       fuzz_artifact --seeds FOLDER       writes the files that it begins with, for libFuzzer

   A file is refused with a message, or gives a program that answers questions, is saved and loaded
   again, and is freed without a trace. It is not run: nothing holds what a forged program does. For
   the same reason an object that was changed is not loaded (its constructors would run).
   With -DFUZZ_ENTRY_ONLY -fsanitize=fuzzer the same checks are libFuzzer's entry: clang -g -O1
   -fsanitize=fuzzer,address -DFUZZ_ENTRY_ONLY -I. -Itests tests/fuzz/fuzz_artifact.c -lm -ldl
   -lpthread */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *dlopen_known(const char *path, int mode);
#define dlopen dlopen_known
#undef STAX_IMPLEMENTATION_DONE /* its own copy: dlopen is another one, and seals are private */
#define STAX_STATIC
#define STAX_IMPLEMENTATION
#include "stax.h"
#undef dlopen

#define FUZZ_MOST_BYTES (1 << 19)
#define FUZZ_BATCH 100
#include "driver.h"
#include "feed.h"

static const char *folder(void) {
    static char name[] = "/tmp/stax-fuzz-XXXXXX", *made;
    if (!made && (made = mkdtemp(name)) == NULL) broken("cannot make a folder", name, NULL);
    return made;
}

/* ---- objects that may be loaded: the seeds' ---- */

enum { MOST_OBJECTS = 256 };
static uint64_t objects[MOST_OBJECTS];
static int n_objects;
static bool learning;

static void *dlopen_known(const char *path, int mode) {
    static char bytes[1 << 20];
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
    if (f) fclose(f);
    const uint64_t hash = staxi_hash_bytes(n, bytes, n);
    int k = 0;
    while (k < n_objects && objects[k] != hash) k++;
    if (k == n_objects && learning && n_objects < MOST_OBJECTS) objects[n_objects++] = hash;
    return k < n_objects ? dlopen(path, mode) : NULL;
}

/* ---- what must hold of any file ---- */

static stax_context *open_bare(void) {
    stax_options o = limited_options();
    o.compiler = "/nonexistent/cc";
    o.cache_dir = folder();
    return stax_open(&o);
}

static void put(const char *path, const char *data, size_t n) {
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n) broken("cannot write", path, NULL);
    fclose(f);
}

static stax_program *load(stax_context *ctx, const char *path) {
    stax_program *p = stax_program_load(ctx, path);
    if (!p && !*stax_error(ctx)) broken("refused without a message", path, NULL);
    if (!p && !strstr(stax_error(ctx), "memory") && !strstr(stax_error(ctx), path))
        broken("the message does not name the file", path, stax_error(ctx));
    return p;
}

static void ask(const stax_program *p) {
    const stax_graph *g = stax_program_graph(p);
    stax_input_info in;
    stax_output_info out;
    stax_figures figures;
    for (int k = 0; k < stax_graph_n_inputs(g); k++)
        if (stax_graph_input(g, k, &in)) (void)stax_program_is_bound(p, in.name);
    for (int k = 0; k < stax_graph_n_outputs(g); k++) (void)stax_graph_output(g, k, &out);
    (void)stax_program_figures(p, NULL, &figures);
    stax_free(p->ctx, stax_program_report(p, STAX_REPORT_C));
    stax_free(p->ctx, stax_program_report(p, STAX_REPORT_EXPLAIN));
}

static void check(const char *data, size_t n) {
    char path[64], other[64];
    stax_context *ctx = open_bare();
    if (!ctx) return;
    snprintf(path, sizeof path, "%s/%d.staxp", folder(), (int)getpid());
    snprintf(other, sizeof other, "%s/%d-2.staxp", folder(), (int)getpid());
    put(path, data, n);
    stax_program *p = load(ctx, path);
    if (p) {
        ask(p);
        if (stax_program_save(p, other) == STAX_OK) {
            stax_program *again = load(ctx, other);
            if (!again && !strstr(stax_error(ctx), "memory"))
                broken("what it saves does not load", stax_error(ctx), NULL);
            stax_program_free(again);
        }
    }
    stax_program_free(p);
    stax_close(ctx);
    if (held) broken("memory is lost", NULL, NULL);
    (void)unlink(path);
    (void)unlink(other);
}

/* The length and the seal of what was changed, as somebody who means it would put them. */
static void check_sealed(const char *data, size_t n) {
    staxi_text t;
    staxi_text_init(&t, NULL);
    staxi_putn(&t, data, n - STAXI_SEAL_BYTES);
    for (int k = 0; k < 8; k++) t.data[12 + k] = (char)((uint64_t)n >> 8 * k & 255);
    staxi_seal(&t, "stax program");
    if (!t.failed) check(t.data, t.n);
    staxi_text_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n <= STAXI_WIRE_HEAD + STAXI_SEAL_BYTES || data[n - 1] % 16 == 0)
        check((const char *)data, n);
    else
        check_sealed((const char *)data, n);
    return 0;
}

#ifndef FUZZ_ENTRY_ONLY
/* ---- without libFuzzer: changed files ---- */

static const char *seeds_to;

/* Programs of all kinds: sizes, states, params (bound or not), regions, checks. */
static bool fuzz_seeds(void) {
    static char data[MOST_BYTES];
    char path[600];
    stax_options o = stax_options_default();
    if (!getenv("STAX_CC") && system("command -v tcc >/dev/null 2>&1") == 0) o.compiler = "tcc";
    o.cache_dir = folder();
    o.isa = STAX_ISA_SCALAR;
    stax_context *ctx = stax_open(&o);
    learning = true;
    for (int k = 0; ctx && k < FEED_GRAPHS; k += 2) {
        static feed f;
        stax_graph *g = stax_parse(ctx, "seed", feed_graphs[k]);
        stax_program *p = g ? stax_compile(g, NULL) : NULL;
        if (p && k % 4 && feed_make(&f, g, 5, 3)) (void)feed_bind(p, &f);
        snprintf(path, sizeof path, "%s/seed%d.staxp", seeds_to ? seeds_to : folder(), k);
        if (p && stax_program_save(p, path) == STAX_OK) {
            FILE *file = fopen(path, "rb");
            const size_t n = file ? fread(data, 1, sizeof data, file) : 0;
            if (file) fclose(file);
            add_file(data, n);
            check(data, n);
        } else {
            printf("%s\n", stax_error(ctx));
        }
        feed_free(&f);
        stax_program_free(p);
        stax_graph_free(g);
    }
    stax_close(ctx);
    learning = false;
    return n_files >= 5;
}

/* Where numbers and small texts are: the kernels, most of a file, are changed seldom. */
static size_t somewhere(const char *file, size_t n) {
    size_t at = below(n + 1);
    const char *text = below(20) ? (const char *)memmem(file, n, "typedef", 7) : NULL;
    const size_t head = text ? (size_t)(text - file) : n;
    if (at >= head && below(4)) at = below(head);
    else if (at >= head && n > 400) at = n - below(400);
    return at;
}

static size_t fuzz_change(char *file, size_t n) {
    static const unsigned char bytes[] = {0, 1, 2, 3, 4, 8, 9, 63, 64, 126, 127, 128, 254, 255};
    size_t at = somewhere(file, n), length = below(below(4) ? 6 : 200) + 1, from = below(n + 1);
    if (at + length > n) length = n - at;
    switch (below(8)) {
        case 0: /* any byte */
            if (at < n) file[at] = (char)below(256);
            return n;
        case 1: /* a piece less */
            memmove(file + at, file + at + length, n - at - length);
            return n - length;
        case 2: /* a piece more: of itself */
            if (from + length > n) from = n - length;
            if (n + length > MOST_BYTES) return n;
            memmove(file + at + length, file + at, n - at);
            memmove(file + at, file + (from < at ? from : from + length), length);
            return n + length;
        case 3: /* the rest of another file */
            from = below((size_t)n_files);
            length = sizes[from] > at ? sizes[from] - at : 0;
            if (length == 0) return n;
            memcpy(file + at, files[from] + at, length);
            return at + length;
        case 4: /* a long number */
            for (size_t k = 0; k < 10 && at + k < n; k++) file[at + k] = (char)(k < 9 ? 255 : 1);
            return n;
        case 5: /* one more or less */
            if (at < n) file[at] = (char)(file[at] + (below(2) ? 1 : -1));
            return n;
        default:
            if (at < n) file[at] = (char)bytes[below(sizeof bytes)];
            return n;
    }
}

int main(int argc, char **argv) {
    char command[100];
    if (argc == 3 && strcmp(argv[1], "--seeds") == 0) seeds_to = argv[2];
    const int failed = seeds_to ? !fuzz_seeds() : fuzz_main(argc, argv, "artifact", "staxp");
    snprintf(command, sizeof command, "rm -rf '%s'", folder());
    return system(command) != 0 || failed;
}
#endif
