/// \file
/// The wheel: arm, advance, look ahead. No clock, no allocation, no operating system.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "tvec/core/detail/agenda.hpp"
#include "tvec/core/detail/export.hpp"
#include "tvec/core/detail/function_ref.hpp"
#include "tvec/core/detail/levels.hpp"
#include "tvec/core/detail/owner_thread.hpp"
#include "tvec/core/detail/wants.hpp"
#include "tvec/core/detail/wheel_number.hpp"
#include "tvec/core/timer.hpp"

namespace tvec {

namespace detail {

/// Numbers that count ticks: integers of at most 64 bits, and types that a plus sign turns into
/// one.
template <class N>
concept integer = requires(const N& n) {
    { +n } -> std::integral;
    requires sizeof(+n) <= sizeof(jiffies);
};
template <class N>
concept plain_integer = integer<N> && !std::is_class_v<N>;
template <class N>
concept made_integer = integer<N> && std::is_class_v<N>;
template <class T>
concept no_integer = !integer<T>;

/// Calls visit(thing). Returns whether to go on: `visit` returns nothing, or that answer.
template <class F, class T> bool goes_on(F& visit, T& thing) {
    using answer = std::remove_cvref_t<std::invoke_result_t<F&, T&>>;
    static_assert(std::is_void_v<answer> || std::is_same_v<answer, bool>,
                  "it returns nothing, or a bool: false to end here");
    if constexpr (std::is_void_v<answer>)
        return visit(thing), true;
    else
        return visit(thing);
}

}  // namespace detail

/// A number of ticks as it is given to a wheel: any integer, and what turns into one. A negative
/// one counts as 0: a point in time that has passed, a delay that is over at once. It costs nothing
/// to pass a jiffies, and a comparison to pass what is signed and no constant.
class tick_count {
public:
    /// Converts `n`; a negative number becomes 0. By value, so that a static member needs no
    /// definition.
    template <detail::plain_integer N>
    constexpr tick_count(N n) noexcept : ticks_(static_cast<jiffies>(+n)) {
        if constexpr (std::signed_integral<decltype(+n)>)
            if (+n < 0) ticks_ = 0;
    }
    /// Converts the value of a std::atomic, a std::integral_constant, ...
    template <detail::made_integer N> constexpr tick_count(const N& n) noexcept : tick_count(+n) {}
    template <detail::no_integer T>
    tick_count(const T&) TVEC_WANTS("whole ticks: durations are for a tvec::clocked_wheel");

    /// The number.
    constexpr operator jiffies() const noexcept { return ticks_; }

private:
    jiffies ticks_;
};

/// A cascading timer wheel: a root of 256 slots of one tick, and four levels of 64 slots, each
/// slot as wide as the whole level below it (see geometry.hpp).
///
/// The wheel has no clock: time is what `advance` says it is. One thread owns it; nothing is
/// locked. It holds no memory but its own (about 56 KB), and arming and cancelling cannot fail.
///
/// Promises:
///  - A timer armed for tick x fires when `advance` passes x, never before. Arming for now or the
///    past means the next tick.
///  - All of tick x runs before any of tick x+1, also when `advance` jumps. Within a tick the
///    order depends only on the calls made, those of `advance` among them: another jump to the
///    same tick may fire in another order. It is not the order of arming, for which there is
///    advance_in_order.
///  - Every delay is legal, exact to 2^63-2 ticks, and saturates at `never`.
///  - Arming and cancelling are O(1). Pushing a pending timer back, cancelling it, and arming it
///    again later write one cache line: the timer's own.
///  - `advance` costs what it fires and moves, and empty time costs nothing. No call pays for a
///    whole cascade, because slots of the upper levels are emptied ahead of time, at a rate. At
///    tick t at most (E - t) x rate timers are left in the slot whose lap begins at E. A call that
///    comes late does what was missed. So a loop that follows `next_wakeup` moves at most `rate`
///    timers per level and call.
///  - The rate is 64, unless more than 64 timers for each tick of the slot were linked to it since
///    the wheel last found it empty. Then it is the even share of these links. A timer that was
///    destroyed or unlinked meanwhile still counts, because unlinking needs no wheel. Push-backs,
///    cancels, and arming a cancelled timer again for later link nothing.
///  - Callbacks may arm, cancel, move and destroy any timer, themselves included. They may throw:
///    the other timers stay due. They must not destroy the wheel.
///
/// Limits:
///  - Addresses have 48 bits and no tags, which is what Linux gives programs unless they ask for
///    more. A debug build asserts it. TVEC_TAGGED_ADDRESSES allows tags.
///  - At most 3904 wheels alive at a time have a number. Others relink on every re-arm, and their
///    `arm_if_earlier` treats a timer that is pending in another of them as its own. The same holds
///    when the C library has no key left (pthread_key_create: one for 61 wheels).
///  - The wheel belongs to the thread that first advances it. A debug build asserts that no other
///    thread arms timers on it or advances it.
class TVEC_API timer_wheel {
public:
    /// The budget that does not run out.
    static constexpr std::size_t unlimited = ~std::size_t{0};

