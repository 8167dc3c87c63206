// The kernel's half of an io_uring, in memory and on a clock of its own: nops, timeouts, and waits
// with a deadline. The functions of liburing that the drivers call are defined here, so a program
// that includes this runs the real drivers on it. Whatever the kernel may do otherwise it asks
// `choose`. clock_gettime reads its time.
#pragma once

#include <liburing.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace support {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

class fake_ring {
public:
    // What a wait may meet. The first is what a loop hopes for.
    enum class disturbance { none, signal, other_completion, oversleep, busy, count };
    // How a timeout that goes off may end.
    enum class ending { expired, cancelled, no_memory, behind_a_full_queue, count };

    explicit fake_ring(bool absolute_waits) : absolute_waits_(absolute_waits) {
        ring.sq.khead = &sq_head_, ring.sq.ktail = &sq_tail_, ring.sq.sqes = sqes_.data();
        ring.sq.ring_entries = sqes_.size(), ring.sq.ring_mask = sqes_.size() - 1;
        ring.cq.khead = &cq_head_, ring.cq.ktail = &cq_tail_, ring.cq.cqes = cqes_.data();
        ring.cq.ring_entries = cqes_.size(), ring.cq.ring_mask = cqes_.size() - 1;
        ring.features = IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP | IORING_FEAT_CQE_SKIP;
        here = this;
    }
    fake_ring(const fake_ring&) = delete;
    fake_ring& operator=(const fake_ring&) = delete;

    static inline fake_ring* here = nullptr;
    io_uring ring{};
    nanoseconds now = 1000s + 400us;
    std::function<unsigned(unsigned)> choose;  // 0 to n - 1
    std::function<void(std::string)> tell, fail;
    std::function<void(std::optional<nanoseconds>)> sleeps;  // is told until when
    bool has_failed = false;

    bool waits_absolute() const { return absolute_waits_; }
    std::size_t timeouts() const { return timeouts_.size(); }
    // How long the requests that were submitted last had waited for that, because a call was
    // refused.
    nanoseconds queued() const { return queued_; }

    // What io_uring_enter does. A wait without a limit waits for a completion alone.
    int enter(bool waits, std::optional<nanoseconds> until) {
        if (has_failed) return -EIO;
        now += 1us;
        flush_overflow();
        const auto met = waits ? pick<disturbance>() : disturbance::none;
        if (met == disturbance::busy) return tell("EBUSY"), -EBUSY;
        const int submitted = submit();
        expire();
        if (!waits || io_uring_cq_ready(&ring) != 0) return submitted;
        const int error = sleep(met, until);
        return submitted != 0 ? submitted : error;
    }

    // Publishes what was queued, as liburing does before it enters the kernel.
    void publish() {
        if (sq_head_ == sq_tail_) published_ = now;
        ring.sq.sqe_head = ring.sq.sqe_tail;
        sq_tail_ = ring.sq.sqe_tail;
    }

private:
    struct timeout {
        std::uint64_t user_data;
        nanoseconds at;
    };

    template <class E> E pick() { return E(choose(static_cast<unsigned>(E::count))); }

    // Returns 0, or the error that a call has which submitted nothing.
    int sleep(disturbance met, std::optional<nanoseconds> until) {
        auto end = until;
        for (const timeout& t : timeouts_) end = std::min(end.value_or(t.at), t.at);
        sleeps(end);
        if (has_failed) return -EIO;
        const nanoseconds wake = end.value_or(now);
        switch (met) {
        case disturbance::signal:
            now = std::min(now + 300us, std::max(now, wake));
            return tell("EINTR"), -EINTR;
        case disturbance::other_completion:
            now = std::min(now + 200us, std::max(now, wake));
            return tell("a completion of others"), complete(others, 0), 0;
        case disturbance::oversleep:
            now = std::max(now, wake) + 5300us;
            break;
        default:
            now = std::max(now, wake);
            break;
        }
        tell("woke");
        expire();
        return io_uring_cq_ready(&ring) != 0 ? 0 : -ETIME;
    }

    int submit() {
        int n = 0;
        if (sq_head_ != sq_tail_) queued_ = now - published_;
        for (; sq_head_ != sq_tail_; ++sq_head_, ++n) start(sqes_[sq_head_ & ring.sq.ring_mask]);
        return n;
    }

    static nanoseconds time_at(std::uint64_t address) {
        const auto* t = reinterpret_cast<const __kernel_timespec*>(address);
        return std::chrono::seconds(t->tv_sec) + nanoseconds(t->tv_nsec);
    }
    nanoseconds when(const io_uring_sqe& sqe, std::uint64_t address) const {
        const nanoseconds time = time_at(address);
        return sqe.timeout_flags & IORING_TIMEOUT_ABS ? time : now + time;
    }

    void start(const io_uring_sqe& sqe) {
        if (sqe.opcode == IORING_OP_TIMEOUT)
            timeouts_.push_back({sqe.user_data, when(sqe, sqe.addr)});
        else if (sqe.opcode == IORING_OP_TIMEOUT_REMOVE)
            change(sqe);
        else
            complete(sqe.user_data, 0);
    }

