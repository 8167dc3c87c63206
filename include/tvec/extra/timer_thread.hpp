/// \file
/// A timer with a thread of its own.
/// In extra/: before 1.0 a minor release may change or remove it.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/clock/tick_clock.hpp"
#include "tvec/core/detail/export.hpp"
#include "tvec/core/detail/function_ref.hpp"
#include "tvec/core/detail/wants.hpp"
#include "tvec/mailbox/mailbox.hpp"

namespace tvec {

/// The settings of a `timer_thread`.
struct timer_thread_options {
    /// The most functions that are pending, being called, or cancelled and not yet destroyed. Each
    /// has 128 bytes, which are allocated when the thread starts.
    std::size_t max_pending = 65'536;
    /// The length of a tick. A shorter one makes functions less late, and costs nothing while none
    /// is due.
    std::chrono::nanoseconds tick = std::chrono::milliseconds(1);
    /// Called on the thread with each exception of a function or the executor. It must not throw.
    /// Without it exceptions are only counted. A debug build reports the first of them on the
    /// standard error output.
    std::function<void(std::exception_ptr)> on_exception = {};
};

namespace detail {

/// The life of the thread. The thread owns the wheel and the mailbox until it has been joined. Then
/// each thread that calls `stop` owns them in turn.
class TVEC_API timer_thread_core {
public:
    using wheel = clocked_wheel<runtime_tick_clock<>>;
    using sender = mailbox_sender<wheel>;
    using unprocessed = mailbox<wheel>::unprocessed;

    explicit timer_thread_core(timer_thread_options options);
    ~timer_thread_core();

    const sender* start();                   ///< as `running`, and starts it if it never ran
    const sender* running() const noexcept;  ///< null: there is no thread in this process
    std::size_t stop(function_ref<void(unprocessed&)> visit);
    bool stopped() const noexcept { return stopping_.load(std::memory_order_relaxed); }
    std::size_t pending() const noexcept { return pending_.load(std::memory_order_relaxed); }
    std::uint64_t failed() const noexcept { return failed_.load(std::memory_order_relaxed); }

private:
    class engine;

    bool is_at_home() noexcept;

    timer_thread_options options_;
    std::recursive_mutex ends_;  ///< held to start the thread and to join it
    std::unique_ptr<engine> engine_;
    std::atomic<engine*> started_ = nullptr;
    std::atomic<bool> stopping_ = false;
    std::atomic<std::size_t> pending_ = 0;
    std::atomic<std::uint64_t> failed_ = 0;
    std::atomic<unsigned> home_ = 0;  ///< the process of its first `start` or `stop`; 0: none yet
};

/// The executor of a timer that calls its functions itself.
struct no_executor {};

}  // namespace detail

/// Functions to be called later, by a thread that does nothing else: Netty's HashedWheelTimer. A
/// program with an event loop needs no such thread, but a `timeout_pool` or a `mailbox`.
///
///     tvec::timer_thread timers;
///     const auto reply = timers.schedule(250ms, [session] { session->give_up(); });
///     timers.cancel(reply.handle);
///
/// Any thread calls any method at any time, also from within the functions. The thread, its wheel
/// and a `mailbox` are made by the first `schedule`. The thread blocks all signals.
///
/// **Functions** are called on the thread, one at a time, as f(mailbox_handle) if they accept that,
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
/// **Forks.** A child of fork() has no threads of its parent, whichever thread makes it, and
/// whenever. There everything is refused as after `stop`, nothing is called, and the destructor
/// frees nothing. A timer starts in the child if neither `schedule` nor `stop` was called before.
/// If a function makes the child, the thread ends there when the function returns. It is the only
/// thread of the child, which then exits with status 0. A child of `_Fork` or of the system call
/// clone, which run no handlers of pthread_atfork, takes itself for its parent: it must leave the
/// timer alone, its destructor too.
template <class Executor = detail::no_executor> class timer_thread {
    using core = detail::timer_thread_core;
    static constexpr bool calls_itself = std::is_same_v<Executor, detail::no_executor>;

public:
    using time_point = core::wheel::time_point;  ///< of std::chrono::steady_clock
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

    /// Calls `f` once, when `delay` has passed from now. Returns the handle, or the reason for a
    /// refusal: `f` is then unchanged. Never waits for the thread. The first call starts the
    /// thread, and throws std::bad_alloc or std::system_error if that fails: the next call tries
    /// again.
    template <detail::countable Rep, class Period, class F>
    sent schedule(std::chrono::duration<Rep, Period> delay, F&& f) {
        return send(core::wheel::after(delay), std::forward<F>(f));
    }

    /// Calls `f` once, when the clock has reached `deadline`.
    template <class F> sent schedule_at(time_point deadline, F&& f) {
        return send(deadline, std::forward<F>(f));
    }

    /// Cancels. Returns whether the function was going to be called. Afterwards it will not be.
    /// Never waits.
    bool cancel(mailbox_handle h) {
        const core::sender* const to = core_.running();
        return to && to->cancel(h);
    }

    /// Cancels, and waits until the function is not being called and has been destroyed. Does not
    /// wait in the functions themselves, nor for a function that the executor has. If the visitor
    /// of `stop` has thrown, waits for the next `stop` or the destructor, except on the thread that
    /// called `stop`.
    bool cancel_and_wait(mailbox_handle h) {
        const core::sender* const to = core_.running();
        return to && to->cancel_and_wait(h);
    }

    /// Makes a pending function be called when `delay` has passed from now. Returns whether it is.
    template <detail::countable Rep, class Period>
    bool reschedule(mailbox_handle h, std::chrono::duration<Rep, Period> delay) {
        return reschedule_at(h, core::wheel::after(delay));
    }

    /// Makes the function be called when the clock has reached `deadline`.
    bool reschedule_at(mailbox_handle h, time_point deadline) {
        const core::sender* const to = core_.running();
        return to && to->reschedule_at(h, deadline);
    }

    /// Ends the thread, and calls visit(unprocessed&) exactly once for every function that has not
    /// been called, in no particular order, on the calling thread. The visitor may run() it, which
    /// gives it to the executor if there is one, and whose exceptions leave `stop`. Functions that
    /// are not run are destroyed. From then on everything is refused.
    ///
    /// Waits for the function that is being called, and for a `stop` on another thread. Called by
    /// that function it does not wait: the thread ends when the function returns. A second call
    /// shows what a visitor that threw has left. Returns the number of functions shown.
    /// O(max_pending).
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

    // --- wrong calls, and what to write instead -------------------------------------------------

    void schedule(detail::anything, const auto&) TVEC_WANTS("a duration (1500ms, not 1.5s), f");
    void schedule_at(detail::no<time_point>, const auto&) TVEC_WANTS("a time_point, f");

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
        using function = std::decay_t<F>;
        static_assert(
            std::is_invocable_v<Executor&, function>,
            "the executor of a timer_thread takes this function object: [](auto f) {...}");
        return to->schedule_as(deadline, std::forward<F>(f), [this](F&& due) {
            return [to = &executor_, call = function(std::forward<F>(due))]() mutable {
                static_cast<void>((*to)(std::move(call)));
            };
        });
    }
}

}  // namespace tvec
