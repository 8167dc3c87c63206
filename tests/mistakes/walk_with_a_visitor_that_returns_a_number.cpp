// says: it returns nothing, or a bool: false to end here
// lines: 5
#include "tvec/tvec.hpp"

int count(tvec::timer_wheel& wheel) {
    int n = 0;
    wheel.for_each_pending([&](tvec::timer&) { return ++n; });
    return n;
}
