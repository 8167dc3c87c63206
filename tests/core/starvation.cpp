// P13: a callback that re-arms itself for now cannot starve the loop.
#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/probe.hpp"

using support::jiffies;
using support::probe;
using tvec::timer_wheel;

TestSuite(starvation, .timeout = 60);

Test(starvation, a_timer_that_re_arms_for_now_runs_once_per_tick) {
    timer_wheel wheel;
    probe p([&](timer_wheel& w) { w.arm_at(p.t, w.now()); });
    wheel.arm_after(p.t, 0);
    for (jiffies t = 1; t <= 1'000; ++t) CHECK_EQ(wheel.advance(t).fired, 1);
}

Test(starvation, a_callback_slower_than_a_tick_does_not_keep_advance_going) {
    // The target of `advance` is fixed when it is called.
    timer_wheel wheel;
    jiffies clock = 0;
    probe p([&](timer_wheel& w) {
        ++clock;  // each callback takes a tick
        w.arm_after(p.t, 1);
    });
    wheel.arm_after(p.t, 1);
    wheel.advance(clock = 10);
    CHECK_EQ(p.fired(), 10);
    CHECK_EQ(clock, 20);
    CHECK_EQ(wheel.now(), 10);
}

Test(starvation, two_timers_that_re_arm_each_other_for_now_run_once_per_tick) {
    timer_wheel wheel;
    probe a, b;
    a.then = [&](timer_wheel& w) { w.arm_after(b.t, 0); };
    b.then = [&](timer_wheel& w) { w.arm_after(a.t, 0); };
    wheel.arm_after(a.t, 0);
    CHECK_EQ(wheel.advance(1).fired, 1);
    CHECK_EQ(wheel.advance(2).fired, 1);
    CHECK_EQ(wheel.advance(100).fired, 98);
}

Test(starvation, a_storm_of_zero_delays_ends_and_can_be_cut_into_turns) {
    const std::size_t n = support::scaled(200'000);
    timer_wheel wheel;
    auto all = support::probes(n);
    for (auto& p : all) {
        p->then = [&p](timer_wheel& w) { w.arm_after(p->t, 0); };
        wheel.arm_after(p->t, 0);
    }
    CHECK_EQ(wheel.advance(1).fired, n);
    std::size_t turns = 0;
    while (!wheel.advance(2, 1'000).caught_up) ++turns;
    CHECK_GE(turns, n / 1'000 - 1);
    CHECK_EQ(wheel.count().fired, 2 * n);
}
