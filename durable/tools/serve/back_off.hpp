// The pauses between attempts to reach a destination that is away.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace timers_tool {

class back_off {
public:
    std::chrono::milliseconds next() { return std::exchange(next_, std::min(2 * next_, longest)); }
    void reset() { next_ = shortest; }

private:
    static constexpr std::chrono::milliseconds shortest{50}, longest{2'000};
    std::chrono::milliseconds next_ = shortest;
};

}  // namespace timers_tool
