// legal: it is a timer all the same
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void arm(tvec::clocked_wheel<>& w) {
    static tvec::callback_timer t{[] {}};
    w.arm_after(t, 20ms);
    w.arm_at(t, w.after(20ms));
    w.arm_if_earlier(t, w.after(20ms));
    w.arm_if_pending(t, w.after(20ms));
    w.arm_within(t, 20ms, 1s);
    w.arm_next(t, 20ms);
    w.wheel().arm_after(t, 20);
}
