# Turns a CSV of bench/operations into Markdown: the works at all sizes, then the distributions at the
# largest that has them. Used by scripts/bench --table.

function short(x,   i) {
    if (x == "") return "-"
    for (i = 1; x >= 999.5 && i < 4; ++i) x /= 1000
    return sprintf(x >= 99.95 ? "%.0f" : x >= 9.995 ? "%.1f" : x >= 0.0995 ? "%.2f" : "%.3f", x) \
        substr(" kMG", i, i > 1)
}

function ratio(x) { return x == "" ? "-" : x < 0.01 ? sprintf("1/%.0f", 1 / x) : sprintf("%.2f", x) }

function best_rival(row,   i, best) {
    for (i = 1; i <= columns; ++i)
        if (column[i] != "tvec" && column[i] != "floor" && (row, column[i]) in median &&
            (best == "" || median[row, column[i]] < median[row, best])) best = column[i]
    return best
}

function head(title,   i, line, rule) {
    line = "| " title " | timers | unit | **tvec** | best rival | ratio |"
    rule = "|---|--:|---|--:|---|--:|"
    for (i = 1; i <= columns; ++i)
        if (column[i] != "tvec") { line = line " " column[i] " |"; rule = rule "--:|" }
    print "\n" line "\n" rule
}

function print_row(row,   i, best, line) {
    best = best_rival(row)
    line = sprintf("| %s | %s | %s | **%s** | %s | %s |", work[row], timers[row], unit[row],
        short(median[row, "tvec"]), best == "" ? "-" : best " " short(median[row, best]),
        best == "" ? "-" : ratio(to_tvec[row, best]))
    for (i = 1; i <= columns; ++i)
        if (column[i] != "tvec") line = line " " short(median[row, column[i]]) " |"
    print line
}

function print_works(title, tails,   w, r) {
    head(title)
    for (w = 1; w <= works; ++w)
        for (r = 1; r <= rows; ++r)
            if (work[r] == name[w] && is_tail[r] == tails && (!tails || timers[r] == largest))
                print_row(r)
}

BEGIN { FS = ","; columns = split("tvec classic libuv libev libevent asio rbtree multimap pqueue netty floor", column, " ") }
/^#/ { print "Measured on: " substr($0, 3) "."; next }
$1 == "work" || NF < 8 { next }
{
    if (!($1 in known)) { known[$1]; name[++works] = $1 }
    if (!(($1, $2) in place)) {
        place[$1, $2] = ++rows
        work[rows] = $1; timers[rows] = $2; unit[rows] = $3
        is_tail[rows] = $1 ~ / (p[0-9.]+|worst|measurement)$/
    }
    row = place[$1, $2]
    median[row, $4] = $5
    to_tvec[row, $4] = $8
    if (is_tail[row] && $2 + 0 > largest) largest = $2 + 0
}
END { print_works("work", 0); print_works("distribution", 1); print "" }
