/// \file
/// The slots of a Redis Cluster: the primaries that hold them, and the errors that tell of a move.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reply.hpp"

namespace tvec::durable::redis {

/// The number of slots of every cluster.
inline constexpr unsigned slot_count = 16'384;

/// Returns the slot of the keys with that text in braces.
unsigned slot_of(std::string_view tag) noexcept;

/// The place of a node, as the cluster tells it.
struct endpoint {
    std::string host;        ///< an address, or a name
    std::uint16_t port = 0;  ///< for TLS, if the question came by TLS

    std::string text() const { return host + ':' + std::to_string(port); }
    friend auto operator<=>(const endpoint&, const endpoint&) = default;
};

/// The nodes of a cluster, and the slots of each primary.
class slot_map {
public:
    /// Parses the answer of CLUSTER SLOTS. A node without a known host has `asked`, the host of the
    /// node that answered. Returns nothing if the answer has the wrong form.
    static std::optional<slot_map> parsed(const redisReply& r, const std::string& asked);

    /// Returns the primary of a slot, or nullptr if no node holds it.
    const endpoint* primary_of(unsigned slot) const noexcept;
    /// Returns true if this node holds a slot.
    bool is_primary(const endpoint& e) const noexcept;
    /// Returns all nodes, each once.
    const std::vector<endpoint>& nodes() const noexcept { return nodes_; }

private:
    struct range {
        unsigned first, last;
        endpoint primary;
    };

    std::vector<range> ranges_;
    std::vector<endpoint> nodes_;
};

/// An error of a node that has not done a command, because of the slot of its keys.
struct redirection {
    /// The kind of error.
    enum class kind {
        none,   ///< another error
        moved,  ///< `to` holds the slot
        ask,    ///< `to` has the keys of this command, while the slot moves
        later   ///< the same command may succeed soon: the slot moves, or the cluster has a fault
    } what = kind::none;
    endpoint to{};  ///< of `moved` and `ask`
};

/// Returns true for such an error.
bool is_redirection(std::string_view error);

/// Parses an error. A node without a host in it has `asked`, the host of the node that answered.
redirection redirection_of(std::string_view error, const std::string& asked);

}  // namespace tvec::durable::redis
