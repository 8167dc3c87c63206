/// \file
/// Handles of the timeouts of a `timeout_pool`, and their states.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <compare>
#include <cstdint>

#include "tvec/clock/detail/missed_periods.hpp"  // IWYU pragma: export
#include "tvec/core/detail/jiffies.hpp"
#include "tvec/core/detail/wants.hpp"

namespace tvec {

struct scheduled;

namespace detail {
class timeout_slabs;
}

/// A handle of one timeout of one pool: eight bytes, copied freely. A pool never gives out the same
/// handle twice, so a stale handle is harmless: the pool does not know it. Another pool does not
/// understand it. The order of handles has no meaning, but lets them be keys of a std::map.
class timeout_handle {
public:
    /// Makes a handle of no timeout.
    constexpr timeout_handle() noexcept = default;
    timeout_handle(const scheduled&) TVEC_WANTS("the handle in what `schedule` returned: .handle");

    /// Returns whether it is the handle of a timeout, alive or not.
    constexpr explicit operator bool() const noexcept { return generation_ != 0; }

    /// For keys of a std::map. The order has no meaning.
    friend constexpr auto operator<=>(timeout_handle, timeout_handle) noexcept = default;

private:
    friend class detail::timeout_slabs;

    constexpr timeout_handle(std::uint32_t index, std::uint32_t generation) noexcept
        : index_(index), generation_(generation) {}

    std::uint32_t index_ = 0;       ///< index of the node
    std::uint32_t generation_ = 0;  ///< number of timeouts that the node has held; 0: no timeout
};

/// The state of a timeout.
enum class timeout_state : std::uint8_t {
    unknown,    ///< of another pool, or its node has been reused or freed since
    pending,    ///< it is going to fire
    running,    ///< its function is being called
    fired,      ///< its function has been called
    cancelled,  ///< it will not be called any more: `cancel`, `take`, `stop`
};

/// The reason why a timeout was not scheduled.
enum class schedule_error : std::uint8_t {
    none,           ///< it was scheduled
    too_many,       ///< max_pending timeouts are pending
    stopped,        ///< the pool has been stopped
    out_of_memory,  ///< no memory for another slab; pending timeouts are not affected
    no_function,    ///< the function is empty: a null pointer, a std::function without target
};

/// The result of `schedule`: a handle, or the reason why there is none. A compiler warns if nobody
/// looks at it. Cast it to void where no refusal is possible: no bound, no `stop`.
struct [[nodiscard(
    "it tells a refusal, such as too_many: check it, or cast it to void")]] scheduled {
    timeout_handle handle;                        ///< of no timeout if there is an error
    schedule_error error = schedule_error::none;  ///< the reason why there is none

    /// Returns whether it was scheduled.
    constexpr explicit operator bool() const noexcept { return error == schedule_error::none; }
};

/// The argument of a function that wants to know about its call.
struct timeout_call {
    timeout_handle self;  ///< the timeout that is being called
    jiffies missed;       ///< periods skipped besides this one; 0 unless periodic, and in a burst
    /// The tick of the deadline, even if the call comes late or early. As a time of its clock it is
    /// timers.ticks().start_of(due).
    jiffies due;
};

}  // namespace tvec
