/// \file
/// All of tvec but the headers of io_uring, which include liburing, and those of durable timers,
/// which are libraries of their own.
#pragma once

#include "tvec/detail/core/standard.hpp"

#include "tvec/callback_meter.hpp"      // IWYU pragma: export
#include "tvec/census.hpp"              // IWYU pragma: export
#include "tvec/clocked_wheel.hpp"       // IWYU pragma: export
#include "tvec/eventfd_doorbell.hpp"    // IWYU pragma: export
#include "tvec/geometry.hpp"            // IWYU pragma: export
#include "tvec/inspect.hpp"             // IWYU pragma: export
#include "tvec/interval.hpp"            // IWYU pragma: export
#include "tvec/lateness_histogram.hpp"  // IWYU pragma: export
#include "tvec/missed_periods.hpp"      // IWYU pragma: export
#include "tvec/remote.hpp"              // IWYU pragma: export
#include "tvec/remote_handle.hpp"       // IWYU pragma: export
#include "tvec/sleep.hpp"               // IWYU pragma: export
#include "tvec/stoppable_sleep.hpp"     // IWYU pragma: export
#include "tvec/tick_clock.hpp"          // IWYU pragma: export
#include "tvec/timeout_handle.hpp"      // IWYU pragma: export
#include "tvec/timeout_pool.hpp"        // IWYU pragma: export
#include "tvec/timer.hpp"               // IWYU pragma: export
#include "tvec/timer_wheel.hpp"         // IWYU pragma: export
#include "tvec/timerfd_alarm.hpp"       // IWYU pragma: export
#include "tvec/version.hpp"             // IWYU pragma: export

/// All of tvec. What is in a namespace `detail` is not for users, and may change in any release.
namespace tvec {}
