// All timers of a player: paused while the connection is lost, gone with the player.
#include <cstdio>
#include <memory>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

struct player {
    void on_regain() { health += 10; }

    int health = 50;
    tvec::timer_group timers;
    tvec::grouped_timer regain{timers, tvec::call<&player::regain, &player::on_regain>};
};

int main() {
    // [life]
    tvec::clocked_wheel timers;
    tvec::timeout_pool pool(timers);
    auto hero = std::make_unique<player>();
    timers.arm_after(hero->regain, 20ms);
    (void)pool.schedule_every(8ms,
                              hero->timers.add([&who = *hero] { who.health -= 1; }));  // poison

    hero->timers.pause(timers);   // the connection is lost: nothing of the player's runs
    hero->timers.resume(timers);  // it is back: what was left of the 20 and the 8 ms is left
    // [life]
    while (hero->regain.pending()) timers.run();
    std::printf("health %d, and %zu timer left\n", hero->health, hero->timers.count());
    const bool fine = hero->health < 60 && hero->timers.count() == 1;

    hero.reset();  // the player leaves: the poison is cancelled
    return fine && pool.pending() == 0 ? 0 : 1;
}
