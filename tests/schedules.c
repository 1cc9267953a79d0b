/* The schedule language: text, the calls' meaning in loops, every refusal with its message, the C
   interface, and how scheduling grows. Programs are planned, not compiled (plan.h), but for a few.
   Then random legal schedules of random graphs are compared with the interpreter
   (random_schedules.inc).

       schedules [FILTER ...]        the tests whose names contain a FILTER; without one all of them, and 364
                                     random graphs
       schedules --count=N ...       random graphs alone, with the options of differential.c */
#define DIFFERENTIAL_MAIN differential_main
#define STAX_IMPLEMENTATION
#include "differential.c"

#include <stdio.h>
#include <time.h>

#include "feed.h"
#include "harness.h"
#include "plan.h"
#include "random.h"
#include "random_schedules.inc"

#define CORPUS "tests/corpus/"

static stax_context *ctx;

static stax_graph *graph_of(const char *text) {
    stax_graph *g = stax_parse(ctx, "graph", text);
    if (!CHECK(g != NULL)) printf("%s\n%s\n", text, stax_error(ctx));
    return g;
}

/* ---- text
 * ---------------------------------------------------------------------------------------- */

static void reads_as(const char *text, const char *want) {
    stax_schedule *s = stax_schedule_parse(ctx, "s", text);
    if (!CHECK(s != NULL)) {
        printf("%s\n%s\n", text, stax_error(ctx));
        return;
    }
    char *printed = stax_schedule_print(s);
    CHECK_TEXT(printed, want ? want : text);
    stax_free(ctx, printed);
    stax_schedule_free(s);
}

static void texts(void) {
    reads_as("", NULL);
    reads_as("schedule {\n}\n", NULL);
    reads_as(
        "schedule a {\n"
        "  compute_inline s3\n"
        "  reorder s4, i8, i7\n"
        "  compute_root s1\n"
        "  compute_root s2 {segment=1}\n"
        "  compute_at s5, s1 {segment=0}\n"
        "  compute_at s6, s1\n"
        "  fuse s1, i1, i2, i3\n"
        "  split s6, i3 {by=32}\n"
        "  split s6, i4 {by=32, tail=\"exact\"}\n"
        "  tile s6, i3_in, i4 {by=[8,16]}\n"
        "  unroll s6, i4_in {by=4}\n"
        "  vectorize s1, i4\n"
        "  parallel s1, i1\n"
        "  stream s4\n"
        "  prefetch s4, i9_in {distance=512}\n"
        "  ahead s1, i1_in {distance=2}\n"
        "  zip s1, s4\n"
        "  pipeline s1, i1\n"
        "  bind s1, i1\n"
        "  serial s4\n"
        "  tensorize s1 {by=[6,16]}\n"
        "  pack s1 {operand=0}\n"
        "  pack s1 {operand=1}\n"
        "  cache_write s6, i3_in\n"
        "  rfactor s7, i8, i9 {by=4096}\n"
        "}\n"
        "schedule a piece 2 {\n"
        "  serial s1\n"
        "}\n"
        "schedule piece 0 {\n"
        "}\n",
        NULL);
    reads_as(
        "# a comment\n\nschedule a { serial s1; fuse s1,i1,i2 # behind\n\n  split s1, i3 { "
        "tail=\"guard\", by=8 } }",
        "schedule a {\n  serial s1\n  fuse s1, i1, i2\n  split s1, i3 {by=8}\n}\n");
    reads_as("schedule piece {\n}\n", NULL); /* a graph of that name */
}

typedef struct bad_text {
    const char *text, *place, *says;
} bad_text;

static void syntax_errors(void) {
    static const bad_text bad[] = {
        {"graph a() {}", "s:1:1:", "expected schedule"},
        {"schedule a", "s:1:11:", "expected '{'"},
        {"schedule a {\n  serial s1", "s:2:12:", "found end of file"},
        {"schedule a { serial s1 } }", "s:1:26:", "expected schedule, found '}'"},
        {"schedule a piece {", "s:1:18:", "the number of a piece"},
        {"schedule {\n  sort s1\n}", "s:2:3:", "expected a primitive"},
        {"schedule {\n  serial\n}", "s:2:9:", "expected a stage"},
        {"schedule {\n  serial i1\n}", "s:2:10:", "expected a stage"},
        {"schedule {\n  serial s0\n}", "s:2:10:", "expected a stage"},
        {"schedule {\n  serial s01\n}", "s:2:10:", "expected a stage"},
        {"schedule {\n  serial s99999999999\n}", "s:2:10:", "expected a stage"},
        {"schedule {\n  compute_at s1\n}", "s:2:16:", "expected ','"},
        {"schedule {\n  vectorize s1\n}", "s:2:15:", "expected ','"},
        {"schedule {\n  vectorize s1, s2\n}", "s:2:17:", "expected a loop"},
        {"schedule {\n  vectorize s1, i2, i3\n}", "s:2:19:", "expected the end of the line"},
        {"schedule {\n  fuse s1, i2\n}", "s:2:14:", "expected ','"},
        {"schedule {\n  split s1, i2\n}", "s:2:3:", "expected by, like {by=8}"},
        {"schedule {\n  split s1, i2 {by=1}\n}", "s:2:20:", "expected at least 2, found 1"},
        {"schedule {\n  split s1, i2 {by=[4,4]}\n}", "s:2:20:", "expected a number"},
        {"schedule {\n  split s1, i2 {by=4, by=4}\n}", "s:2:23:", "by is given twice"},
        {"schedule {\n  split s1, i2 {by=4, tail=\"shift\"}\n}",
         "s:2:28:", "\"guard\" or \"exact\""},
        {"schedule {\n  prefetch s1, i2\n}", "s:2:3:", "expected distance, like {distance=512}"},
        {"schedule {\n  prefetch s1, i2 {distance=0}\n}",
         "s:2:29:", "expected at least 1, found 0"},
        {"schedule {\n  ahead s1, i2\n}", "s:2:3:", "expected distance, like {distance=512}"},
        {"schedule {\n  ahead s1, i2 {distance=0}\n}", "s:2:26:", "expected at least 1, found 0"},
        {"schedule {\n  zip s1\n}", "s:2:9:", "expected ','"},
        {"schedule {\n  zip s1, s2 {distance=1}\n}", "s:2:15:", "it has no attributes"},
        {"schedule {\n  tile s1, i2, i3 {by=4}\n}", "s:2:23:", "expected '['"},
        {"schedule {\n  tile s1, i2, i3\n}", "s:2:3:", "expected by, like {by=[8,8]}"},
        {"schedule {\n  serial s1 {by=4}\n}", "s:2:14:", "it has no attributes"},
        {"schedule {\n  compute_at s1, s2 {by=4}\n}", "s:2:22:", "expected segment"},
        {"schedule {\n  tensorize s1\n}", "s:2:3:", "expected by, like {by=[8,8]}"},
        {"schedule {\n  tensorize s1 {by=8}\n}", "s:2:20:", "expected '['"},
        {"schedule {\n  tensorize s1, i1 {by=[6,16]}\n}", "s:2:3:", "expected by, like {by=[8,8]}"},
        {"schedule {\n  pack s1\n}", "s:2:3:", "expected operand, like {operand=0}"},
        {"schedule {\n  pack s1 {by=2}\n}", "s:2:12:", "expected operand"},
        {"schedule {\n  pack s1 {operand=2}\n}", "s:2:20:", "expected at most 1, found 2"},
        {"schedule {\n  pack s1 {operand=-1}\n}", "s:2:20:", "expected at least 0, found -1"},
        {"schedule {\n  pack s1 {operand=0, operand=1}\n}", "s:2:23:", "operand is given twice"},
        {"schedule {\n  rfactor s1, i1\n}", "s:2:3:", "expected by, like {by=8}"},
        {"schedule {\n  cache_write s1\n}", "s:2:17:", "expected ','"},
        {"schedule {\n  cache_write s1, i1 {by=2}\n}", "s:2:23:", "it has no attributes"},
        {"schedule {\n  compute_at s1, s2 {segment=-1}\n}",
         "s:2:30:", "expected at least 0, found -1"},
    };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        stax_schedule *s = stax_schedule_parse(ctx, "s", bad[k].text);
        if (!CHECK(s == NULL)) printf("%s\n", bad[k].text);
        CHECK_INT(stax_error_status(ctx) == STAX_E_SYNTAX ||
                      stax_error_status(ctx) == STAX_E_NAME ||
                      stax_error_status(ctx) == STAX_E_ARGUMENT,
                  1);
        CHECK_HAS(stax_error(ctx), bad[k].place);
        CHECK_HAS(stax_error(ctx), bad[k].says);
        stax_schedule_free(s);
    }
}

static void what_is_not_built_is_refused_by_name(void) {
    static const char *const names[] = {"skew", "store_at", "fold"};
    char text[80], says[80], *all = stax_primitives_text(ctx);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        snprintf(text, sizeof text, "schedule {\n  %s s1, i1\n}\n", names[k]);
        snprintf(says, sizeof says, "s:2:3: error: %s: this primitive is not built", names[k]);
        CHECK(stax_schedule_parse(ctx, "s", text) == NULL);
        CHECK_INT(stax_error_status(ctx), STAX_E_NOT_BUILT);
        CHECK_HAS(stax_error(ctx), says);
        CHECK_HAS(all, names[k]);
    }
    CHECK_HAS(all, "split stage, loop {by, tail}: a loop becomes");
    CHECK_HAS(all, "compute_at stage, stage {segment}: ");
    CHECK_HAS(all, "tensorize stage {by}: the innermost tile of a contraction");
    CHECK_HAS(all, "pack stage {operand}: an operand of micro-kernels");
    CHECK_HAS(all, "cache_write stage, loop: the results in this loop");
    CHECK_HAS(all, "rfactor stage, loop, ... {by}: all reduced loops are cut");
    stax_free(ctx, all);
}

static void calls_one_by_one(void) {
    stax_schedule *s = stax_schedule_new(ctx, "a");
    CHECK_INT(stax_schedule_add(s, "compute_root s1"), STAX_OK);
    CHECK_INT(stax_schedule_add(s, "compute_root s2"), STAX_OK);
    CHECK_INT(stax_schedule_add(s, "reorder s2, i1, i2"), STAX_OK);
    CHECK_INT(stax_schedule_add(s, "vectorize s1, i4"), STAX_OK);
    CHECK_INT(stax_schedule_add(s, "compute_at s1, s2 {segment=1}"),
              STAX_OK); /* instead of the first */
    CHECK_INT(stax_schedule_add(s, "compute_inline s2"), STAX_OK);
    CHECK_INT(stax_schedule_add(s, "reorder s2, i2, i1"), STAX_OK);
    CHECK_INT(stax_schedule_add(s, "vectorise s1, i4"), STAX_E_SYNTAX);
    CHECK_HAS(stax_error(ctx), "schedule:1:1: error: syntax: expected a primitive");
    CHECK_INT(stax_schedule_add(s, "serial s1\nserial s2"), STAX_E_SYNTAX);
    CHECK_INT(stax_schedule_add(s, "skew s1, i1"), STAX_E_NOT_BUILT);
    CHECK_INT(stax_schedule_add(s, NULL), STAX_E_ARGUMENT);
    CHECK_INT(stax_schedule_add(NULL, "serial s1"), STAX_E_ARGUMENT);
    char *text = stax_schedule_print(s);
    CHECK_TEXT(
        text,
        "schedule a {\n  compute_at s1, s2 {segment=1}\n  compute_inline s2\n  reorder s2, i2, i1\n"
        "  vectorize s1, i4\n}\n");
    stax_free(ctx, text);
    stax_schedule_free(s);
    stax_schedule_free(NULL);
    CHECK(stax_schedule_print(NULL) == NULL);
    CHECK(stax_program_schedule(NULL) == NULL);
}

