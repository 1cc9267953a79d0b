#!/bin/sh
# The op table of README.md, made from the op table of stax.h.
#   sh tools/op_table.sh            prints it
#   sh tools/op_table.sh --update   puts it into README.md
#   sh tools/op_table.sh --check    is README.md's the same?
# Needs ./staxc (make staxc), or STAXC=PATH.
table() {
    echo "| op | operands | attributes | dtypes | GPU | meaning |"
    echo "| --- | --- | --- | --- | --- | --- |"
    "${STAXC:-./staxc}" ops | grep -v '(not built yet)' | awk '{
        name = $1; operands = $2
        rest = $0; sub(/^[^{]*\{/, "", rest)
        attributes = rest; sub(/\}.*/, "", attributes); sub(/^[^}]*\} */, "", rest)
        dtypes = rest; sub(/  .*/, "", dtypes)
        meaning = substr(rest, length(dtypes) + 1); sub(/^ */, "", meaning)
        gpu = sub(/ \(CPU\)$/, "", meaning) ? "" : "yes"
        gsub(/\|/, "\\\\|", attributes); gsub(/\|/, "\\\\|", meaning)
        if (attributes != "") attributes = "`" attributes "`"
        printf "| `%s` | %s | %s | %s | %s | %s |\n", name, operands, attributes, dtypes, gpu, meaning
    }'
}
begin='<!-- OPS: made by tools\/op_table.sh -->'
end='<!-- OPS end -->'
case ${1:-} in
--update | --check)
    new=$(mktemp)
    table >"$new.table"
    awk -v table="$new.table" -v begin="$begin" -v end="$end" '
        BEGIN { gsub(/\\/, "", begin) }
        $0 == end { skip = 0 }
        !skip { print }
        $0 == begin { skip = 1; while ((getline line < table) > 0) print line }' README.md >"$new"
    if [ "$1" = --update ]; then
        cp "$new" README.md
        status=$?
    else
        diff README.md "$new"
        status=$?
    fi
    rm -f "$new" "$new.table"
    exit $status ;;
*)  table ;;
esac
