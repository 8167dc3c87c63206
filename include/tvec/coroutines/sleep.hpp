/// \file
/// Coroutines: sleeping, and awaiting anything for a limited time.
///
/// The timer lives in what is awaited, and that lives in the coroutine's frame: nothing is
/// allocated, arming cannot fail, and destroying a suspended coroutine cancels its timer.
///
///     task<> session::run() {
///         while (const auto message = co_await tvec::with_timeout(timers, socket.receive(), 30s))
///             handle(*message);
///         co_await tvec::sleep_for(timers, 100ms);
///     }
///
/// The coroutine goes on inside `run` or `advance`, on its tick, where a callback would; so it may
/// do whatever a callback may: arm, cancel, destroy, throw. What it throws past its own frame
/// (because its promise's unhandled_exception throws again) leaves `advance`, as from a callback;
/// the coroutine is then at its end, and is still to be destroyed by its owner.
///
/// The wheel must be there when a coroutine awaits it. If it is destroyed or drained afterwards,
/// whoever sleeps is not woken, and whatever is awaited has no limit any more; such coroutines are
/// still to be destroyed by their owner.
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

namespace detail {

template <class Ticks>
typename clocked_wheel<Ticks>::time_point point_in_time(const clocked_wheel<Ticks>&);
template <class W> using time_point_of = decltype(point_in_time(std::declval<W>()));

/// What is a delay, and a deadline, on a wheel that is passed as `W`.
template <class D, class W>
concept delay_on = (std::convertible_to<W, timer_wheel&> && std::convertible_to<D, tick_count>) ||
                   (std::is_class_v<time_point_of<W>> && whole_duration<D>);
template <class At, class W>
concept deadline_on = (std::convertible_to<W, timer_wheel&> &&
                       std::convertible_to<At, tick_count>) ||
                      std::convertible_to<At, time_point_of<W>>;

template <class D, class W>
concept no_delay_on = !delay_on<D, W>;
template <class At, class W>
concept no_deadline_on = !deadline_on<At, W>;

}  // namespace detail

/// Says that what does nothing before it is awaited is not.
#define TVEC_AWAITED [[nodiscard("it waits for nothing before it is awaited: co_await it")]]

/// What sleep_for and sleep_until return, to be awaited. Movable while nobody does.
///
/// One that has a name can be reset from elsewhere while a coroutine sleeps, asked whether its time
/// has come, and awaited again: what a watchdog needs.
///
///     tvec::sleeper silence = tvec::sleep_for(timers, 30s);
///     co_await silence;                              // the watchdog, which closes the connection
///     silence.reset(tvec::sleep_for(timers, 30s));   // whoever has heard something: a push-back
///
/// One coroutine at a time awaits it. It may outlive that coroutine.
class TVEC_AWAITED sleeper {
public:
    /// A coroutine's wait for a sleeper that has a name.
    class waiting {
    public:
        /// Arms nothing yet.
        explicit waiting(sleeper& nap) noexcept : nap_(nap) {}
        waiting(const waiting&) = delete;
        waiting& operator=(const waiting&) = delete;
        /// Ends the sleep.
        ~waiting() { nap_.timer_.cancel(); }

        /// As of the sleeper itself.
        /// @{
        bool await_ready() const noexcept { return nap_.await_ready(); }
        void await_suspend(std::coroutine_handle<> asleep) noexcept { nap_.await_suspend(asleep); }
        void await_resume() const noexcept {}
        /// @}

    private:
        sleeper& nap_;
    };

    /// Arms nothing yet.
    sleeper(timer_wheel& wheel, jiffies expires) noexcept : wheel_(&wheel), expires_(expires) {}

    /// Of one that nobody awaits.
    sleeper(sleeper&& other) noexcept
        : wheel_(other.wheel_), expires_(other.expires_), asleep_(other.asleep_),
          timer_(std::move(other.timer_)) {
        assert(!timer_.pending() && "moved while a coroutine awaits it");
    }
    sleeper& operator=(const sleeper&) TVEC_WANTS("reset: nap.reset(sleep_for(timers, 30s))");
    ~sleeper() = default;

    /// Sleeps as long as `other` would: co_await does from now on, and so does whoever is asleep.
    /// Resumes nobody: what is past by then wakes on the next tick. O(1); later is one store.
    void reset(const sleeper& other) noexcept {
        wheel_ = other.wheel_;
        expires_ = other.expires_;
        if (timer_.pending()) wheel_->arm_at(timer_, expires_);
    }

