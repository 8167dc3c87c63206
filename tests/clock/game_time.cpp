// Game time: any speed, pauses, steps; wheels that share a clock or have one each; and the same
// order of fires for the same inputs.
#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/child.hpp"
#include "support/environment.hpp"
#include "tvec/extra/game_clock.hpp"
#include "tvec/pool/timeout_pool.hpp"

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using tvec::manual_clock;

TestSuite(game_time, .timeout = 60);

namespace {

using clock_type = tvec::game_clock<manual_clock>;
using ticks_type = tvec::game_ticks<std::chrono::milliseconds, manual_clock>;
using wheel_type = tvec::clocked_wheel<ticks_type>;

nanoseconds time_of(const clock_type& clock) {
    return std::chrono::floor<nanoseconds>(clock.now().time_since_epoch());
}

struct running_clock : clock_type {
    running_clock() { resume(); }
};

struct zone {
    explicit zone(const clock_type& clock) : timers(ticks_type(clock)), pool(timers) {}

    std::size_t pass(nanoseconds d) {
        manual_clock::advance(d);
        return timers.run().fired;
    }
    wheel_type timers;
    tvec::timeout_pool<wheel_type> pool;
};

double next_below(double speed) { return std::nextafter(speed, 0.0); }

// Returns a speed of any size, one at or just below a power of two, or one that steps add up to.
double any_speed(std::mt19937_64& random) {
    const auto power_of_two = [&] { return std::ldexp(1.0, static_cast<int>(random() % 74) - 41); };
    double speed = power_of_two();
    switch (random() % 4) {
    case 0:
        speed *= static_cast<double>(random() >> 11) * 0x1p-53;
        break;
    case 1:
        for (auto n = random() % 4; n > 0; --n) speed = next_below(speed);
        break;
    case 2:
        speed -= speed * std::ldexp(1.0, -static_cast<int>(random() % 54));
        break;
    default:
        const double step = 1 / static_cast<double>(1 + random() % 20);
        speed = 0;
        for (auto n = random() % 100; n > 0; --n) speed += step;
    }
    return std::min(speed, next_below(0x1p32));
}

tvec::detail::speed_fraction fraction_of(double speed) {
    return tvec::detail::nearest_fraction(std::bit_cast<std::uint64_t>(speed));
}
double value_of(tvec::detail::speed_fraction f) {
    return std::ldexp(f.numerator, -static_cast<int>(f.shift));
}

}  // namespace

// What people write for slow motion.
Test(game_time, speeds_may_be_fractions_or_numbers) {
    manual_clock::set({});
    running_clock clock;
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
    const auto off = time_of(clock) - expected - 100'000'000s;
    CHECK(off > -1s && off < 1s);
}

Test(game_time, a_speed_may_be_summed_from_steps) {
    double fifths = 0;
    for (int i = 0; i < 10; ++i) fifths += 0.2;
    REQUIRE(fifths == next_below(2));
    for (const double speed : {fifths, next_below(1), next_below(4), next_below(8), 2 - 1e-10}) {
        running_clock clock;
        clock.set_speed(speed);
        manual_clock::advance(1s);
        CHECK(time_of(clock) == nanoseconds(std::llround(speed * 1e9)));
    }
}

Test(game_time, any_speed_below_2_to_the_32_works) {
    std::mt19937_64 random(11);
    running_clock clock;
    for (int i = 0; i < 100'000; ++i) {
        const double speed = any_speed(random);
        const nanoseconds real(1 + random() % 200'000'000);
        clock.set_speed(speed);
        clock.set({});
        manual_clock::advance(real);
        const auto ns = static_cast<double>(real.count());
        const double off = static_cast<double>(time_of(clock).count()) - speed * ns;
        CHECK(std::abs(off) <= 1 + ns * std::max(speed, 1.0) * (0x1p-32 + 0x1p-51));
        CHECK((value_of(fraction_of(speed)) == 0) == (speed < 0x1p-32));
    }
}

