# Turns a CSV of durable/bench/run into Markdown tables, or with -v plot=yes into the input of plot.gp.
# Takes the median of repeated measurements.

function median(key,   n, v, i, j, x) {
    n = times[key]
    if (n == 0) return ""
    for (i = 1; i <= n; ++i) v[i] = values[key, i]
    for (i = 2; i <= n; ++i)
        for (j = i; j > 1 && v[j - 1] > v[j]; --j) { x = v[j]; v[j] = v[j - 1]; v[j - 1] = x }
    return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}

# Formats with thousands separators.
function whole(x,   s) {
    if (x == "") return ""
    for (s = ""; x >= 1000; x = int(x / 1000)) s = sprintf(" %03d%s", x % 1000, s)
    return sprintf("%d%s", x, s)
}
function rate(x) { return x == "" ? "" : whole(x < 10000 ? int(x / 10 + 0.5) * 10 : int(x / 100 + 0.5) * 100) }
function short(x) { return x == "" ? "" : sprintf(x < 0.095 ? "%.2f" : x < 9.95 ? "%.1f" : "%.0f", x) }

function of(row, figure) { return median(row SUBSEP store SUBSEP side SUBSEP figure) }
# The client's CPU time, and the server's if there is one.
function both(row, figure, unit,   c, s) {
    c = of(row, figure "client")
    s = of(row, figure "server")
    return c == "" ? "" : short(c) (store == "SQLite" ? "" : " + " short(s)) unit
}
function is_in(row) { return (row, store, side) in seen }

# The ways on one store, side by side.
function line_up(   i, k, parts, of_it) {
    for (i = 1; i <= stores; ++i) {
        parts = split(sides[store_named[i]], of_it, ",")
        for (k = 2; k <= parts; ++k) { store_of[++n] = store_named[i]; side_of[n] = of_it[k] }
    }
}
function choose(i) { store = store_of[i]; side = side_of[i] }
function name() { return side == "tvec" ? "**tvec**" : side }

function print_puts(   i) {
    print "| | | puts, one by one | many | many, ids at random | one of these costs | ended, if all are due | one of these costs |"
    print "|---|---|--:|--:|--:|--:|--:|--:|"
    for (i = 1; i <= n; ++i) {
        choose(i)
        if (is_in("puts"))
            print "| " store " | " name() " | " rate(of("puts", "one by one")) " | " rate(of("puts", "together")) " | " \
                rate(of("puts", "together random")) " | " both("puts", "together random ", " us") " | " \
                rate(of("drain", "ended")) " | " both("drain", "ended ", " us") " |"
    }
}

function print_lateness(   i) {
    print "| | | late, p50 | p99 | processor, of a core | the same, nothing due |"
    print "|---|---|--:|--:|--:|--:|"
    for (i = 1; i <= n; ++i) {
        choose(i)
        if (is_in("lateness"))
            print "| " store " | " name() " | " short(of("lateness", "p50")) " ms | " short(of("lateness", "p99")) " ms | " \
                both("lateness", "", " %") " | " both("idle", "", " %") " |"
    }
}

# store, side; p50, p99, client, server, puts one by one and many
function print_points(   i, by, line) {
    for (i = 1; i <= n; ++i) {
        choose(i)
        if (!is_in("lateness") || side ~ /workers/) continue
        line = of("lateness", "p50") "\t" of("lateness", "p99") "\t" of("lateness", "client") "\t" of("lateness", "server")
        by = store "\t" side
        if (side ~ /^polled/) side = "by hand"
        print by "\t" line "\t" of("puts", "one by one") "\t" of("puts", "together random")
    }
}

BEGIN { FS = "," }
/^#/ { about = substr($0, 3); next }
$1 == "row" || NF < 6 { next }
{
    if (!($2 in known)) { known[$2]; store_named[++stores] = $2 }
    if (!(($2, $3) in known)) { known[$2, $3]; sides[$2] = sides[$2] "," $3 }
    seen[$1, $2, $3]
    key = $1 SUBSEP $2 SUBSEP $3 SUBSEP $4
    values[key, ++times[key]] = $6
}
END {
    line_up()
    if (plot) { print_points(); exit }
    print "Measured on: " about "."
    print ""
    print_lateness()
    print ""
    print_puts()
}
