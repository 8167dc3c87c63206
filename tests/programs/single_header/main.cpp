// Exits with 0 if a timer and a timeout that the other source file arms fire in this one.
#define TVEC_IMPLEMENTATION
#include "connection.hpp"

int main() {
    tvec::clocked_wheel timers;
    connection client(timers);
    tvec::timeout_pool pool(timers);
    bool called = false;
    (void)pool.schedule(std::chrono::milliseconds(1), [&called] { called = true; });
    while (timers.any_pending()) timers.run();
    return client.closed() && called && tvec::check(timers.wheel()).empty() ? 0 : 1;
}