    /// The result of `advance`.
    struct progress {
        std::size_t fired;  ///< timers whose callbacks ran in this call
        bool caught_up;     ///< false: something due by then is left; call again
    };

    /// Counters since the wheel was made. They are counted at visits, so arming does not pay.
    struct counters {
        std::uint64_t fired = 0;           ///< callbacks run
        std::uint64_t moved = 0;           ///< timers placed again: sunk a level, or pushed back
        std::uint64_t dropped = 0;         ///< cancelled timers that a visit unlinked
        std::uint64_t clock_backward = 0;  ///< calls of `advance` for a tick before now()
    };

    /// An empty wheel whose time is 0. O(slots).
    timer_wheel() noexcept : timer_wheel(0) {}

    /// An empty wheel whose time is `now`, at most never-1. O(slots).
    explicit timer_wheel(tick_count now) noexcept;

    /// Leaves the timers that hang in it not pending. O(timers). Must not be called from one of
    /// its own callbacks, nor from the visitor of `drain`: that is said on the standard error
    /// output, in one line, and ends the program (std::terminate).
    ~timer_wheel();

    timer_wheel(const timer_wheel&) TVEC_WANTS("a reference: a wheel stays where it is");
    timer_wheel& operator=(const timer_wheel&) TVEC_WANTS("a reference: a wheel stays where it is");

    /// The tick that was last run; inside a callback, the tick being run.
    jiffies now() const noexcept { return now_; }

    /// How far the call of `advance` that is running, or that stopped on its budget or on an
    /// exception, still has to go. Inside a callback: how late it is. 0 at rest.
    jiffies behind() const noexcept { return target_ > now_ ? target_ - now_ : 0; }

    // --- arm: each returns whether the timer was pending before ---------------------------------
    // A timer that is pending, here or on another wheel of this thread, is moved. Ticks, delays and
    // periods that are negative count as 0: in the past, at once, as often as possible.

    /// Fires `t` when tick `expires` is run. If that tick is now or past, fires on the next tick.
    /// If it is `never`, does not fire. O(1). If `t` is linked to this wheel and `expires` is not
    /// earlier than the tick it was last armed for, this is one store.
    bool arm_at(timer& t, tick_count expires) noexcept;

    /// arm_at(now() + delay), saturating. A delay of 0 means the next tick.
    bool arm_after(timer& t, tick_count delay) noexcept {
        return arm_at(t, detail::later(now_, delay));
    }

    /// arm_at(t, expires) if `t` is pending; nothing if it is not: pushes back or pulls in what may
    /// have fired or been cancelled meanwhile, and never brings it back. (mod_timer_pending)
    bool arm_if_pending(timer& t, tick_count expires) noexcept {
        return t.pending() && arm_at(t, expires);
    }

    /// arm_at(t, expires) unless `t` is pending, for whatever tick and in whatever wheel: the first
    /// of several who ask decides. (schedule_delayed_work)
    bool arm_unless_pending(timer& t, tick_count expires) noexcept {
        return t.pending() || arm_at(t, expires);
    }

    /// arm_at(t, expires) unless `t` is pending in this wheel for that tick or an earlier one: the
    /// earliest of several deadlines for one timer. (timer_reduce)
    bool arm_if_earlier(timer& t, tick_count expires) noexcept {
        return due_by(t, expires) || arm_at(t, expires);
    }

    /// Fires `t` somewhere in [earliest, latest]: on the roundest tick of that window, the one that
    /// most other windows share, so that timers come together and wake-ups grow fewer. Does nothing
    /// if `t` is already pending for a tick of the window. If latest < earliest, earliest counts.
    bool arm_within(timer& t, tick_count earliest, tick_count latest) noexcept;

