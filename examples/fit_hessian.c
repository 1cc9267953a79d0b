/* A damped oscillation, a e^(-b x) cos(c x + d), is fitted to 60 measured points by Newton's
   method.

   Build   cc -O2 -I. examples/fit_hessian.c -o fit_hessian -lm -ldl -lpthread
   Shows   derivatives of derivatives: one program gives the loss, its gradient and its Hessian,
   whose columns are forward derivatives of the gradient. Every step doubles the right digits. */
#define STAX_IMPLEMENTATION
#include "stax.h"

#include <math.h>
#include <stdio.h>

enum { N = 4, POINTS = 60, STEPS = 6 };

static double x[POINTS], y[POINTS], p[N] = {1.7, 0.2, 1.9, 0.6}, loss, slope[N], hessian[N][N];

static stax_value model(stax_value v, stax_value at) {
    stax_value q[N];
    for (int k = 0; k < N; k++) q[k] = stax_select(v, 0, k);
    stax_value envelope = stax_mul(q[0], stax_exp(stax_neg(stax_mul(q[1], at))));
    return stax_mul(envelope, stax_cos(stax_add(stax_mul(q[2], at), q[3])));
}

static stax_graph *build(stax_context *ctx) {
    stax_graph *g = stax_graph_new(ctx);
    stax_value v = stax_input(g, "p", STAX_F64, stax_shape1(N));
    stax_value at = stax_input(g, "x", STAX_F64, stax_shape1(POINTS));
    stax_value measured = stax_input(g, "y", STAX_F64, stax_shape1(POINTS));
    stax_value error = stax_mse_loss(model(v, at), measured, NULL), gradient, columns[N];
    stax_grad(error, &v, 1, &gradient); /* errors are sticky: stax_compile reports them */
    for (int k = 0; k < N; k++) {
        double unit[N] = {0};
        unit[k] = 1;
        stax_value direction = stax_const_data(g, STAX_F64, stax_shape1(N), unit);
        stax_jvp(gradient, &v, &direction, 1, &columns[k]);
    }
    stax_output(g, "loss", error);
    stax_output(g, "gradient", gradient);
    stax_output(g, "hessian", stax_stack(columns, N, 1));
    return g;
}

/* Solves hessian * move = slope by elimination with pivots, in place. */
static void solve(double *move) {
    for (int k = 0; k < N; k++) {
        int best = k;
        for (int i = k + 1; i < N; i++)
            if (fabs(hessian[i][k]) > fabs(hessian[best][k])) best = i;
        for (int j = 0; j <= N; j++) {
            double *a = j < N ? &hessian[k][j] : &slope[k];
            double *b = j < N ? &hessian[best][j] : &slope[best], swap = *a;
            *a = *b;
            *b = swap;
        }
        for (int i = k + 1; i < N; i++) {
            double f = hessian[i][k] / hessian[k][k];
            for (int j = k; j < N; j++) hessian[i][j] -= f * hessian[k][j];
            slope[i] -= f * slope[k];
        }
    }
    for (int k = N - 1; k >= 0; k--) {
        move[k] = slope[k];
        for (int j = k + 1; j < N; j++) move[k] -= hessian[k][j] * move[j];
        move[k] /= hessian[k][k];
    }
}

int main(void) {
    stax_context *ctx = stax_open(NULL);
    if (!ctx) return 1;
    for (int i = 0; i < POINTS; i++) { /* a = 2, b = 0.3, c = 2, d = 0.5, and some noise */
        x[i] = i / 10.0;
        y[i] = 2 * exp(-0.3 * x[i]) * cos(2 * x[i] + 0.5) + 0.02 * (i * 37 % 11 - 5);
    }
    stax_graph *g = build(ctx);
    stax_program *program = stax_compile(g, NULL);
    stax_tensor in[3], out[3];
    in[0] = stax_tensor_of(STAX_F64, stax_shape1(N), p);
    in[1] = stax_tensor_of(STAX_F64, stax_shape1(POINTS), x);
    in[2] = stax_tensor_of(STAX_F64, stax_shape1(POINTS), y);
    out[0] = stax_tensor_of(STAX_F64, stax_shape0(), &loss);
    out[1] = stax_tensor_of(STAX_F64, stax_shape1(N), slope);
    out[2] = stax_tensor_of(STAX_F64, stax_shape2(N, N), hessian);
    double size = 1, skew = 0;
    for (int step = 0; step < STEPS; step++) {
        if (!program || stax_run(program, in, out) != STAX_OK) {
            printf("%s\n", stax_error(ctx));
            return 1;
        }
        double move[N];
        size = 0;
        for (int k = 0; k < N; k++) {
            size += slope[k] * slope[k];
            for (int j = 0; j < k; j++) skew = fmax(skew, fabs(hessian[k][j] - hessian[j][k]));
        }
        size = sqrt(size);
        printf("step %d: loss %.10f, gradient %.1e, p = %.6f %.6f %.6f %.6f\n", step, loss, size,
               p[0], p[1], p[2], p[3]);
        solve(move);
        for (int k = 0; k < N; k++) p[k] -= move[k];
    }
    printf("the Hessian is symmetric to %.0e\n", skew);
    stax_program_free(program);
    stax_graph_free(g);
    stax_close(ctx);
    return size < 1e-12 && skew < 1e-12 ? 0 : 1;
}
