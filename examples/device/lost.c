/* Measures the BOARD_LOST of a part: by how much its counter falls behind another clock with each
 * alarm. Build it in the place of device.c. */
#include "board.h"

void on_button_interrupt(void) {}

int main(void) {
    enum { alarms = 900 };
    board_start();
    (void)board_true_count();  // starts it
    uint32_t before = board_counter();
    const uint64_t start = board_true_count();
    uint64_t counted = 0;
    for (int i = 0; i < alarms; ++i) {
        for (volatile int work = i % 25; work > 0; --work) {  // counts begin at any instruction
        }
        board_mask_interrupts();
        board_sleep_until((before + BOARD_HERTZ / 1000) & BOARD_LAST_COUNT);
        board_unmask_interrupts();
        const uint32_t now = board_counter();
        counted += (now - before) & BOARD_LAST_COUNT;
        before = now;
    }
    const uint64_t passed = board_true_count() - start;
    const uint64_t given = (uint64_t)(BOARD_LOST * 256) * alarms / 256;
    const uint64_t lost = (given + passed - counted) * 100 / alarms;
    char text[] = "BOARD_LOST 00.00\n";
    text[11] = (char)('0' + lost / 1000 % 10);
    text[12] = (char)('0' + lost / 100 % 10);
    text[14] = (char)('0' + lost / 10 % 10);
    text[15] = (char)('0' + lost % 10);
    board_say(text);
    return 0;
}
