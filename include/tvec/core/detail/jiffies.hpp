/// \file
/// The time of a wheel: ticks, the tick that never comes, and numbers of ticks as parameters.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <cassert>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "tvec/core/detail/wants.hpp"

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

/// A type that counts ticks: an integer of at most 64 bits, or a class that unary plus turns into
/// one.
template <class N>
concept integer = requires(const N& n) {
    { +n } -> std::integral;
    requires sizeof(+n) <= sizeof(jiffies);
};
template <class T>
concept no_integer = !integer<T>;

}  // namespace detail

/// The type of tick parameters: any integer converts to it, and any class that unary plus turns
/// into an integer. A negative number counts as 0: a point in time that has passed, or no delay.
/// Passing a jiffies is free. Passing a signed variable costs a comparison.
class tick_count {
public:
    /// Holds `n`, or 0 if `n` is negative. `n` is passed by value: a static member needs no
    /// definition.
    template <detail::integer N>
    requires std::is_scalar_v<N>
    constexpr tick_count(N n) noexcept : ticks_(static_cast<jiffies>(+n)) {
        if constexpr (std::signed_integral<decltype(+n)>)
            if (+n < 0) ticks_ = 0;
    }
    /// Does the same for a std::atomic, a std::integral_constant and the like.
    template <detail::integer N>
    requires std::is_class_v<N>
    constexpr tick_count(const N& n) noexcept : tick_count(+n) {}
    tick_count(const detail::no_integer auto&) TVEC_WANTS("whole ticks; durations: clocked_wheel");

    /// Returns the number of ticks.
    constexpr operator jiffies() const noexcept { return ticks_; }

private:
    jiffies ticks_;
};

}  // namespace tvec
