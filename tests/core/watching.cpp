// advance_watched: a function around each callback, which may end the call. The rest stays due.
#include <algorithm>
#include <stdexcept>

#include "support/check.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"
#include "tvec/inspect/inspect.hpp"

using support::jiffies;
using support::probe;
using support::row;
using tvec::timer_wheel;
using due_callback = timer_wheel::due_callback;

TestSuite(watching, .timeout = 60);

namespace {

// A watch that wants so many callbacks.
struct wants {
    explicit wants(std::size_t n) : left(n) {}
    bool operator()(const due_callback& fire) {
        fire();
        return --left > 0;
    }
    std::size_t left;
};

bool advance_throws(timer_wheel& wheel, jiffies until, auto watch) {
    try {
        wheel.advance_watched(until, watch);
    } catch (const std::runtime_error&) {
        return true;
    }
    return false;
}

}  // namespace

Test(watching, the_watch_is_around_every_callback) {
    for (const jiffies start : support::starts())
        for (const jiffies delay : support::edges()) {
            timer_wheel wheel(start);
            bool inside = false;
            probe p([&](timer_wheel& w) {
                CHECK(inside);
                CHECK_EQ(w.now(), start + delay);
            });
            wheel.arm_after(p.t, delay);
            const auto done = wheel.advance_watched(start + delay + 3, [&](const auto& fire) {
                inside = true;
                fire();
                inside = false;
            });
            REQUIRE_EQ(done.fired, 1);
            REQUIRE(done.caught_up);
            REQUIRE_EQ(p.fired(), 1);
            REQUIRE_EQ(wheel.now(), start + delay + 3);
        }
}

Test(watching, a_watch_may_end_the_call_early) {
    for (const jiffies start : support::starts()) {
        timer_wheel wheel(start);
        row r(wheel, 20, start + 50);
        const auto done = wheel.advance_watched(start + 90, wants(4));
        REQUIRE_EQ(done.fired, 4);
        REQUIRE(!done.caught_up);
        REQUIRE_EQ(wheel.now(), start + 50);
        REQUIRE_EQ(wheel.behind(), 40);
        REQUIRE_EQ(wheel.next_wakeup(), start + 50);
        REQUIRE_EQ(check(wheel), "");
        REQUIRE_EQ(wheel.advance(start + 90).fired, 16);
    }
}

Test(watching, the_order_of_firing_does_not_change) {
    timer_wheel plain, watched;
    row a(plain, 20, 700), b(watched, 20, 700);
    plain.advance(700);
    while (!watched.advance_watched(700, wants(3)).caught_up) {
    }
    CHECK(a.order == b.order);
}

Test(watching, timers_left_by_a_watch_may_be_cancelled) {
    timer_wheel wheel;
    row r(wheel, 20, 50);
    probe later;
    wheel.arm_at(later.t, 51);
    wheel.advance_watched(90, wants(4));
    for (auto& p : r.all)
        if (p->fired() == 0 && r.order.size() < 10) r.order.push_back(p->t.cancel());
    later.then = [&](timer_wheel&) { CHECK_EQ(support::count_fired(r.all), 14); };
    CHECK_EQ(wheel.advance(90).fired, 11);
}

Test(watching, a_watch_may_end_at_the_last_timer) {
    timer_wheel wheel;
    row r(wheel, 20, 50);
    CHECK(wheel.advance_watched(50, wants(20)).caught_up);
    CHECK_EQ(wheel.now(), 50);
    CHECK_EQ(check(wheel), "");
}

Test(watching, a_watch_or_a_budget_ends_the_call) {
    timer_wheel wheel;
    row r(wheel, 20, 50);
    CHECK_EQ(wheel.advance_watched(50, wants(9), 3).fired, 3);
    CHECK_EQ(wheel.advance_watched(50, wants(3), 9).fired, 3);
    CHECK_EQ(wheel.advance_watched(50, wants(100), 100).fired, 14);
}

Test(watching, a_watch_sees_nothing_if_nothing_is_due) {
    timer_wheel wheel;
    probe p;
    wheel.arm_at(p.t, 5'000);
    const auto refuse = [](const due_callback&) { CHECK(false); };
    for (jiffies t = 1; t < 5'000; t += 7) REQUIRE(wheel.advance_watched(t, refuse).caught_up);
    CHECK_EQ(wheel.now(), 4'999);
}

Test(watching, exceptions_pass_through_a_watch_and_the_wheel) {
    timer_wheel wheel;
    row r(wheel, 20, 50);
    const auto throwing = [](const due_callback& fire) {
        fire();
        throw std::runtime_error("watch");
    };
    CHECK(advance_throws(wheel, 50, throwing));
    CHECK_EQ(r.order.size(), 1);
    CHECK_EQ(wheel.next_wakeup(), 50);
    CHECK_EQ(check(wheel), "");
    for (auto& p : r.all) p->then = [](timer_wheel&) { throw std::runtime_error("callback"); };
    CHECK(advance_throws(wheel, 50, [](const due_callback& fire) { fire(); }));
    CHECK_EQ(wheel.count_pending(), 18);
    CHECK_EQ(check(wheel), "");
}

Test(watching, a_watched_advance_is_refused_in_callbacks) {
    timer_wheel wheel;
    probe p([](timer_wheel& w) {
        const auto refused = w.advance_watched(100, [](const due_callback& fire) { fire(); });
        CHECK(!refused.caught_up && refused.fired == 0);
    });
    wheel.arm_at(p.t, 10);
    wheel.advance_watched(20, [&](const due_callback& fire) {
        CHECK(!wheel.advance(100).caught_up);
        fire();
    });
    CHECK_EQ(wheel.now(), 20);
    CHECK_EQ(p.fired(), 1);
}

Test(watching, a_timer_may_be_gone_after_its_callback) {
    timer_wheel wheel;
    std::unique_ptr<probe> p;
    p = std::make_unique<probe>([&](timer_wheel&) { p.reset(); });
    wheel.arm_at(p->t, 10);
    CHECK_EQ(wheel.advance_watched(20, wants(1)).fired, 1);
    CHECK(p == nullptr);
}

Test(watching, a_watch_may_be_const_or_keep_state) {
    timer_wheel wheel;
    row r(wheel, 20, 50);
    wants three(3);
    wheel.advance_watched(50, three);
    CHECK_EQ(three.left, 0);
    const auto plain = [](const due_callback& fire) { fire(); };
    CHECK(wheel.advance_watched(50, plain).caught_up);
}
