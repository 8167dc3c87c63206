// A wheel in a loop on libevent, turn by turn with EVLOOP_ONCE. An event with a timeout could carry
// the wake-up, but it is measured from a clock that the base has cached. It is also rounded to
// epoll's milliseconds unless the base has EVENT_BASE_FLAG_PRECISE_TIMER.
#include <event2/event.h>

#include <memory>
#include <stdexcept>

#include "conversation.hpp"
#include "mailbox.hpp"

namespace {

using alarm_type = tvec::timerfd_alarm<example::timers>;
using base_pointer = std::unique_ptr<event_base, decltype(&event_base_free)>;
using event_pointer = std::unique_ptr<event, decltype(&event_free)>;

void on_alarm(evutil_socket_t, short, void* alarm) {
    static_cast<alarm_type*>(alarm)->acknowledge();
}

void on_socket(evutil_socket_t, short, void* talk) {
    static_cast<example::conversation*>(talk)->on_readable();
}

void on_mail(evutil_socket_t, short, void* mailbox) {
    static_cast<example::mailbox*>(mailbox)->on_readable();
}

event_pointer watch(event_base* base, int fd, event_callback_fn call, void* argument) {
    event_pointer e(event_new(base, fd, EV_READ | EV_PERSIST, call, argument), event_free);
    if (!e || event_add(e.get(), nullptr) != 0) throw std::runtime_error("libevent: no event");
    return e;
}

}  // namespace

int main() {
    example::timers timers;
    example::conversation talk(timers);
    example::mailbox mailbox(timers, 4);
    talk.let_in(mailbox.sender());
    alarm_type alarm(timers);
    const base_pointer base(event_base_new(), event_base_free);
    if (!base) throw std::runtime_error("libevent: no base");
    const event_pointer ring = watch(base.get(), alarm.fd(), on_alarm, &alarm);
    const event_pointer socket = watch(base.get(), talk.fd(), on_socket, &talk);
    const event_pointer mail = watch(base.get(), mailbox.fd(), on_mail, &mailbox);
    while (!talk.over()) {
        alarm.rearm();  // the last thing before the sleep
        if (event_base_loop(base.get(), EVLOOP_ONCE) < 0)
            throw std::runtime_error("libevent: the loop failed");
        timers.run(256);  // always, whatever woke us
    }
    return talk.verdict("libevent");
}
