// The text of a recurrence rule of RFC 5545, read and checked.
#pragma once

#include <array>
#include <bitset>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "local_rule.hpp"
#include "times_of_day.hpp"

namespace tvec::durable::calendar {

enum class frequency { yearly, monthly, weekly, daily, hourly, minutely, secondly };

// A set of numbers that count from the beginning, and of numbers that count from the end.
struct both_ends {
    std::bitset<367> from_start{};
    std::bitset<367> from_end{};

    bool is_empty() const { return from_start.none() && from_end.none(); }
    void add(int n) { (n < 0 ? from_end : from_start).set(static_cast<std::size_t>(std::abs(n))); }
    // Returns whether the n-th of `count` is in the set.
    bool has(int n, int count) const {
        return from_start[static_cast<std::size_t>(n)] ||
               from_end[static_cast<std::size_t>(count - n + 1)];
    }
};

// The end of a rule.
struct until {
    std::chrono::seconds since_1970;
    bool is_utc;
};

struct recurrence {
    // Reads the parts, after the word rrule. They are capitals.
    explicit recurrence(std::string_view parts);

    bool is_within_a_day() const { return freq >= frequency::hourly; }

    local_seconds start{};
    frequency freq{};
    int interval = 1;
    std::optional<int> count{};
    std::optional<until> end{};
    numbers months{};  // empty sets and lists: the part is missing
    both_ends weeks{};
    both_ends days_of_year{};
    both_ends days_of_month{};
    numbers weekdays{};
    std::array<both_ends, 7> nth_weekdays{};  // of a month or year, by the weekday: 0 is Sunday
    bool has_nth_weekdays = false;
    times_of_day times{};
    std::vector<int> positions{};
    int week_start = 1;

private:
    struct part {
        std::string_view name;
        std::string_view value;
    };
    void read(const part& p);
    void read_weekday(std::string_view text);
    void check() const;
    void fill_from_start();
};

}  // namespace tvec::durable::calendar
