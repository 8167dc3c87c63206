// SIGINT and SIGTERM as a completion, so that the reactor sleeps in one place.
#pragma once

#include <poll.h>
#include <sys/signalfd.h>

#include <csignal>
#include <cstdint>

#include "../support/descriptors.hpp"
#include "../support/ring.hpp"

namespace example {

class signals {
public:
    // From here on signals queue in the descriptor, even those that a shell had set to be ignored.
    signals() {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGTERM);
        if (sigprocmask(SIG_BLOCK, &set, nullptr) != 0) fail("sigprocmask");
        descriptor_ = descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
        if (descriptor_.get() < 0) fail("signalfd");
    }

    // Completes once, with `tag`, when a signal has come. A poll needs no buffer that outlives the
    // ring.
    void watch(ring& r, std::uint64_t tag) {
        r.queue(tag, io_uring_prep_poll_add, descriptor_.get(), unsigned{POLLIN});
    }

private:
    descriptor descriptor_;
};

}  // namespace example
