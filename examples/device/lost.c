/* Measures the BOARD_LOST of a part: by how much more its counter falls behind another clock if it
 * waits by alarms than if it spins. The rates of the two clocks, which are some millionths apart,
 * are in both and cancel. Build it in the place of device.c. */
#include "board.h"

enum { steps = 900 };

void on_button_interrupt(void) {}

static void spin_until(uint32_t count) {
    while (((count - board_counter()) & BOARD_LAST_COUNT) <= BOARD_LAST_COUNT / 2) {
    }
}

static void sleep_until(uint32_t count) {
    board_mask_interrupts();
    board_sleep_until(count);
    board_unmask_interrupts();
}

/// Waits for some milliseconds, and returns by how many counts the counter fell behind.
static int64_t behind(void (*wait_until)(uint32_t count)) {
    uint32_t before = board_counter();
    const uint64_t start = board_true_count();
    uint64_t counted = 0;
    for (int i = 0; i < steps; ++i) {
        for (volatile int work = i % 25; work > 0; --work) {  // counts begin at any instruction
        }
        wait_until((before + BOARD_HERTZ / 1000) & BOARD_LAST_COUNT);
        const uint32_t now = board_counter();
        counted += (now - before) & BOARD_LAST_COUNT;
        before = now;
    }
    return (int64_t)(board_true_count() - start - counted);
}

int main(void) {
    board_start();
    (void)board_true_count();  // starts it
    const int64_t by_rate = behind(spin_until), by_alarms = behind(sleep_until) - by_rate;
    const int64_t given = (int64_t)(BOARD_LOST * 256) * steps / 256;
    const int64_t lost = (given + by_alarms) * 100 / steps;
    if (lost < 0 || lost > 9999) {
        board_say("lost.c: FAILED: not 0 to 99 counts an alarm: are both clocks of BOARD_HERTZ?\n");
        return 1;
    }
    char text[] = "BOARD_LOST 00.00\n";
    text[11] = (char)('0' + lost / 1000 % 10);
    text[12] = (char)('0' + lost / 100 % 10);
    text[14] = (char)('0' + lost / 10 % 10);
    text[15] = (char)('0' + lost % 10);
    board_say(text);
    return 0;
}
