// A ring that closes itself, and the few things that all programs do with it.
#pragma once

#include <liburing.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>

namespace example {

class ring {
public:
    // Asks for the cheapest kind of ring, and takes a plainer one from an older kernel.
    explicit ring(unsigned entries) {
        constexpr std::array<unsigned, 3> wishes{
            IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, IORING_SETUP_COOP_TASKRUN, 0};
        int result = -EINVAL;
        for (const unsigned flags : wishes) {
            result = create(entries, flags);
            if (result != -EINVAL) break;
        }
        if (result < 0)
            throw std::system_error(
                -result, std::system_category(),
                "cannot set up an io_uring, which the sockets need whatever wakes the program");
    }
    ~ring() { io_uring_queue_exit(&ring_); }
    ring(const ring&) = delete;
    ring& operator=(const ring&) = delete;

    io_uring& get() { return ring_; }

    // Queues a request, after making room if necessary:
    //     queue(tag, io_uring_prep_recv, fd, buffer, size, 0)
    // Its completion carries `tag`. The memory that the pointers point to must live until then.
    template <class Prepare, class... Arguments>
    void queue(std::uint64_t tag, Prepare prepare, Arguments... arguments) {
        io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
        while (sqe == nullptr) {
            make_room();
            sqe = io_uring_get_sqe(&ring_);
        }
        prepare(sqe, arguments...);
        io_uring_sqe_set_data64(sqe, tag);
    }

    // Submits what is queued, and sleeps until something has completed.
    void submit_and_wait() {
        check(io_uring_submit_and_wait(&ring_, 1), "io_uring_enter");
        fetch_rest();
    }

    // Submits what is queued, and fetches what has completed.
    void submit_and_poll() {
        check(io_uring_submit_and_get_events(&ring_), "io_uring_enter");
        fetch_rest();
    }

    // Calls handle(tag, result, more) for what has completed, a bounded number of times, so that
    // the timers get their turn however busy the sockets are. Returns how often.
    template <class F> unsigned reap(F handle) {
        std::array<io_uring_cqe*, batch_size> batch{};
        const unsigned n = io_uring_peek_batch_cqe(&ring_, batch.data(), batch_size);
        std::array<completion, batch_size> completions;
        for (unsigned i = 0; i < n; ++i)
            completions[i] = {batch[i]->user_data, batch[i]->res, batch[i]->flags};
        io_uring_cq_advance(&ring_, n);  // before the handlers queue more: they may need the room
        for (unsigned i = 0; i < n; ++i) {
            const completion& c = completions[i];
            handle(c.tag, c.result, (c.flags & IORING_CQE_F_MORE) != 0);
        }
        return n;
    }

private:
    static constexpr unsigned batch_size = 512;

    struct completion {
        std::uint64_t tag;
        int result;
        unsigned flags;
    };

    // Newer kernels post but 20 completions at once where they are deferred. Timers must not judge
    // before the rest was heard.
    void fetch_rest() {
        if ((ring_.flags & IORING_SETUP_DEFER_TASKRUN) == 0) return;
        unsigned before = 19, ready = io_uring_cq_ready(&ring_);
        while (ready > before && ready < batch_size && io_uring_get_events(&ring_) >= 0) {
            before = ready;
            ready = io_uring_cq_ready(&ring_);
        }
    }

    void make_room() { check(io_uring_submit(&ring_), "io_uring_submit"); }

    // A signal, and completions that have no room before others are reaped, are no errors.
    static void check(int result, const char* tried) {
        if (result >= 0 || result == -EINTR || result == -EAGAIN || result == -EBUSY) return;
        throw std::system_error(-result, std::system_category(), tried);
    }

    int create(unsigned entries, unsigned flags) {
        io_uring_params params{};
        params.flags = flags | IORING_SETUP_CQSIZE;
        params.cq_entries = entries * 8;
        return io_uring_queue_init_params(entries, &ring_, &params);
    }

    io_uring ring_{};
};

}  // namespace example
