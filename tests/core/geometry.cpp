// The place of a timer: the table against its definition, and the invariants on which the wheel
// relies.
#include <random>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/starts.hpp"
#include "tvec/core/detail/geometry.hpp"
#include "tvec/core/timer_wheel.hpp"

using tvec::jiffies;
namespace geometry = tvec::detail::geometry;

TestSuite(geometry, .timeout = 60);

namespace {

using geometry::overflow;
constexpr jiffies lap = geometry::width_of(overflow);  // of the whole wheel

unsigned slot_by_definition(jiffies at, jiffies now) {
    const unsigned level = geometry::level_of(at - now);
    return level == overflow ? geometry::beyond : geometry::slot_at(level, at);
}

// Returns the next tick after `now` at which slot `s` of `level` has to be empty, by trying every
// entry.
jiffies visit_by_search(unsigned level, unsigned s, jiffies now) {
    const jiffies width = geometry::width_of(level);
    jiffies entry = geometry::entry_of(level, now) + width;
    while (geometry::slot_before(level, entry) != s) entry += width;
    return entry;
}

void is_sound_in_the_overflow(jiffies now, jiffies at) {
    const unsigned s = geometry::overflow_slot_for(at, now);
    REQUIRE_LE(geometry::first_slot_of(overflow), s);
    REQUIRE_LE(s + 1, geometry::beyond);
    const jiffies visit = geometry::visit_of(overflow, s, now);
    REQUIRE_LE(geometry::entry_of(overflow, now) + lap, visit);
    REQUIRE_LE(visit, geometry::entry_of(overflow, at));  // in time for the lap it is due in
    const bool first_tick = now % lap == 0;
    REQUIRE(first_tick ||
            s != geometry::overflow_slot_before(geometry::entry_of(overflow, now) + lap));
}

void is_sound(jiffies now, jiffies delay) {
    const jiffies at = now + delay;
    const unsigned level = geometry::level_of(delay);
    REQUIRE_EQ(geometry::slot_for(at, now), slot_by_definition(at, now));
    if (level == overflow) return is_sound_in_the_overflow(now, at);
    const jiffies entry = geometry::entry_of(level, at);
    REQUIRE_LE(entry, at);  // the visit is no later than the deadline
    REQUIRE_EQ(geometry::visit_of(level, geometry::slot_for(at, now), now), entry);
    const jiffies ahead = (entry - geometry::entry_of(level, now)) >> geometry::shift_of(level);
    REQUIRE_LE(ahead, geometry::ring_of(level));
    REQUIRE(level == geometry::root || ahead >= 2);  // the next slot only shrinks
    const bool first_tick = geometry::entry_of(level, now) == now;
    REQUIRE(!first_tick || ahead < geometry::ring_of(level));  // nor is the running slot filled
}

// Follows a timer from place to place in the overflow. Returns the number of places.
unsigned places_in_overflow(jiffies now, jiffies at) {
    unsigned places = 0;
    for (; geometry::level_of(at - now) == overflow; ++places)
        now = geometry::visit_of(overflow, geometry::overflow_slot_for(at, now), now);
    REQUIRE_LE(now, geometry::entry_of(overflow, at));
    return places;
}

}  // namespace

#ifndef TVEC_SMALL_WHEEL

Test(geometry, has_the_digits_of_the_kernel) {
    CHECK_EQ(geometry::ring_of(geometry::root), 512);
    constexpr unsigned shifts[] = {0, 8, 14, 20, 26, 32};
    for (unsigned level = 0; level <= geometry::levels; ++level)
        CHECK_EQ(geometry::shift_of(level), shifts[level]);
    for (unsigned level = 2; level < geometry::levels; ++level)
        CHECK_EQ(geometry::ring_of(level), 128);
}

Test(geometry, level_1_has_four_laps_so_that_a_timeout_of_a_minute_goes_there) {
    CHECK_EQ(geometry::ring_of(1), 256);
    CHECK_EQ(geometry::level_of((1 << 16) - 1), 1);
    CHECK_EQ(geometry::level_of(1 << 16), 2);
}

#else

Test(geometry, a_small_wheel_has_half_the_digits_and_one_chain_in_each_slot) {
    CHECK_EQ(geometry::ring_of(geometry::root), 512);
    constexpr unsigned shifts[] = {0, 8, 13, 18, 23, 28};
    for (unsigned level = 0; level <= geometry::levels; ++level)
        CHECK_EQ(geometry::shift_of(level), shifts[level]);
    CHECK_EQ(geometry::level_of((1 << 15) - 1), 1);
    for (unsigned level = 0; level <= overflow; ++level)
        CHECK_EQ(geometry::chains_of(geometry::first_slot_of(level)), 1);
}

Test(geometry, a_small_wheel_takes_twelve_kilobytes_at_most) {
    CHECK_LE(sizeof(tvec::timer_wheel), 12 * 1024);
}

#endif

Test(geometry, the_overflow_has_a_slot_for_each_bit_of_a_lap_number) {
    CHECK_EQ(geometry::ring_of(overflow), 63 - geometry::shift_of(overflow));
    for (unsigned bit = 0; bit < geometry::ring_of(overflow); ++bit) {
        const jiffies laps = jiffies{1} << bit;
        CHECK_EQ(geometry::overflow_slot_for((laps + 1) * lap, 1),
                 geometry::first_slot_of(overflow) + bit);
    }
}

