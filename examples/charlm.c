/* A small transformer learns to write like README.md, character by character.

   Build   cc -O2 -I. examples/charlm.c -o charlm -lm -ldl -lpthread
   Run     ./charlm [--steps=600] [--data=README.md] [--sample=400] [--seed=1] [--threads=2]
   Shows   attention, normalisation and an embedding under gradients; a sampler that is a graph as
           well: its window of text is a state, and it draws the next character itself. */
#define STAX_IMPLEMENTATION
#include "stax.h"

#include "training.h"

enum { LAYERS = 2, WIDTH = 64, HEADS = 4, CONTEXT = 64, LETTERS = 128, MOST_TEXT = 1 << 20 };

static unsigned char text[MOST_TEXT];
static int64_t length;

/* Of the file's bytes those that are ASCII. */
static bool read_text(const char *path) {
    FILE *f = fopen(path, "rb");
    for (int c; f && length < MOST_TEXT && (c = fgetc(f)) != EOF;)
        if (c < LETTERS) text[length++] = (unsigned char)c;
    if (f) fclose(f);
    if (length < 20 * CONTEXT) printf("%s: cannot be read, or is too short\n", path);
    return length >= 20 * CONTEXT;
}

/* x[..., n] -> [..., size] */
static stax_value dense(training *t, const char *name, int layer, stax_value x, int64_t size,
                        double spread) {
    char full[24];
    stax_shape s = stax_value_shape(x);
    snprintf(full, sizeof full, "%s%d", name, layer);
    stax_shape shape = stax_shape2(size, s.dims[s.rank - 1]);
    return stax_linear(x, training_parameter(t, full, shape, 0, spread), stax_none());
}

static stax_value norm(training *t, const char *name, int layer, stax_value x) {
    char full[24];
    snprintf(full, sizeof full, "%s%d", name, layer);
    stax_value gain = training_parameter(t, full, stax_shape1(WIDTH), 1, 0);
    return stax_rms_norm(x, gain, stax_axes1(-1), 1e-5);
}

/* Letters x i64[n, CONTEXT] -> logits of the next ones [n, CONTEXT, LETTERS] */
static stax_value network(training *t, stax_value x) {
    stax_value table = training_parameter(t, "letters", stax_shape2(LETTERS, WIDTH), 0, 0.1);
    stax_value places = training_parameter(t, "places", stax_shape2(CONTEXT, WIDTH), 0, 0.1);
    int64_t n = stax_value_shape(x).dims[0];
    x = stax_add(stax_gather(table, x, 0), places); /* [n, CONTEXT, WIDTH] */
    for (int layer = 0; layer < LAYERS; layer++) {
        stax_value a = dense(t, "qkv", layer, norm(t, "norm_a", layer, x), 3 * WIDTH, 0.2), qkv[3];
        a = stax_reshape(a, stax_shape5(n, CONTEXT, 3, HEADS, WIDTH / HEADS));
        a = stax_permute(a, stax_axes5(2, 0, 3, 1, 4)); /* [3, n, HEADS, CONTEXT, ...] */
        for (int k = 0; k < 3; k++) qkv[k] = stax_select(a, 0, k);
        a = stax_attention(qkv[0], qkv[1], qkv[2], stax_none(), true, 0);
        a = stax_reshape(stax_permute(a, stax_axes4(0, 2, 1, 3)), stax_shape3(n, CONTEXT, WIDTH));
        x = stax_add(x, dense(t, "out", layer, a, WIDTH, 0.1));
        a = stax_relu(dense(t, "up", layer, norm(t, "norm_b", layer, x), 4 * WIDTH, 0.2));
        x = stax_add(x, dense(t, "down", layer, a, WIDTH, 0.05));
    }
    return stax_linear(norm(t, "norm", LAYERS, x), table, stax_none());
}

static void build_step(training *t) {
    stax_graph *g = training_graph(t, true);
    stax_value all = training_input(t, "text", STAX_U8, stax_shape1(length), text);
    stax_value rows = stax_input(g, "rows", STAX_I64, stax_shape1(t->batch));
    stax_value at = stax_add(stax_unsqueeze(rows, stax_axes1(1)),
                             stax_iota(g, stax_shape1(CONTEXT), 0)); /* [batch, CONTEXT] */
    stax_value x = stax_cast(stax_gather(all, at, 0), STAX_I64);
    stax_value next = stax_gather(all, stax_add(at, stax_const_int(g, 1)), 0);
    stax_value losses = stax_cross_entropy(network(t, x), stax_cast(next, STAX_I64), -1);
    training_adamw(t, stax_mean(losses, stax_axes_all(), false), 0.005, 0.01);
}

/* The largest of logits + noise of Gumbel's kind is a draw from softmax(logits). */
static void build_sampler(training *t) {
    stax_graph *g = training_graph(t, false);
    stax_value window = stax_state(g, "window", STAX_I64, stax_shape1(CONTEXT));
    stax_value logits = network(t, stax_unsqueeze(window, stax_axes1(0)));
    stax_value u = stax_uniform(training_key(t), stax_shape1(LETTERS), 0, 1);
    stax_value noise = stax_neg(stax_log(stax_neg(stax_log(u))));
    logits = stax_mul(stax_select(stax_select(logits, 0, 0), 0, CONTEXT - 1), stax_const(g, 1.4));
    stax_value next = stax_argmax(stax_add(logits, noise), 0, false), both[2];
    both[0] = stax_slice(window, stax_shape1(1), stax_shape1(CONTEXT), stax_shape1(1));
    both[1] = stax_unsqueeze(next, stax_axes1(0));
    stax_assign(window, stax_concat(both, 2, 0));
    stax_assign(t->count, stax_add(t->count, stax_const(g, 1)));
    stax_output(g, "next", next);
}

static bool sample(training *t, int n) {
    stax_tensor in[MOST_TENSORS], out;
    int64_t next = 0;
    build_sampler(t);
    stax_program *p = training_compile(t, in);
    int64_t *window = (int64_t *)training_memory(t, "window", STAX_I64, stax_shape1(CONTEXT), NULL);
    bool ok = p != NULL;
    out = stax_tensor_of(STAX_I64, stax_shape0(), &next);
    for (int k = 0; k < CONTEXT; k++) printf("%c", (int)(window[k] = text[k]));
    printf("|");
    for (int k = 0; ok && k < n; k++) {
        ok = stax_run(p, in, &out) == STAX_OK;
        printf("%c", (int)next);
    }
    printf("\n");
    if (p && !ok) printf("%s\n", stax_error(t->ctx));
    stax_program_free(p);
    return ok;
}

int main(int argc, char **argv) {
    static training t = {.data = "README.md",
                         .seed = 1,
                         .steps = 600,
                         .batch = 16,
                         .own_name = "--sample",
                         .own = 400};
    if (!training_open(&t, argc, argv) || !read_text(t.data)) return 1;
    build_step(&t);
    bool ok = training_run(&t, (int)length - CONTEXT) && sample(&t, t.own);
    training_close(&t);
    return ok ? 0 : 1;
}
