// legal: it is timer_wheel::unlimited
#include "tvec/tvec.hpp"

void run(tvec::clocked_wheel<>& w) { w.run(-1); }
