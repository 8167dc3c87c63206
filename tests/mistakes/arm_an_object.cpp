// says: a timer& and a duration: 1500ms, not 1.5s
// lines: 6
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

struct connection {
    tvec::timer idle;
};
void arm(tvec::clocked_wheel<>& w, connection& c) { w.arm_after(c, 20ms); }
