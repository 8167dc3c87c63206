// Coroutines with periodic work: no drift, and three policies for missed periods.
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/coroutines.hpp"
#include "support/probe.hpp"
#include "tvec/extra/interval.hpp"
#include "tvec/inspect/inspect.hpp"

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using support::elapsed;
using support::manual_timers;
using support::pass;
using support::reckless;
using support::started, support::task;
using tvec::interval, tvec::jiffies, tvec::missed_periods, tvec::timer_wheel;

TestSuite(intervals, .timeout = 60);

namespace {

// One return of next(): its time and its result.
struct beat {
    long long ms;
    jiffies missed;
    bool operator==(const beat&) const = default;
};
std::ostream& operator<<(std::ostream& out, const std::vector<beat>& all) {
    for (const beat& b : all) out << b.ms << "(" << b.missed << ") ";
    return out;
}
using beats = std::vector<beat>;

constexpr auto every_policy = {missed_periods::burst, missed_periods::delay, missed_periods::skip};

// Is busy after each beat for the given durations, and then for none.
task<> beat_on(manual_timers& timers, interval& every, std::vector<milliseconds> busy, beats& out) {
    for (std::size_t i = 0;; ++i) {
        const jiffies missed = co_await every.next();
        out.push_back({elapsed().count(), missed});
        if (i < busy.size()) co_await tvec::sleep_for(timers, busy[i]);
    }
}

// Returns the beats of 10 ms until `end`, of a coroutine that is busy for this long after them.
beats beats_of(missed_periods policy, std::vector<milliseconds> busy, milliseconds end) {
    manual_timers timers;
    interval every(timers, 10ms, policy);
    beats out;
    task<> t = started(beat_on(timers, every, std::move(busy), out));
    pass(timers, end);
    return out;
}

// Returns the beats of a loop that runs at these milliseconds.
beats beats_in_turns(missed_periods policy, std::initializer_list<int> turns) {
    manual_timers timers;
    interval every(timers, 10ms, policy);
    beats out;
    task<> t = started(beat_on(timers, every, {}, out));
    for (const int turn : turns) {
        tvec::manual_clock::set(tvec::manual_clock::time_point(milliseconds(turn)));
        timers.run();
    }
    return out;
}

// Returns the beats from a start on, of an interval made at 25 ms.
beats beats_from(std::chrono::nanoseconds start, missed_periods policy, milliseconds end) {
    manual_timers timers;
    pass(timers, 25ms);
    interval every(timers, timers.ticks().origin() + start, 10ms, policy);
    beats out;
    task<> t = started(beat_on(timers, every, {}, out));
    pass(timers, end - 25ms);
    return out;
}

}  // namespace

Test(intervals, come_each_period_from_when_they_were_made) {
    for (const auto policy : every_policy) {
        CHECK_EQ(beats_of(policy, {}, 35ms), (beats{{10, 0}, {20, 0}, {30, 0}}));
        CHECK_EQ(beats_of(policy, {3ms, 9ms}, 35ms), (beats{{10, 0}, {20, 0}, {30, 0}}));
    }
}

Test(intervals, come_when_the_whole_first_period_has_passed) {
    manual_timers timers;
    tvec::manual_clock::advance(300us);
    interval every(timers, 10ms);
    beats out;
    task<> t = started(beat_on(timers, every, {}, out));
    tvec::manual_clock::advance(10ms - 1ns);
    timers.run();
    CHECK(out.empty());
    tvec::manual_clock::advance(1ms);
    timers.run();
    CHECK_EQ(out.size(), 1);
}

