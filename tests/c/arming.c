/* Arming through the C interface: what is inline in the header, and what is a call. */
#include "check.h"
#include "probe.h"

TestSuite(c_arming, .timeout = 60);

static struct tvec_wheel wheel; /* in static memory: no call is needed to have it there */

static void begin(uint64_t now) { tvec_wheel_init(&wheel, now); }
static void end(void) { tvec_wheel_destroy(&wheel); }

Test(c_arming, a_timer_fires_at_its_tick_and_not_before) {
    struct probe p = PROBE_INIT;
    begin(1000);
    CHECK(!tvec_arm_at(&wheel, &p.timer, 1010));
    CHECK(tvec_pending(&p.timer));
    CHECK_EQ(tvec_expires(&p.timer), 1010);
    CHECK_EQ(run_to(&wheel, 1009), 0);
    CHECK_EQ(run_to(&wheel, 1010), 1);
    CHECK_EQ(p.at, 1010);
    CHECK(!tvec_pending(&p.timer));
    CHECK_EQ(tvec_expires(&p.timer), 1010);
    end();
}

Test(c_arming, now_and_the_past_mean_the_next_tick) {
    struct probe now = PROBE_INIT, past = PROBE_INIT, soon = PROBE_INIT;
    begin(1000);
    tvec_arm_at(&wheel, &now.timer, 1000);
    tvec_arm_at(&wheel, &past.timer, 1);
    tvec_arm_after(&wheel, &soon.timer, 0);
    CHECK_EQ(tvec_expires(&past.timer), 1); /* what was asked for */
    CHECK_EQ(run_to(&wheel, 1001), 3);
    CHECK_EQ(now.at, 1001);
    CHECK_EQ(past.at, 1001);
    CHECK_EQ(soon.at, 1001);
    end();
}

Test(c_arming, a_timer_that_is_linked_is_pushed_back_and_pulled_in) {
    struct probe p = PROBE_INIT;
    begin(0);
    CHECK(!tvec_arm_at(&wheel, &p.timer, 100));
    CHECK(tvec_arm_at(&wheel, &p.timer, 200));
    CHECK(tvec_arm_at(&wheel, &p.timer, 200));
    CHECK_EQ(run_to(&wheel, 150), 0);
    CHECK(tvec_arm_at(&wheel, &p.timer, 160));
    CHECK_EQ(run_to(&wheel, 160), 1);
    CHECK_EQ(p.at, 160);
    end();
}

Test(c_arming, a_timer_that_hangs_there_still_is_armed_for_the_past_and_fires_at_the_next_tick) {
    struct probe p = PROBE_INIT;
    begin(0);
    tvec_arm_at(&wheel, &p.timer, 1000);
    tvec_cancel(&p.timer);
    CHECK(!tvec_arm_at(&wheel, &p.timer, 1));
    tvec_arm_at(&wheel, &p.timer, 1000);
    run_to(&wheel, 50);
    CHECK(tvec_arm_at(&wheel, &p.timer, 20));
    CHECK(tvec_arm_at(&wheel, &p.timer, 30)); /* later than before, and past as well */
    CHECK_EQ(run_to(&wheel, 51), 1);
    end();
}

Test(c_arming, what_a_budget_has_left_over_and_is_armed_for_now_fires_at_the_next_tick) {
    struct probe p[2] = {PROBE_INIT, PROBE_INIT};
    begin(0);
    for (int i = 0; i < 2; ++i) tvec_arm_at(&wheel, &p[i].timer, 10);
    CHECK_EQ(tvec_advance(&wheel, 10, 1).fired, 1);
    CHECK(tvec_arm_at(&wheel, &p[p[0].fired].timer, 10));
    CHECK_EQ(run_to(&wheel, 10), 0);
    CHECK_EQ(run_to(&wheel, 11), 1);
    end();
}

Test(c_arming, what_is_armed_again_after_a_cancel_was_not_pending) {
    struct probe p = PROBE_INIT;
    begin(0);
    tvec_arm_at(&wheel, &p.timer, 100);
    CHECK(tvec_cancel(&p.timer));
    CHECK(!tvec_arm_at(&wheel, &p.timer, 120)); /* where it hangs */
    CHECK(tvec_cancel(&p.timer));
    CHECK(!tvec_arm_at(&wheel, &p.timer, 110)); /* has to be linked anew */
    CHECK_EQ(run_to(&wheel, 119), 1);
    CHECK_EQ(p.at, 110);
    end();
}

Test(c_arming, every_delay_is_legal_and_saturates) {
    struct probe p = PROBE_INIT, q = PROBE_INIT, r = PROBE_INIT;
    begin(1000);
    tvec_arm_after(&wheel, &p.timer, UINT64_MAX);
    tvec_arm_at(&wheel, &q.timer, UINT64_MAX);
    tvec_arm_after(&wheel, &r.timer, TVEC_NEVER - 1001);
    CHECK_EQ(tvec_expires(&p.timer), TVEC_NEVER);
    CHECK_EQ(tvec_expires(&q.timer), TVEC_NEVER);
    CHECK_EQ(tvec_expires(&r.timer), TVEC_NEVER - 1);
    CHECK(tvec_arm_at(&wheel, &q.timer, UINT64_MAX)); /* of a timer that is linked */
    CHECK(tvec_pending(&q.timer));
    CHECK_EQ(tvec_expires(&q.timer), TVEC_NEVER);
    CHECK_EQ(run_to(&wheel, UINT64_MAX), 1);
    CHECK_EQ(r.at, TVEC_NEVER - 1);
    CHECK(tvec_pending(&p.timer) && tvec_pending(&q.timer));
    end();
}

