/* Arming through the C interface: what is inline in the header, and what is a call. */
#include "check.h"
#include "probe.h"

TestSuite(c_arming, .timeout = 60);

static struct tvec_wheel wheel; /* in static memory: no call is needed to have it there */

static void begin(uint64_t now) { tvec_wheel_init(&wheel, now); }
static void end(void) { tvec_wheel_destroy(&wheel); }

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

static void fire_twice(struct tvec_wheel* w, struct tvec_timer* timer) {
    tvec_arm_at(w, timer, 0);
    timer->fire = probe_on_fire;
}

Test(c_arming, the_callback_may_be_set_at_any_time) {
    struct probe p = PROBE_INIT;
    begin(0);
    tvec_arm_at(&wheel, &p.timer, 10);
    p.timer.fire = fire_twice;
    CHECK_EQ(run_to(&wheel, 20), 2);
    CHECK_EQ(p.fired, 1);
    CHECK_EQ(p.at, 11);
    end();
}

/* Their addresses are those that bindings have. */
Test(c_arming, inline_functions_are_exported_as_well) {
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
