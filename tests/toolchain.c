/* The toolchain and the cache of compiled kernels, with real compilers, processes, threads and
   disks: compilers that fail, lie or change, objects that were altered, folders with odd names or
   owners, full disks, races, eviction, memory that runs out. POSIX; needs gcc, uses clang and tcc
   where present. */
#if defined(_WIN32)
#include <stdio.h>
int main(void) {
    printf("skip toolchain: needs POSIX\n0 passed, 0 failed\n");
    return 0;
}
#else
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mount.h>
#endif
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#define STAX_STATIC
#define STAX_IMPLEMENTATION
#include "../stax.h"

#include "harness.h"

static char root[512]; /* everything of a test happens below it */

/* ---- an allocator that counts and can fail ---- */

static volatile int64_t live_bytes, n_allocs, fail_at,
    fail_on; /* fail_at 0: never; fail_on: that one and all later */
static void *test_alloc(size_t bytes, size_t align, void *user) {
    void *p = NULL;
    int64_t n = staxi_atomic_add(&n_allocs, 1), at = staxi_atomic_load(&fail_at);
    (void)user;
    if (at && (n == at || (n > at && staxi_atomic_load(&fail_on)))) return NULL;
    if (posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, bytes ? bytes : 1))
        return NULL;
    memset(p, 0xa5, bytes);
    (void)staxi_atomic_add(&live_bytes, (int64_t)bytes);
    return p;
}
static void test_free(void *p, size_t bytes, void *user) {
    (void)user;
    if (!p) return;
    (void)staxi_atomic_add(&live_bytes, -(int64_t)bytes);
    free(p);
}
static const stax_allocator allocator = {test_alloc, test_free, NULL};

/* ---- helpers ---- */

static void shell(const char *format, ...) {
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (system(text) == -1) printf("cannot run %s\n", text);
}

static void write_file(const char *path, const char *text, int mode) {
    FILE *f = fopen(path, "wb");
    if (!f) {
        printf("cannot write %s\n", path);
        return;
    }
    fputs(text, f);
    fclose(f);
    chmod(path, (mode_t)mode);
}

static int count_lines(const char *path) {
    FILE *f = fopen(path, "rb");
    int c, n = 0;
    if (!f) return 0;
    while ((c = fgetc(f)) != EOF) n += c == '\n';
    fclose(f);
    return n;
}

static int count_files(const char *folder, const char *part) {
    DIR *d = opendir(folder);
    struct dirent *e;
    int n = 0;
    if (!d) return -1;
    while ((e = readdir(d)) != NULL) n += e->d_name[0] != '.' && strstr(e->d_name, part) != NULL;
    closedir(d);
    return n;
}

/* The first file in the folder whose name ends so. */
static bool find_file(const char *folder, const char *suffix, char *out) {
    DIR *d = opendir(folder);
    struct dirent *e;
    bool found = false;
    if (!d) return false;
    while (!found && (e = readdir(d)) != NULL) {
        size_t n = strlen(e->d_name), m = strlen(suffix);
        if (n >= m && strcmp(e->d_name + n - m, suffix) == 0) {
            snprintf(out, 1024, "%s/%s", folder, e->d_name);
            found = true;
        }
    }
    closedir(d);
    return found;
}

static char *in_root(const char *name) {
    static char *names[512];
    static int n;
    char path[1024];
    int i;
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (i = 0; i < n; i++) {
        if (strcmp(names[i], path) == 0) return names[i];
    }
    names[n] = strdup(path);
    return names[n++];
}

/* A wrapper around a compiler: writes a line per run to ROOT/runs (links) and ROOT/probes. */
static void make_wrapper(const char *path, const char *before, const char *compiler,
                         const char *after) {
    char text[4096];
    snprintf(text, sizeof text,
             "#!/bin/sh\ncase \" $* \" in *\" -E \"*) echo x >>'%s/probes'; exec %s \"$@\";; esac\n"
             "echo x >>'%s/runs'\nout=; prev=; for a in \"$@\"; do [ \"$prev\" = -o ] && out=$a; "
             "prev=$a; done\n"
             "%s\n%s \"$@\" %s\n",
             root, compiler, root, before, compiler, after);
    write_file(path, text, 0755);
}

static int runs(void) { return count_lines(in_root("runs")); }
static int probes(void) { return count_lines(in_root("probes")); }
static void reset_runs(void) {
    unlink(in_root("runs"));
    unlink(in_root("probes"));
}

static char log_text[65536];
static void take_log(const char *line, void *user) {
    (void)user;
    strncat(log_text, line, sizeof log_text - strlen(log_text) - 2);
    strcat(log_text, "\n");
}

static staxi_toolchain_options options(const char *compiler, const char *folder) {
    staxi_toolchain_options o;
    memset(&o, 0, sizeof o);
    o.compiler = compiler;
    o.cache_dir = folder;
    o.isa = STAXI_ISA_DETECTED;
    o.allocator = &allocator;
    return o;
}

static void kernel_text(char *out, int n) { sprintf(out, "int k(int x) { return x + %d; }\n", n); }

static int call(staxi_object *o, int x) {
    int (*f)(int) = NULL;
    void *p = staxi_object_symbol(o, "k");
    if (!p) return INT_MIN;
    memcpy(&f, &p, sizeof f);
    return f(x);
}

typedef struct outcome {
    stax_status status;
    staxi_build_origin origin;
    char message[8192];
    int value; /* k(1) */
    stax_cache_figures figures;
} outcome;

/* Builds kernel n in a fresh toolchain. */
static outcome build(const staxi_toolchain_options *o, const char *source) {
    outcome r;
    staxi_toolchain tc;
    staxi_object *object = NULL;
    staxi_build_result result;
    staxi_build_options b;
    staxi_text message;
    memset(&r, 0, sizeof r);
    memset(&b, 0, sizeof b);
    b.result = &result;
    r.value = INT_MIN;
    staxi_text_init(&message, &allocator);
    r.status = staxi_toolchain_init(&tc, o);
    if (r.status != STAX_OK) return r;
    r.status = staxi_toolchain_build(&tc, source, strlen(source), &b, &object, &message);
    r.origin = result.origin;
    if (message.data) snprintf(r.message, sizeof r.message, "%s", message.data);
    if (object) r.value = call(object, 1);
    CHECK((object != NULL) == (r.status == STAX_OK));
    (void)staxi_cache_info(&tc, &r.figures);
    r.figures.path = NULL;
    staxi_object_release(object);
    staxi_text_free(&message);
    staxi_toolchain_free(&tc);
    return r;
}

static outcome build_in(const char *compiler, const char *folder, int n) {
    char text[128];
    staxi_toolchain_options o = options(compiler, folder);
    kernel_text(text, n);
    return build(&o, text);
}

