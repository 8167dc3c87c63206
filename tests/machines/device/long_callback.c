/* A callback that takes longer than a round of the counter, with the button pressed in it, by the
 * functions of the example. */
#define main main_of_the_example
int main(void);
#include "device.c"
#undef main

static const uint64_t close_by = UINT64_C(8) << BOARD_SHIFT;  // counts that the test itself takes

static uint64_t truth(void) {
    (void)board_counter();  // time passes with each look at a simulated one
    return board_true_count() - seen.apart;
}

static void press_it(void) {
    (void)board_true_count();
    on_button_interrupt();
}

static bool is_near(uint64_t count, uint64_t other) {
    return (count > other ? count - other : other - count) <= close_by;
}

/// A press, and then work for one and a half rounds, which does what the page tells it.
static bool presses_and_counts_keep_their_round(void) {
    const uint64_t round = UINT64_C(1) + BOARD_LAST_COUNT, pressed = truth();
    press_it();
    for (unsigned part = 1; part <= 6; ++part) {
        while (truth() < pressed + part * round / 4) {
        }
        handle_interrupts();
    }
    return is_near(seen.pressed - seen.apart, pressed) && is_near(counts(), truth());
}

/// Contacts bounce for more times than the ring has room.
static bool a_bouncing_button_settles_after_the_last_press(void) {
    uint64_t pressed = 0;
    for (unsigned n = 0; n < 20; ++n) {
        pressed = truth();
        press_it();
        while (truth() < pressed + MS(1)) {
        }
    }
    handle_interrupts();
    return is_near(tvec_expires(&settled) << BOARD_SHIFT, pressed + MS(20) + 1);
}

static bool good;

static void on_long(struct tvec_wheel* w, struct tvec_timer* timer) {
    (void)w;
    (void)timer;
    good = presses_and_counts_keep_their_round();
    good = a_bouncing_button_settles_after_the_last_press() && good;
}

static struct tvec_timer long_one = TVEC_TIMER_INIT(on_long);

int main(void) {
    (void)main_of_the_example;
    board_start();
    note_start();
    tvec_wheel_init(&wheel, ticks());
    board_mask_interrupts();  // the test alone presses the button
    arm(&long_one, 1);
    while (tvec_pending(&long_one)) tvec_advance(&wheel, ticks(), TVEC_UNLIMITED);
    board_say(good ? "long callback: OK\n" : "long callback: FAILED\n");
    return good ? 0 : 1;
}