    void change(const io_uring_sqe& sqe) {
        const auto found = std::find_if(timeouts_.begin(), timeouts_.end(),
                                        [&](const timeout& t) { return t.user_data == sqe.addr; });
        // It goes off just before, and completes just before or just after.
        if (found != timeouts_.end()) {
            const unsigned race = choose(3);
            if (race == 2) complete(sqe.user_data, -EALREADY);
            if (race != 0) {
                tell("the timeout goes off before its change");
                const std::uint64_t gone = found->user_data;
                timeouts_.erase(found);
                complete(gone, -ETIME);
                if (race == 1) complete(sqe.user_data, -ENOENT);
                return;
            }
        }
        if (found == timeouts_.end()) return complete(sqe.user_data, -ENOENT);
        if (sqe.timeout_flags & IORING_TIMEOUT_UPDATE) {
            found->at = when(sqe, sqe.addr2);
            if (!(sqe.flags & IOSQE_CQE_SKIP_SUCCESS)) complete(sqe.user_data, 0);
        } else {
            complete(found->user_data, -ECANCELED);
            timeouts_.erase(found);
            complete(sqe.user_data, 0);
        }
    }

    void expire() {
        for (std::size_t i = 0; i < timeouts_.size();)
            if (timeouts_[i].at <= now)
                end(i);
            else
                ++i;
    }

    void end(std::size_t i) {
        const std::uint64_t data = timeouts_[i].user_data;
        timeouts_.erase(timeouts_.begin() + static_cast<std::ptrdiff_t>(i));
        switch (pick<ending>()) {
        case ending::cancelled:
            return tell("the timeout is cancelled"), complete(data, -ECANCELED);
        case ending::no_memory:
            return tell("the timeout ends with ENOMEM"), complete(data, -ENOMEM);
        case ending::behind_a_full_queue:
            return tell("the timeout's completion finds no room"),
                   overflow_.push_back({data, -ETIME, 0});
        default:
            return complete(data, -ETIME);
        }
    }

    void complete(std::uint64_t data, int result) {
        if (cq_tail_ - cq_head_ == cqes_.size()) return overflow_.push_back({data, result, 0});
        io_uring_cqe& cqe = cqes_[cq_tail_++ & ring.cq.ring_mask];
        cqe.user_data = data, cqe.res = result;
    }

    // Completions that found no room come with the next call.
    void flush_overflow() {
        while (!overflow_.empty() && cq_tail_ - cq_head_ != cqes_.size()) {
            const auto first = overflow_.front();
            overflow_.pop_front();
            complete(first.user_data, first.res);
        }
    }

    static constexpr std::uint64_t others = 1;
    struct kept {
        std::uint64_t user_data;
        int res;
        unsigned flags;
    };

    bool absolute_waits_;
    nanoseconds published_{}, queued_{};
    unsigned sq_head_ = 0, sq_tail_ = 0, cq_head_ = 0, cq_tail_ = 0;
    std::array<io_uring_sqe, 2> sqes_{};
    std::array<io_uring_cqe, 8> cqes_{};
    std::vector<timeout> timeouts_;
    std::deque<kept> overflow_;
};

}  // namespace support

// --- functions of liburing -----------------------------------------------------------------------

extern "C" {

inline constexpr unsigned enter_abs_timer_flag = 1u << 5;

int clock_gettime(clockid_t, timespec* t) noexcept {
    const auto now = support::fake_ring::here->now;
    const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
    t->tv_sec = seconds.count();
    t->tv_nsec = (now - seconds).count();
    return 0;
}

int io_uring_register(unsigned, unsigned, const void*, unsigned) {
    return support::fake_ring::here->waits_absolute() ? 0 : -EINVAL;  // the clock of waits
}
int io_uring_queue_init(unsigned, io_uring*, unsigned) { return -ENOSYS; }  // asked for a trial
void io_uring_queue_exit(io_uring*) {}

int io_uring_submit(io_uring*) {
    support::fake_ring::here->publish();
    return support::fake_ring::here->enter(false, {});
}
int io_uring_submit_and_get_events(io_uring* ring) { return io_uring_submit(ring); }
int io_uring_submit_and_wait(io_uring*, unsigned wanted) {
    support::fake_ring::here->publish();
    return support::fake_ring::here->enter(wanted != 0, {});
}
int __io_uring_get_cqe(io_uring*, io_uring_cqe**, unsigned, unsigned, sigset_t*) { return -EAGAIN; }

int io_uring_enter2(unsigned, unsigned, unsigned wanted, unsigned flags, sigset_t* extended,
                    size_t) {
    struct argument {
        std::uint64_t signals;
        std::uint32_t signals_size, min_wait_us;
        const __kernel_timespec* time;
    };
    auto& kernel = *support::fake_ring::here;
    const auto* given = reinterpret_cast<const argument*>(extended);
    std::optional<support::nanoseconds> until;
    if (given->time != nullptr) {
        until =
            std::chrono::seconds(given->time->tv_sec) + support::nanoseconds(given->time->tv_nsec);
        if (!(flags & enter_abs_timer_flag)) *until += kernel.now;
    }
    return kernel.enter(wanted != 0, until);
}

}  // extern "C"
