/// \file
/// The rule of all alarms: they only move earlier.
#pragma once

#include "tvec/drivers/detail/kernel_result.hpp"

namespace tvec::detail {

/// Sets an alarm by set(), unless it is already set for `wakeup` or earlier. Returns the result of
/// set(), or success if there was nothing to do. `set_for` is the time of the alarm. A failure of
/// set() leaves it unchanged.
template <class Time, class Set> kernel_result only_earlier(Time& set_for, Time wakeup, Set set) {
    if (wakeup >= set_for) return {};
    const kernel_result moved = set();
    if (moved.yes) set_for = wakeup;
    return moved;
}

}  // namespace tvec::detail
