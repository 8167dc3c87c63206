/* How timers of the C interface end, and their memory: cancelled, unlinked, moved, freed. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "probe.h"

TestSuite(c_ending, .timeout = 60);

Test(c_ending, cancel_says_whether_the_timer_was_going_to_fire) {
    struct tvec_wheel* wheel = tvec_wheel_new(0);
    struct probe p = PROBE_INIT;
    CHECK(!tvec_cancel(&p.timer));
    tvec_arm_at(wheel, &p.timer, 10);
    CHECK(tvec_cancel(&p.timer));
    CHECK(!tvec_cancel(&p.timer));
    CHECK(!tvec_pending(&p.timer));
    CHECK_EQ(tvec_expires(&p.timer), 10);
    CHECK_EQ(run_to(wheel, 20), 0);
    CHECK_EQ(tvec_count(wheel).dropped, 1);
    tvec_wheel_free(wheel);
}

static void cancel_sibling(struct tvec_wheel* wheel, struct tvec_timer* timer);
static struct tvec_timer twins[2] = {TVEC_TIMER_INIT(cancel_sibling),
                                     TVEC_TIMER_INIT(cancel_sibling)};
static void cancel_sibling(struct tvec_wheel* wheel, struct tvec_timer* timer) {
    (void)wheel;
    CHECK(tvec_cancel(&twins[timer == &twins[0]]));
}

Test(c_ending, a_timer_that_is_due_already_is_cancelled_by_a_sibling) {
    struct tvec_wheel* wheel = tvec_wheel_new(0);
    tvec_arm_at(wheel, &twins[0], 5);
    tvec_arm_at(wheel, &twins[1], 5);
    CHECK_EQ(run_to(wheel, 5), 1);
    tvec_wheel_free(wheel);
}

Test(c_ending, memory_that_was_unlinked_may_be_overwritten_and_freed) {
    struct tvec_wheel* wheel = tvec_wheel_new(0);
    struct probe *p = malloc(sizeof *p), q = PROBE_INIT;
    tvec_timer_init(&p->timer, probe_on_fire);
    tvec_arm_at(wheel, &p->timer, 10);
    tvec_arm_at(wheel, &q.timer, 10);
    CHECK(tvec_unlink(&p->timer));
    CHECK(!tvec_unlink(&p->timer));
    memset(p, 0xff, sizeof *p);
    free(p);
    CHECK_EQ(run_to(wheel, 10), 1);
    CHECK_EQ(q.fired, 1);
    tvec_wheel_free(wheel);
}

Test(c_ending, a_timer_that_was_unlinked_may_be_called_in_this_turn) {
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

Test(c_ending, zeroed_bytes_are_a_timer_that_is_not_pending) {
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

Test(c_ending, any_bytes_are_made_a_timer_that_is_not_pending) {
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

static void free_owner(struct tvec_wheel* wheel, struct tvec_timer* timer) {
    (void)wheel;
    free(TVEC_OWNER_OF(timer, struct probe, timer));
}

Test(c_ending, a_callback_may_free_its_own_timer) {
    struct tvec_wheel* wheel = tvec_wheel_new(0);
    struct probe* p = malloc(sizeof *p);
    tvec_timer_init(&p->timer, free_owner);
    tvec_arm_at(wheel, &p->timer, 10);
    CHECK_EQ(run_to(wheel, 10), 1);
    tvec_wheel_free(wheel);
}

Test(c_ending, a_timer_that_is_moved_keeps_its_place) {
    struct tvec_wheel* wheel = tvec_wheel_new(0);
    struct probe *from = malloc(sizeof *from), to;
    memset(&to, 0xff, sizeof to);
    to.fired = 0;
    tvec_timer_init(&from->timer, probe_on_fire);
    tvec_arm_at(wheel, &from->timer, 10);
    tvec_move(&to.timer, &from->timer);
    CHECK(!tvec_pending(&from->timer));
    CHECK(tvec_pending(&to.timer));
    free(from);
    CHECK_EQ(run_to(wheel, 10), 1);
    CHECK_EQ(to.fired, 1);
    tvec_wheel_free(wheel);
}

Test(c_ending, a_timer_survives_its_wheel_and_may_be_armed_on_another) {
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
Test(c_ending, a_timer_that_was_cancelled_and_overwritten_ends_the_program, .signal = SIGABRT) {
    struct tvec_wheel* wheel = tvec_wheel_new(0);
    struct probe p = PROBE_INIT;
    tvec_arm_at(wheel, &p.timer, 5);
    tvec_cancel(&p.timer); /* and not tvec_unlink */
    memset(&p, 0, sizeof p);
    run_to(wheel, 5);
}
#endif