    /// Fires `t` a whole number of periods after the tick it was last armed for, on the first such
    /// tick after now() + behind(). So a periodic timer keeps its phase however late it runs, and
    /// after a late call the next one comes sooner than a period. A timer that is not due yet skips
    /// a beat. Returns how many periods were passed over. A period of 0 counts as 1. To make up for
    /// each missed period instead, call arm_at(t, t.expires() + period).
    jiffies arm_next(timer& t, tick_count period) noexcept;

    // --- run ------------------------------------------------------------------------------------

    /// Makes `until` the current tick, and fires all that is due by then, tick by tick.
    ///
    /// Visits at most `budget` timers: those it fires, moves and drops. If that is not enough,
    /// now() stays on the tick being run. Its other timers stay due, may be cancelled, and come
    /// first in the next call. Timers due by `until` fire before slots are emptied ahead of time,
    /// except timers of a slot that has to be emptied for a tick on the way. So a timer may be late
    /// by the time that callbacks take. After a stall longer than the slots were emptied ahead, it
    /// may also be late by the moves that were put off: budget times the cost of a visit, per call,
    /// until they are done. An `until` before now() counts as now() (and in
    /// count().clock_backward), and one of `never` or more as never-1.
    ///
    /// A tick in which there is nothing to do costs a compare and a store. Called from one of its
    /// own callbacks it does nothing and returns {0, false}. An exception from a callback passes
    /// through; the timer that threw has fired, the rest stays due.
    progress advance(tick_count until, std::size_t budget = unlimited) {
        if (skip_to(until)) [[likely]]
            return {0, true};
        return run(until, budget);
    }

    /// A callback that is about to run, as `advance_watched` shows it.
    class due_callback {
    public:
        /// Runs it. To be called once; afterwards its timer may be gone.
        void operator()() const { timer_.fire_(wheel_, timer_); }

    private:
        friend class timer_wheel;
        due_callback(timer_wheel& wheel, timer& t) noexcept : wheel_(wheel), timer_(t) {}

        timer_wheel& wheel_;
        timer& timer_;
    };

    /// The same as `advance`, with `watch` around each callback, to measure or bound how long
    /// callbacks take. watch(const due_callback& fire) calls fire() once, and returns nothing, or a
    /// bool: false ends the call there, as if the budget had run out. The other timers then stay
    /// due, and come first in the next call. A call with a due timer fires at least one, if its
    /// budget suffices. Exceptions of `watch` pass through, as those of callbacks do. Costs a call
    /// through a pointer per callback. `advance` itself costs the same as before.
    template <class F>
    progress advance_watched(tick_count until, F&& watch, std::size_t budget = unlimited) {
        if (skip_to(until)) return {0, true};
        static_assert(std::is_invocable_v<F&, const due_callback&>,
                      "the watch is called with a const tvec::timer_wheel::due_callback&");
        const auto goes_on = [&watch](const due_callback& fire) {
            return detail::goes_on(watch, fire);
        };
        return run_watched(until, budget, goes_on);
    }

    /// The same as `advance`, with the timers of each tick in an order of the caller's: first what
    /// is before(timer&, timer&) the others, and equals as `advance` has them.
    ///
    /// For the order of arming, as libuv has it, keep a number beside each timer of the wheel,
    /// count it up at each arm, and compare these. `before` sees all timers linked to the slot of
    /// the tick, cancelled ones among them. It must not change any timer. If it throws, the program
    /// ends. A tick is sorted once, before its first timer fires and whatever the budget: n timers
    /// cost n log n comparisons. The rest of the tick is sorted again if a callback calls `drain`
    /// and its visitor throws. Programs that do not call this pay nothing. At most 2^29-1 timers
    /// may be on one tick.
    template <class F>
    progress advance_in_order(tick_count until, F&& before, std::size_t budget = unlimited) {
        if (skip_to(until)) return {0, true};
        static_assert(std::is_invocable_r_v<bool, F&, timer&, timer&>,
                      "the order is a function of two tvec::timer&: is one before the other?");
        return run_in_order(until, budget, before);
    }

    // --- look ahead -----------------------------------------------------------------------------

