// says: the whole callback_timer: its function stays behind
// lines: 6
#include <utility>

#include "tvec/tvec.hpp"

void cut(tvec::timer& t) {
    tvec::callback_timer u{[] {}};
    t = std::move(u);
}
