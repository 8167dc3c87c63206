// says: arming changes a timer: declare it without const
// lines: 5
#include "tvec/tvec.hpp"

struct connection {
    void on_idle();
    const tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};
