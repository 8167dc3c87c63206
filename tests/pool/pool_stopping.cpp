// A pool's end: stop hands everything over once, run_early, and destruction in either order.
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "support/check.hpp"
#include "support/pooled.hpp"

using namespace std::chrono_literals;
using support::held, support::pooled;
using tvec::schedule_error, tvec::timeout_call, tvec::timeout_handle, tvec::timeout_state;

TestSuite(pool_stopping, .timeout = 60);

namespace {

using pool_type = pooled::pool_type;

}  // namespace

Test(pool_stopping, hands_every_pending_timeout_over_exactly_once) {
    pooled on;
    std::map<timeout_handle, int> seen;
    const auto token = std::make_shared<int>();
    for (int i = 0; i < 1'000; ++i) {
        const auto h = on.pool.schedule(std::chrono::milliseconds(i + 1), [token] {}).handle;
        if (i % 3 == 0)
            on.pool.cancel(h);
        else if (i >= 100)
            seen[h] = 0;
    }
    on.pass(100ms);
    const std::size_t pending = on.pool.pending();
    CHECK_EQ(pending, seen.size());
    const std::size_t shown = on.pool.stop([&](pool_type::unprocessed& u) {
        REQUIRE(seen.contains(u.handle()));
        CHECK_EQ(++seen[u.handle()], 1);
        CHECK_EQ(on.pool.state(u.handle()), timeout_state::cancelled);
        CHECK(!on.pool.cancel(u.handle()));
        CHECK(u.deadline() > tvec::manual_clock::now());
    });
    CHECK_EQ(shown, pending);
    CHECK_EQ(held(token), 0);
    CHECK_EQ(on.pool.pending(), 0);
    CHECK_EQ(on.pass(2s), 0);
    CHECK_EQ(on.pool.stop(), 0);
}

Test(pool_stopping, later_timeouts_are_refused) {
    pooled on;
    on.pool.schedule(1ms, [] {});
    CHECK(!on.pool.stopped());
    on.pool.stop(
        [&](auto&) { CHECK_EQ(on.pool.schedule(1ms, [] {}).error, schedule_error::stopped); });
    CHECK(on.pool.stopped());
    CHECK_EQ(on.pool.schedule(1ms, [] {}).error, schedule_error::stopped);
    CHECK_EQ(on.pool.schedule_every(1ms, [] {}).error, schedule_error::stopped);
    CHECK_EQ(on.pool.schedule_at({}, [] {}).error, schedule_error::stopped);
    CHECK_EQ(on.pool.count().rejected, 4);
    CHECK_EQ(on.pass(1s), 0);
}

Test(pool_stopping, the_visitor_may_run_what_it_is_shown) {
    pooled on;
    int ran = 0;
    std::vector<timeout_handle> all;
    for (int i = 0; i < 10; ++i) all.push_back(on.pool.schedule(1h, [&] { ++ran; }).handle);
    all.push_back(on.pool.schedule(1h, [] { throw 1; }).handle);
    on.pool.stop([&](pool_type::unprocessed& u) {
        if (u.handle() == all[3]) return;
        CHECK(u.run());
        CHECK(!u.run());
        CHECK_EQ(on.pool.state(u.handle()), timeout_state::fired);
    });
    CHECK_EQ(ran, 9);
    CHECK_EQ(on.pool.count().fired, 10);
    CHECK_EQ(on.pool.count().failed, 1);
    CHECK_EQ(on.pool.count().cancelled, 1);
    CHECK_EQ(on.pool.state(all[3]), timeout_state::cancelled);
    CHECK_EQ(on.pool.state(all[4]), timeout_state::fired);
}

Test(pool_stopping, what_is_run_there_cannot_come_again) {
    pooled on;
    on.pool.schedule(1h, [&](const timeout_call& c) {
        CHECK_EQ(on.pool.state(c.self), timeout_state::running);
        CHECK(!on.pool.reschedule(c.self, 1ms));
        CHECK(!on.pool.cancel(c.self));
    });
    on.pool.schedule_every(1h, [&](const timeout_call& c) {
        CHECK(!on.pool.reschedule(c.self, 1ms));
        CHECK(!on.pool.cancel(c.self));
    });
    CHECK_EQ(on.pool.stop([](auto& u) { u.run(); }), 2);
    CHECK_EQ(on.pool.pending(), 0);
    CHECK_EQ(on.pass(10h), 0);
}

