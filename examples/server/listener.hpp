// Listening for connections, and accepting them.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include "../support/descriptors.hpp"
#include "../support/program.hpp"
#include "../support/ring.hpp"

namespace example {

class listener {
public:
    // Port 0: any free one.
    listener(const std::string& address, std::uint16_t port)
        : address_(address), socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in where{};
        where.sin_family = AF_INET;
        where.sin_port = htons(port);
        if (inet_pton(AF_INET, address.c_str(), &where.sin_addr) != 1)
            throw std::runtime_error("not an IPv4 address: " + address);
        if (socket_.get() < 0) fail("cannot make a socket");
        const int on = 1;
        setsockopt(fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        socklen_t size = sizeof where;
        auto* const generic = reinterpret_cast<sockaddr*>(&where);
        if (::bind(fd(), generic, size) != 0 || ::listen(fd(), SOMAXCONN) != 0)
            fail(fmt::format("cannot listen on {}:{}", address, port));
        getsockname(fd(), generic, &size);
        port_ = ntohs(where.sin_port);
    }

    int fd() const { return socket_.get(); }
    std::uint16_t port() const { return port_; }

    // Says where it listens, and writes the port to a file, if one is named.
    void announce(const std::string& port_file) const {
        fmt::print("listening on {}:{}\n", address_, port_);
        flush_output();
        if (port_file.empty()) return;
        output_file file(port_file);
        fmt::print(file.get(), "{}\n", port_);
        file.finish();
    }

private:
    std::string address_;
    descriptor socket_;
    std::uint16_t port_ = 0;
};

// Keeps an accept in a ring, with `tag`: one for all connections where the kernel can.
class acceptor {
public:
    acceptor(ring& r, const listener& l, std::uint64_t tag) : ring_(r), fd_(l.fd()), tag_(tag) {
        accept();
    }

    // Does nothing if it is in the ring. After an error it is not: to be called now and then.
    void accept() {
        if (accepting_ || stopping_) return;
        has_room_ = false;
        const auto prepare = multishot_ ? io_uring_prep_multishot_accept : io_uring_prep_accept;
        ring_.queue(tag_, prepare, fd_, nullptr, nullptr, SOCK_CLOEXEC);
        accepting_ = true;
    }

    // A descriptor of this program has been closed: if there was none left, there is one now.
    void closed_one() {
        has_room_ = true;
        accept();
    }

    // Returns the new connection's socket, or a negative number.
    int complete(int result, bool more) {
        accepting_ = more;
        if (result == -EINVAL && multishot_)
            multishot_ = false;  // an older kernel: one request per connection
        else if (result < 0 && result != -ECONNABORTED && !has_room_)
            return result;  // no descriptors, say: when one has been closed, or later
        accept();
        return result;
    }

    // Takes it out of the ring. There will be a completion with `tag`, to be ignored.
    void stop(std::uint64_t tag) {
        stopping_ = true;
        ring_.queue(tag, io_uring_prep_cancel64, tag_, 0);
    }
    bool accepting() const { return accepting_; }

private:
    ring& ring_;
    int fd_;
    std::uint64_t tag_;
    bool multishot_ = true;
    bool accepting_ = false;
    bool has_room_ = false;  // a descriptor has been closed since it was put in the ring
    bool stopping_ = false;
};

}  // namespace example
