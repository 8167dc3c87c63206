// Idle timeouts that shrink as a server runs out of room for connections: a class of timers, and
// accounts of it. Most servers out of descriptors refuse new clients for the sake of silent ones.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "timer_books.hpp"
#include "tvec/clock/scaled_wheel.hpp"

namespace example {

class shrinking_idle {
public:
    // Timers are armed for the least time, and have up to `most` less `least` more.
    shrinking_idle(timers& wheel, timer_books& books, std::chrono::milliseconds least,
                   std::chrono::milliseconds most)
        : timers_(wheel), scaled_(wheel, most - least) {
        books.leave_out([this] {
            return guests{scaled_.alarm_pending() ? 1u : 0u, scaled_.alarms()};
        });
    }

    void arm_at(tvec::timer& t, time_point least) { scaled_.arm_at(t, least); }

    // All of the time until half of the room is taken, and the least when none is left.
    void use(std::size_t taken, std::size_t room) {
        scaled_.set_factor(2 - 2 * static_cast<double>(taken) / static_cast<double>(room));
    }

    // To be called first thing in every callback.
    void fired(const tvec::timer& t) { early_ += timers_.now() < timers_.deadline(t); }
    // Counts a timer as lost that is pending though a second has passed since it was due.
    void look_after(const tvec::timer& t) {
        lost_ +=
            t.pending() && timers::clock::now() > scaled_.deadline(t) + std::chrono::seconds(1);
    }
    std::uint64_t early() const { return early_; }
    std::uint64_t lost() const { return lost_; }
    std::uint64_t wakeups() const { return scaled_.alarms(); }
    bool sound() const { return early_ == 0 && lost_ == 0 && !scaled_.wheel().any_pending(); }

private:
    timers& timers_;
    tvec::scaled_wheel<timers> scaled_;
    std::uint64_t early_ = 0;
    std::uint64_t lost_ = 0;
};

}  // namespace example
