// The timeout of a wait in whole milliseconds, on clocks that are moved by hand.
#include <chrono>
#include <climits>

#include "support/check.hpp"
#include "support/probe.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/extra/game_clock.hpp"
#include "tvec/extra/turn_clock.hpp"

using namespace std::chrono_literals;
using tvec::manual_clock;

TestSuite(waiting, .timeout = 60);

namespace {

template <class Tick> using wheel_of = tvec::clocked_wheel<tvec::tick_clock<Tick, manual_clock>>;
using fine_wheel = wheel_of<std::chrono::microseconds>;

}  // namespace

Test(waiting, an_empty_wheel_has_no_timeout) {
    wheel_of<std::chrono::milliseconds> timers;
    CHECK_EQ(timers.wait_ms(), -1);
    tvec::timer never;
    timers.wheel().arm_at(never, tvec::never);
    CHECK_EQ(timers.wait_ms(), -1);
}

Test(waiting, a_timeout_is_rounded_up_and_never_early) {
    for (const auto delay : {1us, 999us, 1'000us, 1'001us, 1'999us, 2'000us, 200'001us}) {
        fine_wheel timers;
        tvec::timer t;
        timers.arm_after(t, delay);
        const auto wakeup = *timers.next_wakeup() - manual_clock::now();
        const auto timeout = std::chrono::milliseconds(timers.wait_ms());
        CHECK(timeout >= wakeup);
        CHECK(timeout - 1ms < wakeup);
    }
}

Test(waiting, a_timeout_is_zero_once_timers_are_due) {
    fine_wheel timers;
    tvec::timer t[3];
    for (tvec::timer& each : t) timers.arm_after(each, 5us);
    manual_clock::advance(5us);
    CHECK_EQ(timers.wait_ms(), 0);
    manual_clock::advance(1h);
    CHECK_EQ(timers.wait_ms(), 0);
}

Test(waiting, work_left_over_has_a_timeout_of_zero) {
    manual_clock::set(manual_clock::time_point(10h));
    fine_wheel timers;
    support::probe a, b;
    timers.arm_after(a.t, 5us);
    timers.arm_after(b.t, 5us);
    manual_clock::advance(5us);
    CHECK(!timers.run(1).caught_up);
    CHECK_EQ(timers.wait_ms(), 0);
    manual_clock::set(manual_clock::time_point(1h));  // also on a clock that has gone back
    CHECK_EQ(timers.wait_ms(), 0);
}

Test(waiting, a_timeout_is_clamped_to_an_int) {
    wheel_of<std::chrono::days> timers;
    tvec::timer t;
    timers.arm_after(t, 24h * 200);
    CHECK_EQ(timers.wait_ms(), INT_MAX);
}

Test(waiting, game_time_is_waited_for_in_real_time) {
    tvec::game_clock<manual_clock> world;
    tvec::clocked_wheel timers{tvec::game_ticks<std::chrono::milliseconds, manual_clock>(world)};
    tvec::timer t;
    timers.arm_after(t, 100ms);
    world.resume();
    CHECK_EQ(timers.wait_ms(), 100);
    world.set_speed(4);
    CHECK_EQ(timers.wait_ms(), 25);
    world.pause();
    CHECK_EQ(timers.wait_ms(), -1);
    world.resume();
    manual_clock::advance(10ms);
    CHECK_EQ(timers.wait_ms(), 15);
}

Test(waiting, a_turn_clock_reads_timeouts_anew) {
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::turn_clock<manual_clock>>>
        timers;
    tvec::timer t;
    timers.begin_turn();
    timers.arm_after(t, 100ms);
    manual_clock::advance(30ms);  // what a turn takes
    CHECK_EQ(timers.wait_ms(), 70);
}
