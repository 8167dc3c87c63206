// A pool's periodic timeouts: no drift, and three policies for periods that were missed.
#include <optional>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/pooled.hpp"

using namespace std::chrono_literals;
using support::pooled;
using tvec::jiffies, tvec::missed_periods, tvec::timeout_call;

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
using beats = std::vector<beat>;

constexpr auto every_policy = {missed_periods::burst, missed_periods::delay, missed_periods::skip};

// The beats of a 10 ms timeout when the loop comes around at these milliseconds. With a start it is
// scheduled at 25 ms. All of them count from when the wheel was made.
beats beats_of(missed_periods policy, std::initializer_list<int> turns,
               std::optional<std::chrono::nanoseconds> start = {}) {
    pooled on;
    beats all;
    const auto note = [&](const timeout_call& c) {
        all.push_back({on.timers.wheel().now(), c.missed});
    };
    int now = start ? 25 : 0;
    on.pass(now * 1ms);
    start ? on.pool.schedule_every(on.timers.ticks().origin() + *start, 10ms, note, policy)
          : on.pool.schedule_every(10ms, note, policy);
    for (const int turn : turns) on.pass((turn - std::exchange(now, turn)) * 1ms);
    REQUIRE_EQ(on.pool.pending(), 1);
    return all;
}

}  // namespace

// The loop sleeps from 10 to 47; then it comes around each time that it should.
Test(pool_periodic, burst_calls_once_for_each_missed_period) {
    CHECK_EQ(beats_of(missed_periods::burst, {10, 47, 50, 57, 60}),
             (beats{{10, 0}, {20, 0}, {30, 0}, {40, 0}, {50, 0}, {60, 0}}));
}

Test(pool_periodic, skip_is_called_once_and_keeps_its_phase) {
    CHECK_EQ(beats_of(missed_periods::skip, {10, 47, 50, 57, 60}),
             (beats{{10, 0}, {20, 2}, {50, 0}, {60, 0}}));
}

// Rate limiters need this.
Test(pool_periodic, delay_calls_once_then_a_period_later) {
    CHECK_EQ(beats_of(missed_periods::delay, {10, 47, 50, 57, 60, 67}),
             (beats{{10, 0}, {20, 2}, {57, 0}, {67, 0}}));
    CHECK_EQ(beats_of(missed_periods::delay, {19, 20, 29, 30}), (beats{{10, 0}, {29, 0}}));
}

Test(pool_periodic, periods_round_up_to_whole_ticks) {
    pooled on;
    int negative = 0, tiny = 0, broken = 0;
    on.pool.schedule_every(-3s, [&] { ++negative; });
    on.pool.schedule_every(1ns, [&] { ++tiny; });
    on.pool.schedule_every(1ms + 1ns, [&] { ++broken; });
    for (int i = 0; i < 10; ++i) on.pass(1ms);
    CHECK_EQ(negative, 10);
    CHECK_EQ(tiny, 10);
    CHECK_EQ(broken, 5);
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
}

Test(pool_periodic, a_future_start_fixes_the_phase) {
    for (const auto policy : every_policy)
        CHECK_EQ(beats_of(policy, {26, 27, 28, 37, 38, 48}, 28ms - 1ns),
                 (beats{{28, 0}, {38, 0}, {48, 0}}));
}

Test(pool_periodic, a_past_start_calls_at_once_in_phase) {
    for (const auto policy : every_policy) {
        CHECK_EQ(beats_of(policy, {26, 32, 33, 43}, 3ms), (beats{{26, 0}, {33, 0}, {43, 0}}));
        CHECK_EQ(beats_of(policy, {26, 34, 35}, 25ms), (beats{{26, 0}, {35, 0}}));
        CHECK_EQ(beats_of(policy, {26, 27, 28}, -1h - 2ms), (beats{{26, 0}, {28, 0}}));
    }
    pooled on;
    on.pool.schedule_every(tvec::manual_clock::time_point::min(), 1h, [] {});
    on.pool.schedule_every(tvec::manual_clock::now() - 1h, 7min, [] {});
    CHECK_EQ(on.pass(5s), 2);
    CHECK_EQ(on.pool.count().late + on.pool.count().missed, 0);
}
