/// \file
/// Everything of tvec that needs no liburing. The io_uring drivers are in tvec/uring.hpp, durable
/// timers in tvec/durable/timers.hpp.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include "tvec/clock/clocked_wheel.hpp"         // IWYU pragma: export
#include "tvec/clock/game_clock.hpp"            // IWYU pragma: export
#include "tvec/clock/missed_periods.hpp"        // IWYU pragma: export
#include "tvec/clock/scaled_wheel.hpp"          // IWYU pragma: export
#include "tvec/clock/tick_clock.hpp"            // IWYU pragma: export
#include "tvec/core/jiffies.hpp"                // IWYU pragma: export
#include "tvec/core/timer.hpp"                  // IWYU pragma: export
#include "tvec/core/timer_wheel.hpp"            // IWYU pragma: export
#include "tvec/coroutines/interval.hpp"         // IWYU pragma: export
#include "tvec/coroutines/sleep.hpp"            // IWYU pragma: export
#include "tvec/coroutines/stoppable_sleep.hpp"  // IWYU pragma: export
#include "tvec/coroutines/when.hpp"             // IWYU pragma: export
#include "tvec/drivers/eventfd_doorbell.hpp"    // IWYU pragma: export
#include "tvec/drivers/timerfd_alarm.hpp"       // IWYU pragma: export
#include "tvec/inspect/callback_meter.hpp"      // IWYU pragma: export
#include "tvec/inspect/census.hpp"              // IWYU pragma: export
#include "tvec/inspect/inspect.hpp"             // IWYU pragma: export
#include "tvec/inspect/lateness_histogram.hpp"  // IWYU pragma: export
#include "tvec/inspect/snapshot.hpp"            // IWYU pragma: export
#include "tvec/pool/timeout_handle.hpp"         // IWYU pragma: export
#include "tvec/pool/timeout_pool.hpp"           // IWYU pragma: export
#include "tvec/pool/timer_group.hpp"            // IWYU pragma: export
#include "tvec/remote/remote.hpp"               // IWYU pragma: export
#include "tvec/remote/remote_handle.hpp"        // IWYU pragma: export
#include "tvec/thread/timer_thread.hpp"         // IWYU pragma: export
#include "tvec/version.hpp"                     // IWYU pragma: export

/// The namespace of tvec. Names in a namespace `detail` are private and may change in any release.
namespace tvec {}
