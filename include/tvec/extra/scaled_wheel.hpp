/// \file
/// Timeouts that shrink under load.
/// In extra/: before 1.0 a minor release may change or remove it.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/clock/tick_clock.hpp"
#include "tvec/core/detail/wants.hpp"
#include "tvec/core/timer_wheel.hpp"

namespace tvec {

/// A class of timers with a shortest and a longest time. One factor between 0 and 1, moved by the
/// pressure on the program, decides between the two.
///
///     tvec::scaled_wheel idle(timers, 55s);        // the longest time less the shortest
///     idle.arm_after(connection.idle, 5s);         // fires after 5 s to 60 s of silence
///     idle.set_factor(free_descriptors / all);     // 1: after 60 s, 0: after 5 s
///
/// A timer is due once `shortest + factor * stretch` has passed since it was armed, by the factor
/// that is in force then. The stretch is that of the class. The shortest time is that of each arm.
/// A program with two stretches has two classes.
///
/// The class is a wheel of its own that turns behind `timers`: the factor says how far. Timers stay
/// in their slots when the factor changes, because all of them move by the same time. Therefore
/// `set_factor` is O(1), and visits no timer. The next run visits the timers that a lower factor
/// has made due, and moves others as any advance does: at most once for each level.
///
/// The class needs no call in the loop: one timer in `timers`, the alarm, runs it. Each run of
/// `timers` visits at most `budget` timers of the class. The rest stays due, and comes first in the
/// next run, from the next tick on: a fall of the factor is spread over many turns of the loop.
///
///  - No timer is early by the factor in force. Lateness is below two ticks, because both times
///    round up, plus what the loop, callbacks and the budget add. On whole ticks, as of frames in a
///    game, it is 0, except that a shortest time of 0 is a tick late on a wheel that has run no
///    tick, and just after a factor that fell and rose.
///  - A lower factor makes timers due by the next tick of `timers`.
///  - A higher factor spares every timer that has not fired, also one that was due by the lower
///    one, and also if a callback of the class raises it.
///  - Timers fire in the order of their shortest deadlines, whatever the factor was in between.
///  - Arming, pushing back and cancelling cost what they cost in a wheel, and a few instructions
///    more. An exception from a callback passes through `timers.run`, and the rest stays due.
///
/// Callbacks may do whatever those of a wheel may. They get the wheel of the class as their
/// timer_wheel&. It belongs to the thread of `timers`, or to any thread under the lock of `timers`
/// if that is shared_by_lock() before. It takes as much memory as any wheel, and is neither copied
/// nor moved. `timers` must outlive every call of it. The alarm is pending in `timers` while the
/// class has something to do, so walks and drains there show it (`is_alarm`), and `collect` takes
/// it. If they cancel it or take it out, the class runs nothing until it is armed or its factor is
/// set. A `snapshot` keeps the alarm and not the class: a wheel with a class is not captured.
template <class Clocked> class scaled_wheel {
    static_assert(detail::clocked<Clocked>,
                  "scaled_wheel turns behind a tvec::clocked_wheel: a timer_wheel has no clock");

public:
    using time_point = typename Clocked::time_point;  ///< of the clock of `timers`

    /// Makes an empty class with factor 1. A negative stretch counts as 0. A stretch rounds up to
    /// whole ticks. Requires budget > 0.
    template <detail::countable Rep, class Period>
    scaled_wheel(Clocked& timers, std::chrono::duration<Rep, Period> stretch,
                 std::size_t budget = 256) noexcept
        : timers_(timers), stretch_(timers.ticks().ticks_to_cover(stretch)), lag_(stretch_),
          budget_(budget), wheel_(behind(timers.wheel().now())) {
        assert(budget > 0 && "a run visits at least one timer");
        if (timers.wheel().shared_by_lock()) wheel_.share_by_lock();
    }

    /// Arms `t` for the time between `earliest` and `earliest` plus the stretch that the factor
    /// decides. An `earliest` at which `t` would be due at once by the factor counts as the first
    /// one at which it is due on the next tick. Returns whether `t` was pending before.
    bool arm_at(timer& t, time_point earliest) noexcept {
        catch_up();
        const jiffies tick = std::max(timers_.ticks().ceil(earliest), wheel_.now() + 1);
        const bool was_pending = wheel_.arm_at(t, tick);
        set_alarm();
        return was_pending;
    }

    /// Calls arm_at for the time `shortest` from now. Reads the clock.
    template <detail::countable Rep, class Period>
    bool arm_after(timer& t, std::chrono::duration<Rep, Period> shortest) noexcept {
        return arm_at(t, timers_.after(shortest));
    }

    /// Makes `factor` the factor of all timers of the class, pending ones included. Clamped to
    /// [0, 1], and no number counts as 1. O(1). Runs nothing: timers that become due fire by the
    /// next tick that `timers` runs. May be called from callbacks.
    void set_factor(double factor) noexcept {
        factor_ = !(factor < 1) ? 1 : std::max(factor, 0.0);
        const double lag = std::ceil(factor_ * static_cast<double>(stretch_));
        lag_ = std::min(static_cast<jiffies>(lag), stretch_);
        set_alarm();
    }
    /// Returns the factor in force.
    double factor() const noexcept { return factor_; }

    /// Returns the time at which `t` is due by the factor in force. Requires that `t` was last
    /// armed here.
    time_point deadline(const timer& t) const noexcept {
        assert(detail::own_wheel::admits(wheel_, t) && "the timer was last armed on this wheel");
        return timers_.ticks().start_of(detail::later(t.expires(), lag_));
    }

    /// Returns how often the alarm has fired in `timers`.
    std::uint64_t alarms() const noexcept { return alarms_; }
    /// Returns whether the alarm is pending in `timers`.
    bool alarm_pending() const noexcept { return alarm_.pending(); }
    /// Returns whether `t`, which a walk or a drain of `timers` shows, is the alarm.
    bool is_alarm(const timer& t) const noexcept { return &t == &alarm_; }

    /// Returns the wheel of the class, for calls about all timers: for_each_pending, drain,
    /// count_pending. Do not arm timers on it or advance it.
    timer_wheel& wheel() noexcept { return wheel_; }
    /// Returns the wheel for reading.
    const timer_wheel& wheel() const noexcept { return wheel_; }

    template <class D>
    scaled_wheel(Clocked&&, const D&, std::size_t = 0) TVEC_WANTS("a wheel that outlives it");

private:
    /// Returns the tick of the class at tick `now` of `timers`.
    jiffies behind(jiffies now) const noexcept { return now - std::min(now, lag_); }
    /// Returns the tick that the running or the last call of `timers` goes to.
    jiffies target() const noexcept { return timers_.wheel().now() + timers_.wheel().behind(); }
    /// Returns the tick of `timers` at which the class has something to do: in a later call.
    jiffies wakeup() noexcept {
        const jiffies wake = wheel_.next_wakeup().value_or(never);
        return std::max(detail::later(wake, lag_), target() + 1);
    }
    /// Moves the class on to now, unless it has something to do by then: the alarm does that.
    void catch_up() noexcept {
        if (running_) return;
        const jiffies now = behind(target());
        if (now > wheel_.now() && wheel_.next_wakeup().value_or(never) > now) wheel_.advance(now);
    }
    void set_alarm() noexcept {
        if (running_) return;  // the end of the run sets it
        // It fires in this call of `timers`. Pushed back by each of its callbacks, it never would.
        if (alarm_.pending() && alarm_.expires() <= target()) return;
        const jiffies at = wakeup();
        if (at == never)
            alarm_.cancel();
        else
            timers_.wheel().arm_at(alarm_, at);
    }

    /// A run of the class, which an exception may end.
    struct run {
        explicit run(scaled_wheel& s) noexcept : self(s) { self.running_ = true; }
        ~run() {
            self.running_ = false;
            self.set_alarm();
        }
        run(const run&) = delete;
        run& operator=(const run&) = delete;
        scaled_wheel& self;
    };

    void on_alarm() {
        ++alarms_;
        const run here(*this);
        const jiffies goal = target(), until = std::max(behind(goal), wheel_.now());
        const auto unless_spared = [&](const timer_wheel::due_callback& fire) {
            fire();
            return behind(goal) >= until;  // else the callback has raised the factor
        };
        if (behind(goal) >= until) wheel_.advance_watched(until, unless_spared, budget_);
    }

    Clocked& timers_;
    jiffies stretch_;
    jiffies lag_;  ///< the part of the stretch that the factor allows
    std::size_t budget_;
    double factor_ = 1;
    std::uint64_t alarms_ = 0;
    bool running_ = false;
    timer alarm_{call<&scaled_wheel::alarm_, &scaled_wheel::on_alarm>};
    timer_wheel wheel_;
};

/// Deduces the type of the wheel.
template <class Clocked, class D> scaled_wheel(Clocked&, D) -> scaled_wheel<Clocked>;
/// Deduces the type of the wheel.
template <class Clocked, class D> scaled_wheel(Clocked&, D, std::size_t) -> scaled_wheel<Clocked>;

}  // namespace tvec
