// says: its own clock: after(t - system_clock::now())
// lines: 6
#include "tvec/tvec.hpp"

void arm(tvec::clocked_wheel<>& w, tvec::timer& t) {
    w.arm_unless_pending(t, std::chrono::system_clock::now());
}
