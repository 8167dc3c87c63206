// The expectations of the tests of Kafka's SystemTimer, TimingWheel and TimerTaskList, applied to a
// pool.
#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "support/check.hpp"
#include "support/pooled.hpp"

using namespace std::chrono_literals;
using support::pooled;
using tvec::timeout_handle, tvec::timeout_state;

TestSuite(pool_as_kafka, .timeout = 60);

// T67. Kafka hands an expired task to its executor inside `add`. Nothing here is called but by run.
Test(pool_as_kafka, what_is_expired_when_it_is_added_runs_at_the_next_turn) {
    pooled on;
    int runs = 0;
    for (int delay = -5; delay <= 0; ++delay)
        on.pool.schedule(std::chrono::milliseconds(delay), [&] { ++runs; });
    CHECK_EQ(runs, 0);
    CHECK_EQ(on.pool.pending(), 6);
    on.pass(1ms);
    CHECK_EQ(runs, 6);
}

Test(pool_as_kafka, tasks_run_in_the_order_of_their_delays_whatever_the_order_of_adding) {
    pooled on;
    std::vector<int> delays, ran;
    for (int delay = 0; delay < 5; ++delay) delays.insert(delays.end(), 10, delay);
    for (int delay = 10; delay < 200; delay += 10) delays.insert(delays.end(), 10, delay);
    for (int delay = 2'000; delay < 3'000; delay += 100) delays.push_back(delay);
    std::shuffle(delays.begin(), delays.end(), std::mt19937(7));
    for (const int delay : delays)
        on.pool.schedule(std::chrono::milliseconds(std::max(delay, 1)),
                         [&ran, delay] { ran.push_back(std::max(delay, 1)); });
    while (on.pool.pending() != 0) on.pass(200ms);  // advanceClock
    CHECK_EQ(ran.size(), delays.size());
    CHECK(std::is_sorted(ran.begin(), ran.end()));
}

Test(pool_as_kafka, advancing_says_how_many_have_run) {
    pooled on;
    on.pool.schedule(5ms, [] {});
    CHECK_EQ(on.pass(4ms), 0);  // advanceClock returns false
    CHECK_EQ(on.pass(1ms), 1);
}

Test(pool_as_kafka, waiting_for_the_next_expiry_is_next_wakeup) {  // its DelayQueue.poll(timeout)
    pooled on;
    on.pool.schedule(40ms, [] {});
    const auto next = on.timers.next_wakeup();
    REQUIRE(next.has_value());
    CHECK(*next <= tvec::manual_clock::now() + 40ms);
    on.pool.schedule(3ms, [] {});
    CHECK_EQ((*on.timers.next_wakeup() - tvec::manual_clock::now()) / 1ms, 3);
}

Test(pool_as_kafka, the_size_is_what_was_added_less_what_was_cancelled_or_has_run) {  // T103
    pooled on;
    std::vector<timeout_handle> all;
    for (int i = 0; i < 100; ++i) {
        all.push_back(on.pool.schedule(std::chrono::milliseconds(100 + i), [] {}).handle);
        CHECK_EQ(on.pool.pending(), i + 1);
    }
    for (std::size_t i = 0; i < 100; i += 2) on.pool.cancel(all[i]);
    CHECK_EQ(on.pool.pending(), 50);
    on.pass(149ms);
    CHECK_EQ(on.pool.pending(), 25);
    on.pass(1s);
    CHECK_EQ(on.pool.pending(), 0);
}

Test(pool_as_kafka, moving_a_task_to_another_time_keeps_the_count) {  // T4, T106
    pooled on;
    std::vector<timeout_handle> all;
    int runs = 0;
    for (int i = 0; i < 10; ++i) all.push_back(on.pool.schedule(10ms, [&] { ++runs; }).handle);
    for (int round = 0; round < 5; ++round)
        for (std::size_t i = 0; i < all.size(); ++i) {
            on.pool.reschedule(all[i], std::chrono::milliseconds(20 + 40 * round));
            REQUIRE_EQ(on.pool.pending(), 10);
        }
    on.pass(179ms);
    CHECK_EQ(runs, 0);
    on.pass(1ms);
    CHECK_EQ(runs, 10);
}

// Kafka's wheels overflow into coarser ones, level by level, and tasks are inserted again on the
// way down: one task per power of two, added at any phase.
Test(pool_as_kafka, tasks_sink_through_all_levels_and_run_on_their_tick) {
    for (const auto phase : {0ms, 1ms, 255ms, 16'383ms}) {
        pooled on;
        on.pass(phase);
        std::size_t late = 0;
        for (int power = 0; power < 36; ++power) {
            const auto due = tvec::manual_clock::now() + 1ms * (std::int64_t{1} << power);
            on.pool.schedule_at(due, [&late, due] { late += tvec::manual_clock::now() != due; });
        }
        while (on.pool.pending() != 0) {
            const auto next = on.timers.next_wakeup();
            REQUIRE(next.has_value());
            on.pass(*next - tvec::manual_clock::now());
        }
        CHECK_EQ(late, 0);
    }
}

Test(pool_as_kafka, cancelling_while_it_sinks_is_safe) {  // its race of cancel and re-insertion
    pooled on;
    std::vector<timeout_handle> all;
    int runs = 0;
    for (int i = 0; i < 500; ++i)
        all.push_back(on.pool.schedule(std::chrono::seconds(20 + i % 3), [&] { ++runs; }).handle);
    std::size_t cancelled = 0;
    for (std::size_t i = 0; i < 400; ++i) {
        on.pass(40ms);
        cancelled += on.pool.cancel(all[i]);
    }
    on.pass(10s);
    CHECK_EQ(cancelled, 400);
    CHECK_EQ(runs, 100);
}

Test(pool_as_kafka, closing_drops_the_rest) {
    support::manual_wheel timers;
    const auto token = std::make_shared<int>();
    {
        pooled::pool_type pool(timers);
        for (int i = 0; i < 10; ++i) pool.schedule(1h, [token] {});
    }
    CHECK_EQ(support::held(token), 0);
    CHECK(!timers.wheel().next_expiry());
}
