// A pool on a wheel with a manual clock.
#pragma once

#include <chrono>
#include <memory>
#include <ostream>

#include "tvec/inspect/inspect.hpp"
#include "tvec/pool/timeout_pool.hpp"

namespace support {

using manual_wheel =
    tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>>;

struct pooled {
    using pool_type = tvec::timeout_pool<manual_wheel>;

    explicit pooled(std::size_t max_pending = pool_type::unlimited) : pool(timers, max_pending) {}

    // Lets time pass, then runs due timers. Returns the number of callbacks.
    std::size_t pass(std::chrono::nanoseconds time) {
        tvec::manual_clock::advance(time);
        return timers.run().fired;
    }

    manual_wheel timers;
    pool_type pool;
};

// Returns the number of copies of `token` besides the test's own: the functions that still hold
// one.
inline long held(const std::shared_ptr<int>& token) { return token.use_count() - 1; }

}  // namespace support

// Makes failed comparisons printable.
namespace tvec {

inline std::ostream& operator<<(std::ostream& out, timeout_state s) {
    static constexpr const char* names[] = {"unknown", "pending", "running", "fired", "cancelled"};
    return out << names[static_cast<int>(s)];
}
inline std::ostream& operator<<(std::ostream& out, schedule_error e) {
    static constexpr const char* names[] = {"none", "too_many", "stopped", "out_of_memory",
                                            "no_function"};
    return out << names[static_cast<int>(e)];
}

}  // namespace tvec