    /// Whether its time has come, as far as the wheel has been run; awaited or not.
    bool elapsed() const noexcept { return wheel_->now() >= expires_; }

    /// Awaits one that has a name. Destroying the coroutine that does ends the sleep.
    // No member for lvalues alone: g++ 12 takes that for others as well, and then complains.
    template <class S>
    requires std::same_as<S, sleeper&>
    friend waiting operator co_await(S&& nap) noexcept { return waiting(nap); }

    /// False: it always suspends.
    bool await_ready() const noexcept { return false; }

    /// Arms the timer, which resumes `asleep`.
    void await_suspend(std::coroutine_handle<> asleep) noexcept {
        assert(asleep && "a coroutine awaits it");
        assert(!timer_.pending() && "awaited by a second coroutine");
        asleep_ = asleep;
        wheel_->arm_at(timer_, expires_);
    }

    /// There is nothing to return.
    void await_resume() const noexcept {}

private:
    void on_fire() { asleep_.resume(); }

    timer_wheel* wheel_;
    jiffies expires_;
    std::coroutine_handle<> asleep_;
    timer timer_{call<&sleeper::timer_, &sleeper::on_fire>};
};

/// What with_timeout returns, to be awaited once. Movable until then.
///
/// It needs no coroutine of its own. What is awaited gets the handle of the coroutine that awaits,
/// as if by `co_await`, and so does the timer here: either may resume it, and the first to do so
/// decides. If it was the timer, it has said so before; then await_resume destroys what is awaited.
/// If not, await_resume cancels the timer, which always wins, even over a timer that is due.
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
    /// Whether taking over what is awaited cannot throw.
    static constexpr bool nothrow = std::is_nothrow_constructible_v<inner, Awaitable&&>;

    /// bool if what is awaited gives nothing. A reference becomes a std::reference_wrapper.
    using result = std::conditional_t<has_value, std::optional<kept>, bool>;

    /// Arms nothing yet.
    timed(timer_wheel& wheel, jiffies expires, Awaitable&& awaitable) noexcept(nothrow)
        : inner_(std::forward<Awaitable>(awaitable)), wheel_(wheel), expires_(expires) {}

    /// Whether what is awaited is there already.
    bool await_ready() noexcept(noexcept(std::declval<inner&>().begin().await_ready())) {
        return inner_.begin().await_ready();
    }

    /// Arms the timer and begins to await; whichever is first resumes `waiting`.
    // Armed first: what is awaited may resume the coroutine, and thereby destroy all this, before
    // its await_suspend returns.
    template <class Promise>
    auto await_suspend(std::coroutine_handle<Promise> waiting) noexcept(
        noexcept(std::declval<awaiter&>().await_suspend(waiting))) {
        assert(!timer_.pending() && "a time limit is awaited once");
        waiting_ = waiting;
        wheel_.arm_at(timer_, expires_);
        if constexpr (noexcept(inner_.current().await_suspend(waiting)))
            return inner_.current().await_suspend(waiting);
        else
            return suspend_or_disarm(waiting);  // cppcheck-suppress throwInNoexceptFunction
    }

    /// What was awaited, or that time ran out; then what was awaited is destroyed.
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

    // Not try and catch: without exceptions there are none. Touches the timer only if one passes,
    // for after all else it may be gone.
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

/// Sleeps until the clock has reached `deadline`. O(1), noexcept, no allocation; the co_await
/// always suspends, for a deadline in the past until the next tick: a coroutine that only sleeps
/// cannot starve the loop.
template <class Ticks>
sleeper sleep_until(clocked_wheel<Ticks>& timers,
                    typename clocked_wheel<Ticks>::time_point deadline) noexcept {
    return {timers.wheel(), timers.ticks().ceil(deadline)};
}

/// Sleeps until `delay` has passed from this call. Saturates as clocked_wheel does; a negative
/// delay counts as 0, and 0 means the next tick.
template <class Ticks, detail::countable Rep, class Period>
sleeper sleep_for(clocked_wheel<Ticks>& timers, std::chrono::duration<Rep, Period> delay) noexcept {
    return sleep_until(timers, timers.after(delay));
}

/// The same in ticks, on a wheel without a clock.
inline sleeper sleep_until(timer_wheel& wheel, tick_count expires) noexcept {
    return {wheel, expires};
}

