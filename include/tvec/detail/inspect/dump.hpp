/// \file
/// A wheel as text for people, in a form that needs no memory.
#pragma once

#include <cstddef>

#include "tvec/detail/core/export.hpp"
#include "tvec/detail/inspect/text.hpp"
#include "tvec/timer_wheel.hpp"

namespace tvec::detail {

/// What tvec::dump says.
TVEC_API void write_dump(text out, const timer_wheel& wheel, std::size_t timers);

}  // namespace tvec::detail
