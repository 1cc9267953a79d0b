/* The number of operations of each op that is a text in vectors (STAXI_OP_TIMES), counted in that
   text for f32: predicted times rest on them. A value that is written twice counts once, what no
   result needs does not count, nor does what processors do beside other work: bit logic, sign
   changes, the same bits as another type, + 0 (relu's: maxps does it), and selects but those of two
   constants (a mask on the instruction that makes one of the arms). A division counts as an
   operation and as a division. */
#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define STAX_STATIC
#define STAX_IMPLEMENTATION
#include "../stax.h"

#include "harness.h"

enum { MAX_NODES = 1000, MAX_ARGS = 4, NAME = 40 };

/* A value; const_: it depends on no operand. */
typedef struct node {
    char what[NAME];
    int args[MAX_ARGS], n_args, operations, divisions;
    bool is_const, is_counted;
} node;
static node nodes[MAX_NODES];
static int n_nodes;

static int node_of(const char *what, size_t length, const int *args, int n_args, int operations) {
    node v;
    memset(&v, 0, sizeof v);
    snprintf(v.what, sizeof v.what, "%.*s", (int)length, what);
    v.n_args = n_args;
    v.is_const = what[0] != '$';
    for (int k = 0; k < n_args; k++) {
        v.args[k] = args[k];
        v.is_const = v.is_const && nodes[args[k]].is_const;
    }
    for (int k = 0; k < n_nodes; k++)
        if (strcmp(nodes[k].what, v.what) == 0 && nodes[k].n_args == n_args &&
            memcmp(nodes[k].args, v.args, sizeof v.args) == 0)
            return k;
    v.operations = v.is_const ? 0 : operations;
    if (!CHECK(n_nodes < MAX_NODES)) n_nodes = 0;
    nodes[n_nodes] = v;
    return n_nodes++;
}

static void count(int at, int *operations, int *divisions) {
    node *v = &nodes[at];
    if (v->is_counted) return;
    v->is_counted = true;
    *operations += v->operations;
    *divisions +=
        v->operations && (strcmp(v->what, "/") == 0 || strncmp(v->what, "sx_sqrt", 7) == 0);
    for (int k = 0; k < v->n_args; k++) count(v->args[k], operations, divisions);
}

/* ---- texts: declarations, assignments, one return ---- */

typedef struct variable {
    const char *name;
    size_t length;
    int value;
} variable;
typedef struct reader {
    const char *at;
    variable variables[100];
    int n_variables;
} reader;

static void skip_space(reader *r) {
    while (isspace((unsigned char)*r->at)) r->at++;
}

static bool takes(reader *r, const char *word) {
    skip_space(r);
    if (strncmp(r->at, word, strlen(word)) != 0) return false;
    r->at += strlen(word);
    return true;
}

static size_t word_length(reader *r) {
    size_t n = 0;
    skip_space(r);
    while (isalnum((unsigned char)r->at[n]) || r->at[n] == '_') n++;
    return n;
}

static int *variable_of(reader *r, const char *name, size_t length) {
    for (int k = 0; k < r->n_variables; k++)
        if (r->variables[k].length == length && memcmp(r->variables[k].name, name, length) == 0)
            return &r->variables[k].value;
    variable *v = &r->variables[r->n_variables++];
    v->name = name;
    v->length = length;
    return &v->value;
}

static int expression(reader *r, int level);
static int function(const char *name, size_t length, const int *args, int n_args);

static bool is_one_of(const char *name, size_t length, const char *const *list) {
    for (; *list; list++)
        if (strlen(*list) == length && memcmp(*list, name, length) == 0) return true;
    return false;
}

/* A word of the vocabulary with its operands. */
static int call(const char *name, size_t length, const int *args, int n_args) {
    static const char *const same[] = {"sx_k32",     "sx_ku32",       "sx_ki32",       "sx_bits32",
                                       "sx_float32", "sx_i32_of_u32", "sx_u32_of_i32", NULL};
    static const char *const nothing[] = {"sx_not32", "sx_any32", "sx_fix32", "sx_fix32_2", NULL};
    static const char *const one[] = {"sx_lt32",      "sx_le32",  "sx_eq32",  "sx_ne32",
                                      "sx_ltu32",     "sx_equ32", "sx_lti32", "sx_atmost32",
                                      "sx_atleast32", "sx_max32", "sx_min32", "sx_scale32",
                                      "sx_sqrt32",    "sx_fma32", NULL};
    static const char *const select[] = {"sx_sel32", "sx_selu32", NULL};
    if (is_one_of(name, length, same)) return args[0];
    if (is_one_of(name, length, nothing)) return node_of(name, length, args, n_args, 0);
    if (is_one_of(name, length, select))
        return node_of(name, length, args, n_args,
                       nodes[args[1]].is_const && nodes[args[2]].is_const);
    if (!CHECK(is_one_of(name, length, one))) printf("no such word: %.*s\n", (int)length, name);
    return node_of(name, length, args, n_args, 1);
}

