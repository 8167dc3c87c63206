// says: whole units of the clock: 5ms
// lines: 6
#include "tvec/tvec.hpp"

const tvec::runtime_tick_clock<> ticks(5);
