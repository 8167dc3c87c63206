/// \file
/// A wheel as text for people, without allocation.
#pragma once

#include <cstddef>

#include "tvec/core/detail/export.hpp"
#include "tvec/core/timer_wheel.hpp"
#include "tvec/inspect/detail/text.hpp"

namespace tvec::detail {

/// Writes the text of tvec::dump to `out`.
TVEC_API void write_dump(text out, const timer_wheel& wheel, std::size_t timers);

}  // namespace tvec::detail
