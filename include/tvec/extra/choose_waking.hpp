/// \file
/// The choice of a way to wake the loop.
/// In extra/: before 1.0 a minor release may change or remove it.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <liburing.h>

#include <string>

#include "tvec/core/detail/export.hpp"

namespace tvec {

/// A way to wake a reactor, and the reason for it, as text for a log.
struct waking {
    /// Classes of the same names.
    enum class way {
        uring_wait,     ///< the deadline is an argument of the reactor's own wait
        timerfd_alarm,  ///< a descriptor to watch, by a ring or by anything else
    };
    way chosen;          ///< the best way that works
    std::string reason;  ///< why this one, and why no better one
    /// whether the ring takes the requests of a uring_timeout as well: for a wait that another
    /// makes
    bool timeouts = false;
};

/// Returns the name of the class, such as "uring_wait".
TVEC_API const char* name_of(waking::way w) noexcept;

/// Returns the best way of waking that a ring allows. `set_up` is the result of setting the ring
/// up:
///
///     io_uring ring;
///     const auto waking = tvec::choose_waking(io_uring_queue_init(256, &ring, flags), ring);
///     log("woken by ", name_of(waking.chosen), ": ", waking.reason);
///
/// The best way is uring_wait. The other one is timerfd_alarm, which needs no ring. It is chosen in
/// these cases:
///
///  - Setting up failed. `ring` is then not read.
///  - Entering the ring is forbidden. A filter may do that although setting up works.
///  - The ring is made for polled devices, and its waits do not sleep.
///  - The kernel takes no deadline in a wait (before 5.11).
///
/// The reason names the failure, and its known cause. The choice depends on features only, not on
/// versions. A filter of Linux 7.0 may refuse timeout requests alone, which the reason then says.
/// To find out it makes a ring of its own. Call it once, in the thread that will own the ring.
/// Throws nothing but std::bad_alloc.
TVEC_API waking choose_waking(int set_up, io_uring& ring);

}  // namespace tvec
