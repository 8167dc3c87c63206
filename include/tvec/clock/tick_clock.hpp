/// \file
/// Clocks, and the conversion of their time to ticks.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <time.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <ratio>

#include "tvec/core/detail/jiffies.hpp"  // IWYU pragma: export
#include "tvec/core/detail/wants.hpp"

namespace tvec {

namespace detail {

/// Integer types that durations may count in. Wider integers, a compiler extension, would wrap.
template <class Rep>
concept countable = std::integral<Rep> && sizeof(Rep) <= sizeof(std::uint64_t);

template <countable Rep, class Period> void whole(std::chrono::duration<Rep, Period>);
template <class D>
concept whole_duration = requires(const D& d) {
    whole(d);
};

enum class rounding { down, up };

/// Returns count * num / den, rounded, at most `limit`. Exact: no intermediate result overflows.
/// Requires den > 0, and that (num + 1) * den fits.
constexpr std::uint64_t scale(std::uint64_t count, std::uint64_t num, std::uint64_t den,
                              rounding way, std::uint64_t limit) noexcept {
    assert(den > 0 && num < std::numeric_limits<std::uint64_t>::max() / den &&
           "a ratio whose terms can be multiplied");
    const std::uint64_t nearly_one = way == rounding::up ? den - 1 : 0;
    const std::uint64_t rest = (count % den * num + nearly_one) / den;
    std::uint64_t whole = 0;
    if (__builtin_mul_overflow(count / den, num, &whole)) return limit;
    return whole < limit && rest < limit - whole ? whole + rest : limit;
}

/// Returns `count` times the ratio `Per`, at most `limit`.
template <class Per, rounding Way>
constexpr std::uint64_t scale(std::uint64_t count, std::uint64_t limit) noexcept {
    static_assert(Per::num > 0 && Per::num <= std::numeric_limits<std::intmax_t>::max() / Per::den,
                  "a tick and a clock whose ratio is this odd are not supported");
    constexpr auto num = static_cast<std::uint64_t>(Per::num);
    constexpr auto den = static_cast<std::uint64_t>(Per::den);
    if constexpr (num == 1 && den != 1) {  // one division, where a tick is whole units of the clock
        const bool is_up = Way == rounding::up && count != 0;
        return std::min(is_up ? (count - 1) / den + 1 : count / den, limit);
    }
    return scale(count, num, den, Way, limit);
}

/// Returns the number of `Unit`s that cover `d`: rounded up, at most `limit`, and 0 if `d` is
/// negative.
template <class Unit, countable Rep, class Period>
constexpr std::uint64_t units_to_cover(std::chrono::duration<Rep, Period> d,
                                       std::uint64_t limit) noexcept {
    if (d <= d.zero()) return 0;
    return scale<std::ratio_divide<Period, Unit>, rounding::up>(
        static_cast<std::uint64_t>(d.count()), limit);
}

/// Returns from + d, saturating. Requires that `d` is not negative.
template <class TimePoint>
constexpr TimePoint add(TimePoint from, typename TimePoint::duration d) noexcept {
    assert(d >= d.zero() && "time is added, and never subtracted");
    typename TimePoint::rep sum{};
    if (__builtin_add_overflow(from.time_since_epoch().count(), d.count(), &sum))
        return TimePoint::max();
    return TimePoint(typename TimePoint::duration(sum));
}

/// Returns how long it takes from `now` to `then`, clamped to the longest duration; 0 if `then` has
/// passed.
template <class TimePoint>
constexpr typename TimePoint::duration time_left(TimePoint now, TimePoint then) noexcept {
    using duration = typename TimePoint::duration;
    if (then <= now) return duration::zero();
    typename TimePoint::rep d{};
    const bool is_too_long =
        __builtin_sub_overflow(then.time_since_epoch().count(), now.time_since_epoch().count(), &d);
    return is_too_long ? duration::max() : duration(d);
}

/// A point of a clock, and distances after it in units of the clock. A distance may be up to twice
/// as long as the longest duration.
template <class Clock> class tick_origin {
    using time_point = typename Clock::time_point;
    using duration = typename Clock::duration;
    using rep = typename duration::rep;
    static_assert(std::signed_integral<rep> && countable<rep>,
                  "a clock counts in signed integers of at most 64 bits");

public:
    explicit tick_origin(time_point begin) noexcept : begin_(begin) {}

    time_point begin() const noexcept { return begin_; }

    /// Returns how long after the origin `t` is; 0 if it is not after it.
    std::uint64_t until(time_point t) const noexcept {
        if (t <= begin_) return 0;  // else the difference fits, though perhaps not in a `rep`
        return unsigned_of(t) - unsigned_of(begin_);
    }
    /// Returns how long after the origin the last point lies that the clock can show.
    std::uint64_t until_the_end() const noexcept { return until(time_point::max()); }

    /// Returns the point `since` units after the origin. Requires since <= until_the_end().
    time_point after(std::uint64_t since) const noexcept {
        assert(since <= until_the_end() && "the clock can show the point in time");
        return time_point(duration(static_cast<rep>(unsigned_of(begin_) + since)));
    }

private:
    static constexpr std::uint64_t unsigned_of(time_point t) noexcept {
        return static_cast<std::uint64_t>(t.time_since_epoch().count());
    }

    time_point begin_;
};

/// Returns the reading of the clock behind `ticks`: of the object that they refer to, or of the
/// clock that the whole program has.
template <class Ticks> typename Ticks::time_point reading(const Ticks& ticks) noexcept {
    if constexpr (requires { ticks.reading(); })
        return ticks.reading();
    else
        return Ticks::clock::now();
}

/// A clock whose readings a turn of the loop shares: see turn_clock.
template <class Clock>
concept shared_by_turns = requires {
    Clock::begin_turn();
    Clock::end_turn();
};

/// Reads the clock, for the rest of the turn where turns share a reading.
template <class Clock> void begin_turn() noexcept {
    if constexpr (shared_by_turns<Clock>) Clock::begin_turn();
}
/// Has each call read the clock again.
template <class Clock> void end_turn() noexcept {
    if constexpr (shared_by_turns<Clock>) Clock::end_turn();
}

}  // namespace detail

#ifdef __linux__
/// A clock that also counts the time while the machine is suspended (CLOCK_BOOTTIME). Timers on
/// this clock that came due during a suspend fire right after it, by any driver: docs/io_uring.md
/// has the kernels.
struct boottime_clock {
    /// The members that std::chrono requires of a clock.
    /// @{
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<boottime_clock>;
    static constexpr bool is_steady = true;
    /// @}