    /// The next tick for which `advance` must be called: sleep until then. Never before now(),
    /// never after the first expiry, and now() itself while something due is left over. Empty when
    /// nothing hangs in the wheel but what is armed for `never`. A timer that was cancelled or
    /// destroyed may leave such a tick behind until it has come: this is no way to ask whether
    /// anything is pending (any_pending() is).
    ///
    /// It may come before the first expiry. A lone timer costs at most one such tick for each level
    /// it sinks through. Beyond 2^33 ticks it costs one more each time the remaining delay is
    /// halved. A cancelled or destroyed timer costs at most one. A timer that was pushed back is
    /// found at the tick it was placed for, and goes on from there as if it were armed. So all
    /// push-backs between two visits together cost one such tick. A timer that is pushed back by a
    /// tick just before each of its ticks costs one every time. A slot of more than 64 timers costs
    /// one for each 64 of them. O(1).
    std::optional<jiffies> next_wakeup() noexcept;

    /// The tick of the first expiry, exactly. Reads every timer of some slots: for tests and tools.
    std::optional<jiffies> next_expiry() const noexcept;

    // --- all of them ----------------------------------------------------------------------------

    /// Returns whether any timer is pending, also one for `never`. No count is kept, because every
    /// arm and cancel would pay for it. This looks through the slots that may hold timers until it
    /// finds a pending one, past those that were cancelled and are not dropped yet.
    bool any_pending() const noexcept;

    /// How many timers are pending, those for `never` too. Counts them: O(slots + timers).
    std::size_t count_pending() const noexcept;

    /// Calls visit(timer&) for every pending timer, those for `never` too, in no particular order.
    /// `visit` returns nothing, or a bool: false ends the walk. It may cancel, unlink, move,
    /// destroy or arm the timer that it is shown. If it arms it, the timer may be shown once more.
    /// It may cancel any other timer, which is then not shown. It must not unlink, move, destroy or
    /// arm other timers, nor advance, drain or destroy the wheel. Exceptions of `visit` pass
    /// through. Returns whether the walk came to its end. O(slots + timers), or up to where it was
    /// ended.
    template <class F> bool for_each_pending(F visit);

    /// The same to look only: visit(const timer&) for every pending timer.
    template <class F> bool for_each_pending(F visit) const;

    /// Empties the wheel, and calls visit(timer&) for every timer that was pending in it, exactly
    /// once. The timer is not pending any more by then. `visit` may do anything to any timer. A
    /// timer that it cancels or destroys is not shown. A timer that it arms is armed, and not shown
    /// either. If it throws, the timers not shown yet are back in the wheel. As in a callback, the
    /// wheel can meanwhile be neither advanced ({0, false}) nor destroyed (std::terminate). Returns
    /// how many were shown. O(slots + timers).
    template <class F> std::size_t drain(F visit);

    /// Returns the counters of the wheel.
    const counters& count() const noexcept { return counters_; }

private:
    friend class detail::inspector;
    friend class detail::layout;
    friend class detail::census_taker;

    struct turn;  // one call of `advance`
    struct watched_turn;
    struct ordered_turn;

    using ordering = detail::function_ref<bool(timer&, timer&)>;
    using watcher = detail::function_ref<bool(const due_callback&)>;

    class evicted {  // what `drain` has taken out and not shown yet
    public:
        explicit evicted(timer_wheel& wheel) noexcept;
        ~evicted();
        evicted(const evicted&) = delete;
        evicted& operator=(const evicted&) = delete;
        timer* next() noexcept;

    private:
        timer* next_in(detail::chain& from) noexcept;

        timer_wheel& wheel_;
        bool was_running_;
        detail::link sentinel_ = detail::new_sentinel;
        detail::chain next_;  ///< what is due at the next tick or never, even if armed for the past
        detail::chain rest_;
    };

    static std::int64_t signed_of(jiffies tick) noexcept { return static_cast<std::int64_t>(tick); }
    bool due_by(const timer& t, jiffies tick) const noexcept {
        return t.pending() && t.expires() <= tick &&
               t.linked_in(detail::number_of(levels_.owner()));
    }
    bool arm_past(timer& t, jiffies expires) noexcept;
    void place(timer& t, jiffies at) noexcept;
    void place_anywhere(timer& t, jiffies at) noexcept;

