// A program of somebody who imports tvec. Exits with 0 if a timer, a pool and a coroutine that it
// armed wake it and fire. WANT_URING, WANT_DURABLE and WANT_REDIS say what else was installed.
#include <poll.h>
#include <tvec/version.hpp>

#include <chrono>
#include <coroutine>
#include <cstdio>
#include <exception>

import tvec;

#ifdef WANT_URING
static_assert(sizeof(tvec::uring_doorbell) > 0);
#endif
#ifdef WANT_DURABLE
static_assert(sizeof(tvec::durable::sqlite_store) > 0);
#endif
#ifdef WANT_REDIS
static_assert(sizeof(tvec::durable::redis_store) > 0);
#endif

namespace {

struct connection {
    void on_idle() { closed = true; }
    bool closed = false;
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};

struct detached {
    struct promise_type {
        detached get_return_object() const { return {}; }
        std::suspend_never initial_suspend() const noexcept { return {}; }
        std::suspend_never final_suspend() const noexcept { return {}; }
        void return_void() const {}
        void unhandled_exception() const { std::terminate(); }
    };
};

detached rest(tvec::clocked_wheel<>& timers, bool& rested) {
    co_await tvec::sleep_for(timers, std::chrono::milliseconds(1));
    rested = true;
}

}  // namespace

int main() {
    tvec::clocked_wheel timers;
    tvec::timerfd_alarm alarm{timers};
    tvec::timeout_pool pool(timers);
    connection client;
    bool reminded = false, rested = false;
    const auto reminder =
        pool.schedule(std::chrono::milliseconds(1), [&reminded] { reminded = true; });
    rest(timers, rested);
    timers.arm_after(client.idle, std::chrono::milliseconds(2));
    while (!client.closed) {
        alarm.rearm();
        pollfd fd{alarm.fd(), POLLIN, 0};
        if (poll(&fd, 1, 10'000) != 1) return 1;
        alarm.acknowledge();
        timers.run();
    }
    std::puts("tvec " TVEC_VERSION_STRING);
    const bool named = reminder && reminder.handle != tvec::timeout_handle{};
    return named && reminded && rested && tvec::check(timers.wheel()).empty() ? 0 : 1;
}
