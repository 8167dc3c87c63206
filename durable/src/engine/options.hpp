// The ranges of options.
#pragma once

#include <chrono>

#include "tvec/durable/delivery.hpp"

namespace tvec::durable::detail {

inline constexpr duration longest{std::chrono::hours(24) * 1000};

// Returns the options. Throws std::invalid_argument, which names an option that is out of range.
options checked(options o);

}  // namespace tvec::durable::detail
