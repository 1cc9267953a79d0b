/* Softmax twice: written out as five ops, and as the one op of that name. Both give the same bits,
   because an op like softmax is defined as a graph of simpler ops, and fusion never changes bits.

   Build   cc -O2 -I. examples/softmax.c -o softmax -lm -ldl -lpthread
   Shows   reductions with keepdims, fusion of reductions with elementwise ops, the explanation. */
#define STAX_IMPLEMENTATION
#include "stax.h"

#include <stdio.h>
#include <string.h>

enum { ROWS = 64, COLUMNS = 1000 };

static float logits[ROWS * COLUMNS], by_five_ops[ROWS * COLUMNS], by_softmax[ROWS * COLUMNS];

/* softmax(x) = e^(x - max) / sum(e^(x - max)): subtracting the largest keeps e^x from overflowing.
 */
static stax_value five_ops(stax_value x) {
    stax_value largest = stax_max(x, stax_axes1(-1), true);
    stax_value e = stax_exp(stax_sub(x, largest));
    stax_value total = stax_sum(e, stax_axes1(-1), true);
    return stax_div(e, total);
}

static stax_value one_op(stax_value x) { return stax_softmax(x, -1); }

static int compute(stax_context *ctx, stax_value (*softmax)(stax_value x), float *result,
                   int explain) {
    stax_graph *g = stax_graph_new(ctx);
    stax_output(g, "y", softmax(stax_input(g, "x", STAX_F32, stax_shape2(ROWS, COLUMNS))));
    stax_program *p = stax_compile(g, NULL); /* a wrong graph fails here, too */
    stax_graph_free(g);                      /* a program outlives its graph  */
    if (!p) return 0;
    if (explain) {
        char *text = stax_program_report(p, STAX_REPORT_EXPLAIN);
        printf("%s\n", text ? text : "");
        stax_free(ctx, text);
    }
    stax_tensor in[1], out[1];
    in[0] = stax_tensor_of(STAX_F32, stax_shape2(ROWS, COLUMNS), logits);
    out[0] = stax_tensor_of(STAX_F32, stax_shape2(ROWS, COLUMNS), result);
    stax_status s = stax_run(p, in, out);
    stax_program_free(p);
    return s == STAX_OK;
}

int main(void) {
    stax_context *ctx = stax_open(NULL);
    if (!ctx) return 1;
    for (int i = 0; i < ROWS * COLUMNS; i++) logits[i] = (float)(i * 7919 % 2003) / 100.0f;

    if (!compute(ctx, five_ops, by_five_ops, 1) || !compute(ctx, one_op, by_softmax, 0)) {
        printf("%s\n", stax_error(ctx));
        return 1;
    }
    double total = 0, largest = 0;
    for (int k = 0; k < COLUMNS; k++) {
        total += (double)by_softmax[k];
        if (largest < (double)by_softmax[k]) largest = (double)by_softmax[k];
    }
    int same = memcmp(by_five_ops, by_softmax, sizeof by_softmax) == 0;
    printf("row 0: sum %.7f, largest %.7f; five ops and softmax give %s\n", total, largest,
           same ? "the same bits" : "DIFFERENT BITS");
    stax_close(ctx);
    return same && total > 0.99999 && total < 1.00001 ? 0 : 1;
}
