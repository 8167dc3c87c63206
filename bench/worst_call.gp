# Draws the picture of README.md: gnuplot -e "csv='FILE.csv'" bench/worst_call.gp >docs/plots/worst_call.png
set terminal pngcairo size 800,776 font "DejaVu Sans,16" background "white"
set datafile separator ","
set datafile columnheaders

# Four lines, which differ in lightness, mark and dash. The others stay visible on the wide line of tvec.
structures = "tvec classic libuv rbtree"
names      = "'tvec' 'Linux until 4.7' 'a heap (libuv)' 'a tree (red-black)'"
colours    = "#e4002b #222222 #4477aa #b8a000"
points     = "7 6 9 4"
dashes     = "1 2 4 5"
rows(work) = sprintf("< grep -E '^(work|%s),' '%s'", work, csv)
draw = "lc rgb word(colours, i) lw (i == 1 ? 7 : 2.5) pt int(word(points, i)) dt int(word(dashes, i)) ps 1.4"

set border 3 lc rgb "#777777"
set grid ytics lc rgb "#dddddd" lw 1
set logscale xy
set key off
set xtics nomirror ("100" 1e2, "1000" 1e3, "10^4" 1e4, "10^5" 1e5, "10^6" 1e6) textcolor rgb "#333333"
set xrange [70:1.5e6]
set xlabel "timers" offset 0,0.4
set multiplot layout 2,2 margins 0.11,0.985,0.1,0.94 spacing 0.13,0.17

set ytics nomirror ("10 ns" 0.01, "1 µs" 1, "100 µs" 100, "10 ms" 1e4) textcolor rgb "#333333"
set yrange [0.01:1e5]
set title "{/:Bold worst call, loop sleeps}" offset 0,-0.5
plot for [i = 1:4] rows("loop that sleeps worst") using "timers":word(structures, i) with linespoints @draw
set title "{/:Bold worst call, every 2 ticks}"
plot for [i = 1:4] rows("loop of 2 ticks worst") using "timers":word(structures, i) with linespoints @draw
set title "{/:Bold a push-back, of many}"
set ytics ("1 ns" 1, "10 ns" 10, "100 ns" 100, "1 µs" 1000)
set yrange [0.7:2000]
plot for [i = 1:4] rows("push back") using "timers":word(structures, i) with linespoints @draw

unset title; unset border; unset tics; unset grid; unset xlabel
set key at graph 0.5,0.9 center top maxcols 1 samplen 2.5 spacing 1.5 reverse Left
set yrange [1:2]
plot for [i = 1:4] NaN with linespoints @draw title word(names, i)
