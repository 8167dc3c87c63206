// Looking at what is pending in a pool: a walk in which anything may happen, and what comes next.
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/check.hpp"
#include "support/child.hpp"
#include "support/pooled.hpp"

using namespace std::chrono_literals;
using support::pooled;
using tvec::timeout_call, tvec::timeout_handle, tvec::timeout_state;

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
    CHECK(shown_by(on.pool).empty());
    std::map<timeout_handle, time_point> expected;
    const auto start = tvec::manual_clock::now();
    for (int i = 1; i <= 300; ++i) {
        const auto deadline = start + std::chrono::milliseconds(i);
        const timeout_handle h = on.pool.schedule_at(deadline, [] {}).handle;
        if (i % 3 == 0)
            on.pool.cancel(h);
        else if (i > 100)
            expected.emplace(h, deadline);
    }
    on.pass(100ms);
    const auto never = on.pool.schedule(std::chrono::hours::max(), [] {}).handle;
    expected.emplace(never, time_point::max());
    CHECK_EQ(expected.size(), on.pool.pending());
    CHECK(shown_by(on.pool) == expected);
}

Test(pool_walking, a_walk_shows_all_of_a_full_pool) {
    pooled on;
    do on.pool.schedule(1ms, [] {});
    while (on.pool.pending() < on.pool.capacity());
    CHECK_EQ(shown_by(on.pool).size(), on.pool.pending());
}

Test(pool_walking, a_walk_shows_deadlines_despite_early_calls) {
    pooled on;
    const auto h = on.pool.schedule(50ms, [] {}).handle;
    on.pool.run_early(true);
    CHECK(shown_by(on.pool).at(h) == tvec::manual_clock::now() + 50ms);
}

Test(pool_walking, a_walk_shows_a_running_timeout_if_periodic) {
    pooled on;
    const auto look = [&](const timeout_call& c) {
        CHECK_EQ(shown_by(on.pool).size(), on.pool.pending());
        CHECK(shown_by(on.pool).contains(c.self) == on.pool.remaining(c.self).has_value());
    };
    on.pool.schedule(1ms, look);
    on.pool.schedule_every(1ms, look);
    CHECK_EQ(on.pass(1ms), 2);
}

Test(pool_walking, a_walk_ends_when_the_visitor_decides) {
    pooled on;
    for (int i = 0; i < 100; ++i) on.pool.schedule(1ms, [] {});
    int seen = 0;
    CHECK(!on.pool.for_each_pending([&](const pending_timeout&) { return ++seen < 7; }));
    CHECK_EQ(seen, 7);
    CHECK(on.pool.for_each_pending([&](const pending_timeout&) { return true; }));
    CHECK_EQ(on.pool.pending(), 100);
}

Test(pool_walking, a_visitor_may_cancel_any_timeout) {
    pooled on;
    std::vector<timeout_handle> all;
    for (int i = 0; i < 200; ++i) all.push_back(on.pool.schedule(1ms, [] {}).handle);
    int seen = 0;
    on.pool.for_each_pending([&](const pending_timeout& t) {
        CHECK(on.pool.cancel(t.handle));
        if (++seen != 50) return;
        for (const timeout_handle h : all) on.pool.cancel(h);
    });
    CHECK_EQ(seen, 50);
    CHECK_EQ(on.pool.pending(), 0);
}

Test(pool_walking, exceptions_of_the_visitor_are_passed_on) {
    pooled on;
    for (int i = 0; i < 10; ++i) on.pool.schedule(1ms, [] {});
    int seen = 0;
    bool thrown = false;
    try {
        on.pool.for_each_pending([&](const pending_timeout&) {
            if (++seen == 3) throw std::runtime_error("enough");
        });
    } catch (const std::runtime_error&) {
        thrown = true;
    }
    CHECK(thrown);
    CHECK_EQ(on.pool.pending(), 10);
}

Test(pool_walking, a_visitor_that_destroys_the_pool_is_fatal) {
    const std::string said = support::last_words([] {
        support::manual_wheel timers;
        auto pool = std::make_unique<pooled::pool_type>(timers);
        pool->schedule(1ms, [] {});
        pool->for_each_pending([&](const pending_timeout&) { pool.reset(); });
    });
    CHECK(said.starts_with("tvec: a timeout_pool is destroyed by one of its own functions"));
}

Test(pool_walking, the_pool_may_be_destroyed_after_a_walk) {
    support::manual_wheel timers;
    auto pool = std::make_unique<pooled::pool_type>(timers);
    pool->schedule(1ms, [] {});
    pool->for_each_pending([](const pending_timeout&) { return false; });
    pool.reset();
    CHECK(!timers.any_pending());
}

// --- the next timeout ---------------------------------------------------------------------------

Test(pool_walking, next_is_the_timeout_that_fires_first) {
    pooled on;
    CHECK(!on.pool.next());
    const auto start = tvec::manual_clock::now();
    for (const int ms : {50, 20, 900, 70'000, 30}) on.pool.schedule(ms * 1ms, [] {});
    for (const int ms : {20, 30, 50, 900, 70'000}) {
        const auto next = on.pool.next();
        REQUIRE(next.has_value());
        CHECK(next->deadline == start + ms * 1ms);
        CHECK_EQ(on.pool.state(next->handle), timeout_state::pending);
        CHECK(on.pool.cancel(next->handle));
    }
    CHECK(!on.pool.next());
}

Test(pool_walking, a_timeout_that_never_fires_is_never_next) {
    tvec::manual_clock::set({});  // else there is a last tick before that
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::nanoseconds, tvec::manual_clock>> timers;
    tvec::timeout_pool pool(timers);
    pool.schedule(std::chrono::hours::max(), [] {});
    CHECK(!pool.next());
    pool.schedule(1ms, [] {});
    CHECK(pool.next().has_value());
    timers.wheel().drain([](tvec::timer&) {});
    CHECK_EQ(pool.pending(), 2);
    CHECK(!pool.next());
}

namespace {

// Takes its time to be copied.
struct slow {
    slow(pooled& p, std::function<void()>& a) : on(&p), act(&a) {}
    slow(const slow& other) : on(other.on), act(other.act) { on->pass(50ms); }
    void operator()() const { (*act)(); }

    pooled* on;
    std::function<void()>* act;
};

}  // namespace

Test(pool_walking, next_prefers_due_timeouts_to_past_deadlines) {
    pooled on;
    on.pass(25ms);
    const auto due = tvec::manual_clock::now() + 51ms;
    int looked = 0;
    std::function<void()> look = [&] {
        if (tvec::manual_clock::now() != due || on.pool.pending() == 1) return;
        ++looked;
        CHECK(on.pool.next()->deadline == due);
    };
    const slow f(on, look);
    on.pool.schedule_at(due, [] {});
    on.pool.schedule_every(due - 73ms, 10ms, f);  // at once, and 33 ms is past by then
    on.pool.schedule_at(due, [] {});
    on.pass(1ms);
    CHECK_EQ(looked, 1);
}
