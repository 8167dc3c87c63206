// says: the first argument points to a member that is a std::array of tvec::timer
// lines: 5
#include "tvec/tvec.hpp"

struct connection {
    void on_idle();
    tvec::timer idle{tvec::call_each<&connection::idle, &connection::on_idle>()};
};
