// A reactor's sleep with each driver, all with the same interface:
//
//     Loop<Wheel> loop{timers};
//     loop.poke();       something else than a timer to wake for
//     loop.sleep();      until poked or a timer is due; returns how many pokes it has taken
//
// EACH_DRIVER(suite, name) { ... Loop<Wheel> ... } is a test for each of them.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "support/ring.hpp"
#include "tvec/timerfd_alarm.hpp"
#include "tvec/uring_timeout.hpp"
#include "tvec/uring_wait.hpp"

namespace support {

template <class Wheel> class wait_loop {
public:
    explicit wait_loop(Wheel& timers, unsigned entries = 8, unsigned flags = 0)
        : ring_(entries, flags), wait_(ring_.get(), timers) {}

    void poke() { ring_.queue_nop(); }
    unsigned sleep(unsigned most = ~0u) {
        wait_();
        return ring_.reap([](const io_uring_cqe&) {}, most);
    }

private:
    support::ring ring_;
    tvec::uring_wait<Wheel> wait_;
};

template <class Wheel> class timeout_loop {
public:
    explicit timeout_loop(Wheel& timers, unsigned entries = 8, unsigned flags = 0)
        : ring_(entries, flags), alarm_(ring_.get(), timers) {}

    void poke() { ring_.queue_nop(); }
    unsigned sleep(unsigned most = ~0u) {
        const int result = alarm_.prepare() ? io_uring_submit_and_wait(&ring_.get(), 1)
                                            : io_uring_submit_and_get_events(&ring_.get());
        if (result < 0 && result != -EINTR && result != -EBUSY)
            throw std::system_error(-result, std::system_category(), "io_uring_enter");
        unsigned pokes = 0;
        ring_.reap([&](const io_uring_cqe& cqe) { pokes += !alarm_.complete(cqe); }, most);
        return pokes;
    }

private:
    support::ring ring_;
    tvec::uring_timeout<Wheel> alarm_;
};

template <class Wheel> class timerfd_loop {
public:
    explicit timerfd_loop(Wheel& timers)
        : alarm_(timers), poked_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
    ~timerfd_loop() { close(poked_); }
    timerfd_loop(const timerfd_loop&) = delete;
    timerfd_loop& operator=(const timerfd_loop&) = delete;

    void poke() { eventfd_write(poked_, 1); }
    unsigned sleep() {
        alarm_.rearm();
        pollfd watched[] = {{alarm_.fd(), POLLIN, 0}, {poked_, POLLIN, 0}};
        if (poll(watched, 2, -1) < 0) return 0;  // a signal
        if (watched[0].revents != 0) alarm_.acknowledge();
        eventfd_t pokes = 0;
        if (watched[1].revents != 0) eventfd_read(poked_, &pokes);
        return static_cast<unsigned>(pokes);
    }

private:
    tvec::timerfd_alarm<Wheel> alarm_;
    int poked_;
};

}  // namespace support

#define EACH_RING_DRIVER(suite, name)                                                              \
    template <template <class> class Loop> static void name();                                     \
    Test(suite, name##__uring_wait) { name<support::wait_loop>(); }                                \
    Test(suite, name##__uring_timeout) { name<support::timeout_loop>(); }                          \
    template <template <class> class Loop> static void name()

#define EACH_DRIVER(suite, name)                                                                   \
    template <template <class> class Loop> static void name();                                     \
    Test(suite, name##__timerfd_alarm) { name<support::timerfd_loop>(); }                          \
    EACH_RING_DRIVER(suite, name)
