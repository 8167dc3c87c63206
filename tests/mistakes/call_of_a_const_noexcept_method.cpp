// legal: it takes nothing
#include "tvec/tvec.hpp"

struct connection {
    void on_idle() const noexcept {}
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};
