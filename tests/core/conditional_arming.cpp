// arm_if_pending, arm_unless_pending and arm_if_earlier: the kernel's mod_timer_pending,
// schedule_delayed_work and timer_reduce.
#include "support/check.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"

using support::jiffies;
using support::probe;
using tvec::timer_wheel;

TestSuite(conditional_arming, .timeout = 60);

Test(conditional_arming, if_pending_moves_a_timer_to_either_side) {
    for (const jiffies start : support::starts())
        for (const jiffies moved_to : {5u, 400u, 70'000u}) {
            timer_wheel wheel(start);
            probe p;
            wheel.arm_after(p.t, 300);
            CHECK(wheel.arm_if_pending(p.t, start + moved_to));
            wheel.advance(start + 70'000);
            CHECK(p.fired_only_at(start + moved_to));
        }
}

Test(conditional_arming, if_pending_never_arms_an_idle_timer) {
    timer_wheel wheel;
    probe never_armed, gone, cancelled;
    wheel.arm_after(gone.t, 1);
    wheel.arm_after(cancelled.t, 5);
    wheel.advance(1);
    cancelled.t.cancel();
    CHECK(!wheel.arm_if_pending(never_armed.t, 9));
    CHECK(!wheel.arm_if_pending(gone.t, 9));
    CHECK(!wheel.arm_if_pending(cancelled.t, 9));
    wheel.advance(1'000);
    CHECK_EQ(never_armed.fired(), 0);
    CHECK(gone.fired_only_at(1));
    CHECK_EQ(cancelled.fired(), 0);
}

Test(conditional_arming, unless_pending_keeps_the_first_of_several_deadlines) {
    for (const jiffies start : support::starts())
        for (const jiffies other : {5u, 400u, 70'000u}) {
            timer_wheel wheel(start);
            probe p;
            CHECK(!wheel.arm_unless_pending(p.t, start + 300));
            CHECK(wheel.arm_unless_pending(p.t, start + other));
            wheel.advance(start + 70'000);
            CHECK(p.fired_only_at(start + 300));
        }
}

Test(conditional_arming, unless_pending_arms_fired_and_cancelled_timers) {
    timer_wheel wheel;
    probe gone, cancelled;
    wheel.arm_after(gone.t, 1);
    wheel.arm_after(cancelled.t, 5);
    wheel.advance(1);
    cancelled.t.cancel();
    CHECK(!wheel.arm_unless_pending(gone.t, 9));
    CHECK(!wheel.arm_unless_pending(cancelled.t, 9));
    wheel.advance(1'000);
    CHECK(gone.ticks == (std::vector<jiffies>{1, 9}));
    CHECK(cancelled.fired_only_at(9));
}

Test(conditional_arming, unless_pending_leaves_timers_of_other_wheels_alone) {
    timer_wheel here, there;
    probe p;
    there.arm_at(p.t, 7);
    CHECK(here.arm_unless_pending(p.t, 3));
    CHECK_EQ(here.advance(10).fired, 0);
    CHECK_EQ(there.advance(10).fired, 1);
}

Test(conditional_arming, if_earlier_keeps_the_earliest_of_several_deadlines) {
    for (const jiffies start : support::starts()) {
        timer_wheel wheel(start);
        probe p;
        CHECK(!wheel.arm_if_earlier(p.t, start + 300));
        CHECK(wheel.arm_if_earlier(p.t, start + 5'000));
        CHECK_EQ(p.t.expires(), start + 300);
        CHECK(wheel.arm_if_earlier(p.t, start + 40));
        CHECK(wheel.arm_if_earlier(p.t, start + 40));
        CHECK(wheel.arm_if_earlier(p.t, start + 41));
        wheel.advance(start + 10'000);
        CHECK(p.fired_only_at(start + 40));
    }
}

Test(conditional_arming, if_earlier_arms_idle_timers_for_any_deadline) {
    timer_wheel wheel;
    probe cancelled, again;
    wheel.arm_after(cancelled.t, 10);
    cancelled.t.cancel();
    CHECK(!wheel.arm_if_earlier(cancelled.t, 500));
    wheel.arm_after(again.t, 1);
    wheel.advance(1);
    CHECK(!wheel.arm_if_earlier(again.t, 700));
    wheel.advance(1'000);
    CHECK(cancelled.fired_only_at(500));
    CHECK(again.ticks == (std::vector<jiffies>{1, 700}));
}

Test(conditional_arming, conditional_arms_move_timers_from_other_wheels) {
    timer_wheel here, there(10'000);
    probe pulled, pushed;
    there.arm_at(pulled.t, 10'005);
    there.arm_at(pushed.t, 10'005);
    here.arm_at(pulled.t, 7);
    there.arm_at(pulled.t, 10'005);
    CHECK(here.arm_if_earlier(pulled.t, 20'000));  // 10005 there is another clock's
    CHECK(here.arm_if_pending(pushed.t, 20'000));
    there.advance(30'000);
    CHECK_EQ(pulled.fired() + pushed.fired(), 0);
    here.advance(20'000);
    CHECK(pulled.fired_only_at(20'000));
    CHECK(pushed.fired_only_at(20'000));
}
