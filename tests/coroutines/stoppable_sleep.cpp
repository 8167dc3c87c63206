// Coroutines that sleep until stop is requested: they resume inside the wheel, and know the reason.
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "support/coroutines.hpp"
#include "support/probe.hpp"
#include "tvec/extra/stoppable_sleep.hpp"
#include "tvec/inspect/inspect.hpp"

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using support::elapsed;
using support::manual_timers;
using support::pass;
using support::reckless;
using support::started, support::task;
using tvec::timer_wheel;

TestSuite(stoppable_sleep, .timeout = 60);

namespace {

struct waking {
    milliseconds at;
    bool stopped;
    bool operator==(const waking&) const = default;
};
using wakings = std::vector<waking>;

task<> naps(manual_timers& timers, milliseconds each, int n, std::stop_token token, wakings& w) {
    for (; n > 0; --n) {
        const bool stopped = co_await tvec::sleep_for(timers, each, token);
        w.push_back({elapsed(), stopped});
    }
}

task<> naps_in_ticks(timer_wheel& wheel, std::stop_token token, std::vector<bool>& out) {
    const bool first = co_await tvec::sleep_until(wheel, 10, token);
    out.push_back(first);
    const bool second = co_await tvec::sleep_for(wheel, 10, std::move(token));
    out.push_back(second);
}

}  // namespace

Test(stoppable_sleep, an_unstopped_sleep_lasts_its_whole_time) {
    manual_timers timers;
    std::stop_source stop;
    wakings woken;
    task<> t = naps(timers, 5ms, 2, stop.get_token(), woken);
    task<> with_no_token = naps(timers, 12ms, 1, {}, woken);
    t.start();
    with_no_token.start();
    pass(timers, 20ms);
    CHECK(woken == (wakings{{5ms, false}, {10ms, false}, {12ms, false}}));
    stop.request_stop();
    CHECK(t.done());
}

Test(stoppable_sleep, an_unstopped_sleep_is_never_shorter) {
    manual_timers timers;
    wakings woken;
    tvec::manual_clock::advance(300us);
    task<> t = started(naps(timers, 5ms, 1, {}, woken));
    tvec::manual_clock::advance(5ms - 1ns);
    timers.run();
    CHECK(woken.empty());
    tvec::manual_clock::advance(1ms);
    timers.run();
    CHECK_EQ(woken.size(), 1);
}

Test(stoppable_sleep, a_stopped_sleep_ends_on_the_next_tick) {
    manual_timers timers;
    std::stop_source stop;
    wakings woken;
    task<> t = naps(timers, 1h, 1, stop.get_token(), woken);
    task<> endless = naps(timers, milliseconds::max(), 1, stop.get_token(), woken);
    t.start();
    endless.start();
    pass(timers, 3ms);
    stop.request_stop();
    CHECK(woken.empty());
    CHECK(timers.next_wakeup() == tvec::manual_clock::now() + 1ms);
    pass(timers, 1ms);
    CHECK(woken == (wakings{{4ms, true}, {4ms, true}}));
    CHECK_EQ(timers.wheel().count_pending(), 0);
    CHECK_EQ(check(timers.wheel()), "");
}

Test(stoppable_sleep, a_sleep_already_stopped_returns_at_once) {
    manual_timers timers;
    std::stop_source stop;
    stop.request_stop();
    wakings woken;
    task<> t = started(naps(timers, 1h, 3, stop.get_token(), woken));
    CHECK(woken == (wakings{{0ms, true}, {0ms, true}, {0ms, true}}));
    CHECK(!timers.next_wakeup());
}

Test(stoppable_sleep, a_stop_may_meet_the_waking_tick) {
    for (const bool first : {false, true}) {
        timer_wheel wheel;
        std::stop_source stop;
        std::vector<bool> out;
        support::probe stopper([&](timer_wheel&) { stop.request_stop(); });
        if (first) wheel.arm_at(stopper.t, 10);
        task<> t = started(naps_in_ticks(wheel, stop.get_token(), out));
        if (!first) wheel.arm_at(stopper.t, 10);
        wheel.advance(10);
        wheel.advance(11);
        CHECK_EQ(out.size(), 2);
        CHECK(out.back());
        CHECK_EQ(check(wheel), "");
    }
}

