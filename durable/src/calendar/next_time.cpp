#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "cron_rule.hpp"
#include "local_rule.hpp"
#include "recurrence_rule.hpp"
#include "text.hpp"
#include "tvec/durable/calendar.hpp"
#include "tvec/durable/store.hpp"
#include "zone.hpp"

namespace tvec::durable {

namespace calendar {

namespace {

using std::chrono::seconds;
using kind = zone::instants::kind;

constexpr std::size_t longest_rule = 1000;  // bytes

// A rule in a zone.
class zoned_rule {
public:
    zoned_rule(const local_rule& rule, const zone& place) : rule_(rule), zone_(place) {}

    // Returns the first instant after `after`.
    std::optional<sys_seconds> next(sys_seconds after) const {
        return rule_.is_rhythm() ? next_beat(after) : next_moment(after);
    }

    // Returns the last instant that a local time stands for.
    sys_seconds last_of(local_seconds local) const {
        const auto found = zone_.of(local);
        return found.what == kind::left_out ? found.change : std::max(found.first, found.second);
    }

private:
    // For a rhythm. No matching local time lies between that of `after` and the one found, so only
    // the hour that `after` itself lies in may have a second pass before it.
    std::optional<sys_seconds> next_beat(sys_seconds after) const {
        const local_seconds now = zone_.local(after);
        const auto here = zone_.of(now);
        auto local = rule_.at_or_after(now + seconds(1));
        if (here.what == kind::two && after < here.change) {
            if (const auto soon = local ? zone_.of(*local) : here;
                local && soon.what == kind::two && soon.first < here.change)
                return soon.first;
            local = rule_.at_or_after(zone_.local(here.change));
        }
        while (local) {
            const auto found = zone_.of(*local);
            if (found.what != kind::left_out)
                return found.first > after ? found.first : found.second;
            local = rule_.at_or_after(zone_.local(found.change));
        }
        return std::nullopt;
    }

    // For any other rule. In a second pass it skips the times that came in the first.
    std::optional<sys_seconds> next_moment(sys_seconds after) const {
        local_seconds from = zone_.local(after) + seconds(1);
        while (const auto local = rule_.at_or_after(from)) {
            const auto found = zone_.of(*local);
            const auto at = found.what == kind::left_out ? found.change : found.first;
            if (at > after) return at;
            from = *local + seconds(1);
        }
        return std::nullopt;
    }

    const local_rule& rule_;
    const zone& zone_;
};

std::optional<sys_seconds> next_of_cron(std::string_view text, const zone& place,
                                        sys_seconds after) {
    return zoned_rule(cron_rule(text), place).next(after);
}

// Counts from the start on if the rule has a COUNT.
std::optional<sys_seconds> next_of_rrule(std::string_view text, const zone& place,
                                         sys_seconds after) {
    const recurrence_rule rule(capitals(text));
    const zoned_rule zoned(rule, place);
    const recurrence& r = rule.text();
    const auto start = place.of(r.start);
    const auto first = start.what == kind::left_out ? start.change : start.first;
    auto next = zoned.next(r.count ? first - seconds(1) : after);
    if (r.count) {
        for (int left = *r.count - 1; next && *next <= after; --left) {
            if (left == 0) return std::nullopt;
            next = zoned.next(*next);
        }
    }
    if (next && r.end) {
        const sys_seconds last = r.end->is_utc ? sys_seconds(r.end->since_1970)
                                               : zoned.last_of(local_seconds(r.end->since_1970));
        if (*next > last) return std::nullopt;
    }
    return next;
}

std::optional<sys_seconds> next(std::string_view rule, const zone& place, sys_seconds after) {
    if (rule.size() > longest_rule)
        refuse("rule", rule, "at most " + std::to_string(longest_rule) + " bytes");
    if (rule.starts_with("cron ")) return next_of_cron(rule.substr(5), place, after);
    if (rule.starts_with("rrule ")) return next_of_rrule(rule.substr(6), place, after);
    refuse("rule", rule, "cron or rrule, a space, and the rule");
}

}  // namespace

}  // namespace calendar

std::optional<time_point> next_time(std::string_view rule, std::string_view zone,
                                    time_point after) {
    after = std::clamp(after, earliest_due - duration(1), latest_due);
    const auto next =
        calendar::next(rule, calendar::zone(zone), std::chrono::floor<std::chrono::seconds>(after));
    if (!next || *next > latest_due) return std::nullopt;
    return *next;
}

}  // namespace tvec::durable
