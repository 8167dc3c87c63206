/// \file
/// Everything of tvec that this system has and that needs no liburing. The io_uring drivers are in
/// tvec/uring.hpp.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include "tvec/clock/clocked_wheel.hpp"         // IWYU pragma: export
#include "tvec/clock/game_clock.hpp"            // IWYU pragma: export
#include "tvec/clock/missed_periods.hpp"        // IWYU pragma: export
#include "tvec/clock/scaled_wheel.hpp"          // IWYU pragma: export
#include "tvec/clock/tick_clock.hpp"            // IWYU pragma: export
#include "tvec/clock/tsc_clock.hpp"             // IWYU pragma: export
#include "tvec/clock/turn_clock.hpp"            // IWYU pragma: export
#include "tvec/core/call.hpp"                   // IWYU pragma: export
#include "tvec/core/jiffies.hpp"                // IWYU pragma: export
#include "tvec/core/timer.hpp"                  // IWYU pragma: export
#include "tvec/core/timer_wheel.hpp"            // IWYU pragma: export
#include "tvec/inspect/callback_meter.hpp"      // IWYU pragma: export
#include "tvec/inspect/census.hpp"              // IWYU pragma: export
#include "tvec/inspect/inspect.hpp"             // IWYU pragma: export
#include "tvec/inspect/lateness_histogram.hpp"  // IWYU pragma: export
#include "tvec/inspect/snapshot.hpp"            // IWYU pragma: export
#include "tvec/mailbox/mailbox.hpp"             // IWYU pragma: export
#include "tvec/mailbox/mailbox_handle.hpp"      // IWYU pragma: export
#include "tvec/pool/timeout_handle.hpp"         // IWYU pragma: export
#include "tvec/pool/timeout_pool.hpp"           // IWYU pragma: export
#include "tvec/pool/timer_group.hpp"            // IWYU pragma: export
#include "tvec/version.hpp"                     // IWYU pragma: export

#if __has_include(<coroutine>)
#include "tvec/coroutines/interval.hpp"         // IWYU pragma: export
#include "tvec/coroutines/sleep.hpp"            // IWYU pragma: export
#include "tvec/coroutines/stoppable_sleep.hpp"  // IWYU pragma: export
#include "tvec/coroutines/when.hpp"             // IWYU pragma: export
#endif
#ifdef __linux__
#include "tvec/drivers/eventfd_doorbell.hpp"  // IWYU pragma: export
#include "tvec/drivers/timerfd_alarm.hpp"     // IWYU pragma: export
#endif
#if !defined(__EMSCRIPTEN__) || defined(__EMSCRIPTEN_PTHREADS__)
#include "tvec/thread/timer_thread.hpp"  // IWYU pragma: export
#endif

/// The namespace of tvec. Names in a namespace `detail` are private and may change in any release.
namespace tvec {}
