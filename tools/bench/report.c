/* report.c - section 13 measured here: the machine, tables 13.1 and 13.2 in two rounds kept apart,
   figure 13.1, the roofline, the speed-up over sizes, the rounding experiment, traffic of products.

       make bench                               builds and runs it, writes tools/bench/report.html
       build/bench/report --out=FILE [--threads=N] [--quick] [--peers=libseed.so]

   --quick: small tensors and few readings, to see that it works. --peers: a library of op-by-op C
   loops void u_NAME(float **b, long rows, long columns), measured in the same alternation: b[0],
   b[1] inputs, b[2] output, b[3], b[4] as large, b[5], b[6] a number for each row, b[7], b[8] one
   for each column. Ctrl-C ends the measuring; the report then has what was measured until then.

   CONTENTS   cases, measuring, the page and its charts, the sections, main. */
#define _POSIX_C_SOURCE 200112L
#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stax.h"

enum { ROUNDS = 2, MOST_READINGS = 15, CONTENDERS = 3, MOST_SIZES = 17 };

/* ==== cases ======================================================================================
 */

/* R and C stand for rows and columns. `eager` is the same with a barrier behind every op. */
typedef struct bench_case {
    const char *name, *text, *eager, *peer;
    int rows, columns;
    int table;  /* 1: 13.1, 2: 13.2, 3: none, for the roofline alone */
    double rho; /* expected: of the text, but for exp (there 2: it stores exp), and LayerNorm (-) */
} bench_case;

static const bench_case cases[] = {
    {"(relu(x + w) * 2).sum(-1)",
     "graph g(x: f32[R,C], w: f32[R,C]) { a = add x, w; b = relu a; c = mul b, 2.0; y = sum c "
     "{axes=[-1]}; return y }",
     "graph g(x: f32[R,C], w: f32[R,C]) { a = add x, w; a1 = barrier a; b = relu a1; b1 = barrier "
     "b; "
     "c = mul b1, 2.0; c1 = barrier c; y = sum c1 {axes=[-1]}; return y }",
     "u_relusum", 8192, 2048, 1, 4.0},
    {"x / x.sum(-1)",
     "graph g(x: f32[R,C]) { s = sum x {axes=[-1], keepdims=true}; y = div x, s; return y }",
     "graph g(x: f32[R,C]) { s = sum x {axes=[-1], keepdims=true}; s1 = barrier s; y = div x, s1; "
     "return y }",
     "u_norm", 8192, 2048, 1, 1.5},
    {"softmax of five ops",
     "graph g(x: f32[R,C]) { m = max x {axes=[-1], keepdims=true}; a = sub x, m; e = exp a; s = "
     "sum e "
     "{axes=[-1], keepdims=true}; y = div e, s; return y }",
     "graph g(x: f32[R,C]) { m = max x {axes=[-1], keepdims=true}; m1 = barrier m; a = sub x, m1; "
     "a1 = "
     "barrier a; e = exp a1; e1 = barrier e; s = sum e1 {axes=[-1], keepdims=true}; s1 = barrier "
     "s; y "
     "= div e1, s1; return y }",
     "u_softmax", 16384, 1000, 1, 4.0},
    {"softmax, one op", "graph g(x: f32[R,C]) { y = softmax x; return y }",
     "graph g(x: f32[R,C]) { y = softmax x; return y }", NULL, 16384, 1000, 1, 1.0},
    {"exp, then sum and amax",
     "graph g(x: f32[R,C]) { e = exp x; s = sum e {axes=[-1]}; f = exp x; m = max f {axes=[-1]}; "
     "return s, m }",
     "graph g(x: f32[R,C]) { e = exp x; e1 = barrier e; s = sum e1 {axes=[-1]}; x1 = barrier x; f "
     "= exp "
     "x1; f1 = barrier f; m = max f1 {axes=[-1]}; return s, m }",
     "u_expsummax", 8192, 2048, 1, 6.0},
    {"LayerNorm, GELU, * 0.5",
     "graph g(x: f32[R,C]) { a = layer_norm x; b = gelu a; y = mul b, 0.5; return y }",
     "graph g(x: f32[R,C]) { a = layer_norm x; a1 = barrier a; b = gelu a1; b1 = barrier b; y = "
     "mul b1, "
     "0.5; return y }",
     "u_lngelu", 8192, 2048, 1, 3.0},
    {"exp", "graph g(x: f32[R,C]) { y = exp x; return y }",
     "graph g(x: f32[R,C]) { y = exp x; return y }", "o_exp", 8192, 2048, 2, 1.0},
    {"x + 1", "graph g(x: f32[R,C]) { y = add x, 1.0; return y }",
     "graph g(x: f32[R,C]) { y = add x, 1.0; return y }", "o_add1", 8192, 2048, 2, 1.0},
    {"relu", "graph g(x: f32[R,C]) { y = relu x; return y }",
     "graph g(x: f32[R,C]) { y = relu x; return y }", "o_relu", 8192, 2048, 2, 1.0},
    {"sum of rows", "graph g(x: f32[R,C]) { y = sum x {axes=[-1]}; return y }",
     "graph g(x: f32[R,C]) { y = sum x {axes=[-1]}; return y }", "o_sum", 8192, 2048, 2, 1.0},
    {"amax of rows", "graph g(x: f32[R,C]) { y = max x {axes=[-1]}; return y }",
     "graph g(x: f32[R,C]) { y = max x {axes=[-1]}; return y }", "o_amax", 8192, 2048, 2, 1.0},
    {"product of matrices", "graph g(x: f32[C,C], w: f32[C,C]) { y = matmul x, w; return y }",
     "graph g(x: f32[C,C], w: f32[C,C]) { y = matmul x, w; return y }", NULL, 1024, 1024, 3, 1.0}};
enum { N_CASES = sizeof cases / sizeof cases[0] };

typedef void (*peer_fn)(float **b, long rows, long columns);

typedef struct case_result {
    bool is_done[ROUNDS];
    bool has_peer;
    stax_sample time[ROUNDS][CONTENDERS]; /* compiled, op by op, peers; nanoseconds */
    stax_sample difference[ROUNDS];       /* op by op minus compiled, in pairs      */
    stax_figures plan;
    double predicted_ns;
    bool is_peak;
} case_result;

