// A wheel in a loop on io_uring that makes its own wait: the deadline is an argument of the wait.
// There is no timer descriptor, no request for the timers, and nothing to cancel.
#include <poll.h>

#include "../support/ring.hpp"
#include "conversation.hpp"
#include "tvec/uring_wait.hpp"

namespace {

void watch(example::ring& ring, const example::conversation& talk) {
    ring.queue(0, io_uring_prep_poll_add, talk.fd(), unsigned{POLLIN});
}

}  // namespace

int main() {
    example::timers timers;
    example::conversation talk(timers);
    example::ring ring(64);
    watch(ring, talk);
    const auto handle = [&](std::uint64_t, int, bool) {
        talk.on_readable();
        watch(ring, talk);
    };
    // [loop]
    tvec::uring_wait wait(ring.get(), timers);
    while (!talk.over()) {
        wait();             // submits, then sleeps until a completion or the next wake-up
        ring.reap(handle);  // handles what has completed
        timers.run(256);    // always, whatever woke us; at most 256 visits
    }
    // [loop]
    return talk.verdict("uring_wait");
}
