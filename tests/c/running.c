/* Advancing a wheel through the C interface, and knowing when. */
#include <signal.h>

#include "check.h"
#include "probe.h"

TestSuite(c_running, .timeout = 60);

/* The library calls this one: the linker sees to it (--wrap). */
static bool has_memory = true;
void* __real_aligned_alloc(size_t alignment, size_t size);
void* __wrap_aligned_alloc(size_t alignment, size_t size);
void* __wrap_aligned_alloc(size_t alignment, size_t size) {
    CHECK(alignment == TVEC_WHEEL_ALIGNMENT && size == sizeof(struct tvec_wheel));
    return has_memory ? __real_aligned_alloc(alignment, size) : NULL;
}

Test(c_running, no_wheel_exists_without_memory) {
    has_memory = false;
    CHECK(tvec_wheel_new(0) == NULL);
    has_memory = true;
}

static void destroy(struct tvec_wheel* wheel, struct tvec_timer* timer) {
    (void)timer;
    tvec_wheel_destroy(wheel);
}

Test(c_running, a_callback_destroying_its_wheel_is_fatal, .signal = SIGABRT) {
    static struct tvec_wheel wheel;
    struct tvec_timer timer = TVEC_TIMER_INIT(destroy);
    tvec_wheel_init(&wheel, 0);
    tvec_arm_at(&wheel, &timer, 10);
    run_to(&wheel, 10);
}

static bool take(void* context, struct tvec_timer* timer) {
    struct tvec_timer** taken = context;
    CHECK(!tvec_pending(timer));
    *taken = timer;
    return false;
}

Test(c_running, due_timers_may_be_collected_without_callbacks) {
    struct tvec_wheel* wheel = tvec_wheel_new(0);
    struct tvec_timer timer[2] = {TVEC_TIMER_INIT(NULL), TVEC_TIMER_INIT(NULL)};
    struct tvec_timer* taken = NULL;
    tvec_arm_at(wheel, &timer[0], 300);
    tvec_arm_at(wheel, &timer[1], 301);
    CHECK(!tvec_collect(wheel, 400, TVEC_UNLIMITED, take, &taken).caught_up);
    CHECK(taken == &timer[0]);
    CHECK_EQ(tvec_collect(wheel, 400, TVEC_UNLIMITED, take, &taken).fired, 1);
    CHECK(taken == &timer[1]);
    tvec_wheel_free(wheel);
}
