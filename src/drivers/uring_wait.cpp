#include "tvec/uring_wait.hpp"

#include <algorithm>

#include "kernel.hpp"

namespace tvec::detail {

namespace {

/// Longer sleeps are cut into pieces: nobody needs them, and no kernel need be trusted with them.
constexpr std::chrono::nanoseconds longest_sleep = std::chrono::hours(1);

int wait_until_completion(io_uring& ring) { return io_uring_submit_and_wait(&ring, 1); }

int poll(io_uring& ring) { return io_uring_submit_and_get_events(&ring); }

int wait_for(io_uring& ring, std::chrono::nanoseconds limit) {
    auto relative = timespec_of<__kernel_timespec>(std::min(limit, longest_sleep));
    io_uring_cqe* unused = nullptr;
    return io_uring_submit_and_wait_timeout(&ring, &unused, 1, &relative, nullptr);
}

}  // namespace

void require_timed_wait(const io_uring& ring) {
    if (!(ring.features & IORING_FEAT_EXT_ARG))
        refuse("uring_wait: the kernel takes no deadline in a wait (IORING_FEAT_EXT_ARG, 5.11)");
    if (ring.flags & IORING_SETUP_IOPOLL)
        refuse("uring_wait: waits on an IORING_SETUP_IOPOLL ring ignore deadlines");
}

void submit_and_wait(io_uring& ring, std::optional<std::chrono::nanoseconds> limit) {
    const int result = !limit                ? wait_until_completion(ring)
                       : limit->count() <= 0 ? poll(ring)
                                             : wait_for(ring, *limit);
    if (result < 0 && !is_normal(-result)) fail(-result, "uring_wait: io_uring_enter");
}

}  // namespace tvec::detail
