// A pool's timeouts: scheduled, fired, cancelled, rescheduled, and the states of their handles.
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "support/check.hpp"
#include "support/pooled.hpp"

using namespace std::chrono_literals;
using support::held, support::pooled;
using tvec::schedule_error, tvec::timeout_handle, tvec::timeout_state;

TestSuite(pool_scheduling, .timeout = 60);

Test(pool_scheduling, a_timeout_fires_once_and_never_early) {
    for (const auto phase : {0ns, 1ns, 500'000ns, 999'999ns}) {
        pooled on;
        on.pass(phase);
        int fired = 0;
        on.pool.schedule(7ms, [&] { ++fired; });
        on.pass(7ms - 1ns);
        CHECK_EQ(fired, 0);
        on.pass(1ms + 1ns);
        CHECK_EQ(fired, 1);
        on.pass(70s);
        CHECK_EQ(fired, 1);
    }
}

Test(pool_scheduling, a_timeout_at_a_time_point_is_exact) {
    pooled on;
    int fired = 0;
    on.pool.schedule_at(tvec::manual_clock::now() + 20ms, [&] { ++fired; });
    on.pool.schedule_at(tvec::manual_clock::now() - 1ms, [&] { ++fired; });
    on.pass(1ms);
    CHECK_EQ(fired, 1);
    on.pass(18ms);
    CHECK_EQ(fired, 1);
    on.pass(1ms);
    CHECK_EQ(fired, 2);
}

Test(pool_scheduling, a_past_deadline_counts_as_the_next_tick) {
    pooled on;
    on.pass(10s);
    const auto h = on.pool.schedule_at(tvec::manual_clock::now() - 9s, [] {}).handle;
    CHECK(on.pool.remaining(h) == 1ms);
    on.pool.run_early(true);
    on.pool.run_early(false);
    CHECK_EQ(on.pass(1ms), 1);
    CHECK_EQ(on.pool.count().late, 0);
}

Test(pool_scheduling, nonpositive_delays_fire_on_the_next_tick) {
    pooled on;
    int fired = 0;
    on.pool.schedule(0s, [&] { ++fired; });
    on.pool.schedule(-5s, [&] { ++fired; });
    on.pool.schedule(std::chrono::nanoseconds::min(), [&] { ++fired; });
    CHECK_EQ(on.pass(0s), 0);
    CHECK_EQ(on.pass(1ms), 3);
    CHECK_EQ(fired, 3);
}

Test(pool_scheduling, the_longest_delay_may_still_be_cancelled) {
    pooled on;
    const auto h = on.pool.schedule(std::chrono::hours::max(), [] {}).handle;
    CHECK(!on.timers.next_wakeup() || *on.timers.next_wakeup() > tvec::manual_clock::now());
    on.pass(24h * 365 * 100);
    CHECK_EQ(on.pool.state(h), timeout_state::pending);
    CHECK(*on.pool.remaining(h) > 24h * 365 * 100);
    CHECK(on.pool.cancel(h));
}

Test(pool_scheduling, cancel_tells_whether_the_timeout_was_pending) {
    pooled on;
    int fired = 0;
    const auto kept = on.pool.schedule(5ms, [&] { ++fired; }).handle;
    const auto gone = on.pool.schedule(5ms, [&] { ++fired; }).handle;
    CHECK(on.pool.cancel(gone));
    CHECK(!on.pool.cancel(gone));
    CHECK(!on.pool.cancel(timeout_handle{}));
    CHECK_EQ(on.pool.pending(), 1);
    on.pass(5ms);
    CHECK_EQ(fired, 1);
    CHECK(!on.pool.cancel(kept));
    CHECK_EQ(on.pool.count().cancelled, 1);
}

