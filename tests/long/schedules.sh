#!/bin/sh
# Random legal schedules of 10000 graphs against the interpreter: tests/schedules.c takes 364.
# tcc compiles the kernels, where there is one: it is the fastest. SIMD and threads get their part.
B=${BUILD:-build}
. tests/shell/checks.sh

# try LABEL OPTIONS...: adds the closing line
try() {
    label=$1
    shift
    "$B/long/random_schedules" --tables=0 "$@" >"$B/long/schedules.txt" 2>&1
    line=$(grep -oE '[0-9]+ passed, [0-9]+ failed$' "$B/long/schedules.txt" | tail -n 1)
    [ -n "$line" ] || line="0 passed, 1 failed"
    f=${line#*, }
    passed=$((passed + ${line%% *}))
    failed=$((failed + ${f%% *}))
    echo "$label: $line"
    grep -E '^edits|FAIL' "$B/long/schedules.txt" | cut -c 1-300
}

mkdir -p "$B/long"
if ${CC:-cc} -O1 -std=c99 -I. -Itests tests/schedules.c -o "$B/long/random_schedules" -lm -ldl -lpthread; then
    fast=$(has tcc && echo --compiler=tcc)
    # shellcheck disable=SC2086
    try "10000 schedules" --count=10000 --seed=30000 $fast
    try "vectors" --count=1000 --seed=200000
    try "threads" --count=300 --seed=300000 --wide --threads=3
else
    failed=1
fi
closing
