// g++ says: unable to deduce
// clang++ says: on_idle
// lines: 2
#include "tvec/tvec.hpp"

struct connection {
    void on_idle();
    void on_idle(int);
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};
