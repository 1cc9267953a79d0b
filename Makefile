# Stax: needs a C compiler and make, nothing else. Everything is built in build/ and staxc.
#
#   make demo      builds the tool and the examples, reads digits and filters a photograph
#   make test      builds and runs all tests; the last line says "N passed, N failed"
#   make staxc     the command-line tool
#   make bench     measures this machine and what section 13 is about, two minutes: tools/bench/report.html
#   make bench-memory   memory-bound kernels beside ones written by hand (tools/bench/hand.c), a minute; gcc, OpenMP
#   make bench-start    waiting: first results of fresh processes, calls of small programs, the header's compile time
#   make bench-training a training step (Example 5.1) beside its three products alone
#   make bench-nets     the networks of examples/nets beside the sum of their kernels' bounds
#   make cross     exported programs on other architectures under emulators (Debian: installs what it needs
#                  if it may); make test CROSS=1 does both, SANITIZE=1 the sanitizers too
#   make fuzz      fuzzers (tests/fuzz), make long: long tests (tests/long); see README.md
#   make format    clang-format, where it is installed
#   make clean
#
# CC, CFLAGS, LDFLAGS and LDLIBS may be set on the command line: make test CC=clang CFLAGS=-O3

CFLAGS ?= -O2 -std=c99 -Wall -Wextra
# The header is compiled at -O1, which takes half the time: the kernels it makes are optimised on their own.
# Your CFLAGS, if given, win.
# gcc takes seven seconds more in C to look at the indentation of a file as long as the header.
TEST_CFLAGS = $(if $(filter file,$(origin CFLAGS)),-O1 -g1 -std=c99 -Wall -Wextra -Wno-misleading-indentation,$(CFLAGS))
# A test that has an implementation of its own is compiled at -O0, which takes half of the time of -O1 and costs
# less than that when it runs; but not these: they use so little that -O1 drops the rest at once, or are long or timed.
PRIVATE_CFLAGS = $(if $(filter file,$(origin CFLAGS)),$(if $(filter $(OPTIMISED),$(notdir $@)),,-O0))
# clang takes a third of gcc's time for that, so it is taken where it is installed and no compiler was asked for.
PRIVATE_CC := $(if $(filter default,$(origin CC)),$(shell command -v clang || echo $(CC)),$(CC))
OPTIMISED = foundations functions index functions_long cuda_device fuzz_artifact
LDLIBS ?= -lm -ldl -lpthread

