// Alarms on std::chrono::system_clock follow the clock when it is set while a loop sleeps. Sets the
// clock of the machine: the first process of a User-mode Linux, by scripts/checks/portability.
#include <sys/poll.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "tvec/tvec.hpp"
#include "tvec/uring.hpp"

using namespace std::chrono_literals;
using std::chrono::system_clock;

namespace {

using wheel = tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, system_clock>>;

bool all_fine = true;

// Sets the clock while `sleep`, which ends after ten minutes at the latest, waits for a timer.
template <class F>
void expect(const char* what, std::chrono::seconds step, wheel& timers, F sleep) {
    const bool forward = step > 0s;
    const auto begin = std::chrono::steady_clock::now();
    const auto deadline = system_clock::now() + (forward ? 3600s : 2s);
    tvec::timer t;
    timers.arm_at(t, deadline);
    if (fork() == 0) {
        usleep(500'000);
        timespec now{};
        clock_gettime(CLOCK_REALTIME, &now);
        now.tv_sec += step.count();
        _exit(clock_settime(CLOCK_REALTIME, &now) == 0 ? 0 : 1);
    }
    while (t.pending()) {
        sleep();
        timers.run();
    }
    int status = 1;
    wait(&status);
    const bool woke = std::chrono::steady_clock::now() - begin < 9min;
    const bool fine = status == 0 && system_clock::now() >= deadline && woke;
    std::printf("%s, %s: %s\n", what, forward ? "forward" : "back", fine ? "OK" : "FAILED");
    all_fine &= fine;
}

void expect_of_both(std::chrono::seconds step) {
    wheel timers;
    tvec::timerfd_alarm descriptor{timers};
    expect("timerfd_alarm", step, timers, [&] {
        descriptor.rearm();
        pollfd watched{descriptor.fd(), POLLIN, 0};
        poll(&watched, 1, 600'000);
        descriptor.acknowledge();
    });
    io_uring ring{};
    if (io_uring_queue_init(8, &ring, 0) < 0) std::puts("no io_uring here");
    tvec::uring_timeout request{ring, timers};
    expect("uring_timeout", step, timers, [&] {
        __kernel_timespec limit{600, 0};
        io_uring_cqe* cqe = nullptr;
        if (request.prepare()) io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &limit, nullptr);
        for (; io_uring_peek_cqe(&ring, &cqe) == 0; io_uring_cqe_seen(&ring, cqe))
            request.complete(*cqe);
    });
    request.detach([](const io_uring_cqe&) {});
    io_uring_queue_exit(&ring);
}

}  // namespace

int main() {
    if (getpid() != 1) return std::puts("set_time: it sets the clock, and must be process 1"), 2;
    expect_of_both(2h);
    expect_of_both(-3s);
    std::puts(all_fine ? "set_time: OK" : "set_time: FAILED");
    std::fflush(stdout);
    reboot(RB_POWER_OFF);
}
