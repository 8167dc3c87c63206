// The reactor's wait on a real ring. Times are bounded generously: never early is exact, late is
// not judged.
#include <liburing.h>
#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <system_error>
#include <vector>

#include "support/check.hpp"
#include "tvec/uring_wait.hpp"

using namespace std::chrono_literals;
using wheel = tvec::clocked_wheel<>;
using std::chrono::steady_clock;

TestSuite(uring, .timeout = 60);

namespace {

// A ring for a test; skips the test, visibly, where there is no io_uring.
class ring {
public:
    explicit ring(unsigned entries = 8, unsigned flags = 0) {
        const int result = io_uring_queue_init(entries, &ring_, flags);
        if (result < 0) cr_skip("no io_uring here: error %d", -result);
    }
    ~ring() { io_uring_queue_exit(&ring_); }
    ring(const ring&) = delete;
    ring& operator=(const ring&) = delete;

    io_uring& get() { return ring_; }

    void submit_nop() { io_uring_prep_nop(io_uring_get_sqe(&ring_)); }

    unsigned reap() {
        unsigned head = 0, n = 0;
        io_uring_cqe* cqe = nullptr;
        io_uring_for_each_cqe(&ring_, head, cqe) { ++n; }
        io_uring_cq_advance(&ring_, n);
        return n;
    }

private:
    io_uring ring_{};
};

struct appointment {
    void on_fire() {
        fired = true;
        early = steady_clock::now() < deadline;
    }
    void arm(wheel& timers, std::chrono::milliseconds delay) {
        deadline = steady_clock::now() + delay;
        timers.arm_at(t, deadline);
    }
    steady_clock::time_point deadline;
    bool fired = false;
    bool early = false;
    tvec::timer t{tvec::call<&appointment::t, &appointment::on_fire>};
};

template <class F> std::string message_of(F f) {
    try {
        f();
    } catch (const std::system_error& e) {
        return e.what();
    }
    return "";
}

}  // namespace

Test(uring, a_thousand_timers_fire_none_early_none_lost_and_then_nothing_wakes) {
    ring r;
    wheel timers;
    tvec::uring_wait wait{r.get(), timers};
    std::vector<std::unique_ptr<appointment>> alarms;
    for (int i = 0; i < 1'000; ++i) {
        alarms.push_back(std::make_unique<appointment>());
        alarms.back()->arm(timers, std::chrono::milliseconds(1 + i % 200));
    }
    int waits = 0;
    for (; timers.next_wakeup(); ++waits) {
        wait();
        timers.run();
    }
    for (const auto& a : alarms) CHECK(a->fired && !a->early);
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

Test(uring, arming_earlier_between_waits_wakes_earlier) {
    ring r;
    wheel timers;
    tvec::uring_wait wait{r.get(), timers};
    appointment far, near;
    far.arm(timers, 3'600'000ms);
    r.submit_nop();
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

Test(uring, a_storm_of_signals_is_no_error_and_makes_nothing_early) {
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

Test(uring, work_left_over_polls_and_keeps_io_moving) {
    ring r;
    wheel timers;
    tvec::uring_wait wait{r.get(), timers};
    std::vector<std::unique_ptr<appointment>> alarms;
    for (int i = 0; i < 10; ++i) {
        alarms.push_back(std::make_unique<appointment>());
        alarms.back()->arm(timers, 1ms);
    }
    while (steady_clock::now() < alarms.back()->deadline + 5ms) usleep(1'000);
    int turns = 0;
    while (!timers.run(1).caught_up) {
        r.submit_nop();
        wait();  // would sleep for ever if it waited for what has been reaped
        CHECK_EQ(r.reap(), 1);
        wait();
        ++turns;
    }
    CHECK_GE(turns, 8);
    for (const auto& a : alarms) CHECK(a->fired && !a->early);
}

Test(uring, a_timer_that_never_fires_is_no_reason_to_wake) {
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

Test(uring, a_full_completion_queue_is_no_error_and_loses_nothing) {
    ring r(4);  // its completion queue has 8 places
    wheel timers;
    tvec::uring_wait wait{r.get(), timers};
    appointment a;
    a.arm(timers, 20ms);
    unsigned completed = 0;
    for (int i = 0; i < 40; ++i) {
        r.submit_nop();
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

Test(uring, works_on_each_kind_of_ring) {
    for (const unsigned flags : {0u, unsigned{IORING_SETUP_COOP_TASKRUN},
                                 unsigned{IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN},
                                 unsigned{IORING_SETUP_SQPOLL}}) {
        io_uring probe{};
        if (io_uring_queue_init(4, &probe, flags) < 0) continue;
        io_uring_queue_exit(&probe);
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

Test(uring, refuses_a_kernel_that_takes_no_deadline_in_a_wait) {
    ring r;
    wheel timers;
    io_uring old = r.get();
    old.features &= ~unsigned{IORING_FEAT_EXT_ARG};
    const std::string why = message_of([&] { tvec::uring_wait wait{old, timers}; });
    CHECK(why.find("IORING_FEAT_EXT_ARG") != std::string::npos);
}

Test(uring, refuses_a_polled_ring) {
    ring r;
    wheel timers;
    io_uring polled = r.get();
    polled.flags |= IORING_SETUP_IOPOLL;
    const std::string why = message_of([&] { tvec::uring_wait wait{polled, timers}; });
    CHECK(why.find("IORING_SETUP_IOPOLL") != std::string::npos);
}

Test(uring, reports_a_ring_that_is_gone) {
    ring r;
    wheel timers;
    tvec::uring_wait wait{r.get(), timers};
    appointment a;
    a.arm(timers, 50ms);
    const int fd = r.get().ring_fd;
    const int entered = r.get().enter_ring_fd;
    r.get().ring_fd = r.get().enter_ring_fd = -1;
    const std::string why = message_of([&] { wait(); });
    r.get().ring_fd = fd;
    r.get().enter_ring_fd = entered;
    CHECK(why.find("io_uring_enter") != std::string::npos);
}
