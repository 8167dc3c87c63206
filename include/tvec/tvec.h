/// \file
/// The timer wheel for programs in C: C11, and valid C++. For gcc and clang.
///
///     struct connection { struct tvec_timer idle; ... };
///
///     static void on_idle(struct tvec_wheel *wheel, struct tvec_timer *timer)
///     {
///         close_it(TVEC_OWNER_OF(timer, struct connection, idle));
///     }
///
///     tvec_timer_init(&c->idle, on_idle);
///     tvec_arm_at(&wheel, &c->idle, tvec_clock_after(&clock, 30 * second));
///
/// It is the wheel of timer_wheel.hpp, with the same promises and limits. One thread owns a wheel
/// and its timers (or tvec_wheel_share_by_lock), and nothing is locked. Times are ticks, or
/// nanoseconds where a function says so. Functions that can fail return a negative errno value.
/// Pointers must not be null. A callback must return: neither longjmp nor a C++ exception may leave
/// it.
///
/// The hot functions are inline, over a layout that the library asserts when it is compiled.
/// Compiled without NDEBUG, they assert their preconditions. docs/c.md is the introduction.
#ifndef TVEC_TVEC_H
#define TVEC_TVEC_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef DOXYGEN
#ifdef __cplusplus
#define TVEC_ALIGNAS_ alignas
#define TVEC_CAST_(type, value) (static_cast<type>(value))
#define TVEC_AT_ADDRESS_(type, address) /* NOLINTNEXTLINE(bugprone-macro-parentheses): a type */   \
    (static_cast<type*>(static_cast<void*>(address)))
