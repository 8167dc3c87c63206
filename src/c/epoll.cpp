#include "clock.hpp"
#include "tvec/drivers/detail/epoll_wait.hpp"

int tvec_epoll_wait(int epoll, epoll_event* events, int most, tvec_wheel* wheel,
                    const tvec_clock* clock) {
    tvec::detail::note_sleep(wheel);
    int ready = 0;
    const auto limit = tvec::c::time_to_wakeup(wheel, *clock);
    const auto waited = tvec::detail::wait_on_epoll(epoll, events, most, limit, ready);
    return waited.error != 0 ? -waited.error : ready;
}
