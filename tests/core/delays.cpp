// P4: every delay is legal. It saturates at never, never wraps, and is exact beyond 2^32 ticks.
#include <array>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"
#include "tvec/inspect/inspect.hpp"

using support::jiffies;
using support::probe;
using tvec::never;
using tvec::timer_wheel;

TestSuite(delays, .timeout = 60);

namespace {

// Hops from wake-up to wake-up, as a tickless loop does. Returns the number of hops.
int hop_to(timer_wheel& wheel, jiffies tick) {
    int hops = 0;
    while (wheel.next_wakeup() && *wheel.next_wakeup() <= tick) {
        wheel.advance(*wheel.next_wakeup());
        ++hops;
    }
    return hops;
}

}  // namespace

Test(delays, around_every_edge_of_every_level_are_exact) {
    for (const jiffies start : support::starts())
        for (const jiffies delay : support::edges()) {
            timer_wheel wheel(start);
            probe p;
            wheel.arm_after(p.t, delay);
            wheel.advance(start + delay - 1);
            REQUIRE_EQ(p.fired(), 0);
            REQUIRE_EQ(check(wheel), "");
            wheel.advance(start + delay);
            REQUIRE(p.fired_only_at(start + delay));
        }
}

Test(delays, are_as_exact_by_single_ticks_and_by_wakeups_as_by_a_jump) {
    for (const jiffies start : support::starts())
        for (const jiffies delay : support::edges()) {
            timer_wheel ticked(start), hopped(start);
            probe by_tick, by_hop;
            if (delay < 70'000) {
                ticked.arm_after(by_tick.t, delay);
                for (jiffies t = 1; t <= delay; ++t) ticked.advance(start + t);
                REQUIRE(by_tick.fired_only_at(start + delay));
            }
            hopped.arm_after(by_hop.t, delay);
            hop_to(hopped, start + delay);
            REQUIRE(by_hop.fired_only_at(start + delay));
        }
}

Test(delays, around_every_edge_are_exact_from_every_phase_of_the_root) {
    constexpr jiffies phases = tvec::detail::geometry::ring_of(tvec::detail::geometry::root);
    for (const jiffies base : {jiffies{0}, (jiffies{1} << 26) - phases, jiffies{1} << 33})
        for (jiffies phase = 0; phase < phases; phase += phases / support::scaled(phases))
            for (const jiffies delay : support::edges()) {
                const jiffies start = base + phase;
                timer_wheel wheel(start);
                probe p;
                wheel.arm_after(p.t, delay);
                REQUIRE_LE(hop_to(wheel, start + delay - 1), support::most_visits(delay) - 1);
                REQUIRE_EQ(p.fired(), 0);
                REQUIRE_LE(hop_to(wheel, start + delay), 1);
                REQUIRE(p.fired_only_at(start + delay));
            }
}

Test(delays, of_several_turns_of_the_root_are_exact_from_any_slot) {
    for (jiffies start = 0; start < 1024; start += 37)
        for (const jiffies delay : {255, 256, 257, 511, 512, 1023, 1024 + 5, 256 * 4 - 1}) {
            timer_wheel wheel(start);
            probe p;
            for (int twice = 0; twice < 2; ++twice) {
                p.ticks.clear();
                const jiffies due = wheel.now() + delay;
                wheel.arm_at(p.t, due);
                for (jiffies t = wheel.now() + 1; t <= due; ++t) wheel.advance(t);
                REQUIRE(p.fired_only_at(due));
            }
        }
}

