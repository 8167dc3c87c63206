/// \file
/// A wheel that is driven by a clock, with times of std::chrono.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <cassert>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>

#include "tvec/clock/detail/clocked.hpp"
#include "tvec/clock/detail/waiting.hpp"
#include "tvec/clock/tick_clock.hpp"
#include "tvec/core/detail/broken_promise.hpp"
#include "tvec/core/detail/wants.hpp"
#include "tvec/core/timer_wheel.hpp"

namespace tvec {

/// A `timer_wheel` and the clock that drives it.
///
///     tvec::clocked_wheel timers;                  // ticks of one millisecond, steady_clock
///     timers.arm_after(connection.idle, 30s);
///     timers.run();                                // once per turn of the loop
///
/// No timer fires early by even a nanosecond of the clock. Lateness is at most one tick, plus the
/// time that callbacks take and that the loop oversleeps. Ticks lie on a grid that begins at the
/// origin: after a tick that ran late, the next is due in less than a tick. Every relative arm
/// reads the clock (about 30 ns), because a delay is measured from the call and not from the loop's
/// last wake-up. On a turn_clock it does not, and is measured from the turn.
///
/// Delays are durations that count in integers of at most 64 bits. They saturate: a timer armed for
/// std::chrono::hours::max() never fires, and a negative delay counts as 0. One thread owns the
/// wheel. It is neither copied nor moved.
template <class Ticks = tick_clock<std::chrono::milliseconds>> class clocked_wheel {
    static_assert(detail::clocked<Ticks>,
                  "a clocked_wheel is made of a tick_clock: "
                  "tvec::clocked_wheel<tvec::tick_clock<std::chrono::microseconds>>");

public:
    using clock = typename Ticks::clock;            ///< the clock that is read
    using duration = typename Ticks::duration;      ///< in units of the clock
    using time_point = typename Ticks::time_point;  ///< of the clock
    /// the length of a tick; void if that is chosen at run time: then ticks().tick_length()
    using tick = typename detail::tick_of<Ticks>::type;

    /// Makes an empty wheel. Tick 0 begins now.
    clocked_wheel() noexcept : clocked_wheel(Ticks{}) {}

    /// Makes an empty wheel. Tick 0 begins at the origin of `ticks`.
    explicit clocked_wheel(Ticks ticks) noexcept : ticks_(ticks), wheel_(ticks.now()) {}

    /// Ends the thread's turn on a turn_clock, so that its reading does not outlive the loop. Does
    /// nothing on other clocks.
    ~clocked_wheel() { detail::end_turn<clock>(); }

    // --- arm: as in timer_wheel; each returns whether the timer was pending before --------------

    /// Arms `t` for the time `deadline`.
    bool arm_at(timer& t, time_point deadline) noexcept {
        return wheel_.arm_at(t, ticks_.ceil(deadline));
    }

    /// Arms each of `timers` for the time `deadline`. See timer_wheel.
    std::size_t arm_each_at(std::span<timer* const> timers, time_point deadline) noexcept {
        return wheel_.arm_each_at(timers, ticks_.ceil(deadline));
    }

    /// Arms `t` for the time `delay` from now.
    template <detail::countable Rep, class Period>
    bool arm_after(timer& t, std::chrono::duration<Rep, Period> delay) noexcept {
        __builtin_prefetch(&t, 1);  // reading the clock waits for earlier loads, but not for this
        return arm_at(t, detail::add(read(), saturated(delay)));
    }

    /// Arms `t` for the time `deadline` if it is pending. See timer_wheel.
    bool arm_if_pending(timer& t, time_point deadline) noexcept {
        return wheel_.arm_if_pending(t, ticks_.ceil(deadline));
    }

    /// Arms `t` for the time `deadline` unless it is pending. See timer_wheel.
    bool arm_unless_pending(timer& t, time_point deadline) noexcept {
        return wheel_.arm_unless_pending(t, ticks_.ceil(deadline));
    }

    /// Arms `t` for the time `deadline` unless it is pending for that time or an earlier one. See
    /// timer_wheel.
    bool arm_if_earlier(timer& t, time_point deadline) noexcept {
        return wheel_.arm_if_earlier(t, ticks_.ceil(deadline));
    }

    /// Arms `t` for some time between `earliest` and `latest` from now, together with as many other
    /// timers as possible.
    template <detail::countable Rep, class Period, detail::countable Rep2, class Period2>
    bool arm_within(timer& t, std::chrono::duration<Rep, Period> earliest,
                    std::chrono::duration<Rep2, Period2> latest) noexcept {
        const time_point now = read();
        return wheel_.arm_within(t, ticks_.ceil(detail::add(now, saturated(earliest))),
                                 ticks_.floor(detail::add(now, saturated(latest))));
    }

    /// Arms `t` for the first time in the future that is a whole number of periods after the time
    /// it was last armed for. The period rounds up to whole ticks, at least one. Deadlines are a
    /// period apart, so after a late call the next call comes sooner. For a whole period after each
    /// call use arm_after. Returns the number of missed periods.
    template <detail::countable Rep, class Period>
    jiffies arm_next(timer& t, std::chrono::duration<Rep, Period> period) noexcept {
        return wheel_.arm_next(t, ticks_.ticks_to_cover(period));
    }

    // --- run ------------------------------------------------------------------------------------

    /// Reads the clock, for all calls of this turn of the loop. Only on a turn_clock does it do
    /// anything: other clocks are read by each call.
    void begin_turn() noexcept { detail::begin_turn<clock>(); }

    /// Fires the timers that are due by the clock, in at most `budget` visits. Call it once per
    /// turn of the loop, whatever woke the loop. A clock that goes back is ignored, and counted.
    timer_wheel::progress run(std::size_t budget = timer_wheel::unlimited) {
        return wheel_.advance(tick_to_run(), budget);
    }

    /// Fires as `run` does, but begins no further callback once the clock has reached `deadline`. A
    /// budget of visits does not bound slow callbacks. The remaining timers stay due, and come
    /// first in the next call. The clock is read after each callback (about 30 ns), so at least one
    /// callback runs if any is due: a loop that is always late still makes progress. Moves between
    /// callbacks are bounded by `budget` alone.
    ///
    ///     timers.run_until(timers.after(2ms), 256);
    timer_wheel::progress run_until(time_point deadline,
                                    std::size_t budget = timer_wheel::unlimited) {
        return run_watched(
            [this, deadline](const timer_wheel::due_callback& fire) {
                fire();
                begin_turn();
                return now() < deadline;
            },
            budget);
    }

    /// Takes the timers that are due by the clock instead of calling them, in at most `budget`
    /// visits: see timer_wheel::collect.
    ///
    ///     timers.collect(64, [&](tvec::timer& t) { late.push_back(&owner_of<&job::limit>(t)); });
    template <class F> timer_wheel::progress collect(std::size_t budget, F&& take) {
        return wheel_.collect(tick_to_run(), budget, take);
    }

    /// Fires as `run` does, with `watch` around each callback. The watch may measure the callback
    /// and end the call: see timer_wheel::advance_watched.
    template <class F>
    timer_wheel::progress run_watched(F&& watch, std::size_t budget = timer_wheel::unlimited) {
        return wheel_.advance_watched(tick_to_run(), watch, budget);
    }

    /// Fires as `run` does, with the timers of each tick in an order of the caller's: see
    /// timer_wheel::advance_in_order.
    template <class F>
    timer_wheel::progress run_in_order(F&& before, std::size_t budget = timer_wheel::unlimited) {
        return wheel_.advance_in_order(tick_to_run(), before, budget);
    }

    /// Returns the time at which `run` must be called next: sleep until then. It lies in the past
    /// if work is left over or `run` is late. Empty if the wheel holds no timer but those armed for
    /// `never`. A cancelled timer may stay in the wheel until its time has come. See
    /// timer_wheel::next_wakeup.
    std::optional<time_point> next_wakeup() noexcept {
        detail::end_turn<clock>();  // the caller is about to sleep
        const std::optional<jiffies> wakeup = wheel_.next_wakeup();
        if (!wakeup) return std::nullopt;
        return ticks_.start_of(*wakeup);
    }

    /// Returns the timeout of a wait that takes whole milliseconds as an int, such as poll or a
    /// function of a framework: the time until next_wakeup(), rounded up, so that the loop does not
    /// wake before it. 0 if its time has come, or work is left over, and -1 if there is none. It is
    /// real time, also on a game_clock. Call it last before the sleep. Reads the clock.
    ///
    ///     poll(watched, n, timers.wait_ms());
    int wait_ms() noexcept { return detail::whole_milliseconds(detail::time_to_wakeup(*this)); }

    /// Returns the time by the clock, which it reads. The tick that was run last is wheel().now().
    time_point now() const noexcept { return detail::reading(ticks_); }

    /// Returns the time for which `t` was last armed here, rounded up to a tick: it is due then. A
    /// timer that is armed for `never` returns the last time that the clock can show. A debug build
    /// asserts that it is not linked in another wheel, whose ticks are others.
    time_point deadline(const timer& t) const noexcept {
        assert(detail::own_wheel::admits(wheel_, t) && "the timer was last armed on this wheel");
        return ticks_.start_of(t.expires());
    }

    /// Returns the time until `t` is due, 0 if it has come; empty if `t` is not pending. Requires
    /// that `t` was armed here. Reads the clock.
    std::optional<duration> remaining(const timer& t) const noexcept {
        if (!t.pending()) return std::nullopt;
        return detail::time_left(now(), deadline(t));
    }

    /// Returns whether any timer is pending. Searches until it finds one: see timer_wheel.
    bool any_pending() const noexcept { return wheel_.any_pending(); }

    /// Returns the number of pending timers. Counts them: see timer_wheel.
    std::size_t count_pending() const noexcept { return wheel_.count_pending(); }

    /// Returns the point of the clock that lies `delay` ahead, for calls that take a deadline:
    ///
    ///     timers.arm_if_earlier(connection.check, timers.after(50ms));
    template <detail::countable Rep, class Period>
    static time_point
    after(std::chrono::duration<Rep, Period> delay) noexcept requires detail::one_clock<clock> {
        return detail::add(clock::now(), saturated(delay));
    }
    /// Does the same on a clock that is an object.
    template <detail::countable Rep, class Period>
    time_point after(std::chrono::duration<Rep, Period> delay) const noexcept
        requires(!detail::one_clock<clock>) {
        return detail::add(detail::reading(ticks_), saturated(delay));
    }

    /// Returns the wheel, for calls in ticks or about all timers (for_each_pending, drain). Do not
    /// advance it beyond the clock: timers that are armed by a delay would then be late. On a
    /// steady clock a debug build notices this at the next arm by a delay or `run`. It prints one
    /// line on the standard error output, and ends the program (std::terminate).
    timer_wheel& wheel() noexcept { return wheel_; }
    /// Returns the wheel for reading.
    const timer_wheel& wheel() const noexcept { return wheel_; }

    /// Returns the clock in ticks.
    const Ticks& ticks() const noexcept { return ticks_; }

    // --- wrong calls, and what to write instead -------------------------------------------------

    void arm(const auto&...) const TVEC_WANTS("arm_after(t, 30s), or arm_at(t, deadline)");
    void schedule(const auto&...) const TVEC_WANTS("arm_after(t, 30s); functions: timeout_pool");
    void cancel(const auto&...) const TVEC_WANTS("the timer itself: t.cancel()");
    void advance(const auto&...) const TVEC_WANTS("run(); in ticks wheel().advance(tick)");
    void empty() const TVEC_WANTS("any_pending(), or count_pending()");
    explicit clocked_wheel(detail::no<Ticks>) TVEC_WANTS("ticks: t{runtime_tick_clock(10ms)}");
    clocked_wheel(const clocked_wheel&) TVEC_WANTS("a reference: a wheel stays where it is");
    clocked_wheel& operator=(const clocked_wheel&) TVEC_WANTS("a reference: a wheel stays there");
    void arm_at(detail::no<timer&>, detail::anything) TVEC_WANTS("a timer: c.idle, not c or &c");
    void arm_after(detail::no<timer&>, detail::anything) TVEC_WANTS("a timer: c.idle, not c or &c");
    void arm_at(timer&, detail::no<time_point>) TVEC_WANTS("a time of its clock: after(20ms)");
    void arm_if_pending(timer&, detail::no<time_point>) TVEC_WANTS("a time: after(20ms)");
    void arm_unless_pending(timer&, detail::no<time_point>) TVEC_WANTS("a time: after(20ms)");
    void arm_if_earlier(timer&, detail::no<time_point>) TVEC_WANTS("a time: after(20ms)");
    void arm_after(timer&, detail::anything) TVEC_WANTS("a duration: 1500ms, not 1.5s");
    void arm_next(timer&, detail::anything) TVEC_WANTS("a duration: 1500ms, not 1.5s");
    void arm_within(timer&, const auto&...) TVEC_WANTS("two durations: 60s, 90s");
    static void after(detail::anything) TVEC_WANTS("a duration: 1500ms, not 1.5s");
    void run(detail::no<std::size_t>) TVEC_WANTS("a budget of visits; it reads the clock itself");
    void run_until(detail::no<time_point>) TVEC_WANTS("a time_point: after(2ms)");

private:
    /// Returns the time by the clock. In a debug build, ends the program if the wheel is beyond it.
    time_point read() const noexcept {
        const time_point now = detail::reading(ticks_);
        expect_no_lead(ticks_.floor(now));
        return now;
    }

    /// Returns the tick to run now. In a debug build, ends the program if the wheel is beyond it.
    jiffies tick_to_run() noexcept {
        begin_turn();
        const jiffies now = ticks_.now();
        expect_no_lead(now);
        detail::note_run(wheel_, now);
        return now;
    }

    /// In a debug build, ends the program if the wheel is beyond the clock, which is at `now`. A
    /// clock that is not steady may have gone back.
    void expect_no_lead([[maybe_unused]] jiffies now) const noexcept {
#ifndef NDEBUG
        if (clock::is_steady && wheel_.now() > now)
            detail::broken_promise("the wheel() of a clocked_wheel was advanced beyond its clock, "
                                   "and timers armed by a delay would be late: call run() instead, "
                                   "and begin_turn if threads share it on a turn_clock");
#endif
    }

    /// Returns `d` in units of the clock, rounded up, and clamped to the longest duration.
    template <class Rep, class Period>
    static constexpr duration saturated(std::chrono::duration<Rep, Period> d) noexcept {
        using units = std::ratio_divide<Period, typename duration::period>;
        constexpr auto last = static_cast<std::uint64_t>(duration::max().count());
        if (d <= d.zero()) return duration::zero();
        const auto count = static_cast<std::uint64_t>(d.count());
        return duration(static_cast<typename duration::rep>(
            detail::scale<units, detail::rounding::up>(count, last)));
    }

    Ticks ticks_;
    timer_wheel wheel_;
};

/// Deduces the type of the clock.
template <class Ticks> clocked_wheel(Ticks) -> clocked_wheel<Ticks>;
/// A duration at run time has no type that tells its ticks: see the constructor.
template <class Rep, class Period>
clocked_wheel(std::chrono::duration<Rep, Period>) -> clocked_wheel<>;

}  // namespace tvec
