/// \file
/// What a wheel with a clock knows of its clock and of its ticks.
#pragma once

#include <optional>

#include "tvec/clock/detail/alarm_misuse.hpp"
#include "tvec/core/timer_wheel.hpp"

namespace tvec::detail {

/// A type that is driven by a clock.
template <class Timers>
concept clocked = requires {
    typename Timers::clock;
};

/// A clock that the whole program has, and not an object of its own.
template <class Clock>
concept one_clock = requires {
    Clock::now();
};

/// The length of one tick, if the type defines it.
template <class Ticks> struct tick_of { using type = void; };
template <class Ticks>
requires requires { typename Ticks::tick; }
struct tick_of<Ticks> {
    using type = typename Ticks::tick;
};

/// In a debug build, notes that `wheel` is about to run up to tick `until`.
inline void note_run([[maybe_unused]] timer_wheel& wheel, [[maybe_unused]] jiffies until) noexcept {
#ifndef NDEBUG
    const std::optional<jiffies> wakeup = wheel.next_wakeup();
    wheel_runs(&wheel, wakeup && *wakeup > wheel.now() && *wakeup < until);
#endif
}

}  // namespace tvec::detail
