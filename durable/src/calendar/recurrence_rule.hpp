// The times of a recurrence rule on the local clock. An object looks at a bounded number of days,
// and then throws: a caller that counts on keeps one.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "local_rule.hpp"
#include "recurrence.hpp"

namespace tvec::durable::calendar {

class recurrence_rule : public local_rule {
public:
    explicit recurrence_rule(std::string_view parts);

    std::optional<local_seconds> at_or_after(local_seconds from) const override;
    bool is_rhythm() const override { return r_.is_within_a_day(); }

    const recurrence& text() const { return r_; }

private:
    struct span {
        local_days first;
        local_days end;  // the day after the last
    };

    bool matches(const date& d) const;
    bool has_week_of(const date& d) const;
    bool has_nth_weekday(const date& d) const;

    span period_of(const date& d) const;
    local_days first_of_a_period(local_days day) const;
    long long seconds_until(local_days day) const;

    std::size_t place_of(local_days day) const;
    bool is_barren(local_days day) const;
    bool all_are_barren_with(local_days day) const;
    std::optional<local_seconds> in_day(local_days day, int time) const;
    std::optional<int> in_periods_of(local_days day, int time) const;
    std::optional<local_seconds> by_position(const span& whole, local_seconds from) const;
    void choose_in(const span& whole) const;
    void count_work(int steps) const;

    recurrence r_;
    // For periods within a day: their length, the times of day when they begin, and the times in
    // one of them.
    int unit_ = 86'400;
    times_of_day beginnings_;
    std::vector<int> offsets_;
    mutable std::vector<bool> barren_{};  // by place in the interval; empty until one is found
    mutable int barren_places_ = 0;
    mutable span chosen_in_{};                     // the last period that BYSETPOS was applied to
    mutable std::vector<local_seconds> chosen_{};  // its times
    mutable int work_ = 0;                         // days and times that were looked at
};

}  // namespace tvec::durable::calendar
