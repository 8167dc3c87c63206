/// \file
/// A doorbell for any loop that watches descriptors: io_uring, epoll and others. Other threads ring
/// it.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <memory>

#include "tvec/core/detail/export.hpp"

namespace tvec {

/// A doorbell that is an eventfd. A ring makes its descriptor readable, and the loop watches the
/// descriptor beside its sockets. Copies are the same bell: the `mailbox` gets one, and the
/// descriptor lives as long as the last copy.
///
///     tvec::eventfd_doorbell bell;
///     tvec::mailbox mailbox(timers, 4096, bell);
///     watch(bell.fd(), EPOLLIN);
class TVEC_API eventfd_doorbell {
public:
    /// Opens the descriptor. Throws std::system_error, for example if there are no descriptors
    /// left.
    eventfd_doorbell() : descriptor_(std::make_shared<const descriptor>()) {}

    /// Rings. May be called by any thread, and in a signal handler. Neither waits nor fails. One
    /// system call.
    void operator()() const noexcept;

    /// Returns the descriptor, to be watched for reading and used for nothing else. It is
    /// non-blocking and closes on exec. It is closed with the last copy.
    int fd() const noexcept;

    /// Makes the descriptor unreadable again. Returns whether it was readable. Call it when the
    /// descriptor is readable, and before the mailbox's `run`. One system call. Throws
    /// std::system_error.
    bool acknowledge() const;

private:
    struct TVEC_API descriptor {
        descriptor();
        ~descriptor();
        descriptor(const descriptor&) = delete;
        descriptor& operator=(const descriptor&) = delete;

        const int fd;
    };

    std::shared_ptr<const descriptor> descriptor_;
};

}  // namespace tvec