Test(c_arming, a_timer_of_another_wheel_is_moved) {
    struct tvec_wheel* other = tvec_wheel_new(0);
    struct probe p = PROBE_INIT;
    begin(0);
    tvec_arm_at(other, &p.timer, 50);
    CHECK(tvec_arm_at(&wheel, &p.timer, 60));
    CHECK_EQ(run_to(other, 100), 0);
    CHECK_EQ(run_to(&wheel, 100), 1);
    tvec_wheel_free(other);
    end();
}

Test(c_arming, only_if_pending_only_if_not_only_if_earlier) {
    struct probe p = PROBE_INIT;
    begin(0);
    CHECK(!tvec_arm_if_pending(&wheel, &p.timer, 10));
    CHECK(!tvec_pending(&p.timer));
    CHECK(!tvec_arm_unless_pending(&wheel, &p.timer, 10));
    CHECK(tvec_arm_unless_pending(&wheel, &p.timer, 20));
    CHECK_EQ(tvec_expires(&p.timer), 10);
    CHECK(tvec_arm_if_pending(&wheel, &p.timer, 30));
    CHECK_EQ(tvec_expires(&p.timer), 30);
    CHECK(tvec_arm_if_earlier(&wheel, &p.timer, 31));
    CHECK_EQ(tvec_expires(&p.timer), 30);
    CHECK(tvec_arm_if_earlier(&wheel, &p.timer, 29));
    CHECK_EQ(tvec_expires(&p.timer), 29);
    CHECK_EQ(run_to(&wheel, 29), 1);
    end();
}

Test(c_arming, what_is_pending_in_another_wheel_is_not_earlier_there) {
    struct tvec_wheel* other = tvec_wheel_new(0);
    struct probe p = PROBE_INIT;
    begin(0);
    tvec_arm_at(other, &p.timer, 5);
    CHECK(tvec_arm_if_earlier(&wheel, &p.timer, 10));
    CHECK_EQ(run_to(other, 20), 0);
    CHECK_EQ(run_to(&wheel, 10), 1);
    CHECK(!tvec_arm_if_earlier(&wheel, &p.timer, 30)); /* nor is what is not pending */
    CHECK_EQ(run_to(&wheel, 30), 1);
    tvec_wheel_free(other);
    end();
}

static void fire_twice(struct tvec_wheel* w, struct tvec_timer* timer) {
    tvec_arm_at(w, timer, 0);
    timer->fire = probe_on_fire;
}

Test(c_arming, the_callback_of_a_timer_may_be_set_at_any_time) {
    struct probe p = PROBE_INIT;
    begin(0);
    tvec_arm_at(&wheel, &p.timer, 10);
    p.timer.fire = fire_twice;
    CHECK_EQ(run_to(&wheel, 20), 2);
    CHECK_EQ(p.fired, 1);
    CHECK_EQ(p.at, 11);
    end();
}

Test(c_arming, slack_finds_the_roundest_tick_of_the_window) {
    struct probe p = PROBE_INIT;
    begin(0);
    tvec_arm_within(&wheel, &p.timer, 100, 140);
    CHECK_EQ(tvec_expires(&p.timer), 128);
    CHECK(tvec_arm_within(&wheel, &p.timer, 127, 300));
    CHECK_EQ(tvec_expires(&p.timer), 128);
    tvec_unlink(&p.timer);
    CHECK(!tvec_arm_within(&wheel, &p.timer, 101, 100)); /* no window: the earliest counts */
    CHECK_EQ(tvec_expires(&p.timer), 101);
    end();
}

static uint64_t missed;
static void beat(struct tvec_wheel* w, struct tvec_timer* timer) {
    missed = tvec_arm_next(w, timer, 10);
}

Test(c_arming, a_periodic_timer_keeps_its_phase_and_says_what_it_missed) {
    struct tvec_timer timer = TVEC_TIMER_INIT(beat);
    begin(0);
    tvec_arm_at(&wheel, &timer, 7);
    CHECK_EQ(run_to(&wheel, 7), 1);
    CHECK_EQ(tvec_expires(&timer), 17);
    CHECK_EQ(missed, 0);
    CHECK_EQ(run_to(&wheel, 50), 1);
    CHECK_EQ(missed, 3);
    CHECK_EQ(tvec_expires(&timer), 57);
    CHECK_EQ(tvec_arm_next(&wheel, &timer, 10), 0); /* not due yet: a beat is skipped */
    CHECK_EQ(tvec_expires(&timer), 67);
    CHECK_EQ(tvec_arm_next(&wheel, &timer, 0), 0); /* as 1 */
    CHECK_EQ(tvec_expires(&timer), 68);
    end();
}

/* Their addresses are those that bindings have. */
Test(c_arming, what_is_inline_is_a_function_of_the_library_as_well) {
    bool (*volatile arm_at)(struct tvec_wheel*, struct tvec_timer*, uint64_t) = tvec_arm_at;
    bool (*volatile cancel)(struct tvec_timer*) = tvec_cancel;
    struct probe p = PROBE_INIT;
    begin(0);
    CHECK(!arm_at(&wheel, &p.timer, 5));
    CHECK(arm_at(&wheel, &p.timer, 6));
    CHECK(cancel(&p.timer));
    CHECK_EQ(run_to(&wheel, 10), 0);
    end();
}
