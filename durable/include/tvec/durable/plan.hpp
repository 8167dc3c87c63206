/// \file
/// Plans of durable timers: texts that say when a timer comes again, and how it is retried.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tvec/core/detail/export.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable {

/// Finds the first time of a rule after `after`, in a time zone; "" is UTC. The rule is a clause of
/// a plan: `cron 0 9 * * mon-fri`. Returns nothing if no time is left. Throws
/// std::invalid_argument, which says what is wrong with the rule or the zone.
using calendar = std::function<std::optional<time_point>(std::string_view rule,
                                                         std::string_view zone, time_point after)>;

/// A deadline for `put`: the first time after now of the rule of the plan.
inline constexpr time_point by_plan = time_point::max();

/// Returns what is wrong with a plan, in a sentence, or "". The rule is checked by `dates`. A plan
/// with a rule has a fault if `dates` is empty.
///
/// A plan is a text of clauses, with `|` between them. Each occurs at most once:
///
///  * `cron FIELDS`: the rule, by which the timer comes again.
///  * `zone Europe/Berlin`: the time zone of the rule. Without it the rule counts in UTC.
///  * `until 2027-01-01T00:00:00Z`, or a date alone: no beat comes later.
///  * `times 10`: the timer has so many beats, each of which is done or given up.
///  * `retry exponential 1s to 1h jitter 20%`: the delay after the first failure, which doubles
///    with each failure in a row, up to the second duration. `retry fixed 30s`: always the same.
///    `to` and `jitter` may be missing. With jitter, a delay is by up to that part shorter or
///    longer, at random.
///  * `attempts 5`: so many failures in a row make a dead letter. If a timer with a rule or a
///    period has another beat, only this one is given up: its dead letter has the id of the timer
///    with ` #ATTEMPT@DUE` behind it, the number and the deadline in ms of its last attempt, and
///    the timer goes on. With `attempts 5 for good` the timer itself is the dead letter.
///
/// A reason that begins with `after 60s: ` asks for a delay of that at least. It takes the place of
/// that of a plan without `retry`.
///
/// Durations are whole numbers with ms, s, m, h or d. `until` and `times` also end a timer that has
/// a period and no rule. A delay counts from the decision of the engine. The beats of a period
/// count from the retry that was done, those of a rule do not move.
TVEC_API std::string plan_fault(std::string_view plan, const calendar& dates);

/// Returns the deadline that `by_plan` stands for: the first time of the rule of a plan after
/// `now`. Returns nothing if no time is left, or the plan has no rule. Throws std::invalid_argument
/// if plan_fault finds a fault.
TVEC_API std::optional<time_point> first_time(std::string_view plan, const calendar& dates,
                                              time_point now);

/// Notes about earlier deliveries of a timer: stored_timer::history. The text is
/// `FAILURES FIRST LAST BEATS REASON`: four whole numbers and the rest of the line. FIRST and LAST
/// are milliseconds since 1970. `+DELAY` may follow LAST, in milliseconds. An empty text stands for
/// zeros.
struct history {
    std::uint32_t failures = 0;  ///< in a row: `done` clears them
    time_point first{};          ///< the time of the first of them
    time_point last{};           ///< the time of the last of them, of the death, or of the planning
    std::uint32_t beats = 0;     ///< that were done or given up, if the plan counts its `times`
    std::string reason{};        ///< of the last failure, or of the death: a line of UTF-8
    /// The deadline that was planned at `last` is so much later. A timer with another deadline, or
    /// with 0 here, has its deadline from a user.
    duration delay{};

    /// Reads a text. Returns a text of another form as the reason.
    TVEC_API static history parse(std::string_view text);
    /// Compares all members.
    friend bool operator==(const history&, const history&) = default;
};

/// Returns the text of a history: "" if it has only zeros.
TVEC_API std::string to_text(const history& h);

}  // namespace tvec::durable
