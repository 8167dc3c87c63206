/// \file
/// The wheel: arm, advance, look ahead. No clock, no allocation, no operating system.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "tvec/core/call.hpp"  // IWYU pragma: export
#include "tvec/core/detail/agenda.hpp"
#include "tvec/core/detail/export.hpp"
#include "tvec/core/detail/function_ref.hpp"
#include "tvec/core/detail/home_thread.hpp"
#include "tvec/core/detail/levels.hpp"
#include "tvec/core/detail/wants.hpp"
#include "tvec/core/detail/wheel_number.hpp"
#include "tvec/core/timer.hpp"

namespace tvec {

/// A cascading timer wheel: a root of 256 slots of one tick, and four levels of 64 slots, each
/// slot as wide as the whole level below it (see geometry.hpp).
///
/// The wheel has no clock: `advance` tells it the time. Its size is about 81 KB, or 11 KB in a
/// build for small wheels (docs/limits.md). Its contract:
///
///  - A timer armed for tick x fires when `advance` passes x, never before. Arming for now or the
///    past means the next tick. Every delay is legal, exact to 2^63-2 ticks, and saturates at
///    `never`.
///  - All of tick x runs before any of tick x+1, also when `advance` jumps. The order within a tick
///    depends only on the calls made, those of `advance` among them. It is not the order of arming:
///    `advance_in_order` fires in that order or any other.
///  - Determinism: the same calls fire the same timers in the same order, and a snapshot has the
///    same numbers, on every machine and with every compiler.
///  - Arming and cancelling are O(1), allocate nothing and cannot fail. Pushing a pending timer
///    back, cancelling it, and arming it again for later write one cache line: the timer's own.
///  - `advance` costs what it fires, moves and drops. Empty time costs nothing, except that a slot
///    whose timers were all destroyed or unlinked is passed over once, in up to 250 instructions.
///    If nothing was left over, `advance` by a tick without a visit takes up to 2000, or 7000 if it
///    looks above the root (-O3; a third more by -O2): it passes over at most 17 such slots of the
///    root, 6 of levels 1 and 2 each, and 3 of each level above. The next may be a wake-up in vain.
///    Slots above the root are emptied ahead at a rate, of 64 timers a tick or an even share of a
///    fuller slot: of each level, a call moves at most the rate for each tick since the wheel last
///    caught up, and at most the rate once in a loop that follows `next_wakeup`. No call pays for a
///    whole cascade unless it makes up for that many ticks. A tick visits its own slot of the root
///    whole, with the timers that were cancelled or pushed back in the 511 ticks before it.
///  - A budget bounds the visits of `advance`. The timers that are left stay due, can be cancelled,
///    and come first in the next call.
///  - `collect` takes the timers that are due instead of calling them, with the same promises: tick
///    by tick, within a budget, and no timer that was cancelled before its turn.
///  - `next_wakeup` is a lower bound of the first expiry.
///  - A cancelled timer never fires, even if it is due. Destroying a timer cancels it, moving it
///    keeps its place. Timer and wheel may be destroyed in either order.
///  - Callbacks may arm, cancel, move and destroy any timer, themselves included, and may throw:
///    the rest stays due. Arming for now cannot starve the loop. They must not destroy the wheel.
///
/// Its limits:
///
///  - The rate is above 64 timers a tick for a slot to which more than 64 timers for each of its
///    ticks were linked since the wheel last found it empty: an even share of them. A timer that
///    was destroyed or unlinked meanwhile still counts. Push-backs, cancels, and arming a cancelled
///    timer again for later link nothing.
///  - If a turn of the loop has a thousand ticks, a call may move a thousand times the rate. A loop
///    that spins takes ticks of which a turn has 96 at most, or a budget. It may also go no further
///    than `next_wakeup` in a turn, if few turns have a timer that is due (docs/ticks.md has
///    figures).
///  - The wheel belongs to the thread that first advances it. Nothing is locked. A debug build
///    asserts that no other thread arms timers on it or advances it. If threads use it in turn,
///    under a lock of the program's, call `share_by_lock`.
///  - Addresses have 48 bits without tags: Linux gives programs no others unless they ask for them.
///    A debug build asserts it. Programs with tagged addresses define `TVEC_TAGGED_ADDRESSES`.
///  - A timer that is linked in a wheel of one copy of the library must be unlinked before it is
///    armed on a wheel of another copy. A debug build says so. Wheels beyond 65 533 at a time are
///    slower.
class TVEC_API timer_wheel {
public:
    /// The budget of a call without a limit.
    static constexpr std::size_t unlimited = ~std::size_t{0};

