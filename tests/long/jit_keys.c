/* The memory of a function over 10^5 distinct keys: `jit_keys bounded_memory` of tests/jit.c. */
#define MANY_KEYS 100000
#include "../jit.c"
