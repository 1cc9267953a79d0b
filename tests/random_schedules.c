/* No schedule changes a bit: random graphs (graphs.h) under random legal schedules, compiled in
   batches and compared with the interpreter as differential.c does it (this file is that one with
   another main; its options are the same).

   A graph's schedule starts as the automatic one, printed; then come random edits of its text, one
   at a time. An edit is either refused, with STAX_E_SCHEDULE and a message that has a place, or it
   is legal and stays. The complete schedule that comes out is printed, read back, and must be
   itself.
   --edits=N (default 12) edits a graph. */
#define STAX_IMPLEMENTATION
#define DIFFERENTIAL_MAIN differential_main
#include "differential.c"

#include "plan.h"
#include "random.h"

enum { MOST_LINES = 400, LINE_BYTES = 160, MOST_LOOPS = 12 };

typedef struct edited {
    char lines[MOST_LINES][LINE_BYTES];
    int n;
} edited;

static int edits_of_each = 12;

/* The counters of shared->extra: refused edits, then legal ones by kind. */
enum {
    EDIT_DELETE,
    EDIT_LOOPS,
    EDIT_ONE_LOOP,
    EDIT_PLACE,
    EDIT_INLINE,
    EDIT_REORDER,
    EDIT_SEGMENT,
    EDIT_SWAP,
    EDIT_FORGET,
    EDIT_KINDS
};
static const char *const edit_names[EDIT_KINDS] = {
    "a call deleted", "loops of a kernel", "one loop call", "placement",       "inlined",
    "reordered",      "segment",           "lines swapped", "kernel left open"};

/* The complete schedule of a graph, for free; NULL: *status says why, and the context has a
 * message. */
static char *plan_of(stax_context *ctx, const stax_graph *g, const char *text,
                     stax_status *status) {
    plan p;
    if (text)
        plan_make_text(&p, ctx, g, text, 0);
    else
        plan_make(&p, ctx, g, NULL, 0);
    *status = p.status;
    return p.schedule;
}

/* ---- the text as lines --------------------------------------------------------------------------
 */

static int read_lines(edited *e, const char *text) {
    e->n = 0;
    while (*text) {
        size_t n = strcspn(text, "\n"), keep = n < LINE_BYTES - 1 ? n : LINE_BYTES - 1;
        if (e->n == MOST_LINES) return 0;
        memcpy(e->lines[e->n], text, keep);
        e->lines[e->n++][keep] = 0;
        text += n + (text[n] == '\n');
    }
    return 1;
}

static char *write_lines(const edited *e) {
    size_t at = 0;
    char *text = (char *)malloc((size_t)e->n * LINE_BYTES + 1);
    if (!text) return NULL;
    for (int k = 0; k < e->n; k++) {
        size_t n = strlen(e->lines[k]);
        memcpy(text + at, e->lines[k], n);
        at += n;
        text[at++] = '\n';
    }
    text[at] = 0;
    return text;
}

static void drop_line(edited *e, int k) {
    memmove(e->lines[k], e->lines[k + 1], (size_t)(e->n - k - 1) * LINE_BYTES);
    e->n--;
}

static void add_line(edited *e, int k, const char *line) {
    if (e->n == MOST_LINES) return;
    memmove(e->lines[k + 1], e->lines[k], (size_t)(e->n - k) * LINE_BYTES);
    snprintf(e->lines[k], LINE_BYTES, "%s", line);
    e->n++;
}

static int is_call(const edited *e, int k) { return strncmp(e->lines[k], "  ", 2) == 0; }
static int is_placement_line(const edited *e, int k) {
    return strncmp(e->lines[k], "  compute_", 10) == 0;
}
static int opens_kernel(const edited *e, int k) {
    return strncmp(e->lines[k], "  compute_root", 14) == 0;
}

static int stage_of_line(const edited *e, int k) {
    const char *s = strchr(e->lines[k] + 2, ' ');
    return s && s[1] == 's' ? atoi(s + 2) : 0;
}