Test(intervals, that_are_awaited_late_come_on_the_next_tick_and_the_policy_says_what_follows) {
    // Busy from 10 to 47.
    CHECK_EQ(beats_of(missed_periods::burst, {37ms}, 62ms),
             (beats{{10, 0}, {48, 0}, {49, 0}, {50, 0}, {51, 0}, {60, 0}}));
    CHECK_EQ(beats_of(missed_periods::skip, {37ms}, 62ms),
             (beats{{10, 0}, {48, 2}, {50, 0}, {60, 0}}));
    CHECK_EQ(beats_of(missed_periods::delay, {37ms}, 70ms),
             (beats{{10, 0}, {48, 2}, {58, 0}, {68, 0}}));
}

Test(intervals, whose_loop_is_late_do_as_a_pools_periods_do) {
    CHECK_EQ(beats_in_turns(missed_periods::burst, {10, 47, 50, 57, 60}).size(), 6);
    CHECK_EQ(beats_in_turns(missed_periods::skip, {10, 47, 50, 57, 60}),
             (beats{{10, 0}, {47, 2}, {50, 0}, {60, 0}}));
    CHECK_EQ(beats_in_turns(missed_periods::delay, {10, 47, 50, 57, 60, 67}),
             (beats{{10, 0}, {47, 2}, {57, 0}, {67, 0}}));
}

Test(intervals, from_a_start_to_come_begin_there) {
    for (const auto policy : every_policy) {
        CHECK_EQ(beats_from(28ms, policy, 50ms), (beats{{28, 0}, {38, 0}, {48, 0}}));
        CHECK_EQ(beats_from(28ms + 1ns, policy, 50ms), (beats{{29, 0}, {39, 0}, {49, 0}}));
    }
}

Test(intervals, from_a_start_that_is_past_come_at_once_and_keep_their_phase) {
    for (const auto policy : every_policy) {
        CHECK_EQ(beats_from(3ms, policy, 50ms), (beats{{26, 0}, {33, 0}, {43, 0}}));
        CHECK_EQ(beats_from(25ms, policy, 50ms), (beats{{26, 0}, {35, 0}, {45, 0}}));
        CHECK_EQ(beats_from(-1h - 2ms, policy, 40ms), (beats{{26, 0}, {28, 0}, {38, 0}}));
    }
}

namespace {

task<> counts(interval every, timer_wheel& wheel, std::vector<jiffies>& ticks) {
    for (;;) {
        co_await every.next();
        ticks.push_back(wheel.now());
    }
}

}  // namespace

Test(intervals, go_in_ticks_on_a_wheel_without_a_clock) {
    timer_wheel wheel(100);
    std::vector<jiffies> plain, started, past, none, negative, endless;
    task<> all[] = {
        counts(interval(wheel, 30), wheel, plain),
        counts(interval(wheel, 110, 30), wheel, started),
        counts(interval(wheel, 5, 30, missed_periods::burst), wheel, past),
        counts(interval(wheel, 0, missed_periods::delay), wheel, none),
        counts(interval(wheel, -7), wheel, negative),
        counts(interval(wheel, tvec::never), wheel, endless),
    };
    for (task<>& t : all) t.start();
    while (wheel.now() < 180) wheel.advance(wheel.now() + 1);
    CHECK(plain == (std::vector<jiffies>{130, 160}));
    CHECK(started == (std::vector<jiffies>{110, 140, 170}));
    CHECK(past == (std::vector<jiffies>{101, 125, 155}));
    CHECK_EQ(none.size(), 80);
    CHECK_EQ(negative.size(), 80);
    CHECK(endless.empty());
    CHECK_EQ(check(wheel), "");
}

Test(intervals, of_no_time_or_a_broken_number_of_ticks_round_up) {
    manual_timers timers;
    std::vector<jiffies> zero, negative, broken;
    task<> all[] = {
        counts(interval(timers, 0ms), timers.wheel(), zero),
        counts(interval(timers, -3s), timers.wheel(), negative),
        counts(interval(timers, 1ms + 1ns), timers.wheel(), broken),
    };
    for (task<>& t : all) t.start();
    pass(timers, 10ms);
    CHECK_EQ(zero.size(), 10);
    CHECK_EQ(negative.size(), 10);
    CHECK_EQ(broken.size(), 5);
}

