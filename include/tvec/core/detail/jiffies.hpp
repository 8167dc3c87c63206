/// \file
/// The time of a wheel: ticks, and the tick that never comes.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <cassert>
#include <cstdint>
#include <type_traits>

namespace tvec {

/// A point in time or a duration, in ticks of a wheel. 63 bits are used.
using jiffies = std::uint64_t;

/// The tick that never comes. `advance` stops before it, and longer delays saturate at it.
inline constexpr jiffies never = (jiffies{1} << 63) - 1;

namespace detail {

/// Returns the tick that is `delay` after `from`, saturating at `never`. Requires from <= never.
constexpr jiffies later(jiffies from, jiffies delay) noexcept {
    assert(from <= never && "a tick is at most `never`");
    return delay < never - from ? from + delay : never;
}

/// Converts an integer, with a cast only where that changes the type: compilers can warn of others.
template <class To, class From> constexpr To narrow_to(From value) noexcept {
    if constexpr (std::is_same_v<To, From>)
        return value;
    else
        return static_cast<To>(value);
}

/// Returns how many whole periods after `due` have passed at `reached`; 0 before `due`. Requires
/// period > 0.
constexpr jiffies missed_by(jiffies reached, jiffies due, jiffies period) noexcept {
    assert(period > 0 && "a period has at least one tick");
    return reached < due ? 0 : (reached - due) / period;
}

}  // namespace detail

}  // namespace tvec