/* Runs fn in a child; its failures count here. */
static void in_child(void (*fn)(void)) {
    int status = 0, before = harness.bad_checks;
    pid_t child;
    fflush(stdout);
    child = fork();
    if (child == 0) {
        fn();
        fflush(stdout);
        _exit(harness.bad_checks == before ? 0 : 1);
    }
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static bool has(const char *text, const char *part) { return strstr(text, part) != NULL; }

/* What no build may leave behind. */
#define CHECK_TIDY(folder) \
    CHECK(count_files(folder, "tmp-") <= 0 && count_files(folder, ".lock") <= 0)

/* ---- the tests ---- */

/* Those that are installed, gcc first; the quickest of them. */
static const char *compilers[3];
static int n_compilers;
static const char *quick;

static bool is_installed(const char *name) {
    char text[700];
    snprintf(text, sizeof text, "command -v %s >%s/which.txt 2>&1", name, root);
    return system(text) == 0;
}
static void find_compilers(void) {
    static const char *const names[] = {"gcc", "clang", "tcc"};
    n_compilers = 0;
    for (int i = 0; i < 3; i++) {
        if (is_installed(names[i])) compilers[n_compilers++] = names[i];
    }
    quick = n_compilers ? compilers[n_compilers - 1] : NULL;
    if (quick && strcmp(quick, "clang") == 0) quick = "gcc";
}
static bool is_tcc(int i) { return strcmp(compilers[i], "tcc") == 0; }

static void test_basic(void) {
    int i;
    for (i = 0; i < n_compilers; i++) {
        char *folder = in_root(compilers[i]), text[64];
        staxi_toolchain_options o = options(compilers[i], folder);
        staxi_toolchain tc;
        staxi_object *a, *b, *c;
        staxi_build_result result;
        staxi_build_options how;
        stax_cache_figures figures;
        struct stat s;
        int isa = -1, stored;
        memset(&how, 0, sizeof how);
        how.result = &result;
        kernel_text(text, 41);
        CHECK(staxi_toolchain_init(&tc, &o) == STAX_OK);
        CHECK(staxi_toolchain_target(&tc, &isa, NULL) == STAX_OK);
        CHECK(isa == (is_tcc(i) ? STAXI_ISA_SCALAR : staxi_cpu_isa()));
        CHECK(staxi_toolchain_build(&tc, text, strlen(text), &how, &a, NULL) == STAX_OK);
        CHECK(result.origin == STAXI_BUILD_COMPILED && result.spent_ns > 0);
        CHECK(call(a, 1) == 42 && staxi_object_symbol(a, "nothing_of_that_name") == NULL);
        CHECK(stat(folder, &s) == 0 && (s.st_mode & 0777) == 0700);
        CHECK(staxi_toolchain_build(&tc, text, strlen(text), &how, &b, NULL) == STAX_OK);
        CHECK(result.origin == STAXI_BUILD_MEMORY && a == b);
        staxi_object_retain(b);
        staxi_object_release(b);
        staxi_object_release(b);
        CHECK(call(a, 2) == 43);
        staxi_object_release(a);
        CHECK(staxi_toolchain_build(&tc, text, strlen(text), &how, &a, NULL) == STAX_OK);
        CHECK(result.origin == STAXI_BUILD_DISK && call(a, 1) == 42);
        how.opt_level = 3; /* another command, another key; tcc has no levels */
        how.keep_source = true;
        CHECK(staxi_toolchain_build(&tc, text, strlen(text), &how, &c, NULL) == STAX_OK);
        CHECK(is_tcc(i) ? c == a : c != a && result.origin == STAXI_BUILD_COMPILED);
        CHECK(count_files(folder, ".c") == (is_tcc(i) ? 0 : 1));
        CHECK(staxi_cache_info(&tc, memset(&figures, 0, sizeof figures)) == STAX_OK);
        stored = is_tcc(i) ? 1 : 2;
        CHECK(strcmp(figures.path, folder) == 0 && figures.entries == stored &&
              figures.misses == stored);
        CHECK(figures.compiles == stored && figures.hits_disk == 1 && figures.refused == 0);
        CHECK(figures.hits_memory == (is_tcc(i) ? 2 : 1) && figures.bytes > 0);
        CHECK(figures.limit == (int64_t)256 << 20);
        staxi_toolchain_free(&tc);
        CHECK(call(a, 1) == 42); /* an object outlives its toolchain */
        staxi_object_release(a);
        staxi_object_release(c);
        CHECK_TIDY(folder);
    }
}

typedef struct racer {
    staxi_toolchain *tc;
    int value, n;
    staxi_object *object;
} racer;
static void race(void *arg) {
    racer *r = (racer *)arg;
    char text[64];
    kernel_text(text, r->n);
    (void)staxi_toolchain_build(r->tc, text, strlen(text), NULL, &r->object, NULL);
    r->value = call(r->object, 1);
}
static void race_process(void) {
    staxi_toolchain tc;
    staxi_toolchain_options o = options(in_root("cc"), in_root("race"));
    staxi_thread threads[8];
    racer racers[8];
    int i;
    CHECK(staxi_toolchain_init(&tc, &o) == STAX_OK);
    for (i = 0; i < 8; i++) {
        memset(&racers[i], 0, sizeof racers[i]);
        racers[i].tc = &tc;
        racers[i].n = 7;
        CHECK(staxi_thread_start(&threads[i], race, &racers[i]));
    }
    for (i = 0; i < 8; i++) staxi_thread_join(&threads[i]);
    for (i = 0; i < 8; i++) CHECK(racers[i].value == 8 && racers[i].object == racers[0].object);
    for (i = 0; i < 8; i++) staxi_object_release(racers[i].object);
    staxi_toolchain_free(&tc);
}

static void spawn_all(void (*fn)(void), int n) {
    pid_t children[32];
    int i, status, before = harness.bad_checks;
    fflush(stdout);
    for (i = 0; i < n; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            fn();
            fflush(stdout);
            _exit(harness.bad_checks == before ? 0 : 1);
        }
    }
    for (i = 0; i < n; i++) {
        waitpid(children[i], &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void test_once(void) {
    make_wrapper(in_root("cc"), "sleep 0.3", "gcc", "");
    reset_runs();
    spawn_all(race_process, 8);          /* 8 processes of 8 threads, cold */
    CHECK(runs() == 2 && probes() == 1); /* the kernel and the self-test */
    reset_runs();
    spawn_all(race_process, 8); /* warm: no process at all */
    CHECK(runs() == 0 && probes() == 0);
    CHECK_TIDY(in_root("race"));
}

/* Different kernels from many threads run at the same time. */
static void test_parallel(void) {
    staxi_toolchain tc;
    staxi_toolchain_options o;
    staxi_thread threads[6];
    racer racers[6];
    int64_t start;
    int i;
    make_wrapper(in_root("cc"), "sleep 0.5", quick, "");
    reset_runs();
    o = options(in_root("cc"), in_root("parallel"));
    CHECK(staxi_toolchain_init(&tc, &o) == STAX_OK);
    start = staxi_clock_ns();
    for (i = 0; i < 6; i++) {
        memset(&racers[i], 0, sizeof racers[i]);
        racers[i].tc = &tc;
        racers[i].n = i;
        CHECK(staxi_thread_start(&threads[i], race, &racers[i]));
    }
    for (i = 0; i < 6; i++) staxi_thread_join(&threads[i]);
    /* One after another they would sleep for 3.5 s; a busy machine gets most of that. */
    CHECK(staxi_clock_ns() - start < 3400000000);
    for (i = 0; i < 6; i++) CHECK(racers[i].value == i + 1);
    for (i = 0; i < 6; i++) staxi_object_release(racers[i].object);
    staxi_toolchain_free(&tc);
    CHECK(runs() == 7);
}

static void test_bad_compilers(void) {
    static const struct {
        const char *name, *before, *after, *expect;
        stax_status status;
    } bad[] = {
        {"fails", "echo 'no licence today' >&2; exit 3", "", "exit 3", STAX_E_COMPILER},
        {"garbage", "head -c 3000 /dev/urandom; printf '\\033[2J\\033[31m'; exit 1", "", "exit 1",
         STAX_E_COMPILER},
        {"silent", "exit 0", "", "no whole object", STAX_E_COMPILER},
        {"empty", ": >$out; exit 0", "", "no whole object", STAX_E_COMPILER},
        {"text",
         "echo 'I am not an object, but I am long enough to be one, or so I hope' >$out; exit 0",
         "", "no whole object", STAX_E_COMPILER},
        {"short", "", "; n=$(stat -c %s $out); truncate -s $((n / 2)) $out; exit 0",
         "no whole object", STAX_E_COMPILER},
        {"shorter", "", "; n=$(stat -c %s $out); truncate -s $((n - 1)) $out; exit 0",
         "no whole object", STAX_E_COMPILER},
        {"killed", "kill -9 $$", "", "exit 137", STAX_E_COMPILER},
        {"full", "echo \"ld: final link failed: No space left on device\"; exit 1", "", "with room",
         STAX_E_CACHE},
        {"gone", "exec /nonexistent/cc1", "", "could not be started", STAX_E_COMPILER},
    };
    size_t i, j;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char folder[600];
        outcome r;
        snprintf(folder, sizeof folder, "%s/bad-%s", root, bad[i].name);
        make_wrapper(in_root("bad"), bad[i].before, "gcc", bad[i].after);
        r = build_in(in_root("bad"), folder, 1);
        CHECK(r.status == bad[i].status && r.origin == STAXI_BUILD_FAILED);
        if (!has(r.message, bad[i].expect)) printf("  %s: %s\n", bad[i].name, r.message);
        CHECK(has(r.message, bad[i].expect) && has(r.message, "-shared") &&
              has(r.message, "source kept: ") && has(r.message, "hint: "));
        for (j = 0; r.message[j]; j++)
            CHECK(r.message[j] == '\n' || r.message[j] == '\t' ||
                  (unsigned char)r.message[j] >= 32);
        CHECK(count_files(folder, ".so") == 0);
        CHECK_TIDY(folder);
    }
    {
        outcome r = build_in("gcc", in_root("syntax"), 1);
        staxi_toolchain_options o = options("gcc", in_root("syntax"));
        char *path, *end;
        CHECK(r.status == STAX_OK);
        r = build(&o, "int k(int x) { return x + ; }\n");
        CHECK(r.status == STAX_E_COMPILER && has(r.message, "exit 1") &&
              has(r.message, ".c:1:27: error:"));
        path = strstr(r.message, "source kept: ");
        CHECK(path != NULL);
        if (path && (end = strchr(path, '\n')) != NULL) {
            *end = '\0';
            CHECK(access(path + 13, R_OK) == 0);
        }
        r = build(&o, "int k(int x) { return unknown_function(x); }\n"); /* links, does not load */
        CHECK(r.status == STAX_E_COMPILER && has(r.message, "unknown_function"));
        CHECK_TIDY(in_root("syntax"));
    }
    make_wrapper(in_root("bad"), "", "false", ""); /* does not even preprocess */
    CHECK(build_in(in_root("bad"), in_root("nothing"), 1).status == STAX_E_COMPILER);
}

/* No prefix of a real object passes. */
static void test_whole(void) {
    size_t n;
    for (int i = 0; i < n_compilers; i++) {
        staxi_text t;
        int good = 0;
        char path[1024];
        staxi_text_init(&t, &allocator);
        CHECK(build_in(compilers[i], in_root("whole"), 5).status == STAX_OK);
        CHECK(find_file(in_root("whole"), ".so", path) && staxi_file_read(path, &t));
        CHECK(t.n > STAXI_SEAL_BYTES);
        t.n -= STAXI_SEAL_BYTES;
        CHECK(staxi_elf_is_whole((const uint8_t *)t.data, t.n));
        for (n = 0; n < t.n; n++) {
            uint8_t *copy = (uint8_t *)malloc(n + 1); /* for the sanitizer */
            memcpy(copy, t.data, n);
            good += staxi_elf_is_whole(copy, n);
            free(copy);
        }
        CHECK(good == 0);
        for (n = 0; n < 5000; n++) { /* must not read outside, whatever the fields hold */
            uint8_t head[256];
            size_t j;
            memcpy(head, t.data, sizeof head);
            for (j = 0; j < 4; j++)
                head[4 + (n * 2654435761u + j * 40503u) / 7 % 120] = (uint8_t)(n * 31 + j * 77);
            (void)staxi_elf_is_whole(head, sizeof head);
        }
        staxi_text_free(&t);
        shell("rm -rf '%s/whole'", root);
    }
}

static void test_self_test(void) {
    static const struct {
        const char *flag, *check;
    } wrong[] = {{"-Ofast", "check "},
                 {"-ffp-contract=fast -mfma -mavx2", "check 2 failed: a*b+c rounds twice"}};
    size_t i;
    for (i = 0; i < 2; i++) {
        char folder[600];
        outcome r;
        snprintf(folder, sizeof folder, "%s/wrong%d", root, (int)i);
        make_wrapper(in_root("wrong"), "", "gcc", wrong[i].flag);
        reset_runs();
        r = build_in(in_root("wrong"), folder, 1);
        CHECK(r.status == STAX_E_COMPILER && has(r.message, "refused") &&
              has(r.message, wrong[i].check));
        CHECK(runs() == 2 && count_files(folder, ".so") == 0);
        r = build_in(in_root("wrong"), folder,
                     1); /* the verdict is kept: only the kernel is compiled */
        CHECK(r.status == STAX_E_COMPILER && has(r.message, wrong[i].check) && runs() == 3);
        { /* once it is known here, nothing runs */
            staxi_toolchain tc;
            staxi_toolchain_options o = options(in_root("wrong"), folder);
            staxi_object *object;
            int k;
            CHECK(staxi_toolchain_init(&tc, &o) == STAX_OK);
            for (k = 0; k < 3; k++)
                CHECK(staxi_toolchain_build(&tc, "int k;", 6, NULL, &object, NULL) ==
                          STAX_E_COMPILER &&
                      object == NULL);
            staxi_toolchain_free(&tc);
            CHECK(runs() == 4);
        }
        CHECK_TIDY(folder);
    }
    for (int c = 0; c < n_compilers; c++) { /* all levels of all compilers pass */
        int isa, level;
        for (isa = 0; isa <= staxi_cpu_isa(); isa++) {
            if (isa > 0 && is_tcc(c)) break; /* width 1 only */
            for (level = 1; level <= 3; level++) {
                if (level != 2 && isa != staxi_cpu_isa() && !is_tcc(c)) continue; /* for time */
                staxi_toolchain_options o = options(compilers[c], in_root("levels"));
                staxi_toolchain tc;
                staxi_object *object;
                staxi_build_options how;
                staxi_text message;
                staxi_text_init(&message, &allocator);
                memset(&how, 0, sizeof how);
                how.opt_level = level;
                o.isa = isa;
                CHECK(staxi_toolchain_init(&tc, &o) == STAX_OK);
                CHECK(staxi_toolchain_build(&tc, "int k(int x) { return x; }", 26, &how, &object,
                                            &message) == STAX_OK);
                if (message.n)
                    printf("%s isa %d -O%d: %s\n", compilers[c], isa, level, message.data);
                staxi_object_release(object);
                staxi_text_free(&message);
                staxi_toolchain_free(&tc);
            }
        }
    }
#if defined(__SSE2__)
    {
        unsigned old = _mm_getcsr(); /* a host that flushes subnormals */
        _mm_setcsr(old | 0x8040);
        CHECK(build_in("gcc", in_root("flush"), 1).status == STAX_OK);
        CHECK((_mm_getcsr() & 0x8040) == 0x8040);
        _mm_setcsr(old);
    }
#endif
    { /* a verdict that was altered is made again */
        char path[1024];
        outcome r;
        CHECK(build_in(quick, in_root("verdict"), 1).status == STAX_OK);
        CHECK(find_file(in_root("verdict"), ".test", path));
        write_file(path, "right", 0600);
        r = build_in(quick, in_root("verdict"), 1);
        CHECK(r.status == STAX_OK && r.origin == STAXI_BUILD_DISK && r.figures.refused >= 1);
        CHECK(build_in(quick, in_root("verdict"), 1).figures.refused == 0);
    }
}

static void test_identity(void) {
    char *wrapper = in_root("pure-cc"), *folder = in_root("pure");
    outcome r;
    make_wrapper(wrapper, "", quick, "");
    reset_runs();
    CHECK(build_in(wrapper, folder, 1).origin == STAXI_BUILD_COMPILED);
    CHECK(build_in(wrapper, folder, 1).origin == STAXI_BUILD_DISK && runs() == 2 && probes() == 1);
    make_wrapper(wrapper, ": changed", quick, ""); /* in place, under the same path */
    r = build_in(wrapper, folder, 1);
    CHECK(r.origin == STAXI_BUILD_COMPILED && runs() == 4 && probes() == 2);
    shell("touch -d '2001-02-03' '%s'", wrapper); /* same bytes, another time */
    CHECK(build_in(wrapper, folder, 1).origin == STAXI_BUILD_COMPILED);
    { /* while a toolchain is open */
        staxi_toolchain tc;
        staxi_toolchain_options o = options(wrapper, folder);
        staxi_build_result result;
        staxi_build_options how;
        staxi_object *a, *b;
        memset(&how, 0, sizeof how);
        how.result = &result;
        CHECK(staxi_toolchain_init(&tc, &o) == STAX_OK);
        CHECK(staxi_toolchain_build(&tc, "int k(int x) { return x; }", 26, &how, &a, NULL) ==
              STAX_OK);
        CHECK(staxi_toolchain_build(&tc, "int k(int x) { return x; }", 26, &how, &b, NULL) ==
              STAX_OK);
        CHECK(a == b && result.origin == STAXI_BUILD_MEMORY);
        staxi_object_release(b);
        make_wrapper(wrapper, ": changed again", quick, "");
        CHECK(staxi_toolchain_build(&tc, "int k(int x) { return x; }", 26, &how, &b, NULL) ==
              STAX_OK);
        CHECK(a != b && result.origin == STAXI_BUILD_COMPILED);
        staxi_object_release(a);
        staxi_object_release(b);
        staxi_toolchain_free(&tc);
    }
    make_wrapper(wrapper, "[ -e \"$0.once\" ] || { : >\"$0.once\"; echo '#' >>\"$0\"; }", "tcc",
                 "");
    r = build_in(wrapper, folder, 9); /* replaced while it runs: made again under the new key */
    CHECK(r.status == STAX_OK && r.origin == STAXI_BUILD_COMPILED && r.value == 10);
    CHECK(build_in(wrapper, folder, 9).origin == STAXI_BUILD_DISK);
    make_wrapper(wrapper, "echo '#' >>\"$0\"", quick, "");
    r = build_in(wrapper, folder, 10);
    CHECK(r.status == STAX_E_COMPILER && has(r.message, "replaced"));
    /* the compiler proper behind an unchanged driver, for gcc's and clang's way to tell it */
    make_wrapper(in_root("cc1"), "", "true", "");
    write_file(in_root("my cc1"), "x", 0755);
    {
        char text[4096];
        const char *line[2];
        int i;
        line[0] = "echo ' %s/cc1 -E -quiet -v x.c' >&2";
        line[1] = "echo ' \"%s/my cc1\" -cc1 -triple x86' >&2";
        for (i = 0; i < 2; i++) {
            char say[1024], proper[1024];
            sprintf(proper, "%s/%s", root, i ? "my cc1" : "cc1");
            snprintf(say, sizeof say, i ? line[1] : line[0], root);
            snprintf(text, sizeof text,
                     "#!/bin/sh\ncase \" $* \" in *\" -E \"*) echo x >>'%s/probes'; %s;; *) echo x "
                     ">>'%s/runs';; esac\n"
                     "exec %s \"$@\"\n",
                     root, say, root, quick);
            write_file(wrapper, text, 0755);
            reset_runs();
            CHECK(build_in(wrapper, folder, 1).origin == STAXI_BUILD_COMPILED);
            CHECK(build_in(wrapper, folder, 1).origin == STAXI_BUILD_DISK && probes() == 1);
            shell("echo y >>'%s'", proper);
            CHECK(build_in(wrapper, folder, 1).origin == STAXI_BUILD_COMPILED && probes() == 1 &&
                  runs() == 4);
            unlink(proper); /* gone: the driver is asked again */
            CHECK(build_in(wrapper, folder, 1).origin == STAXI_BUILD_COMPILED && probes() == 2);
            write_file(proper, "x", 0755);
        }
    }
    { /* real ones are found */
        int i;
        for (i = 0; i < n_compilers; i++) {
            const char *expect = is_tcc(i)                          ? ""
                                 : strcmp(compilers[i], "gcc") == 0 ? "cc1"
                                                                    : "clang";
            const int kind = is_tcc(i) ? 3 : strcmp(compilers[i], "gcc") == 0 ? 1 : 2;
            staxi_toolchain tc;
            staxi_toolchain_options o = options(compilers[i], folder);
            int isa;
            CHECK(staxi_toolchain_init(&tc, &o) == STAX_OK &&
                  staxi_toolchain_target(&tc, &isa, NULL) == STAX_OK);
            CHECK(tc.compiler && (int)tc.compiler->kind == kind);
            CHECK(tc.compiler &&
                  has(tc.compiler->proper.data ? tc.compiler->proper.data : "", expect));
            CHECK(tc.compiler && has(tc.compiler->version.data, compilers[i]) &&
                          strchr(tc.compiler->version.data, '.') == NULL
                      ? is_tcc(i)
                      : !is_tcc(i));
            staxi_toolchain_free(&tc);
        }
    }
    CHECK_TIDY(folder);
}

static void test_tampering(void) {
    char *folder = in_root("tamper"), path[1024], other[1024];
    int how;
    for (how = 0; how < 6; how++) {
        outcome r;
        shell("rm -rf '%s'", folder);
        if (how == 5) {
            CHECK(build_in(quick, folder, 2).status == STAX_OK && find_file(folder, ".so", other));
            shell("cp '%s' '%s/other'", other, root);
            unlink(other);
        }
        CHECK(build_in(quick, folder, 1).status == STAX_OK && find_file(folder, ".so", path));
        if (how == 0) shell("printf X | dd of='%s' bs=1 seek=600 conv=notrunc 2>/dev/null", path);
        if (how == 1) CHECK(truncate(path, 900) == 0);
        if (how == 2) CHECK(truncate(path, 0) == 0);
        if (how == 3) shell("echo more >>'%s'", path);
        if (how == 4)
            write_file(path,
                       "\177ELF and then nothing of any use to anybody, but longer than a seal is, "
                       "so that all is looked at\n",
                       0600);
        if (how == 5) shell("cat '%s/other' >'%s'", root, path); /* whole, but another kernel's */
        r = build_in(quick, folder, 1);
        CHECK(r.status == STAX_OK && r.origin == STAXI_BUILD_COMPILED && r.value == 2 &&
              r.figures.refused >= 1);
        r = build_in(quick, folder, 1);
        CHECK(r.origin == STAXI_BUILD_DISK && r.figures.refused == 0);
        CHECK_TIDY(folder);
    }
    CHECK(find_file(folder, ".probe", path) && truncate(path, 30) == 0); /* a note cut short */
    CHECK(build_in(quick, folder, 1).origin == STAXI_BUILD_DISK);
    CHECK(find_file(folder, ".so", path));
    unlink(path);
    CHECK(mkdir(path, 0700) == 0); /* something in the way */
    CHECK(build_in(quick, folder, 1).value == 2);
}

static void test_folders(void) {
    static const char *const odd[] = {"with space",  "with'quote",
                                      "with\"both'", "$HOME `id` $(id)",
                                      "new\nline",   "-rf",
                                      "a;b&c|d",     "b\\slash\\",
                                      "%s%n",        "\xc3\xa9\xe2\x82\xac",
                                      "*?[x]",       "deep/er/and/deeper"};
    size_t i;
    for (i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        char compiler[1024], folder[1024];
        outcome r;
        snprintf(folder, sizeof folder, "%s/odd/%s", root, odd[i]);
        r = build_in(quick, folder, 3);
        CHECK(r.status == STAX_OK && r.value == 4 &&
              build_in(quick, folder, 3).origin == STAXI_BUILD_DISK);
        CHECK_TIDY(folder);
        snprintf(compiler, sizeof compiler, "%s/odd-cc/%s", root, odd[i]);
        shell("mkdir -p '%s/odd-cc/deep/er/and'", root);
        make_wrapper(compiler, "", quick, "");
        r = build_in(compiler, folder, 4);
        CHECK(r.status == STAX_OK && r.value == 5 && r.origin == STAXI_BUILD_COMPILED);
    }
    { /* a relative folder means the one at the first build, wherever the host goes later */
        staxi_toolchain tc;
        staxi_toolchain_options o = options(quick, "relative folder");
        staxi_object *a;
        char here[1024];
        CHECK(getcwd(here, sizeof here) != NULL && chdir(root) == 0);
        CHECK(staxi_toolchain_init(&tc, &o) == STAX_OK);
        CHECK(staxi_toolchain_build(&tc, "int k(int x) { return x; }", 26, NULL, &a, NULL) ==
              STAX_OK);
        staxi_object_release(a);
        CHECK(chdir("/") == 0);
        CHECK(staxi_toolchain_build(&tc, "int k(int x) { return 2; }", 26, NULL, &a, NULL) ==
              STAX_OK);
        CHECK(count_files(in_root("relative folder"), ".so") == 2);
        shell("rm -rf '%s/relative folder'", root); /* under our feet */
        staxi_object_release(a);
        CHECK(staxi_toolchain_build(&tc, "int k(int x) { return 2; }", 26, NULL, &a, NULL) ==
                  STAX_OK &&
              call(a, 1) == 2);
        staxi_object_release(a);
        staxi_toolchain_free(&tc);
        CHECK(chdir(here) == 0);
    }
    write_file(in_root("a-file"), "x", 0600);
    {
        outcome r = build_in(quick, in_root("a-file"), 1);
        CHECK(r.status == STAX_E_CACHE && has(r.message, "a-file") && has(r.message, "hint: "));
        r = build_in(quick, in_root("a-file/below"), 1);
        CHECK(r.status == STAX_E_CACHE && has(r.message, "below"));
        r = build_in(quick, "/proc/nothing/here", 1);
        CHECK(r.status == STAX_E_CACHE);
    }
    CHECK(mkdir(in_root("open"), 0700) == 0 && chmod(in_root("open"), 0777) == 0);
    {
        outcome r = build_in(quick, in_root("open"), 1);
        CHECK(r.status == STAX_E_CACHE && has(r.message, "others may write") &&
              has(r.message, "hint: "));
        CHECK(chmod(in_root("open"), 0755) == 0 &&
              build_in(quick, in_root("open"), 1).status == STAX_OK);
    }
}

static void as_nobody_unwritable(void) {
    outcome r;
    if (setgid(65534) != 0 || setuid(65534) != 0) return;
    r = build_in(quick, in_root("others"), 1); /* belongs to root */
    CHECK(r.status == STAX_E_CACHE && has(r.message, "belongs to another user"));
    r = build_in(quick, in_root("mine"), 1);
    CHECK(r.status == STAX_OK && r.value == 2);
    CHECK(chmod(in_root("mine"), 0500) == 0); /* reading is enough for a warm start */
    r = build_in(quick, in_root("mine"), 1);
    CHECK(r.status == STAX_OK && r.origin == STAXI_BUILD_DISK);
    r = build_in(quick, in_root("mine"), 2);
    CHECK(r.status == STAX_E_CACHE && has(r.message, "permission denied") &&
          has(r.message, "hint: "));
    chmod(in_root("mine"), 0700);
    setenv("HOME", "/root", 1); /* of the usual places the first that serves */
    unsetenv("STAX_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    setenv("TMPDIR", in_root("mine"), 1);
    r = build_in(quick, NULL, 5);
    CHECK(r.status == STAX_OK && count_files(in_root("mine/stax-65534"), ".so") == 1);
}
static void as_root_of_another(void) {
    outcome r = build_in(quick, in_root("mine"), 1); /* belongs to nobody */
    CHECK(r.status == STAX_E_CACHE && has(r.message, "belongs to another user (id 65534)"));
}
static void test_users(void) {
    if (geteuid() != 0) {
        SKIP("needs root");
        return;
    }
    shell(
        "mkdir -p '%s/others' '%s/mine'; chmod 755 '%s' '%s/others'; chown 65534:65534 '%s/mine'; "
        "chmod 700 '%s/mine'",
        root, root, root, root, root, root);
    in_child(as_root_of_another);
    in_child(as_nobody_unwritable);
}

static void with_environment(void) {
    char path[1024];
    unsetenv("STAX_CACHE_DIR");
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    setenv("TMPDIR", in_root("tmp"), 1);
    snprintf(path, sizeof path, "%s/tmp/stax-%u", root, (unsigned)geteuid());
    CHECK(mkdir(in_root("tmp"), 0700) == 0);
    CHECK(build_in(quick, NULL, 1).status == STAX_OK && count_files(path, ".so") == 1);
    shell("mv '%s' '%s/moved'; ln -s '%s/moved' '%s'", path, root, root, path);
    CHECK(build_in(quick, NULL, 1).status == STAX_E_CACHE); /* somebody's link in /tmp */
    setenv("HOME", in_root("home"), 1);
    CHECK(build_in(quick, NULL, 1).status == STAX_OK &&
          count_files(in_root("home/.cache/stax"), ".so") == 1);
    setenv("XDG_CACHE_HOME", in_root("xdg"), 1);
    CHECK(build_in(quick, NULL, 1).status == STAX_OK &&
          count_files(in_root("xdg/stax"), ".so") == 1);
    setenv("STAX_CACHE_DIR", in_root("stax-dir"), 1);
    CHECK(build_in(quick, NULL, 1).status == STAX_OK &&
          count_files(in_root("stax-dir"), ".so") == 1);
    CHECK(build_in(quick, in_root("option-dir"), 1).status == STAX_OK &&
          count_files(in_root("option-dir"), ".so") == 1);
    setenv("STAX_CACHE_DIR", in_root("xdg/stax/x.so/no"),
           1); /* a named one is refused, not replaced */
    write_file(in_root("xdg/stax/x.so"), "x", 0600);
    CHECK(build_in(quick, NULL, 1).status == STAX_E_CACHE);
}
static void test_environment(void) { in_child(with_environment); }

static void with_compilers(void) {
    char *folder = in_root("choice");
    outcome r;
    unsetenv("STAX_CC");
    unsetenv("CC");
    r = build_in("/nonexistent/cc", folder, 1);
    CHECK(r.status == STAX_E_COMPILER && has(r.message, "/nonexistent/cc: not found"));
    setenv("STAX_CC", "no-such-compiler -m64", 1);
    r = build_in(NULL, folder, 1);
    CHECK(r.status == STAX_E_COMPILER && has(r.message, "STAX_CC") &&
          has(r.message, "no-such-compiler"));
    setenv("STAX_CC", quick, 1);
    setenv("CC", "gcc", 1);
    make_wrapper(in_root("cc"), "", quick, "");
    reset_runs();
    CHECK(build_in(in_root("cc"), folder, 1).status == STAX_OK &&
          runs() == 2); /* the option wins */
    CHECK(build_in(NULL, folder, 1).status == STAX_OK);
    unsetenv("STAX_CC");
    setenv("CC", in_root("cc"), 1);
    CHECK(build_in(NULL, folder, 2).status == STAX_OK && runs() == 3);
    setenv("CC", "no-such-compiler", 1); /* CC is a wish */
    r = build_in(NULL, folder, 3);
    CHECK(r.status == STAX_OK && r.value == 4);
    setenv("CC", "gcc -march=native", 1);
    CHECK(build_in(NULL, folder, 3).origin == STAXI_BUILD_DISK);
    if (is_installed("x86_64-w64-mingw32-gcc")) {
        setenv("CC", "x86_64-w64-mingw32-gcc", 1); /* a cross compiler */
        CHECK(build_in(NULL, folder, 3).origin == STAXI_BUILD_DISK);
        r = build_in("x86_64-w64-mingw32-gcc", folder, 3);
        CHECK(r.status == STAX_E_COMPILER && has(r.message, "x86_64-windows"));
    }
    r = build_in("gcc -m32", folder, 3);
    CHECK(r.status == STAX_E_COMPILER && has(r.message, "x86_32-posix"));
    CHECK(build_in("gcc -march=native", folder, 3).status == STAX_E_COMPILER);
    CHECK(build_in("gcc -m64 -DX='1 2'", folder, 3).value == 4);
    shell("mkdir -p '%s/my tools'", root);
    make_wrapper(in_root("my tools/cc"), "", quick, "");
    {
        char text[1024];
        reset_runs();
        snprintf(text, sizeof text, "'%s/my tools/cc' -DY", root);
        CHECK(build_in(text, folder, 3).value == 4 && runs() == 2);
        snprintf(text, sizeof text, "  \"%s/my tools/cc\"", root);
        CHECK(build_in(text, folder, 3).value == 4 && runs() == 4);
        CHECK(build_in("'unfinished", folder, 3).status == STAX_E_COMPILER);
    }
    CHECK(chdir(root) == 0 && build_in("./my tools/cc", folder, 3).value == 4);
    unsetenv("CC");
    setenv("PATH", "/nonexistent", 1);
    r = build_in(NULL, folder, 1);
    CHECK(r.status == STAX_E_COMPILER &&
          has(r.message, "cc: not found; gcc: not found; clang: not found; tcc: not found") &&
          has(r.message, "STAX_CC"));
    setenv("PATH", "", 1);
    CHECK(build_in(NULL, folder, 1).status == STAX_E_COMPILER);
    unsetenv("PATH");
    CHECK(build_in(NULL, folder, 1).status == STAX_E_COMPILER);
}
static void test_choice(void) { in_child(with_compilers); }

static void test_options(void) {
    staxi_toolchain_options o = options("gcc", in_root("flags"));
    outcome r;
    o.flags = "-march=native";
    r = build(&o, "int k(int x) { return x; }");
    CHECK(r.status == STAX_E_ARGUMENT && has(r.message, "=native"));
    o.flags = "-g -ffast-math";
    CHECK(build(&o, "int k(int x) { return x; }").status == STAX_E_ARGUMENT);
    o.flags = "-DTHREE=3 -lm";
    CHECK(build(&o, "int k(int x) { return x + THREE; }").value == 4);
    o.flags = NULL;
    CHECK(build(&o, "int k(int x) { return x + THREE; }").status == STAX_E_COMPILER);
    o.isa = 77;
    CHECK(build(&o, "int k(int x) { return x; }").status == STAX_E_ARGUMENT);
    o.isa = staxi_cpu_isa() == STAXI_ISA_NEON ? STAXI_ISA_AVX2 : STAXI_ISA_NEON;
    r = build(&o, "int k(int x) { return x; }");
    CHECK(r.status == STAX_E_ARGUMENT && has(r.message, "does not run here"));
    o.isa = STAXI_ISA_DETECTED;
    o.log = take_log;
    log_text[0] = '\0';
    CHECK(build(&o, "int k(int x) { return x; }").status == STAX_OK && has(log_text, "compiled "));
}

static void test_sigchld(void) {
    void (*old)(int) = signal(SIGCHLD, SIG_IGN);
    outcome r = build_in("gcc", in_root("sigchld"), 1);
    CHECK(r.status == STAX_OK && r.value == 2);
    {
        staxi_toolchain_options o = options("gcc", in_root("sigchld"));
        r = build(&o, "int k(int x) { return }");
        CHECK(r.status == STAX_E_COMPILER && has(r.message, "exit 1"));
    }
    signal(SIGCHLD, old);
}

static void with_small_files(void) {
    struct rlimit limit;
    int i;
    signal(SIGXFSZ, SIG_IGN);
    limit.rlim_cur = limit.rlim_max = 1500;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    for (i = 0; i < n_compilers; i++) {
        outcome r = build_in(compilers[i], in_root("small-files"), 1);
        CHECK(r.status == STAX_E_CACHE || r.status == STAX_E_COMPILER);
        CHECK(r.message[0] && has(r.message, "hint: "));
    }
}
static void test_small_files(void) { in_child(with_small_files); }
#if defined(__linux__)
static void test_full(void) {
    char *disk = in_root("disk");
    int i;
    CHECK(mkdir(disk, 0700) == 0);
    if (mount("none", disk, "tmpfs", 0, "size=96k,mode=700") != 0) {
        SKIP("a small disk cannot be mounted");
        return;
    }
    for (i = 0; i < n_compilers; i++) {
        outcome r;
        int left;
        for (left = 0; left <= 40; left += 8) { /* KiB left */
            char folder[600];
            shell("rm -rf '%s'/*", disk);
            snprintf(folder, sizeof folder, "%s/cache", disk);
            shell("head -c %d /dev/zero >'%s/ballast' 2>/dev/null", (96 - left) * 1024, disk);
            r = build_in(compilers[i], folder, 1);
            CHECK(r.status == STAX_OK ? r.value == 2
                                      : r.status == STAX_E_CACHE || r.status == STAX_E_COMPILER);
            CHECK(r.status == STAX_OK || has(r.message, "hint: "));
            if (left == 0) CHECK(r.status == STAX_E_CACHE);
            shell("rm -f '%s/ballast'", disk);
            r = build_in(compilers[i], folder, 1); /* room again: all is well */
            CHECK(r.status == STAX_OK && r.value == 2);
        }
    }
    CHECK(umount(disk) == 0);
    CHECK(mount("none", disk, "tmpfs", MS_NOEXEC, "size=1m,mode=700") == 0);
    {
        outcome r = build_in(quick, disk, 1);
        CHECK(r.status == STAX_E_CACHE && has(r.message, "noexec"));
    }
    CHECK(umount(disk) == 0);
}

#endif

static int build_limited(const char *folder, int n, uint64_t limit, staxi_build_origin *origin) {
    char text[64];
    outcome r;
    staxi_toolchain_options o = options(quick, folder);
    o.cache_limit_bytes = limit;
    kernel_text(text, n);
    r = build(&o, text);
    if (origin) *origin = r.origin;
    if (r.status != STAX_OK) printf("  status %d: %s\n", (int)r.status, r.message);
    return r.value;
}

static void test_lru(void) {
    char *folder = in_root("lru");
    staxi_build_origin origin;
    int i;
    if (strcmp(quick, "tcc") != 0) {
        SKIP("counts on the small objects of tcc");
        return;
    }
    for (i = 0; i < 4; i++) { /* four objects of about 2.6 KiB, less than 12000 with the notes */
        CHECK(build_limited(folder, i, 12000, &origin) == i + 1 && origin == STAXI_BUILD_COMPILED);
        usleep(20000);
    }
    CHECK(count_files(folder, ".so") == 4);
    CHECK(build_limited(folder, 0, 12000, &origin) == 1 &&
          origin == STAXI_BUILD_DISK); /* used: young again */
    usleep(20000);
    CHECK(build_limited(folder, 4, 12000, &origin) == 5); /* 1 must go, not 0 */
    CHECK(count_files(folder, ".so") == 4);
    CHECK(build_limited(folder, 0, 12000, &origin) == 1 && origin == STAXI_BUILD_DISK);
    CHECK(build_limited(folder, 2, 12000, &origin) == 3 && origin == STAXI_BUILD_DISK);
    CHECK(build_limited(folder, 3, 12000, &origin) == 4 && origin == STAXI_BUILD_DISK);
    CHECK(build_limited(folder, 1, 12000, &origin) == 2 && origin == STAXI_BUILD_COMPILED);
    CHECK(build_limited(folder, 9, 1, &origin) == 10 &&
          origin == STAXI_BUILD_COMPILED); /* one byte: only the newest */
    CHECK(count_files(folder, ".so") == 1 && count_files(folder, ".test") == 1);
    write_file(in_root("lru/tmp-0123456789abcdef.so"), "x", 0600);
    write_file(in_root("lru/tmp-0123456789abcdee.so"), "x", 0600);
    shell("cd '%s/lru' && mkdir tmp-0123456789abcdef.d tmp-0123456789abcdee.d && "
          "touch tmp-0123456789abcdef.d/cc1.s tmp-0123456789abcdee.d/cc1.s && "
          "touch -d '2 hours ago' tmp-0123456789abcdef.*",
          root);
    write_file(in_root("lru/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.lock"),
               "", 0600);
    shell("touch -d '2 hours ago' '%s'/lru/*.lock", root);
    CHECK(build_limited(folder, 10, 0, &origin) == 11);
    CHECK(count_files(folder, ".lock") == 0);
    CHECK(access(in_root("lru/tmp-0123456789abcdef.so"), F_OK) != 0); /* its process is gone */
    CHECK(access(in_root("lru/tmp-0123456789abcdee.so"), F_OK) == 0);
    CHECK(access(in_root("lru/tmp-0123456789abcdef.d"), F_OK) != 0); /* its compiler's, too */
    CHECK(access(in_root("lru/tmp-0123456789abcdee.d/cc1.s"), F_OK) == 0);
}

static void evicting_process(void) {
    int i;
    for (i = 0; i < 30; i++) {
        int n = (i * 7 + (int)getpid()) % 12;
        CHECK(build_limited(in_root("evict"), n, 9000, NULL) == n + 1);
    }
}
static void test_concurrent_eviction(void) {
    staxi_toolchain_options o = options(quick, in_root("evict"));
    outcome r;
    spawn_all(evicting_process, 6);
    o.cache_limit_bytes = 9000;
    r = build(&o, "int k(int x) { return x + 1000; }\n");
    CHECK(r.status == STAX_OK && r.figures.bytes <= 9000);
    CHECK_TIDY(in_root("evict"));
}

static void test_public(void) {
    stax_context ctx;
    stax_cache_figures f;
    staxi_toolchain_options o = options(quick, in_root("public"));
    staxi_object *object;
    memset(&ctx, 0, sizeof ctx);
    CHECK(staxi_toolchain_init(&ctx.toolchain, &o) == STAX_OK);
    CHECK(stax_cache_info(&ctx, &f) == STAX_OK && f.entries == 0 && f.bytes == 0 &&
          strcmp(f.path, in_root("public")) == 0);
    CHECK(staxi_toolchain_build(&ctx.toolchain, "int k(int x) { return x; }", 26, NULL, &object,
                                NULL) == STAX_OK);
    write_file(in_root("public/precious.txt"), "x", 0600);
    write_file(in_root("public/0123456789abcdef.h"), "x", 0600);
    CHECK(stax_cache_info(&ctx, &f) == STAX_OK && f.entries == 1 && f.compiles == 1);
    CHECK(stax_cache_clear(&ctx) == STAX_OK);
    CHECK(stax_cache_info(&ctx, &f) == STAX_OK && f.entries == 0 && f.bytes == 0);
    CHECK(count_files(in_root("public"), "") == 2 && call(object, 5) == 5);
    CHECK(stax_cache_info(NULL, &f) == STAX_E_ARGUMENT &&
          stax_cache_info(&ctx, NULL) == STAX_E_ARGUMENT);
    CHECK(stax_cache_clear(NULL) == STAX_E_ARGUMENT);
    staxi_object_release(object);
    staxi_toolchain_free(&ctx.toolchain);
    o.cache_dir = in_root("public/precious.txt");
    CHECK(staxi_toolchain_init(&ctx.toolchain, &o) == STAX_OK);
    CHECK(stax_cache_info(&ctx, &f) == STAX_E_CACHE && f.path[0] == '\0' &&
          stax_cache_clear(&ctx) == STAX_E_CACHE);
    staxi_toolchain_free(&ctx.toolchain);
}

/* A page between two that nothing may touch; NULL: there is none. */
static char *guarded_page(size_t page) {
    char *pages = (char *)mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == (char *)MAP_FAILED || mprotect(pages + page, page, PROT_READ | PROT_WRITE) != 0)
        return NULL;
    return pages + page;
}

static stax_program *guarded_program(stax_context *ctx, const char *text, int opt_level) {
    stax_compile_options c;
    memset(&c, 0, sizeof c);
    c.opt_level = opt_level;
    stax_graph *g = stax_parse(ctx, "masked", text);
    stax_program *p = g ? stax_compile(g, &c) : NULL;
    stax_graph_free(g);
    return p;
}

/* gcc 12 reads in front of a buffer where a conditional load gets a mask that it knows. */
static void guarded_at_start(stax_context *ctx, char *page) {
    static const uint16_t ones[2] = {0x3c00, 0x3c00};
    uint16_t x[7] = {0}, y[13];
    stax_tensor in[3], out = stax_tensor_of(STAX_F16, stax_shape1(13), y);
    stax_program *p = guarded_program(ctx,
                                      "graph g(a: f16[2], b: f16[2], c: f16[7]) {\n"
                                      "  y = concat b, b, a, c {axis=0}\n"
                                      "  return y\n}\n",
                                      3);
    memcpy(page, ones, sizeof ones);
    in[0] = stax_tensor_of(STAX_F16, stax_shape1(2), x);
    in[1] = stax_tensor_of(STAX_F16, stax_shape1(2), page);
    in[2] = stax_tensor_of(STAX_F16, stax_shape1(7), x);
    CHECK(p && stax_run(p, in, &out) == STAX_OK && y[0] == ones[0] && y[3] == ones[1] && !y[4]);
    stax_program_free(p);
}

/* One column of a tile of many is packed, its terms two apart: the other columns' lanes are none.
 */
static void guarded_at_end(stax_context *ctx, char *end) {
    float a[3 * 19 * 2], y[3] = {0, 0, 0}, *b = (float *)(void *)end - 19 * 2;
    stax_tensor in[2], out = stax_tensor_of(STAX_F32, stax_shape2(3, 1), y);
    stax_program *p = guarded_program(ctx,
                                      "sizes n: 1.., m: 1..18\n"
                                      "graph g(a: f32[n,19,2], b: f32[19,m,2]) {\n"
                                      "  y = dot a, b {lhs_contract=[1,2], rhs_contract=[0,2]}\n"
                                      "  return y\n}\n",
                                      1);
    for (int k = 0; k < 3 * 19 * 2; k++) a[k] = 1.0f;
    for (int k = 0; k < 19 * 2; k++) b[k] = 2.0f;
    in[0] = stax_tensor_of(STAX_F32, stax_shape3(3, 19, 2), a);
    in[1] = stax_tensor_of(STAX_F32, stax_shape3(19, 1, 2), b);
    CHECK(p && stax_run(p, in, &out) == STAX_OK && y[0] == 76.0f && y[2] == 76.0f);
    stax_program_free(p);
}

/* gcc 12 takes the read that goes backward, as its induction variables write it, for one through a
   null pointer, the kernel for a function without effect, and leaves out the call. */
static void mirrored(stax_context *ctx) {
    enum { N = 70001, STEP = 6 };
    int64_t *x = (int64_t *)malloc(N * STEP * sizeof *x);
    unsigned char *y = (unsigned char *)malloc(N);
    stax_tensor in = stax_tensor_of(STAX_I64, stax_shape1(N), x + (N - 1) * STEP);
    stax_tensor out = stax_tensor_of(STAX_BOOL, stax_shape1(N), y);
    in.strides[0] = -STEP;
    for (int level = 1; level <= 3 && x && y; level++) {
        stax_program *p = guarded_program(ctx,
                                          "graph g(x: i64[70001] strides [-6]) {\n"
                                          "  v = flip x {axes=[0]}\n  y = gt x, v\n"
                                          "  return y\n}\n",
                                          level);
        int64_t wrong = 0;
        for (int64_t k = 0; k < N; k++) x[k * STEP] = k * 7919 % 1000;
        memset(y, 0xcd, N);
        CHECK(p && stax_run(p, &in, &out) == STAX_OK);
        for (int64_t k = 0; k < N; k++) wrong += y[k] != (x[(N - 1 - k) * STEP] > x[k * STEP]);
        CHECK_INT(wrong, 0);
        stax_program_free(p);
    }
    free(x);
    free(y);
}

static void with_faulty_compiler(void) {
    stax_options o = stax_options_default();
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *middle = guarded_page(page);
    o.compiler = "gcc";
    o.cache_dir = root;
    o.strict = true;
    if (!CHECK(middle != NULL)) return;
    stax_context *ctx = stax_open(&o);
    guarded_at_start(ctx, middle);
    guarded_at_end(ctx, middle + page);
    mirrored(ctx);
    stax_close(ctx);
    munmap(middle - page, 3 * page);
}
static void test_compiler_faults(void) { in_child(with_faulty_compiler); }

/* The n-th allocation fails: a clean status, nothing leaks, the next build is right. */
static void test_memory(void) {
    char *folder = in_root("memory");
    int warm, n;
    for (warm = 0; warm < 4; warm++) {
        bool done = false;
        for (n = 1; !done && n < 2000; n++) {
            int64_t before;
            outcome r;
            if (!(warm & 1)) shell("rm -rf '%s'", folder);
            before = live_bytes;
            n_allocs = 0;
            fail_at = n;
            fail_on = warm >= 2;
            r = build_in(quick, folder, 1);
            done = n_allocs < n;
            fail_at = 0;
            CHECK(r.status == STAX_OK ? r.value == 2 : r.status == STAX_E_MEMORY);
            if (r.status != STAX_OK && r.status != STAX_E_MEMORY)
                printf("  N = %d: status %d %s\n", n, (int)r.status, r.message);
            CHECK(live_bytes == before);
            if (!(warm & 1) && n % 8 == 0) CHECK(build_in(quick, folder, 1).value == 2);
        }
        CHECK(done && n > 20);
        CHECK_TIDY(folder);
    }
}

/* A test in a folder of its own; nothing stays allocated. */
static void (*running)(void);
static void in_folder(void) {
    char made[] = "/tmp/stax-test-XXXXXX";
    int64_t before = live_bytes, start = staxi_clock_ns();
    if (!CHECK(mkdtemp(made) != NULL && realpath(made, root) != NULL)) return;
    find_compilers();
    if (n_compilers == 0 || strcmp(compilers[0], "gcc") != 0) {
        SKIP("gcc is not installed");
    } else {
        running();
    }
    CHECK_INT(live_bytes, before);
    printf("%-20s %6.2f s\n", harness.name, (double)(staxi_clock_ns() - start) * 1e-9);
    shell("rm -rf '%s'", root);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"basic", test_basic},
                 {"once", test_once},
                 {"parallel", test_parallel},
                 {"bad", test_bad_compilers},
                 {"whole", test_whole},
                 {"selftest", test_self_test},
                 {"identity", test_identity},
                 {"tampering", test_tampering},
                 {"folders", test_folders},
                 {"users", test_users},
                 {"environment", test_environment},
                 {"choice", test_choice},
                 {"options", test_options},
                 {"sigchld", test_sigchld},
                 {"small_files", test_small_files},
                 {"lru", test_lru},
                 {"eviction", test_concurrent_eviction},
                 {"public", test_public},
                 {"compiler_faults", test_compiler_faults},
                 {"memory", test_memory}};
    HARNESS_BEGIN(argc, argv);
    unsetenv("STAX_CC");
    unsetenv("STAX_CACHE_DIR");
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        running = tests[i].run;
        RUN_NAMED(tests[i].name, in_folder);
    }
#if defined(__linux__)
    running = test_full;
    RUN_NAMED("full", in_folder);
#endif
    return HARNESS_END();
}
#endif
