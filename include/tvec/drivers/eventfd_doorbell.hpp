/// \file
/// Waking a loop from another thread by a descriptor: for io_uring, epoll, and all that watches
/// one.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <memory>

#include "tvec/core/detail/export.hpp"

namespace tvec {

/// A doorbell that is an eventfd. Calling it makes the descriptor readable; the loop watches that
/// beside its sockets. Copies are the same bell: one is given to the `remote`, and lives as long as
/// anybody may ring it.
///
///     tvec::eventfd_doorbell bell;
///     tvec::remote mailbox(timers, 4096, bell);
///     watch(bell.fd(), EPOLLIN);
class TVEC_API eventfd_doorbell {
public:
    /// Throws std::system_error, if there is no descriptor left, say.
    eventfd_doorbell() : descriptor_(std::make_shared<const descriptor>()) {}

    /// Rings. Any thread, also in a signal handler; it neither waits nor fails. One system call.
    void operator()() const noexcept;

    /// To be watched for reading, and not for anything else. It is non-blocking and closes on exec;
    /// it is closed with the last copy.
    int fd() const noexcept;

    /// Makes the descriptor unreadable again. Returns whether it was readable. Call it when the
    /// loop says so, and before the remote's `run`. One system call. Throws std::system_error.
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
