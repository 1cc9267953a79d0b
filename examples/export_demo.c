/* Export: a program as plain C that needs neither stax.h nor a compiler at run time.

   Build   cc -O2 -I. examples/export_demo.c -o export_demo -lm -ldl -lpthread
   Run     ./export_demo FOLDER       writes FOLDER/norm.c and FOLDER/norm.h, prints the results'
   bits Then    cc -O2 -IFOLDER examples/export_main.c FOLDER/norm.c -o main -lm && ./main prints
   the same bits: whatever the compiler, its flags and the machine. */
#define STAX_IMPLEMENTATION
#include "stax.h"

#include <stdio.h>
#include <string.h>

#include "export_input.h"

int main(int argc, char **argv) {
    const char *folder = argc > 1 ? argv[1] : ".";
    static float x[ROWS * COLUMNS], y[ROWS * COLUMNS];
    stax_context *ctx = stax_open(NULL);
    if (!ctx) return 1;

    /* Rows are brought to mean 0 and variance 1, then through gelu: a bit of a network. */
    stax_graph *g = stax_graph_new(ctx);
    stax_value v = stax_input(g, "x", STAX_F32, stax_shape2(ROWS, COLUMNS));
    v = stax_layer_norm(v, stax_none(), stax_none(), stax_axes1(-1), 1e-5);
    stax_output(g, "y", stax_gelu(v, "none"));
    stax_program *p = stax_compile(g, NULL);
    stax_tensor in[1], out[1];
    in[0] = stax_tensor_of(STAX_F32, stax_shape2(ROWS, COLUMNS), x);
    out[0] = stax_tensor_of(STAX_F32, stax_shape2(ROWS, COLUMNS), y);
    fill_input(x);
    if (!p || stax_run(p, in, out) != STAX_OK) {
        printf("%s\n", stax_error(ctx));
        return 1;
    }
    print_bits(y);

    stax_status s = stax_export(p, folder, "norm", NULL);
    if (s != STAX_OK) fprintf(stderr, "%s: %s\n", stax_status_text(s), stax_error(ctx));
    stax_program_free(p);
    stax_graph_free(g);
    stax_close(ctx);
    if (s == STAX_E_NOT_BUILT) return 77; /* tests call that a skip */
    return s == STAX_OK ? 0 : 1;
}
