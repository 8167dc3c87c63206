// SIGINT and SIGTERM as a completion, so that the reactor sleeps in one place.
#pragma once

#include <poll.h>

#include <cstdint>

#include "../support/descriptors.hpp"
#include "../support/ring.hpp"

namespace example {

class signals {
public:
    // Completes once, with `tag`, when a signal has come. A poll needs no buffer that outlives the
    // ring.
    void watch(ring& r, std::uint64_t tag) {
        r.queue(tag, io_uring_prep_poll_add, descriptor_.get(), unsigned{POLLIN});
    }

private:
    descriptor descriptor_ = signal_descriptor();
};

}  // namespace example
