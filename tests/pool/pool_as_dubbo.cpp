// The expectations of the tests of Dubbo's HashedWheelTimer and its re-submitting tasks, applied to
// a pool.
#include <functional>
#include <stdexcept>

#include "support/check.hpp"
#include "support/pooled.hpp"

using namespace std::chrono_literals;
using support::pooled;
using tvec::schedule_error, tvec::timeout_call, tvec::timeout_state;

TestSuite(pool_as_dubbo, .timeout = 60);

// T3. Its constructor checks a thread factory, a tick and a number of slots. Here the type of the
// clock has the tick, and there is nothing else to get wrong.
Test(pool_as_dubbo, a_pool_needs_a_wheel_and_nothing_else) {
    static_assert(!std::is_default_constructible_v<pooled::pool_type>);
    static_assert(!std::is_copy_constructible_v<pooled::pool_type>);
    static_assert(std::is_nothrow_constructible_v<pooled::pool_type, support::manual_wheel&>);
    support::manual_wheel timers;
    tvec::timeout_pool deduced(timers, 10);
    static_assert(std::is_same_v<decltype(deduced), pooled::pool_type>);
    CHECK_EQ(deduced.max_pending(), 10);
}

Test(pool_as_dubbo, a_null_task_is_refused) {  // T2
    pooled on;
    CHECK_EQ(on.pool.schedule(1s, static_cast<void (*)()>(nullptr)).error,
             schedule_error::no_function);
    CHECK_EQ(on.pool.pending(), 0);
}

Test(pool_as_dubbo, a_delay_of_minus_one_is_as_good_as_none) {  // T66
    pooled on;
    int runs = 0;
    CHECK(on.pool.schedule(-1ms, [&] { ++runs; }));
    on.pass(1ms);
    CHECK_EQ(runs, 1);
}

Test(pool_as_dubbo, the_number_of_pending_tasks_is_bounded_and_right) {  // T103, T105
    pooled on(8);
    for (int i = 0; i < 8; ++i) {
        CHECK_EQ(on.pool.pending(), i);
        CHECK(on.pool.schedule(std::chrono::milliseconds(1 + i), [] {}));
    }
    CHECK_EQ(on.pool.schedule(1ms, [] {}).error, schedule_error::too_many);
    for (int i = 7; i >= 0; --i) {
        on.pass(1ms);
        CHECK_EQ(on.pool.pending(), i);
    }
}

Test(pool_as_dubbo, stopping_returns_the_unprocessed_and_is_visible) {  // T100
    pooled on;
    CHECK(!on.pool.stopped());
    for (int i = 0; i < 3; ++i) on.pool.schedule(5s, [] {});
    on.pass(10ms);
    CHECK_EQ(on.pool.stop(), 3);
    CHECK(on.pool.stopped());
    CHECK(!on.pool.schedule(5s, [] {}));
}

Test(pool_as_dubbo, a_task_may_stop_the_timer_where_dubbo_throws) {  // T100
    pooled on;
    on.pool.schedule(5s, [] {});
    std::size_t unprocessed = 0;
    const auto h = on.pool.schedule(1ms, [&] { unprocessed = on.pool.stop(); }).handle;
    on.pass(1ms);
    CHECK_EQ(unprocessed, 1);
    CHECK_EQ(on.pool.state(h), timeout_state::fired);
}

Test(pool_as_dubbo, cancelling_works_before_and_says_false_after) {  // T7
    pooled on;
    const auto h = on.pool.schedule(10ms, [] {}).handle;
    CHECK(on.pool.cancel(h));
    CHECK_EQ(on.pool.state(h), timeout_state::cancelled);
    on.pass(10ms);
    CHECK_EQ(on.pool.state(h), timeout_state::cancelled);
    CHECK(!on.pool.cancel(h));
}

Test(pool_as_dubbo, a_task_that_throws_has_expired_and_the_timer_goes_on) {  // T121, T123
    pooled on;
    const auto h = on.pool.schedule(10ms, [] { throw std::runtime_error("task"); }).handle;
    int runs = 0;
    on.pool.schedule(10ms, [&] { ++runs; });
    on.pass(10ms);
    CHECK_EQ(on.pool.state(h), timeout_state::fired);
    CHECK_EQ(runs, 1);
}

// Heartbeats, failure retries: each run submits the task again, until the timer stops or the task
// is cancelled. Three ways to write it.
Test(pool_as_dubbo, a_task_submits_itself_again) {
    pooled on;
    int runs = 0;
    std::function<void()> task = [&] {
        ++runs;
        if (!on.pool.stopped()) on.pool.schedule(60ms, std::ref(task));
    };
    on.pool.schedule(60ms, std::ref(task));
    for (int i = 0; i < 600; ++i) on.pass(1ms);
    CHECK_EQ(runs, 10);
    CHECK_EQ(on.pool.stop(), 1);
}

Test(pool_as_dubbo, or_reschedules_itself_and_stays_the_same_timeout) {
    pooled on;
    int runs = 0;
    const auto h =
        on.pool
            .schedule(60ms,
                      [&](const timeout_call& c) {
                          on.pool.reschedule(c.self, 60ms * ++runs);  // a retry that backs off
                      })
            .handle;
    for (int i = 0; i < 600; ++i) on.pass(1ms);
    CHECK_EQ(runs, 4);
    CHECK(on.pool.cancel(h));  // where a task that submits itself anew has a new Timeout each time
    on.pass(1h);
    CHECK_EQ(runs, 4);
}

Test(pool_as_dubbo, or_is_periodic_and_does_not_drift) {
    pooled on;
    int runs = 0;
    const auto h = on.pool.schedule_every(60ms, [&] { ++runs; }).handle;
    for (int i = 0; i < 200; ++i) on.pass(3ms + (i % 2) * 1ms);
    CHECK_EQ(runs, 700 / 60);
    CHECK(on.pool.cancel(h));
}
