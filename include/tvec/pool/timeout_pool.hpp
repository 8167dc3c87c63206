/// \file
/// Timeouts that a pool owns: schedule a function, keep a handle.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/clock/detail/beats.hpp"
#include "tvec/core/detail/wants.hpp"
#include "tvec/core/timer_wheel.hpp"
#include "tvec/pool/detail/timeout_core.hpp"
#include "tvec/pool/detail/timeout_handle.hpp"  // IWYU pragma: export

namespace tvec {

/// Functions to be called later, on a clocked wheel that the caller owns and runs as always.
///
///     tvec::clocked_wheel timers;
///     tvec::timeout_pool pool(timers);
///     const auto reply = pool.schedule(250ms, [&session] { session.give_up(); });
///     pool.cancel(reply.handle);
///     timers.run();                                // fires timers and timeouts alike
///
/// For programs that would rather not embed a `timer`. It costs 128 bytes per timeout, and
/// following a handle. The promises of the wheel hold: no timeout fires early, delays are measured
/// from the call and saturate, and the budget of `run` counts each timeout as one visit.
///
/// Functions are called as f(const timeout_call&) if they accept that, else as f(). A function
/// object has at most 48 bytes, aligned to at most 16. The pool contains exceptions of functions,
/// counts them and passes them to the hook. A call costs O(1) without allocation, unless it says
/// otherwise.
///
/// The pool has no thread and no lock: it belongs to the thread of its wheel. Its own functions,
/// hook and visitors must not destroy it. That is reported in one line on the standard error
/// output, and ends the program (std::terminate). Pool and wheel may be destroyed in either order.
/// The rules for functions, memory and a wheel that is gone: the end of docs/which-arm.md.
template <class Clocked = clocked_wheel<>> class timeout_pool {
    static_assert(detail::clocked<Clocked>,
                  "a timeout_pool is on a tvec::clocked_wheel: a timer_wheel has no clock");

public:
    using duration = typename Clocked::duration;      ///< in units of the clock
    using time_point = typename Clocked::time_point;  ///< of the clock

    /// A timeout that is going to fire.
    struct pending_timeout {
        timeout_handle handle;  ///< its handle
        time_point deadline;    ///< it fires on the tick of this time, or later
    };

    /// Counters of the pool.
    ///  - fired: calls of functions, a periodic one each time
    ///  - cancelled: timeouts ended by `cancel` or `take`, or handed over by `stop` and not run
    ///  - rejected: refused calls of `schedule` and similar functions, for any reason
    ///  - failed: calls of functions that threw
    ///  - missed: periods that periodic timeouts skipped
    ///  - late: sum of the ticks by which functions were called after their deadlines. late / fired
    ///    is the mean. A call is late by the ticks that `run` was behind: 0 if `run` is called
    ///    often enough
    ///  - latest: ticks by which the latest of these calls came
    using counters = detail::timeout_core::counters;

    /// Called with the exception of a function, when its timeout has ended.
    using exception_hook = detail::timeout_core::exception_hook;

    /// As max_pending: no bound but memory.
    static constexpr std::size_t unlimited = ~std::size_t{0};

    /// The largest size of a function object, in bytes.
    static constexpr std::size_t function_size = detail::timeout_node::function_size;
    /// The largest alignment of a function object.
    static constexpr std::size_t function_alignment = detail::timeout_node::function_alignment;

    /// Makes an empty pool on that wheel, for at most `max_pending` pending timeouts. Allocates
    /// nothing.
    explicit timeout_pool(Clocked& timers, std::size_t max_pending = unlimited) noexcept
        : timers_(timers), core_(timers.wheel(), max_pending) {
#ifndef NDEBUG
        on_exception(detail::tell_of_exception);
#endif
    }

    /// Cancels all timeouts, and destroys their functions. O(nodes).
    ~timeout_pool() = default;

    // --- in -------------------------------------------------------------------------------------
    // Each returns whether it has scheduled, or why not: then `f` is unchanged, and the refusal is
    // counted. They throw only what copying or moving `f` throws: then nothing has happened. While
    // `f` is copied or moved the timeout is not pending. If that stops the pool, the timeout is
    // refused.

    /// Calls `f` once, when `delay` has passed from now. A negative delay counts as 0, which means
    /// the next tick. O(1), except for a new slab (`reserve` avoids it).
    template <detail::countable Rep, class Period, class F>
    scheduled schedule(std::chrono::duration<Rep, Period> delay, F&& f) {
        return admit(tick_after(delay), std::forward<F>(f), {});
    }

    /// Calls `f` once, when the clock has reached `deadline`. A deadline that has passed counts as
    /// the next tick.
    template <class F> scheduled schedule_at(time_point deadline, F&& f) {
        return admit(timers_.ticks().ceil(deadline), std::forward<F>(f), {});
    }

    /// Calls `f` each time that another `period` has passed from now, until it is cancelled. The
    /// period rounds up to whole ticks, at least one. Deadlines do not drift. The policy says what
    /// becomes of periods that were missed before `f` is called, and f(const timeout_call&) is told
    /// how many are skipped.
    template <detail::countable Rep, class Period, class F>
    scheduled schedule_every(std::chrono::duration<Rep, Period> period, F&& f,
                             missed_periods policy = missed_periods::skip) {
        return admit(tick_after(period), std::forward<F>(f),
                     {detail::period_on(timers_, period), policy});
    }

    /// Calls `f` first when the clock has reached `start`, and then each `period`, until it is
    /// cancelled. If `start` has passed there is an extra call at once, on the next tick, and the
    /// calls after it come whole periods after `start`. Periods before that do not count as missed,
    /// and the call at once does not count as late. A `start` of the wheel's `now()` calls f at
    /// once, and then each period.
    template <detail::countable Rep, class Period, class F>
    scheduled schedule_every(time_point start, std::chrono::duration<Rep, Period> period, F&& f,
                             missed_periods policy = missed_periods::skip) {
        const jiffies ticks = detail::period_on(timers_, period);
        return admit(detail::begin_at(timers_, start, ticks), std::forward<F>(f), {ticks, policy});
    }

    // --- one of them ----------------------------------------------------------------------------

    /// Cancels the timeout. Returns whether it was going to fire, or to fire again. Afterwards it
    /// will not, even if it was already due. Its function is destroyed at once, or after it has
    /// returned if it is being called. Returns false from inside a function that was to be called
    /// once.
    bool cancel(timeout_handle h) noexcept { return core_.cancel(h); }

    /// Cancels the timeout, and returns its function object. F is the type that was scheduled: a
    /// class of yours, or decltype(f) of a lambda with a name. Returns nothing, and changes
    /// nothing, if the function is of another type, is being called, or is not going to be. If
    /// moving it throws, the exception passes through, and the timeout is cancelled.
    ///
    ///     if (auto mail = pool.take<delayed_mail>(h)) mail->send_now();
    ///
    /// Types are compared by address. A function that was scheduled by another shared library with
    /// hidden symbols therefore counts as another type.
    template <class F> [[nodiscard]] std::optional<F> take(timeout_handle h);

    /// Returns the state of the timeout. `fired` and `cancelled` are known until the node is reused
    /// for another timeout, or freed by `trim`. From then on the state is `unknown`.
    timeout_state state(timeout_handle h) const noexcept { return core_.state(h); }

    /// Returns the time until the deadline, 0 if it has passed; empty if the timeout is not going
    /// to fire. Ignores `run_early`. Reads the clock.
    std::optional<duration> remaining(timeout_handle h) const noexcept;

    /// Makes the timeout fire when `delay` has passed from now. A periodic timeout fires then, and
    /// keeps its phase from there. Returns whether it is so: a timeout can be rescheduled while it
    /// is pending or being called, unless it was cancelled. Also returns false, and counts a
    /// refusal, if the pool is stopped, or if a timeout that is being called would exceed the
    /// bound. A push-back costs one store besides following the handle.
    template <detail::countable Rep, class Period>
    bool reschedule(timeout_handle h, std::chrono::duration<Rep, Period> delay) noexcept {
        return reschedule_at(h, timers_.after(delay));
    }

    /// Makes the timeout fire when the clock has reached `deadline`. A deadline that has passed
    /// counts as the next tick. Does not read the clock.
    bool reschedule_at(timeout_handle h, time_point deadline) noexcept {
        return core_.reschedule(h, timers_.ticks().ceil(deadline));
    }

    // --- all of them ----------------------------------------------------------------------------

    /// Calls visit(const pending_timeout&) once for every pending timeout, in no particular order,
    /// and for periodic ones also while they are called. The visitor may do anything, even to the
    /// timeout it is shown. Timeouts that are cancelled or fire meanwhile are not shown, and new
    /// ones may be shown. The visitor returns nothing, or a bool: false ends the walk. Its
    /// exceptions pass through. Returns whether the walk reached its end. O(nodes).
    template <class F> bool for_each_pending(F visit) const;

    /// Returns a timeout that fires first. With run_early that may be any. Empty if none will fire.
    /// The pool keeps no order, which every other call would pay for, so this looks at all nodes:
    /// O(nodes). The wheel's `next_wakeup` is O(1).
    std::optional<pending_timeout> next() const noexcept;

    class unprocessed;

    /// Ends all pending timeouts, and calls visit(unprocessed&) exactly once for each, in no
    /// particular order. From the start of the call on, nothing can be scheduled. Timeouts that the
    /// visitor does not run are cancelled. Timeouts that it cancels are not shown any more. A
    /// timeout that is being called meanwhile is not shown, and not called again. If the visitor
    /// throws, the rest stays pending, for the next call of `stop`. Returns the number of timeouts
    /// shown. O(nodes).
    template <class F> std::size_t stop(F visit);

    /// Ends all pending timeouts without a visitor.
    std::size_t stop() {
        return stop([](unprocessed&) {});
    }

    /// Returns whether `stop` was called.
    bool stopped() const noexcept { return core_.stopped(); }

    /// With true, all pending timeouts, and all that are scheduled or rescheduled from now on, fire
    /// on the next tick. A periodic timeout is brought forward once, by one of its periods, and its
    /// phase stays. With false, deadlines count again, even of timeouts that have not fired yet.
    /// Neither postpones a timeout that is due by its deadline, however often and from wherever it
    /// is called. Timeouts of a paused `timer_group` stay paused. O(nodes).
    void run_early(bool early) noexcept { core_.run_early(early); }

    /// Sets the hook for exceptions of functions. The hook may throw: its exception leaves `run`,
    /// as from a callback of the wheel. It must not be replaced from inside itself.
    ///
    /// Without a hook exceptions are only counted. A debug build reports the first exception on a
    /// thread on the standard error output. An empty hook ends that.
    void on_exception(exception_hook hook) { core_.on_exception(std::move(hook)); }

    // --- memory and counts ----------------------------------------------------------------------

    /// Makes `timeouts` pending timeouts possible without allocation, beside one that is being
    /// called (or destroyed) and may schedule the last of them. Returns false if there is not
    /// enough memory: the nodes that were allocated stay. Does nothing for 0.
    bool reserve(std::size_t timeouts) noexcept { return core_.reserve(timeouts); }

    /// Frees the slabs in which no timeout is pending or being called. Returns the number of
    /// timeouts that they had room for. Handles into them stay harmless. O(nodes).
    std::size_t trim() noexcept { return core_.slabs().trim(); }

    /// Returns the number of timeouts that there is memory for. (A node is abandoned after 2^32 - 1
    /// timeouts, when its handles run out.)
    std::size_t capacity() const noexcept { return core_.slabs().capacity(); }

    /// Returns the bytes that it has allocated, for a metric. Cancelled timeouts take none beyond
    /// the most that were ever pending, and `trim` gives those back. O(capacity / 64).
    std::size_t memory() const noexcept { return core_.slabs().memory(); }

    /// Returns the number of timeouts that are going to fire. Exact, also inside a function: a
    /// timeout that is called for the last time is not pending any more.
    std::size_t pending() const noexcept { return core_.pending(); }

    /// Returns the highest value that `pending` has had.
    std::size_t high_water() const noexcept { return core_.high_water(); }

    /// Returns the bound that the constructor was given.
    std::size_t max_pending() const noexcept { return core_.max_pending(); }
    /// Returns the counters.
    const counters& count() const noexcept { return core_.count(); }

    // --- wrong calls, and what to write instead -------------------------------------------------

    timeout_pool(const timeout_pool&) TVEC_WANTS("a reference: a pool stays where it is");
    timeout_pool& operator=(const timeout_pool&) TVEC_WANTS("a reference: a pool stays there");
    explicit timeout_pool(Clocked&&, std::size_t = 0) TVEC_WANTS("a wheel that outlives it");
    void schedule(detail::anything, const auto&) TVEC_WANTS("a duration (1500ms, not 1.5s), f");
    void schedule_at(detail::no<time_point>, const auto&) TVEC_WANTS("a time_point, f");
    void schedule_every(detail::no<time_point>, const auto&...) TVEC_WANTS("1500ms, f");
    void schedule_every(time_point, detail::anything, const auto&...) TVEC_WANTS("start, 5ms, f");
    void reschedule(timeout_handle, detail::anything) TVEC_WANTS("a duration: 1500ms, not 1.5s");
    void reschedule_at(timeout_handle, detail::no<time_point>) TVEC_WANTS("a time: after(5ms)");

private:
    struct repetition {
        jiffies period = 0;
        missed_periods policy = missed_periods::skip;
    };

    /// Returns the tick of a deadline `delay` from now.
    template <class Rep, class Period>
    jiffies tick_after(std::chrono::duration<Rep, Period> delay) const noexcept {
        return timers_.ticks().ceil(timers_.after(delay));
    }

    template <class F> scheduled admit(detail::beginning begin, F&& f, repetition again);

    pending_timeout described(const detail::timeout_node& n) const noexcept {
        return {detail::timeout_slabs::handle_of(n), timers_.ticks().start_of(n.deadline())};
    }

    Clocked& timers_;
    detail::timeout_core core_;
};

/// Deduces the type of the wheel.
template <class Clocked> timeout_pool(Clocked&) -> timeout_pool<Clocked>;

/// A timeout that `stop` shows to its visitor.
template <class Clocked> class timeout_pool<Clocked>::unprocessed {
public:
    /// Returns its handle.
    timeout_handle handle() const noexcept { return handover_.handle(); }

    /// Returns its deadline.
    time_point deadline() const noexcept { return timers_.ticks().start_of(handover_.due()); }

    /// Calls its function as if it had fired, and contains its exception. Returns whether it was
    /// called: not the second time.
    bool run() { return handover_.run(); }

private:
    friend class timeout_pool;
    unprocessed(detail::timeout_handover& handover, const Clocked& timers) noexcept
        : handover_(handover), timers_(timers) {}

    detail::timeout_handover& handover_;
    const Clocked& timers_;
};

// --- implementation -----------------------------------------------------------------------------

template <class Clocked>
template <class F>
scheduled timeout_pool<Clocked>::admit(detail::beginning begin, F&& f, repetition again) {
    static_assert(std::is_invocable_v<detail::holder_of<F>&, const timeout_call&> ||
                      std::is_invocable_v<detail::holder_of<F>&>,
                  "a timeout's function is called with nothing, or with a const timeout_call&");
    detail::timeout_reservation reservation(core_, !detail::is_empty_function(f));
    if (reservation.error() != schedule_error::none) return {{}, reservation.error()};
    detail::timeout_node& n = reservation.node();
    n.hold(std::forward<F>(f));
    n.period = again.period;
    n.policy = again.policy;
    return reservation.admit(begin);
}

template <class Clocked>
template <class F>
std::optional<F> timeout_pool<Clocked>::take(timeout_handle h) {
    static_assert(std::is_same_v<F, std::decay_t<F>> && std::is_move_constructible_v<F>,
                  "take gives a function object: take<delayed_mail>(h), without const or &");
    detail::timeout_handover taken(core_, h,
                                   detail::function_kind_of<F, const timeout_call&>::value);
    if (!taken) return std::nullopt;
    return std::optional<F>(std::in_place, std::move(taken.function<F>()));
}

template <class Clocked>
auto timeout_pool<Clocked>::remaining(timeout_handle h) const noexcept -> std::optional<duration> {
    const std::optional<jiffies> due = core_.due(h);
    if (!due) return std::nullopt;
    return detail::time_left(detail::reading(timers_.ticks()), timers_.ticks().start_of(*due));
}

template <class Clocked>
template <class F>
bool timeout_pool<Clocked>::for_each_pending(F visit) const {
    static_assert(std::is_invocable_v<F&, const pending_timeout&>,
                  "the visitor is called with a const pending_timeout&");
    detail::timeout_walk walk(core_);
    while (const detail::timeout_node* const n = walk.next()) {
        const pending_timeout shown = described(*n);
        if (!detail::goes_on(visit, shown)) return false;
    }
    return true;
}

template <class Clocked>
auto timeout_pool<Clocked>::next() const noexcept -> std::optional<pending_timeout> {
    const detail::timeout_node* const n = core_.next();
    return n ? std::optional(described(*n)) : std::nullopt;
}

template <class Clocked> template <class F> std::size_t timeout_pool<Clocked>::stop(F visit) {
    core_.stop();
    std::size_t shown = 0;
    for (std::uint32_t index = 0;; ++shown) {
        detail::timeout_handover handover(core_, index);
        if (!handover) return shown;
        unprocessed timeout(handover, timers_);
        visit(timeout);
    }
}

}  // namespace tvec
