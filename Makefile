# Stax: needs a C compiler and make, nothing else. Everything is built in build/ and staxc.
#
#   make demo      builds the tool and the examples, reads digits and filters a photograph
#   make test      builds and runs all tests; the last line says "N passed, N failed"
#   make staxc     the command-line tool
#   make fuzz      fuzzers (tests/fuzz), make long: long tests (tests/long); see README.md
#   make format    clang-format, where it is installed
#   make clean
#
# CC, CFLAGS, LDFLAGS and LDLIBS may be set on the command line: make test CC=clang CFLAGS=-O3

CFLAGS ?= -O2 -std=c99 -Wall -Wextra
# The header is compiled at -O1, which takes half the time: the kernels it makes are optimised on their own.
# Your CFLAGS, if given, win.
TEST_CFLAGS = $(if $(filter file,$(origin CFLAGS)),-O1 -g -std=c99 -Wall -Wextra,$(CFLAGS))
LDLIBS ?= -lm -ldl -lpthread

B = build
HEADERS = stax.h stax_cuda.h
TEST_HEADERS = $(HEADERS) $(wildcard tests/*.h tests/*.inc)
EXAMPLES = hello softmax digits_knn blur text_form rewrite_rules export_demo
EXAMPLE_PROGRAMS = $(EXAMPLES:%=$(B)/examples/%)
TESTS = $(notdir $(basename $(wildcard tests/*.c)))
TEST_PROGRAMS = $(TESTS:%=$(B)/tests/%)
TEST_SCRIPTS = $(filter-out tests/run.sh,$(wildcard tests/*.sh))
FUZZERS = $(notdir $(basename $(wildcard tests/fuzz/*.c)))
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
	@-$(PARALLEL) staxc examples test-programs
	@$(RUN) $(TEST_PROGRAMS) $(TEST_SCRIPTS)

test-programs: $(TEST_PROGRAMS)

fuzz:
	@-$(PARALLEL) staxc $(FUZZERS:%=$(B)/fuzz/%)
	@$(RUN) $(FUZZERS:%=$(B)/fuzz/%)

long:
	@-$(PARALLEL) staxc examples $(LONG:%=$(B)/long/%)
	@LIMIT=14400 $(RUN) $(LONG:%=$(B)/long/%) $(LONG_SCRIPTS)

# The tool and the examples are complete programs: `cc -O2 -I. tools/staxc.c -o staxc -lm -ldl -lpthread` builds
# one. Here the implementation is compiled once for all of them, and each is told that it is already done.
staxc: tools/staxc.c $(B)/stax.o $(HEADERS)
	$(CC) $(CPPFLAGS) $(CFLAGS) -I. -DSTAX_IMPLEMENTATION_DONE tools/staxc.c $(B)/stax.o -o $@ $(LDFLAGS) $(LDLIBS)

$(B)/stax.o: stax.h
	@mkdir -p $(B)
	@printf '#define STAX_IMPLEMENTATION\n#include "stax.h"\n' > $(B)/stax.c
	$(CC) $(CPPFLAGS) $(TEST_CFLAGS) -I. -c $(B)/stax.c -o $@

$(B)/examples/%: examples/%.c $(B)/stax.o $(HEADERS)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -I. -DSTAX_IMPLEMENTATION_DONE $< $(B)/stax.o -o $@ $(LDFLAGS) $(LDLIBS)

# A test that defines STAX_IMPLEMENTATION sees the private parts; the others are linked as a user's program.
define BUILD_TEST
@mkdir -p $(@D)
@if grep -q 'define STAX_IMPLEMENTATION' $<; then more=; else more=$(B)/stax.o; fi; \
echo "$(CC) $(CPPFLAGS) $(TEST_CFLAGS) -I. -Itests $< $$more -o $@ $(LDFLAGS) $(LDLIBS)"; \
$(CC) $(CPPFLAGS) $(TEST_CFLAGS) -I. -Itests $< $$more -o $@ $(LDFLAGS) $(LDLIBS)
endef

$(B)/tests/%: tests/%.c $(B)/stax.o $(TEST_HEADERS)
	$(BUILD_TEST)

$(B)/fuzz/%: tests/fuzz/%.c $(B)/stax.o $(TEST_HEADERS)
	$(BUILD_TEST)

$(B)/long/%: tests/long/%.c $(B)/stax.o $(TEST_HEADERS)
	$(BUILD_TEST)

format:
	@if clang-format --version; then \
	    clang-format -i stax.h stax_cuda.h tests/*.[ch] tools/*.c examples/*.c; \
	else echo "clang-format is not installed: nothing done"; fi

clean:
	rm -rf $(B) staxc staxc.exe

.PHONY: all demo examples test test-programs fuzz long format clean
