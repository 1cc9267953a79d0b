/* Does this machine's C arithmetic subtract doubles as IEEE 754 says? 2 - f for f in 2^-60 .. 1, against integers.
   Prints how many of the results are not the nearest double; gcc 12's library for Arm cores without double hardware
   (__aeabi_dsub) loses the bits of the low word where the exponents are 33 apart and the result is below the power of
   two, and half of its results there are one unit too small. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static double of_bits(uint64_t b) {
    double d;
    memcpy(&d, &b, sizeof d);
    return d;
}

int main(void) {
    uint64_t random = 88172645463325252u;
    long wrong = 0, all = 0;
    int at[61] = {0};
    for (int s = 1; s <= 60; s++) /* f = m 2^(-52 - s) */
        for (int k = 0; k < 500; k++, all++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            uint64_t m = (uint64_t)1 << 52 | random >> 12;
            volatile double two = 2, f = of_bits((uint64_t)(1023 - s) << 52 | random >> 12), r = two - f;
            /* 2 - f in units of 2^-52, rounded to the nearest, ties to even */
            uint64_t part = s < 53 ? m & (((uint64_t)1 << s) - 1) : m, whole = s < 53 ? m >> s : 0;
            uint64_t half = s < 54 ? (uint64_t)1 << (s - 1) : UINT64_MAX;
            uint64_t n = ((uint64_t)1 << 53) - whole; /* exact: n - part 2^-s */
            if (part > half || (part == half && n & 1)) n--;
            if ((double)r != (double)n * 0x1p-52) wrong++, at[s]++;
        }
    printf("%ld of %ld differences 2 - f wrong", wrong, all);
    for (int s = 1; s <= 60; s++)
        if (at[s]) printf(", %d where the exponents are %d apart", at[s], s + 1);
    printf("\n");
    return wrong != 0;
}
