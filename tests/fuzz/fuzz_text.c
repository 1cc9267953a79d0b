/* Fuzzes what reads text and files: the parser of graphs, the printer against it, the interpreter
   on what parses, and the tool's reader of .npy files.

       fuzz_text [SECONDS] [SEED]      10 seconds and seed 1; with $FUZZ_SECONDS a new seed each time

   Starts from the files of tests/corpus and changes bytes, words, numbers and lines. Each batch
   runs in a process of its own; what crashes, hangs or breaks a promise is written to build/found.
   With -DFUZZ_ENTRY_ONLY -fsanitize=fuzzer the same checks are libFuzzer's entry: clang -g -O1
   -fsanitize=fuzzer,address -DFUZZ_ENTRY_ONLY -I. -Itests tests/fuzz/fuzz_text.c -lm -ldl -lpthread
 */
#define _GNU_SOURCE
#include <dirent.h>

#define STAX_IMPLEMENTATION
#define main staxc_main
#include "../../tools/staxc.c"
#undef main

#include "driver.h"

/* ---- what must hold of any bytes ---- */

/* A tensor with these sizes in `room`; the bytes that it takes, 0: too large to run. */
static size_t place(const stax_graph *g, const int64_t *symbols, stax_dtype dtype, stax_shape shape,
                    stax_tensor *t, char *room, size_t left) {
    size_t n = 1;
    for (int d = 0; d < shape.rank; d++) {
        if (!stax_size_value(g, shape.dims[d], symbols, &shape.dims[d]) || shape.dims[d] < 0 ||
            shape.dims[d] > 4096 || (n *= (size_t)shape.dims[d]) > 4096)
            return 0;
    }
    n = (n * stax_dtype_bytes(dtype) / 64 + 1) * 64;
    if (n > left) return 0;
    *t = stax_tensor_of(dtype, shape, room);
    return n;
}

static void interpret(stax_context *ctx, const stax_graph *g) {
    static char room[1 << 20];
    static stax_tensor in[256], out[256];
    int64_t symbols[64];
    int n_in = stax_graph_n_inputs(g), n_out = stax_graph_n_outputs(g);
    size_t used = 0;
    if (n_in > 256 || n_out > 256 || stax_graph_n_symbols(g) > 64) return;
    for (int k = 0; k < stax_graph_n_symbols(g); k++) {
        stax_symbol_info symbol;
        stax_graph_symbol(g, k, &symbol);
        symbols[k] = symbol.lo > 3 ? symbol.lo : symbol.hi < 3 ? symbol.hi : 3;
    }
    for (int k = 0; k < n_in + n_out; k++) {
        stax_input_info i;
        stax_output_info o;
        bool is_in = k < n_in;
        size_t n;
        if (is_in)
            stax_graph_input(g, k, &i);
        else
            stax_graph_output(g, k - n_in, &o);
        n = place(g, symbols, is_in ? i.dtype : o.dtype, is_in ? i.shape : o.shape,
                  is_in ? &in[k] : &out[k - n_in], room + used, sizeof room - used);
        if (n == 0) return;
        used += n;
    }
    memset(room, 0, used);
    if (stax_interpret(g, in, out) != STAX_OK && !*stax_error(ctx)) {
        fputs("an error of the interpreter without a message\n", stderr);
        _exit(3);
    }
}

