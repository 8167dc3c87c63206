/* Says what late turns of 60 timers take at most, in instructions of the emulated Cortex-M3: with
 * the budget of loop.h and late by up to 65 536 ticks, by up to 2^20, and without a budget by up to
 * 32 ticks and 65 536. */
#include "board.h"

#include <tvec/tvec.h>

enum { timers = 60, turns = 1000, ns_of_a_count = 1000000000 / BOARD_HERTZ, ns_of_one = 32 };

static struct tvec_wheel wheel;
static struct tvec_timer all[timers];

void on_button_interrupt(void) {}

static void on_time(struct tvec_wheel* w, struct tvec_timer* timer) {
    (void)w;
    (void)timer;
}

static uint64_t random_number(uint64_t below) {  // xorshift64
    static uint64_t x = 88172645463325252;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return x % below;
}

/// Runs one turn, arms what has fired, and returns the counts that the turn has taken.
static uint64_t turn(uint64_t until, size_t budget, uint64_t delays) {
    const uint64_t start = board_true_count();
    tvec_advance(&wheel, until, budget);
    const uint64_t taken = board_true_count() - start;
    for (int i = 0; i < timers; ++i) {
        if (tvec_pending(&all[i])) continue;
        tvec_arm_at(&wheel, &all[i], until + 1 + random_number(delays));
    }
    return taken;
}

/// Returns the instructions of the longest turn that is late by less than `late`.
static uint64_t longest(uint64_t delays, uint64_t late, size_t budget) {
    uint64_t most = 0;
    tvec_wheel_init(&wheel, random_number(UINT64_C(1) << 40));
    for (int i = 0; i < timers; ++i) tvec_timer_init(&all[i], on_time);
    (void)turn(tvec_now(&wheel), budget, delays);
    for (int n = 0; n < turns; ++n) {
        const uint64_t until = tvec_next_wakeup(&wheel) + random_number(late);
        uint64_t taken = turn(until, budget, delays);
        if (taken > most) most = taken;
        while (tvec_next_wakeup(&wheel) <= until) {  // as the loop does, which does not sleep then
            taken = turn(until, budget, delays);
            if (taken > most) most = taken;
        }
    }
    return most * ns_of_a_count / ns_of_one;
}

static void say_longest(uint64_t late, size_t budget) {
    const uint64_t delays[] = {UINT64_C(1) << 16, UINT64_C(1) << 20, UINT64_C(1) << 27};
    uint64_t most = 0;
    for (int i = 0; i < 3; ++i) {
        const uint64_t found = longest(delays[i], late, budget);
        if (found > most) most = found;
    }
    char text[] = " 000000";
    for (int i = 6; i != 0; --i, most /= 10) text[i] = (char)('0' + most % 10);
    board_say(text);
}

int main(void) {
    board_start();
    board_mask_interrupts();
    say_longest(1 << 16, 8);
    say_longest(1 << 20, 8);
    say_longest(1 << 5, TVEC_UNLIMITED);
    say_longest(1 << 16, TVEC_UNLIMITED);
    return 0;
}
