// turn_clock: one reading for a turn of the loop, none that outlives a sleep or its wheel, and
// nothing early by the turn's reading.
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <thread>

#include "support/check.hpp"
#include "support/probe.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/coroutines/sleep.hpp"
#include "tvec/extra/game_clock.hpp"
#include "tvec/extra/turn_clock.hpp"
#include "tvec/mailbox/mailbox.hpp"
#include "tvec/pool/timeout_pool.hpp"

using namespace std::chrono_literals;
using support::probe;
using tvec::manual_clock;
using time_point = manual_clock::time_point;

TestSuite(turns, .timeout = 60);

namespace {

// A clock that a test moves, and that counts who reads it.
struct counted_clock : manual_clock {
    static time_point now() noexcept {
        ++readings;
        return manual_clock::now();
    }
    static inline int readings = 0;
};
using turns_of_test = tvec::turn_clock<counted_clock>;
using turning_wheel =
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, turns_of_test>>;

template <class F> int readings_of(F f) {
    const int before = counted_clock::readings;
    f();
    return counted_clock::readings - before;
}

time_point point(std::chrono::nanoseconds since) { return time_point(since); }

// Clocks are those of a thread, and other tests may share it.
struct turns_at_zero {
    turns_at_zero() {
        turns_of_test::end_turn();
        manual_clock::set(point(0ns));
    }
    ~turns_at_zero() { turns_of_test::end_turn(); }
};

}  // namespace

Test(turns, all_calls_of_a_turn_share_a_reading) {
    const turns_at_zero begin;
    turning_wheel timers;
    probe a;
    CHECK_EQ(readings_of([&] { timers.begin_turn(); }), 1);
    manual_clock::set(point(5ms));
    CHECK_EQ(readings_of([&] {
                 for (int i = 0; i < 100; ++i) timers.arm_after(a.t, 20ms);
                 timers.arm_if_earlier(a.t, timers.after(10ms));
                 CHECK(timers.remaining(a.t) == 10ms);
             }),
             0);
    CHECK(timers.deadline(a.t) == point(10ms));  // from the turn, and not from the call
}

Test(turns, run_reads_once_and_its_callbacks_share_it) {
    const turns_at_zero begin;
    turning_wheel timers;
    probe a, b;
    a.then = [&](tvec::timer_wheel&) {
        manual_clock::advance(3ms);
        timers.arm_after(b.t, 10ms);
    };
    timers.arm_after(a.t, 10ms);
    timers.begin_turn();
    manual_clock::set(point(10ms));
    CHECK_EQ(readings_of([&] { CHECK_EQ(timers.run().fired, 1); }), 1);
    CHECK(timers.deadline(b.t) == point(20ms));
}

Test(turns, nothing_fires_before_the_reading_plus_its_delay) {
    const turns_at_zero begin;
    turning_wheel timers;
    for (auto phase = 0ns; phase < 1ms; phase += 99'999ns) {
        probe a;
        manual_clock::advance(phase);
        timers.begin_turn();
        const time_point due = manual_clock::now() + 5ms;
        manual_clock::advance(300us);
        timers.arm_after(a.t, 5ms);
        manual_clock::set(due - 1ns);
        CHECK_EQ(timers.run().fired, 0);
        manual_clock::set(due + 1ms);
        CHECK_EQ(timers.run().fired, 1);
    }
}

Test(turns, no_reading_outlives_a_sleep) {
    const turns_at_zero begin;
    turning_wheel timers;
    probe a;
    timers.begin_turn();
    CHECK(!timers.next_wakeup());  // a loop that asks will sleep
    manual_clock::set(point(1h));
    timers.arm_after(a.t, 10ms);
    CHECK(timers.deadline(a.t) == point(1h + 10ms));
}

Test(turns, each_call_reads_before_the_first_turn) {
    const turns_at_zero begin;
    turning_wheel timers;
    probe a;
    manual_clock::set(point(7ms));
    timers.arm_after(a.t, 10ms);
    CHECK(timers.deadline(a.t) == point(17ms));
}

