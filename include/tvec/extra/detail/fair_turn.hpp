/// \file
/// What a guest does when its host wakes it: fires what is due, within a budget, and hears first
/// after a stall.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/clock/detail/stall_rule.hpp"

namespace tvec::detail {

/// The turns of a guest. A turn late by more than `tolerance` since the turn before follows a
/// stall: messages have come that the host has not handled, and timers might judge peers that have
/// talked. Then the host has `passes` turns of its own first, or `longest`, and the timers run up
/// to the time of the last of them.
template <class Clocked> class fair_turn {
public:
    static constexpr std::size_t budget = 256;  ///< visits in a turn
    static constexpr auto tolerance =
        std::chrono::floor<std::chrono::milliseconds>(stall_rule::tolerance);
    static constexpr auto longest =
        std::chrono::floor<std::chrono::milliseconds>(stall_rule::longest);
    /// Hosts hand out a limited number of events in a pass: libevent 32, and then twice as many.
    static constexpr unsigned passes = 16;

    /// Fires what is due, or returns at once so that the host goes on: it has to call again as soon
    /// as its other handlers had their turn while next_wakeup() is not in the future.
    void run(Clocked& timers) {
        timers.begin_turn();
        const time_point now = timers.now(), before = std::exchange(last_, now);
        const auto due = timers.wheel().next_wakeup();
        if (!due || *due > timers.ticks().floor(now)) return;
        const auto since = std::max<time_point>(timers.ticks().start_of(*due), before);
        const bool is_late = now - since > tolerance;
        if (is_late && left_ == 0) {
            left_ = passes + 1;
            end_ = now + longest;
        }
        if (left_ != 0 && --left_ != 0 && now < end_) return;
        left_ = 0;
        const jiffies until = timers.ticks().floor(is_late ? before : now);
        timers.wheel().advance(std::max(until, timers.wheel().now()), budget);
    }

private:
    using time_point = typename Clocked::time_point;

    time_point last_ = Clocked::clock::now();  ///< of the last turn
    time_point end_{};                         ///< of hearing, after a stall
    unsigned left_ = 0;                        ///< passes until the timers run; 0: no stall
};

}  // namespace tvec::detail
