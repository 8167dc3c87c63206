// Passes every probe: arms for later and for the past, cancels, and advances over a cascade. Also
// something to trace: docs/observing.md.
#include "tvec/core/timer_wheel.hpp"

int main() {
    tvec::timer_wheel wheel;
    tvec::timer soon, far, never_fires, past;
    wheel.arm_at(soon, 10);
    wheel.arm_at(far, 1000);
    wheel.arm_at(never_fires, 20);
    wheel.advance(5);
    wheel.arm_at(past, 3);
    never_fires.cancel();
    wheel.advance(2000);
    return wheel.count().fired == 3 && wheel.count().moved > 0 ? 0 : 1;
}
