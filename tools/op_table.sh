#!/bin/sh
# The op table of README.md, made from the op table of stax.h.
#   sh tools/op_table.sh [--update|--check]       prints it, puts it into README.md, compares it with README.md's
# Needs ./staxc (make staxc), or STAXC=PATH.
. tools/readme_table.inc
table() {
    echo "| op | operands | attributes | dtypes | gradient | GPU | meaning |"
    echo "| --- | --- | --- | --- | --- | --- | --- |"
    "${STAXC:-./staxc}" ops | grep -v '(not built yet)' | awk '{
        name = $1; operands = $2
        rest = $0; sub(/^[^{]*\{/, "", rest)
        attributes = rest; sub(/\}.*/, "", attributes); sub(/^[^}]*\} */, "", rest)
        dtypes = rest; sub(/  .*/, "", dtypes)
        meaning = substr(rest, length(dtypes) + 1); sub(/^ */, "", meaning)
        gradient = meaning; sub(/ .*/, "", gradient); sub(/^[^ ]* */, "", meaning)
        gpu = sub(/ \(CPU\)$/, "", meaning) ? "" : "yes"
        gsub(/\|/, "\\\\|", attributes); gsub(/\|/, "\\\\|", meaning)
        if (attributes != "") attributes = "`" attributes "`"
        printf "| `%s` | %s | %s | %s | %s | %s | %s |\n", name, operands, attributes, dtypes, gradient, gpu, meaning
    }'
}
readme_table OPS tools/op_table.sh "$@"
