// A mailbox on a wheel with a manual clock. It counts the rings of its doorbell.
#pragma once

#include <chrono>
#include <ostream>

#include "support/pooled.hpp"
#include "tvec/mailbox/mailbox.hpp"

namespace support {

struct with_mailbox {
    using mailbox_type = tvec::mailbox<manual_wheel>;

    explicit with_mailbox(std::size_t capacity = 64)
        : mailbox(timers, capacity, [this] { ++rings; }), sender(mailbox.sender()) {}

    // Runs a turn of the loop after this much time. Returns the number of the wheel's callbacks.
    std::size_t turn(std::chrono::nanoseconds time = {}) {
        tvec::manual_clock::advance(time);
        mailbox.run();
        return timers.run().fired;
    }

    int rings = 0;
    manual_wheel timers;
    mailbox_type mailbox;
    tvec::mailbox_sender<manual_wheel> sender;
};

}  // namespace support

// Makes failed comparisons printable.
namespace tvec {

inline std::ostream& operator<<(std::ostream& out, send_error e) {
    static constexpr const char* names[] = {"none", "full", "stopped", "no_function"};
    return out << names[static_cast<int>(e)];
}

}  // namespace tvec
