/// \file
/// Waking a loop that watches descriptors, and where io_uring is refused: by the wait of epoll, or
/// by a descriptor, for poll, epoll and loops built on them.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/clock/detail/waiting.hpp"
#include "tvec/core/detail/export.hpp"
#include "tvec/core/detail/wants.hpp"
#include "tvec/drivers/detail/alarm_clock.hpp"
#include "tvec/drivers/detail/epoll_wait.hpp"
#include "tvec/drivers/detail/kernel_result.hpp"
#include "tvec/drivers/detail/only_earlier.hpp"

namespace tvec {

namespace detail {

/// Opens a timerfd on that clock.
TVEC_API kernel_result open_alarm(alarm_clock clock, int& fd) noexcept;
/// Sets it for a point in time, or for a time from now.
TVEC_API kernel_result set_alarm(int fd, bool absolute, std::chrono::nanoseconds time) noexcept;
/// Returns whether it has rung, and makes it unreadable.
TVEC_API kernel_result silence_alarm(int fd) noexcept;
TVEC_API void close_alarm(int fd) noexcept;

/// A timerfd.
class alarm_descriptor {
public:
    explicit alarm_descriptor(alarm_clock clock) : absolute_(clock.same_epoch) {
        open_alarm(clock, fd_).or_throw();
    }
    ~alarm_descriptor() { close_alarm(fd_); }
    alarm_descriptor(const alarm_descriptor&) = delete;
    alarm_descriptor& operator=(const alarm_descriptor&) = delete;

    int fd() const noexcept { return fd_; }
    bool absolute() const noexcept { return absolute_; }
    kernel_result set(std::chrono::nanoseconds time) noexcept {
        return set_alarm(fd_, absolute_, time);
    }
    bool read() { return silence_alarm(fd_).or_throw(); }

private:
    int fd_ = -1;
    bool absolute_;
};

}  // namespace detail

/// A descriptor that becomes readable when a wheel has something to do. One timerfd serves all
/// timers.
///
///     tvec::timerfd_alarm alarm{timers};
///     watch(alarm.fd(), EPOLLIN);
///     while (running) {
///         alarm.rearm();                       // the last thing before the loop sleeps
///         for (event& e : sleep())
///             if (e.fd == alarm.fd()) alarm.acknowledge(); else handle(e);
///         timers.run(256);                     // always, whatever woke us
///     }
///
/// The wake-up is only an alarm: the time comes from the clock of `timers`. The descriptor may
/// become readable too early, at most once for each wake-up that a push-back, a cancel or a clock
/// set back made needless.
///
/// On std::chrono::steady_clock, boottime_clock and system_clock the alarm is a point in time of
/// CLOCK_MONOTONIC, CLOCK_BOOTTIME (which does not wake a suspended machine) or CLOCK_REALTIME,
/// which the kernel moves when that clock is set: a step forward wakes the loop at once for the
/// timers that it passes over. On any other clock the alarm is the time left, in real time from the
/// call of `rearm`. If that clock is stepped forward, the next `rearm` moves the alarm. A sleep
/// that has begun does not notice the step.
///
/// `timers` must live as long as `rearm` is called. Alarm and wheel may be destroyed in either
/// order. A child made by fork shares the timer behind the descriptor, and must leave it alone.
template <class Clocked> class timerfd_alarm {
    static_assert(detail::clocked<Clocked>,
                  "timerfd_alarm rings for a tvec::clocked_wheel: a timer_wheel has no clock");

public:
    /// Makes an alarm that is not set: nothing is readable before the first `rearm`. Throws
    /// std::system_error, for example if there are no descriptors left.
    explicit timerfd_alarm(Clocked& timers)
        : timers_(timers), descriptor_(detail::alarm_clock_of<clock>) {}
    explicit timerfd_alarm(Clocked&&) TVEC_WANTS("a wheel that outlives it");

    /// Returns the descriptor, to be watched for reading in any way, and used for nothing else. It
    /// is non-blocking and closes on exec.
    int fd() const noexcept { return descriptor_.fd(); }

    /// Makes the descriptor become readable at timers.next_wakeup() or before, and at once if a
    /// budget has left work over. Call it last before every sleep.
    ///
    /// The alarm only moves earlier. If it need not move, this is a comparison, else one system
    /// call. On a clock of which the kernel knows nothing it reads the time, too. Throws
    /// std::system_error, which leaves the alarm as it was.
    ///
    /// A debug build reports on the standard error output that timers keep running late because
    /// `rearm` is not called, or that an alarm that has gone off is not acknowledged.
    void rearm() {
        const bool absolute = descriptor_.absolute();
        const auto now = [] { return clock::now(); };
        const auto set = [this](auto time) { return descriptor_.set(time); };
        detail::note_turn(this, &timers_.wheel(), set_for_, absolute, now);
        detail::only_earlier(set_for_, detail::base_wakeup(timers_), absolute, now, set).or_throw();
    }

    /// Makes the descriptor unreadable again. Returns whether it was readable. If it was not,
    /// nothing has changed. An alarm that has gone off stays readable until this call. One system
    /// call. Throws std::system_error.
    bool acknowledge() {
        const bool rang = descriptor_.read();
        if (rang) set_for_ = not_set;
        return rang;
    }

private:
    using clock = detail::base_clock_of<Clocked>;
    static constexpr auto not_set = std::chrono::nanoseconds::max();

    Clocked& timers_;
    detail::alarm_descriptor descriptor_;
    std::chrono::nanoseconds set_for_ = not_set;
};

/// Deduces the type of the wheel.
template <class Clocked> timerfd_alarm(Clocked&) -> timerfd_alarm<Clocked>;

/// Waits for events of an epoll instance, as epoll_wait(2) does, until a timer is due: the wheel
/// stands in the place of the timeout. One system call, no further descriptor, and nothing to
/// acknowledge.
///
///     epoll_event events[1024];               // room for all that may be ready at once
///     while (running) {
///         const int n = tvec::epoll_wait(loop, events, 1024, timers);
///         for (int i = 0; i < n; ++i) handle(events[i]);      // first: a message in time
///         timers.run(256);                     // always, whatever woke us
///     }
///
/// Returns the number of events, at most `most`: 0 if the time was over or a signal came. Throws
/// std::system_error for any other reason. Then begins a turn of a turn_clock. With an empty wheel
/// there is no limit, and while a budget has left timers over it does not sleep. Requires most > 0.
///
/// The wake-up is only an alarm: the time comes from the clock of `timers`. The wait is in
/// nanoseconds (epoll_pwait2, Linux 5.11), or in whole milliseconds where that is missing or
/// forbidden: then the loop wakes up to one of them late. The kernel delays each wait by the slack
/// of the thread, which prctl(PR_SET_TIMERSLACK, 1) in that thread reduces from 50 µs to none, and
/// longer waits by a thousandth of their time, which nothing reduces. A wait of more than a quarter
/// of a second therefore ends a little early, and the next one takes the rest.
///
/// A wait that has begun does not notice that a clock is stepped, and lasts an hour at most:
/// timerfd_alarm notices it. A suspend to RAM ends the wait at the resume.
template <class Clocked> int epoll_wait(int epoll, epoll_event* events, int most, Clocked& timers) {
    static_assert(detail::clocked<Clocked>,
                  "epoll_wait waits for a tvec::clocked_wheel: a timer_wheel has no clock");
    detail::note_sleep(&timers.wheel());
    int ready = 0;
    const auto result =
        detail::wait_on_epoll(epoll, events, most, detail::time_to_wakeup(timers), ready);
    timers.begin_turn();
    result.or_throw();
    return ready;
}

}  // namespace tvec
