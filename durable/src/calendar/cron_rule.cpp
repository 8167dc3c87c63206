#include "cron_rule.hpp"

#include <algorithm>
#include <bitset>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "text.hpp"

namespace tvec::durable::calendar {

namespace {

constexpr std::array month_names{"JAN", "FEB", "MAR", "APR", "MAY", "JUN",
                                 "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};
constexpr std::array weekday_names{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"};

// A field: its values, and the names of the first of them.
struct field {
    const char* name;
    int low;
    int high;
    std::span<const char* const> names{};

    int value(std::string_view text) const {
        const auto found = std::ranges::find(names, text);
        if (found != names.end()) return low + static_cast<int>(found - names.begin());
        if (!names.empty() && (text.empty() || !is_digit(text.front())))
            refuse(name, text, std::string("a number or a name such as ") + names.front());
        return number(name, text, low, high);
    }
};

constexpr field second_field{"seconds", 0, 59};
constexpr field minute_field{"minutes", 0, 59};
constexpr field hour_field{"hours", 0, 23};
constexpr field day_field{"days of the month", 1, 31};
constexpr field month_field{"months", 1, 12, month_names};
constexpr field weekday_field{"days of the week", 0, 7, weekday_names};

constexpr field year_field{"years", cron_rule::first_year, cron_rule::last_year};

bool is_star(std::string_view text) { return text.starts_with('*') || text.starts_with('?'); }

// Returns whether a field of times begins with `*`, or with a start and a step: 5/10.
bool is_repeated(std::string_view text) {
    const std::string_view item = text.substr(0, text.find(','));
    return is_star(item) || (item.find('/') != item.npos && item.find('-') == item.npos);
}

// Returns the fields that a name such as @hourly stands for.
std::string_view fields_of(std::string_view name) {
    if (name == "@YEARLY" || name == "@ANNUALLY") return "0 0 1 1 *";
    if (name == "@MONTHLY") return "0 0 1 * *";
    if (name == "@WEEKLY") return "0 0 * * 0";
    if (name == "@DAILY" || name == "@MIDNIGHT") return "0 0 * * *";
    if (name == "@HOURLY") return "0 * * * *";
    refuse("cron", name, "@yearly, @monthly, @weekly, @daily or @hourly");
}

// Adds the values of a range, of `*`, or of one of these or a start with a step, or one value.
void add_item(const field& f, std::string_view item, auto& set) {
    const std::size_t slash = item.find('/'), dash = item.find('-');
    const std::string_view range = item.substr(0, slash);
    int first = f.low, last = f.high;
    if (range != "*") {
        first = last = f.value(range.substr(0, dash));
        if (dash != item.npos) {
            last = f.value(range.substr(std::min(dash + 1, range.size())));
            if (&f == &weekday_field && last == 0 && first > 0) last = 7;  // fri-sun
            if (last < first) refuse(f.name, item, "a range that does not go backwards");
        } else if (slash != item.npos) {
            // Programs disagree whether 1/2 has Sundays.
            if (&f == &weekday_field)
                refuse(f.name, item, "* or a range before the step, as in */2 or mon-fri/2");
            last = f.high;
        }
    }
    const int step =
        slash == item.npos ? 1 : number(f.name, item.substr(slash + 1), 1, f.high - f.low + 1);
    for (int n = first; n <= last; n += step) set.add(n);
}

numbers read(const field& f, std::string_view text) {
    numbers set;
    for (const std::string_view item : split(text, ',')) add_item(f, item, set);
    return set;
}

// Returns the day from Monday to Friday that is nearest to a day of the month, in the same month.
int nearest_weekday(const date& d, int day) {
    const int weekday = ((d.weekday + day - d.day) % 7 + 7) % 7;
    if (weekday == 6) return day > 1 ? day - 1 : day + 2;
    if (weekday == 0) return day < d.days_in_month ? day + 1 : day - 2;
    return day;
}

}  // namespace

cron_rule::cron_rule(std::string_view fields) {
    std::string text = capitals(fields);
    std::ranges::replace(text, '\t', ' ');
    std::vector<std::string_view> all = split(text, ' ');
    std::erase(all, std::string_view());
    if (all.size() == 1 && all[0].starts_with('@')) all = split(fields_of(all[0]), ' ');
    if (all.size() == 5) all.insert(all.begin(), "0");
    if (all.size() == 7 && all[6] != "*") {
        years_.emplace();
        for (const std::string_view item : split(all[6], ',')) add_item(year_field, item, *years_);
    } else if (all.size() != 6 && all.size() != 7) {
        refuse("cron", fields, "five fields, six with seconds first, or seven with years last");
    }
    times_ = {read(hour_field, all[2]), read(minute_field, all[1]), read(second_field, all[0])};
    read_days(all[3]);
    months_ = read(month_field, all[4]);
    read_weekdays(all[5]);
    is_rhythm_ = std::any_of(all.begin(), all.begin() + 3, is_repeated);
    either_day_ = !is_star(all[3]) && !is_star(all[5]);
}

void cron_rule::read_days(std::string_view text) {
    if (text == "?") text = "*";
    for (const std::string_view item : split(text, ',')) {
        if (item == "L")
            days_.before_last.add(0);
        else if (item == "LW")
            days_.has_last_weekday = true;
        else if (item.starts_with("L-"))
            days_.before_last.add(number(day_field.name, item.substr(2), 0, 30));
        else if (item.ends_with('W'))
            days_.nearest_to.add(number(day_field.name, item.substr(0, item.size() - 1), 1, 31));
        else
            add_item(day_field, item, days_.plain);
    }
}

void cron_rule::read_weekdays(std::string_view text) {
    if (text == "?") text = "*";
    numbers plain;
    for (const std::string_view item : split(text, ',')) {
        const std::size_t hash = item.find('#');
        if (hash != item.npos) {
            const int nth = number(weekday_field.name, item.substr(hash + 1), 1, 5);
            const auto day =
                static_cast<std::size_t>(weekday_field.value(item.substr(0, hash)) % 7);
            weekdays_.nth_of_month[day].add(nth);
        } else if (item.ends_with('L')) {
            const int day = weekday_field.value(item.substr(0, item.size() - 1));
            weekdays_.last_of_month.add(day % 7);
        } else {
            add_item(weekday_field, item, plain);
        }
    }
    for (int n = plain.first(); n < 64; n = plain.at_or_after(n + 1)) weekdays_.plain.add(n % 7);
}

bool cron_rule::days_of_month::matches(const date& d) const {
    if (plain.has(d.day) || before_last.has(d.days_in_month - d.day)) return true;
    if (has_last_weekday && nearest_weekday(d, d.days_in_month) == d.day) return true;
    for (int n = nearest_to.first(); n <= d.days_in_month; n = nearest_to.at_or_after(n + 1))
        if (nearest_weekday(d, n) == d.day) return true;
    return false;
}

bool cron_rule::days_of_week::matches(const date& d) const {
    if (plain.has(d.weekday)) return true;
    if (last_of_month.has(d.weekday) && d.day + 7 > d.days_in_month) return true;
    return nth_of_month[static_cast<std::size_t>(d.weekday)].has((d.day + 6) / 7);
}

bool cron_rule::matches(const date& d) const {
    if (!months_.has(d.month)) return false;
    if (either_day_) return days_.matches(d) || weekdays_.matches(d);
    return days_.matches(d) && weekdays_.matches(d);
}

std::optional<local_seconds> cron_rule::at_or_after(local_seconds from) const {
    local_days day = std::chrono::floor<std::chrono::days>(from);
    int time = static_cast<int>((from - day).count());
    const local_days last =
        years_ ? last_day : std::min(last_day, day + cycle + std::chrono::days(1));
    std::bitset<400> searched;  // years from their first day on
    while (day <= last) {
        const date d(day);
        // A year has the days of each year that lies 400 before or after it.
        const bool is_new_year = d.day_of_year() == 1;
        const auto place = static_cast<std::size_t>(d.year % 400);
        if (years_ && (!years_->has(d.year) || (is_new_year && searched[place]))) {
            day = local_days(std::chrono::year(d.year + 1) / std::chrono::January / 1);
            time = 0;
            continue;
        }
        if (is_new_year) searched.set(place);
        if (matches(d))
            if (const auto found = times_.at_or_after(time))
                return day + std::chrono::seconds(*found);
        day = months_.has(d.month) ? day + std::chrono::days(1) : d.next_month();
        time = 0;
    }
    return std::nullopt;
}

}  // namespace tvec::durable::calendar
