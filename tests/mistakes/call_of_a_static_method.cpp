// says: the second argument is a method: &connection::on_idle
// lines: 5
#include "tvec/tvec.hpp"

struct connection {
    static void on_idle();
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};
