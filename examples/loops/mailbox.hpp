// A remote for every loop that watches descriptors: one more of them, and what to do when it is
// readable. The loop stays as it is.
#pragma once

#include <cstddef>

#include "tvec/tvec.hpp"

namespace example {

// [mailbox]
class mailbox {
public:
    mailbox(tvec::clocked_wheel<>& wheel, std::size_t capacity) : remote_(wheel, capacity, bell_) {
        remote_.rearm();
    }

    tvec::remote_sender<> sender() const { return remote_.sender(); }

    // To be watched for reading; then call on_readable.
    int fd() const { return bell_.fd(); }

    void on_readable() {
        bell_.acknowledge();
        remote_.run();    // takes in what other threads have sent
        remote_.rearm();  // the next of them rings again
    }

private:
    tvec::eventfd_doorbell bell_;
    tvec::remote<> remote_;
};
// [mailbox]

}  // namespace example
