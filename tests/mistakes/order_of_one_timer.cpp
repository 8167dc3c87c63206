// says: the order is a function of two tvec::timer&: is one before the other?
// lines: 6
#include "tvec/tvec.hpp"

void run(tvec::timer_wheel& w) {
    w.advance_in_order(5, [](tvec::timer&) { return 1; });
}
