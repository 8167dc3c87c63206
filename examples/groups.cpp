// All timers of a player: effects in an array, poison that makes up for a lag spike, an event that
// is made before its target is known. They are paused while the connection is lost, and gone with
// the player.
#include <array>
#include <cstdio>
#include <memory>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

using wheel = tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>>;

struct player {
    explicit player(wheel& of_the_world) : world(of_the_world) {}

    // [lag]
    void on_poison() {
        const auto missed = world.arm_next(poison, 500ms);  // 5 of them after a frame of 3 s
        health -= 2 * (1 + static_cast<int>(missed));
    }
    // [lag]
    // [effect]
    void on_effect(tvec::grouped_timer& t) { ended = &t - effects.data(); }  // which of them
    // [effect]

    wheel& world;
    int health = 50;
    std::ptrdiff_t ended = -1;
    // [members]
    tvec::timer_group timers;  // declared before its members
    tvec::grouped_timer poison{timers, tvec::call<&player::poison, &player::on_poison>};
    std::array<tvec::grouped_timer, 20> effects{
        tvec::call_each<&player::effects, &player::on_effect>(timers)};
    // [members]
};

// [move]
// Arms what is left of all running timers anew, `by` times as long: in another zone, or here, where
// a unit is slower from now on, and its callbacks arm longer delays too. After a frame's `run`.
void move(tvec::timer_group& timers, wheel& from, wheel& to, tvec::jiffies by) {
    timers.for_each([&](const tvec::timer_group::member& m) {
        if (m.paused || m.timer == nullptr) return;
        const tvec::jiffies left = m.expires - from.ticks().now();
        to.wheel().arm_at(*m.timer, to.ticks().now() + left * by);
    });
}
// [move]

struct arrow {
    void on_arrival() { target->health -= 10; }
    player* target = nullptr;
    tvec::grouped_timer arrival{tvec::call<&arrow::arrival, &arrow::on_arrival>};  // in no group
};

int main() {
    wheel world;
    const auto frame_of = [&world](std::chrono::milliseconds length) {
        tvec::manual_clock::advance(length);
        world.run();
    };
    auto hero = std::make_unique<player>(world);

    // [life]
    world.arm_after(hero->poison, 500ms);
    world.arm_after(hero->effects[7], 5s);
    arrow shot;
    world.arm_after(shot.arrival, 800ms);
    shot.target = hero.get();  // somebody runs into its way
    shot.arrival.join(hero->timers);

    hero->timers.pause(world);   // the connection is lost: nothing of the player's runs
    frame_of(60s);               // ... for a minute
    hero->timers.resume(world);  // it is back: what was left of the times is left
    // [life]
    for (int i = 0; i < 60; ++i) frame_of(16ms);
    const int after_a_second = hero->health;
    frame_of(3s);  // a lag spike
    const int after_the_spike = hero->health;
    for (int i = 0; i < 120; ++i) frame_of(16ms);
    std::printf("health %d, %d and %d\n", after_a_second, after_the_spike, hero->health);
    const bool fine = after_a_second == 50 - 10 - 2 && after_the_spike == after_a_second - 12 &&
                      hero->ended == 7 && hero->timers.count() == 1;

    wheel dungeon;
    player scout(dungeon);
    world.arm_after(scout.effects[3], 1s);
    move(scout.timers, world, dungeon, 2);  // it walks into the dungeon, and is half as fast there
    tvec::manual_clock::advance(1999ms);
    dungeon.run();
    const bool is_waiting = scout.ended == -1;
    tvec::manual_clock::advance(1ms);
    dungeon.run();
    const bool has_moved = is_waiting && scout.ended == 3;

    hero.reset();  // the player leaves: the poison is cancelled
    return fine && has_moved && !world.any_pending() ? 0 : 1;
}
