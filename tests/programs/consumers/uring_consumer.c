// A program in C that uses an installed tvec with io_uring.
#define _GNU_SOURCE
#include <liburing.h>
#include <tvec/tvec_uring.h>

static void on_fire(struct tvec_wheel* wheel, struct tvec_timer* timer) {
    (void)wheel;
    timer->fire = NULL;
}

int main(void) {
    static struct tvec_wheel wheel;
    struct tvec_timer timer = TVEC_TIMER_INIT(on_fire);
    struct tvec_clock clock;
    struct tvec_uring_wait wait;
    struct io_uring ring;
    if (io_uring_queue_init(8, &ring, 0) != 0) return 1;
    if (tvec_clock_init(&clock, TVEC_CLOCK_MONOTONIC, 1000000) != 0) return 1;
    tvec_wheel_init(&wheel, tvec_clock_now(&clock));
    if (tvec_uring_wait_init(&wait, &ring, &wheel, &clock) != 0) return 1;
    tvec_arm_at(&wheel, &timer, tvec_clock_after(&clock, 2000000));
    while (tvec_any_pending(&wheel)) {
        if (tvec_uring_submit_and_wait(&wait) != 0) return 1;
        tvec_advance(&wheel, tvec_clock_now(&clock), TVEC_UNLIMITED);
    }
    tvec_wheel_destroy(&wheel);
    io_uring_queue_exit(&ring);
    return timer.fire != NULL;
}
