/// \file
/// Clocks, and the one place where their time becomes ticks.
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

#include "tvec/core/detail/wants.hpp"
#include "tvec/core/jiffies.hpp"

namespace tvec {

namespace detail {

/// What durations may count in. Wider integers, which compilers have as an extension, would wrap.
template <class Rep>
concept countable = std::integral<Rep> && sizeof(Rep) <= sizeof(std::uint64_t);

template <countable Rep, class Period> void whole(std::chrono::duration<Rep, Period>);
template <class D>
concept whole_duration = requires(const D& d) {
    whole(d);
};

/// What is no length of a tick: a number, and what is no whole number of units of the clock.
template <class D, class Duration>
concept no_tick_of = !std::convertible_to<const D&, Duration>;

enum class rounding { down, up };

/// The ratio `Per` applied to `count`, at most `limit`. Exact: no intermediate result overflows.
template <class Per, rounding Way>
constexpr std::uint64_t scale(std::uint64_t count, std::uint64_t limit) noexcept {
    static_assert(Per::num > 0 && Per::num <= std::numeric_limits<std::intmax_t>::max() / Per::den,
                  "a tick and a clock whose ratio is this odd are not supported");
    constexpr auto num = static_cast<std::uint64_t>(Per::num);
    constexpr auto den = static_cast<std::uint64_t>(Per::den);
    constexpr std::uint64_t nearly_one = Way == rounding::up ? den - 1 : 0;
    const std::uint64_t rest = (count % den * num + nearly_one) / den;
    std::uint64_t whole = 0;
    if (__builtin_mul_overflow(count / den, num, &whole)) return limit;
    return whole < limit && rest < limit - whole ? whole + rest : limit;
}

/// How many units of `Unit` cover `d`: rounded up, at most `limit`, and 0 if it is negative.
template <class Unit, countable Rep, class Period>
constexpr std::uint64_t units_to_cover(std::chrono::duration<Rep, Period> d,
                                       std::uint64_t limit) noexcept {
    if (d <= d.zero()) return 0;
    return scale<std::ratio_divide<Period, Unit>, rounding::up>(
        static_cast<std::uint64_t>(d.count()), limit);
}

/// from + d for a `d` that is not negative, saturating.
template <class TimePoint>
constexpr TimePoint add(TimePoint from, typename TimePoint::duration d) noexcept {
    assert(d >= d.zero() && "time is added, and never subtracted");
    typename TimePoint::rep sum{};
    if (__builtin_add_overflow(from.time_since_epoch().count(), d.count(), &sum))
        return TimePoint::max();
    return TimePoint(typename TimePoint::duration(sum));
}

/// A point of a clock, and what lies after it, in units of the clock: up to twice as many as a
/// duration can say.
template <class Clock> class tick_origin {
    using time_point = typename Clock::time_point;
    using duration = typename Clock::duration;
    using rep = typename duration::rep;
    static_assert(std::signed_integral<rep> && countable<rep>,
                  "a clock counts in signed integers of at most 64 bits");

public:
    explicit tick_origin(time_point begin) noexcept : begin_(begin) {}

    time_point begin() const noexcept { return begin_; }

    /// How long after it `t` is; 0 if it is not.
    std::uint64_t until(time_point t) const noexcept {
        if (t <= begin_) return 0;  // else the difference fits, though perhaps not in a `rep`
        return unsigned_of(t) - unsigned_of(begin_);
    }
    /// The same of the last point that the clock can show.
    std::uint64_t until_the_end() const noexcept { return until(time_point::max()); }

    /// What lies so long after it. Requires since <= until_the_end().
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

}  // namespace detail

/// A clock that also counts the time the machine was suspended (CLOCK_BOOTTIME). Timers of a
/// wheel on this clock that came due during a suspend fire right after it, if the loop is woken by
/// timerfd_alarm, by uring_timeout from Linux 5.15 on, or by uring_wait from 6.12 on.
struct boottime_clock {
    /// What std::chrono asks of a clock.
    /// @{
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<boottime_clock>;
    static constexpr bool is_steady = true;
    /// @}

    /// A system call, though mostly answered without entering the kernel.
    static time_point now() noexcept {
        timespec t{};
        clock_gettime(CLOCK_BOOTTIME, &t);
        return time_point(std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec));
    }
};

/// A clock that moves when a test says so. Each thread has its own; it starts at 0.
///
/// A shared library that hides its symbols (-fvisibility=hidden, or the single header, which hides
/// them itself) has a clock of its own, which the program's `set` and `advance` do not move.
struct manual_clock {
    /// What std::chrono asks of a clock.
    /// @{
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<manual_clock>;
    static constexpr bool is_steady = false;
    /// @}