typedef struct size_result {
    bool is_done;
    double elements, compiled_ns, eager_ns;
    stax_sample ratio;
} size_result;

typedef struct bench {
    stax_context *ctx;
    const char *out, *peers;
    bool quick;
    int threads, readings;
    stax_machine one, machine;
    void *library;
    char peers_why[160]; /* why there are none */
    float *b[9];
    size_t floats; /* of each large buffer */
    double started;
    case_result results[N_CASES];
    size_result sizes[MOST_SIZES];
    int n_sizes;
    FILE *f; /* the page */
} bench;

/* ==== measuring ==================================================================================
 */

static volatile sig_atomic_t cancelled;

static void cancel(int number) {
    (void)number;
    cancelled = 1;
}

static double clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void progress(const bench *t, const char *what, int done, int all) {
    fprintf(stderr, "  %6.1f s  %s (%d of %d)\n", (clock_ns() - t->started) * 1e-9, what, done,
            all);
}

/* The text of a case with numbers in place of R and C where they are sizes: [R,C]. */
static void put_sizes(char *out, size_t room, const char *text, const char *rows,
                      const char *columns) {
    size_t n = 0;
    char before = 0;
    for (; *text && n + 24 < room; before = *text++) {
        const bool is_size = (before == '[' || before == ',') && (*text == 'R' || *text == 'C') &&
                             (text[1] == ',' || text[1] == ']');
        if (is_size)
            n += (size_t)snprintf(out + n, room - n, "%s", *text == 'R' ? rows : columns);
        else
            out[n++] = *text;
    }
    out[n] = 0;
}

static stax_program *build(const bench *t, const char *text, const char *rows,
                           const char *columns) {
    char full[1024];
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    o.strict = true;
    put_sizes(full, sizeof full, text, rows, columns);
    stax_graph *g = stax_parse(t->ctx, "bench", full);
    stax_program *p = g ? stax_compile(g, &o) : NULL;
    if (!p) fprintf(stderr, "report: error: %s\n%s\n", full, stax_error(t->ctx));
    stax_graph_free(g);
    return p;
}

/* One contender of a case on its tensors. */
typedef struct runner {
    stax_program *p;
    peer_fn peer;
    float **b;
    long rows, columns;
    stax_tensor in[2], out[2];
} runner;

static bool run_once(const runner *r) {
    if (!r->peer) return stax_run(r->p, r->in, r->out) == STAX_OK;
    r->peer(r->b, r->rows, r->columns);
    return true;
}

/* whole: the output is as large as the input, else it is a number for each row. */
static void set_tensors(runner *r, float **b, long rows, long columns, bool whole) {
    r->b = b;
    r->rows = rows;
    r->columns = columns;
    for (int k = 0; k < 2; k++) {
        r->in[k] = stax_tensor_of(STAX_F32, stax_shape2(rows, columns), b[k]);
        r->out[k] = stax_tensor_of(STAX_F32, stax_shape1(rows), b[5 + k]);
    }
    if (whole) r->out[0] = stax_tensor_of(STAX_F32, stax_shape2(rows, columns), b[2]);
}

/* Calls of a reading, so that it takes this long; 0: a call failed. */
static int64_t calls_for(const runner *r, double least_ns) {
    if (!run_once(r)) return 0;
    const double begin = clock_ns();
    run_once(r);
    const double ns = clock_ns() - begin;
    return ns < least_ns ? (int64_t)(least_ns / (ns > 50.0 ? ns : 50.0)) + 1 : 1;
}

/* Readings alternate, the order changes each time. readings[k] has those of contender k. */
static bool alternate(const bench *t, const runner *r, int n, double least_ns,
                      double readings[CONTENDERS][MOST_READINGS]) {
    int64_t calls[CONTENDERS];
    for (int k = 0; k < n; k++) { /* with three warm-ups */
        if (!run_once(&r[k]) || (calls[k] = calls_for(&r[k], least_ns)) == 0) {
            fprintf(stderr, "report: error: %s\n", stax_error(t->ctx));
            return false;
        }
    }
    for (int i = 0; i < t->readings && !cancelled; i++)
        for (int k = 0; k < n; k++) {
            const int who = i % 2 ? n - 1 - k : k;
            const double begin = clock_ns();
            for (int64_t c = 0; c < calls[who]; c++) run_once(&r[who]);
            readings[who][i] = (clock_ns() - begin) / (double)calls[who];
        }
    return !cancelled;
}

static bool measure_case(bench *t, int which, int round) {
    const bench_case *c = &cases[which];
    case_result *to = &t->results[which];
    runner r[CONTENDERS];
    double readings[CONTENDERS][MOST_READINGS], difference[MOST_READINGS];
    char rows[24], columns[24];
    const long n_rows = t->quick ? c->rows / 64 : c->rows;
    const bool whole =
        !strstr(c->text, "y = sum") && !strstr(c->text, "y = max") && !strstr(c->text, "return s");
    int n = 2;
    snprintf(rows, sizeof rows, "%ld", n_rows);
    const long n_columns = c->rows == c->columns ? n_rows : c->columns; /* squares stay squares */
    snprintf(columns, sizeof columns, "%ld", n_columns);
    memset(r, 0, sizeof r);
    r[0].p = build(t, c->text, rows, columns);
    r[1].p = build(t, c->eager, rows, columns);
    if (t->library && c->peer) {
        void *symbol = dlsym(t->library, c->peer);
        memcpy(&r[2].peer, &symbol, sizeof symbol);
        n += symbol != NULL;
    }
    for (int k = 0; k < n; k++) set_tensors(&r[k], t->b, n_rows, n_columns, whole);
    bool ok = r[0].p && r[1].p && stax_program_figures(r[0].p, r[0].in, &to->plan) == STAX_OK;
    stax_kernel_info info;
    to->predicted_ns = 0.0;
    for (int k = 0; ok && stax_program_kernel(r[0].p, k, r[0].in, &info); k++) {
        const stax_prediction x =
            stax_predict(info.threads > 1 ? &t->machine : &t->one, &info.work);
        to->predicted_ns += x.seconds * 1e9;
        to->is_peak = x.is_peak;
    }
    ok = ok && alternate(t, r, n, 2e5, readings);
    for (int i = 0; i < t->readings && ok; i++) difference[i] = readings[1][i] - readings[0][i];
    if (ok) {
        to->difference[round] = stax_sample_of(difference, t->readings);
        for (int k = 0; k < n; k++) to->time[round][k] = stax_sample_of(readings[k], t->readings);
        to->has_peer = n == 3;
        to->is_done[round] = true;
    }
    stax_program_free(r[0].p);
    stax_program_free(r[1].p);
    return ok || cancelled;
}