/* The loops that the comment of a placement shows. */
static int loops_of_line(const edited *e, int k, int *loops) {
    const char *s = strchr(e->lines[k], '#');
    int n = 0;
    while (s && n < MOST_LOOPS && (s = strstr(s, " < ")) != NULL) {
        const char *from = s;
        while (from > e->lines[k] && from[-1] >= '0' && from[-1] <= '9') from--;
        if (from > e->lines[k] && from[-1] == 'i') loops[n++] = atoi(from);
        s += 3;
    }
    return n;
}

static int choose(uint64_t *s, int n) { return (int)(draw(s) % (uint64_t)n); }

/* A random line for which `is` holds, -1: none. */
static int choose_line(const edited *e, uint64_t *s, int (*is)(const edited *, int)) {
    int n = 0, at;
    for (int k = 0; k < e->n; k++) n += is(e, k) != 0;
    if (n == 0) return -1;
    at = choose(s, n);
    for (int k = 0; k < e->n; k++)
        if (is(e, k) && at-- == 0) return k;
    return -1;
}

/* The block that line k is in, so that a piece names its own stages. */
static int same_block(const edited *e, int a, int b) {
    for (int k = a < b ? a : b; k < (a < b ? b : a); k++)
        if (e->lines[k][0] == '}') return 0;
    return 1;
}

/* ---- edits --------------------------------------------------------------------------------------
 */

/* Removes the loop calls of the kernel that line k opens; the line behind its placements. */
static int clear_loops(edited *e, int k) {
    int at = k + 1;
    while (at < e->n && is_call(e, at) && !opens_kernel(e, at) &&
           strncmp(e->lines[at], "  reorder", 9) != 0) {
        if (is_placement_line(e, at))
            at++;
        else
            drop_line(e, at);
    }
    return at;
}

static void random_loop_call(char *line, uint64_t *s, int stage, const int *loops, int n) {
    int a = loops[choose(s, n)], b = loops[choose(s, n)], d = choose(s, n);
    const char *in = choose(s, 4) == 0 ? "_in" : "";
    switch (choose(s, 10)) {
        case 0:
            snprintf(line, LINE_BYTES, "  fuse s%d, i%d, i%d", stage, loops[d], loops[(d + 1) % n]);
            break;
        case 1:
            snprintf(line, LINE_BYTES, "  split s%d, i%d {by=%d%s}", stage, a, 2 + choose(s, 9),
                     choose(s, 4) == 0 ? ", tail=\"exact\"" : "");
            break;
        case 2:
            snprintf(line, LINE_BYTES, "  tile s%d, i%d, i%d {by=[%d,%d]}", stage, loops[d],
                     loops[(d + 1) % n], 2 + choose(s, 7), 2 + choose(s, 7));
            break;
        case 3:
            snprintf(line, LINE_BYTES, "  unroll s%d, i%d%s {by=%d}", stage, a, in,
                     2 + choose(s, 8));
            break;
        case 4:
            snprintf(line, LINE_BYTES, "  vectorize s%d, i%d%s", stage, a, in);
            break;
        case 5:
            snprintf(line, LINE_BYTES, "  parallel s%d, i%d%s", stage, b, in);
            break;
        case 6:
            snprintf(line, LINE_BYTES, "  fuse s%d, i%d, i%d, i%d", stage, loops[d],
                     loops[(d + 1) % n], loops[(d + 2) % n]);
            break;
        case 7:
            snprintf(line, LINE_BYTES, "  prefetch s%d, i%d%s {distance=%d}", stage, a, in,
                     1 + choose(s, 600));
            break;
        case 8:
            snprintf(line, LINE_BYTES, "  stream s%d", stage);
            break;
        default:
            snprintf(line, LINE_BYTES, "  serial s%d", stage);
            break;
    }
}

