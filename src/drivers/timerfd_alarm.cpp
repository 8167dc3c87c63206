#include "tvec/drivers/timerfd_alarm.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>

#include "kernel.hpp"

namespace tvec::detail {

kernel_result open_alarm(alarm_clock clock, int& fd) noexcept {
    fd = timerfd_create(clock.id, TFD_NONBLOCK | TFD_CLOEXEC);
    return fd >= 0 ? answer(true) : failed(errno, "timerfd_alarm: timerfd_create");
}

void close_alarm(int fd) noexcept { close(fd); }

kernel_result set_alarm(int fd, bool absolute, std::chrono::nanoseconds time) noexcept {
    itimerspec once{};
    once.it_value = timespec_of<timespec>(std::max(time, std::chrono::nanoseconds(1)));  // 0: off
    if (timerfd_settime(fd, absolute ? TFD_TIMER_ABSTIME : 0, &once, nullptr) == 0)
        return answer(true);
    return failed(errno, "timerfd_alarm: timerfd_settime");
}

kernel_result silence_alarm(int fd) noexcept {
    std::uint64_t expirations = 0;
    if (read(fd, &expirations, sizeof expirations) > 0) return answer(true);
    return errno == EAGAIN ? answer(false) : failed(errno, "timerfd_alarm: read");
}

}  // namespace tvec::detail
