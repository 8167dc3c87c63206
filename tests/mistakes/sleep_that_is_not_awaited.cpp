// says: it waits for nothing before it is awaited: co_await it
// lines: 2
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

void nap(tvec::clocked_wheel<>& w) { tvec::sleep_for(w, 1ms); }
