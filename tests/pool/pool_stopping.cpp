// Timeouts that end before their time: taken back, handed over by stop, brought forward by
// run_early, and destroyed with the pool.
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>

#include "support/check.hpp"
#include "support/pooled.hpp"

using namespace std::chrono_literals;
using support::held, support::pooled;
using tvec::schedule_error, tvec::timeout_handle, tvec::timeout_state;

TestSuite(pool_stopping, .timeout = 60);

Test(pool_stopping, take_returns_the_function_uncalled) {
    pooled on;
    int done = 0;
    auto work = [&done, what = std::make_unique<int>(5)] { done += *what; };
    const auto h = on.pool.schedule(1ms, std::move(work)).handle;
    CHECK(!on.pool.take<void (*)()>(h));  // it is of another type
    CHECK_EQ(on.pool.state(h), timeout_state::pending);
    const std::optional<decltype(work)> taken = on.pool.take<decltype(work)>(h);
    REQUIRE(taken.has_value());
    CHECK_EQ(on.pool.state(h), timeout_state::cancelled);
    CHECK_EQ(on.pass(10ms), 0);
    CHECK_EQ(done, 0);
    (*taken)();
    CHECK_EQ(done, 5);
    CHECK(!on.pool.take<decltype(work)>(h));
}

Test(pool_stopping, stop_shows_every_pending_timeout_exactly_once) {
    pooled on;
    std::set<timeout_handle> pending;
    const auto token = std::make_shared<int>();
    for (int i = 0; i < 300; ++i)
        pending.insert(on.pool.schedule((i + 1) * 1ms, [token] {}).handle);
    const std::size_t shown = on.pool.stop([&](auto& u) {
        CHECK_EQ(pending.erase(u.handle()), 1);
        CHECK(!on.pool.cancel(u.handle()));
        CHECK(u.deadline() > tvec::manual_clock::now());
        CHECK_EQ(on.pool.schedule(1ms, [] {}).error, schedule_error::stopped);
    });
    CHECK_EQ(shown, 300);
    CHECK(pending.empty());
    CHECK_EQ(held(token), 0);
    CHECK_EQ(on.pool.pending(), 0);
    CHECK(on.pool.stopped());
    CHECK_EQ(on.pool.schedule(1ms, [] {}).error, schedule_error::stopped);
}

Test(pool_stopping, the_visitor_may_run_what_it_is_shown) {
    pooled on;
    int ran = 0;
    timeout_handle blamed;
    on.pool.on_exception([&](timeout_handle h, std::exception_ptr) { blamed = h; });
    const auto left = on.pool.schedule(1h, [&] { ++ran; }).handle;
    const auto run = on.pool.schedule(1h, [&] { ++ran; }).handle;
    const auto throws = on.pool.schedule(1h, [] { throw 1; }).handle;
    on.pool.stop([&](auto& u) {
        if (u.handle() == left) return;
        CHECK(u.run());
        CHECK(!u.run());
    });
    CHECK_EQ(ran, 1);
    CHECK(blamed == throws);
    CHECK_EQ(on.pool.state(left), timeout_state::cancelled);
    CHECK_EQ(on.pool.state(run), timeout_state::fired);
}

Test(pool_stopping, a_throwing_visitor_leaves_timeouts_for_another_stop) {
    pooled on;
    for (int i = 0; i < 10; ++i) on.pool.schedule(1h, [] {});
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
    CHECK_EQ(on.pool.stop(), 6);
}

Test(pool_stopping, run_early_fires_everything_on_the_next_tick) {
    pooled on;
    for (int i = 0; i < 100; ++i) on.pool.schedule(std::chrono::hours(i), [] {});
    on.pool.run_early(true);
    CHECK_EQ(on.pass(1ms), 100);
    const auto h = on.pool.schedule(20ms, [] {}).handle;
    CHECK(on.pool.remaining(h) == 20ms);
    on.pool.run_early(false);  // deadlines count again
    CHECK_EQ(on.pass(19ms), 0);
    CHECK_EQ(on.pass(1ms), 1);
}

Test(pool_stopping, a_pools_destructor_destroys_each_function_once) {
    struct last_wish {
        pooled::pool_type* pool;
        ~last_wish() {
            CHECK(!pool->schedule(1s, [] {}));
        }
    };
    support::manual_wheel timers;
    const auto token = std::make_shared<int>();
    {
        pooled::pool_type pool(timers);
        for (int i = 0; i < 500; ++i) pool.schedule(i * 1s, [token] {});
        pool.schedule(1h, [wish = std::unique_ptr<last_wish>(new last_wish{&pool})] {});
        tvec::manual_clock::advance(100s);
        timers.run();
        CHECK_EQ(held(token), 399);
    }
    CHECK_EQ(held(token), 0);
    CHECK_EQ(check(timers.wheel()), "");
}

Test(pool_stopping, the_wheel_may_end_first) {
    std::optional<support::manual_wheel> timers(std::in_place);
    const auto token = std::make_shared<int>();
    const auto work = [token] {};
    {
        pooled::pool_type pool(*timers);
        const auto a = pool.schedule(1s, work).handle, b = pool.schedule(1s, work).handle;
        pool.schedule(1s, work);
        timers.reset();
        CHECK(pool.cancel(a));
        CHECK(pool.take<std::remove_const_t<decltype(work)>>(b).has_value());
        CHECK_EQ(pool.pending(), 1);
    }
    CHECK_EQ(held(token), 1);
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
}
