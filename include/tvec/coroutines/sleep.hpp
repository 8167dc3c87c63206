/// \file
/// Coroutines: sleeping, and awaiting anything with a time limit.
///
/// The timer lives in the awaited object, and that lives in the coroutine's frame: nothing is
/// allocated, arming cannot fail, and destroying a suspended coroutine cancels its timer.
///
///     task<> session::run() {
///         while (const auto message = co_await tvec::with_timeout(timers, socket.receive(), 30s))
///             handle(*message);
///         co_await tvec::sleep_for(timers, 100ms);
///     }
///
/// The coroutine resumes inside `run` or `advance`, on its tick, as a callback would. It may do
/// whatever a callback may do: arm, cancel, destroy, throw. An exception that leaves its frame
/// (because its promise's unhandled_exception throws again) leaves `advance`, as from a callback.
/// The coroutine is then at its end, and its owner still has to destroy it.
///
/// The wheel must exist when a coroutine awaits it. If it is destroyed or drained afterwards,
/// sleeping coroutines are not woken and time limits no longer apply. Their owners still have to
/// destroy such coroutines.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <cassert>
#include <concepts>
#include <coroutine>
#include <exception>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/core/detail/wants.hpp"
#include "tvec/coroutines/detail/abandonable.hpp"

namespace tvec {

/// The result of sleep_for and sleep_until, to be awaited. Movable while no coroutine awaits it.
///
/// A sleeper with a name can be reset from elsewhere while a coroutine sleeps, asked whether its
/// time has come, and awaited again, as a watchdog needs:
///
///     tvec::sleeper silence = tvec::sleep_for(timers, 30s);
///     co_await silence;                              // the watchdog, which closes the connection
///     silence.reset(tvec::sleep_for(timers, 30s));   // after a read: a push-back
///
/// One coroutine at a time awaits it. It may outlive that coroutine.
class TVEC_AWAITED sleeper {
public:
    /// A coroutine's wait for a sleeper with a name.
    class waiting {
    public:
        /// Makes a wait. Arms nothing yet.
        explicit waiting(sleeper& nap) noexcept : nap_(nap) {}
        waiting(const waiting&) = delete;
        waiting& operator=(const waiting&) = delete;
        /// Ends the sleep.
        ~waiting() { nap_.timer_.cancel(); }

        /// The functions of the sleeper itself.
        /// @{
        bool await_ready() const noexcept { return nap_.await_ready(); }
        void await_suspend(std::coroutine_handle<> asleep) noexcept { nap_.await_suspend(asleep); }
        void await_resume() const noexcept {}
        /// @}

    private:
        sleeper& nap_;
    };

    /// Makes a sleeper. Arms nothing yet.
    sleeper(timer_wheel& wheel, jiffies expires) noexcept : wheel_(&wheel), expires_(expires) {}

    /// Moves a sleeper that no coroutine awaits.
    sleeper(sleeper&& other) noexcept
        : wheel_(other.wheel_), expires_(other.expires_), asleep_(other.asleep_),
          timer_(std::move(other.timer_)) {
        assert(!timer_.pending() && "moved while a coroutine awaits it");
    }
    sleeper& operator=(const sleeper&) TVEC_WANTS("reset: nap.reset(sleep_for(timers, 30s))");
    ~sleeper() = default;

    /// Takes over the deadline of `other`, for the next co_await and for a coroutine that is
    /// asleep. Resumes nobody: a deadline that has passed wakes on the next tick. A coroutine whose
    /// timer a `drain` of the wheel has taken out sleeps until it is destroyed. O(1); a later
    /// deadline is one store.
    void reset(const sleeper& other) noexcept {
        wheel_ = other.wheel_;
        expires_ = other.expires_;
        if (timer_.pending()) wheel_->arm_at(timer_, expires_);
    }

    /// Returns whether its time has come, as far as the wheel has run. It need not be awaited.
    bool elapsed() const noexcept { return wheel_->now() >= expires_; }

    /// Awaits a sleeper with a name. Destroying the coroutine ends the sleep.
    // A member for lvalues alone would not do: g++ 12 takes it for other objects too, and
    // complains.
    template <class S>
    requires std::same_as<S, sleeper&>
    friend waiting operator co_await(S&& nap) noexcept { return waiting(nap); }

    /// Returns false: a co_await always suspends.
    bool await_ready() const noexcept { return false; }

    /// Arms the timer, which resumes `asleep`.
    void await_suspend(std::coroutine_handle<> asleep) noexcept {
        assert(asleep && "a coroutine awaits it");
        assert(!timer_.pending() && "awaited by a second coroutine");
        asleep_ = asleep;
        wheel_->arm_at(timer_, expires_);
    }

