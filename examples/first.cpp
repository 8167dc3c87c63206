#include <cstdio>
#include <thread>

#include "tvec/tvec.hpp"

struct connection {
    void on_idle() { std::puts("idle for 20 ms: closing"); }
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};

int main() {
    tvec::clocked_wheel timers;  // ticks of one millisecond, steady_clock
    connection client;
    timers.arm_after(client.idle, std::chrono::milliseconds(20));  // pushing it back: the same call
    while (const auto wakeup = timers.next_wakeup()) {
        std::this_thread::sleep_until(*wakeup);  // in a reactor: tvec::uring_wait
        timers.run();
    }
}
