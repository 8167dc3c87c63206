# Makes a table from lines "variant,operation,nanoseconds": medians, and ratios to the first variant. Used by
# scripts/bench --variants.

function median(variant, operation,   n, i, j, sorted, x) {
    n = count[variant, operation]
    for (i = 1; i <= n; ++i) {
        x = value[variant, operation, i]
        for (j = i - 1; j > 0 && sorted[j] > x; --j) sorted[j + 1] = sorted[j]
        sorted[j + 1] = x
    }
    return n % 2 ? sorted[(n + 1) / 2] : (sorted[n / 2] + sorted[n / 2 + 1]) / 2
}

BEGIN { FS = "," }
!($1 in seen) { seen[$1]; variants[++columns] = $1 }
!($2 in known) { known[$2]; operations[++rows] = $2 }
{ value[$1, $2, ++count[$1, $2]] = $3 + 0 }
END {
    printf "%-16s", "ns, median"
    for (i = 1; i <= columns; ++i) printf "%10s", variants[i]
    for (i = 2; i <= columns; ++i) printf "%16s", variants[i] " / " variants[1]
    print ""
    for (r = 1; r <= rows; ++r) {
        printf "%-16s", operations[r]
        for (i = 1; i <= columns; ++i) printf "%10.2f", taken[i] = median(variants[i], operations[r])
        for (i = 2; i <= columns; ++i) printf "%16.2f", (taken[1] > 0 ? taken[i] / taken[1] : 0)
        print ""
    }
}
