#include <cstdio>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;
using frame = std::chrono::duration<std::int64_t, std::ratio<1, 60>>;
using tick = std::common_type_t<frame, std::chrono::milliseconds>;  // both are whole ticks

struct player {
    void on_regain() { std::puts("healthy again"); }
    tvec::timer_group timers;  // all of them end with the player
    tvec::grouped_timer regain{timers, tvec::call<&player::regain, &player::on_regain>};
};

int main() {
    tvec::game_clock<> match;  // never resumed: its time is the frames that it is stepped by
    tvec::clocked_wheel timers{tvec::game_ticks<tick>(match)};
    player hero;
    timers.arm_after(hero.regain, 1s);  // in frame 60
    for (int i = 1; i <= 60; ++i) {     // the loop of the game: read the input, then
        match.step(frame(1));
        timers.run();
    }
}