/* A text is refused with file:line:column, or prints to a text that parses to the same print. */
static void check_text(const char *text) {
    const stax_options options = limited_options();
    stax_context *ctx = stax_open(&options);
    stax_graph *g = ctx ? stax_parse(ctx, "t", text) : NULL, *again;
    char *first, *second;
    int line = 0, column = 0;
    if (!ctx) return;
    if (!g) {
        if (sscanf(stax_error(ctx), "t:%d:%d: error: ", &line, &column) != 2 &&
            !strstr(stax_error(ctx), "memory"))
            broken("refused without a place", text, stax_error(ctx));
    } else {
        first = stax_print(g);
        again = first ? stax_parse(ctx, "t", first) : NULL;
        if (first && !again && !strstr(stax_error(ctx), "memory"))
            broken("its print does not parse", first, stax_error(ctx));
        second = again ? stax_print(again) : NULL;
        if (second && strcmp(first, second) != 0) broken("two prints", first, second);
        /* regions may loop for ever, and custom ops run a C compiler */
        if (!strstr(text, "while") && !strstr(text, "loop") && !strstr(text, "custom"))
            interpret(ctx, g);
        if (first) stax_free(ctx, first);
        if (second) stax_free(ctx, second);
        stax_graph_free(again);
        stax_graph_free(g);
    }
    stax_close(ctx);
    if (held) broken("memory is lost", text, NULL);
}

