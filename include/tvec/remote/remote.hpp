/// \file
/// Timers from other threads: a bounded mailbox in front of one loop.
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
#include "tvec/remote/detail/remote_core.hpp"
#include "tvec/remote/remote_handle.hpp"

namespace tvec {

template <class Clocked> class remote_sender;

namespace detail {

/// The answer to a cancel, on its way to who wants it.
template <class F> struct answering {
    F f;
    bool answer = false;
    void operator()() { static_cast<void>(f(answer)); }
};

}  // namespace detail

/// The owner's end of a mailbox through which any thread schedules, cancels and reschedules
/// functions on a clocked wheel, and has functions called on the thread that runs it.
///
///     tvec::clocked_wheel timers;
///     tvec::eventfd_doorbell bell;                 // or whatever else wakes the loop
///     tvec::remote mailbox(timers, 4096, bell);
///     watch(bell.fd(), EPOLLIN);
///     start_workers(mailbox.sender());             // copied into each thread
///     while (running) {
///         mailbox.rearm();                         // with alarm.rearm(), the last thing before
///         ...sleep, handle what has come, bell.acknowledge() if its descriptor was readable...
///         mailbox.run();                           // takes in what the others have sent
///         timers.run(256);
///     }
///
/// **Memory.** There is a cell of 128 bytes for each function that is on its way, pending or being
/// called; all of them are made by the constructor. Nothing else is allocated: a sender that finds
/// no cell is refused, and sees it. To cancel and to reschedule needs no room.
///
/// **Time.** A delay is measured from the call, by the caller's reading of the clock, and deadlines
/// round up to the ticks of the wheel. So nothing is called early, not by a nanosecond, whichever
/// thread sent it. Lateness is that of the wheel, and what it takes until the owner comes by.
///
/// **Order.** Functions that were posted are called in the order in which they were sent: those of
/// one thread in its order, and what a thread sends because of what another has sent, after that.
///
/// **Who wins.** A cell has one word that all agree on. A cancel that returned true has won: the
/// function is not called. One that returned false has lost. Nobody waits to find out.
///
/// **Waking.** After `rearm` the first to send anything rings the doorbell, once; until `run` is
/// called, and while the owner is awake, nobody does. The doorbell is a function without arguments
/// that any thread may call, and that must not throw: an `eventfd_doorbell`, or what wakes the loop
/// otherwise, uv_async_send for one. What was sent just before `rearm` it rings for itself.
///
/// **Life.** Senders may outlive the remote, and the remote the wheel: they share the cells, which
/// go with the last of them, and what the doorbell holds goes then, too. Once the wheel is gone
/// only `stop`, the counts and the destructor may be called. Senders are refused from the moment
/// that `stop` is called or the remote is destroyed. If the owner's thread ends and does neither,
/// its mailbox fills, and then it refuses as well; only `cancel_and_wait` would wait, until the
/// remote is destroyed.
///
/// **Exceptions** of a posted function leave `run`, those of one that has fired leave the wheel's
/// `run`. It counts as called; what is left is left for the next call.
///
/// The remote has one owner, who calls all of its methods but `sender`: the thread that runs the
/// wheel. It is neither copied nor moved. It may not be destroyed by one of its own functions: that
/// is said in one line on the standard error output, and ends the program (std::terminate).
///
/// Cost: sending is two atomic exchanges and a reading of the clock, `run` one for all that has
/// come. docs/threads.md says how it works, and compares.
template <class Clocked = clocked_wheel<>> class remote {
    static_assert(detail::clocked<Clocked>,
                  "a remote is on a tvec::clocked_wheel: a timer_wheel has no clock");

public:
    using time_point = typename Clocked::time_point;  ///< of the wheel's clock

    /// What the remote has done so far.
    ///  - posted: functions called by `run`
    ///  - fired: functions called by the wheel
    ///  - cancelled: functions that were not called: cancelled, or handed over by `stop` and
    ///    not run
    ///  - overtaken: timers of the wheel that went off and called nothing, because a cancel or a
    ///    reschedule was under way
    using counters = detail::remote_core::counters;

    /// The budget that does not run out.
    static constexpr std::size_t unlimited = ~std::size_t{0};
    /// The most cells that there can be: more are as many.
    static constexpr std::size_t most_slots = detail::remote_vacancies::most;

    /// A mailbox of `capacity` cells, in front of that wheel. The owner counts as awake: nobody
    /// rings before the first `rearm`. Throws std::bad_alloc.
    remote(Clocked& timers, std::size_t capacity, std::function<void()> doorbell)
        : ticks_(timers.ticks()), core_(std::make_shared<detail::remote_core>(
                                      timers.wheel(), capacity, std::move(doorbell))) {}

    /// Stops, and destroys the functions that were not called. O(capacity).
    ~remote() {
        core_->require_that_nobody_is_inside();
        stop();
    }

    remote(const remote&) TVEC_WANTS("a sender: the remote itself stays where it is");
    remote& operator=(const remote&) TVEC_WANTS("a sender: the remote itself stays where it is");
    remote(Clocked&&, std::size_t, std::function<void()>) TVEC_WANTS("a wheel that outlives it");

    /// The end for other threads, to be copied to as many as like. It may be used by the owner,
    /// too.
    remote_sender<Clocked> sender() const { return {core_, ticks_}; }

    /// Takes in what has been sent until now, at most `budget` of it: calls what was posted, arms
    /// what was scheduled, lets go of what was cancelled. Call it once per turn of the loop, before
    /// the wheel's `run`. What comes meanwhile is left for the next call, as is what the budget
    /// leaves over. From within a posted function, and after `stop`, it does nothing. Returns how
    /// many it has dealt with.
    std::size_t run(std::size_t budget = unlimited) { return core_->run(budget); }

    /// Call it last before every sleep: from here on the doorbell rings for what is sent, once. If
    /// something has been sent already, or was left over, it rings at once, so that the sleep ends.
    /// Calling it again without sleeping is harmless; without it the owner is not woken. A loop
    /// into which nothing can be put before the sleep calls `run` and then this in the handler of
    /// the doorbell, also if `run` threw, and this once before it begins: then what is sent while
    /// it is awake rings, too, once until the handler is called.
    void rearm() { core_->rearm(); }

    class unprocessed;

    /// Refuses all that is sent from now on, and calls visit(unprocessed&) for every function that
    /// was on its way or pending, exactly once, in no particular order. What the visitor does not
    /// run is cancelled. What is being called is not shown. If the visitor throws, those not shown
    /// yet are kept for the next call of `stop`; until then, those that are pending on the wheel
    /// may still fire. Returns how many were shown. O(capacity).
    template <class F> std::size_t stop(F visit);

    /// The same, with nobody looking.
    std::size_t stop() {
        return stop([](unprocessed&) {});
    }

    /// Whether `stop` has been called.
    bool stopped() const noexcept { return core_->stopped(); }

    /// How many cells there are.
    std::size_t capacity() const noexcept { return core_->capacity(); }

    /// How many of its functions have a timer that is pending on the wheel: among them those that
    /// were cancelled since `run` was last called, and not those that are on their way.
    std::size_t pending() const noexcept { return core_->armed(); }

    /// What it has done so far.
    const counters& count() const noexcept { return core_->count(); }

private:
    using ticks_type = std::remove_cvref_t<decltype(std::declval<Clocked&>().ticks())>;

    ticks_type ticks_;
    std::shared_ptr<detail::remote_core> core_;
};

/// Deduces the type of the wheel.
template <class Clocked> remote(Clocked&, std::size_t, std::function<void()>) -> remote<Clocked>;

/// What `stop` shows to its visitor.
template <class Clocked> class remote<Clocked>::unprocessed {
public:
    /// Which it is.
    remote_handle handle() const noexcept { return handover_.handle(); }

    /// When it would have been called; none if it was posted.
    std::optional<time_point> deadline() const noexcept {
        if (handover_.due() == detail::remote_core::at_once) return std::nullopt;
        return ticks_.start_of(handover_.due());
    }

    /// Calls its function; what that throws leaves `stop`. Returns whether it did: the second time
    /// it does not.
    bool run() { return handover_.run(); }

private:
    friend class remote;
    unprocessed(detail::remote_handover& handover, const ticks_type& ticks) noexcept
        : handover_(handover), ticks_(ticks) {}

    detail::remote_handover& handover_;
    const ticks_type& ticks_;
};

/// The end of a `remote` for other threads. Copies speak to the same mailbox; they may be made,
/// used and destroyed by any thread at any time, also when the owner is gone. One object is to be
/// used by one thread at a time, but for its const methods: those of it that send are const.
///
///     const auto late = sender.schedule(250ms, [id] { give_up(id); });   // on the owner's thread
///     if (!late) return overloaded();                                    // refused, and says why
///     work();
///     if (sender.cancel(late.handle)) sender.post([id] { answer(id); });
///
/// **Functions** are called as f(remote_handle), with their own name, if they can be, else as f(),
/// on the thread of the owner, and they are destroyed there as soon as they will not be called any
/// more. They have at most 48 bytes, aligned to at most 16; move-only ones are welcome, anything
/// else does not compile. When sending is refused, `f` is as it was, unless the owner has stopped
/// in the middle of the call. What copying or moving `f` throws is thrown, and nothing is sent.
template <class Clocked = clocked_wheel<>> class remote_sender {
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

    /// Calls `f` as soon as the owner comes by: in `remote::run`, in the order of sending. Until
    /// then it can be cancelled, and rescheduled to be called later.
    template <class F> sent post(F&& f) const {
        return send(detail::remote_core::at_once, std::forward<F>(f));
    }

    /// Returns whether the function was going to be called. Afterwards it will not; it is destroyed
    /// when the owner comes by. If it returns false the function has been called, or is being
    /// called at this moment, or was cancelled before. Never waits.
    bool cancel(remote_handle h) const { return core_->cancel(h, bell_); }

    /// The same, and returns when the function is not being called any more and has been destroyed:
    /// what it refers to may be destroyed then. (timer_delete_sync) Waits for the owner to come by,
    /// be it to stop, or for the remote to be destroyed. The owner itself, that is the thread that
    /// has last called `remote::run`, does not wait.
    bool cancel_and_wait(remote_handle h) const { return core_->cancel_and_wait(h, bell_); }

    /// Cancels at once, and has f(bool) called on the owner's thread with what `cancel` would have
    /// returned, when the function is neither called nor there any more. It goes the way of
    /// `post`, and is a function of its own: when it is refused nothing has been cancelled, unless
    /// the owner has stopped in the middle of the call. `f` has at most 40 bytes.
    template <class F> sent cancel_then(remote_handle h, F&& f) const;

    /// Makes the function be called when `delay` has passed from now. Returns whether that is so:
    /// not if it has been called, is being called or was cancelled. If two threads do that at the
    /// same moment, it is one of their deadlines that counts.
    template <detail::countable Rep, class Period>
    bool reschedule(remote_handle h, std::chrono::duration<Rep, Period> delay) const {
        return core_->reschedule(h, tick_of(Clocked::after(delay)), bell_);
    }

    /// The same, when the clock has reached `deadline`.
    bool reschedule_at(remote_handle h, time_point deadline) const {
        return core_->reschedule(h, tick_of(deadline), bell_);
    }

    /// Whether the owner has stopped: from then on all that is sent is refused.
    bool stopped() const noexcept { return core_->stopped(); }

    /// A sender to the same mailbox that rings by `bell()`, for a thread that has a shorter way to
    /// wake the owner: a `uring_doorbell` on its own ring, say. `bell` must outlive the sender, and
    /// is called by the threads that use it.
    template <class Bell> remote_sender through(Bell& bell) const noexcept {
        return {core_, ticks_, detail::doorbell::of(bell)};
    }

    // --- misuses that the compiler refuses ------------------------------------------------------

    template <class Bell> remote_sender through(const Bell&&) TVEC_WANTS("a bell that outlives it");
    template <detail::no_duration D, class F>
    sent schedule(const D&, F&&) const TVEC_WANTS("a duration: 1500ms, not 1.5s; then a function");
    template <detail::no_time_point<time_point> T, class F>
    sent schedule_at(const T&, F&&) const TVEC_WANTS("a time_point of its clock, then a function");
    template <detail::no_duration D>
    bool reschedule(remote_handle, const D&) const TVEC_WANTS("a duration: 1500ms, not 1.5s");
    template <detail::no_time_point<time_point> T>
    bool reschedule_at(remote_handle, const T&) const TVEC_WANTS("a time_point of its clock");

private:
    friend class remote<Clocked>;
    using ticks_type = std::remove_cvref_t<decltype(std::declval<Clocked&>().ticks())>;
    using core_pointer = std::shared_ptr<detail::remote_core>;

    remote_sender(const core_pointer& core, const ticks_type& ticks) noexcept
        : remote_sender(core, ticks, core->bell()) {}
    remote_sender(const core_pointer& core, const ticks_type& ticks, detail::doorbell bell) noexcept
        : core_(core), ticks_(ticks), bell_(bell) {}

    /// As the owner would count it. Tick 0 says `at_once`, and has passed.
    jiffies tick_of(time_point deadline) const noexcept {
        return std::max<jiffies>(ticks_.ceil(deadline), 1);
    }

    template <class F> sent send(jiffies due, F&& f) const;

    core_pointer core_;
    ticks_type ticks_;
    detail::doorbell bell_;
};

// --- implementation -----------------------------------------------------------------------------

template <class Clocked> template <class F> std::size_t remote<Clocked>::stop(F visit) {
    core_->stop();
    std::size_t shown = 0;
    for (std::uint32_t index = 0;; ++shown) {
        detail::remote_handover handover(*core_, index);
        if (!handover) return shown;
        unprocessed function(handover, ticks_);
        visit(function);
    }
}

template <class Clocked>
template <class F>
sent remote_sender<Clocked>::send(jiffies due, F&& f) const {
    static_assert(std::is_invocable_v<std::decay_t<F>&, remote_handle> ||
                      std::is_invocable_v<std::decay_t<F>&>,
                  "what is sent is called with nothing, or with a tvec::remote_handle");
    detail::remote_reservation reservation(*core_, !detail::is_empty_function(f));
    if (reservation.error() != send_error::none) return {{}, reservation.error()};
    reservation.cell().hold(std::forward<F>(f));
    return reservation.send(due, bell_);
}

template <class Clocked>
template <class F>
sent remote_sender<Clocked>::cancel_then(remote_handle h, F&& f) const {
    static_assert(std::is_invocable_v<std::decay_t<F>&, bool>,
                  "the answer to a cancel is given to a function that takes a bool");
    detail::remote_reservation reservation(*core_, !detail::is_empty_function(f));
    if (reservation.error() != send_error::none) return {{}, reservation.error()};
    using answering = detail::answering<std::decay_t<F>>;
    reservation.cell().hold(answering{std::forward<F>(f)});
    detail::held<answering>(reservation.cell().storage).answer = cancel(h);
    return reservation.send(detail::remote_core::at_once, bell_);
}

}  // namespace tvec
