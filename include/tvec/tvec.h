/// \file
/// The timer wheel for programs in C: C11, and valid C++.
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
/// It is the wheel of timer_wheel.hpp, and promises what that does: a timer fires at its tick or
/// later, never before; every delay is legal; arming, pushing back and cancelling are O(1), cannot
/// fail and allocate nothing; no call of `tvec_advance` pays for a whole cascade. What stands here
/// is what each call does, costs and requires, with the edges; docs/c.md is the way in.
///
/// One thread owns a wheel and the timers in it; nothing is locked. Times are ticks, a 64-bit count
/// of which 63 bits are used, or nanoseconds where it says so. What can fail returns a negative
/// errno value; pointers must not be null. A callback must come back: neither longjmp nor a C++
/// exception may leave it. Timers and wheels lie at addresses of 48 bits, as Linux gives them, and
/// wheels beyond 3904 in a process are slower: timer_wheel.hpp has these limits. It is for gcc and
/// clang.
///
/// libtvec-c has all of it, and needs no C++ library. What is hot (pushing a pending timer back,
/// cancelling, asking) is inline here; the rest of arming is a call. The inline functions work on
/// the same bytes as the C++ wheel in the library, which asserts when it is compiled that both
/// languages lay them out alike. Each of them is a function of the library as well, for bindings
/// and for compilers that do not inline.
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
#ifdef TVEC_TAGGED_ADDRESSES /* docs/limits.md */
#define TVEC_NUMBER_ uint8_t
#else
#define TVEC_NUMBER_ uint16_t
#endif
#define TVEC_C_API __attribute__((visibility("default")))
#ifndef TVEC_INLINE /* the library defines it, and so has them as functions */
#define TVEC_INLINE inline
#endif
#endif

/// The tick that does not come: what is armed for it never fires. As an argument, what is more
/// counts as this; as an answer, there is none. A delay may be as long: sums saturate at it.
#define TVEC_NEVER (UINT64_MAX >> 1)

/// For `tvec_advance`: the budget that does not run out.
#define TVEC_UNLIMITED SIZE_MAX

/// How large a `struct tvec_wheel` is, and on what addresses it may lie: for memory that is got by
/// a number, as bindings do. About 56 KB, 31 KB where pointers have 32 bits.
/// @{
#define TVEC_WHEEL_SIZE ((6784 + 6276 * sizeof(void*) + 63) / 64 * 64)
#define TVEC_WHEEL_ALIGNMENT 64
/// @}

struct tvec_timer;
struct tvec_wheel;

/// Called once when a timer fires, with the wheel it was armed on. The timer is no longer pending
/// then, and the wheel does not touch it any more: the callback may arm it again, free it, and do
/// the same to any other timer. It must not destroy the wheel.
typedef void (*tvec_callback)(struct tvec_wheel* wheel, struct tvec_timer* timer);

/// One pending call, a member of the object it belongs to. 32 bytes where pointers have 64 bits.
///
/// Its members are the library's, but `fire`, which may be set at any time. A timer must not be
/// copied, and its memory not be freed or overwritten while it hangs in a wheel: `tvec_unlink`
/// first. Zeroed bytes are a timer that is not pending, and may be cancelled; before it is armed,
/// it needs a callback (`fire`, or tvec_timer_init).
struct __attribute__((may_alias)) tvec_timer {
    struct tvec_timer* next;  ///< the one behind it
    uint64_t back;            ///< what points here, and the wheel's number; 0: in no wheel
    uint64_t expires;         ///< the top bit: cancelled
    tvec_callback fire;       ///< what is called; not null when the timer fires
};

/// A timer that calls `callback`, for definitions:
///
///     static struct tvec_timer beat = TVEC_TIMER_INIT(on_beat);
#define TVEC_TIMER_INIT(callback)                                                                  \
    { NULL, 0, 0, (callback) }