    /// Returns nothing.
    void await_resume() const noexcept {}

private:
    void on_fire() { asleep_.resume(); }

    timer_wheel* wheel_;
    jiffies expires_;
    std::coroutine_handle<> asleep_;
    timer timer_{call<&sleeper::timer_, &sleeper::on_fire>};
};

/// The result of with_timeout, to be awaited once. Movable until then.
///
/// It needs no coroutine of its own. The awaited object gets the handle of the awaiting coroutine,
/// as in a `co_await`, and so does the timer. Either may resume the coroutine, and the first one
/// decides. If the timer was first, await_resume destroys the awaited object. If not, await_resume
/// cancels the timer, which always succeeds, even if the timer is due.
template <class Awaitable> class TVEC_AWAITED timed {
    static_assert(detail::awaitable<Awaitable>,
                  "with_timeout is given a wheel, what to await, and a duration or ticks");

    using inner = detail::abandonable<Awaitable>;
    using awaiter = typename inner::awaiter;
    using value = decltype(std::declval<awaiter&>().await_resume());
    using plain = std::remove_cvref_t<value>;
    using kept = std::conditional_t<std::is_lvalue_reference_v<value>,
                                    std::reference_wrapper<std::remove_reference_t<value>>, plain>;
    static constexpr bool has_value = !std::is_void_v<value>;

    static_assert(inner::ends_what_it_began,
                  "what is awaited cannot be abandoned: its destructor does nothing, so it would "
                  "resume a coroutine that no longer waits for it");

public:
    /// True if taking over the awaited object cannot throw.
    static constexpr bool nothrow = std::is_nothrow_constructible_v<inner, Awaitable&&>;

    /// bool if the awaited object returns nothing. A reference becomes a std::reference_wrapper.
    using result = std::conditional_t<has_value, std::optional<kept>, bool>;

    /// Makes an awaitable. Arms nothing yet.
    timed(timer_wheel& wheel, jiffies expires, Awaitable&& awaitable) noexcept(nothrow)
        : inner_(std::forward<Awaitable>(awaitable)), wheel_(wheel), expires_(expires) {}

    /// Returns whether the awaited object is ready.
    bool await_ready() noexcept(noexcept(std::declval<inner&>().begin().await_ready())) {
        return inner_.begin().await_ready();
    }

    /// Arms the timer and begins to await. The first of the two resumes `waiting`.
    // The timer is armed first: the awaited object may resume the coroutine, and so destroy all
    // this, before its await_suspend returns.
    template <class Promise>
    auto await_suspend(std::coroutine_handle<Promise> waiting) noexcept(
        noexcept(std::declval<awaiter&>().await_suspend(waiting))) {
        assert(!timer_.pending() && "a time limit is awaited once");
        waiting_ = waiting;
        wheel_.arm_at(timer_, expires_);
        if constexpr (noexcept(inner_.current().await_suspend(waiting)))
            return inner_.current().await_suspend(waiting);
        else
            return suspend_or_disarm(waiting);
    }

    /// Returns the awaited result, or that time ran out. Then the awaited object is destroyed.
    result await_resume() noexcept(noexcept(std::declval<awaiter&>().await_resume()) &&
                                   (!has_value || std::is_nothrow_constructible_v<kept, value>)) {
        timer_.cancel();
        if (timed_out_) return abandoned();
        return completed();
    }

private:
    void on_fire() {
        timed_out_ = true;
        waiting_.resume();
    }

    // No try and catch, which would not compile without exceptions. The destructor touches the
    // timer only if an exception passes: otherwise it may be gone.
    struct disarm_on_failure {
        ~disarm_on_failure() {
            if (std::uncaught_exceptions() > before) armed.cancel();
        }
        timer& armed;
        int before = std::uncaught_exceptions();
    };

    template <class Promise> auto suspend_or_disarm(std::coroutine_handle<Promise> waiting) {
        const disarm_on_failure guard{timer_};
        return inner_.current().await_suspend(waiting);
    }

    result abandoned() noexcept {
        inner_.abandon();
        return result();
    }

    result completed() {
        if constexpr (has_value) {
            return result(std::in_place, inner_.current().await_resume());
        } else {
            inner_.current().await_resume();
            return true;
        }
    }

    inner inner_;
    timer_wheel& wheel_;
    jiffies expires_;
    bool timed_out_ = false;
    std::coroutine_handle<> waiting_;
    timer timer_{call<&timed::timer_, &timed::on_fire>};
};

/// Returns a sleep until the clock has reached `deadline`. O(1), noexcept, no allocation. The
/// co_await always suspends, for a deadline in the past until the next tick: a coroutine that only
/// sleeps cannot starve the loop.
template <class Ticks>
sleeper sleep_until(clocked_wheel<Ticks>& timers,
                    typename clocked_wheel<Ticks>::time_point deadline) noexcept {
    return {timers.wheel(), timers.ticks().ceil(deadline)};
}

/// Returns a sleep until `delay` has passed from this call. Saturates as clocked_wheel does. A
/// negative delay counts as 0, and 0 means the next tick.
template <class Ticks, detail::countable Rep, class Period>
sleeper sleep_for(clocked_wheel<Ticks>& timers, std::chrono::duration<Rep, Period> delay) noexcept {
    return sleep_until(timers, timers.after(delay));
}

/// Returns a sleep until tick `expires`, on a wheel without a clock.
inline sleeper sleep_until(timer_wheel& wheel, tick_count expires) noexcept {
    return {wheel, expires};
}

/// Returns a sleep for `delay` ticks from now(), on a wheel without a clock.
inline sleeper sleep_for(timer_wheel& wheel, tick_count delay) noexcept {
    return {wheel, detail::later(wheel.now(), delay)};
}

/// Awaits `awaitable` until the clock has reached `deadline` at the latest. Several steps may share
/// one deadline. Otherwise as with_timeout.
template <class Ticks, class Awaitable>
timed<Awaitable> with_timeout_until(
    clocked_wheel<Ticks>& timers, Awaitable&& awaitable,
    typename clocked_wheel<Ticks>::time_point deadline) noexcept(timed<Awaitable>::nothrow) {
    return {timers.wheel(), timers.ticks().ceil(deadline), std::forward<Awaitable>(awaitable)};
}

/// Awaits `awaitable` until tick `expires` at the latest, on a wheel without a clock.
template <class Awaitable>
timed<Awaitable> with_timeout_until(timer_wheel& wheel, Awaitable&& awaitable,
                                    tick_count expires) noexcept(timed<Awaitable>::nothrow) {
    return {wheel, expires, std::forward<Awaitable>(awaitable)};
}

/// Awaits `awaitable` until `delay` has passed from this call, at the latest:
///
///     std::optional<message> m = co_await with_timeout(timers, socket.receive(), 30s);
///     bool done = co_await with_timeout(timers, flush(), 1s);     // flush() returns nothing
///
/// Returns the result of `awaitable` in a std::optional, empty if time ran out. If `awaitable`
/// returns nothing, returns a bool, false if time ran out. Its exceptions leave the co_await. If
/// time runs out, `awaitable` is destroyed before the coroutine goes on.
///
/// `awaitable` is an rvalue, which is moved, or an lvalue with an operator co_await. It must be
/// movable until it is awaited, its destructor must cancel, its operator co_await, if any, must
/// return by value, and its await_suspend must not run the wheel. An await_transform of the promise
/// does not see it. Details: the end of docs/which-arm.md.
///
/// Costs the arming and the cancelling of a timer, and allocates nothing. noexcept as far as
/// `awaitable` is. Give the result a name: g++ 12 miscompiles a co_await of a temporary that is
/// itself the condition of an if or while.
template <class Ticks, class Awaitable, detail::countable Rep, class Period>
timed<Awaitable>
with_timeout(clocked_wheel<Ticks>& timers, Awaitable&& awaitable,
             std::chrono::duration<Rep, Period> delay) noexcept(timed<Awaitable>::nothrow) {
    return with_timeout_until(timers, std::forward<Awaitable>(awaitable), timers.after(delay));
}

/// Awaits `awaitable` for `delay` ticks at most, on a wheel without a clock.
template <class Awaitable>
timed<Awaitable> with_timeout(timer_wheel& wheel, Awaitable&& awaitable,
                              tick_count delay) noexcept(timed<Awaitable>::nothrow) {
    return with_timeout_until(wheel, std::forward<Awaitable>(awaitable),
                              detail::later(wheel.now(), delay));
}

// --- wrong calls, and what to write instead ------------------------------------------------------

void sleep_for(detail::anything) TVEC_WANTS("a wheel, then a delay: sleep_for(timers, 1500ms)");
void sleep_for(detail::anything, detail::anything) TVEC_WANTS("a wheel, then 1500ms, not 1.5s");
void sleep_until(detail::anything) TVEC_WANTS("a wheel, then a point of its time");
void sleep_until(detail::anything, detail::anything) TVEC_WANTS("a wheel, a point of its time");
void with_timeout(detail::anything, const auto&, detail::anything) TVEC_WANTS("wheel, what, 500ms");
void with_timeout_until(detail::anything, const auto&, detail::anything) TVEC_WANTS("a time_point");

}  // namespace tvec
