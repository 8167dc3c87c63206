#include "control.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "../commands.hpp"
#include "../path_socket.hpp"

namespace timers_tool {

namespace {

constexpr std::size_t most_clients = 64;

}  // namespace

// A connection, from the request to the last byte of the answer.
struct control::client {
    client(int descriptor, std::chrono::steady_clock::time_point now)
        : fd(descriptor), since(now) {}

    example::descriptor fd;
    const std::chrono::steady_clock::time_point since;
    std::list<client>::iterator self;
    std::string received, unsent;
    settings asked;
    output out;
    std::optional<example::task<int>> running;
    bool is_answered = false, is_over = false;
};

control::control(loop& in, std::string path, view& v)
    : loop_(in), path_(std::move(path)), view_(v), listener_(listening_at(path_)),
      acceptor_(
          loop_, listener_.get(), [this](int fd) { take(fd); },
          [this] { return clients_.size() >= most_clients; }, [this] { return make_room(); }) {}

control::~control() {
    for (client& c : clients_) loop_.forget(c.fd.get());
    unlink(path_.c_str());
}

void control::take(int fd) {
    client& c = clients_.emplace_back(fd, loop_.wheel().now());
    c.self = std::prev(clients_.end());
    c.out.take = [this, &c](output&) {
        send(c);
        return c.unsent.empty();
    };
    loop_.watch(fd, EPOLLIN, [this, &c](std::uint32_t events) { on_ready(c, events); });
}

// Closes the oldest connection whose request is not whole, if it has had its time. `run` does, in
// this turn of the loop.
bool control::make_room() {
    const auto half = std::ranges::find_if(
        clients_, [](const client& c) { return !c.is_over && !c.running && !c.is_answered; });
    if (half == clients_.end() || loop_.wheel().now() - half->since < acceptor::grace) return false;
    half->is_over = true;
    return true;
}

void control::on_ready(client& c, std::uint32_t events) {
    if ((events & (EPOLLHUP | EPOLLERR)) != 0) c.is_over = true;
    if (!c.is_over && (events & EPOLLIN) != 0) receive(c);
    if (c.is_over || (events & EPOLLOUT) == 0) return;
    send(c);
    if (c.unsent.empty()) c.out.taken();
}

void control::run() {
    for (auto next = clients_.begin(); next != clients_.end();) {
        client& c = *next++;
        if (!c.is_over) go_on(c);
        if (!c.is_over) continue;
        loop_.forget(c.fd.get());
        clients_.erase(c.self);
    }
}

void control::receive(client& c) {
    char part[65'536];
    const ssize_t got = recv(c.fd.get(), part, sizeof part, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0 || c.running) {  // it has gone, or says more than it should
        c.is_over = true;
        return;
    }
    c.received.append(part, static_cast<std::size_t>(got));
    try {
        if (const auto message = take_message(c.received)) begin(c, *message);
    } catch (const std::exception& e) {
        c.unsent += framed(std::string("e") + e.what());
        c.is_answered = true;
    }
}

void control::begin(client& c, const std::string& message) {
    c.asked = from_message(message);
    c.running = run_command(c.asked, view_, c.out);
    c.running->start();
}

// Queues the output so far, and the outcome once it is there.
void control::go_on(client& c) {
    if (!c.is_answered && c.running && c.running->done()) {
        send(c);  // takes the text
        c.is_answered = true;
        try {
            c.unsent += framed(fmt::format("x{}", c.running->result()));
        } catch (const std::exception& e) {
            c.unsent += framed(std::string("e") + e.what());
        }
    }
    if (!c.is_answered) return;
    send(c);
    c.is_over = c.is_over || c.unsent.empty();
}

void control::send(client& c) {
    for (std::string_view text = c.out.text; !text.empty();) {
        const auto part = text.substr(0, 65'536);
        c.unsent += framed(std::string("o").append(part));
        text.remove_prefix(part.size());
    }
    c.out.text.clear();
    while (!c.unsent.empty()) {
        const ssize_t sent = ::send(c.fd.get(), c.unsent.data(), c.unsent.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) {
            c.is_over = errno != EAGAIN;
            break;
        }
        c.unsent.erase(0, static_cast<std::size_t>(sent));
    }
    loop_.change(c.fd.get(), c.unsent.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

}  // namespace timers_tool
