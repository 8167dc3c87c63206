/// \file
/// Periodic coroutines.
/// In extra/: before 1.0 a minor release may change or remove it.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <type_traits>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/clock/detail/beats.hpp"
#include "tvec/clock/detail/missed_periods.hpp"  // IWYU pragma: export
#include "tvec/core/detail/wants.hpp"
#include "tvec/core/timer_wheel.hpp"
#include "tvec/coroutines/sleep.hpp"

namespace tvec {

/// Points in time a period apart, which a coroutine awaits one after the other:
///
///     tvec::interval every(timers, 100ms);
///     for (;;) {
///         const tvec::jiffies missed = co_await every.next();
///         sample(missed);
///     }
///
/// They do not drift, however long the coroutine takes in between. The policy says what becomes of
/// points that have passed when the coroutine comes back. Periods round up to whole ticks, at least
/// one.
///
/// An interval arms nothing by itself. The timer lives in the result of next(), and with that in
/// the coroutine's frame: nothing is allocated, arming cannot fail, and destroying the coroutine
/// cancels the timer. The interval may outlive the coroutine, and another may go on with it. One
/// coroutine at a time awaits it. The rules of sleep.hpp for wheels and exceptions hold here.
class interval {
public:
    class beat;

    /// Makes an interval whose first point is a `period` from now.
    template <class Ticks, detail::countable Rep, class Period>
    interval(clocked_wheel<Ticks>& timers, std::chrono::duration<Rep, Period> period,
             missed_periods policy = missed_periods::skip) noexcept
        : interval(detail::beginning(timers.ticks().ceil(timers.after(period))), timers.wheel(),
                   detail::period_on(timers, period), policy) {}

    /// Makes an interval whose first point is `start`. If `start` has passed, the first point comes
    /// at once, on the next tick, and the following ones whole periods after `start`. Points before
    /// that do not count as missed. A `start` of the wheel's `now()` gives a first point at once.
    template <class Ticks, detail::countable Rep, class Period>
    interval(clocked_wheel<Ticks>& timers, typename clocked_wheel<Ticks>::time_point start,
             std::chrono::duration<Rep, Period> period,
             missed_periods policy = missed_periods::skip) noexcept
        : interval(detail::begin_at(timers, start, detail::period_on(timers, period)),
                   timers.wheel(), detail::period_on(timers, period), policy) {}

    /// Makes an interval on a wheel without a clock, in ticks. The first point is a period from
    /// now().
    interval(timer_wheel& wheel, tick_count period,
             missed_periods policy = missed_periods::skip) noexcept
        : interval(detail::beginning(detail::later(wheel.now(), at_least_one(period))), wheel,
                   at_least_one(period), policy) {}

    /// Makes an interval on a wheel without a clock. Its first point is tick `start`.
    interval(timer_wheel& wheel, tick_count start, tick_count period,
             missed_periods policy = missed_periods::skip) noexcept
        : interval(detail::begin_at(start, wheel.now() + 1, at_least_one(period)), wheel,
                   at_least_one(period), policy) {}

    interval(detail::anything, detail::anything) TVEC_WANTS("a wheel, a period: 1500ms, not 1.5s");
    interval(detail::anything, detail::anything, detail::anything) TVEC_WANTS("wheel, start, 50ms");

    /// Returns an awaitable for the next point. The co_await returns the number of periods that
    /// were skipped: 0 if it is in time, and in a burst. It always suspends: a point that has
    /// passed comes on the next tick.
    beat next() noexcept;

private:
    interval(detail::beginning begin, timer_wheel& wheel, jiffies period,
             missed_periods policy) noexcept
        : wheel_(wheel), next_(begin), period_(period), policy_(policy) {
        assert(period_ >= 1 && "a period is at least one tick");
    }

    static jiffies at_least_one(jiffies period) noexcept { return std::max<jiffies>(period, 1); }

    jiffies pass(jiffies reached) noexcept;

    timer_wheel& wheel_;
    detail::beginning next_;
    jiffies period_;
    missed_periods policy_;
};

/// The result of interval::next, to be awaited once. Movable until then.
class TVEC_AWAITED interval::beat {
public:
    /// Makes an awaitable. Arms nothing yet.
    explicit beat(interval& of) noexcept : interval_(of) {}

    /// Returns false: a co_await always suspends.
    bool await_ready() const noexcept { return false; }

    /// Arms the timer, which resumes `asleep`.
    void await_suspend(std::coroutine_handle<> asleep) noexcept {
        assert(asleep && "a coroutine awaits it");
        assert(!timer_.pending() && "a beat is awaited once");
        asleep_ = asleep;
        interval_.wheel_.arm_at(timer_, interval_.next_.first);
    }

    /// Moves the interval on, and returns the number of periods that were skipped. A beat that is
    /// destroyed before comes with the next next().
    jiffies await_resume() noexcept { return interval_.pass(reached_); }

private:
    void on_fire() {
        reached_ = interval_.wheel_.now() + interval_.wheel_.behind();
        asleep_.resume();
    }

    interval& interval_;
    jiffies reached_ = 0;  ///< the tick that the wheel was advancing to when the timer fired
    std::coroutine_handle<> asleep_;
    timer timer_{call<&beat::timer_, &beat::on_fire>};
};

inline interval::beat interval::next() noexcept { return beat(*this); }

/// Moves on to the next deadline. Returns the number of periods that were skipped. An extra call at
/// once leaves the first deadline to come.
inline jiffies interval::pass(jiffies reached) noexcept {
    const bool at_once = next_.first != next_.due;
    const detail::beat after = at_once ? detail::beat{next_.due, 0}
                                       : detail::beat_after(next_.due, period_, policy_, reached);
    next_ = after.due;
    return after.missed;
}

}  // namespace tvec
