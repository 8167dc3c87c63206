/// \file
/// The library of functions that runs on the server: functions.lua.
#pragma once

#include <string_view>

namespace tvec::durable::redis {

/// Its text.
extern const char functions[];
/// Its version, which it says itself, and that of the timers.
inline constexpr long long functions_version = 3;
/// How its functions are called: this, and a name.
inline constexpr std::string_view functions_prefix = "tvec_durable_3_";

}  // namespace tvec::durable::redis
