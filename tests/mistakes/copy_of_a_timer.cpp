// says: std::move: a timer is in one place
// lines: 6
#include "tvec/tvec.hpp"

void copy(tvec::timer& t) { tvec::timer u = t; }