/* Lab 1 (4): case 0 with rows of 1024 elements, from 2^10 elements on; one program for all sizes.
 */
static bool measure_sizes(bench *t) {
    const bench_case *c = &cases[0];
    runner r[2];
    double readings[CONTENDERS][MOST_READINGS], ratio[MOST_READINGS];
    bool ok = true;
    memset(r, 0, sizeof r);
    r[0].p = build(t, c->text, "n", "1024");
    r[1].p = build(t, c->eager, "n", "1024");
    ok = r[0].p && r[1].p;
    for (int k = 0; k < t->n_sizes && ok && !cancelled; k++) {
        size_result *to = &t->sizes[k];
        char what[64];
        to->elements = ldexp(1.0, 10 + k);
        snprintf(what, sizeof what, "2^%d elements", 10 + k);
        progress(t, what, k + 1, t->n_sizes);
        for (int i = 0; i < 2; i++) set_tensors(&r[i], t->b, 1L << k, 1024, false);
        if (!alternate(t, r, 2, 2e5, readings)) break;
        for (int i = 0; i < t->readings; i++) ratio[i] = readings[1][i] / readings[0][i];
        to->ratio = stax_sample_of(ratio, t->readings);
        to->compiled_ns = stax_sample_of(readings[0], t->readings).median;
        to->eager_ns = stax_sample_of(readings[1], t->readings).median;
        to->is_done = true;
    }
    stax_program_free(r[0].p);
    stax_program_free(r[1].p);
    return ok;
}

/* ==== the page ===================================================================================
   Plain HTML: tables carry the figures, charts are SVG within it. */

static const char page_start[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<title>Stax: models and measurements</title>\n<style>\n"
    ":root { color-scheme: light dark; --a: #0b6e99; --b: #c2571a; --c: #6b7280; --line: #9ca3af55 "
    "}\n"
    "@media (prefers-color-scheme: dark) { :root { --a: #5cc3ee; --b: #f2a36b; --c: #9ca3af } }\n"
    "body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 "
    "1rem }\n"
    "h1, h2 { line-height: 1.2 } h2 { margin-top: 2.5rem }\n"
    ".scroll { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: "
    "tabular-nums }\n"
    "caption { text-align: left; font-weight: 600; padding: .4rem 0 }\n"
    "th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--line); text-align: right; "
    "white-space: nowrap }\n"
    "th:first-child, td:first-child { text-align: left } svg { width: 100%; height: auto; "
    "max-width: "
    "46rem }\n"
    "svg text { fill: currentColor; font: 12px system-ui, sans-serif }\n"
    ".grid { stroke: var(--line); fill: none } .axis { stroke: currentColor; fill: none }\n"
    ".a { stroke: var(--a); fill: none; stroke-width: 2 } .b { stroke: var(--b); fill: none; "
    "stroke-width: 2 }\n"
    ".c { stroke: var(--c); fill: none; stroke-dasharray: 5 4 } .dot { stroke: var(--a); fill: "
    "var(--a) "
    "}\n"
    ".ring { stroke: var(--a); fill: none; stroke-width: 2 } .dotb { stroke: var(--b); fill: "
    "var(--b) }\n"
    "</style></head><body>\n";

static void put_escaped(FILE *f, const char *s) {
    for (; *s; s++) switch (*s) {
            case '&':
                fputs("&amp;", f);
                break;
            case '<':
                fputs("&lt;", f);
                break;
            case '>':
                fputs("&gt;", f);
                break;
            case '"':
                fputs("&quot;", f);
                break;
            default:
                fputc(*s, f);
        }
}

static void open_table(FILE *f, const char *caption, const char *heads) {
    fprintf(f, "<div class=\"scroll\"><table><caption>");
    put_escaped(f, caption);
    fprintf(f, "</caption>\n<thead><tr>");
    while (*heads) {
        size_t n = strcspn(heads, "|");
        fprintf(f, "<th scope=\"col\">%.*s</th> ", (int)n, heads);
        heads += n + (heads[n] == '|');
    }
    fprintf(f, "</tr></thead>\n<tbody>\n");
}

static void close_table(FILE *f) { fprintf(f, "</tbody></table></div>\n"); }

/* ---- charts ---- */

typedef struct chart {
    FILE *f;
    double x0, x1, y0, y1;
    bool log_x, log_y;
} chart;

enum { WIDE = 720, HIGH = 400, LEFT = 64, RIGHT = 150, TOP = 16, BOTTOM = 48 };

static double scaled(double v, double lo, double hi, bool is_log) {
    if (is_log) v = log(v > lo ? v : lo), lo = log(lo), hi = log(hi);
    return (v - lo) / (hi - lo);
}

static double at_x(const chart *c, double x) {
    return LEFT + (WIDE - LEFT - RIGHT) * scaled(x, c->x0, c->x1, c->log_x);
}

static double at_y(const chart *c, double y) {
    return HIGH - BOTTOM - (HIGH - TOP - BOTTOM) * scaled(y, c->y0, c->y1, c->log_y);
}

static double next_tick(double v, bool is_log, double step) { return is_log ? v * step : v + step; }

/* Large powers of two as such. */
static const char *tick_text(double v, char out[32]) {
    int exponent;
    if (v >= 1024.0 && frexp(v, &exponent) == 0.5)
        snprintf(out, 32, "2^%d", exponent - 1);
    else
        snprintf(out, 32, "%.4g", v);
    return out;
}

static void open_chart(chart *c, const char *title, const char *x, const char *y, double step_x,
                       double step_y) {
    FILE *f = c->f;
    char tick[32];
    fprintf(f, "<svg viewBox=\"0 0 %d %d\" role=\"img\"><title>", WIDE, HIGH);
    put_escaped(f, title);
    fprintf(f, "</title>\n");
    for (double v = c->x0; v <= c->x1 * 1.0000001; v = next_tick(v, c->log_x, step_x)) {
        fprintf(f, "<path class=\"grid\" d=\"M%.1f %dV%d\"/>", at_x(c, v), TOP, HIGH - BOTTOM);
        fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s </text>\n", at_x(c, v),
                HIGH - BOTTOM + 16, tick_text(v, tick));
    }
    for (double v = c->y0; v <= c->y1 * 1.0000001; v = next_tick(v, c->log_y, step_y)) {
        fprintf(f, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, at_y(c, v), WIDE - RIGHT);
        fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s </text>\n", LEFT - 6,
                at_y(c, v) + 4, tick_text(v, tick));
    }
    fprintf(f, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>", LEFT, TOP, HIGH - BOTTOM, WIDE - RIGHT);
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", (LEFT + WIDE - RIGHT) / 2,
            HIGH - 8);
    put_escaped(f, x);
    fprintf(
        f,
        " </text><text x=\"14\" y=\"%d\" text-anchor=\"middle\" transform=\"rotate(-90 14 %d)\">",
        HIGH / 2, HIGH / 2);
    put_escaped(f, y);
    fprintf(f, " </text>\n");
}