    /// The result of `advance` and `collect`.
    struct progress {
        std::size_t fired;  ///< timers whose callbacks ran in this call, or that it took
        bool caught_up;     ///< false: something due by `until` is left: call again
    };

    /// The work of a wheel since it was made. Visits count it, and arming does not pay for it.
    struct counters {
        std::uint64_t fired = 0;           ///< callbacks run, and timers that `collect` took
        std::uint64_t moved = 0;           ///< timers placed again: sunk a level, or pushed back
        std::uint64_t dropped = 0;         ///< cancelled timers that a visit unlinked
        std::uint64_t clock_backward = 0;  ///< calls of `advance` for a tick before now()
    };

    /// Makes an empty wheel at tick 0. O(slots).
    timer_wheel() noexcept : timer_wheel(0) {}

    /// Makes an empty wheel at tick `now`, clamped to never-1. O(slots).
    explicit timer_wheel(tick_count now) noexcept;

    /// Unlinks all timers: they are not pending afterwards. O(timers). Requires that no callback of
    /// the wheel and no visitor of its timers is running. Otherwise a line on the standard error
    /// output says so, and the program ends (std::terminate).
    ~timer_wheel();

    /// Lets any thread use the wheel and its timers, one at a time: the program has a lock, and
    /// holds it around every call for the wheel, and around `cancel`, `unlink`, moves and
    /// destructors of its timers. docs/threads.md says when to prefer a mailbox. Call it before a
    /// second thread uses the wheel. It cannot be undone. Debug builds then no longer assert that
    /// one thread owns the wheel; ThreadSanitizer finds calls without the lock. Callbacks run under
    /// the lock: `collect` gets them out of it. A timer that is linked in another wheel is unlinked
    /// under the lock of that wheel before it is armed here. One store.
    void share_by_lock() noexcept { thread_.admit_all(); }
    /// Returns whether share_by_lock() was called.
    bool shared_by_lock() const noexcept { return thread_.admits_all(); }

    /// Returns the tick that was last run. Inside a callback, the tick being run.
    jiffies now() const noexcept { return now_; }

    /// Returns how many ticks the call of `advance` still has to go that is running, or that
    /// stopped on its budget or on an exception. Inside a callback: how late it is. 0 at rest.
    jiffies behind() const noexcept { return target_ > now_ ? target_ - now_ : 0; }

    // --- arm: each returns whether the timer was pending before ---------------------------------
    // A timer that is pending, here or on another wheel of this thread, is moved. If that wheel is
    // of another copy of the library, unlink the timer first: a debug build says so. Negative
    // ticks, delays and periods count as 0: in the past, at once, as often as possible.

    /// Arms `t` to fire when tick `expires` is run: on the next tick if that is now or past, and
    /// never if it is `never`. O(1). One store, if `t` is linked in this wheel and `expires` is not
    /// earlier than the tick it was last armed for.
    bool arm_at(timer& t, tick_count expires) noexcept;

    /// Arms each of `timers` for the same tick, in their order, as arm_at does. Returns the number
    /// that was pending before. For the timers that one turn of a loop pushes back: they are
    /// prefetched, which saves a fifth to half of the time of push-backs outside the caches.
    std::size_t arm_each_at(std::span<timer* const> timers, tick_count expires) noexcept {
        constexpr std::size_t ahead = 16;
        std::size_t pending = 0;
        for (std::size_t i = 0; i < timers.size(); ++i) {
            if (i + ahead < timers.size()) __builtin_prefetch(timers[i + ahead], 1);
            pending += arm_at(*timers[i], expires);
        }
        return pending;
    }

