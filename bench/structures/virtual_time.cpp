#include "virtual_time.hpp"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>

#include <cerrno>

// Every clock returns the virtual time.
extern "C" int clock_gettime(clockid_t, timespec* t) noexcept {
    t->tv_sec = static_cast<time_t>(bench::virtual_nanoseconds / 1'000'000'000);
    t->tv_nsec = static_cast<long>(bench::virtual_nanoseconds % 1'000'000'000);
    return 0;
}

// No descriptor is ever ready, and polling costs nothing.
extern "C" int epoll_wait(int, epoll_event*, int, int) { return 0; }
extern "C" int epoll_pwait(int, epoll_event*, int, int, const sigset_t*) { return 0; }
extern "C" int epoll_ctl(int, int, int, epoll_event*) noexcept { return 0; }

// Asio sets a timer descriptor whenever its first deadline changes, if it has one.
extern "C" int timerfd_create(int, int) noexcept {
    errno = ENOSYS;
    return -1;
}
