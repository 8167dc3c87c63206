/* Timers in rings of a list, for the structures that tvec is compared with. */
#ifndef BENCH_DEVICE_LIST_H
#define BENCH_DEVICE_LIST_H

#include <stddef.h>

#include "timers.h"

struct timer {
    struct timer *next, *previous;
    uint64_t at;
    void (*fire)(unsigned i);
};

static struct timer all[TIMERS];

static inline void close_ring(struct timer* ring) { ring->next = ring->previous = ring; }

static inline void link_before(struct timer* next, struct timer* t) {
    t->next = next;
    t->previous = next->previous;
    t->previous->next = t;
    next->previous = t;
}

static inline void unlink(struct timer* t) {
    if (t->next == NULL) return;
    t->next->previous = t->previous;
    t->previous->next = t->next;
    t->next = NULL;
}

static inline void fire(struct timer* t) {
    unlink(t);
    t->fire((unsigned)(t - all));
}

#endif
