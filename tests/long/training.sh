#!/bin/sh
# The training examples over five seeds, each trained to the end: the mean share of test digits read right, and
# the processor time of a run. Then longer runs of the interpreter than tests/training.sh has.
B=${BUILD:-build}/training
mkdir -p "$B"
. tests/shell/checks.sh
. tests/shell/training.sh

# seeds NAME EXAMPLE SHARE OPTIONS...
seeds() {
    label=$1 trained=$2 least=$3
    shift 3
    for seed in 1 2 3 4 5; do
        curve "$trained" "$label$seed" "--seed=$seed" "$@"
        log=$B/${trained}_$label$seed.txt
        if awk '/^step/ { s = $2 + 0; us = $5 } END { exit !(s * us > 0 && s * us < 20e6) }' "$log"; then ok
        else bad "$label, seed $seed: more than 20 s" "$log"; fi
        awk '/^step/ { s = $2 + 0; us = $5 } END { printf "ran '"$trained $label$seed"': %s right, %.1f s in %d steps\n", $NF, s * us / 1e6, s }' "$log"
    done
    cat "$B/${trained}_$label"[1-5].txt >"$B/all.txt"
    mean=$(awk '/digits read right/ { sum += $NF; n++ } END { printf "%.4f", n == 5 ? sum / 5 : 0 }' "$B/all.txt")
    echo "ran $trained $label: $mean right, the mean of five seeds"
    if awk "BEGIN { exit !($mean >= $least) }"; then ok; else bad "$label: a mean below $least" "$B/all.txt"; fi
}
seeds plain digits_mlp 0.905
seeds plain digits_cnn 0.955
seeds shifted digits_cnn 0.970 --shift=1

for shift in 0 1; do
    curve digits_cnn "short$shift" --steps=20 --shift=$shift
    curve digits_cnn "interpreted$shift" --steps=20 --shift=$shift --interpret=1
    same digits_cnn "short$shift" "interpreted$shift"
done
curve charlm short --steps=20 --sample=20
curve charlm interpreted --steps=20 --sample=20 --interpret=1
same charlm short interpreted
curve charlm whole
falls charlm whole 2.4
closing
