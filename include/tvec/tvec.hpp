/// \file
/// All of tvec that needs no operating system beyond a clock. uring_wait.hpp comes on its own,
/// because it includes liburing.
#pragma once

#include "tvec/clocked_wheel.hpp"  // IWYU pragma: export
#include "tvec/geometry.hpp"       // IWYU pragma: export
#include "tvec/inspect.hpp"        // IWYU pragma: export
#include "tvec/tick_clock.hpp"     // IWYU pragma: export
#include "tvec/timer.hpp"          // IWYU pragma: export
#include "tvec/timer_wheel.hpp"    // IWYU pragma: export