Test(delays, that_end_where_all_levels_wrap_are_exact) {
    const jiffies wrap = jiffies{1} << 26;
    for (const jiffies before : {1, 2, 300, 20'000}) {
        timer_wheel wheel(wrap - before);
        std::array<jiffies, 6> offsets{0, 1, 255, 256, 1 << 14, 1 << 20};
        auto all = support::probes(offsets.size());
        for (std::size_t i = 0; i < offsets.size(); ++i) wheel.arm_at(all[i]->t, wrap + offsets[i]);
        hop_to(wheel, wrap + (1 << 20));
        for (std::size_t i = 0; i < offsets.size(); ++i)
            CHECK(all[i]->fired_only_at(wrap + offsets[i]));
    }
}

Test(delays, far_beyond_the_wheel_are_exact) {
    for (const unsigned power : {32u, 33u, 34u, 40u, 50u, 62u}) {
        for (const int off : {-2, -1, 0, 1, 2}) {
            const jiffies delay = (jiffies{1} << power) + static_cast<jiffies>(off);
            timer_wheel wheel(12345);
            probe p;
            wheel.arm_after(p.t, delay);
            const int hops = hop_to(wheel, 12345 + delay);
            REQUIRE(p.fired_only_at(12345 + delay));
            REQUIRE_LE(hops, support::most_visits(delay));
        }
    }
}

Test(delays, to_ticks_beyond_never_are_never) {
    for (const jiffies now : {jiffies{0}, jiffies{1000}, never - 1})
        for (const jiffies beyond : {never + 1, never + 1000, ~jiffies{0}}) {
            timer_wheel wheel(now);
            probe p;
            CHECK(!wheel.arm_at(p.t, beyond));
            CHECK_EQ(p.t.expires(), never);
            CHECK(wheel.arm_at(p.t, beyond));
            CHECK_EQ(check(wheel), "");
            wheel.arm_at(p.t, now + 1);
            CHECK(wheel.arm_at(p.t, beyond));
            CHECK_EQ(p.t.expires(), never);
            CHECK_EQ(wheel.advance(never).fired, 0);
        }
}

Test(delays, saturate_at_never) {
    timer_wheel wheel(1000);
    probe p;
    for (const jiffies delay : {never, never - 1000, ~jiffies{0}, never + 1}) {
        wheel.arm_after(p.t, delay);
        CHECK_EQ(p.t.expires(), never);
        CHECK(p.t.pending());
    }
    CHECK(!wheel.next_wakeup());
    CHECK(!wheel.next_expiry());
    wheel.advance(never);
    CHECK_EQ(p.fired(), 0);
    CHECK(p.t.cancel());
}

Test(delays, to_the_last_tick_there_is_are_exact) {  // 63 bits, so there is no wrap to cross
    timer_wheel wheel(never - 300);
    probe last, beyond;
    wheel.arm_at(last.t, never - 1);
    wheel.arm_at(beyond.t, never);
    wheel.advance(~jiffies{0});
    CHECK_EQ(wheel.now(), never - 1);
    CHECK(last.fired_only_at(never - 1));
    CHECK_EQ(beyond.fired(), 0);
    wheel.arm_after(last.t, 5);
    CHECK_EQ(last.t.expires(), never);
    CHECK_EQ(check(wheel), "");
}

Test(delays, a_wheel_that_starts_at_the_end_of_time_has_no_tick_left) {  // clamped, not refused
    for (const jiffies start : {never - 1, never, never + 1, ~jiffies{0}}) {
        timer_wheel wheel(start);
        CHECK_EQ(wheel.now(), never - 1);
        probe p;
        wheel.arm_after(p.t, 0);
        CHECK(p.t.pending());
        CHECK_EQ(p.t.expires(), never - 1);
        CHECK(!wheel.next_expiry());
        CHECK(wheel.advance(~jiffies{0}).caught_up);
        CHECK_EQ(p.fired(), 0);
        CHECK(!wheel.next_wakeup());
        CHECK_EQ(check(wheel), "");
    }
}

Test(delays, of_a_century_of_milliseconds_are_exact) {
    const jiffies year = jiffies{365} * 24 * 3600 * 1000;
    for (const jiffies years : {1, 10, 100}) {
        timer_wheel wheel(7);
        probe p;
        wheel.arm_after(p.t, years * year);
        hop_to(wheel, 7 + years * year);
        CHECK(p.fired_only_at(7 + years * year));
    }
}

Test(delays, a_timer_that_never_fires_disturbs_no_other) {
    timer_wheel wheel(5);
    probe forever, far;
    wheel.arm_at(forever.t, never);
    wheel.arm_after(far.t, jiffies{1} << 40);
    std::size_t beats = 0;
    probe beat([&](timer_wheel& w) {
        ++beats;
        w.arm_after(beat.t, beats < 1000 ? 333 : (jiffies{1} << 23) + 1);
    });
    wheel.arm_after(beat.t, 333);
    while (wheel.now() < jiffies{1} << 34) {
        const jiffies due = beat.t.expires();
        hop_to(wheel, due);
        REQUIRE_EQ(beat.ticks.back(), due);
        beat.ticks.clear();
    }
    CHECK_GE(beats, 2'000);
    CHECK(forever.t.pending());
    CHECK_EQ(check(wheel), "");
}

Test(delays, many_far_timers_wait_together_and_come_back_apart) {
    timer_wheel wheel;
    auto all = support::probes(300);
    for (std::size_t i = 0; i < all.size(); ++i)
        wheel.arm_at(all[i]->t, (jiffies{3 + i % 5} << 32) + i);
    hop_to(wheel, jiffies{8} << 32);
    for (std::size_t i = 0; i < all.size(); ++i)
        CHECK(all[i]->fired_only_at((jiffies{3 + i % 5} << 32) + i));
}
