// P1: a timer armed for tick x fires when advance passes x, never before.
#include "support/check.hpp"
#include "tvec/inspect.hpp"
#include "tvec/timer_wheel.hpp"

TestSuite(arming, .timeout = 60);

Test(arming, a_timer_fires_on_its_tick_and_not_before) {
    tvec::timer_wheel wheel;
    int fired = 0;
    tvec::callback_timer t{[&] { ++fired; }};
    wheel.arm_at(t, 300);

    wheel.advance(299);
    CHECK_EQ(fired, 0);
    wheel.advance(300);
    CHECK_EQ(fired, 1);
    CHECK_EQ(check(wheel), "");
}
