// A wheel in a loop on libuv: four handles around an unchanged uv_run. The alarm is set before each
// sleep, and the wheel runs after it. A uv_timer_t could carry the wake-up without a system call,
// but it counts in whole milliseconds from the loop's cached time. Other threads wake the loop by a
// uv_async_t.
#include <uv.h>

#include "conversation.hpp"

namespace {

void check(int result) {
    if (result < 0) throw std::runtime_error(uv_strerror(result));
}

struct program {
    example::timers timers;
    example::conversation talk{timers};
    tvec::timerfd_alarm<example::timers> alarm{timers};
    uv_poll_t ring, socket;
    uv_prepare_t before;
    uv_check_t after;
    uv_async_t mail;
    tvec::mailbox<> mailbox{timers, 4, [this] { uv_async_send(&mail); }};
};

template <class Handle> program& program_of(Handle* h) { return *static_cast<program*>(h->data); }

void on_alarm(uv_poll_t* h, int, int) { program_of(h).alarm.acknowledge(); }
void on_socket(uv_poll_t* h, int, int) { program_of(h).talk.on_readable(); }
void before_sleep(uv_prepare_t* h) { program_of(h).alarm.rearm(); }

void after_sleep(uv_check_t* h) {
    program_of(h).timers.run(256);  // always, whatever woke us
    if (program_of(h).talk.over()) uv_stop(h->loop);
}

// [mail]
void on_mail(uv_async_t* h) {
    program_of(h).mailbox.run();    // takes in what other threads have sent
    program_of(h).mailbox.rearm();  // the next of them rings again
}
// [mail]

}  // namespace

int main() {
    program p;
    uv_loop_t loop;
    check(uv_loop_init(&loop));
    check(uv_poll_init(&loop, &p.ring, p.alarm.fd()));
    check(uv_poll_init(&loop, &p.socket, p.talk.fd()));
    check(uv_prepare_init(&loop, &p.before));
    check(uv_check_init(&loop, &p.after));
    check(uv_async_init(&loop, &p.mail, on_mail));
    p.ring.data = p.socket.data = p.before.data = p.after.data = p.mail.data = &p;
    check(uv_poll_start(&p.ring, UV_READABLE, on_alarm));
    check(uv_poll_start(&p.socket, UV_READABLE, on_socket));
    check(uv_prepare_start(&p.before, before_sleep));
    check(uv_check_start(&p.after, after_sleep));
    p.mailbox.rearm();
    p.talk.let_in(p.mailbox.sender());
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_walk(
        &loop, [](uv_handle_t* h, void*) { uv_close(h, nullptr); }, nullptr);
    uv_run(&loop, UV_RUN_DEFAULT);  // closes them
    check(uv_loop_close(&loop));
    return p.talk.verdict("libuv");
}
