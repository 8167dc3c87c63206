/// \file
/// Judges if a Redis server can be trusted with timers.
#pragma once

#include <string>
#include <string_view>
#include <system_error>

namespace tvec::durable::redis {

/// The verdict on a server: the reason of its refusal, or a warning. Each is one line, or "".
struct verdict {
    std::errc code{};
    std::string refusal{}, warning{};
};

/// Judges a server by its INFO, and by its `appendfsync`, which is "" if the server does not tell.
verdict judge(std::string_view info, std::string_view appendfsync);

/// Returns true if the INFO is of a node of a cluster.
bool is_in_cluster(std::string_view info);

}  // namespace tvec::durable::redis
