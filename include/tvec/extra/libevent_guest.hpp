/// \file
/// A wheel that lives in a base of libevent.
/// In extra/: before 1.0 a minor release may change or remove it.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <event2/event.h>
#include <event2/event_struct.h>

#include <algorithm>
#include <chrono>
#include <new>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/core/detail/broken_promise.hpp"
#include "tvec/extra/detail/fair_turn.hpp"

namespace tvec {

/// A clocked_wheel whose timers fire in event_base_dispatch:
///
///     tvec::libevent_guest timers{base};
///     timers->arm_after(session.idle, 30s);       // or a pool, a group, a mailbox on *timers
///     event_base_dispatch(base);                  // as before
///
/// **One event with a timeout** carries the next wake-up of all. It is added again when a timer is
/// armed for earlier, from anywhere on the thread: a callback, before the dispatch or between two
/// of them. A push-back is one store, of which libevent learns nothing. Timers are as late as those
/// of the base: some milliseconds, unless it has EVENT_BASE_FLAG_PRECISE_TIMER, because libevent
/// reads a coarse clock.
///
/// **The dispatch ends when nothing else is left**, however many timers are pending: see
/// keep_running. For the same reason EVLOOP_ONCE does not return for timers alone: a callback that
/// has the last word calls event_base_loopbreak.
///
/// **A turn** follows the I/O of a pass of the loop, with the priority of new events, and makes at
/// most 256 visits. After a stall of 100 ms or more, the loop makes 16 passes first, or passes for
/// half a second, to hear peers before a timer judges them.
///
/// **Exceptions** from callbacks of timers end the program (std::terminate), because they cannot
/// pass through libevent.
///
/// **One thread** runs the base, and owns the wheel, whatever evthread_use_pthreads locks: a debug
/// build asserts it. Other threads send by a mailbox whose doorbell wakes the base.
///
/// **Life.** Guest and base may be freed in either order: afterwards no timer is pending, or none
/// fires. Callbacks of the guest's timers must not destroy it. It stays where it is. A base may
/// have any number of guests.
template <class Ticks = tick_clock<std::chrono::milliseconds>> class libevent_guest {
public:
    using wheel_type = clocked_wheel<Ticks>;  ///< the wheel

    /// Makes an empty wheel in `base`. Throws std::bad_alloc if libevent has no memory.
    explicit libevent_guest(event_base* base, Ticks ticks = {}) : timers_(ticks) {
        event_assign(&alarm_, base, -1, 0, &turn, this);
        alarm_.ev_evcallback.evcb_flags |= EVLIST_INTERNAL;
        if (!add({})) throw std::bad_alloc();
        timers_.wheel().on_earlier_wakeup(&move_alarm, this);
    }
    ~libevent_guest() {
        if (is(in_base)) event_del(&alarm_);
    }
    libevent_guest(const libevent_guest&) = delete;
    libevent_guest& operator=(const libevent_guest&) = delete;

    wheel_type& operator*() noexcept { return timers_; }    ///< the wheel
    wheel_type* operator->() noexcept { return &timers_; }  ///< the wheel

    /// Counts as an event of the base until `keep_running(false)`: the dispatch goes on with
    /// nothing else, for a program that waits for nothing but timers.
    void keep_running(bool on = true) {
        const bool waited = is(in_base);
        if (waited) event_del(&alarm_);
        auto& flags = alarm_.ev_evcallback.evcb_flags;
        flags = static_cast<short>(on ? flags & ~EVLIST_INTERNAL : flags | EVLIST_INTERNAL);
        if (waited) set_alarm();
    }

private:
    using time_point = typename wheel_type::time_point;
    static constexpr int in_base = EVLIST_TIMEOUT | EVLIST_ACTIVE | EVLIST_ACTIVE_LATER;

    /// The alarm has one of these flags but for its turn, and after the base is gone.
    bool is(int flags) const noexcept { return alarm_.ev_evcallback.evcb_flags & flags; }
    bool add(std::chrono::microseconds left) noexcept {
        const auto whole = std::chrono::floor<std::chrono::seconds>(left);
        timeval t{};
        t.tv_sec = whole.count();
        t.tv_usec = (left - whole).count();
        return event_add(&alarm_, &t) == 0;
    }
    void set_alarm() noexcept {
        constexpr std::chrono::microseconds idle = std::chrono::hours(24);
        const auto now = wheel_type::clock::now();
        const auto left = detail::time_left(now, timers_.next_wakeup().value_or(time_point::max()));
        if (!add(std::min(idle, std::chrono::ceil<std::chrono::microseconds>(left))))
            detail::broken_promise("libevent had no memory for the alarm of a guest");
    }
    static void move_alarm(void* guest) noexcept {
        auto& self = *static_cast<libevent_guest*>(guest);
        if (self.is(EVLIST_TIMEOUT)) self.set_alarm();  // else its turn is about to come
    }
    static void turn(evutil_socket_t, short, void* guest) noexcept {
        auto& self = *static_cast<libevent_guest*>(guest);
        self.turn_.run(self.timers_);
        self.set_alarm();
    }

    wheel_type timers_;
    detail::fair_turn<wheel_type> turn_;
    event alarm_{};
};

}  // namespace tvec
