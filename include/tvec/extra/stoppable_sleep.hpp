/// \file
/// Sleeps of coroutines that a stop request ends. Empty if the standard library has no
/// std::stop_token, as libc++ 14.
/// In extra/: before 1.0 a minor release may change or remove it.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <cassert>
#include <chrono>
#include <coroutine>
#include <optional>
#include <utility>

#if __has_include(<stop_token>)
#include <stop_token>
#endif

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/core/detail/wants.hpp"
#include "tvec/core/timer_wheel.hpp"
#include "tvec/coroutines/sleep.hpp"

#ifdef __cpp_lib_jthread

namespace tvec {

/// The result of sleep_for and sleep_until for a token, to be awaited once. Movable until then.
///
///     for (;;) {
///         const bool stopped = co_await tvec::sleep_for(timers, 5s, token);
///         if (stopped) break;
///         flush();
///     }
///
/// The co_await returns whether stop was requested before the coroutine went on. If it was
/// requested before the co_await, the coroutine does not suspend. A request during the sleep
/// resumes the coroutine on the next tick, inside `run` or `advance` as ever, and not inside
/// request_stop. Nothing is allocated.
///
/// clang 14 destroys the last awaited object a second time if an exception leaves the coroutine and
/// the coroutine is destroyed then. A token does not survive that: with clang 14, keep exceptions
/// in the promise.
///
/// The wheel belongs to a thread: while a coroutine sleeps, request stop on that thread only.
/// Another thread asks the loop to request it. If the wheel is gone by then, no coroutine is woken.
class TVEC_AWAITED stoppable_sleeper {
public:
    /// Makes a sleeper. Arms nothing yet.
    stoppable_sleeper(timer_wheel& wheel, jiffies expires, std::stop_token token) noexcept
        : wheel_(wheel), nap_(wheel, expires), token_(std::move(token)) {}

    /// Moves a sleeper that no coroutine awaits.
    stoppable_sleeper(stoppable_sleeper&& other) noexcept
        : wheel_(other.wheel_), nap_(std::move(other.nap_)), token_(std::move(other.token_)) {}
    stoppable_sleeper& operator=(const stoppable_sleeper&) = delete;
    ~stoppable_sleeper() = default;

    /// Returns whether stop has been requested already.
    bool await_ready() const noexcept { return token_.stop_requested(); }

    /// Arms the timer, which resumes `asleep`.
    void await_suspend(std::coroutine_handle<> asleep) noexcept {
        assert(!on_stop_ && "a stoppable sleep is awaited once");
        nap_.await_suspend(asleep);
        on_stop_.emplace(token_, waker{*this});
    }

    /// Returns whether stop has been requested.
    bool await_resume() const noexcept { return token_.stop_requested(); }

private:
    struct waker {
        void operator()() const noexcept { self.nap_.reset({self.wheel_, 0}); }
        stoppable_sleeper& self;
    };

    timer_wheel& wheel_;
    sleeper nap_;
    std::stop_token token_;
    std::optional<std::stop_callback<waker>> on_stop_;
};

/// Returns a sleep until the clock has reached `deadline`, or until stop is requested on the
/// wheel's thread. O(1), noexcept, no allocation.
template <class Ticks>
stoppable_sleeper sleep_until(clocked_wheel<Ticks>& timers,
                              typename clocked_wheel<Ticks>::time_point deadline,
                              std::stop_token token) noexcept {
    return {timers.wheel(), timers.ticks().ceil(deadline), std::move(token)};
}

/// Returns a sleep until `delay` has passed from this call, or until stop is requested.
template <class Ticks, detail::countable Rep, class Period>
stoppable_sleeper sleep_for(clocked_wheel<Ticks>& timers, std::chrono::duration<Rep, Period> delay,
                            std::stop_token token) noexcept {
    return sleep_until(timers, timers.after(delay), std::move(token));
}

/// Returns a sleep until tick `expires`, on a wheel without a clock.
inline stoppable_sleeper sleep_until(timer_wheel& wheel, tick_count expires,
                                     std::stop_token token) noexcept {
    return {wheel, expires, std::move(token)};
}

/// Returns a sleep for `delay` ticks from now(), on a wheel without a clock.
inline stoppable_sleeper sleep_for(timer_wheel& wheel, tick_count delay,
                                   std::stop_token token) noexcept {
    return {wheel, detail::later(wheel.now(), delay), std::move(token)};
}

// --- wrong calls, and what to write instead ------------------------------------------------------

void sleep_for(detail::anything, detail::anything, std::stop_token) TVEC_WANTS("wheel, 50ms, stop");
void sleep_until(detail::anything, detail::anything, std::stop_token) TVEC_WANTS("a time_point");

}  // namespace tvec

#endif  // __cpp_lib_jthread
