/// \file
/// A wheel that is driven by a clock, with times of std::chrono.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <chrono>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>

#include "tvec/clock/detail/alarm_misuse.hpp"
#include "tvec/clock/tick_clock.hpp"
#include "tvec/core/detail/broken_promise.hpp"
#include "tvec/core/detail/wants.hpp"
#include "tvec/core/timer_wheel.hpp"

namespace tvec {

namespace detail {

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

/// Types that are no argument of `after`, `arm_at`, `run` and of a constructor.
template <class D>
concept no_duration = !whole_duration<D>;
template <class At, class TimePoint>
concept no_time_point = !std::convertible_to<const At&, TimePoint>;
template <class At, class TimePoint>
concept point_of_another_clock = no_time_point<At, TimePoint> && requires {
    typename At::clock;
} && !std::same_as<typename At::clock, typename TimePoint::clock>;
template <class D>
concept any_duration = requires(const D& d) {
    std::chrono::duration_cast<std::chrono::seconds>(d);
};
template <class B>
concept no_budget = !std::convertible_to<B, std::size_t>;

/// Objects that are no timers, most of which have one as a member, and pointers.
template <class T, class Object = std::remove_cvref_t<T>>
concept no_timer =
    !std::convertible_to<T, timer&> &&
    (std::is_pointer_v<Object> || (std::is_class_v<Object> && !std::derived_from<Object, timer>));

template <class T, class TimePoint, class At>
concept arms_at = std::convertible_to<T, timer&> && !no_time_point<At, TimePoint>;
template <class T, class... D>
concept arms_after = std::convertible_to<T, timer&> && !(no_duration<D> || ...);

/// Arguments that arm nothing. The exact ones are for a wheel that is const: on another wheel the
/// overload that arms is the better one.
template <class At, class T, class TimePoint>
concept refused_at =
    !arms_at<T, TimePoint, At> || (std::same_as<T, timer&> && std::same_as<At, TimePoint>);
template <class D, class T, class... More>
concept refused_after = !arms_after<T, D, More...> || std::same_as<T, timer&>;

/// Says why a wheel does not arm a `T` at an `At`.
template <class TimePoint, class T, class At> consteval any_result refuse_to_arm_at() {
    constexpr bool is_other = point_of_another_clock<At, TimePoint>;
    constexpr bool is_legal = arms_at<T, TimePoint, At>;
    static_assert(!no_timer<T>, "it wants a timer, not its owner or address: c.idle");
    static_assert(no_timer<T> || !is_other,
                  "it wants its own clock: after(t - system_clock::now())");
    static_assert(no_timer<T> || is_other || is_legal,
                  "it wants a timer& and a time_point: after(20ms)");
    static_assert(!is_legal, "it wants a wheel that is not const");
    return {};
}

/// Says why a wheel does not arm a `T` after a duration, or after one of two.
template <std::size_t Durations, class T, class... D> consteval any_result refuse_to_arm_after() {
    constexpr bool is_legal = arms_after<T, D...> && sizeof...(D) == Durations;
    static_assert(!no_timer<T>, "it wants a timer, not its owner or address: c.idle");
    static_assert(no_timer<T> || is_legal || Durations != 1,
                  "it wants a timer& and a duration: 1500ms, not 1.5s");
    static_assert(no_timer<T> || is_legal || Durations != 2,
                  "it wants a timer&, and two durations: 60s, 90s");
    static_assert(!is_legal, "it wants a wheel that is not const");
    return {};
}

/// In a debug build, notes that `wheel` is about to run up to tick `until`.
inline void note_run([[maybe_unused]] timer_wheel& wheel, [[maybe_unused]] jiffies until) noexcept {
#ifndef NDEBUG
    const std::optional<jiffies> wakeup = wheel.next_wakeup();
    wheel_runs(&wheel, wakeup && *wakeup > wheel.now() && *wakeup < until);
#endif
}

}  // namespace detail

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
    /// and end the call: see timer_wheel::advance_watched. A callback_meter is such a watch.
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
        detail::end_turn<clock>();  // who asks will sleep
        const std::optional<jiffies> wakeup = wheel_.next_wakeup();
        if (!wakeup) return std::nullopt;
        return ticks_.start_of(*wakeup);
    }

    /// Returns the time by the clock, which it reads. The tick that was run last is wheel().now().
    time_point now() const noexcept { return detail::reading(ticks_); }

    /// Returns the time for which `t` was last armed here, rounded up to a tick: it is due then. A
    /// timer that is armed for `never` returns the last time that the clock can show.
    time_point deadline(const timer& t) const noexcept { return ticks_.start_of(t.expires()); }

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

    // --- misuses that the compiler refuses ------------------------------------------------------

    TVEC_INSTEAD(arm, "arm_after(t, 30s), or arm_at(t, deadline)")
    TVEC_INSTEAD(schedule, "arm_after(t, 30s); functions are scheduled in a timeout_pool")
    TVEC_INSTEAD(cancel, "a timer cancels itself, t.cancel()")
    TVEC_INSTEAD(advance, "run(), which reads the clock; in ticks wheel().advance(tick)")
    TVEC_INSTEAD(empty, "any_pending(), or count_pending()")
    template <detail::any_duration D>
    explicit clocked_wheel(D) TVEC_WANTS("ticks: clocked_wheel t{runtime_tick_clock(10ms)}");
    clocked_wheel(const clocked_wheel&) TVEC_WANTS("a reference: a wheel stays where it is");
    clocked_wheel& operator=(const clocked_wheel&) TVEC_WANTS("a reference: a wheel stays there");
    template <class T, detail::refused_at<T, time_point> At>
    detail::any_result arm_at(T&&, const At&) const {
        return detail::refuse_to_arm_at<time_point, T, At>();
    }
    template <class T, detail::refused_at<T, time_point> At>
    detail::any_result arm_if_pending(T&&, const At&) const {
        return detail::refuse_to_arm_at<time_point, T, At>();
    }
    template <class T, detail::refused_at<T, time_point> At>
    detail::any_result arm_unless_pending(T&&, const At&) const {
        return detail::refuse_to_arm_at<time_point, T, At>();
    }
    template <class T, detail::refused_at<T, time_point> At>
    detail::any_result arm_if_earlier(T&&, const At&) const {
        return detail::refuse_to_arm_at<time_point, T, At>();
    }
    template <class T, detail::refused_after<T> D>
    detail::any_result arm_after(T&&, const D&) const {
        return detail::refuse_to_arm_after<1, T, D>();
    }
    template <class T, detail::refused_after<T> D>
    detail::any_result arm_next(T&&, const D&) const {
        return detail::refuse_to_arm_after<1, T, D>();
    }
    template <class T, class D> detail::any_result arm_within(T&&, const D&) const {
        return detail::refuse_to_arm_after<2, T, D>();
    }
    template <class T, class D, detail::refused_after<T, D> D2>
    detail::any_result arm_within(T&&, const D&, const D2&) const {
        return detail::refuse_to_arm_after<2, T, D, D2>();
    }
    template <detail::no_duration D>
    static detail::any_result after(const D&) TVEC_REFUSES(D, "a duration: 1500ms, not 1.5s");
    template <detail::no_budget B>
    detail::any_result run(const B&)
        TVEC_REFUSES(B, "a budget of visits; it reads the clock itself");
    template <detail::no_time_point<time_point> T>
    detail::any_result run_until(const T&, std::size_t = 0)
        TVEC_REFUSES(T, "a time_point: after(2ms)");

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
                                   "and timers armed by a delay would be late: call run() instead");
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
