/* Rewriting with rules of your own: what the built-in rules refuse, because it is not exact for
   every input, but which you know to be fine for yours.

   Build   cc -O2 -I. examples/rewrite_rules.c -o rewrite_rules -lm -ldl -lpthread
   Shows   stax_rule, stax_rewrite, the counters, and what a rule that never ends is told. */
#define STAX_IMPLEMENTATION
#include "stax.h"

#include <stdio.h>

/* One rule = one row: name, pattern, replacement, condition. */
static bool above_one(const stax_match *m) {
    double c;
    return stax_value_number(stax_matched(m, "#c"), &c) && c > 1;
}
static const stax_rule fast_rules[] = {
    {"root_of_square", "sqrt (square x)", "abs x", NULL, NULL},  /* no overflow here */
    {"divide", "div x #c", "mul x (div 1 #c)", above_one, NULL}, /* one rounding more */
    {"halves", "sigmoid (mul x 2)", "add (mul (tanh x) 0.5) 0.5", NULL, NULL}};
static const stax_rule_set fast = {"fast", fast_rules, 3, "sigmoid=60"};

static const stax_rule endless_rules[] = {{"turn", "sub a b", "neg (sub b a)", NULL, NULL}};
static const stax_rule_set endless = {"endless", endless_rules, 1, NULL};

static const char text[] =
    "graph g(x: f32[8]) {\n"
    "  a = square x; b = sqrt a; c = div b, 3.0; d = mul c, 2.0; e = sigmoid d; y = sub e, x\n"
    "  return y\n"
    "}\n";

int main(void) {
    stax_context *ctx = stax_open(NULL);
    stax_graph *g = ctx ? stax_parse(ctx, "g.stax", text) : NULL;
    stax_rewrite_options options = {&fast, 1, false, false, NULL, {NULL, NULL}, 0};
    stax_graph *simple = g ? stax_rewrite(g, &options) : NULL;
    if (!simple) {
        printf("%s\n", ctx ? stax_error(ctx) : "no memory");
        return 1;
    }
    char *printed = stax_print(simple);
    printf("%s\n", printed ? printed : "");
    stax_rule_figures f;
    int fired = 0;
    for (int k = 0; stax_graph_rule(simple, k, &f); k++) {
        if (f.fired) printf("%s.%s fired %d times\n", f.set, f.rule, (int)f.fired);
        fired += k > 0 && k <= 3 && f.fired == 1;
    }

    /* Every firing must lower the weight of what it replaces, so rewriting always ends. */
    options.sets = &endless;
    stax_graph *none = stax_rewrite(g, &options);
    printf("\nA rule that would go on for ever:\n%s\n", none ? "NOT FOUND" : stax_error(ctx));

    stax_free(ctx, printed);
    stax_graph_free(simple);
    stax_graph_free(g);
    stax_close(ctx);
    return fired == 3 && !none ? 0 : 1;
}
