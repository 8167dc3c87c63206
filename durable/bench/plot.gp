# Draws durable.png into `folder`, from `points`, which has a line for each way to keep timers:
#   awk -v plot=yes -f tables.awk results/durable.csv >points; gnuplot -e "points='points'; folder='.'" plot.gp

set terminal pngcairo size 1200,560 font "DejaVu Sans Condensed,10" fontscale 0.8 background "white"
set output folder."/durable.png"
set datafile separator "\t"

n = int(system(sprintf("wc -l <'%s'", points)))
# From the top down, with a gap before each store.
stores = ""
gaps = 0
at(i) = word(places, i) + 0
places = ""
do for [i = 1:n] {
    line = system(sprintf("sed -n %dp '%s' | cut -f1 | tr ' ' _", i, points))
    if (i > 1 && line ne stores) { gaps = gaps + 1 }
    stores = line
    places = places.sprintf(" %.1f", -i - 0.6 * gaps)
}
row(i) = at(int(i) + 1)
is_tvec(side) = side eq "tvec"
red = 0xe4002b; grey = 0x5577aa
colour(side) = is_tvec(side) ? red : grey
label(store, side) = is_tvec(side) ? store."   {/:Bold tvec}" : store."   ".side

set style line 100 lc rgb "#dddddd" lw 0.7
set border 1 lc rgb "#777777"
set xtics nomirror textcolor rgb "#333333"
set yrange [at(n) - 0.7:at(1) + 0.7]
set grid xtics ls 100
set key at graph 0.5,1.0 center bottom maxrows 1 samplen 1 spacing 1.2 font ",13"
set style fill solid 0.9 noborder

set multiplot title "Durable timers, 10 000 put and due per second; puts with ids at random" font ",17"
set tmargin at screen 0.83; set bmargin at screen 0.11

set lmargin at screen 0.225; set rmargin at screen 0.475
set ytics scale 0 font ",13" textcolor rgb "#333333"
set xlabel "how late, ms"
set logscale x; set xrange [0.1:*]
plot points using 3:(row($0)):3:4:ytic(label(strcol(1), strcol(2))) with xerrorbars pt 0 lc rgb "#bbbbbb" lw 5 notitle, \
    points using 3:(row($0)):(colour(strcol(2))) with points pt 7 ps 1.1 lc rgb variable notitle, \
    points using 4:(row($0)):(colour(strcol(2))) with points pt 6 ps 1.1 lw 2 lc rgb variable notitle, \
    NaN with points pt 7 lc rgb grey title "p50", NaN with points pt 6 lw 2 lc rgb grey title "p99"

unset ytics; unset logscale
set lmargin at screen 0.51; set rmargin at screen 0.73
set xlabel "processor, % of a core"
set xrange [0:*]
plot points using (0):(row($0)):(0):5:(row($0) - 0.32):(row($0) + 0.32):(colour(strcol(2))) with boxxyerror lc rgb variable notitle, \
    points using 5:(row($0)):5:($5 + $6):(row($0) - 0.32):(row($0) + 0.32) with boxxyerror fc rgb "#c0c0c0" notitle, \
    NaN with boxes fc rgb grey title "the program", NaN with boxes fc rgb "#c0c0c0" title "its server"

set logscale x; set xrange [100:1e6]; set format x "10^{%T}"
set lmargin at screen 0.765; set rmargin at screen 0.975
set xlabel "puts stored per second"
plot points using 7:(row($0)):(colour(strcol(2))) with points pt 4 ps 1.1 lw 2 lc rgb variable notitle, \
    points using 8:(row($0)):(colour(strcol(2))) with points pt 5 ps 1.1 lc rgb variable notitle, \
    NaN with points pt 4 lw 2 lc rgb grey title "one by one", NaN with points pt 5 lc rgb grey title "many"
unset multiplot
