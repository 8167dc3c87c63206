/* tvec. */
#include "timers.h"

#include <tvec/tvec.h>

static struct tvec_wheel state;
static struct tvec_timer all[TIMERS];

static void on_timer(struct tvec_wheel* wheel, struct tvec_timer* timer) {
    (void)wheel;
    timer_fired((unsigned)(timer - all));
}

void timers_init(void) {
    tvec_wheel_init(&state, 0);
    for (unsigned i = 0; i < TIMERS; ++i) tvec_timer_init(&all[i], on_timer);
}
void timers_arm(unsigned i, uint64_t at) { tvec_arm_at(&state, &all[i], at); }
void timers_cancel(unsigned i) { tvec_cancel(&all[i]); }
void timers_advance(uint64_t now) { tvec_advance(&state, now, TVEC_UNLIMITED); }
uint64_t timers_next(void) { return tvec_next_wakeup(&state); }
