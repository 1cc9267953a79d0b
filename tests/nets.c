/* The networks of examples/nets as they are written, in basis ops, and rewritten: the same bits,
   and no more ops. With --table alone it prints README.md's table of them (tools/net_table.sh). */
#include <stdio.h>
#include <string.h>

#include "feed.h"
#include "harness.h"
#include "programs.h"

static const char *const nets[] = {"mlp", "cnn", "lenet", "transformer", "unet"};
enum { N_NETS = sizeof nets / sizeof nets[0] };

typedef struct net {
    stax_graph *written, *merged, *rewritten;
} net;

/* The statements of its text. */
static int n_ops(const stax_graph *g) {
    char *text = g ? stax_print(g) : NULL;
    int n = 0;
    for (const char *s = text; s && (s = strstr(s, " = ")) != NULL; s++) n++;
    stax_free(ctx, text);
    return n;
}

static int n_merged(const stax_graph *g) {
    stax_rule_figures f;
    return stax_graph_rule(g, 0, &f) ? (int)f.fired : 0;
}

static net net_open(const char *name) {
    stax_rewrite_options basis;
    char path[100];
    net n;
    memset(&basis, 0, sizeof basis);
    basis.basis = basis.no_builtin = true;
    snprintf(path, sizeof path, "examples/nets/%s.stax", name);
    n.written = file_graph(ctx, path);
    n.merged = n.written ? stax_rewrite(n.written, &basis) : NULL;
    n.rewritten = n.written ? stax_rewritten(n.written) : NULL;
    if (!CHECK(n.merged && n.rewritten)) printf("%s\n", stax_error(ctx));
    return n;
}

static void net_close(net *n) {
    stax_graph_free(n->written);
    stax_graph_free(n->merged);
    stax_graph_free(n->rewritten);
}

static void print_table(void) {
    printf(
        "| network | ops as written | in basis ops | equal ones merged | rewritten | what fired "
        "|\n");
    printf("| --- | --- | --- | --- | --- | --- |\n");
    for (int k = 0; k < N_NETS; k++) {
        net n = net_open(nets[k]);
        stax_rule_figures f;
        const char *comma = "";
        int merged = n_ops(n.merged);
        printf("| `%s` | %d | %d | %d | %d | ", nets[k], n_ops(n.written),
               merged + n_merged(n.merged), merged, n_ops(n.rewritten));
        for (int i = 0; stax_graph_rule(n.rewritten, i, &f); i++) {
            if (!f.fired) continue;
            printf("%s`%s` %d", comma, f.rule, (int)f.fired);
            comma = ", ";
        }
        printf(" |\n");
        net_close(&n);
    }
}

/* Interpreted: composites.c has them compiled. */
static void same_bits(const stax_graph *a, const stax_graph *b) {
    feed x, y;
    if (CHECK(feed_make(&x, a, 3, 5)) && CHECK(feed_make(&y, b, 3, 5))) {
        CHECK_INT(stax_interpret(a, x.all, x.outputs), STAX_OK);
        CHECK_INT(stax_interpret(b, y.all, y.outputs), STAX_OK);
        CHECK(feed_equal(&x, &y));
        CHECK(feed_guards_hold(&y));
    }
    feed_free(&x);
    feed_free(&y);
}

static const char *now;
static void rewriting(void) {
    net n = net_open(now);
    if (n.merged && n.rewritten) {
        same_bits(n.written, n.merged);
        same_bits(n.written, n.rewritten);
        CHECK(n_ops(n.written) < n_ops(n.rewritten)); /* else the nets have no composite op */
        CHECK(n_ops(n.rewritten) <= n_ops(n.merged));
    }
    net_close(&n);
}

int main(int argc, char **argv) {
    HARNESS_BEGIN(argc, argv);
    ctx = stax_open(NULL);
    if (!ctx) return 1;
    if (argc == 2 && strcmp(argv[1], "--table") == 0) {
        print_table();
    } else {
        for (int k = 0; k < N_NETS; k++) {
            now = nets[k];
            RUN_NAMED(now, rewriting);
        }
    }
    stax_close(ctx);
    return argc == 2 && strcmp(argv[1], "--table") == 0 ? harness.bad_checks != 0 : HARNESS_END();
}
