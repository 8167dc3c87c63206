/// \file
/// Policies for periods that were missed.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <cstdint>

namespace tvec {

/// The treatment of missed periods by a periodic call that comes late. Periods are counted in
/// ticks: by the clock, two calls a period apart may be closer by less than a tick.
enum class missed_periods : std::uint8_t {
    burst,  ///< one call for each missed period, as fast as possible, until it has caught up
    delay,  ///< one call, and the next a whole period later: each late call moves the phase
    skip,   ///< one call, and the phase stays
};

}  // namespace tvec
