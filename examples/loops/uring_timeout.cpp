// A wheel in a loop on io_uring whose wait belongs to a framework. One timeout request in the ring,
// for all timers, wakes any kind of wait.
#include <poll.h>

#include "../support/ring.hpp"
#include "conversation.hpp"
#include "mailbox.hpp"
#include "tvec/clock/stall_watch.hpp"
#include "tvec/drivers/uring_timeout.hpp"

namespace {

// Stands for the framework: sleeps if permitted, and calls handle for each completion.
template <class F> void take_a_turn(example::ring& ring, bool may_sleep, F handle) {
    if (may_sleep)
        ring.submit_and_wait();
    else
        ring.submit_and_poll();
    ring.reap(handle);
}

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
    tvec::uring_timeout alarm(ring.get(), timers);
    tvec::stall_watch watch(timers);
    unsigned heard = 0;
    const auto handle = [&](std::uint64_t user_data, int result, bool) {
        if (alarm.complete(user_data, result)) return;  // ours, and dealt with
        if (tvec::is_uring_timeout(user_data)) return;  // of an alarm that is gone
        ++heard;
        const int fd = static_cast<int>(user_data);
        fd == mailbox.fd() ? mailbox.on_readable() : talk.on_readable();
        await_readable(ring, fd);
    };
    // [loop]
    while (!talk.over()) {
        watch.listen([&] {
            take_a_turn(ring, alarm.prepare(), handle);  // sleeps if that is true, and handles
            return std::exchange(heard, 0u);
        });
        watch.run(256);  // always, whatever woke us
    }
    // [loop]
    return talk.verdict("uring_timeout");
}
