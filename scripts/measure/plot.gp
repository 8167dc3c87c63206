# Called by scripts/measure/plot with csv, folder and largest, the greatest number of timers in the file.

# Five lines at most, which differ in lightness, mark and dash: a tree, two heaps and two wheels.
structures = "tvec classic libuv rbtree lazy_heap"
colours    = "#e4002b #222222 #4477aa #b8a000 #77bb77"
points     = "7 6 9 4 10"
dashes     = "1 2 4 5 3"

colour(i) = word(colours, i)
width(i) = i == 1 ? 6 : 1.8
point(i) = int(word(points, i))
dash(i) = int(word(dashes, i))

# Prints lines "timers median" of one workload on one structure, and the medians of its quantiles in order.
of(work, who) = sprintf("< awk -F, '$1 == \"%s\" && $4 == \"%s\" {print $2, $5}' '%s'", work, who, csv)
quantiles(work, who) = sprintf("< awk -F, 'index($1, \"%s \") == 1 && $2 == %d && $4 == \"%s\" {print $5}' '%s'", work, largest, who, csv)
has(data) = strlen(system(sprintf("%s 2>/dev/null | head -1", substr(data, 3, strlen(data))))) > 0
present = ""
do for [who in structures] { if (has(sprintf("< grep ',%s,' '%s'", who, csv))) { present = present . " " . who } }
index_of(who) = sum [k = 1:words(structures)] (word(structures, k) eq who ? k : 0)


# Draws of(work, ...) or another data source for each who. tvec's wide line comes first: others stay visible on it.
draw = "with linespoints lc rgb colour(index_of(who)) lw width(index_of(who)) pt point(index_of(who)) dt dash(index_of(who))"

set style line 100 lc rgb "#dddddd" lw 0.7
set grid ytics xtics ls 100
set border 3 lc rgb "#777777"
set xtics nomirror textcolor rgb "#333333"
set ytics nomirror textcolor rgb "#333333"
set logscale xy
set format "10^{%T}"
set key off

# --- cost.svg: a panel for each operation, and one for the legend ---------------------------------
set terminal svg size 1200,1100 font "sans-serif,13" background "white"
set output folder."/cost.svg"
works = "'arm unlinked' 'arm cancelled later' 'cancel' 're-arm random' 'push back' 'expire' 'mixed server' 'idle tick' 'next wake-up' 'jump 1e6 ticks'"
set multiplot layout 4,3 margins 0.06,0.985,0.06,0.925 spacing 0.075,0.1 \
    title "What an operation, expiry, event or tick costs, by the number of timers" font ",17"
set xlabel "timers" offset 0,0.5 font ",12"
set ylabel "ns" offset 0.7,0 font ",12"
do for [k = 1:10] {
    work = word(works, k)
    set title work offset 0,-0.6 font ",14"
    measured = ""
    do for [who in present] { if (has(of(work, who))) { measured = measured." ".who } }
    plot for [who in measured] of(work, who) using 1:2 @draw ps 0.6
}
unset title; unset border; unset tics; unset grid; unset xlabel; unset ylabel
set key at graph 1.1,0.95 center top maxrows 7 font ",12" samplen 2 spacing 1.2
set xrange [1:2]; set yrange [1:2]
plot for [who in present] NaN @draw ps 0.8 title who noenhanced
unset multiplot

# --- the other plots: one panel, its legend beside it ----------------------------------------------
set terminal svg size 1000,560 font "sans-serif,14" background "white"
set border 3 lc rgb "#777777"
set xtics nomirror textcolor rgb "#333333"
set ytics nomirror textcolor rgb "#333333"
set grid ytics xtics ls 100
set key outside right center maxrows auto maxcols 1 font ",12" samplen 2 spacing 1.2
set xrange [*:*]; set yrange [*:*]

unset logscale x
set format y "%g"
set xtics ("p50" 0, "p90" 1, "p99" 2, "p99.9" 3, "p99.99" 4, "worst" 5)
set xrange [-0.2:5.2]
set xlabel "quantile of the ticks"
set ylabel "microseconds per tick"
do for [kind in "expiry server"] {
    work = kind." tick"
    set output sprintf("%s/%s_ticks.svg", folder, kind)
    set title sprintf(kind eq "expiry" ? "What a tick costs while %d timers expire" \
        : "What a tick costs under a server with %d timers", largest) font ",16"
    measured = ""
    do for [who in present] { if (has(quantiles(work, who))) { measured = measured." ".who } }
    plot for [who in measured] quantiles(work, who) using 0:1 @draw ps 0.8 title who noenhanced
}

# --- loops.svg ------------------------------------------------------------------------------------
worst_calls(who) = sprintf("< awk -F, '$1 ~ /^loop .* worst$/ && $2 == %d && $4 == \"%s\" {print $5}' '%s'", largest, who, csv)
measured = ""
do for [who in present] { if (has(worst_calls(who))) { measured = measured." ".who } }
if (measured ne "") {
    set output folder."/loops.svg"
    set title sprintf("The worst call of a loop while %d keepalives wait", largest) font ",16"
    set xtics ("at the next wake-up,\nasleep between" 0, "every\n2 ticks" 1, "every\n5 ticks" 2, "every\n10 ticks" 3, "every\n100 ticks" 4)
    set xrange [-0.3:4.2]
    set bmargin 6
    set xlabel "when the loop calls advance" offset 0,-1.3
    set ylabel "microseconds, worst call"
    plot for [who in measured] worst_calls(who) using 0:1 @draw ps 0.8 title who noenhanced
    set bmargin 2.5
}

