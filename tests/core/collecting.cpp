// collect: takes the timers that are due instead of calling them, with the promises of advance.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

#include "support/check.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/inspect/inspect.hpp"

using support::jiffies;
using support::probe;
using tvec::timer_wheel;

TestSuite(collecting, .timeout = 60);

namespace {

// Timers that must not fire, and what was taken of them.
struct batch {
    explicit batch(std::size_t n) : all(support::probes(n)) {
        for (auto& p : all) p->then = [](timer_wheel&) { CHECK(false); };
    }

    auto take() {
        return [this](tvec::timer& t) {
            CHECK(!t.pending());
            taken.push_back(&tvec::owner_of<&probe::t>(t));
        };
    }

    std::vector<std::unique_ptr<probe>> all;
    std::vector<probe*> taken;
};

bool collect_throws(timer_wheel& wheel, jiffies until, auto take) {
    try {
        wheel.collect(until, timer_wheel::unlimited, take);
    } catch (const std::runtime_error&) {
        return true;
    }
    return false;
}

}  // namespace

Test(collecting, a_timer_is_collected_exactly_on_its_tick) {
    for (const jiffies start : support::starts())
        for (const jiffies delay : support::edges()) {
            timer_wheel wheel(start);
            batch b(1);
            wheel.arm_after(b.all[0]->t, delay);
            const auto early = wheel.collect(start + delay - 1, timer_wheel::unlimited, b.take());
            REQUIRE(early.fired == 0 && early.caught_up && b.taken.empty());
            const auto done =
                wheel.collect(start + delay + 3, timer_wheel::unlimited, [&](auto& t) {
                    CHECK_EQ(wheel.now(), start + delay);
                    b.take()(t);
                });
            REQUIRE(done.fired == 1 && done.caught_up);
            REQUIRE_EQ(b.taken.size(), 1);
            REQUIRE_EQ(wheel.now(), start + delay + 3);
        }
}

Test(collecting, collect_takes_timers_in_the_firing_order) {
    timer_wheel fired_from, taken_from;
    support::row fired(fired_from, 20, 700);
    batch b(20);
    for (auto& p : b.all) taken_from.arm_at(p->t, 700);
    fired_from.advance(700);
    while (!taken_from.collect(700, 3, b.take()).caught_up) {
    }
    REQUIRE_EQ(b.taken.size(), 20);
    for (std::size_t i = 0; i < 20; ++i) CHECK(b.taken[i] == b.all[fired.order[i]].get());
}