Test(stoppable_sleep, a_stop_after_the_coroutines_end_does_nothing) {
    manual_timers timers;
    std::stop_source stop;
    wakings woken;
    {
        task<> t = started(naps(timers, 5ms, 1, stop.get_token(), woken));
        CHECK_EQ(timers.wheel().count_pending(), 1);
    }
    CHECK_EQ(timers.wheel().count_pending(), 0);
    stop.request_stop();
    pass(timers, 10ms);
    CHECK(woken.empty());
}

Test(stoppable_sleep, a_stopped_coroutine_may_be_destroyed_before_waking) {
    manual_timers timers;
    std::stop_source stop;
    wakings woken;
    {
        task<> t = started(naps(timers, 5ms, 1, stop.get_token(), woken));
        stop.request_stop();
    }
    pass(timers, 10ms);
    CHECK(woken.empty());
}

Test(stoppable_sleep, a_stop_wakes_no_sleeper_without_a_wheel) {
    std::optional<manual_timers> timers(std::in_place);
    std::stop_source stop;
    wakings woken;
    task<> t = started(naps(*timers, 5ms, 1, stop.get_token(), woken));
    timers.reset();
    stop.request_stop();
    CHECK(woken.empty());
    CHECK(!t.done());
}

Test(stoppable_sleep, one_request_stops_sleeps_on_several_wheels) {
    manual_timers first, second;
    std::stop_source stop;
    wakings woken;
    task<> one = naps(first, 1h, 1, stop.get_token(), woken);
    task<> other = naps(second, 1h, 1, stop.get_token(), woken);
    one.start();
    other.start();
    stop.request_stop();
    pass(first, 1ms);
    CHECK_EQ(woken.size(), 1);
    pass(second, 1ms);
    CHECK_EQ(woken.size(), 2);
}

namespace {

// The sleep is not in the frame: see tvec/extra/stoppable_sleep.hpp on clang 14.
reckless sleeps_and_throws(tvec::stoppable_sleeper& nap, int& n) {
    co_await nap;
    ++n;
    throw std::runtime_error("from a coroutine");
}

}  // namespace

Test(stoppable_sleep, exceptions_after_a_stop_leave_advance) {
    timer_wheel wheel;
    std::stop_source stop;
    int ended = 0, thrown = 0;
    tvec::stoppable_sleeper naps[] = {tvec::sleep_for(wheel, 1'000, stop.get_token()),
                                      tvec::sleep_for(wheel, 2'000, stop.get_token())};
    const reckless both[] = {sleeps_and_throws(naps[0], ended), sleeps_and_throws(naps[1], ended)};
    stop.request_stop();
    for (int i = 0; i < 2; ++i) {
        try {
            wheel.advance(1);
        } catch (const std::runtime_error&) {
            ++thrown;
        }
    }
    CHECK_EQ(ended, 2);
    CHECK_EQ(thrown, 2);
    CHECK(wheel.advance(1).caught_up);
}

namespace {

task<> naps_for_a_while(manual_timers& on, std::stop_token token,
                        std::vector<std::optional<bool>>& o) {
    const auto nap = co_await tvec::with_timeout(on, tvec::sleep_for(on, 10ms, token), 5ms);
    o.push_back(nap);
}

}  // namespace

Test(stoppable_sleep, a_stoppable_sleep_may_have_a_limit) {
    manual_timers timers;
    std::stop_source stop;
    std::vector<std::optional<bool>> out;
    task<> too_long = started(naps_for_a_while(timers, stop.get_token(), out));
    pass(timers, 5ms);
    task<> stopped = started(naps_for_a_while(timers, stop.get_token(), out));
    stop.request_stop();
    pass(timers, 5ms);
    REQUIRE_EQ(out.size(), 2);
    CHECK(!out[0]);
    CHECK(out[1] && *out[1]);
}