static int primary(reader *r) {
    int args[MAX_ARGS], n_args = 0, value;
    if (takes(r, "(")) {
        value = expression(r, 0);
        CHECK(takes(r, ")"));
        return value;
    }
    if (takes(r, "-")) return value = primary(r), node_of("-", 1, &value, 1, 0);
    if (takes(r, "~")) return value = primary(r), node_of("~", 1, &value, 1, 0);
    skip_space(r);
    const char *word = r->at;
    if (isdigit((unsigned char)*word)) {
        while (isalnum((unsigned char)*r->at) || *r->at == '.' ||
               ((*r->at == '-' || *r->at == '+') && r->at[-1] == 'e'))
            r->at++;
        return node_of(word, (size_t)(r->at - word), NULL, 0, 0);
    }
    size_t length = word_length(r);
    r->at += length;
    const bool is_text = length == 3 && memcmp(word, "sx_", 3) == 0;
    if (is_text && CHECK(takes(r, "("))) {
        length = word_length(r);
        word = r->at;
        r->at += length;
        CHECK(takes(r, ")"));
    }
    if (!takes(r, "(")) return *variable_of(r, word, length);
    for (; !takes(r, ")") && CHECK(n_args < MAX_ARGS); takes(r, ","))
        args[n_args++] = expression(r, 0);
    return is_text ? function(word, length, args, n_args) : call(word, length, args, n_args);
}

static int expression(reader *r, int level) {
    static const struct {
        const char *const words[3];
        int operations;
    } levels[] = {{{"|", NULL, NULL}, 0},  {{"^", NULL, NULL}, 0}, {{"&", NULL, NULL}, 0},
                  {{"<<", ">>", NULL}, 1}, {{"+", "-", NULL}, 1},  {{"*", "/", NULL}, 1}};
    if (level == (int)(sizeof levels / sizeof *levels)) return primary(r);
    int args[2];
    args[0] = expression(r, level + 1);
    for (;;) {
        const char *word = levels[level].words[0];
        if (!takes(r, word)) word = levels[level].words[1];
        if (word != levels[level].words[0] && (!word || !takes(r, word))) return args[0];
        args[1] = expression(r, level + 1);
        const bool nothing = *word == '+' && strcmp(nodes[args[1]].what, "0.0f") == 0;
        args[0] = node_of(word, strlen(word), args, 2, nothing ? 0 : levels[level].operations);
    }
}

static const char *text_of(const char *name, size_t length) {
    const staxi_scalar_fn *f = staxi_scalar_named(name, length);
    if (f) return f->text;
    for (size_t k = 0; k < sizeof staxi_helper_texts / sizeof *staxi_helper_texts; k++)
        if (strlen(staxi_helper_texts[k].name) == length &&
            memcmp(staxi_helper_texts[k].name, name, length) == 0)
            return staxi_helper_texts[k].text;
    return NULL;
}

/* What the text gives for these operands. */
static int function(const char *name, size_t length, const int *args, int n_args) {
    reader r;
    memset(&r, 0, sizeof r);
    r.at = text_of(name, length);
    if (!CHECK(r.at != NULL)) {
        printf("no such text: %.*s\n", (int)length, name);
        return 0;
    }
    r.at = strchr(strchr(r.at, ')'), '('); /* sx_f32 sx_(name)(sx_f32 x, ...) { */
    for (int k = 0; k < n_args; k++) {
        r.at++;
        r.at += word_length(&r);
        const size_t n = word_length(&r);
        *variable_of(&r, r.at, n) = args[k];
        r.at += n;
    }
    CHECK(takes(&r, ")") && takes(&r, "{"));
    while (!takes(&r, "return ")) {
        size_t n = word_length(&r);
        if (!CHECK(n > 0)) return 0;
        const char *word = r.at;
        r.at += n;
        if (!takes(&r, "=")) {
            n = word_length(&r);
            word = r.at;
            r.at += n;
            CHECK(takes(&r, "="));
        }
        const int value = expression(&r, 0);
        *variable_of(&r, word, n) = value;
        CHECK(takes(&r, ";"));
    }
    return expression(&r, 0);
}

static void operations_are_those_of_the_texts(void) {
    static const char *const operands[] = {"$0", "$1", "$2"};
    int shown = 0;
    for (size_t k = 0; k < sizeof staxi_scalar_fns / sizeof *staxi_scalar_fns; k++) {
        const staxi_scalar_fn *f = &staxi_scalar_fns[k];
        int args[MAX_ARGS], operations = 0, divisions = 0;
        if (f->operand != STAX_F32 || f->form != STAXI_FORM_VECTOR) continue;
        n_nodes = 0;
        for (int a = 0; a < f->arity; a++) args[a] = node_of(operands[a], 2, NULL, 0, 0);
        count(function(f->name, strlen(f->name), args, f->arity), &operations, &divisions);
        const bool same = staxi_op_operations(f->op) == operations;
        if (!CHECK(same && staxi_op_divisions(f->op) == divisions))
            printf("%s: %d operations, %d of them divisions; the table has %d, %d\n", f->name,
                   operations, divisions, staxi_op_operations(f->op), staxi_op_divisions(f->op));
        shown++;
    }
    CHECK(shown > 40);
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    RUN(operations_are_those_of_the_texts);
    return HARNESS_END();
}
