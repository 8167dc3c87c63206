// cancel() returns whether the timer was going to fire; afterwards it will not.
#include "support/check.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"
#include "tvec/inspect/inspect.hpp"

using support::jiffies;
using support::probe;
using tvec::timer_wheel;

TestSuite(cancelling, .timeout = 60);

Test(cancelling, cancel_returns_true_once) {
    timer_wheel wheel;
    probe p;
    CHECK(!p.t.cancel());
    wheel.arm_after(p.t, 10);
    CHECK(p.t.cancel());
    CHECK(!p.t.cancel());
    wheel.advance(100);
    CHECK_EQ(p.fired(), 0);
}

Test(cancelling, cancel_after_the_fire_returns_false) {
    timer_wheel wheel;
    probe p;
    wheel.arm_after(p.t, 10);
    wheel.advance(10);
    CHECK(!p.t.cancel());
}

Test(cancelling, a_due_timer_can_still_be_stopped) {
    timer_wheel wheel;
    auto all = support::probes(4);
    for (auto& p : all) wheel.arm_after(p->t, 10);
    wheel.advance(10, 1);
    CHECK_EQ(support::count_fired(all), 1);
    CHECK_EQ(wheel.count_pending(), 3);
    for (auto& p : all) CHECK_EQ(p->t.cancel(), p->fired() == 0);
    CHECK_EQ(wheel.count_pending(), 0);
    wheel.advance(100);
    CHECK_EQ(support::count_fired(all), 1);
}

Test(cancelling, a_cancelled_timers_deadline_stays_readable) {
    timer_wheel wheel;
    probe p;
    wheel.arm_after(p.t, 77);
    p.t.cancel();
    CHECK_EQ(p.t.expires(), 77);
}

Test(cancelling, the_pending_ones_are_those_not_cancelled) {
    timer_wheel wheel(250);
    auto all = support::probes(1'000);
    for (std::size_t i = 0; i < all.size(); ++i) wheel.arm_after(all[i]->t, 1 + i * i);
    for (std::size_t i = 0; i < all.size(); ++i) {
        REQUIRE_EQ(wheel.count_pending(), all.size() - i);
        REQUIRE(all[i]->t.cancel());
    }
    CHECK_EQ(check(wheel), "");
    CHECK(!wheel.next_expiry());
    wheel.advance(2'000'000);
    CHECK(!wheel.next_wakeup());  // the bits of what was emptied are clear again
}
