// A remote on a wheel whose clock moves when the test says so; it counts how often it is rung for.
#pragma once

#include <chrono>
#include <ostream>

#include "support/pooled.hpp"
#include "tvec/remote/remote.hpp"

namespace support {

struct remoted {
    using remote_type = tvec::remote<manual_wheel>;

    explicit remoted(std::size_t capacity = 64)
        : mailbox(timers, capacity, [this] { ++rings; }), sender(mailbox.sender()) {}

    // A turn of the loop, after so much time. Returns how many callbacks of the wheel that were.
    std::size_t turn(std::chrono::nanoseconds time = {}) {
        tvec::manual_clock::advance(time);
        mailbox.run();
        return timers.run().fired;
    }

    int rings = 0;
    manual_wheel timers;
    remote_type mailbox;
    tvec::remote_sender<manual_wheel> sender;
};

}  // namespace support

// So that disagreements print.
namespace tvec {

inline std::ostream& operator<<(std::ostream& out, send_error e) {
    static constexpr const char* names[] = {"none", "full", "stopped", "no_function"};
    return out << names[static_cast<int>(e)];
}

}  // namespace tvec
