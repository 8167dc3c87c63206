#include <cstdio>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

struct player {
    void on_regain() { std::puts("healthy again"); }
    tvec::timer_group timers;  // all of them end with the player
    tvec::grouped_timer regain{timers, tvec::call<&player::regain, &player::on_regain>};
};

int main() {
    tvec::game_clock<> world;
    tvec::clocked_wheel timers{tvec::game_ticks<std::chrono::milliseconds>(world)};
    player hero;
    timers.arm_after(hero.regain, 1s);
    world.resume();                                 // from here on game time passes
    world.set_speed(50);                            // 20 ms for those who play
    while (hero.timers.count() != 0) timers.run();  // once per frame
}
