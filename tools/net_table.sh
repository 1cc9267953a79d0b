#!/bin/sh
# The table of README.md about the networks in examples/nets: their ops before and after rewriting.
#   sh tools/net_table.sh [--update|--check]      prints it, puts it into README.md, compares it with README.md's
# Needs build/tests/nets (make build/tests/nets), which also checks that the bits stay the same.
. tools/readme_table.inc
table() { "${BUILD:-build}/tests/nets" --table; }
readme_table NETS tools/net_table.sh "$@"
