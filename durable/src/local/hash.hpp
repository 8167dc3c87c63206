// The hash of an id, and of other texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tvec::durable::detail {

// Uses FNV-1a. Its upper bits are better mixed than the lower, so they are folded in.
inline std::uint64_t hash_of(std::string_view text) noexcept {
    std::uint64_t hash = 14695981039346656037ULL;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    return hash ^ hash >> 32;
}

inline unsigned shard_of_id(std::string_view id, std::size_t shards) noexcept {
    return static_cast<unsigned>(hash_of(id) % shards);
}

}  // namespace tvec::durable::detail
