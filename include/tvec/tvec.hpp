/// \file
/// The front of tvec, and all of extra/ that needs no library but those of this system. The
/// io_uring drivers are in tvec/uring.hpp, the guests of other loops in headers of their own.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include "tvec/clock/clocked_wheel.hpp"  // IWYU pragma: export
#include "tvec/clock/stall_watch.hpp"    // IWYU pragma: export
#include "tvec/clock/tick_clock.hpp"     // IWYU pragma: export
#include "tvec/core/call.hpp"            // IWYU pragma: export
#include "tvec/core/timer.hpp"           // IWYU pragma: export
#include "tvec/core/timer_wheel.hpp"     // IWYU pragma: export
#include "tvec/guests/guest.hpp"         // IWYU pragma: export
#include "tvec/inspect/inspect.hpp"      // IWYU pragma: export
#include "tvec/mailbox/mailbox.hpp"      // IWYU pragma: export
#include "tvec/pool/timeout_pool.hpp"    // IWYU pragma: export
#include "tvec/version.hpp"              // IWYU pragma: export
#ifdef __linux__
#include "tvec/drivers/eventfd_doorbell.hpp"  // IWYU pragma: export
#include "tvec/drivers/timerfd_alarm.hpp"     // IWYU pragma: export
#endif
#if __has_include(<coroutine>)
#include "tvec/coroutines/sleep.hpp"  // IWYU pragma: export
#endif

// What some need: a minor version before 1.0 may change or remove it.
#include "tvec/extra/game_clock.hpp"          // IWYU pragma: export
#include "tvec/extra/lateness_histogram.hpp"  // IWYU pragma: export
#include "tvec/extra/scaled_wheel.hpp"        // IWYU pragma: export
#include "tvec/extra/snapshot.hpp"            // IWYU pragma: export
#include "tvec/extra/timer_group.hpp"         // IWYU pragma: export
#include "tvec/extra/tsc_clock.hpp"           // IWYU pragma: export
#include "tvec/extra/turn_clock.hpp"          // IWYU pragma: export
#if __has_include(<coroutine>)
#include "tvec/extra/stoppable_sleep.hpp"  // IWYU pragma: export
#endif
#if !defined(__EMSCRIPTEN__) || defined(__EMSCRIPTEN_PTHREADS__)
#include "tvec/extra/timer_thread.hpp"  // IWYU pragma: export
#endif

/// The namespace of tvec. Names in a namespace `detail` are private and may change in any release.
namespace tvec {}
