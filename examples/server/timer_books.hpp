// Double-entry books on a program's timers: its requests against the wheel's results.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "tvec/extra/lateness_histogram.hpp"
#include "tvec/tvec.hpp"

namespace example {

using timers = tvec::clocked_wheel<>;  // ticks of one millisecond
using time_point = timers::time_point;

// Keeps the exact deadline beside each timer, to detect timers that fire early or not at all. A
// program that trusts its wheel calls arm_after and cancel directly.
class timer_books {
public:
    explicit timer_books(timers& wheel) : timers_(wheel) {}

    void arm(tvec::timer& t, time_point& deadline, std::chrono::nanoseconds delay) {
        arm_at(t, deadline, timers::clock::now() + delay);
    }

    void arm_at(tvec::timer& t, time_point& deadline, time_point at) {
        look_after(t, deadline);
        deadline = at;
        const bool was_pending = timers_.arm_at(t, deadline);
        ++(was_pending ? pushed_back_ : armed_);
        most_pending_ = std::max(most_pending_, pending());
    }

    // Arms a timer that has just fired for its next beat.
    void arm_next(tvec::timer& t, time_point& deadline, std::chrono::milliseconds period) {
        timers_.arm_next(t, period);
        deadline = timers_.deadline(t);
        ++armed_;
    }

    void cancel(tvec::timer& t, time_point deadline) {
        look_after(t, deadline);
        cancelled_ += t.cancel();
    }

    // Call it first in every callback.
    void fired(time_point deadline) { late_.record(timers::clock::now() - deadline); }

    // Counts a timer as lost if it is pending although the wheel has run its tick. Allows one more
    // tick, because a delay of 0 means the next tick. Counts it at every call.
    void look_after(const tvec::timer& t, time_point deadline) {
        lost_ += t.pending() && now() > timers_.ticks().ceil(deadline) + 1;
    }

    // Counts the timers in the wheel and compares. O(timers).
    void compare() {
        std::uint64_t found = 0;
        timers_.wheel().for_each_pending([&found](const tvec::timer&) { ++found; });
        agree(found);
    }

    // Empties the wheel and compares: it should hold the timers that were armed and neither fired
    // nor cancelled.
    void drain() {
        drained_ = timers_.wheel().drain([](tvec::timer&) {});
        agree(drained_);
    }

    std::uint64_t armed() const { return armed_; }
    std::uint64_t pushed_back() const { return pushed_back_; }
    std::uint64_t cancelled() const { return cancelled_; }
    std::uint64_t lost() const { return lost_; }
    std::uint64_t pending() const { return armed_ - late_.count() - cancelled_; }
    std::uint64_t most_pending() const { return most_pending_; }
    std::uint64_t drained() const { return drained_; }
    bool balanced() const { return balanced_; }
    const tvec::lateness_histogram& late() const { return late_; }

    // Returns whether no timer was early or lost and the wheel's counters agree with these books.
    bool sound() const { return late_.early() == 0 && lost_ == 0 && balanced_; }

private:
    tvec::jiffies now() const { return timers_.wheel().now(); }

    void agree(std::uint64_t found) {
        balanced_ &= found == pending() && timers_.wheel().count().fired == late_.count();
    }

    timers& timers_;
    tvec::lateness_histogram late_;
    std::uint64_t armed_ = 0;
    std::uint64_t pushed_back_ = 0;
    std::uint64_t cancelled_ = 0;
    std::uint64_t drained_ = 0;
    std::uint64_t lost_ = 0;
    std::uint64_t most_pending_ = 0;
    bool balanced_ = true;
};

}  // namespace example
