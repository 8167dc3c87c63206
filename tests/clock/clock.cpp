// Deadlines round up, readings round down, a delay is measured from the clock at the call.
// Nothing fires early by even a nanosecond.
#include <csignal>
#include <random>
#include <thread>
#include <type_traits>

#include "support/check.hpp"
#include "support/probe.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/coroutines/sleep.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"
#include "tvec/pool/timeout_pool.hpp"

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using support::jiffies;
using support::probe;
using tvec::manual_clock;

TestSuite(clock, .timeout = 60);

namespace {

using frame = std::chrono::duration<std::int64_t, std::ratio<1, 60>>;
using third_of_ms = std::chrono::duration<std::int64_t, std::ratio<1, 3000>>;
using hundred_us = std::chrono::duration<std::int64_t, std::ratio<1, 10'000>>;
template <class Tick> using clock_of = tvec::tick_clock<Tick, manual_clock>;
template <class Tick> using wheel_of = tvec::clocked_wheel<clock_of<Tick>>;
using wheel = wheel_of<std::chrono::milliseconds>;

// The same ticks, chosen at run time.
template <class Tick> struct chosen_clock_of : tvec::runtime_tick_clock<manual_clock> {
    chosen_clock_of() : chosen_clock_of(manual_clock::now()) {}
    explicit chosen_clock_of(manual_clock::time_point origin)
        : runtime_tick_clock(Tick(1), origin) {}
};

manual_clock::time_point at(nanoseconds since) { return manual_clock::time_point(since); }

// A test of both: `Ticks<T>` is a clock whose tick is a T.
#define TestBoth(name)                                                                             \
    template <template <class> class Ticks> void name();                                           \
    Test(clock, name) {                                                                            \
        name<clock_of>();                                                                          \
        name<chosen_clock_of>();                                                                   \
    }                                                                                              \
    template <template <class> class Ticks> void name()

// Arms `delay` at every phase of a tick and lets the clock pass it a nanosecond at a time.
template <class Tick, template <class> class Ticks = clock_of>
void fires_within_a_tick_of(nanoseconds delay, nanoseconds phase) {
    manual_clock::set(at(0ns));
    tvec::clocked_wheel<Ticks<Tick>> timers;
    manual_clock::set(at(phase));
    timers.run();
    probe p;
    timers.arm_after(p.t, delay);
    manual_clock::set(at(phase + delay - 1ns));
    timers.run();
    REQUIRE_EQ(p.fired(), 0);
    manual_clock::advance(1ns + std::chrono::ceil<nanoseconds>(Tick(1)));
    timers.run();
    REQUIRE_EQ(p.fired(), 1);
}

}  // namespace