    /// Makes `until` the current tick if nothing has to be done for that.
    bool skip_to(jiffies until) noexcept {
        assert(thread_.claim() && "advanced by a second thread");
        assert(agenda_.quiet() >= now_ && "quiet is never in the past");
        const bool is_quiet = until - now_ < agenda_.quiet() - now_;  // now_ <= until < quiet
        if (is_quiet) now_ = until;
        return is_quiet;
    }
    progress run(jiffies until, std::size_t budget);
    progress run_watched(jiffies until, std::size_t budget, watcher);
    progress run_in_order(jiffies until, std::size_t budget, ordering);
    template <class Turn, class... How> progress run_as(jiffies, std::size_t, const How&...);
    template <class Turn> bool run_ticks(Turn&);
    bool enter_slots(turn&) noexcept;
    template <class Turn> bool fire_due(Turn&);
    bool is_idle(const timer&) noexcept;
    bool cascade(unsigned s, std::size_t most, turn&) noexcept;
    bool empty_ahead(turn&) noexcept;
    bool empty_ahead(unsigned level, turn&) noexcept;
    bool settle(turn&) noexcept;

    jiffies next_in_root() noexcept;
    jiffies next_entry(unsigned level) noexcept;
    void look_ahead() noexcept;
    jiffies wakeup_while_running() noexcept;
    jiffies earliest_in(unsigned s, jiffies entry) const noexcept;

    // The line that every call reads.
    detail::wheel_number number_;
    bool running_ = false;
    std::uint16_t in_place_ = number_.in_place();  ///< of timers re-armed by one store
    jiffies now_;
    jiffies target_ = 0;  ///< where `advance` is going
    detail::agenda agenda_;
    detail::owner_thread thread_;
    jiffies sorted_ = never;  ///< the tick whose timers were last put in order
    counters counters_;
    detail::levels levels_;
};

// --- the hot half -------------------------------------------------------------------------------

/// Links `t`, to be visited by `at`. The agenda has to know the first timer of a slot, and each
/// chunk of more. One question finds these rare cases, and timers beyond the levels.
inline void timer_wheel::place(timer& t, jiffies at) noexcept {
    assert(now_ <= at && at <= never && "a timer is visited now or later");
    const unsigned log2 = detail::geometry::log2_of(at - now_);
    const unsigned s = detail::geometry::slot_by_log2(at, log2);
    if (levels_.at_most(s) % detail::geometry::chunk == 0) [[unlikely]]
        return place_anywhere(t, at);
    assert(levels_.occupied(s) && "a slot that counts timers has its bit set");
    levels_.push(s, detail::geometry::last_chain_by_log2(log2), t);
}

inline bool timer_wheel::arm_at(timer& t, tick_count expires) noexcept {
    assert(thread_.admits_caller() && "armed by another thread than the one that advances it");
    // Kept short: the fewer instructions, the more of these misses are under way at a time.
    if (signed_of(expires) <= signed_of(now_)) [[unlikely]]
        return arm_past(t, expires);
    TVEC_PROBE3(arm, this, &t, jiffies{expires});
    bool was_pending = false;
    if (t.linked()) {
        was_pending = !(t.expires_ & timer::idle_bit);
        const bool is_later = signed_of(expires) >= signed_of(t.expires());
        if (static_cast<int>(is_later) & static_cast<int>(t.linked_in(in_place_))) {  // one branch
            t.expires_ = expires;
            return was_pending;
        }
        t.link::unlink();
    }
    t.expires_ = expires;
    place(t, expires);
    return was_pending;
}

inline std::optional<jiffies> timer_wheel::next_wakeup() noexcept {
    const jiffies tick = running_ ? wakeup_while_running() : agenda_.wake();
    return tick == never ? std::nullopt : std::optional(tick);
}

template <class F> bool timer_wheel::for_each_pending(F visit) {
    static_assert(std::is_invocable_v<F&, timer&>, "the visitor is called with a tvec::timer&");
    return !levels_.any_of([&](detail::link& l) {
        return timer::of(l).pending() && !detail::goes_on(visit, timer::of(l));
    });
}

template <class F> bool timer_wheel::for_each_pending(F visit) const {
    static_assert(std::is_invocable_v<F&, const timer&>,
                  "the visitor is called with a const tvec::timer&, for the wheel is const");
    return !levels_.any_of([&](const detail::link& l) {
        return timer::of(l).pending() && !detail::goes_on(visit, timer::of(l));
    });
}

template <class F> std::size_t timer_wheel::drain(F visit) {
    std::size_t shown = 0;
    for (evicted rest(*this); timer* const t = rest.next(); ++shown) visit(*t);
    return shown;
}

}  // namespace tvec
