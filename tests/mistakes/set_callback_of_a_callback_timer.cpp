// says: another callback_timer, assigned to this one
// lines: 6
#include "tvec/tvec.hpp"

void change(tvec::timer::callback to) {
    tvec::callback_timer t{[] {}};
    t.set_callback(to);
}
