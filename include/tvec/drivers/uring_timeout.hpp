/// \file
/// One timeout request in a ring for all timers, for reactors that wait in their own way.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <liburing.h>

#include <cassert>
#include <cstdint>
#include <utility>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/core/detail/export.hpp"
#include "tvec/core/detail/wants.hpp"
#include "tvec/drivers/detail/alarm_clock.hpp"
#include "tvec/drivers/detail/kernel_result.hpp"
#include "tvec/drivers/detail/only_earlier.hpp"

namespace tvec {

/// The default top byte of the user data of all requests of a `uring_timeout`. The application's
/// user data must not have it. Addresses (whose top byte is 0, unless pointers are tagged) and
/// small numbers do not; packed fields may (docs/io_uring.md).
inline constexpr std::uint8_t uring_timeout_tag = 0xA7;

/// Returns whether a completion belongs to any uring_timeout with this tag, alive or destroyed.
constexpr bool is_uring_timeout(std::uint64_t user_data,
                                std::uint8_t tag = uring_timeout_tag) noexcept {
    return user_data >> 56 == tag;
}

namespace detail {

/// The request in the ring. Every request it submits has this user data:
///
///     bits 63-56   tag
///          55-54   kind of request: see `kind`
///          53-24   number of the alarm in this process
///          23-0    number of its timeout
///
/// It contains no address: a completion that outlives the alarm belongs to nobody, and does no
/// harm.
class TVEC_API ring_alarm {
public:
    /// Returns success if the ring takes timeouts, else an error.
    static kernel_result accepts(const io_uring& ring) noexcept;

    /// Returns whether the kernel takes the time of a timeout from the request itself (7.1). Makes
    /// a ring to find out, at the first call in the process.
    static bool kernel_reads_requests() noexcept;

    /// Returns the error with which the kernel refuses a timeout in a ring of its own, or 0: it
    /// takes timeouts, or there can be no such ring. A filter of the process may refuse them, for
    /// all its rings (Linux 7.0).
    static int refusal_of_kernel() noexcept;

    ring_alarm(io_uring& ring, alarm_clock clock, std::uint8_t tag) noexcept
        : ring_alarm(ring, clock, tag, kernel_reads_requests()) {}
    /// Makes requests that carry their time, or that point to it.
    ring_alarm(io_uring& ring, alarm_clock clock, std::uint8_t tag, bool carry_time) noexcept;
    ring_alarm(const ring_alarm&) = delete;
    ring_alarm& operator=(const ring_alarm&) = delete;

    bool absolute() const noexcept { return absolute_; }

    /// Queues a request that sets the alarm for `time`, which is earlier than it is set for.
    /// Returns whether there was room.
    kernel_result set(std::chrono::nanoseconds time) noexcept;
    /// Returns whether the wait will end at the time that the alarm was last set for, or before.
    bool is_set() const noexcept { return set_; }

    /// Returns whether the completion belongs to this alarm.
    kernel_result complete(std::uint64_t user_data, int result) noexcept;

    /// Queues the removal. Its completion is the last of all. Returns whether there was room.
    kernel_result queue_removal() noexcept;
    bool in_ring() const noexcept { return in_flight_ || leaving_; }
    kernel_result wait_for_completion(io_uring_cqe*& cqe) noexcept;
    void consume_completion() noexcept {
        assert(io_uring_cq_ready(&ring_) != 0 && "nobody else reaps completions meanwhile");
        io_uring_cq_advance(&ring_, 1);
    }

private:
    enum class kind : std::uint8_t { timeout, move, removal };

    std::uint64_t user_data(kind what) const noexcept;
    bool is_mine(std::uint64_t user_data) const noexcept;
    kernel_result reserve_sqe(io_uring_sqe*& sqe) noexcept;
    unsigned time_flags() const noexcept;
    std::uint64_t time_argument() const noexcept;
    void start(io_uring_sqe& sqe) noexcept;
    void move(io_uring_sqe& sqe) noexcept;
    kernel_result ended(int error) noexcept;
    kernel_result refuse(int error, const char* tried) noexcept;

