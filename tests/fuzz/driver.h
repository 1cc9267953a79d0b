/* What fuzzers share: a context that may not take all of the machine, and a run without libFuzzer:
   changed files, each batch in a process of its own; what crashes, hangs or breaks a promise is
   written to build/found. The file that includes it, after stax.h, has LLVMFuzzerTestOneInput and,
   without FUZZ_ENTRY_ONLY, fuzz_seeds (add_file for each) and fuzz_change. */
#ifndef STAX_TESTS_FUZZ_DRIVER_H
#define STAX_TESTS_FUZZ_DRIVER_H

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef FUZZ_MOST_BYTES /* of a file; one to begin with has at most half of it */
#define FUZZ_MOST_BYTES (1 << 16)
#endif
#ifndef FUZZ_BATCH /* files of a process, which has a minute */
#define FUZZ_BATCH 500
#endif
enum { MOST_BYTES = FUZZ_MOST_BYTES, MOST_FILES = 1024, MOST_MEMORY = 64 << 20 };

static size_t held; /* bytes that the library holds: it may not take all of the machine */

static void *limited_alloc(size_t bytes, size_t align, void *user) {
    void *p = NULL;
    (void)user;
    if (bytes > MOST_MEMORY || held + bytes > MOST_MEMORY) return NULL;
    if (posix_memalign(&p, align < sizeof p ? sizeof p : align, bytes ? bytes : 1) != 0)
        return NULL;
    held += bytes;
    return p;
}
static void limited_free(void *p, size_t bytes, void *user) {
    (void)user;
    if (p) held -= bytes;
    free(p);
}

static stax_options limited_options(void) {
    stax_options o = stax_options_default();
    o.allocator.alloc = limited_alloc;
    o.allocator.free = limited_free;
    return o;
}

static void broken(const char *what, const char *a, const char *b) {
    fprintf(stderr, "%s\n%s\n----\n%s\n", what, a ? a : "", b ? b : "");
    _exit(3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#ifndef FUZZ_ENTRY_ONLY

static bool fuzz_seeds(void);
/* n bytes of a file with room for MOST_BYTES; how many there are then. */
static size_t fuzz_change(char *file, size_t n);

typedef struct shared_state {
    size_t n; /* of the file in work */
    long long done;
    char text[MOST_BYTES + 1];
} shared_state;

static char *files[MOST_FILES];
static size_t sizes[MOST_FILES];
static int n_files;
static uint64_t state;

static uint64_t draw(void) { /* splitmix64 */
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
static size_t below(size_t n) { return n ? (size_t)(draw() % n) : 0; }

static void add_file(const char *data, size_t n) {
    if (n_files == MOST_FILES || n > MOST_BYTES / 2) return;
    files[n_files] = (char *)malloc(n + 1);
    if (!files[n_files]) return;
    memcpy(files[n_files], data, n);
    sizes[n_files++] = n;
}

static void batch(shared_state *s, uint64_t seed) {
    state = seed;
    alarm(60);
    for (int k = 0; k < FUZZ_BATCH; k++) {
        int file = (int)below((size_t)n_files), changes = 1 + (int)below(6);
        memcpy(s->text, files[file], sizes[file]);
        s->n = sizes[file];
        while (changes-- > 0) s->n = fuzz_change(s->text, s->n);
        LLVMFuzzerTestOneInput((const uint8_t *)s->text, s->n);
        s->done++;
    }
}

static void keep(const shared_state *s, uint64_t seed, const char *name, const char *suffix) {
    const char *build = getenv("BUILD") ? getenv("BUILD") : "build";
    char path[600];
    FILE *f;
    snprintf(path, sizeof path, "%s/found", build);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/found/%s-%llx.%s", build, name, (unsigned long long)seed,
             suffix);
    f = fopen(path, "wb");
    if (f) {
        fwrite(s->text, 1, s->n, f);
        fclose(f);
    }
    printf("FAIL: the file is %s\n", path);
}

/* [SECONDS] [SEED]: 10 seconds and seed 1; with $FUZZ_SECONDS a new seed each time. */
static int fuzz_main(int argc, char **argv, const char *name, const char *suffix) {
    const char *given = argc > 1 ? argv[1] : getenv("FUZZ_SECONDS");
    double limit = given ? atof(given) : 10;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : given ? (uint64_t)time(NULL) : 1;
    long long done = 0;
    int failed = 0;
    shared_state *s = (shared_state *)mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE,
                                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED || !fuzz_seeds()) return 1;
    printf("seed %llu, %d files to begin with\n", (unsigned long long)seed, n_files);
    fflush(stdout);
    const time_t start = time(NULL);
    for (uint64_t k = 0; difftime(time(NULL), start) < limit && failed < 10; k++) {
        uint64_t batch_seed = seed * 1000003 + k;
        int status = 0;
        pid_t child;
        s->done = 0;
        child = fork();
        if (child == 0) {
            batch(s, batch_seed);
            _exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child) return 1;
        done += s->done;
        if (status == 0) continue;
        printf("batch %llu ended with %s %d\n", (unsigned long long)batch_seed,
               WIFSIGNALED(status) ? "signal" : "status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        keep(s, batch_seed, name, suffix);
        failed++;
    }
    printf("%lld files\n", done);
    printf("%d passed, %d failed\n", done > 0 ? 1 : 0, failed);
    return failed != 0;
}
#endif

#endif
