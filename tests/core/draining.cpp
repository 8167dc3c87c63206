// Drain hands over every pending timer exactly once and leaves the wheel empty.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "support/check.hpp"
#include "support/child.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"
#include "tvec/inspect/inspect.hpp"

using support::jiffies;
using support::probe;
using tvec::timer_wheel;

TestSuite(draining, .timeout = 60);

namespace {

struct full {
    explicit full(timer_wheel& wheel) : all(support::probes(200)) {
        for (std::size_t i = 0; i < all.size(); ++i)
            wheel.arm_after(all[i]->t, (jiffies{1} << i % 40) + i);
    }
    std::vector<std::unique_ptr<probe>> all;
};

// Drains with a visitor that throws at the first timer it is shown.
bool drain_throws(timer_wheel& wheel) {
    try {
        wheel.drain([](tvec::timer&) { throw std::runtime_error("visitor"); });
    } catch (const std::runtime_error&) {
        return true;
    }
    return false;
}

}  // namespace

Test(draining, drain_shows_each_pending_timer_exactly_once) {
    for (const jiffies start : support::starts()) {
        timer_wheel wheel(start);
        full f(wheel);
        for (std::size_t i = 0; i < 200; i += 4) f.all[i]->t.cancel();
        std::vector<tvec::timer*> shown;
        const std::size_t n = wheel.drain([&](tvec::timer& t) {
            CHECK(!t.pending());
            shown.push_back(&t);
        });
        CHECK_EQ(n, 150);
        CHECK_EQ(shown.size(), 150);
        std::sort(shown.begin(), shown.end());
        CHECK(std::unique(shown.begin(), shown.end()) == shown.end());
        CHECK(!wheel.next_wakeup());
        CHECK_EQ(wheel.count_pending(), 0);
        CHECK_EQ(check(wheel), "");
        wheel.advance(tvec::never);
        CHECK_EQ(support::count_fired(f.all), 0);
    }
}

Test(draining, an_empty_wheel_shows_nothing) {
    timer_wheel wheel;
    CHECK_EQ(wheel.drain([](tvec::timer&) {}), 0);
}

Test(draining, a_drains_visitor_may_arm_timers_again) {
    timer_wheel wheel, other(50);
    full f(wheel);
    std::size_t kept = 0;
    wheel.drain([&](tvec::timer& t) { (++kept % 2 ? wheel : other).arm_after(t, 10); });
    CHECK_EQ(kept, 200);
    CHECK_EQ(wheel.advance(10).fired, 100);
    CHECK_EQ(other.advance(60).fired, 100);
}

Test(draining, drain_skips_timers_that_its_visitor_changed) {
    timer_wheel wheel;
    probe a, b, c;
    auto d = std::make_unique<probe>();
    for (tvec::timer* t : {&a.t, &b.t, &c.t, &d->t}) wheel.arm_after(*t, 100);
    std::size_t shown = 0;
    wheel.drain([&](tvec::timer& first) {
        if (shown++ != 0) return;
        for (probe* p : {&a, &b, &c})
            if (&p->t != &first) p->t.cancel();
        if (&d->t != &first) d.reset();
    });
    CHECK_EQ(shown, 1);
    CHECK_EQ(wheel.count_pending(), 0);
}

Test(draining, a_sibling_that_the_visitor_arms_stays_armed) {
    timer_wheel wheel;
    probe a, b;
    wheel.arm_after(a.t, 100);
    wheel.arm_after(b.t, 100);
    const std::size_t shown =
        wheel.drain([&](tvec::timer& t) { wheel.arm_after(&t == &a.t ? b.t : a.t, 200); });
    CHECK_EQ(shown, 1);
    CHECK_EQ(wheel.count_pending(), 1);
    CHECK_EQ(wheel.advance(200).fired, 1);
}

Test(draining, a_visitor_that_throws_leaves_the_rest_armed) {
    timer_wheel wheel;
    full f(wheel);
    std::size_t shown = 0;
    try {
        wheel.drain([&](tvec::timer&) {
            if (++shown == 50) throw std::runtime_error("visitor");
        });
        CHECK(false);
    } catch (const std::runtime_error&) {
    }
    CHECK_EQ(wheel.count_pending(), 150);
    CHECK_EQ(check(wheel), "");
    wheel.advance(jiffies{1} << 41);
    CHECK_EQ(support::count_fired(f.all), 150);
}

Test(draining, a_visitor_that_throws_has_nobody_wake_earlier) {
    timer_wheel wheel;
    probe a, b;
    wheel.arm_after(a.t, 1'000'000);
    wheel.arm_after(b.t, 1'000'000);
    const auto before = wheel.next_wakeup();
    CHECK(drain_throws(wheel));
    CHECK_EQ(wheel.next_wakeup(), before);
}

