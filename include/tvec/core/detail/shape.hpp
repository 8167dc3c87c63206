/// \file
/// The numbers of a wheel's shape, of which geometry.hpp says what they mean. A test that visits
/// every state of a wheel has a file of this name in a folder before this one.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <cstdint>

#if defined TVEC_SMALL_WHEEL && !defined tvec
#error "tvec: TVEC_SMALL_WHEEL goes with -Dtvec=tvec_small: use the flags of pkg-config"
#endif
#if defined TVEC_TINY_WHEEL && !defined tvec
#error "tvec: TVEC_TINY_WHEEL goes with -Dtvec=tvec_tiny: use the flags of pkg-config"
#endif

namespace tvec::detail {

/// Counts the links to a slot since it was last empty, less the pops. levels.hpp bounds the count.
using link_count = std::uint32_t;

namespace geometry {

#if defined TVEC_SMALL_WHEEL
inline constexpr unsigned shape[] = {8, 5, 5, 4, 64, 1};
#elif defined TVEC_TINY_WHEEL
inline constexpr unsigned shape[] = {5, 5, 3, 2, 16, 1};
#else
inline constexpr unsigned shape[] = {8, 6, 5, 4, 64, 8};
#endif

}  // namespace geometry

}  // namespace tvec::detail
