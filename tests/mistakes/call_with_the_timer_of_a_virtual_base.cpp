// says: a timer in a virtual base does not know its object
// lines: 5
#include "tvec/tvec.hpp"

struct session {
    tvec::timer idle;
};
struct connection : virtual session {
    void on_idle() {}
    connection() { idle = tvec::timer{tvec::call<&session::idle, &connection::on_idle>}; }
};
