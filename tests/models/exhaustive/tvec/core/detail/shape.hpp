// The shape of a wheel whose states are visited, as meson.build defines it; 8 chains by default.
#pragma once

#include <cstdint>

namespace tvec::detail {

using link_count = std::uint8_t;

namespace geometry {

inline constexpr unsigned shape[] = {SHAPE, 8};

}  // namespace geometry

}  // namespace tvec::detail
