// says: a remote is on a tvec::clocked_wheel
// lines: 6
#include "tvec/tvec.hpp"

void make(tvec::timer_wheel& wheel) {
    tvec::remote mailbox(wheel, 64, [] {});
}