static void close_chart(const chart *c) { fprintf(c->f, "</svg>\n"); }

static void put_label(const chart *c, double x, double y, const char *text) {
    fprintf(c->f, "<text x=\"%.1f\" y=\"%.1f\">", x, y);
    put_escaped(c->f, text);
    fprintf(c->f, " </text>\n");
}

static void put_line(const chart *c, const char *kind, const double *x, const double *y, int n,
                     const char *label) {
    if (n < 1) return;
    fprintf(c->f, "<path class=\"%s\" d=\"", kind);
    for (int k = 0; k < n; k++)
        fprintf(c->f, "%s%.1f %.1f", k ? "L" : "M", at_x(c, x[k]), at_y(c, y[k]));
    fprintf(c->f, "\"/>");
    put_label(c, at_x(c, x[n - 1]) + 6, at_y(c, y[n - 1]) + 4, label);
}

static void put_point(const chart *c, const char *kind, double x, double y, const char *title) {
    if (!(y > 0.0)) return;
    fprintf(c->f, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"><title>", kind, at_x(c, x),
            at_y(c, y));
    put_escaped(c->f, title);
    fprintf(c->f, "</title></circle>\n");
}

/* ==== the sections ===============================================================================
 */

static void put_machine(const bench *t) {
    FILE *f = t->f;
    const stax_machine *both[2] = {&t->one, &t->machine};
    fprintf(f, "<h2>1. The machine</h2>\n<p>");
    put_escaped(f, t->machine.cpu);
    fprintf(f,
            ". Capabilities are the best of several readings (P 13.1); of a copy both directions "
            "count. Writing is slower than reading because a line is fetched before it is written "
            "(write-allocate).</p>\n");
    open_table(f, "Bandwidth by level, GB/s",
               "level|KiB|threads|read|write|copy|peak GFLOP/s (f32)");
    for (int k = 0; k < (t->threads > 1 ? 2 : 1); k++)
        for (int l = 0; l < both[k]->n_levels; l++) {
            const stax_machine_level *x = &both[k]->levels[l];
            fprintf(f,
                    "<tr><td>%s</td> <td>%.0f</td> <td>%d</td> <td>%.1f</td> <td>%.1f</td> "
                    "<td>%.1f</td> <td>%.1f</td></tr>\n",
                    x->name, x->bytes / 1024.0, both[k]->threads, x->read * 1e-9, x->write * 1e-9,
                    x->copy * 1e-9, both[k]->flops * 1e-9);
        }
    close_table(f);
    if (!t->machine.is_measured)
        fprintf(f, "<p>These figures are assumed: measuring them failed.</p>\n");
}

static double speed_up(const case_result *r, int round) {
    return r->is_done[round] ? r->time[round][1].median / r->time[round][0].median : 0.0;
}

static double rho_of(const case_result *r) {
    return r->plan.bytes > 0.0 ? r->plan.eager_bytes / r->plan.bytes : 0.0;
}

/* "1.23 / 1.25", of the rounds that were measured. */
static void put_rounds(FILE *f, const case_result *r, const double *v, const char *format) {
    fprintf(f, "<td>");
    for (int k = 0; k < ROUNDS; k++) {
        if (k) fprintf(f, " / ");
        if (r->is_done[k])
            fprintf(f, format, v[k]);
        else
            fprintf(f, "-");
    }
    fprintf(f, "</td> ");
}

static const char *decision(const case_result *r) {
    const int faster = r->is_done[0] && r->is_done[1] ? stax_faster(r->difference, ROUNDS) : 0;
    return faster == 1 ? "compiled" : faster == 2 ? "op by op" : "not decided";
}

static void put_case_table(const bench *t, int table, const char *caption) {
    FILE *f = t->f;
    open_table(f, caption,
               "case|rho expected|rho|op by op, ms|C loops, ms|compiled, ms|S|beta op by op, "
               "GB/s|beta compiled|predicted, ms|of the roof|faster");
    for (int k = 0; k < N_CASES; k++) {
        const case_result *r = &t->results[k];
        double eager[ROUNDS], peer[ROUNDS], mine[ROUNDS], s[ROUNDS], be[ROUNDS], bc[ROUNDS],
            roof[ROUNDS];
        if (cases[k].table != table) continue;
        for (int i = 0; i < ROUNDS; i++) {
            mine[i] = r->time[i][0].median * 1e-6;
            eager[i] = r->time[i][1].median * 1e-6;
            peer[i] = r->time[i][2].median * 1e-6;
            s[i] = speed_up(r, i);
            be[i] = eager[i] > 0.0 ? r->plan.eager_bytes / eager[i] * 1e-6 : 0.0;
            bc[i] = mine[i] > 0.0 ? r->plan.bytes / mine[i] * 1e-6 : 0.0;
            roof[i] = mine[i] > 0.0 ? 100.0 * r->predicted_ns * 1e-6 / mine[i] : 0.0;
        }
        fprintf(f, "<tr><td>");
        put_escaped(f, cases[k].name);
        fprintf(f, "</td> <td>%.2f</td> <td>%.2f</td> ", cases[k].rho, rho_of(r));
        put_rounds(f, r, eager, "%.3g");
        if (r->has_peer)
            put_rounds(f, r, peer, "%.3g");
        else
            fprintf(f, "<td>-</td> ");
        put_rounds(f, r, mine, "%.3g");
        put_rounds(f, r, s, "%.2f");
        put_rounds(f, r, be, "%.1f");
        put_rounds(f, r, bc, "%.1f");
        fprintf(f, "<td>%.3g</td> ", r->predicted_ns * 1e-6);
        put_rounds(f, r, roof, "%.0f %%");
        fprintf(f, "<td>%s</td></tr>\n", decision(r));
    }
    close_table(f);
}

