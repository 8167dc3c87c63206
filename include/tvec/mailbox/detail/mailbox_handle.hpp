/// \file
/// Handles of functions that were sent to a `mailbox`, and reasons for refusals.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <compare>
#include <cstdint>

#include "tvec/core/detail/wants.hpp"

namespace tvec {

struct sent;

namespace detail {
class mailbox_core;
}

/// A handle of one function that was sent to one `mailbox`: sixteen bytes, copied freely, and from
/// thread to thread. No mailbox gives out the same handle twice, so a stale handle is harmless.
/// Another mailbox does not understand it. The order of handles has no meaning, but lets them be
/// keys of a std::map.
class mailbox_handle {
public:
    /// Makes a handle of no function.
    constexpr mailbox_handle() noexcept = default;
    mailbox_handle(const sent&) TVEC_WANTS("the handle in what `schedule` returned: .handle");

    /// Returns whether it is the handle of a function, alive or not.
    constexpr explicit operator bool() const noexcept { return generation_ != 0; }

    /// For keys of a std::map. The order has no meaning.
    friend constexpr auto operator<=>(mailbox_handle, mailbox_handle) noexcept = default;

private:
    friend class detail::mailbox_core;

    constexpr mailbox_handle(std::uint32_t index, std::uint64_t generation) noexcept
        : index_(index), generation_(generation) {}

    std::uint32_t index_ = 0;       ///< index of the cell
    std::uint64_t generation_ = 0;  ///< number of functions that the cell has held; 0: no function
};

/// The reason why a function was not sent.
enum class send_error : std::uint8_t {
    none,         ///< it was sent
    full,         ///< all cells are in use: each is free a moment after its function has gone
    stopped,      ///< the owner has stopped, or is destroyed
    no_function,  ///< the function is empty: a null pointer, a std::function without target
};

/// The result of sending: a handle, or the reason why there is none. A compiler warns if nobody
/// looks at it. Cast it to void if a lost function does no harm.
struct [[nodiscard("it tells a refusal, such as full: check it, or cast it to void")]] sent {
    mailbox_handle handle;                ///< of no function if there is an error
    send_error error = send_error::none;  ///< the reason why there is none

    /// Returns whether it was sent.
    constexpr explicit operator bool() const noexcept { return error == send_error::none; }
};

}  // namespace tvec
