/* The graph of a text and its program; where there is none, a check has failed and the message is
   printed. */
#ifndef STAX_TESTS_PROGRAMS_H
#define STAX_TESTS_PROGRAMS_H

#include "harness.h"
#include "stax.h"

static stax_context *ctx; /* the test opens it */

static inline stax_graph *parsed(const char *text) {
    stax_graph *g = stax_parse(ctx, "t.stax", text);
    if (!CHECK(g && stax_ok(g))) printf("%s\n%s\n", stax_error(ctx), text);
    return g;
}

static inline stax_graph *file_graph(stax_context *c, const char *path) {
    char *text = harness_file(path);
    stax_graph *g = text ? stax_parse(c, path, text) : NULL;
    free(text);
    return g;
}

static inline stax_program *compiled(const stax_graph *g) {
    stax_program *p = g ? stax_compile(g, NULL) : NULL;
    if (!CHECK(p && stax_program_status(p) == STAX_OK)) printf("%s\n", stax_error(ctx));
    return p;
}

#endif
