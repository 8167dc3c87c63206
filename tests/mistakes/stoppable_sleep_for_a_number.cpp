// says: a wheel, 1500ms, a token
// lines: 6
#include "tvec/tvec.hpp"

auto nap(tvec::clocked_wheel<>& w, std::stop_token t) { return tvec::sleep_for(w, 100, t); }
