// says: a wheel that is not const
// lines: 6
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void arm(const tvec::clocked_wheel<>& w, tvec::timer& t) { w.arm_after(t, 20ms); }
