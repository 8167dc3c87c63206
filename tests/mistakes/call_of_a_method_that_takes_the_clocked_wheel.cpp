// says: the method takes nothing, a tvec::timer_wheel&, a tvec::timer&, or both
// lines: 5
#include "tvec/tvec.hpp"

struct connection {
    void on_idle(tvec::clocked_wheel<>&) {}
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};
