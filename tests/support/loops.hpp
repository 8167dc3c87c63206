// A reactor's sleep with each driver, all with the same interface:
//
//     Loop<Wheel> loop{timers};
//     loop.poke();       another event than a timer to wake for
//     loop.watch(fd);    wakes when this is readable, too
//     loop.sleep();      until poked or a timer is due; returns the number of pokes taken
//
// EACH_DRIVER(suite, name) { ... Loop<Wheel> ... } is a test for each of them.
#pragma once

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tvec/drivers/timerfd_alarm.hpp"
#ifdef TVEC_TESTS_HAVE_URING
#include "support/ring_loops.hpp"
#endif

namespace support {

template <class Wheel> class timerfd_loop {
public:
    explicit timerfd_loop(Wheel& timers)
        : alarm_(timers), poked_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
    ~timerfd_loop() { close(poked_); }
    timerfd_loop(const timerfd_loop&) = delete;
    timerfd_loop& operator=(const timerfd_loop&) = delete;

    void poke() { eventfd_write(poked_, 1); }
    void watch(int fd) { watched_ = fd; }
    unsigned sleep() {
        alarm_.rearm();
        pollfd watched[] = {{alarm_.fd(), POLLIN, 0}, {poked_, POLLIN, 0}, {watched_, POLLIN, 0}};
        if (poll(watched, 3, -1) < 0) return 0;  // a signal
        if (watched[0].revents != 0) alarm_.acknowledge();
        eventfd_t pokes = 0;
        if (watched[1].revents != 0) eventfd_read(poked_, &pokes);
        return static_cast<unsigned>(pokes);
    }

private:
    tvec::timerfd_alarm<Wheel> alarm_;
    int poked_;
    int watched_ = -1;  // ignored by poll
};

template <class Wheel> class epoll_loop {
public:
    explicit epoll_loop(Wheel& timers)
        : timers_(timers), fd_(epoll_create1(EPOLL_CLOEXEC)),
          poked_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
        change(EPOLL_CTL_ADD, poked_);
    }
    ~epoll_loop() { close(poked_), close(fd_); }
    epoll_loop(const epoll_loop&) = delete;
    epoll_loop& operator=(const epoll_loop&) = delete;

    void poke() { eventfd_write(poked_, 1); }
    void watch(int fd) {
        if (watched_ >= 0) change(EPOLL_CTL_DEL, watched_);
        if (fd >= 0) change(EPOLL_CTL_ADD, fd);
        watched_ = fd;
    }
    unsigned sleep() {
        epoll_event events[2];
        eventfd_t pokes = 0;
        const int ready = tvec::epoll_wait(fd_, events, 2, timers_);
        for (int i = 0; i < ready; ++i)
            if (events[i].data.fd == poked_) eventfd_read(poked_, &pokes);
        return static_cast<unsigned>(pokes);
    }

private:
    void change(int how, int fd) {
        epoll_event wanted{};
        wanted.events = EPOLLIN;
        wanted.data.fd = fd;
        epoll_ctl(fd_, how, fd, &wanted);
    }

    Wheel& timers_;
    int fd_;
    int poked_;
    int watched_ = -1;
};

}  // namespace support

#define EACH_DRIVER(suite, name)                                                                   \
    template <template <class> class Loop> static void name();                                     \
    Test(suite, name##__timerfd_alarm) { name<support::timerfd_loop>(); }                          \
    Test(suite, name##__epoll_wait) { name<support::epoll_loop>(); }                               \
    EACH_RING_DRIVER(suite, name)

#ifndef TVEC_TESTS_HAVE_URING
#define EACH_RING_DRIVER(suite, name) template <template <class> class Loop> static void name()
#endif
