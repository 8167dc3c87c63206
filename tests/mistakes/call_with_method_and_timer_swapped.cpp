// says: first the timer, then the method
// lines: 5
#include "tvec/tvec.hpp"

struct connection {
    void on_idle();
    tvec::timer idle{tvec::call<&connection::on_idle, &connection::idle>};
};
