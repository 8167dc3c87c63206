// Samples, their medians and spreads, and the tables and CSV made of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "../../examples/support/program.hpp"

namespace bench {

// One per repetition.
class samples {
public:
    void add(double value) { values_.push_back(value); }
    double median() const {
        auto sorted = values_;
        std::sort(sorted.begin(), sorted.end());
        const std::size_t half = sorted.size() / 2;
        return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
    }
    // The median absolute deviation from the median.
    double spread() const {
        samples deviations;
        for (const double x : values_) deviations.add(std::abs(x - median()));
        return deviations.median();
    }
    // The median of the ratios within each repetition; of the medians, if these are not as many.
    double over(const samples& other) const {
        if (values_.size() != other.values_.size()) return median() / other.median();
        samples ratios;
        for (std::size_t i = 0; i < values_.size(); ++i) ratios.add(values_[i] / other.values_[i]);
        return ratios.median();
    }

private:
    std::vector<double> values_;
};

// Three digits, and k, M, G for what would be long.
inline std::string short_number(double x) {
    if (x == 0) return "0";
    static constexpr const char* suffixes[] = {"", "k", "M", "G"};
    unsigned i = 0;
    for (; x >= 999.5 && i < 3; ++i) x /= 1'000;
    const int decimals = x >= 99.95 ? 0 : x >= 9.995 ? 1 : x >= 0.0995 ? 2 : 3;
    return fmt::format("{:.{}f}{}", x, decimals, suffixes[i]);
}

inline std::string short_ratio(double x) {
    return x < 0.01 ? fmt::format("1/{:.0f}", 1 / x) : fmt::format("{:.2f}", x);
}

inline std::set<std::string, std::less<>> coarse_structures;  // which fire late

// The samples of one work with one number of timers, by structure.
struct row_result {
    std::string work;
    std::string unit;
    std::size_t timers;
    bool is_tail;  // a quantile of a distribution
    std::map<std::string, samples, std::less<>> by;

    const samples* of(std::string_view who) const {
        const auto found = by.find(who);
        return found == by.end() ? nullptr : &found->second;
    }
    std::optional<double> ratio_to(std::string_view who) const {
        if (of("tvec") == nullptr || of(who) == nullptr) return std::nullopt;
        return of("tvec")->over(*of(who));
    }
    // Returns the exact structure that needs least, empty if no other can do it.
    std::string best_rival() const {
        std::string best;
        for (const auto& [who, s] : by)
            if (who != "tvec" && who != "floor" && !coarse_structures.contains(who) &&
                (best.empty() || s.median() < of(best)->median()))
                best = who;
        return best;
    }
};

class report {
public:
    row_result& row(const std::string& work, const std::string& unit, std::size_t timers,
                    bool is_tail = false) {
        for (row_result& r : rows_)
            if (r.work == work && r.timers == timers) return r;
        return rows_.emplace_back(row_result{work, unit, timers, is_tail, {}});
    }

    // All works at all sizes, then the distributions at the largest.
    void print(const std::vector<std::string>& structures) const {
        std::size_t largest = 0;
        for (const row_result& r : rows_) largest = std::max(largest, r.timers);
        print_rows("work", structures, [](const row_result& r) { return !r.is_tail; });
        print_rows("distribution", structures,
                   [=](const row_result& r) { return r.is_tail && r.timers == largest; });
    }

    bool empty() const { return rows_.empty(); }

    // A line for each row: the median of each structure, tvec's ratio to each, and the spreads.
    void write_csv(example::output_file& file, const std::string& machine) const {
        std::FILE* const out = file.get();
        std::set<std::string> all;
        for (const row_result& r : rows_)
            for (const auto& [who, s] : r.by) all.insert(who);
        fmt::print(out, "# {}\nwork,timers,unit,{},tvec / {},spread {}\n", machine,
                   fmt::join(all, ","), fmt::join(all, ",tvec / "), fmt::join(all, ",spread "));
        for (const row_result& r : rows_) {
            fmt::print(out, "{},{},{}", r.work, r.timers, r.unit);
            for (const std::string& who : all) fmt::print(out, ",{}", median_or_nothing(r, who));
            for (const std::string& who : all) fmt::print(out, ",{}", ratio_or_nothing(r, who));
            for (const std::string& who : all) fmt::print(out, ",{}", spread_or_nothing(r, who));
            fmt::print(out, "\n");
        }
        file.finish();
    }

private:
    static std::string median_or_nothing(const row_result& r, std::string_view who) {
        const samples* const s = r.of(who);
        return s == nullptr ? "" : fmt::format("{:.4g}", s->median());
    }

    static std::string spread_or_nothing(const row_result& r, std::string_view who) {
        const samples* const s = r.of(who);
        return s == nullptr ? "" : fmt::format("{:.4g}", s->spread());
    }

    static std::string ratio_or_nothing(const row_result& r, std::string_view who) {
        const auto ratio = r.ratio_to(who);
        return ratio && std::isfinite(*ratio) ? fmt::format("{:.4g}", *ratio) : "";
    }

    // Sizes of one work below each other.
    template <class F>
    void print_rows(const char* title, const std::vector<std::string>& structures, F wanted) const {
        std::vector<const row_result*> chosen;
        for (const row_result& r : rows_)
            if (wanted(r)) chosen.push_back(&r);
        if (chosen.empty()) return;
        const auto place = [&](const row_result* r) {
            return std::find_if(chosen.begin(), chosen.end(),
                                [&](const row_result* o) { return o->work == r->work; });
        };
        auto grouped = chosen;
        std::stable_sort(grouped.begin(), grouped.end(),
                         [&](auto* a, auto* b) { return place(a) < place(b); });
        fmt::print("{:<24}{:>9} {:<5}{:>13}  {:<23}{:>7} ", title, "timers", "unit", "tvec",
                   "best rival", "ratio");
        for (const std::string& who : structures) fmt::print("{:>{}}", who, width_of(who));
        fmt::print("\n");
        for (const row_result* r : grouped) print_row(*r, structures);
        fmt::print("\n");
    }

    static void print_row(const row_result& r, const std::vector<std::string>& structures) {
        const std::string best = r.best_rival();
        const auto ratio = r.ratio_to(best);
        fmt::print("{:<24}{:>9} {:<5}{:>13}  {:<23}{:>7} ", r.work, r.timers, r.unit,
                   show(r, "tvec"), best.empty() ? "-" : best + " " + show(r, best),
                   ratio && std::isfinite(*ratio) ? short_ratio(*ratio) : "-");
        for (const std::string& who : structures) fmt::print("{:>{}}", show(r, who), width_of(who));
        fmt::print("\n");
    }

    static std::size_t width_of(const std::string& who) {
        return std::max<std::size_t>(13, who.size() + 1);
    }

    static std::string show(const row_result& r, std::string_view who) {
        const samples* const s = r.of(who);
        if (s == nullptr) return "-";
        const double spread = s->median() > 0 ? 100 * s->spread() / s->median() : 0;
        return short_number(s->median()) + (spread > 0 ? fmt::format(" ±{:.0f}%", spread) : "");
    }

    std::vector<row_result> rows_;
};

}  // namespace bench
