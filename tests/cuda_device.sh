#!/bin/sh
# Everything that needs a GPU, as one command from the root of the repository:
#   sh tests/cuda_device.sh [options of tests/cuda_device.c]
# Builds, compares every op and at least 500 random graphs with the interpreter bit for bit, and with the tool
# every graph of the corpus and the examples; then prints times beside PyTorch's. Without a GPU it says so and
# passes. The line "N passed, N failed" counts calls and files.
B=${BUILD:-build}
make --no-print-directory staxc "$B/tests/cuda_device" BUILD="$B" >"$B.cuda.log" 2>&1 || {
    cat "$B.cuda.log"
    echo "FAIL cuda_device: it did not build"
    echo "0 passed, 1 failed"
    exit 1
}
rm -f "$B.cuda.log"
"$B/tests/cuda_device" "$@" >"$B/cuda_device.txt"
status=$?
passed=0 failed=0 skipped=0
if ! grep -q '^skip cuda_device' "$B/cuda_device.txt"; then
    for file in tests/corpus/good/*.stax examples/*.stax examples/data/*.stax; do
        [ -f "$file" ] || continue # a pattern that fits nothing
        ./staxc run "$file" --device=cuda --check --seed=1 >"$B/cuda_run.txt" 2>&1
        case $? in
        0) passed=$((passed + 1)) ;;
        1) if grep -q 'on the CPU' "$B/cuda_run.txt"; then
               skipped=$((skipped + 1))
               echo "skip $file: $(grep 'on the CPU' "$B/cuda_run.txt")"
           else # an index out of range is one on the CPU too
               ./staxc run "$file" --seed=1 >"$B/cuda_cpu.txt" 2>&1
               if grep -q 'error:' "$B/cuda_cpu.txt" && cmp "$B/cuda_cpu.txt" "$B/cuda_run.txt" >"$B/cuda_cmp.txt" 2>&1; then
                   passed=$((passed + 1))
               else
                   failed=$((failed + 1))
                   echo "FAIL $file: $(head -n 3 "$B/cuda_run.txt")"
               fi
           fi ;;
        *) failed=$((failed + 1))
           echo "FAIL $file: $(grep error "$B/cuda_run.txt" | head -n 3)" ;;
        esac
    done
    echo "staxc run --device=cuda --check: $passed files with equal bits, $skipped skipped, $failed failed"
    python3 tests/cuda_torch.py --compile 2>"$B/cuda_torch.txt" || echo "no times of PyTorch: $B/cuda_torch.txt says why"
fi
line=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$B/cuda_device.txt")
grep -vE '^[0-9]+ passed, [0-9]+ failed$' "$B/cuda_device.txt"
[ -n "$line" ] || line="0 passed, 1 failed" # it crashed
more=${line#*, }
echo "$((${line%% *} + passed)) passed, $((${more%% *} + failed)) failed"
[ $status -eq 0 ] && [ $failed -eq 0 ]
