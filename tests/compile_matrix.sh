#!/bin/sh
# Compiles the headers with every compiler, standard and configuration macro there is; strict warnings
# are errors. Where a program can run, it runs. Ends with "N passed, N failed".
#   sh tests/compile_matrix.sh [FILTER]       from the root of the repository
B=${BUILD:-build}/matrix
FILTER=${1:-}
rm -rf "$B"
mkdir -p "$B"
STAX_CACHE_DIR=${STAX_CACHE_DIR:-$(cd "$B" && pwd)/cache}
export STAX_CACHE_DIR
STRICT="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
# gcc's C front end reads the file again for each line whose indentation it looks at, seven seconds for this one:
# that is left to clang and g++, and to gcc with c99 in CI.
STRICT_C="$STRICT -Wno-misleading-indentation"
LIBS="-lm -ldl -lpthread"
. tests/shell/checks.sh


# check NAME COMMAND...: passes when the command succeeds and prints nothing.
check() {
    name=$1
    shift
    case $name in *"$FILTER"*) ;; *) return 0 ;; esac
    "$@" >"$B/out.txt" 2>&1
    status=$?
    if [ $status -eq 0 ] && [ ! -s "$B/out.txt" ]; then
        ok
    else
        failed=$((failed + 1))
        echo "FAIL $name (exit status $status, $(grep -cE 'error|warning' "$B/out.txt") diagnostics): $*"
        grep -E 'error|warning|[^ ]' "$B/out.txt" | head -n 8 | sed 's/^/     /'
    fi
}

printf '#include "stax.h"\n#include "stax_cuda.h"\nint main(void) { return 0; }\n' >"$B/decl.c"
printf '#define STAX_IMPLEMENTATION\n#include "stax.h"\n#include "stax.h"\nint main(void) { return 0; }\n' >"$B/impl.c"
printf '#define STAX_STATIC\n#define MATRIX_NAME first\n#include "matrix.inc"\n' >"$B/matrix_first.c"
printf '#define STAX_STATIC\n#define MATRIX_NAME second\n#include "matrix.inc"\n' >"$B/matrix_second.c"
printf 'int first(void);\nint second(void);\nint main(void) { return first() || second(); }\n' >"$B/both.c"
printf '#include "matrix.inc"\n' >"$B/matrix.c"
printf '#define STAX_IMPLEMENTATION\n#include "stax_cuda.h"\n' >"$B/cuda.c"
for f in decl impl matrix cuda; do cp "$B/$f.c" "$B/$f.cc"; done
I="-I. -Itests"

# ---- standards and warnings -------------------------------------------------------------------------
for cc in gcc clang; do
    case $cc in gcc) cxx=g++ ;; *) cxx=clang++ ;; esac
    if ! has $cc; then skip $cc "not installed"; continue; fi
    for std in c99 c11 c17; do
        case $cc$std$CI$STAX_LONG in clang* | gccc99?*) strict=$STRICT ;; *) strict=$STRICT_C ;; esac
        check "$cc $std declarations" $cc -std=$std $STRICT $I -fsyntax-only "$B/decl.c"
        check "$cc $std implementation" $cc -std=$std $strict $I -fsyntax-only "$B/impl.c"
    done
    check "$cc c99 staxc and stax_cuda.h" $cc -std=c99 $STRICT_C $I -fsyntax-only tools/staxc.c
    if [ $cc = gcc ] && [ -n "$CI$STAX_LONG" ]; then # its optimiser finds more to warn of, and takes long
        check "$cc gnu17 -O2" $cc -std=gnu17 -O2 $STRICT $I -c "$B/matrix.c" -o "$B/o2.o"
    fi
    if ! has $cxx; then skip $cxx "not installed"; continue; fi
    for std in c++11 c++20; do
        check "$cxx $std declarations" $cxx -std=$std $STRICT $I -fsyntax-only "$B/decl.cc"
        check "$cxx $std implementation" $cxx -std=$std $STRICT $I -fsyntax-only "$B/impl.cc"
    done
    check "$cxx c++11 staxc and stax_cuda.h" $cxx -std=c++11 $STRICT $I -fsyntax-only -x c++ tools/staxc.c
    # outside CI g++ builds one program, the tool below
    if [ $cc = gcc ] && [ -z "$CI$STAX_LONG" ]; then continue; fi
    check "$cxx c++11 program" $cxx -std=c++11 $STRICT $I "$B/matrix.cc" -o "$B/cxx" $LIBS
    check "$cxx c++11 program runs" "$B/cxx"
done

