// Cases for tests/programs/mistakes.py, which compiles each by itself.

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

// --- a_point_in_time_after_a_number
// says: a duration: 1500ms, not 1.5s
// lines: 5
const auto deadline = tvec::clocked_wheel<>::after(20);

// --- arm_at_of_the_object_around_the_timer
// says: a timer, not its owner or address: c.idle
// lines: 4
struct connection {
    tvec::timer idle;
};
void begin(tvec::clocked_wheel<>& timers, connection& c) { timers.arm_at(c, timers.now()); }

// --- game_clock_that_is_copied
// says: a reference: wheels refer to their clock
// lines: 5
tvec::game_clock<> world;
tvec::game_clock<> other = world;

// --- game_ticks_of_a_clock_that_ends
// says: a clock that outlives it
// lines: 5
const tvec::game_ticks<std::chrono::milliseconds> ticks{tvec::game_clock<>{}};

// --- game_ticks_without_a_clock
// says: a clock: clocked_wheel timers{game_ticks<milliseconds>(world)}
// lines: 12
tvec::clocked_wheel<tvec::game_ticks<std::chrono::milliseconds>> timers;

// --- game_clock_that_runs_backwards
// clang++ says: a speed from 0 on: pause() stops a clock
// lines: 1
void rewind(tvec::game_clock<>& world) { world.set_speed(-1); }

// --- game_clock_that_runs_backwards_by_a_fraction
// clang++ says: a speed from 0 on: pause() stops a clock
// lines: 1
void rewind(tvec::game_clock<>& world) { world.set_speed(-0.5); }

// --- game_clock_at_all_speeds
// legal: a speed may be any number from 0 on
void drive(tvec::game_clock<>& world, int i, double d) {
    world.set_speed(0);
    world.set_speed(1u, 3);
    world.set_speed(0.5);
    world.set_speed(i, 2);
    world.set_speed(d);
}

// --- runtime_tick_that_is_a_frame
// says: whole units of the clock: 5ms
// lines: 6
using frame = std::chrono::duration<std::int64_t, std::ratio<1, 60>>;
const tvec::runtime_tick_clock<> ticks(frame(1));

// --- runtime_tick_that_is_a_number
// says: whole units of the clock: 5ms
// lines: 6
const tvec::runtime_tick_clock<> ticks(5);

// --- scaled_wheel_of_a_temporary
// says: a wheel that outlives it
// lines: 12
tvec::scaled_wheel<tvec::clocked_wheel<>> idle(tvec::clocked_wheel<>{}, 55s);

// --- timers_advance
// says: instead of advance: run(), which reads the clock
// lines: 4
void turn(tvec::clocked_wheel<>& timers) { timers.advance(10); }

// --- timers_arm
// says: instead of arm: arm_after(t, 30s), or arm_at(t, deadline)
// lines: 4
void begin(tvec::clocked_wheel<>& timers, tvec::timer& t) {
    timers.arm(t, std::chrono::seconds(1));
}

// --- timers_cancel
// says: instead of cancel: a timer cancels itself, t.cancel()
// lines: 4
void end(tvec::clocked_wheel<>& timers, tvec::timer& t) { timers.cancel(t); }

// --- timers_empty
// says: instead of empty: any_pending(), or count_pending()
// lines: 4
void finish(tvec::clocked_wheel<>& timers) {
    while (!timers.empty()) timers.run();
}

// --- timers_schedule
// says: instead of schedule: arm_after(t, 30s); functions are scheduled in a timeout_pool
// lines: 4
auto begin(tvec::clocked_wheel<>& timers) {
    const auto handle = timers.schedule(std::chrono::seconds(1), [] {});
    return handle;
}

// --- wheel_of_a_duration
// says: ticks: clocked_wheel t{runtime_tick_clock(10ms)}
// lines: 6
tvec::clocked_wheel timers{std::chrono::milliseconds(10)};

// --- wheel_of_durations
// says: a clocked_wheel is made of a tick_clock
// lines: 3
tvec::clocked_wheel<std::chrono::microseconds> w;

// --- wheel_of_half_a_second
// says: ticks: clocked_wheel t{runtime_tick_clock(10ms)}
// lines: 6
tvec::clocked_wheel timers{0.5s};

// --- wheel_on_the_system_clock
// legal: its timers jump as that clock does, which a program may want
tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, std::chrono::system_clock>> w;

// --- wheel_with_ticks_of_doubles
// says: a tick is a duration that counts in integers
// lines: 4
tvec::clocked_wheel<tvec::tick_clock<std::chrono::duration<double>>> w;

// --- wheel_without_its_runtime_tick
// says: a tick: clocked_wheel timers(runtime_tick_clock(5ms))
// lines: 8
tvec::clocked_wheel<tvec::runtime_tick_clock<>> timers;
