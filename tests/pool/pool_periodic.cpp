// A pool's periodic timeouts: no drift, three policies for what was missed, and a way out.
#include <algorithm>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/pooled.hpp"

using namespace std::chrono_literals;
using support::pooled;
using tvec::jiffies, tvec::missed_periods, tvec::timeout_call, tvec::timeout_state;

TestSuite(pool_periodic, .timeout = 60);

namespace {

// One call of a periodic function: at which tick, and what it was told.
struct beat {
    jiffies tick, missed;
    bool operator==(const beat&) const = default;
};
std::ostream& operator<<(std::ostream& out, const std::vector<beat>& all) {
    for (const beat& b : all) out << b.tick << "(" << b.missed << ") ";
    return out;
}

// The beats of a 10 ms timeout when the loop comes around at these milliseconds.
std::vector<beat> beats_of(missed_periods policy, std::initializer_list<int> turns) {
    pooled on;
    std::vector<beat> beats;
    on.pool.schedule_every(
        10ms,
        [&](const timeout_call& c) {
            beats.push_back({on.timers.wheel().now(), c.missed});
        },
        policy);
    int now = 0;
    for (const int turn : turns) {
        on.pass(std::chrono::milliseconds(turn - std::exchange(now, turn)));
        REQUIRE_EQ(on.pool.pending(), 1);
    }
    return beats;
}

using beats = std::vector<beat>;

// The shortest time between two calls of a 10 ms timeout whose loop takes up to 8 ms for a turn, in
// steps of `step`.
std::chrono::nanoseconds shortest_pause(missed_periods policy, std::chrono::nanoseconds step) {
    pooled on;
    std::mt19937 random(14);
    std::optional<tvec::manual_clock::time_point> last;
    std::chrono::nanoseconds shortest = 1h;
    const auto call = [&] {
        const auto now = tvec::manual_clock::now();
        if (last) shortest = std::min(shortest, now - *last);
        last = now;
    };
    on.pool.schedule_every(10ms, call, policy);
    for (int i = 0; i < 10'000; ++i) on.pass(random() % (8ms / step) * step);
    return shortest;
}

}  // namespace

Test(pool_periodic, every_policy_is_punctual_in_a_punctual_loop) {
    for (const auto policy : {missed_periods::burst, missed_periods::delay, missed_periods::skip})
        CHECK_EQ(beats_of(policy, {5, 10, 20, 29, 30}), (beats{{10, 0}, {20, 0}, {30, 0}}));
}

// The loop sleeps from 10 to 47; then it comes around each time that it should.
Test(pool_periodic, burst_calls_once_for_each_missed_period) {
    CHECK_EQ(beats_of(missed_periods::burst, {10, 47, 50, 57, 60}),
             (beats{{10, 0}, {20, 0}, {30, 0}, {40, 0}, {50, 0}, {60, 0}}));
}

Test(pool_periodic, skip_is_called_once_and_keeps_its_phase) {
    CHECK_EQ(beats_of(missed_periods::skip, {10, 47, 50, 57, 60}),
             (beats{{10, 0}, {20, 2}, {50, 0}, {60, 0}}));
}

Test(pool_periodic, delay_calls_once_then_a_period_later) {
    CHECK_EQ(beats_of(missed_periods::delay, {10, 47, 50, 57, 60, 67}),
             (beats{{10, 0}, {20, 2}, {57, 0}, {67, 0}}));
}

// Rate limiters need this.
Test(pool_periodic, delay_keeps_calls_almost_a_period_apart) {
    CHECK(shortest_pause(missed_periods::delay, 1ms) == 10ms);
    CHECK(shortest_pause(missed_periods::delay, 1us) > 9ms);
    CHECK(shortest_pause(missed_periods::skip, 1us) < 3ms);
}

Test(pool_periodic, lateness_below_a_period_misses_nothing) {
    CHECK_EQ(beats_of(missed_periods::delay, {19, 20, 29, 30}), (beats{{10, 0}, {29, 0}}));
    for (const auto policy : {missed_periods::burst, missed_periods::skip})
        CHECK_EQ(beats_of(policy, {19, 20, 39, 40}), (beats{{10, 0}, {20, 0}, {30, 0}, {40, 0}}));
}

Test(pool_periodic, missed_periods_are_counted) {
    pooled on;
    on.pool.schedule_every(10ms, [] {});
    on.pass(105ms);
    CHECK_EQ(on.pool.count().fired, 1);
    CHECK_EQ(on.pool.count().missed, 9);
}

Test(pool_periodic, deadlines_do_not_drift) {
    pooled on;
    std::vector<jiffies> ticks;
    const jiffies start = on.timers.wheel().now();
    on.pool.schedule_every(7ms, [&] { ticks.push_back(on.timers.wheel().now() - start); });
    for (int i = 0; i < 10'000; ++i) on.pass(1ms + (i % 3) * 1'700us);
    CHECK_GE(ticks.size(), 3'000);
    for (const jiffies tick : ticks) REQUIRE_EQ(tick % 7, 0);
}

Test(pool_periodic, periods_round_up_to_whole_ticks) {
    pooled on;
    int zero = 0, negative = 0, tiny = 0, broken = 0;
    on.pool.schedule_every(0ms, [&] { ++zero; });
    on.pool.schedule_every(-3s, [&] { ++negative; });
    on.pool.schedule_every(1ns, [&] { ++tiny; });
    on.pool.schedule_every(1ms + 1ns, [&] { ++broken; });
    for (int i = 0; i < 10; ++i) on.pass(1ms);
    CHECK_EQ(zero, 10);
    CHECK_EQ(negative, 10);
    CHECK_EQ(tiny, 10);
    CHECK_EQ(broken, 5);
}

Test(pool_periodic, the_longest_period_never_fires) {
    pooled on;
    const auto h = on.pool.schedule_every(std::chrono::hours::max(), [] {}).handle;
    on.pass(1h);
    CHECK_EQ(on.pool.state(h), timeout_state::pending);
    on.pool.run_early(true);  // even when it is called, the next time is never
    CHECK_EQ(on.pass(1ms), 1);
    CHECK_EQ(on.pass(1h), 0);
    CHECK_EQ(on.pool.pending(), 1);
}

Test(pool_periodic, deadlines_saturate_and_do_not_come_round_again) {
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::nanoseconds, tvec::manual_clock>> timers;
    tvec::timeout_pool pool(timers);
    const auto turn = [&] {
        tvec::manual_clock::advance(1ns);
        return timers.run().fired;
    };
    pool.schedule_every(std::chrono::nanoseconds(std::int64_t{1} << 62), [] {});
    for (int i = 0; i < 8; ++i) {  // each brings one period forward, and there are two in all time
        pool.run_early(true);
        CHECK_EQ(turn(), 1);
        pool.run_early(false);
        CHECK_EQ(turn(), 0);
    }
    CHECK_EQ(pool.pending(), 1);
}

// --- from a point in time on --------------------------------------------------------------------

namespace {

// The beats of a 10 ms timeout that is scheduled at 25 ms with this start, when the loop comes
// around at these milliseconds. All of them count from when the wheel was made.
std::vector<beat> beats_from(std::chrono::nanoseconds start, missed_periods policy,
                             std::initializer_list<int> turns) {
    pooled on;
    std::vector<beat> beats;
    on.pass(25ms);
    on.pool.schedule_every(
        on.timers.ticks().origin() + start, 10ms,
        [&](const timeout_call& c) {
            beats.push_back({on.timers.wheel().now(), c.missed});
        },
        policy);
    int now = 25;
    for (const int turn : turns)
        on.pass(std::chrono::milliseconds(turn - std::exchange(now, turn)));
    return beats;
}

constexpr auto every_policy = {missed_periods::burst, missed_periods::delay, missed_periods::skip};

}  // namespace

Test(pool_periodic, a_future_start_fixes_the_phase) {
    for (const auto policy : every_policy) {
        CHECK_EQ(beats_from(28ms, policy, {26, 27, 28, 37, 38, 48}),
                 (beats{{28, 0}, {38, 0}, {48, 0}}));
        CHECK_EQ(beats_from(28ms - 1ns, policy, {28, 38}), (beats{{28, 0}, {38, 0}}));
        CHECK_EQ(beats_from(28ms + 1ns, policy, {28, 29, 39}), (beats{{29, 0}, {39, 0}}));
    }
}

Test(pool_periodic, a_past_start_calls_at_once_in_phase) {
    for (const auto policy : every_policy) {
        CHECK_EQ(beats_from(3ms, policy, {26, 32, 33, 43}), (beats{{26, 0}, {33, 0}, {43, 0}}));
        CHECK_EQ(beats_from(24ms, policy, {26, 33, 34}), (beats{{26, 0}, {34, 0}}));
        CHECK_EQ(beats_from(25ms, policy, {26, 34, 35}), (beats{{26, 0}, {35, 0}}));
        CHECK_EQ(beats_from(16ms, policy, {26, 35, 36}), (beats{{26, 0}, {36, 0}}));
    }
}

Test(pool_periodic, a_start_before_the_wheel_has_a_phase) {
    for (const auto policy : every_policy) {
        CHECK_EQ(beats_from(-3ms, policy, {26, 27, 37}), (beats{{26, 0}, {27, 0}, {37, 0}}));
        CHECK_EQ(beats_from(-1h - 2ms, policy, {26, 27, 28}), (beats{{26, 0}, {28, 0}}));
        CHECK_EQ(beats_from(-3ms - 1ns, policy, {26, 27, 37}),
                 (beats{{26, 0}, {27, 0}, {37, 0}}));  // rounds up, as all deadlines
        CHECK_EQ(beats_from(-3ms + 1ns, policy, {26, 27, 28}), (beats{{26, 0}, {28, 0}}));
    }
}

Test(pool_periodic, the_earliest_possible_start_counts_as_past) {
    pooled on;
    on.pool.schedule_every(tvec::manual_clock::time_point::min(), 10ms, [] {});
    CHECK_EQ(on.pass(1ms), 1);
    CHECK_EQ(on.pass(10ms), 1);
}

Test(pool_periodic, a_delayed_first_call_misses_no_further_periods) {
    CHECK_EQ(beats_from(3ms, missed_periods::skip, {56, 63}), (beats{{26, 0}, {33, 2}, {63, 0}}));
    CHECK_EQ(beats_from(3ms, missed_periods::burst, {56, 63}),
             (beats{{26, 0}, {33, 0}, {43, 0}, {53, 0}, {63, 0}}));
    CHECK_EQ(beats_from(3ms, missed_periods::delay, {31, 33, 56, 66}),
             (beats{{26, 0}, {33, 0}, {43, 1}, {66, 0}}));
}

Test(pool_periodic, a_first_call_at_once_is_not_late) {
    pooled on;
    on.pool.schedule_every(tvec::manual_clock::now() - 1h, 7min, [] {});
    on.pass(5s);
    CHECK_EQ(on.pool.count().fired, 1);
    CHECK_EQ(on.pool.count().late, 0);
    CHECK_EQ(on.pool.count().missed, 0);
}

Test(pool_periodic, periods_before_the_call_are_not_missed) {
    pooled on;
    int fired = 0;
    tvec::manual_clock::advance(1h);
    on.pool.schedule_every(
        tvec::manual_clock::now() - 30min, 10ms, [&] { ++fired; }, missed_periods::burst);
    on.pass(1ms);
    CHECK_EQ(fired, 1);
    on.pass(10ms);
    CHECK_EQ(fired, 2);
}