# ---- configuration macros: each alone, all together; each program runs ------------------------------
CC=${CC:-cc}
QUICK=$CC # what a macro changes is for any compiler to see: clang takes a third of gcc's time
if has clang; then QUICK=clang; fi
ALL="-DSTAX_NO_JIT -DSTAX_NO_STDIO -DSTAX_NO_THREADS -DSTAX_NO_ENV -DSTAX_NO_STRINGS -DSTAX_NO_LOCATIONS"
program() { # NAME FLAGS
    check "$1" $QUICK -std=c99 $STRICT $I $2 "$B/matrix.c" -o "$B/program" $LIBS
    check "$1 runs" "$B/program"
}
program "no macro" "-DMATRIX_COMPILES"
for macro in $ALL; do program "${macro#-D}" "$macro"; done
program "all STAX_NO_*" "$ALL"
program "STAX_STATIC" "-DSTAX_STATIC"
program "STAX_MALLOC and STAX_FREE" "-DSTAX_MALLOC(size,align,user)=malloc(size) -DSTAX_FREE(ptr,size,user)=free(ptr)"
check "two static copies" $QUICK -std=c99 $STRICT $I "$B/matrix_first.c" "$B/matrix_second.c" "$B/both.c" -o "$B/both" $LIBS
check "two static copies run" "$B/both"

# ---- what a macro takes away is gone from the object file --------------------------------------------
absent() { # FLAGS SYMBOLS-AS-REGEX
    case "absent $1" in *"$FILTER"*) ;; *) return 0 ;; esac
    if $QUICK -std=c99 $I $1 -c "$B/impl.c" -o "$B/absent.o" 2>"$B/err.txt" && nm -u "$B/absent.o" >"$B/symbols.txt" 2>&1; then
        check "absent $1" sh -c "! grep -E '[ _]($2)(@|\$)' '$B/symbols.txt'"
    else
        check "absent $1" false
    fi
}
if has nm; then
    absent -DSTAX_NO_ENV "getenv|secure_getenv"
    absent -DSTAX_NO_THREADS "pthread_[a-z_]*"
    absent -DSTAX_NO_JIT "posix_spawn|kill|waitpid|popen|system|dlopen|dlsym|fork|execv"
    absent -DSTAX_NO_STDIO "posix_spawn|popen|fopen|fread|fwrite|printf|snprintf|puts|open|read|write"
    absent "" "abort|exit|_exit|__assert_fail|printf|puts|rand|time"
else
    skip "absent symbols" "nm is not installed"
fi
printf '#define STAX_IMPLEMENTATION\n#define STAX_MALLOC(s, a, u) 0\n#include "stax.h"\n' >"$B/half.c"
check "STAX_MALLOC without STAX_FREE is refused" sh -c "! $CC -I. -c '$B/half.c' -o '$B/half.o' 2>'$B/err.txt' && grep -q STAX_FREE '$B/err.txt'"
check "fast-math is refused" sh -c "! $CC -I. -ffast-math -c '$B/impl.c' -o '$B/fast.o' 2>'$B/err.txt' && grep -q fast-math '$B/err.txt'"

# ---- other compilers -----------------------------------------------------------------------------------
if has tcc; then
    check "tcc declarations" tcc -Wall -Werror $I -c "$B/decl.c" -o "$B/tcc.o"
    check "tcc program" tcc -Wall $I "$B/matrix.c" -o "$B/tcc" $LIBS
    check "tcc program runs" "$B/tcc"
else
    skip tcc "not installed"
fi
for cc in x86_64-w64-mingw32-gcc x86_64-w64-mingw32-g++; do
    case $cc in *g++) file=impl.cc std=c++11 decl=decl.cc ;; *) file=impl.c std=c99 decl=decl.c ;; esac
    if has $cc; then
        check "$cc declarations" $cc -std=$std $STRICT_C $I -c "$B/$decl" -o "$B/mingw.o"
        check "$cc implementation" $cc -std=$std $STRICT_C $I -fsyntax-only "$B/$file"
        check "$cc stax_cuda.h" $cc -std=$std $STRICT_C $I -fsyntax-only "$B/cuda.${file#impl.}"
        [ "${cc%gcc}" = "$cc" ] || check "$cc staxc" $cc -O0 -w -I. tools/staxc.c -o "$B/staxc.exe"
    else
        skip $cc "not installed"
    fi
done

# ---- the interpreter and the parser give the same answers whatever compiled them -------------------------
tool() { "$@" -w -I. tools/staxc.c -o "$B/staxc" $LIBS; }
answers() { # TOOL: what it says of every graph of the corpus
    for f in tests/corpus/good/*.stax; do
        echo "$f"
        "$1" print "$f"
        "$1" run "$f" --backend=interpret
    done
    "$1" ops --promotion
}
case "same answers" in *"$FILTER"*)
    if [ -x ./staxc ] || tool $CC -O1; then # make's own is at -O1 too
        if [ -x ./staxc ]; then answers ./staxc; else answers "$B/staxc"; fi >"$B/answers.txt" 2>&1
    fi
    if [ -n "$CI$STAX_LONG" ]; then more="clang -O1"; else more="clang -O0"; fi # -O1 takes ten times longer to build
    for build in "gcc -O0" "$more" "tcc" "g++ -x c++ -O0"; do
        if has ${build%% *}; then
            { tool $build && answers "$B/staxc"; } >"$B/other.txt" 2>&1
            check "same answers of $build" cmp "$B/answers.txt" "$B/other.txt"
        else
            skip "same answers of $build" "not installed"
        fi
    done ;;
esac

closing