/// The same in ticks from now(), on a wheel without a clock.
inline sleeper sleep_for(timer_wheel& wheel, tick_count delay) noexcept {
    return {wheel, detail::later(wheel.now(), delay)};
}

/// Awaits `awaitable` until the clock has reached `deadline` at the longest; several steps may
/// share one. As with_timeout else.
template <class Ticks, class Awaitable>
timed<Awaitable> with_timeout_until(
    clocked_wheel<Ticks>& timers, Awaitable&& awaitable,
    typename clocked_wheel<Ticks>::time_point deadline) noexcept(timed<Awaitable>::nothrow) {
    return {timers.wheel(), timers.ticks().ceil(deadline), std::forward<Awaitable>(awaitable)};
}

/// The same in ticks, on a wheel without a clock.
template <class Awaitable>
timed<Awaitable> with_timeout_until(timer_wheel& wheel, Awaitable&& awaitable,
                                    tick_count expires) noexcept(timed<Awaitable>::nothrow) {
    return {wheel, expires, std::forward<Awaitable>(awaitable)};
}

/// Awaits `awaitable` until `delay` has passed from this call at the longest:
///
///     std::optional<message> m = co_await with_timeout(timers, socket.receive(), 30s);
///     bool done = co_await with_timeout(timers, flush(), 1s);     // flush() gives nothing
///
/// The result is what `awaitable` gives, in a std::optional that is empty if time ran out; a bool,
/// false if time ran out, if it gives nothing. Its exceptions come out of the co_await. Exactly one
/// of the two happens: if both come on the same tick, what runs first. When time runs out,
/// `awaitable` is destroyed before the coroutine goes on.
///
/// An awaitable that is ready at once is, whatever the delay, and no timer is armed. For one that
/// is not, a delay of zero or less means the next tick. Costs the arming and the cancelling of a
/// timer and allocates nothing; noexcept as far as `awaitable` is.
///
/// `awaitable` is given away (an rvalue, which is moved), or an lvalue with an operator co_await,
/// of which only the awaiter is destroyed. A task that owns its coroutine is fine. Required of it:
///
///  - Its destructor cancels: once it and its awaiter are destroyed, it does not resume the
///    coroutine, even if it had completed and was about to. Whoever destroys coroutines that are
///    suspended needs that anyway. A type whose destructors are trivial is refused.
///  - It can be moved until it is awaited, and its operator co_await, if any, returns by value.
///  - It is awaited as it is: an await_transform of the coroutine's promise does not see it.
///  - Its await_suspend does not run the wheel.
///
/// Give the result a name. g++ 12 miscompiles every co_await of a temporary that is itself the
/// condition of an if or while, not only of this one: `if (!co_await f())` crashes, and
/// `if (const auto r = co_await f())` does not.
///
/// What io_uring works on must outlive the request and not only the coroutine:
/// servers/uring_requests.hpp shows how a receive is abandoned.
template <class Ticks, class Awaitable, detail::countable Rep, class Period>
timed<Awaitable>
with_timeout(clocked_wheel<Ticks>& timers, Awaitable&& awaitable,
             std::chrono::duration<Rep, Period> delay) noexcept(timed<Awaitable>::nothrow) {
    return with_timeout_until(timers, std::forward<Awaitable>(awaitable), timers.after(delay));
}

/// The same in ticks, on a wheel without a clock.
template <class Awaitable>
timed<Awaitable> with_timeout(timer_wheel& wheel, Awaitable&& awaitable,
                              tick_count delay) noexcept(timed<Awaitable>::nothrow) {
    return with_timeout_until(wheel, std::forward<Awaitable>(awaitable),
                              detail::later(wheel.now(), delay));
}

// --- what the compiler refuses, and what it wants -----------------------------------------------

template <class W, detail::no_delay_on<W> D>
sleeper sleep_for(W&&, const D&) TVEC_WANTS("a wheel, then a delay: sleep_for(timers, 1500ms)");
template <class W, detail::no_deadline_on<W> At>
sleeper sleep_until(W&&, const At&) TVEC_WANTS("a wheel, then a point in the time that it keeps");
template <class W, class A, detail::no_delay_on<W> D>
timed<A> with_timeout(W&&, A&&, const D&) TVEC_WANTS("a wheel, what to await, a delay: 1500ms");
template <class W, class A, detail::no_deadline_on<W> At>
timed<A> with_timeout_until(W&&, A&&, const At&) TVEC_WANTS("a wheel, what to await, a time_point");

}  // namespace tvec
