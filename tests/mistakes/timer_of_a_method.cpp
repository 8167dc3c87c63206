// says: a function of (timer_wheel&, timer&), or callback_timer
// lines: 5
#include "tvec/tvec.hpp"

struct connection {
    void on_idle() {}
    tvec::timer idle{&connection::on_idle};
};
