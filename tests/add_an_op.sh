#!/bin/sh
# The walk-through of examples/add_an_op: the header with one op more, and that op's test.
#   sh tests/add_an_op.sh       from the root of the repository
B=${BUILD:-build}/add_an_op
mkdir -p "$B"
sed -f examples/add_an_op/sinc.sed stax.h >"$B/stax.h" || exit 1
# every place was found: eight insertions
n=$(diff stax.h "$B/stax.h" | grep -c '^[0-9]*a[0-9]')
if [ "$n" -ne 8 ]; then
    echo "FAIL add_an_op: $n of 8 places found in stax.h; see examples/add_an_op/sinc.sed"
    echo "0 passed, 1 failed"
    exit 1
fi
if ! ${CC:-cc} -O0 -std=c99 -Wall -Wextra -Wno-misleading-indentation -I"$B" -Itests examples/add_an_op/sinc_test.c -o "$B/sinc_test" -lm -ldl -lpthread; then
    echo "FAIL add_an_op: the test does not build"
    echo "0 passed, 1 failed"
    exit 1
fi
"$B/sinc_test"
