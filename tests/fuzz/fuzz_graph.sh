#!/bin/sh
# Random graphs over all ops, interpreter against compiled code: many more than `make test` meets, in many
# configurations. What fails is made smaller and written to build/found/SEED.stax.
#   sh tests/fuzz/fuzz_graph.sh       from the root of the repository; `make fuzz` calls it
# FUZZ_GRAPHS (default 100000) graphs at -O1, a tenth of it in each other configuration. How far each
# configuration has come is kept in build/fuzz/counts.txt, so a later run goes on with new seeds.
B=${BUILD:-build}
CHUNK=2000
most=${FUZZ_GRAPHS:-100000}
counts=$B/fuzz/counts.txt
mkdir -p "$B/fuzz" "$B/found"
touch "$counts"
passed=0
failed=0

# go NAME GRAPHS OPTIONS...: graphs of the seeds that this configuration has not met
go() {
    name=$1
    goal=$2
    shift 2
    first=$(sed -n "s/^$name //p" "$counts")
    first=${first:-1}
    begin=$first
    start=$(date +%s)
    while [ $((first - begin)) -lt "$goal" ]; do
        n=$((goal - first + begin))
        if [ $n -gt $CHUNK ]; then n=$CHUNK; fi
        "$B/tests/differential" --tables=0 --count=$n --seed=$first "$@" >"$B/fuzz/log.txt" 2>&1
        status=$?
        line=$(grep -oE '[0-9]+ passed, [0-9]+ failed$' "$B/fuzz/log.txt" | tail -n 1)
        p=${line%% *}
        f=${line#*, }
        f=${f%% *}
        if [ -z "$line" ] || { [ $status -ne 0 ] && [ "$f" -eq 0 ]; }; then p=0 f=1; fi
        passed=$((passed + p))
        failed=$((failed + f))
        if [ "$f" -ne 0 ]; then
            echo "FAIL $name, seeds from $first:"
            grep -vE '^$' "$B/fuzz/log.txt" | head -n 40
        fi
        first=$((first + n))
        { grep -v "^$name " "$counts"; echo "$name $first"; } >"$counts.new"
        mv "$counts.new" "$counts"
    done
    echo "$name: seeds $begin to $((first - 1)), $(($(date +%s) - start)) s"
}

go O1 "$most"
few=$((most / 10))
go O2 $few --opt=2
go O3 $few --opt=3
go wide $few --wide
for isa in 1 2 3 4; do go isa$isa $few --isa=$isa; done
for cc in clang tcc; do
    if command -v $cc >"$B/fuzz/which.txt" 2>&1; then
        go $cc $few --compiler=$cc
    else
        echo "skip $cc: not installed"
    fi
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
