// Double-entry books on the timers of a program: what it asked for and what it got.
#pragma once

#include <chrono>
#include <cstdint>

#include "lateness.hpp"
#include "tvec/tvec.hpp"

namespace example {

using timers = tvec::clocked_wheel<>;  // ticks of one millisecond
using time_point = timers::time_point;

// Remembers the exact deadline beside each timer, to find out whether it fires early. A program
// that trusts its wheel just calls arm_after and cancel.
class timer_books {
public:
    explicit timer_books(timers& wheel) : timers_(wheel) {}

    void arm(tvec::timer& t, time_point& deadline, std::chrono::milliseconds delay) {
        deadline = timers::clock::now() + delay;
        const bool was_pending = timers_.arm_at(t, deadline);
        ++(was_pending ? pushed_back_ : armed_);
    }

    // The next beat of a timer that has just fired.
    void arm_next(tvec::timer& t, time_point& deadline, std::chrono::milliseconds period) {
        timers_.arm_next(t, period);
        deadline = timers_.ticks().start_of(t.expires());
        ++armed_;
    }

    void cancel(tvec::timer& t) { cancelled_ += t.cancel(); }

    // To be called first thing in every callback.
    void fired(time_point deadline) { late_.record(timers::clock::now() - deadline); }

    // A timer that should have fired long ago is lost.
    void look_after(const tvec::timer& t, time_point deadline) {
        const auto now = timers::clock::now();
        lost_ += t.pending() && now - deadline > patience && timers_.ticks().now() > t.expires();
    }

    void drain() {
        drained_ = timers_.wheel().drain([](tvec::timer&) {});
    }

    std::uint64_t armed() const { return armed_; }
    std::uint64_t pushed_back() const { return pushed_back_; }
    std::uint64_t cancelled() const { return cancelled_; }
    std::uint64_t lost() const { return lost_; }
    std::uint64_t pending() const { return armed_ - late_.fired() - cancelled_ - drained_; }
    lateness& late() { return late_; }

    // After drain(): every timer that became pending has fired, was cancelled, or was drained.
    bool balanced() const { return armed_ == late_.fired() + cancelled_ + drained_; }

private:
    static constexpr std::chrono::seconds patience{5};

    timers& timers_;
    lateness late_;
    std::uint64_t armed_ = 0;
    std::uint64_t pushed_back_ = 0;
    std::uint64_t cancelled_ = 0;
    std::uint64_t drained_ = 0;
    std::uint64_t lost_ = 0;
};

}  // namespace example
