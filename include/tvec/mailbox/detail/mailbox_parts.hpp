/// \file
/// What the steps of a mailbox are made of that threads share. A test that decides in which order
/// they are done has a file of this name in a folder before this one.
#pragma once

#include <atomic>
#include <cstdint>

namespace tvec::detail {

template <class T> using mailbox_atomic = std::atomic<T>;

/// The number of cells that have their bits in one word.
inline constexpr std::uint32_t mailbox_cells_per_word = 64;
/// The number of places where threads look first.
inline constexpr std::uint32_t mailbox_lanes = 16;

}  // namespace tvec::detail
