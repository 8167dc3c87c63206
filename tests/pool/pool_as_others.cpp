// What the tests of Netty's, Dubbo's and Kafka's timers expect, applied to a pool, where no other
// test of pools says it.
#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "support/check.hpp"
#include "support/pooled.hpp"

using namespace std::chrono_literals;
using support::pooled;
using tvec::schedule_error, tvec::timeout_call, tvec::timeout_handle, tvec::timeout_state;

TestSuite(pool_as_others, .timeout = 60);

Test(pool_as_others, a_null_task_is_refused) {
    pooled on;
    CHECK_EQ(on.pool.schedule(1s, static_cast<void (*)()>(nullptr)).error,
             schedule_error::no_function);
    CHECK_EQ(on.pool.pending(), 0);
}

Test(pool_as_others, a_task_may_stop_the_timer_where_dubbo_throws) {
    pooled on;
    on.pool.schedule(5s, [] {});
    std::size_t unprocessed = 0;
    const auto h = on.pool.schedule(1ms, [&] { unprocessed = on.pool.stop(); }).handle;
    on.pass(1ms);
    CHECK_EQ(unprocessed, 1);
    CHECK_EQ(on.pool.state(h), timeout_state::fired);
}

// Heartbeats, failure retries: each run submits the task again, until the timer stops or the task
// is cancelled. Three ways to write it.
Test(pool_as_others, a_task_submits_itself_again) {
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

Test(pool_as_others, tasks_run_in_the_order_of_their_delays_whatever_the_order_of_adding) {
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

Test(pool_as_others, advancing_says_how_many_have_run) {
    pooled on;
    on.pool.schedule(5ms, [] {});
    CHECK_EQ(on.pass(4ms), 0);  // advanceClock returns false
    CHECK_EQ(on.pass(1ms), 1);
}

Test(pool_as_others, moving_a_task_to_another_time_keeps_the_count) {
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
Test(pool_as_others, tasks_sink_through_all_levels_and_run_on_their_tick) {
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

Test(pool_as_others, a_cancelled_timeout_is_not_among_the_unprocessed) {
    pooled on;
    const auto gone = on.pool.schedule(5s, [] {}).handle;
    const auto left = on.pool.schedule(5s, [] {}).handle;
    on.pool.cancel(gone);
    CHECK_EQ(on.pool.stop([&](auto& u) { CHECK(u.handle() == left); }), 1);
}

Test(pool_as_others, a_hundred_thousand_timeouts_are_on_time) {
    pooled on;
    std::size_t on_time = 0;
    for (int i = 0; i < 100'000; ++i) {
        const auto now = tvec::manual_clock::now();
        on.pool.schedule(125ms, [&on_time, now] {
            const auto took = tvec::manual_clock::now() - now;
            on_time += took >= 125ms && took < 127ms;
        });
        if (i % 100 == 99) on.pass(200us);
    }
    for (int i = 0; i < 130; ++i) on.pass(1ms);
    CHECK_EQ(on_time, 100'000);
}

Test(pool_as_others, running_elsewhere_is_a_function_that_posts) {  // its taskExecutor
    pooled on;
    std::deque<std::function<void()>> executor;
    int runs = 0;
    for (int i = 0; i < 5; ++i)
        on.pool.schedule(1ms, [&] { executor.emplace_back([&] { ++runs; }); });
    on.pass(1ms);
    CHECK_EQ(runs, 0);
    for (const auto& posted : executor) posted();
    CHECK_EQ(runs, 5);
}

Test(pool_as_others, running_one_ends_the_rejections_also_from_inside_it) {
    pooled on(1);
    on.pool.schedule(1ms, [&] {
        CHECK_EQ(on.pool.pending(), 0);
        CHECK(on.pool.schedule(5s, [] {}));
    });
    CHECK(!on.pool.schedule(1ms, [] {}));
    on.pass(1ms);
    CHECK_EQ(on.pool.pending(), 1);
    CHECK(!on.pool.schedule(1ms, [] {}));
}

Test(pool_as_others, the_count_of_pending_ones_is_right_after_each_step) {
    pooled on;
    const auto soon = on.pool.schedule(500ms, [] {}).handle;
    const auto middle = on.pool.schedule(500ms, [] {}).handle;
    on.pool.schedule(5s, [] {});
    CHECK_EQ(on.pool.pending(), 3);
    on.pool.cancel(middle);
    CHECK_EQ(on.pool.pending(), 2);
    on.pass(500ms);
    CHECK_EQ(on.pool.pending(), 1);
    CHECK(!on.pool.cancel(soon));
    CHECK_EQ(on.pool.pending(), 1);
}

Test(pool_as_others, the_longest_delay_does_not_overflow) {
    pooled on;
    const auto h = on.pool.schedule(std::chrono::milliseconds::max(), [] {}).handle;
    on.pass(1s);
    CHECK_EQ(on.pool.state(h), timeout_state::pending);
    CHECK(on.pool.cancel(h));
}

Test(pool_as_others, cancelling_is_noticed_by_the_functions_destructor) {  // its cancelled()
    pooled on;
    int cancelled = 0;
    const auto note = [&cancelled](int* p) {
        ++cancelled;
        delete p;
    };
    const auto h =
        on.pool.schedule(5s, [p = std::unique_ptr<int, decltype(note)>(new int, note)] {}).handle;
    CHECK_EQ(cancelled, 0);
    CHECK(on.pool.cancel(h));
    CHECK_EQ(cancelled, 1);
}
