// A world and a dungeon, each with a clock of its own: at full speed and in slow motion. The loop
// sleeps for as long as the clocks say. Then a match that is stepped by the frame, and slower,
// with a burn in frames and a poison in milliseconds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

namespace {

struct zone {
    zone() { clock.resume(); }

    tvec::game_clock<> clock;  // paused at 0 until then
    tvec::clocked_wheel<tvec::game_ticks<std::chrono::milliseconds>> timers{
        tvec::game_ticks<std::chrono::milliseconds>(clock)};
    tvec::timeout_pool<decltype(timers)> pool{timers};

    // The real time until which the loop may sleep for this zone.
    std::chrono::steady_clock::time_point wakeup() {
        const auto next = timers.next_wakeup();
        return next ? clock.base_time(*next) : std::chrono::steady_clock::time_point::max();
    }
};

}  // namespace

int main() {
    // [zones]
    zone world, dungeon;
    unsigned spawned = 0, exploded = 0;
    (void)world.pool.schedule_every(20ms, [&] { ++spawned; });
    (void)dungeon.pool.schedule(10ms, [&] { ++exploded; });
    dungeon.clock.set_speed(1, 4);  // slow motion: 40 ms for the players

    while (exploded == 0) {
        std::this_thread::sleep_until(std::min(world.wakeup(), dungeon.wakeup()));
        for (zone* z : {&world, &dungeon}) z->timers.run();  // in the same order every time
    }
    // [zones]
    std::printf("%u spawned until it exploded\n", spawned);

    using frame = std::chrono::duration<std::int64_t, std::ratio<1, 72>>;
    using tick = std::common_type_t<frame, std::chrono::milliseconds>;
    tvec::game_clock<> match;
    tvec::clocked_wheel timers{tvec::game_ticks<tick>(match)};
    unsigned burns = 0, bites = 0;
    tvec::callback_timer burn{[&](auto&, tvec::timer& self) {
        ++burns;
        timers.arm_after(self, frame(3));
    }};
    timers.arm_after(burn, frame(3));
    tvec::callback_timer poison{[&](auto&, tvec::timer& self) {
        bites += 1 + static_cast<unsigned>(timers.arm_next(self, 100ms));  // 7.2 frames
    }};
    timers.arm_after(poison, 100ms);
    const auto play = [&](int frames, int percent) {
        for (int i = 0; i < frames; ++i) {
            // [slow]
            using game_time = tvec::game_clock<>::duration;  // counts in ninths of a nanosecond
            match.step(game_time(frame(1)) * percent / 100);
            // [slow]
            timers.run();
        }
    };
    play(72, 100);
    const unsigned of_a_second = burns;
    play(288, 25);
    std::printf("%u burns in a second, and %u in one of slow motion; %u bites\n", of_a_second,
                burns - of_a_second, bites);
    return spawned >= 1 && of_a_second == 24 && burns == 48 && bites == 20 ? 0 : 1;
}
