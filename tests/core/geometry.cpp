// Where a timer goes: the table against the definition, and the invariant on which the wheel
// stands.
#include <random>

#include "support/check.hpp"
#include "support/starts.hpp"
#include "tvec/geometry.hpp"

using tvec::jiffies;
namespace geometry = tvec::geometry;

TestSuite(geometry, .timeout = 60);

namespace {

unsigned slot_by_definition(jiffies at, jiffies now) {
    const unsigned level = geometry::level_of(at - now);
    return level == geometry::overflow ? geometry::beyond : geometry::slot_at(level, at);
}

void is_sound(jiffies now, jiffies delay) {
    const jiffies at = now + delay;
    const unsigned level = geometry::level_of(delay);
    REQUIRE_EQ(geometry::slot_for(at, now), slot_by_definition(at, now));
    if (level == geometry::overflow) {
        REQUIRE_LE(now + 1, geometry::overflow_visit_of(at));
        const jiffies left = at - geometry::overflow_visit_of(at);
        REQUIRE_EQ(geometry::level_of(left), geometry::levels - 1);
        return;
    }
    const jiffies entry = geometry::entry_of(level, at);
    REQUIRE_LE(entry, at);  // the visit is no later than the deadline
    const jiffies ahead = (entry - geometry::entry_of(level, now)) >> geometry::shift_of(level);
    REQUIRE_LE(ahead, geometry::ring_of(level));
    REQUIRE(level == geometry::root || ahead >= 2);  // the slot to come only shrinks
    const bool first_tick = geometry::entry_of(level, now) == now;
    REQUIRE(!first_tick || ahead < geometry::ring_of(level));  // nor is the slot being run filled
}

}  // namespace

Test(geometry, has_the_digits_of_the_kernel) {
    CHECK_EQ(geometry::ring_of(geometry::root), 512);
    constexpr unsigned shifts[] = {0, 8, 14, 20, 26, 32};
    for (unsigned level = 0; level <= geometry::levels; ++level)
        CHECK_EQ(geometry::shift_of(level), shifts[level]);
    for (unsigned level = 1; level < geometry::levels; ++level)
        CHECK_EQ(geometry::ring_of(level), 128);
}

Test(geometry, every_level_starts_on_a_word_of_its_own) {
    for (unsigned level = 0; level <= geometry::levels; ++level)
        CHECK_EQ(geometry::first_slot_of(level) % geometry::word_bits, 0);
    CHECK_EQ(geometry::slots, 512 + 4 * 128 + 3);
}

Test(geometry, a_slot_is_visited_no_later_than_what_goes_there_is_due) {  // T27, T28
    for (const jiffies start : support::starts())
        for (const jiffies delay : support::edges()) is_sound(start, delay);
    for (jiffies now = 0; now < 1'024; ++now)
        for (jiffies delay = 1; delay < 2'048; ++delay) is_sound(now, delay);
    std::mt19937_64 random(11);
    for (int i = 0; i < 1'000'000; ++i)
        is_sound(random() >> (2 + random() % 60), 1 + (random() >> (2 + random() % 60)));
}
