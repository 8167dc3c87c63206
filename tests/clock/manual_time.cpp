// Time that a program drives itself: a manual driver is nothing but `advance`, or a manual clock
// and `run`.
#include <random>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/probe.hpp"
#include "tvec/clock/clocked_wheel.hpp"

using namespace std::chrono_literals;
using support::jiffies;
using support::probe;
using tvec::manual_clock;

namespace {

// Hops from wake-up to wake-up, as long as there are any. Returns how many there were.
unsigned run_dry(tvec::timer_wheel& wheel) {
    unsigned hops = 0;
    for (; const auto next = wheel.next_wakeup(); ++hops) wheel.advance(*next);
    return hops;
}

// Returns the timers that fire, and when, if every timer arms another one.
std::vector<jiffies> history(unsigned seed) {
    std::mt19937_64 random(seed);
    tvec::timer_wheel wheel;
    auto all = support::probes(20);
    std::vector<jiffies> fired;
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i]->then = [&, i](tvec::timer_wheel& w) {
            fired.push_back(w.now() * 100 + i);
            if (fired.size() < 2'000)
                w.arm_after(all[random() % all.size()]->t, random() >> (40 + random() % 20));
        };
        wheel.arm_after(all[i]->t, random() % 1'000);
    }
    run_dry(wheel);
    return fired;
}

template <class T>
concept made_of_nothing = requires(void (*take)(const T&)) {
    take({});
};

}  // namespace

Test(manual_time, aggregates_may_hold_a_clock_and_its_wheel) {
    using ticks = tvec::tick_clock<std::chrono::milliseconds, manual_clock>;
    static_assert(made_of_nothing<ticks> && made_of_nothing<tvec::clocked_wheel<ticks>>);
    struct loop {
        tvec::clocked_wheel<ticks> timers;
        int turns = 0;
    };
    manual_clock::set(manual_clock::time_point(7ms));
    loop l{.turns = 3};
    CHECK_EQ(l.turns, 3);
    CHECK(l.timers.ticks().origin() == manual_clock::now());
    CHECK_EQ(l.timers.wheel().now(), 0);
}

Test(manual_time, hops_between_wakeups_fire_everything_on_time) {
    tvec::timer_wheel wheel(1'000'000);
    std::mt19937_64 random(3);
    const auto all = support::probes(500);
    for (const auto& p : all) wheel.arm_after(p->t, random() >> (random() % 32 + 24));
    const unsigned hops = run_dry(wheel);
    for (const auto& p : all) CHECK(p->fired_only_at(p->t.expires()));
    CHECK_LE(hops, 500 * 6);  // one for each level that a timer sinks through, and to fire it
}

Test(manual_time, the_same_program_has_the_same_history) {
    const auto once = history(1);
    CHECK_GE(once.size(), 500);
    CHECK(history(1) == once);
    CHECK(history(2) != once);
}

namespace {

using three_ms = std::chrono::duration<std::int64_t, std::ratio<3, 1000>>;
using coarse_wheel = tvec::clocked_wheel<tvec::tick_clock<three_ms, manual_clock>>;

// Runs a coarse wheel as it asks to be, but two milliseconds late the first time. Returns when what
// fired, in milliseconds.
template <class F> std::vector<std::int64_t> beats_after_a_late_wakeup(F arm_again) {
    manual_clock::set(manual_clock::time_point{});
    coarse_wheel timers;
    std::vector<std::int64_t> beats;
    probe p([&](tvec::timer_wheel&) {
        beats.push_back(manual_clock::now().time_since_epoch() / 1ms);
        if (beats.size() < 3) arm_again(timers, p.t);
    });
    timers.arm_after(p.t, 3ms);
    for (auto late = 2ms; const auto wakeup = timers.next_wakeup(); late = 0ms) {
        manual_clock::set(*wakeup + late);
        timers.run();
    }
    return beats;
}

}  // namespace

Test(manual_time, periodic_ticks_stay_on_their_grid) {
    const auto beats = beats_after_a_late_wakeup(
        [](coarse_wheel& timers, tvec::timer& t) { timers.arm_next(t, 3ms); });
    CHECK(beats == (std::vector<std::int64_t>{5, 6, 9}));
}

Test(manual_time, a_delay_armed_late_passes_as_a_whole) {
    const auto beats = beats_after_a_late_wakeup(
        [](coarse_wheel& timers, tvec::timer& t) { timers.arm_after(t, 3ms); });
    CHECK(beats == (std::vector<std::int64_t>{5, 9, 12}));
}

Test(manual_time, sixty_hertz_keep_time_for_a_simulated_hour) {
    using frame = std::chrono::duration<std::int64_t, std::ratio<1, 60>>;
    manual_clock::set(manual_clock::time_point{});
    tvec::clocked_wheel<tvec::tick_clock<frame, manual_clock>> timers;
    const std::chrono::seconds hour(support::scaled(3'600));
    const std::int64_t frames = 60 * hour.count();
    std::int64_t fired = 0;
    jiffies missed = 0;
    probe beat([&](tvec::timer_wheel&) {
        ++fired;
        const std::int64_t exact = (fired * 1'000'000'000 + 59) / 60;  // rounded up to nanoseconds
        REQUIRE_EQ(manual_clock::now().time_since_epoch().count(), exact);
        if (fired < frames) missed += timers.arm_next(beat.t, frame(1));
    });
    timers.arm_at(beat.t, manual_clock::time_point(1ns));
    for (; const auto wakeup = timers.next_wakeup();) {
        manual_clock::set(*wakeup);
        timers.run();
    }
    CHECK_EQ(fired, frames);
    CHECK_EQ(missed, 0);
    CHECK(manual_clock::now().time_since_epoch() == hour);
}
