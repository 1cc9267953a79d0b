/* Exported programs and, for each, a C file that calls it with data of its own and compares all
   memory with what stax_run left. Data are written as words of the element's width, so the files
   mean the same on machines of either byte order.

       writer_begin(ctx, DIR);  writer_put(...) for each;  writer_end();   DIR/all.c calls all

   Compiled with -DEXPORT_LIBRARY, the same files need stax.h instead of the exported programs: they
   parse the graphs' texts, print them again and interpret them. */
#ifndef STAX_TESTS_EXPORT_WRITER_H
#define STAX_TESTS_EXPORT_WRITER_H

#include "feed.h"

static struct {
    stax_context *ctx;
    const char *dir;
    FILE *all;
    int count, failures;
} writer;

static void writer_words(FILE *f, const char *type, const char *name, int k, const unsigned char *m,
                         size_t bytes, size_t size) {
    size_t n = bytes / size;
    fprintf(f, "static %sunion { uint%u_t w[%u]; double d; int64_t i; } %s%d = {{", type,
            (unsigned)size * 8, (unsigned)n + 1, name, k);
    for (size_t j = 0; j < n; j++) {
        uint64_t word = 0;
        for (size_t b = size; b-- > 0;) word = word << 8 | m[j * size + b];
        fprintf(f, j % 16 ? "0x%llx%s," : "\n0x%llx%s,", (unsigned long long)word,
                size == 8 ? "u" : "");
    }
    fprintf(f, "0}};\n");
}

/* Tensor k of a feed, and the memory it lies in: inputs first, then outputs. */
static const stax_tensor *writer_tensor(const feed *f, int k) {
    return k < f->n_all ? &f->all[k] : &f->outputs[k - f->n_all];
}

/* An exported program has weights of its own. */
static int writer_is_compared(const feed *f, int k) {
    return k >= f->n_all || f->kinds[k] != STAX_KIND_PARAM;
}

static void writer_arguments(FILE *f, const char *name, const stax_graph *g, const feed *ours,
                             int weights) {
    for (int k = 0; k < ours->n_all + ours->n_outputs; k++) {
        const stax_tensor *t = writer_tensor(ours, k);
        if (!writer_is_compared(ours, k)) continue;
        fprintf(f, "(%s *)(void *)((unsigned char *)&%s_m%d + %u), ", feed_c_type(t->dtype), name,
                k, (unsigned)((const unsigned char *)t->data - ours->memory[k]));
    }
    fprintf(f, weights ? "weights, work" : "work");
    for (int k = 0; k < ours->n_symbols; k++) fprintf(f, ", %lld", (long long)ours->symbols[k]);
    for (int k = 0; k < ours->n_all; k++) {
        stax_input_info info;
        stax_graph_input(g, k, &info);
        if (info.layout != STAX_STRIDED || info.is_exact || info.kind == STAX_KIND_PARAM) continue;
        for (int d = 0; d < ours->all[k].rank; d++)
            fprintf(f, ", %lld", (long long)ours->all[k].strides[d]);
    }
}

static void writer_tensors(FILE *f, const char *name, const char *what, const feed *ours, int lo,
                           int hi) {
    fprintf(f, "    static const stax_tensor %s[] = {\n", what);
    for (int k = lo; k < hi; k++) {
        const stax_tensor *t = writer_tensor(ours, k);
        fprintf(f, "        {(unsigned char *)&%s_m%d + %u, {", name, k,
                (unsigned)((const unsigned char *)t->data - ours->memory[k]));
        for (int d = 0; d < STAX_MAX_RANK; d++) fprintf(f, "%lld, ", (long long)t->shape[d]);
        fprintf(f, "}, {");
        for (int d = 0; d < STAX_MAX_RANK; d++) fprintf(f, "%lld, ", (long long)t->strides[d]);
        fprintf(f, "}, %d, (stax_dtype)%d, 0},\n", t->rank, (int)t->dtype);
    }
    fprintf(f, "        {0}};\n");
}

/* The call of the library: the text of g, and all its tensors. */
static int writer_has_custom(const stax_graph *g) {
    char *text = stax_print(g);
    int found = text && strstr(text, "= custom") != NULL;
    stax_free(writer.ctx, text);
    return found;
}

