#include "in_c.h"

void c_arm(struct tvec_wheel* wheel, struct tvec_timer* timers, const uint32_t* order,
           const uint32_t* delays, size_t n) {
    for (size_t i = 0; i < n; ++i) tvec_arm_at(wheel, &timers[order[i]], delays[i]);
}

void c_arm_later(struct tvec_wheel* wheel, struct tvec_timer* timers, const uint32_t* order,
                 uint64_t at, size_t n) {
    for (size_t i = 0; i < n; ++i) tvec_arm_at(wheel, &timers[order[i]], at);
}

void c_cancel(struct tvec_timer* timers, const uint32_t* order, size_t n) {
    for (size_t i = 0; i < n; ++i) tvec_cancel(&timers[order[i]]);
}
