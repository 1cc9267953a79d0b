# Runs of the training examples and what is asked of them; sourced behind checks.sh, B is a folder for files.
bad() { # WHAT FILE
    failed=$((failed + 1))
    echo "FAIL $1"
    tail -n 4 "$2" | sed 's/^/     /'
}

# curve EXAMPLE NAME OPTIONS...: runs it; its losses go to a file of that name
curve() {
    example=$1 name=$1_$2
    shift 2
    rm -f "$B/$name.losses"
    "${BUILD:-build}/examples/$example" "--losses=$B/$name.losses" "$@" >"$B/$name.txt" 2>&1
    status=$?
    if [ $status -eq 0 ]; then ok; else bad "$name: exit status $status" "$B/$name.txt"; fi
}

# same EXAMPLE NAME NAME...: the losses of these runs are the same, to the last bit, as are what they say at
# the end
same() {
    example=$1 first=$1_$2
    shift 2
    for name in "$@"; do
        tail -n 1 "$B/$first.txt" >"$B/first.txt"
        tail -n 1 "$B/${example}_$name.txt" >"$B/last.txt"
        if [ -s "$B/$first.losses" ] && cmp "$B/$first.losses" "$B/${example}_$name.losses" >"$B/cmp.txt" 2>&1 &&
            cmp "$B/first.txt" "$B/last.txt" >>"$B/cmp.txt" 2>&1; then ok
        else bad "$first and ${example}_$name differ" "$B/cmp.txt"; fi
    done
}

# right EXAMPLE NAME SHARE: at least that share of the digits is read right
right() {
    if awk '/digits read right/ { share = $NF } END { exit !(share >= '"$3"') }' "$B/$1_$2.txt"; then ok
    else bad "$1_$2: fewer than $3 read right" "$B/$1_$2.txt"; fi
}

# falls EXAMPLE NAME LOSS: the mean of the last four losses is below that
falls() {
    if tail -n 4 "$B/$1_$2.losses" | awk '{ sum += $2; n++ } END { exit !(n == 4 && sum / 4 < '"$3"') }'; then ok
    else bad "$1_$2: the loss does not fall below $3" "$B/$1_$2.losses"; fi
}
