/// \file
/// The end of a program that has done what it must not do.
#pragma once

#include "tvec/core/detail/export.hpp"

namespace tvec::detail {

/// Says in one line on the standard error output what has been done, and calls std::terminate.
[[noreturn]] TVEC_API void broken_promise(const char* what) noexcept;

}  // namespace tvec::detail
