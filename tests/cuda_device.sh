#!/bin/sh
# Everything that needs a GPU, as one command from the root of the repository:
#   sh tests/cuda_device.sh [options of tests/cuda_device.c]
# Builds, compares every op and at least 500 random graphs with the interpreter bit for bit, and with the tool
# every graph of the corpus and the examples, some under compute-sanitizer; then prints times beside PyTorch's. Without a GPU it says so and
# passes. The line "N passed, N failed" counts calls and files.
B=${BUILD:-build}
make --no-print-directory staxc "$B/tests/cuda_device" BUILD="$B" >"$B.cuda.log" 2>&1 || {
    cat "$B.cuda.log"
    echo "FAIL cuda_device: it did not build"
    echo "0 passed, 1 failed"
    exit 1
}
rm -f "$B.cuda.log"

# checked TOOL COMMAND...: runs the command under compute-sanitizer
checked() {
    tool=$1
    shift
    "$sanitizer" --tool "$tool" --target-processes all --error-exitcode 9 "$@" >"$B/cuda_sanitizer.txt" 2>&1
    status_of_tool=$?
    if grep -qE 'Device not supported|not supported on this|Unable to find injection' "$B/cuda_sanitizer.txt"; then
        skipped=$((skipped + 1))
        echo "skip compute-sanitizer $tool: $(grep -E 'not supported|Unable' "$B/cuda_sanitizer.txt" | head -n 1)"
    elif [ $status_of_tool -eq 0 ] && grep -q 'ERROR SUMMARY: 0 errors\|RACECHECK SUMMARY: 0 hazards' "$B/cuda_sanitizer.txt"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL compute-sanitizer $tool $*"
        grep -vE '^$' "$B/cuda_sanitizer.txt" | tail -n 12
    fi
}

# A part of the random graphs, and rows that live in registers, under memcheck and racecheck.
sanitize() {
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -n 1)
    if [ -z "$sanitizer" ]; then
        echo "skip compute-sanitizer: not installed"
        return
    fi
    printf 'graph rows(x: f32[6,8192], y: f32[5,1000]) {\n  s = softmax x\n  n = layer_norm x\n  m = max y {axes=[0]}\n  t = sum y\n  return s, n, m, t\n}\n' >"$B/rows.stax"
    for check in memcheck racecheck; do
        checked $check ./staxc run "$B/rows.stax" --device=cuda --out s=/dev/null --out n=/dev/null --out m=/dev/null --out t=/dev/null
        checked $check "$B/tests/cuda_device" --tables=0 --times=0 --wide=0 --count=24 --jobs=4
    done
}

"$B/tests/cuda_device" "$@" >"$B/cuda_device.txt"
status=$?
passed=0 failed=0 skipped=0
if ! grep -q '^skip cuda_device' "$B/cuda_device.txt"; then
    for file in tests/corpus/good/*.stax tests/corpus/large/*.stax examples/*.stax examples/data/*.stax; do
        [ -f "$file" ] || continue # a pattern that fits nothing
        ./staxc run "$file" --device=cuda --check --seed=1 >"$B/cuda_run.txt" 2>&1
        case $? in
        0) passed=$((passed + 1)) ;;
        1) # an index out of range is one on the CPU too
           ./staxc run "$file" --seed=1 >"$B/cuda_cpu.txt" 2>&1
           if grep -q 'is out of range' "$B/cuda_cpu.txt" && grep -q 'is out of range' "$B/cuda_run.txt"; then
               passed=$((passed + 1))
           else
               failed=$((failed + 1))
               echo "FAIL $file: $(head -n 3 "$B/cuda_run.txt")"
           fi ;;
        *) failed=$((failed + 1))
           echo "FAIL $file: $(grep error "$B/cuda_run.txt" | head -n 3)" ;;
        esac
    done
    echo "staxc run --device=cuda --check: $passed files with equal bits, $skipped skipped, $failed failed"
    sanitize
    python3 tests/cuda_torch.py --compile 2>"$B/cuda_torch.txt" || echo "no times of PyTorch: $B/cuda_torch.txt says why"
fi
line=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$B/cuda_device.txt")
grep -vE '^[0-9]+ passed, [0-9]+ failed$' "$B/cuda_device.txt"
[ -n "$line" ] || line="0 passed, 1 failed" # it crashed
more=${line#*, }
echo "$((${line%% *} + passed)) passed, $((${more%% *} + failed)) failed"
[ $status -eq 0 ] && [ $failed -eq 0 ]
