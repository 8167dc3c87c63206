/* Single operations on a tvec wheel, written in C: for exercises.hpp. Each does its work on `n`
 * timers, in the order that is given. */
#ifndef BENCH_IN_C_H
#define BENCH_IN_C_H

#include <stddef.h>
#include <stdint.h>

#include <tvec/tvec.h>

#ifdef __cplusplus
extern "C" {
#endif

void c_arm(struct tvec_wheel* wheel, struct tvec_timer* timers, const uint32_t* order,
           const uint32_t* delays, size_t n);
void c_arm_later(struct tvec_wheel* wheel, struct tvec_timer* timers, const uint32_t* order,
                 uint64_t at, size_t n);
void c_cancel(struct tvec_timer* timers, const uint32_t* order, size_t n);

#ifdef __cplusplus
}
#endif

#endif
