/// \file
/// Clocks, and the one place where their time becomes ticks.
#pragma once

#include <time.h>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <ratio>

#include "tvec/geometry.hpp"

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

/// from + d for a `d` that is not negative, saturating.
template <class TimePoint>
constexpr TimePoint add(TimePoint from, typename TimePoint::duration d) noexcept {
    typename TimePoint::rep sum{};
    if (__builtin_add_overflow(from.time_since_epoch().count(), d.count(), &sum))
        return TimePoint::max();
    return TimePoint(typename TimePoint::duration(sum));
}

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
        return detail::scale<ticks_per_unit, detail::rounding::down>(since_origin(t), never);
    }

    /// The first tick that does not begin before `t`.
    jiffies ceil(time_point t) const noexcept {
        return detail::scale<ticks_per_unit, detail::rounding::up>(since_origin(t), never);
    }

    /// How many ticks cover `d`, in whatever unit it is given: a whole number of ticks is covered
    /// by as many. 0 if it is negative.
    template <detail::countable Rep, class Period>
    static constexpr jiffies ticks_to_cover(std::chrono::duration<Rep, Period> d) noexcept {
        using ticks_per_period = std::ratio_divide<Period, typename Tick::period>;
        if (d <= d.zero()) return 0;
        return detail::scale<ticks_per_period, detail::rounding::up>(
            static_cast<std::uint64_t>(d.count()), never);
    }

    /// The first reading of the clock that lies in tick `j`, or the last that it can show.
    time_point start_of(jiffies j) const noexcept {
        const std::uint64_t last = since_origin(time_point::max());
        const std::uint64_t since = detail::scale<units_per_tick, detail::rounding::up>(j, last);
        const std::uint64_t start = unsigned_of(origin_.time_since_epoch()) + since;
        return time_point(duration(static_cast<rep>(start)));
    }

    /// When tick 0 begins.
    time_point origin() const noexcept { return origin_; }

private:
    using rep = typename duration::rep;
    using ticks_per_unit = std::ratio_divide<typename duration::period, typename Tick::period>;
    using units_per_tick = std::ratio_divide<typename Tick::period, typename duration::period>;
    static_assert(std::signed_integral<rep> && detail::countable<rep>,
                  "a clock counts in signed integers of at most 64 bits");

    static constexpr std::uint64_t unsigned_of(duration d) noexcept {
        return static_cast<std::uint64_t>(d.count());
    }

    std::uint64_t since_origin(time_point t) const noexcept {
        if (t <= origin_) return 0;  // else the difference fits, though perhaps not in a `rep`
        return unsigned_of(t.time_since_epoch()) - unsigned_of(origin_.time_since_epoch());
    }

    time_point origin_;
};

}  // namespace tvec
