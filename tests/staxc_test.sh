#!/bin/sh
# Tests of tools/staxc: every verb, every exit status, every kind of wrong input.
#     sh tests/staxc_test.sh            uses ./staxc when it is new enough, else builds one with ${CC:-cc}
#     STAXC=PATH sh tests/staxc_test.sh uses that one
# Needs sh, a C compiler, and python3 with numpy for the tests that read and write .npy files.
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT INT TERM
dir="$work/it's a \"test\" \$HOME dir"
mkdir "$dir" && cd "$dir" || exit 1
STAX_CACHE_DIR="$work/cache of kernels"
export STAX_CACHE_DIR
passed=0 failed=0

good() { passed=$((passed + 1)); }
bad() {
    failed=$((failed + 1))
    echo "FAIL: $*"
}

# expect STATUS PATTERN WORDS...: runs staxc WORDS; its exit status and a line of its stdout or stderr
# (grep -E; "" for any) must fit. Leaves stdout in out, stderr in err.
expect() {
    want=$1 pattern=$2
    shift 2
    "$staxc" "$@" >out 2>err </dev/null
    got=$?
    if [ $got -ne "$want" ]; then bad "staxc $*: exit $got, expected $want: $(head -n 3 err)"
    elif [ -n "$pattern" ] && ! cat out err | grep -Eq -e "$pattern"; then bad "staxc $*: no line fits /$pattern/: $(cat out err | head -n 3)"
    elif [ $want -eq 1 ] && ! grep -q "error: " err; then bad "staxc $*: exit 1 without error: on stderr"
    else good; fi
}

# says TEXT: the last stdout is exactly this
says() {
    if [ "$(cat out)" = "$1" ]; then good; else bad "expected '$1', found '$(cat out)'"; fi
}

