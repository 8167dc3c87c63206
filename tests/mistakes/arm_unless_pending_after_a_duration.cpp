// says: a timer& and a time_point: after(20ms)
// lines: 6
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void arm(tvec::clocked_wheel<>& w, tvec::timer& t) { w.arm_unless_pending(t, 20ms); }
