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

static bool destroy_within(void* context, struct tvec_timer* timer) {
    (void)timer;
    tvec_wheel_destroy(context);
    return true;
}

Test(c_walking, a_walk_that_destroys_the_wheel_is_fatal, .signal = SIGABRT) {
    struct probe p[timers];
    struct tvec_wheel* wheel = armed(p);
    tvec_for_each_pending(wheel, destroy_within, wheel);
}

static void destroy(void* context, struct tvec_timer* timer) {
    (void)timer;
    tvec_wheel_destroy(context);
}

Test(c_walking, a_drain_that_destroys_the_wheel_is_fatal, .signal = SIGABRT) {
    struct probe p[timers];
    struct tvec_wheel* wheel = armed(p);
    tvec_drain(wheel, destroy, wheel);
}

Test(c_walking, check_finds_faults_in_a_damaged_wheel_only) {
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

Test(c_walking, a_dump_lists_timers_and_tells_its_length) {
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
