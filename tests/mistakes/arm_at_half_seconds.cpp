// says: a timer& and a time_point; arm_after has durations
// lines: 6
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void arm(tvec::clocked_wheel<>& w, tvec::timer& t) {
    w.arm_at(t, std::chrono::steady_clock::now() + 0.5s);
}
