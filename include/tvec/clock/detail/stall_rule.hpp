/// \file
/// The rule by which a loop that was stalled listens before it runs timers, for C++ and C.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tvec::detail {

/// See stall_watch. All times are readings of one clock.
class stall_rule {
public:
    using nanoseconds = std::chrono::nanoseconds;

    /// Something was due for longer than this, and not done: that is a stall.
    static constexpr nanoseconds tolerance = std::chrono::milliseconds(100);
    /// The longest time for which timers wait until the loop has heard everything.
    static constexpr nanoseconds longest = std::chrono::milliseconds(500);

    stall_rule(nanoseconds now, nanoseconds grace) noexcept : last_(now), grace_(grace) {}

    /// Notes that the loop handles what has come, from `now` on, and has its next wake-up at `due`.
    /// Work that a budget has left over is no stall: the turn before has seen it.
    void begin(nanoseconds now, nanoseconds due) noexcept {
        const nanoseconds before = std::exchange(last_, now);
        if (now < before) end_ = now;  // the clock was stepped: the end would be far away
        is_first_ = !listening_ && now - std::max(due, before) > tolerance;
        if (!is_first_) return;
        listening_ = true;
        end_ = now + longest;
        ++stalls_;
    }

    /// Notes how many messages of others the turn has handled. The first turn after a stall does
    /// not show that all was heard: the kernel may have posted nothing yet.
    void end(std::size_t heard) noexcept {
        if (!listening_ || is_first_ || (heard != 0 && last_ < end_)) return;
        listening_ = false;
        back_ = last_;
    }

    /// Returns whether timers still have to wait.
    bool listening() const noexcept { return listening_; }
    /// Returns the beginning of the last turn: what came before was heard, unless it listens.
    nanoseconds last() const noexcept { return last_; }
    bool just_back() const noexcept {
        return listening_ || (stalls_ != 0 && last_ - back_ < grace_);
    }
    nanoseconds grace() const noexcept { return grace_; }
    std::uint64_t stalls() const noexcept { return stalls_; }

private:
    std::uint64_t stalls_ = 0;  // first: programs in C read it
    nanoseconds last_;
    nanoseconds grace_;
    nanoseconds end_{};   ///< of listening, whatever is heard
    nanoseconds back_{};  ///< after the last stall, when everything was heard
    bool listening_ = false;
    bool is_first_ = false;  ///< this turn has noticed the stall
};

}  // namespace tvec::detail
