// Whether the clocks of this process are those of the machine.
#pragma once

namespace tvec::detail {

// Whether this process lives, or may live, in a time namespace with a clock of its own. Up to Linux
// 7.0 io_uring takes points in time for those of the machine, also there.
bool may_live_in_shifted_time();

}  // namespace tvec::detail