Test(pool_stopping, what_the_visitor_cancels_is_not_shown) {
    pooled on;
    std::vector<timeout_handle> all;
    for (int i = 0; i < 200; ++i) all.push_back(on.pool.schedule(1h, [] {}).handle);
    const std::size_t shown = on.pool.stop([&](auto& u) {
        for (const timeout_handle h : all) CHECK(!(h == u.handle() && on.pool.cancel(h)));
        for (int i = 0; i < 100; ++i) on.pool.cancel(all[static_cast<std::size_t>(i)]);
    });
    CHECK_LE(shown, 101);
    CHECK_EQ(on.pool.count().cancelled, 200);
}

Test(pool_stopping, a_visitor_that_throws_leaves_the_rest_for_the_next_stop) {
    pooled on;
    const auto token = std::make_shared<int>();
    for (int i = 0; i < 10; ++i) on.pool.schedule(1h, [token] {});
    int shown = 0;
    bool thrown = false;
    try {
        on.pool.stop([&](auto&) {
            if (++shown == 4) throw std::runtime_error("visitor");
        });
    } catch (const std::runtime_error&) {
        thrown = true;
    }
    CHECK(thrown);
    CHECK_EQ(on.pool.pending(), 6);
    CHECK_EQ(held(token), 6);
    CHECK(on.pool.stopped());
    CHECK_EQ(on.pool.stop(), 6);
    CHECK_EQ(on.pool.count().cancelled, 10);
}

Test(pool_stopping, from_inside_a_timeout_the_others_are_handed_over) {
    pooled on;
    std::size_t handed = 0;
    for (int i = 0; i < 5; ++i) on.pool.schedule(1ms, [&] { handed += on.pool.stop(); });
    CHECK_EQ(on.pass(1ms), 1);
    CHECK_EQ(handed, 4);
    CHECK_EQ(on.pool.pending(), 0);
}

Test(pool_stopping, from_inside_a_periodic_timeout_that_one_ends) {
    pooled on;
    const auto token = std::make_shared<int>();
    const auto h =
        on.pool
            .schedule_every(1ms,
                            [&, token](const timeout_call& c) {
                                CHECK_EQ(
                                    on.pool.stop([&](auto& u) { CHECK(u.handle() != c.self); }), 1);
                                CHECK_EQ(held(token), 1);
                                CHECK(!on.pool.reschedule(c.self, 1ms));
                            })
            .handle;
    on.pool.schedule(1h, [] {});
    CHECK_EQ(on.pass(1ms), 1);
    CHECK_EQ(on.pool.state(h), timeout_state::cancelled);
    CHECK_EQ(on.pass(1s), 0);
    CHECK_EQ(held(token), 0);
}

Test(pool_stopping, memory_may_be_given_back_while_it_goes_on) {
    pooled on;
    for (int i = 0; i < 300; ++i) on.pool.schedule(1h, [] {});
    CHECK_EQ(on.pool.stop([&](auto& u) {
        on.pool.trim();
        u.run();
    }),
             300);
    on.pool.trim();
    CHECK_EQ(on.pool.capacity(), 0);
}

// --- run_early ----------------------------------------------------------------------------------

Test(pool_stopping, early_everything_pending_fires_on_the_next_tick) {
    pooled on;
    int fired = 0;
    for (int i = 0; i < 100; ++i) on.pool.schedule(std::chrono::hours(i), [&] { ++fired; });
    on.pool.run_early(true);
    CHECK_EQ(on.pool.pending(), 100);
    CHECK_EQ(on.pass(1ms), 100);
    CHECK_EQ(fired, 100);
}

