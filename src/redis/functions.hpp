/// \file
/// The library of functions that runs on the server: functions.lua.
#pragma once

namespace tvec::durable::redis {

/// Its text.
extern const char functions[];
/// Its version, which it says itself, and that of the timers.
inline constexpr long long functions_version = 1;

}  // namespace tvec::durable::redis
