#!/bin/sh
# Vector loops stay vector loops: the assembly that gcc and clang make of kernels has the packed instructions of each
# instruction set of x86, in its registers, and no arithmetic on single numbers in their place.
. tests/script.inc
has() { if grep -q -E "$2" "$work/kernels"; then good; else bad "$1: no $2"; fi; }
lacks() { if grep -q -E "$2" "$work/kernels"; then bad "$1: has $(grep -m 1 -E "$2" "$work/kernels")"; else good; fi; }

if [ "$(uname -m)" != x86_64 ]; then
    echo "skip: the instructions are those of x86-64"
    echo "0 passed, 0 failed"
    exit 0
fi
cat >"$work/g.stax" <<'END'
graph g(x: f32[500000], w: f32[500000], d: f64[400000], i: i32[300000], r: f32[100,2048], h: f16[600000], y: f32[700000]) {
  a = add x, w
  b = mul a, 2.0
  c = relu b
  e = mul d, d
  f = add i, i
  s = sum r {axes=[1]}
  k = cast h {dtype=f32}
  m = mul k, 3.0
  o = exp y
  return c, e, f, s, m, o
}
END
for cc in gcc clang; do
    command -v $cc >"$work/out" 2>&1 || { echo "skip $cc: not installed"; continue; }
    for isa in sse2 avx2 avx512; do
        case $isa in
        sse2) flags=-msse2 reg=xmm v= ;;
        avx2) flags="-mavx2 -mfma -mf16c" reg=ymm v=v ;;
        avx512) flags="-mavx512f -mavx512vl -mavx512bw -mavx512dq -mavx512cd -mfma -mf16c" reg=zmm v=v ;;
        esac
        "$staxc" print "$work/g.stax" --emit=c --isa=$isa >"$work/g.c" 2>"$work/err"
        if ! $cc -std=gnu99 -w -O2 $flags -ffp-contract=off -fno-math-errno -fno-strict-aliasing -fno-stack-protector \
            -fno-asynchronous-unwind-tables -S "$work/g.c" -o "$work/g.s" 2>>"$work/err"; then
            bad "$cc $isa: $(head -n 3 "$work/err")"
            continue
        fi
        sed -n '/^sx_kernel_/,/^\t\.size\tsx_kernel_/p' "$work/g.s" >"$work/kernels"
        # pslld: f16 becomes f32
        for name in addps mulps maxps mulpd paddd pslld; do has "$cc $isa" "[[:space:]]$v$name[[:space:]].*%$reg"; done
        lacks "$cc $isa" "[[:space:]]v?(add|mul|max)s[sd][[:space:]].*\(%"
    done
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
