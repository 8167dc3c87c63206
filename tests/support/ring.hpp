// A real ring for a test.
#pragma once

#include <liburing.h>

#include "support/check.hpp"

namespace support {

// Completions appear only when the thread enters the kernel to fetch them.
inline constexpr unsigned deferred = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;

inline bool ring_exists(unsigned flags) {
    io_uring probe{};
    if (io_uring_queue_init(4, &probe, flags) < 0) return false;
    io_uring_queue_exit(&probe);
    return true;
}

// Skips the test with a message where io_uring, or this kind of ring, is not available.
class ring {
public:
    explicit ring(unsigned entries = 8, unsigned flags = 0) {
        const int result = io_uring_queue_init(entries, &ring_, flags);
        if (result < 0) cr_skip("no such io_uring here: flags %#x, error %d", flags, -result);
    }
    ~ring() { io_uring_queue_exit(&ring_); }
    ring(const ring&) = delete;
    ring& operator=(const ring&) = delete;

    io_uring& get() { return ring_; }

    // Tags it as an application would: never with the top byte set.
    void queue_nop(std::uint64_t tag = 0) {
        io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
        io_uring_prep_nop(sqe);
        io_uring_sqe_set_data64(sqe, tag);
    }

    unsigned reap() {
        return reap([](const io_uring_cqe&) {});
    }

    // Calls handle(const io_uring_cqe&) for each completion, at most `most` times. Returns the
    // number of calls.
    template <class F> unsigned reap(F handle, unsigned most = ~0u) {
        unsigned head = 0, n = 0;
        io_uring_cqe* cqe = nullptr;
        io_uring_for_each_cqe(&ring_, head, cqe) {
            if (n == most) break;
            handle(*cqe);
            ++n;
        }
        io_uring_cq_advance(&ring_, n);
        return n;
    }

private:
    io_uring ring_{};
};

}  // namespace support
