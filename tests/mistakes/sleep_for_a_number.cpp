// says: a wheel, then a delay: sleep_for(timers, 1500ms)
// lines: 6
#include "tvec/tvec.hpp"

tvec::sleeper nap(tvec::clocked_wheel<>& w) { return tvec::sleep_for(w, 5); }
