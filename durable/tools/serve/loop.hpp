// The loop of `serve`: a wheel, its alarm, and descriptors with a function for each.
#pragma once

#include <sys/epoll.h>
#include <sys/signalfd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>

#include "../../../examples/support/descriptors.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"

namespace timers_tool {

class loop {
public:
    using handler = std::function<void(std::uint32_t events)>;

    // From here on SIGTERM and SIGINT call `on_signal`. Construct it before any thread.
    explicit loop(std::function<void()> on_signal) {
        std::signal(SIGPIPE, SIG_IGN);
        if (epoll_.get() < 0) example::fail("epoll_create1");
        watch(alarm_.fd(), EPOLLIN, [this](auto) { alarm_.acknowledge(); });
        watch(signals_.get(), EPOLLIN, [this, on_signal = std::move(on_signal)](auto) {
            signalfd_siginfo read_away;
            while (read(signals_.get(), &read_away, sizeof read_away) > 0) on_signal();
        });
    }
    loop(const loop&) = delete;
    loop& operator=(const loop&) = delete;

    tvec::clocked_wheel<>& wheel() { return wheel_; }

    // Calls `h` when the descriptor is ready for these events, or sets others for it.
    void watch(int fd, std::uint32_t events, handler h) {
        handlers_[fd] = std::make_shared<handler>(std::move(h));
        control(EPOLL_CTL_ADD, fd, events);
    }
    void change(int fd, std::uint32_t events) { control(EPOLL_CTL_MOD, fd, events); }
    // Call it before the descriptor is closed.
    void forget(int fd) {
        handlers_.erase(fd);
        epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    }

    // Sleeps until there is work, does it, and runs the wheel.
    void turn() {
        alarm_.rearm();
        std::array<epoll_event, 64> ready;
        const int n = epoll_wait(epoll_.get(), ready.data(), ready.size(), -1);
        if (n < 0 && errno != EINTR) example::fail("epoll_wait");
        for (int i = 0; i < n; ++i) {
            const auto found = handlers_.find(ready[static_cast<std::size_t>(i)].data.fd);
            if (found == handlers_.end()) continue;  // forgotten by an earlier handler
            const auto kept = found->second;         // it may forget itself
            (*kept)(ready[static_cast<std::size_t>(i)].events);
        }
        wheel_.run(1'024);
    }

private:
    void control(int how, int fd, std::uint32_t events) {
        epoll_event e{};
        e.events = events;
        e.data.fd = fd;
        if (epoll_ctl(epoll_.get(), how, fd, &e) != 0) example::fail("epoll_ctl");
    }

    tvec::clocked_wheel<> wheel_;
    tvec::timerfd_alarm<tvec::clocked_wheel<>> alarm_{wheel_};
    example::descriptor epoll_{epoll_create1(EPOLL_CLOEXEC)};
    example::descriptor signals_ = example::signal_descriptor();
    std::unordered_map<int, std::shared_ptr<handler>> handlers_;
};

}  // namespace timers_tool
