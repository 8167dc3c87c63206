/// \file
/// Waking a loop on io_uring from another loop on io_uring: a completion from ring to ring.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <liburing.h>

#include <cstdint>

#include "tvec/core/detail/export.hpp"
#include "tvec/drivers/detail/kernel_result.hpp"

namespace tvec {

/// The user data of a `uring_doorbell`, if nothing else is asked for. Its top byte is the tag that
/// addresses and small numbers do not have.
inline constexpr std::uint64_t uring_doorbell_data = std::uint64_t{0xA8} << 56;

/// A doorbell for a thread that has a ring, in front of an owner that has one: IORING_OP_MSG_RING.
/// The ringing waits in the submission queue of the thread's own ring until that is submitted next,
/// so it costs no system call of its own; and the owner needs no descriptor to poll for it. It
/// arrives there as a completion that has `user_data`, and means nothing but: wake up.
///
///     tvec::uring_doorbell bell(my_ring, owners_ring_fd);
///     const auto sender = mailbox_sender.through(bell);
///
/// The remote itself still has a doorbell for all others, and for what its owner sends to itself.
/// From Linux 5.18 on. The bell belongs to the thread of its ring. It is neither copied nor moved.
class TVEC_API uring_doorbell {
public:
    /// For ringing in the ring behind `owners_ring_fd` (io_uring::ring_fd). No other completion in
    /// either ring may have `user_data`. Throws std::system_error (operation_not_supported) if the
    /// kernel does not know messages between rings.
    uring_doorbell(io_uring& own, int owners_ring_fd, std::uint64_t user_data = uring_doorbell_data)
        : ring_(own), target_(owners_ring_fd), user_data_(user_data) {
        is_supported().or_throw();
    }
    uring_doorbell(const uring_doorbell&) = delete;
    uring_doorbell& operator=(const uring_doorbell&) = delete;

    /// Queues the ringing; if the submission queue is full, submits it to make room. What has been
    /// queued rings when `own` is next submitted: do not sleep otherwise before that.
    void operator()() noexcept;

    /// Whether a completion of the own ring is the bell's: only failures have one. The ringing is
    /// repeated if it failed for want of room in the owner's ring. Throws std::system_error if it
    /// failed for a reason that will not pass: the owner's ring is gone, or is disabled.
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
