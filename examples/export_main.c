/* The user of an exported program: includes the generated header and nothing of Stax.
   See export_demo.c, which writes norm.h and norm.c. */
#include "norm.h"

#include "export_input.h"

int main(void) {
    static float x[ROWS * COLUMNS], y[ROWS * COLUMNS];
    static double workspace[norm_WORKSPACE_BYTES / sizeof(double) + 16];
    uintptr_t start = (uintptr_t)workspace;
    void *aligned = (char *)workspace + (64 - start % 64) % 64;
    fill_input(x);
    int check = norm_call(x, y, aligned);
    if (check != 0) {
        printf("%s\n", norm_error_text(check));
        return 1;
    }
    print_bits(y);
    return 0;
}
