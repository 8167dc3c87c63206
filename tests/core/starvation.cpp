// P13: a callback that re-arms itself for now cannot starve the loop.
#include <array>
#include <memory>
#include <random>
#include <vector>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/probe.hpp"
#include "tvec/inspect/inspect.hpp"

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

// --- a lap behind -------------------------------------------------------------------------------

namespace {

// Timers over the ticks of a stall. Each arms itself again some times, counted from now(), from its
// own deadline, or from the tick that the call is to reach.
struct stalled {
    enum base : unsigned char { from_now, from_deadline, from_target };
    static constexpr int again = 8;

    stalled(jiffies start, jiffies ticks, base from, jiffies delay)
        : wheel(start), all(support::probes(500)) {
        std::mt19937_64 random(ticks);
        for (auto& p : all) {
            wheel.arm_after(p->t, 1 + random() % ticks);
            p->then = [&p, from, delay, due = p->t.expires(),
                       left = again](timer_wheel& w) mutable {
                REQUIRE_EQ(w.now(), due);
                if (left-- == 0) return;
                const std::array<jiffies, 3> bases{w.now(), due, w.now() + w.behind()};
                w.arm_at(p->t, due = bases[from] + delay);
            };
        }
    }
    timer_wheel wheel;
    std::vector<std::unique_ptr<probe>> all;
};

// Upper bound on the calls of `advance` until the wheel has caught up. Each comes nearer.
std::size_t calls_to(timer_wheel& wheel, jiffies until, std::size_t budget) {
    for (std::size_t calls = 1;; ++calls) {
        const jiffies before = wheel.behind();
        const bool caught_up = wheel.advance(until, budget).caught_up;
        REQUIRE(calls == 1 || wheel.behind() <= before);
        if (caught_up) return calls;
    }
}

}  // namespace

Test(starvation, timers_that_re_arm_themselves_a_lap_behind_are_each_made_up_for) {
    for (const jiffies lap : {jiffies{1} << 8, jiffies{1} << 14, jiffies{1} << 20})
        for (jiffies ticks = lap - 2; ticks <= lap + 1; ++ticks)
            for (const auto from :
                 {stalled::from_now, stalled::from_deadline, stalled::from_target})
                for (const jiffies delay : {1, 10})
                    for (const std::size_t budget : {1, 7, 256, 1'000'000}) {
                        stalled s(300, ticks, from, delay);
                        jiffies until = 300 + ticks;
                        REQUIRE_LE(calls_to(s.wheel, until, budget),
                                   s.all.size() * (s.again + 5) / budget + 1);
                        while (s.wheel.any_pending()) calls_to(s.wheel, until += delay, budget);
                        REQUIRE_EQ(s.wheel.count().fired, s.all.size() * (s.again + 1));
                        REQUIRE_EQ(check(s.wheel), "");
                    }
}

Test(starvation, a_stall_fires_what_a_call_on_each_of_its_ticks_would_have) {
    for (const jiffies ticks : {254, 257, 16'382, 16'385}) {
        stalled jump(300, ticks, stalled::from_now, 10), steps(300, ticks, stalled::from_now, 10);
        jump.wheel.advance(300 + ticks);
        for (jiffies t = 301; t <= 300 + ticks; ++t) steps.wheel.advance(t);
        for (std::size_t i = 0; i < jump.all.size(); ++i)
            REQUIRE(jump.all[i]->ticks == steps.all[i]->ticks);
    }
}
