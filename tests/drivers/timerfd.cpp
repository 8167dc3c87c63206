// The descriptor that becomes readable when a timer is due. Tests of all drivers are in
// every_driver.cpp.
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>

#include "support/appointment.hpp"
#include "support/check.hpp"
#include "support/child.hpp"
#include "support/probe.hpp"
#include "support/readable.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"

using namespace std::chrono_literals;
using wheel = tvec::clocked_wheel<>;
using std::chrono::steady_clock;
using support::appointment;

TestSuite(timerfd, .timeout = 60);

namespace {

template <class Wheel> void turn(Wheel& timers, tvec::timerfd_alarm<Wheel>& alarm) {
    alarm.rearm();
    support::wait_readable(alarm.fd(), 30s);
    alarm.acknowledge();
    timers.run();
}

}  // namespace

Test(timerfd, a_timerfd_alarm_alone_wakes_an_epoll_loop) {
    wheel timers;
    tvec::timerfd_alarm alarm{timers};
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    epoll_event watched{};
    watched.events = EPOLLIN | EPOLLET;  // acknowledging and arming anew makes a new edge
    epoll_ctl(epoll, EPOLL_CTL_ADD, alarm.fd(), &watched);
    appointment a;
    for (int i = 0; i < 5; ++i) {
        a.arm(timers, 5ms);
        while (!a.fired) {
            alarm.rearm();
            int ready;  // what ends of other tests' rings may interrupt it
            while ((ready = epoll_wait(epoll, &watched, 1, 30'000)) < 0 && errno == EINTR) continue;
            CHECK_EQ(ready, 1);
            CHECK(alarm.acknowledge());
            timers.run();
        }
        CHECK(a.kept());
    }
    close(epoll);
}

Test(timerfd, passed_times_of_foreign_clocks_ring_at_once) {
    tvec::manual_clock::set(tvec::manual_clock::time_point(10s));
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>> timers;
    tvec::timerfd_alarm alarm{timers};
    support::probe p;
    for (const auto late : {0ms, 5ms}) {
        timers.arm_after(p.t, 1ms);
        tvec::manual_clock::advance(1ms + late);
        alarm.rearm();
        CHECK(support::wait_readable(alarm.fd(), 30s));
        alarm.acknowledge();
        CHECK_EQ(timers.run().fired, 1);
    }
}

// Switching the timer off behind the alarm's back shows whether the alarm sets it again.
Test(timerfd, an_alarm_is_only_set_for_earlier_times) {
    wheel timers;
    tvec::timerfd_alarm alarm{timers};
    support::probe p;
    timers.arm_after(p.t, 1h);
    alarm.rearm();
    const itimerspec off{};
    REQUIRE_EQ(timerfd_settime(alarm.fd(), 0, &off, nullptr), 0);
    timers.arm_after(p.t, 2h);
    alarm.rearm();
    itimerspec left{};
    REQUIRE_EQ(timerfd_gettime(alarm.fd(), &left), 0);
    CHECK_EQ(left.it_value.tv_sec + left.it_value.tv_nsec, 0);
}

Test(timerfd, the_descriptor_is_readable_until_acknowledged) {
    wheel timers;
    tvec::timerfd_alarm alarm{timers};
    CHECK(!alarm.acknowledge());
    appointment a;
    a.arm(timers, 1ms);
    alarm.rearm();
    REQUIRE(support::wait_readable(alarm.fd(), 30s));
    CHECK(support::wait_readable(alarm.fd()));
    CHECK(alarm.acknowledge());
    CHECK(!support::wait_readable(alarm.fd()));
    CHECK(!alarm.acknowledge());
}

Test(timerfd, push_backs_and_cancels_cost_few_wakeups) {
    wheel timers;
    tvec::timerfd_alarm alarm{timers};
    appointment pushed;
    pushed.arm(timers, 5ms);
    alarm.rearm();
    pushed.arm(timers, 40ms);
    int turns = 0;
    for (; !pushed.fired; ++turns) turn(timers, alarm);
    CHECK(pushed.kept());
    CHECK_LE(turns, 2);

    appointment cancelled;
    cancelled.arm(timers, 20ms);
    alarm.rearm();
    cancelled.t.cancel();
    turn(timers, alarm);
    alarm.rearm();
    CHECK(!support::wait_readable(alarm.fd(), 50ms));
}

namespace {

template <class Clock> void drives_a_wheel(int id) {
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, Clock>> timers;
    tvec::timerfd_alarm alarm{timers};
    tvec::timer t;
    const auto deadline = Clock::now() + 20ms;
    timers.arm_at(t, deadline);
    alarm.rearm();
    const std::string settings = "/proc/self/fdinfo/" + std::to_string(alarm.fd());
    std::ifstream file(settings);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    CHECK(text.find("clockid: " + std::to_string(id) + "\n") != text.npos);
    CHECK(text.find("settime flags: 01\n") != text.npos);  // TFD_TIMER_ABSTIME
    while (t.pending()) turn(timers, alarm);
    CHECK(Clock::now() >= deadline);
}

}  // namespace

Test(timerfd, boot_time_drives_a_wheel_too) {
    drives_a_wheel<tvec::boottime_clock>(CLOCK_BOOTTIME);
}

// The kernel moves an alarm for a point in time of CLOCK_REALTIME when that clock is set.
Test(timerfd, the_time_of_day_may_drive_a_wheel) {
    drives_a_wheel<std::chrono::system_clock>(CLOCK_REALTIME);
}

Test(timerfd, clocks_unknown_to_the_kernel_count_real_time) {
    using ticks = tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>;
    tvec::clocked_wheel<ticks> timers;
    tvec::timerfd_alarm alarm{timers};
    tvec::timer t;
    timers.arm_after(t, 30ms);
    const auto before = steady_clock::now();
    alarm.rearm();
    REQUIRE(support::wait_readable(alarm.fd(), 30s));
    CHECK(steady_clock::now() - before >= 30ms);
}

Test(timerfd, alarm_and_wheel_go_in_either_order) {
    auto timers = std::make_unique<wheel>();
    auto alarm = std::make_unique<tvec::timerfd_alarm<wheel>>(*timers);
    appointment a;
    a.arm(*timers, 1ms);
    alarm->rearm();
    timers.reset();
    CHECK(support::wait_readable(alarm->fd(), 30s));  // an alarm that nobody needs any more
    CHECK(alarm->acknowledge());
}

#ifndef NDEBUG  // a debug build tells

namespace {

using manual_wheel =
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>>;

bool is_one_line_about(const std::string& said, const char* what) {
    return said.starts_with(what) && said.find('\n') == said.size() - 1;
}

// Returns the message about a loop whose alarm goes off, in so many turns that do not acknowledge
// it.
std::string said_without_acknowledging(unsigned turns, bool acknowledges_at_last) {
    return support::said_by([&] {
        manual_wheel timers;
        tvec::timerfd_alarm alarm{timers};
        tvec::timer t;
        for (int times = 0; times < 2; ++times) {
            timers.arm_after(t, 1ms);
            alarm.rearm();
            tvec::manual_clock::advance(2ms);
            support::wait_readable(alarm.fd(), 30s);
            for (unsigned i = 0; i < turns; ++i) timers.run(), alarm.rearm();
            if (acknowledges_at_last) alarm.acknowledge();
        }
    });
}

// Returns the message about a loop that is late ten times, and sets its alarm after each so many of
// them.
std::string said_when_set_after_each(int runs) {
    return support::said_by([&] {
        manual_wheel timers;
        tvec::timerfd_alarm alarm{timers};
        tvec::callback_timer beat{[&](tvec::timer_wheel& w, tvec::timer& t) { w.arm_next(t, 5); }};
        timers.arm_after(beat, 5ms);
        alarm.rearm();
        for (int run = 1; run <= 10; ++run) {
            tvec::manual_clock::advance(20ms);
            timers.run();
            if (run % runs == 0) alarm.rearm();
        }
    });
}

}  // namespace

Test(timerfd, a_missing_acknowledgement_is_reported_once) {
    constexpr const char* told = "tvec: an alarm has gone off and was not acknowledged";
    CHECK(is_one_line_about(said_without_acknowledging(1'001, false), told));
    CHECK(said_without_acknowledging(900, true).empty());
}

Test(timerfd, a_missing_rearm_is_reported_once) {
    constexpr const char* told = "tvec: timers ran late three times in a row";
    CHECK(is_one_line_about(said_when_set_after_each(3), told));
    CHECK(is_one_line_about(said_when_set_after_each(10), told));
    CHECK(said_when_set_after_each(2).empty());
}

#endif
