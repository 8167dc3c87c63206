// The ranges of options and of timers.
#pragma once

#include <chrono>
#include <string>

#include "tvec/durable/delivery.hpp"

namespace tvec::durable::detail {

inline constexpr duration longest{std::chrono::hours(24) * 1000};

// Returns the options. Throws std::invalid_argument, which names an option that is out of range.
options checked(options o);

// Return the fault of a timer that is to be put, or of an id.
refusal fault_of(const record& r);
refusal fault_of_id(const std::string& id);

}  // namespace tvec::durable::detail
