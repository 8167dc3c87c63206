// says: the timer and the method belong to the same object
// lines: 5
#include "tvec/tvec.hpp"

struct session {
    void on_idle();
};
struct connection {
    tvec::timer idle{tvec::call<&connection::idle, &session::on_idle>};
};
