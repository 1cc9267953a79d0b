#!/bin/sh
# The losses that the training examples write (--losses=FILE) as a picture: the mean of every 20 steps, on a
# logarithmic scale.
#   sh tools/loss_svg.sh NAME=FILE ... >examples/losses.svg
for pair in "$@"; do
    awk -v name="${pair%%=*}" '{ sum += $2; if (NR % 20 == 0) { print name "\t" $1 "\t" sum / 20; sum = 0 } }' "${pair#*=}"
done | awk -F "\t" '
function x(step) { return 50 + 520 * step / steps }
function y(loss) { return 20 + 200 * (log(top) - log(loss)) / (log(top) - log(low)) }
{
    if (!($1 in line)) { order[++n] = $1; line[$1] = "" }
    step[NR] = $2; loss[NR] = $3; of[NR] = $1
    if ($2 + 0 > steps) steps = $2 + 0
}
END {
    split("#1f6f8b #c8553d #5b8c3a #7a5195", colour, " ")
    top = 3; low = 0.01
    print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"600\" height=\"260\" font-family=\"sans-serif\" font-size=\"12\">"
    print "<rect width=\"600\" height=\"260\" fill=\"white\"/>"
    split("0.01 0.03 0.1 0.3 1 3", mark, " ")
    for (k = 1; k <= 6; k++) {
        printf "<path d=\"M50 %.1fH570\" stroke=\"#ddd\"/>", y(mark[k])
        printf "<text x=\"44\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", y(mark[k]) + 4, mark[k]
    }
    for (k = 0; k <= steps; k += 200) printf "<text x=\"%.1f\" y=\"236\" text-anchor=\"middle\">%d</text>\n", x(k), k
    print "<text x=\"310\" y=\"254\" text-anchor=\"middle\">step</text>"
    for (k = 1; k <= NR; k++) line[of[k]] = line[of[k]] sprintf(" %.1f,%.1f", x(step[k]), y(loss[k]))
    for (k = 1; k <= n; k++) {
        printf "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"%s\"/>\n", colour[k], line[order[k]]
        printf "<text x=\"560\" y=\"%d\" text-anchor=\"end\" fill=\"%s\">%s</text>\n", 16 + 16 * k, colour[k], order[k]
    }
    print "</svg>"
}'
