// Datagrams between two ends on the loopback, each end received and sent by a ring of its own.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cstdint>
#include <utility>

#include "../support/descriptors.hpp"
#include "../support/ring.hpp"

namespace example {

// A message. `kind` is the sender's: it comes back in the answer, as the number does.
struct datagram {
    enum class kind : std::uint64_t { call, heartbeat };
    kind what;
    std::uint64_t number;
};

namespace detail {

inline descriptor bound_socket(sockaddr_in& address) {
    descriptor s(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (s.get() < 0) fail("cannot make a socket");
    address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    if (::bind(s.get(), generic, size) != 0 || ::getsockname(s.get(), generic, &size) != 0)
        fail("cannot bind a socket to the loopback");
    return s;
}

inline void connect(const descriptor& s, const sockaddr_in& to) {
    if (::connect(s.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
        fail("cannot connect on the loopback");
}

}  // namespace detail

// Two UDP sockets on free ports that only hear each other.
inline std::pair<descriptor, descriptor> connected_sockets() {
    sockaddr_in first_address, second_address;
    descriptor first = detail::bound_socket(first_address);
    descriptor second = detail::bound_socket(second_address);
    detail::connect(first, second_address);
    detail::connect(second, first_address);
    return {std::move(first), std::move(second)};
}

// Keeps one receive in a ring, with `tag`. Its buffer must live until the receive has completed,
// which `stop` brings about.
class receiver {
public:
    receiver(ring& r, int socket, std::uint64_t tag) : ring_(r), socket_(socket), tag_(tag) {
        receive();
    }

    // Calls handle(datagram) if one has come, and receives the next.
    template <class F> void complete(int result, F handle) {
        in_flight_ = false;
        const datagram got = buffer_;
        if (stopping_) return;
        receive();
        if (result == sizeof got) handle(got);
    }

    void stop() {
        stopping_ = true;
        ::shutdown(socket_, SHUT_RDWR);
    }
    bool in_flight() const { return in_flight_; }

private:
    void receive() {
        in_flight_ = true;
        ring_.queue(tag_, io_uring_prep_recv, socket_, &buffer_, sizeof buffer_, 0);
    }

    ring& ring_;
    int socket_;
    std::uint64_t tag_;
    bool in_flight_ = false;
    bool stopping_ = false;
    datagram buffer_{};
};

}  // namespace example
