// callback_meter: the longest callback, and those over a limit.
#include <stdexcept>

#include "support/check.hpp"
#include "support/probe.hpp"
#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/extra/callback_meter.hpp"

using namespace std::chrono_literals;
using support::probe;
using tvec::manual_clock;

TestSuite(metering, .timeout = 60);

namespace {

using wheel = tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, manual_clock>>;
using meter = tvec::callback_meter<manual_clock>;

// A timer whose callback takes this long.
struct takes : probe {
    explicit takes(std::chrono::nanoseconds d)
        : probe([d](tvec::timer_wheel&) { manual_clock::advance(d); }) {}
};

}  // namespace

Test(metering, knows_the_longest_and_counts_those_over_the_limit) {
    wheel timers;
    takes quick(1ms), just(2ms), slow(2ms + 1ns), slower(7ms);
    for (probe* p : {static_cast<probe*>(&quick), static_cast<probe*>(&just),
                     static_cast<probe*>(&slower), static_cast<probe*>(&slow)})
        timers.arm_after(p->t, 5ms);
    manual_clock::advance(5ms);
    meter m(2ms);
    CHECK_EQ(timers.run_watched(m).fired, 4);
    CHECK_EQ(m.count(), 4);
    CHECK_EQ(m.over(), 2);
    CHECK(m.longest() == 7ms);
    CHECK(m.limit() == 2ms);
}

Test(metering, nothing_measured_is_nothing) {
    wheel timers;
    meter m(0ms);
    manual_clock::advance(5ms);
    timers.run_watched(m);
    CHECK_EQ(m.count() + m.over(), 0);
    CHECK(m.longest() == 0ms);
}

Test(metering, begins_anew) {
    wheel timers;
    takes slow(3ms);
    meter m(2ms);
    timers.arm_after(slow.t, 5ms);
    manual_clock::advance(5ms);
    timers.run_watched(m);
    m.reset();
    CHECK_EQ(m.count() + m.over(), 0);
    CHECK(m.longest() == 0ms);
    CHECK(m.limit() == 2ms);
}

Test(metering, a_callback_that_throws_is_measured_too) {
    wheel timers;
    probe p([](tvec::timer_wheel&) {
        manual_clock::advance(3ms);
        throw std::runtime_error("callback");
    });
    meter m(2ms);
    timers.arm_after(p.t, 5ms);
    manual_clock::advance(5ms);
    try {
        timers.run_watched(m);
        CHECK(false);
    } catch (const std::runtime_error&) {
    }
    CHECK_EQ(m.over(), 1);
    CHECK(m.longest() == 3ms);
}

Test(metering, may_be_part_of_another_watch) {
    wheel timers;
    takes slow(3ms), left(1ms);
    meter m(2ms);
    for (probe* p : {static_cast<probe*>(&left), static_cast<probe*>(&slow)})
        timers.arm_after(p->t, 5ms);
    manual_clock::advance(5ms);
    CHECK_EQ(timers
                 .run_watched([&](const auto& fire) {
                     m(fire);
                     return false;
                 })
                 .fired,
             1);
    CHECK_EQ(m.count(), 1);
    CHECK_EQ(timers.count_pending(), 1);
}
