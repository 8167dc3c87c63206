/// \file
/// Timers from other threads: a mailbox in front of one loop.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/core/detail/wants.hpp"
#include "tvec/mailbox/detail/mailbox_core.hpp"
#include "tvec/mailbox/detail/mailbox_handle.hpp"  // IWYU pragma: export

namespace tvec {

template <class Clocked> class mailbox_sender;
template <class Executor> class timer_thread;

namespace detail {

class timer_thread_core;

}  // namespace detail

/// A bounded queue of functions in front of one loop. Through its senders, any thread schedules,
/// cancels and reschedules functions on a clocked wheel, and posts functions to the thread that
/// runs the wheel.
///
///     tvec::clocked_wheel timers;
///     tvec::eventfd_doorbell bell;                 // or anything else that wakes the loop
///     tvec::mailbox mailbox(timers, 4096, bell);
///     watch(bell.fd(), EPOLLIN);
///     start_workers(mailbox.sender());             // copied into each thread
///     while (running) {
///         mailbox.rearm();                         // with alarm.rearm(), the last thing before
///         ...sleep, handle events, bell.acknowledge() if its descriptor was readable...
///         mailbox.run(128);                        // takes in what the others have sent
///         timers.run(256);
///     }
///
/// Each function takes a cell of 128 bytes until it has ended. The constructor allocates all cells,
/// and a sender that finds none is refused. No function is called early. Sending costs two atomic
/// exchanges and a reading of the clock.
///
/// One thread at a time owns the mailbox: the thread that made it, and from then on the thread that
/// called `run`, `rearm` or `stop` last. The owner runs the wheel, so functions are called on it,
/// and calls all methods of the mailbox except `sender`. Debug builds assert that functions are
/// called on the owner, and that no other thread takes the mailbox over meanwhile.
///
/// The mailbox is neither copied nor moved. One of its own functions must not destroy it: that is
/// reported in one line on the standard error output, and ends the program (std::terminate). The
/// rules for time, order, waking, life and exceptions: the end of docs/threads.md.
template <class Clocked = clocked_wheel<>> class mailbox {
    static_assert(detail::clocked<Clocked>,
                  "a mailbox is on a tvec::clocked_wheel: a timer_wheel has no clock");

public:
    using time_point = typename Clocked::time_point;  ///< of the wheel's clock

    /// Counters of the mailbox.
    ///  - posted: functions called by `run`
    ///  - fired: functions called by the wheel
    ///  - cancelled: functions that were not called: cancelled, or handed over by `stop` and not
    ///    run
    ///  - overtaken: timers of the wheel that fired and called nothing, because a cancel or a
    ///    reschedule was under way
    using counters = detail::mailbox_core::counters;

    /// A budget without a limit.
    static constexpr std::size_t unlimited = ~std::size_t{0};
    /// The largest capacity. A larger one is clamped to it.
    static constexpr std::size_t most_cells = detail::mailbox_vacancies::most;

    /// Makes a mailbox of `capacity` cells in front of that wheel. The owner counts as awake: the
    /// doorbell does not ring before the first `rearm`. Requires a doorbell that is not empty.
    /// Throws std::bad_alloc.
    mailbox(Clocked& timers, std::size_t capacity, std::function<void()> doorbell)
        : ticks_(timers.ticks()), core_(std::make_shared<detail::mailbox_core>(
                                      timers.wheel(), capacity, std::move(doorbell))) {}

    /// Stops, and destroys the functions that were not called. O(capacity).
    ~mailbox() {
        core_->require_that_nobody_is_inside();
        stop();
    }

    /// Returns the end for other threads. Copy it to any number of threads. The owner may use it
    /// too.
    mailbox_sender<Clocked> sender() const { return {core_, ticks_}; }

    /// Takes in at most `budget` of the messages sent until now: calls posted functions, arms
    /// scheduled ones, and drops cancelled ones. Call it once per turn of the loop, before the
    /// wheel's `run`. Messages that arrive meanwhile, or exceed the budget, are left for the next
    /// call. Does nothing from within a posted function, and after `stop`. Returns the number of
    /// messages that it dealt with.
    std::size_t run(std::size_t budget = unlimited) { return core_->run(budget); }

    /// Lets the doorbell ring, once, for the next message. Call it last before every sleep. If a
    /// message has already arrived, or was left over, the mailbox's own doorbell rings at once, and
    /// so ends the sleep.
    /// Calling it again without sleeping is harmless. Without it the owner is not woken.
    ///
    /// A loop that cannot act before its sleep calls `run` and then `rearm` in the handler of the
    /// doorbell, even if `run` threw, and `rearm` once before it begins. Messages that are sent
    /// while such a loop is awake ring too, once until the handler is called.
    void rearm() { core_->rearm(); }

    class unprocessed;

    /// Refuses all messages from now on, and calls visit(unprocessed&) exactly once for every
    /// function that was on its way or pending, in no particular order. Functions that the visitor
    /// does not run are cancelled. A function that is being called is not shown. If the visitor
    /// throws, the functions not shown yet are kept for the next call of `stop`. Until then, those
    /// that are pending on the wheel may still fire. Returns the number of functions shown.
    /// O(capacity).
    template <class F> std::size_t stop(F visit);

    /// Stops without a visitor.
    std::size_t stop() {
        return stop([](unprocessed&) {});
    }

    /// Returns whether `stop` was called.
    bool stopped() const noexcept { return core_->stopped(); }

    /// Returns the number of cells.
    std::size_t capacity() const noexcept { return core_->capacity(); }
    /// Returns the bytes that it has allocated, for a metric. They never change.
    std::size_t memory() const noexcept {
        return sizeof(detail::mailbox_core) + capacity() * sizeof(detail::mailbox_cell);
    }

    /// Returns the number of its functions whose timer `run` has armed on the wheel, and that has
    /// not fired since. Functions that were cancelled since the last `run` are included, and
    /// functions on their way are not. A function whose timer was drained from the wheel is
    /// included: it waits for a reschedule, a cancel or `stop`.
    std::size_t pending() const noexcept { return core_->armed(); }

    /// Returns the counters.
    const counters& count() const noexcept { return core_->count(); }

    // --- wrong calls, and what to write instead -------------------------------------------------

    mailbox(const mailbox&) TVEC_WANTS("a sender: the mailbox itself stays where it is");
    mailbox& operator=(const mailbox&) TVEC_WANTS("a sender: the mailbox itself stays where it is");
    mailbox(Clocked&&, std::size_t, std::function<void()>) TVEC_WANTS("a wheel that outlives it");

private:
    friend class detail::timer_thread_core;
    using ticks_type = std::remove_cvref_t<decltype(std::declval<Clocked&>().ticks())>;

    ticks_type ticks_;
    std::shared_ptr<detail::mailbox_core> core_;
};

/// Deduces the type of the wheel.
template <class Clocked> mailbox(Clocked&, std::size_t, std::function<void()>) -> mailbox<Clocked>;

/// A function that `stop` shows to its visitor.
template <class Clocked> class mailbox<Clocked>::unprocessed {
public:
    /// Returns its handle.
    mailbox_handle handle() const noexcept { return handover_.handle(); }

    /// Returns its deadline; empty if it was posted.
    std::optional<time_point> deadline() const noexcept {
        if (handover_.due() == detail::mailbox_core::at_once) return std::nullopt;
        return ticks_.start_of(handover_.due());
    }

    /// Calls its function. Its exceptions leave `stop`. Returns whether it was called: a second
    /// call returns false.
    bool run() { return handover_.run(); }

private:
    friend class mailbox;
    unprocessed(detail::mailbox_handover& handover, const ticks_type& ticks) noexcept
        : handover_(handover), ticks_(ticks) {}

    detail::mailbox_handover& handover_;
    const ticks_type& ticks_;
};

/// The end of a `mailbox` for other threads. Copies send to the same mailbox. Any thread may make,
/// use and destroy copies at any time, even when the owner is destroyed. One thread at a time uses
/// an object, except for its const methods, among which are all that send.
///
///     const auto late = sender.schedule(250ms, [id] { give_up(id); });   // on the owner's thread
///     if (!late) return overloaded();                                    // refused, and says why
///     work();
///     if (sender.cancel(late.handle)) sender.post([id] { answer(id); });
///
/// **Functions** are called on the thread of the owner as f(mailbox_handle), with their own handle,
/// if they accept that, else as f(). They are destroyed there as soon as they will not be called
/// any more. A function object has at most 48 bytes, aligned to at most 16. Move-only ones are
/// welcome, and anything else does not compile. If sending is refused, `f` is unchanged, unless the
/// owner has stopped in the middle of the call. Exceptions of copying or moving `f` pass through,
/// and nothing is sent.
template <class Clocked = clocked_wheel<>> class mailbox_sender {
public:
    using time_point = typename Clocked::time_point;  ///< of the wheel's clock

    /// Calls `f` once, when `delay` has passed from now. A negative delay counts as 0.
    template <detail::countable Rep, class Period, class F>
    sent schedule(std::chrono::duration<Rep, Period> delay, F&& f) const {
        return send(tick_of(Clocked::after(delay)), std::forward<F>(f));
    }

    /// Calls `f` once, when the clock has reached `deadline`.
    template <class F> sent schedule_at(time_point deadline, F&& f) const {
        return send(tick_of(deadline), std::forward<F>(f));
    }

    /// Calls `f` on the next visit of the owner: in `mailbox::run`, in the order of sending. Until
    /// then it can be cancelled, and rescheduled to be called later.
    template <class F> sent post(F&& f) const {
        return send(detail::mailbox_core::at_once, std::forward<F>(f));
    }

    /// Cancels. Returns whether the function was going to be called. Afterwards it will not be: it
    /// is destroyed on the next visit of the owner. Returns false if the function has been called,
    /// is being called at this moment, or was cancelled before. Never waits.
    bool cancel(mailbox_handle h) const { return core_->cancel(h, bell_); }

    /// Cancels, and waits until the function is not being called and has been destroyed. After that
    /// the objects that it refers to may be destroyed. (timer_delete_sync) Waits for the next visit
    /// of the owner, or the end of the mailbox. A `stop` is a visit, unless its visitor throws. The
    /// owner, at first the thread that made the mailbox, does not wait: it destroys the function on
    /// its next visit. A sender `through` a bell of its own rings the doorbell of the mailbox as
    /// well if it has to wait.
    bool cancel_and_wait(mailbox_handle h) const { return core_->cancel_and_wait(h, bell_); }

    /// Cancels at once. Calls f(bool) with the result of `cancel` on the owner's thread, when the
    /// function is no longer called nor alive. `f` is posted as a function of its own. If it is
    /// refused nothing has been cancelled, unless the owner has stopped in the middle of the call.
    /// `f` has at most 40 bytes.
    template <class F> sent cancel_then(mailbox_handle h, F&& f) const;

    /// Makes the function be called when `delay` has passed from now. Returns whether it will be:
    /// not if it has been called, is being called or was cancelled. Of two simultaneous reschedules
    /// one deadline counts.
    template <detail::countable Rep, class Period>
    bool reschedule(mailbox_handle h, std::chrono::duration<Rep, Period> delay) const {
        return core_->reschedule(h, tick_of(Clocked::after(delay)), bell_);
    }

    /// Makes the function be called when the clock has reached `deadline`.
    bool reschedule_at(mailbox_handle h, time_point deadline) const {
        return core_->reschedule(h, tick_of(deadline), bell_);
    }

    /// Returns whether the owner has stopped: from then on everything is refused.
    bool stopped() const noexcept { return core_->stopped(); }

    /// Returns a sender to the same mailbox that rings by `bell()`. For a thread with a shorter way
    /// to wake the owner, such as a `uring_doorbell` on its own ring. `bell` must outlive the
    /// sender. The threads that use the sender call it.
    template <class Bell> mailbox_sender through(Bell& bell) const noexcept {
        return {core_, ticks_, detail::doorbell(bell)};
    }

    // --- wrong calls, and what to write instead -------------------------------------------------

    template <class Bell>
    mailbox_sender through(const Bell&&) TVEC_WANTS("a bell that outlives it");
    void schedule(detail::anything, const auto&) const TVEC_WANTS("a duration (1500ms), f");
    void schedule_at(detail::no<time_point>, const auto&) const TVEC_WANTS("a time_point, f");
    void reschedule(mailbox_handle, detail::anything) const TVEC_WANTS("a duration: 1500ms");
    void reschedule_at(mailbox_handle, detail::no<time_point>) const TVEC_WANTS("a time_point");

private:
    friend class mailbox<Clocked>;
    template <class Executor> friend class timer_thread;
    using ticks_type = std::remove_cvref_t<decltype(std::declval<Clocked&>().ticks())>;
    using core_pointer = std::shared_ptr<detail::mailbox_core>;

    mailbox_sender(const core_pointer& core, const ticks_type& ticks) noexcept
        : mailbox_sender(core, ticks, core->bell()) {}
    mailbox_sender(const core_pointer& core, const ticks_type& ticks,
                   detail::doorbell bell) noexcept
        : core_(core), ticks_(ticks), bell_(bell) {}

    /// Returns the tick of a deadline, as the owner counts it. Tick 0 means `at_once`, and has
    /// passed.
    jiffies tick_of(time_point deadline) const noexcept {
        return std::max<jiffies>(ticks_.ceil(deadline), 1);
    }

    template <class F> sent send(jiffies due, F&& f) const;

    /// Schedules the function that `wrap` makes of `f`. If it is refused, `f` is unchanged.
    template <class F, class Wrap> sent schedule_as(time_point deadline, F&& f, Wrap wrap) const;

    core_pointer core_;
    ticks_type ticks_;
    detail::doorbell bell_;
};

// --- implementation -----------------------------------------------------------------------------

template <class Clocked> template <class F> std::size_t mailbox<Clocked>::stop(F visit) {
    core_->stop();
    std::size_t shown = 0;
    for (std::uint32_t index = 0;; ++shown) {
        detail::mailbox_handover handover(*core_, index);
        if (!handover) return shown;
        unprocessed function(handover, ticks_);
        visit(function);
    }
}

template <class Clocked>
template <class F>
sent mailbox_sender<Clocked>::send(jiffies due, F&& f) const {
    static_assert(std::is_invocable_v<std::decay_t<F>&, mailbox_handle> ||
                      std::is_invocable_v<std::decay_t<F>&>,
                  "what is sent is called with nothing, or with a tvec::mailbox_handle");
    detail::mailbox_reservation reservation(*core_, !detail::is_empty_function(f));
    if (reservation.error() != send_error::none) return {{}, reservation.error()};
    reservation.cell().hold(std::forward<F>(f));
    return reservation.send(due, bell_);
}

template <class Clocked>
template <class F, class Wrap>
sent mailbox_sender<Clocked>::schedule_as(time_point deadline, F&& f, Wrap wrap) const {
    detail::mailbox_reservation reservation(*core_, !detail::is_empty_function(f));
    if (reservation.error() != send_error::none) return {{}, reservation.error()};
    reservation.cell().hold(wrap(std::forward<F>(f)));
    return reservation.send(tick_of(deadline), bell_);
}

template <class Clocked>
template <class F>
sent mailbox_sender<Clocked>::cancel_then(mailbox_handle h, F&& f) const {
    static_assert(std::is_invocable_v<std::decay_t<F>&, bool>,
                  "the answer to a cancel is given to a function that takes a bool");
    detail::mailbox_reservation reservation(*core_, !detail::is_empty_function(f));
    if (reservation.error() != send_error::none) return {{}, reservation.error()};
    using answering = detail::answering<std::decay_t<F>>;
    reservation.cell().hold(answering{std::forward<F>(f)});
    detail::held<answering>(reservation.cell().storage).answer = cancel(h);
    return reservation.send(detail::mailbox_core::at_once, bell_);
}

}  // namespace tvec
