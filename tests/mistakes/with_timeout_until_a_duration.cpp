// says: a wheel, what to await, a time_point
// lines: 6
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

auto ask(tvec::clocked_wheel<>& w) {
    return tvec::with_timeout_until(w, tvec::sleep_for(w, 5ms), 1ms);
}
