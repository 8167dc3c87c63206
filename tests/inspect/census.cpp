// take_census counts the timers of each place, and its texts report the counts.
#include <random>
#include <string>

#include "support/check.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"
#include "tvec/inspect/inspect.hpp"

using support::jiffies;
using support::probe;
using tvec::census;
using tvec::timer_wheel;
namespace geometry = tvec::detail::geometry;

TestSuite(census, .timeout = 60);

namespace {

std::uint64_t lines_with(const std::string& text, const std::string& word) {
    std::uint64_t found = 0;
    for (std::size_t at = 0; (at = text.find("\n" + word, at)) != std::string::npos; ++at) ++found;
    return found;
}

unsigned slot_of(jiffies delay, jiffies now) {
    const bool is_beyond = geometry::level_of(delay) == geometry::overflow;
    return is_beyond ? geometry::overflow_slot_for(now + delay, now)
                     : geometry::slot_for(now + delay, now);
}

// Checks the sums of a census against its slots.
void check_sums(const census& all) {
    std::uint64_t pending = 0, idle = 0, used = 0;
    for (const census::slot& s : all.slot_counts) {
        pending += s.pending;
        idle += s.idle;
        used += s.linked() != 0;
    }
    for (const census::level& l : all.levels) used -= l.slots_used;
    CHECK_EQ(all.pending, pending);
    CHECK_EQ(all.idle, idle);
    CHECK_EQ(used, 0);
}

}  // namespace

Test(census, the_census_of_an_empty_wheel_is_empty) {
    const timer_wheel wheel(77);
    const census all = take_census(wheel);
    CHECK_EQ(all.now, 77);
    CHECK_EQ(all.pending, 0);
    CHECK_EQ(all.idle, 0);
    CHECK(!all.first_expiry && !all.last_expiry);
    check_sums(all);
}

Test(census, a_timer_counts_in_its_delays_level) {
    for (const jiffies start : support::starts())
        for (const jiffies delay : support::edges()) {
            timer_wheel wheel(start);
            probe p;
            wheel.arm_after(p.t, delay);
            const census all = take_census(wheel);
            const census::level& level = all.levels[geometry::level_of(delay)];
            REQUIRE_EQ(level.pending, 1);
            CHECK_EQ(level.slots_used, 1);
            CHECK_EQ(level.longest, 1);
            CHECK_EQ(all.pending, 1);
            CHECK_EQ(all.first_expiry, start + delay);
            CHECK_EQ(all.last_expiry, start + delay);
            CHECK_EQ(all.slot_counts[slot_of(delay, start)].pending, 1);
            check_sums(all);
        }
}

Test(census, a_slots_ticks_hold_its_timers_deadlines) {
    for (const jiffies start : support::starts())
        for (const jiffies delay : support::edges()) {
            timer_wheel wheel(start);
            probe p;
            wheel.arm_after(p.t, delay);
            const census all = take_census(wheel);
            std::uint64_t shown = all.at_never().pending;
            for (unsigned n = 0; n <= census::overflow; ++n)
                for (unsigned i = 0; i < census::slots_of(n); ++i) {
                    if (all.at(n, i).pending == 0) continue;
                    ++shown;
                    const jiffies visit = all.visit_of(n, i);
                    CHECK(visit <= p.t.expires());
                    if (n < census::overflow) CHECK(p.t.expires() - visit < census::width_of(n));
                }
            CHECK_EQ(shown, 1);
        }
}

Test(census, timers_for_never_count_in_their_own_slot) {
    for (const jiffies start : support::starts()) {
        timer_wheel wheel(start);
        probe pending, idle;
        wheel.arm_at(pending.t, tvec::never);
        wheel.arm_at(idle.t, tvec::never);
        idle.t.cancel();
        const census all = take_census(wheel);
        CHECK_EQ(all.slot_counts[geometry::never_slot].pending, 1);
        CHECK_EQ(all.slot_counts[geometry::never_slot].idle, 1);
        CHECK_EQ(all.levels[geometry::overflow].pending, 1);
        CHECK_EQ(all.levels[geometry::overflow].idle, 1);
        CHECK(!all.first_expiry && !all.last_expiry);
        check_sums(all);
    }
}

