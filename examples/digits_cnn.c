/* Handwritten digits, read by a convolutional network that is trained here.

   Build   cc -O2 -I. examples/digits_cnn.c -o digits_cnn -lm -ldl -lpthread
   Run     ./digits_cnn [--shift=1] [--seed=1] [--steps=800] [--batch=32] [--threads=2]
   Shows   training as in digits_mlp.c, with random numbers inside the step, whose keys are a
           function of the seed and the step: dropout, and with --shift=1 images that are moved by a
           pixel in any direction each time they are seen. */
#define STAX_IMPLEMENTATION
#include "stax.h"

#include "training.h"
#include "digits.h"

enum { SIDE = 8, C1 = 16, C2 = 32, FLAT = C2 * SIDE * SIDE / 4, HIDDEN = 64 };

/* Pixels 0..16 x[n, 64] -> logits[n, 10] */
static stax_value network(training *t, stax_value x) {
    stax_value w1 = training_parameter(t, "w1", stax_shape4(C1, 1, 3, 3), 0, 0.5);
    stax_value b1 = training_parameter(t, "b1", stax_shape1(C1), 0, 0);
    stax_value w2 = training_parameter(t, "w2", stax_shape4(C2, C1, 3, 3), 0, 0.2);
    stax_value b2 = training_parameter(t, "b2", stax_shape1(C2), 0, 0);
    stax_value w3 = training_parameter(t, "w3", stax_shape2(HIDDEN, FLAT), 0, 0.1);
    stax_value b3 = training_parameter(t, "b3", stax_shape1(HIDDEN), 0, 0);
    stax_value w4 = training_parameter(t, "w4", stax_shape2(10, HIDDEN), 0, 0.1);
    stax_value b4 = training_parameter(t, "b4", stax_shape1(10), 0, 0);
    stax_shape one = stax_shape2(1, 1), two = stax_shape2(2, 2);
    x = stax_mul(x, stax_const(t->graph, 1.0 / 16));
    x = stax_reshape(x, stax_shape4(-1, 1, SIDE, SIDE));
    x = stax_relu(stax_conv(x, w1, b1, one, "same", one, 1)); /* [n, C1, 8, 8] */
    x = stax_relu(stax_conv(x, w2, b2, one, "same", one, 1)); /* [n, C2, 8, 8] */
    x = stax_max_pool(x, two, two, NULL, false);              /* [n, C2, 4, 4] */
    x = stax_relu(stax_linear(stax_reshape(x, stax_shape2(-1, FLAT)), w3, b3));
    if (t->is_step) x = stax_dropout(x, training_key(t), 0.5);
    return stax_linear(x, w4, b4);
}

/* Each of x[batch, 64] moved by -1, 0 or 1 in both directions: a window of its own in the image
   with a margin of 0. */
static stax_value shifted(training *t, stax_value x) {
    int64_t wide = SIDE + 2;
    stax_shape all = stax_shape3(t->batch, SIDE, SIDE), margin = stax_shape3(0, 1, 1);
    stax_value by = stax_uniform(training_key(t), stax_shape4(2, t->batch, 1, 1), 0, 3);
    by = stax_cast(stax_floor(by), STAX_I64);
    stax_value row = stax_add(stax_iota(t->graph, all, 1), stax_select(by, 0, 0));
    stax_value column = stax_add(stax_iota(t->graph, all, 2), stax_select(by, 0, 1));
    stax_value at = stax_add(stax_mul(row, stax_const_int(t->graph, wide)), column);
    x = stax_pad(stax_reshape(x, all), margin, margin, 0, NULL);
    x = stax_reshape(x, stax_shape2(t->batch, wide * wide));
    return stax_take_along_axis(x, stax_reshape(at, stax_shape2(t->batch, PIXELS)), 1);
}

static void build_step(training *t) {
    stax_graph *g = training_graph(t, true);
    stax_value rows = stax_input(g, "rows", STAX_I64, stax_shape1(t->batch));
    stax_value x = stax_gather(digits_images(t), rows, 0);
    stax_value y = stax_gather(digits_labels(t), rows, 0);
    stax_value losses = stax_cross_entropy(network(t, t->own ? shifted(t, x) : x), y, -1);
    training_adamw(t, stax_mean(losses, stax_axes_all(), false), 0.008, 0.03);
}

int main(int argc, char **argv) {
    static training t = {.data = "examples/data/digits.csv",
                         .seed = 1,
                         .steps = 800,
                         .batch = 32,
                         .own_name = "--shift"};
    if (!training_open(&t, argc, argv) || !read_digits(t.data)) return 1;
    build_step(&t);
    bool ok = training_run(&t, KNOWN) && digits_test(&t, network);
    training_close(&t);
    return ok ? 0 : 1;
}
