// says: the first argument points to a member that is a tvec::timer
// lines: 5
#include "tvec/tvec.hpp"

struct connection {
    void on_idle();
    int idle_for = 0;
    tvec::timer idle{tvec::call<&connection::idle_for, &connection::on_idle>};
};
