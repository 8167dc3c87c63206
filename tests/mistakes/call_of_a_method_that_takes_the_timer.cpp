// legal: it may ask which, and on what wheel
#include "tvec/tvec.hpp"

struct connection {
    void on_idle(tvec::timer_wheel&, tvec::timer&) {}
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};
