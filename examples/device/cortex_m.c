/* A board by SysTick, whose registers all Cortex-M have at the same place: a counter of 24 bits, an
 * alarm, and sleep. SysTick_Handler belongs in the vectors. In deep sleep SysTick stands still: for
 * that write the same functions for a timer of your vendor's. */
#include "board.h"

#define SYST_CSR (*(volatile uint32_t*)0xE000E010)  // control
#define SYST_RVR (*(volatile uint32_t*)0xE000E014)  // where it begins again after 0
#define SYST_CVR (*(volatile uint32_t*)0xE000E018)  // where it is

_Static_assert(BOARD_LAST_COUNT == 0xFFFFFF, "SysTick has 24 bits");
_Static_assert((int)(BOARD_LOST) >= 0 && (int)(BOARD_LOST) < 100, "what lost.c measures");

static uint32_t at_zero;  // the count at which SysTick is at 0: modulo 2^24 it never jumps

/// Counts by the processor's clock, and interrupts at 0.
void board_start(void) {
    SYST_RVR = BOARD_LAST_COUNT;
    SYST_CVR = 0;
    SYST_CSR = 7;
}

uint32_t board_counter(void) { return (at_zero - SYST_CVR) & BOARD_LAST_COUNT; }

void board_mask_interrupts(void) { __asm__ volatile("cpsid i" ::: "memory"); }
void board_unmask_interrupts(void) { __asm__ volatile("cpsie i" ::: "memory"); }

/// It wakes the processor, and has nothing to do.
void SysTick_Handler(void) {}

/// Makes SysTick reach 0 at `count`, and go on with all 24 bits from there. Between the look and
/// the write it loses BOARD_LOST.
static bool set_alarm(uint32_t count) {
    enum { soon = 65 + (int)(BOARD_LOST) };  // counts: the lines below take less, and what is lost
    static uint32_t lost = (uint32_t)(BOARD_LOST * 256);  // in 1/256 of a count
    const uint32_t ahead = (count - board_counter()) & BOARD_LAST_COUNT;
    if (ahead < soon || ahead > BOARD_LAST_COUNT / 2 + 1) return false;
    if (count == at_zero) return true;
    SYST_RVR = ahead - lost / 256;
    SYST_CVR = 0;  // any write clears it, and the next clock takes it from RVR
    at_zero = count;
    while (SYST_CVR == 0) {
    }
    SYST_RVR = BOARD_LAST_COUNT;
    lost = lost % 256 + (uint32_t)(BOARD_LOST * 256);  // a part of a count is left for the next one
    return true;
}

void board_sleep_until(uint32_t count) {
    if (set_alarm(count)) __asm__ volatile("dsb\n\twfi" ::: "memory");
}
