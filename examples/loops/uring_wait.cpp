// A wheel in a loop on io_uring that makes its own wait: the deadline is an argument of the wait.
// It needs no timer descriptor and no request for the timers, so there is nothing to cancel.
#include <poll.h>

#include "../support/ring.hpp"
#include "conversation.hpp"
#include "mailbox.hpp"
#include "tvec/clock/stall_watch.hpp"
#include "tvec/drivers/uring_wait.hpp"

namespace {

void await_readable(example::ring& ring, int fd) {
    ring.queue(static_cast<unsigned>(fd), io_uring_prep_poll_add, fd, unsigned{POLLIN});
}

}  // namespace

int main() {
    example::timers timers;
    example::conversation talk(timers);
    example::mailbox mailbox(timers, 4);
    talk.let_in(mailbox.sender());
    example::ring ring(64);
    await_readable(ring, talk.fd());
    await_readable(ring, mailbox.fd());
    const auto handle = [&](std::uint64_t user_data, int, bool) {
        const int fd = static_cast<int>(user_data);
        fd == mailbox.fd() ? mailbox.on_readable() : talk.on_readable();
        await_readable(ring, fd);
    };
    // [loop]
    tvec::uring_wait wait(ring.get(), timers);
    tvec::stall_watch watch(timers);
    while (!talk.over()) {
        wait();  // submits, then sleeps until a completion or the next wake-up
        watch.listen([&] { return ring.reap(handle); });  // handles what has completed
        watch.run(256);  // always: what is due; after a stall when all was heard
    }
    // [loop]
    return talk.verdict("uring_wait");
}