/// The object whose member `member` is the timer that `timer` points to, as a `type *`: the
/// kernel's container_of.
#define TVEC_OWNER_OF(timer, type, member)                                                         \
    TVEC_AT_ADDRESS_(type, TVEC_AT_ADDRESS_(char, timer) - offsetof(type, member))

/// A timer wheel: a root of 256 slots of one tick, and four levels of 64 slots, each slot as wide
/// as the whole level below it. It lies where the program puts it, and stays there: it must be
/// neither copied nor moved. Its members are the library's.
struct __attribute__((may_alias)) tvec_wheel {
    TVEC_ALIGNAS_(TVEC_WHEEL_ALIGNMENT) uint16_t number;  ///< of this wheel in the process
    bool running;                                         ///< in a callback
    uint16_t in_place;                                    ///< of timers re-armed by one store
    uint64_t now;                                         ///< the tick that was last run
    unsigned char rest[TVEC_WHEEL_SIZE - 16];             ///< levels, slots, counters
};

/// What `tvec_advance` did.
struct tvec_progress {
    size_t fired;    ///< timers whose callbacks ran in this call
    bool caught_up;  ///< false: something due by then is left; call again
};

/// What a wheel has done since it was made.
struct tvec_counters {
    uint64_t fired;           ///< callbacks run
    uint64_t moved;           ///< timers placed again: sunk a level, or pushed back
    uint64_t dropped;         ///< cancelled timers that a visit unlinked
    uint64_t clock_backward;  ///< calls of `tvec_advance` for a tick before tvec_now
};

/* --- a timer ---------------------------------------------------------------------------------- */

/// Makes a timer of these bytes, whatever they were, that is not pending and calls `callback`. For
/// one that hangs in a wheel it must not be called; `tvec_unlink` it before, or set `fire`.
TVEC_C_API TVEC_INLINE void tvec_timer_init(struct tvec_timer* timer, tvec_callback callback) {
    assert(timer && "a timer");
    timer->next = NULL;
    timer->back = 0;
    timer->expires = 0;
    timer->fire = callback;
}

/// Armed, and neither fired nor cancelled since.
TVEC_C_API TVEC_INLINE bool tvec_pending(const struct tvec_timer* timer) {
    assert(timer && "a timer");
    return timer->back != 0 && timer->expires <= TVEC_NEVER;
}

/// The tick that the timer was last armed for, also after it has fired or been cancelled, and
/// inside its callback; if it had passed by then, the tick that was asked for. 0 if it was never
/// armed.
TVEC_C_API TVEC_INLINE uint64_t tvec_expires(const struct tvec_timer* timer) {
    assert(timer && "a timer");
    return timer->expires & TVEC_NEVER;
}

/// Returns whether the timer was pending, that is, whether it was going to fire. Afterwards it will
/// not, even if it was already due. One store to the timer's own line; needs no wheel, which may be
/// gone. The timer may still hang in the wheel until that comes by, so its memory must not be freed
/// or overwritten yet: for that, tvec_unlink. A libtvec-c with assertions names such a timer, in
/// one line on the standard error output, and aborts.
TVEC_C_API TVEC_INLINE bool tvec_cancel(struct tvec_timer* timer) {
    const bool was_pending = tvec_pending(timer);
    timer->expires |= ~TVEC_NEVER;
    return was_pending;
}

/// Cancels, and unlinks the timer now: afterwards nobody refers to its bytes, and they may be
/// overwritten, freed or given to another thread. To be called before the memory of a timer that
/// was ever armed ends. Returns what `tvec_cancel` does. May be called for any timer, also for one
/// that was cancelled, has fired or was never armed, and after its wheel is gone; on the thread of
/// its wheel. O(1); writes the neighbours in the slot: who keeps the timer had better
/// `tvec_cancel`.
///
/// What is to fire in this turn of a loop, and not at the next tick, is unlinked and called:
///
///     if (tvec_unlink(&c->idle)) c->idle.fire(&wheel, &c->idle);
TVEC_C_API bool tvec_unlink(struct tvec_timer* timer);

