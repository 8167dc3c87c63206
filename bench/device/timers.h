/* The timers of a device, by one of several structures, for tests/machines/device/run. */
#ifndef BENCH_DEVICE_TIMERS_H
#define BENCH_DEVICE_TIMERS_H

#include <stdint.h>

#ifndef TIMERS
#define TIMERS 256
#endif

void timers_init(void);
/// Arms timer `i`, which may be pending, for tick `at`, which is to come.
void timers_arm(unsigned i, uint64_t at);
void timers_cancel(unsigned i);
/// Calls timer_fired(i) for each timer that is due by `now`.
void timers_advance(uint64_t now);
/// Returns the tick until which a device may sleep, or UINT64_MAX.
uint64_t timers_next(void);

void timer_fired(unsigned i);

#endif
