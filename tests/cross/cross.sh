#!/bin/sh
# Other architectures and systems: exported programs are compiled for each and run under an emulator; their
# outputs must be the bits that stax_run gave here. The library itself interprets the same graphs there.
#   sh tests/cross/cross.sh [FILTER]     from the root of the repository, after `make build/cross/driver`
# `make cross` installs the tools (tests/cross/packages.txt) and calls it. What is missing is skipped in
# words. Passed and failed are counted in programs. CROSS_PROGRAMS: how many random ones.
# "ran LABEL: ..." lines are the table of README.md.
B=${BUILD:-build}/cross
FILTER=${1:-}
PROGRAMS=${CROSS_PROGRAMS:-200}
HERE=$(pwd)
T=$HERE/tests/cross
passed=0
failed=0
STAX_CACHE_DIR=${STAX_CACHE_DIR:-$HERE/$B/cache}
export STAX_CACHE_DIR
has() { command -v "$1" >"$B/which.txt" 2>&1; }
fail() {
    failed=$((failed + 1))
    echo "FAIL $1"
    if [ -n "$2" ]; then head -n 8 "$2" | cut -c 1-200 | sed 's/^/     /'; fi
}
finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}
rm -rf "$B/src" "$B"/o_*
mkdir -p "$B/src"
if [ ! -x "$B/driver" ]; then
    fail "the driver is not built: make $B/driver"
    finish
fi

