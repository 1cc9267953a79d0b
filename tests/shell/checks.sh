# Counting checks; scripts source it from the root of the repository, with B set to a folder for their files.
passed=0
failed=0
ok() { passed=$((passed + 1)); }
has() { command -v "$1" >"$B/which.txt" 2>&1; }
skip() { echo "skip $1: $2"; }

# The closing line, last in a script: its status is the script's.
closing() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}
