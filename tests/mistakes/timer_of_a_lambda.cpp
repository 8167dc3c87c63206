// legal: it is a function of the wheel and the timer
#include "tvec/tvec.hpp"

tvec::timer t{[](tvec::timer_wheel&, tvec::timer&) {}};
