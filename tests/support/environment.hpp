// What the caller of a test may choose: seeds, steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace support {

inline std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* const value = std::getenv(name);
    return value ? std::strtoull(value, nullptr, 0) : otherwise;
}

// Of `n` timers or repetitions, as many as a test takes: fewer where each access takes long.
inline std::size_t scaled(std::size_t n) { return n * from_environment("TVEC_PERCENT", 100) / 100; }

}  // namespace support
