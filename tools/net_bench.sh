#!/bin/sh
# The five networks of examples/nets, batched to 5 ms a call and more: its median beside the sum of
# its kernels' bounds, each at the level of memory that the kernel's tensors live in (`staxc bench`:
# predicted_ms; operations of elementwise functions at the peak of those that are not fused), and the kernels that lie
# farthest above theirs.
#   sh tools/net_bench.sh [--threads=N] [NAME ...]     needs ./staxc (STAXC names another)
# Weights lie in [-2, 2) / 8: with those near 1 the activations of a deep network grow until exponentials are
# subnormal, which costs this machine a hundred cycles each and says nothing about a network in use.
# The bar is 1.4. Its exit status is 1 where a network does not run, not where one is over its bar.
staxc=${STAXC:-./staxc} threads=1
case $1 in --threads=*) threads=${1#--threads=}; shift ;; esac
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
printf '%-12s %-9s %9s %9s %6s  %s\n' net size 'call, ms' 'bounds' ratio 'kernels farthest above their bounds (ms / bound)'
# The size, and the range of it that the file has, widened: a batch may be larger than a file says.
# The file's encoder is for one sequence of at most 64 places: a batch of them has an axis more.
while read -r name size from to; do
    case " $* " in "  " | *" $name "*) ;; *) continue ;; esac
    sed "s/^sizes $from/sizes $to/
        s/token: i64\[s\]/token: i64[n,s]/; s/f32\[4,s,8\]/f32[n,4,s,8]/; s/f32\[s,32\]/f32[n,s,32]/
        s/{shape=\[s,/{shape=[n,s,/; s/{axes=\[1,2,0,3\]}/{axes=[2,0,3,1,4]}/
        s/{axes=\[1,0,2\]}/{axes=[0,2,1,3]}/" "examples/nets/$name.stax" > "$work/$name.stax"
    if ! "$staxc" bench "$work/$name.stax" --size "$size" --threads="$threads" --runs=15 --scale=3 --json \
        > "$work/json"; then
        echo "$name: does not run"
        failed=1
        continue
    fi
    sed 's/"kernel_times"/\n&/; s/{"name": "kernel/\n&/g' "$work/json" | awk -v net="$name" -v size="$size" '
        function field(key,   at) {
            at = index($0, "\"" key "\": ")
            if (!at) return ""
            at = substr($0, at + length(key) + 4)
            sub(/^"/, "", at)
            sub(key == "ops" ? "\".*" : "[,}].*", "", at)
            return at
        }
        NR == 1 { call = field("median_ms") + 0 }
        /"predicted_ms"/ {
            n++
            ops[n] = field("ops"); ms[n] = field("median_ms") * field("calls")
            bound[n] = field("predicted_ms") * field("calls"); sum += bound[n]
        }
        END {
            printf "%-12s %-9s %9.3f %9.3f %6.2f%s", net, size, call, sum, call / sum, call <= 1.4 * sum ? "+" : "!"
            for (k = 0; k < 3; k++) {
                worst = 0
                for (i = 1; i <= n; i++)
                    if (!seen[i] && ms[i] - bound[i] > (worst ? ms[worst] - bound[worst] : 0)) worst = i
                if (!worst) break
                seen[worst] = 1
                printf "%s %s (%.3f / %.3f)", k ? ";" : " ", ops[worst], ms[worst], bound[worst]
            }
            print ""
        }'
done <<SIZES
mlp n=65536 n:.1..4096 n:\ 1..131072
lenet n=8192 n:.1..2048 n:\ 1..65536
cnn n=1024 n:.1..256 n:\ 1..4096
unet n=1024 n:.1..64 n:\ 1..4096
transformer n=64,s=64 s:.1..64 n:\ 1..64,\ s:\ 1..64
SIZES
exit $failed