    /// Calls arm_at(t, now() + delay), saturating. A delay of 0 means the next tick.
    bool arm_after(timer& t, tick_count delay) noexcept {
        return arm_at(t, detail::later(now_, delay));
    }

    /// Calls arm_at(t, expires) if `t` is pending. Pushes back or pulls in a timer that may have
    /// fired or been cancelled meanwhile, without arming it again. (mod_timer_pending)
    bool arm_if_pending(timer& t, tick_count expires) noexcept {
        const bool was_pending = t.pending();
        if (was_pending) arm_at(t, expires);
        return was_pending;
    }

    /// Calls arm_at(t, expires) unless `t` is pending, for any tick and in any wheel: the first of
    /// several callers decides. (schedule_delayed_work)
    bool arm_unless_pending(timer& t, tick_count expires) noexcept {
        const bool was_pending = t.pending();
        if (!was_pending) arm_at(t, expires);
        return was_pending;
    }

    /// Calls arm_at(t, expires) unless `t` is pending in this wheel for that tick or an earlier
    /// one: of several deadlines for one timer the earliest wins. (timer_reduce)
    bool arm_if_earlier(timer& t, tick_count expires) noexcept {
        return due_by(t, expires) || arm_at(t, expires);
    }

    /// Arms `t` for the roundest tick in [earliest, latest], the one that most other windows share:
    /// timers meet on few ticks, and the loop wakes less often. A no-op if `t` is already pending
    /// for a tick of the window, also if it is due. If latest < earliest, earliest counts.
    bool arm_within(timer& t, tick_count earliest, tick_count latest) noexcept;

    /// Arms `t` a whole number of periods after the tick it was last armed for, on the first such
    /// tick after now() + behind(). A periodic timer keeps its phase however late it runs: after a
    /// late call the next one comes sooner than a period. A timer that is not due yet moves by a
    /// period. Returns how many ticks of its rhythm have passed without a call: 0 if none. A period
    /// of 0 counts as 1. To make up for every missed period instead, call
    /// arm_at(t, t.expires() + period).
    jiffies arm_next(timer& t, tick_count period) noexcept;

    // --- run ------------------------------------------------------------------------------------

    /// Makes `until` the current tick, and fires all timers that are due by then, tick by tick.
    ///
    /// Visits at most `budget` timers: those it fires, moves and drops. If the budget runs out,
    /// now() stays on the tick being run. The rest of that tick stays due, may be cancelled, and
    /// comes first in the next call. Emptying ahead comes last: timers due by `until` fire before
    /// it. But a slot has to be empty before its own ticks begin, and all timers wait for it. That
    /// makes them late if the budget is below a 256th of the timers in the fullest slot of level 1
    /// for each tick, or after a stall longer than slots were emptied ahead: by the calls that the
    /// rest takes. They are also late by the time that callbacks take. An `until` before now()
    /// counts as now(), and increments count().clock_backward. An `until` of `never` or more counts
    /// as never-1.
    ///
    /// A tick with nothing to do costs a compare and a store. A call from one of its own callbacks
    /// is a no-op, and returns {0, false}. An exception from a callback passes through. The timer
    /// that threw has fired, the rest stays due.
    progress advance(tick_count until, std::size_t budget = unlimited) {
        if (skip_to(until)) [[likely]]
            return {0, true};
        return run(jiffies{until}, budget);
    }

    /// Advances, and calls take(timer&) in place of the callback of each timer that is due: for
    /// callbacks to run outside of a lock, in another thread or process, or all in one batch.
    ///
    ///     wheel.collect(tick, batch.size(), [&](tvec::timer& t) {
    ///         batch[n++] = &tvec::owner_of<&connection::idle>(t);
    ///     });
    ///
    /// What `advance` promises of timers that fire is promised of those that are taken: tick by
    /// tick, and at most `budget` of them, because moves count as well. A timer that is cancelled
    /// before its turn is not taken. A taken one is not pending, and the wheel does not touch it
    /// again: `take` may arm it, destroy it, keep it, and do anything else that a callback may.
    /// `take` returns nothing, or a bool: false ends the call after this timer, as if the budget
    /// had run out. If it throws, this timer was taken, and the rest stays due. Callbacks are not
    /// used. Costs a call through a pointer per timer.
    template <class F> progress collect(tick_count until, std::size_t budget, F&& take) {
        if (skip_to(until)) return {0, true};
        static_assert(std::is_invocable_v<F&, timer&>, "`take` is called with a tvec::timer&");
        const auto go_on = [&take](timer& t) { return detail::goes_on(take, t); };
        return run_taking(until, budget, go_on);
    }

