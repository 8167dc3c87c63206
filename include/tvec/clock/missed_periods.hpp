/// \file
/// What becomes of periods that have been missed.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <cstdint>

namespace tvec {

/// What something periodic does when it is called late, perhaps by periods. They are counted in
/// ticks: by the clock, two calls that are a period apart may be closer by less than a tick.
enum class missed_periods : std::uint8_t {
    burst,  ///< is called for each of them, as fast as possible, until it has caught up
    delay,  ///< is called once, and next a whole period after that: each late call moves its phase
    skip,   ///< is called once, and keeps its phase
};

}  // namespace tvec
