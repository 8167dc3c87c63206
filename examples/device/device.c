/* Timers of a small device: a wheel in static memory, no heap and no operating system, a counter
 * that wraps, sleep without ticks, and an interrupt. docs/c.md explains it. */
#include "board.h"

#include <stdatomic.h>
#include <tvec/tvec.h>

static struct tvec_wheel wheel;

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
    (void)counts();
    tvec_arm_at(&wheel, timer, (count + (UINT64_C(1) << BOARD_SHIFT) - 1) >> BOARD_SHIFT);
}

/// Arms a timer that is due when a delay has passed in full: a part of this count has passed, too.
static void arm(struct tvec_timer* timer, uint64_t delay) { arm_at(timer, counts() + delay + 1); }

/// The counts of some milliseconds, rounded up.
#define MS(n) (((uint64_t)(n)*BOARD_HERTZ + 999) / 1000)
// [ticks]

#define MINUTE MS(60000)
#define DAY (24 * 60 * MINUTE)

static struct {
    uint32_t samples, presses, reports, resets, wakes, early, heard, unheard;
    uint64_t latest;          // in ticks
    uint64_t apart, pressed;  // in counts: how far the true ones are ahead, and a press
} seen;

static void note(const struct tvec_timer* timer) {
    const uint64_t due = tvec_expires(timer);
    const uint64_t now = (board_true_count() - seen.apart) >> BOARD_SHIFT;
    if (now < due)
        ++seen.early;
    else if (now - due > seen.latest)
        seen.latest = now - due;
}

static void note_start(void) {
    const uint64_t now = counts();
    seen.apart = board_true_count() - now;
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
static uint64_t next_sample, next_report;                        // counts

static void on_sample(struct tvec_wheel* w, struct tvec_timer* timer) {
    (void)w;
    note(timer);
    ++seen.samples;
    if (board_true_count() - seen.apart < next_sample) ++seen.early;
    // [period]
    arm_at(timer, next_sample += MINUTE);
    // [period]
    arm(&silence, 5 * MINUTE);
}

static void on_settled(struct tvec_wheel* w, struct tvec_timer* timer) {
    (void)w;
    note(timer);
    if (board_true_count() - seen.pressed < BOARD_HERTZ / 50) ++seen.early;
    ++seen.presses;
}

static void on_report(struct tvec_wheel* w, struct tvec_timer* timer) {
    (void)w;
    note(timer);
    ++seen.reports;
    arm_at(timer, next_report += 9 * DAY);
}

static void on_silence(struct tvec_wheel* w, struct tvec_timer* timer) {
    (void)w;
    note(timer);
    ++seen.resets;
}

/* --- interrupts ------------------------------------------------------------------------------- */

/// A press whose stamp is `at`, in counts. The last one is known to the board.
static void note_press(uint64_t at, bool last) {
    const uint64_t longest = UINT64_C(8) << BOARD_SHIFT;
    ++seen.heard;
    seen.pressed = at + seen.apart;
    if (!last) return;
    if (board_true_count() - board_pressed_at() > longest) ++seen.unheard;
    if (seen.pressed + longest < board_pressed_at() || at > counts()) ++seen.unheard;
}

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
        note_press(at, !interrupts_wait());
        arm_at(&settled, at + MS(20) + 1);  // pushed back while the button bounces
    }
}
// [interrupt]

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

/// Returns whether the counter has neither lost a round, nor two counts in a million.
static bool in_step(void) {
    const uint64_t counted = counts(), passed = board_true_count() - seen.apart;
    const uint64_t off = counted > passed ? counted - passed : passed - counted;
    return off <= passed / 500000;
}

static int tell(uint64_t start) {
    board_mask_interrupts();
    handle_interrupts();
    const uint64_t passed = (tvec_now(&wheel) << BOARD_SHIFT) - start;
    const bool good = seen.early == 0 && !board_is_late(seen.latest) && seen.unheard == 0 &&
                      seen.heard == board_presses() && seen.resets == 0 && in_step() &&
                      seen.samples == passed / MINUTE && seen.reports == passed / (9 * DAY) &&
                      seen.presses > 0;
    say_number("days ", passed / DAY);
    say_number(", samples ", seen.samples);
    say_number(", reports ", seen.reports);
    say_number(", presses ", seen.presses);
    say_number(", wakes ", seen.wakes);
    say_number(", early ", seen.early);
    say_number(", latest by ", seen.latest);
    say_number(" ticks, wraps ", counts() / (UINT64_C(1) + BOARD_LAST_COUNT));
    board_say(good ? ": OK\n" : ": FAILED\n");
    return good ? 0 : 1;
}

// [main]
int main(void) {
    board_start();
    const uint64_t start = counts();
    tvec_wheel_init(&wheel, start >> BOARD_SHIFT);
    note_start();
    arm_at(&sample, next_sample = start + MINUTE);
    arm_at(&report, next_report = start + 9 * DAY);
    while (board_runs()) {
        handle_interrupts();
        tvec_advance(&wheel, ticks(), 8);  // what is left is due at once: no sleep
        sleep_until_work();
        ++seen.wakes;
    }
    return tell(start);
}
// [main]
