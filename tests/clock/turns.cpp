// turn_clock: one reading for a turn of the loop, none that outlives a sleep, and nothing early by
// the turn's reading.
#include <thread>

#include "support/check.hpp"
#include "support/probe.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/clock/game_clock.hpp"
#include "tvec/clock/turn_clock.hpp"
#include "tvec/coroutines/sleep.hpp"
#include "tvec/pool/timeout_pool.hpp"

using namespace std::chrono_literals;
using support::probe;
using tvec::manual_clock;
using time_point = manual_clock::time_point;

TestSuite(turns, .timeout = 60);

namespace {

// A clock that a test moves, and that counts who reads it.
struct counted_clock : manual_clock {
    static time_point now() noexcept {
        ++readings;
        return manual_clock::now();
    }
    static inline int readings = 0;
};
using turns_of_test = tvec::turn_clock<counted_clock>;
using turning_wheel =
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, turns_of_test>>;

template <class F> int readings_of(F f) {
    const int before = counted_clock::readings;
    f();
    return counted_clock::readings - before;
}

time_point point(std::chrono::nanoseconds since) { return time_point(since); }

// Clocks are those of a thread, and other tests may share it.
struct turns_at_zero {
    turns_at_zero() {
        turns_of_test::end_turn();
        manual_clock::set(point(0ns));
    }
    ~turns_at_zero() { turns_of_test::end_turn(); }
};

}  // namespace

Test(turns, all_calls_of_a_turn_share_a_reading) {
    const turns_at_zero begin;
    turning_wheel timers;
    probe a;
    CHECK_EQ(readings_of([&] { timers.begin_turn(); }), 1);
    manual_clock::set(point(5ms));
    CHECK_EQ(readings_of([&] {
                 for (int i = 0; i < 100; ++i) timers.arm_after(a.t, 20ms);
                 timers.arm_if_earlier(a.t, timers.after(10ms));
                 CHECK(timers.remaining(a.t) == 10ms);
             }),
             0);
    CHECK(timers.deadline(a.t) == point(10ms));  // from the turn, and not from the call
}

Test(turns, run_reads_once_and_its_callbacks_share_it) {
    const turns_at_zero begin;
    turning_wheel timers;
    probe a, b;
    a.then = [&](tvec::timer_wheel&) {
        manual_clock::advance(3ms);
        timers.arm_after(b.t, 10ms);
    };
    timers.arm_after(a.t, 10ms);
    timers.begin_turn();
    manual_clock::set(point(10ms));
    CHECK_EQ(readings_of([&] { CHECK_EQ(timers.run().fired, 1); }), 1);
    CHECK(timers.deadline(b.t) == point(20ms));
}

Test(turns, nothing_fires_before_the_reading_plus_its_delay) {
    const turns_at_zero begin;
    turning_wheel timers;
    for (auto phase = 0ns; phase < 1ms; phase += 99'999ns) {
        probe a;
        manual_clock::advance(phase);
        timers.begin_turn();
        const time_point due = manual_clock::now() + 5ms;
        manual_clock::advance(300us);
        timers.arm_after(a.t, 5ms);
        manual_clock::set(due - 1ns);
        CHECK_EQ(timers.run().fired, 0);
        manual_clock::set(due + 1ms);
        CHECK_EQ(timers.run().fired, 1);
    }
}

Test(turns, no_reading_outlives_a_sleep) {
    const turns_at_zero begin;
    turning_wheel timers;
    probe a;
    timers.begin_turn();
    CHECK(!timers.next_wakeup());  // a loop that asks will sleep
    manual_clock::set(point(1h));
    timers.arm_after(a.t, 10ms);
    CHECK(timers.deadline(a.t) == point(1h + 10ms));
}

Test(turns, each_call_reads_before_the_first_turn) {
    const turns_at_zero begin;
    turning_wheel timers;
    probe a;
    manual_clock::set(point(7ms));
    timers.arm_after(a.t, 10ms);
    CHECK(timers.deadline(a.t) == point(17ms));
}

Test(turns, run_until_ends_though_callbacks_share_a_reading) {
    const turns_at_zero begin;
    turning_wheel timers;
    const auto all = support::probes(10);
    for (auto& p : all) {
        p->then = [](tvec::timer_wheel&) { manual_clock::advance(1ms); };
        timers.arm_after(p->t, 10ms);
    }
    manual_clock::set(point(10ms));
    CHECK_EQ(timers.run_until(point(13ms)).fired, 3);
}

Test(turns, a_thread_has_turns_of_its_own) {
    const turns_at_zero begin;
    turning_wheel timers;
    timers.begin_turn();
    std::thread([] {
        manual_clock::set(point(1h));
        CHECK(turns_of_test::now() == point(1h));
    }).join();
    manual_clock::set(point(2h));
    CHECK(turns_of_test::now() == point(0ns));
}

Test(turns, pools_and_coroutines_take_the_reading_of_the_turn) {
    const turns_at_zero begin;
    turning_wheel timers;
    tvec::timeout_pool pool(timers);
    timers.begin_turn();
    manual_clock::set(point(4ms));
    int ran = 0;
    CHECK_EQ(readings_of([&] {
                 pool.schedule(10ms, [&] { ++ran; });
                 (void)tvec::sleep_for(timers, 10ms);
             }),
             0);
    manual_clock::set(point(10ms));
    timers.run();
    CHECK_EQ(ran, 1);
}

Test(turns, a_game_clock_follows_the_turn) {
    const turns_at_zero begin;
    tvec::game_clock<turns_of_test> world;
    tvec::clocked_wheel timers{tvec::game_ticks<std::chrono::milliseconds, turns_of_test>(world)};
    probe a;
    timers.begin_turn();
    manual_clock::set(point(5ms));
    CHECK_EQ(readings_of([&] { timers.arm_after(a.t, 10ms); }), 0);
    manual_clock::set(point(10ms));
    CHECK_EQ(timers.run().fired, 1);
}
