// legal: the object has it
#include "tvec/tvec.hpp"

struct session {
    tvec::timer idle;
};
struct connection : session {
    void on_idle() {}
    connection() { idle = tvec::timer{tvec::call<&connection::idle, &connection::on_idle>}; }
};
