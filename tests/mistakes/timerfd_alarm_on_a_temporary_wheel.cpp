// says: a wheel that outlives it
// lines: 5
#include "tvec/drivers/timerfd_alarm.hpp"

tvec::timerfd_alarm wake_up(tvec::clocked_wheel<>{});