# ---- the programs -------------------------------------------------------------------------------------
{ printf 'P5\n61 47\n255\n' && tail -c 2867 examples/data/china.pgm; } >"$B/small.pgm"
if has tcc; then STAX_CC=${STAX_CC:-tcc} && export STAX_CC; fi # the exported text does not depend on it
"$B/driver" "$B/src" "--random=$PROGRAMS" "--examples=$B/small.pgm" tests/corpus/good/*.stax >"$B/list.txt" 2>&1
status=$?
if [ $status -ne 0 ]; then
    grep -E 'FAIL' "$B/list.txt" | head -n 12
    fail "the driver: exit status $status"
fi
grep '^left out' "$B/list.txt"
awk '$1 ~ /^p[0-9]+$/ && ($2 == "plain" || $2 == "static") { print $1 }' "$B/list.txt" >"$B/names.txt"
awk 'NR % 4 == 1' "$B/names.txt" >"$B/some.txt"
count() { awk "$1"' { n++ } END { print n + 0 }' "$B/list.txt"; }
random=$(count '$3 == "graphs.h"')
echo "$(wc -l <"$B/names.txt") programs: $random random, $(count '$3 ~ /^examples/') of the examples, the rest from the corpus and the tests"
if [ "$random" -lt "$PROGRAMS" ]; then fail "only $random random programs"; fi
{
    for n in $(cat "$B/names.txt"); do echo "#include \"${n}_main.c\""; done
} >"$B/src/mains.c"
printf '#include <stdio.h>\n#include <stdlib.h>\nint main(void) { void *p = malloc(9); printf("hello\\n"); free(p); return p == NULL; }\n' >"$B/hello.c"

# Compiles one program: compile_one OBJECTS NAME COMPILER FLAGS...
cat >"$B/compile_one.sh" <<'EOF'
o=$1 n=$2
shift 2
if grep -q "include .$n\.c." "src/${n}_main.c"; then "$@" -w -c -o "$o/${n}_main.o" "src/${n}_main.c"
else "$@" -w -c -o "$o/$n.o" "src/$n.c" && "$@" -w -O0 -c -o "$o/${n}_main.o" "src/${n}_main.c"
fi >"$o/$n.log" 2>&1 || { echo "$n" >>"$o/bad.txt"; rm -f "$o/$n.o" "$o/${n}_main.o"; }
EOF

# ---- one machine -----------------------------------------------------------------------------------------
# The machine at hand: compilation, linking (the same compiler unless LINK is set) and running. `use` sets
# it and says whether its tools are there.
#   use LABEL "RUN" "LINK-FLAGS" COMPILER FLAGS...
use() {
    label=$1 run=$2 link_flags=$3
    shift 3
    compiler=$*
    linker=${LINK:-$*}
    o=o_$(echo "$label" | tr -c 'a-zA-Z0-9\n' _)
    case $label in *"$FILTER"*) ;; *) return 1 ;; esac
    for tool in $1 ${linker%% *} ${run%% *}; do
        has "$tool" || { echo "skip $label: $tool is not installed"; return 1; }
    done
    mkdir -p "$B/$o"
    if ! (cd "$B" && $compiler -c -o "$o/hello.o" hello.c && $linker -o "$o/hello.exe" "$o/hello.o" $link_flags &&
        $run "$o/hello.exe" | grep -q hello) >"$B/$o/hello.log" 2>&1; then
        echo "skip $label: cannot build or run a program that says hello: $(grep . "$B/$o/hello.log" | head -n 1 | cut -c 1-120)"
        return 1
    fi
    start=$(date +%s)
}

# result LOG STATUS WANTED WHAT: adds "N right, N wrong" up
result() {
    line=$(tr -d '\r' <"$1" | grep -E '^[0-9]+ right, [0-9]+ wrong$')
    right=${line%% *}
    if [ "$2" -eq 0 ] && [ "$line" = "$3 right, 0 wrong" ]; then passed=$((passed + $3))
    else
        passed=$((passed + ${right:-0}))
        fail "$label: $4: exit status $2, '$line' of $3" "$1"
    fi
    echo "ran $label: ${right:-0} of $3 $4, $(($(date +%s) - start)) s"
}

# exports NAMES-FILE: the exported programs of that list
exports() {
    (cd "$B" && xargs -P 2 -I NAME sh compile_one.sh "$o" NAME $compiler <"$1")
    (cd "$B" && $compiler -w -O0 -c -o "$o/all.o" src/all.c) >"$B/$o/all.log" 2>&1 || fail "$label: all.c" "$B/$o/all.log"
    if [ -f "$B/$o/bad.txt" ]; then
        for n in $(head -n 4 "$B/$o/bad.txt"); do fail "$label: $n does not compile" "$B/$o/$n.log"; done
    fi
    if (cd "$B" && $linker -o "$o/all.exe" "$o/all.o" "$o"/p*.o $link_flags) >"$B/$o/link.log" 2>&1; then
        (cd "$B" && timeout 200 $run "$o/all.exe") >"$B/$o/out.txt" 2>&1 </dev/null
        result "$B/$o/out.txt" $? "$(wc -l <"$B/$1")" "exported programs"
    else
        fail "$label: does not link" "$B/$o/link.log"
    fi
}

# library: stax.h there parses, prints and interprets all graphs
library() {
    start=$(date +%s)
    printf 'all\nmains\n' | (cd "$B" && xargs -P 2 -I NAME $compiler -w -O0 -DSTAX_NO_JIT -DEXPORT_LIBRARY "-I$HERE" \
        -c -o "$o/NAME_library.o" src/NAME.c) >"$B/$o/library.log" 2>&1
    if (cd "$B" && $linker -o "$o/library.exe" "$o/all_library.o" "$o/mains_library.o" $link_flags $1) >>"$B/$o/library.log" 2>&1; then
        (cd "$B" && timeout 200 $run "$o/library.exe") >"$B/$o/library.txt" 2>&1 </dev/null
        result "$B/$o/library.txt" $? "$(wc -l <"$B/names.txt")" "graphs parsed, printed and interpreted by the library"
    else
        fail "$label: the library does not build" "$B/$o/library.log"
    fi
}

# unit "LIBRARIES" TEST [FILTER...]: a test program of tests/, compiled for that machine
unit() {
    libraries=$1 test=$2
    shift 2
    start=$(date +%s)
    more=-DSTAX_IMPLEMENTATION
    if grep -q 'define STAX_IMPLEMENTATION' "tests/$test.c"; then more=; fi
    if $compiler -w -O1 $more -I. -Itests -o "$B/$o/$test.exe" "tests/$test.c" $link_flags $libraries >"$B/$o/$test.log" 2>&1; then
        timeout 200 $run "$B/$o/$test.exe" "$@" >"$B/$o/$test.txt" 2>&1 </dev/null
        status=$?
        line=$(tr -d '\r' <"$B/$o/$test.txt" | grep -E '^[0-9]+ passed, 0 failed$')
        if [ $status -eq 0 ] && [ "${line%% *}" -ge 1 ]; then passed=$((passed + ${line%% *}))
        else
            grep -E 'FAIL' "$B/$o/$test.txt" >"$B/$o/$test.log"
            fail "$label: tests/$test.c: exit status $status" "$B/$o/$test.log"
        fi
        echo "ran $label: tests/$test.c${1:+ ($*)}: $line, $(($(date +%s) - start)) s"
    else
        fail "$label: tests/$test.c does not build" "$B/$o/$test.log"
    fi
}

# check WHAT COMMAND...: one more thing
check() {
    what=$1
    shift
    if "$@" >"$B/$o/check.txt" 2>&1; then passed=$((passed + 1)); else fail "$label: $what" "$B/$o/check.txt"; fi
}

# ---- Linux under qemu-user ------------------------------------------------------------------------------
POSIX="-lm -ldl -lpthread"
if use "aarch64 gcc -O2" qemu-aarch64 -static aarch64-linux-gnu-gcc -O2; then
    exports names.txt
    library "$POSIX"
fi
LINK=aarch64-linux-gnu-gcc
if use "aarch64 clang -O2" qemu-aarch64 -static clang --target=aarch64-linux-gnu -isystem /usr/aarch64-linux-gnu/include -O2; then exports some.txt; fi
LINK=
if use "armhf gcc -O2" qemu-arm -static arm-linux-gnueabihf-gcc -O2; then
    exports names.txt
    library "$POSIX"
fi
if use "armhf gcc -O3 NEON" qemu-arm -static arm-linux-gnueabihf-gcc -O3 -mcpu=cortex-a7 -mfpu=neon-vfpv4; then exports some.txt; fi
LINK=arm-linux-gnueabihf-gcc
if use "armhf clang -O2 VFPv4" qemu-arm -static clang --target=arm-linux-gnueabihf -isystem /usr/arm-linux-gnueabihf/include -mcpu=cortex-a7 -mfpu=vfpv4 -O2; then exports some.txt; fi
LINK=
if use "riscv64 gcc -O2" qemu-riscv64 -static riscv64-linux-gnu-gcc -O2; then exports names.txt; fi

# weights_in_file is for machines of one byte order, and says so.
order_is_checked() {
    ./staxc run "$B/npy.stax" --out "y=$B/w.npy" --out "z=$B/z.npy" &&
        ./staxc export "$B/weights.stax" --name=weights "--dir=$B" --weights=file --in "w=$B/w.npy" &&
        ! $compiler -c -o "$B/$o/weights.o" "$B/weights.c" 2>"$B/$o/weights.txt" && grep -q 'byte order' "$B/$o/weights.txt"
}
# .npy files of either order
npy() { # files of the little-endian machine there, and the other way round
    ./staxc run "$B/npy.stax" --out "y=$B/little.npy" --out "z=$B/z.npy" &&
        $compiler -w -O1 -DSTAX_NO_JIT -I. -o "$B/$o/staxc" tools/staxc.c $link_flags $POSIX &&
        $run "$B/$o/staxc" run "$B/npy.stax" --in "x=$B/little.npy" --out "y=$B/big.npy" --out "z=$B/z_there.npy" &&
        ./staxc run "$B/npy.stax" --in "x=$B/little.npy" --out "y=$B/y_here.npy" --out "z=$B/z_here.npy" &&
        ./staxc run "$B/npy.stax" --in "x=$B/big.npy" >"$B/from_big.txt" &&
        ./staxc run "$B/npy.stax" --in "x=$B/y_here.npy" >"$B/from_little.txt" &&
        cmp "$B/from_big.txt" "$B/from_little.txt" && grep -q '>f4' "$B/big.npy" && grep -q '<f4' "$B/little.npy" &&
        cmp -s "$B/z_there.npy" "$B/z_here.npy"
}
echo 'graph g(x: f32[3,5], param w: f32[3,5]) { a = mul x, w; return a }' >"$B/weights.stax"
echo 'graph g(x: f32[3,5]) { y = exp x; z = cast y {dtype=u8}; return y, z }' >"$B/npy.stax"
if use "s390x (big-endian) gcc -O2" qemu-s390x -static s390x-linux-gnu-gcc -O2; then
    exports names.txt
    library "$POSIX"
    unit "$POSIX" graph
    unit "$POSIX" interpreter
    check "weights in a file of the other byte order are refused" order_is_checked
    check ".npy files of both byte orders" npy
fi

# ---- WebAssembly, bare metal, Windows --------------------------------------------------------------------
# The usual stack of 64 KiB is too small for a kernel (README.md, Limits).
if use "wasm32 clang -O1" "node --no-warnings $T/wasi.mjs" "-Wl,-z,stack-size=1048576 -Wl,--stack-first" clang --target=wasm32-wasi -O1; then
    exports names.txt
fi
M4="-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16"
crt0=
if has arm-none-eabi-gcc; then crt0=$(arm-none-eabi-gcc $M4 -print-file-name=rdimon-crt0.o); fi
if use "Cortex-M4F bare metal gcc -O2" "qemu-system-arm -M mps2-an386 -semihosting -nographic -monitor none -serial none -kernel" \
    "$M4 -w --specs=rdimon.specs -nostartfiles -T $T/cortex_m.ld $T/cortex_m.c $crt0" arm-none-eabi-gcc $M4 -O2; then
    # One corpus file needs exact differences of doubles: it is left out where the C library has not got them.
    cp "$B/names.txt" "$B/exact.txt"
    if $compiler -w -o "$B/$o/subtraction.exe" "$T/subtraction.c" $link_flags >"$B/$o/subtraction.log" 2>&1 &&
        ! timeout 60 $run "$B/$o/subtraction.exe" >"$B/$o/subtraction.txt" 2>&1 </dev/null && grep -q 'differences 2 - f wrong' "$B/$o/subtraction.txt"; then
        awk '$3 ~ /erfc_tail/ { print $1 }' "$B/list.txt" | grep -v -x -F -f - "$B/names.txt" >"$B/exact.txt"
        echo "left out on $label: erfc_tail.stax, for the compiler's library subtracts wrongly: $(tr -d '\r' <"$B/$o/subtraction.txt")"
    fi
    exports exact.txt
fi
wine=wine64
if ! has wine64 && [ -x /usr/lib/wine/wine64 ]; then wine=/usr/lib/wine/wine64; fi
WINEPREFIX=$HERE/$B/wine WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml=" DISPLAY=
export WINEPREFIX WINEDEBUG WINEDLLOVERRIDES DISPLAY
if use "Windows x86-64 mingw-w64 gcc -O2" "$wine" "-static" x86_64-w64-mingw32-gcc -D__USE_MINGW_ANSI_STDIO=1 -O2; then
    exports names.txt
    library ""
    unit "" graph
    # not those that compare with msvcrt's fmaf, which rounds twice
    unit "" interpreter integers casts random runs busy errors nan texts keys regions
fi
finish
