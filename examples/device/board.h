/* What loop.h asks of a board: cortex_m.c has it by SysTick, board.c simulates it. */
#ifndef EXAMPLES_DEVICE_BOARD_H
#define EXAMPLES_DEVICE_BOARD_H

#include <stdbool.h>
#include <stdint.h>

/// The counts in a second.
#ifndef BOARD_HERTZ
#define BOARD_HERTZ 32768
#endif
/// The highest count, after which the counter begins at 0, 2^n - 1: here of 32 bits. A timer that
/// is reloaded sooner, such as after 999, gets all of its bits.
#ifndef BOARD_LAST_COUNT
#define BOARD_LAST_COUNT UINT32_MAX
#endif
_Static_assert((BOARD_LAST_COUNT & (UINT64_C(1) + BOARD_LAST_COUNT)) == 0, "a counter of n bits");
/// A tick of the wheel has 2^BOARD_SHIFT counts.
#ifndef BOARD_SHIFT
#define BOARD_SHIFT 0
#endif
/// The counts that an alarm of cortex_m.c costs its counter, such as 18.25: lost.c measures them,
/// at your clock, and they are below 100. If fewer are given the counter is slow, and if more it is
/// fast, and timers are early.
#ifndef BOARD_LOST
#define BOARD_LOST 0
#endif

/// Starts the counter.
void board_start(void);

/// Returns a counter that goes on while the processor sleeps. Handlers may call it, too.
uint32_t board_counter(void);

/// Masks interrupts: they wait, but end a sleep. (PRIMASK of a Cortex-M, mstatus.MIE of RISC-V)
void board_mask_interrupts(void);
void board_unmask_interrupts(void);

/// Sets the alarm for a count, and sleeps until it or an interrupt comes: `wfi`. Returns at once if
/// the count is near, or has passed by less than half of the counter: look once more after the
/// alarm was set. Interrupts are masked.
void board_sleep_until(uint32_t count);

/// The handler of an interrupt, of loop.h.
void on_button_interrupt(void);

/* --- of the tests ------------------------------------------------------------------------------
 */

/// Returns whether the test goes on.
bool board_runs(void);
/// Returns the count of another clock, which neither wraps nor is set.
uint64_t board_true_count(void);
uint64_t board_pressed_at(void);
/// Returns how often the handler was called.
uint32_t board_presses(void);
/// Returns whether a timer that is late by so many ticks is a fault.
bool board_is_late(uint64_t by_ticks);
void board_say(const char* text);

#endif