static void put_interval_table(const bench *t) {
    FILE *f = t->f;
    const double coverage =
        stax_interval_coverage(t->readings, stax_interval_rank(t->readings, 0.95),
                               t->readings + 1 - stax_interval_rank(t->readings, 0.95));
    char caption[160];
    snprintf(caption, sizeof caption,
             "Medians, %.1f %% intervals (ranks %d and %d of %d) and least readings, ms",
             100.0 * coverage, stax_interval_rank(t->readings, 0.95),
             t->readings + 1 - stax_interval_rank(t->readings, 0.95), t->readings);
    open_table(f, caption, "case|round|op by op|interval|least|compiled|interval|least");
    for (int k = 0; k < N_CASES; k++)
        for (int i = 0; i < ROUNDS; i++) {
            const case_result *r = &t->results[k];
            if (!r->is_done[i]) continue;
            fprintf(f, "<tr><td>");
            put_escaped(f, cases[k].name);
            fprintf(f, "</td> <td>%c</td> ", 'A' + i);
            for (int c = 1; c >= 0; c--) {
                const stax_sample *x = &r->time[i][c];
                fprintf(f, "<td>%.3f</td> <td>%.3f .. %.3f</td> <td>%.3f</td> ", x->median * 1e-6,
                        x->low * 1e-6, x->high * 1e-6, x->least * 1e-6);
            }
            fprintf(f, "</tr>\n");
        }
    close_table(f);
}

/* Figure 13.1. */
static void put_speed_ups(const bench *t) {
    const double line[2] = {0.5, 8.0};
    chart c = {t->f, 0.5, 8.0, 0.25, 8.0, true, true};
    open_chart(&c, "Measured speed-up S against the model's byte ratio rho", "rho (log)", "S (log)",
               2.0, 2.0);
    put_line(&c, "c", line, line, 2, "S = rho");
    for (int k = 0; k < N_CASES; k++)
        for (int i = 0; i < ROUNDS && cases[k].table < 3; i++) {
            char title[160];
            const double s = speed_up(&t->results[k], i);
            snprintf(title, sizeof title, "%s, round %c: rho %.2f, S %.2f", cases[k].name, 'A' + i,
                     rho_of(&t->results[k]), s);
            put_point(&c, i ? "dot" : "ring", rho_of(&t->results[k]), s, title);
        }
    put_label(&c, WIDE - RIGHT + 6, HIGH - BOTTOM - 24, "ring: round A");
    put_label(&c, WIDE - RIGHT + 6, HIGH - BOTTOM - 8, "disc: round B");
    close_chart(&c);
}

static double intensity_of(const case_result *r) {
    return r->plan.flops / (r->plan.bytes + r->plan.allocates);
}

static void put_roofline(const bench *t) {
    const stax_machine *m = &t->machine;
    chart c = {t->f, 0.0625, 256.0, 0.25, 1024.0, true, true};
    FILE *f = t->f;
    fprintf(f,
            "<h2>4. The roofline</h2>\n<p>Operations a byte (with write-allocate) and operations a "
            "second of the best round. A case cannot lie above its roof; those whose tensors are "
            "larger than every cache belong to the lowest one.</p>\n");
    while (c.y1 < m->flops * 1e-9) c.y1 *= 4.0;
    open_chart(&c, "Roofline", "FLOP / byte (log)", "GFLOP/s (log)", 4.0, 4.0);
    for (int l = 0; l < m->n_levels; l++) {
        const double rate = m->levels[l].read * 1e-9, peak = m->flops * 1e-9;
        double x[2], y[2];
        x[0] = c.x0 > c.y0 / rate ? c.x0 : c.y0 / rate;
        y[0] = x[0] * rate;
        x[1] = peak / rate < c.x1 ? peak / rate : c.x1;
        y[1] = x[1] * rate;
        if (x[1] > x[0]) put_line(&c, l + 1 == m->n_levels ? "a" : "c", x, y, 2, "");
        put_label(&c, at_x(&c, x[0]) + 4, at_y(&c, y[0]) - 6, m->levels[l].name);
    }
    {
        const double ridge = m->flops / m->levels[0].read, peak = m->flops * 1e-9;
        const double x[2] = {ridge > c.x0 ? ridge : c.x0, c.x1}, y[2] = {peak, peak};
        put_line(&c, "a", x, y, 2, "peak");
    }
    for (int k = 0; k < N_CASES; k++) {
        const case_result *r = &t->results[k];
        const double ns = r->is_done[1] && r->time[1][0].least < r->time[0][0].least
                              ? r->time[1][0].least
                              : r->time[0][0].least;
        char title[160];
        if (!r->is_done[0]) continue;
        snprintf(title, sizeof title, "%s: %.3g FLOP/byte, %.3g GFLOP/s", cases[k].name,
                 intensity_of(r), r->plan.flops / ns);
        put_point(&c, "dotb", intensity_of(r), r->plan.flops / ns, title);
    }
    close_chart(&c);
    open_table(f, "The same as figures",
               "case|bytes|with write-allocate|FLOPs|FLOP/byte|GFLOP/s|GB/s with "
               "write-allocate|bound by");
    for (int k = 0; k < N_CASES; k++) {
        const case_result *r = &t->results[k];
        const double ns = r->time[0][0].median;
        if (!r->is_done[0]) continue;
        fprintf(f, "<tr><td>");
        put_escaped(f, cases[k].name);
        fprintf(f,
                "</td> <td>%.4g</td> <td>%.4g</td> <td>%.4g</td> <td>%.3g</td> <td>%.3g</td> "
                "<td>%.3g</td> <td>%s</td></tr>\n",
                r->plan.bytes, r->plan.bytes + r->plan.allocates, r->plan.flops, intensity_of(r),
                r->plan.flops / ns, (r->plan.bytes + r->plan.allocates) / ns,
                r->is_peak ? "peak" : "bandwidth");
    }
    close_table(f);
}

