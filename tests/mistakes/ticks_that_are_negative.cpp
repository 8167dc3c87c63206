// legal: they lie in the past
#include "tvec/tvec.hpp"

void arm(tvec::timer_wheel& w, tvec::timer& t) {
    w.arm_after(t, -5);
    w.arm_at(t, -5);
    w.advance(-1);
}
