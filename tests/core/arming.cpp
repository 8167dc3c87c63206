// A timer armed for tick x fires when advance passes x, never before. Arming for now or the
// past means the next tick.
#include <random>
#include <vector>

#include "support/check.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"
#include "tvec/inspect/inspect.hpp"

using support::jiffies;
using support::probe;
using tvec::timer_wheel;

TestSuite(arming, .timeout = 60);

Test(arming, a_timer_fires_exactly_on_its_tick) {
    for (const jiffies start : support::starts()) {
        timer_wheel wheel(start);
        probe p;
        wheel.arm_at(p.t, start + 300);

        wheel.advance(start + 299);
        CHECK_EQ(p.fired(), 0);
        wheel.advance(start + 300);
        CHECK(p.fired_only_at(start + 300));
        CHECK_EQ(check(wheel), "");
    }
}

Test(arming, a_timer_fires_once) {
    timer_wheel wheel;
    probe p;
    wheel.arm_after(p.t, 7);
    wheel.advance(7);
    wheel.advance(7 + 256);
    wheel.advance(7 + (1 << 14));
    wheel.advance(jiffies{1} << 33);
    CHECK(p.fired_only_at(7));
}

Test(arming, random_delays_are_silent_until_the_tick_before) {
    std::mt19937_64 random(1);
    for (const jiffies start : support::starts()) {
        timer_wheel wheel(start);
        for (int i = 0; i < 500; ++i) {
            probe p;
            const jiffies delay = 1 + random() % (1 << 20);
            const jiffies due = wheel.now() + delay;
            wheel.arm_after(p.t, delay);
            wheel.advance(due - 1);
            REQUIRE_EQ(p.fired(), 0);
            wheel.advance(due);
            REQUIRE(p.fired_only_at(due));
        }
    }
}

Test(arming, now_and_the_past_mean_the_next_tick) {
    timer_wheel wheel(1000);
    probe zero, now, past;
    wheel.arm_after(zero.t, 0);
    wheel.arm_at(now.t, 1000);
    wheel.arm_at(past.t, 3);
    CHECK_EQ(zero.t.expires(), 1000);  // the requested tick, so that a period keeps its phase
    CHECK_EQ(past.t.expires(), 3);
    wheel.advance(1000);
    CHECK_EQ(zero.fired() + now.fired() + past.fired(), 0);
    wheel.advance(1001);
    CHECK_EQ(zero.fired() + now.fired() + past.fired(), 3);
}

Test(arming, arming_a_pending_timer_moves_it) {
    timer_wheel wheel;
    probe p;
    CHECK(!wheel.arm_after(p.t, 10));
    CHECK(wheel.arm_after(p.t, 1000));
    CHECK(wheel.arm_after(p.t, 500));
    CHECK_EQ(wheel.count_pending(), 1);
    wheel.advance(5000);
    CHECK(p.fired_only_at(500));
}

Test(arming, a_timer_that_changes_levels_stays_one_timer) {
    for (const jiffies start : support::starts()) {
        timer_wheel wheel(start);
        probe p;
        wheel.arm_after(p.t, 1);
        for (const jiffies delay : support::edges()) {
            CHECK(wheel.arm_after(p.t, jiffies{1} << 35));  // beyond the wheel
            CHECK(wheel.arm_after(p.t, delay));             // and back
            REQUIRE_EQ(wheel.count_pending(), 1);
            REQUIRE_EQ(check(wheel), "");
        }
        wheel.advance(start + (jiffies{1} << 35));
        CHECK(p.fired_only_at(start + support::edges().back()));
    }
}

Test(arming, a_timer_moves_to_later_or_earlier_ticks) {
    for (const jiffies start : support::starts()) {
        timer_wheel wheel(start);
        probe up, down;
        wheel.arm_after(up.t, 1);
        wheel.arm_after(up.t, 100);
        wheel.arm_after(down.t, 100);
        wheel.arm_after(down.t, 1);
        wheel.advance(start + 1);
        CHECK_EQ(up.fired(), 0);
        CHECK(down.fired_only_at(start + 1));
        wheel.advance(start + 100);
        CHECK(up.fired_only_at(start + 100));
    }
}

