/* A hashed wheel: 64 lists, by the low bits of the deadline. Each visit of a list looks at all of
 * its timers, and the next wake-up is found by looking at every timer. */
#include "list.h"

enum { slots = 64 };

static struct {
    struct timer* first[2 * slots];  // the links of rings, which are read as the first two members
    uint64_t now;
} state;

static struct timer* ring(unsigned slot) { return (struct timer*)(void*)&state.first[2 * slot]; }

void timers_init(void) {
    for (unsigned slot = 0; slot < slots; ++slot) close_ring(ring(slot));
    for (unsigned i = 0; i < TIMERS; ++i) all[i].fire = timer_fired;
}

void timers_arm(unsigned i, uint64_t at) {
    unlink(&all[i]);
    all[i].at = at;
    link_before(ring(at % slots), &all[i]);
}

void timers_cancel(unsigned i) { unlink(&all[i]); }

static void visit(struct timer* end) {
    for (struct timer *t = end->next, *next; t != end; t = next) {
        next = t->next;
        if (t->at <= state.now) fire(t);
    }
}

void timers_advance(uint64_t now) {
    while (state.now < now) {
        ++state.now;
        visit(ring(state.now % slots));
    }
}

uint64_t timers_next(void) {
    uint64_t first = UINT64_MAX;
    for (unsigned slot = 0; slot < slots; ++slot)
        for (struct timer* t = ring(slot)->next; t != ring(slot); t = t->next)
            if (t->at < first) first = t->at;
    return first;
}
