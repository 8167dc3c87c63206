// The time of stores without a server.
#pragma once

#include <chrono>

#include "tvec/durable/store.hpp"

namespace tvec::durable::detail {

inline reading wall_clock() {
    return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
}

inline time_point today() { return std::chrono::floor<duration>(wall_clock()); }

}  // namespace tvec::durable::detail
