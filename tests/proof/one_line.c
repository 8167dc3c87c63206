// On the header that ships: what cancelling, asking and a push-back write, for all timers and
// wheels. Frama-C's WP reads tvec.h as a C compiler does, and these contracts beside it. `assigns`
// names all that a function may write.
//
// tests/proof/one_line runs it, and falsified copies of the header that must be refused. WP has no
// proof that a number whose top bit is set is more than TVEC_NEVER, so the contract of tvec_cancel
// says the bit, and that of tvec_pending the number.
#define TVEC_INLINE static inline
#define _Alignas(bytes)  // Frama-C cannot read it, and no contract depends on it
#include "tvec/tvec.h"

//@ ghost int other_timers_and_slots;

/*@ requires \valid(timer);
    assigns *timer;
    ensures timer->back == 0 && timer->expires == 0 && timer->fire == callback; */
static inline void tvec_timer_init(struct tvec_timer* timer, tvec_callback callback);

/*@ requires \valid_read(timer);
    assigns \nothing;
    ensures \result <==> timer->back != 0 && timer->expires <= TVEC_NEVER; */
static inline bool tvec_pending(const struct tvec_timer* timer);

/*@ requires \valid_read(timer);
    assigns \nothing;
    ensures \result == (timer->expires & TVEC_NEVER); */
static inline uint64_t tvec_expires(const struct tvec_timer* timer);

/*@ requires \valid(timer);
    assigns timer->expires;
    ensures \result <==> \old(timer->back != 0 && timer->expires <= TVEC_NEVER);
    ensures timer->expires == (\old(timer->expires) | 1 << 63); */
static inline bool tvec_cancel(struct tvec_timer* timer);

/*@ requires \valid(timer) && \valid(wheel) && timer->back == 0;
    assigns *timer, *wheel, other_timers_and_slots; */
void tvec_arm_unlinked(struct tvec_wheel* wheel, struct tvec_timer* timer, uint64_t expires);

/*@ requires \valid(timer) && \valid(wheel);
    assigns *timer, *wheel, other_timers_and_slots; */
bool tvec_arm_by_linking(struct tvec_wheel* wheel, struct tvec_timer* timer, uint64_t expires);

/*@ requires \valid(timer) && \valid(wheel) && \separated(timer, wheel);
    behavior push_back:
      assumes timer->back != 0 && (TVEC_NUMBER_)(timer->back >> 48) == wheel->in_place;
      assumes wheel->now < expires <= TVEC_NEVER;
      assumes expires >= (timer->expires & TVEC_NEVER);
      assigns timer->expires;
      ensures timer->expires == expires;
      ensures \result <==> \old(timer->expires) <= TVEC_NEVER; */
static inline bool tvec_arm_at(struct tvec_wheel* wheel, struct tvec_timer* timer,
                               uint64_t expires);