/// Makes a timer of the bytes at `to`, whatever they were, that takes over the place of `from` in
/// its wheel, its deadline and its callback. `from` is left not pending, and its memory may end.
/// For objects that move, as a table that grows: to a new one first, since both must be there.
/// `to` must not hang in a wheel, nor be `from`. O(1); the wheel notices nothing.
TVEC_C_API void tvec_move(struct tvec_timer* to, struct tvec_timer* from);

/* --- a wheel ---------------------------------------------------------------------------------- */

/// Makes an empty wheel of these bytes, whatever they were, whose time is `now`, at most
/// TVEC_NEVER - 1. O(slots). It may call pthread_key_create, for the number of the wheel.
TVEC_C_API void tvec_wheel_init(struct tvec_wheel* wheel, uint64_t now);

/// Ends a wheel of tvec_wheel_init; its memory is the caller's. The timers that hang in it are left
/// not pending. O(timers). Must not be called from one of its own callbacks, nor from the visitor
/// of `tvec_drain`: that is said on the standard error output, in one line, and ends the program
/// (abort).
TVEC_C_API void tvec_wheel_destroy(struct tvec_wheel* wheel);

/// A wheel in memory of its own (aligned_alloc), as tvec_wheel_init makes it; NULL if there is
/// none.
TVEC_C_API struct tvec_wheel* tvec_wheel_new(uint64_t now);

/// Ends a wheel of tvec_wheel_new as tvec_wheel_destroy does, and frees its memory. NULL is no
/// wheel, and nothing happens.
TVEC_C_API void tvec_wheel_free(struct tvec_wheel* wheel);

/// The tick that was last run; inside a callback, the tick being run.
TVEC_C_API TVEC_INLINE uint64_t tvec_now(const struct tvec_wheel* wheel) {
    assert(wheel && "a wheel");
    return wheel->now;
}

/// How far the call of `tvec_advance` that is running, or that stopped on its budget, still has to
/// go, in ticks. Inside a callback: how late it is. 0 at rest.
TVEC_C_API uint64_t tvec_behind(const struct tvec_wheel* wheel);

/* --- arm: each returns whether the timer was pending before ---------------------------------- */
/* A timer that is pending, here or on another wheel of this thread, is moved. */

/// What tvec_arm_at calls for a timer that hangs in no wheel. It must hang in none.
TVEC_C_API void tvec_arm_unlinked(struct tvec_wheel* wheel, struct tvec_timer* timer,
                                  uint64_t expires);

/// What tvec_arm_at calls where one store will not do. It does the same for any timer.
TVEC_C_API bool tvec_arm_by_linking(struct tvec_wheel* wheel, struct tvec_timer* timer,
                                    uint64_t expires);

/// Fires `timer` when tick `expires` is run; on the next tick if that is now or past; not at all if
/// it is TVEC_NEVER or more. O(1). If it hangs in this wheel and `expires` is not earlier than the
/// tick it was last armed for, this is one store, and no call.
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

/// tvec_arm_at(now + delay), saturating. A delay of 0 means the next tick.
TVEC_C_API TVEC_INLINE bool tvec_arm_after(struct tvec_wheel* wheel, struct tvec_timer* timer,
                                           uint64_t delay) {
    assert(wheel && wheel->now < TVEC_NEVER && "a wheel, as tvec_wheel_init made it");
    const bool ends = delay < TVEC_NEVER - wheel->now;
    return tvec_arm_at(wheel, timer, ends ? wheel->now + delay : TVEC_NEVER);
}

/// tvec_arm_at if `timer` is pending; nothing if it is not: pushes back or pulls in what may have
/// fired or been cancelled meanwhile, and never brings it back. (mod_timer_pending)
TVEC_C_API TVEC_INLINE bool tvec_arm_if_pending(struct tvec_wheel* wheel, struct tvec_timer* timer,
                                                uint64_t expires) {
    return tvec_pending(timer) && tvec_arm_at(wheel, timer, expires);
}

