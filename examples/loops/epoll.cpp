// A wheel in any loop that watches descriptors, here with epoll, woken by a timerfd. Where the wait
// is yours, and waits with epoll, tvec::epoll_wait needs no descriptor (epoll_wait.cpp).
#include <sys/epoll.h>

#include <algorithm>
#include <array>

#include "conversation.hpp"
#include "mailbox.hpp"
#include "tvec/clock/stall_watch.hpp"

namespace {

class poller {
public:
    poller() : fd_(epoll_create1(EPOLL_CLOEXEC)) { check(fd_, "epoll_create1"); }
    ~poller() { ::close(fd_); }
    poller(const poller&) = delete;
    poller& operator=(const poller&) = delete;

    void watch(int fd) {
        epoll_event wanted{};
        wanted.events = EPOLLIN;
        wanted.data.fd = fd;
        check(epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &wanted), "epoll_ctl");
    }

    void sleep() {
        const int n = epoll_wait(fd_, events_.data(), static_cast<int>(events_.size()), -1);
        if (n < 0 && errno != EINTR) check(n, "epoll_wait");
        readable_ = static_cast<unsigned>(std::max(n, 0));
    }

    // Calls handle(fd) for each readable descriptor. Returns how often that has returned true.
    template <class F> unsigned handle_all(F handle) {
        unsigned heard = 0;
        for (unsigned i = 0; i < readable_; ++i) heard += handle(events_[i].data.fd);
        return heard;
    }

private:
    static void check(int result, const char* tried) {
        if (result < 0) throw std::system_error(errno, std::system_category(), tried);
    }

    int fd_;
    std::array<epoll_event, 1024> events_;  // room for all that may be ready at once
    unsigned readable_ = 0;
};

}  // namespace

int main() {
    example::timers timers;
    example::conversation talk(timers);
    example::mailbox mailbox(timers, 4);
    talk.let_in(mailbox.sender());
    // [loop]
    tvec::timerfd_alarm alarm(timers);
    tvec::stall_watch watch(timers);
    poller loop;
    loop.watch(alarm.fd());
    loop.watch(talk.fd());
    loop.watch(mailbox.fd());
    const auto handle = [&](int fd) {
        if (fd == alarm.fd()) alarm.acknowledge();
        if (fd == talk.fd()) talk.on_readable();
        if (fd == mailbox.fd()) mailbox.on_readable();  // what other threads have sent
        return fd != alarm.fd();                        // our own alarm does not count
    };
    while (!talk.over()) {
        alarm.rearm();  // the last thing before the sleep
        loop.sleep();
        watch.listen([&] { return loop.handle_all(handle); });
        watch.run(256);  // always, whatever woke us
    }
    // [loop]
    return talk.verdict("epoll");
}
