// Coroutines that sleep: they wake on their tick and never before, like callbacks, and may be
// destroyed at any time.
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/coroutines.hpp"
#include "support/probe.hpp"
#include "tvec/inspect/inspect.hpp"

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using support::elapsed;
using support::manual_timers;
using support::pass;
using support::started, support::task;
using support::unowned;
using tvec::jiffies;
using tvec::timer_wheel;

TestSuite(sleeping, .timeout = 60);

namespace {

using times = std::vector<milliseconds>;

task<> naps(manual_timers& timers, milliseconds each, int n, times& woken) {
    for (; n > 0; --n) {
        co_await tvec::sleep_for(timers, each);
        woken.push_back(elapsed());
    }
}

task<> sleeps_until(timer_wheel& wheel, jiffies expires, std::vector<jiffies>& woken) {
    co_await tvec::sleep_until(wheel, expires);
    woken.push_back(wheel.now());
}

}  // namespace

Test(sleeping, a_sleep_is_never_a_nanosecond_short) {
    manual_timers timers;
    times woken;
    tvec::manual_clock::advance(300us);
    task<> t = started(naps(timers, 5ms, 1, woken));
    tvec::manual_clock::advance(5ms - 1ns);
    timers.run();
    CHECK(!t.done());
    tvec::manual_clock::advance(1ms);
    timers.run();
    CHECK(t.done());
}

Test(sleeping, repeated_sleeps_are_measured_each_time) {
    manual_timers timers;
    times woken;
    task<> t = started(naps(timers, 300ms, 3, woken));
    pass(timers, 1000ms);
    CHECK(woken == (times{300ms, 600ms, 900ms}));
    CHECK(t.done());
}

