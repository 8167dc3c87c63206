// P5: deadlines round up, readings round down, a delay is measured from the clock at the call.
// Nothing fires early by even a nanosecond.
#include <random>
#include <thread>
#include <type_traits>
#include <utility>

#include "support/check.hpp"
#include "support/environment.hpp"
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
using odd_tick = std::chrono::duration<std::int64_t, std::ratio<1'234'567, 1'000'000'000>>;
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

// The conversions beside plain 128-bit arithmetic.
template <class Tick, template <class> class Ticks = clock_of>
void agrees_with_wide_arithmetic(std::int64_t count) {
    __extension__ using wide = __int128;
    using ratio = std::ratio_divide<std::nano, typename Tick::period>;
    const Ticks<Tick> ticks(at(0ns));
    const wide exact = wide{count} * ratio::num;
    const auto down = static_cast<jiffies>(exact / ratio::den);
    const auto up = static_cast<jiffies>((exact + ratio::den - 1) / ratio::den);
    REQUIRE_EQ(ticks.floor(at(nanoseconds(count))), down);
    REQUIRE_EQ(ticks.ceil(at(nanoseconds(count))), up);
    const auto start = ticks.start_of(down);
    REQUIRE(start <= at(nanoseconds(count)));
    REQUIRE_EQ(ticks.floor(start), down);
    REQUIRE(down == 0 || ticks.floor(start - 1ns) == down - 1);
}

// `scale` beside plain 128-bit arithmetic, around every power of two and around the limit.
template <class Per> void scale_agrees() {
    __extension__ using wide = unsigned __int128;
    using tvec::detail::scale, tvec::detail::rounding;
    constexpr std::uint64_t limit = tvec::never;
    const auto one = [&](std::uint64_t count) {
        const wide product = wide{count} * static_cast<std::uint64_t>(Per::num);
        const wide den = static_cast<std::uint64_t>(Per::den);
        const auto cut = [](wide w) { return w < limit ? static_cast<std::uint64_t>(w) : limit; };
        REQUIRE_EQ((scale<Per, rounding::down>(count, limit)), cut(product / den));
        REQUIRE_EQ((scale<Per, rounding::up>(count, limit)), cut((product + den - 1) / den));
    };
    const auto last = static_cast<std::uint64_t>(
        wide{limit} * static_cast<std::uint64_t>(Per::den) / static_cast<std::uint64_t>(Per::num));
    for (std::uint64_t near = 0; near < 40; ++near) {
        for (unsigned power = 0; power < 64; ++power) one((std::uint64_t{1} << power) + near - 20);
        one(last + near - 20);
    }
}

constexpr std::int64_t largest = 12;

template <std::int64_t... I>
void all_small_ratios_agree(std::integer_sequence<std::int64_t, I...>) {
    (scale_agrees<std::ratio<I / largest + 1, I % largest + 1>>(), ...);
}

}  // namespace

