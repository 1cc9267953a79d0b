/* A C function, traced: readings of any length are centred, and where one of them is an outlier,
   the large ones are cut.

   Build   cc -O2 -I. examples/jit.c -o jit -lm -ldl -lpthread
   Shows   ordinary C control flow on data (stax_truth), sizes that are not known in advance
   (DYNAMIC), and what was compiled, found and missed (stax_jit_explain). */
#define STAX_IMPLEMENTATION
#include "stax.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 1000, CALLS = 300 };

static int runs; /* of the function: once for each way through it */

/* y = x - mean(x), cut to three deviations if any element is beyond them. */
static void centre(stax_trace *t, const stax_value *in, int n, stax_value *out) {
    stax_axes all = stax_axes_all();
    stax_value y = stax_sub(in[0], stax_mean(in[0], all, false));
    stax_value edge = stax_mul(stax_std(y, all, 0, false), stax_trace_const(t, 3));
    (void)n;
    runs++;
    if (stax_truth(stax_gt(stax_max(stax_abs(y), all, false), edge)))
        y = stax_maximum(stax_minimum(y, edge), stax_neg(edge));
    out[0] = y;
}

/* The same in double. Returns whether it cut. */
static int centre_by_loops(const float *x, int n, double *y) {
    double mean = 0, square = 0, most = 0;
    for (int i = 0; i < n; i++) mean += x[i] / (double)n;
    for (int i = 0; i < n; i++) {
        y[i] = x[i] - mean;
        square += y[i] * y[i] / n;
        most = fmax(most, fabs(y[i]));
    }
    double edge = 3 * sqrt(square);
    for (int i = 0; i < n; i++) y[i] = fmax(fmin(y[i], edge), -edge);
    return most > edge;
}

/* Reproducible readings; in some calls one is far off. */
static void readings(float *x, int n, int call) {
    unsigned s = (unsigned)call * 2654435761u + 1;
    for (int i = 0; i < n; i++) {
        s = s * 1664525u + 1013904223u;
        x[i] = (float)(s >> 16) / 65536.0f;
    }
    if (call % 3 == 2) x[n / 2] = 40;
}

int main(void) {
    static float x[MOST], y[MOST];
    static double want[MOST];
    int wrong = 0, cut = 0;
    stax_jit_options o;
    memset(&o, 0, sizeof o);
    o.name = "centre";
    o.arguments = "readings";
    o.other_dims = STAX_DIM_DYNAMIC;
    stax_context *ctx = stax_open(NULL);
    stax_jit *jit = ctx ? stax_jit_new(ctx, centre, NULL, &o) : NULL;
    for (int call = 0; jit && call < CALLS; call++) {
        int n = 20 + call * 37 % (MOST - 20);
        readings(x, n, call);
        stax_tensor in = stax_tensor_of(STAX_F32, stax_shape1(n), x),
                    out = stax_tensor_of(STAX_F32, stax_shape1(n), y);
        if (stax_call(jit, &in, 1, &out, 1) != STAX_OK) {
            fprintf(stderr, "%s\n", stax_error(ctx));
            return 1;
        }
        cut += centre_by_loops(x, n, want);
        for (int i = 0; i < n; i++) wrong += fabs(y[i] - want[i]) > 1e-4;
    }
    char *text = jit ? stax_jit_explain(jit) : NULL;
    if (!text) {
        fprintf(stderr, "%s\n", ctx ? stax_error(ctx) : "no memory");
        return 1;
    }
    printf("%s\n%d calls of %d kinds of data; the function ran %d times; %d elements are wrong\n",
           text, CALLS, cut > 0 && cut < CALLS ? 2 : 1, runs, wrong);
    stax_free(ctx, text);
    stax_jit_free(jit);
    stax_close(ctx);
    return wrong != 0;
}