Test(intervals, do_not_drift) {
    manual_timers timers;
    interval every(timers, 7ms);
    beats out;
    task<> t = started(beat_on(timers, every, std::vector<milliseconds>(500, 9ms), out));
    for (int i = 0; i < 5'000; ++i) {
        tvec::manual_clock::advance(1ms + (i % 3) * 1'700us);
        timers.run();
    }
    CHECK_GE(out.size(), 500);
    std::size_t missed = 0;
    for (const beat& b : out) missed += b.missed;
    CHECK_LE(out.size() + missed, static_cast<std::size_t>(elapsed() / 7ms));
    CHECK_GE(out.size() + missed + 3, static_cast<std::size_t>(elapsed() / 7ms));
}

Test(intervals, end_when_the_coroutine_is_destroyed_and_go_on_in_another) {
    manual_timers timers;
    interval every(timers, 10ms);
    beats out;
    {
        task<> t = started(beat_on(timers, every, {}, out));
        pass(timers, 15ms);
        CHECK_EQ(timers.wheel().count_pending(), 1);
    }
    CHECK_EQ(timers.wheel().count_pending(), 0);
    pass(timers, 22ms);  // to 37 ms
    task<> heir = started(beat_on(timers, every, {}, out));
    pass(timers, 10ms);
    CHECK_EQ(out, (beats{{10, 0}, {38, 1}, {40, 0}}));
}

namespace {

reckless beats_and_throws(interval& every, int& n) {
    co_await every.next();
    ++n;
    throw std::runtime_error("from a coroutine");
}

}  // namespace

Test(intervals, an_exception_after_a_beat_leaves_advance_and_the_interval_goes_on) {
    timer_wheel wheel;
    interval every(wheel, 10);
    int beaten = 0;
    for (const jiffies tick : {10, 20, 30}) {
        const reckless r = beats_and_throws(every, beaten);
        bool thrown = false;
        try {
            wheel.advance(tick);
        } catch (const std::runtime_error&) {
            thrown = true;
        }
        CHECK(thrown);
    }
    CHECK_EQ(beaten, 3);
}

Test(intervals, on_several_wheels_keep_time_by_their_own) {
    timer_wheel quick, slow;
    std::vector<jiffies> ticks_of_quick, ticks_of_slow;
    task<> one = counts(interval(quick, 10), quick, ticks_of_quick);
    task<> other = counts(interval(slow, 10), slow, ticks_of_slow);
    one.start();
    other.start();
    for (jiffies t = 1; t <= 100; ++t) {
        quick.advance(t);
        slow.advance(t / 4);
    }
    CHECK_EQ(ticks_of_quick.size(), 10);
    CHECK(ticks_of_slow == (std::vector<jiffies>{10, 20}));
}

namespace {

task<> waits_a_while(manual_timers& on, interval& every, std::vector<std::optional<jiffies>>& o) {
    for (int i = 0; i < 3; ++i) {
        const auto missed = co_await tvec::with_timeout(on, every.next(), 6ms);
        o.push_back(missed);
    }
}

}  // namespace

Test(intervals, may_be_awaited_for_a_while_and_lose_no_beat) {
    manual_timers timers;
    interval every(timers, 10ms);
    std::vector<std::optional<jiffies>> out;
    task<> t = started(waits_a_while(timers, every, out));
    pass(timers, 16ms);
    REQUIRE_EQ(out.size(), 3);
    CHECK(!out[0]);
    CHECK(out[1] && *out[1] == 0);
    CHECK(!out[2]);
}

Test(intervals, never_awaited_arm_nothing) {
    timer_wheel wheel;
    interval every(wheel, 10);
    const auto unused = every.next();
    static_cast<void>(unused);
    CHECK_EQ(wheel.count_pending(), 0);
}
