// says: a wheel, perhaps a start, a period
// lines: 6
#include "tvec/tvec.hpp"

tvec::interval beat(tvec::clocked_wheel<>& w) { return tvec::interval(w, 100); }
