/// \file
/// A timer with a thread of its own.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/core/detail/wants.hpp"
#include "tvec/remote/remote.hpp"
#include "tvec/remote/remote_handle.hpp"
#include "tvec/thread/detail/timer_thread_core.hpp"

namespace tvec {

namespace detail {

/// The executor of a timer that calls its functions itself.
struct no_executor {};

/// A function and its handle, called without arguments.
template <class F> struct with_handle {
    F f;
    remote_handle self;
    void operator()() { static_cast<void>(f(self)); }
};

/// A function that is given to an executor when its time has come.
template <class Executor, class F> struct for_executor {
    static constexpr bool takes_handle = std::is_invocable_v<F&, remote_handle>;
    using given = std::conditional_t<takes_handle, with_handle<F>, F>;

    static_assert(takes_handle || std::is_invocable_v<F&>,
                  "a timer's function is called with nothing, or with a tvec::remote_handle");
    static_assert(std::is_invocable_v<Executor&, given>,
                  "the executor of a timer_thread takes this function object: [](auto f) {...}");

    Executor* executor;
    F f;
    void operator()(remote_handle self) {
        if constexpr (takes_handle)
            static_cast<void>((*executor)(given{std::move(f), self}));
        else
            static_cast<void>((*executor)(std::move(f)));
    }
};

}  // namespace detail

/// Functions to be called later, by a thread that does nothing else: Netty's HashedWheelTimer. For
/// programs without an event loop. A program with a loop needs no thread: see `timeout_pool`, and
/// `remote` for its other threads.
///
///     tvec::timer_thread timers;
///     const auto reply = timers.schedule(250ms, [session] { session->give_up(); });
///     timers.cancel(reply.handle);
///
/// Any thread calls any method at any time, also from within the functions. The thread, its wheel
/// and a `remote` are made by the first `schedule`. The thread handles no signals.
///
/// **Functions** are called on the thread, one at a time, as f(remote_handle) if they accept that,
/// else as f(). Nothing is called early. A function object has at most 48 bytes, or 40 with an
/// executor, aligned to at most 16. Move-only ones are welcome. Functions are destroyed on the
/// thread, or by `stop` and the destructor on theirs. A slow function delays all others: pending
/// ones keep their places, and new ones are refused when there are no places left.
///
/// **An executor** calls the functions elsewhere. It is a callable that takes a function object of
/// any type, which is called without arguments:
///
///     tvec::timer_thread timers({}, [&workers](auto f) { post(workers, std::move(f)); });
///
/// It is called on the thread, once for each function that is due. It may outlive the timer. A slow
/// executor delays as a slow function does. An executor that takes a std::function makes the type
/// nameable: tvec::timer_thread<std::function<void(std::function<void()>)>>.
///
/// **Exceptions** of functions and of the executor end nothing. They are counted, and given to the
/// hook of the options. The function is not called again.
///
/// **Forks.** A child has no threads of its parent. There everything is refused as after `stop`,
/// and the destructor frees nothing. A timer that has not started yet starts in the child.
template <class Executor = detail::no_executor> class timer_thread {
    using core = detail::timer_thread_core;
    static constexpr bool calls_itself = std::is_same_v<Executor, detail::no_executor>;

public:
    using clock = core::wheel::clock;            ///< std::chrono::steady_clock
    using time_point = core::wheel::time_point;  ///< of the clock
    using unprocessed = core::unprocessed;       ///< a function that `stop` shows to its visitor

    /// Makes a timer without a thread. Allocates nothing.
    explicit timer_thread(timer_thread_options options = {}) : core_(std::move(options)) {}

    /// Makes a timer that gives its functions to `executor`.
    timer_thread(timer_thread_options options, Executor executor)
        : executor_(std::move(executor)), core_(std::move(options)) {}

    /// Stops, waits for the function that is being called, and destroys the others. One of its own
    /// functions must not destroy it: that is reported in one line on the standard error output,
    /// and ends the program (std::terminate).
    ~timer_thread() = default;

    timer_thread(const timer_thread&) TVEC_WANTS("a reference: a timer stays where it is");
    timer_thread& operator=(const timer_thread&) TVEC_WANTS("a reference: a timer stays there");

    /// Calls `f` once, when `delay` has passed from now. A negative delay counts as 0. Returns the
    /// handle, or the reason for a refusal: `f` is then unchanged. Never waits for the thread. The
    /// first call starts the thread, and throws std::bad_alloc or std::system_error if that fails:
    /// then the next call tries again.
    template <detail::countable Rep, class Period, class F>
    sent schedule(std::chrono::duration<Rep, Period> delay, F&& f) {
        return send(core::wheel::after(delay), std::forward<F>(f));
    }

    /// Calls `f` once, when the clock has reached `deadline`.
    template <class F> sent schedule_at(time_point deadline, F&& f) {
        return send(deadline, std::forward<F>(f));
    }

    /// Cancels. Returns whether the function was going to be called. Afterwards it will not be.
    /// Returns false if it has been called or given to the executor, is being called, or was
    /// cancelled before. Never waits.
    bool cancel(remote_handle h) {
        const core::sender* const to = core_.running();
        return to && to->cancel(h);
    }

    /// Cancels, and waits until the function is not being called and has been destroyed. In the
    /// functions themselves it does not wait. With an executor it does not wait for a function that
    /// the executor has.
    bool cancel_and_wait(remote_handle h) {
        const core::sender* const to = core_.running();
        return to && to->cancel_and_wait(h);
    }

    /// Makes the function be called when `delay` has passed from now. Returns whether it will be:
    /// not if it has been called, is being called or was cancelled.
    template <detail::countable Rep, class Period>
    bool reschedule(remote_handle h, std::chrono::duration<Rep, Period> delay) {
        return reschedule_at(h, core::wheel::after(delay));
    }

    /// Makes the function be called when the clock has reached `deadline`.
    bool reschedule_at(remote_handle h, time_point deadline) {
        const core::sender* const to = core_.running();
        return to && to->reschedule_at(h, deadline);
    }

    /// Ends the thread, and calls visit(unprocessed&) exactly once for every function that has not
    /// been called, in no particular order, on the calling thread. The visitor may run() it, which
    /// gives it to the executor if there is one, and whose exceptions leave `stop`. Functions that
    /// are not run are destroyed. From then on everything is refused.
    ///
    /// Waits for the function that is being called. Called by that function it does not wait: the
    /// thread ends when the function returns. A second call shows the functions that are left
    /// because a visitor threw. Returns the number of functions shown. O(max_pending).
    template <class F> std::size_t stop(F visit) {
        const auto show = [&visit](unprocessed& u) { static_cast<void>(visit(u)); };
        return core_.stop(show);
    }

    /// Stops without a visitor.
    std::size_t stop() {
        return stop([](unprocessed&) {});
    }

    /// Returns whether `stop` was called.
    bool stopped() const noexcept { return core_.stopped(); }

    /// Returns the number of functions that were pending when the thread last looked.
    std::size_t pending() const noexcept { return core_.pending(); }

    /// Returns the number of exceptions of functions and of the executor.
    std::uint64_t failed() const noexcept { return core_.failed(); }

    // --- misuses that the compiler refuses ------------------------------------------------------

    template <detail::no_duration D, class F>
    sent schedule(const D&, F&&) TVEC_WANTS("a duration: 1500ms, not 1.5s; then a function");
    template <detail::no_time_point<time_point> T, class F>
    sent schedule_at(const T&, F&&) TVEC_WANTS("a time_point of its clock, then a function");
    template <detail::no_duration D>
    bool reschedule(remote_handle, const D&) TVEC_WANTS("a duration: 1500ms, not 1.5s");
    template <detail::no_time_point<time_point> T>
    bool reschedule_at(remote_handle, const T&) TVEC_WANTS("a time_point of its clock");

private:
    template <class F> sent send(time_point deadline, F&& f);

    [[no_unique_address]] Executor executor_;
    core core_;  // before the executor ends, its thread has ended
};

/// Deduces a timer that calls its functions itself.
timer_thread(timer_thread_options)->timer_thread<>;

// --- implementation -----------------------------------------------------------------------------

template <class Executor>
template <class F>
sent timer_thread<Executor>::send(time_point deadline, F&& f) {
    const core::sender* const to = core_.start();
    if (!to) return {{}, send_error::stopped};
    if constexpr (calls_itself) {
        return to->schedule_at(deadline, std::forward<F>(f));
    } else {
        return to->schedule_as(deadline, std::forward<F>(f), [this](F&& due) {
            return detail::for_executor<Executor, std::decay_t<F>>{&executor_,
                                                                   std::forward<F>(due)};
        });
    }
}

}  // namespace tvec
