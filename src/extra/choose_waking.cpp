#include "tvec/extra/choose_waking.hpp"

#include <cassert>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "tvec/drivers/uring_timeout.hpp"

namespace tvec {

namespace {

/// Returns the setting of the administrator: 0 is on, 1 for the privileged, 2 off. Empty if there
/// is none.
std::string uring_disabled() {
    std::ifstream file("/proc/sys/kernel/io_uring_disabled");
    std::string value;
    file >> value;
    return value;
}

std::string cause_of(int error) {
    const std::string disabled = uring_disabled();
    switch (error) {
    case EPERM:
        return !disabled.empty() && disabled != "0"
                   ? " (kernel.io_uring_disabled is " + disabled + ")"
                   : " (a seccomp filter, as containers have them?)";
    case ENOSYS:
        return " (a kernel or a seccomp filter without io_uring)";
    case EMFILE:
        return " (RLIMIT_NOFILE)";
    case ENOMEM:
        return " (RLIMIT_MEMLOCK, on kernels before 5.12?)";
    case EINVAL:
        return " (a flag or a size that this kernel does not know)";
    default:
        return "";
    }
}

std::string failure(const char* tried, int error) {
    return tried + (": " + std::system_category().message(error)) + cause_of(error);
}

/// Returns the error with which entering the ring is forbidden, or 0. Other errors are left to the
/// reactor.
int forbidden(io_uring& ring) {
    const int error = -io_uring_get_events(&ring);
    return error == EPERM || error == EACCES || error == ENOSYS ? error : 0;
}

/// Returns the choice on a ring whose waits take a deadline.
waking with_deadline_in_wait(const io_uring& ring) {
    waking w{waking::way::uring_wait,
             "the kernel takes a deadline in a wait (IORING_FEAT_EXT_ARG)"};
    const int refused = detail::ring_alarm::refusal_of_kernel();
    if (refused != 0) w.reason += "; " + failure("it refuses timeout requests", refused);
    w.timeouts = refused == 0 && detail::ring_alarm::accepts(ring).yes;
    return w;
}

}  // namespace

const char* name_of(waking::way w) noexcept {
    switch (w) {
    case waking::way::uring_wait:
        return "uring_wait";
    case waking::way::timerfd_alarm:
        break;
    }
    return "timerfd_alarm";
}

waking choose_waking(int set_up, io_uring& ring) {
    using way = waking::way;
    assert(set_up <= 0 && "io_uring_queue_init returns 0 or a negative errno value");
    if (set_up < 0) return {way::timerfd_alarm, failure("io_uring_queue_init", -set_up)};
    if (ring.flags & IORING_SETUP_IOPOLL)
        return {way::timerfd_alarm, "waits on an IORING_SETUP_IOPOLL ring do not sleep"};
    if (const int error = forbidden(ring))
        return {way::timerfd_alarm, failure("io_uring_enter", error)};
    if (ring.features & IORING_FEAT_EXT_ARG) return with_deadline_in_wait(ring);
    return {way::timerfd_alarm, "the kernel takes no deadline in a wait (no IORING_FEAT_EXT_ARG)"};
}

}  // namespace tvec
