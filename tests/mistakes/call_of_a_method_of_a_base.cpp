// legal: the object has it
#include "tvec/tvec.hpp"

struct session {
    void on_idle() {}
};
struct connection : session {
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};