    /// A callback that is about to run, as `advance_watched` passes it.
    class due_callback {
    public:
        /// Runs the callback. To be called once. Afterwards its timer may be gone.
        void operator()() const { timer_.fire_(wheel_, timer_); }

    private:
        friend class timer_wheel;
        due_callback(timer_wheel& wheel, timer& t) noexcept : wheel_(wheel), timer_(t) {}

        timer_wheel& wheel_;
        timer& timer_;
    };

    /// Advances with `watch` around each callback. A program with a clock measures callbacks with
    /// it, or bounds their time. watch(const due_callback& fire) calls fire() once, and returns
    /// nothing, or a bool: false ends the call there, as if the budget had run out. The rest stays
    /// due, and comes first in the next call. A call with something to fire fires at least one
    /// timer, if its budget suffices. Exceptions of `watch` pass through, as those of callbacks do.
    /// Costs a call through a pointer per callback. A plain `advance` costs nothing more.
    template <class F>
    progress advance_watched(tick_count until, F&& watch, std::size_t budget = unlimited) {
        if (skip_to(until)) return {0, true};
        static_assert(std::is_invocable_v<F&, const due_callback&>,
                      "the watch is called with a const tvec::timer_wheel::due_callback&");
        const auto take = [&](timer& t) {
            const due_callback fire(*this, t);
            return detail::goes_on(watch, fire);
        };
        return run_taking(until, budget, take);
    }

    /// Advances with the timers of each tick in the order of before(timer&, timer&). Timers that
    /// compare equal keep the order of `advance`.
    ///
    /// For the order of arming, as libuv has it, keep a number beside each timer of the wheel,
    /// count it up at each arm, and compare these numbers. `before` sees all timers linked for the
    /// tick, cancelled ones included. It must not change any timer, and an exception from it ends
    /// the program. A tick is sorted once, before its first timer fires and whatever the budget: n
    /// timers on a tick cost n log n comparisons. The rest of the tick is sorted again if a
    /// callback calls `drain` and its visitor throws. Programs that do not call this pay nothing.
    /// Requires fewer than 2^29 timers on a tick.
    template <class F>
    progress advance_in_order(tick_count until, F&& before, std::size_t budget = unlimited) {
        if (skip_to(until)) return {0, true};
        static_assert(std::is_invocable_r_v<bool, F&, timer&, timer&>,
                      "the order is a function of two tvec::timer&: is one before the other?");
        const auto fire = [this](timer& t) { return t.fire_(*this, t), true; };
        const ordering by(before);
        return run_taking(until, budget, fire, &by);
    }

    /// Moves up to `most` timers that a call of `advance` would have to move soon, those of the
    /// next slot of level 1, while the loop has nothing else to do: busy turns become shorter.
    /// Returns how many it has visited, and 0 if there is nothing left to move, if something due is
    /// left over, or in a callback. Fires nothing, and never makes next_wakeup() earlier.
    ///
    ///     int n = poll(watched, size, 0);  // if something has come, it costs nothing
    ///     if (n == 0 && timers.wheel().move_ahead(64) == 0)
    ///         n = poll(watched, size, timers.wait_ms());
    ///
    /// Drivers and guests do not call it, because they would have to ask the kernel first whether
    /// the loop is idle. A timer that is cancelled or pushed back after its move is visited once
    /// more. O(most).
    std::size_t move_ahead(std::size_t most) noexcept;

    // --- look ahead -----------------------------------------------------------------------------

