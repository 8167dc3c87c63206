/// \file
/// How the timeouts of a `timeout_pool` are named, and what is said of them.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <compare>
#include <cstdint>

#include "tvec/clock/missed_periods.hpp"  // IWYU pragma: export
#include "tvec/core/detail/wants.hpp"
#include "tvec/core/jiffies.hpp"

namespace tvec {

struct scheduled;

namespace detail {
class timeout_slabs;
}

/// The name of one timeout of one pool: eight bytes, copied freely. A pool never gives the same
/// name twice, so one whose timeout is long gone is harmless: the pool does not know it. It means
/// nothing to another pool. The order of handles says nothing, but lets them be keys of a std::map.
class timeout_handle {
public:
    /// Names no timeout.
    constexpr timeout_handle() noexcept = default;
    timeout_handle(const scheduled&) TVEC_WANTS("the handle in what `schedule` returned: .handle");

    /// Whether it names a timeout at all, gone or not.
    constexpr explicit operator bool() const noexcept { return generation_ != 0; }

    /// For keys of a std::map; the order says nothing.
    friend constexpr auto operator<=>(timeout_handle, timeout_handle) noexcept = default;

private:
    friend class detail::timeout_slabs;

    constexpr timeout_handle(std::uint32_t index, std::uint32_t generation) noexcept
        : index_(index), generation_(generation) {}

    std::uint32_t index_ = 0;       ///< of the node
    std::uint32_t generation_ = 0;  ///< how many timeouts that node has held; 0: no timeout
};

/// What has become of a timeout.
enum class timeout_state : std::uint8_t {
    unknown,  ///< not of this pool, or so long ago that its node has been used again or given back
    pending,  ///< it is going to fire
    running,  ///< its function is being called
    fired,    ///< its function has been called
    cancelled,  ///< its function has not been called, or no more: `cancel`, `take`, `stop`
};

/// Why a timeout was not scheduled.
enum class schedule_error : std::uint8_t {
    none,           ///< it was
    too_many,       ///< max_pending timeouts are pending
    stopped,        ///< the pool has been stopped
    out_of_memory,  ///< there was no memory for another slab; what is pending is not affected
    no_function,    ///< the function is empty: a null pointer, a std::function without target
};

/// What `schedule` returns: the handle, or why there is none.
struct scheduled {
    timeout_handle handle;                        ///< names no timeout if there is an error
    schedule_error error = schedule_error::none;  ///< why there is none

    /// Whether it was scheduled.
    constexpr explicit operator bool() const noexcept { return error == schedule_error::none; }
};

/// What a function may ask to be told when it is called.
struct timeout_call {
    timeout_handle self;  ///< the timeout that is being called
    jiffies missed;  ///< periods passed over besides this one; 0 unless periodic, and in a burst
    /// The tick of the deadline that it is called for, also if it is called late or early. In the
    /// time of its clock that is timers.ticks().start_of(due).
    jiffies due;
};

}  // namespace tvec
