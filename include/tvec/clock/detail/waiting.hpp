/// \file
/// How long a loop may wait for its wheel: the time until the next wake-up, in real time.
#pragma once

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <ratio>
#include <type_traits>
#include <utility>

#include "tvec/clock/tick_clock.hpp"
#include "tvec/core/detail/jiffies.hpp"

namespace tvec::detail {

/// Returns the time from `from` to `to`: rounded up, zero if it is over, and clamped to the longest
/// duration.
template <class TimePoint>
constexpr std::chrono::nanoseconds nanoseconds_from(TimePoint from, TimePoint to) noexcept {
    using period = typename TimePoint::duration::period;
    constexpr auto last = std::numeric_limits<std::int64_t>::max();
    if (to <= from) return std::chrono::nanoseconds::zero();
    // The difference fits, but perhaps not in a signed number.
    const auto left = static_cast<std::uint64_t>(to.time_since_epoch().count()) -
                      static_cast<std::uint64_t>(from.time_since_epoch().count());
    return std::chrono::nanoseconds(static_cast<std::int64_t>(
        scale<std::ratio_divide<period, std::nano>, rounding::up>(left, last)));
}

/// Returns `t` as a time of the clock that alarms are set by: that of the wheel, or the one that a
/// game_clock follows.
template <class Ticks> auto base_time(const Ticks& ticks, typename Ticks::time_point t) noexcept {
    if constexpr (requires { ticks.base_time(t); })
        return ticks.base_time(t);
    else
        return t;
}

/// Returns the reading of that clock.
template <class Ticks> auto base_reading(const Ticks& ticks) noexcept {
    using time_point = decltype(base_time(ticks, typename Ticks::time_point()));
    if constexpr (std::is_same_v<time_point, typename Ticks::time_point>)
        return reading(ticks);
    else
        return time_point::clock::now();
}

/// That clock.
template <class Clocked>
using base_clock_of = typename decltype(base_time(std::declval<const Clocked&>().ticks(),
                                                  typename Clocked::time_point()))::clock;

/// Returns how long a loop may wait for a wheel at tick `now`. There is no limit without a wakeup
/// (`never`), and the loop does not wait at all while a budget has left work over. Otherwise the
/// limit is time_of(wakeup).
template <class F>
std::optional<std::chrono::nanoseconds> wait_limit(jiffies wakeup, jiffies now, F time_of) {
    assert(wakeup >= now && "a wheel wakes in the future, or now");
    if (wakeup == never) return std::nullopt;
    if (wakeup == now) return std::chrono::nanoseconds::zero();
    return time_of(wakeup);
}

/// Returns the time from now to the next wake-up of a clocked wheel, zero if that has come. There
/// is none if it never comes.
template <class Clocked>
std::optional<std::chrono::nanoseconds> time_to_wakeup(Clocked& timers) noexcept {
    end_turn<typename Clocked::clock>();  // the caller is about to sleep
    const jiffies wakeup = timers.wheel().next_wakeup().value_or(never);
    return wait_limit(wakeup, timers.wheel().now(),
                      [&timers](jiffies tick) -> std::optional<std::chrono::nanoseconds> {
                          const auto at = base_time(timers.ticks(), timers.ticks().start_of(tick));
                          if (at == at.max()) return std::nullopt;
                          return nanoseconds_from(base_reading(timers.ticks()), at);
                      });
}

/// Returns the timeout of a wait that counts in whole milliseconds, rounded up; -1 for no limit.
constexpr int whole_milliseconds(std::optional<std::chrono::nanoseconds> limit) noexcept {
    using std::chrono::milliseconds;
    if (!limit) return -1;
    return static_cast<int>(std::min<std::int64_t>(std::chrono::ceil<milliseconds>(*limit).count(),
                                                   std::numeric_limits<int>::max()));
}

}  // namespace tvec::detail