// On levels 1 and 2 the chains of a slot form two rows.
Test(census, all_chains_of_a_slot_count_together) {
    for (const jiffies delay : support::edges()) {
        timer_wheel wheel;
        const auto all = support::probes(9);
        for (const auto& p : all) wheel.arm_after(p->t, delay);
        const census counted = take_census(wheel);
        const census::level& level = counted.levels[geometry::level_of(delay)];
        CHECK_EQ(counted.slot_counts[slot_of(delay, 0)].pending, 9);
        CHECK_EQ(level.longest, 9);
        CHECK_EQ(level.slots_used, 1);
    }
}

Test(census, cancelled_timers_count_as_idle_until_visited) {
    timer_wheel wheel;
    const auto all = support::probes(3);
    for (const auto& p : all) wheel.arm_at(p->t, 1000);
    all[1]->t.cancel();
    const census before = take_census(wheel);
    CHECK_EQ(before.pending, 2);
    CHECK_EQ(before.idle, 1);
    CHECK_EQ(before.levels[1].longest, 3);
    CHECK_EQ(before.levels[1].slots_used, 1);
    wheel.advance(999);
    CHECK_EQ(take_census(wheel).idle, 0);
    CHECK_EQ(take_census(wheel).levels[geometry::root].pending, 2);
}

Test(census, the_longest_slot_of_each_level_is_known) {
    timer_wheel wheel;
    const auto all = support::probes(10);
    for (std::size_t i = 0; i < 10; ++i) wheel.arm_at(all[i]->t, i < 7 ? 40 : 50);
    const census::level root = take_census(wheel).levels[geometry::root];
    CHECK_EQ(root.longest, 7);
    CHECK_EQ(root.slots_used, 2);
    CHECK_EQ(root.pending, 10);
}

