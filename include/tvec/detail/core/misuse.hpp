/// \file
/// What a debug build says of programs that misuse a timer, a wheel or an alarm.
///
/// The library has these functions in every build. A program or a library that is compiled with
/// assertions calls them, so each finds what goes through its own code.
#pragma once

#include "tvec/detail/core/export.hpp"

namespace tvec::detail {

/// Names a linked timer whose bytes are not what the wheel has written, and ends the program. It
/// may be `neighbour` instead, unless that is null.
[[noreturn]] TVEC_API void damaged_timer(const void* timer, const void* neighbour) noexcept;

/// Notes that the wake-up of `wheel` was seen to: an alarm was set, or the loop sleeps until then.
TVEC_API void wakeup_was_set(const void* wheel) noexcept;
/// Notes that `wheel` runs, and whether timers were due before. Says so once per thread if that
/// was so three times in a row, and no alarm was set again in between.
TVEC_API void wheel_runs(const void* wheel, bool is_late) noexcept;

/// Notes a turn of a loop in which `alarm` has gone off and was not acknowledged. Says so once per
/// thread after a thousand such turns.
TVEC_API void alarm_is_ringing(const void* alarm) noexcept;

}  // namespace tvec::detail
