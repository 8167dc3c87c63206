// A program that uses installed tvec and liburing. Exits with 0 if a timer fires, woken by the ring
// if rings are available.
#include <tvec/clock/clocked_wheel.hpp>
#include <tvec/drivers/uring_timeout.hpp>
#include <tvec/drivers/uring_wait.hpp>
#include <tvec/extra/choose_waking.hpp>

#include <cstdio>

int main() {
    io_uring ring;
    const int set_up = io_uring_queue_init(8, &ring, 0);
    const tvec::waking waking = tvec::choose_waking(set_up, ring);
    std::printf("%s: %s\n", tvec::name_of(waking.chosen), waking.reason.c_str());
    if (waking.chosen != tvec::waking::way::uring_wait) return 0;

    tvec::clocked_wheel timers;
    tvec::uring_wait wait{ring, timers};
    const tvec::uring_timeout not_needed{ring, timers};  // it is in the library, too
    bool fired = false;
    tvec::callback_timer timer{[&] { fired = true; }};
    timers.arm_after(timer, std::chrono::milliseconds(2));
    while (!fired) {
        wait();
        timers.run();
    }
    io_uring_queue_exit(&ring);
}