    /// Reads the clock. A system call, mostly answered without entering the kernel.
    static time_point now() noexcept {
        timespec t{};
        clock_gettime(CLOCK_BOOTTIME, &t);
        return time_point(std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec));
    }
};
#endif

/// A clock that a test moves. Each thread has its own, which starts at 0.
///
/// A shared library that hides its symbols (-fvisibility=hidden, or the single header, which hides
/// them itself) has a clock of its own. The program's `set` and `advance` do not move it.
struct manual_clock {
    /// The members that std::chrono requires of a clock.
    /// @{
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<manual_clock>;
    static constexpr bool is_steady = false;
    /// @}

    /// Returns the time that was last set.
    static time_point now() noexcept { return now_; }
    /// Sets the time for this thread. It may be earlier than before.
    static void set(time_point t) noexcept { now_ = t; }
    /// Moves the time of this thread by `d`.
    static void advance(duration d) noexcept { now_ += d; }

private:
    static inline thread_local time_point now_{};
};

/// Reads `Clock` in ticks of one `Tick` (a std::chrono::duration), counted from an origin.
///
/// Deadlines round up and readings round down. If the wheel is advanced to `now()`, a timer that is
/// armed for `ceil(deadline)` fires at the deadline or less than one tick later, and never a
/// nanosecond early. The conversion is exact: errors do not add up, even if a tick is not a whole
/// number of nanoseconds, as in
///
///     using frame = std::chrono::duration<std::int64_t, std::ratio<1, 60>>;
///     tvec::tick_clock<frame>
///
/// A delay of n ticks counts from a reading within a tick, so it ends up to n + 1 ticks on. In a
/// game that is stepped by frames it takes n: see game_clock.
///
/// `Clock` must be steady, or a test's. On a clock that is stepped (system_clock), timers are
/// stepped too.
template <class Tick, class Clock = std::chrono::steady_clock> struct tick_clock {
    static_assert(detail::whole_duration<Tick>,
                  "a tick is a duration that counts in integers: std::chrono::milliseconds, or "
                  "std::chrono::duration<std::int64_t, std::ratio<1, 60>>");

    using clock = Clock;                            ///< the clock that is read
    using tick = Tick;                              ///< the length of a tick
    using duration = typename Clock::duration;      ///< in units of the clock
    using time_point = typename Clock::time_point;  ///< of the clock

    /// Makes a clock whose tick 0 begins now.
    tick_clock() noexcept : tick_clock(Clock::now()) {}

    /// Makes a clock whose tick 0 begins at `origin`.
    explicit tick_clock(time_point origin) noexcept : origin_(origin) {}

    /// Returns the current tick: the argument of `advance`.
    jiffies now() const noexcept { return floor(Clock::now()); }

    /// Returns the tick that contains `t`; 0 before the origin.
    jiffies floor(time_point t) const noexcept {
        return detail::scale<ticks_per_unit, detail::rounding::down>(origin_.until(t), never);
    }

    /// Returns the first tick that begins at `t` or later: `ceil(start_of(j))` is `j`.
    jiffies ceil(time_point t) const noexcept {
        // It is the one after the last that has begun before, by less than a unit perhaps.
        const std::uint64_t since = origin_.until(t);
        if (since == 0) return 0;
        return detail::scale<ticks_per_unit, detail::rounding::down>(since - 1, never - 1) + 1;
    }

    /// Returns the number of ticks that cover `d`, a duration in any unit: rounded up, and 0 if `d`
    /// is negative. A whole number of ticks is covered by exactly that many.
    template <detail::countable Rep, class Period>
    static constexpr jiffies ticks_to_cover(std::chrono::duration<Rep, Period> d) noexcept {
        return detail::units_to_cover<typename Tick::period>(d, never);
    }

    /// Returns the first reading of the clock in tick `j`, or the last that the clock can show.
    time_point start_of(jiffies j) const noexcept {
        const std::uint64_t last = origin_.until_the_end();
        return origin_.after(detail::scale<units_per_tick, detail::rounding::up>(j, last));
    }

    /// Returns the time at which tick 0 begins.
    time_point origin() const noexcept { return origin_.begin(); }

private:
    using ticks_per_unit = std::ratio_divide<typename duration::period, typename Tick::period>;
    using units_per_tick = std::ratio_divide<typename Tick::period, typename duration::period>;

    detail::tick_origin<Clock> origin_;
};

