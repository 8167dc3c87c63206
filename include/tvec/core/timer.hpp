/// \file
/// The timer: 32 bytes inside the object that it belongs to.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <cassert>
#include <concepts>
#include <type_traits>

#include "tvec/core/detail/chain.hpp"
#include "tvec/core/detail/jiffies.hpp"  // IWYU pragma: export
#include "tvec/core/detail/probes.hpp"
#include "tvec/core/detail/wants.hpp"

namespace tvec {

namespace detail {

class census_taker;
class inspector;
class layout;
struct own_wheel;

}  // namespace detail

class snapshot;
class timer;
class timer_wheel;

namespace detail {

/// A class derived from `timer`.
template <class T>
concept derived_timer = !std::same_as<T, timer> && std::derived_from<T, timer>;

}  // namespace detail

/// One pending call, embedded in the object it belongs to. Never allocates.
///
/// A timer is in at most one wheel at a time. Destroying it cancels it. Moving it moves its place
/// in the wheel: objects that hold timers may live in a std::vector that grows. Timer and wheel may
/// be destroyed in either order.
///
/// The place of a timer and its deadline are two things. Cancelling marks the timer idle and leaves
/// it linked. The wheel drops it at the next visit. Only `check` can tell that a cancelled timer is
/// still linked. A timer belongs to the thread of its wheel until it is destroyed, unlinked, fired,
/// drained, or armed on another wheel.
///
/// A linked timer must not be freed without a destructor, overwritten or copied as bytes. A debug
/// build finds that when the wheel or a neighbour reaches the timer, before it follows a link. It
/// prints the address of the timer in one line on the standard error output, and aborts.
class timer : private detail::link {  // call takes a pointer to it: &connection::idle
public:
    /// Called once when the timer fires, with the wheel it was armed on. The timer is no longer
    /// pending then, and the wheel does not touch it again. The callback may arm it again or
    /// destroy it, and do the same to any other timer.
    using callback = void (*)(timer_wheel&, timer&);

    /// Makes a timer that does nothing when it fires, except that it is no longer pending.
    constexpr timer() noexcept : timer(nullptr) {}

    /// Makes a timer that calls `fire`. A null `fire` does nothing. `call` is the usual `fire`:
    ///
    ///     tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
    constexpr explicit timer(callback fire) noexcept : fire_(fire ? fire : do_nothing) {}

    /// Takes the place of `other` in its wheel, its deadline and its callback. `other` is not
    /// pending afterwards. O(1). The wheel notices nothing.
    ///
    /// The callback moves along, the object it works on does not. A callback made by `call` finds
    /// its object around the timer. Therefore move a timer only to the same member of another
    /// object of the same class, as the move of that class does. A class derived from `timer` is
    /// moved as a whole: no plain timer can be made from a callback_timer.
    timer(timer&& other) noexcept : fire_(other.fire_) { take(other); }

    /// Cancels this timer, then does what the constructor does. Self-assignment is a no-op.
    timer& operator=(timer&& other) noexcept;

    /// Cancels. O(1). Writes the neighbours in the chain if the timer is still linked.
    ~timer() { unlink_if_linked(); }

    /// Makes `fire` the callback, whether the timer is pending or not. A null `fire` does nothing.
    /// Place and deadline stay. One store.
    void set_callback(callback fire) noexcept { fire_ = fire ? fire : do_nothing; }

    /// Returns whether the timer was armed, and has neither fired nor been cancelled since.
    bool pending() const noexcept { return linked() && !(expires_ & idle_bit); }

    /// Returns the tick that the timer was last armed for, also inside its callback and after it
    /// has fired or been cancelled. A timer armed for the past returns that past tick, although it
    /// is due at the next one. 0 if the timer was never armed.
    jiffies expires() const noexcept { return expires_ & ~idle_bit; }

    /// Cancels. The timer will not fire, even if it was already due. Returns whether it was
    /// pending, that is, going to fire. One store to the timer's own cache line. Needs no wheel.
    bool cancel() noexcept {
        TVEC_PROBE2(cancel, this, expires_);
        const bool was_pending = pending();
        expires_ |= idle_bit;
        return was_pending;
    }

    /// Cancels, and unlinks at once. Afterwards nothing refers to the bytes of the timer: they may
    /// be overwritten, freed or given to another thread without a destructor, as C programs do.
    /// Overwritten bytes have to be made a timer again (placement new) before they are armed.
    /// Returns what `cancel` returns. May be called wherever `cancel` may: for a timer that was
    /// cancelled, has fired or was never armed, and after its wheel is gone. The call must be made
    /// on the thread of the wheel. O(1). Writes the neighbours in the chain, as the destructor
    /// does. To keep the timer, prefer `cancel`.
    bool unlink() noexcept {
        const bool was_pending = cancel();
        unlink_if_linked();
        return was_pending;
    }

    // --- wrong calls, and what to write instead -------------------------------------------------

    void arm_after(const auto&...) const TVEC_WANTS("its wheel: timers.arm_after(t, 30s)");
    void reset(const auto&...) const TVEC_WANTS("timers.arm_after(t, 30s), or t.cancel()");
    timer(const timer&) TVEC_WANTS("std::move: a timer is in one place");
    timer& operator=(const timer&) TVEC_WANTS("std::move: a timer is in one place");
    explicit timer(detail::no<callback>) TVEC_WANTS("f(timer_wheel&, timer&), or callback_timer");
    template <detail::derived_timer T>
    timer(const T&) TVEC_WANTS("the whole callback_timer: its function stays behind");
    template <detail::derived_timer T>
    timer& operator=(const T&) TVEC_WANTS("the whole callback_timer: its function stays behind");

private:
    friend class timer_wheel;
    friend class detail::inspector;
    friend class detail::layout;
    friend class detail::census_taker;
    friend struct detail::own_wheel;
    friend class snapshot;

    static constexpr jiffies idle_bit = jiffies{1} << 63;

    static void do_nothing(timer_wheel&, timer&) {}

    static timer& of(detail::link& l) noexcept {
        assert(!l.ends_chain() && "a sentinel is no timer");
        return static_cast<timer&>(l);
    }
    static const timer& of(const detail::link& l) noexcept {
        assert(!l.ends_chain() && "a sentinel is no timer");
        return static_cast<const timer&>(l);
    }

    void unlink_if_linked() noexcept {
        if (linked()) link::unlink();
    }

    void take(timer& other) noexcept {
        assert(!linked() && "a timer hangs in one place");
        expires_ = other.expires_;
        if (other.linked()) replace(other);
    }

    jiffies expires_ = 0;  ///< with idle_bit: cancelled, perhaps still linked
    callback fire_;
};

static_assert(sizeof(void*) != 8 || sizeof(timer) == 32);

inline timer& timer::operator=(timer&& other) noexcept {
    if (this == &other) return *this;
    unlink_if_linked();
    fire_ = other.fire_;
    take(other);
    return *this;
}

}  // namespace tvec
