// Accepts connections at a listening socket, and leaves descriptors to others.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <utility>

#include "loop.hpp"

namespace timers_tool {

// Returns true if one more connection leaves a descriptor to the rest of the process.
inline bool has_descriptors(int any) {
    const example::descriptor first(fcntl(any, F_DUPFD_CLOEXEC, 0));
    const example::descriptor second(fcntl(any, F_DUPFD_CLOEXEC, 0));
    return second.get() >= 0;
}

// Hands over the descriptors of new connections. While there is no room for more, or the process
// has no descriptor left, it accepts none and has an older connection closed. If there is none it
// looks ten times a second, and leaves the processor to others.
class acceptor {
public:
    // A connection whose request is not whole is closed for a new one at this age, and no sooner:
    // its request may be on the way.
    static constexpr std::chrono::milliseconds grace{100};

    // `take` becomes the owner of a descriptor, which does not block. `is_full` is true while no
    // more connections are wanted. `make_room` closes the oldest connection whose request is not
    // whole, if it is older than `grace`, and returns whether it has. The socket outlives this
    // object.
    acceptor(loop& in, int listening, std::function<void(int)> take, std::function<bool()> is_full,
             std::function<bool()> make_room)
        : in_(in), listening_(listening), take_(std::move(take)), is_full_(std::move(is_full)),
          make_room_(std::move(make_room)) {
        in_.watch(listening_, EPOLLIN, [this](auto) { accept_all(); });
    }
    acceptor(const acceptor&) = delete;
    acceptor& operator=(const acceptor&) = delete;
    ~acceptor() { in_.forget(listening_); }

private:
    void accept_all() {
        while (!is_full_()) {
            const int fd = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
            if (fd >= 0) {
                take_(fd);
                continue;
            }
            if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return;
            break;
        }
        if (!has_someone_waiting() || make_room_()) return;  // the next turn accepts
        in_.change(listening_, 0);
        in_.wheel().arm_after(again_, grace);
    }
    // Without a descriptor left accept4 fails also if nobody waits.
    bool has_someone_waiting() const {
        pollfd listener{listening_, POLLIN, 0};
        return poll(&listener, 1, 0) > 0;
    }
    void on_again() { in_.change(listening_, EPOLLIN); }

    loop& in_;
    const int listening_;
    const std::function<void(int)> take_;
    const std::function<bool()> is_full_, make_room_;
    tvec::timer again_{tvec::call<&acceptor::again_, &acceptor::on_again>};
};

}  // namespace timers_tool
