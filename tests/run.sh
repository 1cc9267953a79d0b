#!/bin/sh
# Runs test programs and scripts and adds up their closing lines, "N passed, N failed".
#   tests/run.sh PROGRAM-OR-SCRIPT ...        from the root of the repository; `make test` calls it
# A program that is missing, ends without that line, runs too long or ends with a status that its line
# does not explain counts as one failure. Full output: build/log/NAME.txt.
BUILD=${BUILD:-build}
LIMIT=${LIMIT:-400}
CC=${CC:-cc}
export CC BUILD
STAX_CACHE_DIR="$(pwd)/$BUILD/test-cache"
export STAX_CACHE_DIR
mkdir -p "$BUILD/log" "$STAX_CACHE_DIR"
chmod 700 "$STAX_CACHE_DIR"
limited=
if timeout 5 true 2>"$BUILD/log/.timeout"; then limited="timeout $LIMIT"; fi

passed=0
failed=0
for test in "$@"; do
    name=$(basename "$test")
    log="$BUILD/log/$name.txt"
    start=$(date +%s)
    case $test in
    *.sh) $limited sh "$test" >"$log" 2>&1 </dev/null; status=$? ;;
    *)  if [ -x "$test" ]; then $limited "./$test" >"$log" 2>&1 </dev/null; status=$?
        else echo "FAIL $name: it did not build" >"$log"; status=1; fi ;;
    esac
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
    passed=$((passed + p))
    failed=$((failed + f))
    printf '%-28s %6d passed %4d failed %5d s\n' "$name" "$p" "$f" "$seconds"
    grep -E 'FAIL|skip|left out' "$log" | cut -c 1-240 | head -n 40 | sed 's/^/    /'
    if [ "$f" -ne 0 ]; then
        echo "    the whole output is in $log; it ends:"
        tail -n 4 "$log" | cut -c 1-240 | sed 's/^/    | /'
    fi
done
echo
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
