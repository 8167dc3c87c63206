// Periodic timers keep their phase and report the periods they missed.
#include <array>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"

using support::jiffies;
using support::probe;
using tvec::never;
using tvec::timer_wheel;

TestSuite(periodic, .timeout = 60);

Test(periodic, periodic_timers_fire_on_phase_without_missing_beats) {
    constexpr std::array<jiffies, 12> periods{1, 2, 3, 5, 7, 11, 97, 191, 256, 1337, 4096, 20'011};
    const jiffies ticks = support::scaled(30'000);
    for (const jiffies start : support::starts()) {
        timer_wheel wheel(start);
        auto all = support::probes(periods.size());
        for (std::size_t i = 0; i < periods.size(); ++i) {
            all[i]->then = [&, i](timer_wheel& w) {
                CHECK_EQ(w.arm_next(all[i]->t, periods[i]), 0);
            };
            wheel.arm_after(all[i]->t, periods[i]);
        }
        for (jiffies t = 1; t <= ticks; ++t) wheel.advance(start + t);
        for (std::size_t i = 0; i < periods.size(); ++i) {
            CHECK_EQ(all[i]->fired(), ticks / periods[i]);
            for (const jiffies tick : all[i]->ticks) REQUIRE_EQ((tick - start) % periods[i], 0);
        }
    }
}

Test(periodic, a_late_periodic_timer_counts_its_missed_beats) {
    timer_wheel wheel;
    jiffies missed = 0;
    probe p([&](timer_wheel& w) { missed += w.arm_next(p.t, 100); });
    wheel.arm_after(p.t, 100);
    wheel.advance(1'050);
    CHECK(p.fired_only_at(100));
    CHECK_EQ(missed, 9);
    CHECK_EQ(p.t.expires(), 1'100);
    wheel.advance(1'100);
    CHECK_EQ(p.fired(), 2);
    CHECK_EQ(missed, 9);
}

Test(periodic, arming_from_the_last_deadline_fires_missed_beats) {
    timer_wheel wheel;
    probe p([&](timer_wheel& w) { w.arm_at(p.t, p.t.expires() + 100); });
    wheel.arm_after(p.t, 100);
    wheel.advance(1'050);
    CHECK_EQ(p.fired(), 10);
}

Test(periodic, periods_are_at_least_one_and_saturate) {
    timer_wheel wheel(10);
    probe p;
    wheel.arm_at(p.t, 20);
    wheel.advance(25);
    CHECK_EQ(wheel.arm_next(p.t, 0), 5);
    CHECK_EQ(p.t.expires(), 26);
    wheel.arm_next(p.t, never);
    CHECK_EQ(p.t.expires(), never);
    wheel.arm_next(p.t, ~jiffies{0});
    CHECK_EQ(p.t.expires(), never);
}

Test(periodic, arm_next_accepts_fresh_and_pending_timers) {
    timer_wheel wheel(1'000);
    probe fresh, pending;
    CHECK_EQ(wheel.arm_next(fresh.t, 300), 3);
    CHECK_EQ(fresh.t.expires(), 1'200);
    wheel.arm_at(pending.t, 1'050);
    CHECK_EQ(wheel.arm_next(pending.t, 100), 0);
    CHECK_EQ(pending.t.expires(), 1'150);
}

Test(periodic, a_period_can_change_from_beat_to_beat) {
    timer_wheel wheel;
    probe p([&](timer_wheel& w) { w.arm_next(p.t, 10 * p.fired()); });
    wheel.arm_after(p.t, 5);
    for (jiffies t = 1; t <= 70; ++t) wheel.advance(t);
    CHECK(p.ticks == (std::vector<jiffies>{5, 15, 35, 65}));
}