/// A tick_clock whose tick is chosen at run time, by a configuration for example:
///
///     tvec::clocked_wheel timers{tvec::runtime_tick_clock(5ms)};
///
/// The wheel's type is clocked_wheel<runtime_tick_clock<>>. It works wherever a clocked_wheel
/// works, and it keeps the promises of tick_clock: deadlines round up, readings round down, and the
/// conversions are exact.
///
/// A tick is a whole number of units of the clock, so 1/60 s is no tick. A tick of zero or less
/// counts as one unit, the shortest tick: a nanosecond on std::chrono::steady_clock. Each reading
/// and each deadline costs a division more than in tick_clock, some ten nanoseconds at most.
template <class Clock = std::chrono::steady_clock> class runtime_tick_clock {
public:
    using clock = Clock;                            ///< the clock that is read
    using duration = typename Clock::duration;      ///< in units of the clock
    using time_point = typename Clock::time_point;  ///< of the clock

    /// Makes a clock with ticks of that length. Its tick 0 begins now.
    explicit runtime_tick_clock(duration tick) noexcept : runtime_tick_clock(tick, Clock::now()) {}

    /// Makes a clock with ticks of that length. Its tick 0 begins at `origin`.
    runtime_tick_clock(duration tick, time_point origin) noexcept
        : origin_(origin), length_(std::max(tick, duration(1))) {
        assert(length_ > duration::zero() && "a tick lasts at least one unit of the clock");
    }

    runtime_tick_clock() TVEC_WANTS("a tick: clocked_wheel timers(runtime_tick_clock(5ms))");
    explicit runtime_tick_clock(detail::no<duration>) TVEC_WANTS("whole units of the clock: 5ms");
    runtime_tick_clock(detail::no<duration>, time_point) TVEC_WANTS("whole units: 5ms, now()");

    /// Returns the length of a tick.
    duration tick_length() const noexcept { return length_; }

    // The same functions as in tick_clock.

    /// Returns the current tick: the argument of `advance`.
    jiffies now() const noexcept { return floor(Clock::now()); }

    /// Returns the tick that contains `t`; 0 before the origin.
    jiffies floor(time_point t) const noexcept {
        return std::min<jiffies>(origin_.until(t) / units(), never);
    }

    /// Returns the first tick that begins at `t` or later.
    jiffies ceil(time_point t) const noexcept {
        return std::min<jiffies>(ticks_over(origin_.until(t)), never);
    }

    /// Returns the number of ticks that cover `d`, a duration in any unit: rounded up, 0 if `d` is
    /// negative, and `never` if `d` is longer than 2^64 - 2 units. A whole number of ticks is
    /// covered by exactly that many.
    template <detail::countable Rep, class Period>
    jiffies ticks_to_cover(std::chrono::duration<Rep, Period> d) const noexcept {
        constexpr auto longest = std::numeric_limits<std::uint64_t>::max();
        const auto covered = detail::units_to_cover<typename duration::period>(d, longest);
        return covered == longest ? never : std::min<jiffies>(ticks_over(covered), never);
    }

    /// Returns the first reading of the clock in tick `j`, or the last that the clock can show.
    time_point start_of(jiffies j) const noexcept {
        const std::uint64_t last = origin_.until_the_end();
        std::uint64_t since = 0;
        const bool is_beyond = __builtin_mul_overflow(j, units(), &since);
        return origin_.after(is_beyond ? last : std::min(since, last));
    }

    /// Returns the time at which tick 0 begins.
    time_point origin() const noexcept { return origin_.begin(); }

private:
    std::uint64_t units() const noexcept { return static_cast<std::uint64_t>(length_.count()); }
    std::uint64_t ticks_over(std::uint64_t since) const noexcept {
        return since / units() + (since % units() != 0);
    }

    detail::tick_origin<Clock> origin_;
    duration length_;
};

}  // namespace tvec
