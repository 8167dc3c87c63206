// says: a pointer to the method: &connection::on_idle
// g++ says: 'void (connection::)()' to type 'void (connection::*)()'
// lines: 8
#include "tvec/tvec.hpp"

struct connection {
    void on_idle();
    tvec::timer idle{tvec::call<&connection::idle, connection::on_idle>};
};
