// says: the array has no such element
// lines: 5
#include "tvec/tvec.hpp"

struct connection {
    void on_timer();
    tvec::timer one[1]{tvec::timer{tvec::call_element<&connection::one, 1, &connection::on_timer>}};
};