    /// What it was last told.
    static time_point now() noexcept { return now_; }
    /// Makes it this time, for this thread; earlier than before is allowed.
    static void set(time_point t) noexcept { now_ = t; }
    /// Moves it by `d`, for this thread.
    static void advance(duration d) noexcept { now_ += d; }

private:
    static inline thread_local time_point now_{};
};

/// Reads `Clock` in ticks of one `Tick` (a std::chrono::duration), counted from an origin.
///
/// Deadlines round up and readings round down. So if the wheel is advanced to `now()`, whatever
/// is armed for `ceil(deadline)` fires at the deadline or later, never a nanosecond earlier, and
/// less than one tick later. The conversion is exact: no error adds up, also where a tick is not
/// a whole number of nanoseconds, as in
///
///     using frame = std::chrono::duration<std::int64_t, std::ratio<1, 60>>;
///     tvec::tick_clock<frame>
///
/// `Clock` must be steady, or a test's: on one that is stepped (system_clock), so are the timers.
template <class Tick, class Clock = std::chrono::steady_clock> struct tick_clock {
    static_assert(detail::whole_duration<Tick>,
                  "a tick is a duration that counts in integers: std::chrono::milliseconds, or "
                  "std::chrono::duration<std::int64_t, std::ratio<1, 60>>");

    using clock = Clock;                            ///< whose time it is
    using tick = Tick;                              ///< what one tick lasts
    using duration = typename Clock::duration;      ///< in units of the clock
    using time_point = typename Clock::time_point;  ///< of the clock

    /// Tick 0 begins now.
    tick_clock() noexcept : tick_clock(Clock::now()) {}

    /// Tick 0 begins at `origin`.
    explicit tick_clock(time_point origin) noexcept : origin_(origin) {}

    /// The tick we are in: what `advance` is to be called with.
    jiffies now() const noexcept { return floor(Clock::now()); }

    /// The tick that `t` lies in. 0 before the origin.
    jiffies floor(time_point t) const noexcept {
        return detail::scale<ticks_per_unit, detail::rounding::down>(origin_.until(t), never);
    }

    /// The first tick that does not begin before `t`.
    jiffies ceil(time_point t) const noexcept {
        return detail::scale<ticks_per_unit, detail::rounding::up>(origin_.until(t), never);
    }

    /// How many ticks cover `d`, in whatever unit it is given: a whole number of ticks is covered
    /// by as many. 0 if it is negative.
    template <detail::countable Rep, class Period>
    static constexpr jiffies ticks_to_cover(std::chrono::duration<Rep, Period> d) noexcept {
        return detail::units_to_cover<typename Tick::period>(d, never);
    }

    /// The first reading of the clock that lies in tick `j`, or the last that it can show.
    time_point start_of(jiffies j) const noexcept {
        const std::uint64_t last = origin_.until_the_end();
        return origin_.after(detail::scale<units_per_tick, detail::rounding::up>(j, last));
    }

    /// When tick 0 begins.
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
/// Its type is clocked_wheel<runtime_tick_clock<>>. Everything that works on a clocked_wheel works
/// on this one, and it promises what tick_clock does: deadlines round up, readings round down, and
/// the conversions are exact.
///
/// A tick is a whole number of units of the clock, so 1/60 s is none. One of zero or less counts as
/// one unit, the shortest there is: nanoseconds on std::chrono::steady_clock. Costs a division more
/// than tick_clock for each reading and each deadline, some ten nanoseconds at most.
template <class Clock = std::chrono::steady_clock> class runtime_tick_clock {
public:
    using clock = Clock;                            ///< whose time it is
    using duration = typename Clock::duration;      ///< in units of the clock
    using time_point = typename Clock::time_point;  ///< of the clock

    /// Ticks of that length. Tick 0 begins now.
    explicit runtime_tick_clock(duration tick) noexcept : runtime_tick_clock(tick, Clock::now()) {}

    /// Ticks of that length. Tick 0 begins at `origin`.
    runtime_tick_clock(duration tick, time_point origin) noexcept
        : origin_(origin), length_(std::max(tick, duration(1))) {
        assert(length_ > duration::zero() && "a tick lasts at least one unit of the clock");
    }

    runtime_tick_clock() TVEC_WANTS("a tick: clocked_wheel timers(runtime_tick_clock(5ms))");
    template <detail::no_tick_of<duration> D>
    explicit runtime_tick_clock(const D&) TVEC_WANTS("whole units of the clock: 5ms");
    template <detail::no_tick_of<duration> D>
    runtime_tick_clock(const D&, time_point) TVEC_WANTS("whole units of the clock: 5ms");

    /// What one tick lasts.
    duration tick_length() const noexcept { return length_; }

    // As in tick_clock.

    /// The tick we are in: what `advance` is to be called with.
    jiffies now() const noexcept { return floor(Clock::now()); }

    /// The tick that `t` lies in. 0 before the origin.
    jiffies floor(time_point t) const noexcept {
        return std::min<jiffies>(origin_.until(t) / units(), never);
    }

    /// The first tick that does not begin before `t`.
    jiffies ceil(time_point t) const noexcept {
        return std::min<jiffies>(ticks_over(origin_.until(t)), never);
    }

    /// How many ticks cover `d`, in whatever unit it is given: a whole number of ticks is covered
    /// by as many. 0 if it is negative, and `never` if it is longer than 2^64 - 2 units.
    template <detail::countable Rep, class Period>
    jiffies ticks_to_cover(std::chrono::duration<Rep, Period> d) const noexcept {
        constexpr auto longest = std::numeric_limits<std::uint64_t>::max();
        const auto covered = detail::units_to_cover<typename duration::period>(d, longest);
        return covered == longest ? never : std::min<jiffies>(ticks_over(covered), never);
    }

    /// The first reading of the clock that lies in tick `j`, or the last that it can show.
    time_point start_of(jiffies j) const noexcept {
        const std::uint64_t last = origin_.until_the_end();
        std::uint64_t since = 0;
        const bool is_beyond = __builtin_mul_overflow(j, units(), &since);
        return origin_.after(is_beyond ? last : std::min(since, last));
    }

    /// When tick 0 begins.
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
