// A wheel in a loop on libev: three watchers, and ev_run stays as it is. Before each sleep the
// alarm is set, after each the wheel runs. Other threads wake it by an ev_async.
#include <ev.h>

#include "conversation.hpp"

namespace {

struct program {
    example::timers timers;
    example::conversation talk{timers};
    tvec::timerfd_alarm<example::timers> alarm{timers};
    struct ev_loop* loop = ev_loop_new(EVFLAG_AUTO);
    ev_async mail;
    tvec::mailbox<> mailbox{timers, 4, [this] { ev_async_send(loop, &mail); }};
};

program& program_of(struct ev_loop* loop) { return *static_cast<program*>(ev_userdata(loop)); }

void on_alarm(struct ev_loop* loop, ev_io*, int) { program_of(loop).alarm.acknowledge(); }
void before_sleep(struct ev_loop* loop, ev_prepare*, int) { program_of(loop).alarm.rearm(); }

void after_sleep(struct ev_loop* loop, ev_check*, int) {
    program_of(loop).timers.run(256);  // always, whatever woke us
    if (program_of(loop).talk.over()) ev_break(loop, EVBREAK_ALL);
}

void on_socket(struct ev_loop* loop, ev_io*, int) { program_of(loop).talk.on_readable(); }
void on_mail(struct ev_loop* loop, ev_async*, int) {
    program_of(loop).mailbox.run();    // takes in what other threads have sent
    program_of(loop).mailbox.rearm();  // the next of them rings again
}

// libev sets the members of a watcher by macros that cast as C does.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wextra"
struct watchers {
    explicit watchers(program& p) {
        ev_io_init(&ring, on_alarm, p.alarm.fd(), EV_READ);
        ev_io_init(&socket, on_socket, p.talk.fd(), EV_READ);
        ev_prepare_init(&before, before_sleep);
        ev_check_init(&after, after_sleep);
        ev_set_priority(&after, EV_MINPRI);  // after what the sleep has brought
        ev_async_init(&p.mail, on_mail);
        ev_io_start(p.loop, &ring);
        ev_io_start(p.loop, &socket);
        ev_prepare_start(p.loop, &before);
        ev_check_start(p.loop, &after);
        ev_async_start(p.loop, &p.mail);
    }
    ev_io ring, socket;
    ev_prepare before;
    ev_check after;
};
#pragma GCC diagnostic pop

}  // namespace

int main() {
    program p;
    if (!p.loop) throw std::runtime_error("libev: no loop");
    ev_set_userdata(p.loop, &p);
    const watchers w(p);
    p.mailbox.rearm();
    p.talk.let_in(p.mailbox.sender());
    ev_run(p.loop, 0);
    ev_loop_destroy(p.loop);
    return p.talk.verdict("libev");
}
