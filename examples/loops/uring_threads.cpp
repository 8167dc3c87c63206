// Threads that share nothing: each has an io_uring and a wheel of its own. In a server each listens
// on the same port as well (SO_REUSEPORT), so a connection and its timers stay with one thread.
#include <poll.h>

#include <array>
#include <thread>

#include "../support/ring.hpp"
#include "conversation.hpp"
#include "tvec/drivers/uring_wait.hpp"

namespace {

int serve() {
    example::timers timers;  // a wheel belongs to the thread that makes it, as a ring does
    example::conversation talk(timers);
    example::ring ring(64);
    const auto watch = [&] { ring.queue(1, io_uring_prep_poll_add, talk.fd(), unsigned{POLLIN}); };
    watch();
    tvec::uring_wait wait(ring.get(), timers);
    while (!talk.over()) {
        wait();
        ring.reap([&](std::uint64_t, int, bool) {
            talk.on_readable();
            watch();
        });
        timers.run(256);
    }
    return talk.verdict("uring_threads");
}

}  // namespace

int main() {
    std::array<int, 2> faults{};
    {
        std::array<std::jthread, 2> threads;
        for (std::size_t i = 0; i < threads.size(); ++i)
            threads[i] = std::jthread([&faults, i] { faults[i] = serve(); });
    }
    return faults[0] + faults[1];
}
