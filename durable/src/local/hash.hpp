// The hash by which ids are divided into shards.
#pragma once

#include <cstdint>
#include <string_view>

namespace tvec::durable::detail {

// FNV-1a.
inline std::uint64_t hash_of(std::string_view id) noexcept {
    std::uint64_t hash = 14695981039346656037ULL;
    for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    return hash;
}

}  // namespace tvec::durable::detail
