// says: reset: nap.reset
// lines: 6
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void heard(tvec::sleeper& nap, tvec::clocked_wheel<>& w) { nap = tvec::sleep_for(w, 30s); }
