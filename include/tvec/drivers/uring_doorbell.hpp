/// \file
/// A doorbell from one loop on io_uring to another: a completion from ring to ring.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <liburing.h>

#include <cstdint>

#include "tvec/core/detail/export.hpp"
#include "tvec/drivers/detail/kernel_result.hpp"

namespace tvec {

/// The default user data of a `uring_doorbell`. Its top byte is a tag that addresses and small
/// numbers do not have.
inline constexpr std::uint64_t uring_doorbell_data = std::uint64_t{0xA8} << 56;

/// A doorbell for a thread with a ring, to wake an owner with a ring: IORING_OP_MSG_RING. The ring
/// request waits in the submission queue of the thread's own ring until that is next submitted, so
/// it costs no system call of its own. The owner needs no descriptor to poll: a completion with
/// `user_data` arrives in its ring, and means only "wake up".
///
///     tvec::uring_doorbell bell(my_ring, owners_ring_fd);
///     const auto sender = mailbox_sender.through(bell);
///
/// The mailbox still has a doorbell of its own, for all other threads, for messages that its owner
/// sends to itself, and for `rearm`, which rings it if a message has come before the sleep. It must
/// wake the owner, too. Needs Linux 5.18. The bell belongs to the thread of its ring. It is
/// neither copied nor moved.
class TVEC_API uring_doorbell {
public:
    /// Makes a bell that rings in the ring behind `owners_ring_fd` (io_uring::ring_fd). No other
    /// completion in either ring may have `user_data`. Throws std::system_error
    /// (operation_not_supported) if the kernel does not support messages between rings.
    uring_doorbell(io_uring& own, int owners_ring_fd, std::uint64_t user_data = uring_doorbell_data)
        : ring_(own), target_(owners_ring_fd), user_data_(user_data) {
        is_supported().or_throw();
    }
    uring_doorbell(const uring_doorbell&) = delete;
    uring_doorbell& operator=(const uring_doorbell&) = delete;

    /// Queues a ring request. Submits the submission queue first if it is full. The request takes
    /// effect when `own` is next submitted: do not sleep before that without submitting.
    void operator()() noexcept;

    /// Returns whether a completion of the own ring belongs to the bell. Only failed requests have
    /// a completion. A request that failed because the owner's ring was full is repeated. Throws
    /// std::system_error if it failed for a permanent reason: the owner's ring is gone, or is
    /// disabled.
    bool complete(std::uint64_t user_data, int result) {
        return completed(user_data, result).or_throw();
    }

private:
    static detail::kernel_result is_supported() noexcept;
    detail::kernel_result completed(std::uint64_t user_data, int result) noexcept;

    io_uring& ring_;
    int target_;
    std::uint64_t user_data_;
};

}  // namespace tvec
