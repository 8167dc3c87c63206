# Draws the lag of events by the number of other keys: gnuplot -e "lags='FILE'" lag.gp >redis_lag.svg
# FILE is what `measure.py --lags FILE` writes: a line for each server and number of keys.
set terminal svg size 900,460 font "sans-serif,14" background "white"
set border 3 lc rgb "#777777"
set grid ytics lc rgb "#dddddd" lw 0.7
set xtics nomirror textcolor rgb "#333333" ("0" 0, "10 000" 1, "100 000" 2, "1 000 000" 3)
set ytics nomirror textcolor rgb "#333333" ("1 ms" 1, "10 ms" 10, "100 ms" 100, "1 s" 1000, "10 s" 10000, "60 s" 60000)
set logscale y
set xrange [-0.3:3.3]
set yrange [0.7:120000]
set xlabel "other keys with a time to live"
set title "How late the event of an expired key comes: 1000 keys due at once" font ",17"
set key outside bottom center horizontal font ",14" samplen 2.5 spacing 1.3
of(who) = sprintf("< awk '$1 == \"%s\"' '%s'", who, lags)
# The share that came within 60 s stands beside a median that nobody saw.
plot of("stock") using 2:(column(3)) with linespoints lc rgb "#222222" lw 1.5 pt 5 ps 0.8 title "Redis 7.0, median", \
     of("stock") using 2:(column(3) * 0.42):(strcol(5) eq "1000" ? "" : strcol(5) . " came in 60 s") with labels font ",12" textcolor rgb "#222222" notitle, \
     of("module") using 2:3 with linespoints lc rgb "#e4002b" lw 4 pt 7 ps 0.8 title "with the module, median", \
     of("module") using 2:4 with linespoints lc rgb "#e4002b" lw 1.5 dt 2 pt 6 ps 0.8 title "with the module, p99"
