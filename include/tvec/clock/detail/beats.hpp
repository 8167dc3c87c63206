/// \file
/// The deadlines of what is periodic: the first, and the one that follows.
#pragma once

#include <algorithm>
#include <cassert>
#include <chrono>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/clock/missed_periods.hpp"
#include "tvec/core/jiffies.hpp"

namespace tvec::detail {

/// A deadline, and the periods that are passed over to get there.
struct beat {
    jiffies due;
    jiffies missed;
};

/// The deadline that follows `due`, when time has got as far as `reached`.
constexpr beat beat_after(jiffies due, jiffies period, missed_periods policy,
                          jiffies reached) noexcept {
    assert(period >= 1 && "a period is at least one tick");
    assert(due <= never && reached <= never && "ticks are at most `never`");
    const jiffies late = reached > due ? reached - due : 0;
    const jiffies missed = policy == missed_periods::burst ? 0 : late / period;
    const bool moves_phase = policy == missed_periods::delay;
    return {later(due + (moves_phase ? late : missed * period), period), missed};
}

/// How something begins: with a call at its first deadline; or with one at once, besides, and then
/// with that at its first deadline.
struct beginning {
    constexpr beginning(jiffies deadline) noexcept : beginning(deadline, deadline) {}
    constexpr beginning(jiffies at_once, jiffies deadline) noexcept
        : first(at_once), due(deadline) {}

    jiffies first;  ///< when it is called first
    jiffies due;    ///< its first deadline, perhaps the same
};

/// How something periodic begins that should have begun `since` ticks before tick `soonest`.
constexpr beginning begun_before(jiffies since, jiffies soonest, jiffies period) noexcept {
    assert(period >= 1 && "a period is at least one tick");
    assert(soonest <= never && "ticks are at most `never`");
    return {soonest, later(soonest, period - since % period)};
}

/// to - from, for from <= to, cut to what a duration can express.
template <class TimePoint>
constexpr typename TimePoint::duration between(TimePoint from, TimePoint to) noexcept {
    assert(from <= to && "a distance in time is not negative");
    typename TimePoint::rep d{};
    const bool too_long =
        __builtin_sub_overflow(to.time_since_epoch().count(), from.time_since_epoch().count(), &d);
    return too_long ? TimePoint::duration::max() : typename TimePoint::duration(d);
}

/// How something periodic begins that is called from tick `start` on, though not before `soonest`.
constexpr beginning begin_at(jiffies start, jiffies soonest, jiffies period) noexcept {
    return start >= soonest ? start : begun_before(soonest - start, soonest, period);
}

/// The same from a point in time on, though not before the next tick by wheel and clock. A start
/// before the origin counts too: it lies so many whole ticks before tick 0.
template <class Clocked>
beginning begin_at(const Clocked& timers, typename Clocked::time_point start,
                   jiffies period) noexcept {
    const auto& ticks = timers.ticks();
    const jiffies soonest = std::max(ticks.ceil(Clocked::clock::now()), timers.wheel().now() + 1);
    if (start >= ticks.origin()) return begin_at(ticks.ceil(start), soonest, period);
    const jiffies before = ticks.floor(add(ticks.origin(), between(start, ticks.origin())));
    return begun_before(before + soonest, soonest, period);
}

/// A period in ticks: rounded up, and one at least.
template <class Clocked, class Rep, class Period>
jiffies period_on(const Clocked& timers, std::chrono::duration<Rep, Period> period) noexcept {
    return std::max<jiffies>(timers.ticks().ticks_to_cover(period), 1);
}

}  // namespace tvec::detail
