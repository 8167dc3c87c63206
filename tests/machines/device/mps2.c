/* What the test of examples/device/cortex_m.c needs of qemu's mps2-an385: timers by the clock of
 * its SysTick, of which one is the true clock, and another presses the button. */
#include "board.h"

struct timer {
    volatile uint32_t control, value, reload, interrupt;  // counts down, and begins at `reload`
};

#define BUTTON ((struct timer*)0x40000000)
#define TRUE_CLOCK ((struct timer*)0x40001000)
#define STEPS ((volatile uint32_t*)0x40002000)  // reload, value, control
#define NVIC_ISER (*(volatile uint32_t*)0xE000E100)
enum { enabled = 1, interrupts = 8, button_interrupt = 1 << 8 };

/// By how many millionths the true clock is faster, as another oscillator may be.
#ifndef FASTER
#define FASTER 0
#endif

void on_timer_interrupt(void);

/// With `sleep=off` qemu skips to the next event of a timer, and at times to the one after it,
/// before the processor has woken: a timer that runs each millisecond keeps it from skipping
/// rounds.
static void bound_skips(void) {
    STEPS[0] = BOARD_HERTZ / 1000;
    STEPS[2] = 0x80 | 0x40 | 0x02;  // enabled, periodic, 32 bits
}

static void start_timers(void) {
    bound_skips();
    TRUE_CLOCK->reload = TRUE_CLOCK->value = UINT32_MAX;
    TRUE_CLOCK->control = enabled;
    BUTTON->reload = BUTTON->value = BOARD_HERTZ;
    BUTTON->control = enabled | interrupts;
    NVIC_ISER = button_interrupt;
}

uint64_t board_true_count(void) {
    static uint64_t count;
    if (TRUE_CLOCK->control == 0) start_timers();
    const uint32_t now = UINT32_MAX - TRUE_CLOCK->value;
    count += (uint32_t)(now - (uint32_t)count);
    return count + count * FASTER / 1000000;
}

static volatile uint32_t pressed_at, presses;

uint64_t board_pressed_at(void) {
    const uint64_t now = board_true_count();
    return now - (uint32_t)((uint32_t)now - pressed_at);
}

uint32_t board_presses(void) { return presses; }

void on_timer_interrupt(void) {
    static uint32_t random = 1;  // xorshift32
    random ^= random << 13;
    random ^= random >> 17;
    random ^= random << 5;
    BUTTON->interrupt = 1;  // clears it
    BUTTON->reload = random >> 6;
    pressed_at = UINT32_MAX - TRUE_CLOCK->value;
    ++presses;
    on_button_interrupt();
}

/// A minute, and the first sample.
bool board_runs(void) { return board_true_count() < UINT64_C(62) * BOARD_HERTZ; }

/// The emulator skips up to a millisecond, three ticks. Without `sleep=off` it is late by any.
bool board_is_late(uint64_t by_ticks) { return by_ticks >= 8; }
