// Asking whether anything is pending, and how many timers are: exact at any time, also when
// next_wakeup() still reckons with what has been cancelled.
#include <memory>

#include "support/check.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"
#include "tvec/clock/clocked_wheel.hpp"

using support::jiffies;
using support::probe;
using tvec::timer_wheel;

TestSuite(pending, .timeout = 60);

namespace {

// Returns whether both counts of the wheel are `n`.
bool has_pending(const timer_wheel& wheel, std::size_t n) {
    return wheel.any_pending() == (n != 0) && wheel.count_pending() == n;
}

}  // namespace

Test(pending, a_timer_is_pending_until_it_fires) {
    for (const jiffies start : support::starts())
        for (const jiffies delay : support::edges()) {
            timer_wheel wheel(start);
            REQUIRE(has_pending(wheel, 0));
            probe p;
            wheel.arm_after(p.t, delay);
            REQUIRE(has_pending(wheel, 1));
            wheel.advance(start + delay - 1, 1);  // what has a level left to sink is left over
            REQUIRE(has_pending(wheel, 1));
            wheel.advance(start + delay);
            REQUIRE(has_pending(wheel, 0));
        }
}

Test(pending, cancelled_and_destroyed_timers_are_not_pending) {
    for (const jiffies delay : support::edges()) {
        timer_wheel wheel;
        auto p = std::make_unique<probe>();
        wheel.arm_after(p->t, delay);
        p->t.cancel();
        REQUIRE(has_pending(wheel, 0));
        REQUIRE(wheel.next_wakeup());
        wheel.arm_after(p->t, delay);
        REQUIRE(has_pending(wheel, 1));
        p.reset();
        REQUIRE(has_pending(wheel, 0));
        REQUIRE(wheel.next_wakeup());
    }
}

Test(pending, a_timer_armed_for_never_is_pending) {
    timer_wheel wheel;
    probe p;
    wheel.arm_at(p.t, tvec::never);
    CHECK(!wheel.next_wakeup());
    CHECK(has_pending(wheel, 1));
    p.t.cancel();
    CHECK(has_pending(wheel, 0));
}

Test(pending, a_pending_timer_is_found_in_any_chain) {
    for (const jiffies delay : support::edges()) {
        timer_wheel wheel;
        auto all = support::probes(16);
        for (auto& left : all) {
            for (auto& p : all) wheel.arm_after(p->t, delay);
            for (auto& p : all)
                if (p != left) p->t.cancel();
            REQUIRE(has_pending(wheel, 1));
        }
    }
}

Test(pending, a_timer_is_pending_until_its_callback_begins) {
    timer_wheel wheel;
    std::size_t left = 3;
    bool exact = true;
    const auto look = [&](timer_wheel& w) { exact = exact && has_pending(w, --left); };
    probe a{look}, b{look}, c{look};
    for (probe* p : {&a, &b, &c}) wheel.arm_after(p->t, 300);
    wheel.advance(300, 2);
    CHECK(has_pending(wheel, left));
    wheel.advance(300);
    CHECK(exact);
    CHECK_EQ(left, 0);
}

Test(pending, a_clocked_wheel_counts_pending_timers_too) {
    tvec::clocked_wheel timers;
    probe p;
    CHECK(!timers.any_pending());
    timers.arm_after(p.t, std::chrono::hours(1));
    CHECK(timers.any_pending());
    CHECK_EQ(timers.count_pending(), 1);
    p.t.cancel();
    CHECK(!timers.any_pending());
    CHECK_EQ(timers.count_pending(), 0);
}
