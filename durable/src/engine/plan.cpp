#include "plan.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <functional>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace tvec::durable {

namespace detail {

namespace {

constexpr std::string_view blanks = " \t";

[[noreturn]] void refuse(std::string_view found, const std::string& why) {
    throw std::invalid_argument("plan: \"" + std::string(found) + "\" " + why);
}

std::string_view trimmed(std::string_view s) {
    const std::size_t begin = std::min(s.find_first_not_of(blanks), s.size());
    s.remove_prefix(begin);
    return s.substr(0, s.find_last_not_of(blanks) + 1);
}

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (;;) {
        const std::size_t end = text.find(separator);
        parts.push_back(trimmed(text.substr(0, end)));
        if (end == text.npos) return parts;
        text.remove_prefix(end + 1);
    }
}

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> words = parts_of(text, ' ');
    std::erase(words, std::string_view());
    return words;
}

// Reads a whole number at the beginning of a text, and removes it from the text.
std::optional<std::int64_t> take_number(std::string_view& text) {
    std::int64_t n = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc() || text.starts_with('-')) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return n;
}

std::uint32_t count_of(std::string_view text) {
    std::string_view rest = text;
    const auto n = take_number(rest);
    if (!n || !rest.empty() || *n < 1 || *n > UINT32_MAX)
        refuse(text, "is no number: expected is a whole number from 1");
    return static_cast<std::uint32_t>(*n);
}

duration duration_of(std::string_view text) {
    using namespace std::chrono;
    constexpr std::pair<std::string_view, duration> units[] = {
        {"ms", duration(1)}, {"s", seconds(1)}, {"m", minutes(1)}, {"h", hours(1)}, {"d", days(1)}};
    std::string_view rest = text;
    const auto n = take_number(rest);
    const auto* const unit = std::ranges::find(units, rest, [](const auto& u) { return u.first; });
    if (!n || unit == std::end(units) || *n < 1 || *n > longest / unit->second)
        refuse(text, "is no duration: expected is a whole number with ms, s, m, h or d, up to "
                     "1000 days");
    return *n * unit->second;
}

double part_of(std::string_view text) {
    std::string_view rest = text;
    const auto n = take_number(rest);
    if (!n || rest != "%" || *n > 100) refuse(text, "is no part: expected is 0% to 100%");
    return static_cast<double>(*n) / 100;
}

retry_policy retry_of(std::string_view text) {
    const std::vector<std::string_view> words = words_of(text);
    const bool is_exponential = !words.empty() && words[0] == "exponential";
    if (words.size() < 2 || (!is_exponential && words[0] != "fixed"))
        refuse(text, "is no way to retry: expected is `exponential 1s to 1h` or `fixed 30s`");
    retry_policy r{duration_of(words[1]), is_exponential ? longest : duration_of(words[1])};
    std::size_t at = 2;
    if (is_exponential && at + 1 < words.size() && words[at] == "to") {
        r.longest = duration_of(words[at + 1]);
        if (r.longest < r.first) refuse(text, "has a longest delay that is below the first");
        at += 2;
    }
    if (at + 1 < words.size() && words[at] == "jitter") {
        r.jitter = part_of(words[at + 1]);
        at += 2;
    }
    if (at != words.size())
        refuse(words[at], "is not expected here: `to DURATION` or `jitter N%` may follow");
    return r;
}

// Reads the digits that a pattern has as zeros. Returns nothing if another character differs.
std::optional<std::vector<int>> numbers_of(std::string_view text, std::string_view pattern) {
    if (text.size() != pattern.size()) return std::nullopt;
    std::vector<int> numbers;
    bool is_inside = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool is_digit = pattern[i] == '0';
        if (is_digit ? text[i] < '0' || text[i] > '9' : text[i] != pattern[i]) return std::nullopt;
        if (is_digit && !is_inside) numbers.push_back(0);
        if (is_digit) numbers.back() = numbers.back() * 10 + (text[i] - '0');
        is_inside = is_digit;
    }
    return numbers;
}

time_point time_of(std::string_view text) {
    using namespace std::chrono;
    auto n = numbers_of(text, "0000-00-00T00:00:00Z");
    if (!n) n = numbers_of(text, "0000-00-00");
    if (n) {
        n->resize(6);
        const auto& v = *n;
        const year_month_day date{year{v[0]}, month{static_cast<unsigned>(v[1])},
                                  day{static_cast<unsigned>(v[2])}};
        if (date.ok() && v[0] >= 1970 && v[3] < 24 && v[4] < 60 && v[5] < 60)
            return sys_days(date) + hours(v[3]) + minutes(v[4]) + seconds(v[5]);
    }
    refuse(text, "is no time: expected is 2027-01-31 or 2027-01-31T18:00:00Z, from 1970 on");
}

