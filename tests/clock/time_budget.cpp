// run_until: no callback begins once the clock has reached the deadline. The rest stays due.
#include <vector>

#include "support/check.hpp"
#include "support/probe.hpp"
#include "tvec/clock/clocked_wheel.hpp"

using namespace std::chrono_literals;
using support::probe;
using tvec::manual_clock;
using time_point = manual_clock::time_point;

TestSuite(time_budget, .timeout = 60);

namespace {

using wheel = tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, manual_clock>>;

// Ten timers due at 10 ms, each of which takes a millisecond.
struct slow {
    slow() {
        for (auto& p : all) {
            p->then = [](tvec::timer_wheel&) { manual_clock::advance(1ms); };
            timers.arm_after(p->t, 10ms);
        }
        manual_clock::set(time_point(10ms));
    }
    struct at_zero {
        at_zero() { manual_clock::set(time_point(0ns)); }
    } begin;
    wheel timers;
    std::vector<std::unique_ptr<probe>> all = support::probes(10);
};

}  // namespace

Test(time_budget, no_callback_begins_at_or_after_the_deadline) {
    slow s;
    const auto done = s.timers.run_until(time_point(13ms));
    CHECK_EQ(done.fired, 3);
    CHECK(!done.caught_up);
    CHECK(manual_clock::now() == time_point(13ms));
    CHECK(s.timers.next_wakeup() <= manual_clock::now());
    CHECK_EQ(s.timers.run_until(time_point(13ms + 1ns)).fired, 1);
    CHECK_EQ(s.timers.run_until(time_point(16ms + 1ns)).fired, 3);
    CHECK_EQ(s.timers.run().fired, 3);
}

Test(time_budget, a_passed_deadline_lets_one_callback_run) {
    slow s;
    for (int turn = 0; turn < 10; ++turn) REQUIRE_EQ(s.timers.run_until(time_point(1ms)).fired, 1);
    CHECK(s.timers.run_until(time_point(1ms)).caught_up);
    CHECK(!s.timers.any_pending());
}

Test(time_budget, a_deadline_that_is_far_changes_nothing) {
    slow s;
    const auto done = s.timers.run_until(manual_clock::time_point::max());
    CHECK_EQ(done.fired, 10);
    CHECK(done.caught_up);
}

Test(time_budget, a_budget_of_visits_counts_besides) {
    slow s;
    CHECK_EQ(s.timers.run_until(time_point(1h), 4).fired, 4);
    CHECK_EQ(s.timers.run_until(s.timers.after(2ms), 4).fired, 2);
}

Test(time_budget, timers_beyond_the_time_budget_may_be_cancelled) {
    slow s;
    s.timers.run_until(time_point(12ms));
    std::size_t cancelled = 0;
    for (auto& p : s.all) cancelled += p->t.cancel();
    CHECK_EQ(cancelled, 8);
    CHECK_EQ(s.timers.run().fired, 0);
}
