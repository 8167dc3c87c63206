#include "slot_map.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <limits>

#include "../local/printable.hpp"

namespace tvec::durable::redis {

namespace {

constexpr long long last_port = std::numeric_limits<std::uint16_t>::max();

// Reads a node: host, port and more. A host that the node does not know is "", nil or "?".
std::optional<endpoint> node_of(fields node, const std::string& asked) {
    std::string host(node.view_or_nil());
    const long long port = node.number();
    if (!node.is_whole() || port < 1 || port > last_port) return std::nullopt;
    if (host.empty() || host == "?") host = asked;
    detail::make_printable(host.data(), host.size());  // messages name it
    return endpoint{std::move(host), static_cast<std::uint16_t>(port)};
}

}  // namespace

// CRC-16 of XMODEM, bit by bit: a store computes it once for each shard.
unsigned slot_of(std::string_view tag) noexcept {
    unsigned crc = 0;
    for (const char c : tag) {
        crc ^= static_cast<unsigned>(static_cast<unsigned char>(c)) << 8;
        for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1;
        crc &= 0xffff;
    }
    return crc % slot_count;
}

std::optional<slot_map> slot_map::parsed(const redisReply& r, const std::string& asked) {
    slot_map all;
    for (fields parts(r); parts.is_whole();) {
        if (parts.at_end()) return all;
        fields part = parts.list();
        const long long first = part.number(), last = part.number();
        if (!part.is_whole() || first > last || last >= slot_count) return std::nullopt;
        for (bool is_first = true; is_first || !part.at_end(); is_first = false) {
            const auto node = node_of(part.list(), asked);
            if (!node) return std::nullopt;
            if (is_first)
                all.ranges_.push_back(
                    {static_cast<unsigned>(first), static_cast<unsigned>(last), *node});
            if (std::ranges::find(all.nodes_, *node) == all.nodes_.end())
                all.nodes_.push_back(*node);
        }
    }
    return std::nullopt;
}

const endpoint* slot_map::primary_of(unsigned slot) const noexcept {
    assert(slot < slot_count && "a slot is one of the cluster");
    const auto holds = [slot](const range& r) { return r.first <= slot && slot <= r.last; };
    const auto found = std::ranges::find_if(ranges_, holds);
    return found == ranges_.end() ? nullptr : &found->primary;
}

bool slot_map::is_primary(const endpoint& e) const noexcept {
    return std::ranges::find(ranges_, e, &range::primary) != ranges_.end();
}

bool is_redirection(std::string_view error) {
    return redirection_of(error, {}).what != redirection::kind::none;
}

// The errors are "MOVED slot host:port", "ASK slot host:port", "TRYAGAIN ..." and "CLUSTERDOWN
// ...".
redirection redirection_of(std::string_view error, const std::string& asked) {
    using enum redirection::kind;
    if (error.starts_with("TRYAGAIN") || error.starts_with("CLUSTERDOWN")) return {later};
    const auto what = error.starts_with("MOVED ") ? moved : error.starts_with("ASK ") ? ask : none;
    const std::size_t space = error.rfind(' '), colon = error.rfind(':');
    if (what == none || colon == error.npos || colon < space) return {};
    const long long port = fields::parsed(error.substr(colon + 1));
    if (port < 1 || port > last_port) return {};
    std::string host(error.substr(space + 1, colon - space - 1));
    if (host.empty() || host == "?") host = asked;
    return {what, {std::move(host), static_cast<std::uint16_t>(port)}};
}

}  // namespace tvec::durable::redis
