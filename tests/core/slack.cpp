// arm_within: fires within the window, on the tick that most other windows share.
#include <algorithm>
#include <bit>
#include <random>

#include "support/check.hpp"
#include "support/probe.hpp"

using support::jiffies;
using support::probe;
using tvec::never;
using tvec::timer_wheel;

TestSuite(slack, .timeout = 60);

namespace {

jiffies roundest(jiffies first, jiffies last) {
    jiffies best = first;
    for (jiffies t = first; t <= last; ++t)
        if (std::countr_zero(t) > std::countr_zero(best)) best = t;
    return best;
}

}  // namespace

Test(slack, slack_chooses_the_roundest_tick) {
    std::mt19937_64 random(9);
    for (int i = 0; i < 10'000; ++i) {
        timer_wheel wheel(random() >> (40 + random() % 20));
        const jiffies first = wheel.now() + 1 + random() % 5'000;
        const jiffies last = first + random() % 300;
        probe p;
        wheel.arm_within(p.t, first, last);
        REQUIRE_EQ(p.t.expires(), roundest(first, last));
    }
}

Test(slack, slack_brings_timers_together) {
    timer_wheel wheel;
    auto all = support::probes(400);
    for (std::size_t i = 0; i < all.size(); ++i) wheel.arm_within(all[i]->t, 600 + i, 1'100 + i);
    for (const auto& p : all) CHECK_EQ(p->t.expires(), 1'024);
}

Test(slack, slack_leaves_timers_in_the_window_alone) {
    timer_wheel wheel;
    probe p;
    wheel.arm_at(p.t, 77);
    CHECK(wheel.arm_within(p.t, 50, 100));
    CHECK_EQ(p.t.expires(), 77);
    CHECK(wheel.arm_within(p.t, 50, 77));
    CHECK_EQ(p.t.expires(), 77);
    CHECK(wheel.arm_within(p.t, 77, 100));
    CHECK_EQ(p.t.expires(), 77);
    CHECK(wheel.arm_within(p.t, 78, 100));
    CHECK_EQ(p.t.expires(), 96);
    p.t.cancel();
    CHECK(!wheel.arm_within(p.t, 80, 100));
    CHECK_EQ(p.t.expires(), 96);
    CHECK(p.t.pending());
}

// A callback of each tick asks for the timer before it fires.
Test(slack, slack_leaves_due_timers_in_the_window_alone) {
    timer_wheel wheel;
    probe flush, ask;
    ask.then = [&](timer_wheel&) {
        wheel.arm_within(flush.t, wheel.now(), wheel.now() + 8);
        wheel.arm_after(ask.t, 1);
    };
    wheel.arm_after(ask.t, 1);
    for (jiffies tick = 1; tick <= 100; ++tick) wheel.advance(tick);
    CHECK_GE(flush.fired(), 10);
    wheel.advance_watched(300, [](const auto& fire) { return fire(), true; });
    CHECK_GE(flush.fired(), 30);
    wheel.arm_at(flush.t, 50);  // past, so it is due on the next tick
    CHECK(wheel.arm_within(flush.t, 40, 400));
    CHECK_EQ(flush.t.expires(), 50);
}

Test(slack, windows_may_be_past_reversed_or_too_late) {
    timer_wheel wheel(1'000);
    probe p;
    wheel.arm_within(p.t, 5, 10);
    CHECK_EQ(p.t.expires(), 1'001);
    p.t.cancel();
    wheel.arm_within(p.t, 2'000, 1'500);
    CHECK_EQ(p.t.expires(), 2'000);
    p.t.cancel();
    wheel.arm_within(p.t, never, ~jiffies{0});
    CHECK_EQ(p.t.expires(), never);
    p.t.cancel();
    wheel.arm_within(p.t, 0, never);
    CHECK_EQ(p.t.expires(), jiffies{1} << 62);
}
