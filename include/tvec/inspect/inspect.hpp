/// \file
/// Looks inside a wheel, for tests and debugging. census.hpp, which this includes, says which
/// timers are linked where.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <string>

#include "tvec/core/detail/export.hpp"
#include "tvec/core/timer_wheel.hpp"
#include "tvec/inspect/census.hpp"  // IWYU pragma: export

namespace tvec {

/// Checks every structural invariant that the wheel keeps, and returns the first that does not
/// hold, with its numbers; an empty string if all hold. Reads every timer: O(slots + timers).
/// May be called at any time, also from a callback. A wheel that fails has been written to from
/// outside, by a second thread or through a timer that was freed or copied byte by byte.
TVEC_API std::string check(const timer_wheel& wheel);

}  // namespace tvec
