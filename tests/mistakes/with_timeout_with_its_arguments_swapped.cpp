// says: a wheel, what to await, a delay: 1500ms
// lines: 6
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

auto ask(tvec::clocked_wheel<>& w) { return tvec::with_timeout(w, 1ms, tvec::sleep_for(w, 5ms)); }
