#include "options.hpp"

#include <stdexcept>
#include <string>

#include "plan.hpp"

namespace tvec::durable {

const char* to_text(refusal r) noexcept {
    switch (r) {
    case refusal::none:
        return "not refused";
    case refusal::bad_id:
        return "the id is empty, or longer than 255 bytes";
    case refusal::body_too_large:
        return "the body is larger than 1 MiB";
    case refusal::bad_due:
        return "the deadline is before 1970 or after 9999, or the plan has no time left";
    case refusal::bad_period:
        return "the period is negative, or too long, or beside a plan with a rule";
    case refusal::bad_plan:
        return "the plan cannot be read: plan_fault says why";
    case refusal::bad_lease:
        return "the lease is not from 1 ms to 1000 days";
    case refusal::too_many:
        return "too many calls, or too many bytes of puts, are unanswered";
    case refusal::stopping:
        return "it is being stopped";
    }
    return "";
}

namespace detail {

namespace {

[[noreturn]] void refuse(const std::string& option, const std::string& found,
                         const std::string& wanted) {
    throw std::invalid_argument("tvec::durable::options::" + option + " is " + found +
                                ": it must be " + wanted);
}

void require(const char* option, duration d) {
    if (d >= duration(1) && d <= longest) return;
    refuse(option, std::to_string(d.count()) + " ms",
           "from 1 to " + std::to_string(longest.count()) + " ms");
}

void require(const char* option, std::size_t n) {
    if (n == 0) refuse(option, "0", "at least 1");
}

void require_default(const std::string& text) {
    plan p;
    try {
        p = parsed(text);
    } catch (const std::invalid_argument& e) {
        refuse("default_plan", '"' + text + '"', std::string("a plan; ") + e.what());
    }
    if (!p.rule.empty() || p.until || p.times != 0)
        refuse("default_plan", '"' + text + '"', "of `retry` and `attempts` clauses");
}

}  // namespace

options checked(options o) {
    require("horizon", o.horizon);
    require("window", o.window);
    require("claim_lease", o.claim_lease);
    require("shard_lease", o.shard_lease);
    require("sweep", o.sweep);
    require("retry", o.retry);
    require("max_deliveries_per_turn", o.max_deliveries_per_turn);
    require("turn_length", o.turn_length);
    require("max_calls", o.max_calls);
    require("max_put_bytes", o.max_put_bytes);
    require("max_held_bytes", o.max_held_bytes);
    require_default(o.default_plan);
    for (const auto& [prefix, most] : o.limits) require("limits", most);
    return o;
}

bool in_range(time_point due) { return due >= earliest_due && due <= latest_due; }

refusal fault_of_id(const std::string& id) {
    return id.empty() || id.size() > longest_id ? refusal::bad_id : refusal::none;
}

refusal fault_of_lease(duration lease) {
    return lease >= duration(1) && lease <= longest ? refusal::none : refusal::bad_lease;
}

refusal fault_of(const record& r) {
    if (fault_of_id(r.id) != refusal::none) return refusal::bad_id;
    if (r.body.size() > largest_body) return refusal::body_too_large;
    if (r.plan.size() > longest_plan) return refusal::bad_plan;
    if (!in_range(r.due)) return refusal::bad_due;
    if (r.every < duration::zero() || r.every > latest_due - r.due) return refusal::bad_period;
    return refusal::none;
}

}  // namespace detail

}  // namespace tvec::durable