/* ---- the automatic schedule, printed and applied
 * --------------------------------------------------- */

static int planned, with_pieces;

/* All graphs of a file: the printed schedule gives the same C, and prints as itself. */
static void file_round_trip(const char *path) {
    char *text = NULL;
    FILE *f = fopen(path, "rb");
    size_t n_graphs = 0;
    if (!CHECK(f != NULL)) return;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    text = (char *)malloc((size_t)n + 1);
    if (text) text[fread(text, 1, (size_t)n, f)] = 0;
    fclose(f);
    stax_graph **graphs = staxi_parse_all(ctx, path, text, &n_graphs);
    for (size_t k = 0; k < n_graphs; k++) {
        plan a, b;
        plan_make(&a, ctx, graphs[k], NULL, 1);
        if (a.status != STAX_OK) { /* a size that nothing binds, for example: no compiled program */
            plan_free(&a);
            continue;
        }
        plan_make_text(&b, ctx, graphs[k], a.schedule, 1);
        if (!CHECK_INT(b.status, STAX_OK)) printf("%s: %s\n", path, stax_error(ctx));
        CHECK_TEXT(b.schedule, a.schedule);
        if (!CHECK(a.c && b.c && strcmp(a.c, b.c) == 0))
            printf("%s: %s: other C\n", path, stax_graph_get_name(graphs[k]));
        planned++;
        with_pieces += strstr(a.schedule, " piece ") != NULL;
        plan_free(&a);
        plan_free(&b);
    }
    staxi_parse_list_free(ctx, graphs, n_graphs);
    free(text);
}

static void automatic_schedules_read_back(void) {
    char line[400], path[500];
    FILE *f = fopen(CORPUS "list.txt", "r");
    planned = with_pieces = 0;
    CHECK(f != NULL);
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        snprintf(path, sizeof path, CORPUS "%s", line);
        if (strncmp(line, "good/", 5) == 0) file_round_trip(path);
    }
    if (f) fclose(f);
    printf("%d graphs, %d of them in pieces\n", planned, with_pieces);
    CHECK(planned > 50 && with_pieces > 2);
}

/* ---- what calls do
 * --------------------------------------------------------------------------------- */

static const char two_uses[] =
    "graph g(x: f32[37,50], y: f32[50]) {\n"
    "  a = add x, y; e = exp a; t = transpose e; u = sqrt t; m = mul e, 2.0\n"
    "  return u, m\n}\n"; /* s1 e, s2 u, s3 m */
static const char rows[] =
    "graph g(x: f32[12,40,7]) {\n"
    "  m = max x {axes=[2], keepdims=true}; d = sub x, m; e = exp d\n"
    "  s = sum e {axes=[2]}\n  return s, e\n}\n";

static const char unequal[] =
    "graph g(x: f32[9,40], y: f32[9,50]) { s = sum x {axes=[1], keepdims=true}; z = div y, s; "
    "return z }\n";
static const char softmax[] = "graph g(x: f32[n,100]) { y = softmax x; return y }\n";

typedef struct meaning {
    const char *graph, *calls, *loops; /* loops: parts of the trees that must be there, by | */
} meaning;

static void has_parts(const char *text, const char *parts) {
    char part[200];
    while (*parts) {
        size_t n = strcspn(parts, "|");
        snprintf(part, sizeof part, "%.*s", (int)n, parts);
        CHECK_HAS(text, part);
        parts += n + (parts[n] == '|');
    }
}

/* Outputs larger than caches, which nothing reads again. */
static void large_outputs_are_streamed(void) {
    plan p;
    stax_graph *g = graph_of(
        "graph g(x: f32[4096,4096], y: i32[4096,4096], z: f32[64,64]) {\n"
        "  a = exp x; b = add y, 1; c = exp z; d = sin x; e = sum d {axes=[1]}; f = cos x; h = sum "
        "f {axes=[0]}\n"
        "  return a, b, c, d, e, f, h\n}\n");
    static const char *const outputs[] = {"exp map over [i9 ", "sin map ", "cos map ", "add map ",
                                          "exp map over [i13 "};
    if (!g) return;
    plan_make(&p, ctx, g, NULL, 1);
    for (int k = 0; k < 5; k++) { /* a and d; f is read by another kernel, b and c are not for it */
        char want[40];
        const char *at = p.schedule;
        int stage = 0;
        for (const char *line = at; line;
             line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
            const char *name = strstr(line, outputs[k]), *end = strchr(line, '\n');
            if (name && name < end) stage = atoi(strstr(line, " s") + 2);
        }
        snprintf(want, sizeof want, "  stream s%d\n", stage);
        CHECK(stage > 0);
        if (!CHECK((strstr(p.schedule, want) != NULL) == (k < 2)))
            printf("%s\n%s\n", outputs[k], p.schedule);
    }
    plan_free(&p);
    stax_graph_free(g);
}

/* Rows by the thousand run their nests one row apart, short ones two; few, huge or scalar ones do
   not. */
static void rows_run_apart(void) {
    static const struct {
        const char *graph, *call; /* call NULL: no nest runs ahead */
    } list[] = {
        {"(x: f32[8192,2048]) { s = sum x {axes=[1], keepdims=true}; y = div x, s; return y }",
         "  ahead s1, i1 {distance=1}\n  zip s1, s2\n"},
        {"(x: f32[n,m]) { y = softmax x; return y }",
         "  ahead s1, i1 {distance=2}\n  ahead s2, i3 {distance=1}\n  zip s1, s2\n  zip s1, s4\n"},
        {"(x: f64[512,300]) { y = layer_norm x {axes=[-1]}; return y }",
         "  ahead s1, i1 {distance=2}\n  ahead s2, i3 {distance=1}\n  zip s1, s2\n  zip s1, s3\n"},
        {"(x: f32[4096,64]) { y = softmax x; return y }",
         "  ahead s1, i1 {distance=4}\n  ahead s2, i3 {distance=2}\n  zip s1, s2\n  zip s1, s4\n"},
        {"(x: f32[8,90000]) { y = softmax x; return y }", NULL},
        {"(x: f32[64,1000000]) { y = softmax x; return y }", NULL},
        {"(x: f32[40,40]) { y = softmax x; return y }", NULL},
        {"(x: i32[8192,2048]) { s = sum x {axes=[1], keepdims=true}; y = add x, s; return y }",
         NULL},
        {"(x: f32[8192,2048], w: f32[8192,100]) { s = sum x {axes=[1], keepdims=true}; y = div w, "
         "s; "
         "return y }",
         NULL},
    };
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        char text[300];
        plan p;
        snprintf(text, sizeof text, "graph g%s\n", list[k].graph);
        stax_graph *g = graph_of(text);
        if (!g) return;
        plan_make(&p, ctx, g, NULL, 1);
        CHECK(p.schedule && (strstr(p.schedule, "  ahead ") != NULL) == (list[k].call != NULL));
        if (list[k].call) CHECK_HAS(p.schedule, list[k].call);
        plan_free(&p);
        stax_graph_free(g);
    }
}

