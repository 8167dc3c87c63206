/* The clock of the C interface: deadlines up, readings down, and waking by a descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "check.h"
#include "probe.h"

TestSuite(c_clock, .timeout = 60);

static const int64_t ms = 1000000;

Test(c_clock, deadlines_round_up_and_readings_down) {
    const struct tvec_clock clock = {TVEC_CLOCK_MONOTONIC, 1000, 10};
    CHECK_EQ(tvec_clock_floor(&clock, 1000), 0);
    CHECK_EQ(tvec_clock_floor(&clock, 1009), 0);
    CHECK_EQ(tvec_clock_floor(&clock, 1010), 1);
    CHECK_EQ(tvec_clock_floor(&clock, 0), 0);
    CHECK_EQ(tvec_clock_ceil(&clock, 1000), 0);
    CHECK_EQ(tvec_clock_ceil(&clock, 1001), 1);
    CHECK_EQ(tvec_clock_ceil(&clock, 1010), 1);
    CHECK_EQ(tvec_clock_ceil(&clock, 1011), 2);
    CHECK_EQ(tvec_clock_ceil(&clock, INT64_MIN), 0);
    CHECK_EQ(tvec_clock_start_of(&clock, 3), 1030);
    CHECK_EQ(tvec_clock_start_of(&clock, TVEC_NEVER), INT64_MAX);
    CHECK_EQ(tvec_clock_ticks(&clock, 21), 3);
    CHECK_EQ(tvec_clock_ticks(&clock, 20), 2);
    CHECK_EQ(tvec_clock_ticks(&clock, -1), 0);
}

Test(c_clock, unsupported_clocks_are_refused) {
    struct tvec_clock clock;
    CHECK(tvec_clock_init(&clock, 0, ms) == -EINVAL); /* CLOCK_REALTIME is stepped */
    CHECK(tvec_clock_init(&clock, TVEC_CLOCK_MONOTONIC, 0) == -EINVAL);
    CHECK(tvec_clock_init(&clock, TVEC_CLOCK_MONOTONIC, -1) == -EINVAL);
    CHECK(tvec_clock_init(&clock, TVEC_CLOCK_MONOTONIC, ms) == 0);
    CHECK(tvec_clock_init(&clock, TVEC_CLOCK_BOOTTIME, 1) == 0);
}

Test(c_clock, time_begins_when_a_clock_is_made) {
    static const int ids[] = {TVEC_CLOCK_MONOTONIC, TVEC_CLOCK_BOOTTIME};
    struct tvec_clock clock;
    for (int i = 0; i < 2; ++i) {
        CHECK(tvec_clock_init(&clock, ids[i], 3600000 * ms) == 0);
        CHECK_EQ(clock.id, ids[i]);
        CHECK_EQ(tvec_clock_now(&clock), 0);
        CHECK_EQ(tvec_clock_start_of(&clock, 0), clock.origin);
        CHECK_EQ(tvec_clock_after(&clock, 3600000 * ms), 2); /* some of the first has passed */
    }
}

Test(c_clock, a_delay_from_the_call_is_never_short) {
    struct tvec_clock clock;
    int64_t before, after;
    uint64_t tick;
    CHECK(tvec_clock_init(&clock, TVEC_CLOCK_BOOTTIME, 3 * ms) == 0);
    CHECK_EQ(clock.tick, 3 * ms);
    before = tvec_clock_read(&clock);
    tick = tvec_clock_after(&clock, 7 * ms);
    after = tvec_clock_read(&clock);
    CHECK(tvec_clock_start_of(&clock, tick) >= before + 7 * ms);
    CHECK(tvec_clock_start_of(&clock, tick) < after + 10 * ms);
    CHECK(tvec_clock_start_of(&clock, tvec_clock_after(&clock, -1000 * ms)) >= after);
    CHECK_EQ(tvec_clock_after(&clock, INT64_MAX), tvec_clock_ceil(&clock, INT64_MAX));
}

static bool is_readable(const struct tvec_timerfd* alarm, int milliseconds) {
    struct pollfd fd = {alarm->fd, POLLIN, 0};
    return poll(&fd, 1, milliseconds) == 1;
}

Test(c_clock, a_descriptor_is_readable_when_something_is_due) {
    struct tvec_clock clock;
    struct tvec_wheel* wheel;
    struct tvec_timerfd alarm;
    struct probe soon = PROBE_INIT, later = PROBE_INIT;
    int64_t deadline;
    CHECK(tvec_clock_init(&clock, TVEC_CLOCK_MONOTONIC, ms) == 0);
    wheel = tvec_wheel_new(tvec_clock_now(&clock));
    CHECK(tvec_timerfd_init(&alarm, wheel, &clock) == 0);
    CHECK(tvec_timerfd_rearm(&alarm) == 0); /* nothing to ring for */
    CHECK(!is_readable(&alarm, 0));
    CHECK(tvec_timerfd_acknowledge(&alarm) == 0);
    deadline = tvec_clock_read(&clock) + 20 * ms;
    tvec_arm_at(wheel, &soon.timer, tvec_clock_ceil(&clock, deadline - 10 * ms));
    tvec_arm_at(wheel, &later.timer, tvec_clock_ceil(&clock, deadline));
    while (later.fired == 0) {
        CHECK(tvec_timerfd_rearm(&alarm) == 0);
        CHECK(is_readable(&alarm, 10000));
        CHECK(tvec_timerfd_acknowledge(&alarm) == 1);
        CHECK(!is_readable(&alarm, 0));
        run_to(wheel, tvec_clock_now(&clock));
    }
    CHECK(tvec_clock_read(&clock) >= deadline);
    tvec_timerfd_destroy(&alarm);
    tvec_wheel_free(wheel);
}

