// The reactor's wait on a real ring. Times are bounded generously: never early is exact, late is
// not judged.
#include <liburing.h>
#include <sys/time.h>
#include <unistd.h>

#include <csignal>

#include "support/appointment.hpp"
#include "support/check.hpp"
#include "support/ring.hpp"
#include "tvec/uring_wait.hpp"

using namespace std::chrono_literals;
using wheel = tvec::clocked_wheel<>;
using std::chrono::steady_clock;
using support::appointment;
using support::ring;

TestSuite(uring_wait, .timeout = 60);

Test(uring_wait, a_thousand_timers_fire_none_early_none_lost_and_then_nothing_wakes) {
    ring r;
    wheel timers;
    tvec::uring_wait wait{r.get(), timers};
    const auto alarms = support::appointments(1'000);
    for (std::size_t i = 0; i < alarms.size(); ++i)
        alarms[i]->arm(timers, std::chrono::milliseconds(1 + i % 200));
    int waits = 0;
    for (; timers.next_wakeup(); ++waits) {
        wait();
        timers.run();
    }
    for (const auto& a : alarms) CHECK(a->kept());
    CHECK_LE(waits, 1'000);

    // Nothing is pending: the one completion to come is the only thing that ends a wait.
    __kernel_timespec later{0, 150'000'000};
    io_uring_prep_timeout(io_uring_get_sqe(&r.get()), &later, 0, 0);
    const auto before = steady_clock::now();
    wait();
    CHECK(steady_clock::now() - before >= 150ms);
    CHECK_EQ(r.reap(), 1);
    CHECK(!timers.next_wakeup());
}

Test(uring_wait, arming_earlier_between_waits_wakes_earlier) {
    ring r;
    wheel timers;
    tvec::uring_wait wait{r.get(), timers};
    appointment far, near;
    far.arm(timers, 1h);
    r.queue_nop();
    wait();  // the completion ends it; its handler arms a timer that is due sooner
    CHECK_EQ(r.reap(), 1);
    near.arm(timers, 20ms);
    while (!near.fired) {
        wait();
        timers.run();
    }
    CHECK(!near.early);
    CHECK(!far.fired);
    CHECK(steady_clock::now() - near.deadline < 30s);
}

Test(uring_wait, a_storm_of_signals_is_no_error_and_makes_nothing_early) {
    ring r;
    wheel timers;
    tvec::uring_wait wait{r.get(), timers};
    struct sigaction ignore {};
    ignore.sa_handler = [](int) {};
    sigaction(SIGALRM, &ignore, nullptr);
    const itimerval storm{{0, 1'700}, {0, 1'700}};
    setitimer(ITIMER_REAL, &storm, nullptr);
    appointment a;
    a.arm(timers, 100ms);
    while (!a.fired) {
        wait();
        timers.run();
    }
    const itimerval calm{};
    setitimer(ITIMER_REAL, &calm, nullptr);
    CHECK(!a.early);
}

Test(uring_wait, work_left_over_polls_and_keeps_io_moving) {
    ring r;
    wheel timers;
    tvec::uring_wait wait{r.get(), timers};
    const auto alarms = support::appointments(10);
    for (const auto& a : alarms) a->arm(timers, 1ms);
    while (steady_clock::now() < alarms.back()->deadline + 5ms) usleep(1'000);
    int turns = 0;
    while (!timers.run(1).caught_up) {
        r.queue_nop();
        wait();  // would sleep for ever if it waited for what has been reaped
        CHECK_EQ(r.reap(), 1);
        wait();
        ++turns;
    }
    CHECK_GE(turns, 8);
    for (const auto& a : alarms) CHECK(a->kept());
}

Test(uring_wait, a_timer_that_never_fires_is_no_reason_to_wake) {
    ring r;
    wheel timers;
    tvec::uring_wait wait{r.get(), timers};
    tvec::timer forever;
    timers.wheel().arm_at(forever, tvec::never);
    __kernel_timespec later{0, 50'000'000};
    io_uring_prep_timeout(io_uring_get_sqe(&r.get()), &later, 0, 0);
    const auto before = steady_clock::now();
    wait();
    CHECK(steady_clock::now() - before >= 50ms);
    CHECK_EQ(r.reap(), 1);
}

Test(uring_wait, a_full_completion_queue_is_no_error_and_loses_nothing) {
    ring r(4);  // its completion queue has 8 places
    wheel timers;
    tvec::uring_wait wait{r.get(), timers};
    appointment a;
    a.arm(timers, 20ms);
    unsigned completed = 0;
    for (int i = 0; i < 40; ++i) {
        r.queue_nop();
        wait();
    }
    while (completed < 40) {
        completed += r.reap();
        if (completed < 40) wait();
    }
    CHECK_EQ(completed, 40);
    while (!a.fired) {
        wait();
        timers.run();
    }
    CHECK(!a.early);
}

Test(uring_wait, works_on_each_kind_of_ring) {
    for (const unsigned flags : {0u, unsigned{IORING_SETUP_COOP_TASKRUN}, support::deferred,
                                 unsigned{IORING_SETUP_SQPOLL}}) {
        if (!support::ring_exists(flags)) continue;
        ring r(4, flags);
        wheel timers;
        tvec::uring_wait wait{r.get(), timers};
        appointment a;
        a.arm(timers, 10ms);
        while (!a.fired) {
            wait();
            timers.run();
        }
        CHECK(!a.early);
    }
}

Test(uring_wait, refuses_a_kernel_that_takes_no_deadline_in_a_wait) {
    ring r;
    wheel timers;
    io_uring old = r.get();
    old.features &= ~unsigned{IORING_FEAT_EXT_ARG};
    const std::string why = support::refusal([&] { tvec::uring_wait wait{old, timers}; });
    CHECK(support::says(why, "IORING_FEAT_EXT_ARG"));
}

Test(uring_wait, refuses_a_polled_ring) {
    ring r;
    wheel timers;
    io_uring polled = r.get();
    polled.flags |= IORING_SETUP_IOPOLL;
    const std::string why = support::refusal([&] { tvec::uring_wait wait{polled, timers}; });
    CHECK(support::says(why, "IORING_SETUP_IOPOLL"));
}

Test(uring_wait, reports_a_ring_that_is_gone) {
    ring r;
    wheel timers;
    tvec::uring_wait wait{r.get(), timers};
    appointment a;
    a.arm(timers, 50ms);
    const int fd = r.get().ring_fd;
    const int entered = r.get().enter_ring_fd;
    r.get().ring_fd = r.get().enter_ring_fd = -1;
    const std::string why = support::refusal([&] { wait(); });
    r.get().ring_fd = fd;
    r.get().enter_ring_fd = entered;
    CHECK(support::says(why, "io_uring_enter"));
}
