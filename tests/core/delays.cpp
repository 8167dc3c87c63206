// Every delay is legal. It saturates at never, never wraps, and is exact beyond 2^32 ticks.
#include "support/check.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"
#include "tvec/inspect/inspect.hpp"

using support::jiffies;
using support::probe;
using tvec::never;
using tvec::timer_wheel;

TestSuite(delays, .timeout = 60);

namespace {

// Hops from wake-up to wake-up, as a tickless loop does. Returns the number of hops.
int hop_to(timer_wheel& wheel, jiffies tick) {
    int hops = 0;
    while (wheel.next_wakeup() && *wheel.next_wakeup() <= tick) {
        wheel.advance(*wheel.next_wakeup());
        ++hops;
    }
    return hops;
}

}  // namespace

Test(delays, delays_are_exact_by_ticks_or_by_wakeups) {
    for (const jiffies start : support::starts())
        for (const jiffies delay : support::edges()) {
            timer_wheel ticked(start), hopped(start);
            probe by_tick, by_hop;
            if (delay < 70'000) {
                ticked.arm_after(by_tick.t, delay);
                for (jiffies t = 1; t <= delay; ++t) ticked.advance(start + t);
                REQUIRE(by_tick.fired_only_at(start + delay));
            }
            hopped.arm_after(by_hop.t, delay);
            hop_to(hopped, start + delay);
            REQUIRE(by_hop.fired_only_at(start + delay));
        }
}

Test(delays, deadlines_beyond_never_are_never) {
    for (const jiffies now : {jiffies{0}, jiffies{1000}, never - 1})
        for (const jiffies beyond : {never + 1, never + 1000, ~jiffies{0}}) {
            timer_wheel wheel(now);
            probe p;
            CHECK(!wheel.arm_at(p.t, beyond));
            CHECK_EQ(p.t.expires(), never);
            CHECK(wheel.arm_at(p.t, beyond));
            CHECK_EQ(check(wheel), "");
            wheel.arm_at(p.t, now + 1);
            CHECK(wheel.arm_at(p.t, beyond));
            CHECK_EQ(p.t.expires(), never);
            CHECK_EQ(wheel.advance(never).fired, 0);
        }
}

Test(delays, delays_saturate_at_never) {
    timer_wheel wheel(1000);
    probe p;
    for (const jiffies delay : {never, never - 1000, ~jiffies{0}, never + 1}) {
        wheel.arm_after(p.t, delay);
        CHECK_EQ(p.t.expires(), never);
        CHECK(p.t.pending());
    }
    CHECK(!wheel.next_wakeup());
    CHECK(!wheel.next_expiry());
    wheel.advance(never);
    CHECK_EQ(p.fired(), 0);
    CHECK(p.t.cancel());
}

Test(delays, delays_to_the_last_tick_are_exact) {  // 63 bits, so there is no wrap to cross
    timer_wheel wheel(never - 300);
    probe last, beyond;
    wheel.arm_at(last.t, never - 1);
    wheel.arm_at(beyond.t, never);
    wheel.advance(~jiffies{0});
    CHECK_EQ(wheel.now(), never - 1);
    CHECK(last.fired_only_at(never - 1));
    CHECK_EQ(beyond.fired(), 0);
    wheel.arm_after(last.t, 5);
    CHECK_EQ(last.t.expires(), never);
    CHECK_EQ(check(wheel), "");
}

Test(delays, a_wheel_started_at_the_end_fires_nothing) {  // clamped, not refused
    for (const jiffies start : {never - 1, never, never + 1, ~jiffies{0}}) {
        timer_wheel wheel(start);
        CHECK_EQ(wheel.now(), never - 1);
        probe p;
        wheel.arm_after(p.t, 0);
        CHECK(p.t.pending());
        CHECK_EQ(p.t.expires(), never - 1);
        CHECK(!wheel.next_expiry());
        CHECK(wheel.advance(~jiffies{0}).caught_up);
        CHECK_EQ(p.fired(), 0);
        CHECK(!wheel.next_wakeup());
        CHECK_EQ(check(wheel), "");
    }
}

Test(delays, a_timer_that_never_fires_disturbs_no_other) {
    timer_wheel wheel(5);
    probe forever, far;
    wheel.arm_at(forever.t, never);
    wheel.arm_after(far.t, jiffies{1} << 40);
    std::size_t beats = 0;
    probe beat([&](timer_wheel& w) {
        ++beats;
        w.arm_after(beat.t, beats < 1000 ? 333 : (jiffies{1} << 23) + 1);
    });
    wheel.arm_after(beat.t, 333);
    while (wheel.now() < jiffies{1} << 34) {
        const jiffies due = beat.t.expires();
        hop_to(wheel, due);
        REQUIRE_EQ(beat.ticks.back(), due);
        beat.ticks.clear();
    }
    CHECK_GE(beats, 2'000);
    CHECK(forever.t.pending());
    CHECK_EQ(check(wheel), "");
}
