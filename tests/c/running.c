/* Advancing a wheel through the C interface, and knowing when. */
#include <signal.h>

#include "check.h"
#include "probe.h"

TestSuite(c_running, .timeout = 60);

Test(c_running, a_budget_bounds_visits_and_leaves_the_rest) {
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

Test(c_running, time_ends_a_tick_before_never) {
    struct tvec_wheel* wheel = tvec_wheel_new(TVEC_NEVER - 10);
    CHECK_EQ(tvec_now(wheel), TVEC_NEVER - 10);
    run_to(wheel, TVEC_NEVER);
    CHECK_EQ(tvec_now(wheel), TVEC_NEVER - 1);
    tvec_wheel_free(wheel);
}

Test(c_running, count_tells_all_that_was_done) {
    struct tvec_wheel* wheel = tvec_wheel_new(100);
    struct probe p = PROBE_INIT, q[3] = {PROBE_INIT, PROBE_INIT, PROBE_INIT};
    struct tvec_counters done;
    tvec_arm_at(wheel, &p.timer, 110);
    for (int i = 0; i < 3; ++i) tvec_arm_at(wheel, &q[i].timer, 110);
    for (int i = 0; i < 3; ++i) tvec_cancel(&q[i].timer);
    tvec_arm_at(wheel, &p.timer, 120);
    run_to(wheel, 115);
    tvec_arm_at(wheel, &p.timer, 130);
    run_to(wheel, 140);
    for (int i = 0; i < 4; ++i) run_to(wheel, 50);
    done = tvec_count(wheel);
    CHECK_EQ(done.fired, 1);
    CHECK_EQ(done.moved, 2);
    CHECK_EQ(done.dropped, 3);
    CHECK_EQ(done.clock_backward, 4);
    tvec_wheel_free(wheel);
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

struct taken {
    int count, most;
    struct tvec_timer* timer[8];
};

static bool take(void* context, struct tvec_timer* timer) {
    struct taken* t = context;
    CHECK(!tvec_pending(timer));
    t->timer[t->count++] = timer;
    return t->count < t->most;
}

Test(c_running, due_timers_may_be_collected_without_callbacks) {
    struct tvec_wheel* wheel = tvec_wheel_new(0);
    struct tvec_timer timer[8];
    struct taken t = {0, 3, {0}};
    struct tvec_progress done;
    for (int i = 0; i < 8; ++i) {
        tvec_timer_init(&timer[i], NULL);
        tvec_arm_at(wheel, &timer[i], 300 + (uint64_t)i / 4);
    }
    done = tvec_collect(wheel, 400, TVEC_UNLIMITED, take, &t);
    CHECK(done.fired == 3 && !done.caught_up);
    CHECK_EQ(tvec_now(wheel), 300);
    t.most = 8;
    done = tvec_collect(wheel, 400, 2, take, &t);
    CHECK(done.fired == 2 && !done.caught_up);
    CHECK_EQ(tvec_now(wheel), 301);
    for (int i = 4; i < 8; ++i)
        if (tvec_cancel(&timer[i])) break;
    CHECK(tvec_collect(wheel, 400, TVEC_UNLIMITED, take, &t).caught_up);
    CHECK_EQ(t.count, 7);
    for (int i = 0; i < 7; ++i) CHECK_EQ(tvec_expires(t.timer[i]), 300 + (uint64_t)i / 4);
    CHECK_EQ(tvec_count(wheel).fired, 7);
    tvec_wheel_free(wheel);
}

struct numbered {
    int number;
    struct tvec_timer timer;
};

static int last;
static void on_numbered(struct tvec_wheel* wheel, struct tvec_timer* timer) {
    const int number = TVEC_OWNER_OF(timer, struct numbered, timer)->number;
    (void)wheel;
    CHECK(number > last);
    last = number;
}

static bool is_before(void* context, struct tvec_timer* a, struct tvec_timer* b) {
    ++*(int*)context;
    return TVEC_OWNER_OF(a, struct numbered, timer)->number <
           TVEC_OWNER_OF(b, struct numbered, timer)->number;
}

Test(c_running, a_tick_fires_in_the_callers_order) {
    struct tvec_wheel* wheel = tvec_wheel_new(0);
    struct numbered n[40];
    int compared = 0;
    for (int i = 0; i < 40; ++i) {
        n[i].number = 1 + i * 7 % 40;
        tvec_timer_init(&n[i].timer, on_numbered);
        tvec_arm_at(wheel, &n[i].timer, 60);
    }
    last = 0;
    CHECK_EQ(tvec_advance_in_order(wheel, 60, 9, is_before, &compared).fired, 9);
    CHECK(tvec_advance_in_order(wheel, 60, TVEC_UNLIMITED, is_before, &compared).caught_up);
    CHECK_EQ(last, 40);
    CHECK(compared >= 39);
    tvec_wheel_free(wheel);
}

static void count_call(void* whom) { ++*(int*)whom; }

Test(c_running, an_earlier_wakeup_is_told_and_no_other) {
    struct tvec_wheel* wheel = tvec_wheel_new(0);
    struct probe p = PROBE_INIT, q = PROBE_INIT;
    int told = 0;
    tvec_on_earlier_wakeup(wheel, count_call, &told);
    tvec_arm_at(wheel, &p.timer, 100);
    CHECK_EQ(told, 1);
    tvec_arm_at(wheel, &q.timer, 200);
    tvec_arm_at(wheel, &p.timer, 150); /* pushed back */
    CHECK_EQ(told, 1);
    tvec_arm_at(wheel, &q.timer, 50);
    CHECK_EQ(told, 2);
    tvec_on_earlier_wakeup(wheel, NULL, NULL);
    tvec_arm_at(wheel, &q.timer, 10);
    CHECK_EQ(told, 2);
    tvec_wheel_free(wheel);
}
