// A timer with a thread of its own, and a child that has no such thread.
#include <future>
#include <memory>
#include <new>

#include "support/check.hpp"
#include "support/child.hpp"
#include "support/remoted.hpp"
#include "tvec/thread/timer_thread.hpp"

using namespace std::chrono_literals;
using tvec::send_error, tvec::timer_thread;

TestSuite(forked_timers, .timeout = 60);

namespace {

// Waits until the thread has called what was scheduled for now.
void let_pass(timer_thread<>& timers) {
    std::promise<void> called;
    if (timers.schedule(0ms, [&] { called.set_value(); })) called.get_future().wait();
}

}  // namespace

Test(forked_timers, in_a_child_everything_is_refused_and_nothing_hangs) {
    const auto token = std::make_shared<int>();
    timer_thread timers;
    const auto late = timers.schedule(1h, [token] {});
    let_pass(timers);
    const pid_t child = support::start_child([&]() -> const char* {
        if (timers.schedule(0ms, [] {}).error != send_error::stopped) return "took a function";
        if (timers.cancel(late.handle) || timers.cancel_and_wait(late.handle)) return "cancelled";
        if (timers.reschedule(late.handle, 1ms)) return "rescheduled";
        if (timers.stop() != 0) return "showed a function";
        std::destroy_at(&timers);
        new (&timers) timer_thread<>;
        let_pass(timers);
        return timers.stop() == 0 ? nullptr : "a new one does not work";
    });
    CHECK(support::ended_well(child));
    CHECK(timers.cancel(late.handle));
}

Test(forked_timers, a_timer_that_has_not_started_starts_in_the_child) {
    timer_thread timers;
    CHECK(support::ended_well(support::start_child([&]() -> const char* {
        let_pass(timers);
        return timers.stop() == 0 ? nullptr : "something is left";
    })));
    let_pass(timers);
}
