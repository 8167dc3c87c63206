// The ranges of options and of timers.
#pragma once

#include <string>

#include "tvec/durable/delivery.hpp"

namespace tvec::durable::detail {

// Returns the options. Throws std::invalid_argument, which names an option that is out of range.
options checked(options o);

// Returns true if a deadline is one that a timer may have.
bool in_range(time_point due);

// Return the fault of a timer that is to be put, of an id, or of a lease.
refusal fault_of(const record& r);
refusal fault_of_id(const std::string& id);
refusal fault_of_lease(duration lease);

}  // namespace tvec::durable::detail
