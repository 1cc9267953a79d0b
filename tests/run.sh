#!/bin/sh
# Runs test programs and scripts and adds up their closing lines, "N passed, N failed".
#   tests/run.sh PROGRAM-OR-SCRIPT ...        from the root of the repository; `make test` calls it
# A program that is missing, ends without that line, runs too long or ends with a status that its line
# does not explain counts as one failure. Full output: build/log/NAME.txt.
# Two run at a time, or $JOBS; the longest, named here, come first, so that none is left over at the end.
LONGEST="differential compile_matrix.sh export.sh metamorphic contractions cuda_compile schedules staxc_test.sh"
# What these test does not depend on the compiler of their many small kernels, which costs nine tenths of their time:
# tcc's where it is installed, but the system's compiler in CI.
QUICK="state monoids scans jit"
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

# run TEST: leaves its output in the log and "PASSED FAILED" beside it; prints a line, and what failed or was skipped.
run() {
    name=${1##*/}
    log="$BUILD/log/$name.txt"
    start=$(date +%s)
    case " $QUICK " in *" $name "*)
        if [ -z "$CI$STAX_CC" ] && command -v tcc >"$BUILD/log/.tcc"; then STAX_CC=tcc && export STAX_CC; fi ;;
    esac
    case $1 in
    *.sh) $limited sh "$1" >"$log" 2>&1 </dev/null ;;
    *)  if [ -x "$1" ]; then $limited "./$1" >"$log" 2>&1 </dev/null
        else echo "FAIL $1: it did not build" >"$log"; false; fi ;;
    esac
    status=$?
    seconds=$(($(date +%s) - start))
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
    echo "$p $f" >"$log.sums"
    {
        printf '%-28s %6d passed %4d failed %5d s\n' "$name" "$p" "$f" "$seconds"
        grep -E 'FAIL|skip|left out|^ran ' "$log" | cut -c 1-240 | head -n 40 | sed 's/^/    /'
        if [ "$f" -ne 0 ]; then
            echo "    the whole output is in $log; it ends:"
            tail -n 4 "$log" | cut -c 1-240 | sed 's/^/    | /'
        fi
    } >"$log.report"
    cat "$log.report" # at once: another test may be printing
}

if [ "$1" = --one ]; then
    run "$2"
    exit 0
fi
rm -f "$BUILD"/log/*.sums
{
    for name in $LONGEST; do
        for test in "$@"; do case $test in */"$name") echo "$test" ;; esac; done
    done
    for test in "$@"; do
        case " $LONGEST " in *" ${test##*/} "*) ;; *) echo "$test" ;; esac
    done
} | LIMIT=$LIMIT BUILD=$BUILD xargs -P "${JOBS:-2}" -n 1 sh "$0" --one
passed=0
failed=0
for test in "$@"; do
    p=0 f=1
    read -r p f <"$BUILD/log/${test##*/}.txt.sums"
    passed=$((passed + p))
    failed=$((failed + f))
done
echo
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
