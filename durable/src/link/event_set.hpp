// Descriptors and timers behind one descriptor, which a loop watches.
#pragma once

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/drivers/eventfd_doorbell.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable::detail {

// An epoll set, and a wheel. Its descriptor is readable when one of the watched ones is ready, a
// timer is due, or it was rung.
class event_set {
public:
    // Throws std::system_error in the name of a store.
    explicit event_set(const std::string& store) : fd_(epoll_create1(EPOLL_CLOEXEC)) {
        if (fd_ < 0)
            throw std::system_error(errno, std::system_category(), store + ": epoll_create1");
        watch(alarm_.fd());
        watch(bell_.fd());
    }
    ~event_set() { close(fd_); }
    event_set(const event_set&) = delete;
    event_set& operator=(const event_set&) = delete;

    int fd() const noexcept { return fd_; }
    clocked_wheel<>& wheel() noexcept { return wheel_; }
    void watch(int fd) const {
        epoll_event e{};
        e.events = EPOLLIN;
        e.data.fd = fd;
        epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &e);
    }
    void unwatch(int fd) const { epoll_ctl(fd_, EPOLL_CTL_DEL, fd, nullptr); }
    // Makes the descriptor readable until the next `run`.
    void ring() {
        if (!std::exchange(has_rung_, true)) bell_();
    }
    // Has the alarm follow the wheel. Needed after a call from outside `run` that arms a timer.
    void rearm() { alarm_.rearm(); }

    // Calls `on_ready` with each watched descriptor that is ready and its events, then fires
    // timers.
    template <class F> void run(F on_ready) {
        epoll_event events[16];
        const int n = epoll_wait(fd_, events, 16, 0);
        for (int i = 0; i < n; ++i) {
            const int fd = events[i].data.fd;
            if (fd == alarm_.fd()) {
                alarm_.acknowledge();
            } else if (fd == bell_.fd()) {
                bell_.acknowledge();
                has_rung_ = false;
            } else {
                on_ready(fd, events[i].events);
            }
        }
        wheel_.run();
        alarm_.rearm();
    }

    // Waits for something to do. Returns false if there is no time left.
    bool wait_until(std::chrono::steady_clock::time_point limit) {
        const auto left = std::chrono::ceil<duration>(limit - std::chrono::steady_clock::now());
        if (left <= duration::zero()) return false;
        pollfd ready{fd_, POLLIN, 0};
        poll(&ready, 1, static_cast<int>(left.count()));
        return true;
    }

private:
    clocked_wheel<> wheel_{};
    timerfd_alarm<clocked_wheel<>> alarm_{wheel_};
    eventfd_doorbell bell_{};
    int fd_;
    bool has_rung_ = false;
};

}  // namespace tvec::durable::detail
