#!/bin/sh
# Every rewrite rule on 100000 random values for each dtype: tests/rewrite.c takes 2000.
B=${BUILD:-build}/long
mkdir -p "$B"
if ${CC:-cc} -O1 -std=c99 -DRULE_SAMPLES=100000 -I. -Itests tests/rewrite.c -o "$B/rewrite" -lm -ldl -lpthread; then
    "$B/rewrite"
else
    echo "FAIL rewrite: it does not build"
    echo "0 passed, 1 failed"
    exit 1
fi
