/* A graph as text: read it from a string, run it, print it, and what an error looks like.

   Build   cc -O2 -I. examples/text_form.c -o text_form -lm -ldl -lpthread
   Shows   stax_parse and stax_print. Files with this text are also what the tool `staxc` reads. */
#define STAX_IMPLEMENTATION
#include "stax.h"

#include <stdio.h>
#include <string.h>

/* The moving average of three, and how far each value is from it. */
static const char program_text[] =
    "sizes n: 3..1000\n"
    "graph smooth(x: f32[n]) {\n"
    "  windows = unfold x {axis=0, size=3, step=1}      # [n-2, 3]: overlapping views\n"
    "  average: f32[n-2] = mean windows {axes=[-1]}\n"
    "  middle = slice x {starts=[1], stops=[-1]}\n"
    "  t = sub middle, average\n"
    "  rest = abs t\n"
    "  return average, rest\n"
    "}\n";

static const char wrong_text[] =
    "graph wrong(x: f32[4,5], y: f32[6,7]) {\n"
    "  z = matmul x, y\n"
    "  return z\n"
    "}\n";

int main(void) {
    stax_context *ctx = stax_open(NULL);
    if (!ctx) return 1;
    stax_graph *g = stax_parse(ctx, "smooth.stax", program_text);
    stax_program *p = g ? stax_compile(g, NULL) : NULL;
    if (!p) {
        printf("%s\n", stax_error(ctx));
        return 1;
    }

    /* What the printer writes, the parser reads back to the same graph. */
    char *once = stax_print(g);
    stax_graph *again = once ? stax_parse(ctx, "printed.stax", once) : NULL;
    char *twice = again ? stax_print(again) : NULL;
    int round_trip = once && twice && strcmp(once, twice) == 0;
    printf("%s\nread back and printed again: %s\n\n", once ? once : "",
           round_trip ? "the same text" : "DIFFERENT");

    float x[6] = {1, 2, 6, 4, 8, 0}, average[4], rest[4];
    stax_tensor in[1], out[2];
    in[0] = stax_tensor_of(STAX_F32, stax_shape1(6), x);
    out[0] = stax_tensor_of(STAX_F32, stax_shape1(4), average);
    out[1] = stax_tensor_of(STAX_F32, stax_shape1(4), rest);
    if (stax_run(p, in, out) != STAX_OK) {
        printf("%s\n", stax_error(ctx));
        return 1;
    }
    int right = 1;
    for (int i = 0; i < 4; i++) {
        printf("average %g, rest %g\n", (double)average[i], (double)rest[i]);
        right &= average[i] == (x[i] + x[i + 1] + x[i + 2]) / 3;
    }

    /* A wrong program is refused, with the place, the types and the reason. */
    stax_graph *wrong = stax_parse(ctx, "wrong.stax", wrong_text);
    printf("\nAn error:\n%s\n", wrong ? "NONE" : stax_error(ctx));

    stax_free(ctx, once);
    stax_free(ctx, twice);
    stax_graph_free(again);
    stax_program_free(p);
    stax_graph_free(g);
    stax_close(ctx);
    return round_trip && right && !wrong ? 0 : 1;
}
