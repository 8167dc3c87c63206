// says: a clocked_wheel is made of a tick_clock
// lines: 3
#include "tvec/tvec.hpp"

tvec::clocked_wheel<std::chrono::microseconds> w;