Test(clock, a_delay_is_exact_to_one_tick) {
    for (const nanoseconds phase : {0ns, 1ns, 499'999ns, 500'000ns, 999'999ns})
        for (const nanoseconds delay :
             {1ns, 500'000ns, 999'999ns, 1'000'000ns, 1'000'001ns, 7'000'000ns}) {
            fires_within_a_tick_of<std::chrono::milliseconds>(delay, phase);
            fires_within_a_tick_of<frame>(delay, phase);
            fires_within_a_tick_of<hundred_us>(delay, phase);
            fires_within_a_tick_of<std::chrono::duration<std::int64_t, std::pico>>(delay, phase);
            fires_within_a_tick_of<std::chrono::milliseconds, chosen_clock_of>(delay, phase);
            fires_within_a_tick_of<hundred_us, chosen_clock_of>(delay, phase);
        }
}

// A clock that counts its readings.
struct counting_clock : manual_clock {
    using time_point = manual_clock::time_point;
    static inline unsigned readings = 0;
    static time_point now() noexcept {
        ++readings;
        return manual_clock::now();
    }
};

Test(clock, every_relative_arm_reads_the_clock_once) {
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, counting_clock>> timers;
    tvec::timeout_pool pool(timers);
    probe p;
    const auto readings = [](auto&& call) {
        counting_clock::readings = 0;
        call();
        return counting_clock::readings;
    };
    CHECK_EQ(readings([&] { timers.arm_after(p.t, 5ms); }), 1);
    CHECK_EQ(readings([&] { timers.arm_within(p.t, 5ms, 9ms); }), 1);
    CHECK_EQ(readings([&] { timers.arm_at(p.t, timers.after(5ms)); }), 1);
    CHECK_EQ(readings([&] { pool.schedule(5ms, [] {}); }), 1);
    CHECK_EQ(readings([&] { timers.run(); }), 1);
}

Test(clock, several_timers_may_share_a_time_point) {
    wheel timers;
    probe a, b;
    tvec::timer* const both[] = {&a.t, &b.t};
    timers.arm_after(a.t, 1ms);
    CHECK_EQ(timers.arm_each_at(both, timers.after(5ms)), 1);
    manual_clock::advance(5ms - 1ns);
    CHECK_EQ(timers.run().fired, 0);
    manual_clock::advance(1ns);
    CHECK_EQ(timers.run().fired, 2);
}

TestBoth(a_delay_never_counts_from_the_last_run) {
    manual_clock::set(at(0ns));
    tvec::clocked_wheel<Ticks<std::chrono::milliseconds>> timers;
    probe late;
    probe slow([&](tvec::timer_wheel&) {
        manual_clock::advance(50ms);  // a callback that takes its time
        timers.arm_after(late.t, 10ms);
    });
    timers.arm_after(slow.t, 5ms);
    manual_clock::advance(5ms);
    timers.run();
    manual_clock::set(at(65ms - 1ns));
    timers.run();
    CHECK_EQ(late.fired(), 0);
    manual_clock::set(at(65ms));
    timers.run();
    CHECK_EQ(late.fired(), 1);
}

TestBoth(a_wheel_rarely_run_is_never_early) {
    manual_clock::set(at(0ns));
    tvec::clocked_wheel<Ticks<std::chrono::milliseconds>> timers;
    manual_clock::advance(10s);
    probe p;
    timers.arm_after(p.t, 255ms);
    timers.run();
    manual_clock::advance(254ms);
    timers.run();
    CHECK_EQ(p.fired(), 0);
    manual_clock::advance(1ms);
    timers.run();
    CHECK_EQ(p.fired(), 1);
}

TestBoth(delays_saturate_and_negative_ones_mean_now) {
    manual_clock::set(at(123ms));
    tvec::clocked_wheel<Ticks<std::chrono::milliseconds>> timers;
    probe p;
    timers.arm_after(p.t, std::chrono::hours::max());
    const jiffies end = timers.ticks().ceil(manual_clock::time_point::max());
    CHECK_EQ(p.t.expires(), end);
    timers.arm_after(p.t, nanoseconds::max());
    CHECK_EQ(p.t.expires(), end);
    CHECK(timers.next_wakeup() > at(24h * 365 * 200) || !timers.next_wakeup());
    timers.arm_after(p.t, -5s);
    CHECK_EQ(timers.wheel().next_expiry(), 1);
    timers.arm_at(p.t, manual_clock::time_point::min());
    CHECK_EQ(timers.wheel().next_expiry(), 1);
}

Test(clock, run_has_work_exactly_at_next_wakeup) {
    manual_clock::set(at(0ns));
    wheel_of<frame> timers;
    CHECK(!timers.next_wakeup());
    probe p;
    timers.arm_after(p.t, 20ms);
    const auto wakeup = timers.next_wakeup();
    REQUIRE(wakeup.has_value());
    manual_clock::set(*wakeup - 1ns);
    CHECK_EQ(timers.run().fired, 0);
    manual_clock::set(*wakeup);
    CHECK_EQ(timers.run().fired, 1);
    CHECK(*wakeup >= at(20ms));
}

TestBoth(slack_and_periods_speak_chrono) {
    manual_clock::set(at(0ns));
    tvec::clocked_wheel<Ticks<std::chrono::milliseconds>> timers;
    probe slack, beat;
    timers.arm_within(slack.t, 100ms, 140ms);
    CHECK_EQ(slack.t.expires(), 128);
    timers.arm_after(beat.t, 10ms);
    manual_clock::advance(10ms);
    timers.run();
    manual_clock::advance(35ms);
    timers.run();
    CHECK_EQ(timers.arm_next(beat.t, 10ms), 3);
    CHECK_EQ(beat.t.expires(), 50);
}

TestBoth(conditional_arms_speak_chrono) {
    manual_clock::set(at(0ns));
    tvec::clocked_wheel<Ticks<std::chrono::milliseconds>> timers;
    probe p;
    CHECK(!timers.arm_if_pending(p.t, at(10ms)));
    CHECK(!timers.arm_if_earlier(p.t, at(10ms)));
    CHECK(timers.arm_if_earlier(p.t, at(11ms)));
    CHECK_EQ(p.t.expires(), 10);
    CHECK(timers.arm_if_pending(p.t, at(11ms + 1ns)));
    CHECK_EQ(p.t.expires(), 12);
    CHECK(timers.arm_unless_pending(p.t, at(5ms)));
    CHECK(p.t.cancel());
    CHECK(!timers.arm_unless_pending(p.t, at(5ms + 1ns)));
    CHECK_EQ(p.t.expires(), 6);
}

// A tick of 1/60 s begins between two nanoseconds, and is read from the later one on.
template <class Ticks> void expect_deadlines_at_the_starts_of(const Ticks& ticks) {
    std::mt19937_64 random(6);
    for (int i = 0; i < 10'000; ++i) {
        const jiffies tick = 1 + (random() >> (26 + random() % 38));
        const auto start = ticks.start_of(tick);
        REQUIRE_EQ(ticks.floor(start), tick);
        REQUIRE_EQ(ticks.ceil(start), tick);
        REQUIRE_EQ(ticks.ceil(start - 1ns), tick - (ticks.start_of(tick - 1) == start - 1ns));
        REQUIRE_EQ(ticks.ceil(start + 1ns), tick + 1);
    }
    CHECK_EQ(ticks.ceil(ticks.origin()), 0);
    CHECK_EQ(ticks.ceil(ticks.origin() - 1ns), 0);
    CHECK_EQ(ticks.ceil(ticks.origin() + 1ns), 1);
}

Test(clock, a_deadline_means_the_first_tick_from_then) {
    for (const nanoseconds origin : {0ns, 1ns, -12'345'678ns}) {
        expect_deadlines_at_the_starts_of(clock_of<frame>(at(origin)));
        expect_deadlines_at_the_starts_of(clock_of<third_of_ms>(at(origin)));
        expect_deadlines_at_the_starts_of(clock_of<hundred_us>(at(origin)));
        expect_deadlines_at_the_starts_of(clock_of<nanoseconds>(at(origin)));
        expect_deadlines_at_the_starts_of(chosen_clock_of<hundred_us>(at(origin)));
    }
}

Test(clock, timers_armed_for_equal_deadlines_fire_together) {
    manual_clock::set(at(0ns));
    wheel_of<frame> timers;
    probe first, second, within;
    for (int i = 1; i <= 100; ++i) {
        timers.arm_after(first.t, frame(i));
        const auto deadline = timers.deadline(first.t);
        timers.arm_at(second.t, deadline);
        CHECK_EQ(second.t.expires(), first.t.expires());
        timers.arm_within(within.t, deadline - manual_clock::now(), deadline - manual_clock::now());
        CHECK_EQ(within.t.expires(), first.t.expires());
    }
}

Test(clock, a_period_of_whole_ticks_stays_whole) {
    CHECK_EQ(clock_of<frame>::ticks_to_cover(frame(-1)), 0);
    CHECK_EQ(clock_of<frame>::ticks_to_cover(frame(1)), 1);
    CHECK_EQ(clock_of<frame>::ticks_to_cover(1s), 60);
    CHECK_EQ(clock_of<frame>::ticks_to_cover(16'666'666ns), 1);
    CHECK_EQ(clock_of<frame>::ticks_to_cover(16'666'667ns), 2);
    CHECK_EQ(clock_of<third_of_ms>::ticks_to_cover(third_of_ms(7)), 7);
    CHECK_EQ(clock_of<nanoseconds>::ticks_to_cover(std::chrono::hours::max()), tvec::never);
    manual_clock::set(at(0ns));
    wheel_of<frame> timers;
    probe beat;
    timers.arm_after(beat.t, 1ns);
    CHECK_EQ(timers.arm_next(beat.t, frame(1)), 0);
    CHECK_EQ(beat.t.expires(), 2);
}

Test(clock, boot_time_and_steady_time_run) {
    const auto boot = tvec::boottime_clock::now();
    CHECK(boot.time_since_epoch() > 0ns);
    CHECK(tvec::boottime_clock::now() >= boot);
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::boottime_clock>> timers;
    probe p;
    timers.arm_after(p.t, 1h);
    CHECK_EQ(timers.run().fired, 0);
    CHECK(timers.next_wakeup() > boot);
}

Test(clock, boot_time_is_what_the_kernel_says) {
    const auto kernel = [] {
        timespec t{};
        clock_gettime(CLOCK_BOOTTIME, &t);
        return std::chrono::seconds(t.tv_sec) + nanoseconds(t.tv_nsec);
    };
    const nanoseconds before = kernel();
    const nanoseconds reading = tvec::boottime_clock::now().time_since_epoch();
    CHECK(before <= reading && reading <= kernel());
}

Test(clock, each_thread_has_its_own_manual_clock) {
    manual_clock::set(at(1h));
    std::thread([] { CHECK(manual_clock::now() == at(0ns)); }).join();
    CHECK(manual_clock::now() == at(1h));
}

TestBoth(a_wheel_begins_at_its_clocks_tick) {
    manual_clock::set(at(1h));
    tvec::clocked_wheel<Ticks<std::chrono::milliseconds>> timers{
        Ticks<std::chrono::milliseconds>{at(0ns)}};
    CHECK_EQ(timers.wheel().now(), 3'600'000);
}

TestBoth(slack_begins_and_ends_within_the_window) {
    manual_clock::set(at(0ns));
    tvec::clocked_wheel<Ticks<std::chrono::milliseconds>> timers;
    probe p;
    timers.arm_within(p.t, 4'500us, 5'500us);
    CHECK_EQ(p.t.expires(), 5);
}

Test(clock, periods_cover_run_time_ticks) {
    const chosen_clock_of<std::chrono::milliseconds> ms;
    CHECK_EQ(ms.ticks_to_cover(-5s), 0);
    CHECK_EQ(ms.ticks_to_cover(0ns), 0);
    CHECK_EQ(ms.ticks_to_cover(1ns), 1);
    CHECK_EQ(ms.ticks_to_cover(3ms), 3);
    CHECK_EQ(ms.ticks_to_cover(3ms + 1ns), 4);
    CHECK_EQ(ms.ticks_to_cover(frame(1)), 17);
    CHECK_EQ(ms.ticks_to_cover(std::chrono::hours::max()), tvec::never);
    const chosen_clock_of<nanoseconds> ns;
    using unsigned_ns = std::chrono::duration<std::uint64_t, std::nano>;
    CHECK_EQ(ns.ticks_to_cover(nanoseconds::max()), tvec::never);
    CHECK_EQ(ns.ticks_to_cover(unsigned_ns((std::uint64_t{1} << 63) + 5)), tvec::never);
}

Test(clock, a_run_time_tick_is_the_one_chosen) {
    const tvec::runtime_tick_clock five(5ms);
    CHECK(five.tick_length() == 5ms);
    CHECK(five.start_of(2) - five.origin() == 10ms);
    tvec::clocked_wheel timers{tvec::runtime_tick_clock<manual_clock>(250us)};
    static_assert(std::is_void_v<decltype(timers)::tick>);
    probe p;
    timers.arm_after(p.t, 1ms);
    CHECK_EQ(p.t.expires(), 4);
    CHECK(timers.ticks().tick_length() == 250us);
}

Test(clock, a_nonpositive_tick_is_one_clock_unit) {
    for (const nanoseconds wrong : {0ns, -1ns, nanoseconds::min()}) {
        manual_clock::set(at(0ns));
        tvec::clocked_wheel timers{tvec::runtime_tick_clock<manual_clock>(wrong)};
        CHECK(timers.ticks().tick_length() == 1ns);
        probe p;
        timers.arm_after(p.t, 7ns);
        manual_clock::set(at(6ns));
        CHECK_EQ(timers.run().fired, 0);
        manual_clock::set(at(7ns));
        CHECK_EQ(timers.run().fired, 1);
    }
}

Test(clock, pools_sleepers_and_alarms_accept_run_time_ticks) {
    manual_clock::set(at(0ns));
    tvec::clocked_wheel timers{tvec::runtime_tick_clock<manual_clock>(5ms)};
    tvec::timeout_pool pool(timers);
    int calls = 0;
    pool.schedule(6ms, [&] { ++calls; });
    pool.schedule_every(10ms, [&] { ++calls; });
    const auto asleep = tvec::sleep_for(timers, 6ms);
    static_cast<void>(asleep);
    tvec::timerfd_alarm alarm{timers};
    alarm.rearm();
    manual_clock::set(at(10ms - 1ns));
    timers.run();
    CHECK_EQ(calls, 0);
    manual_clock::set(at(10ms));
    timers.run();
    CHECK_EQ(calls, 2);
}

Test(clock, a_clocked_wheel_tells_deadline_and_remaining_time) {
    manual_clock::set(at(5ms));
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, manual_clock>> timers;
    tvec::timer t, endless;
    CHECK(!timers.remaining(t));
    timers.arm_after(t, 2ms + 1ns);
    CHECK(timers.now() == manual_clock::now());
    CHECK(timers.deadline(t) == timers.now() + 3ms);
    CHECK(timers.remaining(t) == 3ms);
    manual_clock::advance(1ms + 1ns);
    CHECK(timers.remaining(t) == 2ms - 1ns);
    manual_clock::advance(1h);
    CHECK(timers.remaining(t) == 0ms);
    t.cancel();
    CHECK(!timers.remaining(t));
    timers.arm_after(endless, std::chrono::hours::max());
    CHECK(timers.deadline(endless) == manual_clock::time_point::max());
}

#ifndef NDEBUG  // these are assertions

Test(clock, a_wheel_knows_no_deadlines_of_another, .signal = SIGABRT) {
    wheel one, another;
    tvec::timer t;
    one.arm_after(t, 3ms);
    (void)another.deadline(t);
}

Test(clock, a_wheel_knows_no_time_left_in_another, .signal = SIGABRT) {
    wheel one, another;
    tvec::timer t;
    one.arm_after(t, 3ms);
    (void)another.remaining(t);
}

#endif
