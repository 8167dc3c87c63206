// says: a tick is a duration that counts in integers
// lines: 4
#include "tvec/tvec.hpp"

tvec::clocked_wheel<tvec::tick_clock<std::chrono::duration<double>>> w;