B = build
HEADERS = stax.h stax_cuda.h
TEST_HEADERS = $(HEADERS) $(wildcard tests/*.h tests/*.inc)
EXAMPLES = hello softmax digits_knn blur text_form rewrite_rules export_demo fit_hessian digits_mlp digits_cnn charlm jit
EXAMPLE_HEADERS = $(HEADERS) $(wildcard examples/*.h)
EXAMPLE_PROGRAMS = $(EXAMPLES:%=$(B)/examples/%)
TESTS = $(notdir $(basename $(wildcard tests/*.c)))
TEST_PROGRAMS = $(TESTS:%=$(B)/tests/%)
TEST_SCRIPTS = $(filter-out tests/run.sh,$(wildcard tests/*.sh)) $(if $(CROSS),$(CROSS_SCRIPT)) $(if $(SANITIZE),tests/long/sanitize.sh)
CROSS_SCRIPT = tests/cross/cross.sh
FUZZ_PROGRAMS = $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(wildcard tests/fuzz/*.c))
LONG = $(notdir $(basename $(wildcard tests/long/*.c)))
LONG_SCRIPTS = $(wildcard tests/long/*.sh)
RUN = CC='$(CC)' CFLAGS='$(CFLAGS)' BUILD=$(B) sh tests/run.sh
# Two jobs at a time unless -j was given.
PARALLEL = $(MAKE) --no-print-directory -k $(if $(findstring jobserver,$(MAKEFLAGS)),,-j2)

all: staxc examples

demo:
	@$(PARALLEL) staxc examples
	@mkdir -p $(B)/cache $(B)/pictures
	@echo; echo "== digits_knn: handwritten digits by their nearest neighbour"
	@STAX_CACHE_DIR=$(B)/cache $(B)/examples/digits_knn examples/data/digits.csv
	@echo; echo "== blur: three filters of a photograph"
	@STAX_CACHE_DIR=$(B)/cache $(B)/examples/blur examples/data/china.pgm $(B)/pictures
	@echo; echo "The pictures are in $(B)/pictures. The programs are in $(B)/examples; try $(B)/examples/hello."

examples: $(EXAMPLE_PROGRAMS)

# A program that does not build is reported by run.sh as a failure, so make goes on here.
test:
	@-$(PARALLEL) staxc examples test-programs $(if $(CROSS),$(B)/cross/driver)
	@$(if $(CROSS)$(SANITIZE),LIMIT=1500) $(RUN) $(TEST_PROGRAMS) $(FUZZ_PROGRAMS) $(TEST_SCRIPTS)

test-programs: $(TEST_PROGRAMS) $(FUZZ_PROGRAMS)

cross:
	@bash .ci/install $$(cat tests/cross/packages.txt)
	@-$(PARALLEL) staxc $(B)/cross/driver
	@LIMIT=1500 $(RUN) $(CROSS_SCRIPT)

# FUZZ_SECONDS for the parser and for saved programs (`make test` gives each 10), FUZZ_GRAPHS for the compiler.
fuzz:
	@-$(PARALLEL) $(B)/tests/differential $(FUZZ_PROGRAMS)
	@FUZZ_SECONDS=$${FUZZ_SECONDS:-600} LIMIT=$${LIMIT:-36000} $(RUN) $(FUZZ_PROGRAMS) tests/fuzz/fuzz_graph.sh

long:
	@-$(PARALLEL) staxc examples $(LONG:%=$(B)/long/%)
	@LIMIT=14400 $(RUN) $(LONG:%=$(B)/long/%) $(LONG_SCRIPTS)

# The tool and the examples are complete programs: `cc -O1 -I. tools/staxc.c -o staxc -lm -ldl -lpthread` builds
# one. Here the implementation (stax_cuda.h's too: it is built on stax.h's private part) is compiled once for all of
# them, and each is told that it is already done.
DONE = -DSTAX_IMPLEMENTATION_DONE -DSTAX_CUDA_IMPLEMENTATION_DONE

staxc: tools/staxc.c $(B)/stax.o $(HEADERS)
	$(CC) $(CPPFLAGS) $(CFLAGS) -I. $(DONE) tools/staxc.c $(B)/stax.o -o $@ $(LDFLAGS) $(LDLIBS)

$(B)/stax.o: $(HEADERS)
	@mkdir -p $(B)
	@printf '#define STAX_IMPLEMENTATION\n#include "stax_cuda.h"\n' > $(B)/stax.c
	$(CC) $(CPPFLAGS) $(TEST_CFLAGS) -I. -c $(B)/stax.c -o $@

$(B)/examples/%: examples/%.c $(B)/stax.o $(EXAMPLE_HEADERS)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -I. $(DONE) $< $(B)/stax.o -o $@ $(LDFLAGS) $(LDLIBS)

# A test that defines STAX_IMPLEMENTATION sees the private parts; the others are linked as a user's program.
PRIVATE_TESTS := $(shell grep -l 'define STAX_IMPLEMENTATION' tests/*.c tests/long/*.c)
define BUILD_PRIVATE
@mkdir -p $(@D)
$(if $(PRIVATE_CFLAGS),$(PRIVATE_CC),$(CC)) $(CPPFLAGS) $(TEST_CFLAGS) -I. -Itests $< $(PRIVATE_CFLAGS) -o $@ $(LDFLAGS) $(LDLIBS)
endef
define BUILD_LINKED
@mkdir -p $(@D)
$(CC) $(CPPFLAGS) $(TEST_CFLAGS) -I. -Itests $< $(B)/stax.o -o $@ $(LDFLAGS) $(LDLIBS)
endef

$(patsubst tests/%.c,$(B)/tests/%,$(filter-out tests/long/%,$(PRIVATE_TESTS))): $(B)/tests/%: tests/%.c $(TEST_HEADERS)
	$(BUILD_PRIVATE)

$(B)/tests/%: tests/%.c $(B)/stax.o $(TEST_HEADERS)
	$(BUILD_LINKED)

$(B)/tests/schedules: tests/differential.c

# The examples are parts of the driver, which catches their programs as they run.
$(B)/cross/%_main.o: examples/%.c $(EXAMPLE_HEADERS)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(TEST_CFLAGS) -I. -DSTAX_IMPLEMENTATION_DONE -Dmain=$*_main -c $< -o $@

$(B)/cross/driver: tests/export_driver.inc tests/cross/examples.inc $(EXAMPLES:%=$(B)/cross/%_main.o) $(B)/stax.o $(TEST_HEADERS)
	$(CC) $(CPPFLAGS) $(TEST_CFLAGS) -I. -Itests -DEXPORT_EXAMPLES -x c $< -x none $(filter %.o,$^) \
	    -Wl,--wrap=stax_compile,--wrap=stax_bind,--wrap=stax_run -o $@ $(LDFLAGS) $(LDLIBS)

# It has an implementation of its own.
$(B)/fuzz/fuzz_artifact: tests/fuzz/fuzz_artifact.c tests/fuzz/driver.h $(TEST_HEADERS)
	$(BUILD_PRIVATE)

# It includes tools/staxc.c.
$(B)/fuzz/%: tests/fuzz/%.c tests/fuzz/driver.h tools/staxc.c $(B)/stax.o $(TEST_HEADERS)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(TEST_CFLAGS) -I. -Itests $(DONE) $< $(B)/stax.o -o $@ $(LDFLAGS) $(LDLIBS)

$(patsubst tests/%.c,$(B)/%,$(filter tests/long/%,$(PRIVATE_TESTS))): $(B)/%: tests/%.c $(TEST_HEADERS)
	$(BUILD_PRIVATE)

$(B)/long/%: tests/long/%.c $(B)/stax.o $(TEST_HEADERS)
	$(BUILD_LINKED)

# THREADS=N: threads of a call, else one a core. PEERS: op-by-op C loops to measure beside, where they are.
PEERS = ../shared/peers
$(B)/bench/%: tools/bench/%.c $(B)/stax.o $(HEADERS)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -I. $(DONE) $< $(B)/stax.o -o $@ $(LDFLAGS) $(LDLIBS)

bench: $(B)/bench/report
	@mkdir -p $(B)/cache
	@peers=; \
	if [ ! -f $(PEERS)/seed.c ]; then echo "bench: there are no C loops to measure beside: no $(PEERS)/seed.c"; \
	elif $(CC) -O3 -march=native -fopenmp -fno-math-errno -DSHARED -shared -fPIC $(PEERS)/seed.c \
	    -o $(B)/bench/libseed.so -lm; then peers=--peers=$(B)/bench/libseed.so; \
	else echo "bench: the C loops of $(PEERS)/seed.c do not compile here"; fi; \
	OMP_PROC_BIND=true STAX_CACHE_DIR=$(B)/cache $(if $(THREADS),OMP_NUM_THREADS=$(THREADS)) \
	    $(B)/bench/report --out=tools/bench/report.html $$peers $(THREADS:%=--threads=%)

# The hand-written kernels are compiled as kernels are, behind the text that `staxc print` puts before them; ROWS:
# only the rows whose name has that word.
KERNEL_CFLAGS = -std=gnu99 -w -O2 -march=native -ffp-contract=off -fno-math-errno -fno-strict-aliasing \
    -fno-stack-protector -fschedule-insns -fsched-pressure
bench-memory: $(B)/bench/memory_ratio staxc
	@STAX_CACHE_DIR=$(B)/cache ./staxc print tools/bench/prelude.stax --emit=c | sed '/^static void sx_kernel/,$$d' \
	    > $(B)/bench/prelude.h
	$(CC) $(KERNEL_CFLAGS) -fopenmp -I$(B)/bench -shared -fPIC tools/bench/hand.c -o $(B)/bench/hand.so
	@seed=; if [ -f $(PEERS)/seed.c ] && $(CC) -O3 -march=native -fopenmp -fno-math-errno -DSHARED -shared -fPIC \
	    $(PEERS)/seed.c -o $(B)/bench/libseed.so -lm; then seed=$(B)/bench/libseed.so; fi; \
	for n in $(or $(THREADS),1 2); do \
	    STAX_CACHE_DIR=$(B)/cache $(B)/bench/memory_ratio $(B)/bench/hand.so $$n "$$seed" $(if $(ROWS),'$(ROWS)') || exit 1; done

bench-training: $(B)/bench/training
	@STAX_CACHE_DIR=$(B)/cache $(if $(THREADS),THREADS=$(THREADS)) $(B)/bench/training

bench-start: $(B)/bench/start
	@STAX_CACHE_DIR=$(B)/bench/start_cache $(B)/bench/start
	@for cc in gcc clang tcc; do command -v $$cc > /dev/null || continue; \
	for what in declarations implementation; do \
	    { [ $$what = declarations ] || echo '#define STAX_IMPLEMENTATION'; echo '#include "stax.h"'; \
	      echo 'int main(void) { return 0; }'; } > $(B)/bench/header.c; start=$$(date +%s%N); \
	    $$cc -O0 -w -I. -c $(B)/bench/header.c -o $(B)/bench/header.o || exit 1; \
	    echo "$$cc -O0, $$what: $$((($$(date +%s%N) - start) / 1000000)) ms"; done; done

bench-nets: staxc
	@STAX_CACHE_DIR=$(B)/cache sh tools/net_bench.sh $(THREADS:%=--threads=%)

format:
	@if clang-format --version; then \
	    clang-format -i stax.h stax_cuda.h tests/*.[ch] tools/*.c examples/*.c; \
	else echo "clang-format is not installed: nothing done"; fi

clean:
	rm -rf $(B) staxc staxc.exe

.PHONY: all demo examples test test-programs cross fuzz long bench bench-memory bench-nets bench-start bench-training format clean