    /// Returns the next tick for which `advance` must be called: sleep until then. It is never
    /// before now() and never after the first expiry. It equals now() while something due is left
    /// over. Empty if no timer is linked except for `never`. A cancelled or destroyed timer may
    /// leave a wake-up behind until it has come: to ask whether anything is pending, call
    /// any_pending(). O(1). In a callback it also passes over up to 17 of the next slots whose
    /// timers were all destroyed or unlinked, each of them once.
    ///
    /// The wake-up may come before the first expiry. A lone timer costs at most one such wake-up
    /// for each level it sinks through, and beyond 2^33 ticks one more for each halving of the
    /// remaining time. It costs none for a level where its slot is the next one, and has eight
    /// timers at most, when `advance` is called. A cancelled or destroyed timer costs at most one
    /// more. A timer that was pushed back is visited at the tick it was placed for, and goes on
    /// from there as if it were armed then. All push-backs between two visits together cost one
    /// more wake-up. A timer that is pushed back by a tick just before each of its ticks costs one
    /// every time. A slot of more than 64 timers costs one for each 64 of them.
    std::optional<jiffies> next_wakeup() noexcept;

    /// Calls tell(whom) whenever next_wakeup() moves to an earlier tick outside of `advance`: for a
    /// loop that is not its author's, and asks for the wake-up once, and not before each sleep. It
    /// moves when a timer is armed, also by a visitor, when a `drain` that throws puts timers back,
    /// and when a snapshot is restored. Nothing else tells: no push-back, and no timer armed for
    /// later than the next wake-up. `advance` and `drain` may tell more often. Ask for the wake-up
    /// after `advance`, in which it may move either way, and after a `drain` whose visitor has
    /// asked for it. `tell` runs inside the call that moves the wake-up. It must not arm timers,
    /// advance or destroy the wheel, or throw. One at a time: another call replaces it, and null
    /// ends it. Costs nothing where a timer joins others.
    void on_earlier_wakeup(void (*tell)(void* whom) noexcept, void* whom) noexcept {
        levels_.set_listener(tell, whom);
    }

    /// Returns the exact tick of the first expiry. Reads every timer of some slots: for tests and
    /// tools.
    std::optional<jiffies> next_expiry() const noexcept;

    // --- all of them ----------------------------------------------------------------------------

    /// Returns whether any timer is pending, also for `never`: whether there is anything to wait
    /// for, or anything that a test has left behind. No count is kept, because every arm and cancel
    /// would pay for it. The call looks through the occupied slots until it finds a pending timer:
    /// the first one, or the first after all idle timers that were not dropped yet.
    bool any_pending() const noexcept;

    /// Returns how many timers are pending, those for `never` included. Counts them: O(slots +
    /// timers).
    std::size_t count_pending() const noexcept;

    /// Calls visit(timer&) for every pending timer, those for `never` included, in unspecified
    /// order. `visit` returns nothing, or a bool: false ends the walk. It may do anything to any
    /// timer: cancel, unlink, move, destroy or arm the one that it is given, and others. Timers
    /// that it cancels, unlinks or destroys are not visited any more, unless it arms them again.
    ///
    /// A timer that it pushes back stays in its place, and is visited exactly once, as all others
    /// are that it does not arm. A timer that it arms otherwise is linked anew: for an earlier
    /// tick, after unlinking, or back from another wheel. It is visited each time that the walk
    /// comes to its place: not at all, once, or hundreds of times if each visit arms it so. The
    /// walk ends all the same. To see each timer once whatever is armed, call `drain`, and let its
    /// visitor arm them again.
    ///
    /// `visit` may walk over the wheel again. If it drains the wheel, the walk comes to its end.
    /// Meanwhile, as in a callback, the wheel can be neither advanced ({0, false}) nor destroyed
    /// (std::terminate). Exceptions pass through, and end the walk. Returns false if `visit` has
    /// ended it. Writes to each timer that it visits. O(slots + timers), up to its end.
    template <class F> bool for_each_pending(F visit);

    /// Calls visit(const timer&) for every pending timer in the same way, to look only: `visit` may
    /// cancel timers, and must change no timer and no wheel otherwise. Writes nothing.
    template <class F> bool for_each_pending(F visit) const;

