/* A timer that counts how often it has fired, and when it did so last. */
#ifndef TESTS_C_PROBE_H
#define TESTS_C_PROBE_H

#include "tvec/tvec.h"

struct probe {
    int fired;
    uint64_t at;
    struct tvec_timer timer; /* not the first member, so that its owner has to be found */
};

static inline void probe_on_fire(struct tvec_wheel* wheel, struct tvec_timer* timer) {
    struct probe* p = TVEC_OWNER_OF(timer, struct probe, timer);
    ++p->fired;
    p->at = tvec_now(wheel);
}

#define PROBE_INIT                                                                                 \
    { 0, 0, TVEC_TIMER_INIT(probe_on_fire) }

/* Advances to `until`, and returns how many timers fired. */
static inline size_t run_to(struct tvec_wheel* wheel, uint64_t until) {
    return tvec_advance(wheel, until, TVEC_UNLIMITED).fired;
}

#endif
