// A budget bounds fires and moves together. Remaining timers stay due, may be cancelled, and
// come first in the next call.
#include <algorithm>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"
#include "tvec/inspect/inspect.hpp"

using support::jiffies;
using support::probe;
using support::row;
using support::visits;
using tvec::timer_wheel;

TestSuite(budget, .timeout = 60);

namespace {

std::vector<std::size_t> order_with_budget(std::size_t budget) {
    timer_wheel wheel;
    row r(wheel, 50, 700);
    while (!wheel.advance(700, budget).caught_up) {
    }
    return r.order;
}

}  // namespace

Test(budget, timers_beyond_the_budget_stay_due) {
    for (const jiffies start : support::starts()) {
        timer_wheel wheel(start);
        row r(wheel, 10, start + 50);
        const auto done = wheel.advance(start + 90, 4);
        CHECK_EQ(done.fired, 4);
        CHECK(!done.caught_up);
        CHECK_EQ(wheel.now(), start + 50);
        CHECK_EQ(wheel.behind(), 40);
        CHECK_EQ(wheel.next_wakeup(), start + 50);
        CHECK_EQ(wheel.next_expiry(), start + 50);
        CHECK_EQ(check(wheel), "");
        CHECK_EQ(wheel.advance(start + 90, 4).fired, 4);
        const auto rest = wheel.advance(start + 90, 4);
        CHECK_EQ(rest.fired, 2);
        CHECK(rest.caught_up);
        CHECK_EQ(wheel.now(), start + 90);
    }
}

Test(budget, the_order_of_firing_does_not_change) {
    const auto at_once = order_with_budget(timer_wheel::unlimited);
    CHECK_EQ(at_once.size(), 50);
    for (const std::size_t budget : {1, 2, 3, 7, 49, 50})
        CHECK(order_with_budget(budget) == at_once);
}

Test(budget, a_budget_just_enough_is_enough) {
    timer_wheel wheel;
    row r(wheel, 10, 50);
    CHECK(wheel.advance(50, 10).caught_up);
    CHECK_EQ(r.order.size(), 10);
}

Test(budget, a_budget_of_zero_passes_only_empty_ticks) {
    timer_wheel wheel;
    probe p;
    wheel.arm_after(p.t, 50);
    CHECK(wheel.advance(49, 0).caught_up);
    CHECK(!wheel.advance(50, 0).caught_up);
    CHECK_EQ(p.fired(), 0);
    CHECK_EQ(wheel.next_wakeup(), jiffies{50});
    CHECK(wheel.advance(50, 1).caught_up);
}

Test(budget, a_budget_counts_moves_as_well_as_fires) {
    for (const jiffies start : {jiffies{0}, (jiffies{1} << 26) - 500}) {
        timer_wheel wheel(start);
        const std::size_t n = support::scaled(20'000);
        row r(wheel, n, start + 40'000);  // all in one slot of level 2
        std::size_t calls = 0;
        for (bool caught_up = false; !caught_up; ++calls) {
            const auto before = visits(wheel);
            caught_up = wheel.advance(start + 40'000, 100).caught_up;
            REQUIRE_LE(visits(wheel) - before, 100);
            REQUIRE_EQ(check(wheel).substr(0, 60), "");
            REQUIRE_LE(calls, 2'000);
        }
        CHECK_EQ(r.order.size(), n);
        CHECK_GE(calls, 2 * n / 100);
    }
}

Test(budget, a_budget_counts_drops_as_well) {
    timer_wheel wheel;
    row r(wheel, 1'000, 50);
    for (auto& p : r.all) p->t.cancel();
    CHECK(!wheel.advance(50, 999).caught_up);
    CHECK_EQ(wheel.count().dropped, 999);
}

Test(budget, a_budget_bounds_the_return_from_the_overflow) {
    timer_wheel wheel;
    row r(wheel, 1'000, (jiffies{1} << 34) + 3);
    for (bool caught_up = false; !caught_up;) {
        const auto before = visits(wheel);
        caught_up = wheel.advance((jiffies{1} << 34) + 3, 10).caught_up;
        REQUIRE_LE(visits(wheel) - before, 10);
        REQUIRE_EQ(check(wheel), "");
    }
    CHECK_EQ(r.order.size(), 1'000);
}

Test(budget, timers_armed_while_work_remains_are_exact) {
    timer_wheel wheel(200);
    row r(wheel, 8, 250);
    wheel.advance(1'000, 3);
    auto all = support::probes(512);
    REQUIRE_EQ(all.size(), 512);
    for (std::size_t i = 0; i < all.size(); ++i) wheel.arm_at(all[i]->t, 240 + i);
    wheel.advance(1'000);
    CHECK_EQ(r.order.size(), 8);
    for (std::size_t i = 0; i < all.size(); ++i)
        CHECK(all[i]->fired_only_at(std::max<jiffies>(251, 240 + i)));
}

Test(budget, leftover_timers_may_be_cancelled_or_destroyed) {
    timer_wheel wheel;
    row r(wheel, 12, 50);
    wheel.advance(50, 4);
    std::size_t left = 0;
    for (auto& p : r.all) {
        if (p->fired() != 0) continue;
        if (++left % 2 == 0)
            CHECK(p->t.cancel());
        else
            p.reset();
    }
    CHECK_EQ(left, 8);
    const auto done = wheel.advance(50, 100);
    CHECK(done.caught_up);
    CHECK_EQ(done.fired, 0);
    CHECK_EQ(check(wheel), "");
}

Test(budget, a_budget_of_one_reaches_every_slot) {
    timer_wheel wheel;
    row early(wheel, 5, 10), late(wheel, 5, 200);
    for (int i = 0; i < 100 && !wheel.advance(300, 1).caught_up; ++i) {
    }
    CHECK_EQ(early.order.size(), 5);
    CHECK_EQ(late.order.size(), 5);
    CHECK_EQ(wheel.now(), 300);
}
