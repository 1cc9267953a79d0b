#!/bin/sh
# Exported programs stand alone: undefined names, warnings, and the bits of stax_run under any options of the user.
#   sh tests/export.sh        from the root of the repository; ends with "N passed, N failed"
CC=${CC:-cc}
B=${BUILD:-build}/export
rm -rf "$B"
mkdir -p "$B/src"
STAX_CACHE_DIR=${STAX_CACHE_DIR:-$(cd "$B" && pwd)/cache}
export STAX_CACHE_DIR
STRICT="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
passed=0
failed=0
has() { command -v "$1" >"$B/which.txt" 2>&1; }
pass() { passed=$((passed + 1)); }
fail() {
    failed=$((failed + 1))
    echo "FAIL $1"
}

impl=${BUILD:-build}/stax.o
if [ ! -f "$impl" ]; then
    impl=$B/stax.o
    printf '#define STAX_IMPLEMENTATION\n#include "stax.h"\n' >"$B/stax.c"
    $CC -O1 -std=c99 -I. -c "$B/stax.c" -o "$impl" || exit 1
fi
$CC -O1 -std=c99 -Wall -Wextra -I. -Itests -x c tests/export_driver.inc -x none "$impl" -o "$B/driver" -lm -ldl -lpthread || {
    echo "FAIL the driver does not build"
    echo "0 passed, 1 failed"
    exit 1
}
corpus=
for f in tests/corpus/good/*.stax; do [ -f "$f" ] && corpus="$corpus $f"; done
"$B/driver" "$B/src" $corpus >"$B/list.txt" 2>&1
status=$?
cat "$B/list.txt"
if [ $status -eq 0 ]; then pass; else fail "export driver: exit status $status"; fi

plain=$(awk '$2 == "plain" { print $1 }' "$B/list.txt")
names=$(awk '$2 == "plain" || $2 == "static" { print $1 }' "$B/list.txt")

# Outside CI a compiler with its flags gets every sixth program, others each time.
share=6
[ -n "$CI$STAX_LONG" ] && share=1
turn=0
picked() { echo "$1" | awk -v turn="$turn" -v share="$share" 'NF && (NR + turn) % share == 0'; }

# each DIR MODE COMPILER...: compiles the programs into DIR, two at a time; fails per program.
each() {
    dir=$1 what=$2 label=$3
    shift 3
    mkdir -p "$B/$dir"
    case $what in
    objects) turn=$((turn + 1)); list=$(picked "$names"); files='f="src/$n.c"; if grep -q "include .$n\.c." src/${n}_main.c; then f=src/${n}_main.c; fi; "$@" -c -o "$dir/$n.o" $f' ;;
    mains) list=$plain; files='"$@" -c -o "$dir/${n}_main.o" src/${n}_main.c' ;;
    syntax) turn=$((turn + 1)); list=$(picked "$names"); files='f="src/$n.c"; if grep -q "include .$n\.c." src/${n}_main.c; then f=src/${n}_main.c; fi; "$@" -fsyntax-only $f' ;;
    esac
    (cd "$B" && export dir && for n in $list; do echo "$n"; done |
        xargs -P 2 -I NAME sh -c 'n=$1; shift; '"$files"' >"$dir/$n.log" 2>&1 || echo "$n" >>"$dir/bad.txt"' sh NAME "$@")
    bad=
    if [ -f "$B/$dir/bad.txt" ]; then bad=$(sort -V "$B/$dir/bad.txt" | tr '\n' ' '); fi
    if [ -z "$bad" ]; then pass; else
        fail "$label: $bad"
        for n in $bad; do head -n 4 "$B/$dir/$n.log" | sed 's/^/     /'; done | head -n 12
    fi
}

# The compiler's own runtime may appear beside the four names.
names_of() {
    nm -u "$B/$1"/p*.o 2>&1 | awk 'NF == 2 { print $2 }' | sed 's/^_*//' | sort -u |
        grep -vE '^(bcmp|memcpy|memmove|memset|memcmp|GLOBAL_OFFSET_TABLE_|stack_chk_fail|(u?(div|mod)|mul)ti3|(trunc|extend)[a-z]f[a-z]f2|fix(uns)?[sd]f[dt]i|float(un)?[dt]i[sd]f)$' |
        grep -vE '^(printf|puts|putchar|fopen|fread|fclose|malloc|free|strcmp|isoc99_.*|export_differs)$' | tr '\n' ' '
}

