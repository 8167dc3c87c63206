// legal: inside the class it is no secret
#include "tvec/tvec.hpp"

class connection {
    void on_idle() {}
    tvec::timer idle_{tvec::call<&connection::idle_, &connection::on_idle>};
};
