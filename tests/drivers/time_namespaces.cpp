// Processes whose monotonic clock is shifted, as containers restored from a checkpoint have it. Up
// to Linux 7.0, absolute timeouts of io_uring ignore the shift.
#include <sched.h>
#include <sys/time.h>

#include <fstream>

#include "support/appointment.hpp"
#include "support/check.hpp"
#include "support/child.hpp"
#include "support/loops.hpp"

using namespace std::chrono_literals;
using wheel = tvec::clocked_wheel<>;
using std::chrono::steady_clock;

TestSuite(time_namespaces, .timeout = 60);

namespace {

// In a shifted namespace: on time, and without spinning until then.
template <template <class> class Loop> const char* keep_appointments() {
    alarm(15);  // ends a sleep that is too long
    wheel timers;
    Loop<wheel> loop{timers};
    int turns = 0;
    for (int i = 0; i < 5; ++i) {
        support::appointment a;
        a.arm(timers, 20ms);
        for (; !a.fired; ++turns) {
            loop.sleep();
            timers.run();
        }
        if (a.early) return "early";
    }
    return turns <= 20 ? nullptr : "spins";
}

// Moves the children to come into a namespace whose clock is `offset` seconds ahead.
const char* shift(int offset) {
    if (unshare(CLONE_NEWTIME) != 0) return "no time namespaces";
    std::ofstream file("/proc/self/timens_offsets");
    file << "monotonic " << offset << " 0" << std::endl;
    return file ? nullptr : "cannot set the offset";
}

template <template <class> class Loop> const char* keep_appointments_shifted_by(int offset) {
    const auto before = steady_clock::now();
    if (const char* const wrong = shift(offset)) return wrong;
    const pid_t child = support::start_child([&]() -> const char* {
        const auto shifted = steady_clock::now() - before - std::chrono::seconds(offset);
        if (shifted < 0s || shifted > 5s) return "is not shifted";
        return keep_appointments<Loop>();
    });
    return support::ended_well(child) ? nullptr : "wrong in a shifted namespace";
}

}  // namespace

EACH_DRIVER(time_namespaces, timers_fire_on_time_where_the_clock_is_shifted) {
    if (!support::ended_well(support::start_child([] { return shift(1000); })))
        cr_skip("may not make a time namespace here");
    for (const int offset : {1000, -5})
        CHECK(support::ended_well(
            support::start_child([&] { return keep_appointments_shifted_by<Loop>(offset); })));
}
