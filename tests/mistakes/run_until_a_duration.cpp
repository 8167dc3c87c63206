// says: a time_point: after(2ms)
// lines: 6
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void run(tvec::clocked_wheel<>& w) { w.run_until(5ms); }