    /// Empties the wheel, and calls visit(timer&) exactly once for every timer that was pending in
    /// it. The timer is not pending any more then. `visit` may do anything to any timer. Timers
    /// that it cancels or destroys are not visited. Timers that it arms are armed, and not visited
    /// either. If it throws, the timers not visited yet return to the wheel. Meanwhile, as in a
    /// callback, the wheel can be neither advanced ({0, false}) nor destroyed (std::terminate).
    /// Returns how many timers were visited. O(slots + timers).
    template <class F> std::size_t drain(F visit);

    /// Returns what the wheel has done so far.
    const counters& count() const noexcept { return counters_; }

    // --- wrong calls, and what to write instead -------------------------------------------------

    void arm(const auto&...) const TVEC_WANTS("arm_after(t, 30), or arm_at(t, tick)");
    void schedule(const auto&...) const TVEC_WANTS("arm_after(t, 30); functions: timeout_pool");
    void cancel(const auto&...) const TVEC_WANTS("the timer itself: t.cancel()");
    void run(const auto&...) const TVEC_WANTS("advance(tick, budget), or a tvec::clocked_wheel");
    void empty() const TVEC_WANTS("any_pending(), or count_pending()");
    timer_wheel(const timer_wheel&) TVEC_WANTS("a reference: a wheel stays where it is");
    timer_wheel& operator=(const timer_wheel&) TVEC_WANTS("a reference: a wheel stays where it is");

private:
    friend class detail::inspector;
    friend class detail::layout;
    friend class detail::census_taker;
    friend struct detail::own_wheel;
    friend class snapshot;

    struct advance_call;  // one call of `advance`
    struct taking_call;   // one of the others

    using ordering = detail::function_ref<bool(timer&, timer&)>;
    using taker = detail::function_ref<bool(timer&)>;  // returns whether to go on

    enum class activity : unsigned char { none, walk, run };

    class walk {  // the position of a `for_each_pending` that is under way
    public:
        explicit walk(timer_wheel& wheel) noexcept;
        ~walk();
        walk(const walk&) = delete;
        walk& operator=(const walk&) = delete;
        timer* next() noexcept;

    private:
        timer* next_in_chain() noexcept;

        timer_wheel& wheel_;
        activity before_;
        timer marker_;  ///< idle: whoever meets it passes over it
        detail::levels::position at_;
        unsigned chain_ = 0;
    };

    class evicted {  // the timers that `drain` has taken out and not visited yet
    public:
        explicit evicted(timer_wheel& wheel) noexcept;
        ~evicted();
        evicted(const evicted&) = delete;
        evicted& operator=(const evicted&) = delete;
        timer* next() noexcept;

    private:
        timer* next_in(detail::chain& from) noexcept;

        timer_wheel& wheel_;
        activity before_;
        detail::link sentinel_ = detail::new_sentinel;
        detail::chain next_;  ///< due at the next tick, even if armed for the past; or never
        detail::chain rest_;
    };

    static std::int64_t signed_of(jiffies tick) noexcept { return static_cast<std::int64_t>(tick); }
    void go_back_to(activity before, jiffies wake) noexcept;
    /// Returns whether a timer is linked in this wheel. False, too, if wheels share its number.
    bool surely_here(const timer& t) const noexcept {
        const bool is_here = t.linked_in(in_place_);
        if (is_here) t.expect_end_of_chain(levels_.sentinel());
        return is_here;
    }
    /// Returns whether a timer is linked in this wheel, or in one that shares its number.
    bool maybe_here(const timer& t) const noexcept {
        return t.linked_in(detail::number_of(levels_.tag()));
    }
    bool due_by(const timer& t, jiffies tick) const noexcept {
        return t.pending() && t.expires() <= tick && maybe_here(t);
    }
    bool arm_past(timer& t, jiffies expires) noexcept;
    void place(timer& t, jiffies at) noexcept;
    void place_anywhere(timer& t, jiffies at) noexcept;

