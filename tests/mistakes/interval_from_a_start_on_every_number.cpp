// says: a wheel, a start, a period
// lines: 6
#include "tvec/tvec.hpp"

tvec::interval beat(tvec::clocked_wheel<>& w) {
    return tvec::interval(w, std::chrono::steady_clock::now(), 100);
}
