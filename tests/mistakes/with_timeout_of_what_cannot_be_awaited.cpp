// says: with_timeout is given a wheel, what to await, and a duration or ticks
// lines: 4
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

auto ask(tvec::clocked_wheel<>& w) { return tvec::with_timeout(w, 5, 1ms); }