Test(draining, a_throwing_visitor_leaves_leftover_timers_due) {
    timer_wheel wheel;
    auto all = support::probes(20);
    for (auto& p : all) wheel.arm_after(p->t, 10);
    wheel.advance(50, 4);
    CHECK(drain_throws(wheel));
    CHECK_EQ(wheel.count_pending(), 15);
    CHECK_EQ(wheel.next_wakeup(), jiffies{10});
    CHECK_EQ(check(wheel), "");
    CHECK_EQ(wheel.advance(50).fired, 15);
    for (const auto& p : all) CHECK(p->fired() == 0 || p->fired_only_at(10));
}

Test(draining, a_throwing_visitor_leaves_a_callbacks_siblings_due) {
    timer_wheel wheel;
    auto all = support::probes(20);
    bool first = true;
    for (auto& p : all) {
        wheel.arm_after(p->t, 10);
        p->then = [&](timer_wheel& w) {
            if (std::exchange(first, false)) CHECK(drain_throws(w));
        };
    }
    CHECK_EQ(wheel.advance(50).fired, 19);  // all but the one that was shown
    for (const auto& p : all) CHECK(p->fired() == 0 || p->fired_only_at(10));
    CHECK_EQ(check(wheel), "");
}

Test(draining, drain_takes_unfinished_work_as_well) {
    timer_wheel wheel;
    auto all = support::probes(10);
    for (auto& p : all) wheel.arm_after(p->t, 600);
    wheel.advance(900, 13);
    const auto fired = support::count_fired(all);
    CHECK_EQ(wheel.drain([](tvec::timer&) {}), 10 - fired);
    CHECK(!wheel.next_wakeup());
    CHECK_EQ(wheel.behind(), 0);
    CHECK_EQ(wheel.advance(700).fired, 0);
    CHECK_EQ(check(wheel), "");
}

Test(draining, drain_takes_timers_halfway_out_of_overflow) {
    timer_wheel wheel;
    auto all = support::probes(100);
    for (auto& p : all) wheel.arm_after(p->t, (jiffies{1} << 34) + 9);
    CHECK(!wheel.advance((jiffies{1} << 34) + 8, 10).caught_up);
    CHECK_EQ(wheel.count().moved, 10);
    CHECK_EQ(wheel.drain([](tvec::timer&) {}), 100);
    CHECK_EQ(wheel.behind(), 0);
    CHECK_EQ(check(wheel), "");
    CHECK(wheel.advance(jiffies{1} << 35).caught_up);
    CHECK_EQ(support::count_fired(all), 0);
}

// Otherwise a visitor that threw afterwards would leave the rest due in the past.
Test(draining, the_visitor_may_not_advance_the_wheel) {
    timer_wheel wheel;
    probe a, b;
    wheel.arm_after(a.t, 10);
    wheel.arm_after(b.t, 20);
    try {
        wheel.drain([&](tvec::timer&) {
            const auto refused = wheel.advance(100);
            CHECK(!refused.caught_up && refused.fired == 0);
            throw std::runtime_error("visitor");
        });
    } catch (const std::runtime_error&) {
    }
    CHECK_EQ(wheel.now(), 0);
    CHECK_EQ(check(wheel), "");
    CHECK_EQ(wheel.advance(100).fired, 1);
}

Test(draining, a_visitor_that_destroys_the_wheel_is_fatal) {
    const std::string said = support::last_words([] {
        auto wheel = std::make_unique<timer_wheel>();
        probe p;
        wheel->arm_after(p.t, 10);
        wheel->drain([&](tvec::timer&) { wheel.reset(); });
    });
    CHECK(said.starts_with("tvec: a timer_wheel is destroyed by"));
}

Test(draining, a_nested_drain_finds_nothing) {
    timer_wheel wheel;
    full f(wheel);
    const std::size_t shown = wheel.drain([&](tvec::timer&) {
        CHECK_EQ(wheel.drain([](tvec::timer&) {}), 0);
        CHECK_EQ(check(wheel), "");
    });
    CHECK_EQ(shown, 200);
}

Test(draining, drain_in_a_callback_takes_due_siblings) {
    timer_wheel wheel;
    auto all = support::probes(10);
    for (auto& p : all) {
        wheel.arm_after(p->t, 600);
        p->then = [](timer_wheel& w) { CHECK_EQ(w.drain([](tvec::timer&) {}), 9); };
    }
    wheel.advance(1'000);
    CHECK_EQ(support::count_fired(all), 1);
    CHECK(!wheel.next_wakeup());
    wheel.arm_after(all[0]->t, 5);
    CHECK_EQ(wheel.next_wakeup(), jiffies{1'005});
}
