// The clock of the C interface, as C++ clocks with the same units.
#pragma once

#include <cassert>
#include <chrono>
#include <optional>

#include "tvec/clock/detail/waiting.hpp"
#include "tvec/clock/tick_clock.hpp"
#include "tvec/drivers/detail/alarm_clock.hpp"
#include "tvec/drivers/detail/kernel_result.hpp"
#include "tvec/drivers/detail/only_earlier.hpp"
#include "tvec/tvec.h"

namespace tvec::c {

/// Any clock in nanoseconds would do: its own reading is not used.
using ticks = runtime_tick_clock<manual_clock>;

inline manual_clock::time_point point(int64_t time) noexcept {
    return manual_clock::time_point(std::chrono::nanoseconds(time));
}

inline ticks ticks_of(const tvec_clock& clock) noexcept {
    assert(clock.tick > 0 && "tvec_clock_init has returned 0");
    return {std::chrono::nanoseconds(clock.tick), point(clock.origin)};
}

/// Returns the clock for alarms of the kernel, which ring at points in time of it.
inline detail::alarm_clock alarm_clock_of(const tvec_clock& clock) noexcept {
    return {static_cast<clockid_t>(clock.id), true};  // an enumeration on macOS
}

/// Returns the time of the next wakeup, by the clock; INT64_MAX if there is none.
inline int64_t next_wakeup(tvec_wheel* wheel, const tvec_clock& clock) noexcept {
    assert(wheel && "the wheel of an alarm outlives its rearms");
    const uint64_t tick = tvec_next_wakeup(wheel);
    return tick == TVEC_NEVER ? INT64_MAX : tvec_clock_start_of(&clock, tick);
}

/// Returns the time from now to the next wakeup, zero if that has come, or none if it never comes.
inline std::optional<std::chrono::nanoseconds> time_to_wakeup(tvec_wheel* wheel,
                                                              const tvec_clock& clock) noexcept {
    using limit = std::optional<std::chrono::nanoseconds>;
    return detail::wait_limit(
        tvec_next_wakeup(wheel), tvec_now(wheel), [&clock](uint64_t tick) -> limit {
            const int64_t at = tvec_clock_start_of(&clock, tick);
            if (at == INT64_MAX) return std::nullopt;
            return detail::nanoseconds_from(point(tvec_clock_read(&clock)), point(at));
        });
}

/// Sets `alarm` by set(time), unless it is already set for its wheel's next wakeup or earlier.
template <class Alarm, class Set>
detail::kernel_result only_earlier(Alarm& alarm, bool absolute, Set set) {
    const auto now = [&] { return point(tvec_clock_read(alarm.clock)); };
    std::chrono::nanoseconds set_for(alarm.set_for);
    detail::note_turn(&alarm, alarm.wheel, set_for, absolute, now);
    const auto wakeup = point(next_wakeup(alarm.wheel, *alarm.clock));
    const auto moved = detail::only_earlier(set_for, wakeup, absolute, now, set);
    alarm.set_for = set_for.count();
    return moved;
}

/// The time of an alarm that is not set.
inline constexpr int64_t not_set = INT64_MAX;

/// Returns the answer, or a negative errno value, as C functions do.
inline int answer_of(const detail::kernel_result& o) noexcept {
    return o.error != 0 ? -o.error : o.yes;
}

/// Returns 0 or a negative errno value, for a call without an answer.
inline int result_of(const detail::kernel_result& o) noexcept { return -o.error; }

}  // namespace tvec::c
