/* A loop that was stalled hears its peers before it times them out, in C. The rule itself is tested
   in tests/clock/stall_watch.cpp. */
#define _GNU_SOURCE /* for usleep */

#include <unistd.h>

#include "check.h"
#include "probe.h"

TestSuite(c_stalls, .timeout = 60);

static const int64_t ms = 1000000, minute = 60000000000;

static struct tvec_clock the_clock;
static struct tvec_wheel wheel;
static struct tvec_stall_watch watch;

static void begin(void) {
    CHECK(tvec_clock_init(&the_clock, TVEC_CLOCK_MONOTONIC, ms) == 0);
    tvec_wheel_init(&wheel, tvec_clock_now(&the_clock));
    tvec_stall_watch_init(&watch, &wheel, &the_clock, minute);
}

static struct tvec_progress turn(size_t heard) {
    tvec_stall_watch_listen(&watch);
    return tvec_stall_watch_run(&watch, heard, TVEC_UNLIMITED);
}

Test(c_stalls, timers_wait_for_a_silent_turn_after_stalls) {
    struct probe p = PROBE_INIT;
    struct tvec_progress done;
    begin();
    tvec_arm_at(&wheel, &p.timer, tvec_clock_after(&the_clock, ms));
    usleep(150000);
    done = turn(5);
    CHECK_EQ(done.fired, 0);
    CHECK(!done.caught_up);
    CHECK_EQ(watch.stalls, 1);
    CHECK_EQ(turn(0).fired, 1);
    CHECK_EQ(p.fired, 1);
    tvec_wheel_destroy(&wheel);
}

Test(c_stalls, timers_wait_half_a_second_for_talking_peers) {
    struct probe p = PROBE_INIT;
    int64_t stalled;
    begin();
    tvec_arm_at(&wheel, &p.timer, tvec_clock_after(&the_clock, ms));
    usleep(650000);
    stalled = tvec_clock_read(&the_clock);
    while (turn(1).fired == 0) usleep(1000);
    CHECK(tvec_clock_read(&the_clock) - stalled >= 500 * ms);
    tvec_wheel_destroy(&wheel);
}

Test(c_stalls, timers_due_while_messages_are_handled_wait) {
    struct probe p = PROBE_INIT;
    begin();
    tvec_arm_at(&wheel, &p.timer, tvec_clock_after(&the_clock, 50 * ms));
    tvec_stall_watch_listen(&watch);
    usleep(60000);
    if (watch.stalls == 0) CHECK_EQ(tvec_stall_watch_run(&watch, 1, TVEC_UNLIMITED).fired, 0);
    while (p.fired == 0) turn(0);
    tvec_wheel_destroy(&wheel);
}

/* A framework whose poll sleeps and handles. In the first one a client is accepted, and another
   client's message takes longer than the limit. The client talks meanwhile: the second one reads
   it. */
struct mg_mgr {
    int polls;
    struct probe limit;
};

static struct tvec_loop timers;
static size_t heard;

static void mg_mgr_poll(struct mg_mgr* mgr, int timeout) {
    CHECK(timeout <= 1000);
    tvec_loop_arm_after(&timers, &mgr->limit.timer, mgr->polls == 0 ? 10 * ms : minute);
    if (mgr->polls++ == 0) usleep(20000);
    ++heard;
}

Test(c_stalls, a_wait_that_handles_closes_no_talking_client) {
    struct mg_mgr mgr = {0, PROBE_INIT};
    CHECK(tvec_loop_init(&timers, TVEC_CLOCK_MONOTONIC, ms) == 0);
    while (mgr.polls < 2) {
        // [wait_ms]
        int wait = tvec_wait_ms(&timers.wheel, &timers.clock);
        if (wait < 0 || wait > 1000) wait = 1000;  // its own timers want a bound
        heard = 0;
        tvec_stall_watch_listen(&timers.watch);  // right before a call that sleeps and handles
        mg_mgr_poll(&mgr, wait);
        tvec_loop_run(&timers, heard, 256);  // always, whatever woke us
        // [wait_ms]
    }
    CHECK_EQ(mgr.limit.fired, 0);
    tvec_loop_destroy(&timers);
}

/* Counted in turns of a slow loop instead of time. */
Test(c_stalls, timers_fire_though_the_loop_is_always_late) {
    struct probe p = PROBE_INIT;
    int i;
    begin();
    for (i = 0; i < 10; ++i) {
        const int fired = p.fired;
        int turns = 0;
        tvec_arm_at(&wheel, &p.timer, tvec_clock_after(&the_clock, ms));
        for (; p.fired == fired; ++turns) {
            tvec_stall_watch_listen(&watch);
            usleep(120000);
            tvec_stall_watch_run(&watch, 1, 256);
        }
        CHECK(turns <= 4);
    }
    tvec_wheel_destroy(&wheel);
}

Test(c_stalls, a_silent_peer_has_one_second_chance) {
    struct probe p = PROBE_INIT;
    bool taken = false;
    begin();
    CHECK(!tvec_second_chance(&watch, &taken));
    tvec_arm_at(&wheel, &p.timer, tvec_clock_after(&the_clock, ms));
    usleep(150000);
    while (p.fired == 0) turn(0);
    CHECK(tvec_stall_watch_just_back(&watch));
    CHECK(tvec_second_chance(&watch, &taken));
    CHECK(!tvec_second_chance(&watch, &taken));
    taken = false; /* it was heard */
    CHECK(tvec_second_chance(&watch, &taken));
    tvec_wheel_destroy(&wheel);
}
