#!/bin/sh
# What kernels look like where their speed hangs on it: loops cut where guards change, windows written out, rows
# gathered in lanes, as many accumulators as a reduction has elements, columns fetched ahead.
. tests/script.inc
# kernels GRAPH: their text, in $work/c
kernels() {
    echo "graph g($1" >"$work/g.stax"
    "$staxc" print "$work/g.stax" --emit=c 2>"$work/err" | sed -n '/^static void sx_\(kernel\|tiles\)/,/^}/p' >"$work/c"
    [ -s "$work/c" ] || bad "$1: no kernel: $(cat "$work/err")"
}
has() { if grep -q -e "$2" "$work/c"; then good; else bad "$1: no $2"; fi; }
lacks() { if grep -q -e "$2" "$work/c"; then bad "$1: has $2"; else good; fi; }
count() { n=$(grep -c -e "$3" "$work/c"); if [ "$n" -eq "$2" ]; then good; else bad "$1: $n times $3, expected $2"; fi; }

kernels 'x: f32[64,2048], w: f32[64,1024]) { y = concat x, w, x {axis=1}; return y }'
lacks concat 'if (i'
count concat 3 'sx_store.*sx_\|sx_storef(b3'
kernels 'x: f32[64,1000], w: f32[64,24]) { y = concat x, w {axis=1}; z = exp y; return z }'
has 'concat of sizes that are no whole lanes' 'sx_loadpf(b1'
has 'concat of sizes that are no whole lanes' 'sxv_exp_f32'
kernels 'x: f32[64,126]) { y = pad x {low=[0,1], high=[0,1]}; return y }'
has pad 'SX_W <= 96; '
count pad 2 'sx_loadrf('
kernels 'x: f32[2,3,64,64]) { y = max_pool x {size=[3,3], stride=[2,2], padding=[[1,1],[1,1]]}; return y }'
has 'max pool' 'sx_twosf('
lacks 'max pool' 'int64_t end = 9'
kernels 'x: f32[2,3,64,64]) { y = max_pool x {size=[5,5]}; return y }'
has 'a pool of 25 is a reduction' 'int64_t end = 25'
kernels 'x: f32[500,64], i: i32[90]) { y = gather x, i {axis=0}; return y }'
has gather 'sx_loadf(b1'
has gather 'const int64_t v'
kernels 'x: f32[90,5000]) { y = argmax x {axis=1}; return y }'
has argmax 'sxv_maximum_f32(a1'
has argmax 'sx_any32(sx_eq32(x'
kernels 'x: f32[9,10]) { y = sum x {axes=[1]}; return y }'
has 'a sum of ten' 'a1\[16 / SX_W\]'
lacks 'a sum of ten' 'k += 64'
kernels 'x: f32[90,10]) { y = softmax x; i = argmax x {axis=1}; return y, i }'
count 'short rows in lanes' 4 'sx_turn_f32_few('
has 'short rows in lanes' 'turned0\[i'
lacks 'short rows in lanes' 'sx_fold'
kernels 'x: f32[9,16,4,4]) { y = max_pool x {size=[2,2]}; return y }'
count 'a pool of small pictures' 1 'sx_turn_f32_part(b1 + i[0-9]*\*8, turned0, 8)'
count 'a pool of small pictures' 1 'sx_turn_f32_join('
kernels 'x: f64[9,10]) { y = sum x {axes=[1]}; return y }'
has 'a sum of ten in f64' 'a1\[16 / SX_W64\]'
kernels 'x: i32[90,5]) { y = sum x {axes=[1]}; return y }'
has 'a sum of five integers' 'a1\[8 / 1\]'
kernels 'x: f32[8192,2048]) { y = sum x {axes=[0]}; return y }'
has 'large columns' 'const int64_t i2 = from + lane + j \* 64'
has 'large columns' 'sx_prefetch((const char \*)b1 + (i1 + i2\*2048 + 2048) \* 4)'
has 'large columns' 'if (width == 256 && vectors == 256'
kernels 'x: f32[20000000,256]) { y = sum x {axes=[0]}; return y }'
has 'tall columns' 'sx_prefetch'
has 'tall columns' 'if (width == 64 && vectors == 64'
kernels 'x: f32[512,512]) { y = sum x {axes=[0]}; return y }'
lacks 'small columns' 'sx_prefetch'
kernels 'x: f32[512,512]) { y = exp x; return y }'
count 'exp' 4 '(ok = sx_inside32(ok, v3, 87.0f), sxv_short_exp_f32(v3))'
count 'exp' 2 '= sxv_exp_f32(v3)' # where one lies outside, and at the end
has 'exp' 'const sx_f32 v3 = sx_loadaf(b1 + i3)'
has 'exp' 'if (!sx_all32(ok)) break'
kernels 'x: f32[512,512]) { y = tanh x; return y }'
count 'tanh' 4 'sxv_tanh_f32\|for (; i3 + 4 \* SX_W'
has 'tanh: four vectors side by side' 'sx_storef(b2 + .*, late0\[z\])'
kernels 'x: f32[512,512], w: f32[64,512]) { m = linear x, w; y = tanh m; return y }'
has 'rows of a tile side by side' 'const int64_t r = near_r + z < height ? near_r + z : height - 1;'
kernels 'x: f32[4096,64], w: f32[64,64]) { s = mul x, 0.5; m = linear s, w; return m }'
has 'the rows of the next tile are fetched during the products of this one' 'next = b1 + .*(row0 + [0-9]*) \* depth'
lacks 'and not while they are packed' 'sx_prefetch'
kernels 'x: f32[4096,64], y: f32[4096,64], w: f32[64,64]) { s = add x, y; m = linear s, w; return m }'
lacks 'rows of two tensors' 'next = b[0-9]'
kernels 'x: f32[512,512], w: f32[64,512]) { m = linear x, w; y = relu m; return y }'
lacks 'what is cheap' 'near_r'
kernels 'x: f32[512,1024], g: f32[1024]) { a = layer_norm x, g; y = gelu a; return y }'
count 'the next row is fetched' 1 'sx_prefetch((const char \*)b1 + (i[0-9]*\*1024 + i[0-9]* + 1024) \* 4)'
kernels 'x: f32[512,512]) { y = add x, 1.0; return y }'
lacks 'x + 1' '4 \* SX_W'
# products of small integers in pairs, where they cannot be told from products of 32 bits
micro() {
    echo "graph g($1" >"$work/g.stax"
    "$staxc" print "$work/g.stax" --emit=c --isa=avx512 2>"$work/err" | sed -n '/^SX_MICRO/,/^}/p' >"$work/c"
    [ -s "$work/c" ] || bad "$1: no micro-kernel: $(cat "$work/err")"
}
micro 'a: i8[64,64], b: u8[64,64]) { c = matmul a, b {dtype=i32}; return c }'
has 'i8 x u8' 'c0 = sx_pairadd32(x, b0, c0)'
micro 'a: u8[64,64], b: i16[64,64]) { d = cast a {dtype=i32}; e = sub d, 200; f = cast b {dtype=i32}; c = matmul e, f; return c }'
has 'a zero point' 'sx_pairadd32'
micro 'a: u8[64,64], b: i16[64,64]) { d = cast a {dtype=i32}; e = mul d, 2; f = cast b {dtype=i32}; c = matmul e, f; return c }'
lacks 'a factor' 'sx_pairadd32'
micro 'a: u16[64,64], b: i8[64,64]) { c = matmul a, b {dtype=i32}; return c }'
lacks 'u16' 'sx_pairadd32'
has 'u16' 'sx_muladd32'
micro 'a: i8[64,64], b: i8[64,64]) { c = matmul a, b {dtype=i64}; return c }'
lacks 'sums of 64 bits' 'sx_pairadd32'
# layers of a net have one text, and are told where their buffers are
for layers in 2 6; do
    k=0
    params=
    body=
    while [ $k -lt $layers ]; do
        params="$params, param w$k: f32[64,64]"
        body="$body a$k = linear x$k, w$k; e$k = gelu a$k; f$k = add e$k, x$k; x$((k + 1)) = layer_norm f$k;"
        k=$((k + 1))
    done
    kernels "x0: f32[32,64]$params) { $body return x$layers }"
    n=$(grep -c '^static void sx_kernel' "$work/c")
    [ "$layers" -eq 2 ] && two=$n