Test(arming, arming_for_the_same_tick_again_changes_nothing) {
    timer_wheel wheel;
    probe p;
    wheel.arm_at(p.t, 70);
    CHECK(wheel.arm_at(p.t, 70));
    CHECK_EQ(wheel.count_pending(), 1);
    wheel.advance(100);
    CHECK(p.fired_only_at(70));
}

Test(arming, a_shorter_timer_armed_later_fires_first) {
    timer_wheel wheel;
    probe slow, fast;
    wheel.arm_after(slow.t, 10);
    CHECK_EQ(wheel.next_wakeup(), jiffies{10});
    wheel.arm_after(fast.t, 5);
    CHECK_EQ(wheel.next_wakeup(), jiffies{5});
    wheel.advance(5);
    CHECK_EQ(fast.fired(), 1);
    CHECK_EQ(slow.fired(), 0);
}

Test(arming, a_ladder_of_delays_fires_rung_by_rung) {
    constexpr std::size_t n = 14'000;
    timer_wheel wheel;
    auto all = support::probes(n);
    for (std::size_t i = 0; i < n; ++i) wheel.arm_after(all[i]->t, 5 + i);
    wheel.advance(139);
    CHECK_EQ(support::count_fired(all), 135);
    for (jiffies tick = 140; tick < n + 5; ++tick) {
        wheel.advance(tick);
        REQUIRE_EQ(wheel.count().fired, tick - 4);
    }
}

Test(arming, only_the_timer_not_cancelled_fires) {
    constexpr std::size_t n = 5'000;
    timer_wheel wheel;
    auto all = support::probes(n);
    for (std::size_t i = 0; i < n; ++i) wheel.arm_after(all[i]->t, 5 + i);
    for (std::size_t i = 0; i + 1 < n; ++i) CHECK(all[i]->t.cancel());
    wheel.advance(n + 3);
    CHECK_EQ(support::count_fired(all), 0);
    wheel.advance(n + 4);
    CHECK(all.back()->fired_only_at(n + 4));
}

Test(arming, one_advance_fires_all_that_is_due) {
    constexpr std::size_t n = 20'000;
    std::mt19937_64 random(2);
    timer_wheel wheel(1 << 14);
    auto all = support::probes(n);
    for (auto& p : all) wheel.arm_after(p->t, random() % n);
    CHECK_EQ(wheel.advance(wheel.now() + n).fired, n);
    CHECK_EQ(support::count_fired(all), n);
}

Test(arming, timers_of_one_delay_fire_within_one_tick) {
    timer_wheel wheel(77);
    auto all = support::probes(100'000);
    for (auto& p : all) wheel.arm_after(p->t, 4'000);
    wheel.advance(77 + 3'999);
    CHECK_EQ(support::count_fired(all), 0);
    wheel.advance(77 + 4'000);
    CHECK_EQ(support::count_fired(all), all.size());
}

Test(arming, each_of_several_timers_is_armed_as_alone) {
    timer_wheel wheel(1000), elsewhere;
    std::vector<probe> probes(100);
    std::vector<tvec::timer*> timers;
    for (probe& p : probes) timers.push_back(&p.t);
    CHECK_EQ(wheel.arm_each_at({}, 5), 0);
    for (std::size_t i = 0; i < 30; ++i) wheel.arm_at(*timers[i], 1'050 + i);
    for (std::size_t i = 30; i < 40; ++i) elsewhere.arm_at(*timers[i], 7);
    CHECK_EQ(wheel.arm_each_at(timers, 1'300), 40);
    CHECK_EQ(wheel.arm_each_at(timers, 1'060), 100);
    CHECK_EQ(check(wheel) + check(elsewhere), "");
    CHECK_EQ(wheel.advance(1'059).fired, 0);
    wheel.advance(1'060);
    for (const probe& p : probes) CHECK(p.fired_only_at(1'060));
}
