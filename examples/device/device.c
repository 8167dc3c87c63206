/* Timers of a small device: a wheel in static memory, no heap and no operating system, a counter
 * that wraps, sleep without ticks, and an interrupt. docs/c.md explains it. */
#include "board.h"

#include <stdatomic.h>
#include <tvec/tvec.h>

// [ticks]
/// Returns the counter with 64 bits. It must be called once in each round of the counter at least,
/// and from no interrupt handler.
static uint64_t ticks(void) {
    static uint64_t extended;
    const uint32_t before = (uint32_t)extended;
    extended += (board_counter() - before) & BOARD_LAST_COUNT;
    return extended;
}
// [ticks]

static struct tvec_wheel wheel;

#define SECOND ((uint64_t)BOARD_HERTZ)
#define MINUTE (60 * SECOND)
#define DAY (24 * 60 * MINUTE)

static struct {
    uint32_t samples, presses, reports, resets, wakes, early, unheard;
    uint64_t latest, apart;  // by how much the true count is ahead of ticks()
} seen;

static void note(const struct tvec_timer* timer) {
    const uint64_t due = tvec_expires(timer), now = board_true_count() - seen.apart;
    if (now < due)
        ++seen.early;
    else if (now - due > seen.latest)
        seen.latest = now - due;
}

/* --- timers ----------------------------------------------------------------------------------- */

static void on_sample(struct tvec_wheel* w, struct tvec_timer* timer);
static void on_settled(struct tvec_wheel* w, struct tvec_timer* timer);
static void on_report(struct tvec_wheel* w, struct tvec_timer* timer);
static void on_silence(struct tvec_wheel* w, struct tvec_timer* timer);

static struct tvec_timer sample = TVEC_TIMER_INIT(on_sample);    // each minute
static struct tvec_timer settled = TVEC_TIMER_INIT(on_settled);  // the button bounces
static struct tvec_timer report = TVEC_TIMER_INIT(on_report);    // in 9 days: more than 32 bits
static struct tvec_timer silence = TVEC_TIMER_INIT(on_silence);  // pushed back by each sample

static void on_sample(struct tvec_wheel* w, struct tvec_timer* timer) {
    note(timer);
    ++seen.samples;
    tvec_arm_next(w, timer, MINUTE);
    tvec_arm_after(w, &silence, 5 * MINUTE);
}

static void on_settled(struct tvec_wheel* w, struct tvec_timer* timer) {
    (void)w;
    note(timer);
    ++seen.presses;
}

static void on_report(struct tvec_wheel* w, struct tvec_timer* timer) {
    note(timer);
    ++seen.reports;
    tvec_arm_next(w, timer, 9 * DAY);
}

static void on_silence(struct tvec_wheel* w, struct tvec_timer* timer) {
    (void)w;
    note(timer);
    ++seen.resets;
}

/* --- interrupts ------------------------------------------------------------------------------- */

static void note_press(void) {
    if (board_true_count() - board_pressed_at() > 8) ++seen.unheard;
}

// [interrupt]
static atomic_bool pressed;

/// A handler sets a flag, and leaves the wheel alone.
void on_button_interrupt(void) { atomic_store_explicit(&pressed, true, memory_order_release); }

static void handle_interrupts(void) {
    if (!atomic_load_explicit(&pressed, memory_order_acquire)) return;
    atomic_store_explicit(&pressed, false, memory_order_relaxed);
    tvec_arm_at(&wheel, &settled, ticks() + SECOND / 50);  // pushed back while the button bounces
    note_press();
}
// [interrupt]

// [sleep]
/// Sleeps until a timer is due, an interrupt comes, or half a round of the counter has passed.
static void sleep_until_work(void) {
    const uint64_t longest = BOARD_LAST_COUNT / 2, now = ticks();
    uint64_t until = tvec_next_wakeup(&wheel);
    if (until <= now) return;
    if (until - now > longest) until = now + longest;
    board_mask_interrupts();  // else one that comes just here would not end the sleep
    if (!atomic_load_explicit(&pressed, memory_order_acquire))
        board_sleep_until((uint32_t)until & BOARD_LAST_COUNT);
    board_unmask_interrupts();
}
// [sleep]

/* --- the program ------------------------------------------------------------------------------ */

static void say_number(const char* before, uint64_t number) {
    char text[24], *first = text + sizeof text - 1;
    *first = '\0';
    do {
        *--first = (char)('0' + number % 10);
    } while ((number /= 10) != 0);
    board_say(before);
    board_say(first);
}

static int tell(uint64_t start) {
    const uint64_t passed = tvec_now(&wheel) - start;
    const bool good = seen.early == 0 && seen.latest < 8 && seen.unheard == 0 && seen.resets == 0 &&
                      seen.samples == passed / MINUTE && seen.reports == passed / (9 * DAY) &&
                      seen.presses > 0;
    say_number("days ", passed / DAY);
    say_number(", samples ", seen.samples);
    say_number(", reports ", seen.reports);
    say_number(", presses ", seen.presses);
    say_number(", wakes ", seen.wakes);
    say_number(", early ", seen.early);
    say_number(", latest by ", seen.latest);
    say_number(" counts, wraps ", board_true_count() >> 32);
    board_say(good ? ": OK\n" : ": FAILED\n");
    return good ? 0 : 1;
}

// [main]
int main(void) {
    const uint64_t start = ticks();
    tvec_wheel_init(&wheel, start);
    seen.apart = board_true_count() - start;
    tvec_arm_after(&wheel, &sample, MINUTE);
    tvec_arm_after(&wheel, &report, 9 * DAY);
    while (board_runs()) {
        handle_interrupts();
        tvec_advance(&wheel, ticks(), TVEC_UNLIMITED);
        sleep_until_work();
        ++seen.wakes;
    }
    return tell(start);
}
// [main]