static void calls_do_what_they_say(void) {
    static const char plain[] = "graph g(x: f32[30,40]) { y = exp x; return y }\n";
    static const char turned[] =
        "graph g(x: f32[30,40]) { t = transpose x; y = exp t; return y }\n";
    static const char pixels[] =
        "graph g(x: f32[3,30,50]) { t = permute x {axes=[1,2,0]}; y = exp t; return y }\n";
    static const char cube[] = "graph g(x: f32[4,5,6]) { y = exp x; return y }\n";
    static const char sums[] = "graph g(x: i32[6,8,10]) { y = sum x {axes=[0,2]}; return y }\n";
    static const char floats[] = "graph g(x: f32[8,10]) { y = sum x {axes=[0]}; return y }\n";
    static const char pair[] =
        "graph g(x: f32[700], y: f32[700]) { a = sum x; b = sum y; return a, b }\n";
    static const meaning list[] = {
        {plain, "", "parallel vector i3 in 0..1200"},
        {plain, "serial s1", "\n  for i1 in 0..30\n    vector i2 in 0..40"},
        {plain, "parallel s1, i1", "parallel for i1 in 0..30"},
        {plain, "fuse s1, i1, i2", "vector i3 in 0..1200"},
        {plain, "reorder s1, i2, i1\nserial s1", "\n  for i2 in 0..40\n    vector i1 in 0..30"},
        {plain, "prefetch s1, i2 {distance=100}", "in 0..40"},
        {plain, "stream s1\nvectorize s1, i2", "vector i2 in 0..40"},
        {plain, "split s1, i2 {by=8}", "in 0..30|in 0..5|in 0..8"},
        {plain, "split s1, i2 {by=8, tail=\"exact\"}", "in 0..5|in 0..8"},
        {plain, "split s1, i2 {by=7}", "in 0..6|in 0..min(7, "},
        {plain, "fuse s1, i1, i2\nsplit s1, i1 {by=100}\nvectorize s1, i1_in\nparallel s1, i1",
         "parallel for i4 in 0..12|vector i5 in 0..100"},
        {plain, "tile s1, i1, i2 {by=[10,8]}\nparallel s1, i1",
         "parallel for i5 in 0..3|for i3 in 0..5|for i6 in 0..10|vector i4 in 0..8"},
        {plain, "tile s1, i2, i1 {by=[10,8]}\nparallel s1, i2, i1",
         "parallel for i7 in 0..16 as [i3 < 4, i5 < 4]|for i6 in 0..|vector i4 in 0..10"},
        {turned, "",
         "parallel for i7 in 0..3 as [i3 < 1, i5 < 3]|b3[i6, i4] = b1[i4, i5*16 + i6] for [i6"},
        {turned, "tile s1, i1, i2 {by=[8,20]}\ncache_read s1, i1_in\nvectorize s1, i2_in",
         "for i5 in 0..|for i3 in 0..|= b1[|for [i6 < 8] [i4 < min(20"},
        {pixels, "",
         "parallel for i9 in 0..2 as [i5 < 2, i7 < 1]|for i8 in 0..3\n      vector i6 in 0.."},
        {pixels, "reorder s1, i1, i2, i3", "parallel vector i4 in 0..1500\n    for i3 in 0..3"},
        {pixels, "reorder s1, i1, i2, i3\nvectorize s1, i3",
         "\n  for i1 in 0..30\n    for i2 in 0..50\n      vector i3 in 0..3"},
        {pixels, "reorder s1, i1, i2, i3\nvectorize s1, i2\nparallel s1, i1",
         "parallel for i1 in 0..30\n    vector i2 in 0..50\n      for i3 in 0..3"},
        {cube, "tile s1, i1, i3 {by=[2,3]}", "for i2 in 0..5|for i6 in 0..2|for i4 in 0..2|"},
        {turned,
         "reorder s1, i2, i1\ntile s1, i2, i1 {by=[16,12]}\ncache_write s1, i2_in\nvectorize s1, "
         "i1_in",
         "for i6 in 0..|vector i4 in 0..|b3[i4 + i6*|exp(b1[|b2[|] = b3[i6, i4] for [i6 < "},
        {turned, "reorder s1, i2, i1\nvectorize s1, i1\nparallel s1, i2",
         "parallel for i2 in 0..30|vector i1 in 0..40"},
        {sums, "reorder s1, i1, i3, i2", "reduce [i3 < 10, i2 < 6]"},
        {floats, "", "reduce columns [i2 < 8] across [i1 < 10]"},
        /* exercise 21: both outer loops are shared out, for 8 threads and for 64 */
        {"graph g(x: f32[4,4096,16]) { y = sum x {axes=[2]}; return y }\n", "",
         "parallel vector i4 in 0..16384|reduce [i3 < 16]"},
        {floats, "reorder s1, i1, i2", "parallel for i1 in 0..10\n    reduce [i2 < 8]"},
        {two_uses, "", "kernel 0\n  parallel |kernel 1\n"},
        {two_uses, "compute_inline s1", "exp(add("},
        {two_uses,
         "reorder s1, i2, i1\ncompute_root s1\nreorder s3, i6, i5\ncompute_at s2, s1\ncompute_at "
         "s3, s1",
         "kernel 0\n  parallel for i11 in 0..8 as [i7 < 2, i9 < 4]"},
        {rows, "compute_at s2, s1 {segment=1}\ncompute_at s3, s1 {segment=1}", "reduce |r1 = max"},
        {rows, "compute_root s1\ncompute_root s2\ncompute_root s3", "kernel 0|kernel 1|kernel 2"},
        {rows, "vectorize s1, i2\nparallel s1, i1",
         "for i1 in 0..12\n    vector i2 in 0..40\n      reduce "},
        {rows, "split s1, i1 {by=5}\nvectorize s1, i3\nvectorize s2, i6\nparallel s1, i1",
         "parallel for |in 0..min(5, "},
        {softmax, "ahead s1, i1 {distance=2}\nahead s3, i5 {distance=1}\nzip s1, s2\nzip s1, s4",
         "for i1 in 0..n\n    zip\n      ahead 2\n        reduce |      ahead 1\n        reduce "
         "|\n          b3[i4 + (i1 % 2)*112] = |      ahead 0\n        vector "},
        {softmax, "ahead s1, i1 {distance=1}\nahead s3, i5 {distance=1}\nparallel s1, i1",
         "parallel for i1 in 0..n\n    ahead 1\n      reduce |\n    ahead 0\n      vector "},
        {softmax, "ahead s1, i1 {distance=3}\nahead s2, i3 {distance=3}\nzip s2, s4",
         "    ahead 3\n      reduce |\n    zip\n      ahead 3\n        reduce | % 4)"},
        {softmax,
         "split s1, i1 {by=8}\nahead s1, i1_in {distance=2}\n"
         "ahead s2, i3_in {distance=1}\nzip s4, s1",
         "in 0..min(8, |zip"},
        {rows, "zip s1, s2\nahead s1, i1 {distance=1}\nfuse s1, i1, i2",
         " in 0..480\n    zip\n      ahead 1\n"},
        {softmax, "pipeline s1, i1",
         "    zip\n      ahead 4\n        reduce |      ahead 2\n        reduce |      ahead 0\n"},
        {unequal, "pipeline s1, i1",
         "    ahead 2\n      reduce [i2 < 40]|    ahead 0\n      vector i4 in 0..50"},
        {"graph g(x: f32[9000,3]) { y = sum x {axes=[0]}; z = exp y; return z }\n",
         "rfactor s1, i2 {by=4096}",
         "kernel 0\n  parallel for i|sum select(|, -0.0)|kernel 1\n|r1 = sum b"},
        {"graph g(x: i32[60,10]) { y = sum x; return y }\n",
         "rfactor s1, i1, i2 {by=50}\nparallel s2, i3",
         "parallel for i3 in 0..12\n    reduce [i4 < 50]|r2 = sum cast(b1[i3*5 + i4 // 10, i4 % "
         "10], i64)|[i5 < 12]"},
        {pair, "compute_root s1\ncompute_at s2, s1 {segment=1}\nzip s1, s2",
         "kernel 0\n  reduce [i1 < 700]|\n    r1 = sum b1[i1]|\n    r2 = sum b2[i1]"},
    };
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        char text[500];
        plan p, again;
        stax_graph *g = graph_of(list[k].graph);
        if (!g) return;
        snprintf(text, sizeof text, "schedule g {\n%s\n}\n", list[k].calls);
        plan_make_text(&p, ctx, g, text, 1);
        if (!CHECK_INT(p.status, STAX_OK)) printf("%s: %s\n", list[k].calls, stax_error(ctx));
        if (p.status == STAX_OK) {
            has_parts(p.loops, list[k].loops);
            plan_make_text(&again, ctx, g, p.schedule, 1);
            CHECK_TEXT(again.schedule, p.schedule);
            CHECK(again.c && p.c && strcmp(again.c, p.c) == 0);
            plan_free(&again);
        }
        plan_free(&p);
        stax_graph_free(g);
    }
}

/* ---- what is refused, and how
 * ------------------------------------------------------------------------ */

typedef struct refusal {
    const char *graph, *calls, *says; /* says: parts by | */
} refusal;

static void all_refused(const refusal *list, size_t n_list) {
    for (size_t k = 0; k < n_list; k++) {
        char text[500];
        const char *says = list[k].says;
        plan p;
        stax_graph *g = graph_of(list[k].graph);
        if (!g) return;
        snprintf(text, sizeof text, "schedule g {\n%s\n}\n", list[k].calls);
        plan_make_text(&p, ctx, g, text, 0);
        if (!CHECK_INT(p.status, STAX_E_SCHEDULE))
            printf("%s%s\n%s\n", list[k].graph, list[k].calls,
                   p.schedule ? p.schedule : stax_error(ctx));
        CHECK_HAS(stax_error(ctx), "edited:");
        CHECK_HAS(stax_error(ctx), ": error: ");
        bool any = false; /* of two parts that are reasons, one */
        while (*says && !any) {
            char part[300];
            size_t n = strcspn(says, "|");
            snprintf(part, sizeof part, "%.*s", (int)n, says);
            any = strstr(stax_error(ctx), part) != NULL;
            says += n + (says[n] == '|');
        }
        if (!CHECK(any))
            printf("%s\n    expected %s\n    found %s\n", list[k].calls, list[k].says,
                   stax_error(ctx));
        plan_free(&p);
        stax_graph_free(g);
    }
}

