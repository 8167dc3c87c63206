#include <liburing.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tvec/clock/stall_watch.hpp"
#include "tvec/drivers/uring_wait.hpp"
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

struct listener {
    void on_silence() {
        std::puts("nothing heard for 2 s: good-bye");
        over = true;
    }
    bool over = false;
    tvec::timer silence{tvec::call<&listener::silence, &listener::on_silence>};
};

int main() {
    io_uring ring;
    if (const int error = io_uring_queue_init(8, &ring, 0); error < 0) {
        std::fprintf(stderr, "no io_uring here: %s\n", std::strerror(-error));
        return 1;
    }
    tvec::clocked_wheel timers;  // ticks of one millisecond, steady_clock
    tvec::uring_wait wait(ring, timers);
    tvec::stall_watch watch(timers);
    listener me;

    char text[256];
    const auto listen = [&] {  // asks the ring for what is typed next
        constexpr auto from_here = static_cast<__u64>(-1);
        io_uring_sqe* const request = io_uring_get_sqe(&ring);
        if (request == nullptr) std::abort();  // all eight entries are in use: here at most one is
        io_uring_prep_read(request, STDIN_FILENO, text, sizeof text, from_here);
        timers.arm_after(me.silence, 2s);  // armed, or pushed back: it is the same call
    };
    const auto handle_completions = [&] {
        unsigned n = 0;
        io_uring_cqe* cqe = nullptr;
        for (; io_uring_peek_cqe(&ring, &cqe) == 0; ++n) {
            const int length = cqe->res;
            io_uring_cqe_seen(&ring, cqe);
            if (length <= 0) continue;  // the input has ended: wait for the timer
            std::printf("heard %d characters\n", length);
            listen();
        }
        return n;
    };
    listen();
    while (!me.over) {
        wait();  // submits, then sleeps until something has happened or a timer is due
        watch.listen(handle_completions);
        watch.run(256);  // fires what is due
    }
    io_uring_queue_exit(&ring);
}
