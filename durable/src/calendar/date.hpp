// A day of the local clock, which knows nothing of time zones.
#pragma once

#include <chrono>

namespace tvec::durable::calendar {

using std::chrono::local_days;
using std::chrono::local_seconds;

// A day, and what rules ask of it.
struct date {
    explicit date(local_days d)
        : at(d), ymd(d), year(int(ymd.year())), month(int(unsigned(ymd.month()))),
          day(int(unsigned(ymd.day()))),
          days_in_month(int(unsigned((ymd.year() / ymd.month() / std::chrono::last).day()))),
          weekday(int(std::chrono::weekday(d).c_encoding())) {}

    // Returns the day of the year, from 1.
    int day_of_year() const {
        return int((at - local_days(ymd.year() / std::chrono::January / 1)).count()) + 1;
    }
    local_days next_month() const { return at + std::chrono::days(days_in_month - day + 1); }

    local_days at;
    std::chrono::year_month_day ymd;
    int year;
    int month;
    int day;
    int days_in_month;
    int weekday;  // 0 is Sunday
};

// The last day that is searched.
inline constexpr local_days last_day{std::chrono::year(9999) / 12 / 31};

// The pattern of days comes again after 400 years.
inline constexpr std::chrono::days cycle{146'097};

}  // namespace tvec::durable::calendar
