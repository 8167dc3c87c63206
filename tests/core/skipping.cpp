// P9: advance costs its fires and moves. Empty time is skipped. No tick pays for a whole cascade.
// Cost is counted in visits, never in time.
#include <algorithm>
#include <random>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/private_members.hpp"
#include "support/probe.hpp"

using support::jiffies;
using support::probe;
using support::visits;
using tvec::timer_wheel;

TestSuite(skipping, .timeout = 60);

Test(skipping, empty_time_is_visited_by_nobody) {
    timer_wheel wheel;
    CHECK(wheel.advance(jiffies{1} << 40).caught_up);
    CHECK_EQ(visits(wheel), 0);
    CHECK(!wheel.next_wakeup());
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
    const std::size_t n = support::scaled(200'000);
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
    // A burst from each level in use and from the one above. Of 200 000 timers, 54 613 are in one
    // slot of level 2.
    CHECK_LE(worst, 3 * 64);
}