Test(turns, run_until_ends_though_callbacks_share_a_reading) {
    const turns_at_zero begin;
    turning_wheel timers;
    const auto all = support::probes(10);
    for (auto& p : all) {
        p->then = [](tvec::timer_wheel&) { manual_clock::advance(1ms); };
        timers.arm_after(p->t, 10ms);
    }
    manual_clock::set(point(10ms));
    CHECK_EQ(timers.run_until(point(13ms)).fired, 3);
}

Test(turns, a_thread_has_turns_of_its_own) {
    const turns_at_zero begin;
    turning_wheel timers;
    timers.begin_turn();
    std::thread([] {
        manual_clock::set(point(1h));
        CHECK(turns_of_test::now() == point(1h));
    }).join();
    manual_clock::set(point(2h));
    CHECK(turns_of_test::now() == point(0ns));
}

Test(turns, pools_and_coroutines_use_the_turns_reading) {
    const turns_at_zero begin;
    turning_wheel timers;
    tvec::timeout_pool pool(timers);
    timers.begin_turn();
    manual_clock::set(point(4ms));
    int ran = 0;
    CHECK_EQ(readings_of([&] {
                 pool.schedule(10ms, [&] { ++ran; });
                 (void)tvec::sleep_for(timers, 10ms);
             }),
             0);
    manual_clock::set(point(10ms));
    timers.run();
    CHECK_EQ(ran, 1);
}

Test(turns, a_game_clock_follows_the_turn) {
    const turns_at_zero begin;
    tvec::game_clock<turns_of_test> world;
    world.resume();
    tvec::clocked_wheel timers{tvec::game_ticks<std::chrono::milliseconds, turns_of_test>(world)};
    probe a;
    timers.begin_turn();
    manual_clock::set(point(5ms));
    CHECK_EQ(readings_of([&] { timers.arm_after(a.t, 10ms); }), 0);
    manual_clock::set(point(10ms));
    CHECK_EQ(timers.run().fired, 1);
}

// A loop that ends leaves by its condition, after `run`.
Test(turns, no_turn_outlives_its_wheel) {
    const turns_at_zero begin;
    {
        turning_wheel first;
        first.run();
    }
    manual_clock::set(point(10min));
    turning_wheel second;
    probe a;
    CHECK(second.ticks().origin() == point(10min));
    second.arm_after(a.t, 1min);
    CHECK(second.deadline(a.t) == point(11min));
    CHECK_EQ(second.run().fired, 0);
}

Test(turns, no_turn_outlives_a_game_clocks_wheel) {
    const turns_at_zero begin;
    tvec::game_clock<turns_of_test> world;
    world.resume();
    {
        tvec::clocked_wheel timers{
            tvec::game_ticks<std::chrono::milliseconds, turns_of_test>(world)};
        timers.run();
    }
    manual_clock::set(point(1h));
    CHECK(turns_of_test::now() == point(1h));
}

Test(turns, senders_without_a_wheel_count_from_their_call) {
    const turns_at_zero begin;
    turning_wheel owner;
    tvec::mailbox box(owner, 8, [] {});
    int called = 0;
    std::thread([&, sender = box.sender()] {
        manual_clock::set(point(0ns));
        {
            turning_wheel own;
            own.run();
        }
        manual_clock::set(point(300ms));
        sender.schedule(200ms, [&] { ++called; });
    }).join();
    for (const auto& [time, calls] :
         {std::pair(400ms, 0), std::pair(499ms, 0), std::pair(500ms, 1)}) {
        manual_clock::set(point(time));
        box.run();
        owner.run();
        CHECK_EQ(called, calls);
    }
}

