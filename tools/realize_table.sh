#!/bin/sh
# The table of README.md about realize decisions in examples/nets: by cost, and by the thresholds.
#   sh tools/realize_table.sh [--update|--check]      prints it, puts it into README.md, compares it with README.md's
# Needs build/tests/realize (make build/tests/realize); nothing is compiled or measured, so it is the same everywhere.
. tools/readme_table.inc
table() { "${BUILD:-build}/tests/realize" --table; }
readme_table REALIZE tools/realize_table.sh "$@"
