// says: a timer& and a duration: 1500ms, not 1.5s
// lines: 6
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void arm(tvec::clocked_wheel<>& w, const tvec::timer& t) { w.arm_after(t, 20ms); }
