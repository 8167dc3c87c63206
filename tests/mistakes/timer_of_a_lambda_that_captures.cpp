// says: a function of (timer_wheel&, timer&), or callback_timer
// lines: 6
#include "tvec/tvec.hpp"

void count() {
    int n = 0;
    tvec::timer t{[&] { ++n; }};
}
