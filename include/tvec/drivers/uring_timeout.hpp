/// \file
/// Waking a reactor that waits in its own way: one timeout request in its ring for all timers.
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

/// The top byte of the user data of every request that `uring_timeout` makes, if nothing else is
/// asked for. The application's own user data must not have it: addresses (whose top byte is 0,
/// unless pointers are tagged) and small numbers do not.
inline constexpr std::uint8_t uring_timeout_tag = 0xA7;

/// Whether a completion belongs to some uring_timeout with this tag, be it alive or gone.
constexpr bool is_uring_timeout(std::uint64_t user_data,
                                std::uint8_t tag = uring_timeout_tag) noexcept {
    return user_data >> 56 == tag;
}

namespace detail {

/// The request in the ring. The user data of everything it submits is
///
///     bits 63-56   tag
///          55-54   what it is: see `kind`
///          53-24   which alarm of this process
///          23-0    which of its timeouts
///
/// and never an address: a completion that outlives the alarm finds nobody, and does no harm.
class TVEC_API ring_alarm {
public:
    /// Whether timeouts can be in that ring; an error if not.
    static kernel_result accepts(const io_uring& ring) noexcept;

    ring_alarm(io_uring& ring, alarm_clock clock, std::uint8_t tag) noexcept;
    ring_alarm(const ring_alarm&) = delete;
    ring_alarm& operator=(const ring_alarm&) = delete;

    bool absolute() const noexcept { return absolute_; }

    /// Queues what makes the alarm ring at `time`, earlier than it is set for. Whether there
    /// was room.
    kernel_result set(std::chrono::nanoseconds time) noexcept;
    /// Whether the wait will end when the alarm was last set for, or before.
    bool is_set() const noexcept { return set_; }

    /// Whether the completion was ours.
    kernel_result complete(std::uint64_t user_data, int result) noexcept;

    /// Queues the removal; its completion is the last of all. Whether there was room.
    kernel_result queue_removal() noexcept;
    bool in_ring() const noexcept { return in_flight_ || leaving_; }
    kernel_result wait_for_completion(io_uring_cqe*& cqe) noexcept;
    void consume_completion() noexcept {
        assert(io_uring_cq_ready(&ring_) != 0 && "nobody else reaps completions meanwhile");
        io_uring_cq_advance(&ring_, 1);
    }

private:
    enum class kind : std::uint8_t { timeout, move, cut, removal };

    std::uint64_t user_data(kind what) const noexcept;
    bool is_mine(std::uint64_t user_data) const noexcept;
    kernel_result room(io_uring_sqe*& sqe) noexcept;
    void start(io_uring_sqe& sqe) noexcept;
    void move(io_uring_sqe& sqe) noexcept;
    void cut_short(io_uring_sqe& sqe) noexcept;
    void tag_change(io_uring_sqe& sqe, kind what) noexcept;
    kernel_result ended(int error) noexcept;
    void not_moved() noexcept;

    io_uring& ring_;
    unsigned clock_flag_;
    bool absolute_;
    bool can_move_ = true;  ///< the kernel knows IORING_TIMEOUT_UPDATE
    bool set_ = false;
    bool in_flight_ = false;  ///< a timeout whose completion has not been seen
    bool cut_short_ = false;  ///< it is being removed, to be set anew
    bool leaving_ = false;    ///< the last removal has been queued
    std::uint8_t tag_;
    std::uint32_t number_;
    std::uint64_t timeouts_ = 0;
    __kernel_timespec time_{};  ///< read by the kernel when it is submitted
};

}  // namespace detail