Test(pool_stopping, early_so_does_everything_new) {
    pooled on;
    on.pool.run_early(true);
    int fired = 0;
    on.pool.schedule(1h, [&](const timeout_call& c) {
        ++fired;
        on.pool.schedule(1h, [&] { ++fired; });
        if (fired == 1) CHECK(on.pool.reschedule(c.self, 1h));
    });
    CHECK_EQ(on.pass(1ms), 1);
    CHECK_EQ(on.pass(1ms), 2);
    CHECK_EQ(on.pass(1ms), 1);
    CHECK_EQ(on.pool.pending(), 0);
}

Test(pool_stopping, back_to_normal_what_has_not_fired_keeps_its_deadline) {
    pooled on;
    const auto old = on.pool.schedule(10ms, [] {}).handle;
    on.pool.run_early(true);
    const auto newer = on.pool.schedule(20ms, [] {}).handle;
    CHECK_EQ(*on.pool.remaining(newer) / 1ms, 20);
    on.pool.run_early(false);
    CHECK_EQ(on.pass(9ms), 0);
    CHECK_EQ(*on.pool.remaining(old) / 1ms, 1);
    CHECK_EQ(on.pass(1ms), 1);
    CHECK_EQ(on.pass(9ms), 0);
    CHECK_EQ(on.pass(1ms), 1);
    const auto later = on.pool.schedule(5ms, [] {}).handle;
    CHECK_EQ(on.pass(4ms), 0);
    CHECK_EQ(on.pool.state(later), timeout_state::pending);
    CHECK_EQ(on.pass(1ms), 1);
}

Test(pool_stopping, early_a_periodic_timeout_comes_forward_once_and_keeps_its_phase) {
    pooled on;
    std::vector<tvec::jiffies> ticks;
    const tvec::jiffies start = on.timers.wheel().now();
    on.pool.schedule_every(10ms, [&](const timeout_call& c) {
        ticks.push_back(on.timers.wheel().now() - start);
        CHECK_EQ(c.missed, 0);
    });
    on.pass(3ms);
    on.pool.run_early(true);
    for (int i = 0; i < 27; ++i) on.pass(1ms);
    CHECK(ticks == (std::vector<tvec::jiffies>{4, 20, 30}));
}

Test(pool_stopping, early_a_budget_still_holds_and_cancelling_still_works) {
    pooled on;
    std::vector<timeout_handle> all;
    for (int i = 0; i < 10; ++i) all.push_back(on.pool.schedule(1h, [] {}).handle);
    on.pool.run_early(true);
    CHECK(on.pool.cancel(all[0]));
    tvec::manual_clock::advance(1ms);
    CHECK_EQ(on.timers.run(4).fired, 4);
    on.pool.run_early(false);
    CHECK_EQ(on.timers.run().fired, 0);
    CHECK_EQ(on.pool.pending(), 5);
    CHECK_EQ(on.pass(1h), 5);
}

Test(pool_stopping, what_is_due_stays_due_whatever_a_function_says_of_early) {
    for (const bool early : {false, true}) {
        pooled on;
        for (int i = 0; i < 10; ++i) on.pool.schedule(5ms, [&] { on.pool.run_early(early); });
        CHECK_EQ(on.pass(5ms), 10);
        CHECK_EQ(on.pool.count().late, 0);
    }
}

Test(pool_stopping, what_a_budget_has_left_over_stays_due_whatever_is_said_of_early) {
    for (const bool early : {false, true}) {
        pooled on;
        for (int i = 0; i < 10; ++i) on.pool.schedule(5ms, [] {});
        tvec::manual_clock::advance(5ms);
        CHECK_EQ(on.timers.run(1).fired, 1);
        on.pool.run_early(early);
        CHECK(on.timers.next_wakeup() <= tvec::manual_clock::now());
        CHECK_EQ(on.timers.run().fired, 9);
    }
}

Test(pool_stopping, a_function_that_speaks_of_early_on_every_tick_starves_nobody) {
    for (const bool early : {false, true})
        for (const std::size_t before : {0u, 3u, 8u}) {
            pooled on;
            const auto others = [&](std::size_t n) {
                while (n-- != 0) on.pool.schedule(10ms, [] {});
            };
            others(before);
            const auto beat = on.pool.schedule_every(1ms, [&] { on.pool.run_early(early); }).handle;
            others(8 - before);
            for (int i = 0; i < 10; ++i) on.pass(1ms);
            CHECK_EQ(on.pool.pending(), 1);
            CHECK(on.pool.cancel(beat));
        }
}

