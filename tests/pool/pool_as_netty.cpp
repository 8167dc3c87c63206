// The expectations of the tests of Netty's HashedWheelTimer, applied to a pool: docs/from-netty.md
// maps the calls.
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "support/check.hpp"
#include "support/pooled.hpp"

using namespace std::chrono_literals;
using support::pooled;
using tvec::schedule_error, tvec::timeout_handle, tvec::timeout_state;

TestSuite(pool_as_netty, .timeout = 60);

Test(pool_as_netty, a_timeout_does_not_run_before_its_delay) {  // T10
    pooled on;
    const auto h = on.pool.schedule(10s, [] { CHECK(!"run too early"); }).handle;
    on.pass(3s);
    on.pass(6'999ms);
    CHECK_EQ(on.pool.state(h), timeout_state::pending);  // not isExpired
}

Test(pool_as_netty, a_timeout_runs_after_its_delay) {  // T11
    pooled on;
    int runs = 0;
    const auto h = on.pool.schedule(2s, [&] { ++runs; }).handle;
    on.pass(3s);
    CHECK_EQ(runs, 1);
    CHECK_EQ(on.pool.state(h), timeout_state::fired);  // isExpired
}

Test(pool_as_netty, stop_returns_exactly_what_has_not_run) {  // T100
    pooled processed;
    for (int i = 0; i < 3; ++i) processed.pool.schedule(1ms, [] {});
    processed.pass(2ms);
    CHECK_EQ(processed.pool.stop(), 0);

    pooled unprocessed;
    for (int i = 0; i < 5; ++i) unprocessed.pool.schedule(5s, [] {});
    unprocessed.pass(1s);
    CHECK_EQ(unprocessed.pool.stop(), 5);
}

Test(pool_as_netty, a_cancelled_timeout_is_not_among_the_unprocessed) {  // T100
    pooled on;
    const auto gone = on.pool.schedule(5s, [] {}).handle;
    const auto left = on.pool.schedule(5s, [] {}).handle;
    on.pool.cancel(gone);
    CHECK_EQ(on.pool.stop([&](auto& u) { CHECK(u.handle() == left); }), 1);
}

Test(pool_as_netty, stop_marks_what_it_returns_as_cancelled) {  // T100
    pooled on;
    std::vector<timeout_handle> all;
    for (int i = 0; i < 20; ++i) all.push_back(on.pool.schedule(5s, [] {}).handle);
    on.pool.stop();
    for (const timeout_handle h : all) CHECK_EQ(on.pool.state(h), timeout_state::cancelled);
    CHECK_EQ(on.pool.pending(), 0);
}

Test(pool_as_netty, after_stop_new_timeouts_are_refused) {  // T100
    pooled on;
    for (int i = 0; i < 3; ++i) on.pool.schedule(1ms, [] {});
    on.pass(1ms);
    on.pool.stop();
    CHECK_EQ(on.pool.schedule(1ms, [] {}).error, schedule_error::stopped);
}

Test(pool_as_netty, stop_from_inside_a_timeout_is_allowed_where_netty_refuses_it) {
    pooled on;
    on.pool.schedule(1ms, [&] { on.pool.stop(); });
    on.pass(1ms);
    CHECK(on.pool.stopped());
}

// Where a wheel of rounds is short, delays beyond it and multiples of it went wrong.
Test(pool_as_netty, delays_of_many_laps_are_on_time) {
    for (const int ticks : {32, 64, 256, 512, 1'024, 16'384, 32'768, 1'048'576}) {
        pooled on;
        int runs = 0;
        on.pool.schedule(std::chrono::milliseconds(ticks), [&] { ++runs; });
        on.pass(std::chrono::milliseconds(ticks - 1));
        CHECK_EQ(runs, 0);
        on.pass(1ms);
        CHECK_EQ(runs, 1);
    }
}

Test(pool_as_netty, a_timeout_that_renews_itself_goes_round_and_round) {
    pooled on;
    int runs = 0;
    std::function<void()> again = [&] {
        on.pool.schedule(100ms, std::ref(again));
        ++runs;
    };
    on.pool.schedule(100ms, std::ref(again));
    for (int i = 0; i < 60; ++i) on.pass(5ms);
    CHECK_EQ(runs, 3);
}

Test(pool_as_netty, a_hundred_thousand_timeouts_are_on_time) {  // T18
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

Test(pool_as_netty, running_elsewhere_is_a_function_that_posts) {  // its taskExecutor
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

Test(pool_as_netty, too_many_timeouts_back_to_back_are_rejected) {  // T105
    pooled on(2);
    CHECK(on.pool.schedule(5s, [] {}));
    CHECK(on.pool.schedule(5s, [] {}));
    CHECK_EQ(on.pool.schedule(1ms, [] {}).error, schedule_error::too_many);
}

Test(pool_as_netty, cancelling_one_ends_the_rejections) {  // T105
    pooled on(2);
    const auto first = on.pool.schedule(5s, [] {}).handle;
    on.pool.schedule(5s, [] {});
    CHECK(on.pool.cancel(first));
    CHECK(on.pool.schedule(5s, [] {}));
    CHECK(!on.pool.schedule(5s, [] {}));
}

Test(pool_as_netty, running_one_ends_the_rejections_also_from_inside_it) {  // T105
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

Test(pool_as_netty, the_count_of_pending_ones_is_right_after_each_step) {  // T103
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

Test(pool_as_netty, a_timeout_is_counted_out_once_however_it_ends) {  // T104
    pooled on(10);
    for (int round = 0; round < 100; ++round) {
        std::vector<timeout_handle> all;
        for (int i = 0; i < 10; ++i)
            all.push_back(on.pool
                              .schedule(1ms,
                                        [&] {
                                            for (std::size_t j = 0; j < 10; j += 3)
                                                on.pool.cancel(all[j]);  // some are due
                                        })
                              .handle);
        CHECK(!on.pool.schedule(1ms, [] {}));
        on.pool.cancel(all[5]);
        on.pool.cancel(all[5]);
        on.pass(1ms);
        REQUIRE_EQ(on.pool.pending(), 0);
        all.clear();
    }
}

Test(pool_as_netty, the_longest_delay_does_not_overflow) {  // T69
    pooled on;
    const auto h = on.pool.schedule(std::chrono::milliseconds::max(), [] {}).handle;
    on.pass(1s);
    CHECK_EQ(on.pool.state(h), timeout_state::pending);
    CHECK(on.pool.cancel(h));
}

Test(pool_as_netty, cancelling_is_noticed_by_the_functions_destructor) {  // its cancelled()
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

Test(pool_as_netty, cancel_says_true_once_and_false_after_expiry) {  // T7
    pooled on;
    const auto a = on.pool.schedule(5ms, [] {}).handle;
    const auto b = on.pool.schedule(5ms, [] {}).handle;
    CHECK(on.pool.cancel(a));
    CHECK(!on.pool.cancel(a));
    CHECK_EQ(on.pool.state(a), timeout_state::cancelled);  // isCancelled
    on.pass(5ms);
    CHECK(!on.pool.cancel(b));
    CHECK_EQ(on.pool.state(b), timeout_state::fired);
}

Test(pool_as_netty, an_exception_from_a_timeout_does_not_stop_the_timer) {  // T121
    pooled on;
    int runs = 0;
    on.pool.schedule(1ms, [] { throw 1; });
    on.pool.schedule(1ms, [&] { ++runs; });
    on.pool.schedule(2ms, [&] { ++runs; });
    on.pass(1ms);
    on.pass(1ms);
    CHECK_EQ(runs, 2);
    CHECK_EQ(on.pool.count().failed, 1);
}