Test(game_time, fractions_of_32_bits_keep_speeds_in_order) {
    std::mt19937_64 random(12);
    for (int i = 0; i < 100'000; ++i) {
        const double speed = any_speed(random), other = any_speed(random);
        const auto f = fraction_of(speed);
        CHECK(f.shift <= 31 && (f.numerator >= 1u << 31 || f.shift == 31 || f.shift == 0));
        CHECK(std::abs(value_of(f) - speed) <= std::max(speed, 1.0) * 0x1p-32);
        CHECK((speed <= other) || value_of(f) >= value_of(fraction_of(other)));
    }
    // Exact, the same on every machine, and for speeds that are too high the highest.
    const auto is = [](double speed, std::uint32_t numerator, unsigned shift) {
        const auto f = fraction_of(speed);
        CHECK(f.numerator == numerator && f.shift == shift);
    };
    is(0, 0, 31);
    is(next_below(0x1p-32), 0, 31);
    is(0x1p-32, 1, 31);
    is(0.1, 214'748'365, 31);
    is(next_below(2), 1u << 31, 30);
    is(2 - 0x1p-31, 0xffff'ffff, 31);
    is(0x1p32 - 1, 0xffff'ffff, 0);
    is(next_below(0x1p32), 0xffff'ffff, 0);
    is(HUGE_VAL, 0xffff'ffff, 0);
}

Test(game_time, the_highest_speeds_of_each_type_are_accepted) {
    const auto shows = [](auto speed) {
        running_clock clock;
        clock.set_speed(speed);
        manual_clock::advance(100ms);
        return time_of(clock) / 100ms;
    };
    CHECK_EQ(shows(4'294'967'295u), 4'294'967'295);
    CHECK_EQ(shows(std::int64_t{4'294'967'295}), 4'294'967'295);
    CHECK_EQ(shows(4294967295.0), 4'294'967'295);
    CHECK_EQ(shows(4294967295.6), 4'294'967'295);
    CHECK_EQ(shows(std::nextafter(0x1p32F, 0.0F)), 4'294'967'040);
    CHECK_EQ(shows(std::nextafter(0x1p32L, 0.0L)), 4'294'967'295);  // no double is so near
}

#ifndef NDEBUG
Test(game_time, a_speed_out_of_range_is_told) {
    const auto is_told = [](const char* what, auto... speed) {
        const std::string said = support::last_words([&] { clock_type().set_speed(speed...); });
        CHECK(said.find(what) != std::string::npos);
    };
    for (const double speed : {-1.0, -0.5, std::nan("")})
        is_told("game time does not run backwards", speed);
    is_told("game time does not run backwards", -1, 1);
    is_told("game time does not run backwards", std::int64_t{-1} << 40);
    for (const double speed : {0x1p32, 1e300, HUGE_VAL})
        is_told("a speed has at most 32 bits before its point", speed);
    is_told("a speed is a fraction with a numerator of 32 bits", std::uint64_t{1} << 32, 1);
    is_told("a speed is a fraction with a numerator of 32 bits", std::int64_t{1} << 40);
    is_told("a speed is a fraction with a positive denominator of 32 bits", 1, 0);
    is_told("a speed is a fraction with a positive denominator of 32 bits", 1, -1);
    is_told("a speed is a fraction with a positive denominator of 32 bits", 1,
            std::int64_t{1} << 32);
}
#endif

Test(game_time, game_time_stands_still_while_paused) {
    running_clock clock;
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

// A machine may be busy between any two lines.
Test(game_time, a_game_clock_begins_paused_at_zero) {
    clock_type clock;
    CHECK(clock.paused());
    manual_clock::advance(10ms);
    zone z(clock);
    manual_clock::advance(10ms);
    CHECK(clock.now() == clock_type::time_point());
    tvec::timer t;
    z.timers.arm_after(t, 5ms);
    CHECK(clock.base_time(z.timers.deadline(t)) == manual_clock::time_point::max());
    clock.pause();
    clock.step(4ms);
    CHECK_EQ(z.pass(1h), 0);
    clock.resume();
    manual_clock::advance(1ms - 1ns);
    CHECK(clock.now() == clock_type::time_point(5ms - 1ns));
    CHECK_EQ(z.pass(1ns), 1);
}

Test(game_time, a_step_of_one_frame_is_one_tick) {
    using frame = std::chrono::duration<std::int32_t, std::ratio<1, 60>>;  // no whole nanoseconds
    clock_type clock;
    tvec::game_ticks<frame, manual_clock> ticks(clock);
    for (tvec::jiffies n = 1; n <= 100'000; ++n) {
        clock.step(frame(1));
        REQUIRE_EQ(ticks.now(), n);
    }
    clock.step(frame(0));
    CHECK_EQ(ticks.now(), 100'000);
    clock.step(std::chrono::hours::max());
    CHECK(clock.now() == clock_type::time_point::max());
}

Test(game_time, game_time_loses_under_a_unit_per_change) {
    constexpr std::uint64_t all = 60;   // which each denominator divides
    constexpr std::uint64_t units = 9;  // in a nanosecond
    constexpr std::uint32_t denominators[] = {1, 2, 3, 4, 5, 60};
    std::mt19937_64 random(7);
    for (int round = 0; round < 50; ++round) {
        running_clock clock;
        std::uint64_t sixtieths = 0;  // of a unit
        std::uint32_t num = 1, den = 1;
        bool paused = false;
        auto before = clock.now();
        for (std::uint64_t changes = 1; changes <= 100; ++changes) {
            const std::uint64_t d = random() % 100'000'000;
            manual_clock::advance(nanoseconds(d));
            if (!paused) sixtieths += d * units * num * (all / den);
            const auto shown = static_cast<std::uint64_t>(clock.now().time_since_epoch().count());
            CHECK(shown * all <= sixtieths && sixtieths < (shown + changes) * all);
            CHECK(before <= clock.now());
            before = clock.now();
            paused = random() % 3 == 0;
            paused ? clock.pause() : clock.resume();
            num = static_cast<std::uint32_t>(random() % 100);
            den = denominators[random() % std::size(denominators)];
            if (std::has_single_bit(den) && random() % 2 == 0)
                clock.set_speed(static_cast<double>(num) / den);  // the same, exactly
            else
                clock.set_speed(num, den);
            CHECK(before == clock.now());
        }
    }
}

Test(game_time, base_time_is_when_a_time_first_shows) {
    std::mt19937_64 random(9);
    for (int round = 0; round < 4'000; ++round) {
        running_clock clock;
        if (round % 2 == 0)
            clock.set_speed(any_speed(random));
        else
            clock.set_speed(1 + static_cast<std::uint32_t>(random() >> (32 + random() % 32)),
                            1 + static_cast<std::uint32_t>(random() >> (33 + random() % 31)));
        const auto base = manual_clock::now();
        const auto wanted = clock.now() + nanoseconds(1 + (random() >> (8 + random() % 50)));
        const auto there = clock.base_time(wanted);
        if (there == manual_clock::time_point::max()) continue;
        manual_clock::set(there);
        CHECK(clock.now() >= wanted);
        manual_clock::set(there - 1ns);
        CHECK(clock.now() < wanted);
        manual_clock::set(base);
    }
}

Test(game_time, a_stopped_clocks_base_time_is_unbounded) {
    manual_clock::set(manual_clock::time_point(5s));
    running_clock clock;
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

Test(game_time, base_time_is_past_after_a_backward_step) {
    manual_clock::set(manual_clock::time_point(5s));
    running_clock clock;
    zone z(clock);
    tvec::timer due, left;
    z.timers.arm_after(due, 1ms);
    z.timers.arm_after(left, 1ms);
    manual_clock::set(manual_clock::time_point(2s));
    clock.step(1ms);
    CHECK(clock.base_time(clock.now()) <= manual_clock::now());
    CHECK(!z.timers.run(1).caught_up);
    CHECK(clock.base_time(*z.timers.next_wakeup()) <= manual_clock::now());
}

Test(game_time, timers_and_pools_count_in_game_time) {
    running_clock clock;
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

Test(game_time, periods_of_pools_are_of_game_time) {
    running_clock clock;
    zone z(clock);
    clock.set_speed(10);
    int beats = 0;
    z.pool.schedule_every(clock.now() + 5ms, 10ms, [&] { ++beats; });
    for (int i = 0; i < 100; ++i) z.pass(1ms);
    CHECK_EQ(beats, 100);
}

Test(game_time, wheels_share_a_clock_or_have_one_each) {
    running_clock world, dungeon;
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

// What a game saves of its clock, as numbers.
Test(game_time, a_loaded_clock_continues_the_saved_one) {
    std::mt19937_64 random(4);
    for (int round = 0; round < 1'000; ++round) {
        running_clock saved;
        if (round % 2 == 0)
            saved.set_speed(any_speed(random));
        else
            saved.set_speed(random() % 1'000, 1 + random() % 1'000);
        manual_clock::advance(nanoseconds(random() % 100'000));
        saved.step(std::chrono::duration<int, std::ratio<1, 60>>(round));
        manual_clock::advance(nanoseconds(random() % 100'000));
        if (round % 3 == 0)
            saved.pause();
        else
            saved.set(saved.now());  // drops what is below a unit, as the loaded one does
        const std::int64_t time = saved.now().time_since_epoch().count();
        const auto speed = saved.speed();
        const bool paused = saved.paused();

        clock_type loaded;
        loaded.set(clock_type::time_point(clock_type::duration(time)));
        loaded.set_speed(speed.numerator, speed.denominator);
        if (!paused) loaded.resume();
        for (int i = 0; i < 10; ++i) {
            CHECK(loaded.now() == saved.now() && loaded.paused() == saved.paused());
            manual_clock::advance(nanoseconds(random() % 100'000));
            if (i == 5) loaded.resume(), saved.resume();
        }
    }
}

Test(game_time, deadlines_that_a_game_saves_itself_stay) {
    clock_type saved, loaded;
    zone old(saved), young(loaded);
    tvec::timer timers[40], copies[40];
    for (int i = 0; i < 40; ++i) old.timers.arm_after(timers[i], 1ms + i * i * 1ms);
    for (int i = 0; i < 300; ++i) saved.step(1ms), old.timers.run();
    loaded.set(clock_type::time_point(saved.now().time_since_epoch()));
    old.timers.wheel().for_each_pending([&](const tvec::timer& t) {
        young.timers.arm_at(copies[&t - timers], old.timers.deadline(t));
    });
    for (int i = 0; i < 1'300; ++i) {
        for (int k = 0; k < 40; ++k) REQUIRE_EQ(timers[k].pending(), copies[k].pending());
        saved.step(1ms), loaded.step(1ms);
        old.timers.run(), young.timers.run();
    }
    CHECK(!old.timers.wheel().any_pending());
}

Test(game_time, a_clock_set_back_fires_nothing_until_there) {
    clock_type clock;
    zone z(clock);
    clock.step(10ms);
    z.timers.run();
    clock.set(clock_type::time_point(5ms));
    tvec::timer t;
    z.timers.arm_after(t, 3ms);
    const auto fires = [&] { return clock.step(1ms), z.timers.run().fired; };
    for (int i = 0; i < 5; ++i) CHECK_EQ(fires(), 0);
    CHECK_EQ(fires(), 1);
}

Test(game_time, delays_count_from_the_clock_of_their_zone) {
    clock_type world, dungeon;
    zone meadow(world), cave(dungeon);
    tvec::timer echo;
    tvec::callback_timer call{[&] { cave.timers.arm_after(echo, 2ms); }};
    meadow.timers.arm_after(call, 1ms);
    world.step(1ms);
    meadow.timers.run();  // before the clock of the cave is stepped
    dungeon.step(1ms);
    CHECK(cave.timers.deadline(echo) - dungeon.now() == 1ms);
}

namespace {

using trace = std::vector<std::tuple<int, tvec::jiffies, std::size_t>>;  // zone, tick, timer

// Plays two zones by steps of frames. The base clock goes on by `jitter` meanwhile.
trace play(nanoseconds jitter) {
    std::mt19937_64 random(3);
    clock_type fast, slow;
    manual_clock::advance(jitter * 1'000);
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

Test(game_time, equal_steps_fire_in_equal_order) {
    const trace once = play(0ns);
    CHECK_GE(once.size(), 3'000);
    CHECK(once == play(123us));
}
