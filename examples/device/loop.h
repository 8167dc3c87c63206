/* The loop of a small device: a wheel in static memory, no heap and no operating system, a counter
 * that wraps, sleep without ticks, and an interrupt. One file includes it, which has the timers and
 * defines on_press; others arm by functions of that file. docs/c.md explains it. */
#ifndef EXAMPLES_DEVICE_LOOP_H
#define EXAMPLES_DEVICE_LOOP_H

#include "board.h"

#include <stdatomic.h>
#include <tvec/tvec.h>

static struct tvec_wheel wheel;

/// Handles a press of the button at a count, outside of the interrupt.
static void on_press(uint64_t at);

/* --- counter ---------------------------------------------------------------------------------- */

// [ticks]
/// Returns the counter with 64 bits. It must be called once in each round of the counter at least,
/// which `handle_interrupts` does for long callbacks, and from no interrupt handler.
static uint64_t counts(void) {
    static uint64_t extended;
    const uint32_t before = (uint32_t)extended;
    extended += (board_counter() - before) & BOARD_LAST_COUNT;
    return extended;
}

/// Returns the tick that has begun.
static uint64_t ticks(void) { return counts() >> BOARD_SHIFT; }

/// Arms a timer for a count, rounded up to a tick. Reads the counter, for turns of long callbacks.
static void arm_at(struct tvec_timer* timer, uint64_t count) {
    const bool is_between = (count & ((UINT64_C(1) << BOARD_SHIFT) - 1)) != 0;
    (void)counts();
    tvec_arm_at(&wheel, timer, count == TVEC_NEVER ? count : (count >> BOARD_SHIFT) + is_between);
}

/// Arms a timer that is due when a delay has passed in full: a part of this count has passed, too.
static inline void arm(struct tvec_timer* timer, uint64_t delay) {
    const uint64_t now = counts();
    arm_at(timer, delay < TVEC_NEVER - now ? now + delay + 1 : TVEC_NEVER);
}

/// The counts of some milliseconds, rounded up.
#define MS(n) (((uint64_t)(n)*BOARD_HERTZ + 999) / 1000)
// [ticks]

/* --- interrupts ------------------------------------------------------------------------------- */

// [interrupt]
enum { room = 8 };                    // two or more
static uint32_t stamps[room];         // the counter at each press
static atomic_uint written, handled;  // by the handler alone, and by the loop alone

/// A handler leaves a stamp for the loop, and the wheel alone. In a full ring it replaces the last
/// stamp, while the loop reads at most the first.
void on_button_interrupt(void) {
    unsigned n = atomic_load_explicit(&written, memory_order_relaxed);
    if (n - atomic_load_explicit(&handled, memory_order_acquire) == room) --n;
    stamps[n % room] = board_counter();
    atomic_store_explicit(&written, n + 1, memory_order_release);
}

static bool interrupts_wait(void) {
    return atomic_load_explicit(&written, memory_order_acquire) !=
           atomic_load_explicit(&handled, memory_order_relaxed);
}

/// Must be called once in each round of the counter at least, by long callbacks too: a stamp lives
/// for one round.
static void handle_interrupts(void) {
    (void)counts();
    while (interrupts_wait()) {
        const unsigned n = atomic_load_explicit(&handled, memory_order_relaxed);
        const uint64_t now = counts();
        const uint64_t at = now - (((uint32_t)now - stamps[n % room]) & BOARD_LAST_COUNT);
        atomic_store_explicit(&handled, n + 1, memory_order_release);
        on_press(at);
    }
}
// [interrupt]

/* --- loop ------------------------------------------------------------------------------------- */

// [sleep]
/// Sleeps until a timer is due, an interrupt comes, or half a round of the counter has passed.
static void sleep_until_work(void) {
    const uint64_t longest = (BOARD_LAST_COUNT / 2) >> BOARD_SHIFT, now = ticks();
    uint64_t until = tvec_next_wakeup(&wheel);
    if (until <= now) return;
    if (until - now > longest) until = now + longest;
    board_mask_interrupts();  // else one that comes just here would not end the sleep
    if (!interrupts_wait()) board_sleep_until((uint32_t)(until << BOARD_SHIFT) & BOARD_LAST_COUNT);
    board_unmask_interrupts();
}
// [sleep]

// [loop]
/// Starts the counter and the wheel, and returns the count that it is now.
static uint64_t start_loop(void) {
    board_start();
    const uint64_t now = counts();
    tvec_wheel_init(&wheel, now >> BOARD_SHIFT);
    return now;
}

/// Handles what has come, and sleeps until there is more.
static inline void run_turn(void) {
    handle_interrupts();
    tvec_advance(&wheel, ticks(), 8);  // what is left is due at once: no sleep
    sleep_until_work();
}
// [loop]

#endif
