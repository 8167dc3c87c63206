/// \file
/// A check of the invariants of a wheel, for tests and for debugging. Includes census.hpp, which
/// counts the timers of a wheel.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <string>

#include "tvec/core/detail/export.hpp"
#include "tvec/core/timer_wheel.hpp"
#include "tvec/inspect/census.hpp"  // IWYU pragma: export

namespace tvec {

/// Checks every structural invariant of the wheel. Returns the first broken one, with its numbers;
/// an empty string if all hold. Reads every timer: O(slots + timers). May be called at any time,
/// also from a callback. A wheel that fails has been written to from outside: by a second thread,
/// or through a timer that was freed or copied byte by byte.
TVEC_API std::string check(const timer_wheel& wheel);

}  // namespace tvec
