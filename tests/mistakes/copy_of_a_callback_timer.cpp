// says: std::move: a timer is in one place
// lines: 5
#include "tvec/tvec.hpp"

tvec::callback_timer t{[] {}};
auto u = t;
