#include "tvec/drivers/detail/epoll_wait.hpp"

#include <linux/time_types.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "kernel.hpp"
#include "tvec/clock/detail/waiting.hpp"

namespace tvec::detail {

namespace {

/// Waits in nanoseconds (Linux 5.11). Fails with ENOSYS on older kernels. EPERM is the answer of
/// filters that do not know the call.
int wait_exactly(int epoll, epoll_event* events, int most, std::chrono::nanoseconds limit) {
#ifdef SYS_epoll_pwait2
    const auto time = timespec_of<__kernel_timespec>(limit);
    return static_cast<int>(syscall(SYS_epoll_pwait2, epoll, events, most, &time, nullptr, 0));
#else  // headers before 5.11
    static_cast<void>(epoll), static_cast<void>(events), static_cast<void>(most);
    static_cast<void>(limit);
    errno = ENOSYS;
    return -1;
#endif
}

int wait(int epoll, epoll_event* events, int most, std::optional<std::chrono::nanoseconds> limit) {
    static std::atomic<bool> has_nanoseconds{true};
    if (limit) limit = before_the_delay(std::min(*limit, longest_sleep));
    if (limit && limit->count() > 0 && has_nanoseconds.load(std::memory_order_relaxed)) {
        const int result = wait_exactly(epoll, events, most, *limit);
        if (result >= 0 || (errno != ENOSYS && errno != EPERM)) return result;
        has_nanoseconds.store(false, std::memory_order_relaxed);
    }
    return ::epoll_wait(epoll, events, most, whole_milliseconds(limit));
}

}  // namespace

kernel_result wait_on_epoll(int epoll, epoll_event* events, int most,
                            std::optional<std::chrono::nanoseconds> limit, int& ready) noexcept {
    const int result = wait(epoll, events, most, limit);
    ready = std::max(result, 0);
    const bool has_failed = result < 0 && errno != EINTR;
    return has_failed ? failed(errno, "epoll_wait") : answer(true);
}

}  // namespace tvec::detail