Test(geometry, every_level_starts_on_a_word_of_its_own) {
    for (unsigned level = 0; level <= geometry::levels; ++level)
        CHECK_EQ(geometry::first_slot_of(level) % geometry::word_bits, 0);
    unsigned rows = geometry::overflow_slots + 2;
    for (unsigned level = 0; level < geometry::levels; ++level)
        rows += geometry::ring_of(level) * geometry::rows_of(level);
    CHECK_EQ(geometry::slots, rows);
    CHECK_LE(geometry::slots, geometry::words * geometry::word_bits);
}

Test(geometry, every_slot_has_rows_and_chains_of_its_own) {
    unsigned free = 0;
    for (unsigned level = 0; level <= overflow; ++level)
        for (unsigned i = 0; i < geometry::ring_of(level); ++i) {
            const unsigned s = geometry::slot_number(level, i);
            REQUIRE_LE(free, s);
            REQUIRE_EQ(geometry::level_with(s), level);
            const unsigned rows = level == 1 || level == 2 ? geometry::rows_of_cold : 1;
            REQUIRE_EQ(geometry::chains_of(s), rows * geometry::chains_per_row);
            free = s + rows;
        }
    CHECK_EQ(free, geometry::beyond);  // no hole in the overflow
    CHECK_LE(geometry::beyond + 1, geometry::never_slot);
    CHECK_EQ(geometry::level_with(geometry::never_slot), overflow);
    CHECK_EQ(geometry::chains_of(geometry::never_slot), geometry::chains_per_row);
}

Test(geometry, a_delay_knows_the_last_chain_of_its_slot) {
    for (unsigned log2 = 0; log2 < 33; ++log2) {
        const unsigned s = geometry::slot_for(jiffies{1} << log2, 0);
        CHECK_EQ(geometry::last_chain_by_log2(log2) + 1, geometry::chains_of(s));
    }
}

Test(geometry, a_slot_is_visited_no_later_than_what_goes_there_is_due) {  // T27, T28
    for (const jiffies start : support::starts())
        for (const jiffies delay : support::edges()) is_sound(start, delay);
    for (jiffies now = 0; now < support::scaled(1'024); ++now)
        for (jiffies delay = 1; delay < 2'048; ++delay) is_sound(now, delay);
    std::mt19937_64 random(11);
    for (std::size_t i = support::scaled(1'000'000); i > 0; --i)
        is_sound(random() >> (2 + random() % 60), 1 + (random() >> (2 + random() % 60)));
}

Test(geometry, a_slot_is_visited_when_it_next_has_to_be_empty) {
    std::mt19937_64 random(12);
    for (unsigned level = 0; level < overflow; ++level)
        for (int i = 0; i < 2'000; ++i) {
            const jiffies now = random() >> (2 + random() % 50);
            const unsigned nth = static_cast<unsigned>(random()) % geometry::ring_of(level);
            const unsigned s = geometry::slot_number(level, nth);
            const bool at_entry = now % geometry::width_of(level) == 0;
            const bool is_now = at_entry && s == geometry::slot_before(level, now);
            REQUIRE_EQ(geometry::visit_of(level, s, now),
                       is_now ? now : visit_by_search(level, s, now));
        }
}

Test(geometry, a_slot_is_visited_now_on_the_first_tick_of_its_lap_alone) {
    for (unsigned level = 1; level <= overflow; ++level)
        for (const jiffies laps : {1, 2, 3, 7, 64, 200}) {
            const jiffies entry = laps * geometry::width_of(level);
            const unsigned s = geometry::slot_before(level, entry);
            if (s == geometry::beyond) continue;  // no deadline before the first lap
            CHECK_EQ(geometry::visit_of(level, s, entry), entry);
            if (level == overflow) continue;  // it stays empty until a turn later
            const jiffies turn = geometry::ring_of(level) * geometry::width_of(level);
            CHECK_EQ(geometry::visit_of(level, s, entry + 1), entry + turn);
        }
}

Test(geometry, in_each_lap_the_overflow_empties_the_slot_of_the_lowest_1) {
    for (jiffies number = 1; number < 300; ++number) {
        unsigned lowest = 0;
        while (!(number >> lowest & 1)) ++lowest;
        CHECK_EQ(geometry::overflow_slot_before((number + 1) * lap),
                 geometry::first_slot_of(overflow) + lowest);
    }
    CHECK_EQ(geometry::overflow_slot_before(lap), geometry::beyond);
    CHECK_EQ(geometry::overflow_slot_before(0), geometry::beyond);
}

Test(geometry, a_far_timer_moves_in_the_overflow_once_for_each_halving_of_the_laps_left_at_most) {
    const auto is_sound_way = [](jiffies now, jiffies laps, jiffies phase) {
        const jiffies at = (now / lap + laps) * lap + phase;
        if (at >= tvec::never || geometry::level_of(at - now) != overflow) return;
        // The last lap before a timer's own is `laps` - 1 away. On the first tick of a lap it is
        // one more.
        const jiffies left = laps - (now % lap != 0);
        REQUIRE_LE(places_in_overflow(now, at), 1 + geometry::log2_of(left));
    };
    for (const jiffies number : {0, 1, 2, 3, 6, 7, 8, 255, 256, 1'000'000})
        for (const jiffies into : {jiffies{0}, jiffies{1}, lap - 1})
            for (jiffies laps = 2; laps < support::scaled(700, 70); ++laps)
                for (const jiffies phase : {jiffies{0}, lap / 2, lap - 1})
                    is_sound_way(number * lap + into, laps, phase);
    std::mt19937_64 random(13);
    for (std::size_t i = support::scaled(100'000); i > 0; --i)
        is_sound_way(random() >> (2 + random() % 40), 2 + (random() >> (34 + random() % 28)),
                     random() % lap);
}
