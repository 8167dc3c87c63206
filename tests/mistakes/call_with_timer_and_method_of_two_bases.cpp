// says: or to two bases of a class that is named: tvec::call<timer, method, class>
// lines: 5
#include "tvec/tvec.hpp"

struct session {
    tvec::timer idle;
};
struct listener {
    void on_idle() {}
};
struct connection : session, listener {
    connection() { idle = tvec::timer{tvec::call<&connection::idle, &connection::on_idle>}; }
};
