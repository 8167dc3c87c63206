// Looking at what is pending in a pool: a walk in which anything may happen, and what comes next.
#include <map>
#include <stdexcept>
#include <vector>

#include "support/check.hpp"
#include "support/pooled.hpp"

using namespace std::chrono_literals;
using support::pooled;
using tvec::timeout_call, tvec::timeout_handle;

TestSuite(pool_walking, .timeout = 60);

namespace {

using pending_timeout = pooled::pool_type::pending_timeout;
using time_point = pooled::pool_type::time_point;

// Returns the timeouts that a walk shows, in no order.
std::map<timeout_handle, time_point> shown_by(const pooled::pool_type& pool) {
    std::map<timeout_handle, time_point> shown;
    CHECK(pool.for_each_pending(
        [&](const pending_timeout& t) { CHECK(shown.emplace(t.handle, t.deadline).second); }));
    return shown;
}

}  // namespace

Test(pool_walking, a_walk_shows_each_timeout_with_its_deadline) {
    tvec::manual_clock::set({});  // else there is a last tick before the end of time
    pooled on;
    std::map<timeout_handle, time_point> expected;
    const auto start = tvec::manual_clock::now();
    for (int i = 1; i <= 300; ++i) {
        const auto deadline = start + i * 1ms;
        expected.emplace(on.pool.schedule_at(deadline, [] {}).handle, deadline);
    }
    const auto never = on.pool.schedule(std::chrono::hours::max(), [] {}).handle;
    expected.emplace(never, time_point::max());
    on.pool.run_early(true);  // that moves no deadline
    CHECK(shown_by(on.pool) == expected);
}

Test(pool_walking, a_walk_shows_a_running_timeout_if_periodic) {
    pooled on;
    on.pool.schedule(1ms,
                     [&](const timeout_call& c) { CHECK(!shown_by(on.pool).contains(c.self)); });
    on.pool.schedule_every(
        1ms, [&](const timeout_call& c) { CHECK(shown_by(on.pool).contains(c.self)); });
    CHECK_EQ(on.pass(1ms), 2);
}

Test(pool_walking, a_visitor_may_cancel_any_timeout) {
    pooled on;
    std::vector<timeout_handle> all;
    for (int i = 0; i < 200; ++i) all.push_back(on.pool.schedule(1ms, [] {}).handle);
    int seen = 0;
    CHECK(on.pool.for_each_pending([&](const pending_timeout& t) {
        CHECK(on.pool.cancel(t.handle));
        if (++seen == 50)
            for (const timeout_handle h : all) on.pool.cancel(h);
    }));
    CHECK_EQ(seen, 50);
}

Test(pool_walking, a_visitor_ends_a_walk_by_false_or_throwing) {
    pooled on;
    for (int i = 0; i < 100; ++i) on.pool.schedule(1ms, [] {});
    int seen = 0;
    CHECK(!on.pool.for_each_pending([&](const pending_timeout&) { return ++seen < 7; }));
    CHECK_EQ(seen, 7);
    bool thrown = false;
    try {
        on.pool.for_each_pending([](const pending_timeout&) { throw std::runtime_error(""); });
    } catch (const std::runtime_error&) {
        thrown = true;
    }
    CHECK(thrown);
    CHECK_EQ(on.pool.pending(), 100);
}

Test(pool_walking, next_is_the_timeout_that_fires_first) {
    tvec::manual_clock::set({});  // else there is a last tick before the end of time
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::nanoseconds, tvec::manual_clock>> timers;
    tvec::timeout_pool pool(timers);
    pool.schedule(std::chrono::hours::max(), [] {});
    CHECK(!pool.next());
    const auto start = tvec::manual_clock::now();
    for (const int ms : {50, 20, 900, 70'000, 30}) pool.schedule(ms * 1ms, [] {});
    for (const int ms : {20, 30, 50, 900, 70'000}) {
        REQUIRE(pool.next().has_value());
        CHECK(pool.next()->deadline == start + ms * 1ms);
        CHECK(pool.cancel(pool.next()->handle));
    }
    CHECK(!pool.next());
}
