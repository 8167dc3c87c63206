/// \file
/// Waking the reactor by its own wait: no request, no completion, nothing in flight.
#pragma once

#include <liburing.h>

#include <chrono>
#include <optional>

#include "tvec/clocked_wheel.hpp"
#include "tvec/detail/core/export.hpp"
#include "tvec/detail/drivers/alarm_clock.hpp"

namespace tvec {

namespace detail {

/// Throws std::system_error if a deadline cannot ride in the waits of `ring`.
TVEC_API void require_timed_wait(const io_uring& ring);

/// Submits what is queued and waits for one completion: for as long as it takes if there is no
/// `limit`, and not at all if the limit is zero or less. Throws std::system_error.
TVEC_API void submit_and_wait(io_uring& ring, std::optional<std::chrono::nanoseconds> limit);

}  // namespace detail

/// Lets a reactor sleep on its ring until a completion arrives or a timer is due. The deadline is
/// an argument of the wait itself (IORING_ENTER_EXT_ARG): it needs no submission, makes no
/// completion, and leaves nothing to cancel.
///
///     tvec::uring_wait wait{ring, timers};
///     while (running) {
///         wait();                              // submits, then sleeps
///         timers.run(256);                     // always, whatever woke us
///         handle_completions(ring);
///     }
///
/// The wake-up is only an alarm: what time it is comes from the clock of `timers`. A wait may end
/// early, and says nothing about why it ended; look into the completion queue and run the timers.
///
/// `ring` and `timers` must outlive it. Rings with SQPOLL are fine.
template <class Clocked> class uring_wait {
public:
    /// Throws std::system_error (operation_not_supported), naming what is missing, if the kernel
    /// cannot take a deadline in a wait (before 5.11), or if the ring is made with
    /// IORING_SETUP_IOPOLL, where waits poll and ignore it.
    uring_wait(io_uring& ring, Clocked& timers) : ring_(ring), timers_(timers) {
        detail::require_timed_wait(ring);
    }

    /// Submits what is queued, and waits for one completion, at most until timers.next_wakeup().
    /// No timer pending: no limit. Timers left over by a budget: does not sleep, but still
    /// submits and reaps, so that I/O keeps moving.
    ///
    /// A timeout, a signal and a full completion queue end the wait and are no errors. Throws
    /// std::system_error for anything else.
    void operator()() { detail::submit_and_wait(ring_, limit()); }

private:
    std::optional<std::chrono::nanoseconds> limit() {
        const auto wakeup = timers_.next_wakeup();
        if (!wakeup) return std::nullopt;
        return detail::nanoseconds_from(Clocked::clock::now(), *wakeup);
    }

    io_uring& ring_;
    Clocked& timers_;
};

}  // namespace tvec
