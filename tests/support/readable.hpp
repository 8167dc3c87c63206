// Waiting for a descriptor.
#pragma once

#include <poll.h>

#include <chrono>

namespace support {

// Returns whether `fd` is readable, or becomes so within `limit`. A signal ends the wait.
inline bool wait_readable(int fd, std::chrono::milliseconds limit = {}) {
    pollfd watched{fd, POLLIN, 0};
    return poll(&watched, 1, static_cast<int>(limit.count())) == 1;
}

}  // namespace support
