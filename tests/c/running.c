/* Advancing a wheel through the C interface, and knowing when. */
#include <signal.h>

#include "check.h"
#include "probe.h"

TestSuite(c_running, .timeout = 60);

Test(c_running, a_budget_bounds_the_visits_and_what_is_left_comes_first) {
    struct tvec_wheel* wheel = tvec_wheel_new(0);
    struct probe p[3] = {PROBE_INIT, PROBE_INIT, PROBE_INIT};
    struct tvec_progress done;
    for (int i = 0; i < 3; ++i) tvec_arm_at(wheel, &p[i].timer, 10);
    done = tvec_advance(wheel, 20, 2);
    CHECK_EQ(done.fired, 2);
    CHECK(!done.caught_up);
    CHECK_EQ(tvec_now(wheel), 10);
    CHECK_EQ(tvec_behind(wheel), 10);
    CHECK_EQ(tvec_next_wakeup(wheel), 10);
    done = tvec_advance(wheel, 20, 2);
    CHECK_EQ(done.fired, 1);
    CHECK(done.caught_up);
    CHECK_EQ(tvec_now(wheel), 20);
    CHECK_EQ(tvec_behind(wheel), 0);
    tvec_wheel_free(wheel);
}

Test(c_running, the_next_wakeup_is_never_late_and_the_next_expiry_exact) {
    struct tvec_wheel* wheel = tvec_wheel_new(5);
    struct probe p = PROBE_INIT, never = PROBE_INIT;
    CHECK_EQ(tvec_next_wakeup(wheel), TVEC_NEVER);
    CHECK_EQ(tvec_next_expiry(wheel), TVEC_NEVER);
    tvec_arm_at(wheel, &never.timer, TVEC_NEVER);
    CHECK_EQ(tvec_next_wakeup(wheel), TVEC_NEVER);
    tvec_arm_at(wheel, &p.timer, 100000);
    CHECK_EQ(tvec_next_expiry(wheel), 100000);
    for (int hops = 0; p.fired == 0 && hops < 10; ++hops) {
        CHECK(tvec_next_wakeup(wheel) >= tvec_now(wheel) && tvec_next_wakeup(wheel) <= 100000);
        run_to(wheel, tvec_next_wakeup(wheel));
    }
    CHECK_EQ(p.at, 100000);
    tvec_wheel_free(wheel);
}

static void reenter(struct tvec_wheel* wheel, struct tvec_timer* timer) {
    const struct tvec_progress done = tvec_advance(wheel, 100, TVEC_UNLIMITED);
    (void)timer;
    CHECK_EQ(done.fired, 0);
    CHECK(!done.caught_up);
    CHECK_EQ(tvec_now(wheel), 10);
    CHECK_EQ(tvec_behind(wheel), 5);
}

Test(c_running, a_callback_cannot_advance_its_own_wheel) {
    struct tvec_wheel* wheel = tvec_wheel_new(0);
    struct tvec_timer timer = TVEC_TIMER_INIT(reenter);
    tvec_arm_at(wheel, &timer, 10);
    CHECK_EQ(run_to(wheel, 15), 1);
    tvec_wheel_free(wheel);
}

Test(c_running, what_has_been_done_is_counted) {
    struct tvec_wheel* wheel = tvec_wheel_new(100);
    struct probe p = PROBE_INIT, q = PROBE_INIT;
    struct tvec_counters done;
    tvec_arm_at(wheel, &p.timer, 110);
    tvec_arm_at(wheel, &p.timer, 120);
    tvec_arm_at(wheel, &q.timer, 110);
    tvec_cancel(&q.timer);
    run_to(wheel, 130);
    run_to(wheel, 50);
    done = tvec_count(wheel);
    CHECK_EQ(done.fired, 1);
    CHECK_EQ(done.moved, 1);
    CHECK_EQ(done.dropped, 1);
    CHECK_EQ(done.clock_backward, 1);
    tvec_wheel_free(wheel);
}

static void destroy(struct tvec_wheel* wheel, struct tvec_timer* timer) {
    (void)timer;
    tvec_wheel_destroy(wheel);
}

Test(c_running, a_wheel_that_is_destroyed_by_its_own_callback_ends_the_program, .signal = SIGABRT) {
    static struct tvec_wheel wheel;
    struct tvec_timer timer = TVEC_TIMER_INIT(destroy);
    tvec_wheel_init(&wheel, 0);
    tvec_arm_at(&wheel, &timer, 10);
    run_to(&wheel, 10);
}
