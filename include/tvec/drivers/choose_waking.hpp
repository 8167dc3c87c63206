/// \file
/// Which way of waking works here.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <liburing.h>

#include <string>

#include "tvec/core/detail/export.hpp"

namespace tvec {

/// A way to wake a reactor, and the reason for it, in words for a log.
struct waking {
    /// The classes of the same names.
    enum class way {
        uring_wait,     ///< the deadline rides in the reactor's own wait
        uring_timeout,  ///< one timeout request in the ring
        timerfd_alarm,  ///< a descriptor to watch, by a ring or by anything else
    };
    way chosen;          ///< the best that works
    std::string reason;  ///< why that, and why no better one
};

/// The name of the class: "uring_wait", say.
TVEC_API const char* name_of(waking::way w) noexcept;

/// Chooses the best way of waking that a ring allows. Give it what setting the ring up returned:
///
///     io_uring ring;
///     const auto waking = tvec::choose_waking(io_uring_queue_init(256, &ring, flags), ring);
///     log("woken by ", name_of(waking.chosen), ": ", waking.reason);
///
/// uring_wait where the kernel takes a deadline in a wait; else uring_timeout, where the ring takes
/// timeouts; else timerfd_alarm, which needs no ring: if setting up has failed (`ring` is then not
/// looked at), if entering the ring is forbidden (which a filter may do though setting up works),
/// and if the ring is made for polled devices, whose waits do not sleep. The reason tells what
/// failed, and what is known about the cause.
///
/// Only features are asked for, no versions. One system call; call it once, in the thread that will
/// own the ring. Throws nothing but std::bad_alloc.
TVEC_API waking choose_waking(int set_up, io_uring& ring);

}  // namespace tvec
