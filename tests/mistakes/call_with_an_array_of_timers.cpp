// says: a timer in an array does not know where its object begins
// lines: 5
#include "tvec/tvec.hpp"

struct connection {
    void on_idle();
    tvec::timer timers[2]{tvec::timer{tvec::call<&connection::timers, &connection::on_idle>}};
};