Test(pool_scheduling, a_function_never_outlives_its_timeout) {
    pooled on;
    const auto token = std::make_shared<int>();
    long inside = 0;
    const auto gone = on.pool.schedule(1ms, [token] {}).handle;
    on.pool.schedule(2ms, [token, &inside] { inside = held(token); });
    CHECK_EQ(held(token), 2);
    on.pool.cancel(gone);
    CHECK_EQ(held(token), 1);
    on.pass(2ms);
    CHECK_EQ(inside, 1);
    CHECK_EQ(held(token), 0);
}

Test(pool_scheduling, the_state_is_known_until_the_nodes_reuse) {
    pooled on;
    const auto fired = on.pool.schedule(1ms, [] {}).handle;
    CHECK_EQ(on.pool.state(fired), timeout_state::pending);
    on.pass(1ms);
    CHECK_EQ(on.pool.state(fired), timeout_state::fired);
    const auto cancelled = on.pool.schedule(1ms, [] {}).handle;
    on.pool.cancel(cancelled);
    CHECK_EQ(on.pool.state(cancelled), timeout_state::cancelled);
    CHECK_EQ(on.pool.state(fired), timeout_state::unknown);
    CHECK_EQ(on.pool.state(timeout_handle{}), timeout_state::unknown);
}

Test(pool_scheduling, a_stale_handle_never_touches_its_nodes_heir) {
    pooled on;
    std::vector<timeout_handle> stale;
    for (int i = 0; i < 1'000; ++i) {
        stale.push_back(on.pool.schedule(1ms, [] {}).handle);
        i % 2 ? on.pass(1ms) : on.pool.cancel(stale.back());
    }
    REQUIRE_EQ(on.pool.capacity(), 64);  // they shared nodes
    const auto alive = on.pool.schedule(1ms, [] {}).handle;
    for (const timeout_handle h : stale) {
        CHECK(h != alive);
        CHECK(!on.pool.cancel(h));
        CHECK(!on.pool.reschedule(h, 1h));
        CHECK(!on.pool.remaining(h));
        CHECK_EQ(on.pool.state(h), timeout_state::unknown);
    }
    CHECK_EQ(on.pass(1ms), 1);
    CHECK_EQ(on.pool.state(alive), timeout_state::fired);
}

Test(pool_scheduling, a_handle_is_a_small_value_and_key) {
    static_assert(std::is_trivially_copyable_v<timeout_handle>);
    static_assert(sizeof(timeout_handle) == 8);
    CHECK(!timeout_handle{});
    pooled on;
    std::map<timeout_handle, int> index;
    for (int i = 0; i < 100; ++i) index[on.pool.schedule(1s, [] {}).handle] = i;
    CHECK_EQ(index.size(), 100);
    CHECK(index.begin()->first);
}

Test(pool_scheduling, remaining_time_saturates) {
    using clock = tvec::manual_clock;
    clock::set(clock::time_point(-1h));
    pooled on;
    const timeout_handle h = on.pool.schedule(std::chrono::hours::max(), [] {}).handle;
    CHECK(*on.pool.remaining(h) == clock::duration::max());
}

