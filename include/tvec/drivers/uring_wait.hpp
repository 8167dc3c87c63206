/// \file
/// Waking the reactor by its own wait: no request, no completion, nothing in flight.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <liburing.h>

#include <chrono>
#include <optional>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/core/detail/export.hpp"
#include "tvec/core/detail/wants.hpp"
#include "tvec/drivers/detail/alarm_clock.hpp"
#include "tvec/drivers/detail/kernel_result.hpp"

namespace tvec {

namespace detail {

/// A ring whose waits take a deadline.
class TVEC_API timed_ring {
public:
    /// Whether a deadline can ride in the waits of that ring; an error if not.
    static kernel_result accepts(const io_uring& ring) noexcept;

    /// Has the ring wait on `clock`, if the kernel can do that.
    timed_ring(io_uring& ring, alarm_clock clock) noexcept;

    /// Whether a wait ends at a point in time of the clock; if not, when so much time has passed.
    bool absolute() const noexcept { return absolute_; }

    /// Submits what is queued and waits for one completion: for as long as it takes if there is no
    /// `limit`, and not at all if the limit is zero or less.
    kernel_result submit_and_wait(std::optional<std::chrono::nanoseconds> limit) noexcept;

private:
    io_uring& ring_;
    bool absolute_;
};

}  // namespace detail

/// Lets a reactor sleep on its ring until a completion arrives or a timer is due. The deadline is
/// an argument of the wait itself (IORING_ENTER_EXT_ARG): it needs no submission, makes no
/// completion, and leaves nothing to cancel.
///
///     tvec::uring_wait wait{ring, timers};
///     while (running) {
///         wait();                              // submits, then sleeps
///         handle_completions(ring);            // first: who was heard in time is not silent
///         timers.run(256);                     // always, whatever woke us
///     }
///
/// The wake-up is only an alarm: what time it is comes from the clock of `timers`. A wait may end
/// early, and says nothing about why it ended: look into the completion queue, and run the timers.
///
/// From Linux 6.12 on the ring waits on the clock of `timers`, if that is std::chrono::steady_clock
/// or boottime_clock, and until a point in time, so that no clock is read before the wait; with
/// SQPOLL and in a time namespace with an offset, for as long as is left. All waits on one ring
/// have one clock: that of the uring_wait that was made for it last.
///
/// Before 6.12 a wait lasts as long as is left by the clock of `timers`, on CLOCK_MONOTONIC. So
/// after a suspend a timer on boottime_clock fires late, by at most what was left of the wait when
/// the machine was suspended, and by less than an hour. There timerfd_alarm does better, whose
/// descriptor the ring can poll; or uring_timeout, from 5.15 on.
///
/// `ring` and `timers` must outlive it. Rings with SQPOLL are fine.
template <class Clocked> class uring_wait {
    static_assert(detail::clocked<Clocked>,
                  "uring_wait waits for a tvec::clocked_wheel: a timer_wheel has no clock");

public:
    /// Throws std::system_error (operation_not_supported), naming what is missing, if the kernel
    /// cannot take a deadline in a wait (before 5.11), or if the ring is made with
    /// IORING_SETUP_IOPOLL, where waits poll and ignore it.
    uring_wait(io_uring& ring, Clocked& timers)
        : ring_(accepted(ring), detail::alarm_clock_of<clock>), timers_(timers) {}
    uring_wait(io_uring&, Clocked&&) TVEC_WANTS("a wheel that outlives it");

    /// Submits what is queued, and waits for one completion, at most until timers.next_wakeup().
    /// Nothing in the wheel: no limit. Timers left over by a budget: does not sleep, but still
    /// submits and reaps, so that I/O keeps moving.
    ///
    /// A timeout, a signal and a full completion queue end the wait and are no errors. Throws
    /// std::system_error for anything else.
    void operator()() { ring_.submit_and_wait(limit()).or_throw(); }

private:
    using clock = typename Clocked::clock;

    static io_uring& accepted(io_uring& ring) {
        detail::timed_ring::accepts(ring).or_throw();
        return ring;
    }

    std::optional<std::chrono::nanoseconds> limit() {
        detail::note_sleep(&timers_.wheel());
        const jiffies wakeup = timers_.wheel().next_wakeup().value_or(never);
        return detail::wait_limit(wakeup, timers_.wheel().now(), [this](jiffies tick) {
            return detail::alarm_time<clock>(timers_.ticks().start_of(tick), ring_.absolute());
        });
    }

    detail::timed_ring ring_;
    Clocked& timers_;
};

/// Deduces the type of the wheel.
template <class Clocked> uring_wait(io_uring&, Clocked&) -> uring_wait<Clocked>;

}  // namespace tvec