/// tvec_arm_at unless `timer` is pending, for whatever tick and in whatever wheel: the first of
/// several who ask decides. (schedule_delayed_work)
TVEC_C_API TVEC_INLINE bool tvec_arm_unless_pending(struct tvec_wheel* wheel,
                                                    struct tvec_timer* timer, uint64_t expires) {
    return tvec_pending(timer) || tvec_arm_at(wheel, timer, expires);
}

/// tvec_arm_at unless `timer` is pending in this wheel for that tick or an earlier one: the
/// earliest of several deadlines for one timer. (timer_reduce)
TVEC_C_API bool tvec_arm_if_earlier(struct tvec_wheel* wheel, struct tvec_timer* timer,
                                    uint64_t expires);

/// Fires `timer` somewhere in [earliest, latest]: on the roundest tick of that window, the one that
/// most other windows share, so that timers come together and wake-ups grow fewer. Does nothing if
/// `timer` is already pending for a tick of the window. If latest < earliest, earliest counts.
TVEC_C_API bool tvec_arm_within(struct tvec_wheel* wheel, struct tvec_timer* timer,
                                uint64_t earliest, uint64_t latest);

/// Fires `timer` a whole number of periods after the tick it was last armed for, on the first such
/// tick after tvec_now + tvec_behind: a periodic timer that keeps its phase however late it runs.
/// So after a late call the next comes sooner than a period. One that is not due yet skips a beat.
/// Returns how many periods were passed over to get there, and not whether it was pending. A period
/// of 0 counts as 1.
TVEC_C_API uint64_t tvec_arm_next(struct tvec_wheel* wheel, struct tvec_timer* timer,
                                  uint64_t period);

/* --- run -------------------------------------------------------------------------------------- */

/// Makes `until` the current tick, and fires all that is due by then, tick by tick; within a tick
/// in an order that depends on the calls made, those of `tvec_advance` among them, and on nothing
/// else. It is not the order of arming.
///
/// Visits at most `budget` timers: those it fires, moves and drops. When that is not enough,
/// tvec_now stays on the tick being run; what is left of it stays due, may be cancelled, and comes
/// first in the next call. Emptying slots ahead of time comes last. An `until` before tvec_now
/// counts as that (and in clock_backward), one of TVEC_NEVER or more as TVEC_NEVER - 1.
///
/// Costs what it fires and moves; empty time costs nothing, and a tick in which there is nothing to
/// do a call, a compare and a store. Called from one of its own callbacks it does nothing and
/// returns {0, false}.
TVEC_C_API struct tvec_progress tvec_advance(struct tvec_wheel* wheel, uint64_t until,
                                             size_t budget);

/// The next tick for which `tvec_advance` must be called: sleep until then. Never before tvec_now,
/// never after the first expiry, and tvec_now itself while something due is left over. TVEC_NEVER
/// when nothing hangs in the wheel but what is armed for that. It may come before the first expiry,
/// since timers sink through the levels, and for a timer that was pushed back or cancelled:
/// timer_wheel.hpp says how often. So this is no way to ask whether anything is pending:
/// tvec_any_pending is. O(1).
TVEC_C_API uint64_t tvec_next_wakeup(struct tvec_wheel* wheel);

/// The tick of the first expiry, exactly, or TVEC_NEVER. Reads every timer of some slots: for tests
/// and tools.
TVEC_C_API uint64_t tvec_next_expiry(const struct tvec_wheel* wheel);

/* --- all of them ------------------------------------------------------------------------------ */

/// Whether any timer is pending, be it for TVEC_NEVER. Looks through the slots that may hold
/// something until it finds one.
TVEC_C_API bool tvec_any_pending(const struct tvec_wheel* wheel);

