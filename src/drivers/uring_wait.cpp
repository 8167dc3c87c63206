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
// Since 6.15, and liburing since 2.10, which keeps the flag of a ring in `int_flags`.
constexpr unsigned has_no_iowait = 1u << 17;       // IORING_FEAT_NO_IOWAIT
constexpr std::uint8_t enter_no_iowait = 1u << 7;  // IORING_ENTER_NO_IOWAIT
// Since 7.0: the kernel submits a queue from its beginning.
constexpr unsigned setup_sq_rewind = 1u << 20;  // IORING_SETUP_SQ_REWIND
struct wait_argument {                          // io_uring_getevents_arg
    std::uint64_t signals;
    std::uint32_t signals_size, min_wait_us;
    std::uint64_t time;
};

/// Makes the ring wait on that clock, until a point in time. Returns whether the kernel supports
/// it.
bool set_clock(io_uring& ring, clockid_t id) {
    clock_register wanted{static_cast<std::uint32_t>(id), {}};
    return io_uring_register(static_cast<unsigned>(ring.ring_fd), register_clock, &wanted, 0) == 0;
}

int poll(io_uring& ring) { return io_uring_submit_and_get_events(&ring); }

/// Has the kernel post all that has completed. Newer ones post but 20 at once on a ring of this
/// kind, and a loop would take a part for all that has come.
void post_rest(io_uring& ring) {
    constexpr unsigned at_once = 20;  // IO_LOCAL_TW_DEFAULT_MAX
    if (!(ring.flags & IORING_SETUP_DEFER_TASKRUN)) return;
    unsigned before = at_once - 1, ready = io_uring_cq_ready(&ring);
    while (ready > before && ready < ring.cq.ring_entries) {
        io_uring_get_events(&ring);  // an error brings no more, which is the end
        before = ready;
        ready = io_uring_cq_ready(&ring);
    }
}

/// Publishes queued requests to the kernel, as io_uring_submit does on a ring without SQPOLL.
/// Returns their number.
unsigned flush(io_uring_sq& sq) {
    sq.sqe_head = sq.sqe_tail;
    std::atomic_ref(*sq.ktail).store(sq.sqe_tail, std::memory_order_release);
    return sq.sqe_tail - std::atomic_ref(*sq.khead).load(std::memory_order_relaxed);
}

std::chrono::nanoseconds now_by(clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

}  // namespace

kernel_result timed_ring::accepts(const io_uring& ring) noexcept {
    if (!(ring.features & IORING_FEAT_EXT_ARG))
        return refused(
            "uring_wait: the kernel takes no deadline in a wait (IORING_FEAT_EXT_ARG, 5.11)");
    if (ring.flags & IORING_SETUP_IOPOLL)
        return refused("uring_wait: waits on an IORING_SETUP_IOPOLL ring ignore deadlines");
    if (ring.flags & setup_sq_rewind)
        return refused("uring_wait: an IORING_SETUP_SQ_REWIND ring submits from the beginning of "
                       "its queue, which the wait does not; make the ring without the flag");
    return answer(true);
}

timed_ring::timed_ring(io_uring& ring, alarm_clock clock) noexcept
    : ring_(ring), clock_(static_cast<std::uint8_t>(clock.id)), absolute_(false) {
    set_iowait(false);
    if (!clock.same_epoch || !set_clock(ring, clock.id)) return;
    absolute_ = !(ring.flags & IORING_SETUP_SQPOLL) && !may_live_in_shifted_time();
}

void timed_ring::set_iowait(bool enable) noexcept {
    if (!(ring_.features & has_no_iowait)) return;
    const unsigned others = ring_.int_flags & ~unsigned{enter_no_iowait};
    ring_.int_flags = static_cast<std::uint8_t>(others | (enable ? 0u : enter_no_iowait));
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

int timed_ring::wait(std::optional<std::chrono::nanoseconds> limit) noexcept {
    const bool has_submitter = ring_.flags & IORING_SETUP_SQPOLL;
    if (has_submitter) {
        if (const int result = io_uring_submit(&ring_); result < 0) return result;
    }
    const auto gathering = gathering_until(limit);
    wait_argument argument{0, 0, gathering, 0};
    auto time = timespec_of<__kernel_timespec>(limit.value_or(std::chrono::nanoseconds::zero()));
    if (limit) argument.time = reinterpret_cast<std::uintptr_t>(&time);
    unsigned flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
    if (absolute_) flags |= enter_abs_timer;
    if (ring_.enter_ring_fd != ring_.ring_fd) flags |= IORING_ENTER_REGISTERED_RING;
    flags |= ring_.int_flags & enter_no_iowait;  // as io_uring_set_iowait left it
    return io_uring_enter2(static_cast<unsigned>(ring_.enter_ring_fd),
                           has_submitter ? 0 : flush(ring_.sq), gathering != 0 ? enough_ : 1u,
                           flags, reinterpret_cast<sigset_t*>(&argument), sizeof argument);
}

/// Returns for how many microseconds completions gather in a wait with this limit. A wait that
/// gathers gets a limit: without one the kernel ends it when it no longer gathers.
std::uint32_t
timed_ring::gathering_until(std::optional<std::chrono::nanoseconds>& limit) const noexcept {
    if (longest_us_ == 0) return 0;
    const auto now = now_by(clock_);
    if (!limit) limit = now + longest_sleep;
    const auto left = std::chrono::floor<std::chrono::microseconds>(*limit - now).count();
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(left, 0, longest_us_));
}

kernel_result timed_ring::submit_and_wait(std::optional<std::chrono::nanoseconds> limit) noexcept {
    if (limit && !absolute_) limit = std::min(*limit, longest_sleep);
    const int result = limit && limit->count() <= 0 ? poll(ring_) : wait(limit);
    const bool has_failed = result < 0 && !is_normal(-result);
    if (has_failed) return failed(-result, "uring_wait: io_uring_enter");
    post_rest(ring_);
    return answer(true);
}

}  // namespace tvec::detail
