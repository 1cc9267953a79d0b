#!/bin/sh
# Runs the examples that `make` built, checks what they print, and takes the export example all the way:
# the exported C is compiled without any part of Stax and must print the same bits.
# Each example also compiles alone by the command in its first comment (hello stands for all).
B=${BUILD:-build}
CC=${CC:-cc}
O=$B/examples/out
rm -rf "$O"
mkdir -p "$O/export"
. tests/shell/checks.sh
bad() { # NAME REASON FILE
    failed=$((failed + 1))
    echo "FAIL $1: $2"
    if [ -f "$3" ]; then tail -n 8 "$3" | sed 's/^/     /'; fi
}

# example NAME TEXT ARGUMENTS...: exits with 0 and prints a line with TEXT
example() {
    name=$1 text=$2
    shift 2
    "$B/examples/$name" "$@" >"$O/$name.txt" 2>&1
    status=$?
    if [ $status -ne 0 ]; then bad "$name" "exit status $status" "$O/$name.txt"
    elif ! grep -q "$text" "$O/$name.txt"; then bad "$name" "does not print: $text" "$O/$name.txt"
    else ok; fi
}
example hello "^1000 rows: .*the interpreter's bits; 0 rows beyond"
example softmax "the same bits"
example digits_knn "^381 of 397 digits read right; 0 differ"
example blur "^0 pixels of the box blur differ" examples/data/china.pgm "$O"
example text_form "wrong.stax:2:7: error: "
example rewrite_rules "endless.turn: y = sub e, x => "
example jit "^300 calls of 2 kinds of data; the function ran 2 times; 0 elements are wrong"
example fit_hessian "^step 5: .*gradient [0-9.]*e-1[3-9]"
# those that train: tests/training.sh

# The pictures: their size, and that a blur and an edge map are what they claim to be.
if [ "$(wc -c <"$O/gauss.pgm")" -eq "$(wc -c <examples/data/china.pgm)" ]; then ok
else bad "blur's pictures" "gauss.pgm has another size than china.pgm" ""; fi

"$B/examples/export_demo" "$O/export" >"$O/export_demo.txt" 2>"$O/export_err.txt"
status=$?
if [ $status -eq 77 ]; then
    echo "skip export_demo: $(cat "$O/export_err.txt")"
elif [ $status -ne 0 ]; then
    bad export_demo "exit status $status" "$O/export_err.txt"
else
    # The generated files must also be clean under strict warnings, and as C++.
    for flags in "-O2 -std=c99 -Wall -Wextra -Wpedantic -Werror" "-O0 -std=gnu17" "-O3 -std=c11"; do
        if $CC $flags -I"$O/export" examples/export_main.c "$O/export/norm.c" -o "$O/main" -lm >"$O/cc.txt" 2>&1 &&
            "$O/main" >"$O/main.txt" && cmp "$O/main.txt" "$O/export_demo.txt" >"$O/cmp.txt" 2>&1; then ok
        else bad "export_main $flags" "$(cat "$O/cmp.txt" 2>&1)" "$O/cc.txt"; fi
    done
fi

# The documented command, with no help from the Makefile.
if $CC -O0 -I. examples/hello.c -o "$O/hello" -lm -ldl -lpthread >"$O/cc.txt" 2>&1 && "$O/hello" >"$O/alone.txt" 2>&1; then ok
else bad "hello alone" "does not build or run by the command in its first comment" "$O/cc.txt"; fi

closing
