/* Handwritten digits, read by a network of two layers (64 -> 128 -> 10) that is trained here.

   Build   cc -O2 -I. examples/digits_mlp.c -o digits_mlp -lm -ldl -lpthread
   Run     ./digits_mlp [--seed=1] [--steps=1000] [--batch=32] [--threads=2] [--losses=curve.txt]
   Shows   training: one compiled graph computes the loss and its gradients, and moves the weights,
           which are its states. What is around it, AdamW too, is in training.h. */
#define STAX_IMPLEMENTATION
#include "stax.h"

#include "training.h"
#include "digits.h"

enum { HIDDEN = 128 };

/* Pixels 0..16 x[n, 64] -> logits[n, 10] */
static stax_value network(training *t, stax_value x) {
    stax_value w1 = training_parameter(t, "w1", stax_shape2(HIDDEN, PIXELS), 0, 0.2);
    stax_value b1 = training_parameter(t, "b1", stax_shape1(HIDDEN), 0, 0);
    stax_value w2 = training_parameter(t, "w2", stax_shape2(10, HIDDEN), 0, 0.1);
    stax_value b2 = training_parameter(t, "b2", stax_shape1(10), 0, 0);
    x = stax_mul(x, stax_const(t->graph, 1.0 / 16));
    return stax_linear(stax_relu(stax_linear(x, w1, b1)), w2, b2);
}

static void build_step(training *t) {
    stax_graph *g = training_graph(t, true);
    stax_value rows = stax_input(g, "rows", STAX_I64, stax_shape1(t->batch));
    stax_value x = stax_gather(digits_images(t), rows, 0);
    stax_value y = stax_gather(digits_labels(t), rows, 0);
    stax_value losses = stax_cross_entropy(network(t, x), y, -1);
    training_adamw(t, stax_mean(losses, stax_axes_all(), false), 0.003, 0.1);
}

int main(int argc, char **argv) {
    static training t = {.data = "examples/data/digits.csv", .seed = 1, .steps = 1000, .batch = 32};
    if (!training_open(&t, argc, argv) || !read_digits(t.data)) return 1;
    build_step(&t);
    bool ok = training_run(&t, KNOWN) && digits_test(&t, network);
    training_close(&t);
    return ok ? 0 : 1;
}
