/* A timer in each tick, on a processor that loses more counts to an alarm than a near one is ahead.
 * By the loop of the example: no fire comes a round of the counter late. One that is armed for the
 * end of time never comes. */
#include "loop.h"

enum { fires = 20000 };
static uint32_t fired, late, never;
static uint64_t last;

static void on_press(uint64_t at) { (void)at; }

static void on_never(struct tvec_wheel* of, struct tvec_timer* timer) {
    (void)of, (void)timer;
    ++never;
}

static void on_tick(struct tvec_wheel* of, struct tvec_timer* timer) {
    static uint32_t random = 1;
    const uint64_t now = board_true_count();
    (void)of;
    late += fired++ != 0 && now - last > BOARD_LAST_COUNT / 2;
    last = now;
    random = random * 1664525 + 1013904223;
    for (volatile uint32_t work = random >> 23; work != 0; --work) continue;
    arm_at(timer, counts() + 1);
}

int main(void) {
    static struct tvec_timer tick = TVEC_TIMER_INIT(on_tick), end = TVEC_TIMER_INIT(on_never);
    static struct tvec_timer far = TVEC_TIMER_INIT(on_never);
    (void)start_loop();
    arm(&tick, 1);
    arm(&far, UINT64_MAX);
    arm_at(&end, UINT64_MAX);
    while (fired < fires) run_turn();
    board_say(late == 0 && never == 0 ? "slow processor: OK\n" : "slow processor: FAILED\n");
    return 0;
}