/// How many timers are pending, those for TVEC_NEVER too. Counts them: O(slots + timers).
TVEC_C_API size_t tvec_count_pending(const struct tvec_wheel* wheel);

/// Calls visit(context, timer) for every pending timer, those for TVEC_NEVER too, in no particular
/// order, until it returns false or all were shown. It may do to the timer that it is shown
/// whatever it likes: cancel, unlink, move or free it, or arm it, and then it may be shown once
/// more. Of the others it may cancel any, which is not shown any more; it must not unlink, move,
/// free or arm them, nor advance, drain or destroy the wheel. Returns whether the walk came to its
/// end. O(slots + timers), or up to where it was ended.
TVEC_C_API bool tvec_for_each_pending(struct tvec_wheel* wheel,
                                      bool (*visit)(void* context, struct tvec_timer* timer),
                                      void* context);

/// Empties the wheel, and calls visit(context, timer) for every timer that was pending in it,
/// exactly once; by then it is not pending any more. `visit` may do anything to any timer: one that
/// it cancels or unlinks is not shown any more; one that it arms is armed, and not shown either. As
/// in a callback, the wheel can meanwhile be neither advanced nor destroyed. Returns how many were
/// shown. O(slots + timers).
TVEC_C_API size_t tvec_drain(struct tvec_wheel* wheel,
                             void (*visit)(void* context, struct tvec_timer* timer), void* context);

/// What the wheel has done so far. O(1).
TVEC_C_API struct tvec_counters tvec_count(const struct tvec_wheel* wheel);

/// Checks every structural invariant that the wheel keeps, and writes the first that does not hold
/// to `memory`, with its numbers, as snprintf does: at most `size` bytes, a zero at the end among
/// them. Returns how long that text is, or would be if there were room: 0 if all hold, and up to
/// 255. Reads every timer: O(slots + timers). May be called at any time, also from a callback. A
/// wheel that fails has been written to from outside: by a second thread, or through a timer that
/// was freed or copied without `tvec_unlink`.
TVEC_C_API size_t tvec_check(const struct tvec_wheel* wheel, char* memory, size_t size);

/// Writes the wheel as text for people to `memory`, as snprintf does: its time, its counters, a
/// line per level, and up to `timers` of the timers in it, level by level, with their addresses.
/// Returns how long that text is, or would be if there were room. Takes 25 KB of the stack. O(slots
/// + timers).
TVEC_C_API size_t tvec_dump(const struct tvec_wheel* wheel, size_t timers, char* memory,
                            size_t size);

/* --- a clock ---------------------------------------------------------------------------------- */

/// The clocks there are, as clock_gettime has them.
enum {
    TVEC_CLOCK_MONOTONIC = 1,  ///< CLOCK_MONOTONIC
    TVEC_CLOCK_BOOTTIME = 7,   ///< CLOCK_BOOTTIME: also counts the time the machine was suspended
};

/// A clock of the kernel, read in ticks of some length that are counted from an origin. Plain data:
/// it may be copied. Deadlines round up and readings round down: so if a wheel is advanced to
/// `tvec_clock_now`, whatever is armed for `tvec_clock_ceil` of a deadline fires at that or later,
/// never a nanosecond earlier, and less than one tick later. The conversions are exact.
///
///     tvec_clock_init(&clock, TVEC_CLOCK_MONOTONIC, 1000000);      // ticks of a millisecond
///     tvec_wheel_init(&wheel, tvec_clock_now(&clock));
///     tvec_arm_at(&wheel, &timer, tvec_clock_after(&clock, 20 * 1000000));
///     tvec_advance(&wheel, tvec_clock_now(&clock), TVEC_UNLIMITED);   // once per turn of the loop
///
/// All times are in nanoseconds, as an int64_t.
struct tvec_clock {
    int id;          ///< TVEC_CLOCK_MONOTONIC or TVEC_CLOCK_BOOTTIME
    int64_t origin;  ///< when tick 0 begins, by that clock
    int64_t tick;    ///< what one tick lasts
};