static void refusals(void) {
    /* exercise 17: a -> c -> b and a -> b, c being a barrier-like reduction of everything */
    static const char path[] =
        "graph g(x: f32[8,8]) {\n  a = exp x; s = sum a; b = div a, s; c = mul a, 2.0\n  return b, "
        "c, s\n}\n";
    /* exercises 19 and 33: B[i + 1] and B[i - 1] */
    static const char later[] =
        "graph g(x: f32[10]) {\n  b = exp x; l = slice b {starts=[1], stops=[10]}; c = pad l "
        "{low=[0], high=[1], value=0.0}\n"
        "  d = add c, 1.0\n  return b, d\n}\n";
    static const char earlier[] =
        "graph g(x: f32[10]) {\n  b = exp x; l = slice b {starts=[0], stops=[9]}; c = pad l "
        "{low=[1], high=[0], value=0.0}\n"
        "  d = add c, 1.0\n  return b, d\n}\n";
    static const char plain[] = "graph g(x: f32[30,40]) { y = exp x; return y }\n";
    static const char sized[] = "graph g(x: f32[n]) { y = exp x; return y }\n";
    static const char sums[] = "graph g(x: f32[6,8,10]) { y = sum x {axes=[0,2]}; return y }\n";
    static const char most[] =
        "graph g(x: f32[6,8]) { y = argmax x {axis=0}; z = max x {axes=[0]}; return y, z }\n";
    static const char index[] =
        "graph g(x: f32[9], i: i64[5]) { y = gather x, i; z = exp x; return z, y }\n";
    static const char sorted[] = "graph g(x: f32[6,9]) { y = sort x; z = exp x; return y, z }\n";
    static const char fenced[] =
        "graph g(x: f32[9]) { a = exp x; b = barrier a; y = mul b, 2.0; return y, b }\n";
    static const char state[] =
        "graph g(inout p: f32[9]) { a = exp p; s = sum a; q = mul a, 2.0; r = add q, 1.0; assign "
        "p, r; z = add a, s; return z }\n";
    static const char long_sums[] = "graph g(x: f32[9000]) { y = sum x; return y }\n";
    static const char few[] = "graph g(x: f32[6,8,10]) { y = sum x {axes=[1,2]}; return y }\n";
    static const char unfused[] =
        "graph g(a: f32[9,16], b: f32[16,9]) {contraction=\"unfused\"} { c = matmul a, b; return c }\n";
    static const char product[] =
        "graph g(a: f32[9,9000], b: f32[9000,9]) { c = matmul a, b; return c }\n";
    static const char scanned[] =
        "graph g(x: f32[9,8]) { a = cumsum x {axis=1}; y = cumsum a {axis=1}; return y }\n";
    static const char ints[] = "graph g(x: i32[9,4]) { y = add x, 1; return y }\n";
    static const char monoid[] =
        "graph g(x: f32[9,40]) { s = sum x {axes=[1], keepdims=true, compensated=true}; z = div x, "
        "s; return z }\n";
    static const refusal list[] = {
        {plain, "serial s2", "serial s2: there is no stage s2: expected s1 to s1"},
        {plain, "pad_rows s1 {by=16}", "it stores an output or a state"},
        {scanned, "pad_rows s1 {by=4}\npad_rows s1 {by=4}", "another one before"},
        {"graph g(x: f32[9,80]) { y = softmax x; return y }\n", "pad_rows s2 {by=4}",
         "only its own kernel reads it: it has no rows in the workspace"},
        {"graph g(x: f32[90]) { a = cumsum x {axis=0}; y = cumsum a {axis=0}; return y }\n",
         "pad_rows s1 {by=4}", "its results have no rows"},
        {plain, "compute_at s1, s5", "there is no stage s5"},
        {plain, "compute_root s1\ncompute_inline s1", "edited:2:1: |another one before"},
        {plain, "reorder s1, i1, i2\nreorder s1, i2, i1", "another one before"},
        {plain, "compute_inline s1", "it stores an output or a state"},
        {plain, "compute_at s1, s1", "placed at each other"},
        {plain, "reorder s1, i1", "expected all loops of the stage: i1 and i2"},
        {plain, "reorder s1, i1, i1", "i1 is not a loop of the stage, or named twice"},
        {plain, "reorder s1, i1, i9", "i9 is not a loop of the stage"},
        {plain, "vectorize s1, i1", "rows of at most 16 elements, with nothing else said of them"},
        {plain, "vectorize s1, i9", "i9 is not a loop of the stage: its loops are i1 and i2"},
        {plain, "parallel s1, i2", "only the outermost loop can be cut into slots: i1"},
        {plain, "split s1, i2 {by=7, tail=\"exact\"}",
         "i2 is not known to be a multiple of 7: its extent is 40"},
        {sized, "split s1, i1 {by=8, tail=\"exact\"}", "its extent is n"},
        {plain, "split s1, i2 {by=8}\nsplit s1, i2 {by=4}", "this has been said before"},
        {plain, "split s1, i2 {by=8}\ntile s1, i1, i2 {by=[4,4]}", "i2 is split already"},
        {plain, "tile s1, i2, i2 {by=[4,4]}", "expected two loops, found one twice"},
        {plain, "tile s1, i1, i2 {by=[4,4]}\nparallel s1, i1, i1_in",
         "i1_in: expected the outermost"},
        {plain, "parallel s1, i1, i2", "and at least one more inside them"},
        {plain, "tile s1, i1, i2 {by=[4,4]}\nparallel s1, i1, i2\nunroll s1, i2 {by=2}",
         "it is cut as one with other loops"},
        {plain, "tile s1, i1, i2 {by=[4,4]}\ncache_read s1, i1_in",
         "nothing is read in every iteration that lies along i1_in and not along i2_in"},
        {plain, "cache_read s1, i1", "i1 is not the outer loop of a tile that stands innermost"},
        {plain, "tile s1, i1, i2 {by=[4,4]}\ncache_read s1, i2_in",
         "i2_in is not the outer loop of a tile"},
        {sums, "cache_read s1, i2", "a reduction's loops keep its order"},
        {plain, "tile s1, i1, i2 {by=[4,4]}\ncache_write s1, i1_in",
         "nothing is stored there that lies along i1_in and not along i2_in"},
        {plain, "cache_write s1, i1", "i1 is not the outer loop of a tile that stands innermost"},
        {sums, "cache_write s1, i2",
         "its results are in registers until its loops end: only those of a tile, and of the "
         "chunks "
         "of a contraction in tiles, can be kept in a buffer"},
        {index, "cache_write s1, i1",
         "these loops run in their order|its results are in registers"},
        {plain, "rfactor s1, i1 {by=4096}", "it is no reduction"},
        {few, "rfactor s1, i2, i3 {by=4096}",
         "there would be one partial result: it reduces 80 elements"},
        {few, "rfactor s1, i2 {by=4096}",
         "expected all loops that the stage reduces, in their order: i2, i3"},
        {few, "rfactor s1, i3, i2 {by=4096}", "in their order: i2, i3"},
        {sums, "rfactor s1, i2, i3 {by=4096}", "its reduced loops do not lie together"},
        {few, "rfactor s1, i2, i3 {by=64}",
         "the reduction runs in its order: iterations 63 and 4096 would be in one run"},
        {few, "rfactor s1, i2, i3 {by=5000}",
         "iterations 4095 and 4096 would be in one run, but are in different blocks of 4096"},
        {long_sums, "rfactor s1, i1 {by=4096}\nrfactor s1, i1 {by=4096}",
         "this has been said before"},
        {long_sums, "rfactor s1, i1 {by=4096}\nvectorize s1, i1", "i1 is not a loop of the stage"},
        {long_sums, "rfactor s9, i1 {by=4096}", "there is no stage s9"},
        {most, "rfactor s1, i2 {by=2}", "its states are more than one number"},
        {monoid, "rfactor s1, i2 {by=4096}", "its states are more than one number"},
        {unfused, "rfactor s1, i3 {by=2}", "a contraction goes on in one chain"},
        {product, "rfactor s1, i3 {by=4096}",
         "a contraction goes on in one chain: expected split and cache_write of its reduced loop"},
        {plain, "tensorize s1 {by=[6,16]}", "it is no contraction: micro-kernels multiply and add"},
        {sums, "pack s1 {operand=0}", "it is no contraction: micro-kernels multiply and add"},
        {plain, "fuse s1, i2, i1", "i1 does not stand just inside i2"},
        {plain, "fuse s1, i1, i2\nsplit s1, i2 {by=8}", "i2 is no loop by now: its loops are i1"},
        {plain, "unroll s1, i2_in {by=4}", "i2_in is no loop by now"},
        {plain, "unroll s1, i2 {by=9}", "expected at most 8 times"},
        {plain, "prefetch s1, i1 {distance=8}", "only innermost loops fetch ahead"},
        {plain, "stream s1", "its kernel is not computed in lanes"},
        {plain, "stream s1\nstream s1\nvectorize s1, i2", "this has been said before"},
        {plain, "reorder s1, i2, i1\nstream s1\nvectorize s1, i1",
         "do not lie one behind the other along the loop"},
        {two_uses,
         "compute_root s1\ncompute_root s2\ncompute_at s3, s1\nreorder s2, i4, i3\nstream s2",
         "its kernel is not computed in lanes"},
        {rows, "stream s1\nvectorize s1, i3\nvectorize s2, i6",
         "it stores nothing: its readers compute it, or it is in a register"},
        {ints, "vectorize s1, i2", "s1 (add) cannot be computed in lanes"},
        {path, "compute_root s1\ncompute_root s2\ncompute_at s3, s1",
         "s3 (div) cannot be in the kernel of s1 (exp): a path would leave the kernel and come "
         "back: s3 reads s2, which needs what the kernel computes"},
        {later, "compute_at s2, s1",
         "it reads another iteration's result: s2 in iteration [i2] reads what s1 computes in "
         "iteration [i2 + 1]: distance (-1), a later one"},
        {earlier, "compute_at s2, s1",
         "s2 in iteration [i2] reads what s1 computes in iteration [i2 - 1]: distance (1), an "
         "earlier one, whose result is not kept"},
        {two_uses, "compute_at s2, s1",
         "it reads another iteration's result|s2 in iteration [i3, i4] reads what s1 computes in "
         "iteration [i4, i3]"},
        {sums, "reorder s1, i1, i3, i2",
         "the reduction runs in its order: of (i2, i3) iteration (0, 1) comes before (1, 0), and "
         "would come behind it"},
        {sums, "split s1, i2 {by=4}", "a reduction's loops keep its order"},
        {most, "reorder s1, i2, i1", "across columns this reduction is not built"},
        {sums, "reorder s1, i2, i1, i3", "between reduced loops no kept one"},
        {index, "compute_inline s1", "only a stage without a reduction, scan or sort can be"},
        {index, "split s1, i1 {by=2}", "these loops run in their order"},
        {index, "compute_root s3\ncompute_root s1\ncompute_root s2",
         "the check s1 can run now, and must not come later"},
        {sorted, "reorder s1, i2, i1", "only loops of maps, reductions and scans can be reordered"},
        {index, "compute_at s3, s1",
         "s3 (gather) cannot be in the kernel of s1 (gather): the kernel is a scatter, a call, "
         "a check or a contraction"},
        {fenced, "compute_inline s1", "it stores an output or a state|it is a barrier"},
        {fenced, "compute_at s2, s1", "a barrier stands between them"},
        {state, "compute_inline s1", "it reads a state that may have changed when its readers run"},
        {rows, "compute_inline s1", "only a stage without a reduction, scan or sort can be"},
        {rows, "compute_at s2, s1 {segment=0}",
         "s2 reads what all iterations of s1 in segment 0 give: expected segment 1 or a later one"},
        {rows, "compute_at s2, s1 {segment=4}", "the kernel has 1 segments by now"},
        {rows, "tile s1, i1, i3 {by=[4,4]}", "i1 and i3 are not in the same loop nest"},
        {rows, "vectorize s1, i3",
         "all loop nests of a kernel are walked in lanes or none|expected vectorize s2, i6"},
        {rows, "vectorize s1, i1", "lanes run along an innermost loop"},
        {rows, "vectorize s1, i2\nvectorize s2, i6",
         "rows of at most 16 elements, with nothing else"},
        {softmax, "vectorize s1, i1", "rows of at most 16 elements"},
        {rows, "compute_root s3\ncompute_root s1\ncompute_root s2",
         "s3 reads s2, whose kernel comes later"},
        {two_uses, "compute_inline s1\nserial s1", "the stage is inlined: it has no loops"},
        {two_uses, "compute_inline s1\ncompute_at s2, s1", "s1 is inlined: it has no kernel"},
        {two_uses, "compute_at s2, s3\ncompute_at s3, s2", "s2 and s3 are placed at each other"},
        {monoid, "reorder s2, i3, i4", "it is a state of the monoid of s1"},
        {softmax, "zip s1, s3\nahead s1, i1 {distance=1}\nahead s2, i3 {distance=1}",
         "s1 (max) and s2 (exp): the second reads what the first gives at the end of its loop: "
         "iteration (0, 0) of s2 would come before iteration (0, 99) of s1: expected ahead s1, i1 "
         "{distance=2} or more"},
        {softmax, "zip s3, s4",
         "iteration (0, 0) of s4 would come before iteration (0, 99) of s3: expected ahead s3, i5 "
         "{distance=1} or more|iteration (0, 0) of s4 would come before iteration (0, 99) of s2"},
        {softmax, "ahead s3, i5 {distance=1}",
         "s1 (max) and s2 (exp): the second would run ahead of the first"},
        {softmax, "ahead s1, i1 {distance=2}\nahead s2, i3 {distance=2}\nahead s4, i7 {distance=1}",
         "s4 (div): distances count from the last nest"},
        {softmax, "ahead s1, i1 {distance=1}\nzip s1, s4",
         "s2 (exp) and s4 (div): the second, zipped with a nest before both, would come before the "
         "first"},
        {softmax, "ahead s1, i1 {distance=9}", "expected at most 8 iterations"},
        {softmax, "ahead s1, i2 {distance=1}", "a nest runs ahead in a loop around it"},
        {softmax, "ahead s1, i1 {distance=1}\nunroll s1, i1 {by=2}", "the loop is unrolled"},
        {softmax, "split s1, i1 {by=4}\nahead s1, i1 {distance=1}",
         "a nest runs ahead in the loop just around it: i1_in"},
        {softmax, "ahead s2, i3 {distance=1}\nahead s3, i5 {distance=2}",
         "this has been said before"},
        {softmax, "pipeline s1, i1\nahead s1, i1 {distance=1}",
         "calls of ahead and zip say how far: not both"},
        {softmax, "pipeline s4, i8", "a nest runs ahead in a loop around it"},
        {sums, "pipeline s1, i1", "the loop has one nest: there is nothing to run apart"},
        {softmax, "bind s1, i1", "a CPU has no blocks, threads and warps of a device"},
        {softmax, "zip s2, s3", "both are in segment 1 already"},
        {softmax, "zip s1, s4\nzip s1, s4", "this has been said before"},
        {softmax, "ahead s1, i1 {distance=1}\nprefetch s4, i8 {distance=64}\nzip s3, s4",
         "its loop is unrolled or fetches ahead: expected a plain one"},
        {two_uses, "compute_root s1\ncompute_root s2\ncompute_at s3, s1\nzip s1, s2",
         "s2 is in another kernel"},
        {plain, "ahead s1, i1 {distance=1}", "a nest runs ahead in a loop around it"},
        {unequal, "ahead s1, i1 {distance=1}\nzip s1, s2", "their loops have other extents"},
        {monoid, "zip s1, s3\nahead s1, i1 {distance=1}",
         "its loop carries more than values, and has no room for others"},
    };
    all_refused(list, sizeof list / sizeof *list);
}

