// says: the visitor is called with a const tvec::timer&, for the wheel is const
// lines: 5
#include "tvec/tvec.hpp"

void cancel_all(const tvec::timer_wheel& wheel) {
    wheel.for_each_pending([](tvec::timer& t) { t.cancel(); });
}