/// A clock whose ticks last `tick` nanoseconds, and whose tick 0 begins now. Returns 0, or -EINVAL
/// if there is no such clock, or `tick` is not positive.
TVEC_C_API int tvec_clock_init(struct tvec_clock* clock, int id, int64_t tick);

/// What the clock shows. A system call, though mostly answered without entering the kernel: 30 ns.
TVEC_C_API int64_t tvec_clock_read(const struct tvec_clock* clock);

/// The tick we are in: what `tvec_advance` is to be called with.
TVEC_C_API uint64_t tvec_clock_now(const struct tvec_clock* clock);

/// The tick that `time` lies in. 0 before the origin.
TVEC_C_API uint64_t tvec_clock_floor(const struct tvec_clock* clock, int64_t time);

/// The first tick that does not begin before `deadline`: what to arm for.
TVEC_C_API uint64_t tvec_clock_ceil(const struct tvec_clock* clock, int64_t deadline);

/// The first tick that does not begin before `delay` has passed from now: what to arm for. A delay
/// that is negative counts as 0. Reads the clock, so that the delay is measured from the call, and
/// not from when the loop last woke.
TVEC_C_API uint64_t tvec_clock_after(const struct tvec_clock* clock, int64_t delay);

/// How many ticks cover `duration`: a period for tvec_arm_next. 0 if it is negative.
TVEC_C_API uint64_t tvec_clock_ticks(const struct tvec_clock* clock, int64_t duration);

/// The first reading of the clock that lies in `tick`, or the last that it can show, INT64_MAX.
TVEC_C_API int64_t tvec_clock_start_of(const struct tvec_clock* clock, uint64_t tick);

/* --- waking a loop by a descriptor ------------------------------------------------------------ */

/// A descriptor that becomes readable when a wheel has something to do: for poll, epoll and the
/// loops built on them. One timerfd serves all timers.
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
/// The wake-up is only an alarm: what time it is comes from the clock. The descriptor may become
/// readable too early, at most once for each wake-up that a push-back or a cancel has made
/// needless. Wheel and clock must live as long as tvec_timerfd_rearm is called. A child made by
/// fork shares the timer behind the descriptor: it must leave it alone.
struct tvec_timerfd {
    struct tvec_wheel* wheel;        ///< what it rings for
    const struct tvec_clock* clock;  ///< by which its ticks are told
    int64_t set_for;                 ///< the library's
    int fd;                          ///< to be watched for reading, and not for anything else
};

/// An alarm that is not set; nothing is readable before the first tvec_timerfd_rearm. Its
/// descriptor is non-blocking and closes on exec. Returns 0, or a negative errno value, and then
/// there is nothing to destroy: -EMFILE, if there is no descriptor left, say.
TVEC_C_API int tvec_timerfd_init(struct tvec_timerfd* alarm, struct tvec_wheel* wheel,
                                 const struct tvec_clock* clock);

/// Closes the descriptor. The wheel may be gone.
TVEC_C_API void tvec_timerfd_destroy(struct tvec_timerfd* alarm);

/// Sees to it that the descriptor is readable at tvec_next_wakeup, or before. Work left over by a
/// budget: at once. Call it last before every sleep. The alarm is only ever moved earlier: if it
/// need not be, this is a comparison, else one system call. Returns 0 or a negative errno value,
/// which leaves the alarm as it was.
TVEC_C_API int tvec_timerfd_rearm(struct tvec_timerfd* alarm);

/// Makes the descriptor unreadable again. Returns 1 if it was readable; 0 if not, and then nothing
/// has changed; or a negative errno value. Until this is called, an alarm that has gone off stays
/// readable. One system call.
TVEC_C_API int tvec_timerfd_acknowledge(struct tvec_timerfd* alarm);

#ifdef __cplusplus
}
#endif

#endif
