#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cron_rule.hpp"
#include "date.hpp"
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
    zoned_rule(const cron_rule& rule, const zone& place) : rule_(rule), zone_(place) {}

    // Returns the first instant after `after`.
    std::optional<sys_seconds> next(sys_seconds after) const {
        return rule_.is_rhythm() ? next_beat(after) : next_moment(after);
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

    const cron_rule& rule_;
    const zone& zone_;
};

// The days and local times that a rule leaves out.
class exceptions {
public:
    // Cuts each EXDATE=... out of the fields.
    exceptions(std::string& fields, const zone& place) : zone_(place) {
        while (cut(fields)) continue;
    }

    bool has(sys_seconds t) const {
        return has_day_of(t) || std::ranges::find(times_, t) != times_.end();
    }

    // Returns `t`, or the end of its day if that is left out as a whole.
    sys_seconds end_of(sys_seconds t) const {
        if (!has_day_of(t)) return t;
        const auto midnight = zone_.of(day_of(t) + std::chrono::days(1));
        const auto next = midnight.what == kind::left_out ? midnight.change : midnight.first;
        return std::max(t, next - seconds(1));
    }

private:
    // Cuts one out, and returns true if there was one.
    bool cut(std::string& fields) {
        const std::string name = "EXDATE=";
        const std::size_t at = fields.find(name);
        if (at == fields.npos || (at != 0 && fields[at - 1] != ' ')) return false;
        const std::size_t begin = at + name.size();
        const std::size_t end = std::min(fields.find(' ', begin), fields.size());
        for (const std::string_view item :
             split(std::string_view(fields).substr(begin, end - begin), ','))
            read(item);
        fields.erase(at == 0 ? 0 : at - 1, end - at + 1);
        return true;
    }

    local_days day_of(sys_seconds t) const {
        return std::chrono::floor<std::chrono::days>(zone_.local(t));
    }
    bool has_day_of(sys_seconds t) const {
        return std::ranges::find(days_, day_of(t)) != days_.end();
    }

    void read(std::string_view item) {
        if (item.size() == 8) {
            const local_seconds day = local_time("EXDATE", std::string(item) + "T000000");
            days_.push_back(std::chrono::floor<std::chrono::days>(day));
            return;
        }
        if (item.size() != 15 || item[8] != 'T')
            refuse("EXDATE", item,
                   "a date such as 20260105, or a local time such as 20260105T090000");
        const auto all = zone_.of(local_time("EXDATE", item));
        times_.push_back(all.what == kind::left_out ? all.change : all.first);
        if (all.what == kind::two) times_.push_back(all.second);
    }

    const zone& zone_;
    std::vector<local_days> days_{};
    std::vector<sys_seconds> times_{};
};

std::optional<sys_seconds> next(std::string_view rule, const zone& place, sys_seconds after) {
    if (rule.size() > longest_rule)
        refuse("rule", rule, "at most " + std::to_string(longest_rule) + " bytes");
    if (!rule.starts_with("cron ")) refuse("rule", rule, "cron, a space, and the fields");
    std::string fields = capitals(rule.substr(5));
    const exceptions left_out(fields, place);
    const cron_rule cron(fields);
    const zoned_rule zoned(cron, place);
    auto next = zoned.next(after);
    while (next && left_out.has(*next)) next = zoned.next(left_out.end_of(*next));
    return next;
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
