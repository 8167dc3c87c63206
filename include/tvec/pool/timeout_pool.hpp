/// \file
/// Timeouts that somebody else owns: schedule a function, keep a handle.
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
#include "tvec/pool/timeout_handle.hpp"

namespace tvec {

namespace detail {

/// What is no first argument of `schedule_every`.
template <class D, class TimePoint>
concept neither_duration_nor = no_duration<D> && no_time_point<D, TimePoint>;

}  // namespace detail

/// Functions to be called later, on a clocked wheel that the caller owns and runs as always.
///
///     tvec::clocked_wheel timers;
///     tvec::timeout_pool pool(timers);
///     const auto reply = pool.schedule(250ms, [&session] { session.give_up(); });
///     pool.cancel(reply.handle);
///     timers.run();                                // fires timers and timeouts alike
///
/// For those who would rather not embed a `timer`: it costs 128 bytes per timeout, and following a
/// handle. The promises of the wheel hold for timeouts: none fires early, delays are measured from
/// the call and saturate, `run`'s budget counts each as one visit.
///
/// **Functions** are called as f(const timeout_call&) if they can be, else as f(). They are kept
/// inside the pool's nodes: at most 48 bytes, aligned to at most 16, move-only ones welcome;
/// anything else does not compile. They are destroyed as soon as they will not be called any more.
///
/// **From inside a function** (its copy or move constructor, its destructor, the hook, a visitor)
/// everything may be called, about the timeout itself and about those due in the same tick, but the
/// pool may not be destroyed: that is said in one line on the standard error output, and ends the
/// program (std::terminate).
///
/// **What a function throws** is contained: counted, and given to the hook if there is one. The
/// others fire all the same. A periodic timeout goes on.
///
/// **Memory** comes in slabs of 64 nodes, which never move. A node whose timeout has fired or been
/// cancelled, and whose function is gone, is the next to be used again; so nothing is allocated
/// while no more timeouts are pending or being called than ever before. Cost of a call, unless it
/// says otherwise: O(1), without allocation.
///
/// The pool has no thread and no lock: it belongs to the thread of its wheel. Pool and wheel may be
/// destroyed in either order; once the wheel is gone only `cancel`, `take`, `state`, the counts and
/// the destructor may be called. What the wheel's own `drain` takes out will not fire but still
/// counts as pending; for a pool, use `stop`.
template <class Clocked = clocked_wheel<>> class timeout_pool {
    static_assert(detail::clocked<Clocked>,
                  "a timeout_pool is on a tvec::clocked_wheel: a timer_wheel has no clock");

public:
    using duration = typename Clocked::duration;      ///< in units of the clock
    using time_point = typename Clocked::time_point;  ///< of the clock

    /// A timeout that is going to fire.
    struct pending_timeout {
        timeout_handle handle;  ///< which
        time_point deadline;    ///< when; on that tick, or later
    };

    /// What the pool has done so far.
    ///  - fired: calls of functions, a periodic one each time
    ///  - cancelled: timeouts ended by `cancel` or `take`, or handed over by `stop` and not run
    ///  - rejected: calls of `schedule` and its like that were refused, for whatever reason
    ///  - failed: calls of functions that threw
    ///  - missed: periods that periodic timeouts passed over
    ///  - late: ticks by which functions were called after their deadlines, in sum; late / fired is
    ///    the mean. A call is late by what `run` still had to do or had been kept from: 0 if it is
    ///    called often enough
    ///  - latest: ticks by which the latest of these calls came
    using counters = detail::timeout_core::counters;

    /// Called with what a function has thrown, when its timeout has ended.
    using exception_hook = detail::timeout_core::exception_hook;

    /// As max_pending: as many as there is memory for.
    static constexpr std::size_t unlimited = ~std::size_t{0};

    /// How many bytes a function object may have.
    static constexpr std::size_t function_size = detail::timeout_node::function_size;
    /// What alignment a function object may have.
    static constexpr std::size_t function_alignment = detail::timeout_node::function_alignment;

    /// An empty pool on that wheel, for at most `max_pending` pending timeouts. Allocates nothing.
    explicit timeout_pool(Clocked& timers, std::size_t max_pending = unlimited) noexcept
        : timers_(timers), core_(timers.wheel(), max_pending) {
#ifndef NDEBUG
        on_exception(detail::tell_of_exception);
#endif
    }

    /// Cancels all timeouts, and destroys their functions. O(nodes).
    ~timeout_pool() = default;

    timeout_pool(const timeout_pool&) TVEC_WANTS("a reference: a pool stays where it is");
    timeout_pool& operator=(const timeout_pool&) TVEC_WANTS("a reference: a pool stays there");

    // --- in -------------------------------------------------------------------------------------
    // Each says whether it did, or why not; then `f` is as it was, and the refusal is counted.
    // Nothing is thrown but what copying or moving `f` throws; then nothing has happened. Until it
    // has been copied or moved the timeout is not pending; if that stops the pool, it is refused.

    /// Calls `f` once, when `delay` has passed from now. A negative delay counts as 0, which means
    /// the next tick. O(1), but for a new slab (`reserve` avoids it).
    template <detail::countable Rep, class Period, class F>
    scheduled schedule(std::chrono::duration<Rep, Period> delay, F&& f) {
        return admit(tick_after(delay), std::forward<F>(f), {});
    }

    /// Calls `f` once, when the clock has reached `deadline`. One that has passed counts as the
    /// next tick.
    template <class F> scheduled schedule_at(time_point deadline, F&& f) {
        return admit(timers_.ticks().ceil(deadline), std::forward<F>(f), {});
    }

    /// Calls `f` each time that another `period` has passed from now, until it is cancelled. The
    /// period rounds up to whole ticks, and to one at least; deadlines do not drift. When periods
    /// have passed by before `f` is called, the policy says what becomes of them, and f(const
    /// timeout_call&) is told how many are passed over.
    template <detail::countable Rep, class Period, class F>
    scheduled schedule_every(std::chrono::duration<Rep, Period> period, F&& f,
                             missed_periods policy = missed_periods::skip) {
        return admit(tick_after(period), std::forward<F>(f),
                     {detail::period_on(timers_, period), policy});
    }

    /// The same, for the first time when the clock has reached `start`, which may have passed: then
    /// the first call comes at once, on the next tick, and those after it whole periods after
    /// `start`, as if that first call had not been. What went by before is not missed, and a call
    /// at once is not late. A `start` of `clock::now()` is the way to have f called at once, and
    /// then each period.
    template <detail::countable Rep, class Period, class F>
    scheduled schedule_every(time_point start, std::chrono::duration<Rep, Period> period, F&& f,
                             missed_periods policy = missed_periods::skip) {
        const jiffies ticks = detail::period_on(timers_, period);
        return admit(detail::begin_at(timers_, start, ticks), std::forward<F>(f), {ticks, policy});
    }

    // --- one of them ----------------------------------------------------------------------------

    /// Returns whether the timeout was going to fire, or to fire again. Afterwards it will not,
    /// even if it was already due. Its function is destroyed at once, or after it has returned if
    /// it is being called. From inside a function that was to be called once: false.
    bool cancel(timeout_handle h) noexcept { return core_.cancel(h); }

    /// Cancels the timeout, and gives its function back: what was to be done, for somebody else to
    /// do. F is the type that was scheduled: a class of yours, or decltype(f) of a lambda that has
    /// a name. Empty, and nothing happens, if the function is of another type, is being called, or
    /// is not going to be. If moving it throws, that passes through, and the timeout is cancelled.
    ///
    ///     if (auto mail = pool.take<delayed_mail>(h)) mail->send_now();
    ///
    /// Types are told apart by addresses. So what another shared library has scheduled, if that
    /// hides its symbols, is of another type.
    template <class F> [[nodiscard]] std::optional<F> take(timeout_handle h);

    /// What has become of the timeout. That it has fired or been cancelled is known until its node
    /// is used for another timeout, or given back by `trim`; from then on it is unknown.
    timeout_state state(timeout_handle h) const noexcept { return core_.state(h); }

    /// How long until the timeout's deadline, 0 if that has passed; none if it is not going to
    /// fire. It knows nothing of `run_early`. Reads the clock.
    std::optional<duration> remaining(timeout_handle h) const noexcept;

    /// Makes the timeout fire (or, if it is periodic, fire next and keep its phase from there) when
    /// `delay` has passed from now. Returns whether that is so: what is pending or being called
    /// can be rescheduled, unless it has been cancelled. Also false, and a refusal that is counted,
    /// if a timeout that is being called would be one pending too many, or the pool is stopped.
    /// Pushing back costs one store besides following the handle.
    template <detail::countable Rep, class Period>
    bool reschedule(timeout_handle h, std::chrono::duration<Rep, Period> delay) noexcept {
        return reschedule_at(h, timers_.after(delay));
    }

    /// The same for when the clock has reached `deadline`. One that has passed counts as the next
    /// tick. Does not read the clock.
    bool reschedule_at(timeout_handle h, time_point deadline) noexcept {
        return core_.reschedule(h, timers_.ticks().ceil(deadline));
    }

    // --- all of them ----------------------------------------------------------------------------

    /// Calls visit(const pending_timeout&) for every pending timeout, once, in no particular order,
    /// periodic ones also while they are called. The visitor may do anything, also to the one it
    /// looks at; what is cancelled or fires meanwhile is not shown any more, and what is scheduled
    /// meanwhile may be shown. It returns nothing, or a bool: false ends the walk. What it throws
    /// passes through. Returns whether the walk came to its end. O(nodes).
    template <class F> bool for_each_pending(F visit) const;

    /// The timeout that fires next, or one of those that do on the same tick: with run_early it may
    /// be any. None if none will. No order is kept, which would make every other call pay for it:
    /// this looks at all nodes, O(nodes). When the wheel wants to be run next costs O(1), its
    /// `next_wakeup`.
    std::optional<pending_timeout> next() const noexcept;

    class unprocessed;

    /// Calls visit(unprocessed&) for every pending timeout, exactly once, in no particular order,
    /// and has none left; from the start of the call on, nothing can be scheduled. What the
    /// visitor does not run is cancelled. What it cancels is not shown any more. What is being
    /// called while `stop` is, is not shown, and not called again. If the visitor throws, the rest
    /// stays pending, for the next call of `stop`. Returns how many were shown. O(nodes).
    template <class F> std::size_t stop(F visit);

    /// The same, with nobody looking.
    std::size_t stop() {
        return stop([](unprocessed&) {});
    }

    /// Whether `stop` has been called.
    bool stopped() const noexcept { return core_.stopped(); }

    /// True: everything pending, and everything scheduled or rescheduled from now on, fires on the
    /// next tick. A periodic timeout is brought forward once, by one period of its own; its phase
    /// stays. False: from now on deadlines count again, also of what has not fired yet. Neither
    /// postpones what is due by its deadline, however often and from wherever it is called.
    /// O(nodes).
    void run_early(bool early) noexcept { core_.run_early(early); }

    /// Who is told what functions throw. It may throw itself; then that leaves `run`, as from a
    /// callback of the wheel. Not to be replaced from inside itself.
    ///
    /// Until a hook is set nobody is told, but in a debug build: there the first exception on
    /// a thread is named on the standard error output. An empty hook ends that.
    void on_exception(exception_hook hook) { core_.on_exception(std::move(hook)); }

    // --- memory and counts ----------------------------------------------------------------------

    /// Sees to it that `timeouts` can be pending at a time without allocating, besides one that is
    /// being called (or destroyed) and may schedule the last of them. False if there is no memory
    /// for so many; those that there was memory for are there. For 0 it does nothing.
    bool reserve(std::size_t timeouts) noexcept { return core_.reserve(timeouts); }

    /// Gives the slabs back in which nothing is pending or being called. Returns how many timeouts
    /// they had room for. Handles into them stay harmless. O(nodes).
    std::size_t trim() noexcept { return core_.slabs().trim(); }

    /// How many timeouts there is memory for. (A node is abandoned after 2^32 - 1 timeouts, when
    /// its handles run out.)
    std::size_t capacity() const noexcept { return core_.slabs().capacity(); }

    /// How many timeouts are going to fire. Exact, also inside a function: a timeout that is called
    /// for the last time is not pending any more.
    std::size_t pending() const noexcept { return core_.pending(); }

    /// The most that `pending` has been.
    std::size_t high_water() const noexcept { return core_.high_water(); }

    /// The bound that the constructor was given.
    std::size_t max_pending() const noexcept { return core_.max_pending(); }
    /// What the pool has done so far.
    const counters& count() const noexcept { return core_.count(); }

    // --- misuses that the compiler refuses ------------------------------------------------------

    explicit timeout_pool(Clocked&&, std::size_t = 0) TVEC_WANTS("a wheel that outlives it");
    template <detail::no_duration D, class F>
    scheduled schedule(const D&, F&&) TVEC_WANTS("a duration: 1500ms, not 1.5s; then a function");
    template <detail::no_time_point<time_point> T, class F>
    scheduled schedule_at(const T&, F&&) TVEC_WANTS("a time_point of its clock, then a function");
    template <detail::neither_duration_nor<time_point> D, class... F>
    scheduled schedule_every(const D&, F&&...) TVEC_WANTS("a duration: 1500ms, not 1.5s; ...");
    template <detail::no_duration D, class... F>
    scheduled schedule_every(time_point, const D&, F&&...) TVEC_WANTS("a start, a duration, ...");
    template <detail::whole_duration D, class... F>
    scheduled schedule_every(const D&, time_point, F&&...) TVEC_WANTS("a start, a duration, ...");
    template <detail::no_duration D>
    bool reschedule(timeout_handle, const D&) TVEC_WANTS("a duration: 1500ms, not 1.5s");
    template <detail::no_time_point<time_point> T>
    bool reschedule_at(timeout_handle, const T&) TVEC_WANTS("a time_point of its clock");

private:
    struct repetition {
        jiffies period = 0;
        missed_periods policy = missed_periods::skip;
    };

    /// The tick that a deadline `delay` from now falls on.
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
    /// Which timeout it is.
    timeout_handle handle() const noexcept { return handover_.handle(); }

    /// When it would have fired.
    time_point deadline() const noexcept { return timers_.ticks().start_of(handover_.due()); }

    /// Calls its function, as if it had fired; what that throws is contained. Returns whether it
    /// did: the second time it does not.
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
    static_assert(std::is_invocable_v<std::decay_t<F>&, const timeout_call&> ||
                      std::is_invocable_v<std::decay_t<F>&>,
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
    const time_point deadline = timers_.ticks().start_of(*due), now = Clocked::clock::now();
    return deadline <= now ? duration::zero() : detail::between(now, deadline);
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
