// says: the method takes nothing, or a tvec::timer_wheel&
// lines: 5
#include "tvec/tvec.hpp"

struct connection {
    void on_idle(tvec::clocked_wheel<>&) {}
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};
