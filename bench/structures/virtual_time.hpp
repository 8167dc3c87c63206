// Virtual time for the rivals that read a clock: it stands still until it is set.
//
// virtual_time.cpp defines clock_gettime and the waiting calls of event loops for the whole
// program. The loops' shared libraries bind to these instead of the C library's, so their public
// interface runs in virtual time. Reading the clock costs them a function call, and waiting costs
// nothing.
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
