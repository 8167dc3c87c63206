// says: a wheel, then a point in the time that it keeps
// lines: 6
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

tvec::sleeper nap(tvec::clocked_wheel<>& w) { return tvec::sleep_until(w, 5ms); }
