// A wheel in a loop on systemd's sd-event, which stays as it is. A prepare callback sets the alarm
// before each sleep. The wheel runs after each, in a post source. A timer source of sd-event would
// have to be moved for each wake-up, too, and is coalesced with others by default.
#include <sys/epoll.h>
#include <systemd/sd-event.h>

#include <memory>

#include "conversation.hpp"
#include "mailbox.hpp"

namespace {

struct program {
    example::timers timers;
    example::conversation talk{timers};
    tvec::timerfd_alarm<example::timers> alarm{timers};
    example::mailbox mailbox{timers, 4};
};

program& program_of(void* p) { return *static_cast<program*>(p); }

void check(int result) {
    if (result < 0) throw std::system_error(-result, std::system_category(), "sd-event");
}

int before_sleep(sd_event_source*, void* p) {
    program_of(p).alarm.rearm();
    return 0;
}
int on_alarm(sd_event_source*, int, std::uint32_t, void* p) {
    program_of(p).alarm.acknowledge();
    return 0;
}
// Called when any other source has been dispatched, the alarm among them.
int after_sleep(sd_event_source* s, void* p) {
    program_of(p).timers.run(256);
    return program_of(p).talk.over() ? sd_event_exit(sd_event_source_get_event(s), 0) : 0;
}

int on_socket(sd_event_source*, int, std::uint32_t, void* p) {
    program_of(p).talk.on_readable();
    return 0;
}
int on_mail(sd_event_source*, int, std::uint32_t, void* p) {
    program_of(p).mailbox.on_readable();  // takes in what other threads have sent
    return 0;
}

}  // namespace

int main() {
    program p;
    p.talk.let_in(p.mailbox.sender());
    sd_event* made = nullptr;
    check(sd_event_new(&made));
    const std::unique_ptr<sd_event, decltype(&sd_event_unref)> loop(made, sd_event_unref);
    sd_event_source* ring = nullptr;
    check(sd_event_add_io(loop.get(), &ring, p.alarm.fd(), EPOLLIN, on_alarm, &p));
    check(sd_event_source_set_prepare(ring, before_sleep));
    check(sd_event_add_post(loop.get(), nullptr, after_sleep, &p));
    check(sd_event_add_io(loop.get(), nullptr, p.talk.fd(), EPOLLIN, on_socket, &p));
    check(sd_event_add_io(loop.get(), nullptr, p.mailbox.fd(), EPOLLIN, on_mail, &p));
    check(sd_event_loop(loop.get()));
    sd_event_source_unref(ring);
    return p.talk.verdict("sd-event");
}
