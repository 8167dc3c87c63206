// Descriptors: closing them, signals in one, and being allowed enough of them.
#pragma once

#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace example {

// Throws the error of a failed system call.
[[noreturn]] inline void fail(const std::string& tried) {
    throw std::system_error(errno, std::system_category(), tried);
}

class descriptor {
public:
    descriptor() = default;
    explicit descriptor(int fd) : fd_(fd) {}
    descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    descriptor& operator=(descriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    int get() const { return fd_; }
    // Returns the descriptor, which the caller closes.
    int release() { return std::exchange(fd_, -1); }

private:
    int fd_ = -1;
};

// Returns a descriptor in which SIGINT and SIGTERM queue from here on, even those that a shell had
// set to be ignored. Call it before any thread begins.
inline descriptor signal_descriptor() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    if (sigprocmask(SIG_BLOCK, &set, nullptr) != 0) fail("sigprocmask");
    descriptor signals(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (signals.get() < 0) fail("signalfd");
    return signals;
}

// Raises the soft limit as far as needed. Throws if the hard limit does not allow it.
inline void require_descriptors(rlim_t needed) {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) fail("getrlimit");
    if (limit.rlim_cur >= needed) return;
    limit.rlim_cur = std::min<rlim_t>(needed, limit.rlim_max);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) fail("setrlimit");
    if (limit.rlim_cur < needed)
        throw std::runtime_error(fmt::format(
            "needs {} descriptors and may have {} (RLIMIT_NOFILE); ask for fewer connections",
            needed, limit.rlim_cur));
}

}  // namespace example
