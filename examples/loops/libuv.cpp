// A wheel as a guest of libuv, around an unchanged uv_run. Other threads wake the loop by a
// uv_async_t.
#include <uv.h>

#include <stdexcept>

#include "conversation.hpp"
#include "tvec/guests/libuv_guest.hpp"

namespace {

void check(int result) {
    if (result < 0) throw std::runtime_error(uv_strerror(result));
}

struct program {
    explicit program(uv_loop_t& loop) : timers{&loop} {}

    tvec::libuv_guest<> timers;
    example::conversation talk{*timers};
    uv_poll_t socket;
    uv_async_t mail;
    tvec::mailbox<> mailbox{*timers, 4, [this] { uv_async_send(&mail); }};
};

template <class Handle> program& program_of(Handle* h) { return *static_cast<program*>(h->data); }

void on_socket(uv_poll_t* h, int, int) { program_of(h).talk.on_readable(); }

// [mail]
void on_mail(uv_async_t* h) {
    program_of(h).mailbox.run(128);  // takes in what other threads have sent
    program_of(h).mailbox.rearm();   // the next of them rings again
}
// [mail]

void close_all(uv_loop_t& loop) {
    const auto close = [](uv_handle_t* h, void*) {
        if (uv_is_closing(h) == 0) uv_close(h, nullptr);
    };
    uv_walk(&loop, close, nullptr);
    uv_run(&loop, UV_RUN_DEFAULT);
}

}  // namespace

int main() {
    uv_loop_t loop;
    check(uv_loop_init(&loop));
    int verdict = 1;
    {
        program p(loop);
        check(uv_poll_init(&loop, &p.socket, p.talk.fd()));
        check(uv_async_init(&loop, &p.mail, on_mail));
        p.socket.data = p.mail.data = &p;
        check(uv_poll_start(&p.socket, UV_READABLE, on_socket));
        p.mailbox.rearm();
        p.talk.let_in(p.mailbox.sender());
        p.talk.when_over([&] { uv_stop(&loop); });
        uv_run(&loop, UV_RUN_DEFAULT);
        close_all(loop);  // handles of the guest, too, which lives until they are closed
        verdict = p.talk.verdict("libuv");
    }
    check(uv_loop_close(&loop));
    return verdict;
}
