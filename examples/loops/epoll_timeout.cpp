// A wheel in a loop on epoll_wait, by the wait's own timeout: it needs no further descriptor. The
// timeout counts in milliseconds, so the loop wakes up to one of them late. A timerfd is exact
// (epoll.cpp).
#include <sys/epoll.h>

#include <algorithm>
#include <climits>
#include <cstdint>

#include "conversation.hpp"
#include "tvec/extra/stall_watch.hpp"

namespace {

int checked(int result, const char* tried) {
    if (result < 0) throw std::system_error(errno, std::system_category(), tried);
    return result;
}

// The timeout for epoll_wait in whole milliseconds, rounded up. It is 0 if the wake-up is past, and
// -1 (no timeout) if no timer is armed.
int until_next_wakeup(example::timers& timers) {
    using std::chrono::milliseconds;
    const auto wakeup = timers.next_wakeup();
    if (!wakeup) return -1;
    const auto left = std::chrono::ceil<milliseconds>(*wakeup - example::timers::clock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, INT_MAX));
}

}  // namespace

int main() {
    example::timers timers;
    example::conversation talk(timers);
    const int loop = checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    checked(epoll_ctl(loop, EPOLL_CTL_ADD, talk.fd(), &wanted), "epoll_ctl");
    std::array<epoll_event, 64> events;
    tvec::stall_watch watch(timers);
    while (!talk.over()) {
        const int ready = epoll_wait(loop, events.data(), 64, until_next_wakeup(timers));
        if (ready < 0 && errno != EINTR) checked(ready, "epoll_wait");
        watch.listen([&] {
            if (ready > 0) talk.on_readable();  // of several descriptors: see events[i].data
            return std::max(ready, 0);
        });
        watch.run(256);  // always, whatever woke us
    }
    ::close(loop);
    return talk.verdict("epoll_wait");
}
