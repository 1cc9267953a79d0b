/* The first program: y = sum over the last axis of 2 * relu(x + w).

   Build   cc -O2 -I. examples/hello.c -o hello -lm -ldl -lpthread
   Shows   how a graph is built, printed, compiled and run, and how the result is checked. */
#define STAX_IMPLEMENTATION
#include "stax.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 128, MOST_ROWS = 1000 };

static float x[MOST_ROWS * COLUMNS], w[MOST_ROWS * COLUMNS], y[MOST_ROWS], check[MOST_ROWS];

static void print_text(stax_context *ctx, const char *title, char *text) {
    printf("%s\n%s\n", title, text ? text : "(none)");
    stax_free(ctx, text);
}

/* The same sums by a loop in double. Its result differs by rounding alone: a sum of n floats is
   within c u sum|a| of the exact one (u = 2^-24), and x + w adds one rounding to every term. */
static int far_from_loop(int rows) {
    double c = stax_sum_error_bound(COLUMNS, STAX_SUM_STAX) + 2, u = ldexp(1, -24);
    int wrong = 0;
    for (int i = 0; i < rows; i++) {
        double sum = 0;
        for (int k = i * COLUMNS; k < (i + 1) * COLUMNS; k++) {
            double t = (double)x[k] + (double)w[k];
            sum += t > 0 ? 2 * t : 0;
        }
        wrong += !(fabs((double)y[i] - sum) <= c * u * sum);
    }
    return wrong;
}

static int run(stax_context *ctx, const stax_graph *g, stax_program *p, int rows) {
    stax_tensor in[2], out[1];
    in[0] = stax_tensor_of(STAX_F32, stax_shape2(rows, COLUMNS), x);
    in[1] = stax_tensor_of(STAX_F32, stax_shape2(rows, COLUMNS), w);
    out[0] = stax_tensor_of(STAX_F32, stax_shape1(rows), y);
    if (stax_run(p, in, out) != STAX_OK) {
        printf("%s\n", stax_error(ctx));
        return 1;
    }
    /* The interpreter is the meaning of every op: compiled code gives the same bits. */
    out[0].data = check;
    if (stax_interpret(g, in, out) != STAX_OK) {
        printf("%s\n", stax_error(ctx));
        return 1;
    }
    int same = memcmp(y, check, (size_t)rows * sizeof y[0]) == 0, wrong = far_from_loop(rows);
    printf("%4d rows: y = %.6g, %.6g, %.6g ...  %s; %d rows beyond the bound of a plain loop\n",
           rows, (double)y[0], (double)y[1], (double)y[2],
           same ? "the interpreter's bits" : "NOT THE INTERPRETER'S BITS", wrong);
    return !same || wrong != 0;
}

int main(void) {
    stax_context *ctx = stax_open(NULL);
    if (!ctx) return 1;

    /* 1. What is computed. n is a size that is known when the program runs. No check is needed
       after each call: the graph keeps its first error. */
    stax_graph *g = stax_graph_new(ctx);
    int64_t n = stax_symbol(g, "n", 1, MOST_ROWS);
    stax_value vx = stax_input(g, "x", STAX_F32, stax_shape2(n, COLUMNS));
    stax_value vw = stax_input(g, "w", STAX_F32, stax_shape2(n, COLUMNS));
    stax_value sum =
        stax_sum(stax_mul(stax_relu(stax_add(vx, vw)), stax_const(g, 2.0)), stax_axes1(-1), false);
    stax_output(g, "y", sum);
    if (!stax_ok(g)) {
        printf("%s\n", stax_graph_error(g));
        return 1;
    }
    print_text(ctx, "The graph:", stax_print(g));

    /* 2. How it is computed. One kernel: x and w are read once and nothing else is stored. */
    stax_program *p = stax_compile(g, NULL);
    if (!p) {
        printf("%s\n", stax_error(ctx));
        return 1;
    }
    if (stax_program_status(p) != STAX_OK) printf("interpreted: %s\n", stax_error(ctx));
    print_text(ctx, "The plan:", stax_program_report(p, STAX_REPORT_PLAN));

    /* 3. Run it, for two sizes: the program is compiled once. */
    for (int i = 0; i < MOST_ROWS * COLUMNS; i++) {
        x[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
        w[i] = (float)(i * 53 % 97) / 48.0f - 1.0f;
    }
    int failed = run(ctx, g, p, 64);
    failed |= run(ctx, g, p, MOST_ROWS);

    stax_program_free(p);
    stax_graph_free(g);
    stax_close(ctx);
    printf("%s\n", failed ? "FAILED" : "ok");
    return failed;
}
