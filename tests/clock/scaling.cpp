// A timer of a scaled_wheel fires between its shortest and its longest time, as the factor says.
// Changing the factor visits no timer.
#include "tvec/extra/scaled_wheel.hpp"

#include <algorithm>
#include <csignal>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/probe.hpp"
#include "tvec/inspect/inspect.hpp"

using namespace std::chrono_literals;
using support::probe;
using tvec::jiffies;
using tvec::manual_clock;
using time_point = manual_clock::time_point;

TestSuite(scaling, .timeout = 60);

namespace {

using wheel = tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, manual_clock>>;
using scaled = tvec::scaled_wheel<wheel>;

struct at_zero {
    at_zero() { manual_clock::set(time_point(0ns)); }
};

// A class of timers from 5 s to 60 s.
struct bed : at_zero {
    wheel timers;
    scaled idle{timers, 55s};

    void run_to(std::chrono::nanoseconds t) {
        manual_clock::set(time_point(t));
        timers.run();
    }
    bool fires_at(probe& p, std::chrono::milliseconds t) {
        const std::size_t before = p.fired();
        run_to(t - 1ns);
        const bool is_early = p.fired() != before;
        run_to(t);
        return !is_early && p.fired() == before + 1;
    }
};

// The promises of a scaled_wheel, in the plainest way: a timer is due at the first tick that is at
// least its shortest deadline plus the lag in force.
struct oracle {
    explicit oracle(jiffies stretch) : stretch_(stretch), lag_(stretch) {}

