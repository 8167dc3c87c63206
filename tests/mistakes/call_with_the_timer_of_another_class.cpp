// says: the timer and the method belong to the same object
// lines: 5
#include "tvec/tvec.hpp"

struct session {
    tvec::timer idle;
};
struct connection {
    void on_idle();
    tvec::timer idle{tvec::call<&session::idle, &connection::on_idle>};
};
