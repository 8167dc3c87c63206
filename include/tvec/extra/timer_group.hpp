/// \file
/// All timers of an entity, a session, a player: cancelled, counted and paused together.
/// In extra/: before 1.0 a minor release may change or remove it.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <cstddef>
#include <utility>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/core/detail/export.hpp"
#include "tvec/core/detail/wants.hpp"
#include "tvec/core/timer_wheel.hpp"
#include "tvec/extra/detail/group_link.hpp"
#include "tvec/pool/detail/timeout_handle.hpp"

namespace tvec {

class grouped_timer;

/// Timers in objects and timeouts of pools that belong together.
///
///     struct player {
///         tvec::timer_group timers;
///         tvec::grouped_timer regain{timers, tvec::call<&player::regain, &player::on_regain>};
///     };
///     pool.schedule(30s, hero.timers.add([&hero] { hero.curse_ends(); }));
///     hero.timers.pause(wheel);                    // the player is away
///     hero.timers.resume(wheel);                   // what was left is left
///
/// A member is a `grouped_timer`, or a timeout that is scheduled with `add`. A timer is a member
/// from its constructor, or from `join`, to its destructor, whether it is pending or not. A timeout
/// is a member until its function is destroyed: it has fired for the last time, or is cancelled.
///
/// Membership costs 16 bytes: of the object around a timer, or of the 48 that the function object
/// of a timeout has. Arming, cancelling and firing a member cost nothing more. The group allocates
/// nothing. All calls take time proportional to the members.
///
/// Destroying a group cancels all its members, in objects and in pools. The timers live on, and are
/// in no group. A group may be destroyed before or after its members, pools and wheels.
///
/// **Callbacks** may do anything to their own group. The member that is being called is not pending
/// then, unless it is a periodic timeout. What they cancel, pause or destroy are the pending
/// members: the others, and the next period of a periodic timeout. A timer that the callback arms
/// afterwards runs: call `arm_next` first, then `pause` or `cancel_all`. The function that is being
/// called is destroyed after it has returned.
///
/// A group and its members belong to one thread, that of their wheel.
class timer_group {
public:
    /// A pending member, as `for_each` shows it.
    struct member {
        grouped_timer* timer;   ///< the timer in an object; null for a timeout
        timeout_handle handle;  ///< the handle of a timeout, in its own pool
        jiffies expires;        ///< its tick; while it is paused, the ticks that are left
        bool paused;            ///< it waits for `resume`
    };

    /// Makes an empty group.
    timer_group() noexcept { head_.begin_list(); }

    /// Cancels all members, which are in no group afterwards. The functions of timeouts are
    /// destroyed, except of one that is being called. They must not join the group meanwhile.
    ~timer_group() { disband(); }

    /// Takes all members of `other`, which is empty afterwards. O(1).
    timer_group(timer_group&& other) noexcept : timer_group() { take(other); }
    /// Cancels all members first, as the destructor does. Self-assignment is a no-op.
    timer_group& operator=(timer_group&& other) noexcept;

    timer_group(const timer_group&) TVEC_WANTS("std::move: a timer is in one group");
    timer_group& operator=(const timer_group&) TVEC_WANTS("std::move: a timer is in one group");

    /// Returns `f` for a call of a timeout_pool that schedules it. The timeout becomes a member of
    /// this group. `f` has at most 32 bytes, and `take` does not find it. The result is a reference
    /// to `f`: pass it on in the same expression. Not for a mailbox.
    ///
    ///     pool.schedule_every(1s, hero.timers.add([&hero] { hero.lose_health(); }));
    template <class F> [[nodiscard]] detail::joining<F&&> add(F&& f) noexcept {
        return {head_, std::forward<F>(f)};
    }

    /// Cancels all members, paused ones included. Timers stay in the group. Returns how many were
    /// pending. Destructors of functions may do anything, and members that they add are not
    /// cancelled.
    TVEC_API std::size_t cancel_all() noexcept;

    /// Returns how many members are pending, paused ones included.
    TVEC_API std::size_t count() const noexcept;

    /// Calls visit(const member&) once for every pending member, in no particular order. The
    /// visitor may do anything, also to the group. Members that it adds are not shown. It returns
    /// nothing, or a bool: false ends the walk. Its exceptions pass through. Returns whether the
    /// walk reached its end.
    template <class F> bool for_each(F visit);

    /// Stops all pending members. Each keeps the time that is left until its deadline, none if the
    /// deadline has passed. Returns how many were stopped: members that are paused already do not
    /// change.
    ///
    /// A paused member is pending, and armed for a tick beyond `paused_from`. The wheel wakes at
    /// most once more for it, as after each push-back. A paused member may be cancelled, and
    /// `resume` does not bring it back. Arming or rescheduling it ends its pause. `run_early` of
    /// its pool does not: it fires early after `resume`. A deadline counted from expires(), as of
    /// `arm_next`, leaves it paused, with more time left. A member that is armed or joins while
    /// others are paused runs, until `pause` is called again.
    ///
    /// Requires that all pending members are on this wheel, and that now() < paused_from: a debug
    /// build asserts it.
    std::size_t pause(timer_wheel& wheel) noexcept { return stop(wheel, wheel.now()); }
    /// Does the same by the clock. Time that `run` has not caught up with has passed.
    template <class Ticks> std::size_t pause(clocked_wheel<Ticks>& timers) noexcept {
        return stop(timers.wheel(), timers.ticks().now());
    }

