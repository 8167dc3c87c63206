// Choices of the caller of a test: seeds, steps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace support {

inline std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* const value = std::getenv(name);
    return value ? std::strtoull(value, nullptr, 0) : otherwise;
}

// Of `n` timers or repetitions, as many as a test takes: fewer where each access takes long, and as
// many as it `needs`.
inline std::uint64_t scaled(std::uint64_t n, std::uint64_t needs = 0) {
    return std::max(needs, n * from_environment("TVEC_PERCENT", 100) / 100);
}

// Returns whether values are checked elsewhere, and only memory is here: some of each kind are
// enough.
inline bool only_memory() { return from_environment("TVEC_PERCENT", 100) < 5; }

}  // namespace support
