/// \file
/// Coroutines that do something periodically.
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
#include "tvec/clock/missed_periods.hpp"
#include "tvec/core/detail/wants.hpp"
#include "tvec/core/timer_wheel.hpp"
#include "tvec/coroutines/sleep.hpp"

namespace tvec {

namespace detail {

/// With a clock or without.
template <class W>
concept wheel_like = std::convertible_to<W, timer_wheel&> || std::is_class_v<time_point_of<W>>;

/// What is neither of the arguments that may follow the wheel, and what is not the second.
template <class D, class W>
concept no_start_or_period_on = wheel_like<W> && no_delay_on<D, W> && no_deadline_on<D, W>;
template <class D, class W>
concept no_period_on = wheel_like<W> && no_delay_on<D, W> && !std::same_as<D, missed_periods>;

}  // namespace detail

/// Points in time that are a period apart, for a coroutine to await one after the other:
///
///     tvec::interval every(timers, 100ms);
///     for (;;) {
///         const tvec::jiffies missed = co_await every.next();
///         sample(missed);
///     }
///
/// They do not drift, however long the coroutine takes in between. If it comes back when one or
/// more have passed, the policy says what becomes of them. Periods round up to whole ticks, and to
/// one at least.
///
/// It arms nothing by itself: the timer is in what next() returns, and with that in the coroutine's
/// frame. So nothing is allocated, arming cannot fail, and destroying the coroutine cancels it; the
/// interval may live on, and another coroutine go on with it. One at a time awaits it. What
/// sleep.hpp says of wheels and exceptions holds here.
class interval {
public:
    class beat;

    /// The first comes when a `period` has passed from now.
    template <class Ticks, detail::countable Rep, class Period>
    interval(clocked_wheel<Ticks>& timers, std::chrono::duration<Rep, Period> period,
             missed_periods policy = missed_periods::skip) noexcept
        : interval(detail::beginning(timers.ticks().ceil(timers.after(period))), timers.wheel(),
                   detail::period_on(timers, period), policy) {}

    /// The first comes when the clock has reached `start`. If that has passed it comes at once, on
    /// the next tick, and those after it whole periods after `start`; what went by before is not
    /// missed. `clock::now()` is a first one at once.
    template <class Ticks, detail::countable Rep, class Period>
    interval(clocked_wheel<Ticks>& timers, typename clocked_wheel<Ticks>::time_point start,
             std::chrono::duration<Rep, Period> period,
             missed_periods policy = missed_periods::skip) noexcept
        : interval(detail::begin_at(timers, start, detail::period_on(timers, period)),
                   timers.wheel(), detail::period_on(timers, period), policy) {}

    /// The same in ticks, on a wheel without a clock: the first a period from now().
    interval(timer_wheel& wheel, tick_count period,
             missed_periods policy = missed_periods::skip) noexcept
        : interval(detail::beginning(detail::later(wheel.now(), at_least_one(period))), wheel,
                   at_least_one(period), policy) {}

    /// The same, the first on tick `start`.
    interval(timer_wheel& wheel, tick_count start, tick_count period,
             missed_periods policy = missed_periods::skip) noexcept
        : interval(detail::begin_at(start, wheel.now() + 1, at_least_one(period)), wheel,
                   at_least_one(period), policy) {}

    template <class W, detail::no_start_or_period_on<W> D, class... More>
    interval(W&&, const D&, More&&...) TVEC_WANTS("a wheel, perhaps a start, a period: 1500ms");
    template <class W, detail::deadline_on<W> At, detail::no_period_on<W> D, class... More>
    interval(W&&, const At&, const D&, More&&...) TVEC_WANTS("a wheel, a start, a period: 1500ms");

    /// Awaits the next. The co_await gives how many periods were passed over to get there besides:
    /// 0 in time, and in a burst. It always suspends: one that has passed comes on the next tick.
    beat next() noexcept;

private:
    interval(detail::beginning begin, timer_wheel& wheel, jiffies period,
             missed_periods policy) noexcept
        : wheel_(wheel), next_(begin), period_(period), policy_(policy) {
        assert(period_ >= 1 && "a period is at least one tick");
    }

    static jiffies at_least_one(jiffies period) noexcept { return std::max<jiffies>(period, 1); }

    jiffies pass() noexcept;

    timer_wheel& wheel_;
    detail::beginning next_;
    jiffies period_;
    missed_periods policy_;
};

/// What interval::next returns, to be awaited once. Movable until then.
class TVEC_AWAITED interval::beat {
public:
    /// Arms nothing yet.
    explicit beat(interval& of) noexcept : interval_(of) {}

    /// False: it always suspends.
    bool await_ready() const noexcept { return false; }

    /// Arms the timer, which resumes `asleep`.
    void await_suspend(std::coroutine_handle<> asleep) noexcept {
        assert(asleep && "a coroutine awaits it");
        assert(!timer_.pending() && "a beat is awaited once");
        asleep_ = asleep;
        interval_.wheel_.arm_at(timer_, interval_.next_.first);
    }

    /// How many periods were passed over.
    jiffies await_resume() const noexcept { return missed_; }

private:
    void on_fire() {
        missed_ = interval_.pass();
        asleep_.resume();
    }

    interval& interval_;
    jiffies missed_ = 0;
    std::coroutine_handle<> asleep_;
    timer timer_{call<&beat::timer_, &beat::on_fire>};
};

inline interval::beat interval::next() noexcept { return beat(*this); }

/// Goes on to the deadline after this one. Returns how many are passed over. What comes at once is
/// besides, and leaves the first deadline to come.
inline jiffies interval::pass() noexcept {
    const bool at_once = next_.first != next_.due;
    const detail::beat after =
        at_once ? detail::beat{next_.due, 0}
                : detail::beat_after(next_.due, period_, policy_, wheel_.now() + wheel_.behind());
    next_ = after.due;
    return after.missed;
}

}  // namespace tvec