static void blocks_are_for_their_graphs(void) {
    static const char steps[] =
        "graph g(x: f32[4], n: i64[]) { y = loop n, x { body(i, a) { b = mul a, 2.0; return b } }; "
        "return y }\n";
    plan p;
    stax_graph *g = graph_of("graph g(x: f32[4]) { y = exp x; return y }\n"), *h = graph_of(steps);
    if (!g || !h) return;
    plan_make_text(&p, ctx, g, "schedule other { serial s1 }", 0);
    CHECK_INT(p.status, STAX_E_SCHEDULE);
    CHECK_HAS(stax_error(ctx), "edited: error: schedule other: there is no such graph");
    plan_free(&p);
    plan_make_text(&p, ctx, g, "schedule g piece 0 { serial s1 }", 0);
    CHECK_INT(p.status, STAX_E_SCHEDULE);
    plan_make_text(&p, ctx, g, "schedule g { serial s1 }\nschedule { serial s1 }", 0);
    CHECK_INT(p.status, STAX_E_SCHEDULE);
    plan_make_text(&p, ctx, h, "schedule g piece 7 { serial s1 }", 0);
    CHECK_INT(p.status, STAX_E_SCHEDULE);
    CHECK_HAS(stax_error(ctx), "schedule g piece 7: there is no such graph or piece here");
    plan_make_text(&p, ctx, h, "schedule g piece 0 { serial s1 }", 0);
    CHECK_INT(p.status, STAX_OK);
    CHECK_HAS(p.schedule, "schedule g piece 0 {\n  compute_root s1");
    CHECK_HAS(p.schedule, "  serial s1\n");
    plan_free(&p);
    stax_graph_free(g);
    stax_graph_free(h);
}

/* ---- compiled
 * ------------------------------------------------------------------------------------ */

static void programs_obey(void) {
    stax_compile_options o;
    memset(&o, 0, sizeof o);
    static feed a, b;
    stax_graph *g = graph_of(two_uses);
    if (!g) return;
    stax_schedule *s = stax_schedule_new(ctx, NULL);
    CHECK_INT(stax_schedule_add(s, "compute_inline s1"), STAX_OK);
    CHECK_INT(stax_schedule_add(s, "tile s2, i3, i4 {by=[4,8]}"), STAX_OK);
    CHECK_INT(stax_schedule_add(s, "unroll s2, i4_in {by=3}"), STAX_OK);
    CHECK_INT(stax_schedule_add(s, "vectorize s2, i4_in"), STAX_OK);
    CHECK_INT(stax_schedule_add(s, "prefetch s2, i4_in {distance=64}"), STAX_OK);
    CHECK_INT(stax_schedule_add(s, "stream s2"), STAX_OK);
    o.schedule = s;
    stax_program *p = stax_compile(g, &o);
    stax_schedule_free(s); /* it is only read while compiling */
    if (!CHECK(p != NULL)) {
        printf("%s\n", stax_error(ctx));
        return;
    }
    CHECK_INT(stax_program_status(p), STAX_OK);
    CHECK(feed_make(&a, g, 5, 1) && feed_make(&b, g, 5, 1));
    CHECK_INT(stax_interpret(g, a.all, a.outputs), STAX_OK);
    CHECK_INT(stax_run(p, b.slots, b.outputs), STAX_OK);
    CHECK(feed_equal(&a, &b));
    char *report = stax_program_report(p, STAX_REPORT_SCHEDULE);
    CHECK_HAS(report, "  compute_inline s1 ");
    CHECK_HAS(report, "  tile s2, i3, i4 {by=[4,8]}\n");
    stax_free(ctx, report);
    report = stax_program_report(p, STAX_REPORT_C);
    CHECK_HAS(report, "        sx_prefetch((const char *)b1 + (");
    CHECK_HAS(report, "sx_storesf(b");
    CHECK_HAS(report, "    sx_drain();\n}");
    stax_free(ctx, report);
    s = stax_program_schedule(p); /* to be edited */
    CHECK(s != NULL);
    stax_program_free(p);
    o.schedule = s;
    p = stax_compile(g, &o);
    CHECK(p != NULL);
    stax_program_free(p);
    CHECK_INT(stax_schedule_add(s, "vectorize s2, i3"), STAX_OK);
    CHECK(stax_compile(g, &o) == NULL); /* not interpreted instead, strict or not */
    CHECK_INT(stax_error_status(ctx), STAX_E_SCHEDULE);
    CHECK_HAS(stax_error(ctx), "vectorize s2, i3: ");
    o.interpret = true;
    p = stax_compile(g, &o);
    CHECK(p != NULL);
    CHECK(stax_program_schedule(p) == NULL);
    stax_program_free(p);
    stax_schedule_free(s);
    feed_free(&a);
    feed_free(&b);
    stax_graph_free(g);
}

/* Compiles graphs, each given as its text behind its name, by the blocks of a schedule, and
   compares them with the interpreter for all sizes; `has`: a part of their loops. How many runs
   were made; -1: the context has a message. */
static int run_by_schedule(const stax_options *o, const char *const *texts, int n,
                           const char *blocks, const int64_t *sizes, size_t n_sizes,
                           const char *has) {
    enum { MOST = 32 };
    stax_compile_options how;
    stax_program *programs[MOST] = {0};
    stax_graph *own[MOST];
    int ran = 0;
    memset(&how, 0, sizeof how);
    stax_context *c = stax_open(o);
    if (!CHECK(c != NULL && n <= MOST)) return 0;
    for (int k = 0; k < n; k++) {
        char text[500];
        snprintf(text, sizeof text, "graph g%d%s\n", k, texts[k]);
        own[k] = stax_parse(c, "own", text);
        if (!CHECK(own[k] != NULL)) printf("%s\n", stax_error(c));
    }
    how.schedule = stax_schedule_parse(c, "given", blocks);
    if (!CHECK_INT(stax_compile_many((const stax_graph *const *)own, n, &how, programs), STAX_OK))
        printf("%s\n%s\n", stax_error(c), blocks);
    for (int k = 0; k < n && programs[k]; k++) {
        char *loops = stax_program_report(programs[k], STAX_REPORT_LOOPS);
        CHECK_HAS(loops, has);
        stax_free(c, loops);
        for (size_t i = 0; i < n_sizes; i++) {
            static feed a, b;
            CHECK(feed_make(&a, own[k], sizes[i], i + 1) && feed_make(&b, own[k], sizes[i], i + 1));
            CHECK_INT(stax_interpret(own[k], a.all, a.outputs), STAX_OK);
            CHECK_INT(stax_run(programs[k], b.slots, b.outputs), STAX_OK);
            if (!CHECK(feed_equal(&a, &b))) printf("%s size %d\n", texts[k], (int)sizes[i]);
            CHECK(feed_guards_hold(&b));
            feed_free(&a);
            feed_free(&b);
            ran++;
        }
    }
    for (int k = 0; k < n; k++) {
        stax_program_free(programs[k]);
        stax_graph_free(own[k]);
    }
    stax_schedule_free((stax_schedule *)how.schedule);
    stax_close(c);
    return ran;
}

/* Graphs of rows whose nests run ahead or in one loop. */
static const struct ahead_of {
    const char *graph, *calls; /* graph: behind its name */
} aheads[] = {
    {"(x: f32[n,5000]) { y = softmax x; return y }",
     "vectorize s1, i2\nvectorize s2, i4\nvectorize s4, i8\nstream s4\nahead s1, i1 {distance=2}\n"
     "ahead s2, i3 {distance=1}\nzip s1, s2\nzip s1, s4\nparallel s1, i1"},
    {"(x: f32[n,1000]) { y = softmax x; return y }",
     "vectorize s1, i2\nvectorize s2, i4\nvectorize s4, i8\nahead s1, i1 {distance=3}\n"
     "ahead s2, i3 {distance=3}\nzip s2, s4"},
    {"(x: f64[n,37]) { y = softmax x; return y }",
     "ahead s1, i1 {distance=5}\nahead s2, i3 {distance=2}\nzip s1, s4\nparallel s1, i1"},
    {"(x: f16[n,3,70]) { y = softmax x; return y }",
     "vectorize s1, i3\nvectorize s2, i6\nvectorize s4, i12\nahead s1, i2 {distance=2}\n"
     "ahead s2, i5 {distance=1}\nzip s1, s2\nzip s1, s4"},
    {"(x: f32[n,4,70]) { y = softmax x; return y }",
     "fuse s1, i1, i2\nsplit s1, i1 {by=3}\nahead s1, i1_in {distance=2}\n"
     "ahead s2, i4_in {distance=1}\nzip s1, s2\nparallel s1, i1"},
    {"(x: f32[n,5000]) { s = sum x {axes=[1], keepdims=true}; y = div x, s; return y, s }",
     "vectorize s1, i2\nvectorize s2, i4\nahead s1, i1 {distance=1}\nzip s1, s2\nparallel s1, i1"},
    {"(x: i32[n,m]) { s = sum x {axes=[1], keepdims=true}; y = add x, s; return y }", NULL},
    {"(x: f32[n,40]) { m: f32[n,1], v: f32[n,1] = welford x {axes=[1], keepdims=true}; "
     "d = sub x, m; y = div d, v; return y, m }",
     NULL},
    {"(x: f32[n,37]) { a = argmin x {axis=1}; y = silu x; return a, y }",
     "compute_root s1\ncompute_at s2, s1 {segment=1}\nvectorize s1, i2\nvectorize s2, i4\n"
     "ahead s1, i1 {distance=1}"},
    {"(x: f32[n,m], w: f32[m]) { y = layer_norm x, w {axes=[-1]}; z = gelu y; return z }", NULL},
    {"(x: f32[n,m], w: f32[n,m]) { a = max x {axes=[1], keepdims=true}; b = mul w, a; "
     "c = min b {axes=[1], keepdims=true}; d = sqrt c; y = sub b, d; return y, d }",
     NULL},
    {"(x: f32[n,m]) { a = argmax x {axis=1, keepdims=true}; b = cast a {dtype=f32}; c = mul x, b; "
     "v = var c {axes=[1], keepdims=true}; y = div x, v; return y, v }",
     NULL},
};
enum { N_AHEADS = sizeof aheads / sizeof *aheads };

