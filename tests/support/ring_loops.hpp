// The drivers of loops.hpp that sleep in a ring.
#pragma once

#include "support/ring.hpp"
#include "tvec/uring_timeout.hpp"
#include "tvec/uring_wait.hpp"

namespace support {

// A descriptor that a ring polls.
class watched_descriptor {
public:
    void watch(int fd) { fd_ = fd; }
    // Before each sleep.
    void poll(ring& r) {
        if (fd_ < 0 || polled_) return;
        io_uring_sqe* const sqe = io_uring_get_sqe(&r.get());
        io_uring_prep_poll_add(sqe, fd_, POLLIN);
        io_uring_sqe_set_data64(sqe, tag);
        polled_ = true;
    }
    bool complete(const io_uring_cqe& cqe) {
        if (cqe.user_data != tag) return false;
        polled_ = false;
        return true;
    }

private:
    static constexpr std::uint64_t tag = 1;
    int fd_ = -1;
    bool polled_ = false;
};

template <class Wheel> class wait_loop {
public:
    explicit wait_loop(Wheel& timers, unsigned entries = 8, unsigned flags = 0)
        : ring_(entries, flags), wait_(ring_.get(), timers) {}

    void poke() { ring_.queue_nop(); }
    void watch(int fd) { watched_.watch(fd); }
    unsigned sleep(unsigned most = ~0u) {
        watched_.poll(ring_);
        wait_();
        unsigned pokes = 0;
        ring_.reap([&](const io_uring_cqe& cqe) { pokes += !watched_.complete(cqe); }, most);
        return pokes;
    }
    int ring_fd() { return ring_.get().ring_fd; }

private:
    support::ring ring_;
    watched_descriptor watched_;
    tvec::uring_wait<Wheel> wait_;
};

template <class Wheel> class timeout_loop {
public:
    explicit timeout_loop(Wheel& timers, unsigned entries = 8, unsigned flags = 0)
        : ring_(entries, flags), alarm_(ring_.get(), timers) {}

    void poke() { ring_.queue_nop(); }
    void watch(int fd) { watched_.watch(fd); }
    unsigned sleep(unsigned most = ~0u) {
        watched_.poll(ring_);
        const int result = alarm_.prepare() ? io_uring_submit_and_wait(&ring_.get(), 1)
                                            : io_uring_submit_and_get_events(&ring_.get());
        if (result < 0 && result != -EINTR && result != -EBUSY)
            throw std::system_error(-result, std::system_category(), "io_uring_enter");
        unsigned pokes = 0;
        ring_.reap(
            [&](const io_uring_cqe& cqe) {
                pokes += !watched_.complete(cqe) && !alarm_.complete(cqe);
            },
            most);
        return pokes;
    }
    int ring_fd() { return ring_.get().ring_fd; }

private:
    support::ring ring_;
    watched_descriptor watched_;
    tvec::uring_timeout<Wheel> alarm_;
};

}  // namespace support

#define EACH_RING_DRIVER(suite, name)                                                              \
    template <template <class> class Loop> static void name();                                     \
    Test(suite, name##__uring_wait) { name<support::wait_loop>(); }                                \
    Test(suite, name##__uring_timeout) { name<support::timeout_loop>(); }                          \
    template <template <class> class Loop> static void name()
