#include "recurrence.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "text.hpp"

namespace tvec::durable::calendar {

namespace {

constexpr std::array frequencies{"YEARLY", "MONTHLY",  "WEEKLY",  "DAILY",
                                 "HOURLY", "MINUTELY", "SECONDLY"};
constexpr std::array weekday_codes{"SU", "MO", "TU", "WE", "TH", "FR", "SA"};

constexpr int most_times = 10'000;

until end_of(std::string_view part, std::string_view text) {
    const bool is_utc = text.ends_with('Z');
    if (is_utc) text.remove_suffix(1);
    return {local_time(part, text).time_since_epoch(), is_utc};
}

// Reads a number that may have a sign, and is not 0.
int signed_number(std::string_view part, std::string_view text, int most) {
    const bool has_sign = text.starts_with('-') || text.starts_with('+');
    const int n = number(part, text.substr(has_sign ? 1 : 0), 1, most);
    return text.starts_with('-') ? -n : n;
}

numbers set_of(std::string_view part, std::string_view list, int low, int high) {
    numbers set;
    for (const std::string_view item : split(list, ',')) set.add(number(part, item, low, high));
    return set;
}

both_ends signed_set_of(std::string_view part, std::string_view list, int most) {
    both_ends set;
    for (const std::string_view item : split(list, ',')) set.add(signed_number(part, item, most));
    return set;
}

int index_in(const auto& names, std::string_view part, std::string_view text, const char* wanted) {
    const auto found = std::ranges::find(names, text);
    if (found == names.end()) refuse(part, text, wanted);
    return static_cast<int>(found - names.begin());
}

int weekday_of(std::string_view part, std::string_view text) {
    return index_in(weekday_codes, part, text, "a weekday such as MO");
}

}  // namespace

recurrence::recurrence(std::string_view parts) {
    std::vector<std::string_view> seen;
    for (const std::string_view text : split(parts, ';')) {
        const std::size_t equals = text.find('=');
        if (equals == text.npos) refuse("rrule", text, "a part such as FREQ=DAILY");
        const part p{text.substr(0, equals), text.substr(equals + 1)};
        if (std::ranges::find(seen, p.name) != seen.end())
            refuse("rrule", p.name, "each part only once");
        seen.push_back(p.name);
        read(p);
    }
    for (const std::string_view needed : {"DTSTART", "FREQ"})
        if (std::ranges::find(seen, needed) == seen.end())
            refuse("rrule", parts, "a part " + std::string(needed));
    check();
    fill_from_start();
}

void recurrence::read(const part& p) {
    const auto [name, value] = p;
    if (name == "DTSTART")
        start = local_time(name, value);
    else if (name == "FREQ")
        freq = static_cast<frequency>(index_in(frequencies, name, value, "YEARLY to SECONDLY"));
    else if (name == "INTERVAL")
        interval = number(name, value, 1, 999'999'999);
    else if (name == "COUNT")
        count = number(name, value, 1, most_times);
    else if (name == "UNTIL")
        end = end_of(name, value);
    else if (name == "BYMONTH")
        months = set_of(name, value, 1, 12);
    else if (name == "BYWEEKNO")
        weeks = signed_set_of(name, value, 53);
    else if (name == "BYYEARDAY")
        days_of_year = signed_set_of(name, value, 366);
    else if (name == "BYMONTHDAY")
        days_of_month = signed_set_of(name, value, 31);
    else if (name == "BYDAY")
        for (const std::string_view item : split(value, ',')) read_weekday(item);
    else if (name == "BYHOUR")
        times.hours = set_of(name, value, 0, 23);
    else if (name == "BYMINUTE")
        times.minutes = set_of(name, value, 0, 59);
    else if (name == "BYSECOND")
        times.seconds = set_of(name, value, 0, 59);
    else if (name == "BYSETPOS")
        for (const std::string_view item : split(value, ','))
            positions.push_back(signed_number(name, item, 366));
    else if (name == "WKST")
        week_start = weekday_of(name, value);
    else
        refuse("rrule", name, "DTSTART or a part of an RRULE of RFC 5545");
}

// Reads MO, 2MO or -1MO.
void recurrence::read_weekday(std::string_view text) {
    const std::size_t digits = text.size() < 2 ? 0 : text.size() - 2;
    const int weekday = weekday_of("BYDAY", text.substr(digits));
    if (digits == 0)
        weekdays.add(weekday);
    else
        nth_weekdays[static_cast<std::size_t>(weekday)].add(
            signed_number("BYDAY", text.substr(0, digits), 53));
    has_nth_weekdays = has_nth_weekdays || digits != 0;
}

// Refuses the combinations that RFC 5545 forbids, and those that programs read in several ways.
void recurrence::check() const {
    using enum frequency;
    const auto needs = [](bool is_fine, const char* name, const char* wanted) {
        if (!is_fine) refuse("rrule", name, wanted);
    };
    needs(!count || !end, "COUNT", "no UNTIL beside it");
    needs(weeks.is_empty() || freq == yearly, "BYWEEKNO", "FREQ=YEARLY beside it");
    needs(weeks.is_empty() || !weekdays.is_empty(), "BYWEEKNO", "BYDAY beside it");
    needs(weeks.is_empty() || !has_nth_weekdays, "BYWEEKNO", "BYDAY without numbers beside it");
    needs(days_of_year.is_empty() || (freq != daily && freq != weekly && freq != monthly),
          "BYYEARDAY", "FREQ=YEARLY, HOURLY, MINUTELY or SECONDLY beside it");
    needs(days_of_month.is_empty() || freq != weekly, "BYMONTHDAY", "no FREQ=WEEKLY beside it");
    needs(!has_nth_weekdays || freq == yearly || freq == monthly, "BYDAY",
          "FREQ=MONTHLY or YEARLY beside a number");
    const bool has_list = !months.is_empty() || !weeks.is_empty() || !days_of_year.is_empty() ||
                          !days_of_month.is_empty() || !weekdays.is_empty() || has_nth_weekdays ||
                          !times.hours.is_empty() || !times.minutes.is_empty() ||
                          !times.seconds.is_empty();
    needs(positions.empty() || has_list, "BYSETPOS", "another BY part beside it");
}

// The time, the day and the month that the rule leaves open are those of the start.
void recurrence::fill_from_start() {
    const date d(std::chrono::floor<std::chrono::days>(start));
    const auto time = static_cast<int>((start - d.at).count());
    const auto fill = [&](numbers& set, frequency unit, int of_start, int count_of_all) {
        if (!set.is_empty()) return;
        if (freq >= unit)
            set = numbers::all(count_of_all);
        else
            set.add(of_start);
    };
    fill(times.hours, frequency::hourly, time / 3600, 24);
    fill(times.minutes, frequency::minutely, time / 60 % 60, 60);
    fill(times.seconds, frequency::secondly, time % 60, 60);
    if (!weeks.is_empty() || !days_of_year.is_empty() || !days_of_month.is_empty() ||
        !weekdays.is_empty() || has_nth_weekdays || freq >= frequency::daily)
        return;
    if (freq == frequency::weekly) {
        weekdays.add(d.weekday);
        return;
    }
    days_of_month.add(d.day);
    if (freq == frequency::yearly && months.is_empty()) months.add(d.month);
}

}  // namespace tvec::durable::calendar
