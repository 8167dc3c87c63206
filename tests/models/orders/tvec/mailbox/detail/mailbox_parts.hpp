// The parts of a mailbox whose memory orders are explored: few cells have several words.
#pragma once

#include <cstdint>

#include "atomic.hpp"

namespace tvec::detail {

template <class T> using mailbox_atomic = orders::atomic<T>;

inline constexpr std::uint32_t mailbox_cells_per_word = 1;
inline constexpr std::uint32_t mailbox_lanes = 16;

}  // namespace tvec::detail
