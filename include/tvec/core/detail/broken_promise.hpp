/// \file
/// The end of a program that has broken a rule.
#pragma once

#include "tvec/core/detail/export.hpp"

namespace tvec::detail {

/// Prints in one line on the standard error output which rule was broken, and calls
/// std::terminate.
[[noreturn]] TVEC_API void broken_promise(const char* what) noexcept;

}  // namespace tvec::detail
