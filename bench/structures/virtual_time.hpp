// Time for the rivals that read a clock of their own: it stands still until it is set.
//
// virtual_time.cpp defines clock_gettime, and the calls by which an event loop waits, for the whole
// program: the loops' shared libraries find these instead of the C library's. So their public
// interface runs in virtual time; their clock costs them a function call, their waiting nothing.
#pragma once

#include <cstdint>

namespace bench {

// A tick is a millisecond on the rivals' clock.
constexpr std::uint64_t nanoseconds_per_tick = 1'000'000;

inline std::uint64_t virtual_nanoseconds = 0;

inline void set_virtual_time(std::uint64_t ticks, std::uint64_t nanoseconds = 0) {
    virtual_nanoseconds = ticks * nanoseconds_per_tick + nanoseconds;
}

}  // namespace bench