# The first plot of README.md: large enough for a phone.
loop_of(kind, who) = of("loop ".kind." worst", who)
shown = "tvec classic libuv rbtree"
call(who) = who eq "tvec" ? "tvec" : who eq "classic" ? "Linux's until 4.7" : who eq "libuv" ? "a heap (libuv)" : "a tree (red-black)"
if (has(loop_of("that sleeps", "tvec"))) {
    reset
    set terminal svg size 660,640 font "sans-serif,17" background "white"
    set output folder."/worst_call.svg"
    set border 3 lc rgb "#777777"
    set style line 100 lc rgb "#dddddd" lw 0.7
    set grid ytics ls 100
    set logscale xy
    set key off
    set xtics nomirror ("100" 1e2, "1000" 1e3, "10^4" 1e4, "10^5" 1e5, "10^6" 1e6) textcolor rgb "#333333"
    set ytics nomirror textcolor rgb "#333333"
    set xrange [70:1.5e6]
    set xlabel "timers" offset 0,0.4
    set multiplot layout 2,2 margins 0.11,0.985,0.1,0.94 spacing 0.13,0.17
    set ytics ("10 ns" 0.01, "1 µs" 1, "100 µs" 100, "10 ms" 1e4)
    set yrange [0.01:1e5]
    do for [kind in "'that sleeps' 'of 2 ticks'"] {
        set title kind eq "that sleeps" ? "{/:Bold worst call, loop sleeps}" : "{/:Bold worst call, loop is busy}" offset 0,-0.5
        plot for [who in shown] loop_of(kind, who) using 1:2 @draw ps 0.9, \
            for [who in "tvec"] loop_of(kind, who) using 1:2 @draw ps 0.9
    }
    set title "{/:Bold one push-back}" offset 0,-0.5
    set ytics ("1 ns" 1, "10 ns" 10, "100 ns" 100, "1 µs" 1000)
    set yrange [0.7:2000]
    plot for [who in shown] of("push back", who) using 1:2 @draw ps 0.9, \
        for [who in "tvec"] of("push back", who) using 1:2 @draw ps 0.9
    unset title; unset border; unset tics; unset grid; unset xlabel
    set key at graph 0.5,0.9 center top maxcols 1 font ",17" samplen 2.5 spacing 1.5 reverse Left
    set xrange [1:2]; set yrange [1:2]
    plot for [who in shown] NaN @draw ps 0.9 title call(who)
    unset multiplot
}

# --- push_back.svg and structures.svg, for docs/tour.md ---------------------------------------------
if (has(of("push back", "tvec"))) {
    reset
    set terminal svg size 760,420 font "sans-serif,15" background "white"
    set output folder."/push_back.svg"
    set border 3 lc rgb "#777777"
    set style line 100 lc rgb "#dddddd" lw 0.7
    set grid ytics ls 100
    set logscale xy
    set key at graph 0.02,0.97 left top Left reverse maxcols 2 samplen 2 spacing 1.2
    set xtics nomirror ("100" 1e2, "1000" 1e3, "10^4" 1e4, "10^5" 1e5, "10^6" 1e6)
    set ytics nomirror ("1 ns" 1, "10 ns" 10, "100 ns" 100, "1 µs" 1000)
    set xrange [70:1.5e6]; set yrange [0.7:9000]
    set xlabel "timers"
    set title "The cost of one push-back"
    plot for [who in shown] of("push back", who) using 1:2 @draw ps 0.8 title call(who)
}
bars = "tvec classic cascadeless hashed lazy_heap libuv libev asio rbtree multimap"
bar_label = "'tvec' 'Linux until 4.7' 'Linux since 4.8' 'hashed (Netty)' 'lazy heap' 'libuv' 'libev' 'Asio' 'red-black tree' 'std::multimap'"
bar(work) = sprintf("< for s in %s; do awk -F, -v s=$s '$1 == \"%s\" && $2 == %d && $4 == s {print $5}' '%s'; done", bars, work, largest, csv)
if (has(bar("mixed server"))) {
    reset
    set terminal svg size 900,460 font "sans-serif,14" background "white"
    set output folder."/structures.svg"
    set border 1 lc rgb "#777777"
    set style fill solid
    set boxwidth 0.7
    set key off
    set logscale x
    set yrange [9.6:-0.6]
    set xtics nomirror
    set multiplot layout 1,2 margins 0.2,0.97,0.12,0.9 spacing 0.08,0
    do for [k = 1:2] {
        work = k == 1 ? "mixed server" : "loop that sleeps worst"
        set title k == 1 ? "ns for one event of a server" : "µs of the worst call of a loop that sleeps"
        set xrange [k == 1 ? 10 : 0.01 : k == 1 ? 1000 : 1e9]
        set format x "10^{%T}"
        if (k == 1) { set ytics nomirror ("" 0) ; set for [i = 1:10] ytics add (word(bar_label, i) i - 1) } else { unset ytics }
        plot bar(work) using (k == 1 ? 10 : 0.01):0:(k == 1 ? 10 : 0.01):1:($0 - 0.35):($0 + 0.35):($0 == 0 ? 0xe4002b : 0x4477aa) with boxxyerror lc rgb variable, \
            bar(work) using 1:0:(sprintf(" %.3g", $1)) with labels left offset 0.3,0 font ",12"
    }
    unset multiplot
}
