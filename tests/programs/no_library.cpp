// The core without a C++ library: it needs only std::terminate. Exits with 0 if every timer fires
// on its tick.
#include <cstdlib>

#include "tvec/core/timer_wheel.hpp"

namespace std {
void terminate() noexcept { abort(); }
}  // namespace std

namespace {

struct connection {
    void on_idle(tvec::timer_wheel& wheel) { on_time = wheel.now() == idle.expires(); }
    bool on_time = false;
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};

connection all[1000];

}  // namespace

int main() {
    tvec::timer_wheel wheel;
    tvec::jiffies delay = 1;
    for (connection& c : all) {
        wheel.arm_after(c.idle, delay);
        delay = delay * 7 % 100'003;
    }
    while (const auto next = wheel.next_wakeup()) wheel.advance(*next);
    for (const connection& c : all)
        if (!c.on_time) return 1;
    return 0;
}
