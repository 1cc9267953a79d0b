/* For tests whose cases are bodies of graphs that give y: their names, and a compiler for many small kernels. */
#ifndef STAX_TESTS_CASES_H
#define STAX_TESTS_CASES_H

#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "stax.h"

/* tcc where it is installed: *quick is then 1. */
static inline stax_context *cases_open(int *quick) {
    stax_options o = stax_options_default();
    *quick = harness_has_program("tcc");
    if (*quick) o.compiler = "tcc";
    else printf("skip three of four compiled cases: tcc is not installed, others take long\n");
    return stax_open(&o);
}

/* The op that gives y, and the case's number. */
static inline void cases_name(char name[60], const char *body, int number) {
    char op[30] = "none";
    const char *y = strstr(body, "y = ");
    if (y) sscanf(y + 4, "%29[a-z_0-9]", op);
    snprintf(name, 60, "%s_%d", op, number);
}

#endif
