/* All timers of a wheel through the C interface: counted, walked over, drained, checked, shown. */
#include <signal.h>
#include <string.h>

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

struct others {
    struct tvec_wheel* wheel;
    struct probe* p;
    int shown;
};

static bool cancel_the_others(void* context, struct tvec_timer* timer) {
    struct others* o = context;
    ++o->shown;
    for (int i = 0; i < timers; ++i)
        if (&o->p[i].timer != timer) tvec_cancel(&o->p[i].timer);
    return true;
}

Test(c_walking, what_is_cancelled_in_a_walk_is_not_shown_any_more) {
    struct probe p[timers];
    struct others o = {armed(p), p, 0};
    CHECK(tvec_for_each_pending(o.wheel, cancel_the_others, &o));
    CHECK_EQ(o.shown, 1);
    CHECK_EQ(tvec_count_pending(o.wheel), 1);
    tvec_wheel_free(o.wheel);
}

static bool unlink_each(void* context, struct tvec_timer* timer) {
    struct others* o = context;
    (void)timer;
    ++o->shown;
    for (int i = 0; i < timers; ++i) {
        tvec_unlink(&o->p[i].timer);
        memset(&o->p[i].timer, 0x5a, sizeof o->p[i].timer);  // freed, for all that the walk knows
    }
    return true;
}

Test(c_walking, a_walk_may_end_with_all_timers_unlinked_and_freed) {
    struct probe p[timers];
    struct others o = {armed(p), p, 0};
    CHECK(tvec_for_each_pending(o.wheel, unlink_each, &o));
    CHECK_EQ(o.shown, 1);
    CHECK(!tvec_any_pending(o.wheel));
    tvec_wheel_free(o.wheel);
}

static void leave(void* context, struct tvec_timer* timer) {
    (void)context;
    (void)timer;
}

static bool advance_and_drain(void* context, struct tvec_timer* timer) {
    struct tvec_wheel* wheel = context;
    const struct tvec_progress done = tvec_advance(wheel, 1000, TVEC_UNLIMITED);
    (void)timer;
    CHECK_EQ(done.fired, 0);
    CHECK(!done.caught_up);
    CHECK_EQ(tvec_drain(wheel, leave, NULL), timers);
    return true;
}

Test(c_walking, in_a_walk_an_advance_is_refused_and_a_drain_ends_it) {
    struct probe p[timers];
    struct tvec_wheel* wheel = armed(p);
    CHECK(tvec_for_each_pending(wheel, advance_and_drain, wheel));
    CHECK(!tvec_any_pending(wheel));
    CHECK_EQ(tvec_now(wheel), 0);
    tvec_wheel_free(wheel);
}

static bool destroy_within(void* context, struct tvec_timer* timer) {
    (void)timer;
    tvec_wheel_destroy(context);
    return true;
}

Test(c_walking, a_wheel_that_its_own_walk_destroys_ends_the_program, .signal = SIGABRT) {
    struct probe p[timers];
    struct tvec_wheel* wheel = armed(p);
    tvec_for_each_pending(wheel, destroy_within, wheel);
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

static void arm_and_unlink_the_others(void* context, struct tvec_timer* timer) {
    struct others* o = context;
    const struct tvec_progress done = tvec_advance(o->wheel, 1000, TVEC_UNLIMITED);
    CHECK_EQ(done.fired, 0);
    CHECK(!done.caught_up);
    tvec_arm_at(o->wheel, timer, 100);
    for (int i = 0; i < timers; ++i)
        if (&o->p[i].timer != timer) tvec_unlink(&o->p[i].timer);
    ++o->shown;
}

Test(c_walking, a_drain_shows_neither_what_it_arms_nor_what_it_unlinks) {
    struct probe p[timers];
    struct others o = {armed(p), p, 0};
    CHECK_EQ(tvec_drain(o.wheel, arm_and_unlink_the_others, &o), 1);
    CHECK_EQ(o.shown, 1);
    CHECK_EQ(run_to(o.wheel, 100), 1);
    tvec_wheel_free(o.wheel);
}

static void destroy(void* context, struct tvec_timer* timer) {
    (void)timer;
    tvec_wheel_destroy(context);
}

Test(c_walking, a_wheel_that_its_own_drain_destroys_ends_the_program, .signal = SIGABRT) {
    struct probe p[timers];
    struct tvec_wheel* wheel = armed(p);
    tvec_drain(wheel, destroy, wheel);
}

Test(c_walking, check_finds_nothing_in_a_sound_wheel_and_says_what_is_wrong_with_another) {
    struct probe p[timers];
    struct tvec_wheel* wheel = armed(p);
    char text[256] = "?";
    size_t length;
    CHECK_EQ(tvec_check(wheel, text, sizeof text), 0);
    CHECK_EQ(strlen(text), 0);
    p[2].timer.expires = 1;  // due long before it is visited
    length = tvec_check(wheel, text, sizeof text);
    CHECK_EQ(length, strlen(text));
    CHECK(strstr(text, "after a timer in it expires at 1") != NULL);
    CHECK_EQ(tvec_check(wheel, NULL, 0), length);
    tvec_wheel_free(wheel);
}

Test(c_walking, a_dump_says_what_hangs_where_and_how_long_it_would_be) {
    struct probe p[timers];
    struct tvec_wheel* wheel = armed(p);
    char text[2000], begin[10] = "";
    const size_t length = tvec_dump(wheel, 3, text, sizeof text);
    CHECK_EQ(length, strlen(text));
    CHECK(strncmp(text, "wheel at tick 0 and 0 behind: 8 pending, 0 idle\n", 48) == 0);
    CHECK(strstr(text, "and 5 more\n") != NULL);
    CHECK_EQ(tvec_dump(wheel, 3, NULL, 0), length);
    CHECK_EQ(tvec_dump(wheel, 3, begin, sizeof begin), length);
    CHECK(strcmp(begin, "wheel at ") == 0);
    tvec_wheel_free(wheel);
}
