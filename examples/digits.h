/* The handwritten digits of examples/data/digits.csv, for the examples that read them: 8x8 pixels
   of 0..16 and a label 0..9. The first 1,400 are to learn from, the last 397 to be read. Behind
   training.h there is more: the digits as inputs of a graph, and the test. */
#ifndef STAX_EXAMPLES_DIGITS_H
#define STAX_EXAMPLES_DIGITS_H

#include <stdint.h>
#include <stdio.h>

enum { DIGITS = 1797, KNOWN = 1400, UNKNOWN = DIGITS - KNOWN, PIXELS = 64 };

static float pixels[DIGITS][PIXELS];
static int64_t labels[DIGITS];

static int read_digits(const char *path) {
    FILE *f = fopen(path, "r");
    int n = 0, value = 0;
    while (f && n < DIGITS * (PIXELS + 1) &&
           fscanf(f, n % (PIXELS + 1) < PIXELS ? "%d," : "%d", &value) == 1) {
        int row = n / (PIXELS + 1), column = n % (PIXELS + 1);
        if (column < PIXELS)
            pixels[row][column] = (float)value;
        else
            labels[row] = value;
        n++;
    }
    if (f) fclose(f);
    if (n < DIGITS * (PIXELS + 1)) printf("cannot read 1,797 digits from %s\n", path);
    return n == DIGITS * (PIXELS + 1);
}

#ifdef STAX_EXAMPLES_TRAINING_H

static stax_value digits_images(training *t) {
    return training_input(t, "images", STAX_F32, stax_shape2(DIGITS, PIXELS), pixels);
}
static stax_value digits_labels(training *t) {
    return training_input(t, "labels", STAX_I64, stax_shape1(DIGITS), labels);
}

/* How many of the digits that it was not trained on `network`, images[n, 64] -> logits[n, 10],
   reads right. */
static bool digits_test(training *t, stax_value (*network)(training *, stax_value)) {
    stax_graph *g = training_graph(t, false);
    int64_t right = 0;
    stax_value x = stax_slice(digits_images(t), stax_shape2(KNOWN, 0), stax_shape2(DIGITS, PIXELS),
                              stax_shape2(1, 1));
    stax_value y =
        stax_slice(digits_labels(t), stax_shape1(KNOWN), stax_shape1(DIGITS), stax_shape1(1));
    stax_value is_right = stax_eq(stax_argmax(network(t, x), 1, false), y);
    stax_output(g, "right", stax_sum(is_right, stax_axes_all(), false));
    bool ok = training_once(t, stax_tensor_of(STAX_I64, stax_shape0(), &right));
    if (ok)
        printf("%d of %d digits read right: %.4f\n", (int)right, (int)UNKNOWN,
               (double)right / UNKNOWN);
    return ok;
}

#endif

#endif
