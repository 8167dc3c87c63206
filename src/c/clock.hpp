// The clock of the C interface, as the C++ clocks that count as it does.
#pragma once

#include <cassert>
#include <chrono>

#include "tvec/clock/tick_clock.hpp"
#include "tvec/drivers/detail/alarm_clock.hpp"
#include "tvec/drivers/detail/kernel_result.hpp"
#include "tvec/tvec.h"

namespace tvec::c {

/// Any clock that counts nanoseconds would do: its own reading is not asked for.
using ticks = runtime_tick_clock<boottime_clock>;

inline boottime_clock::time_point point(int64_t time) noexcept {
    return boottime_clock::time_point(std::chrono::nanoseconds(time));
}

inline ticks ticks_of(const tvec_clock& clock) noexcept {
    assert(clock.tick > 0 && "tvec_clock_init has returned 0");
    return {std::chrono::nanoseconds(clock.tick), point(clock.origin)};
}

/// The kernel's alarms ring at points in time of it.
inline detail::alarm_clock alarm_clock_of(const tvec_clock& clock) noexcept {
    return {clock.id, true};
}

/// When the wheel has something to do next, by the clock; INT64_MAX if never.
inline int64_t next_wakeup(tvec_wheel* wheel, const tvec_clock& clock) noexcept {
    assert(wheel && "the wheel of an alarm outlives its rearms");
    const uint64_t tick = tvec_next_wakeup(wheel);
    return tick == TVEC_NEVER ? INT64_MAX : tvec_clock_start_of(&clock, tick);
}

/// In a debug build, notes that `alarm` is about to be set.
template <class Alarm> void note_turn(const Alarm& alarm) noexcept {
    detail::note_turn(&alarm, alarm.wheel, alarm.set_for,
                      [&] { return tvec_clock_read(alarm.clock); });
}

/// When an alarm rings that is not set.
inline constexpr int64_t not_set = INT64_MAX;

/// As C functions return it: the answer, or a negative errno value.
inline int answer_of(const detail::kernel_result& o) noexcept {
    return o.error != 0 ? -o.error : o.yes;
}

/// The same of what was no question.
inline int result_of(const detail::kernel_result& o) noexcept { return -o.error; }

}  // namespace tvec::c
