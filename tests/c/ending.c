/* How timers of the C interface end, and their memory: cancelled, unlinked, moved, freed. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "probe.h"

TestSuite(c_ending, .timeout = 60);

Test(c_ending, an_unlinked_timers_callback_may_be_called) {
    struct tvec_wheel* wheel = tvec_wheel_new(7);
    struct probe p = PROBE_INIT;
    tvec_arm_at(wheel, &p.timer, 10);
    if (tvec_unlink(&p.timer)) p.timer.fire(wheel, &p.timer);
    CHECK_EQ(p.fired, 1);
    CHECK_EQ(p.at, 7);
    CHECK_EQ(run_to(wheel, 10), 0);
    CHECK_EQ(tvec_check(wheel, NULL, 0), 0);
    tvec_wheel_free(wheel);
}

Test(c_ending, zeroed_memory_is_an_idle_timer) {
    struct tvec_wheel* wheel = tvec_wheel_new(0);
    struct probe* p = calloc(1, sizeof *p);
    CHECK(!tvec_pending(&p->timer));
    CHECK(!tvec_cancel(&p->timer));
    CHECK(!tvec_unlink(&p->timer));
    p->timer.fire = probe_on_fire;
    CHECK(!tvec_arm_at(wheel, &p->timer, 10));
    CHECK_EQ(run_to(wheel, 10), 1);
    CHECK_EQ(p->fired, 1);
    free(p);
    tvec_wheel_free(wheel);
}

Test(c_ending, init_turns_any_bytes_into_a_timer) {
    struct tvec_wheel* wheel = tvec_wheel_new(0);
    struct probe p;
    memset(&p, 0xff, sizeof p);
    p.fired = 0;
    tvec_timer_init(&p.timer, probe_on_fire);
    CHECK(!tvec_pending(&p.timer));
    CHECK_EQ(tvec_expires(&p.timer), 0);
    CHECK(!tvec_unlink(&p.timer));
    tvec_arm_at(wheel, &p.timer, 10);
    CHECK_EQ(run_to(wheel, 10), 1);
    CHECK_EQ(p.fired, 1);
    tvec_wheel_free(wheel);
}

Test(c_ending, a_timer_survives_its_wheel) {
    struct tvec_wheel *wheel = tvec_wheel_new(0), *other = tvec_wheel_new(0);
    struct probe p = PROBE_INIT;
    tvec_arm_at(wheel, &p.timer, 10);
    tvec_wheel_free(wheel);
    CHECK(!tvec_pending(&p.timer));
    CHECK(!tvec_unlink(&p.timer));
    CHECK(!tvec_arm_at(other, &p.timer, 10));
    CHECK_EQ(run_to(other, 10), 1);
    tvec_wheel_free(other);
    tvec_wheel_free(NULL);
}

#ifndef NDEBUG /* the library has assertions */
Test(c_ending, overwriting_a_cancelled_timer_is_fatal, .signal = SIGABRT) {
    struct tvec_wheel* wheel = tvec_wheel_new(0);
    struct probe p = PROBE_INIT;
    tvec_arm_at(wheel, &p.timer, 5);
    tvec_cancel(&p.timer); /* and not tvec_unlink */
    memset(&p, 0, sizeof p);
    run_to(wheel, 5);
}
#endif
