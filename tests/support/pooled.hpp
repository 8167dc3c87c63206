// A pool on a wheel whose clock moves when the test says so.
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

    // Lets time pass, then runs what is due. Returns how many callbacks that were.
    std::size_t pass(std::chrono::nanoseconds time) {
        tvec::manual_clock::advance(time);
        return timers.run().fired;
    }

    manual_wheel timers;
    pool_type pool;
};

// How many copies of `token` there are besides the test's own: how many functions still hold one.
inline long held(const std::shared_ptr<int>& token) { return token.use_count() - 1; }

}  // namespace support

// So that disagreements print.
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
