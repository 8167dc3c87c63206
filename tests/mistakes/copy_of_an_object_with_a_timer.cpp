// says: std::move: a timer is in one place
// lines: 10
#include "tvec/tvec.hpp"

struct connection {
    void on_idle();
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};
void copy(connection& c) { connection d = c; }
