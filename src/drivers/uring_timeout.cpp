#include "tvec/drivers/uring_timeout.hpp"

#include <atomic>
#include <cassert>

#include "kernel.hpp"
#include "time_namespace.hpp"

namespace tvec::detail {

namespace {

constexpr unsigned tag_shift = 56, kind_shift = 54, number_shift = 24;
constexpr std::uint32_t number_mask = (1u << (kind_shift - number_shift)) - 1;
constexpr std::uint64_t timeout_mask = (1u << number_shift) - 1;

/// Returns a number that no other alarm of the process has, so that no alarm claims another's
/// completion.
std::uint32_t next_number() {
    static std::atomic<std::uint32_t> numbers{0};
    return numbers.fetch_add(1, std::memory_order_relaxed) & number_mask;
}

/// Returns whether the end of a timeout is normal, or for want of something that the next try may
/// have.
bool may_end_with(int error) { return is_normal(error) || error == ECANCELED || error == ENOMEM; }

/// Returns whether the timeout to be changed had already gone off. Its own completion follows, or
/// has come before that of the change.
bool came_too_late(int error) { return error == ENOENT || error == EALREADY; }

/// Returns the flag of a timeout on that clock. CLOCK_MONOTONIC has none.
unsigned flag_of(clockid_t clock) {
    if (clock == CLOCK_BOOTTIME) return IORING_TIMEOUT_BOOTTIME;
    return clock == CLOCK_REALTIME ? IORING_TIMEOUT_REALTIME : 0;
}

// Since 7.1: the time in ns stands in the place of its address.
constexpr unsigned time_in_request = 1u << 7;  // IORING_TIMEOUT_IMMEDIATE_ARG

/// Returns the kernel's answer to a timeout that has passed, in a ring of its own; 0 if there is
/// none. The time is 1 ns, or at that address.
int ask_for_timeout(std::uint64_t time, unsigned flags) {
    io_uring ring{};
    if (io_uring_queue_init(1, &ring, 0) < 0) return 0;
    io_uring_sqe* const sqe = io_uring_get_sqe(&ring);
    io_uring_prep_timeout(sqe, nullptr, 0, IORING_TIMEOUT_ABS | flags);
    sqe->addr = time;
    io_uring_cqe* cqe = nullptr;
    io_uring_submit_and_wait(&ring, 1);  // an error leaves no completion
    const int answer = io_uring_peek_cqe(&ring, &cqe) == 0 ? cqe->res : 0;
    io_uring_queue_exit(&ring);
    return answer;
}

}  // namespace

kernel_result ring_alarm::accepts(const io_uring& ring) noexcept {
    if (ring.flags & IORING_SETUP_IOPOLL)
        return refused("uring_timeout: an IORING_SETUP_IOPOLL ring takes no timeouts");
    if (ring.flags & IORING_SETUP_SQPOLL)
        return refused("uring_timeout: on an IORING_SETUP_SQPOLL ring timeouts keep the kernel's "
                       "thread spinning, and their time is read too late; use uring_wait");
    if (!(ring.features & IORING_FEAT_EXT_ARG))  // which came with it
        return refused("uring_timeout: the kernel cannot move a timeout (5.11); use timerfd_alarm");
    return answer(true);
}

bool ring_alarm::kernel_reads_requests() noexcept {
    // No static local: its guard would need a C++ library, which programs in C do not load.
    enum : std::uint8_t { unknown, no, yes };
    static std::atomic<std::uint8_t> known{unknown};
    std::uint8_t answer = known.load(std::memory_order_relaxed);
    if (answer == unknown) {
        answer = ask_for_timeout(1, time_in_request) == -ETIME ? yes : no;
        known.store(answer, std::memory_order_relaxed);
    }
    return answer == yes;
}

int ring_alarm::refusal_of_kernel() noexcept {
    const __kernel_timespec passed{0, 1};
    const int answer = ask_for_timeout(reinterpret_cast<std::uintptr_t>(&passed), 0);
    return answer == -ETIME ? 0 : -answer;
}

ring_alarm::ring_alarm(io_uring& ring, alarm_clock clock, std::uint8_t tag,
                       bool carry_time) noexcept
    : ring_(ring), clock_flag_(flag_of(clock.id)),
      absolute_(clock.same_epoch && (clock.id == CLOCK_REALTIME || !may_live_in_shifted_time())),
      carries_time_(carry_time), tag_(tag), number_(next_number()) {
    assert(number_ <= number_mask && "the number of an alarm fits into its user data");
}

std::uint64_t ring_alarm::user_data(kind what) const noexcept {
    return std::uint64_t{tag_} << tag_shift | static_cast<std::uint64_t>(what) << kind_shift |
           std::uint64_t{number_} << number_shift | (timeouts_ & timeout_mask);
}

bool ring_alarm::is_mine(std::uint64_t data) const noexcept {
    return is_uring_timeout(data, tag_) && (data >> number_shift & number_mask) == number_;
}

/// Finds a place in the submission queue, and submits the queue if it is full.
kernel_result ring_alarm::reserve_sqe(io_uring_sqe*& sqe) noexcept {
    sqe = io_uring_get_sqe(&ring_);
    if (sqe != nullptr) return answer(true);
    const int result = io_uring_submit(&ring_);
    if (result < 0 && !is_normal(-result)) return failed(-result, "uring_timeout: io_uring_submit");
    sqe = io_uring_get_sqe(&ring_);
    return answer(sqe != nullptr);
}

kernel_result ring_alarm::set(std::chrono::nanoseconds time) noexcept {
    if (refused_ != 0)
        return failed(refused_, "uring_timeout: the kernel has refused a timeout of this ring; use "
                                "timerfd_alarm");
    io_uring_sqe* sqe = nullptr;
    if (const kernel_result found = reserve_sqe(sqe); !found.yes) return found;
    // A request that is not submitted yet and carries no time has the new one, which is earlier.
    time_ = timespec_of<__kernel_timespec>(time);
    in_flight_ ? move(*sqe) : start(*sqe);
    set_ = true;
    return answer(true);
}

unsigned ring_alarm::time_flags() const noexcept {
    return (absolute_ ? IORING_TIMEOUT_ABS : 0) | (carries_time_ ? time_in_request : 0);
}

/// Returns the time in ns, or its address.
std::uint64_t ring_alarm::time_argument() const noexcept {
    if (!carries_time_) return reinterpret_cast<std::uintptr_t>(&time_);
    const auto time = std::chrono::seconds(time_.tv_sec) + std::chrono::nanoseconds(time_.tv_nsec);
    return static_cast<std::uint64_t>(time.count());
}

void ring_alarm::start(io_uring_sqe& sqe) noexcept {
    assert(!in_flight_ && "one timeout at a time is in flight");
    ++timeouts_;
    io_uring_prep_timeout(&sqe, nullptr, 0, clock_flag_ | time_flags());  // 0: nothing else
    sqe.addr = time_argument();                                           // completes it
    io_uring_sqe_set_data64(&sqe, user_data(kind::timeout));
    in_flight_ = true;
}

void ring_alarm::move(io_uring_sqe& sqe) noexcept {
    assert(in_flight_ && "a timeout in flight is moved");
    io_uring_prep_timeout_update(&sqe, nullptr, user_data(kind::timeout), time_flags());
    sqe.addr2 = time_argument();  // it keeps its clock
    io_uring_sqe_set_data64(&sqe, user_data(kind::move));
    if (ring_.features & IORING_FEAT_CQE_SKIP) sqe.flags |= IOSQE_CQE_SKIP_SUCCESS;
}

kernel_result ring_alarm::complete(std::uint64_t data, int result) noexcept {
    if (!is_mine(data)) return answer(false);
    const int error = result < 0 ? -result : 0;
    switch (static_cast<kind>(data >> kind_shift & 3)) {
    case kind::timeout:
        if (in_flight_ && data == user_data(kind::timeout)) return ended(error);
        break;
    case kind::move:
        if (error != 0 && !came_too_late(error))
            return refuse(error, "uring_timeout: IORING_OP_TIMEOUT_REMOVE");
        break;
    case kind::removal:
        leaving_ = false;
        break;
    }
    return answer(true);
}

kernel_result ring_alarm::ended(int error) noexcept {
    assert(in_flight_ && "a timeout ends once");
    in_flight_ = set_ = false;
    if (error == EINVAL && clock_flag_ != 0) {
        clock_flag_ = 0;  // before Linux 5.15: CLOCK_MONOTONIC
        absolute_ = false;
    } else if (error != 0 && !may_end_with(error)) {
        return refuse(error, "uring_timeout: IORING_OP_TIMEOUT");
    }
    return answer(true);
}

/// Remembers that requests are refused: another one would complete at once, and each wait with it.
kernel_result ring_alarm::refuse(int error, const char* tried) noexcept {
    refused_ = error;
    set_ = false;
    return failed(error, tried);
}

kernel_result ring_alarm::queue_removal() noexcept {
    if (timeouts_ == 0 || leaving_) return answer(true);
    io_uring_sqe* sqe = nullptr;
    if (const kernel_result found = reserve_sqe(sqe); !found.yes) return found;
    io_uring_prep_timeout_remove(sqe, user_data(kind::timeout), 0);
    io_uring_sqe_set_data64(sqe, user_data(kind::removal));
    leaving_ = true;
    return answer(true);
}

kernel_result ring_alarm::wait_for_completion(io_uring_cqe*& cqe) noexcept {
    while (io_uring_peek_cqe(&ring_, &cqe) != 0) {
        const int result = io_uring_submit_and_wait(&ring_, 1);
        if (result < 0 && !is_normal(-result))
            return failed(-result, "uring_timeout: io_uring_enter");
    }
    assert(cqe != nullptr && "a completion is there");
    return answer(true);
}

}  // namespace tvec::detail
