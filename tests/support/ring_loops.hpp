// The drivers of loops.hpp that sleep in a ring.
#pragma once

#include "support/ring.hpp"
#include "tvec/drivers/uring_timeout.hpp"
#include "tvec/drivers/uring_wait.hpp"

namespace support {

// Common to both: a ring that is poked, and polls a descriptor.
class ring_loop {
public:
    void poke() { ring_.queue_nop(); }
    void watch(int fd) { watched_ = fd; }
    int ring_fd() { return ring_.get().ring_fd; }

protected:
    ring_loop(unsigned entries, unsigned flags) : ring_(entries, flags) {}

    // Before each sleep.
    void poll() {
        if (watched_ < 0 || is_polled_) return;
        io_uring_sqe* const sqe = io_uring_get_sqe(&ring_.get());
        io_uring_prep_poll_add(sqe, watched_, POLLIN);
        io_uring_sqe_set_data64(sqe, tag);
        is_polled_ = true;
    }
    // Counts completions that are neither the descriptor's nor taken.
    template <class Take> unsigned pokes(unsigned most, Take take) {
        unsigned n = 0;
        const auto look_at = [&](const io_uring_cqe& cqe) {
            if (cqe.user_data == tag)
                is_polled_ = false;
            else
                n += !take(cqe);
        };
        ring_.reap(look_at, most);
        return n;
    }

    support::ring ring_;

private:
    static constexpr std::uint64_t tag = 1;
    int watched_ = -1;
    bool is_polled_ = false;
};

template <class Wheel> class wait_loop : public ring_loop {
public:
    explicit wait_loop(Wheel& timers, unsigned entries = 8, unsigned flags = 0)
        : ring_loop(entries, flags), wait_(ring_.get(), timers) {}

    unsigned sleep(unsigned most = ~0u) {
        poll();
        wait_();
        return pokes(most, [](const io_uring_cqe&) { return false; });
    }

private:
    tvec::uring_wait<Wheel> wait_;
};

template <class Wheel> class timeout_loop : public ring_loop {
public:
    explicit timeout_loop(Wheel& timers, unsigned entries = 8, unsigned flags = 0)
        : ring_loop(entries, flags), alarm_(ring_.get(), timers) {}

    unsigned sleep(unsigned most = ~0u) {
        poll();
        const int result = alarm_.prepare() ? io_uring_submit_and_wait(&ring_.get(), 1)
                                            : io_uring_submit_and_get_events(&ring_.get());
        if (result < 0 && result != -EINTR && result != -EBUSY)
            throw std::system_error(-result, std::system_category(), "io_uring_enter");
        return pokes(most, [this](const io_uring_cqe& cqe) { return alarm_.complete(cqe); });
    }

private:
    tvec::uring_timeout<Wheel> alarm_;
};

}  // namespace support

#define EACH_RING_DRIVER(suite, name)                                                              \
    template <template <class> class Loop> static void name();                                     \
    Test(suite, name##__uring_wait) { name<support::wait_loop>(); }                                \
    Test(suite, name##__uring_timeout) { name<support::timeout_loop>(); }                          \
    template <template <class> class Loop> static void name()