done
if [ "$n" -le "$((two + 1))" ]; then good; else bad "layers: $n kernels of six, $two of two"; fi
has 'layers' 'sx_at(sx, 0)'

# contractions of few channels
tiles() {
    echo "graph g($1" >"$work/g.stax"
    "$staxc" print "$work/g.stax" --emit=c --isa=avx512 2>"$work/err" | sed -n '/^SX_MICRO/,/^}/p; /^static void sx_tiles/,/^}/p' >"$work/c"
    [ -s "$work/c" ] || bad "$1: no tiles: $(cat "$work/err")"
}
tiles 'x: f32[9,8,18,18], w: f32[16,8,3,3]) { c = conv x, w {stride=2}; y = permute c {axes=[0,2,3,1]}; return c }'
has 'every second pixel' 'sx_among32(sx_loadf(p0 + at), sx_loadf(p1 + at), SXV_TWOS)'
lacks 'every second pixel' 'sx_over'
tiles 'x: f32[9,8,18,26], w: f32[4,8,3,3]) { c = conv x, w; return c }'
has 'few rows: vectors over what is between lines' 'sx_squeezef'
lacks 'few rows: vectors over what is between lines' 'sx_over'
tiles 'x: f32[9,8,18,18], w: f32[8,8,3,3], v: f32[1,8,1,1]) { c = conv x, w; e = exp v; f = sqrt e; y = mul c, f; return y }'
count 'the same for a row' 1 'sxs_exp_f32'
lacks 'the same for a row' 'sxv_exp_f32'
has 'the same for a row' 'sx_k32(w[0-9]*\[row\])'
tiles 'x: f32[9,16,4,16], w: f32[16,4,2,2]) { c = conv_transpose x, w {stride=2}; y = pad c {low=[0,0,1,1], high=[0,0,1,1]}; return y }'
has 'two pixels for one' 'sx_pairsp*f('
kernels 'x: f32[9,8,4,6], w: f32[9,4,4,6]) { g = group_norm x {groups=2}; s = concat w, g {axis=1}; y = pad s {low=[0,0,1,1], high=[0,0,1,1]}; return y }'
has 'a pad of groups' 'sx_imax(0, sx_imin('
has 'a pad of groups' 'sx_loadrf('
lacks 'a pad of groups' '% 192'
kernels 'x: f32[9,16,10,10], w: f32[16,1,3,3]) { y = conv x, w {groups=16}; return y }'
count 'a short chain at once' 2 'SX_UNROLL for (int j = 0; j < 9; j++)'

# the header itself: what every call passes through is not compiled without optimisation
for chapter in functions scalarops interpreter program steps partition jit; do
    if awk -v tag=">>$chapter" '/^STAXI_COLD$/ { cold = 1 } /^STAXI_WARM$/ { cold = 0 }
        $0 ~ "^/. =+ " tag "$" { seen = NR; lies = cold } END { exit !(seen && !lies) }' stax.h; then good
    else bad "chapter $chapter of stax.h lies between STAXI_COLD and STAXI_WARM, or is not found"; fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
