// says: the first argument points to a member that is a tvec::timer
// lines: 4
#include "tvec/tvec.hpp"

struct connection {
    int idle_for = 0;
};
connection& connection_of(tvec::timer& t) { return tvec::owner_of<&connection::idle_for>(t); }
