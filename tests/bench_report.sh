#!/bin/sh
# tools/bench/report.c in its quick mode: a page that is whole, needs nothing from elsewhere, and has the bytes
# of table 13.1; what a cancelled run leaves; what a wrong argument says.
BUILD=${BUILD:-build}
. tests/script.inc
has() { if grep -q -e "$1" "$page"; then good; else bad "the page lacks $1"; fi; }

if [ -f "$BUILD/stax.o" ]; then
    objects=$BUILD/stax.o
else
    printf '#define STAX_IMPLEMENTATION\n#include "stax.h"\n' >"$work/stax.c"
    ${CC:-cc} -O1 -I. -c "$work/stax.c" -o "$work/stax.o" || exit 1
    objects=$work/stax.o
fi
${CC:-cc} -O1 -std=c99 -Wall -Wextra -I. -DSTAX_IMPLEMENTATION_DONE tools/bench/report.c "$objects" -o "$work/report" \
    -lm -ldl -lpthread || { echo "FAIL: report.c does not compile"; echo "0 passed, 1 failed"; exit 1; }

page=$work/page.html
"$work/report" --quick --threads=1 --out="$page" 2>"$work/err" && good || bad "report: $(tail -n 3 "$work/err")"
grep -q "measuring takes about" "$work/err" && good || bad "the report does not say how long it takes"
[ "$(grep -c '<svg' "$page")" -eq 3 ] && [ "$(grep -c '</svg>' "$page")" -eq 3 ] && good || bad "not three charts"
[ "$(grep -c '<table>' "$page")" -eq "$(grep -c '</table>' "$page")" ] && good || bad "tables are not closed"
tail -n 1 "$page" | grep -q '</html>' && good || bad "the page is cut short"
if grep -Eq 'src=|href=|url\(|@import|https?:' "$page"; then bad "the page needs something from elsewhere"; else good; fi
has "Table 13.1"
has "Table 13.2"
has "<td>exercise 25</td> <td>49152</td> <td>128</td>"
has "C loops were skipped: no library of them was given"
for rho in 4.00 1.50 1.00 6.00 3.00; do # expected, then counted by the plan
    has "<td>$rho</td> <td>$rho</td>"
done
grep -Eq '<td>nan|<td>-nan|inf<' "$page" && bad "the page has numbers that are none" || good
if command -v python3 >"$work/out" 2>&1; then
    if python3 - "$page" <<'END'
import html.parser, sys
class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []
    def handle_starttag(self, tag, attrs):
        if tag != "meta": self.open.append(tag)
    def handle_endtag(self, tag):
        if self.open.pop() != tag: sys.exit(f"line {self.getpos()[0]}: </{tag}> closes something else")
p = Page()
p.feed(open(sys.argv[1]).read())
sys.exit(1 if p.open else 0)
END
    then good; else bad "the page is not well formed"; fi
else
    echo "skip: no python3 to parse the page"
fi

page=$work/cancelled.html
: >"$work/err" # the report before said the same
"$work/report" --quick --threads=1 --out="$page" 2>"$work/err" &
pid=$!
waited=0
until grep -q "measuring takes about" "$work/err" || [ $waited -ge 300 ]; do sleep 0.1; waited=$((waited + 1)); done
kill -INT $pid
wait $pid && good || bad "a cancelled report: $(tail -n 3 "$work/err")"
has "Measuring was cancelled"
tail -n 1 "$page" | grep -q '</html>' && good || bad "the cancelled page is cut short"
"$work/report" --frob 2>"$work/err"
[ $? -eq 2 ] && grep -q "unknown argument --frob" "$work/err" && good || bad "report --frob: $(cat "$work/err")"
: >"$work/err"
"$work/report" --quick --threads=1 --out="$work/no/such/folder.html" 2>"$work/err" &
pid=$!
until grep -q "measuring takes about" "$work/err" || ! kill -0 $pid 2>"$work/out"; do sleep 0.1; done
kill -INT $pid
wait $pid && bad "a report that cannot be written is no failure" || good
grep -q "cannot write" "$work/err" && good || bad "report: $(tail -n 2 "$work/err")"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
