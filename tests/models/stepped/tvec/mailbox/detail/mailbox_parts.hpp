// The parts of a mailbox that is stepped through, one operation at a time. There is one lane,
// because addresses of stacks decide which a thread takes, and a seed is to repeat it.
#pragma once

#include <cstdint>

#include "support/stepped.hpp"

namespace tvec::detail {

template <class T> using mailbox_atomic = support::stepped<T>;

inline constexpr std::uint32_t mailbox_cells_per_word = 2;
inline constexpr std::uint32_t mailbox_lanes = 1;

}  // namespace tvec::detail
