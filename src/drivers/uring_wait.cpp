#include "tvec/drivers/uring_wait.hpp"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cassert>

#include "kernel.hpp"
#include "time_namespace.hpp"

namespace tvec::detail {

namespace {

// Names that Linux has since 6.12, and liburing since 2.8.
constexpr unsigned register_clock = 29;        // IORING_REGISTER_CLOCK
constexpr unsigned enter_abs_timer = 1u << 5;  // IORING_ENTER_ABS_TIMER
struct clock_register {                        // io_uring_clock_register
    std::uint32_t clock_id;
    std::uint32_t reserved[3];
};
constexpr unsigned has_min_wait = 1u << 15;  // IORING_FEAT_MIN_TIMEOUT
struct wait_argument {                       // io_uring_getevents_arg
    std::uint64_t signals;
    std::uint32_t signals_size, min_wait_us;
    std::uint64_t time;
};

/// Upper bound of one sleep. Longer sleeps are cut into pieces: no kernel need be trusted with
/// them.
constexpr std::chrono::nanoseconds longest_sleep = std::chrono::hours(1);

/// Makes the ring wait on that clock, until a point in time. Returns whether the kernel supports
/// it.
bool set_clock(io_uring& ring, clockid_t id) {
    clock_register wanted{static_cast<std::uint32_t>(id), {}};
    return io_uring_register(static_cast<unsigned>(ring.ring_fd), register_clock, &wanted, 0) == 0;
}

int wait_until_completion(io_uring& ring) { return io_uring_submit_and_wait(&ring, 1); }

int poll(io_uring& ring) { return io_uring_submit_and_get_events(&ring); }

int wait_for(io_uring& ring, std::chrono::nanoseconds limit) {
    auto relative = timespec_of<__kernel_timespec>(std::min(limit, longest_sleep));
    io_uring_cqe* unused = nullptr;
    return io_uring_submit_and_wait_timeout(&ring, &unused, 1, &relative, nullptr);
}

/// Publishes queued requests to the kernel, as io_uring_submit does on a ring without SQPOLL.
/// Returns their number.
unsigned flush(io_uring_sq& sq) {
    sq.sqe_head = sq.sqe_tail;
    std::atomic_ref(*sq.ktail).store(sq.sqe_tail, std::memory_order_release);
    return sq.sqe_tail - std::atomic_ref(*sq.khead).load(std::memory_order_relaxed);
}

/// Returns the time from now by `clock` until `limit`, in microseconds, rounded down.
std::int64_t microseconds_until(std::chrono::nanoseconds limit, clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    const auto now = std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
    return std::chrono::floor<std::chrono::microseconds>(limit - now).count();
}

}  // namespace

kernel_result timed_ring::accepts(const io_uring& ring) noexcept {
    if (!(ring.features & IORING_FEAT_EXT_ARG))
        return refused(
            "uring_wait: the kernel takes no deadline in a wait (IORING_FEAT_EXT_ARG, 5.11)");
    if (ring.flags & IORING_SETUP_IOPOLL)
        return refused("uring_wait: waits on an IORING_SETUP_IOPOLL ring ignore deadlines");
    return answer(true);
}

timed_ring::timed_ring(io_uring& ring, alarm_clock clock) noexcept
    : ring_(ring), clock_(static_cast<std::uint8_t>(clock.id)), absolute_(false) {
    if (!clock.same_epoch || !set_clock(ring, clock.id)) return;
    absolute_ = !(ring.flags & IORING_SETUP_SQPOLL) && !may_live_in_shifted_time();
}

bool timed_ring::gather(std::chrono::microseconds longest, unsigned enough) noexcept {
    assert(enough > 0 && "a wait ends at a completion or later");
    if (!absolute_ || !(ring_.features & has_min_wait)) return false;
    using std::chrono::microseconds;
    constexpr microseconds most = std::chrono::floor<microseconds>(longest_sleep);
    longest_us_ = static_cast<std::uint32_t>(std::clamp(longest, microseconds(0), most).count());
    enough_ = static_cast<std::uint16_t>(std::min(enough, 0xffffu));
    return true;
}

int timed_ring::wait_until(std::optional<std::chrono::nanoseconds> limit) noexcept {
    assert(!(ring_.flags & IORING_SETUP_SQPOLL) && "the wait submits, and not a kernel thread");
    std::int64_t gathering = longest_us_;
    if (gathering != 0 && limit)
        gathering = std::clamp<std::int64_t>(microseconds_until(*limit, clock_), 0, gathering);
    wait_argument argument{0, 0, static_cast<std::uint32_t>(gathering), 0};
    auto point = timespec_of<__kernel_timespec>(limit.value_or(std::chrono::nanoseconds::zero()));
    if (limit) argument.time = reinterpret_cast<std::uintptr_t>(&point);
    unsigned flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG | enter_abs_timer;
    if (ring_.enter_ring_fd != ring_.ring_fd) flags |= IORING_ENTER_REGISTERED_RING;
    return io_uring_enter2(static_cast<unsigned>(ring_.enter_ring_fd), flush(ring_.sq),
                           gathering != 0 ? enough_ : 1u, flags,
                           reinterpret_cast<sigset_t*>(&argument), sizeof argument);
}

kernel_result timed_ring::submit_and_wait(std::optional<std::chrono::nanoseconds> limit) noexcept {
    const int result = !limit && longest_us_ == 0     ? wait_until_completion(ring_)
                       : limit && limit->count() <= 0 ? poll(ring_)
                       : absolute_                    ? wait_until(limit)
                                                      : wait_for(ring_, *limit);
    const bool has_failed = result < 0 && !is_normal(-result);
    return has_failed ? failed(-result, "uring_wait: io_uring_enter") : answer(true);
}

}  // namespace tvec::detail
