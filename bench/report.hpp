// Samples, their medians, and the table, CSV and JSON made of them.
#pragma once

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ostream.h>

namespace bench {

class samples {
public:
    void add(double value) { values_.push_back(value); }
    bool empty() const { return values_.empty(); }
    double min() const { return *std::min_element(values_.begin(), values_.end()); }
    double max() const { return *std::max_element(values_.begin(), values_.end()); }
    double median() const {
        auto sorted = values_;
        std::sort(sorted.begin(), sorted.end());
        return sorted[sorted.size() / 2];
    }

private:
    std::vector<double> values_;
};

// One measured row: samples by who ran it.
struct row_result {
    std::string work;
    std::string unit;
    std::size_t timers;
    std::map<std::string, samples> by;
};

class report {
public:
    row_result& row(const std::string& work, const std::string& unit, std::size_t timers) {
        for (row_result& r : rows_)
            if (r.work == work && r.timers == timers) return r;
        return rows_.emplace_back(row_result{work, unit, timers, {}});
    }

    void print() const {
        fmt::print("{:<26}{:>9}  {:<5}{:>24}{:>26}{:>9}{:>24}\n", "work", "timers", "unit",
                   "tvec (min..max)", "classic (min..max)", "ratio", "floors");
        for (const row_result& r : rows_)
            fmt::print("{:<26}{:>9}  {:<5}{:>24}{:>26}{:>9}{:>24}\n", r.work, r.timers, r.unit,
                       show(r, "tvec"), show(r, "classic"), ratio(r), floors(r));
    }

    void write_csv(const std::string& file) const {
        auto out = open(file);
        fmt::print(out, "work,timers,unit,structure,median,min,max\n");
        for (const row_result& r : rows_)
            for (const auto& [who, s] : r.by)
                fmt::print(out, "{},{},{},{},{:.4g},{:.4g},{:.4g}\n", r.work, r.timers, r.unit, who,
                           s.median(), s.min(), s.max());
    }

    void write_json(const std::string& file, const std::string& machine) const {
        auto out = open(file);
        fmt::print(out, "{{\n  \"machine\": \"{}\",\n  \"rows\": [", machine);
        const char* separator = "\n";
        for (const row_result& r : rows_)
            for (const auto& [who, s] : r.by) {
                fmt::print(out,
                           "{}    {{\"work\": \"{}\", \"timers\": {}, \"unit\": \"{}\", "
                           "\"structure\": \"{}\", \"median\": {:.4g}, \"min\": {:.4g}, "
                           "\"max\": {:.4g}}}",
                           separator, r.work, r.timers, r.unit, who, s.median(), s.min(), s.max());
                separator = ",\n";
            }
        fmt::print(out, "\n  ]\n}}\n");
    }

private:
    static std::ofstream open(const std::string& file) {
        std::ofstream out(file);
        if (!out) throw std::runtime_error("cannot write " + file);
        return out;
    }

    static std::string show(const row_result& r, const char* who) {
        const auto found = r.by.find(who);
        if (found == r.by.end()) return "-";
        const samples& s = found->second;
        return fmt::format("{:.3g} ({:.3g}..{:.3g})", s.median(), s.min(), s.max());
    }

    static std::string ratio(const row_result& r) {
        if (!r.by.contains("tvec") || !r.by.contains("classic")) return "-";
        const double x = r.by.at("tvec").median() / r.by.at("classic").median();
        return x < 0.01 ? fmt::format("1/{:.0f}", 1 / x) : fmt::format("{:.2f}", x);
    }

    static std::string floors(const row_result& r) {
        std::string text;
        for (const auto& [who, s] : r.by)
            if (who != "tvec" && who != "classic")
                text += fmt::format("{}{} {:.3g}", text.empty() ? "" : ", ", who, s.median());
        return text.empty() ? "-" : text;
    }

    std::vector<row_result> rows_;
};

}  // namespace bench
