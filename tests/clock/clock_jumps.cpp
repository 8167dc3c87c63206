// P6: a clock that goes back is ignored, and counted; one that jumps forward costs what is due,
// not what has elapsed.
#include <chrono>

#include "support/check.hpp"
#include "support/child.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/inspect/inspect.hpp"

using support::jiffies;
using support::probe;
using tvec::timer_wheel;

TestSuite(clock_jumps, .timeout = 60);

Test(clock_jumps, advancing_to_the_same_tick_twice_changes_nothing) {
    timer_wheel wheel;
    probe p;
    wheel.arm_after(p.t, 192);
    wheel.advance(192);
    CHECK_EQ(wheel.advance(192).fired, 0);
    CHECK_EQ(wheel.count().clock_backward, 0);
    CHECK(p.fired_only_at(192));
}

Test(clock_jumps, back_is_ignored_and_counted) {
    const jiffies start = (jiffies{1} << 33) + 17;
    timer_wheel wheel(start);
    probe p;
    wheel.arm_after(p.t, 10);
    for (const jiffies back : {jiffies{1}, jiffies{1} << 32, start}) {
        const auto done = wheel.advance(start - back);
        CHECK_EQ(done.fired, 0);
        CHECK(done.caught_up);
        CHECK_EQ(wheel.now(), start);
        CHECK_EQ(check(wheel), "");
    }
    CHECK_EQ(wheel.count().clock_backward, 3);
    wheel.advance(start + 10);
    CHECK(p.fired_only_at(start + 10));
}

Test(clock_jumps, back_through_the_clock_layer_is_ignored_too) {
    using namespace std::chrono_literals;
    tvec::manual_clock::set(tvec::manual_clock::time_point(10s));
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>> timers;
    tvec::manual_clock::advance(1s);
    timers.run();
    tvec::manual_clock::advance(-500ms);
    CHECK_EQ(timers.run().fired, 0);
    CHECK_EQ(timers.wheel().count().clock_backward, 1);
    CHECK_EQ(timers.wheel().now(), 1000);
}

Test(clock_jumps, over_a_night_asleep_fire_once_and_report_the_beats_missed) {
    using namespace std::chrono_literals;
    tvec::manual_clock::set(tvec::manual_clock::time_point(10s));
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>> timers;
    probe once, beat;
    jiffies missed = 0;
    beat.then = [&](timer_wheel&) { missed = timers.arm_next(beat.t, 20ms); };
    timers.arm_after(once.t, 1s);
    timers.arm_after(beat.t, 20ms);
    tvec::manual_clock::advance(8h + 5ms);
    CHECK_EQ(timers.run().fired, 2);
    CHECK_EQ(missed, 8 * 3'600'000 / 20 - 1);
    CHECK(once.fired_only_at(1'000));
    tvec::manual_clock::advance(15ms);
    CHECK_EQ(timers.run().fired, 1);
    CHECK_EQ(missed, 0);
}

Test(clock_jumps, forward_fires_each_due_timer_once_and_visits_no_more) {
    for (const jiffies jump : {jiffies{3'600'000}, jiffies{1} << 35, jiffies{1} << 40}) {
        timer_wheel wheel(99);
        auto all = support::probes(100);
        for (std::size_t i = 0; i < all.size(); ++i) wheel.arm_after(all[i]->t, 1 + i * 36'000);
        wheel.advance(99 + jump);
        for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i]->fired_only_at(100 + i * 36'000));
        CHECK_LE(support::visits(wheel), 100 * 6);
    }
}

Test(clock_jumps, by_a_lap_of_any_level_are_exact) {
    for (const jiffies start : support::starts())
        for (const unsigned power : {8u, 14u, 20u, 26u, 32u})
            for (const unsigned off : {0u, 1u, 2u}) {
                const jiffies lap = (jiffies{1} << power) - 1 + off;
                timer_wheel wheel(start);
                probe at_end, after;
                wheel.arm_after(at_end.t, lap);
                wheel.arm_after(after.t, lap + 1);
                wheel.advance(start + lap);
                REQUIRE(at_end.fired_only_at(start + lap));
                REQUIRE_EQ(after.fired(), 0);
                wheel.advance(start + lap + 1);
                REQUIRE_EQ(after.fired(), 1);
            }
}

#ifndef NDEBUG  // these are assertions

namespace {

using namespace std::chrono_literals;
constexpr const char* beyond = "tvec: the wheel() of a clocked_wheel was advanced beyond its clock";

// Returns the message about a wheel that is an hour ahead of its clock.
template <class F> std::string said_of_a_lead(F act) {
    return support::last_words([&] {
        tvec::clocked_wheel timers;
        timers.wheel().advance(3'600'000);
        act(timers);
    });
}

}  // namespace

Test(clock_jumps, that_a_program_makes_with_a_wheel_beyond_a_steady_clock_are_told) {
    const auto watch = [](const timer_wheel::due_callback& fire) { fire(); };
    CHECK(said_of_a_lead([](auto& timers) { timers.run(); }).starts_with(beyond));
    CHECK(said_of_a_lead([&](auto& timers) { timers.run_watched(watch); }).starts_with(beyond));
    CHECK(said_of_a_lead([](auto& timers) {
              tvec::timer t;
              timers.arm_after(t, 5ms);
          }).starts_with(beyond));
    CHECK(said_of_a_lead([](auto& timers) {
              tvec::timer t;
              timers.arm_within(t, 5ms, 6ms);
          }).starts_with(beyond));
}

Test(clock_jumps, back_of_a_clock_that_is_not_steady_are_none_of_them) {
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>> timers;
    tvec::manual_clock::advance(1h);
    timers.run();
    tvec::manual_clock::advance(-1min);
    tvec::timer t;
    timers.arm_after(t, 5ms);
    timers.run();
    CHECK_EQ(timers.wheel().count().clock_backward, 1);
}

#endif
