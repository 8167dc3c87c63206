// says: a wheel, then a delay: sleep_for(timers, 1500ms)
// lines: 6
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

tvec::sleeper nap(tvec::clocked_wheel<>& w) { return tvec::sleep_for(1ms, w); }
