// What the caller of a test may choose: seeds, steps.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace support {

inline std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* const value = std::getenv(name);
    return value ? std::strtoull(value, nullptr, 0) : otherwise;
}

}  // namespace support
