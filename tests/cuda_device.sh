#!/bin/sh
# Everything that needs a GPU, as one command from the root of the repository:
#   sh tests/cuda_device.sh [options of tests/cuda_device.c]
# Builds, compares every op and at least 500 random graphs with the interpreter bit for bit, then prints
# times beside PyTorch's. Without a GPU it says so and passes. The line "N passed, N failed" counts calls.
B=${BUILD:-build}
make --no-print-directory "$B/tests/cuda_device" BUILD="$B" >"$B.cuda.log" 2>&1 || {
    cat "$B.cuda.log"
    echo "FAIL cuda_device: it did not build"
    echo "0 passed, 1 failed"
    exit 1
}
rm -f "$B.cuda.log"
"$B/tests/cuda_device" "$@" >"$B/cuda_device.txt"
status=$?
if ! grep -q '^skip cuda_device' "$B/cuda_device.txt"; then
    python3 tests/cuda_torch.py --compile 2>"$B/cuda_torch.txt" || echo "no times of PyTorch: $B/cuda_torch.txt says why"
fi
cat "$B/cuda_device.txt"
exit $status
