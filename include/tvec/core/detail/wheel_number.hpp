/// \file
/// The number that tells a timer which wheel it hangs in.
#pragma once

#include <cstdint>

#include "tvec/core/detail/chain.hpp"

namespace tvec::detail {

/// A number that no other wheel alive in the process has. The process may contain several copies
/// of the library with hidden symbols. The copies share only the C library, which gives out keys of
/// thread-specific data, as numbers. Each copy reserves one key for every 61 of its live wheels, at
/// most 64 keys, and derives the numbers of its wheels from them. With TVEC_TAGGED_ADDRESSES
/// numbers have 8 bits: one key for every 5 wheels, at most 32 keys.
///
/// If no key is left, wheels share a number. Every re-arm on them relinks the timer, which is right
/// for any wheel. Any thread may reserve and release a number.
class wheel_number {
public:
    wheel_number() noexcept;
    ~wheel_number();
    wheel_number(const wheel_number&) = delete;
    wheel_number& operator=(const wheel_number&) = delete;

    /// Returns the tag of the timers in this wheel.
    owner_tag tag() const noexcept { return owner_tag{number_} << owner_shift; }

    /// Returns the number that only links of this wheel carry; `unused` if wheels share it.
    std::uint16_t in_place() const noexcept { return number_ == shared ? unused : number_; }

    static constexpr std::uint16_t nobody = 0;  ///< tags links that hang in no wheel
    static constexpr std::uint16_t shared = most_owners;
    static constexpr std::uint16_t unused = shared - 1;

private:
    std::uint16_t number_;
};

}  // namespace tvec::detail
