// legal: durations that count in integers
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void arm(tvec::clocked_wheel<>& w, tvec::timer& t) {
    w.arm_at(t,
             std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::steady_clock::now()));
    w.arm_after(t, 2min);
    w.arm_after(t, std::chrono::days(400));
}
