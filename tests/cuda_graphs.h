/* Small graphs of x and another value, for the tests of stax_cuda.h. */
#ifndef STAX_TESTS_CUDA_GRAPHS_H
#define STAX_TESTS_CUDA_GRAPHS_H

typedef stax_value (*make_fn)(stax_value x, stax_value other);

static stax_value row_sum(stax_value x, stax_value other) {
    return (void)other, stax_sum(x, stax_axes1(1), false);
}
static stax_value column_sum(stax_value x, stax_value other) {
    return (void)other, stax_sum(x, stax_axes1(0), false);
}
static stax_value full_sum(stax_value x, stax_value other) {
    return (void)other, stax_sum(x, stax_axes_all(), false);
}
static stax_value softmax(stax_value x, stax_value other) {
    return (void)other, stax_softmax(x, 1);
}

#endif
