// The shape of the wheel. tests/proof has lemmas about the places of timers in it.
#include "tvec/core/detail/geometry.hpp"
#include "support/check.hpp"
#include "tvec/core/timer_wheel.hpp"

namespace geometry = tvec::detail::geometry;

TestSuite(geometry, .timeout = 60);

#ifndef TVEC_SMALL_WHEEL

Test(geometry, a_slot_is_a_cache_line_of_chains) {
    CHECK_EQ(geometry::chains_per_slot, 8);
    if constexpr (sizeof(void*) == 8)
        CHECK_EQ(geometry::chains_per_slot * sizeof(tvec::detail::chain), 64);
}

#else

Test(geometry, a_small_wheel_takes_twelve_kilobytes_at_most) {
    CHECK_LE(sizeof(tvec::timer_wheel), 12 * 1024);
}

#endif

Test(geometry, every_level_starts_on_a_word_of_its_own) {
    unsigned free = 0;
    for (unsigned level = 0; level <= geometry::overflow; ++level) {
        const unsigned first = geometry::first_slot_of(level);
        CHECK_EQ(first % geometry::word_bits, 0);
        REQUIRE_LE(free, first);
        free = first + geometry::ring_of(level);
        CHECK_EQ(geometry::level_with(first), level);
        CHECK_EQ(geometry::level_with(free - 1), level);
    }
    CHECK_EQ(geometry::beyond, free);
    CHECK_EQ(geometry::never_slot, free + 1);
    CHECK_EQ(geometry::level_with(geometry::never_slot), geometry::overflow);
    CHECK_EQ(geometry::slots, free + 2);
    CHECK_LE(geometry::slots, geometry::words * geometry::word_bits);
}
