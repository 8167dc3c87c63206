// A timer armed for tick x fires when advance passes x, never before. Arming for now or the
// past means the next tick.
#include <vector>

#include "support/check.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"
#include "tvec/inspect/inspect.hpp"

using support::jiffies;
using support::probe;
using tvec::timer_wheel;

TestSuite(arming, .timeout = 60);

Test(arming, a_timer_fires_once_exactly_on_its_tick) {
    for (const jiffies start : support::starts()) {
        timer_wheel wheel(start);
        probe p;
        wheel.arm_at(p.t, start + 300);

        wheel.advance(start + 299);
        CHECK_EQ(p.fired(), 0);
        wheel.advance(start + 300);
        CHECK(p.fired_only_at(start + 300));
        wheel.advance(start + (jiffies{1} << 33));
        CHECK(p.fired_only_at(start + 300));
        CHECK_EQ(check(wheel), "");
    }
}

Test(arming, now_and_the_past_mean_the_next_tick) {
    timer_wheel wheel(1000);
    probe zero, now, past;
    wheel.arm_after(zero.t, 0);
    wheel.arm_at(now.t, 1000);
    wheel.arm_at(past.t, 3);
    CHECK_EQ(zero.t.expires(), 1000);  // the requested tick, so that a period keeps its phase
    CHECK_EQ(past.t.expires(), 3);
    wheel.advance(1000);
    CHECK_EQ(zero.fired() + now.fired() + past.fired(), 0);
    wheel.advance(1001);
    CHECK_EQ(zero.fired() + now.fired() + past.fired(), 3);
}

Test(arming, a_timer_moves_to_later_or_earlier_ticks) {
    for (const jiffies start : support::starts()) {
        timer_wheel wheel(start);
        probe up, down;
        CHECK(!wheel.arm_after(up.t, 1));
        CHECK(wheel.arm_after(up.t, 100));
        wheel.arm_after(down.t, 100);
        wheel.arm_after(down.t, 1);
        wheel.advance(start + 1);
        CHECK_EQ(up.fired(), 0);
        CHECK(down.fired_only_at(start + 1));
        wheel.advance(start + 100);
        CHECK(up.fired_only_at(start + 100));
    }
}

Test(arming, a_shorter_timer_armed_later_fires_first) {
    timer_wheel wheel;
    probe slow, fast;
    wheel.arm_after(slow.t, 10);
    CHECK_EQ(wheel.next_wakeup(), jiffies{10});
    wheel.arm_after(fast.t, 5);
    CHECK_EQ(wheel.next_wakeup(), jiffies{5});
    wheel.advance(5);
    CHECK_EQ(fast.fired(), 1);
    CHECK_EQ(slow.fired(), 0);
}

Test(arming, each_of_several_timers_is_armed_as_alone) {
    timer_wheel wheel(1000), elsewhere;
    std::vector<probe> probes(100);
    std::vector<tvec::timer*> timers;
    for (probe& p : probes) timers.push_back(&p.t);
    CHECK_EQ(wheel.arm_each_at({}, 5), 0);
    for (std::size_t i = 0; i < 30; ++i) wheel.arm_at(*timers[i], 1'050 + i);
    for (std::size_t i = 30; i < 40; ++i) elsewhere.arm_at(*timers[i], 7);
    CHECK_EQ(wheel.arm_each_at(timers, 1'300), 40);
    CHECK_EQ(wheel.arm_each_at(timers, 1'060), 100);
    CHECK_EQ(check(wheel) + check(elsewhere), "");
    CHECK_EQ(wheel.advance(1'059).fired, 0);
    wheel.advance(1'060);
    for (const probe& p : probes) CHECK(p.fired_only_at(1'060));
}
