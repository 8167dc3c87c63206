// says: each timer of an array has a callback of its own
// lines: 5
#include "tvec/tvec.hpp"

struct connection {
    void on_idle();
    tvec::timer timers[2]{tvec::timer{tvec::call<&connection::timers, &connection::on_idle>}};
};
