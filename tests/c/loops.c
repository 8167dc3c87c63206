/* The loop of a program in C: how long it may wait, the wait of epoll, and wheel, clock and watch
 * in one. */
#define _GNU_SOURCE /* for usleep */

#include <errno.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "check.h"
#include "probe.h"

TestSuite(c_loops, .timeout = 60);

static const int64_t ms = 1000000, hour = 3600000000000;

static struct tvec_loop loop;

static void begin(int64_t tick) { CHECK(tvec_loop_init(&loop, TVEC_CLOCK_MONOTONIC, tick) == 0); }

static int wait_ms(void) { return tvec_wait_ms(&loop.wheel, &loop.clock); }

Test(c_loops, a_timeout_of_milliseconds_is_rounded_up) {
    struct probe p = PROBE_INIT;
    int64_t before, after, due;
    int timeout;
    begin(1000);
    CHECK(wait_ms() == -1);
    tvec_arm_at(&loop.wheel, &p.timer, TVEC_NEVER);
    CHECK(wait_ms() == -1);
    tvec_loop_arm_after(&loop, &p.timer, hour);
    due = tvec_clock_start_of(&loop.clock, tvec_next_wakeup(&loop.wheel));
    before = tvec_clock_read(&loop.clock);
    timeout = wait_ms();
    after = tvec_clock_read(&loop.clock);
    CHECK(after + timeout * ms >= due);
    CHECK(before + (timeout - 1) * ms < due);
    tvec_loop_destroy(&loop);
}

Test(c_loops, a_timeout_is_zero_once_timers_are_due) {
    struct probe p[2] = {PROBE_INIT, PROBE_INIT};
    begin(1000);
    tvec_arm_after(&loop.wheel, &p[0].timer, 1);
    tvec_arm_after(&loop.wheel, &p[1].timer, 1);
    while (tvec_clock_now(&loop.clock) < tvec_expires(&p[0].timer)) continue;
    CHECK(wait_ms() == 0);
    CHECK(!tvec_advance(&loop.wheel, tvec_expires(&p[0].timer), 1).caught_up);
    loop.clock.origin += hour; /* the wheel is ahead of the clock */
    CHECK(wait_ms() == 0);
    tvec_loop_destroy(&loop);
}

Test(c_loops, a_timeout_is_clamped_to_an_int) {
    struct probe p = PROBE_INIT;
    begin(24 * hour);
    tvec_arm_at(&loop.wheel, &p.timer, 200);
    CHECK(wait_ms() == INT_MAX);
    tvec_loop_destroy(&loop);
}

static int watch(int epoll, unsigned value) {
    struct epoll_event wanted = {.events = EPOLLIN};
    wanted.data.fd = eventfd(value, EFD_CLOEXEC);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, wanted.data.fd, &wanted) == 0);
    return wanted.data.fd;
}

Test(c_loops, epoll_waits_end_for_timers_and_events) {
    const int epoll = epoll_create1(EPOLL_CLOEXEC), silent = watch(epoll, 0);
    struct epoll_event event[2];
    struct probe p = PROBE_INIT;
    int64_t deadline;
    int readable;
    begin(ms);
    deadline = tvec_clock_read(&loop.clock) + 20 * ms;
    tvec_loop_arm_after(&loop, &p.timer, 20 * ms);
    while (p.fired == 0) {
        CHECK(tvec_epoll_wait(epoll, event, 2, &loop.wheel, &loop.clock) == 0);
        tvec_advance(&loop.wheel, tvec_clock_now(&loop.clock), TVEC_UNLIMITED);
    }
    CHECK(tvec_clock_read(&loop.clock) >= deadline);
    readable = watch(epoll, 1);
    CHECK(tvec_epoll_wait(epoll, event, 2, &loop.wheel, &loop.clock) == 1); /* no timer: no limit */
    CHECK(event[0].data.fd == readable);
    tvec_loop_destroy(&loop);
    close(readable);
    close(silent);
    close(epoll);
}

Test(c_loops, the_loop_does_not_sleep_on_unfinished_work) {
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event;
    struct probe p[2] = {PROBE_INIT, PROBE_INIT};
    begin(ms);
    tvec_arm_after(&loop.wheel, &p[0].timer, 100001);
    tvec_arm_after(&loop.wheel, &p[1].timer, 100001);
    CHECK(!tvec_advance(&loop.wheel, tvec_now(&loop.wheel) + 100001, 1).caught_up);
    CHECK(tvec_epoll_wait(epoll, &event, 1, &loop.wheel, &loop.clock) == 0);
    tvec_loop_destroy(&loop);
    close(epoll);
}

Test(c_loops, a_wait_that_fails_returns_the_error) {
    struct epoll_event event;
    begin(ms);
    CHECK(tvec_epoll_wait(-1, &event, 1, &loop.wheel, &loop.clock) == -EBADF);
    CHECK(tvec_loop_epoll_wait(&loop, -1, &event, 1) == -EBADF);
    tvec_loop_destroy(&loop);
}

Test(c_loops, one_struct_keeps_deadlines_on_epoll) {
    const int epoll = epoll_create1(EPOLL_CLOEXEC), readable = watch(epoll, 1);
    struct epoll_event event;
    struct probe p = PROBE_INIT;
    int64_t deadline;
    begin(ms);
    CHECK(loop.clock.tick == ms);
    deadline = tvec_clock_read(&loop.clock) + 20 * ms;
    CHECK(!tvec_loop_arm_after(&loop, &p.timer, 10 * ms));
    CHECK(tvec_loop_arm_after(&loop, &p.timer, 20 * ms)); /* pushed back */
    CHECK(tvec_loop_epoll_wait(&loop, epoll, &event, 1) == 1);
    CHECK(event.data.fd == readable);
    CHECK_EQ(tvec_loop_run(&loop, 1, 256).fired, 0);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_DEL, readable, NULL) == 0);
    while (p.fired == 0) {
        CHECK(tvec_loop_epoll_wait(&loop, epoll, &event, 1) == 0);
        tvec_loop_run(&loop, 0, 256);
    }
    CHECK(tvec_clock_read(&loop.clock) >= deadline);
    tvec_loop_destroy(&loop);
    close(readable);
    close(epoll);
}

Test(c_loops, a_stalled_loop_hears_its_peers_first) {
    const int epoll = epoll_create1(EPOLL_CLOEXEC), readable = watch(epoll, 1);
    struct epoll_event event;
    struct probe p = PROBE_INIT;
    bool taken = false;
    begin(ms);
    tvec_loop_arm_after(&loop, &p.timer, ms);
    usleep(150000);
    CHECK(tvec_loop_epoll_wait(&loop, epoll, &event, 1) == 1);
    CHECK_EQ(tvec_loop_run(&loop, 1, 256).fired, 0);
    CHECK_EQ(loop.watch.stalls, 1);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_DEL, readable, NULL) == 0);
    CHECK(tvec_loop_epoll_wait(&loop, epoll, &event, 1) == 0); /* something is due: no sleep */
    CHECK_EQ(tvec_loop_run(&loop, 0, 256).fired, 1);
    CHECK(tvec_second_chance(&loop.watch, &taken));
    tvec_loop_destroy(&loop);
    close(readable);
    close(epoll);
}

Test(c_loops, a_loop_without_such_a_clock_is_refused) {
    CHECK(tvec_loop_init(&loop, 0, ms) == -EINVAL);
    CHECK(tvec_loop_init(&loop, TVEC_CLOCK_MONOTONIC, 0) == -EINVAL);
}