    /// Makes `until` the current tick if there is nothing to do until then. Returns whether it did.
    bool skip_to(jiffies until) noexcept {
        thread_.adopt_caller();
        assert(thread_.admits_caller() && "advanced by a second thread");
        assert(agenda_.quiet() >= now_ && "quiet is never in the past");
        const bool is_quiet = until - now_ < agenda_.quiet() - now_;  // now_ <= until < quiet
        if (is_quiet) now_ = until;
        return is_quiet;
    }
    progress run(jiffies until, std::size_t budget);
    progress run_taking(jiffies until, std::size_t budget, taker, const ordering* by = nullptr);
    template <class Call, class... How> progress run_as(jiffies, std::size_t, const How&...);
    template <class Call> bool run_ticks(Call&);
    bool enter_slots(advance_call&) noexcept;
    template <class Call> bool fire_due(Call&);
    bool count_early_visit(const timer&) noexcept;
    bool cascade(unsigned s, std::size_t most, advance_call&) noexcept;
    bool empty_ahead(advance_call&) noexcept;
    bool empty_ahead(unsigned level, advance_call&) noexcept;

    jiffies next_in_root() noexcept;
    jiffies next_entry(unsigned level) noexcept;
    void look_ahead(unsigned highest) noexcept;
    template <unsigned Highest> void look_ahead_up_to() noexcept;
    bool note_next_of(unsigned level) noexcept;
    bool is_visit_needed_above(unsigned below) noexcept;
    jiffies wakeup_while_running() noexcept;
    jiffies earliest_in(unsigned s, jiffies entry) const noexcept;

    // The line that every call reads.
    detail::wheel_number number_;
    activity busy_ = activity::none;
    std::uint16_t in_place_ = number_.in_place();  ///< of the timers that one store re-arms
    jiffies now_;
    jiffies target_ = 0;  ///< the tick that `advance` is to reach
    detail::agenda agenda_;
    detail::home_thread thread_;
    jiffies sorted_ = never;  ///< the tick with the timers that were last sorted
    counters counters_;
    detail::levels levels_;
};

/// For assertions of calls that get a timer and its wheel.
struct detail::own_wheel {
    /// Returns false if a timer is linked in another wheel. True, too, if wheels share their
    /// number.
    static bool admits(const timer_wheel& wheel, const timer& t) noexcept {
        return !t.linked() || wheel.maybe_here(t);
    }
};

// --- the hot half -------------------------------------------------------------------------------

/// Links `t`, to be visited by `at`. The agenda has to note the first timer of a slot, and each
/// further chunk. One comparison finds these rare cases, and deadlines beyond the levels.
inline void timer_wheel::place(timer& t, jiffies at) noexcept {
    assert(now_ <= at && at <= never && "a timer is visited now or later");
    const unsigned s = detail::geometry::slot_for(at, now_);
    if (levels_.at_most(s) % detail::geometry::chunk == 0) [[unlikely]]
        return place_anywhere(t, at);
    assert(levels_.occupied(s) && "a slot that counts timers has its bit set");
    levels_.push(s, t);
}

inline bool timer_wheel::arm_at(timer& t, tick_count expires) noexcept {
    assert(thread_.admits_caller() && "armed by another thread than the one that advances it");
    // Kept short: with fewer instructions more cache misses are in flight at a time.
    if (signed_of(expires) <= signed_of(now_)) [[unlikely]]
        return arm_past(t, expires);
    TVEC_PROBE3(arm, this, &t, jiffies{expires});
    bool was_pending = false;
    if (t.linked()) {
        was_pending = !(t.expires_ & timer::idle_bit);
        const bool is_later = signed_of(expires) >= signed_of(t.expires());
        if (static_cast<int>(is_later) & static_cast<int>(surely_here(t))) {  // one branch
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
    const jiffies tick = busy_ == activity::run ? wakeup_while_running() : agenda_.wake();
    return tick == never ? std::nullopt : std::optional(tick);
}

template <class F> bool timer_wheel::for_each_pending(F visit) {
    static_assert(std::is_invocable_v<F&, timer&>, "the visitor is called with a tvec::timer&");
    for (walk under_way(*this); timer* const t = under_way.next();)
        if (!detail::goes_on(visit, *t)) return false;
    return true;
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
