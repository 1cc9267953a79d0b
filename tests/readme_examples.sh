#!/bin/sh
# Compiles, and where they are whole programs runs, the examples in README.md and in the manual at the top
# of stax.h, so that neither can go stale.
#   README.md: each ```c block. A block with main() is a program: built with -Werror and run. Any other is
#              put into a function after the declarations of tests/readme_around.inc, and compiled.
#              ```stax blocks go through stax_parse, compile and run (staxc run --check).
#   stax.h:    the example in the first comment, in a main() with data, and its result.
B=${BUILD:-build}/readme
CC=${CC:-cc}
WARN="-std=c99 -Wall -Wextra -Wno-unused-variable -Wno-unused-but-set-variable -Wno-unused-function -Werror"
rm -rf "$B"
mkdir -p "$B"
. tests/shell/checks.sh
bad() { # NAME FILE
    failed=$((failed + 1))
    echo "FAIL $1"
    head -n 12 "$2" | sed 's/^/     /'
}

# One file a block: block_<first line>.<language>; sh blocks are documentation.
awk -v dir="$B" '
    /^ *```/ && inside { inside = 0; close(file); next }
    /^ *```(c|stax) *$/ { language = $0; gsub(/[` ]/, "", language)
                          file = sprintf("%s/block_%04d.%s", dir, NR + 1, language); inside = 1
                          printf "" > file; next }
    /^ *```/ { inside = 1; file = dir "/other"; next }
    inside { print > file }' README.md

build() { # SOURCE PROGRAM
    $CC $WARN -I. -Itests -DSTAX_IMPLEMENTATION_DONE "$1" "${BUILD:-build}/stax.o" -o "$2" -lm -ldl -lpthread >"$B/out.txt" 2>&1
}

for file in "$B"/block_*.c; do
    [ -f "$file" ] || continue
    name="README.md:$(basename "$file" .c | sed 's/block_0*//')"
    if grep -q 'int main(' "$file"; then
        if build "$file" "$B/program" && "$B/program" >"$B/out.txt" 2>&1; then ok; else bad "$name (program)" "$B/out.txt"; fi
    else
        {
            echo '#include "readme_around.inc"'
            echo "static int snippet(void) {"
            echo "    README_AROUND"
            cat "$file"
            echo "    return 0;"
            echo "}"
            echo "int main(void) { return snippet(); }"
        } >"$B/snippet.c"
        # it may write files
        if build "$B/snippet.c" "$B/program" && (cd "$B" && ./program) >"$B/out.txt" 2>&1; then ok; else bad "$name (snippet)" "$B/out.txt"; fi
    fi
done

for file in "$B"/block_*.stax; do
    [ -f "$file" ] || continue
    name="README.md:$(basename "$file" .stax | sed 's/block_0*//')"
    if [ ! -x ./staxc ]; then echo "skip $name: staxc is not built"
    elif ./staxc run "$file" --check >"$B/out.txt" 2>&1; then ok
    else bad "$name" "$B/out.txt"; fi
done

# The manual's example: the lines after EXAMPLE up to stax_close; a remark in brackets after a ; is dropped.
{
    echo '#define STAX_IMPLEMENTATION'
    echo '#include "stax.h"'
    echo '#include <stdio.h>'
    echo 'static float x_data[64 * 128], w_data[64 * 128], y_data[64];'
    echo 'int main(void) {'
    echo '    for (int i = 0; i < 64 * 128; i++) { x_data[i] = 1; w_data[i] = 2; }'
    awk '/^ *EXAMPLE/ { on = 1; next } on { print } on && /stax_close/ { exit }' stax.h | sed 's/;  *(.*)$/;/'
    echo '    return y_data[0] == 768 && y_data[63] == 768 ? 0 : 1;'
    echo '}'
} >"$B/manual.c"
if build "$B/manual.c" "$B/manual" && "$B/manual" >"$B/out.txt" 2>&1; then ok
else bad "the example in stax.h" "$B/out.txt"; fi

# The tables are what their programs print.
made() { # PROGRAM SCRIPT
    if [ ! -x "$1" ]; then echo "skip $2: $1 is not built"
    elif sh "$2" --check >"$B/out.txt" 2>&1; then ok
    else bad "the table is out of date: sh $2 --update" "$B/out.txt"; fi
}
made ./staxc tools/op_table.sh
made "${BUILD:-build}/tests/nets" tools/net_table.sh
made "${BUILD:-build}/tests/realize" tools/realize_table.sh

closing
