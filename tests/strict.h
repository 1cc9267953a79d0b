/* A context in which a failure of the C compiler is an error, never a reason to interpret. */
#ifndef STAX_TESTS_STRICT_H
#define STAX_TESTS_STRICT_H

#include <stdlib.h>

#include "stax.h"

/* Programs of n_threads threads; ends the test where there is no context. */
static inline stax_context *strict_context(int n_threads) {
    stax_options o = stax_options_default();
    o.strict = true;
    o.n_threads = n_threads;
    stax_context *c = stax_open(&o);
    if (!c) exit(1);
    return c;
}

#endif
