# Called by run-orders --plot, with the folder of its samples and the output.
set terminal svg size 800,430 font "sans-serif,14" background "white"
set output output
set border 3 lc rgb "#777777"
set grid ytics lc rgb "#dddddd"
set xtics nomirror
set ytics nomirror
set key at graph 0.02,0.9 left top Left reverse samplen 2
set xlabel "seconds"
set ylabel "orders"
set title "An order service that is killed with -9: every order is paid or closed"
kills = system(sprintf("cat '%s/kills'", folder))
do for [k = 1:words(kills)] {
    at = word(kills, k) + 0
    set arrow k from at, graph 0 to at, graph 1 nohead dt 2 lc rgb "#e4002b"
    set label k "kill -9" at at, graph 0.95 offset 0.3,0 textcolor rgb "#e4002b" font ",12"
}
samples = folder."/samples"
plot samples using 1:2 with lines lw 2 lc rgb "#222222" title "placed", \
    samples using 1:3 with lines lw 2 lc rgb "#4477aa" title "paid", \
    samples using 1:4 with lines lw 2 lc rgb "#77bb77" title "closed, not paid in time", \
    samples using 1:5 with lines lw 2 lc rgb "#e4002b" title "still open"