/* All nests of the first kernel one behind the other, in one loop where they can be. */
static int run_nests_ahead(char *calls, size_t room, const char *schedule) {
    static edited e;
    int stage[8] = {0}, loop[8] = {0}, loops[MOST_LOOPS], last = 0, n = 0;
    if (!read_lines(&e, schedule)) return 0;
    for (int k = 1; k < e.n && is_call(&e, k) && (k == 1 || !opens_kernel(&e, k)); k++) {
        const char *open = strstr(e.lines[k], "{segment=");
        int g = open ? atoi(open + 9) : 0;
        if (!is_placement_line(&e, k) || g >= 8 || stage[g]) continue;
        loops_of_line(&e, k, loops);
        stage[g] = stage_of_line(&e, k);
        loop[g] = loops[0];
        if (g > last) last = g;
    }
    for (int g = 0; g < last; g++)
        n += snprintf(calls + n, room - (size_t)n, "ahead s%d, i%d {distance=%d}\n", stage[g],
                      loop[g], last - g);
    return last > 0;
}

/* Distances against sizes on both sides of them, slots with ranges of their own: the same bits. */
static void rows_ahead_keep_their_bits(void) {
    static const struct {
        const char *compiler;
        stax_isa isa;
    } tools[] = {{NULL, STAX_ISA_DETECT},
                 {NULL, STAX_ISA_SSE2},
                 {NULL, STAX_ISA_SCALAR},
                 {"tcc", STAX_ISA_DETECT}};
    static const int64_t sizes[] = {0, 1, 2, 3, 14, 75};
    static char blocks[8000];
    const char *texts[N_AHEADS];
    int n = 0, ran = 0;
    for (int k = 0; k < N_AHEADS; k++) {
        char text[400], calls[400];
        plan p;
        texts[k] = aheads[k].graph;
        snprintf(text, sizeof text, "graph g%d%s\n", k, aheads[k].graph);
        stax_graph *g = graph_of(text);
        if (!g) return;
        plan_make(&p, ctx, g, NULL, 3);
        stax_graph_free(g);
        if (!aheads[k].calls && !CHECK(run_nests_ahead(calls, sizeof calls, p.schedule)))
            printf("%s\n", p.schedule);
        plan_free(&p);
        n += snprintf(blocks + n, sizeof blocks - (size_t)n, "schedule g%d {\n%s\n}\n", k,
                      aheads[k].calls ? aheads[k].calls : calls);
    }
    for (size_t t = 0; t < sizeof tools / sizeof *tools; t++) {
        stax_options o = stax_options_default();
        o.compiler = tools[t].compiler;
        o.isa = tools[t].isa;
        o.n_threads = 3;
        o.strict = true;
        if (tools[t].compiler && !fastest_compiler()) continue;
        ran += run_by_schedule(&o, texts, N_AHEADS, blocks, sizes, sizeof sizes / sizeof *sizes,
                               "ahead ");
    }
    printf("%d runs of nests that run ahead\n", ran);
    CHECK(ran >= 3 * N_AHEADS * 6);
}

/* ---- contractions in micro-kernels, and results kept in buffers
 * ------------------------------------------------------------------------------------------------
 */

#define MATMUL "(a: f32[30,64], b: f32[64,48]) { c = matmul a, b; return c }"

/* Planned for AVX2, whatever runs here. */
static stax_context *for_avx2(void) {
    stax_options o = stax_options_default();
    o.isa = STAX_ISA_AVX2;
    return stax_open(&o);
}

static void contractions_say_how(void) {
    static const char *const variants[] = {
        "serial s1",
        "tensorize s1 {by=[3,16]}",
        "tensorize s1 {by=[3,16]}\npack s1 {operand=0}",
        "tensorize s1 {by=[3,16]}\npack s1 {operand=1}",
        "tensorize s1 {by=[3,16]}\npack s1 {operand=0}\npack s1 {operand=1}",
        "tensorize s1 {by=[3,32]}\npack s1 {operand=0}\npack s1 {operand=1}",
        "tensorize s1 {by=[5,16]}\npack s1 {operand=1}\nsplit s1, i3 {by=32}\ncache_write s1, i3",
        ("tensorize s1 {by=[5,16]}\npack s1 {operand=1}\n"
         "split s1, i3 {by=8, tail=\"exact\"}\ncache_write s1, i3"),
        "reorder s1, i1, i3, i2",
    };
    enum { N = sizeof variants / sizeof *variants };
    stax_context *outer = ctx;
    plan p[N];
    ctx = for_avx2();
    stax_graph *g = graph_of("graph g" MATMUL "\n");
    for (int k = 0; g && k < N; k++) {
        char text[300];
        plan again;
        snprintf(text, sizeof text, "schedule g {\n%s\n}\n", variants[k]);
        plan_make_text(&p[k], ctx, g, text, 1);
        if (!CHECK_INT(p[k].status, STAX_OK)) printf("%s: %s\n", variants[k], stax_error(ctx));
        for (int j = 0; j < k; j++)
            if (!CHECK(p[j].c && p[k].c && strcmp(p[j].c, p[k].c) != 0))
                printf("the same C:\n%s\n%s\n", variants[j], variants[k]);
        plan_make_text(&again, ctx, g, p[k].schedule, 1);
        CHECK_TEXT(again.schedule, p[k].schedule);
        CHECK(again.c && p[k].c && strcmp(again.c, p[k].c) == 0);
        plan_free(&again);
    }
    if (g) {
        CHECK(strstr(p[0].c, "sx_micro") == NULL);
        CHECK_HAS(p[4].c, "sx_micro_f32_3x2_");
        CHECK_HAS(p[5].c, "sx_micro_f32_3x4_");
        CHECK_HAS(p[6].c, "const int64_t steps = depth - k0 < 32 ? depth - k0 : 32");
        CHECK_HAS(p[6].schedule,
                  "  split s1, i3 {by=32}\n  cache_write s1, i3\n"
                  "  tensorize s1 {by=[5,16]}\n  pack s1 {operand=1}\n");
        CHECK(strstr(p[1].c, "] * room") == NULL && strstr(p[1].c, "room") == NULL);
        CHECK_HAS(p[2].c, "room");
        for (int k = 0; k < N; k++) plan_free(&p[k]);
    }
    stax_graph_free(g);
    stax_close(ctx);
    ctx = outer;
}

static void contraction_refusals(void) {
    static const char matmul[] = "graph g" MATMUL "\n";
    static const char deep[] =
        "graph g(a: f32[9,9001], b: f32[9001,32]) { c = matmul a, b; return c }\n";
    static const char computed[] =
        "graph g(a: f32[30,64], b: f32[64,48]) { e = neg a; c = matmul e, b; return c }\n";
    static const char turned[] =
        "graph g(a: f32[30,64], b: f32[48,64]) { t = transpose b; c = matmul a, t; return c }\n";
    static const char narrow[] =
        "graph g(a: f32[30,64], b: f32[64,47]) { c = matmul a, b; return c }\n";
    static const char open[] =
        "graph g(a: f32[n,64], b: f32[64,48]) { c = matmul a, b; return c }\n";
    static const char dot[] = "graph g(a: f32[20,64], b: f32[64]) { c = matmul a, b; return c }\n";
    static const char halves[] =
        "graph g(a: f32[1,64], b: f32[64,48]) { c = matmul a, b; return c }\n";
    static const refusal list[] = {
        {matmul, "tensorize s1 {by=[7,16]}",
         "the micro-kernels of 16 columns have at most 6 rows: more do not fit the registers"},
        {matmul, "tensorize s1 {by=[2,40]}",
         "there is no micro-kernel of 40 columns: expected 8, 16, 24 or 32 for f32"},
        {matmul, "tensorize s1 {by=[2,12]}", "there is no micro-kernel of 12 columns"},
        {matmul, "pack s1 {operand=0}", "expected tensorize of the stage too"},
        {matmul, "split s1, i3 {by=32}", "expected tensorize of the stage too"},
        {matmul, "split s1, i2 {by=32}", "a reduction's loops keep its order"},
        {matmul, "tensorize s1 {by=[6,16]}\ntensorize s1 {by=[6,16]}", "this has been said before"},
        {matmul, "tensorize s1 {by=[6,16]}\npack s1 {operand=1}\npack s1 {operand=1}",
         "this has been said before"},
        {matmul, "tensorize s1 {by=[6,16]}\nsplit s1, i3 {by=32}",
         "between chunks the chains are in a local buffer: expected cache_write of this loop too"},
        {matmul, "tensorize s1 {by=[6,16]}\ncache_write s1, i3",
         "it is one chunk, whose chains are in registers: expected split of this loop too"},
        {matmul, "tensorize s1 {by=[6,16]}\nsplit s1, i3 {by=12}\ncache_write s1, i3",
         "the micro-kernel takes 8 iterations at a time: expected a multiple of that"},
        {matmul,
         "tensorize s1 {by=[6,16]}\nsplit s1, i3 {by=24, tail=\"exact\"}\ncache_write s1, i3",
         "its extent is not known to be a multiple of 24"},
        {matmul, "reorder s1, i1, i2, i3\ntensorize s1 {by=[6,16]}",
         "its loops are those of reorder: micro-kernels have their own order"},
        {deep, "tensorize s1 {by=[6,16]}\npack s1 {operand=0}\npack s1 {operand=1}",
         "iterations 4095 and 4096 of its reduced loop are in different blocks"},
        {deep,
         "tensorize s1 {by=[6,16]}\npack s1 {operand=0}\npack s1 {operand=1}\n"
         "split s1, i3 {by=1000}\ncache_write s1, i3",
         "iterations 4000 and 4096 would be in one chunk, but are in different blocks of 4096"},
        {deep,
         "tensorize s1 {by=[6,16]}\npack s1 {operand=0}\npack s1 {operand=1}\n"
         "split s1, i3 {by=8192}\ncache_write s1, i3",
         "iterations 4095 and 4096 would be in one chunk"},
        {computed, "tensorize s1 {by=[6,16]}",
         "operand 0 cannot be read where it lies: it is computed as it is packed"},
        {turned, "tensorize s1 {by=[6,16]}",
         "operand 1 cannot be read where it lies: its elements do not lie side by side along the "
         "columns: expected pack s1 {operand=1} too"},
        {narrow, "tensorize s1 {by=[6,16]}", "its columns are not whole vectors"},
        {open, "tensorize s1 {by=[6,16]}", "its sizes are not known"},
        {dot, "tensorize s1 {by=[6,16]}", "no micro-kernel adds in its order"},
        {halves, "tensorize s1 {by=[6,16]}", "its loops are those of reorder|too few rows"},
    };
    stax_context *outer = ctx;
    stax_options o = stax_options_default();
    ctx = for_avx2();
    all_refused(list, sizeof list / sizeof *list);
    stax_close(ctx);
    static const refusal none = {matmul, "tensorize s1 {by=[6,16]}",
                                 "there are micro-kernels for avx2, avx512 and neon alone"};
    o.isa = STAX_ISA_SCALAR;
    ctx = stax_open(&o);
    all_refused(&none, 1);
    stax_close(ctx);
    ctx = outer;
}

/* Register tiles of all heights, chunks, operands packed and not, results kept in buffers: calls
   that are legal for every processor with micro-kernels. */
