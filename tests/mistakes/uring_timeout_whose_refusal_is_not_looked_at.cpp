// says: nodiscard
// lines: 2
#include "tvec/drivers/uring_timeout.hpp"

void serve(tvec::uring_timeout<tvec::clocked_wheel<>>& alarm) { alarm.prepare(); }
