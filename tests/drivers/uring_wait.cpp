// The reactor's own wait on a real ring. What every driver has to do is in every_driver.cpp.
#include "tvec/uring_wait.hpp"
#include "support/appointment.hpp"
#include "support/check.hpp"
#include "support/ring.hpp"
#include <liburing.h>

using namespace std::chrono_literals;
using wheel = tvec::clocked_wheel<>;
using support::appointment;
using support::ring;

TestSuite(uring_wait, .timeout = 60);

// No other driver may sleep on such a ring.
Test(uring_wait, works_where_a_kernel_thread_polls_for_submissions) {
    ring r(4, IORING_SETUP_SQPOLL);
    wheel timers;
    tvec::uring_wait wait{r.get(), timers};
    appointment a;
    a.arm(timers, 10ms);
    while (!a.fired) {
        wait();
        timers.run();
    }
    CHECK(a.kept());
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
    ring r(8, IORING_SETUP_IOPOLL);
    wheel timers;
    const std::string why = support::refusal([&] { tvec::uring_wait wait{r.get(), timers}; });
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

Test(uring_wait, nothing_but_a_completion_ends_a_wait_of_whole_seconds_early) {
    ring r;
    __kernel_timespec soon{0, 20'000'000};
    io_uring_prep_timeout(io_uring_get_sqe(&r.get()), &soon, 0, 0);
    tvec::detail::submit_and_wait(r.get(), 60s);
    CHECK_EQ(r.reap(), 1);
}

Test(uring_wait, a_poll_reaps_what_the_kernel_has_put_off) {
    ring r(8, support::deferred);
    __kernel_timespec soon{0, 1'000'000};
    io_uring_prep_timeout(io_uring_get_sqe(&r.get()), &soon, 0, 0);
    const auto patience = std::chrono::steady_clock::now() + 10s;
    unsigned reaped = 0;
    while (reaped == 0 && std::chrono::steady_clock::now() < patience) {
        tvec::detail::submit_and_wait(r.get(), 0ns);
        reaped = r.reap();
    }
    CHECK_EQ(reaped, 1);
}
