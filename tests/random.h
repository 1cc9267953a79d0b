/* Random numbers for tests: xorshift64*, a state for each thread. */
#ifndef STAX_TESTS_RANDOM_H
#define STAX_TESTS_RANDOM_H

#include <stdint.h>

#define RANDOM_SEED UINT64_C(88172645463325252) /* any number but zero */

static uint64_t draw(uint64_t *s) {
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s * 2685821657736338717u;
}

#endif