/// Keeps one IORING_OP_TIMEOUT in a ring, so that whatever waits for a completion wakes when a
/// wheel has something to do. For reactors whose wait is not ours to make; otherwise uring_wait is
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
/// The wake-up is only an alarm: what time it is comes from the clock of `timers`. So it does no
/// harm if a completion of ours is late, waits behind others, or is dropped with the ring. The
/// timeout is only ever moved earlier; what a push-back or a cancel has made needless costs one
/// early wake-up.
///
/// User data. Everything it submits has `tag` as its top byte and no address below, so completions
/// are told apart by value. Several alarms may share a ring and a tag; each claims its own. One
/// that is destroyed while its timeout is in the ring leaves a completion that nobody claims: ask
/// is_uring_timeout before taking a completion for your own, or `detach` first.
///
/// Life. `ring` and `timers` must live as long as `prepare` is called, and `ring` for `complete`
/// and `detach`. The three may be destroyed in any order, but the alarm not between `prepare` and
/// the submission, for the kernel reads its time then. It is neither copied nor moved.
///
/// Do not put it behind IOSQE_IO_DRAIN requests, nor into a chain of linked ones: what it queues
/// would wait for them.
template <class Clocked> class uring_timeout {
    static_assert(detail::clocked<Clocked>,
                  "uring_timeout wakes for a tvec::clocked_wheel: a timer_wheel has no clock");

public:
    /// Submits nothing yet. Throws std::system_error (operation_not_supported), saying why, if the
    /// ring is made with IORING_SETUP_IOPOLL, whose kernel refuses timeouts, or with
    /// IORING_SETUP_SQPOLL, whose kernel thread would spin for every wake-up and might read the
    /// time when it has already been overwritten: there use uring_wait.
    uring_timeout(io_uring& ring, Clocked& timers, std::uint8_t tag = uring_timeout_tag)
        : timers_(timers), alarm_(accepted(ring), detail::alarm_clock_of<clock>, tag) {}
    uring_timeout(io_uring&, Clocked&&, std::uint8_t = 0) TVEC_WANTS("a wheel that outlives it");

    /// Sees to it that a completion arrives at timers.next_wakeup(), or before. Work left over by
    /// a budget: at once. Call it before every submission that may sleep.
    ///
    /// Queues one request at most, and none if the alarm need not be earlier: then it is a
    /// comparison. If the submission queue is full, submits it to make room. Returns false if even
    /// that makes none: then do not sleep, reap completions, and call again. Throws
    /// std::system_error if submitting fails.
    ///
    /// A debug build says on the standard error output if timers keep running late because it is
    /// not called, or if a timeout that has expired was not shown to `complete`.
    [[nodiscard]] bool prepare() {
        detail::note_turn<clock>(this, &timers_.wheel(), set_for_);
        const time_point wakeup = timers_.next_wakeup().value_or(not_set);
        const auto set = [&] {
            return alarm_.set(detail::alarm_time<clock>(wakeup, alarm_.absolute()));
        };
        return detail::only_earlier(set_for_, wakeup, set).or_throw();
    }

    /// Whether a completion is ours. If so it has been dealt with; if not, nothing has changed.
    /// Runs no timers. Throws std::system_error if the kernel has refused the timeout for a reason
    /// that will not pass (a restricted ring, say).
    bool complete(const io_uring_cqe& cqe) { return complete(cqe.user_data, cqe.res); }

    /// The same for loops that have copied what they need from the completion.
    bool complete(std::uint64_t user_data, int result) {
        const bool ours = alarm_.complete(user_data, result).or_throw();
        if (ours && !alarm_.is_set()) set_for_ = not_set;
        return ours;
    }

    /// Takes everything of ours out of the ring, and waits until it is out. Completions of others
    /// that arrive before are handed to `foreign(const io_uring_cqe&)`, in their order, and
    /// consumed when it returns or throws; it may queue requests, but reap no completions. What is
    /// queued is submitted. `prepare` may be called again later. Throws std::system_error.
    template <class F> void detach(F foreign) {
        while (!alarm_.queue_removal().or_throw()) take_completion(foreign);
        while (alarm_.in_ring()) take_completion(foreign);
        set_for_ = not_set;
    }

private:
    using clock = typename Clocked::clock;
    using time_point = typename Clocked::time_point;
    static constexpr time_point not_set = time_point::max();

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
    time_point set_for_ = not_set;
};

/// Deduces the type of the wheel.
template <class Clocked> uring_timeout(io_uring&, Clocked&) -> uring_timeout<Clocked>;

}  // namespace tvec
