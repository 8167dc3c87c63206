// A cron expression: its times on the local clock.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "date.hpp"
#include "times_of_day.hpp"

namespace tvec::durable::calendar {

class cron_rule {
public:
    static constexpr int first_year = 1970, last_year = 9999;

    // Reads the fields after the word cron.
    explicit cron_rule(std::string_view fields);

    // Returns the first local time of the rule at `from` or later.
    std::optional<local_seconds> at_or_after(local_seconds from) const;

    // Returns true if the rule comes in both passes of a repeated hour, and not in a gap.
    bool is_rhythm() const { return is_rhythm_; }

private:
    // The field of days.
    struct days_of_month {
        bool matches(const date& d) const;

        numbers plain{};
        numbers before_last{};          // L is 0, L-3 is 3
        numbers nearest_to{};           // 15W
        bool has_last_weekday = false;  // LW
    };
    // The field of weekdays. 0 is Sunday.
    struct days_of_week {
        bool matches(const date& d) const;

        numbers plain{};
        numbers last_of_month{};                // 5L
        std::array<numbers, 7> nth_of_month{};  // 5#3
    };

    struct some_years {
        void add(int year) { all.set(static_cast<std::size_t>(year)); }
        bool has(int year) const { return all[static_cast<std::size_t>(year)]; }

        std::bitset<last_year + 1> all;
    };

    void read_days(std::string_view field);
    void read_weekdays(std::string_view field);
    bool matches(const date& d) const;

    times_of_day times_;
    days_of_month days_;
    numbers months_;
    days_of_week weekdays_;
    std::optional<some_years> years_{};  // none: all
    bool either_day_ = false;            // one of the fields of days is enough
    bool is_rhythm_ = false;
};

}  // namespace tvec::durable::calendar
