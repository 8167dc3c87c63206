// says: a timer& and a duration: 1500ms, not 1.5s
// lines: 6
#include "tvec/tvec.hpp"

void arm(tvec::clocked_wheel<>& w, tvec::timer& t) { w.arm_after(t, 20); }
