// A clock that goes back is ignored, and counted; one that jumps forward costs what is due,
// not what has elapsed.
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <random>
#include <vector>

#include "support/check.hpp"
#include "support/child.hpp"
#include "support/environment.hpp"
#include "support/probe.hpp"
#include "support/starts.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/extra/game_clock.hpp"
#include "tvec/extra/scaled_wheel.hpp"
#include "tvec/extra/turn_clock.hpp"
#include "tvec/inspect/inspect.hpp"
#include "tvec/mailbox/mailbox.hpp"
#include "tvec/pool/timeout_pool.hpp"

using support::jiffies;
using support::probe;
using tvec::timer_wheel;

TestSuite(clock_jumps, .timeout = 60);

Test(clock_jumps, advancing_to_the_same_tick_twice_changes_nothing) {
    timer_wheel wheel;
    probe p;
    wheel.arm_after(p.t, 192);
    wheel.advance(192);
    CHECK_EQ(wheel.advance(192).fired, 0);
    CHECK_EQ(wheel.count().clock_backward, 0);
    CHECK(p.fired_only_at(192));
}

Test(clock_jumps, backward_steps_are_ignored_and_counted) {
    const jiffies start = (jiffies{1} << 33) + 17;
    timer_wheel wheel(start);
    probe p;
    wheel.arm_after(p.t, 10);
    for (const jiffies back : {jiffies{1}, jiffies{1} << 32, start}) {
        const auto done = wheel.advance(start - back);
        CHECK_EQ(done.fired, 0);
        CHECK(done.caught_up);
        CHECK_EQ(wheel.now(), start);
        CHECK_EQ(check(wheel), "");
    }
    CHECK_EQ(wheel.count().clock_backward, 3);
    wheel.advance(start + 10);
    CHECK(p.fired_only_at(start + 10));
}

Test(clock_jumps, backward_steps_of_a_clock_are_ignored_too) {
    using namespace std::chrono_literals;
    tvec::manual_clock::set(tvec::manual_clock::time_point(10s));
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>> timers;
    tvec::manual_clock::advance(1s);
    timers.run();
    tvec::manual_clock::advance(-500ms);
    CHECK_EQ(timers.run().fired, 0);
    CHECK_EQ(timers.wheel().count().clock_backward, 1);
    CHECK_EQ(timers.wheel().now(), 1000);
}

