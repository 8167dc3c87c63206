/* What device.c asks of a board. board.c simulates one; write these functions for yours. */
#ifndef EXAMPLES_DEVICE_BOARD_H
#define EXAMPLES_DEVICE_BOARD_H

#include <stdbool.h>
#include <stdint.h>

/// The highest count, after which the counter begins at 0: here of 32 bits.
#ifndef BOARD_LAST_COUNT
#define BOARD_LAST_COUNT UINT32_MAX
#endif
#define BOARD_HERTZ 32768u

/// Returns a counter that goes on while the processor sleeps.
uint32_t board_counter(void);

/// Masks interrupts: they wait, but end a sleep. (PRIMASK of a Cortex-M, mstatus.MIE of RISC-V)
void board_mask_interrupts(void);
void board_unmask_interrupts(void);

/// Sets the alarm for a count, and sleeps until it or an interrupt comes: `wfi`. Returns at once if
/// the count has passed, by less than half of the counter: look once more after the alarm was set.
void board_sleep_until(uint32_t count);

/// The handler of an interrupt, of device.c.
void on_button_interrupt(void);

/* --- of the simulation ------------------------------------------------------------------------ */

bool board_runs(void);
uint64_t board_true_count(void);
uint64_t board_pressed_at(void);
void board_say(const char* text);

#endif