static void tiles_keep_their_bits(void) {
    static const struct {
        const char *graph, *calls;
    } list[] = {
        {MATMUL, "tensorize s1 {by=[3,16]}"},
        {MATMUL, "tensorize s1 {by=[4,16]}\npack s1 {operand=0}"},
        {MATMUL,
         "tensorize s1 {by=[5,16]}\npack s1 {operand=0}\npack s1 {operand=1}\n"
         "split s1, i3 {by=16}\ncache_write s1, i3"},
        {MATMUL, "serial s1"},
        {"(a: f32[n,70], b: f32[70,m], c: f32[m]) { x = matmul a, b; y = add x, c; z = relu y; "
         "return z }",
         "tensorize s1 {by=[2,32]}\npack s1 {operand=0}\npack s1 {operand=1}\n"
         "split s1, i3 {by=32}\ncache_write s1, i3"},
        {"(a: f32[29,70], b: f32[35,70]) { t = transpose b; e = sqrt a; x = matmul e, t; y = "
         "transpose x; return y }",
         "tensorize s1 {by=[3,16]}\npack s1 {operand=0}\npack s1 {operand=1}"},
        {"(a: f32[13,9001], b: f32[9001,20]) { x = matmul a, b; return x }",
         "tensorize s1 {by=[6,16]}\npack s1 {operand=0}\npack s1 {operand=1}\n"
         "split s1, i3 {by=512}\ncache_write s1, i3"},
        {"(a: f64[3,17,40], b: f64[3,40,24]) { x = matmul a, b; return x }",
         "tensorize s1 {by=[5,8]}\npack s1 {operand=1}\nsplit s1, i4 {by=16}\ncache_write s1, i4"},
        {"(a: i32[n,40], b: i32[40,50]) { x = matmul a, b; return x }",
         "tensorize s1 {by=[4,16]}\npack s1 {operand=0}\npack s1 {operand=1}\n"
         "split s1, i3 {by=48}\ncache_write s1, i3"},
        {"(x: f32[2,5,14,15], w: f32[6,5,3,3]) { y = conv x, w; return y }",
         "tensorize s1 {by=[4,16]}\npack s1 {operand=0}\npack s1 {operand=1}"},
    };
    enum { N = sizeof list / sizeof *list };
    static const struct {
        const char *graph, *calls;
    } kept[] = {
        {"(x: f32[300,50]) { e = exp x; y = transpose e; return y }",
         "reorder s1, i2, i1\ntile s1, i2, i1 {by=[32,16]}\ncache_write s1, i2_in\n"
         "vectorize s1, i1_in\nparallel s1, i2"},
        {"(x: f64[n,m], z: f64[m,n]) { e = sqrt x; t = transpose e; y = add t, z; return y }",
         "reorder s1, i2, i1\ntile s1, i2, i1 {by=[7,9]}\ncache_write s1, i2_in\n"
         "vectorize s1, i1_in\nparallel s1, i2"},
        {"(x: f32[n,m], z: f32[m,n]) { t = transpose x; y = add t, z; u = mul t, z; return y, u }",
         "compute_root s1\ncompute_at s2, s1\nreorder s1, i2, i1\nreorder s2, i4, i3\n"
         "tile s1, i2, i1 {by=[16,12]}\ncache_write s1, i2_in\ncache_read s1, i2_in\n"
         "vectorize s1, i1_in"},
        {"(x: i16[40,70]) { e = neg x; y = transpose e; return y }",
         "reorder s1, i2, i1\ntile s1, i2, i1 {by=[16,16]}\ncache_write s1, i2_in\nserial s1"},
        {"(x: f16[n,m]) { e = exp x; y = transpose e; return y }",
         "reorder s1, i2, i1\ntile s1, i2, i1 {by=[20,30]}\ncache_write s1, i2_in\nserial s1"},
    };
    enum { N_KEPT = sizeof kept / sizeof *kept };
    static const int64_t sizes[] = {0, 1, 2, 14, 37};
    static char blocks[6000];
    const char *texts[N > N_KEPT ? N : N_KEPT];
    stax_options o = stax_options_default();
    int n = 0, ran = 0;
    o.strict = true;
    o.n_threads = 3;
    for (int k = 0; k < N_KEPT; k++) {
        texts[k] = kept[k].graph;
        n += snprintf(blocks + n, sizeof blocks - (size_t)n, "schedule g%d {\n%s\n}\n", k,
                      kept[k].calls);
    }
    ran += run_by_schedule(&o, texts, N_KEPT, blocks, sizes, 5, "] for [");
    if (fastest_compiler()) {
        o.compiler = "tcc";
        ran += run_by_schedule(&o, texts, N_KEPT, blocks, sizes, 5, "] for [");
        o.compiler = NULL;
    }
    CHECK(ran >= N_KEPT * 5);
    n = ran = 0;
    for (int k = 0; k < N; k++) {
        texts[k] = list[k].graph;
        n += snprintf(blocks + n, sizeof blocks - (size_t)n, "schedule g%d {\n%s\n}\n", k,
                      list[k].calls);
    }
    plan p;
    stax_graph *g = graph_of("graph g" MATMUL "\n");
    plan_make(&p, ctx, g, NULL, 0);
    const bool has = p.schedule && strstr(p.schedule, "  tensorize s1 ");
    plan_free(&p);
    stax_graph_free(g);
    if (!has) {
        SKIP("this processor has no micro-kernels");
        return;
    }
    ran = run_by_schedule(&o, texts, N, blocks, sizes, 5, "reduce columns ");
    printf("%d runs of contractions\n", ran);
    CHECK_INT(ran, N * 5);
}

/* Partial results by themselves: of all long reductions with few results, or of none. */
static void long_reductions_have_parts(void) {
    static const struct {
        const char *graph, *has;
    } list[] = {
        {"graph g(x: f32[10000001]) { y = sum x; return y }\n", "  rfactor s1, i1 {by=4096}"},
        {"graph g(x: f32[4194304,4]) { y = sum x {axes=[0]}; m = max x {axes=[0]}; e = exp y; "
         "return e, m }\n",
         "  rfactor s2, i4 {by=4096}"},
        {"sizes n: 1048576..9000000\ngraph g(x: f64[n]) { y = prod x; return y }\n",
         "  rfactor s1, i1 {by=4096}"},
        {"sizes n: 1..9000000\ngraph g(x: f64[n]) { y = prod x; return y }\n", NULL},
        {"graph g(x: f32[65536,65]) { y = sum x {axes=[0]}; return y }\n", NULL},
        {"graph g(x: f32[4,1000000]) { y = softmax x; return y }\n", NULL},
        {"graph g(x: f32[4194304,4]) { y = sum x {axes=[0]}; z = argmax x {axis=0}; "
         "return y, z }\n",
         NULL},
        {"graph g(x: f32[4194304,4]) { e = mul x, 2.0; y = sum x {axes=[0]}; return y, e }\n",
         NULL},
        {"graph g(x: f32[4,1000003]) { y = mean x {axes=[1]}; v = var x {axes=[1]}; "
         "return y, v }\n",
         NULL},
    };
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        plan p, again;
        stax_graph *g = graph_of(list[k].graph);
        plan_make(&p, ctx, g, NULL, 0);
        if (!CHECK_INT(p.status, STAX_OK)) continue;
        if (list[k].has)
            CHECK_HAS(p.schedule, list[k].has);
        else if (!CHECK(!strstr(p.schedule, "rfactor")))
            printf("%s%s", list[k].graph, p.schedule);
        plan_make_text(&again, ctx, g, p.schedule, 0);
        if (CHECK_INT(again.status, STAX_OK)) CHECK_TEXT(again.schedule, p.schedule);
        plan_free(&again);
        plan_free(&p);
        stax_graph_free(g);
    }
}

/* Rows of an intermediate that lie further apart, of one and of two axes, laid along another axis,
   read whole, turned, from the end, by scans, sorts, contractions and reductions. */
static void padded_rows_keep_their_bits(void) {
    static const struct {
        const char *graph, *calls;
    } list[] = {
        {"(x: f32[n,m]) { a = cumsum x {axis=1}; t = transpose a; y = softmax t; return y }",
         "pad_rows s1 {by=16}"},
        {"(x: f32[n,m]) { a = cumsum x {axis=1}; t = transpose a; y = sort t {axis=1}; u = flip a "
         "{axes=[1]}; v = add u, x; return y, v }",
         "pad_rows s1 {by=3}"},
        {"(x: f64[n,3,m]) { a = cumsum x {axis=2}; t = permute a {axes=[1,2,0]}; y = cumsum t "
         "{axis=2}; return y }",
         "pad_rows s1 {by=1}"},
        {"(x: f32[n,m]) { a = sort x {axis=1}; t = transpose a; y = matmul a, t; return y }",
         "pad_rows s1 {by=5}"},
        {"(x: i8[n,m]) { a = sort x {axis=1}; y = sort a {axis=0}; return y }",
         "pad_rows s1 {by=9}"},
        {"(x: bool[n,m]) { a = cumsum x {axis=1}; r = reshape a {shape=[n*m]}; y = cumsum r "
         "{axis=0}; return y }",
         "pad_rows s1 {by=2}"},
        {"(x: f32[n,m]) { a = cumsum x {axis=0}; b = cumsum a {axis=1}; c = cumsum b {axis=0}; "
         "d = add c, a; return d }",
         "pad_rows s1 {by=8}\npad_rows s2 {by=8}"},
    };
    enum { N = sizeof list / sizeof *list };
    static const int64_t sizes[] = {1, 2, 17, 40, 64};
    static char blocks[3000];
    const char *texts[N];
    stax_options o = stax_options_default();
    int n = 0;
    o.strict = true;
    o.n_threads = 3;
    for (int k = 0; k < N; k++) {
        texts[k] = list[k].graph;
        n += snprintf(blocks + n, sizeof blocks - (size_t)n, "schedule g%d {\n%s\n}\n", k,
                      list[k].calls);
    }
    CHECK_INT(run_by_schedule(&o, texts, N, blocks, sizes, 5, "kernel 1"), N * 5);
    if (!fastest_compiler()) return;
    o.compiler = "tcc";
    CHECK_INT(run_by_schedule(&o, texts, N, blocks, sizes, 5, "kernel 1"), N * 5);
}

