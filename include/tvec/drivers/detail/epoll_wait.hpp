/// \file
/// The wait of epoll with a limit in nanoseconds.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "tvec/core/detail/export.hpp"
#include "tvec/drivers/detail/kernel_result.hpp"

struct epoll_event;

namespace tvec::detail {

/// Returns how long to wait for a time that is `left` away, for a kernel that delays a wait by a
/// thousandth of it, or two hundredth in a process that is nice, and a tenth of a second at most.
/// A long wait ends early by more than that, and the next one takes the rest.
constexpr std::chrono::nanoseconds before_the_delay(std::chrono::nanoseconds left) noexcept {
    constexpr std::chrono::nanoseconds is_short = std::chrono::milliseconds(256);
    if (left <= is_short) return left;
    return left - std::min<std::chrono::nanoseconds>(left / 128, std::chrono::milliseconds(200));
}

/// Waits for up to `most` events, at most for that time. Without a `limit` the wait may last for
/// ever, and with a limit of zero it does not wait. `ready` becomes the number of events: 0 if the
/// time was over or a signal came.
TVEC_API kernel_result wait_on_epoll(int epoll, epoll_event* events, int most,
                                     std::optional<std::chrono::nanoseconds> limit,
                                     int& ready) noexcept;

}  // namespace tvec::detail
