/* What export_demo.c and export_main.c share: the input, and how results are shown. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 8, COLUMNS = 48 };

static void fill_input(float *x) {
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = (float)(i * 131 % 257) / 16.0f - 8.0f;
}

static void print_bits(const float *y) {
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        uint32_t bits;
        memcpy(&bits, &y[i], sizeof bits);
        printf("%08lx%s", (unsigned long)bits, i % 8 == 7 ? "\n" : " ");
    }
}