Test(c_clock, timers_beyond_the_budget_ring_at_once) {
    struct tvec_clock clock;
    struct tvec_wheel* wheel;
    struct tvec_timerfd alarm;
    struct probe p[2] = {PROBE_INIT, PROBE_INIT};
    CHECK(tvec_clock_init(&clock, TVEC_CLOCK_MONOTONIC, ms) == 0);
    wheel = tvec_wheel_new(tvec_clock_now(&clock));
    CHECK(tvec_timerfd_init(&alarm, wheel, &clock) == 0);
    tvec_arm_after(wheel, &p[0].timer, 1);
    tvec_arm_after(wheel, &p[1].timer, 1);
    CHECK(!tvec_advance(wheel, 1, 1).caught_up);
    CHECK(tvec_timerfd_rearm(&alarm) == 0);
    CHECK(is_readable(&alarm, 10000));
    tvec_timerfd_destroy(&alarm);
    tvec_wheel_free(wheel);
}

static struct tvec_wheel* in_some_hours(struct tvec_clock* clock, struct probe* p) {
    struct tvec_wheel* wheel;
    CHECK(tvec_clock_init(clock, TVEC_CLOCK_MONOTONIC, ms) == 0);
    wheel = tvec_wheel_new(tvec_clock_now(clock));
    tvec_arm_at(wheel, &p->timer, 7200000);
    return wheel;
}

Test(c_clock, alarm_descriptors_never_block_nor_outlive_the_program) {
    struct tvec_clock clock;
    struct tvec_timerfd alarm;
    struct probe p = PROBE_INIT;
    struct tvec_wheel* wheel = in_some_hours(&clock, &p);
    CHECK(tvec_timerfd_init(&alarm, wheel, &clock) == 0);
    CHECK(fcntl(alarm.fd, F_GETFL) & O_NONBLOCK);
    CHECK(fcntl(alarm.fd, F_GETFD) & FD_CLOEXEC);
    CHECK(tvec_timerfd_rearm(&alarm) == 0);
    tvec_wheel_free(wheel);
    tvec_timerfd_destroy(&alarm);
    CHECK(fcntl(alarm.fd, F_GETFD) == -1);
}

Test(c_clock, an_alarm_is_only_ever_moved_earlier) {
    struct tvec_clock clock;
    struct tvec_timerfd alarm;
    struct probe p = PROBE_INIT, soon = PROBE_INIT;
    struct tvec_wheel* wheel = in_some_hours(&clock, &p);
    int fd;
    CHECK(tvec_timerfd_init(&alarm, wheel, &clock) == 0);
    fd = alarm.fd;
    alarm.fd = -1;
    CHECK(tvec_timerfd_rearm(&alarm) == -EBADF);
    CHECK(tvec_timerfd_rearm(&alarm) == -EBADF); /* it has not been set */
    CHECK(tvec_timerfd_acknowledge(&alarm) == -EBADF);
    alarm.fd = fd;
    CHECK(tvec_timerfd_rearm(&alarm) == 0);
    alarm.fd = -1;
    tvec_arm_at(wheel, &p.timer, 9000000);
    CHECK(tvec_timerfd_rearm(&alarm) == 0); /* without asking the kernel */
    tvec_arm_at(wheel, &soon.timer, 1);
    CHECK(tvec_timerfd_rearm(&alarm) == -EBADF);
    alarm.fd = fd;
    CHECK(tvec_timerfd_rearm(&alarm) == 0);
    CHECK(is_readable(&alarm, 10000));
    tvec_timerfd_destroy(&alarm);
    tvec_wheel_free(wheel);
}

Test(c_clock, an_unavailable_alarm_is_an_error) {
    const struct tvec_clock none = {99, 0, ms};
    struct tvec_timerfd alarm;
    CHECK(tvec_timerfd_init(&alarm, NULL, &none) == -EINVAL);
}

Test(c_clock, deadline_and_remaining_time_can_be_read) {
    struct tvec_clock clock;
    struct probe p = PROBE_INIT;
    struct tvec_wheel* wheel = in_some_hours(&clock, &p);
    int64_t before, left;
    tvec_arm_at(wheel, &p.timer, tvec_clock_after(&clock, 3600 * 1000 * ms));
    before = tvec_clock_read(&clock);
    left = tvec_clock_remaining(&clock, &p.timer);
    CHECK(left <= tvec_clock_deadline(&clock, &p.timer) - before);
    CHECK(left >= tvec_clock_deadline(&clock, &p.timer) - tvec_clock_read(&clock));
    CHECK(tvec_clock_deadline(&clock, &p.timer) >= before + 3599 * 1000 * ms);
    tvec_arm_at(wheel, &p.timer, 0);
    CHECK_EQ(tvec_clock_remaining(&clock, &p.timer), 0);
    tvec_cancel(&p.timer);
    CHECK(tvec_clock_remaining(&clock, &p.timer) == -1);
    tvec_arm_at(wheel, &p.timer, TVEC_NEVER);
    CHECK(tvec_clock_deadline(&clock, &p.timer) == INT64_MAX);
    tvec_wheel_free(wheel);
}
