/// \file
/// The number by which a timer tells the wheel it hangs in.
#pragma once

#include <cstdint>

#include "tvec/detail/core/chain.hpp"

namespace tvec::detail {

/// A number that no other wheel alive has, as long as there are at most 65533 of them. Those
/// beyond share one: for them every re-arm relinks the timer, which is right for any wheel.
/// Claiming and releasing are lock-free and may be done from any thread.
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
    static constexpr std::uint16_t unused = 0xfffe;
    static constexpr std::uint16_t shared = 0xffff;

private:
    std::uint16_t number_;
};

}  // namespace tvec::detail
