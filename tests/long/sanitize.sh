#!/bin/sh
# Sanitizers over the library and over the generated code, valgrind over a small run.
#   sh tests/long/sanitize.sh      from the root of the repository; ends with "N passed, N failed"
# The generated code gets the sanitizer by stax_options.compiler_flags; our tests take that from
# STAX_TEST_FLAGS, the tool and everything else from STAX_CFLAGS where the header reads it.
B=${BUILD:-build}/sanitize
COUNT=${COUNT:-150}
mkdir -p "$B"
ROOT=$(pwd)
. tests/shell/checks.sh

# try LABEL LOG COMMAND...: passes when the command succeeds and its log has no report.
try() {
    label=$1 log=$B/$2
    shift 2
    "$@" >"$log" 2>&1
    status=$?
    if [ $status -eq 0 ] && ! grep -qE 'runtime error|ERROR: |WARNING: ThreadSanitizer|ERROR SUMMARY: [1-9]' "$log"; then ok; else
        failed=$((failed + 1))
        echo "FAIL $label (exit status $status)"
        grep -E 'runtime error|ERROR: |WARNING: Thread|SUMMARY|FAIL|#[0-4] |lost:|passed' "$log" | cut -c 1-200 | head -n 14 | sed 's/^/     /'
    fi
}

# builds LABEL FLAGS: the implementation once, and a main for each test beside it
build() {
    dir=$B/$1 cc=$2
    shift 2
    mkdir -p "$dir"
    printf '#define STAX_IMPLEMENTATION\n#include "stax.h"\n' >"$dir/stax.c"
    if ! $cc -std=c99 -O1 -g "$@" -I. -c "$dir/stax.c" -o "$dir/stax.o" >"$dir/build.txt" 2>&1; then
        echo "skip $dir: $cc $* does not build"
        return 1
    fi
    for t in sanitized differential memory threads errors jit; do
        case $t in sanitized) f="-x c tests/sanitized.inc -x none" ;; *) f=tests/$t.c ;; esac
        # shellcheck disable=SC2086
        $cc -std=c99 -O1 -g "$@" -I. -Itests $f "$dir/stax.o" -o "$dir/$t" -lm -ldl -lpthread >>"$dir/build.txt" 2>&1 || echo "left out: $dir/$t does not build"
    done
}

CC=${CC:-cc}
UB="-fsanitize=undefined -fno-sanitize-recover=all"
AS="-fsanitize=address,undefined -fno-sanitize-recover=all"
ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
UBSAN_OPTIONS=print_stacktrace=1
export ASAN_OPTIONS UBSAN_OPTIONS

cache() {
    STAX_CACHE_DIR=$ROOT/$B/cache-$1
    export STAX_CACHE_DIR
    mkdir -p "$STAX_CACHE_DIR" && chmod 700 "$STAX_CACHE_DIR"
}

# shellcheck disable=SC2086
if build address $CC $AS; then
    cache plain
    try "library under address,undefined: differential" address-differential.txt "$B/address/differential" --count="$COUNT" --seed=500
    try "library under address,undefined: memory" address-memory.txt "$B/address/memory"
    try "library under address,undefined: errors" address-errors.txt "$B/address/errors"
    try "library under address,undefined: jit" address-jit.txt "$B/address/jit"
    cache undefined
    try "generated code under undefined" undefined-code.txt "$B/address/sanitized" "$UB -fno-sanitize=alignment"
    cache address
    try "generated code under address" address-code.txt "$B/address/sanitized" "-fsanitize=address -O1"
fi
cache strict
# shellcheck disable=SC2086
if build plain $CC; then
    try "generated code with -fstrict-aliasing" aliasing.txt "$B/plain/sanitized" "-fstrict-aliasing -Wno-unused"
    try "generated code with -O3 -fstrict-aliasing" aliasing3.txt "$B/plain/sanitized" "-O3 -fstrict-aliasing"
    try "generated code with -O0" o0.txt "$B/plain/sanitized" "-O0"
    if has valgrind; then
        cache valgrind
        # no AVX-512 in valgrind
        STAX_ISA=avx2 try "valgrind" valgrind.txt valgrind --error-exitcode=9 --leak-check=full --child-silent-after-fork=yes "$B/plain/sanitized" "" avx2
    else echo "skip valgrind: not installed"; fi
fi
# shellcheck disable=SC2086
if build thread $CC -fsanitize=thread; then
    cache thread
    # The lock of the dynamic loader is inside it, where the sanitizer does not see it.
    printf 'race:_dl_close_worker\nrace:_dl_new_object\nrace:_dl_map_object\n' >"$B/thread.supp"
    TSAN_OPTIONS="halt_on_error=0 suppressions=$B/thread.supp" try "threads under thread" thread.txt "$B/thread/threads"
    TSAN_OPTIONS="halt_on_error=0 suppressions=$B/thread.supp" STAX_TEST_FLAGS=-fsanitize=thread try "functions under thread" jit.txt "$B/thread/jit" threads
fi

# A host that contracts: the user's own functions still do, ours do not.
case $(uname -m) in x86_64)
    if has gcc && grep -qm1 fma /proc/cpuinfo; then
        cache plain
        if gcc -std=gnu17 -O2 -mfma -I. -Itests tests/host_modes.c -o "$B/host_modes" -lm -ldl -lpthread >"$B/host_build.txt" 2>&1; then
            try "gcc -std=gnu17 -O2 -mfma: users_contraction" host.txt "$B/host_modes" users_contraction
        else
            failed=$((failed + 1))
            echo "FAIL host_modes.c does not build with gcc -std=gnu17 -O2 -mfma"
        fi
    fi ;;
esac

closing