Test(clock, a_delay_is_never_short_and_at_most_a_tick_long) {
    for (const nanoseconds phase : {0ns, 1ns, 499'999ns, 500'000ns, 999'999ns})
        for (const nanoseconds delay :
             {1ns, 500'000ns, 999'999ns, 1'000'000ns, 1'000'001ns, 7'000'000ns}) {
            fires_within_a_tick_of<std::chrono::milliseconds>(delay, phase);
            fires_within_a_tick_of<frame>(delay, phase);
            fires_within_a_tick_of<hundred_us>(delay, phase);
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

Test(clock, a_relative_arm_and_a_run_read_the_clock_once) {
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

Test(clock, several_timers_are_armed_for_one_point_in_time) {
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

Test(clock, nothing_fires_early_at_any_phase_of_any_tick) {
    std::mt19937_64 random(4);
    for (std::size_t i = support::scaled(10'000); i > 0; --i) {
        const auto delay = nanoseconds(1 + static_cast<std::int64_t>(random() % 50'000'000));
        const auto phase = nanoseconds(static_cast<std::int64_t>(random() % 50'000'000));
        fires_within_a_tick_of<third_of_ms>(delay, phase);
        fires_within_a_tick_of<frame>(delay, phase);
        fires_within_a_tick_of<hundred_us, chosen_clock_of>(delay, phase);
        fires_within_a_tick_of<odd_tick, chosen_clock_of>(delay, phase);
    }
}

Test(clock, conversions_are_exact) {
    std::mt19937_64 random(5);
    for (unsigned shift = 1; shift < 63; ++shift)
        for (int i = 0; i < 200; ++i) {
            const auto count = static_cast<std::int64_t>(random() >> shift);
            agrees_with_wide_arithmetic<std::chrono::milliseconds>(count);
            agrees_with_wide_arithmetic<nanoseconds>(count);
            agrees_with_wide_arithmetic<frame>(count);
            agrees_with_wide_arithmetic<third_of_ms>(count);
            agrees_with_wide_arithmetic<std::chrono::hours>(count);
            agrees_with_wide_arithmetic<std::chrono::milliseconds, chosen_clock_of>(count);
            agrees_with_wide_arithmetic<nanoseconds, chosen_clock_of>(count);
            agrees_with_wide_arithmetic<odd_tick, chosen_clock_of>(count);
            agrees_with_wide_arithmetic<std::chrono::hours, chosen_clock_of>(count);
        }
}

Test(clock, scaling_is_exact_for_every_small_ratio_up_to_the_largest_count) {
    all_small_ratios_agree(std::make_integer_sequence<std::int64_t, largest * largest>());
    scale_agrees<std::ratio<1001, 30'000>>();
    scale_agrees<std::ratio<1'000'000'007, 999'999'937>>();
    scale_agrees<std::ratio<4'294'967'291, 1'000'000'000>>();
}

Test(clock, sixty_hertz_stays_exact_for_ten_years) {
    const clock_of<frame> frames(at(0ns));
    const jiffies minute = 3600;
    for (jiffies j = 0; j < minute * 60 * 24 * 3652; j += minute * 61) {
        const auto start = frames.start_of(j);
        REQUIRE_EQ(start.time_since_epoch().count(), j / 60 * 1'000'000'000);  // whole seconds
        REQUIRE_EQ(frames.floor(start), j);
        REQUIRE_EQ(frames.ceil(start), j);
        REQUIRE_EQ(frames.ceil(start + 1ns), j + 1);
        REQUIRE_EQ(frames.floor(start + 16'666'666ns), j);
        REQUIRE_EQ(frames.floor(start + 16'666'667ns), j + 1);
        REQUIRE(frames.start_of(j + 1) == start + 16'666'667ns);
        REQUIRE(frames.start_of(j + 59) == start + 983'333'334ns);
    }
}

TestBoth(a_delay_counts_from_the_call_and_not_from_the_last_run) {
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

TestBoth(a_wheel_that_was_not_run_for_long_is_not_early) {
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

TestBoth(polling_more_slowly_than_the_deadline_still_fires) {
    manual_clock::set(at(0ns));
    tvec::clocked_wheel<Ticks<std::chrono::duration<std::int64_t, std::ratio<2>>>> timers;
    probe p;
    timers.arm_after(p.t, 5s);
    for (int i = 0; i < 6 && p.fired() == 0; ++i) {
        manual_clock::advance(1800ms);
        timers.run();
    }
    CHECK_EQ(p.fired(), 1);
    CHECK(manual_clock::now() >= at(5s));
    CHECK(manual_clock::now() <= at(5s + 2s + 1800ms));
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

TestBoth(deadlines_before_the_origin_are_past) {
    manual_clock::set(at(1s));
    const Ticks<std::chrono::milliseconds> ticks(at(2s));
    CHECK_EQ(ticks.now(), 0);
    CHECK_EQ(ticks.ceil(at(1s)), 0);
    CHECK(ticks.start_of(0) == at(2s));
    CHECK(ticks.start_of(tvec::never) == manual_clock::time_point::max());
    CHECK_EQ(ticks.ticks_to_cover(-1ns), 0);
    CHECK_EQ(ticks.ticks_to_cover(1ns), 1);
    CHECK_EQ(ticks.ticks_to_cover(1ms), 1);
    CHECK_EQ(ticks.ticks_to_cover(1'000'001ns), 2);
}

TestBoth(origins_at_either_end_of_the_clock_are_legal) {
    using time_point = manual_clock::time_point;
    const Ticks<nanoseconds> whole_range(time_point::min());
    CHECK_EQ(whole_range.floor(time_point::max()), tvec::never);  // 2^64-1 ns are more ticks
    CHECK_EQ(whole_range.floor(at(-1ns)), tvec::never);           // 2^63-1 of them
    CHECK_EQ(whole_range.floor(at(-2ns)), tvec::never - 1);
    const Ticks<std::chrono::milliseconds> late(time_point::max());
    CHECK_EQ(late.ceil(time_point::max()), 0);
    CHECK(late.start_of(1) == time_point::max());
    const Ticks<std::chrono::milliseconds> early(time_point::min());
    CHECK_EQ(early.ceil(time_point::max()), 18'446'744'073'710);
    CHECK(early.start_of(1) == time_point::min() + 1ms);
}

// 292 years, which is all that a difference of two nanosecond counts can hold, are not the limit.
TestBoth(a_tick_may_begin_further_from_the_origin_than_a_duration_can_say) {
    using ticks = Ticks<std::chrono::seconds>;
    const manual_clock::time_point origin{std::chrono::hours{-80 * 365 * 24}};
    const ticks clock(manual_clock::time_point{manual_clock::duration::min()});
    const ticks later(origin);
    const auto shown = manual_clock::time_point{std::chrono::hours{90 * 365 * 24}};
    CHECK(clock.start_of(clock.ceil(shown)) >= shown);
    CHECK(later.start_of(later.ceil(shown)) >= shown);
    CHECK(clock.start_of(tvec::never) == manual_clock::time_point::max());
}

Test(clock, the_next_wakeup_is_the_instant_at_which_run_has_work) {
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

Test(clock, a_period_of_whole_ticks_is_as_many_whatever_a_tick_is_in_nanoseconds) {
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

Test(clock, each_thread_has_a_manual_clock_of_its_own) {
    manual_clock::set(at(1h));
    std::thread([] { CHECK(manual_clock::now() == at(0ns)); }).join();
    CHECK(manual_clock::now() == at(1h));
}

TestBoth(a_wheel_begins_at_the_tick_of_its_clock) {
    manual_clock::set(at(1h));
    tvec::clocked_wheel<Ticks<std::chrono::milliseconds>> timers{
        Ticks<std::chrono::milliseconds>{at(0ns)}};
    CHECK_EQ(timers.wheel().now(), 3'600'000);
}

TestBoth(delays_finer_than_the_clock_round_up_too) {
    using picoseconds = std::chrono::duration<std::int64_t, std::pico>;
    manual_clock::set(at(0ns));
    tvec::clocked_wheel<Ticks<std::chrono::milliseconds>> timers;
    probe p;
    timers.arm_after(p.t, picoseconds(1'000'000'001));  // a millisecond and a bit
    CHECK_EQ(p.t.expires(), 2);
}

TestBoth(slack_begins_and_ends_within_the_window) {
    manual_clock::set(at(0ns));
    tvec::clocked_wheel<Ticks<std::chrono::milliseconds>> timers;
    probe p;
    timers.arm_within(p.t, 4'500us, 5'500us);
    CHECK_EQ(p.t.expires(), 5);
}

Test(clock, periods_in_ticks_chosen_at_run_time_are_covered) {
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

Test(clock, a_tick_chosen_at_run_time_is_what_was_chosen) {
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

Test(clock, a_tick_of_zero_or_less_is_one_unit_of_the_clock) {
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

Test(clock, the_longest_tick_of_all_is_legal) {
    manual_clock::set(at(0ns));
    const tvec::runtime_tick_clock<manual_clock> ticks(nanoseconds::max());
    CHECK_EQ(ticks.ceil(at(1ns)), 1);
    CHECK_EQ(ticks.floor(manual_clock::time_point::max()), 1);
    CHECK(ticks.start_of(1) == manual_clock::time_point::max());
    CHECK(ticks.start_of(3) == manual_clock::time_point::max());
    CHECK(ticks.start_of(tvec::never) == manual_clock::time_point::max());
}

Test(clock, a_pool_a_sleeper_and_an_alarm_work_on_ticks_chosen_at_run_time) {
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

Test(clock, says_when_a_timer_is_due_and_how_long_that_takes) {
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

// The clock can be as far before its epoch as the deadline is behind it.
Test(clock, the_time_that_remains_saturates) {
    manual_clock::set(at(-1h));
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, manual_clock>> timers;
    tvec::timer endless;
    timers.arm_after(endless, std::chrono::hours::max());
    CHECK(timers.remaining(endless) == manual_clock::duration::max());
    manual_clock::set(manual_clock::time_point::min());
    CHECK(timers.remaining(endless) == manual_clock::duration::max());
}