    io_uring& ring_;
    unsigned clock_flag_;
    bool absolute_;
    bool carries_time_;
    bool set_ = false;
    bool in_flight_ = false;  ///< a timeout without a completion yet
    bool leaving_ = false;    ///< the final removal is queued
    std::uint8_t tag_;
    std::uint32_t number_;
    int refused_ = 0;  ///< the error with which the kernel has refused a request for good
    std::uint64_t timeouts_ = 0;
    __kernel_timespec time_{};  ///< read at the submission, unless the request carries it
};

}  // namespace detail

/// Keeps one IORING_OP_TIMEOUT in a ring. Any kind of wait for a completion then wakes when a wheel
/// has something to do. For reactors whose wait is made by other code. Otherwise uring_wait is
/// simpler.
///
///     tvec::uring_timeout alarm{ring, timers};
///     while (running) {
///         const bool set = alarm.prepare();    // queues one request at most
///         submit_and_wait(ring, set);          // if not set: submit and reap, but do not sleep
///         for (io_uring_cqe& cqe : completions(ring))
///             if (!alarm.complete(cqe)) handle(cqe);
///         timers.run(256);                     // always, whatever woke us
///     }
///
/// The wake-up is only an alarm: the time comes from the clock of `timers`. A completion may come
/// late, wait behind others, or be dropped with the ring. The timeout only moves earlier, so a
/// push-back, a cancel or a clock that is set back may leave one early wake-up. From Linux 5.15 on
/// a timeout on std::chrono::system_clock follows that clock when it is set. Of another clock that
/// is stepped forward, and before 5.15, the next `prepare` notices the step, and a sleep that has
/// begun does not. The time until an alarm on another clock counts from its submission, so the
/// alarm is late by as long as the kernel has refused that (EBUSY).
///
/// `ring` and `timers` must live as long as `prepare` is called, and `ring` as long as `complete`
/// and `detach` are. Do not destroy the alarm between `prepare` and the submission: before Linux
/// 7.1 the kernel reads the time from it then. It is neither copied nor moved. Do not put it behind
/// IOSQE_IO_DRAIN requests, nor into a chain of linked requests. User data and destruction:
/// docs/io_uring.md.
///
/// The timeout is a request in flight, with which each wait of the loop counts as waiting for I/O.
/// From Linux 6.15 on liburing's io_uring_set_iowait(ring, false) ends that (2.10).
template <class Clocked> class uring_timeout {
    static_assert(detail::clocked<Clocked>,
                  "uring_timeout wakes for a tvec::clocked_wheel: a timer_wheel has no clock");

public:
    /// Makes an alarm. Submits nothing yet. Throws std::system_error (operation_not_supported) with
    /// the reason if the ring has IORING_SETUP_IOPOLL or IORING_SETUP_SQPOLL, or if the kernel
    /// cannot move a timeout (before 5.11). With IOPOLL the kernel refuses timeouts. With SQPOLL
    /// the kernel thread would spin for every wake-up, and might read the time after it was
    /// overwritten: use uring_wait there.
    uring_timeout(io_uring& ring, Clocked& timers, std::uint8_t tag = uring_timeout_tag)
        : timers_(timers), alarm_(accepted(ring), detail::alarm_clock_of<clock>, tag) {}
    uring_timeout(io_uring&, Clocked&&, std::uint8_t = 0) TVEC_WANTS("a wheel that outlives it");
    uring_timeout(io_uring*, Clocked&) TVEC_WANTS("the ring, not its address: alarm(ring, timers)");

    /// Makes a completion arrive at timers.next_wakeup() or before, and at once if a budget has
    /// left work over. Call it before every submission that may sleep.
    ///
    /// Queues one request at most, and none if the alarm need not move earlier: then it is a
    /// comparison. A full submission queue is submitted to make room. Returns false if even that
    /// makes no room: then do not sleep, reap completions, and call again. Throws std::system_error
    /// if submitting fails. It also throws, and queues nothing, whenever a timeout would be needed
    /// after `complete` has thrown: take a timerfd_alarm, or poll its descriptor in the ring.
    ///
    /// A debug build reports on the standard error output that timers keep running late because
    /// `prepare` is not called, or that an expired timeout was not given to `complete`.
    [[nodiscard]] bool prepare() {
        const bool absolute = alarm_.absolute();
        const auto now = [] { return clock::now(); };
        const auto set = [this](auto time) { return alarm_.set(time); };
        detail::note_turn(this, &timers_.wheel(), set_for_, absolute, now);
        const auto wakeup = detail::base_wakeup(timers_);
        return detail::only_earlier(set_for_, wakeup, absolute, now, set).or_throw();
    }

    /// Returns whether a completion belongs to this alarm. If so it has been dealt with. If not,
    /// nothing has changed. Runs no timers. Throws std::system_error if the kernel refused the
    /// timeout for a permanent reason (a restricted ring, a filter of the process).
    bool complete(const io_uring_cqe& cqe) { return complete(cqe.user_data, cqe.res); }

    /// Does the same for loops that have copied the fields of the completion.
    bool complete(std::uint64_t user_data, int result) {
        const detail::kernel_result ours = alarm_.complete(user_data, result);
        if (!alarm_.is_set()) set_for_ = not_set;
        return ours.or_throw();
    }

    /// Takes all requests of this alarm out of the ring, and waits until they are out. Completions
    /// of others that arrive before are passed to `foreign(const io_uring_cqe&)`, in their order,
    /// and consumed when it returns or throws. `foreign` may queue requests, but must not reap
    /// completions. Queued requests are submitted. `prepare` may be called again later. Throws
    /// std::system_error.
    template <class F> void detach(F foreign) {
        while (!alarm_.queue_removal().or_throw()) take_completion(foreign);
        while (alarm_.in_ring()) take_completion(foreign);
        set_for_ = not_set;
    }

private:
    using clock = detail::base_clock_of<Clocked>;
    static constexpr auto not_set = std::chrono::nanoseconds::max();

    static io_uring& accepted(io_uring& ring) {
        detail::ring_alarm::accepts(ring).or_throw();
        return ring;
    }

    struct consumed_at_end {
        explicit consumed_at_end(detail::ring_alarm& a) : alarm(a) {}
        ~consumed_at_end() { alarm.consume_completion(); }
        consumed_at_end(const consumed_at_end&) = delete;
        consumed_at_end& operator=(const consumed_at_end&) = delete;
        detail::ring_alarm& alarm;
    };

    template <class F> void take_completion(F& foreign) {
        io_uring_cqe* cqe = nullptr;
        alarm_.wait_for_completion(cqe).or_throw();
        const consumed_at_end guard(alarm_);
        if (!complete(*cqe)) foreign(std::as_const(*cqe));
    }

    Clocked& timers_;
    detail::ring_alarm alarm_;
    std::chrono::nanoseconds set_for_ = not_set;
};

/// Deduces the type of the wheel.
template <class Clocked> uring_timeout(io_uring&, Clocked&) -> uring_timeout<Clocked>;
/// The same for an address, which the constructor refuses.
template <class Clocked> uring_timeout(io_uring*, Clocked&) -> uring_timeout<Clocked>;

}  // namespace tvec
