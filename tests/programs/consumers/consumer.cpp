// A program that uses an installed tvec. Exits with 0 if its timer wakes it and fires.
#include <poll.h>
#include <tvec/tvec.hpp>

#include <cstdio>

static_assert(TVEC_VERSION >= TVEC_MAKE_VERSION(0, 1, 0));

namespace {

struct connection {
    void on_idle() { closed = true; }
    bool closed = false;
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};

}  // namespace

int main() {
    tvec::clocked_wheel timers;
    tvec::timerfd_alarm alarm{timers};
    tvec::timeout_pool pool(timers);
    connection client;
    bool reminded = false;
    (void)pool.schedule(std::chrono::milliseconds(1), [&reminded] { reminded = true; });
    timers.arm_after(client.idle, std::chrono::milliseconds(2));
    while (!client.closed) {
        alarm.rearm();
        pollfd fd{alarm.fd(), POLLIN, 0};
        if (poll(&fd, 1, 10'000) != 1) return 1;
        alarm.acknowledge();
        timers.run();
    }
    std::puts("tvec " TVEC_VERSION_STRING);
    return reminded && tvec::check(timers.wheel()).empty() ? 0 : 1;
}