static void writer_library(FILE *f, const char *name, const stax_graph *g, const feed *ours,
                           stax_status ran) {
    char *text = stax_print(g);
    fprintf(f, "    static const char text[] =\n        \"");
    for (const char *c = text ? text : ""; *c; c++) {
        if (*c == '\n')
            fprintf(f, "\\n\"\n        \"");
        else
            fprintf(f, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    }
    fprintf(f, "\";\n");
    stax_free(writer.ctx, text);
    writer_tensors(f, name, "in", ours, 0, ours->n_all);
    writer_tensors(f, name, "out", ours, ours->n_all, ours->n_all + ours->n_outputs);
    fprintf(f, "    int bad = export_interpret(\"%s\", text, in, out, %d);\n", name,
            ran == STAX_OK);
}

/* DIR/NAME_main.c, which calls the exported DIR/NAME.c. ran: what stax_run said; if it was an
   error, the call must give one too, and nothing is compared. */
static void writer_caller(const char *name, const char *where, const stax_graph *g,
                          const feed *before, const feed *ours, stax_status ran,
                          const stax_export_options *o) {
    int custom = writer_has_custom(g);
    char path[600], own[60];
    snprintf(path, sizeof path, "%s/%s_main.c", writer.dir, name);
    FILE *f = fopen(path, "w");
    if (!f) {
        printf("FAIL %s: cannot write %s\n", where, path);
        writer.failures++;
        return;
    }
    fprintf(f,
            "/* %s */\n#include <stdio.h>\n#include <string.h>\n#include <stdlib.h>\n#ifdef "
            "EXPORT_LIBRARY\n#include \"stax.h\"\n",
            where);
    fprintf(f,
            "int export_interpret(const char *what, const char *text, const stax_tensor *in, const "
            "stax_tensor *out, int fine);\n"
            "#else\n#include \"%s.%s\"\n#endif\n",
            name, o->is_static ? "c" : "h");
    fprintf(f,
            "int export_differs(const char *what, const void *got, const void *want, size_t bytes, "
            "size_t size);\n");
    for (int k = 0; k < before->n_memory; k++) {
        size_t size = stax_dtype_bytes(writer_tensor(ours, k)->dtype),
               bytes = before->bytes[k] + 2 * FEED_GUARD;
        snprintf(own, sizeof own, "%s_m", name),
            writer_words(f, "", own, k, before->memory[k], bytes, size);
        snprintf(own, sizeof own, "%s_want", name);
        if (writer_is_compared(ours, k) && ran == STAX_OK)
            writer_words(f, "const ", own, k, ours->memory[k], bytes, size);
    }
    fprintf(f, "int %s_test(void);\nint %s_test(void) {\n#ifdef EXPORT_LIBRARY\n", name, name);
    /* the text of a custom op needs a compiler on that machine: there it is parsed and printed only
     */
    writer_library(f, name, g, ours, custom ? STAX_E_COMPILER : ran);
    fprintf(f, "#else\n    int bad = 0, status;\n    size_t need = ");
    fprintf(f,
            "\n#ifdef %s_WORKSPACE_BYTES\n        %s_WORKSPACE_BYTES;\n#else\n        "
            "%s_workspace_bytes(",
            name, name, name);
    for (int k = 0; k < ours->n_symbols; k++)
        fprintf(f, "%s%lld", k ? ", " : "", (long long)ours->symbols[k]);
    fprintf(f, ");\n#endif\n");
    fprintf(f,
            "    unsigned char *raw = (unsigned char *)malloc(need + 192), *work = raw + 64 - "
            "(uintptr_t)raw %% 64;\n"
            "    if (!raw) return 1;\n    memset(work, 0xee, need + 64);\n");
    if (o->weights_in_file)
        fprintf(
            f,
            "    unsigned char *wraw = (unsigned char *)malloc(%s_WEIGHTS_BYTES + 64), *weights = "
            "wraw + 64 - (uintptr_t)wraw %% 64;\n    FILE *wf = fopen(\"%s/%s.bin\", \"rb\");\n"
            "    if (!wf || fread(weights, 1, %s_WEIGHTS_BYTES, wf) != %s_WEIGHTS_BYTES) return "
            "1000;\n    fclose(wf);\n",
            name, writer.dir, name, name, name);
    fprintf(f, "    status = %s_call(", name);
    writer_arguments(f, name, g, ours, o->weights_in_file);
    fprintf(f, ");\n    if (%s) { printf(\"%s: status %%d\\n\", status); bad++; }\n",
            ran == STAX_OK ? "status != 0" : "status == 0", name);
    fprintf(f,
            "    for (int k = 0; k < 64; k++) if (work[need + (size_t)k] != 0xee) { printf(\"%s: "
            "wrote behind the workspace\\n\"); bad++; break; }\n",
            name);
    fprintf(f, "    if (strcmp(%s_error_text(0), \"\") == 0) bad++;\n    free(raw);\n#endif\n",
            name);
    for (int k = 0; k < ours->n_memory; k++) /* of a weight within the program nobody speaks */
        fprintf(f, "    (void)&%s_m%d;\n", name, k);
    if (custom) fprintf(f, "#ifndef EXPORT_LIBRARY\n");
    for (int k = 0; k < ours->n_memory && ran == STAX_OK; k++)
        if (writer_is_compared(ours, k))
            fprintf(f,
                    "    bad += export_differs(\"%s memory %d\", &%s_m%d, &%s_want%d, %u, %u);\n",
                    name, k, name, k, name, k, (unsigned)ours->bytes[k] + 2 * FEED_GUARD,
                    (unsigned)stax_dtype_bytes(writer_tensor(ours, k)->dtype));
    if (custom) fprintf(f, "#endif\n");
    fprintf(f, "    return bad;\n}\n");
    fclose(f);
}

/* Exports p as DIR/p0, DIR/p1, ... with its caller and prints "NAME static|plain WHERE", or why
   not. before, ours: the memory before and after stax_run, which said `ran`. */
static int writer_put(const stax_program *p, const stax_graph *g, const feed *before,
                      const feed *ours, stax_status ran, const char *where,
                      const stax_export_options *o) {
    char name[40];
    snprintf(name, sizeof name, "p%d", writer.count);
    stax_status s = stax_export(p, writer.dir, name, o);
    if (s != STAX_OK) {
        printf("%s %s: export: %s\n", s == STAX_E_NOT_BUILT ? "left out" : "FAIL", where,
               stax_status_text(s));
        writer.failures += s != STAX_E_NOT_BUILT;
        return 0;
    }
    writer.count++;
    writer_caller(name, where, g, before, ours, ran, o);
    fprintf(writer.all,
            "int %s_test(void) __attribute__((weak)); /* what did not compile is reported "
            "elsewhere */\n",
            name);
    printf("%s %s %s\n", name, o->is_static ? "static" : "plain", where);
    return 1;
}

static int writer_begin(stax_context *ctx, const char *dir) {
    static char path[600];
    writer.ctx = ctx;
    writer.dir = dir;
    snprintf(path, sizeof path, "%s/all.c", dir);
    writer.all = fopen(path, "w");
    if (!writer.all) {
        printf("FAIL cannot write %s\n", path);
        return 0;
    }
    fprintf(writer.all, "%s",
            "#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n"
            "static unsigned long long word(const void *p, size_t k, size_t size) {\n"
            "    if (size == 1) return ((const uint8_t *)p)[k];\n"
            "    if (size == 2) return ((const uint16_t *)p)[k];\n"
            "    return size == 4 ? ((const uint32_t *)p)[k] : ((const uint64_t *)p)[k];\n}\n"
            "int export_differs(const char *what, const void *got, const void *want, size_t bytes, "
            "size_t size);\n"
            "int export_differs(const char *what, const void *got, const void *want, size_t bytes, "
            "size_t size) {\n"
            "    for (size_t k = 0; memcmp(got, want, bytes) != 0 && k < bytes / size; k++)\n"
            "        if (word(got, k, size) != word(want, k, size)) {\n"
            "            printf(\"%s: word %d of %d is 0x%llx, expected 0x%llx\\n\", what, (int)k "
            "- (int)(64 / size),\n"
            "                   (int)((bytes - 128) / size), word(got, k, size), word(want, k, "
            "size));\n"
            "            return 1;\n        }\n    return 0;\n}\n"
            "#ifdef EXPORT_LIBRARY\n#define STAX_IMPLEMENTATION\n#include \"stax.h\"\n#include "
            "<stdlib.h>\n"
            "static stax_context *ctx;\n"
            "int export_interpret(const char *what, const char *text, const stax_tensor *in, const "
            "stax_tensor *out, int fine);\n"
            "int export_interpret(const char *what, const char *text, const stax_tensor *in, const "
            "stax_tensor *out, int fine) {\n"
            "    int bad = 0;\n    if (!ctx) ctx = stax_open(NULL);\n"
            "    stax_graph *g = ctx ? stax_parse(ctx, what, text) : NULL;\n"
            "    char *again = g ? stax_print(g) : NULL;\n"
            "    if (!again || strcmp(again, text) != 0) bad++, printf(\"%s: printed "
            "differently\\n\", what);\n"
            "    if (g && (stax_interpret(g, in, out) == STAX_OK) != fine) bad++, printf(\"%s: "
            "%s\\n\", what, stax_error(ctx));\n"
            "    stax_free(ctx, again);\n    stax_graph_free(g);\n    return bad;\n}\n#endif\n");
    return 1;
}

static int writer_end(void) {
    FILE *all = writer.all;
    fprintf(all, "int main(void) {\n    int bad = 0, n = 0;\n");
    for (int k = 0; k < writer.count; k++)
        fprintf(all,
                "    if (p%d_test) n++;\n    if (p%d_test && p%d_test()) bad++, printf(\"FAIL "
                "p%d\\n\");\n",
                k, k, k, k);
    fprintf(all,
            "    printf(\"%%d right, %%d wrong\\n\", n - bad, bad);\n    return bad ? 1 : 0;\n}\n");
    return fclose(all) == 0 && writer.failures == 0;
}

#endif
