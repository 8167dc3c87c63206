// says: whole units of the clock: 5ms
// lines: 6
#include "tvec/tvec.hpp"

using frame = std::chrono::duration<std::int64_t, std::ratio<1, 60>>;
const tvec::runtime_tick_clock<> ticks(frame(1));
