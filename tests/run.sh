#!/bin/sh
# Runs test programs and scripts and adds up their closing lines, "N passed, N failed".
#   tests/run.sh PROGRAM-OR-SCRIPT ...        from the root of the repository; `make test` calls it
# A program that is missing, ends without that line, runs too long or ends with a status that its line
# does not explain counts as one failure. Full output: build/log/NAME.txt.
# compile_matrix.sh, which only waits for compilers, runs beside the others.
BUILD=${BUILD:-build}
LIMIT=${LIMIT:-560}
CC=${CC:-cc}
export CC BUILD
STAX_CACHE_DIR="$(pwd)/$BUILD/test-cache"
export STAX_CACHE_DIR
mkdir -p "$BUILD/log" "$STAX_CACHE_DIR"
chmod 700 "$STAX_CACHE_DIR"
limited=
if timeout 5 true 2>"$BUILD/log/.timeout"; then limited="timeout $LIMIT"; fi

# run TEST: leaves its output in the log and "STATUS SECONDS" beside it
run() {
    log="$BUILD/log/$(basename "$1").txt"
    start=$(date +%s)
    case $1 in
    *.sh) $limited sh "$1" >"$log" 2>&1 </dev/null ;;
    *)  if [ -x "$1" ]; then $limited "./$1" >"$log" 2>&1 </dev/null
        else echo "FAIL $1: it did not build" >"$log"; false; fi ;;
    esac
    echo "$? $(($(date +%s) - start))" >"$log.status"
}

passed=0
failed=0
# report TEST: one line, what failed or was skipped, and the sums
report() {
    name=$(basename "$1")
    log="$BUILD/log/$name.txt"
    read -r status seconds <"$log.status"
    line=$(grep -oE '[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
    p=${line%% *}
    f=${line#*, }
    f=${f%% *}
    if [ -z "$line" ]; then
        p=0 f=1
        echo "FAIL $name: no closing line (exit status $status)" >>"$log"
    elif [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then
        f=1
        echo "FAIL $name: exit status $status after: $line" >>"$log"
    fi
    passed=$((passed + p))
    failed=$((failed + f))
    printf '%-28s %6d passed %4d failed %5d s\n' "$name" "$p" "$f" "$seconds"
    grep -E 'FAIL|skip|left out|^ran ' "$log" | cut -c 1-240 | head -n 40 | sed 's/^/    /'
    if [ "$f" -ne 0 ]; then
        echo "    the whole output is in $log; it ends:"
        tail -n 4 "$log" | cut -c 1-240 | sed 's/^/    | /'
    fi
}

beside=
for test in "$@"; do
    case $test in
    */compile_matrix.sh) run "$test" & beside=$test ;;
    esac
done
for test in "$@"; do
    if [ "$test" != "$beside" ]; then run "$test"; report "$test"; fi
done
if [ -n "$beside" ]; then wait; report "$beside"; fi
echo
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