namespace {

task<> sleeps_in_turn(timer_wheel& a, timer_wheel& b, std::vector<jiffies>& woken) {
    for (jiffies n = 1; n <= 3; ++n) {
        co_await sleeps_until(a, 10 * n, woken);
        co_await sleeps_until(b, 1'000 * n, woken);
    }
}

}  // namespace

// One loop resumes it, and the next sleep is that of another.
Test(sleeping, each_sleep_is_on_the_wheel_it_names) {
    timer_wheel a, b;
    std::vector<jiffies> woken;
    task<> t = started(sleeps_in_turn(a, b, woken));
    for (jiffies n = 1; n <= 3; ++n) {
        b.advance(1'000 * n - 1);
        a.advance(10 * n);
        CHECK_EQ(a.count_pending(), 0u);
        CHECK_EQ(b.count_pending(), 1u);
        a.advance(10 * n + 5);
        CHECK_EQ(woken.size(), 2 * n - 1);
        b.advance(1'000 * n);
        CHECK_EQ(b.count_pending(), 0u);
    }
    CHECK(t.done());
    CHECK(woken == (std::vector<jiffies>{10, 1'000, 20, 2'000, 30, 3'000}));
}

namespace {

task<> naps_as_agreed_before(manual_timers& on, times& w) {
    auto nap = tvec::sleep_for(on, 10ms);
    co_await tvec::sleep_for(on, 7ms);
    co_await std::move(nap);
    w.push_back(elapsed());
}

}  // namespace

Test(sleeping, a_sleep_counts_from_its_call) {
    manual_timers timers;
    times woken;
    task<> t = started(naps_as_agreed_before(timers, woken));
    pass(timers, 30ms);
    CHECK(woken == times{10ms});
}

namespace {

task<> sleeps_until_3_ms(manual_timers& on, times& w) {
    co_await tvec::sleep_until(on, tvec::manual_clock::time_point(3ms));
    w.push_back(elapsed());
}

}  // namespace

Test(sleeping, past_and_empty_sleeps_last_one_tick) {
    manual_timers timers;
    pass(timers, 20ms);
    times woken;
    task<> past = sleeps_until_3_ms(timers, woken);
    task<> none = naps(timers, 0ms, 2, woken);
    task<> less_than_none = naps(timers, -5ms, 1, woken);
    for (task<>* t : {&past, &none, &less_than_none}) t->start();
    CHECK(woken.empty());
    pass(timers, 2ms);
    CHECK(woken == (times{21ms, 21ms, 21ms, 22ms}));
}

namespace {

task<> sleeps_for_ever(manual_timers& on) {
    co_await tvec::sleep_for(on, std::chrono::hours::max());
}

task<> sleeps_for_ever(timer_wheel& on) { co_await tvec::sleep_for(on, ~jiffies{0}); }

}  // namespace

Test(sleeping, a_sleep_of_the_longest_delay_stays_asleep) {
    manual_timers timers;
    timer_wheel in_ticks;
    task<> t = started(sleeps_for_ever(timers));
    task<> u = started(sleeps_for_ever(in_ticks));
    pass(timers, 100ms);
    in_ticks.advance(jiffies{1} << 40);
    CHECK(!t.done());
    CHECK(!u.done());
}

namespace {

task<> wakes_and_destroys(timer_wheel& on, std::vector<std::optional<task<>>>& others,
                          std::size_t self, int& n) {
    co_await tvec::sleep_until(on, 10);
    ++n;
    for (std::size_t i = 0; i < others.size(); ++i)
        if (i != self) others[i].reset();
}

}  // namespace

Test(sleeping, coroutines_may_destroy_others_waking_that_tick) {
    timer_wheel wheel;
    std::vector<std::optional<task<>>> all(6);
    int woken = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i].emplace(wakes_and_destroys(wheel, all, i, woken));
        all[i]->start();
    }
    wheel.advance(20);
    CHECK_EQ(woken, 1);
    CHECK_EQ(check(wheel), "");
}

namespace {

unowned sleeps_twice(timer_wheel& on, int& n) {
    co_await tvec::sleep_for(on, 3);
    co_await tvec::sleep_for(on, 300);
    ++n;
}

}  // namespace

Test(sleeping, a_detached_coroutine_may_end_inside_advance) {
    timer_wheel wheel;
    int ended = 0;
    for (int i = 0; i < 5; ++i) sleeps_twice(wheel, ended);
    wheel.advance(400);
    CHECK_EQ(ended, 5);
}

namespace {

task<> awaits_naps(manual_timers& on, times& w) {
    co_await naps(on, 5ms, 2, w);
    w.push_back(elapsed() + 1s);
}

}  // namespace

Test(sleeping, a_nested_sleep_ends_with_its_outer_task) {
    manual_timers timers;
    times woken;
    {
        task<> cut_short = started(awaits_naps(timers, woken));
        pass(timers, 7ms);
    }
    CHECK_EQ(timers.wheel().count_pending(), 0);
    task<> t = started(awaits_naps(timers, woken));
    pass(timers, 20ms);
    CHECK(woken == (times{5ms, 12ms, 17ms, 1017ms}));
}

Test(sleeping, sleepers_obey_the_budget_of_a_run) {
    timer_wheel wheel;
    std::vector<jiffies> woken;
    std::vector<task<>> all;
    for (int i = 0; i < 10; ++i) all.push_back(sleeps_until(wheel, 10, woken));
    for (task<>& t : all) t.start();
    CHECK(!wheel.advance(10, 4).caught_up);
    CHECK_EQ(woken.size(), 4);
    CHECK(wheel.advance(10).caught_up);
    CHECK_EQ(woken.size(), 10);
}

// --- named sleeps --------------------------------------------------------------------------------

namespace {

task<> sleeps_on(tvec::sleeper& nap, times& w) {
    co_await nap;
    w.push_back(elapsed());
}

}  // namespace

Test(sleeping, a_reset_moves_the_end_either_way) {
    manual_timers timers;
    times woken;
    tvec::sleeper nap = tvec::sleep_for(timers, 10ms);
    task<> t = started(sleeps_on(nap, woken));
    for (int i = 0; i < 5; ++i) {
        pass(timers, 8ms);
        nap.reset(tvec::sleep_for(timers, 10ms));
    }
    CHECK(woken.empty());
    CHECK_EQ(timers.wheel().count_pending(), 1);
    nap.reset(tvec::sleep_until(timers, tvec::manual_clock::time_point(43ms)));
    pass(timers, 20ms);
    CHECK(woken == times{43ms});
}

Test(sleeping, a_reset_to_the_past_takes_one_tick) {
    manual_timers timers;
    times woken;
    tvec::sleeper nap = tvec::sleep_for(timers, 10ms);
    task<> t = started(sleeps_on(nap, woken));
    pass(timers, 5ms);
    nap.reset(tvec::sleep_for(timers, -1ms));
    CHECK(woken.empty());
    pass(timers, 1ms);
    CHECK(woken == times{6ms});
}

Test(sleeping, a_reset_before_the_await_arms_nothing) {
    manual_timers timers;
    times woken;
    tvec::sleeper nap = tvec::sleep_for(timers, 10ms);
    nap.reset(tvec::sleep_for(timers, 4ms));
    CHECK_EQ(timers.wheel().count_pending(), 0);
    task<> t = started(sleeps_on(nap, woken));
    pass(timers, 20ms);
    CHECK(woken == times{4ms});
}

Test(sleeping, a_finished_sleeper_may_be_reset_and_awaited) {
    manual_timers timers;
    times woken;
    tvec::sleeper nap = tvec::sleep_for(timers, 5ms);
    for (int i = 0; i < 3; ++i) {
        task<> t = started(sleeps_on(nap, woken));
        pass(timers, 10ms);
        CHECK(t.done());
        nap.reset(tvec::sleep_for(timers, 5ms));
        CHECK_EQ(timers.wheel().count_pending(), 0);
    }
    CHECK(woken == (times{5ms, 15ms, 25ms}));
}

Test(sleeping, a_sleeper_tells_whether_its_time_elapsed) {
    manual_timers timers;
    times woken;
    tvec::sleeper awaited = tvec::sleep_for(timers, 10ms);
    const tvec::sleeper unawaited = tvec::sleep_for(timers, 10ms);
    tvec::sleeper moved = tvec::sleep_for(timers, 10ms);
    const tvec::sleeper endless = tvec::sleep_for(timers, std::chrono::hours::max());
    task<> t = started(sleeps_on(awaited, woken));
    pass(timers, 9ms);
    CHECK(!awaited.elapsed());
    CHECK(!unawaited.elapsed());
    moved.reset(tvec::sleep_for(timers, 10ms));
    pass(timers, 1ms);
    CHECK(awaited.elapsed());
    CHECK(unawaited.elapsed());
    CHECK(!moved.elapsed());
    CHECK(!endless.elapsed());
    awaited.reset(tvec::sleep_for(timers, 10ms));
    CHECK(!awaited.elapsed());
    CHECK_EQ(timers.wheel().count_pending(), 0);
}

Test(sleeping, a_destroyed_coroutine_ends_its_named_sleep) {
    manual_timers timers;
    times woken;
    tvec::sleeper nap = tvec::sleep_for(timers, 5ms);
    {
        task<> t = started(sleeps_on(nap, woken));
        CHECK_EQ(timers.wheel().count_pending(), 1);
    }
    CHECK_EQ(timers.wheel().count_pending(), 0);
    nap.reset(tvec::sleep_for(timers, 5ms));  // does not resume the coroutine
    pass(timers, 10ms);
    CHECK(woken.empty());
    task<> again = started(sleeps_on(nap, woken));
    pass(timers, 1ms);
    CHECK(woken == times{11ms});
}

namespace {

task<> sleeps_on_for(timer_wheel& on, tvec::sleeper& nap, jiffies limit, std::vector<bool>& o) {
    const bool slept = co_await tvec::with_timeout(on, nap, limit);
    o.push_back(slept);
}

}  // namespace

Test(sleeping, a_named_sleeper_may_have_a_limit) {
    timer_wheel wheel;
    std::vector<bool> out;
    tvec::sleeper nap = tvec::sleep_for(wheel, 10);
    task<> cut_short = started(sleeps_on_for(wheel, nap, 5, out));
    wheel.advance(5);
    CHECK(out == std::vector<bool>{false});
    CHECK_EQ(wheel.count_pending(), 0);
    task<> whole = started(sleeps_on_for(wheel, nap, 6, out));
    wheel.advance(20);
    CHECK(out == (std::vector<bool>{false, true}));
}

Test(sleeping, a_sleeper_reset_to_another_wheel_wakes_there) {
    timer_wheel first, second(1'000);
    times woken;
    tvec::sleeper nap = tvec::sleep_for(first, 10);
    task<> t = started(sleeps_on(nap, woken));
    nap.reset(tvec::sleep_for(second, 10));
    CHECK_EQ(first.count_pending(), 0);
    first.advance(100);
    CHECK(woken.empty());
    second.advance(1'010);
    CHECK_EQ(woken.size(), 1);
}

Test(sleeping, a_sleeper_that_lost_its_wheel_sleeps_elsewhere) {
    std::optional<timer_wheel> gone(std::in_place);
    timer_wheel wheel;
    times woken;
    tvec::sleeper nap = tvec::sleep_for(*gone, 10);
    {
        task<> t = started(sleeps_on(nap, woken));
        gone.reset();
        nap.reset(tvec::sleep_for(wheel, 10));
        CHECK_EQ(wheel.count_pending(), 0);
    }
    task<> t = started(sleeps_on(nap, woken));
    wheel.advance(10);
    CHECK_EQ(woken.size(), 1);
}

Test(sleeping, an_unawaited_sleeper_may_move) {
    manual_timers timers;
    times woken;
    tvec::sleeper nap = tvec::sleep_for(timers, 5ms);
    tvec::sleeper moved = std::move(nap);
    task<> t = started(sleeps_on(moved, woken));
    pass(timers, 10ms);
    CHECK(woken == times{5ms});
    static_assert(!std::is_move_assignable_v<tvec::sleeper>);
}
