/// \file
/// The clock of a wheel, as the kernel's alarms use it: its id, and nanoseconds.
#pragma once

#include <time.h>

#include <chrono>

#include "tvec/clock/detail/alarm_misuse.hpp"
#include "tvec/clock/detail/waiting.hpp"
#include "tvec/clock/tick_clock.hpp"

namespace tvec::detail {

/// A clock of the kernel. If it has the epoch of the wheel's clock, an alarm is set for a point in
/// time, else for the time that is left by the wheel's clock.
struct alarm_clock {
    clockid_t id;
    bool same_epoch;
};

template <class Clock> inline constexpr alarm_clock alarm_clock_of{CLOCK_MONOTONIC, false};
template <>
inline constexpr alarm_clock alarm_clock_of<std::chrono::steady_clock>{CLOCK_MONOTONIC, true};
#ifdef __linux__
template <> inline constexpr alarm_clock alarm_clock_of<boottime_clock>{CLOCK_BOOTTIME, true};
/// The kernel moves an alarm for a point in time of this clock when the clock is set.
template <>
inline constexpr alarm_clock alarm_clock_of<std::chrono::system_clock>{CLOCK_REALTIME, true};
#endif

/// Returns the time for which an alarm is set: `wakeup` itself, or the time left until then by
/// now(). The last point in time is never reached.
template <class TimePoint, class Now>
std::chrono::nanoseconds alarm_time(TimePoint wakeup, bool absolute, Now now) noexcept {
    if (wakeup == TimePoint::max()) return std::chrono::nanoseconds::max();
    return nanoseconds_from(absolute ? TimePoint{} : now(), wakeup);
}

/// Returns the time for which an alarm is set, by the reading of `Clock`.
template <class Clock>
std::chrono::nanoseconds alarm_time(typename Clock::time_point wakeup, bool absolute) noexcept {
    return alarm_time(wakeup, absolute, [] { return Clock::now(); });
}

/// Returns the reading of std::chrono::steady_clock, without a call into the C++ library, which
/// programs in C do not link.
inline std::chrono::nanoseconds steady_reading() noexcept {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

/// Returns the next wake-up of a clocked wheel as a time of that clock, or its last one.
template <class Clocked> auto base_wakeup(Clocked& timers) noexcept {
    const auto wakeup = timers.next_wakeup();
    return wakeup ? base_time(timers.ticks(), *wakeup) : base_clock_of<Clocked>::time_point::max();
}

/// In a debug build, notes that a loop is about to sleep until the wakeup of `wheel`.
inline void note_sleep([[maybe_unused]] const void* wheel) noexcept {
#ifndef NDEBUG
    wakeup_was_set(wheel);
#endif
}

/// In a debug build, notes that `alarm` is about to be set for `wheel`. It rings at `set_for`: by
/// now() if it is absolute, else by steady_clock.
template <class Now>
void note_turn([[maybe_unused]] const void* alarm, const void* wheel,
               [[maybe_unused]] std::chrono::nanoseconds set_for, [[maybe_unused]] bool absolute,
               [[maybe_unused]] Now now) noexcept {
    note_sleep(wheel);
#ifndef NDEBUG
    alarm_turns(alarm, set_for <= (absolute ? now().time_since_epoch() : steady_reading()));
#endif
}

}  // namespace tvec::detail
