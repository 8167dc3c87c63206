/// \file
/// Deadlines of periodic calls: the first, and the next one.
#pragma once

#include <algorithm>
#include <cassert>
#include <chrono>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/clock/detail/missed_periods.hpp"
#include "tvec/core/detail/jiffies.hpp"

namespace tvec::detail {

/// A deadline, and the number of periods that are skipped to reach it.
struct beat {
    jiffies due;
    jiffies missed;
};

/// Returns the deadline after `due`, when time has reached `reached`.
constexpr beat beat_after(jiffies due, jiffies period, missed_periods policy,
                          jiffies reached) noexcept {
    assert(period >= 1 && "a period is at least one tick");
    assert(due <= never && reached <= never && "ticks are at most `never`");
    const jiffies missed = policy == missed_periods::burst ? 0 : missed_by(reached, due, period);
    const bool moves_phase = policy == missed_periods::delay;
    return {later(moves_phase ? std::max(reached, due) : due + missed * period, period), missed};
}

/// The start of a periodic call: its first call and its first deadline. Both are the same tick, or
/// there is an extra first call at once, before the first deadline.
struct beginning {
    constexpr beginning(jiffies deadline) noexcept : beginning(deadline, deadline) {}
    constexpr beginning(jiffies at_once, jiffies deadline) noexcept
        : first(at_once), due(deadline) {}

    jiffies first;  ///< tick of the first call
    jiffies due;    ///< the first deadline, perhaps the same tick
};

/// Returns the start of a periodic call that should have begun `since` ticks before tick `soonest`.
constexpr beginning begun_before(jiffies since, jiffies soonest, jiffies period) noexcept {
    assert(period >= 1 && "a period is at least one tick");
    assert(soonest <= never && "ticks are at most `never`");
    return {soonest, later(soonest, period - since % period)};
}

/// Returns the start of a periodic call from tick `start` on, but not before `soonest`.
constexpr beginning begin_at(jiffies start, jiffies soonest, jiffies period) noexcept {
    return start >= soonest ? start : begun_before(soonest - start, soonest, period);
}

/// Returns the start of a periodic call from the time `start` on, but not before the next tick by
/// wheel and clock. A start before the origin counts too: it lies that many whole ticks before tick
/// 0.
template <class Clocked>
beginning begin_at(const Clocked& timers, typename Clocked::time_point start,
                   jiffies period) noexcept {
    const auto& ticks = timers.ticks();
    const jiffies soonest = std::max(ticks.ceil(reading(ticks)), timers.wheel().now() + 1);
    if (start >= ticks.origin()) return begin_at(ticks.ceil(start), soonest, period);
    const jiffies before = ticks.floor(add(ticks.origin(), time_left(start, ticks.origin())));
    return begun_before(before + soonest, soonest, period);
}

/// Returns the period in ticks: rounded up, and at least 1.
template <class Clocked, class Rep, class Period>
jiffies period_on(const Clocked& timers, std::chrono::duration<Rep, Period> period) noexcept {
    return std::max<jiffies>(timers.ticks().ticks_to_cover(period), 1);
}

}  // namespace tvec::detail
