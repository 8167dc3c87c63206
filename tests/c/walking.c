/* All timers of a wheel through the C interface: counted, walked over, drained. */
#include "check.h"
#include "probe.h"

TestSuite(c_walking, .timeout = 60);

enum { timers = 8 };

static struct tvec_wheel* armed(struct probe* p) {
    struct tvec_wheel* wheel = tvec_wheel_new(0);
    for (int i = 0; i < timers; ++i) {
        tvec_timer_init(&p[i].timer, probe_on_fire);
        tvec_arm_at(wheel, &p[i].timer, i == 0 ? TVEC_NEVER : UINT64_C(10) << (3 * i));
    }
    return wheel;
}

struct walk {
    int shown;
    int most;
};

static bool look(void* context, struct tvec_timer* timer) {
    struct walk* w = context;
    CHECK(tvec_pending(timer));
    return ++w->shown < w->most;
}

Test(c_walking, a_walk_shows_all_that_is_pending_and_ends_when_it_is_told_to) {
    struct probe p[timers];
    struct tvec_wheel* wheel = armed(p);
    struct walk all = {0, 100}, some = {0, 3};
    tvec_cancel(&p[3].timer);
    CHECK(tvec_any_pending(wheel));
    CHECK_EQ(tvec_count_pending(wheel), timers - 1);
    CHECK(tvec_for_each_pending(wheel, look, &all));
    CHECK_EQ(all.shown, timers - 1);
    CHECK(!tvec_for_each_pending(wheel, look, &some));
    CHECK_EQ(some.shown, 3);
    tvec_wheel_free(wheel);
}

static bool end_it(void* context, struct tvec_timer* timer) {
    int* shown = context;
    ++*shown;
    return tvec_unlink(timer);
}

Test(c_walking, what_a_walk_shows_may_be_unlinked) {
    struct probe p[timers];
    struct tvec_wheel* wheel = armed(p);
    int shown = 0;
    CHECK(tvec_for_each_pending(wheel, end_it, &shown));
    CHECK_EQ(shown, timers);
    CHECK(!tvec_any_pending(wheel));
    tvec_wheel_free(wheel);
}

static void count(void* context, struct tvec_timer* timer) {
    int* shown = context;
    ++*shown;
    CHECK(!tvec_pending(timer));
}

Test(c_walking, a_drain_shows_each_once_and_leaves_the_wheel_empty) {
    struct probe p[timers];
    struct tvec_wheel* wheel = armed(p);
    int shown = 0;
    CHECK_EQ(tvec_drain(wheel, count, &shown), timers);
    CHECK_EQ(shown, timers);
    CHECK_EQ(tvec_count_pending(wheel), 0);
    CHECK_EQ(tvec_next_wakeup(wheel), TVEC_NEVER);
    tvec_wheel_free(wheel);
}