/* Padding by itself: what it is, what it costs, and that a schedule can do without. */
static void rows_are_padded_where_it_pays(void) {
    static const char graph[] =
        "graph g(x: f32[96,1024]) { a = cumsum x {axis=1}; m = max a {axes=[0]}; "
        "t = transpose a; y = softmax t; return y, m }\n";
    static const struct {
        const char *graph, *calls, *says;
    } list[] = {
        {graph, NULL, "rows of b4: 16 elements between them: a loop walks"},
        {graph, NULL, "  399360  0  kernels"}, /* 96 (1024 + 16) 4 */
        {graph, "pad_rows s1 {by=0}", "rows of b4: not padded: the schedule says so"},
        {graph, "pad_rows s1 {by=0}", "  393216  0  kernels"},
        {graph, "pad_rows s1 {by=32}",
         "rows of b4: 32 elements between them: the schedule says so"},
        {"graph g(x: f32[96,1000]) { a = cumsum x {axis=1}; m = max a {axes=[0]}; "
         "t = transpose a; y = softmax t; return y, m }\n",
         NULL, "rows of b4: not padded: a loop walks from row to row, but"},
        {"graph g(x: f32[96,1024]) { a = cumsum x {axis=1}; m = max a {axes=[0]}; "
         "y = sub a, m; return y }\n",
         NULL, "rows of b3: not padded: no loop walks"},
        {"graph g(x: f32[96,8,1024]) { a = cumsum x {axis=2}; m = max a {axes=[0]}; "
         "t = permute a {axes=[1,2,0]}; y = softmax t; return y, m }\n",
         NULL, "rows of b4: not padded: no loop walks"}, /* it walks over eight rows at a time */
    };
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        plan p;
        stax_graph *g = graph_of(list[k].graph);
        char text[200];
        snprintf(text, sizeof text, "schedule {\n%s\n}\n", list[k].calls ? list[k].calls : "");
        if (list[k].calls)
            plan_make_text(&p, ctx, g, text, 1);
        else
            plan_make(&p, ctx, g, NULL, 1);
        if (CHECK_INT(p.status, STAX_OK)) CHECK_HAS(p.memory, list[k].says);
        plan_free(&p);
        stax_graph_free(g);
    }
}

/* Partial results, in all orders that allow them, around the ends of blocks. */
static void partial_results_keep_their_bits(void) {
    static const char *const tools[] = {NULL, "tcc"};
    static const struct {
        const char *graph, *calls;
    } list[] = {
        {"(x: f32[n]) { y = sum x; return y }", "rfactor s1, i1 {by=4096}"},
        {"(x: f32[n]) { y = sum x; return y }", "rfactor s1, i1 {by=16777216}"},
        {"(x: f16[n]) { y = mean x; return y }", "rfactor s1, i1 {by=4096}"},
        {"(x: f64[3,n], w: f64[n]) { a = mul x, w; y = sum a {axes=[1]}; z = exp y; return z }",
         "rfactor s1, i2 {by=4096}"},
        {"(x: f32[n,5]) { y = sum x {axes=[0]}; return y }", "rfactor s1, i2 {by=4096}"},
        {"(x: f32[n,5]) { y = sum x {axes=[0]}; return y }",
         "rfactor s1, i2 {by=4096}\nreorder s2, i3, i4, i5\nparallel s2, i3"},
        {"(x: f32[n,7]) { y = prod x; return y }", "rfactor s1, i1, i2 {by=4096}"},
        {"(x: i32[n,7]) { y = max x; z = neg y; return z, y }", "rfactor s1, i1, i2 {by=50}"},
        {"(x: i64[n,7]) { y = sum x {axes=[0]}; return y }", "rfactor s1, i2 {by=1000}"},
        {"(x: f32[n]) { y = min x; return y }", "rfactor s1, i1 {by=100}"},
        {"(x: bool[n]) { y = all x; z = any x; return y, z }",
         "rfactor s1, i1 {by=3}\nrfactor s2, i2 {by=4000}"},
        {"(x: f32[2,n]) { s = sum x {axes=[1], keepdims=true}; y = div x, s; return y }",
         "rfactor s1, i2 {by=4096}"},
    };
    enum { N = sizeof list / sizeof *list };
    static const int64_t sizes[] = {1, 2, 4095, 4096, 4097, 8192, 8200, 12289};
    static char blocks[6000];
    const char *texts[N];
    int n = 0, ran = 0;
    for (int k = 0; k < N; k++) {
        texts[k] = list[k].graph;
        n += snprintf(blocks + n, sizeof blocks - (size_t)n, "schedule g%d {\n%s\n}\n", k,
                      list[k].calls);
    }
    for (size_t t = 0; t < sizeof tools / sizeof *tools; t++) {
        stax_options o = stax_options_default();
        o.strict = true;
        o.n_threads = 3;
        o.compiler = tools[t];
        if (tools[t] && !fastest_compiler()) continue;
        ran +=
            run_by_schedule(&o, texts, N, blocks, sizes, sizeof sizes / sizeof *sizes, "reduce ");
    }
    printf("%d runs of reductions in parts\n", ran);
    CHECK(ran >= N * 8);
}

/* ---- damaged texts
 * ------------------------------------------------------------------------------- */

static void damaged_texts(void) {
    stax_graph *g = graph_of(rows);
    plan first;
    uint64_t s = RANDOM_SEED;
    int parsed = 0, legal = 0;
    static const char letters[] = "si0123456789_,{}=[]\n \"acdefloprtuvz";
    if (!g) return;
    plan_make(&first, ctx, g, NULL, 0);
    size_t n = strlen(first.schedule);
    char *text = (char *)malloc(n + 1);
    for (int k = 0; k < 20000 && text; k++) {
        memcpy(text, first.schedule, n + 1);
        for (int e = 1 + (int)(draw(&s) % 3); e > 0; e--) {
            size_t at = (size_t)(draw(&s) % n);
            text[at] = letters[draw(&s) % (sizeof letters - 1)];
        }
        stax_schedule *schedule = stax_schedule_parse(ctx, "damaged", text);
        if (!schedule) {
            CHECK_HAS(stax_error(ctx), "damaged:");
            continue;
        }
        plan p;
        parsed++;
        plan_make(&p, ctx, g, schedule, 0);
        CHECK(p.status == STAX_OK || p.status == STAX_E_SCHEDULE);
        legal += p.status == STAX_OK;
        plan_free(&p);
        stax_schedule_free(schedule);
    }
    printf("of 20000 damaged texts %d could be read and %d were legal\n", parsed, legal);
    CHECK(parsed > 1000 && legal > 100);
    free(text);
    plan_free(&first);
    stax_graph_free(g);
}

/* ---- growth
 * -------------------------------------------------------------------------------------- */

static double seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* Chains of elementwise ops with reductions, gathers and many outputs between them. */
static stax_graph *large(int n) {
    stax_graph *g = stax_graph_new(ctx);
    stax_value x = stax_input(g, "x", STAX_F32, stax_shape2(64, 128)),
               i = stax_input(g, "i", STAX_I64, stax_shape2(64, 128)), a = x, b = x;
    for (int k = 0; k < n; k++) {
        char name[24];
        switch (k % 8) {
            case 0:
                a = stax_exp(a);
                b = stax_add(b, a);
                break;
            case 1:
                a = stax_mul(a, b);
                break;
            case 2:
                a = stax_sub(a, stax_max(a, stax_axes1(1), true));
                break;
            case 3:
                a = stax_div(a, stax_sum(a, stax_axes1(-1), true));
                break;
            case 4:
                b = stax_add(b, stax_sum(a, stax_axes1(0), true));
                break;
            case 5:
                if (k % 32 == 5) a = stax_take_along_axis(a, i, 1);
                break;
            case 6:
                b = stax_mul(b, stax_tanh(a));
                break;
            default:
                if (k % 64 != 7) break;
                snprintf(name, sizeof name, "o%d", k);
                stax_output(g, name, stax_sum(b, stax_axes1(1), false));
        }
    }
    stax_output(g, "b", stax_add(a, b));
    return g;
}

/* Kernels that nothing joins. */
static stax_graph *apart(int n) {
    stax_graph *g = stax_graph_new(ctx);
    stax_value x = stax_input(g, "x", STAX_F32, stax_shape2(64, 128));
    for (int k = 0; k < n; k++) x = stax_cumsum(x, k % 2, false, false);
    stax_output(g, "y", x);
    return g;
}

/* The least time of three to lower and schedule a graph of n nodes and to build its loops; with
   `given`, by its own printed schedule. */
static double schedule_time(stax_graph *(*make)(int n), int n, int given) {
    stax_graph *g = make(n);
    plan first;
    stax_schedule *s = NULL;
    double best = 1e9;
    plan_make(&first, ctx, g, NULL, 0);
    CHECK_INT(first.status, STAX_OK);
    if (given) s = stax_schedule_parse(ctx, "own", first.schedule);
    CHECK((s != NULL) == (given != 0));
    for (int k = 0; k < 3; k++) {
        staxi_text why;
        staxi_text_init(&why, staxi_allocator_of(ctx));
        stax_program *p = staxi_program_new(g, STAX_BACKEND_STAX);
        if (!CHECK(p != NULL)) break;
        p->given = s;
        double t = seconds();
        CHECK_INT(staxi_program_plan(p, &why), STAX_OK);
        t = seconds() - t;
        if (t < best) best = t;
        staxi_text_free(&why);
        stax_program_free(p);
    }
    stax_schedule_free(s);
    plan_free(&first);
    stax_graph_free(g);
    return best;
}

/* Eight times the nodes: a quadratic scheduler takes 64 times as long. */
static void time_grows_with_the_graph(void) {
    for (int given = 0; given < 2; given++) {
        double small = schedule_time(large, 1000, given), big = schedule_time(large, 8000, given);
        printf("%s: 1000 nodes %.1f ms, 8000 nodes %.1f ms\n",
               given ? "printed schedule" : "automatic", small * 1e3, big * 1e3);
        CHECK(big < small * 8 * 3 + 0.02);
    }
    double some = schedule_time(apart, 2500, 0), all = schedule_time(apart, 10000, 0);
    printf("apart: 2500 kernels %.1f ms, 10000 kernels %.1f ms\n", some * 1e3, all * 1e3);
    CHECK(all < some * 4 * 2 + 0.02);
}

int main(int argc, char **argv) {
    static char tables[] = "--tables=0", count[] = "--count=300", vectors[] = "--count=64", seed[] = "--seed=1000";
    char *some[] = {argv[0], tables, count, NULL}, *others[] = {argv[0], tables, vectors, seed, NULL};
    if (argc > 1 && strncmp(argv[1], "--", 2) == 0) return random_schedules(argc, argv);
    HARNESS_BEGIN(argc, argv);
    ctx = stax_open(NULL);
    if (!ctx) return 1;
    RUN(texts);
    RUN(syntax_errors);
    RUN(what_is_not_built_is_refused_by_name);
    RUN(calls_one_by_one);
    RUN(automatic_schedules_read_back);
    RUN(calls_do_what_they_say);
    RUN(large_outputs_are_streamed);
    RUN(rows_run_apart);
    RUN(refusals);
    RUN(blocks_are_for_their_graphs);
    RUN(programs_obey);
    RUN(rows_ahead_keep_their_bits);
    RUN(contractions_say_how);
    RUN(contraction_refusals);
    RUN(tiles_keep_their_bits);
    RUN(long_reductions_have_parts);
    RUN(padded_rows_keep_their_bits);
    RUN(rows_are_padded_where_it_pays);
    RUN(partial_results_keep_their_bits);
    RUN(damaged_texts);
    RUN(time_grows_with_the_graph);
    stax_close(ctx);
    if (argc == 1) {
        settings.compiler = fastest_compiler();
        random_schedules(3, some);
        settings.compiler = NULL;
        random_schedules(4, others);
    }
    harness.passed += (int)tally.passed;
    harness.failed += (int)tally.failed;
    return HARNESS_END();
}
