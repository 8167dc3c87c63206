/* Timers of a small device, which count for a test what comes, and when. The loop is of loop.h. */
#include "loop.h"

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

/* --- presses ---------------------------------------------------------------------------------- */

/// A press whose stamp is `at`, in counts. The last one is known to the board.
static void note_press(uint64_t at, bool last) {
    const uint64_t longest = UINT64_C(8) << BOARD_SHIFT;
    ++seen.heard;
    seen.pressed = at + seen.apart;
    if (!last) return;
    if (board_true_count() - board_pressed_at() > longest) ++seen.unheard;
    if (seen.pressed + longest < board_pressed_at() || at > counts()) ++seen.unheard;
}

static void on_press(uint64_t at) {
    note_press(at, !interrupts_wait());
    // [press]
    arm_at(&settled, at + MS(20) + 1);  // pushed back while the button bounces
    // [press]
}

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
    const uint64_t start = start_loop();
    note_start();
    arm_at(&sample, next_sample = start + MINUTE);
    arm_at(&report, next_report = start + 9 * DAY);
    while (board_runs()) {
        run_turn();
        ++seen.wakes;
    }
    return tell(start);
}
// [main]