Test(pool_stopping, back_to_normal_only_what_is_due_by_its_deadline_still_fires) {
    pooled on;
    on.pool.schedule(1ms, [] {});
    for (int i = 0; i < 5; ++i) on.pool.schedule(3ms, [] {});
    on.pool.schedule(1h, [] {});
    on.pool.run_early(true);
    tvec::manual_clock::advance(5ms);
    CHECK_EQ(on.timers.run(0).fired, 0);  // stops on the tick to which all were brought forward
    on.pool.run_early(false);
    CHECK_EQ(on.timers.run().fired, 6);
    CHECK_EQ(on.pool.pending(), 1);
    CHECK_EQ(on.pass(1h), 1);
}

Test(pool_stopping, what_the_wheels_drain_has_taken_out_is_not_brought_back_by_early) {
    for (const bool early : {false, true}) {
        pooled on;
        on.pool.schedule(1s, [] {});
        on.timers.wheel().drain([](tvec::timer&) {});
        on.pool.run_early(early);
        CHECK_EQ(on.pass(1s), 0);
        CHECK_EQ(on.pool.pending(), 1);
    }
}

// --- destruction --------------------------------------------------------------------------------

Test(pool_stopping, the_end_of_a_pool_destroys_each_function_once_and_empties_the_wheel) {
    support::manual_wheel timers;
    const auto token = std::make_shared<int>();
    {
        pool_type pool(timers);
        for (int i = 0; i < 500; ++i) pool.schedule(std::chrono::seconds(i), [token] {});
        tvec::manual_clock::advance(100s);
        timers.run();
        CHECK_EQ(held(token), 399);
    }
    CHECK_EQ(held(token), 0);
    CHECK_EQ(check(timers.wheel()), "");
    tvec::manual_clock::advance(1h);
    CHECK_EQ(timers.run().fired, 0);
}

Test(pool_stopping, the_wheel_may_end_first) {
    std::optional<support::manual_wheel> timers(std::in_place);
    const auto token = std::make_shared<int>();
    {
        pool_type pool(*timers);
        std::vector<timeout_handle> all;
        for (int i = 0; i < 100; ++i) all.push_back(pool.schedule(1s, [token] {}).handle);
        pool.cancel(all[0]);
        timers.reset();
        CHECK(pool.cancel(all[1]));
        CHECK(!pool.cancel(all[0]));
        CHECK_EQ(pool.pending(), 98);
        CHECK_EQ(held(token), 98);
    }
    CHECK_EQ(held(token), 0);
}

Test(pool_stopping, a_destructor_that_uses_the_pool_while_it_ends_is_refused) {
    struct last_wish {
        pool_type* pool;
        ~last_wish() {
            CHECK(!pool->schedule(std::chrono::seconds(1), [] {}));
        }
    };
    support::manual_wheel timers;
    {
        pool_type pool(timers);
        for (int i = 0; i < 3; ++i)
            pool.schedule(1s, [wish = std::unique_ptr<last_wish>(new last_wish{&pool})] {});
        CHECK_EQ(pool.pending(), 3);
    }
    CHECK_EQ(check(timers.wheel()), "");
}

Test(pool_stopping, what_the_wheels_drain_takes_can_still_be_cancelled_or_rescheduled) {
    pooled on;
    const auto a = on.pool.schedule(1s, [] {}).handle;
    const auto b = on.pool.schedule(1s, [] {}).handle;
    CHECK_EQ(on.timers.wheel().drain([](tvec::timer&) {}), 2);
    CHECK_EQ(on.pass(1s), 0);
    CHECK_EQ(on.pool.pending(), 2);
    CHECK(on.pool.cancel(a));
    CHECK(on.pool.reschedule(b, 1s));
    CHECK_EQ(on.pass(1s), 1);
    CHECK_EQ(on.pool.pending(), 0);
}
