#!/bin/sh
# Programs that other compilers got wrong, and that need more than a graph: a schedule, or a cache with neighbours.
# Each is named after the report; the values are the right ones. Graphs alone lie in tests/corpus.
. tests/script.inc
# gives NAME "RESULTS" [OPTION...]: what the graph in $work/g.stax prints, on one line
gives() {
    name=$1 want=$2
    shift 2
    got=$("$staxc" run "$work/g.stax" --strict "$@" 2>&1 | tr -s ' \n' ' ' | sed 's/ $//')
    if [ "$got" = "$want" ]; then good; else bad "$name: found '$got', expected '$want'"; fi
}
# scheduled NAME "CALLS" "RESULTS": the same by a schedule, which is obeyed
scheduled() {
    printf 'schedule g {\n%s\n}\n' "$2" >"$work/s"
    gives "$1" "$3" --schedule="$work/s"
}

# Halide#4324: a reduction of 15 in parts of 8, the last of which is not full; for max, parts begin at the smallest
cat >"$work/g.stax" <<'END'
graph g() {
  x = iota {shape=[15], axis=0, dtype=i32}
  s = sum x
  y = sub x, 20
  m = max y
  return s, m
}
END
gives 'parts of a reduction, automatic' 's: i64[] = 105 m: i32[] = -6'
for by in 2 8 14; do
    scheduled "parts of $by" "compute_root s2
rfactor s2, i2 {by=$by}
compute_root s3
rfactor s3, i3 {by=$by}" 's: i64[] = 105 m: i32[] = -6'
done

# tvm#9598: rows summed inside a tile of 100 of 101: the tail must guard what begins a sum, too
{
    echo 'graph g() {'
    echo '  a = iota {shape=[101,3], axis=0, dtype=i32}'
    echo '  r = sum a {axes=[1], dtype=i32}'
    echo '  y = add r, 1'
    echo '  e = iota {shape=[101], axis=0, dtype=i32}'
    echo '  t = mul e, 3'
    echo '  u = add t, 1'
    echo '  q = eq y, u'
    echo '  w = all q'
    echo '  return w, y'
    echo '}'
} >"$work/g.stax"
all="w: bool[] = true y: i32[101] = [$(seq -s ', ' 1 3 301)]"
gives 'a guarded tile, automatic' "$all"
scheduled 'a guarded tile' 'compute_root s1
split s1, i1 {by=100}
compute_at s2, s1 {segment=1}
compute_root s3' "$all"

# pytorch PR#117888: constants, dtypes and casts that differ by one are neighbours in one cache
cache=$work/cache
mkdir -m 700 "$cache"
printf 'graph g() {\n  x = const f32[2] {1, 3}\n  return x\n}\n' >"$work/g.stax"
"$staxc" run "$work/g.stax" --out=x="$work/x.npy" || bad 'no x.npy'
for round in cold warm; do
    while IFS='|' read -r calls want; do
        printf 'graph g(x: f32[2]) {\n  %s\n  return y\n}\n' "$calls" >"$work/g.stax"
        STAX_CACHE_DIR=$cache gives "$round, $calls" "$want" --in=x="$work/x.npy"
    done <<'END'
y = mul x, 2.0|y: f32[2] = [2.0, 6.0]
y = mul x, 3.0|y: f32[2] = [3.0, 9.0]
c = cast x {dtype=f64}; y = mul c, 0.1|y: f64[2] = [0.1, 0.30000000000000004]
m = mul x, 0.1; y = cast m {dtype=f64}|y: f64[2] = [0.10000000149011612, 0.30000001192092896]
y = mul x, 2.0000002|y: f32[2] = [2.0000002, 6.000001]
y = div x, -0.0|y: f32[2] = [-inf, -inf]
y = div x, 0.0|y: f32[2] = [inf, inf]
END
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
