// says: a budget of visits; it reads the clock itself
// lines: 6
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void run(tvec::clocked_wheel<>& w) { w.run(5ms); }