/* Loops of a kernel from scratch, so that they are legal more often than not. */
static void new_loops(edited *e, uint64_t *s, int k) {
    int loops[MOST_LOOPS], n = loops_of_line(e, k, loops), stage = stage_of_line(e, k),
                           at = clear_loops(e, k);
    char line[LINE_BYTES], outer[24], inner[24];
    if (n == 0) return;
    snprintf(outer, sizeof outer, "i%d", loops[0]);
    snprintf(inner, sizeof inner, "i%d", loops[n - 1]);
    switch (choose(s, 5)) {
        case 0:
            snprintf(line, sizeof line, "  split s%d, %s {by=%d}", stage, inner, 2 + choose(s, 40));
            add_line(e, at++, line);
            snprintf(inner, sizeof inner, "i%d_in", loops[n - 1]);
            break;
        case 1:
            if (n < 2) break;
            snprintf(line, sizeof line, "  tile s%d, i%d, %s {by=[%d,%d]}", stage, loops[n - 2],
                     inner, 2 + choose(s, 7), 2 + choose(s, 20));
            add_line(e, at++, line);
            snprintf(inner, sizeof inner, "i%d_in", loops[n - 1]);
            break;
        case 2:
            snprintf(line, sizeof line, "  split s%d, %s {by=%d}", stage, outer, 2 + choose(s, 5));
            add_line(e, at++, line);
            if (n == 1) snprintf(inner, sizeof inner, "i%d_in", loops[0]);
            break;
        case 3:
            if (n < 2) break;
            snprintf(line, sizeof line, "  fuse s%d, i%d, i%d", stage, loops[0], loops[1]);
            add_line(e, at++, line);
            if (n == 2) snprintf(inner, sizeof inner, "%s", outer);
            break;
        default:
            break;
    }
    if (choose(s, 2)) {
        snprintf(line, sizeof line, "  unroll s%d, %s {by=%d}", stage, choose(s, 2) ? inner : outer,
                 2 + choose(s, 4));
        add_line(e, at++, line);
    }
    if (choose(s, 4) == 0) {
        snprintf(line, sizeof line, "  prefetch s%d, %s {distance=%d}", stage, inner,
                 1 + choose(s, 600));
        add_line(e, at++, line);
    }
    if (choose(s, 2)) {
        snprintf(line, sizeof line, "  vectorize s%d, %s", stage, inner);
        add_line(e, at++, line);
        if (choose(s, 3) == 0) {
            snprintf(line, sizeof line, "  stream s%d", stage);
            add_line(e, at++, line);
        }
    }
    snprintf(line, sizeof line, choose(s, 3) ? "  parallel s%d, %s" : "  serial s%d", stage, outer);
    add_line(e, at, line);
}

static void place_elsewhere(edited *e, uint64_t *s, int k) {
    int other = choose_line(e, s, is_placement_line), stage = stage_of_line(e, k),
        target = stage_of_line(e, other);
    char line[LINE_BYTES];
    const char *comment = strchr(e->lines[k], '#');
    if (choose(s, 3) == 0 || !same_block(e, k, other))
        snprintf(line, sizeof line, "  compute_root s%d %s", stage, comment ? comment : "");
    else
        snprintf(line, sizeof line, "  compute_at s%d, s%d %s", stage, target,
                 comment ? comment : "");
    snprintf(e->lines[k], LINE_BYTES, "%s", line);
}

static void reorder_loops(edited *e, uint64_t *s, int k) {
    int loops[MOST_LOOPS], n = loops_of_line(e, k, loops);
    char line[LINE_BYTES];
    int at = snprintf(line, sizeof line, "  reorder s%d", stage_of_line(e, k));
    for (int d = n - 1; d > 0; d--) {
        int j = choose(s, d + 1), t = loops[d];
        loops[d] = loops[j];
        loops[j] = t;
    }
    for (int d = 0; d < n; d++)
        at += snprintf(line + at, sizeof line - (size_t)at, ", i%d", loops[d]);
    for (int j = 0; j < e->n; j++) /* instead of the order that it has */
        if (strncmp(e->lines[j], "  reorder", 9) == 0 &&
            stage_of_line(e, j) == stage_of_line(e, k) && same_block(e, j, k)) {
            snprintf(e->lines[j], LINE_BYTES, "%s", line);
            return;
        }
    if (n) add_line(e, k, line);
}

