// Accepts connections at a listening socket.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <utility>

#include "loop.hpp"

namespace timers_tool {

// Hands over the descriptors of new connections. While the process has no descriptor left, it
// accepts none, asks ten times a second for room, and leaves the processor to others.
class acceptor {
public:
    // `take` becomes the owner of a descriptor, which does not block. `make_room` closes the oldest
    // connection whose request is not whole, if there is one. The socket outlives this object.
    acceptor(loop& in, int listening, std::function<void(int)> take,
             std::function<void()> make_room)
        : in_(in), listening_(listening), take_(std::move(take)), make_room_(std::move(make_room)) {
        in_.watch(listening_, EPOLLIN, [this](auto) { accept_all(); });
    }
    acceptor(const acceptor&) = delete;
    acceptor& operator=(const acceptor&) = delete;
    ~acceptor() { in_.forget(listening_); }

private:
    void accept_all() {
        int fd;
        while ((fd = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
            take_(fd);
        if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return;
        make_room_();
        in_.change(listening_, 0);
        in_.wheel().arm_after(again_, std::chrono::milliseconds(100));
    }
    void on_again() { in_.change(listening_, EPOLLIN); }

    loop& in_;
    const int listening_;
    const std::function<void(int)> take_;
    const std::function<void()> make_room_;
    tvec::timer again_{tvec::call<&acceptor::again_, &acceptor::on_again>};
};

}  // namespace timers_tool
