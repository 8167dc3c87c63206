// Cases for tests/programs/mistakes.py, which compiles each by itself.

// --- small_wheels_under_the_name_of_large_ones
// says: TVEC_SMALL_WHEEL goes with -Dtvec=tvec_small: use the flags of pkg-config
// lines: 4
// defined: TVEC_SMALL_WHEEL
#include "tvec/core/timer_wheel.hpp"

// --- tagged_addresses
// says: pointers have tags here: build it with -Dtagged_addresses=true
// lines: 2
// defined: __SANITIZE_HWADDRESS__
#include "tvec/tvec.hpp"

// --- types_that_follow_from_arguments
// legal: each class that is made of a wheel or of a function finds out its own arguments
#include "tvec/tvec.hpp"

#ifdef __clang__
#pragma clang diagnostic error "-Wctad-maybe-unsupported"
#endif

void make(tvec::clocked_wheel<>& w) {
    const tvec::clocked_wheel timers;
    const tvec::clocked_wheel quick{tvec::tick_clock<std::chrono::microseconds>{}};
    const tvec::timeout_pool pool(w);
    const tvec::timerfd_alarm alarm(w);
    const tvec::mailbox mailbox(w, 16, [] {});
    const tvec::callback_timer timer{[] {}};
}

#if __has_include(<liburing.h>)
void make_for_a_ring(io_uring& ring, tvec::clocked_wheel<>& w) {
    const tvec::uring_wait wait(ring, w);
    const tvec::uring_timeout timeout(ring, w);
}
#endif
