// legal: its timers jump as that clock does, which a program may want
#include "tvec/tvec.hpp"

tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, std::chrono::system_clock>> w;
