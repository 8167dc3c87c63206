/// \file
/// The library of functions that runs on the server: functions.lua.
#pragma once

#include <string_view>

#include "tvec/durable/redis_store.hpp"

namespace tvec::durable::redis {

/// The text of the library.
extern const char functions[];
/// The version of the library and of its data.
inline constexpr long long functions_version = redis_store::functions_version;
/// The prefix of the names of its functions.
inline constexpr std::string_view functions_prefix = "tvec_durable_8_";

}  // namespace tvec::durable::redis