/* A file is refused with a reason, or gives a tensor all of whose bytes may be read. */
static void check_npy(const char *data, size_t n) {
    static tool t;
    char path[64], why[WHY] = "";
    npy h;
    stax_tensor x;
    stax_dtype dtype;
    FILE *f;
    snprintf(path, sizeof path, "/tmp/stax-fuzz-%d.npy", (int)getpid());
    f = fopen(path, "wb");
    if (!f) return;
    fwrite(data, 1, n, f);
    fclose(f);
    memset(&t, 0, sizeof t);
    memset(&x, 0, sizeof x);
    if (npy_read(&t, path, &h, why) && npy_dtype(&h, NULL, STAX_F32, &dtype, why) &&
        npy_tensor(&t, &h, dtype, &x, why)) {
        volatile unsigned char all = 0;
        for (size_t k = 0; k < h.bytes; k++) all ^= ((unsigned char *)x.data)[k];
    } else if (!*why) {
        broken("a .npy file is refused without a reason", NULL, NULL);
    }
    unlink(path);
    while (t.blocks) {
        block *next = t.blocks->next;
        free(t.blocks);
        t.blocks = next;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char *text;
    if (n >= 6 && memcmp(data, "\x93NUMPY", 6) == 0) {
        check_npy((const char *)data, n);
        return 0;
    }
    text = (char *)malloc(n + 1);
    if (!text) return 0;
    memcpy(text, data, n);
    text[n] = '\0';
    check_text(text);
    free(text);
    return 0;
}

#ifndef FUZZ_ENTRY_ONLY
/* ---- without libFuzzer: changed files of the corpus ---- */

static void add_folder(const char *folder) {
    static char data[MOST_BYTES];
    char path[600];
    DIR *d = opendir(folder);
    struct dirent *entry;
    while (d && (entry = readdir(d)) != NULL) {
        FILE *f;
        if (!strstr(entry->d_name, ".stax")) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        f = fopen(path, "rb");
        if (!f) continue;
        add_file(data, fread(data, 1, sizeof data, f));
        fclose(f);
    }
    if (d) closedir(d);
}

static void add_npy(int version, const char *header, size_t data_bytes) {
    char file[512] = "\x93NUMPY";
    size_t n = strlen(header), at = version == 1 ? 10 : 12;
    file[6] = (char)version;
    file[8] = (char)n;
    memcpy(file + at, header, n);
    add_file(file, at + n + data_bytes);
}

static char *op_names[MOST_FILES];
static int n_op_names;

/* The first word of each line of the table of ops. */
static void add_op_names(void) {
    stax_context *ctx = stax_open(NULL);
    char *table = ctx ? stax_ops_text(ctx) : NULL, *copy;
    for (const char *line = table; line && *line && n_op_names < MOST_FILES;) {
        size_t n = strcspn(line, " ");
        copy = (char *)calloc(n + 1, 1);
        if (copy) op_names[n_op_names++] = (char *)memcpy(copy, line, n);
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    if (ctx) stax_free(ctx, table);
    stax_close(ctx);
}

/* Words that get a long way into the parser: names of ops from the table, and the marks. */
static const char *any_word(void) {
    static const char *const words[] = {"{",
                                        "}",
                                        "(",
                                        ")",
                                        "[",
                                        "]",
                                        ",",
                                        ":",
                                        "=",
                                        ";",
                                        "\n",
                                        "#",
                                        "\"",
                                        "-",
                                        "-1",
                                        "0",
                                        "1",
                                        "2",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "1e400",
                                        "0x1p-3",
                                        "nan",
                                        "-inf",
                                        "true",
                                        "none",
                                        "n",
                                        "n*n",
                                        "n//2",
                                        "n%3",
                                        "f32",
                                        "f16",
                                        "bool",
                                        "u64",
                                        "f8e4m3",
                                        "axes=[0]",
                                        "axis=1",
                                        "axis=-1",
                                        "keepdims=true",
                                        "dtype=i8",
                                        "shape=[2,-1]",
                                        "graph",
                                        "sizes",
                                        "inout",
                                        "param",
                                        "strided",
                                        "strides [1,2]",
                                        "return",
                                        "const",
                                        "order=\"[0]\"",
                                        "body",
                                        "test",
                                        "then",
                                        "else",
                                        "0..",
                                        "1..4",
                                        "\\",
                                        "\xc3\xa9",
                                        "\x80"};
    size_t n = sizeof words / sizeof words[0], k = below(n + (size_t)n_op_names);
    return k < n ? words[k] : op_names[k - n];
}

static size_t fuzz_change(char *text, size_t n) {
    size_t at = below(n + 1), length, from;
    const char *word;
    char number[32];
    int other;
    switch (below(8)) {
        case 0: /* one byte */
            if (n && at < n) text[at] = (char)(below(4) ? ' ' + below(95) : below(256));
            return n;
        case 1: /* a piece less */
            length = below(below(3) ? 8 : n) + 1;
            if (at + length > n) length = n - at;
            memmove(text + at, text + at + length, n - at - length);
            return n - length;
        case 2: /* a number instead of another, in place */
            while (at < n && (text[at] < '0' || text[at] > '9')) at++;
            for (length = 0;
                 at + length < n && text[at + length] >= '0' && text[at + length] <= '9';)
                length++;
            snprintf(number, sizeof number, "%lld",
                     below(3) ? (long long)below(9) - 1 : (long long)(draw() >> below(64)));
            word = number;
            break;
        case 3: /* a piece of itself again */
            from = below(n + 1);
            length = below(40);
            if (from + length > n) length = n - from;
            if (n + length > MOST_BYTES) return n;
            memmove(text + at + length, text + at, n - at);
            memmove(text + at,
                    text + (from < at           ? from
                            : from + length < n ? from + length
                                                : at),
                    length);
            return n + length;
        case 4: /* the rest of another file */
            other = (int)below((size_t)n_files);
            from = below(sizes[other]);
            length = sizes[other] - from;
            if (at + length > MOST_BYTES) return n;
            memcpy(text + at, files[other] + from, length);
            return at + length;
        default:
            length = below(3) ? 0 : below(6);
            if (at + length > n) length = n - at;
            word = any_word();
            break;
    }
    from = strlen(word);
    if (n - length + from > MOST_BYTES) return n;
    memmove(text + at + from, text + at + length, n - at - length);
    memcpy(text + at, word, from);
    return n - length + from;
}

static bool fuzz_seeds(void) {
    add_op_names();
    add_folder("tests/corpus/good");
    add_folder("tests/corpus/bad");
    add_npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n", 12);
    add_npy(2, "{'descr': '>i8', 'fortran_order': True, 'shape': (2, 2), }\n", 32);
    add_npy(3, "{'descr': '|b1', 'fortran_order': False, 'shape': (), }\n", 1);
    if (n_files < 5) puts("tests/corpus is not here: run it from the root of the repository");
    return n_files >= 5;
}

int main(int argc, char **argv) { return fuzz_main(argc, argv, "text", "stax"); }
#endif
