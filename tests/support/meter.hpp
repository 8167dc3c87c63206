// Calls of `advance`, and what they cost in visits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "support/check.hpp"
#include "support/probe.hpp"

namespace support {

// How many timers of a level go on ahead of time, for each tick: what the tests count on.
inline constexpr std::size_t chunk = tvec::detail::geometry::chunk;
static_assert(chunk == 64);

// Returns how many timers a wheel has moved and dropped. Fires are not counted.
inline std::uint64_t moves(const tvec::timer_wheel& wheel) {
    return visits(wheel) - wheel.count().fired;
}

class meter {
public:
    explicit meter(tvec::timer_wheel& wheel) : wheel_(wheel) {}

    // Advances, and returns what that has moved.
    std::uint64_t call(jiffies until) {
        const std::uint64_t before = moves(wheel_), visits_before = visits(wheel_);
        REQUIRE(wheel_.advance(until).caught_up);
        const std::uint64_t moved = moves(wheel_) - before;
        worst_ = std::max(worst_, moved);
        ++calls_;
        idle_ += visits(wheel_) == visits_before;
        return moved;
    }

    // From wake-up to wake-up, as long as they come by `end`.
    void sleep_until(jiffies end) {
        while (const auto wakeup = wheel_.next_wakeup()) {
            REQUIRE_LE(wheel_.now() + 1, *wakeup);
            if (*wakeup > end) break;
            call(*wakeup);
        }
    }

    // On every `gap`th tick, until all that hangs there has fired.
    void call_every(jiffies gap, jiffies end) {
        for (jiffies t = wheel_.now() + gap; t < end + gap; t += gap) call(t);
    }

    std::uint64_t worst() const { return worst_; }  // the most that one call has moved
    std::uint64_t calls() const { return calls_; }
    std::uint64_t idle() const { return idle_; }  // calls that visited nobody

private:
    tvec::timer_wheel& wheel_;
    std::uint64_t worst_ = 0, calls_ = 0, idle_ = 0;
};

}  // namespace support
