#include "clock.hpp"
#include "tvec/drivers/timerfd_alarm.hpp"

int tvec_timerfd_init(tvec_timerfd* alarm, tvec_wheel* wheel, const tvec_clock* clock) {
    *alarm = {wheel, clock, tvec::c::not_set, -1};
    return tvec::c::result_of(tvec::detail::open_alarm(tvec::c::alarm_clock_of(*clock), alarm->fd));
}

void tvec_timerfd_destroy(tvec_timerfd* alarm) { tvec::detail::close_alarm(alarm->fd); }

int tvec_timerfd_rearm(tvec_timerfd* alarm) {
    const auto set = [=](auto time) { return tvec::detail::set_alarm(alarm->fd, true, time); };
    return tvec::c::result_of(tvec::c::only_earlier(*alarm, true, set));
}

int tvec_timerfd_acknowledge(tvec_timerfd* alarm) {
    const auto rang = tvec::detail::silence_alarm(alarm->fd);
    if (rang.yes) alarm->set_for = tvec::c::not_set;
    return tvec::c::answer_of(rang);
}