static void put_sizes_section(const bench *t) {
    FILE *f = t->f;
    const stax_machine *m = &t->machine;
    double x[MOST_SIZES], y[MOST_SIZES];
    int n = 0;
    chart c = {f, 1024.0, 67108864.0, 0.0, 10.0, true, false};
    for (int k = 0; k < t->n_sizes; k++) {
        if (!t->sizes[k].is_done) continue;
        x[n] = t->sizes[k].elements;
        y[n] = t->sizes[k].ratio.median;
        if (y[n] > c.y1) c.y1 = 2.0 * ceil(y[n] / 2.0);
        n++;
    }
    fprintf(
        f,
        "<h2>5. The speed-up over sizes</h2>\n<p>The first case with rows of 1024 elements, from "
        "2^10 to 2^26 elements (lab 1). Op by op goes through two inputs and two intermediate "
        "tensors, 16 bytes an element; the compiled call through 8. Marks show where these 16 "
        "bytes fill a cache: between the two footprints the compiled call still finds its "
        "inputs there while the other does not, and the speed-up rises; behind both it settles "
        "at rho.</p>\n");
    open_chart(&c, "Speed-up over sizes", "elements (log)", "S", 4.0, 1.0);
    for (int l = 0; l + 1 < m->n_levels; l++) {
        const double at = m->levels[l].bytes / 16.0;
        const double lx[2] = {at, at}, ly[2] = {c.y0, c.y1};
        if (at < c.x0 || at > c.x1) continue;
        put_line(&c, "c", lx, ly, 2, m->levels[l].name);
    }
    put_line(&c, "a", x, y, n, "S");
    close_chart(&c);
    open_table(f, "The same as figures",
               "elements|op by op, us|compiled, us|S|interval of S|bytes op by op / compiled");
    for (int k = 0; k < t->n_sizes; k++) {
        const size_result *r = &t->sizes[k];
        if (!r->is_done) continue;
        fprintf(f,
                "<tr><td>2^%d</td> <td>%.4g</td> <td>%.4g</td> <td>%.2f</td> <td>%.2f .. %.2f</td> "
                "<td>%.4g / %.4g</td></tr>\n",
                10 + k, r->eager_ns * 1e-3, r->compiled_ns * 1e-3, r->ratio.median, r->ratio.low,
                r->ratio.high, 32.0 * r->elements + r->elements / 256.0,
                8.0 * r->elements + r->elements / 256.0);
    }
    close_table(f);
}

/* ---- rounding ---- */

