// says: a reference: a wheel stays where it is
// lines: 6
#include "tvec/tvec.hpp"

void copy(tvec::timer_wheel& w) { auto v = w; }
