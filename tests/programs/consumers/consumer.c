// A program in C that uses an installed tvec. Exits with 0 if its timer wakes it and fires.
#include <poll.h>
#include <stdio.h>
#include <tvec/tvec.h>

struct connection {
    bool closed;
    struct tvec_timer idle;
};

static void on_idle(struct tvec_wheel* wheel, struct tvec_timer* timer) {
    (void)wheel;
    TVEC_OWNER_OF(timer, struct connection, idle)->closed = true;
}

int main(void) {
    struct connection client = {false, TVEC_TIMER_INIT(on_idle)};
    struct tvec_clock clock;
    struct tvec_timerfd alarm;
    struct tvec_wheel* wheel;
    if (tvec_clock_init(&clock, TVEC_CLOCK_MONOTONIC, 1000000) != 0) return 1;
    wheel = tvec_wheel_new(tvec_clock_now(&clock));
    if (wheel == NULL || tvec_timerfd_init(&alarm, wheel, &clock) != 0) return 1;
    tvec_arm_at(wheel, &client.idle, tvec_clock_after(&clock, 2000000));
    while (!client.closed) {
        struct pollfd fd = {alarm.fd, POLLIN, 0};
        if (tvec_timerfd_rearm(&alarm) != 0 || poll(&fd, 1, 10000) != 1) return 1;
        if (tvec_timerfd_acknowledge(&alarm) != 1) return 1;
        tvec_advance(wheel, tvec_clock_now(&clock), TVEC_UNLIMITED);
    }
    tvec_timerfd_destroy(&alarm);
    tvec_wheel_free(wheel);
    return puts("tvec in C") == EOF;
}
