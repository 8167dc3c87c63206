#include <cstdio>
#include <future>

#include "tvec/tvec.hpp"

int main() {
    std::promise<void> late;
    tvec::timer_thread timers;  // its thread starts with the first function
    const auto limit = timers.schedule(std::chrono::milliseconds(20), [&] { late.set_value(); });
    if (!limit) return 1;  // refused: too many are pending
    late.get_future().wait();
    std::puts("no answer within 20 ms");
    return timers.cancel(limit.handle) ? 1 : 0;  // false: it has been called
}
