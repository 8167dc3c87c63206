// says: the second argument is a method: &connection::on_idle
// lines: 5
#include "tvec/tvec.hpp"

void on_idle();
struct connection {
    tvec::timer idle{tvec::call<&connection::idle, &on_idle>};
};
