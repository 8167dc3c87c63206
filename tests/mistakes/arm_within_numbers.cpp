// says: a timer&, and two durations: 60s, 90s
// lines: 6
#include "tvec/tvec.hpp"

void arm(tvec::clocked_wheel<>& w, tvec::timer& t) { w.arm_within(t, 5, 10); }
