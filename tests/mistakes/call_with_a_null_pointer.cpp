// says: the first argument points to a member that is a tvec::timer
// lines: 5
#include "tvec/tvec.hpp"

struct connection {
    void on_idle();
};
const auto callback = tvec::call<nullptr, &connection::on_idle>;
