// legal: nobody asks for it
#include "tvec/tvec.hpp"

struct connection {
    int on_idle() { return 1; }
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};