Test(census, first_and_last_expiry_skip_idle_timers) {
    timer_wheel wheel;
    const auto all = support::probes(5);
    const jiffies at[] = {10, 20, 30'000, jiffies{1} << 40, tvec::never};
    for (std::size_t i = 0; i < 5; ++i) wheel.arm_at(all[i]->t, at[i]);
    all[0]->t.cancel();
    CHECK_EQ(take_census(wheel).first_expiry, 20);
    CHECK_EQ(take_census(wheel).last_expiry, jiffies{1} << 40);
    CHECK_EQ(take_census(wheel).levels[geometry::overflow].pending, 2);
    for (std::size_t i = 0; i < 4; ++i) all[i]->t.cancel();
    CHECK(!take_census(wheel).first_expiry);
    CHECK_EQ(take_census(wheel).pending, 1);
}

Test(census, past_deadlines_expire_when_they_are_due) {
    timer_wheel wheel(1000);
    probe past;
    wheel.arm_at(past.t, 3);
    CHECK_EQ(take_census(wheel).first_expiry, 1001);
    CHECK_EQ(take_census(wheel).last_expiry, 1001);
    timer_wheel at_the_end(tvec::never - 1);
    probe too_late;
    at_the_end.arm_at(too_late.t, 3);
    CHECK(!take_census(at_the_end).first_expiry);
}

Test(census, a_census_always_agrees_with_the_wheel) {
    std::mt19937_64 random(8);
    timer_wheel wheel(12'345);
    const auto all = support::probes(500);
    for (int step = 0; step < 2000; ++step) {
        probe& p = *all[random() % all.size()];
        if (random() % 4 == 0)
            p.t.cancel();
        else
            wheel.arm_after(p.t, random() >> random() % 64);
        if (step % 16 == 0) wheel.advance(wheel.now() + random() % 300, random() % 30);
        const census counted = take_census(wheel);
        REQUIRE_EQ(counted.pending, wheel.count_pending());
        REQUIRE_EQ(counted.first_expiry, wheel.next_expiry());
        check_sums(counted);
    }
}

Test(census, unplaced_timers_count_in_the_overflow) {
    timer_wheel wheel;
    const auto all = support::probes(10);
    const jiffies two_laps = 2 * geometry::width_of(geometry::overflow);
    for (const auto& p : all) wheel.arm_at(p->t, two_laps + 5);
    CHECK(!wheel.advance(two_laps, 3).caught_up);
    const census counted = take_census(wheel);
    CHECK_EQ(counted.levels[geometry::overflow].pending, 7);
    CHECK_EQ(counted.slot_counts[geometry::first_slot_of(geometry::overflow)].pending, 7);
    CHECK_EQ(counted.pending, 10);
}

Test(census, a_census_may_be_taken_in_a_callback) {
    timer_wheel wheel;
    probe other;
    std::uint64_t pending = 0;
    probe p([&](timer_wheel& w) { pending = take_census(w).pending; });
    wheel.arm_at(p.t, 5);
    wheel.arm_at(other.t, 5);
    wheel.arm_at(other.t, 6);
    wheel.advance(5);
    CHECK_EQ(pending, 1);
}

Test(census, the_text_lists_slots_with_their_visits) {
    timer_wheel wheel(1000);
    const auto all = support::probes(5);
    const jiffies at[] = {1010, 1010, 2000, 2001, tvec::never};
    for (std::size_t i = 0; i < 5; ++i) wheel.arm_at(all[i]->t, at[i]);
    all[3]->t.cancel();
    const auto level = [](unsigned l) {
        return "level " + std::to_string(l) + ' ' + std::to_string(geometry::width_of(l)) + ' ' +
               std::to_string(geometry::ring_of(l)) + '\n';
    };
    CHECK_EQ(to_text(take_census(wheel)), "tvec-census 1\n"
                                          "now 1000\n"
                                          "first_expiry 1010\n"
                                          "last_expiry 2000\n"
                                          "level 0 1 512\n"
                                          "slot 1010 2 0\n" +
                                              level(1) + "slot 1792 1 1\n" + level(2) + level(3) +
                                              level(4) + "overflow 1 0\n");
}

Test(census, the_text_says_none_if_nothing_expires) {
    const std::string text = to_text(take_census(timer_wheel()));
    CHECK(text.find("\nfirst_expiry none\nlast_expiry none\n") != std::string::npos);
    CHECK_EQ(lines_with(text, "slot "), 0);
}

Test(census, the_dump_counts_levels_and_lists_timers) {
    timer_wheel wheel;
    const auto all = support::probes(4);
    for (std::size_t i = 0; i < 3; ++i) wheel.arm_at(all[i]->t, 7 + i);
    wheel.arm_at(all[3]->t, 500'000);
    all[2]->t.cancel();
    const std::string text = dump(wheel);
    CHECK_EQ(text.find("wheel at tick 0 and 0 behind: 3 pending, 1 idle\n"), 0);
    CHECK_EQ(lines_with(text, "level "), 2);
    CHECK_EQ(lines_with(text, "  timer 0x"), 4);
    CHECK(text.find("in level 2 expires at 500000\n") != std::string::npos);
    CHECK(text.find("in level 0 idle, expired at 9\n") != std::string::npos);
}

Test(census, the_dump_shows_what_is_beyond_the_levels) {
    timer_wheel wheel;
    probe far;
    wheel.arm_at(far.t, jiffies{1} << 40);
    const std::string text = dump(wheel);
    CHECK_EQ(lines_with(text, "overflow: "), 1);
    CHECK(text.find("in overflow expires at 1099511627776\n") != std::string::npos);
}

Test(census, the_dump_lists_no_more_than_asked_for) {
    timer_wheel wheel;
    const auto all = support::probes(10);
    for (const auto& p : all) wheel.arm_at(p->t, 7);
    const std::string text = dump(wheel, 3);
    CHECK_EQ(lines_with(text, "  timer "), 3);
    CHECK(text.ends_with("  and 7 more\n"));
    CHECK_EQ(lines_with(dump(wheel, 10), "  and "), 0);
}
