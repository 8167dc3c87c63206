// P9: advance costs what it fires and moves; empty time is skipped; and no tick pays for a whole
// cascade. Cost is counted in visits, never in time.
#include <algorithm>
#include <random>

#include "support/check.hpp"
#include "support/private_members.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"

using support::jiffies;
using support::probe;
using support::visits;
using tvec::timer_wheel;

TestSuite(skipping, .timeout = 60);

Test(skipping, empty_time_is_visited_by_nobody) {  // T48
    timer_wheel wheel;
    CHECK(wheel.advance(jiffies{1} << 40).caught_up);
    CHECK_EQ(visits(wheel), 0);
    CHECK(!wheel.next_wakeup());
}

Test(skipping, a_lone_timer_is_visited_once_per_level_and_once_per_halving_of_its_laps_at_most) {
    for (unsigned power = 0; power < 62; ++power)
        for (const jiffies start : support::starts()) {
            const jiffies delay = jiffies{1} << power;
            if (start + delay >= tvec::never) continue;
            timer_wheel wheel(start);
            probe p;
            wheel.arm_after(p.t, delay);
            wheel.advance(start + delay);
            REQUIRE(p.fired_only_at(start + delay));
            REQUIRE_LE(visits(wheel), support::most_visits(delay));
        }
}

Test(skipping, a_pushed_back_timer_is_visited_where_it_hung_and_where_it_is_due) {
    timer_wheel wheel;
    probe p;
    wheel.arm_after(p.t, 100);
    for (jiffies t = 1; t <= 10'000; ++t) {
        wheel.advance(t);
        wheel.arm_after(p.t, 100);
    }
    CHECK_EQ(p.fired(), 0);
    CHECK_LE(visits(wheel), 10'000 / 99 + 1);
}

Test(skipping, a_cancelled_timer_is_dropped_at_one_visit) {
    timer_wheel wheel;
    auto all = support::probes(100);
    for (auto& p : all) wheel.arm_after(p->t, 5'000);
    for (auto& p : all) p->t.cancel();
    wheel.advance(20'000);
    CHECK_EQ(wheel.count().dropped, 100);
    CHECK_EQ(visits(wheel), 100);
}

Test(skipping, no_tick_pays_for_a_whole_cascade) {
    constexpr std::size_t n = 200'000;
    constexpr jiffies span = 60'000;
    std::mt19937_64 random(6);
    timer_wheel wheel(77);
    auto all = support::probes(n);
    for (auto& p : all) wheel.arm_after(p->t, 1 + random() % span);
    std::uint64_t worst = 0;
    for (jiffies t = 1; t <= span; ++t) {
        const std::uint64_t before = visits(wheel) - wheel.count().fired;
        wheel.advance(77 + t);
        worst = std::max(worst, visits(wheel) - wheel.count().fired - before);
    }
    CHECK_EQ(support::count_fired(all), n);
    // A burst from each level in use and from the one above; a slot of level 2 holds 54 613.
    CHECK_LE(worst, 3 * 64);
}

Test(skipping, a_slot_is_emptied_in_few_bursts_spread_evenly_over_the_lap_before_its_own) {
    constexpr std::size_t burst = 16, bursts = 20;
    constexpr jiffies steps = 256;  // of the lap: a tick on level 1
    for (unsigned level = 1; level < tvec::geometry::levels; ++level) {
        const jiffies width = tvec::geometry::width_of(level);
        timer_wheel wheel;
        auto all = support::probes(bursts * burst);
        for (auto& p : all) wheel.arm_at(p->t, 3 * width - 1);
        wheel.advance(width - 1);
        std::uint64_t done = visits(wheel);
        CHECK_EQ(done, 0);
        std::size_t busy = 0;
        for (jiffies step = 0; step < steps; ++step) {
            wheel.advance(width + step * (width / steps));
            busy += visits(wheel) != done;
            done = visits(wheel);
            const std::size_t even = bursts * burst * step / steps;
            REQUIRE_LE(done, even + 2 * burst);
            REQUIRE_LE(even, done + burst);
        }
        CHECK_EQ(done, all.size());
        CHECK_EQ(busy, bursts);
    }
}

// Cost no visit shows: `advance` returns at once before the tick `quiet`, and only before it.
Test(skipping, the_ticks_between_two_bursts_are_idle) {
    timer_wheel wheel;
    const auto crowd = support::probes(40);
    for (const auto& p : crowd) wheel.arm_at(p->t, 900);
    const jiffies entered = tvec::geometry::entry_of(1, 900), lap = tvec::geometry::width_of(1);
    wheel.advance(entered - lap);
    CHECK_EQ(visits(wheel), 16);
    CHECK_LE(wheel.now() + lap / 3, wheel.*member(support::of_wheel::quiet{}));
}

Test(skipping, the_bursts_of_one_level_do_not_hurry_those_of_another) {
    constexpr std::size_t burst = 16;
    const jiffies lap = tvec::geometry::width_of(2);
    timer_wheel wheel;
    auto far = support::probes(20 * burst), near = support::probes(20 * burst);
    for (auto& p : far) wheel.arm_at(p->t, 3 * lap - 1);
    wheel.advance(lap);
    for (auto& p : near) wheel.arm_at(p->t, lap + 767);
    for (jiffies t = lap; t < lap + 512; ++t) wheel.advance(t);
    CHECK_LE(near.size(), visits(wheel));
    CHECK_LE(visits(wheel), near.size() + 2 * burst);  // a 32nd of the lap has passed
}
