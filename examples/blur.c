/* Three filters of a photograph: a box blur, a Gaussian blur, and an edge map (Sobel).

   Build   cc -O2 -I. examples/blur.c -o blur -lm -ldl -lpthread
   Run     ./blur [picture.pgm] [folder]     writes box.pgm, gauss.pgm, edges.pgm into the folder
   Shows   pad, slice, casts; a stencil is a sum of shifted views, which cost nothing: the compiler
           turns them into reads at other indices, and no shifted copy is ever stored. */
#define STAX_IMPLEMENTATION
#include "stax.h"

#include <stdio.h>
#include <string.h>

enum { MOST_PIXELS = 4000000 };

/* The picture, three results, and the same three by the interpreter. */
static unsigned char pixels[7][MOST_PIXELS];
static int64_t rows, columns;

static int read_pgm(const char *path) {
    FILE *f = fopen(path, "rb");
    int w = 0, h = 0, most = 0, got = 0;
    if (f && fscanf(f, "P5 %d %d %d", &w, &h, &most) == 3 && most == 255 && w > 0 && h > 0 &&
        h <= MOST_PIXELS / w && fgetc(f) != EOF) {
        got = (int)fread(pixels[0], (size_t)w, (size_t)h, f);
    }
    if (f) fclose(f);
    rows = got == h ? h : 0;
    columns = w;
    return rows > 0;
}

static int write_pgm(const char *folder, const char *name, const unsigned char *picture) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fprintf(f, "P5\n%d %d\n255\n", (int)columns, (int)rows) < 0) return 0;
    size_t written = fwrite(picture, (size_t)columns, (size_t)rows, f);
    return fclose(f) == 0 && written == (size_t)rows;
}

/* sum over k of weights[k] * (x moved by k - n/2 along the axis); the border pixel is repeated. */
static stax_value stencil(stax_value x, int axis, const double *weights, int n) {
    int64_t r = n / 2, a = axis == 0 ? r : 0, b = axis == 1 ? r : 0;
    stax_value wide = stax_pad(x, stax_shape2(a, b), stax_shape2(a, b), 0, "edge");
    stax_value sum = stax_none();
    for (int k = 0; k < n; k++) {
        stax_shape from = stax_shape2(axis == 0 ? k : 0, axis == 1 ? k : 0);
        stax_shape to = stax_shape2(from.dims[0] + rows, from.dims[1] + columns);
        stax_value moved = stax_slice(wide, from, to, stax_shape2(1, 1));
        stax_value term = stax_mul(moved, stax_const(x.graph, weights[k]));
        sum = k == 0 ? term : stax_add(sum, term);
    }
    return sum;
}

static stax_value to_u8(stax_value x) { return stax_cast(stax_round(x), STAX_U8); } /* saturates */

static stax_graph *build(stax_context *ctx) {
    static const double flat[] = {1, 1, 1, 1, 1}, bell[] = {1, 4, 6, 4, 1};
    static const double smooth[] = {1, 2, 1}, slope[] = {-1, 0, 1};
    stax_graph *g = stax_graph_new(ctx);
    stax_value picture = stax_input(g, "picture", STAX_U8, stax_shape2(rows, columns));
    stax_value x = stax_cast(picture, STAX_F32);
    stax_value box = stencil(stencil(x, 0, flat, 5), 1, flat, 5);
    stax_value gauss = stencil(stencil(x, 0, bell, 5), 1, bell, 5);
    stax_value gy = stencil(stencil(x, 1, smooth, 3), 0, slope, 3);
    stax_value gx = stencil(stencil(x, 0, smooth, 3), 1, slope, 3);
    stax_output(g, "box", to_u8(stax_div(box, stax_const(g, 25))));
    stax_output(g, "gauss", to_u8(stax_mul(gauss, stax_const(g, 1.0 / 256))));
    stax_value slope2 = stax_add(stax_square(gx), stax_square(gy));
    stax_output(g, "edges", to_u8(stax_mul(stax_sqrt(slope2), stax_const(g, 0.5))));
    return g;
}

/* The box blur in integers. The float sums are exact, so every pixel must agree. */
static int unlike_loop(const unsigned char *x, const unsigned char *box) {
    int unlike = 0;
    for (int64_t at = 0; at < rows * columns; at++) {
        int sum = 0;
        for (int k = 0; k < 25; k++) {
            int64_t i = at / columns + k / 5 - 2, j = at % columns + k % 5 - 2;
            i = i < 0 ? 0 : i >= rows ? rows - 1 : i;
            j = j < 0 ? 0 : j >= columns ? columns - 1 : j;
            sum += x[i * columns + j];
        }
        unlike += box[at] != (2 * sum + 25) / 50;
    }
    return unlike;
}

int main(int argc, char **argv) {
    static const char *const names[3] = {"box.pgm", "gauss.pgm", "edges.pgm"};
    const char *path = argc > 1 ? argv[1] : "examples/data/china.pgm";
    const char *folder = argc > 2 ? argv[2] : ".";
    stax_context *ctx = stax_open(NULL);
    if (!read_pgm(path)) printf("cannot read the picture %s\n", path);
    if (!ctx || rows < 1) return 1;
    stax_graph *g = build(ctx);
    stax_program *p = stax_compile(g, NULL);
    stax_tensor t[7];
    for (int k = 0; k < 7; k++)
        t[k] = stax_tensor_of(STAX_U8, stax_shape2(rows, columns), pixels[k]);
    if (!p || stax_run(p, t, t + 1) != STAX_OK || stax_interpret(g, t, t + 4) != STAX_OK) {
        printf("%s\n", stax_error(ctx));
        return 1;
    }
    int failed = unlike_loop(pixels[0], pixels[1]);
    printf("%d pixels of the box blur differ from a plain loop\n", failed);
    for (int k = 0; k < 3; k++) {
        int same = memcmp(pixels[1 + k], pixels[4 + k], (size_t)(rows * columns)) == 0;
        int written = write_pgm(folder, names[k], pixels[1 + k]);
        printf("%s/%s: %s, %s\n", folder, names[k], written ? "written" : "CANNOT BE WRITTEN",
               same ? "the interpreter's bits" : "NOT ITS BITS");
        failed += !same || !written;
    }
    stax_program_free(p);
    stax_graph_free(g);
    stax_close(ctx);
    return failed ? 1 : 0;
}
