// Exits with 0 if a timer that is armed in the other source file fires in this one.
#define TVEC_IMPLEMENTATION
#include "connection.hpp"

int main() {
    tvec::clocked_wheel timers;
    connection client(timers);
    while (timers.next_wakeup()) timers.run();
    return client.closed() && tvec::check(timers.wheel()).empty() ? 0 : 1;
}
