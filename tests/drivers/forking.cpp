// A ring belongs to the process that made it. A child makes its own, or leaves with exec.

#include "support/appointment.hpp"
#include "support/check.hpp"
#include "support/child.hpp"
#include "support/loops.hpp"

using namespace std::chrono_literals;
using wheel = tvec::clocked_wheel<>;
using support::appointment;

TestSuite(forking, .timeout = 60);

namespace {

template <class Wheel, class Loop> void keep(Wheel& timers, Loop& loop, const appointment& a) {
    while (!a.fired) {
        loop.sleep();
        timers.run();
    }
}

template <template <class> class Loop> const char* keep_one_of_its_own() {
    wheel timers;
    Loop<wheel> loop{timers};
    appointment a;
    a.arm(timers, 20ms);
    keep(timers, loop, a);
    return a.kept() ? nullptr : "early";
}

}  // namespace

EACH_DRIVER(forking, loops_of_parent_and_child_are_independent) {
    wheel timers;
    Loop<wheel> loop{timers};
    appointment before, after;
    before.arm(timers, 50ms);
    loop.poke();
    loop.sleep();  // the alarm is set when the process forks
    const pid_t child = support::start_child(keep_one_of_its_own<Loop>);
    after.arm(timers, 10ms);
    keep(timers, loop, after);
    keep(timers, loop, before);
    CHECK(before.kept() && after.kept());
    CHECK(support::ended_well(child));
}

EACH_DRIVER(forking, an_ending_child_leaves_its_parents_alarm) {
    wheel timers;
    Loop<wheel> loop{timers};
    appointment a;
    a.arm(timers, 50ms);
    loop.poke();
    loop.sleep();
    CHECK(support::ended_well(support::start_child([]() -> const char* { return nullptr; })));
    keep(timers, loop, a);
    CHECK(a.kept());
}

EACH_RING_DRIVER(forking, a_child_may_not_use_its_parents_ring) {
    if (!support::ring_exists(support::deferred)) cr_skip("no IORING_SETUP_DEFER_TASKRUN here");
    wheel timers;
    Loop<wheel> loop{timers, 8, support::deferred};
    appointment a;
    a.arm(timers, 30ms);
    const pid_t child = support::start_child([&]() -> const char* {
        const std::string why = support::refusal([&] { loop.sleep(); });
        return support::says(why, "File exists") ? nullptr : "was not refused";
    });
    CHECK(support::ended_well(child));
    keep(timers, loop, a);
    CHECK(a.kept());
}
