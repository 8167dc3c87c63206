// P12: a callback may throw. The exception leaves advance, the wheel stays valid, the other timers
// stay due.
#include <stdexcept>

#include "support/check.hpp"
#include "support/probe.hpp"
#include "tvec/inspect/inspect.hpp"

using support::jiffies;
using support::probe;
using tvec::timer_wheel;

TestSuite(throwing, .timeout = 60);

namespace {

bool advance_throws(timer_wheel& wheel, jiffies until) {
    try {
        wheel.advance(until);
    } catch (const std::runtime_error&) {
        return true;
    }
    return false;
}

}  // namespace

Test(throwing, leaves_the_rest_due_wherever_in_the_slot_it_happens) {
    for (std::size_t thrower = 0; thrower < 12; ++thrower) {
        timer_wheel wheel(250);
        auto all = support::probes(12);
        for (auto& p : all) wheel.arm_after(p->t, 600);
        all[thrower]->then = [](timer_wheel&) { throw std::runtime_error("callback"); };

        REQUIRE(advance_throws(wheel, 2'000));
        CHECK_EQ(wheel.now(), 850);
        CHECK_EQ(wheel.behind(), 1'150);
        CHECK_EQ(check(wheel), "");
        CHECK(!all[thrower]->t.pending());
        const bool left = support::count_fired(all) < all.size();
        CHECK(!left || wheel.next_wakeup() == jiffies{850});

        CHECK(wheel.advance(2'000).caught_up);
        for (auto& p : all) CHECK(p->fired_only_at(850));
        CHECK_EQ(wheel.now(), 2'000);
    }
}

Test(throwing, again_and_again_makes_progress_each_time) {
    timer_wheel wheel;
    auto all = support::probes(20);
    for (auto& p : all) {
        wheel.arm_after(p->t, 10);
        p->then = [](timer_wheel&) { throw std::runtime_error("callback"); };
    }
    for (std::size_t i = 1; i <= all.size(); ++i) {
        REQUIRE(advance_throws(wheel, 10));
        REQUIRE_EQ(support::count_fired(all), i);
    }
    CHECK(!advance_throws(wheel, 10));
}

Test(throwing, after_re_arming_keeps_the_new_deadline) {
    timer_wheel wheel;
    probe p([&](timer_wheel& w) {
        w.arm_after(p.t, 30);
        throw std::runtime_error("callback");
    });
    wheel.arm_after(p.t, 10);
    CHECK(advance_throws(wheel, 20));
    p.then = nullptr;
    wheel.advance(100);
    CHECK(p.ticks == (std::vector<jiffies>{10, 40}));
}

Test(throwing, while_destroying_siblings_is_safe) {
    timer_wheel wheel;
    auto all = support::probes(10);
    for (auto& p : all) {
        wheel.arm_after(p->t, 10);
        p->then = [&](timer_wheel&) {
            for (auto& other : all)
                if (other->fired() == 0) other.reset();
            throw std::runtime_error("callback");
        };
    }
    CHECK(advance_throws(wheel, 10));
    CHECK(wheel.advance(10).caught_up);
    CHECK_EQ(wheel.count().fired, 1);
    CHECK_EQ(check(wheel), "");
}
