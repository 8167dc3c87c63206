/// \file
/// What the kernel's alarms know of a wheel's clock: its name there, and nanoseconds.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <ratio>

#include "tvec/clock/tick_clock.hpp"
#include "tvec/core/detail/misuse.hpp"

namespace tvec::detail {

/// A clock of the kernel. If it has the epoch of the wheel's clock, an alarm is set for a point in
/// time, else for as long as the wheel's clock says is left.
struct alarm_clock {
    clockid_t id;
    bool same_epoch;
};

template <class Clock> inline constexpr alarm_clock alarm_clock_of{CLOCK_MONOTONIC, false};
template <>
inline constexpr alarm_clock alarm_clock_of<std::chrono::steady_clock>{CLOCK_MONOTONIC, true};
template <> inline constexpr alarm_clock alarm_clock_of<boottime_clock>{CLOCK_BOOTTIME, true};

/// How long it is from `from` to `to`: zero if that is over, rounded up, and cut to what fits.
template <class TimePoint>
constexpr std::chrono::nanoseconds nanoseconds_from(TimePoint from, TimePoint to) noexcept {
    using period = typename TimePoint::duration::period;
    constexpr auto last = std::numeric_limits<std::int64_t>::max();
    if (to <= from) return std::chrono::nanoseconds::zero();
    // The difference fits, though perhaps not in a signed number.
    const auto left = static_cast<std::uint64_t>(to.time_since_epoch().count()) -
                      static_cast<std::uint64_t>(from.time_since_epoch().count());
    return std::chrono::nanoseconds(static_cast<std::int64_t>(
        scale<std::ratio_divide<period, std::nano>, rounding::up>(left, last)));
}

/// What to set an alarm for so that it rings at `wakeup`: the point in time or what is left.
template <class Clock>
std::chrono::nanoseconds alarm_time(typename Clock::time_point wakeup, bool absolute) noexcept {
    return nanoseconds_from(absolute ? typename Clock::time_point{} : Clock::now(), wakeup);
}

/// In a debug build, notes that `alarm`, which rings at `set_for`, is about to be set for `wheel`.
template <class Clock, class Alarm, class Wheel>
void note_turn([[maybe_unused]] const Alarm& alarm, [[maybe_unused]] const Wheel& wheel,
               [[maybe_unused]] typename Clock::time_point set_for) noexcept {
#ifndef NDEBUG
    wakeup_was_set(&wheel);
    alarm_turns(&alarm, set_for <= Clock::now());
#endif
}

}  // namespace tvec::detail
