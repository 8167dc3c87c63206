// says: function takes (tvec::timer_wheel&, tvec::timer&), or nothing
// lines: 3
#include "tvec/tvec.hpp"

tvec::callback_timer t{[](int) {}};