# The .bin files are named from the root of the repository.
sed -i.orig "s|\"$B/src/|\"src/|" "$B"/src/*_main.c && rm -f "$B"/src/*.orig
k=0
callers=
run_config() { # COMPILER FLAGS...
    label="$*"
    k=$((k + 1))
    each "c$k" objects "$label" "$@"
    left=$(names_of "c$k")
    if [ -z "$left" ]; then pass; else fail "$label: undefined names: $left"; fi
    chosen=$list
    expected=$(echo "$chosen" | grep -c .)
    # they hold the data and compare: once for all flags, in CI once a compiler
    if [ -z "$callers" ] || { [ $share -eq 1 ] && [ "$callers" != "callers-$1" ]; }; then
        callers=callers-$1
        each "$callers" mains "$1: the callers" "$1" -O0
    fi
    dir=c$k # each() has a dir too
    objects= # and callers of the programs that are here
    for n in $chosen; do
        objects="$objects $dir/$n.o"
        if [ -f "$B/$callers/${n}_main.o" ]; then objects="$objects $callers/${n}_main.o"; fi
    done
    if (cd "$B" && "$@" -o "$dir/all" src/all.c $objects) >"$B/$dir/link.log" 2>&1; then
        (cd "$B" && "./$dir/all") >"$B/$dir/all.log" 2>&1
        status=$?
        if [ $status -eq 0 ] && grep -q "^$expected right, 0 wrong" "$B/$dir/all.log"; then pass; else
            fail "$label: exit status $status, of $expected programs"
            head -n 12 "$B/$dir/all.log" | sed 's/^/     /'
        fi
    else
        fail "$label: does not link"
        head -n 6 "$B/$dir/link.log" | sed 's/^/     /'
    fi
}

flags=$(cat /proc/cpuinfo 2>"$B/none.txt" | grep -m1 '^flags')
x86=$(uname -m)
for cc in gcc clang; do
    has $cc || { echo "skip $cc: not installed"; continue; }
    case $cc in gcc) cxx=g++ ;; *) cxx=clang++ ;; esac
    each "w-$cc" syntax "$cc -std=c99 strict" $cc -std=c99 $STRICT
    has $cxx && each "w-$cxx" syntax "$cxx -std=c++11 strict" $cxx -x c++ -std=c++11 $STRICT
    run_config $cc -O0
    run_config $cc -std=gnu17 -O2
    case $x86 in
    x86_64)
        case $flags in *fma*) run_config $cc -std=gnu17 -O2 -mavx2 -mfma ;; esac
        ;;
    esac
    run_config $cc -O3 -march=native
    [ -n "$STAX_LONG" ] && run_config $cc -Os && run_config $cc -std=c11 -O1 -fPIC -fstrict-aliasing
done

# static form: two programs in one file
two=$(awk '$2 == "static" { print $1 }' "$B/list.txt" | head -n 2 | tr '\n' ' ')
: >"$B/src/two.c"
for n in $two; do echo "#include \"${n}_main.c\"" >>"$B/src/two.c"; done
echo 'int main(void) { return 0; }' >>"$B/src/two.c"
if (cd "$B" && $CC -O1 -Isrc -c src/two.c -o two.o) >"$B/two.log" 2>&1; then pass; else
    fail "two static programs in one file"
    grep error "$B/two.log" | head -n 4 | sed 's/^/     /'
fi
# fast-math is refused in words
first=$(echo $plain | cut -d' ' -f1)
if (cd "$B" && $CC -O2 -ffast-math -c "src/$first.c" -o fast.o) >"$B/fast.log" 2>&1; then fail "-ffast-math was accepted"
elif grep -q 'fast-math' "$B/fast.log"; then pass; else fail "-ffast-math: no word about it"; fi

if [ $share -gt 1 ]; then echo "left out for each compiler and its flags: five sixths of the programs, others each time; CI=1 takes all"; fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
