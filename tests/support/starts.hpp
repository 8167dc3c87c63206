// Start ticks at which a wheel is most likely to fail: just before, at and after every level's
// edge. A test that only starts at 0 proves little.
#pragma once

#include <vector>

#include "environment.hpp"
#include "tvec/core/detail/geometry.hpp"

namespace support {

inline std::vector<tvec::jiffies> starts() {
    using tvec::jiffies;
    std::vector<jiffies> all{0, 1, 300, 0x1659418c000, tvec::never - (jiffies{1} << 41)};
    if (only_memory()) return all;
    for (const unsigned power : {8u, 14u, 20u, 26u, 32u, 33u, 40u})
        for (const unsigned off : {0u, 1u, 2u}) all.push_back((jiffies{1} << power) - 1 + off);
    all.push_back((jiffies{1} << 32) - 300);
    all.push_back((jiffies{7} << 32) - 1);
    return all;
}

// Delays within 2 of every power of two at which a level's lap, its reach or the wheel ends.
inline std::vector<tvec::jiffies> edges() {
    using tvec::jiffies;
    std::vector<jiffies> all{1, 2, 3};
    for (const unsigned power : {8u, 9u, 14u, 15u, 16u, 20u, 21u, 26u, 27u, 32u, 33u, 34u})
        for (const unsigned off : {0u, 1u, 2u, 3u, 4u})
            all.push_back((jiffies{1} << power) - 2 + off);
    return all;
}

}  // namespace support
