/// \file
/// The number by which a timer tells the wheel it hangs in.
#pragma once

#include <cstdint>

#include "tvec/core/detail/chain.hpp"

namespace tvec::detail {

/// A number that no other wheel alive in the process has. The process may contain several copies
/// of the library, and hidden symbols may separate them. They share only the C library, whose keys
/// of thread-specific data are numbers. A copy holds one key for every 61 of its wheels that are
/// alive, at most 64 keys, and derives the numbers from it. With TVEC_TAGGED_ADDRESSES numbers have
/// 8 bits: a copy then holds one key for every 5 wheels, at most 32.
///
/// Where there is no key left, wheels share a number: for them every re-arm relinks the timer,
/// which is right for any wheel. Claiming and releasing may be done from any thread.
class wheel_number {
public:
    wheel_number() noexcept;
    ~wheel_number();
    wheel_number(const wheel_number&) = delete;
    wheel_number& operator=(const wheel_number&) = delete;

    /// The tag of what hangs in the wheel.
    owner_tag tag() const noexcept { return owner_tag{number_} << owner_shift; }

    /// The number by which the wheel knows for sure what hangs in it.
    std::uint16_t in_place() const noexcept { return number_ == shared ? unused : number_; }

    static constexpr std::uint16_t nobody = 0;  ///< tags what hangs in no wheel
    static constexpr std::uint16_t shared = most_owners;
    static constexpr std::uint16_t unused = shared - 1;

private:
    std::uint16_t number_;
};

}  // namespace tvec::detail
