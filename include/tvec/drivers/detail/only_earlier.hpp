/// \file
/// The rule that all alarms keep: they only move earlier.
#pragma once

#include "tvec/drivers/detail/kernel_result.hpp"

namespace tvec::detail {

/// Sets an alarm for `wakeup` by set(), unless it is set for that time or an earlier one. `set_for`
/// is the time that the alarm is set for, and is unchanged if set() fails. Returns the result of
/// set(), or success if there was nothing to do.
template <class Time, class Set> kernel_result only_earlier(Time& set_for, Time wakeup, Set set) {
    if (wakeup >= set_for) return {};
    const kernel_result moved = set();
    if (moved.yes) set_for = wakeup;
    return moved;
}

}  // namespace tvec::detail
