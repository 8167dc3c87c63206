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
using tvec::schedule_error, tvec::timeout_handle, tvec::timeout_state;

TestSuite(pool_stopping, .timeout = 60);

namespace {

using pool_type = pooled::pool_type;

}  // namespace

Test(pool_stopping, stop_shows_every_pending_timeout_exactly_once) {
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
    timeout_handle blamed;
    on.pool.on_exception([&](timeout_handle h, std::exception_ptr) { blamed = h; });
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
    CHECK(blamed == all.back());
    CHECK_EQ(on.pool.count().cancelled, 1);
    CHECK_EQ(on.pool.state(all[3]), timeout_state::cancelled);
    CHECK_EQ(on.pool.state(all[4]), timeout_state::fired);
}

Test(pool_stopping, a_throwing_visitor_leaves_timeouts_for_another_stop) {
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

// --- run_early ----------------------------------------------------------------------------------

Test(pool_stopping, run_early_fires_everything_on_the_next_tick) {
    pooled on;
    int fired = 0;
    for (int i = 0; i < 100; ++i) on.pool.schedule(std::chrono::hours(i), [&] { ++fired; });
    on.pool.run_early(true);
    CHECK_EQ(on.pool.pending(), 100);
    CHECK_EQ(on.pass(1ms), 100);
    CHECK_EQ(fired, 100);
}

Test(pool_stopping, ending_early_running_restores_deadlines) {
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

Test(pool_stopping, run_early_brings_no_drained_timeout_back) {
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

Test(pool_stopping, a_pools_destructor_destroys_each_function_once) {
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

Test(pool_stopping, a_destructor_using_the_ending_pool_is_refused) {
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

Test(pool_stopping, drained_timeouts_may_be_rescheduled_or_cancelled) {
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
