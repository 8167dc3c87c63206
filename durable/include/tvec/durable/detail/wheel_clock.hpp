/// \file
/// The clock of a wheel, as the engine of durable timers sees it.
#pragma once

#include <chrono>
#include <functional>

#include "tvec/core/timer.hpp"

namespace tvec::durable::detail {

/// The clock of a wheel.
struct wheel_clock {
    std::function<jiffies(std::chrono::microseconds)> tick_after;  ///< the tick that ends a delay
    std::function<std::chrono::microseconds()> reading;            ///< steady, from any origin
};

}  // namespace tvec::durable::detail
