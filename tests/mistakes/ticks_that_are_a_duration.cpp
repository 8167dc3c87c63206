// says: whole ticks: durations are for a tvec::clocked_wheel
// lines: 6
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void arm(tvec::timer_wheel& w, tvec::timer& t) { w.arm_after(t, 20ms); }
