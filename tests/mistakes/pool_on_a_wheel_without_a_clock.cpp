// says: a timeout_pool is on a tvec::clocked_wheel
// lines: 3
#include "tvec/tvec.hpp"

tvec::timer_wheel w;
tvec::timeout_pool pool(w);
