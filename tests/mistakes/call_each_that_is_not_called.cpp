// says: to be called: call_each<&k::timers, &k::on_timer>()
// lines: 6
#include "tvec/tvec.hpp"

struct connection {
    void on_phase();
    std::array<tvec::timer, 3> phases{tvec::call_each<&connection::phases, &connection::on_phase>};
};
