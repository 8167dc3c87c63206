// A mailbox for every loop that watches descriptors: it adds one descriptor and a handler for it.
// The loop itself stays unchanged.
#pragma once

#include <cstddef>

#include "tvec/tvec.hpp"

namespace example {

class mailbox {
public:
    mailbox(tvec::clocked_wheel<>& wheel, std::size_t capacity) : mailbox_(wheel, capacity, bell_) {
        mailbox_.rearm();
    }

    tvec::mailbox_sender<> sender() const { return mailbox_.sender(); }

    // The descriptor to watch for reading. Call on_readable when it is readable.
    int fd() const { return bell_.fd(); }

    void on_readable() {
        bell_.acknowledge();
        mailbox_.run(128);  // takes in what other threads have sent
        mailbox_.rearm();   // the next of them rings again
    }

private:
    tvec::eventfd_doorbell bell_;
    tvec::mailbox<> mailbox_;
};

}  // namespace example
