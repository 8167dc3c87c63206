// says: a function of (timer_wheel&, timer&), or callback_timer
// lines: 5
#include "tvec/tvec.hpp"

tvec::timer t{[] {}};
