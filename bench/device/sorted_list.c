/* One list, sorted by deadline: what a device with a few timers has. */
#include "list.h"

static struct timer state;

void timers_init(void) {
    close_ring(&state);
    for (unsigned i = 0; i < TIMERS; ++i) all[i].fire = timer_fired;
}

/// Searches from the end: most deadlines are later than those before them.
void timers_arm(unsigned i, uint64_t at) {
    struct timer* before = &state;
    unlink(&all[i]);
    all[i].at = at;
    do before = before->previous;
    while (before != &state && before->at > at);
    link_before(before->next, &all[i]);
}

void timers_cancel(unsigned i) { unlink(&all[i]); }

void timers_advance(uint64_t now) {
    while (state.next != &state && state.next->at <= now) fire(state.next);
}

uint64_t timers_next(void) { return state.next != &state ? state.next->at : UINT64_MAX; }
