/* A graph planned without the C compiler: its complete schedule, its loops, its
   memory plan and its C as texts.
   Needs STAX_IMPLEMENTATION before stax.h. */
#ifndef STAX_TESTS_PLAN_H
#define STAX_TESTS_PLAN_H

#include <stdlib.h>
#include <string.h>

#include "stax.h"

typedef struct plan {
    stax_status status; /* STAX_OK: the texts are there; else stax_error says why            */
    char *schedule, *loops, *memory, *c;
} plan;

static void plan_free(plan *p) {
    free(p->schedule);
    free(p->loops);
    free(p->memory);
    free(p->c);
    memset(p, 0, sizeof *p);
}

static char *plan_text(const staxi_text *t) {
    char *out = (char *)malloc(t->n + 1);
    if (out) memcpy(out, t->data ? t->data : "", t->n + 1 - !t->data);
    if (out) out[t->n] = 0;
    return out;
}

/* The C of a program, or of its pieces. */
static char *plan_c(stax_program *p) {
    enum { MOST = 200 };
    staxi_trees *trees[MOST];
    const char *names[MOST];
    size_t n = p->steps ? p->steps->n_pieces : 1;
    staxi_text t;
    char *out = NULL;
    if (n == 0 || n > MOST) return plan_text(&p->source);
    for (size_t k = 0; k < n; k++) {
        trees[k] = p->steps ? &p->steps->pieces[k]->trees : &p->trees;
        names[k] = "call";
    }
    staxi_text_init(&t, &p->ctx->allocator);
    if (staxi_emit_unit(trees, names, (int)n, staxi_tiles_isa(p), "", 0, &t) == STAX_OK) out = plan_text(&t);
    staxi_text_free(&t);
    return out;
}

static char *plan_loops(const stax_program *p) {
    staxi_text t;
    staxi_text_init(&t, &p->ctx->allocator);
    for (uint32_t k = 0; k < p->trees.n_kernels; k++) {
        staxi_putf(&t, "kernel %U\n", (uint64_t)k);
        staxi_report_tree(p, &t, p->trees.kernels[k].root, 1);
    }
    char *out = plan_text(&t);
    staxi_text_free(&t);
    return out;
}

static char *plan_memory(const stax_program *p) {
    staxi_text t;
    staxi_text_init(&t, &p->ctx->allocator);
    staxi_report_plan(p, &t);
    char *out = plan_text(&t);
    staxi_text_free(&t);
    return out;
}

static char *plan_schedule(const stax_program *p) {
    staxi_text t;
    staxi_text_init(&t, &p->ctx->allocator);
    if (p->steps)
        staxi_report_steps(p, &t, STAX_REPORT_SCHEDULE);
    else
        staxi_report_schedule(p, &t);
    char *out = plan_text(&t);
    staxi_text_free(&t);
    return out;
}

/* schedule NULL: automatic. `all`: the other texts too. */
static void plan_make(plan *out, stax_context *ctx, const stax_graph *g,
                      const stax_schedule *schedule, int all) {
    staxi_text why;
    memset(out, 0, sizeof *out);
    stax_program *p = staxi_program_new(g, STAX_BACKEND_STAX);
    out->status = p ? STAX_OK : stax_error_status(ctx);
    if (!p) return;
    staxi_text_init(&why, &ctx->allocator);
    p->given = schedule;
    out->status =
        staxi_has_regions(p->basis) ? staxi_steps_build(p, &why) : staxi_program_plan(p, &why);
    if (out->status == STAX_OK) out->status = staxi_schedule_fits(schedule, &p, 1, &why);
    if (out->status == STAX_OK) {
        out->schedule = plan_schedule(p);
        if (all) out->c = plan_c(p);
        if (all && !p->steps) out->loops = plan_loops(p);
        if (all && !p->steps) out->memory = plan_memory(p);
    } else {
        staxi_context_fail(ctx, out->status, &why);
    }
    staxi_text_free(&why);
    stax_program_free(p);
}

/* The same with the schedule's text; its errors begin with "edited:". */
static void plan_make_text(plan *out, stax_context *ctx, const stax_graph *g, const char *text,
                           int all) {
    stax_schedule *s = stax_schedule_parse(ctx, "edited", text);
    memset(out, 0, sizeof *out);
    out->status = stax_error_status(ctx);
    if (s) plan_make(out, ctx, g, s, all);
    stax_schedule_free(s);
}

#endif
