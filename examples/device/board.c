/* A simulated board: its counter jumps ahead while it sleeps, and someone presses its button. */
#include "board.h"

static uint64_t count = 0xFFFF0000u;  // the counter wraps in two seconds
static uint64_t pressed_at;
static uint32_t presses;
static bool pending, masked;

void board_start(void) {}

uint64_t board_true_count(void) { return count; }
uint64_t board_pressed_at(void) { return pressed_at; }
uint32_t board_presses(void) { return presses; }

bool board_runs(void) { return count < UINT64_C(0xFFFF0000) + 20ull * 24 * 3600 * BOARD_HERTZ; }

bool board_is_late(uint64_t by_ticks) { return by_ticks >= 12; }

static uint32_t random_number(void) {  // xorshift32
    static uint32_t x = 1;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return x;
}

/// Interrupts wait while a handler runs.
static void deliver(void) {
    while (pending && !masked) {
        pending = false;
        masked = true;
        ++presses;
        on_button_interrupt();
        masked = false;
    }
}

static void press(void) {
    pressed_at = count;
    pending = true;
    deliver();
}

static void press_sometimes(void) {
    if (random_number() % 512 == 0) press();
}

/// Time passes with each look at the counter.
uint32_t board_counter(void) {
    ++count;
    press_sometimes();
    return (uint32_t)count & BOARD_LAST_COUNT;
}

/// Interrupts come just before, and just after.
void board_mask_interrupts(void) {
    press_sometimes();
    masked = true;
    press_sometimes();
}

void board_unmask_interrupts(void) {
    masked = false;
    deliver();
}

void board_sleep_until(uint32_t until) {
    const uint32_t ahead = (until - (uint32_t)count) & BOARD_LAST_COUNT;
    if (pending || ahead == 0 || ahead > BOARD_LAST_COUNT / 2 + 1) return;
    const uint32_t pressed_in = random_number() % (4096u * BOARD_HERTZ);
    count += pressed_in < ahead ? pressed_in : ahead;
    if (pressed_in < ahead) press();
}

#if __STDC_HOSTED__
#include <stdio.h>

void board_say(const char* text) { fputs(text, stdout); }
#endif
