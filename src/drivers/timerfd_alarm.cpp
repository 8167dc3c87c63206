#include "tvec/timerfd_alarm.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>

#include "kernel.hpp"

namespace tvec::detail {

alarm_descriptor::alarm_descriptor(alarm_clock clock)
    : fd_(timerfd_create(clock.id, TFD_NONBLOCK | TFD_CLOEXEC)), absolute_(clock.same_epoch) {
    if (fd_ < 0) fail(errno, "timerfd_alarm: timerfd_create");
}

alarm_descriptor::~alarm_descriptor() { close(fd_); }

void alarm_descriptor::set(std::chrono::nanoseconds time) {
    itimerspec once{};
    once.it_value = timespec_of<timespec>(std::max(time, std::chrono::nanoseconds(1)));  // 0: off
    if (timerfd_settime(fd_, absolute_ ? TFD_TIMER_ABSTIME : 0, &once, nullptr) != 0)
        fail(errno, "timerfd_alarm: timerfd_settime");
}

bool alarm_descriptor::read() {
    std::uint64_t expirations = 0;
    if (::read(fd_, &expirations, sizeof expirations) > 0) return true;
    if (errno != EAGAIN) fail(errno, "timerfd_alarm: read");
    return false;
}

}  // namespace tvec::detail
