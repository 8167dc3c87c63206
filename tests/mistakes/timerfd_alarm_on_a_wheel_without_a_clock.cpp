// says: timerfd_alarm rings for a tvec::clocked_wheel
// lines: 3
#include "tvec/drivers/timerfd_alarm.hpp"

tvec::timer_wheel w;
tvec::timerfd_alarm wake_up(w);
