/// \file
/// Messages of debug builds for programs that misuse a timer.
///
/// All functions are inline, and exist only with assertions. A program with assertions and a
/// library without them work together, and the other way round: each finds the misuse that goes
/// through its own code.
#pragma once

#ifndef NDEBUG

#include <cstdio>
#include <cstdlib>

namespace tvec::detail {

/// Names a linked timer with other bytes than the wheel has written, and ends the program. If
/// `neighbour` is not null, the damaged timer may be that one.
[[noreturn, gnu::cold, gnu::noinline]] inline void damaged_timer(const void* timer,
                                                                 const void* neighbour) noexcept {
    std::fprintf(stderr, "tvec: the timer at %p", timer);
    if (neighbour != nullptr) std::fprintf(stderr, ", or its neighbour at %p,", neighbour);
    std::fputs(" was freed, overwritten or copied while a wheel had it linked. Its bytes must stay "
               "as they are until it is unlinked: destroy it or call unlink() first (in C "
               "tvec_unlink)\n",
               stderr);
    std::abort();
}

/// Names a timer that is armed on a wheel of this copy of the library while it is linked in one of
/// another copy, and ends the program.
[[noreturn, gnu::cold, gnu::noinline]] inline void
timer_of_another_copy(const void* timer) noexcept {
    std::fprintf(stderr,
                 "tvec: the timer at %p is armed while it is linked in a wheel of another copy of "
                 "tvec in this program: call unlink() first\n",
                 timer);
    std::abort();
}

}  // namespace tvec::detail

#endif
