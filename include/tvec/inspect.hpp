/// \file
/// Looking inside a wheel: for tests and for whoever is hunting a bug. What hangs where and when is
/// in census.hpp, which this brings along.
#pragma once

#include "tvec/detail/core/standard.hpp"

#include <string>

#include "tvec/census.hpp"  // IWYU pragma: export
#include "tvec/detail/core/export.hpp"
#include "tvec/timer_wheel.hpp"

namespace tvec {

/// Checks every structural invariant that the wheel keeps, and returns the first that does not
/// hold, with its numbers; an empty string if all hold. Reads every timer: O(slots + timers).
/// May be called at any time, also from a callback. A wheel that fails has been written to from
/// outside, by a second thread or through a timer that was freed or copied byte by byte.
TVEC_API std::string check(const timer_wheel& wheel);

}  // namespace tvec
