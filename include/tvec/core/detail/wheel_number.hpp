/// \file
/// The number that tells a timer which wheel it hangs in.
#pragma once

#include <cstdint>

#include "tvec/core/detail/chain.hpp"

namespace tvec::detail {

/// A number that no other wheel alive has, among those of one copy of the library: the lowest free
/// one of 65 533, or of 253 with TVEC_TAGGED_ADDRESSES or TVEC_TINY_WHEEL. Copies with hidden
/// symbols do not know of each other. A timer that is linked in a wheel of one copy must not be
/// armed on a wheel of another.
///
/// If no number is left, wheels share one. Every re-arm on them relinks the timer, which is right
/// for any wheel. Any thread may reserve and release a number, unless the processor has no atomic
/// operations: O(numbers / bits of a word).
class wheel_number {
public:
    wheel_number() noexcept;
    ~wheel_number();
    wheel_number(const wheel_number&) = delete;
    wheel_number& operator=(const wheel_number&) = delete;

    /// Returns the tag of the timers in this wheel.
    wheel_tag tag() const noexcept { return wheel_tag{number_} << wheel_tag_shift; }

    /// Returns the number that only links of this wheel carry; `unused` if wheels share it.
    std::uint16_t in_place() const noexcept { return number_ == shared ? unused : number_; }

    static constexpr std::uint16_t nobody = 0;  ///< tags links that hang in no wheel
    static constexpr std::uint16_t shared = last_wheel_id;
    static constexpr std::uint16_t unused = shared - 1;

private:
    std::uint16_t number_;
};

}  // namespace tvec::detail
