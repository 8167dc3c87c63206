/// \file
/// How what was sent to a `remote` is named, and why it was refused.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <compare>
#include <cstdint>

#include "tvec/core/detail/wants.hpp"

namespace tvec {

struct sent;

namespace detail {
class remote_core;
}

/// The name of one function that was sent to one `remote`: sixteen bytes, copied freely, and from
/// thread to thread. No remote gives the same name twice, so one whose function is long gone is
/// harmless. It means nothing to another remote. The order of handles says nothing, but lets them
/// be keys of a std::map.
class remote_handle {
public:
    /// Names nothing.
    constexpr remote_handle() noexcept = default;
    remote_handle(const sent&) TVEC_WANTS("the handle in what `schedule` returned: .handle");

    /// Whether it names anything at all, gone or not.
    constexpr explicit operator bool() const noexcept { return generation_ != 0; }

    /// For keys of a std::map; the order says nothing.
    friend constexpr auto operator<=>(remote_handle, remote_handle) noexcept = default;

private:
    friend class detail::remote_core;

    constexpr remote_handle(std::uint32_t index, std::uint64_t generation) noexcept
        : index_(index), generation_(generation) {}

    std::uint32_t index_ = 0;       ///< of the cell
    std::uint64_t generation_ = 0;  ///< how many functions that cell has held; 0: nothing
};

/// Why something was not sent.
enum class send_error : std::uint8_t {
    none,         ///< it was
    full,         ///< as many functions as there is room for are on their way, or pending
    stopped,      ///< the owner has stopped, or is gone
    no_function,  ///< the function is empty: a null pointer, a std::function without target
};

/// What sending returns: the handle, or why there is none.
struct sent {
    remote_handle handle;                 ///< names nothing if there is an error
    send_error error = send_error::none;  ///< why there is none

    /// Whether it was sent.
    constexpr explicit operator bool() const noexcept { return error == send_error::none; }
};

}  // namespace tvec
