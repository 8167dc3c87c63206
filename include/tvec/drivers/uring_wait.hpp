/// \file
/// A wait of the reactor that ends at a deadline: no request, no completion, nothing in flight.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <liburing.h>

#include <chrono>
#include <cstdint>
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
    /// Returns success if the waits of that ring take a deadline, else an error.
    static kernel_result accepts(const io_uring& ring) noexcept;

    /// Makes the ring wait on `clock`, if the kernel supports that.
    timed_ring(io_uring& ring, alarm_clock clock) noexcept;

    /// Returns whether a limit is a point in time of the clock. If not, it is a time from the call.
    bool absolute() const noexcept { return absolute_; }

    /// Has the waits of the ring count as waits for I/O, or not, if the kernel supports that.
    void set_iowait(bool enable) noexcept;

    /// Has a wait go on for up to `longest` until `enough` completions are there, but not beyond
    /// its limit. Returns whether the kernel supports that.
    bool gather(std::chrono::microseconds longest, unsigned enough) noexcept;

    /// Submits queued requests and waits for one completion. Without a `limit` the wait may last
    /// for ever, and with a limit of zero or less it does not wait.
    kernel_result submit_and_wait(std::optional<std::chrono::nanoseconds> limit) noexcept;

private:
    int wait(std::optional<std::chrono::nanoseconds> limit) noexcept;
    std::uint32_t gathering_until(std::optional<std::chrono::nanoseconds>& limit) const noexcept;

    io_uring& ring_;
    std::uint32_t longest_us_ = 0;  ///< for which completions gather
    std::uint16_t enough_ = 1;      ///< completions that end such a wait at once
    std::uint8_t clock_;            ///< its clockid_t
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
///         handle_completions(ring);            // first: a message in time ends its timeout
///         timers.run(256);                     // always, whatever woke us
///     }
///
/// The wake-up is only an alarm: the time comes from the clock of `timers`. A wait may end early,
/// and does not say why it ended: look into the completion queue, and run the timers.
///
/// From Linux 6.12 on the ring waits on the clock of `timers`, if that is std::chrono::steady_clock
/// or boottime_clock. All uring_waits on one ring must have the same clock: the last one made sets
/// it. Before 6.12 the wait is on CLOCK_MONOTONIC. It ends at the resume from a suspend, so that
/// timers on boottime_clock fire: docs/io_uring.md. No ring can wait on
/// std::chrono::system_clock: a wait that has begun does not notice that the clock is stepped, and
/// lasts an hour at most. uring_timeout and timerfd_alarm notice it.
template <class Clocked> class uring_wait {
    static_assert(detail::clocked<Clocked>,
                  "uring_wait waits for a tvec::clocked_wheel: a timer_wheel has no clock");

public:
    /// Makes a wait. Throws std::system_error (operation_not_supported), and names what is missing,
    /// if the kernel takes no deadline in a wait (before 5.11), if the ring has
    /// IORING_SETUP_IOPOLL, where it would poll and ignore the deadline, or if the ring has
    /// IORING_SETUP_SQ_REWIND (Linux 7.0), where it would submit requests again.
    uring_wait(io_uring& ring, Clocked& timers)
        : ring_(accepted(ring), detail::alarm_clock_of<clock>), timers_(timers) {}
    uring_wait(io_uring&, Clocked&&) TVEC_WANTS("a wheel that outlives it");
    uring_wait(io_uring*, Clocked&) TVEC_WANTS("the ring, not its address: wait(ring, timers)");

    /// Has the waits of the ring count as waits for I/O (true), or as sleep, which is the default.
    /// Waits for I/O raise the frequency of the processor, which helps programs that wait for
    /// disks. They also make an idle server look like one that waits for a disk, in iowait and in
    /// /proc/pressure/io. It is liburing's io_uring_set_iowait (2.10), with any liburing: the last
    /// call of either wins, and the constructor calls it with false. A no-op before Linux 6.15,
    /// where each wait with a request in flight counts: docs/io_uring.md.
    void set_iowait(bool enable) noexcept { ring_.set_iowait(enable); }

    /// Lets completions gather. From now on a wait with a completion goes on until `enough` are
    /// there, for up to `longest` from its beginning, and never beyond timers.next_wakeup(). A loop
    /// with much I/O turns less often, and its messages wait for each other. A wait without a
    /// completion sleeps on as before. Costs a reading of the clock in each wait. A `longest` of
    /// zero or less ends it.
    ///
    /// Returns whether the kernel supports it: from Linux 6.12 on, for a wheel on
    /// std::chrono::steady_clock or boottime_clock, a ring without SQPOLL, and a process outside of
    /// shifted time namespaces. Otherwise waits stay as they were. Requires enough > 0.
    bool gather(std::chrono::microseconds longest, unsigned enough) noexcept {
        return ring_.gather(longest, enough);
    }

    /// Submits queued requests, and waits for one completion, at most until timers.next_wakeup().
    /// Then begins a turn of a turn_clock.
    /// With an empty wheel there is no limit. While a budget has left timers over it does not
    /// sleep, but still submits and reaps: I/O keeps moving.
    ///
    /// A timeout, a signal and a full completion queue end the wait and are no errors. Throws
    /// std::system_error for any other reason.
    void operator()() { turn(limit()); }

    /// Submits queued requests, and has the kernel post what has completed, as a wait does, but
    /// never sleeps: for a loop that has work of its own left. Then begins a turn of a turn_clock.
    /// Throws as a wait does.
    ///
    ///     own_work.empty() ? wait() : wait.poll();
    void poll() {
        note_sleep();
        turn(std::chrono::nanoseconds::zero());
    }

private:
    using clock = detail::base_clock_of<Clocked>;

    static io_uring& accepted(io_uring& ring) {
        detail::timed_ring::accepts(ring).or_throw();
        return ring;
    }

    void turn(std::optional<std::chrono::nanoseconds> limit) {
        const auto result = ring_.submit_and_wait(limit);
        timers_.begin_turn();
        result.or_throw();
    }

    void note_sleep() {
        detail::note_sleep(&timers_.wheel());
        detail::end_turn<typename Clocked::clock>();
    }

    std::optional<std::chrono::nanoseconds> limit() {
        note_sleep();
        const jiffies wakeup = timers_.wheel().next_wakeup().value_or(never);
        return detail::wait_limit(wakeup, timers_.wheel().now(), [this](jiffies tick) {
            const auto at = timers_.ticks().start_of(tick);
            return detail::alarm_time<clock>(detail::base_time(timers_.ticks(), at),
                                             ring_.absolute());
        });
    }

    detail::timed_ring ring_;
    Clocked& timers_;
};

/// Deduces the type of the wheel.
template <class Clocked> uring_wait(io_uring&, Clocked&) -> uring_wait<Clocked>;
/// The same for an address, which the constructor refuses.
template <class Clocked> uring_wait(io_uring*, Clocked&) -> uring_wait<Clocked>;

}  // namespace tvec