void read_attempts(plan& p, std::string_view text) {
    constexpr std::string_view for_good = " for good";
    p.is_for_good = text.ends_with(for_good);
    if (p.is_for_good) text.remove_suffix(for_good.size());
    p.attempts = count_of(trimmed(text));
}

void read_clause(plan& p, std::string_view clause) {
    const std::string_view name = clause.substr(0, clause.find(' '));
    const std::string_view rest = trimmed(clause.substr(name.size()));
    if (name == "cron")
        p.rule = clause;
    else if (name == "zone")
        p.zone = rest;
    else if (name == "until")
        p.until = time_of(rest);
    else if (name == "times")
        p.times = count_of(rest);
    else if (name == "retry")
        p.retry = retry_of(rest);
    else if (name == "attempts")
        read_attempts(p, rest);
    else if (name == "rrule")  // until 0.5.0
        refuse(name, "is a rule that this version does not have: put the timer again with cron, "
                     "or with a period");
    else
        refuse(clause, "is no clause: expected is cron, zone, until, times, retry or attempts");
    if (rest.empty()) refuse(clause, "is empty");
}

// Returns the name of a clause, as a plan may have it once.
std::string_view kind_of(std::string_view clause) { return clause.substr(0, clause.find(' ')); }

bool is_of_retries(std::string_view clause) {
    return kind_of(clause) == "retry" || kind_of(clause) == "attempts";
}

bool is_printable(char c) { return c >= ' ' && c <= '~'; }

}  // namespace

plan parsed(std::string_view text) {
    if (text.empty()) return {};
    if (text.size() > longest_plan)
        throw std::invalid_argument("plan: it has " + std::to_string(text.size()) +
                                    " bytes, and may have " + std::to_string(longest_plan));
    if (!std::ranges::all_of(text, is_printable))
        throw std::invalid_argument("plan: it has a byte that is no printable ASCII character");
    plan p;
    std::set<std::string_view> kinds;
    for (const std::string_view clause : parts_of(text, '|')) {
        read_clause(p, clause);
        if (!kinds.insert(kind_of(clause)).second)
            refuse(clause, kind_of(clause) == "cron" ? "is a second rule: one is allowed"
                                                     : "is there twice: once is allowed");
    }
    if (p.rule.empty() && !p.zone.empty())
        refuse(p.zone, "is the zone of a rule, and there is none");
    return p;
}

duration take_delay(std::string_view& reason) {
    constexpr std::string_view word = "after ", end = ": ";
    const std::size_t colon = reason.find(end);
    if (!reason.starts_with(word) || colon == reason.npos) return duration::zero();
    try {
        const duration delay = duration_of(reason.substr(word.size(), colon - word.size()));
        reason.remove_prefix(colon + end.size());
        return delay;
    } catch (const std::invalid_argument&) {
        return duration::zero();
    }
}

bool has_only_retries(std::string_view text) {
    return std::ranges::all_of(parts_of(text, '|'), is_of_retries);
}

std::string retries_of(std::string_view text) {
    std::string kept;
    for (const std::string_view clause : parts_of(text, '|')) {
        if (!is_of_retries(clause)) continue;
        if (!kept.empty()) kept += " | ";
        kept += clause;
    }
    return kept;
}

std::optional<time_point> next_time_of(const plan& p, const calendar& dates, time_point after) {
    if (!dates)
        throw std::invalid_argument("plan: \"" + p.rule +
                                    "\" needs options::calendar, which is "
                                    "empty");
    const std::optional<time_point> next = dates(p.rule, p.zone, after);
    if (!next || *next > latest_due || (p.until && *next > *p.until)) return std::nullopt;
    return next;
}

duration delay_after(const retry_policy& r, std::uint32_t failures, double luck) noexcept {
    duration delay = r.first;
    for (std::uint32_t i = 1; i < failures && delay < r.longest; ++i)
        delay = std::min(2 * delay, r.longest);
    const double part = 1 + r.jitter * (2 * luck - 1);
    return duration(std::llround(static_cast<double>(delay.count()) * part));
}

}  // namespace detail

std::string plan_fault(std::string_view text, const calendar& dates) {
    try {
        const detail::plan p = detail::parsed(text);
        if (!p.rule.empty()) static_cast<void>(detail::next_time_of(p, dates, earliest_due));
    } catch (const std::exception& e) {
        return e.what();
    }
    return "";
}

std::optional<time_point> first_time(std::string_view text, const calendar& dates, time_point now) {
    const detail::plan p = detail::parsed(text);
    return p.rule.empty() ? std::nullopt : detail::next_time_of(p, dates, now);
}

}  // namespace tvec::durable
