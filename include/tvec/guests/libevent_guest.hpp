/// \file
/// A wheel that lives in a base of libevent.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <event2/event.h>
#include <event2/event_struct.h>

#include <algorithm>
#include <chrono>
#include <new>

#include "tvec/core/detail/broken_promise.hpp"
#include "tvec/guests/guest.hpp"

namespace tvec {

namespace detail {

/// One event with a timeout.
class libevent_host {
    using time_point = std::chrono::steady_clock::time_point;

public:
    libevent_host(guest_turn turn, event_base* base) : turn_(turn) {
        event_assign(&alarm_, base, -1, 0, &ring, this);
        alarm_.ev_evcallback.evcb_flags |= EVLIST_INTERNAL;
#ifdef __cpp_exceptions
        if (!add({})) throw std::bad_alloc();
#else
        if (!add({})) broken_promise("libevent_guest: libevent has no memory for its alarm");
#endif
    }
    ~libevent_host() {
        if (is(in_base)) event_del(&alarm_);
    }
    libevent_host(const libevent_host&) = delete;
    libevent_host& operator=(const libevent_host&) = delete;

    void set_alarm(time_point t) noexcept {
        if (!is(EVLIST_TIMEOUT) && !ringing_) return;  // its turn is about to come, or base is gone
        constexpr std::chrono::microseconds idle = std::chrono::hours(24);
        const auto left = nanoseconds_from(time_point::clock::now(), t);
        if (!add(std::min(idle, std::chrono::ceil<std::chrono::microseconds>(left))))
            broken_promise("libevent had no memory for the alarm of a guest");
    }
    void keep_running(bool on) {
        auto& flags = alarm_.ev_evcallback.evcb_flags;
        const bool waits = is(in_base);
        if (waits) event_del(&alarm_);
        flags = static_cast<short>(on ? flags & ~EVLIST_INTERNAL : flags | EVLIST_INTERNAL);
        if (waits && !add({}))  // its turn sets it
            broken_promise("libevent had no memory for the alarm of a guest");
    }

private:
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
    static void ring(evutil_socket_t, short, void* host) noexcept {
        auto& self = *static_cast<libevent_host*>(host);
        self.ringing_ = true;
        self.turn_();
        self.ringing_ = false;
    }

    guest_turn turn_;
    event alarm_{};
    bool ringing_ = false;
};

}  // namespace detail

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
/// **A turn** follows the I/O of a pass of the loop, with the priority of new events: events of a
/// higher priority that never cease starve it, as they starve the base's own timers. Turns and
/// stalls are those of every `guest`, as is what follows a change of the clock.
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
template <class Ticks = tick_clock<std::chrono::milliseconds>>
class libevent_guest : public guest<detail::libevent_host, Ticks> {
public:
    /// Makes an empty wheel in `base`. Throws std::bad_alloc if libevent has no memory.
    explicit libevent_guest(event_base* base, Ticks ticks = {})
        : guest<detail::libevent_host, Ticks>(base, ticks) {}
};

}  // namespace tvec