if [ -n "$STAXC" ]; then
    case $STAXC in /*) staxc=$STAXC ;; *) staxc=$root/$STAXC ;; esac
elif [ -x "$root/staxc" ] && [ -z "$(find "$root/stax.h" "$root/stax_cuda.h" "$root/tools/staxc.c" -newer "$root/staxc")" ]; then
    staxc=$root/staxc
else
    staxc=$work/staxc
    ${CC:-cc} -O2 -I"$root" "$root/tools/staxc.c" -o "$staxc" -lm -ldl -lpthread || exit 1
fi

# ---- the command line ----------------------------------------------------------------------------
expect 2 "usage: staxc VERB"
expect 0 "usage: staxc VERB" --help
expect 2 "unknown verb frob" frob
for verb in run print grad explain bench export save bisect tune ops chain version cache probe; do
    expect 0 "^example:  staxc $verb" $verb --help
    expect 2 "unknown option --frob" $verb --frob
    expect 2 "unknown option -x" $verb -x
done
for verb in run print explain bench save bisect tune; do expect 2 "expected a FILE" $verb; done
cat >ex.stax <<'END'
sizes n: 1..4096
graph ex(x: f32[n,3], inout s: f16[2]) {
  t = add x, 1234.5
  y: f32[n] = sum t {axes=[-1]}
  s2 = add s, 1.0
  assign s, s2
  b = gt y, 0.0
  return y, b
}
graph second(a: i32[]) { b = neg a; return b }
END
expect 2 "unexpected argument more" run ex.stax more
expect 2 "unexpected argument x" ops x
expect 2 "expected a value" run ex.stax --in
expect 2 "takes no value" run ex.stax --check=1
expect 2 "unknown option --json" run ex.stax --json
expect 2 "unknown option --check" print ex.stax --check
expect 2 "expected interpret.compile, found gpu" run ex.stax --backend=gpu
expect 2 "expected NAME=FILE.npy" run ex.stax --in x.npy
expect 2 "expected NAME=FILE.npy" run ex.stax --in =x.npy
expect 2 "expected NAME=FILE.npy" run ex.stax --out y=
expect 2 "each name once" run ex.stax --in x=a.npy --in x=b.npy
expect 2 "--threads: expected a number" run ex.stax --threads=0
expect 2 "--threads: expected a number" run ex.stax --threads=2x
expect 2 "--seed: expected a number" run ex.stax --seed=
expect 2 "--runs: expected a number" bench ex.stax --runs 0
expect 2 "--size: expected SYMBOL=NUMBER" run ex.stax --size n
expect 2 "--size: expected SYMBOL=NUMBER" run ex.stax --size n=x
expect 2 "--isa: expected" run ex.stax --isa=mmx
expect 2 "expected cpu.cuda, found gpu" run ex.stax --device=gpu
expect 2 "expected --device=cpu, found --device=cuda" run ex.stax --device=cuda --backend=interpret
expect 2 "^staxc: error: explain --device=cuda: expected --device=cpu: " explain ex.stax --device=cuda --json
for wrong in cuda. cuda.x cuda-1 cuda.12345 cudas; do
    expect 2 "^staxc: error: --device: expected cpu.cuda, found $wrong" run ex.stax --device=$wrong
done
expect 2 "^staxc: error: export --device=cuda: expected --device=cpu: " export ex.stax --name=x --device=cuda
expect 2 "--emit=dot draws graphs" print ex.stax --emit=dot --after=lower
expect 2 "expected --of=VALUE" grad ex.stax
expect 2 "expected --name" export ex.stax
expect 2 "a name of C" export ex.stax --name=1x
expect 0 "^stax [0-9]+\.[0-9]+\.[0-9]+$" version

# ---- graphs that are wrong ------------------------------------------------------------------------
expect 1 "staxc: error: none.stax: cannot read: No such file" run none.stax
expect 1 "cannot read" run .
: >empty.stax
expect 1 "empty.stax:1:1: error: " run empty.stax
printf 'graph g(x: f32[2]) {\n  y = frob x\n  return y\n}\n' >wrong.stax
expect 1 "^wrong.stax:2:7: error: .*frob" run wrong.stax
expect 1 "^wrong.stax:2:7: error: .*frob" print wrong.stax
printf 'graph g(x: f32[4], i: i64[2]) {\n  t = neg x\n  y = gather t, i\n  return y\n}\n' > range.stax
printf 'graph i() {\n  i = const i64[2] {1, 9}\n  return i\n}\n' > index.stax
expect 0 "" run index.stax --out i=index.npy
for backend in interpret compile; do
    expect 1 "^range.stax:3:7: error: gather: index 9 is out of range" run range.stax --in i=index.npy --backend=$backend
done
printf 'graph g(x: f32[2], w: f32[3]) {\n  y = add x, w\n  return y\n}\n' >wrong.stax
expect 1 "^wrong.stax:2:[0-9]+: error: .*add" explain wrong.stax
printf 'graph g(x: f32[2]) {\n y\000 = neg x\n return y\n}\n' >zero.stax
expect 1 "^zero.stax:2:3: error: .*zero byte" run zero.stax
expect 1 "none" run ex.stax --graph none
"$staxc" run - --graph=second --backend=interpret <ex.stax >out 2>err && grep -q "^b: i32\[\] = " out && good || bad "standard input: $(cat err)"
echo "graph" | "$staxc" run - >out 2>err
[ $? -eq 1 ] && grep -q "^<stdin>:[0-9]*:[0-9]*: error: " err && good || bad "a wrong graph on standard input"

# ---- sizes and seeds ------------------------------------------------------------------------------
expect 0 "^y: f32\[16\] = " run ex.stax
cp out first
expect 0 "" run ex.stax --backend=interpret
cmp -s out first && good || bad "the backends print other values"
expect 0 "" run ex.stax --seed=1
expect 2 "--scale: expected a number" run ex.stax --scale=9
cat >scaled.stax <<'END'
graph scaled(param w: f32[4], x: f32[4]) { y = mul w, 8.0; z = add x, 0.0; return y, z }
END
expect 0 "" run scaled.stax --scale=3
cp out scaled
cat >plain.stax <<'END'
graph scaled(param w: f32[4], x: f32[4]) { y = mul w, 1.0; z = add x, 0.0; return y, z }
END
expect 0 "" run plain.stax
cmp -s out scaled && good || bad "--scale=3 does not divide params, and params alone, by 8"
cmp -s out first && bad "seeds 0 and 1 give the same values" || good
expect 0 "^y: f32\[3\] = " run ex.stax --size n=3 --check --threads=2
expect 0 "" run ex.stax --check --strict
expect 0 "" run ex.stax --check --isa=scalar
expect 1 "size n: expected 1..4096, found 5000" run ex.stax --size n=5000
expect 1 "no size symbol m" run ex.stax --size m=3
expect 1 "no input of that name" run ex.stax --in q=q.npy
expect 1 "it has x s" run ex.stax --in q=q.npy
expect 1 "no output of that name" run ex.stax --out x=x.npy
expect 1 "cannot write" run ex.stax --out y=no/such/dir/y.npy
if [ -c /dev/full ]; then
    expect 1 "cannot write" run ex.stax --out y=/dev/full
    "$staxc" run ex.stax >/dev/full 2>err
    [ $? -eq 1 ] && grep -q "cannot write to standard output" err && good || bad "a full disk at standard output"
fi

# ---- the toolchain --------------------------------------------------------------------------------
(
    STAX_CC=/no/such/cc STAX_CACHE_DIR=$work/other
    export STAX_CC STAX_CACHE_DIR
    "$staxc" run ex.stax >out 2>err
    [ $? -eq 0 ] && grep -q "note: interpreted, not compiled" err && cmp -s out first || echo "FAIL: no compiler: $(cat err)"
    "$staxc" run ex.stax --strict >out 2>err
    [ $? -eq 3 ] && [ -s err ] || echo "FAIL: no compiler, strict: $(cat err)"
    "$staxc" run ex.stax --check >out 2>err
    [ $? -eq 3 ] || echo "FAIL: no compiler, --check compares the interpreter with itself"
    "$staxc" bench ex.stax >out 2>err
    [ $? -eq 3 ] || echo "FAIL: no compiler, bench measures the interpreter"
) >sub
if [ -s sub ]; then bad "$(cat sub)"; else good; fi
# a compiler that compiles something else: --check must see it
cat >"$work/liar" <<'END'
#!/bin/sh
for word; do
    case $word in *.c) sed -e 's/1234\.5/1235.5/g' -e 's/0x1\.34ap+10/0x1.34ep+10/g' "$word" >"$word.new" && mv "$word.new" "$word" ;; esac
done
exec cc "$@"
END
chmod +x "$work/liar"
STAX_CC=$work/liar STAX_CACHE_DIR=$work/third "$staxc" run ex.stax --check >out 2>err
[ $? -eq 4 ] && grep -q "error: --check: y\[0\] differs: interpreted .*, compiled " err && good || bad "--check does not see a difference: $(cat err)"
expect 0 "^entries  [1-9]" cache
expect 0 "^entries  0$" cache --clear
grep -q "^path     $STAX_CACHE_DIR" out && good || bad "cache: $(cat out)"

# ---- print, explain, grad, export, ops --------------------------------------------------------------
expect 0 "^graph ex" print ex.stax
cp out printed.stax
expect 0 "" print printed.stax
cmp -s out printed.stax && good || bad "print of print is another text"
expect 0 "assign s, s2" print ex.stax --after=parse --emit=text
expect 0 "^graph second" print ex.stax --graph=second
expect 0 "expand" print ex.stax --after=rewrite
expect 0 "^digraph" print ex.stax --emit=dot
expect 0 "^digraph" print ex.stax --after=rewrite --emit=dot
printf 'graph g(x: f32[4]) {\n  a = neg x\n  b = neg a\n  c = mul 1, b\n  return c\n}\n' >rules.stax
expect 0 "^# rewrite: rules.stax:3:7: algebra.neg_neg: b = neg a => %[0-9]+ = quiet x: f32\[4\]$" print rules.stax --after=rewrite --trace
expect 0 "^# fired: .*algebra.neg_neg 1" print rules.stax --after=rewrite --trace
cp out traced.stax
expect 0 "^graph g" print traced.stax
expect 0 "^  c: f32.4. = quiet x$" print rules.stax --after=rewrite
expect 2 "trace shows rewriting: expected --after=rewrite, found --after=parse" print rules.stax --trace
printf 'graph g(x: f32[4]) {\n  y = softmax x {axis=0}; z = silu y; return z\n}\n' >own.stax
expect 0 "softmax x {axis=0}" print own.stax --after=rewrite --own=softmax
expect 0 "silu" print own.stax --after=rewrite --own=softmax,silu
expect 1 "own: there is no op \"sofmax\": expected names of ops" print own.stax --after=rewrite --own=sofmax
expect 0 "^order as built: [0-9]* bytes" print "$root/examples/nets/mlp.stax" --emit=plan --svg=plan.svg
if grep -q '^<svg ' plan.svg && tail -n 1 plan.svg | grep -q '^</svg>$'; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "FAIL no picture in plan.svg"
fi
expect 1 "no/plan.svg: cannot write" print "$root/examples/nets/mlp.stax" --emit=plan --svg=no/plan.svg
expect 2 "svg: expected --emit=plan, found --emit=text" print own.stax --svg=plan.svg
expect 2 "own: expected --after=rewrite, found --after=parse" print own.stax --own=softmax
expect 0 "each firing of a rule" print --help
printf 'graph g() {signed_zeros=false} {\n  c = const f32[2] {-0.0, 1.0}\n  b = barrier c\n  y = add b, 0.0\n  return y\n}\n' >zeros.stax
expect 0 "note: --check: 1 zeros differ in sign, which signed_zeros=false allows" run zeros.stax --check
for what in --after=lower --after=schedule --emit=loops --emit=plan --emit=c; do expect 0 "." print ex.stax $what; done
"$staxc" print ex.stax --after=schedule >own.schedule
"$staxc" print ex.stax --emit=c >own.c
expect 0 "^schedule ex .$" print ex.stax --after=schedule --schedule=own.schedule
if cmp -s out own.schedule; then good; else bad "a printed schedule reads back as another one"; fi
expect 0 "" print ex.stax --emit=c --schedule=own.schedule
if cmp -s out own.c; then good; else bad "a printed schedule gives other C"; fi
printf 'graph two(x: f32[30,40]) {\n  y = exp x\n  return y\n}\n' >two.stax
printf 'schedule two {\n  tile s1, i1, i2 {by=[4,16]}\n  vectorize s1, i2_in\n}\n' >two.schedule
expect 0 "" run two.stax --check --schedule=two.schedule
expect 0 "vector i[0-9]+ in 0..min.16, " print two.stax --emit=loops --schedule two.schedule
expect 0 "^kernel 0: exp$" explain two.stax --schedule=two.schedule
expect 0 "" export two.stax --name=two --dir=. --schedule=two.schedule
expect 0 '"kernels": 1' bench two.stax --runs=6 --json --schedule=two.schedule --vs=interpret
printf 'schedule two {\n  vectorize s1, i1\n}\n' >wrong.schedule
expect 1 "^wrong.schedule:2:3: error: vectorize s1, i1: lanes run along rows of at most 16 elements, with nothing else said of them$" run two.stax --schedule=wrong.schedule
expect 1 "^own.schedule: error: schedule ex: there is no such graph" run two.stax --schedule=own.schedule
expect 1 "two.stax:1:1: error: syntax: expected schedule, found 'graph'" run two.stax --schedule=two.stax
expect 1 "no.schedule: cannot read" run two.stax --schedule=no.schedule

# ---- what becomes of values with several readers -----------------------------------------------------
cat >readers.stax <<'END'
graph readers(x: f32[64,32]) {
  a = mul x, 2.0
  e = exp x
  s = sum a {axes=[1]}
  m = max a {axes=[0]}
  t = sum e {axes=[1]}
  u = max e {axes=[0]}
  return s, m, t, u
}
END
for rule in cost measured thresholds keep redo; do expect 0 "" run readers.stax --check --realize=$rule; done
expect 2 "--realize: expected cost.measured.thresholds.keep.redo, found sometimes" run readers.stax --realize=sometimes
expect 0 "^recomputed: mul, 2 readers: .*keeping it [0-9]+ ns, recomputing it [0-9]+ ns" explain readers.stax --realize=cost
expect 0 "^kept: s[0-9]+ .exp., 2 readers: .*keeping it [0-9]+ ns, recomputing it [0-9]+ ns" explain readers.stax
expect 0 "^(kept|recomputed): .*exp.*, 2 readers: .*keeping it " explain readers.stax --realize=measured
expect 0 "^kept: s[0-9]+ .exp., 2 readers: threshold: " explain readers.stax --realize=thresholds
expect 0 "^kept: s[0-9]+ .mul., 2 readers: the rule for all values" explain readers.stax --realize=keep
expect 0 "^recomputed: exp, 2 readers: the rule for all values" explain readers.stax --realize=redo
expect 0 "^vectorize stage, loop: " ops --primitives
printf 'graph g(x: f64[2,3], w: f64[3]) {\n  h = dot x, w {lhs_contract=[1], rhs_contract=[0]}\n  s = square h\n  y = sum s\n  return y\n}\n' >loss.stax
expect 2 "expected --of=VALUE and --wrt=NAME,NAME" print loss.stax --after=grad
expect 0 "^  d_w: f64\[3\] = " grad loss.stax --of=y --wrt=w
expect 0 "^  return y, d_w, d_x$" print loss.stax --after=grad --of=y --wrt=w,x
expect 0 "^digraph" print loss.stax --after=grad --of=y --wrt=w --emit=dot
expect 0 "^  return y, d_w, d_x$" grad loss.stax --of=y --wrt=w,x --order=2
expect 0 "^  return y, d_w$" grad loss.stax --of=y --wrt=w --mode=forward
expect 1 "stax_grad: the loss: expected a scalar, found f64.2." grad loss.stax --of=h --wrt=w
expect 0 "^value and gradients  *[0-9]* " grad loss.stax --of=y --wrt=w,x --cost
expect 0 "^ratio  *[1-5]\.[0-9]* " grad loss.stax --of=y --wrt=w,x --cost
expect 2 "expected --after=grad, found --after=parse" print loss.stax --of=y
for how in "" --order=2 "--mode=forward"; do # the printed graph reads back, and both backends agree
    "$staxc" grad loss.stax --of=y --wrt=w,x $how >grads.stax 2>err && expect 0 "^d_x: f64" run grads.stax --check
done
expect 1 "no input q" grad ex.stax --of=y --wrt=q
expect 0 "." explain ex.stax
cat >gelu.stax <<'END'
graph g(x: f32[64,32], w: f32[32,32]) { h = matmul x, w; y = gelu h; q = mul y, y; s = sum q; return s }
END
expect 0 "^saved: 1 value, 8192 bytes; were all saved that backward reads: 2 values, 16384 bytes$" explain gelu.stax --of=s --wrt=x,w
expect 0 "^  8192 bytes  h: f32.64,32. = dot  .gelu.stax:1:" explain gelu.stax --of=s --wrt=x,w
expect 0 "^  [0-9]+ operations  y: f32.64,32. = gelu" explain gelu.stax --of=s --wrt=x,w --budget=8192
expect 0 "^backward program:$" explain gelu.stax --of=s --wrt=x,w
expect 0 "^computed again: 0 values, 0 scalar operations$" explain gelu.stax --of=s --wrt=x,w --save-all
expect 0 '"saved_bytes": 8192, .*"forward"|^, "backward": ' explain gelu.stax --of=s --wrt=x,w --json
expect 1 "the budget is 8191 bytes, and the least that can be saved is 8192 bytes" explain gelu.stax --of=s --wrt=x,w --budget=8191
expect 2 "expected --of and --wrt, or --forward" explain gelu.stax --budget=3
expect 2 "expected --of=VALUE and --wrt=NAME,NAME" explain gelu.stax --of=s
expect 2 "expected no --of and --wrt" explain gelu.stax --of=s --wrt=x --forward=1
expect 1 "n_forward: the graph has 1 outputs: expected 0 to 0" explain gelu.stax --forward=1
"$staxc" grad gelu.stax --of=s --wrt=x,w >joint.stax
expect 0 "^saved: 1 value, 8192 bytes" explain joint.stax --forward=1
expect 2 "chain: expected --steps=N" chain
expect 2 "expected --slots=S" chain --steps=5 --kind=uniform
expect 1 "uniform reversal of 100 steps needs at least 19, found 18" chain --steps=100 --slots=18 --kind=uniform
expect 0 "^evaluations: 7$" chain --steps=6 --slots=3
expect 0 "^restore x0 from slot 0$" chain --steps=6 --slots=3
expect 0 "^      2     44         1954$" chain --steps=1000
expect 0 "^      4     10 " chain --steps=1000
cat >model.stax <<'END'
sizes n: 1..65536
graph model(x: f32[n,2048], w: f32[n,2048]) { a = add x, w; b = relu a; c = mul b, 2.0; y = sum c {axes=[-1]}; return y }
END
expect 0 "^  bytes = n\*16388; allocates n\*4; FLOPs = n\*8192; intensity = \(n\*8192\) / \(n\*16388\)$" explain model.stax
expect 0 "^op by op 536903680 bytes, rho 4\.0; with write-allocate 738263040 / 134283264, rho 5\.5$" explain model.stax --size n=8192
expect 0 "^at n = 8192$" explain model.stax --size n=8192
expect 0 "predicted .* bound by .* \(1 thread\)" explain model.stax
expect 1 "size n: expected 1\.\.65536, found 0" explain model.stax --size n=0
printf 'graph g(a: f32[512,64], b: f32[64,128]) { c = matmul a, b; return c }\n' >product.stax
expect 0 "1 contraction of 512 x 128 x 64" explain product.stax
expect 0 "into L1 at least [0-9]+ bytes \(T 9\.1\); in tiles of [0-9]+ that fit it, [0-9]+, [0-9.]+ times that" explain product.stax
expect 0 "^relu" ops
grep -q "^softmax.*axis" out && good || bad "ops: softmax has no axis"
expect 0 "^i8   f64  f32  f16  bf16 i64" ops --promotion
mkdir "out dir"
cat >net.stax <<'END'
graph net(x: f32[4,3], param w: f32[3]) { y = mul x, w; return y }
END
expect 1 "" export net.stax --name=net --dir="out dir"
expect 0 "" export net.stax --name=net --dir="out dir" --seed=1
[ -s "out dir/net.c" ] && [ -s "out dir/net.h" ] && ${CC:-cc} -c "out dir/net.c" -o net.o && good || bad "the exported files"
expect 1 "" export net.stax --name=net --dir=no/such/dir --seed=1
expect 1 "no input of that name" export net.stax --name=net --in q=q.npy

# ---- bench ------------------------------------------------------------------------------------------
expect 0 "95 % interval" bench ex.stax
grep -q "measuring what this machine can do with 1 thread" err && expect 0 "." bench ex.stax --runs=1
grep -q "measuring" err && bad "the machine is measured again: $(cat err)" || good
expect 0 "^  round 2: .* ms, 95 % interval" bench ex.stax
expect 0 "^  kernel 0 \(.*\): .* ms, predicted .* GB/s, .* with write-allocate" bench ex.stax
expect 0 "75 % interval" bench ex.stax --runs=3
expect 0 "= rho .*\(bandwidths" bench model.stax --size n=16 --vs=op-by-op
expect 0 "decided: " bench ex.stax --vs=interpret --rounds=1
expect 0 "not decided: fewer than 6 readings" bench ex.stax --vs=interpret --runs=5
expect 2 "--rounds: expected a number" bench ex.stax --rounds 0
cat >trips.stax <<'END'
graph trips(x: f32[100]) { n = const i64[] {3}; y = loop n, x { body(i: i64[], a: f32[100]) { b = exp a; return b } }; return y }
END
expect 0 "kernel 0 .*, 3 times: " bench trips.stax --runs=3
expect 0 '"bytes": 2400, ' bench trips.stax --runs=3 --json
expect 0 "^  memory .*shared$" probe --threads=1
expect 0 '"threads": 1, "measured": true, "flops": ' probe --threads=1 --json
expect 2 "--threads: expected a number" probe --threads=0
expect 0 "by measured figures" explain ex.stax
expect 0 "ratio" bench ex.stax --vs=interpret --runs=7
expect 0 "ratio" bench ex.stax --vs=op-by-op --runs=7
expect 0 "ratio" bench ex.stax --vs=printed.stax --runs=7 --size n=100 --threads=2
expect 1 "cannot read" bench ex.stax --vs=none.stax
expect 1 "no input of that name" bench ex.stax --in q=q.npy

# what is too large to be exported and for small machines
for file in "$root"/tests/corpus/large/*.stax; do expect 0 ": [a-z0-9]*" run "$file" --check --seed=1; done

# ---- CUDA -------------------------------------------------------------------------------------------
# its text: without a device and without NVRTC, the same each time; a graph without results has no kernels
with_kernels=0
for file in "$root"/tests/corpus/good/*.stax "$root"/tests/corpus/large/*.stax; do
    "$staxc" print "$file" --emit=cuda >out 2>err
    status=$?
    "$staxc" print "$file" --emit=cuda >again 2>&1
    grep -q '__global__ void .*stax_kernel_0(' out && with_kernels=$((with_kernels + 1))
    if [ $status -eq 0 ] && grep -Eq 'typedef struct sx_args|^/. ---- piece' out && cmp -s out again; then good
    else bad "print $file --emit=cuda: exit $status: $(head -n 3 err)"; fi
done
[ $with_kernels -ge 15 ] && good || bad "only $with_kernels graphs of the corpus have CUDA kernels"
expect 0 "struct sx_fold_0_" print ex.stax --emit=cuda
cat >softmax.stax <<'END'
graph g(x: f32[8,8192]) { y = softmax x; return y }
END
expect 0 "__shared__" print softmax.stax --emit=cuda
# exercise 23: rows that registers hold are read once, longer ones by each of their reductions
printf 'graph g(x: f32[600,8192], y: f32[600,40000]) {\n  s = softmax x\n  t = softmax y\n  return s, t\n}\n' >reads.stax
expect 0 "reads of a row from memory: x 1\$" explain reads.stax --device=cuda
expect 0 "reads of a row from memory: y 2, b[0-9]+ 1\$" explain reads.stax --device=cuda
expect 0 "^[0-9]+ kernels?\$" explain ex.stax --device=cuda
printf 'graph g(x: i32[50], i: i64[999], u: i32[999]) {\n  y = scatter x, i, u {axis=0,mode="add"}\n  return y\n}\n' >atomic.stax
expect 0 "^host: scatter" explain atomic.stax --device=cuda
expect 0 "an update, atomic: floats are added in any order" explain atomic.stax --device=cuda --atomics
# no driver, no device or no NVRTC: what was looked for
"$staxc" run ex.stax --device=cuda >out 2>err
case $? in
3) grep -Eq "^staxc: error: --device=cuda: .*(looked for .*lib(cuda|nvrtc)\.so|cuInit)" err && good || bad "run without CUDA: $(cat err)" ;;
0) echo "skip: there is a GPU: not tested that run says what is missing" ;;
*) bad "run --device=cuda: $(cat err)" ;;
esac
# what happens around kernels, with a driver whose kernels do nothing: all outputs are zeros. Where there is a C++
# compiler that driver runs them, threads as fibers: then the bits count.
if [ "$(uname)" = Linux ] && mkdir fake && ${CC:-cc} -shared -fPIC -x c "$root/tests/cuda_fake.inc" -o fake/libcuda.so.1 -ldl -lpthread; then
    cat >strides.stax <<'END'
graph z(x: f32[4,6] strides [1,-5], inout s: f32[3] strides [2], param w: f16[2]) {
  y = sub x, x
  t = mul s, 0.0
  assign s, t
  return y
}
END
    old_path=$LD_LIBRARY_PATH
    LD_LIBRARY_PATH=$PWD/fake${old_path:+:$old_path} STAX_NVRTC=$PWD/fake/libcuda.so.1
    export LD_LIBRARY_PATH STAX_NVRTC
    expect 0 "^y: f32\[16\] = \[0.0, 0.0" run ex.stax --device=cuda
    expect 0 "^y: f32\[16\] = \[0.0, 0.0" run ex.stax --device=cuda.0
    expect 3 "^staxc: error: --device=cuda.1: there is no CUDA device 1: expected 0 to 0" run ex.stax --device=cuda.1
    (FAKE_DEVICES=2 && export FAKE_DEVICES && "$staxc" run ex.stax --device=cuda:1 >out 2>err) && good || bad "the second device: $(cat err)"
    expect 4 "error: --check: y\[0\] differs: interpreted .*, compiled 0.0 \(0x0\)" run ex.stax --device=cuda --check
    expect 4 "error: --check: s\[0\] differs" run strides.stax --device=cuda --check
    expect 0 "95 % interval" bench ex.stax --device=cuda
    grep -q "on Fake device, sm_90" out && good || bad "bench does not name the device: $(cat out)"
    expect 0 "75 % interval" bench strides.stax --device=cuda --runs=3
    for vs in interpret op-by-op printed.stax; do expect 0 "^ratio: $vs" bench ex.stax --device=cuda --vs=$vs --runs=3; done
    expect 0 '"isa": "sm_90".*"device": "Fake device, sm_90".*"ratio": ' bench ex.stax --device=cuda --vs=interpret --runs=3 --json
    if command -v ${CXX:-g++} >out 2>&1; then
        FAKE_CXX=${CXX:-g++}
        export FAKE_CXX
        cat >kernels.stax <<'END'
sizes n: 1..6000
graph kernels(x: f32[3,8192], u: f32[2,1000], v: f64[2,900], w: f32[8192], t: bf16[n,5], i: i64[4], inout s: f32[4]) {
  held = softmax x
  norm = layer_norm x, w
  tail = log_softmax u
  lanes = softmax v
  swapped = flip held {axes=[1]}
  again = sum swapped {axes=[1], keepdims=true}
  shared = sub swapped, again
  columns = sum t {axes=[0]}
  all = prod u
  best = argmax x {axis=1}
  taken = gather u, i {axis=0, mode="wrap"}
  s2 = add s, 1.0
  assign s, s2
  return held, norm, tail, lanes, shared, columns, all, best, taken
}
END
        expect 0 "^held: f32\[3,8192\]" run kernels.stax --device=cuda --check --size n=4500
        cat >running.stax <<'END'
graph running(x: f32[3,9000], y: f64[2,7000], z: i32[5,33], h: bf16[4,100], c: f32[300,7], e: f32[5000]) {
  a = cumsum x {axis=1}
  b = cumprod y {axis=1, exclusive=true, reverse=true}
  d = cummax z {axis=1}
  f = cumsum h {axis=1}
  g = cumsum c {axis=0}
  i = cumsum e {exclusive=true}
  s = sin i
  t = logcumsumexp x {axis=1, exclusive=true}
  w = cumsum z {axis=1, reverse=true}
  return a, b, d, f, g, s, t, w
}
END
        # values that quick chunks take again, and steps of the host
        cat >rare.stax <<'END'
graph rare(x: f32[3,8192], v: f32[9,2100], i: i64[3], u: f32[3,2100]) {
  far = mul x, 80.0
  s = softmax far
  e = exp far
  t = sum e {axes=[1]}
  b = gt v, 0.0
  gone = sub -inf, 0.0
  masked = where b, v, gone
  m = softmax masked
  z = mul v, 0.0
  n = sum z {axes=[1], keepdims=true}
  q = div v, n
  p = sum q {axes=[1]}
  a = argmax q {axis=1}
  j = remainder i, 9
  c = scatter v, j, u {axis=0, mode="add"}
  d, k = topk c {k=3}
  w = argsort d {axis=0}
  y = sin w
  l = loop 3, d { body(o, g) { h = mul g, 0.5; return h } }
  return s, t, m, p, a, k, y, l
}
END
        for how in "" --reduce-overhead; do expect 0 "^y: f32\[9,3\]" run rare.stax --device=cuda --check $how; done
        cat >beside.stax <<'END'
graph beside(x: f32[7,512], y: f32[5,3000], z: f64[3,9001], i: i32[4,100]) {
  s = softmax x
  a = argmax x {axis=1}
  b = argmin y {axis=1}
  t = sum y {axes=[1]}
  m = max z {axes=[1]}
  c = argmax z {axis=1}
  d = argmax i {axis=1}
  e = sum i {axes=[1]}
  return s, a, b, t, m, c, d, e
}
END
        expect 0 "^a: i64\[7\]" run beside.stax --device=cuda --check
        # the tuner: with a record, and with a candidate that is fast and wrong
        cat >tune.stax <<'END'
graph tune(x: f32[70,64], w: f32[64,80], v: f32[3,5000], inout s: f32[4]) {
  y = matmul x, w
  a = argmax v {axis=1}
  s2 = add s, 1.0
  assign s, s2
  return y, a
}
END
        expect 0 "  tuned: [0-9]+ measured, 0 refused, " bench tune.stax --device=cuda --tune --runs=3
        expect 0 "  tuned before" bench tune.stax --device=cuda --tune --runs=3
        expect 0 "  tuned before" bench tune.stax --device=cuda --tune --reduce-overhead --runs=3
        sed 's/x: f32.70/x: f32[69/' tune.stax >tune_wrong.stax
        (FAKE_WRONG='xs[2][16][68]' && export FAKE_WRONG && "$staxc" bench tune_wrong.stax --device=cuda --tune --runs=3 >out 2>err &&
            grep -Eq ' [1-9][0-9]* refused' out && "$staxc" run tune_wrong.stax --device=cuda --tune --check >out 2>err) && good ||
            bad "a wrong candidate: $(cat out err)"
        expect 0 "  not tuned: there is nothing to choose" bench strides.stax --device=cuda --tune --runs=3
        sed 's/ w: f32/ param w: f32/; s/x: f32.70/x: f32[71/' tune.stax >tune_param.stax
        expect 0 "  tuned: [0-9]+ measured, 0 refused, " bench tune_param.stax --device=cuda --tune --runs=3
        for how in "" --reduce-overhead; do expect 0 "^y: f32" run tune_param.stax --device=cuda --tune --check $how; done
        expect 0 "^y: i32\[50\]" run atomic.stax --device=cuda --atomics --check
        expect 0 "  not tuned: the host has steps" bench "$root/tests/corpus/good/while_gradients.stax" --device=cuda --tune --runs=3
        for file in regions welford topk_ties custom_call while_gradients; do
            for how in "" --reduce-overhead; do
                expect 0 ":" run "$root/tests/corpus/good/$file.stax" --device=cuda --check --seed=1 $how
            done
        done
        for how in "" --reduce-overhead; do expect 0 "^w: i64\[5,33\]" run running.stax --device=cuda --check $how; done
        expect 0 "^k: f64" run "$root/tests/corpus/good/transposes_computed.stax" --device=cuda --check
        for sizes in "n=33 --size k=17" "n=70 --size k=4100" "n=5 --size k=0"; do
            expect 0 "^loops: f32" run "$root/tests/corpus/large/contraction_tiles.stax" --device=cuda --check --size $sizes
        done
        # inputs of few bits: sums are exact in any order
        cat >tensor.stax <<'END'
graph tensor(a: bf16[200,136], b: bf16[136,152], bt: bf16[152,136], at: bf16[136,200], h: f16[130,70], o: f16[70,66], c: bf16[152]) {
  m1 = matmul a, b
  b2 = transpose bt
  m2 = matmul a, b2
  a2 = transpose at
  m3 = matmul a2, b
  m4 = matmul h, o
  m5 = matmul a2, b2
  s = add m5, c
  y = relu s
  return m1, m2, m3, m4, y
}
END
        expect 0 "^m4: f16\[130,66\]" run tensor.stax --device=cuda --tensor-cores --check
        (STAX_CUDA_MMA=1 && export STAX_CUDA_MMA && "$staxc" run tensor.stax --device=cuda --tensor-cores --check >out 2>err) && good || bad "by mma.sync: $(cat err)"
        cat >tf32.stax <<'END'
graph tf32(i: i8[200,136], j: i8[136,152], k: i8[9,300]) {
  a = cast i {dtype=f32}
  b = cast j {dtype=f32}
  c = cast k {dtype=f32}
  m = matmul a, b
  d = transpose c
  n = matmul d, c
  y = sin n
  return m, y
}
END
        expect 0 "^y: f32\[300,300\]" run tf32.stax --device=cuda --tf32 --check
        expect 0 "sx_mma_tf32.d" print tf32.stax --emit=cuda --tf32
        (FAKE_NO_MAPS=1 && export FAKE_NO_MAPS && "$staxc" run tensor.stax --device=cuda --tensor-cores --check >out 2>err) && good || bad "without the copy engine: $(cat err)"
        cat >skinny.stax <<'END'
graph skinny(a: f16[2,16,2100], b: f16[2,2100,72], c: f16[72], d: bf16[3,16,1024], e: bf16[1024,66]) {
  m = matmul a, b
  y = add m, c
  z = matmul d, e
  return y, z
}
END
        expect 0 "^z: bf16\[3,16,66\]" run skinny.stax --device=cuda --tensor-cores --check
        expect 0 "sx_digit.&rest, 2., batch = rest" print skinny.stax --emit=cuda --tensor-cores
        expect 0 "m64n64k16.f32.f16.f16" print tensor.stax --emit=cuda --tensor-cores
        expect 0 "^s: f16\[2\]" run ex.stax --device=cuda --check
        # calls through the interface: indices, copies, replayed calls and their results, two devices
        case ${BUILD:=build} in /*) on_device=$BUILD/tests/cuda_device ;; *) on_device=$root/$BUILD/tests/cuda_device ;; esac
        if [ -x "$on_device" ]; then
            for lazy in "" 1; do
                (FAKE_DEVICES=2 && export FAKE_DEVICES && if [ "$lazy" ]; then FAKE_LAZY=1 && export FAKE_LAZY; fi &&
                    "$on_device" --count=2 --tables=0 --tensor=0 --times=0 --jobs=1 >out 2>err) &&
                    grep -q "^devices: 2 " out && good || bad "cuda_device without a GPU${lazy:+, late}: $(cat out err)"
            done
        else
            echo "skip: $on_device is not built: the calls of tests/cuda_device.c are not tested without a GPU"
        fi
        unset FAKE_CXX
    else
        echo "skip: no C++ compiler: the bits of CUDA kernels are not tested without a GPU"
    fi
    STAX_NVRTC=/no/such/nvrtc
    FAKE_DEVICES=0
    export FAKE_DEVICES
    expect 3 "^staxc: error: --device=cuda: .*there is no device" run ex.stax --device=cuda
    LD_LIBRARY_PATH=$old_path
    unset FAKE_DEVICES STAX_NVRTC
else
    echo "skip: no shared library was built: the calls of CUDA around kernels are not tested"
fi

# ---- saved programs -----------------------------------------------------------------------------------
cat >net.stax <<'END'
sizes n: 1..64
graph net(x: f32[n,6], param w: f32[3,6]) { y = linear x, w; z = softmax y; return z }
END
expect 0 "" save net.stax -o net.staxp --seed=0
expect 0 "^z: f32\[16,3\]" run net.stax
cp out of-graph
expect 0 "^z: f32\[16,3\]" run net.staxp
says "$(cat of-graph)"
STAX_CC=/nonexistent/cc STAX_CACHE_DIR="$work/fresh" expect 0 "^z: f32\[16,3\]" run net.staxp
says "$(cat of-graph)"
expect 0 "" save net.stax --to=unbound.staxp
expect 0 "" run unbound.staxp
says "$(cat of-graph)"
expect 2 "expected --to=FILE.staxp" save net.stax
expect 1 "none/x.staxp" save net.stax -o none/x.staxp
expect 2 "a saved program has no graph" run net.staxp --check
STAX_CC=/nonexistent/cc expect 3 "cannot be used" save net.stax -o none.staxp
head -c 2000 net.staxp >cut.staxp
expect 1 "cut short" run cut.staxp

# ---- several compilers at a time ------------------------------------------------------------------------
expect 0 "" run net.stax --processes=3 --check
says "$(cat of-graph)"
expect 2 "processes" run net.stax --processes=0

# ---- bisect ---------------------------------------------------------------------------------------------
cat >wrong.stax <<'END'
graph wrong(x: f32[4,6], w: f32[3,6]) { a = mul x, 1.0; y = linear a, w; z = add y, 0.5; s = sum z; t = mul s, 2.0; return z, t }
END
expect 0 "^every layer gives the same bits" bisect wrong.stax
expect 0 "^every layer gives the same numbers" bisect wrong.stax --bounds --threads=2
expect 0 "^every layer gives the same bits" bisect wrong.stax --forward=1
expect 4 "^layer: eager" bisect wrong.stax --fault=capture=wrong
expect 4 "^pass:  decompose" bisect wrong.stax --fault=decompose=wrong
expect 4 "^pass:  algebra.mul_one, firing 1 of " bisect wrong.stax --fault=mul_one=wrong
expect 4 "^pass:  partition" bisect wrong.stax --fault=partition=wrong --forward=1
expect 4 "^pass:  lower" bisect wrong.stax --fault=lower=wrong
expect 4 "^pass:  threads" bisect wrong.stax --fault=threads=wrong --threads=2
expect 4 "^fails: .*schedule" bisect wrong.stax --fault=schedule
expect 2 "forward" bisect wrong.stax --forward=7

# ---- tune -----------------------------------------------------------------------------------------------
cat >tuned.stax <<'END'
graph tuned(x: f32[96,96], w: f32[96,96]) { y = matmul x, w; return y }
END
cat >slow.schedule <<'END'
schedule tuned {
  compute_root s1
  vectorize s1, i2
  tensorize s1 {by=[2,16]}
}
END
expect 0 "schedule tuned" print tuned.stax --after=schedule
if grep -q tensorize out; then # the C compiler has vectors: a schedule of two rows is beaten
    expect 0 "^# [1-9][0-9.]* times as fast: a call takes [0-9.]+ us, took" tune tuned.stax --schedule=slow.schedule --seconds=8
    cp out found.schedule
    expect 0 "^y: f32" run tuned.stax --schedule=found.schedule --check
    expect 0 "^# found before" tune tuned.stax --schedule=slow.schedule
    grep -v '^#' found.schedule >first
    if grep -v '^#' out | cmp -s - first; then good; else bad "tune: another schedule than before: $(cat out)"; fi
    expect 0 "^# [1-9][0-9]* candidates, [0-9]+ of them refused" tune tuned.stax --seconds=1 --again
fi
expect 2 "seconds" tune tuned.stax --seconds=0
sed 's/s1/s9/' slow.schedule >no.schedule
expect 1 "no.schedule:4:3: error: tensorize s9" tune tuned.stax --schedule=no.schedule

# ---- .npy files ---------------------------------------------------------------------------------------
if ! python3 -c "import numpy" 2>/dev/null; then
    echo "skip: python3 with numpy is not there: the tests of .npy files and JSON are left out"
else
    python3 "$root/tests/staxc_npy_test.py" "$staxc" >sub 2>&1
    line=$(tail -n 1 sub)
    case $line in
    *" passed, "*" failed")
        line=${line#*: } passed=$((passed + ${line%% *}))
        line=${line#*, } failed=$((failed + ${line%% *}))
        grep -v " passed, " sub ;;
    *) bad "staxc_npy_test.py: $(tail -n 5 sub)" ;;
    esac
fi

echo "staxc_test: $passed passed, $failed failed"
[ $failed -eq 0 ]
