/* Handwritten digits, read by their nearest neighbour: no training, one contraction.

   Build   cc -O2 -I. examples/digits_knn.c -o digits_knn -lm -ldl -lpthread
   Run     ./digits_knn [examples/data/digits.csv]
   Shows   dot, broadcasting, argmin, gather; params (bound once) and a size known at run time.

   The first 1,400 digits are references, the last 397 are to be read. The squared distance of two
   digits q and r is |q|^2 - 2 q.r + |r|^2. Pixels are integers 0..16, so every number in here is an
   integer below 2^24: float arithmetic is exact and a loop over integers must agree. */
#define STAX_IMPLEMENTATION
#include "stax.h"

#include "digits.h"

enum { REFERENCES = KNOWN, QUERIES = UNKNOWN };

static int64_t nearest[QUERIES], answers[QUERIES];

/* The same in plain C: the first of the nearest references. */
static int64_t nearest_by_loop(const float *q) {
    int64_t best = 0;
    long least = -1;
    for (int r = 0; r < REFERENCES; r++) {
        long distance = 0;
        for (int k = 0; k < PIXELS; k++) {
            long d = (long)q[k] - (long)pixels[r][k];
            distance += d * d;
        }
        if (least < 0 || distance < least) {
            least = distance;
            best = r;
        }
    }
    return best;
}

static void draw(const char *title, int64_t digit) {
    printf("%s %lld\n", title, (long long)labels[digit]);
    for (int k = 0; k < PIXELS; k++) {
        char c = " .:-=+*#%@"[(int)pixels[digit][k] * 9 / 16];
        printf("%c%c%s", c, c, k % 8 == 7 ? "\n" : "");
    }
}

static stax_graph *build(stax_context *ctx) {
    stax_graph *g = stax_graph_new(ctx);
    int64_t n = stax_symbol(g, "n", 1, DIGITS);
    stax_value q = stax_input(g, "queries", STAX_F32, stax_shape2(n, PIXELS));
    stax_value r = stax_param(g, "references", STAX_F32, stax_shape2(REFERENCES, PIXELS));
    stax_value l = stax_param(g, "labels", STAX_I64, stax_shape1(REFERENCES));
    stax_value q2 = stax_sum(stax_square(q), stax_axes1(1), true);  /* [n, 1]    */
    stax_value r2 = stax_sum(stax_square(r), stax_axes1(1), false); /* [1400]    */
    stax_value qr = stax_dot(q, r, stax_axes1(1), stax_axes1(1), stax_axes0(), stax_axes0());
    stax_value d = stax_add(stax_sub(q2, stax_mul(qr, stax_const(g, 2.0))), r2); /* [n, 1400] */
    stax_value i = stax_argmin(d, 1, false); /* ties: the first */
    stax_output(g, "nearest", i);
    stax_output(g, "answers", stax_gather(l, i, 0));
    return g;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "examples/data/digits.csv";
    if (!read_digits(path)) return 1;
    stax_context *ctx = stax_open(NULL);
    if (!ctx) return 1;
    stax_graph *g = build(ctx);
    stax_program *p = stax_compile(g, NULL);
    stax_tensor refs = stax_tensor_of(STAX_F32, stax_shape2(REFERENCES, PIXELS), pixels);
    stax_tensor names = stax_tensor_of(STAX_I64, stax_shape1(REFERENCES), labels);
    stax_tensor in[1], out[2];
    in[0] = stax_tensor_of(STAX_F32, stax_shape2(QUERIES, PIXELS), pixels[REFERENCES]);
    out[0] = stax_tensor_of(STAX_I64, stax_shape1(QUERIES), nearest);
    out[1] = stax_tensor_of(STAX_I64, stax_shape1(QUERIES), answers);
    if (!p || stax_bind(p, "references", &refs) != STAX_OK ||
        stax_bind(p, "labels", &names) != STAX_OK || stax_run(p, in, out) != STAX_OK) {
        printf("%s\n", stax_error(ctx));
        return 1;
    }

    int right = 0, unlike = 0, first_wrong = -1;
    for (int i = 0; i < QUERIES; i++) {
        right += answers[i] == labels[REFERENCES + i];
        unlike += nearest[i] != nearest_by_loop(pixels[REFERENCES + i]);
        if (first_wrong < 0 && answers[i] != labels[REFERENCES + i]) first_wrong = i;
    }
    if (first_wrong >= 0) {
        draw("the first mistake: a", REFERENCES + first_wrong);
        draw("taken for a", nearest[first_wrong]);
    }
    printf("%d of %d digits read right; %d differ from a plain loop\n", right, (int)QUERIES,
           unlike);

    stax_program_free(p);
    stax_graph_free(g);
    stax_close(ctx);
    return right == 381 && unlike == 0 ? 0 : 1;
}
