// What a timer_thread sleeps in.
#pragma once

#include <chrono>

#ifdef __linux__
#include <poll.h>

#include "tvec/drivers/eventfd_doorbell.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"
#else
#include <condition_variable>
#include <functional>
#include <mutex>
#endif

namespace tvec::detail {

#ifdef __linux__

/// Sleeps in poll, on a descriptor of the wheel and one of the doorbell.
template <class Wheel> class sleeper {
public:
    explicit sleeper(Wheel& timers) : alarm_(timers) {}

    const eventfd_doorbell& bell() const noexcept { return bell_; }

    /// Sleeps until the wheel has something to do, the bell rings, or a millisecond has passed if
    /// the sleep is `brief`.
    void sleep(bool brief) {
        alarm_.rearm();
        pollfd watched[] = {{alarm_.fd(), POLLIN, 0}, {bell_.fd(), POLLIN, 0}};
        poll(watched, 2, brief ? 1 : -1);
        if (watched[0].revents != 0) alarm_.acknowledge();
        if (watched[1].revents != 0) bell_.acknowledge();
    }

private:
    timerfd_alarm<Wheel> alarm_;
    eventfd_doorbell bell_;
};

#else

/// Sleeps in a condition variable.
template <class Wheel> class sleeper {
public:
    explicit sleeper(Wheel& timers) : timers_(timers) {}

    /// Returns the bell: a reference to this object.
    std::function<void()> bell() noexcept {
        return [this] {
            const std::lock_guard lock(mutex_);
            rang_ = true;
            wakes_.notify_one();
        };
    }

    void sleep(bool brief) {
        using std::chrono::steady_clock;
        const auto next = timers_.next_wakeup();
        auto until = next.value_or(steady_clock::time_point::max());
        if (brief) until = std::min(until, steady_clock::now() + std::chrono::milliseconds(1));
        std::unique_lock lock(mutex_);
        const auto rang = [this] { return rang_; };
        // Some libraries add the time left to another clock, where a long one would overflow.
        while (!rang_ && steady_clock::now() < until)
            wakes_.wait_for(lock,
                            std::min<steady_clock::duration>(until - steady_clock::now(),
                                                             std::chrono::hours(1)),
                            rang);
        rang_ = false;
    }

private:
    Wheel& timers_;
    std::mutex mutex_;
    std::condition_variable wakes_;
    bool rang_ = false;
};

#endif

}  // namespace tvec::detail
