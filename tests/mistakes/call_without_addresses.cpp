// says: a pointer to the timer: &connection::idle
// g++ says: call takes a pointer to it: &connection::idle
// lines: 9
#include "tvec/tvec.hpp"

struct connection {
    void on_idle();
    tvec::timer idle{tvec::call<connection::idle, connection::on_idle>};
};
