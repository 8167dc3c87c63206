// says: the method takes nothing, or a tvec::timer_wheel&
// lines: 5
#include "tvec/tvec.hpp"

struct connection {
    void on_idle(tvec::timer_wheel&, tvec::timer&) {}
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};