Test(pool_scheduling, remaining_time_counts_down_to_zero) {
    pooled on;
    const auto h = on.pool.schedule(10ms, [] {}).handle;
    CHECK_EQ(*on.pool.remaining(h) / 1ns, 10'000'000);
    on.pass(3ms + 500us);
    CHECK_EQ(*on.pool.remaining(h) / 1us, 6'500);
    tvec::manual_clock::advance(1h);
    CHECK_EQ(*on.pool.remaining(h) / 1ns, 0);
    on.timers.run();
    CHECK(!on.pool.remaining(h));
}

Test(pool_scheduling, rescheduling_moves_the_deadline_either_way) {
    pooled on;
    std::array<int, 3> fired{};
    const auto later = on.pool.schedule(10ms, [&] { ++fired[0]; }).handle;
    const auto sooner = on.pool.schedule(10s, [&] { ++fired[1]; }).handle;
    const auto same = on.pool.schedule(10ms, [&] { ++fired[2]; }).handle;
    CHECK(on.pool.reschedule(later, 20ms));
    CHECK(on.pool.reschedule(sooner, 5ms));
    CHECK(on.pool.reschedule(same, 10ms));
    CHECK_EQ(on.pool.pending(), 3);
    on.pass(5ms);
    CHECK(fired == (std::array{0, 1, 0}));
    on.pass(10ms);
    CHECK(fired == (std::array{0, 1, 1}));
    on.pass(5ms);
    CHECK(fired == (std::array{1, 1, 1}));
    on.pass(20s);
    CHECK(fired == (std::array{1, 1, 1}));
    CHECK(!on.pool.reschedule(later, 1ms));
}

Test(pool_scheduling, rescheduling_to_a_time_point_is_exact) {
    pooled on;
    int fired = 0;
    const auto h = on.pool.schedule(10ms, [&] { ++fired; }).handle;
    const auto start = tvec::manual_clock::now();
    on.pass(5ms);
    CHECK(on.pool.reschedule_at(h, start + 30ms + 1ns));
    CHECK(on.pool.remaining(h) == 26ms);
    on.pass(26ms - 1ns);
    CHECK_EQ(fired, 0);
    on.pass(1ns);
    CHECK_EQ(fired, 1);
    CHECK(!on.pool.reschedule_at(h, start + 50ms));
    const auto past = on.pool.schedule(1h, [&] { ++fired; }).handle;
    CHECK(on.pool.reschedule_at(past, start));
    CHECK_EQ(on.pass(1ms), 1);
}

Test(pool_scheduling, a_function_is_told_its_deadline) {
    pooled on;
    std::vector<tvec::manual_clock::time_point> deadlines;
    const auto look = [&](const tvec::timeout_call& c) {
        deadlines.push_back(on.timers.ticks().start_of(c.due));
    };
    const auto start = tvec::manual_clock::now();
    on.pool.schedule(10ms, look);
    on.pool.schedule_at(start + 20ms, look);
    on.pool.schedule_every(30ms, look);
    on.pool.schedule_every(start - 35ms, 40ms, look);  // at once, and from 5 ms on
    on.pass(72ms);                                     // all but the immediate ones are late
    std::sort(deadlines.begin(), deadlines.end());
    CHECK(deadlines ==
          (std::vector{start + 1ms, start + 5ms, start + 10ms, start + 20ms, start + 30ms}));
    on.pool.run_early(true);
    on.pass(1ms);  // an early call is for its next deadline
    std::sort(deadlines.begin(), deadlines.end());
    CHECK(deadlines[5] == start + 85ms);
    CHECK(deadlines[6] == start + 90ms);
    on.pool.stop([](auto& u) { u.run(); });
    std::sort(deadlines.begin(), deadlines.end());
    CHECK(deadlines[7] == start + 120ms);
    CHECK(deadlines[8] == start + 125ms);
}

Test(pool_scheduling, a_bounded_pool_refuses_until_there_is_room) {
    pooled on(2);
    const auto first = on.pool.schedule(1ms, [] {});
    CHECK(first);
    CHECK(on.pool.schedule(2ms, [] {}));
    const auto refused = on.pool.schedule(1ms, [] {});
    CHECK(!refused);
    CHECK(!refused.handle);
    CHECK_EQ(refused.error, schedule_error::too_many);
    CHECK_EQ(on.pool.count().rejected, 1);
    on.pool.cancel(first.handle);
    CHECK(on.pool.schedule(1ms, [] {}));
    on.pass(1ms);
    CHECK(on.pool.schedule_every(1ms, [] {}));
    CHECK(!on.pool.schedule_at(tvec::manual_clock::now(), [] {}));
    CHECK_EQ(on.pool.pending(), 2);
    CHECK_EQ(on.pool.high_water(), 2);
    CHECK_EQ(on.pool.max_pending(), 2);
}

Test(pool_scheduling, a_running_timeout_makes_room_for_another) {
    pooled on(1);
    int chain = 0;
    std::function<void()> next = [&] {
        CHECK_EQ(on.pool.pending(), 0);
        if (++chain < 5) CHECK(on.pool.schedule(1ms, std::ref(next)));
    };
    on.pool.schedule(1ms, std::ref(next));
    for (int i = 0; i < 10; ++i) on.pass(1ms);
    CHECK_EQ(chain, 5);
    CHECK_EQ(on.pool.count().rejected, 0);
}

Test(pool_scheduling, a_refused_function_is_left_as_it_was) {
    pooled on(0);
    auto resource = std::make_unique<int>(7);
    auto f = [resource = std::move(resource)] { return *resource; };
    CHECK(!on.pool.schedule(1ms, std::move(f)));
    CHECK_EQ(f(), 7);  // NOLINT: tests that it has not been moved from
}

Test(pool_scheduling, an_empty_function_is_refused) {
    pooled on;
    void (*const null)() = nullptr;
    CHECK_EQ(on.pool.schedule(1ms, null).error, schedule_error::no_function);
    CHECK_EQ(on.pool.schedule(1ms, std::function<void()>{}).error, schedule_error::no_function);
    CHECK_EQ(on.pool.schedule_every(1ms, std::function<void()>{}).error,
             schedule_error::no_function);
    CHECK_EQ(on.pool.pending(), 0);
    CHECK_EQ(on.pool.count().rejected, 3);
    CHECK(on.pool.schedule(
        1ms, +[] {}));
}

namespace {

struct barely_fits {
    alignas(16) std::array<void*, 6> captured;
    void operator()() const { *static_cast<const void**>(captured[5]) = this; }
};

}  // namespace

Test(pool_scheduling, a_function_of_48_aligned_bytes_fits) {
    pooled on;
    const void* called_at = nullptr;
    on.pool.schedule(1ms, barely_fits{{nullptr, nullptr, nullptr, nullptr, nullptr, &called_at}});
    on.pass(1ms);
    REQUIRE(called_at != nullptr);
    CHECK_EQ(reinterpret_cast<std::uintptr_t>(called_at) % 16, 0);
}

Test(pool_scheduling, a_function_may_ask_which_timeout_it_is) {
    pooled on;
    timeout_handle told;
    const auto h = on.pool.schedule(1ms, [&](const tvec::timeout_call& c) {
        told = c.self;
        CHECK_EQ(c.missed, 0);
        return 42;  // ignored
    });
    on.pass(1s);
    CHECK(told == h.handle);
}

Test(pool_scheduling, a_function_callable_either_way_gets_the_call) {
    pooled on;
    std::size_t arguments = 0;
    on.pool.schedule(1ms, [&](const auto&... all) { arguments = sizeof...(all); });
    on.pass(1ms);
    CHECK_EQ(arguments, 1);
}

Test(pool_scheduling, timers_and_several_pools_share_a_wheel) {
    pooled on;
    support::pooled::pool_type second(on.timers);
    int fired = 0;
    tvec::callback_timer raw([&] { fired += 100; });
    on.timers.arm_after(raw, 3ms);
    const auto h = on.pool.schedule(3ms, [&] { fired += 10; });
    second.schedule(3ms, [&] { fired += 1; });
    CHECK_EQ(on.pool.pending(), 1);
    CHECK_EQ(second.pending(), 1);
    CHECK_EQ(on.timers.wheel().next_expiry().value_or(0), on.timers.wheel().now() + 3);
    on.pass(3ms);
    CHECK_EQ(fired, 111);
    CHECK_EQ(on.pool.state(h.handle), timeout_state::fired);
}

Test(pool_scheduling, lateness_of_functions_is_counted) {
    pooled on;
    for (const auto delay : {10ms, 20ms, 30ms}) on.pool.schedule(delay, [] {});
    on.pass(10ms);
    CHECK_EQ(on.pool.count().late, 0);
    on.pass(25ms);  // to 35 ms
    CHECK_EQ(on.pool.count().late, 15 + 5);
    CHECK_EQ(on.pool.count().latest, 15);
}