Test(turns, a_blocking_handler_shortens_delays_that_turn) {
    const turns_at_zero begin;
    turning_wheel timers;
    probe a;
    timers.begin_turn();
    manual_clock::set(point(1s));  // a handler blocks
    timers.arm_after(a.t, 500ms);
    CHECK(timers.deadline(a.t) == point(500ms));
    timers.begin_turn();
    timers.arm_after(a.t, 500ms);
    CHECK(timers.deadline(a.t) == point(1'500ms));
}

Test(turns, end_turn_ends_turns_after_exceptions) {
    const turns_at_zero begin;
    turning_wheel timers;
    probe a;
    a.then = [](tvec::timer_wheel&) { throw 1; };
    timers.arm_after(a.t, 1ms);
    manual_clock::set(point(3ms));
    try {
        timers.run();
    } catch (int) {
        manual_clock::set(point(50ms));
    }
    CHECK(manual_clock::now() == point(50ms));
    CHECK(timers.now() == point(3ms));
    turns_of_test::end_turn();
    CHECK(timers.now() == point(50ms));
}

// --- beside a flag ------------------------------------------------------------------------------

namespace {

// Wheels of a thread that come and go, in callbacks too. A flag says whether a turn is on.
class beside_a_flag {
public:
    explicit beside_a_flag(std::uint64_t seed) : random_(seed) {}

    void step() {
        act();
        CHECK(turns_of_test::now() == now());
    }

private:
    static constexpr std::size_t wheels = 3;

    struct loop {
        void on_timer() { then(); }
        std::optional<turning_wheel> timers;
        bool runs = false;
        std::function<void()> then;
        tvec::timer t{tvec::call<&loop::t, &loop::on_timer>};
    };

    time_point now() const { return reading_.value_or(manual_clock::now()); }

    void act() {
        if (random_() % 3 == 0) manual_clock::advance(std::chrono::microseconds(random_() % 4'000));
        loop& one = loops_[random_() % wheels];
        if (!one.timers) {
            one.timers.emplace();
            CHECK(one.timers->ticks().origin() == now());
            return;
        }
        switch (random_() % 8) {
        case 0:
            if (one.runs) return;
            one.timers.reset();
            reading_.reset();
            return;
        case 1:
            one.timers->begin_turn();
            reading_ = manual_clock::now();
            return;
        case 2:
            (void)one.timers->next_wakeup();
            reading_.reset();
            return;
        case 3:
        case 4:
            return run(one);
        default:
            arm(one);
        }
    }
    void arm(loop& one) {
        const std::chrono::microseconds delay(random_() % 5'000);
        one.timers->arm_after(one.t, delay);
        const auto late = one.timers->deadline(one.t) - (now() + delay);
        const bool is_next = one.t.expires() == one.timers->wheel().now() + 1;
        CHECK(late >= 0ns && (late < 1ms || is_next));
        const bool throws = random_() % 4 == 0;
        one.then = [this, throws] {
            step();
            if (throws) throw 1;
        };
    }
    void run(loop& one) {
        if (one.runs) return;
        one.runs = true;
        reading_ = manual_clock::now();
        try {
            one.timers->run();
        } catch (int) {
            ++throws_;
        }
        one.runs = false;
    }

    std::mt19937_64 random_;
    std::optional<time_point> reading_;  // of the turn
    int throws_ = 0;
    std::array<loop, wheels> loops_;
};

}  // namespace

Test(turns, turns_last_until_sleep_or_the_wheels_end) {
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        const turns_at_zero begin;
        beside_a_flag both(seed);
        for (int i = 0; i < 1'000; ++i) both.step();
    }
}

// One clock has time for both, and the other stands still in a turn of its wheel.
Test(turns, wheels_on_two_clocks_keep_each_its_time) {
    const turns_at_zero begin;
    std::mt19937_64 random(7);
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, manual_clock>> by_time;
    turning_wheel by_turns;
    struct of_two : probe {
        time_point due{};
    };
    std::array<of_two, 40> timers;
    const auto check = [&](unsigned wheel, time_point now) {
        for (unsigned i = wheel; i < timers.size(); i += 2) {
            const bool is_late = timers[i].due + 1ms <= now, is_early = timers[i].due > now;
            CHECK(!(timers[i].t.pending() ? is_late : timers[i].fired() > 0 && is_early));
        }
    };
    time_point turn = turns_of_test::begin_turn();
    for (int step = 0; step < 20'000; ++step) {
        manual_clock::advance(std::chrono::nanoseconds(random() % 1'000'000));
        const unsigned i = random() % timers.size();
        const auto delay = std::chrono::nanoseconds(random() % 20'000'000);
        if (i % 2 == 0) {
            by_time.arm_after(timers[i].t, delay);
            timers[i].due = manual_clock::now() + delay;
            by_time.run();
            check(0, manual_clock::now());
        } else if (random() % 4 != 0) {
            by_turns.arm_after(timers[i].t, delay);
            timers[i].due = turn + delay;
        } else {
            by_turns.run();
            turn = manual_clock::now();
            check(1, turn);
        }
    }
}