Test(clock_jumps, a_nights_suspend_reports_the_beats_missed) {
    using namespace std::chrono_literals;
    tvec::manual_clock::set(tvec::manual_clock::time_point(10s));
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>> timers;
    probe once, beat;
    jiffies missed = 0;
    beat.then = [&](timer_wheel&) { missed = timers.arm_next(beat.t, 20ms); };
    timers.arm_after(once.t, 1s);
    timers.arm_after(beat.t, 20ms);
    tvec::manual_clock::advance(8h + 5ms);
    CHECK_EQ(timers.run().fired, 2);
    CHECK_EQ(missed, 8 * 3'600'000 / 20 - 1);
    CHECK(once.fired_only_at(1'000));
    tvec::manual_clock::advance(15ms);
    CHECK_EQ(timers.run().fired, 1);
    CHECK_EQ(missed, 0);
}

Test(clock_jumps, a_forward_jump_fires_each_timer_once) {
    for (const jiffies jump : {jiffies{3'600'000}, jiffies{1} << 35, jiffies{1} << 40}) {
        timer_wheel wheel(99);
        auto all = support::probes(100);
        for (std::size_t i = 0; i < all.size(); ++i) wheel.arm_after(all[i]->t, 1 + i * 36'000);
        wheel.advance(99 + jump);
        for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i]->fired_only_at(100 + i * 36'000));
        CHECK_LE(support::visits(wheel), 100 * 6);
    }
}

Test(clock_jumps, jumps_by_whole_laps_are_exact) {
    for (const jiffies start : support::starts())
        for (const unsigned power : {8u, 14u, 20u, 26u, 32u})
            for (const unsigned off : {0u, 1u, 2u}) {
                const jiffies lap = (jiffies{1} << power) - 1 + off;
                timer_wheel wheel(start);
                probe at_end, after;
                wheel.arm_after(at_end.t, lap);
                wheel.arm_after(after.t, lap + 1);
                wheel.advance(start + lap);
                REQUIRE(at_end.fired_only_at(start + lap));
                REQUIRE_EQ(after.fired(), 0);
                wheel.advance(start + lap + 1);
                REQUIRE_EQ(after.fired(), 1);
            }
}

// --- steps back all the time: counters of processors that differ -------------------------------

namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using time_point = tvec::manual_clock::time_point;

// Steps back by up to a millisecond in one of fifty readings.
struct shaky_clock : tvec::manual_clock {
    static time_point now() noexcept {
        const nanoseconds back(random() % 50 == 0 ? 1 + random() % 1'000'000 : 0);
        last = manual_clock::now() - back;
        latest = std::max(latest, last);
        return last;
    }
    static void begin() {
        set(time_point(1h));
        last = latest = {};
    }
    static inline std::mt19937 random{3};
    static inline time_point last{}, latest{};
};

template <class Clock> using ticks_of = tvec::tick_clock<std::chrono::milliseconds, Clock>;

struct watched {
    void on_timer() {
        CHECK(shaky_clock::latest >= due);
        ++fired;
    }
    time_point due{};
    unsigned fired = 0;
    tvec::timer t{tvec::call<&watched::t, &watched::on_timer>};
};

// Arms and runs: arm(timer, delay) returns the time before which the timer must not fire, and
// deadline_of(timer) that at which it is due. No wait is longer.
template <class Timers, class Arm, class Deadline>
void expect_no_harm(Timers& timers, Arm arm, Deadline deadline_of) {
    std::array<watched, 64> all;
    auto& random = shaky_clock::random;
    for (int i = 0; i < 20'000; ++i) {
        shaky_clock::advance(nanoseconds(random() % 400'000));
        watched& one = all[random() % all.size()];
        timers.begin_turn();
        one.due = arm(one.t, nanoseconds(random() % 50'000'000));
        if (i % 3 == 0) timers.run(i % 2 == 0 ? 5 : timer_wheel::unlimited);
        const auto wakeup = timers.next_wakeup();
        const auto soonest = timers.ticks().start_of(timers.wheel().now() + 1);
        for (const watched& w : all)
            if (w.t.pending()) REQUIRE(wakeup && *wakeup <= std::max(deadline_of(w.t), soonest));
    }
    shaky_clock::advance(1s);
    for (int i = 0; i < 3; ++i) timers.run();
    for (const watched& w : all) CHECK(w.fired > 0 && !w.t.pending());
    CHECK_EQ(check(timers.wheel()), "");
}

template <class Clock> void expect_no_harm_to_a_wheel() {
    shaky_clock::begin();
    tvec::clocked_wheel<ticks_of<Clock>> timers;
    const auto arm = [&](tvec::timer& t, nanoseconds delay) {
        timers.arm_after(t, delay);
        return shaky_clock::last + delay;
    };
    expect_no_harm(timers, arm, [&](const tvec::timer& t) { return timers.deadline(t); });
    CHECK(timers.wheel().count().clock_backward > 0);
}

}  // namespace

Test(clock_jumps, backward_steps_make_no_timer_early) {
    expect_no_harm_to_a_wheel<shaky_clock>();
    expect_no_harm_to_a_wheel<tvec::turn_clock<shaky_clock>>();
}

Test(clock_jumps, backward_steps_make_no_scaled_timer_early) {
    shaky_clock::begin();
    tvec::clocked_wheel<ticks_of<shaky_clock>> timers;
    tvec::scaled_wheel idle(timers, 20ms);
    idle.set_factor(0.5);
    const auto arm = [&](tvec::timer& t, nanoseconds delay) {
        idle.arm_after(t, delay);
        return shaky_clock::last + delay + 10ms;
    };
    expect_no_harm(timers, arm, [&](const tvec::timer& t) { return idle.deadline(t); });
}

// A change of the speed, to the same one, between any two readings.
Test(clock_jumps, backward_steps_do_not_hasten_game_time) {
    shaky_clock::begin();
    tvec::game_clock<shaky_clock> world;
    world.resume();
    tvec::clocked_wheel timers{tvec::game_ticks<std::chrono::milliseconds, shaky_clock>(world)};
    const time_point begin = shaky_clock::last;
    const auto arm = [&](tvec::timer& t, nanoseconds delay) {
        world.set_speed(1);
        const auto now = world.now();
        CHECK(now.time_since_epoch() <= shaky_clock::latest - begin);
        timers.arm_at(t, now + delay);
        return begin + std::chrono::floor<nanoseconds>((now + delay).time_since_epoch());
    };
    expect_no_harm(timers, arm, [&](const tvec::timer& t) { return timers.deadline(t); });
}

Test(clock_jumps, backward_steps_leave_periods_and_senders_alone) {
    shaky_clock::begin();
    tvec::clocked_wheel<ticks_of<shaky_clock>> timers;
    tvec::timeout_pool pool(timers);
    tvec::mailbox box(timers, 64, [] {});
    const auto sender = box.sender();
    std::vector<jiffies> beats;
    jiffies missed = 0;
    unsigned sent = 0, called = 0;
    pool.schedule_every(10ms, [&](const tvec::timeout_call& c) {
        beats.push_back(c.due);
        missed += c.missed;
    });
    for (int i = 0; i < 20'000; ++i) {
        shaky_clock::advance(nanoseconds(shaky_clock::random() % 400'000));
        if (i % 16 == 0) {
            const nanoseconds delay(shaky_clock::random() % 3'000'000);
            const auto due = std::make_shared<time_point>();
            sent += static_cast<bool>(sender
                                          .schedule(delay,
                                                    [&called, due] {
                                                        CHECK(shaky_clock::latest >= *due);
                                                        ++called;
                                                    })
                                          .handle);
            *due = shaky_clock::last + delay;
        }
        box.run();
        timers.run();
    }
    shaky_clock::advance(10ms);
    box.run();
    timers.run();
    CHECK(sent > 1'000 && called == sent);
    for (const jiffies due : beats) CHECK_EQ(due % 10, beats.front() % 10);
    CHECK(missed <= 1 && beats.size() + missed >= (beats.back() - beats.front()) / 10 + 1);
}

// --- the morning after: eight hours in one reading --------------------------------------------

Test(clock_jumps, a_nights_suspend_keeps_every_promise) {
    tvec::manual_clock::set(time_point(1h));
    tvec::clocked_wheel<ticks_of<tvec::manual_clock>> timers;
    tvec::timeout_pool pool(timers);
    std::mt19937_64 random(8);
    struct sleeper {
        void on_timer() { ++fired; }
        jiffies earliest = 0, latest = 0;
        int fired = 0;
        tvec::timer t{tvec::call<&sleeper::t, &sleeper::on_timer>};
    };
    std::vector<sleeper> all(support::scaled(100'000, 10));
    for (std::size_t i = 0; i < all.size(); ++i) {
        sleeper& s = all[i];
        const auto delay = std::chrono::milliseconds(1 + random() % 28'800'000);
        const auto width = std::chrono::milliseconds(i % 3 == 0 ? random() % 600'000 : 0);
        if (i % 3 == 0)
            timers.arm_within(s.t, delay, delay + width);
        else
            timers.arm_after(s.t, delay);
        const auto first = static_cast<jiffies>(delay.count());
        CHECK(s.t.expires() >= first &&
              s.t.expires() <= first + static_cast<jiffies>(width.count()));
    }
    probe beyond, plan;
    timers.arm_within(beyond.t, std::chrono::hours::max(), std::chrono::hours::max());
    timers.arm_at(plan.t, tvec::manual_clock::now() + 2h);  // as at nine, in the night
    std::array<unsigned, 3> calls{};
    std::array<jiffies, 3> missed{};
    constexpr std::array policies{tvec::missed_periods::burst, tvec::missed_periods::delay,
                                  tvec::missed_periods::skip};
    std::array<jiffies, 3> last{};
    for (std::size_t i = 0; i < policies.size(); ++i)
        pool.schedule_every(
            1min,
            [&, i](const tvec::timeout_call& c) {
                ++calls[i];
                missed[i] += c.missed;
                last[i] = timers.wheel().now();
            },
            policies[i]);

    tvec::manual_clock::advance(8h + 10min + 30s);
    constexpr std::size_t budget = 256;
    for (bool caught_up = false; !caught_up;) {
        const auto before = support::visits(timers.wheel());
        caught_up = timers.run(budget).caught_up;
        REQUIRE(support::visits(timers.wheel()) - before <= budget);
        if (!caught_up) CHECK(*timers.next_wakeup() <= timers.now());
    }
    for (const sleeper& s : all) CHECK_EQ(s.fired, 1);
    CHECK_EQ(plan.fired(), 1);
    CHECK_EQ(beyond.fired(), 0);
    CHECK(beyond.t.pending());
    CHECK_EQ(calls[0], 490);
    CHECK_EQ(missed[0], 0);
    CHECK_EQ(calls[1], 1);
    CHECK_EQ(calls[2], 1);
    CHECK_EQ(missed[2], 489);
    tvec::manual_clock::advance(30s);  // the next whole minute
    timers.run();
    CHECK_EQ(calls[0], 491);
    CHECK_EQ(calls[1], 1);  // half a minute later
    CHECK_EQ(calls[2], 2);
    tvec::manual_clock::advance(30s);
    timers.run();
    CHECK_EQ(calls[1], 2);
}

#ifndef NDEBUG  // these are assertions

namespace {

constexpr const char* beyond = "tvec: the wheel() of a clocked_wheel was advanced beyond its clock";

// Returns the message about a wheel that is an hour ahead of its clock.
template <class F> std::string said_of_a_lead(F act) {
    return support::last_words([&] {
        tvec::clocked_wheel timers;
        timers.wheel().advance(3'600'000);
        act(timers);
    });
}

}  // namespace

Test(clock_jumps, a_wheel_beyond_a_steady_clock_is_reported) {
    const auto watch = [](const timer_wheel::due_callback& fire) { fire(); };
    CHECK(said_of_a_lead([](auto& timers) { timers.run(); }).starts_with(beyond));
    CHECK(said_of_a_lead([&](auto& timers) { timers.run_watched(watch); }).starts_with(beyond));
    CHECK(said_of_a_lead([](auto& timers) {
              tvec::timer t;
              timers.arm_after(t, 5ms);
          }).starts_with(beyond));
    CHECK(said_of_a_lead([](auto& timers) {
              tvec::timer t;
              timers.arm_within(t, 5ms, 6ms);
          }).starts_with(beyond));
}

Test(clock_jumps, backward_steps_of_unsteady_clocks_are_not_reported) {
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>> timers;
    tvec::manual_clock::advance(1h);
    timers.run();
    tvec::manual_clock::advance(-1min);
    tvec::timer t;
    timers.arm_after(t, 5ms);
    timers.run();
    CHECK_EQ(timers.wheel().count().clock_backward, 1);
}

#endif
