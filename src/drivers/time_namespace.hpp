// A check for time namespaces: their clocks are not those of the machine.
#pragma once

namespace tvec::detail {

// Returns whether this process lives, or may live, in a time namespace with clock offsets. Up to
// Linux 7.0 io_uring reads points in time by the clocks of the machine, even there.
bool may_live_in_shifted_time();

}  // namespace tvec::detail