static uint64_t mixed(uint64_t x) { /* splitmix64 */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static double unit(uint64_t *state) {
    return ((double)(mixed((*state)++) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *state) {
    const double u = unit(state), v = unit(state);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

/* Sums of n floats in `lanes` partial sums, merged in pairs; lanes = n: a tree. */
static float sum_in_lanes(const float *a, int n, int lanes, float *part) {
    for (int k = 0; k < lanes; k++) part[k] = a[k];
    for (int k = lanes; k < n; k++) part[k % lanes] += a[k];
    for (int w = lanes / 2; w > 0; w /= 2)
        for (int k = 0; k < w; k++) part[k] += part[k + w];
    return part[0];
}

typedef struct rounding {
    double deviation, largest, bound; /* of the error; the bound of 6.5, mean over rows */
} rounding;

enum { SUM_LENGTH = 2048, N_ORDERS = 4 };
static const stax_sum_mode order_modes[N_ORDERS] = {STAX_SUM_SEQUENTIAL, STAX_SUM_16, STAX_SUM_TREE,
                                                    STAX_SUM_STAX};
static const char *const order_names[N_ORDERS] = {"one after the other", "16 partial sums",
                                                  "a tree", "Stax (compiled)"};

/* Example 1.1: 2 relu(z), z of variance 2; example 7.1: of mean 0 and variance 1. */
static float term(int example, uint64_t *state) {
    const double z = normal(state);
    return (float)(example ? z : z > 0.0 ? 2.0 * sqrt(2.0) * z : 0.0);
}

static bool measure_rounding(const bench *t, int example, int rows, rounding out[N_ORDERS]) {
    static float part[SUM_LENGTH];
    const double u = ldexp(1.0, -24);
    uint64_t state = 12345;
    char text[24];
    float *a = t->b[0], *sums = t->b[5];
    snprintf(text, sizeof text, "%d", rows);
    stax_program *p =
        build(t, "graph g(x: f32[R,C]) { y = sum x {axes=[-1]}; return y }", text, "2048");
    for (long k = 0; k < (long)rows * SUM_LENGTH; k++) a[k] = term(example, &state);
    stax_tensor in = stax_tensor_of(STAX_F32, stax_shape2(rows, SUM_LENGTH), a),
                to = stax_tensor_of(STAX_F32, stax_shape1(rows), sums);
    memset(out, 0, N_ORDERS * sizeof *out);
    bool ok = p && stax_run(p, &in, &to) == STAX_OK;
    stax_program_free(p);
    for (int r = 0; r < rows && ok; r++) {
        const float *row = a + (long)r * SUM_LENGTH;
        double exact = 0.0, size = 0.0;
        for (int k = 0; k < SUM_LENGTH; k++) {
            exact += (double)row[k];
            size += fabs((double)row[k]);
        }
        for (int o = 0; o < N_ORDERS; o++) {
            const float s = o == 3 ? sums[r]
                                   : sum_in_lanes(row, SUM_LENGTH,
                                                  o == 0   ? 1
                                                  : o == 1 ? 16
                                                           : SUM_LENGTH,
                                                  part);
            const double error = fabs((double)s - exact);
            out[o].deviation += error * error / rows;
            out[o].largest = error > out[o].largest ? error : out[o].largest;
            out[o].bound += u * stax_sum_error_bound(SUM_LENGTH, order_modes[o]) * size / rows;
        }
    }
    for (int o = 0; o < N_ORDERS; o++) out[o].deviation = sqrt(out[o].deviation);
    return ok;
}

/* The closed form of C 13.1 for W partial sums, as a standard deviation. */
static double corollary(double n, double w, double mean, double deviation) {
    const double s2 = deviation * deviation,
                 lanes = n * n * n * mean * mean / (3.0 * w * w) + n * n * s2 / (2.0 * w),
                 tree = w > 1.0 ? 2.0 * n * n * mean * mean + n * s2 * log(w) / log(2.0) : 0.0;
    return ldexp(1.0, -24) * sqrt((lanes + tree) / 3.0);
}

static void put_rounding(const bench *t, bool measured, rounding found[2][N_ORDERS], int rows) {
    FILE *f = t->f;
    const double u = ldexp(1.0, -24), mean = 2.0 / sqrt(3.14159265358979);
    const double means[2] = {mean, 0.0}, deviations[2] = {sqrt(4.0 - mean * mean), 1.0};
    fprintf(
        f,
        "<h2>6. Rounding errors of sums</h2>\n<p>%d rows of %d f32 numbers, summed in four orders; "
        "the error is the difference to a sum in f64. Predicted: T 13.1, every addition with the "
        "second moment of its result; C 13.1: the closed form for W partial sums; the bound of 6.5 "
        "holds for every input. The model takes rounding errors as uniform in [-u, u], which is up "
        "to twice what they are.</p>\n",
        rows, SUM_LENGTH);
    if (!measured) {
        fprintf(f, "<p>Not measured.</p>\n");
        return;
    }
    for (int e = 0; e < 2; e++) {
        open_table(
            f,
            e ? "Terms of mean 0 and variance 1 (example 7.1)"
              : "Terms 2 relu(z), z of variance 2 (example 1.1)",
            "order|measured deviation|predicted (T 13.1)|C 13.1|measured / predicted|largest "
            "error|bound (6.5)|bound / largest");
        for (int o = 0; o < N_ORDERS; o++) {
            const rounding *r = &found[e][o];
            const double predicted =
                u * stax_sum_error_deviation(SUM_LENGTH, order_modes[o], means[e], deviations[e]);
            fprintf(f, "<tr><td>%s</td> <td>%.3g</td> <td>%.3g</td> ", order_names[o], r->deviation,
                    predicted);
            if (o < 2)
                fprintf(f, "<td>%.3g</td> ",
                        corollary(SUM_LENGTH, o ? 16.0 : 1.0, means[e], deviations[e]));
            else
                fprintf(f, "<td>-</td> ");
            fprintf(f, "<td>%.2f</td> <td>%.3g</td> <td>%.3g</td> <td>%.0f</td></tr>\n",
                    r->deviation / predicted, r->largest, r->bound,
                    r->largest > 0.0 ? r->bound / r->largest : 0.0);
        }
        close_table(f);
    }
    open_table(f, "Growth with n, predicted, in units of u times the deviation of a term (mean 0)",
               "n|one after the other|16 partial sums|a tree|Stax");
    for (int n = 256; n <= 1 << 24; n *= 16) {
        fprintf(f, "<tr><td>%d</td> ", n);
        for (int o = 0; o < N_ORDERS; o++)
            fprintf(f, "<td>%.4g</td> ", stax_sum_error_deviation(n, order_modes[o], 0.0, 1.0));
        fprintf(f, "</tr>\n");
    }
    close_table(f);
}

static void put_products(const bench *t) {
    FILE *f = t->f;
    const double n = 4096.0;
    fprintf(
        f,
        "<h2>7. Traffic of a product</h2>\n<p>A product of 4096 x 4096 matrices in f32 through a "
        "fast memory of S elements: no execution moves less than T 9.1 says; square tiles of "
        "results with 32 steps of their operands (exercise 25) move more, by the constant of "
        "the bound and by what the tile leaves unused of S (exercise 47).</p>\n");
    open_table(f, "Bytes between S and what lies behind it",
               "fast memory|S, elements|tile|at least (T 9.1)|in tiles|times the bound|FLOP/byte");
    for (int l = -1; l + 1 < t->machine.n_levels; l++) {
        const double s = l < 0 ? 48.0 * 1024.0 : t->machine.levels[l].bytes / 4.0;
        const int64_t fits = stax_io_tile(s, 32), tile = fits < 4096 ? fits : 4096;
        const double least = 4.0 * stax_io_lower_bound(n, n, n, s),
                     tiled = 4.0 * stax_io_tiled(n, n, n, (double)tile, (double)tile);
        fprintf(f,
                "<tr><td>%s</td> <td>%.0f</td> <td>%lld</td> <td>%.4g</td> <td>%.4g</td> "
                "<td>%.2f</td> <td>%.4g</td></tr>\n",
                l < 0 ? "exercise 25" : t->machine.levels[l].name, s, (long long)tile, least, tiled,
                tiled / least, 2.0 * n * n * n / tiled);
    }
    close_table(f);
}

static void put_method(const bench *t) {
    FILE *f = t->f;
    fprintf(
        f,
        "<h2>8. How this was measured</h2>\n<p>%d thread%s, %d readings a round after three "
        "warm-ups; readings of the contenders alternate, the order changes each time; calls "
        "shorter "
        "than 0.2 ms are repeated within a reading. The whole of tables 13.1 and 13.2 was measured "
        "in round A, then again in round B; what lies between the rounds is the size of systematic "
        "errors, so rounds are never mixed. Op by op is the same graph with a barrier behind every "
        "op, so each op is a kernel of Stax; a single op is therefore the same program twice, and "
        "its S says how far S strays from 1 by itself. \"Faster\" is decided only where the "
        "interval of the paired differences excludes 0 in both rounds, on the same side, and the "
        "rounds differ by less than the effect. Of the roof: the time that the roofline predicts, "
        "as a share of the measured one.</p>\n",
        t->threads, t->threads == 1 ? "" : "s", t->readings);
    if (t->library)
        fprintf(f,
                "<p>C loops: op by op in hand-written C, measured in the same alternation.</p>\n");
    else {
        fprintf(f, "<p>C loops were skipped: ");
        put_escaped(f, t->peers_why);
        fprintf(f, ".</p>\n");
    }
}

static bool write_page(bench *t, bool has_rounding, rounding found[2][N_ORDERS], int rows) {
    char temporary[1024];
    snprintf(temporary, sizeof temporary, "%s.new", t->out);
    FILE *f = t->f = fopen(temporary, "w");
    if (!f) {
        fprintf(stderr, "report: error: cannot write %s\n", temporary);
        return false;
    }
    fputs(page_start, f);
    fprintf(f, "<h1>Stax: models and measurements</h1>\n");
    if (t->quick)
        fprintf(
            f,
            "<p>Quick mode: tensors are 64 times smaller than the text's and stay in caches; these "
            "figures only show that the report works.</p>\n");
    if (cancelled) fprintf(f, "<p>Measuring was cancelled; what is missing shows as \"-\".</p>\n");
    fprintf(
        f,
        "<p>rho is the ratio of bytes that op-by-op and compiled execution move by the model; beta "
        "are bytes of the model a second; S = rho * beta compiled / beta op by op (P 13.3). Two "
        "numbers are rounds A / B.</p>\n");
    put_machine(t);
    fprintf(f, "<h2>2. Programs</h2>\n");
    put_case_table(t, 1, "Table 13.1");
    put_speed_ups(t);
    fprintf(f, "<h2>3. Single ops</h2>\n");
    put_case_table(t, 2, "Table 13.2");
    put_interval_table(t);
    put_roofline(t);
    put_sizes_section(t);
    put_rounding(t, has_rounding, found, rows);
    put_products(t);
    put_method(t);
    fprintf(f, "</body></html>\n");
    const bool ok = !ferror(f);
    if (fclose(f) != 0 || !ok || rename(temporary, t->out) != 0) {
        fprintf(stderr, "report: error: cannot write %s\n", t->out);
        return false;
    }
    fprintf(stderr, "report: wrote %s\n", t->out);
    return true;
}

/* ==== main =======================================================================================
 */

/* Quick: what is known already will do. */
static bool know_machine(const bench *t, int threads, stax_machine *m) {
    stax_machine_of(t->ctx, threads, m);
    return (t->quick && m->is_measured) || stax_machine_probe(t->ctx, threads, m) == STAX_OK;
}

static bool open_machine(bench *t) {
    stax_options o = stax_options_default();
    o.n_threads = t->threads > 0 ? t->threads : -1;
    o.strict = true;
    t->ctx = stax_open(&o);
    if (!t->ctx) return false;
    t->threads = stax_context_threads(t->ctx);
    fprintf(stderr, "report: %d thread%s; measuring takes about %s; Ctrl-C ends it early\n",
            t->threads, t->threads == 1 ? "" : "s", t->quick ? "ten seconds" : "two minutes");
    if (!know_machine(t, 1, &t->one) || !know_machine(t, t->threads, &t->machine)) {
        fprintf(stderr, "report: error: %s\n", stax_error(t->ctx));
        return false;
    }
    return true;
}

static void open_peers(bench *t) {
    if (!t->peers || !*t->peers) {
        snprintf(t->peers_why, sizeof t->peers_why, "no library of them was given (--peers)");
    } else {
        t->library = dlopen(t->peers, RTLD_NOW);
        if (!t->library)
            snprintf(t->peers_why, sizeof t->peers_why, "%s cannot be loaded", t->peers);
    }
    if (!t->library) fprintf(stderr, "report: C loops are skipped: %s\n", t->peers_why);
}

static bool open_buffers(bench *t) {
    t->floats = (size_t)(t->quick ? 1 << 19 : 1 << 26); /* the largest size; all tables need less */
    for (int k = 0; k < 9; k++) {
        const bool large = k < 2;
        const size_t n = large ? t->floats : t->quick ? (size_t)1 << 19 : (size_t)1 << 24;
        t->b[k] = (float *)malloc((n + 1024) * sizeof(float));
        if (!t->b[k]) {
            fprintf(stderr, "report: error: no memory for tensors\n");
            return false;
        }
        for (size_t i = 0; i < n + 1024; i++)
            t->b[k][i] = (float)((i * 2654435761u >> 8) % 4001) / 1000.0f - 2.0f;
    }
    return true;
}

static bool read_arguments(bench *t, int argc, char **argv) {
    t->out = "report.html";
    for (int k = 1; k < argc; k++) {
        if (strncmp(argv[k], "--out=", 6) == 0)
            t->out = argv[k] + 6;
        else if (strncmp(argv[k], "--peers=", 8) == 0)
            t->peers = argv[k] + 8;
        else if (strncmp(argv[k], "--threads=", 10) == 0 && atoi(argv[k] + 10) > 0)
            t->threads = atoi(argv[k] + 10);
        else if (strcmp(argv[k], "--quick") == 0)
            t->quick = true;
        else {
            fprintf(stderr,
                    "report: error: unknown argument %s\nusage: report [--out=FILE] [--threads=N] "
                    "[--quick] [--peers=LIBRARY]\n",
                    argv[k]);
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv) {
    static bench t;
    static rounding found[2][N_ORDERS];
    if (!read_arguments(&t, argc, argv)) return 2;
    t.readings = t.quick ? 7 : MOST_READINGS;
    t.n_sizes = t.quick ? 10 : MOST_SIZES;
    t.started = clock_ns();
    signal(SIGINT, cancel);
    bool ok = open_machine(&t) && open_buffers(&t);
    if (ok) open_peers(&t);
    for (int round = 0; round < ROUNDS && ok; round++)
        for (int k = 0; k < N_CASES && ok && !cancelled; k++) {
            char what[96];
            snprintf(what, sizeof what, "round %c: %s", 'A' + round, cases[k].name);
            progress(&t, what, round * N_CASES + k + 1, ROUNDS * N_CASES);
            ok = measure_case(&t, k, round);
        }
    if (ok && !cancelled) ok = measure_sizes(&t);
    const int rows = t.quick ? 200 : 8192;
    bool has_rounding = ok && !cancelled;
    for (int e = 0; e < 2 && has_rounding; e++) {
        progress(&t, "rounding errors", e + 1, 2);
        has_rounding = measure_rounding(&t, e, rows, found[e]);
    }
    if (ok) ok = write_page(&t, has_rounding, found, rows);
    if (t.library) dlclose(t.library);
    for (int k = 0; k < 9; k++) free(t.b[k]);
    stax_close(t.ctx);
    return ok ? 0 : 1;
}