extern "C" {
#else
#define TVEC_ALIGNAS_ _Alignas
#define TVEC_CAST_(type, value) ((type)(value))
#define TVEC_AT_ADDRESS_(type, address) ((type*)(void*)(address))
#endif
#if defined TVEC_TAGGED_ADDRESSES || defined TVEC_TINY_WHEEL /* docs/limits.md */
#define TVEC_NUMBER_ uint8_t
#else
#define TVEC_NUMBER_ uint16_t
#endif
#ifdef TVEC_SMALL_WHEEL                       /* docs/limits.md */
#define tvec_wheel_init tvec_wheel_init_small /* a library of large wheels has no such function */
#define tvec_wheel_new tvec_wheel_new_small
#define tvec_loop_init tvec_loop_init_small
#define tvec_loop_uring_init tvec_loop_uring_init_small
#elif defined TVEC_TINY_WHEEL
#define tvec_wheel_init tvec_wheel_init_tiny
#define tvec_wheel_new tvec_wheel_new_tiny
#define tvec_loop_init tvec_loop_init_tiny
#define tvec_loop_uring_init tvec_loop_uring_init_tiny
#endif
#define TVEC_C_API __attribute__((visibility("default")))
#ifndef TVEC_INLINE /* the library defines it, and so has them as functions */
#define TVEC_INLINE inline
#endif
#endif

/// The tick that never comes: a timer armed for it never fires. Larger arguments are clamped to it.
/// As a return value it means "none". A delay may be as long: sums saturate at it.
#define TVEC_NEVER (UINT64_MAX >> 1)

/// A budget of `tvec_advance` without a limit.
#define TVEC_UNLIMITED SIZE_MAX

/// The size of a `struct tvec_wheel`, and the alignment of its address: for bindings that allocate
/// memory by numbers. About 81 KB, 43 KB with pointers of 32 bits. 11 KB and 8 KB in a build for
/// small wheels, 3.3 KB and 2.3 KB in one for tiny wheels.
/// @{
#ifdef TVEC_SMALL_WHEEL
#define TVEC_WHEEL_SIZE ((3904 + 869 * sizeof(void*) + 63) / 64 * 64)
#elif defined TVEC_TINY_WHEEL
#define TVEC_WHEEL_SIZE ((1364 + 242 * sizeof(void*) + 63) / 64 * 64)
#else
#define TVEC_WHEEL_SIZE ((5248 + 9480 * sizeof(void*) + 63) / 64 * 64)
#endif
#define TVEC_WHEEL_ALIGNMENT 64
/// @}

struct tvec_timer;
struct tvec_wheel;

/// The type of callbacks. Called once when a timer fires, with the wheel on which it was armed. The
/// timer is no longer pending then, and the wheel does not touch it any more: the callback may arm
/// it again, free it, and do the same to any other timer. It must not destroy the wheel.
typedef void (*tvec_callback)(struct tvec_wheel* wheel, struct tvec_timer* timer);

/// One pending call, a member of the object that it belongs to. 32 bytes with pointers of 64 bits.
///
/// All members but `fire` are private. `fire` may be set at any time. A timer must not be copied,
/// nor its memory freed or overwritten, while it is linked in a wheel: `tvec_unlink` it first.
/// Zeroed bytes are a timer that is not pending, and may be cancelled. Before it is armed it needs
/// a callback (`fire`, or tvec_timer_init).
struct __attribute__((may_alias)) tvec_timer {
    struct tvec_timer* next;  ///< the next timer of the slot
    uint64_t back;            ///< the pointer to this timer, and the wheel's number; 0: in no wheel
    uint64_t expires;         ///< the deadline; the top bit: cancelled
    tvec_callback fire;       ///< the callback; not null when the timer fires
};

/// Initializes a timer that calls `callback`, in a definition:
///
///     static struct tvec_timer beat = TVEC_TIMER_INIT(on_beat);
#define TVEC_TIMER_INIT(callback)                                                                  \
    { NULL, 0, 0, (callback) }

/// The object whose member `member` is the timer that `timer` points to, as a `type *`. The
/// kernel's container_of.
#define TVEC_OWNER_OF(timer, type, member)                                                         \
    TVEC_AT_ADDRESS_(type, TVEC_AT_ADDRESS_(char, timer) - offsetof(type, member))

/// A timer wheel: a root of 256 slots of one tick, and four levels of 64 slots, each slot as wide
/// as the whole level below it; a tiny wheel has three levels of 32 slots. It stays where the
/// program put it: it must be neither copied nor moved. Its members are private.
struct __attribute__((may_alias)) tvec_wheel {
    TVEC_ALIGNAS_(TVEC_WHEEL_ALIGNMENT) uint16_t number;  ///< number of this wheel in the process
    bool running;                                         ///< a callback runs
    uint16_t in_place;                         ///< its number in timers that one store re-arms
    uint64_t now;                              ///< the tick that was run last
    unsigned char rest[TVEC_WHEEL_SIZE - 16];  ///< levels, slots, counters
};

/// The result of `tvec_advance` and `tvec_collect`.
struct tvec_progress {
    size_t fired;    ///< timers whose callbacks ran in this call, or that it took
    bool caught_up;  ///< false: something due by then is left; call again
};

/// Counters of a wheel since it was made.
struct tvec_counters {
    uint64_t fired;           ///< callbacks run, and timers that `tvec_collect` took
    uint64_t moved;           ///< timers placed again: sunk a level, or pushed back
    uint64_t dropped;         ///< cancelled timers that a visit unlinked
    uint64_t clock_backward;  ///< calls of `tvec_advance` for a tick before tvec_now
};

/* --- a timer ---------------------------------------------------------------------------------- */

/// Makes a timer of these bytes, whatever they were. It is not pending and calls `callback`. Must
/// not be called for a timer that is linked in a wheel: `tvec_unlink` it before, or set `fire`.
TVEC_C_API TVEC_INLINE void tvec_timer_init(struct tvec_timer* timer, tvec_callback callback) {
    assert(timer && "a timer");
    timer->next = NULL;
    timer->back = 0;
    timer->expires = 0;
    timer->fire = callback;
}

/// Returns whether the timer is armed, and has neither fired nor been cancelled since.
TVEC_C_API TVEC_INLINE bool tvec_pending(const struct tvec_timer* timer) {
    assert(timer && "a timer");
    return timer->back != 0 && timer->expires <= TVEC_NEVER;
}

/// Returns the tick for which the timer was last armed, even after it has fired or been cancelled,
/// and inside its callback. If that tick had passed, it is the requested tick. Returns 0 if the
/// timer was never armed.
TVEC_C_API TVEC_INLINE uint64_t tvec_expires(const struct tvec_timer* timer) {
    assert(timer && "a timer");
    return timer->expires & TVEC_NEVER;
}

/// Cancels. Returns whether the timer was pending: whether it was going to fire. Afterwards it will
/// not, even if it was already due. One store to the timer's own line. Needs no wheel, which may be
/// gone. The timer may stay linked in the wheel until the wheel visits it, so its memory must not
/// be freed or overwritten yet: use tvec_unlink for that. A libtvec-c with assertions names such a
/// timer, in one line on the standard error output, and aborts.
TVEC_C_API TVEC_INLINE bool tvec_cancel(struct tvec_timer* timer) {
    const bool was_pending = tvec_pending(timer);
    timer->expires |= ~TVEC_NEVER;
    return was_pending;
}

/// Cancels, and unlinks the timer now. Afterwards nothing refers to its bytes: they may be
/// overwritten, freed or given to another thread. Call it before the memory of a timer that was
/// ever armed ends. Returns what `tvec_cancel` returns. May be called for any timer, even for one
/// that was cancelled, has fired or was never armed, and after its wheel is gone, but on the thread
/// of its wheel. O(1). It writes the neighbours in the slot: `tvec_cancel` is cheaper for a timer
/// that is kept.
///
/// To call a callback in this turn of a loop, and not at the next tick, unlink the timer and call
/// it:
///
///     if (tvec_unlink(&c->idle)) c->idle.fire(&wheel, &c->idle);
TVEC_C_API bool tvec_unlink(struct tvec_timer* timer);

/// Makes a timer of the bytes at `to`, whatever they were. It takes over the place of `from` in
/// its wheel, its deadline and its callback. `from` is left not pending, and its memory may end.
/// For objects that move, as in a table that grows: move to new memory first, since both must
/// exist. `to` must not be linked in a wheel, nor be `from`. O(1). The wheel is not involved.
TVEC_C_API void tvec_move(struct tvec_timer* to, struct tvec_timer* from);

/* --- a wheel ---------------------------------------------------------------------------------- */

/// Makes an empty wheel of these bytes, whatever they were. Its time is `now`, at most TVEC_NEVER -
/// 1. Requires the alignment TVEC_WHEEL_ALIGNMENT. O(slots).
TVEC_C_API void tvec_wheel_init(struct tvec_wheel* wheel, uint64_t now);

/// Ends a wheel of tvec_wheel_init. Its memory belongs to the caller. Its timers are left not
/// pending. O(timers). Must not be called from one of its own callbacks, nor from a visitor of its
/// timers: that is reported on the standard error output, in one line, and ends the program
/// (abort).
TVEC_C_API void tvec_wheel_destroy(struct tvec_wheel* wheel);

/// Returns a wheel in memory of its own (aligned_alloc), as tvec_wheel_init makes it, or NULL.
TVEC_C_API struct tvec_wheel* tvec_wheel_new(uint64_t now);

/// Ends a wheel of tvec_wheel_new as tvec_wheel_destroy does, and frees its memory. Does nothing
/// for NULL.
TVEC_C_API void tvec_wheel_free(struct tvec_wheel* wheel);

/// Lets any thread use the wheel and its timers, one at a time: the program has a lock, and holds
/// it around every call for the wheel or for a timer that is linked in it, `tvec_cancel` among
/// them. docs/threads.md says when to prefer another way. Call it before a second thread uses the
/// wheel. It cannot be undone. A libtvec-c with assertions then no longer asserts that one thread
/// owns the wheel. Callbacks run under the lock: `tvec_collect` gets them out of it. A timer that
/// is linked in another wheel is unlinked under the lock of that wheel before it is armed here.
TVEC_C_API void tvec_wheel_share_by_lock(struct tvec_wheel* wheel);

/// Returns the tick that was run last; inside a callback, the tick that is being run.
TVEC_C_API TVEC_INLINE uint64_t tvec_now(const struct tvec_wheel* wheel) {
    assert(wheel && "a wheel");
    return wheel->now;
}

/// Returns the ticks that the current call of `tvec_advance`, or one that stopped on its budget,
/// still has to go. Inside a callback: how late it is. 0 at rest.
TVEC_C_API uint64_t tvec_behind(const struct tvec_wheel* wheel);

/* --- arm: each returns whether the timer was pending before ---------------------------------- */
/* A timer that is pending, here or on another wheel of this thread, is moved. */

/// Called by tvec_arm_at for a timer that is linked in no wheel. Requires that.
TVEC_C_API void tvec_arm_unlinked(struct tvec_wheel* wheel, struct tvec_timer* timer,
                                  uint64_t expires);

/// Called by tvec_arm_at if one store is not enough. Does the same for any timer.
TVEC_C_API bool tvec_arm_by_linking(struct tvec_wheel* wheel, struct tvec_timer* timer,
                                    uint64_t expires);

/// Arms `timer` for tick `expires`, or for the next tick if `expires` is now or past. A timer armed
/// for TVEC_NEVER or more never fires. O(1). If it is linked in this wheel, and `expires` is not
/// earlier than the tick for which it was last armed, this is one store, and no call.
TVEC_C_API TVEC_INLINE bool tvec_arm_at(struct tvec_wheel* wheel, struct tvec_timer* timer,
                                        uint64_t expires) {
    assert(wheel && "a wheel");
    assert(timer && "a timer");
    if (timer->back == 0) {
        tvec_arm_unlinked(wheel, timer, expires);
        return false;
    }
    const bool is_linked_here = TVEC_CAST_(TVEC_NUMBER_, timer->back >> 48) == wheel->in_place;
    /* Signed, so that what is more than TVEC_NEVER is not later either. */
    if (is_linked_here && TVEC_CAST_(int64_t, expires) > TVEC_CAST_(int64_t, wheel->now) &&
        expires >= tvec_expires(timer)) {
        const bool was_pending = timer->expires <= TVEC_NEVER;
        timer->expires = expires;
        return was_pending;
    }
    return tvec_arm_by_linking(wheel, timer, expires);
}

/// Arms `timer` for now + delay, saturating. A delay of 0 means the next tick.
TVEC_C_API TVEC_INLINE bool tvec_arm_after(struct tvec_wheel* wheel, struct tvec_timer* timer,
                                           uint64_t delay) {
    assert(wheel && wheel->now < TVEC_NEVER && "a wheel, as tvec_wheel_init made it");
    const bool ends = delay < TVEC_NEVER - wheel->now;
    return tvec_arm_at(wheel, timer, ends ? wheel->now + delay : TVEC_NEVER);
}

/// Arms `timer` if it is pending, and does nothing otherwise. Moves a deadline of a timer that may
/// have fired or been cancelled meanwhile, and never arms it again. (mod_timer_pending)
TVEC_C_API TVEC_INLINE bool tvec_arm_if_pending(struct tvec_wheel* wheel, struct tvec_timer* timer,
                                                uint64_t expires) {
    const bool was_pending = tvec_pending(timer);
    if (was_pending) tvec_arm_at(wheel, timer, expires);
    return was_pending;
}

/// Arms `timer` unless it is pending, for any tick and in any wheel: the first of several requests
/// decides. (schedule_delayed_work)
TVEC_C_API TVEC_INLINE bool tvec_arm_unless_pending(struct tvec_wheel* wheel,
                                                    struct tvec_timer* timer, uint64_t expires) {
    const bool was_pending = tvec_pending(timer);
    if (!was_pending) tvec_arm_at(wheel, timer, expires);
    return was_pending;
}

/// Arms `timer` unless it is pending in this wheel for that tick or an earlier one: the earliest of
/// several deadlines for one timer. (timer_reduce)
TVEC_C_API bool tvec_arm_if_earlier(struct tvec_wheel* wheel, struct tvec_timer* timer,
                                    uint64_t expires);

/// Arms `timer` for a tick in [earliest, latest]: the roundest tick of that window, which most
/// other windows share. Timers then fire together, and there are fewer wake-ups. Does nothing if
/// `timer` is already pending for a tick of the window. If latest < earliest, earliest counts.
TVEC_C_API bool tvec_arm_within(struct tvec_wheel* wheel, struct tvec_timer* timer,
                                uint64_t earliest, uint64_t latest);

/// Arms `timer` a whole number of periods after the tick for which it was last armed: the first
/// such tick after tvec_now + tvec_behind. A periodic timer keeps its phase, however late it runs.
/// After a late call the next call therefore comes sooner than a period. A timer that is not due
/// yet moves by a period. Returns how many ticks of its rhythm have passed without a call, 0 if
/// none, and not whether the timer was pending. A period of 0 counts as 1.
TVEC_C_API uint64_t tvec_arm_next(struct tvec_wheel* wheel, struct tvec_timer* timer,
                                  uint64_t period);

/* --- run -------------------------------------------------------------------------------------- */

/// Makes `until` the current tick, and fires all timers that are due by then, tick by tick. Within
/// a tick the order depends only on the calls made, including those of `tvec_advance`. It is not
/// the order of arming.
///
/// Visits at most `budget` timers: those that it fires, moves and drops. If that is not enough,
/// tvec_now stays on the tick being run. The rest of that tick stays due, may be cancelled, and
/// comes first in the next call. Emptying slots ahead of time comes last. An `until` before
/// tvec_now counts as tvec_now (and in clock_backward), and one of TVEC_NEVER or more as TVEC_NEVER
/// - 1.
///
/// Costs what it fires, moves and drops. Empty time costs nothing, except that a slot whose timers
/// were all unlinked is passed over once, in up to 250 instructions, or is a wake-up in vain. A
/// tick without work costs a call, a compare and a store. Called from one of its own callbacks it
/// does nothing and returns {0, false}.
TVEC_C_API struct tvec_progress tvec_advance(struct tvec_wheel* wheel, uint64_t until,
                                             size_t budget);

/// Advances as `tvec_advance` does, and calls take(context, timer) in place of the callback of each
/// timer that is due, until it returns false or all were taken: for callbacks to run outside of a
/// lock, in another thread or process, or all in one batch. Callbacks are not used, and may be
/// null.
///
///     static bool take(void *context, struct tvec_timer *timer)
///     {
///         struct batch *batch = context;
///         batch->late[batch->count++] = TVEC_OWNER_OF(timer, struct connection, idle);
///         return true;
///     }
///
///     tvec_collect(&wheel, tick, 64, take, &batch);   // 64 at most: moves count as well
///
/// What `tvec_advance` promises of timers that fire is promised of those that are taken. A timer
/// that is cancelled before its turn is not taken. A taken one is not pending, and the wheel does
/// not touch it again: `take` may arm it, free it, keep it, and do anything else that a callback
/// may. After false the rest stays due, as if the budget had run out.
TVEC_C_API struct tvec_progress tvec_collect(struct tvec_wheel* wheel, uint64_t until,
                                             size_t budget,
                                             bool (*take)(void* context, struct tvec_timer* timer),
                                             void* context);

/// Advances as `tvec_advance` does, with the timers of each tick in the order of before(context, a,
/// b): whether `a` comes before `b`. Timers that compare equal keep the order of `tvec_advance`.
///
/// For the order of arming keep a number beside each timer, count it up at each arm, and compare
/// these numbers. `before` sees all timers that are linked for the tick, even cancelled ones, and
/// must change none. A tick is sorted once, before its first timer fires and whatever the budget: n
/// timers cost n log n comparisons. Requires fewer than 2^29 timers on a tick.
TVEC_C_API struct tvec_progress
tvec_advance_in_order(struct tvec_wheel* wheel, uint64_t until, size_t budget,
                      bool (*before)(void* context, struct tvec_timer* a, struct tvec_timer* b),
                      void* context);

/// Returns the next tick for which `tvec_advance` must be called: sleep until then. It is never
/// before tvec_now and never after the first expiry, and it is tvec_now while due timers are left
/// over. Returns TVEC_NEVER if the wheel holds no timer but those armed for that. O(1), except in a
/// callback after timers were unlinked: timer_wheel.hpp.
///
/// The tick may come before the first expiry, because timers sink through the levels, and for a
/// timer that was pushed back or cancelled: timer_wheel.hpp says how often. To learn whether a
/// timer is pending, ask tvec_any_pending.
TVEC_C_API uint64_t tvec_next_wakeup(struct tvec_wheel* wheel);

/// Calls tell(whom) whenever `tvec_next_wakeup` moves to an earlier tick outside of `tvec_advance`,
/// above all when a timer is armed: for a loop that is not its author's, which sets an alarm of its
/// own for the wake-up, and not before each sleep. After `tvec_advance`, in which the wake-up may
/// move either way, and after a `tvec_drain` whose visitor has asked for it, set that alarm again.
///
///     tvec_on_earlier_wakeup(&wheel, set_alarm, &server);   // by tvec_clock_start_of, or
///                                                           // tvec_wait_ms
///
/// `tell` runs inside the call that moves the wake-up. It must not arm timers, advance or destroy
/// the wheel, and must return. One at a time: another call replaces it, and null ends it. Costs
/// nothing where a timer joins others. timer_wheel.hpp has the details.
TVEC_C_API void tvec_on_earlier_wakeup(struct tvec_wheel* wheel, void (*tell)(void* whom),
                                       void* whom);

/// Returns the exact tick of the first expiry, or TVEC_NEVER. Reads every timer of some slots: for
/// tests and tools.
TVEC_C_API uint64_t tvec_next_expiry(const struct tvec_wheel* wheel);

/* --- all of them ------------------------------------------------------------------------------ */

/// Returns whether any timer is pending, even for TVEC_NEVER. Searches the slots that may hold
/// timers until it finds one.
TVEC_C_API bool tvec_any_pending(const struct tvec_wheel* wheel);

/// Returns the number of pending timers, including those for TVEC_NEVER. Counts them: O(slots +
/// timers).
TVEC_C_API size_t tvec_count_pending(const struct tvec_wheel* wheel);

/// Calls visit(context, timer) for every pending timer, including those for TVEC_NEVER, in no
/// particular order, until it returns false or all were shown. It may do anything to any timer:
/// cancel, unlink, move, arm, or unlink and free it. Timers that it cancels or unlinks are not
/// shown any more, unless it arms them again.
///
/// A timer that it pushes back stays in its place, and is shown exactly once, as all others are
/// that it does not arm. A timer that it arms otherwise is linked anew: for an earlier tick, after
/// unlinking, or back from another wheel. It is shown each time that the walk comes to its place:
/// not at all, once, or hundreds of times if each visit arms it so. The walk ends all the same. To
/// see each timer once whatever is armed, call `tvec_drain`, and let its visitor arm them again.
///
/// If it drains the wheel, the walk reaches its end. As in a callback, the wheel can be neither
/// advanced nor destroyed meanwhile. Returns false if `visit` has ended it. O(slots + timers), or
/// up to the point where it ended.
TVEC_C_API bool tvec_for_each_pending(struct tvec_wheel* wheel,
                                      bool (*visit)(void* context, struct tvec_timer* timer),
                                      void* context);

/// Empties the wheel, and calls visit(context, timer) exactly once for every timer that was pending
/// in it. By then it is not pending any more. `visit` may do anything to any timer. A timer that it
/// cancels or unlinks is not shown any more. A timer that it arms is armed, and not shown either.
/// As in a callback, the wheel can be neither advanced nor destroyed meanwhile. Returns the number
/// of timers shown. O(slots + timers).
TVEC_C_API size_t tvec_drain(struct tvec_wheel* wheel,
                             void (*visit)(void* context, struct tvec_timer* timer), void* context);

/// Returns the counters of the wheel. O(1).
TVEC_C_API struct tvec_counters tvec_count(const struct tvec_wheel* wheel);

/// Checks every structural invariant of the wheel. Writes the first one that does not hold to
/// `memory`, with its numbers, as snprintf does: at most `size` bytes, including a terminating
/// zero. Returns the length of that text, as if there were room: 0 if all hold, and up to 255.
/// Reads every timer: O(slots + timers). May be called at any time, even from a callback. A wheel
/// that fails was written to from outside: by a second thread, or through a timer that was freed or
/// copied without `tvec_unlink`.
TVEC_C_API size_t tvec_check(const struct tvec_wheel* wheel, char* memory, size_t size);

/// Writes the wheel as text for people to `memory`, as snprintf does: its time, its counters, a
/// line per level, and up to `timers` of its timers, level by level, with their addresses. Returns
/// the length of that text, as if there were room. Takes 25 KB of the stack. O(slots + timers).
TVEC_C_API size_t tvec_dump(const struct tvec_wheel* wheel, size_t timers, char* memory,
                            size_t size);

/* --- a clock ---------------------------------------------------------------------------------- */

/// The supported clocks, as in clock_gettime.
enum {
    TVEC_CLOCK_MONOTONIC = 1,  ///< CLOCK_MONOTONIC
    TVEC_CLOCK_BOOTTIME = 7,   ///< CLOCK_BOOTTIME: also counts the time the machine was suspended
};

/// A clock of the kernel, read in ticks that are counted from an origin. Plain data: it may be
/// copied. Deadlines round up and readings round down. If a wheel is advanced to `tvec_clock_now`,
/// a timer armed for `tvec_clock_ceil` of a deadline fires at the deadline or less than one tick
/// later, and never a nanosecond early. The conversions are exact.
///
///     tvec_clock_init(&clock, TVEC_CLOCK_MONOTONIC, 1000000);      // ticks of a millisecond
///     tvec_wheel_init(&wheel, tvec_clock_now(&clock));
///     tvec_arm_at(&wheel, &timer, tvec_clock_after(&clock, 20 * 1000000));
///     tvec_advance(&wheel, tvec_clock_now(&clock), TVEC_UNLIMITED);   // once per turn of the loop
///
/// All times are in nanoseconds, as an int64_t.
struct tvec_clock {
    int id;          ///< TVEC_CLOCK_MONOTONIC or TVEC_CLOCK_BOOTTIME
    int64_t origin;  ///< the time at which tick 0 begins, by that clock
    int64_t tick;    ///< the length of a tick
};

/// Makes a clock whose ticks last `tick` nanoseconds, and whose tick 0 begins now. Returns 0, or
/// -EINVAL if there is no such clock (only Linux has TVEC_CLOCK_BOOTTIME), or `tick` is not
/// positive.
TVEC_C_API int tvec_clock_init(struct tvec_clock* clock, int id, int64_t tick);

/// Returns the time of the clock. A system call, mostly answered without entering the kernel: 30
/// ns.
TVEC_C_API int64_t tvec_clock_read(const struct tvec_clock* clock);

/// Returns the current tick: the argument of `tvec_advance`.
TVEC_C_API uint64_t tvec_clock_now(const struct tvec_clock* clock);

/// Returns the tick that contains `time`; 0 before the origin.
TVEC_C_API uint64_t tvec_clock_floor(const struct tvec_clock* clock, int64_t time);

/// Returns the first tick that begins at `deadline` or later: the tick to arm for.
TVEC_C_API uint64_t tvec_clock_ceil(const struct tvec_clock* clock, int64_t deadline);

/// Returns the first tick that begins when `delay` has passed from now, or later: the tick to arm
/// for. A negative delay counts as 0. Reads the clock, because a delay is measured from the call
/// and not from the loop's last wake-up.
TVEC_C_API uint64_t tvec_clock_after(const struct tvec_clock* clock, int64_t delay);

/// Returns the number of ticks that cover `duration`: a period for tvec_arm_next. 0 if it is
/// negative.
TVEC_C_API uint64_t tvec_clock_ticks(const struct tvec_clock* clock, int64_t duration);

/// Returns the first reading of the clock in `tick`, or the last that it can show, INT64_MAX.
TVEC_C_API int64_t tvec_clock_start_of(const struct tvec_clock* clock, uint64_t tick);

/// Returns the reading of the clock for which the timer was last armed, rounded up to a tick: it is
/// due then. INT64_MAX for TVEC_NEVER.
TVEC_C_API TVEC_INLINE int64_t tvec_clock_deadline(const struct tvec_clock* clock,
                                                   const struct tvec_timer* timer) {
    return tvec_clock_start_of(clock, tvec_expires(timer));
}

/// Returns how long it takes until the timer is due, 0 if its time has come, or -1 if it is not
/// pending. Reads the clock.
TVEC_C_API TVEC_INLINE int64_t tvec_clock_remaining(const struct tvec_clock* clock,
                                                    const struct tvec_timer* timer) {
    const int64_t now = tvec_clock_read(clock), deadline = tvec_clock_deadline(clock, timer);
    if (!tvec_pending(timer)) return -1;
    return deadline > now ? deadline - now : 0;
}

/// Returns the timeout of a wait that takes whole milliseconds as an int, such as poll or a
/// function of a framework: the time until `tvec_next_wakeup`, rounded up, so that the loop does
/// not wake before it. 0 if its time has come, or work is left over, and -1 if there is none. Call
/// it last before the sleep. Reads the clock.
///
///     poll(watched, n, tvec_wait_ms(&wheel, &clock));
TVEC_C_API int tvec_wait_ms(struct tvec_wheel* wheel, const struct tvec_clock* clock);

/* --- a loop that was stalled ------------------------------------------------------------------ */

/// Keeps a loop that was stalled from timing out others for it: a handler or a callback blocked,
/// the process was stopped, the machine was busy. Timers are due then, and messages that came
/// meanwhile are not read. With a watch the loop hears them first:
///
///     tvec_stall_watch_init(&watch, &wheel, &clock, 500 * 1000000);
///     while (running) {
///         sleep_and_wake();                          // by any driver
///         tvec_stall_watch_listen(&watch);
///         heard = handle_what_has_come();            // how many messages of peers
///         tvec_stall_watch_run(&watch, heard, 256);  // in the place of tvec_advance
///     }
///
/// After a stall `run` fires nothing until a turn has heard nothing new, for as long again as
/// something was due, half a second at most, and the turn that begins then. Meanwhile timers are
/// due, so no driver sleeps. A stall is noticed at the next turn, by something that was due for
/// more than a tenth of a second since then and not done, and for more than twice as long as in the
/// turns before. A loop whose turns always take long is slow, and not stalled: its timers fire in
/// every turn, at most a turn later than by tvec_advance. The first timers that it is late for
/// count as a stall. Makes no system call. On a ring with IORING_SETUP_SQPOLL, whose thread may run
/// later than the loop after a stop of both, ask for a tvec_second_chance. stall_watch.hpp has the
/// limits.
///
/// Wheel and clock must outlive it. It may be copied, and there is nothing to destroy.
struct tvec_stall_watch {
    uint64_t stalls;      ///< the number of stalls so far
    uint64_t library[9];  ///< private
};

/// Makes a watch. `grace` is for second chances, in nanoseconds: how long a peer that was to be
/// timed out during a stall, or just after it, is waited for. It should cover a round trip, and the
/// time until the peer runs again if it was stopped as well.
TVEC_C_API void tvec_stall_watch_init(struct tvec_stall_watch* watch, struct tvec_wheel* wheel,
                                      const struct tvec_clock* clock, int64_t grace);

/// Notes that the loop begins to handle what has come. Call it after each sleep, before anything is
/// handled. Where one call sleeps and handles, as in mongoose, call it right before that: what
/// becomes due within it waits until the next one has read what came meanwhile, and does not sleep.
/// Reads the clock.
TVEC_C_API void tvec_stall_watch_listen(struct tvec_stall_watch* watch);

/// Fires what was due at tvec_stall_watch_listen, as tvec_advance does, in `budget` visits, and if
/// these do not suffice for as long as the turn was late, a tenth of a second at most. After a
/// stall it fires nothing until everything was heard: then it returns {0, false}. `heard` is how
/// many messages of peers the turn has handled. Completed writes and the loop's own alarm may count
/// as well, but then timers wait longer after a stall.
TVEC_C_API struct tvec_progress tvec_stall_watch_run(struct tvec_stall_watch* watch, size_t heard,
                                                     size_t budget);

/// Returns whether the loop was stalled a moment ago, less than `grace`.
TVEC_C_API bool tvec_stall_watch_just_back(const struct tvec_stall_watch* watch);

/// Returns whether a timeout's callback should wait once more, for as long as `grace`, instead of
/// judging a peer that may have been stopped as well. At most once for each silence: `taken` is a
/// flag of the peer, which the program clears when it hears the peer, and this function sets.
TVEC_C_API TVEC_INLINE bool tvec_second_chance(const struct tvec_stall_watch* watch, bool* taken) {
    return !*taken && (*taken = tvec_stall_watch_just_back(watch));
}

/* --- a loop ----------------------------------------------------------------------------------- */

/// The wheel of a loop, its clock, and the watch for stalls, for programs that arm by a delay in
/// nanoseconds. This is a server on epoll. On io_uring see tvec_loop_uring_init.
///
///     static struct tvec_loop timers;
///
///     tvec_loop_init(&timers, TVEC_CLOCK_MONOTONIC, 1000000);        // ticks of a millisecond
///     tvec_loop_arm_after(&timers, &c->idle, 30 * second);           // and at each message
///     while (running) {
///         n = tvec_loop_epoll_wait(&timers, epoll, events, 1024);    // all that may be ready
///         for (i = 0; i < n; ++i) handle(&events[i]);
///         tvec_loop_run(&timers, n, 256);                  // always, whatever woke us
///     }
///
/// Where another function sleeps, give it tvec_wait_ms, and call tvec_stall_watch_listen after it,
/// or before it if it handles too:
///
///     poll(watched, count, tvec_wait_ms(&timers.wheel, &timers.clock));
///     tvec_stall_watch_listen(&timers.watch);
///
/// The members are for all other functions of this header: tvec_cancel needs none of them, a
/// tvec_clock_deadline takes `clock`, a tvec_second_chance `watch`. It must be neither copied nor
/// moved.
struct tvec_loop {
    struct tvec_wheel wheel;        ///< the wheel
    struct tvec_clock clock;        ///< the clock of its ticks
    struct tvec_stall_watch watch;  ///< its grace is half a second: or tvec_stall_watch_init
    uint64_t library[4];            ///< private: the wait of tvec_uring.h
};

/// Makes an empty wheel on a clock whose ticks last `tick` nanoseconds. `clock` is
/// TVEC_CLOCK_MONOTONIC or TVEC_CLOCK_BOOTTIME. Returns 0, or -EINVAL as tvec_clock_init does: then
/// there is nothing to destroy.
TVEC_C_API TVEC_INLINE int tvec_loop_init(struct tvec_loop* loop, int clock, int64_t tick) {
    const int result = tvec_clock_init(&loop->clock, clock, tick);
    if (result != 0) return result;
    tvec_wheel_init(&loop->wheel, tvec_clock_now(&loop->clock));
    tvec_stall_watch_init(&loop->watch, &loop->wheel, &loop->clock, 500000000);
    return 0;
}

/// Ends the wheel, as tvec_wheel_destroy does.
TVEC_C_API TVEC_INLINE void tvec_loop_destroy(struct tvec_loop* loop) {
    tvec_wheel_destroy(&loop->wheel);
}

/// Arms `timer` for the time `delay` from now, in nanoseconds: tvec_arm_at for tvec_clock_after.
/// Returns whether the timer was pending before.
TVEC_C_API TVEC_INLINE bool tvec_loop_arm_after(struct tvec_loop* loop, struct tvec_timer* timer,
                                                int64_t delay) {
    return tvec_arm_at(&loop->wheel, timer, tvec_clock_after(&loop->clock, delay));
}

/// Fires what was due when the loop began to listen, as tvec_stall_watch_run does. `heard` is how
/// many messages the turn has handled. Call it in each turn, after they were handled.
TVEC_C_API TVEC_INLINE struct tvec_progress tvec_loop_run(struct tvec_loop* loop, size_t heard,
                                                          size_t budget) {
    return tvec_stall_watch_run(&loop->watch, heard, budget);
}

/* --- waking a loop on epoll or by a descriptor, on Linux -------------------------------------- */

#ifdef __linux__

struct epoll_event;

/// Waits for events of an epoll instance, as epoll_wait(2) does, until a timer is due: wheel and
/// clock stand in the place of the timeout. One system call, no further descriptor, and nothing to
/// acknowledge. Returns the number of events, at most `most`: 0 if the time was over or a signal
/// came. Returns a negative errno value for any other reason. With an empty wheel there is no
/// limit, and while a budget has left timers over it does not sleep. Requires most > 0.
///
/// It waits in nanoseconds, or in whole milliseconds where the kernel lacks that (before 5.11), and
/// may end early. timerfd_alarm.hpp says more, at epoll_wait: of the slack, which
/// prctl(PR_SET_TIMERSLACK, 1) reduces from 50 µs to none, and of a suspend.
TVEC_C_API int tvec_epoll_wait(int epoll, struct epoll_event* events, int most,
                               struct tvec_wheel* wheel, const struct tvec_clock* clock);

/// Waits as tvec_epoll_wait does, and then begins to listen: tvec_stall_watch_listen.
TVEC_C_API TVEC_INLINE int tvec_loop_epoll_wait(struct tvec_loop* loop, int epoll,
                                                struct epoll_event* events, int most) {
    const int ready = tvec_epoll_wait(epoll, events, most, &loop->wheel, &loop->clock);
    tvec_stall_watch_listen(&loop->watch);
    return ready;
}

/// A descriptor that becomes readable when a wheel has something to do: for poll, epoll and loops
/// built on them. One timerfd serves all timers.
///
///     tvec_timerfd_init(&alarm, &wheel, &clock);
///     watch(alarm.fd, EPOLLIN);
///     while (running) {
///         tvec_timerfd_rearm(&alarm);              // the last thing before the loop sleeps
///         for (each event that the sleep has ended with)
///             if (event.fd == alarm.fd) tvec_timerfd_acknowledge(&alarm); else handle(event);
///         tvec_advance(&wheel, tvec_clock_now(&clock), 256);      // always, whatever woke us
///     }
///
/// The wake-up is only an alarm: the time comes from the clock. The descriptor may become readable
/// too early, at most once for each wake-up that a push-back or a cancel made needless. Wheel and
/// clock must live as long as tvec_timerfd_rearm is called. A child made by fork shares the timer
/// behind the descriptor, and must leave it alone.
struct tvec_timerfd {
    struct tvec_wheel* wheel;        ///< the wheel that it rings for
    const struct tvec_clock* clock;  ///< the clock of its ticks
    int64_t set_for;                 ///< private
    int fd;                          ///< to be watched for reading, and used for nothing else
};

/// Makes an alarm that is not set: nothing is readable before the first tvec_timerfd_rearm. Its
/// descriptor is non-blocking and closes on exec. Returns 0, or a negative errno value: then there
/// is nothing to destroy. An example is -EMFILE, if there are no descriptors left.
TVEC_C_API int tvec_timerfd_init(struct tvec_timerfd* alarm, struct tvec_wheel* wheel,
                                 const struct tvec_clock* clock);

/// Closes the descriptor. The wheel may be gone.
TVEC_C_API void tvec_timerfd_destroy(struct tvec_timerfd* alarm);

/// Makes the descriptor become readable at tvec_next_wakeup or before, and at once if a budget has
/// left work over. Call it last before every sleep. The alarm only moves earlier: if it need not
/// move, this is a comparison, else one system call. Returns 0 or a negative errno value, which
/// leaves the alarm as it was.
TVEC_C_API int tvec_timerfd_rearm(struct tvec_timerfd* alarm);

/// Makes the descriptor unreadable again. Returns 1 if it was readable, or 0 if it was not, and
/// then nothing has changed, or a negative errno value. An alarm that has gone off stays readable
/// until this call. One system call.
TVEC_C_API int tvec_timerfd_acknowledge(struct tvec_timerfd* alarm);

#endif

#ifdef __cplusplus
}
#endif

#endif