    void arm(int id, jiffies earliest) { due_[id] = earliest; }
    void cancel(int id) { due_.erase(id); }
    void scale(double factor) {
        lag_ = static_cast<jiffies>(std::ceil(factor * static_cast<double>(stretch_)));
    }
    std::set<int> take(jiffies tick) {
        std::set<int> fired;
        for (const auto& [id, earliest] : due_)
            if (earliest + lag_ <= tick) fired.insert(id);
        for (const int id : fired) due_.erase(id);
        return fired;
    }
    bool empty() const { return due_.empty(); }

private:
    jiffies stretch_, lag_;
    std::map<int, jiffies> due_;
};

// Random operations on a class and on its oracle. `hops`: time passes as in a loop that sleeps
// until the next wake-up.
void agrees_with_the_oracle(unsigned seed, jiffies stretch, bool hops) {
    manual_clock::set(time_point(1h));
    wheel timers;
    manual_clock::advance(std::chrono::milliseconds(seed * 977));
    timers.run();
    scaled idle(timers, std::chrono::milliseconds(stretch));
    oracle expected(stretch);
    std::mt19937 random(seed);
    const auto any = [&](jiffies n) {
        return std::uniform_int_distribution<jiffies>(0, n)(random);
    };
    auto all = support::probes(40);
    std::set<int> fired;
    for (int id = 0; id < 40; ++id)
        all[id]->then = [&fired, id](tvec::timer_wheel&) { fired.insert(id); };
    const auto pass = [&](jiffies ticks) {
        const jiffies end = timers.ticks().now() + ticks;
        for (jiffies tick = timers.ticks().now(); tick < end;) {
            tick = end;
            if (const auto wake = timers.wheel().next_wakeup(); hops && wake)
                tick = std::min(std::max(*wake, timers.ticks().now() + 1), end);
            manual_clock::set(timers.ticks().start_of(tick));
            timers.run();
        }
    };
    const auto compare = [&](jiffies from, jiffies to) {
        std::set<int> due;
        for (jiffies tick = hops ? from + 1 : to; tick <= to; ++tick)
            due.merge(expected.take(tick));
        REQUIRE(fired == due);
        fired.clear();
    };
    for (std::size_t i = support::scaled(4'000); i > 0; --i) {
        const int id = static_cast<int>(any(39));
        switch (any(9)) {
        case 0:
            all[id]->t.cancel();
            expected.cancel(id);
            break;
        case 1: {
            const double factor = static_cast<double>(any(10)) / 10;
            idle.set_factor(factor);
            expected.scale(factor);
            break;
        }
        case 2: {
            const jiffies before = timers.wheel().now();
            pass(any(any(1) ? 20 : stretch) + 1);
            compare(before, timers.wheel().now());
            break;
        }
        default: {
            const jiffies shortest = any(any(1) ? 30 : 5'000) + 1;
            idle.arm_after(all[id]->t, std::chrono::milliseconds(shortest));
            expected.arm(id, timers.ticks().now() + shortest);
        }
        }
    }
    CHECK_EQ(idle.wheel().count().clock_backward, 0);
}

}  // namespace

Test(scaling, the_factor_scales_a_timers_deadline) {
    bed b;
    probe p;
    b.idle.arm_after(p.t, 5s);
    CHECK(b.idle.deadline(p.t) == time_point(60s));
    CHECK(b.fires_at(p, 60s));
    b.idle.set_factor(0.2);
    b.idle.arm_after(p.t, 5s);
    CHECK(b.idle.deadline(p.t) == time_point(76s));
    CHECK(b.fires_at(p, 76s));
    b.idle.set_factor(0);
    b.idle.arm_after(p.t, 5s);
    CHECK(b.fires_at(p, 81s));
}

Test(scaling, a_factor_out_of_range_is_clamped) {
    bed b;
    const auto becomes = [&b](double factor) { return b.idle.set_factor(factor), b.idle.factor(); };
    CHECK_EQ(becomes(-3), 0);
    CHECK_EQ(becomes(7), 1);
    b.idle.set_factor(0);
    CHECK_EQ(becomes(std::nan("")), 1);
    probe p;
    b.idle.arm_after(p.t, 5s);
    CHECK(b.fires_at(p, 60s));
}

Test(scaling, timers_of_a_class_have_individual_minimums) {
    bed b;
    probe quick, slow;
    b.idle.arm_after(slow.t, 30s);
    b.idle.arm_after(quick.t, 1s);
    b.idle.set_factor(0.1);
    CHECK(b.fires_at(quick, 6'500ms));
    CHECK(b.fires_at(slow, 35'500ms));
}

Test(scaling, a_lower_factor_fires_overdue_timers_next_tick) {
    bed b;
    probe old, young;
    b.idle.arm_after(old.t, 5s);
    b.run_to(20s);
    b.idle.arm_after(young.t, 5s);
    b.run_to(22s);
    b.idle.set_factor(0);
    CHECK(b.timers.next_wakeup() <= time_point(22s + 1ms));
    CHECK_EQ(old.fired(), 0);
    b.run_to(22s + 1ms);
    CHECK_EQ(old.fired(), 1);
    CHECK(b.fires_at(young, 25s));
}

Test(scaling, a_rising_factor_spares_unfired_timers) {
    bed b;
    probe p;
    b.idle.arm_after(p.t, 5s);
    b.run_to(20s);
    b.idle.set_factor(0);
    b.idle.set_factor(1);
    CHECK(b.fires_at(p, 60s));
    b.idle.arm_after(p.t, 5s);
    b.run_to(90s);
    b.idle.set_factor(0.6);  // due at 98 s
    b.run_to(97s);
    b.idle.set_factor(0.8);
    CHECK(b.fires_at(p, 109s));
}

Test(scaling, a_class_supports_push_back_and_cancel) {
    bed b;
    probe p, gone;
    b.idle.set_factor(0.5);
    CHECK(!b.idle.arm_after(p.t, 5s));
    b.idle.arm_after(gone.t, 5s);
    b.run_to(30s);
    CHECK(b.idle.arm_after(p.t, 5s));
    CHECK(gone.t.cancel());
    CHECK(b.fires_at(p, 62'500ms));
    CHECK_EQ(gone.fired(), 0);
    CHECK(!b.idle.alarm_pending());
    CHECK(!b.timers.any_pending());
}

Test(scaling, a_waking_loop_agrees_with_the_oracle) {
    for (unsigned seed = 1; seed <= 12; ++seed)
        agrees_with_the_oracle(seed, std::vector<jiffies>{0, 1, 300, 55'000}[seed % 4], false);
}

Test(scaling, a_sleeping_loop_agrees_with_the_oracle) {
    for (unsigned seed = 1; seed <= 12; ++seed)
        agrees_with_the_oracle(seed, std::vector<jiffies>{0, 1, 300, 5'000}[seed % 4], true);
}

Test(scaling, setting_the_factor_visits_no_timer) {
    bed b;
    const std::size_t n = support::scaled(20'000, 500);
    auto all = support::probes(n);
    for (std::size_t i = 0; i < n; ++i)
        b.idle.arm_after(all[i]->t, std::chrono::milliseconds(i * 60'000 / n));
    std::mt19937 random(3);
    for (int i = 0; i < 1'000; ++i) {
        const std::uint64_t before = support::visits(b.idle.wheel());
        b.idle.set_factor(static_cast<double>(random() % 1'000) / 1'000);
        REQUIRE_EQ(support::visits(b.idle.wheel()), before);
        if (i % 10 == 0) b.run_to(std::chrono::milliseconds(i));
    }
    b.run_to(10min);
    while (b.idle.wheel().any_pending()) b.run_to((manual_clock::now() + 1ms).time_since_epoch());
    CHECK_EQ(support::count_fired(all), n);
    CHECK_LE(b.idle.wheel().count().moved, 2 * n);  // a minute is on level 2 at most
}

Test(scaling, a_budget_spreads_a_falling_factor_over_turns) {
    at_zero begin;
    wheel timers;
    scaled idle(timers, 55s, 10);
    auto all = support::probes(100);
    for (auto& p : all) idle.arm_after(p->t, 5s);
    manual_clock::set(time_point(40s));
    timers.run();
    idle.set_factor(0);
    manual_clock::advance(50ms);  // one run for many ticks is one turn too
    for (std::size_t turn = 0, fired = 0; fired < 90; ++turn) {
        timers.run();
        const std::size_t now = support::count_fired(all);
        REQUIRE_LE(now, fired + 10);
        REQUIRE_LE(turn, 40);
        REQUIRE(timers.next_wakeup() <= manual_clock::now() + 1ms);
        fired = now;
        manual_clock::advance(1ms);
    }
    std::size_t cancelled = 0;
    for (auto& p : all) cancelled += p->t.cancel();
    CHECK_EQ(cancelled + support::count_fired(all), 100);
}

Test(scaling, an_exception_passes_and_the_rest_stays_due) {
    bed b;
    auto all = support::probes(5);
    for (auto& p : all) {
        p->then = [](tvec::timer_wheel&) { throw std::runtime_error("a callback"); };
        b.idle.arm_after(p->t, 5s);
    }
    b.run_to(59s);
    for (int i = 0; i < 5; ++i) {
        bool threw = false;
        try {
            b.run_to(60s + std::chrono::milliseconds(i));
        } catch (const std::runtime_error&) {
            threw = true;
        }
        CHECK(threw);
    }
    CHECK_EQ(support::count_fired(all), 5);
}

Test(scaling, callbacks_may_rearm_and_set_the_factor) {
    bed b;
    probe p;
    p.then = [&](tvec::timer_wheel&) {
        if (p.fired() == 1) b.idle.set_factor(0);
        if (p.fired() < 3) b.idle.arm_after(p.t, 5s);
    };
    b.idle.arm_after(p.t, 5s);
    CHECK(b.fires_at(p, 60s));
    CHECK(b.fires_at(p, 65s));
    CHECK(b.fires_at(p, 70s));
}

Test(scaling, the_alarm_seldom_wakes_the_loop) {
    bed b;
    auto all = support::probes(100);
    for (auto& p : all) b.idle.arm_after(p->t, 5s);
    std::size_t turns = 0;
    for (auto next = b.timers.next_wakeup(); next; next = b.timers.next_wakeup(), ++turns)
        b.run_to(std::max(*next, manual_clock::now()).time_since_epoch());
    CHECK_EQ(support::count_fired(all), 100);
    CHECK_LE(turns, 12);  // each of the two wheels wakes for each level, and more for full slots
    CHECK_LE(b.idle.alarms(), turns);
}

Test(scaling, callbacks_raising_the_factor_spare_all_others) {
    bed b;
    auto all = support::probes(100);
    for (auto& p : all) {
        b.idle.arm_after(p->t, 5s);
        b.run_to((manual_clock::now() + 100ms).time_since_epoch());
        p->then = [&](tvec::timer_wheel&) {
            if (support::count_fired(all) == 3) b.idle.set_factor(1);  // there is room again
        };
    }
    b.run_to(30s);
    b.idle.set_factor(0);
    b.run_to(30s + 1ms);
    CHECK_EQ(support::count_fired(all), 3);
    for (std::size_t i = 3; i < all.size(); ++i) CHECK(b.fires_at(*all[i], 60s + i * 100ms));
}

Test(scaling, a_passed_deadline_counts_as_the_next_tick) {
    bed b;
    probe p;
    b.idle.set_factor(0);
    b.run_to(100s);
    b.idle.arm_at(p.t, time_point(50s));
    CHECK(b.idle.deadline(p.t) == time_point(100s + 1ms));
    b.idle.set_factor(1);
    CHECK(b.fires_at(p, 155s + 1ms));
}

Test(scaling, a_shortest_time_of_zero_has_two_exceptions) {
    for (const auto since : {0ms, 1ms, 100'000ms}) {
        bed b;
        probe p;
        b.run_to(since);
        b.idle.arm_after(p.t, 0ms);
        CHECK(b.fires_at(p, since + 55s + (since == 0ms ? 1ms : 0ms)));
    }
    bed b;
    probe p;
    b.run_to(100s);
    b.idle.set_factor(0);
    b.idle.arm_after(p.t, 0ms);
    CHECK(b.fires_at(p, 100s + 1ms));
    b.idle.set_factor(1);
    b.idle.arm_after(p.t, 0ms);
    CHECK(b.fires_at(p, 155s + 2ms));
}

Test(scaling, a_callback_may_set_the_factor_and_throw) {
    bed b;
    probe p, other, far;
    p.then = [&](tvec::timer_wheel&) {
        b.idle.set_factor(0.5);
        throw std::runtime_error("a callback");
    };
    b.idle.arm_after(far.t, 1h);
    b.idle.arm_after(p.t, 5s);
    try {
        b.run_to(61s);
        CHECK(false);
    } catch (const std::runtime_error&) {
    }
    b.idle.arm_after(other.t, 5s);
    CHECK(b.fires_at(other, 93'500ms));
}

// Nothing runs within the arm, which is noexcept.
Test(scaling, a_drained_alarm_returns_with_the_next_arm) {
    bed b;
    probe due, other;
    b.idle.arm_after(due.t, 5s);
    CHECK_EQ(b.timers.wheel().drain([&](tvec::timer& t) { CHECK(b.idle.is_alarm(t)); }), 1);
    b.run_to(70s);
    CHECK_EQ(due.fired(), 0);
    b.idle.arm_after(other.t, 5s);
    CHECK_EQ(due.fired(), 0);
    b.run_to(70s + 1ms);
    CHECK_EQ(due.fired(), 1);
    b.timers.wheel().for_each_pending([](tvec::timer& t) { t.cancel(); });
    b.idle.set_factor(0);
    CHECK(b.fires_at(other, 75s));
}

Test(scaling, a_scaled_wheel_wakes_no_loop_more_often) {
    const auto turns_of = [](auto arm) {
        bed b;
        auto all = support::probes(1'000);
        for (std::size_t i = 0; i < all.size(); ++i) arm(b, all[i]->t, 5s + i * 100ms);
        std::size_t turns = 0;
        for (auto next = b.timers.next_wakeup(); next; next = b.timers.next_wakeup(), ++turns)
            b.run_to(std::max(*next, manual_clock::now()).time_since_epoch());
        CHECK_EQ(support::count_fired(all), 1'000);
        return turns;
    };
    const auto plain = turns_of([](bed& b, auto& t, auto at) { b.timers.arm_after(t, at + 55s); });
    const auto scaled = turns_of([](bed& b, auto& t, auto at) { b.idle.arm_after(t, at); });
    CHECK_LE(scaled, plain + plain / 10);
}

// --- callbacks -----------------------------------------------------------------------------------

namespace {

// Timers of the loop that arm timers of the class whenever they fire, and are armed again. Each
// timer of the class fires in the first run that reaches its deadline.
class busy_loop {
public:
    busy_loop(unsigned seed, jiffies stretch)
        : random_(seed), idle_(timers_, std::chrono::milliseconds(stretch)) {
        for (auto& p : packets_) {
            p->then = [this, &t = p->t](tvec::timer_wheel&) {
                arm_one();
                receive_later(t);
            };
            receive_later(p->t);
        }
        for (auto& p : peers_)
            p->then = [this, &t = p->t](tvec::timer_wheel&) {
                const time_point due = idle_.deadline(t);
                CHECK(before_ < due && due <= manual_clock::now());
                ++fired_;
                if (any(1) == 0) arm_one();
            };
    }

    // Time passes by up to `most` ticks. A run may have a budget.
    void pass(jiffies most) {
        before_ = manual_clock::now();
        manual_clock::advance(std::chrono::milliseconds(1 + any(most - 1)));
        if (any(1) == 0) {
            timers_.run();
        } else {
            while (!timers_.run(1 + any(3)).caught_up)
                if (any(2) == 0) arm_one();
        }
        idle_.wheel().for_each_pending(
            [&](tvec::timer& t) { CHECK(idle_.deadline(t) > manual_clock::now()); });
    }
    std::size_t fired() const { return fired_; }

private:
    jiffies any(jiffies n) { return random_() % (n + 1); }

    void arm_one() {
        idle_.arm_after(peers_[any(peers_.size() - 1)]->t, std::chrono::milliseconds(1 + any(60)));
        if (any(5) == 0) idle_.set_factor(1);
    }
    void receive_later(tvec::timer& t) {
        timers_.arm_after(t, std::chrono::milliseconds(1 + any(2)));
    }

    std::mt19937 random_;
    at_zero begin_;
    wheel timers_;
    scaled idle_;
    time_point before_{};  // the time of the run before
    std::size_t fired_ = 0;
    std::vector<std::unique_ptr<probe>> packets_ = support::probes(5), peers_ = support::probes(60);
};

// A class whose callbacks set its factor, arm, cancel and throw, as those of the loop do, and whose
// wheels are walked and drained. Each fire is due by the factor in force, and after a run nothing
// is overdue that the class had to fire.
class restless {
public:
    explicit restless(unsigned seed) : random_(seed), idle_(timers_, 300ms, 1 + any(20)) {
        for (auto& p : all_)
            p->then = [this, &t = p->t](tvec::timer_wheel&) {
                CHECK(due(t) <= now());
                act();
                if (any(6) == 0) throw std::runtime_error("a callback");
            };
        for (auto& p : packets_)
            p->then = [this, &t = p->t](tvec::timer_wheel&) {
                timers_.arm_after(t, std::chrono::milliseconds(1 + any(2)));
                act();
            };
    }

    void step() {
        if (any(3) != 0) return act();
        if (any(30) == 0) lose_the_alarm();
        for (auto& p : packets_)
            if (!p->t.pending()) timers_.arm_after(p->t, 1ms);
        manual_clock::advance(std::chrono::milliseconds(any(60)));
        bool whole = true;
        try {
            timers_.run();
        } catch (const std::runtime_error&) {
            whole = false;
        }
        CHECK_EQ(check(idle_.wheel()), "");
        if (whole) settle();
    }

private:
    jiffies any(jiffies n) { return random_() % (n + 1); }
    jiffies now() { return timers_.wheel().now() + timers_.wheel().behind(); }
    jiffies due(const tvec::timer& t) { return timers_.ticks().ceil(idle_.deadline(t)); }

    void act() {
        tvec::timer& t = all_[any(all_.size() - 1)]->t;
        switch (any(5)) {
        case 0:
            t.cancel();
            return;
        case 1:
            return idle_.set_factor(static_cast<double>(any(10)) / 10);
        case 2:
            idle_.arm_at(t, manual_clock::now() - std::chrono::milliseconds(any(400)));
            return;
        default:
            idle_.arm_after(t, std::chrono::milliseconds(any(100)));
        }
    }

    void lose_the_alarm() {
        if (any(1) == 0)
            timers_.wheel().drain([](tvec::timer&) {});
        else
            timers_.wheel().for_each_pending([](tvec::timer& t) { t.cancel(); });
        idle_.set_factor(idle_.factor());
    }

    // What budgets, exceptions and raised factors have left fires on the next ticks.
    void settle() {
        for (int turns = 0; turns < 200; ++turns) {
            bool is_overdue = false;
            idle_.wheel().for_each_pending(
                [&](tvec::timer& t) { is_overdue |= due(t) + 2 <= now(); });
            if (!is_overdue) return;
            manual_clock::advance(1ms);
            try {
                timers_.run();
            } catch (const std::runtime_error&) {
            }
        }
        CHECK(!"timers stay overdue");
    }

    std::mt19937 random_;
    at_zero begin_;
    wheel timers_;
    scaled idle_;
    std::vector<std::unique_ptr<probe>> all_ = support::probes(40), packets_ = support::probes(3);
};

}  // namespace

Test(scaling, arms_from_callbacks_of_the_loop_delay_nobody) {
    for (const jiffies most : {1, 2, 7, 25})
        for (const jiffies stretch : {0, 1, 40}) {
            busy_loop loop(static_cast<unsigned>(most * 100 + stretch), stretch);
            for (std::size_t i = support::scaled(2'000, 600); i > 0; --i) loop.pass(most);
            CHECK_GE(loop.fired(), 50);
        }
}

Test(scaling, callbacks_make_no_timer_early_or_lost) {
    for (unsigned seed = 1; seed <= support::scaled(60, 5); ++seed) {
        restless class_of_timers(seed);
        for (int i = 0; i < 600; ++i) class_of_timers.step();
    }
}

#ifndef NDEBUG  // these are assertions

Test(scaling, a_class_knows_no_deadlines_of_another, .signal = SIGABRT) {
    bed b;
    scaled another{b.timers, 5s};
    tvec::timer t;
    b.idle.arm_after(t, 5s);
    (void)another.deadline(t);
}

#endif
