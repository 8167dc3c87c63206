#include "recurrence_rule.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>

namespace tvec::durable::calendar {

namespace {

using std::chrono::days;

constexpr int seconds_in_day = 86'400;
constexpr int most_work = 500'000;

int unit_of(frequency f) {
    if (f == frequency::hourly) return 3600;
    if (f == frequency::minutely) return 60;
    return f == frequency::secondly ? 1 : seconds_in_day;
}

// Returns how many periods the cycle of the calendar has.
std::int64_t periods_in_cycle(frequency f) {
    if (f == frequency::yearly) return 400;
    if (f == frequency::monthly) return 4'800;
    if (f == frequency::weekly) return cycle.count() / 7;
    return cycle.count() * (seconds_in_day / unit_of(f));
}

int days_since(int weekday, int week_start) { return (weekday - week_start + 7) % 7; }

// Returns the first day of the month that lies `months` after January of the year 0.
local_days first_of_month(long long months) {
    if (months >= 120'000) return last_day + days(1);
    return local_days(std::chrono::year(static_cast<int>(months / 12)) /
                      static_cast<int>(months % 12 + 1) / 1);
}

int months_until(const date& d) { return d.year * 12 + d.month - 1; }

// The numbers of a list of positions within `count` items, from 0.
std::vector<int> chosen(const std::vector<int>& positions, int count) {
    std::vector<int> result;
    for (const int n : positions) {
        const int k = n > 0 ? n - 1 : count + n;
        if (k >= 0 && k < count) result.push_back(k);
    }
    std::ranges::sort(result);
    return result;
}

}  // namespace

recurrence_rule::recurrence_rule(std::string_view parts)
    : r_(parts), unit_(unit_of(r_.freq)), beginnings_(r_.times) {
    if (!r_.is_within_a_day()) return;
    numbers zero;
    zero.add(0);
    times_of_day rest = r_.times;
    rest.hours = zero;
    (r_.freq == frequency::hourly ? beginnings_ : rest).minutes = zero;
    (r_.freq == frequency::secondly ? rest : beginnings_).seconds = zero;
    for (int k = 0; k < rest.size(); ++k) offsets_.push_back(rest.nth(k));
    if (r_.positions.empty()) return;
    std::vector<int> kept;
    for (const int k : chosen(r_.positions, rest.size()))
        kept.push_back(offsets_[static_cast<std::size_t>(k)]);
    offsets_ = kept;
}

std::optional<local_seconds> recurrence_rule::at_or_after(local_seconds from) const {
    if (r_.is_within_a_day() && offsets_.empty()) return std::nullopt;
    from = std::max(from, r_.start);
    local_days day = std::chrono::floor<days>(from);
    int time = static_cast<int>((from - day).count());
    const bool by_period = !r_.positions.empty() && !r_.is_within_a_day();
    // The pattern of a rule comes again after so many cycles.
    const std::int64_t cycles =
        r_.interval / std::gcd<std::int64_t>(r_.interval, periods_in_cycle(r_.freq));
    const local_days last = std::min(last_day, day + cycle * cycles + days(366));
    for (;;) {
        const local_days next = first_of_a_period(day);
        if (next > last) return std::nullopt;
        if (next != day) time = 0;
        day = next;
        const date d(day);
        count_work(1);
        if (by_period) {
            const span whole = period_of(d);
            if (const auto found = by_position(whole, from)) return found;
            day = whole.end;
        } else if (!r_.months.is_empty() && !r_.months.has(d.month)) {
            day = d.next_month();
        } else {
            if (matches(d) && !is_barren(day)) {
                if (const auto found = in_day(day, time)) return found;
                if (time == 0 && all_are_barren_with(day)) return std::nullopt;
            }
            day += days(1);
        }
        time = 0;
    }
}

bool recurrence_rule::matches(const date& d) const {
    if (!r_.months.is_empty() && !r_.months.has(d.month)) return false;
    if (!r_.days_of_month.is_empty() && !r_.days_of_month.has(d.day, d.days_in_month)) return false;
    if (!r_.days_of_year.is_empty() && !r_.days_of_year.has(d.day_of_year(), d.days_in_year()))
        return false;
    if (!r_.weeks.is_empty() && !has_week_of(d)) return false;
    if (r_.weekdays.is_empty() && !r_.has_nth_weekdays) return true;
    return r_.weekdays.has(d.weekday) || has_nth_weekday(d);
}

// A week belongs to the year that has its fourth day.
bool recurrence_rule::has_week_of(const date& d) const {
    const date fourth(d.at + days(3 - days_since(d.weekday, r_.week_start)));
    const int week = (fourth.day_of_year() - 1) / 7 + 1;
    const int later_weeks = (fourth.days_in_year() - fourth.day_of_year()) / 7;
    return r_.weeks.has(week, week + later_weeks);
}

bool recurrence_rule::has_nth_weekday(const date& d) const {
    const bool in_month = r_.freq == frequency::monthly || !r_.months.is_empty();
    const int day = in_month ? d.day : d.day_of_year();
    const int count = in_month ? d.days_in_month : d.days_in_year();
    const int nth = (day - 1) / 7 + 1, later = (count - day) / 7;
    return r_.nth_weekdays[static_cast<std::size_t>(d.weekday)].has(nth, nth + later);
}

// Returns the year, month, week or day that has a day.
recurrence_rule::span recurrence_rule::period_of(const date& d) const {
    if (r_.freq == frequency::yearly)
        return {first_of_month(d.year * 12LL), first_of_month((d.year + 1) * 12LL)};
    if (r_.freq == frequency::monthly)
        return {first_of_month(months_until(d)), first_of_month(months_until(d) + 1)};
    const local_days monday = d.at - days(days_since(d.weekday, r_.week_start));
    if (r_.freq == frequency::weekly) return {monday, monday + days(7)};
    return {d.at, d.at + days(1)};
}

// Returns the first day at `day` or later that lies in a period of the interval.
local_days recurrence_rule::first_of_a_period(local_days day) const {
    const long long n = r_.interval;
    if (n == 1 || day > last_day) return day;
    if (r_.is_within_a_day()) {
        const long long passed = std::max(seconds_until(day), 0LL);
        const long long periods = (passed + unit_ - 1) / unit_;
        const long long next = (periods + n - 1) / n * n * unit_;
        return day + days((next - passed) / seconds_in_day);
    }
    const date d(day), start(std::chrono::floor<days>(r_.start));
    const local_days first = period_of(d).first;
    const auto of = [n](long long passed) { return (n - passed % n) % n; };
    if (r_.freq == frequency::yearly || r_.freq == frequency::monthly) {
        const bool by_year = r_.freq == frequency::yearly;
        const long long left =
            by_year ? of(d.year - start.year) * 12 : of(months_until(d) - months_until(start));
        if (left == 0) return day;
        return first_of_month((by_year ? d.year * 12 : months_until(d)) + left);
    }
    const int length = r_.freq == frequency::weekly ? 7 : 1;
    const long long left = of((first - period_of(start).first).count() / length);
    return left == 0 ? day : first + days(left * length);
}

// Returns the seconds from the beginning of the period of the start to the beginning of a day.
long long recurrence_rule::seconds_until(local_days day) const {
    const long long start = r_.start.time_since_epoch().count();
    const long long midnight = day.time_since_epoch().count() * seconds_in_day;
    const long long in_period = (start % unit_ + unit_) % unit_;
    return midnight - (start - in_period);
}

// Returns the place of a day in the interval: days in one place have the same times.
std::size_t recurrence_rule::place_of(local_days day) const {
    return static_cast<std::size_t>(seconds_until(day) / unit_ % r_.interval);
}

bool recurrence_rule::is_barren(local_days day) const {
    return !barren_.empty() && barren_[place_of(day)];
}

// Remembers that a day has no time. Returns true if no day of any place has one.
bool recurrence_rule::all_are_barren_with(local_days day) const {
    if (!r_.is_within_a_day() || r_.interval > seconds_in_day) return false;
    barren_.resize(static_cast<std::size_t>(r_.interval));
    barren_[place_of(day)] = true;
    ++barren_places_;
    return barren_places_ == r_.interval / std::gcd(r_.interval, seconds_in_day / unit_);
}

// Returns the first time of a day that matches, at `time` seconds of the day or later.
std::optional<local_seconds> recurrence_rule::in_day(local_days day, int time) const {
    const auto found = r_.is_within_a_day() ? in_periods_of(day, time) : r_.times.at_or_after(time);
    if (!found) return std::nullopt;
    return day + std::chrono::seconds(*found);
}

// Returns the same in a rule whose periods are hours, minutes or seconds.
std::optional<int> recurrence_rule::in_periods_of(local_days day, int time) const {
    const long long n = r_.interval, passed = seconds_until(day);
    int at = time - time % unit_;
    while (const auto next = beginnings_.at_or_after(at)) {
        count_work(1);
        assert(passed + *next >= 0);
        const long long late = (passed + *next) / unit_ % n;
        if (late == 0)
            for (const int offset : offsets_)
                if (*next + offset >= time) return *next + offset;
        const long long later = *next + (n - late) * unit_;
        if (later >= seconds_in_day) break;
        at = static_cast<int>(later);
    }
    return std::nullopt;
}

// Returns the first time at `from` or later that BYSETPOS chooses in a period of days.
std::optional<local_seconds> recurrence_rule::by_position(const span& whole,
                                                          local_seconds from) const {
    if (chosen_in_.first != whole.first || chosen_in_.end != whole.end) choose_in(whole);
    const auto found = std::ranges::lower_bound(chosen_, from);
    return found == chosen_.end() ? std::nullopt : std::optional(*found);
}

void recurrence_rule::choose_in(const span& whole) const {
    chosen_in_ = whole;
    chosen_.clear();
    std::vector<local_days> matching;
    for (local_days day = whole.first; day < whole.end; day += days(1))
        if (matches(date(day))) matching.push_back(day);
    const int in_day = r_.times.size();
    for (const int k : chosen(r_.positions, static_cast<int>(matching.size()) * in_day))
        chosen_.push_back(matching[static_cast<std::size_t>(k / in_day)] +
                          std::chrono::seconds(r_.times.nth(k % in_day)));
    count_work(static_cast<int>((whole.end - whole.first).count() + std::ssize(chosen_)));
}

// Any user may put a rule, and all timers wait while it is searched.
void recurrence_rule::count_work(int steps) const {
    work_ += steps;
    if (work_ > most_work)
        throw std::invalid_argument("rrule: found no time within " + std::to_string(most_work) +
                                    " days of search, expected parts that need fewer");
}

}  // namespace tvec::durable::calendar
