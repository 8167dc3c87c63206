/// \file
/// Whether a Redis server can be trusted with timers.
#pragma once

#include <string>
#include <string_view>
#include <system_error>

namespace tvec::durable::redis {

/// The verdict on a server: why it is refused, or what its user ought to know; each one line, or
/// "".
struct verdict {
    std::errc code{};
    std::string refusal{}, warning{};
};

/// Of a server whose INFO says this, and whose `appendfsync` is that ("" if it does not tell).
verdict judge(std::string_view info, std::string_view appendfsync);

}  // namespace tvec::durable::redis
