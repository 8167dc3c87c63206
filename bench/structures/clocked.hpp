// tvec's wheel with a clock: deadlines are points in time. The clock is set by hand, so a column of
// its own says what the conversions cost, and not what it costs to read a clock.
#pragma once

#include <chrono>
#include <cstdint>

#include "../workloads/test_bed.hpp"
#include "tvec/clock/clocked_wheel.hpp"

namespace bench {

struct clocked_adapter {
    static constexpr const char* name = "clocked";
    static constexpr description is{.what = "tvec's `clocked_wheel` on a clock that is set by hand",
                                    .order = "of the calls, not of arming",
                                    .allocation = "none",
                                    .cancel = "a store; unlinked at its visit"};

    using timers =
        tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>>;
    struct node {
        static void fire(tvec::timer_wheel& wheel, tvec::timer& t) {
            seen.note(reinterpret_cast<node&>(t), start + wheel.now());
        }
        tvec::timer t{fire};
    };

    std::uint64_t now() const { return now_; }
    void arm(node& n, std::uint64_t at) { wheel_.arm_at(n.t, point(at)); }
    void cancel(node& n) { n.t.cancel(); }
    void advance(std::uint64_t until) {
        now_ = until;
        tvec::manual_clock::set(point(until));
        wheel_.run();
    }
    std::uint64_t next_wakeup() {
        const auto wakeup = wheel_.next_wakeup();
        return wakeup ? tick_of(*wakeup) : tvec::never;
    }

private:
    static timers::time_point point(std::uint64_t tick) {
        return timers::time_point(std::chrono::milliseconds(tick));
    }
    static std::uint64_t tick_of(timers::time_point t) {
        return static_cast<std::uint64_t>(t.time_since_epoch() / std::chrono::milliseconds(1));
    }
    static timers begin() {
        tvec::manual_clock::set(point(start));
        return timers();
    }

    std::uint64_t now_ = start;
    timers wheel_ = begin();  // its tick 0 is the start
};

}  // namespace bench
