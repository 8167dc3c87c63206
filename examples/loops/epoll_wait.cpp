// A wheel in a loop on epoll: tvec::epoll_wait is the wait of epoll with the wheel in the place of
// the timeout. For poll, and for frameworks that take a timeout, timers.wait_ms() is that timeout;
// a loop that another one watches takes a timerfd (epoll.cpp).
#include <sys/epoll.h>
#include <sys/prctl.h>

#include "conversation.hpp"
#include "mailbox.hpp"
#include "tvec/clock/stall_watch.hpp"

namespace {

int checked(int result, const char* tried) {
    if (result < 0) throw std::system_error(errno, std::system_category(), tried);
    return result;
}

void watch_for_reading(int loop, int fd) {
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    wanted.data.fd = fd;
    checked(epoll_ctl(loop, EPOLL_CTL_ADD, fd, &wanted), "epoll_ctl");
}

}  // namespace

int main() {
    example::timers timers;
    example::conversation talk(timers);
    example::mailbox mailbox(timers, 4);
    talk.let_in(mailbox.sender());
    const int loop = checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
    watch_for_reading(loop, talk.fd());
    watch_for_reading(loop, mailbox.fd());
    const auto handle = [&](int fd) {
        if (fd == talk.fd()) talk.on_readable();
        if (fd == mailbox.fd()) mailbox.on_readable();  // what other threads have sent
    };
    // [loop]
    prctl(PR_SET_TIMERSLACK, 1);  // of this thread: waits end on time, and not up to 50 µs late
    std::array<epoll_event, 1024> events;  // room for all that may be ready at once
    tvec::stall_watch watch(timers);
    while (!talk.over()) {
        const int n = tvec::epoll_wait(loop, events.data(), 1024, timers);
        watch.listen([&] {
            for (int i = 0; i < n; ++i) handle(events[static_cast<unsigned>(i)].data.fd);
            return n;
        });
        watch.run(256);  // always, whatever woke us
    }
    // [loop]
    ::close(loop);
    return talk.verdict("epoll_wait");
}
