#include <cstdio>

#include "tvec/tvec.hpp"

struct connection {
    void on_idle() { std::puts("nothing heard for 20 ms: closing"); }
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};

int main() {
    tvec::clocked_wheel timers;  // ticks of one millisecond, steady_clock
    connection client;
    timers.arm_after(client.idle, std::chrono::milliseconds(20));  // and again at every read
    while (timers.any_pending()) timers.run();  // a reactor sleeps meanwhile: tvec::uring_wait
}
