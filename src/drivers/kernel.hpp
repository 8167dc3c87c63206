// Helpers of the drivers for system calls: their times and their errors.
#pragma once

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <limits>

#include "tvec/drivers/detail/kernel_result.hpp"

namespace tvec::detail {

// Upper bound of one sleep. Longer sleeps are cut into pieces, because no kernel need be trusted
// with them, and because a wait does not notice that the clock of the wheel is set.
inline constexpr std::chrono::nanoseconds longest_sleep = std::chrono::hours(1);

// Returns an error for a feature that cannot work here, with the reason.
inline kernel_result refused(const char* why) { return {false, EOPNOTSUPP, why}; }

inline kernel_result failed(int error, const char* tried) {
    assert(error > 0 && "an error is a positive errno value");
    return {false, error, tried};
}

inline kernel_result answer(bool yes) { return {yes, 0, nullptr}; }

// Returns whether submitting or waiting ended for a reason that reactors expect.
inline bool is_normal(int error) {
    return error == ETIME || error == EINTR || error == EAGAIN || error == EBUSY;
}

// Converts a time. Where seconds have 32 bits, it is clamped to 68 years.
template <class Timespec> Timespec timespec_of(std::chrono::nanoseconds time) {
    assert(time >= time.zero() && "the kernel takes no negative times");
    using count = decltype(Timespec::tv_sec);
    const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
    Timespec spec{};
    spec.tv_sec = static_cast<count>(
        std::min<std::int64_t>(seconds.count(), std::numeric_limits<count>::max()));
    spec.tv_nsec = static_cast<decltype(spec.tv_nsec)>((time - seconds).count());
    return spec;
}

}  // namespace tvec::detail
