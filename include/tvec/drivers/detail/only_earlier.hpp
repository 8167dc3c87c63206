/// \file
/// The rule of all alarms: they only move earlier.
#pragma once

#include <algorithm>
#include <chrono>

#include "tvec/drivers/detail/alarm_clock.hpp"
#include "tvec/drivers/detail/kernel_result.hpp"

namespace tvec::detail {

/// Sets an alarm by set(time), unless it is already set for `wakeup` or earlier. Returns the result
/// of set(), or success if there was nothing to do. A failure of set() leaves `set_for` unchanged.
///
/// `set_for` is the time of the alarm: of the wheel's clock if the alarm is absolute, else of
/// steady_clock. The time that is left by a clock may change without a new wakeup: the clock is
/// stepped. Two readings of steady_clock bracket now(). Without a step the alarm is therefore never
/// set again for the time that passes between readings.
template <class TimePoint, class Now, class Set>
kernel_result only_earlier(std::chrono::nanoseconds& set_for, TimePoint wakeup, bool absolute,
                           Now now, Set set) {
    using std::chrono::nanoseconds;
    const auto start = [=] { return absolute ? nanoseconds::zero() : steady_reading(); };
    const nanoseconds before = start(), time = alarm_time(wakeup, absolute, now), after = start();
    const auto time_since = [=](nanoseconds t) {
        return t + std::min(time, nanoseconds::max() - t);
    };
    if (time_since(after) >= set_for) return {};
    const kernel_result moved = set(time);
    if (moved.yes) set_for = time_since(before);
    return moved;
}

}  // namespace tvec::detail
