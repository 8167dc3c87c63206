// SIGINT and SIGTERM as a completion, so that the reactor has one place to sleep in.
#pragma once

#include <poll.h>
#include <sys/signalfd.h>

#include <csignal>
#include <cstdint>

#include "descriptors.hpp"
#include "ring.hpp"

namespace example {

class signals {
public:
    // From here on the signals wait in the descriptor, also where a shell made them be ignored.
    signals() {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGTERM);
        if (sigprocmask(SIG_BLOCK, &set, nullptr) != 0) fail("sigprocmask");
        descriptor_ = descriptor(signalfd(-1, &set, SFD_CLOEXEC));
        if (descriptor_.get() < 0) fail("signalfd");
    }

    // Completes with `tag` when the first has come. A poll: no buffer has to outlive the ring.
    void watch(ring& r, std::uint64_t tag) {
        r.queue(tag, io_uring_prep_poll_add, descriptor_.get(), unsigned{POLLIN});
    }

private:
    descriptor descriptor_;
};

}  // namespace example
