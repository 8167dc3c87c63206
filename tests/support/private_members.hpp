// The private members of a wheel, for a test that has to see whole states. An explicit
// instantiation may name them; nothing else of the language is bent.
#pragma once

#include "tvec/timer_wheel.hpp"

namespace support::of_wheel {

template <class Tag, auto Member> struct reveal {
    friend constexpr auto member(Tag) { return Member; }
};

#define SUPPORT_REVEAL(name)                                                                       \
    struct name {                                                                                  \
        friend constexpr auto member(name);                                                        \
    };                                                                                             \
    template struct reveal<name, &tvec::timer_wheel::name##_>;

SUPPORT_REVEAL(now)
SUPPORT_REVEAL(quiet)
SUPPORT_REVEAL(wake)
SUPPORT_REVEAL(next_burst)
SUPPORT_REVEAL(target)
SUPPORT_REVEAL(overflow_due)
SUPPORT_REVEAL(burst_at)
SUPPORT_REVEAL(levels)

#undef SUPPORT_REVEAL

}  // namespace support::of_wheel