    /// Arms all paused members for the time that was left, from now on. Members with no time left
    /// are due at the next tick. A periodic timeout keeps its period from there, and has missed
    /// nothing. One that waits for an extra first call keeps the time to its first deadline, too.
    /// Returns how many there were. Requires what `pause` does. Deadlines of `paused_from` ticks or
    /// more count as paused ones.
    std::size_t resume(timer_wheel& wheel) noexcept { return start(wheel, wheel.now()); }
    /// Does the same by the clock. No member fires early by even a nanosecond. Each pause makes it
    /// later by up to two ticks, and by none where the clock stands on a tick at both calls.
    template <class Ticks> std::size_t resume(clocked_wheel<Ticks>& timers) noexcept {
        // Ticks are added to this one, so the whole time must be covered: `ceil` may be the tick
        // that has begun less than a nanosecond ago.
        const Ticks& ticks = timers.ticks();
        const auto since = detail::time_left(ticks.origin(), detail::reading(ticks));
        return start(timers.wheel(), ticks.ticks_to_cover(since));
    }

    /// The first tick that members are paused at: 146 years of nanoseconds.
    static constexpr jiffies paused_from = jiffies{1} << 62;

private:
    friend class grouped_timer;

    TVEC_API void disband() noexcept;
    TVEC_API void take(timer_group& other) noexcept;
    TVEC_API std::size_t stop(timer_wheel&, jiffies now) noexcept;
    TVEC_API std::size_t start(timer_wheel&, jiffies now) noexcept;
    TVEC_API static detail::group_link* next_pending(detail::group_walk& walk) noexcept;
    TVEC_API static member shown(detail::group_link& l) noexcept;

    template <class F> static std::size_t for_each_pending(const detail::group_link&, F);
    static grouped_timer& timer_of(detail::group_link& l) noexcept;
    static bool is_pending(detail::group_link& l) noexcept;
    static jiffies expires(detail::group_link& l) noexcept;
    static bool is_paused(jiffies at) noexcept { return at >= paused_from && at < never; }
    static bool cancel(detail::group_link& l) noexcept;
    static void pause(detail::group_link& l, timer_wheel&, jiffies now) noexcept;
    static void resume(detail::group_link& l, timer_wheel&, jiffies now) noexcept;

    detail::group_link head_{detail::group_link::kind::group};
};

/// A timer in an object, and its place in a group: 48 bytes. It is armed, cancelled and called as
/// any timer. `call` takes a pointer to it, and `call_each` one to an array, with the group of all:
///
///     std::array<tvec::grouped_timer, 20> buffs{
///         tvec::call_each<&player::buffs, &player::on_buff>(timers)};
///
/// Moving it moves both places.
class grouped_timer : public timer, private detail::group_link {
public:
    /// Makes a timer that calls `fire`, and is a member of `group`.
    explicit grouped_timer(timer_group& group, callback fire = nullptr) noexcept
        : timer(fire), group_link(kind::timer) {
        enter(group.head_);
    }
    /// Makes a timer that is in no group until it joins one.
    explicit grouped_timer(callback fire = nullptr) noexcept
        : timer(fire), group_link(kind::timer) {}
    grouped_timer(timer_group&, const timer&) TVEC_WANTS("a callback, not a timer");

    /// Makes this timer a member of `group`, and of no other. It stays pending, and paused if it
    /// is: an event that was armed before its owner was known. A walk that is under way may not
    /// show a member that joins anew, nor `cancel_all` cancel it. O(1).
    void join(timer_group& group) noexcept {
        group_link::leave();
        enter(group.head_);
    }
    /// Leaves its group, if it is in one. It stays pending, and paused if it is. O(1).
    void leave() noexcept { group_link::leave(); }

    /// Takes the places of `other` in its wheel and its group, its deadline and its callback.
    grouped_timer(grouped_timer&& other) noexcept
        : timer(static_cast<timer&&>(other)), group_link(static_cast<group_link&&>(other)) {}
    /// Cancels this timer, leaves its group, and takes the same. Self-assignment is a no-op.
    grouped_timer& operator=(grouped_timer&& other) noexcept {
        timer::operator=(static_cast<timer&&>(other));
        group_link::operator=(static_cast<group_link&&>(other));
        return *this;
    }
    grouped_timer(const grouped_timer&) TVEC_WANTS("std::move: a timer is in one place");
    grouped_timer& operator=(const grouped_timer&) TVEC_WANTS("std::move: a timer is in one place");

private:
    friend class timer_group;
};

static_assert(sizeof(void*) != 8 || sizeof(grouped_timer) == 48);

inline timer_group& timer_group::operator=(timer_group&& other) noexcept {
    if (this == &other) return *this;
    disband();
    take(other);
    return *this;
}

template <class F> bool timer_group::for_each(F visit) {
    static_assert(std::is_invocable_v<F&, const member&>,
                  "the visitor is called with a const tvec::timer_group::member&");
    detail::group_walk walk(head_);
    while (detail::group_link* const l = next_pending(walk)) {
        const member each = shown(*l);
        if (!detail::goes_on(visit, each)) return false;
    }
    return true;
}

}  // namespace tvec