Test(collecting, a_tick_is_taken_whole_before_the_next) {
    timer_wheel wheel;
    batch b(60);
    for (std::size_t i = 0; i < 60; ++i) wheel.arm_at(b.all[i]->t, 300 - i % 3);
    wheel.collect(1'000, timer_wheel::unlimited, b.take());
    CHECK_EQ(b.taken.size(), 60);
    CHECK(std::is_sorted(b.taken.begin(), b.taken.end(),
                         [](probe* x, probe* y) { return x->t.expires() < y->t.expires(); }));
}

Test(collecting, timers_beyond_the_budget_of_collect_stay_due) {
    for (const jiffies start : support::starts()) {
        timer_wheel wheel(start);
        batch b(20);
        for (auto& p : b.all) wheel.arm_at(p->t, start + 50);
        for (std::size_t n = 0; b.taken.size() < 20; ++n) {
            const auto visits = support::visits(wheel);
            const auto done = wheel.collect(start + 90, 3, b.take());
            REQUIRE(n < 20 + 4);  // cascades are visits, too
            REQUIRE_LE(support::visits(wheel) - visits, 3);
            if (!done.caught_up) REQUIRE_EQ(wheel.next_wakeup(), wheel.now());
        }
        REQUIRE_EQ(check(wheel), "");
    }
}

Test(collecting, a_take_may_end_the_call_early) {
    timer_wheel wheel;
    batch b(20);
    for (auto& p : b.all) wheel.arm_at(p->t, 50);
    const auto done = wheel.collect(90, timer_wheel::unlimited, [&](tvec::timer& t) {
        b.take()(t);
        return b.taken.size() < 4;
    });
    CHECK_EQ(done.fired, 4);
    CHECK(!done.caught_up);
    CHECK_EQ(wheel.now(), 50);
    CHECK_EQ(wheel.behind(), 40);
    CHECK_EQ(wheel.next_wakeup(), 50);
    CHECK_EQ(wheel.collect(90, timer_wheel::unlimited, b.take()).fired, 16);
}

Test(collecting, a_sibling_cancelled_by_take_is_not_taken) {
    timer_wheel wheel;
    batch b(20);
    for (auto& p : b.all) wheel.arm_at(p->t, 50);
    std::size_t cancelled = 0;
    const auto done = wheel.collect(50, timer_wheel::unlimited, [&](tvec::timer& t) {
        b.take()(t);
        CHECK(!t.cancel());  // too late: it was taken
        for (auto& p : b.all)
            if (p->t.pending() && cancelled < 7) cancelled += p->t.cancel();
    });
    CHECK_EQ(cancelled, 7);
    CHECK_EQ(done.fired, 13);
    CHECK(!wheel.any_pending());
}

Test(collecting, a_cancel_between_two_calls_wins) {
    timer_wheel wheel;
    batch b(20);
    for (auto& p : b.all) wheel.arm_at(p->t, 50);
    wheel.collect(50, 5, b.take());
    std::size_t cancelled = 0;
    for (auto& p : b.all) cancelled += p->t.cancel();
    CHECK_EQ(cancelled, 15);
    CHECK_EQ(wheel.collect(50, timer_wheel::unlimited, b.take()).fired, 0);
    CHECK_EQ(b.taken.size(), 5);
}

Test(collecting, a_throwing_take_leaves_the_rest_due) {
    timer_wheel wheel;
    batch b(20);
    for (auto& p : b.all) wheel.arm_at(p->t, 50);
    const auto throwing = [&](tvec::timer& t) {
        b.take()(t);
        if (b.taken.size() % 3 == 0) throw std::runtime_error("take");
    };
    for (std::size_t n = 1; n <= 6; ++n) {
        REQUIRE(collect_throws(wheel, 70, throwing));
        REQUIRE_EQ(b.taken.size(), 3 * n);
        REQUIRE_EQ(wheel.count_pending(), 20 - 3 * n);
        REQUIRE_EQ(wheel.next_wakeup(), 50);
        REQUIRE_EQ(check(wheel), "");
    }
    CHECK(!collect_throws(wheel, 70, throwing));
    CHECK_EQ(b.taken.size(), 20);
}

// As if each had been freed: nothing may read it again. Sanitizers see to that.
Test(collecting, a_taken_timer_may_be_freed_at_once) {
    timer_wheel wheel;
    std::vector<std::unique_ptr<tvec::timer>> all;
    for (int i = 0; i < 50; ++i) {
        all.push_back(std::make_unique<tvec::timer>());
        wheel.arm_at(*all.back(), 300 + static_cast<jiffies>(i) % 2);
    }
    wheel.collect(400, timer_wheel::unlimited, [&](tvec::timer& t) {
        std::erase_if(all, [&](const auto& one) { return one.get() == &t; });
        CHECK_EQ(check(wheel), "");
    });
    CHECK(all.empty());
}

Test(collecting, a_timer_armed_by_take_is_taken_again) {
    timer_wheel wheel;
    batch b(3);
    for (auto& p : b.all) wheel.arm_at(p->t, 10);
    wheel.collect(14, timer_wheel::unlimited, [&](tvec::timer& t) {
        b.take()(t);
        wheel.arm_at(t, wheel.now());  // for the next tick: it cannot starve the loop
    });
    CHECK_EQ(b.taken.size(), 3 * 5);
    CHECK_EQ(wheel.count_pending(), 3);
}

Test(collecting, callbacks_may_not_collect_or_advance) {
    timer_wheel wheel;
    const auto refused = [&] {
        const auto done = wheel.collect(100, timer_wheel::unlimited, [](tvec::timer&) {});
        CHECK(!done.caught_up && done.fired == 0);
        CHECK(!wheel.advance(100).caught_up);
    };
    probe p([&](timer_wheel&) { refused(); });
    wheel.arm_at(p.t, 10);
    wheel.advance(20);
    wheel.arm_at(p.t, 30);
    wheel.collect(40, timer_wheel::unlimited, [&](tvec::timer&) { refused(); });
    CHECK_EQ(wheel.now(), 40);
    CHECK_EQ(p.fired(), 1);
}

Test(collecting, collect_and_advance_may_alternate_within_a_tick) {
    timer_wheel wheel;
    support::row r(wheel, 30, 50);
    std::size_t taken = 0;
    const auto take = [&](tvec::timer&) { ++taken; };
    for (bool more = true; more;) {
        wheel.advance(60, 4);
        more = !wheel.collect(60, 3, take).caught_up;
    }
    CHECK_EQ(r.order.size() + taken, 30);
    CHECK_GE(taken, 9);
    CHECK_EQ(check(wheel), "");
}

Test(collecting, timers_taken_are_counted_as_fired) {
    timer_wheel wheel;
    batch b(9);
    for (auto& p : b.all) wheel.arm_at(p->t, 5);
    wheel.collect(5, 4, b.take());
    CHECK_EQ(wheel.count().fired, 4);
    wheel.collect(3, 4, b.take());
    CHECK_EQ(wheel.count().fired, 8);
    CHECK_EQ(wheel.count().clock_backward, 1);
}

Test(collecting, a_clocked_wheel_collects_by_its_own_clock) {
    using namespace std::chrono_literals;
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>> timers;
    batch b(9);
    for (auto& p : b.all) timers.arm_after(p->t, 5ms);
    tvec::manual_clock::advance(5ms - 1ns);
    CHECK_EQ(timers.collect(4, b.take()).fired, 0);
    tvec::manual_clock::advance(1ns);
    CHECK_EQ(timers.collect(4, b.take()).fired, 4);
    CHECK(timers.collect(timer_wheel::unlimited, b.take()).caught_up);
    CHECK_EQ(b.taken.size(), 9);
}
