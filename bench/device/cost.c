/* Counts the instructions of each structure on a Cortex-M3 of qemu, which takes 40 of them for a
 * step of its SysTick. Prints, in hexadecimal, the instructions of an arm of a timer that was never
 * armed, for any of the next 65 536 ticks, of a push-back, of a cancel with such an arm after it,
 * and of a fire with such an arm, where the device sleeps until the next. */
#include "timers.h"

void board_say(const char* text);

#define SYSTICK ((volatile uint32_t*)0xE000E010)
enum { control, reload, current, steps = 1 << 24, for_a_step = 40 };

static uint32_t random_number(void) {  // xorshift32
    static uint32_t x = 1;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return x;
}

static uint64_t now;
static uint32_t fired;

static uint64_t some_time(void) { return now + 1 + (random_number() & 0xFFFF); }

void timer_fired(unsigned i) {
    ++fired;
    timers_arm(i, some_time());
}

static uint32_t before, taken;

static void begin(void) { before = SYSTICK[current]; }

static void pause(void) { taken += (before - SYSTICK[current]) & (steps - 1); }

static void end(uint32_t times) {
    pause();
    uint32_t number = taken * for_a_step / times;
    taken = 0;
    char text[] = "00000000 ", *digit = text + 8;
    while (digit != text) {
        *--digit = "0123456789abcdef"[number & 15];
        number >>= 4;
    }
    board_say(text);
}

int main(void) {
    enum { times = 512 };
    timers_init();
    SYSTICK[reload] = steps - 1;
    SYSTICK[current] = 0;
    SYSTICK[control] = 5;  // of the processor's clock, without interrupts
    begin();
    for (unsigned n = 0, i = 0; n < times; ++n) {
        timers_arm(i, some_time());
        if (++i == TIMERS && n + 1 != times) {
            pause();
            for (; i != 0; --i) timers_cancel(i - 1);
            timers_init();
            begin();
        }
    }
    end(times);
    for (unsigned i = 0; i < TIMERS; ++i) timers_arm(i, some_time());
    begin();
    for (unsigned n = 0, i = 0; n < times; ++n) {
        timers_arm(i, now + 0x10000 + n);
        i = i + 1 != TIMERS ? i + 1 : 0;
    }
    end(times);
    begin();
    for (unsigned n = 0, i = 0; n < times; ++n) {
        timers_cancel(i);
        timers_arm(i, some_time());
        i = i + 1 != TIMERS ? i + 1 : 0;
    }
    end(times);
    begin();
    while (fired < times) {
        now = timers_next();
        timers_advance(now);
    }
    end(fired);
    board_say("\n");
    return 0;
}
