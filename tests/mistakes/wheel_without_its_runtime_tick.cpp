// says: a tick: clocked_wheel timers(runtime_tick_clock(5ms))
// lines: 8
#include "tvec/tvec.hpp"

tvec::clocked_wheel<tvec::runtime_tick_clock<>> timers;
