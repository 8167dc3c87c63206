// One client of an echo server. It has an idle timeout, which every read pushes back, and a write
// timeout.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdint>

#include <fmt/format.h>

#include "../support/command_line.hpp"
#include "../support/descriptors.hpp"
#include "../support/ring.hpp"
#include "timer_books.hpp"
#include "tvec/clock/stall_watch.hpp"

namespace example {

struct echo_totals {
    std::uint64_t accepted = 0;
    std::uint64_t closed = 0;
    std::uint64_t echoes = 0;
    std::uint64_t unread = 0;  // of these: sent to clients that had stopped reading
    std::uint64_t bytes = 0;
    std::uint64_t idle_closes = 0;
    std::uint64_t write_closes = 0;
    std::uint64_t wakeups = 0;
    std::uint64_t leaked() const { return accepted - closed; }
};

// Prints the totals. Rates are per second of `seconds`.
inline void print_clients(const echo_totals& t, double seconds) {
    print_line("connections",
               fmt::format("{} accepted, {} closed, {} leaked", t.accepted, t.closed, t.leaked()));
    print_line("echoes", fmt::format("{}, {:.0f}/s, {:.1f} MB", t.echoes,
                                     static_cast<double>(t.echoes) / seconds,
                                     static_cast<double>(t.bytes) * 1e-6));
    print_line("not read", fmt::format("{} of these", t.unread));
    print_line("idle closes", t.idle_closes);
    print_line("stalled writes closed", t.write_closes);
}

inline void set_up_client(int fd) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const int small = 64 * 1024;  // so that a full buffer shows soon that the peer does not read
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
}

// The interface of the server for its connections.
struct echo_home {
    example::ring& ring;
    timer_books& books;
    const tvec::stall_watch<timers>& stalls;
    std::chrono::milliseconds idle;   // a connection that is silent for this long is closed
    std::chrono::milliseconds write;  // one that does not take its echo for this long, too
    time_point heard{};               // when the current batch of completions was reaped
    echo_totals count{};
    std::uint64_t next_tag = 1024;  // of a connection; smaller tags are the server's own
};

// One socket. It has exactly one operation in flight: a receive or a send. It lives until that
// has completed. Closing it shuts the socket down, which completes its request.
class connection {
public:
    connection(echo_home& home, int fd);
    ~connection();
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;

    // The user data of its requests, and its identity for others. A tag is never reused. An address
    // would be: then a late completion for a destroyed connection would reach a new one.
    std::uint64_t tag() const { return tag_; }
    void start() { receive(); }
    // Returns false when the connection is over and may be destroyed.
    bool complete(int result);
    void shut_down();
    void look_after();

private:
    void receive();
    void send();
    bool received(int result);
    bool sent(int result);
    void on_idle();
    void on_write_stalled();
    void cancel_timers();

    echo_home& home_;
    std::uint64_t tag_;
    descriptor socket_;
    std::uint64_t echoes_ = 0;
    bool sending_ = false;
    bool closing_ = false;
    std::uint32_t filled_ = 0;
    std::uint32_t written_ = 0;
    tvec::second_chance chance_;
    time_point idle_deadline_;
    time_point write_deadline_;
    tvec::timer idle_{tvec::call<&connection::idle_, &connection::on_idle>};
    tvec::timer write_{tvec::call<&connection::write_, &connection::on_write_stalled>};
    std::array<char, 2048> buffer_;
};

inline connection::connection(echo_home& home, int fd)
    : home_(home), tag_(home.next_tag++), socket_(fd) {
    set_up_client(fd);
    home_.books.arm_at(idle_, idle_deadline_, home_.heard + home_.idle);
}

inline connection::~connection() {
    cancel_timers();
    ++home_.count.closed;
    if (sending_) home_.count.unread += echoes_;
}

inline void connection::receive() {
    sending_ = false;
    home_.ring.queue(tag(), io_uring_prep_recv, socket_.get(), buffer_.data(), buffer_.size(), 0);
}

inline void connection::send() {
    sending_ = true;
    home_.ring.queue(tag(), io_uring_prep_send, socket_.get(), buffer_.data() + written_,
                     filled_ - written_, MSG_NOSIGNAL);
}

inline bool connection::complete(int result) { return sending_ ? sent(result) : received(result); }

inline bool connection::received(int result) {
    if (result <= 0 || closing_) return false;
    chance_.renew();
    filled_ = static_cast<std::uint32_t>(result);
    written_ = 0;
    home_.books.arm_at(idle_, idle_deadline_, home_.heard + home_.idle);  // a push-back: one store
    home_.books.arm_at(write_, write_deadline_, home_.heard + home_.write);
    send();
    return true;
}

inline bool connection::sent(int result) {
    if (result <= 0 || closing_) return false;
    home_.count.bytes += static_cast<std::uint64_t>(result);
    written_ += static_cast<std::uint32_t>(result);
    if (written_ < filled_) {
        send();
        return true;
    }
    home_.books.cancel(write_, write_deadline_);
    ++home_.count.echoes;
    ++echoes_;
    receive();
    return true;
}

inline void connection::on_idle() {
    home_.books.fired(idle_deadline_);
    // A stalled connection is not idle: the write timeout decides on it.
    if (sending_) return home_.books.arm(idle_, idle_deadline_, home_.idle);
    if (chance_.take(home_.stalls))  // once in a silence, if the loop was away itself
        return home_.books.arm(idle_, idle_deadline_, home_.stalls.grace());
    ++home_.count.idle_closes;
    shut_down();
}

inline void connection::on_write_stalled() {
    home_.books.fired(write_deadline_);
    if (chance_.take(home_.stalls))
        return home_.books.arm(write_, write_deadline_, home_.stalls.grace());
    ++home_.count.write_closes;
    shut_down();
}

// Not close(): a request in flight would survive it, and the descriptor could be reused.
inline void connection::shut_down() {
    closing_ = true;
    cancel_timers();
    ::shutdown(socket_.get(), SHUT_RDWR);
}

inline void connection::cancel_timers() {
    home_.books.cancel(idle_, idle_deadline_);
    home_.books.cancel(write_, write_deadline_);
}

inline void connection::look_after() {
    home_.books.look_after(idle_, idle_deadline_);
    home_.books.look_after(write_, write_deadline_);
}

}  // namespace example