/* One random edit. Which kind; -1: there was nothing to edit. */
static int edit(edited *e, uint64_t *s) {
    int kind = choose(s, EDIT_KINDS + 2), loops[MOST_LOOPS], k, j, n;
    if (kind >= EDIT_KINDS) kind = kind == EDIT_KINDS ? EDIT_LOOPS : EDIT_PLACE;
    bool any = kind == EDIT_DELETE || kind == EDIT_SWAP,
         kernel = kind == EDIT_LOOPS || kind == EDIT_FORGET;
    k = choose_line(e, s, any ? is_call : kernel ? opens_kernel : is_placement_line);
    if (k < 0) return -1;
    char line[LINE_BYTES];
    switch (kind) {
        case EDIT_DELETE:
            drop_line(e, k);
            break;
        case EDIT_LOOPS:
            new_loops(e, s, k);
            break;
        case EDIT_ONE_LOOP:
            n = loops_of_line(e, k, loops);
            if (n == 0) return -1;
            random_loop_call(line, s, stage_of_line(e, k), loops, n);
            add_line(e, k + 1, line);
            break;
        case EDIT_PLACE:
            place_elsewhere(e, s, k);
            break;
        case EDIT_INLINE:
            snprintf(line, sizeof line, "  compute_inline s%d", stage_of_line(e, k));
            if (opens_kernel(e, k)) (void)clear_loops(e, k);
            snprintf(e->lines[k], LINE_BYTES, "%s", line);
            break;
        case EDIT_REORDER:
            reorder_loops(e, s, k);
            break;
        case EDIT_SEGMENT: {
            char *open = strstr(e->lines[k], "{segment=");
            if (!open) return -1;
            open[9] = (char)('0' + choose(s, 4));
            break;
        }
        case EDIT_SWAP:
            j = choose_line(e, s, is_call);
            if (!same_block(e, j, k)) return -1;
            snprintf(line, sizeof line, "%s", e->lines[k]);
            snprintf(e->lines[k], LINE_BYTES, "%s", e->lines[j]);
            snprintf(e->lines[j], LINE_BYTES, "%s", line);
            break;
        default:
            (void)clear_loops(e, k);
            break;
    }
    return kind;
}

/* ---- the schedule of a graph --------------------------------------------------------------------
 */

static char *random_schedule(stax_context *ctx, const recipe *r, stax_graph *g, verdict *v) {
    static edited best, next;
    char name[32];
    stax_status status;
    uint64_t s = r->seed * 77 + 1;
    snprintf(name, sizeof name, "g%llu", (unsigned long long)r->seed);
    stax_graph_name(g, name);
    char *text = plan_of(ctx, g, NULL, &status);
    if (!text) { /* compiling it says why */
        return NULL;
    }
    if (!read_lines(&best, text)) return text;
    for (int k = 0; k < edits_of_each && v->what == FINE; k++) {
        next = best;
        int kind = edit(&next, &s);
        char *edited_text = kind < 0 ? NULL : write_lines(&next);
        if (!edited_text) continue;
        char *after = plan_of(ctx, g, edited_text, &status);
        if (after) {
            free(text);
            text = after;
            shared->extra[1 + kind]++;
            if (!read_lines(&best, text)) break;
        } else if (status == STAX_E_SCHEDULE && strncmp(stax_error(ctx), "edited:", 7) == 0 &&
                   strstr(stax_error(ctx), ": error: ")) {
            shared->extra[0]++;
        } else {
            snprintf(v->why, sizeof v->why, "an edit ended in %s (%.200s): %.500s",
                     stax_status_text(status), stax_error(ctx), edited_text);
            v->what = BAD_SCHEDULE;
        }
        free(edited_text);
    }
    char *again = v->what == FINE ? plan_of(ctx, g, text, &status) : NULL;
    if (v->what == FINE && (!again || strcmp(again, text) != 0)) {
        snprintf(v->why, sizeof v->why, "it reads back as another one (%s): %.400s ---- %.400s",
                 again ? "no error" : stax_error(ctx), text, again ? again : "");
        v->what = BAD_SCHEDULE;
    }
    free(again);
    return text;
}

static void say_edits(void) {
    printf("edits: %lld refused", (long long)shared->extra[0]);
    for (int k = 0; k < EDIT_KINDS; k++)
        printf(", %s %lld", edit_names[k], (long long)shared->extra[1 + k]);
    printf("\n");
}

int main(int argc, char **argv) {
    schedule_of = random_schedule;
    report_schedules = say_edits;
    settings.count = 300;
    edits_of_each = (int)option(argc, argv, "--edits", edits_of_each);
    return differential_main(argc, argv);
}
