#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

int main() {
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>> timers;
    bool fired = false;
    tvec::callback_timer alarm{[&](auto&, auto&) { fired = true; }};
    timers.arm_after(alarm, 1h);
    tvec::manual_clock::advance(1h - 1ns);
    timers.run();
    if (fired) return 1;  // a nanosecond early
    tvec::manual_clock::advance(1ns);
    timers.run();
    return fired ? 0 : 1;
}
