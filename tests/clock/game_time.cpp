// Game time: any speed, pauses, steps; wheels that share a clock or have one each; and the same
// order of fires for the same inputs.
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/child.hpp"
#include "support/environment.hpp"
#include "tvec/clock/game_clock.hpp"
#include "tvec/coroutines/interval.hpp"
#include "tvec/pool/timeout_pool.hpp"

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using tvec::manual_clock;

TestSuite(game_time, .timeout = 60);

namespace {

using clock_type = tvec::game_clock<manual_clock>;
using ticks_type = tvec::game_ticks<std::chrono::milliseconds, manual_clock>;
using wheel_type = tvec::clocked_wheel<ticks_type>;

nanoseconds time_of(const clock_type& clock) { return clock.now().time_since_epoch(); }

struct zone {
    explicit zone(const clock_type& clock) : timers(ticks_type(clock)), pool(timers) {}

    std::size_t pass(nanoseconds d) {
        manual_clock::advance(d);
        return timers.run().fired;
    }
    wheel_type timers;
    tvec::timeout_pool<wheel_type> pool;
};

}  // namespace

// What people write for slow motion.
Test(game_time, takes_a_speed_as_a_fraction_or_as_a_number) {
    manual_clock::set({});
    clock_type clock;
    std::chrono::nanoseconds expected{};
    const auto runs = [&](auto change, std::chrono::nanoseconds in_a_second) {
        change();
        manual_clock::advance(1s);
        expected += in_a_second;
        CHECK((clock.now().time_since_epoch() == expected));
    };
    runs([&] { clock.set_speed(0.5); }, 500ms);
    runs([&] { clock.set_speed(1.5f); }, 1500ms);
    runs([&] { clock.set_speed(0.25L); }, 250ms);
    runs([&] { clock.set_speed(3, 4L); }, 750ms);
    runs([&] { clock.set_speed(0.0); }, 0ms);
    runs([&] { clock.set_speed(2.0); }, 2s);
    runs([&] { clock.set_speed(1e6); }, 1'000'000s);
    clock.set_speed(0.1);
    manual_clock::advance(1'000'000'000s);
    const auto off = clock.now().time_since_epoch() - expected - 100'000'000s;
    CHECK(off > -1s && off < 1s);
}

#ifndef NDEBUG
Test(game_time, does_not_run_backwards) {
    for (const double speed : {-1.0, -0.5}) {
        clock_type clock;
        const std::string said = support::last_words(
            [&] { speed == -1 ? clock.set_speed(-1) : clock.set_speed(speed); });
        CHECK(said.find("game time does not run backwards") != std::string::npos);
    }
}
#endif

Test(game_time, runs_at_its_speed_and_stands_still_while_it_is_paused) {
    clock_type clock;
    CHECK(time_of(clock) == 0ns);
    manual_clock::advance(10ms);
    CHECK(time_of(clock) == 10ms);
    clock.set_speed(5, 2);
    manual_clock::advance(10ms);
    CHECK(time_of(clock) == 35ms);
    clock.pause();
    clock.pause();
    CHECK(clock.paused());
    manual_clock::advance(1h);
    CHECK(time_of(clock) == 35ms);
    clock.step(5ms);
    CHECK(time_of(clock) == 40ms);
    clock.resume();
    manual_clock::advance(2ms);
    clock.resume();
    CHECK(time_of(clock) == 45ms);
    clock.set_speed(0);
    manual_clock::advance(1h);
    CHECK(time_of(clock) == 45ms);
    clock.set_speed(1);
    clock.step(1ms);
    manual_clock::advance(1ms);
    CHECK(time_of(clock) == 47ms);
    clock.set(clock_type::time_point(3ms));
    manual_clock::advance(1ms);
    CHECK(time_of(clock) == 4ms);
}

Test(game_time, loses_less_than_a_nanosecond_at_each_change_and_never_goes_back) {
    constexpr std::uint64_t all = 60;  // which each denominator divides
    constexpr std::uint32_t denominators[] = {1, 2, 3, 4, 5, 60};
    std::mt19937_64 random(7);
    for (int round = 0; round < 50; ++round) {
        clock_type clock;
        std::uint64_t sixtieths = 0;  // of a nanosecond
        std::uint32_t num = 1, den = 1;
        bool paused = false;
        auto before = clock.now();
        for (std::uint64_t changes = 1; changes <= 100; ++changes) {
            const std::uint64_t d = random() % 100'000'000;
            manual_clock::advance(nanoseconds(d));
            if (!paused) sixtieths += d * num * (all / den);
            const auto shown = static_cast<std::uint64_t>(time_of(clock).count());
            CHECK(shown * all <= sixtieths && sixtieths < (shown + changes) * all);
            CHECK(before <= clock.now());
            before = clock.now();
            paused = random() % 3 == 0;
            paused ? clock.pause() : clock.resume();
            num = static_cast<std::uint32_t>(random() % 100);
            den = denominators[random() % std::size(denominators)];
            clock.set_speed(num, den);
            CHECK(before == clock.now());
        }
    }
}

Test(game_time, base_time_is_the_first_at_which_the_clock_shows_a_time) {
    std::mt19937_64 random(9);
    for (int round = 0; round < 2'000; ++round) {
        clock_type clock;
        clock.set_speed(1 + static_cast<std::uint32_t>(random() >> (32 + random() % 32)),
                        1 + static_cast<std::uint32_t>(random() >> (33 + random() % 31)));
        const auto base = manual_clock::now();
        const auto wanted = clock.now() + nanoseconds(1 + random() % 1'000'000'000'000);
        const auto there = clock.base_time(wanted);
        if (there == manual_clock::time_point::max()) continue;
        manual_clock::set(there);
        CHECK(clock.now() >= wanted);
        manual_clock::set(there - 1ns);
        CHECK(clock.now() < wanted);
        manual_clock::set(base);
    }
}

Test(game_time, base_time_has_no_limit_while_the_clock_stands_still_and_is_past_for_the_past) {
    manual_clock::set(manual_clock::time_point(5s));
    clock_type clock;
    const auto soon = clock.now() + 1ns;
    clock.pause();
    CHECK(clock.base_time(soon) == manual_clock::time_point::max());
    CHECK(clock.base_time(clock.now()) <= manual_clock::now());
    clock.resume();
    clock.set_speed(0);
    CHECK(clock.base_time(soon) == manual_clock::time_point::max());
    clock.set_speed(1, 4'000'000'000);
    CHECK(clock.base_time(clock_type::time_point::max()) == manual_clock::time_point::max());
    clock.set_speed(4'000'000'000);
    manual_clock::advance(10h);
    CHECK(clock.now() == clock_type::time_point::max());  // saturates
}

Test(game_time, timers_and_pools_count_in_game_time) {
    clock_type clock;
    zone z(clock);
    clock.set_speed(1, 4);
    tvec::timer t;
    z.timers.arm_after(t, 10ms);
    z.timers.arm_within(t, 10ms, 11ms);
    const auto h = z.pool.schedule(20ms, [] {}).handle;
    CHECK_EQ(z.pass(39ms), 0);
    CHECK(*z.pool.remaining(h) == 20ms - 39'000us / 4);
    CHECK(z.timers.after(1ms) - clock.now() == 1ms);
    CHECK_EQ(z.pass(5ms), 1);
    clock.pause();
    CHECK_EQ(z.pass(1h), 0);
    clock.step(8ms);
    CHECK_EQ(z.pass(0ms), 0);
    clock.step(1ms);
    CHECK_EQ(z.timers.run_until(z.timers.after(1ms)).fired, 1);
}

Test(game_time, periods_of_pools_and_coroutines_are_of_game_time) {
    clock_type clock;
    zone z(clock);
    clock.set_speed(10);
    int beats = 0;
    z.pool.schedule_every(clock.now() + 5ms, 10ms, [&] { ++beats; });
    tvec::interval every(z.timers, 10ms);
    for (int i = 0; i < 100; ++i) z.pass(1ms);
    CHECK_EQ(beats, 100);
}

Test(game_time, wheels_share_a_clock_or_have_one_each) {
    clock_type world, dungeon;
    zone meadow(world), forest(world), cave(dungeon);
    std::vector<char> fired;
    meadow.pool.schedule(10ms, [&] { fired.push_back('m'); });
    forest.pool.schedule(10ms, [&] { fired.push_back('f'); });
    cave.pool.schedule(10ms, [&] { fired.push_back('c'); });
    world.pause();
    manual_clock::advance(10ms);
    for (zone* z : {&meadow, &forest, &cave}) z->timers.run();
    CHECK(fired == std::vector<char>{'c'});
    world.step(10ms);
    for (zone* z : {&meadow, &forest, &cave}) z->timers.run();
    CHECK(fired == (std::vector<char>{'c', 'm', 'f'}));
}

namespace {

using trace = std::vector<std::tuple<int, tvec::jiffies, std::size_t>>;  // zone, tick, timer

// Plays two zones by steps of frames. The base clock goes on by `jitter` meanwhile.
trace play(nanoseconds jitter) {
    std::mt19937_64 random(3);
    clock_type fast, slow;
    fast.pause();
    slow.pause();
    zone zones[] = {zone(fast), zone(slow)};
    trace fired;
    std::size_t scheduled = 0;
    const auto schedule = [&](int which) {
        zone& z = zones[which];
        z.pool.schedule(nanoseconds(random() % 3'000'000'000), [&, which, n = scheduled++] {
            fired.emplace_back(which, zones[which].timers.wheel().now(), n);
        });
    };
    for (int frame = 0; frame < 600; ++frame) {
        for (int i = 0; i < 10; ++i) schedule(static_cast<int>(random() % 2));
        fast.step(nanoseconds(1'000'000'000 / 60));
        slow.step(nanoseconds(1'000'000'000 / 240));
        for (zone& z : zones) z.pass(jitter * (1 + frame % 7));
    }
    return fired;
}

}  // namespace

Test(game_time, the_same_steps_fire_in_the_same_order_whatever_the_base_clock_does) {
    const trace once = play(0ns);
    CHECK_GE(once.size(), 3'000);
    CHECK(once == play(123us));
}
