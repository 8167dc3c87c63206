// A world and a dungeon, each with a clock of its own: at full speed, in slow motion, paused, and
// in steps. The loop sleeps for as long as the clocks say.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

namespace {

using frame = std::chrono::duration<std::int64_t, std::ratio<1, 60>>;

struct zone {
    tvec::game_clock<> clock;
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
    const bool fine = spawned >= 1;

    world.clock.pause();  // from now on time passes only by the frame
    const unsigned before = spawned;
    for (int i = 0; i < 60; ++i) {
        world.clock.step(frame(1));
        world.timers.run();
    }
    std::printf("%u spawned in 60 frames\n", spawned - before);
    return fine && spawned - before >= 50 ? 0 : 1;
}
